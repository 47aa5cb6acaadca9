/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * machines.h: kinds of machine with a cheap and a dear system call, and the limits that follow
 * (transport/local/adapt/policy.h), whatever this machine is.
 */
#ifndef BL_TESTS_UNIT_MACHINES_H
#define BL_TESTS_UNIT_MACHINES_H

#include <stdlib.h>
#include <string.h>

#include "transport/local/adapt/policy.h"

/* A row says what differs from the rest. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define KIB 1024u

#define AMD(number, kib)                                                                           \
	{                                                                                          \
		.amd = true, .family = (number), .cache = (kib)*KIB                                \
	}
#define INTEL(kib, fp16)                                                                           \
	{                                                                                          \
		.intel = true, .family = 6, .cache = (kib)*KIB, .avx512_fp16 = (fp16)              \
	}
#define CHEAP	 150
#define MIDDLING 600
#define DEAR	 1200
#define NS_KB	 65

static const struct bl_cpu zen2 = AMD(0x17, 512), zen3 = AMD(0x19, 512), zen4 = AMD(0x19, 1024),
			   zen5 = AMD(0x1a, 1024), skylake = INTEL(1024, false),
			   sapphire = INTEL(2048, true), emerald = INTEL(2048, true);

/* As if no variable were set. */
static inline struct bl_knobs no_knobs(void)
{
	struct bl_knobs knobs;

	for (size_t i = 0; i < bl_knob_count; i++)
		memcpy((char *)&knobs + bl_knob_table[i].offset, &bl_knob_table[i].init,
		       sizeof(uint64_t));
	return knobs;
}

static inline struct bl_limits limits_with(const struct bl_cpu *cpu, double call_ns,
					   const struct bl_knobs *knobs)
{
	struct bl_copy_cost once = {call_ns, NS_KB};
	struct bl_copy_plan plan;
	struct bl_limits l;

	bl_copy_plan_make(&plan, cpu, &once, knobs);
	bl_limits_make(&l, &plan, knobs);
	return l;
}

static inline struct bl_limits limits_of(const struct bl_cpu *cpu, double call_ns)
{
	struct bl_knobs knobs = no_knobs();

	return limits_with(cpu, call_ns, &knobs);
}

/* This machine's variables don't count. */
static inline void forget_variables(void)
{
	for (size_t i = 0; i < bl_knob_count; i++)
		unsetenv(bl_knob_table[i].variable);
}

#endif
