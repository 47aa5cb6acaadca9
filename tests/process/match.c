/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match.c: which message goes to which receive: tags, ignore masks, sources, the
 * order of posts, expected and unexpected. Messages are small but for one case in
 * each pair, since a large one takes another way to the same matcher.
 */
#include "cases.h"

#include <stdlib.h>

#define LARGE (300 * 1000)

static void tagged_exchange(size_t len, bool unexpected)
{
	struct t_node n;
	struct t_buf b;
	struct t_op op = {0};

	t_start(&n, NULL);
	b = t_buf(len, 5);
	if (t_rank == 0) {
		if (!unexpected)
			t_barrier(); /* the receive is posted */
		t_fill(b.p, len, 77, 0);
		t_tsend(&n, 1, b.p, len, 0x1234, &op);
		if (unexpected) {
			t_mark(&n, 1, 0);
			t_barrier();
		}
	} else {
		if (unexpected) {
			t_wait_mark(&n, 0, 0);
			t_barrier();
		}
		t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, 0x1234, 0, &op);
		if (!unexpected)
			t_barrier();
	}
	T_WAIT(&op);
	if (t_rank == 1) {
		T_EQ(op.c.len, len);
		T_EQ(op.c.tag, 0x1234);
		T_GOT(&b, len, 77);
	}
	t_buf_free(&b);
	t_finish(&n);
}

static void expected_small(void)
{
	tagged_exchange(24, false);
}

static void expected_large(void)
{
	tagged_exchange(LARGE, false);
}

static void unexpected_small(void)
{
	tagged_exchange(24, true);
}

static void unexpected_large(void)
{
	tagged_exchange(LARGE, true);
}

static void untagged_exchange(size_t len, bool unexpected)
{
	struct t_node n;
	struct t_buf b[4];
	struct t_op op[4] = {0};

	t_start(&n, NULL);
	if (t_rank == 1 && unexpected)
		t_wait_mark(&n, 0, 0);
	for (int i = 0; i < 4; i++) {
		b[i] = t_buf(len, (size_t)i);
		if (t_rank == 1)
			T_TRY(fi_recv(n.ep, b[i].p, len, NULL, FI_ADDR_UNSPEC, &op[i]));
	}
	if (!unexpected)
		t_barrier();
	if (t_rank == 0) {
		for (int i = 0; i < 4; i++) {
			t_fill(b[i].p, len, (uint64_t)i, 0);
			T_TRY(fi_send(n.ep, b[i].p, len, NULL, n.peer[1], &op[i]));
		}
		t_mark(&n, 1, 0);
	}
	for (int i = 0; i < 4; i++) {
		T_WAIT(&op[i]);
		if (t_rank == 1) {
			T_EQ(op[i].c.len, len);
			T_CHECK(op[i].c.flags & FI_MSG, "flags 0x%llx",
				(unsigned long long)op[i].c.flags);
			T_GOT(&b[i], len, (uint64_t)i);
		}
		t_buf_free(&b[i]);
	}
	if (t_rank == 1 && !unexpected)
		t_wait_mark(&n, 0, 0);
	t_finish(&n);
}

static void untagged_expected(void)
{
	untagged_exchange(40, false);
	untagged_exchange(LARGE, false);
}

static void untagged_unexpected(void)
{
	untagged_exchange(40, true);
	untagged_exchange(LARGE, true);
}

/* A tagged message never meets an untagged receive, nor the reverse. */
static void kinds_apart(void)
{
	struct t_node n;
	uint64_t v[2] = {111, 222}, got[2] = {0};
	struct t_op op[2] = {0};

	t_start(&n, NULL);
	if (t_rank == 0) {
		t_barrier();
		t_tsend(&n, 1, &v[0], 8, 0, &op[0]);
		T_TRY(fi_send(n.ep, &v[1], 8, NULL, n.peer[1], &op[1]));
	} else {
		/* The untagged receive is posted first, the tagged message comes first. */
		T_TRY(fi_recv(n.ep, &got[1], 8, NULL, FI_ADDR_UNSPEC, &op[1]));
		t_trecv(&n, FI_ADDR_UNSPEC, &got[0], 8, 0, ~0ULL, &op[0]);
		t_barrier();
	}
	T_WAIT(&op[0]);
	T_WAIT(&op[1]);
	if (t_rank == 1) {
		T_EQ(got[0], 111);
		T_EQ(got[1], 222);
	}
	t_finish(&n);
}

/* Tags that differ in one bit only, and the extremes. */
static void tag_bits(void)
{
	struct t_node n;
	uint64_t tag[66], v[66], got[66] = {0};
	struct t_op *op = calloc(66, sizeof(*op));
	int order[66];
	struct t_rng rng;

	for (int i = 0; i < 66; i++) {
		tag[i] = i < 64 ? 1ULL << i : i == 64 ? 0 : ~0ULL >> 1;
		v[i] = (uint64_t)i + 1;
		order[i] = i;
	}
	t_rng_init(&rng, (uint64_t)t_rank);
	t_shuffle(&rng, order, 66);
	t_start(&n, NULL);
	for (int i = 0; i < 66; i++) {
		int k = order[i];

		if (t_rank == 0)
			t_tsend(&n, 1, &v[k], 8, tag[k], &op[k]);
		else
			t_trecv(&n, FI_ADDR_UNSPEC, &got[k], 8, tag[k], 0, &op[k]);
	}
	for (int i = 0; i < 66; i++) {
		T_WAIT(&op[i]);
		if (t_rank == 1) {
			T_EQ(op[i].c.tag, tag[i]);
			T_EQ(got[i], i + 1);
		}
	}
	free(op);
	t_finish(&n);
}

static const struct {
	uint64_t tag, ignore;
	int takes; /* index of the message that must arrive here */
	const char *why;
} masks[] = {
	{0x100, 0, 1, "exact, though posted first and not first to come"},
	{0x0f0, 0x00f, 0, "low bits ignored"},
	{0xf00000000000000a, 0x0fffffffffffff00, 2, "middle ignored, both ends compared"},
	{0x0, ~0ULL, 3, "everything ignored: takes the next"},
	{0xdead, ~0ULL, 4, "everything ignored, whatever its own tag"},
	{0x8000000000000000, 0x7fffffffffffffff, 5, "the top bit alone"},
};
static const uint64_t mask_sent[] = {
	0x0f7, 0x100, 0xf12345678900000a, 0x777, 0x778, 0x8000000000000001,
};

static void ignore_masks(bool unexpected)
{
	struct t_node n;
	uint64_t v[6], got[6] = {0};
	struct t_op op[6] = {0};

	t_start(&n, NULL);
	if (t_rank == 1) {
		if (unexpected)
			t_wait_mark(&n, 0, 0);
		for (int i = 0; i < 6; i++)
			t_trecv(&n, FI_ADDR_UNSPEC, &got[i], 8, masks[i].tag, masks[i].ignore,
				&op[i]);
	}
	if (!unexpected)
		t_barrier();
	if (t_rank == 0) {
		for (int i = 0; i < 6; i++) {
			v[i] = 100 + (uint64_t)i;
			t_tsend(&n, 1, &v[i], 8, mask_sent[i], &op[i]);
		}
		if (unexpected)
			t_mark(&n, 1, 0);
	}
	for (int i = 0; i < 6; i++) {
		T_WAIT(&op[i]);
		if (t_rank == 0)
			continue;
		T_CHECK(got[i] == 100 + (uint64_t)masks[i].takes, "mask %d (%s) took message %d", i,
			masks[i].why, (int)got[i] - 100);
		T_EQ(op[i].c.tag, mask_sent[masks[i].takes]);
	}
	t_finish(&n);
}

static void masks_expected(void)
{
	ignore_masks(false);
}

static void masks_unexpected(void)
{
	ignore_masks(true);
}

/* Several receives match: the oldest takes the message. Several messages match:
 * the receive takes the oldest. */
static void first_posted(void)
{
	struct t_node n;
	uint64_t v[8], got[8] = {0};
	struct t_op op[8] = {0};

	t_start(&n, NULL);
	for (int i = 0; i < 8; i++)
		v[i] = 1000 + (uint64_t)i;
	if (t_rank == 1) {
		/* exact, any, exact, any ...: all match the same messages */
		for (int i = 0; i < 8; i++)
			t_trecv(&n, FI_ADDR_UNSPEC, &got[i], 8, 5, i & 1 ? ~0ULL : 0, &op[i]);
	}
	t_barrier();
	if (t_rank == 0)
		for (int i = 0; i < 8; i++)
			t_tsend(&n, 1, &v[i], 8, 5, &op[i]);
	for (int i = 0; i < 8; i++) {
		T_WAIT(&op[i]);
		if (t_rank == 1)
			T_EQ(got[i], v[i]);
	}
	t_barrier();
	/* Again, with the messages there first. */
	if (t_rank == 0) {
		for (int i = 0; i < 8; i++)
			t_tsend(&n, 1, &v[i], 8, 5, &op[i]);
		t_mark(&n, 1, 0);
	} else {
		t_wait_mark(&n, 0, 0);
		for (int i = 0; i < 8; i++)
			t_trecv(&n, FI_ADDR_UNSPEC, &got[i], 8, 5, i & 1 ? ~0ULL : 0, &op[i]);
	}
	for (int i = 0; i < 8; i++) {
		T_WAIT(&op[i]);
		if (t_rank == 1)
			T_EQ(got[i], v[i]);
	}
	t_finish(&n);
}

/* Receives that match nothing that comes stay posted and do not hold others up. */
static void bystanders(void)
{
	enum { N = 300 };
	struct t_node n;
	uint64_t v = 42, got = 0, other[1] = {0};
	struct t_op *idle = calloc(N, sizeof(*idle)), op = {0};

	t_start(&n, NULL);
	if (t_rank == 1) {
		for (int i = 0; i < N; i++)
			t_trecv(&n, FI_ADDR_UNSPEC, other, 8, 0xb0000 + (uint64_t)i, 0, &idle[i]);
		t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 9, 0, &op);
	}
	t_barrier();
	if (t_rank == 0)
		t_tsend(&n, 1, &v, 8, 9, &op);
	T_WAIT(&op);
	if (t_rank == 1) {
		T_EQ(got, 42);
		for (int i = 0; i < N; i++)
			T_EQ(idle[i].done, 0);
	}
	t_barrier();
	/* Now the bystanders, in reverse. */
	for (int i = N - 1; i >= 0; i--) {
		if (t_rank == 0)
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 0xb0000 + (uint64_t)i));
		else
			T_WAIT(&idle[i]);
	}
	free(idle);
	t_finish(&n);
}

/* Directed receives: rank 0 wants each other's message by its source, in an order
 * that is not that of arrival. */
static void directed(bool tagged, size_t len)
{
	struct t_node n;
	struct t_opts o = {.caps = FI_DIRECTED_RECV | FI_SOURCE};
	struct t_buf b[T_PROC_MAX];
	struct t_op op[T_PROC_MAX] = {0};

	t_start(&n, &o);
	if (t_rank > 0) {
		b[0] = t_buf(len, 1);
		t_fill(b[0].p, len, (uint64_t)t_rank, 0);
		if (tagged)
			t_tsend(&n, 0, b[0].p, len, 3, &op[0]);
		else
			T_TRY(fi_send(n.ep, b[0].p, len, NULL, n.peer[0], &op[0]));
		t_mark(&n, 0, 1);
		T_WAIT(&op[0]);
		t_buf_free(&b[0]);
	} else {
		for (int pass = 0; pass < 2; pass++) {
			/* Some are posted before anything is known to have come, the rest after. */
			if (pass == 1)
				for (int r = 1; r < t_nproc; r++)
					t_wait_mark(&n, r, 1);
			for (int r = t_nproc - 1; r > 0; r--) {
				if ((r & 1) != pass)
					continue;
				b[r] = t_buf(len, (size_t)r);
				if (tagged)
					t_trecv(&n, n.peer[r], b[r].p, len, 3, 0, &op[r]);
				else
					T_TRY(fi_recv(n.ep, b[r].p, len, NULL, n.peer[r], &op[r]));
			}
		}
		for (int r = 1; r < t_nproc; r++) {
			T_WAIT(&op[r]);
			T_GOT(&b[r], len, (uint64_t)r);
			T_CHECK(op[r].c.src == n.peer[r], "source %llx, not %llx",
				(unsigned long long)op[r].c.src, (unsigned long long)n.peer[r]);
			t_buf_free(&b[r]);
		}
	}
	t_finish(&n);
}

static void directed_tagged(void)
{
	directed(true, 16);
	directed(true, LARGE);
}

static void directed_untagged(void)
{
	directed(false, 16);
	directed(false, LARGE);
}

/* A directed receive that was posted first leaves others' messages to a wildcard
 * one posted after it. */
static void directed_then_any(void)
{
	struct t_node n;
	struct t_opts o = {.caps = FI_DIRECTED_RECV | FI_SOURCE};
	uint64_t v = 10 + (uint64_t)t_rank, got[3] = {0};
	struct t_op op[3] = {0};

	t_start(&n, &o);
	if (t_rank == 0) {
		t_trecv(&n, n.peer[2], &got[0], 8, 1, 0, &op[0]);
		t_trecv(&n, FI_ADDR_UNSPEC, &got[1], 8, 1, 0, &op[1]);
		t_trecv(&n, n.peer[1], &got[2], 8, 1, 0, &op[2]);
	}
	t_barrier();
	if (t_rank == 1) {
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[0], 1));
		v = 110;
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[0], 1));
	}
	if (t_rank == 0) {
		T_WAIT(&op[1]);
		T_EQ(got[1], 11);
		T_WAIT(&op[2]);
		T_EQ(got[2], 110);
		T_EQ(op[0].done, 0);
	}
	t_barrier();
	if (t_rank == 2)
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[0], 1));
	if (t_rank == 0) {
		T_WAIT(&op[0]);
		T_EQ(got[0], 12);
		T_EQ(op[0].c.src, n.peer[2]);
	}
	t_finish(&n);
}

/* One wildcard receive after the other takes from all, and fi_cq_readfrom names
 * each. */
static void any_source(void)
{
	enum { EACH = 50 };
	struct t_node n;
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV};
	uint64_t v, next[T_PROC_MAX] = {0};

	t_start(&n, &o);
	if (t_rank > 0) {
		for (uint64_t i = 0; i < EACH; i++) {
			v = (uint64_t)t_rank << 32 | i;
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[0], 6));
		}
	} else {
		for (int i = 0; i < EACH * (t_nproc - 1); i++) {
			struct t_op op = {0};
			int r;

			t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 6, 0, &op);
			T_WAIT(&op);
			r = (int)(v >> 32);
			T_CHECK(r > 0 && r < t_nproc, "source %d", r);
			T_EQ(op.c.src, n.peer[r]);
			T_EQ((uint32_t)v, next[r]);
			next[r]++;
		}
	}
	t_finish(&n);
}

/* Unexpected messages taken out of order, from the middle, the end, the front. */
static void unexpected_shuffled(void)
{
	enum { N = 200 };
	struct t_node n;
	uint64_t v, got;
	int order[N];
	struct t_rng rng;

	t_start(&n, NULL);
	if (t_rank == 0) {
		for (uint64_t i = 0; i < N; i++) {
			v = i * i;
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], i));
		}
		t_mark(&n, 1, 0);
	} else {
		t_wait_mark(&n, 0, 0);
		for (int i = 0; i < N; i++)
			order[i] = i;
		t_rng_init(&rng, 1);
		t_shuffle(&rng, order, N);
		for (int i = 0; i < N; i++) {
			struct t_op op = {0};

			t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, (uint64_t)order[i], 0, &op);
			T_WAIT(&op);
			T_EQ(got, (uint64_t)order[i] * (uint64_t)order[i]);
		}
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"tagged_expected_small", 2, expected_small, "the simplest message", 0},
	{"tagged_expected_large", 2, expected_large, "rendezvous into a waiting receive", 0},
	{"tagged_unexpected_small", 2, unexpected_small, "a message before its receive", 0},
	{"tagged_unexpected_large", 2, unexpected_large, "a descriptor waits for its receive", 0},
	{"untagged_expected", 2, untagged_expected, "untagged receives in post order", 0},
	{"untagged_unexpected", 2, untagged_unexpected, "untagged messages in arrival order", 0},
	{"kinds_apart", 2, kinds_apart, "tagged and untagged do not mix", 0},
	{"tag_bits", 2, tag_bits, "all 64 bits of a tag count", 0},
	{"masks_expected", 2, masks_expected, "ignore masks against arriving messages", 0},
	{"masks_unexpected", 2, masks_unexpected, "ignore masks against waiting messages", 0},
	{"first_posted", 2, first_posted, "oldest receive, oldest message", 0},
	{"bystanders", 2, bystanders, "receives that match nothing do no harm", 0},
	{"directed_tagged", 4, directed_tagged, "a receive from one source", 0},
	{"directed_untagged", 4, directed_untagged, "the same, untagged", 0},
	{"directed_then_any", 3, directed_then_any, "directed and wildcard receives mixed", 0},
	{"any_source", 4, any_source, "wildcard receives from several, sources named", 0},
	{"unexpected_shuffled", 2, unexpected_shuffled, "unexpected taken in any order", 0},
};

const struct t_group group_match = T_GROUP("match", cases);
