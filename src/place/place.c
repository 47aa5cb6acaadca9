/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * place.c: see place.h. Three system calls, spelled out because libnuma would
 * bring a library into every MPI process for them.
 */
#include "place/place.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define MAX_NODES 1024

int bl_place_node(void)
{
	unsigned cpu, node;

	if (syscall(SYS_getcpu, &cpu, &node, NULL))
		return 0;
	return (int)node;
}

/* As far as is known: without NUMA a core belongs to no node. */
static bool is_on(int core, unsigned node)
{
	char path[64];

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/node%u", core, node);
	return !access(path, F_OK) || access("/sys/devices/system/node", F_OK);
}

/* The one with that number among `cores`, in a circle, or the first one behind it that isn't `ours`
 * and is on that node. < 0: there is none. */
static int core_from(const struct bl_cores *cores, uint32_t number, int ours, unsigned node)
{
	uint32_t n = (uint32_t)CPU_COUNT_S(sizeof *cores, cores->part), i = 0;
	int first = -ENODEV;

	for (int core = 0; core < BL_CORES_MOST && i < n; core++) {
		if (!CPU_ISSET_S((size_t)core, sizeof *cores, cores->part))
			continue;
		if (i++ < number % n && first >= 0)
			continue;
		if (core == ours || !is_on(core, node))
			continue;
		if (i > number % n)
			return core;
		first = core;
	}
	return first;
}

static void all_cores(struct bl_cores *cores)
{
	memset(cores, 0xff, sizeof *cores);
}

static int may_run_on(const struct bl_cores *cores)
{
	return sched_setaffinity(0, sizeof *cores, cores->part) ? -errno : 0;
}

int bl_place_elsewhere(uint32_t number)
{
	struct bl_cores before, one = {0};
	unsigned ours, node;
	int core, err;

	if (syscall(SYS_getcpu, &ours, &node, NULL) ||
	    sched_getaffinity(0, sizeof before, before.part))
		return -errno;
	core = core_from(&before, number, (int)ours, node);
	if (core < 0)
		return core;
	CPU_SET_S((size_t)core, sizeof one, one.part);
	err = may_run_on(&one);
	if (err)
		return err;
	/* Who might run anywhere may do so even where there are more cores one day. */
	if (CPU_COUNT_S(sizeof before, before.part) >= sysconf(_SC_NPROCESSORS_ONLN))
		all_cores(&before);
	if (may_run_on(&before)) { /* it was given others meanwhile */
		all_cores(&before);
		may_run_on(&before);
	}
	return core;
}

size_t bl_place_cache(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
	long size = sysconf(_SC_LEVEL2_CACHE_SIZE);

	return size > 0 ? (size_t)size : 0;
#else
	return 0;
#endif
}

void bl_place_prefer(void *addr, size_t len, int node)
{
	unsigned long mask[MAX_NODES / (8 * sizeof(unsigned long))] = {0};

	if (node < 0 || node >= MAX_NODES)
		return;
	mask[(size_t)node / (8 * sizeof mask[0])] = 1UL << ((size_t)node % (8 * sizeof mask[0]));
	/* Refused by seccomp or built without NUMA: first touch still decides. */
	syscall(SYS_mbind, addr, len, MPOL_PREFERRED, mask, (unsigned long)MAX_NODES, 0);
}

int bl_place_more(void *addr, size_t len, int node)
{
	bl_place_prefer(addr, len, node);
	if (!madvise(addr, len, MADV_POPULATE_WRITE))
		return 0;
	return errno == EINVAL || errno == ENOSYS || errno == EPERM ? -EOPNOTSUPP : -ENOMEM;
}

int bl_place_populate(void *addr, size_t len, int node)
{
	volatile uint8_t *page = addr;
	size_t step = (size_t)sysconf(_SC_PAGESIZE);
	int err = bl_place_more(addr, len, node);

	if (err != -EOPNOTSUPP)
		return err;
	/* Before Linux 5.14. The caller has reserved the pages (fallocate). */
	for (size_t i = 0; i < len; i += step)
		page[i] = page[i];
	return 0;
}
