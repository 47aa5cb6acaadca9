/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match.h: finding what a message or a receive matches when its queue is deep.
 *
 * A queue is a list in MPI's order, and most are short: the first BL_MATCH_NEAR are looked at one
 * by one. A search that has passed more than BL_MATCH_FAR builds an index beside the list, which is
 * kept until no more than BL_MATCH_SHORT are left.
 *
 * Posted receives are of few kinds: which bits of the tag they ignore, and whether they are from
 * anybody. All of a kind that a message could match have one hash, of the source and the bits that
 * count. The oldest of those found is it. What is of no kind, for there are too many, is one chain.
 *
 *   receive (from 2, tag 7) ──► kind 0 (ignores none, from one)    chain of (0, 2, 7)
 *   receive (from 2, any)   ──► kind 1 (ignores all, from one)     chain of (1, 2)
 *   receive (any, 7)        ──► kind 2 (ignores none, from anybody) chain of (2, 7)
 *   message (from 2, tag 7) ──► the oldest first of the three chains
 *
 * Unexpected messages have no wildcards, the receives that look for them do: each kind of receive
 * that has searched for long has a view, a table of all messages by what counts for that kind
 * (BL_VIEWS of them). What comes to members of a shared receive context has none: how a source is
 * named there may change.
 *
 * A receive is in its index as long as it is in its queue, cancelled or claimed.
 */
#ifndef BL_CORE_MATCH_H
#define BL_CORE_MATCH_H

#include "core/ep.h"

#define BL_MATCH_FAR   64
#define BL_MATCH_SHORT (BL_MATCH_NEAR / 2)

#define BL_POST_KINDS 8u /* of receives; MPI has two sorts of tags and two of sources */

/* What a receive leaves open. */
struct bl_post_kind {
	uint64_t ignore;
	bool anybody;
};

struct bl_post_index {
	struct bl_table table;
	uint64_t place; /* of the last one */
	uint32_t nkind;
	struct bl_post_kind kind[BL_POST_KINDS];
	uint32_t count[BL_POST_KINDS + 1]; /* of each, and of none */
};

struct bl_unexpected_index {
	uint32_t nview;
	uint64_t passed; /* one by one, since there was no place for another view */
	struct {
		struct bl_post_kind kind;
		uint64_t used; /* searches, since one was replaced */
		struct bl_table table;
	} view[BL_VIEWS];
};

/* The link to the first receive behind this one that takes the message, or to NULL. */
struct bl_post **bl_match_next(struct bl_post_queue *queue, struct bl_post **after,
			       const struct bl_peer *peer, uint64_t tag);
/* The link to a receive in the queue. */
struct bl_post **bl_post_link(struct bl_post_queue *queue, const struct bl_post *post);
/* Until a search is long again. */
void bl_post_unindex(struct bl_post_queue *queue);

/* The first early message that a receive takes, or the link to NULL. */
struct bl_unexpected **bl_unexpected_find(struct bl_unexpected_queue *early,
					  const struct bl_post *post, bool tagged);
void bl_unexpected_append(struct bl_unexpected_queue *early, struct bl_unexpected *u);
struct bl_unexpected *bl_unexpected_unlink(struct bl_unexpected_queue *early,
					   struct bl_unexpected **at);
void bl_unexpected_unindex(struct bl_unexpected_queue *early);

bl_always_inline bool bl_match(const struct bl_post *post, const struct bl_peer *peer, uint64_t tag)
{
	return !((post->tag ^ tag) & ~post->ignore) && (!post->src || post->src == peer);
}

/* bl_match_find(), when so many at the front haven't matched; at: the link behind them. */
#define BL_MATCH_NEAR 16

bl_noinline struct bl_post **bl_match_deep(struct bl_post_queue *queue, struct bl_post **at,
					   const struct bl_peer *peer, uint64_t tag);

/* To the end of a queue that may have an index. Always 0: bl_recv_buf() returns what it does, for
 * a call that comes last costs those that don't make it nothing. */
bl_noinline int bl_post_append(struct bl_post_queue *queue, struct bl_post *post);

/* It has left the queue: let the index know. */
bl_noinline void bl_post_unlinked(struct bl_post_queue *queue, struct bl_post *post);

/* The link to the first receive that takes a message, or to NULL. */
bl_always_inline struct bl_post **bl_match_find(struct bl_post_queue *queue,
						const struct bl_peer *peer, uint64_t tag)
{
	struct bl_post **at = &queue->head;

	for (uint32_t near = BL_MATCH_NEAR; *at && !bl_match(*at, peer, tag); at = &(*at)->next)
		if (unlikely(!--near))
			return bl_match_deep(queue, &(*at)->next, peer, tag);
	return at;
}

bl_always_inline void bl_post_unlink(struct bl_post_queue *queue, struct bl_post **at)
{
	struct bl_post *post = *at;

	*at = post->next;
	if (!post->next)
		queue->tail = at;
	if (unlikely(queue->index != NULL))
		bl_post_unlinked(queue, post);
}

#endif
