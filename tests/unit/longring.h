/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * longring.h: for tests of longer rings: how much memory there is, what the kernel says to who asks
 * for pages, and how large a core's own cache is, as the test has them. The test wraps
 * bl_memlimit, bl_place_cache and madvise.
 */
#ifndef BL_TESTS_UNIT_LONGRING_H
#define BL_TESTS_UNIT_LONGRING_H

#include <errno.h>
#include <sys/mman.h>

#include "unit/limits.h"
#include "unit/pair.h"

static uint64_t room = UINT64_MAX;
static int refused;

uint64_t __wrap_bl_memlimit(void);
uint64_t __wrap_bl_memlimit(void)
{
	return room;
}

int __wrap_madvise(void *addr, size_t len, int advice);
int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice)
{
	if (!refused || advice != 23) /* MADV_POPULATE_WRITE */
		return __real_madvise(addr, len, advice);
	__real_madvise(addr, len / 2, advice); /* it had some of them */
	errno = refused;
	return -1;
}

/* Of the second-level cache. */
static size_t cache = 512 << 10;

size_t __wrap_bl_place_cache(void);
size_t __wrap_bl_place_cache(void)
{
	return cache;
}

static inline uint64_t longring_bytes(void)
{
	return atomic_load(&sender->local.stats->counter[BL_STAT_longring_bytes].value);
}

/* Pages of our lane from byte `at` on that are there. */
static inline size_t pages_from(size_t at)
{
	unsigned char there[BL_LANE_MOST / 4096];
	size_t n = 0, pages = (sender->local.seg.lane_span - at) / 4096;

	if (!pages)
		return 0;
	assert_int_equal(mincore((char *)peer()->tx.lane + at, pages * 4096, there), 0);
	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	return n;
}

static inline uint32_t op_of(uint32_t number)
{
	return BL_HEAD_OP(peer()->tx.slot[number % BL_SLOTS].head);
}

static inline int run_longring(const char *name)
{
	set_limits();
	unsetenv("FI_BEELINE_LONG_RING");
	return table_run(name);
}

#endif
