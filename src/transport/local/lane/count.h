/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * count.h: writing what stats.h describes. The owner's domain, but for the peers
 * that its service thread connects (bl_local.lock held, and not adopted yet). One
 * writer at a time: a load, an addition and a store, none of them locked.
 *
 * Not for the way of a short message, which is counted without being told of.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_COUNT_H
#define BL_TRANSPORT_LOCAL_LANE_COUNT_H

#include "transport/local/local.h"

/* Where endpoints count that have no segment: not enabled, closed or forked. */
extern struct bl_stats bl_no_stats;
extern struct bl_lane_stats bl_no_lane_stats;

static inline void bl_stats_bump(_Atomic uint64_t *value, uint64_t n)
{
	/* relaxed: for display; nothing is read by way of it */
	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline void bl_stats_add(struct bl_stats *stats, enum bl_stat which, uint64_t n)
{
	bl_stats_bump(&stats->counter[which].value, n);
}

static inline void bl_stats_most(struct bl_stats *stats, enum bl_stat which, enum bl_stat most)
{
	uint64_t now = atomic_load_explicit(&stats->counter[which].value, memory_order_relaxed);

	if (now > atomic_load_explicit(&stats->counter[most].value, memory_order_relaxed))
		atomic_store_explicit(&stats->counter[most].value, now, memory_order_relaxed);
}

/* A packet that is no short message. */
static inline void bl_stats_packet_out(struct bl_peer *peer, uint32_t len)
{
	bool in_slot = len <= BL_SLOT_INLINE;

	bl_stats_add(peer->local->stats, in_slot ? BL_STAT_control_out : BL_STAT_fragment_out, 1);
	bl_stats_add(peer->local->stats,
		     in_slot ? BL_STAT_control_out_bytes : BL_STAT_fragment_out_bytes, len);
	bl_stats_bump(&peer->stats->other_out, 1);
	bl_stats_bump(&peer->stats->other_out_bytes, len);
}

static inline void bl_stats_packet_in(struct bl_peer *peer, uint32_t len)
{
	bool in_slot = len <= BL_SLOT_INLINE;

	bl_stats_add(peer->local->stats, in_slot ? BL_STAT_control_in : BL_STAT_fragment_in, 1);
	bl_stats_add(peer->local->stats,
		     in_slot ? BL_STAT_control_in_bytes : BL_STAT_fragment_in_bytes, len);
	bl_stats_bump(&peer->stats->other_in, 1);
	bl_stats_bump(&peer->stats->other_in_bytes, len);
}

/* One of those packets announced a message of len bytes. */
static inline void bl_stats_announce_out(struct bl_peer *peer, uint64_t len)
{
	bl_stats_bump(&peer->stats->other_out, (uint64_t)-1);
	bl_stats_bump(&peer->stats->other_out_bytes, -len);
}

static inline void bl_stats_announce_in(struct bl_peer *peer, uint64_t len)
{
	bl_stats_bump(&peer->stats->other_in, (uint64_t)-1);
	bl_stats_bump(&peer->stats->other_in_bytes, -len);
}

/* A message for or from this peer, or a one-sided operation, takes another way than
 * planned: the kernel has refused a copy, by our writing (push) or our reading.
 * peer->copy says why. */
void bl_stats_fallback(struct bl_peer *peer, bool push);

/* The same: it is allowed, but the memory of one of the two can be reached by itself alone. Logged
 * once. */
bl_cold void bl_stats_fault(struct bl_peer *peer);

/* The owner's look: publish what is private. */
void bl_stats_look(struct bl_peer *peer);

/* stages of an endpoint's and a peer's life */
void bl_stats_open(struct bl_local *local, uint32_t eager_max);
void bl_stats_add_peer(struct bl_peer *peer, struct bl_lane_stats *stats);
void bl_stats_peer_none(struct bl_peer *peer); /* as if it had never been */
void bl_stats_peer_ready(struct bl_peer *peer);
void bl_stats_peer_failed(struct bl_peer *peer, int error); /* a positive errno */
void bl_stats_peer_gone(struct bl_peer *peer, int error);

#endif
