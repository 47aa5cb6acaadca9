/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * withdraw.c: sends that their owner cancels after they have left, and that wait for their
 * receiver. Serialised by the domain. One that waits at the sender is cancelled there (txq.c).
 *
 *   sender                                       receiver
 *   RTS, unread: says WITHDRAWN; over            drops it when it reads it
 *   RTS, read    ── WITHDRAW ──────────────────► has no receive for it: drops it
 *   over         ◄─ FIN, ECANCELED ─────────────
 *   lies in the
 *   ring: over   ── WITHDRAW ──────────────────► has no receive for it: drops it
 *   number free  ◄─ FIN ────────────────────────
 *
 * The bytes of an announced message are still in its owner's buffer, which the receiver reads. So
 * that send ends only when the receiver can't begin any more. It decides: by one compare-and-swap
 * of the word in the RTS (local/advert.h), or, once it has read that, by its answer. If a receive
 * has the message there is no other answer than the usual FIN.
 *
 * A message that lies in the ring has left its buffer: its send is over at once, however long the
 * receiver is away. It may still be received, if its receive is posted before WITHDRAW is read. Its
 * number isn't used again before FIN, which may be a bit, and a bit has no generation (fin.c).
 */
#include "core/claim.h"
#include "core/match.h"
#include "core/recv.h"
#include "core/stream.h"

static struct bl_sink no_sink; /* completions go to the queues */

/* --- sender --------------------------------------------------------------- */

static void tell_user(struct bl_ep *ep, const struct bl_request *r)
{
	struct bl_comp_err e = {
		.comp = {r->context, r->flags, 0, NULL, 0, 0},
		.olen = r->len,
		.err = ECANCELED,
		.src = BL_ADDR_ANY,
	};

	bl_cq_fail(ep->tx_cq, &no_sink, &e);
}

static void withdraw(struct bl_ep *ep, struct bl_request *r)
{
	if (r->open && bl_claim_withdraw(r)) {
		r->cancel = BL_CANCEL_ASKED;
		bl_request_end(ep, &no_sink, r, ECANCELED);
		return;
	}
	r->cancel = r->whole ? BL_CANCEL_TOLD : BL_CANCEL_ASKED;
	if (r->whole)
		tell_user(ep, r);
	bl_control(ep, r->peer, BL_OP_WITHDRAW, bl_request_number(r), 0, NULL, 0);
}

/* Its receiver has begun with it: too late. */
static bool has_begun(const struct bl_request *r)
{
	return r->coop || r->nrange || r->serving;
}

bl_cold bool bl_withdraw(struct bl_ep *ep, const void *context)
{
	for (uint32_t i = 0; context && ep->requests && i < ep->nrequest; i++) {
		struct bl_request *r = ep->request[i];

		/* Deferred work is cancelled by its name. */
		if (!r->peer || r->context != context || r->work || r->cancel || has_begun(r))
			continue;
		withdraw(ep, r);
		return true;
	}
	return false;
}

/* --- receiver ------------------------------------------------------------- */

static bool drop(struct bl_ep *ep, struct bl_unex_queue *early, const struct bl_peer *peer,
		 uint64_t number)
{
	for (struct bl_unex **at = &early->head; *at; at = &(*at)->next) {
		struct bl_unex *u = *at;

		if (u->peer != peer || u->request != number ||
		    (!u->large && !(u->flags & BL_SLOT_TELL)))
			continue;
		bl_fin(ep, u->peer, number,
		       u->large ? ECANCELED | (u->ahead ? BL_FIN_EARLY : 0) : 0, false);
		bl_unex_free(ep, bl_unex_unlink(early, at));
		return true;
	}
	return false;
}

bl_cold void bl_on_withdraw(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number)
{
	struct bl_ep *home = ep->home;

	if (!drop(ep, &home->early_tagged, peer, number))
		drop(ep, &home->early_msg, peer, number);
}
