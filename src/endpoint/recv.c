/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * recv.c: posted receives, unexpected messages, and everything about them that isn't a short tagged
 * message for a posted buffer (endpoint.h has that one). Serialised by the domain. Bytes in shared
 * memory are read once and checked.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memcheck.h"
#include "core/retry.h"
#include "endpoint/api.h"
#include "transport/local/ways/proxy.h"
#include "core/match.h"
#include "endpoint/recv.h"
#include "transport/local/rma/rma.h"
#include "endpoint/srx.h"
#include "core/stat.h"
#include "transport/local/ways/frag.h"
#include "endpoint/txq.h"
#include "endpoint/trigger.h"

#define POSTS_AT_ONCE 256
#define IOVS_AT_ONCE  64
#define MULTI_ALIGN   64 /* messages in one buffer begin on a line of their own */

/* --- pools -------------------------------------------------------------- */

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

/* Bytes of it that are copied here. */
static size_t bytes_kept(const struct bl_unexpected *u)
{
	return u->large ? 0 : u->len;
}

/* Messages beyond the eager limit that came whole and wait for their receives. While they are more
 * than BL_KEPT_MOST bytes we say so in our header, and senders, who look every few packets
 * (bl_is_congested), announce theirs. */
static void count_eager_long(struct bl_ep *ep, const struct bl_unexpected *u, bool comes)
{
	bool congested;

	if (u->large || likely(u->len <= ep->limit.eager_max))
		return;
	if (comes)
		ep->congestion.bytes += u->len;
	else
		ep->congestion.bytes -= u->len;
	congested = ep->congestion.bytes > BL_KEPT_MOST;
	if (congested != ep->congestion.high && ep->local.seg.header)
		atomic_store_explicit(&ep->local.seg.header->congested, congested,
				      memory_order_relaxed);
	ep->congestion.high = congested;
}

/* ep: which it came to. */
void bl_unexpected_free(struct bl_ep *ep, struct bl_unexpected *u)
{
	bl_stat_unexpected_over(ep, bytes_kept(u));
	count_eager_long(ep, u, false);
	bl_unexpected_put(ep->home, u);
}

/* --- a message meets a receive ------------------------------------------ */

static struct bl_sink no_sink; /* completions go to the queues; it is never written to */

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
static struct bl_target target_of(struct bl_ep *ep, struct bl_post_queue *queue,
				  struct bl_post **at, size_t len, bool tagged, bool *spent)
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
static void bytes_are_there(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
			    const struct bl_target *t, size_t len, uint64_t tag, uint64_t data,
			    uint32_t slot_flags)
{
	const struct bl_receipt receipt = {
		.peer = peer,
		.context = t->context,
		.buf = bl_target_iov(t)[0].iov_base,
		.flags = t->flags | (slot_flags & BL_SLOT_DATA ? BL_REMOTE_CQ_DATA : 0),
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

/* Bytes from the ring into one buffer. Where messages cross, what the next one of ours will be
 * written to is asked for meanwhile: each line takes 6 ns to come, to be read or to be written,
 * and neither waits for the other. */
static void move_out(struct bl_ep *ep, void *to, const void *bytes, size_t len, uint32_t slot_flags)
{
	if (unlikely(slot_flags & BL_SLOT_NT_STORED)) {
		bl_move_far(to, bytes, len);
	} else if (ep->warm && bl_is_exchange(ep->warm)) {
		uint32_t size;
		const uint8_t *next = bl_tx_payload_next(&ep->warm->tx, BL_PREFETCH_MOST, &size);

		bl_move_asking(to, bytes, len, next, size);
		ep->exchange = true;
		ep->warm = NULL;
	} else {
		memcpy(to, bytes, len);
	}
}

/* The bytes of a message that came whole go where they belong. */
static void copy_out(struct bl_ep *ep, const struct iovec *iov, size_t niov, const void *bytes,
		     size_t len, uint32_t slot_flags)
{
	uint64_t began;

	if (unlikely(len >= BL_PROXY_MIN))
		bl_habit_back_now(ep); /* whoever posted its receive is back */
	began = bl_copy_begins(ep, len);
	if (niov != 1)
		bl_iov_scatter(iov, niov, 0, bytes, len);
	else if (len)
		move_out(ep, iov->iov_base, bytes, len, slot_flags);
	bl_copy_ends(ep, began);
}

static void finish_bytes(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
			 const struct bl_target *t, const void *bytes, size_t len, uint64_t tag,
			 uint64_t data, uint32_t slot_flags)
{
	copy_out(ep, bl_target_iov(t), t->niov, bytes, bl_min(len, t->len), slot_flags);
	bytes_are_there(ep, sink, peer, t, len, tag, data, slot_flags);
}

/* A message that came whole has been delivered, and its sender may want to hear of it. */
static void tell(struct bl_ep *ep, struct bl_peer *peer, uint64_t request, uint32_t slot_flags)
{
	if (unlikely(slot_flags & BL_SLOT_ACK))
		bl_ack(ep, peer, request, 0);
}

void bl_unexpected_refuse(struct bl_ep *ep, struct bl_unexpected *u)
{
	if (u->large)
		bl_ack(ep, u->peer, u->request, 0);
	else
		tell(ep, u->peer, u->request, u->flags);
	bl_unexpected_free(ep, u);
}

/* An early message goes into a receive that isn't in a queue. False: not now, no
 * memory. */
bool bl_unexpected_give(struct bl_sink *sink, struct bl_unexpected *u, struct bl_post *post,
			bool tagged, bool *spent)
{
	struct bl_ep *ep = bl_ep_of(u->peer);
	struct bl_target t;

	if (u->large && !bl_recv_op_ready(ep))
		return false;
	bl_proxy_came(ep, post, tagged, u->peer, u->len);
	t = target_of(ep, NULL, &post, u->len, tagged, spent);
	if (u->large) {
		struct bl_arrival a = {
			.peer = u->peer,
			.request = u->request,
			.tag = u->tag,
			.data = u->data,
			.len = u->len,
			.piece = u->piece,
			.npiece = u->npiece,
			.slot_flags = u->flags,
			.key = u->key,
			.early = true,
		};

		bl_recv_op_begin(ep, sink, &a, &t);
	} else {
		finish_bytes(ep, sink, u->peer, &t, u->bytes, u->len, u->tag, u->data, u->flags);
		tell(ep, u->peer, u->request, u->flags);
	}
	if (!t.multi)
		bl_post_release(ep->home, post);
	return true;
}

/* --- arrival ------------------------------------------------------------ */

/* Keep a message for later; bytes: NULL: a large one. False: no memory; it stays in the ring. */
static bool keep(struct bl_ep *ep, const struct bl_arrival *a, bool tagged, const void *bytes)
{
	struct bl_ep *home = ep->home;
	struct bl_unexpected_queue *early =
		tagged ? &home->tagged.unexpected : &home->msg.unexpected;
	struct bl_unexpected *u = bl_unexpected_get(home, bytes ? a->len : 0);

	if (!u)
		return false;
	u->peer = a->peer;
	u->tag = a->tag;
	u->data = a->data;
	u->flags = a->slot_flags;
	u->len = a->len;
	u->request = a->request;
	u->claimed_by = NULL;
	u->large = !bytes;
	if (bytes) {
		u->flags &= (uint8_t)~BL_SLOT_NT_STORED; /* we copy it now */
		copy_out(ep, &(struct iovec){u->bytes, a->len}, 1, bytes, a->len, a->slot_flags);
	} else {
		u->npiece = a->npiece;
		memcpy(u->piece, a->piece, a->npiece * sizeof u->piece[0]);
		if (unlikely(a->slot_flags & BL_SLOT_RKEYS))
			memcpy(u->key, a->key, a->npiece * sizeof u->key[0]);
	}
	bl_unexpected_append(early, u);
	bl_stat_unexpected(ep, bytes_kept(u));
	count_eager_long(ep, u, true);
	return true;
}

static bool arrive_bytes(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *a,
			 bool tagged, const void *bytes)
{
	struct bl_ep *home = ep->home;
	struct bl_post_queue *queue = tagged ? &home->tagged.posted : &home->msg.posted;
	struct bl_post **at, *post;
	bool spent, copied = false;

	if (unlikely(a->slot_flags & BL_SLOT_ACK))
		bl_proxy_took(ep, a->peer, a->len);
	/* What isn't whole takes no receive but that which it is copied into. */
	if (unlikely(a->streamed != NULL) && !bl_arrive_streamed(ep, a, tagged, bytes, &copied))
		return false;
	at = bl_proxy_match(ep, queue, bl_source_name(ep, a->peer), tagged ? a->tag : 0);
	post = *at;
	if (!post)
		return !bl_defer(sink, a) && keep(ep, a, tagged, bytes);

	bl_proxy_came(ep, post, tagged, a->peer, a->len);

	struct bl_target t = target_of(ep, queue, at, a->len, tagged, &spent);

	if (unlikely(copied))
		bytes_are_there(ep, sink, a->peer, &t, a->len, a->tag, a->data, a->slot_flags);
	else
		finish_bytes(ep, sink, a->peer, &t, bytes, a->len, a->tag, a->data, a->slot_flags);
	tell(ep, a->peer, a->request, a->slot_flags);
	if (!t.multi)
		bl_post_release(home, post);
	return true;
}

/* A large message's description, from shared memory; false: it makes no sense. */
static bool read_rts(const void *bytes, uint32_t len, struct bl_arrival *a, struct iovec *piece,
		     struct bl_rkeys *rkeys)
{
	const size_t fixed = offsetof(struct bl_rts, piece);
	struct bl_rts rts;

	if (len < fixed)
		return false;
	memcpy(&rts, bytes, fixed);
	if (!bl_described((const char *)bytes + fixed, len - fixed, a->slot_flags & BL_SLOT_RKEYS,
			  piece, &a->npiece, rkeys))
		return false;
	a->piece = piece;
	a->key = rkeys->key;
	a->len = rts.len;
	a->request = rts.request;
	return a->len != SIZE_MAX && bl_iov_len_checked(piece, a->npiece) == a->len;
}

static bool arrive_large(struct bl_ep *ep, struct bl_sink *sink, struct bl_arrival *a, bool tagged)
{
	struct bl_ep *home = ep->home;
	struct bl_post_queue *queue = tagged ? &home->tagged.posted : &home->msg.posted;
	struct bl_post **at, *post;
	bool spent;

	if (!bl_recv_op_ready(ep)) /* before a receive is taken from its senders */
		return false;
	at = bl_proxy_match(ep, queue, bl_source_name(ep, a->peer), tagged ? a->tag : 0);
	post = *at;
	if (!post)
		return keep(ep, a, tagged, NULL);
	bl_proxy_came(ep, post, tagged, a->peer, a->len);

	struct bl_target t = target_of(ep, queue, at, a->len, tagged, &spent);

	bl_recv_op_begin(ep, sink, a, &t);
	if (!t.multi)
		bl_post_release(home, post);
	return true;
}

/* The number of the sender's request for a message that came whole; 0: he wants to hear of none. */
static uint64_t request_of(const struct bl_slot *slot, uint32_t head)
{
	uint32_t len = BL_HEAD_LEN(head);
	const uint64_t *at =
		len > BL_SLOT_INLINE ? &slot->request : &slot->word[BL_SLOT_ACK_WORD(len)];

	return BL_HEAD_FLAGS(head) & BL_SLOT_ACK ? *(const volatile uint64_t *)at : 0;
}

bl_noinline bool bl_take_long(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			      uint32_t head, const uint8_t *bytes, struct bl_post **at)
{
	uint32_t len = BL_HEAD_LEN(head), flags = BL_HEAD_FLAGS(head);
	struct bl_post *post = *at;
	uint64_t request = request_of(slot, head);
	bool streamed = bl_slot_is_streamed(head);
	bool ours = post->src == peer; /* else another's message may take it meanwhile */

	if (unlikely(flags & BL_SLOT_ACK))
		bl_proxy_took(ep, peer, len);
	if (streamed && !bl_take_streamed(ep, &peer->rx, slot, len, ours ? post : NULL, bytes))
		return false;
	if (!streamed || !ours)
		copy_out(ep, &(struct iovec){post->buf, len}, 1, bytes, len, flags);
	bl_post_unlink(&ep->tagged.posted, at);
	bl_proxy_came(ep, post, true, peer, len);
	tell(ep, peer, request, flags);
	bl_has_read(ep, peer, slot, head);
	return true;
}

bl_noinline void bl_took_acked(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			       uint32_t head)
{
	tell(ep, peer, request_of(slot, head), BL_HEAD_FLAGS(head));
}

static bool deliver_other(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
			  const struct bl_slot *slot, uint32_t head, uint64_t tag, uint64_t data)
{
	uint32_t len = BL_HEAD_LEN(head), op = BL_HEAD_OP(head), flags = BL_HEAD_FLAGS(head);
	const uint8_t *bytes = bl_packet_bytes(peer, slot, head);
	struct iovec piece[BL_IOV_MAX];
	struct bl_rkeys rkeys;
	struct bl_arrival a = {
		.peer = peer, .tag = tag, .data = data, .slot_flags = (uint8_t)flags};
	enum bl_proxy_rts claim;
	int err;

	if (unlikely(peer->broken))
		return false;
	if (unlikely(!bytes))
		goto nonsense;
	switch (op) {
	case BL_OP_TAGGED:
	case BL_OP_MSG:
		a.len = len;
		a.request = request_of(slot, head);
		a.streamed = bl_slot_is_streamed(head) ? slot : NULL;
		return arrive_bytes(ep, sink, &a, op == BL_OP_TAGGED, bytes);
	case BL_OP_TAGGED_RTS:
	case BL_OP_MSG_RTS:
		if (!read_rts(bytes, len, &a, piece, &rkeys))
			goto nonsense;
		claim = bl_proxy_on_rts(ep, sink, slot, &a, op == BL_OP_TAGGED_RTS);
		if (claim == BL_PROXY_RTS_NONSENSE)
			goto nonsense;
		if (claim == BL_PROXY_RTS_WAIT ||
		    (claim == BL_PROXY_RTS_OURS &&
		     !arrive_large(ep, sink, &a, op == BL_OP_TAGGED_RTS)))
			return false;
		bl_tx_heard_rts(&peer->tx, bl_copybuf_takes(a.len), flags);
		bl_stats_announce_in(peer, a.len);
		return true;
	case BL_OP_CTS:
		bl_on_cts(ep, peer, tag, data, bytes, len);
		return true;
	case BL_OP_FRAG_ASK:
		bl_on_frag_ask(ep, peer, tag, data, bytes, len);
		return true;
	case BL_OP_FRAG:
		bl_on_frag(ep, peer, tag, data, bytes, len);
		return true;
	case BL_OP_FIN:
		bl_on_fin(ep, sink, peer, tag, data);
		return true;
	case BL_OP_WITHDRAW:
		bl_on_withdraw(ep, peer, tag);
		return true;
	default:
		err = bl_rma_packet(ep, sink, peer, head, tag, data, bytes);
		if (err == -EPROTO)
			goto nonsense;
		return !err;
	}
nonsense:
	bl_warn("process %u sent a packet that makes no sense; it is not listened to any more",
		peer->addr.pid);
	peer->broken = true; /* bl_ep_look() ends it */
	return false;
}

bl_noinline bool bl_deliver_other(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
				  const struct bl_slot *slot, uint32_t head, uint64_t tag,
				  uint64_t data)
{
	uint32_t op = BL_HEAD_OP(head);

	if (!deliver_other(ep, sink, peer, slot, head, tag, data))
		return false;
	if (op != BL_OP_TAGGED && op != BL_OP_MSG)
		bl_stats_packet_in(peer, BL_HEAD_LEN(head));
	return true;
}

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

static struct bl_work *work_of(const struct bl_post *post)
{
	return post->flags & BL_POST_WORK ? post->work : NULL;
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

/* A receive ends before any message has ended it; err 0: its owner takes it back. */
static void end_post(struct bl_ep *ep, struct bl_sink *sink, struct bl_post_queue *queue,
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

static bool cancel_in(struct bl_ep *ep, struct bl_post_queue *queue, bool tagged, void *context)
{
	for (struct bl_post **at = &queue->head, *post; (post = *at); at = &post->next) {
		/* Not one that a sender is writing into, nor one whose message has begun: perhaps
		 * another of that context. */
		if (post->context != context || bl_post_is_begun(post, tagged) ||
		    (post->flags & BL_POST_PUBLISHED && !bl_proxy_revoke(ep, post)))
			continue;
		end_post(ep, &no_sink, queue, at, tagged, 0);
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
		end_post(ep, sink, queue, at, tagged, err);
	}
}

static void claimed_is_there(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *a,
			     const struct bl_target *t)
{
	bl_memcheck_written(bl_target_iov(t), t->niov, bl_min(a->len, t->len));
	bytes_are_there(ep, sink, a->peer, t, a->len, a->tag, a->data, a->slot_flags);
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
	t = target_of(ep, NULL, &post, a->len, tagged, &spent);
	bl_cq_moved(ep, ep->bound.rx_cq, a->len);
	if (unlikely(copy))
		bl_recv_op_begin(ep, sink, a, &t);
	else
		claimed_is_there(ep, sink, a, &t);
	bl_post_release(ep->home, post);
}

bl_cold void bl_recv_fail(struct bl_ep *ep, struct bl_sink *sink, struct bl_post *post, bool tagged,
			  int err)
{
	struct bl_post_queue *queue = tagged ? &ep->home->tagged.posted : &ep->home->msg.posted;

	end_post(ep, sink, queue, bl_post_link(queue, post), tagged, err);
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
