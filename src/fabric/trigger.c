/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * trigger.c: FI_TRIGGER, FI_FENCE, and a domain's deferred work: libfabric's calls for
 * operations that wait. The waiting is the core's (core/work.h). What a triggered
 * operation waits for is read from its context when it is posted, and of deferred
 * work all but the buffers: their structures may be used again at once.
 */
#include "fabric/fabric.h"

#include <rdma/fi_trigger.h>

#include "core/work.h"

static int queue(struct bl_fi_domain *domain, const struct bl_work *work)
{
	int ret;

	bl_fi_enter(domain);
	ret = bl_work_queue(domain->core, work);
	bl_fi_leave(domain);
	return ret;
}

/* --- triggered operations ---------------------------------------------------------- */

/* What the context says to wait for. */
static int condition(struct bl_fi_ep *ep, const struct fi_triggered_context *context,
		     struct bl_work *work)
{
	struct bl_fi_cntr *cntr;

	if (!ep->trigger)
		return -FI_EOPNOTSUPP;
	if (!context || context->event_type != FI_TRIGGER_THRESHOLD ||
	    !context->trigger.threshold.cntr)
		return -FI_EINVAL;
	cntr = bl_containerof(context->trigger.threshold.cntr, struct bl_fi_cntr, fid);
	if (cntr->domain != ep->domain)
		return -FI_EDOMAIN;
	if (!ep->enabled && ep->fid.fid.fclass == FI_CLASS_EP)
		return -FI_EOPBADSTATE;
	work->ep = ep->core;
	work->trigger = cntr->core;
	work->threshold = context->trigger.threshold.threshold;
	return 0;
}

/* An injected buffer would be the caller's again before the operation begins. */
static int trigger_send(struct bl_fi_ep *ep, const struct bl_send *send)
{
	struct bl_work work = {.what = BL_WORK_SEND, .send = *send};
	int ret = condition(ep, send->context, &work);

	if (ret)
		return ret;
	return send->flags & BL_INJECT ? -FI_ENOSYS : queue(ep->domain, &work);
}

static int trigger_recv(struct bl_fi_ep *ep, const struct bl_recv *recv)
{
	struct bl_work work = {.what = BL_WORK_RECV, .recv = *recv};
	int ret = condition(ep, recv->context, &work);

	return ret ? ret : queue(ep->domain, &work);
}

ssize_t bl_fi_trigger_rma(struct bl_fi_ep *ep, const struct bl_rma *rma)
{
	struct bl_work work = {.what = BL_WORK_RMA, .rma = *rma};
	int ret = condition(ep, rma->context, &work);

	if (ret)
		return ret;
	return rma->flags & BL_INJECT ? -FI_ENOSYS : queue(ep->domain, &work);
}

/* --- calls with flags that the quick path doesn't know ------------------------------ */

static ssize_t send_rare(struct bl_fi_ep *ep, struct bl_send *send, uint64_t flags)
{
	ssize_t ret;

	if (flags & ~(BL_FI_SENDMSG_FLAGS | FI_MATCH_COMPLETE | FI_TRIGGER | FI_FENCE))
		return -FI_EBADFLAGS;
	if (send->niov > BL_IOV_MAX)
		return -FI_EINVAL;
	send->flags |= (bl_fi_levels(flags) & (ep->tx_mask | BL_FENCE)) | ep->tx_always;
	if (flags & FI_TRIGGER)
		return trigger_send(ep, send);
	bl_fi_enter(ep->domain);
	ret = flags & FI_FENCE ? bl_send_fenced(ep->core, send) : bl_send(ep->core, send);
	bl_fi_leave(ep->domain);
	return ret;
}

ssize_t bl_fi_sendmsg_rare(struct bl_fi_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct bl_send send = {
		.iov = msg->msg_iov,
		.niov = msg->iov_count,
		.dest = msg->addr,
		.data = msg->data,
		.context = msg->context,
		.flags = BL_MSG,
	};

	return send_rare(ep, &send, flags);
}

ssize_t bl_fi_tsendmsg_rare(struct bl_fi_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct bl_send send = {
		.iov = msg->msg_iov,
		.niov = msg->iov_count,
		.dest = msg->addr,
		.tag = msg->tag,
		.data = msg->data,
		.context = msg->context,
		.flags = BL_TAGGED,
	};

	return send_rare(ep, &send, flags);
}

static uint64_t recv_flags(const struct bl_fi_ep *ep, uint64_t flags)
{
	return (flags & ep->rx_mask) | ep->rx_always | (flags & BL_PEEK ? BL_COMPLETION : 0);
}

static struct bl_recv recv_of(const struct bl_fi_ep *ep, const struct fi_msg *msg)
{
	return (struct bl_recv){
		.iov = msg->msg_iov,
		.niov = msg->iov_count,
		.src = msg->addr | ep->any_source,
		.context = msg->context,
		.flags = BL_MSG,
	};
}

static struct bl_recv trecv_of(const struct bl_fi_ep *ep, const struct fi_msg_tagged *msg)
{
	return (struct bl_recv){
		.iov = msg->msg_iov,
		.niov = msg->iov_count,
		.src = msg->addr | ep->any_source,
		.tag = msg->tag,
		.ignore = msg->ignore,
		.context = msg->context,
		.flags = BL_TAGGED,
	};
}

ssize_t bl_fi_recvmsg_rare(struct bl_fi_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct bl_recv recv = recv_of(ep, msg);

	if (flags & ~(BL_FI_RECVMSG_FLAGS | FI_MULTI_RECV | FI_TRIGGER))
		return -FI_EBADFLAGS;
	recv.flags |= recv_flags(ep, flags);
	return trigger_recv(ep, &recv);
}

ssize_t bl_fi_trecvmsg_rare(struct bl_fi_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct bl_recv recv = trecv_of(ep, msg);

	if (flags & ~(BL_FI_RECVMSG_FLAGS | FI_TRIGGER))
		return -FI_EBADFLAGS;
	recv.flags |= recv_flags(ep, flags);
	return trigger_recv(ep, &recv);
}

/* --- endpoints whose calls without flags are triggered ------------------------------- */

static ssize_t sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
		     fi_addr_t dest, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	const struct bl_send send = {
		.iov = iov,
		.niov = count,
		.dest = dest,
		.context = context,
		.flags = ep->tx_flags | BL_MSG,
	};

	return trigger_send(ep, &send);
}

static ssize_t send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
		    void *context)
{
	const struct iovec iov = {(void *)buf, len};

	return sendv(fid, &iov, NULL, 1, dest, context);
}

static ssize_t senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			fi_addr_t dest, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	const struct iovec iov = {(void *)buf, len};
	const struct bl_send send = {
		.iov = &iov,
		.niov = 1,
		.dest = dest,
		.data = data,
		.context = context,
		.flags = ep->tx_flags | BL_MSG | BL_REMOTE_CQ_DATA,
	};

	return trigger_send(ep, &send);
}

static ssize_t recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
		     fi_addr_t src, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	const struct bl_recv recv = {
		.iov = iov,
		.niov = count,
		.src = src | ep->any_source,
		.context = context,
		.flags = ep->rx_flags | BL_MSG,
	};

	return trigger_recv(ep, &recv);
}

static ssize_t recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
		    void *context)
{
	const struct iovec iov = {buf, len};

	return recvv(fid, &iov, NULL, 1, src, context);
}

static ssize_t tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
		      fi_addr_t dest, uint64_t tag, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	const struct bl_send send = {
		.iov = iov,
		.niov = count,
		.dest = dest,
		.tag = tag,
		.context = context,
		.flags = ep->tx_flags | BL_TAGGED,
	};

	return trigger_send(ep, &send);
}

static ssize_t tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
		     uint64_t tag, void *context)
{
	const struct iovec iov = {(void *)buf, len};

	return tsendv(fid, &iov, NULL, 1, dest, tag, context);
}

static ssize_t tsenddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			 fi_addr_t dest, uint64_t tag, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	const struct iovec iov = {(void *)buf, len};
	const struct bl_send send = {
		.iov = &iov,
		.niov = 1,
		.dest = dest,
		.tag = tag,
		.data = data,
		.context = context,
		.flags = ep->tx_flags | BL_TAGGED | BL_REMOTE_CQ_DATA,
	};

	return trigger_send(ep, &send);
}

static ssize_t trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
		      fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	const struct bl_recv recv = {
		.iov = iov,
		.niov = count,
		.src = src | ep->any_source,
		.tag = tag,
		.ignore = ignore,
		.context = context,
		.flags = (ep->rx_flags & ~BL_MULTI_RECV) | BL_TAGGED,
	};

	return trigger_recv(ep, &recv);
}

static ssize_t trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
		     uint64_t tag, uint64_t ignore, void *context)
{
	const struct iovec iov = {buf, len};

	return trecvv(fid, &iov, NULL, 1, src, tag, ignore, context);
}

/* An inject has no context that could say what to wait for, and doesn't wait. */
void bl_fi_trigger_tables(struct bl_fi_ep *ep)
{
	if (ep->tx_op_flags & FI_TRIGGER) {
		ep->msg.send = send;
		ep->msg.sendv = sendv;
		ep->msg.senddata = senddata;
		ep->tagged.send = tsend;
		ep->tagged.sendv = tsendv;
		ep->tagged.senddata = tsenddata;
	}
	if (ep->rx_op_flags & FI_TRIGGER && !ep->shares_rx) {
		ep->msg.recv = recv;
		ep->msg.recvv = recvv;
		ep->tagged.recv = trecv;
		ep->tagged.recvv = trecvv;
	}
}

/* --- deferred work -------------------------------------------------------------------- */

/* Deferred work reports through its counter alone unless it asks for more. */
static uint64_t reports(const struct bl_fi_ep *ep, uint64_t flags)
{
	return flags & (ep->tx_mask | ep->rx_mask) & BL_COMPLETION;
}

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
		reports(bl_fi_ep_of(fid), flags);
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
	recv.flags |= reports(ep, flags);
	work->what = BL_WORK_RECV;
	work->recv = recv;
	return 0;
}

static int msg_recv_work(struct bl_fi_domain *domain, const struct fi_op_msg *op,
			 struct bl_work *work)
{
	const struct bl_fi_ep *ep = bl_fi_ep_of(op->ep);
	int ret = check_ep(domain, op->ep, true, work);

	return ret ? ret : recv_work(ep, recv_of(ep, &op->msg), op->flags, work);
}

static int tagged_recv_work(struct bl_fi_domain *domain, const struct fi_op_tagged *op,
			    struct bl_work *work)
{
	const struct bl_fi_ep *ep = bl_fi_ep_of(op->ep);
	int ret = check_ep(domain, op->ep, true, work);

	return ret ? ret : recv_work(ep, trecv_of(ep, &op->msg), op->flags, work);
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

/* rma.c and atomic.c translate their calls and come back to bl_fi_defer_rma(). */
static int rma_work(struct bl_fi_domain *domain, struct fid_ep *fid, struct bl_work *work)
{
	int ret = check_ep(domain, fid, false, work);

	work->what = BL_WORK_RMA;
	return ret;
}

ssize_t bl_fi_defer_rma(struct bl_fi_ep *ep, const struct bl_rma *rma, struct bl_work *work)
{
	work->rma = *rma;
	work->rma.flags &= BL_REMOTE_CQ_DATA | BL_FENCE;
	work->rma.flags |= reports(ep, rma->flags);
	return queue(ep->domain, work);
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
	return ret ? ret : queue(domain, &work);
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
