/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * info.c: fi_getinfo: what this provider offers, and whether that satisfies the
 * hints. There is one kind of endpoint, so the answer is one fi_info or
 * -FI_ENODATA; the first hint that can't be met is named in libfabric's log at
 * level info. No state: any thread.
 *
 * FI_REMOTE_COMM is offered although messages don't leave the node: Open MPI
 * asks for it and would otherwise take no provider at all, even for a job on
 * one node. An address on another host fails at its first use, with
 * -FI_EHOSTUNREACH and a warning that names the host.
 *
 * FI_PROGRESS_AUTO is refused: a message moves when one of the two processes is
 * inside the library.
 */
#include "fabric/fabric.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Capabilities that must be asked for, those that come for free, and the two
 * directions, of which an application may ask for one. */
#define TWO_SIDED (FI_MSG | FI_TAGGED)
#define ONE_SIDED (FI_RMA | FI_ATOMIC)
#define PRIMARY	  (TWO_SIDED | ONE_SIDED | FI_DIRECTED_RECV | FI_TRIGGER)
#define SECONDARY                                                                                  \
	(FI_MULTI_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_RMA_EVENT | FI_FENCE)
#define SEND_RECV  (FI_SEND | FI_RECV)
#define READ_WRITE (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define DIRECTION  (SEND_RECV | READ_WRITE)
#define CAPS	   (PRIMARY | SECONDARY | DIRECTION)
#define TX_CAPS	   (TWO_SIDED | ONE_SIDED | FI_SEND | FI_READ | FI_WRITE | FI_TRIGGER | FI_FENCE)
#define RX_CAPS                                                                                    \
	(TWO_SIDED | ONE_SIDED | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_DIRECTED_RECV |   \
	 FI_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT | FI_TRIGGER)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)

/* One-sided operations of a pair of endpoints happen in the order of the calls. */
#define MSG_ORDER                                                                                  \
	(FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW |                \
	 FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW |               \
	 FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
#define CQ_DATA_SIZE		 8
#define MANY			 65536 /* objects of a kind: there is no limit but memory */
#define TAG_FORMAT		 0xaaaaaaaaaaaaaaaaull /* all 64 bits of a tag are the application's */
#define PROGRESS_CONTROL_UNIFIED 3 /* since 2.0: the application serialises control calls too */

/*
 * A newer libfabric than our headers has longer structures, and reads their
 * ends. Each is allocated with room to spare and zeroed, which means "nothing
 * asked, nothing offered" in every field added so far. (The largest is
 * fi_domain_attr: 232 bytes in 1.17, 272 in 2.6.)
 */
#define ROOM 1024

#define refuse(...) bl_fi_refuse(-FI_ENODATA, FI_LOG_CORE, __VA_ARGS__)

/* --- hints --------------------------------------------------------------------- */

struct ends {
	struct bl_addr src, dest;
	bool has_dest;
};

static int check_addr(const char *which, const void *bytes, size_t len, struct bl_addr *addr)
{
	if (len != sizeof *addr)
		return refuse("the %s address isn't one of Beeline's", which);
	memcpy(addr, bytes, sizeof *addr);
	if (addr->magic != BL_ADDR_MAGIC)
		return refuse("the %s address isn't one of Beeline's", which);
	return 0;
}

/* Both ends, as the node and the service or else the hints have them: a destination for which
 * neither stands, a source if FI_SOURCE doesn't say that they are it. */
static int find_ends(const char *node, const char *service, uint64_t flags,
		     const struct fi_info *hints, struct ends *ends)
{
	bool source = flags & FI_SOURCE;
	int ret;

	ends->has_dest = false;
	if (node && !source) {
		ends->has_dest = service;
		ret = bl_fi_name(&ends->dest, node, service);
	} else if ((source || !service) && hints && hints->dest_addr && hints->dest_addrlen) {
		ends->has_dest = true;
		ret = check_addr("destination", hints->dest_addr, hints->dest_addrlen, &ends->dest);
	} else {
		ret = 0;
	}
	if (ret)
		return ret;
	if (!source && hints && hints->src_addr && hints->src_addrlen)
		return check_addr("source", hints->src_addr, hints->src_addrlen, &ends->src);
	return bl_fi_name(&ends->src, source ? node : NULL, source ? service : NULL);
}

/* A list of providers ("tcp;ofi_rxm", "^tcp") has been applied by libfabric
 * before it calls us; a plain name must be ours. */
static int check_fabric(const struct fi_fabric_attr *hint)
{
	if (!hint)
		return 0;
	if (hint->name && strcmp(hint->name, BL_FI_FABRIC))
		return refuse("fabric %s isn't %s", hint->name, BL_FI_FABRIC);
	if (hint->prov_name && !strpbrk(hint->prov_name, ";^") &&
	    strcasecmp(hint->prov_name, BL_FI_PROVIDER))
		return refuse("provider %s isn't %s", hint->prov_name, BL_FI_PROVIDER);
	if (hint->prov_version > BL_FI_VERSION)
		return refuse("provider version %#x is newer than %#x",
			      (unsigned)hint->prov_version, (unsigned)BL_FI_VERSION);
	return 0;
}

/* Authorization keys and the data of errors came with API 1.5: before, nobody asks for them. */
static bool has_keys(uint32_t version)
{
	return version >= FI_VERSION(1, 5);
}

static int check_progress(int control, int data)
{
	if (control != FI_PROGRESS_UNSPEC && control != FI_PROGRESS_MANUAL &&
	    control != PROGRESS_CONTROL_UNIFIED)
		return refuse("control progress %d: only manual progress is offered", control);
	if (data != FI_PROGRESS_UNSPEC && data != FI_PROGRESS_MANUAL)
		return refuse("data progress %d: only manual progress is offered", data);
	return 0;
}

static int check_domain(const struct fi_domain_attr *hint, uint32_t version)
{
	if (!hint)
		return 0;
	if (hint->name && strcmp(hint->name, BL_FI_DOMAIN))
		return refuse("domain %s isn't %s", hint->name, BL_FI_DOMAIN);
	if ((unsigned)hint->threading > FI_THREAD_ENDPOINT)
		return refuse("threading level %d is unknown", (int)hint->threading);
	if (check_progress(hint->control_progress, hint->data_progress))
		return -FI_ENODATA;
	if ((unsigned)hint->av_type > FI_AV_TABLE)
		return refuse("address vector type %d is unknown", (int)hint->av_type);
	if (hint->cq_data_size > CQ_DATA_SIZE)
		return refuse("%zu bytes of completion data: %d are offered", hint->cq_data_size,
			      CQ_DATA_SIZE);
	if (hint->caps & ~DOMAIN_CAPS)
		return refuse("domain capabilities %#llx are not offered",
			      (unsigned long long)(hint->caps & ~DOMAIN_CAPS));
	if (hint->mr_key_size > sizeof(uint64_t) || hint->mr_iov_limit > BL_IOV_MAX)
		return refuse("keys of %zu bytes, regions of %zu pieces: %zu, %d are offered",
			      hint->mr_key_size, hint->mr_iov_limit, sizeof(uint64_t), BL_IOV_MAX);
	if (has_keys(version) && (hint->auth_key_size || hint->max_err_data))
		return refuse("authorization keys, data of errors: neither is offered");
	if (hint->max_ep_tx_ctx > 1 || hint->max_ep_rx_ctx > 1)
		return refuse("scalable endpoints are not offered");
	if (hint->max_ep_stx_ctx > MANY || hint->max_ep_srx_ctx > MANY)
		return refuse("shared contexts of %zu and %zu endpoints: %d are offered",
			      hint->max_ep_stx_ctx, hint->max_ep_srx_ctx, MANY);
	return 0;
}

static int check_ep(const struct fi_ep_attr *hint, uint32_t version)
{
	if (!hint)
		return 0;
	if (hint->type != FI_EP_UNSPEC && hint->type != FI_EP_RDM)
		return refuse("endpoint type %d: only FI_EP_RDM is offered", (int)hint->type);
	if (hint->protocol != FI_PROTO_UNSPEC && hint->protocol != BL_FI_PROTOCOL)
		return refuse("protocol %#x isn't Beeline's", (unsigned)hint->protocol);
	if (hint->protocol_version > BL_ADDR_VERSION)
		return refuse("protocol version %u is unknown", (unsigned)hint->protocol_version);
	if (hint->max_msg_size > BL_FI_MAX_MSG)
		return refuse("messages of %zu bytes: %zu are offered", hint->max_msg_size,
			      BL_FI_MAX_MSG);
	if ((hint->tx_ctx_cnt > 1 && hint->tx_ctx_cnt != FI_SHARED_CONTEXT) ||
	    (hint->rx_ctx_cnt > 1 && hint->rx_ctx_cnt != FI_SHARED_CONTEXT))
		return refuse("an endpoint has one context of each direction, or shares one");
	if (hint->msg_prefix_size)
		return refuse("FI_MSG_PREFIX is not offered");
	if (has_keys(version) && hint->auth_key_size)
		return refuse("authorization keys are not offered");
	return 0;
}

int bl_fi_check_tx(const struct fi_tx_attr *hint)
{
	if (!hint)
		return 0;
	/* Capabilities of the other direction are ignored, as libfabric does. */
	if (hint->caps & ~CAPS)
		return refuse("send capabilities %#llx are not offered",
			      (unsigned long long)(hint->caps & ~CAPS));
	if (hint->op_flags & ~BL_FI_TX_OP_FLAGS)
		return refuse("send flags %#llx are not offered",
			      (unsigned long long)(hint->op_flags & ~BL_FI_TX_OP_FLAGS));
	if (hint->msg_order & ~MSG_ORDER || hint->comp_order)
		return refuse("send order %#llx, completion order %#llx: FI_ORDER_SAS is offered",
			      (unsigned long long)hint->msg_order,
			      (unsigned long long)hint->comp_order);
	if (hint->inject_size > bl_inject_max())
		return refuse("injecting %zu bytes: %zu are offered", hint->inject_size,
			      bl_inject_max());
	if (hint->size > BL_FI_QUEUE_LIMIT || hint->iov_limit > BL_IOV_MAX ||
	    hint->rma_iov_limit > BL_RMA_IOV_MAX)
		return refuse(
			"send size %zu, iov limit %zu, RMA iov limit %zu: %d, %d, %d are offered",
			hint->size, hint->iov_limit, hint->rma_iov_limit, BL_FI_QUEUE_LIMIT,
			BL_IOV_MAX, BL_RMA_IOV_MAX);
	return 0;
}

int bl_fi_check_rx(const struct fi_rx_attr *hint)
{
	if (!hint)
		return 0;
	if (hint->caps & ~CAPS)
		return refuse("receive capabilities %#llx are not offered",
			      (unsigned long long)(hint->caps & ~CAPS));
	if (hint->op_flags & ~BL_FI_RX_OP_FLAGS)
		return refuse("receive flags %#llx are not offered",
			      (unsigned long long)(hint->op_flags & ~BL_FI_RX_OP_FLAGS));
	if (hint->msg_order & ~MSG_ORDER || hint->comp_order)
		return refuse(
			"receive order %#llx, completion order %#llx: FI_ORDER_SAS is offered",
			(unsigned long long)hint->msg_order, (unsigned long long)hint->comp_order);
	if (hint->size > BL_FI_QUEUE_LIMIT || hint->iov_limit > BL_IOV_MAX)
		return refuse("receive size %zu, iov limit %zu: %d, %d are offered", hint->size,
			      hint->iov_limit, BL_FI_QUEUE_LIMIT, BL_IOV_MAX);
	return 0;
}

/* Operations that one direction is to have must be among all. What else it wants, as libfabric
 * does, isn't compared; wants_directed(). */
static int check_subset(uint64_t all, uint64_t some)
{
	some &= TWO_SIDED | ONE_SIDED;
	all = bl_fi_answer_caps(all);
	if (some & ~all)
		return refuse("one direction's capabilities %#llx are not among all",
			      (unsigned long long)(some & ~all));
	return 0;
}

static int check_hints(const struct fi_info *hints, uint32_t version)
{
	if (!hints)
		return 0;
	if (hints->caps & ~CAPS)
		return refuse("capabilities %#llx are not offered",
			      (unsigned long long)(hints->caps & ~CAPS));
	if (hints->addr_format != FI_FORMAT_UNSPEC)
		return refuse("address format %u: only FI_FORMAT_UNSPEC is offered",
			      (unsigned)hints->addr_format);
	if (check_fabric(hints->fabric_attr) || check_domain(hints->domain_attr, version) ||
	    check_ep(hints->ep_attr, version) || bl_fi_check_tx(hints->tx_attr) ||
	    bl_fi_check_rx(hints->rx_attr))
		return -FI_ENODATA;
	if ((hints->tx_attr && check_subset(hints->caps, hints->tx_attr->caps & TX_CAPS)) ||
	    (hints->rx_attr && check_subset(hints->caps, hints->rx_attr->caps & RX_CAPS)))
		return -FI_ENODATA;
	if (hints->caps && !(hints->caps & FI_TRIGGER) &&
	    ((hints->tx_attr && hints->tx_attr->op_flags & FI_TRIGGER) ||
	     (hints->rx_attr && hints->rx_attr->op_flags & FI_TRIGGER)))
		return refuse("FI_TRIGGER among the operation flags goes with the capability");
	return 0;
}

/* --- the answer ------------------------------------------------------------------- */

static void free_info(struct fi_info *info)
{
	if (info->fabric_attr)
		free(info->fabric_attr->name);
	if (info->domain_attr)
		free(info->domain_attr->name);
	free(info->fabric_attr);
	free(info->domain_attr);
	free(info->ep_attr);
	free(info->rx_attr);
	free(info->tx_attr);
	free(info->src_addr);
	free(info->dest_addr);
	free(info);
}

/* Every part on its own, since libfabric's fi_freeinfo frees each. */
static struct fi_info *alloc_info(void)
{
	struct fi_info *info = calloc(1, ROOM);

	static_assert(sizeof(struct fi_info) < ROOM && sizeof(struct fi_domain_attr) < ROOM,
		      "room for newer fields");
	if (!info)
		return NULL;
	info->tx_attr = calloc(1, ROOM);
	info->rx_attr = calloc(1, ROOM);
	info->ep_attr = calloc(1, ROOM);
	info->domain_attr = calloc(1, ROOM);
	info->fabric_attr = calloc(1, ROOM);
	if (info->fabric_attr)
		info->fabric_attr->name = strdup(BL_FI_FABRIC);
	if (info->domain_attr)
		info->domain_attr->name = strdup(BL_FI_DOMAIN);
	if (info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr &&
	    info->fabric_attr && info->fabric_attr->name && info->domain_attr->name)
		return info;
	free_info(info);
	return NULL;
}

static void *copy_addr(const struct bl_addr *addr, size_t *len)
{
	void *copy = malloc(sizeof *addr);

	if (copy)
		memcpy(copy, addr, *len = sizeof *addr);
	return copy;
}

uint64_t bl_fi_answer_caps(uint64_t asked)
{
	uint64_t caps = asked ? (asked & (PRIMARY | DIRECTION)) | SECONDARY : CAPS;

	if (!(caps & (TWO_SIDED | ONE_SIDED)))
		caps |= TWO_SIDED | ONE_SIDED;
	if (caps & TWO_SIDED && !(caps & SEND_RECV))
		caps |= SEND_RECV;
	if (caps & ONE_SIDED && !(caps & READ_WRITE))
		caps |= READ_WRITE;
	return caps;
}

static size_t many(size_t asked)
{
	return asked > MANY ? asked : MANY;
}

static void fill_domain(struct fi_domain_attr *attr, const struct fi_domain_attr *hint,
			uint32_t version)
{
	attr->threading = FI_THREAD_SAFE;
	attr->control_progress = FI_PROGRESS_MANUAL;
	attr->data_progress = FI_PROGRESS_MANUAL;
	attr->resource_mgmt = FI_RM_ENABLED;
	attr->av_type = FI_AV_UNSPEC; /* either: the indices of a table are the map's values */
	/* Before API 1.5 the mode was one of two, of which 2 is FI_MR_SCALABLE. */
	attr->mr_mode = version < FI_VERSION(1, 5) ? 2 : 0;
	attr->mr_key_size = sizeof(uint64_t);
	attr->cq_data_size = CQ_DATA_SIZE;
	attr->cq_cnt = many(hint ? hint->cq_cnt : 0);
	attr->ep_cnt = many(hint ? hint->ep_cnt : 0);
	attr->tx_ctx_cnt = many(hint ? hint->tx_ctx_cnt : 0);
	attr->rx_ctx_cnt = many(hint ? hint->rx_ctx_cnt : 0);
	attr->max_ep_tx_ctx = 1;
	attr->max_ep_rx_ctx = 1;
	attr->max_ep_stx_ctx = MANY;
	attr->max_ep_srx_ctx = MANY;
	attr->cntr_cnt = many(hint ? hint->cntr_cnt : 0);
	attr->mr_iov_limit = BL_IOV_MAX;
	attr->mr_cnt = many(hint ? hint->mr_cnt : 0);
	attr->caps = DOMAIN_CAPS;
	if (!hint)
		return;
	/* The level asked for, not a stronger one: MPICH insists, and the levels
	 * below FI_THREAD_DOMAIN differ in nothing here. */
	if (hint->threading != FI_THREAD_UNSPEC)
		attr->threading = hint->threading;
	if (hint->control_progress != FI_PROGRESS_UNSPEC)
		attr->control_progress = hint->control_progress;
	if (hint->data_progress != FI_PROGRESS_UNSPEC)
		attr->data_progress = hint->data_progress;
	if (hint->av_type != FI_AV_UNSPEC)
		attr->av_type = hint->av_type;
	/* 1 and 2 are the whole modes FI_MR_BASIC and FI_MR_SCALABLE of API 1.4
	 * and before, which an application that knows no other expects back. */
	if (hint->mr_mode == 1 || hint->mr_mode == 2)
		attr->mr_mode = hint->mr_mode;
}

static void fill_ep(struct fi_ep_attr *attr, const struct fi_ep_attr *hint)
{
	attr->type = FI_EP_RDM;
	attr->protocol = BL_FI_PROTOCOL;
	attr->protocol_version = BL_ADDR_VERSION;
	attr->max_msg_size = BL_FI_MAX_MSG;
	attr->max_order_raw_size = SIZE_MAX; /* of whatever length */
	attr->max_order_war_size = SIZE_MAX;
	attr->max_order_waw_size = SIZE_MAX;
	attr->mem_tag_format = hint && hint->mem_tag_format ? hint->mem_tag_format : TAG_FORMAT;
	attr->tx_ctx_cnt = hint && hint->tx_ctx_cnt == FI_SHARED_CONTEXT ? FI_SHARED_CONTEXT : 1;
	attr->rx_ctx_cnt = hint && hint->rx_ctx_cnt == FI_SHARED_CONTEXT ? FI_SHARED_CONTEXT : 1;
}

/* Of one direction, all that the endpoint has, or what was asked of it and what is free. */
static uint64_t direction_caps(uint64_t caps, uint64_t asked)
{
	return asked ? caps & bl_fi_answer_caps(asked) : caps;
}

static void fill_tx(struct fi_tx_attr *attr, const struct fi_tx_attr *hint, uint64_t caps)
{
	attr->caps = direction_caps(caps, hint ? hint->caps & TX_CAPS : 0) & TX_CAPS;
	attr->msg_order = MSG_ORDER;
	attr->inject_size = bl_inject_max();
	attr->size = BL_FI_QUEUE_SIZE;
	attr->iov_limit = BL_IOV_MAX;
	attr->rma_iov_limit = BL_RMA_IOV_MAX;
	if (!hint)
		return;
	attr->op_flags = hint->op_flags;
	if (hint->size > attr->size)
		attr->size = hint->size;
}

static void fill_rx(struct fi_rx_attr *attr, const struct fi_rx_attr *hint, uint64_t caps)
{
	attr->caps = direction_caps(caps, hint ? hint->caps & RX_CAPS : 0) & RX_CAPS;
	attr->msg_order = MSG_ORDER;
	attr->size = BL_FI_QUEUE_SIZE;
	attr->iov_limit = BL_IOV_MAX;
	if (!hint)
		return;
	attr->op_flags = hint->op_flags;
	if (hint->size > attr->size)
		attr->size = hint->size;
}

/* Receives that name their source, by who says so of the receiving side alone. */
static bool wants_directed(const struct fi_info *hints)
{
	return hints && hints->rx_attr && hints->rx_attr->caps & FI_DIRECTED_RECV;
}

int bl_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		  const struct fi_info *hints, struct fi_info **out)
{
	struct fi_info *info;
	struct ends ends;
	uint64_t caps;
	int ret;

	ret = check_hints(hints, version);
	if (!ret)
		ret = find_ends(node, service, flags, hints, &ends);
	if (ret)
		return ret;
	info = alloc_info();
	if (!info)
		return -FI_ENOMEM;
	info->src_addr = copy_addr(&ends.src, &info->src_addrlen);
	if (ends.has_dest)
		info->dest_addr = copy_addr(&ends.dest, &info->dest_addrlen);
	if (!info->src_addr || (ends.has_dest && !info->dest_addr)) {
		free_info(info);
		return -FI_ENOMEM;
	}
	caps = bl_fi_answer_caps(hints ? hints->caps : 0);
	if (wants_directed(hints))
		caps |= FI_DIRECTED_RECV;
	info->caps = caps;
	info->addr_format = FI_FORMAT_UNSPEC;
	fill_tx(info->tx_attr, hints ? hints->tx_attr : NULL, caps);
	fill_rx(info->rx_attr, hints ? hints->rx_attr : NULL, caps);
	fill_ep(info->ep_attr, hints ? hints->ep_attr : NULL);
	fill_domain(info->domain_attr, hints ? hints->domain_attr : NULL, version);
	/* prov_name stays empty: libfabric writes it, and takes a provider that
	 * did for a utility layer. */
	info->fabric_attr->prov_version = BL_FI_VERSION;
	info->fabric_attr->api_version = version;
	*out = info;
	return 0;
}
