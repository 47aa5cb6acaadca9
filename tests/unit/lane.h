/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lane.h: for tests of transport/local/lane/ring.h alone, without an endpoint: one lane in ordinary
 * memory, both private halves in this program.
 */
#ifndef BL_TESTS_UNIT_LANE_H
#define BL_TESTS_UNIT_LANE_H

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "transport/local/lane/ring.h"
#include "unit/table.h"

struct ring {
	struct bl_lane *lane;
	struct bl_tx tx;
	struct bl_rx rx;
	uint32_t start;
};

#define SPAN_MOST 21
static_assert(1u << SPAN_MOST == BL_LANE_MOST, "all of it");

/* A ring that has carried `start` packets already, all of them consumed. */
static inline struct ring ring_at(uint32_t start)
{
	struct ring r = {.lane = aligned_alloc(BL_PAIR, sizeof(struct bl_lane)), .start = start};

	assert_non_null(r.lane);
	memset(r.lane, 0, sizeof *r.lane);
	for (uint32_t i = start - (uint32_t)bl_min(start, BL_SLOTS); i != start; i++)
		atomic_store(&r.lane->slot[i % BL_SLOTS].seq, i + 1);
	atomic_store(&r.lane->consumed, start);
	r.tx = (struct bl_tx){
		.slot = r.lane->slot,
		.lane = r.lane,
		.next = start,
		.limit = start + BL_SLOTS,
		.pay_size = BL_PAYLOAD_SIZE,
		.pay_most = BL_PAYLOAD_SIZE,
	};
	r.rx = (struct bl_rx){
		.slot = r.lane->slot,
		.lane = r.lane,
		.next = start,
		.credited = start,
		.span = SPAN_MOST,
	};
	return r;
}

static inline void ring_drop(struct ring *r)
{
	free(r->lane);
}

/* fill_pattern() does. */
static uint8_t pattern[65536 + 256];

static inline void fill_pattern(void)
{
	for (uint32_t i = 0; i < bl_countof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + i / 256);
}

/* What packet `n` carries. */
static inline const uint8_t *bytes_of(uint32_t n)
{
	return pattern + n * 89 % 256;
}

/* The steps of bl_put(), with bytes that name the packet. False: no room. */
static inline bool put(struct ring *r, uint32_t n, uint32_t len)
{
	const uint8_t *bytes = bytes_of(n);
	struct bl_slot *slot;
	uint8_t *place = NULL;

	if (!bl_tx_room(&r->tx) && !bl_tx_refresh(&r->tx))
		return false;
	slot = bl_tx_slot(&r->tx);
	if (len <= BL_SLOT_INLINE) {
		bl_slot_fill(slot, bytes, len);
	} else {
		place = bl_tx_payload(&r->tx, len);
		if (!place)
			return false;
		bl_tx_store(&r->tx, place, bytes, len);
		slot->at = (uint32_t)(place - r->lane->payload);
		bl_tx_payload_take(&r->tx, len);
	}
	slot->head = BL_HEAD(len, BL_OP_TAGGED, 0);
	slot->tag = n;
	slot->data = ~(uint64_t)n;
	bl_tx_publish(&r->tx, slot, len);
	if (place == r->tx.lane->payload)
		bl_tx_payload_again(&r->tx);
	return true;
}

/* What is wrong with the packet that the consumer sees, or NULL. */
static inline const char *wrong(const struct ring *r, const struct bl_slot *slot, uint32_t n,
				uint32_t len)
{
	const uint8_t *bytes;

	if (BL_HEAD_LEN(slot->head) != len || BL_HEAD_OP(slot->head) != BL_OP_TAGGED)
		return "head";
	if (slot->tag != n || slot->data != ~(uint64_t)n)
		return "order";
	bytes = bl_rx_bytes(&r->rx, slot, len);
	if (!bytes)
		return "place";
	return memcmp(bytes, bytes_of(n), len) ? "bytes" : NULL;
}

static inline void get(struct ring *r, uint32_t n, uint32_t len)
{
	const struct bl_slot *slot = bl_rx_peek(&r->rx);
	const char *what;

	assert_non_null(slot);
	what = wrong(r, slot, n, len);
	if (what)
		fail_msg("packet %u of %u bytes: wrong %s", n, len, what);
	bl_rx_consume(&r->rx, len);
}

#define TIMED  BL_TX_TIMED /* from so many bytes on stores are timed, */
#define PROBED 289u	   /* or, elsewhere, lines */

/* As on a machine where stores of so many bytes may pass the caches by. */
static inline void set_past_min(uint32_t min)
{
	atomic_store(&bl_tx_past_min, min);
}

#endif
