/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * unexpected_pool.c: memory for unexpected messages; see queues.h. Serialised by the domain.
 */
#include <stdlib.h>

#include "core/post.h"
#include "core/stat.h"

#define AT_ONCE	 64
#define SHORTEST 512u /* bytes of the first size */

/* Of the message: 512, 640, 768, 896, 1024, 1280, ... */
static size_t room_of(uint32_t pool)
{
	uint32_t power = 9 + (pool - 1) / 4, quarters = (pool - 1) % 4 + 1;

	return pool ? (4u + quarters) << (power - 2) : SHORTEST;
}
static_assert((4u + (BL_UNEXPECTED_SIZES - 2) % 4 + 1) << (9 + (BL_UNEXPECTED_SIZES - 2) / 4 - 2) ==
		      BL_EAGER_MOST,
	      "the last size is the longest that is eager");

static size_t bytes_of(uint32_t pool)
{
	return offsetof(struct bl_unexpected, bytes) + room_of(pool);
}

static uint32_t pool_for(size_t bytes)
{
	uint32_t last = (uint32_t)bytes - 1, power;

	if (bytes <= SHORTEST)
		return 0;
	if (bytes > BL_EAGER_MOST)
		return BL_UNEXPECTED_ALONE;
	power = 31 - (uint32_t)__builtin_clz(last);
	return 1 + 4 * (power - 9) + (last >> (power - 2) & 3);
}

static bl_cold bool more_slots(struct bl_ep *home)
{
	struct bl_unexpected *u = bl_slab(home, AT_ONCE * sizeof *u);

	for (int i = 0; u && i < AT_ONCE; i++) {
		u[i].pool = BL_UNEXPECTED_SLOT;
		u[i].next = home->unexpected_pool.slot;
		home->unexpected_pool.slot = &u[i];
	}
	return u != NULL;
}

static bl_cold struct bl_unexpected *allocate(size_t bytes, uint32_t pool)
{
	struct bl_unexpected *u =
		malloc(pool == BL_UNEXPECTED_ALONE ? offsetof(struct bl_unexpected, bytes) + bytes
						   : bytes_of(pool));

	if (u)
		u->pool = (uint8_t)pool;
	return u;
}

/* What lies unused in `sized`, as `beeline stat` shows it. */
static void count_unused(struct bl_ep *home, int64_t bytes)
{
	home->unexpected_pool.unused += (uint32_t)bytes;
	bl_stat_add(home, BL_STAT_private_bytes, (uint64_t)bytes);
}

static struct bl_unexpected *take_unused(struct bl_ep *home, uint32_t pool)
{
	struct bl_unexpected *u = home->unexpected_pool.sized[pool];

	home->unexpected_pool.sized[pool] = u->next;
	count_unused(home, -(int64_t)bytes_of(pool));
	return u;
}

struct bl_unexpected *bl_unexpected_get(struct bl_ep *home, size_t bytes)
{
	struct bl_unexpected_pool *p = &home->unexpected_pool;
	struct bl_unexpected *u;
	uint32_t pool;

	if (likely(bytes <= sizeof u->bytes)) {
		if (unlikely(!p->slot) && !more_slots(home))
			return NULL;
		u = p->slot;
		p->slot = u->next;
		return u;
	}
	pool = pool_for(bytes);
	if (pool == BL_UNEXPECTED_ALONE || !p->sized[pool])
		return allocate(bytes, pool);
	return take_unused(home, pool);
}

/* Make room for one of this size: those of others haven't been used lately. */
static bl_cold bool free_others(struct bl_ep *home, uint32_t pool)
{
	struct bl_unexpected_pool *p = &home->unexpected_pool;

	for (uint32_t i = 0; i < BL_UNEXPECTED_SIZES; i++)
		while (i != pool && p->sized[i] && p->unused + bytes_of(pool) > BL_UNEXPECTED_FREE)
			free(take_unused(home, i));
	return p->unused + bytes_of(pool) <= BL_UNEXPECTED_FREE;
}

void bl_unexpected_put(struct bl_ep *home, struct bl_unexpected *u)
{
	struct bl_unexpected_pool *p = &home->unexpected_pool;
	uint32_t pool = u->pool;

	if (pool == BL_UNEXPECTED_SLOT) {
		u->next = p->slot;
		p->slot = u;
		return;
	}
	if (pool == BL_UNEXPECTED_ALONE ||
	    (unlikely(p->unused + bytes_of(pool) > BL_UNEXPECTED_FREE) &&
	     !free_others(home, pool))) {
		free(u);
		return;
	}
	u->next = p->sized[pool];
	p->sized[pool] = u;
	count_unused(home, (int64_t)bytes_of(pool));
}

void bl_unexpected_pool_fini(struct bl_ep *ep)
{
	for (uint32_t i = 0; i < BL_UNEXPECTED_SIZES; i++)
		for (struct bl_unexpected *u = ep->unexpected_pool.sized[i], *next; u; u = next) {
			next = u->next;
			free(u);
		}
}
