/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * clock.c: the rate of the tick counter, measured against CLOCK_MONOTONIC at
 * first use. Two threads may both measure; either result serves.
 */
#include "base/clock.h"

#include <stdatomic.h>

#define MEASURE_NS 200000 /* long enough for 0.1 % on a 25 ns clock_gettime */

uint64_t bl_ticks_per_us(void)
{
	static _Atomic uint64_t rate;
	uint64_t known = atomic_load_explicit(&rate, memory_order_relaxed);

	if (known)
		return known;

	uint64_t ns0 = bl_clock_ns(), t0 = bl_ticks(), ns1;

	do
		ns1 = bl_clock_ns();
	while (ns1 - ns0 < MEASURE_NS);
	known = (bl_ticks() - t0) * 1000 / (ns1 - ns0);
	if (!known)
		known = 1;
	atomic_store_explicit(&rate, known, memory_order_relaxed);
	return known;
}
