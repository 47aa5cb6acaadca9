/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * machine.c: see machine.h. All of it is constant; docs/notes/ has what was found on each kind.
 *
 * AMD's later kinds (from Zen 3 on). What lies in another core's cache comes later there than what
 * lies in memory, so that short payloads pass the caches by, too, where the other is far away. An
 * answer in the place of the message (the copy buffer), by plain stores, is quickest, near and far.
 *
 * Intel's Xeons from Sapphire Rapids on: the copy buffer is for exchanges. In a ping-pong the ring
 * is quicker, for its lines can be asked for while the answer is waited for.
 *
 * What a cheap system call changes isn't the kind's (transport/local/adapt/policy.c).
 */
#include "copy/machine.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "place/place.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define AVX512F	    (1u << 16) /* CPUID 7, EBX: AMD's from Zen 4 on, */
#define AVX512_FP16 (1u << 23) /* EDX: and Intel's Xeons from Sapphire Rapids on */

#define PAST_ALL  289u	/* bytes: all that doesn't fit a slot (BL_SLOT_INLINE) */
#define PAST_LONG 4096u /* by how long its stores take */

#define FAR_NS	100u /* a line's time: near ones take 40 to 60, far ones 130 and more */
#define USED_KB 10u  /* ns */

static const struct bl_machine any_kind = {
	.name = "any",
	.dear_ns = 1000,
	.eager_long_max = 96 * KIB,
	.chunk_max = 256 * KIB,
	.chunk_half = 256 * KIB,
	.past_min = PAST_LONG,
	.far_ns = FAR_NS,
	.used_far_ns_kb = USED_KB,
};

/* Intel's Xeons from Sapphire Rapids on: 4 MiB in pieces of 512 KiB take a tenth less than in
 * pieces of 256. */
static const struct bl_machine xeon = {
	.name = "xeon",
	.dear_ns = 1000,
	.eager_long_max = 96 * KIB,
	.chunk_max = 512 * KIB,
	.chunk_half = 512 * KIB,
	.turns = BL_COPYBUF_EXCHANGE,
	.past_min = PAST_LONG,
	.far_ns = FAR_NS,
	.used_far_ns_kb = USED_KB,
};

/* A call takes 1.6 us, and 128 KiB in turn 5.9 near by, where one copy takes 7.7 to 8.9; far away
 * 96 KiB in turn 9.7 and by one copy 12, 128 KiB 12.5 and 9.7. A line takes 60 to 90 ns near by,
 * now and then 120, and 150 to 220 far away. */
static const struct bl_machine zen3 = {
	.name = "zen3",
	.dear_ns = 1000,
	.eager_long_max = 128 * KIB,
	.eager_long_copybuf = 96 * KIB,
	.chunk_max = 1 * MIB,
	.chunk_half = 512 * KIB,
	.turns = BL_COPYBUF_ALL,
	.deep = true,
	.streamed_far = true,
	.past_min = PAST_ALL,
	.far_ns = 135,
	.dirty_max = 512 * KIB,
	.used_near = 256 * KIB,
	.used_far_ns_kb = 30,
	.dirty_per_kb = 150,
	.dirty_per_kb_most = 400,
};

/* A call takes 1.3 us, and 128 KiB in turn 4.1; one piece of 1 MiB 12 % less than four of 256 KiB.
 * What lies in pages of 4 KiB takes 64 ns/KiB to be copied once, which is more than in turn: it
 * counts as fresh, whoever has its lines. */
static const struct bl_machine zen4 = {
	.name = "zen4",
	.dear_ns = 1000,
	.eager_long_max = 128 * KIB,
	.chunk_max = 1 * MIB,
	.chunk_half = 256 * KIB,
	.turns = BL_COPYBUF_ALL,
	.deep = true,
	.own_by_store = true,
	.past_min = PAST_ALL,
	.far_ns = FAR_NS,
	.dirty_max = 512 * KIB,
	.used_near = 512 * KIB,
	.used_far_ns_kb = USED_KB,
	.dirty_per_kb = 60,
	.dirty_per_kb_most = 400,
};

/* 64 KiB in turn take 1.3 us near by and 3.0 far away, and by one copy, whose call alone takes 0.9,
 * 2.9 and 3.4 to 4.5. */
static const struct bl_machine zen5 = {
	.name = "zen5",
	.dear_ns = 500,
	.eager_long_max = 128 * KIB,
	.eager_long_far = 24 * KIB,
	.eager_long_copybuf = 96 * KIB,
	.chunk_max = 1 * MIB,
	.chunk_half = 1 * MIB,
	.turns = BL_COPYBUF_ALL,
	.deep = true,
	.past_min = PAST_ALL,
	.far_ns = FAR_NS,
	.turn_max = 256 * KIB,
	.dirty_max = 512 * KIB,
	.used_far_ns_kb = USED_KB,
	.dirty_per_kb = 60,
	.dirty_per_kb_most = 400,
};

struct bl_cpu bl_cpu_read(void)
{
	struct bl_cpu cpu = {.cache = bl_place_cache()};
#if defined(__x86_64__)
	unsigned a = 0, b = 0, c = 0, d = 0;

	__builtin_cpu_init();
	cpu.amd = __builtin_cpu_is("amd");
	cpu.intel = __builtin_cpu_is("intel");
	__get_cpuid(1, &a, &b, &c, &d);
	cpu.family = (a >> 8 & 15) + (a >> 20 & 255);
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		cpu.avx512f = b & AVX512F;
		cpu.avx512_fp16 = d & AVX512_FP16;
	}
#endif
	return cpu;
}

/*
 * Virtual machines say anything of caches (QEMU, where it knows nothing, 512 KiB), so features
 * count as well. Where nothing is said of them the rules of any kind hold.
 */
const struct bl_machine *bl_machine_of(const struct bl_cpu *cpu)
{
	if (cpu->amd && cpu->family >= 0x19 && cpu->cache >= 512 * KIB) {
		if (cpu->family >= 0x1a)
			return &zen5;
		return cpu->avx512f || cpu->cache >= 1 * MIB ? &zen4 : &zen3;
	}
	if (cpu->intel && cpu->avx512_fp16 && cpu->cache >= 2 * MIB)
		return &xeon;
	return &any_kind;
}
