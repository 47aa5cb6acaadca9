/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * yield_hook.c: see yield_hook.h.
 */
#include "wait/yield_hook.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <string.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/rebind.h"

#define LIBRARY 1 /* of FI_BEELINE_YIELD */

#define SEATS 64 /* of two threads that share one only the last reader's yields are skipped */

atomic_bool bl_yield_hook_heard;

/*
 * What is kept for a thread. Not _Thread_local: the first use of that in a thread may allocate,
 * and who yields may be just what allocates; and memory that needs no allocation there is little
 * of for a library that is loaded late.
 */
struct seat {
	alignas(BL_LINE) _Atomic uintptr_t thread;
	_Atomic uint32_t to_skip; /* yields of it, if no read comes before */
	_Atomic uint32_t skipped; /* so far */
};

static struct seat seats[SEATS];

static uintptr_t this_thread(void)
{
	return (uintptr_t)pthread_self();
}

static struct seat *seat_of(uintptr_t thread)
{
	return &seats[(thread >> 6) * 0x9e3779b97f4a7c15u >> 58]; /* Fibonacci hashing: Knuth */
}

static bool may_skip(struct seat *seat)
{
	uint32_t n = atomic_load_explicit(&seat->to_skip, memory_order_relaxed), skipped;

	if (!n)
		return false;
	atomic_store_explicit(&seat->to_skip, n - 1, memory_order_relaxed);
	skipped = 1 + atomic_load_explicit(&seat->skipped, memory_order_relaxed);
	atomic_store_explicit(&seat->skipped, skipped, memory_order_relaxed);
	return skipped % BL_YIELD_HOOK_EVERY;
}

/* What the library calls instead of sched_yield. */
static int skip_or_yield(void)
{
	uintptr_t thread = this_thread();
	struct seat *seat = seat_of(thread);

	if (unlikely(!atomic_load_explicit(&bl_yield_hook_heard, memory_order_relaxed)))
		atomic_store_explicit(&bl_yield_hook_heard, true, memory_order_relaxed);
	if (atomic_load_explicit(&seat->thread, memory_order_relaxed) == thread && may_skip(seat))
		return 0;
	return sched_yield();
}

/* By this read, or by one not long ago: one alone may have been the last of a thread that is gone.
 */
static bool several_read(struct bl_yield_hook *yields, uintptr_t thread)
{
	if (unlikely(yields->thread != thread)) {
		if (yields->thread)
			yields->threads_until =
				bl_ticks() + BL_YIELD_HOOK_THREADS_US * bl_ticks_per_us();
		yields->thread = thread;
	}
	if (likely(!yields->threads_until))
		return false;
	if (bl_is_due(bl_ticks(), yields->threads_until))
		yields->threads_until = 0;
	return yields->threads_until;
}

bl_noinline void bl_yield_hook_after(struct bl_yield_hook *yields, bool vain)
{
	uintptr_t thread = this_thread();
	struct seat *seat = seat_of(thread);
	bool several = several_read(yields, thread);

	if (unlikely(atomic_load_explicit(&seat->thread, memory_order_relaxed) != thread))
		atomic_store_explicit(&seat->thread, thread, memory_order_relaxed);
	atomic_store_explicit(&seat->to_skip, vain && !several ? BL_YIELD_HOOK_SKIPPED : 0,
			      memory_order_relaxed);
}

bl_cold void bl_yield_hook_adopt(const void *caller)
{
	const char *object;
	int n;

	if (bl_knobs()->yield == LIBRARY)
		return;
	n = bl_rebind(caller, "sched_yield", (bl_function)sched_yield, (bl_function)skip_or_yield,
		      &object);
	if (n > 0)
		bl_info("what %s calls sched_yield for is skipped where it would be in vain "
			"(FI_BEELINE_YIELD=library: never)",
			*object ? object : "this program");
	else if (n && n != -ENOENT && n != -ENOSYS)
		bl_info("what %s calls sched_yield for stays as it is: %s",
			*object ? object : "this program", strerror(-n));
}
