/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * domain.c: domains. A domain is the unit of serialisation; its threading level,
 * taken from the fi_info it is opened with, decides here whether calls lock, and
 * its mode of memory registration how regions are named (mr.c).
 */
#include "fabric/fabric.h"

#include <stdlib.h>
#include <string.h>

/* --- what a domain doesn't have --------------------------------------------------- */

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
			  void *context)
{
	return -FI_ENOSYS;
}

static int no_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
			       struct fi_collective_attr *attr, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static int endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		     uint64_t flags, void *context)
{
	if (flags)
		return -FI_EBADFLAGS;
	return bl_fi_ep_open(domain, info, ep, context);
}

/* --- domain ------------------------------------------------------------------------ */

static int domain_close(struct fid *fid)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid.fid);
	int ret;

	if (atomic_load(&domain->poll_sets))
		return -FI_EBUSY;
	ret = bl_domain_close(domain->core);
	if (ret)
		return ret;
	atomic_fetch_sub(&domain->fabric->domains, 1);
	free(domain);
	return 0;
}

/* An event queue may be bound; no operation needs it. Asynchronous registration
 * (the flag, FI_REG_MR in older headers) is not there. */
static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	if (bfid->fclass != FI_CLASS_EQ)
		return -FI_EINVAL;
	return flags ? -FI_EBADFLAGS : 0;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = bl_fi_work_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = bl_fi_av_open,
	.cq_open = bl_fi_cq_open,
	.endpoint = bl_fi_ep_open,
	.scalable_ep = no_scalable_ep,
	.cntr_open = bl_fi_cntr_open,
	.poll_open = bl_fi_poll_open,
	.stx_ctx = bl_fi_stx_open,
	.srx_ctx = bl_fi_srx_open,
	.query_atomic = bl_fi_query_atomic,
	.query_collective = no_query_collective,
	.endpoint2 = endpoint2,
};

int bl_fi_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out,
		      void *context)
{
	struct bl_fi_fabric *fabric = bl_containerof(fid, struct bl_fi_fabric, fid);
	const struct fi_domain_attr *attr = info->domain_attr;
	struct bl_fi_domain *domain;
	uint64_t mode;
	int ret;

	if (attr && attr->name && strcmp(attr->name, BL_FI_DOMAIN))
		return -FI_EINVAL;
	domain = calloc(1, sizeof *domain);
	if (!domain)
		return -FI_ENOMEM;
	ret = bl_domain_open(&domain->core);
	if (ret) {
		free(domain);
		return ret;
	}
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &domain_fid_ops;
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &bl_fi_mr_ops;
	domain->fabric = fabric;
	/* 1, alone, is the whole mode FI_MR_BASIC of API 1.4 and before. */
	mode = attr ? (uint64_t)attr->mr_mode : 0;
	domain->virtual = mode == FI_MR_BASIC || mode & FI_MR_VIRT_ADDR;
	domain->chooses_keys = mode == FI_MR_BASIC || mode & FI_MR_PROV_KEY;
	domain->locked = !attr || attr->threading != FI_THREAD_DOMAIN;
	if (domain->locked)
		bl_domain_locks(domain->core);
	domain->path = domain->locked ? &bl_fi_path_locked : &bl_fi_path_plain;
	atomic_fetch_add(&fabric->domains, 1);
	*out = &domain->fid;
	return 0;
}
