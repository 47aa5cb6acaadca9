/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * peer.c: the neighbours of an endpoint; see local.h for who enters when.
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/window.h"
#include "local/commons.h"
#include "local/count.h"
#include "local/hello.h"

#define NOT_IN_VECTOR UINT64_MAX

void bl_local_open_names(struct bl_local *local)
{
	memset(local, 0, sizeof *local);
	pthread_mutex_init(&local->lock, NULL);
	local->seg.fd = local->listener = local->wake_socket = local->probe = -1;
	local->stats = &bl_no_stats;
}

int bl_local_open(struct bl_local *local)
{
	int err;

	bl_local_open_names(local);
	err = bl_addr_make(&local->addr);
	if (!err)
		return bl_service_listen(local);
	bl_warn("no address: %s%s", strerror(-err),
		err == -EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
	return err;
}

int bl_local_rename(struct bl_local *local, const uint8_t id[16])
{
	struct bl_addr old = local->addr;
	int err;

	if (local->enabled)
		return -EBUSY;
	bl_service_unlisten(local);
	memcpy(local->addr.id, id, sizeof local->addr.id);
	err = bl_service_listen(local);
	if (!err)
		return 0;
	local->addr = old;
	bl_service_listen(local); /* or the endpoint can't be enabled */
	return err;
}

int bl_local_enable(struct bl_local *local)
{
	int err;

	if (local->enabled)
		return 0;
	if (local->listener < 0)
		return -ENOTCONN; /* it is our parent's: this process is a forked child */
	/* Where Yama restricts process_vm_readv to ancestors, let our neighbours in:
	 * the kernel still asks for the same user. No Yama: an error, no matter. */
	if (bl_copy_plan()->may_vm)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	err = bl_commons_get();
	if (err)
		return err;
	err = bl_segment_open(&local->seg, &local->addr);
	if (err)
		goto put_commons;
	err = bl_service_attach(local);
	if (err)
		goto close_segment;
	local->enabled = true;
	bl_stats_open(local);
	return 0;

close_segment:
	bl_segment_close(&local->seg);
put_commons:
	bl_commons_put();
	return err;
}

static void free_peer(struct bl_peer *peer)
{
	bl_segment_unmap(peer->header, peer->rx.lane);
	bl_commons_unmap(peer->commons);
	if (peer->tx.lane)
		munmap(peer->tx.lane, BL_LANE_SIZE);
	free(peer->control);
	free(peer);
}

void bl_local_close(struct bl_local *local)
{
	local->stats = &bl_no_stats;
	if (local->enabled) {
		/* release: neighbours that see it find our packets complete */
		atomic_store_explicit(&local->seg.header->closed, 1, memory_order_release);
		bl_window(BL_WINDOW_CLOSING, NULL);
		bl_service_detach(local);
	}
	bl_service_unlisten(local);
	for (struct bl_peer *p = local->all, *next; p; p = next) {
		next = p->next_all;
		free_peer(p);
	}
	bl_segment_close(&local->seg);
	if (local->enabled)
		bl_commons_put();
	if (local->wake_socket >= 0)
		close(local->wake_socket);
	if (local->probe >= 0)
		close(local->probe);
	local->wake_socket = local->probe = -1;
	free(local->by_index);
	pthread_mutex_destroy(&local->lock);
	local->enabled = false;
}

void bl_local_orphan(struct bl_local *local)
{
	if (local->seg.fd >= 0)
		close(local->seg.fd);
	if (local->wake_socket >= 0)
		close(local->wake_socket);
	if (local->probe >= 0)
		close(local->probe);
	local->seg.fd = local->wake_socket = local->probe = -1;
	local->seg.header = NULL;
	local->stats = &bl_no_stats;
	local->enabled = false;
	local->nhot = local->ncold = 0;
	local->arrived = local->wanting = local->spare = NULL;
	for (uint32_t i = 0; i < local->nby_index; i++)
		local->by_index[i] = NULL;
	for (struct bl_peer *p = local->all; p; p = p->next_all) {
		p->header = NULL;
		p->commons = NULL;
		p->stats = &bl_no_lane_stats;
		p->rx.lane = p->tx.lane = NULL;
		p->has_lane = p->hot = false;
		p->tx.next = p->tx.limit; /* full: the slow path finds it dead */
		p->dead = ENOTCONN;
	}
	pthread_mutex_init(&local->lock, NULL);
}

/* --- the table ---------------------------------------------------------- */

struct bl_peer *bl_peer_get_locked(struct bl_local *local, const struct bl_addr *addr)
{
	uint32_t bucket = addr->id[0] % BL_PEER_TABLE; /* random bytes hash themselves */
	struct bl_peer *peer;

	for (peer = local->table[bucket]; peer; peer = peer->next_hash)
		if (!memcmp(peer->addr.id, addr->id, sizeof addr->id))
			return peer;
	peer = aligned_alloc(alignof(struct bl_peer), sizeof *peer);
	if (!peer)
		return NULL;
	memset(peer, 0, sizeof *peer);
	peer->addr = *addr;
	peer->local = local;
	peer->av_index = NOT_IN_VECTOR;
	peer->bell_index = BL_BELL_NONE;
	peer->stats = &bl_no_lane_stats;
	peer->next_hash = local->table[bucket];
	local->table[bucket] = peer;
	peer->next_all = local->all;
	local->all = peer;
	return peer;
}

struct bl_peer *bl_local_peer(struct bl_local *local, const struct bl_addr *addr)
{
	pthread_mutex_lock(&local->lock);
	struct bl_peer *peer = bl_peer_get_locked(local, addr);
	pthread_mutex_unlock(&local->lock);
	return peer;
}

struct bl_peer *bl_local_find(struct bl_local *local, const struct bl_addr *addr)
{
	struct bl_peer *peer;

	pthread_mutex_lock(&local->lock);
	peer = local->table[addr->id[0] % BL_PEER_TABLE];
	while (peer && memcmp(peer->addr.id, addr->id, sizeof addr->id))
		peer = peer->next_hash;
	pthread_mutex_unlock(&local->lock);
	return peer;
}

/* --- connecting --------------------------------------------------------- */

int bl_peer_give_lane_locked(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	struct bl_peer *donor = local->spare;
	struct bl_lane *lane;
	int err;

	if (peer->has_lane)
		return 0;
	if (atomic_load_explicit(&peer->state, memory_order_relaxed) == BL_PEER_FAILED)
		return peer->error;
	if (donor) {
		local->spare = donor->next_spare;
		lane = donor->tx.lane;
		donor->tx.lane = NULL;
		donor->stats = &bl_no_lane_stats;
		memset(lane, 0, sizeof *lane);
		peer->lane_at = donor->lane_at;
		peer->index = donor->index;
	} else {
		if (local->nlanes == BL_BELLS) {
			bl_warn("more than %u neighbours of one endpoint", BL_BELLS);
			return -EUSERS;
		}
		err = bl_segment_add_lane(&local->seg, &peer->lane_at, &lane);
		if (err)
			return err;
		peer->index = local->nlanes++;
	}
	peer->tx.lane = lane;
	peer->has_lane = true;
	bl_stats_add_peer(peer);
	return 0;
}

int bl_peer_attach_locked(struct bl_peer *peer, const int fd[2], uint64_t lane_at, uint32_t bell,
			  pid_t pid)
{
	enum bl_peer_state state = atomic_load_explicit(&peer->state, memory_order_relaxed);
	struct bl_local *local = peer->local;
	struct bl_lane *lane;
	int err;

	if (state == BL_PEER_READY)
		return 0; /* the other end called at the same time */
	if (state == BL_PEER_FAILED)
		return peer->error; /* for good: the owner has given up what it had with it */
	err = bl_segment_map_peer(fd[0], lane_at, &peer->header, &lane);
	if (err)
		return err;
	peer->rx.lane = lane;
	peer->rx.slot = lane->slot;
	peer->commons = bl_commons_map(fd[1]);
	peer->unkept = peer->header->flags & BL_SEG_UNKEPT;
	atomic_store_explicit(&local->unkept,
			      atomic_load_explicit(&local->unkept, memory_order_relaxed) +
				      peer->unkept,
			      memory_order_relaxed);
	bl_copy_pair_init(&peer->copy, pid);
	if (bell < BL_BELLS) {
		peer->bell_index = bell;
		peer->bell = &peer->header->bell[bell / 64];
		peer->bell_bit = 1ULL << bell % 64;
		peer->bell_summary = &peer->header->bell_summary;
		peer->bell_summary_bit = 1ULL << bell / 64;
	}
	peer->next_arrived = local->arrived;
	local->arrived = peer;
	atomic_store_explicit(&peer->state, BL_PEER_READY, memory_order_release);
	/* release: pairs with the acquire in the owner's progress */
	atomic_store_explicit(&local->attention, 1, memory_order_release);
	bl_local_wake(local);
	return 0;
}

static const char *why(int error)
{
	switch (error) {
	case -ECONNREFUSED:
		return "it is not there (any more)";
	case -EPERM:
		return bl_why_stranger();
	case -EOPNOTSUPP:
		return "the kernel doesn't say whose it is";
	case -ECONNRESET:
		return "it hung up without a word: it has ended, or can't tell that we are of its "
		       "user (in a user namespace that doesn't map it: unshare "
		       "--map-current-user)";
	}
	return strerror(-error);
}

void bl_peer_fail_locked(struct bl_peer *peer, int error)
{
	enum bl_peer_state state = atomic_load_explicit(&peer->state, memory_order_relaxed);

	if (state == BL_PEER_READY || state == BL_PEER_FAILED)
		return;
	peer->error = error;
	bl_stats_peer_failed(peer, -error);
	bl_warn("no connection to process %u on %s: %s", peer->addr.pid, peer->addr.hostname,
		why(error));
	peer->next_arrived = peer->local->arrived;
	peer->local->arrived = peer;
	atomic_store_explicit(&peer->state, BL_PEER_FAILED, memory_order_release);
	atomic_store_explicit(&peer->local->attention, 1, memory_order_release);
	bl_local_wake(peer->local);
}

/* First use of a peer that nobody has called yet. local->lock held. */
static int start_connecting(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	int err = bl_addr_reachable(&local->addr, &peer->addr);

	if (err) {
		peer->error = err;
		atomic_store_explicit(&peer->state, BL_PEER_FAILED, memory_order_release);
		bl_warn("%s (process %u) is %s: Beeline reaches the processes of one node; for "
			"other "
			"hosts let the MPI library choose another provider",
			peer->addr.hostname, peer->addr.pid,
			err == -EHOSTUNREACH ? "another host" : "in another network namespace");
		return err;
	}
	err = bl_peer_give_lane_locked(peer);
	if (err)
		return err;
	atomic_store_explicit(&peer->state, BL_PEER_CONNECTING, memory_order_relaxed);
	peer->next_wanting = local->wanting;
	local->wanting = peer;
	return -EAGAIN;
}

int bl_peer_connect(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	bool call = false;
	int err;

	if (!local->enabled)
		return -EOPNOTSUPP;
	switch (atomic_load_explicit(&peer->state, memory_order_acquire)) {
	case BL_PEER_NEW:
		pthread_mutex_lock(&local->lock);
		if (atomic_load_explicit(&peer->state, memory_order_relaxed) == BL_PEER_NEW) {
			err = start_connecting(peer);
			call = err == -EAGAIN;
		} else {
			err = -EAGAIN;
		}
		pthread_mutex_unlock(&local->lock);
		if (call)
			bl_service_connect(local);
		return err;
	case BL_PEER_CONNECTING:
		return -EAGAIN;
	case BL_PEER_READY:
		return peer->adopted ? 0 : -EAGAIN;
	case BL_PEER_FAILED:
		break;
	}
	return peer->error;
}

/* --- adopting ----------------------------------------------------------- */

static void ring_own_bell(struct bl_local *local, uint32_t index)
{
	struct bl_seg_header *header = local->seg.header;

	atomic_fetch_or_explicit(&header->bell[index / 64], 1ULL << index % 64,
				 memory_order_relaxed);
	/* release: pairs with the acquire in bl_local_answer_bells */
	atomic_fetch_or_explicit(&header->bell_summary, 1ULL << index / 64, memory_order_release);
}

static void make_hot(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;

	if (local->nhot == BL_HOT_MAX) {
		local->ncold++;
		/* It may have rung before we knew it. */
		ring_own_bell(local, peer->index);
		return;
	}
	peer->hot = true;
	peer->seen_at = bl_ticks();
	local->hot[local->nhot++] = peer;
	/* No barrier: a sender that doesn't see it yet rings for nothing. */
	atomic_store_explicit(&peer->rx.lane->polled, 1, memory_order_relaxed);
}

static int remember_index(struct bl_local *local, struct bl_peer *peer)
{
	if (peer->index >= local->nby_index) {
		uint32_t room = (peer->index + 64) / 64 * 64;
		struct bl_peer **grown = realloc(local->by_index, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		memset(grown + local->nby_index, 0, (room - local->nby_index) * sizeof(*grown));
		local->by_index = grown;
		local->nby_index = room;
	}
	local->by_index[peer->index] = peer;
	return 0;
}

void bl_local_adopt(struct bl_local *local, void (*adopt)(struct bl_peer *peer),
		    void (*lost)(struct bl_peer *peer))
{
	struct bl_peer *peer, *next;

	/* acquire: pairs with the releases of whoever raised it */
	atomic_exchange_explicit(&local->attention, 0, memory_order_acquire);
	pthread_mutex_lock(&local->lock);
	peer = local->arrived;
	local->arrived = NULL;
	pthread_mutex_unlock(&local->lock);

	for (; peer; peer = next) {
		next = peer->next_arrived;
		if (atomic_load_explicit(&peer->state, memory_order_acquire) == BL_PEER_FAILED) {
			lost(peer);
			continue;
		}
		if (remember_index(local, peer)) { /* no memory now: try again later */
			pthread_mutex_lock(&local->lock);
			peer->next_arrived = local->arrived;
			local->arrived = peer;
			pthread_mutex_unlock(&local->lock);
			atomic_store_explicit(&local->attention, 1, memory_order_release);
			continue;
		}
		peer->tx.slot = peer->tx.lane->slot;
		peer->tx.limit = BL_SLOTS;
		peer->adopted = true;
		bl_stats_peer_ready(peer);
		local->others += peer->addr.pid != local->addr.pid;
		make_hot(peer);
		bl_window(BL_WINDOW_ADOPTED, NULL);
		adopt(peer);
	}
}

/* --- bells -------------------------------------------------------------- */

bl_cold void bl_peer_ring(struct bl_peer *peer)
{
	if (!peer->bell)
		return;
	/* release: pairs with the acquires in bl_local_answer_bells; the packet
	 * is before the bell, the bell before the summary */
	atomic_fetch_or_explicit(peer->bell, peer->bell_bit, memory_order_release);
	/* seq_cst: one of us sees the other, this or bl_local_doze */
	atomic_fetch_or_explicit(peer->bell_summary, peer->bell_summary_bit, memory_order_seq_cst);
	bl_peer_wake(peer);
}

bool bl_local_answer_bells(struct bl_local *local, void (*poll)(struct bl_peer *peer, void *arg),
			   void *arg)
{
	struct bl_seg_header *header = local->seg.header;

	if (likely(!atomic_load_explicit(&header->bell_summary, memory_order_relaxed)))
		return false;

	uint64_t words = atomic_exchange_explicit(&header->bell_summary, 0, memory_order_acquire);

	for (; words; words &= words - 1) {
		uint32_t w = (uint32_t)__builtin_ctzll(words);
		uint64_t bits = atomic_exchange_explicit(&header->bell[w], 0, memory_order_acquire);

		for (; bits; bits &= bits - 1) {
			uint32_t index = w * 64 + (uint32_t)__builtin_ctzll(bits);
			struct bl_peer *peer =
				index < local->nby_index ? local->by_index[index] : NULL;

			if (!peer || peer->hot)
				continue; /* polled anyway, or a neighbour's nonsense */
			if (unlikely(local->drowsy)) {
				local->drowsy--; /* it may sleep again at once: stay */
			} else if (local->nhot < BL_HOT_MAX) {
				local->ncold--;
				make_hot(peer);
			}
			poll(peer, arg);
			/* What a full completion queue left behind must be heard of. */
			if (!peer->hot && bl_rx_peek(&peer->rx))
				ring_own_bell(local, index);
		}
	}
	return true;
}

/* Make every neighbour's packets visible that were sent before it could see
 * that we stopped polling. False: it can't be done. */
static bool drain_all_stores(void)
{
	return bl_service_membarrier() &&
	       !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

static void cool(struct bl_local *local, struct bl_peer *peer)
{
	peer->hot = false;
	for (uint32_t i = 0; i < local->nhot; i++)
		if (local->hot[i] == peer) {
			local->hot[i] = local->hot[--local->nhot];
			return;
		}
}

/* Stop polling these lanes. A lane with something in it stays, as do all when
 * stores can't be drained. Returns how many were stopped. */
static uint32_t stop_polling(struct bl_local *local, struct bl_peer **quiet, uint32_t n)
{
	uint32_t stopped = 0;

	for (uint32_t i = 0; i < n; i++)
		atomic_store_explicit(&quiet[i]->rx.lane->polled, 0, memory_order_seq_cst);
	bool drained = drain_all_stores();
	for (uint32_t i = 0; i < n; i++) {
		struct bl_peer *peer = quiet[i];

		if (!drained || bl_rx_peek(&peer->rx)) {
			atomic_store_explicit(&peer->rx.lane->polled, 1, memory_order_relaxed);
			continue;
		}
		cool(local, peer);
		local->ncold++;
		stopped++;
	}
	return stopped;
}

static bool can_ring(const struct bl_peer *peer)
{
	return !(peer->header->flags & BL_SEG_NO_MEMBARRIER) && peer->bell;
}

void bl_local_calm(struct bl_local *local, uint64_t before)
{
	struct bl_peer *quiet[BL_HOT_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < local->nhot && local->nhot - n > BL_HOT_KEEP; i++) {
		struct bl_peer *peer = local->hot[i];

		if ((int64_t)(peer->seen_at - before) < 0 && can_ring(peer))
			quiet[n++] = peer;
	}
	if (n)
		stop_polling(local, quiet, n);
}

int bl_local_stop_polling(struct bl_local *local)
{
	struct bl_peer *quiet[BL_HOT_MAX];
	uint32_t n = local->nhot;

	for (uint32_t i = 0; i < n; i++) {
		quiet[i] = local->hot[i];
		if (!can_ring(quiet[i]))
			return -EOPNOTSUPP;
	}
	if (!n || stop_polling(local, quiet, n) == n)
		return 0;
	for (uint32_t i = 0; i < local->nhot; i++)
		if (bl_rx_peek(&local->hot[i]->rx))
			return -EAGAIN;
	return -EOPNOTSUPP;
}

void bl_local_forget(struct bl_local *local, struct bl_peer *peer)
{
	if (peer->hot)
		cool(local, peer);
	else if (peer->adopted)
		local->ncold--;
	if (peer->adopted)
		local->others -= peer->addr.pid != local->addr.pid;
	/* release: pairs with the acquire in bl_local_check_sleep_locked */
	atomic_store_explicit(&peer->gone, true, memory_order_release);
	if (peer->adopted)
		local->by_index[peer->index] = NULL;
}

void bl_local_release(struct bl_local *local, struct bl_peer *peer)
{
	pthread_mutex_lock(&local->lock);
	peer->error = -(int)peer->dead;
	atomic_store_explicit(&peer->state, BL_PEER_FAILED, memory_order_relaxed);
	bl_segment_unmap(peer->header, peer->rx.lane);
	bl_commons_unmap(peer->commons);
	peer->commons = NULL;
	peer->header = NULL;
	peer->rx.lane = NULL;
	peer->bell = NULL;
	if (peer->has_lane) {
		peer->has_lane = false;
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
	return atomic_load_explicit(&peer->header->life, memory_order_acquire) & FUTEX_OWNER_DIED
		       ? -ECONNRESET
		       : 0;
}
