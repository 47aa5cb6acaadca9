/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * refuse.c: the operations of libfabric that this provider doesn't have. MPI
 * libraries call through some of these tables without looking at capabilities
 * first, so every table is there and every entry answers -FI_ENOSYS, each with
 * the signature of its own: a call through a mismatched pointer is undefined.
 */
#include "fabric/fabric.h"

int bl_fi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return -FI_ENOSYS;
}

int bl_fi_no_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

int bl_fi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return -FI_ENOSYS;
}

int bl_fi_no_tostr(const struct fid *fid, char *buf, size_t len)
{
	return -FI_ENOSYS;
}

int bl_fi_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	return -FI_ENOSYS;
}

/* --- messages ------------------------------------------------------------------------ */

static ssize_t no_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
		       void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			fi_addr_t src, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_msg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return -FI_ENOSYS;
}

static ssize_t no_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
		       void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest)
{
	return -FI_ENOSYS;
}

static ssize_t no_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			   uint64_t data, fi_addr_t dest, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			     fi_addr_t dest)
{
	return -FI_ENOSYS;
}

struct fi_ops_msg bl_fi_no_msg = {
	.size = sizeof(struct fi_ops_msg),
	.recv = no_recv,
	.recvv = no_recvv,
	.recvmsg = no_msg,
	.send = no_send,
	.sendv = no_recvv,
	.sendmsg = no_msg,
	.inject = no_inject,
	.senddata = no_senddata,
	.injectdata = no_injectdata,
};

static ssize_t no_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
			uint64_t tag, uint64_t ignore, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_tmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return -FI_ENOSYS;
}

static ssize_t no_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
			uint64_t tag, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, uint64_t tag, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t tag)
{
	return -FI_ENOSYS;
}

static ssize_t no_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest, uint64_t tag)
{
	return -FI_ENOSYS;
}

struct fi_ops_tagged bl_fi_no_tagged = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = no_trecv,
	.recvv = no_trecvv,
	.recvmsg = no_tmsg,
	.send = no_tsend,
	.sendv = no_tsendv,
	.sendmsg = no_tmsg,
	.inject = no_tinject,
	.senddata = no_tsenddata,
	.injectdata = no_tinjectdata,
};

/* --- endpoints ------------------------------------------------------------------------ */

static ssize_t no_cancel(fid_t fid, void *context)
{
	return -FI_ENOSYS;
}

static int no_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	return -FI_ENOSYS;
}

static int no_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	return -FI_ENOSYS;
}

int bl_fi_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
		    void *context)
{
	return -FI_ENOSYS;
}

int bl_fi_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
		    void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_size_left(struct fid_ep *ep)
{
	return -FI_ENOSYS;
}

struct fi_ops_ep bl_fi_no_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = no_cancel,
	.getopt = no_getopt,
	.setopt = no_setopt,
	.tx_ctx = bl_fi_no_tx_ctx,
	.rx_ctx = bl_fi_no_rx_ctx,
	.rx_size_left = no_size_left,
	.tx_size_left = no_size_left,
};

/* --- collectives -------------------------------------------------------------------- */

static ssize_t no_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
			    fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
			    uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_allto(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype,
			uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			    void *result, void *result_desc, fi_addr_t coll_addr,
			    enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			 void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr,
			 enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_rooted(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			 void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr,
			 enum fi_datatype datatype, uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_coll_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
			   struct fi_ioc *resultv, void **result_desc, size_t result_count,
			   uint64_t flags)
{
	return -FI_ENOSYS;
}

struct fi_ops_collective bl_fi_no_collective = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = no_barrier,
	.broadcast = no_broadcast,
	.alltoall = no_allto,
	.allreduce = no_allreduce,
	.allgather = no_allto,
	.reduce_scatter = no_allreduce,
	.reduce = no_reduce,
	.scatter = no_rooted,
	.gather = no_rooted,
	.msg = no_coll_msg,
	.barrier2 = no_barrier2,
};
