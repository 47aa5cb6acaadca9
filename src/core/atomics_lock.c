/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomics_lock.c: see atomics_lock.h. `own.lock` guards this process's token; it is taken once for
 * it, and when it goes.
 */
#include "core/atomics_lock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/addr.h"

#define SPINS	      200
#define YIELDS	      4
#define SUSPICIOUS_NS 5000000u /* the same holder for so long: does it live? */

static struct {
	pthread_mutex_t lock;
	int socket; /* named by the token */
	_Atomic uint64_t token;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};

/* --- tokens ------------------------------------------------------------------- */

static socklen_t token_name(struct sockaddr_un *name, uint64_t token)
{
	uint8_t id[16] = {0};

	memcpy(id, &token, sizeof token);
	return bl_service_name(name, "beeline-holder-", id);
}

/* own.lock held. Nothing is ever read from the socket. */
static int make_token(void)
{
	struct sockaddr_un name;
	uint64_t token = 0;
	int fd;

	while (!token)
		if (getrandom(&token, sizeof token, 0) != sizeof token)
			return -errno;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* In this order: nobody who finds the name can leave anything there. */
	if (shutdown(fd, SHUT_RD) || bind(fd, (struct sockaddr *)&name, token_name(&name, token))) {
		int err = -errno;

		close(fd);
		return err;
	}
	own.socket = fd;
	atomic_store_explicit(&own.token, token, memory_order_release);
	return 0;
}

static uint64_t own_token(void)
{
	uint64_t token = atomic_load_explicit(&own.token, memory_order_acquire);
	int err;

	if (likely(token))
		return token;
	pthread_mutex_lock(&own.lock);
	err = own.socket >= 0 ? 0 : make_token();
	token = atomic_load_explicit(&own.token, memory_order_relaxed);
	pthread_mutex_unlock(&own.lock);
	if (err)
		bl_info("no socket for the token of locks: %s; atomic operations take another way",
			strerror(-err));
	return token;
}

/* Nobody has the token any more. A live holder's socket takes nothing (EPIPE). */
static bool is_dead(uint64_t token)
{
	struct sockaddr_un name;
	socklen_t len = token_name(&name, token);

	return sendto(own.socket, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&name,
		      len) < 0 &&
	       errno == ECONNREFUSED;
}

void bl_atomics_token_forget(void)
{
	pthread_mutex_lock(&own.lock);
	if (own.socket >= 0)
		close(own.socket);
	own.socket = -1;
	atomic_store_explicit(&own.token, 0, memory_order_relaxed);
	pthread_mutex_unlock(&own.lock);
}

void bl_atomics_token_orphan(void)
{
	pthread_mutex_init(&own.lock, NULL); /* a thread that wasn't forked may have had it */
	bl_atomics_token_forget();
}

/* --- the lock ------------------------------------------------------------------ */

static bool take(struct bl_atomics_page *atomics_page, uint64_t from, uint64_t token)
{
	/* acquire: pairs with the release in bl_atomics_page_unlock */
	return atomic_compare_exchange_strong_explicit(&atomics_page->holder, &from, token,
						       memory_order_acquire, memory_order_relaxed);
}

/* The contended half: it was held a moment ago. */
static bl_cold int wait_for(struct bl_atomics_page *atomics_page, struct bl_atomics_page_wait *wait,
			    uint64_t token)
{
	uint64_t holder, now;

	atomic_store_explicit(&atomics_page->wanted, 1, memory_order_relaxed);
	for (int i = 0; i < SPINS + YIELDS; i++) {
		if (!atomic_load_explicit(&atomics_page->holder, memory_order_relaxed) &&
		    take(atomics_page, 0, token))
			return 0;
		if (i < SPINS)
			bl_cpu_relax();
		else
			sched_yield();
	}
	holder = atomic_load_explicit(&atomics_page->holder, memory_order_relaxed);
	now = bl_clock_ns();
	if (!holder || holder != wait->seen) {
		wait->seen = holder;
		wait->since = now;
	} else if (now - wait->since > SUSPICIOUS_NS) {
		wait->since = now;
		if (is_dead(holder) && take(atomics_page, holder, token)) {
			bl_info("a process died during an atomic operation: its lock is taken "
				"over");
			return 0;
		}
	}
	return -EAGAIN;
}

int bl_atomics_page_lock(struct bl_atomics_page *atomics_page, struct bl_atomics_page_wait *wait)
{
	uint64_t token = own_token();
	int err = 0;

	if (unlikely(!token))
		return -EOPNOTSUPP;
	if (unlikely(!take(atomics_page, 0, token)))
		err = wait_for(atomics_page, wait, token);
	return err;
}

/* It is free, and somebody has wanted it: he may be about to run, here or beside us. */
static bl_cold void give_way(struct bl_atomics_page *atomics_page)
{
	atomic_store_explicit(&atomics_page->wanted, 0, memory_order_relaxed);
	for (int i = 0; i < SPINS + YIELDS; i++) {
		if (atomic_load_explicit(&atomics_page->holder, memory_order_relaxed))
			return;
		if (i < SPINS)
			bl_cpu_relax();
		else
			sched_yield();
	}
}

void bl_atomics_page_unlock(struct bl_atomics_page *atomics_page)
{
	/* release: pairs with the acquire in take() */
	atomic_store_explicit(&atomics_page->holder, 0, memory_order_release);
	if (unlikely(atomic_load_explicit(&atomics_page->wanted, memory_order_relaxed)))
		give_way(atomics_page);
}

int bl_atomics_page_share(struct bl_atomics_page *atomics_page, struct bl_atomics_page_wait *wait)
{
	if (likely(!atomic_load_explicit(&atomics_page->wanted, memory_order_relaxed)))
		return 0;
	bl_atomics_page_unlock(atomics_page);
	return bl_atomics_page_lock(atomics_page, wait);
}
