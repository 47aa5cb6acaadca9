/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lock.c: waiting for a lock. Any thread.
 */
#include "base/lock.h"

#include <sched.h>

#define SPINS  200 /* about as long as the holder needs on another core */
#define YIELDS 4   /* to one that wants it, and may be on this core */

bl_cold void bl_lock_wait(struct bl_lock *lock)
{
	for (;;) {
		for (int i = 0; i < SPINS; i++) {
			if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
			    /* acquire: pairs with the release in bl_lock_drop */
			    !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire)) {
				/* Others that want it say so again. */
				if (atomic_load_explicit(&lock->wanted, memory_order_relaxed))
					atomic_store_explicit(&lock->wanted, 0,
							      memory_order_relaxed);
				return;
			}
			bl_cpu_relax();
		}
		atomic_store_explicit(&lock->wanted, 1, memory_order_relaxed);
		sched_yield();
	}
}

bl_cold void bl_lock_give_way(struct bl_lock *lock)
{
	for (int i = 0; i < SPINS + YIELDS; i++) {
		if (atomic_load_explicit(&lock->held, memory_order_relaxed) ||
		    !atomic_load_explicit(&lock->wanted, memory_order_relaxed))
			return;
		if (i < SPINS)
			bl_cpu_relax();
		else
			sched_yield();
	}
	/* Nobody came: it has been descheduled, and says so again. */
	atomic_store_explicit(&lock->wanted, 0, memory_order_relaxed);
}
