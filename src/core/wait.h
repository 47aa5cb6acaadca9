/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wait.h: sleeping until a completion queue or a counter has something. A thread
 * that waits reads, dozes (which makes progress once more and sees to it that
 * whatever comes wakes it), sleeps, rises and reads again; or it polls a file
 * descriptor between a successful bl_wait_try() and its next read. Several threads may
 * do so at once with one queue, some of them in either way.
 *
 * Serialised by the domain like everything in core.h, but for bl_wait_sleep(): any
 * thread, no lock held, and endpoints may be closed and bound meanwhile.
 */
#ifndef BL_CORE_WAIT_H
#define BL_CORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "local/local.h" /* struct bl_futex */

struct bl_cq;
struct bl_cntr;
struct bl_ep;

/* In each queue and each counter. */
struct bl_waiter {
	struct bl_cq *cq; /* one of these two */
	struct bl_cntr *cntr;
	int epoll; /* readable: look. The sockets of all endpoints, and `event`. -1: none yet */
	int event; /* an eventfd: news that no neighbour brings */
	uint32_t sleepers; /* threads between a doze and their rise */
	bool armed; /* somebody may be polling `epoll`, and nothing has made it readable since */
};

/* What one sleeping thread needs, its own. */
struct bl_sleep {
	uint64_t most;	       /* ns */
	struct bl_futex futex; /* to sleep on; or else ... */
	uint64_t ep;	       /* the number of the endpoint whose futex it is; 0: none */
	int fd;		       /* ... a descriptor; -1: nothing wakes it */
};

/* What a queue's empty reads have found out about its core; wait.c. */
struct bl_crowd {
	uint64_t counted;    /* ticks: when it was found out that ... */
	bool outnumbers;     /* there are more of us than cores */
	uint64_t before;     /* switches away from us, then */
	uint64_t until;	     /* ticks: it is shared with others, as far as we know */
	uint64_t window;     /* ticks: since when switches are counted */
	uint64_t switches;   /* away from us, then */
	uint32_t waits;	     /* so far */
	uint64_t seen;	     /* switches, when last looked at; since then ... */
	uint32_t reads, own; /* ... empty reads that gave way, and our own yields among them */
	uint32_t luck;	     /* > 0: a wait may spin */
	bool left_to_caller; /* who gives way himself between two reads */
	uint64_t no_nap;     /* ticks: naps have been in vain, none before this */
	uint32_t vain;
};

#define BL_WAIT_MOST_NS 50000000u /* so often a sleeper looks after the lives of its peers */

void bl_wait_init(struct bl_waiter *w, struct bl_cq *cq, struct bl_cntr *cntr);
void bl_wait_fini(struct bl_waiter *w);
/* An endpoint is bound to the queue or counter, or no longer. 0 or -errno. */
int bl_wait_add(struct bl_waiter *w, struct bl_ep *ep);
void bl_wait_remove(struct bl_waiter *w, struct bl_ep *ep);

/* The descriptor to poll, made at the first call, or -errno. */
int bl_wait_fd(struct bl_waiter *w);
/* 0: nothing is there, and what comes makes the descriptor readable. -EAGAIN: read. */
int bl_wait_try(struct bl_waiter *w);

/* Prepare to sleep. False: don't, read. True: bl_wait_rise() must follow; of a counter
 * the caller compares the value before it sleeps. */
bool bl_wait_doze(struct bl_waiter *w, struct bl_sleep *sleep);
/* Sleep, at most ns. */
void bl_wait_sleep(const struct bl_sleep *sleep, uint64_t ns);
void bl_wait_rise(struct bl_waiter *w, struct bl_sleep *sleep);
/* Whoever sleeps on this wakes and looks. */
void bl_wait_interrupt(struct bl_waiter *w);
/* The same, because there is something: until it is asked for again, no more of that. */
bl_cold void bl_wait_wake(struct bl_waiter *w);
/* An endpoint has been enabled: who slept before that would not hear of it. */
void bl_wait_enabled(struct bl_ep *ep);

/*
 * For who polls a queue instead of waiting on it: an empty read that has waited for
 * a while, or, on a core that is shared, any, gives its core away. Returns the time.
 */
uint64_t bl_wait_give_way(struct bl_cq *cq, uint64_t now);
/* Find out whether the core is shared: empty reads have yielded, or a wait has spun in vain. */
void bl_wait_doubt(struct bl_cq *cq, uint64_t now);
/* A new wait begins: the last one ended with something. */
void bl_wait_new(struct bl_crowd *crowd);

static inline bool bl_wait_crowded(const struct bl_crowd *crowd, uint64_t now)
{
	return (int64_t)(crowd->until - now) > 0;
}

/*
 * A wait begins with a spin only while spins are of use. On a core of our own one that finds
 * something is good for so many in vain. On a shared one more than three of four have to: then the
 * one that we wait for is running on another core, and both go on together until their
 * turns end, which costs a tenth of meeting by yields. A spin in vain is a loss for all.
 */
#define BL_WAIT_ALONE 4u  /* in vain, on our own core */
#define BL_WAIT_LUCK  8u  /* those that have found something count, at most so many, */
#define BL_WAIT_LOSS  3u  /* and one in vain takes so many of them away */
#define BL_WAIT_PROBE 32u /* without luck each so many waits tries */

static inline bool bl_wait_may_spin(const struct bl_crowd *crowd)
{
	return crowd->luck || !(crowd->waits % BL_WAIT_PROBE);
}

static inline void bl_wait_spun(struct bl_crowd *crowd, bool found, bool crowded)
{
	if (!found)
		crowd->luck -= bl_min(crowd->luck, crowded ? BL_WAIT_LOSS : 1u);
	else if (crowded)
		crowd->luck += crowd->luck < BL_WAIT_LUCK;
	else if (crowd->luck < BL_WAIT_ALONE)
		crowd->luck = BL_WAIT_ALONE;
}

/* For how long a wait polls before it sleeps. */
uint64_t bl_wait_spin_ns(void);

#endif
