/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deep_stream_test.c: streams of large messages where they are carried (bl_limits()->stream_depth),
 * and what is carried beside messages that are fresh.
 */
#include "transport/local/ways/proxy_post.h"
#include "unit/dirty.h"

/* A longer lane is as long as any, whatever this machine has, or no longer than most. */
static size_t cache = 1 << 20;
size_t __wrap_bl_place_cache(void);
size_t __wrap_bl_place_cache(void)
{
	return cache;
}

/* Whether a full ring is waited for. */
static bool always_gives_room;
bool __real_bl_gives_room(const struct bl_peer *peer);
bool __wrap_bl_gives_room(const struct bl_peer *peer);
bool __wrap_bl_gives_room(const struct bl_peer *peer)
{
	return always_gives_room || __real_bl_gives_room(peer);
}

struct deep_row {
	struct row row;
	bool deep, far, hears, expects, leaves, alone;
	bool is_short; /* its ring has no room for eight */
	size_t len;    /* 0: the least that can be claimed */
	/* s: one is sent, r: and one received */
	const char *steps;
	const char *ways; /* whole, or announced ("r") */
};

static const struct deep_row deeps[] = {
	{{"deep", "eight may be unread"}, .deep = true, .steps = "sssssssss", .ways = "wwwwwwwwr"},
	{{"deep, one read", "and those that are pending don't matter"},
	 .deep = true,
	 .steps = "sssssssssrs",
	 .ways = "wwwwwwwwrw"},
	{{"deep, little room", "none of them waits for room"},
	 .deep = true,
	 .is_short = true,
	 .len = 131072,
	 .steps = "sssss",
	 .ways = "wwrrr"},
	{{"deep, the longest", "as many"},
	 .deep = true,
	 .len = 131072,
	 .steps = "sssssssss",
	 .ways = "wwwwwwwwr"},
	{{"not deep", "two, and no more while one is pending"},
	 .steps = "ssssrrs",
	 .ways = "wwrrr"},
	{{"deep, but it hears from it", "both copy some"},
	 .deep = true,
	 .hears = true,
	 .steps = "sssrs",
	 .ways = "wwrr"},
	{{"deep, but it expects such ones itself", "the same"},
	 .deep = true,
	 .expects = true,
	 .steps = "sssrs",
	 .ways = "wwrr"},
	{{"deep, far away", "one copy is better"},
	 .deep = true,
	 .far = true,
	 .steps = "sssrs",
	 .ways = "wwrr"},
	{{"deep, the sender leaves", "it is copied for who computes"},
	 .deep = true,
	 .leaves = true,
	 .steps = "ss",
	 .ways = "rr"},
	{{"deep, the receiver has left", "the same"},
	 .deep = true,
	 .alone = true,
	 .steps = "ss",
	 .ways = "rr"},
};

static void streams_of_large_ones(void **state)
{
	const struct deep_row *row = TABLE_ROW(struct deep_row, state);
	struct bl_own_adverts shown = {0};
	struct bl_tx *tx;
	size_t len = row->len ? row->len : BL_PROXY_MIN;
	struct iovec iov = {from, len};
	struct bl_send send = {&iov, 1, 0, 9, 0, from, NODE_FLAGS, NULL};
	char seen[16] = "";
	size_t sent = 0, got = 0;

	plan()->exchange_only = false;
	plan()->copybuf = true;
	limits_by_length(131072, 131072, 131072);
	limits_dirty(0, row->deep);
	limits()->copybuf = 0;
	bl_tx_here_ns = UINT32_MAX;
	cache = row->is_short ? 512 << 10 : 1 << 20;
	open_pair();
	cache = 1 << 20;
	lengthen();
	tx = &peer()->tx;
	assert_int_equal(tx->pay_most > (1 << 20), !row->is_short);
	waits_here = !row->alone;
	shown.used = row->expects;
	peer()->board = row->expects ? &shown : NULL;
	always_gives_room = true;
	for (const char *at = row->steps; *at; at++) {
		if (*at == 'r') {
			receives(0, len);
			got++;
			continue;
		}
		tx->asked = (uint8_t)(tx->next - (row->hears ? BL_TURN - 1 : BL_TURN + 1));
		tx->slow = row->far ? 7 : 0;
		sender->ways.habit.leaves = row->leaves;
		assert_int_equal(bl_send(sender, &send), 0);
		sender->ways.habit.leaves = 0;
		seen[sent++] = way_of_last(1);
	}
	assert_string_equal(seen, row->ways);
	always_gives_room = false;
	for (waits_here = true; got < sent; got++)
		receives(0, len);
	assert_int_equal(sender->rndv.requests, 0);
	peer()->board = NULL;
	node_close(&node);
	limits_by_stream(MIDDLE, 32768);
}

/* What is carried goes as it would, near and far, though longer ones are fresh. */
static void carried_is_not_fresh(void **state)
{
	struct bl_tx *tx;

	(void)state;
	open_fresh();
	node_close(&node);
	plan()->exchange_only = false;
	limits_by_length(98304, 40000, 98304);
	limits_dirty(FRESH, true);
	open_pair();
	lengthen();
	tx = &peer()->tx;
	for (int far = 0; far < 2; far++) {
		tx->slow = far ? 7 : 0;
		tx->dirty = BL_DIRTY_AFTER;
		tx->dirty_left = 2;
		tx->asked = (uint8_t)(tx->next - 1); /* it has heard of the other */
		for (int n = 0; n < 4; n++) {
			one(32768);
			assert_int_equal(way_of_last(1), 'w');
			assert_int_equal(!(BL_HEAD_FLAGS(last_head(1)) & BL_SLOT_NT_STORED), !far);
		}
		assert_int_equal(tx->dirty, BL_DIRTY_AFTER);
		assert_int_equal(tx->dirty_left, 2);
	}
	node_close(&node);
	limits_by_stream(MIDDLE, 32768);
}

int main(void)
{
	set_limits();
	unsetenv("FI_BEELINE_LONG_RING");
	unsetenv("FI_BEELINE_COPYBUF");
	/* What is far shows in lines, as it does where messages are carried, whatever this machine
	 * has. */
	plan()->past_min = BL_SLOT_INLINE + 1;
	TABLE_ROWS("deep", streams_of_large_ones, deeps);
	TABLE_TEST(carried_is_not_fresh);
	return table_run("deep_stream");
}
