/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deliver.c: everything that arrives and is no short tagged message for a posted buffer; see
 * deliver.h. Serialised by the domain. Bytes in shared memory are read once and checked.
 */
#include "transport/local/deliver.h"

#include <string.h>

#include "base/log.h"
#include "transport/local/adapt/defer.h"
#include "transport/local/adapt/habit.h"
#include "transport/local/rma/rma.h"
#include "transport/local/ways/copybuf.h"
#include "transport/local/ways/frag.h"
#include "transport/local/ways/proxy.h"
#include "transport/local/ways/rndv.h"

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
	bl_target_over(ep, sink, peer, t, len, tag, data, bl_slot_data(slot_flags));
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
	t = bl_post_target(ep, NULL, &post, u->len, tagged, spent);
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
	bl_unexpected_add(ep, early, u);
	return true;
}

/*
 * The receive that it may be copied into at once, which no sender sees any more; NULL: none. No
 * other message may take it meanwhile: not one from anybody, nor one of a context. If it is the
 * first that matches but has been claimed, the next one isn't looked for.
 */
static struct bl_post *taken_for(struct bl_ep *ep, const struct bl_arrival *a, bool tagged)
{
	struct bl_post_queue *queue = tagged ? &ep->tagged.posted : &ep->msg.posted;
	struct bl_post *post;

	if (ep->home != ep)
		return NULL;
	post = *bl_match_find(queue, a->peer, tagged ? a->tag : 0);
	if (!post || post->src != a->peer || post->niov > 1 || post->flags & BL_POST_MULTI ||
	    a->len > post->len)
		return NULL;
	return !(post->flags & BL_POST_PUBLISHED) || bl_proxy_revoke(ep, post) ? post : NULL;
}

/* One that may still be being written is copied as it comes, into the receive that it will match,
 * if that can be (*copied). False: it stays in the ring. */
static bl_noinline bool arrive_streamed(struct bl_ep *ep, const struct bl_arrival *a, bool tagged,
					const uint8_t *bytes, bool *copied)
{
	uint32_t len = (uint32_t)a->len;
	struct bl_post *post = NULL;

	if (!(bl_rx_was_left(&a->peer->rx) && bl_slot_progress(a->streamed, len) < len))
		post = taken_for(ep, a, tagged);
	if (!bl_take_streamed(ep, &a->peer->rx, a->streamed, len, post, bytes))
		return false;
	*copied = post != NULL;
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
	if (unlikely(a->streamed != NULL) && !arrive_streamed(ep, a, tagged, bytes, &copied))
		return false;
	at = bl_proxy_match(ep, queue, bl_source_name(ep, a->peer), tagged ? a->tag : 0);
	post = *at;
	if (!post)
		return !bl_defer(sink, a) && keep(ep, a, tagged, bytes);

	bl_proxy_came(ep, post, tagged, a->peer, a->len);

	struct bl_target t = bl_post_target(ep, queue, at, a->len, tagged, &spent);

	if (unlikely(copied))
		bl_target_over(ep, sink, a->peer, &t, a->len, a->tag, a->data,
			       bl_slot_data(a->slot_flags));
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

	struct bl_target t = bl_post_target(ep, queue, at, a->len, tagged, &spent);

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

bl_noinline void bl_has_read(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			     uint32_t head)
{
	if (BL_HEAD_OP(head) <= BL_OP_MSG)
		bl_copybuf_heard(&peer->tx, &peer->rx, slot, head);
	if (ep->warm) { /* no idle moment came before the other's message */
		ep->exchange = bl_is_exchange(ep->warm);
		bl_warm_ask(ep); /* stores would be before its completion and its credit */
	}
	ep->unsaid += BL_HEAD_LEN(head);
	if (ep->unsaid >= BL_SAY_BYTES) {
		ep->unsaid = 0;
		bl_presence_active(ep, bl_ticks());
	}
}
