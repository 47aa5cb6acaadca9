/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * huge.h: buffers that large messages use again and again, in huge pages. A copy into or out of
 * another process's memory looks every page up, and with pages of 2 MiB takes half the time
 * (docs/performance.md). The kernel makes one of 512 small ones when asked (MADV_COLLAPSE, Linux
 * 6.1), which costs as much as some tens of megabytes copied: so each range of 2 MiB is moved
 * when it has been used for that many, by messages that were copied directly.
 *
 * What is moved is the process's own view of its memory: same addresses, same bytes, and at most a
 * third more pages than there were, where a buffer ends within a range. Not where the administrator
 * (transparent_hugepage/enabled says never), the program (MADV_NOHUGEPAGE, PR_SET_THP_DISABLE) or
 * FI_BEELINE_HUGE says no.
 */
#ifndef BL_PLACE_HUGE_H
#define BL_PLACE_HUGE_H

#include <stddef.h>
#include <stdint.h>

#define BL_HUGE_ALWAYS 1u /* FI_BEELINE_HUGE */
#define BL_HUGE_NEVER  2u

#define BL_HUGE_SIZE   (2u << 20)
#define BL_HUGE_RANGES 512u   /* are remembered; each may be forgotten for another */
#define BL_HUGE_LEAST  65536u /* bytes: no shorter message counts */

struct bl_huge_range {
	uint64_t number; /* address / BL_HUGE_SIZE */
	uint32_t used;	 /* KiB of messages since the last try ... */
	uint32_t needs;	 /* ... and how many lead to the next; 0: as many as usual */
};

/* Of a domain, which serialises its use. All zero at first. */
struct bl_huge {
	uint32_t needs; /* KiB, usually: what the last ones have cost */
	uint32_t ready; /* 0: the settings are to be read; 1: yes; 2: no */
	struct bl_huge_range range[BL_HUGE_RANGES];
};

/* A message of len bytes there was copied by system calls and is over. May take a millisecond or
 * some, rarely. Returns how many bytes are in huge pages now that weren't. */
size_t bl_huge_used(struct bl_huge *huge, const void *addr, size_t len);

#endif
