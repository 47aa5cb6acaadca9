/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * target.c: the target's side of one-sided operations: hearing of what others
 * have done to our memory, and doing it for those whom the kernel doesn't let; see
 * rma.h. Serialised by the domain. An origin has one operation here at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/local/lane/ctrl.h"
#include "transport/local/rma/batch.h"
#include "transport/local/rma/delegated.h"
#include "transport/local/rma/rma.h"

struct bl_rma_job {
	uint64_t number;
	struct bl_rma_ask ask;
	struct bl_rma_exec exec;
	size_t in_len, in_got, out_len, out_sent;
	char *staging; /* atomics: operands, what they are compared with; then the results */
	bool applied;
	int error; /* positive errno: what comes is thrown away, nothing goes back */
};

static int on_event(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, uint32_t head,
		    uint64_t key, uint64_t data, const void *bytes)
{
	const struct bl_rma_place place = {.key = key};
	struct bl_rma_task task = {.nplace = 1, .first = 1, .place = &place};
	struct bl_rma_event event;

	if (BL_HEAD_LEN(head) != sizeof event)
		return -EPROTO;
	memcpy(&event, bytes, sizeof event);
	if (event.what >= BL_RMA_WHATS)
		return -EPROTO;
	task.what = event.what;
	task.op = event.op;
	task.has_data = BL_HEAD_FLAGS(head) & BL_SLOT_DATA;
	task.data = data;
	task.src = peer->av_index;
	bl_rma_tell(ep, sink, &task, event.len);
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

/* The part that is asked for is one: operands and results of at most so many bytes wait in
 * memory of ours. */
static bool is_part(const struct bl_rma_ask *ask, size_t total)
{
	if (ask->what < BL_RMA_ATOMIC)
		return !ask->off && ask->len == total;
	/* One that its origin has begun itself goes on anywhere; whole elements:
	 * bl_rma_exec_begin(). */
	return (ask->off < total || !ask->off) &&
	       ask->len == bl_min(total - ask->off, (size_t)BL_RMA_PART);
}

/* What comes and what goes. False: the origin can't mean it. */
static bool plan(struct bl_rma_job *job)
{
	const struct bl_rma_ask *ask = &job->ask;
	size_t total;

	if (!bl_rma_places_len(ask->place, ask->nplace, &total) || total > SIZE_MAX / 4 ||
	    !is_part(ask, total))
		return false;
	job->exec.mem.len = total;
	job->in_len = bl_rma_goes(ask->what, ask->op, ask->len);
	job->out_len = bl_rma_comes(ask->what, ask->len);
	return true;
}

static struct bl_rma_task task_of(const struct bl_rma_ask *ask, bool has_data, uint64_t data)
{
	return (struct bl_rma_task){.what = ask->what,
				    .type = ask->type,
				    .op = ask->op,
				    .first = ask->first,
				    .more = ask->more,
				    .has_data = has_data,
				    .nplace = ask->nplace,
				    .place = ask->place,
				    .off = ask->off,
				    .len = ask->len,
				    .before = ask->before,
				    .data = data};
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
	job->exec.task = task_of(&job->ask, BL_HEAD_FLAGS(head) & BL_SLOT_DATA, data);
	job->error = -bl_rma_exec_begin(ep, &job->exec);
	if (!job->error && job->ask.what >= BL_RMA_ATOMIC) {
		size_t room = job->in_len > job->out_len ? job->in_len : job->out_len;

		if (room && !(job->staging = malloc(room)))
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
	if (!job->error && job->ask.what == BL_RMA_WRITE)
		job->error = -bl_rma_exec(ep, &job->exec, off, (void *)(uintptr_t)bytes, len, NULL);
	else if (!job->error)
		memcpy(job->staging + off, bytes, len);
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
			job->error = -bl_rma_exec(ep, &job->exec, job->out_sent, buf, len, NULL);
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
	if (job->ask.what >= BL_RMA_ATOMIC && !job->applied && !job->error) {
		int err = bl_rma_exec(ep, &job->exec, 0, job->staging, 0, NULL);

		if (err == -EAGAIN)
			return true;
		job->error = -err;
		job->applied = true;
	}
	if (!send_result(ep, rp->peer, job))
		return true;
	bl_control(ep, rp->peer, BL_OP_RMA_DONE, job->number, (uint64_t)job->error, NULL, 0);
	job->exec.task.src = rp->peer->av_index; /* as it is named now */
	bl_rma_exec_over(ep, sink, &job->exec, job->error);
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
