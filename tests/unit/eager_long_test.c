/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * eager_long_test.c: messages beyond the eager limit that go through a longer ring
 * (longring_test.c) as one packet (put_eager_long), which of them do, and what becomes of the
 * others; and those of a few KiB that do so through any, to a receiver that waits for just this
 * one.
 */
#include "base/knobs.h"
#include "unit/at_work.h"
#include "unit/limits.h"

/* A job's limit of memory, and the processor's caches, are longring_test's to try. */
uint64_t __wrap_bl_memlimit(void);
uint64_t __wrap_bl_memlimit(void)
{
	return UINT64_MAX;
}

size_t __wrap_bl_place_cache(void);
size_t __wrap_bl_place_cache(void)
{
	return 512 << 10;
}

/* --- which messages --------------------------------------------------------- */

enum fate {
	WHOLE,	   /* in the ring, and over */
	ANNOUNCED, /* its receiver copies it */
	TOLD,	   /* in the ring, and over when its receiver says so: acked_test.c */
	WAITS,	   /* there will be room in a moment */
};

struct which_row {
	struct row row;
	size_t len, niov;
	uint64_t flags;
	bool is_long, full, lends;
	enum fate fate;
};

#define DELIVER BL_DELIVERY_COMPLETE

static const struct which_row which[] = {
	{{"short ring", "it has no room for such a packet"},
	 20000,
	 1,
	 0,
	 false,
	 false,
	 false,
	 ANNOUNCED},
	{{"above the limit", "the shortest"}, EAGER + 1, 1, 0, true, false, false, WHOLE},
	{{"the longest", "where messages are carried"},
	 EAGER_LONG,
	 1,
	 0,
	 true,
	 false,
	 false,
	 WHOLE},
	{{"a byte longer", "is announced"}, EAGER_LONG + 1, 1, 0, true, false, false, ANNOUNCED},
	{{"in pieces", "8 of them"}, EAGER_LONG, 8, 0, true, false, false, WHOLE},
	{{"with data", "for the completion"},
	 EAGER_LONG,
	 1,
	 BL_REMOTE_CQ_DATA,
	 true,
	 false,
	 false,
	 WHOLE},
	{{"full, away", "nobody makes room"}, EAGER_LONG, 1, 0, true, true, false, ANNOUNCED},
	{{"full, at work", "there is room soon"}, EAGER_LONG, 1, 0, true, true, false, WAITS},
	{{"lent", "the module copies it once"}, EAGER_LONG, 1, 0, true, false, true, ANNOUNCED},
	{{"delivered", "waits for its receiver's word"},
	 EAGER_LONG,
	 1,
	 DELIVER,
	 true,
	 false,
	 false,
	 TOLD},
	{{"delivered, full, away", "nobody makes room"},
	 EAGER_LONG,
	 1,
	 DELIVER,
	 true,
	 true,
	 false,
	 ANNOUNCED},
	{{"delivered, full, at work", "there is room soon"},
	 EAGER_LONG,
	 1,
	 DELIVER,
	 true,
	 true,
	 false,
	 WAITS},
};

static uint32_t op_of(uint32_t number)
{
	return BL_HEAD_OP(peer()->tx.slot[number % BL_SLOTS].head);
}

/* With messages of which the receiver takes none; how many they were. */
static uint32_t fill_up(void)
{
	uint32_t n = 0;

	while (bl_tx_payload(&peer()->tx, EAGER_LONG)) {
		send_by(EAGER_LONG, 1, 0);
		n++;
	}
	return n;
}

static void one_fate(void **state)
{
	const struct which_row *row = TABLE_ROW(struct which_row, state);
	uint32_t before = 0, had;
	struct iovec iov = {from, row->len};
	struct bl_send send = {&iov, 1, 0, 9, 7, from, NODE_FLAGS | row->flags, NULL};

	open_pair();
	peer()->stays_short = !row->is_long;
	if (row->is_long)
		lengthen();
	assert_int_equal(is_long(), row->is_long);
	if (row->full)
		before = fill_up();
	assert_true(!row->full || before > 5);
	peer()->copy.needs_rkeys = row->lends;
	bl_presence_active(receiver, bl_ticks() - 1000000 * bl_ticks_per_us());
	had = peer()->tx.next;
	if (row->fate == WAITS) {
		struct bl_peer *receives = peer();

		assert_int_equal(send_at_work(&send), 0);
		assert_int_equal(receives->tx.next, had);
		assert_true(bl_txq_needs_hand(sender) &&
			    bl_ep_needs_hand(sender)); /* time ends it */
		node_settle(&node, 0);
		bl_txq_progress(sender);
		assert_int_equal(sender->txq.nactive, 0);
	} else {
		send_by(row->len, row->niov, row->flags);
	}
	assert_int_equal(sender->rndv.requests,
			 row->fate == ANNOUNCED || row->fate == TOLD || row->flags & DELIVER);
	if (row->fate != WAITS) {
		if (!row->lends) /* there are no keys: its bytes follow */
			assert_int_equal(peer()->tx.next, had + 1);
		assert_int_equal(op_of(had),
				 row->fate == ANNOUNCED ? BL_OP_TAGGED_RTS : BL_OP_TAGGED);
	}
	peer()->copy.needs_rkeys = false;
	for (uint32_t i = 0; i <= before; i++) {
		struct bl_comp got;

		memset(to, 0xee, sizeof to);
		post(LONGEST);
		got = node_completion(&node, 0, NULL);
		assert_int_equal(got.len, i < before ? EAGER_LONG : row->len);
		if (got.flags & BL_REMOTE_CQ_DATA)
			assert_int_equal(got.data, 7);
		assert_int_equal(got.flags & BL_REMOTE_CQ_DATA,
				 i == before ? row->flags & BL_REMOTE_CQ_DATA : 0);
		check(got.len);
		assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	}
	assert_int_equal(sender->rndv.requests + receiver->rndv.ntransfer, 0);
	node_close(&node);
}

/* It is copying for so long, and says so. */
static void busy_for_long(void **state)
{
	struct iovec iov = {from, EAGER_LONG};
	struct bl_send send = {&iov, 1, 0, 9, 7, from, NODE_FLAGS, NULL};

	(void)state;
	open_pair();
	lengthen();
	fill_up();
	bl_presence_active(receiver, bl_ticks() + 50000 * bl_ticks_per_us());
	assert_int_equal(bl_send(sender, &send), 0);
	assert_int_equal(sender->rndv.requests, 1);
	send.flags |= DELIVER;
	assert_int_equal(bl_send(sender, &send), 0);
	assert_int_equal(sender->rndv.requests, 2);
	node_close(&node);
}

/* A receiver that reads but has no receives keeps 1 MiB of them, and is sent descriptions then;
 * when it has received those it is sent whole ones again. */
static void keeps_no_more_than_enough(void **state)
{
	const struct bl_stats *stats;
	enum { MANY = 200 };
	uint64_t bytes;

	(void)state;
	open_pair();
	stats = receiver->local.stats;
	lengthen();
	for (int i = 0; i < MANY; i++) {
		send_by(EAGER_LONG, 1, 0);
		node_settle(&node, 0);
	}
	bytes = atomic_load(&stats->counter[BL_STAT_unexpected_bytes].value);
	assert_in_range(bytes, BL_KEPT_MOST, BL_KEPT_MOST + 10 * EAGER_LONG);
	assert_int_equal(sender->rndv.requests, MANY - bytes / EAGER_LONG);
	for (int i = 0; i < MANY; i++) {
		memset(to, 0xee, sizeof to);
		post(LONGEST);
		assert_int_equal(node_completion(&node, 0, NULL).len, EAGER_LONG);
		check(EAGER_LONG);
		node_completion(&node, 1, NULL);
	}
	send_by(EAGER_LONG, 1, 0);
	assert_int_equal(sender->rndv.requests, 0);
	node_close(&node);
}

/* Its receive is too short; none is there yet; it is one of several in a buffer. */
static void received_like_a_short_one(void **state)
{
	struct bl_comp_err err;

	(void)state;
	open_pair();
	lengthen();
	post(30000);
	send_by(EAGER_LONG, 1, 0);
	err = node_error(&node, 0);
	assert_int_equal(err.olen, EAGER_LONG - 30000);
	check(30000);
	node_completion(&node, 1, NULL);

	send_by(EAGER_LONG, 1, 0);
	node_settle(&node, 0);
	node_completion(&node, 1, NULL);
	memset(to, 0xee, sizeof to);
	post(LONGEST);
	assert_int_equal(node_completion(&node, 0, NULL).len, EAGER_LONG);
	check(EAGER_LONG);
	node_close(&node);
}

/* --- in a dialogue ------------------------------------------------------------ */

/* What both limits of this machine may be; the knob has set one for all. */
#define DIALOGUE_MOST 8192u

static void set_dialogue_max(size_t max)
{
	limits()->pingpong_max = (uint32_t)max;
	limits_by_length(EAGER_LONG, EAGER_LONG, EAGER_LONG);
}

enum talk {
	DIALOGUE, /* three replies */
	BEGINS,	  /* two */
	CROSSING, /* and then both have sent at once */
	STREAM,	  /* and then one more has been sent */
	SECOND,	  /* and this one was such a message */
	NEXT,	  /* and that has been replied to */
	ONE_WAY,  /* and then four have been sent, delivered, and no message has come */
	WORD,	  /* and then a word has come between two messages, which is none */
};

struct talk_row {
	struct row row;
	size_t len, niov;
	uint64_t flags;
	enum talk talk;
	bool congested, lends, is_long;
	bool to_itself, refused; /* copies */
	enum fate fate;
};

#define MOST DIALOGUE_MOST

static const struct talk_row talks[] = {
	{{"shortest", "a byte above the limit"}, EAGER + 1, .fate = WHOLE},
	{{"longest", "as long as the other limit"}, MOST, .fate = WHOLE},
	{{"a byte longer", "is announced"}, MOST + 1, .fate = ANNOUNCED},
	{{"a byte longer, long ring", "goes as ever"}, MOST + 1, .is_long = true, .fate = WHOLE},
	{{"long ring", "the same"}, MOST, .is_long = true, .fate = WHOLE},
	{{"in pieces", "8 of them"}, MOST, 8, .fate = WHOLE},
	{{"with data", "for the completion"}, MOST, .flags = BL_REMOTE_CQ_DATA, .fate = WHOLE},
	{{"delivered", "and over when it is received"}, MOST, .flags = DELIVER, .fate = TOLD},
	{{"two replies", "may be chance"}, MOST, .talk = BEGINS, .fate = ANNOUNCED},
	{{"two replies, short", "a byte above the limit"},
	 EAGER + 1,
	 .talk = BEGINS,
	 .fate = ANNOUNCED},
	{{"crossing", "both copy at once"}, MOST, .talk = CROSSING, .fate = ANNOUNCED},
	{{"crossing, delivered", "the same"},
	 MOST,
	 .flags = DELIVER,
	 .talk = CROSSING,
	 .fate = ANNOUNCED},
	{{"crossing, eager", "up to the limit as ever"}, EAGER, .talk = CROSSING, .fate = WHOLE},
	{{"crossing, eager, delivered", "the same"},
	 EAGER,
	 .flags = DELIVER,
	 .talk = CROSSING,
	 .fate = TOLD},
	{{"congested, eager, delivered", "the same"},
	 EAGER,
	 .flags = DELIVER,
	 .congested = true,
	 .fate = TOLD},
	{{"crossing, long ring", "goes as ever"},
	 MOST,
	 .talk = CROSSING,
	 .is_long = true,
	 .fate = WHOLE},
	{{"stream, long ring", "goes as ever"},
	 MOST,
	 .talk = STREAM,
	 .is_long = true,
	 .fate = WHOLE},
	{{"stream", "it has one to read"}, MOST, .talk = STREAM, .fate = ANNOUNCED},
	{{"second in a row", "the same"}, MOST, .talk = SECOND, .fate = ANNOUNCED},
	{{"stream, eager", "up to the limit as ever"}, EAGER, .talk = STREAM, .fate = WHOLE},
	{{"replied to", "the dialogue goes on"}, MOST, .talk = NEXT, .fate = WHOLE},
	{{"one way", "words come back, and no message: it needn't wait"},
	 MOST,
	 .talk = ONE_WAY,
	 .fate = ANNOUNCED},
	{{"one way, delivered", "the same"},
	 MOST,
	 .flags = DELIVER,
	 .talk = ONE_WAY,
	 .fate = ANNOUNCED},
	{{"a word between", "a FIN is no reply, and doesn't cross"},
	 MOST,
	 .talk = WORD,
	 .fate = WHOLE},
	{{"congested", "it keeps enough"}, MOST, .congested = true, .fate = ANNOUNCED},
	{{"congested, eager", "up to the limit as ever"}, EAGER, .congested = true, .fate = WHOLE},
	{{"to itself", "one copy, by memcpy"}, MOST, .to_itself = true, .fate = ANNOUNCED},
	{{"refused copies", "all goes through the ring"}, MOST, .refused = true, .fate = WHOLE},
	{{"lent", "the module copies it once"}, MOST, .lends = true, .fate = ANNOUNCED},
};

static void say(size_t by)
{
	node_send(&node, by, !by, from, 8, 77, NULL, BL_TAGGED);
}

static void hear(size_t at)
{
	assert_int_equal(bl_recv_buf(node.ep[at], to, 8, !at, 77, 0, to, BL_TAGGED | BL_COMPLETION),
			 0);
	assert_int_equal(node_completion(&node, at, NULL).len, 8);
}

static void say_and_hear(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++) {
		say(1);
		hear(0);
		say(0);
		hear(1);
	}
}

static void receive(size_t len)
{
	memset(to, 0xee, sizeof to);
	post(LONGEST);
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
	check(len);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
}

static void talk(enum talk talk)
{
	say_and_hear(talk == BEGINS ? 2 : 3);
	switch (talk) {
	case CROSSING:
		say(1);
		say(0);
		hear(0);
		hear(1);
		break;
	case STREAM:
		say(1);
		hear(0);
		break;
	case SECOND:
	case NEXT:
		send_by(MOST, 1, 0);
		assert_int_equal(sender->rndv.requests, 0);
		receive(MOST);
		if (talk == NEXT) {
			say(0);
			hear(1);
		}
		break;
	case ONE_WAY:
		for (uint32_t i = 0; i < 4; i++) {
			send_by(MOST, 1, DELIVER);
			receive(MOST);
			node_settle(&node, 1);
		}
		break;
	case WORD:
		bl_control(receiver, receiver->dest[1], BL_OP_FIN, 77ull << 32, 0, NULL, 0);
		node_settle(&node, 1);
		break;
	default:
		break;
	}
}

static void in_a_dialogue(void **state)
{
	const struct talk_row *row = TABLE_ROW(struct talk_row, state);
	uint32_t n;

	open_pair();
	set_dialogue_max(MOST);
	peer()->stays_short = !row->is_long;
	if (row->is_long)
		lengthen();
	assert_int_equal(is_long(), row->is_long);
	talk(row->talk);
	if (row->to_itself || row->refused)
		peer()->copy.pull = row->to_itself ? BL_COPY_SELF : BL_COPY_NOTHING;
	peer()->copy.needs_rkeys = row->lends;
	peer()->congestion.high = row->congested;
	atomic_store(&receiver->local.seg.header->congested, row->congested);
	n = peer()->tx.next;
	bl_presence_active(receiver, bl_ticks() - 1000000 * bl_ticks_per_us());
	send_by(row->len, row->niov ? row->niov : 1, row->flags);
	assert_int_equal(op_of(n), row->fate == ANNOUNCED ? BL_OP_TAGGED_RTS : BL_OP_TAGGED);
	if (row->fate != ANNOUNCED)
		assert_int_equal(peer()->tx.next, n + 1);
	assert_int_equal(sender->rndv.requests, row->fate != WHOLE);
	peer()->copy.needs_rkeys = false;
	receive(row->len);
	assert_int_equal(sender->rndv.requests + receiver->rndv.ntransfer, 0);
	node_close(&node);
	set_dialogue_max(EAGER);
}

/* The knob says one limit for both: no message beyond it is one packet for a dialogue's sake. */
static void one_limit_by_the_knob(void **state)
{
	uint32_t n;

	(void)state;
	assert_int_equal(bl_limits()->eager_max, EAGER);
	assert_int_equal(bl_limits()->pingpong_max, EAGER);
	open_pair();
	peer()->stays_short = true;
	say_and_hear(3);
	n = peer()->tx.next;
	send_by(EAGER + 1, 1, 0);
	assert_int_equal(op_of(n), BL_OP_TAGGED_RTS);
	receive(EAGER + 1);
	node_close(&node);
}

/* A ring that is full of what it hasn't read is no dialogue, whatever its bits say: the message is
 * announced, and doesn't wait for room that its receiver need not make. */
static void no_dialogue_in_a_full_ring(void **state)
{
	struct iovec iov = {from, MOST};
	struct bl_send send = {&iov, 1, 0, 9, 7, from, NODE_FLAGS, NULL};
	uint32_t n, before;

	(void)state;
	open_pair();
	set_dialogue_max(MOST);
	say_and_hear(3);
	for (before = 0; bl_tx_payload(&peer()->tx, EAGER); before++)
		node_send(&node, 1, 0, from, EAGER, 9, NULL, BL_TAGGED);
	say(0);
	hear(1);
	peer()->tx.replies = 7; /* a liar */
	n = peer()->tx.next;
	assert_int_equal(send_at_work(&send), 0);
	assert_int_equal(op_of(n), BL_OP_TAGGED_RTS);
	while (before--) {
		post(EAGER);
		assert_int_equal(node_completion(&node, 0, NULL).len, EAGER);
	}
	receive(MOST);
	node_close(&node);
	set_dialogue_max(EAGER);
}

/* Whether it is congested is asked now and then, and then again and again until it isn't. */
static void laden_is_asked(void **state)
{
	uint32_t whole = 0;

	(void)state;
	open_pair();
	set_dialogue_max(MOST);
	say_and_hear(3);
	atomic_store(&receiver->local.seg.header->congested, 1);
	for (uint32_t i = 0; i < 20; i++) {
		send_by(MOST, 1, 0);
		whole += !sender->rndv.requests;
		receive(MOST);
		say(0);
		hear(1);
	}
	assert_in_range(whole, 1, 19);
	assert_true(peer()->congestion.high);
	say_and_hear(3);
	atomic_store(&receiver->local.seg.header->congested, 0);
	send_by(MOST, 1, 0);
	assert_int_equal(sender->rndv.requests, 0);
	receive(MOST);
	node_close(&node);
	set_dialogue_max(EAGER);
}

/* Where messages are carried a longer ring is used whole, by whoever talks. */
static void one_by_one_in_a_long_one(void **state)
{
	(void)state;
	open_pair();
	lengthen();
	for (uint32_t i = 0; i < 2 * BL_PAYLOAD_OF(BL_LANE_LONG) / EAGER; i++) {
		uint8_t word = 0;

		post(LONGEST);
		send_by(EAGER, 1, 0);
		node_completion(&node, 0, NULL);
		node_completion(&node, 1, NULL);
		node_send(&node, 0, 1, &word, 1, 3, NULL, NODE_FLAGS);
		assert_int_equal(bl_recv_buf(sender, &word, 1, 0, 3, 0, NULL, NODE_FLAGS), 0);
		node_completion(&node, 1, NULL);
		node_completion(&node, 0, NULL);
		assert_true(is_long());
	}
	node_close(&node);
}

int main(void)
{
	set_limits();
	unsetenv("FI_BEELINE_LONG_RING");
	TABLE_ROWS("which", one_fate, which);
	TABLE_TEST(busy_for_long);
	TABLE_TEST(keeps_no_more_than_enough);
	TABLE_TEST(received_like_a_short_one);
	TABLE_TEST(one_limit_by_the_knob);
	TABLE_ROWS("dialogue", in_a_dialogue, talks);
	TABLE_TEST(no_dialogue_in_a_full_ring);
	TABLE_TEST(laden_is_asked);
	TABLE_TEST(one_by_one_in_a_long_one);
	return table_run("eager_long");
}
