/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * nap.c: see nap.h.
 */
#include "wait/nap.h"

#include "copy/engine.h"
#include "core/ep.h"
#include "core/stat.h"

#define QUIET_READ_NS	 2000u /* of a processor, from one read to the next, ... */
#define QUIET_CALLS	 3u    /* ... and so many system calls: read_ns() */
#define QUIET_READ_LEAST 4000u /* its bounds */
#define QUIET_READ_MOST	 12000u
#define QUIET_COLD_NS	 10000u	 /* and once after a nap: its caches are cold */
#define QUIET_DOUBTS	 2u	 /* more than that, so many times: it works */
#define QUIET_WORK_NS	 200000u /* or this, once */
#define QUIET_READS	 64u	 /* so many, at least, before it is believed */
#define QUIET_AFTER	 4u	 /* and between two naps */
#define QUIET_PART	 100u	 /* of the wait is a nap ... */
#define QUIET_LEAST	 50u	 /* ... of so many us at the least, ... */
#define QUIET_MOST	 1000u	 /* ... and at the most */

static uint32_t count(const struct bl_ep *ep, enum bl_stat which)
{
	return (uint32_t)atomic_load_explicit(&ep->local.stats->counter[which].value,
					      memory_order_relaxed);
}

/* Differs when something was sent or received, or done by our own hand, by way of this one. */
static uint32_t moves_of(const struct bl_ep *ep)
{
	uint32_t sum = count(ep, BL_STAT_rma_reads) + count(ep, BL_STAT_rma_writes) +
		       count(ep, BL_STAT_rma_atomics);

	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		const struct bl_peer *peer = ep->local.by_index[i];

		if (peer)
			sum += peer->tx.next + peer->rx.next;
	}
	return sum;
}

/* Another queue's, too: who reads several in turn waits for what comes to any. */
static uint32_t moves(const struct bl_cq *cq)
{
	uint32_t sum = 0;

	for (const struct bl_ep *ep = cq->domain->eps; ep; ep = ep->next_in_domain)
		sum += moves_of(ep);
	return sum;
}

/* Ticks: when anything was last seen to have moved in this process. */
static _Atomic uint64_t news;

void bl_nap_look(struct bl_ep *ep, uint64_t now)
{
	uint32_t sum = bl_knobs()->idle == BL_IDLE_NAP ? moves_of(ep) : ep->moves;

	if (sum == ep->moves)
		return;
	ep->moves = sum;
	atomic_store_explicit(&news, now, memory_order_relaxed);
}

static void look(struct bl_cq *cq)
{
	struct bl_nap *quiet = &cq->crowd.quiet;

	quiet->cpu_ns = bl_clock_thread_ns();
	quiet->empties = cq->empties;
	quiet->moves = moves(cq);
	quiet->looked = true;
}

static bool has_news(const struct bl_cq *cq)
{
	const struct bl_nap *quiet = &cq->crowd.quiet;

	return (int64_t)(atomic_load_explicit(&news, memory_order_relaxed) - quiet->since) > 0 ||
	       quiet->moves != moves(cq);
}

/* What one read may take of a processor: the loop of a library, and yields, its own and ours, which
 * may switch to others. */
static uint64_t read_ns(void)
{
	uint64_t ns = QUIET_READ_NS + QUIET_CALLS * (uint64_t)bl_copy_plan()->call_ns;

	return ns < QUIET_READ_LEAST ? QUIET_READ_LEAST : bl_min(ns, (uint64_t)QUIET_READ_MOST);
}

/* What its thread did between reads that is more than reading. (Of several that read, another's
 * clock is nonsense, and mostly too much.) An interrupt may look like it, once. */
static bool works(struct bl_nap *quiet, uint32_t reads)
{
	uint64_t used = bl_clock_thread_ns() - quiet->cpu_ns;
	uint64_t most = reads * read_ns();

	if (!quiet->naps)
		return used > most;
	quiet->doubts = used > most + QUIET_COLD_NS ? quiet->doubts + 1u : 0;
	return quiet->doubts >= QUIET_DOUBTS || used > QUIET_WORK_NS;
}

bool bl_nap_take(struct bl_cq *cq, uint64_t now)
{
	struct bl_nap *quiet = &cq->crowd.quiet;
	uint64_t us = (now - quiet->since) / bl_ticks_per_us() / QUIET_PART;
	uint32_t reads = cq->empties - quiet->empties;

	if (quiet->looked && reads < (quiet->naps ? QUIET_AFTER : QUIET_READS))
		return false;
	if (!quiet->looked || has_news(cq) || works(quiet, reads)) {
		bl_nap_begins(quiet, now);
		look(cq);
		return false;
	}
	quiet->naps = true;
	us = us < QUIET_LEAST ? QUIET_LEAST : bl_min(us, (uint64_t)QUIET_MOST);
	if (!quiet->doubts && !bl_oversub_sleep(cq, us, now))
		return false;
	look(cq);
	return true;
}
