/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lock.h: the lock that serialises a domain when its user asked for
 * FI_THREAD_SAFE. One locked instruction to take, a plain store and a load of the
 * same line to drop: that is what a short message can afford. Held for
 * microseconds, but by calls that close something. A waiter spins, then yields its core to the
 * holder; and says so first, since who drops the lock and takes it again at once, as a thread does
 * that polls, would keep it for as long as it has its core. Who drops it then waits until
 * somebody else has it, for a while: so it is freed when all calls have returned, not before.
 * Not for sharing between processes: a dead holder would keep it.
 */
#ifndef BL_BASE_LOCK_H
#define BL_BASE_LOCK_H

#include "base/compiler.h"

struct bl_lock {
	_Atomic uint32_t held;
	_Atomic uint32_t wanted; /* by one that has yielded; beside `held`, where dropping looks */
};

void bl_lock_wait(struct bl_lock *lock); /* the contended half */
void bl_lock_give_way(struct bl_lock *lock);

static inline void bl_lock_take(struct bl_lock *lock)
{
	/* acquire: pairs with the release in bl_lock_drop */
	if (unlikely(atomic_exchange_explicit(&lock->held, 1, memory_order_acquire)))
		bl_lock_wait(lock);
}

static inline void bl_lock_drop(struct bl_lock *lock)
{
	/* release: pairs with the acquire in bl_lock_take and bl_lock_wait */
	atomic_store_explicit(&lock->held, 0, memory_order_release);
	if (unlikely(atomic_load_explicit(&lock->wanted, memory_order_relaxed)))
		bl_lock_give_way(lock);
}

#endif
