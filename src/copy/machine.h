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

/* Limits of messages in bytes; policy.c (transport/local/adapt) makes the table of them. */
struct bl_machine {
	const char *name;
	double dear_ns;		   /* a system call: two copies do for longer messages, ... */
	size_t eager_long_max;	   /* one packet through a longer ring, where it is, up to here; */
	size_t eager_long_far;	   /* the same where each line takes long to cross; */
	size_t eager_long_copybuf; /* and by a copy buffer there; both 0: by what a call takes */
	size_t chunk_max, chunk_half; /* of a message that two processes copy */
	enum bl_copybuf_use turns;
	bool deep;	   /* large messages of a burst go through longer rings, too */
	bool own_by_store; /* lines that were asked for don't stay until they are written to */
	bool streamed_far; /* who waits far away reads a copy buffer while it is written, too */
	size_t past_min;   /* from here on stores pass the caches by where the other is far, */
	uint32_t far_ns;   /* which it is if one of its lines takes so long; lane/ring.c */
	size_t turn_max;   /* to the copy buffer up to here, dirty or not, near by; */
	size_t dirty_max;  /* dirty (dirty.h) up to here; 0: only where a call is cheap */
	size_t used_near;  /* what is used counts as dirty near by, too, up to here */
	uint32_t used_far_ns_kb;		  /* the least that use takes far away */
	uint32_t dirty_per_kb, dirty_per_kb_most; /* its copy takes; 0: by what is measured */
};

/* This processor. Any thread. */
struct bl_cpu bl_cpu_read(void);
/* Never NULL. Any thread. */
const struct bl_machine *bl_machine_of(const struct bl_cpu *cpu);

#endif
