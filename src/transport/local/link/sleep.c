/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * sleep.c: the owner falls asleep, and rises; see lane/doorbell.c.
 */
#include <errno.h>
#include <sys/socket.h>

#include "transport/local/lane/doorbell.h"
#include "transport/local/local.h"

#define DROWSY_BELLS 4	/* answered without sleeping in between, before lanes are polled again */
#define AWAKE_LOOKS  20 /* of the service thread, before it stops looking after one awake */

int bl_local_doze(struct bl_local *local, uint32_t how, struct bl_futex *futex)
{
	struct bl_doorbells *doorbells = local->seg.doorbells;
	uint32_t bits;
	int err;

	if (!doorbells)
		return -EOPNOTSUPP;
	/* Others have been woken, and may not yet have seen it: the bit would put them to
	 * sleep again. */
	if (how & BL_SLEEP_FUTEX && local->doorbell.sleepers &&
	    !(atomic_load_explicit(&doorbells->sleeping, memory_order_relaxed) & BL_SLEEP_FUTEX))
		return -EAGAIN;
	err = bl_local_stop_polling(local);
	if (err == -EAGAIN)
		return err;
	if (how & BL_SLEEP_FUTEX)
		local->doorbell.sleepers++;
	if (how & BL_SLEEP_SOCKET)
		atomic_store_explicit(
			&local->seg.header->wake_port,
			atomic_load_explicit(&local->doorbell.wake_port, memory_order_relaxed),
			memory_order_relaxed);
	bits = atomic_fetch_or_explicit(&doorbells->sleeping, how, memory_order_seq_cst);
	if (atomic_load_explicit(&doorbells->summary, memory_order_seq_cst) ||
	    atomic_load_explicit(&local->attention, memory_order_seq_cst)) {
		if (how & BL_SLEEP_FUTEX)
			bl_local_rise(local);
		return -EAGAIN;
	}
	if (how & BL_SLEEP_FUTEX)
		*futex = (struct bl_futex){&doorbells->sleeping, bits | how};
	local->doorbell.drowsy = DROWSY_BELLS;
	if (how & BL_SLEEP_SOCKET) {
		/* seq_cst: the service thread sees it, or we that it doesn't watch us */
		atomic_store_explicit(&local->doorbell.asleep, true, memory_order_seq_cst);
		bl_service_watch(local);
	}
	return err;
}

/* If the memory is gone, so is who would wake us: the call fails, and the sleeper looks. */
void bl_local_sleep(const struct bl_futex *word, uint64_t ns)
{
	struct timespec timeout = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	bl_futex_call(word->word, FUTEX_WAIT, word->value, &timeout);
}

void bl_local_rise(struct bl_local *local)
{
	if (!local->seg.doorbells || --local->doorbell.sleepers)
		return; /* the bit is another thread's as well */
	atomic_fetch_and_explicit(&local->seg.doorbells->sleeping, ~BL_SLEEP_FUTEX,
				  memory_order_relaxed);
}

/* It is connected, and its owner hasn't let go of it. */
static bool is_known(const struct bl_peer *peer)
{
	return atomic_load_explicit(&peer->state, memory_order_relaxed) == BL_PEER_READY &&
	       /* acquire: pairs with the release in bl_local_forget */
	       !atomic_load_explicit(&peer->life.gone, memory_order_acquire);
}

/* There is a packet in its lane, or a message's end or a count in ours, that nobody has read, or
 * room that we have asked for: its doorbell was lost. */
static bool is_unheard(const struct bl_peer *peer)
{
	uint32_t next = atomic_load_explicit(&peer->quiet_next, memory_order_relaxed);

	return atomic_load_explicit(&peer->rx.slot[next % BL_SLOTS].seq, memory_order_relaxed) ==
		       next + 1 ||
	       atomic_load_explicit(&peer->tx.lane->fins.some, memory_order_relaxed) ||
	       bl_peer_has_counted(peer) ||
	       (atomic_load_explicit(&peer->wants_credit, memory_order_relaxed) &&
		!atomic_load_explicit(&peer->tx.lane->wants_room, memory_order_relaxed));
}

/* What the owner would find if it looked at all its neighbours. */
static bool missed_any(struct bl_local *local)
{
	bool any = false;

	bl_local_check_unkept_locked(local);
	for (struct bl_peer *peer = local->peers.all; peer; peer = peer->next.all) {
		if (!is_known(peer))
			continue;
		if (is_unheard(peer))
			/* relaxed: a hint; see bl_local_listen */
			atomic_store_explicit(&local->doorbell.unheard, peer->setup.index + 1,
					      memory_order_relaxed);
		else if (!bl_peer_ended(peer))
			continue;
		any = true;
	}
	return any;
}

static bool is_readable(int fd)
{
	char byte;

	return fd >= 0 && recv(fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_PEEK) >= 0;
}

bool bl_local_check_sleep_locked(struct bl_local *local)
{
	struct bl_doorbells *doorbells = local->seg.doorbells;
	bool waits =
		atomic_load_explicit(&doorbells->sleeping, memory_order_seq_cst) & BL_SLEEP_SOCKET;
	/* seq_cst: pairs with the store in bl_local_doze; it has a socket */
	bool asleep = atomic_load_explicit(&local->doorbell.asleep, memory_order_seq_cst);
	/* Whoever takes the bit sends a datagram; not a neighbour that scribbles. */
	bool robbed = !waits && asleep && !is_readable(local->doorbell.wake_socket);

	if (!waits && !robbed)
		return ++local->watch.awake_looks < AWAKE_LOOKS;
	local->watch.awake_looks = 0;
	if (missed_any(local) || robbed) {
		/* release: pairs with the acquire in bl_local_adopt */
		atomic_store_explicit(&local->attention, 1, memory_order_release);
		atomic_fetch_and_explicit(&doorbells->sleeping, ~BL_SLEEP_SOCKET,
					  memory_order_acq_rel);
		bl_doorbell_wake(
			local, doorbells,
			atomic_load_explicit(&local->doorbell.wake_port, memory_order_relaxed),
			BL_SLEEP_SOCKET);
	}
	return true;
}
