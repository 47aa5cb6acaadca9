/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * caller.c: a library that calls sched_yield, for tests of base/rebind.h and wait/yield_hook.h:
 * built several times, each by its own name (-DNAME) and linked in its own way; or one that has its
 * own
 * (-DOWN).
 */
#include <sched.h>

#define SHOWN __attribute__((visibility("default")))

int NAME(void);

#ifdef OWN
SHOWN int sched_yield(void)
{
	return OWN;
}
#endif

SHOWN int NAME(void)
{
	return sched_yield();
}
