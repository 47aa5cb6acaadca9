/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * exchange_test.c: long messages that cross, or follow each other closely: when the lines of a
 * sender's next payload are asked for (bl_ep.warm, bl_ep.crosses), and which message that has no
 * receive yet stays in its ring until the next read. Endpoints of one process, one thread.
 */
#include "endpoint/api.h"
#include "unit/node.h"

#include <string.h>

#define LONG  3000u /* bytes: its lines are asked for while the other's is copied out */
#define SHORT 1000u /* and its before that */
#define SLOT  64u   /* it needs no payload */

static struct node node;
static uint8_t from[LONG], to[LONG];

static void send_to(size_t by, size_t at, size_t len)
{
	node_send(&node, by, at, from, len, len, NULL, NODE_FLAGS);
	while (node.cq[by]->head != node.cq[by]->tail) /* that it has been sent */
		node_completion(&node, by, NULL);
}

static void post_at(size_t at, size_t len)
{
	assert_int_equal(bl_recv_buf(node.ep[at], to, len, BL_ADDR_ANY, len, 0, to, NODE_FLAGS), 0);
}

static void take_at(size_t at, size_t len)
{
	struct bl_comp comp;

	memset(to, 0, len);
	post_at(at, len);
	comp = node_completion(&node, at, NULL);
	assert_int_equal(comp.len, len);
	assert_memory_equal(to, from, len);
}

static void open_nodes(size_t count)
{
	node_open(&node, count);
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* --- when lines are asked for ------------------------------------------------------ */

static void cross(size_t len)
{
	send_to(0, 1, len);
	send_to(1, 0, len);
	take_at(0, len);
	take_at(1, len);
}

static void answer(size_t len)
{
	send_to(0, 1, len);
	take_at(1, len);
	send_to(1, 0, len);
	take_at(0, len);
}

struct ask_row {
	struct row row;
	void (*round)(size_t len);
	size_t len;
	bool exchange;
};

static const struct ask_row asks[] = {
	{{"long ones cross", "each while the other's is copied"}, cross, LONG, true},
	{{"the shortest that is", "long enough"}, cross, BL_ASK_MIN, true},
	{{"a byte less", "sooner"}, cross, BL_ASK_MIN - 1, false},
	{{"short ones cross", "sooner"}, cross, SHORT, false},
	{{"long ones answer", "one waits for the other's: sooner"}, answer, LONG, false},
};

static void asked_for(void **state)
{
	const struct ask_row *row = TABLE_ROW(struct ask_row, state);

	open_nodes(2);
	for (int i = 0; i < 5; i++)
		row->round(row->len);
	assert_int_equal(node.ep[0]->exchange, row->exchange);
	assert_null(node.ep[0]->warm); /* once for each */

	send_to(0, 1, row->len);
	assert_non_null(node.ep[0]->warm);
	bl_cq_look(node.cq[0]); /* an idle moment */
	assert_int_equal(node.ep[0]->warm != NULL, row->exchange);
	send_to(1, 0, row->len);
	take_at(0, row->len);
	assert_null(node.ep[0]->warm);
	take_at(1, row->len);
	node_close(&node);
}

/* Nothing comes for a while: asked for all the same. We send another one first: they don't cross.
 */
static void crosses_no_more(void **state)
{
	open_nodes(2);
	cross(LONG);
	assert_true(node.ep[0]->exchange);
	send_to(0, 1, LONG);
	assert_non_null(node.ep[0]->warm);
	node_expect_nothing(&node, 0); /* only that there is no more of what came before */
	node_expect_nothing(&node, 0);
	node_expect_nothing(&node, 0);
	assert_null(node.ep[0]->warm);

	send_to(0, 1, LONG);
	assert_true(node.ep[0]->exchange);
	send_to(0, 1, LONG);
	assert_false(node.ep[0]->exchange);
	bl_cq_look(node.cq[0]);
	assert_null(node.ep[0]->warm);
	for (int i = 0; i < 3; i++)
		take_at(1, LONG);
	node_close(&node);
}

/* --- which message is left for the next read ---------------------------------------- */

struct left_row {
	struct row row;
	size_t first, second, third; /* bytes; 0: no such message */
	bool posted;		     /* the first has a receive; none: it comes early */
	bool left;
};

static const struct left_row lefts[] = {
	{{"behind what is waited for", "its receive is about to be posted"},
	 SLOT,
	 LONG,
	 0,
	 true,
	 true},
	{{"the shortest", "that isn't in its slot"}, SLOT, BL_SLOT_INLINE + 1, 0, true, true},
	{{"in its slot", "as soon kept as looked at again"}, SLOT, BL_SLOT_INLINE, 0, true, false},
	{{"two", "only the last"}, SLOT, LONG, SHORT, true, true},
	{{"before a short one", "what is behind it may be urgent"}, SLOT, LONG, SLOT, true, false},
	{{"behind an early one", "which brings our caller nothing"}, SLOT, LONG, 0, false, false},
	{{"alone", "nobody waits for anything else"}, 0, LONG, 0, false, false},
};

/* By one who has found something at each of his last reads, and looks for more. */
static ssize_t read_once(void)
{
	struct bl_comp comp[4];

	node.cq[0]->in_row = BL_IN_ROW;
	return bl_cq_read(node.cq[0], comp, 4, sizeof comp[0], NULL);
}

static void left_in_the_ring(void **state)
{
	const struct left_row *row = TABLE_ROW(struct left_row, state);
	uint32_t begun, sent;
	struct bl_peer *peer;

	open_nodes(2);
	peer = node.ep[0]->dest[1];
	node_settle(&node, 0);
	begun = peer->rx.next;
	if (row->posted)
		post_at(0, row->first);
	if (row->first)
		send_to(1, 0, row->first);
	send_to(1, 0, row->second);
	if (row->third)
		send_to(1, 0, row->third);
	sent = node.ep[1]->dest[0]->tx.next;
	assert_int_equal(read_once(), row->posted ? 1 : -EAGAIN);
	assert_int_equal(sent - peer->rx.next, row->left);
	assert_int_equal(peer->rx.next - begun, (row->first != 0) + (row->third != 0) + !row->left);

	take_at(0, row->second); /* from where it is */
	if (row->third)
		take_at(0, row->third);
	if (row->first && !row->posted)
		take_at(0, row->first);
	assert_null(node.ep[0]->tagged.unexpected.head);
	node_expect_nothing(&node, 0);
	node_close(&node);
}

/* Endpoint 1 has sent two, of which one read has left the second. */
static struct bl_peer *leave_one(size_t count)
{
	struct bl_peer *peer;

	open_nodes(count);
	peer = node.ep[0]->dest[1];
	node_settle(&node, 0);
	post_at(0, SLOT);
	send_to(1, 0, SLOT);
	send_to(1, 0, LONG);
	assert_int_equal(read_once(), 1);
	assert_int_equal(node.ep[1]->dest[0]->tx.next - peer->rx.next, 1);
	assert_null(node.ep[0]->tagged.unexpected.head);
	return peer;
}

/* The next read takes it, whatever else that brings from other lanes: not left for ever. */
static void left_once(void **state)
{
	struct bl_peer *peer = leave_one(3);

	post_at(0, SLOT);
	post_at(0, SLOT);
	send_to(2, 0, SLOT);
	send_to(0, 0, SLOT);
	assert_int_equal(read_once(), 2);
	assert_int_equal(node.ep[1]->dest[0]->tx.next, peer->rx.next);
	assert_non_null(node.ep[0]->tagged.unexpected.head);
	take_at(0, LONG);
	node_close(&node);
}

/* What another lane has brought is no reason: all of a lane is taken, read by read. */
static void not_for_another_lane(void **state)
{
	struct bl_peer *peer;

	open_nodes(3);
	node_settle(&node, 0);
	peer = node.ep[0]->dest[2];
	for (int i = 0; i < 3; i++)
		send_to(2, 0, LONG);
	for (size_t by = 0; by < 2; by++) { /* one of them is before it */
		post_at(0, SLOT);
		send_to(by, 0, SLOT);
	}
	assert_int_equal(read_once(), 2);
	assert_int_equal(node.ep[2]->dest[0]->tx.next, peer->rx.next);
	for (int i = 0; i < 3; i++)
		take_at(0, LONG);
	node_close(&node);
}

/* Nobody sleeps over it, and who asks for it finds it. */
static void left_and_awake(void **state)
{
	struct bl_peer *peer = leave_one(2);
	struct bl_sleep sleep;

	if (bl_wait_doze(&node.cq[0]->wait, &sleep)) { /* it has been read before, then */
		assert_int_equal(node.ep[1]->dest[0]->tx.next, peer->rx.next);
		bl_wait_rise(&node.cq[0]->wait, &sleep);
	}
	take_at(0, LONG);
	node_close(&node);
}

static void left_and_found(void **state)
{
	struct iovec iov = {to, LONG};
	struct bl_recv look = {.iov = &iov,
			       .niov = 1,
			       .src = BL_ADDR_ANY,
			       .tag = LONG,
			       .flags = NODE_FLAGS | BL_PEEK};

	leave_one(2);
	assert_int_equal(bl_recv(node.ep[0], &look), 0);
	assert_int_equal(node_completion(&node, 0, NULL).len, LONG);
	take_at(0, LONG);
	node_close(&node);
}

/* It has been heard once: what we send before it is read isn't what it has failed to answer. */
static void left_is_no_news(void **state)
{
	open_nodes(2);
	for (int i = 0; i < 8; i++) {
		post_at(0, SLOT);
		send_to(1, 0, SLOT); /* what follows is long */
		send_to(1, 0, LONG);
		assert_int_equal(read_once(), 1);
		assert_null(node.ep[0]->tagged.unexpected.head);
		send_to(0, 1, SLOT); /* come on */
		take_at(0, LONG);
		take_at(1, SLOT);
	}
	assert_true(bl_tx_is_pingpong(&node.ep[0]->dest[1]->tx));
	node_close(&node);
}

/* A long message for a receive without a buffer: sanitizers look at the copy. */
static void into_nothing(void **state)
{
	open_nodes(2);
	assert_int_equal(bl_recv_buf(node.ep[0], NULL, 0, BL_ADDR_ANY, LONG, 0, to, NODE_FLAGS), 0);
	send_to(1, 0, LONG);
	assert_int_equal(node_error(&node, 0).olen, LONG);
	node_close(&node);
}

/* --- who reads long packets is in the library ---------------------------------------- */

static void says_active(void **state)
{
	_Atomic uint64_t *active;

	open_nodes(2);
	active = &node.ep[0]->local.seg.header->active;
	for (int lap = 0; lap < 2; lap++) {
		for (size_t read = 0; read < BL_SAY_BYTES; read += LONG) {
			atomic_store(active, 0);
			send_to(1, 0, LONG);
			take_at(0, LONG);
			assert_int_equal(atomic_load(active) != 0, read + LONG >= BL_SAY_BYTES);
		}
	}
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("asked for", asked_for, asks);
	TABLE_TEST(crosses_no_more);
	TABLE_ROWS("left", left_in_the_ring, lefts);
	TABLE_TEST(left_once);
	TABLE_TEST(not_for_another_lane);
	TABLE_TEST(left_and_awake);
	TABLE_TEST(left_and_found);
	TABLE_TEST(left_is_no_news);
	TABLE_TEST(into_nothing);
	TABLE_TEST(says_active);
	return table_run("exchange");
}
