/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * delegated.c: short one-sided operations that are delegated to their target; see delegated.h.
 * Serialised by the domain. What an origin says is checked on a private copy.
 */
#include "transport/local/rma/delegated.h"

#include <string.h>

#include "base/knobs.h"
#include "base/window.h"
#include "core/stat.h"
#include "transport/local/adapt/habit.h"
#include "transport/local/lane/ctrl.h"
#include "transport/local/rma/runs.h"

#define WAITS_US    2u	/* who has served one needn't be looked at for so long */
#define TAKES_UP_US 2u	/* a target that waits has seen it by then, and yields meanwhile */
#define SERVES_US   20u /* it has done it by then, or has lost its core */
#define SHUN_MOST   64u /* operations that aren't asked for after one in vain, at most */

/* len: of all places. */
static bool is_short(enum bl_rma_what what, uint8_t op, size_t nplace, size_t len)
{
	return nplace && nplace <= BL_IOV_MAX && len && len <= BL_SLOT_INLINE &&
	       bl_rma_goes(what, op, len) <= BL_DELEGATED_BYTES(nplace) &&
	       bl_rma_comes(what, len) <= BL_DELEGATED_SUM_BYTES;
}

/* --- the origin ------------------------------------------------------------ */

/* What was asked for in vain still takes a place of the ring. */
static bool is_unread(const struct bl_rma_peer *rp)
{
	uint64_t served = atomic_load_explicit(&rp->peer->tx.lane->served, memory_order_relaxed);

	return rp->vain && served >> 16 != (rp->vain & BL_DELEGATED_SUM_NUMBER);
}

/* The target waits, as far as can be seen from here. many: even where a system call for few bytes
 * is quick, it isn't for as many places. */
static bool waits(struct bl_ep *ep, struct bl_rma_peer *rp, uint64_t now, bool many)
{
	uint64_t knob = bl_knobs()->rma_delegate;

	if (unlikely(knob))
		return knob == BL_DELEGATED_ALWAYS;
	if (unlikely(!bl_copy_plan()->serve && !many))
		return false;
	if (rp->shun) {
		rp->shun--;
		return false;
	}
	if (unlikely(is_unread(rp)))
		return false;
	/* It takes a line from the other to look. */
	return !bl_is_due(now, rp->waits_until) || bl_peer_waits(ep, rp->peer);
}

/* Send it; returns the word by which it is taken back. */
static _Atomic uint32_t *ask(struct bl_peer *peer, const struct bl_rma *rma, size_t len,
			     uint64_t number)
{
	union {
		struct bl_rma_delegated serve;
		uint8_t bytes[BL_SLOT_INLINE];
	} out;
	struct bl_slot *slot = bl_tx_slot(&peer->tx);
	size_t put = BL_DELEGATED_HEAD(rma->nplace);

	atomic_init(&out.serve.ours, 0);
	out.serve.what = (uint8_t)rma->what;
	out.serve.type = rma->type;
	out.serve.op = rma->op;
	out.serve.nplace = (uint8_t)rma->nplace;
	memcpy(out.serve.place, rma->place, rma->nplace * sizeof rma->place[0]);
	if (bl_rma_has_operand(rma->what, rma->op))
		put += bl_iov_gather(out.bytes + put, rma->iov, rma->niov, 0, len);
	if (rma->what == BL_RMA_COMPARE)
		put += bl_iov_gather(out.bytes + put, rma->compare, rma->ncompare, 0, len);
	bl_put_packet(peer, BL_OP_RMA_DELEGATED, rma->flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0,
		      number, rma->data, &out, put);
	return (_Atomic uint32_t *)(uintptr_t)(slot->bytes +
					       offsetof(struct bl_rma_delegated, ours));
}

/* The same of many places. NULL: there is no room. */
static _Atomic uint32_t *ask_runs(struct bl_peer *peer, const struct bl_rma *rma,
				  const struct bl_runs *runs, uint64_t number)
{
	size_t put = rma->what == BL_RMA_WRITE ? runs->len : 0;
	uint32_t size = BL_RUNS_HEAD(runs->n) + (uint32_t)put;
	uint8_t *to = bl_rma_packet_room(peer, size);
	struct bl_rma_runs *out = (struct bl_rma_runs *)(uintptr_t)to;

	if (!to)
		return NULL;
	atomic_init(&out->ours, 0);
	out->what = (uint8_t)rma->what;
	out->type = out->op = out->nplace = 0;
	out->nrun = runs->n;
	out->pad = 0;
	out->key = runs->key;
	memcpy(out->run, runs->run, runs->n * sizeof runs->run[0]);
	if (put)
		bl_iov_gather(to + BL_RUNS_HEAD(runs->n), rma->iov, rma->niov, 0, put);
	bl_rma_packet_send(peer, to,
			   BL_HEAD(size, BL_OP_RMA_DELEGATED,
				   rma->flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0),
			   number, rma->data);
	return &out->ours;
}

/* Its target hasn't found it, and won't do it. False: it has, and says what became of it. */
static bool taken_back(struct bl_rma_peer *rp, _Atomic uint32_t *ours, uint64_t number)
{
	/* seq_cst: pairs with bl_delegated_packet(): either we see that the target serves it, or it
	 * sees that it is ours, or both */
	atomic_exchange_explicit(ours, 1, memory_order_seq_cst);
	return atomic_load_explicit(&rp->peer->tx.lane->serving, memory_order_seq_cst) != number;
}

static void in_vain(struct bl_ep *ep, struct bl_rma_peer *rp, uint64_t number)
{
	rp->vain = number;
	rp->shun_next = (uint32_t)bl_min(2 * (size_t)rp->shun_next + 1, SHUN_MOST);
	rp->shun = rp->shun_next;
	rp->waits_until = 0;
	bl_stat_add(ep, BL_STAT_rma_taken_back, 1);
}

int bl_delegated_look(struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len, uint64_t number,
		      size_t *moved, int *err)
{
	const struct bl_lane *lane = rp->peer->tx.lane;
	/* acquire: pairs with the release in bl_delegated_packet(): what came is there */
	uint64_t served = atomic_load_explicit(&lane->served, memory_order_acquire);
	uint32_t how = served & BL_DELEGATED_SUM_HOW;

	if (served >> 16 != (number & BL_DELEGATED_SUM_NUMBER))
		return BL_DELEGATED_LEFT;
	if (how == BL_DELEGATED_SUM_NOT)
		return -EOPNOTSUPP;
	*err = how < 4096 ? (int)how : EIO;
	if (*err && moved && rma->what == BL_RMA_WRITE) {
		uint64_t some;

		memcpy(&some, lane->result, sizeof some);
		*moved = bl_min((size_t)some, len);
	}
	if (!*err && rma->what == BL_RMA_READ)
		bl_iov_scatter(rma->iov, rma->niov, 0, lane->result, len);
	else if (!*err && rma->what >= BL_RMA_FETCH)
		bl_iov_scatter(rma->result, rma->nresult, 0, lane->result, len);
	return 0;
}

bool bl_delegated_fits(enum bl_rma_what what, size_t nplace, size_t len)
{
	return is_short(what, 0, nplace, len);
}

bool bl_delegated_is_open(struct bl_ep *ep, struct bl_rma_peer *rp, bool many)
{
	struct bl_tx *tx = &rp->peer->tx;

	return rp->peer->copy.pull != BL_COPY_SELF && !ep->domain->working &&
	       waits(ep, rp, bl_ticks(), many) && (bl_tx_room(tx) || bl_tx_refresh(tx));
}

/* As runs: false: it doesn't go so. */
static bool make_runs(const struct bl_rma *rma, struct bl_runs *runs)
{
	bl_runs_begin(runs);
	for (size_t i = 0; i < rma->nplace; i++)
		if (!bl_runs_add(runs, &rma->place[i]))
			return false;
	return bl_runs_fit(runs, rma->what);
}

/* Of one by itself: what it would keep of what is injected has little room. */
static bool may_be_runs(const struct bl_rma *rma, size_t len)
{
	return rma->nplace > 1 && rma->what <= BL_RMA_WRITE &&
	       (!(rma->flags & BL_INJECT) || len <= BL_SLOT_INLINE);
}

int bl_delegated_ask(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		     uint64_t *number, int *err)
{
	bool is_few = is_short(rma->what, rma->op, rma->nplace, len);

	if ((!is_few && !may_be_runs(rma, len)) || rma->flags & BL_FENCE ||
	    !bl_delegated_is_open(ep, rp, rma->nplace >= BL_DELEGATED_MANY))
		return -EOPNOTSUPP;
	return bl_delegated_now(ep, rp, rma, len, number, NULL, err);
}

int bl_delegated_now(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		     uint64_t *number, size_t *moved, int *err)
{
	uint64_t now = bl_ticks(), until;
	_Atomic uint32_t *ours;
	struct bl_runs runs;
	bool theirs = false;
	int ret;

	*number = ++ep->rma.number;
	if (is_short(rma->what, rma->op, rma->nplace, len))
		ours = ask(rp->peer, rma, len, *number);
	else
		ours = make_runs(rma, &runs) ? ask_runs(rp->peer, rma, &runs, *number) : NULL;
	if (!ours)
		return -EOPNOTSUPP;
	rp->vain = 0; /* it was read, or it wouldn't be open */
	until = now + (TAKES_UP_US + bl_min(rma->nplace, BL_IOV_MAX) / 4 + len / 2048) *
			      bl_ticks_per_us();
	while ((ret = bl_delegated_look(rp, rma, len, *number, moved, err)) == BL_DELEGATED_LEFT) {
		struct bl_sink none = BL_SINK_NONE;

		now = bl_ticks();
		if (bl_is_due(now, until)) {
			if (theirs)
				return BL_DELEGATED_LEFT;
			/* It hasn't been read (or it is served now), and nothing was sent since:
			 * that is still its slot. */
			theirs = !taken_back(rp, ours, *number);
			if (!theirs) {
				ret = -EOPNOTSUPP;
				break;
			}
			until = now + SERVES_US * bl_ticks_per_us();
		}
		/* It may be waiting for the same of us. (Or of another that we don't poll each
		 * time: then it waits in vain.) */
		for (uint32_t i = 0; i < ep->local.npolled; i++)
			ep->up->poll(ep, &none, ep->local.hot[i]);
	}
	if (unlikely(ret)) {
		in_vain(ep, rp, *number);
		return ret;
	}
	rp->vain = rp->shun_next = 0;
	rp->waits_until = now + WAITS_US * bl_ticks_per_us();
	return 0;
}

/* --- the target ------------------------------------------------------------ */

/* What is asked for, into x; false: it makes no sense. size: of the packet. */
static bool plan(const struct bl_rma_delegated *serve, uint32_t size, struct bl_rma_exec *x)
{
	size_t len;

	if (serve->what >= BL_RMA_WHATS || (serve->what < BL_RMA_ATOMIC && serve->op) ||
	    serve->nplace > BL_IOV_MAX || size < BL_DELEGATED_HEAD(serve->nplace) ||
	    !bl_rma_places_len(serve->place, serve->nplace, &len) ||
	    !is_short(serve->what, serve->op, serve->nplace, len))
		return false;
	x->task = (struct bl_rma_task){.what = serve->what,
				       .type = serve->type,
				       .op = serve->op,
				       .first = bl_rma_firsts(serve->place, serve->nplace),
				       .nplace = serve->nplace,
				       .place = serve->place,
				       .len = len};
	return size == BL_DELEGATED_HEAD(serve->nplace) + bl_rma_goes(serve->what, serve->op, len);
}

static void say(struct bl_lane *lane, uint64_t number, uint32_t how)
{
	/* release: pairs with the acquire in bl_delegated_look() */
	atomic_store_explicit(&lane->served, BL_DELEGATED_SUM(number, how), memory_order_release);
}

/* Do it with operands that `bytes` are, and what comes back will be. *moved: of what fails, how
 * much is there. */
static int serve_few(struct bl_ep *ep, struct bl_rma_exec *x, uint8_t *bytes, size_t *moved)
{
	int err;

	x->mem.own = ep->domain;
	x->mem.len = x->task.len;
	err = bl_rma_exec_begin(ep, x);
	if (!err)
		err = bl_rma_exec(ep, x, 0, bytes, x->task.len, moved);
	/* Nothing is done: its lock is taken. */
	return err == -EAGAIN ? -EOPNOTSUPP : err;
}

int bl_delegated_packet(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint32_t head,
			uint64_t number, uint64_t data, const void *bytes)
{
	const struct bl_rma_delegated *theirs = bytes;
	struct bl_lane *lane = peer->rx.lane;
	alignas(16) uint8_t taken[BL_SLOT_INLINE] = {0};
	uint32_t size = BL_HEAD_LEN(head);
	struct bl_rma_delegated serve;
	struct bl_rma_exec x;
	size_t moved = 0;
	int err;

	if (size < BL_RUNS_HEAD(0) || (uintptr_t)bytes % alignof(struct bl_rma_runs))
		return -EPROTO;
	/* seq_cst: pairs with taken_back() */
	atomic_exchange_explicit(&lane->serving, number, memory_order_seq_cst);
	if (unlikely(atomic_load_explicit(&theirs->ours, memory_order_seq_cst))) {
		say(lane, number, BL_DELEGATED_SUM_NOT);
		return 0;
	}
	bl_window(BL_WINDOW_SERVING, NULL);
	memcpy(&serve, theirs, bl_min(size, sizeof serve));
	if (!serve.nplace) {
		err = bl_runs_perform(ep, bytes, size, taken, serve.place, &x, &moved);
	} else if (size <= BL_SLOT_INLINE && plan(&serve, size, &x)) {
		memcpy(taken, (const char *)theirs + BL_DELEGATED_HEAD(serve.nplace),
		       bl_rma_goes(serve.what, serve.op, x.task.len));
		err = serve_few(ep, &x, taken, &moved);
	} else {
		err = -EPROTO;
	}
	if (err == -EPROTO)
		return err;
	bl_window(BL_WINDOW_SERVED, NULL);
	if (!err)
		memcpy(lane->result, taken, bl_rma_comes(x.task.what, x.task.len));
	else if (x.task.what == BL_RMA_WRITE)
		memcpy(lane->result, &(uint64_t){moved}, sizeof(uint64_t));
	say(lane, number, err == -EOPNOTSUPP ? BL_DELEGATED_SUM_NOT : (uint32_t)-err);
	if (err == -EOPNOTSUPP)
		return 0;
	x.task.src = peer->av_index;
	x.task.data = data;
	x.task.has_data = BL_HEAD_FLAGS(head) & BL_SLOT_DATA;
	bl_rma_exec_over(ep, sink, &x, err);
	return 0;
}
