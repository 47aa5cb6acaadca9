/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* combine.c: see combine.h. Serialised by the domain. */
#include "core/combine.h"

#include <stdlib.h>
#include <string.h>

#include "base/knobs.h"
#include "core/serve.h"
#include "core/stat.h"

#define FOLLOWS_US 1u /* who begins one after another takes 30 to 300 ns for each */

/* Some that are done together: places of op[first] and on, as one operation. */
struct group {
	struct iovec iov[BL_IOV_MAX];
	struct bl_rma_place place[BL_IOV_MAX];
	struct bl_rma rma;
	size_t len;
	uint32_t n; /* operations */
};

/* --- which, and together with which ------------------------------------------- */

static bool is_suited(const struct bl_ep *ep, const struct bl_rma_peer *rp,
		      const struct bl_rma *rma, size_t len)
{
	return rma->what <= BL_RMA_WRITE && rma->niov == 1 && rma->nplace == 1 && len &&
	       len <= BL_COMBINE_LEN && !(rma->flags & (BL_FENCE | BL_REMOTE_CQ_DATA)) &&
	       !rma->work && !ep->domain->working && !rp->head && !rp->rest &&
	       rp->peer->copy.pull != BL_COPY_NOTHING && rp->peer->copy.push != BL_COPY_NOTHING &&
	       !bl_rma_is_told(rp->peer, rma);
}

/* More of its kind follow, as far as can be told. */
static bool follows(struct bl_rma_peer *rp)
{
	uint64_t knob = bl_knobs()->combine, now;
	bool soon;

	if (unlikely(knob))
		return knob == BL_COMBINE_ALWAYS;
	now = bl_ticks();
	soon = now - rp->last_at < FOLLOWS_US * bl_ticks_per_us();
	rp->last_at = now;
	return soon || rp->several || bl_combine_some(rp);
}

static size_t to_keep(const struct bl_rma *rma, size_t len)
{
	return rma->what == BL_RMA_WRITE && rma->flags & BL_INJECT ? len : 0;
}

static bool has_room(const struct bl_combine *c, const struct bl_rma *rma, size_t len)
{
	return c->what == rma->what && c->n < BL_COMBINE_OPS &&
	       to_keep(rma, len) <= BL_COMBINE_KEPT - c->kept;
}

static struct bl_combine *combine_of(struct bl_rma_peer *rp)
{
	if (unlikely(!rp->combine)) {
		rp->combine = malloc(sizeof *rp->combine);
		if (rp->combine)
			rp->combine->n = 0;
	}
	return rp->combine;
}

static void keep(struct bl_combine *c, const struct bl_rma *rma, size_t len)
{
	struct bl_combined *op = &c->op[c->n++];
	size_t kept = to_keep(rma, len);

	op->place = rma->place[0];
	op->mine = rma->iov[0];
	op->context = rma->context;
	op->flags = rma->flags;
	if (!kept)
		return;
	op->mine.iov_base = memcpy(c->copy + c->kept, op->mine.iov_base, len);
	c->kept += len;
}

int bl_combine_take(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len)
{
	bool suited = is_suited(ep, rp, rma, len), some = bl_combine_some(rp);
	struct bl_combine *c;

	if (some && !(suited && has_room(rp->combine, rma, len))) {
		if (!bl_combine_flush(ep, rp))
			return -EAGAIN;
	}
	if (!suited || !follows(rp))
		return 0;
	c = combine_of(rp);
	if (unlikely(!c))
		return 0;
	if (!c->n) {
		c->what = rma->what;
		c->dest = rma->dest;
		c->first = c->alone = c->asked = 0;
		c->kept = 0;
		bl_rma_activate(ep, rp);
	}
	keep(c, rma, len);
	return BL_COMBINE_TAKEN;
}

/* --- doing them ----------------------------------------------------------------- */

static struct bl_rma rma_of(const struct bl_combine *c, const struct bl_combined *op)
{
	return (struct bl_rma){
		.what = c->what,
		.iov = &op->mine,
		.niov = 1,
		.place = &op->place,
		.nplace = 1,
		.dest = c->dest,
		.context = op->context,
		.flags = op->flags,
	};
}

static bool continues_iov(const struct iovec *last, const struct iovec *next)
{
	return (uintptr_t)last->iov_base + last->iov_len == (uintptr_t)next->iov_base;
}

static bool continues_place(const struct bl_rma_place *last, const struct bl_rma_place *next)
{
	return last->key == next->key && last->addr + last->len == next->addr;
}

/* It lies beside the last one, both there and here. */
static bool joins(const struct group *g, const struct bl_combined *op)
{
	size_t last = g->rma.nplace - 1;

	return g->n && continues_iov(&g->iov[last], &op->mine) &&
	       continues_place(&g->place[last], &op->place);
}

/* The next ones, up to `most`, of which so many bytes at most for each number of places. */
static void begin_group(const struct bl_combine *c, struct group *g, uint32_t most, bool by_target)
{
	g->rma =
		(struct bl_rma){.what = c->what, .iov = g->iov, .place = g->place, .dest = c->dest};
	g->len = g->n = 0;
	for (uint32_t i = c->first; i < c->first + most; i++) {
		const struct bl_combined *op = &c->op[i];
		size_t len = g->len + op->place.len;
		bool joined = joins(g, op);

		if (!joined && g->rma.nplace == BL_IOV_MAX)
			return;
		if (by_target && !bl_serve_fits(c->what, g->rma.nplace + !joined, len))
			return;
		if (joined) {
			g->iov[g->rma.nplace - 1].iov_len += op->mine.iov_len;
			g->place[g->rma.nplace - 1].len += op->place.len;
		} else {
			g->iov[g->rma.nplace] = op->mine;
			g->place[g->rma.nplace] = op->place;
			g->rma.niov = ++g->rma.nplace;
		}
		g->len = len;
		g->n++;
	}
}

/* The next `n` are over, err: a positive errno or 0. */
static void over(struct bl_ep *ep, struct bl_combine *c, uint32_t n, int err)
{
	while (n--) {
		const struct bl_combined *op = &c->op[c->first++];
		struct bl_rma rma = rma_of(c, op);

		bl_rma_over(ep, &rma, op->place.len, err);
	}
}

static void all_over(struct bl_ep *ep, struct bl_combine *c, const struct group *g, bool by_target)
{
	enum bl_stat stat = by_target		      ? BL_STAT_rma_by_target
			    : c->what == BL_RMA_WRITE ? BL_STAT_rma_writes
						      : BL_STAT_rma_reads;

	bl_stat_add(ep, stat, g->n);
	bl_stat_add(ep, stat + 1, g->len);
	if (g->n > 1)
		bl_stat_add(ep, BL_STAT_rma_combined, g->n);
	over(ep, c, g->n, 0);
}

/* The next one by itself; false: not now. */
static bool do_alone(struct bl_ep *ep, struct bl_rma_peer *rp, struct bl_combine *c)
{
	const struct bl_combined *op = &c->op[c->first];
	struct bl_rma rma = rma_of(c, op);
	int err = bl_rma_perform(ep, rp, &rma, op->place.len);

	if (err == -EAGAIN)
		return false;
	c->first++;
	c->alone--;
	if (err)
		bl_rma_over(ep, &rma, op->place.len, -err);
	return true;
}

/* What the target says of those that it has taken up; false: nothing yet. */
static bool hear(struct bl_ep *ep, struct bl_rma_peer *rp, struct bl_combine *c)
{
	struct group g;
	int ret, err;

	begin_group(c, &g, c->asked, true);
	ret = bl_serve_look(rp, &g.rma, g.len, c->number, &err);
	if (ret == BL_SERVE_LEFT)
		return false;
	c->asked = 0;
	if (ret || err)
		c->alone = g.n;
	else
		all_over(ep, c, &g, true);
	return true;
}

/* Together: by the target, if it is open to that, or directly. 0: done, *asked: by the target.
 * -EAGAIN: not now. -EOPNOTSUPP: not together. */
static int together(struct bl_ep *ep, struct bl_rma_peer *rp, struct group *g, bool *asked)
{
	struct bl_combine *c = rp->combine;
	size_t off = 0;
	bool counted;
	int err = 0, ret = bl_rma_counted(rp, &g->rma, &counted);

	if (ret || counted)
		return ret == -EAGAIN ? ret : -EOPNOTSUPP;
	ret = *asked ? bl_serve_now(ep, rp, &g->rma, g->len, &c->number, &err) : -EOPNOTSUPP;
	*asked = !ret;
	if (ret == BL_SERVE_LEFT) {
		c->asked = g->n;
		return -EAGAIN;
	}
	if (ret)
		ret = bl_rma_direct(ep, rp, &g->rma, g->len, &off, &err);
	return ret == -EAGAIN ? ret : ret || err ? -EOPNOTSUPP : 0;
}

/* The next ones; false: not now. */
static bool do_some(struct bl_ep *ep, struct bl_rma_peer *rp, struct bl_combine *c)
{
	bool asked = bl_serve_is_open(ep, rp);
	struct group g;
	int err;

	begin_group(c, &g, c->n - c->first, asked);
	if (asked && g.n < 2) { /* a call for many takes less time than a packet for each */
		asked = false;
		begin_group(c, &g, c->n - c->first, asked);
	}
	err = g.n < 2 ? -EOPNOTSUPP : together(ep, rp, &g, &asked);
	if (!err)
		all_over(ep, c, &g, asked);
	else if (err != -EAGAIN)
		c->alone = g.n;
	return err != -EAGAIN;
}

/* A step of it; false: not now. */
static bool step(struct bl_ep *ep, struct bl_rma_peer *rp, struct bl_combine *c)
{
	if (unlikely(rp->rest && bl_rma_go_on(ep, rp)))
		return false;
	if (unlikely(c->asked))
		return hear(ep, rp, c);
	return c->alone ? do_alone(ep, rp, c) : do_some(ep, rp, c);
}

bool bl_combine_flush(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	struct bl_combine *c = rp->combine;

	while (c->first < c->n)
		if (!step(ep, rp, c))
			return false;
	rp->several = c->n > 1;
	rp->last_at = bl_ticks();
	c->n = 0;
	return !rp->rest; /* the last one may have been left to the target */
}

bl_cold void bl_combine_close(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	struct bl_combine *c = rp->combine;

	while (bl_combine_some(rp) && c->first < c->n && !c->asked && !rp->rest && !rp->head) {
		struct group g;
		size_t off = 0;
		int err;

		begin_group(c, &g, c->alone ? 1 : c->n - c->first, false);
		if (bl_rma_direct(ep, rp, &g.rma, g.len, &off, &err) || err)
			break;
		all_over(ep, c, &g, false);
	}
	free(c);
	rp->combine = NULL;
}

bl_cold void bl_combine_abandon(struct bl_ep *ep, struct bl_rma_peer *rp, int err)
{
	struct bl_combine *c = rp->combine;

	if (bl_combine_some(rp)) {
		if (c->asked)
			hear(ep, rp, c);
		over(ep, c, c->n - c->first, err);
	}
	free(c);
	rp->combine = NULL;
}
