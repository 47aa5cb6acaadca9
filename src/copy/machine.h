/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * machine.h: what differs between kinds of processors, but for what can be measured when a process
 * starts.
 */
#ifndef BL_COPY_MACHINE_H
#define BL_COPY_MACHINE_H

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
enum bl_copybuf_use { BL_COPYBUF_NONE, BL_COPYBUF_EXCHANGE, BL_COPYBUF_ALL };

/* Where nothing else is said a field is that of struct bl_copy_plan. */
struct bl_machine {
	const char *name;
	double dear_ns;	       /* a system call: two copies do for longer messages, ... */
	size_t eager_long_max; /* of so many bytes, */
	size_t eager_long_far, eager_long_copybuf; /* 0: by what a call takes */
	size_t chunk_max, chunk_half;
	enum bl_copybuf_use turns;
	bool deep;
	bool own_by_store; /* lines that were asked for don't stay until they are written to */
	bool streamed_far;
	size_t past_min;
	uint32_t far_ns;
	size_t turn_max;
	size_t dirty_max; /* 0: only where eager_long_max is 0; bl_copy_dirty_max */
	size_t used_near;
	uint32_t used_far_ns_kb;
	uint32_t dirty_per_kb, dirty_per_kb_most; /* 0: by what is measured */
};

/* This processor. Any thread. */
struct bl_cpu bl_cpu_read(void);
/* Never NULL. Any thread. */
const struct bl_machine *bl_machine_of(const struct bl_cpu *cpu);

#endif
