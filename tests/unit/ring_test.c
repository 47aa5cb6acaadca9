/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ring_test.c: transport/local/lane/ring.h alone, without an endpoint: one lane in ordinary
 * memory, both private halves in this program. The two-thread test at the end
 * has one thread on each half; everything else is single-threaded.
 */
#include <pthread.h>

#include "transport/local/ways/rndv.h" /* BL_EAGER_MOST */
#include "unit/lane.h"

/* --- where the sequence stands ------------------------------------------ */

struct start_row {
	struct row row;
	uint32_t start;
};

static const struct start_row starts[] = {
	{{"0", "a fresh ring: no slot has ever held a number"}, 0},
	{{"1", "the first slot holds a number of the same lap"}, 1},
	{{"63", "the next packet is the last slot of a lap"}, BL_SLOTS - 1},
	{{"64", "the first slot for the second time"}, BL_SLOTS},
	{{"2^31 - 5", "signed comparisons would turn here"}, 0x7ffffffbu},
	{{"2^32 - 64", "a whole lap before the number wraps"}, UINT32_MAX - BL_SLOTS + 1},
	{{"2^32 - 33", "the number wraps in the middle of a lap"}, UINT32_MAX - 32},
	{{"2^32 - 2", "limit has wrapped, next has not"}, UINT32_MAX - 1},
	{{"2^32 - 1", "this packet's flag is the number 0"}, UINT32_MAX},
};

static void empty_ring_gives_nothing(void **state)
{
	struct ring r = ring_at(TABLE_ROW(struct start_row, state)->start);

	assert_null(bl_rx_peek(&r.rx));
	assert_true(bl_tx_room(&r.tx));
	assert_true(bl_tx_refresh(&r.tx)); /* nothing to learn, room as before */
	assert_int_equal(r.tx.limit - r.tx.next, BL_SLOTS);
	ring_drop(&r);
}

static void full_ring_refuses_and_recovers(void **state)
{
	struct ring r = ring_at(TABLE_ROW(struct start_row, state)->start);
	uint32_t n = 0;

	while (put(&r, n, 8))
		n++;
	assert_int_equal(n, BL_SLOTS);
	assert_false(bl_tx_refresh(&r.tx));
	for (uint32_t i = 0; i < BL_CREDIT_EVERY; i++)
		get(&r, i, 8);
	for (uint32_t i = 0; i < BL_CREDIT_EVERY; i++)
		assert_true(put(&r, n++, 8));
	assert_false(put(&r, n, 8));
	for (uint32_t i = BL_CREDIT_EVERY; i < n; i++)
		get(&r, i, 8);
	assert_null(bl_rx_peek(&r.rx));
	ring_drop(&r);
}

/* Every batch size at every place, over three laps. */
static void batches_keep_order(void **state)
{
	for (uint32_t batch = 1; batch <= BL_SLOTS; batch++) {
		struct ring r = ring_at(TABLE_ROW(struct start_row, state)->start);
		uint32_t sent = 0, got = 0;

		while (got < 3 * BL_SLOTS) {
			for (uint32_t i = 0; i < batch && put(&r, sent, sent % 289); i++)
				sent++;
			assert_true(sent > got);
			for (; got < sent; got++)
				get(&r, got, got % 289);
			assert_null(bl_rx_peek(&r.rx));
		}
		ring_drop(&r);
	}
}

/* --- credits ------------------------------------------------------------ */

struct credit_row {
	struct row row;
	uint32_t packets, len;
	bool told; /* after the last of them, not before */
};

static const struct credit_row credits[] = {
	{{"7 short", "one less than the number that is worth a line"}, 7, 8, false},
	{{"8 short", "by packets"}, 8, 8, true},
	{{"7 of 288", "bytes in slots don't count: they return with the slots"}, 7, 288, false},
	{{"7 of 289", "the shortest payload: few bytes, few packets"}, 7, 289, false},
	{{"1 of 7679", "one byte less than by bytes"}, 1, BL_CREDIT_BYTES - 1, false},
	{{"1 of 7680", "by bytes, at once"}, 1, BL_CREDIT_BYTES, true},
	{{"2 of 3839", "sum one pair short"}, 2, BL_CREDIT_BYTES / 2 - 1, false},
	{{"2 of 3840", "by the sum of bytes"}, 2, BL_CREDIT_BYTES / 2, true},
	{{"1 of 14336", "the longest eager message"}, 1, 14336, true},
};

static void credit_comes_back(void **state)
{
	const struct credit_row *row = TABLE_ROW(struct credit_row, state);
	struct ring r = ring_at(UINT32_MAX - 2);
	uint32_t before = r.start;

	for (uint32_t i = 0; i < row->packets; i++) {
		assert_int_equal(atomic_load(&r.lane->consumed), before);
		assert_true(put(&r, i, row->len));
		get(&r, i, row->len);
	}
	assert_int_equal(atomic_load(&r.lane->consumed),
			 row->told ? before + row->packets : before);
	ring_drop(&r);
}

/* Whatever came before, and has been read: the longest packet finds room. Lengths that end in the
 * first byte of a line take up the most beyond what is counted. */
static void drained_ring_has_room(void **state)
{
	for (uint32_t first = BL_LINE; first < BL_PAYLOAD_SIZE / 2; first += TABLE_LESS * BL_LINE)
		for (uint32_t count = 1; count < BL_CREDIT_EVERY; count++) {
			uint32_t len = (BL_CREDIT_BYTES - 1) / count, n = 0;
			struct ring r = ring_at(5);

			for (; len % BL_LINE != 1; len--)
				;
			for (uint32_t sent = 0; sent < 2 * BL_PAYLOAD_SIZE; sent += first, n++) {
				assert_true(put(&r, n, first));
				get(&r, n, first);
			}
			while (r.rx.next != r.rx.credited) { /* nothing is owed */
				assert_true(put(&r, n, 8));
				get(&r, n++, 8);
			}
			for (uint32_t i = 0; i < count; i++, n++) {
				assert_true(put(&r, n, len));
				get(&r, n, len);
			}
			assert_true(put(&r, n, BL_EAGER_MOST));
			get(&r, n, BL_EAGER_MOST);
			ring_drop(&r);
		}
}

struct consumed_row {
	struct row row;
	uint32_t offset; /* from the oldest packet in flight */
	bool believed;
};

#define IN_FLIGHT 10u

static const struct consumed_row hostile[] = {
	{{"unchanged", "no news"}, 0, false},
	{{"one", "the least news"}, 1, true},
	{{"all", "the most that can be true"}, IN_FLIGHT, true},
	{{"one too many", "a packet that was never sent"}, IN_FLIGHT + 1, false},
	{{"a lap", "would free slots that are in use"}, BL_SLOTS, false},
	{{"a lap and one", "the same place modulo the ring"}, BL_SLOTS + 1, false},
	{{"one back", "credits never shrink"}, UINT32_MAX, false},
	{{"a lap back", "the same place, a lap earlier"}, 0u - BL_SLOTS, false},
	{{"half the numbers", "signed comparison would be fooled"}, 0x80000000u, false},
};

static void consumed_is_checked(void **state)
{
	const struct consumed_row *row = TABLE_ROW(struct consumed_row, state);

	for (size_t s = 0; s < bl_countof(starts); s++) {
		struct ring r = ring_at(starts[s].start);
		uint32_t limit = r.tx.limit;

		for (uint32_t i = 0; i < IN_FLIGHT; i++)
			assert_true(put(&r, i, 1000));
		atomic_store(&r.lane->consumed, r.start + row->offset);
		bl_tx_refresh(&r.tx);
		assert_int_equal(r.tx.limit, limit + (row->believed ? row->offset : 0));
		assert_int_equal(r.tx.pay_tail, row->believed ? row->offset * 1024 : 0);
		ring_drop(&r);
	}
}

/* Whatever a neighbour writes there, at any moment: never more than a lap of
 * slots nor more than the payload ring in flight, and no place outside it. */
static void consumed_random(void **state)
{
	struct ring r = ring_at(UINT32_MAX - 5000);
	uint64_t seed = 11;

	for (int i = 0; i < 200000; i++) {
		uint64_t x = table_random(&seed);
		uint32_t len = 289 + (uint32_t)(x >> 32) % (14336 - 288);

		atomic_store(&r.lane->consumed,
			     x & 1 ? (uint32_t)(x >> 3) : r.tx.next - (uint32_t)(x >> 3) % 96);
		if (!bl_tx_room(&r.tx) && !bl_tx_refresh(&r.tx))
			continue;
		assert_true(r.tx.limit - r.tx.next <= BL_SLOTS);
		assert_true(r.tx.pay_head >= r.tx.pay_tail);
		assert_true(r.tx.pay_head - r.tx.pay_tail <= r.tx.pay_size);
		if (i == 100000)
			bl_tx_lengthen(&r.tx, BL_PAYLOAD_OF(BL_LANE_LONG), 0);

		uint8_t *to = bl_tx_payload(&r.tx, len);

		if (!to)
			continue;
		assert_in_range(to - r.lane->payload, 0, r.tx.pay_size - len);
		bl_tx_payload_take(&r.tx, len);
		bl_tx_publish(&r.tx, bl_tx_slot(&r.tx), len);
	}
	ring_drop(&r);
}

/* --- the payload ring --------------------------------------------------- */

struct place_row {
	struct row row;
	uint32_t before; /* pay_at when the packet comes */
	uint32_t len;
	uint32_t place; /* where it must go */
	uint32_t after; /* pay_at afterwards */
	uint32_t taken; /* of the ring, the skipped bytes included */
};

#define END BL_PAYLOAD_SIZE

static const struct place_row places[] = {
	{{"first", "the shortest payload at the beginning"}, 0, 289, 0, 320, 320},
	{{"whole lines", "a length that is a multiple of the line"}, 64, 256, 64, 320, 256},
	{{"one more byte", "takes the next line as well"}, 64, 257, 64, 384, 320},
	{{"fits to the end", "no skip, and the next goes to 0"}, END - 256, 250, END - 256, 0, 256},
	{{"one line short", "skips the rest"}, END - 192, 250, 0, 256, 192 + 256},
	{{"one line left", "the least that can be skipped"}, END - 64, 289, 0, 320, 64 + 320},
	{{"longest at the end", "exact fit of the longest"},
	 END - 14336,
	 14336,
	 END - 14336,
	 0,
	 14336},
	{{"longest, a line late", "the most that can be skipped"},
	 END - 14272,
	 14336,
	 0,
	 14336,
	 14272 + 14336},
};

static void payload_place(void **state)
{
	const struct place_row *row = TABLE_ROW(struct place_row, state);
	struct ring r = ring_at(UINT32_MAX - 1);
	uint8_t *to;

	r.tx.pay_at = row->before;
	to = bl_tx_payload(&r.tx, row->len);
	assert_non_null(to);
	assert_int_equal(to - r.lane->payload, row->place);
	assert_int_equal(r.tx.pay_head, 0); /* nothing is taken yet */
	bl_tx_payload_take(&r.tx, row->len);
	assert_int_equal(r.tx.pay_at, row->after);
	assert_int_equal(r.tx.pay_head, row->taken);
	ring_drop(&r);
}

/* Where the lines are that the next packet like this one will be written to. */
static void payload_next(void **state)
{
	const struct place_row *row = TABLE_ROW(struct place_row, state);
	struct ring r = ring_at(UINT32_MAX - 1);
	const uint8_t *next;
	uint32_t size;

	for (uint32_t stretched = 0; stretched < 2; stretched++) {
		uint32_t end = stretched ? BL_PAYLOAD_MOST : BL_PAYLOAD_SIZE;

		r.tx.pay_size = r.tx.pay_most = end;
		r.tx.pay_at = row->before < 64 * 2 ? row->before : end - (END - row->before);
		r.tx.last = row->len;
		for (uint32_t most = BL_PREFETCH_MOST; most <= BL_PREFETCH_LONG;
		     most += BL_PREFETCH_LONG - BL_PREFETCH_MOST) {
			next = bl_tx_payload_next(&r.tx, most, &size);
			assert_ptr_equal(next, bl_tx_payload(&r.tx, row->len));
			assert_true(size >= bl_min(row->len, most) && size <= most);
			assert_true(next + size <= r.lane->payload + end);
		}
	}
	ring_drop(&r);
}

static void payload_full_by_bytes(void **state)
{
	struct ring r = ring_at(UINT32_MAX - 1);

	static_assert(BL_PAYLOAD_SIZE == 4 * 9216, "four fill it");
	for (uint32_t i = 0; i < 4; i++)
		assert_true(put(&r, i, 9216));
	assert_true(bl_tx_room(&r.tx)); /* slots are left, bytes are not */
	assert_false(put(&r, 4, 289));
	assert_true(put(&r, 4, 288)); /* a slot is all that it needs */
	get(&r, 0, 9216);
	assert_true(put(&r, 5, 9216));
	assert_false(put(&r, 6, 289));
	get(&r, 1, 9216);
	get(&r, 2, 9216);
	get(&r, 3, 9216);
	get(&r, 4, 288);
	get(&r, 5, 9216);
	ring_drop(&r);
}

/* However long the packets and however late the reader: what is in flight keeps
 * its bytes, order holds, and once all is read there is room for any message,
 * although the reader has not told of its last few packets. */
/* Long stores past the caches or not, as the sender happens to find itself. */
static void payload_random(void **state)
{
	struct ring r = ring_at(UINT32_MAX - 20000);
	uint32_t length[BL_SLOTS], sent = 0, got = 0;
	uint64_t seed = 5;

	for (int i = 0; i < 60000; i++) {
		uint64_t x = table_random(&seed);
		uint32_t len = x & 3 ? (uint32_t)(x >> 32) % 14337 : (uint32_t)(x >> 32) % 300;

		if (i % 1000 == 0) {
			r.tx.past = (uint8_t)(x >> 16);
			r.tx.slow = (uint8_t)(x >> 24) % (BL_FAR + 1);
			set_past_min(x >> 32 & 1 ? PROBED : TIMED);
		}
		if (put(&r, sent, len))
			length[sent++ % BL_SLOTS] = len;
		else if (sent == got)
			fail_msg("no room for %u bytes in an empty ring", len);
		for (uint32_t k = (uint32_t)(x >> 8) % 4; k && got < sent; k--, got++)
			get(&r, got, length[got % BL_SLOTS]);
	}
	ring_drop(&r);
}

/* The ring becomes longer at any moment: what was in flight keeps its bytes, and so does all that
 * comes after it. */
#define WHEN 40
static void stretched_at_any_moment(void **state)
{
	uint64_t seed = 23;

	for (uint32_t round = 0; round < 2 * WHEN; round++) {
		struct ring r = ring_at(UINT32_MAX - 100);
		uint32_t length[BL_SLOTS], sent = 0, got = 0, when = round % WHEN;
		uint32_t end = BL_PAYLOAD_OF(round % 2 ? BL_LANE_LONG : BL_LANE_MOST);

		for (uint32_t i = 0; i < 300; i++) {
			uint64_t x = table_random(&seed);
			uint32_t most = i < when ? 14337 : 65536;
			uint32_t len = (uint32_t)(x >> 32) % (x & 1 ? most : most / 8);

			if (i == when)
				bl_tx_lengthen(&r.tx, end, 0);
			if (put(&r, sent, len)) {
				length[sent++ % BL_SLOTS] = len;
				if (round >= WHEN)
					continue; /* until it is full */
			} else if (sent == got) {
				fail_msg("no room for %u bytes in an empty ring", len);
			}
			assert_true(r.tx.pay_head - r.tx.pay_tail <= r.tx.pay_size);
			for (uint32_t k = (uint32_t)(x >> 8) % 4; k && got < sent; k--, got++)
				get(&r, got, length[got % BL_SLOTS]);
		}
		assert_int_equal(r.tx.pay_size, end);
		ring_drop(&r);
	}
}

struct at_row {
	struct row row;
	uint8_t span; /* that is mapped of the lane, whether its sender uses it or not */
	uint32_t at, len;
	bool inside;
};

#define LAST  BL_PAYLOAD_MOST
#define LONG  BL_PAYLOAD_OF(BL_LANE_LONG)
#define SHORT BL_PAYLOAD_SIZE

static const struct at_row ats[] = {
	{{"in the slot", "at is not looked at"}, 21, UINT32_MAX, 288, true},
	{{"beginning", "the first place"}, 21, 0, 289, true},
	{{"last place", "ends with the ring"}, 21, LAST - 289, 289, true},
	{{"one further", "ends behind the ring"}, 21, LAST - 288, 289, false},
	{{"end", "no byte is left"}, 21, LAST, 289, false},
	{{"behind the end", "at alone is too much"}, 21, LAST + 1, 289, false},
	{{"all ones", "at + len wraps to a small number"}, 21, UINT32_MAX, 289, false},
	{{"wraps to 0", "at + len is 2^32"}, 21, 0u - 289, 289, false},
	{{"not stretched", "more than there are pages for: the kernel brings them"},
	 21,
	 SHORT,
	 289,
	 true},
	{{"whole ring", "the longest that fits"}, 21, 0, LAST, true},
	{{"longer than the ring", "and ends behind it"}, 21, 0, LAST + 1, false},
	{{"longest head", "20 bits"}, 21, 0, 0xfffff, true},
	{{"longest message", "ends with the ring"}, 21, LAST - 131072, 131072, true},
	{{"longest message, one further", "ends behind the ring"},
	 21,
	 LAST - 131071,
	 131072,
	 false},
	{{"long lane", "ends with the ring"}, 19, LONG - 289, 289, true},
	{{"long lane, one further", "ends behind what is mapped"}, 19, LONG - 288, 289, false},
	{{"long lane, longest head", "20 bits"}, 19, 0, 0xfffff, false},
	{{"short lane", "ends with the ring"}, 16, SHORT - 289, 289, true},
	{{"short lane, one further", "ends behind what is mapped"}, 16, SHORT - 288, 289, false},
	{{"short lane, end", "where a longer one would go on"}, 16, SHORT, 289, false},
};

static void place_is_checked(void **state)
{
	const struct at_row *row = TABLE_ROW(struct at_row, state);
	struct ring r = ring_at(0);
	const uint8_t *bytes;

	r.rx.span = row->span;
	r.lane->slot[0].at = row->at;
	bytes = bl_rx_bytes(&r.rx, &r.lane->slot[0], row->len);
	assert_int_equal(bytes != NULL, row->inside);
	if (bytes && row->len > BL_SLOT_INLINE)
		assert_ptr_equal(bytes, r.lane->payload + row->at);
	ring_drop(&r);
}

/* --- lengths ------------------------------------------------------------ */

/* Each length after each of the lengths around every boundary. */
static void all_slot_lengths(void **state)
{
	static const uint32_t before[] = {0,   1,   39,	 40,  41,  104, 105,
					  168, 169, 231, 232, 287, 288, 289};
	uint32_t n = 0;

	for (size_t b = 0; b < bl_countof(before); b++) {
		struct ring r = ring_at(UINT32_MAX - 100);

		for (uint32_t len = 0; len <= 300; len++) {
			assert_true(put(&r, n, before[b]));
			get(&r, n++, before[b]);
			assert_null(bl_rx_peek(&r.rx));
			assert_true(put(&r, n, len));
			get(&r, n++, len);
			assert_null(bl_rx_peek(&r.rx));
		}
		ring_drop(&r);
	}
}

/* A slot's bytes end where the next slot's flag begins. */
static void slot_fill_stays_inside(void **state)
{
	struct bl_slot slot[2];
	uint8_t from[BL_SLOT_INLINE];

	memset(from, 0xab, sizeof from);
	for (uint32_t len = 0; len <= BL_SLOT_INLINE; len++) {
		memset(slot, 0x11, sizeof slot);
		bl_slot_fill(&slot[0], from, len);
		for (uint32_t i = 0; i < BL_SLOT_INLINE; i++)
			assert_int_equal(slot[0].bytes[i], i < len ? 0xab : 0x11);
		for (size_t i = 0; i < sizeof slot[1]; i++)
			assert_int_equal(((uint8_t *)&slot[1])[i], 0x11);
		assert_int_equal(slot[0].head, 0x11111111);
	}
}

/* --- two threads -------------------------------------------------------- */

#define THREAD_PACKETS 200000u

static uint32_t thread_length(uint32_t n)
{
	uint64_t seed = n;
	uint64_t x = table_random(&seed);

	return x % 8 ? (uint32_t)(x >> 8) % 289 : (uint32_t)(x >> 8) % 4096;
}

static void *produce(void *arg)
{
	struct ring *r = arg;

	for (uint32_t n = 0; n < THREAD_PACKETS;)
		if (put(r, n, thread_length(n)))
			n++;
		else
			bl_cpu_relax();
	return NULL;
}

static void two_threads(void **state)
{
	struct ring r = ring_at(UINT32_MAX - THREAD_PACKETS / 2);
	const char *what = NULL;
	uint32_t n = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, produce, &r), 0);
	while (n < THREAD_PACKETS) {
		const struct bl_slot *slot = bl_rx_peek(&r.rx);

		if (!slot) {
			bl_cpu_relax();
			continue;
		}
		if (!what && (what = wrong(&r, slot, n, thread_length(n))))
			print_error("packet %u: wrong %s\n", n, what);
		bl_rx_consume(&r.rx, thread_length(n++));
	}
	pthread_join(thread, NULL);
	assert_null(what);
	ring_drop(&r);
}

int main(void)
{
	fill_pattern();
	TABLE_ROWS("empty", empty_ring_gives_nothing, starts);
	TABLE_ROWS("full", full_ring_refuses_and_recovers, starts);
	TABLE_ROWS("batches", batches_keep_order, starts);
	TABLE_ROWS("credit", credit_comes_back, credits);
	TABLE_TEST(drained_ring_has_room);
	TABLE_ROWS("consumed", consumed_is_checked, hostile);
	TABLE_TEST(consumed_random);
	TABLE_ROWS("payload place", payload_place, places);
	TABLE_ROWS("payload next", payload_next, places);
	TABLE_TEST(payload_full_by_bytes);
	TABLE_TEST(payload_random);
	TABLE_TEST(stretched_at_any_moment);
	TABLE_ROWS("at", place_is_checked, ats);
	TABLE_TEST(all_slot_lengths);
	TABLE_TEST(slot_fill_stays_inside);
	TABLE_TEST(two_threads);
	return table_run("ring");
}
