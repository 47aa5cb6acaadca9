/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* rma_comp.c: how a one-sided operation ends at its origin; see rma.h. Serialised by the domain. */
#include "core/rma.h"

#include "core/op_error.h"
#include "core/work.h"

static uint64_t comp_flags(enum bl_rma_what what)
{
	switch (what) {
	case BL_RMA_READ:
		return BL_RMA | BL_READ;
	case BL_RMA_WRITE:
		return BL_RMA | BL_WRITE;
	case BL_RMA_ATOMIC:
		return BL_ATOMIC | BL_WRITE;
	default:
		return BL_ATOMIC | BL_READ;
	}
}

void bl_rma_complete(struct bl_ep *ep, struct bl_sink *sink, struct bl_work *work,
		     enum bl_rma_what what, uint64_t flags, void *context, size_t len, int err)
{
	uint64_t cflags = comp_flags(what);
	struct bl_cntr *cntr = cflags & BL_READ ? ep->rma_cntr.read : ep->rma_cntr.write;

	if (unlikely(work != NULL)) {
		cntr = NULL;
		bl_work_over(work, err);
	}
	bl_cq_moved(ep, ep->bound.tx_cq, len);
	if (likely(!err)) {
		if (cntr)
			bl_cntr_up(cntr);
		if (flags & BL_COMPLETION && ep->bound.tx_cq)
			bl_complete(ep->bound.tx_cq, sink, context, cflags, len, NULL, 0, 0,
				    BL_ADDR_ANY);
		else
			bl_cq_renew(ep->bound.tx_cq);
		return;
	}
	if (cntr)
		bl_cntr_error(cntr);
	bl_cq_fail(ep->bound.tx_cq, sink,
		   &(struct bl_comp_err){
			   .comp = {context, cflags, 0, NULL, 0, 0},
			   .olen = len,
			   .err = err,
			   .src = BL_ADDR_ANY,
		   });
}

bl_cold void bl_rma_tell_error(const struct bl_peer *peer, enum bl_rma_what what, size_t len,
			       const char *way, int err)
{
	const char *said = what == BL_RMA_READ	  ? "a read of"
			   : what == BL_RMA_WRITE ? "a write of"
						  : "an atomic operation of";

	bl_tell_error(peer, said, len, way, err);
}

void bl_rma_over(struct bl_ep *ep, const struct bl_peer *peer, const struct bl_rma *rma, size_t len,
		 int err)
{
	struct bl_sink none = BL_SINK_NONE;

	if (unlikely(err))
		bl_rma_tell_error(peer, rma->what, len, "one-sided: directly", err);
	bl_rma_complete(ep, &none, rma->work, rma->what, rma->flags, rma->context, len, err);
}
