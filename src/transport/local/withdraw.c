/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * withdraw.c: sends that their owner cancels after they have left, and that wait for their
 * receiver. Serialised by the domain. One that waits at the sender is cancelled there (txq.c).
 *
 *   sender                                       receiver
 *   RTS, unread: says WITHDRAWN; over            drops it when it reads it
 *   RTS, read    ── WITHDRAW ──────────────────► has no receive for it: drops it
 *   over         ◄─ FIN, ECANCELED ─────────────
 *
 * After an RTS the bytes are still in their owner's buffer, which the receiver reads. So that
 * send ends only when the receiver can't begin any more. It decides: by one compare-and-swap
 * of the word in the RTS (transport/local/ways/advert.h), or, once it has read that, by its answer.
 * If a receive has the message there is no other answer than the usual FIN.
 *
 * An eager message has left its buffer, but a receive that is posted before
 * WITHDRAW is read still gets it. So its send, too, ends only by the receiver's answer: it is
 * cancelled or received, never both.
 */
#include "core/match.h"
#include "core/post.h"
#include "transport/local/deliver.h"
#include "transport/local/ways/proxy.h"

static struct bl_sink no_sink; /* completions go to the queues */

/* --- sender --------------------------------------------------------------- */

static void withdraw(struct bl_ep *ep, struct bl_send_op *r)
{
	r->cancelled = true;
	if (r->open && bl_proxy_withdraw(r))
		bl_send_op_end(ep, &no_sink, r, ECANCELED);
	else
		bl_control(ep, r->peer, BL_OP_WITHDRAW, bl_send_op_number(r), 0, NULL, 0);
}

/* Its receiver has begun with it: too late. */
static bool has_begun(const struct bl_send_op *r)
{
	return r->chunks || r->nrange || r->serving;
}

bl_cold bool bl_withdraw(struct bl_ep *ep, const void *context)
{
	for (uint32_t i = 0; context && ep->rndv.requests && i < ep->rndv.nrequest; i++) {
		struct bl_send_op *r = ep->rndv.request[i];

		/* Deferred work is cancelled by its name. */
		if (!r->peer || r->context != context || r->work || r->cancelled || has_begun(r))
			continue;
		withdraw(ep, r);
		return true;
	}
	return false;
}

/* --- receiver ------------------------------------------------------------- */

static bool drop(struct bl_ep *ep, struct bl_unexpected_queue *early, const struct bl_peer *peer,
		 uint64_t number)
{
	for (struct bl_unexpected **at = &early->head; *at; at = &(*at)->next) {
		struct bl_unexpected *u = *at;

		if (u->peer != peer || u->request != number ||
		    (!u->large && !(u->flags & BL_SLOT_ACK)))
			continue;
		bl_ack(ep, u->peer, number, ECANCELED);
		bl_unexpected_free(ep, bl_unexpected_unlink(early, at));
		return true;
	}
	return false;
}

bl_cold void bl_on_withdraw(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number)
{
	struct bl_ep *home = ep->home;

	if (!drop(ep, &home->tagged.unexpected, peer, number))
		drop(ep, &home->msg.unexpected, peer, number);
}
