/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * publish_test.c: receives below the length from which each is shown to its senders (proxy.h):
 * which are shown, what teaches a receiver to show some, which messages claim one, and what a call
 * that posts one takes. Nobody is polled but where a test says so; where somebody is, and at what,
 * is what the test makes it seem, however slow this machine is.
 */
#define EAGER_LONG 48000u
#define LONGEST	   65536u
#include "transport/local/ways/proxy.h"
#include "unit/pair.h"

#define LARGE	BL_PROXY_MIN
#define SHORT	20000u
#define MOST	BL_PUBLISHES_MOST
#define DELIVER BL_DELIVERY_COMPLETE

/* So many more are shown; `is_long`: messages of up to EAGER_LONG bytes may go whole. */
static void begin(uint8_t publishes, bool is_long)
{
	open_pair();
	for (size_t a = 0; a < 2; a++)
		for (size_t b = 0; b < 2; b++)
			node.ep[a]->dest[b]->copy.push = BL_COPY_VM;
	assert_int_equal(receiver->ways.habit.publishes, 0);
	assert_int_equal(receiver->limit.publish_above, LARGE - 1);
	receiver->ways.habit.leaves = sender->ways.habit.leaves = 0;
	if (publishes) {
		bl_habit_missed(receiver);
		receiver->ways.habit.publishes = publishes;
	}
	peer()->stays_short = !is_long;
	if (is_long)
		lengthen();
}

enum place {
	AWAY,
	HERE,	/* says so, and will for a while */
	ACTIVE, /* reads messages of a few pages, and hasn't looked around for long */
	LATE,	/* as AWAY, where several share a core */
};

static void is(struct bl_ep *ep, enum place place)
{
	uint64_t second = 1000000 * bl_ticks_per_us(), now = bl_ticks();
	struct bl_seg_header *header = ep->local.seg.header;

	atomic_store(&header->here, place == HERE ? now + second : now - second);
	atomic_store(&header->active, place == ACTIVE ? now + second : now - second);
	sender->bound.tx_cq->crowd.until = receiver->bound.tx_cq->crowd.until =
		place == LATE ? now + second : 0;
}

static void post_tagged(size_t len, uint64_t tag)
{
	assert_int_equal(bl_recv_buf(receiver, to, len, 1, tag, 0, to, NODE_FLAGS), 0);
}

static void deliver(void)
{
	struct bl_sink none = BL_SINK_NONE;

	bl_poll_peer(receiver, &none, receiver->dest[1]);
}

/* All is over, and was received once. */
static void arrives(size_t len)
{
	is(receiver, HERE);
	is(sender, HERE);
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	check(len);
	node_expect_nothing(&node, 0);
	node_expect_nothing(&node, 1);
	assert_int_equal(sender->rndv.requests + receiver->rndv.ntransfer +
				 receiver->ways.proxy.nclaimed,
			 0);
}

static bool is_there(size_t len)
{
	return !memcmp(to, from, len);
}

static bool is_shown(void)
{
	return receiver->tagged.posted.head->flags & BL_POST_PUBLISHED;
}

static uint32_t last_op(void)
{
	return BL_HEAD_OP(peer()->tx.slot[(peer()->tx.next - 1) % BL_SLOTS].head);
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

	begin(row->before, false);
	post(row->len);
	assert_int_equal(is_shown(), row->shown);
	assert_int_equal(receiver->ways.habit.publishes, row->after);
	assert_int_equal(receiver->limit.publish_above, row->after ? EAGER : LARGE - 1);
	send_by(8, 1, 0);
	arrives(8);
	node_close(&node);
}

/* As many as it says, and not one more. */
static void shown_in_turn(void **state)
{
	(void)state;
	begin(MOST, false);
	for (uint32_t i = 0; i < MOST + 3; i++) {
		post(LARGE - 1);
		assert_int_equal(is_shown(), i < MOST);
		send_by(8, 1, 0);
		arrives(8);
	}
	node_close(&node);
}

/* Fewer each time that nobody has claimed as many. */
static void shown_in_vain(void **state)
{
	uint32_t least = 1;

	(void)state;
	begin(0, false);
	for (uint32_t most = MOST; most >= least; most /= 2) {
		bl_habit_missed(receiver);
		assert_int_equal(receiver->ways.habit.publishes, most);
		for (uint32_t i = 0; i < MOST; i++)
			bl_habit_posted_short(receiver);
		assert_int_equal(receiver->ways.habit.publishes, 0);
		assert_int_equal(receiver->limit.publish_above, LARGE - 1);
	}
	bl_habit_missed(receiver);
	assert_int_equal(receiver->ways.habit.publishes, least);
	bl_habit_hit(receiver);
	assert_int_equal(receiver->ways.habit.publishes, MOST);
	node_close(&node);
}

/* --- what teaches it -------------------------------------------------------------- */

struct missed_row {
	struct row row;
	size_t len;
	uint64_t flags;
	enum place receiver;
	bool is_long, itself;
	bool missed;
};

static const struct missed_row misses[] = {
	{{"away", "its sender waits"}, LARGE - 1, .missed = true},
	{{"away, the shortest", "that is announced"}, EAGER + 1, .missed = true},
	{{"here", "it takes the message at once"}, LARGE - 1, .receiver = HERE},
	{{"at work", "the same"}, LARGE - 1, .receiver = ACTIVE},
	{{"without a core", "it had it as soon as it could"}, LARGE - 1, .receiver = LATE},
	{{"away, eager", "its sender waits for nothing"}, EAGER, .missed = false},
	{{"away, large", "those are shown anyway"}, LARGE, .missed = false},
	{{"away, to itself", "who would claim it?"}, LARGE - 1, .itself = true},
	{{"away, whole", "its sender waits for nothing"}, SHORT, .is_long = true},
	{{"away, whole, delivered", "its sender waits"},
	 SHORT,
	 DELIVER,
	 .is_long = true,
	 .missed = true},
	{{"away, eager, delivered", "none of that length is shown"},
	 EAGER,
	 DELIVER,
	 .missed = false},
	{{"at work, whole, delivered", "it takes the message at once"},
	 SHORT,
	 DELIVER,
	 ACTIVE,
	 .is_long = true},
};

/* Whether its receive is posted before or when it has come. */
static void missed(const struct missed_row *row, bool early)
{
	begin(0, row->is_long);
	if (row->itself)
		receiver->dest[1]->copy.pull = BL_COPY_SELF;
	is(receiver, AWAY);
	if (!early)
		post(row->len);
	send_by(row->len, 1, row->flags);
	is(receiver, row->receiver);
	deliver();
	assert_int_equal(receiver->ways.habit.publishes, row->missed ? MOST : 0);
	if (early)
		post(row->len);
	arrives(row->len);
	node_close(&node);
}

static void missed_posted(void **state)
{
	missed(TABLE_ROW(struct missed_row, state), false);
}

static void missed_early(void **state)
{
	missed(TABLE_ROW(struct missed_row, state), true);
}

/* --- which claim one --------------------------------------------------------------- */

struct claim_row {
	struct row row;
	size_t len, room; /* of the message, and of the receive */
	uint8_t publishes;
	enum place receiver;
	bool other; /* the receive is for another message */
	bool open, claims;
};

static const struct claim_row claims[] = {
	{{"away", "it is shown"}, LARGE - 1, LARGE - 1, 1, .open = true, .claims = true},
	{{"away, the shortest", "that is announced"},
	 EAGER + 1,
	 LARGE - 1,
	 1,
	 .open = true,
	 .claims = true},
	{{"away, into a large one", "which is always shown"},
	 EAGER + 1,
	 LARGE,
	 0,
	 .open = true,
	 .claims = true},
	{{"away, too long for it", "is truncated"}, LARGE - 1, SHORT, 1, .open = true},
	{{"away, not shown", "it waits"}, LARGE - 1, LARGE - 1, .open = false},
	{{"away, another's", "it waits for its own"}, LARGE - 1, LARGE - 1, 1, .other = true},
	{{"here", "it takes the message"}, LARGE - 1, LARGE - 1, 1, HERE, .open = true},
	{{"at work", "it takes the message"}, LARGE - 1, LARGE - 1, 1, ACTIVE, .open = true},
	{{"without a core", "it takes the message"}, LARGE - 1, LARGE - 1, 1, LATE, .open = true},
};

static uint32_t taken(void)
{
	const struct bl_slot *slot = &peer()->tx.slot[(peer()->tx.next - 1) % BL_SLOTS];

	return *(const uint32_t *)(const void *)(slot->bytes + offsetof(struct bl_rts, taken));
}

static void claim(void **state)
{
	const struct claim_row *row = TABLE_ROW(struct claim_row, state);
	bool truncated = row->room < row->len;

	begin(row->publishes, false);
	post_tagged(row->room, row->other ? 8 : 9);
	is(receiver, row->receiver);
	send_by(row->len, 1, 0);
	if (truncated) {
		assert_true(is_there(row->room));
		assert_int_equal(node_error(&node, 0).err, BL_ETRUNC);
		assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
		node_close(&node);
		return;
	}
	assert_int_equal(sender->rndv.requests, !row->claims);
	assert_int_equal(is_there(row->len), row->claims);
	if (!row->claims)
		assert_int_equal(taken(), row->open ? BL_TAKEN_OPEN : BL_TAKEN_CLOSED);
	if (row->other)
		post_tagged(LARGE - 1, 9);
	receiver->ways.habit.unclaimed = BL_VAIN_MOST;
	arrives(row->len);
	assert_int_equal(receiver->ways.habit.publishes, row->claims ? MOST : 0);
	node_close(&node);
}

/* It is announced while its receiver is here, which then goes: claimed where its sender waits. */
static void claimed_later(void **state)
{
	static const enum place places[] = {HERE, ACTIVE, AWAY};

	(void)state;
	begin(1, false);
	post(LARGE - 1);
	is(receiver, HERE);
	send_by(LARGE - 1, 1, 0);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(sender->rndv.requests, 1);
		is(receiver, places[i]);
		sender->ways.pending.next_claim = 0;
		bl_proxy_later(sender, bl_ticks());
	}
	assert_int_equal(sender->rndv.requests, 0);
	assert_true(is_there(LARGE - 1));
	arrives(LARGE - 1);
	node_close(&node);
}

/* --- which can be claimed -------------------------------------------------------------- */

struct open_row {
	struct row row;
	uint8_t publishes;
	bool other, open;
};

static const struct open_row opens[] = {
	{{"not shown", "nobody can claim it"}, 0, false, false},
	{{"shown", "its receiver may leave yet"}, 1, false, true},
	{{"another's is shown", "nobody can claim it"}, 1, true, false},
};

static void is_open(void **state)
{
	const struct open_row *row = TABLE_ROW(struct open_row, state);

	begin(row->publishes, false);
	post_tagged(LARGE - 1, row->other ? 8 : 9);
	is(receiver, ACTIVE);
	send_by(SHORT, 1, 0);
	assert_int_equal(request()->open, row->open);
	if (row->other)
		post_tagged(LARGE - 1, 9);
	arrives(SHORT);
	node_close(&node);
}

/* --- which doesn't go whole, for its sender waits --------------------------------------- */

struct whole_row {
	struct row row;
	uint64_t flags;
	uint8_t publishes;
	enum place receiver;
	bool other, whole;
};

static const struct whole_row wholes[] = {
	{{"away", "it is claimed"}, DELIVER, 1, .whole = false},
	{{"away, not shown", "nobody can claim it"}, DELIVER, 0, .whole = true},
	{{"away, another's", "nobody can claim it"}, DELIVER, 1, .other = true, .whole = true},
	{{"away, not delivered", "its sender doesn't wait"}, 0, 1, .whole = true},
	{{"here", "it reads it"}, DELIVER, 1, HERE, .whole = true},
	{{"at work", "it reads it"}, DELIVER, 1, ACTIVE, .whole = true},
	{{"without a core", "it reads it"}, DELIVER, 1, LATE, .whole = true},
};

static void goes_whole(void **state)
{
	const struct whole_row *row = TABLE_ROW(struct whole_row, state);

	begin(row->publishes, true);
	post_tagged(LARGE - 1, row->other ? 8 : 9);
	is(receiver, row->receiver);
	send_by(SHORT, 1, row->flags);
	assert_int_equal(last_op(), row->whole ? BL_OP_TAGGED : BL_OP_TAGGED_RTS);
	assert_int_equal(is_there(SHORT), !row->whole);
	assert_int_equal(sender->rndv.requests, row->whole && row->flags);
	if (row->other)
		post_tagged(LARGE - 1, 9);
	arrives(SHORT);
	node_close(&node);
}

/* One that was there a moment ago isn't asked again at once. */
static void seen_lately(void **state)
{
	(void)state;
	begin(MOST, true);
	post(SHORT);
	is(receiver, HERE);
	send_by(SHORT, 1, DELIVER);
	assert_ptr_equal(sender->ways.seen.peer, peer());
	assert_int_equal(last_op(), BL_OP_TAGGED);
	arrives(SHORT);
	for (int again = 0; again < 2; again++) {
		memset(to, 0xee, sizeof to);
		post(SHORT);
		is(receiver, AWAY);
		sender->ways.seen.until = bl_ticks() + (again ? 0 : 1000000 * bl_ticks_per_us());
		send_by(SHORT, 1, DELIVER);
		assert_int_equal(last_op(), again ? BL_OP_TAGGED_RTS : BL_OP_TAGGED);
		assert_int_equal(is_there(SHORT), again);
		arrives(SHORT);
	}
	node_close(&node);
}

/* --- what a call that posts takes ---------------------------------------------------------- */

struct found_row {
	struct row row;
	bool first;	  /* a receive was there before, so that it can be claimed */
	bool unpublished; /* the one that is posted then can't be shown */
	bool whole;
	enum place sender;
	bool found;
};

static const struct found_row founds[] = {
	{{"announced, can't be claimed", "nobody else copies it"}, .sender = HERE, .found = true},
	{{"announced, sender here", "it claims it, where it waits"}, true, .sender = HERE},
	{{"announced, sender away", "it may not be back for long"}, true, .found = true},
	{{"announced, not shown this one", "it can't claim it"},
	 true,
	 .sender = HERE,
	 .unpublished = true,
	 .found = true},
	{{"whole", "its sender waits for nothing"}, .whole = true},
};

static void finds(void **state)
{
	const struct found_row *row = TABLE_ROW(struct found_row, state);
	static uint8_t other[LARGE];

	begin(2, row->whole);
	if (row->first)
		post(LARGE - 1);
	is(receiver, HERE);
	send_by(SHORT, 1, 0);
	is(sender, row->sender);
	is(receiver, AWAY);
	if (row->unpublished) /* one before it isn't */
		assert_int_equal(bl_recv_buf(receiver, other, 8, 1, 5, 0, other, NODE_FLAGS), 0);
	if (row->first)
		assert_int_equal(
			bl_recv_buf(receiver, other, LARGE - 1, 1, 5, 0, other, NODE_FLAGS), 0);
	else
		post(LARGE - 1);
	assert_int_equal(is_there(SHORT), row->found);
	arrives(SHORT);
	node_close(&node);
}

int main(void)
{
	set_limits();
	unsetenv("FI_BEELINE_LONG_RING");
	TABLE_ROWS("shown", shown, showns);
	TABLE_TEST(shown_in_turn);
	TABLE_TEST(shown_in_vain);
	TABLE_ROWS("missed", missed_posted, misses);
	TABLE_ROWS("missed, early", missed_early, misses);
	TABLE_ROWS("claim", claim, claims);
	TABLE_TEST(claimed_later);
	TABLE_ROWS("open", is_open, opens);
	TABLE_ROWS("whole", goes_whole, wholes);
	TABLE_TEST(seen_lately);
	TABLE_ROWS("post", finds, founds);
	return table_run("publish");
}
