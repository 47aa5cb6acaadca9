/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * huge.h: buffers that large messages use again and again, in huge pages. A copy into or out of
 * another process's memory looks every page up, so huge ones are quicker. The kernel makes one of
 * 512 small ones when asked (MADV_COLLAPSE, Linux 6.1), which costs as much as copying it many
 * times: so each range of 2 MiB is moved when it has been used for that many bytes.
 *
 * What is moved is memory that this process alone has: same addresses, same bytes, and at most a
 * third more pages, where a buffer ends within a range. A range that is a file's, shared memory, or
 * of which a child of a fork has a page as well stays as it is; so does all where the administrator
 * (transparent_hugepage/enabled says never), the program (MADV_NOHUGEPAGE, PR_SET_THP_DISABLE) or
 * FI_BEELINE_HUGE says no, and where /proc/self/{pagemap,maps} can't be read.
 *
 * The call has every core put away the pages it is about to free (lru_add_drain_all), and who maps
 * memory waits meanwhile (mmap_lock): commonly not long, but as long as a real-time thread keeps a
 * core. What it takes is measured, and leads to as much fewer calls; where such a thread may keep a
 * core for ever (sched_rt_runtime_us is -1) there is none.
 */
#ifndef BL_PLACE_HUGE_H
#define BL_PLACE_HUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BL_HUGE_ALWAYS 1u /* FI_BEELINE_HUGE */
#define BL_HUGE_NEVER  2u

#define BL_HUGE_SIZE   (2u << 20)
#define BL_HUGE_RANGES 512u   /* are remembered; each may be forgotten for others */
#define BL_HUGE_LEAST  65536u /* bytes: no shorter message counts */

struct bl_huge_range {
	uint64_t number; /* address / BL_HUGE_SIZE */
	uint32_t used;	 /* KiB of messages since the last try ... */
	uint32_t needs;	 /* ... and how many, at least, lead to the next */
};

/* Of a domain, which serialises its use. */
struct bl_huge {
	uint32_t needs; /* KiB, at least: what the last ones have cost */
	bool on;
	struct bl_huge_range range[BL_HUGE_RANGES];
};

/* Reads the settings. */
void bl_huge_init(struct bl_huge *huge);

/* A message of len bytes there was copied by system calls and is over. May take a millisecond or
 * some, rarely, under the domain's lock. Returns how many bytes are in huge pages now that, by the
 * time it took, weren't. */
size_t bl_huge_used(struct bl_huge *huge, const void *addr, size_t len);

#endif
