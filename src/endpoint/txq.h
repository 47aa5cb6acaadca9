/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * txq.h: the transmit queues: an operation that can't begin yet waits at its sender, in order.
 *
 *   no room in the peer's ring, no connection yet, ... ─┐
 *   fenced, and earlier ones to the peer aren't over ───┼─► queue of the peer
 *   whatever must not overtake these ───────────────────┘        │  progress: the first
 *                                                                ▼  may begin
 *                                                     bl_send, bl_inject, bl_rma
 *
 * A peer has one queue of messages and one of one-sided operations, which don't wait for each
 * other unless something fenced is among them.
 *
 * The short path knows nothing of it: while a peer has a queue, no place of bl_ep.dest names it,
 * so that what goes there takes the slow way, and meets the queue.
 *
 * What is queued is a description; buffers stay their owner's until the completion. Injected bytes
 * are copied, at most FI_BEELINE_INJECT_QUEUE of an endpoint; beyond that -EAGAIN. What can't begin
 * when its turn has come, since its peer has died, say, reports that as its end; a plain inject,
 * which has no completion, only counts as an error.
 * Serialised by the domain.
 */
#ifndef BL_ENDPOINT_TXQ_H
#define BL_ENDPOINT_TXQ_H

#include "endpoint/rma.h"

/* Why the first of a queue can't begin. */
enum bl_txq_why {
	BL_TXQ_SOON,   /* nobody tells when it may: a lock that another holds, no memory */
	BL_TXQ_CREDIT, /* whoever makes room in the peer's ring rings, if asked to */
	BL_TXQ_NEWS,   /* a connection, or a lock's memory: the service thread wakes us */
	BL_TXQ_FENCE,  /* an earlier operation's end */
};

struct bl_txq_chunk;

/* First in, first out: records of different sizes in chunks of memory. */
struct bl_txq_list {
	struct bl_txq_chunk *first, *last;
	uint64_t n; /* without those that were cancelled */
	enum bl_txq_why why;
};

/* What waits for one peer. It lives as long as its peer does. */
struct bl_txq {
	struct bl_peer *peer;
	struct bl_txq_list send, rma;
	uint64_t nfence; /* of both */
	uint64_t next;	 /* number: the order of all that is queued */
	struct bl_txq *next_active;
	bool active; /* in bl_txq_state.active, and counted in bl_ep.work */
};

static inline bool bl_txq_is_empty(const struct bl_txq *q)
{
	return !q || !(q->send.n | q->rma.n);
}

/* Must a message, or a one-sided operation, to this peer wait behind others? */
static inline bool bl_txq_holds_send(const struct bl_ep *ep, const struct bl_peer *peer)
{
	return peer->txq && (peer->txq->send.n | peer->txq->nfence) && ep->txq.opening != peer;
}

static inline bool bl_txq_holds_rma(const struct bl_ep *ep, const struct bl_peer *peer)
{
	return peer->txq && (peer->txq->rma.n | peer->txq->nfence) && ep->txq.opening != peer;
}

/* It can't begin now: BL_QUEUE, or -EAGAIN if it is the first of its peer's queue already. */
bl_cold int bl_txq_not_now(struct bl_ep *ep, struct bl_peer *peer, enum bl_txq_why why);

/* It could not be begun, for this reason: if that is BL_QUEUE, queue it; else say so.
 * bl_txq_inject() and bl_txq_buf() (endpoint.h) queue it. */
bl_cold int bl_txq_send(struct bl_ep *ep, const struct bl_send *send, int err);
bl_cold int bl_txq_rma(struct bl_ep *ep, const struct bl_rma *rma, int err);
/* Begin what may begin: of one peer, true: nothing is left; of all, true: something has begun. */
bool bl_txq_open(struct bl_ep *ep, struct bl_peer *peer);
bl_cold bool bl_txq_progress(struct bl_ep *ep);
/* Something in the queues moves only if we try again: nobody tells when. */
bool bl_txq_needs_hand(const struct bl_ep *ep);
/* Something waits for room in this peer's ring. */
bool bl_txq_wants_credit(const struct bl_peer *peer);
/* Something may begin by itself in time, or, kept: is known to its user as sent. */
bool bl_txq_owes(const struct bl_ep *ep, bool kept);
/* One that hasn't begun ends with ECANCELED; false: there is none with this context. */
bool bl_txq_cancel(struct bl_ep *ep, const void *context);
/* The endpoint closes: what still waits is gone without a word, as what it waits for is. */
void bl_txq_drop(struct bl_ep *ep);

#endif
