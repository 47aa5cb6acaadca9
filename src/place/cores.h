/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cores.h: sets of cores, and a thread that goes to another one. No state; any thread.
 */
#ifndef BL_PLACE_CORES_H
#define BL_PLACE_CORES_H

#include <sched.h>
#include <stdint.h>

#define BL_CORES_MOST 8192 /* that any kernel of today can name */

/* cpu_set_t ends at 1024, and a kernel has no answer for less room than it needs. */
struct bl_cores {
	cpu_set_t part[BL_CORES_MOST / CPU_SETSIZE];
};

/*
 * The calling thread goes to another core: of those of its node that it may run on, without the one
 * that it runs on, to number `number` modulo how many they are. From then on it may run where it
 * might before, and the scheduler may take it elsewhere, or back. (Of cores that it was bound to
 * and that are offline now nothing is known: they don't come back to it.) Somebody else who says
 * where it may run while it waits to get there is obeyed; in the moments before and after that
 * nobody can tell.
 *
 * Returns the core's number; -ENODEV: there is no other one; -EBUSY: somebody else said so before
 * it was there; or what the kernel says. A thread that goes has to wait for its turn there: 50 us
 * where others run, now and then a time slice of theirs.
 */
int bl_place_elsewhere(uint32_t number);

/* The same, to the core of that number. -ENODEV: it may not run there, or that is on another node.
 */
int bl_place_at(uint32_t core);

#endif
