/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * frag.c: what of a large message goes through the ring, in two copies; see rndv.h.
 * Serialised by the domain.
 *
 * What the kernel refuses to copy: the receiver asks for a range (STREAM), which its
 * sender writes directly if it may, and sends as fragments if not.
 *
 * A message that is carried: neither packet nor worth the kernel's price, with both
 * processes in the library. The sender copies chunks into its ring while the receiver
 * copies them out of it:
 *
 *   sender                                      receiver
 *   RTS ─────────────────────────────────────►  match
 *           ── FRAGMENT (ahead: request, at) ►  copies it out
 *                                               there is more, and the sender is here:
 *   takes chunks from the front, as many  ◄───  CTS (BL_CTS_CARRY)
 *   as the ring has room for
 *           ── FRAGMENT (transfer, at) ──────►  copies it out
 *                                               the sender stands still and isn't here:
 *                                               takes what is left, and pulls it
 *   done, if all is in the ring
 *   done    ◄─ FIN ───────────────────────────  all is there
 *
 * What is sent ahead is in the ring before the send returns: as much as there is room for when
 * the receiver was here a moment ago, or shares its core with others and may be here without
 * having a turn, and all of a message that just fits a slot of which the sender wants to hear that
 * it was delivered (a shorter or longer one is a packet by itself: bl_put_eager_long). Where the
 * receive is posted later the receiver keeps those bytes (unexpected.c). What it has no memory for
 * it drops, all is copied once, and FIN says so: then some of the next aren't sent ahead.
 *
 * A chunk is taken from the coop counter only when there is room for it, and put there
 * at once: so nobody waits for one who has gone, and no byte is copied by two.
 */
#include "transport/local/ways/frag.h"

#include <string.h>

#include "base/window.h"
#include "transport/local/ways/proxy.h"
#include "endpoint/read.h"
#include "endpoint/recv.h"
#include "core/stat.h"
#include "endpoint/wait.h"

#define PIECE	   8192u /* of a message, in a packet */
#define PUSH_STEP  262144u
#define ROOM_POLLS 400 /* for credits, before the sender looks at something else */
#define ROOM_US	   10  /* who reads gives room again in this time: two long packets, */
#define BUSY_US	   100 /* or one who copies, soon enough to wait for */
#define STILL_US   2u  /* a sender that is here goes on sooner, */
#define STUCK_US   20u /* and says something in this time even if it has much to do */
#define VAIN_MOST  6u  /* 2^n messages aren't carried after n in vain */

/* Ticks since the peer has shown itself in the library; less than 0: it is busy for so long. */
static int64_t away_for(const struct bl_peer *peer)
{
	uint64_t now = bl_ticks();
	int64_t here = bl_ticks_since(
		now, atomic_load_explicit(&peer->header->here, memory_order_relaxed));
	int64_t active = bl_ticks_since(
		now, atomic_load_explicit(&peer->header->active, memory_order_relaxed));

	return here < active ? here : active;
}

static bool is_at_work(const struct bl_peer *peer)
{
	return away_for(peer) <= (int64_t)(STILL_US * bl_ticks_per_us());
}

bool bl_is_gone(const struct bl_peer *peer)
{
	return away_for(peer) > (int64_t)(ROOM_US * bl_ticks_per_us());
}

static bool is_here(const struct bl_peer *peer, int64_t left_us, int64_t busy_us)
{
	int64_t away = away_for(peer), us = (int64_t)bl_ticks_per_us();

	return away <= left_us * us && away >= -busy_us * us;
}

/* Not one that is busy with a long copy, and says until when. */
bool bl_gives_room(const struct bl_peer *peer)
{
	return is_here(peer, ROOM_US, BUSY_US);
}

#define USES_BYTES_US 16384u /* of a message, by a program that reads it or writes the next one */

bool bl_waits_here(const struct bl_peer *peer, size_t uses)
{
	return atomic_load_explicit(&peer->header->stays, memory_order_relaxed) != BL_STAYS_NOT &&
	       is_here(peer, ROOM_US + (int64_t)(uses / USES_BYTES_US),
		       BUSY_US + (int64_t)(uses / BL_BUSY_BYTES_US));
}

bl_noinline uint64_t bl_long_copy_begins(struct bl_ep *ep, size_t len)
{
	uint64_t now = bl_ticks();

	bl_presence_seen(ep, now + len / BL_BUSY_BYTES_US * bl_ticks_per_us());
	/* a look is due as after a message of this length that is copied once */
	bl_cq_moved(ep, ep->rx_cq, len);
	bl_cq_moved(ep, ep->tx_cq, len);
	return now;
}

/* Of a shared context's other members nobody knows: to them it may be an absence. */
bl_noinline void bl_long_copy_ends(struct bl_ep *ep, uint64_t began)
{
	uint64_t now = bl_ticks(), took = now - began;

	if (ep->left_at)
		ep->left_at += took;
	if (ep->brought_at)
		ep->brought_at += took;
	if (ep->rx_cq)
		ep->rx_cq->last_empty += took;
	bl_presence_seen(ep, now);
}

/* --- sender --------------------------------------------------------------- */

/* A piece of the message as a packet of its own; false: there is no room. */
static bool put_fragment(struct bl_send_op *r, uint32_t flags, uint64_t number, size_t off,
			 size_t len)
{
	struct bl_tx *tx = &r->peer->tx;

	if (!bl_tx_room(tx) && !bl_tx_refresh(tx))
		return false;

	struct bl_slot *slot = bl_tx_slot(tx);
	uint8_t *to = len > BL_SLOT_INLINE ? bl_tx_payload(tx, (uint32_t)len) : slot->bytes;

	if (!to)
		return false;
	if (r->niov == 1)
		flags |= bl_tx_store(tx, to, (const char *)r->iov[0].iov_base + off, len);
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

		if (!put_fragment(r, 0, range->transfer, range->off, len))
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

bool bl_shares_core(const struct bl_ep *ep)
{
	uint64_t now = bl_ticks();

	return (ep->tx_cq && bl_oversub_shared(&ep->tx_cq->crowd, now)) ||
	       (ep->rx_cq && ep->rx_cq != ep->tx_cq && bl_oversub_shared(&ep->rx_cq->crowd, now));
}

/*
 * What is put in the ring right behind the RTS: of a message to be carried, the rest of which, if
 * there is no room for it yet, is asked for by CTS when the first bytes are on their way already. A
 * receiver that has no receive for it keeps them.
 */
uint32_t bl_ahead(struct bl_ep *ep, const struct bl_send_op *r)
{
	struct bl_tx *tx = &r->peer->tx;
	size_t eager_to = bl_eager_to(ep, r->peer), fits;

	if (r->ours.n || r->peer->copy.pull == BL_COPY_SELF || r->len >= BL_PROXY_MIN)
		return 0;
	if (r->len > ep->eager_max && unlikely(bl_is_congested(r->peer, r->len)))
		return 0;
	if (r->len > eager_to) {
		if (r->len > bl_eager_long_to(ep, r->peer))
			return 0;
		bl_presence_active(ep, bl_ticks());
		if (!is_at_work(r->peer) && !bl_shares_core(ep))
			return 0;
	}
	if (unlikely(r->peer->ahead_pause && r->len > ep->eager_max)) {
		r->peer->ahead_pause--;
		return 0;
	}
	fits = bl_tx_fits(tx, 1, PIECE, r->len);
	return fits < r->len && r->len <= eager_to ? 0 : (uint32_t)fits;
}

void bl_ahead_send(struct bl_ep *ep, struct bl_send_op *r)
{
	uint64_t number = bl_send_op_number(r);

	for (size_t off = 0; off < r->ahead; off += PIECE) {
		bl_presence_active(ep, bl_ticks());
		if (likely(put_fragment(r, BL_SLOT_AHEAD, number, off,
					bl_min(r->ahead - off, (size_t)PIECE))))
			continue;
		bl_warn("no room for what bl_tx_fits() promised: process %u is given up",
			r->peer->addr.pid);
		r->peer->broken = true;
		return;
	}
}

void bl_ahead_told(struct bl_send_op *r, bool of_use)
{
	struct bl_peer *peer = r->peer;

	if (r->ahead_told)
		return;
	r->ahead_told = true;
	if (likely(of_use)) {
		r->way = BL_WAY_FRAG;
		peer->ahead_vain = 0;
		return;
	}
	peer->ahead_vain = (uint8_t)bl_min(peer->ahead_vain + 1u, VAIN_MOST);
	peer->ahead_pause = (uint8_t)(1u << peer->ahead_vain);
}

static bool carry_room(struct bl_tx *tx, uint32_t len)
{
	return (bl_tx_room(tx) || bl_tx_refresh(tx)) && bl_tx_payload(tx, len);
}

enum bl_carry bl_carry_serve(struct bl_ep *ep, struct bl_sink *sink, struct bl_send_op *r,
			     bool waits)
{
	struct bl_tx *tx = &r->peer->tx;
	int polls = waits && !r->stuck ? ROOM_POLLS : 1;
	uint32_t chunk;
	size_t off;

	for (int left = polls; left; left--) {
		if (!carry_room(tx, (uint32_t)r->chunk))
			continue;
		if (bl_peer_life(r->peer))
			return BL_CARRY_NONE;
		chunk = bl_chunks_take(r->coop, r->chunks_generation, r->count, false);
		if (chunk == BL_CHUNKS_NONE)
			return BL_CARRY_NONE;
		off = r->base + chunk * r->chunk;
		put_fragment(r, 0, (uint64_t)r->chunks_generation << 32, off,
			     bl_min(r->chunk, r->want - off));
		r->way = BL_WAY_FRAG;
		bl_presence_active(ep, bl_ticks());
		if (++r->carried == r->count) {
			if (r->delivers)
				return BL_CARRY_NONE;
			bl_send_op_end(ep, sink, r, 0); /* all is in the ring, like a short one */
			return BL_CARRY_OVER;
		}
		left = polls;
		r->stuck = false;
	}
	r->stuck = waits;
	return BL_CARRY_ON;
}

/* --- receiver ------------------------------------------------------------- */

/* Copies aren't computation between two reads, unless there was some before them. */
void bl_copies_are_no_absence(struct bl_ep *ep)
{
	uint64_t now = bl_ticks();

	bl_habit_back_now(ep);
	if (ep->rx_cq && !bl_reads_are_rare(ep, now))
		ep->rx_cq->last_empty = now;
	if (ep->brought_at && now - ep->brought_at <= BL_AWAY_US * bl_ticks_per_us())
		ep->brought_at = now;
}

/* It is here, and not in the middle of a long copy. */
static bool sender_waits(const struct bl_peer *peer)
{
	int64_t away = away_for(peer), still = (int64_t)(STILL_US * bl_ticks_per_us());

	return away <= still && away > -still;
}

/* Bytes that are to come through the ring. */
static uint64_t ring_left(const struct bl_recv_op *t)
{
	return t->ahead_left + t->carry_left;
}

static void watch(struct bl_recv_op *t)
{
	t->carry_seen = ring_left(t);
	t->carry_moved = t->carry_look = bl_ticks();
}

/* Not into a multi-receive: MPICH's active messages end in disaster if one there completes
 * before an earlier one. */
bool bl_carry_begin(struct bl_ep *ep, struct bl_recv_op *t)
{
	struct bl_cts cts;
	size_t rest;

	if (t->once || t->want > bl_copy_plan()->eager_long_max || t->want >= BL_PROXY_MIN ||
	    t->peer->copy.pull != BL_COPY_VM || t->theirs_rkeys.n || t->multi ||
	    !sender_waits(t->peer))
		return false;
	if (unlikely(ep->carry_pause | ep->wanders)) {
		ep->carry_pause -= ep->carry_pause != 0;
		ep->wanders -= ep->wanders != 0;
		return false;
	}
	rest = t->chunk;
	t->chunk = PIECE;
	t->count = (uint32_t)((rest + PIECE - 1) / PIECE);
	if (!bl_recv_op_lease(ep, t)) {
		t->chunk = rest;
		t->count = 1;
		return false;
	}
	t->carried = true;
	t->carry_left = rest;
	watch(t);
	cts.len = rest;
	cts.chunk = t->chunk;
	cts.coop = t->chunks_index | BL_CTS_CARRY | (t->base ? BL_CTS_AHEAD : 0);
	cts.generation = t->generation;
	bl_control(ep, t->peer, BL_OP_CTS, t->request, 0, &cts, offsetof(struct bl_cts, piece));
	return true;
}

/* Copy what the sender hasn't begun with. */
static void take_back(struct bl_ep *ep, struct bl_recv_op *t)
{
	uint32_t front, end;
	size_t off, len;

	if (t->stopped)
		return;
	bl_recv_op_stop(t, &front, &end);
	t->sender_has_all = t->coop && front == end;
	off = t->base + front * t->chunk;
	len = bl_min(t->base + end * t->chunk, t->want) - bl_min(off, t->want);
	if (front == end)
		return;
	t->carry_left -= bl_min(len, t->carry_left);
	t->carry_seen = ring_left(t);
	if (bl_recv_op_pull(ep, t, off, len) != -EOPNOTSUPP)
		return;
	if (!t->faulted)
		bl_stats_fallback(t->peer, false);
	bl_recv_op_ask(ep, t, front, end - front);
}

/*
 * What hasn't come yet of what was to be sent ahead can be copied from the sender; after
 * take_back(). Not once it has taken all the rest: then its send may be over, its buffer hold
 * something else, and what was ahead of the rest lies in the ring.
 */
static bool can_copy_ahead(const struct bl_recv_op *t)
{
	return t->ahead_left && t->peer->copy.pull == BL_COPY_VM && !t->sender_has_all &&
	       !t->faulted;
}

static void ahead_back(struct bl_ep *ep, struct bl_recv_op *t)
{
	uint32_t len = t->ahead_left;

	if (!can_copy_ahead(t))
		return;
	t->ahead_left = 0; /* if it still comes it is dropped */
	if (bl_recv_op_pull(ep, t, t->base - len, len) == -EOPNOTSUPP)
		t->ahead_left = len; /* it has to */
}

void bl_ahead_begin(struct bl_ep *ep, struct bl_recv_op *t, bool may_ask)
{
	t->carried = true;
	t->chunk = t->want - t->base;
	t->count = t->chunk != 0;
	watch(t);
	if (t->count && !(may_ask && bl_carry_begin(ep, t)))
		take_back(ep, t);
}

void bl_ahead_take(struct bl_ep *ep, struct bl_recv_op *t, const struct bl_kept *kept)
{
	uint32_t len = bl_min(kept->got, t->base);

	bl_copies_are_no_absence(ep);
	bl_iov_scatter(t->mine, t->nmine, 0, kept->bytes, len);
	bl_presence_active(ep, bl_ticks());
	t->ahead_left -= len;
	t->streamed = len;
}

bool bl_carry_finish(struct bl_ep *ep, struct bl_recv_op *t)
{
	if (!ep->leaves && !ep->wanders)
		return false;
	take_back(ep, t);
	ahead_back(ep, t);
	return true;
}

/* It stands still, and its sender has gone or does something else; or nothing at all has been
 * carried to us for long, and who says to be here isn't believed. */
static bool given_up(struct bl_ep *ep, struct bl_recv_op *t)
{
	uint64_t now = bl_ticks(), us = bl_ticks_per_us();

	if (now - t->carry_look > STILL_US * us) /* it is we who have been away, or busy */
		t->carry_moved += now - t->carry_look;
	t->carry_look = now;
	return (now - t->carry_moved > STILL_US * us &&
		away_for(t->peer) > (int64_t)(STILL_US * us)) ||
	       (now - t->carry_moved > STUCK_US * us && now - ep->carried_at > STUCK_US * us);
}

bool bl_carry_step(struct bl_ep *ep, struct bl_recv_op *t)
{
	bool waits = (t->carry_left && !t->stopped) || can_copy_ahead(t);

	if (ring_left(t) != t->carry_seen) {
		watch(t);
	} else if (waits && given_up(ep, t)) {
		ep->carry_vain = (uint8_t)bl_min(ep->carry_vain + 1u, VAIN_MOST);
		ep->carry_pause = (uint8_t)(1u << ep->carry_vain);
		take_back(ep, t);
		ahead_back(ep, t);
	}
	if (t->coop && !t->carry_left && !t->stopped)
		ep->carry_vain = 0;
	return !t->error && !ring_left(t) && t->arrived >= t->missing;
}

/* Bytes that followed their RTS. Where nothing was matched with that yet they are kept. */
static void on_ahead(struct bl_ep *ep, struct bl_sink *sink, const struct bl_peer *peer,
		     uint64_t request, uint64_t off, const void *bytes, uint64_t len)
{
	for (uint32_t i = 0; i < ep->ntransfer; i++) {
		struct bl_recv_op *t = ep->transfer[i];

		if (t->request != request || t->peer != peer)
			continue;
		if (!t->ahead_left || off >= t->base || t->error)
			return;
		t->streamed = true;
		bl_copies_are_no_absence(ep);
		len = bl_min(len, t->base - off);
		bl_iov_scatter(t->mine, t->nmine, off, bytes, len);
		t->ahead_left -= (uint32_t)bl_min(len, (uint64_t)t->ahead_left);
		ep->carried_at = bl_ticks();
		bl_presence_active(ep, ep->carried_at);
		/* Now, before what is behind it in the ring: they may share a buffer. */
		if (!t->ahead_left)
			bl_recv_op_go_on(ep, sink, i);
		return;
	}
	bl_copies_are_no_absence(ep);
	bl_kept_add(ep, peer, request, off, bytes, len);
	bl_presence_active(ep, bl_ticks());
}

void bl_on_frag(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint32_t flags,
		uint64_t tag, uint64_t data, const void *bytes, uint32_t len)
{
	struct bl_recv_op *t;
	uint64_t pushed;

	if (flags & BL_SLOT_AHEAD) {
		on_ahead(ep, sink, peer, tag, data, bytes, len);
		return;
	}
	t = bl_recv_op_find(ep, peer, tag);
	if (!t || !(t->carry_left | (t->missing - t->arrived)))
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
	if (unlikely(t->ours.n && !t->carry_left)) { /* it has no use for our keys */
		if (!t->faulted)
			bl_copy_unreached(&peer->copy, true);
		bl_rkeys_deregister(&t->ours);
	}
	if (data > t->want || len > t->want - data)
		return;
	if (likely(!t->error))
		bl_iov_scatter(t->mine, t->nmine, data, bytes, len);
	/* What was carried is in the ring before what is asked for. */
	if (t->carry_left) {
		t->carry_left -= bl_min(len, t->carry_left);
		ep->carried_at = bl_ticks();
		bl_presence_active(ep, ep->carried_at);
	} else {
		t->arrived += bl_min(len, t->missing - t->arrived);
	}
}
