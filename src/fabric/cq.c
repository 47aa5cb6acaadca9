/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cq.c: completion queues: opening, closing, and the parts of their operations
 * that the two halves of path.h share. The queue itself is the core's.
 */
#include "fabric/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wait/yield_hook.h"

ssize_t bl_fi_cq_error(struct bl_fi_cq *cq, const struct bl_comp_err *from,
		       struct fi_cq_err_entry *to)
{
	to->op_context = from->comp.context;
	to->flags = from->comp.flags;
	to->len = from->comp.len;
	to->buf = from->comp.buf;
	to->data = from->comp.data;
	to->tag = from->comp.tag;
	to->olen = from->olen;
	to->err = from->err;
	to->prov_errno = from->err;
	/* There is never more to say. Before API 1.5 the structure ended with
	 * err_data, which the provider set; since then the size is the
	 * application's on entry, ours on return. */
	if (cq->domain->fabric->fid.api_version >= FI_VERSION(1, 5))
		to->err_data_size = 0;
	else
		to->err_data = NULL;
	return 1;
}

int bl_fi_cq_signal(struct fid_cq *fid)
{
	struct bl_fi_cq *cq = bl_fi_cq_of(fid);

	/* seq_cst: pairs with the waiting read, path.h */
	atomic_store_explicit(&cq->signalled, 1, memory_order_seq_cst);
	bl_fi_enter(cq->domain); /* who sleeps doesn't hold it */
	bl_wait_interrupt(&cq->core->wait);
	bl_fi_leave(cq->domain);
	return 0;
}

const char *bl_fi_cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			      size_t len)
{
	const char *text;

	switch (prov_errno) {
	case FI_ETRUNC:
		text = "message longer than the receive buffer";
		break;
	case FI_ENOMSG:
		text = "no matching message";
		break;
	case FI_ECANCELED:
		text = "operation cancelled";
		break;
	default:
		text = strerror(prov_errno);
	}
	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

static int cq_close(struct fid *fid)
{
	struct bl_fi_cq *cq = bl_containerof(fid, struct bl_fi_cq, fid.fid);
	struct bl_fi_domain *domain = cq->domain;
	int ret;

	if (cq->core->users)
		return -FI_EBUSY;
	bl_fi_waitset_remove(cq->waitset, fid, cq->core->wait.epoll);
	bl_fi_enter(domain);
	ret = bl_cq_close(cq->core);
	bl_fi_leave(domain);
	if (!ret)
		free(cq);
	return ret;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct bl_fi_cq *cq = bl_containerof(fid, struct bl_fi_cq, fid.fid);

	return bl_fi_wait_control(&cq->core->wait, cq->wait, command, arg);
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = bl_fi_no_bind,
	.control = cq_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

/* Bytes of one completion; 0 if there is no such format. */
static size_t entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_UNSPEC: /* the shortest can't overrun the caller's array */
	case FI_CQ_FORMAT_CONTEXT:
		return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	}
	return 0;
}

int bl_fi_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
		  void *context)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid);
	struct bl_fi_path *path = domain->path;
	enum fi_cq_format format = attr ? attr->format : FI_CQ_FORMAT_UNSPEC;
	enum fi_wait_obj wait = attr ? attr->wait_obj : FI_WAIT_NONE;
	size_t entry = entry_size(format);
	struct bl_fi_cq *cq;
	int ret;

	if (!entry)
		return -FI_EINVAL;
	if (attr && attr->flags & ~FI_AFFINITY)
		return bl_fi_refuse(-FI_ENOSYS, FI_LOG_CQ,
				    "flags %#llx of a completion queue are not offered",
				    (unsigned long long)attr->flags);
	/* A condition is a hint, which needn't be met: any completion ends a wait. */
	if (wait != FI_WAIT_NONE && (unsigned)attr->wait_cond > FI_CQ_COND_THRESHOLD)
		return bl_fi_refuse(-FI_EINVAL, FI_LOG_CQ, "wait condition %d is unknown",
				    (int)attr->wait_cond);
	ret = bl_fi_check_wait(wait, FI_LOG_CQ);
	if (ret)
		return ret;
	cq = calloc(1, sizeof *cq);
	if (!cq)
		return -FI_ENOMEM;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = format == FI_CQ_FORMAT_TAGGED ? &path->cq_tagged : &path->cq_any;
	cq->entry = entry;
	cq->core_domain = domain->core;
	cq->domain = domain;
	cq->wait = wait;
	bl_fi_enter(domain);
	ret = bl_cq_open(domain->core, attr && attr->size ? attr->size : BL_FI_QUEUE_SIZE,
			 &cq->core);
	bl_fi_leave(domain);
	if (ret) {
		free(cq);
		return ret;
	}
	ret = bl_fi_wait_open(&cq->core->wait, wait, attr ? attr->wait_set : NULL, &cq->fid.fid,
			      &cq->waitset);
	if (ret) {
		cq_close(&cq->fid.fid);
		return ret;
	}
	*out = &cq->fid;
	bl_yield_hook_adopt(__builtin_return_address(0));
	return 0;
}
