/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * post.h: the life of a posted receive, from its making to its completion. Serialised by the
 * domain.
 */
#ifndef BL_CORE_POST_H
#define BL_CORE_POST_H

#include "core/deferred.h"
#include "core/ep.h"
#include "core/match.h"

/* What its completion says. */
struct bl_receipt {
	struct bl_peer *peer; /* whose message it was */
	void *context, *buf;
	uint64_t flags, tag, data;
	size_t want, sent; /* bytes that fit, bytes of the message */
	bool quiet;	   /* unless it fails */
	struct bl_post *multi;
	struct bl_work *work;
};

/* A message into a multi-receive's buffer is complete. True: it was the last, the
 * buffer is its owner's again (say so), and the receive is gone. */
bool bl_multi_done(struct bl_ep *ep, struct bl_post *post);

/* A message's bytes are in its memory, or (err, a positive errno) can't be had. */
bl_always_inline void bl_recv_over(struct bl_ep *ep, struct bl_sink *sink,
				   const struct bl_receipt *r, int err)
{
	/* The last into a multi-receive says that the buffer is its owner's again. */
	bool released = unlikely(r->multi != NULL) && bl_multi_done(ep, r->multi);
	uint64_t flags = r->flags | (released ? BL_MULTI_RECV : 0);

	if (!err && unlikely(r->sent > r->want))
		err = BL_ETRUNC;
	if (likely(!err)) {
		if (ep->bound.rx_cntr && !r->work)
			bl_cntr_up(ep->bound.rx_cntr);
		if (!r->quiet || released)
			bl_complete(ep->bound.rx_cq, sink, r->context, flags, r->want, r->buf,
				    r->data, r->tag, r->peer->av_index);
	} else {
		struct bl_comp_err e = {
			.comp = {r->context, flags, err == BL_ETRUNC ? r->want : 0, r->buf, r->data,
				 r->tag},
			.olen = r->sent - r->want,
			.err = err,
			.src = r->peer->av_index,
		};

		if (ep->bound.rx_cntr && !r->work)
			bl_cntr_error(ep->bound.rx_cntr);
		bl_cq_fail(ep->bound.rx_cq, sink, &e);
	}
	if (unlikely(r->work != NULL))
		bl_work_over(r->work, err);
}

/* A receive that is in no queue yet, with a copy of what recv says; NULL: no memory. */
struct bl_post *bl_post_make(struct bl_ep *ep, const struct bl_recv *recv, struct bl_peer *src);

void bl_post_release(struct bl_ep *ep, struct bl_post *post);

/* A receive, or a look, ends without a message. counts: its owner hasn't taken it back,
 * nor only asked. */
void bl_recv_refuse(struct bl_ep *ep, struct bl_sink *sink, struct bl_work *work, void *context,
		    uint64_t flags, uint64_t tag, int error, bool counts);

/* What of a receive's memory a message may take, and what its completion says. */
struct bl_target {
	struct iovec one;
	const struct iovec *iov; /* NULL: `one` */
	size_t niov, len;
	void *context;
	uint64_t flags;
	bool quiet;
	struct bl_post *multi; /* a multi-receive, which counts this message as a user */
	struct bl_work *work;  /* hears of the end, instead of the counter; NULL */
};

static inline const struct iovec *bl_target_iov(const struct bl_target *t)
{
	return t->iov ? t->iov : &t->one;
}

/* The pieces of a receive of several. */
struct bl_iov8 {
	struct bl_iov8 *next;
	struct iovec iov[BL_IOV_MAX];
};

/* A receive ends with an error. */
bl_cold void bl_recv_fail(struct bl_ep *ep, struct bl_sink *sink, struct bl_post *post, bool tagged,
			  int err);

void bl_recv_drop_all(struct bl_ep *ep);

/* What has come early to this member of a shared context is dropped. */
void bl_recv_drop_from(struct bl_ep *home, struct bl_ep *ep);

/* Bytes of messages beyond the eager limit that came whole and wait for their receives: with more
 * an endpoint asks its neighbours to announce theirs. */
#define BL_KEPT_MOST (1u << 20)

/* Memory for an early message with so many bytes of its own; NULL: there is none. home: whose
 * queues it goes into, here and below. */
struct bl_unexpected *bl_unexpected_get(struct bl_ep *home, size_t bytes);

void bl_unexpected_put(struct bl_ep *home, struct bl_unexpected *u);

/* The endpoint is over, and uses none of it any more. */
void bl_unexpected_pool_fini(struct bl_ep *ep);

/* ep: which it came to. */
void bl_unexpected_free(struct bl_ep *ep, struct bl_unexpected *u);
/* It has come to this endpoint, and its receive hasn't. */
void bl_unexpected_add(struct bl_ep *ep, struct bl_unexpected_queue *early,
		       struct bl_unexpected *u);

/* Whose queue hears of receives that no member's message has ended; may have none. */
struct bl_ep *bl_srx_teller(struct bl_ep *ep);

/* What a receive that a message of len bytes has met gives up for it: all of it, or, of a
 * multi-receive, a part. It leaves its queue (NULL: it is in none) when nothing is left for
 * another: *spent. */
struct bl_target bl_post_target(struct bl_ep *ep, struct bl_post_queue *queue, struct bl_post **at,
				size_t len, bool tagged, bool *spent);
/* All bytes that fit are in the receive's memory. flags: BL_REMOTE_CQ_DATA or 0. */
void bl_target_over(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
		    const struct bl_target *t, size_t len, uint64_t tag, uint64_t data,
		    uint64_t flags);
/* A receive ends before any message has ended it; err 0: its owner takes it back. */
void bl_post_end(struct bl_ep *ep, struct bl_sink *sink, struct bl_post_queue *queue,
		 struct bl_post **at, bool tagged, int err);

#endif
