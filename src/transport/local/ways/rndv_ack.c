/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rndv_ack.c: the sender hears that its message is over; see lane/ack.c. Serialised by the domain.
 */
#include "transport/local/adapt/dirty.h"
#include "transport/local/lane/ack.h"
#include "transport/local/ways/rndv.h"

/* The receiver has said so. */
static void over(struct bl_ep *ep, struct bl_sink *sink, struct bl_send_op *r, int err)
{
	if (!err && !r->whole && bl_was_away(ep))
		bl_stat_add(ep, BL_STAT_overlap_sent_bytes, r->len);
	bl_send_op_end(ep, sink, r, err);
}

bl_cold void bl_ack_take(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer)
{
	struct bl_acks *fins = &peer->tx.lane->fins;
	uint64_t some = atomic_exchange_explicit(&fins->some, 0, memory_order_acquire);

	for (uint32_t w = 0; w < BL_ACK_WORDS; w++) {
		uint64_t word = some >> w & 1 ? atomic_exchange_explicit(&fins->word[w], 0,
									 memory_order_acquire)
					      : 0;

		for (; word; word &= word - 1) {
			uint32_t index = 64 * w + (uint32_t)__builtin_ctzll(word);
			struct bl_send_op *r =
				index < ep->rndv.nrequest ? ep->rndv.request[index] : NULL;

			if (r && r->peer == peer)
				over(ep, sink, r, 0);
		}
	}
}

void bl_dirty_told(struct bl_peer *peer, size_t len, uint64_t data)
{
	if (likely(!(data & BL_FIN_JUDGED)) || !bl_dirty_may(len))
		return;
	if (!(data & BL_FIN_DIRTY)) {
		peer->tx.dirty = 0;
		return;
	}
	peer->tx.dirty += peer->tx.dirty < BL_DIRTY_AFTER;
	peer->tx.dirty_left = BL_DIRTY_MOST;
}

void bl_on_fin(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint64_t tag,
	       uint64_t data)
{
	struct bl_send_op *r;

	bl_window(BL_WINDOW_TOLD, NULL);
	bl_habit_back_now(ep);
	bl_ack_look(ep, sink, peer); /* first: of the same request, too */
	r = bl_send_op_find(ep, peer, tag);
	if (!r)
		return;
	bl_dirty_told(peer, r->len, data);
	data &= ~BL_FIN_VERDICT;
	over(ep, sink, r, data < 4096 ? (int)data : EIO);
}

bl_cold void bl_ack_look_at_all(struct bl_ep *ep)
{
	struct bl_sink none = BL_SINK_NONE;

	for (uint32_t i = 0; i < ep->local.nby_index && ep->rndv.requests; i++)
		if (ep->local.by_index[i])
			bl_ack_look(ep, &none, ep->local.by_index[i]);
}
