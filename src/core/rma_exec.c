/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma_exec.c: one-sided operations at their target; see rma.h. Serialised by the domain. What an
 * origin says is checked against our own table, again whenever a registration has been closed.
 */
#include "core/rma.h"
#include "core/stat.h"

static int find(struct bl_ep *ep, struct bl_rma_exec *x)
{
	const struct bl_rma_task *t = &x->task;

	x->closed = ep->domain->mr.closed;
	return bl_rma_find_own(ep, t->place, t->nplace, bl_rma_need(t->what, t->op), &x->mem);
}

int bl_rma_exec_begin(struct bl_ep *ep, struct bl_rma_exec *x)
{
	const struct bl_rma_task *t = &x->task;
	int err = find(ep, x);

	x->done = t->off;
	if (!err && t->what >= BL_RMA_ATOMIC &&
	    (!bl_atomic_fits(t->what, t->type, t->op, x->mem.len) ||
	     !bl_atomic_fits(t->what, t->type, t->op, t->off)))
		err = -EINVAL;
	return err;
}

static int apply(struct bl_ep *ep, struct bl_rma_exec *x, char *bytes)
{
	const struct bl_rma_task *t = &x->task;
	/* Of no bytes there is no memory. */
	const struct iovec operand = {bytes, t->len},
			   compare = {bytes ? bytes + t->len : NULL, t->len};
	const struct bl_atomic_run r = {
		.mem = &x->mem,
		.what = t->what,
		.type = t->type,
		.op = t->op,
		.base = t->off,
		.end = t->off + t->len,
		.operand = &operand,
		.noperand = 1,
		.compare = &compare,
		.ncompare = 1,
		.result = &operand, /* each chunk when its operands have been used */
		.nresult = 1,
	};

	return bl_atomic_run(&r, ep->rma.atomics_page, &ep->rma.atomics_wait, &x->done);
}

int bl_rma_exec(struct bl_ep *ep, struct bl_rma_exec *x, size_t off, void *bytes, size_t len,
		size_t *moved)
{
	const struct iovec mine = {bytes, len};
	int err = unlikely(x->closed != ep->domain->mr.closed) ? find(ep, x) : 0;

	if (err)
		return err;
	if (x->task.what >= BL_RMA_ATOMIC)
		return apply(ep, x, bytes);
	return bl_rma_move(NULL, x->task.what == BL_RMA_WRITE, &x->mem, off, &mine, 1, len, moved);
}

static void count_at_region(struct bl_ep *ep, uint64_t key, uint32_t events,
			    const struct bl_cntr *but)
{
	struct bl_mr *mr = NULL;
	const struct bl_mr_entry *entry = bl_mr_find(ep->domain, key, &mr);

	if (entry && mr->cntr && mr->cntr != but && entry->flags & events)
		bl_cntr_up(mr->cntr);
}

void bl_rma_tell(struct bl_ep *ep, struct bl_sink *sink, const struct bl_rma_task *t, uint64_t len)
{
	bool read = bl_rma_reads(t->what);
	struct bl_cntr *cntr = read ? ep->rma_cntr.remote_read : ep->rma_cntr.remote_write;

	if (cntr && !t->more)
		bl_cntr_up(cntr);
	for (uint32_t i = 0; i < t->nplace; i++)
		if (t->first & 1u << i)
			count_at_region(ep, t->place[i].key, bl_rma_events(t->what, t->op), cntr);
	/* One for one-sided operations alone may have no queue. */
	if (t->has_data && !t->more && ep->bound.rx_cq)
		bl_complete(ep->bound.rx_cq, sink, NULL,
			    (t->what >= BL_RMA_ATOMIC ? BL_ATOMIC : BL_RMA) | BL_REMOTE_CQ_DATA |
				    (read ? BL_REMOTE_READ : BL_REMOTE_WRITE),
			    len, NULL, t->data, 0, t->src);
}

void bl_rma_exec_over(struct bl_ep *ep, struct bl_sink *sink, const struct bl_rma_exec *x, int err)
{
	const struct bl_rma_task *t = &x->task;
	bool last = t->off + t->len == x->mem.len; /* of these places; there may be more */

	bl_stat_add(ep, BL_STAT_rma_served, err || (last && !t->more));
	bl_stat_add(ep, BL_STAT_rma_served_bytes, t->len);
	bl_cq_renew(ep->bound.rx_cq);
	if (!err && last) /* its length as its origin says: it is told, no more */
		bl_rma_tell(ep, sink, t, t->before + x->mem.len);
}
