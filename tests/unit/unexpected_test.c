/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * early_test.c: bytes that followed the description of their message at once, and come
 * before its receive (core/unexpected.c): how much of them is kept, how such a message ends when
 * all, some or none are there, and what a sender hears whose bytes were dropped.
 */
#include <pthread.h>

#include "unit/ahead.h"

/* --- what is kept until its receive is posted --------------------------------- */

/* How much an endpoint keeps of what nobody receives. */
struct keep_row {
	struct row row;
	size_t before, len;
	bool kept;
};

#define HEAD	 sizeof(struct bl_kept)
#define SHORTEST ((size_t)EAGER + 1)

static const struct keep_row keeps[] = {
	{{"the last bytes", "that there is memory for"}, BL_KEPT_MOST - 20000 - HEAD, 20000, true},
	{{"one byte too many", "dropped"}, BL_KEPT_MOST - 19999 - HEAD, 20000, false},
	{{"full", "the shortest, dropped"}, BL_KEPT_MOST, SHORTEST, false},
	{{"little left", "for the shortest"}, BL_KEPT_MOST - SHORTEST - HEAD, SHORTEST, true},
	{{"nothing else", "the shortest"}, 0, SHORTEST, true},
};

static uint64_t early_bytes(void)
{
	return atomic_load(&receiver->local.stats->counter[BL_STAT_unexpected_bytes].value);
}

static void keeps_so_much(void **state)
{
	const struct keep_row *row = TABLE_ROW(struct keep_row, state);

	open_pair();
	receiver->kept_bytes = row->before;
	say_here();
	send_by(row->len, 1, BL_DELIVERY_COMPLETE);
	assert_int_equal(request()->ahead, row->len);
	node_settle(&node, 0);
	assert_int_equal(receiver->kept_bytes, row->before + (row->kept ? HEAD + row->len : 0));
	assert_int_equal(early_bytes(), row->kept ? row->len : 0);
	assert_null(receiver->keeping);
	post(LONGEST);
	assert_int_equal(receiver->kept_bytes, row->before);
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	node_completion(&node, 1, NULL);
	assert_int_equal(sender->dest[0]->ahead_vain, !row->kept);
	check(row->len);
	node_close(&node);
}

/* Its last packet isn't in the ring yet, when what is in it is received, or isn't wanted. */
enum fate {
	COMES,	/* the packet, when the receive is posted */
	LATE,	/* when its receiver has copied those bytes itself */
	DROPS,	/* when the message has been discarded */
	CLOSES, /* never: the receiver closes */
};

struct part_row {
	struct row row;
	size_t len;
	enum fate fate;
};

static const struct part_row parts[] = {
	{{"two of three", "then the last"}, 20000, COMES},
	{{"none of one", "then it"}, 8000, COMES},
	{{"three of four", "then the last, and the rest"}, CARRIED, COMES},
	{{"two of three", "the last comes too late"}, 20000, LATE},
	{{"none of one", "it comes too late"}, 8000, LATE},
	{{"three of four", "the last comes too late, the rest not"}, CARRIED, LATE},
	{{"two of three", "discarded"}, 20000, DROPS},
	{{"none of one", "discarded"}, 8000, DROPS},
	{{"two of three", "nobody wants it"}, 20000, CLOSES},
	{{"none of one", "nobody wants it"}, 8000, CLOSES},
};

static void has_a_part(void **state)
{
	const struct part_row *row = TABLE_ROW(struct part_row, state);
	struct bl_recv discard = {.src = 1, .tag = 9, .flags = NODE_FLAGS | BL_PEEK | BL_DISCARD};
	_Atomic uint32_t *last;
	uint64_t copied = 0;
	uint32_t seq;

	open_pair();
	receiver->leaves = 0;
	say_here();
	send_by(row->len, 1, row->len < EAGER * 2 ? BL_DELIVERY_COMPLETE : 0);
	assert_true(request()->ahead);
	last = hide_last(&sender->dest[0]->tx, &seq);
	bl_ep_progress(receiver);
	assert_non_null(receiver->keeping);
	bl_presence_active(sender, bl_ticks() + (row->fate == LATE ? -1 : 1) * 1000000 *
							(int64_t)bl_ticks_per_us());
	if (row->fate == DROPS) {
		assert_int_equal(bl_recv(receiver, &discard), 0);
		assert_null(receiver->keeping);
		assert_int_equal(receiver->kept_bytes, 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	} else if (row->fate != CLOSES) {
		post(LONGEST);
		assert_null(receiver->keeping);
		assert_int_equal(receiver->kept_bytes, 0);
	}
	if (row->fate == COMES) {
		assert_int_equal(receiver->ntransfer, 1); /* it waits for the packet */
		copied = pulled();
	}
	if (row->fate == LATE) {
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
		check(row->len);
		memset(to, 0xee, sizeof to);
	}
	if (row->fate != CLOSES) {
		atomic_store(last, seq);
		node_completion(&node, 1, NULL);
	}
	if (row->fate == COMES) {
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
		assert_int_equal(pulled(), copied);
		check(row->len);
	} else {
		if (row->fate != CLOSES)
			node_settle(&node, 0);
		for (size_t i = 0; i < sizeof to; i++)
			assert_int_equal(to[i], 0xee);
	}
	node_close(&node); /* nothing is leaked: AddressSanitizer */
}

/* How a message ends of which all that came along is kept. */
enum end { CLAIMED, CLAIM_DROPPED, MULTI, FROM_TWO };

struct end_row {
	struct row row;
	enum end end;
};

static const struct end_row ends[] = {
	{{"claimed", "and received"}, CLAIMED},
	{{"claimed", "and discarded"}, CLAIM_DROPPED},
	{{"into one buffer", "with the next one"}, MULTI},
	{{"of two senders", "both half there"}, FROM_TWO},
};

static void peek_and_claim(uint64_t more)
{
	struct iovec room = {to, LONGEST};
	struct bl_recv recv = {.src = 1, .tag = 9, .context = to};

	recv.flags = NODE_FLAGS | BL_PEEK | BL_CLAIM;
	assert_int_equal(bl_recv(receiver, &recv), 0);
	assert_int_equal(node_completion(&node, 0, NULL).len, 20000);
	assert_true(receiver->kept_bytes);
	recv.flags = NODE_FLAGS | BL_CLAIM | more;
	if (!more) {
		recv.iov = &room;
		recv.niov = 1;
	}
	assert_int_equal(bl_recv(receiver, &recv), 0);
	assert_int_equal(node_completion(&node, 0, NULL).len, 20000);
	node_completion(&node, 1, NULL);
}

/* Both go on to the same receiver, which is one of them: it has lanes of two. */
static void from_two(void)
{
	struct iovec iov = {from, 20000};
	struct bl_send send = {&iov, 1, 0, 10, 7, from, NODE_FLAGS, NULL};
	_Atomic uint32_t *last[2];
	uint32_t seq[2];

	assert_int_equal(bl_send(receiver, &send), 0); /* to itself */
	last[0] = hide_last(&sender->dest[0]->tx, &seq[0]);
	last[1] = hide_last(&receiver->dest[0]->tx, &seq[1]);
	bl_ep_progress(receiver);
	assert_non_null(receiver->keeping);
	assert_non_null(receiver->keeping->next);
	/* The one that isn't at the list's head first. */
	int first = receiver->keeping->peer == receiver->dest[1];
	const struct bl_kept *head = receiver->keeping;

	atomic_store(last[first], seq[first]);
	bl_ep_progress(receiver);
	assert_ptr_equal(receiver->keeping, head);
	assert_null(head->next);
	atomic_store(last[!first], seq[!first]);
	bl_ep_progress(receiver);
	assert_null(receiver->keeping);
	assert_int_equal(bl_recv_buf(receiver, to, 20000, 0, 10, 0, to, NODE_FLAGS), 0);
	check(20000);
	memset(to, 0xee, sizeof to);
	post(LONGEST);
	check(20000);
}

static void ends_well(void **state)
{
	const struct end_row *row = TABLE_ROW(struct end_row, state);
	struct iovec room = {to, LONGEST}, iov = {from, 20000};
	struct bl_recv multi = {&room, 1, 1, 0, 0, to, BL_MSG | BL_COMPLETION | BL_MULTI_RECV,
				NULL};
	struct bl_send send = {&iov, 1, 0, 0, 0, from, BL_MSG | BL_COMPLETION, NULL};

	open_pair();
	say_here();
	if (row->end == MULTI)
		assert_int_equal(bl_send(sender, &send), 0);
	else
		send_by(20000, 1, 0);
	assert_int_equal(request()->ahead, 20000);
	if (row->end == MULTI)
		node_send(&node, 1, 0, from, 8, 0, NULL, BL_MSG);
	if (row->end != FROM_TWO)
		node_settle(&node, 0);
	switch (row->end) {
	case CLAIMED:
		peek_and_claim(0);
		check(20000);
		break;
	case CLAIM_DROPPED:
		peek_and_claim(BL_DISCARD);
		break;
	case MULTI:
		assert_int_equal(bl_recv(receiver, &multi), 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, 20000);
		assert_int_equal(node_completion(&node, 0, NULL).len, 8);
		assert_memory_equal(to, from, 20000);
		break;
	case FROM_TWO:
		from_two();
		break;
	}
	assert_int_equal(receiver->kept_bytes, 0);
	assert_int_equal(early_bytes(), 0);
	node_close(&node);
}

/*
 * The last packet of what went ahead lies unread in the ring, the rest is behind it, and the
 * send is over. So the sender's buffer holds something else when the receiver is about to leave.
 */
struct reuse_row {
	struct row row;
	bool early, by_receive;
};

static const struct reuse_row reuses[] = {
	{{"kept", "leaves"}, true, false},
	{{"kept", "posts another receive, and leaves"}, true, true},
	{{"in time", "leaves"}, false, false},
	{{"in time", "posts another receive, and leaves"}, false, true},
};

/* The sender says that it is here, again and again: 2 us are short where a sanitizer runs. */
static _Atomic(struct bl_ep *) here;
static atomic_bool over;

static void *say_so(void *arg)
{
	while (!atomic_load(&over)) {
		struct bl_ep *ep = atomic_exchange(&here, NULL);

		if (!ep)
			continue;
		bl_presence_active(ep, bl_ticks());
		atomic_store(&here, ep);
	}
	return arg;
}

static void stop_saying_so(void)
{
	while (!atomic_exchange(&here, NULL)) /* not while it is at it */
		;
}

/* False: the sender wasn't seen all the same, and isn't asked for the rest. */
static bool carry_the_rest(bool early)
{
	_Atomic uint32_t *last;
	uint32_t seq;

	open_pair();
	receiver->leaves = 0;
	node_send(&node, 1, 0, from, 8, 3, NULL, BL_TAGGED);
	bl_ep_progress(receiver);
	if (!early)
		post(LONGEST);
	say_here();
	send_by(CARRIED, 1, 0);
	assert_int_equal(request()->ahead, PIECES);
	last = hide_last(&sender->dest[0]->tx, &seq);
	if (early)
		bl_ep_progress(receiver);
	atomic_store(&here, sender);
	if (early)
		post(LONGEST);
	else
		bl_ep_progress(receiver);
	stop_saying_so();
	atomic_store(last, seq);
	if (receiver->ntransfer != 1 || !receiver->transfer[0]->coop) {
		node_close(&node);
		return false;
	}
	for (int i = 0; i < 100 && sender->requests; i++)
		bl_ep_progress(sender);
	assert_int_equal(sender->requests, 0);
	return true;
}

static void is_used_again(void **state)
{
	const struct reuse_row *row = TABLE_ROW(struct reuse_row, state);
	struct bl_sink none = BL_SINK_NONE;
	static uint8_t sent_bytes[LONGEST], little[8];
	int tries = 10000;
	pthread_t thread;

	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, say_so, NULL), 0);
	while (!carry_the_rest(row->early))
		assert_true(tries--);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	memcpy(sent_bytes, from, sizeof from);
	memset(from, 0, sizeof from);
	receiver->leaves = 4;
	if (row->by_receive)
		assert_int_equal(bl_recv_buf(receiver, little, 8, 1, 3, 0, little, NODE_FLAGS), 0);
	else
		bl_rndv_finish(receiver, &none);
	while (node_completion(&node, 0, NULL).len != CARRIED)
		;
	memcpy(from, sent_bytes, sizeof from);
	check(CARRIED);
	node_close(&node);
}

/* Packets that say they belong to what is kept. */
struct stray_row {
	struct row row;
	uint64_t off;
	uint32_t len;
	uint64_t number; /* added to the right one */
	uint32_t got;	 /* bytes that are believed */
};

static const struct stray_row strays[] = {
	{{"the right one", "believed"}, 0, 64, 0, 64},
	{{"all of it", "believed"}, 0, 8192, 0, 8192},
	{{"a byte too long", "not at all"}, 0, 8193, 0, 0},
	{{"not the next", "with a gap before it"}, 1, 64, 0, 0},
	{{"at the end", "with a gap before it"}, 8128, 64, 0, 0},
	{{"far behind", "the offset's end"}, UINT64_MAX, 1, 0, 0},
	{{"empty", "brings nothing"}, 0, 0, 0, 0},
	{{"another request", "which isn't there"}, 0, 64, 1, 0},
	{{"another generation", "which isn't there"}, 0, 64, 1ull << 32, 0},
};

static void goes_astray(void **state)
{
	const struct stray_row *row = TABLE_ROW(struct stray_row, state);
	static const uint8_t bytes[8193];
	struct bl_sink none = BL_SINK_NONE;
	const struct bl_kept *kept;
	uint64_t number;
	uint32_t seq;

	open_pair();
	say_here();
	send_by(8192, 1, BL_DELIVERY_COMPLETE);
	number = bl_send_op_number(request());
	hide_last(&sender->dest[0]->tx, &seq);
	bl_ep_progress(receiver);
	kept = receiver->unexpected_tagged.head->kept;
	assert_ptr_equal(kept, receiver->keeping);
	bl_on_frag(receiver, &none, receiver->dest[1], BL_SLOT_AHEAD, number + row->number,
		   row->off, bytes, row->len);
	assert_int_equal(kept->got, row->got);
	assert_ptr_equal(receiver->keeping, row->got == 8192 ? NULL : kept);
	/* Not one of another's messages either. */
	bl_on_frag(receiver, &none, receiver->dest[0], BL_SLOT_AHEAD, number, row->got, bytes, 1);
	assert_int_equal(kept->got, row->got);
	node_close(&node);
}

/* What came too early, and was dropped, was in vain: the next ones don't go ahead, longer each
 * time. */
static void early_ones_pause(void **state)
{
	open_pair();
	receiver->kept_bytes = BL_KEPT_MOST;
	for (unsigned int vain = 1; vain <= 3; vain++) {
		uint64_t once = sent(BL_WAY_ONE_COPY);

		say_here();
		send_by(20000, 1, 0);
		assert_true(request()->ahead);
		node_settle(&node, 0);
		post(LONGEST);
		node_completion(&node, 0, NULL);
		node_completion(&node, 1, NULL);
		assert_int_equal(sent(BL_WAY_ONE_COPY), once + 1);
		for (unsigned int i = 0; i < 1u << vain; i++) {
			post(LONGEST);
			say_here();
			send_by(20000, 1, 0);
			assert_int_equal(request()->ahead, 0);
			node_completion(&node, 0, NULL);
			node_completion(&node, 1, NULL);
		}
	}
	post(LONGEST);
	say_here();
	send_by(20000, 1, 0);
	assert_int_equal(request()->ahead, 20000);
	node_completion(&node, 0, NULL);
	node_completion(&node, 1, NULL);
	assert_int_equal(sender->dest[0]->ahead_vain, 0);
	node_close(&node);
}

/* A receiver that has posted late, and waits then, asks for all of it: that says as well that
 * what went ahead was in vain, to a sender that is done before the FIN comes. */
static void asked_for_again(void **state)
{
	struct bl_cts cts = {
		.len = 20000,
		.chunk = 8192,
		.coop = BL_CTS_CARRY,
		.generation = 77, /* of no copy: there is nothing to carry */
	};

	open_pair();
	say_here();
	send_by(20000, 1, 0);
	assert_int_equal(request()->ahead, 20000);
	bl_on_cts(sender, sender->dest[0], bl_send_op_number(request()), 0, &cts,
		  offsetof(struct bl_cts, piece));
	assert_int_equal(sender->dest[0]->ahead_vain, 1);
	assert_int_equal(sender->dest[0]->ahead_pause, 2);
	node_settle(&node, 0);
	post(LONGEST);
	node_completion(&node, 0, NULL);
	node_completion(&node, 1, NULL);
	assert_int_equal(sender->dest[0]->ahead_vain, 1); /* FIN doesn't count it once more */
	check(20000);
	node_close(&node);
}

static void not_wanted(void **state)
{
	struct bl_recv recv = {
		.src = 1,
		.tag = 9,
		.flags = NODE_FLAGS | BL_PEEK | BL_DISCARD,
	};

	open_pair();
	say_here();
	send_by(20000, 1, 0);
	node_settle(&node, 0);
	assert_int_equal(bl_recv(receiver, &recv), 0);
	assert_int_equal(node_completion(&node, 0, NULL).len, 20000);
	node_completion(&node, 1, NULL);
	assert_int_equal(sender->dest[0]->ahead_vain, 1);
	assert_int_equal(sent(BL_WAY_FRAG), 0);
	node_close(&node);
}

/* Nobody begins with another message before all that was to follow the last has: what such a
 * liar promises isn't waited for, however often it does. */
static void promised_twice(void **state)
{
	struct bl_rts rts = {.len = 100, .request = 1, .ahead = 1, .piece = {{1, 100}}};

	(void)state;
	open_pair();
	for (int i = 0; i < 3; i++, rts.request++)
		bl_put_packet(sender->dest[0], BL_OP_TAGGED_RTS, 0, 9, 0, &rts,
			      offsetof(struct bl_rts, piece) + sizeof rts.piece[0]);
	bl_ep_progress(receiver);
	assert_int_equal(receiver->kept_bytes, HEAD + 1);
	assert_null(receiver->keeping->next);
	node_close(&node);
}

int main(void)
{
	set_limits();
	TABLE_ROWS("keeps", keeps_so_much, keeps);
	TABLE_ROWS("part", has_a_part, parts);
	TABLE_ROWS("end", ends_well, ends);
	TABLE_ROWS("used again", is_used_again, reuses);
	TABLE_ROWS("stray", goes_astray, strays);
	TABLE_TEST(promised_twice);
	TABLE_TEST(early_ones_pause);
	TABLE_TEST(asked_for_again);
	TABLE_TEST(not_wanted);
	return table_run("early");
}
