/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * advert.h: the words by which a sender finds, and wins, the receive of a process that has gone
 * away to compute. Two words decide, each by one compare-and-swap:
 *
 *   bl_rts.taken (in the sender's slot)       bl_advert.state (the receiver's lane)
 *
 *   OPEN ──receiver reads the packet──► RECEIVER
 *    ├───sender cancels───► WITHDRAWN
 *    │ ▲                                      OPEN ──owner matches, revokes──► OWNED
 *    ▼ │ nothing to claim                      │
 *   SENDER                                     │ claimer (holds SENDER)
 *    │ an advert is won                        ▼
 *    ▼                                        CLAIMED ─► DONE: the bytes are there
 *   CLAIMED | which advert                       ├─► LEFT: all but the owner's chunks
 *                                                └─► YOURS: the owner copies it all
 *
 * From CLAIMED on, message and receive belong together, whoever copies. A generation in the state
 * keeps a late claimer from winning a receive that it did not look at.
 *
 * The adverts of a lane have one owner, who publishes and retires, and one neighbour, who may look
 * and claim. All lock-free. A claimer that dies leaves SENDER (the message is dropped) or CLAIMED
 * (the receive ends with an error). The owner believes its private copy of the receive alone.
 */
#ifndef BL_TRANSPORT_LOCAL_WAYS_ADVERT_H
#define BL_TRANSPORT_LOCAL_WAYS_ADVERT_H

#include <string.h>

#include "copy/move.h"
#include "transport/local/lane/wire.h"

#define BL_TAKEN_STATE(word)  ((word)&0xff)
#define BL_TAKEN_ADVERT(word) ((word) >> 8 & 0xff)
#define BL_TAKEN_BY(i)	      (BL_TAKEN_CLAIMED | (uint32_t)(i) << 8)

enum bl_advert_state {
	BL_ADVERT_FREE,
	BL_ADVERT_OPEN,
	BL_ADVERT_OWNED,
	BL_ADVERT_CLAIMED,
	BL_ADVERT_DONE,
	BL_ADVERT_LEFT,
	BL_ADVERT_YOURS,
};
#define BL_ADVERT_STATE(state)	     ((uint32_t)(state)&0xf)
#define BL_ADVERT_CLAIMER(state)     ((uint32_t)(state) >> 16 & 0xffff)
#define BL_ADVERT_GENERATION(state)  ((uint32_t)((state) >> 32))
#define BL_ADVERT_WORD(gen, who, st) ((uint64_t)(gen) << 32 | (uint64_t)(who) << 16 | (st))

/* A private copy of an advert, as a claimer found it. */
struct bl_found {
	struct bl_advert *advert;
	uint32_t index, generation;
	uint64_t number, tag, ignore, base, len;
	uint32_t pieces;
};

/* --- the owner ----------------------------------------------------------- */

/* Show a receive: the advert of this index, which is not in use, and whose pieces have been
 * written; used: the owner's own copy of `posted`, with it. */
static inline void bl_adverts_post(struct bl_adverts *board, uint64_t used,
				   const struct bl_found *f, bool tagged)
{
	struct bl_advert *a = &board->advert[f->index];

	atomic_store_explicit(&a->number, f->number, memory_order_relaxed);
	atomic_store_explicit(&a->tag, f->tag, memory_order_relaxed);
	atomic_store_explicit(&a->ignore, f->ignore, memory_order_relaxed);
	atomic_store_explicit(&a->base, f->base, memory_order_relaxed);
	atomic_store_explicit(&a->len, f->len, memory_order_relaxed);
	atomic_store_explicit(&a->tagged, tagged, memory_order_relaxed);
	atomic_store_explicit(&a->pieces, (uint16_t)f->pieces, memory_order_relaxed);
	atomic_store_explicit(&a->chunks, 0, memory_order_relaxed);
	/* release: pairs with the acquire of the state in bl_adverts_look */
	atomic_store_explicit(&a->state, BL_ADVERT_WORD(f->generation, 0, BL_ADVERT_OPEN),
			      memory_order_release);
	/* release: pairs with the acquire of `posted` in bl_adverts_look: who sees this
	 * receive sees those posted before it */
	atomic_store_explicit(&board->posted, used, memory_order_release);
}

/* The receive is over; its advert may be used again. used: without it. */
static inline void bl_adverts_retire(struct bl_adverts *board, uint64_t used)
{
	atomic_store_explicit(&board->posted, used, memory_order_relaxed);
}

/* Any is shown. */
static inline bool bl_adverts_any(const struct bl_adverts *board)
{
	return atomic_load_explicit(&board->posted, memory_order_relaxed) != 0;
}

/* The owner wants the receive for itself. False: a claimer has it. */
static inline bool bl_advert_own(struct bl_advert *a, uint32_t generation)
{
	uint64_t open = BL_ADVERT_WORD(generation, 0, BL_ADVERT_OPEN);

	return atomic_compare_exchange_strong_explicit(
		&a->state, &open, BL_ADVERT_WORD(generation, 0, BL_ADVERT_OWNED),
		memory_order_acq_rel, memory_order_acquire);
}

static inline uint64_t bl_advert_look(const struct bl_advert *a)
{
	/* acquire: pairs with the release in bl_advert_end */
	return atomic_load_explicit(&a->state, memory_order_acquire);
}

/* --- a claimer ----------------------------------------------------------- */

/* One look at the board: f is the first receive in sight that takes such a message and
 * was posted before `below`. */
static inline bool bl_adverts_look(struct bl_adverts *board, bool tagged, uint64_t tag,
				   uint64_t below, struct bl_found *f)
{
	/* acquire: pairs with the release in bl_adverts_post */
	uint64_t posted = atomic_load_explicit(&board->posted, memory_order_acquire);
	bool any = false;

	for (posted &= UINT64_MAX >> (64 - BL_ADVERTS); posted; posted &= posted - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(posted);
		struct bl_advert *a = &board->advert[i];
		/* acquire: pairs with the release in bl_adverts_post */
		uint64_t state = atomic_load_explicit(&a->state, memory_order_acquire);
		uint64_t number = atomic_load_explicit(&a->number, memory_order_relaxed);
		uint64_t want = atomic_load_explicit(&a->tag, memory_order_relaxed);
		uint64_t ignore = atomic_load_explicit(&a->ignore, memory_order_relaxed);

		if (BL_ADVERT_STATE(state) != BL_ADVERT_OPEN || number >= below ||
		    atomic_load_explicit(&a->tagged, memory_order_relaxed) != tagged ||
		    ((want ^ tag) & ~ignore))
			continue;
		/* Should it have been reused meanwhile, the generation tells. */
		*f = (struct bl_found){
			a,
			i,
			BL_ADVERT_GENERATION(state),
			number,
			want,
			ignore,
			atomic_load_explicit(&a->base, memory_order_relaxed),
			atomic_load_explicit(&a->len, memory_order_relaxed),
			atomic_load_explicit(&a->pieces, memory_order_relaxed),
		};
		below = number;
		any = true;
	}
	return any;
}

/*
 * The first receive on the board that takes such a message. What one look finds may have
 * been posted after something that the look came too early for, in the place of
 * one that was over; but what was posted before it is visible from then on: so a second
 * look is for what is older.
 */
static inline bool bl_adverts_find(struct bl_adverts *board, bool tagged, uint64_t tag,
				   struct bl_found *f)
{
	if (!bl_adverts_look(board, tagged, tag, UINT64_MAX, f))
		return false;
	bl_adverts_look(board, tagged, tag, f->number, f);
	return true;
}

/* Make the receive ours. me: our number at its owner's. */
static inline bool bl_advert_claim(const struct bl_found *f, uint32_t me)
{
	uint64_t open = BL_ADVERT_WORD(f->generation, 0, BL_ADVERT_OPEN);

	return atomic_compare_exchange_strong_explicit(
		&f->advert->state, &open, BL_ADVERT_WORD(f->generation, me, BL_ADVERT_CLAIMED),
		memory_order_acq_rel, memory_order_acquire);
}

/* Where the receive that we have claimed is: through *count pieces, BL_RKEYS of room.
 * False: what its owner says of that makes no sense. */
static inline bool bl_adverts_pieces(const struct bl_adverts *board, const struct bl_found *f,
				     struct iovec *piece, uint32_t *count)
{
	struct bl_piece copy[BL_RKEYS];

	piece[0] = (struct iovec){(void *)(uintptr_t)f->base, f->len};
	*count = 1;
	if (likely(!f->pieces))
		return true;
	if (f->pieces < 2 || f->pieces > BL_RKEYS || f->index < BL_SCATTER_FIRST)
		return false;
	/* They were written before the state that the claim has changed. */
	memcpy(copy, board->scatter[f->index - BL_SCATTER_FIRST].piece, f->pieces * sizeof copy[0]);
	for (uint32_t i = 0; i < f->pieces; i++)
		piece[i] = (struct iovec){(void *)(uintptr_t)copy[i].base, copy[i].len};
	*count = f->pieces;
	return bl_iov_len_checked(piece, f->pieces) == f->len;
}

/* The claimer is done with it, in this way; it doesn't touch it again. */
static inline void bl_advert_end(const struct bl_found *f, uint32_t me, enum bl_advert_state how)
{
	/* release: pairs with the acquire in bl_advert_look */
	atomic_store_explicit(&f->advert->state, BL_ADVERT_WORD(f->generation, me, how),
			      memory_order_release);
}

/* --- the message --------------------------------------------------------- */

static inline uint32_t bl_taken_look(const _Atomic uint32_t *taken)
{
	/* acquire: pairs with the release in bl_taken_set */
	return atomic_load_explicit(taken, memory_order_acquire);
}

/* Receiver: RECEIVER; sender: SENDER or WITHDRAWN; if it is open. */
static inline bool bl_taken_take(_Atomic uint32_t *taken, enum bl_taken who)
{
	uint32_t open = BL_TAKEN_OPEN;

	return atomic_compare_exchange_strong_explicit(taken, &open, who, memory_order_acq_rel,
						       memory_order_acquire);
}

/* Sender, from SENDER: open again, or claimed. */
static inline void bl_taken_set(_Atomic uint32_t *taken, uint32_t word)
{
	/* release: pairs with the acquire in bl_taken_look */
	atomic_store_explicit(taken, word, memory_order_release);
}

/*
 * Between what we have shown (a packet, an advert) and our look at what the other
 * side shows: of a receive and a message that come at once, one side at least sees
 * the other's.
 */
static inline void bl_proxy_fence(void)
{
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan" /* it only doesn't learn from it */
#endif
	atomic_thread_fence(memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

#endif
