/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * past_test.c: transport/local/lane/ring.c: which stores pass the caches by, how a sender finds out
 * that its receiver is far away and that it isn't any more, and what shows that a longer ring would
 * be of use. Single-threaded.
 */
#include "unit/lane.h"

/* --- past the caches ------------------------------------------------------ */

#define LARGE 16384u /* is probed more often */

static uint8_t stored[LARGE] __attribute__((aligned(64)));

static uint32_t store(struct bl_tx *tx, size_t len)
{
	static uint8_t bytes[LARGE];
	uint32_t flags;

	memset(bytes, bytes[0] + 1, len);
	flags = bl_tx_store(tx, stored, bytes, len);
	assert_memory_equal(stored, bytes, len);
	return flags;
}

/* Stores are timed each few times, but one after another when one seemed slow: whether this one
 * does as well is the machine's to say. */
static void slow_once(void **state)
{
	struct bl_tx tx = {.nlong = 1, .nstored = 7, .slow = 1};

	set_past_min(TIMED);
	assert_int_equal(store(&tx, TIMED), 0);
	assert_int_not_equal(tx.slow, 1);
	assert_int_equal(tx.nlong, 2);
	assert_int_equal(tx.nstored, 8);
}

/* Past the caches for a while, then it is tried again; short ones don't count. */
static void past_for_a_while(void **state)
{
	struct bl_tx tx = {.past = 3, .slow = BL_SLOW_ENOUGH};

	set_past_min(TIMED);
	assert_int_equal(store(&tx, TIMED - 1), 0);
	assert_int_equal(tx.past, 3);
	for (int left = 3; left--;) {
		assert_int_equal(store(&tx, TIMED), BL_SLOT_NT_STORED);
		assert_int_equal(tx.past, left);
	}
	assert_int_equal(store(&tx, TIMED), 0);
}

/* What a probe finds: any time that it takes is that of one who is near, or far. */
static void seem(bool far)
{
	bl_tx_far_ns = far ? 1 : UINT32_MAX;
	bl_tx_here_ns = 0;
}

struct probe_row {
	struct row row;
	size_t len;
	uint32_t slow;
	uint32_t since; /* packets since the last probe */
	uint32_t told;	/* of, by the receiver meanwhile */
	bool far;
	uint32_t after; /* how slow it seems then */
	uint32_t again; /* packets until the next probe; 0: no, that is not looked at */
};

#define FAR   BL_FAR
#define EVERY 61u /* packets; ring.c */

static const struct probe_row probes[] = {
	{{"short", "below the least length"}, 288, FAR, EVERY, 1, false, FAR, 0},
	{{"not due", "one packet too early"}, 289, FAR, EVERY - 1, 1, false, FAR, 1},
	{{"near", "as it was"}, 289, 0, EVERY, 1, false, 0, EVERY},
	{{"near", "it was far: looks again soon"}, 289, FAR, EVERY, 1, false, FAR - 1, 7},
	{{"near", "for the second time: believed"}, 289, FAR - 1, EVERY, 1, false, 0, EVERY},
	{{"near", "it was doubtful"}, 289, 2, EVERY, 1, false, 0, EVERY},
	{{"far", "for the first time: looks again soon"}, 289, 0, EVERY, 1, true, 1, 7},
	{{"far", "for the second time"}, 289, 1, EVERY, 1, true, 2, 7},
	{{"far", "for the third time: believed"}, 289, 2, EVERY, 1, true, FAR, EVERY},
	{{"far", "as it was"}, 289, FAR, EVERY, 1, true, FAR, EVERY},
	{{"far", "after a quick one"}, 289, FAR - 1, EVERY, 1, true, FAR, EVERY},
	{{"longer", "by the same way"}, TIMED, FAR - 1, EVERY, 1, false, 0, EVERY},
	{{"long, not due", "one packet too early"}, LARGE, 2, 6, 1, false, 2, EVERY - 6},
	{{"long", "after fewer packets"}, LARGE, 2, 7, 1, false, 0, EVERY},
	{{"nearly long", "that is many yet"}, LARGE - 1, 2, 7, 1, false, 2, EVERY - 7},
	{{"long, nothing new", "again as soon as any"}, LARGE, 0, 7, 0, true, 0, EVERY},
	{{"long, far", "for the first time"}, LARGE, 0, 7, 1, true, 1, EVERY},
	{{"long ago", "more than 65535 packets would be few"}, 289, 0, 40000, 1, true, 1, 7},
	{{"nothing new", "the line was ours: nothing is learned"},
	 289,
	 FAR,
	 EVERY,
	 0,
	 false,
	 FAR,
	 7},
	{{"nothing new", "and it was near"}, 289, 0, EVERY, 0, true, 0, 7},
};

static void probed(void **state)
{
	const struct probe_row *row = TABLE_ROW(struct probe_row, state);
	struct ring r = ring_at(1000);
	uint32_t past = row->after >= FAR - 1 && row->len > BL_SLOT_INLINE ? BL_SLOT_NT_STORED : 0;

	set_past_min(PROBED);
	seem(row->far);
	for (int i = 0; i < 3; i++) {
		bl_tx_publish(&r.tx, bl_tx_slot(&r.tx), 0);
		bl_rx_consume(&r.rx, 0);
	}
	r.tx.slow = (uint8_t)row->slow;
	r.tx.probed = (uint16_t)(r.tx.next - row->since);
	if (row->told)
		bl_rx_credit(&r.rx);
	assert_int_equal(store(&r.tx, row->len), past);
	assert_int_equal(r.tx.slow, row->after);
	if (row->again)
		assert_int_equal((uint16_t)(r.tx.probed + EVERY - r.tx.next), row->again);
	assert_int_equal(r.tx.nlong, row->len >= TIMED);
	ring_drop(&r);
}

/* Where nothing is stored because it is far, a look does. */
static void probed_without_a_store(void **state)
{
	struct ring r = ring_at(0);

	set_past_min(PROBED);
	seem(false);
	r.tx.slow = FAR;
	r.tx.probed = (uint16_t)(r.tx.next - EVERY);
	bl_tx_look(&r.tx, LARGE);
	assert_true(bl_tx_is_far(&r.tx)); /* nothing has been told of */
	bl_tx_publish(&r.tx, bl_tx_slot(&r.tx), 0);
	bl_rx_consume(&r.rx, 0);
	bl_rx_credit(&r.rx);
	r.tx.probed = (uint16_t)(r.tx.next - 6);
	bl_tx_look(&r.tx, LARGE);
	assert_true(bl_tx_is_far(&r.tx)); /* too early */
	r.tx.probed = (uint16_t)(r.tx.next - 7);
	bl_tx_look(&r.tx, LARGE);
	assert_int_equal(r.tx.slow, FAR - 1);
	ring_drop(&r);
}

/* What was here before it was asked for says nothing, though it is news. */
static void here_already(void **state)
{
	struct ring r = ring_at(0);

	set_past_min(PROBED);
	for (int far = 0; far < 2; far++) {
		seem(far);
		bl_tx_here_ns = UINT32_MAX;
		bl_tx_publish(&r.tx, bl_tx_slot(&r.tx), 0);
		bl_rx_consume(&r.rx, 0);
		bl_rx_credit(&r.rx);
		r.tx.slow = far ? 0 : FAR;
		r.tx.probed = (uint16_t)(r.tx.next - EVERY);
		bl_tx_look(&r.tx, 289);
		assert_int_equal(r.tx.limit, r.rx.next + BL_SLOTS);
		assert_int_equal(r.tx.slow, far ? 0 : FAR);
		assert_int_equal((uint16_t)(r.tx.probed + EVERY - r.tx.next), 7);
	}
	ring_drop(&r);
}

/* Who asks what is unread takes what would have been news to a probe: so that is one. */
static void unread_is_a_probe(void **state)
{
	struct ring r = ring_at(0);

	set_past_min(PROBED);
	seem(false);
	assert_int_equal(bl_tx_unread(&r.tx), 0);
	assert_true(put(&r, 0, 1000));
	assert_true(put(&r, 1, 1000));
	assert_int_equal(bl_tx_unread(&r.tx), 2048);
	get(&r, 0, 1000);
	bl_rx_credit(&r.rx);
	r.tx.slow = FAR;
	r.tx.probed = (uint16_t)(r.tx.next - 6);
	assert_int_equal(bl_tx_unread(&r.tx), 1024);
	assert_true(bl_tx_is_far(&r.tx)); /* it wasn't due */
	get(&r, 1, 1000);
	bl_rx_credit(&r.rx);
	r.tx.probed = (uint16_t)(r.tx.next - 7);
	assert_int_equal(bl_tx_unread(&r.tx), 0);
	assert_int_equal(r.tx.slow, FAR - 1);
	ring_drop(&r);
}

/* A pair that has moved is found out, both ways. (But not by one that has no room all the time.) */
struct traffic_row {
	struct row row;
	uint32_t len, size; /* of the payload ring */
	uint32_t window;    /* packets before the receiver reads them all */
};

#define MOST BL_PAYLOAD_MOST

static const struct traffic_row traffics[] = {
	{{"one by one", "289 bytes"}, 289, BL_PAYLOAD_SIZE, 1},
	{{"one by one", "4 KiB"}, 4096, BL_PAYLOAD_SIZE, 1},
	{{"one by one", "64 KiB"}, 65536, MOST, 1},
	{{"window of 8", "as many as are credited at once"}, 1024, MOST, 8},
	{{"window of 16", "4 KiB"}, 4096, MOST, 16},
	{{"window of 40", "probed in the middle of some"}, 512, MOST, 40},
};

static bool put_any(struct ring *r, uint32_t len)
{
	static uint8_t bytes[65536];
	uint8_t *to;

	if (!bl_tx_room(&r->tx) && !bl_tx_refresh(&r->tx))
		return false;
	to = bl_tx_payload(&r->tx, len);
	if (!to)
		return false;
	bl_tx_store(&r->tx, to, bytes, len);
	bl_tx_payload_take(&r->tx, len);
	bl_tx_publish(&r->tx, bl_tx_slot(&r->tx), len);
	return true;
}

static void found_out(void **state)
{
	const struct traffic_row *row = TABLE_ROW(struct traffic_row, state);
	struct ring r = ring_at(0);

	set_past_min(PROBED);
	r.tx.pay_size = r.tx.pay_most = row->size;
	for (int far = 1; far >= 0; far--) {
		uint32_t until = r.tx.next + 1000;

		seem(far);
		while (bl_tx_is_far(&r.tx) != far && r.tx.next < until) {
			for (uint32_t i = 0; i < row->window; i++)
				assert_true(put_any(&r, row->len));
			while (r.rx.next != r.tx.next)
				bl_rx_consume(&r.rx, row->len);
		}
		assert_int_equal(bl_tx_is_far(&r.tx), far);
	}
	ring_drop(&r);
}

/* A short ring that is filled again and again is worth a longer one, whatever fills it. */
static void filled_again(void **state)
{
	static const uint32_t lens[] = {576, 704}; /* 64 fill it; 52, and a part is skipped */

	for (uint32_t k = 0; k < bl_countof(lens); k++) {
		struct ring r = ring_at(0);
		uint32_t lap = BL_PAYLOAD_SIZE / lens[k];

		for (uint32_t i = 0; i < 3 * lap; i++) {
			uint32_t laps = BL_PAYLOAD_SIZE % lens[k] && i ? (i - 1) / lap : i / lap;

			assert_int_equal(r.tx.nlong, laps * BL_SHORT_LAP);
			assert_true(put(&r, i, lens[k]));
			get(&r, i, lens[k]);
		}
		r.tx.nlong = 0;
		bl_tx_lengthen(&r.tx, BL_PAYLOAD_OF(BL_LANE_LONG), 0);
		for (uint32_t i = 3 * lap; i < 30 * lap; i++) {
			assert_true(put(&r, i, lens[k]));
			get(&r, i, lens[k]);
		}
		assert_int_equal(r.tx.nlong, 0);
		ring_drop(&r);
	}
}

int main(void)
{
	fill_pattern();
	TABLE_TEST(slow_once);
	TABLE_TEST(past_for_a_while);
	TABLE_ROWS("probed", probed, probes);
	TABLE_TEST(probed_without_a_store);
	TABLE_TEST(here_already);
	TABLE_TEST(unread_is_a_probe);
	TABLE_ROWS("found out", found_out, traffics);
	TABLE_TEST(filled_again);
	return table_run("past");
}
