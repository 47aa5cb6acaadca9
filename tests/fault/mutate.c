/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * mutate.c: what a mad neighbour says (see generations.h): its packets and hellos
 * are those of a real endpoint in real traffic, and some of them are changed in one
 * or a few places just before they become visible. So most of what it says makes
 * sense, refers to transfers that exist, and is wrong in a detail. In the victim
 * only; its service thread and its own thread.
 */
#include <string.h>

#include "fault/generations.h"
#include "transport/local/link/hello.h"

/* Numbers that bounds are made of. */
static const uint64_t odd[] = {
	0,
	1,
	7,
	8,
	39,
	40,
	41,
	BL_SLOT_INLINE - 1,
	BL_SLOT_INLINE,
	BL_SLOT_INLINE + 1,
	BL_PAYLOAD_SIZE - 1,
	BL_PAYLOAD_SIZE,
	BL_PAYLOAD_MOST,
	BL_PAYLOAD_SIZE + 1,
	BL_PAYLOAD_MOST + 1,
	BL_PAYLOAD_OF(BL_LANE_LONG),
	BL_PAYLOAD_OF(BL_LANE_LONG) + 1,
	BL_PAYLOAD_OF(BL_LANE_COPYBUF),
	BL_PAYLOAD_OF(BL_LANE_COPYBUF) + 1,
	BL_COPYBUF_MOST,
	BL_COPYBUF_MOST + 1,
	BL_LANE_SIZE,
	BL_LANE_MOST,
	BL_CHUNK_SETS,
	BL_CHUNKS_MOST,
	UINT32_MAX,
	1ull << 32,
	1ull << 47,
	1ull << 63,
	UINT64_MAX - 7,
	UINT64_MAX,
};

/* One place of `bytes` is changed: a bit, a byte, or a number of 2, 4 or 8 bytes. */
static void change(uint8_t *bytes, size_t len, uint64_t *seed)
{
	uint64_t how = table_random(seed), value = odd[table_random(seed) % bl_countof(odd)];
	size_t size = 1u << how % 4, at = table_random(seed) % (len / size) * size;

	switch (how / 4 % 4) {
	case 0:
		bytes[at] ^= (uint8_t)(1u << how / 16 % 8);
		break;
	case 1:
		memcpy(bytes + at, &value, size);
		break;
	case 2:
		value = table_random(seed) >> table_random(seed) % 64;
		memcpy(bytes + at, &value, size);
		break;
	default: /* a little more or less than the truth */
		memcpy(&value, bytes + at, size);
		value += table_random(seed) % 17 - 8;
		memcpy(bytes + at, &value, size);
		break;
	}
}

static void mutate_packet(struct bl_slot *slot, uint64_t *seed)
{
	uint8_t *bytes = (uint8_t *)slot + offsetof(struct bl_slot, head);
	uint32_t op = BL_HEAD_OP(slot->head);
	/* What describes a large message lies behind the tag, and is short. */
	size_t len = op >= BL_OP_TAGGED_RTS ? 20 + BL_HEAD_LEN(slot->head) % BL_SLOT_SIZE : 40;

	for (uint64_t n = 1 + table_random(seed) % 3; n--;)
		change(bytes, bl_min(len, (size_t)(BL_SLOT_SIZE - 4)), seed);
}

/* Counters and chunk numbers in the neighbours' own memory that it may write. */
static void mutate_their_lanes(uint64_t *seed)
{
	for (struct bl_peer *p = ep->local.peers.all; p; p = p->next.all) {
		struct bl_lane *lane = p->adopted ? p->rx.lane : NULL;

		if (!lane)
			continue;
		if (table_random(seed) % 2)
			change((uint8_t *)lane, 2 * BL_LINE, seed);
		else
			change((uint8_t *)lane->chunks, 4 * sizeof lane->chunks[0], seed);
	}
}

void generations_mutate(enum bl_window window, void *what, uint64_t *seed)
{
	uint64_t dice = table_random(seed);

	if (window == BL_WINDOW_HELLO) {
		if (dice % 4 == 0)
			change(what, sizeof(struct bl_hello), seed);
		return;
	}
	if (dice % 16 == 0)
		mutate_packet(what, seed);
	if (dice / 16 % 64 == 0)
		mutate_their_lanes(seed);
}
