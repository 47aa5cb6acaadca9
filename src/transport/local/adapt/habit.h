/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * habit.h: whether the user of an endpoint computes while messages are under way. Serialised by the
 * domain.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_HABIT_H
#define BL_TRANSPORT_LOCAL_ADAPT_HABIT_H

#include "base/knobs.h"
#include "transport/local/adapt/presence.h"

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

#define BL_VAIN_MOST (4 * BL_PUBLISHES_MOST)

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

#endif
