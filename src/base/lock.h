/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lock.h: the lock that serialises a domain when its user asked for
 * FI_THREAD_SAFE. One locked instruction to take, a plain store to drop: that
 * is what a message of 150 ns can afford. Held for microseconds, never across
 * a blocking call. A waiter spins, then yields its core to the holder.
 * Not for sharing between processes: a dead holder would keep it.
 */
#ifndef BL_BASE_LOCK_H
#define BL_BASE_LOCK_H

#include "base/compiler.h"

struct bl_lock {
	_Atomic uint32_t held;
};

void bl_lock_wait(struct bl_lock *lock); /* the contended half */

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
}

#endif
