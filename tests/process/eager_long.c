/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * eager_long.c: messages beyond the eager limit that a longer ring takes whole, while their
 * receiver is away, and its sender soon. Which do is tests/unit/eager_long_test.c's to see; that
 * nothing else changes, of those groups that run once more with FI_BEELINE_LONG_RING (meson.build).
 */
#include "overlap.h"

#include <stdlib.h>

#define LONGEST 65535 /* bytes: that go whole whoever is away */

static void long_rings(struct t_node *n)
{
	setenv("FI_BEELINE_EAGER_MAX", "4096", 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", "131072", 1);
	setenv("FI_BEELINE_LONG_RING", "always", 1);
	start(n, NULL, true);
	t_progress();
	t_progress();
}

/* Its sender needs nobody's help, and may go. */
static void no_help(void)
{
	static const size_t lengths[] = {4097, 8191, 20000, 49152, LONGEST};
	struct t_node n;

	long_rings(&n);
	for (size_t i = 0; i < 50; i++) {
		size_t len = lengths[i % 5];
		struct t_buf b = t_buf(len, i);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			t_tsend(&n, 1, b.p, len, i, &op);
			T_WAIT(&op);
			t_fill(b.p, len, i + 1000, 0); /* it is ours again */
		}
		t_barrier();
		if (t_rank == 1) {
			t_blank(&b);
			t_trecv(&n, n.peer[0], b.p, len, i, 0, &op);
			T_WAIT(&op);
			T_EQ(op.c.len, len);
			T_GOT(&b, len, i);
		}
		t_barrier();
		t_buf_free(&b);
	}
	t_finish(&n);
}

/*
 * More than the ring has room for. The receiver has gone: no send waits for it, those without
 * room are announced, and all match in the order in which they were sent.
 */
static void none_waits(void)
{
	enum { MANY = 40 };
	static struct t_op op[MANY];
	static struct t_buf b[MANY];
	struct t_node n;

	long_rings(&n);
	for (uint64_t round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < MANY; i++) {
			size_t len = i % 3 ? LONGEST - i : 100;

			b[i] = t_buf(len, i);
			t_blank(&b[i]);
			if (t_rank == 0)
				t_fill(b[i].p, len, round * MANY + i, 0);
			else if (round % 2)
				t_trecv(&n, n.peer[0], b[i].p, len, 3, 0, &op[i]);
		}
		t_barrier();
		for (uint64_t i = 0; i < MANY && t_rank == 0; i++)
			t_tsend(&n, 1, b[i].p, b[i].len, 3, &op[i]);
		t_barrier();
		for (uint64_t i = 0; i < MANY; i++) {
			if (t_rank == 1 && round % 2 == 0)
				t_trecv(&n, n.peer[0], b[i].p, b[i].len, 3, 0, &op[i]);
			T_WAIT(&op[i]);
			if (t_rank == 1)
				T_GOT(&b[i], b[i].len, round * MANY + i);
			t_buf_free(&b[i]);
		}
	}
	t_finish(&n);
}

/* Its send is over, and then its endpoint: what it has sent is received. */
static void sender_ends(void)
{
	for (uint64_t round = 0; round < 10; round++) {
		struct t_buf b = t_buf(LONGEST, round);
		struct t_op op = {0};
		struct t_node n;

		long_rings(&n);
		if (t_rank == 0) {
			t_fill(b.p, LONGEST, round, 0);
			t_tsend(&n, 1, b.p, LONGEST, 5, &op);
			T_WAIT(&op);
			t_close(&n);
		}
		t_barrier();
		if (t_rank == 1) {
			t_blank(&b);
			t_trecv(&n, n.peer[0], b.p, LONGEST, 5, 0, &op);
			T_WAIT(&op);
			T_GOT(&b, LONGEST, round);
			t_close(&n);
		}
		t_barrier();
		t_buf_free(&b);
	}
}

/* Its sender wants to hear that it has been delivered, and hears nothing before. */
static void delivered(void)
{
	static const size_t lengths[] = {289, 4096, 4097, 20000, LONGEST};
	struct t_node n;

	long_rings(&n);
	for (size_t i = 0; i < 50; i++) {
		size_t len = lengths[i % 5];
		struct t_buf b = t_buf(len, i);
		struct iovec iov = {b.p, len};
		struct t_op op = {0};
		struct fi_msg_tagged m = {
			.msg_iov = &iov, .iov_count = 1, .tag = i, .context = &op};

		if (t_rank == 0) {
			m.addr = n.peer[1];
			t_fill(b.p, len, i, 0);
			T_TRY(fi_tsendmsg(n.ep, &m, FI_DELIVERY_COMPLETE | FI_COMPLETION));
		}
		t_barrier();
		for (int looks = 0; looks < 100; looks++) /* the receiver finds it, and keeps it */
			t_progress();
		t_barrier();
		for (int looks = 0; looks < 100; looks++)
			t_progress();
		T_CHECK(!op.done, "told of a message that nobody has received");
		t_barrier();
		if (t_rank == 1) {
			t_blank(&b);
			t_trecv(&n, n.peer[0], b.p, len, i, 0, &op);
		}
		T_WAIT(&op);
		if (t_rank == 1)
			T_GOT(&b, len, i);
		t_barrier();
		t_buf_free(&b);
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"whole_no_help", 2, no_help, "a send of some pages needs its receiver", 0},
	{"whole_none_waits", 2, none_waits, "order, or a send that waits for one who is away", 0},
	{"whole_delivered", 2, delivered, "a sender is told of what hasn't been delivered", 0},
	{"whole_sender_ends", 2, sender_ends, "what was sent is received", 0},
};

const struct t_group group_eager_long = T_GROUP("eager_long", cases);
