/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * trigger.h: operations that wait for a counter: libfabric's triggered operations and
 * its deferred work.
 *
 *   bl_work_queue ─► queue of the counter, by threshold
 *                        │  the counter gets there
 *                        ▼
 *                    bl_send, bl_recv, bl_rma, bl_cntr_set, bl_cntr_add
 *                        │  it completes
 *                        ▼
 *       as usual (triggered), or in a counter of its own (deferred: bl_work_over)
 *
 * Counting knows nothing of this. While a domain has any work, each of its endpoints
 * has one more thing to do (bl_ep.work), so that every progress ends with a look at
 * the counters that work waits for. Any progress in a domain drives all of its work,
 * whatever queue or counter was asked.
 *
 * What has begun but can't go now (its peer isn't connected yet, or has no room) waits in
 * that peer's queue (txq.h). Nothing here waits for anything, so that progress never
 * unlocks the domain.
 *
 * Serialised by the domain.
 */
#ifndef BL_ENDPOINT_TRIGGER_H
#define BL_ENDPOINT_TRIGGER_H

#include "core/deferred.h"
#include "endpoint/rma.h"

/* A copy of it is queued; what it points to is copied too, but for the buffers.
 * -EAGAIN: no memory; -EINVAL: too many pieces. */
int bl_work_queue(struct bl_domain *domain, const struct bl_work *work);
/* Deferred work that hasn't begun is gone without a word. -ENOENT: it isn't there. */
int bl_work_cancel(struct bl_domain *domain, const void *name);
/* The same for all that waits for this counter; NULL: for any. */
void bl_work_flush(struct bl_domain *domain, const struct bl_cntr *trigger);

/* --- the core's ------------------------------------------------------------ */

/* It could not be begun (a positive errno). counts: its owner hasn't taken it back. */
bl_cold void bl_work_fail(const struct bl_work *work, int err, bool counts);

/* A triggered operation that hasn't begun ends with ECANCELED; false: there is none. */
bool bl_work_cancel_triggered(struct bl_ep *ep, const void *context);
/* Make progress on the whole domain, and begin what may begin. `ep`, which may be NULL,
 * has made progress already. */
void bl_work_progress(struct bl_domain *domain, struct bl_ep *ep, struct bl_sink *sink);
/* Begin what may begin, no more: after what may have counted behind progress. */
void bl_work_look(struct bl_domain *domain);
/* The counter was changed by hand. */
void bl_work_kick(struct bl_cntr *cntr);
/* Whoever sleeps on these endpoints must not rely on being woken. */
bool bl_work_naps(const struct bl_domain *domain, uint32_t neps);
/* An endpoint of the domain opens, and closes: all work of it is gone. */
void bl_work_meet(struct bl_ep *ep);
void bl_work_drop(struct bl_ep *ep);

#endif
