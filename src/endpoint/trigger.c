/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * trigger.c: operations that wait for a counter; see trigger.h. Serialised by the domain.
 */
#include "endpoint/trigger.h"

#include <stdlib.h>
#include <string.h>

#include "endpoint/srx.h"

/* --- lists ------------------------------------------------------------------ */

/* Behind all that have the same threshold. */
static void enqueue(struct bl_work *w)
{
	struct bl_cntr *cntr = w->trigger;
	struct bl_domain *domain = cntr->domain;
	struct bl_work **at = &cntr->queued;

	if (!cntr->triggers) {
		cntr->triggers = true;
		cntr->next_trigger = domain->triggers;
		domain->triggers = cntr;
	}
	while (*at && (*at)->threshold <= w->threshold)
		at = &(*at)->next;
	w->next = *at;
	*at = w;
}

/* A counter's queue may have become empty. */
static void prune(struct bl_domain *domain)
{
	for (struct bl_cntr **at = &domain->triggers, *c; (c = *at);) {
		if (c->queued) {
			at = &c->next_trigger;
			continue;
		}
		*at = c->next_trigger;
		c->triggers = false;
	}
}

static void begun(struct bl_domain *domain, struct bl_work *w)
{
	w->next = domain->begun;
	w->link = &domain->begun;
	if (w->next)
		w->next->link = &w->next;
	domain->begun = w;
}

/* --- beginning and ending ----------------------------------------------------- */

/* It never began: say so as the operation itself would. counts: its owner hasn't taken
 * it back. */
bl_cold void bl_work_fail(const struct bl_work *w, int err, bool counts)
{
	struct bl_sink none = BL_SINK_NONE;
	struct bl_comp_err e = {.err = err, .src = BL_ADDR_ANY};
	struct bl_ep *ep = w->ep;
	struct bl_cntr *cntr;
	struct bl_cq *cq;
	bool fetches;

	switch (w->what) {
	case BL_WORK_INJECT: /* nobody waits for it, nor could tell it from others */
		if (ep->bound.tx_cntr)
			bl_cntr_error(ep->bound.tx_cntr);
		return;
	case BL_WORK_SEND:
		e.comp.context = w->send.context;
		e.comp.flags = (w->send.flags & (BL_MSG | BL_TAGGED)) | BL_SEND;
		e.olen = bl_iov_len(w->send.iov, w->send.niov);
		cq = ep->bound.tx_cq;
		cntr = ep->bound.tx_cntr;
		break;
	case BL_WORK_RECV:
		if (ep->shared)
			ep = bl_srx_teller(ep);
		e.comp.context = w->recv.context;
		e.comp.flags = (w->recv.flags & (BL_MSG | BL_TAGGED)) | BL_RECV;
		e.comp.tag = w->recv.tag;
		cq = ep->bound.rx_cq;
		cntr = ep->bound.rx_cntr;
		break;
	case BL_WORK_RMA:
		fetches = w->rma.what == BL_RMA_READ || w->rma.what >= BL_RMA_FETCH;
		e.comp.context = w->rma.context;
		e.comp.flags = (w->rma.what >= BL_RMA_ATOMIC ? BL_ATOMIC : BL_RMA) |
			       (fetches ? BL_READ : BL_WRITE);
		e.olen = bl_iov_len(w->rma.iov, w->rma.niov);
		cq = ep->bound.tx_cq;
		cntr = fetches ? ep->rma_cntr.read : ep->rma_cntr.write;
		break;
	default:
		return;
	}
	if (cntr && !w->deferred && counts)
		bl_cntr_error(cntr);
	bl_cq_fail(cq, &none, &e);
}

/* Do it. 0: it has begun, and if it is deferred it may be over and gone. */
static int perform(struct bl_work *w)
{
	switch (w->what) {
	case BL_WORK_SEND:
		return w->send.flags & BL_FENCE ? bl_send_fenced(w->ep, &w->send)
						: bl_send(w->ep, &w->send);
	case BL_WORK_RECV:
		return bl_recv(w->ep, &w->recv);
	case BL_WORK_RMA:
		return bl_rma(w->ep, &w->rma);
	case BL_WORK_SET:
		bl_cntr_set(w->target, w->value);
		return 0;
	default:
		bl_cntr_add(w->target, w->value);
		return 0;
	}
}

/* It is in no list. False: not now, and it still isn't. */
static bool start(struct bl_work *w)
{
	bool told = w->deferred && w->what < BL_WORK_SET; /* of its end: bl_work_over() */
	int err;

	if (told)
		begun(w->trigger->domain, w);
	err = perform(w);
	if (!err && told)
		return true;
	if (err == -EAGAIN) {
		if (told)
			bl_work_unlink(w);
		return false;
	}
	if (err)
		bl_work_fail(w, -err, true);
	if (told)
		bl_work_over(w, -err);
	else
		bl_work_end(w);
	return true;
}

/* Begin what waits for this counter, in order; true: something has. What can't (for want of
 * memory, say: all else is queued where it goes) is tried again at the next look. */
static bool run(struct bl_domain *domain, struct bl_cntr *cntr)
{
	struct bl_work **at = &cntr->queued, *w;
	bool any = false;

	while ((w = *at) && w->threshold <= cntr->value + cntr->errors) {
		/* Deferred work waits for all that has ended, the other for success. */
		if (!w->deferred && w->threshold > cntr->value) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		if (!start(w)) {
			w->next = *at;
			*at = w;
			domain->stuck = true;
			return any;
		}
		any = true;
	}
	return any;
}

static void look(struct bl_domain *domain)
{
	bool any;

	do { /* one may be what another waits for */
		any = false;
		domain->stuck = false;
		for (struct bl_cntr *c = domain->triggers; c; c = c->next_trigger)
			any |= run(domain, c);
	} while (any);
	prune(domain);
}

void bl_work_look(struct bl_domain *domain)
{
	if (domain->working)
		return;
	domain->working = true;
	look(domain);
	domain->working = false;
}

void bl_work_progress(struct bl_domain *domain, struct bl_ep *ep, struct bl_sink *sink)
{
	if (domain->working) /* it is what we are called by */
		return;
	domain->working = true;
	for (struct bl_ep *other = domain->eps; other; other = other->next_in_domain)
		if (other != ep)
			bl_progress(other, sink);
	look(domain);
	domain->working = false;
}

void bl_work_kick(struct bl_cntr *cntr)
{
	struct bl_sink none = BL_SINK_NONE;

	bl_work_progress(cntr->domain, NULL, &none);
}

bool bl_work_naps(const struct bl_domain *domain, uint32_t neps)
{
	uint32_t all = 0;

	if (likely(!domain->works))
		return false;
	for (const struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain)
		all++;
	return domain->stuck || neps < all;
}

/* --- queueing and taking back --------------------------------------------------- */

static bool copy_iov(struct bl_work *w, unsigned which, const struct iovec **iov, size_t n)
{
	if (n > BL_IOV_MAX)
		return false;
	if (n)
		memcpy(w->iov[which], *iov, n * sizeof w->iov[which][0]);
	*iov = w->iov[which];
	return true;
}

/* A copy of n pieces of that size behind *at; returns it. */
static void *copy_to(char **at, const void *from, size_t n, size_t size)
{
	void *to = *at;

	if (n)
		memcpy(to, from, n * size);
	*at += n * size;
	return to;
}

static bool own_many(struct bl_work *w)
{
	const size_t place = sizeof w->rma.place[0], iov = sizeof w->rma.iov[0];
	struct bl_rma *rma = &w->rma;
	char *at = malloc(rma->nplace * place + (rma->niov + rma->ncompare + rma->nresult) * iov);

	if (!at)
		return false;
	w->more = at;
	rma->place = copy_to(&at, rma->place, rma->nplace, place);
	rma->iov = copy_to(&at, rma->iov, rma->niov, iov);
	rma->compare = copy_to(&at, rma->compare, rma->ncompare, iov);
	rma->result = copy_to(&at, rma->result, rma->nresult, iov);
	return true;
}

static bool has_many(const struct bl_rma *rma)
{
	return rma->nplace > BL_IOV_MAX || rma->niov > BL_IOV_MAX || rma->ncompare > BL_IOV_MAX ||
	       rma->nresult > BL_IOV_MAX;
}

static bool own(struct bl_work *w)
{
	w->more = NULL;
	switch (w->what) {
	case BL_WORK_SEND:
		return copy_iov(w, 0, &w->send.iov, w->send.niov);
	case BL_WORK_RECV:
		return copy_iov(w, 0, &w->recv.iov, w->recv.niov);
	case BL_WORK_RMA:
		if (unlikely(has_many(&w->rma)))
			return own_many(w);
		if (w->rma.nplace)
			memcpy(w->place, w->rma.place, w->rma.nplace * sizeof w->place[0]);
		w->rma.place = w->place;
		return copy_iov(w, 0, &w->rma.iov, w->rma.niov) &&
		       copy_iov(w, 1, &w->rma.compare, w->rma.ncompare) &&
		       copy_iov(w, 2, &w->rma.result, w->rma.nresult);
	default:
		return true;
	}
}

/* Who is to hear of its end. */
static void tell(struct bl_work *w)
{
	struct bl_work *self = w->deferred ? w : NULL;

	if (w->what == BL_WORK_SEND)
		w->send.work = self;
	else if (w->what == BL_WORK_RECV)
		w->recv.work = self;
	else if (w->what == BL_WORK_RMA)
		w->rma.work = self;
}

int bl_work_queue(struct bl_domain *domain, const struct bl_work *work)
{
	struct bl_work *w = malloc(sizeof *w);

	if (!w)
		return -EAGAIN;
	*w = *work;
	if (!own(w)) {
		bool many = w->what == BL_WORK_RMA && has_many(&w->rma); /* for want of memory */

		free(w);
		return many ? -EAGAIN : -EINVAL;
	}
	tell(w);
	bl_work_hold(w, true);
	enqueue(w);
	bl_work_count(domain, true);
	bl_work_kick(w->trigger);
	return 0;
}

/* What of the queued work is meant. */
struct which {
	const void *name;	    /* deferred, named so */
	const struct bl_cntr *cntr; /* deferred, waiting for it */
	const struct bl_ep *ep;	    /* of this endpoint; with context: triggered */
	const void *context;
	bool all; /* deferred */
};

static const void *context_of(const struct bl_work *w)
{
	return w->what == BL_WORK_SEND	 ? w->send.context
	       : w->what == BL_WORK_RECV ? w->recv.context
					 : w->rma.context;
}

static bool meant(const struct bl_work *w, const struct which *which)
{
	if (which->ep && which->context)
		return !w->deferred && w->ep == which->ep && context_of(w) == which->context;
	if (which->ep)
		return w->ep == which->ep;
	return w->deferred && (which->all || (which->name && w->name == which->name) ||
			       (which->cntr && w->trigger == which->cntr));
}

/* Out of its queue; `most` of them. How many there were. */
static uint32_t take_back(struct bl_domain *domain, const struct which *which, uint32_t most)
{
	uint32_t n = 0;

	for (struct bl_cntr *c = domain->triggers; c; c = c->next_trigger)
		for (struct bl_work **at = &c->queued, *w; (w = *at) && n < most;) {
			if (!meant(w, which)) {
				at = &w->next;
				continue;
			}
			*at = w->next;
			if (which->context)
				bl_work_fail(w, ECANCELED, false);
			bl_work_end(w);
			n++;
		}
	prune(domain);
	return n;
}

int bl_work_cancel(struct bl_domain *domain, const void *name)
{
	return take_back(domain, &(struct which){.name = name}, 1) ? 0 : -ENOENT;
}

void bl_work_flush(struct bl_domain *domain, const struct bl_cntr *trigger)
{
	take_back(domain, &(struct which){.cntr = trigger, .all = !trigger}, UINT32_MAX);
}

bool bl_work_cancel_triggered(struct bl_ep *ep, const void *context)
{
	return context && take_back(ep->domain, &(struct which){.ep = ep, .context = context}, 1);
}

void bl_work_meet(struct bl_ep *ep)
{
	bl_work_attend(ep, ep->domain->works > 0);
}

void bl_work_drop(struct bl_ep *ep)
{
	take_back(ep->domain, &(struct which){.ep = ep}, UINT32_MAX);
	for (struct bl_work *w = ep->domain->begun, *next; w; w = next) {
		next = w->next;
		if (w->ep != ep)
			continue;
		bl_work_unlink(w);
		bl_work_end(w);
	}
	bl_work_attend(ep, false);
}
