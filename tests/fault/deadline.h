/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deadline.h: how long the fault tests wait for what must happen, and how much less they
 * do under a sanitizer.
 */
#ifndef BL_TESTS_FAULT_DEADLINE_H
#define BL_TESTS_FAULT_DEADLINE_H

#include "base/clock.h"
#include "base/compiler.h"

#define PROMISED_NS 100000000ull /* a death is noticed within */
/* The same on a machine with far more to run than cores; sanitizers cost as much again. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TOLERATED_NS 10000000000ull
#define SLOWER	     5 /* so much less work */
#else
#define SLOWER	     1
#define TOLERATED_NS 2000000000ull
#endif

/* A deadline that is not missed because the machine stood still, or its process was
 * stopped: of the time between two looks at it only a moment counts. */
struct deadline {
	uint64_t left, most, looked_at; /* ns */
};

static inline struct deadline deadline_in(uint64_t ns)
{
	return (struct deadline){ns, ns / 20, bl_clock_ns()};
}

static inline bool deadline_over(struct deadline *d)
{
	uint64_t now = bl_clock_ns(), gap = bl_min(now - d->looked_at, d->most);

	d->looked_at = now;
	d->left -= bl_min(gap, d->left);
	return !d->left;
}

#endif
