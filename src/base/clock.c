/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * clock.c: the rate of the tick counter, measured against CLOCK_MONOTONIC at
 * first use. Two threads may both measure; either result serves.
 */
#include "base/clock.h"

#define MEASURE_NS 200000 /* long enough for 0.1 % on a 25 ns clock_gettime */
#define LOOKS	   8

/* What both say at one moment. Of a few looks the quickest: a thread that loses its core
 * between the two would take a part of that time for the rate. */
struct moment {
	uint64_t ns, ticks;
};

static struct moment moment_now(void)
{
	uint64_t least = UINT64_MAX;
	struct moment m = {0};

	for (int i = 0; i < LOOKS; i++) {
		uint64_t before = bl_ticks(), ns = bl_clock_ns(), took = bl_ticks() - before;

		if (took < least) {
			least = took;
			m = (struct moment){ns, before + took / 2};
		}
	}
	return m;
}

uint64_t bl_clock_thread_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
		return bl_ticks() << 10;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

_Atomic uint64_t bl_ticks_rate;

uint64_t bl_ticks_measure(void)
{
	struct moment from, to;
	uint64_t known;

	from = moment_now();
	while (bl_clock_ns() - from.ns < MEASURE_NS)
		;
	to = moment_now();
	known = (to.ticks - from.ticks) * 1000 / (to.ns - from.ns);
	if (!known)
		known = 1;
	atomic_store_explicit(&bl_ticks_rate, known, memory_order_relaxed);
	return known;
}
