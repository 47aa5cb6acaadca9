/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * short_away.c: messages that are announced but shorter than those of overlap.c: a receiver that
 * shows receives for them is served while it is away.
 */
#include "overlap.h"

#include <stdlib.h>

#define TAG 5

static const size_t shorts[] = {4097, 8191, 16384, 20000, 32768, 49152, 65535};
#define NSHORTS (sizeof(shorts) / sizeof(shorts[0]))

/* None of them goes whole, and receives are shown from the first on: what teaches a receiver to
 * show them is unit/publish', for where others use these cores it learns nothing. */
static void start_short(struct t_node *n, const struct t_opts *o)
{
	setenv("FI_BEELINE_OVERLAP", "always", 1);
	setenv("FI_BEELINE_EAGER_MAX", "4096", 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", "0", 1);
	setenv("FI_BEELINE_LONG_RING", "never", 1);
	start(n, o, true);
}

/* As receiver_away() of overlap.c. */
static void served(bool tagged, bool anybody, size_t pieces)
{
	struct t_opts o = {.cq_data = true, .iov = 8};
	struct t_node n;

	start_short(&n, &o);
	for (uint64_t i = 0; i < 6 * NSHORTS; i++) {
		struct t_buf b = t_buf(shorts[i % NSHORTS], i * 3);
		struct t_op op = {0};

		t_at("%zu bytes", b.len);
		t_barrier();
		if (t_rank == 0) {
			t_fill(b.p, b.len, i, 0);
			away(); /* posted */
			if (tagged)
				t_tsend(&n, 1, b.p, b.len, TAG, &op);
			else
				T_TRY(fi_send(n.ep, b.p, b.len, NULL, n.peer[1], &op));
			T_WAIT(&op);
			away();
		} else {
			fi_addr_t src = anybody ? FI_ADDR_UNSPEC : n.peer[0];

			t_blank(&b);
			if (pieces > 1)
				post_pieces(&n, src, &b, pieces, TAG, &op);
			else
				post(&n, tagged, src, &b, TAG, &op);
			away();
			away(); /* sent */
			T_GOT(&b, b.len, i);
			T_EQ(op.done, 0);
			T_WAIT(&op);
			T_EQ(op.c.len, b.len);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void tagged(void)
{
	served(true, false, 1);
}

static void untagged(void)
{
	served(false, false, 1);
}

static void anybody(void)
{
	served(true, true, 1);
}

static void scattered(void)
{
	served(true, false, 5);
}

/* Each of two sends while rank 0 is away, who can show a receive to but one of them: to the one
 * whose message such a receive took last. */
static void expected(void)
{
	struct t_node n;

	start_short(&n, NULL);
	for (uint64_t i = 0; i < 24; i++) {
		int from = 1 + (int)(i / 4 % 2);
		struct t_buf b = t_buf(shorts[i % NSHORTS], i);
		struct t_op op = {0};

		t_at("round %d", (int)i);
		if (t_rank == 0) {
			t_blank(&b);
			post(&n, true, FI_ADDR_UNSPEC, &b, TAG, &op);
			away();
			away(); /* sent */
			if (i >= 4 &&
			    i % 4) /* neither the first times, nor the first of the other's */
				T_GOT(&b, b.len, i);
			T_WAIT(&op);
			T_GOT(&b, b.len, i);
		} else {
			away();
			if (t_rank == from) {
				t_fill(b.p, b.len, i, 0);
				t_tsend(&n, 0, b.p, b.len, TAG, &op);
				while (i >= 4 && i % 4 && !op.done)
					t_idle();
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

static const struct t_case cases[] = {
	{"short_away_tagged", 2, tagged, "the sender completes it alone", 0},
	{"short_away_untagged", 2, untagged, "the same, untagged", 0},
	{"short_away_anybody", 2, anybody, "posted for any source", 0},
	{"short_away_scattered", 2, scattered, "in five pieces", 0},
	{"short_away_expected", 3, expected, "for any of two", 0},
};

const struct t_group group_short_away = T_GROUP("short_away", cases);
