/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma.h: reading, writing and changing another process's registered memory.
 *
 * The origin finds the key in the target's table (mr.h), checks, and copies; the target takes no
 * part. An operation is over when the call returns (of a batch: with the next progress; batch.h).
 *
 *   origin                                  target
 *   key ─► entry, bounds, rights            (computes)
 *   process_vm_writev ─────────────────────► its memory
 *   lane.count + 1, if it counts ──────────► counter, when it looks (count.h)
 *   RMA_EVENT, with remote CQ data ────────► completion, counter
 *   complete
 *
 * A short one is delegated to a target that waits (delegated.h). Where the kernel refuses, the
 * target is asked: same checks, same bytes, same results, one operation at a time for each pair, in
 * order, and none of that pair goes directly meanwhile.
 *
 *   RMA_ASK ─────────────────────────────────► checks in its own table
 *   RMA_BYTES ... ───────────────────────────► writes, or keeps operands and applies them
 *   result ◄─────────────────────── RMA_RESULT ...
 *   complete ◄────────────────────────────── RMA_DONE
 *
 * A long atomic operation is asked for in parts (BL_RMA_PART). Serialised by the domain.
 */
#ifndef BL_ENDPOINT_RMA_H
#define BL_ENDPOINT_RMA_H

#include <string.h>

#include "core/mr.h"
#include "transport/local/link/atomics_page.h"

/*
 * One operation. flags: BL_COMPLETION (errors always complete), BL_INJECT (what
 * is written is free on return), BL_REMOTE_CQ_DATA, BL_FENCE. The places together
 * are as long as the buffers.
 */
struct bl_rma {
	enum bl_rma_what what;
	uint8_t type, op;	 /* atomics: enum bl_atomic_type, bl_atomic_op */
	const struct iovec *iov; /* written, read into, or operands */
	size_t niov;
	const struct iovec *compare, *result; /* of atomics that have them */
	size_t ncompare, nresult;
	const struct bl_rma_place *place;
	size_t nplace;
	uint64_t dest, data;
	void *context;
	uint64_t flags;
	struct bl_work *work; /* as in struct bl_send */
};

/*
 * Begin it, and mostly end it. 0: it completes through the queue, also when it
 * fails there: EKEYREJECTED (no such key), EACCES (not that way), EINVAL (not
 * within the region), EFAULT (no such memory), ECONNRESET, ENOTCONN. What can't begin yet
 * is queued (txq.h). -EAGAIN: too many injected bytes are, or no memory. -EINVAL: lengths that
 * differ. -EMSGSIZE: inject too long.
 */
int bl_rma(struct bl_ep *ep, const struct bl_rma *rma);

/* --- the core's ------------------------------------------------------------ */

/* A target's memory, as its registrations say: pieces, one after the other. */
struct bl_rma_memory {
	struct iovec *iov; /* `few`, or allocated */
	uint32_t n, room;
	/* All of them lie in one piece of one registration: so does what is between them. */
	bool together;
	/* Of a target's: which of its counts the regions have that count this operation, each once
	 */
	uint8_t count[BL_IOV_MAX]; /* as BL_MR_COUNT_OF() */
	uint32_t ncount;
	size_t len;
	/* Of our own memory: whose it is, if it may be touched by hand where it has just been found
	 * to be there (bl_mr_is_there); else NULL. */
	struct bl_domain *own;
	struct iovec few[BL_IOV_MAX * BL_IOV_MAX];
};

#define BL_RMA_CACHE 16u

struct bl_batch;    /* batch.h: short ones that are done together */
struct bl_rma_rest; /* rma.c: an atomic operation, a part of which is done, or one that is served */
struct bl_rma_op;   /* rma.c: an operation that the target does for us */
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

/* The rights that an operation needs: BL_MR_READ, BL_MR_WRITE. */
uint32_t bl_rma_need(enum bl_rma_what what, uint8_t op);

/* What a region's counter may count it as, BL_MR_EVENT_*: a fetching atomic operation reads and,
 * but for one, changes memory (fi_mr(3)). For an endpoint's counters it is a read. */
uint32_t bl_rma_events(enum bl_rma_what what, uint8_t op);

/* Places of one region count once. */
static inline bool bl_rma_first_of(const struct bl_rma_place *place, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (place[k].key == place[i].key)
			return false;
	return true;
}

/* Where an operation's places are in the target's memory, by its table. 0: bl_rma_memory_end()
 * follows; -EKEYREJECTED, -EACCES, -EINVAL: it may not; -EAGAIN: the table is changing;
 * -EOPNOTSUPP: the kernel doesn't let us read it, or there are too many pieces; -ESRCH; -ENOMEM.
 * The target waits for us: bl_lane.rma_busy. */
int bl_rma_find(struct bl_rma_peer *rp, const struct bl_rma *rma, struct bl_rma_memory *mem);
void bl_rma_memory_end(struct bl_rma_memory *mem);
/* Where at most BL_IOV_MAX places of our own memory are, by our own. 0, -EKEYREJECTED, -EACCES,
 * -EINVAL. Nothing is to be ended. */
int bl_rma_find_own(struct bl_ep *ep, const struct bl_rma_place *place, uint32_t nplace,
		    uint32_t need, struct bl_rma_memory *mem);
/* Copy [off, off + len) of the memory from or to `mine`, which is len bytes. pair:
 * whose; NULL: it is ours (mem->own), but may not be there (-EFAULT). *moved, unless NULL: where it
 * fails, how many bytes are there all the same. */
int bl_rma_move(struct bl_copy_pair *pair, bool write, const struct bl_rma_memory *mem, size_t off,
		const struct iovec *mine, size_t nmine, size_t len, size_t *moved);
/* The same of one piece of our own memory and len bytes of ours. */
int bl_rma_move_own(struct bl_domain *domain, bool write, void *mem, void *mine, size_t len,
		    size_t *moved);

/* Bytes [off, off + len) of iov as a packet that says they belong at `at`, if there
 * is room. */
bool bl_rma_put_bytes(struct bl_peer *peer, uint32_t op, uint64_t number, uint64_t at,
		      const struct iovec *iov, size_t niov, size_t off, size_t len);
#define BL_RMA_FRAGMENT 8192u

/* Others have read or written our memory: count it, and say so if it came with data. */
void bl_rma_tell(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
		 enum bl_rma_what what, uint8_t op, const struct bl_rma_place *place, size_t nplace,
		 uint64_t len, bool has_data, uint64_t data);

/* --- rma.c's, for batch.c ---- */

/* Begin one that nothing comes before: as bl_rma(), but for that, and what is asked for is known to
 * make sense. -EAGAIN: not now; -ENOBUFS: there is no room to tell the target. */
int bl_rma_perform(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len);
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
static inline void bl_iov_copy(struct iovec *to, const struct iovec *from, size_t n)
{
	if (n)
		memcpy(to, from, n * sizeof *to);
}

/* What one is that its target does, for the log. */
#define BL_RMA_BY_TARGET "one-sided: done by its target"
/* Say so in the log, and complete it; err: 0 or a positive errno. */
bl_cold void bl_rma_tell_error(const struct bl_peer *peer, enum bl_rma_what what, size_t len,
			       const char *way, int err);
void bl_rma_complete(struct bl_ep *ep, struct bl_sink *sink, struct bl_work *work,
		     enum bl_rma_what what, uint64_t flags, void *context, size_t len, int err);
/* Have the target do it, from byte `off` on. why: what the direct way said, or 0. 0; -EAGAIN or
 * -ENOMEM: no memory. ask.c */
int bl_rma_ask(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
	       size_t off, int why);
/* All that was asked for ends with err; or is forgotten. */
bl_cold void bl_rma_ask_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp,
				int err);
void bl_rma_ask_drop(struct bl_rma_peer *rp);
/* It is over; err: 0 or a positive errno. */
void bl_rma_over(struct bl_ep *ep, const struct bl_rma *rma, size_t len, int err);

/* A packet whose operation is one of BL_OP_RMA_*, or nonsense. -EAGAIN: not now (no
 * memory); -EPROTO. target.c */
int bl_rma_packet(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint32_t head,
		  uint64_t tag, uint64_t data, const void *bytes);
/* A step for all that is active. target.c */
void bl_rma_progress(struct bl_ep *ep, struct bl_sink *sink);
/* Go on with what has been left (bl_rma_rest); true: there is still more. rma.c */
bool bl_rma_go_on(struct bl_ep *ep, struct bl_rma_peer *rp);
/* Send what fits of the first operation; true: there is more. ask.c */
bool bl_rma_pump(struct bl_ep *ep, struct bl_rma_peer *rp);
void bl_rma_on_result(struct bl_rma_peer *rp, uint64_t number, uint64_t off, const void *bytes,
		      uint32_t len);
void bl_rma_on_done(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp, uint64_t number,
		    uint64_t error);
/* Messages to the peer, or operations on its memory, that haven't completed. */
bool bl_rma_pending(const struct bl_ep *ep, const struct bl_peer *peer);
/* The peer is gone: what it was to do for us ends with err (a positive errno). */
bl_cold void bl_rma_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err);
/* Before the endpoint closes: nobody uses its memory on return. */
void bl_rma_close(struct bl_ep *ep);
/* target.c */
void bl_rma_drop_job(struct bl_rma_peer *rp);

#endif
