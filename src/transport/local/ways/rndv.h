/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rndv.h: RNDV: messages that are copied once. The sender keeps a send op, the receiver, from the
 * match on, a recv op; each knows the other's by a number that it checks when it comes back.
 *
 *   sender                                receiver
 *   send op ── RTS (pieces, number) ────► unexpected queue, or match
 *                                         recv op: pulls alone, or
 *   copies  ◄─ CTS (pieces, chunks) ───── both take chunks from the chunk counter
 *   sends   ◄─ FRAG_ASK (range) ───────── what could not be pulled
 *           ── FRAG (number, at) ───────►
 *   done    ◄─ FIN (number, status) ───── done
 *
 * A message holds no shared resource before it is matched, so any number may be unmatched. After
 * FIN neither side touches the other's memory.
 *
 * An eager message has a send op, too, if its sender wants to hear of its delivery: send.c; FIN
 * ends it.
 */
#ifndef BL_TRANSPORT_LOCAL_WAYS_RNDV_H
#define BL_TRANSPORT_LOCAL_WAYS_RNDV_H

#include <sys/queue.h>

#include "base/log.h"
#include "endpoint/api.h"
#include "transport/local/adapt/policy.h"
#include "transport/local/adapt/policy.h"
#include "transport/local/ways/rkey.h"

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

/* What a receive and a large message need to begin: used by recv.c. */
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

/* What of a receive's memory a message may take, and what its completion says. */
struct bl_target {
	struct iovec one;
	const struct iovec *iov; /* NULL: `one` */
	size_t niov, len;
	void *context;
	uint64_t flags;
	bool quiet;
	struct bl_post *multi; /* a multi-receive, which counts this message as a user */
	struct bl_work *work;  /* hears of the end, instead of the counter; NULL */
};

static inline const struct iovec *bl_target_iov(const struct bl_target *t)
{
	return t->iov ? t->iov : &t->one;
}

/* From and to the pools; rndv_pool.c. */
struct bl_send_op *bl_send_op_new(struct bl_ep *ep); /* NULL: no memory */
void bl_send_op_free(struct bl_ep *ep, struct bl_send_op *r);
/* Its RTS has been taken, or nobody is to try any more; proxy_tx.c */
void bl_send_op_closed(struct bl_ep *ep, struct bl_send_op *r);
/* Its buffers are their owner's again: send a copy. False: no memory, and it is free again. */
bl_cold bool bl_send_op_keep(struct bl_ep *ep, struct bl_send_op *r);
/* The request that a peer named, or NULL: nonsense, or over already. */
struct bl_send_op *bl_send_op_find(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number);
/* There is memory for one more transfer. */
bool bl_recv_op_ready(struct bl_ep *ep);
struct bl_recv_op *bl_recv_op_new(struct bl_ep *ep); /* after bl_recv_op_ready() */
void bl_recv_op_free(struct bl_ep *ep, struct bl_recv_op *t);
/* Begin to copy a large message into the receive's buffers; completes at once
 * when it can. After bl_recv_op_ready(). */
void bl_recv_op_begin(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *arrival,
		      const struct bl_target *target);

/* Control packets. */
void bl_on_cts(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
	       const void *bytes, uint32_t len);
void bl_on_frag_ask(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
		    const void *bytes, uint32_t len);
void bl_on_frag(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
		const void *bytes, uint32_t len);
void bl_on_fin(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint64_t tag,
	       uint64_t data);

/* Cancel a send of this context that has left and that no receive has, as far as is known here: it
 * ends as said in withdraw.c. False: there is none. */
bl_cold bool bl_withdraw(struct bl_ep *ep, const void *context);
/* The peer has cancelled the send of this number. */
bl_cold void bl_on_withdraw(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number);

/* A pass over everything under way; over our sends alone. */
void bl_rndv_progress(struct bl_ep *ep, struct bl_sink *sink);
void bl_send_ops_progress(struct bl_ep *ep, struct bl_sink *sink);
/* The peer is gone: everything with it ends with err (a positive errno). */
void bl_rndv_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err);

/* The endpoint is about to close: nobody writes into its receive buffers when this
 * returns, unless a sender is stopped in the middle of that for a second. */
void bl_rndv_close(struct bl_ep *ep);
/* The endpoint closes: what is under way is forgotten, what was lent is taken back. */
void bl_rndv_drop_all(struct bl_ep *ep);

/* In a call that may be this process's last for long: see to it that all transfers
 * are under way to their end, copied by senders that wait, or now and here. */
void bl_rndv_finish(struct bl_ep *ep, struct bl_sink *sink);
/* The same, but for no longer than until then (ticks). False: some is left. */
bool bl_rndv_finish_by(struct bl_ep *ep, struct bl_sink *sink, uint64_t until);
/* What lies there is an RTS. */
static inline bool bl_slot_announces(const struct bl_slot *slot)
{
	uint32_t op = bl_slot_op(slot);

	return op == BL_OP_TAGGED_RTS || op == BL_OP_MSG_RTS;
}
/* The peer is in the library, or was a moment ago, and can do something for us. */
bool bl_peer_here(const struct bl_ep *ep, const struct bl_peer *peer);
/* And it isn't copying. */
bool bl_peer_idle(const struct bl_ep *ep, const struct bl_peer *peer);
/* The same, also of one who says so all the time. */
bool bl_peer_waits(const struct bl_ep *ep, const struct bl_peer *peer);
/* So are we. */
static inline void bl_presence_seen(struct bl_ep *ep, uint64_t now)
{
	if (likely(ep->local.seg.header != NULL))
		atomic_store_explicit(&ep->local.seg.header->here, now, memory_order_relaxed);
}
/* Our user has come back just now, after more than BL_AWAY_US. */
bool bl_was_away(const struct bl_ep *ep);
#define BL_BUSY_BYTES_US 2000u /* no copy is slower; it says so itself when it is over */

/* About to copy len bytes: in the library, though it won't look up for a while. */
static inline void bl_presence_busy(struct bl_ep *ep, size_t len)
{
	if (len >= BL_PROXY_MIN)
		bl_presence_seen(ep, bl_ticks() + len / BL_BUSY_BYTES_US * bl_ticks_per_us());
}

static inline void bl_presence_done(struct bl_ep *ep, size_t len)
{
	if (len >= BL_PROXY_MIN)
		bl_presence_seen(ep, bl_ticks());
}

/* In the library, or until then, with a message of a few pages. */
static inline void bl_presence_active(struct bl_ep *ep, uint64_t until)
{
	if (likely(ep->local.seg.header != NULL))
		atomic_store_explicit(&ep->local.seg.header->active, until, memory_order_relaxed);
}

#define BL_TAKES_US 2u /* so long it may take such a peer to see what is announced */

/* The kernel didn't let us write to the receiver (-EOPNOTSUPP), or couldn't (-EFAULT): a fallback,
 * once for each message. */
bl_cold void bl_push_refused(struct bl_send_op *r, int err);
/* FIN's data for a message of so many bytes that was announced: was it dirty? dirty.h */
void bl_dirty_told(struct bl_peer *peer, size_t len, uint64_t data);
/* The message is over: complete its send. */
void bl_send_op_end(struct bl_ep *ep, struct bl_sink *sink, struct bl_send_op *r, int err);
/* Start a large send; see bl_send(). */
int bl_send_op_begin(struct bl_ep *ep, const struct bl_send *send, size_t len);

/* Put a packet that fits a slot into the peer's ring, which has room. send.c */
void bl_put_packet(struct bl_peer *peer, uint32_t op, uint32_t flags, uint64_t tag, uint64_t data,
		   const void *bytes, size_t len);
/* Send a control packet, now or when there is room. send.c */
void bl_control(struct bl_ep *ep, struct bl_peer *peer, uint8_t op, uint64_t tag, uint64_t data,
		const void *bytes, size_t len);
void bl_control_flush(struct bl_ep *ep);
/* For this one there are none any more. */
void bl_control_paid(struct bl_ep *ep);
void bl_control_flush_peer(struct bl_ep *ep, struct bl_peer *peer);
/* Say that a message is over, now and without waiting for room, if that can be; ack.c. `status`:
 * FIN's data. */
void bl_ack(struct bl_ep *ep, struct bl_peer *peer, uint64_t request, uint64_t status);
/* The peer has received as many of our messages, and we haven't taken note of it yet. */
uint32_t bl_acks_in_sight(const struct bl_peer *peer);
/* Before the last look before a sleep: messages whose FIN has found no slot. */
bl_cold void bl_ack_look_at_all(struct bl_ep *ep);
/* A large message to or from the peer that was in our memory there is over; see huge.h. */
void bl_buffers_used(struct bl_ep *ep, const struct bl_peer *peer, const struct iovec *iov,
		     size_t niov, size_t len);
/* Rarely: lives of peers, lanes that have gone silent. endpoint.c */
bl_cold void bl_ep_look(struct bl_ep *ep, struct bl_sink *sink, uint64_t now);
/* Is a thread of a dead one perhaps still in the kernel, writing into our memory? */
bl_cold bool bl_peer_lingers(struct bl_peer *peer, uint64_t now);
/* The peer broke the protocol, or is gone: nothing of it is believed any more. */
bl_cold void bl_ep_peer_gone(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err);

/* Something under way moves only if we do it. endpoint.c */
bool bl_ep_needs_hand(const struct bl_ep *ep);
/* Before the last look before a sleep: whoever makes room for what waits for it, our caller's or
 * ours, rings. -EOPNOTSUPP: one can't. send.c */
int bl_ep_want_credit(struct bl_ep *ep);
/* After that look: of all, or of those that nothing waits for any more. */
void bl_ep_forgo_credit(struct bl_ep *ep, bool all);

/* The peer at an index of the address vector. -EINVAL: there is none. endpoint.c */
int bl_ep_resolve(struct bl_ep *ep, uint64_t index, struct bl_peer **peer);
/* What names this peer takes the slow way, until it is resolved again. endpoint.c */
void bl_ep_unname(struct bl_ep *ep, const struct bl_peer *peer);
/* Take in peers that have connected. endpoint.c */
void bl_ep_adopt(struct bl_ep *ep);
/* Connect to a peer that isn't adopted, waiting for it once. Like bl_peer_connect(). endpoint.c */
bl_cold int bl_ep_connect(struct bl_ep *ep, struct bl_peer *peer);

/* Memory for n objects of a pool that lives as long as the endpoint. endpoint.c */
/* What is not credited takes up whole lines, as do what is skipped and the packet. */
#define BL_UNCREDITED (BL_CREDIT_BYTES - 1 + (BL_CREDIT_EVERY - 1) * (BL_LINE - 1))
static_assert(BL_UNCREDITED + 2 * BL_EAGER_MOST - BL_LINE <= BL_PAYLOAD_SIZE &&
		      BL_EAGER_MOST % BL_LINE == 0 && BL_PACKET_MOST % BL_LINE == 0 &&
		      BL_UNCREDITED + BL_PAYLOAD_SIZE + 2 * BL_PACKET_MOST <=
			      BL_PAYLOAD_OF(BL_LANE_LONG) - BL_COPYBUF_SIZE,
	      "a drained ring has room for any packet, whatever is not credited or skipped");

/* send.c */
/* One of len bytes goes to a copy buffer once it is known that two talk, and, if it is long,
 * that its bytes are fresh (dirty.h). */
static inline bool bl_copybuf_takes(size_t len)
{
	return len <= bl_limits()->pingpong_max || len <= bl_limits()->dirty[false];
}
/* It keeps as much as it may of what has come before its receives: announce one of len bytes. */
bool bl_is_congested(struct bl_peer *peer, size_t len);
/* A message that may go as one packet: beyond the eager limit, or to be told of its delivery. The
 * ring has a slot for it. 0: it is there, and completed unless its receiver is to say so; -EAGAIN:
 * there will be room in a moment; -EMSGSIZE: it is to be announced, for its length, or since its
 * receiver doesn't read just now, and goes *way. */
int bl_put_eager_long(struct bl_ep *ep, struct bl_peer *peer, const struct bl_send *send,
		      size_t len, enum bl_way *way);

void *bl_slab(struct bl_ep *ep, size_t bytes);

/* An endpoint without a segment and an address, and its end; NULL: no memory. endpoint.c */
struct bl_ep *bl_ep_new(struct bl_domain *domain);
void bl_ep_free(struct bl_ep *ep);
void bl_ep_unbind_av(struct bl_ep *ep);

struct bl_iov8 {
	struct bl_iov8 *next;
	struct iovec iov[BL_IOV_MAX];
};
/* recv.c */
/* A message into a multi-receive's buffer is complete. True: it was the last, the
 * buffer is its owner's again (say so), and the receive is gone. */
bool bl_multi_done(struct bl_ep *ep, struct bl_post *post);
/* A sender has claimed this receive, which isn't shown any more, for the message:
 * its bytes are there, or (copy) are to be copied as usual; after bl_recv_op_ready(). */
void bl_recv_claimed(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *a,
		     struct bl_post *post, bool tagged, bool copy);
/* A receive ends with an error. */
bl_cold void bl_recv_fail(struct bl_ep *ep, struct bl_sink *sink, struct bl_post *post, bool tagged,
			  int err);
void bl_recv_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err);
void bl_recv_drop_all(struct bl_ep *ep);
/* What has come early to this member of a shared context is dropped. */
void bl_recv_drop_from(struct bl_ep *home, struct bl_ep *ep);

#endif
