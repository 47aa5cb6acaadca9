/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * gone.c: neighbours that have died or closed: whether one has, and what becomes of what we had of
 * it. See local.h for who enters when.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>

#include "transport/local/link/prove_access.h"
#include "transport/local/local.h"

/* What the neighbour shares with us. */
static void unmap_theirs(struct bl_peer *peer)
{
	struct bl_link link = {
		.theirs = peer->rx.lane,
		.theirs_span = (size_t)1 << peer->rx.span,
		.header = peer->mapped.header,
		.doorbells = peer->mapped.doorbells,
	};

	bl_link_unmap(&link);
	peer->rx.lane = NULL;
	peer->mapped.header = NULL;
	peer->mapped.doorbells = NULL;
	bl_peer_forget_atomics_page(peer);
}

void bl_peer_fini(struct bl_peer *peer)
{
	unmap_theirs(peer);
	bl_lane_unmap(peer->tx.lane, peer->local->seg.lane_span);
	free(peer->control.packet);
	free(peer->txq);
}

/* Receives and early messages may still name it; who looks after all neighbours needn't. */
static void shelve(struct bl_local *local, struct bl_peer *peer)
{
	struct bl_peer **at = &local->peers.all;

	while (*at != peer)
		at = &(*at)->next.all;
	*at = peer->next.all;
	peer->next.all = local->peers.gone;
	local->peers.gone = peer;
	free(peer->control.packet);
	peer->control.packet = NULL;
	peer->control.room = 0;
}

void bl_local_release(struct bl_local *local, struct bl_peer *peer)
{
	pthread_mutex_lock(&local->lock);
	peer->error = -(int)peer->dead;
	atomic_store_explicit(&peer->state, BL_PEER_FAILED, memory_order_relaxed);
	unmap_theirs(peer);
	if (peer->setup.has_lane)
		bl_longring_over(peer);
	peer->setup.has_lane = false;
	shelve(local, peer);
	if (peer->setup.has_index) {
		peer->setup.has_index = false;
		peer->next.spare = local->peers.spare;
		local->peers.spare = peer;
	}
	pthread_mutex_unlock(&local->lock);
}

int bl_peer_life(const struct bl_peer *peer)
{
	if (unlikely(peer->dead))
		return -(int)peer->dead;
	return peer->adopted ? bl_peer_ended(peer) : 0;
}

int bl_peer_ended(const struct bl_peer *peer)
{
	/* acquire: pairs with the release in bl_local_close */
	if (atomic_load_explicit(&peer->mapped.header->closed, memory_order_acquire))
		return -ENOTCONN;
	/* acquire: of all that it wrote before */
	if (atomic_load_explicit(&peer->mapped.header->life, memory_order_acquire) &
		    FUTEX_OWNER_DIED ||
	    atomic_load_explicit(&peer->life.found_dead, memory_order_acquire))
		return -ECONNRESET;
	return 0;
}

#define LINGER_US 1000000 /* so long a dying process may hold up the news of its death, */
#define BRIEF_US  200	  /* mostly it is over by then */

/* A thread of the dead process may still be in the kernel, writing into a buffer of
 * ours: the receive must not end before that copy has. */
bl_cold bool bl_peer_lingers(struct bl_peer *peer, uint64_t now)
{
	uint64_t until = bl_ticks() + BRIEF_US * bl_ticks_per_us();
	int over;

	if (!peer->watch.died_at)
		peer->watch.died_at = now;
	while (!(over = bl_process_over(peer->copy.pid)) && !bl_is_due(bl_ticks(), until))
		sched_yield();
	return over <= 0 && now - peer->watch.died_at <
				    (uint64_t)(over ? BL_UNSEEN_US : LINGER_US) * bl_ticks_per_us();
}
