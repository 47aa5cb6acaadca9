/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * op.h: send ops and recv ops: messages that are not over when they have left their sender or have
 * met their receive. They come from pools that live as long as their endpoint and only grow. Each
 * side knows the other's by a number that it checks when it comes back. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_OP_H
#define BL_TRANSPORT_LOCAL_LANE_OP_H

#include <sys/queue.h>

#include "core/ep.h"
#include "core/post.h"
#include "core/stat.h"
#include "transport/local/lane/rkey.h"

struct bl_range {
	uint64_t transfer, off, end;
	struct iovec theirs[BL_IOV_MAX]; /* the receiver's buffers, whole message */
	uint32_t ntheirs;
	bool pushing; /* try to write them directly first */
	uint64_t pushed;
	struct bl_rkeys theirs_rkeys;
};

#define BL_RANGES 4

struct bl_send_op {
	struct bl_peer *peer; /* NULL: free */
	struct iovec iov[BL_IOV_MAX];
	uint32_t niov;
	uint32_t index, generation;
	bool serving, quiet;
	bool cancelled; /* by its owner, who hears what has become of it: withdraw.c */
	uint8_t way;	/* enum bl_stat_way */
	size_t len;
	void *context;
	uint64_t flags; /* of its completion */
	/* helping */
	struct bl_chunks *chunks;
	uint32_t chunks_generation, count;
	size_t chunk, want;
	struct iovec theirs[BL_IOV_MAX];
	uint32_t ntheirs;
	struct bl_rkeys ours, theirs_rkeys;
	bool whole; /* all of it is in the ring, in one packet: only its FIN is to come */
	bool open; /* its RTS may not have been taken: bl_proxy_later; in bl_pending_sends.opened */
	bool tagged; /* of an open one */
	bool push_refused;
	uint32_t packet; /* its RTS, in the ring */
	uint64_t tag;
	uint32_t rkeys;	      /* 1 + the descriptor of ours that a claim uses; 0: none */
	struct bl_work *work; /* hears of the end, instead of the counter; NULL */
	void *copy;	      /* of bytes that were injected; NULL: of none */
	/* streaming */
	struct bl_range range[BL_RANGES];
	uint32_t nrange;
	struct bl_send_op *next_free;
	TAILQ_ENTRY(bl_send_op) opened;
};

/* What the completion of a large message will say, and where. */
struct bl_recv_end {
	/* its completion */
	void *context, *buf;
	uint64_t tag, data, flags;
	bool quiet;
	struct bl_post *multi; /* the multi-receive that it goes to; NULL: another */
	struct bl_work *work;  /* hears of the end, instead of the counter; NULL */
};

struct bl_recv_op {
	struct bl_peer *peer;
	uint64_t request;
	struct iovec mine[BL_IOV_MAX], theirs[BL_IOV_MAX];
	uint32_t nmine, ntheirs;
	uint32_t generation;
	size_t want, sent;	  /* bytes to copy, bytes of the message */
	struct bl_chunks *chunks; /* NULL: alone */
	uint32_t chunks_index, chunks_generation;
	size_t chunk;
	uint32_t count, next;	   /* chunks: all, first not taken (alone) */
	uint32_t taken, done;	   /* by us: chunks taken, copied */
	uint32_t handed;	   /* after an error: chunks that were handed out */
	bool handed_out;	   /* no chunk is left to take */
	bool cts_all;		   /* to a sender that waits; we begin with another first */
	bool stopped;		   /* by us, before all were taken */
	bool got_back;		   /* the sender gave one back, and we have dealt with it */
	bool streamed;		   /* some of it came through the ring */
	bool faulted;		   /* a copy ended in -EFAULT: each touches its own memory */
	uint64_t missing, arrived; /* bytes asked for by STREAM, and come */
	uint32_t unstreamed;	   /* chunks among `missing` */
	int error;
	uint64_t verdict; /* BL_FIN_VERDICT */
	struct bl_recv_end end;
	struct bl_recv_op *next_free;
	struct bl_rkeys ours, theirs_rkeys; /* last: only their counts are set at the start */
};

/* What a receive and a large message need to begin: used by deliver.c. */
struct bl_arrival {
	struct bl_peer *peer;
	uint64_t request, tag, data;
	size_t len;
	const struct iovec *piece;
	uint32_t npiece;
	uint8_t slot_flags;
	const struct bl_rkey *key;	/* BL_SLOT_RKEYS: of the pieces */
	bool early;			/* its receive was posted later */
	const struct bl_slot *streamed; /* of one that may still be being written; else NULL */
};

/* From and to the pools. */
struct bl_send_op *bl_send_op_new(struct bl_ep *ep); /* NULL: no memory */

void bl_send_op_free(struct bl_ep *ep, struct bl_send_op *r);

/* Its RTS has been taken, or nobody is to try any more. */
void bl_send_op_closed(struct bl_ep *ep, struct bl_send_op *r);

/* Its buffers are their owner's again: send a copy. False: no memory, and it is free again. */
bl_cold bool bl_send_op_keep(struct bl_ep *ep, struct bl_send_op *r);

/* The request that a peer named, or NULL: nonsense, or over already. */
struct bl_send_op *bl_send_op_find(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number);

/* There is memory for one more transfer. */
bool bl_recv_op_ready(struct bl_ep *ep);

struct bl_recv_op *bl_recv_op_new(struct bl_ep *ep); /* after bl_recv_op_ready() */
void bl_recv_op_free(struct bl_ep *ep, struct bl_recv_op *t);

/* The message is over: complete its send. */
void bl_send_op_end(struct bl_ep *ep, struct bl_sink *sink, struct bl_send_op *r, int err);

/* The kernel didn't let us write to the receiver (-EOPNOTSUPP), or couldn't (-EFAULT): a fallback,
 * once for each message. */
bl_cold void bl_push_refused(struct bl_send_op *r, int err);

/* A large message to or from the peer that was in our memory there is over; see huge.h. */
void bl_buffers_used(struct bl_ep *ep, const struct bl_peer *peer, const struct iovec *iov,
		     size_t niov, size_t len);

/* What lies there is an RTS. */
static inline bool bl_slot_announces(const struct bl_slot *slot)
{
	uint32_t op = bl_slot_op(slot);

	return op == BL_OP_TAGGED_RTS || op == BL_OP_MSG_RTS;
}

/* The number that names it to its receiver. */
static inline uint64_t bl_send_op_number(const struct bl_send_op *r)
{
	return (uint64_t)r->generation << 32 | r->index;
}

/* The transfer of this number from the peer, or NULL. */
struct bl_recv_op *bl_recv_op_find(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number);

/* The request has something to do in each pass. */
void bl_rndv_serve(struct bl_ep *ep, struct bl_send_op *r);

/* No longer. */
void bl_rndv_unserve(struct bl_ep *ep, struct bl_send_op *r);

static inline uint64_t bl_recv_op_number(const struct bl_recv_op *t)
{
	return (uint64_t)t->generation << 32;
}

/* What a packet says of its message, in the flags of completions. */
static inline uint64_t bl_slot_data(uint32_t slot_flags)
{
	return slot_flags & BL_SLOT_DATA ? BL_REMOTE_CQ_DATA : 0;
}

#endif
