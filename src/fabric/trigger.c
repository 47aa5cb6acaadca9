/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * trigger.c: FI_TRIGGER and FI_FENCE: libfabric's calls for operations that wait. The
 * waiting is the core's (endpoint/trigger.h). What a triggered operation waits for is read
 * from its context when it is posted. A domain's deferred work is in deferred.c.
 */
#include "fabric/defer.h"

#include <rdma/fi_trigger.h>

int bl_fi_queue(struct bl_fi_domain *domain, const struct bl_work *work)
{
	int ret;

	bl_fi_enter(domain);
	ret = bl_work_queue(domain->core, work);
	bl_fi_leave(domain);
	return ret;
}

ssize_t bl_fi_defer_rma(struct bl_fi_ep *ep, const struct bl_rma *rma, struct bl_work *work)
{
	work->rma = *rma;
	work->rma.flags &= BL_REMOTE_CQ_DATA | BL_FENCE;
	work->rma.flags |= bl_fi_reports(ep, rma->flags);
	return bl_fi_queue(ep->domain, work);
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
	return send->flags & BL_INJECT ? -FI_ENOSYS : bl_fi_queue(ep->domain, &work);
}

static int trigger_recv(struct bl_fi_ep *ep, const struct bl_recv *recv)
{
	struct bl_work work = {.what = BL_WORK_RECV, .recv = *recv};
	int ret = condition(ep, recv->context, &work);

	return ret ? ret : bl_fi_queue(ep->domain, &work);
}

ssize_t bl_fi_trigger_rma(struct bl_fi_ep *ep, const struct bl_rma *rma)
{
	struct bl_work work = {.what = BL_WORK_RMA, .rma = *rma};
	int ret = condition(ep, rma->context, &work);

	if (ret)
		return ret;
	return rma->flags & BL_INJECT ? -FI_ENOSYS : bl_fi_queue(ep->domain, &work);
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

ssize_t bl_fi_recvmsg_rare(struct bl_fi_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct bl_recv recv = bl_fi_recv_of(ep, msg);

	if (flags & ~(BL_FI_RECVMSG_FLAGS | FI_MULTI_RECV | FI_TRIGGER))
		return -FI_EBADFLAGS;
	recv.flags |= recv_flags(ep, flags);
	return trigger_recv(ep, &recv);
}

ssize_t bl_fi_trecvmsg_rare(struct bl_fi_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct bl_recv recv = bl_fi_trecv_of(ep, msg);

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
