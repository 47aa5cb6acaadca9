/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * presence.c: see presence.h. Serialised by the domain.
 */
#include "transport/local/adapt/presence.h"

#include "transport/local/adapt/habit.h"
#include "transport/local/lane/op.h"

#define ROOM_US 10  /* who reads gives room again in this time: two long packets, */
#define BUSY_US 100 /* or one who copies, soon enough to wait for */

/* Ticks since the peer has shown itself in the library; less than 0: it is busy for so long. */
static int64_t away_for(const struct bl_peer *peer)
{
	uint64_t now = bl_ticks();
	int64_t here = bl_ticks_since(
		now, atomic_load_explicit(&peer->mapped.header->here, memory_order_relaxed));
	int64_t active = bl_ticks_since(
		now, atomic_load_explicit(&peer->mapped.header->active, memory_order_relaxed));

	return here < active ? here : active;
}

bool bl_is_gone(const struct bl_peer *peer)
{
	return away_for(peer) > (int64_t)(ROOM_US * bl_ticks_per_us());
}

static bool is_here(const struct bl_peer *peer, int64_t left_us, int64_t busy_us)
{
	int64_t away = away_for(peer), us = (int64_t)bl_ticks_per_us();

	return away <= left_us * us && away >= -busy_us * us;
}

/* Not one that is busy with a long copy, and says until when. */
bool bl_gives_room(const struct bl_peer *peer)
{
	return is_here(peer, ROOM_US, BUSY_US);
}

#define USES_BYTES_US 16384u /* of a message, by a program that reads it or writes the next one */

bool bl_waits_here(const struct bl_peer *peer, size_t uses)
{
	return atomic_load_explicit(&peer->mapped.header->stays, memory_order_relaxed) !=
		       BL_STAYS_NOT &&
	       is_here(peer, ROOM_US + (int64_t)(uses / USES_BYTES_US),
		       BUSY_US + (int64_t)(uses / BL_BUSY_BYTES_US));
}

bl_noinline uint64_t bl_long_copy_begins(struct bl_ep *ep, size_t len)
{
	uint64_t now = bl_ticks();

	bl_presence_seen(ep, now + len / BL_BUSY_BYTES_US * bl_ticks_per_us());
	/* a look is due as after a message of this length that is copied once */
	bl_cq_moved(ep, ep->bound.rx_cq, len);
	bl_cq_moved(ep, ep->bound.tx_cq, len);
	return now;
}

/* Of a shared context's other members nobody knows: to them it may be an absence. */
bl_noinline void bl_long_copy_ends(struct bl_ep *ep, uint64_t began)
{
	uint64_t now = bl_ticks(), took = now - began;

	if (ep->ways.habit.left_at)
		ep->ways.habit.left_at += took;
	if (ep->ways.habit.brought_at)
		ep->ways.habit.brought_at += took;
	if (ep->bound.rx_cq)
		ep->bound.rx_cq->last_empty += took;
	bl_presence_seen(ep, now);
}

bool bl_shares_core(const struct bl_ep *ep)
{
	uint64_t now = bl_ticks();

	return (ep->bound.tx_cq && bl_oversub_shared(&ep->bound.tx_cq->crowd, now)) ||
	       (ep->bound.rx_cq && ep->bound.rx_cq != ep->bound.tx_cq &&
		bl_oversub_shared(&ep->bound.rx_cq->crowd, now));
}

/* Copies aren't computation between two reads, unless there was some before them. */
void bl_copies_are_no_absence(struct bl_ep *ep)
{
	uint64_t now = bl_ticks();

	bl_habit_back_now(ep);
	if (ep->bound.rx_cq && !bl_reads_are_rare(ep, now))
		ep->bound.rx_cq->last_empty = now;
	if (ep->ways.habit.brought_at &&
	    now - ep->ways.habit.brought_at <= BL_AWAY_US * bl_ticks_per_us())
		ep->ways.habit.brought_at = now;
}

#define HERE_US 2u /* after the longest poll: a peer that waits says so about as often */

/* It has a message of its own to copy for us, whatever it says. */
static bool has_one_in_hand(const struct bl_ep *ep, const struct bl_peer *peer)
{
	for (uint32_t i = 0; i < ep->rndv.ntransfer; i++) {
		const struct bl_recv_op *t = ep->rndv.transfer[i];

		if (t->peer == peer && t->cts_all &&
		    bl_chunks_counted(t->chunks) + t->taken < t->count)
			return true;
	}
	return false;
}

/* Ticks since it said that it is in the library; less than 0: it copies for so long. */
static int64_t silent_for(const struct bl_peer *peer)
{
	return bl_ticks_since(
		bl_ticks(), atomic_load_explicit(&peer->mapped.header->here, memory_order_relaxed));
}

bool bl_peer_here(const struct bl_ep *ep, const struct bl_peer *peer)
{
	return silent_for(peer) <= (int64_t)(bl_first_ticks() + HERE_US * bl_ticks_per_us()) &&
	       !has_one_in_hand(ep, peer);
}

bool bl_peer_idle(const struct bl_ep *ep, const struct bl_peer *peer)
{
	return silent_for(peer) >= 0 && bl_peer_here(ep, peer);
}

bool bl_peer_waits(const struct bl_ep *ep, const struct bl_peer *peer)
{
	/* It may have said so after our clock was read. */
	return silent_for(peer) > -(int64_t)bl_ticks_per_us() && bl_peer_here(ep, peer);
}

bool bl_was_away(const struct bl_ep *ep)
{
	const struct bl_seg_header *own = ep->local.seg.header;

	return own &&
	       bl_ticks_since(bl_ticks(), atomic_load_explicit(&own->here, memory_order_relaxed)) >
		       (int64_t)(BL_AWAY_US * bl_ticks_per_us());
}

bool bl_proxy_is_away(const struct bl_ep *ep, const struct bl_peer *peer)
{
	return bl_is_gone(peer) && !bl_peer_here(ep, peer) && !bl_shares_core(ep);
}

bool bl_reads_are_rare(const struct bl_ep *ep, uint64_t now)
{
	const struct bl_cq *cq = ep->bound.rx_cq;

	return cq && cq->empty_full == cq->full &&
	       now - cq->last_empty > BL_AWAY_US * bl_ticks_per_us();
}
