/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * proxy_tx.c: the sender's side of PROXY: claiming; see proxy.h. Serialised by the domain. An
 * advert is the receiver's word for where its own buffer is; a wrong one harms only the receiver.
 */

#include "base/window.h"
#include "core/stat.h"
#include "transport/local/ways/proxy.h"

#define HAND_US	      200u  /* a receiver inside the library has copied a chunk by then, ... */
#define HAND_BYTES_US 2048u /* however long: so much in a microsecond, and more */
#define MISSED_US     20u   /* a receiver that was away for longer has kept its senders waiting */
#define ROUNDS_MOST   16    /* others may be faster; then it is tried again later */

static struct bl_sink no_sink; /* completions go to the queues */

bl_noinline void bl_proxy_took_short(struct bl_ep *ep)
{
	const struct bl_seg_header *own = ep->local.seg.header;
	int64_t away = (int64_t)(MISSED_US * bl_ticks_per_us());
	uint64_t now = bl_ticks();

	/* What we copied since we looked around is no absence, nor is a core that others had. */
	if (own && !bl_shares_core(ep) &&
	    bl_ticks_since(now, atomic_load_explicit(&own->here, memory_order_relaxed)) > away &&
	    bl_ticks_since(now, atomic_load_explicit(&own->active, memory_order_relaxed)) > away)
		bl_habit_missed(ep->home);
}

static _Atomic uint32_t *taken_of(const struct bl_peer *peer, uint32_t n)
{
	const struct bl_slot *slot = &peer->tx.slot[n % BL_SLOTS];

	return (_Atomic uint32_t *)(uintptr_t)(slot->bytes + offsetof(struct bl_rts, taken));
}

/* Packet n has been read. Its slot may hold another one only if this is true. */
static bool read_by_receiver(struct bl_tx *tx, uint32_t n)
{
	bl_tx_refresh(tx);
	return (int32_t)(tx->limit - BL_SLOTS - n) > 0;
}

static bool taken_or_read(struct bl_peer *peer, uint32_t n)
{
	return read_by_receiver(&peer->tx, n) || bl_taken_look(taken_of(peer, n)) != BL_TAKEN_OPEN;
}

/* An earlier message that isn't matched yet would take the receive. */
static bool taken_by_earlier(const struct bl_peer *peer, uint32_t n, bool tagged,
			     const struct bl_found *f)
{
	uint32_t message = tagged ? BL_OP_TAGGED : BL_OP_MSG;
	uint32_t rts = tagged ? BL_OP_TAGGED_RTS : BL_OP_MSG_RTS;

	for (uint32_t i = peer->tx.limit - BL_SLOTS; i != n; i++) {
		const struct bl_slot *slot = &peer->tx.slot[i % BL_SLOTS];
		uint32_t op = BL_HEAD_OP(slot->head);

		if (op != message && op != rts)
			continue;
		if (op == rts &&
		    BL_TAKEN_STATE(bl_taken_look(taken_of(peer, i))) >= BL_TAKEN_CLAIMED)
			continue; /* or is withdrawn */
		if (!tagged || !((slot->tag ^ f->tag) & ~f->ignore))
			return true;
	}
	return false;
}

/* The receive that message n takes; false: none is shown, or not yet for it. */
static bool choose(struct bl_peer *peer, uint32_t n, bool tagged, uint64_t tag, struct bl_found *f)
{
	return bl_adverts_find(&peer->rx.lane->board, tagged, tag, f) &&
	       !taken_by_earlier(peer, n, tagged, f);
}

bl_noinline bool bl_proxy_finds(struct bl_peer *peer, bool tagged, uint64_t tag)
{
	struct bl_found f;

	bl_tx_refresh(&peer->tx); /* what has been read takes no receive any more */
	return choose(peer, peer->tx.next, tagged, tag, &f);
}

/* It waits in the library, as it is used to: what is announced needn't be seen to be taken. */
static bool takes_by_itself(const struct bl_ep *ep, const struct bl_peer *peer)
{
	return atomic_load_explicit(&peer->mapped.header->stays, memory_order_relaxed) ==
		       BL_STAYS_WAITS &&
	       bl_peer_here(ep, peer);
}

/* Give a receiver that is inside the library the time to take the message, and
 * take what it has for us. */
static bool receiver_takes(struct bl_ep *ep, struct bl_peer *peer, uint32_t n)
{
	struct bl_sink none = BL_SINK_NONE;
	uint64_t until = bl_ticks() + BL_TAKES_US * bl_ticks_per_us();

	if (!bl_peer_here(ep, peer))
		return false;
	do {
		if (taken_or_read(peer, n))
			return true;
		for (uint32_t i = 0; i < ep->local.npolled; i++)
			ep->up->poll(ep, &none, ep->local.hot[i]);
	} while (!bl_is_due(bl_ticks(), until));
	return false;
}

/* --- copying ------------------------------------------------------------- */

/* Let the receiver, should it come back, take chunks as well. */
static void plan(struct bl_ep *ep, struct bl_send_op *r, const struct bl_found *f)
{
	uint64_t vacant = ~r->peer->chunks_busy & ((1ULL << BL_CHUNK_SETS) - 1);
	const struct bl_limits *l = bl_limits();
	uint32_t i;

	r->chunk = r->want;
	r->count = 1;
	if (r->want < l->split_min || !vacant)
		return;
	r->chunk = bl_policy_cut(l, r->want, &r->count);
	if (r->chunk > UINT32_MAX) {
		r->chunk = r->want;
		r->count = 1;
		return;
	}
	i = (uint32_t)__builtin_ctzll(vacant);
	r->peer->chunks_busy |= 1ULL << i;
	r->rkeys = i + 1;
	if (!++ep->ways.generation)
		ep->ways.generation = 1;
	r->chunks_generation = ep->ways.generation;
	bl_chunks_start(&r->peer->tx.lane->chunks[i], r->chunks_generation, r->count);
	atomic_store_explicit(&f->advert->chunks_generation, r->chunks_generation,
			      memory_order_relaxed);
	atomic_store_explicit(&f->advert->chunk, (uint32_t)r->chunk, memory_order_relaxed);
	atomic_store_explicit(&f->advert->chunks, i + 1, memory_order_relaxed);
}

/* Copy chunk by chunk until none is left. The chunks copied, or -1: the kernel
 * refuses, or can't reach a buffer. */
static int64_t copy(struct bl_ep *ep, struct bl_send_op *r)
{
	struct bl_chunks *chunks = r->rkeys ? &r->peer->tx.lane->chunks[r->rkeys - 1] : NULL;
	uint32_t done = 0;
	int err;

	for (;; done++) {
		uint32_t chunk =
			chunks ? bl_chunks_take(chunks, r->chunks_generation, r->count, false)
			: done < r->count ? done
					  : BL_CHUNKS_NONE;
		size_t off = chunk * r->chunk;

		if (chunk == BL_CHUNKS_NONE)
			return done;
		size_t len = bl_min(r->chunk, r->want - off);

		if (bl_peer_life(r->peer)) /* the same PID after exec() is other memory */
			return -1;
		bl_presence_busy(ep, len);
		err = bl_copy_push(&r->peer->copy, r->iov, r->niov, r->theirs, r->ntheirs, off,
				   len);
		bl_presence_done(ep, len);
		if (err) {
			bl_push_refused(r, err);
			return -1;
		}
		bl_stat_add(ep, BL_STAT_pushed_bytes, len);
	}
}

/* All chunks are taken; the receiver's, if it took some, are there. */
static bool other_hand_done(struct bl_send_op *r, uint32_t mine)
{
	const struct bl_chunks *chunks;
	uint64_t until;

	if (mine == r->count)
		return true;
	chunks = &r->peer->tx.lane->chunks[r->rkeys - 1];
	until = bl_ticks() + (HAND_US + r->chunk / HAND_BYTES_US) * bl_ticks_per_us();
	while (bl_chunks_counted((struct bl_chunks *)(uintptr_t)chunks) + mine < r->count)
		if (bl_is_due(bl_ticks(), until))
			return false;
	return true;
}

static void claimed(struct bl_ep *ep, struct bl_send_op *r, const struct bl_found *f, uint32_t n)
{
	uint32_t me = r->peer->doorbell_index, front, end;
	struct bl_peer *peer = r->peer; /* the request may be over below */
	bool sense, over = false;
	int64_t done;

	r->want = bl_min(r->len, f->len);
	sense = bl_adverts_pieces(&peer->rx.lane->board, f, r->theirs, &r->ntheirs);
	plan(ep, r, f);
	bl_window(BL_WINDOW_CLAIMED, NULL);
	bl_taken_set(taken_of(r->peer, n), BL_TAKEN_BY(f->index));
	bl_window(BL_WINDOW_ANNOUNCED, NULL);
	done = likely(sense) ? copy(ep, r) : -1;
	bl_window(BL_WINDOW_WRITTEN, NULL);
	if (likely(done >= 0))
		r->way = BL_WAY_CLAIMED;
	if (unlikely(done < 0)) {
		if (r->rkeys)
			bl_chunks_stop(&r->peer->tx.lane->chunks[r->rkeys - 1],
				       r->chunks_generation, r->count, &front, &end);
		bl_advert_end(f, me, BL_ADVERT_YOURS);
	} else if (likely(other_hand_done(r, (uint32_t)done))) {
		bl_advert_end(f, me, BL_ADVERT_DONE);
		over = true;
	} else {
		bl_advert_end(f, me, BL_ADVERT_LEFT); /* its FIN ends the request */
	}
	/* What the receiver reads first when it is back. */
	bl_demote_line(f->advert);
	bl_demote_line(&peer->tx.slot[n % BL_SLOTS]);
	bl_peer_notify(peer); /* it may sleep */
	if (likely(over))
		bl_send_op_end(ep, &no_sink, r, 0);
}

void bl_proxy_try(struct bl_ep *ep, struct bl_send_op *r)
{
	struct bl_peer *peer = r->peer;
	bool asked = false, tagged = r->tagged;
	uint64_t tag = r->tag;
	uint32_t n = r->packet, generation = r->generation;
	struct bl_found f;

	bl_presence_seen(ep, bl_ticks());
	if (ep->rndv.ntransfer) { /* one given to the peer, that may wait for us in turn */
		ep->up->finish(ep, &no_sink);
		if (taken_or_read(peer, n))
			return;
	}
	if (takes_by_itself(ep, peer))
		return;
	for (int round = 0; round < ROUNDS_MOST; round++) {
		bl_proxy_fence();
		if (read_by_receiver(&peer->tx, n) || !choose(peer, n, tagged, tag, &f))
			return;
		if (!asked && receiver_takes(ep, peer, n))
			return;
		asked = true;
		if (r->peer != peer || r->generation != generation)
			return; /* over, while we took what the receiver had for us */
		if (read_by_receiver(&peer->tx, n) || bl_peer_life(peer) || peer->dead ||
		    !bl_taken_take(taken_of(peer, n), BL_TAKEN_SENDER))
			return;
		bl_window(BL_WINDOW_WON, NULL);
		if (choose(peer, n, tagged, tag, &f) && bl_advert_claim(&f, peer->doorbell_index)) {
			claimed(ep, r, &f, n);
			return;
		}
		/* Somebody else was faster. The receiver may have met our word meanwhile
		 * and gone away: so look again, after it is open. */
		bl_taken_set(taken_of(peer, n), BL_TAKEN_OPEN);
	}
}

bl_cold bool bl_proxy_withdraw(const struct bl_send_op *r)
{
	return !read_by_receiver(&r->peer->tx, r->packet) &&
	       bl_taken_take(taken_of(r->peer, r->packet), BL_TAKEN_WITHDRAWN);
}

/* Until its receiver has taken it, or will when it is told to. */
static void opened(struct bl_ep *ep, struct bl_send_op *r)
{
	if (!ep->ways.pending.nopen++)
		TAILQ_INIT(&ep->ways.pending.opened);
	TAILQ_INSERT_TAIL(&ep->ways.pending.opened, r, opened);
	r->open = true;
}

void bl_proxy_announced(struct bl_ep *ep, struct bl_send_op *r)
{
	bool large = r->len >= BL_PROXY_MIN;

	opened(ep, r);
	if (large ? ep->ways.habit.leaves != 0 : bl_proxy_is_away(ep, r->peer))
		bl_proxy_try(ep, r); /* it may be over */
	if (large)
		bl_habit_leave(ep);
}

bl_cold void bl_proxy_later(struct bl_ep *ep, uint64_t now)
{
	if (!bl_is_due(now, ep->ways.pending.next_claim))
		return;
	ep->ways.pending.next_claim = now + BL_TAKES_US * bl_ticks_per_us();
	for (uint32_t n = ep->ways.pending.nopen; n && ep->ways.pending.nopen; n--) {
		struct bl_send_op *r = TAILQ_FIRST(&ep->ways.pending.opened);

		/* To the end of the line: an attempt may end it, and others. */
		TAILQ_REMOVE(&ep->ways.pending.opened, r, opened);
		TAILQ_INSERT_TAIL(&ep->ways.pending.opened, r, opened);
		if (r->peer->dead || taken_or_read(r->peer, r->packet))
			bl_send_op_closed(ep, r);
		else if (!bl_peer_here(ep, r->peer) &&
			 (r->len >= BL_PROXY_MIN || bl_is_gone(r->peer)))
			bl_proxy_try(ep, r);
	}
}
