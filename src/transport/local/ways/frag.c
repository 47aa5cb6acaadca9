/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * frag.c: FRAG: what of a message the kernel refuses to copy goes through the ring, in two copies;
 * see rndv.h. The receiver asks for a range (FRAG_ASK), which its sender writes directly if it may,
 * and sends as fragments if not. Serialised by the domain.
 */
#include "transport/local/ways/frag.h"

#include <string.h>

#include "base/window.h"
#include "core/stat.h"

#define PIECE	  8192u /* of a message, in a packet */
#define PUSH_STEP 262144u

/* --- sender --------------------------------------------------------------- */

/* A piece of the message as a packet of its own; false: there is no room. */
static bool put_fragment(struct bl_send_op *r, uint64_t number, size_t off, size_t len)
{
	struct bl_tx *tx = &r->peer->tx;
	uint32_t flags = 0;

	if (!bl_tx_room(tx) && !bl_tx_refresh(tx))
		return false;

	struct bl_slot *slot = bl_tx_slot(tx);
	uint8_t *to = len > BL_SLOT_INLINE ? bl_tx_payload(tx, (uint32_t)len) : slot->bytes;

	if (!to)
		return false;
	if (r->niov == 1)
		flags = bl_tx_store(tx, to, (const char *)r->iov[0].iov_base + off, len);
	else
		bl_iov_gather(to, r->iov, r->niov, off, len);
	if (len > BL_SLOT_INLINE) {
		slot->at = (uint32_t)(to - tx->lane->payload);
		bl_tx_payload_take(tx, (uint32_t)len);
	}
	slot->head = BL_HEAD(len, BL_OP_FRAG, flags);
	slot->tag = number;
	slot->data = off;
	bl_tx_publish(tx, slot, (uint32_t)len);
	bl_stats_packet_out(r->peer, (uint32_t)len);
	bl_peer_notify(r->peer);
	bl_window(BL_WINDOW_FRAGMENTING, NULL);
	return true;
}

void bl_on_frag_ask(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
		    const void *bytes, uint32_t len)
{
	const size_t fixed = offsetof(struct bl_frag_ask, piece);
	struct bl_send_op *r = bl_send_op_find(ep, peer, tag);
	struct bl_frag_ask ask;
	struct bl_range *range;

	if (!r || len < fixed || r->nrange == BL_RANGES || r->whole)
		return;
	memcpy(&ask, bytes, fixed);
	if (!ask.len || ask.off > r->len || ask.len > r->len - ask.off)
		return;
	range = &r->range[r->nrange];
	if (!bl_described((const char *)bytes + fixed, len - fixed, data & BL_REGISTERED,
			  range->theirs, &range->ntheirs, &range->theirs_rkeys) ||
	    bl_iov_len_checked(range->theirs, range->ntheirs) < ask.off + ask.len)
		return;
	if (!(data & BL_FAULT))
		bl_copy_unreached(&peer->copy, r->ours.n);
	range->transfer = ask.transfer;
	range->off = ask.off;
	range->end = ask.off + ask.len;
	range->pushing = peer->copy.push == BL_COPY_VM || range->theirs_rkeys.n;
	range->pushed = 0;
	r->nrange++;
	if (r->way != BL_WAY_FRAG)
		r->way = BL_WAY_PROXY;
	bl_rndv_serve(ep, r);
}

/* Write a step of the range into the receiver's memory; false: not possible. */
static bool push_range(struct bl_ep *ep, struct bl_send_op *r, struct bl_range *range)
{
	size_t len = bl_min(range->end - range->off, PUSH_STEP);
	int err = bl_peer_life(r->peer);

	if (!err)
		err = bl_copy_push_by(&r->peer->copy, bl_rkeys_of(&range->theirs_rkeys), r->iov,
				      r->niov, range->theirs, range->ntheirs, range->off, len);

	if (!err) {
		range->off += len;
		range->pushed += len;
		bl_stat_add(ep, BL_STAT_pushed_bytes, len);
	} else {
		bl_push_refused(r, err);
	}
	if (range->pushed && (err || range->off == range->end)) {
		bl_control(ep, r->peer, BL_OP_FRAG, range->transfer, BL_FRAG_PUSHED, &range->pushed,
			   sizeof range->pushed);
		range->pushed = 0;
	}
	return !err;
}

/* Fill the ring with what is left of the range. */
static void stream_range(struct bl_send_op *r, struct bl_range *range)
{
	while (range->off < range->end) {
		size_t len = bl_min(range->end - range->off, PIECE);

		if (!put_fragment(r, range->transfer, range->off, len))
			return;
		r->way = BL_WAY_FRAG;
		range->off += len;
	}
}

bool bl_frag_serve(struct bl_ep *ep, struct bl_send_op *r)
{
	if (!r->nrange)
		return false;

	struct bl_range *range = &r->range[0];

	if (range->pushing)
		range->pushing = push_range(ep, r, range);
	if (!range->pushing)
		stream_range(r, range);
	if (range->off == range->end) {
		memmove(range, range + 1, --r->nrange * sizeof *range);
		return r->nrange;
	}
	return true;
}

/* --- receiver ------------------------------------------------------------- */

void bl_on_frag(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
		const void *bytes, uint32_t len)
{
	struct bl_recv_op *t = bl_recv_op_find(ep, peer, tag);
	uint64_t pushed;

	if (!t || t->missing == t->arrived)
		return;		     /* of a message that has failed meanwhile */
	if (data & BL_FRAG_PUSHED) { /* written directly; the bytes say how much */
		if (len < sizeof pushed)
			return;
		memcpy(&pushed, bytes, sizeof pushed);
		t->arrived += bl_min(pushed, t->missing - t->arrived);
		return;
	}
	t->streamed = true;
	bl_copies_are_no_absence(ep);
	if (unlikely(t->ours.n != 0)) { /* it has no use for our keys */
		if (!t->faulted)
			bl_copy_unreached(&peer->copy, true);
		bl_rkeys_deregister(&t->ours);
	}
	if (data > t->want || len > t->want - data)
		return;
	if (likely(!t->error))
		bl_iov_scatter(t->mine, t->nmine, data, bytes, len);
	t->arrived += bl_min(len, t->missing - t->arrived);
}
