/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cts_all_test.c: of two large messages that are announced one behind the other, the first is given
 * to its sender, if that waits, and the receiver begins with the second (rndv_rx.c): which are,
 * who copies what, and what becomes of a message that its sender never takes. Who shares
 * one although he sends himself is in own_test.c.
 */
#include "unit/announced.h"

/* --- which are given ------------------------------------------------------------- */

enum behind {
	NOTHING,
	ANNOUNCED, /* a tagged one */
	UNTAGGED,
	SHORT,	     /* a message that is all there */
	WORD,	     /* a FIN */
	SHORT_FIRST, /* and then an announced one */
	OLD,	     /* nothing; in that slot there is an announcement of the lap before */
	NEXT_LAP,    /* one in the ring's first slot, and the given one in its last */
};

struct which_row {
	struct row row;
	size_t len;
	enum behind behind;
	int sender;
	enum bl_copy_way pull;
	bool no_coop;	/* descriptors are in use */
	bool first_msg; /* the first isn't tagged */
	bool leaves;	/* the receiver's user */
	bool multi;	/* the first one's receive takes several messages */
	bool is_given;
};

#define LEAST BL_PROXY_MIN
#define VM    .pull = BL_COPY_VM

static const struct which_row which[] = {
	{{"shortest", "that a claim is for"}, LEAST, ANNOUNCED, VM, .is_given = true},
	{{"a byte shorter", "is copied sooner than given"}, LEAST - 1, ANNOUNCED, VM},
	{{"longest", "that is copied alone"}, MOST, ANNOUNCED, VM, .is_given = true},
	{{"a byte longer", "both hands are better"}, MOST + 1, ANNOUNCED, VM},
	{{"in one piece", "a byte less than both hands take"},
	 BOTH_HANDS - 1,
	 ANNOUNCED,
	 VM,
	 .is_given = true},
	{{"in one piece, too", "as both hands take"}, BOTH_HANDS, ANNOUNCED, VM, .is_given = true},
	{{"untagged behind", "is as large"}, LEAST, UNTAGGED, VM, .is_given = true},
	{{"untagged", "the first is"}, LEAST, ANNOUNCED, VM, .first_msg = true, .is_given = true},
	{{"alone", "nothing to begin with meanwhile"}, LEAST, NOTHING, VM},
	{{"short one behind", "is over at once"}, LEAST, SHORT, VM},
	{{"a word behind", "is no message"}, LEAST, WORD, VM},
	{{"short one between", "only the next is looked at"}, LEAST, SHORT_FIRST, VM},
	{{"an old one behind", "which was read a lap ago"}, LEAST, OLD, VM},
	{{"over the lap's end", "the next slot is the first"},
	 LEAST,
	 NEXT_LAP,
	 VM,
	 .is_given = true},
	{{"sender copies", "it can't take it soon"}, LEAST, ANNOUNCED, COPIES, VM},
	{{"sender away", "it may never take it"}, LEAST, ANNOUNCED, IS_AWAY, VM},
	{{"refused", "we can't copy, should it not"}, LEAST, ANNOUNCED, .pull = BL_COPY_NOTHING},
	{{"to itself", "one copy, by memcpy"}, LEAST, ANNOUNCED, .pull = BL_COPY_SELF},
	{{"no descriptor", "there are 45, all in use"}, LEAST, ANNOUNCED, VM, .no_coop = true},
	{{"user leaves", "and may do so before the sender has taken it"},
	 LEAST,
	 ANNOUNCED,
	 VM,
	 .leaves = true},
	{{"multi-receive", "whose messages are over in their order"},
	 LEAST,
	 ANNOUNCED,
	 VM,
	 .first_msg = true,
	 .multi = true},
};

/* A message that is over when it has been read. */
static void short_one(void)
{
	assert_int_equal(bl_recv_buf(receiver, to, 8, 1, 77, 0, NULL, BL_TAGGED), 0);
	assert_int_equal(bl_inject(sender, from, 8, 0, 77, 0, BL_TAGGED), 0);
}

/* Until the sender's next packet is in this slot. */
static void move_on_to(uint32_t slot)
{
	while (peer()->tx.next % BL_SLOTS != slot) {
		short_one();
		node_settle(&node, 0);
	}
}

static void put_before(enum behind behind)
{
	if (behind == NEXT_LAP)
		move_on_to(BL_SLOTS - 1);
	if (behind != OLD)
		return;
	move_on_to(17);
	post_one(3, LEAST, BL_TAGGED);
	announce(3, LEAST, BL_TAGGED);
	node_completion(&node, 0, NULL);
	node_completion(&node, 1, NULL);
	move_on_to(16);
}

static bool another_behind(enum behind behind)
{
	return behind != NOTHING && behind != SHORT && behind != WORD && behind != OLD;
}

static void put_behind(enum behind behind)
{
	if (behind == SHORT || behind == SHORT_FIRST)
		short_one();
	if (behind == WORD) /* of no request */
		bl_control(sender, peer(), BL_OP_FIN, 77ull << 32, 0, NULL, 0);
	if (another_behind(behind))
		announce(1, LEAST, behind == UNTAGGED ? BL_MSG : BL_TAGGED);
}

/* Nothing of it is taken, and the other is over. */
static void check_given(const struct bl_recv_op *t, size_t len, uint32_t n)
{
	assert_non_null(t->chunks);
	assert_int_equal(t->count, 1); /* all of it */
	assert_int_equal(t->chunk, len);
	assert_int_equal(t->taken + t->done, 0);
	assert_int_equal(packets(n, BL_OP_CTS), 1);
	is_not_there(0);
	is_there(1, LEAST);
	assert_int_equal(receiver->rndv.ntransfer, 1);
}

static void which_are(void **state)
{
	const struct which_row *row = TABLE_ROW(struct which_row, state);
	uint64_t flags = row->first_msg ? BL_MSG : BL_TAGGED, busy;
	size_t len[2] = {row->len, LEAST};
	const struct bl_recv_op *t;
	uint32_t n;

	open_with(row->pull);
	user_leaves = row->leaves;
	sender_is(WAITS);
	put_before(row->behind);
	/* first: these calls look for what has come */
	post_one(0, row->len, flags | (row->multi ? BL_MULTI_RECV : 0));
	if (another_behind(row->behind))
		post_one(1, LEAST, row->behind == UNTAGGED ? BL_MSG : BL_TAGGED);
	announce(0, row->len, flags);
	put_behind(row->behind);
	busy = back()->chunks_busy;
	if (row->no_coop)
		back()->chunks_busy = UINT64_MAX;
	n = back()->tx.next;
	sender_is(row->sender);
	deliver();
	t = cts_all(0);
	assert_int_equal(t != NULL, row->is_given);
	if (t) {
		check_given(t, row->len, n);
	} else if (row->pull != BL_COPY_NOTHING && row->len < BOTH_HANDS) {
		/* it is copied at once, as ever, and its sender isn't asked */
		is_there(0, row->len);
		assert_int_equal(packets(n, BL_OP_CTS), 0);
		assert_int_equal(receiver->rndv.ntransfer, 0);
	}
	back()->chunks_busy = row->no_coop ? busy : back()->chunks_busy;
	complete(1 + another_behind(row->behind), len);
	node_close(&node);
}

/* Its receive comes later, when what is behind it isn't what is behind it in the ring: the call
 * that posts copies it, for its caller may leave. */
static void not_when_early(void **state)
{
	uint32_t n;

	(void)state;
	open_with(BL_COPY_VM);
	announce(0, LEAST, BL_TAGGED);
	deliver();
	short_one();
	announce(1, LEAST, BL_TAGGED);
	n = back()->tx.next;
	sender_is(WAITS);
	post_one(0, LEAST, BL_TAGGED);
	assert_int_equal(packets(n, BL_OP_CTS), 0);
	assert_int_equal(receiver->rndv.ntransfer, 0);
	is_there(0, LEAST);
	post_one(1, LEAST, BL_TAGGED);
	complete(2, (size_t[]){LEAST, LEAST});
	node_close(&node);
}

static void by_finish(void)
{
	bl_rndv_finish(receiver, &(struct bl_sink)BL_SINK_NONE);
}

/* In a call that posts none is: both take pieces, and what its sender hasn't begun with by then is
 * copied there. */
static void none_while_posting(void **state)
{
	const struct bl_recv_op *t;
	uint32_t n;

	(void)state;
	open_with(BL_COPY_VM);
	for (uint32_t i = 0; i < 2; i++)
		post_one(i, MOST, BL_TAGGED);
	for (uint32_t i = 0; i < 2; i++)
		announce(i, MOST, BL_TAGGED);
	n = back()->tx.next;
	sender_is(WAITS);
	receiver->ways.proxy.posting = true;
	deliver();
	receiver->ways.proxy.posting = false;
	assert_int_equal(receiver->rndv.ntransfer, 2);
	assert_int_equal(packets(n, BL_OP_CTS), 2);
	for (uint32_t i = 0; i < 2; i++) {
		t = receiver->rndv.transfer[i];
		assert_false(t->cts_all);
		assert_int_equal(t->count, MOST / (BOTH_HANDS / 2));
		assert_int_equal(t->taken, 1);
	}
	by_finish();
	assert_int_equal(receiver->rndv.ntransfer, 0);
	complete(2, (size_t[]){MOST, MOST});
	node_close(&node);
}

/* --- who copies what ------------------------------------------------------------- */

struct whose_row {
	struct row row;
	size_t len;
};

static const struct whose_row whose[] = {
	{{"shortest", "in one piece"}, LEAST},
	{{"a byte less than both hands take", "in one piece"}, BOTH_HANDS - 1},
	{{"as both hands take", "in one piece, too"}, BOTH_HANDS},
	{{"longest", "in one piece, too"}, MOST},
};

/* Two messages, the first given. */
static void give(size_t len)
{
	open_with(BL_COPY_VM);
	for (uint32_t i = 0; i < 2; i++)
		post_one(i, i ? LEAST : len, BL_TAGGED);
	for (uint32_t i = 0; i < 2; i++)
		announce(i, i ? LEAST : len, BL_TAGGED);
	sender_is(WAITS);
	deliver();
	assert_non_null(cts_all(0));
	assert_null(cts_all(1));
	is_not_there(0);
	is_there(1, LEAST);
}

/* The sender takes it all while we are busy with the other. */
static void its_sender_copies_it(void **state)
{
	const struct whose_row *row = TABLE_ROW(struct whose_row, state);
	uint64_t had;

	give(row->len);
	had = pulled();
	bl_ep_progress(sender);
	is_there(0, row->len);
	assert_int_equal(pushed(), row->len);
	complete(2, (size_t[]){row->len, LEAST});
	assert_int_equal(pulled(), had);
	assert_int_equal(pushed(), row->len);
	node_close(&node);
}

/* While it has that one to copy it gets no other; then it does. */
static void one_at_a_time(void **state)
{
	const size_t len[MESSAGES] = {LEAST, LEAST, LEAST, LEAST};

	(void)state;
	open_with(BL_COPY_VM);
	for (uint32_t i = 0; i < MESSAGES; i++)
		post_one(i, LEAST, BL_TAGGED);
	for (uint32_t i = 0; i < 3; i++)
		announce(i, LEAST, BL_TAGGED);
	sender_is(WAITS);
	deliver();
	assert_non_null(cts_all(0));
	assert_int_equal(receiver->rndv.ntransfer, 1);
	is_there(1, LEAST);
	is_there(2, LEAST);
	complete(3, len);
	node_close(&node);

	open_with(BL_COPY_VM);
	for (uint32_t i = 0; i < MESSAGES; i++)
		post_one(i, LEAST, BL_TAGGED);
	for (uint32_t i = 0; i < 2; i++)
		announce(i, LEAST, BL_TAGGED);
	sender_is(WAITS);
	deliver();
	bl_ep_progress(sender); /* and it has copied it; we haven't taken note of that */
	is_there(0, LEAST);
	assert_non_null(cts_all(0));
	for (uint32_t i = 2; i < MESSAGES; i++)
		announce(i, LEAST, BL_TAGGED);
	sender_is(WAITS);
	deliver();
	assert_non_null(cts_all(2));
	is_not_there(2);
	is_there(3, LEAST);
	complete(4, len);
	node_close(&node);
}

/* --- what a sender has in hand ------------------------------------------------------ */

struct hand_row {
	struct row row;
	bool cts_all;
	uint32_t ours, theirs; /* pieces, of 8: taken by us, copied by the sender */
	bool busy;
};

#define PIECES_OF_MOST 8u /* of one that is shared; one that is given has one */

static const struct hand_row hands[] = {
	{{"given", "nothing is copied yet"}, true, 0, 0, true},
	{{"ours", "it helps if it likes"}, false, 0, 0, false},
	{{"all but one", "the last"}, true, 0, PIECES_OF_MOST - 1, true},
	{{"all", "we haven't taken note of that"}, true, 0, PIECES_OF_MOST, false},
	{{"both, all but one", "it may be copying that"}, true, 4, 3, true},
	{{"both, all", "it has copied its part"}, true, 4, 4, false},
	{{"a liar", "more than there are: a hint"}, true, 0, UINT32_MAX, false},
};

static void in_hand(void **state)
{
	const struct hand_row *row = TABLE_ROW(struct hand_row, state);
	struct bl_recv_op *t;

	give(MOST);
	t = receiver->rndv.transfer[0];
	assert_int_equal(t->count, 1);
	t->count = PIECES_OF_MOST;
	sender_is(COPIES); /* so that it is here, however slow this machine */
	bl_presence_seen(receiver, bl_ticks() + 1000000 * bl_ticks_per_us());
	t->cts_all = row->cts_all;
	t->taken = row->ours;
	atomic_store(&t->chunks->tx_done, row->theirs);
	assert_int_equal(bl_peer_here(receiver, back()), !row->busy);
	assert_true(bl_peer_here(receiver, receiver->dest[0])); /* that is another's */
	t->cts_all = false;
	t->taken = 0;
	t->count = 1;
	atomic_store(&t->chunks->tx_done, 0);
	complete(2, (size_t[]){MOST, LEAST});
	node_close(&node);
}

/* --- one that its sender never takes ---------------------------------------------- */

static void by_read(void)
{
	bl_ep_progress(receiver);
}

static void by_post(void)
{
	receiver->ways.habit.leaves = BL_LEAVES_MOST;
	post_one(2, LEAST, BL_TAGGED);
}

static void by_send(void)
{
	static uint8_t other[LEAST];
	struct bl_send send = {&(struct iovec){other, LEAST}, 1, 1, 5, 0, NULL, BL_TAGGED, NULL};
	enum bl_copy_way way = back()->copy.push;

	receiver->ways.habit.leaves = BL_LEAVES_MOST;
	back()->copy.push = BL_COPY_VM; /* one that can be claimed */
	assert_int_equal(bl_send(receiver, &send), 0);
	back()->copy.push = way;
}

struct left_row {
	struct row row;
	size_t len;
	void (*finish)(void);
};

static const struct left_row lefts[] = {
	{{"the read goes on", "it may bring the other, and be the last for long"}, LEAST, by_read},
	{{"a post", "it may be the last call for long"}, LEAST, by_post},
	{{"a post, a longer one", "all of it"}, BOTH_HANDS, by_post},
	{{"end of a read", "of one who goes away"}, LEAST, by_finish},
	{{"end of a read, the longest", "all of it"}, MOST, by_finish},
	{{"a send", "its sender may wait for that"}, LEAST, by_send},
};

/* The sender makes no step any more: we copy it, and need nobody for that. */
static void finished_without_its_sender(void **state)
{
	const struct left_row *row = TABLE_ROW(struct left_row, state);
	struct bl_comp got[2];

	give(row->len);
	sender_is(IS_AWAY);
	row->finish();
	assert_int_equal(receiver->rndv.ntransfer, 0);
	is_there(0, row->len);
	assert_int_equal(pushed(), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(bl_cq_read(node.cq[0], &got[i], 1, sizeof got[i], NULL), 1);
	assert_ptr_equal(got[0].context, there[1]);
	assert_ptr_equal(got[1].context, there[0]);
	assert_int_equal(got[1].len, row->len);
	/* it is back: it finds the word that the message is given to it, and that it is over */
	memset(there[0], 0xcc, LEAST);
	for (uint32_t i = 0; i < 2; i++)
		node_completion(&node, 1, NULL);
	assert_int_equal(pushed(), 0);
	for (size_t k = 0; k < LEAST; k += 4096)
		assert_int_equal(there[0][k], 0xcc);
	node_close(&node);
}

static void cannot_write(void)
{
	peer()->copy.push = BL_COPY_NOTHING;
	bl_ep_progress(sender);
	assert_true(bl_chunks_returned(cts_all(0)->chunks) == BL_CHUNKS_NONE); /* it takes none */
}

static void gives_it_back(void)
{
	const struct bl_recv_op *t = cts_all(0);

	bl_chunks_give_back(t->chunks,
			    bl_chunks_take(t->chunks, t->chunks_generation, t->count, true));
	peer()->copy.push = BL_COPY_NOTHING;
	bl_ep_progress(sender);
}

struct refuses_row {
	struct row row;
	size_t len;
	void (*refuse)(void);
};

static const struct refuses_row refuses[] = {
	{{"can't write", "the kernel doesn't let it"}, LEAST, cannot_write},
	{{"can't write, in pieces", "the same"}, MOST, cannot_write},
	{{"gives it back", "the kernel has just refused"}, LEAST, gives_it_back},
	{{"gives one back", "and takes no other"}, MOST, gives_it_back},
};

/* It hears of it, and copies nothing. */
static void finished_for_its_sender(void **state)
{
	const struct refuses_row *row = TABLE_ROW(struct refuses_row, state);

	give(row->len);
	hear();
	row->refuse();
	is_not_there(0);
	assert_non_null(cts_all(0));
	complete(2, (size_t[]){row->len, LEAST});
	assert_int_equal(pushed(), 0);
	node_close(&node);
}

/* --- one whose sender, or receiver, ends -------------------------------------------- */

static void sender_dies(void **state)
{
	struct bl_sink none = BL_SINK_NONE;

	(void)state;
	give(LEAST);
	bl_ep_peer_gone(receiver, &none, back(), ECONNRESET);
	assert_int_equal(receiver->rndv.ntransfer, 0);
	assert_ptr_equal(node_completion(&node, 0, NULL).context, there[1]);
	assert_int_equal(node_error(&node, 0).err, ECONNRESET);
	is_not_there(0);
	node_close(&node);
}

/* It dies after it has said that it takes it: what is there may be any part of the message. */
static void sender_dies_copying(void **state)
{
	struct bl_sink none = BL_SINK_NONE;

	(void)state;
	give(MOST);
	bl_chunks_take(cts_all(0)->chunks, cts_all(0)->chunks_generation, cts_all(0)->count, true);
	bl_ep_progress(receiver);
	bl_ep_peer_gone(receiver, &none, back(), ECONNRESET);
	assert_int_equal(receiver->rndv.ntransfer, 0);
	assert_ptr_equal(node_completion(&node, 0, NULL).context, there[1]);
	assert_int_equal(node_error(&node, 0).err, ECONNRESET);
	node_close(&node);
}

/* The receiver closes when its sender knows that it may copy: it comes too late, and doesn't write
 * into what is its owner's again. */
static void receiver_closes(void **state)
{
	(void)state;
	give(LEAST);
	hear();
	bl_rndv_close(receiver); /* as bl_ep_close() does, before anybody can see that it closes */
	bl_ep_progress(sender);
	is_not_there(0);
	assert_int_equal(pushed(), 0);
	node_close(&node);
}

int main(void)
{
	set_announced_limits();
	TABLE_ROWS("which", which_are, which);
	TABLE_TEST(not_when_early);
	TABLE_TEST(none_while_posting);
	TABLE_ROWS("whose", its_sender_copies_it, whose);
	TABLE_TEST(one_at_a_time);
	TABLE_ROWS("in hand", in_hand, hands);
	TABLE_ROWS("left", finished_without_its_sender, lefts);
	TABLE_ROWS("refuses", finished_for_its_sender, refuses);
	TABLE_TEST(sender_dies);
	TABLE_TEST(sender_dies_copying);
	TABLE_TEST(receiver_closes);
	return table_run("cts_all");
}
