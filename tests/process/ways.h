/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ways.h: the ways to wait for a completion, for wait.c and mourn.c, and what they and others look
 * at: the clock, and the CPU time of this process.
 */
#ifndef BL_TESTS_PROCESS_WAYS_H
#define BL_TESTS_PROCESS_WAYS_H

#include "cases.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#define TRIES 6 /* a busy machine may spoil some, not all */

static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t now(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

static inline uint64_t cpu(void)
{
	return now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* The other process is away for so long: longer than any nap of a sleeper. */
static inline void pause_ms(int ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000l};

	nanosleep(&ts, NULL);
}

/* What waiting for one completion means; returns what the read returned. */
typedef ssize_t (*waiter_fn)(struct t_node *n, struct fi_cq_tagged_entry *e, int timeout);

static inline ssize_t by_sread(struct t_node *n, struct fi_cq_tagged_entry *e, int timeout)
{
	return fi_cq_sread(n->cq, e, 1, NULL, timeout);
}

static inline int descriptor(struct fid *fid)
{
	int fd = -1;

	T_OK(fi_control(fid, FI_GETWAIT, &fd));
	T_CHECK(fd >= 0, "FI_GETWAIT gave %d", fd);
	return fd;
}

enum how { POLL, EPOLL, SELECT };

static inline int sleep_on(int fd, int timeout, enum how how)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event event = {.events = EPOLLIN}, got;
	struct timeval tv = {timeout / 1000, timeout % 1000 * 1000};
	fd_set set;
	int ep, n;

	switch (how) {
	case POLL:
		return poll(&p, 1, timeout);
	case EPOLL:
		ep = epoll_create1(0);
		T_OK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
		n = epoll_wait(ep, &got, 1, timeout);
		close(ep);
		return n;
	case SELECT:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		return select(fd + 1, &set, NULL, NULL, timeout < 0 ? NULL : &tv);
	}
	return -1;
}

static inline ssize_t by_fd(struct t_node *n, struct fi_cq_tagged_entry *e, int timeout,
			    enum how how)
{
	struct fid *fids[] = {&n->cq->fid};
	int fd = descriptor(fids[0]);

	for (;;) {
		ssize_t got = fi_cq_read(n->cq, e, 1);
		int rc;

		if (got != -FI_EAGAIN)
			return got;
		rc = fi_trywait(n->fabric, fids, 1);
		if (rc == -FI_EAGAIN)
			continue;
		T_OK(rc);
		rc = sleep_on(fd, timeout, how);
		T_CHECK(rc >= 0, "waiting on the descriptor: %s", strerror(errno));
		if (!rc)
			return -FI_EAGAIN;
	}
}

static inline ssize_t by_poll(struct t_node *n, struct fi_cq_tagged_entry *e, int timeout)
{
	return by_fd(n, e, timeout, POLL);
}

static inline ssize_t by_epoll(struct t_node *n, struct fi_cq_tagged_entry *e, int timeout)
{
	return by_fd(n, e, timeout, EPOLL);
}

static inline ssize_t by_select(struct t_node *n, struct fi_cq_tagged_entry *e, int timeout)
{
	return by_fd(n, e, timeout, SELECT);
}

#endif
