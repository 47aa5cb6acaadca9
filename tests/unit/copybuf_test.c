/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * copybuf_test.c: what a sender learns of whoever it sends to by two bits in each packet that
 * comes back (transport/local/lane/ring.h: bl_tx_hear), which is a hint and nothing else; and how
 * far a receiver has told that it has read when it sends as well (bl_rx_settle). First the ring's
 * functions alone, then endpoints of one process.
 */
#include "unit/pair.h"

#define HEARD_BITS BL_HEAD(0, 0, BL_SLOT_HEARD(3))

/* --- the bits ----------------------------------------------------------------- */

struct head_row {
	struct row row;
	uint32_t len, op, flags;
};

#define ALL_FLAGS                                                                                  \
	(BL_SLOT_DATA | BL_SLOT_RKEYS | BL_SLOT_CB_GRANT | BL_SLOT_ACK | BL_SLOT_NT_STORED)

static const struct head_row heads[] = {
	{{"nothing", "no other bit is set"}, 0, 0, 0},
	{{"longest", "all bits of the length"}, BL_COPYBUF_MOST, BL_OP_TAGGED, 0},
	{{"all of a length", "20 bits, more than there can be"}, 0xfffff, 0, 0},
	{{"last operation", "the largest that there is: all 4 bits"}, 0, BL_OP_WITHDRAW, 0},
	{{"first flag", "the lowest beside the operation"}, 0, BL_OP_TAGGED, BL_SLOT_DATA},
	{{"last flag", "the neighbour of the two bits"}, 289, BL_OP_TAGGED, BL_SLOT_NT_STORED},
	{{"all flags", "every other bit is set"}, 0xfffff, 0xf, ALL_FLAGS},
};

static void bits_have_their_own_place(void **state)
{
	const struct head_row *row = TABLE_ROW(struct head_row, state);
	const uint32_t plain = BL_HEAD(row->len, row->op, row->flags);

	for (uint32_t n = 0; n < 9; n++) {
		uint32_t head = BL_HEAD(row->len, row->op, row->flags | BL_SLOT_HEARD(n));

		assert_int_equal(BL_HEAD_HEARD(head), n % 4);
		assert_int_equal(BL_HEAD_HEARD(head | 1u << 31), n % 4); /* nobody's */
		assert_int_equal(BL_HEAD_LEN(head), row->len);
		assert_int_equal(BL_HEAD_OP(head), row->op);
		assert_int_equal(BL_HEAD_FLAGS(head) & ALL_FLAGS, row->flags);
		assert_int_equal(head & ~HEARD_BITS, plain);
	}
	assert_int_equal(BL_SLOT_HEARD(UINT32_MAX), BL_SLOT_HEARD(3));
	assert_int_equal(BL_SLOT_HEARD(3) & ALL_FLAGS, 0);
	assert_int_equal(BL_SLOT_HEARD(3) & ~0xffu, 0); /* a head has so many */
}

/* --- one packet: a reply, or it crossed ours ------------------------------------ */

enum learned { NO_REPLY, REPLY, NOTHING_NEW };

struct behind_row {
	struct row row;
	uint32_t sent;	 /* packets of ours since the last one heard */
	uint32_t behind; /* of them its sender hadn't read */
	enum learned learned;
};

static const struct behind_row behinds[] = {
	{{"one, read", "it had read all of ours"}, 1, 0, REPLY},
	{{"one, unread", "it crossed this"}, 1, 1, NO_REPLY},
	{{"three, read", "as far as two bits tell"}, 3, 0, REPLY},
	{{"three, one unread", "our last one crossed it"}, 3, 1, NO_REPLY},
	{{"three, two unread", "and the one before"}, 3, 2, NO_REPLY},
	{{"three, none read", "all three crossed it"}, 3, 3, NO_REPLY},
	{{"four, read", "can't be told from none read"}, 4, 0, NO_REPLY},
	{{"four, none read", "looks as if all were"}, 4, 4, NO_REPLY},
	{{"a window, none read", "the most that may be unread; the same"},
	 BL_SLOTS,
	 BL_SLOTS,
	 NO_REPLY},
	{{"a window, read", "and one that answers it"}, BL_SLOTS, 0, NO_REPLY},
	{{"none", "another one behind the first"}, 0, 0, NOTHING_NEW},
	{{"none, old news", "the same packet again, or a liar"}, 0, 1, NOTHING_NEW},
	{{"a liar", "more than we sent: a hint"}, 1, 5, NO_REPLY},
	{{"a liar in turn", "the same, modulo 4"}, 1, 4, REPLY},
};

static const uint32_t nexts[] = {
	0, /* nothing sent; what it says of earlier ones is from before the wrap */
	1,	     2,
	3,	     4,
	BL_SLOTS,    0x7fffffffu, /* signed comparisons would turn behind it */
	0x80000000u, UINT32_MAX - 2,
	UINT32_MAX,
};

static void one_reply(void **state)
{
	const struct behind_row *row = TABLE_ROW(struct behind_row, state);

	for (size_t i = 0; i < bl_countof(nexts); i++)
		for (uint32_t flags = 0; flags <= ALL_FLAGS; flags += ALL_FLAGS) {
			struct bl_tx tx = {.next = nexts[i],
					   .asked = (uint8_t)(nexts[i] - row->sent)};
			struct bl_tx other = tx;
			uint32_t read = nexts[i] - row->behind;
			bool old = row->learned == NOTHING_NEW;

			bl_tx_hear(&tx,
				   BL_HEAD(row->behind, BL_OP_TAGGED, flags | BL_SLOT_HEARD(read)));
			assert_int_equal(tx.replies, row->learned == REPLY);
			assert_int_equal(tx.asked, (uint8_t)tx.next);
			other.replies = 0xff;
			bl_tx_hear(&other,
				   BL_HEAD(0xfffff, BL_OP_MSG_RTS, flags | BL_SLOT_HEARD(read)));
			assert_int_equal(other.replies, old ? 0xff : 0xfe | row->learned);
			bl_tx_hear(&other, BL_HEAD(8, BL_OP_TAGGED, BL_SLOT_HEARD(read)));
			assert_int_equal(other.replies, old ? 0xff : 0xfe | row->learned);
		}
}

/* --- three in a row ------------------------------------------------------------- */

struct history_row {
	struct row row;
	const char *came; /* r: we sent one, and a reply came; x: it crossed ours; s: we sent one;
			   * a: another one came, which had read all; w: a window crossed ours */
	bool dialogue;
};

static const struct history_row histories[] = {
	{{"fresh", "nothing has come"}, "", false},
	{{"we send", "nothing has come"}, "ssss", false},
	{{"one", "may be chance"}, "r", false},
	{{"two", "may be chance"}, "rr", false},
	{{"three", "the least"}, "rrr", true},
	{{"three, no send between", "a stream to us: only the first one answers"}, "raaa", false},
	{{"streams to us", "each of which answers"}, "raaaraaaraaa", true},
	{{"three at a time", "as many as two bits tell"}, "ssrssrssr", true},
	{{"four at a time", "more"}, "sssrsssrsssr", false},
	{{"windows", "both send 64, and none had been read"}, "waaawaaawaaa", false},
	{{"a window", "after a dialogue"}, "rrrrrrrrw", false},
	{{"many", "no more is remembered"}, "rrrrrrrrrr", true},
	{{"last crossed", "it is over at once"}, "rrrrrrrrx", false},
	{{"one before crossed", "two since"}, "rrrrrrrxr", false},
	{{"two before crossed", "two since"}, "rrrrrrxrr", false},
	{{"three before crossed", "three since"}, "xrrr", true},
	{{"in turns", "never three"}, "rxrxrxrx", false},
	{{"two and one", "never three"}, "rrxrrxrrx", false},
	{{"all crossed", "both send at once"}, "xxxx", false},
	{{"old ones forgotten", "crossed, more than are remembered ago"}, "xxxxxxxxxrrr", true},
	{{"send behind them", "it hasn't read this one, and need not"}, "rrrs", true},
	{{"three behind them", "a CTS, a FIN and an answer"}, "rrrsss", true},
	{{"four behind them", "it doesn't answer any more"}, "rrrssss", false},
	{{"answers again", "what it did before counts"}, "rrrr", true},
};

static void three_in_a_row(void **state)
{
	const struct history_row *row = TABLE_ROW(struct history_row, state);

	for (size_t i = 0; i < bl_countof(nexts); i++) {
		struct bl_tx tx = {.next = nexts[i], .asked = (uint8_t)nexts[i]};

		for (const char *c = row->came; *c; c++) {
			uint32_t unread = *c == 'x' ? 1 : *c == 'w' ? BL_SLOTS : 0;

			tx.next += *c == 'w' ? BL_SLOTS : *c != 'a';
			if (*c != 's')
				bl_tx_hear(&tx, BL_HEAD(8, BL_OP_TAGGED,
							BL_SLOT_HEARD(tx.next - unread)));
		}
		assert_int_equal(bl_tx_is_pingpong(&tx), row->dialogue);
	}
}

/* --- credits that are told of before a message ----------------------------------- */

struct settle_row {
	struct row row;
	uint32_t start, read, exact_credits;
	bool told;    /* by reading them */
	bool settles; /* there is more to tell */
};

#define HURRY (BL_CREDIT_EVERY - 1)

static const struct settle_row settles[] = {
	{{"nothing read", "nothing to tell"}, 0, 0, 0, false, false},
	{{"one", "the least"}, 0, 1, 0, false, true},
	{{"seven", "the most that reading leaves untold"}, 0, 7, 0, false, true},
	{{"eight", "told by reading the last"}, 0, 8, 0, true, false},
	{{"nine", "one since"}, 0, 9, 0, true, true},
	{{"exact_credits, nothing", "nothing to tell"}, 64, 0, HURRY, false, false},
	{{"exact_credits, one", "told at once"}, 64, 1, HURRY, true, false},
	{{"exact_credits, eight", "each told at once"}, 64, 8, HURRY, true, false},
	{{"wrap, nothing", "the number is 0"}, 0, 0, HURRY, false, false},
	{{"wrap, seven", "some before, some behind"}, UINT32_MAX - 2, 7, 0, false, true},
	{{"wrap, to 0", "what is told is the number 0"}, UINT32_MAX - 2, 3, 0, false, true},
	{{"wrap, exact_credits", "each told at once"}, UINT32_MAX - 2, 7, HURRY, true, false},
};

#define UNTOUCHED 0x55555555u

static struct bl_rx rx_at(struct bl_lane *lane, uint32_t start, uint32_t exact_credits)
{
	memset(lane, 0, sizeof *lane);
	atomic_store(&lane->consumed, start);
	return (struct bl_rx){.slot = lane->slot,
			      .lane = lane,
			      .next = start,
			      .credited = start - exact_credits,
			      .exact_credits = exact_credits};
}

static struct bl_lane lane;

static void settle_tells(void **state)
{
	const struct settle_row *row = TABLE_ROW(struct settle_row, state);
	struct bl_rx rx = rx_at(&lane, row->start, row->exact_credits), before;

	for (uint32_t i = 0; i < row->read; i++)
		bl_rx_consume(&rx, i % 2 ? 8 : 300);
	assert_int_equal(atomic_load(&lane.consumed) != row->start, row->told);
	atomic_store(&lane.consumed, UNTOUCHED);
	before = rx;
	bl_rx_settle(&rx);
	assert_int_equal(atomic_load(&lane.consumed),
			 row->settles ? row->start + row->read : UNTOUCHED);
	if (!row->settles)
		assert_memory_equal(&rx, &before, sizeof rx);
	if (row->settles) {
		assert_int_equal(atomic_load(&lane.consumed_bytes),
				 row->read / 2 * 308 + row->read % 2 * 300);
		assert_int_equal(atomic_load(&lane.consumed_long), (row->read + 1) / 2);
	}
	assert_int_equal(rx.next, row->start + row->read);

	atomic_store(&lane.consumed, UNTOUCHED); /* again: all is told */
	bl_rx_settle(&rx);
	assert_int_equal(atomic_load(&lane.consumed), UNTOUCHED);
	for (uint32_t i = 1; i < BL_CREDIT_EVERY - row->exact_credits;
	     i++) { /* and counted from there */
		bl_rx_consume(&rx, 8);
		assert_int_equal(atomic_load(&lane.consumed), UNTOUCHED);
	}
	bl_rx_consume(&rx, 8);
	assert_int_equal(atomic_load(&lane.consumed), rx.next);
}

/* --- packets that aren't the next ------------------------------------------------ */

struct at_row {
	struct row row;
	uint32_t next;
	uint32_t came; /* bit i: packet next + i has */
};

static const struct at_row ats[] = {
	{{"none", "a fresh ring"}, 0, 0},
	{{"none, later", "slots hold those of the lap before"}, 200, 0},
	{{"first", "the next"}, 200, 1},
	{{"three", "the next ones"}, 200, 7},
	{{"a gap", "each is looked at by itself"}, 200, 5},
	{{"lap's end", "the next is in the last slot"}, BL_SLOTS - 1, 3},
	{{"wrap", "one has the flag 0"}, UINT32_MAX - 1, 15},
	{{"wrap, one missing", "flag 0 is the lap's before, too, in a fresh ring"},
	 UINT32_MAX - 1,
	 13},
};

static void at_sees_what_has_come(void **state)
{
	const struct at_row *row = TABLE_ROW(struct at_row, state);
	struct bl_rx rx = rx_at(&lane, row->next, 0), before = rx;

	if (row->next)
		for (uint32_t i = row->next - BL_SLOTS; i != row->next; i++)
			atomic_store(&lane.slot[i % BL_SLOTS].seq, i + 1);
	for (uint32_t i = 0; i < 32; i++)
		if (row->came >> i & 1)
			atomic_store(&lane.slot[(row->next + i) % BL_SLOTS].seq, row->next + i + 1);
	for (uint32_t i = 0; i < BL_SLOTS; i++) {
		struct bl_slot *slot = bl_rx_at(&rx, row->next + i);

		if (i < 32 && row->came >> i & 1)
			assert_ptr_equal(slot, &lane.slot[(row->next + i) % BL_SLOTS]);
		else
			assert_null(slot);
	}
	assert_ptr_equal(bl_rx_peek(&rx), bl_rx_at(&rx, row->next));
	assert_memory_equal(&rx, &before, sizeof rx); /* nothing has been read */
	assert_int_equal(atomic_load(&lane.consumed), row->next);
}

/* --- endpoints: what packets say --------------------------------------------------- */

static struct bl_peer *back(void)
{
	return receiver->dest[1];
}

static void put(size_t by, uint64_t tag)
{
	uint64_t bytes = ~tag;

	assert_int_equal(bl_inject(node.ep[by], &bytes, 8, !by, tag, 0, BL_TAGGED), 0);
}

/* All that has come is taken; its bytes may wait for a receive. */
static void take_all(size_t at)
{
	node_settle(&node, at);
}

enum by {
	BY_PUT,	    /* a short one */
	BY_LONG,    /* one in the payload ring */
	BY_GENERAL, /* to be told of; put_eager_long() */
	BY_RTS,	    /* announced */
	BY_CONTROL, /* a word between the two */
};

struct by_row {
	struct row row;
	enum by by;
	uint32_t op;
	bool heard; /* by its receiver */
};

static const struct by_row bys[] = {
	{{"short", "in its slot"}, BY_PUT, BL_OP_TAGGED, true},
	{{"longer", "in the payload ring"}, BY_LONG, BL_OP_TAGGED, true},
	{{"whole", "in the payload ring, by the general way"}, BY_GENERAL, BL_OP_TAGGED, true},
	{{"announced", "its description"}, BY_RTS, BL_OP_TAGGED_RTS, true},
	{{"a FIN", "comes when it comes, no reply nor message"}, BY_CONTROL, BL_OP_FIN, false},
};

static void put_by(enum by by)
{
	switch (by) {
	case BY_PUT:
		put(1, 3);
		break;
	case BY_LONG:
		send_by(1000, 1, 0);
		break;
	case BY_GENERAL:
		send_by(1000, 1, BL_DELIVERY_COMPLETE);
		break;
	case BY_RTS:
		send_by(LONGEST, 1, 0);
		break;
	case BY_CONTROL: /* of no request */
		bl_control(sender, peer(), BL_OP_FIN, 77ull << 32, 0, NULL, 0);
		break;
	}
}

/* Each packet says how many its sender had read; whoever gets a message learns from it whether it
 * had read the last one. */
static void packets_say_it(void **state)
{
	const struct by_row *row = TABLE_ROW(struct by_row, state);

	for (uint32_t extra = 0; extra < 4; extra++)
		for (uint32_t unread = 0; unread < 4; unread++) {
			uint32_t head, n;

			open_pair();
			for (uint32_t i = 0; i < extra; i++)
				put(0, 1);
			take_all(1);
			for (uint32_t i = 0; i < unread; i++)
				put(0, 2);
			n = peer()->tx.next;
			put_by(row->by);
			head = peer()->tx.slot[n % BL_SLOTS].head;
			assert_int_equal(BL_HEAD_OP(head), row->op);
			assert_int_equal(BL_HEAD_HEARD(head), peer()->rx.next % 4);
			assert_int_equal(peer()->rx.next + unread, back()->tx.next);
			back()->tx.replies = 2;
			back()->tx.asked =
				(uint8_t)(back()->tx.next - 3); /* as many as two bits tell */
			take_all(0);
			assert_int_equal(back()->tx.replies, row->heard ? 4 | !unread : 2);
			node_close(&node);
		}
}

/* Two in a dialogue, two that stream to each other, and two whose messages cross. */
static void ping_pong_is_a_dialogue(void **state)
{
	(void)state;
	open_pair();
	for (uint32_t i = 0; i < 10; i++) {
		put(1, i);
		take_all(0);
		assert_int_equal(bl_tx_is_pingpong(&back()->tx), i >= 3);
		put(0, i);
		take_all(1);
		assert_int_equal(bl_tx_is_pingpong(&peer()->tx), i >= 2);
	}
	put(1, 10); /* now they cross, once */
	put(0, 10);
	take_all(0);
	take_all(1);
	assert_false(bl_tx_is_pingpong(&back()->tx));
	assert_false(bl_tx_is_pingpong(&peer()->tx));
	node_close(&node);
}

/* --- hostile bits ------------------------------------------------------------------ */

/* Whatever a neighbour says there, its message is the same, and so is all that we keep of it but
 * the hint. */
static void hostile_bits(void **state)
{
	struct bl_tx before;

	(void)state;
	open_pair();
	for (uint32_t i = 0; i < 64; i++) {
		uint32_t n = peer()->tx.next, bits = i / 2 % 4;
		struct bl_slot *slot = &peer()->tx.slot[n % BL_SLOTS];
		size_t len = i % 2 ? 20 : 3000;
		struct bl_comp got;

		memset(to, 0xee, sizeof to);
		put(0, 5); /* what its packet says that it has read, or not */
		take_all(1);
		post(LONGEST);
		send_by(len, 1, i % 3 ? BL_REMOTE_CQ_DATA : 0);
		slot->head = (slot->head & ~HEARD_BITS) | BL_HEAD(0, 0, BL_SLOT_HEARD(bits));
		bl_tx_refresh(&back()->tx); /* as the next look at the peers may */
		before = back()->tx;
		got = node_completion(&node, 0, NULL);
		assert_int_equal(got.len, len);
		assert_int_equal(got.tag, 9);
		assert_int_equal(got.flags, BL_TAGGED | BL_RECV | (i % 3 ? BL_REMOTE_CQ_DATA : 0));
		check(len);
		node_completion(&node, 1, NULL);
		assert_int_equal(back()->tx.replies & 1, bits == before.next % 4);
		assert_int_equal(back()->tx.asked, (uint8_t)before.next);
		before.replies = back()->tx.replies;
		if (len > BL_SLOT_INLINE) {
			before.answered = true;
			before.alone = 0;
		}
		before.asked = (uint8_t)before.next;
		assert_memory_equal(&back()->tx, &before, sizeof before);
		assert_int_equal(back()->broken | (int)back()->dead, 0);
	}
	node_close(&node);
}

/* --- windows ------------------------------------------------------------------------ */

struct window_row {
	struct row row;
	uint32_t untold[2]; /* packets that each has read, and not told the other */
	size_t len;
	bool copybuf; /* message by message; else one as long as there is room, then the other */
};

static const struct window_row windows[] = {
	{{"all told", "there is room anyway"}, {0, 0}, 8, false},
	{{"seven", "the most on either side"}, {7, 7}, 8, false},
	{{"seven, in turn", "both at the same time"}, {7, 7}, 8, true},
	{{"seven and none", "one of them has told"}, {7, 0}, 8, false},
	{{"none and seven", "the other has"}, {0, 7}, 8, false},
	{{"one each", "the least"}, {1, 1}, 8, false},
	{{"one each, in turn", "the least, at the same time"}, {1, 1}, 8, true},
	{{"no bytes", "the shortest"}, {7, 7}, 0, false},
	{{"longest in a slot", "the longest that settles"}, {7, 7}, BL_SLOT_INLINE, false},
};

static uint32_t untold(size_t at)
{
	const struct bl_rx *rx = &node.ep[at]->dest[!at]->rx;

	return rx->next - rx->exact_credits - rx->credited;
}

static int put_numbered(size_t by, uint64_t n, size_t len)
{
	static uint8_t bytes[BL_SLOT_INLINE];

	memset(bytes, (int)n, sizeof bytes);
	if (!bl_tx_room(&node.peer[by][!by]->tx) && !bl_tx_refresh(&node.peer[by][!by]->tx))
		return -EAGAIN;
	return bl_inject(node.ep[by], bytes, len, !by, n, 0, BL_TAGGED);
}

static void read_numbered(size_t at, size_t len)
{
	for (uint64_t n = 0; n < BL_SLOTS; n++) {
		struct bl_comp got;

		memset(to, 0xee, BL_SLOT_INLINE);
		assert_int_equal(
			bl_recv_buf(node.ep[at], to, BL_SLOT_INLINE, !at, n, 0, to, NODE_FLAGS), 0);
		got = node_completion(&node, at, NULL);
		assert_int_equal(got.len, len);
		assert_int_equal(got.tag, n);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(to[i], n);
	}
}

/* In a dialogue, which tells of nothing before it must; then one of them does. */
static void leave_untold(const uint32_t want[2])
{
	uint32_t most = want[0] > want[1] ? want[0] : want[1];

	for (uint32_t i = 0; i < BL_CREDIT_EVERY && untold(0) != most; i++)
		for (size_t by = 0; by < 2; by++) {
			put(by, 1000);
			take_all(!by);
		}
	for (size_t at = 0; at < 2; at++) {
		if (!want[at])
			bl_rx_credit(&node.ep[at]->dest[!at]->rx);
		assert_int_equal(untold(at), want[at]);
	}
}

static void both_windows_fit(void **state)
{
	const struct window_row *row = TABLE_ROW(struct window_row, state);
	uint32_t n[2] = {0, 0};

	open_pair();
	leave_untold(row->untold);
	if (row->copybuf) {
		for (uint32_t i = 0; i < BL_SLOTS; i++)
			for (size_t by = 0; by < 2; by++)
				assert_int_equal(put_numbered(by, n[by]++, row->len), 0);
	} else {
		while (n[1] < BL_SLOTS && !put_numbered(1, n[1], row->len))
			n[1]++;
		assert_int_equal(n[1], BL_SLOTS - row->untold[0]);
		for (; n[0] < BL_SLOTS; n[0]++)
			assert_int_equal(put_numbered(0, n[0], row->len), 0);
		for (; n[1] < BL_SLOTS; n[1]++)
			assert_int_equal(put_numbered(1, n[1], row->len), 0);
	}
	for (size_t by = 0; by < 2; by++) /* nothing was read, and a ring is no longer */
		assert_int_equal(put_numbered(by, 1000, row->len), -EAGAIN);
	read_numbered(0, row->len);
	read_numbered(1, row->len);
	node_close(&node);
}

/* In a dialogue a message goes alone: what has been read is told every 8 packets, as ever. */
static void dialogue_settles_nothing(void **state)
{
	uint32_t told[2];

	(void)state;
	open_pair();
	leave_untold((uint32_t[]){1, 1});
	for (size_t at = 0; at < 2; at++)
		told[at] = atomic_load(&node.ep[at]->dest[!at]->rx.lane->consumed);
	for (uint32_t i = untold(0) + 1; i < BL_CREDIT_EVERY; i++) {
		put(1, 3);
		take_all(0);
		put(0, 3);
		take_all(1);
		for (size_t at = 0; at < 2; at++)
			assert_int_equal(atomic_load(&node.ep[at]->dest[!at]->rx.lane->consumed),
					 told[at]);
	}
	put(1, 4);
	take_all(0);
	assert_int_equal(atomic_load(&back()->rx.lane->consumed), back()->rx.next);
	node_close(&node);
}

int main(void)
{
	set_limits();
	TABLE_ROWS("head", bits_have_their_own_place, heads);
	TABLE_ROWS("behind", one_reply, behinds);
	TABLE_ROWS("history", three_in_a_row, histories);
	TABLE_ROWS("settle", settle_tells, settles);
	TABLE_ROWS("at", at_sees_what_has_come, ats);
	TABLE_ROWS("packet", packets_say_it, bys);
	TABLE_TEST(ping_pong_is_a_dialogue);
	TABLE_TEST(hostile_bits);
	TABLE_ROWS("window", both_windows_fit, windows);
	TABLE_TEST(dialogue_settles_nothing);
	return table_run("copybuf");
}
