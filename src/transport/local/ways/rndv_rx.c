/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rndv_rx.c: the receiver's half of RNDV, and what both halves share; see rndv.h. rndv_tx.c is the
 * other. Serialised by the domain. What a peer says of lengths, places and numbers is checked
 * here, against what this side keeps for itself.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/memcheck.h"
#include "base/window.h"
#include "core/op_error.h"
#include "core/post.h"
#include "core/stat.h"
#include "transport/local/adapt/dirty.h"
#include "transport/local/ways/rndv.h"

#define ALONE_MOST (1u << 20) /* with sends of our own under way, copy up to here alone */

/* --- receiver ----------------------------------------------------------- */

static enum bl_stat_way way_of(const struct bl_recv_op *t)
{
	return t->streamed  ? BL_WAY_FRAG
	       : t->missing ? BL_WAY_PROXY
	       : t->chunks  ? BL_WAY_SPLIT
			    : BL_WAY_ONE_COPY;
}

static bl_cold void tell_error(const struct bl_recv_op *t)
{
	static const char *const words[] = {
		[BL_WAY_ONE_COPY] = "rendezvous: one copy by this process",
		[BL_WAY_SPLIT] = "rendezvous: one copy by both processes",
		[BL_WAY_PROXY] = "rendezvous: one copy by its sender",
		[BL_WAY_FRAG] = "rendezvous: through the ring",
	};

	bl_tell_error(t->peer, "a receive of", t->want, words[way_of(t)], t->error);
}

static void transfer_end(struct bl_ep *ep, struct bl_sink *sink, struct bl_recv_op *t)
{
	const struct bl_receipt receipt = {
		.peer = t->peer,
		.context = t->end.context,
		.buf = t->end.buf,
		.flags = t->end.flags,
		.tag = t->end.tag,
		.data = t->end.data,
		.want = t->want,
		.sent = t->sent,
		.quiet = t->end.quiet,
		.multi = t->end.multi,
		.work = t->end.work,
	};

	bl_window(BL_WINDOW_COPIED, NULL);
	bl_rkeys_deregister(&t->ours);
	bl_ack(ep, t->peer, t->request, (uint64_t)t->error | t->verdict);
	bl_stat_received(ep, way_of(t), t->want, t->error);
	if (unlikely(t->error))
		tell_error(t);
	bl_cq_moved(ep, ep->bound.rx_cq, t->want);
	if (likely(!t->error))
		bl_memcheck_written(t->mine, t->nmine, t->want);
	bl_recv_over(ep, sink, &receipt, t->error);
	if (likely(!t->error))
		bl_dirty_got(ep, t->peer, t->want);
	if (t->want >= BL_HUGE_LEAST && !t->streamed && !t->error)
		bl_buffers_used(ep, t->peer, t->mine, t->nmine, t->want);
	bl_recv_op_free(ep, t);
}

static void ask_for(struct bl_ep *ep, struct bl_recv_op *t, uint32_t chunk, uint32_t count)
{
	struct bl_frag_ask ask = {
		.transfer = bl_recv_op_number(t),
		.off = chunk * (uint64_t)t->chunk,
	};

	ask.len = bl_min((uint64_t)count * t->chunk, t->want - ask.off);
	t->missing += ask.len;
	t->unstreamed += count;

	bool rkeys = bl_rkeys_register(&t->ours, &t->peer->copy, t->mine, t->nmine, true);
	size_t len = bl_describe(ask.piece, t->mine, t->nmine, &t->ours);

	bl_control(ep, t->peer, BL_OP_FRAG_ASK, t->request,
		   (rkeys ? BL_REGISTERED : 0) | (t->faulted ? BL_FAULT : 0), &ask,
		   offsetof(struct bl_frag_ask, piece) + len);
}

static void stop(struct bl_recv_op *t, uint32_t *front, uint32_t *end)
{
	*front = *end = 0;
	if (t->chunks && !t->stopped) {
		bl_chunks_stop(t->chunks, t->chunks_generation, t->count, front, end);
	} else if (!t->chunks && !t->handed_out) {
		*front = t->next;
		*end = t->count;
	}
	t->handed_out = t->stopped = true;
}

/* The kernel won't let us read the sender, or can't: what is left comes from its hand. */
static bl_cold void cannot_pull(struct bl_ep *ep, struct bl_recv_op *t, uint32_t chunk)
{
	uint32_t front, end;

	if (!t->missing && !t->faulted) /* once for each message */
		bl_stats_fallback(t->peer, false);
	stop(t, &front, &end);
	if (front == end) {
		ask_for(ep, t, chunk, 1);
	} else if (chunk + 1 == front) { /* one range */
		ask_for(ep, t, chunk, end - chunk);
	} else {
		ask_for(ep, t, chunk, 1);
		ask_for(ep, t, front, end - front);
	}
}

static void pull(struct bl_ep *ep, struct bl_recv_op *t, uint32_t chunk)
{
	size_t off = chunk * t->chunk, len = bl_min(t->chunk, t->want - off);
	uint64_t began, ended;
	int err;

	bl_window(BL_WINDOW_TAKEN, NULL);
	if (len < BL_PROXY_MIN)
		bl_copies_are_no_absence(ep);
	bl_presence_busy(ep, len);
	began = bl_ticks();
	if (len < BL_PROXY_MIN)
		bl_presence_active(ep, began + len / BL_BUSY_BYTES_US * bl_ticks_per_us());
	err = bl_copy_pull_by(&t->peer->copy, bl_rkeys_of(&t->theirs_rkeys), t->mine, t->nmine,
			      t->theirs, t->ntheirs, off, len);
	ended = bl_ticks();
	bl_presence_done(ep, len);
	if (len < BL_PROXY_MIN)
		bl_presence_active(ep, ended);
	bl_window(BL_WINDOW_PULLED, NULL);
	/* Whoever has called exec() answers to the same PID, with other memory. */
	if (unlikely(t->peer->copy.pull != BL_COPY_SELF && bl_peer_life(t->peer)))
		err = -ESRCH;
	if (likely(!err)) {
		bl_stat_add(ep, BL_STAT_pulled_bytes, len);
		bl_dirty_judge(ep, t, len, began, ended);
		t->done++;
	} else if (err == -EFAULT && t->peer->copy.pull != BL_COPY_SELF) {
		if (!t->faulted)
			bl_stats_fault(t->peer);
		t->faulted = true;
		cannot_pull(ep, t, chunk);
	} else if (err == -EOPNOTSUPP) {
		cannot_pull(ep, t, chunk);
	} else {
		t->error = err == -ESRCH ? ECONNRESET : -err;
	}
}

static uint32_t take(struct bl_recv_op *t)
{
	uint32_t chunk;

	if (t->handed_out)
		return BL_CHUNKS_NONE;
	if (t->chunks)
		chunk = bl_chunks_take(t->chunks, t->chunks_generation, t->count, false);
	else
		chunk = t->next < t->count ? t->next++ : BL_CHUNKS_NONE;
	if (chunk == BL_CHUNKS_NONE)
		t->handed_out = true;
	else
		t->taken++;
	return chunk;
}

/* After an error: nobody may be writing into the buffers when the receive ends. */
static bool wound_up(struct bl_recv_op *t, uint32_t counted)
{
	if (t->arrived < t->missing) /* the sender may be writing what it was asked for */
		return false;
	if (!t->chunks)
		return true;
	if (!t->stopped) {
		uint32_t front, end;

		stop(t, &front, &end);
		t->handed = t->count - (end - front);
	}
	return t->taken + counted + (bl_chunks_returned(t->chunks) < t->count) >= t->handed;
}

/* One step; true: it is over (complete or failed). */
static bool transfer_step(struct bl_ep *ep, struct bl_recv_op *t)
{
	uint32_t chunk = t->error ? BL_CHUNKS_NONE : take(t), counted = 0;

	if (chunk != BL_CHUNKS_NONE)
		pull(ep, t, chunk);
	if (t->chunks) {
		counted = bl_chunks_counted(t->chunks);
		chunk = bl_chunks_returned(t->chunks);
		if (unlikely(chunk < t->count && !t->got_back && !t->error)) {
			t->got_back = true;
			if (!bl_chunks_is_fault(t->chunks))
				bl_copy_unreached(&t->peer->copy, t->ours.n);
			pull(ep, t, chunk);
		}
	}
	if (unlikely(t->error))
		return wound_up(t, counted);
	return t->done + counted + t->unstreamed >= t->count && t->arrived >= t->missing;
}

static void transfer_remove(struct bl_ep *ep, uint32_t i)
{
	ep->rndv.transfer[i] = ep->rndv.transfer[--ep->rndv.ntransfer];
	ep->work--;
}

/* A coop descriptor for the transfer's chunks; false: all are in use. */
static bool lease(struct bl_ep *ep, struct bl_recv_op *t)
{
	uint64_t vacant = ~t->peer->chunks_busy & ((1ULL << BL_CHUNK_SETS) - 1);

	if (!vacant) { /* alone, then */
		bl_stat_add(ep, BL_STAT_fallback_alone, 1);
		return false;
	}
	t->chunks_index = (uint32_t)__builtin_ctzll(vacant);
	t->peer->chunks_busy |= 1ULL << t->chunks_index;
	t->chunks = &t->peer->tx.lane->chunks[t->chunks_index];
	t->chunks_generation = t->generation;
	bl_chunks_start(t->chunks, t->generation, t->count);
	return true;
}

/* Let the sender take chunks as well. */
static void share(struct bl_ep *ep, struct bl_recv_op *t)
{
	struct bl_cts cts;

	if (!lease(ep, t))
		return;
	cts.len = t->want;
	cts.chunk = t->chunk;
	cts.chunks = t->chunks_index;
	cts.generation = t->generation;

	bool rkeys = bl_rkeys_register(&t->ours, &t->peer->copy, t->mine, t->nmine, true);
	size_t len = bl_describe(cts.piece, t->mine, t->nmine, &t->ours);

	bl_control(ep, t->peer, BL_OP_CTS, t->request, rkeys ? BL_REGISTERED : 0, &cts,
		   offsetof(struct bl_cts, piece) + len);
}

/* Behind the packet that is being delivered is another one that announces a large message. */
static bool more_behind(const struct bl_peer *peer)
{
	const struct bl_slot *next = bl_rx_at(&peer->rx, peer->rx.next + 1);

	return next && bl_slot_announces(next);
}

/* Of several messages a sender that waits copies some, each of them wholly, while we copy others:
 * that takes fewer words between the two than a part of each. Not in a call that posts, for we may
 * leave. */
static bool is_senders(const struct bl_ep *ep, const struct bl_recv_op *t, bool early)
{
	return t->want >= BL_PROXY_MIN && t->want <= ALONE_MOST && !early &&
	       !ep->ways.habit.leaves && !ep->ways.proxy.posting && !t->end.multi &&
	       more_behind(t->peer) && bl_peer_idle(ep, t->peer);
}

static void plan(struct bl_ep *ep, struct bl_recv_op *t, bool early)
{
	const struct bl_limits *l = bl_limits();
	bool direct = t->peer->copy.pull == BL_COPY_VM || t->theirs_rkeys.n;

	if (!t->want)
		return;
	t->chunk = t->want;
	t->count = 1;
	if (direct && is_senders(ep, t, early)) {
		share(ep, t);
		t->cts_all = t->chunks != NULL;
		return;
	}
	if (t->peer->copy.pull == BL_COPY_SELF || t->want < l->split_min)
		return;
	if (ep->rndv.requests && t->want <= ALONE_MOST &&
	    bl_acks_in_sight(t->peer) < ep->rndv.requests)
		return; /* both processes are busy: a shared chunk would only cost */
	t->chunk = bl_policy_cut(l, t->want, &t->count);
	if (direct)
		share(ep, t);
}

void bl_recv_op_begin(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *arrival,
		      const struct bl_target *target)
{
	const struct iovec *mine = bl_target_iov(target);
	struct bl_recv_op *t = bl_recv_op_new(ep);

	bl_habit_back_now(ep);
	if (!++ep->ways.generation)
		ep->ways.generation = 1;
	t->generation = ep->ways.generation;
	t->peer = arrival->peer;
	t->request = arrival->request;
	t->end.tag = arrival->tag;
	t->end.data = arrival->data;
	t->sent = arrival->len;
	t->end.context = target->context;
	t->end.flags = target->flags | (arrival->slot_flags & BL_SLOT_DATA ? BL_REMOTE_CQ_DATA : 0);
	t->end.quiet = target->quiet;
	t->end.multi = target->multi;
	t->end.work = target->work;
	t->end.buf = mine[0].iov_base;
	t->want = bl_min(target->len, arrival->len);
	t->nmine = (uint32_t)bl_iov_slice(mine, target->niov, 0, t->want, t->mine);
	t->ntheirs = (uint32_t)bl_iov_slice(arrival->piece, arrival->npiece, 0, t->want, t->theirs);
	if (unlikely(arrival->slot_flags & BL_SLOT_RKEYS)) {
		t->theirs_rkeys.n = arrival->npiece;
		memcpy(t->theirs_rkeys.key, arrival->key, arrival->npiece * sizeof *arrival->key);
	}
	/* Its memory is somebody else's by now, even where it can still be read. */
	t->error = -bl_peer_life(t->peer);
	if (unlikely(t->peer->dead))
		t->error = (int)t->peer->dead;
	if (likely(!t->error))
		plan(ep, t, arrival->early);
	bl_window(BL_WINDOW_MATCHED, NULL);
	if (!t->cts_all && transfer_step(ep, t)) {
		transfer_end(ep, sink, t);
		return;
	}
	ep->rndv.transfer[ep->rndv.ntransfer++] = t;
	ep->work++;
}

/* --- both --------------------------------------------------------------- */

void bl_rndv_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	for (uint32_t i = 0; i < ep->rndv.ntransfer;) {
		struct bl_recv_op *t = ep->rndv.transfer[i];

		if (!transfer_step(ep, t)) {
			i++;
			continue;
		}
		transfer_remove(ep, i);
		transfer_end(ep, sink, t);
	}
}

static bool is_over(uint64_t until)
{
	return bl_is_due(bl_ticks(), until);
}

bool bl_rndv_finish_by(struct bl_ep *ep, struct bl_sink *sink, uint64_t until)
{
	for (uint32_t i = 0; i < ep->rndv.ntransfer;) {
		struct bl_recv_op *t = ep->rndv.transfer[i];
		bool over = false;

		while (!over && !t->handed_out && !t->error) {
			over = transfer_step(ep, t);
			if (unlikely(!over && is_over(until)))
				return false;
		}
		if (over) {
			transfer_remove(ep, i);
			transfer_end(ep, sink, t);
			if (unlikely(i < ep->rndv.ntransfer && is_over(until)))
				return false;
		} else {
			i++;
		}
	}
	return true;
}

void bl_rndv_finish(struct bl_ep *ep, struct bl_sink *sink)
{
	while (!bl_rndv_finish_by(ep, sink, bl_ticks() + BL_TICKS_AHEAD))
		;
}

void bl_rndv_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err)
{
	for (uint32_t i = 0; i < ep->rndv.ntransfer;) {
		struct bl_recv_op *t = ep->rndv.transfer[i];

		if (t->peer != peer) {
			i++;
			continue;
		}
		t->error = err; /* nobody is left who could write into its buffers */
		transfer_remove(ep, i);
		transfer_end(ep, sink, t);
	}
	for (uint32_t i = 0; i < ep->rndv.nrequest; i++)
		if (ep->rndv.request[i]->peer == peer)
			bl_send_op_end(ep, sink, ep->rndv.request[i], err);
}

/* The receive is over for its owner. Wait until its sender doesn't write any more. */
static void call_off(struct bl_ep *ep, struct bl_recv_op *t, struct bl_patience *patience)
{
	struct bl_sink none = BL_SINK_NONE;
	struct bl_peer *peer = t->peer;

	if (!t->error)
		t->error = ECANCELED;
	while (!peer->dead && !wound_up(t, t->chunks ? bl_chunks_counted(t->chunks) : 0) &&
	       /* What it is asked for it may send when it is back, which isn't waited for. */
	       !bl_patience_ends(patience, t->chunks ? peer->copy.pid : 0)) {
		int err = bl_peer_life(peer);

		if (err && (err != -ECONNRESET || !bl_peer_lingers(peer, bl_ticks())))
			break;
		ep->up->poll(ep, &none, peer); /* the bytes that it was asked for */
		sched_yield();
	}
}

void bl_rndv_close(struct bl_ep *ep)
{
	struct bl_patience patience = {0};

	for (uint32_t i = 0; i < ep->rndv.ntransfer; i++)
		call_off(ep, ep->rndv.transfer[i], &patience);
}

void bl_rndv_drop_all(struct bl_ep *ep)
{
	for (uint32_t i = 0; i < ep->rndv.ntransfer; i++)
		bl_rkeys_deregister(&ep->rndv.transfer[i]->ours);
	for (uint32_t i = 0; i < ep->rndv.nrequest; i++)
		if (ep->rndv.request[i]->peer) {
			bl_rkeys_deregister(&ep->rndv.request[i]->ours);
			free(ep->rndv.request[i]->copy);
		}
}
