/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * av.c: address vectors. Serialised by the domain.
 */
#include <stdlib.h>
#include <string.h>

#include "endpoint/api.h"

int bl_av_open(struct bl_domain *domain, struct bl_av **av)
{
	*av = calloc(1, sizeof **av);
	if (!*av)
		return -ENOMEM;
	(*av)->domain = domain;
	domain->users++;
	return 0;
}

int bl_av_close(struct bl_av *av)
{
	if (av->nep)
		return -EBUSY;
	av->domain->users--;
	free(av->addr);
	free(av->used);
	free(av->ep);
	free(av);
	return 0;
}

static int av_grow(struct bl_av *av)
{
	uint64_t room = av->room ? 2 * av->room : 64;
	struct bl_addr *addr = realloc(av->addr, room * sizeof *addr);

	if (!addr)
		return -ENOMEM;
	av->addr = addr;
	bool *used = realloc(av->used, room * sizeof *used);
	if (!used)
		return -ENOMEM;
	av->used = used;
	av->room = room;
	return 0;
}

/* Endpoints that heard of this address before it was inserted name it now. */
static void name_source(struct bl_av *av, const struct bl_addr *addr, uint64_t index)
{
	for (uint32_t i = 0; i < av->nep; i++) {
		struct bl_peer *peer = bl_local_find(&av->ep[i]->local, addr);

		if (peer && peer->av_index == BL_ADDR_ANY)
			peer->av_index = index;
	}
}

/* The next free place, after which the vector is one longer. */
static int take_place(struct bl_av *av, uint64_t *index)
{
	int err = av->count == av->room ? av_grow(av) : 0;

	if (err)
		return err;
	av->used[av->count] = false;
	*index = av->count++;
	return 0;
}

int bl_av_insert(struct bl_av *av, const struct bl_addr *addr, uint64_t *index)
{
	struct bl_addr copy;
	int err = take_place(av, index);

	if (err)
		return err;
	memcpy(&copy, addr, sizeof copy); /* the caller's may be unaligned */
	if (!bl_addr_valid(&copy))
		return -EINVAL;
	av->addr[*index] = copy;
	av->used[*index] = true;
	name_source(av, &copy, *index);
	return 0;
}

uint64_t bl_av_find(const struct bl_av *av, const struct bl_addr *addr)
{
	for (uint64_t i = 0; i < av->count; i++)
		if (av->used[i] && !memcmp(av->addr[i].id, addr->id, sizeof addr->id))
			return i;
	return BL_ADDR_ANY;
}

int bl_av_remove(struct bl_av *av, uint64_t index)
{
	if (index >= av->count || !av->used[index])
		return -ENOENT;
	av->used[index] = false;
	for (uint32_t i = 0; i < av->nep; i++) {
		struct bl_ep *ep = av->ep[i];
		struct bl_peer *peer = bl_local_find(&ep->local, &av->addr[index]);

		if (index < ep->ndest)
			ep->dest[index] = &bl_nobody;
		if (peer && peer->av_index == index)
			peer->av_index = bl_av_find(av, &av->addr[index]);
	}
	return 0;
}

int bl_av_lookup(struct bl_av *av, uint64_t index, struct bl_addr *addr)
{
	if (index >= av->count || !av->used[index])
		return -ENOENT;
	*addr = av->addr[index];
	return 0;
}
