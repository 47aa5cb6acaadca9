/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * read.c: reading completion queues and counters: progress, and what is done in an idle moment. The
 * queue itself is in core/comp.c. Serialised by the domain.
 */
#include <stdlib.h>
#include <string.h>

#include "base/knobs.h"
#include "endpoint/api.h"
#include "endpoint/trigger.h"
#include "transport/local/rma/count.h"
#include "transport/local/ways/proxy.h"

/* A wait that lasts so long gives its core away: what it waits for may need it. Longer
 * than a short message's way, so that two ranks with a core each never pay for it. */
#define YIELD_AFTER_US 30
#define COMPUTING_US   7 /* between two reads: its core is of use to the caller */
/* A yield that nobody takes costs as much as some reads. So, on a core that isn't known to be
 * shared, one in so many microseconds; and fewer if nothing of ours is awaited, for whoever polls
 * us then may wait for something that a peer does in memory (an epoch of Open MPI's windows), which
 * is over in less. But for a while after one that somebody has taken each read yields: he may be
 * the one who is waited for. */
#define YIELD_EVERY_US	2
#define YIELD_RARELY_US 30
#define TAKEN_US	100

/* Who finds each time what its own operations left here, complete at once, never gets
 * to the lanes: without this its neighbours would wait for it for ever. */
static bl_cold void look_and_progress(struct bl_cq *cq)
{
	struct bl_sink none = BL_SINK_NONE;

	for (uint32_t i = 0; i < cq->nep; i++)
		bl_progress(cq->ep[i], &none);
	bl_cq_look(cq);
}

ssize_t bl_cq_take(struct bl_cq *cq, void *buf, size_t max, size_t entry, uint64_t *src)
{
	size_t n = 0;

	for (; n < max && cq->head != cq->tail; n++) {
		struct bl_queued *q = &cq->ring[cq->head & cq->mask];

		if (unlikely(q->error))
			return n ? (ssize_t)n : -BL_EAVAIL;
		memcpy((char *)buf + n * entry, &q->comp, entry);
		if (src)
			src[n] = q->src;
		cq->head++;
	}
	if (!n)
		return -EAGAIN;
	bl_yield_hook_read(&cq->yields, true);
	if (unlikely(!(++cq->full % BL_LOOK_READS)))
		look_and_progress(cq);
	return (ssize_t)n;
}

/* What a pass has brought, or 0. */
static ssize_t harvest(struct bl_cq *cq, struct bl_sink *sink)
{
	if (sink->n)
		return (ssize_t)sink->n;
	if (unlikely(cq->head != cq->tail) && sink->cq == cq)
		return bl_cq_take(cq, sink->at, sink->max ? sink->max : 1, sink->entry, sink->src);
	return 0;
}

static void look_around(struct bl_cq *cq, struct bl_sink *sink, uint64_t now)
{
	for (uint32_t i = 0; i < cq->nep; i++) {
		struct bl_ep *ep = cq->ep[i];

		if (unlikely(ep->warm != NULL) && !ep->exchange)
			bl_warm_payload(ep);
		bl_proxy_upkeep(ep, now);
		if (unlikely(bl_has_come(now, ep->watch.next_look)))
			bl_ep_look(ep, sink, now);
	}
}

bl_cold void bl_cq_look(struct bl_cq *cq)
{
	struct bl_sink none = BL_SINK_NONE;

	bl_oversub_put_right(cq, bl_ticks());
	look_around(cq, &none, bl_ticks());
}

/* A pass may be a long copy. */
static bool has_work(const struct bl_cq *cq)
{
	for (uint32_t i = 0; i < cq->nep; i++)
		if (bl_ep_has_work(cq->ep[i]))
			return true;
	return false;
}

/* Nothing has come for a while. */
static void warm_all(struct bl_cq *cq)
{
	for (uint32_t i = 0; i < cq->nep; i++)
		if (unlikely(cq->ep[i]->warm != NULL))
			bl_warm_payload(cq->ep[i]);
}

/* What came was for another queue of the same endpoints, which our caller may read next. */
static bool others_have_some(const struct bl_cq *cq)
{
	for (uint32_t i = 0; i < cq->nep; i++) {
		const struct bl_cq *tx = cq->ep[i]->bound.tx_cq, *rx = cq->ep[i]->bound.rx_cq;

		if ((tx && tx != cq && tx->head != tx->tail) ||
		    (rx && rx != cq && rx->head != rx->tail))
			return true;
	}
	return false;
}

#define SAY_PASSES  32u	   /* a microsecond or two */
#define PASSES_MOST 65536u /* by whatever clock: more than any wait for a moment has */

/* Whoever polls for long is here, too. */
static void say_here(const struct bl_cq *cq)
{
	uint64_t now = bl_ticks();

	for (uint32_t i = 0; i < cq->nep; i++)
		bl_presence_seen(cq->ep[i], now);
}

/* Poll for so many passes; or, until > 0, until then; true: there is something. */
static bool poll_on(struct bl_cq *cq, struct bl_sink *sink, uint64_t passes, uint64_t until)
{
	for (uint64_t pass = 1; passes; pass++) {
		for (uint32_t i = 0; i < cq->nep; i++)
			bl_progress(cq->ep[i], sink);
		if (unlikely(sink->n || cq->head != cq->tail)) {
			bl_cq_brought(cq);
			return true;
		}
		if (pass >= passes && (!until || pass >= PASSES_MOST || has_work(cq)))
			break;
		if (unlikely(!(pass % SAY_PASSES)))
			say_here(cq);
		if (until && !(pass % 4) &&
		    (bl_has_come(bl_ticks(), until) || others_have_some(cq)))
			break;
	}
	return false;
}

/* On a core that is shared: the one that we wait for may be about to answer. True: it has. */
static bool stay(struct bl_cq *cq, struct bl_sink *sink, uint64_t *now)
{
	struct bl_stay stay;
	bool found, others = others_have_some(cq);

	if (others || !bl_oversub_stay(cq, &stay))
		return false;
	do {
		found = poll_on(cq, sink, 4, 0);
		others = others_have_some(cq);
	} while (!found && !others && bl_oversub_stay_on(cq, &stay));
	bl_oversub_stayed(&cq->crowd, &stay, found || others);
	*now = bl_ticks();
	return found;
}

/* On a core of our own. True: something is there. */
static bool spin(struct bl_cq *cq, struct bl_sink *sink, uint64_t *now, bool begins)
{
	bool waiting = !begins && *now - cq->last_empty < bl_waiting_ticks();
	bool longer = begins && bl_spin_credit_may_spin(&cq->crowd.read);
	bool found;

	if (!waiting && !longer)
		return false;
	found = poll_on(cq, sink, bl_knobs()->spin, longer ? *now + bl_first_ticks() : 0);
	/* One that was cut short says nothing. */
	if (longer && (found || !(others_have_some(cq) || has_work(cq))))
		bl_spin_credit_spun(&cq->crowd.read, found);
	if (longer && !found)
		bl_oversub_doubt(cq, bl_ticks());
	if (!found)
		warm_all(cq);
	*now = bl_ticks();
	return found;
}

/* Whoever keeps a buffer for many messages (MPICH and Intel MPI do, for what isn't an MPI
 * message) listens, and mostly waits for none of them. */
static bool is_single(const struct bl_post *post)
{
	return post && !(post->flags & BL_POST_MULTI);
}

/* A receive, a send or a copy. (One-sided operations by the target's hand aren't counted once they
 * have all been asked for, and then nobody spins for them.) */
static bool awaits(const struct bl_cq *cq)
{
	for (uint32_t i = 0; i < cq->nep; i++) {
		const struct bl_ep *ep = cq->ep[i], *home = ep->home;

		if (home->tagged.posted.head || is_single(home->msg.posted.head) ||
		    bl_ep_has_work(ep) || ep->rndv.requests)
			return true;
	}
	return false;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) > 0 ? a : b;
}

/* One empty read after another: who has posted a large receive, say, waits now. */
static void say_waits(const struct bl_cq *cq)
{
	for (uint32_t i = 0; i < cq->nep; i++)
		bl_habit_waits(cq->ep[i]);
}

/* A read that brings nothing ends. `vain`: the library above needn't yield behind it. */
static void say_empty(struct bl_cq *cq, uint64_t now, bool vain)
{
	bl_yield_hook_read(&cq->yields, vain);
	cq->empties++;
	cq->empty_full = cq->full;
	cq->last_empty = now;
}

/* In a wait that lasts, on a core of our own as far as is known. */
static bool may_yield(const struct bl_cq *cq, uint64_t now, bool awaited)
{
	uint64_t every = awaited ? YIELD_EVERY_US : YIELD_RARELY_US, us = bl_ticks_per_us();

	return now - cq->gave_way > every * us || now - cq->crowd.taken < TAKEN_US * us;
}

/* One who waits has found nothing yet. Nothing `awaited`: for a message that it will ask for when
 * it has come (MPI_Probe), say, which mostly ends no spin. */
static ssize_t wait_on(struct bl_cq *cq, struct bl_sink *sink, uint64_t now, bool awaited)
{
	bool first = cq->empty_full != cq->full; /* behind a read that brought something */
	bool begins = cq->wait_full != cq->full;
	bool computing = now - cq->last_empty > COMPUTING_US * bl_ticks_per_us();
	bool crowded = bl_oversub_shared(&cq->crowd, now), in_row = !(first | computing), lasts;
	bool quiet = bl_nap_lasts(&cq->crowd.quiet, now) && !begins;
	enum bl_migrate_step step = BL_MIGRATE_REMAIN;
	ssize_t n;

	if (!awaited && !begins)
		warm_all(cq);
	if (crowded ? stay(cq, sink, &now) : awaited && !quiet && spin(cq, sink, &now, begins))
		return harvest(cq, sink);
	n = harvest(cq, sink);
	if (n)
		return n;
	if (crowded && begins)
		step = bl_oversub_step(cq, now);
	if (crowded && (!(first | computing) || bl_oversub_waits(cq)))
		bl_oversub_leave(cq);
	if (begins) {
		bl_oversub_new_wait(&cq->crowd, awaited);
		bl_nap_begins(&cq->crowd.quiet, now);
		cq->wait_full = cq->full;
	}
	if (begins | computing)
		cq->wait_began = now;
	else if (cq->renewed) /* since when nobody else has had the core: that may be long ago */
		cq->wait_began = later(cq->wait_began, cq->gave_way);
	cq->renewed = false;
	lasts = in_row && (crowded || now - cq->wait_began > YIELD_AFTER_US * bl_ticks_per_us());
	if (in_row)
		say_waits(cq);
	/* before a yield: others may read meanwhile */
	say_empty(cq, now, !crowded && !lasts && (first || !computing));
	if (unlikely(step != BL_MIGRATE_REMAIN))
		cq->last_empty = cq->gave_way = bl_oversub_go(cq, step, now);
	else if (unlikely(quiet) && bl_nap_take(cq, now))
		cq->last_empty = cq->gave_way = bl_ticks();
	else if (lasts && (crowded || may_yield(cq, now, awaited)))
		cq->last_empty = cq->gave_way = bl_oversub_give_way(cq, now);
	return -EAGAIN;
}

bl_noinline ssize_t bl_cq_idle(struct bl_cq *cq, struct bl_sink *sink)
{
	ssize_t n = harvest(cq, sink);
	bool awaited;
	uint64_t now;

	if (n)
		return n;
	now = bl_ticks();
	look_around(cq, sink, now);
	if (sink->cq == &bl_no_queue)
		return -EAGAIN;
	cq->in_row = 0;
	n = harvest(cq, sink);
	if (n)
		return n;
	/* Open MPI 4 reads after each message until there is none, and returns to the program,
	 * which may have nothing to wait for any more: no wait begins. */
	awaited = awaits(cq);
	if (!awaited && cq->empty_full != cq->full) {
		say_empty(cq, now, false);
		return -EAGAIN;
	}
	return wait_on(cq, sink, now, awaited);
}

/* --- counters ----------------------------------------------------------- */

static void progress_all(struct bl_cntr *cntr)
{
	for (uint32_t i = 0; i < cntr->nep; i++)
		bl_ep_progress(cntr->ep[i]);
	/* Any of the domain's endpoints may count here. */
	if (unlikely(cntr->regions | cntr->domain->works))
		for (struct bl_ep *ep = cntr->domain->eps; ep; ep = ep->next_in_domain)
			bl_ep_progress(ep);
}

uint64_t bl_cntr_read(struct bl_cntr *cntr)
{
	cntr->reads++;
	progress_all(cntr);
	return cntr->value;
}

uint64_t bl_cntr_readerr(struct bl_cntr *cntr)
{
	cntr->reads++;
	progress_all(cntr);
	return cntr->errors;
}

/* By hand: who sleeps on it looks, and what waits for it may begin. */
static void changed(struct bl_cntr *cntr)
{
	cntr->by_hand++;
	bl_wait_wake(&cntr->wait);
	if (unlikely(cntr->queued != NULL))
		bl_work_kick(cntr);
}

void bl_cntr_add(struct bl_cntr *cntr, uint64_t value)
{
	cntr->value += value;
	changed(cntr);
}

void bl_cntr_set(struct bl_cntr *cntr, uint64_t value)
{
	if (cntr->number) /* what was counted before is replaced, too */
		cntr->domain->hooks->settle(cntr->domain);
	cntr->value = value;
	changed(cntr);
}

void bl_cntr_adderr(struct bl_cntr *cntr, uint64_t value)
{
	cntr->errors += value;
	changed(cntr);
}

void bl_cntr_seterr(struct bl_cntr *cntr, uint64_t value)
{
	cntr->errors = value;
	changed(cntr);
}

int bl_cntr_open(struct bl_domain *domain, struct bl_cntr **cntr)
{
	struct bl_cntr *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	c->domain = domain;
	bl_wait_init(&c->wait, NULL, c);
	domain->users++;
	*cntr = c;
	return 0;
}

int bl_cntr_close(struct bl_cntr *cntr)
{
	if (cntr->users)
		return -EBUSY;
	cntr->domain->users--;
	bl_rma_count_leave(cntr);
	bl_wait_fini(&cntr->wait);
	free(cntr->ep);
	free(cntr);
	return 0;
}
