/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rndv_tx.c: the sender's half of RNDV; see rndv.h. Serialised by the domain. What a peer says of
 * lengths, places and numbers is checked here, against what this side keeps for itself.
 */
#include <string.h>

#include "base/window.h"
#include "core/stat.h"
#include "transport/local/ways/rndv.h"

struct bl_send_op *bl_rndv_announce(struct bl_ep *ep, struct bl_peer *peer,
				    const struct bl_send *send, size_t len, bool open)
{
	bool tagged = send->flags & BL_TAGGED;
	uint32_t flags = send->flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0;
	struct bl_send_op *r = bl_send_op_new(ep);
	struct bl_rts rts;
	size_t bytes;

	if (!r)
		return NULL;
	r->peer = peer;
	r->len = len;
	r->niov = (uint32_t)bl_iov_slice(send->iov, send->niov, 0, len, r->iov);
	if (unlikely(send->flags & BL_INJECT) && !bl_send_op_keep(ep, r))
		return NULL; /* and it is free again */
	r->context = send->context;
	r->flags = (send->flags & (BL_TAGGED | BL_MSG)) | BL_SEND;
	r->quiet = !(send->flags & BL_COMPLETION);
	r->work = send->work;
	rts.len = len;
	rts.request = bl_send_op_number(r);
	atomic_store_explicit(&rts.taken, open ? BL_TAKEN_OPEN : BL_TAKEN_CLOSED,
			      memory_order_relaxed);
	r->packet = peer->tx.next;
	if (bl_rkeys_register(&r->ours, &peer->copy, r->iov, r->niov, false))
		flags |= BL_SLOT_RKEYS;
	bytes = bl_describe(rts.piece, r->iov, r->niov, &r->ours);
	rts.zero = 0;
	if (bl_copybuf_takes(len)) /* from here on the packet goes, or the buffer is lost */
		flags |= bl_copybuf_decline(&peer->tx, len);
	bl_put_packet(peer, tagged ? BL_OP_TAGGED_RTS : BL_OP_MSG_RTS, flags, send->tag, send->data,
		      &rts, offsetof(struct bl_rts, piece) + bytes);
	bl_stats_announce_out(peer, len);
	bl_tx_said_rts(&peer->tx, bl_copybuf_takes(len));
	r->tagged = tagged;
	r->tag = tagged ? send->tag : 0;
	return r;
}

void bl_on_cts(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
	       const void *bytes, uint32_t len)
{
	const size_t fixed = offsetof(struct bl_cts, piece);
	struct bl_send_op *r = bl_send_op_find(ep, peer, tag);
	struct bl_cts cts;

	bl_habit_back_now(ep);
	if (!r || len < fixed || r->chunks || r->whole)
		return;
	memcpy(&cts, bytes, fixed);
	if (!cts.len || cts.len > r->len || cts.chunks >= BL_CHUNK_SETS || !cts.chunk ||
	    (cts.len - 1) / cts.chunk >= BL_CHUNKS_MOST)
		return;
	if (!bl_described((const char *)bytes + fixed, len - fixed, data & BL_REGISTERED, r->theirs,
			  &r->ntheirs, &r->theirs_rkeys) ||
	    bl_iov_len_checked(r->theirs, r->ntheirs) < cts.len)
		return;
	r->chunks = &peer->rx.lane->chunks[cts.chunks];
	r->chunks_generation = cts.generation;
	r->want = cts.len;
	r->chunk = cts.chunk;
	r->count = (uint32_t)((cts.len - 1) / cts.chunk + 1);
	r->way = BL_WAY_SPLIT;
	bl_rndv_serve(ep, r);
}

/* Take a chunk; false: no more to do here. */
bool bl_rndv_help(struct bl_ep *ep, struct bl_send_op *r)
{
	size_t off, len;
	uint32_t chunk;
	int err;

	if ((r->peer->copy.push == BL_COPY_NOTHING && !r->theirs_rkeys.n) || bl_peer_life(r->peer))
		return false;
	chunk = bl_chunks_take(r->chunks, r->chunks_generation, r->count, true);
	if (chunk == BL_CHUNKS_NONE)
		return false;
	off = chunk * r->chunk;
	len = bl_min(r->chunk, r->want - off);
	bl_window(BL_WINDOW_HELPING, NULL);
	bl_presence_busy(ep, len);
	err = bl_copy_push_by(&r->peer->copy, bl_rkeys_of(&r->theirs_rkeys), r->iov, r->niov,
			      r->theirs, r->ntheirs, off, len);
	bl_presence_done(ep, len);
	bl_window(BL_WINDOW_PUSHED, NULL);
	if (likely(!err)) {
		bl_stat_add(ep, BL_STAT_pushed_bytes, len);
		bl_chunks_count(r->chunks);
	} else {
		bl_push_refused(r, err);
		bl_chunks_give_back(r->chunks, chunk | (err == -EFAULT ? BL_CHUNKS_FAULT : 0));
	}
	bl_peer_notify(r->peer); /* the receiver may sleep until its last chunk is there */
	return !err;
}
