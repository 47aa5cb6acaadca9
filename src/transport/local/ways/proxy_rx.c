/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * proxy_rx.c: the receiver's side of PROXY: receives that are published, and messages that senders
 * have claimed; see proxy.h. proxy_post.c publishes them, proxy_tx.c is the other side.
 * Serialised by the domain.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memcheck.h"
#include "base/window.h"
#include "core/match.h"
#include "core/stat.h"
#include "transport/local/ways/proxy_post.h"

static struct bl_sink no_sink; /* completions go to the queues */

/* --- claims that are none ------------------------------------------------ */

/* The advert says that its claimer has claimed it. */
static bool says_claimed(const struct bl_own_adverts *board, uint32_t i)
{
	uint64_t state = bl_advert_look(&board->shared->advert[i]);

	return BL_ADVERT_GENERATION(state) == board->generation[i] &&
	       BL_ADVERT_CLAIMER(state) == board->peer->setup.index &&
	       BL_ADVERT_STATE(state) >= BL_ADVERT_CLAIMED;
}

/* A message in the claimer's ring is about to claim the receive, or has; so may one have
 * been that was dropped when he died. */
static bool message_claims(const struct bl_own_adverts *board, uint32_t i)
{
	uint32_t rts = board->tagged[i] ? BL_OP_TAGGED_RTS : BL_OP_MSG_RTS;
	struct bl_peer *peer = board->peer, *name = bl_source_name(bl_ep_of(peer), peer);
	struct bl_rx rx = peer->rx;
	const struct bl_slot *slot;

	if (board->dropped)
		return true;
	for (; rx.next != peer->rx.next + BL_SLOTS && (slot = bl_rx_peek(&rx)); rx.next++) {
		uint32_t head = *(const volatile uint32_t *)&slot->head;
		uint64_t tag = *(const volatile uint64_t *)&slot->tag;
		uint32_t word;

		if (BL_HEAD_OP(head) != rts ||
		    !bl_match(board->post[i], name, board->tagged[i] ? tag : 0))
			continue;
		word = bl_taken_look(bl_taken_in(slot));
		if (BL_TAKEN_STATE(word) == BL_TAKEN_SENDER || word == BL_TAKEN_BY(i))
			return true;
	}
	return false;
}

/*
 * The claimer has changed a receive's state, and we want the receive for another message, or
 * to cancel it. Is there a message of his that takes it? Who keeps to the protocol
 * has put one into the ring, and said SENDER there, before he touched the state, which
 * we have just seen; he says CLAIMED after that, and neither is taken away until we have
 * read the message, from when on it is landing. Who has none there has broken
 * the protocol, and nobody else is to wait for him: no message of his has matched.
 */
static bool claim_stands(const struct bl_own_adverts *board, uint32_t i)
{
	struct bl_peer *peer = board->peer;

	if (board->landing[i] ||
	    ((board->passed[i] || says_claimed(board, i)) && message_claims(board, i)))
		return true;
	if (bl_peer_life(peer)) /* bl_ep_look() ends it anyway */
		return false;
	if (!peer->broken)
		bl_warn("process %u claimed a receive for no message; it is not listened to any "
			"more",
			peer->addr.pid);
	peer->broken = true; /* bl_ep_look() ends it */
	return false;
}

/* A claim that was believed once is for good: the message that wanted the receive has been
 * matched elsewhere, or waits, and none that comes later may have it. It ends with its
 * claimer, who is found out if the message that claimed it has come and claimed nothing. */
bool bl_proxy_revoke(struct bl_ep *ep, struct bl_post *post)
{
	struct bl_own_adverts *board = post->board;
	uint32_t i = post->advert;

	/* of the process that we are forked from */
	if (unlikely(!bl_ep_of(board->peer)->local.seg.header))
		return false;
	if (board->landing[i])
		return false;
	if (board->passed[i]) {
		claim_stands(board, i);
		return false;
	}
	if (!bl_advert_own(&board->shared->advert[i], board->generation[i]) &&
	    claim_stands(board, i)) {
		board->passed[i] = true;
		return false;
	}
	bl_adverts_revoke(board, i);
	return true;
}

struct bl_post **bl_proxy_match(struct bl_ep *ep, struct bl_post_queue *queue,
				const struct bl_peer *peer, uint64_t tag)
{
	struct bl_post **at = bl_match_find(queue, peer, tag), *post;

	while ((post = *at) && post->flags & BL_POST_PUBLISHED && !bl_proxy_revoke(ep, post))
		at = bl_match_next(queue, at, peer, tag);
	return at;
}

/* --- landing ------------------------------------------------------------- */

static struct bl_claimed *claimed_new(struct bl_ep *ep)
{
	struct bl_proxy *c = ep->ways.proxy.claims;
	struct bl_claimed *l;

	if (c->nclaimed == c->room) {
		uint32_t room = c->room ? 2 * c->room : 16;
		struct bl_claimed **grown = realloc(c->landing, room * sizeof(*grown));

		if (!grown)
			return NULL;
		c->landing = grown;
		c->room = room;
	}
	l = c->free;
	if (l)
		c->free = l->next_free;
	else
		l = bl_slab(ep, sizeof *l);
	return l;
}

/* The claimer's plan for two; nonsense in it: we don't help. */
static void read_plan(struct bl_claimed *l, const struct bl_advert *a)
{
	struct bl_peer *peer = l->arrival.peer;
	uint32_t chunks = atomic_load_explicit(&a->chunks, memory_order_relaxed);
	size_t chunk = atomic_load_explicit(&a->chunk, memory_order_relaxed);

	l->chunks = NULL;
	if (!chunks || chunks > BL_CHUNK_SETS || !chunk || (l->want - 1) / chunk >= BL_CHUNKS_MOST)
		return;
	l->chunks = &peer->rx.lane->chunks[chunks - 1];
	l->chunks_generation = atomic_load_explicit(&a->chunks_generation, memory_order_relaxed);
	l->chunk = chunk;
	l->count = (uint32_t)((l->want - 1) / chunk + 1);
}

/* Take a chunk of a copy that the claimer has begun. */
static void help(struct bl_ep *ep, struct bl_claimed *l, const struct bl_post *post)
{
	const struct iovec one = {post->buf, l->want}, *mine = post->niov > 1 ? post->iov : &one;
	struct bl_peer *peer = l->arrival.peer;
	uint32_t chunk;
	size_t off, len;
	int err;

	if (!l->chunks || l->refused || peer->copy.pull != BL_COPY_VM)
		return;
	chunk = bl_chunks_take(l->chunks, l->chunks_generation, l->count, true);
	if (chunk == BL_CHUNKS_NONE)
		return;
	bl_window(BL_WINDOW_JOINED, NULL);
	off = chunk * l->chunk;
	len = bl_min(l->chunk, l->want - off);
	bl_presence_busy(ep, len);
	err = bl_copy_pull(&peer->copy, mine, post->niov, l->piece, l->arrival.npiece, off, len);
	bl_presence_done(ep, len);
	if (err || bl_peer_life(peer)) {
		l->refused = true; /* the claimer leaves, and we begin anew */
	} else {
		bl_stat_add(ep, BL_STAT_pulled_bytes, len);
		bl_chunks_count(l->chunks);
	}
}

/* One step; true: the receive is over, or goes on as a transfer. */
static bool claimed_step(struct bl_ep *ep, struct bl_sink *sink, struct bl_claimed *l)
{
	struct bl_own_adverts *board = l->board;
	struct bl_post *post = board->post[l->index];
	uint64_t state = bl_advert_look(&board->shared->advert[l->index]);
	struct bl_peer *peer = l->arrival.peer;
	bool copy;

	if (unlikely(BL_ADVERT_GENERATION(state) != board->generation[l->index] ||
		     BL_ADVERT_CLAIMER(state) != peer->setup.index)) {
		peer->broken = true; /* bl_ep_look() ends it, and the receive with it */
		return false;
	}
	switch (BL_ADVERT_STATE(state)) {
	case BL_ADVERT_CLAIMED:
		help(ep, l, post);
		return false;
	case BL_ADVERT_DONE:
		copy = false;
		break;
	case BL_ADVERT_LEFT:
		copy = l->refused;
		break;
	case BL_ADVERT_YOURS:
		copy = true;
		break;
	default:
		peer->broken = true;
		return false;
	}
	if (copy && !bl_recv_op_ready(ep))
		return false;
	bl_adverts_revoke(board, l->index);
	if (!copy) {
		bl_stat_received(ep, BL_WAY_CLAIMED, l->arrival.len,
				 l->want < l->arrival.len ? BL_ETRUNC : 0);
		if (bl_was_away(ep))
			bl_stat_add(ep, BL_STAT_overlap_received_bytes, l->want);
		if (l->arrival.len < BL_PROXY_MIN && !bl_shares_core(ep))
			bl_habit_hit(ep->home);
	}
	if (!copy && BL_ADVERT_STATE(state) == BL_ADVERT_LEFT)
		bl_ack(ep, peer, l->arrival.request, 0);
	bl_recv_claimed(ep, sink, &l->arrival, post, board->tagged[l->index], copy);
	return true;
}

static void claimed_free(struct bl_ep *ep, uint32_t i)
{
	struct bl_proxy *c = ep->ways.proxy.claims;
	struct bl_claimed *l = c->landing[i];

	c->landing[i] = c->landing[--c->nclaimed];
	l->next_free = c->free;
	c->free = l;
	ep->ways.proxy.nclaimed--;
	ep->work--;
}

static bool land(struct bl_ep *ep, struct bl_sink *sink, struct bl_own_adverts *board, uint32_t i,
		 const struct bl_arrival *a)
{
	struct bl_claimed *l = claimed_new(ep);
	struct bl_proxy *c = ep->ways.proxy.claims;

	if (!l)
		return false;
	l->arrival = *a;
	memcpy(l->piece, a->piece, a->npiece * sizeof l->piece[0]);
	l->arrival.piece = l->piece;
	if (a->slot_flags & BL_SLOT_RKEYS)
		memcpy(l->key, a->key, a->npiece * sizeof l->key[0]);
	l->arrival.key = l->key;
	l->board = board;
	l->index = i;
	l->refused = false;
	l->want = bl_min(a->len, board->post[i]->len);
	read_plan(l, &board->shared->advert[i]);
	board->landing[i] = true;
	c->landing[c->nclaimed++] = l;
	ep->ways.proxy.nclaimed++;
	ep->work++;
	if (claimed_step(ep, sink, l))
		claimed_free(ep, c->nclaimed - 1);
	return true;
}

enum bl_proxy_rts bl_proxy_on_rts(struct bl_ep *ep, struct bl_sink *sink,
				  const struct bl_slot *slot, const struct bl_arrival *a,
				  bool tagged)
{
	_Atomic uint32_t *taken = bl_taken_in(slot);
	uint32_t word = bl_taken_look(taken), i = BL_TAKEN_ADVERT(word);
	struct bl_own_adverts *board = a->peer->board;

	bl_habit_back_now(ep);
	bl_proxy_took(ep, a->peer, a->len);
	if (BL_TAKEN_STATE(word) == BL_TAKEN_OPEN) {
		if (bl_taken_take(taken, BL_TAKEN_RECEIVER))
			return BL_PROXY_RTS_OURS;
		word = bl_taken_look(taken);
		i = BL_TAKEN_ADVERT(word);
	}
	switch (BL_TAKEN_STATE(word)) {
	case BL_TAKEN_CLOSED:
	case BL_TAKEN_RECEIVER: /* by us, before; then there was no memory */
		return BL_PROXY_RTS_OURS;
	case BL_TAKEN_OPEN: /* opened again since */
		return word == BL_TAKEN_OPEN ? BL_PROXY_RTS_WAIT : BL_PROXY_RTS_NONSENSE;
	case BL_TAKEN_SENDER:
		/* One that died over its decision leaves a message that is lost. */
		if (!bl_peer_life(a->peer))
			return BL_PROXY_RTS_WAIT;
		if (board)
			board->dropped = true;
		return BL_PROXY_RTS_DONE;
	case BL_TAKEN_WITHDRAWN:
		return BL_PROXY_RTS_DONE;
	case BL_TAKEN_CLAIMED:
		break;
	default:
		return BL_PROXY_RTS_NONSENSE;
	}
	if (!board || word != BL_TAKEN_BY(i) || i >= BL_ADVERTS || !board->post[i] ||
	    board->landing[i] || board->tagged[i] != tagged ||
	    !bl_match(board->post[i], bl_source_name(ep, a->peer), tagged ? a->tag : 0) ||
	    !says_claimed(board, i))
		return BL_PROXY_RTS_NONSENSE;
	return land(ep, sink, board, i, a) ? BL_PROXY_RTS_DONE : BL_PROXY_RTS_WAIT;
}

void bl_proxy_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	if (unlikely(!ep->local.seg.header))
		return;
	for (uint32_t i = 0; i < ep->ways.proxy.claims->nclaimed;)
		if (claimed_step(ep, sink, ep->ways.proxy.claims->landing[i]))
			claimed_free(ep, i);
		else
			i++;
}

/* --- the end ------------------------------------------------------------- */

/* All of it is there, whatever has become of its claimer since. */
static bool has_landed(const struct bl_claimed *l)
{
	const struct bl_own_adverts *board = l->board;
	uint64_t state = bl_advert_look(&board->shared->advert[l->index]);

	return BL_ADVERT_GENERATION(state) == board->generation[l->index] &&
	       BL_ADVERT_CLAIMER(state) == l->arrival.peer->setup.index &&
	       (BL_ADVERT_STATE(state) == BL_ADVERT_DONE ||
		(BL_ADVERT_STATE(state) == BL_ADVERT_LEFT && !l->refused));
}

bl_cold void bl_proxy_last(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err)
{
	struct bl_proxy *c = ep->ways.proxy.claims;

	if (!peer->board || err == -EPROTO) /* nothing of it is believed any more */
		return;
	for (uint32_t i = 0; i < c->nclaimed;)
		if (c->landing[i]->board == peer->board && has_landed(c->landing[i]) &&
		    claimed_step(ep, sink, c->landing[i]))
			claimed_free(ep, i);
		else
			i++;
}

bl_cold void bl_proxy_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err)
{
	struct bl_own_adverts *board = peer->board; /* there are claims of ep, too, then */
	struct bl_proxy *c = ep->ways.proxy.claims;
	struct bl_ep *home = ep->home;

	if (!home->ways.proxy.claims)
		return;
	bl_predict_forget(&home->ways.proxy.claims->guesses, peer);
	bl_proxy_neighbours(home);
	for (uint32_t i = 0; board && i < c->nclaimed;) {
		struct bl_claimed *l = c->landing[i];
		uint32_t at = l->index;

		if (l->board != board) {
			i++;
			continue;
		}
		struct bl_post *post = board->post[at];

		bl_adverts_revoke(board, at);
		claimed_free(ep, i);
		bl_recv_fail(ep, sink, post, board->tagged[at], err);
	}
	if (!board)
		return;
	/*
	 * What a message of its that we have not read, or have dropped, had claimed, ends
	 * as well. What else is there stays posted and isn't shown: the lane is somebody
	 * else's soon. Who claims it at this very moment is alive, has broken the
	 * protocol, and harms only itself.
	 */
	for (uint64_t used = board->used; used; used &= used - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(used);
		struct bl_post *post = board->post[i];
		bool lost = (!bl_advert_own(&board->shared->advert[i], board->generation[i]) &&
			     peer->adopted && says_claimed(board, i) && message_claims(board, i)) ||
			    board->passed[i];

		bl_adverts_revoke(board, i);
		if (lost)
			bl_recv_fail(ep, sink, post, board->tagged[i], err);
	}
	peer->board = NULL;
}

/* Not even a thread of a dead one that is still in the kernel writes into our memory. */
static bool has_stopped(struct bl_peer *peer)
{
	int err = bl_peer_life(peer);

	return err && (err != -ECONNRESET || !bl_peer_lingers(peer, bl_ticks()));
}

static void close_board(struct bl_own_adverts *board, struct bl_patience *patience)
{
	for (uint64_t used = board->used; used; used &= used - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(used);
		struct bl_advert *a = &board->shared->advert[i];

		if (bl_advert_own(a, board->generation[i]) || !claim_stands(board, i))
			continue;
		board->lost |= 1ULL << i;
		while (BL_ADVERT_STATE(bl_advert_look(a)) == BL_ADVERT_CLAIMED &&
		       !has_stopped(board->peer) &&
		       /* It may compute for as long between two pieces: see no more of it. */
		       !bl_patience_ends(patience, 0))
			sched_yield();
	}
}

/* Its member closes, the context's receives live on, unless they have been claimed. */
static void leave_queue(struct bl_ep *ep, const struct bl_post_queue *queue, bool tagged)
{
	for (struct bl_post *post = queue->head, *next; post; post = next) {
		struct bl_own_adverts *board = post->board;
		uint32_t i = post->advert;

		next = post->next;
		if (!(post->flags & BL_POST_PUBLISHED) || bl_ep_of(board->peer) != ep)
			continue;
		if (unlikely(!ep->local.seg.header)) { /* forked: the board isn't mapped */
			post->flags &= ~BL_POST_PUBLISHED;
			continue;
		}
		bl_adverts_revoke(board, i);
		if (board->lost & 1ULL << i)
			bl_recv_fail(ep, &no_sink, post, tagged, ECANCELED);
	}
}

static void leave_home(struct bl_ep *ep)
{
	struct bl_ep *home = ep->home;

	if (home == ep || !home->ways.proxy.claims)
		return;
	pthread_mutex_lock(&ep->local.lock);
	for (struct bl_peer *p = ep->local.peers.all; p; p = p->next.all)
		bl_predict_forget(&home->ways.proxy.claims->guesses, p);
	for (struct bl_peer *p = ep->local.peers.gone; p; p = p->next.all)
		bl_predict_forget(&home->ways.proxy.claims->guesses, p);
	pthread_mutex_unlock(&ep->local.lock);
	leave_queue(ep, &home->tagged.posted, true);
	leave_queue(ep, &home->msg.posted, false);
}

void bl_proxy_close(struct bl_ep *ep)
{
	struct bl_patience patience = {0};

	if (ep->ways.proxy.claims && ep->local.enabled) {
		/* Connected or nearly: who doesn't know it yet may have shown receives. */
		pthread_mutex_lock(&ep->local.lock);
		for (struct bl_peer *p = ep->local.peers.all; p; p = p->next.all)
			if (p->board)
				close_board(p->board, &patience);
		pthread_mutex_unlock(&ep->local.lock);
	}
	leave_home(ep);
	if (ep->ways.proxy.claims)
		free(ep->ways.proxy.claims->landing);
}

static void claimed_is_there(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *a,
			     const struct bl_target *t)
{
	bl_memcheck_written(bl_target_iov(t), t->niov, bl_min(a->len, t->len));
	bl_target_over(ep, sink, a->peer, t, a->len, a->tag, a->data, bl_slot_data(a->slot_flags));
	bl_buffers_used(ep, a->peer, bl_target_iov(t), t->niov, bl_min(a->len, t->len));
}

void bl_recv_claimed(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *a,
		     struct bl_post *post, bool tagged, bool copy)
{
	struct bl_post_queue *queue = tagged ? &ep->home->tagged.posted : &ep->home->msg.posted;
	struct bl_target t;
	bool spent;

	bl_post_unlink(queue, bl_post_link(queue, post));
	bl_proxy_came(ep, post, tagged, a->peer, a->len);
	t = bl_post_target(ep, NULL, &post, a->len, tagged, &spent);
	bl_cq_moved(ep, ep->bound.rx_cq, a->len);
	if (unlikely(copy))
		ep->up->pull(ep, sink, a, &t);
	else
		claimed_is_there(ep, sink, a, &t);
	bl_post_release(ep->home, post);
}
