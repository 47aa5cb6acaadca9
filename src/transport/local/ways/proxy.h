/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * proxy.h: PROXY: the receiver of an RTS has published its receive and gone away; the sender claims
 * that receive and copies alone, inside its send call. advert.h has the words that decide.
 *
 *   receiver                                 sender
 *   publishes an advert                      RTS in the ring, then a look at the adverts
 *   a look at the rings, on its way out      a moment for the receiver to take the RTS
 *   (computes)                               SENDER, CLAIMED, copies, DONE; completes
 *   reads the RTS: claimed, by which advert
 *   DONE: completes;  CLAIMED: helps;  LEFT, YOURS: finishes by itself
 *
 * What must hold for a claim:
 *  - One claimer: a receive is published to one neighbour, in memory that only the two share. One
 *    from anybody, or of a shared context, goes to the likeliest sender (predict.h).
 *  - Post order: it is published only if every earlier one that could take the same message of
 *    that neighbour's is published to it, too.
 *  - Message order: no earlier message of this sender that the receive would take is unread.
 *  - Nobody misses the other: each publishes, fences, and looks.
 *  - A claim without its RTS in the ring is a lie: the receive is as if nobody had claimed it.
 *  - A neighbour dies: what it had claimed ends with an error, all else stays posted.
 *
 * Serialised by the domain; what is shared is in advert.h.
 */
#ifndef BL_TRANSPORT_LOCAL_WAYS_PROXY_H
#define BL_TRANSPORT_LOCAL_WAYS_PROXY_H

#include "base/knobs.h"
#include "transport/local/ways/rndv.h"
#include "transport/local/ways/advert.h"

/* --- receiver ------------------------------------------------------------ */

/* A large receive from src, or NULL, is about to be posted: first of all, since others may
 * enter while this waits until it can be shown. 0, or why its sender can't ever be reached. */
bl_cold int bl_proxy_connect(struct bl_ep *ep, struct bl_peer *src);
/* One that is to be shown was appended to its queue: show it to a sender if that is
 * possible, take what has come for it meanwhile, and copy it. */
void bl_proxy_posted(struct bl_ep *ep, struct bl_post *post, bool tagged);
/* Receives that could not be shown when they were posted: perhaps now. */
bl_cold void bl_proxy_again(struct bl_ep *ep);
/* The link to the first receive that a message takes, or to NULL, as
 * bl_match_find() finds it, without those that a sender has claimed; what it
 * returns is no longer shown. */
struct bl_post **bl_proxy_match(struct bl_ep *ep, struct bl_post_queue *queue,
				const struct bl_peer *peer, uint64_t tag);
/* The owner takes a receive from its sender: to cancel it, or for a message. False: too late. */
bool bl_proxy_revoke(struct bl_ep *ep, struct bl_post *post);

/* A large message of the peer's has met a receive from anybody, to whom the next one like
 * it may be shown. */
bl_noinline void bl_proxy_learn(struct bl_ep *ep, const struct bl_post *post, bool tagged,
				struct bl_peer *peer);
/* The same for any message of len bytes and any receive. Inline: most are too short. */
static inline void bl_proxy_came(struct bl_ep *ep, const struct bl_post *post, bool tagged,
				 struct bl_peer *peer, size_t len)
{
	if (len > ep->home->limit.publish_above && (!post->src || ep->home != ep))
		bl_proxy_learn(ep, post, tagged, peer);
}

/* What to do with an RTS packet. */
enum bl_proxy_rts {
	BL_PROXY_RTS_OURS,     /* match it */
	BL_PROXY_RTS_WAIT,     /* its sender is about to decide, or there is no memory */
	BL_PROXY_RTS_DONE,     /* it has been dealt with */
	BL_PROXY_RTS_NONSENSE, /* no neighbour of good will writes such a thing */
};
enum bl_proxy_rts bl_proxy_on_rts(struct bl_ep *ep, struct bl_sink *sink,
				  const struct bl_slot *slot, const struct bl_arrival *a,
				  bool tagged);
/*
 * What a process does after it has posted a large receive or send shows what it will
 * do next time. One that comes back at once, to wait, makes all progress then, and
 * the call that posts need not; one that computes meanwhile wants the message copied
 * before the call returns. One long absence is believed at once, and until
 * BL_LEAVES_MOST short ones have followed.
 */
#define BL_COPY_BY_MODULE 3u /* FI_BEELINE_COPY */
#define BL_OVERLAP_ALWAYS 1u /* FI_BEELINE_OVERLAP */
#define BL_OVERLAP_NEVER  2u
#define BL_LEAVES_MOST	  4u
#define BL_AWAY_US	  10u /* a longer absence is a computation */

/*
 * A receive below BL_PROXY_MIN, down to what always goes whole, is over in less time than it takes
 * to be shown for nothing, so it is shown only where senders have waited: for each message that had
 * been announced when its receiver came back so many more are, or fewer if nobody claims any, and
 * so many again for each that is claimed. Two who are both in the library and both about to leave
 * may each leave such a message to the other, and it waits for the first that is back.
 */
#define BL_PUBLISHES_MOST 16u
#define BL_VAIN_MOST	  (4 * BL_PUBLISHES_MOST)

static inline void bl_habit_missed(struct bl_ep *home)
{
	if (bl_knobs()->overlap == BL_OVERLAP_NEVER)
		return;
	home->ways.habit.publishes =
		(uint8_t)(BL_PUBLISHES_MOST >> home->ways.habit.unclaimed / BL_PUBLISHES_MOST);
	home->limit.publish_above = home->limit.eager_max;
}

/* One has been claimed. */
static inline void bl_habit_hit(struct bl_ep *home)
{
	home->ways.habit.unclaimed = 0;
	bl_habit_missed(home);
}

/* One has been posted, and shown if it could be. */
static inline void bl_habit_posted_short(struct bl_ep *home)
{
	home->ways.habit.unclaimed += home->ways.habit.unclaimed < BL_VAIN_MOST;
	if (bl_knobs()->overlap != BL_OVERLAP_ALWAYS && home->ways.habit.publishes &&
	    !--home->ways.habit.publishes)
		home->limit.publish_above = BL_PROXY_MIN - 1;
}

bl_noinline void bl_proxy_took_short(struct bl_ep *ep);
/* A message of len bytes is being taken, whose sender waits for that: has it waited for us to be
 * back? */
static inline void bl_proxy_took(struct bl_ep *ep, const struct bl_peer *peer, size_t len)
{
	if (len > ep->limit.eager_max && len < BL_PROXY_MIN && peer->copy.pull != BL_COPY_SELF)
		bl_proxy_took_short(ep);
}

/* For neighbours to know. */
static inline void bl_habit_stays(struct bl_ep *ep)
{
	enum bl_stays stays = ep->ways.habit.leaves ? BL_STAYS_NOT : BL_STAYS_POSTED;

	if (likely(ep->local.seg.header != NULL))
		atomic_store_explicit(&ep->local.seg.header->stays, stays, memory_order_relaxed);
}

/* Not because it has come back once: it may have looked for something else, and gone. */
static inline void bl_habit_waits(struct bl_ep *ep)
{
	if (likely(ep->local.seg.header != NULL) &&
	    !(ep->ways.habit.leaves || ep->ways.habit.left_at))
		atomic_store_explicit(&ep->local.seg.header->stays, BL_STAYS_WAITS,
				      memory_order_relaxed);
}

static inline void bl_habit_leave(struct bl_ep *ep)
{
	if (unlikely(bl_knobs()->overlap == BL_OVERLAP_NEVER))
		return;
	ep->ways.habit.left_at = bl_ticks();
	bl_habit_stays(ep);
}

/* An idle moment at `now`. */
static inline void bl_habit_back(struct bl_ep *ep, uint64_t now)
{
	if (likely(!ep->ways.habit.left_at))
		return;
	/* `now` may be a little old, and what has been copied since is no absence */
	if ((int64_t)(now - ep->ways.habit.left_at) > (int64_t)(BL_AWAY_US * bl_ticks_per_us()))
		ep->ways.habit.leaves = BL_LEAVES_MOST;
	else if (ep->ways.habit.leaves && bl_knobs()->overlap != BL_OVERLAP_ALWAYS)
		ep->ways.habit.leaves--;
	ep->ways.habit.left_at = 0;
	bl_habit_stays(ep);
}

/* The same where the time isn't known; not from within a call that posts. */
static inline void bl_habit_back_now(struct bl_ep *ep)
{
	if (unlikely(ep->ways.habit.left_at && !ep->ways.proxy.posting))
		bl_habit_back(ep, bl_ticks());
}

/* A pass over the claimed messages whose copies are under way. */
void bl_proxy_progress(struct bl_ep *ep, struct bl_sink *sink);

/* Receives may have somebody else to be shown to now. */
void bl_proxy_neighbours(struct bl_ep *home);
/* A peer has connected. */
void bl_proxy_meet(struct bl_ep *ep, struct bl_peer *peer);
/* The peer has gone (err: how, negative): what it had claimed and finished before is over. A sender
 * that has copied all may close at once, before we look. */
bl_cold void bl_proxy_last(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err);
/* The peer is gone: what it had claimed and not finished ends with err. */
bl_cold void bl_proxy_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
			      int err);
/* Before the endpoint closes: nobody writes into a receive's buffer on return. */
void bl_proxy_close(struct bl_ep *ep);

/* --- sender -------------------------------------------------------------- */

/* The RTS of this request, which can be claimed, is in its peer's ring: claim a receive for it if
 * it is large and our user may leave, or short and its receiver is away. It may be over on return.
 */
void bl_proxy_announced(struct bl_ep *ep, struct bl_send_op *r);
/* The same of an open one: if the receiver doesn't take it, claim a receive for it and copy. */
void bl_proxy_try(struct bl_ep *ep, struct bl_send_op *r);
/* An idle moment at `now`: the same for all open requests, if it is time. */
bl_cold void bl_proxy_later(struct bl_ep *ep, uint64_t now);
/* An open one is cancelled, unless its receiver has read its RTS. */
bl_cold bool bl_proxy_withdraw(const struct bl_send_op *r);

/* What is announced to this peer can be claimed. */
static inline bool bl_proxy_may(const struct bl_peer *peer)
{
	return peer->copy.push == BL_COPY_VM && peer->doorbell_index != BL_DOORBELL_NONE &&
	       bl_knobs()->overlap != BL_OVERLAP_NEVER && !peer->copy.needs_rkeys &&
	       bl_knobs()->copy != BL_COPY_BY_MODULE;
}

/* A short message that is about to be sent has a receive that it could claim. */
bl_noinline bool bl_proxy_finds(struct bl_peer *peer, bool tagged, uint64_t tag);
static inline bool bl_proxy_is_for(const struct bl_ep *ep, struct bl_peer *peer, size_t len,
				   bool tagged, uint64_t tag)
{
	return len > ep->limit.eager_max && len < BL_PROXY_MIN &&
	       unlikely(bl_adverts_any(&peer->rx.lane->board)) && bl_proxy_may(peer) &&
	       bl_proxy_finds(peer, tagged, tagged ? tag : 0);
}

/* Its receiver is away, as far as can be seen: it isn't if it only has no core. */
bool bl_proxy_is_away(const struct bl_ep *ep, const struct bl_peer *peer);

/* A message of len bytes is about to be announced, and our user is used to leave. The line of its
 * packet lies in the receiver's cache, and so do those that bl_proxy_try() reads one by one, mostly
 * of the first advert: ask for them all at once. (Of two who stay each would take the first line
 * from the other, who polls it.) */
static inline void bl_proxy_ask(const struct bl_ep *ep, const struct bl_peer *peer, size_t len)
{
	if (likely(!ep->ways.habit.leaves) || len < BL_PROXY_MIN || !bl_proxy_may(peer))
		return;
	bl_prefetch_write(bl_tx_slot(&peer->tx));
	bl_prefetch_read(&peer->mapped.header->here);
	if (!bl_tx_probes()) /* that would read it in no time */
		bl_prefetch_read(&peer->tx.lane->consumed);
	bl_prefetch_read(&peer->rx.lane->board.posted);
	bl_prefetch_read(peer->rx.lane->board.advert);
}

/* In an idle moment at `now`. */
static inline void bl_proxy_upkeep(struct bl_ep *ep, uint64_t now)
{
	bl_presence_seen(ep, now);
	bl_habit_back(ep, now);
	if (unlikely(ep->ways.pending.nopen))
		bl_proxy_later(ep, now);
	if (unlikely(ep->ways.proxy.unpublished))
		bl_proxy_again(ep);
}

#endif
