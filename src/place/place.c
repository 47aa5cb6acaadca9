/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * place.c: see place.h. Three system calls, spelled out because libnuma would
 * bring a library into every MPI process for them.
 */
#include "place/place.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdint.h>
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
