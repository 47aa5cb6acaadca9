/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fence.h: fenced operations that can't begin yet, and what was posted behind them.
 *
 *   fenced, and earlier ones to the peer aren't over ─┐
 *   anything to a peer that has a queue ──────────────┴─► queue of the peer
 *                                                              │  progress: the first
 *                                                              ▼  may begin
 *                                                     bl_send, bl_inject, bl_rma
 *
 * The quick path knows nothing of it: while a peer has a queue, no place of bl_ep.dest
 * names it, so that what goes there takes the slow way, and meets the queue.
 *
 * What is queued is a copy, of injected bytes too. It ends as it would have without a
 * fence; what can't begin then, since its peer has died, say, reports that as its end.
 * Serialised by the domain.
 */
#ifndef BL_CORE_FENCE_H
#define BL_CORE_FENCE_H

#include "core/rma.h"

#define BL_FENCE_MOST 1024u /* operations to one peer; beyond that -EAGAIN */

/* Must what goes to this peer wait behind others? */
static inline bool bl_fenced(const struct bl_ep *ep, const struct bl_peer *peer)
{
	return peer->fence && ep->opening != peer;
}

/* It could not be begun, for this reason: if that is BL_FENCED, queue it; else say so.
 * bl_fence_inject() and bl_fence_buf() (ep.h) queue it. */
bl_cold int bl_fence_send(struct bl_ep *ep, const struct bl_send *send, int err);
bl_cold int bl_fence_rma(struct bl_ep *ep, const struct bl_rma *rma, int err);
/* Begin what may begin. */
bl_cold void bl_fence_progress(struct bl_ep *ep);
/* Something may change now: it waits for a look, or for room, whose coming nobody tells it. */
bool bl_fence_may_open(const struct bl_ep *ep);
/* One that hasn't begun ends with ECANCELED; false: there is none with this context. */
bool bl_fence_cancel(struct bl_ep *ep, const void *context);
/* The endpoint closes: what still waits, since something before it does, is gone without a
 * word, as that is. */
void bl_fence_drop(struct bl_ep *ep);

#endif
