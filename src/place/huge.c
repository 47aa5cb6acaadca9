/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * huge.c: see huge.h.
 */
#include "place/huge.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/knobs.h"
#include "base/log.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { UNKNOWN, YES, NO };

#define PAGES	    (BL_HUGE_SIZE / 4096u)
#define RESIDENT    (PAGES / 4 * 3)
#define NEEDS_FIRST (16u << 10)	 /* KiB; also the least */
#define NEEDS_COST  (512u << 10) /* no single cost counts for more: it may have been chance */
#define NEEDS_MOST  (4u << 20)	 /* of a range that failed again and again */
#define GAIN_NS	    30u		 /* for each KiB: measured with both hands, 57 -> 24 */
#define WORK_NS	    50000u	 /* what was huge already takes a few microseconds */

/* Does the administrator forbid huge pages? A kernel without them has no such file. */
static bool forbidden(void)
{
	char text[64];
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return true;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, "[never]") || !*text;
}

static void get_ready(struct bl_huge *huge)
{
	bool never = bl_knobs()->huge == BL_HUGE_NEVER;

	huge->ready = never || sysconf(_SC_PAGESIZE) != 4096 || forbidden() ? NO : YES;
	huge->needs = bl_knobs()->huge == BL_HUGE_ALWAYS ? 1 : NEEDS_FIRST;
	bl_debug("buffers of large messages %s put into huge pages",
		 huge->ready == YES ? "may be" : "aren't");
}

/* So much of it is there that little memory is taken that wasn't. */
static bool is_resident(void *at)
{
	unsigned char there[PAGES];
	uint32_t n = 0;

	if (mincore(at, BL_HUGE_SIZE, there))
		return false; /* a part isn't mapped */
	for (uint32_t i = 0; i < PAGES; i++)
		n += there[i] & 1;
	return n >= RESIDENT;
}

/* Whether it worked or not, it should have paid. Returns ns. */
static uint64_t collapse(struct bl_huge *huge, struct bl_huge_range *range, bool whole,
			 size_t *moved)
{
	void *at = (void *)(uintptr_t)(range->number * BL_HUGE_SIZE);
	uint32_t needs = range->needs ? range->needs : huge->needs;
	uint64_t took = bl_clock_ns();
	bool done = (whole || is_resident(at)) && !madvise(at, BL_HUGE_SIZE, MADV_COLLAPSE);

	took = bl_clock_ns() - took;
	range->used = 0;
	/* Not that kind of memory, no huge page to be had, a page in use: later, if at all. */
	range->needs = done ? 0 : (uint32_t)bl_min(2 * needs, NEEDS_MOST);
	if (took < WORK_NS)
		return took;
	if (done)
		*moved += BL_HUGE_SIZE;
	if (bl_knobs()->huge != BL_HUGE_ALWAYS) {
		uint32_t cost = (uint32_t)bl_min(took / GAIN_NS, NEEDS_COST);

		huge->needs = (3 * huge->needs + cost) / 4;
		if (huge->needs < NEEDS_FIRST)
			huge->needs = NEEDS_FIRST;
	}
	return took;
}

/* Where a range is counted, or NULL: that place is another's, which is used more. */
static struct bl_huge_range *find(struct bl_huge *huge, uint64_t number, uint32_t kib)
{
	struct bl_huge_range *range =
		&huge->range[(number * 0x9e3779b97f4a7c15u >> 32) % BL_HUGE_RANGES];

	if (likely(range->number == number))
		return range;
	if (range->used > kib) {
		range->used -= kib;
		return NULL;
	}
	*range = (struct bl_huge_range){.number = number};
	return range;
}

size_t bl_huge_used(struct bl_huge *huge, const void *addr, size_t len)
{
	uintptr_t at = (uintptr_t)addr, end = at + len;
	/* For so long, or for one range, a message may be held up: about as long as it took. */
	uint64_t most = 2 * GAIN_NS * (len / 1024), took = 0;
	size_t moved = 0;

	if (unlikely(huge->ready == UNKNOWN))
		get_ready(huge);
	if (huge->ready == NO)
		return 0;
	while (at < end) {
		uint64_t number = at / BL_HUGE_SIZE;
		uintptr_t next = bl_min((number + 1) * BL_HUGE_SIZE, end);
		uint32_t kib = (uint32_t)((next - at) / 1024);
		struct bl_huge_range *range = find(huge, number, kib);

		if (range) {
			range->used += kib;
			if (range->used >= (range->needs ? range->needs : huge->needs) &&
			    took < most)
				took += collapse(huge, range, next - at == BL_HUGE_SIZE, &moved);
		}
		at = next;
	}
	return moved;
}
