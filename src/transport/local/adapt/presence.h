/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * presence.h: which neighbours are in the library, wait there, copy, or compute; and what we say of
 * ourselves. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_PRESENCE_H
#define BL_TRANSPORT_LOCAL_ADAPT_PRESENCE_H

#include "core/ep.h"
#include "transport/local/adapt/policy.h"

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

/* It has shown itself in the library in the last microseconds: full rings empty soon. */
bool bl_gives_room(const struct bl_peer *peer);

/* We copy so many bytes by ourselves, into or out of the ring: in the library, though neighbours
 * hear nothing, and no absence. */
bl_noinline uint64_t bl_long_copy_begins(struct bl_ep *ep, size_t len);

bl_noinline void bl_long_copy_ends(struct bl_ep *ep, uint64_t began);
#define BL_LONG_COPY 32768u /* bytes: it may take what would be an absence */

static inline uint64_t bl_copy_begins(struct bl_ep *ep, size_t len)
{
	return likely(len < BL_LONG_COPY) ? 0 : bl_long_copy_begins(ep, len);
}

static inline void bl_copy_ends(struct bl_ep *ep, uint64_t began)
{
	if (unlikely(began))
		bl_long_copy_ends(ep, began);
}

/* It waits in the library now, or has left it for no longer than to use so many bytes, and isn't
 * used to leave it after large messages. */
bool bl_waits_here(const struct bl_peer *peer, size_t uses);

/* It hasn't said for 10 us that it is in the library, or reads messages of a few pages. */
bool bl_is_gone(const struct bl_peer *peer);

/* Who waits in the library loses its core now and then: that it hasn't been seen says nothing. */
bool bl_shares_core(const struct bl_ep *ep);

/* About to copy something that isn't long. */
void bl_copies_are_no_absence(struct bl_ep *ep);

/* The caller computes between two reads that bring nothing. */
bool bl_reads_are_rare(const struct bl_ep *ep, uint64_t now);

/* Its receiver is away, as far as can be seen: it isn't if it only has no core. */
bool bl_proxy_is_away(const struct bl_ep *ep, const struct bl_peer *peer);

#endif
