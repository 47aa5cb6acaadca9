/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * op.c: see op.h. Serialised by the domain.
 */
#include "transport/local/lane/op.h"

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

void bl_rndv_serve(struct bl_ep *ep, struct bl_send_op *r)
{
	if (r->serving)
		return;
	r->serving = true;
	ep->rndv.serving[ep->rndv.nserving++] = r;
	ep->work++;
}

void bl_rndv_unserve(struct bl_ep *ep, struct bl_send_op *r)
{
	if (!r->serving)
		return;
	/* In the order in which they were asked for, or one might never have its turn. */
	for (uint32_t i = 0; i < ep->rndv.nserving; i++)
		if (ep->rndv.serving[i] == r) {
			memmove(&ep->rndv.serving[i], &ep->rndv.serving[i + 1],
				(--ep->rndv.nserving - i) * sizeof *ep->rndv.serving);
			break;
		}
	r->serving = false;
	ep->work--;
}

void bl_send_op_end(struct bl_ep *ep, struct bl_sink *sink, struct bl_send_op *r, int err)
{
	bl_rndv_unserve(ep, r);
	bl_rkeys_deregister(&r->ours);
	if (!r->whole || err) /* it is counted as a packet */
		bl_stat_sent(ep, r->way, r->len, err);
	bl_cq_moved(ep, ep->bound.tx_cq, r->len);
	if (likely(!err)) {
		if (ep->bound.tx_cntr && !r->work)
			bl_cntr_up(ep->bound.tx_cntr);
		if (!r->quiet)
			bl_complete(ep->bound.tx_cq, sink, r->context, r->flags, r->len, NULL, 0, 0,
				    BL_ADDR_ANY);
	} else {
		struct bl_comp_err e = {
			.comp = {r->context, r->flags, 0, NULL, 0, 0},
			.olen = r->len,
			.err = err,
			.src = BL_ADDR_ANY,
		};
		if (ep->bound.tx_cntr && !r->work && !(r->cancelled && err == ECANCELED))
			bl_cntr_error(ep->bound.tx_cntr);
		bl_cq_fail(ep->bound.tx_cq, sink, &e);
	}
	if (unlikely(r->work != NULL))
		bl_work_over(r->work, err);
	if (r->len >= BL_HUGE_LEAST && !r->copy && r->way != BL_WAY_FRAG && !err)
		bl_buffers_used(ep, r->peer, r->iov, r->niov, r->len);
	bl_send_op_free(ep, r);
}

bl_cold void bl_push_refused(struct bl_send_op *r, int err)
{
	if (r->push_refused || (err != -EOPNOTSUPP && err != -EFAULT))
		return;
	if (err == -EFAULT)
		bl_stats_fault(r->peer);
	else
		bl_stats_fallback(r->peer, true);
	r->push_refused = true;
}

struct bl_recv_op *bl_recv_op_find(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number)
{
	for (uint32_t i = 0; i < ep->rndv.ntransfer; i++)
		if (ep->rndv.transfer[i]->generation == number >> 32)
			return ep->rndv.transfer[i]->peer == peer ? ep->rndv.transfer[i] : NULL;
	return NULL;
}

void bl_buffers_used(struct bl_ep *ep, const struct bl_peer *peer, const struct iovec *iov,
		     size_t niov, size_t len)
{
	size_t moved = 0;

	if (peer->copy.pull == BL_COPY_SELF)
		return; /* no page is looked up */
	for (size_t i = 0; i < niov && len >= BL_HUGE_LEAST; i++) {
		size_t n = bl_min(iov[i].iov_len, len);

		if (n >= BL_HUGE_LEAST)
			moved += bl_huge_used(&ep->domain->huge, iov[i].iov_base, n);
		len -= n;
	}
	if (unlikely(moved != 0))
		bl_stat_add(ep, BL_STAT_huge_bytes, moved);
}

void bl_send_op_closed(struct bl_ep *ep, struct bl_send_op *r)
{
	TAILQ_REMOVE(&ep->ways.pending.opened, r, opened);
	ep->ways.pending.nopen--;
	r->open = false;
}
