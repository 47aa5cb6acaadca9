/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * limits.h: for tests that decide what the limits are, whatever this machine is
 * (transport/local/adapt/policy.h).
 */
#ifndef BL_TESTS_UNIT_LIMITS_H
#define BL_TESTS_UNIT_LIMITS_H

#include "transport/local/adapt/policy.h"

static inline struct bl_copy_plan *plan(void)
{
	return (struct bl_copy_plan *)(uintptr_t)bl_copy_plan();
}

static inline struct bl_limits *limits(void)
{
	return (struct bl_limits *)(uintptr_t)bl_limits();
}

/* A system call is cheap: longer rings are for streams. */
static inline void limits_by_stream(uint32_t pingpong_max, uint32_t stream_max)
{
	plan()->by_stream = true;
	limits()->pingpong_max = pingpong_max;
	bl_limits_by_stream(limits(), stream_max);
}

/* It is dear: they are for what is no longer than that. */
static inline void limits_by_length(size_t near, size_t far, size_t copybuf)
{
	plan()->by_stream = false;
	bl_limits_by_length(limits(), near, far, copybuf);
}

/* Up to so much of what is dirty goes to the copy buffer, and large bursts through the ring. */
static inline void limits_dirty(uint32_t most, bool deep)
{
	limits()->stream_depth = deep ? 8 : 0;
	limits()->dirty[false] = most;
	limits()->dirty[true] = deep ? most : 0;
}

#endif
