/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* batch.c: see batch.h. Serialised by the domain. */
#include "transport/local/rma/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/knobs.h"
#include "core/stat.h"
#include "transport/local/rma/delegated.h"
#include "transport/local/rma/runs.h"

#define AGAIN_US   20u /* a table that changes has changed by then */
#define PER_US	   8u  /* pieces that who begins one is given a microsecond more to find */
#define SPARE_MOST 4u  /* of those that an endpoint holds ready: few peers have some at a time */

uint32_t bl_batch_follows_us = 1; /* who begins one after another takes 30 to 300 ns for each */

/* Some that are done together: places of op[first] and on, as one operation. */
struct group {
	struct iovec iov[BL_BATCH_GROUP];
	struct bl_rma_place place[BL_BATCH_GROUP];
	struct bl_rma rma;
	size_t len;
	uint32_t n;	     /* operations */
	bool are_runs;	     /* their pieces are: */
	struct bl_runs runs; /* these, as long as they are */
};

/* --- which, and together with which ------------------------------------------- */

static bool is_suited(const struct bl_ep *ep, const struct bl_rma *rma, size_t len)
{
	return rma->what <= BL_RMA_WRITE && rma->niov + rma->nplace <= BL_BATCH_GROUP && len &&
	       len <= BL_BATCH_LEN && !(rma->flags & (BL_FENCE | BL_REMOTE_CQ_DATA)) &&
	       !rma->work && !ep->domain->working;
}

static bool by_message(const struct bl_rma_peer *rp)
{
	return rp->head || rp->peer->copy.pull == BL_COPY_NOTHING ||
	       rp->peer->copy.push == BL_COPY_NOTHING;
}

/* A thread sleeps, or may be polling a descriptor: for their end, for what begins with that, or for
 * what their target answers. */
static bool is_awaited(const struct bl_ep *ep)
{
	const struct bl_cq *cq[] = {ep->bound.tx_cq, ep->bound.rx_cq};
	const struct bl_cntr *cntr[] = {ep->bound.tx_cntr,	  ep->bound.rx_cntr,
					ep->rma_cntr.read,	  ep->rma_cntr.write,
					ep->rma_cntr.remote_read, ep->rma_cntr.remote_write};

	for (size_t i = 0; i < bl_countof(cq); i++)
		if (cq[i] && !cq[i]->limit)
			return true;
	for (size_t i = 0; i < bl_countof(cntr); i++)
		if (cntr[i] && cntr[i]->asleep)
			return true;
	for (const struct bl_cntr *c = ep->domain->regional; c; c = c->next_regional)
		if (c->asleep)
			return true;
	return ep->domain->works;
}

/* Their answer may come to another endpoint, whose queue alone is read until then. */
static bool is_one_of_several(const struct bl_ep *ep)
{
	return ep->domain->nep > 1;
}

/* How often the user has read what they complete in. */
static uint32_t reads(const struct bl_ep *ep)
{
	const struct bl_cq *cq = ep->bound.tx_cq;

	return (cq ? cq->head + cq->full + cq->empties : 0) +
	       (ep->rma_cntr.read ? ep->rma_cntr.read->reads : 0) +
	       (ep->rma_cntr.write ? ep->rma_cntr.write->reads : 0);
}

void bl_batch_note(const struct bl_ep *ep, struct bl_rma_peer *rp)
{
	rp->last_at = bl_ticks();
	rp->reads = reads(ep);
}

/* More of its kind follow, as far as can be told. */
static bool follows(const struct bl_ep *ep, const struct bl_rma_peer *rp, const struct bl_rma *rma)
{
	uint64_t knob = bl_knobs()->rma_batch;

	if (unlikely(knob))
		return knob == BL_BATCH_ALWAYS;
	return rma->flags & BL_MORE || bl_batch_some(rp) ||
	       (rp->reads == reads(ep) &&
		bl_ticks() - rp->last_at <
			(bl_batch_follows_us + rma->niov / PER_US) * bl_ticks_per_us());
}

static size_t to_keep(const struct bl_rma *rma, size_t len)
{
	return rma->what == BL_RMA_WRITE && rma->flags & BL_INJECT ? len : 0;
}

static bool has_room(const struct bl_batch *c, const struct bl_rma *rma, size_t len)
{
	return c->what == rma->what && c->n < BL_BATCH_OPS &&
	       rma->niov + rma->nplace <= BL_BATCH_PIECES - c->npiece &&
	       to_keep(rma, len) <= BL_BATCH_KEPT - c->kept;
}

/* NULL: no memory. */
static struct bl_batch *batch_for(struct bl_ep *ep, const struct bl_rma *rma)
{
	struct bl_batch *c = ep->rma.batches;

	if (likely(c != NULL)) {
		ep->rma.batches = c->next;
		ep->rma.nbatches--;
	} else {
		c = malloc(sizeof *c);
		if (!c)
			return NULL;
		bl_stat_add(ep, BL_STAT_private_bytes, sizeof *c);
	}
	c->what = rma->what;
	c->dest = rma->dest;
	c->first = c->n = c->alone = c->asked = 0;
	c->not_before = 0;
	c->kept = 0;
	c->npiece = 0;
	return c;
}

static void release(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	struct bl_batch *c = rp->combine;

	rp->combine = NULL;
	if (ep->rma.nbatches == SPARE_MOST) {
		bl_stat_add(ep, BL_STAT_private_bytes, -sizeof *c);
		free(c);
		return;
	}
	c->next = ep->rma.batches;
	ep->rma.batches = c;
	ep->rma.nbatches++;
}

bl_cold void bl_batch_free(struct bl_ep *ep)
{
	struct bl_batch *c;

	while ((c = ep->rma.batches)) {
		ep->rma.batches = c->next;
		free(c);
	}
}

bool bl_batch_any(const struct bl_ep *ep)
{
	for (const struct bl_rma_peer *rp = ep->rma.active; rp; rp = rp->next_active)
		if (bl_batch_some(rp))
			return true;
	return false;
}

bool bl_batch_left(const struct bl_ep *ep)
{
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		const struct bl_peer *peer = ep->local.by_index[i];
		const struct bl_rma_peer *rp = peer && !peer->dead ? peer->rma : NULL;

		if (rp && (bl_batch_some(rp) || rp->head || rp->rest))
			return true;
	}
	return false;
}

/* Its pieces: no more than it has buffers and places. */
static void keep_pieces(struct bl_batch *c, const struct iovec *iov, size_t niov,
			const struct bl_rma_place *place, size_t len)
{
	struct bl_iov_at here = {iov, niov, 0};
	uint64_t off = 0;

	for (bl_iov_skip(&here, 0); len; bl_iov_skip(&here, c->piece[c->npiece++].place.len)) {
		struct bl_batched_piece *p = &c->piece[c->npiece];

		for (; off == place->len; place++)
			off = 0;
		p->place = *place;
		p->place.addr += off;
		p->place.len = bl_min(place->len - off, here.iov->iov_len - here.off);
		p->mine = (char *)here.iov->iov_base + here.off;
		off += p->place.len;
		len -= p->place.len;
	}
}

static void keep(struct bl_batch *c, const struct bl_rma *rma, size_t len)
{
	struct bl_batched *op = &c->op[c->n++];
	size_t kept = to_keep(rma, len);
	const struct iovec copy = {c->copy + c->kept, kept};

	op->piece = c->npiece;
	op->len = len;
	op->context = rma->context;
	op->flags = rma->flags;
	if (kept) {
		bl_iov_gather(copy.iov_base, rma->iov, rma->niov, 0, len);
		keep_pieces(c, &copy, 1, rma->place, len);
	} else {
		keep_pieces(c, rma->iov, rma->niov, rma->place, len);
	}
	op->npiece = c->npiece - op->piece;
	c->kept += kept;
}

int bl_batch_take(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len)
{
	bool suited = is_suited(ep, rma, len) && !is_one_of_several(ep);

	if (bl_batch_some(rp) && !(suited && has_room(rp->combine, rma, len)) &&
	    !bl_batch_flush(ep, rp))
		return -EAGAIN;
	if (!suited || !follows(ep, rp, rma))
		return 0;
	if (!bl_batch_some(rp)) {
		if (rp->rest || by_message(rp) || is_awaited(ep) || bl_rma_is_told(rp->peer, rma))
			return 0;
		rp->combine = batch_for(ep, rma);
		if (!rp->combine)
			return 0;
		bl_rma_activate(ep, rp);
	}
	keep(rp->combine, rma, len);
	bl_batch_note(ep, rp);
	return BL_BATCH_TAKEN;
}

/* --- doing them ----------------------------------------------------------------- */

static bool continues_iov(const struct iovec *last, const struct bl_batched_piece *next)
{
	return (uintptr_t)last->iov_base + last->iov_len == (uintptr_t)next->mine;
}

static bool continues_place(const struct bl_rma_place *last, const struct bl_rma_place *next)
{
	return last->key == next->key && last->addr + last->len == next->addr;
}

/* It lies beside the last one, both there and here. */
static bool joins(const struct group *g, const struct bl_batched_piece *p)
{
	size_t last = g->rma.nplace - 1;

	return g->rma.nplace && continues_iov(&g->iov[last], p) &&
	       continues_place(&g->place[last], &p->place);
}

static void start_group(const struct bl_batch *c, struct group *g)
{
	g->rma =
		(struct bl_rma){.what = c->what, .iov = g->iov, .place = g->place, .dest = c->dest};
	g->len = g->n = 0;
	g->are_runs = true;
	bl_runs_begin(&g->runs);
}

/* One more operation; false: there are too many pieces, some of which may have been added. */
static bool add_op(const struct bl_batch *c, struct group *g, const struct bl_batched *op)
{
	const struct bl_batched_piece *p = &c->piece[op->piece], *end = p + op->npiece;

	for (; p < end; p++) {
		size_t at = g->rma.nplace;

		if (joins(g, p)) {
			g->iov[at - 1].iov_len += p->place.len;
			g->place[at - 1].len += p->place.len;
			continue;
		}
		if (at == BL_BATCH_GROUP)
			return false;
		g->iov[at] = (struct iovec){p->mine, p->place.len};
		g->place[at] = p->place;
		g->rma.niov = ++g->rma.nplace;
	}
	g->len += op->len;
	g->n++;
	return true;
}

/* A packet takes it, too, as far as can be said before it is the last one. */
static bool fits_packet(const struct bl_batch *c, struct group *g, const struct bl_batched *op)
{
	for (uint32_t i = 0; i < op->npiece && g->are_runs; i++)
		g->are_runs = bl_runs_add(&g->runs, &c->piece[op->piece + i].place);
	return bl_delegated_fits(c->what, g->rma.nplace, g->len) ||
	       (g->are_runs && (c->what == BL_RMA_WRITE || g->len <= BL_DELEGATED_SUM_BYTES));
}

/* The next ones, up to `most`; by_target: that a packet takes. */
static void begin_group(const struct bl_batch *c, struct group *g, uint32_t most, bool by_target)
{
	start_group(c, g);
	for (uint32_t i = c->first; i < c->first + most; i++) {
		size_t nplace = g->rma.nplace, len = g->len;
		size_t last = nplace ? g->iov[nplace - 1].iov_len : 0;
		uint32_t n = g->n;

		if (add_op(c, g, &c->op[i]) && (!by_target || fits_packet(c, g, &c->op[i])))
			continue;
		g->rma.niov = g->rma.nplace = nplace; /* without it */
		if (nplace)
			g->place[nplace - 1].len = g->iov[nplace - 1].iov_len = last;
		g->len = len;
		g->n = n;
		return;
	}
}

/* The next one by itself. */
static void begin_one(const struct bl_batch *c, struct group *g)
{
	const struct bl_batched *op = &c->op[c->first];

	start_group(c, g);
	add_op(c, g, op);
	g->rma.context = op->context;
	g->rma.flags = op->flags;
}

/* The next `n` are over, err: a positive errno or 0. */
static void over(struct bl_ep *ep, const struct bl_rma_peer *rp, uint32_t n, int err)
{
	struct bl_batch *c = rp->combine;

	while (n--) {
		const struct bl_batched *op = &c->op[c->first++];
		const struct bl_rma rma = {
			.what = c->what, .context = op->context, .flags = op->flags};

		bl_rma_over(ep, rp->peer, &rma, op->len, err);
	}
}

/* The next n, of so many bytes, that were done together. */
static void all_over(struct bl_ep *ep, const struct bl_rma_peer *rp, uint32_t n, size_t len,
		     bool by_target)
{
	enum bl_stat stat = by_target				? BL_STAT_rma_by_target
			    : rp->combine->what == BL_RMA_WRITE ? BL_STAT_rma_writes
								: BL_STAT_rma_reads;

	bl_stat_add(ep, stat, n);
	bl_stat_add(ep, stat + 1, len);
	if (n > 1)
		bl_stat_add(ep, BL_STAT_rma_batched, n);
	over(ep, rp, n, 0);
}

/* The next one by itself; false: not now. */
static bool do_alone(struct bl_ep *ep, struct bl_rma_peer *rp, struct bl_batch *c)
{
	struct group g;
	int err;

	begin_one(c, &g);
	err = bl_rma_perform(ep, rp, &g.rma, g.len);
	if (err == -EAGAIN || err == -ENOBUFS)
		return false;
	c->first++;
	c->alone--;
	if (err)
		bl_rma_over(ep, rp->peer, &g.rma, g.len, -err);
	return true;
}

/* So many bytes of a group are there: the operations that are, wholly, are over; the others of it
 * are done one by one. */
static void part_over(struct bl_ep *ep, struct bl_rma_peer *rp, const struct group *g, size_t bytes,
		      bool by_target)
{
	struct bl_batch *c = rp->combine;
	size_t len = 0;
	uint32_t n = 0;

	while (n < g->n && len + c->op[c->first + n].len <= bytes)
		len += c->op[c->first + n++].len;
	c->alone = g->n - n;
	all_over(ep, rp, n, len, by_target);
}

/* What the target says of those that it has taken up; false: nothing yet. */
static bool hear(struct bl_ep *ep, struct bl_rma_peer *rp, struct bl_batch *c)
{
	size_t moved = 0;
	struct group g;
	int ret, err;

	begin_group(c, &g, c->asked, true);
	ret = bl_delegated_look(rp, &g.rma, g.len, c->number, &moved, &err);
	if (ret == BL_DELEGATED_LEFT)
		return false;
	c->asked = 0;
	if (ret || err)
		part_over(ep, rp, &g, ret ? 0 : moved, true);
	else
		all_over(ep, rp, g.n, g.len, true);
	return true;
}

/*
 * Together: by the target, if it is open to that, or directly. 0: done, *asked: by the target.
 * -EAGAIN: not now. -EOPNOTSUPP: not together, or not all of them; so many bytes are *moved.
 */
static int together(struct bl_ep *ep, struct bl_rma_peer *rp, struct group *g, bool *asked,
		    size_t *moved)
{
	struct bl_batch *c = rp->combine;
	bool counted = false;
	int err = 0, ret = *asked ? bl_rma_counted(rp, &g->rma, &counted) : -EOPNOTSUPP;

	if (!ret)
		ret = counted ? -EOPNOTSUPP
			      : bl_delegated_now(ep, rp, &g->rma, g->len, &c->number, moved, &err);
	if (ret == BL_DELEGATED_LEFT) {
		c->asked = g->n;
		return -EAGAIN;
	}
	*asked = !ret;
	if (ret == -EOPNOTSUPP)
		ret = bl_rma_direct(ep, rp, &g->rma, g->len, true, moved, &err);
	if (ret == -EAGAIN)
		c->not_before = bl_ticks() + AGAIN_US * bl_ticks_per_us();
	return ret == -EAGAIN ? ret : ret || err ? -EOPNOTSUPP : 0;
}

/* The next ones, for a packet or for a system call, which takes as long as three packets and one
 * more for each place. True: for a packet. */
static bool plan_group(const struct bl_batch *c, struct group *g, bool may_ask)
{
	uint32_t left = c->n - c->first, asked;

	begin_group(c, g, left, may_ask);
	asked = g->n;
	if (!may_ask || asked == left)
		return may_ask;
	begin_group(c, g, left, false);
	if (asked < 2 || g->n >= asked * (3 + g->rma.nplace))
		return false;
	begin_group(c, g, left, true);
	return true;
}

/* The next ones; false: not now. */
static bool do_some(struct bl_ep *ep, struct bl_rma_peer *rp, struct bl_batch *c)
{
	struct group g;
	bool many = c->npiece - c->op[c->first].piece >= BL_DELEGATED_MANY;
	bool asked = plan_group(c, &g, bl_delegated_is_open(ep, rp, many));
	size_t moved = 0;
	int err;

	err = g.n < 2 ? -EOPNOTSUPP : together(ep, rp, &g, &asked, &moved);
	if (!err)
		all_over(ep, rp, g.n, g.len, asked);
	else if (err != -EAGAIN)
		part_over(ep, rp, &g, moved, asked);
	return err != -EAGAIN;
}

/* A step of it; false: not now. */
static bool step(struct bl_ep *ep, struct bl_rma_peer *rp, struct bl_batch *c)
{
	if (unlikely(rp->rest && bl_rma_go_on(ep, rp)))
		return false;
	if (unlikely(c->asked))
		return hear(ep, rp, c);
	if (unlikely(c->not_before && !bl_is_due(bl_ticks(), c->not_before)))
		return false;
	c->not_before = 0;
	if (unlikely(by_message(rp))) /* none goes directly any more: it would overtake */
		c->alone = c->n - c->first;
	return c->alone ? do_alone(ep, rp, c) : do_some(ep, rp, c);
}

bool bl_batch_flush(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	struct bl_batch *c = rp->combine;

	while (c->first < c->n)
		if (!step(ep, rp, c))
			return false;
	release(ep, rp);
	return !rp->rest; /* the last one may have been left to the target */
}

bl_cold void bl_batch_abandon(struct bl_ep *ep, struct bl_rma_peer *rp, int err)
{
	struct bl_batch *c = rp->combine;

	if (!c)
		return;
	if (c->asked)
		hear(ep, rp, c);
	over(ep, rp, c->n - c->first, err);
	release(ep, rp);
}

bl_cold void bl_batch_drop(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	if (bl_batch_some(rp))
		release(ep, rp);
}
