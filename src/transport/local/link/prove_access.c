/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * prove_access.c: see prove_access.h. bl_peer.proof says who is at work: the owner until it is
 * BL_PROOF_WANTED, the service thread until it isn't.
 */
#include "transport/local/link/prove_access.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/local/link/atomics_page.h"

#define AGAIN_NS 1000000000u /* after a refusal */

static bool read_secret(const struct bl_peer *peer, uint64_t *secret)
{
	struct iovec mine = {secret, sizeof *secret};
	struct iovec theirs = {(void *)(uintptr_t)peer->mapped.header->secret_at, sizeof *secret};

	return theirs.iov_base && peer->copy.pid > 0 && bl_copy_plan()->may_vm &&
	       process_vm_readv(peer->copy.pid, &mine, 1, &theirs, 1, 0) == sizeof *secret;
}

/* Another endpoint of this process, or this one. */
static int take_own(struct bl_peer *peer, struct bl_atomics_page **atomics_page)
{
	*atomics_page = bl_atomics_page_map(bl_atomics_page_fd());
	atomic_store_explicit(&peer->access.atomics_page, *atomics_page, memory_order_relaxed);
	return *atomics_page ? 0 : -EOPNOTSUPP;
}

static int refused(struct bl_peer *peer)
{
	if (!peer->refusal_told && !bl_peer_life(peer))
		bl_info("process %u has to do atomic operations on its memory itself: its lock "
			"isn't ours to take",
			peer->addr.pid);
	peer->refusal_told = true;
	peer->access.refused_at = bl_clock_ns();
	atomic_store_explicit(&peer->proof, BL_PROOF_NONE, memory_order_relaxed);
	return -EOPNOTSUPP;
}

static int want(struct bl_peer *peer, uint64_t secret)
{
	struct bl_local *local = peer->local;

	pthread_mutex_lock(&local->lock);
	peer->access.secret = secret;
	atomic_store_explicit(&peer->proof, BL_PROOF_WANTED, memory_order_relaxed);
	bl_peer_want_locked(peer);
	pthread_mutex_unlock(&local->lock);
	bl_service_connect(local);
	return -EAGAIN;
}

bl_cold int bl_peer_ask_for_atomics_page(struct bl_peer *peer,
					 struct bl_atomics_page **atomics_page)
{
	uint64_t secret;

	/* acquire: pairs with the release in bl_peer_give_atomics_page, of what came before */
	switch (atomic_load_explicit(&peer->proof, memory_order_acquire)) {
	case BL_PROOF_WANTED:
		return -EAGAIN;
	case BL_PROOF_REFUSED:
		return refused(peer);
	case BL_PROOF_NONE:
		break;
	}
	*atomics_page = atomic_load_explicit(&peer->access.atomics_page, memory_order_relaxed);
	if (*atomics_page) /* since we looked first */
		return 0;
	if (peer->access.refused_at && bl_clock_ns() - peer->access.refused_at < AGAIN_NS)
		return -EOPNOTSUPP;
	if (peer->copy.pull == BL_COPY_SELF)
		return take_own(peer, atomics_page);
	return read_secret(peer, &secret) ? want(peer, secret) : refused(peer);
}

void bl_peer_give_atomics_page(struct bl_peer *peer, struct bl_atomics_page *atomics_page,
			       bool again)
{
	struct bl_local *local = peer->local;

	pthread_mutex_lock(&local->lock);
	if (atomic_load_explicit(&peer->state, memory_order_relaxed) == BL_PEER_READY) {
		atomic_store_explicit(&peer->access.atomics_page, atomics_page,
				      memory_order_release);
		atomics_page = NULL;
	}
	peer->access.refused_at = 0; /* where the secret was */
	atomic_store_explicit(
		&peer->proof,
		again || atomic_load_explicit(&peer->access.atomics_page, memory_order_relaxed)
			? BL_PROOF_NONE
			: BL_PROOF_REFUSED,
		memory_order_release);
	pthread_mutex_unlock(&local->lock);
	bl_atomics_page_unmap(atomics_page); /* it has died meanwhile */
	/* seq_cst: who falls asleep now sees it, or is seen to sleep; pairs with the exchange in
	 * bl_local_doze */
	atomic_thread_fence(memory_order_seq_cst);
	bl_local_wake(local);
}

void bl_peer_forget_atomics_page(struct bl_peer *peer)
{
	bl_atomics_page_unmap(
		atomic_load_explicit(&peer->access.atomics_page, memory_order_relaxed));
	atomic_store_explicit(&peer->access.atomics_page, NULL, memory_order_relaxed);
	peer->access.refused_at = 0;
}
