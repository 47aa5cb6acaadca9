/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ctrl.c: see ctrl.h. Serialised by the domain.
 */
#include "transport/local/lane/ctrl.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/local/lane/count.h"

void bl_put_packet(struct bl_peer *peer, uint32_t op, uint32_t flags, uint64_t tag, uint64_t data,
		   const void *bytes, size_t len)
{
	struct bl_slot *slot = bl_tx_slot(&peer->tx);

	if (len)
		bl_slot_fill(slot, bytes, len);
	slot->head = BL_HEAD(len, op, flags | BL_SLOT_HEARD(peer->rx.next));
	slot->tag = tag;
	slot->data = data;
	bl_tx_publish(&peer->tx, slot, (uint32_t)len);
	bl_tx_slot_demote(slot, len, false);
	bl_stats_packet_out(peer, (uint32_t)len);
	bl_peer_notify(peer);
}

void bl_control_paid(struct bl_ep *ep)
{
	ep->work--;
	ep->credit.nowing--;
}

void bl_control_flush_peer(struct bl_ep *ep, struct bl_peer *peer)
{
	uint32_t n = 0;

	while (n < peer->control.n && (bl_tx_room(&peer->tx) || bl_tx_refresh(&peer->tx))) {
		struct bl_control *c = &peer->control.packet[n++];

		bl_put_packet(peer, c->op, 0, c->tag, c->data, c->bytes, c->len);
	}
	if (!n)
		return;
	peer->control.n -= n;
	memmove(peer->control.packet, peer->control.packet + n,
		peer->control.n * sizeof *peer->control.packet);
	if (!peer->control.n)
		bl_control_paid(ep);
}

void bl_control(struct bl_ep *ep, struct bl_peer *peer, uint8_t op, uint64_t tag, uint64_t data,
		const void *bytes, size_t len)
{
	struct bl_control *c;

	if (unlikely(peer->dead))
		return;
	if (unlikely(peer->control.n))
		bl_control_flush_peer(ep, peer);
	if (likely(!peer->control.n && (bl_tx_room(&peer->tx) || bl_tx_refresh(&peer->tx)))) {
		bl_put_packet(peer, op, 0, tag, data, bytes, len);
		return;
	}
	if (peer->control.n == peer->control.room) {
		uint32_t room = peer->control.room ? 2 * peer->control.room : 16;
		struct bl_control *more = realloc(peer->control.packet, room * sizeof *more);

		if (!more) {
			bl_warn("no memory for a control packet: process %u is given up",
				peer->addr.pid);
			peer->broken = true; /* bl_ep_look() ends it */
			return;
		}
		peer->control.packet = more;
		peer->control.room = room;
	}
	if (!peer->control.n) {
		ep->work++;
		ep->credit.nowing++;
	}
	c = &peer->control.packet[peer->control.n++];
	c->op = op;
	c->tag = tag;
	c->data = data;
	c->len = (uint16_t)len;
	if (len)
		memcpy(c->bytes, bytes, len);
}

void bl_control_flush(struct bl_ep *ep)
{
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		struct bl_peer *peer = ep->local.by_index[i];

		if (peer && peer->control.n)
			bl_control_flush_peer(ep, peer);
	}
}
