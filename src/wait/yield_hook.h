/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * yield_hook.h: yields of the library above that are of no use.
 *
 * MPICH calls sched_yield after each pass of its progress engine, one that has brought what it
 * waits for as well, which takes longer than a short message. So what the library that opens a
 * queue calls sched_yield for is answered here (base/rebind.h; FI_BEELINE_YIELD=library leaves it
 * alone):
 *
 *   behind a read that has brought something   skipped; so is the next one, if no read was between
 *   behind an empty read of a short wait       skipped, where the core isn't shared as far as is
 *                                              known (oversub.h), unless it comes so long after
 *                                              the one before that others may have had their turn
 *   each BL_YIELD_HOOK_EVERYth of those        yields: who waits for this core, or for a lock that
 *                                              its owner has dropped, never does so for long
 *   while several threads read the queue       yields: one of them may wait for that lock
 *   any other                                  yields
 *
 * A yield is a hint to the scheduler, which may answer it by going on with the same thread; so may
 * we. A read that says that an operation has failed, or of a counter, is none.
 *
 * What a read has brought is kept for each thread; the rest is serialised by the domain.
 */
#ifndef BL_WAIT_YIELD_HOOK_H
#define BL_WAIT_YIELD_HOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define BL_YIELD_HOOK_SKIPPED	 2u
#define BL_YIELD_HOOK_EVERY	 256u
#define BL_YIELD_HOOK_THREADS_US 10000 /* for so long after two threads have read a queue */

/* Of each queue. */
struct bl_yield_hook {
	uintptr_t thread;	/* that has read it last; 0: none has */
	uint64_t threads_until; /* ticks: several do, as far as we know; 0: one */
};

/* One has been answered here: reads of who never yields needn't be kept account of. */
extern atomic_bool bl_yield_hook_heard;

/* The library that `caller`, an instruction of it, lies in is about to read queues. Any thread. */
bl_cold void bl_yield_hook_adopt(const void *caller);

bl_noinline void bl_yield_hook_after(struct bl_yield_hook *yields, bool vain);

/* A read has ended; yields behind it would be in vain. */
static inline void bl_yield_hook_read(struct bl_yield_hook *yields, bool vain)
{
	if (unlikely(atomic_load_explicit(&bl_yield_hook_heard, memory_order_relaxed)))
		bl_yield_hook_after(yields, vain);
}

#endif
