/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma_comp.c: how a one-sided operation ends at its origin, and what is kept of one until then;
 * see rma.h. Serialised by the domain.
 */
#include "core/deferred.h"
#include "core/op_error.h"
#include "core/rma.h"

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

void bl_rma_complete(struct bl_ep *ep, struct bl_sink *sink, const struct bl_rma *rma, size_t len,
		     int err)
{
	uint64_t cflags = comp_flags(rma->what), flags = rma->flags;
	struct bl_cntr *cntr = cflags & BL_READ ? ep->rma_cntr.read : ep->rma_cntr.write;
	void *context = rma->context;

	if (unlikely(rma->work != NULL)) {
		cntr = NULL;
		bl_work_over(rma->work, err); /* frees *rma, which lies in it */
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
	bl_rma_complete(ep, &none, rma, len, err);
}

/* --- what outlives the call ----------------------------------------------------- */

size_t bl_rma_pieces_size(const struct bl_rma *rma)
{
	return (rma->niov + rma->ncompare + rma->nresult) * sizeof(struct iovec) +
	       rma->nplace * sizeof(struct bl_rma_place);
}

static void iov_copy(struct iovec *to, const struct iovec *from, size_t n)
{
	if (n)
		memcpy(to, from, n * sizeof *to);
}

struct bl_rma bl_rma_with_pieces(const struct bl_rma *rma, void *memory)
{
	struct bl_rma_place *place = memory;
	struct iovec *iov = (struct iovec *)(place + rma->nplace);
	struct bl_rma copy = *rma;

	if (rma->nplace)
		memcpy(place, rma->place, rma->nplace * sizeof *place);
	iov_copy(iov, rma->iov, rma->niov);
	iov_copy(iov + rma->niov, rma->compare, rma->ncompare);
	iov_copy(iov + rma->niov + rma->ncompare, rma->result, rma->nresult);
	copy.place = place;
	copy.iov = iov;
	copy.compare = iov + rma->niov;
	copy.result = copy.compare + rma->ncompare;
	return copy;
}

void bl_rma_keep_bytes(struct bl_rma *rma, size_t len, struct iovec kept[2], char *copy)
{
	if (!(rma->flags & BL_INJECT))
		return;
	if (bl_rma_has_operand(rma->what, rma->op)) {
		kept[0] = (struct iovec){copy, len};
		bl_iov_gather(copy, rma->iov, rma->niov, 0, len);
		rma->iov = &kept[0];
		rma->niov = 1;
	}
	if (rma->what == BL_RMA_COMPARE) {
		kept[1] = (struct iovec){copy + len, len};
		bl_iov_gather(copy + len, rma->compare, rma->ncompare, 0, len);
		rma->compare = &kept[1];
		rma->ncompare = 1;
	}
}
