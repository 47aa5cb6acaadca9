/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * post.c: see post.h. Serialised by the domain.
 */
#include "core/post.h"

#include <string.h>

#define POSTS_AT_ONCE 256
#define IOVS_AT_ONCE  64
#define MULTI_ALIGN   64 /* messages in one buffer begin on a line of their own */

bl_noinline struct bl_post *bl_post_more(struct bl_ep *ep)
{
	struct bl_post *post = bl_slab(ep, POSTS_AT_ONCE * sizeof *post);

	if (!post)
		return NULL;
	for (int i = 0; i < POSTS_AT_ONCE; i++)
		bl_post_free(ep, &post[i]);
	return ep->free_post;
}

static struct iovec *iov_new(struct bl_ep *ep)
{
	struct bl_iov8 *v = ep->free_iov;

	if (!v) {
		v = bl_slab(ep, IOVS_AT_ONCE * sizeof *v);
		if (!v)
			return NULL;
		for (int i = 0; i < IOVS_AT_ONCE; i++) {
			v[i].next = ep->free_iov;
			ep->free_iov = &v[i];
		}
		v = ep->free_iov;
	}
	ep->free_iov = v->next;
	return v->iov;
}

void bl_post_release(struct bl_ep *ep, struct bl_post *post)
{
	if (post->iov) {
		struct bl_iov8 *v = bl_containerof(post->iov, struct bl_iov8, iov);

		v->next = ep->free_iov;
		ep->free_iov = v;
	}
	bl_post_free(ep, post);
}

bool bl_multi_done(struct bl_ep *ep, struct bl_post *post)
{
	if (--post->users || !(post->flags & BL_POST_SPENT))
		return false;
	bl_post_release(ep->home, post);
	return true;
}

/*
 * The receive gives up what a message of len bytes needs, and leaves its queue
 * when nothing is left for another. A multi-receive stays while at least
 * min_multi_recv bytes are left; it is gone, and said to be released, when the
 * last message into it is complete (bl_multi_done). queue: NULL when it isn't in
 * one (a claim, or a post that matches at once).
 */
struct bl_target bl_post_target(struct bl_ep *ep, struct bl_post_queue *queue, struct bl_post **at,
				size_t len, bool tagged, bool *spent)
{
	struct bl_post *post = *at;
	struct bl_target t = {
		.one = {post->buf, post->len},
		.niov = 1,
		.len = post->len,
		.context = post->context,
		.flags = (tagged ? BL_TAGGED : BL_MSG) | BL_RECV,
		.quiet = post->flags & BL_POST_QUIET && !ep->reports,
	};

	if (unlikely(post->flags & BL_POST_WORK)) {
		t.work = post->work;
		t.quiet = post->flags & BL_POST_QUIET;
	}

	*spent = true;
	if (post->niov > 1) {
		t.iov = post->iov;
		t.niov = post->niov;
	}
	if (post->flags & BL_POST_MULTI) {
		size_t used = bl_min(bl_round_up(bl_min(len, post->len), MULTI_ALIGN), post->len);

		t.one.iov_len = t.len = bl_min(len, post->len);
		t.multi = post;
		post->users++;
		post->buf += used;
		post->len -= used;
		*spent = post->len < ep->home->min_multi_recv;
		if (*spent)
			post->flags |= BL_POST_SPENT;
	}
	if (*spent && queue)
		bl_post_unlink(queue, at);
	return t;
}

/* The message's bytes, as many as fit, are in the receive's memory. */
void bl_target_over(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
		    const struct bl_target *t, size_t len, uint64_t tag, uint64_t data,
		    uint64_t flags)
{
	const struct bl_receipt receipt = {
		.peer = peer,
		.context = t->context,
		.buf = bl_target_iov(t)[0].iov_base,
		.flags = t->flags | flags,
		.tag = tag,
		.data = data,
		.want = bl_min(len, t->len),
		.sent = len,
		.quiet = t->quiet,
		.multi = t->multi,
		.work = t->work,
	};

	bl_recv_over(ep, sink, &receipt, 0);
}

struct bl_post *bl_post_make(struct bl_ep *ep, const struct bl_recv *recv, struct bl_peer *src)
{
	struct bl_post *post = ep->free_post;
	bool tagged = recv->flags & BL_TAGGED;

	if (!post && !(post = bl_post_more(ep)))
		return NULL;
	post->iov = NULL;
	if (recv->niov > 1 && !(post->iov = iov_new(ep)))
		return NULL;
	ep->free_post = post->next;
	if (post->iov)
		memcpy(post->iov, recv->iov, recv->niov * sizeof *recv->iov);
	post->next = NULL;
	post->tag = tagged ? recv->tag : 0;
	post->ignore = tagged ? recv->ignore : UINT64_MAX;
	post->src = src;
	post->buf = recv->niov ? recv->iov[0].iov_base : NULL;
	post->len = bl_iov_len(recv->iov, recv->niov);
	post->context = recv->context;
	post->flags =
		(recv->flags & BL_COMPLETION ? 0 : BL_POST_QUIET) |
		/* a message that was claimed has the buffer for itself */
		(recv->flags & BL_MULTI_RECV && !(recv->flags & BL_CLAIM) ? BL_POST_MULTI : 0) |
		(recv->work ? BL_POST_WORK : 0);
	post->work = recv->work;
	post->niov = (uint32_t)recv->niov;
	return post;
}

static struct bl_work *work_of(const struct bl_post *post)
{
	return post->flags & BL_POST_WORK ? post->work : NULL;
}

/* counts: its owner hasn't taken it back, nor only asked. */
void bl_recv_refuse(struct bl_ep *ep, struct bl_sink *sink, struct bl_work *work, void *context,
		    uint64_t flags, uint64_t tag, int error, bool counts)
{
	struct bl_comp_err err = {
		.comp = {context, flags, 0, NULL, 0, tag},
		.err = error,
		.src = BL_ADDR_ANY,
	};

	if (unlikely(ep->shared))
		ep = bl_srx_teller(ep);
	if (ep->bound.rx_cntr && counts && !work)
		bl_cntr_error(ep->bound.rx_cntr);
	bl_cq_fail(ep->bound.rx_cq, sink, &err);
	if (work && counts)
		bl_work_over(work, error);
	else if (work)
		bl_work_taken_back(work);
}

/* A receive ends before any message has ended it; err 0: its owner takes it back. */
void bl_post_end(struct bl_ep *ep, struct bl_sink *sink, struct bl_post_queue *queue,
		 struct bl_post **at, bool tagged, int err)
{
	struct bl_post *post = *at;

	bl_post_unlink(queue, at);
	/* What is still being copied into a multi-receive says when it is released. */
	bl_recv_refuse(ep, sink, work_of(post), post->context,
		       (tagged ? BL_TAGGED : BL_MSG) | BL_RECV |
			       (post->flags & BL_POST_MULTI && !post->users ? BL_MULTI_RECV : 0),
		       post->tag, err ? err : ECANCELED, err);
	if (post->users)
		post->flags |= BL_POST_SPENT;
	else
		bl_post_release(ep->home, post);
}

bl_cold void bl_recv_fail(struct bl_ep *ep, struct bl_sink *sink, struct bl_post *post, bool tagged,
			  int err)
{
	struct bl_post_queue *queue = tagged ? &ep->home->tagged.posted : &ep->home->msg.posted;

	bl_post_end(ep, sink, queue, bl_post_link(queue, post), tagged, err);
}

struct bl_ep *bl_srx_teller(struct bl_ep *ep)
{
	for (uint32_t i = 0; i < ep->srx.nmember; i++)
		if (ep->srx.member[i]->bound.rx_cq)
			return ep->srx.member[i];
	return ep;
}
