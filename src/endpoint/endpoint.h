/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * endpoint.h: the inline paths of a short message; a read of completions, which begins the one on
 * the receiver's side, is in read.h. The structures are in core/ep.h. Serialised by the domain.
 *
 *   bl_inject / bl_send_buf ─► bl_put ─► ring of the peer
 *   bl_cq_read ─► bl_progress ─► bl_deliver ─► posted queue ─► bl_complete
 *                      │              └──────► unexpected queue, large messages
 *                      └─ work(): large messages, control packets, news
 */
#ifndef BL_ENDPOINT_ENDPOINT_H
#define BL_ENDPOINT_ENDPOINT_H

#include <errno.h>

#include "core/ep.h"
#include "core/post.h"
#include "core/retry.h"
#include "endpoint/wait.h"
#include "transport/local/adapt/demote.h"
#include "transport/local/adapt/policy.h"
#include "transport/local/deliver.h"

static_assert(offsetof(struct bl_ep, warm) % BL_LINE == BL_LINE - sizeof(void *),
	      "`ndest` to `warm`, what a message needs besides, is one line");

static inline void bl_ep_report_srx(struct bl_ep *ep, bool always)
{
	ep->reports = always;
}

/* --- progress ----------------------------------------------------------- */

bl_noinline void bl_ep_doorbells(struct bl_ep *ep, struct bl_sink *sink);
bl_noinline void bl_ep_work(struct bl_ep *ep, struct bl_sink *sink);

bl_always_inline void bl_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	for (uint32_t i = 0; i < ep->local.npolled; i++)
		bl_poll_peer(ep, sink, ep->local.hot[i]);
	if (unlikely(ep->local.nunpolled))
		bl_ep_doorbells(ep, sink);
	if (unlikely(ep->work | atomic_load_explicit(&ep->local.attention, memory_order_relaxed)))
		bl_ep_work(ep, sink);
}

/* --- sending ------------------------------------------------------------ */

/* What goes there can't begin yet: it is to be queued. txq.h */
#define BL_QUEUE (-EINPROGRESS)

/* One message longer than a slot, as one packet through the payload; `head`: of its length, its
 * operation and flags. send.c */
bl_noinline int bl_put_long(struct bl_ep *ep, struct bl_peer *peer, const void *buf, uint32_t head,
			    uint64_t tag, uint64_t data);

/* The peer at dest with room for a packet, or why not; BL_QUEUE. */
bl_noinline int bl_find_room(struct bl_ep *ep, uint64_t dest, struct bl_peer **peer);
/* A message longer than bl_ep_limits.eager_max, in one piece. */
bl_noinline int bl_send_long(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			     uint64_t tag, uint64_t data, void *context, uint64_t flags);

/* The same, or one that may be longer, waits. txq.c */
bl_cold int bl_txq_inject(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			  uint64_t tag, uint64_t data, uint64_t flags);
bl_cold int bl_txq_buf(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest, uint64_t tag,
		       uint64_t data, void *context, uint64_t flags);

/* One message of at most inject_max bytes into dest's ring. */
bl_always_inline int bl_put(struct bl_ep *ep, uint64_t dest, const void *buf, size_t len,
			    uint64_t tag, uint64_t data, uint32_t op, uint32_t flags)
{
	struct bl_peer *peer = likely(dest < ep->ndest) ? ep->dest[dest] : &bl_nobody;

	if (unlikely(ep->demoting.sampled))
		bl_demote_next(ep);
	if (unlikely(!bl_tx_room(&peer->tx))) {
		int err = bl_find_room(ep, dest, &peer);

		if (err)
			return err;
	}
	if (unlikely(len > BL_SLOT_INLINE))
		return bl_put_long(ep, peer, buf, BL_HEAD(len, op, flags), tag, data);

	struct bl_tx *tx = &peer->tx;
	struct bl_slot *slot = bl_tx_slot(tx);
	bool stream = bl_tx_streams(tx, peer->rx.next);

	bl_prefetch_write(slot);
	bl_tx_before_packet(tx, len, stream);
	if (stream)
		bl_rx_settle(&peer->rx);
	bl_slot_fill(slot, buf, len);
	bl_compiler_barrier();
	slot->head = BL_HEAD(len, op, flags | BL_SLOT_HEARD(peer->rx.next));
	slot->tag = tag;
	slot->data = data;
	bl_tx_publish(tx, slot, (uint32_t)len);
	bl_demote_packet(ep, tx, slot, len, stream);
	bl_peer_notify(peer);
	bl_tx_after_packet(tx, len, stream);
	return 0;
}

bl_always_inline int bl_put_flags(struct bl_ep *ep, uint64_t dest, const void *buf, size_t len,
				  uint64_t tag, uint64_t data, uint64_t flags)
{
	return bl_put(ep, dest, buf, len, tag, data, flags & BL_TAGGED ? BL_OP_TAGGED : BL_OP_MSG,
		      flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0);
}

static inline int bl_inject(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			    uint64_t tag, uint64_t data, uint64_t flags)
{
	if (unlikely(len > ep->limit.inject_max))
		return -EMSGSIZE;

	int err = bl_put_flags(ep, dest, buf, len, tag, data, flags);

	if (unlikely(err == BL_QUEUE))
		return bl_txq_inject(ep, buf, len, dest, tag, data, flags);
	return err;
}

static inline int bl_inject_counted(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
				    uint64_t tag, uint64_t data, uint64_t flags)
{
	if (unlikely(len > ep->limit.inject_max))
		return -EMSGSIZE;

	int err = bl_put_flags(ep, dest, buf, len, tag, data, flags);

	if (unlikely(err == BL_QUEUE)) /* counted when it goes */
		return bl_txq_inject(ep, buf, len, dest, tag, data, flags);
	if (!err && ep->bound.tx_cntr)
		bl_cntr_add(ep->bound.tx_cntr, 1);
	return err;
}

static inline int bl_send_buf(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			      uint64_t tag, uint64_t data, void *context, uint64_t flags)
{
	if (unlikely(len > ep->limit.eager_max))
		return bl_send_long(ep, buf, len, dest, tag, data, context, flags);

	int err = bl_put_flags(ep, dest, buf, len, tag, data, flags);

	if (unlikely(err == BL_QUEUE))
		return bl_txq_buf(ep, buf, len, dest, tag, data, context, flags);
	if (unlikely(err))
		return err;
	if (ep->bound.tx_cntr)
		bl_cntr_up(ep->bound.tx_cntr);
	if (flags & BL_COMPLETION && ep->bound.tx_cq)
		bl_cq_append(ep->bound.tx_cq,
			     &(struct bl_comp){context, (flags & (BL_TAGGED | BL_MSG)) | BL_SEND,
					       len, NULL, 0, 0},
			     BL_ADDR_ANY);
	return 0;
}

/* --- receiving ---------------------------------------------------------- */

/* Something has come early, or the source is yet to be resolved. */
bl_noinline int bl_recv_slow(struct bl_ep *ep, struct bl_post *post, uint64_t src, bool tagged);

static inline int bl_recv_buf(struct bl_ep *ep, void *buf, size_t len, uint64_t src, uint64_t tag,
			      uint64_t ignore, void *context, uint64_t flags)
{
	bool tagged = flags & BL_TAGGED;
	struct bl_post_queue *queue = tagged ? &ep->tagged.posted : &ep->msg.posted;
	struct bl_unexpected_queue *early = tagged ? &ep->tagged.unexpected : &ep->msg.unexpected;
	struct bl_post *post = ep->free_post;
	struct bl_peer *peer = NULL;

	if (unlikely(!post) && !(post = bl_post_more(ep)))
		return bl_no_memory(ep);
	if (src != BL_ADDR_ANY)
		peer = likely(src < ep->ndest) ? ep->dest[src] : &bl_nobody;
	ep->free_post = post->next;
	post->tag = tagged ? tag : 0;
	post->ignore = tagged ? ignore : UINT64_MAX;
	post->src = peer;
	post->buf = buf;
	post->len = len;
	post->context = context;
	post->flags = (flags & BL_COMPLETION ? 0 : BL_POST_QUIET) |
		      (flags & BL_MULTI_RECV ? BL_POST_MULTI : 0);
	post->niov = 1;
	post->iov = NULL;
	post->next = NULL;
	/* One that is shown to its senders finds what has come already. */
	if (unlikely(early->head || peer == &bl_nobody || len > ep->limit.publish_above))
		return bl_recv_slow(ep, post, src, tagged);
	if (unlikely(queue->index != NULL))
		return bl_post_append(queue, post);
	*queue->tail = post;
	queue->tail = &post->next;
	return 0;
}

/* Something under way moves only if we do it. endpoint.c */
bool bl_ep_needs_hand(const struct bl_ep *ep);

/* Before the last look before a sleep: whoever makes room for what waits for it, our caller's or
 * ours, rings. -EOPNOTSUPP: one can't. send.c */
int bl_ep_want_credit(struct bl_ep *ep);

/* After that look: of all, or of those that nothing waits for any more. */
void bl_ep_forgo_credit(struct bl_ep *ep, bool all);

/* The peer at an index of the address vector. -EINVAL: there is none. endpoint.c */
int bl_ep_resolve(struct bl_ep *ep, uint64_t index, struct bl_peer **peer);

/* What names this peer takes the slow way, until it is resolved again. endpoint.c */
void bl_ep_unname(struct bl_ep *ep, const struct bl_peer *peer);

/* An endpoint without a segment and an address, and its end; NULL: no memory. endpoint.c */
struct bl_ep *bl_ep_new(struct bl_domain *domain);

void bl_ep_free(struct bl_ep *ep);
void bl_ep_unbind_av(struct bl_ep *ep);
void bl_recv_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err);

/* The peer broke the protocol, or is gone: nothing of it is believed any more. */
bl_cold void bl_ep_peer_gone(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err);

/* Take in peers that have connected. endpoint.c */
void bl_ep_adopt(struct bl_ep *ep);

/* Connect to a peer that isn't adopted, waiting for it once. Like bl_peer_connect(). endpoint.c */
bl_cold int bl_ep_connect(struct bl_ep *ep, struct bl_peer *peer);

/* Rarely: lives of peers, lanes that have gone silent. endpoint.c */
bl_cold void bl_ep_look(struct bl_ep *ep, struct bl_sink *sink, uint64_t now);

#endif
