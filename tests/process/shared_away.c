/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * shared_away.c: large messages for a shared receive context whose process is away: as in
 * overlap.c, its receives are shown to senders, each to one of them, at one member.
 */
#include "overlap.h"
#include "shared.h"

#include <stdlib.h>
#include <string.h>

#define TAG  5
#define MARK 9

/* All have sent something to each member. */
static void start_known(struct group *g, const struct t_opts *o)
{
	start_group(g, o);
	for (int m = 0; t_rank != 0 && m < MEMBERS; m++)
		T_TRY(fi_tinject(g->base.ep, NULL, 0, g->to[m], MARK));
	for (int i = 0; t_rank == 0 && i < MEMBERS * (t_nproc - 1); i++) {
		struct t_op op = {0};

		T_TRY(fi_trecv(g->srx, NULL, 0, NULL, FI_ADDR_UNSPEC, MARK, 0, &op));
		T_WAIT(&op);
	}
}

static void post_any(struct group *g, fi_addr_t src, struct t_buf *b, struct t_op *op)
{
	T_TRY(fi_trecv(g->srx, b->p, b->len, NULL, src, TAG, 0, op));
}

static void ship(struct group *g, int m, struct t_buf *b, size_t len, struct t_op *op)
{
	T_TRY(fi_tsend(g->base.ep, b->p, len, NULL, g->to[m], TAG, op));
}

/* --- alone --------------------------------------------------------------------- */

/* Four to one member, four to the other, and so on. Where the sender has turned to the other
 * the first one waits for its receiver; the others are expected there. */
static void served(bool one_source)
{
	enum { ROW = 4, ROWS = 4 };
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct group g;

	only_ours();
	start_known(&g, &o);
	for (int i = 0; i < ROW * ROWS; i++) {
		size_t len = sizes[(size_t)i % (NSIZES - 1)];
		bool expected = i % ROW || (one_source && !i);
		struct t_buf b = t_buf(len, (size_t)i);
		int m = i / ROW % MEMBERS;
		struct t_op op = {0};

		if (t_rank == 0) {
			t_blank(&b);
			post_any(&g, one_source ? g.from[1] : FI_ADDR_UNSPEC, &b, &op);
			away();
			away();
			if (expected)
				T_GOT(&b, len, (uint64_t)i);
			T_EQ(op.done, 0);
			T_WAIT(&op);
			T_GOT(&b, len, (uint64_t)i);
			T_EQ(op.c.src, g.from[1]);
			T_CHECK(op.c.node == &g.member[m], "in the other's queue");
		} else {
			t_fill(b.p, len, (uint64_t)i, 0);
			away();
			ship(&g, m, &b, len, &op);
			if (expected)
				T_WAIT(&op);
			away();
			T_WAIT(&op);
		}
		t_barrier();
		t_buf_free(&b);
	}
	finish_group(&g);
}

static void served_anybody(void)
{
	served(false);
}

static void served_directed(void)
{
	served(true);
}

/* A receive that is shown to rank 1 at the first member is taken by whoever comes first, and
 * by nobody else: rank 2's short message at the other member. */
static void wrong_guess(void)
{
	enum { LEN = 300000 };
	struct t_buf b[3] = {t_buf(LEN, 0), t_buf(LEN, 0), t_buf(LEN, 0)};
	struct t_op op[3] = {0}, tx = {0};
	struct group g;
	uint64_t v = 3;

	only_ours();
	start_known(&g, &(struct t_opts){.caps = FI_SOURCE});
	if (t_rank == 0) {
		for (int i = 0; i < 3; i++)
			t_blank(&b[i]);
		post_any(&g, FI_ADDR_UNSPEC, &b[0], &op[0]);
		t_barrier();
		T_WAIT(&op[0]); /* rank 1's, which is expected again */
		post_any(&g, FI_ADDR_UNSPEC, &b[1], &op[1]);
		post_any(&g, FI_ADDR_UNSPEC, &b[2], &op[2]);
		away();
		away(); /* rank 2 has sent */
		T_WAIT(&op[1]);
		T_EQ(op[1].c.src, g.from[2]);
		T_EQ(op[1].c.len, 8);
		T_CHECK(op[1].c.node == &g.member[1], "in the other's queue");
		T_EQ(op[2].done, 0);
		away();
		away(); /* rank 1 has sent */
		T_GOT(&b[2], LEN, 2);
		T_WAIT(&op[2]);
	} else {
		t_barrier();
		if (t_rank == 1) {
			t_fill(b[0].p, LEN, 1, 0);
			ship(&g, 0, &b[0], LEN, &tx);
			T_WAIT(&tx);
		}
		away();
		if (t_rank == 2)
			T_TRY(fi_tinject(g.base.ep, &v, 8, g.to[1], TAG));
		away();
		away();
		if (t_rank == 1) {
			tx.done = 0;
			t_fill(b[0].p, LEN, 2, 0);
			ship(&g, 0, &b[0], LEN, &tx);
			T_WAIT(&tx);
		}
		away();
	}
	finish_group(&g);
	for (int i = 0; i < 3; i++)
		t_buf_free(&b[i]);
}

/* --- members that close ------------------------------------------------------------ */

/* Of three receives shown at a member that closes the first has been claimed and ends with
 * it. The others are the context's as before, and the next message finds them. */
static void member_closes(void)
{
	enum { LEN = 200000 };
	struct t_buf b[4] = {t_buf(LEN, 0), t_buf(LEN, 0), t_buf(LEN, 0), t_buf(LEN, 0)};
	struct t_op op[4] = {0}, tx[4] = {0};
	struct group g;

	only_ours();
	start_known(&g, &(struct t_opts){.caps = FI_SOURCE});
	if (t_rank == 0) {
		for (int i = 0; i < 4; i++)
			t_blank(&b[i]);
		post_any(&g, FI_ADDR_UNSPEC, &b[0], &op[0]);
		t_barrier();
		T_WAIT(&op[0]);
		for (int i = 1; i < 4; i++)
			post_any(&g, FI_ADDR_UNSPEC, &b[i], &op[i]);
		away();
		away(); /* one is claimed, its bytes are there */
		T_GOT(&b[1], LEN, 1);
		T_OK(fi_close(&g.member[0].ep->fid));
		g.member[0].ep = NULL;
		T_WAIT_ERR(&op[1], FI_ECANCELED);
		T_EQ(op[2].done + op[3].done, 0);
		away();
		for (int i = 2; i < 4; i++) {
			T_WAIT(&op[i]);
			T_GOT(&b[i], LEN, (uint64_t)i);
			T_CHECK(op[i].c.node == &g.member[1], "in the other's queue");
		}
	} else {
		for (int i = 0; i < 4; i++)
			t_fill(b[i].p, LEN, (uint64_t)i, 0);
		t_barrier();
		ship(&g, 0, &b[0], LEN, &tx[0]);
		T_WAIT(&tx[0]);
		away();
		ship(&g, 0, &b[1], LEN, &tx[1]);
		T_WAIT(&tx[1]);
		away();
		away(); /* it is closed */
		for (int i = 2; i < 4; i++) {
			ship(&g, 1, &b[i], LEN, &tx[i]);
			T_WAIT(&tx[i]);
		}
	}
	finish_group(&g);
	for (int i = 0; i < 4; i++)
		t_buf_free(&b[i]);
}

/* --- everything at once --------------------------------------------------------------- */

#define WINDOW 6
#define MOST   265536

static struct t_rng rng;

static size_t stress_len(int from, int m, uint64_t k)
{
	struct t_rng r;

	t_rng_init(&r, 1000003 * k + 100 * (uint64_t)from + (uint64_t)m);
	return t_rand_below(&r, 3) ? 65536 + t_rand_below(&r, MOST - 65536)
				   : 24 + t_rand_below(&r, 20000);
}

static uint64_t stress_seed(const uint64_t *head)
{
	return 7919 * head[2] + 10 * head[0] + head[1];
}

/* Who sent it, to which member, which of those: it says so itself. */
static void stress_send(struct group *g, uint64_t each)
{
	uint64_t sent[MEMBERS] = {0};
	struct t_buf buf[WINDOW];
	struct t_op op[WINDOW];
	bool busy[WINDOW] = {false}, any = true;

	memset(op, 0, sizeof(op));
	for (int i = 0; i < WINDOW; i++)
		buf[i] = t_buf(MOST, 0);
	while (any || sent[0] + sent[1] < 2 * each) {
		int i = (int)t_rand_below(&rng, WINDOW), m = (int)t_rand_below(&rng, MEMBERS);
		uint64_t head[3] = {(uint64_t)t_rank, (uint64_t)m, sent[m]};

		if (op[i].done) {
			T_EQ(op[i].c.err, 0);
			busy[i] = false;
			op[i].done = 0;
		}
		if (!busy[i] && sent[m] < each) {
			size_t len = stress_len(t_rank, m, sent[m]);
			ssize_t rc;

			t_fill(buf[i].p, len, stress_seed(head), 0);
			memcpy(buf[i].p, head, sizeof(head));
			rc = fi_tsend(g->base.ep, buf[i].p, len, NULL, g->to[m], TAG, &op[i]);
			T_CHECK(!rc || rc == -FI_EAGAIN, "fi_tsend: %zd", rc);
			busy[i] = !rc;
			sent[m] += !rc;
		}
		absent(&rng);
		if (t_rand_below(&rng, 4))
			t_idle();
		any = false;
		for (int k = 0; k < WINDOW; k++)
			any |= busy[k];
	}
	for (int i = 0; i < WINDOW; i++)
		t_buf_free(&buf[i]);
}

/* last[from][member]: which came last, and in the how-manieth receive */
struct last {
	uint64_t k, number;
};

static void stress_check(struct group *g, struct incoming *in, struct last last[][MEMBERS])
{
	struct last *l;
	uint64_t head[3];

	memcpy(head, in->buf.p, sizeof(head));
	T_CHECK(head[0] > 0 && head[0] < (uint64_t)t_nproc && head[1] < MEMBERS,
		"a message of nobody's");
	T_EQ(in->op.c.len, stress_len((int)head[0], (int)head[1], head[2]));
	T_EQ(in->op.c.src, g->from[head[0]]);
	T_CHECK(in->op.c.node == &g->member[head[1]], "in the other's queue");
	t_fill(in->buf.p, sizeof(head), stress_seed(head), 0);
	T_GOT(&in->buf, in->op.c.len, stress_seed(head));
	l = &last[head[0]][head[1]];
	/* Completions may come in another order than receives were posted: sort by that. */
	T_CHECK(head[2] < 64 * 64, "number %llu", (unsigned long long)head[2]);
	T_CHECK((head[2] > l->k) == (in->number > l->number) || !l->number,
		"message %llu of rank %llu came into receive %llu, message %llu into %llu",
		(unsigned long long)head[2], (unsigned long long)head[0],
		(unsigned long long)in->number, (unsigned long long)l->k,
		(unsigned long long)l->number);
	*l = (struct last){head[2], in->number};
}

static void stress_receive(struct group *g, uint64_t total)
{
	struct last last[T_PROC_MAX][MEMBERS];
	struct incoming in[WINDOW];
	uint64_t got = 0, number = 0;

	memset(in, 0, sizeof(in));
	memset(last, 0, sizeof(last));
	for (int i = 0; i < WINDOW; i++)
		in[i].buf = t_buf(MOST, 0);
	while (got < total) {
		struct incoming *r = &in[t_rand_below(&rng, WINDOW)];

		t_at("stress: %llu of %llu", (unsigned long long)got, (unsigned long long)total);
		if (has_come(r)) {
			stress_check(g, r, last);
			got++;
		}
		if (!r->posted) {
			uint64_t from = t_rand_below(&rng, (uint64_t)t_nproc);

			t_blank(&r->buf);
			r->posted = true;
			r->number = ++number;
			post_any(g, from ? g->from[from] : FI_ADDR_UNSPEC, &r->buf, &r->op);
		} else if (!t_rand_below(&rng, 20)) {
			fi_cancel(&g->srx->fid, &r->op);
		}
		absent(&rng);
		if (t_rand_below(&rng, 4))
			t_idle();
	}
	cancel_rest(&g->srx->fid, in, WINDOW);
	for (int i = 0; i < WINDOW; i++)
		t_buf_free(&in[i].buf);
}

/*
 * All to both members, all with one tag, large messages and short ones, into receives from
 * anybody and from one, some of them cancelled, by processes that are away for a while: each
 * message comes once and whole, and those of one sender to one member into receives in
 * the order of their posting.
 */
static void stress(void)
{
	uint64_t each = (uint64_t)t_scaled(150);
	struct group g;

	only_ours();
	t_rng_init(&rng, (uint64_t)t_rank + 99);
	start_known(&g, &(struct t_opts){.caps = FI_SOURCE | FI_DIRECTED_RECV});
	if (t_rank == 0)
		stress_receive(&g, each * MEMBERS * (uint64_t)(t_nproc - 1));
	else
		stress_send(&g, each);
	finish_group(&g);
}

static const struct t_case cases[] = {
	{"shared_away_anybody", 2, served_anybody, "who sent the last one is expected", 0},
	{"shared_away_directed", 2, served_directed, "one source, at either member", 0},
	{"shared_away_wrong_guess", 3, wrong_guess, "a receive that another takes", 0},
	{"shared_away_member_closes", 2, member_closes, "what isn't claimed lives on", 0},
	{"shared_away_stress_2", 2, stress, "everything at once", 120},
	{"shared_away_stress_4", 4, stress, "with several senders", 120},
};

const struct t_group group_shared_away = T_GROUP("shared_away", cases);
