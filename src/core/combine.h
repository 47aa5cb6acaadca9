/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * combine.h: short reads and writes of another process's memory that follow each other closely,
 * done together.
 *
 * A system call that copies 8 bytes is mostly the call, and a packet (serve.h) mostly its way there
 * and back: so several go with one; and what lies side by side, there and here, is one place. So
 * who has just begun one to the same target, and has read no queue or counter that it would
 * complete in since, or says that more follow (FI_MORE), is about to begin more: from there on they
 * are kept until progress is made, until one comes that is none of them (another kind, a longer
 * one, an atomic operation), or one more than there is room for.
 *
 *   put ──► is one just over, or kept? ── no ──► done at once, as by rma.h
 *                     │ yes
 *   put, put, ... ──► kept
 *   flush: progress ──► all of them: by the target, if it waits; else directly
 *                       each completes
 *
 * So one by itself is over when its call returns: who begins one and computes is never late. And
 * where a thread sleeps on anything of the endpoint nothing is kept: it may be waiting for their
 * end, or for what their target answers, and nobody else may make progress. Nor where the domain
 * has another endpoint, whose queue alone may be read until that answer comes (OpenSHMEM's way); an
 * endpoint of another domain isn't looked for: those are each other's strangers.
 *
 * Those of several pieces are kept as pieces, each of which is in one place, there and here.
 *
 * They are done in the order in which they were begun, and before all that is begun later to the
 * same target by one-sided operations. Where one of those that are together fails, those before it
 * that are done are over, and the others are done one by one; so are all where a region counts
 * them. None is done twice.
 *
 * What is injected is kept here; what is not stays in its owner's memory until it completes.
 *
 * Serialised by the domain.
 */
#ifndef BL_CORE_COMBINE_H
#define BL_CORE_COMBINE_H

#include "core/rma.h"

#define BL_COMBINE_OPS	  64u
#define BL_COMBINE_LEN	  4096u /* bytes of the longest one: from there on the copy is most of it */
#define BL_COMBINE_KEPT	  32768u
#define BL_COMBINE_PIECES 1024u /* of all of them, */
#define BL_COMBINE_GROUP  256u	/* and of those that are done together, and so of each */

#define BL_COMBINE_ALWAYS 1u /* FI_BEELINE_COMBINE */
#define BL_COMBINE_NEVER  2u

struct bl_combined_piece {
	struct bl_rma_place place;
	void *mine;
};
struct bl_combined {
	uint32_t piece, npiece; /* which */
	size_t len;
	void *context;
	uint64_t flags;
};

/* What is kept for one peer, which has one only meanwhile. */
struct bl_combine {
	enum bl_rma_what what; /* all of them */
	uint32_t first, n;     /* op[first] to op[n - 1] are still to be done, */
	uint32_t alone;	       /* so many of which one by one */
	uint32_t asked;	       /* so many the target has taken up together, */
	uint64_t number;       /* under this number */
	uint64_t not_before;   /* ticks: its table was changing, or 0 */
	uint64_t dest;
	size_t kept; /* bytes */
	uint32_t npiece;
	struct bl_combine *next;
	struct bl_combined op[BL_COMBINE_OPS];
	struct bl_combined_piece piece[BL_COMBINE_PIECES];
	char copy[BL_COMBINE_KEPT];
};

static inline bool bl_combine_some(const struct bl_rma_peer *rp)
{
	return rp->combine != NULL;
}

/* Of any peer; or what has been, and the target does it now. */
bool bl_combine_any(const struct bl_ep *ep);
bool bl_combine_left(const struct bl_ep *ep);

extern uint32_t bl_combine_follows_us; /* who comes within so long follows the last one */

/*
 * One is about to begin. BL_COMBINE_TAKEN: it is kept. 0: begin it, nothing is kept any more that
 * it could overtake; then bl_combine_note(). -EAGAIN: something is.
 */
#define BL_COMBINE_TAKEN 1
int bl_combine_take(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len);

/* One is over, or has begun: the next may follow. */
void bl_combine_note(const struct bl_ep *ep, struct bl_rma_peer *rp);

/* Do all that is kept. It polls. False: there is still some, which can't be done now. */
bool bl_combine_flush(struct bl_ep *ep, struct bl_rma_peer *rp);

/* The peer is gone: what is kept ends with err (a positive errno). */
bl_cold void bl_combine_abandon(struct bl_ep *ep, struct bl_rma_peer *rp, int err);
/* The endpoint closes, and what is still kept will never be done; and the last of them. */
bl_cold void bl_combine_drop(struct bl_ep *ep, struct bl_rma_peer *rp);
bl_cold void bl_combine_free(struct bl_ep *ep);

#endif
