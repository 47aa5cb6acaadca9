/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * withdraw_test.c: sends that are cancelled after they have left: which end at once, which when
 * their receiver has answered, which are too late, and what the receiver gets.
 */
#define EAGER_LONG 48000u
#define LONGEST	   200000u
#include "transport/local/ways/proxy.h"
#include "unit/pair.h"

#define LARGE BL_PROXY_MIN

enum state {
	UNREAD, /* by the receiver, which isn't in the library */
	EARLY,	/* it has no receive */
	POSTED, /* its receive is there, and it is unread */
	TAKEN,	/* it has been set aside (FI_CLAIM) */
};

enum end {
	AT_ONCE,    /* and it is dropped */
	WITH_REPLY, /* cancelled when the receiver has answered */
	TOO_LATE,   /* it is received, and its sender hears of that */
};

struct row_of {
	struct row row;
	size_t len;
	uint64_t flags;
	bool open; /* it may be claimed */
	bool full; /* the receiver's ring, so that a bit says FIN */
	enum state state;
	enum end end;
};

#define DELIVER BL_DELIVERY_COMPLETE

static const struct row_of rows[] = {
	{{"slot, unread", "its receiver never comes"},
	 60,
	 DELIVER,
	 false,
	 false,
	 UNREAD,
	 WITH_REPLY},
	{{"slot, early", "it waits there"}, 60, DELIVER, false, false, EARLY, WITH_REPLY},
	{{"slot, posted", "it is received"}, 60, DELIVER, false, false, POSTED, TOO_LATE},
	{{"slot, set aside", "it is received"}, 60, DELIVER, false, false, TAKEN, TOO_LATE},
	{{"nothing, unread", "but its number"}, 0, DELIVER, false, false, UNREAD, WITH_REPLY},
	{{"ring, unread", "its number lies elsewhere"},
	 EAGER,
	 DELIVER,
	 false,
	 false,
	 UNREAD,
	 WITH_REPLY},
	{{"ring, early", "it waits there"}, EAGER, DELIVER, false, false, EARLY, WITH_REPLY},
	{{"ring, posted", "it is received"}, EAGER, DELIVER, false, false, POSTED, TOO_LATE},
	{{"ring, early, full", "a bit names it"}, EAGER, DELIVER, false, true, EARLY, WITH_REPLY},
	{{"announced, unread", "nobody may claim it"}, LARGE, 0, false, false, UNREAD, WITH_REPLY},
	{{"announced, early", "it waits there"}, LARGE, 0, false, false, EARLY, WITH_REPLY},
	{{"announced, early, full", "a bit can't say so"},
	 LARGE,
	 0,
	 false,
	 true,
	 EARLY,
	 WITH_REPLY},
	{{"announced, posted", "it is received"}, LARGE, 0, false, false, POSTED, TOO_LATE},
	{{"announced, set aside", "it is received"}, LARGE, 0, false, false, TAKEN, TOO_LATE},
	{{"announced, delivered", "the same"}, LARGE, DELIVER, false, false, EARLY, WITH_REPLY},
	{{"open, unread", "its word says so"}, LARGE, 0, true, false, UNREAD, AT_ONCE},
	{{"open, early", "its word is the receiver's"}, LARGE, 0, true, false, EARLY, WITH_REPLY},
};

static void open_one(bool open)
{
	open_pair();
	if (open) {
		peer()->copy.push = BL_COPY_VM;
		bl_presence_seen(receiver, bl_ticks() + 1000000 * bl_ticks_per_us());
	}
}

static void claim(uint64_t flags)
{
	struct iovec room = {to, LONGEST};
	struct bl_recv recv = {
		.iov = &room,
		.niov = 1,
		.src = 1,
		.tag = 9,
		.context = to,
		.flags = BL_TAGGED | BL_COMPLETION | flags,
	};

	assert_int_equal(bl_recv(receiver, &recv), 0);
}

static void cancelled(void)
{
	struct bl_comp_err err = node_error(&node, 1);

	assert_int_equal(err.err, ECANCELED);
	assert_ptr_equal(err.comp.context, from);
	assert_int_equal(err.comp.flags & BL_SEND, BL_SEND);
}

/* What its receiver does, as far as the sender's cancel is to find it. */
static void bring_to(const struct row_of *row)
{
	if (row->state == POSTED)
		post(LONGEST - 1);
	if (row->full)
		while (bl_tx_room(&receiver->dest[1]->tx))
			node_send(&node, 0, 1, from, 8, 77, NULL, BL_TAGGED);
	send_by(row->len, 1, row->flags);
	if (row->state == EARLY || row->state == TAKEN)
		bl_ep_progress(receiver);
	if (row->state == TAKEN) {
		claim(BL_PEEK | BL_CLAIM);
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	}
}

/* The next message is received: by the receive that the cancelled one has left, or by its own. */
static void next_comes(bool posted)
{
	memset(to, 0xee, sizeof to);
	if (!posted)
		post(100);
	send_by(100, 1, DELIVER);
	assert_int_equal(node_completion(&node, 0, NULL).len, 100);
	check(100);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
}

static void cancels(void **state)
{
	const struct row_of *row = TABLE_ROW(struct row_of, state);
	bool comes = row->end == TOO_LATE;

	open_one(row->open);
	bring_to(row);
	assert_int_equal(bl_cancel(sender, sender), -ENOENT); /* another's */
	assert_int_equal(bl_cancel(sender, from), 0);
	if (row->end == AT_ONCE) {
		cancelled();
		assert_int_equal(sender->rndv.requests, 0);
	}
	assert_int_equal(bl_cancel(sender, from), -ENOENT); /* already */
	if (!comes || row->state == TAKEN)
		node_settle(&node, 0);
	assert_null(receiver->tagged.unexpected.head);
	if (row->state == TAKEN)
		claim(BL_CLAIM);
	if (comes) {
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
		check(row->len);
	}
	if (row->end == WITH_REPLY)
		cancelled();
	if (row->end == TOO_LATE)
		assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	node_settle(&node, 1);
	bl_ep_progress(sender);
	assert_int_equal(sender->rndv.requests + sender->ways.pending.neager_long +
				 sender->ways.pending.nopen,
			 0);
	assert_int_equal(sender->bound.tx_cq->head, sender->bound.tx_cq->tail);
	assert_int_equal(receiver->rndv.ntransfer, 0);
	next_comes(row->state == POSTED && !comes);
	peer()->copy.push = BL_COPY_SELF;
	node_close(&node);
}

/* Its receive is posted once it has been cancelled, before its receiver has heard of that. */
static void posted_later(void **state)
{
	static const size_t lens[] = {60, EAGER, LARGE};

	(void)state;
	for (size_t i = 0; i < bl_countof(lens); i++) {
		open_pair();
		send_by(lens[i], 1, DELIVER);
		bl_ep_progress(receiver);
		assert_int_equal(bl_cancel(sender, from), 0);
		post(LONGEST - 1);
		assert_int_equal(node_completion(&node, 0, NULL).len, lens[i]);
		check(lens[i]);
		assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
		assert_int_equal(sender->rndv.requests, 0);
		assert_int_equal(sender->bound.tx_cq->head, sender->bound.tx_cq->tail);
		node_close(&node);
	}
}

/* Of several with one context each cancel ends one, and a cancel of none none. */
static void one_by_one(void **state)
{
	(void)state;
	open_pair();
	assert_int_equal(bl_cancel(sender, from), -ENOENT);
	for (int i = 0; i < 3; i++)
		send_by(60, 1, DELIVER);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(bl_cancel(sender, from), 0);
		node_settle(&node, 0);
		cancelled();
		assert_int_equal(sender->bound.tx_cq->head, sender->bound.tx_cq->tail);
		assert_int_equal(sender->rndv.requests, 2 - i);
	}
	assert_int_equal(bl_cancel(sender, from), -ENOENT);
	assert_int_equal(sender->rndv.requests, 0);
	next_comes(false);
	node_close(&node);
}

/* The receiver ends without an answer: its sender hears of that. */
static void receiver_ends(void **state)
{
	struct bl_sink none = BL_SINK_NONE;

	(void)state;
	for (int large = 0; large < 2; large++) {
		open_pair();
		send_by(large ? LARGE : 60, 1, DELIVER);
		assert_int_equal(bl_cancel(sender, from), 0);
		bl_ep_peer_gone(sender, &none, peer(), ECONNRESET);
		assert_int_equal(node_error(&node, 1).err, ECONNRESET);
		assert_int_equal(sender->bound.tx_cq->head, sender->bound.tx_cq->tail);
		assert_int_equal(sender->rndv.requests, 0);
		node_close(&node);
	}
}

/* A counter counts neither a message nor an error: its owner has taken it back. */
static void not_counted(void **state)
{
	struct bl_cntr *cntr;

	(void)state;
	open_pair();
	assert_int_equal(bl_cntr_open(node.domain, &cntr), 0);
	sender->bound.tx_cntr = cntr;
	for (int i = 0; i < 2; i++) {
		send_by(i ? LARGE : 60, 1, DELIVER);
		assert_int_equal(bl_cancel(sender, from), 0);
		node_settle(&node, 0);
		cancelled();
		node_settle(&node, 1);
	}
	assert_int_equal(bl_cntr_read(cntr) + cntr->errors, 0);
	sender->bound.tx_cntr = NULL;
	assert_int_equal(bl_cntr_close(cntr), 0);
	node_close(&node);
}

/* Who withdraws what isn't there, or isn't its own, changes nothing. */
static void liar(void **state)
{
	struct bl_peer *back;

	(void)state;
	open_pair();
	back = receiver->dest[1];
	send_by(60, 1, DELIVER);
	bl_ep_progress(receiver);
	bl_control(sender, peer(), BL_OP_WITHDRAW, bl_send_op_number(request()) + 1, 0, NULL, 0);
	bl_control(receiver, receiver->dest[0], BL_OP_WITHDRAW, bl_send_op_number(request()), 0,
		   NULL, 0);
	node_settle(&node, 0);
	assert_non_null(receiver->tagged.unexpected.head);
	assert_false(back->broken);
	post(60);
	assert_int_equal(node_completion(&node, 0, NULL).len, 60);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	node_close(&node);
}

int main(void)
{
	set_limits();
	TABLE_ROWS("cancel", cancels, rows);
	TABLE_TEST(posted_later);
	TABLE_TEST(one_by_one);
	TABLE_TEST(receiver_ends);
	TABLE_TEST(not_counted);
	TABLE_TEST(liar);
	return table_run("withdraw");
}
