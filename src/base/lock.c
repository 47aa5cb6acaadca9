/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lock.c: waiting for a lock. Any thread.
 */
#include "base/lock.h"

#include <sched.h>

#define SPINS 200 /* about as long as the holder needs on another core */

bl_cold void bl_lock_wait(struct bl_lock *lock)
{
	for (;;) {
		for (int i = 0; i < SPINS; i++) {
			if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
			    /* acquire: pairs with the release in bl_lock_drop */
			    !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire))
				return;
			bl_cpu_relax();
		}
		sched_yield();
	}
}
