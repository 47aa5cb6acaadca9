/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * defer.h: how operations that wait reach the core's queue (endpoint/trigger.h). Deferred work
 * of one-sided operations goes from deferred.c through rma.c or atomic.c, which translate
 * it, down to bl_fi_defer_rma() in trigger.c, which queues it.
 */
#ifndef BL_FABRIC_DEFER_H
#define BL_FABRIC_DEFER_H

#include "endpoint/trigger.h"
#include "fabric/fabric.h"

/* trigger.c */
int bl_fi_queue(struct bl_fi_domain *domain, const struct bl_work *work);
bl_cold ssize_t bl_fi_trigger_rma(struct bl_fi_ep *ep, const struct bl_rma *rma);
ssize_t bl_fi_defer_rma(struct bl_fi_ep *ep, const struct bl_rma *rma, struct bl_work *work);

/* rma.c, atomic.c */
ssize_t bl_fi_rma_defer(const struct fi_op_rma *op, bool read, struct bl_work *work);
ssize_t bl_fi_atomic_defer(const struct fi_op_atomic *op, struct bl_work *work);
ssize_t bl_fi_fetch_defer(const struct fi_op_fetch_atomic *op, struct bl_work *work);
ssize_t bl_fi_compare_defer(const struct fi_op_compare_atomic *op, struct bl_work *work);

/* Deferred work reports through its counter alone unless it asks for more. */
static inline uint64_t bl_fi_reports(const struct bl_fi_ep *ep, uint64_t flags)
{
	return flags & (ep->tx_mask | ep->rx_mask) & BL_COMPLETION;
}

static inline struct bl_recv bl_fi_recv_of(const struct bl_fi_ep *ep, const struct fi_msg *msg)
{
	return (struct bl_recv){
		.iov = msg->msg_iov,
		.niov = msg->iov_count,
		.src = msg->addr | ep->any_source,
		.context = msg->context,
		.flags = BL_MSG,
	};
}

static inline struct bl_recv bl_fi_trecv_of(const struct bl_fi_ep *ep,
					    const struct fi_msg_tagged *msg)
{
	return (struct bl_recv){
		.iov = msg->msg_iov,
		.niov = msg->iov_count,
		.src = msg->addr | ep->any_source,
		.tag = msg->tag,
		.ignore = msg->ignore,
		.context = msg->context,
		.flags = BL_TAGGED,
	};
}

#endif
