/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * runs.h: the places of a one-sided operation as runs: equally long ones, with equal distances, in
 * one region. A vector is one run, whatever its length: few bytes cross, and its target checks its
 * ends alone.
 *
 * The kernel pins pages for each place anew, so a target that waits writes many short ones sooner
 * than a system call does; delegated.h says how it is asked. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_RMA_RUNS_H
#define BL_TRANSPORT_LOCAL_RMA_RUNS_H

#include "transport/local/rma/rma.h"

struct bl_runs {
	uint64_t key;
	uint32_t n, nplace; /* runs; places */
	size_t len;	    /* bytes */
	struct bl_rma_run run[BL_RUNS_MOST];
};

static inline void bl_runs_begin(struct bl_runs *runs)
{
	runs->n = runs->nplace = 0;
	runs->len = 0;
}

/* One more place; false: it is of another region, or doesn't fit. */
bool bl_runs_add(struct bl_runs *runs, const struct bl_rma_place *place);

/* They are worth a packet, and fit one. */
bool bl_runs_fit(const struct bl_runs *runs, enum bl_rma_what what);

/*
 * What an origin asks for in a packet of `size` bytes: read it out of our memory into `result`,
 * of BL_DELEGATED_SUM_BYTES, or write it. x: what it is, for its end, and *place is its first one.
 * 0; *moved: bytes that are done in any case; -EPROTO: it makes no sense; -EOPNOTSUPP: not in this
 * way; or why it may not.
 */
int bl_runs_perform(struct bl_ep *ep, const struct bl_rma_runs *theirs, uint32_t size,
		    uint8_t *result, struct bl_rma_place *place, struct bl_rma_exec *x,
		    size_t *moved);

#endif
