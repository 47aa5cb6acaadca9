/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * defer.c: messages that came whole and have no receive stay in the ring for a few reads: perhaps
 * their receive is about to be posted. Serialised by the domain.
 */
#include "transport/local/adapt/defer.h"

/* Grows with each read of the queue, modulo 256. */
static uint8_t read_of(const struct bl_cq *cq)
{
	return (uint8_t)(cq->full + cq->empties);
}

/* A single receive (is_single() in endpoint/read.c) that a message of this peer may match. */
static bool may_be_for(const struct bl_post *post, const struct bl_peer *name)
{
	return post && !(post->flags & BL_POST_MULTI) && (!post->src || post->src == name);
}

/* What is behind it may be what our caller waits for, by the oldest receives. (Who has one from
 * anybody posted all the time is always taken to.) */
static bool awaits_more(const struct bl_arrival *a)
{
	struct bl_ep *ep = bl_ep_of(a->peer);
	const struct bl_peer *name = bl_source_name(ep, a->peer);

	return may_be_for(ep->home->tagged.posted.head, name) ||
	       may_be_for(ep->home->msg.posted.head, name);
}

/*
 * Where processes share their cores each copy is time that another could have had. A sender that
 * had its turn may be several messages ahead (in a ring, a halo exchange), and their receives are
 * posted one after the other. So until our caller, whom something was brought, has been told that
 * there is no more, he may be about to post the next one, unless he waits for more of this sender;
 * and later, while nothing is behind it that he may wait for rather. For a few reads only, since
 * what else goes there may need the room. (On a core of our own it is better copied while we wait.)
 *
 * Not while nobody reads what is received: he looks for a message, say, or is about to sleep. Nor
 * what the other is still writing, or has written to our buffer, whose next message may go there at
 * once; nor, since the news of a death waits for it, what a dead one has left.
 */
static bool may_be_posted(const struct bl_sink *sink, const struct bl_arrival *a, bool brought,
			  bool last)
{
	const struct bl_cq *cq = sink->cq;

	if (cq != bl_ep_of(a->peer)->bound.rx_cq || a->streamed || a->slot_flags & BL_SLOT_CB_USE ||
	    !bl_oversub_shared(&cq->crowd, bl_ticks()) || bl_peer_life(a->peer))
		return false;
	if ((uint8_t)(read_of(cq) - a->peer->left_read) >= BL_LEFT_READS)
		return false;
	return last || ((brought || cq->empty_full != cq->full) && !awaits_more(a));
}

bool bl_defer(const struct bl_sink *sink, const struct bl_arrival *a)
{
	struct bl_rx *rx = &a->peer->rx;
	bool brought, last;

	if (a->len <= BL_SLOT_INLINE)
		return false;
	if (!bl_rx_was_left(rx))
		a->peer->left_read = read_of(sink->cq);
	brought = sink->n != sink->had;
	last = !bl_rx_at(rx, rx->next + 1);
	/* In any case the last one in its lane, before which came something that our caller waits
	 * for: he will post a receive then, perhaps. */
	if (!(brought && last) && !may_be_posted(sink, a, brought, last))
		return false;
	bl_rx_leave(rx);
	return true;
}
