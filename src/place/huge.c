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

#define PAGE	    4096u
#define PAGES	    (BL_HUGE_SIZE / PAGE)
#define ENOUGH	    (PAGES / 4 * 3)
#define WAYS	    2u		/* places where a range may be counted */
#define NEEDS_FIRST (16u << 10) /* KiB; also the least */
#define NEEDS_MOST  (4u << 20)	/* of a range that failed, or was huge, again and again */
#define AGAIN	    8u		/* times as many, once it has worked: it will stay so */
#define GAIN_NS	    30u		/* for each KiB: measured with both hands, 57 -> 24 */
#define WORK_NS	    50000u	/* what was huge already takes a few microseconds */

/* /proc/self/pagemap, a word for each page */
#define PRESENT	  (1ull << 63)
#define OF_A_FILE (1ull << 61) /* or shared */
#define EXCLUSIVE (1ull << 56)

#define SETTINGS "/sys/kernel/mm/transparent_hugepage/"

/* Does the administrator forbid huge pages? */
static bool says_never(const char *path, bool if_missing)
{
	char text[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return if_missing;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, "[never]") || !*text;
}

static bool is_allowed(void)
{
	/* A kernel without huge pages has no such file; one before 6.8 not the second. */
	return bl_knobs()->huge != BL_HUGE_NEVER && sysconf(_SC_PAGESIZE) == PAGE &&
	       !says_never(SETTINGS "enabled", true) &&
	       !says_never(SETTINGS "hugepages-2048kB/enabled", false);
}

void bl_huge_init(struct bl_huge *huge)
{
	*huge = (struct bl_huge){.on = is_allowed(), .needs = NEEDS_FIRST};
	if (bl_knobs()->huge == BL_HUGE_ALWAYS)
		huge->needs = 1;
	bl_debug("buffers of large messages %s put into huge pages",
		 huge->on ? "may be" : "aren't");
}

/* So much of it is there, and ours alone, that little memory is taken that wasn't, nothing is
 * moved for others, and nobody has a copy to lose. */
static bool is_private(uint64_t number)
{
	uint64_t page[PAGES];
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint32_t n = 0;
	ssize_t got;

	if (fd < 0)
		return false;
	got = pread(fd, page, sizeof page, (off_t)(number * sizeof page));
	close(fd);
	if (got != sizeof page)
		return false;
	for (uint32_t i = 0; i < PAGES; i++)
		n += (page[i] & (PRESENT | OF_A_FILE | EXCLUSIVE)) == (PRESENT | EXCLUSIVE);
	return n >= ENOUGH;
}

/* The next ones wait for as many messages as this one, and the ones before, should have been
 * paid for by. However many: where it is that dear it is done that rarely. */
static void reckon(struct bl_huge *huge, uint64_t took)
{
	uint64_t cost = took / GAIN_NS;

	if (bl_knobs()->huge == BL_HUGE_ALWAYS)
		return;
	huge->needs = (uint32_t)bl_min((3ull * huge->needs + cost) / 4, UINT32_MAX / 2);
	if (huge->needs < NEEDS_FIRST)
		huge->needs = NEEDS_FIRST;
}

/* Whether it worked or not, it should have paid. Returns ns. */
static uint64_t collapse(struct bl_huge *huge, struct bl_huge_range *range, size_t *moved)
{
	void *at = (void *)(uintptr_t)(range->number * BL_HUGE_SIZE);
	uint64_t needs = range->needs > huge->needs ? range->needs : huge->needs;
	uint64_t took = bl_clock_ns();
	bool done = is_private(range->number) && !madvise(at, BL_HUGE_SIZE, MADV_COLLAPSE);
	bool worked;

	took = bl_clock_ns() - took;
	worked = done && took >= WORK_NS;
	if (worked)
		*moved += BL_HUGE_SIZE;
	if (took >= WORK_NS)
		reckon(huge, took);
	/* Later, if the memory is another's by then, or what was in the way has gone. */
	range->used = 0;
	range->needs = (uint32_t)bl_min((worked ? AGAIN : 2) * needs, NEEDS_MOST);
	return took;
}

/* Where a range is counted, or NULL: its places are others', which are used more. */
static struct bl_huge_range *find(struct bl_huge *huge, uint64_t number, uint32_t kib)
{
	uint32_t set = (number * 0x9e3779b97f4a7c15u >> 32) % (BL_HUGE_RANGES / WAYS);
	struct bl_huge_range *range = &huge->range[set * WAYS], *least = range;

	for (uint32_t i = 0; i < WAYS; i++) {
		if (likely(range[i].number == number))
			return &range[i];
		if (range[i].used < least->used)
			least = &range[i];
	}
	if (least->used > kib) {
		least->used -= kib;
		return NULL;
	}
	*least = (struct bl_huge_range){.number = number};
	return least;
}

size_t bl_huge_used(struct bl_huge *huge, const void *addr, size_t len)
{
	uintptr_t at = (uintptr_t)addr, end = at + len;
	/* One try is always allowed, more while they have held this piece of a message up for
	 * about as long as its copy took. */
	uint64_t most = 2 * GAIN_NS * (len / 1024), took = 0;
	size_t moved = 0;

	if (!huge->on)
		return 0;
	while (at < end) {
		uint64_t number = at / BL_HUGE_SIZE;
		uintptr_t next = bl_min((number + 1) * BL_HUGE_SIZE, end);
		uint32_t kib = (uint32_t)((next - at) / 1024);
		struct bl_huge_range *range = find(huge, number, kib);

		if (range) {
			range->used += kib;
			if (range->used >= huge->needs && range->used >= range->needs &&
			    took < most)
				took += collapse(huge, range, &moved);
		}
		at = next;
	}
	return moved;
}
