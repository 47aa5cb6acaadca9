/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ahead_test.c: bytes that follow the description of their message at once
 * (core/stream.c): which messages, how many of them, what becomes of them where the
 * receive is posted later or takes less, and what a liar gets. Two endpoints of one
 * process that copy by process_vm_readv, as two processes would.
 */
#include <pthread.h>
#include <string.h>

#include "core/recv.h"
#include "core/stat.h"
#include "core/stream.h"
#include "unit/node.h"

#define EAGER	4096u
#define CARRIED 48000u
#define PIECES	32768u /* as many as an empty ring has room for, in bytes */
#define LONGEST 50000u

static struct node node;
static uint8_t from[LONGEST], to[LONGEST + 64];
static struct bl_ep *sender, *receiver;

static void open_pair(void)
{
	node_open(&node, 2);
	receiver = node.ep[0];
	sender = node.ep[1];
	for (size_t a = 0; a < 2; a++)
		for (size_t b = 0; b < 2; b++)
			node.ep[a]->dest[b]->copy.pull = BL_COPY_VM;
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13);
	memset(to, 0xee, sizeof to);
}

/* However slow this machine is. */
static void say_here(void)
{
	bl_say_active(receiver, bl_ticks() + 1000000 * bl_ticks_per_us());
}

static void post(size_t len)
{
	assert_int_equal(bl_recv_buf(receiver, to, len, 1, 9, 0, to, NODE_FLAGS), 0);
}

static void send_by(size_t len, size_t niov, uint64_t flags)
{
	struct iovec iov[BL_IOV_MAX];
	struct bl_send send = {iov, niov, 0, 9, 7, from, NODE_FLAGS | flags, NULL};

	for (size_t i = 0; i < niov; i++) {
		size_t off = len * i / niov;

		iov[i] = (struct iovec){from + off, len * (i + 1) / niov - off};
	}
	assert_int_equal(bl_send(sender, &send), 0);
}

/* The only request that is under way. */
static const struct bl_request *request(void)
{
	for (uint32_t i = 0; i < sender->nrequest; i++)
		if (sender->request[i]->peer)
			return sender->request[i];
	fail_msg("nothing is being sent");
	return NULL;
}

static void check(size_t len)
{
	assert_memory_equal(to, from, len);
	for (size_t i = len; i < len + 64; i++)
		if (to[i] != 0xee)
			fail_msg("%zu bytes: byte %zu behind them was written", len, i - len);
}

static uint64_t received(unsigned int way)
{
	return atomic_load(
		&receiver->local.stats->counter[BL_STAT_received_one_copy + 2 * way].value);
}

static uint64_t pulled(void)
{
	return atomic_load(&receiver->local.stats->counter[BL_STAT_pulled_bytes].value);
}

static uint64_t sent(unsigned int way)
{
	return atomic_load(&sender->local.stats->counter[BL_STAT_sent_one_copy + 2 * way].value);
}

/* --- which, and how many ---------------------------------------------------- */

struct ahead_row {
	struct row row;
	size_t len, niov;
	bool delivers, here;
	size_t want; /* bytes that go ahead */
};

static const struct ahead_row aheads[] = {
	{{"nothing", "has no bytes"}, 0, 1, true, true, 0},
	{{"one byte", "to be told of its delivery"}, 1, 1, true, false, 1},
	{{"a slot", "is full"}, BL_SLOT_INLINE, 1, true, false, BL_SLOT_INLINE},
	{{"more than a slot", "goes through the payload ring"}, 297, 1, true, false, 297},
	{{"eager limit", "the receiver needn't be here"}, EAGER, 1, true, false, EAGER},
	{{"eager limit in pieces", "8 of them"}, EAGER, 8, true, false, EAGER},
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
	streamed = received(BL_WAY_STREAMED);
	told = sent(BL_WAY_STREAMED);
	post(LONGEST);
	if (row->here)
		say_here();
	send_by(row->len, row->niov, row->delivers ? BL_DELIVERY_COMPLETE : 0);
	assert_int_equal(request()->ahead, row->want);
	if (!row->here) /* nor is the sender, whom the receiver would ask */
		bl_say_active(sender, bl_ticks() - 1000000 * bl_ticks_per_us());
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	check(row->len);
	assert_int_equal(received(BL_WAY_STREAMED), streamed + (row->want != 0));
	assert_int_equal(sent(BL_WAY_STREAMED), told + (row->want != 0));
	assert_int_equal(sender->requests + receiver->ntransfer, 0);
	node_close(&node);
}

/* The last packet isn't in the ring yet: all but it arrives. */
static _Atomic uint32_t *hide_last(uint32_t *seq)
{
	const struct bl_tx *tx = &sender->dest[0]->tx;
	_Atomic uint32_t *last = &tx->slot[(tx->next - 1) % BL_SLOTS].seq;

	*seq = tx->next;
	assert_int_equal(atomic_load(last), *seq);
	atomic_store(last, 0);
	bl_say_active(sender, bl_ticks() + 1000000 * bl_ticks_per_us()); /* it is waited for */
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
	streamed = received(BL_WAY_STREAMED);
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
		assert_int_equal(received(BL_WAY_STREAMED),
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

/* --- what is kept until its receive is posted --------------------------------- */

/* How much an endpoint keeps of what nobody receives. */
struct keep_row {
	struct row row;
	size_t before, len;
	bool kept;
};

#define HEAD sizeof(struct bl_kept)

static const struct keep_row keeps[] = {
	{{"the last bytes", "that there is memory for"}, BL_KEPT_MOST - 20000 - HEAD, 20000, true},
	{{"one byte too many", "dropped"}, BL_KEPT_MOST - 19999 - HEAD, 20000, false},
	{{"full", "a byte, dropped"}, BL_KEPT_MOST, 1, false},
	{{"a byte left", "for a byte"}, BL_KEPT_MOST - 1 - HEAD, 1, true},
	{{"nothing else", "a byte"}, 0, 1, true},
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
	last = &sender->dest[0]->tx.slot[(sender->dest[0]->tx.next - 1) % BL_SLOTS].seq;
	seq = atomic_exchange(last, 0);
	bl_ep_progress(receiver);
	assert_non_null(receiver->keeping);
	bl_say_active(sender, bl_ticks() + (row->fate == LATE ? -1 : 1) * 1000000 *
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
	for (int i = 0; i < 2; i++) {
		struct bl_tx *tx = i ? &receiver->dest[0]->tx : &sender->dest[0]->tx;

		last[i] = &tx->slot[(tx->next - 1) % BL_SLOTS].seq;
		seq[i] = atomic_exchange(last[i], 0);
	}
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
		bl_say_active(ep, bl_ticks());
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
	last = &sender->dest[0]->tx.slot[(sender->dest[0]->tx.next - 1) % BL_SLOTS].seq;
	seq = atomic_exchange(last, 0);
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
	struct bl_sink none = {.cq = &bl_no_queue, .max = SIZE_MAX};
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
		bl_large_finish(receiver, &none);
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
	struct bl_sink none = {.cq = &bl_no_queue, .max = SIZE_MAX};
	const struct bl_kept *kept;
	uint64_t number;

	open_pair();
	say_here();
	send_by(8192, 1, BL_DELIVERY_COMPLETE);
	number = bl_request_number(request());
	atomic_store(&sender->dest[0]->tx.slot[(sender->dest[0]->tx.next - 1) % BL_SLOTS].seq, 0);
	bl_ep_progress(receiver);
	kept = receiver->early_tagged.head->kept;
	assert_ptr_equal(kept, receiver->keeping);
	bl_on_fragment(receiver, &none, receiver->dest[1], BL_SLOT_AHEAD, number + row->number,
		       row->off, bytes, row->len);
	assert_int_equal(kept->got, row->got);
	assert_ptr_equal(receiver->keeping, row->got == 8192 ? NULL : kept);
	/* Not one of another's messages either. */
	bl_on_fragment(receiver, &none, receiver->dest[0], BL_SLOT_AHEAD, number, row->got, bytes,
		       1);
	assert_int_equal(kept->got, row->got);
	node_close(&node);
}

/* More ranks than cores: that a receiver wasn't seen in the library says nothing. */
static void shares_cores(void **state)
{
	(void)state;
	open_pair();
	post(LONGEST);
	bl_say_active(receiver, bl_ticks() - 1000000 * bl_ticks_per_us());
	sender->tx_cq->crowd.until = bl_ticks() + 1000000 * bl_ticks_per_us();
	send_by(20000, 1, 0);
	assert_int_equal(request()->ahead, 20000);
	assert_int_equal(node_completion(&node, 0, NULL).len, 20000);
	node_completion(&node, 1, NULL);
	check(20000);
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
	bl_on_cts(sender, sender->dest[0], bl_request_number(request()), 0, &cts,
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
	assert_int_equal(sent(BL_WAY_STREAMED), 0);
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
	last = hide_last(&seq);
	bl_say_active(sender, bl_ticks() - 1000000 * bl_ticks_per_us());
	if (row->leaves) {
		struct bl_sink none = {.cq = &bl_no_queue, .max = SIZE_MAX};

		receiver->leaves = 4;
		bl_large_finish(receiver, &none);
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
	{{"delivered", "short"}, 1000, BL_DELIVERY_COMPLETE, 1000},
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
	{{"two slots, short", "all of it"}, BL_SLOTS - 2, 8, 8, true, 8},
	{{"one slot, short", "none"}, BL_SLOTS - 1, 8, 8, true, 0},
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
	send_by(row->len, 1, row->delivers ? BL_DELIVERY_COMPLETE : 0);
	assert_int_equal(request()->ahead, row->want);
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	check(row->len);
	for (struct bl_unex *u = receiver->early_tagged.head, *next; u; u = next) {
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
	struct bl_sink none = {.cq = &bl_no_queue, .max = SIZE_MAX};
	struct bl_peer *peer;
	_Atomic uint32_t *last;
	uint64_t number;
	uint32_t seq;

	open_pair();
	peer = receiver->dest[1];
	post(LONGEST);
	say_here();
	send_by(8192, 1, 0);
	number = bl_request_number(request());
	last = hide_last(&seq);
	bl_on_fragment(receiver, &none, peer, BL_SLOT_AHEAD, number + row->number, row->off,
		       garbage, row->len);
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
	{{"of a long one", "which may be claimed"}, BL_CLAIM_MIN, 1, 0},
	{{"of a lent one", "which has a key"}, 100, 100, BL_SLOT_LENT},
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
			      (row->flags & BL_SLOT_LENT ? 2 : 1) * sizeof rts.piece[0]);
	bl_ep_progress(receiver);
	assert_true(peer->broken || peer->dead); /* a look may have been due */
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

/* Asked for more than there is behind what went ahead. */
static void asks_for_more(void **state)
{
	struct bl_cts cts = {.chunk = 8192, .coop = BL_CTS_CARRY | BL_CTS_AHEAD};
	const struct bl_request *r;

	open_pair();
	post(LONGEST);
	say_here();
	send_by(CARRIED, 1, 0);
	r = request();
	assert_int_equal(r->ahead, PIECES);
	for (cts.len = CARRIED - PIECES + 1; cts.len <= CARRIED + 1; cts.len += PIECES) {
		bl_on_cts(sender, sender->dest[0], bl_request_number(r), 0, &cts,
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
	char eager[16], carried[16];

	snprintf(eager, sizeof eager, "%u", EAGER);
	snprintf(carried, sizeof carried, "%u", CARRIED);
	setenv("FI_BEELINE_EAGER_MAX", eager, 1);
	setenv("FI_BEELINE_CARRY_MAX", carried, 1);
	setenv("FI_BEELINE_BOTH_HANDS_MIN", "1M", 1);
	setenv("FI_BEELINE_SPIN", "0", 1); /* both ends belong to one thread */
	TABLE_ROWS("ahead", goes_ahead, aheads);
	TABLE_ROWS("takes", takes_less, lesses);
	TABLE_ROWS("keeps", keeps_so_much, keeps);
	TABLE_ROWS("part", has_a_part, parts);
	TABLE_ROWS("end", ends_well, ends);
	TABLE_ROWS("used again", is_used_again, reuses);
	TABLE_ROWS("stray", goes_astray, strays);
	TABLE_TEST(shares_cores);
	TABLE_TEST(early_ones_pause);
	TABLE_TEST(asked_for_again);
	TABLE_TEST(not_wanted);
	TABLE_ROWS("held up", held_up, helds);
	TABLE_ROWS("one buffer", shares_a_buffer, multis);
	TABLE_ROWS("room", has_little_room, rooms);
	TABLE_ROWS("lie", lied_to, lies);
	TABLE_ROWS("promise", promised, promises);
	TABLE_TEST(promised_twice);
	TABLE_TEST(asks_for_more);
	return table_run("ahead");
}
