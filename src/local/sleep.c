/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * sleep.c: a process with nothing to do sleeps, and whoever sends to it wakes it.
 *
 *   owner                                    sender
 *   lanes: polled = 0, all stores drained    packet into the lane
 *   sleeping |= how        (seq_cst)         polled is 0: ring the bell  (seq_cst)
 *   any bell, any news?    (seq_cst)         sleeping?                   (seq_cst)
 *   sleep                                    take the bits, wake
 *
 * Of the two last lines of each side at least one sees the other. A sender whose
 * neighbour is awake pays nothing: the look at `sleeping` hangs behind the bell.
 *
 * Two ways to sleep: on a futex, the word itself; or, for who wants a file
 * descriptor, on a datagram to a socket in the abstract namespace that is named by
 * the endpoint's id: one descriptor for each endpoint that sleeps so or wakes such
 * a one, none for each pair. A full socket is a readable socket: no wake is lost.
 * A datagram means nothing but "look"; one from a stranger costs a look.
 *
 * The owner's domain serialises all but bl_local_sleep and bl_local_wake, which any
 * thread may call; the service thread looks after the peers of who sleeps on its
 * socket (a death rings no bell). A process that dies asleep leaves bits that
 * nobody minds; one that dies between the bell and the wake leaves a sleeper that
 * finds the bell when it looks after that death.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "local/local.h"

#define DRAIN_MOST   64
#define DROWSY_BELLS 4	/* answered without sleeping in between, before lanes are polled again */
#define AWAKE_LOOKS  20 /* of the service thread, before it stops looking after one awake */

static socklen_t wake_name(struct sockaddr_un *name, const uint8_t id[16])
{
	return bl_service_name(name, "beewake-", id);
}

int bl_local_wake_socket(struct bl_local *local)
{
	struct sockaddr_un name;
	socklen_t len = wake_name(&name, local->addr.id);
	int fd, err;

	if (local->wake_socket >= 0)
		return local->wake_socket;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&name, len)) {
		local->wake_socket = fd;
		return fd;
	}
	err = -errno;
	bl_warn("no socket to be woken by: %s%s", strerror(-err),
		err == -EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
	if (fd >= 0)
		close(fd);
	return err;
}

bool bl_local_drain_wakes(struct bl_local *local)
{
	bool any = false;
	char byte;

	/* Anybody in this network namespace may write there: not for ever. */
	for (int i = 0; i < DRAIN_MOST && local->wake_socket >= 0 &&
			recv(local->wake_socket, &byte, sizeof byte, MSG_DONTWAIT) >= 0;
	     i++)
		any = true;
	return any;
}

static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* The bits have been taken from an endpoint's header: wake its owner. */
static void wake(struct bl_local *local, struct bl_seg_header *header, const uint8_t id[16],
		 uint32_t bits)
{
	struct sockaddr_un name;
	socklen_t len;
	int fd;

	if (bits & BL_SLEEP_FUTEX)
		futex(&header->sleeping, FUTEX_WAKE, INT32_MAX, NULL);
	if (!(bits & BL_SLEEP_SOCKET))
		return;
	fd = bl_local_wake_socket(local);
	len = wake_name(&name, id);
	if (fd >= 0) /* an error: it is full, which wakes as well, or nobody is there */
		sendto(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&name, len);
}

bl_cold void bl_peer_wake(struct bl_peer *peer)
{
	struct bl_seg_header *header = peer->header;

	if (likely(!atomic_load_explicit(&header->sleeping, memory_order_seq_cst)))
		return;
	wake(peer->local, header, peer->addr.id,
	     atomic_exchange_explicit(&header->sleeping, 0, memory_order_acq_rel));
}

void bl_local_wake(struct bl_local *local)
{
	struct bl_seg_header *header = local->seg.header;

	/* What there is to see was stored before; see bl_local_doze. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!header || !atomic_load_explicit(&header->sleeping, memory_order_seq_cst))
		return;
	wake(local, header, local->addr.id,
	     atomic_exchange_explicit(&header->sleeping, 0, memory_order_acq_rel));
}

int bl_local_doze(struct bl_local *local, uint32_t how, struct bl_futex *futex)
{
	struct bl_seg_header *header = local->seg.header;
	uint32_t bits;
	int err;

	if (!header)
		return -EOPNOTSUPP;
	err = bl_local_stop_polling(local);
	if (err == -EAGAIN)
		return err;
	if (how & BL_SLEEP_FUTEX)
		local->sleepers++;
	bits = atomic_fetch_or_explicit(&header->sleeping, how, memory_order_seq_cst);
	if (atomic_load_explicit(&header->bell_summary, memory_order_seq_cst) ||
	    atomic_load_explicit(&local->attention, memory_order_seq_cst)) {
		if (how & BL_SLEEP_FUTEX)
			bl_local_rise(local);
		return -EAGAIN;
	}
	if (how & BL_SLEEP_FUTEX)
		*futex = (struct bl_futex){&header->sleeping, bits | how};
	local->drowsy = DROWSY_BELLS;
	if (how & BL_SLEEP_SOCKET)
		bl_service_watch(local);
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
	if (!local->seg.header || --local->sleepers)
		return; /* the bit is another thread's as well */
	atomic_fetch_and_explicit(&local->seg.header->sleeping, ~BL_SLEEP_FUTEX,
				  memory_order_relaxed);
}

/* It has died or closed, and the owner doesn't know. */
static bool lost_unseen(const struct bl_peer *peer)
{
	if (atomic_load_explicit(&peer->state, memory_order_relaxed) != BL_PEER_READY ||
	    /* acquire: pairs with the release in bl_local_forget */
	    atomic_load_explicit(&peer->gone, memory_order_acquire))
		return false;
	return atomic_load_explicit(&peer->header->closed, memory_order_acquire) ||
	       atomic_load_explicit(&peer->header->life, memory_order_acquire) & FUTEX_OWNER_DIED;
}

bool bl_local_check_sleep_locked(struct bl_local *local)
{
	struct bl_seg_header *header = local->seg.header;

	if (!(atomic_load_explicit(&header->sleeping, memory_order_seq_cst) & BL_SLEEP_SOCKET))
		return ++local->awake_looks < AWAKE_LOOKS;
	local->awake_looks = 0;
	bl_local_check_unkept_locked(local);
	for (struct bl_peer *peer = local->all; peer; peer = peer->next_all)
		if (lost_unseen(peer)) {
			/* release: pairs with the acquire in bl_local_adopt */
			atomic_store_explicit(&local->attention, 1, memory_order_release);
			bl_local_wake(local);
			break;
		}
	return true;
}
