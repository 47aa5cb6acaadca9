/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma.h: one-sided operations on a neighbour's memory: what an endpoint knows of it, and the ways.
 *
 * perform.c chooses: batch.h, delegated.h, direct.c, ask.c. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_RMA_RMA_H
#define BL_TRANSPORT_LOCAL_RMA_RMA_H

#include "core/rma.h"

#define BL_RMA_CACHE 16u

struct bl_batch;    /* batch.h: short ones that are done together */
struct bl_rma_rest; /* perform.c: an atomic operation, a part of which is done, or one that is
		       served */
struct bl_rma_op;   /* ask.c: an operation that the target does for us */
struct bl_rma_job;  /* target.c: one that we do for an origin */

/* What an endpoint knows of a peer, from the first operation on. */
struct bl_rma_peer {
	struct bl_peer *peer;
	uint64_t epoch;				/* bl_seg_mr.closed, when the cache was begun */
	struct bl_mr_entry cache[BL_RMA_CACHE]; /* by bl_mr_place(); flags 0: empty */
	struct bl_rma_rest *rest;		/* begun, before all that comes later; NULL */
	struct bl_rma_rest *spare;		/* memory for one; NULL */
	/* batch.h: what is kept, or NULL; when the last one was kept or done (ticks), and how
	 * often its user had read by then */
	struct bl_batch *combine;
	uint64_t last_at;
	uint32_t reads;
	struct bl_rma_op *head, **tail;
	struct bl_rma_job *job;
	struct bl_atomics_page_wait wait; /* for the lock of its memory */
	uint32_t turn;			  /* tells our direct copies apart: bl_lane.rma_busy */
	/* delegated.h: it waits in the library until then (ticks), as far as we know; operations
	 * that it isn't asked to serve, and will not be after the next in vain */
	uint64_t waits_until;
	uint32_t shun, shun_next;
	uint64_t vain; /* the last one that it was asked for in vain; 0: none */
	struct bl_rma_peer *next_active;
	bool active; /* in bl_rma_state.active, and counted in bl_ep.work */
};

/* NULL: no memory. */
struct bl_rma_peer *bl_rma_peer(struct bl_peer *peer);
/* There is something to do for it as soon as there is room. */
void bl_rma_activate(struct bl_ep *ep, struct bl_rma_peer *rp);

/* --- perform.c ------------------------------------------------------------------ */

#define BL_RMA_NO_ROOM (-ENOBUFS) /* to tell the target */

/* What bl_rma() does behind its checks, of len bytes. 0: it has begun; -EAGAIN: not now;
 * BL_RMA_NO_ROOM. */
int bl_rma_begin(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len);
/* Begin one that nothing comes before: as bl_rma(), but for that, and what is asked for is known to
 * make sense. -EAGAIN: not now; -ENOBUFS: there is no room to tell the target. */
int bl_rma_perform(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len);
/* Go on with what has been left (bl_rma_rest); true: there is still more. */
bool bl_rma_go_on(struct bl_ep *ep, struct bl_rma_peer *rp);
/* The peer is gone: what it was to do for us ends with err (a positive errno). */
bl_cold void bl_rma_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err);
/* Before the endpoint closes: nobody uses its memory on return. */
void bl_rma_close(struct bl_ep *ep);

/* --- direct.c ------------------------------------------------------------------- */

/* Where an operation's places are in the target's memory, by its table. 0: bl_rma_memory_end()
 * follows; -EKEYREJECTED, -EACCES, -EINVAL: it may not; -EAGAIN: the table is changing;
 * -EOPNOTSUPP: the kernel doesn't let us read it, or there are too many pieces; -ESRCH; -ENOMEM.
 * The target waits for us: bl_lane.rma_busy. */
int bl_rma_find(struct bl_rma_peer *rp, const struct bl_rma *rma, struct bl_rma_memory *mem);
/*
 * Copy directly, and no more: nothing completes. 0, with *err (a negative errno) of the operation;
 * -EOPNOTSUPP: the target must do it, or, of several operations, counts them; -EAGAIN: its table
 * is changing, or its lock is taken; -ENOBUFS: no room to tell the target. *off: of an atomic
 * operation, where to begin; but for 0 without an error, how far it has come.
 */
int bl_rma_direct(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		  bool several, size_t *off, int *err);
/* Of what the target is asked to do: a region counts it, by its table; or why that can't be said.
 */
int bl_rma_counted(struct bl_rma_peer *rp, const struct bl_rma *rma, bool *counted);
/* The target has an endpoint's counter for such, or they bring data. */
bool bl_rma_is_told(const struct bl_peer *peer, const struct bl_rma *rma);
/* As bl_rma_direct(), and it ends. -EFAULT: each must touch its own memory, from *off on. */
int bl_rma_direct_one(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma,
		      size_t len, size_t *off);

/* --- ask.c ---------------------------------------------------------------------- */

/* What one is that its target does, for the log. */
#define BL_RMA_BY_TARGET "one-sided: done by its target"
/* Have the target do it, from byte `off` on. why: what the direct way said, or 0. 0; -EAGAIN or
 * -ENOMEM: no memory. */
int bl_rma_ask(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
	       size_t off, int why);
/* All that was asked for ends with err; or is forgotten. */
bl_cold void bl_rma_ask_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp,
				int err);
void bl_rma_ask_drop(struct bl_rma_peer *rp);
/* Send what fits of the first operation; true: there is more. */
bool bl_rma_pump(struct bl_ep *ep, struct bl_rma_peer *rp);
void bl_rma_on_result(struct bl_rma_peer *rp, uint64_t number, uint64_t off, const void *bytes,
		      uint32_t len);
void bl_rma_on_done(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp, uint64_t number,
		    uint64_t error);
/* A packet of len bytes: where they go, or NULL: there is no room; and it goes. */
uint8_t *bl_rma_packet_room(struct bl_peer *peer, size_t len);
void bl_rma_packet_send(struct bl_peer *peer, const uint8_t *bytes, uint32_t head, uint64_t tag,
			uint64_t data);
/* Bytes [off, off + len) of iov as a packet that says they belong at `at`, if there
 * is room. */
bool bl_rma_put_bytes(struct bl_peer *peer, uint32_t op, uint64_t number, uint64_t at,
		      const struct iovec *iov, size_t niov, size_t off, size_t len);
#define BL_RMA_FRAGMENT 8192u

/* --- target.c ------------------------------------------------------------------- */

/* A packet whose operation is one of BL_OP_RMA_*, or nonsense. -EAGAIN: not now (no
 * memory); -EPROTO. */
int bl_rma_packet(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint32_t head,
		  uint64_t tag, uint64_t data, const void *bytes);
/* A step for all that is active. */
void bl_rma_progress(struct bl_ep *ep, struct bl_sink *sink);
void bl_rma_drop_job(struct bl_rma_peer *rp);

#endif
