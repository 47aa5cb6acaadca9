/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * warm.c: see warm.h. Serialised by the domain.
 */
#include "transport/local/adapt/warm.h"

void bl_warm_ask(struct bl_ep *ep)
{
	uint32_t len;
	const uint8_t *next = bl_tx_payload_next(
		&ep->warm->tx, ep->warm_long ? BL_PREFETCH_LONG : BL_PREFETCH_MOST, &len);

	for (uint32_t off = 0; off < len; off += BL_LINE)
		bl_prefetch_write(next + off);
	ep->warm = NULL;
	ep->warm_long = false;
}

/* ring.h, "Lines of our own": near by, where this is the quicker way. */
static void own_payload(struct bl_ep *ep)
{
	uint32_t len;
	uint8_t *next = bl_tx_payload_next(&ep->warm->tx, BL_PREFETCH_MOST, &len);

	for (uint32_t off = 0; off < len; off += BL_LINE)
		*(volatile uint8_t *)(next + off) = 0;
	ep->warm = NULL;
}

void bl_warm_payload(struct bl_ep *ep)
{
	const struct bl_tx *tx = &ep->warm->tx;

	/* Without room for a packet: the peer may have gone, and the lane with it. */
	if (unlikely(!bl_tx_room(tx)))
		ep->warm = NULL;
	else if (bl_tx_stores() && !bl_tx_is_far(tx) && bl_tx_payload_vacant(tx))
		own_payload(ep);
	else
		bl_warm_ask(ep);
}
