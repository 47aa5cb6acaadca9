/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * doorbell.h: ringing and waking; see doorbell.c, and link/sleep.c for the sleeper.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_DOORBELL_H
#define BL_TRANSPORT_LOCAL_LANE_DOORBELL_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "transport/local/local.h"

static inline void bl_futex_call(_Atomic uint32_t *word, int op, uint32_t value,
				 const struct timespec *timeout)
{
	syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static inline void bl_doorbell_ring(struct bl_doorbells *doorbells, uint32_t index)
{
	/* release: pairs with the acquires in bl_local_answer_doorbells; the packet
	 * is before the doorbell, the doorbell before the summary */
	atomic_fetch_or_explicit(&doorbells->word[index / 64], 1ULL << index % 64,
				 memory_order_release);
	/* seq_cst: one of us sees the other, this or bl_local_doze */
	atomic_fetch_or_explicit(&doorbells->summary, 1ULL << index / 64, memory_order_seq_cst);
}

/* The bits have been taken from an endpoint's doorbells: wake its owner. */
void bl_doorbell_wake(struct bl_local *local, struct bl_doorbells *doorbells, uint32_t port,
		      uint32_t bits);

#endif
