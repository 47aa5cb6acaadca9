/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * quiet.h: waits that nothing has come to for long. MPI libraries poll, in MPI_Recv until the
 * message comes, be that in an hour, and keep a core busy with it that others could use, or whose
 * power and heat those that compute could. Such a wait naps: for a hundredth of the time that it
 * has lasted, 1 ms at the most, and no longer than until a neighbour's message comes, which wakes
 * it. So what isn't ours and is polled for in the same loop (a collective in a library's own shared
 * memory, a file, an accelerator) is seen 1 % later than it would be, and everything of ours after
 * a wait of 20 ms or more some 10 us later.
 *
 * Whoever does something of its own between two reads doesn't wait, however long nothing has come:
 * processor time tells, which unlike time doesn't pass while others have the core. More than
 * QUIET_READ_NS of it a read, of all reads since the last thing that came or the last such finding,
 * or of those since the last nap: the wait begins anew.
 *
 * Nor does one that sends, or whose messages come to other queues that it reads in turn: of the
 * queue's domain this is seen before each nap, of others within 10 ms.
 *
 * Serialised by the domain like everything in core.h.
 */
#ifndef BL_CORE_QUIET_H
#define BL_CORE_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define BL_QUIET_US   10000u /* until a wait is looked at, and while it is */
#define BL_QUIET_POLL 1u     /* FI_BEELINE_QUIET */

struct bl_cq;
struct bl_ep;

struct bl_quiet {
	uint64_t since;	  /* ticks: nothing has come, and nothing else was done */
	uint64_t cpu_ns;  /* this thread's, when it was last looked at, ... */
	uint32_t empties; /* ... and the queue's empty reads by then */
	uint32_t moves;	  /* ... and what had been sent and received in its domain */
	bool looked;
	bool naps;
	uint8_t doubts; /* looks in a row, between naps, that found work */
};

static inline void bl_quiet_begins(struct bl_quiet *quiet, uint64_t now)
{
	quiet->since = now;
	quiet->looked = quiet->naps = false;
	quiet->doubts = 0;
}

static inline bool bl_quiet_lasts(const struct bl_quiet *quiet, uint64_t now)
{
	return now - quiet->since > BL_QUIET_US * bl_ticks_per_us();
}

/* With each look around: whether something has moved. */
void bl_quiet_look(struct bl_ep *ep, uint64_t now);

/* An empty read of a wait that lasts. True: it has napped; the domain was unlocked meanwhile, where
 * it was locked. */
bool bl_quiet_nap(struct bl_cq *cq, uint64_t now);

#endif
