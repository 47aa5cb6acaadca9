/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ack_test.c: a receiver ends more large messages than its ring has room to say, and leaves;
 * their sender, who hasn't looked meanwhile, hears of all when it does. Endpoints of one
 * process; "leaves": nobody makes progress on it.
 */
#include <string.h>

#include "transport/local/ways/frag.h"
#include "unit/node.h"

#define LEN  20000u
#define BITS (64u * BL_ACK_WORDS)

static struct node node;
static struct bl_ep *sender, *receiver;
static uint8_t from[LEN], to[LEN];

static void open_nodes(size_t count)
{
	node_open(&node, count);
	receiver = node.ep[0];
	sender = node.ep[1];
	memset(from, 0x5a, sizeof from);
}

static int send_one(size_t by, uint64_t number, uint64_t flags)
{
	struct iovec iov = {from, LEN};
	struct bl_send send = {&iov, 1, 0, number, 0, (void *)number, NODE_FLAGS | flags, NULL};

	return bl_send(node.ep[by], &send);
}

static size_t read_all(size_t at, size_t n, uint64_t *seen)
{
	struct bl_comp comp[16];
	ssize_t got;

	while ((got = bl_cq_read(node.cq[at], comp, 16, sizeof *comp, NULL)) > 0) {
		n += (size_t)got;
		for (ssize_t i = 0; i < got; i++)
			if (seen)
				*seen += (uint64_t)comp[i].context;
	}
	assert_int_equal(got, -EAGAIN);
	return n;
}

/* All that the sender hears of, the receiver being away, and without the look each 10 ms. */
static size_t heard(size_t at, size_t expected, uint64_t *seen)
{
	uint64_t until = bl_clock_ns() + 10000000000ull;
	size_t n = 0;

	while (n < expected && bl_clock_ns() < until) {
		node.ep[at]->watch.next_look = bl_ticks() + BL_TICKS_AHEAD;
		n = read_all(at, n, seen);
	}
	node.ep[at]->watch.next_look = bl_ticks();
	return n;
}

/* The sender sends, and the receiver copies, without the sender's ever looking at its ring. */
static void exchange(uint64_t first, size_t count, uint64_t flags)
{
	size_t received = 0;

	for (size_t i = 0; i < count; i++)
		assert_int_equal(bl_recv_buf(receiver, to, LEN, 1, first + i, 0, NULL, NODE_FLAGS),
				 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(send_one(1, first + i, flags), 0);
		while (sender->txq.nactive) {
			received = read_all(0, received, NULL);
			bl_txq_progress(sender);
		}
	}
	assert_int_equal(received + heard(0, count - received, NULL), count);
	assert_memory_equal(to, from, LEN);
}

static uint64_t sum(uint64_t first, size_t count)
{
	return first * count + count * (count - 1) / 2;
}

/* --- how many ---------------------------------------------------------------- */

/* The ring to the sender has so many slots left: one packet made the connection. */
#define ROOM (BL_SLOTS - 1)

struct count_row {
	struct row row;
	size_t count;	     /* of messages */
	size_t few, at_most; /* bounds for those whose end the receiver must come back to tell */
	bool bits;	     /* are needed */
};

static const struct count_row counts[] = {
	{{"a ring full", "none needs a bit"}, ROOM, 0, 0, false},
	{{"one more", "the first bit"}, ROOM + 1, 0, 0, true},
	{{"two words", "bits of both"}, 128, 0, 0, true},
	{{"hundreds", "several words"}, 400, 0, 0, true},
	{{"all bits", "the last index that has one"}, BITS, 0, 0, true},
	/* those that the ring has told of may be among them */
	{{"more than bits", "the rest is told later"}, BITS + 100, 100 - BL_SLOTS, 100, true},
};

static void so_many(void **state)
{
	const struct count_row *row = TABLE_ROW(struct count_row, state);

	open_nodes(2);
	for (uint64_t round = 1; round <= 3; round++) { /* indices are used again */
		uint64_t first = round * 10000, seen = 0;
		struct bl_peer *back = node.peer[0][1];
		size_t kept, n;

		exchange(first, row->count, 0);
		kept = back->control.n;
		assert_in_range(kept, row->few, row->at_most);
		if (round == 1)
			assert_int_equal(atomic_load(&back->rx.lane->fins.some) != 0, row->bits);
		n = heard(1, row->count - kept, &seen);
		assert_int_equal(sender->rndv.requests, kept);
		while (sender->rndv.requests) { /* it comes back */
			assert_true(kept);
			bl_ep_progress(receiver);
			n = read_all(1, n, &seen);
		}
		assert_int_equal(n, row->count);
		assert_int_equal(seen, sum(first, row->count)); /* each once */
		assert_int_equal(back->control.n, 0);
		node_expect_nothing(&node, 1);
	}
	node_close(&node);
}

/* --- in which way the sender comes to look ------------------------------------ */

static void by_look(void)
{
	struct bl_sink none = BL_SINK_NONE;

	bl_ep_look(sender, &none, bl_ticks());
}

static bool sleeps(void)
{
	struct bl_sleep sleep;

	sender->watch.next_look = bl_ticks() + BL_TICKS_AHEAD;
	if (!bl_wait_doze(&node.cq[1]->wait, &sleep))
		return false;
	bl_wait_rise(&node.cq[1]->wait, &sleep);
	return true;
}

/* What has come before is heard of. */
static void sleep_well(void)
{
	for (int i = 0; i < 3; i++)
		if (sleeps())
			return;
	fail_msg("there is always something");
}

static void by_sleep(void)
{
	sleeps();
}

static void go_quiet(void)
{
	assert_int_equal(bl_local_stop_polling(&sender->local), 0);
}

static void go_to_sleep(void)
{
	struct bl_sink none = BL_SINK_NONE;
	int err = -EAGAIN;

	for (int i = 0; i < 3 && err; i++) {
		bl_progress(sender, &none);
		err = bl_local_doze(&sender->local, BL_SLEEP_SOCKET, NULL);
	}
	assert_int_equal(err, 0);
}

static void by_service(void)
{
	pthread_mutex_lock(&sender->local.lock);
	assert_true(bl_local_check_sleep_locked(&sender->local));
	pthread_mutex_unlock(&sender->local.lock);
	assert_true(atomic_load(&sender->local.attention));
	bl_ep_progress(sender);
}

static void by_packet(void)
{
	struct bl_sink none = BL_SINK_NONE;

	/* of no request */
	bl_on_fin(sender, &none, node.peer[1][0], 77ull << 32, 0);
}

/* Whoever waits for the doorbell hears it. */
static void by_bell(void)
{
	struct bl_sink none = BL_SINK_NONE;

	bl_peer_notify(node.peer[0][1]);
	bl_ep_doorbells(sender, &none);
}

struct sight_row {
	struct row row;
	void (*look)(void), (*before)(void);
};

static const struct sight_row sights[] = {
	{{"each 10 ms", "no packet came after the bit"}, by_look, NULL},
	{{"about to sleep", "nobody will wake it"}, by_sleep, sleep_well},
	{{"asleep, its doorbell lost", "the service thread's look"}, by_service, go_to_sleep},
	{{"behind a packet", "the usual way"}, by_packet, NULL},
	{{"at the doorbell", "it slept when the bit was set"}, by_bell, go_quiet},
};

/* Only a bit is there: the ring has been emptied before it was set. */
static void is_seen(void **state)
{
	const struct sight_row *row = TABLE_ROW(struct sight_row, state);

	open_nodes(2);
	assert_int_equal(send_one(1, 3, 0), 0);
	if (row->before)
		row->before();
	atomic_store(&node.peer[0][1]->rx.lane->fins.word[0],
		     1ull << (uint32_t)bl_send_op_number(sender->rndv.request[0]->peer
								 ? sender->rndv.request[0]
								 : sender->rndv.request[31]));
	atomic_store(&node.peer[0][1]->rx.lane->fins.some, 1);
	assert_int_equal(sender->rndv.requests, 1);
	row->look();
	assert_int_equal(sender->rndv.requests, 0);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, (void *)3);
	node_close(&node);
}

/* --- what a bit must not end --------------------------------------------------- */

/* A neighbour that sets every bit ends what it was sent, and nothing of others. */
static void liar(void **state)
{
	struct bl_acks *fins;

	(void)state;
	open_nodes(3);
	for (uint64_t i = 0; i < 5; i++) {
		struct iovec iov = {from, LEN};
		struct bl_send send = {&iov, 1, i % 2 ? 0 : 2, i, 0, NULL, NODE_FLAGS, NULL};

		assert_int_equal(bl_send(sender, &send), 0);
	}
	for (int round = 0; round < 3; round++) {
		fins = &node.peer[0][1]->rx.lane->fins;
		for (uint32_t w = 0; w < BL_ACK_WORDS; w++)
			atomic_store(&fins->word[w], UINT64_MAX);
		atomic_store(&fins->some, UINT64_MAX);
		bl_ack_look_at_all(sender);
		assert_int_equal(sender->rndv.requests, 3);
	}
	assert_int_equal(read_all(1, 0, NULL), 2);
	for (uint64_t i = 0; i < 5; i += 2)
		assert_int_equal(bl_recv_buf(node.ep[2], to, LEN, 1, i, 0, NULL, NODE_FLAGS), 0);
	assert_int_equal(heard(2, 3, NULL), 3);
	assert_int_equal(heard(1, 3, NULL), 3);
	node_close(&node);
}

/* With a full ring an error waits for room: a bit can't say which. */
static void needs_a_packet(void **state)
{
	struct bl_peer *back;

	(void)state;
	open_nodes(2);
	exchange(1, ROOM, 0); /* now the ring to the sender is full */
	back = node.peer[0][1];
	assert_false(bl_tx_refresh(&back->tx));
	bl_ack(receiver, back, 0, ENOMEM);
	assert_int_equal(atomic_load(&back->rx.lane->fins.some), 0);
	assert_int_equal(back->control.n, 1);
	bl_ack(receiver, back, 0, 0);
	assert_int_equal(atomic_load(&back->rx.lane->fins.some), 1);
	assert_int_equal(back->control.n, 1);
	assert_int_equal(heard(1, ROOM, NULL), ROOM);
	/* What waited goes when there is room and the next comes: its last call may be this. */
	bl_ack(receiver, back, 0, 0);
	assert_int_equal(back->control.n, 0);
	assert_int_equal(back->tx.next, BL_SLOTS + 2);
	assert_int_equal(atomic_load(&back->rx.lane->fins.some), 0);
	while (bl_tx_room(&back->tx) || bl_tx_refresh(&back->tx))
		bl_control(receiver, back, BL_OP_FIN, 0, 0, NULL, 0);
	for (int i = 0; i < 3; i++)
		bl_control(receiver, back, BL_OP_FIN, 0, 0, NULL, 0);
	assert_int_equal(back->control.n, 3);
	bl_ep_progress(sender);
	bl_control(receiver, back, BL_OP_FIN, 0, 0, NULL, 0);
	assert_int_equal(back->control.n, 0);
	node_close(&node);
}

/* Room comes between the receiver's look and its bit: the packet is sent as well, and what
 * both say counts once. */
static void room_came(void **state)
{
	struct bl_peer *back;
	uint64_t seen = 0;

	(void)state;
	open_nodes(2);
	exchange(1, ROOM + 1, 0);
	back = node.peer[0][1];
	assert_int_equal(atomic_load(&back->rx.lane->fins.some), 1); /* of the last one */
	assert_int_equal(heard(1, ROOM + 1, &seen), ROOM + 1);
	for (uint32_t i = 0; i < sender->rndv.nrequest; i++) { /* and now a packet for each */
		struct bl_sink none = BL_SINK_NONE;

		bl_on_fin(sender, &none, node.peer[1][0],
			  bl_send_op_number(sender->rndv.request[i]), 0);
	}
	node_expect_nothing(&node, 1);
	assert_int_equal(sender->rndv.requests, 0);
	node_close(&node);
}

/* Messages that nobody wants are over, too. */
static void discarded(void **state)
{
	enum { MANY = 3 * BL_SLOTS };
	struct bl_recv recv = {.src = 1, .flags = NODE_FLAGS | BL_PEEK | BL_DISCARD};
	uint64_t seen = 0;

	(void)state;
	open_nodes(2);
	for (uint64_t i = 0; i < MANY; i++)
		for (assert_int_equal(send_one(1, i, 0), 0); sender->txq.nactive;)
			node_progress(&node);
	node_settle(&node, 0);
	for (recv.tag = 0; recv.tag < MANY; recv.tag++)
		assert_int_equal(bl_recv(receiver, &recv), 0);
	assert_int_equal(heard(1, MANY, &seen), MANY);
	assert_int_equal(seen, sum(0, MANY));
	node_close(&node);
}

/* --- what comes before the bits ------------------------------------------------- */

/* The ring is full of messages, and no packet says that another message is over. */
static void behind_messages(void **state)
{
	struct bl_peer *back;
	size_t n = 0;
	uint64_t seen;
	uint8_t small = 7;

	(void)state;
	open_nodes(2);
	back = node.peer[0][1];
	assert_int_equal(send_one(1, 1000, 0), 0);
	assert_int_equal(bl_recv_buf(sender, to, LEN, 0, 0, ~0ull, NULL, NODE_FLAGS), 0);
	for (seen = 0; bl_tx_room(&back->tx) || bl_tx_refresh(&back->tx); n++)
		node_send(&node, 0, 1, &small, 1, n, NULL, BL_TAGGED);
	for (size_t i = 1; i < n; i++)
		assert_int_equal(bl_recv_buf(sender, to, LEN, 0, i, 0, NULL, NODE_FLAGS), 0);
	assert_int_equal(bl_recv_buf(receiver, to, LEN, 1, 1000, 0, NULL, NODE_FLAGS), 0);
	assert_int_equal(heard(0, 1, NULL), 1);
	assert_int_equal(atomic_load(&back->rx.lane->fins.some), 1);
	assert_int_equal(heard(1, n + 1, &seen), n + 1);
	assert_int_equal(seen, 1000);
	assert_int_equal(sender->rndv.requests, 0);
	node_close(&node);
}

/* To itself: what is read and what is written is one ring. */
static void to_itself(void **state)
{
	struct bl_send send = {&(struct iovec){from, LEN}, 1, 1, 0, 0, NULL, NODE_FLAGS, NULL};
	size_t n = 0;

	(void)state;
	open_nodes(2);
	while (!sender->txq.nactive) {
		assert_int_equal(bl_send(sender, &send), 0);
		assert_int_equal(bl_recv_buf(sender, to, LEN, 1, 0, 0, NULL, NODE_FLAGS), 0);
		n++;
	}
	assert_in_range(n, BL_SLOTS / 2, BL_SLOTS + 1);
	assert_int_equal(heard(1, 2 * n, NULL), 2 * n);
	assert_int_equal(sender->rndv.requests, 0);
	node_close(&node);
}

/* --- what of it is in sight ------------------------------------------------------ */

struct in_sight_row {
	struct row row;
	uint32_t next;	  /* the packet to be read */
	const char *ring; /* from there. F: a FIN; m, r, c: others; -: it hasn't come */
	uint64_t some, word[BL_ACK_WORDS];
	uint32_t sum;
};

#define EIGHT	"FFFFFFFF"
#define ALL_SET UINT64_MAX

static const struct in_sight_row in_sights[] = {
	{{"nothing", "a fresh ring"}, 0, "", 0, {0}, 0},
	{{"read", "the lap before was all of them"}, BL_SLOTS, "", 0, {0}, 0},
	{{"one", "the next"}, 70, "F", 0, {0}, 1},
	{{"three", "one behind the other"}, 70, "FFF", 0, {0}, 3},
	{{"others", "messages, their descriptions, words"}, 70, "mrc", 0, {0}, 0},
	{{"behind others", "the last"}, 70, "mrcF", 0, {0}, 1},
	{{"before others", "the first"}, 70, "Fmrc", 0, {0}, 1},
	{{"behind a gap", "packets come in order: nobody has sent it"}, 70, "F-F", 0, {0}, 1},
	{{"over the lap's end", "slots 63 and 0"}, BL_SLOTS - 1, "FF", 0, {0}, 2},
	{{"wrap", "the number is 0"}, UINT32_MAX - 1, "FFFF", 0, {0}, 4},
	{{"full ring", "one lap and no more"},
	 70,
	 EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT,
	 0,
	 {0},
	 BL_SLOTS},
	{{"a bit", "the first"}, 70, "", 1, {1}, 1},
	{{"a word of bits", "all of them"}, 70, "", 1, {ALL_SET}, 64},
	{{"last bit", "of the last word"},
	 70,
	 "",
	 1ull << (BL_ACK_WORDS - 1),
	 {[BL_ACK_WORDS - 1] = 1ull << 63},
	 1},
	{{"two words", "not those between"},
	 70,
	 "",
	 1 | 1 << 3,
	 {[0] = 6, [1] = ALL_SET, [3] = 5},
	 4},
	{{"a word not named", "it isn't said yet"}, 70, "", 0, {[0] = 6, [3] = 5}, 0},
	{{"named, empty", "the bit is on its way"}, 70, "", ALL_SET >> 49, {0}, 0},
	{{"packets and bits", "their sum"}, 70, "FmF", 1 << 2, {[2] = 7}, 5},
	{{"words that don't exist", "a liar's"}, 70, "", ALL_SET << BL_ACK_WORDS, {1}, 0},
	{{"all that a liar can say", "960"},
	 70,
	 "",
	 ALL_SET,
	 {ALL_SET, ALL_SET, ALL_SET, ALL_SET, ALL_SET, ALL_SET, ALL_SET, ALL_SET, ALL_SET, ALL_SET,
	  ALL_SET, ALL_SET, ALL_SET, ALL_SET, ALL_SET},
	 BITS},
};

static uint32_t op_of(char c)
{
	return c == 'F'	  ? BL_OP_FIN
	       : c == 'm' ? BL_OP_TAGGED
	       : c == 'r' ? BL_OP_MSG_RTS
			  : BL_OP_CTS;
}

/* Each slot that isn't named holds a FIN that was read a lap ago. */
static void in_sight(void **state)
{
	const struct in_sight_row *row = TABLE_ROW(struct in_sight_row, state);
	static struct bl_lane ours, theirs;
	static struct bl_peer peer;
	size_t named = strlen(row->ring);
	struct bl_acks before;

	memset(&ours, 0xff, sizeof ours); /* what is behind the words looks like more of them */
	memset(&theirs, 0, sizeof theirs);
	peer.tx = (struct bl_tx){.lane = &ours, .slot = ours.slot};
	peer.rx = (struct bl_rx){.lane = &theirs, .slot = theirs.slot, .next = row->next};
	for (uint32_t i = 0; i < BL_SLOTS; i++) {
		struct bl_slot *slot = &theirs.slot[(row->next + i) % BL_SLOTS];
		bool came = i < named && row->ring[i] != '-';

		slot->head =
			BL_HEAD(0, i < named ? op_of(row->ring[i]) : BL_OP_FIN, BL_SLOT_HEARD(i));
		atomic_store(&slot->seq,
			     row->next || came ? row->next + i + 1 - (came ? 0 : BL_SLOTS) : 0);
	}
	atomic_store(&ours.fins.some, row->some);
	for (uint32_t w = 0; w < BL_ACK_WORDS; w++)
		atomic_store(&ours.fins.word[w], row->word[w]);
	before = ours.fins;
	assert_int_equal(bl_acks_in_sight(&peer), row->sum);
	assert_memory_equal(&ours.fins, &before, sizeof before); /* a look takes nothing */
	assert_int_equal(peer.rx.next, row->next);
}

/* --- whose sender is gone ------------------------------------------------------- */

static void discard_it(void)
{
	struct bl_recv recv = {.src = 2, .tag = 5, .flags = NODE_FLAGS | BL_PEEK | BL_DISCARD};

	assert_int_equal(bl_recv(receiver, &recv), 0);
	assert_int_equal(node_completion(&node, 0, NULL).tag, 5);
}

static void claim_and_discard(void)
{
	struct bl_recv recv = {.src = 2, .tag = 5, .flags = NODE_FLAGS | BL_PEEK | BL_CLAIM};

	recv.context = &recv;
	assert_int_equal(bl_recv(receiver, &recv), 0);
	assert_int_equal(node_completion(&node, 0, NULL).tag, 5);
	recv.flags = NODE_FLAGS | BL_CLAIM | BL_DISCARD;
	assert_int_equal(bl_recv(receiver, &recv), 0);
	assert_int_equal(node_completion(&node, 0, NULL).tag, 5);
}

static void leave_it(void)
{
}

struct gone_row {
	struct row row;
	void (*then)(void);
};

static const struct gone_row gones[] = {
	{{"discarded", "there is no ring to say so"}, discard_it},
	{{"claimed and discarded", "the same"}, claim_and_discard},
	{{"never asked for", "closing has nobody to tell"}, leave_it},
};

static void open_third(void)
{
	struct bl_addr addr;
	uint64_t index;

	assert_int_equal(bl_ep_open(node.domain, &node.ep[2]), 0);
	assert_int_equal(bl_av_open(node.domain, &node.av[2]), 0);
	assert_int_equal(bl_cq_open(node.domain, 0, &node.cq[2]), 0);
	assert_int_equal(bl_ep_bind_av(node.ep[2], node.av[2]), 0);
	assert_int_equal(bl_ep_bind_cq(node.ep[2], node.cq[2], BL_SEND | BL_RECV), 0);
	assert_int_equal(bl_ep_enable(node.ep[2]), 0);
	bl_ep_getname(receiver, &addr);
	assert_int_equal(bl_av_insert(node.av[2], &addr, &index), 0);
	node.count = 3;
	node_send(&node, 2, index, NULL, 0, 1, NULL, BL_TAGGED);
}

static void close_third(void)
{
	node.count = 2;
	assert_int_equal(bl_ep_close(node.ep[2]), 0);
	assert_int_equal(bl_cq_close(node.cq[2]), 0);
	assert_int_equal(bl_av_close(node.av[2]), 0);
}

/* A large message came, and then its sender closed; its lane is another's now. */
static void from_nobody(void **state)
{
	const struct gone_row *row = TABLE_ROW(struct gone_row, state);
	struct bl_sink none = BL_SINK_NONE;
	struct iovec iov = {from, LEN};
	struct bl_send send = {&iov, 1, 0, 5, 0, NULL, NODE_FLAGS, NULL};
	struct bl_peer *peer;

	open_nodes(3);
	peer = node.peer[0][2];
	assert_int_equal(bl_send(node.ep[2], &send), 0);
	node_settle(&node, 0);
	close_third();
	bl_ep_look(receiver, &none, bl_ticks());
	assert_true(peer->dead);
	open_third();
	assert_null(peer->tx.lane);
	row->then();
	node_close(&node);
}

static void dies(void)
{
	atomic_store(&node.peer[1][2]->life.found_dead, true);
}

struct last_row {
	struct row row;
	void (*ends)(void);
};

static const struct last_row lasts[] = {
	{{"closed", "in good order"}, close_third},
	{{"died", "in whatever way"}, dies},
};

/* A receiver's last word, said before it went. */
static void last_word(void **state)
{
	const struct last_row *row = TABLE_ROW(struct last_row, state);
	struct bl_sink none = BL_SINK_NONE;
	struct iovec iov = {from, LEN};
	struct bl_send send = {&iov, 1, 2, 5, 0, from, NODE_FLAGS, NULL};
	struct bl_acks *fins;

	open_nodes(3);
	fins = &node.ep[2]->dest[1]->rx.lane->fins;
	assert_int_equal(bl_send(sender, &send), 0);
	for (uint32_t i = 0; i < sender->rndv.nrequest; i++)
		if (sender->rndv.request[i]->peer)
			atomic_store(&fins->word[i / 64], 1ull << i % 64);
	atomic_store(&fins->some, 1);
	row->ends();
	bl_ep_look(sender, &none, bl_ticks());
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	assert_int_equal(sender->rndv.requests, 0);
	node_close(&node);
}

int main(void)
{
	setenv("FI_BEELINE_EAGER_MAX", "4096", 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", "0", 1);
	setenv("FI_BEELINE_SPIN", "0", 1); /* all ends belong to one thread */
	TABLE_ROWS("count", so_many, counts);
	TABLE_ROWS("seen", is_seen, sights);
	TABLE_TEST(needs_a_packet);
	TABLE_TEST(liar);
	TABLE_TEST(room_came);
	TABLE_TEST(discarded);
	TABLE_TEST(behind_messages);
	TABLE_TEST(to_itself);
	TABLE_ROWS("in sight", in_sight, in_sights);
	TABLE_ROWS("gone", from_nobody, gones);
	TABLE_ROWS("last word", last_word, lasts);
	return table_run("ack");
}
