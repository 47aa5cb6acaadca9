/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * refused.h: which threads have been told by an endpoint to try again (-EAGAIN), and haven't heard
 * yet that they may. Who would poll a descriptor for that is told no by bl_wait_try(), once; and
 * where several threads were refused, each: the first that hears may take all the room there is, or
 * a little of it, and nobody else would wake the others.
 *
 *   refused                  bl_refusal_note     it is in the list
 *   would poll: it may       bl_refusal_sleeps   and to be woken
 *   what it waited for       bl_refusal_tell     its queue's descriptor is readable now, which
 *   has come                                     another thread may change before it has woken:
 *                                                so that is made readable again for a while
 *                                                (bl_refusal_wakes)
 *   would poll: it may not   bl_refusal_take     it is in the list no more
 *
 * An endpoint's, serialised by its domain.
 */
#ifndef BL_CORE_REFUSED_H
#define BL_CORE_REFUSED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct bl_refused_thread {
	pthread_t thread;
	bool told;	  /* that it may try again, ... */
	bool sleeps;	  /* it polls a descriptor, as far as we know */
	uint8_t told_so;  /* often, and hasn't woken */
	uint64_t told_at; /* ticks */
};

#define BL_REFUSED_FEW 4u

struct bl_refusals {
	struct bl_refused_thread few[BL_REFUSED_FEW], *more; /* one list */
	uint32_t n, room;				     /* of more */
	uint32_t last;	  /* + 1: the one that was refused last, not told yet; 0: not known */
	bool lost;	  /* there was no memory for one: nobody is let sleep until all are told, */
	uint64_t lost_at; /* ticks: or for a while after that; 0: never */
};

bl_cold void bl_refusal_add(struct bl_refusals *r);

static inline struct bl_refused_thread *bl_refusal_at(struct bl_refusals *r, uint32_t i)
{
	return i < BL_REFUSED_FEW ? &r->few[i] : &r->more[i - BL_REFUSED_FEW];
}

/* This thread has been refused something, whose beginning it waits for. */
static inline void bl_refusal_note(struct bl_refusals *r)
{
	if (likely(r->last && pthread_equal(bl_refusal_at(r, r->last - 1)->thread, pthread_self())))
		bl_refusal_at(r, r->last - 1)->sleeps = false;
	else
		bl_refusal_add(r);
}

bl_cold void bl_refusal_tell(struct bl_refusals *r);
/* Whether this thread was told, or may have been. */
bool bl_refusal_take(struct bl_refusals *r);
void bl_refusal_sleeps(struct bl_refusals *r);
bool bl_refusal_wakes(struct bl_refusals *r);
/* Whether another thread than this one has been refused something, and doesn't know better. */
bool bl_refusal_of_others(struct bl_refusals *r);
void bl_refusal_fini(struct bl_refusals *r);

#endif
