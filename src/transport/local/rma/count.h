/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * count.h: counting direct one-sided operations where they happen, at their target, without its
 * help: a target that computes must not keep an origin from its next operation.
 *
 * A counter that counts others' operations, an endpoint's or a region's, has a number in its
 * domain. The endpoint's header (bl_seg_mr.events) and the region's entry say which; and the
 * origin, when it has copied, adds one to the word of that number in the target's lane to it
 * (bl_lane.count). The target takes what is new there into the counter whenever it makes progress.
 *
 *   origin                                  target
 *   rma_busy = which copy                   (computes)
 *   copies                                  ...
 *   count[number - 1] + 1   (release)       polls the lane: count - counted is new   (acquire)
 *   polled? else rings the doorbell             or is rung for, as for packets
 *   rma_busy = 0                            bl_cntr + what is new
 *
 * Only its origin writes a word, and only its target reads it: no locked instruction, no line that
 * origins share, and who writes nonsense there has only spoilt the count of its own operations,
 * as it could by as many operations. An endpoint whose domain has no such counter looks at nothing;
 * one that looks has that counted in bl_ep.work, as for work that waits (trigger.h).
 *
 * A packet RMA_EVENT goes where a completion is to be written, with remote CQ data, and where a
 * counter has no number, for there are BL_RMA_COUNTS of them. Its target then counts by hand, in
 * all counters, as it does what it has done itself for an origin: no operation counts in both ways.
 *
 * A number is somebody else's only when nobody can add what was meant for the one before: that one
 * is closed, so its regions and endpoints are, each after all copies that had begun (rma_busy). Who
 * stays in the middle of one, or has our lane and isn't known to the owner yet, keeps numbers that
 * have been used from being used again.
 *
 * Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_RMA_COUNT_H
#define BL_TRANSPORT_LOCAL_RMA_COUNT_H

#include "endpoint/rma.h"

/* --- the origin's ---------------------------------------------------------- */

/* How the target hears of an operation that is about to be done: by a packet, or by these counts;
 * or not at all. */
struct bl_heard {
	bool packet;
	uint32_t n;
	uint8_t number[BL_IOV_MAX + 1];
};

void bl_rma_count_plan(const struct bl_peer *peer, const struct bl_rma *rma,
		       const struct bl_rma_memory *mem, struct bl_heard *heard);
/* It is done. Before rma_busy says that the copy is over. */
void bl_rma_count_add(struct bl_peer *peer, const struct bl_heard *heard);

/* --- the target's ---------------------------------------------------------- */

/* The number of a counter of others' operations, given at the first call, or 0: there is none
 * left. NULL: 0. */
uint32_t bl_rma_count_number(struct bl_cntr *cntr);
/* The counter closes. */
void bl_rma_count_leave(struct bl_cntr *cntr);
/* The endpoint opens. */
void bl_rma_count_meet(struct bl_ep *ep);

/* Take what has been counted by a neighbour; by those whose lanes are polled; by all. */
void bl_rma_count_take(struct bl_ep *ep, struct bl_peer *peer);
void bl_rma_count_take_polled(struct bl_ep *ep);
bl_cold void bl_rma_count_take_all(struct bl_ep *ep);
/* The same in the whole domain, and of neighbours that its endpoints know only now. */
bl_cold void bl_rma_count_settle(struct bl_domain *domain);

#endif
