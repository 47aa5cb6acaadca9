/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lines_test.c: what a sender stores to before it has anything to send, so that the lines are its
 * own by then (transport/local/lane/ring.h, "Lines of our own"): where, and nowhere else; when; and
 * that nobody takes it for a message. Single-threaded.
 */
#include "unit/lane.h"
#include "unit/node.h"

#define UNTOUCHED 0xa5

/* On a machine where lines are stored to, and short ones show how far it is. */
static struct ring stores_at(uint32_t start)
{
	atomic_store(&bl_tx_by_store, true);
	atomic_store(&bl_tx_past_min, BL_SLOT_INLINE + 1);
	return ring_at(start);
}

/* Every byte that no packet of the ring's has been written to says so. */
static struct ring blank_ring_at(uint32_t start)
{
	struct ring r = stores_at(start);

	for (uint32_t i = 0; i < BL_SLOTS; i++) {
		uint32_t seq = atomic_load(&r.lane->slot[i].seq);

		memset(&r.lane->slot[i], UNTOUCHED, sizeof r.lane->slot[i]);
		atomic_store(&r.lane->slot[i].seq, seq);
	}
	memset(r.lane->payload, UNTOUCHED, sizeof r.lane->payload);
	return r;
}

static size_t lines_of(size_t len)
{
	return (len + offsetof(struct bl_slot, bytes) + BL_LINE - 1) / BL_LINE;
}

/* The lines `from` to `lines` of a slot have been stored to, at the places meant for that, or none.
 */
static void check_lines(const struct ring *r, uint32_t n, size_t from, size_t lines)
{
	const struct bl_slot *slot = &r->lane->slot[n % BL_SLOTS];
	struct bl_slot want;

	memset(&want, UNTOUCHED, sizeof want);
	atomic_store(&want.seq, atomic_load(&slot->seq));
	assert_int_not_equal(atomic_load(&slot->seq), n + 1);
	for (size_t line = from; line < lines; line++) {
		if (line)
			((uint8_t *)&want)[line * BL_LINE] = 0;
		else
			want.data = 0;
	}
	assert_memory_equal(slot, &want, sizeof want);
}

static void check_slot(const struct ring *r, uint32_t n, size_t lines)
{
	check_lines(r, n, 0, lines);
}

/* --- ahead of a stream ------------------------------------------------------ */

struct own_row {
	struct row row;
	uint32_t next, room; /* of the packet that comes next; packets */
	int32_t owned;	     /* so many from there on are ours already */
	uint32_t stride;     /* the last time */
	uint32_t len;
	uint32_t want; /* slots */
};

#define TOLD (BL_SLOT_INLINE + 8) /* the longest: a number behind the bytes */

static const struct own_row owns[] = {
	{{"first", "one, for it may be the last"}, 0, 64, 0, 0, 8, 1},
	{{"second", "more each time"}, 2, 62, 0, 1, 8, 3},
	{{"third", "more each time"}, 6, 58, 0, 3, 8, 7},
	{{"fourth", "more each time"}, 14, 50, 0, 7, 8, 15},
	{{"fifth", "the most"}, 30, 34, 0, 15, 8, 16},
	{{"sixth", "the most, from then on"}, 46, 34, 0, 16, 8, 16},
	{{"after a pause", "what has been sent meanwhile says nothing"}, 100, 64, -1, 16, 8, 1},
	{{"after a long pause", "the same"}, 100, 64, -90, 16, 8, 1},
	{{"little room", "no more than there is"}, 46, 5, 0, 16, 8, 5},
	{{"one left", "the last"}, 46, 1, 0, 16, 8, 1},
	{{"full", "none"}, 46, 0, 0, 16, 8, 0},
	{{"after none", "begins anew"}, 46, 64, 0, 0, 8, 1},
	{{"one line", "the longest in it"}, 0, 64, 0, 16, BL_SLOT_FIRST, 16},
	{{"two lines", "as many slots"}, 0, 64, 0, 16, BL_SLOT_FIRST + 1, 16},
	{{"three lines", "fewer slots"}, 0, 64, 0, 16, BL_SLOT_FIRST + BL_LINE + 1, 10},
	{{"a whole slot", "fewer yet"}, 0, 64, 0, 16, BL_SLOT_INLINE, 6},
	{{"a whole slot, told", "not the next one's lines"}, 0, 64, 0, 16, TOLD, 6},
	{{"ring's end", "from its beginning on"}, 60, 64, 0, 16, TOLD, 6},
	{{"wrap", "of the packets' numbers"}, UINT32_MAX - 2, 64, 0, 16, 8, 16},
	{{"wrap, pause", "of the packets' numbers"}, 1, 64, -4, 16, 8, 1},
	{{"wrap, full", "of the packets' numbers"}, UINT32_MAX - 2, 0, 0, 16, 8, 0},
};

static void owned_ahead(void **state)
{
	const struct own_row *row = TABLE_ROW(struct own_row, state);
	struct ring r = blank_ring_at(row->next);

	r.tx.limit = row->next + row->room;
	r.tx.owned = row->next + (uint32_t)row->owned;
	r.tx.stride = (uint8_t)row->stride;
	bl_tx_own_slots(&r.tx, row->len);
	assert_int_equal(r.tx.owned, row->next + row->want);
	assert_int_equal(r.tx.stride, row->want);
	for (uint32_t i = 0; i < BL_SLOTS; i++)
		check_slot(&r, row->next + i, i < row->want ? lines_of(row->len) : 0);
	assert_null(bl_rx_peek(&r.rx));
	ring_drop(&r);
}

struct when_row {
	struct row row;
	bool stores, stream;
	uint32_t next;
	int32_t owned; /* from there on */
	uint32_t lines, len;
	bool want;
};

#define MANY 0x7fffffff

static const struct when_row whens[] = {
	{{"none are ours", "the next"}, true, true, 100, 0, 1, 8, true},
	{{"one is ours", "not yet"}, true, true, 100, 1, 1, 8, false},
	{{"16 are", "the most"}, true, true, 100, 16, 1, 8, false},
	{{"no stream", "nothing follows"}, true, false, 100, 0, 1, 8, false},
	{{"asks", "not by a store"}, false, true, 100, 0, 1, 8, false},
	{{"long ago", "other packets have gone since"}, true, true, 100, -1000, 1, 8, true},
	{{"very long ago", "half of all numbers"}, true, true, 100, -MANY, 1, 8, true},
	{{"very long ago", "more than half of all numbers"}, true, true, 100, MANY, 1, 8, true},
	{{"wrap, ours", "of the packets' numbers"}, true, true, UINT32_MAX, 3, 1, 8, false},
	{{"wrap, the last", "number 0 is the next"}, true, true, UINT32_MAX, 1, 1, 8, false},
	{{"wrap, none", "of the packets' numbers"}, true, true, 0, 0, 1, 8, true},
	{{"longer", "ours are of one line"}, true, true, 100, 9, 1, BL_SLOT_FIRST + 1, true},
	{{"as long", "as many lines"}, true, true, 100, 9, 2, BL_SLOT_FIRST + 1, false},
	{{"shorter", "more lines than it takes"}, true, true, 100, 9, 5, 8, false},
	{{"longest", "all lines"}, true, true, 100, 9, 5, TOLD, false},
};

static void owned_when(void **state)
{
	const struct when_row *row = TABLE_ROW(struct when_row, state);
	struct ring r = blank_ring_at(row->next);
	uint32_t owned = row->next + (uint32_t)row->owned;

	atomic_store(&bl_tx_by_store, row->stores);
	r.tx.owned = owned;
	r.tx.lines = row->lines & 7;
	bl_tx_before_packet(&r.tx, row->len, row->stream);
	for (uint32_t i = 0; i < BL_SLOTS; i++)
		check_slot(&r, row->next + i, 0);
	bl_tx_after_packet(&r.tx, row->len, row->stream);
	check_slot(&r, row->next, row->want ? lines_of(row->len) : 0);
	assert_int_equal(r.tx.owned, row->want ? row->next + 1 : owned);
	ring_drop(&r);
}

struct next_row {
	struct row row;
	uint32_t len, room;
	size_t lines; /* of the next slot that are ours then, but the first */
};

static const struct next_row nexts[] = {
	{{"one line", "the other polls it"}, BL_SLOT_FIRST, 2, 0},
	{{"two lines", "the second"}, BL_SLOT_FIRST + 1, 2, 2},
	{{"a whole slot", "all but the first"}, BL_SLOT_INLINE, 2, 5},
	{{"a whole slot, told", "not the next one's"}, TOLD, 2, 5},
	{{"no room", "a message that nobody has read lies there"}, BL_SLOT_INLINE, 0, 0},
};

/* Whatever is no stream may answer, or cross another's. */
static void owned_of_the_next(void **state)
{
	const struct next_row *row = TABLE_ROW(struct next_row, state);
	struct ring r = blank_ring_at(UINT32_MAX);

	r.tx.limit = r.tx.next + row->room;
	bl_tx_after_packet(&r.tx, row->len, false);
	for (uint32_t i = 0; i < BL_SLOTS; i++)
		check_lines(&r, r.tx.next + i, 1, i ? 0 : row->lines);
	ring_drop(&r);
}

/* Windows of any length, read a few at a time: what is stored ahead never falls on what is unread,
 * and a stream stores ahead of all but its first packets. */
static void streams_arrive(void **state)
{
	static const uint32_t lens[] = {0, 8, 40, 41, 104, 168, 256, 288};
	struct ring r = stores_at(UINT32_MAX - 300);
	uint32_t sent = r.start, ahead = 0;

	fill_pattern();
	for (uint32_t k = 0; k < bl_countof(lens); k++)
		for (uint32_t window = 1; window <= BL_SLOTS; window += 9) {
			uint32_t unread = 0;

			for (uint32_t i = 0; i < 3 * window; i++) {
				ahead += (int32_t)(r.tx.owned - r.tx.next) > 0;
				bl_tx_before_packet(&r.tx, lens[k], true);
				assert_true(put(&r, sent++, lens[k]));
				bl_tx_after_packet(&r.tx, lens[k], true);
				for (unread++; unread >= window; unread -= (window + 1) / 2)
					for (uint32_t j = 0; j < (window + 1) / 2; j++)
						get(&r, r.rx.next, lens[k]);
				bl_rx_settle(&r.rx);
				assert_null(bl_rx_at(&r.rx, sent));
			}
			for (; unread; unread--)
				get(&r, r.rx.next, lens[k]);
			bl_rx_settle(&r.rx);
		}
	assert_true(ahead > (sent - r.start) / 2);
	ring_drop(&r);
}

/* --- before an answer --------------------------------------------------------- */

struct answer_row {
	struct row row;
	bool knob, far;
	uint32_t ns;	 /* that it seems to have taken so far; the limit is 1 ms */
	uint32_t others; /* packets that go another way before it */
	bool before, after;
};

#define SOON 0
#define LATE 1100000

static const struct answer_row answers[] = {
	{{"far, soon", "pays"}, true, true, SOON, 0, false, true},
	{{"far, late", "it has been taken back by then"}, true, true, LATE, 0, true, false},
	{{"near, soon", "asking is as good"}, true, false, SOON, 0, true, false},
	{{"near, late", "asking is as good"}, true, false, LATE, 0, true, false},
	{{"asks", "nothing is looked at"}, false, true, SOON, 0, false, false},
	{{"another packet", "nobody knows how soon"}, true, true, SOON, 1, true, false},
	{{"another packet, late", "nor how late"}, true, true, LATE, 1, true, false},
};

static void answers_timed(void **state)
{
	const struct answer_row *row = TABLE_ROW(struct answer_row, state);
	struct ring r = blank_ring_at(UINT32_MAX - 5);

	atomic_store(&bl_tx_by_store, row->knob);
	bl_tx_late_ns = 1000000;
	r.tx.slow = row->far ? BL_FAR : 0;
	r.tx.probed = (uint16_t)r.tx.next; /* not again */
	r.tx.replies = 7;
	r.tx.asked = (uint8_t)r.tx.next;
	r.tx.stores = row->before;
	r.tx.answer = r.tx.next - BL_ANSWER_EVERY;
	assert_true(bl_tx_is_pingpong(&r.tx));
	bl_tx_slot_warm(&r.tx);
	assert_int_equal(r.tx.timed, row->knob);
	r.tx.heard_at -= (uint32_t)(row->ns * bl_ticks_per_us() / 1000);
	bl_tx_slot_warm(&r.tx); /* another message: the first one counts */
	r.tx.next += row->others;
	bl_tx_before_packet(&r.tx, 8, false);
	assert_false(r.tx.timed);
	assert_int_equal(r.tx.stores, row->after);
	ring_drop(&r);
}

/* Of all packets one in so many is timed, whichever of a turn's two comes first. */
static void seldom_timed(void **state)
{
	for (uint32_t odd = 0; odd < 2; odd++) {
		struct ring r = blank_ring_at(odd);
		uint32_t timed = 0;

		for (; r.tx.next < 10 * BL_ANSWER_EVERY + 2; r.tx.next += 2) {
			r.tx.limit = r.tx.next + 1;
			r.tx.replies = 7;
			r.tx.asked = (uint8_t)r.tx.next;
			bl_tx_slot_warm(&r.tx);
			timed += r.tx.timed;
			bl_tx_before_packet(&r.tx, 8, false);
		}
		assert_int_equal(timed, 10);
		ring_drop(&r);
	}
}

/* How far it is is found out by answers alone, and that it has changed, whichever packet they begin
 * with: a sender that looks for room in between mustn't take away what is new each time. */
static void distance_by_answers(void **state)
{
	bl_tx_late_ns = UINT32_MAX;
	bl_tx_here_ns = 0;
	for (uint32_t start = 0; start < BL_SLOTS; start++) {
		struct ring r = stores_at(0);

		for (uint32_t n = 0; n < start; n++) {
			assert_true(put(&r, r.tx.next, 0));
			get(&r, r.rx.next, 0);
		}
		r.tx.answer = r.tx.next;
		for (int far = 1; far >= 0; far--) {
			uint32_t until = r.tx.next + 6 * BL_ANSWER_EVERY;

			bl_tx_far_ns = far ? 1 : UINT32_MAX;
			while (r.tx.next != until) {
				r.tx.replies = 7;
				r.tx.asked = (uint8_t)r.tx.next;
				bl_tx_slot_warm(&r.tx);
				bl_tx_before_packet(&r.tx, 0, false);
				assert_true(put(&r, r.tx.next, 0));
				get(&r, r.rx.next, 0);
			}
			assert_int_equal(bl_tx_is_far(&r.tx), far);
			assert_int_equal(r.tx.stores, far);
		}
		ring_drop(&r);
	}
}

struct warm_row {
	struct row row;
	bool dialogue, room, stores;
	uint32_t last; /* length of our last one, as which the next is taken */
	size_t lines;
};

static const struct warm_row warms[] = {
	{{"answer", "the first line"}, true, true, true, 8, 1},
	{{"answer of two lines", "both"}, true, true, true, BL_SLOT_FIRST + 1, 2},
	{{"answer of a slot", "all"}, true, true, true, BL_SLOT_INLINE, 5},
	{{"long answer", "goes elsewhere: the first line"},
	 true,
	 true,
	 true,
	 BL_SLOT_INLINE + 1,
	 1},
	{{"no room", "a message that nobody has read lies there"}, true, false, true, 288, 0},
	{{"asks", "stores nothing"}, true, true, false, 288, 0},
	{{"messages cross", "the other has asked for it"}, false, true, true, 288, 0},
};

static void warmed(void **state)
{
	const struct warm_row *row = TABLE_ROW(struct warm_row, state);
	struct ring r = blank_ring_at(1000);

	r.tx.limit = r.tx.next + row->room;
	r.tx.replies = row->dialogue ? 7 : 6;
	r.tx.asked = (uint8_t)r.tx.next;
	r.tx.stores = row->stores;
	r.tx.last = row->last;
	bl_tx_slot_warm(&r.tx);
	for (uint32_t i = 0; i < BL_SLOTS; i++)
		check_slot(&r, 1000 + i, i ? 0 : row->lines);
	ring_drop(&r);
}

/* --- the payload ----------------------------------------------------------------- */

struct vacant_row {
	struct row row;
	uint32_t at, used; /* where the next byte goes; bytes before it that nobody has read */
	uint32_t last;
	bool vacant;
	uint32_t from; /* where it goes then */
	enum { PLAIN, FAR_AWAY, ASKS, NO_SLOT } but;
};

#define SIZE BL_PAYLOAD_SIZE

static const struct vacant_row vacants[] = {
	{{"empty", "at its beginning"}, 0, 0, 4096, true, 0, PLAIN},
	{{"one line", "the least"}, 0, 0, 289, true, 0, PLAIN},
	{{"most of it unread", "the last that fits"},
	 SIZE - 4096,
	 SIZE - 4096,
	 4096,
	 true,
	 SIZE - 4096,
	 PLAIN},
	{{"one line less", "and the beginning is unread"},
	 SIZE - 4032,
	 SIZE - 4032,
	 4096,
	 false,
	 0,
	 PLAIN},
	{{"all but as much unread", "it fits exactly"}, 8192, SIZE - 4096, 4096, true, 8192, PLAIN},
	{{"one line more unread", "it doesn't"}, 8192, SIZE - 4032, 4096, false, 8192, PLAIN},
	{{"full", "all of it unread"}, 8192, SIZE, 289, false, 8192, PLAIN},
	{{"beyond the end", "what is skipped counts"},
	 SIZE - 64,
	 SIZE - 4160,
	 4096,
	 true,
	 0,
	 PLAIN},
	{{"beyond the end, unread", "one line too many"},
	 SIZE - 64,
	 SIZE - 4096,
	 4096,
	 false,
	 0,
	 PLAIN},
	{{"far away", "asking is no worse"}, 0, 0, 4096, false, 0, FAR_AWAY},
	{{"asks", "nothing is stored"}, 0, 0, 4096, false, 0, ASKS},
	{{"no slot", "or its peer has gone, and the lane with it"}, 0, 0, 4096, false, 0, NO_SLOT},
};

static void warm_payload(void **state)
{
	const struct vacant_row *row = TABLE_ROW(struct vacant_row, state);
	uint32_t most = bl_min(row->last, BL_PREFETCH_MOST);
	struct ring r = blank_ring_at(0);
	struct bl_peer peer = {.tx = r.tx};
	struct bl_ep ep = {.warm = &peer};

	peer.tx.pay_at = row->at;
	peer.tx.pay_tail = 10 * (uint64_t)SIZE;
	peer.tx.pay_head = peer.tx.pay_tail + row->used;
	peer.tx.last = row->last;
	peer.tx.slow = row->but == FAR_AWAY ? BL_FAR : 0;
	if (row->but == NO_SLOT)
		peer.tx.limit = peer.tx.next;
	atomic_store(&bl_tx_by_store, row->but != ASKS);
	bl_warm_payload(&ep);
	assert_null(ep.warm);
	for (uint32_t off = 0; off < BL_PAYLOAD_MOST; off++) {
		bool ours = row->vacant && off - row->from < most && off % BL_LINE == 0;

		assert_int_equal(r.lane->payload[off], ours ? 0 : UNTOUCHED);
	}
	ring_drop(&r);
}

/* --- endpoints ------------------------------------------------------------------- */

/* By each of the two ways of a short message, of an endpoint that the knob has told so. */
static void endpoints_store(void **state)
{
	static const char bytes[BL_SLOT_INLINE];
	static const uint64_t ways[] = {NODE_FLAGS, NODE_FLAGS | BL_DELIVERY_COMPLETE};

	atomic_store(&bl_tx_by_store, false);
	for (size_t w = 0; w < bl_countof(ways); w++) {
		struct node node;
		struct bl_tx *tx;

		node_open(&node, 2);
		assert_true(bl_tx_stores());
		tx = &node.ep[0]->dest[1]->tx;
		node_send(&node, 0, 1, bytes, sizeof bytes, 1, NULL, ways[w]);
		tx->owned = tx->next;
		for (uint32_t i = 0; i < 2; i++)
			node_send(&node, 0, 1, bytes, sizeof bytes, 1, NULL, ways[w]);
		assert_in_range(tx->owned - tx->next, 1, BL_OWN_SLOTS);
		assert_int_equal(tx->lines, 5);
		tx->timed = true;
		node_send(&node, 0, 1, bytes, sizeof bytes, 1, NULL, ways[w]);
		assert_false(tx->timed);
		node_close(&node);
	}
}

int main(void)
{
	setenv("FI_BEELINE_PREFETCH", "store", 1); /* for the endpoints */
	TABLE_ROWS("owned", owned_ahead, owns);
	TABLE_ROWS("when", owned_when, whens);
	TABLE_ROWS("next", owned_of_the_next, nexts);
	TABLE_TEST(streams_arrive);
	TABLE_ROWS("answer", answers_timed, answers);
	TABLE_TEST(seldom_timed);
	TABLE_TEST(distance_by_answers);
	TABLE_ROWS("warm", warmed, warms);
	TABLE_ROWS("payload", warm_payload, vacants);
	TABLE_TEST(endpoints_store);
	return table_run("lines");
}
