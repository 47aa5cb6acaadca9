/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dirty.h: messages of some pages whose bytes their sender has just written, as a program does that
 * computes between its calls. They lie dirty in its core's caches, and the kernel, copying them on
 * the other core, waits for each line. Two copies through the copy buffer, both at once, are
 * quicker then. So the receiver judges by the time that its copies take:
 *
 *   sender                                   receiver
 *   RTS ───────────────────────────────────► copies, and judges by the time it took
 *   three in a row: dirty                ◄── FIN (BL_FIN_JUDGED, BL_FIN_DIRTY)
 *   the next ones go to the copy buffer ───► (copybuf_rx.c)
 *   after BL_DIRTY_MOST of them: RTS ──────► judges again
 *
 * Where there is a copy buffer for it, and up to struct bl_limits.dirty. A hint: of a neighbour
 * that lies the messages go the slower way. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_DIRTY_H
#define BL_TRANSPORT_LOCAL_ADAPT_DIRTY_H

#include "base/clock.h"
#include "transport/local/adapt/policy.h"
#include "transport/local/lane/op.h"

/*
 * A single copy may have been interrupted, and the first one behind others that weren't copied once
 * comes from the sender's caches anyway: so it takes three in a row. Then so many messages until
 * some are copied once again, to see.
 */
#define BL_DIRTY_AFTER 3u
#define BL_DIRTY_MOST  250u
static_assert(BL_DIRTY_MOST <= UINT8_MAX, "bl_tx.dirty_left");
static_assert(BL_DIRTY_MAX <= BL_COPYBUF_MOST, "they have a place there");

/* Messages of len bytes may be: longer than any that goes through the ring in a ping-pong. */
static inline bool bl_dirty_may(size_t len)
{
	const struct bl_limits *l = bl_limits();

	return len <= l->dirty[false] && len > l->pingpong_max;
}

/*
 * Where what two processes use is far away, or near by on some machines
 * (used_near), the copy isn't all. The sender's program, writing its next message,
 * has each line taken from the receiver's cache, and the receiver's fetches what the sender wrote
 * into its memory: more time than all copies, and not ours. So a program counts as well that is
 * away for long enough to have used what it has got, before it posts or sends again what is as
 * large.
 */
#define BL_USED_NS_KB 10u /* near by; far away it takes ten times that (used_far_ns_kb) */

/* Time that it waits for something else counts as well: who has time for that has it for this. */
static inline void bl_dirty_got(struct bl_ep *ep, const struct bl_peer *peer, size_t len)
{
	const struct bl_limits *l = bl_limits();
	uint32_t per_kb = bl_tx_is_far(&peer->tx) ? l->used_far_ns_kb : BL_USED_NS_KB;

	if (likely(!l->stream_depth) || len < BL_PROXY_MIN || !bl_dirty_may(len))
		return;
	ep->ways.used.got_at = bl_ticks();
	ep->ways.used.use_ns = (uint32_t)(len * per_kb / 1024);
}

static inline void bl_dirty_back_at(struct bl_ep *ep, uint64_t now)
{
	uint64_t took = (now - ep->ways.used.got_at) * 1000 / bl_ticks_per_us();

	ep->ways.used.got_at = 0;
	if (took < ep->ways.used.use_ns)
		ep->ways.used.in_row = 0;
	else
		ep->ways.used.in_row += ep->ways.used.in_row < BL_DIRTY_AFTER;
}

static inline void bl_dirty_back(struct bl_ep *ep)
{
	if (unlikely(ep->ways.used.got_at != 0))
		bl_dirty_back_at(ep, bl_ticks());
}

static inline bool bl_dirty_is_used(const struct bl_ep *ep, const struct bl_peer *peer, size_t len)
{
	return ep->ways.used.in_row == BL_DIRTY_AFTER &&
	       (len <= bl_limits()->used_near || bl_tx_is_far(&peer->tx));
}

/* Receiver: its own copy of at least half of the message took from then to then (ticks). If the
 * sender copied the rest, that took as long. What takes longer than lines from another's cache do
 * is something else: pages that are new, here or there. */
static inline void bl_dirty_judge(const struct bl_ep *ep, struct bl_recv_op *t, size_t len,
				  uint64_t began, uint64_t ended)
{
	const struct bl_limits *l = bl_limits();
	uint64_t took, call = (uint64_t)l->dirty_ns * 1024;

	if (!bl_dirty_may(t->want) || len < t->want / 2 || t->peer->copy.pull != BL_COPY_VM ||
	    t->theirs_rkeys.n)
		return;
	t->verdict |= BL_FIN_JUDGED;
	took = (ended - began) * 1000 * 1024 / bl_ticks_per_us();
	if ((took > call + (uint64_t)l->dirty_per_kb * len ||
	     bl_dirty_is_used(ep, t->peer, t->want)) &&
	    took < call + (uint64_t)l->dirty_per_kb_most * len)
		t->verdict |= BL_FIN_DIRTY;
	else
		t->verdict &= ~BL_FIN_DIRTY;
}

/* FIN's data for a message of so many bytes that was announced: was it dirty? dirty.h */
void bl_dirty_told(struct bl_peer *peer, size_t len, uint64_t data);

#endif
