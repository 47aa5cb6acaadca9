/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * kind.h: what differs between kinds of processors, but for what can be measured when a process
 * starts. docs/performance.md says how each number was found.
 */
#ifndef BL_COPY_KIND_H
#define BL_COPY_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of the processor. */
struct bl_cpu {
	bool amd, intel;
	unsigned family;
	bool avx512f, avx512_fp16;
	size_t cache; /* bytes of a core's second level; 0: not known */
};

/* Who writes to one place in turn: nobody, who sends at the same time as the other, or all. */
enum bl_turns { BL_TURNS_NONE, BL_TURNS_CROSSING, BL_TURNS_ALL };

/* Where nothing else is said a field is that of struct bl_copy_plan. */
struct bl_kind {
	const char *name;
	double dear_ns;		      /* a system call: two copies do for longer messages, ... */
	size_t carry_max;	      /* of so many bytes, */
	size_t carry_far, carry_turn; /* 0: by what a call takes */
	size_t chunk_max, chunk_half;
	enum bl_turns turns;
	bool deep;
	bool own_by_store; /* lines that were asked for don't stay until they are written to */
	bool grows_far;
	size_t past_min;
	uint32_t far_ns;
	size_t turn_max;
	size_t fresh_max; /* 0: only where nothing is carried; bl_copy_fresh_max */
	size_t used_near;
	uint32_t used_far_ns_kb;
	uint32_t fresh_per_kb, fresh_per_kb_most; /* 0: by what is measured */
};

/* This processor. Any thread. */
struct bl_cpu bl_cpu_read(void);
/* Never NULL. Any thread. */
const struct bl_kind *bl_kind_of(const struct bl_cpu *cpu);

#endif
