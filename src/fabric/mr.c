/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * mr.c: memory regions. Nothing has to be registered to be sent, received or used as
 * the near end of an operation; what others may read and write has. All modes of
 * registration do: regions are named by offsets and keys are the application's,
 * unless the domain was opened with FI_MR_VIRT_ADDR, FI_MR_PROV_KEY or FI_MR_BASIC.
 */
#include "fabric/fabric.h"

#include <stdlib.h>

static struct bl_fi_mr *mr_of_fid(struct fid *fid)
{
	return bl_containerof(fid, struct bl_fi_mr, fid.fid);
}

static int mr_close(struct fid *fid)
{
	struct bl_fi_mr *mr = mr_of_fid(fid);

	bl_fi_enter(mr->domain);
	bl_mr_close(mr->core);
	bl_fi_leave(mr->domain);
	free(mr);
	return 0;
}

/* To an endpoint: regions belong to the domain, there is nothing to do. */
static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct bl_fi_mr *mr = mr_of_fid(fid);
	struct bl_fi_cntr *cntr;
	int ret;

	if (bfid->fclass == FI_CLASS_EP)
		return 0;
	if (bfid->fclass != FI_CLASS_CNTR)
		return -FI_EINVAL;
	if (!flags || flags & ~(FI_REMOTE_READ | FI_REMOTE_WRITE))
		return -FI_EBADFLAGS;
	cntr = bl_containerof(bfid, struct bl_fi_cntr, fid.fid);
	if (cntr->domain != mr->domain)
		return -FI_EDOMAIN;
	bl_fi_enter(mr->domain);
	ret = bl_mr_bind_cntr(mr->core, cntr->core, flags);
	bl_fi_leave(mr->domain);
	return ret;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

static int mr_open(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t key, uint64_t flags, void *context, struct fid_mr **out)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid.fid);
	const struct bl_mr_attr attr = {
		.iov = iov,
		.niov = count,
		.flags = (access & FI_REMOTE_READ ? BL_MR_READ : 0) |
			 (access & FI_REMOTE_WRITE ? BL_MR_WRITE : 0) |
			 (domain->virtual ? BL_MR_VIRTUAL : 0),
		.choose = domain->chooses_keys,
		.key = key,
	};
	struct bl_fi_mr *mr = calloc(1, sizeof *mr);
	int ret;

	/* Others say what the memory is: a device's, or a descriptor instead of iov. */
	if (flags & ~FI_RMA_EVENT) {
		free(mr);
		return -FI_EBADFLAGS;
	}
	if (!mr)
		return -FI_ENOMEM;
	bl_fi_enter(domain);
	ret = bl_mr_open(domain->core, &attr, &mr->core);
	bl_fi_leave(domain);
	if (ret) {
		free(mr);
		return ret;
	}
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &mr_fid_ops;
	mr->fid.mem_desc = mr;
	mr->fid.key = mr->core->key;
	mr->domain = domain;
	*out = &mr->fid;
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	const struct iovec iov = {(void *)buf, len};

	return mr_open(fid, &iov, 1, access, requested_key, flags, context, mr);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		   void *context)
{
	return mr_open(fid, iov, count, access, requested_key, flags, context, mr);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid.fid);

	/* Memory of a device is not addressable here (FI_HMEM isn't offered). The
	 * field exists since API 1.10. */
	if (domain->fabric->fid.api_version >= FI_VERSION(1, 10) && attr->iface != FI_HMEM_SYSTEM)
		return -FI_EOPNOTSUPP;
	return mr_open(fid, attr->mr_iov, attr->iov_count, attr->access, attr->requested_key, flags,
		       attr->context, mr);
}

struct fi_ops_mr bl_fi_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
