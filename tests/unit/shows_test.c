/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * shows_test.c: receives below the length from which each is shown to its senders (claim.h): which
 * are shown, what teaches a receiver to show some, and which messages claim one. Endpoint 0
 * sends, endpoint 1 receives, and isn't polled meanwhile.
 */
#include <string.h>

#include "core/claim.h"
#include "core/large.h"
#include "unit/node.h"

#define EAGER 4096u
#define LARGE BL_CLAIM_MIN
#define MOST  BL_SHOWS_MOST

static struct node node;
static uint8_t from[LARGE], to[LARGE];

static struct bl_ep *sender(void)
{
	return node.ep[0];
}

static struct bl_ep *receiver(void)
{
	return node.ep[1];
}

/* So many more short ones are shown. */
static void begin(uint8_t shows)
{
	node_open(&node, 2);
	for (size_t a = 0; a < 2; a++)
		for (size_t b = 0; b < 2; b++)
			node.ep[a]->dest[b]->copy.push = BL_COPY_VM;
	assert_int_equal(receiver()->shows, 0);
	assert_int_equal(receiver()->show_from, LARGE);
	if (shows) {
		bl_claim_missed(receiver());
		receiver()->shows = shows;
	}
	memset(to, 0, sizeof to);
}

static void post(size_t len)
{
	assert_int_equal(bl_recv_buf(receiver(), to, len, 0, 1, 0, to, NODE_FLAGS), 0);
}

/* In the middle of a copy that takes a second, or gone for as long: however slow we are. */
static void receiver_is(bool here)
{
	uint64_t second = 1000000 * bl_ticks_per_us(), now = bl_ticks();

	atomic_store(&receiver()->local.seg.header->here, here ? now + second : now - second);
}

static void post_away(size_t len)
{
	post(len);
	receiver_is(false);
}

static void send(size_t len)
{
	assert_int_equal(bl_send_buf(sender(), from, len, 1, 1, 0, from, NODE_FLAGS), 0);
}

static void deliver(void)
{
	struct bl_sink none = BL_SINK_NONE;

	bl_poll_peer(receiver(), &none, receiver()->dest[0]);
}

static void arrives(size_t len)
{
	struct bl_comp got = node_completion(&node, 1, NULL);

	assert_ptr_equal(got.context, to);
	assert_int_equal(got.len, len);
	assert_memory_equal(to, from, len);
	assert_ptr_equal(node_completion(&node, 0, NULL).context, from);
	assert_int_equal(sender()->requests, 0);
}

static bool is_shown(void)
{
	return receiver()->tagged.head->flags & BL_POST_SHARED;
}

/* --- which are shown ------------------------------------------------------------ */

struct shown_row {
	struct row row;
	size_t len;
	uint8_t before, after; /* so many more are */
	bool shown;
};

static const struct shown_row showns[] = {
	{{"nothing missed", "the longest of them"}, LARGE - 1, 0, 0, false},
	{{"large", "always"}, LARGE, 0, 0, true},
	{{"eager", "its messages go whole"}, EAGER, MOST, MOST, false},
	{{"shortest", "a byte more"}, EAGER + 1, MOST, MOST - 1, true},
	{{"longest", "a byte less than large"}, LARGE - 1, MOST, MOST - 1, true},
	{{"large meanwhile", "isn't one of those"}, LARGE, MOST, MOST, true},
	{{"the last", "then none"}, EAGER + 1, 1, 0, true},
};

static void shown(void **state)
{
	const struct shown_row *row = TABLE_ROW(struct shown_row, state);

	begin(row->before);
	post(row->len);
	assert_int_equal(is_shown(), row->shown);
	assert_int_equal(receiver()->shows, row->after);
	assert_int_equal(receiver()->show_from, row->after ? EAGER + 1 : LARGE);
	node_send(&node, 0, 1, from, 8, 1, from, NODE_FLAGS);
	arrives(8);
	node_close(&node);
}

/* As many as it says, and not one more. */
static void shown_in_turn(void **state)
{
	(void)state;
	begin(MOST);
	for (uint32_t i = 0; i < MOST + 3; i++) {
		post(LARGE - 1);
		assert_int_equal(is_shown(), i < MOST);
		node_send(&node, 0, 1, from, 8, 1, from, NODE_FLAGS);
		arrives(8);
	}
	node_close(&node);
}

/* --- what teaches it -------------------------------------------------------------- */

struct missed_row {
	struct row row;
	size_t len;
	bool here;
	bool missed;
};

static const struct missed_row misses[] = {
	{{"away", "its sender waits"}, LARGE - 1, false, true},
	{{"away, the shortest", "that is announced"}, EAGER + 1, false, true},
	{{"here", "it takes the message at once"}, LARGE - 1, true, false},
	{{"away, eager", "its sender waits for nothing"}, EAGER, false, false},
	{{"away, large", "those are shown anyway"}, LARGE, false, false},
};

static void missed(void **state)
{
	const struct missed_row *row = TABLE_ROW(struct missed_row, state);

	begin(0);
	receiver()->leaves = 0;
	receiver_is(row->here);
	sender()->leaves = 0; /* or it might claim the large one */
	send(row->len);
	deliver();
	assert_int_equal(receiver()->shows, row->missed ? MOST : 0);
	post(row->len);
	arrives(row->len);
	node_close(&node);
}

/* --- which claim one --------------------------------------------------------------- */

struct claim_row {
	struct row row;
	size_t len, room; /* of the message, and of the receive */
	uint8_t shows;
	bool here;
	bool claims;
};

static const struct claim_row claims[] = {
	{{"away", "it is shown"}, LARGE - 1, LARGE - 1, 1, false, true},
	{{"away, the shortest", "that is announced"}, EAGER + 1, LARGE - 1, 1, false, true},
	{{"away, into a large one", "which is always shown"}, EAGER + 1, LARGE, 0, false, true},
	{{"away, not shown", "it waits"}, LARGE - 1, LARGE - 1, 0, false, false},
	{{"here", "it takes the message"}, LARGE - 1, LARGE - 1, 1, true, false},
};

static void claim(void **state)
{
	const struct claim_row *row = TABLE_ROW(struct claim_row, state);

	begin(row->shows);
	post(row->room);
	receiver_is(row->here);
	send(row->len);
	assert_int_equal(sender()->requests, !row->claims);
	assert_int_equal(!memcmp(to, from, row->len), row->claims);
	if (!row->claims)
		receiver_is(true);
	arrives(row->len);
	assert_int_equal(receiver()->shows, row->claims ? MOST : 0);
	node_close(&node);
}

/* It is announced while its receiver is here, which then goes: claimed where its sender waits. */
static void claimed_later(void **state)
{
	(void)state;
	begin(1);
	post(LARGE - 1);
	receiver_is(true);
	send(LARGE - 1);
	bl_claim_later(sender(), bl_ticks());
	assert_int_equal(sender()->requests, 1);
	receiver_is(false);
	sender()->next_claim = 0;
	bl_claim_later(sender(), bl_ticks());
	assert_int_equal(sender()->requests, 0);
	assert_memory_equal(to, from, LARGE - 1);
	arrives(LARGE - 1);
	node_close(&node);
}

/* It has come before its receive, which its owner posts and leaves: the call that posts copies. */
static void found(void **state)
{
	(void)state;
	begin(1);
	receiver_is(true);
	send(LARGE - 1);
	assert_int_equal(sender()->requests, 1);
	post_away(LARGE - 1);
	assert_memory_equal(to, from, LARGE - 1);
	arrives(LARGE - 1);
	node_close(&node);
}

int main(void)
{
	setenv("FI_BEELINE_EAGER_MAX", "4096", 1);
	setenv("FI_BEELINE_CARRY_MAX", "0", 1);
	setenv("FI_BEELINE_STRETCH", "never", 1);
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 7 + i / 256 + 1);
	TABLE_ROWS("shown", shown, showns);
	TABLE_TEST(shown_in_turn);
	TABLE_ROWS("missed", missed, misses);
	TABLE_ROWS("claim", claim, claims);
	TABLE_TEST(claimed_later);
	TABLE_TEST(found);
	return table_run("shows");
}
