/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cores.c: see cores.h.
 */
#include "place/cores.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

static int may_run_on(struct bl_cores *cores)
{
	return sched_getaffinity(0, sizeof *cores, cores->part) ? -errno : 0;
}

static int run_on(const struct bl_cores *cores)
{
	return sched_setaffinity(0, sizeof *cores, cores->part) ? -errno : 0;
}

static bool are_same(const struct bl_cores *a, const struct bl_cores *b)
{
	return CPU_EQUAL_S(sizeof *a, a->part, b->part);
}

static bool has(const struct bl_cores *cores, unsigned long core)
{
	return core < BL_CORES_MOST && CPU_ISSET_S(core, sizeof *cores, cores->part);
}

/* "0-3,8", as the kernel writes it. */
static void read_list(const char *text, struct bl_cores *cores)
{
	char *end;

	memset(cores, 0, sizeof *cores);
	for (; *text >= '0' && *text <= '9'; text = *end == ',' ? end + 1 : end) {
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < BL_CORES_MOST; first++)
			CPU_SET_S(first, sizeof *cores, cores->part);
	}
}

/* All where that isn't known: a kernel without NUMA has no nodes. Of a long list the first ones:
 * some users' stacks are small. */
static void cores_of_node(unsigned node, struct bl_cores *cores)
{
	char path[64], text[2048], *cut;
	ssize_t n;

	snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
	n = bl_text_read(AT_FDCWD, path, text, sizeof text);
	if (n == -ENOENT) {
		memset(cores, 0xff, sizeof *cores);
		return;
	}
	cut = n == (ssize_t)sizeof text - 1 ? strrchr(text, ',') : NULL;
	if (cut)
		*cut = 0;
	read_list(text, cores); /* empty if it can't be read */
}

/* Number `number` modulo how many they are. < 0: there is none. */
static int one_of(const struct bl_cores *cores, uint32_t number)
{
	uint32_t n = (uint32_t)CPU_COUNT_S(sizeof *cores, cores->part), i = 0;

	for (unsigned core = 0; n && core < BL_CORES_MOST; core++)
		if (has(cores, core) && i++ == number % n)
			return (int)core;
	return -ENODEV;
}

/*
 * Who may run on all that the machine, or its container, has is told so, not which ones these are
 * today: then it may run on those to come as well.
 */
static void may_run_again(const struct bl_cores *before)
{
	struct bl_cores all, now;

	memset(&all, 0xff, sizeof all);
	if (run_on(&all) || may_run_on(&now) || !are_same(&now, before))
		run_on(before);
}

static int go(unsigned core, const struct bl_cores *before)
{
	struct bl_cores one = {0}, now;
	int err;

	CPU_SET_S(core, sizeof one, one.part);
	err = run_on(&one);
	if (err)
		return err;
	if (!may_run_on(&now) && !are_same(&now, &one))
		return -EBUSY;
	may_run_again(before);
	return (int)core;
}

/* Those of our node that the thread may run on, all of which are in `before`. */
static int near_ones(struct bl_cores *before, struct bl_cores *candidates, unsigned *ours)
{
	unsigned node;
	int err;

	if (syscall(SYS_getcpu, ours, &node, NULL))
		return -errno;
	err = may_run_on(before);
	if (err)
		return err;
	cores_of_node(node, candidates);
	CPU_AND_S(sizeof *before, candidates->part, candidates->part, before->part);
	return 0;
}

int bl_place_elsewhere(uint32_t number)
{
	struct bl_cores before, candidates;
	unsigned ours;
	int core, err = near_ones(&before, &candidates, &ours);

	if (err)
		return err;
	CPU_CLR_S(ours, sizeof candidates, candidates.part);
	core = one_of(&candidates, number);
	return core < 0 ? core : go((unsigned)core, &before);
}

int bl_place_at(uint32_t core)
{
	struct bl_cores before, candidates;
	unsigned ours;
	int err = near_ones(&before, &candidates, &ours);

	if (err)
		return err;
	return has(&candidates, core) ? go(core, &before) : -ENODEV;
}
