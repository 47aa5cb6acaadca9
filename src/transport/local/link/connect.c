/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * connect.c: the neighbours of an endpoint; see local.h for who enters when.
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
#include "transport/local/lane/count.h"
#include "transport/local/lane/doorbell.h"
#include "transport/local/link/atomics_page.h"
#include "transport/local/link/hello.h"
#include "transport/local/link/prove_access.h"

#define NOT_IN_VECTOR UINT64_MAX

/* One by one they would take a sixth more, to be aligned. */
#define SLAB_PEERS 8

struct bl_peer_slab {
	struct bl_peer_slab *next;
	uint32_t used;
	struct bl_peer peer[SLAB_PEERS];
};

void bl_local_open_names(struct bl_local *local)
{
	memset(local, 0, sizeof *local);
	pthread_mutex_init(&local->lock, NULL);
	local->seg.fd = local->seg.doorbells_fd = -1;
	local->listener = local->doorbell.wake_socket = local->life.probe = -1;
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

int bl_local_enable(struct bl_local *local, uint32_t eager_max)
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
	err = bl_atomics_page_get();
	if (err)
		return err;
	err = bl_segment_open(&local->seg, &local->addr);
	if (err)
		goto put_commons;
	err = bl_service_attach(local);
	if (err)
		goto close_segment;
	local->enabled = true;
	bl_stats_open(local, eager_max);
	return 0;

close_segment:
	bl_segment_close(&local->seg);
put_commons:
	bl_atomics_page_put();
	return err;
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
	for (struct bl_peer *p = local->peers.all; p; p = p->next.all)
		bl_peer_fini(p);
	for (struct bl_peer *p = local->peers.gone; p; p = p->next.all)
		bl_peer_fini(p);
	for (struct bl_peer_slab *slab = local->peers.slabs, *next; slab; slab = next) {
		next = slab->next;
		free(slab);
	}
	bl_segment_close(&local->seg);
	if (local->enabled)
		bl_atomics_page_put();
	if (local->doorbell.wake_socket >= 0)
		close(local->doorbell.wake_socket);
	if (local->life.probe >= 0)
		close(local->life.probe);
	local->doorbell.wake_socket = local->life.probe = -1;
	free(local->by_index);
	pthread_mutex_destroy(&local->lock);
	local->enabled = false;
}

static void orphan_peer(struct bl_peer *p)
{
	p->mapped.header = NULL;
	p->mapped.doorbells = NULL;
	p->access.atomics_page = NULL;
	p->proof = BL_PROOF_NONE;
	p->wanting = false;
	p->stats = &bl_no_lane_stats;
	p->rx.lane = p->tx.lane = NULL;
	p->setup.has_lane = p->hot = false;
	p->tx.next = p->tx.limit; /* full: the slow path finds it dead */
	p->dead = ENOTCONN;
}

void bl_local_orphan(struct bl_local *local)
{
	if (local->seg.fd >= 0)
		close(local->seg.fd);
	if (local->seg.doorbells_fd >= 0)
		close(local->seg.doorbells_fd);
	if (local->doorbell.wake_socket >= 0)
		close(local->doorbell.wake_socket);
	if (local->life.probe >= 0)
		close(local->life.probe);
	local->doorbell.wake_socket = local->life.probe = -1;
	local->seg = (struct bl_segment){.fd = -1, .doorbells_fd = -1};
	local->stats = &bl_no_stats;
	local->enabled = false;
	local->npolled = local->nunpolled = 0;
	local->peers.arrived = local->peers.wanting = local->peers.wanting_last =
		local->peers.spare = NULL;
	for (uint32_t i = 0; i < local->nby_index; i++)
		local->by_index[i] = NULL;
	for (struct bl_peer *p = local->peers.all; p; p = p->next.all)
		orphan_peer(p);
	for (struct bl_peer *p = local->peers.gone; p; p = p->next.all)
		orphan_peer(p);
	pthread_mutex_init(&local->lock, NULL);
}

/* --- the table ---------------------------------------------------------- */

static struct bl_peer *new_peer(struct bl_local *local)
{
	struct bl_peer_slab *slab = local->peers.slabs;

	if (!slab || slab->used == SLAB_PEERS) {
		slab = aligned_alloc(alignof(struct bl_peer_slab), sizeof *slab);
		if (!slab)
			return NULL;
		memset(slab, 0, sizeof *slab);
		slab->next = local->peers.slabs;
		local->peers.slabs = slab;
	}
	return &slab->peer[slab->used++];
}

struct bl_peer *bl_peer_get_locked(struct bl_local *local, const struct bl_addr *addr)
{
	uint32_t bucket = addr->id[0] % BL_PEER_TABLE; /* random bytes hash themselves */
	struct bl_peer *peer;

	for (peer = local->peers.table[bucket]; peer; peer = peer->next.hash)
		if (!memcmp(peer->addr.id, addr->id, sizeof addr->id))
			return peer;
	peer = new_peer(local);
	if (!peer)
		return NULL;
	peer->addr = *addr;
	peer->local = local;
	peer->av_index = NOT_IN_VECTOR;
	peer->doorbell_index = BL_DOORBELL_NONE;
	peer->stats = &bl_no_lane_stats;
	peer->next.hash = local->peers.table[bucket];
	local->peers.table[bucket] = peer;
	peer->next.all = local->peers.all;
	local->peers.all = peer;
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
	peer = local->peers.table[addr->id[0] % BL_PEER_TABLE];
	while (peer && memcmp(peer->addr.id, addr->id, sizeof addr->id))
		peer = peer->next.hash;
	pthread_mutex_unlock(&local->lock);
	return peer;
}

/* --- connecting --------------------------------------------------------- */

void bl_peer_want_locked(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;

	if (peer->wanting)
		return;
	peer->wanting = true;
	peer->next.wanting = NULL;
	if (local->peers.wanting)
		local->peers.wanting_last->next.wanting = peer;
	else
		local->peers.wanting = peer;
	local->peers.wanting_last = peer;
}

void bl_peer_promise_locked(struct bl_peer *peer, bool promised)
{
	peer->setup.promised = promised;
	if (!promised && atomic_load_explicit(&peer->state, memory_order_relaxed) == BL_PEER_NEW)
		bl_stats_peer_none(peer); /* it has hung up */
}

/* One whose index another may have: it is gone, or has called and hung up. */
static struct bl_peer *find_donor(struct bl_local *local)
{
	struct bl_peer *peer = local->peers.spare;

	if (peer) {
		local->peers.spare = peer->next.spare;
		return peer;
	}
	for (peer = local->nindexes == BL_DOORBELLS ? local->peers.all : NULL; peer;
	     peer = peer->next.all)
		if (peer->setup.has_index && !peer->setup.promised &&
		    atomic_load_explicit(&peer->state, memory_order_relaxed) == BL_PEER_NEW) {
			peer->setup.has_index = false;
			return peer;
		}
	return NULL;
}

int bl_peer_give_index_locked(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	struct bl_lane_stats *stats;
	struct bl_peer *donor;
	uint32_t index;
	int err;

	if (peer->setup.has_index) {
		bl_stats_add_peer(peer, peer->stats);
		return 0;
	}
	donor = find_donor(local);
	index = donor ? donor->setup.index : local->nindexes;
	if (index == BL_DOORBELLS) {
		bl_warn("more than %u neighbours of one endpoint", BL_DOORBELLS);
		return -EUSERS;
	}
	err = bl_segment_show(&local->seg, index, &stats);
	if (err)
		return err; /* not of a donor's, which is there */
	if (donor) {
		donor->stats = &bl_no_lane_stats;
		bl_lane_drop(donor->tx.lane, local->seg.lane_span);
		donor->tx.lane = NULL;
	} else {
		local->nindexes++;
	}
	peer->setup.index = index;
	peer->setup.has_index = true;
	bl_stats_add_peer(peer, stats);
	return 0;
}

int bl_peer_attach_locked(struct bl_peer *peer, struct bl_link *link, uint32_t doorbell, pid_t pid)
{
	enum bl_peer_state state = atomic_load_explicit(&peer->state, memory_order_relaxed);
	struct bl_local *local = peer->local;

	if (state == BL_PEER_READY)
		return -EALREADY;
	if (state == BL_PEER_FAILED)
		return peer->error; /* for good: the owner has given up what it had with it */
	peer->tx.lane = link->ours;
	peer->rx.lane = link->theirs;
	peer->rx.slot = link->theirs->slot;
	peer->rx.span = (uint8_t)__builtin_ctzl(link->theirs_span);
	peer->rx.left = (uint16_t)(peer->rx.next - 1);
	peer->mapped.header = link->header;
	peer->mapped.doorbells = link->doorbells;
	memset(link, 0, sizeof *link);
	peer->setup.has_lane = true;
	peer->life.unkept = peer->mapped.header->flags & BL_SEG_UNKEPT;
	atomic_store_explicit(&local->life.unkept,
			      atomic_load_explicit(&local->life.unkept, memory_order_relaxed) +
				      peer->life.unkept,
			      memory_order_relaxed);
	bl_copy_pair_init(&peer->copy, pid);
	if (doorbell < BL_DOORBELLS)
		peer->doorbell_index = doorbell;
	peer->next.arrived = local->peers.arrived;
	local->peers.arrived = peer;
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
	peer->next.arrived = peer->local->peers.arrived;
	peer->local->peers.arrived = peer;
	atomic_store_explicit(&peer->state, BL_PEER_FAILED, memory_order_release);
	atomic_store_explicit(&peer->local->attention, 1, memory_order_release);
	bl_local_wake(peer->local);
}

int bl_peer_connect_self_locked(struct bl_peer *peer)
{
	struct bl_segment *seg = &peer->local->seg;
	struct bl_link link = {0};
	int fd[BL_FDS] = {seg->fd, seg->doorbells_fd, bl_lane_make(seg, &link)};
	int err = fd[BL_FD_LANE];

	if (err < 0)
		return err;
	err = bl_link_map(&link, fd);
	close(fd[BL_FD_LANE]);
	if (!err)
		err = bl_peer_attach_locked(peer, &link, peer->setup.index, getpid());
	bl_link_unmap(&link);
	return err;
}

/* First use of a peer that nobody has called yet. local->lock held. */
static int start_connecting(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	int err = bl_addr_reachable(&local->addr, &peer->addr);

	if (err) {
		peer->error = err;
		peer->next.arrived =
			local->peers.arrived; /* the owner ends what names it: lost() */
		local->peers.arrived = peer;
		atomic_store_explicit(&peer->state, BL_PEER_FAILED, memory_order_release);
		atomic_store_explicit(&local->attention, 1, memory_order_release);
		bl_warn("%s (process %u) is %s: Beeline reaches the processes of one node; for "
			"other "
			"hosts let the MPI library choose another provider",
			peer->addr.hostname, peer->addr.pid,
			err == -EHOSTUNREACH ? "another host" : "in another network namespace");
		return err;
	}
	err = bl_peer_give_index_locked(peer);
	if (err)
		return err;
	if (!memcmp(peer->addr.id, local->addr.id, sizeof peer->addr.id)) {
		err = bl_peer_connect_self_locked(peer);
		if (err != -EMFILE && err != -ENFILE)
			return err ? err : -EAGAIN;
		/* The service thread has some aside. */
	}
	atomic_store_explicit(&peer->state, BL_PEER_CONNECTING, memory_order_relaxed);
	bl_peer_want_locked(peer);
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
			call = local->peers.wanting != NULL; /* not to ourselves */
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

static void make_hot(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;

	if (local->npolled == BL_POLLED_MAX) {
		local->nunpolled++;
		/* It may have rung before we knew it. */
		bl_doorbell_ring(local->seg.doorbells, peer->setup.index);
		return;
	}
	peer->hot = true;
	peer->watch.seen_at = bl_ticks();
	local->hot[local->npolled++] = peer;
	/* No barrier: a sender that doesn't see it yet rings for nothing. */
	atomic_store_explicit(&peer->rx.lane->polled, 1, memory_order_relaxed);
}

static int remember_index(struct bl_local *local, struct bl_peer *peer)
{
	if (peer->setup.index >= local->nby_index) {
		uint32_t room = (peer->setup.index + 64) / 64 * 64;
		struct bl_peer **grown = realloc(local->by_index, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		memset(grown + local->nby_index, 0, (room - local->nby_index) * sizeof(*grown));
		local->by_index = grown;
		local->nby_index = room;
	}
	local->by_index[peer->setup.index] = peer;
	return 0;
}

void bl_local_adopt(struct bl_local *local, void (*adopt)(struct bl_peer *peer),
		    void (*lost)(struct bl_peer *peer))
{
	struct bl_peer *peer, *next;

	/* acquire: pairs with the releases of whoever raised it */
	atomic_exchange_explicit(&local->attention, 0, memory_order_acquire);
	pthread_mutex_lock(&local->lock);
	peer = local->peers.arrived;
	local->peers.arrived = NULL;
	pthread_mutex_unlock(&local->lock);

	for (; peer; peer = next) {
		next = peer->next.arrived;
		if (atomic_load_explicit(&peer->state, memory_order_acquire) == BL_PEER_FAILED) {
			lost(peer);
			continue;
		}
		if (remember_index(local, peer)) { /* no memory now: try again later */
			pthread_mutex_lock(&local->lock);
			peer->next.arrived = local->peers.arrived;
			local->peers.arrived = peer;
			pthread_mutex_unlock(&local->lock);
			atomic_store_explicit(&local->attention, 1, memory_order_release);
			continue;
		}
		bl_tx_begin(&peer->tx);
		peer->adopted = true;
		bl_stats_peer_ready(peer);
		make_hot(peer);
		bl_window(BL_WINDOW_ADOPTED, NULL);
		adopt(peer);
	}
}

/* --- doorbells -------------------------------------------------------------- */

static bool can_ring(const struct bl_peer *peer)
{
	return !(peer->mapped.header->flags & BL_SEG_NO_MEMBARRIER) &&
	       peer->doorbell_index != BL_DOORBELL_NONE;
}

int bl_peer_want_credit(struct bl_peer *peer)
{
	_Atomic uint32_t *wants = &peer->tx.lane->wants_room;

	if (!can_ring(peer))
		return -EOPNOTSUPP;
	/* Whoever takes it back now looks at `polled` after that, and will ring: we have dozed. */
	if (atomic_load_explicit(&peer->wants_credit, memory_order_relaxed) &&
	    atomic_load_explicit(wants, memory_order_relaxed))
		return 0;
	atomic_store_explicit(wants, 1, memory_order_relaxed);
	/* relaxed: the service thread looks again */
	atomic_store_explicit(&peer->wants_credit, true, memory_order_relaxed);
	return 1;
}

void bl_peer_forgo_credit(struct bl_peer *peer)
{
	if (!atomic_load_explicit(&peer->wants_credit, memory_order_relaxed))
		return;
	atomic_store_explicit(&peer->wants_credit, false, memory_order_relaxed);
	atomic_store_explicit(&peer->tx.lane->wants_room, 0, memory_order_relaxed);
}

bl_cold void bl_rx_wake(struct bl_rx *rx)
{
	atomic_store_explicit(&rx->lane->wants_room, 0, memory_order_relaxed);
	bl_peer_notify(bl_containerof(rx, struct bl_peer, rx));
}

bool bl_peer_has_counted(const struct bl_peer *peer)
{
	const struct bl_lane *lane = peer->tx.lane;
	/* relaxed: who takes them acquires */
	uint32_t some = atomic_load_explicit(&peer->local->counts, memory_order_relaxed);

	for (; some; some &= some - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(some);

		if (atomic_load_explicit(&lane->count[i], memory_order_relaxed) !=
		    atomic_load_explicit(&peer->counted[i], memory_order_relaxed))
			return true;
	}
	return false;
}

static bool has_come(const struct bl_peer *peer)
{
	return bl_rx_peek(&peer->rx) || bl_peer_has_counted(peer);
}

/* The lane isn't polled from here on; see is_unheard(). */
static void stay_quiet(struct bl_peer *peer)
{
	/* relaxed: an older number costs a look */
	atomic_store_explicit(&peer->quiet_next, peer->rx.next, memory_order_relaxed);
}

/* There may be something in this lane, which isn't polled. */
static void answer(struct bl_local *local, struct bl_peer *peer,
		   void (*poll)(struct bl_peer *peer, void *arg), void *arg)
{
	if (unlikely(local->doorbell.drowsy)) {
		local->doorbell.drowsy--; /* it may sleep again at once: stay */
	} else if (local->npolled < BL_POLLED_MAX) {
		local->nunpolled--;
		make_hot(peer);
	}
	poll(peer, arg);
	if (peer->hot)
		return;
	stay_quiet(peer);
	/* What a full completion queue left behind must be heard of. */
	if (bl_rx_peek(&peer->rx))
		bl_doorbell_ring(local->seg.doorbells, peer->setup.index);
}

bool bl_local_answer_doorbells(struct bl_local *local,
			       void (*poll)(struct bl_peer *peer, void *arg), void *arg)
{
	struct bl_doorbells *doorbells = local->seg.doorbells;

	if (likely(!atomic_load_explicit(&doorbells->summary, memory_order_relaxed)))
		return false;

	uint64_t words = atomic_exchange_explicit(&doorbells->summary, 0, memory_order_acquire);

	for (; words; words &= words - 1) {
		uint32_t w = (uint32_t)__builtin_ctzll(words);
		uint64_t bits =
			atomic_exchange_explicit(&doorbells->word[w], 0, memory_order_acquire);

		for (; bits; bits &= bits - 1) {
			uint32_t index = w * 64 + (uint32_t)__builtin_ctzll(bits);
			struct bl_peer *peer =
				index < local->nby_index ? local->by_index[index] : NULL;

			if (peer && !peer->hot) /* else polled anyway, or nonsense */
				answer(local, peer, poll, arg);
		}
	}
	return true;
}

#define LISTEN_MOST 256u /* lanes in one look */

void bl_local_listen(struct bl_local *local, void (*poll)(struct bl_peer *peer, void *arg),
		     void *arg)
{
	uint32_t n = bl_min(local->nby_index, LISTEN_MOST);
	/* relaxed: a hint where to begin, next time if not now */
	uint32_t at = atomic_exchange_explicit(&local->doorbell.unheard, 0, memory_order_relaxed);

	if (at)
		local->doorbell.listened = at - 1;
	for (; local->nunpolled && n--; local->doorbell.listened++) {
		struct bl_peer *peer = local->by_index[local->doorbell.listened % local->nby_index];

		if (!peer || peer->hot || peer->dead)
			continue;
		stay_quiet(peer);
		/* Not by way of its doorbell, which somebody may take away again. */
		if (has_come(peer))
			answer(local, peer, poll, arg);
	}
}

/* So every neighbour's packets are visible that were sent before it could see that we stopped
 * polling. */
bool bl_local_drain_all(void)
{
	return bl_service_membarrier() &&
	       !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

static void cool(struct bl_local *local, struct bl_peer *peer)
{
	peer->hot = false;
	stay_quiet(peer);
	for (uint32_t i = 0; i < local->npolled; i++)
		if (local->hot[i] == peer) {
			local->hot[i] = local->hot[--local->npolled];
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
	bool drained = bl_local_drain_all();
	for (uint32_t i = 0; i < n; i++) {
		struct bl_peer *peer = quiet[i];

		if (!drained || has_come(peer)) {
			atomic_store_explicit(&peer->rx.lane->polled, 1, memory_order_relaxed);
			continue;
		}
		cool(local, peer);
		local->nunpolled++;
		stopped++;
	}
	return stopped;
}

void bl_local_unpoll_silent(struct bl_local *local, uint64_t before)
{
	struct bl_peer *quiet[BL_POLLED_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < local->npolled && local->npolled - n > BL_POLLED_KEEP; i++) {
		struct bl_peer *peer = local->hot[i];

		if ((int64_t)(peer->watch.seen_at - before) < 0 && can_ring(peer))
			quiet[n++] = peer;
	}
	if (n)
		stop_polling(local, quiet, n);
}

int bl_local_stop_polling(struct bl_local *local)
{
	struct bl_peer *quiet[BL_POLLED_MAX];
	uint32_t n = local->npolled;

	for (uint32_t i = 0; i < n; i++) {
		quiet[i] = local->hot[i];
		if (!can_ring(quiet[i]) || bl_rx_is_unfinished(&quiet[i]->rx))
			return -EOPNOTSUPP; /* look again soon */
	}
	if (!n || stop_polling(local, quiet, n) == n)
		return 0;
	for (uint32_t i = 0; i < local->npolled; i++)
		if (has_come(local->hot[i]) && !bl_rx_is_unfinished(&local->hot[i]->rx))
			return -EAGAIN;
	return -EOPNOTSUPP;
}

void bl_local_forget(struct bl_local *local, struct bl_peer *peer)
{
	if (peer->hot)
		cool(local, peer);
	else if (peer->adopted)
		local->nunpolled--;
	/* release: pairs with the acquire in bl_local_check_sleep_locked */
	atomic_store_explicit(&peer->life.gone, true, memory_order_release);
	if (peer->adopted)
		local->by_index[peer->setup.index] = NULL;
}
