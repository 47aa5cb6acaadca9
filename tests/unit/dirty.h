/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dirty.h: for tests of messages whose bytes their sender has just written
 * (transport/local/adapt/dirty.h), between endpoints of one process. What takes long is decided by
 * the plan, not by this machine. The program wraps bl_memlimit() and bl_waits_here().
 */
#ifndef BL_TESTS_UNIT_FRESH_H
#define BL_TESTS_UNIT_FRESH_H

#define EAGER_LONG 0u
#define LONGEST	   (FRESH + 1000u)
#define FRESH	   BL_COPYBUF_MOST
#include "transport/local/adapt/dirty.h"

#include "base/knobs.h"
#include "transport/local/lane/wire.h"
#include "unit/limits.h"
#include "unit/pair.h"

#define MIDDLE 8192u
#define LEN    40000u /* more than a stream's whole ones have */

/* Whether a neighbour stays in the library, for messages that are claimed otherwise. */
static bool waits_here = true;
static bool is_using;	 /* for no longer than to use what it has got */
static size_t waits_for; /* bytes, when it was asked last */
bool __wrap_bl_waits_here(const struct bl_peer *peer, size_t uses);
bool __wrap_bl_waits_here(const struct bl_peer *peer, size_t uses)
{
	(void)peer;
	waits_for = uses;
	return waits_here && (uses || !is_using);
}

uint64_t __wrap_bl_memlimit(void);
uint64_t __wrap_bl_memlimit(void)
{
	return UINT64_MAX;
}

/* However little a copy takes it is too long, or however much it isn't. */
static inline void copies_take_long(bool long_)
{
	limits()->dirty_ns = long_ ? 0 : 1000000000;
	limits()->dirty_per_kb = 0;
	limits()->dirty_per_kb_most = 1000000000;
}

static inline void open_fresh(void)
{
	assert_true(plan()->by_stream);
	limits_by_stream(MIDDLE, 32768);
	plan()->copybuf = plan()->exchange_only = true;
	limits_dirty(FRESH, false);
	limits()->copybuf = limits()->used_near = 0;
	limits()->used_far_ns_kb = 30;
	limits()->streamed_far = false;
	copies_take_long(true);
	bl_tx_here_ns = UINT32_MAX; /* no line's time says how far it is: the tests do */
	open_pair();
}

/* Both lanes are long, and have room for ping-pongs. */
static inline void stretch_both(void)
{
	for (size_t i = 0; i < 2; i++) {
		struct bl_tx *tx = &node.ep[i]->dest[!i]->tx;

		tx->short_of = BL_LONGRING_USES;
		bl_longring_look(node.ep[i]->dest[!i]);
		assert_true(tx->pay_most > BL_PAYLOAD_SIZE && tx->copybuf);
	}
}

static inline void say_fresh(size_t by, bool dirty)
{
	struct bl_tx *tx = &node.ep[by]->dest[!by]->tx;

	tx->dirty = dirty ? BL_DIRTY_AFTER : 0;
	tx->dirty_left = BL_DIRTY_MOST;
}

/* Of the last packet of one's with a message or a description. */
static inline uint32_t last_head(size_t by)
{
	const struct bl_tx *tx = &node.ep[by]->dest[!by]->tx;

	return tx->slot[(tx->next - 1) % BL_SLOTS].head;
}

/* How the last message went: announced, to the copy buffer, streamed there, or in the ring. */
static inline char way_of_last(size_t by)
{
	uint32_t head = last_head(by), flags = BL_HEAD_FLAGS(head);

	if (BL_HEAD_OP(head) == BL_OP_TAGGED_RTS)
		return 'r';
	assert_int_equal(BL_HEAD_OP(head), BL_OP_TAGGED);
	if (!(flags & (BL_SLOT_CB_GRANT | BL_SLOT_CB_USE)))
		return 'w';
	return flags & BL_SLOT_STREAMED ? 'g' : 'p';
}

static inline void sends_past(size_t by, size_t len, uint8_t past)
{
	struct bl_tx *tx = &node.ep[by]->dest[!by]->tx;
	struct iovec iov = {from, len};
	struct bl_send send = {&iov, 1, !by, 9, 0, from, NODE_FLAGS, NULL};

	tx->past = past; /* however long stores take here, and calls */
	node.ep[by]->ways.habit.leaves = 0;
	assert_int_equal(bl_send(node.ep[by], &send), 0);
}

static inline void sends(size_t by, size_t len)
{
	sends_past(by, len, 0);
}

static inline void posts(size_t at)
{
	memset(to, 0xee, sizeof to);
	assert_int_equal(bl_recv_buf(node.ep[at], to, LONGEST, !at, 9, 0, to, NODE_FLAGS), 0);
}

static inline void has(size_t at, size_t len)
{
	assert_int_equal(node_completion(&node, at, NULL).len, len);
	check(len);
	assert_ptr_equal(node_completion(&node, !at, NULL).context, from);
}

static inline void receives(size_t at, size_t len)
{
	posts(at);
	has(at, len);
}

/* One of ours. */
static inline void one(size_t len)
{
	sends(1, len);
	receives(0, len);
}

static inline void word(size_t by)
{
	node_send(&node, by, !by, "12345678", 8, 77, NULL, BL_TAGGED);
	assert_int_equal(bl_recv_buf(node.ep[!by], to, 8, by, 77, 0, to, NODE_FLAGS), 0);
	assert_int_equal(node_completion(&node, !by, NULL).len, 8);
}

/* One each, sent already. */
static inline void receive_both(size_t len)
{
	static uint8_t other[LONGEST];

	memset(to, 0xee, sizeof to);
	memset(other, 0xee, sizeof other);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(bl_recv_buf(node.ep[i], i ? other : to, LONGEST, !i, 9, 0, NULL,
					     NODE_FLAGS),
				 0);
	for (size_t i = 0; i < 4; i++) /* two sends, two receives */
		node_completion(&node, i % 2, NULL);
	check(len);
	assert_memory_equal(other, from, len);
}

#endif
