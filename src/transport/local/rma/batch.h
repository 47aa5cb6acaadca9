/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * batch.h: batches: short reads and writes of another process's memory that follow each other
 * closely, done together.
 *
 * A system call that copies 8 bytes is mostly the call: so several go with one, or in one packet,
 * and what lies side by side, there and here, is one place. Who has just begun one to the same
 * target, with no read of a queue or counter since, or says that more follow (FI_MORE), is about to
 * begin more: these are kept until progress, until one comes that is none of them, or until there
 * is no room.
 *
 *   put ──► is one just over, or kept? ── no ──► done at once, as by rma.h
 *                     │ yes
 *   put, put, ... ──► kept
 *   flush: progress ──► all of them: by the target, if it waits; else directly
 *
 * So one by itself is over when its call returns. Nothing is kept where a thread sleeps on anything
 * of the endpoint, nor where the domain has another endpoint.
 *
 * They are done in the order in which they were begun, before all that is begun later to the same
 * target. Where one fails, those before it are over, and the others are done one by one; so are all
 * where a region counts them. None is done twice. What is injected is kept here, else it stays in
 * its owner's memory. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_RMA_BATCH_H
#define BL_TRANSPORT_LOCAL_RMA_BATCH_H

#include "transport/local/rma/rma.h"

#define BL_BATCH_OPS	64u
#define BL_BATCH_LEN	4096u /* bytes of the longest one: from there on the copy is most of it */
#define BL_BATCH_KEPT	32768u
#define BL_BATCH_PIECES 1024u /* of all of them, */
#define BL_BATCH_GROUP	256u  /* and of those that are done together, and so of each */

#define BL_BATCH_ALWAYS 1u /* FI_BEELINE_RMA_BATCH */
#define BL_BATCH_NEVER	2u

struct bl_batched_piece {
	struct bl_rma_place place;
	void *mine;
};
struct bl_batched {
	uint32_t piece, npiece; /* which */
	size_t len;
	void *context;
	uint64_t flags;
};

/* What is kept for one peer, which has one only meanwhile. */
struct bl_batch {
	enum bl_rma_what what; /* all of them */
	uint32_t first, n;     /* op[first] to op[n - 1] are still to be done, */
	uint32_t alone;	       /* so many of which one by one */
	uint32_t asked;	       /* so many the target has taken up together, */
	uint64_t number;       /* under this number */
	uint64_t not_before;   /* ticks: its table was changing, or 0 */
	uint64_t dest;
	size_t kept; /* bytes */
	uint32_t npiece;
	struct bl_batch *next;
	struct bl_batched op[BL_BATCH_OPS];
	struct bl_batched_piece piece[BL_BATCH_PIECES];
	char copy[BL_BATCH_KEPT];
};

static inline bool bl_batch_some(const struct bl_rma_peer *rp)
{
	return rp->combine != NULL;
}

/* Of any peer; or what has been, and the target does it now. */
bool bl_batch_any(const struct bl_ep *ep);
bool bl_batch_left(const struct bl_ep *ep);

extern uint32_t bl_batch_follows_us; /* who comes within so long follows the last one */

/*
 * One is about to begin. BL_BATCH_TAKEN: it is kept. 0: begin it, nothing is kept any more that
 * it could overtake; then bl_batch_note(). -EAGAIN: something is.
 */
#define BL_BATCH_TAKEN 1
int bl_batch_take(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len);

/* One is over, or has begun: the next may follow. */
void bl_batch_note(const struct bl_ep *ep, struct bl_rma_peer *rp);

/* Do all that is kept. It polls. False: there is still some, which can't be done now. */
bool bl_batch_flush(struct bl_ep *ep, struct bl_rma_peer *rp);

/* The peer is gone: what is kept ends with err (a positive errno). */
bl_cold void bl_batch_abandon(struct bl_ep *ep, struct bl_rma_peer *rp, int err);
/* The endpoint closes, and what is still kept will never be done; and the last of them. */
bl_cold void bl_batch_drop(struct bl_ep *ep, struct bl_rma_peer *rp);
bl_cold void bl_batch_free(struct bl_ep *ep);

#endif
