/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * chunks.h: split copy: one message copied by two processes. The message is
 * cut into chunks; one word in shared memory hands them out, to the receiver from
 * the front and to the sender from the back, until they meet: whoever waits inside
 * the library takes the next one, and each process walks through memory in one
 * piece, the same piece the next time if both are as fast (its caches remember).
 * The receiver owns the descriptor and reuses it: a generation in the word keeps
 * a sender that comes late from taking a chunk of somebody else's message.
 *
 * No byte is lost or copied by two: a chunk belongs to the process whose
 * compare-and-swap took it, until it is counted as done (tx_done, or the
 * receiver's private count) or given back (tx_back; at most one, because a
 * sender that had to give one back takes no more).
 *
 * A crash in the middle leaves a chunk that is never counted: the receiver
 * finds the sender dead and ends the message with an error.
 */
#ifndef BL_COPY_CHUNKS_H
#define BL_COPY_CHUNKS_H

#include <assert.h>

#include "base/compiler.h"

/* In shared memory. Nobody believes what is read here beyond the bounds that it
 * keeps privately. */
struct bl_chunks {
	/* generation << 32 | end << 16 | front: chunks [front, end) are not taken */
	_Atomic uint64_t left;
	uint8_t pad0[BL_LINE - 8];
	_Atomic uint32_t tx_done; /* chunks that the sender has written; sender writes */
	_Atomic uint32_t tx_back; /* 1 + a chunk that the sender could not write, BL_CHUNKS_FAULT */
	uint8_t pad1[BL_LINE - 8];
};
static_assert(sizeof(struct bl_chunks) == 2 * BL_LINE, "shared layout");
static_assert(offsetof(struct bl_chunks, tx_done) == BL_LINE, "shared layout");

#define BL_CHUNKS_NONE	UINT32_MAX
#define BL_CHUNKS_MOST	65535u	    /* chunks in one message */
#define BL_CHUNKS_FAULT 0x80000000u /* -EFAULT: it was allowed to write, but not there */

static inline uint64_t bl_chunks_word(uint32_t generation, uint32_t front, uint32_t end)
{
	return (uint64_t)generation << 32 | (uint64_t)end << 16 | front;
}

/* Receiver only, before the sender is told; count is at most BL_CHUNKS_MOST. */
static inline void bl_chunks_start(struct bl_chunks *chunks, uint32_t generation, uint32_t count)
{
	atomic_store_explicit(&chunks->tx_done, 0, memory_order_relaxed);
	atomic_store_explicit(&chunks->tx_back, 0, memory_order_relaxed);
	/* release: pairs with the acquire in bl_chunks_take */
	atomic_store_explicit(&chunks->left, bl_chunks_word(generation, 0, count),
			      memory_order_release);
}

/*
 * Take a chunk below count, from the back (the sender) or from the front (the
 * receiver); BL_CHUNKS_NONE: none is left, or the message is over. Lock-free.
 */
static inline uint32_t bl_chunks_take(struct bl_chunks *chunks, uint32_t generation, uint32_t count,
				      bool back)
{
	/* acquire: pairs with the release in bl_chunks_start */
	uint64_t seen = atomic_load_explicit(&chunks->left, memory_order_acquire);

	for (;;) {
		uint32_t front = seen & 0xffff, end = seen >> 16 & 0xffff;

		/* The neighbour can write here: nothing beyond count is believed. */
		if (seen >> 32 != generation || front >= end || end > count)
			return BL_CHUNKS_NONE;
		if (atomic_compare_exchange_weak_explicit(
			    &chunks->left, &seen,
			    back ? bl_chunks_word(generation, front, end - 1)
				 : bl_chunks_word(generation, front + 1, end),
			    memory_order_acq_rel, memory_order_acquire))
			return back ? end - 1 : front;
	}
}

/* Receiver: no chunk is handed out any more; those not taken are [*front, *end). */
static inline void bl_chunks_stop(struct bl_chunks *chunks, uint32_t generation, uint32_t count,
				  uint32_t *front, uint32_t *end)
{
	uint64_t old = atomic_exchange_explicit(&chunks->left, bl_chunks_word(generation, 0, 0),
						memory_order_acq_rel);

	*front = old & 0xffff;
	*end = old >> 16 & 0xffff;
	if (old >> 32 != generation || *end > count || *front > *end)
		*front = *end = 0; /* a neighbour's nonsense, about its own message */
}

/* Sender: one more chunk is in the receiver's memory. */
static inline void bl_chunks_count(struct bl_chunks *chunks)
{
	uint32_t done = atomic_load_explicit(&chunks->tx_done, memory_order_relaxed);

	/* release: pairs with the acquire in bl_chunks_counted */
	atomic_store_explicit(&chunks->tx_done, done + 1, memory_order_release);
}

/* Sender: `chunk` (| BL_CHUNKS_FAULT) could not be written; it takes no more of this message. */
static inline void bl_chunks_give_back(struct bl_chunks *chunks, uint32_t chunk)
{
	atomic_store_explicit(&chunks->tx_back, chunk + 1, memory_order_release);
}

/* Receiver: chunks written by the sender so far. */
static inline uint32_t bl_chunks_counted(struct bl_chunks *chunks)
{
	/* acquire: pairs with the release in bl_chunks_count */
	return atomic_load_explicit(&chunks->tx_done, memory_order_acquire);
}

/* Receiver: the chunk given back, or BL_CHUNKS_NONE. */
static inline uint32_t bl_chunks_returned(struct bl_chunks *chunks)
{
	uint32_t back = atomic_load_explicit(&chunks->tx_back, memory_order_acquire);

	return back ? (back - 1) & ~BL_CHUNKS_FAULT : BL_CHUNKS_NONE;
}

/* Receiver: and why, of one that was. */
static inline bool bl_chunks_is_fault(struct bl_chunks *chunks)
{
	return (atomic_load_explicit(&chunks->tx_back, memory_order_relaxed) - 1) & BL_CHUNKS_FAULT;
}

#endif
