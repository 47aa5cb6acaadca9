/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stays_test.c: a sender whose user is used to leave announces a large message: it goes on at once
 * if the receiver waits in the library, as it is used to, and will take the message; else it sees
 * to it that the message is taken, or claims the receive and copies all. Endpoint 0 sends,
 * endpoint 1 receives, and isn't polled meanwhile.
 */
#include <errno.h>
#include <string.h>

#include "transport/local/ways/proxy.h"
#include "transport/local/ways/rndv.h"
#include "unit/node.h"

#define LEN	    200000u
#define DEADLINE_NS 20000000000ull

static struct node node;
static uint8_t from[LEN], to[LEN];

static struct bl_seg_header *receiver(void)
{
	return node.ep[1]->local.seg.header;
}

static enum bl_stays says(void)
{
	return (enum bl_stays)atomic_load(&receiver()->stays);
}

static void post(void)
{
	assert_int_equal(bl_recv_buf(node.ep[1], to, LEN, 0, 1, 0, to, NODE_FLAGS), 0);
}

static void arrives(void)
{
	struct bl_comp got = node_completion(&node, 1, NULL);

	assert_ptr_equal(got.context, to);
	assert_int_equal(got.len, LEN);
	assert_memory_equal(to, from, LEN);
	while (node.ep[0]->rndv.requests)
		node_progress(&node);
}

static void begin(void)
{
	node_open(&node, 2);
	for (size_t a = 0; a < 2; a++)
		for (size_t b = 0; b < 2; b++)
			node.ep[a]->dest[b]->copy.push = BL_COPY_VM;
	memset(to, 0, sizeof to);
}

struct stays_row {
	struct row row;
	enum bl_stays stays;
	bool here;
	bool posted;
	bool claims;
};

static const struct stays_row rows[] = {
	{{"waits", "it takes the message"}, BL_STAYS_WAITS, true, true, false},
	{{"has posted", "it may be about to leave"}, BL_STAYS_POSTED, true, true, true},
	{{"leaves", "it isn't used to wait"}, BL_STAYS_NOT, true, true, true},
	{{"waited", "and has gone since"}, BL_STAYS_WAITS, false, true, true},
	{{"waits for something else", "there is nothing to claim"},
	 BL_STAYS_WAITS,
	 true,
	 false,
	 false},
	{{"leaves, without a receive", "there is nothing to claim"},
	 BL_STAYS_NOT,
	 false,
	 false,
	 false},
};

static void announced(void **state)
{
	const struct stays_row *row = TABLE_ROW(struct stays_row, state);
	uint64_t second = 1000000 * bl_ticks_per_us();

	begin();
	if (row->posted)
		post();
	atomic_store(&receiver()->stays, row->stays);
	/* In the middle of a copy that takes a second: here, however slow we are. */
	atomic_store(&receiver()->here, row->here ? bl_ticks() + second : 0);
	assert_int_equal(bl_send_buf(node.ep[0], from, LEN, 1, 1, 0, from, NODE_FLAGS), 0);
	assert_int_equal(node.ep[0]->rndv.requests, !row->claims);
	assert_int_equal(!memcmp(to, from, LEN), row->claims);
	if (!row->posted)
		post();
	arrives();
	node_close(&node);
}

/* Reads in a row that find nothing. */
static void waits(void)
{
	uint64_t late = bl_clock_ns() + DEADLINE_NS;
	struct bl_comp comp;

	do {
		assert_true(bl_clock_ns() < late);
		node.cq[1]->last_empty = bl_ticks(); /* not long ago, however slow we are */
		assert_int_equal(bl_cq_read(node.cq[1], &comp, 1, sizeof comp, NULL), -EAGAIN);
	} while (says() != BL_STAYS_WAITS);
}

/* One read that finds nothing isn't a wait. */
static void one_read(void **state)
{
	struct bl_comp comp;

	(void)state;
	begin();
	node.ep[1]->ways.habit.leaves = 0;
	post();
	node_send(&node, 1, 1, NULL, 0, 2, NULL, BL_TAGGED);
	assert_int_equal(bl_recv_buf(node.ep[1], NULL, 0, 1, 2, 0, NULL, NODE_FLAGS), 0);
	node.ep[1]->ways.habit.left_at +=
		1000000 * bl_ticks_per_us(); /* a short absence, however slow we are */
	node_completion(&node, 1, NULL);
	assert_int_equal(bl_cq_read(node.cq[1], &comp, 1, sizeof comp, NULL), -EAGAIN);
	assert_int_equal(node.ep[1]->ways.habit.left_at, 0);
	assert_int_equal(says(), BL_STAYS_POSTED);
	node_close(&node);
}

/* What it says of itself: not what it is used to do alone. */
static void word(void **state)
{
	(void)state;
	begin();
	node.ep[1]->ways.habit.leaves = 0;
	bl_habit_stays(node.ep[1]);
	assert_int_equal(says(), BL_STAYS_POSTED);
	waits();
	assert_int_equal(says(), BL_STAYS_WAITS);
	post();
	assert_int_equal(says(), BL_STAYS_POSTED);
	bl_habit_back(node.ep[1], node.ep[1]->ways.habit.left_at);
	assert_int_equal(says(), BL_STAYS_POSTED); /* it may have looked for something else */
	waits();
	assert_int_equal(says(), BL_STAYS_WAITS);
	assert_int_equal(bl_send_buf(node.ep[1], from, LEN, 0, 2, 0, from, NODE_FLAGS), 0);
	assert_int_equal(says(), BL_STAYS_POSTED);
	bl_habit_back(node.ep[1],
		      node.ep[1]->ways.habit.left_at + 1000 * BL_AWAY_US * bl_ticks_per_us());
	assert_int_equal(says(), BL_STAYS_NOT);
	for (uint32_t i = 0; i < BL_LEAVES_MOST; i++) {
		assert_int_equal(says(), BL_STAYS_NOT);
		bl_habit_leave(node.ep[1]);
		assert_int_equal(says(), BL_STAYS_NOT);
		bl_habit_back(node.ep[1], node.ep[1]->ways.habit.left_at);
	}
	assert_int_equal(says(), BL_STAYS_POSTED);
	node_close(&node);
}

int main(void)
{
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13 | 1);
	TABLE_ROWS("receiver", announced, rows);
	TABLE_TEST(one_read);
	TABLE_TEST(word);
	return table_run("stays");
}
