/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma.h: one-sided operations: what one is, the memory that it is about, how it ends at its origin,
 * and how a target does one for an origin that can't. No transport is known here.
 *
 *   origin                                  target
 *   asks, somehow ─────────────────────────► bl_rma_exec_begin: checks in its own table
 *   bytes, or operands ────────────────────► bl_rma_exec: reads, writes, or applies
 *   bl_rma_complete ◄─────────────────────── bl_rma_exec_over: counts, completes
 *
 * Serialised by the domain.
 */
#ifndef BL_CORE_RMA_H
#define BL_CORE_RMA_H

#include <string.h>

#include "core/atomics_lock.h"
#include "core/mr.h"

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

/* All of them; false: that is no length. */
bool bl_rma_places_len(const struct bl_rma_place *place, size_t nplace, size_t *len);

/* It brings something back. For an endpoint's counters such is a read. */
static inline bool bl_rma_reads(enum bl_rma_what what)
{
	return what == BL_RMA_READ || what >= BL_RMA_FETCH;
}

/* Operands go with it. */
static inline bool bl_rma_has_operand(enum bl_rma_what what, uint8_t op)
{
	return what != BL_RMA_READ && op != BL_ATOMIC_OP_READ;
}

/* Of an operation on so many bytes: those that go, and those that come back. */
static inline size_t bl_rma_goes(enum bl_rma_what what, uint8_t op, size_t len)
{
	return (bl_rma_has_operand(what, op) ? len : 0) + (what == BL_RMA_COMPARE ? len : 0);
}

static inline size_t bl_rma_comes(enum bl_rma_what what, size_t len)
{
	return bl_rma_reads(what) ? len : 0;
}

/* None yet; one more place, which is of this registration: 0, -EACCES, -EINVAL, -ENOMEM. */
void bl_rma_memory_begin(struct bl_rma_memory *mem);
int bl_rma_memory_add(struct bl_rma_memory *mem, const struct bl_rma_place *place, uint32_t i,
		      const struct bl_mr_entry *entry, uint32_t need);
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

/* Bytes that a copy of what an operation points to takes, but for its buffers; that copy. */
size_t bl_rma_pieces_size(const struct bl_rma *rma);
struct bl_rma bl_rma_with_pieces(const struct bl_rma *rma, void *memory);
/* If it is injected: its operands are its user's again, and `copy` has them. */
void bl_rma_keep_bytes(struct bl_rma *rma, size_t len, struct iovec kept[2], char *copy);

/* A part of an atomic operation. */
struct bl_atomic_run {
	struct bl_copy_pair *pair; /* NULL: our own memory */
	const struct bl_rma_memory *mem;
	enum bl_rma_what what;
	unsigned type, op;
	/* in pieces: what belongs to the memory from `base` on, up to `end` */
	const struct iovec *operand, *compare, *result;
	size_t noperand, ncompare, nresult;
	size_t base, end;
};
/*
 * Do it under that lock, from the byte *off on. 0, -EOPNOTSUPP, -ESRCH...; -EAGAIN: somebody else
 * has the lock. Elements up to *off are done then, so that who comes again goes on there.
 */
int bl_atomic_run(const struct bl_atomic_run *r, struct bl_atomics_page *atomics_page,
		  struct bl_atomics_page_wait *wait, size_t *off);

/* --- its end, at the origin --------------------------------------------------- */

/* Say so in the log; err: a positive errno. */
bl_cold void bl_rma_tell_error(const struct bl_peer *peer, enum bl_rma_what what, size_t len,
			       const char *way, int err);
void bl_rma_complete(struct bl_ep *ep, struct bl_sink *sink, const struct bl_rma *rma, size_t len,
		     int err);
/* It is over, done by its origin; err: 0 or a positive errno. */
void bl_rma_over(struct bl_ep *ep, const struct bl_peer *peer, const struct bl_rma *rma, size_t len,
		 int err);

/* --- at the target ------------------------------------------------------------ */

/* What an origin asks of our memory, or has done to it: an operation, or a part of one. */
struct bl_rma_task {
	enum bl_rma_what what;
	uint8_t type, op; /* atomics */
	uint8_t first;	  /* bit i: place i is the operation's first one in its region */
	bool more;	  /* other places of the same operation follow */
	bool has_data;
	uint32_t nplace; /* at most BL_IOV_MAX */
	const struct bl_rma_place *place;
	uint64_t off, len;  /* these bytes of the places */
	uint64_t before;    /* bytes of the operation that aren't these places' */
	uint64_t data, src; /* remote CQ data; which peer */
};

/* The places of a whole operation that come first in their regions; at most BL_IOV_MAX. */
static inline uint8_t bl_rma_firsts(const struct bl_rma_place *place, uint32_t nplace)
{
	uint8_t first = 0;

	for (uint32_t i = 0; i < nplace; i++)
		if (bl_rma_first_of(place, i))
			first |= (uint8_t)(1u << i);
	return first;
}

/* One that we do for an origin. */
struct bl_rma_exec {
	struct bl_rma_task task;
	struct bl_rma_memory mem; /* who begins says `len`, and `own` if it may be touched */
	uint64_t closed;	  /* registrations closed when `mem` was found */
	size_t done;		  /* of an atomic operation: up to here */
};

/* May it be? 0, -EKEYREJECTED, -EACCES, -EINVAL. */
int bl_rma_exec_begin(struct bl_ep *ep, struct bl_rma_exec *x);
/*
 * Copy bytes [off, off + len) of it from or to `bytes`; or do all of an atomic one, with operands
 * in `bytes`, then what they are compared with, which become the old values. 0; -EAGAIN: the lock
 * is taken, come again; or why it fails, and *moved, unless NULL, is what is there all the same.
 * The table is looked at again where a registration has been closed since.
 */
int bl_rma_exec(struct bl_ep *ep, struct bl_rma_exec *x, size_t off, void *bytes, size_t len,
		size_t *moved);
/* It is over: count it, and say so if it came with data. err: 0 or an errno. */
void bl_rma_exec_over(struct bl_ep *ep, struct bl_sink *sink, const struct bl_rma_exec *x, int err);
/* Others have read or written `len` bytes of our memory: the same of that. */
void bl_rma_tell(struct bl_ep *ep, struct bl_sink *sink, const struct bl_rma_task *task,
		 uint64_t len);

#endif
