/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match.c: see match.h. Serialised by the domain.
 */
#include "core/match.h"

#include <stdlib.h>

static struct bl_post_kind kind_of(const struct bl_post *post)
{
	return (struct bl_post_kind){post->ignore, !post->src};
}

static bool same_kind(struct bl_post_kind a, struct bl_post_kind b)
{
	return a.ignore == b.ignore && a.anybody == b.anybody;
}

/* Of all that counts for receives of this kind. */
static uint64_t hash_of(struct bl_post_kind kind, uint64_t number, const struct bl_peer *peer,
			uint64_t tag)
{
	uint64_t z = (tag & ~kind.ignore) + number * 0x9e3779b97f4a7c15u;

	z ^= kind.anybody ? 0 : (uintptr_t)peer * 0xd6e8feb86659fd93u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u; /* all bits of a tag to all bits (splitmix64) */
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* --- posted receives ------------------------------------------------------ */

static struct bl_post *post_of(struct bl_node *node)
{
	return bl_containerof(node, struct bl_post, node);
}

/* Its kind's number; BL_POST_KINDS: none is left. */
static uint32_t number_of(struct bl_post_index *x, struct bl_post_kind kind)
{
	for (uint32_t k = 0; k < x->nkind; k++)
		if (same_kind(x->kind[k], kind))
			return k;
	for (uint32_t k = 0; k < BL_POST_KINDS; k++)
		if (k == x->nkind || !x->count[k]) {
			x->nkind += k == x->nkind;
			x->kind[k] = kind;
			return k;
		}
	return BL_POST_KINDS;
}

static uint64_t post_hash(const struct bl_post_index *x, uint32_t k, const struct bl_peer *peer,
			  uint64_t tag)
{
	return k < BL_POST_KINDS ? hash_of(x->kind[k], k, peer, tag) : 0;
}

/* link: what points to it in the queue. */
static void index_post(struct bl_post_index *x, struct bl_post *post, struct bl_post **link)
{
	uint32_t k = number_of(x, kind_of(post));

	post->link = link;
	post->place = ++x->place;
	post->kind = k;
	x->count[k]++;
	bl_table_add(&x->table, &post->node, post_hash(x, k, post->src, post->tag));
}

bl_cold static void build_post_index(struct bl_post_queue *queue, uint32_t count)
{
	struct bl_post_index *x = calloc(1, sizeof *x);

	if (!x || bl_table_init(&x->table, count)) {
		free(x); /* then it is searched one by one, as before */
		return;
	}
	for (struct bl_post **at = &queue->head; *at; at = &(*at)->next)
		index_post(x, *at, at);
	queue->index = x;
}

void bl_post_unindex(struct bl_post_queue *queue)
{
	if (!queue->index)
		return;
	bl_table_fini(&queue->index->table);
	free(queue->index);
	queue->index = NULL;
}

/* The oldest of kind k between those places: what has one hash is in their order. */
static struct bl_post *oldest_of(const struct bl_post_index *x, uint32_t k, uint64_t after,
				 uint64_t before, const struct bl_peer *peer, uint64_t tag)
{
	uint64_t hash = post_hash(x, k, peer, tag);

	for (struct bl_node *node = bl_table_first(&x->table, hash); node;
	     node = bl_table_next(node->next, hash)) {
		struct bl_post *post = post_of(node);

		if (post->place >= before)
			return NULL;
		if (post->kind == k && post->place > after && bl_match(post, peer, tag))
			return post;
	}
	return NULL;
}

static struct bl_post **find_behind(struct bl_post_queue *queue, uint64_t place,
				    const struct bl_peer *peer, uint64_t tag)
{
	const struct bl_post_index *x = queue->index;
	struct bl_post *best = NULL;

	for (uint32_t k = 0; k <= BL_POST_KINDS; k++) {
		uint64_t before = best ? best->place : UINT64_MAX;
		struct bl_post *post =
			x->count[k] ? oldest_of(x, k, place, before, peer, tag) : NULL;

		best = post ? post : best;
	}
	return best ? best->link : queue->tail;
}

bl_noinline struct bl_post **bl_match_deep(struct bl_post_queue *queue, struct bl_post **at,
					   const struct bl_peer *peer, uint64_t tag)
{
	uint32_t passed = BL_MATCH_NEAR;

	if (queue->index)
		return find_behind(queue, 0, peer, tag);
	for (; *at && !bl_match(*at, peer, tag); at = &(*at)->next)
		passed++;
	if (passed > BL_MATCH_FAR)
		build_post_index(queue, 2 * passed);
	return at;
}

struct bl_post **bl_match_next(struct bl_post_queue *queue, struct bl_post **after,
			       const struct bl_peer *peer, uint64_t tag)
{
	struct bl_post **at = &(*after)->next;

	if (queue->index)
		return find_behind(queue, (*after)->place, peer, tag);
	while (*at && !bl_match(*at, peer, tag))
		at = &(*at)->next;
	return at;
}

bl_noinline int bl_post_append(struct bl_post_queue *queue, struct bl_post *post)
{
	if (queue->index)
		index_post(queue->index, post, queue->tail);
	*queue->tail = post;
	queue->tail = &post->next;
	return 0;
}

bl_noinline void bl_post_unlinked(struct bl_post_queue *queue, struct bl_post *post)
{
	struct bl_post_index *x = queue->index;

	if (post->next)
		post->next->link = post->link;
	x->count[post->kind]--;
	bl_table_remove(&x->table, &post->node);
	if (x->table.count <= BL_MATCH_SHORT)
		bl_post_unindex(queue);
}

struct bl_post **bl_post_link(struct bl_post_queue *queue, const struct bl_post *post)
{
	struct bl_post **at = &queue->head;

	if (queue->index)
		return post->link;
	while (*at != post)
		at = &(*at)->next;
	return at;
}

/* --- early messages ------------------------------------------------------- */

static struct bl_unexpected *unexpected_of(struct bl_node *node, uint32_t view)
{
	return bl_containerof(node - view, struct bl_unexpected, node[0]);
}

static bool takes(const struct bl_post *post, const struct bl_unexpected *u, bool tagged)
{
	struct bl_peer *name = bl_source_name(bl_ep_of(u->peer), u->peer);

	return bl_match(post, name, tagged ? u->tag : 0);
}

/* Whoever looks for untagged messages ignores all bits of a tag. */
static void show_in(struct bl_unexpected_index *x, uint32_t view, struct bl_unexpected *u)
{
	bl_table_add(&x->view[view].table, &u->node[view],
		     hash_of(x->view[view].kind, view, u->peer, u->tag));
}

/* The view for receives of this kind; nview: there is none. */
static uint32_t view_for(const struct bl_unexpected_index *x, struct bl_post_kind kind)
{
	uint32_t view = 0;

	while (view < x->nview && !same_kind(x->view[view].kind, kind))
		view++;
	return view;
}

static bool named_alike(const struct bl_unexpected *u)
{
	const struct bl_ep *ep = bl_ep_of(u->peer);

	return ep->home == ep;
}

/* A place for one more view: when there is none, of the one that is used least, as soon as
 * searches without one have cost several times as much as it does. BL_VIEWS: not now. */
static uint32_t place_for_view(struct bl_unexpected_index *x, uint32_t passed)
{
	uint32_t least = 0;

	if (x->nview < BL_VIEWS)
		return x->nview;
	x->passed += passed;
	if (x->passed < 8ull * x->view[0].table.count)
		return BL_VIEWS;
	x->passed = 0;
	for (uint32_t view = 0; view < BL_VIEWS; view++)
		if (x->view[view].used < x->view[least].used)
			least = view;
	for (uint32_t view = 0; view < BL_VIEWS; view++)
		x->view[view].used = 0;
	return least;
}

bl_cold static void build_view(struct bl_unexpected_queue *early, struct bl_post_kind kind,
			       uint32_t passed)
{
	struct bl_unexpected_index *x = early->index;
	struct bl_table table;
	uint32_t view;

	if (!named_alike(early->head))
		return;
	if (!x)
		x = calloc(1, sizeof *x);
	view = x ? place_for_view(x, passed) : BL_VIEWS;
	if (view == BL_VIEWS || bl_table_init(&table, 2 * passed)) {
		if (x != early->index)
			free(x);
		return;
	}
	if (view < x->nview)
		bl_table_fini(&x->view[view].table);
	else
		x->nview++;
	x->view[view].kind = kind;
	x->view[view].table = table;
	for (struct bl_unexpected *u = early->head; u; u = u->next)
		show_in(x, view, u);
	early->index = x;
}

void bl_unexpected_unindex(struct bl_unexpected_queue *early)
{
	for (uint32_t view = 0; early->index && view < early->index->nview; view++)
		bl_table_fini(&early->index->view[view].table);
	free(early->index);
	early->index = NULL;
}

static struct bl_unexpected **find_in(struct bl_unexpected_queue *early, uint32_t view,
				      const struct bl_post *post, bool tagged)
{
	struct bl_unexpected_index *x = early->index;
	uint64_t hash = hash_of(x->view[view].kind, view, post->src, post->tag);

	x->view[view].used++;
	for (struct bl_node *node = bl_table_first(&x->view[view].table, hash); node;
	     node = bl_table_next(node->next, hash))
		if (takes(post, unexpected_of(node, view), tagged))
			return unexpected_of(node, view)->link;
	return early->tail;
}

struct bl_unexpected **bl_unexpected_find(struct bl_unexpected_queue *early,
					  const struct bl_post *post, bool tagged)
{
	struct bl_unexpected **at = &early->head;
	struct bl_post_kind kind = kind_of(post);
	uint32_t passed = 0, view;

	for (; *at && !takes(post, *at, tagged); at = &(*at)->next) {
		if (++passed != BL_MATCH_NEAR || !early->index)
			continue;
		view = view_for(early->index, kind);
		if (view < early->index->nview)
			return find_in(early, view, post, tagged);
	}
	if (passed > BL_MATCH_FAR)
		build_view(early, kind, passed);
	return at;
}

void bl_unexpected_append(struct bl_unexpected_queue *early, struct bl_unexpected *u)
{
	u->next = NULL;
	u->link = early->tail;
	for (uint32_t view = 0; early->index && view < early->index->nview; view++)
		show_in(early->index, view, u);
	*early->tail = u;
	early->tail = &u->next;
}

struct bl_unexpected *bl_unexpected_unlink(struct bl_unexpected_queue *early,
					   struct bl_unexpected **at)
{
	struct bl_unexpected *u = *at;

	*at = u->next;
	if (u->next)
		u->next->link = at;
	else
		early->tail = at;
	if (likely(!early->index))
		return u;
	for (uint32_t view = 0; view < early->index->nview; view++)
		bl_table_remove(&early->index->view[view].table, &u->node[view]);
	if (early->index->view[0].table.count <= BL_MATCH_SHORT)
		bl_unexpected_unindex(early);
	return u;
}

bl_noinline struct bl_peer *bl_srx_find_name(struct bl_ep *ep, struct bl_peer *peer)
{
	if (likely(peer->name != NULL))
		return peer->name;
	if (!ep->home->local.peers.all) /* no receive was posted for one source */
		return peer;
	peer->name = bl_local_find(&ep->home->local, &peer->addr);
	return peer->name ? peer->name : peer;
}
