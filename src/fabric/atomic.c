/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic.c: libfabric's calls for atomic operations on remote memory, which count in
 * elements; core/atomic_ops.h counts in bytes. One table for both threading levels.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric/defer.h"

#define ATOMICMSG_FLAGS                                                                            \
	(FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT | FI_INJECT_COMPLETE |                     \
	 FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_TRIGGER)

/* One call, with all lengths in elements. */
struct call {
	enum bl_rma_what what;
	enum fi_datatype type;
	enum fi_op op;
	const struct fi_ioc *operand, *compare, *result;
	size_t noperand, ncompare, nresult;
	const struct fi_rma_ioc *place;
	size_t nplace;
	fi_addr_t dest;
	uint64_t data, flags;
	void *context;
	struct bl_work *work; /* to be deferred; NULL: not */
};

/* What the core is asked for, in bytes; on the stack where it is few. */
struct pieces {
	struct iovec *iov;
	struct bl_rma_place *place;
	struct iovec few[3 * BL_IOV_MAX];
	struct bl_rma_place few_places[BL_IOV_MAX];
	void *many;
};

static bool is_few(const struct call *call)
{
	return call->nplace <= BL_IOV_MAX && call->noperand <= BL_IOV_MAX &&
	       call->ncompare <= BL_IOV_MAX && call->nresult <= BL_IOV_MAX;
}

/* 0; -EINVAL: too many pieces; -EAGAIN: no memory for them. */
static int make_room(struct pieces *to, const struct call *call)
{
	size_t n = call->noperand + call->ncompare + call->nresult;

	to->iov = to->few;
	to->place = to->few_places;
	to->many = NULL;
	if (likely(is_few(call)))
		return 0;
	if (call->nplace > BL_RMA_IOV_MAX || n > 3 * (size_t)BL_RMA_IOV_MAX)
		return -FI_EINVAL;
	to->many = malloc(n * sizeof *to->iov + call->nplace * sizeof *to->place);
	if (!to->many)
		return -FI_EAGAIN;
	to->place = to->many;
	to->iov = (struct iovec *)(to->place + call->nplace);
	return 0;
}

/* False: a length that no memory has. */
static bool to_bytes(struct iovec *to, const struct fi_ioc *from, size_t n, size_t size)
{
	for (size_t i = 0; i < n; i++) {
		to[i].iov_base = from[i].addr;
		if (__builtin_mul_overflow(from[i].count, size, &to[i].iov_len))
			return false;
	}
	return true;
}

static bool places_to_bytes(struct bl_rma_place *place, const struct call *call, size_t size)
{
	for (size_t i = 0; i < call->nplace; i++) {
		place[i].addr = call->place[i].addr;
		place[i].key = call->place[i].key;
		if (__builtin_mul_overflow(call->place[i].count, size, &place[i].len))
			return false;
	}
	return true;
}

static ssize_t begin_in(struct bl_fi_ep *ep, const struct call *call, const struct pieces *p)
{
	size_t size = bl_atomic_size(call->type);
	struct iovec *compare = p->iov + call->noperand, *result = compare + call->ncompare;
	const struct bl_rma rma = {
		.what = call->what,
		.type = (uint8_t)call->type,
		.op = (uint8_t)call->op,
		.iov = p->iov,
		.niov = call->op == FI_ATOMIC_READ ? 0 : call->noperand,
		.compare = compare,
		.ncompare = call->ncompare,
		.result = result,
		.nresult = call->nresult,
		.place = p->place,
		.nplace = call->nplace,
		.dest = call->dest,
		.data = call->data,
		.context = call->context,
		.flags = call->flags & ~BL_TRIGGER,
	};
	ssize_t ret;

	if (!to_bytes(p->iov, call->operand, rma.niov, size) ||
	    !to_bytes(compare, call->compare, rma.ncompare, size) ||
	    !to_bytes(result, call->result, rma.nresult, size) ||
	    !places_to_bytes(p->place, call, size))
		return -FI_EINVAL;
	if (unlikely(call->work != NULL))
		return bl_fi_defer_rma(ep, &rma, call->work);
	if (unlikely(call->flags & BL_TRIGGER))
		return bl_fi_trigger_rma(ep, &rma);
	bl_fi_enter(ep->domain);
	ret = bl_rma(ep->core, &rma);
	bl_fi_leave(ep->domain);
	return ret;
}

static ssize_t begin(struct fid_ep *fid, const struct call *call)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);
	struct pieces pieces;
	ssize_t ret;

	if (!ep->atomic || !bl_atomic_valid(call->what, call->type, call->op))
		return -FI_EOPNOTSUPP;
	ret = make_room(&pieces, call);
	if (ret)
		return ret;
	ret = begin_in(ep, call, &pieces);
	free(pieces.many);
	return ret;
}

static uint64_t usual(struct fid_ep *fid)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return (ep->tx_flags & (BL_COMPLETION | BL_INJECT)) | ep->tx_trigger;
}

static uint64_t asked(struct fid_ep *fid, uint64_t flags)
{
	struct bl_fi_ep *ep = bl_fi_ep_of(fid);

	return (flags & (ep->tx_mask | BL_FENCE | BL_TRIGGER) &
		~(BL_DELIVERY_COMPLETE | BL_REMOTE_CQ_DATA)) |
	       ep->tx_always;
}

static size_t elements(const struct fi_ioc *ioc, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ioc[i].count;
	return count;
}

/* --- plain ------------------------------------------------------------------- */

static ssize_t plain(struct fid_ep *ep, const struct fi_ioc *ioc, size_t n, fi_addr_t dest,
		     uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op,
		     void *context, uint64_t flags)
{
	const struct fi_rma_ioc place = {addr, elements(ioc, n), key};
	const struct call call = {
		.what = BL_RMA_ATOMIC,
		.type = type,
		.op = op,
		.operand = ioc,
		.noperand = n,
		.place = &place,
		.nplace = 1,
		.dest = dest,
		.context = context,
		.flags = flags,
	};

	return begin(ep, &call);
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			    fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type,
			    enum fi_op op, void *context)
{
	const struct fi_ioc ioc = {(void *)buf, count};

	return plain(ep, &ioc, 1, dest, addr, key, type, op, context, usual(ep));
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			     fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type,
			     enum fi_op op, void *context)
{
	return plain(ep, iov, count, dest, addr, key, type, op, context, usual(ep));
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest,
			     uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op)
{
	const struct fi_ioc ioc = {(void *)buf, count};

	return plain(ep, &ioc, 1, dest, addr, key, type, op, NULL, BL_INJECT);
}

static struct call call_of(const struct fi_msg_atomic *msg, enum bl_rma_what what, uint64_t flags)
{
	return (struct call){
		.what = what,
		.type = msg->datatype,
		.op = msg->op,
		.operand = msg->msg_iov,
		.noperand = msg->iov_count,
		.place = msg->rma_iov,
		.nplace = msg->rma_iov_count,
		.dest = msg->addr,
		.data = msg->data,
		.context = msg->context,
		.flags = flags,
	};
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct call call = call_of(msg, BL_RMA_ATOMIC, 0);

	if (flags & ~(ATOMICMSG_FLAGS | FI_REMOTE_CQ_DATA))
		return -FI_EBADFLAGS;
	call.flags = asked(ep, flags) | (flags & FI_REMOTE_CQ_DATA);
	return begin(ep, &call);
}

/* --- with the old values, and with a comparison -------------------------------- */

static ssize_t fetch_msg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
			 const struct fi_ioc *compare, size_t ncompare, const struct fi_ioc *result,
			 size_t nresult, enum bl_rma_what what, uint64_t flags)
{
	struct call call = call_of(msg, what, flags);

	call.compare = compare;
	call.ncompare = ncompare;
	call.result = result;
	call.nresult = nresult;
	return begin(ep, &call);
}

static ssize_t fetchv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
		      struct fi_ioc *resultv, void **result_desc, size_t result_count,
		      fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type,
		      enum fi_op op, void *context)
{
	const struct fi_rma_ioc place = {addr, elements(resultv, result_count), key};
	const struct fi_msg_atomic msg = {
		.msg_iov = iov,
		.iov_count = count,
		.addr = dest,
		.rma_iov = &place,
		.rma_iov_count = 1,
		.datatype = type,
		.op = op,
		.context = context,
	};

	return fetch_msg(ep, &msg, NULL, 0, resultv, result_count, BL_RMA_FETCH, usual(ep));
}

static ssize_t fetch(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
		     void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
		     enum fi_datatype type, enum fi_op op, void *context)
{
	const struct fi_ioc ioc = {(void *)buf, count};
	struct fi_ioc resultv = {result, count};

	return fetchv(ep, &ioc, NULL, 1, &resultv, NULL, 1, dest, addr, key, type, op, context);
}

static ssize_t fetchmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
			void **result_desc, size_t result_count, uint64_t flags)
{
	if (flags & ~ATOMICMSG_FLAGS)
		return -FI_EBADFLAGS;
	return fetch_msg(ep, msg, NULL, 0, resultv, result_count, BL_RMA_FETCH, asked(ep, flags));
}

static ssize_t comparev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			const struct fi_ioc *compare, void **compare_desc, size_t compare_count,
			struct fi_ioc *resultv, void **result_desc, size_t result_count,
			fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type,
			enum fi_op op, void *context)
{
	const struct fi_rma_ioc place = {addr, elements(iov, count), key};
	const struct fi_msg_atomic msg = {
		.msg_iov = iov,
		.iov_count = count,
		.addr = dest,
		.rma_iov = &place,
		.rma_iov_count = 1,
		.datatype = type,
		.op = op,
		.context = context,
	};

	return fetch_msg(ep, &msg, compare, compare_count, resultv, result_count, BL_RMA_COMPARE,
			 usual(ep));
}

static ssize_t compare(struct fid_ep *ep, const void *buf, size_t count, void *desc,
		       const void *with, void *compare_desc, void *result, void *result_desc,
		       fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type,
		       enum fi_op op, void *context)
{
	const struct fi_ioc ioc = {(void *)buf, count}, withv = {(void *)with, count};
	struct fi_ioc resultv = {result, count};

	return comparev(ep, &ioc, NULL, 1, &withv, NULL, 1, &resultv, NULL, 1, dest, addr, key,
			type, op, context);
}

static ssize_t comparemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
			  const struct fi_ioc *with, void **compare_desc, size_t compare_count,
			  struct fi_ioc *resultv, void **result_desc, size_t result_count,
			  uint64_t flags)
{
	if (flags & ~ATOMICMSG_FLAGS)
		return -FI_EBADFLAGS;
	return fetch_msg(ep, msg, with, compare_count, resultv, result_count, BL_RMA_COMPARE,
			 asked(ep, flags));
}

/* --- deferred ------------------------------------------------------------------ */

#define DEFERRED_FLAGS (ATOMICMSG_FLAGS & ~(FI_INJECT | FI_TRIGGER))

ssize_t bl_fi_atomic_defer(const struct fi_op_atomic *op, struct bl_work *work)
{
	struct call call = call_of(&op->msg, BL_RMA_ATOMIC, op->flags);

	if (op->flags & ~(DEFERRED_FLAGS | FI_REMOTE_CQ_DATA))
		return -FI_ENOSYS;
	call.work = work;
	return begin(op->ep, &call);
}

ssize_t bl_fi_fetch_defer(const struct fi_op_fetch_atomic *op, struct bl_work *work)
{
	struct call call = call_of(&op->msg, BL_RMA_FETCH, op->flags);

	if (op->flags & ~DEFERRED_FLAGS)
		return -FI_ENOSYS;
	call.result = op->fetch.msg_iov;
	call.nresult = op->fetch.iov_count;
	call.work = work;
	return begin(op->ep, &call);
}

ssize_t bl_fi_compare_defer(const struct fi_op_compare_atomic *op, struct bl_work *work)
{
	struct call call = call_of(&op->msg, BL_RMA_COMPARE, op->flags);

	if (op->flags & ~DEFERRED_FLAGS)
		return -FI_ENOSYS;
	call.compare = op->compare.msg_iov;
	call.ncompare = op->compare.iov_count;
	call.result = op->fetch.msg_iov;
	call.nresult = op->fetch.iov_count;
	call.work = work;
	return begin(op->ep, &call);
}

/* --- what there is ------------------------------------------------------------ */

/* More are done as well, but programs keep it in an int. */
#define ELEMENTS_MOST ((size_t)1 << 30)

static int valid(enum bl_rma_what what, enum fi_datatype type, enum fi_op op, size_t *count)
{
	if (!bl_atomic_valid(what, type, op))
		return -FI_EOPNOTSUPP;
	*count = bl_min(BL_FI_MAX_MSG / bl_atomic_size(type), ELEMENTS_MOST);
	return 0;
}

static int writevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	return valid(BL_RMA_ATOMIC, type, op, count);
}

static int readwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	return valid(BL_RMA_FETCH, type, op, count);
}

static int compwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	return valid(BL_RMA_COMPARE, type, op, count);
}

int bl_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
		       struct fi_atomic_attr *attr, uint64_t flags)
{
	enum bl_rma_what what = flags & FI_COMPARE_ATOMIC ? BL_RMA_COMPARE
				: flags & FI_FETCH_ATOMIC ? BL_RMA_FETCH
							  : BL_RMA_ATOMIC;
	int ret;

	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED) ||
	    (flags & FI_FETCH_ATOMIC && flags & FI_COMPARE_ATOMIC))
		return -FI_EBADFLAGS;
	if (flags & FI_TAGGED)
		return -FI_EOPNOTSUPP;
	ret = valid(what, type, op, &attr->count);
	if (!ret)
		attr->size = bl_atomic_size(type);
	return ret;
}

struct fi_ops_atomic bl_fi_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = fetch,
	.readwritev = fetchv,
	.readwritemsg = fetchmsg,
	.compwrite = compare,
	.compwritev = comparev,
	.compwritemsg = comparemsg,
	.writevalid = writevalid,
	.readwritevalid = readwritevalid,
	.compwritevalid = compwritevalid,
};
