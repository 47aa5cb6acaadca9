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
		.header = peer->header,
		.doorbells = peer->doorbells,
	};

	bl_link_unmap(&link);
	peer->rx.lane = NULL;
	peer->header = NULL;
	peer->doorbells = NULL;
	bl_peer_forget_atomics_page(peer);
}

void bl_peer_fini(struct bl_peer *peer)
{
	unmap_theirs(peer);
	bl_lane_unmap(peer->tx.lane, peer->local->seg.lane_span);
	free(peer->control);
	free(peer->txq);
}

/* Receives and early messages may still name it; who looks after all neighbours needn't. */
static void shelve(struct bl_local *local, struct bl_peer *peer)
{
	struct bl_peer **at = &local->all;

	while (*at != peer)
		at = &(*at)->next_all;
	*at = peer->next_all;
	peer->next_all = local->gone;
	local->gone = peer;
	free(peer->control);
	peer->control = NULL;
	peer->room_control = 0;
}

void bl_local_release(struct bl_local *local, struct bl_peer *peer)
{
	pthread_mutex_lock(&local->lock);
	peer->error = -(int)peer->dead;
	atomic_store_explicit(&peer->state, BL_PEER_FAILED, memory_order_relaxed);
	unmap_theirs(peer);
	if (peer->has_lane)
		bl_longring_over(peer);
	peer->has_lane = false;
	shelve(local, peer);
	if (peer->has_index) {
		peer->has_index = false;
		peer->next_spare = local->spare;
		local->spare = peer;
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
	if (atomic_load_explicit(&peer->header->closed, memory_order_acquire))
		return -ENOTCONN;
	/* acquire: of all that it wrote before */
	if (atomic_load_explicit(&peer->header->life, memory_order_acquire) & FUTEX_OWNER_DIED ||
	    atomic_load_explicit(&peer->found_dead, memory_order_acquire))
		return -ECONNRESET;
	return 0;
}
