/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * refused.h: which threads have been told to try again (-EAGAIN), and haven't heard yet that they
 * may. Who would poll a descriptor for that is told no by bl_wait_try(), once; and where several
 * threads were refused, each: the one that hears first may be the one that takes all the room, but
 * it may as well take a little, and nobody would wake the others.
 *
 * A domain's, serialised by it.
 */
#ifndef BL_CORE_REFUSED_H
#define BL_CORE_REFUSED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct bl_refused_thread {
	pthread_t thread;
	bool told; /* that it may try again */
};

struct bl_refusals {
	struct bl_refused_thread *of;
	uint32_t n, room;
	uint32_t last; /* + 1: the one that was refused last, not told yet; 0: not known */
	bool lost;     /* there was no memory for one: nobody may rely on being woken */
};

bl_cold void bl_refusal_add(struct bl_refusals *r);

/* This thread has been refused something, whose beginning it waits for. */
static inline void bl_refusal_note(struct bl_refusals *r)
{
	if (unlikely(!r->last || !pthread_equal(r->of[r->last - 1].thread, pthread_self())))
		bl_refusal_add(r);
}

/* Whoever has been refused may try again. */
bl_cold void bl_refusal_tell(struct bl_refusals *r);
/* Whether this thread was told so: once. */
bool bl_refusal_take(struct bl_refusals *r);
/* Whether other threads than this one have been refused something. */
bool bl_refusal_of_others(const struct bl_refusals *r);
void bl_refusal_fini(struct bl_refusals *r);

#endif
