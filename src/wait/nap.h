/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * nap.h: waits that nothing has come to for long (FI_BEELINE_IDLE=nap). MPI libraries poll, in
 * MPI_Recv until the message comes, and keep a core busy that others could use. Such a wait naps:
 * for a hundredth of the time that it has lasted, within bounds, and no longer than until a
 * neighbour's message comes, which wakes it.
 *
 * Not by default, for no program can be told from outside that waits many times for a short while,
 * always for something that isn't ours: another thread, an accelerator, a file, memory that others
 * write. To this it is one wait, and each short one is as long as a nap then.
 *
 * Whoever does something of its own between two reads doesn't wait: processor time tells, which
 * unlike time doesn't pass while others have the core. More of it a read than polling and yielding
 * take, and the wait begins anew. Nor does one that sends, or whose messages come to other queues:
 * of the queue's domain this is seen before each nap, of others soon after.
 *
 * Serialised by the domain like everything in api.h.
 */
#ifndef BL_WAIT_NAP_H
#define BL_WAIT_NAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/knobs.h"

#define BL_NAP_AFTER_US 10000u /* until a wait is looked at, and while it is */
#define BL_IDLE_NAP	1u     /* FI_BEELINE_IDLE */

struct bl_cq;
struct bl_ep;

struct bl_nap {
	uint64_t since;	  /* ticks: nothing has come, and nothing else was done */
	uint64_t cpu_ns;  /* this thread's, when it was last looked at, ... */
	uint32_t empties; /* ... and the queue's empty reads by then */
	uint32_t moves;	  /* ... and what had been sent and received in its domain */
	bool looked;
	bool naps;
	uint8_t doubts; /* looks in a row, between naps, that found work */
};

static inline void bl_nap_begins(struct bl_nap *quiet, uint64_t now)
{
	quiet->since = now;
	quiet->looked = quiet->naps = false;
	quiet->doubts = 0;
}

static inline bool bl_nap_lasts(const struct bl_nap *quiet, uint64_t now)
{
	return now - quiet->since > BL_NAP_AFTER_US * bl_ticks_per_us() &&
	       bl_knobs()->idle == BL_IDLE_NAP;
}

/* With each look around: whether something has moved. */
void bl_nap_look(struct bl_ep *ep, uint64_t now);

/* An empty read of a wait that lasts. True: it has napped, and the domain was unlocked meanwhile,
 * where it was locked; or it is in doubt, and only polls. */
bool bl_nap_take(struct bl_cq *cq, uint64_t now);

#endif
