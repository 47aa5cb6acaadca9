/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stress.c: everybody sends to everybody and now and then one is away, at random: what can be
 * claimed (overlap.c) beside what can't.
 */
#include "overlap.h"

#include <stdlib.h>
#include <string.h>

#define EACH   t_scaled(150) /* messages from each to each */
#define WINDOW 6
#define TAG    5

#define LARGE	65536u
#define LONGEST (LARGE + 200000u)

static struct t_rng rng;
static bool large; /* most messages; else none, nor any receive */

static size_t len_of(int from, int to, uint64_t k)
{
	struct t_rng r;

	t_rng_init(&r, 1000003 * k + 100 * (uint64_t)from + (uint64_t)to);
	switch (t_rand_below(&r, 6)) {
	case 0:
		return 16 + t_rand_below(&r, 200);
	case 1:
		return 16 + t_rand_below(&r, 20000);
	default:
		return large ? LARGE + t_rand_below(&r, LONGEST - LARGE)
			     : 10000 + t_rand_below(&r, LARGE - 10000);
	}
}

/* The message says who sent it and which of its messages it is. */
static void fill(struct t_buf *b, int from, int to, uint64_t k)
{
	uint64_t head[2] = {(uint64_t)from, k};

	b->len = len_of(from, to, k);
	t_fill(b->p, b->len, 7919 * k + (uint64_t)from, 0);
	memcpy(b->p, head, sizeof head);
}

/* seen[source][k]: in the how-manieth receive it came */
static void check(struct incoming *in, uint64_t *seen, uint64_t each)
{
	uint64_t head[2];

	memcpy(head, in->buf.p, sizeof head);
	T_CHECK(head[0] < (uint64_t)t_nproc && head[1] < each,
		"a message of rank %llu, number %llu", (unsigned long long)head[0],
		(unsigned long long)head[1]);
	T_EQ(in->op.c.len, len_of((int)head[0], t_rank, head[1]));
	t_fill(in->buf.p, sizeof head, 7919 * head[1] + head[0], 0);
	T_GOT(&in->buf, in->op.c.len, 7919 * head[1] + head[0]);
	T_CHECK(!seen[head[0] * each + head[1]], "message %llu of rank %llu came twice",
		(unsigned long long)head[1], (unsigned long long)head[0]);
	seen[head[0] * each + head[1]] = in->number;
}

/*
 * Everybody to everybody, all with one tag: messages of many lengths, receives from anybody and
 * from one, in one piece and in several, cancels, processes that are away for a while. Each message
 * comes once and whole, and those of one sender come into receives in the order of their posting.
 */
static void stress(void)
{
	uint64_t each = (uint64_t)EACH, total = each * (uint64_t)(t_nproc - 1), got = 0, number = 0;
	uint64_t sent[T_PROC_MAX] = {0}, *seen = calloc((size_t)t_nproc * each, sizeof *seen);
	struct incoming in[WINDOW];
	struct t_op out[WINDOW];
	struct t_buf outbuf[WINDOW];
	bool busy[WINDOW] = {false};
	struct t_node n;

	memset(in, 0, sizeof in);
	memset(out, 0, sizeof out);
	t_rng_init(&rng, (uint64_t)t_rank + 77);
	for (int i = 0; i < WINDOW; i++) {
		in[i].buf = t_buf(large ? LONGEST : LARGE - 1, 0);
		outbuf[i] = t_buf(LONGEST, 0);
	}
	start(&n, &(struct t_opts){.iov = 8}, true);
	for (bool all = false; got < total || !all;) {
		int i = (int)t_rand_below(&rng, WINDOW),
		    to = (int)t_rand_below(&rng, (uint64_t)t_nproc);
		struct incoming *r = &in[i];

		t_at("stress: %llu of %llu received", (unsigned long long)got,
		     (unsigned long long)total);
		if (out[i].done) {
			T_EQ(out[i].c.err, 0);
			busy[i] = false;
			out[i].done = 0;
		}
		if (!busy[i] && to != t_rank && sent[to] < each) {
			fill(&outbuf[i], t_rank, to, sent[to]);
			ssize_t rc = fi_tsend(n.ep, outbuf[i].p, outbuf[i].len, NULL, n.peer[to],
					      TAG, &out[i]);

			T_CHECK(!rc || rc == -FI_EAGAIN, "fi_tsend: %zd", rc);
			if (!rc) {
				busy[i] = true;
				sent[to]++;
			}
		}
		if (has_come(r)) {
			check(r, seen, each);
			got++;
		}
		if (!r->posted) {
			int from = (int)t_rand_below(&rng, (uint64_t)t_nproc);

			t_blank(&r->buf);
			r->posted = true;
			r->number = ++number;
			post_pieces(&n,
				    from == t_rank || t_rand_below(&rng, 2) ? FI_ADDR_UNSPEC
									    : n.peer[from],
				    &r->buf, t_rand_below(&rng, 2) ? 1 : 2 + t_rand_below(&rng, 7),
				    TAG, &r->op);
		} else if (!t_rand_below(&rng, 20)) {
			fi_cancel(&n.ep->fid, &r->op);
		}
		absent(&rng);
		if (t_rand_below(&rng, 4))
			t_idle();
		all = true;
		for (int p = 0; p < t_nproc; p++)
			all &= p == t_rank || sent[p] == each;
		for (int k = 0; k < WINDOW; k++)
			all &= !busy[k];
	}
	cancel_rest(&n.ep->fid, in, WINDOW);
	for (int p = 0; p < t_nproc; p++)
		for (uint64_t k = 1; p != t_rank && k < each; k++)
			T_CHECK(seen[(uint64_t)p * each + k] > seen[(uint64_t)p * each + k - 1],
				"message %llu of rank %d came into receive %llu, the one before "
				"into %llu",
				(unsigned long long)k, p,
				(unsigned long long)seen[(uint64_t)p * each + k],
				(unsigned long long)seen[(uint64_t)p * each + k - 1]);
	t_finish(&n);
	for (int i = 0; i < WINDOW; i++) {
		t_buf_free(&in[i].buf);
		outbuf[i].len = LONGEST;
		t_buf_free(&outbuf[i]);
	}
	free(seen);
}

static void stress_large(void)
{
	large = true;
	stress();
}

/* What is below the length from which every receive is shown. */
static void stress_short(void)
{
	large = false;
	stress();
}

static const struct t_case cases[] = {
	{"stress_large_2", 2, stress_large, "everything at once", 120},
	{"stress_large_3", 3, stress_large, "with two senders for each receive", 120},
	{"stress_large_5", 5, stress_large, "more than cores", 120},
	{"stress_short_2", 2, stress_short, "shown now and then", 120},
	{"stress_short_3", 3, stress_short, "with two senders for each receive", 120},
	{"stress_short_5", 5, stress_short, "more than cores", 120},
};
const struct t_group group_stress = T_GROUP("stress", cases);
