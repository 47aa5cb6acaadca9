/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * carry.c: messages that the sender puts into its ring piece by piece while the receiver
 * takes them out, and one of the two goes away in the middle. That they are carried at all
 * is tests/cli/test_stat.py's to see; that nothing changes when both stay, of those groups
 * that run once more with FI_BEELINE_EAGER_LONG_MAX (meson.build).
 */
#include "overlap.h"

#include <stdlib.h>

static const size_t lengths[] = {4097, 8192, 8193, 20000, 36864, 40000, 65535};
#define NLENGTHS (sizeof(lengths) / sizeof(lengths[0]))
#define ROUNDS	 (20 * NLENGTHS)

static void carried_from(struct t_node *n)
{
	setenv("FI_BEELINE_EAGER_MAX", "4096", 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", "65535", 1);
	setenv("FI_BEELINE_LONG_RING", "never", 1);
	start(n, NULL, true);
}

/*
 * Rank 0 sends, rank 1 receives, and one of them is away until the other is done. A sender
 * that goes was inside the library when it sent, so it is asked to carry, and may carry a piece
 * or two first: the receiver finishes by itself. A receiver that goes looks a few times, and the
 * sender has the time to fill the ring.
 */
static void one_goes(int who)
{
	struct t_node n;

	carried_from(&n);
	for (size_t i = 0; i < ROUNDS; i++) {
		size_t len = lengths[i % NLENGTHS], looks = i / NLENGTHS;
		struct t_buf b = t_buf(len, i);
		struct t_op op = {0};

		t_blank(&b);
		if (t_rank == 1)
			t_trecv(&n, n.peer[0], b.p, len, i, 0, &op);
		t_barrier();
		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			t_progress();
			t_tsend(&n, 1, b.p, len, i, &op);
			looks = who == 0 ? looks % 4 : 200;
		}
		if (t_rank == 0 || who == 1)
			for (; looks; looks--)
				t_progress();
		else
			T_WAIT(&op);
		away();
		T_WAIT(&op);
		if (t_rank == 1) {
			T_EQ(op.c.len, len);
			T_GOT(&b, len, i);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void sender_goes(void)
{
	one_goes(0);
}

static void receiver_goes(void)
{
	one_goes(1);
}

/* More than there are descriptors and places in the rings, both ways at once. */
static void many(void)
{
	enum { MANY = 100 };
	static struct t_op tx[MANY], rx[MANY];
	static struct t_buf out[MANY], in[MANY];
	struct t_node n;

	carried_from(&n);
	for (uint64_t i = 0; i < MANY; i++) {
		size_t len = lengths[i % NLENGTHS];

		out[i] = t_buf(len, i);
		in[i] = t_buf(len, i + 1);
		t_fill(out[i].p, len, i * 2 + (uint64_t)t_rank, 0);
		t_blank(&in[i]);
	}
	for (int round = 0; round < 3; round++) {
		/* First, last, or while they come. */
		for (uint64_t i = 0; i < MANY && round == 0; i++)
			t_trecv(&n, n.peer[!t_rank], in[i].p, in[i].len, i, 0, &rx[i]);
		t_barrier();
		for (uint64_t i = 0; i < MANY; i++) {
			t_tsend(&n, !t_rank, out[i].p, out[i].len, i, &tx[i]);
			if (round == 2)
				t_trecv(&n, n.peer[!t_rank], in[i].p, in[i].len, i, 0, &rx[i]);
		}
		for (uint64_t i = MANY; i-- && round == 1;)
			t_trecv(&n, n.peer[!t_rank], in[i].p, in[i].len, i, 0, &rx[i]);
		for (uint64_t i = 0; i < MANY; i++) {
			T_WAIT(&tx[i]);
			T_WAIT(&rx[i]);
			T_GOT(&in[i], in[i].len, i * 2 + (uint64_t)!t_rank);
			t_blank(&in[i]);
		}
	}
	for (int i = 0; i < MANY; i++) {
		t_buf_free(&out[i]);
		t_buf_free(&in[i]);
	}
	t_finish(&n);
}

/* Its send is over, and so is its endpoint, while the receiver is busy with another's. */
static void sender_ends(void)
{
	static const size_t large = 4 * MIB, carried = 40000;

	for (uint64_t round = 0; round < 20; round++) {
		struct t_buf b = t_buf(t_rank ? large : carried, round), c = t_buf(carried, round);
		struct t_op op = {0}, last = {0};
		struct t_node n;

		carried_from(&n);
		t_fill(b.p, b.len, round + (uint64_t)t_rank, 0);
		if (t_rank == 1) {
			t_blank(&b);
			t_blank(&c);
			t_trecv(&n, n.peer[0], c.p, carried, 5, 0, &last);
			t_trecv(&n, n.peer[2], b.p, large, 6, 0, &op);
		}
		t_barrier();
		if (t_rank != 1)
			t_tsend(&n, 1, b.p, b.len, t_rank ? 6 : 5, &op);
		T_WAIT(&op);
		if (t_rank == 1) {
			T_WAIT(&last);
			T_EQ(last.c.len, carried);
			T_GOT(&c, carried, round);
			T_GOT(&b, large, round + 2);
		}
		t_close(&n);
		t_buf_free(&b);
		t_buf_free(&c);
	}
}

static const struct t_case cases[] = {
	{"carry_sender_goes", 2, sender_goes, "the receiver finishes by itself", 0},
	{"carry_receiver_goes", 2, receiver_goes, "what is in the ring waits for it", 0},
	{"carry_sender_ends", 3, sender_ends, "what was sent is received", 0},
	{"carry_many", 2, many, "both ways, more than can be under way", 0},
};

const struct t_group group_carry = T_GROUP("carry", cases);
