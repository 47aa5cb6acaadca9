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
#include "core/ep.h"
#include "transport/local/adapt/habit.h"
#include "transport/local/adapt/policy.h"
#include "transport/local/lane/ack.h"
#include "transport/local/lane/ctrl.h"
#include "transport/local/lane/op.h"
#include "transport/local/lane/rkey.h"

/* Begin to copy a large message into the receive's buffers; completes at once
 * when it can. After bl_recv_op_ready(). */
void bl_recv_op_begin(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *arrival,
		      const struct bl_target *target);

/* Control packets. */
void bl_on_cts(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
	       const void *bytes, uint32_t len);
void bl_on_fin(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint64_t tag,
	       uint64_t data);

/* A pass over the receives under way. */
void bl_rndv_progress(struct bl_ep *ep, struct bl_sink *sink);
/* Of a send that its receiver shares: take a chunk and copy it. False: no more to do here. */
bool bl_rndv_help(struct bl_ep *ep, struct bl_send_op *r);
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

/* Announce a message to a peer whose ring has room for a packet. open: it may be claimed, which is
 * then tried (proxy.h). NULL: no memory. */
struct bl_send_op *bl_rndv_announce(struct bl_ep *ep, struct bl_peer *peer,
				    const struct bl_send *send, size_t len, bool open);

/* One of len bytes goes to a copy buffer once it is known that two talk, and, if it is long,
 * that its bytes are fresh (dirty.h). */
static inline bool bl_copybuf_takes(size_t len)
{
	return len <= bl_limits()->pingpong_max || len <= bl_limits()->dirty[false];
}

/* Before the last look before a sleep: messages whose FIN has found no slot. */
bl_cold void bl_ack_look_at_all(struct bl_ep *ep);

/* Messages of ours that the peer has received, and whose FIN has found no slot; ack.c */
bl_cold void bl_ack_take(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer);

static inline void bl_ack_look(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer)
{
	if (unlikely(!peer->dead && /* else it may have no ring any more */
		     atomic_load_explicit(&peer->tx.lane->fins.some, memory_order_relaxed)))
		bl_ack_take(ep, sink, peer);
}

#endif
