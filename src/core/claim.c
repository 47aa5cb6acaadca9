/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * claim.c: the receiver's side of claims: boards, and messages that senders have
 * claimed; see claim.h. claim_send.c is the other side. Serialised by the domain.
 */
#include "core/claim.h"

#include "core/stat.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_BACK     64u /* receives before one to be shown; more: it isn't */
#define AGAIN_US      2u  /* between two attempts to show what could not be shown */
#define CLOSE_WAIT_NS 1000000000ull

/* Our own copy of what is on a board of ours. */
struct bl_own_board {
	struct bl_board *shared;
	uint64_t used;
	struct bl_post *post[BL_ADVERTS];
	uint32_t generation[BL_ADVERTS];
	bool tagged[BL_ADVERTS];
	bool landing[BL_ADVERTS]; /* its RTS has been read */
};

/* A claimed message whose RTS has been read, until its receive is over. */
struct bl_landing {
	struct bl_landing *next_free;
	struct bl_arrival arrival;
	struct iovec piece[BL_IOV_MAX];
	struct bl_key key[BL_KEYS];
	struct bl_own_board *board;
	uint32_t index;
	/* helping */
	struct bl_coop *coop; /* NULL: the claimer copies alone */
	uint32_t coop_generation, count;
	size_t chunk, want;
	bool refused; /* the kernel doesn't let us: a chunk is missing */
};

/* All that an endpoint needs for its part; made with the first large receive. */
struct bl_claims {
	struct bl_own_board any;
	uint64_t number;
	uint32_t generation;
	struct bl_landing **landing;
	uint32_t nlanding, room;
	struct bl_landing *free;
	uint64_t next_again; /* ticks */
};

static struct bl_sink no_sink; /* completions go to the queues */

/* --- boards -------------------------------------------------------------- */

static struct bl_claims *claims_of(struct bl_ep *ep)
{
	if (unlikely(!ep->claims)) {
		struct bl_claims *c = bl_slab(ep, sizeof *c);

		if (!c || !ep->local.seg.header)
			return NULL;
		c->any.shared = &ep->local.seg.header->board;
		ep->claims = c;
	}
	return ep->claims;
}

/* Our lane to the peer; the service thread may have made it before we knew it. */
static struct bl_lane *lane_to(struct bl_peer *peer)
{
	struct bl_lane *lane;

	if (likely(peer->adopted))
		return peer->tx.lane;
	pthread_mutex_lock(&peer->local->lock);
	lane = peer->has_lane ? peer->tx.lane : NULL;
	pthread_mutex_unlock(&peer->local->lock);
	return lane;
}

static struct bl_own_board *board_of(struct bl_ep *ep, struct bl_peer *src)
{
	struct bl_lane *lane;

	if (!src)
		return &ep->claims->any;
	if (unlikely(src->dead))
		return NULL;
	if (unlikely(!src->board)) {
		lane = lane_to(src);
		if (!lane)
			return NULL;
		src->board = bl_slab(ep, sizeof *src->board);
		if (!src->board)
			return NULL;
		src->board->shared = &lane->board;
	}
	return src->board;
}

static void hurry(struct bl_ep *ep, struct bl_peer *peer)
{
	bool lane = peer->board && peer->board->used;

	if (!peer->adopted)
		return;
	peer->rx.hurry = lane || ep->claims->any.used ? BL_CREDIT_EVERY - 1 : 0;
	if (peer->rx.credited != peer->rx.next - peer->rx.hurry)
		bl_rx_credit(&peer->rx);
}

/* Tell those who can see the board how far we have read, if they are to know it
 * exactly from now on, or no longer. */
static void hurry_all(struct bl_ep *ep, struct bl_peer *src)
{
	if (src) {
		hurry(ep, src);
		return;
	}
	for (uint32_t i = 0; i < ep->local.nby_index; i++)
		if (ep->local.by_index[i])
			hurry(ep, ep->local.by_index[i]);
}

void bl_claim_meet(struct bl_ep *ep, struct bl_peer *peer)
{
	if (ep->claims)
		hurry(ep, peer);
}

static bool overlap(const struct bl_post *a, const struct bl_post *b)
{
	return !((a->tag ^ b->tag) & ~a->ignore & ~b->ignore) &&
	       (!a->src || !b->src || a->src == b->src);
}

/* Every receive before this one that may take the same message is shown as well. */
static bool may_show(const struct bl_post_queue *queue, const struct bl_post *post)
{
	uint32_t looked = 0;

	for (const struct bl_post *p = queue->head; p != post; p = p->next)
		if ((!(p->flags & BL_POST_SHARED) && overlap(p, post)) || ++looked > LOOK_BACK)
			return false;
	return true;
}

static bool suitable(const struct bl_post *post)
{
	return post->len >= BL_CLAIM_MIN && post->niov <= 1 &&
	       !(post->flags & (BL_POST_MULTI | BL_POST_SHARED));
}

/* Show it on the board that its senders look at; false: not now. */
static bool show(struct bl_ep *ep, struct bl_post *post, bool tagged)
{
	struct bl_own_board *board;
	struct bl_found f;
	uint32_t i;

	if (unlikely(!ep->local.seg.header) || !may_show(tagged ? &ep->tagged : &ep->msg, post))
		return false;
	board = board_of(ep, post->src);
	if (!board || !~(board->used | ~(UINT64_MAX >> (64 - BL_ADVERTS))))
		return false;
	i = (uint32_t)__builtin_ctzll(~board->used);
	if (!++ep->claims->generation)
		ep->claims->generation = 1;
	f = (struct bl_found){NULL,
			      i,
			      ep->claims->generation,
			      ++ep->claims->number,
			      post->tag,
			      post->ignore,
			      (uintptr_t)post->buf,
			      post->len};
	board->post[i] = post;
	board->generation[i] = f.generation;
	board->tagged[i] = tagged;
	board->landing[i] = false;
	post->flags |= BL_POST_SHARED;
	post->advert = i;
	if (!board->used) {
		board->used = 1ULL << i;
		hurry_all(ep, post->src);
	} else {
		board->used |= 1ULL << i;
	}
	bl_board_post(board->shared, board->used, &f, tagged);
	return true;
}

static void retire(struct bl_ep *ep, struct bl_own_board *board, uint32_t i)
{
	struct bl_post *post = board->post[i];

	post->flags &= ~BL_POST_SHARED;
	board->post[i] = NULL;
	board->used &= ~(1ULL << i);
	bl_board_retire(board->shared, board->used);
	if (!board->used)
		hurry_all(ep, post->src);
}

bool bl_claim_take_back(struct bl_ep *ep, struct bl_post *post)
{
	struct bl_own_board *board = post->src ? post->src->board : &ep->claims->any;
	uint32_t i = post->advert;

	if (unlikely(!ep->local.seg.header)) /* of the process that we are forked from */
		return false;
	if (board->landing[i] || !bl_advert_own(&board->shared->advert[i], board->generation[i]))
		return false;
	retire(ep, board, i);
	return true;
}

struct bl_post **bl_claim_match(struct bl_ep *ep, struct bl_post_queue *queue,
				const struct bl_peer *peer, uint64_t tag)
{
	struct bl_post **at = &queue->head, *post;

	for (; (post = *at); at = &post->next)
		if (bl_match(post, peer, tag) &&
		    (!(post->flags & BL_POST_SHARED) || bl_claim_take_back(ep, post)))
			break;
	return at;
}

/* --- posting ------------------------------------------------------------- */

static void look_at_rings(struct bl_ep *ep, struct bl_peer *src)
{
	struct bl_sink none = {.cq = &bl_no_queue, .max = SIZE_MAX};

	if (unlikely(atomic_load_explicit(&ep->local.attention, memory_order_relaxed)))
		bl_ep_adopt(ep);
	if (src) {
		if (src->adopted && !src->dead)
			bl_poll_peer(ep, &none, src);
		return;
	}
	for (uint32_t i = 0; i < ep->local.nhot; i++)
		bl_poll_peer(ep, &none, ep->local.hot[i]);
	if (ep->local.ncold)
		bl_ep_bells(ep, &none);
}

void bl_claim_posted(struct bl_ep *ep, struct bl_post *post, bool tagged)
{
	struct bl_peer *src = post->src;

	if (bl_knobs()->overlap == BL_OVERLAP_NEVER)
		return;
	if (suitable(post) && claims_of(ep) && !show(ep, post, tagged))
		ep->unshown = true;
	if (ep->leaves) {
		bl_claim_fence();
		bl_say_here(ep, bl_ticks());
		ep->posting = true;
		look_at_rings(ep, src);
		ep->posting = false;
		bl_large_finish(ep, &no_sink);
	}
	bl_claim_leave(ep);
}

/* Show what can be shown of a queue; true: something has been. */
static bool show_queue(struct bl_ep *ep, bool tagged, bool *left)
{
	uint32_t looked = 0;
	bool any = false;

	for (struct bl_post *p = (tagged ? &ep->tagged : &ep->msg)->head; p && looked < LOOK_BACK;
	     p = p->next, looked++) {
		if (!suitable(p) || (p->src && p->src->dead))
			continue;
		if (show(ep, p, tagged))
			any = true;
		else
			*left = true;
	}
	return any;
}

bl_cold void bl_claim_again(struct bl_ep *ep)
{
	uint64_t now = bl_ticks();
	bool any, left = false;

	if ((int64_t)(now - ep->claims->next_again) < 0)
		return;
	ep->claims->next_again = now + AGAIN_US * bl_ticks_per_us();
	any = show_queue(ep, true, &left);
	any |= show_queue(ep, false, &left);
	ep->unshown = left;
	if (!any)
		return;
	bl_claim_fence();
	look_at_rings(ep, NULL);
	bl_large_finish(ep, &no_sink);
}

/* --- landing ------------------------------------------------------------- */

static struct bl_landing *landing_new(struct bl_ep *ep)
{
	struct bl_claims *c = ep->claims;
	struct bl_landing *l;

	if (c->nlanding == c->room) {
		uint32_t room = c->room ? 2 * c->room : 16;
		struct bl_landing **grown = realloc(c->landing, room * sizeof(*grown));

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
static void read_plan(struct bl_landing *l, const struct bl_advert *a)
{
	struct bl_peer *peer = l->arrival.peer;
	uint32_t coop = atomic_load_explicit(&a->coop, memory_order_relaxed);
	size_t chunk = atomic_load_explicit(&a->chunk, memory_order_relaxed);

	l->coop = NULL;
	if (!coop || coop > BL_COOPS || !chunk || (l->want - 1) / chunk >= BL_COOP_MOST)
		return;
	l->coop = &peer->rx.lane->coop[coop - 1];
	l->coop_generation = atomic_load_explicit(&a->coop_generation, memory_order_relaxed);
	l->chunk = chunk;
	l->count = (uint32_t)((l->want - 1) / chunk + 1);
}

/* Take a chunk of a copy that the claimer has begun. */
static void help(struct bl_ep *ep, struct bl_landing *l, const struct bl_post *post)
{
	struct iovec mine = {post->buf, l->want};
	struct bl_peer *peer = l->arrival.peer;
	uint32_t chunk;
	size_t off, len;
	int err;

	if (!l->coop || l->refused || peer->copy.pull != BL_COPY_VM)
		return;
	chunk = bl_coop_take(l->coop, l->coop_generation, l->count, true);
	if (chunk == BL_COOP_NONE)
		return;
	off = chunk * l->chunk;
	len = bl_min(l->chunk, l->want - off);
	bl_say_busy(ep, len);
	err = bl_copy_pull(&peer->copy, &mine, 1, l->piece, l->arrival.npiece, off, len);
	bl_say_done(ep, len);
	if (err || bl_peer_life(peer)) {
		l->refused = true; /* the claimer leaves, and we begin anew */
	} else {
		bl_stat_add(ep, BL_STAT_pulled_bytes, len);
		bl_coop_count(l->coop);
	}
}

/* One step; true: the receive is over, or goes on as a transfer. */
static bool landing_step(struct bl_ep *ep, struct bl_sink *sink, struct bl_landing *l)
{
	struct bl_own_board *board = l->board;
	struct bl_post *post = board->post[l->index];
	uint64_t state = bl_advert_look(&board->shared->advert[l->index]);
	struct bl_peer *peer = l->arrival.peer;
	bool copy;

	if (unlikely(BL_ADVERT_GENERATION(state) != board->generation[l->index] ||
		     BL_ADVERT_CLAIMER(state) != peer->index)) {
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
	if (copy && !bl_transfer_ready(ep))
		return false;
	retire(ep, board, l->index);
	if (!copy)
		bl_stat_received(ep, BL_WAY_CLAIMED, l->arrival.len,
				 l->want < l->arrival.len ? BL_ETRUNC : 0);
	if (!copy && BL_ADVERT_STATE(state) == BL_ADVERT_LEFT)
		bl_control(ep, peer, BL_OP_FIN, l->arrival.request, 0, NULL, 0);
	bl_recv_claimed(ep, sink, &l->arrival, post, board->tagged[l->index], copy);
	return true;
}

static void landing_free(struct bl_ep *ep, uint32_t i)
{
	struct bl_claims *c = ep->claims;
	struct bl_landing *l = c->landing[i];

	c->landing[i] = c->landing[--c->nlanding];
	l->next_free = c->free;
	c->free = l;
	ep->nlanding--;
	ep->work--;
}

static bool land(struct bl_ep *ep, struct bl_sink *sink, struct bl_own_board *board, uint32_t i,
		 const struct bl_arrival *a)
{
	struct bl_landing *l = landing_new(ep);
	struct bl_claims *c = ep->claims;

	if (!l)
		return false;
	l->arrival = *a;
	memcpy(l->piece, a->piece, a->npiece * sizeof l->piece[0]);
	l->arrival.piece = l->piece;
	if (a->slot_flags & BL_SLOT_LENT)
		memcpy(l->key, a->key, a->npiece * sizeof l->key[0]);
	l->arrival.key = l->key;
	l->board = board;
	l->index = i;
	l->refused = false;
	l->want = bl_min(a->len, board->post[i]->len);
	read_plan(l, &board->shared->advert[i]);
	board->landing[i] = true;
	c->landing[c->nlanding++] = l;
	ep->nlanding++;
	ep->work++;
	if (landing_step(ep, sink, l))
		landing_free(ep, c->nlanding - 1);
	return true;
}

/* The advert says that the peer has claimed it. */
static bool claimed_by(const struct bl_own_board *board, uint32_t i, const struct bl_peer *peer)
{
	uint64_t state = bl_advert_look(&board->shared->advert[i]);

	return BL_ADVERT_GENERATION(state) == board->generation[i] &&
	       BL_ADVERT_CLAIMER(state) == peer->index &&
	       BL_ADVERT_STATE(state) >= BL_ADVERT_CLAIMED;
}

enum bl_claim_rts bl_claim_on_rts(struct bl_ep *ep, struct bl_sink *sink,
				  const struct bl_slot *slot, const struct bl_arrival *a,
				  bool tagged)
{
	/* The slot is the sender's; this word is for both to write. */
	_Atomic uint32_t *taken =
		(_Atomic uint32_t *)(uintptr_t)(slot->bytes + offsetof(struct bl_rts, taken));
	uint32_t word = bl_taken_look(taken), i = BL_TAKEN_ADVERT(word);
	struct bl_own_board *board;

	bl_claim_back_now(ep);
	if (BL_TAKEN_STATE(word) == BL_TAKEN_OPEN) {
		if (bl_taken_take(taken, BL_TAKEN_RECEIVER))
			return BL_CLAIM_RTS_OURS;
		word = bl_taken_look(taken);
		i = BL_TAKEN_ADVERT(word);
	}
	switch (BL_TAKEN_STATE(word)) {
	case BL_TAKEN_CLOSED:
	case BL_TAKEN_RECEIVER: /* by us, before; then there was no memory */
		return BL_CLAIM_RTS_OURS;
	case BL_TAKEN_OPEN: /* opened again since */
		return word == BL_TAKEN_OPEN ? BL_CLAIM_RTS_WAIT : BL_CLAIM_RTS_NONSENSE;
	case BL_TAKEN_SENDER:
		/* One that died over its decision leaves a message that is lost. */
		return bl_peer_life(a->peer) ? BL_CLAIM_RTS_DONE : BL_CLAIM_RTS_WAIT;
	case BL_TAKEN_CLAIMED:
		break;
	default:
		return BL_CLAIM_RTS_NONSENSE;
	}
	if (!ep->claims || i >= BL_ADVERTS)
		return BL_CLAIM_RTS_NONSENSE;
	board = BL_TAKEN_ANYBODYS(word) ? &ep->claims->any : a->peer->board;
	if (!board || !board->post[i] || board->landing[i] || board->tagged[i] != tagged ||
	    !bl_match(board->post[i], a->peer, tagged ? a->tag : 0) ||
	    !claimed_by(board, i, a->peer))
		return BL_CLAIM_RTS_NONSENSE;
	return land(ep, sink, board, i, a) ? BL_CLAIM_RTS_DONE : BL_CLAIM_RTS_WAIT;
}

void bl_claim_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	if (unlikely(!ep->local.seg.header))
		return;
	for (uint32_t i = 0; i < ep->claims->nlanding;)
		if (landing_step(ep, sink, ep->claims->landing[i]))
			landing_free(ep, i);
		else
			i++;
}

/* --- the end ------------------------------------------------------------- */

/* Receives on a board that the peer has claimed end with err. */
static void abandon_board(struct bl_ep *ep, struct bl_sink *sink, struct bl_own_board *board,
			  struct bl_peer *peer, int err)
{
	for (uint64_t used = board->used; used; used &= used - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(used);
		uint64_t state = bl_advert_look(&board->shared->advert[i]);
		struct bl_post *post = board->post[i];

		if (board->landing[i] || (board->generation[i] == BL_ADVERT_GENERATION(state) &&
					  (BL_ADVERT_STATE(state) <= BL_ADVERT_OPEN ||
					   BL_ADVERT_CLAIMER(state) != peer->index)))
			continue;
		retire(ep, board, i);
		bl_recv_fail(ep, sink, post, board->tagged[i], err);
	}
}

bl_cold void bl_claim_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err)
{
	struct bl_claims *c = ep->claims;

	if (!c)
		return;
	for (uint32_t i = 0; i < c->nlanding;) {
		struct bl_landing *l = c->landing[i];

		if (l->arrival.peer != peer) {
			i++;
			continue;
		}
		struct bl_own_board *board = l->board;
		struct bl_post *post = board->post[l->index];

		retire(ep, board, l->index);
		landing_free(ep, i);
		bl_recv_fail(ep, sink, post, board->tagged[l->index], err);
	}
	abandon_board(ep, sink, &c->any, peer, err);
	if (!peer->board)
		return;
	abandon_board(ep, sink, peer->board, peer, err);
	/* What stays posted isn't shown: the lane is somebody else's soon. Who claims it
	 * at this very moment is alive, has broken the protocol, and harms only itself. */
	for (uint64_t used = peer->board->used; used; used &= used - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(used);

		bl_advert_own(&peer->board->shared->advert[i], peer->board->generation[i]);
		retire(ep, peer->board, i);
	}
	peer->board = NULL;
}

/* One that broke the protocol and lives still sees what is shown to anybody. */
bl_cold void bl_claim_sweep(struct bl_ep *ep, struct bl_sink *sink)
{
	if (!ep->claims)
		return;
	pthread_mutex_lock(&ep->local.lock);
	for (struct bl_peer *p = ep->local.all; p; p = p->next_all)
		if (p->dead == EPROTO)
			abandon_board(ep, sink, &ep->claims->any, p, EPROTO);
	pthread_mutex_unlock(&ep->local.lock);
}

/* Not even a thread of a dead one that is still in the kernel writes into our memory. */
static bool has_stopped(struct bl_peer *peer)
{
	int err = bl_peer_life(peer);

	return err && (err != -ECONNRESET || !bl_peer_lingers(peer, bl_ticks()));
}

static void close_board(struct bl_ep *ep, struct bl_own_board *board, uint64_t until)
{
	for (uint64_t used = board->used; used; used &= used - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(used), who;
		struct bl_advert *a = &board->shared->advert[i];
		struct bl_peer *peer;
		uint64_t state;

		if (bl_advert_own(a, board->generation[i]))
			continue;
		while (state = bl_advert_look(a), BL_ADVERT_STATE(state) == BL_ADVERT_CLAIMED) {
			who = BL_ADVERT_CLAIMER(state);
			peer = who < ep->local.nby_index ? ep->local.by_index[who] : NULL;
			if ((peer && has_stopped(peer)) || bl_clock_ns() > until)
				break;
			sched_yield();
		}
	}
}

void bl_claim_close(struct bl_ep *ep)
{
	uint64_t until = bl_clock_ns() + CLOSE_WAIT_NS;

	if (!ep->claims)
		return;
	if (ep->local.enabled) {
		close_board(ep, &ep->claims->any, until);
		/* Connected or nearly: who doesn't know it yet may have shown receives. */
		pthread_mutex_lock(&ep->local.lock);
		for (struct bl_peer *p = ep->local.all; p; p = p->next_all)
			if (p->board)
				close_board(ep, p->board, until);
		pthread_mutex_unlock(&ep->local.lock);
	}
	free(ep->claims->landing);
}
