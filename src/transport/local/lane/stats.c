/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stats.c: see stats.h for what is shown and count.h for who enters.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/local/lane/count.h"

static_assert(offsetof(struct bl_slot, seq) == 0 && offsetof(struct bl_slot, head) == 4,
	      "stats.h says so");

struct bl_stats bl_no_stats;
struct bl_lane_stats bl_no_lane_stats;

static const char *const names[] = {
#define X(name, help) #name,
	BL_STATS(X)
#undef X
};
#define X(row, help) static_assert(sizeof #row <= sizeof((struct bl_counter *)0)->name, #row);
BL_STATS(X)
#undef X

static uint64_t since_boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void bl_stats_open(struct bl_local *local, uint32_t eager_max)
{
	struct bl_stats *s = &local->seg.header->stats;

	s->version = BL_STATS_VERSION;
	s->count = BL_STAT_COUNT;
	s->pid = (uint32_t)getpid();
	s->node = local->seg.node;
	s->began_ns = since_boot_ns();
	s->eager_max = eager_max;
	s->lane_size = BL_LANE_SIZE;
	s->slots = BL_SLOTS;
	s->slot_size = BL_SLOT_SIZE;
	s->slot_at = offsetof(struct bl_lane, slot);
	s->shown_at = BL_SEG_HEADER;
	s->shown_size = sizeof(struct bl_lane_stats);
	s->rx_next = offsetof(struct bl_rx, next);
	s->rx_bytes = offsetof(struct bl_rx, bytes);
	s->rx_total = offsetof(struct bl_rx, total);
	s->rx_long = offsetof(struct bl_rx, nlong);
	s->rx_long_bytes = offsetof(struct bl_rx, long_bytes);
	s->rx_size = sizeof(struct bl_rx);
	s->in_slot = BL_SLOT_INLINE;
	for (uint32_t i = 0; i < BL_STAT_COUNT; i++)
		strncpy(s->counter[i].name, names[i], sizeof s->counter[i].name - 1);
	/* release: who sees it finds the rest in place */
	atomic_store_explicit(&s->magic, BL_STATS_MAGIC, memory_order_release);
	local->stats = s;
}

static uint8_t shown_way(const struct bl_copy_pair *pair, enum bl_copy_way way)
{
	return way == BL_COPY_NOTHING && pair->needs_rkeys ? BL_COPY_MODULE : (uint8_t)way;
}

static void show_ways(struct bl_peer *peer)
{
	const struct bl_copy_pair *pair = &peer->copy;
	struct bl_lane_stats *s = peer->stats;

	atomic_store_explicit(&s->pull, shown_way(pair, pair->pull), memory_order_relaxed);
	atomic_store_explicit(&s->push, shown_way(pair, pair->push), memory_order_relaxed);
	atomic_store_explicit(&s->pull_why, (uint16_t)peer->copy.pull_why, memory_order_relaxed);
	atomic_store_explicit(&s->push_why, (uint16_t)peer->copy.push_why, memory_order_relaxed);
}

static void show_state(struct bl_peer *peer, enum bl_lane_state state)
{
	atomic_store_explicit(&peer->stats->state, (uint8_t)state, memory_order_relaxed);
}

void bl_stats_add_peer(struct bl_peer *peer, struct bl_lane_stats *s)
{
	peer->stats = s;
	memcpy(s->id, peer->addr.id, sizeof s->id);
	s->pid = peer->addr.pid;
	s->rx = (uintptr_t)&peer->rx;
	show_state(peer, BL_LANE_CONNECTING);
}

void bl_stats_peer_none(struct bl_peer *peer)
{
	if (peer->stats != &bl_no_lane_stats)
		show_state(peer, BL_LANE_NONE);
}

void bl_stats_peer_ready(struct bl_peer *peer)
{
	peer->stats->seen = peer->copy.pid;
	peer->stats->lane = (uintptr_t)peer->tx.lane;
	show_ways(peer);
	show_state(peer, BL_LANE_READY);
	bl_stats_add(peer->local->stats, BL_STAT_private_bytes, sizeof *peer);
}

void bl_stats_peer_failed(struct bl_peer *peer, int error)
{
	if (peer->stats == &bl_no_lane_stats)
		return;
	atomic_store_explicit(&peer->stats->error, (uint16_t)error, memory_order_relaxed);
	show_state(peer, BL_LANE_FAILED);
}

void bl_stats_peer_gone(struct bl_peer *peer, int error)
{
	if (!peer->adopted)
		return; /* never connected: has been said */
	bl_stats_look(peer);
	show_state(peer, error == ENOTCONN     ? BL_LANE_CLOSED
			 : error == ECONNRESET ? BL_LANE_DIED
					       : BL_LANE_BROKEN);
}

void bl_stats_fallback(struct bl_peer *peer, bool push)
{
	struct bl_lane_stats *s = peer->stats;
	enum bl_stat which = push ? BL_STAT_fallback_push : BL_STAT_fallback_pull;
	_Atomic uint32_t *count = push ? &s->not_pushed : &s->not_pulled;

	/* A refusal that isn't remembered was for want of memory (engine.c). */
	if ((push ? peer->copy.push : peer->copy.pull) != BL_COPY_NOTHING) {
		which = BL_STAT_fallback_memory;
		count = &s->no_memory;
	}
	show_ways(peer);
	bl_stats_add(peer->local->stats, which, 1);
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

bl_cold void bl_stats_fault(struct bl_peer *peer)
{
	static _Atomic bool told;

	bl_stats_add(peer->local->stats, BL_STAT_fallback_fault, 1);
	if (!atomic_exchange_explicit(&told, true, memory_order_relaxed))
		bl_info("process %u: the kernel can't copy a buffer of its or of ours for another "
			"process (EFAULT): its owner does, as for each like it from here on",
			peer->addr.pid);
}

/* The ring's number now, with the upper half that it lacks. */
static void extend(_Atomic uint64_t *shown, uint32_t now)
{
	uint64_t was = atomic_load_explicit(shown, memory_order_relaxed);

	atomic_store_explicit(shown, was + (uint32_t)(now - (uint32_t)was), memory_order_relaxed);
}

/* What the receiver has told of, and what it hasn't, by the lengths in the slots. */
static void show_sent(struct bl_peer *peer)
{
	const struct bl_lane *lane = peer->tx.lane;
	struct bl_lane_stats *s = peer->stats;
	uint32_t next = peer->tx.next, told;
	uint64_t bytes, nlong, long_bytes;

	if (!peer->untold && (uint32_t)atomic_load_explicit(&s->sent, memory_order_relaxed) == next)
		return;
	if (peer->adopted)
		bl_tx_refresh(&peer->tx); /* what is read here is no news to a probe; ring.c */
	told = atomic_load_explicit(&lane->consumed, memory_order_acquire);
	bytes = atomic_load_explicit(&lane->consumed_bytes, memory_order_relaxed);
	nlong = atomic_load_explicit(&lane->consumed_long, memory_order_relaxed);
	long_bytes = atomic_load_explicit(&lane->consumed_long_bytes, memory_order_relaxed);
	peer->untold = told != next;
	if (next - told > BL_SLOTS) /* its nonsense */
		told = next;
	for (; told != next; told++) {
		uint32_t len = BL_HEAD_LEN(lane->slot[told % BL_SLOTS].head);

		bytes += len;
		nlong += len > BL_SLOT_INLINE;
		long_bytes += len > BL_SLOT_INLINE ? len : 0;
	}
	extend(&s->sent, next);
	atomic_store_explicit(&s->sent_bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&s->sent_long, nlong, memory_order_relaxed);
	atomic_store_explicit(&s->sent_long_bytes, long_bytes, memory_order_relaxed);
}

void bl_stats_look(struct bl_peer *peer)
{
	struct bl_lane_stats *s = peer->stats;
	const struct bl_rx *rx = &peer->rx;

	show_sent(peer);
	if ((uint32_t)atomic_load_explicit(&s->received, memory_order_relaxed) == rx->next)
		return;
	extend(&s->received, rx->next);
	atomic_store_explicit(&s->received_bytes, rx->total + rx->bytes, memory_order_relaxed);
	atomic_store_explicit(&s->received_long, rx->nlong, memory_order_relaxed);
	atomic_store_explicit(&s->received_long_bytes, rx->long_bytes, memory_order_relaxed);
}
