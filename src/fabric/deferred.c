/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deferred.c: a domain's deferred work: FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK. All
 * but the buffers is read when it is queued: its structures may be used again at once.
 * The waiting is the core's (endpoint/trigger.h).
 */
#include "fabric/defer.h"

static int check_ep(struct bl_fi_domain *domain, struct fid_ep *fid, bool receives,
		    struct bl_work *work)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	if (!fid || ep->domain != domain)
		return -FI_EINVAL;
	work->ep = ep->core;
	if (!ep->trigger)
		return -FI_ENOSYS;
	if (receives && fid->fid.fclass == FI_CLASS_SRX_CTX)
		return 0;
	if (fid->fid.fclass != FI_CLASS_EP || (receives && ep->shares_rx))
		return -FI_ENOSYS;
	return ep->enabled ? 0 : -FI_EOPBADSTATE;
}

#define DEFERRED_SEND_FLAGS ((BL_FI_SENDMSG_FLAGS & ~FI_INJECT) | FI_MATCH_COMPLETE | FI_FENCE)
#define DEFERRED_RECV_FLAGS (FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_MORE)

static int send_work(struct bl_fi_domain *domain, struct fid_ep *fid, struct bl_send send,
		     uint64_t flags, struct bl_work *work)
{
	int ret = check_ep(domain, fid, false, work);

	if (ret)
		return ret;
	if (flags & ~DEFERRED_SEND_FLAGS)
		return -FI_ENOSYS;
	send.flags |=
		(bl_fi_levels(flags) & (BL_REMOTE_CQ_DATA | BL_DELIVERY_COMPLETE | BL_FENCE)) |
		bl_fi_reports(bl_fi_ep_of(fid), flags);
	work->what = BL_WORK_SEND;
	work->send = send;
	return 0;
}

static int msg_work(struct bl_fi_domain *domain, const struct fi_op_msg *op, struct bl_work *work)
{
	const struct bl_send send = {
		.iov = op->msg.msg_iov,
		.niov = op->msg.iov_count,
		.dest = op->msg.addr,
		.data = op->msg.data,
		.context = op->msg.context,
		.flags = BL_MSG,
	};

	return send_work(domain, op->ep, send, op->flags, work);
}

static int tagged_work(struct bl_fi_domain *domain, const struct fi_op_tagged *op,
		       struct bl_work *work)
{
	const struct bl_send send = {
		.iov = op->msg.msg_iov,
		.niov = op->msg.iov_count,
		.dest = op->msg.addr,
		.tag = op->msg.tag,
		.data = op->msg.data,
		.context = op->msg.context,
		.flags = BL_TAGGED,
	};

	return send_work(domain, op->ep, send, op->flags, work);
}

/* Neither peeks nor buffers for many messages: they don't end with one message. */
static int recv_work(const struct bl_fi_ep *ep, struct bl_recv recv, uint64_t flags,
		     struct bl_work *work)
{
	if (flags & ~DEFERRED_RECV_FLAGS)
		return -FI_ENOSYS;
	recv.flags |= bl_fi_reports(ep, flags);
	work->what = BL_WORK_RECV;
	work->recv = recv;
	return 0;
}

static int msg_recv_work(struct bl_fi_domain *domain, const struct fi_op_msg *op,
			 struct bl_work *work)
{
	const struct bl_fi_ep *ep = bl_fi_ep_of(op->ep);
	int ret = check_ep(domain, op->ep, true, work);

	return ret ? ret : recv_work(ep, bl_fi_recv_of(ep, &op->msg), op->flags, work);
}

static int tagged_recv_work(struct bl_fi_domain *domain, const struct fi_op_tagged *op,
			    struct bl_work *work)
{
	const struct bl_fi_ep *ep = bl_fi_ep_of(op->ep);
	int ret = check_ep(domain, op->ep, true, work);

	return ret ? ret : recv_work(ep, bl_fi_trecv_of(ep, &op->msg), op->flags, work);
}

static int counter_work(struct bl_fi_domain *domain, const struct fi_op_cntr *op,
			enum bl_work_what what, struct bl_work *work)
{
	struct bl_fi_cntr *cntr;

	if (!op->cntr || work->done)
		return -FI_EINVAL;
	cntr = bl_containerof(op->cntr, struct bl_fi_cntr, fid);
	if (cntr->domain != domain)
		return -FI_EDOMAIN;
	work->what = what;
	work->target = cntr->core;
	work->value = op->value;
	return 0;
}

/* rma.c and atomic.c translate the operation and queue it with bl_fi_defer_rma(). */
static int rma_work(struct bl_fi_domain *domain, struct fid_ep *fid, struct bl_work *work)
{
	int ret = check_ep(domain, fid, false, work);

	work->what = BL_WORK_RMA;
	return ret;
}

static int counters(struct bl_fi_domain *domain, const struct fi_deferred_work *from,
		    struct bl_work *work)
{
	struct bl_fi_cntr *trigger, *done;

	if (!from->triggering_cntr)
		return -FI_EINVAL;
	trigger = bl_containerof(from->triggering_cntr, struct bl_fi_cntr, fid);
	done = bl_containerof(from->completion_cntr, struct bl_fi_cntr, fid);
	if (trigger->domain != domain || (from->completion_cntr && done->domain != domain))
		return -FI_EDOMAIN;
	work->trigger = trigger->core;
	work->done = from->completion_cntr ? done->core : NULL;
	work->threshold = from->threshold;
	return 0;
}

static int queue_work(struct bl_fi_domain *domain, const struct fi_deferred_work *from)
{
	struct bl_work work = {.deferred = true, .name = from};
	int ret = counters(domain, from, &work);

	if (ret)
		return ret;
	switch (from->op_type) {
	case FI_OP_SEND:
		ret = msg_work(domain, from->op.msg, &work);
		break;
	case FI_OP_TSEND:
		ret = tagged_work(domain, from->op.tagged, &work);
		break;
	case FI_OP_RECV:
		ret = msg_recv_work(domain, from->op.msg, &work);
		break;
	case FI_OP_TRECV:
		ret = tagged_recv_work(domain, from->op.tagged, &work);
		break;
	case FI_OP_READ:
	case FI_OP_WRITE:
		ret = rma_work(domain, from->op.rma->ep, &work);
		return ret ? ret
			   : (int)bl_fi_rma_defer(from->op.rma, from->op_type == FI_OP_READ, &work);
	case FI_OP_ATOMIC:
		ret = rma_work(domain, from->op.atomic->ep, &work);
		return ret ? ret : (int)bl_fi_atomic_defer(from->op.atomic, &work);
	case FI_OP_FETCH_ATOMIC:
		ret = rma_work(domain, from->op.fetch_atomic->ep, &work);
		return ret ? ret : (int)bl_fi_fetch_defer(from->op.fetch_atomic, &work);
	case FI_OP_COMPARE_ATOMIC:
		ret = rma_work(domain, from->op.compare_atomic->ep, &work);
		return ret ? ret : (int)bl_fi_compare_defer(from->op.compare_atomic, &work);
	case FI_OP_CNTR_SET:
		ret = counter_work(domain, from->op.cntr, BL_WORK_SET, &work);
		break;
	case FI_OP_CNTR_ADD:
		ret = counter_work(domain, from->op.cntr, BL_WORK_ADD, &work);
		break;
	default:
		return -FI_ENOSYS;
	}
	return ret ? ret : bl_fi_queue(domain, &work);
}

static int cancel_work(struct bl_fi_domain *domain, const void *name)
{
	int ret;

	bl_fi_enter(domain);
	ret = bl_work_cancel(domain->core, name);
	bl_fi_leave(domain);
	return ret;
}

/* All of the domain's, or what waits for one counter. */
static int flush_work(struct bl_fi_domain *domain, struct fid_cntr *fid)
{
	struct bl_fi_cntr *cntr = bl_containerof(fid, struct bl_fi_cntr, fid);

	if (fid && (fid->fid.fclass != FI_CLASS_CNTR || cntr->domain != domain))
		return -FI_EINVAL;
	bl_fi_enter(domain);
	bl_work_flush(domain->core, fid ? cntr->core : NULL);
	bl_fi_leave(domain);
	return 0;
}

int bl_fi_work_control(struct fid *fid, int command, void *arg)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid.fid);

	if (command != FI_FLUSH_WORK && !arg)
		return -FI_EINVAL;
	switch (command) {
	case FI_QUEUE_WORK:
		return queue_work(domain, arg);
	case FI_CANCEL_WORK:
		return cancel_work(domain, arg);
	case FI_FLUSH_WORK:
		return flush_work(domain, arg);
	default:
		return -FI_ENOSYS;
	}
}
