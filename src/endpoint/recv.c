/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * recv.c: posting receives, taking them back, and their end when a peer is gone. What arrives for
 * them is in transport/local/deliver.c. Serialised by the domain.
 */

#include "endpoint/recv.h"

#include "core/match.h"
#include "endpoint/api.h"
#include "endpoint/srx.h"
#include "endpoint/trigger.h"
#include "endpoint/txq.h"
#include "transport/local/ways/proxy.h"

static struct bl_sink no_sink; /* completions go to the queues; it is never written to */

/* --- posting ------------------------------------------------------------ */

int bl_recv_reach(struct bl_ep *ep, struct bl_peer *src, uint64_t index)
{
	int err;

	if (likely(!src || (src->adopted && !src->dead)))
		return 0;
	if (ep->shared)
		err = bl_srx_connect(ep, index);
	else
		err = src->dead ? -(int)src->dead : bl_peer_connect(src);
	return err == -EAGAIN ? 0 : err;
}

bl_noinline int bl_recv_slow(struct bl_ep *ep, struct bl_post *post, uint64_t src, bool tagged)
{
	struct bl_post_queue *queue = tagged ? &ep->tagged.posted : &ep->msg.posted;
	struct bl_unexpected_queue *early = tagged ? &ep->tagged.unexpected : &ep->msg.unexpected;
	bool taken = false; /* by one for many, which is no call that has failed any more */
	int err;

	err = post->src == &bl_nobody ? bl_ep_resolve(ep, src, &post->src) : 0;
	if (!err && post->len >= BL_PROXY_MIN && !ep->shared) /* a context's: below */
		err = bl_proxy_connect(ep, post->src);
	if (err) {
		bl_post_release(ep, post);
		return err;
	}
	while (early->head) {
		struct bl_unexpected **at = bl_unexpected_find(early, post, tagged), *u = *at;
		struct bl_ep *member;
		bool spent, large;

		if (!u)
			break;
		if (!bl_unexpected_give(&no_sink, u, post, tagged, &spent)) {
			err = taken ? -ENOMEM
				    : bl_no_memory(ep); /* nothing may overtake the message */
			break;
		}
		taken = true;
		member = bl_ep_of(u->peer);
		large = u->large || u->len >= BL_PROXY_MIN;
		bl_unexpected_free(member, bl_unexpected_unlink(early, at));
		if (spent) {
			if (member->rndv.ntransfer)
				bl_rndv_finish(member, &no_sink);
			if (large)
				bl_habit_leave(member);
			return 0;
		}
	}
	if (!err)
		err = bl_recv_reach(ep, post->src, src);
	if (err && !taken) {
		bl_post_release(ep, post);
		return err;
	}
	bl_post_append(queue, post);
	if (err) {
		bl_recv_fail(ep, &no_sink, post, tagged, -err);
		return 0;
	}
	if (post->len > ep->limit.publish_above)
		bl_proxy_posted(ep, post, tagged);
	return 0;
}

int bl_recv(struct bl_ep *ep, const struct bl_recv *recv)
{
	bool tagged = recv->flags & BL_TAGGED;
	struct bl_peer *src = NULL;
	struct bl_post *post;
	int err;

	if (recv->niov > BL_IOV_MAX || (recv->flags & BL_MULTI_RECV && (tagged || recv->niov != 1)))
		return -EINVAL;
	if (recv->src != BL_ADDR_ANY) {
		err = bl_ep_resolve(ep, recv->src, &src);
		if (err)
			return err;
	}
	if (recv->flags & BL_PEEK)
		return bl_probe(ep, recv, src, tagged);
	if (recv->flags & BL_CLAIM)
		return bl_claim(ep, recv, tagged);
	if (recv->flags & BL_DISCARD) /* of what? */
		return -EINVAL;
	post = bl_post_make(ep, recv, src);
	if (!post)
		return bl_no_memory(ep);
	return bl_recv_slow(ep, post, recv->src, tagged);
}

/* --- taking back -------------------------------------------------------- */

static bool cancel_in(struct bl_ep *ep, struct bl_post_queue *queue, bool tagged, void *context)
{
	for (struct bl_post **at = &queue->head, *post; (post = *at); at = &post->next) {
		/* Not one that a sender is writing into, nor one whose message has begun: perhaps
		 * another of that context. */
		if (post->context != context || bl_post_is_begun(post, tagged) ||
		    (post->flags & BL_POST_PUBLISHED && !bl_proxy_revoke(ep, post)))
			continue;
		bl_post_end(ep, &no_sink, queue, at, tagged, 0);
		return true;
	}
	return false;
}

int bl_cancel(struct bl_ep *ep, void *context)
{
	return cancel_in(ep, &ep->tagged.posted, true, context) ||
			       cancel_in(ep, &ep->msg.posted, false, context) ||
			       bl_work_cancel_triggered(ep, context) ||
			       bl_txq_cancel(ep, context) || bl_withdraw(ep, context)
		       ? 0
		       : -ENOENT;
}

static void abandon_queue(struct bl_ep *ep, struct bl_sink *sink, struct bl_post_queue *queue,
			  bool tagged, struct bl_peer *peer, int err)
{
	for (struct bl_post **at = &queue->head, *post; (post = *at);) {
		/* Of what the peer had claimed bl_proxy_abandon() has taken care. */
		if (post->src != peer ||
		    (post->flags & BL_POST_PUBLISHED && !bl_proxy_revoke(ep, post))) {
			at = &post->next;
			continue;
		}
		bl_post_end(ep, sink, queue, at, tagged, err);
	}
}

void bl_recv_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err)
{
	struct bl_ep *home = ep->home;

	if (unlikely(home != ep)) {
		peer = bl_source_name(ep, peer);
		bl_srx_drain(home, peer);
	}
	abandon_queue(home, sink, &home->tagged.posted, true, peer, err);
	abandon_queue(home, sink, &home->msg.posted, false, peer, err);
}
