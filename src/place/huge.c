/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * huge.c: see huge.h.
 */
#include "place/huge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/text.h"

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

/* pagemap in /proc, a word for each page; by the thread, for the main one may have ended */
#define PRESENT	  (1ull << 63)
#define OF_A_FILE (1ull << 61) /* or shared */
#define EXCLUSIVE (1ull << 56)

#define SETTINGS "/sys/kernel/mm/transparent_hugepage/"

/* Does the administrator forbid huge pages? */
static bool says_never(const char *path, bool if_missing)
{
	char text[64];

	if (bl_text_read(AT_FDCWD, path, text, sizeof text) == -ENOENT)
		return if_missing;
	return strstr(text, "[never]") || !*text;
}

/* May a real-time thread keep a core for ever? Then the call below may take as long. */
static bool may_hang(void)
{
	char text[32];

	bl_text_read(AT_FDCWD, "/proc/sys/kernel/sched_rt_runtime_us", text, sizeof text);
	return text[0] == '-' && bl_knobs()->huge != BL_HUGE_ALWAYS;
}

static bool is_allowed(void)
{
	/* A kernel without huge pages has no such file; one before 6.8 not the second. */
	return bl_knobs()->huge != BL_HUGE_NEVER && sysconf(_SC_PAGESIZE) == PAGE && !may_hang() &&
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

/* Is it within one mapping, and that of no file? A private one's pages, once written, look like
 * any other's; but the file's would be moved. */
static bool is_anonymous(uintptr_t at)
{
	int fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
	FILE *maps = fd >= 0 ? fdopen(fd, "r") : NULL;
	bool begins = true, found = false;
	char line[256];

	if (!maps) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!found && fgets(line, sizeof line, maps)) {
		unsigned long from, to, inode;
		bool is_line = begins;

		begins = strchr(line, '\n');
		if (!is_line) /* the rest of a long path */
			continue;
		if (sscanf(line, "%lx-%lx %*s %*x %*x:%*x %lu", &from, &to, &inode) != 3 ||
		    from > at)
			break;
		found = !inode && at + BL_HUGE_SIZE <= to;
	}
	fclose(maps);
	return found;
}

/* Nothing of it is others' as well, who would be given a copy, and so much is there that little
 * memory is taken that wasn't. */
static bool is_ours(uintptr_t at)
{
	uint64_t page[PAGES];
	int fd = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
	uint32_t n = 0;
	ssize_t got;

	if (fd < 0)
		return false;
	got = pread(fd, page, sizeof page, (off_t)(at / PAGE * sizeof *page));
	close(fd);
	if (got != sizeof page)
		return false;
	for (uint32_t i = 0; i < PAGES; i++) {
		if (!(page[i] & PRESENT))
			continue;
		if ((page[i] & (OF_A_FILE | EXCLUSIVE)) != EXCLUSIVE)
			return false;
		n++;
	}
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
	uintptr_t at = range->number * BL_HUGE_SIZE;
	uint64_t needs = range->needs > huge->needs ? range->needs : huge->needs;
	uint64_t begun = bl_clock_ns(), asked, took;
	bool may = is_ours(at) && is_anonymous(at), done, worked;

	asked = bl_clock_ns();
	done = may && !madvise((void *)at, BL_HUGE_SIZE, MADV_COLLAPSE);
	took = bl_clock_ns();
	worked = done && took - asked >= WORK_NS;
	took -= begun;
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
		struct bl_huge_range *range = kib ? find(huge, number, kib) : NULL;

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
