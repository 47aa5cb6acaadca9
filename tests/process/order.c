/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * order.c: messages from one source match in the order they were sent, whatever
 * their lengths and kinds; floods of unexpected ones; a receiver that stays away;
 * large unexpected messages that wait in the sender's memory.
 */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lengths that alternate between the protocols, so that a later short message
 * could overtake an earlier long one. */
static size_t mixed_length(struct t_rng *rng)
{
	static const size_t lens[] = {8,    300000, 16, 8,     5000, 40,  100000, 8,
				      8193, 8,	    24, 20000, 288,  289, 16385,  12};

	return lens[t_rand_below(rng, 16)];
}

/*
 * Every rank sends N messages to rank 0, all with the same tag, their number in the
 * first bytes; rank 0's wildcard receives must see each source's numbers in order,
 * in the order of the receives. Windows keep several under way at once.
 */
static void same_tag(int window, bool late)
{
	enum { N = 300, ROOM = 300000 };
	struct t_opts o = {.caps = FI_SOURCE};
	struct t_node n;
	struct t_rng rng;

	t_start(&n, &o);
	t_rng_init(&rng, (uint64_t)t_rank);
	if (t_rank > 0) {
		struct t_buf b[64];
		struct t_op op[64] = {0};
		int total = t_scaled(N);

		for (int i = 0; i < total + window; i++) {
			struct t_buf *buf = &b[i % window];
			size_t len = mixed_length(&rng);
			uint64_t seed = (uint64_t)t_rank << 32 | (uint64_t)i;

			if (i >= window) { /* the operation whose place this one takes */
				T_WAIT(&op[i % window]);
				t_buf_free(buf);
			}
			if (i >= total)
				continue;
			*buf = t_buf(len, (uint64_t)i);
			t_fill(buf->p, len, seed, 0);
			memcpy(buf->p, &seed, 8);
			t_tsend(&n, 0, buf->p, len, 1, &op[i % window]);
		}
	} else {
		uint64_t next[T_PROC_MAX] = {0};
		int total = t_scaled(N) * (t_nproc - 1);
		struct t_buf b[64];
		struct t_op op[64] = {0};

		if (late) /* everything that can come has come */
			for (int k = 0; k < 20000; k++)
				t_progress();
		for (int i = 0; i < total + window; i++) {
			struct t_buf *buf = &b[i % window];
			struct t_op *rx = &op[i % window];

			if (i >= window) {
				uint64_t seed, place, rank;

				T_WAIT(rx);
				memcpy(&seed, buf->p, 8);
				rank = seed >> 32;
				place = seed & 0xffffffff;
				T_CHECK(rank > 0 && rank < (uint64_t)t_nproc, "rank %llu",
					(unsigned long long)rank);
				T_CHECK(place == next[rank],
					"message %llu of rank %llu came in the place of %llu",
					(unsigned long long)place, (unsigned long long)rank,
					(unsigned long long)next[rank]);
				next[rank]++;
				T_EQ(rx->c.src, n.peer[rank]);
				T_SAME(buf->p + 8, rx->c.len - 8, seed, 8);
				t_buf_free(buf);
			}
			if (i >= total)
				continue;
			*buf = t_buf(ROOM, 0);
			t_trecv(&n, FI_ADDR_UNSPEC, buf->p, ROOM, 1, 0, rx);
		}
	}
	t_finish(&n);
}

static void same_tag_one(void)
{
	same_tag(1, false);
}

static void same_tag_window(void)
{
	same_tag(16, false);
}

static void same_tag_late(void)
{
	same_tag(32, true);
}

/* Tagged and untagged messages in turn: each kind in its order; an untagged one that
 * was sent later than a tagged one has not overtaken it, as the peeks show. */
static void kinds_in_turn(void)
{
	enum { N = 400 };
	struct t_node n;
	struct t_rng rng;

	t_start(&n, NULL);
	t_rng_init(&rng, 1);
	for (uint64_t i = 0; i < N; i++) {
		size_t len = mixed_length(&rng);
		struct t_buf b = t_buf(len, i);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			if (i & 1)
				t_tsend(&n, 1, b.p, len, 1, &op);
			else
				T_TRY(fi_send(n.ep, b.p, len, NULL, n.peer[1], &op));
		} else if (i & 1) {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, 1, 0, &op);
		} else {
			T_TRY(fi_recv(n.ep, b.p, len, NULL, FI_ADDR_UNSPEC, &op));
		}
		T_WAIT(&op);
		if (t_rank == 1)
			T_GOT(&b, len, i);
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* 10,000 unexpected messages of up to 4 KiB, received in reverse by their tags. */
static void flood(void)
{
	enum { N = 10000 };
	struct t_node n;
	struct t_rng rng;

	t_start(&n, NULL);
	t_rng_init(&rng, 3);
	if (t_rank == 0) {
		struct t_buf b = t_buf(4096, 0);
		struct t_op op;

		for (uint64_t i = 0; i < N; i++) {
			size_t len = t_rand_below(&rng, i % 16 ? 64 : 4097);

			op = (struct t_op){0};
			t_fill(b.p, len, i, 0);
			t_tsend(&n, 1, b.p, len, i, &op);
			T_WAIT(&op);
		}
		t_mark(&n, 1, 0);
		t_buf_free(&b);
	} else {
		size_t *len = calloc(N, sizeof(*len));
		struct t_buf b;
		struct t_op op;

		t_wait_mark(&n, 0, 0);
		for (uint64_t i = 0; i < N; i++)
			len[i] = t_rand_below(&rng, i % 16 ? 64 : 4097);
		for (uint64_t i = N; i-- > 0;) {
			op = (struct t_op){0};
			b = t_buf(len[i], 0);
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, len[i], i, 0, &op);
			T_WAIT(&op);
			T_GOT(&b, len[i], i);
			t_buf_free(&b);
		}
		free(len);
	}
	t_finish(&n);
}

static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t size, rss;

	T_CHECK(f && fscanf(f, "%zu %zu", &size, &rss) == 2, "/proc/self/statm");
	fclose(f);
	return rss * (size_t)sysconf(_SC_PAGESIZE);
}

/* Large unexpected messages wait in the sender's memory: the receiver does not grow. */
static void large_unexpected(void)
{
	enum { N = 40, LEN = 4 << 20 };
	struct t_node n;
	struct t_buf b[N];
	struct t_op op[N] = {0};

	t_start(&n, NULL);
	if (t_rank == 0) {
		for (int i = 0; i < N; i++) {
			b[i] = t_buf(LEN, 0);
			t_fill(b[i].p, LEN, (uint64_t)i, 0);
		}
		t_barrier();
		for (int i = 0; i < N; i++)
			t_tsend(&n, 1, b[i].p, LEN, (uint64_t)i, &op[i]);
		t_mark(&n, 1, 0);
		for (int i = 0; i < N; i++) {
			T_WAIT(&op[i]);
			t_buf_free(&b[i]);
		}
	} else {
		size_t before, after;

		t_barrier();
		before = resident();
		t_wait_mark(&n, 0, 0);
		after = resident();
		if (t_beeline)
			T_CHECK(after < before + (8 << 20),
				"%zu bytes of unexpected messages took %zu bytes here",
				(size_t)N * LEN, after - before);
		for (int i = N - 1; i >= 0; i--) {
			b[0] = t_buf(LEN, 0);
			t_trecv(&n, FI_ADDR_UNSPEC, b[0].p, LEN, (uint64_t)i, 0, &op[0]);
			T_WAIT(&op[0]);
			T_GOT(&b[0], LEN, (uint64_t)i);
			t_buf_free(&b[0]);
		}
	}
	t_finish(&n);
}

/*
 * The receiver does not enter the library: senders have to wait at some point (or
 * do not), lose nothing, and can be received from meanwhile.
 */
static void away(void)
{
	enum { N = 5000 };
	struct t_node n;

	t_start(&n, NULL);
	if (t_rank > 0) {
		bool full = false;
		struct t_buf b = t_buf(900, 0);
		struct t_op op;
		uint64_t v;

		t_mark(&n, 0, 1); /* connected */
		t_barrier();
		for (uint64_t i = 0; i < N; i++) {
			size_t len = i % 5 * 200 + 8;

			t_fill(b.p, len, i, 0);
			op = (struct t_op){0};
			t_tsend(&n, 0, b.p, len, (uint64_t)t_rank, &op);
			t_idle();
			if (!op.done && !full) {
				/* The way back is open all the same. */
				int next = t_rank % (t_nproc - 1) + 1;
				struct t_op other = {0};

				T_TRY(fi_tinject(n.ep, &i, 8, n.peer[next], 99));
				t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 99, 0, &other);
				T_WAIT(&other);
				full = true;
				t_barrier_with(NULL); /* lets the receiver in */
			}
			T_WAIT(&op);
		}
		if (!full) {
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[t_rank % (t_nproc - 1) + 1], 99));
			op = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 99, 0, &op);
			T_WAIT(&op);
			t_barrier_with(NULL);
		}
		t_buf_free(&b);
	} else {
		for (int r = 1; r < t_nproc; r++)
			t_wait_mark(&n, r, 1);
		t_barrier();
		t_barrier_with(NULL); /* away: no progress until all senders are full */
		for (int r = 1; r < t_nproc; r++) {
			for (uint64_t i = 0; i < N; i++) {
				size_t len = i % 5 * 200 + 8;
				struct t_buf b = t_buf(len, 0);
				struct t_op op = {0};

				t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, (uint64_t)r, 0, &op);
				T_WAIT(&op);
				T_GOT(&b, len, i);
				t_buf_free(&b);
			}
		}
	}
	t_finish(&n);
}

/* Both fill each other's way without receiving first: no deadlock. */
static void both_full(void)
{
	enum { N = 4000 };
	struct t_node n;
	struct t_op *rx = calloc(N, sizeof(*rx));
	uint64_t *got = calloc(N, sizeof(*got));

	t_start(&n, NULL);
	for (uint64_t i = 0; i < N; i++)
		T_TRY(fi_tinject(n.ep, &i, 8, n.peer[1 - t_rank], 1));
	for (uint64_t i = 0; i < N; i++)
		t_trecv(&n, FI_ADDR_UNSPEC, &got[i], 8, 1, 0, &rx[i]);
	for (uint64_t i = 0; i < N; i++) {
		T_WAIT(&rx[i]);
		T_EQ(got[i], i);
	}
	t_finish(&n);
	free(rx);
	free(got);
}

/* Many large sends pending at once, to several receivers. */
static void many_pending(void)
{
	enum { N = 300, LEN = 50000 };
	struct t_node n;
	struct t_op *op = calloc(N, sizeof(*op));
	struct t_buf *b = calloc(N, sizeof(*b));

	t_start(&n, NULL);
	if (t_rank == 0) {
		for (int i = 0; i < N; i++) {
			b[i] = t_buf(LEN, 0);
			t_fill(b[i].p, LEN, (uint64_t)i, 0);
			t_tsend(&n, 1 + i % (t_nproc - 1), b[i].p, LEN, (uint64_t)i, &op[i]);
		}
		for (int r = 1; r < t_nproc; r++)
			t_mark(&n, r, 0);
		for (int i = 0; i < N; i++) {
			T_WAIT(&op[i]);
			t_buf_free(&b[i]);
		}
	} else {
		t_wait_mark(&n, 0, 0);
		for (int i = N - 1; i >= 0; i--) {
			if (1 + i % (t_nproc - 1) != t_rank)
				continue;
			b[i] = t_buf(LEN, 0);
			t_trecv(&n, FI_ADDR_UNSPEC, b[i].p, LEN, (uint64_t)i, 0, &op[i]);
		}
		for (int i = 0; i < N; i++) {
			if (1 + i % (t_nproc - 1) != t_rank)
				continue;
			T_WAIT(&op[i]);
			T_GOT(&b[i], LEN, (uint64_t)i);
			t_buf_free(&b[i]);
		}
	}
	free(op);
	free(b);
	t_finish(&n);
}

/*
 * Hundreds of receives wait in one queue, then hundreds of messages in the other: every one is
 * found, by source and tag, by tag alone, and with bits of it ignored; long ones that are shown to
 * their senders are among them, and receives that are cancelled where they wait.
 */
enum { DEEP = 240, NEVER = 30, DEEP_LONG = 80000 };

static size_t deep_length(uint64_t i)
{
	return i % 16 ? 8 + i % 400 : DEEP_LONG;
}

static void deep_order(int *order, int count, uint64_t seed)
{
	struct t_rng rng;

	t_rng_init(&rng, seed);
	for (int i = 0; i < count; i++) {
		int with = (int)t_rand_below(&rng, (uint64_t)i + 1);

		order[i] = order[with];
		order[with] = i;
	}
}

static void deep_send(struct t_node *n)
{
	static struct t_buf b[DEEP];
	static struct t_op op[DEEP];
	int order[DEEP];

	deep_order(order, DEEP, (uint64_t)t_rank);
	for (int i = 0; i < DEEP; i++) {
		uint64_t tag = (uint64_t)t_rank << 32 | (uint64_t)order[i];

		b[i] = t_buf(deep_length(tag), 0);
		t_fill(b[i].p, deep_length(tag), tag, 0);
		t_tsend(n, 0, b[i].p, deep_length(tag), tag, &op[i]);
	}
	for (int i = 0; i < DEEP; i++) {
		T_WAIT(&op[i]);
		t_buf_free(&b[i]);
	}
}

static void deep_receive(struct t_node *n)
{
	static struct t_buf b[T_PROC_MAX * DEEP];
	static struct t_op op[T_PROC_MAX * DEEP], never[NEVER];
	static int order[T_PROC_MAX * DEEP];
	int total = (t_nproc - 1) * DEEP, nothing = 0;

	deep_order(order, total, 0);
	for (int i = 0; i < total; i++) {
		int which = order[i], from = 1 + which / DEEP;
		uint64_t tag = (uint64_t)from << 32 | (uint64_t)(which % DEEP);

		if (i == total / 2) { /* the others' messages are early */
			t_barrier();
			for (int k = 0; k < 20000; k++)
				t_progress();
		}
		if (i % 16 == 0 && nothing < NEVER) {
			t_trecv(n, nothing % 2 ? FI_ADDR_UNSPEC : n->peer[from], NULL, 0,
				1ull << 62 | (uint64_t)nothing, 0, &never[nothing]);
			nothing++;
		}
		b[which] = t_buf(DEEP_LONG, 0);
		t_trecv(n, which % 3 ? n->peer[from] : FI_ADDR_UNSPEC, b[which].p, DEEP_LONG, tag,
			which % 5 ? 0 : 1ull << 63, &op[which]);
	}
	for (int i = 0; i < total; i++) {
		uint64_t tag = (uint64_t)(1 + i / DEEP) << 32 | (uint64_t)(i % DEEP);

		if (i == total / 2)
			for (int k = nothing - 1; k >= 0; k--) {
				T_TRY(fi_cancel(&n->ep->fid, &never[k]));
				T_WAIT_ERR(&never[k], FI_ECANCELED);
			}
		T_WAIT(&op[i]);
		T_EQ(op[i].c.tag, tag);
		T_GOT(&b[i], deep_length(tag), tag);
		t_buf_free(&b[i]);
	}
}

static void deep(void)
{
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct t_node n;

	t_start(&n, &o);
	if (t_rank) {
		t_barrier();
		deep_send(&n);
	} else {
		deep_receive(&n);
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"order_same_tag", 4, same_tag_one, "one at a time, lengths mixed", 30},
	{"order_same_tag_window", 4, same_tag_window, "16 under way at once", 30},
	{"order_same_tag_late", 4, same_tag_late, "32 under way, receives late", 30},
	{"order_kinds_in_turn", 2, kinds_in_turn, "tagged and untagged in turn", 0},
	{"order_flood", 2, flood, "10,000 unexpected messages", 40},
	{"order_large_unexpected", 2, large_unexpected, "160 MiB wait at the sender", 30},
	{"order_away", 4, away, "a receiver that stays away", 30},
	{"order_both_full", 2, both_full, "both ways full", 0},
	{"order_deep", 3, deep, "hundreds of receives, then of messages, wait", 0},
	{"order_many_pending", 4, many_pending, "300 large sends pending", 0},
};

const struct t_group group_order = T_GROUP("order", cases);
