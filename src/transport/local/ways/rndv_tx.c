/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rndv_tx.c: the sender's half of RNDV; see rndv.h. Serialised by the domain. What a peer says of
 * lengths, places and numbers is checked here, against what this side keeps for itself.
 */
#include <string.h>

#include "base/window.h"
#include "transport/local/ways/proxy.h"
#include "transport/local/adapt/dirty.h"
#include "transport/local/ways/rndv.h"
#include "core/stat.h"
#include "transport/local/ways/frag.h"
#include "endpoint/txq.h"
#include "endpoint/trigger.h"

int bl_send_op_begin(struct bl_ep *ep, const struct bl_send *send, size_t len)
{
	struct bl_peer *peer = likely(send->dest < ep->ndest) ? ep->dest[send->dest] : &bl_nobody;
	bool tagged = send->flags & BL_TAGGED;
	uint32_t flags = send->flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0;
	struct bl_send_op *r;
	struct bl_rts rts;
	enum bl_way way;
	size_t bytes;
	uint32_t n;
	int err;

	if (unlikely(ep->demoting.sampled))
		bl_demote_next(ep);
	if (len >= BL_PROXY_MIN)
		bl_dirty_back(ep);
	if (unlikely(!bl_tx_room(&peer->tx))) {
		err = bl_find_room(ep, send->dest, &peer);
		if (unlikely(err))
			return bl_txq_send(ep, send, err);
	}
	err = bl_put_eager_long(ep, peer, send, len, &way);
	if (likely(!err))
		return 0;
	if (err != -EMSGSIZE)
		return bl_txq_send(ep, send, err);
	bl_proxy_ask(ep, peer, len);
	r = bl_send_op_new(ep);
	if (!r)
		return bl_no_memory(ep);
	r->peer = peer;
	r->len = len;
	r->niov = (uint32_t)bl_iov_slice(send->iov, send->niov, 0, len, r->iov);
	if (unlikely(send->flags & BL_INJECT) && !bl_send_op_keep(ep, r))
		return bl_no_memory(ep); /* and it is free again */
	r->context = send->context;
	r->flags = (send->flags & (BL_TAGGED | BL_MSG)) | BL_SEND;
	r->quiet = !(send->flags & BL_COMPLETION);
	r->work = send->work;
	rts.len = len;
	rts.request = bl_send_op_number(r);
	atomic_store_explicit(&rts.taken, way == BL_PROXY ? BL_TAKEN_OPEN : BL_TAKEN_CLOSED,
			      memory_order_relaxed);
	n = peer->tx.next;
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
	if (way == BL_PROXY) {
		r->tagged = tagged;
		r->packet = n;
		r->tag = tagged ? send->tag : 0;
		bl_proxy_announced(ep, r);
	}
	return 0;
}

void bl_rndv_serve(struct bl_ep *ep, struct bl_send_op *r)
{
	if (r->serving)
		return;
	r->serving = true;
	ep->rndv.serving[ep->rndv.nserving++] = r;
	ep->work++;
}

static void stop_serving(struct bl_ep *ep, struct bl_send_op *r)
{
	if (!r->serving)
		return;
	/* In the order in which they were asked for, or one might never have its turn. */
	for (uint32_t i = 0; i < ep->rndv.nserving; i++)
		if (ep->rndv.serving[i] == r) {
			memmove(&ep->rndv.serving[i], &ep->rndv.serving[i + 1],
				(--ep->rndv.nserving - i) * sizeof *ep->rndv.serving);
			break;
		}
	r->serving = false;
	ep->work--;
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

void bl_send_op_end(struct bl_ep *ep, struct bl_sink *sink, struct bl_send_op *r, int err)
{
	stop_serving(ep, r);
	bl_rkeys_deregister(&r->ours);
	if (!r->whole || err) /* it is counted as a packet */
		bl_stat_sent(ep, r->way, r->len, err);
	bl_cq_moved(ep, ep->bound.tx_cq, r->len);
	if (likely(!err)) {
		if (ep->bound.tx_cntr && !r->work)
			bl_cntr_up(ep->bound.tx_cntr);
		if (!r->quiet)
			bl_complete(ep->bound.tx_cq, sink, r->context, r->flags, r->len, NULL, 0, 0,
				    BL_ADDR_ANY);
	} else {
		struct bl_comp_err e = {
			.comp = {r->context, r->flags, 0, NULL, 0, 0},
			.olen = r->len,
			.err = err,
			.src = BL_ADDR_ANY,
		};
		if (ep->bound.tx_cntr && !r->work && !(r->cancelled && err == ECANCELED))
			bl_cntr_error(ep->bound.tx_cntr);
		bl_cq_fail(ep->bound.tx_cq, sink, &e);
	}
	if (unlikely(r->work != NULL))
		bl_work_over(r->work, err);
	if (r->len >= BL_HUGE_LEAST && !r->copy && r->way != BL_WAY_FRAG && !err)
		bl_buffers_used(ep, r->peer, r->iov, r->niov, r->len);
	bl_send_op_free(ep, r);
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

bl_cold void bl_push_refused(struct bl_send_op *r, int err)
{
	if (r->push_refused || (err != -EOPNOTSUPP && err != -EFAULT))
		return;
	if (err == -EFAULT)
		bl_stats_fault(r->peer);
	else
		bl_stats_fallback(r->peer, true);
	r->push_refused = true;
}

/* Take a chunk; false: no more to do here. */
static bool help(struct bl_ep *ep, struct bl_send_op *r)
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

void bl_send_ops_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	for (uint32_t i = 0; i < ep->rndv.nserving;) {
		struct bl_send_op *r = ep->rndv.serving[i];

		/* Who has begun finishes: the receiver may have gone away, relying on that. */
		if (r->chunks && help(ep, r)) {
			if (unlikely(bl_is_due(bl_ticks(), ep->watch.next_look)))
				bl_ep_look(ep, sink, bl_ticks()); /* it may be over now */
			continue;
		}
		r->chunks = NULL;
		if (bl_frag_serve(ep, r))
			i++;
		else
			stop_serving(ep, r);
	}
}
