/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ep.c: endpoints: opening, binding, enabling, options. What moves messages is
 * in path.h. libfabric asks applications to serialise these calls against all
 * others on the endpoint; with a locked domain each also holds its lock.
 */
#include "fabric/fabric.h"

#include <stdlib.h>
#include <string.h>

#include "base/knobs.h"

/* Options that headers before 2.0 don't name. */
enum {
	OPT_CUDA_API_PERMITTED = 10, /* bool */
	OPT_SHARED_MEMORY_PERMITTED, /* bool */
	OPT_MAX_MSG_SIZE,	     /* size_t, and all that follow */
	OPT_MAX_TAGGED_SIZE,
	OPT_MAX_RMA_SIZE,
	OPT_MAX_ATOMIC_SIZE,
	OPT_INJECT_MSG_SIZE,
	OPT_INJECT_TAGGED_SIZE,
	OPT_INJECT_RMA_SIZE,
	OPT_INJECT_ATOMIC_SIZE,
};
#if FI_MAJOR_VERSION >= 2
static_assert((int)OPT_CUDA_API_PERMITTED == (int)FI_OPT_CUDA_API_PERMITTED, "option");
static_assert((int)OPT_INJECT_ATOMIC_SIZE == (int)FI_OPT_INJECT_ATOMIC_SIZE, "option");
#endif

enum { DELIVERY_OF_ALL, DELIVERY_OF_RMA }; /* of the knob `delivery` */

static struct bl_fi_ep *ep_of_fid(struct fid *fid)
{
	return bl_containerof(fid, struct bl_fi_ep, fid.fid);
}

/*
 * Work out the core flags of each direction and make the tables of operations:
 * the quick form of each wherever its constant flags are this endpoint's.
 * Selective completion: an operation reports only when its flags, or for calls
 * without flags the endpoint's, say so; otherwise each does. Without a queue
 * there is nobody to report to. Flags that have no meaning below are dropped:
 * see SENDMSG_FLAGS in path.h.
 */
static void choose(struct bl_fi_ep *ep)
{
	struct bl_fi_path *path = ep->domain->path;
	uint64_t reports;

	reports = ep->tx_cq ? BL_COMPLETION : 0;
	ep->tx_mask = reports | BL_INJECT | BL_REMOTE_CQ_DATA | BL_DELIVERY_COMPLETE;
	ep->tx_always = ep->tx_selective ? 0 : reports;
	ep->tx_flags = (ep->tx_op_flags & ep->tx_mask) | ep->tx_always;
	if (ep->tx_of_rma) /* which completes so in any case */
		ep->tx_flags &= ~BL_DELIVERY_COMPLETE;
	if (ep->tx_op_flags & FI_MATCH_COMPLETE) /* of messages alone */
		ep->tx_flags |= BL_DELIVERY_COMPLETE;

	reports = ep->rx_cq ? BL_COMPLETION : 0;
	ep->rx_mask = reports | BL_MULTI_RECV | BL_PEEK | BL_CLAIM | BL_DISCARD;
	ep->rx_always = ep->rx_selective ? 0 : reports;
	ep->rx_flags = (ep->rx_op_flags & ep->rx_mask) | ep->rx_always;

	ep->tagged = path->tagged;
	ep->msg = path->msg;
	if (ep->tx_flags != BL_COMPLETION) {
		ep->tagged.send = path->tagged_any.send;
		ep->tagged.senddata = path->tagged_any.senddata;
		ep->msg.send = path->msg_any.send;
		ep->msg.senddata = path->msg_any.senddata;
	}
	if (ep->tx_cntr) {
		ep->tagged.inject = path->tagged_any.inject;
		ep->tagged.injectdata = path->tagged_any.injectdata;
		ep->msg.inject = path->msg_any.inject;
		ep->msg.injectdata = path->msg_any.injectdata;
	}
	if (ep->rx_flags != BL_COMPLETION) {
		ep->tagged.recv = path->tagged_any.recv;
		ep->msg.recv = path->msg_any.recv;
	}
	if (ep->shares_rx) { /* receives are posted to the context */
		ep->tagged.recv = bl_fi_no_tagged.recv;
		ep->tagged.recvv = bl_fi_no_tagged.recvv;
		ep->tagged.recvmsg = bl_fi_no_tagged.recvmsg;
		ep->msg.recv = bl_fi_no_msg.recv;
		ep->msg.recvv = bl_fi_no_msg.recvv;
		ep->msg.recvmsg = bl_fi_no_msg.recvmsg;
		bl_ep_report_srx(ep->core, ep->rx_always & BL_COMPLETION);
	}
	ep->tx_trigger = ep->tx_op_flags & FI_TRIGGER;
	bl_fi_trigger_tables(ep);
}

/* --- options ------------------------------------------------------------------------ */

static int get_size(size_t value, void *optval, size_t *optlen)
{
	size_t room = *optlen;

	*optlen = sizeof value;
	if (room < sizeof value)
		return -FI_ETOOSMALL;
	memcpy(optval, &value, sizeof value);
	return 0;
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	struct bl_fi_ep *ep = ep_of_fid(fid);

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (optname) {
	case FI_OPT_MIN_MULTI_RECV:
		return get_size(bl_ep_min_multi_recv(ep->core), optval, optlen);
	case FI_OPT_CM_DATA_SIZE: /* no connections */
		return get_size(0, optval, optlen);
	case FI_OPT_TX_SIZE:
	case FI_OPT_RX_SIZE:
		return get_size(BL_FI_QUEUE_SIZE, optval, optlen);
	case OPT_MAX_MSG_SIZE:
	case OPT_MAX_TAGGED_SIZE:
	case OPT_MAX_RMA_SIZE:
	case OPT_MAX_ATOMIC_SIZE:
		return get_size(BL_FI_MAX_MSG, optval, optlen);
	case OPT_INJECT_MSG_SIZE:
	case OPT_INJECT_TAGGED_SIZE:
	case OPT_INJECT_RMA_SIZE:
	case OPT_INJECT_ATOMIC_SIZE:
		return get_size(bl_inject_max(), optval, optlen);
	default:
		return -FI_ENOPROTOOPT;
	}
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	struct bl_fi_ep *ep = ep_of_fid(fid);
	size_t size;
	bool permitted;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (optname) {
	case FI_OPT_MIN_MULTI_RECV:
		if (optlen != sizeof size)
			return -FI_EINVAL;
		memcpy(&size, optval, sizeof size);
		bl_fi_enter(ep->domain);
		bl_ep_set_min_multi_recv(ep->core, size);
		bl_fi_leave(ep->domain);
		return 0;
	case OPT_CUDA_API_PERMITTED: /* it is never called */
		return optlen == sizeof permitted ? 0 : -FI_EINVAL;
	case OPT_SHARED_MEMORY_PERMITTED: /* there is no other way */
		if (optlen != sizeof permitted)
			return -FI_EINVAL;
		memcpy(&permitted, optval, sizeof permitted);
		return permitted ? 0 : -FI_EOPNOTSUPP;
	default:
		return -FI_ENOPROTOOPT;
	}
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct bl_fi_ep *ep = ep_of_fid(fid);
	ssize_t ret;

	bl_fi_enter(ep->domain);
	ret = bl_cancel(ep->core, context);
	bl_fi_leave(ep->domain);
	return ret;
}

/* The queues of receives grow: there is always room for what was promised. */
static ssize_t rx_size_left(struct fid_ep *ep)
{
	return BL_FI_QUEUE_SIZE;
}

/* Room is a pair's, and how much there is depends on what the peer reads. */
static ssize_t no_tx_size_left(struct fid_ep *ep)
{
	return -FI_ENOSYS;
}

struct fi_ops_ep bl_fi_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = bl_fi_no_tx_ctx,
	.rx_ctx = bl_fi_no_rx_ctx,
	.rx_size_left = rx_size_left,
	.tx_size_left = no_tx_size_left,
};

/* --- names: an endpoint has an address and no connections ----------------------------- */

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct bl_fi_ep *ep = ep_of_fid(fid);
	size_t room = *addrlen;
	struct bl_addr own;

	if (fid->fclass != FI_CLASS_EP) /* a shared context */
		return -FI_ENOSYS;
	bl_ep_getname(ep->core, &own);
	*addrlen = sizeof own;
	if (addr)
		memcpy(addr, &own, bl_min(room, sizeof own));
	return !addr || room < sizeof own ? -FI_ETOOSMALL : 0;
}

static int no_setname(fid_t fid, void *addr, size_t addrlen)
{
	return -FI_ENOSYS;
}

static int no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

static int no_listen(struct fid_pep *pep)
{
	return -FI_ENOSYS;
}

static int no_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

static int no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return -FI_ENOSYS;
}

static int no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		   void *context)
{
	return -FI_ENOSYS;
}

struct fi_ops_cm bl_fi_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = no_setname,
	.getname = ep_getname,
	.getpeer = no_getpeer,
	.connect = no_connect,
	.listen = no_listen,
	.accept = no_accept,
	.reject = no_reject,
	.shutdown = no_shutdown,
	.join = no_join,
};

/* --- binding ------------------------------------------------------------------------ */

static int bind_av(struct bl_fi_ep *ep, struct bl_fi_av *av)
{
	int ret;

	if (av->domain != ep->domain)
		return -FI_EDOMAIN;
	if (ep->av)
		return -FI_EINVAL;
	bl_fi_enter(ep->domain);
	ret = bl_ep_bind_av(ep->core, av->core);
	bl_fi_leave(ep->domain);
	if (!ret)
		ep->av = av;
	return ret;
}

static int bind_cq(struct bl_fi_ep *ep, struct bl_fi_cq *cq, uint64_t flags)
{
	uint64_t sides = flags & (FI_SEND | FI_RECV);
	int ret;

	if (cq->domain != ep->domain)
		return -FI_EDOMAIN;
	if (!sides || flags & ~(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION))
		return -FI_EBADFLAGS;
	if ((sides & FI_SEND && ep->tx_cq) || (sides & FI_RECV && ep->rx_cq))
		return -FI_EINVAL;
	bl_fi_enter(ep->domain);
	ret = bl_ep_bind_cq(ep->core, cq->core, sides);
	bl_fi_leave(ep->domain);
	if (ret)
		return ret;
	if (sides & FI_SEND) {
		ep->tx_cq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	if (sides & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return 0;
}

static int bind_cntr(struct bl_fi_ep *ep, struct bl_fi_cntr *cntr, uint64_t flags)
{
	int ret;

	if (cntr->domain != ep->domain)
		return -FI_EDOMAIN;
	if (!flags ||
	    flags & ~(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE))
		return -FI_EBADFLAGS;
	bl_fi_enter(ep->domain);
	ret = bl_ep_bind_cntr(ep->core, cntr->core, flags);
	bl_fi_leave(ep->domain);
	if (ret)
		return ret;
	ep->has_cntr = true;
	if (flags & FI_SEND)
		ep->tx_cntr = cntr->core;
	return 0;
}

/* An endpoint may have less than its contexts, not more. */
static bool exceeds(uint64_t endpoint, uint64_t context)
{
	return context && endpoint & ~bl_fi_answer_caps(context);
}

static int bind_srx(struct bl_fi_ep *ep, struct fid *fid, uint64_t flags)
{
	struct bl_fi_ep *srx = bl_containerof(fid, struct bl_fi_ep, fid.fid);
	int ret;

	if (flags)
		return -FI_EBADFLAGS;
	if (srx->domain != ep->domain)
		return -FI_EDOMAIN;
	if (!ep->shares_rx || ep->has_srx || exceeds(ep->rx_caps, srx->rx_caps))
		return -FI_EINVAL;
	bl_fi_enter(ep->domain);
	ret = bl_srx_join(ep->core, srx->core);
	bl_fi_leave(ep->domain);
	if (!ret)
		ep->has_srx = true;
	return ret;
}

static int bind_stx(struct bl_fi_ep *ep, struct fid *fid, uint64_t flags)
{
	struct bl_fi_stx *stx = bl_containerof(fid, struct bl_fi_stx, fid.fid);

	if (flags)
		return -FI_EBADFLAGS;
	if (stx->domain != ep->domain)
		return -FI_EDOMAIN;
	if (!ep->shares_tx || ep->stx || exceeds(ep->tx_caps, stx->caps))
		return -FI_EINVAL;
	atomic_fetch_add(&stx->users, 1);
	ep->stx = stx;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct bl_fi_ep *ep = ep_of_fid(fid);

	if (ep->enabled && bfid->fclass != FI_CLASS_EQ)
		return -FI_EOPBADSTATE; /* an alias's is */
	switch (bfid->fclass) {
	case FI_CLASS_AV:
		return bind_av(ep, bl_containerof(bfid, struct bl_fi_av, fid.fid));
	case FI_CLASS_CQ:
		return bind_cq(ep, bl_containerof(bfid, struct bl_fi_cq, fid.fid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep, bl_containerof(bfid, struct bl_fi_cntr, fid.fid), flags);
	case FI_CLASS_SRX_CTX:
		return bind_srx(ep, bfid, flags);
	case FI_CLASS_STX_CTX:
		return bind_stx(ep, bfid, flags);
	case FI_CLASS_EQ: /* there are no events */
		return 0;
	default:
		return -FI_EINVAL;
	}
}

/* --- control ------------------------------------------------------------------------ */

static int ep_enable(struct bl_fi_ep *ep)
{
	int ret;

	if (ep->enabled)
		return -FI_EOPBADSTATE;
	if (!ep->av)
		return -FI_ENOAV;
	if (!ep->tx_cq && !ep->rx_cq && !ep->has_cntr)
		return -FI_ENOCQ;
	if (ep->shares_rx != ep->has_srx || ep->shares_tx != !!ep->stx)
		return -FI_EOPBADSTATE;
	bl_fi_enter(ep->domain);
	choose(ep);
	ret = bl_srx_ready(ep->core);
	if (!ret)
		ret = bl_ep_enable(ep->core);
	bl_fi_leave(ep->domain);
	if (!ret)
		ep->enabled = true;
	return ret;
}

/* The flags come with FI_SEND or FI_RECV to say whose they are. */
static int get_op_flags(struct bl_fi_ep *ep, uint64_t *flags)
{
	switch (*flags & (FI_SEND | FI_RECV)) {
	case FI_SEND:
		*flags = ep->tx_op_flags;
		return 0;
	case FI_RECV:
		*flags = ep->rx_op_flags;
		return 0;
	default:
		return -FI_EINVAL;
	}
}

static int set_op_flags(struct bl_fi_ep *ep, uint64_t flags)
{
	uint64_t side = flags & (FI_SEND | FI_RECV);

	flags &= ~(FI_SEND | FI_RECV);
	if (flags & FI_TRIGGER && !ep->trigger)
		return -FI_EBADFLAGS;
	if (side == FI_SEND) {
		if (flags & ~BL_FI_TX_OP_FLAGS)
			return -FI_EBADFLAGS;
		ep->tx_op_flags = flags;
		ep->tx_of_rma = false;
	} else if (side == FI_RECV) {
		if (flags & ~BL_FI_RX_OP_FLAGS)
			return -FI_EBADFLAGS;
		ep->rx_op_flags = flags;
	} else {
		return -FI_EINVAL;
	}
	bl_fi_enter(ep->domain);
	choose(ep);
	bl_fi_leave(ep->domain);
	return 0;
}

/*
 * Another way into the same endpoint, with operation flags of its own: a copy of what
 * this layer keeps. flags: FI_SEND or FI_RECV, and the flags of that side.
 */
static int open_alias(struct bl_fi_ep *ep, const struct fi_alias *asked)
{
	struct bl_fi_ep *alias;
	int ret = 0;

	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	alias = calloc(1, sizeof *alias);
	if (!alias)
		return -FI_ENOMEM;
	*alias = *ep;
	alias->alias = ep->alias ? ep->alias : ep;
	alias->aliases = 0;
	alias->fid.tagged = &alias->tagged;
	alias->fid.msg = &alias->msg;
	if (asked->flags)
		ret = set_op_flags(alias, asked->flags);
	if (ret) {
		free(alias);
		return ret;
	}
	atomic_fetch_add(&alias->alias->aliases, 1);
	*asked->fid = &alias->fid.fid;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct bl_fi_ep *ep = ep_of_fid(fid);

	switch (command) {
	case FI_ENABLE:
		return ep_enable(ep);
	case FI_GETOPSFLAG:
		return get_op_flags(ep, arg);
	case FI_SETOPSFLAG:
		return set_op_flags(ep, *(const uint64_t *)arg);
	case FI_ALIAS:
		return open_alias(ep, arg);
	default:
		return -FI_ENOSYS;
	}
}

static int ep_close(struct fid *fid)
{
	struct bl_fi_ep *ep = ep_of_fid(fid);
	struct bl_fi_domain *domain = ep->domain;
	int ret;

	if (atomic_load(&ep->aliases))
		return -FI_EBUSY;
	if (ep->alias) {
		atomic_fetch_sub(&ep->alias->aliases, 1);
		free(ep);
		return 0;
	}
	bl_fi_enter(domain);
	ret = bl_ep_close(ep->core);
	bl_fi_leave(domain);
	if (ret)
		return ret;
	if (ep->stx)
		atomic_fetch_sub(&ep->stx->users, 1);
	free(ep);
	return 0;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

int bl_fi_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid);
	struct bl_fi_ep *ep;
	int ret;

	if (info->ep_attr && info->ep_attr->type != FI_EP_UNSPEC &&
	    info->ep_attr->type != FI_EP_RDM)
		return -FI_EINVAL;
	if ((info->tx_attr && info->tx_attr->op_flags & ~BL_FI_TX_OP_FLAGS) ||
	    (info->rx_attr && info->rx_attr->op_flags & ~BL_FI_RX_OP_FLAGS))
		return -FI_EBADFLAGS;
	if (info->caps && !(info->caps & FI_TRIGGER) &&
	    ((info->tx_attr && info->tx_attr->op_flags & FI_TRIGGER) ||
	     (info->rx_attr && info->rx_attr->op_flags & FI_TRIGGER)))
		return -FI_EBADFLAGS;
	ep = calloc(1, sizeof *ep);
	if (!ep)
		return -FI_ENOMEM;
	bl_fi_enter(domain);
	ret = bl_ep_open(domain->core, &ep->core);
	if (!ret) {
		ret = bl_fi_take_name(ep->core, info->src_addr, info->src_addrlen);
		if (ret)
			bl_ep_close(ep->core);
	}
	bl_fi_leave(domain);
	if (ret) {
		free(ep);
		return ret;
	}
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &ep_fid_ops;
	ep->fid.ops = &bl_fi_ep_ops;
	ep->fid.cm = &bl_fi_cm_ops;
	ep->fid.rma = &bl_fi_rma_ops;
	ep->fid.atomic = &bl_fi_atomic_ops;
	ep->fid.collective = &bl_fi_no_collective;
	ep->domain = domain;
	ep->core_domain = domain->core;
	ep->rma = !info->caps || info->caps & FI_RMA;
	ep->atomic = !info->caps || info->caps & FI_ATOMIC;
	ep->trigger = !info->caps || info->caps & FI_TRIGGER;
	ep->shares_rx = info->ep_attr && info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
	ep->shares_tx = info->ep_attr && info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
	ep->tx_caps = info->tx_attr ? info->tx_attr->caps : 0;
	ep->rx_caps = info->rx_attr ? info->rx_attr->caps : 0;
	ep->any_source = info->caps & FI_DIRECTED_RECV ? 0 : FI_ADDR_UNSPEC;
	ep->tx_op_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->tx_of_rma = bl_knobs()->delivery == DELIVERY_OF_RMA;
	ep->rx_op_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->fid.tagged = &ep->tagged;
	ep->fid.msg = &ep->msg;
	choose(ep);
	*out = &ep->fid;
	return 0;
}
