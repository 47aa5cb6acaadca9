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

/* --- remote memory access -------------------------------------------------------- */

static ssize_t no_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
		       uint64_t addr, uint64_t key, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_rma_iov(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t peer, uint64_t addr, uint64_t key, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_rma_msg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return -FI_ENOSYS;
}

static ssize_t no_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
			uint64_t addr, uint64_t key, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_inject_write(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
			       uint64_t addr, uint64_t key)
{
	return -FI_ENOSYS;
}

static ssize_t no_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			    void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_inject_writedata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				   fi_addr_t dest, uint64_t addr, uint64_t key)
{
	return -FI_ENOSYS;
}

struct fi_ops_rma bl_fi_no_rma = {
	.size = sizeof(struct fi_ops_rma),
	.read = no_read,
	.readv = no_rma_iov,
	.readmsg = no_rma_msg,
	.write = no_write,
	.writev = no_rma_iov,
	.writemsg = no_rma_msg,
	.inject = no_inject_write,
	.writedata = no_writedata,
	.injectdata = no_inject_writedata,
};

/* --- atomics ------------------------------------------------------------------------ */

static ssize_t no_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			 fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			 enum fi_op op, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_atomicv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			  fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			  enum fi_op op, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return -FI_ENOSYS;
}

static ssize_t no_inject_atomic(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest,
				uint64_t addr, uint64_t key, enum fi_datatype datatype,
				enum fi_op op)
{
	return -FI_ENOSYS;
}

static ssize_t no_fetch(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
			enum fi_datatype datatype, enum fi_op op, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_fetchv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			 struct fi_ioc *resultv, void **result_desc, size_t result_count,
			 fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			 enum fi_op op, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_fetchmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
			   struct fi_ioc *resultv, void **result_desc, size_t result_count,
			   uint64_t flags)
{
	return -FI_ENOSYS;
}

static ssize_t no_compare(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			  const void *compare, void *compare_desc, void *result, void *result_desc,
			  fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			  enum fi_op op, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_comparev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			   const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
			   struct fi_ioc *resultv, void **result_desc, size_t result_count,
			   fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
			   enum fi_op op, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_comparemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
			     const struct fi_ioc *comparev, void **compare_desc,
			     size_t compare_count, struct fi_ioc *resultv, void **result_desc,
			     size_t result_count, uint64_t flags)
{
	return -FI_ENOSYS;
}

/* Not ENOSYS: the question has an answer, no datatype and operation is valid. */
static int none_valid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return -FI_EOPNOTSUPP;
}

struct fi_ops_atomic bl_fi_no_atomic = {
	.size = sizeof(struct fi_ops_atomic),
	.write = no_atomic,
	.writev = no_atomicv,
	.writemsg = no_atomicmsg,
	.inject = no_inject_atomic,
	.readwrite = no_fetch,
	.readwritev = no_fetchv,
	.readwritemsg = no_fetchmsg,
	.compwrite = no_compare,
	.compwritev = no_comparev,
	.compwritemsg = no_comparemsg,
	.writevalid = none_valid,
	.readwritevalid = none_valid,
	.compwritevalid = none_valid,
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
