/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * count.h: remote counters: direct one-sided operations are counted by their origin, at the target,
 * without its help: a target that computes must not keep an origin from its next operation.
 *
 * A counter that counts others' operations has a number in its domain. The endpoint's header
 * (bl_seg_mr.events) and the region's entry say which.
 *
 *   origin                                  target
 *   rma_busy = which copy                   (computes)
 *   copies                                  ...
 *   count[number - 1] + 1   (release)       polls the lane: count - counted is new   (acquire)
 *   polled? else rings the doorbell             or is rung for, as for packets
 *   rma_busy = 0                            bl_cntr + what is new
 *
 * Only its origin writes a word (bl_lane.count), and only its target reads it: no locked
 * instruction, no line that origins share. Who writes nonsense spoils its own count alone.
 *
 * A packet RMA_EVENT goes where a completion is to be written, with remote CQ data, and where a
 * counter has no number, for there are BL_RMA_COUNTS of them. No operation counts in both ways. A
 * number is somebody else's only when nobody can add what was meant for the one before.
 *
 * Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_RMA_COUNT_H
#define BL_TRANSPORT_LOCAL_RMA_COUNT_H

#include "transport/local/rma/rma.h"

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

#endif
