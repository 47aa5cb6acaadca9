/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * compiler.h: the few spellings that everything else uses. No state.
 */
#ifndef BL_BASE_COMPILER_H
#define BL_BASE_COMPILER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define bl_always_inline static inline __attribute__((always_inline))
#define bl_cold		 __attribute__((noinline, cold))
#define bl_noinline	 __attribute__((noinline))
#define bl_printf(f, a)	 __attribute__((format(printf, f, a)))

#define BL_LINE 64  /* bytes that move between caches at once */
#define BL_PAIR 128 /* two lines: what the adjacent-line prefetcher moves */

#define bl_containerof(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define bl_countof(array)		  (sizeof(array) / sizeof((array)[0]))

static inline size_t bl_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t bl_round_up(size_t value, size_t step)
{
	return (value + step - 1) / step * step;
}

/* Keep the compiler from moving stores across this point; the CPU may still. */
static inline void bl_compiler_barrier(void)
{
	__asm__ __volatile__("" ::: "memory");
}

/* Ask for the line at p, to be read soon. */
bl_always_inline void bl_prefetch_read(const void *p)
{
	__builtin_prefetch(p, 0);
}

/* Ask for the line at p, to be written soon: it comes as ours, not as a shared
 * copy that a store must claim again. Spelled out because compilers take the
 * plain prefetch unless told that the CPU has this one; every x86-64 CPU runs
 * it, the oldest as a no-op. */
bl_always_inline void bl_prefetch_write(const void *p)
{
#if defined(__x86_64__)
	__asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* We have written the line at p and another core reads it next: have it put into the cache that all
 * cores share, where it is found sooner than in ours: cldemote (%rax), in bytes for assemblers that
 * don't know it. Where there is no such instruction it is a no-op, by its encoding. The next locked
 * instruction waits for it, 80 ns (transport/local/adapt/demote.h). */
bl_always_inline void bl_demote_line(const void *p)
{
#if defined(__x86_64__)
	__asm__ __volatile__(".byte 0x0f, 0x1c, 0x00" : : "a"(p), "m"(*(const char *)p));
#else
	(void)p;
#endif
}

static inline void bl_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
}

#endif
