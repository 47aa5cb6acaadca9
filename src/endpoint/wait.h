/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wait.h: sleeping until a completion queue or a counter has something. A thread
 * that waits reads, dozes (which makes progress once more and sees to it that
 * whatever comes wakes it), sleeps, rises and reads again; or it polls a file
 * descriptor between a successful bl_wait_try() and its next read. Several threads may
 * do so at once with one queue, some of them in either way.
 *
 * Serialised by the domain like everything in api.h, but for bl_wait_sleep(): any
 * thread, no lock held, and endpoints may be closed and bound meanwhile.
 */
#ifndef BL_ENDPOINT_WAIT_H
#define BL_ENDPOINT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "core/waiter.h"
#include "transport/local/local.h" /* struct bl_futex */

struct bl_cq;
struct bl_cntr;
struct bl_ep;

/* What one sleeping thread needs, its own. */
struct bl_sleep {
	uint64_t most;	       /* ns */
	struct bl_futex futex; /* to sleep on; or else ... */
	uint64_t ep;	       /* the number of the endpoint whose futex it is; 0: none */
	int fd;		       /* ... a descriptor; -1: nothing wakes it */
	bool others;	       /* refused: another thread that has been woken may be why */
};

#define BL_WAIT_MOST_NS 50000000u /* so often a sleeper looks after the lives of its peers */

/* The descriptor to poll, made at the first call, or -errno. */
int bl_wait_fd(struct bl_waiter *w);
/* 0: nothing is there, and what comes makes the descriptor readable. -EAGAIN: read, and try again
 * what this thread was refused. */
int bl_wait_try(struct bl_waiter *w);

/* Prepare to sleep. False: don't, read. True: bl_wait_rise() must follow; of a counter
 * the caller compares the value before it sleeps. */
bool bl_wait_doze(struct bl_waiter *w, struct bl_sleep *sleep);
/* Sleep, at most ns. */
void bl_wait_sleep(const struct bl_sleep *sleep, uint64_t ns);
void bl_wait_rise(struct bl_waiter *w, struct bl_sleep *sleep);
/* An endpoint opens, in a domain that may have such counters; and closes. */
int bl_wait_meet(struct bl_ep *ep);
void bl_wait_part(struct bl_ep *ep);
/* An endpoint has been enabled: who slept before that would not hear of it. */
void bl_wait_enabled(struct bl_ep *ep);

/* For how long a wait polls before it sleeps. */
uint64_t bl_wait_spin_ns(void);

#endif
