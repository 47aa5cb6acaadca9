/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * delegated.h: short one-sided operations that a target which waits in the library does itself.
 *
 * A system call that copies a few bytes takes longer than two packets that cross. So a target that
 * was in the library a moment ago is asked, and the origin waits, in the same call, for its word.
 * What it hasn't taken up within some microseconds is taken back, and done directly.
 *
 *   origin                                  target
 *   RMA_DELEGATED ──────────────────────────► serving = its number
 *   waits; polls, and does others'            is it still theirs?
 *                                             checks in its own table; reads, writes, or applies
 *   complete ◄─────────────────────────────── served = its number, and how
 *
 *   or: ours = 1                              serving = its number
 *   isn't it being served?                    is it still theirs?
 *   directly (rma.h)                          no: served = its number, not done
 *
 * Each says what it is about to do, then looks at what the other has said: so at most one does it.
 * A target that loses its core in the middle is waited for by progress (bl_rma_rest). Two that ask
 * each other serve each other while they wait. Many places in one region go as runs (runs.h).
 *
 * The target touches its memory itself only where the kernel has found it to be there a moment ago
 * (struct bl_there), or can't copy it though it is mapped. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_RMA_DELEGATED_H
#define BL_TRANSPORT_LOCAL_RMA_DELEGATED_H

#include "transport/local/rma/rma.h"

#define BL_DELEGATED_LEFT 1   /* it ends later */
#define BL_DELEGATED_MANY 16u /* places that take the kernel longer than any target that waits */

#define BL_DELEGATED_ALWAYS 1u /* FI_BEELINE_RMA_DELEGATE */
#define BL_DELEGATED_NEVER  2u

/*
 * The origin's side. 0: it is over, with *err (a positive errno) for the queue. BL_DELEGATED_LEFT:
 * the target has it, and it ends when bl_delegated_look() says so of *number. -EOPNOTSUPP: nothing
 * has happened, do it yourself.
 */
int bl_delegated_ask(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		     uint64_t *number, int *err);
/* The same of one that was left; BL_DELEGATED_LEFT: still. *moved, unless NULL: of a write that has
 * failed, how many of its bytes are there all the same. */
int bl_delegated_look(struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len, uint64_t number,
		      size_t *moved, int *err);
/* The two halves of bl_delegated_ask(), for several that are done together (batch.h): whether the
 * target is asked at all (many: of at least BL_DELEGATED_MANY places); and asking it, for what
 * fits. */
bool bl_delegated_is_open(struct bl_ep *ep, struct bl_rma_peer *rp, bool many);
int bl_delegated_now(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		     uint64_t *number, size_t *moved, int *err);
/* Reads, or writes, of len bytes in all at so many places fit. */
bool bl_delegated_fits(enum bl_rma_what what, size_t nplace, size_t len);

/* The target's side: a packet RMA_DELEGATED, whose bytes these are. -EPROTO: it makes no sense. */
int bl_delegated_packet(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint32_t head,
			uint64_t number, uint64_t data, const void *bytes);

#endif
