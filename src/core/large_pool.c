/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * large_pool.c: requests and transfers come from pools that live as long as their
 * endpoint and only grow; see large.h. Serialised by the domain.
 */
#include "core/large.h"

#include <stdlib.h>
#include <string.h>

#include "core/stat.h"

#define POOL_STEP 32

struct bl_request *bl_request_new(struct bl_ep *ep)
{
	if (!ep->free_request) {
		struct bl_request *more = bl_slab(ep, POOL_STEP * sizeof *more);
		uint32_t room = ep->nrequest + POOL_STEP;
		struct bl_request **table;

		if (!more)
			return NULL;
		table = realloc(ep->request, room * sizeof(*table));
		if (!table)
			return NULL;
		ep->request = table;
		for (uint32_t i = 0; i < POOL_STEP; i++) {
			more[i].index = ep->nrequest;
			table[ep->nrequest++] = &more[i];
			more[i].next_free = ep->free_request;
			ep->free_request = &more[i];
		}
	}
	if (ep->requests >= ep->room_serving) { /* all may want to be served at once */
		uint32_t room = ep->room_serving + 64;
		struct bl_request **grown = realloc(ep->serving, room * sizeof(*grown));

		if (!grown)
			return NULL;
		ep->serving = grown;
		ep->room_serving = room;
	}

	struct bl_request *r = ep->free_request;

	ep->free_request = r->next_free;
	ep->requests++;
	r->generation++;
	r->serving = false;
	r->coop = NULL;
	r->lent = 0;
	r->copy = NULL;
	r->open = r->push_refused = r->carries = r->whole = r->cancelled = false;
	r->nrange = 0;
	r->way = BL_WAY_ONE_COPY;
	r->ours.n = r->theirs_lent.n = 0;
	return r;
}

void bl_request_free(struct bl_ep *ep, struct bl_request *r)
{
	if (unlikely(r->open))
		bl_request_closed(ep, r);
	ep->nwhole -= r->whole;
	if (r->lent)
		r->peer->coop_busy &= ~(1ULL << (r->lent - 1));
	if (unlikely(r->copy != NULL))
		free(r->copy);
	r->peer = NULL;
	r->next_free = ep->free_request;
	ep->free_request = r;
	ep->requests--;
}

bl_cold bool bl_request_keep(struct bl_ep *ep, struct bl_request *r)
{
	if (!r->len)
		return true;
	r->copy = malloc(r->len);
	if (!r->copy) {
		bl_request_free(ep, r);
		return false;
	}
	bl_iov_gather(r->copy, r->iov, r->niov, 0, r->len);
	r->iov[0] = (struct iovec){r->copy, r->len};
	r->niov = 1;
	return true;
}

struct bl_request *bl_request_find(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number)
{
	uint32_t index = (uint32_t)number;
	struct bl_request *r = index < ep->nrequest ? ep->request[index] : NULL;

	return r && r->peer == peer && r->generation == number >> 32 ? r : NULL;
}

bool bl_transfer_ready(struct bl_ep *ep)
{
	struct bl_transfer *more, **table;
	uint32_t room = ep->room_transfer + POOL_STEP;

	if (likely(ep->free_transfer))
		return true;
	more = bl_slab(ep, POOL_STEP * sizeof *more);
	if (!more)
		return false;
	table = realloc(ep->transfer, room * sizeof(*table));
	if (!table)
		return false;
	ep->transfer = table;
	ep->room_transfer = room;
	for (uint32_t i = 0; i < POOL_STEP; i++) {
		more[i].next_free = ep->free_transfer;
		ep->free_transfer = &more[i];
	}
	return true;
}

struct bl_transfer *bl_transfer_new(struct bl_ep *ep)
{
	struct bl_transfer *t = ep->free_transfer;

	ep->free_transfer = t->next_free;
	memset(t, 0, offsetof(struct bl_transfer, ours));
	t->ours.n = t->theirs_lent.n = 0;
	return t;
}

void bl_transfer_free(struct bl_ep *ep, struct bl_transfer *t)
{
	if (t->coop)
		t->peer->coop_busy &= ~(1ULL << t->coop_index);
	t->peer = NULL;
	t->next_free = ep->free_transfer;
	ep->free_transfer = t;
}
