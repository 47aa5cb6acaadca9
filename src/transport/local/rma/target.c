/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * target.c: the target's side of one-sided operations: hearing of what others
 * have done to our memory, and doing it for those whom the kernel doesn't let; see
 * rma.h. Serialised by the domain. An origin has one operation here at a time; what
 * it says is checked against our own table of registrations, again whenever one has
 * been closed meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/local/rma/atomic.h"
#include "transport/local/rma/batch.h"
#include "transport/local/ways/rndv.h"
#include "endpoint/rma.h"
#include "transport/local/rma/delegated.h"
#include "core/stat.h"

struct bl_rma_job {
	uint64_t number, data;
	bool has_data;
	struct bl_rma_ask ask;
	struct bl_rma_memory mem;
	uint64_t closed; /* registrations closed when `mem` was found */
	size_t in_len, in_got, out_len, out_sent;
	char *staging; /* atomics: operands, what they are compared with; then the results */
	bool applied;
	size_t off; /* of an atomic operation: done up to here */
	int error;  /* positive errno: what comes is thrown away, nothing goes back */
};

/* --- hearing of what others have done ---------------------------------------- */

static void count_at_region(struct bl_ep *ep, uint64_t key, uint32_t events,
			    const struct bl_cntr *but)
{
	struct bl_mr *mr = NULL;
	const struct bl_mr_entry *entry = bl_mr_find(ep->domain, key, &mr);

	if (entry && mr->cntr && mr->cntr != but && entry->flags & events)
		bl_cntr_up(mr->cntr);
}

/* The endpoint's counter that counts such. */
static struct bl_cntr *counter_of(const struct bl_ep *ep, enum bl_rma_what what)
{
	return what == BL_RMA_READ || what >= BL_RMA_FETCH ? ep->rma_cntr.remote_read
							   : ep->rma_cntr.remote_write;
}

void bl_rma_tell(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
		 enum bl_rma_what what, uint8_t op, const struct bl_rma_place *place, size_t nplace,
		 uint64_t len, bool has_data, uint64_t data)
{
	bool read = what == BL_RMA_READ || what >= BL_RMA_FETCH;
	struct bl_cntr *cntr = counter_of(ep, what);

	if (cntr)
		bl_cntr_up(cntr);
	for (size_t i = 0; i < nplace; i++)
		if (bl_rma_first_of(place, i))
			count_at_region(ep, place[i].key, bl_rma_events(what, op), cntr);
	if (has_data && ep->bound.rx_cq) /* one for one-sided operations alone may have none */
		bl_complete(ep->bound.rx_cq, sink, NULL,
			    (what >= BL_RMA_ATOMIC ? BL_ATOMIC : BL_RMA) | BL_REMOTE_CQ_DATA |
				    (read ? BL_REMOTE_READ : BL_REMOTE_WRITE),
			    len, NULL, data, 0, peer->av_index);
}

static int on_event(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint32_t head,
		    uint64_t key, uint64_t data, const void *bytes)
{
	const struct bl_rma_place place = {.key = key};
	struct bl_rma_event event;

	if (BL_HEAD_LEN(head) != sizeof event)
		return -EPROTO;
	memcpy(&event, bytes, sizeof event);
	if (event.what >= BL_RMA_WHATS)
		return -EPROTO;
	bl_rma_tell(ep, sink, peer, event.what, event.op, &place, 1, event.len,
		    BL_HEAD_FLAGS(head) & BL_SLOT_DATA, data);
	return 0;
}

/* --- doing it for an origin --------------------------------------------------- */

void bl_rma_drop_job(struct bl_rma_peer *rp)
{
	if (!rp->job)
		return;
	free(rp->job->staging);
	free(rp->job);
	rp->job = NULL;
}

static int find_memory(struct bl_ep *ep, struct bl_rma_job *job)
{
	job->closed = ep->domain->mr.closed;
	job->mem.own = NULL;
	return bl_rma_find_own(ep, job->ask.place, job->ask.nplace,
			       bl_rma_need(job->ask.what, job->ask.op), &job->mem);
}

/* The memory is still registered; false: the job has failed. */
static bool still_ours(struct bl_ep *ep, struct bl_rma_job *job)
{
	if (unlikely(job->closed != ep->domain->mr.closed && !job->error))
		job->error = -find_memory(ep, job);
	return !job->error;
}

/* The part that is asked for is one: operands and results of at most so many bytes wait in
 * memory of ours. */
static bool is_part(const struct bl_rma_ask *ask, size_t total)
{
	if (ask->what < BL_RMA_ATOMIC)
		return !ask->off && ask->len == total;
	/* One that its origin has begun itself goes on anywhere; whole elements: on_ask(). */
	return (ask->off < total || !ask->off) &&
	       ask->len == bl_min(total - ask->off, (size_t)BL_RMA_PART);
}

/* The last of these places. */
static bool is_last(const struct bl_rma_job *job)
{
	return job->ask.off + job->ask.len == job->mem.len;
}

/* All that is asked for of these places is done; they may not be all of the operation's. */
static void tell(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp,
		 const struct bl_rma_job *job)
{
	const struct bl_rma_ask *ask = &job->ask;
	uint64_t len = ask->before + job->mem.len; /* as its origin says: it is told, no more */
	struct bl_cntr *cntr = counter_of(ep, ask->what);

	for (uint32_t i = 0; i < ask->nplace; i++)
		if (ask->first & 1u << i)
			count_at_region(ep, ask->place[i].key, bl_rma_events(ask->what, ask->op),
					cntr);
	if (!ask->more)
		bl_rma_tell(ep, sink, rp->peer, ask->what, ask->op, NULL, 0, len, job->has_data,
			    job->data);
}

/* What comes and what goes. False: the origin can't mean it. */
static bool plan(struct bl_rma_job *job)
{
	enum bl_rma_what what = job->ask.what;
	size_t total = 0, len = job->ask.len;

	for (uint32_t i = 0; i < job->ask.nplace; i++)
		if (__builtin_add_overflow(total, job->ask.place[i].len, &total))
			return false;
	if (total > SIZE_MAX / 4 || !is_part(&job->ask, total))
		return false;
	job->mem.len = total;
	job->off = job->ask.off;
	job->in_len = what == BL_RMA_READ || job->ask.op == BL_ATOMIC_OP_READ ? 0 : len;
	if (what == BL_RMA_COMPARE)
		job->in_len += len;
	job->out_len = what == BL_RMA_READ || what >= BL_RMA_FETCH ? len : 0;
	return true;
}

static int on_ask(struct bl_ep *ep, struct bl_peer *peer, uint32_t head, uint64_t number,
		  uint64_t data, const void *bytes)
{
	const size_t fixed = offsetof(struct bl_rma_ask, place);
	struct bl_rma_peer *rp = bl_rma_peer(peer);
	uint32_t len = BL_HEAD_LEN(head);
	struct bl_rma_job *job;

	if (!rp)
		return -EAGAIN;
	if (rp->job || len < fixed || len > sizeof job->ask)
		return -EPROTO;
	job = calloc(1, sizeof *job);
	if (!job)
		return -EAGAIN;
	memcpy(&job->ask, bytes, len);
	if (job->ask.what >= BL_RMA_WHATS || job->ask.nplace > BL_IOV_MAX ||
	    len != fixed + job->ask.nplace * sizeof job->ask.place[0] || !plan(job)) {
		free(job);
		return -EPROTO;
	}
	job->number = number;
	job->data = data;
	job->has_data = BL_HEAD_FLAGS(head) & BL_SLOT_DATA;
	job->error = -find_memory(ep, job);
	if (!job->error && job->ask.what >= BL_RMA_ATOMIC) {
		size_t room = job->in_len > job->out_len ? job->in_len : job->out_len;

		if (!bl_atomic_fits(job->ask.what, job->ask.type, job->ask.op, job->mem.len) ||
		    !bl_atomic_fits(job->ask.what, job->ask.type, job->ask.op, job->ask.off))
			job->error = EINVAL;
		else if (room && !(job->staging = malloc(room)))
			job->error = ENOMEM;
	}
	rp->job = job;
	bl_rma_activate(ep, rp);
	return 0;
}

static int on_bytes(struct bl_ep *ep, struct bl_peer *peer, uint32_t head, uint64_t number,
		    uint64_t off, const void *bytes)
{
	struct bl_rma_job *job = peer->rma ? peer->rma->job : NULL;
	uint32_t len = BL_HEAD_LEN(head);

	if (!job || job->number != number || off != job->in_got || len > job->in_len - off)
		return -EPROTO;
	if (still_ours(ep, job)) {
		struct iovec mine = {(void *)(uintptr_t)bytes, len};

		if (job->ask.what == BL_RMA_WRITE)
			job->error = -bl_rma_move(NULL, true, &job->mem, off, &mine, 1, len, NULL);
		else
			memcpy(job->staging + off, bytes, len);
	}
	job->in_got += len;
	bl_rma_activate(ep, peer->rma);
	return 0;
}

/* Send what fits of the result; true: all of it has gone. */
static bool send_result(struct bl_ep *ep, struct bl_peer *peer, struct bl_rma_job *job)
{
	char buf[BL_RMA_FRAGMENT];

	while (job->out_sent < job->out_len && !job->error) {
		size_t len = bl_min(job->out_len - job->out_sent, BL_RMA_FRAGMENT);
		struct iovec from = {buf, len};

		if (!bl_tx_room(&peer->tx) && !bl_tx_refresh(&peer->tx))
			return false;
		if (job->ask.what == BL_RMA_READ) {
			if (!still_ours(ep, job))
				break;
			job->error = -bl_rma_move(NULL, false, &job->mem, job->out_sent, &from, 1,
						  len, NULL);
			if (job->error)
				break;
		} else {
			from.iov_base = job->staging + job->out_sent;
		}
		if (!bl_rma_put_bytes(peer, BL_OP_RMA_RESULT, job->number, job->out_sent, &from, 1,
				      0, len))
			return false;
		job->out_sent += len;
	}
	return true;
}

/* True: there is more to do, when there is room. */
static bool job_step(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp)
{
	struct bl_rma_job *job = rp->job;

	if (!job || job->in_got < job->in_len)
		return false;
	if (job->ask.what >= BL_RMA_ATOMIC && !job->applied && still_ours(ep, job)) {
		int err = bl_atomic_own(ep, &job->ask, &job->mem, job->staging, &job->off);

		if (err == -EAGAIN)
			return true;
		job->error = -err;
		job->applied = true;
	}
	if (!send_result(ep, rp->peer, job))
		return true;
	bl_control(ep, rp->peer, BL_OP_RMA_DONE, job->number, (uint64_t)job->error, NULL, 0);
	if ((is_last(job) && !job->ask.more) || job->error)
		bl_stat_add(ep, BL_STAT_rma_served, 1);
	bl_stat_add(ep, BL_STAT_rma_served_bytes, job->ask.len);
	bl_cq_renew(ep->bound.rx_cq);
	if (!job->error && is_last(job))
		tell(ep, sink, rp, job);
	bl_rma_drop_job(rp);
	return false;
}

/* A step for one; true: there is more to do, when there is room, say. */
static bool step(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp)
{
	bool more = bl_batch_some(rp) && !bl_batch_flush(ep, rp);

	more |= bl_rma_go_on(ep, rp);
	more |= bl_rma_pump(ep, rp);
	more |= job_step(ep, sink, rp);
	return more;
}

void bl_rma_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	struct bl_rma_peer *list = ep->rma.active, *rp;

	if (!ep->local.seg.header) /* forked: it is all our parent's */
		return;
	/* A step may poll, and what comes then may make any of them active, others or this one. */
	ep->rma.active = NULL;
	while ((rp = list)) {
		list = rp->next_active;
		rp->active = false;
		ep->work--;
		if (step(ep, sink, rp))
			bl_rma_activate(ep, rp);
	}
}

int bl_rma_packet(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint32_t head,
		  uint64_t tag, uint64_t data, const void *bytes)
{
	switch (BL_HEAD_OP(head)) {
	case BL_OP_RMA_EVENT:
		return on_event(ep, sink, peer, head, tag, data, bytes);
	case BL_OP_RMA_ASK:
		return on_ask(ep, peer, head, tag, data, bytes);
	case BL_OP_RMA_BYTES:
		return on_bytes(ep, peer, head, tag, data, bytes);
	case BL_OP_RMA_DELEGATED:
		return bl_delegated_packet(ep, sink, peer, head, tag, data, bytes);
	case BL_OP_RMA_RESULT:
		bl_rma_on_result(peer->rma, tag, data, bytes, BL_HEAD_LEN(head));
		return 0;
	case BL_OP_RMA_DONE:
		bl_rma_on_done(ep, sink, peer->rma, tag, data);
		return 0;
	}
	return -EPROTO;
}
