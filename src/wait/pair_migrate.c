/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pair_migrate.c: see pair_migrate.h.
 */
#include "wait/pair_migrate.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "endpoint/api.h"

#define LOOK	   2u	  /* waits between two looks, at least, and fewer than so many more */
#define WORK_NS	   12000u /* of a processor, for each packet: who uses more works in between */
#define MEASURE_US 20000u /* some turns of all that share a core */
#define PAUSE_US   10000u /* more, from the first to the last of a few looks, is a pause */
#define AGAIN_US   20000u /* from one time to the next, doubled each time, ... */
#define AGAIN_MOST 7u	  /* ... so often */

static int64_t ticks_of(uint64_t us)
{
	return (int64_t)(us * bl_ticks_per_us());
}

/* A number that our neighbours hardly have, another one each time. */
static uint32_t pick(uint64_t now)
{
	uint32_t n = (uint32_t)getpid() + (uint32_t)(now >> 4);

	/* Each bit of it depends on all: moments may be as far apart as they like. */
	n = (n ^ n >> 16) * 0x85ebca6bu;
	n = (n ^ n >> 13) * 0xc2b2ae35u;
	return (n ^ n >> 16) >> 16;
}

bool bl_migrate_may_look(struct bl_migrate *apart, uint64_t now)
{
	if (apart->until_look) {
		apart->until_look--;
		return false;
	}
	apart->until_look = LOOK + pick(now) % LOOK;
	return true;
}

/* Packets, whoever they were for. */
static uint32_t sent_to_all(const struct bl_cq *cq)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < cq->nep; i++) {
		const struct bl_local *local = &cq->ep[i]->local;

		for (uint32_t j = 0; j < local->nby_index; j++)
			if (local->by_index[j])
				sum += local->by_index[j]->tx.next;
	}
	return sum;
}

static uint64_t name_of(const struct bl_addr *addr)
{
	uint64_t name;

	memcpy(&name, addr->id, sizeof name);
	return name;
}

/* Tell our neighbours that we talk with this one alone; NULL: with nobody. */
static void say_partner(const struct bl_cq *cq, const struct bl_peer *peer)
{
	uint64_t name = peer ? name_of(&peer->addr) : 0;

	for (uint32_t i = 0; i < cq->nep; i++) {
		struct bl_seg_header *header = cq->ep[i]->local.seg.header;

		if (header && atomic_load_explicit(&header->partner, memory_order_relaxed) != name)
			atomic_store_explicit(&header->partner, name, memory_order_relaxed);
	}
}

/* It talks with us alone. */
static bool says_us(const struct bl_cq *cq, const struct bl_peer *peer)
{
	uint64_t name = atomic_load_explicit(&peer->mapped.header->partner, memory_order_relaxed);

	for (uint32_t i = 0; i < cq->nep; i++)
		if (name == name_of(&cq->ep[i]->local.addr))
			return true;
	return false;
}

static void begin(struct bl_migrate *apart, uint32_t to_all, uint64_t cpu_ns, uint64_t now)
{
	apart->enough = BL_MIGRATE_FEW + pick(now) % BL_MIGRATE_MORE;
	apart->same = BL_MIGRATE_SAME;
	apart->on_ours = 0;
	apart->to_it = apart->sent;
	apart->to_all = to_all;
	apart->cpu_ns = cpu_ns;
	apart->since = now;
}

static void measure_anew(struct bl_migrate *apart)
{
	apart->ticks = 0;
	apart->packets = 0;
}

/* What these looks show of how long a packet takes, unless there was a pause. */
static void measure(struct bl_migrate *apart, uint64_t now)
{
	int64_t took = bl_ticks_since(now, apart->since);

	if (took < 0 || took > ticks_of(PAUSE_US))
		return;
	apart->ticks += (uint64_t)took;
	apart->packets += apart->sent - apart->to_it;
}

/* It has been the same one, time after time. True: we are a pair, and on one core. */
static bool find_out(struct bl_cq *cq, const struct bl_peer *peer, uint64_t now)
{
	struct bl_migrate *apart = &cq->crowd.apart;
	uint32_t to_all = sent_to_all(cq), all = to_all - apart->to_all;
	uint64_t cpu_ns = bl_clock_thread_ns();
	bool others = (all - (apart->sent - apart->to_it)) * BL_MIGRATE_ALL >= all;
	bool works = cpu_ns - apart->cpu_ns > (uint64_t)WORK_NS * all;
	bool elsewhere = apart->enough - apart->on_ours > apart->enough / BL_MIGRATE_ALL;

	say_partner(cq, others ? NULL : peer);
	apart->pair = !others && !works && says_us(cq, peer);
	if (apart->pair)
		measure(apart, now);
	begin(apart, to_all, cpu_ns, now);
	return apart->pair && !elsewhere;
}

/* We are on one core, and measure for how long a packet takes there before we go. */
static enum bl_migrate_step may_go(struct bl_migrate *apart, bool on_ours, uint64_t now)
{
	/* The other one may have gone just before. */
	if (!on_ours)
		measure_anew(apart);
	if (apart->ticks < (uint64_t)ticks_of(MEASURE_US))
		return BL_MIGRATE_REMAIN;
	if (bl_is_due(now, apart->next))
		return BL_MIGRATE_GO;
	measure_anew(apart);
	return BL_MIGRATE_REMAIN;
}

/* We have gone: a packet takes two thirds of the time, at most, or we go back. */
static enum bl_migrate_step judge(struct bl_migrate *apart)
{
	bool worth = apart->ticks * 3 <= apart->each * apart->packets * 2;

	if (apart->ticks < 2 * (uint64_t)ticks_of(MEASURE_US))
		return BL_MIGRATE_REMAIN;
	measure_anew(apart);
	return worth ? BL_MIGRATE_REMAIN : BL_MIGRATE_BACK;
}

/* Nothing of what another thread has found out is true of us. */
static void forget(struct bl_migrate *apart)
{
	apart->thread = pthread_self();
	apart->peer = NULL;
	apart->each = 0;
}

enum bl_migrate_step bl_migrate_look(struct bl_cq *cq, const struct bl_peer *peer, bool on_ours,
				     uint64_t now)
{
	struct bl_migrate *apart = &cq->crowd.apart;
	bool same, one;

	if (!pthread_equal(apart->thread, pthread_self()))
		forget(apart);
	same = peer && peer == apart->peer && peer->tx.next != apart->sent;
	apart->peer = peer;
	apart->sent = peer ? peer->tx.next : 0;
	if (!same) {
		say_partner(cq, NULL);
		apart->same = 0;
		apart->pair = false;
		if (!apart->each)
			measure_anew(apart);
		return BL_MIGRATE_REMAIN;
	}
	apart->on_ours += on_ours;
	if (++apart->same == BL_MIGRATE_SAME)
		begin(apart, sent_to_all(cq), bl_clock_thread_ns(), now);
	if (apart->same < BL_MIGRATE_SAME + apart->enough)
		return BL_MIGRATE_REMAIN;
	one = find_out(cq, peer, now);
	if (apart->each && peer != apart->gone_for) {
		apart->each = 0; /* who has gone for another one remains there */
		measure_anew(apart);
	}
	return apart->each ? judge(apart) : may_go(apart, one && on_ours, now);
}

static void not_before(struct bl_migrate *apart, uint64_t now)
{
	apart->next = now + (uint64_t)(ticks_of(AGAIN_US) << apart->again);
	apart->again += apart->again < AGAIN_MOST;
}

uint32_t bl_migrate_goes(struct bl_migrate *apart, uint64_t now)
{
	apart->each = apart->ticks / (apart->packets + 1) + 1;
	apart->gone_for = apart->peer;
	measure_anew(apart);
	if (bl_ticks_since(now, apart->next) > ticks_of(AGAIN_US) << AGAIN_MOST)
		apart->again = 0; /* that was long ago */
	not_before(apart, now);
	return pick(now);
}

void bl_migrate_stays(struct bl_migrate *apart, uint64_t now)
{
	apart->each = 0;
	measure_anew(apart);
	apart->again = AGAIN_MOST;
	not_before(apart, now);
}
