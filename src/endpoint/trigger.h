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

#include "core/work.h"
#include "endpoint/rma.h"

enum bl_work_what {
	BL_WORK_SEND,
	BL_WORK_INJECT, /* in a transmit queue only: counted, but without a completion */
	BL_WORK_RECV,
	BL_WORK_RMA,
	BL_WORK_SET,
	BL_WORK_ADD
};

struct bl_work {
	struct bl_work_end end; /* first; bl_work_queue() fills it */
	enum bl_work_what what;
	/* It completes in `done` and, unless asked to with BL_COMPLETION, nowhere else;
	 * false: as if it were called when the counter gets there. */
	bool deferred;
	struct bl_ep *ep;	 /* of an operation */
	struct bl_cntr *trigger; /* waited for ... */
	uint64_t threshold;	 /* ... until it is at least this */
	struct bl_cntr *done;	 /* may be NULL */
	struct bl_cntr *target;	 /* BL_WORK_SET, BL_WORK_ADD */
	uint64_t value;
	const void *name; /* by which it is cancelled */
	union {
		struct bl_send send;
		struct bl_recv recv;
		struct bl_rma rma;
	};
	/* the core's */
	struct bl_work *next, **link; /* link: only once it has begun */
	struct iovec iov[3][BL_IOV_MAX];
	struct bl_rma_place place[BL_IOV_MAX];
	void *more; /* or all of them, where there are more of any; allocated, or NULL */
};

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
/* A deferred operation has ended that its owner has taken back: that counts nowhere. */
void bl_work_taken_back(struct bl_work *work);
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
