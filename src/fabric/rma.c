/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma.c: libfabric's calls for reading and writing remote memory; endpoint/rma.h does
 * it. One table for both threading levels: beside a system call, asking whether to
 * lock costs nothing.
 */
#include "fabric/defer.h"

#define READMSG_FLAGS                                                                              \
	(FI_COMPLETION | FI_MORE | FI_FENCE | FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE |        \
	 FI_MATCH_COMPLETE | FI_TRIGGER)
#define WRITEMSG_FLAGS (READMSG_FLAGS | FI_INJECT | FI_INJECT_COMPLETE | FI_REMOTE_CQ_DATA)

/* A write is where the target finds it when it completes, however it was asked for:
 * the flags that ask for more than that change nothing. */
static ssize_t begin(struct fid_ep *fid, struct bl_rma *rma, uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	ssize_t ret;

	if (unlikely(!ep->rma))
		return -FI_EOPNOTSUPP;
	rma->flags = flags & ~BL_TRIGGER;
	if (unlikely(flags & BL_TRIGGER))
		return bl_fi_trigger_rma(ep, rma);
	bl_fi_enter(ep->domain);
	ret = bl_rma(ep->core, rma);
	bl_fi_leave(ep->domain);
	return ret;
}

/* What calls without flags of their own ask for. */
static uint64_t usual(struct fid_ep *fid, uint64_t mask)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return (ep->tx_flags & mask) | ep->tx_trigger;
}

/* What fi_readmsg and fi_writemsg ask for. */
static uint64_t asked(struct fid_ep *fid, uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return (flags & (ep->tx_mask | BL_FENCE | BL_TRIGGER | BL_MORE) & ~BL_DELIVERY_COMPLETE) |
	       ep->tx_always;
}

static ssize_t rma_iov(struct fid_ep *fid, enum bl_rma_what what, const struct iovec *iov,
		       size_t count, uint64_t data, fi_addr_t peer, uint64_t addr, uint64_t key,
		       void *context, uint64_t flags)
{
	const struct bl_rma_place place = {
		addr, count <= BL_RMA_IOV_MAX ? bl_iov_len_checked(iov, count) : 0, key};
	struct bl_rma rma = {
		.what = what,
		.iov = iov,
		.niov = count,
		.place = &place,
		.nplace = 1,
		.dest = peer,
		.data = data,
		.context = context,
	};

	return begin(fid, &rma, flags);
}

static struct bl_rma rma_of(enum bl_rma_what what, const struct fi_msg_rma *msg)
{
	return (struct bl_rma){
		.what = what,
		.iov = msg->msg_iov,
		.niov = msg->iov_count,
		.place = (const struct bl_rma_place *)msg->rma_iov,
		.nplace = msg->rma_iov_count,
		.dest = msg->addr,
		.data = msg->data,
		.context = msg->context,
	};
}

static ssize_t rma_msg(struct fid_ep *fid, enum bl_rma_what what, const struct fi_msg_rma *msg,
		       uint64_t flags)
{
	struct bl_rma rma = rma_of(what, msg);

	return begin(fid, &rma, asked(fid, flags));
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	return rma_iov(ep, BL_RMA_READ, iov, count, 0, src, addr, key, context,
		       usual(ep, BL_COMPLETION));
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
			uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {buf, len};

	return rma_readv(ep, &iov, NULL, 1, src, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	if (flags & ~READMSG_FLAGS)
		return -FI_EBADFLAGS;
	return rma_msg(ep, BL_RMA_READ, msg, flags);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	return rma_iov(ep, BL_RMA_WRITE, iov, count, 0, dest, addr, key, context,
		       usual(ep, BL_COMPLETION | BL_INJECT));
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
			 uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {(void *)buf, len};

	return rma_writev(ep, &iov, NULL, 1, dest, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	if (flags & ~WRITEMSG_FLAGS)
		return -FI_EBADFLAGS;
	return rma_msg(ep, BL_RMA_WRITE, msg, flags);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t addr, uint64_t key)
{
	const struct iovec iov = {(void *)buf, len};

	return rma_iov(ep, BL_RMA_WRITE, &iov, 1, 0, dest, addr, key, NULL, BL_INJECT);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	const struct iovec iov = {(void *)buf, len};

	return rma_iov(ep, BL_RMA_WRITE, &iov, 1, data, dest, addr, key, context,
		       usual(ep, BL_COMPLETION | BL_INJECT) | BL_REMOTE_CQ_DATA);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest, uint64_t addr, uint64_t key)
{
	const struct iovec iov = {(void *)buf, len};

	return rma_iov(ep, BL_RMA_WRITE, &iov, 1, data, dest, addr, key, NULL,
		       BL_INJECT | BL_REMOTE_CQ_DATA);
}

ssize_t bl_fi_rma_defer(const struct fi_op_rma *op, bool read, struct bl_work *work)
{
	struct bl_rma rma = rma_of(read ? BL_RMA_READ : BL_RMA_WRITE, &op->msg);
	struct bl_fi_ep *ep = bl_fi_ep_of(op->ep);

	if (!ep->rma ||
	    op->flags & ~((read ? READMSG_FLAGS : WRITEMSG_FLAGS) & ~(FI_INJECT | FI_TRIGGER)))
		return -FI_ENOSYS;
	rma.flags = op->flags;
	return bl_fi_defer_rma(ep, &rma, work);
}

struct fi_ops_rma bl_fi_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
