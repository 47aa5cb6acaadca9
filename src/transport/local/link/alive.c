/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * alive.c: neighbours whose death the kernel doesn't mark, because their process may not
 * have robust futexes (set_robust_list denied by seccomp): their headers say so. The name
 * that such a one listens under is gone when the last thread of its process has let go of
 * its descriptors, so who can bind a socket to that name knows that it has died.
 *
 * It needs no PID, no /proc and nothing of the neighbour; a system call for each such
 * neighbour, at most every PERIOD_NS. Who takes the name at that moment hides the death.
 * Owner and service thread enter; bl_local.lock guards all.
 */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/local/link/hello.h"

#define PERIOD_NS 20000000u

static bool has_lost_its_name(struct bl_local *local, const struct bl_peer *peer)
{
	struct sockaddr_un name;
	socklen_t len = bl_socket_name(&name, peer->addr.id);

	if (local->life.probe < 0)
		local->life.probe = bl_socket();
	if (local->life.probe < 0) {
		local->life.probe = -1;
		return false; /* no descriptor now: the next look */
	}
	if (bind(local->life.probe, (struct sockaddr *)&name, len))
		return false;	  /* EADDRINUSE: it listens there */
	close(local->life.probe); /* nor are we to be found there */
	local->life.probe = bl_socket();
	return true;
}

void bl_local_check_unkept_locked(struct bl_local *local)
{
	uint64_t now;

	if (!atomic_load_explicit(&local->life.unkept, memory_order_relaxed))
		return;
	now = bl_clock_ns();
	if (now - local->life.probed_at < PERIOD_NS)
		return;
	local->life.probed_at = now;
	for (struct bl_peer *peer = local->peers.all; peer; peer = peer->next.all)
		if (peer->life.unkept && peer->mapped.header && !bl_peer_ended(peer) &&
		    has_lost_its_name(local, peer))
			/* release: as the kernel's mark, pairs with bl_peer_ended */
			atomic_store_explicit(&peer->life.found_dead, true, memory_order_release);
}

bl_cold void bl_local_check_unkept(struct bl_local *local)
{
	pthread_mutex_lock(&local->lock);
	bl_local_check_unkept_locked(local);
	pthread_mutex_unlock(&local->lock);
}
