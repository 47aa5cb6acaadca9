/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * claim_board.h: between claim_show.c, which shows receives, and claim.c, which deals with
 * what senders do about them. Serialised by the domain.
 */
#ifndef BL_CORE_CLAIM_BOARD_H
#define BL_CORE_CLAIM_BOARD_H

#include "core/claim.h"
#include "core/guess.h"

/* Our own copy of what is on a board of ours. */
struct bl_own_board {
	struct bl_peer *peer; /* who can see it */
	struct bl_board *shared;
	uint64_t used;
	struct bl_post *post[BL_ADVERTS];
	uint32_t generation[BL_ADVERTS];
	bool tagged[BL_ADVERTS];
	bool landing[BL_ADVERTS]; /* its RTS has been read */
	bool passed[BL_ADVERTS];  /* claimed: other messages have gone past it, and stay there */
	uint64_t lost;		  /* of `used`, when we close: a message has claimed these */
	bool dropped; /* a message whose sender died over the decision to claim for it */
};

/* A claimed message whose RTS has been read, until its receive is over. */
struct bl_landing {
	struct bl_landing *next_free;
	struct bl_arrival arrival;
	struct iovec piece[BL_IOV_MAX];
	struct bl_key key[BL_KEYS];
	struct bl_own_board *board;
	uint32_t index;
	/* helping */
	struct bl_coop *coop; /* NULL: the claimer copies alone */
	uint32_t coop_generation, count;
	size_t chunk, want;
	bool refused; /* the kernel doesn't let us: a chunk is missing */
};

/* All that an endpoint needs for its part; made with the first receive that is shown. */
struct bl_claims {
	struct bl_guesses guesses;
	struct bl_peer *only; /* our only neighbour; NULL: none, several */
	bool counted;	      /* `only` is right */
	uint64_t number;
	uint32_t generation;
	struct bl_landing **landing;
	uint32_t nlanding, room;
	struct bl_landing *free;
	uint64_t next_again; /* ticks */
	uint32_t again_us;
};

/* Of an RTS. The slot is the sender's; this word is for both to write. */
static inline _Atomic uint32_t *bl_taken_in(const struct bl_slot *slot)
{
	return (_Atomic uint32_t *)(uintptr_t)(slot->bytes + offsetof(struct bl_rts, taken));
}

/* The receive on this place isn't shown any more. */
void bl_board_take_down(struct bl_own_board *board, uint32_t i);

#endif
