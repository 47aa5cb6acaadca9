/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * proxy_post.c: which receives are published to whom; see proxy.h. Serialised by the domain.
 */
#include "transport/local/ways/proxy_post.h"

#include <string.h>

#include "transport/local/adapt/dirty.h"

#define LOOK_BACK     64u /* receives before one to be shown; more: it isn't */
#define AGAIN_US      2u  /* between two attempts to show what could not be shown; */
#define AGAIN_MOST_US 16u /* it doubles while they are in vain */

static struct bl_sink no_sink; /* completions go to the queues */

/* --- boards -------------------------------------------------------------- */

static struct bl_proxy *claims_of(struct bl_ep *ep)
{
	if (unlikely(!ep->ways.proxy.claims)) {
		struct bl_proxy *c = bl_slab(ep, sizeof *c);

		if (!c)
			return NULL;
		c->again_us = AGAIN_US;
		ep->ways.proxy.claims = c;
	}
	return ep->ways.proxy.claims;
}

/* Our lane to the peer; the service thread may have made it before we knew it. */
static struct bl_lane *lane_to(struct bl_peer *peer)
{
	struct bl_lane *lane;

	if (likely(peer->adopted))
		return peer->tx.lane;
	pthread_mutex_lock(&peer->local->lock);
	lane = peer->setup.has_lane ? peer->tx.lane : NULL;
	pthread_mutex_unlock(&peer->local->lock);
	return lane;
}

static struct bl_own_adverts *board_of(struct bl_ep *ep, struct bl_peer *src)
{
	struct bl_lane *lane;

	if (unlikely(src->dead))
		return NULL;
	if (unlikely(!src->board)) {
		lane = lane_to(src);
		if (!lane)
			return NULL;
		src->board = bl_slab(ep, sizeof *src->board);
		if (!src->board)
			return NULL;
		src->board->peer = src;
		src->board->shared = &lane->board;
	}
	return src->board;
}

/* Tell who can see a board how far we have read, if it is to know that exactly from
 * now on, or no longer. */
static void exact_credits(struct bl_peer *peer)
{
	if (!peer->adopted)
		return;
	peer->rx.exact_credits = peer->board && peer->board->used ? BL_CREDIT_EVERY - 1 : 0;
	if (peer->rx.credited != peer->rx.next - peer->rx.exact_credits)
		bl_rx_credit(&peer->rx);
}

/* --- an endpoint, or a context's members ---------------------------------- */

static uint32_t members(const struct bl_ep *home)
{
	return home->shared ? home->srx.nmember : 1;
}

static struct bl_ep *member(struct bl_ep *home, uint32_t i)
{
	return home->shared ? home->srx.member[i] : home;
}

/* There is something to be shown as soon as that is possible: whoever is idle tries. */
static void set_unpublished(struct bl_ep *home, bool unpublished)
{
	for (uint32_t i = 0; i < members(home); i++)
		member(home, i)->ways.proxy.unpublished = unpublished;
}

void bl_proxy_neighbours(struct bl_ep *home)
{
	if (!home->ways.proxy.claims)
		return;
	home->ways.proxy.claims->counted = false;
	set_unpublished(home, true);
}

void bl_proxy_meet(struct bl_ep *ep, struct bl_peer *peer)
{
	if (!ep->home->ways.proxy.claims)
		return;
	exact_credits(peer);
	bl_proxy_neighbours(ep->home);
}

/* It may send more, and claim. */
static bool may_claim(const struct bl_peer *peer)
{
	return !peer->dead && peer->copy.pull != BL_COPY_SELF;
}

void bl_proxy_learn(struct bl_ep *ep, const struct bl_post *post, bool tagged, struct bl_peer *peer)
{
	struct bl_ep *home = ep->home;

	if (bl_knobs()->overlap == BL_OVERLAP_NEVER)
		return; /* nothing is shown */
	/* The first receive may find its message waiting, before any has been shown. */
	if (claims_of(home) && may_claim(peer) &&
	    bl_predict_learn(&home->ways.proxy.claims->guesses, tagged, post->tag, post->ignore,
			     peer))
		set_unpublished(home, true);
}

static uint32_t count_neighbours(struct bl_ep *ep, struct bl_peer **last)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		struct bl_peer *peer = ep->local.by_index[i];

		if (peer && may_claim(peer)) {
			*last = peer;
			n++;
		}
	}
	return n;
}

/* The only neighbour there is, apart from this process, or NULL. */
static struct bl_peer *only_neighbour(struct bl_ep *home)
{
	struct bl_proxy *c = home->ways.proxy.claims;
	uint32_t n = 0;

	if (likely(c->counted))
		return c->only;
	c->only = NULL;
	for (uint32_t i = 0; i < members(home); i++)
		n += count_neighbours(member(home, i), &c->only);
	if (n > 1)
		c->only = NULL;
	c->counted = true;
	return c->only;
}

/* What a context's receives call a neighbour of one of its members; else itself. */
static struct bl_peer *name_of(struct bl_peer *peer)
{
	return bl_source_name(bl_ep_of(peer), peer);
}

/* The source of a context's receive, as the neighbour of the first member that knows it. */
static struct bl_peer *first_neighbour(struct bl_ep *home, const struct bl_peer *name)
{
	for (uint32_t i = 0; i < home->srx.nmember; i++) {
		struct bl_peer *peer = bl_local_find(&home->srx.member[i]->local, &name->addr);

		if (peer && peer->adopted && may_claim(peer))
			return peer;
	}
	return NULL;
}

static bool overlap(const struct bl_post *a, const struct bl_post *b)
{
	return !((a->tag ^ b->tag) & ~a->ignore & ~b->ignore);
}

/*
 * Whom a receive that several may serve can be shown to: one from anybody, or a context's
 * from one source, which may send to any member. If an earlier one may take the same
 * messages: who can see that one, and nobody if nobody can. NULL: nobody, for now.
 */
static struct bl_peer *claimer_for(struct bl_ep *home, const struct bl_post_queue *queue,
				   const struct bl_post *post, bool tagged)
{
	struct bl_peer *peer = only_neighbour(home);
	uint32_t looked = 0; /* may_show() will look no further */

	if (!peer) {
		for (const struct bl_post *p = queue->head; p != post && looked < LOOK_BACK;
		     p = p->next, looked++)
			if (p->src == post->src && overlap(p, post))
				return p->flags & BL_POST_PUBLISHED ? p->board->peer : NULL;
		peer = bl_prediction(&home->ways.proxy.claims->guesses, tagged, post->tag,
				     post->ignore);
	}
	if (!post->src || (peer && name_of(peer) == post->src))
		return peer;
	return first_neighbour(home, post->src);
}

/* The claimer can see every receive before this one that may take the same message
 * of his. */
static bool may_show(const struct bl_post_queue *queue, const struct bl_post *post,
		     struct bl_peer *claimer)
{
	const struct bl_peer *name = name_of(claimer);
	uint32_t looked = 0;

	for (const struct bl_post *p = queue->head; p != post; p = p->next) {
		bool seen = p->flags & BL_POST_PUBLISHED && p->board->peer == claimer;

		if ((!seen && (!p->src || p->src == name) && overlap(p, post)) ||
		    ++looked > LOOK_BACK)
			return false;
	}
	return true;
}

static bool suitable(const struct bl_ep *home, const struct bl_post *post)
{
	return post->len > home->limit.publish_above &&
	       !(post->flags & (BL_POST_MULTI | BL_POST_PUBLISHED | BL_POST_BEGUN));
}

/* The advert to show it by: none is in use, and for several pieces one that has room for them.
 * BL_ADVERTS: there is none. */
static uint32_t vacant(const struct bl_own_adverts *board, const struct bl_post *post)
{
	uint64_t left = ~board->used;

	if (post->niov > 1)
		left &= ~0ULL << BL_SCATTER_FIRST;
	return bl_min((uint32_t)__builtin_ctzll(left), BL_ADVERTS);
}

static void show_pieces(struct bl_scatter *to, const struct bl_post *post)
{
	for (uint32_t i = 0; i < post->niov; i++)
		to->piece[i] =
			(struct bl_piece){(uintptr_t)post->iov[i].iov_base, post->iov[i].iov_len};
}

/* Show it on the board that its sender looks at; false: not now. */
static bool show(struct bl_ep *home, struct bl_post *post, bool tagged)
{
	const struct bl_post_queue *queue = tagged ? &home->tagged.posted : &home->msg.posted;
	struct bl_peer *claimer = post->src;
	struct bl_own_adverts *board;
	struct bl_found f;
	struct bl_ep *ep;
	uint32_t i;

	if (!claimer || home->shared)
		claimer = claimer_for(home, queue, post, tagged);
	if (!claimer || !may_show(queue, post, claimer))
		return false;
	ep = bl_ep_of(claimer);
	if (unlikely(!ep->local.seg.header || !claims_of(ep)))
		return false;
	board = board_of(ep, claimer);
	i = board ? vacant(board, post) : BL_ADVERTS;
	if (i == BL_ADVERTS)
		return false;
	if (!++home->ways.proxy.claims->generation)
		home->ways.proxy.claims->generation = 1;
	f = (struct bl_found){NULL,
			      i,
			      home->ways.proxy.claims->generation,
			      ++home->ways.proxy.claims->number,
			      post->tag,
			      post->ignore,
			      (uintptr_t)post->buf,
			      post->len,
			      post->niov > 1 ? post->niov : 0};
	if (f.pieces)
		show_pieces(&board->shared->scatter[i - BL_SCATTER_FIRST], post);
	board->post[i] = post;
	board->generation[i] = f.generation;
	board->tagged[i] = tagged;
	board->landing[i] = false;
	board->passed[i] = false;
	post->flags |= BL_POST_PUBLISHED;
	post->advert = i;
	post->board = board;
	board->used |= 1ULL << i;
	if (board->used == 1ULL << i)
		exact_credits(claimer);
	bl_adverts_post(board->shared, board->used, &f, tagged);
	return true;
}

void bl_adverts_revoke(struct bl_own_adverts *board, uint32_t i)
{
	board->post[i]->flags &= ~BL_POST_PUBLISHED;
	board->post[i] = NULL;
	board->used &= ~(1ULL << i);
	bl_adverts_retire(board->shared, board->used);
	if (!board->used)
		exact_credits(board->peer);
}

/* --- posting ------------------------------------------------------------- */

bl_cold int bl_proxy_connect(struct bl_ep *ep, struct bl_peer *src)
{
	int err;

	if (!src || src->adopted || src->dead || bl_knobs()->overlap == BL_OVERLAP_NEVER)
		return 0;
	err = ep->up->connect(ep, src);
	return err == -EAGAIN ? 0 : err; /* it isn't there yet: not shown, then */
}

static void look_at_rings(struct bl_ep *ep, struct bl_peer *src)
{
	struct bl_sink none = BL_SINK_NONE;

	if (unlikely(atomic_load_explicit(&ep->local.attention, memory_order_relaxed)))
		ep->up->adopt(ep);
	if (src) {
		if (src->adopted && !src->dead)
			ep->up->poll(ep, &none, src);
		return;
	}
	for (uint32_t i = 0; i < ep->local.npolled; i++)
		ep->up->poll(ep, &none, ep->local.hot[i]);
	if (ep->local.nunpolled)
		ep->up->doorbells(ep, &none);
}

/* The call that posts may be its caller's last for long: take what has come for it. */
static void look_around(struct bl_ep *ep, struct bl_peer *src)
{
	bl_proxy_fence();
	bl_presence_seen(ep, bl_ticks());
	ep->ways.proxy.posting = true;
	look_at_rings(ep, src);
	ep->ways.proxy.posting = false;
	ep->up->finish(ep, &no_sink);
}

/* A message is announced there for which its sender can claim no such receive, or is away. */
static bool is_left_to_us(const struct bl_ep *ep, const struct bl_peer *peer,
			  const struct bl_peer *claimer)
{
	const struct bl_slot *next = bl_rx_peek(&peer->rx);

	return next && bl_slot_announces(next) &&
	       (bl_taken_look(bl_taken_in(next)) == BL_TAKEN_CLOSED || peer != claimer ||
		!bl_peer_here(ep, peer));
}

/* The same for a short one, which is shown to `claimer`, if it isn't for nothing. What came whole
 * is left alone then: who exchange such messages know by their order whether they answer each other
 * (ring.h). */
static void look_for_announced(struct bl_ep *ep, struct bl_peer *src, const struct bl_peer *claimer)
{
	bool any = false;

	bl_proxy_fence();
	if (src)
		any = src->adopted && !src->dead && is_left_to_us(ep, src, claimer);
	for (uint32_t i = 0; !src && !any && i < ep->local.npolled; i++)
		any = is_left_to_us(ep, ep->local.hot[i], claimer);
	if (any)
		look_around(ep, src);
}

void bl_proxy_posted(struct bl_ep *home, struct bl_post *post, bool tagged)
{
	/* Of a context's source each member knows another peer: all are looked at. */
	struct bl_peer *src = home->shared ? NULL : post->src;
	bool large = post->len >= BL_PROXY_MIN;
	const struct bl_peer *claimer;

	for (uint32_t i = 0; large && i < members(home); i++)
		bl_dirty_back(member(home, i));
	if (bl_knobs()->overlap == BL_OVERLAP_NEVER)
		return;
	if (suitable(home, post) && claims_of(home) && !show(home, post, tagged)) {
		set_unpublished(home, true);
		home->ways.proxy.claims->again_us = AGAIN_US;
	}
	/* Before it may be over. */
	claimer = post->flags & BL_POST_PUBLISHED ? post->board->peer : NULL;
	for (uint32_t i = 0; i < members(home); i++) {
		struct bl_ep *ep = member(home, i);

		if (!large)
			look_for_announced(ep, src, claimer);
		else if (ep->ways.habit.leaves)
			look_around(ep, src);
		if (large)
			bl_habit_leave(ep);
	}
	if (!large)
		bl_habit_posted_short(home);
}

/* Show what can be shown of a queue; true: something has been. */
static bool show_queue(struct bl_ep *home, bool tagged, bool *left)
{
	uint32_t looked = 0;
	bool any = false;

	for (struct bl_post *p = (tagged ? &home->tagged.posted : &home->msg.posted)->head;
	     p && looked < LOOK_BACK; p = p->next, looked++) {
		if (!suitable(home, p) || (p->src && p->src->dead))
			continue;
		if (show(home, p, tagged))
			any = true;
		else
			*left = true;
	}
	return any;
}

bl_cold void bl_proxy_again(struct bl_ep *ep)
{
	struct bl_ep *home = ep->home;
	struct bl_proxy *c = home->ways.proxy.claims;
	uint64_t now = bl_ticks();
	bool any, left = false;

	if (!bl_is_due(now, c->next_again))
		return;
	any = show_queue(home, true, &left);
	any |= show_queue(home, false, &left);
	set_unpublished(home, left);
	c->again_us = any ? AGAIN_US : bl_min(2 * c->again_us, AGAIN_MOST_US);
	c->next_again = now + c->again_us * bl_ticks_per_us();
	if (!any)
		return;
	bl_proxy_fence();
	for (uint32_t i = 0; i < members(home); i++) {
		look_at_rings(member(home, i), NULL);
		ep->up->finish(member(home, i), &no_sink);
	}
}
