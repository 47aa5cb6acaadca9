/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * proxy_post.h: between proxy_post.c, which publishes receives, and proxy_rx.c, which deals with
 * what senders do about them. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_WAYS_PROXY_POST_H
#define BL_TRANSPORT_LOCAL_WAYS_PROXY_POST_H

#include "transport/local/ways/proxy.h"
#include "core/predict.h"

/* Our own copy of what is on a board of ours. */
struct bl_own_adverts {
	struct bl_peer *peer; /* who can see it */
	struct bl_adverts *shared;
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
struct bl_claimed {
	struct bl_claimed *next_free;
	struct bl_arrival arrival;
	struct iovec piece[BL_IOV_MAX];
	struct bl_rkey key[BL_RKEYS];
	struct bl_own_adverts *board;
	uint32_t index;
	/* helping */
	struct bl_chunks *chunks; /* NULL: the claimer copies alone */
	uint32_t chunks_generation, count;
	size_t chunk, want;
	bool refused; /* the kernel doesn't let us: a chunk is missing */
};

/* All that an endpoint needs for its part; made with the first receive that is shown. */
struct bl_proxy {
	struct bl_predictions guesses;
	struct bl_peer *only; /* our only neighbour; NULL: none, several */
	bool counted;	      /* `only` is right */
	uint64_t number;
	uint32_t generation;
	struct bl_claimed **landing;
	uint32_t nclaimed, room;
	struct bl_claimed *free;
	uint64_t next_again; /* ticks */
	uint32_t again_us;
};

/* Of an RTS. The slot is the sender's; this word is for both to write. */
static inline _Atomic uint32_t *bl_taken_in(const struct bl_slot *slot)
{
	return (_Atomic uint32_t *)(uintptr_t)(slot->bytes + offsetof(struct bl_rts, taken));
}

/* The receive on this place isn't shown any more. */
void bl_adverts_revoke(struct bl_own_adverts *board, uint32_t i);

#endif
