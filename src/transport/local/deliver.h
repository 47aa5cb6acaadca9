/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deliver.h: what has come from one neighbour goes to the receives that it matches, or to the ways
 * of long messages. The inline path is that of a short tagged message for a posted buffer.
 */
#ifndef BL_TRANSPORT_LOCAL_DELIVER_H
#define BL_TRANSPORT_LOCAL_DELIVER_H

#include "core/match.h"
#include "core/post.h"
#include "transport/local/adapt/warm.h"
#include "transport/local/lane/ack.h"
#include "transport/local/ways/rndv.h"

#define BL_SAY_BYTES 16384u /* of long packets: then who sends them hears that they are read */

/* A packet longer than a slot has been read. */
bl_noinline void bl_has_read(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			     uint32_t head);

/* Read one, a tagged message for the one buffer of the receive at this link, which leaves the
 * queue; its sender may want to hear of that. False: not all of it has been written, it stays in
 * the ring. */
bl_noinline bool bl_take_long(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			      uint32_t head, const uint8_t *bytes, struct bl_post **at);

/* One in a slot has been read whose sender wants to hear of that. */
bl_noinline void bl_took_acked(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			       uint32_t head);

/* Everything but a short tagged message for a posted buffer. False: it can't be
 * taken now (no memory); it stays in the ring. */
bl_noinline bool bl_deliver_other(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
				  const struct bl_slot *slot, uint32_t head, uint64_t tag,
				  uint64_t data);

/* Where the bytes of a neighbour's packet lie, or NULL: the description is wrong. */
bl_always_inline const uint8_t *bl_packet_bytes(const struct bl_peer *peer,
						const struct bl_slot *slot, uint32_t head)
{
	uint32_t len = BL_HEAD_LEN(head);

	if (likely(len <= BL_SLOT_INLINE))
		return slot->bytes;
	if (head & BL_HEAD(0, 0, BL_SLOT_CB_USE))
		return bl_copybuf_bytes(&peer->tx, len);
	return bl_rx_bytes(&peer->rx, slot, len);
}

bl_always_inline bool bl_deliver(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
				 const struct bl_slot *slot)
{
	/* Private copies: what is in shared memory may change under us. */
	uint32_t head = *(const volatile uint32_t *)&slot->head, len = BL_HEAD_LEN(head);
	uint64_t tag = *(const volatile uint64_t *)&slot->tag;
	uint64_t data = *(const volatile uint64_t *)&slot->data;

	/* One who reads them as they come would only take back what their sender has stored to (if
	 * it does so as we do). */
	if (sink->more || !bl_tx_stores())
		bl_prefetch_read(&peer->rx.slot[(peer->rx.next + BL_RX_PREFETCH) % BL_SLOTS]);
	if (likely(BL_HEAD_OP(head) <= BL_OP_MSG_RTS)) {
		if (!bl_rx_was_left(&peer->rx))
			bl_tx_hear(&peer->tx, head);
		bl_tx_slot_warm(&peer->tx);
	}
	if (len > BL_SLOT_FIRST && len <= BL_SLOT_INLINE)
		for (uint32_t off = BL_LINE; off < len + 24; off += BL_LINE)
			bl_prefetch_read((const char *)slot + off);

	if (likely(BL_HEAD_OP(head) == BL_OP_TAGGED)) {
		struct bl_post **at = bl_match_find(&ep->tagged.posted, peer, tag), *post = *at;
		const uint8_t *bytes = bl_packet_bytes(peer, slot, head);

		if (likely(post && bytes && len <= post->len && post->niov <= 1 && !post->flags)) {
			uint64_t flags =
				BL_TAGGED | BL_RECV |
				(BL_HEAD_FLAGS(head) & BL_SLOT_DATA ? BL_REMOTE_CQ_DATA : 0);

			if (likely(len <= BL_SLOT_INLINE)) {
				bl_post_unlink(&ep->tagged.posted, at);
				bl_move(post->buf, bytes, len);
				if (unlikely(head & BL_HEAD(0, 0, BL_SLOT_ACK)))
					bl_took_acked(ep, peer, slot, head);
			} else if (unlikely(!bl_take_long(ep, peer, slot, head, bytes, at))) {
				return false;
			}
			if (unlikely(ep->bound.rx_cntr != NULL))
				bl_cntr_up(ep->bound.rx_cntr);
			bl_complete(ep->bound.rx_cq, sink, post->context, flags, len, post->buf,
				    data, tag, peer->av_index);
			bl_post_free(ep, post);
			bl_rx_consume(&peer->rx, len);
			return true;
		}
	}
	if (!bl_deliver_other(ep, sink, peer, slot, head, tag, data))
		return false;
	if (unlikely(len > BL_SLOT_INLINE))
		bl_has_read(ep, peer, slot, head);
	bl_rx_consume(&peer->rx, len);
	return true;
}

/* Take what has arrived from one neighbour, at most a ring full: the others, and
 * all else that progress is, have their turn even while it floods us. */
bl_always_inline void bl_poll_peer(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer)
{
	const struct bl_slot *slot = bl_rx_peek(&peer->rx);
	uint32_t end = peer->rx.next + BL_SLOTS;

	if (likely(!slot))
		return;
	sink->had = sink->n;
	while (bl_deliver(ep, sink, peer, slot) && sink->n < sink->max && peer->rx.next != end &&
	       (sink->n == sink->had || sink->more) && (slot = bl_rx_peek(&peer->rx)))
		sink->followed |= sink->n != sink->had;
	if (unlikely(ep->rndv.requests))
		bl_ack_look(ep, sink, peer);
}

/* It goes into a receive that isn't in a queue. False: not now, no memory. */
bool bl_unexpected_give(struct bl_sink *sink, struct bl_unexpected *u, struct bl_post *post,
			bool tagged, bool *spent);

/* It isn't wanted: the same, and its sender may complete. */
void bl_unexpected_refuse(struct bl_ep *ep, struct bl_unexpected *u);

/* A pass over everything under way. */
void bl_ways_progress(struct bl_ep *ep, struct bl_sink *sink);

/* Cancel a send of this context that has left and that no receive has, as far as is known here: it
 * ends as said in withdraw.c. False: there is none. */
bl_cold bool bl_withdraw(struct bl_ep *ep, const void *context);

/* The peer has cancelled the send of this number. */
bl_cold void bl_on_withdraw(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number);

#endif
