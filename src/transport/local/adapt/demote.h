/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * demote.h: a packet that has been published is passed on to the caches that its receiver reads
 * from (CLDEMOTE), unless that would hold up a locked instruction behind it; see demote_state.h.
 * Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_DEMOTE_H
#define BL_TRANSPORT_LOCAL_ADAPT_DEMOTE_H

#include "core/ep.h"

/* That packet; passes it on, or not. */
bl_noinline void bl_demote_sample(struct bl_ep *ep, const struct bl_tx *tx,
				  const struct bl_slot *slot, size_t len, bool stream);

/* The next one is about to be sent: ep->sampled. */
bl_noinline void bl_demote_next(struct bl_ep *ep);

/* A packet is passed on: where nobody has to wait for that but who waits for an answer. */
bl_always_inline bool bl_demotes(const struct bl_ep *ep, const struct bl_tx *tx)
{
	return likely(!ep->demoting.locks) || bl_tx_is_pingpong(tx);
}

/* A message's packet has been published. */
bl_always_inline void bl_demote_packet(struct bl_ep *ep, const struct bl_tx *tx,
				       const struct bl_slot *slot, size_t len, bool stream)
{
	if (unlikely(bl_demote_due(tx)))
		bl_demote_sample(ep, tx, slot, len, stream);
	else if (bl_demotes(ep, tx))
		bl_tx_slot_demote(slot, len, stream);
}

#endif
