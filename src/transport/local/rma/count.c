/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* count.c: one-sided operations that their origins count; see count.h. */
#include "transport/local/rma/count.h"

/* --- the origin ------------------------------------------------------------ */

static void hear_by(struct bl_heard *heard, uint32_t number)
{
	if (number)
		heard->number[heard->n++] = (uint8_t)number;
	else
		heard->packet = true;
}

void bl_rma_count_plan(const struct bl_peer *peer, const struct bl_rma *rma,
		       const struct bl_rma_memory *mem, struct bl_heard *heard)
{
	bool read = bl_rma_reads(rma->what);
	uint32_t all = atomic_load_explicit(&peer->mapped.header->mr.events, memory_order_relaxed);
	uint32_t own = read ? BL_MR_COUNT_OF(all) : BL_MR_COUNT_WRITES_OF(all);

	heard->packet = rma->flags & BL_REMOTE_CQ_DATA;
	heard->n = 0;
	if (unlikely(all & (read ? BL_MR_EVENT_READ : BL_MR_EVENT_WRITE)))
		hear_by(heard, own);
	/* The endpoint's counter may be a region's, too: it counts the operation once. */
	for (uint32_t i = 0; i < mem->ncount; i++)
		if (!mem->count[i] || mem->count[i] != own)
			hear_by(heard, mem->count[i]);
}

void bl_rma_count_add(struct bl_peer *peer, const struct bl_heard *heard)
{
	for (uint32_t i = 0; i < heard->n; i++) {
		_Atomic uint64_t *count = &peer->rx.lane->count[heard->number[i] - 1];
		uint64_t now = atomic_load_explicit(count, memory_order_relaxed);

		/* release: pairs with the acquire in bl_rma_count_take; what is written is there */
		atomic_store_explicit(count, now + 1, memory_order_release);
	}
	bl_peer_notify(peer);
}

/* --- the target: numbers ----------------------------------------------------- */

/* It may add to a count, now or unseen by us since, that is somebody else's already. */
static bool counts_late(const struct bl_peer *peer)
{
	const struct bl_lane *lane = peer->setup.has_lane ? peer->tx.lane : peer->setup.cts_all;
	uint32_t busy;

	if (!lane || peer->dead)
		return false;
	/* acquire: pairs with the release in direct.c */
	busy = atomic_load_explicit(&lane->rma_busy, memory_order_acquire);
	return !peer->adopted || (busy && busy == peer->watch.rma_stuck);
}

static bool any_counts_late(const struct bl_domain *domain)
{
	bool any = false;

	for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain) {
		pthread_mutex_lock(&ep->local.lock);
		for (struct bl_peer *peer = ep->local.peers.all; peer; peer = peer->next.all)
			any |= counts_late(peer);
		pthread_mutex_unlock(&ep->local.lock);
	}
	return any;
}

/* A number that nobody has, less one; BL_RMA_COUNTS: there is none. */
static uint32_t find_vacant(const struct bl_domain *domain)
{
	uint32_t used = 0;

	while (used < BL_RMA_COUNTS && domain->counter[used])
		used++;
	if (used == BL_RMA_COUNTS || !(domain->counts >> used & 1) || !any_counts_late(domain))
		return used;
	while (used < BL_RMA_COUNTS && domain->counts >> used & 1)
		used++;
	return used;
}

void bl_rma_count_meet(struct bl_ep *ep)
{
	/* relaxed: the service thread's looks may begin later */
	atomic_store_explicit(&ep->local.counts, ep->domain->counts, memory_order_relaxed);
	if (!ep->domain->counts || ep->duty.counting)
		return;
	ep->duty.counting = true;
	ep->work++;
}

uint32_t bl_rma_count_number(struct bl_cntr *cntr)
{
	struct bl_domain *domain;
	uint32_t at;

	if (!cntr || cntr->number)
		return cntr ? cntr->number : 0;
	domain = cntr->domain;
	at = find_vacant(domain);
	if (at == BL_RMA_COUNTS)
		return 0;
	for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain)
		bl_rma_count_take_all(ep); /* what is left of the one before is nobody's */
	domain->counter[at] = cntr;
	domain->counts |= 1u << at;
	for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain)
		bl_rma_count_meet(ep);
	cntr->number = at + 1;
	return cntr->number;
}

void bl_rma_count_leave(struct bl_cntr *cntr)
{
	if (cntr->number)
		cntr->domain->counter[cntr->number - 1] = NULL;
}

/* --- the target: taking what is counted --------------------------------------- */

void bl_rma_count_take(struct bl_ep *ep, struct bl_peer *peer)
{
	const struct bl_domain *domain = ep->domain;

	if (unlikely(peer->dead)) /* it may have no lane any more */
		return;
	for (uint32_t some = domain->counts; some; some &= some - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(some);
		uint64_t was = atomic_load_explicit(&peer->counted[i], memory_order_relaxed);
		/* acquire: pairs with the release in bl_rma_count_add */
		uint64_t now = atomic_load_explicit(&peer->tx.lane->count[i], memory_order_acquire);

		if (likely(now == was))
			continue;
		if (unlikely((int64_t)(now - was) < 0)) { /* nonsense: nobody's count goes down */
			peer->broken = true;
			continue;
		}
		atomic_store_explicit(&peer->counted[i], now, memory_order_relaxed);
		peer->watch.seen_at =
			bl_ticks(); /* its lane is polled as one that brings packets */
		if (domain->counter[i])
			bl_cntr_more(domain->counter[i], now - was);
	}
}

void bl_rma_count_take_polled(struct bl_ep *ep)
{
	for (uint32_t i = 0; i < ep->local.npolled; i++)
		bl_rma_count_take(ep, ep->local.hot[i]);
}

bl_cold void bl_rma_count_take_all(struct bl_ep *ep)
{
	for (uint32_t i = 0; i < ep->local.nby_index; i++)
		if (ep->local.by_index[i])
			bl_rma_count_take(ep, ep->local.by_index[i]);
}
