/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * slab.c: the memory of all pools of an endpoint, which lives as long as it does. Serialised by the
 * domain.
 */
#include <stdlib.h>
#include <string.h>

#include "core/ep.h"
#include "core/stat.h"

struct slab {
	struct slab *next;
	alignas(BL_LINE) char bytes[];
};

void bl_slabs_free(struct bl_ep *ep)
{
	for (struct slab *slab = ep->slabs, *next; slab; slab = next) {
		next = slab->next;
		free(slab);
	}
}

void *bl_slab(struct bl_ep *ep, size_t bytes)
{
	struct slab *slab = aligned_alloc(BL_LINE, bl_round_up(sizeof *slab + bytes, BL_LINE));

	if (!slab)
		return NULL;
	memset(slab, 0, sizeof *slab + bytes);
	slab->next = ep->slabs;
	ep->slabs = slab;
	bl_stat_add(ep, BL_STAT_private_bytes, sizeof *slab + bytes);
	return slab->bytes;
}
