/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * delegate.c: a large receive from anybody, where several could send: one of them, who
 * is expected to, is served while the receiver is away (overlap.c), the others when it
 * comes back, and all in order.
 */
#include "overlap.h"

#include <string.h>

/* Rank 0 waits for a large message with this tag from anybody, and `from` sends it:
 * so the next one is expected from there. */
static void teach(struct t_node *n, int from, uint64_t tag)
{
	struct t_buf b = t_buf(MIB, 0);
	struct t_op op = {0};

	if (t_rank == from) {
		t_fill(b.p, b.len, tag, 0);
		t_tsend(n, 0, b.p, b.len, tag, &op);
		T_WAIT(&op);
	} else if (t_rank == 0) {
		t_blank(&b);
		post(n, true, FI_ADDR_UNSPEC, &b, tag, &op);
		T_WAIT(&op);
		T_GOT(&b, b.len, tag);
	}
	t_barrier();
	t_buf_free(&b);
}

/*
 * Rank 0 posts one receive from anybody and goes away. Who sent the last such message
 * is the one that can claim it; another's is there when rank 0 comes back, and then
 * that other one is it.
 */
static void last(void)
{
	struct t_node n;

	start(&n, NULL, true);
	teach(&n, 1, 5);
	for (uint64_t i = 0; i < 12; i++) {
		/* twice the same, then another: so i % 2 says who is expected */
		int from = 1 + (int)(i / 2 % 2);
		bool expected = !i || i % 2;
		struct t_buf b = t_buf(sizes[i % NSIZES], i);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_blank(&b);
			post(&n, true, FI_ADDR_UNSPEC, &b, 5, &op);
			away();
			away(); /* sent */
			T_GOT(&b, expected ? b.len : 0, i);
			T_WAIT(&op);
			T_EQ(op.c.len, b.len);
			T_GOT(&b, b.len, i);
		} else {
			away();
			if (t_rank == from) {
				t_fill(b.p, b.len, i, 0);
				t_tsend(&n, 0, b.p, b.len, 5, &op);
				if (expected)
					T_WAIT(&op);
			}
			away();
			if (t_rank == from)
				T_WAIT(&op);
		}
		t_barrier();
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* The tag says who sends: each receive finds its sender, all at once. */
static void by_tag(void)
{
	enum { EACH = 4 };
	struct t_node n;
	struct t_buf b[EACH];
	struct t_op op[EACH];

	start(&n, NULL, true);
	for (int from = 1; from < t_nproc; from++)
		teach(&n, from, (uint64_t)from << 32 | 5);
	for (int k = 0; k < EACH; k++)
		b[k] = t_buf(100000, 0);
	memset(op, 0, sizeof op);
	if (t_rank == 0) {
		for (int k = 0; k < EACH; k++) {
			t_blank(&b[k]);
			post(&n, true, FI_ADDR_UNSPEC, &b[k],
			     (uint64_t)(1 + k % (t_nproc - 1)) << 32 | 5, &op[k]);
		}
		away();
		away();
		for (uint64_t k = 0; k < EACH; k++) {
			T_GOT(&b[k], b[k].len, k);
			T_WAIT(&op[k]);
		}
	} else {
		away();
		for (uint64_t k = 0; k < EACH; k++)
			if (t_rank == 1 + (int)k % (t_nproc - 1)) {
				t_fill(b[k].p, b[k].len, k, 0);
				t_tsend(&n, 0, b[k].p, b[k].len, (uint64_t)t_rank << 32 | 5,
					&op[k]);
				T_WAIT(&op[k]);
			}
		away();
	}
	for (int k = 0; k < EACH; k++)
		t_buf_free(&b[k]);
	t_finish(&n);
}

/*
 * Rank 1 is expected for a receive from anybody; behind it is one from rank 2, whose
 * messages could take either. Rank 2 must not claim the second with its first message.
 */
static void in_order(void)
{
	enum { LARGE = 200000 };
	struct t_node n;
	struct t_buf b[3] = {t_buf(LARGE, 0), t_buf(LARGE, 0), t_buf(LARGE, 0)};
	struct t_op op[3] = {0};

	start(&n, NULL, true);
	teach(&n, 1, 5);
	if (t_rank == 0) {
		for (int i = 0; i < 3; i++)
			t_blank(&b[i]);
		t_trecv(&n, FI_ADDR_UNSPEC, b[0].p, LARGE, 5, 0, &op[0]);
		t_trecv(&n, n.peer[2], b[1].p, LARGE, 5, 0, &op[1]);
		t_trecv(&n, FI_ADDR_UNSPEC, b[2].p, LARGE, 5, 0, &op[2]);
		away();
		away();
		T_GOT(&b[0], 0, 0); /* expected from another, which hasn't sent yet */
		T_GOT(&b[1], 0, 0);
		T_WAIT(&op[0]);
		T_WAIT(&op[1]);
		T_GOT(&b[0], LARGE, 1);
		T_GOT(&b[1], LARGE, 2);
		away();
		T_WAIT(&op[2]);
		T_GOT(&b[2], LARGE, 3);
	} else {
		away();
		for (uint64_t i = 0; t_rank == 2 && i < 2; i++) {
			t_fill(b[i].p, LARGE, i + 1, 0);
			t_tsend(&n, 0, b[i].p, LARGE, 5, &op[i]);
		}
		away();
		for (int i = 0; t_rank == 2 && i < 2; i++)
			T_WAIT(&op[i]);
		away();
		if (t_rank == 1) {
			t_fill(b[2].p, LARGE, 3, 0);
			t_tsend(&n, 0, b[2].p, LARGE, 5, &op[2]);
			T_WAIT(&op[2]);
		}
	}
	for (int i = 0; i < 3; i++)
		t_buf_free(&b[i]);
	t_finish(&n);
}

/* More receives from anybody than a board holds, and messages of two: those of the
 * one that is expected come in while the receiver is away, the others' after, and all
 * in order. */
static void many(void)
{
	enum { N = 24, FIRST = 8 };
	struct t_node n;
	struct t_buf b[N];
	struct t_op op[N];

	memset(op, 0, sizeof op);
	start(&n, NULL, true);
	teach(&n, 1, 5);
	for (int i = 0; i < N; i++)
		b[i] = t_buf(70000, 0);
	if (t_rank == 0) {
		for (int i = 0; i < N; i++) {
			t_blank(&b[i]);
			post(&n, true, FI_ADDR_UNSPEC, &b[i], 5, &op[i]);
		}
		away();
		away();
		away();
		for (uint64_t i = 0; i < N; i++)
			T_GOT(&b[i], i < FIRST ? b[i].len : 0, i);
		for (uint64_t i = 0; i < N; i++) {
			T_WAIT(&op[i]);
			T_GOT(&b[i], b[i].len, i);
		}
	} else {
		uint64_t from = t_rank == 1 ? 0 : FIRST, to = t_rank == 1 ? FIRST : N;

		for (uint64_t i = from; i < to; i++)
			t_fill(b[i].p, b[i].len, i, 0);
		away();
		if (t_rank == 1)
			for (uint64_t i = from; i < to; i++) {
				t_tsend(&n, 0, b[i].p, b[i].len, 5, &op[i]);
				T_WAIT(&op[i]);
			}
		away();
		if (t_rank == 2)
			for (uint64_t i = from; i < to; i++)
				t_tsend(&n, 0, b[i].p, b[i].len, 5, &op[i]);
		away();
		if (t_rank == 2)
			for (uint64_t i = from; i < to; i++)
				T_WAIT(&op[i]);
	}
	for (int i = 0; i < N; i++)
		t_buf_free(&b[i]);
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"delegate_last", 3, last, "from anybody: who sent the last one", 0},
	{"delegate_by_tag", 3, by_tag, "from anybody: the tag says who", 0},
	{"delegate_order", 3, in_order, "another's come in order", 0},
	{"delegate_many", 3, many, "more than a board holds, of two", 0},
};

const struct t_group group_delegate = T_GROUP("delegate", cases);
