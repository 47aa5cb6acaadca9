/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * combine.h: short reads and writes of another process's memory that follow each other closely,
 * done together.
 *
 * A system call that copies 8 bytes is mostly the call: of eight such places in one call each takes
 * a third of the time, of eight in one packet (serve.h) a fifth; and what lies side by side, there
 * and here, is one place. So who has just begun one to the same target, and hasn't waited for it,
 * may be about to begin more: the next ones are kept until progress is made, until one comes that
 * is none of them (another kind, a longer one, an atomic operation), or until there are as many as
 * there is room for.
 *
 *   put ──► is one just over, or kept? ── no ──► done at once, as by rma.h
 *                     │ yes
 *   put, put, ... ──► kept
 *   flush: progress ──► all of them: by the target, if it waits; else directly
 *                       each completes
 *
 * One by itself is over when its call returns, so that who begins one and computes is never late.
 * (One that follows a whole number of several is taken for the first of several.)
 *
 * They are done in the order in which they were begun, and before all that is begun later to the
 * same target. Where one of those that are together fails, or is to be counted where it goes, each
 * is done by itself, again: nothing is said of any before all have been tried together, so that the
 * bytes are the same as if they had been done once.
 *
 * What is injected is kept here; what is not stays in its owner's memory until it completes.
 *
 * Serialised by the domain.
 */
#ifndef BL_CORE_COMBINE_H
#define BL_CORE_COMBINE_H

#include "core/rma.h"

#define BL_COMBINE_OPS	64u
#define BL_COMBINE_LEN	4096u /* bytes of the longest one: from there on the copy is most of it */
#define BL_COMBINE_KEPT 32768u

#define BL_COMBINE_ALWAYS 1u /* FI_BEELINE_COMBINE */
#define BL_COMBINE_NEVER  2u

struct bl_combined {
	struct bl_rma_place place;
	struct iovec mine;
	void *context;
	uint64_t flags;
};

struct bl_combine {
	enum bl_rma_what what; /* all of them */
	uint32_t first, n;     /* op[first] to op[n - 1] are still to be done, */
	uint32_t alone;	       /* so many of which one by one */
	uint32_t asked;	       /* so many the target has taken up together, */
	uint64_t number;       /* under this number */
	uint64_t dest;
	size_t kept; /* bytes */
	struct bl_combined op[BL_COMBINE_OPS];
	char copy[BL_COMBINE_KEPT];
};

static inline bool bl_combine_some(const struct bl_rma_peer *rp)
{
	return rp->combine && rp->combine->n;
}

/*
 * One is about to begin. BL_COMBINE_TAKEN: it is kept. 0: begin it, nothing is kept any more that
 * it could overtake. -EAGAIN: something is.
 */
#define BL_COMBINE_TAKEN 1
int bl_combine_take(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len);

/* One is over, or has begun: the next may follow. */
static inline void bl_combine_note(struct bl_rma_peer *rp)
{
	rp->last_at = bl_ticks();
}

/* Do all that is kept. False: there is still some, which can't be done now. */
bool bl_combine_flush(struct bl_ep *ep, struct bl_rma_peer *rp);

/* The endpoint closes: what can be done without anybody's help is done. */
bl_cold void bl_combine_close(struct bl_ep *ep, struct bl_rma_peer *rp);
/* The peer is gone: what is kept ends with err (a positive errno). */
bl_cold void bl_combine_abandon(struct bl_ep *ep, struct bl_rma_peer *rp, int err);

#endif
