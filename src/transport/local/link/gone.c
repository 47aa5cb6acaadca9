/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * gone.c: neighbours that have died or closed: whether one has, and what becomes of what we had of
 * it. See local.h for who enters when.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>

#include "transport/local/local.h"
#include "transport/local/link/prove_access.h"

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
