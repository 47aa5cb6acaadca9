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
