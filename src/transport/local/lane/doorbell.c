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
#include "transport/local/lane/doorbell.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define DRAIN_MOST 64

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

void bl_doorbell_wake(struct bl_local *local, struct bl_doorbells *doorbells, uint32_t port,
		      uint32_t bits)
{
	/* SELinux of older kernels lets nothing else through. */
	static const struct nlmsghdr nothing = {.nlmsg_len = sizeof nothing,
						.nlmsg_type = NLMSG_NOOP};
	struct sockaddr_nl name = {.nl_family = AF_NETLINK, .nl_pid = port};
	int fd;

	if (bits & BL_SLEEP_FUTEX)
		bl_futex_call(&doorbells->sleeping, FUTEX_WAKE, INT32_MAX, NULL);
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
	bl_doorbell_wake(
		peer->local, doorbells,
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

	bl_doorbell_wake(local, doorbells,
			 atomic_load_explicit(&local->doorbell.wake_port, memory_order_relaxed),
			 bits);
}

bl_cold void bl_peer_ring(struct bl_peer *peer)
{
	if (!peer->mapped.doorbells || peer->doorbell_index == BL_DOORBELL_NONE)
		return;
	bl_doorbell_ring(peer->mapped.doorbells, peer->doorbell_index);
	bl_peer_wake(peer);
}
