/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * apart.c: see apart.h.
 */
#include "core/apart.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/core.h"
#include "place/place.h"

#define LOOK	 2u	/* waits between two looks, at least, and fewer than so many more */
#define QUICK_US 50000u /* all looks: who waits more rarely has other worries than a switch */
#define AGAIN_US 20000u /* after one time until the next, doubled each time, ... */
#define AGAIN	 6u	/* ... so often */

/* A number that our neighbours don't have, another one each time. */
static uint32_t pick(uint64_t now)
{
	return ((uint32_t)getpid() + (uint32_t)(now >> 4)) * 2654435761u >> 16;
}

bool bl_apart_may_look(struct bl_apart *apart, uint64_t now)
{
	if (apart->waits) {
		apart->waits--;
		return false;
	}
	apart->waits = LOOK + pick(now) % LOOK;
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
static void say(const struct bl_cq *cq, const struct bl_peer *peer)
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
	uint64_t name = atomic_load_explicit(&peer->header->partner, memory_order_relaxed);

	for (uint32_t i = 0; i < cq->nep; i++)
		if (name == name_of(&cq->ep[i]->local.addr))
			return true;
	return false;
}

static void begin(struct bl_apart *apart, uint32_t to_all, uint64_t now)
{
	apart->enough = BL_APART_FEW + pick(now) % BL_APART_MORE;
	apart->same = BL_APART_SAME;
	apart->gains = 0;
	apart->to_it = apart->sent;
	apart->to_all = to_all;
	apart->since = now;
}

/* It has been the same one, time after time. */
static bool is_time(struct bl_cq *cq, const struct bl_peer *peer, uint64_t now)
{
	struct bl_apart *apart = &cq->crowd.apart;
	uint32_t to_all = sent_to_all(cq), all = to_all - apart->to_all;
	bool others = all - (apart->sent - apart->to_it) >= all / BL_APART_ALL;
	bool vain = apart->enough - apart->gains > apart->enough / BL_APART_ALL;
	int64_t took = bl_ticks_since(now, apart->since);

	say(cq, others ? NULL : peer);
	apart->pair = !others && says_us(cq, peer);
	begin(apart, to_all, now);
	return apart->pair && !vain && took < (int64_t)(QUICK_US * bl_ticks_per_us()) &&
	       bl_is_due(now, apart->next);
}

bool bl_apart_look(struct bl_cq *cq, const struct bl_peer *peer, bool gains, uint64_t now)
{
	struct bl_apart *apart = &cq->crowd.apart;
	bool same = peer && peer == apart->peer && peer->tx.next != apart->sent;

	apart->peer = peer;
	apart->sent = peer ? peer->tx.next : 0;
	if (!same) {
		say(cq, NULL);
		apart->same = 0;
		apart->pair = false;
		return false;
	}
	apart->gains += gains;
	if (++apart->same == BL_APART_SAME)
		begin(apart, sent_to_all(cq), now);
	return apart->same == BL_APART_SAME + apart->enough && is_time(cq, peer, now);
}

void bl_apart_go(struct bl_apart *apart, uint64_t now)
{
	uint64_t again = AGAIN_US * bl_ticks_per_us();

	if (bl_ticks_since(now, apart->next) > (int64_t)(again << AGAIN))
		apart->again = 0; /* that was long ago */
	if (bl_place_elsewhere(pick(now)) < 0)
		apart->again = AGAIN; /* there is nowhere to go, or the kernel refuses */
	apart->next = now + (again << apart->again);
	apart->again += apart->again < AGAIN;
}
