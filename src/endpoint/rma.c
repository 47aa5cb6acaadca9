/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma.c: what a one-sided operation must be, and what it waits for; see rma.h. How it is done its
 * transport knows. Serialised by the domain.
 */
#include "endpoint/rma.h"

#include "endpoint/endpoint.h"
#include "endpoint/txq.h"
#include "transport/local/adapt/demote.h"
#include "transport/local/rma/batch.h"
#include "transport/local/rma/rma.h"

/* A peer that is connected; no room in its ring is asked for. */
static int reach(struct bl_ep *ep, uint64_t dest, struct bl_peer **out)
{
	struct bl_peer *peer = dest < ep->ndest ? ep->dest[dest] : &bl_nobody;
	int err;

	if (peer == &bl_nobody) {
		err = bl_ep_resolve(ep, dest, &peer);
		if (err)
			return err;
	}
	*out = peer;
	if (unlikely(peer->dead))
		return -(int)peer->dead;
	if (unlikely(bl_txq_holds_rma(ep, peer) && !bl_txq_open(ep, peer)))
		return BL_QUEUE;
	if (likely(peer->adopted))
		return 0;
	err = bl_ep_connect(ep, peer);
	return err == -EAGAIN ? bl_txq_not_now(ep, peer, BL_TXQ_NEWS) : err;
}

/* All lengths agree; that of the operation through *len. */
static bool lengths(const struct bl_rma *rma, size_t *len)
{
	size_t total;

	if (rma->niov > BL_RMA_IOV_MAX || rma->nplace > BL_RMA_IOV_MAX ||
	    rma->ncompare > BL_RMA_IOV_MAX || rma->nresult > BL_RMA_IOV_MAX)
		return false;
	if (!bl_rma_places_len(rma->place, rma->nplace, &total) || total > BL_MSG_MOST)
		return false;
	*len = total;
	if (rma->op != BL_ATOMIC_OP_READ && bl_iov_len_checked(rma->iov, rma->niov) != total)
		return false;
	if (rma->what == BL_RMA_COMPARE && bl_iov_len_checked(rma->compare, rma->ncompare) != total)
		return false;
	return rma->what < BL_RMA_FETCH || bl_iov_len_checked(rma->result, rma->nresult) == total;
}

bool bl_rma_pending(const struct bl_ep *ep, const struct bl_peer *peer)
{
	for (uint32_t i = 0; ep->rndv.requests && i < ep->rndv.nrequest; i++)
		if (ep->rndv.request[i]->peer == peer)
			return true;
	return peer->rma && (peer->rma->head || peer->rma->rest || bl_batch_some(peer->rma));
}

/* Its memory can't be reached now: its table changes, another has its lock, or what we need to know
 * of that has been asked for. (An answer that we haven't seen yet is counted after this.) */
static bl_cold int not_yet(struct bl_ep *ep, struct bl_peer *peer, const struct bl_rma *rma)
{
	bool asked = rma->what >= BL_RMA_ATOMIC &&
		     atomic_load_explicit(&peer->proof, memory_order_acquire) == BL_PROOF_WANTED;

	return bl_txq_rma(ep, rma, bl_txq_not_now(ep, peer, asked ? BL_TXQ_NEWS : BL_TXQ_SOON));
}

int bl_rma(struct bl_ep *ep, const struct bl_rma *rma)
{
	struct bl_rma_peer *rp;
	struct bl_peer *peer;
	size_t len;
	int err;

	if (unlikely(ep->demoting.sampled))
		bl_demote_next(ep);
	if (unlikely(!lengths(rma, &len)))
		return -EINVAL;
	if (unlikely(rma->flags & BL_INJECT && len > ep->limit.inject_max))
		return -EMSGSIZE;
	err = reach(ep, rma->dest, &peer);
	if (unlikely(!err && rma->flags & BL_FENCE && ep->txq.opening != peer &&
		     (bl_rma_pending(ep, peer) || !bl_txq_is_empty(peer->txq))))
		err = BL_QUEUE;
	if (unlikely(err))
		return bl_txq_rma(ep, rma, err);
	rp = bl_rma_peer(peer);
	if (unlikely(!rp))
		return bl_no_memory(ep);
	err = bl_rma_begin(ep, rp, rma, len);
	if (unlikely(err == -EAGAIN))
		return not_yet(ep, peer, rma);
	if (unlikely(err == BL_RMA_NO_ROOM))
		return bl_txq_rma(ep, rma, bl_txq_not_now(ep, peer, BL_TXQ_CREDIT));
	return err;
}
