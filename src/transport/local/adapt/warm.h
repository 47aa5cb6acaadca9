/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * warm.h: the lines that the next long packet is written to are asked for before it is: in an idle
 * moment, or while the payload of one that crosses it is copied out. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_WARM_H
#define BL_TRANSPORT_LOCAL_ADAPT_WARM_H

#include "core/ep.h"

/* Of two long messages that cross, each takes as long to be copied out as it takes to ask for what
 * the next one is written to. Of shorter ones that is asked for before the other's comes. */
#define BL_ASK_MIN 2048u /* bytes */

static inline bool bl_is_exchange(const struct bl_peer *peer)
{
	return peer->tx.last >= BL_ASK_MIN && !bl_tx_is_pingpong(&peer->tx);
}

/* The lines of the next payload there are to be asked for: in an idle moment, or, where messages
 * cross, while the other's is copied out. Two without such a moment in between: they don't. */
static inline void bl_warm_later(struct bl_ep *ep, struct bl_peer *peer)
{
	ep->exchange &= !ep->warm;
	ep->warm = peer;
}

/* Have the lines of the next long packet that we send on their way. Once for each
 * that was sent: in an idle moment, or when a long one has come in. */
void bl_warm_payload(struct bl_ep *ep); /* ep->warm: whose */

/* The same where stores would be before those of a message that is being read. */
void bl_warm_ask(struct bl_ep *ep);

#endif
