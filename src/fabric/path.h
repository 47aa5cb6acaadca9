/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * path.h: the data path: sends, receives and completion queue reads. A template
 * rather than a header: path_plain.c and path_locked.c include it once each,
 * with NAME(op), LOCK(object) and UNLOCK(object) defined. Each function is a
 * few instructions around an inline function of the core.
 *
 * Calls without flags of their own come in two forms: a quick one for what every
 * MPI asks for (each operation reports a completion, injects aren't counted),
 * whose constant flags the core's inline functions fold; and one, named _any,
 * that reads them from the endpoint. choose() in ep.c picks for each endpoint.
 */
#include "base/clock.h"
#include "fabric/fabric.h"

#include <sched.h>

/* --- sending --------------------------------------------------------------- */

static ssize_t NAME(send_iov)(struct bl_fi_ep *ep, const struct iovec *iov, size_t count,
			      fi_addr_t dest, uint64_t tag, uint64_t data, void *context,
			      uint64_t flags)
{
	const struct bl_send send = {
		.iov = iov,
		.niov = count,
		.dest = dest,
		.tag = tag,
		.data = data,
		.context = context,
		.flags = flags,
	};
	ssize_t ret;

	if (unlikely(count > BL_IOV_MAX))
		return -FI_EINVAL;
	LOCK(ep);
	ret = bl_send(ep->core, &send);
	UNLOCK(ep);
	return ret;
}

static ssize_t NAME(send_any)(struct bl_fi_ep *ep, const void *buf, size_t len, fi_addr_t dest,
			      uint64_t tag, uint64_t data, void *context, uint64_t flags)
{
	const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

	return NAME(send_iov)(ep, &iov, 1, dest, tag, data, context, flags | ep->tx_flags);
}

/* flags must be a constant. */
bl_always_inline ssize_t NAME(send_buf)(struct fid_ep *fid, const void *buf, size_t len,
					fi_addr_t dest, uint64_t tag, uint64_t data, void *context,
					uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	ssize_t ret;

	LOCK(ep);
	ret = bl_send_buf(ep->core, buf, len, dest, tag, data, context, flags);
	UNLOCK(ep);
	return ret;
}

/* flags must be a constant. */
bl_always_inline ssize_t NAME(inject_buf)(struct fid_ep *fid, const void *buf, size_t len,
					  fi_addr_t dest, uint64_t tag, uint64_t data,
					  uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	ssize_t ret;

	LOCK(ep);
	ret = bl_inject(ep->core, buf, len, dest, tag, data, flags);
	UNLOCK(ep);
	return ret;
}

/* The same where a counter of sends may be bound: libfabric counts injects. */
bl_always_inline ssize_t NAME(inject_count)(struct fid_ep *fid, const void *buf, size_t len,
					    fi_addr_t dest, uint64_t tag, uint64_t data,
					    uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	ssize_t ret;

	LOCK(ep);
	ret = bl_inject_counted(ep->core, buf, len, dest, tag, data, flags);
	UNLOCK(ep);
	return ret;
}

static ssize_t NAME(tsend)(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			   fi_addr_t dest, uint64_t tag, void *context)
{
	return NAME(send_buf)(fid, buf, len, dest, tag, 0, context, BL_TAGGED | BL_COMPLETION);
}

static ssize_t NAME(tsenddata)(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			       uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
	return NAME(send_buf)(fid, buf, len, dest, tag, data, context,
			      BL_TAGGED | BL_COMPLETION | BL_REMOTE_CQ_DATA);
}

static ssize_t NAME(tinject)(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			     uint64_t tag)
{
	return NAME(inject_buf)(fid, buf, len, dest, tag, 0, BL_TAGGED);
}

static ssize_t NAME(tinjectdata)(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				 fi_addr_t dest, uint64_t tag)
{
	return NAME(inject_buf)(fid, buf, len, dest, tag, data, BL_TAGGED | BL_REMOTE_CQ_DATA);
}

static ssize_t NAME(tsend_any)(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			       fi_addr_t dest, uint64_t tag, void *context)
{
	return NAME(send_any)(bl_fi_ep_of(fid), buf, len, dest, tag, 0, context, BL_TAGGED);
}

static ssize_t NAME(tsenddata_any)(struct fid_ep *fid, const void *buf, size_t len, void *desc,
				   uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
	return NAME(send_any)(bl_fi_ep_of(fid), buf, len, dest, tag, data, context,
			      BL_TAGGED | BL_REMOTE_CQ_DATA);
}

static ssize_t NAME(tinject_any)(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
				 uint64_t tag)
{
	return NAME(inject_count)(fid, buf, len, dest, tag, 0, BL_TAGGED);
}

static ssize_t NAME(tinjectdata_any)(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				     fi_addr_t dest, uint64_t tag)
{
	return NAME(inject_count)(fid, buf, len, dest, tag, data, BL_TAGGED | BL_REMOTE_CQ_DATA);
}

static ssize_t NAME(tsendv)(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t dest, uint64_t tag, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return NAME(send_iov)(ep, iov, count, dest, tag, 0, context, ep->tx_flags | BL_TAGGED);
}

static ssize_t NAME(tsendmsg)(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	if (unlikely(flags & ~BL_FI_SENDMSG_FLAGS))
		return bl_fi_tsendmsg_rare(ep, msg, flags);
	return NAME(send_iov)(ep, msg->msg_iov, msg->iov_count, msg->addr, msg->tag, msg->data,
			      msg->context, (flags & ep->tx_mask) | ep->tx_always | BL_TAGGED);
}

static ssize_t NAME(send)(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			  fi_addr_t dest, void *context)
{
	return NAME(send_buf)(fid, buf, len, dest, 0, 0, context, BL_MSG | BL_COMPLETION);
}

static ssize_t NAME(senddata)(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			      uint64_t data, fi_addr_t dest, void *context)
{
	return NAME(send_buf)(fid, buf, len, dest, 0, data, context,
			      BL_MSG | BL_COMPLETION | BL_REMOTE_CQ_DATA);
}

static ssize_t NAME(inject)(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	return NAME(inject_buf)(fid, buf, len, dest, 0, 0, BL_MSG);
}

static ssize_t NAME(injectdata)(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				fi_addr_t dest)
{
	return NAME(inject_buf)(fid, buf, len, dest, 0, data, BL_MSG | BL_REMOTE_CQ_DATA);
}

static ssize_t NAME(msend_any)(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			       fi_addr_t dest, void *context)
{
	return NAME(send_any)(bl_fi_ep_of(fid), buf, len, dest, 0, 0, context, BL_MSG);
}

static ssize_t NAME(senddata_any)(struct fid_ep *fid, const void *buf, size_t len, void *desc,
				  uint64_t data, fi_addr_t dest, void *context)
{
	return NAME(send_any)(bl_fi_ep_of(fid), buf, len, dest, 0, data, context,
			      BL_MSG | BL_REMOTE_CQ_DATA);
}

static ssize_t NAME(inject_any)(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	return NAME(inject_count)(fid, buf, len, dest, 0, 0, BL_MSG);
}

static ssize_t NAME(injectdata_any)(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				    fi_addr_t dest)
{
	return NAME(inject_count)(fid, buf, len, dest, 0, data, BL_MSG | BL_REMOTE_CQ_DATA);
}

static ssize_t NAME(sendv)(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			   fi_addr_t dest, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return NAME(send_iov)(ep, iov, count, dest, 0, 0, context, ep->tx_flags | BL_MSG);
}

static ssize_t NAME(sendmsg)(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	if (unlikely(flags & ~BL_FI_SENDMSG_FLAGS))
		return bl_fi_sendmsg_rare(ep, msg, flags);
	return NAME(send_iov)(ep, msg->msg_iov, msg->iov_count, msg->addr, 0, msg->data,
			      msg->context, (flags & ep->tx_mask) | ep->tx_always | BL_MSG);
}

/* --- receiving ------------------------------------------------------------- */

static ssize_t NAME(recv_iov)(struct bl_fi_ep *ep, const struct iovec *iov, size_t count,
			      fi_addr_t src, uint64_t tag, uint64_t ignore, void *context,
			      uint64_t flags)
{
	const struct bl_recv recv = {
		.iov = iov,
		.niov = count,
		.src = src | ep->any_source,
		.tag = tag,
		.ignore = ignore,
		.context = context,
		.flags = flags,
	};
	ssize_t ret;

	if (unlikely(count > BL_IOV_MAX))
		return -FI_EINVAL;
	LOCK(ep);
	ret = bl_recv(ep->core, &recv);
	UNLOCK(ep);
	return ret;
}

/* flags must be a constant. */
bl_always_inline ssize_t NAME(recv_buf)(struct fid_ep *fid, void *buf, size_t len, fi_addr_t src,
					uint64_t tag, uint64_t ignore, void *context,
					uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	ssize_t ret;

	LOCK(ep);
	ret = bl_recv_buf(ep->core, buf, len, src | ep->any_source, tag, ignore, context, flags);
	UNLOCK(ep);
	return ret;
}

static ssize_t NAME(trecv)(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			   uint64_t tag, uint64_t ignore, void *context)
{
	return NAME(recv_buf)(fid, buf, len, src, tag, ignore, context, BL_TAGGED | BL_COMPLETION);
}

static ssize_t NAME(trecv_any)(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			       uint64_t tag, uint64_t ignore, void *context)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return NAME(recv_iov)(ep, &iov, 1, src, tag, ignore, context,
			      (ep->rx_flags & ~BL_MULTI_RECV) | BL_TAGGED);
}

static ssize_t NAME(trecvv)(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return NAME(recv_iov)(ep, iov, count, src, tag, ignore, context,
			      (ep->rx_flags & ~BL_MULTI_RECV) | BL_TAGGED);
}

/* A peek answers through the queue, whatever completions were asked for. */
static inline uint64_t NAME(recvmsg_flags)(const struct bl_fi_ep *ep, uint64_t flags)
{
	return (flags & ep->rx_mask) | ep->rx_always | (flags & BL_PEEK ? BL_COMPLETION : 0);
}

static ssize_t NAME(trecvmsg)(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	if (unlikely(flags & ~BL_FI_RECVMSG_FLAGS))
		return bl_fi_trecvmsg_rare(ep, msg, flags);
	return NAME(recv_iov)(ep, msg->msg_iov, msg->iov_count, msg->addr, msg->tag, msg->ignore,
			      msg->context, NAME(recvmsg_flags)(ep, flags) | BL_TAGGED);
}

static ssize_t NAME(recv)(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			  void *context)
{
	return NAME(recv_buf)(fid, buf, len, src, 0, 0, context, BL_MSG | BL_COMPLETION);
}

static ssize_t NAME(recv_any)(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			      void *context)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return NAME(recv_iov)(ep, &iov, 1, src, 0, 0, context, ep->rx_flags | BL_MSG);
}

static ssize_t NAME(recvv)(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			   fi_addr_t src, void *context)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return NAME(recv_iov)(ep, iov, count, src, 0, 0, context, ep->rx_flags | BL_MSG);
}

static ssize_t NAME(recvmsg)(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	if (unlikely(flags & ~(BL_FI_RECVMSG_FLAGS | FI_MULTI_RECV)))
		return bl_fi_recvmsg_rare(ep, msg, flags);
	return NAME(recv_iov)(ep, msg->msg_iov, msg->iov_count, msg->addr, 0, 0, msg->context,
			      NAME(recvmsg_flags)(ep, flags) | BL_MSG);
}

/* --- completion queue ------------------------------------------------------ */

/* What every MPI polls with. flatten: bl_cq_read becomes part of it, with the
 * entry's size and the missing source folded in. */
__attribute__((flatten)) static ssize_t NAME(cq_read_tagged)(struct fid_cq *fid, void *buf,
							     size_t count)
{
	struct bl_fi_cq *cq = bl_fi_cq_of(fid);
	ssize_t ret;

	LOCK(cq);
	ret = bl_cq_read(cq->core, buf, count, sizeof(struct fi_cq_tagged_entry), NULL);
	UNLOCK(cq);
	return ret;
}

static ssize_t NAME(cq_readfrom)(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct bl_fi_cq *cq = bl_fi_cq_of(fid);
	ssize_t ret;

	LOCK(cq);
	ret = bl_cq_read(cq->core, buf, count, cq->entry, src);
	UNLOCK(cq);
	return ret;
}

static ssize_t NAME(cq_read_any)(struct fid_cq *fid, void *buf, size_t count)
{
	return NAME(cq_readfrom)(fid, buf, count, NULL);
}

static ssize_t NAME(cq_readerr)(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	struct bl_fi_cq *cq = bl_fi_cq_of(fid);
	struct bl_comp_err err;
	ssize_t ret;

	LOCK(cq);
	ret = bl_cq_readerr(cq->core, &err);
	UNLOCK(cq);
	return ret == 1 ? bl_fi_cq_error(cq, &err, entry) : ret;
}

/* Sleep until something comes, or the deadline. The lock is not held meanwhile. */
static void NAME(cq_sleep)(struct bl_fi_cq *cq, uint64_t most)
{
	struct bl_waiter *w = &cq->core->wait;
	struct bl_sleep sleep;
	bool asleep;

	LOCK(cq);
	asleep = bl_wait_doze(w, &sleep);
	UNLOCK(cq);
	if (!asleep) {
		if (sleep.others) /* let it rise */
			sched_yield();
		return;
	}
	/* seq_cst: pairs with bl_fi_cq_signal, which finds us asleep or is seen here */
	if (!atomic_load_explicit(&cq->signalled, memory_order_seq_cst))
		bl_wait_sleep(&sleep, most);
	LOCK(cq);
	bl_wait_rise(w, &sleep);
	UNLOCK(cq);
}

/* What a read of nothing waits for: 0 or -FI_EAVAIL; -FI_EAGAIN: there is nothing. */
static ssize_t NAME(cq_look)(struct bl_fi_cq *cq)
{
	const struct bl_cq *core = cq->core;
	ssize_t ret = -FI_EAGAIN;

	LOCK(cq);
	if (core->head != core->tail)
		ret = core->ring[core->head & core->mask].error ? -FI_EAVAIL : 0;
	UNLOCK(cq);
	return ret;
}

/*
 * A waiting read polls for a while and then sleeps; whoever sends wakes it. One of nothing waits
 * until there is something.
 */
static ssize_t NAME(cq_sreadfrom)(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
				  const void *cond, int timeout)
{
	struct bl_fi_cq *cq = bl_fi_cq_of(fid);
	uint64_t start = 0, deadline = UINT64_MAX, now;

	for (;;) {
		ssize_t ret = NAME(cq_readfrom)(fid, buf, count, src);

		if (ret == -FI_EAGAIN && unlikely(!count))
			ret = NAME(cq_look)(cq);
		if (ret != -FI_EAGAIN)
			return ret;
		/* acquire: pairs with the store in bl_fi_cq_signal */
		if (atomic_exchange_explicit(&cq->signalled, 0, memory_order_acquire))
			return -FI_EAGAIN;
		now = bl_clock_ns();
		if (!start) {
			start = now;
			if (timeout >= 0)
				deadline = now + (uint64_t)timeout * 1000000u;
		}
		if (now >= deadline)
			return -FI_EAGAIN;
		if (now - start >= bl_wait_spin_ns())
			NAME(cq_sleep)(cq, deadline - now);
	}
}

static ssize_t NAME(cq_sread)(struct fid_cq *fid, void *buf, size_t count, const void *cond,
			      int timeout)
{
	return NAME(cq_sreadfrom)(fid, buf, count, NULL, cond, timeout);
}

struct bl_fi_path NAME(bl_fi_path) = {
	.tagged =
		{
			.size = sizeof(struct fi_ops_tagged),
			.recv = NAME(trecv),
			.recvv = NAME(trecvv),
			.recvmsg = NAME(trecvmsg),
			.send = NAME(tsend),
			.sendv = NAME(tsendv),
			.sendmsg = NAME(tsendmsg),
			.inject = NAME(tinject),
			.senddata = NAME(tsenddata),
			.injectdata = NAME(tinjectdata),
		},
	.msg =
		{
			.size = sizeof(struct fi_ops_msg),
			.recv = NAME(recv),
			.recvv = NAME(recvv),
			.recvmsg = NAME(recvmsg),
			.send = NAME(send),
			.sendv = NAME(sendv),
			.sendmsg = NAME(sendmsg),
			.inject = NAME(inject),
			.senddata = NAME(senddata),
			.injectdata = NAME(injectdata),
		},
	.tagged_any =
		{
			.size = sizeof(struct fi_ops_tagged),
			.recv = NAME(trecv_any),
			.recvv = NAME(trecvv),
			.recvmsg = NAME(trecvmsg),
			.send = NAME(tsend_any),
			.sendv = NAME(tsendv),
			.sendmsg = NAME(tsendmsg),
			.inject = NAME(tinject_any),
			.senddata = NAME(tsenddata_any),
			.injectdata = NAME(tinjectdata_any),
		},
	.msg_any =
		{
			.size = sizeof(struct fi_ops_msg),
			.recv = NAME(recv_any),
			.recvv = NAME(recvv),
			.recvmsg = NAME(recvmsg),
			.send = NAME(msend_any),
			.sendv = NAME(sendv),
			.sendmsg = NAME(sendmsg),
			.inject = NAME(inject_any),
			.senddata = NAME(senddata_any),
			.injectdata = NAME(injectdata_any),
		},
	.cq_tagged =
		{
			.size = sizeof(struct fi_ops_cq),
			.read = NAME(cq_read_tagged),
			.readfrom = NAME(cq_readfrom),
			.readerr = NAME(cq_readerr),
			.sread = NAME(cq_sread),
			.sreadfrom = NAME(cq_sreadfrom),
			.signal = bl_fi_cq_signal,
			.strerror = bl_fi_cq_strerror,
		},
	.cq_any =
		{
			.size = sizeof(struct fi_ops_cq),
			.read = NAME(cq_read_any),
			.readfrom = NAME(cq_readfrom),
			.readerr = NAME(cq_readerr),
			.sread = NAME(cq_sread),
			.sreadfrom = NAME(cq_sreadfrom),
			.signal = bl_fi_cq_signal,
			.strerror = bl_fi_cq_strerror,
		},
};
