/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * early_pool.c: memory for messages that come before their receives; see queues.h. Serialised by
 * the domain.
 */
#include <stdlib.h>

#include "core/large.h"
#include "core/recv.h"
#include "core/stat.h"

#define AT_ONCE	 64
#define SHORTEST 512u /* bytes of the first size */
static_assert(SHORTEST << (BL_EARLY_SIZES - 1) >= BL_EAGER_MOST, "all that is eager has a size");

static size_t bytes_of(uint32_t pool)
{
	return offsetof(struct bl_unex, bytes) + (SHORTEST << pool);
}

static uint32_t pool_for(size_t bytes)
{
	uint32_t pool = 0;

	while (pool < BL_EARLY_SIZES && bytes > SHORTEST << pool)
		pool++;
	return pool == BL_EARLY_SIZES ? BL_EARLY_ALONE : pool;
}

static bl_cold bool more_slots(struct bl_ep *home)
{
	struct bl_unex *u = bl_slab(home, AT_ONCE * sizeof *u);

	for (int i = 0; u && i < AT_ONCE; i++) {
		u[i].pool = BL_EARLY_SLOT;
		u[i].next = home->early_pool.slot;
		home->early_pool.slot = &u[i];
	}
	return u != NULL;
}

static bl_cold struct bl_unex *allocate(size_t bytes, uint32_t pool)
{
	struct bl_unex *u = malloc(pool == BL_EARLY_ALONE ? offsetof(struct bl_unex, bytes) + bytes
							  : bytes_of(pool));

	if (u)
		u->pool = (uint8_t)pool;
	return u;
}

/* What lies unused in `sized`, as `beeline stat` shows it. */
static void count_unused(struct bl_ep *home, int64_t bytes)
{
	home->early_pool.unused += (uint32_t)bytes;
	bl_stat_add(home, BL_STAT_private_bytes, (uint64_t)bytes);
}

struct bl_unex *bl_early_get(struct bl_ep *home, size_t bytes)
{
	struct bl_early_pool *p = &home->early_pool;
	struct bl_unex *u;
	uint32_t pool;

	if (likely(bytes <= sizeof u->bytes)) {
		if (unlikely(!p->slot) && !more_slots(home))
			return NULL;
		u = p->slot;
		p->slot = u->next;
		return u;
	}
	pool = pool_for(bytes);
	if (pool == BL_EARLY_ALONE || !p->sized[pool])
		return allocate(bytes, pool);
	u = p->sized[pool];
	p->sized[pool] = u->next;
	count_unused(home, -(int64_t)bytes_of(pool));
	return u;
}

void bl_early_put(struct bl_ep *home, struct bl_unex *u)
{
	struct bl_early_pool *p = &home->early_pool;

	if (u->pool == BL_EARLY_SLOT) {
		u->next = p->slot;
		p->slot = u;
	} else if (u->pool == BL_EARLY_ALONE || p->unused + bytes_of(u->pool) > BL_EARLY_FREE) {
		free(u);
	} else {
		u->next = p->sized[u->pool];
		p->sized[u->pool] = u;
		count_unused(home, (int64_t)bytes_of(u->pool));
	}
}

void bl_early_pool_fini(struct bl_ep *ep)
{
	for (uint32_t i = 0; i < BL_EARLY_SIZES; i++)
		for (struct bl_unex *u = ep->early_pool.sized[i], *next; u; u = next) {
			next = u->next;
			free(u);
		}
}
