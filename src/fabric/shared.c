/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * shared.c: shared receive contexts and shared transmit contexts. The former is an
 * endpoint without an address (endpoint/srx.h), to which receives are posted instead
 * of to the endpoints that are bound to it. The latter holds nothing: sends have no
 * queue that could be shared, each goes straight into its peer's ring. It is there
 * for programs that want one, with the life that libfabric gives it.
 */
#include "fabric/fabric.h"

#include <stdlib.h>

/* --- receive --------------------------------------------------------------------- */

static int srx_close(struct fid *fid)
{
	struct bl_fi_ep *srx = bl_containerof(fid, struct bl_fi_ep, fid.fid);
	struct bl_fi_domain *domain = srx->domain;
	int ret;

	bl_fi_enter(domain);
	ret = bl_srx_close(srx->core);
	bl_fi_leave(domain);
	if (!ret)
		free(srx);
	return ret;
}

/* It is ready at once. */
static int srx_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops srx_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = srx_close,
	.bind = bl_fi_no_bind,
	.control = srx_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

/*
 * Who will report a receive isn't known when it is posted. So it says whether it was
 * asked to, and an endpoint that reports all that it completes reports it anyway.
 */
static void choose_tables(struct bl_fi_ep *srx)
{
	struct bl_fi_path *path = srx->domain->path;

	srx->rx_flags = srx->rx_op_flags;
	srx->rx_mask = BL_COMPLETION | BL_MULTI_RECV | BL_PEEK | BL_CLAIM | BL_DISCARD;
	srx->tagged = bl_fi_no_tagged;
	srx->tagged.recv = path->tagged_any.recv;
	srx->tagged.recvv = path->tagged_any.recvv;
	srx->tagged.recvmsg = path->tagged_any.recvmsg;
	srx->msg = bl_fi_no_msg;
	srx->msg.recv = path->msg_any.recv;
	srx->msg.recvv = path->msg_any.recvv;
	srx->msg.recvmsg = path->msg_any.recvmsg;
	bl_fi_trigger_tables(srx);
}

int bl_fi_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **out,
		   void *context)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid);
	struct bl_fi_ep *srx;
	int ret;

	if (attr && attr->op_flags & ~BL_FI_RX_OP_FLAGS)
		return -FI_EBADFLAGS;
	if (bl_fi_check_rx(attr))
		return -FI_EINVAL;
	srx = calloc(1, sizeof *srx);
	if (!srx)
		return -FI_ENOMEM;
	bl_fi_enter(domain);
	ret = bl_srx_open(domain->core, &srx->core);
	bl_fi_leave(domain);
	if (ret) {
		free(srx);
		return ret;
	}
	srx->fid.fid.fclass = FI_CLASS_SRX_CTX;
	srx->fid.fid.context = context;
	srx->fid.fid.ops = &srx_fid_ops;
	srx->fid.ops = &bl_fi_ep_ops;
	srx->fid.cm = &bl_fi_cm_ops;
	srx->fid.rma = &bl_fi_rma_ops;
	srx->fid.atomic = &bl_fi_atomic_ops;
	srx->fid.collective = &bl_fi_no_collective;
	srx->domain = domain;
	srx->core_domain = domain->core;
	srx->trigger = !attr || !attr->caps || attr->caps & FI_TRIGGER;
	srx->rx_caps = attr ? attr->caps : 0;
	srx->any_source = srx->rx_caps & FI_DIRECTED_RECV ? 0 : FI_ADDR_UNSPEC;
	srx->rx_op_flags = attr ? attr->op_flags : 0;
	srx->fid.tagged = &srx->tagged;
	srx->fid.msg = &srx->msg;
	choose_tables(srx);
	*out = &srx->fid;
	return 0;
}

/* --- transmit --------------------------------------------------------------------- */

static int stx_close(struct fid *fid)
{
	struct bl_fi_stx *stx = bl_containerof(fid, struct bl_fi_stx, fid.fid);

	if (atomic_load(&stx->users))
		return -FI_EBUSY;
	bl_fi_enter(stx->domain);
	stx->domain->core->users--;
	bl_fi_leave(stx->domain);
	free(stx);
	return 0;
}

static struct fi_ops stx_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = stx_close,
	.bind = bl_fi_no_bind,
	.control = bl_fi_no_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

int bl_fi_stx_open(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **out,
		   void *context)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid);
	struct bl_fi_stx *stx;

	if (attr && attr->op_flags & ~BL_FI_TX_OP_FLAGS)
		return -FI_EBADFLAGS;
	if (bl_fi_check_tx(attr))
		return -FI_EINVAL;
	stx = calloc(1, sizeof *stx);
	if (!stx)
		return -FI_ENOMEM;
	stx->fid.fid.fclass = FI_CLASS_STX_CTX;
	stx->fid.fid.context = context;
	stx->fid.fid.ops = &stx_fid_ops;
	stx->fid.ops = &bl_fi_no_ep_ops;
	stx->domain = domain;
	stx->caps = attr ? attr->caps : 0;
	bl_fi_enter(domain);
	domain->core->users++;
	bl_fi_leave(domain);
	*out = &stx->fid;
	return 0;
}
