/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * again.h: an operation that can't begin now is refused (-EAGAIN), and its user tries again. What
 * is noted then is what has him hear of it, if he would rather sleep: wait.c. Serialised by the
 * domain.
 */
#ifndef BL_CORE_AGAIN_H
#define BL_CORE_AGAIN_H

#include "core/core.h"

/* False: nobody waits for its beginning. */
static inline bool bl_note_refused(struct bl_ep *ep)
{
	if (ep->opening || ep->domain->working)
		return false;
	bl_refusal_note(&ep->refusals);
	return true;
}

/*
 * Not now, for another reason than room. Whoever would wait for it at a descriptor is told once to
 * try again (wait.c): when what it goes with has come (bl_ep_unrefused), or, where nobody would
 * tell of that (no memory, a lock that another process holds), before he sleeps. What we begin
 * ourselves, for work that waits, has nobody who waits for its beginning.
 */
static inline int bl_again(struct bl_ep *ep)
{
	ep->retry |= bl_note_refused(ep);
	return -EAGAIN;
}

static inline int bl_refused(struct bl_ep *ep)
{
	ep->refused |= bl_note_refused(ep);
	return -EAGAIN;
}

static inline void bl_ep_unrefused(struct bl_ep *ep)
{
	ep->retry |= ep->refused;
	ep->refused = false;
}

/* No room there: whoever falls asleep before there is must know; wait.c. */
static inline int bl_starve(struct bl_ep *ep, struct bl_peer *peer, uint32_t len)
{
	bl_note_refused(ep);
	ep->nstarved += !peer->starved;
	peer->starved = (uint8_t)bl_min(1 + (len + 1023) / 1024, 255u);
	return -EAGAIN;
}

/* The same, but there is another way once the peer has been away for a while: look again soon. */
static inline int bl_starve_for_now(struct bl_ep *ep, struct bl_peer *peer, uint32_t len)
{
	ep->starved_for_now = true;
	return bl_starve(ep, peer, len);
}

#endif
