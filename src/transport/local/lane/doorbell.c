/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * doorbell.c: a process with nothing to do sleeps, and whoever sends to it wakes it.
 *
 *   owner                                    sender
 *   lanes: polled = 0, all stores drained    packet into the lane
 *   sleeping |= how        (seq_cst)         polled is 0: ring the doorbell  (seq_cst)
 *   any doorbell, any news?    (seq_cst)     sleeping?                       (seq_cst)
 *   sleep                                    take the bits, wake
 *
 * Of the two last lines of each side at least one sees the other. A sender whose neighbour is
 * awake pays nothing: the look at `sleeping` hangs behind the doorbell.
 *
 * It sleeps on a futex, the word itself; or, for who wants a descriptor, on a datagram to a
 * netlink socket whose number is in the header. A datagram means "look", and nothing else.
 *
 * The owner's domain serialises all but bl_local_sleep and bl_local_wake, which any thread may
 * call. The service thread looks after the peers of who sleeps on its socket. A process that dies
 * asleep leaves bits that nobody minds. One that dies between doorbell and wake leaves a sleeper
 * that finds the doorbell when it looks after that death.
 *
 * Any neighbour can take another's doorbell or bits away. So nobody sleeps for ever on their
 * word: a look at all lanes follows every 50 ms, by the sleeper or the service thread.
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/local/local.h"

#define DRAIN_MOST   64
#define DROWSY_BELLS 4	/* answered without sleeping in between, before lanes are polled again */
#define AWAKE_LOOKS  20 /* of the service thread, before it stops looking after one awake */

int bl_local_wake_socket(struct bl_local *local)
{
	struct sockaddr_nl name = {.nl_family = AF_NETLINK}; /* any number */
	socklen_t len = sizeof name;
	int fd, err;

	if (local->doorbell.wake_socket >= 0)
		return local->doorbell.wake_socket;
	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_USERSOCK);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&name, len) &&
	    !getsockname(fd, (struct sockaddr *)&name, &len)) {
		local->doorbell.wake_socket = fd;
		/* relaxed: whoever wakes us has seen a bit that was set later */
		atomic_store_explicit(&local->doorbell.wake_port, name.nl_pid,
				      memory_order_relaxed);
		return fd;
	}
	err = -errno;
	if (!local->doorbell.wake_refused)
		bl_warn("no netlink socket to be woken by, or to wake: %s; %s", strerror(-err),
			bl_remedy(-err));
	local->doorbell.wake_refused = true;
	if (fd >= 0)
		close(fd);
	return err;
}

bool bl_local_drain_wakes(struct bl_local *local)
{
	bool any = false;
	char byte;

	/* Anybody in this network namespace may write there: not for ever. */
	for (int i = 0; i < DRAIN_MOST && local->doorbell.wake_socket >= 0 &&
			recv(local->doorbell.wake_socket, &byte, sizeof byte, MSG_DONTWAIT) >= 0;
	     i++)
		any = true;
	if (any)
		atomic_store_explicit(&local->doorbell.asleep, false, memory_order_relaxed);
	return any;
}

static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* The bits have been taken from an endpoint's doorbells: wake its owner. */
static void wake(struct bl_local *local, struct bl_doorbells *doorbells, uint32_t port,
		 uint32_t bits)
{
	/* SELinux of older kernels lets nothing else through. */
	static const struct nlmsghdr nothing = {.nlmsg_len = sizeof nothing,
						.nlmsg_type = NLMSG_NOOP};
	struct sockaddr_nl name = {.nl_family = AF_NETLINK, .nl_pid = port};
	int fd;

	if (bits & BL_SLEEP_FUTEX)
		futex(&doorbells->sleeping, FUTEX_WAKE, INT32_MAX, NULL);
	if (!(bits & BL_SLEEP_SOCKET) || !port)
		return;
	fd = bl_local_wake_socket(local);
	if (fd >= 0) /* an error: it is full, which wakes as well, or nobody is there */
		sendto(fd, &nothing, sizeof nothing, MSG_DONTWAIT | MSG_NOSIGNAL,
		       (struct sockaddr *)&name, sizeof name);
}

bl_cold void bl_peer_wake(struct bl_peer *peer)
{
	struct bl_doorbells *doorbells = peer->mapped.doorbells;

	if (likely(!atomic_load_explicit(&doorbells->sleeping, memory_order_seq_cst)))
		return;
	uint32_t bits = atomic_exchange_explicit(&doorbells->sleeping, 0, memory_order_acq_rel);
	/* It was there before its bit. */
	wake(peer->local, doorbells,
	     atomic_load_explicit(&peer->mapped.header->wake_port, memory_order_relaxed), bits);
}

void bl_local_wake(struct bl_local *local)
{
	struct bl_doorbells *doorbells = local->seg.doorbells;

	/* What there is to see was stored before; see bl_local_doze. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!doorbells || !atomic_load_explicit(&doorbells->sleeping, memory_order_seq_cst))
		return;
	uint32_t bits = atomic_exchange_explicit(&doorbells->sleeping, 0, memory_order_acq_rel);

	wake(local, doorbells,
	     atomic_load_explicit(&local->doorbell.wake_port, memory_order_relaxed), bits);
}

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

	futex(word->word, FUTEX_WAIT, word->value, &timeout);
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
		wake(local, doorbells,
		     atomic_load_explicit(&local->doorbell.wake_port, memory_order_relaxed),
		     BL_SLEEP_SOCKET);
	}
	return true;
}
