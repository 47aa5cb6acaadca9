/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* rma.c: the origin's side of one-sided operations; see rma.h. Serialised by the domain. */
#include "core/retry.h"
#include "endpoint/rma.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/local/rma/atomic.h"
#include "transport/local/rma/batch.h"
#include "transport/local/rma/count.h"
#include "core/op_error.h"
#include "transport/local/ways/rndv.h"
#include "transport/local/rma/delegated.h"
#include "core/stat.h"
#include "endpoint/txq.h"
#include "endpoint/trigger.h"

/* An atomic operation: others have got the lock between two pieces of it. Or any: the target has
 * taken it up, and isn't at its end; delegated.h */
struct bl_rma_rest {
	struct bl_rma rma; /* its description, with copies of what that points to */
	size_t len, off;   /* done up to here; or */
	uint64_t served;   /* the target has it, under this number; else 0 */
	struct iovec kept[2];
	uint8_t copy[BL_SLOT_INLINE]; /* BL_INJECT, of one that the target has: its operands */
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

/* --- completing ----------------------------------------------------------- */

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

void bl_rma_over(struct bl_ep *ep, const struct bl_rma *rma, size_t len, int err)
{
	struct bl_peer *peer;

	if (unlikely(err && !bl_ep_resolve(ep, rma->dest, &peer)))
		bl_rma_tell_error(peer, rma->what, len, "one-sided: directly", err);
	bl_rma_complete(ep, &no_sink, rma->work, rma->what, rma->flags, rma->context, len, err);
}

/* --- directly --------------------------------------------------------------- */

bool bl_rma_is_told(const struct bl_peer *peer, const struct bl_rma *rma)
{
	bool read = comp_flags(rma->what) & BL_READ;
	uint32_t all = atomic_load_explicit(&peer->mapped.header->mr.events, memory_order_relaxed);

	return rma->flags & BL_REMOTE_CQ_DATA ||
	       all & (read ? BL_MR_EVENT_READ : BL_MR_EVENT_WRITE);
}

static void tell_target(struct bl_peer *peer, const struct bl_rma *rma, size_t len)
{
	struct bl_rma_event event = {.len = len, .what = rma->what, .op = rma->op};

	bl_put_packet(peer, BL_OP_RMA_EVENT, rma->flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0,
		      rma->nplace ? rma->place[0].key : 0, rma->data, &event, sizeof event);
}

static void count(struct bl_ep *ep, enum bl_rma_what what, size_t len)
{
	enum bl_stat stat = what == BL_RMA_READ	   ? BL_STAT_rma_reads
			    : what == BL_RMA_WRITE ? BL_STAT_rma_writes
						   : BL_STAT_rma_atomics;

	bl_stat_add(ep, stat, 1);
	bl_stat_add(ep, stat + 1, len);
}

#define NO_ROOM (-ENOBUFS) /* to tell the target */

/* See bl_rma_direct(); NO_ROOM. The memory has been found. */
static int copy_there(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma,
		      const struct bl_rma_memory *mem, bool several, size_t *off, int *err)
{
	struct bl_peer *peer = rp->peer;
	struct bl_heard heard;

	bl_rma_count_plan(peer, rma, mem, &heard);
	if (several && (heard.packet || heard.n))
		return -EOPNOTSUPP;
	/* Each region may have a counter of its own: the target finds them. */
	if (unlikely(heard.packet && rma->nplace > 1 && mem->ncount))
		return -EOPNOTSUPP;
	if (unlikely(heard.packet) && !bl_tx_room(&peer->tx) && !bl_tx_refresh(&peer->tx))
		return NO_ROOM;
	bl_window(BL_WINDOW_REACHING, NULL);
	if (rma->what >= BL_RMA_ATOMIC)
		*err = bl_atomic_direct(ep, peer, rma, mem, off);
	else
		*err = bl_rma_move(&peer->copy, rma->what == BL_RMA_WRITE, mem, 0, rma->iov,
				   rma->niov, mem->len, off);
	if (unlikely(*err == -EOPNOTSUPP || *err == -EAGAIN))
		return *err;
	if (comp_flags(rma->what) & BL_READ && bl_peer_life(peer)) {
		*err = bl_peer_life(peer); /* the same PID after exec() is other memory */
		*off = 0;
	}
	if (unlikely(*err))
		return 0;
	if (unlikely(heard.packet))
		tell_target(peer, rma, mem->len);
	else if (heard.n)
		bl_rma_count_add(peer, &heard);
	return 0;
}

static int copy_now(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		    bool several, size_t *off, int *err)
{
	struct bl_rma_memory mem;
	int ret;

	*err = bl_peer_life(rp->peer); /* its PID may be somebody else's by now */
	if (!*err)
		*err = bl_rma_find(rp, rma, &mem);
	if (unlikely(*err))
		return *err == -EAGAIN || *err == -EOPNOTSUPP ? *err : 0;
	mem.len = len;
	ret = copy_there(ep, rp, rma, &mem, several, off, err);
	bl_rma_memory_end(&mem);
	return ret;
}

/* From here on until busy_ends() the target waits for us before it takes memory away. */
static void busy_begins(struct bl_rma_peer *rp)
{
	/* seq_cst: pairs with the fence in bl_mr_quiesce: either we see what has been
	 * closed, or the target sees us and waits */
	atomic_exchange_explicit(&rp->peer->rx.lane->rma_busy, (rp->turn += 2) | 1,
				 memory_order_seq_cst);
}

static void busy_ends(struct bl_rma_peer *rp)
{
	atomic_store_explicit(&rp->peer->rx.lane->rma_busy, 0, memory_order_release);
}

int bl_rma_direct(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		  bool several, size_t *off, int *err)
{
	int ret;

	busy_begins(rp);
	ret = copy_now(ep, rp, rma, len, several, off, err);
	busy_ends(rp);
	return ret;
}

int bl_rma_counted(struct bl_rma_peer *rp, const struct bl_rma *rma, bool *counted)
{
	struct bl_rma_memory mem;
	int err;

	busy_begins(rp);
	err = bl_peer_life(rp->peer); /* its PID may be somebody else's by now */
	if (!err)
		err = bl_rma_find(rp, rma, &mem);
	busy_ends(rp);
	*counted = !err && mem.ncount;
	if (!err)
		bl_rma_memory_end(&mem);
	return err;
}

/* Where they aren't it is an error, which needn't end this process. */
static bl_cold bool ours_are_mapped(const struct bl_rma *rma)
{
	return bl_copy_is_mapped(rma->iov, rma->niov) &&
	       bl_copy_is_mapped(rma->compare, rma->ncompare) &&
	       bl_copy_is_mapped(rma->result, rma->nresult);
}

/* As bl_rma_direct(), and it ends. -EFAULT: each must touch its own memory, from *off on. */
static int direct(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		  size_t *off)
{
	size_t at = *off;
	int err, ret = bl_rma_direct(ep, rp, rma, len, false, &at, &err);

	if (rma->what >= BL_RMA_ATOMIC) /* any other begins anew */
		*off = at;
	if (ret)
		return ret;
	if (unlikely(err == -EFAULT && ours_are_mapped(rma)))
		return err;
	if (likely(!err))
		count(ep, rma->what, len);
	bl_rma_over(ep, rma, len, err == -ESRCH ? ECONNRESET : -err);
	return 0;
}

static void end_served(struct bl_ep *ep, const struct bl_peer *peer, const struct bl_rma *rma,
		       size_t len, int err)
{
	if (likely(!err)) {
		bl_stat_add(ep, BL_STAT_rma_by_target, 1);
		bl_stat_add(ep, BL_STAT_rma_by_target_bytes, len);
	} else {
		bl_rma_tell_error(peer, rma->what, len, BL_RMA_BY_TARGET, err);
	}
	bl_rma_complete(ep, &no_sink, rma->work, rma->what, rma->flags, rma->context, len, err);
}

/* Before a target may have one: memory for that, of which there is one for each. */
static bool may_leave(struct bl_rma_peer *rp, const struct bl_rma *rma)
{
	size_t room = (rma->niov + rma->ncompare + rma->nresult) * sizeof(struct iovec) +
		      rma->nplace * sizeof(struct bl_rma_place);

	if (likely(rp->spare && rp->spare->room >= room))
		return true;
	free(rp->spare);
	rp->spare = malloc(sizeof *rp->spare + room);
	if (rp->spare)
		rp->spare->room = room;
	return rp->spare != NULL;
}

/* A copy of what an operation points to, in memory that has room for it. */
static struct bl_rma with_pieces(const struct bl_rma *rma, void *memory)
{
	struct bl_rma_place *place = memory;
	struct iovec *iov = (struct iovec *)(place + rma->nplace);
	struct bl_rma copy = *rma;

	if (rma->nplace)
		memcpy(place, rma->place, rma->nplace * sizeof *place);
	bl_iov_copy(iov, rma->iov, rma->niov);
	bl_iov_copy(iov + rma->niov, rma->compare, rma->ncompare);
	bl_iov_copy(iov + rma->niov + rma->ncompare, rma->result, rma->nresult);
	copy.place = place;
	copy.iov = iov;
	copy.compare = iov + rma->niov;
	copy.result = copy.compare + rma->ncompare;
	return copy;
}

/* What is injected is its user's again. */
static void keep_bytes(struct bl_rma_rest *rest)
{
	struct bl_rma *rma = &rest->rma;
	size_t len = rest->len;

	if (!(rma->flags & BL_INJECT) || rma->what == BL_RMA_READ)
		return;
	if (rma->op != BL_ATOMIC_OP_READ) {
		rest->kept[0] = (struct iovec){rest->copy, len};
		bl_iov_gather(rest->copy, rma->iov, rma->niov, 0, len);
		rma->iov = &rest->kept[0];
		rma->niov = 1;
	}
	if (rma->what == BL_RMA_COMPARE) {
		rest->kept[1] = (struct iovec){rest->copy + len, len};
		bl_iov_gather(rest->copy + len, rma->compare, rma->ncompare, 0, len);
		rma->compare = &rest->kept[1];
		rma->ncompare = 1;
	}
}

/* The rest of it follows with progress: from `off` on, or what the target says of `served`. */
static bl_cold int leave_rest(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma,
			      size_t len, size_t off, uint64_t served)
{
	struct bl_rma_rest *rest;

	if (!may_leave(rp, rma)) {
		bl_rma_complete(ep, &no_sink, rma->work, rma->what, rma->flags, rma->context, len,
				ENOMEM);
		return 0;
	}
	rest = rp->spare;
	rp->spare = NULL;
	rest->rma = with_pieces(rma, rest->pieces);
	rest->len = len;
	rest->off = off;
	rest->served = served;
	if (served)
		keep_bytes(rest);
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
	err = direct(ep, rp, rma, rest->len, &rest->off);
	if ((err == -EOPNOTSUPP && !rest->off) || err == -EFAULT)
		err = bl_rma_ask(ep, rp, rma, rest->len, rest->off, err);
	if (err == -EAGAIN || err == NO_ROOM)
		return true;
	if (err) /* where a part is done no other way may begin anew */
		bl_rma_over(ep, rma, rest->len, err == -EOPNOTSUPP ? EPERM : -err);
	drop_rest(rp);
	return false;
}

/* --- both ---------------------------------------------------------------------- */

/* All lengths agree; that of the operation through *len. */
static bool lengths(const struct bl_rma *rma, size_t *len)
{
	size_t total = 0;

	if (rma->niov > BL_RMA_IOV_MAX || rma->nplace > BL_RMA_IOV_MAX ||
	    rma->ncompare > BL_RMA_IOV_MAX || rma->nresult > BL_RMA_IOV_MAX)
		return false;
	for (size_t i = 0; i < rma->nplace; i++)
		if (__builtin_add_overflow(total, rma->place[i].len, &total))
			return false;
	if (total > BL_MSG_MOST)
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
		err = direct(ep, rp, rma, len, &off);
		if (unlikely(err == -EAGAIN && off))
			return leave_rest(ep, rp, rma, len, off, 0);
		if (likely(err != -EOPNOTSUPP && err != -EFAULT))
			return err;
	}
	err = bl_rma_ask(ep, rp, rma, len, off, err);
	if (unlikely(err && off && rma->flags & BL_INJECT)) { /* whose bytes nobody has kept */
		bl_rma_over(ep, rma, len, ENOMEM);
		return 0;
	}
	if (unlikely(err && off)) /* a part is done */
		return leave_rest(ep, rp, rma, len, off, 0);
	return err;
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
	if (unlikely(rp->rest && bl_rma_go_on(ep, rp)))
		return not_yet(ep, peer, rma);
	err = bl_batch_take(ep, rp, rma, len);
	if (err == BL_BATCH_TAKEN)
		return 0;
	if (unlikely(err))
		return not_yet(ep, peer, rma);
	err = bl_rma_perform(ep, rp, rma, len);
	if (likely(!err))
		bl_batch_note(ep, rp);
	else if (err == -EAGAIN)
		return not_yet(ep, peer, rma);
	else if (err == NO_ROOM)
		return bl_txq_rma(ep, rma, bl_txq_not_now(ep, peer, BL_TXQ_CREDIT));
	return err;
}

bl_cold void bl_rma_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err)
{
	struct bl_rma_peer *rp = peer->rma;

	if (!rp)
		return;
	deactivate(ep, rp);
	if (rp->rest && !(rp->rest->served && rest_is_served(ep, rp))) {
		const struct bl_rma *rma = &rp->rest->rma;

		bl_rma_complete(ep, sink, rma->work, rma->what, rma->flags, rma->context,
				rp->rest->len, err);
		drop_rest(rp);
	}
	free(rp->spare);
	bl_batch_abandon(ep, rp, err);
	bl_rma_ask_abandon(ep, sink, rp, err);
	bl_rma_drop_job(rp);
	peer->rma = NULL;
	free(rp);
}

void bl_rma_close(struct bl_ep *ep)
{
	if (ep->local.seg.header) {
		/* From now on nobody begins; see bl_peer_life(). */
		atomic_store_explicit(&ep->local.seg.header->closed, 1, memory_order_release);
		bl_mr_quiesce(ep);
		bl_rma_count_take_all(ep);
	}
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		struct bl_rma_peer *rp = ep->local.by_index[i] ? ep->local.by_index[i]->rma : NULL;

		if (!rp)
			continue;
		deactivate(ep, rp);
		free(rp->rest);
		free(rp->spare);
		bl_batch_drop(ep, rp);
		bl_rma_ask_drop(rp);
		bl_rma_drop_job(rp);
		ep->local.by_index[i]->rma = NULL;
		free(rp);
	}
	bl_batch_free(ep);
}
