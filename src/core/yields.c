/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * yields.c: see yields.h.
 */
#include "core/yields.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/rebind.h"

#define LIBRARY 1 /* of FI_BEELINE_YIELD */

atomic_bool bl_yields_heard;

static __thread struct {
	uint32_t vain;	  /* so many that follow are: the last read has brought something */
	uint32_t skipped; /* so far */
} turn;

/* What the library calls instead of sched_yield. */
static int yield(void)
{
	bool vain = turn.vain > 0;

	if (unlikely(!atomic_load_explicit(&bl_yields_heard, memory_order_relaxed)))
		atomic_store_explicit(&bl_yields_heard, true, memory_order_relaxed);
	turn.vain -= vain;
	if (vain && ++turn.skipped % BL_YIELDS_EVERY)
		return 0;
	return sched_yield();
}

/* Now and then, or several threads would yield for ever because two have once. */
static bool several_read(struct bl_yields *yields)
{
	if (unlikely(yields->thread != &turn)) {
		if (yields->thread)
			yields->threads_until =
				bl_ticks() + BL_YIELDS_THREADS_US * bl_ticks_per_us();
		yields->thread = &turn;
	}
	if (likely(!yields->threads_until))
		return false;
	if (bl_is_due(bl_ticks(), yields->threads_until))
		yields->threads_until = 0;
	return yields->threads_until;
}

bl_noinline void bl_yields_after(struct bl_yields *yields, bool found)
{
	turn.vain = !several_read(yields) && found ? BL_YIELDS_VAIN : 0;
}

bl_cold void bl_yields_adopt(const void *caller)
{
	Dl_info info = {0};
	int n;

	if (bl_knobs()->yield == LIBRARY)
		return;
	n = bl_rebind(caller, "sched_yield", (void (*)(void))yield);
	if (!n || n == -ENOSYS)
		return;
	if (!dladdr(caller, &info) || !info.dli_fname)
		info.dli_fname = "the library above";
	if (n < 0) {
		bl_info("what %s calls sched_yield for stays as it is: %s", info.dli_fname,
			strerror(-n));
		return;
	}
	bl_info("%s calls sched_yield; behind a read that has brought something that is skipped "
		"(FI_BEELINE_YIELD=library: never)",
		info.dli_fname);
}
