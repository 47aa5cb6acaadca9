/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * clock.h: time as the polling loops need it: a counter that costs a few
 * nanoseconds to read and its rate. Any thread.
 */
#ifndef BL_BASE_CLOCK_H
#define BL_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t bl_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Of a processor, used by the calling thread. Where there is no such clock: as if it used many. */
uint64_t bl_clock_thread_ns(void);

/* The cheapest monotonic counter of the machine, in ticks. */
static inline uint64_t bl_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return bl_clock_ns();
#endif
}

/* The same when all loads before it have been done, and before any that follow: to time them. */
static inline uint64_t bl_ticks_settled(void)
{
	uint64_t now;

#if defined(__x86_64__)
	__builtin_ia32_lfence();
	now = bl_ticks();
	__builtin_ia32_lfence();
#elif defined(__aarch64__)
	__asm__ __volatile__("dsb ld\n\tisb" ::: "memory");
	now = bl_ticks();
	__asm__ __volatile__("isb" ::: "memory");
#else
	now = bl_ticks();
#endif
	return now;
}

#define BL_TICKS_AHEAD (1ull << 36) /* nothing is ever due later than that: 23 s at 3 GHz */

/*
 * Whether the moment `at`, in ticks, has come. One that is further ahead than any has ever been set
 * has been set by a counter that began anew since, as it does where a machine has slept and its
 * memory was kept (suspend to RAM): it counts as come, or whoever looks after the lives of others
 * would not look again for as long as the machine had been up.
 */
static inline bool bl_is_due(uint64_t now, uint64_t at)
{
	return at - now - 1 >= BL_TICKS_AHEAD;
}

/* The same where every nanosecond counts, of a moment that something else looks at by bl_is_due()
 * now and then. */
static inline bool bl_has_come(uint64_t now, uint64_t at)
{
	return (int64_t)(now - at) >= 0;
}

/* From `then` to `now`; less than 0: `then` is to come. What a counter said that began anew since
 * is long ago. */
static inline int64_t bl_ticks_since(uint64_t now, uint64_t then)
{
	int64_t since = (int64_t)(now - then);

	return since < -(int64_t)BL_TICKS_AHEAD ? INT64_MAX : since;
}

extern _Atomic uint64_t bl_ticks_rate; /* 0: not measured yet */
uint64_t bl_ticks_measure(void);

/* Ticks in a microsecond; measured once, at least 1. */
static inline uint64_t bl_ticks_per_us(void)
{
	uint64_t known = atomic_load_explicit(&bl_ticks_rate, memory_order_relaxed);

	return known ? known : bl_ticks_measure();
}

#endif
