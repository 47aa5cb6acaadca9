/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * in_row_test.c: how many messages one read of a queue takes: one, until reads in a row have found
 * something; then all there are, until that is in vain. Endpoints 1 and 2 send, 0 reads.
 */
#include <errno.h>

#include "unit/node.h"

#define STEPS_MOST 10
#define ROOM	   8
#define NONE	   (-1)

struct step {
	int sent;   /* messages by endpoint 1, just before */
	int second; /* and by endpoint 2 */
	int early;  /* and by each, before those, that nobody has posted a receive for */
	int taken;  /* by a read; NONE; 0: no more steps */
};

struct in_row_row {
	struct row row;
	size_t room; /* of a read; 0: ROOM */
	bool cold;   /* nobody polls the lanes, they ring */
	struct step step[STEPS_MOST];
};

/* Each begins behind an empty read. */
static const struct in_row_row rows[] = {
	{{"one", "and nothing more"}, 0, false, {{1, 0, 0, 1}, {0, 0, 0, NONE}}},
	{{"five at once", "two on their own, then what is left"},
	 0,
	 false,
	 {{5, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 3}, {0, 0, 0, NONE}}},
	{{"in time", "each has come before its read: so may the next, and at once"},
	 0,
	 false,
	 {{1, 0, 0, 1}, {1, 0, 0, 1}, {2, 0, 0, 2}, {4, 0, 0, 4}}},
	{{"an empty read between", "all begins anew"},
	 0,
	 false,
	 {{2, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, NONE}, {3, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}}},
	{{"in vain", "the same: one that looked for more has found none"},
	 0,
	 false,
	 {{2, 0, 0, 1}, {0, 0, 0, 1}, {1, 0, 0, 1}, {3, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}}},
	{{"not in vain", "looks go on"},
	 0,
	 false,
	 {{2, 0, 0, 1},
	  {0, 0, 0, 1},
	  {2, 0, 0, 2},
	  {3, 0, 0, 3},
	  {1, 0, 0, 1},
	  {3, 0, 0, 1},
	  {0, 0, 0, 1},
	  {0, 0, 0, 1}}},
	{{"no more than there is room for", "the rest is for the next one"},
	 2,
	 false,
	 {{7, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 2}, {0, 0, 0, 2}, {0, 0, 0, 1}, {0, 0, 0, NONE}}},
	{{"room for one", "the caller's way"},
	 1,
	 false,
	 {{4, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, NONE}}},
	{{"of two neighbours", "each on its own"}, 0, false, {{1, 1, 0, 2}, {0, 0, 0, NONE}}},
	{{"several of two", "one of each, twice; then what is left"},
	 0,
	 false,
	 {{4, 3, 0, 2}, {0, 0, 0, 2}, {0, 0, 0, 3}}},
	{{"one of each, again and again", "none has more: all begins anew"},
	 0,
	 false,
	 {{1, 1, 0, 2}, {1, 1, 0, 2}, {1, 1, 0, 2}, {2, 2, 0, 2}, {0, 0, 0, 2}, {0, 0, 0, NONE}}},
	{{"one of two has more", "not in vain"},
	 0,
	 false,
	 {{1, 1, 0, 2}, {1, 1, 0, 2}, {1, 2, 0, 3}, {2, 2, 0, 4}}},
	{{"a lane that rings", "all, or it would have to ring again"},
	 0,
	 true,
	 {{5, 0, 0, 5}, {0, 0, 0, NONE}}},
	{{"a lane that has rung", "one read like another"},
	 0,
	 true,
	 {{1, 0, 0, 1}, {1, 0, 0, 1}, {3, 0, 0, 3}}},
	{{"early ones before it", "bring nothing, and are passed over"},
	 0,
	 false,
	 {{1, 0, 3, 1}, {0, 0, 0, NONE}}},
	{{"early ones of another", "the same: its lane has brought nothing"},
	 0,
	 false,
	 {{0, 1, 3, 1}, {0, 0, 0, NONE}}},
	{{"only early ones", "an empty read"},
	 0,
	 false,
	 {{0, 0, 3, NONE}, {2, 0, 0, 1}, {0, 0, 0, 1}}},
};

static struct node node;

static void send_from(size_t from, int count, uint64_t tag)
{
	for (int i = 0; i < count; i++) {
		if (tag)
			assert_int_equal(
				bl_recv_buf(node.ep[0], NULL, 0, from, tag, 0, NULL, NODE_FLAGS),
				0);
		node_send(&node, from, 0, NULL, 0, tag, NULL, BL_TAGGED);
	}
}

/* Of both. */
static uint32_t unread(void)
{
	uint32_t n = 0;

	for (size_t from = 1; from <= 2; from++)
		n += node.ep[from]->dest[0]->tx.next - node.ep[0]->dest[from]->rx.next;
	return n;
}

/* What nobody had posted a receive for is there all the same. */
static void take_early(int count)
{
	for (int i = 0; i < 2 * count; i++) {
		assert_int_equal(
			bl_recv_buf(node.ep[0], NULL, 0, 1 + i % 2, 0, 0, NULL, NODE_FLAGS), 0);
		node_completion(&node, 0, NULL);
	}
	node_expect_nothing(&node, 0);
}

static void is_taken(void **state)
{
	const struct in_row_row *row = TABLE_ROW(struct in_row_row, state);
	struct bl_comp comp[ROOM];
	int early = 0, left = 0;

	node_open(&node, 3);
	node_expect_nothing(&node, 0);
	if (row->cold && bl_local_stop_polling(&node.ep[0]->local)) {
		node_close(&node);
		skip(); /* no membarrier here */
	}
	for (const struct step *s = row->step; s < row->step + STEPS_MOST && s->taken; s++) {
		ssize_t got;

		send_from(1, s->early, 0);
		send_from(2, s->early, 0);
		send_from(1, s->sent, 1);
		send_from(2, s->second, 2);
		early += s->early;
		left += s->sent + s->second - (s->taken == NONE ? 0 : s->taken);
		got = bl_cq_read(node.cq[0], comp, row->room ? row->room : ROOM, sizeof comp[0],
				 NULL);
		assert_int_equal(got, s->taken == NONE ? -EAGAIN : s->taken);
		assert_int_equal(unread(), left);
	}
	assert_int_equal(left, 0);
	take_early(early);
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("taken", is_taken, rows);
	return table_run("in_row");
}
