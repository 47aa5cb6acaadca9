/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stat.h: the core's events, as `beeline stat` counts them (transport/local/lane/stats.h has the
 * table). Each takes the endpoint's domain as everything in the core does. Not
 * for the way of a short message.
 */
#ifndef BL_CORE_STAT_H
#define BL_CORE_STAT_H

#include "core/ep.h"
#include "transport/local/lane/count.h"

/* `which`: a row of BL_STATS, spelled BL_STAT_<name>. */
static inline void bl_stat_add(struct bl_ep *ep, enum bl_stat which, uint64_t n)
{
	bl_stats_add(ep->local.stats, which, n);
}

/* The ways that a large message can take, in the order of the table's rows. */
enum bl_stat_way {
	BL_WAY_ONE_COPY,
	BL_WAY_SPLIT,
	BL_WAY_PROXY,
	BL_WAY_FRAG,
	BL_WAY_CLAIMED,
};
static_assert(BL_STAT_sent_split == BL_STAT_sent_one_copy + 2 * BL_WAY_SPLIT, "the table's order");
static_assert(BL_STAT_sent_by_proxy == BL_STAT_sent_one_copy + 2 * BL_WAY_PROXY,
	      "the table's order");
static_assert(BL_STAT_sent_fragmented == BL_STAT_sent_one_copy + 2 * BL_WAY_FRAG,
	      "the table's order");
static_assert(BL_STAT_sent_claimed == BL_STAT_sent_one_copy + 2 * BL_WAY_CLAIMED,
	      "the table's order");
static_assert(BL_STAT_received_claimed == BL_STAT_received_one_copy + 2 * BL_WAY_CLAIMED,
	      "the table's order");

/* A large message of len bytes is over; err: 0, or why it failed. */
static inline void bl_stat_sent(struct bl_ep *ep, enum bl_stat_way way, size_t len, int err)
{
	if (err) {
		bl_stat_add(ep, BL_STAT_failed_sends, 1);
		return;
	}
	bl_stat_add(ep, BL_STAT_sent_one_copy + 2 * way, 1);
	bl_stat_add(ep, BL_STAT_sent_one_copy_bytes + 2 * way, len);
}

static inline void bl_stat_received(struct bl_ep *ep, enum bl_stat_way way, size_t len, int err)
{
	if (err) {
		bl_stat_add(ep, BL_STAT_failed_receives, 1);
		return;
	}
	bl_stat_add(ep, BL_STAT_received_one_copy + 2 * way, 1);
	bl_stat_add(ep, BL_STAT_received_one_copy_bytes + 2 * way, len);
}

/* A message waits for its receive, with `kept` bytes of it copied here. */
static inline void bl_stat_unexpected(struct bl_ep *ep, size_t kept)
{
	bl_stat_add(ep, BL_STAT_unexpected, 1);
	bl_stat_add(ep, BL_STAT_unexpected_total, 1);
	bl_stat_add(ep, BL_STAT_unexpected_bytes, kept);
	bl_stats_most(ep->local.stats, BL_STAT_unexpected, BL_STAT_unexpected_most);
}

static inline void bl_stat_unexpected_over(struct bl_ep *ep, size_t kept)
{
	bl_stat_add(ep, BL_STAT_unexpected, (uint64_t)-1);
	bl_stat_add(ep, BL_STAT_unexpected_bytes, -(uint64_t)kept);
}

#endif
