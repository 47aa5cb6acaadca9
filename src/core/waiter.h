/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * waiter.h: who sleeps until a queue or a counter has something. Waking takes one look at a flag
 * where nobody does; what sleeps how is in endpoint/wait.h. Serialised by the domain.
 */
#ifndef BL_CORE_WAITER_H
#define BL_CORE_WAITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "core/types.h"

/* In each queue and each counter. */
struct bl_waiter {
	struct bl_cq *cq; /* one of these two */
	struct bl_cntr *cntr;
	int epoll; /* readable: look. The sockets of all endpoints, and `event`. -1: none yet */
	int event; /* an eventfd: news that no neighbour brings */
	uint32_t sleepers; /* threads between a doze and their rise */
	bool armed; /* somebody may be polling `epoll`, and nothing has made it readable since */
};

void bl_wait_init(struct bl_waiter *w, struct bl_cq *cq, struct bl_cntr *cntr);
void bl_wait_fini(struct bl_waiter *w);

/* Whoever sleeps on this wakes and looks. */
void bl_wait_interrupt(struct bl_waiter *w);

/* The same, because there is something: until it is asked for again, no more of that. */
bl_cold void bl_wait_wake(struct bl_waiter *w);

/* An endpoint is bound to the queue or counter, or no longer. 0 or -errno. */
int bl_wait_add(struct bl_waiter *w, struct bl_ep *ep);

void bl_wait_remove(struct bl_waiter *w, struct bl_ep *ep);

/* A counter becomes one of regions: all of its domain's endpoints wake who waits for it
 * (who naps while one of them isn't enabled). 0 or -errno. And no longer. */
int bl_wait_widen(struct bl_cntr *cntr);

void bl_wait_narrow(struct bl_cntr *cntr);

/* Its descriptor, if it has one, becomes readable. */
void bl_wait_raise(struct bl_waiter *w);

/* It sleeps on what isn't all any more that it should. (self: for those that visit all.) */
void bl_wait_stir(struct bl_waiter *w, const struct bl_waiter *self);

#endif
