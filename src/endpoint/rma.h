/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma.h: reading, writing and changing another process's registered memory.
 *
 * The origin finds the key in the target's table (mr.h), checks, and copies; the target takes no
 * part. An operation is over when the call returns (of a batch: with the next progress; batch.h).
 *
 *   origin                                  target
 *   key ─► entry, bounds, rights            (computes)
 *   process_vm_writev ─────────────────────► its memory
 *   lane.count + 1, if it counts ──────────► counter, when it looks (count.h)
 *   RMA_EVENT, with remote CQ data ────────► completion, counter
 *   complete
 *
 * A short one is delegated to a target that waits (delegated.h). Where the kernel refuses, the
 * target is asked: same checks, same bytes, same results, one operation at a time for each pair, in
 * order, and none of that pair goes directly meanwhile.
 *
 *   RMA_ASK ─────────────────────────────────► checks in its own table
 *   RMA_BYTES ... ───────────────────────────► writes, or keeps operands and applies them
 *   result ◄─────────────────────── RMA_RESULT ...
 *   complete ◄────────────────────────────── RMA_DONE
 *
 * A long atomic operation is asked for in parts (BL_RMA_PART). Serialised by the
 * domain.
 */
#ifndef BL_ENDPOINT_RMA_H
#define BL_ENDPOINT_RMA_H

#include "core/rma.h"

/*
 * Begin it, and mostly end it. 0: it completes through the queue, also when it
 * fails there: EKEYREJECTED (no such key), EACCES (not that way), EINVAL (not
 * within the region), EFAULT (no such memory), ECONNRESET, ENOTCONN. What can't begin yet
 * is queued (txq.h). -EAGAIN: too many injected bytes are, or no memory. -EINVAL: lengths that
 * differ. -EMSGSIZE: inject too long.
 */
int bl_rma(struct bl_ep *ep, const struct bl_rma *rma);

/* Messages to the peer, or operations on its memory, that haven't completed. */
bool bl_rma_pending(const struct bl_ep *ep, const struct bl_peer *peer);

#endif
