/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * perform.c: which way a one-sided operation goes, and what is left of one; see rma.h. Serialised
 * by the domain.
 */
#include <stdlib.h>
#include <string.h>

#include "core/stat.h"
#include "transport/local/rma/batch.h"
#include "transport/local/rma/count.h"
#include "transport/local/rma/delegated.h"
#include "transport/local/rma/rma.h"

/* An atomic operation: others have got the lock between two pieces of it. Or any: the target has
 * taken it up, and isn't at its end; delegated.h */
struct bl_rma_rest {
	struct bl_rma rma; /* its description, with copies of what that points to */
	size_t len, off;   /* done up to here; or */
	uint64_t served;   /* the target has it, under this number; else 0 */
	struct iovec kept[2];
	char copy[BL_SLOT_INLINE]; /* BL_INJECT, of one that the target has: its operands */
	size_t room;
	char pieces[]; /* so many bytes of them */
};

static struct bl_sink no_sink = BL_SINK_NONE;

/* --- peers ---------------------------------------------------------------- */

struct bl_rma_peer *bl_rma_peer(struct bl_peer *peer)
{
	struct bl_rma_peer *rp = peer->rma;

	if (likely(rp != NULL))
		return rp;
	rp = calloc(1, sizeof *rp);
	if (!rp)
		return NULL;
	rp->peer = peer;
	rp->tail = &rp->head;
	peer->rma = rp;
	return rp;
}

void bl_rma_activate(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	if (rp->active)
		return;
	rp->active = true;
	rp->next_active = ep->rma.active;
	ep->rma.active = rp;
	ep->work++;
}

static void deactivate(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	struct bl_rma_peer **at = &ep->rma.active;

	if (!rp->active)
		return;
	while (*at != rp)
		at = &(*at)->next_active;
	*at = rp->next_active;
	rp->active = false;
	ep->work--;
}

/* --- what goes on with progress --------------------------------------------------- */

static void end_served(struct bl_ep *ep, const struct bl_peer *peer, const struct bl_rma *rma,
		       size_t len, int err)
{
	if (likely(!err)) {
		bl_stat_add(ep, BL_STAT_rma_by_target, 1);
		bl_stat_add(ep, BL_STAT_rma_by_target_bytes, len);
	} else {
		bl_rma_tell_error(peer, rma->what, len, BL_RMA_BY_TARGET, err);
	}
	bl_rma_complete(ep, &no_sink, rma, len, err);
}

/* Before a target may have one: memory for that, of which there is one for each. */
static bool may_leave(struct bl_rma_peer *rp, const struct bl_rma *rma)
{
	size_t room = bl_rma_pieces_size(rma);

	if (likely(rp->spare && rp->spare->room >= room))
		return true;
	free(rp->spare);
	rp->spare = malloc(sizeof *rp->spare + room);
	if (rp->spare)
		rp->spare->room = room;
	return rp->spare != NULL;
}

/* The rest of it follows with progress: from `off` on, or what the target says of `served`. */
static bl_cold int leave_rest(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma,
			      size_t len, size_t off, uint64_t served)
{
	struct bl_rma_rest *rest;

	if (!may_leave(rp, rma)) {
		bl_rma_complete(ep, &no_sink, rma, len, ENOMEM);
		return 0;
	}
	rest = rp->spare;
	rp->spare = NULL;
	rest->rma = bl_rma_with_pieces(rma, rest->pieces);
	rest->len = len;
	rest->off = off;
	rest->served = served;
	if (served)
		bl_rma_keep_bytes(&rest->rma, len, rest->kept, rest->copy);
	rp->rest = rest;
	bl_rma_activate(ep, rp);
	return 0;
}

static void drop_rest(struct bl_rma_peer *rp)
{
	free(rp->spare);
	rp->spare = rp->rest;
	rp->rest = NULL;
}

/* What the target has said of one that it has: true: it is over. */
static bool rest_is_served(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	struct bl_rma_rest *rest = rp->rest;
	int err, ret = bl_delegated_look(rp, &rest->rma, rest->len, rest->served, NULL, &err);

	if (ret == BL_DELEGATED_LEFT)
		return false;
	rest->served = 0;
	if (ret)
		return false;
	end_served(ep, rp->peer, &rest->rma, rest->len, err);
	drop_rest(rp);
	return true;
}

/* --- the rest ------------------------------------------------------------------- */

bool bl_rma_go_on(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	struct bl_rma_rest *rest = rp->rest;
	const struct bl_rma *rma;
	int err;

	if (likely(!rest))
		return false;
	if (rest->served && rest_is_served(ep, rp))
		return false;
	if (rest->served)
		return true;
	rma = &rest->rma;
	err = bl_rma_direct_one(ep, rp, rma, rest->len, &rest->off);
	if ((err == -EOPNOTSUPP && !rest->off) || err == -EFAULT)
		err = bl_rma_ask(ep, rp, rma, rest->len, rest->off, err);
	if (err == -EAGAIN || err == BL_RMA_NO_ROOM)
		return true;
	if (err) /* where a part is done no other way may begin anew */
		bl_rma_over(ep, rp->peer, rma, rest->len, err == -EOPNOTSUPP ? EPERM : -err);
	drop_rest(rp);
	return false;
}

int bl_rma_perform(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len)
{
	struct bl_peer *peer = rp->peer;
	uint64_t number;
	size_t off = 0;
	int ret, err = 0;

	if (likely(!rp->head && peer->copy.pull != BL_COPY_NOTHING &&
		   peer->copy.push != BL_COPY_NOTHING)) {
		ret = may_leave(rp, rma) ? bl_delegated_ask(ep, rp, rma, len, &number, &err)
					 : -EOPNOTSUPP;
		if (ret == BL_DELEGATED_LEFT)
			return leave_rest(ep, rp, rma, len, 0, number);
		if (!ret) {
			end_served(ep, peer, rma, len, err);
			return 0;
		}
		err = bl_rma_direct_one(ep, rp, rma, len, &off);
		if (unlikely(err == -EAGAIN && off))
			return leave_rest(ep, rp, rma, len, off, 0);
		if (likely(err != -EOPNOTSUPP && err != -EFAULT))
			return err;
	}
	err = bl_rma_ask(ep, rp, rma, len, off, err);
	if (unlikely(err && off && rma->flags & BL_INJECT)) { /* whose bytes nobody has kept */
		bl_rma_over(ep, rp->peer, rma, len, ENOMEM);
		return 0;
	}
	if (unlikely(err && off)) /* a part is done */
		return leave_rest(ep, rp, rma, len, off, 0);
	return err;
}

int bl_rma_begin(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len)
{
	int err;

	if (unlikely(rp->rest && bl_rma_go_on(ep, rp)))
		return -EAGAIN;
	err = bl_batch_take(ep, rp, rma, len);
	if (err)
		return err == BL_BATCH_TAKEN ? 0 : err;
	err = bl_rma_perform(ep, rp, rma, len);
	if (likely(!err))
		bl_batch_note(ep, rp);
	return err;
}

static bl_cold void drop(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	deactivate(ep, rp);
	free(rp->rest);
	free(rp->spare);
	bl_batch_drop(ep, rp);
	bl_rma_ask_drop(rp);
	bl_rma_drop_job(rp);
	rp->peer->rma = NULL;
	free(rp);
}

bl_cold void bl_rma_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err)
{
	struct bl_rma_peer *rp = peer->rma;

	if (!rp)
		return;
	if (rp->rest && !(rp->rest->served && rest_is_served(ep, rp))) {
		bl_rma_complete(ep, sink, &rp->rest->rma, rp->rest->len, err);
		drop_rest(rp);
	}
	bl_batch_abandon(ep, rp, err);
	bl_rma_ask_abandon(ep, sink, rp, err);
	drop(ep, rp);
}

void bl_rma_close(struct bl_ep *ep)
{
	if (ep->local.seg.header) {
		/* From now on nobody begins; see bl_peer_life(). */
		atomic_store_explicit(&ep->local.seg.header->closed, 1, memory_order_release);
		bl_mr_quiesce(ep);
		bl_rma_count_take_all(ep);
	}
	for (uint32_t i = 0; i < ep->local.nby_index; i++)
		if (ep->local.by_index[i] && ep->local.by_index[i]->rma)
			drop(ep, ep->local.by_index[i]->rma);
	bl_batch_free(ep);
}
