/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * recv.h: between recv.c, which posts receives and matches them, probe.c, which looks at unexpected
 * messages, and rndv_rx.c, where the longer ones end. Serialised by the domain.
 */
#ifndef BL_ENDPOINT_RECV_H
#define BL_ENDPOINT_RECV_H

#include "transport/local/ways/rndv.h"
#include "endpoint/trigger.h"

/* --- the end of a receive: recv.c, rndv_rx.c -------------------------------- */

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

/* --- unexpected.c -------------------------------------------------------------- */

/* Bytes of messages beyond the eager limit that came whole and wait for their receives: with more
 * an endpoint asks its neighbours to announce theirs. */
#define BL_KEPT_MOST (1u << 20)

/* True: a message that came whole and has no receive stays in the ring for now, in at most so many
 * reads, rather than be kept. */
#define BL_LEFT_READS 4u
bool bl_defer(const struct bl_sink *sink, const struct bl_arrival *a);

/* --- unexpected_pool.c ---------------------------------------------------------- */

/* Memory for an early message with so many bytes of its own; NULL: there is none. home: whose
 * queues it goes into, here and below. */
struct bl_unexpected *bl_unexpected_get(struct bl_ep *home, size_t bytes);
void bl_unexpected_put(struct bl_ep *home, struct bl_unexpected *u);
/* The endpoint is over, and uses none of it any more. */
void bl_unexpected_pool_fini(struct bl_ep *ep);

/* --- recv.c ------------------------------------------------------------- */

/* A receive that is in no queue yet, with a copy of what recv says; NULL: no memory. */
struct bl_post *bl_post_make(struct bl_ep *ep, const struct bl_recv *recv, struct bl_peer *src);
void bl_post_release(struct bl_ep *ep, struct bl_post *post);

/* It goes into a receive that isn't in a queue. False: not now, no memory. */
bool bl_unexpected_give(struct bl_sink *sink, struct bl_unexpected *u, struct bl_post *post,
			bool tagged, bool *spent);
/* ep: which it came to. */
void bl_unexpected_free(struct bl_ep *ep, struct bl_unexpected *u);
/* It isn't wanted: the same, and its sender may complete. */
void bl_unexpected_refuse(struct bl_ep *ep, struct bl_unexpected *u);

/* A receive, or a look, ends without a message. counts: its owner hasn't taken it back,
 * nor only asked. */
void bl_recv_refuse(struct bl_ep *ep, struct bl_sink *sink, struct bl_work *work, void *context,
		    uint64_t flags, uint64_t tag, int error, bool counts);
/* Who waits for one process is connected to it, so that its death is noticed. 0, or why
 * nothing will ever come from it. index: its place in the vector. */
int bl_recv_reach(struct bl_ep *ep, struct bl_peer *src, uint64_t index);

/* --- probe.c: bl_recv() with these flags ----------------------------------- */

int bl_probe(struct bl_ep *ep, const struct bl_recv *recv, struct bl_peer *src, bool tagged);
int bl_claim(struct bl_ep *ep, const struct bl_recv *recv, bool tagged);

/* --- copybuf_rx.c ---------------------------------------------------------------- */

/*
 * A message of len bytes that may still be being written is copied into `post` as it comes; NULL:
 * it is waited for. Its sender does nothing else meanwhile, but it may lose its core, or die.
 * False: it stays in the ring until all of it has been written, and takes no receive before; one
 * that has been written to is BL_POST_BEGUN.
 */
bl_noinline bool bl_take_streamed(struct bl_ep *ep, struct bl_rx *rx, const struct bl_slot *slot,
				  uint32_t len, struct bl_post *post, const uint8_t *bytes);
/* The same of a message that the fast path doesn't take, into the receive that bl_proxy_match()
 * finds for it, if that can be. *copied, where true is returned: it could. */
bl_noinline bool bl_arrive_streamed(struct bl_ep *ep, const struct bl_arrival *a, bool tagged,
				    const uint8_t *bytes, bool *copied);
/* The receive has been written to by a message that is still to come, and so isn't cancelled: of
 * one that is, no part may have been altered (MPI 4.0, 3.8.4). Its message ends it, or its sender's
 * death. */
bool bl_post_is_begun(const struct bl_post *post, bool tagged);

#endif
