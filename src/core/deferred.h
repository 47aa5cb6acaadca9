/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deferred.h: an operation whose end somebody else hears of: triggered and deferred work; what they
 * wait for is in endpoint/trigger.h. Serialised by the domain.
 */
#ifndef BL_CORE_DEFERRED_H
#define BL_CORE_DEFERRED_H

#include "core/rma.h"

enum bl_work_what {
	BL_WORK_SEND,
	BL_WORK_INJECT, /* in a transmit queue only: counted, but without a completion */
	BL_WORK_RECV,
	BL_WORK_RMA,
	BL_WORK_SET,
	BL_WORK_ADD
};

struct bl_work {
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

/* It has begun no more: out of the domain's list of such. */
void bl_work_unlink(struct bl_work *w);
/* This endpoint looks after the domain's work, or doesn't. */
void bl_work_attend(struct bl_ep *ep, bool on);
/* One more, or one less, is queued or has begun. */
void bl_work_count(struct bl_domain *domain, bool more);
/* Its counters aren't closed before it is over. */
void bl_work_hold(const struct bl_work *w, bool on);
/* It is in no list, and is freed. */
void bl_work_end(struct bl_work *w);
/* A deferred operation has ended (a positive errno); it is no more on return. */
void bl_work_over(struct bl_work *work, int err);

/* The same for one that its owner has taken back: that counts nowhere. */
void bl_work_taken_back(struct bl_work *work);

#endif
