/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * probe.c: looking at unexpected messages: FI_PEEK, and FI_CLAIM of what was found; see recv.h.
 * Serialised by the domain.
 */
#include "base/knobs.h"
#include "core/match.h"
#include "endpoint/recv.h"
#include "endpoint/srx.h"

static struct bl_sink no_sink; /* completions go to the queues */

static bool nothing_came(const struct bl_ep *ep)
{
	const struct bl_cq *rx = ep->bound.rx_cq, *tx = ep->bound.tx_cq;

	return rx->head == rx->tail && (!tx || tx->head == tx->tail) && !bl_ep_has_work(ep);
}

/* Poll until something is there, or, in vain, for so many passes; or, until > 0, until then. */
static void poll_early(struct bl_ep *ep, const struct bl_unexpected_queue *early, uint64_t until)
{
	uint64_t passes = until ? UINT64_MAX : bl_knobs()->spin;
	struct bl_unexpected **tail = early->tail;
	struct bl_sink none = BL_SINK_NONE;

	if (ep->warm && !ep->exchange)
		bl_warm_payload(ep);
	for (; passes && early->tail == tail && nothing_came(ep); passes--) {
		if (until && bl_is_due(bl_ticks(), until))
			return;
		bl_progress(ep, &none);
	}
}

/*
 * What is looked for isn't there. MPI_Probe looks again, by a long way through an error's
 * completion, as a read does in a wait: so the first look behind a read that brought something
 * begins with a spin while such spins find something, and while they do each that follows another
 * closely polls a little. False: not this one. Else as long as poll_early() is told.
 */
static bool may_poll(struct bl_cq *cq, uint64_t now, uint64_t *until)
{
	struct bl_spin_credit *luck = &cq->crowd.peek;
	bool begins = cq->peek_full != cq->full;
	bool longer = begins && bl_spin_credit_may_spin(luck);
	bool follows = !begins && now - cq->last_look < bl_waiting_ticks();

	luck->waits += begins;
	cq->peek_full = cq->full;
	*until = longer ? now + bl_first_ticks() : 0;
	return (longer || (follows && luck->luck)) && !bl_oversub_shared(&cq->crowd, now);
}

/* What is looked for may come while a look that may poll does so. NULL: it hasn't. */
static struct bl_unexpected **wait_for(struct bl_ep *ep, struct bl_unexpected_queue *early,
				       const struct bl_post *wanted, bool tagged)
{
	struct bl_unexpected **tail = early->tail, **at = NULL;
	struct bl_cq *cq = ep->bound.rx_cq;
	uint64_t until;

	if (!cq || unlikely(ep->shared) || cq->head != cq->tail || !bl_knobs()->spin)
		return NULL;
	if (may_poll(cq, bl_ticks(), &until)) {
		poll_early(ep, early, until);
		if (early->tail != tail)
			at = bl_unexpected_find(early, wanted, tagged);
		if (at && !*at)
			at = NULL;
		/* One that was cut short by something else says nothing. */
		if (until && (at || (early->tail == tail && nothing_came(ep))))
			bl_spin_credit_spun(&cq->crowd.peek, at);
		if (until && !at)
			bl_oversub_doubt(cq, bl_ticks());
	}
	cq->last_look = bl_ticks();
	return at;
}

/* FI_PEEK: say what waits, keep it for a claim, or drop it. */
int bl_probe(struct bl_ep *ep, const struct bl_recv *recv, struct bl_peer *src, bool tagged)
{
	struct bl_unexpected_queue *early = tagged ? &ep->tagged.unexpected : &ep->msg.unexpected;
	struct bl_post wanted = {.tag = tagged ? recv->tag : 0,
				 .ignore = tagged ? recv->ignore : UINT64_MAX,
				 .src = src};
	uint64_t flags = (tagged ? BL_TAGGED : BL_MSG) | BL_RECV;
	struct bl_unexpected **at, *u;
	struct bl_ep *member;
	int err;

	/* Always: a read that finds this answer waiting makes no progress either, so one
	 * that only probes, for a message that is there, would never see any other. */
	bl_ep_progress(ep);
	at = bl_unexpected_find(early, &wanted, tagged);
	u = *at;
	if (!u) {
		err = bl_recv_reach(ep, src, recv->src);
		if (err)
			return err; /* whoever looks again and again must hear of it */
		at = wait_for(ep, early, &wanted, tagged);
		u = at ? *at : NULL;
	}
	if (!u) {
		if (unlikely(ep->shared) && !bl_srx_teller(ep)->bound.rx_cq)
			return -ENOMSG; /* nobody's queue would say so */
		bl_recv_refuse(ep, &no_sink, NULL, recv->context, flags, recv->tag, ENOMSG, false);
		return 0;
	}
	if (u->flags & BL_SLOT_DATA)
		flags |= BL_REMOTE_CQ_DATA;
	member = bl_ep_of(u->peer);
	if (member->bound.rx_cq)
		bl_cq_append(member->bound.rx_cq,
			     &(struct bl_comp){recv->context, flags, u->len, NULL, u->data, u->tag},
			     u->peer->av_index);
	if (recv->flags & BL_CLAIM) {
		bl_unexpected_unlink(early, at);
		u->claimed_by = recv->context;
		u->next = ep->claimed;
		ep->claimed = u;
	} else if (recv->flags & BL_DISCARD) {
		bl_unexpected_unlink(early, at);
		bl_unexpected_refuse(member, u);
	}
	return 0;
}

static struct bl_unexpected **find_claimed(struct bl_ep *ep, const void *context)
{
	struct bl_unexpected **at = &ep->claimed;

	while (*at && (*at)->claimed_by != context)
		at = &(*at)->next;
	return at;
}

int bl_claim(struct bl_ep *ep, const struct bl_recv *recv, bool tagged)
{
	struct bl_unexpected **at = find_claimed(ep, recv->context), *u = *at;
	uint64_t flags = (tagged ? BL_TAGGED : BL_MSG) | BL_RECV;
	struct bl_post *post;
	struct bl_ep *member;
	bool spent;

	if (!u)
		return -ENOMSG;
	member = bl_ep_of(u->peer);
	if (recv->flags & BL_DISCARD) {
		*at = u->next;
		if (u->flags & BL_SLOT_DATA)
			flags |= BL_REMOTE_CQ_DATA;
		if (member->bound.rx_cq && (recv->flags & BL_COMPLETION || member->reports))
			bl_cq_append(member->bound.rx_cq,
				     &(struct bl_comp){recv->context, flags, u->len, NULL, u->data,
						       u->tag},
				     u->peer->av_index);
		bl_unexpected_refuse(member, u);
		return 0;
	}
	post = bl_post_make(ep, recv, NULL);
	if (!post || !bl_unexpected_give(&no_sink, u, post, tagged, &spent)) {
		if (post)
			bl_post_release(ep, post);
		return bl_no_memory(ep);
	}
	*at = u->next;
	bl_unexpected_free(member, u);
	return 0;
}
