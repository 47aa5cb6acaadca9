/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rndv_pool.c: send ops and recv ops come from pools that live as long as their endpoint and only
 * grow; see rndv.h. Serialised by the domain.
 */
#include "transport/local/ways/rndv.h"

#include <stdlib.h>
#include <string.h>

#include "core/stat.h"

#define POOL_STEP 32

struct bl_send_op *bl_send_op_new(struct bl_ep *ep)
{
	if (!ep->rndv.free_send_op) {
		struct bl_send_op *more = bl_slab(ep, POOL_STEP * sizeof *more);
		uint32_t room = ep->rndv.nrequest + POOL_STEP;
		struct bl_send_op **table;

		if (!more)
			return NULL;
		table = realloc(ep->rndv.request, room * sizeof(*table));
		if (!table)
			return NULL;
		ep->rndv.request = table;
		for (uint32_t i = 0; i < POOL_STEP; i++) {
			more[i].index = ep->rndv.nrequest;
			table[ep->rndv.nrequest++] = &more[i];
			more[i].next_free = ep->rndv.free_send_op;
			ep->rndv.free_send_op = &more[i];
		}
	}
	if (ep->rndv.requests >= ep->rndv.room_serving) { /* all may want to be served at once */
		uint32_t room = ep->rndv.room_serving + 64;
		struct bl_send_op **grown = realloc(ep->rndv.serving, room * sizeof(*grown));

		if (!grown)
			return NULL;
		ep->rndv.serving = grown;
		ep->rndv.room_serving = room;
	}

	struct bl_send_op *r = ep->rndv.free_send_op;

	ep->rndv.free_send_op = r->next_free;
	ep->rndv.requests++;
	r->generation++;
	r->serving = false;
	r->chunks = NULL;
	r->rkeys = 0;
	r->copy = NULL;
	r->open = r->push_refused = r->whole = r->cancelled = false;
	r->nrange = 0;
	r->way = BL_WAY_ONE_COPY;
	r->ours.n = r->theirs_rkeys.n = 0;
	return r;
}

void bl_send_op_free(struct bl_ep *ep, struct bl_send_op *r)
{
	if (unlikely(r->open))
		bl_send_op_closed(ep, r);
	ep->ways.pending.neager_long -= r->whole;
	if (r->rkeys)
		r->peer->chunks_busy &= ~(1ULL << (r->rkeys - 1));
	if (unlikely(r->copy != NULL))
		free(r->copy);
	r->peer = NULL;
	r->next_free = ep->rndv.free_send_op;
	ep->rndv.free_send_op = r;
	ep->rndv.requests--;
}

bl_cold bool bl_send_op_keep(struct bl_ep *ep, struct bl_send_op *r)
{
	if (!r->len)
		return true;
	r->copy = malloc(r->len);
	if (!r->copy) {
		bl_send_op_free(ep, r);
		return false;
	}
	bl_iov_gather(r->copy, r->iov, r->niov, 0, r->len);
	r->iov[0] = (struct iovec){r->copy, r->len};
	r->niov = 1;
	return true;
}

struct bl_send_op *bl_send_op_find(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number)
{
	uint32_t index = (uint32_t)number;
	struct bl_send_op *r = index < ep->rndv.nrequest ? ep->rndv.request[index] : NULL;

	return r && r->peer == peer && r->generation == number >> 32 ? r : NULL;
}

bool bl_recv_op_ready(struct bl_ep *ep)
{
	struct bl_recv_op *more, **table;
	uint32_t room = ep->rndv.room_transfer + POOL_STEP;

	if (likely(ep->rndv.free_recv_op))
		return true;
	more = bl_slab(ep, POOL_STEP * sizeof *more);
	if (!more)
		return false;
	table = realloc(ep->rndv.transfer, room * sizeof(*table));
	if (!table)
		return false;
	ep->rndv.transfer = table;
	ep->rndv.room_transfer = room;
	for (uint32_t i = 0; i < POOL_STEP; i++) {
		more[i].next_free = ep->rndv.free_recv_op;
		ep->rndv.free_recv_op = &more[i];
	}
	return true;
}

struct bl_recv_op *bl_recv_op_new(struct bl_ep *ep)
{
	struct bl_recv_op *t = ep->rndv.free_recv_op;

	ep->rndv.free_recv_op = t->next_free;
	memset(t, 0, offsetof(struct bl_recv_op, ours));
	t->ours.n = t->theirs_rkeys.n = 0;
	return t;
}

void bl_recv_op_free(struct bl_ep *ep, struct bl_recv_op *t)
{
	if (t->chunks)
		t->peer->chunks_busy &= ~(1ULL << t->chunks_index);
	t->peer = NULL;
	t->next_free = ep->rndv.free_recv_op;
	ep->rndv.free_recv_op = t;
}
