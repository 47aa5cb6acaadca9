/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * acked_test.c: messages that go through the ring as one packet and whose sender wants to hear that
 * they have been delivered (BL_SLOT_ACK): which, when it hears of it, and what a liar gets; and
 * such packets of 64 KiB and more, which go that way only while both are at it.
 */
#define EAGER_LONG 131072u
#define LONGEST	   140000u
#include "base/knobs.h"
#include "transport/local/ways/proxy.h"
#include "unit/pair.h"

#define DELIVER BL_DELIVERY_COMPLETE
#define LARGE	BL_PROXY_MIN

/* A job's limit of memory is eager_long_test's to try. */
uint64_t __wrap_bl_memlimit(void);
uint64_t __wrap_bl_memlimit(void)
{
	return UINT64_MAX;
}

static uint32_t head_of(uint32_t number)
{
	return peer()->tx.slot[number % BL_SLOTS].head;
}

static void receive(size_t len)
{
	memset(to, 0xee, sizeof to);
	post(len);
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
	check(len);
}

/* The sender has heard nothing, however often it looks; then it hears once. */
static void not_told(void)
{
	node_settle(&node, 1);
	assert_int_equal(sender->rndv.requests, 1);
	assert_int_equal(sender->bound.tx_cq->head, sender->bound.tx_cq->tail);
}

static void told(void)
{
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	assert_int_equal(sender->rndv.requests + sender->ways.pending.neager_long, 0);
}

/* --- which ------------------------------------------------------------------ */

struct which_row {
	struct row row;
	size_t len, niov;
	uint64_t flags;
	bool lends, one_packet;
};

static const struct which_row which[] = {
	{{"nothing", "but its tag"}, 0, 1, 0, false, true},
	{{"a byte", "its number behind it"}, 1, 1, 0, false, true},
	{{"eight", "its number just behind them"}, 8, 1, 0, false, true},
	{{"nine", "its number in the next place"}, 9, 1, 0, false, true},
	{{"32", "its number ends the first line"}, 32, 1, 0, false, true},
	{{"33", "its number is in the next line"}, 33, 1, 0, false, true},
	{{"40", "all that the first line holds"}, 40, 1, 0, false, true},
	{{"with data, short", "for the completion"}, 100, 1, BL_REMOTE_CQ_DATA, false, true},
	{{"in pieces, short", "8 of them"}, 100, 8, 0, false, true},
	{{"a slot", "its number ends it"}, BL_SLOT_INLINE, 1, 0, false, true},
	{{"a slot in pieces", "the same"}, BL_SLOT_INLINE, 8, 0, false, true},
	{{"more than a slot", "the shortest"}, BL_SLOT_INLINE + 1, 1, 0, false, true},
	{{"eager limit", "in a ring as it was made"}, EAGER, 1, 0, false, true},
	{{"eager limit in pieces", "8 of them"}, EAGER, 8, 0, false, true},
	{{"with data", "for the completion"}, EAGER, 1, BL_REMOTE_CQ_DATA, false, true},
	{{"above the limit", "the ring isn't long"}, EAGER + 1, 1, 0, false, false},
	{{"lends", "as any that short"}, EAGER, 1, 0, true, true},
	{{"lends, longer", "the module copies it once"}, EAGER + 1, 1, 0, true, false},
};

static void which_are(void **state)
{
	const struct which_row *row = TABLE_ROW(struct which_row, state);
	struct bl_comp got;
	uint32_t n;

	open_pair();
	peer()->stays_short = true;
	peer()->copy.needs_rkeys = row->lends;
	post(LONGEST - 80000);
	n = peer()->tx.next;
	send_by(row->len, row->niov, DELIVER | row->flags);
	assert_int_equal(sender->rndv.requests, 1);
	assert_int_equal(BL_HEAD_OP(head_of(n)), row->one_packet ? BL_OP_TAGGED : BL_OP_TAGGED_RTS);
	assert_int_equal(!!(BL_HEAD_FLAGS(head_of(n)) & BL_SLOT_ACK), row->one_packet);
	if (row->one_packet)
		assert_int_equal(peer()->tx.next, n + 1);
	peer()->copy.needs_rkeys = false;
	got = node_completion(&node, 0, NULL);
	assert_int_equal(got.len, row->len);
	assert_int_equal(got.flags & BL_REMOTE_CQ_DATA, row->flags & BL_REMOTE_CQ_DATA);
	check(row->len);
	told();
	node_close(&node);
}

/* Whatever the limit, what fits a slot is eager: its number would not be looked for elsewhere. */
static void limit_is_above_a_slot(void **state)
{
	const struct bl_knob_info *info = bl_knob_table;

	(void)state;
	while (strcmp(info->name, "eager_max"))
		info++;
	assert_true(info->least >= BL_SLOT_INLINE);
}

/* --- when ------------------------------------------------------------------- */

enum when {
	POSTED,	   /* the receive is there */
	LATER,	   /* it is posted later */
	ANY,	   /* later, from whomever */
	SHORT,	   /* it takes less */
	SHARED,	   /* it is for several messages */
	DISCARDED, /* it isn't wanted */
	CLAIMED,   /* it is set aside, and then received */
	DROPPED,   /* it is set aside, and then not wanted */
};

struct when_row {
	struct row row;
	enum when when;
	bool full; /* the receiver's ring, so that a bit says it */
	size_t len;
};

static const struct when_row whens[] = {
	{{"posted", "at once"}, POSTED, false, EAGER},
	{{"posted, no slot", "by a bit"}, POSTED, true, EAGER},
	{{"later", "when it has been received"}, LATER, false, EAGER},
	{{"later, no slot", "by a bit"}, LATER, true, EAGER},
	{{"later, any source", "when it has been received"}, ANY, false, EAGER},
	{{"too short", "and not of that"}, SHORT, false, EAGER},
	{{"for several", "at once"}, SHARED, false, EAGER},
	{{"discarded", "it isn't wanted"}, DISCARDED, false, EAGER},
	{{"claimed", "when it has been received"}, CLAIMED, false, EAGER},
	{{"claimed, dropped", "it isn't wanted"}, DROPPED, false, EAGER},
	{{"in a slot: posted", "at once"}, POSTED, false, 60},
	{{"in a slot: posted, no slot", "by a bit"}, POSTED, true, 60},
	{{"in a slot: later", "when it has been received"}, LATER, false, 60},
	{{"in a slot: later, no slot", "by a bit"}, LATER, true, 60},
	{{"in a slot: later, any source", "when it has been received"}, ANY, false, 60},
	{{"in a slot: too short", "and not of that"}, SHORT, false, 60},
	{{"in a slot: for several", "at once"}, SHARED, false, 60},
	{{"in a slot: discarded", "it isn't wanted"}, DISCARDED, false, 60},
	{{"in a slot: claimed", "when it has been received"}, CLAIMED, false, 60},
	{{"in a slot: claimed, dropped", "it isn't wanted"}, DROPPED, false, 60},
};

static struct bl_recv look_for(uint64_t flags)
{
	static struct iovec room = {to, EAGER};

	return (struct bl_recv){
		.iov = &room,
		.niov = 1,
		.src = 1,
		.tag = 9,
		.context = to,
		.flags = BL_TAGGED | BL_COMPLETION | flags,
	};
}

static void look(uint64_t flags)
{
	struct bl_recv recv = look_for(flags);

	assert_int_equal(bl_recv(receiver, &recv), 0);
}

static void fill_its_ring(void)
{
	while (bl_tx_room(&receiver->dest[1]->tx))
		node_send(&node, 0, 1, from, 8, 77, NULL, BL_TAGGED);
}

static void hears(void **state)
{
	const struct when_row *row = TABLE_ROW(struct when_row, state);
	size_t len = row->len, less = len / 4;
	struct iovec room = {to, LONGEST};
	struct bl_recv several = {
		.iov = &room,
		.niov = 1,
		.src = 1,
		.context = to,
		.flags = BL_MSG | BL_COMPLETION | BL_MULTI_RECV,
	};

	open_pair();
	if (row->when == POSTED)
		post(len);
	if (row->when == SHORT)
		post(less);
	if (row->when == SHARED)
		assert_int_equal(bl_recv(receiver, &several), 0);
	if (row->full)
		fill_its_ring();
	if (row->when == SHARED) {
		struct bl_send send = {&(struct iovec){from, len},	 1,   0, 0, 7, from,
				       BL_MSG | BL_COMPLETION | DELIVER, NULL};

		assert_int_equal(bl_send(sender, &send), 0);
	} else {
		send_by(len, 1, DELIVER);
	}
	if (!row->full)
		not_told(); /* for the receiver hasn't looked */
	bl_ep_progress(receiver);
	if (row->when >= LATER && row->when != SHORT && row->when != SHARED) {
		if (!row->full)
			not_told();
		assert_int_equal(atomic_load(&peer()->tx.lane->fins.some), 0);
	}
	if (row->when == LATER)
		post(len);
	if (row->when == ANY)
		assert_int_equal(bl_recv_buf(receiver, to, len, BL_ADDR_ANY, 9, 0, to, NODE_FLAGS),
				 0);
	if (row->when == DISCARDED)
		look(BL_PEEK | BL_DISCARD);
	if (row->when == CLAIMED || row->when == DROPPED) {
		look(BL_PEEK | BL_CLAIM);
		assert_int_equal(node_completion(&node, 0, NULL).len, len);
		not_told();
		look(BL_CLAIM | (row->when == DROPPED ? BL_DISCARD : 0));
	}
	assert_int_equal(atomic_load(&peer()->tx.lane->fins.some) != 0, row->full);
	if (row->when == SHORT)
		assert_int_equal(node_error(&node, 0).olen, len - less);
	else
		assert_int_equal(node_completion(&node, 0, NULL).len, len);
	if (row->when != DISCARDED && row->when != DROPPED)
		check(row->when == SHORT ? less : len);
	told();
	node_settle(&node, 1);
	assert_int_equal(sender->bound.tx_cq->head, sender->bound.tx_cq->tail);
	node_close(&node);
}

static const size_t either[] = {8, EAGER};

/* The receiver ends before it has taken the message: it isn't delivered. */
static void receiver_ends(void **state)
{
	struct bl_sink none = BL_SINK_NONE;

	(void)state;
	for (size_t i = 0; i < bl_countof(either); i++) {
		open_pair();
		send_by(either[i], 1, DELIVER);
		bl_ep_peer_gone(sender, &none, peer(), ECONNRESET);
		assert_int_equal(node_error(&node, 1).err, ECONNRESET);
		assert_int_equal(sender->rndv.requests, 0);
		node_close(&node);
	}
}

/* Its sender ends before it has been received: what came is there, and nobody is told. */
static void sender_ends(void **state)
{
	struct bl_sink none = BL_SINK_NONE;

	(void)state;
	for (size_t i = 0; i < bl_countof(either); i++) {
		open_pair();
		send_by(either[i], 1, DELIVER);
		node_settle(&node, 0);
		bl_ep_peer_gone(receiver, &none, receiver->dest[1], ECONNRESET);
		receive(either[i]);
		node_close(&node);
	}
}

/* It isn't to complete: its counter says that it has been delivered. */
static void counted(void **state)
{
	struct bl_send send = {&(struct iovec){from, EAGER}, 1,	  0, 9, 7, from,
			       BL_TAGGED | DELIVER,	     NULL};
	struct bl_cntr *cntr;

	(void)state;
	open_pair();
	assert_int_equal(bl_cntr_open(node.domain, &cntr), 0);
	sender->bound.tx_cntr = cntr;
	assert_int_equal(bl_send(sender, &send), 0);
	node_settle(&node, 0);
	node_settle(&node, 1);
	assert_int_equal(bl_cntr_read(cntr), 0);
	receive(EAGER);
	node_settle(&node, 1);
	assert_int_equal(bl_cntr_read(cntr), 1);
	assert_int_equal(sender->rndv.requests, 0);
	assert_int_equal(sender->bound.tx_cq->head, sender->bound.tx_cq->tail);
	sender->bound.tx_cntr = NULL;
	assert_int_equal(bl_cntr_close(cntr), 0);
	node_close(&node);
}

/* From an endpoint to itself. */
static void to_itself(void **state)
{
	struct bl_send send = {&(struct iovec){from, EAGER}, 1,	  0, 9, 7, from,
			       NODE_FLAGS | DELIVER,	     NULL};
	struct bl_ep *ep;
	uint32_t n;

	(void)state;
	node_open(&node, 1);
	ep = node.ep[0];
	n = ep->dest[0]->tx.next;
	memset(to, 0xee, sizeof to);
	assert_int_equal(bl_send(ep, &send), 0);
	assert_int_equal(BL_HEAD_FLAGS(ep->dest[0]->tx.slot[n % BL_SLOTS].head) & ~BL_SLOT_HEARD(3),
			 BL_SLOT_ACK);
	bl_ep_progress(ep);
	bl_ep_progress(ep);
	assert_int_equal(ep->bound.tx_cq->head, ep->bound.tx_cq->tail);
	assert_int_equal(bl_recv_buf(ep, to, EAGER, 0, 9, 0, to, NODE_FLAGS), 0);
	assert_ptr_equal(node_completion(&node, 0, NULL).context, to);
	assert_ptr_equal(node_completion(&node, 0, NULL).context, from);
	check(EAGER);
	assert_int_equal(ep->rndv.requests, 0);
	node_close(&node);
}

/* --- liars ------------------------------------------------------------------- */

/* There is nothing to be asked for of a message that lies in the ring: its buffer may be its
 * owner's again (FI_INJECT). */
static void asks_for_more(void **state)
{
	struct bl_cts cts = {.len = EAGER, .chunk = 1024, .generation = 1};
	struct bl_frag_ask ask = {.transfer = 1, .off = 0, .len = EAGER};
	struct bl_peer *back;
	uint64_t number;
	uint32_t n;

	(void)state;
	open_pair();
	back = receiver->dest[1];
	send_by(EAGER, 1, DELIVER);
	number = bl_send_op_number(request());
	n = peer()->tx.next;
	ask.piece[0] = (struct bl_piece){(uintptr_t)to, EAGER};
	bl_chunks_start(&back->tx.lane->chunks[0], 1, 4);
	cts.piece[0] = ask.piece[0];
	bl_control(receiver, back, BL_OP_CTS, number, 0, &cts,
		   offsetof(struct bl_cts, piece) + sizeof cts.piece[0]);
	bl_control(receiver, back, BL_OP_FRAG_ASK, number, 0, &ask,
		   offsetof(struct bl_frag_ask, piece) + sizeof ask.piece[0]);
	node_settle(&node, 1);
	assert_int_equal(peer()->tx.next, n);
	assert_int_equal(sender->rndv.nserving, 0);
	assert_null(request()->chunks);
	receive(EAGER);
	told();
	node_close(&node);
}

/* A number that isn't anybody's comes back to its sender, who knows of no such request. */
static void number_of_nobody(void **state)
{
	const uint64_t number = 0x123456789abcdef;
	uint32_t n;

	(void)state;
	open_pair();
	n = receiver->dest[1]->tx.next;
	for (int early = 0; early < 2; early++) {
		bl_tx_slot(&peer()->tx)->word[BL_SLOT_ACK_WORD(BL_SLOT_INLINE)] = number;
		bl_put_packet(peer(), BL_OP_TAGGED, BL_SLOT_ACK, 9, 7, from, BL_SLOT_INLINE);
		if (early)
			bl_ep_progress(receiver);
		receive(BL_SLOT_INLINE);
	}
	assert_int_equal(receiver->dest[1]->tx.next, n + 2);
	for (uint32_t i = n; i < n + 2; i++)
		assert_int_equal(receiver->dest[1]->tx.slot[i % BL_SLOTS].tag, number);
	node_settle(&node, 1);
	assert_false(peer()->broken);
	send_by(8, 1, DELIVER);
	receive(8);
	told();
	node_close(&node);
}

/* --- 64 KiB and more ---------------------------------------------------------- */

struct large_row {
	struct row row;
	size_t len;
	uint64_t flags;
	uint8_t leaves;	 /* the sender, after a large message */
	uint32_t unread; /* messages of this length in the ring */
	bool away;	 /* the receiver isn't in the library ... */
	bool shares;	 /* ... perhaps because it has no turn */
	bool goes;	 /* it is, but is used to go away */
	bool under_way;	 /* another large one has been announced */
	bool is_short;	 /* the ring */
	bool shown;	 /* the receive has been posted, and is on the board */
	bool one_packet;
};

static const struct large_row larges[] = {
	{.row = {"shortest", "both are at it"}, .len = LARGE, .one_packet = true},
	{.row = {"longest", "both are at it"}, .len = EAGER_LONG, .one_packet = true},
	{.row = {"longer", "isn't carried"}, .len = EAGER_LONG + 1},
	{.row = {"short ring", "has no room"}, .len = LARGE, .is_short = true},
	{.row = {"delivered", "both are at it"},
	 .len = LARGE,
	 .flags = DELIVER,
	 .one_packet = true},
	{.row = {"shown", "taken back from its senders"},
	 .len = LARGE,
	 .shown = true,
	 .one_packet = true},
	{.row = {"shown, announced", "the sender leaves"},
	 .len = LARGE,
	 .shown = true,
	 .leaves = 1},
	{.row = {"receiver away", "may be computing"}, .len = LARGE, .away = true},
	{.row = {"receiver goes", "is here, for now"}, .len = LARGE, .goes = true},
	{.row = {"shares a core", "and may be computing"},
	 .len = LARGE,
	 .away = true,
	 .shares = true},
	{.row = {"sender leaves", "to compute"}, .len = LARGE, .leaves = 1},
	{.row = {"one unread", "it still copies that"},
	 .len = LARGE,
	 .unread = 1,
	 .one_packet = true},
	{.row = {"two unread", "many are sent"}, .len = LARGE, .unread = 2},
	{.row = {"one under way", "many are sent"}, .len = LARGE, .under_way = true},
	{.row = {"shorter, away", "goes anyway"},
	 .len = LARGE - 1,
	 .leaves = 4,
	 .unread = 2,
	 .away = true,
	 .one_packet = true},
};

static void go_away(void)
{
	bl_presence_active(receiver, bl_ticks() - 1000000 * bl_ticks_per_us());
	bl_presence_seen(receiver, bl_ticks() - 1000000 * bl_ticks_per_us());
}

static bool is_whole(uint32_t n)
{
	return BL_HEAD_OP(head_of(n)) == BL_OP_TAGGED;
}

/* The receiver waits in the library, and comes back there (stays). False: it doesn't go whole,
 * perhaps because this machine was too slow for the receiver to seem there. */
static bool send_at_it(size_t len, uint64_t flags, bool stays)
{
	uint64_t until = bl_ticks() + 90 * bl_ticks_per_us(); /* more is: busy */
	uint32_t n = peer()->tx.next;

	atomic_store(&receiver->local.seg.header->stays, stays);
	bl_presence_seen(receiver, until);
	send_by(len, 1, flags);
	return is_whole(n) || (int64_t)(bl_ticks() - until) < 0;
}

/* A pair with what the row wants to be there already; false: too slow. */
static bool prepare(const struct large_row *row)
{
	open_pair();
	peer()->stays_short = row->is_short;
	if (!row->is_short)
		lengthen();
	assert_int_equal(is_long(), !row->is_short);
	for (uint32_t i = 0; i < row->unread; i++) {
		sender->ways.habit.leaves = 0;
		if (!send_at_it(row->len, 0, true))
			return false;
	}
	assert_int_equal(sender->rndv.requests, 0);
	if (row->under_way)
		send_by(LONGEST, 1, 0);
	assert_int_equal(sender->rndv.requests, row->under_way);
	if (row->shown)
		post(row->len);
	assert_int_equal(receiver->tagged.posted.head && receiver->tagged.posted.head->flags,
			 row->shown);
	sender->ways.habit.leaves = row->leaves;
	if (row->shares)
		sender->bound.tx_cq->crowd.until = bl_ticks() + 1000000 * bl_ticks_per_us();
	return true;
}

static bool send_row(const struct large_row *row)
{
	if (!row->away)
		return send_at_it(row->len, row->flags, !row->goes) || !row->one_packet;
	go_away();
	send_by(row->len, 1, row->flags);
	return true;
}

static void large_ones(void **state)
{
	const struct large_row *row = TABLE_ROW(struct large_row, state);
	uint32_t n, others = row->unread + row->under_way;

	for (;;) {
		bool prepared = prepare(row);

		n = peer()->tx.next;
		if (prepared && send_row(row))
			break;
		node_close(&node);
	}
	assert_int_equal(is_whole(n), row->one_packet);
	for (uint32_t i = 0; i <= others; i++) {
		size_t len = i < others && row->under_way ? LONGEST : row->len;

		if (!row->shown)
			receive(len);
		else
			assert_int_equal(node_completion(&node, 0, NULL).len, len);
		check(len);
		node_completion(&node, 1, NULL);
	}
	assert_int_equal(sender->rndv.requests + receiver->rndv.ntransfer +
				 receiver->ways.proxy.nclaimed,
			 0);
	node_close(&node);
}

static const struct large_row one = {.len = LARGE, .one_packet = true};

static void send_one(void)
{
	while (!prepare(&one) || !send_row(&one))
		node_close(&node);
	assert_int_equal(sender->rndv.requests, 0);
}

/* Who sends it goes on at once; whether it then computes shows, is remembered, and said. */
static void large_ones_teach(void **state)
{
	(void)state;
	send_one();
	assert_true(sender->ways.habit.left_at);
	sender->ways.habit.left_at -= 1000 * bl_ticks_per_us();
	atomic_store(&sender->local.seg.header->stays, 1);
	node_completion(&node, 1, NULL);
	while (sender->ways.habit.left_at) /* until it is idle */
		bl_ep_progress(sender);
	assert_int_equal(sender->ways.habit.leaves, BL_LEAVES_MOST);
	assert_false(atomic_load(&sender->local.seg.header->stays));
	for (int i = 0; i < (int)BL_LEAVES_MOST; i++) {
		bl_habit_leave(sender);
		bl_habit_back(sender, sender->ways.habit.left_at);
	}
	assert_int_equal(sender->ways.habit.leaves, 0);
	assert_true(atomic_load(&sender->local.seg.header->stays));
	node_close(&node);
}

/* Nor need whoever has received one ever be idle: its absence shows when it takes the message. */
static void receivers_learn(void **state)
{
	const struct large_row shown = {.len = LARGE, .shown = true, .one_packet = true};
	struct bl_comp comp;

	(void)state;
	while (!prepare(&shown) || !send_row(&shown))
		node_close(&node);
	receiver->ways.habit.leaves = 0;
	receiver->ways.habit.left_at = bl_ticks() - 1000 * bl_ticks_per_us();
	assert_int_equal(bl_cq_read(receiver->bound.rx_cq, &comp, 1, sizeof comp, NULL), 1);
	assert_int_equal(receiver->ways.habit.leaves, BL_LEAVES_MOST);
	assert_false(atomic_load(&receiver->local.seg.header->stays));
	check(LARGE);
	node_close(&node);
}

/* However long the copy took, it is no absence; nor is what was before it forgotten. */
static void copies_are_no_absence(void **state)
{
	const uint64_t us = bl_ticks_per_us();
	uint64_t now, began;

	(void)state;
	open_pair();
	now = bl_ticks();
	receiver->ways.habit.left_at =
		now - 10000005 * us; /* and then, 5 us later, copied for 10 s */
	receiver->ways.habit.brought_at = now - 10000003 * us;
	receiver->bound.rx_cq->last_empty = now - 10000007 * us;
	began = bl_copy_begins(receiver, LARGE) - 10000000 * us;
	bl_copy_ends(receiver, began);
	now = bl_ticks();
	assert_true(now - receiver->ways.habit.left_at >= 5 * us);
	assert_true(now - receiver->ways.habit.left_at < 10000000 * us);
	assert_true(now - receiver->ways.habit.brought_at >= 3 * us);
	assert_true(now - receiver->ways.habit.brought_at < 10000000 * us);
	assert_true(now - receiver->bound.rx_cq->last_empty >= 7 * us);
	assert_true(now - receiver->bound.rx_cq->last_empty < 10000000 * us);
	receiver->ways.habit.left_at = receiver->ways.habit.brought_at =
		0; /* what isn't known stays so */
	bl_copy_ends(receiver, bl_copy_begins(receiver, LARGE));
	assert_int_equal(receiver->ways.habit.left_at + receiver->ways.habit.brought_at, 0);
	assert_int_equal(bl_copy_begins(receiver, 1000), 0); /* a short one costs nothing */
	node_close(&node);
}

/* Whoever has copied for long by itself looks after its neighbours at the next read, if it is time.
 */
static void a_look_is_due(void **state)
{
	(void)state;
	open_pair();
	for (uint32_t i = 0; i < 3; i++) {
		size_t len = i == 1 ? BL_LONG_BYTES - 1 : BL_LONG_BYTES;

		receiver->bound.rx_cq->full &= ~(BL_LOOK_READS - 1u);
		receiver->watch.next_look = bl_ticks() + (i == 2 ? 1000000 * bl_ticks_per_us() : 0);
		bl_copy_ends(receiver, bl_copy_begins(receiver, len));
		assert_int_equal(receiver->bound.rx_cq->full & (BL_LOOK_READS - 1),
				 i ? 0 : BL_LOOK_READS - 1);
	}
	receiver->watch.next_look = 0;
	node_close(&node);
}

/* A receive that finds such a message waiting counts as any large one. */
static void early_ones_teach(void **state)
{
	(void)state;
	send_one();
	node_settle(&node, 0);
	receiver->ways.habit.left_at = 0;
	post(LARGE);
	assert_true(receiver->ways.habit.left_at);
	assert_int_equal(node_completion(&node, 0, NULL).len, LARGE);
	check(LARGE);
	node_close(&node);
}

int main(void)
{
	char carried[16];

	set_limits();
	snprintf(carried, sizeof carried, "%u", EAGER_LONG);
	setenv("FI_BEELINE_EAGER_LONG_MAX", carried, 1);
	unsetenv("FI_BEELINE_LONG_RING");
	TABLE_ROWS("which", which_are, which);
	TABLE_TEST(limit_is_above_a_slot);
	TABLE_ROWS("when", hears, whens);
	TABLE_TEST(receiver_ends);
	TABLE_TEST(sender_ends);
	TABLE_TEST(counted);
	TABLE_TEST(to_itself);
	TABLE_TEST(asks_for_more);
	TABLE_TEST(number_of_nobody);
	TABLE_ROWS("large", large_ones, larges);
	TABLE_TEST(large_ones_teach);
	TABLE_TEST(receivers_learn);
	TABLE_TEST(copies_are_no_absence);
	TABLE_TEST(a_look_is_due);
	TABLE_TEST(early_ones_teach);
	return table_run("acked");
}
