/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ahead_test.c: bytes that follow the description of their message at once
 * (transport/local/ways/frag.c): which messages, how many of them, what becomes of them where the
 * receive takes less, and what a liar gets. What comes before its receive: early_test.c.
 */
#include "unit/at_work.h"

/* --- which, and how many ---------------------------------------------------- */

struct ahead_row {
	struct row row;
	size_t len, niov;
	bool delivers, here;
	size_t want; /* bytes that go ahead */
};

static const struct ahead_row aheads[] = {
	{{"nothing", "has no bytes"}, 0, 1, true, true, 0},
	{{"one byte", "is a packet by itself"}, 1, 1, true, false, 0},
	{{"a slot", "the same"}, BL_SLOT_INLINE, 1, true, false, 0},
	{{"above the limit", "the receiver isn't here"}, EAGER + 1, 1, true, false, 0},
	{{"carried, delivered", "the receiver is here"}, EAGER + 1, 1, true, true, EAGER + 1},
	{{"carried", "the shortest"}, EAGER + 1, 1, false, true, EAGER + 1},
	{{"carried, away", "it copies once"}, 20000, 1, false, false, 0},
	{{"one packet", "8 KiB"}, 8192, 1, false, true, 8192},
	{{"two packets", "a byte more"}, 8193, 1, false, true, 8193},
	{{"carried in pieces", "3 of them"}, 20000, 3, false, true, 20000},
	{{"all the room", "four packets"}, PIECES, 1, false, true, PIECES},
	{{"a byte too long", "it has no room"}, PIECES + 1, 1, false, true, PIECES + 1},
	{{"the longest", "the rest is asked for"}, CARRIED, 1, false, true, PIECES},
	{{"too long", "isn't carried"}, CARRIED + 1, 1, false, true, 0},
};

static void goes_ahead(void **state)
{
	const struct ahead_row *row = TABLE_ROW(struct ahead_row, state);
	uint64_t streamed, told;

	open_pair();
	streamed = received(BL_WAY_FRAG);
	told = sent(BL_WAY_FRAG);
	post(LONGEST);
	if (row->here)
		say_here();
	send_by(row->len, row->niov, row->delivers ? BL_DELIVERY_COMPLETE : 0);
	assert_int_equal(request()->ahead, row->want);
	if (!row->here) /* nor is the sender, whom the receiver would ask */
		bl_presence_active(sender, bl_ticks() - 1000000 * bl_ticks_per_us());
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	check(row->len);
	assert_int_equal(received(BL_WAY_FRAG), streamed + (row->want != 0));
	assert_int_equal(sent(BL_WAY_FRAG), told + (row->want != 0));
	assert_int_equal(sender->requests + receiver->ntransfer, 0);
	node_close(&node);
}

/* All but the last packet arrives, and that one is waited for. */
static _Atomic uint32_t *hold_last(uint32_t *seq)
{
	_Atomic uint32_t *last = hide_last(&sender->dest[0]->tx, seq);

	bl_presence_active(sender, bl_ticks() + 1000000 * bl_ticks_per_us());
	bl_ep_progress(receiver);
	assert_int_equal(receiver->ntransfer, 1);
	return last;
}

/* --- who takes less, or later ------------------------------------------------ */

enum arrival {
	IN_TIME, /* the receive is posted before */
	KEPT,	 /* later */
	DROPPED, /* later, and there is no memory for what comes before it */
};

struct less_row {
	struct row row;
	size_t len, room;
	enum arrival arrival;
};

static const struct less_row lesses[] = {
	{{"none", "an empty receive"}, 20000, 0, IN_TIME},
	{{"one byte", "of the first packet"}, 20000, 1, IN_TIME},
	{{"a packet less one", "the second is all too much"}, 20000, 8191, IN_TIME},
	{{"a packet", "the second is all too much"}, 20000, 8192, IN_TIME},
	{{"a packet and one", "of the second"}, 20000, 8193, IN_TIME},
	{{"all but one", "of the last"}, 20000, 19999, IN_TIME},
	{{"behind what is ahead", "and not the rest"}, CARRIED, PIECES + 4096, IN_TIME},
	{{"just what is ahead", "nothing of the rest"}, CARRIED, PIECES, IN_TIME},
	{{"all", "posted later"}, 20000, LONGEST, KEPT},
	{{"all of the longest", "posted later"}, CARRIED, LONGEST, KEPT},
	{{"some", "posted later"}, 20000, 10000, KEPT},
	{{"a packet", "posted later"}, 20000, 8192, KEPT},
	{{"none", "posted later"}, 20000, 0, KEPT},
	{{"just what was ahead", "posted later"}, CARRIED, PIECES, KEPT},
	{{"behind what was ahead", "posted later"}, CARRIED, PIECES + 1, KEPT},
	{{"all", "posted later, dropped"}, 20000, LONGEST, DROPPED},
	{{"all of the longest", "posted later, dropped"}, CARRIED, LONGEST, DROPPED},
	{{"some", "posted later, dropped"}, 20000, 10000, DROPPED},
};

static void takes_less(void **state)
{
	const struct less_row *row = TABLE_ROW(struct less_row, state);
	size_t want = row->len < row->room ? row->len : row->room;
	uint64_t once, streamed, copied;

	open_pair();
	copied = pulled();
	once = received(BL_WAY_ONE_COPY);
	streamed = received(BL_WAY_FRAG);
	if (row->arrival == IN_TIME)
		post(row->room);
	if (row->arrival == DROPPED)
		receiver->kept_bytes = BL_KEPT_MOST;
	say_here();
	send_by(row->len, 1, 0);
	assert_true(request()->ahead);
	if (row->arrival != IN_TIME) {
		node_settle(&node, 0);
		post(row->room);
		assert_int_equal(received(BL_WAY_ONE_COPY),
				 once + (row->arrival == DROPPED || !row->room));
		assert_int_equal(received(BL_WAY_FRAG),
				 streamed + (row->arrival == KEPT && row->room));
	}
	if (row->arrival == KEPT)
		assert_int_equal(receiver->kept_bytes, 0);
	if (row->arrival == KEPT && want <= PIECES)
		assert_int_equal(pulled(), copied);
	if (want == row->len) {
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	} else {
		struct bl_comp_err err = node_error(&node, 0);

		assert_int_equal(err.comp.len, want);
		assert_int_equal(err.olen, row->len - want);
	}
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	check(want);
	assert_int_equal(sender->dest[0]->ahead_vain, row->arrival == DROPPED);
	node_close(&node);
}

/* More ranks than cores: that a receiver wasn't seen in the library says nothing. */
static void shares_cores(void **state)
{
	(void)state;
	open_pair();
	post(LONGEST);
	bl_presence_active(receiver, bl_ticks() - 1000000 * bl_ticks_per_us());
	sender->tx_cq->crowd.until = bl_ticks() + 1000000 * bl_ticks_per_us();
	send_by(20000, 1, 0);
	assert_int_equal(request()->ahead, 20000);
	assert_int_equal(node_completion(&node, 0, NULL).len, 20000);
	node_completion(&node, 1, NULL);
	check(20000);
	node_close(&node);
}

/* --- who is held up ------------------------------------------------------------- */

struct held_row {
	struct row row;
	size_t len;
	bool leaves; /* the receiver, else it waits */
};

static const struct held_row helds[] = {
	{{"waits", "all that was to follow hasn't"}, 8000, false},
	{{"waits for the last piece", "the others have come"}, 20000, false},
	{{"waits, and copies the rest", "there was no room for it"}, CARRIED, false},
	{{"leaves", "all that was to follow hasn't"}, 8000, true},
	{{"leaves before the last piece", "the others have come"}, 20000, true},
};

/* Between two packets the sender loses its core for long: its receiver copies the rest, and
 * drops what comes of it later. */
static void held_up(void **state)
{
	const struct held_row *row = TABLE_ROW(struct held_row, state);
	_Atomic uint32_t *last;
	uint32_t seq;

	open_pair();
	post(LONGEST);
	say_here();
	send_by(row->len, 1, 0);
	last = hold_last(&seq);
	bl_presence_active(sender, bl_ticks() - 1000000 * bl_ticks_per_us());
	if (row->leaves) {
		struct bl_sink none = BL_SINK_NONE;

		receiver->leaves = 4;
		bl_rndv_finish(receiver, &none);
		assert_int_equal(receiver->ntransfer, 0);
	}
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	check(row->len);
	memset(to, 0xee, sizeof to);
	atomic_store(last, seq);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	node_settle(&node, 0);
	for (size_t i = 0; i < sizeof to; i++)
		assert_int_equal(to[i], 0xee);
	node_close(&node);
}

/* --- one buffer for several ------------------------------------------------------ */

struct multi_row {
	struct row row;
	size_t len;
	uint64_t flags;
	size_t ahead;
};

static const struct multi_row multis[] = {
	{{"to be carried", "all of it ahead"}, 16000, 0, 16000},
	{{"the longest", "a part of it ahead"}, CARRIED, 0, PIECES},
	{{"delivered", "in a slot"}, BL_SLOT_INLINE, BL_DELIVERY_COMPLETE, 0},
};

/* What goes into one buffer completes in the order in which it was sent. */
static void shares_a_buffer(void **state)
{
	const struct multi_row *row = TABLE_ROW(struct multi_row, state);
	struct iovec room = {to, LONGEST}, iov = {from, row->len};
	struct bl_recv recv = {
		.iov = &room,
		.niov = 1,
		.src = 1,
		.context = to,
		.flags = BL_MSG | BL_COMPLETION | BL_MULTI_RECV,
	};
	struct bl_send send = {&iov, 1, 0, 0, 0, from, BL_MSG | BL_COMPLETION | row->flags, NULL};

	open_pair();
	assert_int_equal(bl_recv(receiver, &recv), 0);
	say_here();
	assert_int_equal(bl_send(sender, &send), 0);
	assert_int_equal(request()->ahead, row->ahead);
	node_send(&node, 1, 0, from, 8, 0, NULL, BL_MSG);
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	assert_int_equal(node_completion(&node, 0, NULL).len, 8);
	assert_memory_equal(to, from, row->len);
	node_close(&node);
}

/* --- little room --------------------------------------------------------------- */

struct room_row {
	struct row row;
	uint32_t packets; /* in the ring, unread */
	size_t bytes;	  /* each */
	size_t len;
	bool delivers;
	size_t want;
};

static const struct room_row rooms[] = {
	{{"one slot", "for the description"}, BL_SLOTS - 1, 8, 20000, false, 0},
	{{"two slots", "one packet"}, BL_SLOTS - 2, 8, 20000, false, 8192},
	{{"4 KiB of payload", "not one packet"}, 8, EAGER, 20000, false, 0},
	{{"8 KiB of payload", "one packet"}, 7, EAGER, 20000, false, 8192},
	{{"12 KiB of payload", "one packet, no half"}, 6, EAGER, 20000, false, 8192},
	{{"no room at all", "short, but not in part"}, 9, EAGER, EAGER, true, 0},
};

static void has_little_room(void **state)
{
	const struct room_row *row = TABLE_ROW(struct room_row, state);
	static uint8_t other[EAGER];

	open_pair();
	while (sender->dest[0]->tx.pay_at) { /* the next lap begins at the front */
		post(LONGEST);
		node_send(&node, 1, 0, from, 1024, 9, NULL, BL_TAGGED);
		node_completion(&node, 0, NULL);
	}
	memset(to, 0xee, sizeof to);
	bl_rx_credit(&receiver->dest[1]->rx); /* all of it is free */
	bl_tx_refresh(&sender->dest[0]->tx);
	for (uint32_t i = 0; i < row->packets; i++)
		node_send(&node, 1, 0, from, row->bytes, 3, NULL, BL_TAGGED);
	post(LONGEST);
	say_here();
	if (row->delivers && !row->want) {
		struct bl_send send = {&(struct iovec){from, row->len},	  1,   0, 9, 7, from,
				       NODE_FLAGS | BL_DELIVERY_COMPLETE, NULL};

		assert_int_equal(send_at_work(&send), 0);
		assert_true(bl_txq_needs_hand(sender));
		assert_int_equal(sender->requests, 0);
		bl_presence_active(receiver, bl_ticks() - 1000000 * bl_ticks_per_us());
		bl_txq_progress(sender);
		assert_int_equal(sender->ntxq, 0);
	} else {
		send_by(row->len, 1, row->delivers ? BL_DELIVERY_COMPLETE : 0);
	}
	assert_int_equal(request()->ahead, row->want);
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	check(row->len);
	for (struct bl_unexpected *u = receiver->unexpected_tagged.head, *next; u; u = next) {
		next = u->next; /* nothing of the others has been lost either */
		assert_int_equal(
			bl_recv_buf(receiver, other, sizeof other, 1, 3, 0, other, NODE_FLAGS), 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, row->bytes);
		assert_memory_equal(other, from, row->bytes);
	}
	node_close(&node);
}

/* --- liars --------------------------------------------------------------------- */

/* What else says it belongs to a message of which all is still to come. */
struct lie_row {
	struct row row;
	uint64_t off;
	uint32_t len;
	uint64_t number; /* added to the right one */
};

static const struct lie_row lies[] = {
	{{"behind it", "the first byte"}, 8192, 64, 0},
	{{"far behind", "the offset's end"}, UINT64_MAX - 8, 64, 0},
	{{"half behind", "is cut"}, 8191, 64, 0},
	{{"another request", "which isn't there"}, 0, 64, 1},
	{{"another generation", "which isn't there"}, 0, 64, 1ull << 32},
	{{"empty", "brings nothing"}, 0, 0, 0},
};

static void lied_to(void **state)
{
	const struct lie_row *row = TABLE_ROW(struct lie_row, state);
	static const uint8_t garbage[8192];
	struct bl_sink none = BL_SINK_NONE;
	struct bl_peer *peer;
	_Atomic uint32_t *last;
	uint64_t number;
	uint32_t seq;

	open_pair();
	peer = receiver->dest[1];
	post(LONGEST);
	say_here();
	send_by(8192, 1, 0);
	number = bl_send_op_number(request());
	last = hold_last(&seq);
	bl_on_frag(receiver, &none, peer, BL_SLOT_AHEAD, number + row->number, row->off, garbage,
		   row->len);
	assert_int_equal(receiver->transfer[0]->ahead_left, row->off == 8191 ? 8191 : 8192);
	for (size_t i = 8192; i < sizeof to; i++)
		assert_int_equal(to[i], 0xee);
	if (row->off != 8191)
		assert_int_equal(to[0], 0xee);
	atomic_store(last, seq);
	node_completion(&node, 0, NULL);
	node_completion(&node, 1, NULL);
	check(8192);
	node_close(&node);
}

/* A description that promises what no sender does. */
struct promise_row {
	struct row row;
	uint64_t len;
	uint32_t ahead;
	uint8_t flags;
};

static const struct promise_row promises[] = {
	{{"more", "than the message has"}, 100, 101, 0},
	{{"most", "a 32-bit length's end"}, 100, UINT32_MAX, 0},
	{{"of a long one", "which may be claimed"}, BL_PROXY_MIN, 1, 0},
	{{"of a lent one", "which has a key"}, 100, 100, BL_SLOT_RKEYS},
};

static void promised(void **state)
{
	const struct promise_row *row = TABLE_ROW(struct promise_row, state);
	struct bl_rts rts = {
		.len = row->len,
		.request = 1,
		.ahead = row->ahead,
		.piece = {{1, row->len}},
	};
	const struct bl_peer *peer;

	open_pair();
	peer = receiver->dest[1];
	bl_put_packet(sender->dest[0], BL_OP_TAGGED_RTS, row->flags, 9, 0, &rts,
		      offsetof(struct bl_rts, piece) +
			      (row->flags & BL_SLOT_RKEYS ? 2 : 1) * sizeof rts.piece[0]);
	bl_ep_progress(receiver);
	assert_true(peer->broken || peer->dead); /* a look may have been due */
	node_close(&node);
}

/* Asked for more than there is behind what went ahead. */
static void asks_for_more(void **state)
{
	struct bl_cts cts = {.chunk = 8192, .coop = BL_CTS_CARRY | BL_CTS_AHEAD};
	const struct bl_send_op *r;

	open_pair();
	post(LONGEST);
	say_here();
	send_by(CARRIED, 1, 0);
	r = request();
	assert_int_equal(r->ahead, PIECES);
	for (cts.len = CARRIED - PIECES + 1; cts.len <= CARRIED + 1; cts.len += PIECES) {
		bl_on_cts(sender, sender->dest[0], bl_send_op_number(r), 0, &cts,
			  offsetof(struct bl_cts, piece));
		assert_null(r->coop);
	}
	node_completion(&node, 0, NULL);
	node_completion(&node, 1, NULL);
	check(CARRIED);
	node_close(&node);
}

int main(void)
{
	set_limits();
	TABLE_ROWS("ahead", goes_ahead, aheads);
	TABLE_ROWS("takes", takes_less, lesses);
	TABLE_TEST(shares_cores);
	TABLE_ROWS("held up", held_up, helds);
	TABLE_ROWS("one buffer", shares_a_buffer, multis);
	TABLE_ROWS("room", has_little_room, rooms);
	TABLE_ROWS("lie", lied_to, lies);
	TABLE_ROWS("promise", promised, promises);
	TABLE_TEST(asks_for_more);
	return table_run("ahead");
}
