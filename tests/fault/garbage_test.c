/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * garbage_test.c: a neighbour that has gone mad writes anything into the memory
 * it shares with two others, at any moment, while these two talk to each other.
 * They live, and what they tell each other arrives byte for byte. tests/fuzz does
 * the same more cleverly and one step at a time; here the memory changes while it
 * is being read.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "fault/traffic.h"

#define MAD	2
#define PACKETS 20000 /* to each: what it says may have to be kept */

enum target { SLOTS, LANE, CREDITS, HEADER };

struct garbage_row {
	struct row row;
	enum target target;
	size_t least, most; /* of the others' messages */
};

static const struct garbage_row rows[] = {
	{{"packets", "each is seen, and makes no sense"}, SLOTS, 0, 5000},
	{{"packets among large messages", "numbers of others' transfers may be guessed"},
	 SLOTS,
	 100000,
	 600000},
	{{"its whole lane", "what is being read changes"}, LANE, 0, 300000},
	{{"our lane", "credits and chunk counters, which it may write"}, CREDITS, 0, 300000},
	{{"its header", "life, closed, and no doorbells"}, HEADER, 0, 300000},
};

static const struct garbage_row *row;

static uint32_t random_head(uint64_t x)
{
	static const uint32_t lengths[] = {0,
					   8,
					   BL_SLOT_FIRST,
					   BL_SLOT_FIRST + 1,
					   144,
					   BL_SLOT_INLINE,
					   BL_SLOT_INLINE + 1,
					   BL_PAYLOAD_SIZE,
					   BL_PAYLOAD_MOST,
					   BL_PAYLOAD_SIZE + 1,
					   BL_PAYLOAD_OF(BL_LANE_LONG),
					   BL_PAYLOAD_OF(BL_LANE_LONG) + 1,
					   65536,
					   131072,
					   BL_COPYBUF_MOST,
					   BL_COPYBUF_MOST + 1,
					   sizeof(struct bl_rma_ask),
					   BL_DELEGATED_HEAD(1),
					   BL_DELEGATED_HEAD(1) + 8};

	return BL_HEAD(lengths[x % bl_countof(lengths)], 1 + x / 10 % BL_OP_WITHDRAW,
		       x / 1000 % 32);
}

/* One packet that the others will see. */
static void garbage_packet(struct bl_tx *tx, uint64_t *seed)
{
	struct bl_slot *slot = &tx->lane->slot[tx->next % BL_SLOTS];

	for (size_t i = 0; i < BL_SLOT_INLINE; i += 8) {
		uint64_t x = table_random(seed) >> table_random(seed) % 64;

		memcpy(slot->bytes + i, &x, 8);
	}
	slot->tag = table_random(seed) % 4 << 32 | table_random(seed) % 4;
	slot->data = table_random(seed) >> table_random(seed) % 64;
	slot->head = random_head(table_random(seed));
	atomic_store(&slot->seq, ++tx->next);
}

static void garbage_bytes(void *memory, size_t from, size_t to, uint64_t *seed)
{
	for (int i = 0; i < 64; i++) {
		uint64_t x = table_random(seed),
			 at = from + table_random(seed) % ((to - from) / 8) * 8;

		memcpy((uint8_t *)memory + at, &x, 8);
	}
}

static void go_mad(struct bl_peer *peer, uint64_t *seed)
{
	switch (row->target) {
	case SLOTS:
		garbage_packet(&peer->tx, seed);
		break;
	case LANE:
		garbage_packet(&peer->tx, seed);
		garbage_bytes(peer->tx.lane, 0, sizeof *peer->tx.lane, seed);
		break;
	case CREDITS:
		garbage_bytes(peer->rx.lane, 0, 64, seed);
		garbage_bytes(peer->rx.lane, offsetof(struct bl_lane, chunks),
			      offsetof(struct bl_lane, payload), seed);
		break;
	case HEADER:
		garbage_bytes(ep->local.seg.header, 0, sizeof *ep->local.seg.header, seed);
		break;
	}
}

static bool others_are_done(void)
{
	return atomic_load(&world->enough[0]) && atomic_load(&world->enough[1]);
}

static void mad_rank(void)
{
	uint64_t seed = 99;

	rank_open(MAD, RANKS);
	for (uint64_t to = 0; to < 2; to++)
		while (bl_inject(ep, "hi", 2, to, 77, 0, BL_TAGGED) == -EAGAIN)
			bl_ep_progress(ep);
	for (int i = 0; !others_are_done(); i++) {
		if (i < PACKETS) {
			go_mad(ep->dest[0], &seed);
			go_mad(ep->dest[1], &seed);
		}
		if (i % 16 == 0)
			sched_yield(); /* whoever is to read it has a turn */
	}
	_exit(0);
}

static void run(int rank)
{
	struct traffic t = {.rank = rank,
			    .count = 2, /* the third isn't worth talking to */
			    .victim = -1,
			    .least = row->least,
			    .most = row->most,
			    .limit = 600};

	if (rank == MAD)
		mad_rank();
	rank_open(rank, RANKS);
	traffic_run(&t);
	rank_close(rank);
}

static void garbage(void **state)
{
	row = TABLE_ROW(struct garbage_row, state);
	world_start(RANKS, run);
	world_end(MAD);
}

int main(void)
{
	TABLE_ROWS("garbage", garbage, rows);
	return table_run("garbage");
}
