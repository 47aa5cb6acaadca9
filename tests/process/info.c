/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * info.c: fi_getinfo: what is offered, what is refused, and that nothing is
 * advertised that isn't there. What only Beeline promises is checked for it alone.
 */
#include "cases.h"

#include <rdma/fi_rma.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fi_info *must_find(const struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int rc = t_getinfo(T_API, hints, &info);

	T_CHECK(rc == 0 && info, "fi_getinfo: %s", fi_strerror(-rc));
	return info;
}

static int find(const struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int rc = t_getinfo(T_API, hints, &info);

	if (rc == 0)
		fi_freeinfo(info);
	return rc;
}

/* Names of providers below utilities end in ";ofi_..." */
static bool ours(const struct fi_info *info)
{
	return !strcmp(info->fabric_attr->prov_name, t_provider);
}

static void check_full(const struct fi_info *info)
{
	T_CHECK(info->fabric_attr && info->domain_attr && info->ep_attr && info->tx_attr &&
			info->rx_attr,
		"parts are missing");
	T_CHECK(info->fabric_attr->name && info->fabric_attr->name[0], "no fabric name");
	T_CHECK(info->domain_attr->name && info->domain_attr->name[0], "no domain name");
	T_CHECK(info->caps & FI_TAGGED && info->caps & FI_MSG, "caps 0x%llx",
		(unsigned long long)info->caps);
	T_EQ(info->ep_attr->type, FI_EP_RDM);
	T_CHECK(info->ep_attr->max_msg_size >= (size_t)1 << 30, "max_msg_size %zu",
		info->ep_attr->max_msg_size);
	T_CHECK(info->tx_attr->inject_size > 0, "inject_size");
	T_CHECK(info->tx_attr->size > 0 && info->rx_attr->size > 0, "queue sizes");
	T_CHECK(info->domain_attr->cq_data_size >= 4, "cq_data_size");
}

/* No hints at all: everything we are, and fi_dupinfo survives it. */
static void null_hints(void)
{
	struct fi_info *info = NULL, *dup;
	int seen = 0;
	int rc = t_getinfo(T_API, NULL, &info);

	T_CHECK(rc == 0, "fi_getinfo without hints: %s", fi_strerror(-rc));
	for (struct fi_info *i = info; i; i = i->next) {
		if (!ours(i))
			continue;
		if (t_beeline)
			check_full(i);
		dup = fi_dupinfo(i);
		T_CHECK(dup, "fi_dupinfo");
		fi_freeinfo(dup);
		seen++;
	}
	T_CHECK(seen, "%s isn't in the list", t_provider);
	fi_freeinfo(info);
}

/* What issue and manual promise, asked for all at once with no mode bits. */
static void full(void)
{
	struct t_opts o = {.caps = FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_SEND |
				   FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM,
			   .iov = 8,
			   .cq_data = true};
	struct fi_info *hints = t_hints(&o), *info;

	if (!t_beeline)
		t_skip("what ours promises");
	info = must_find(hints);
	check_full(info);
	T_EQ(info->caps & o.caps, o.caps);
	T_EQ(info->mode, 0);
	T_EQ(info->domain_attr->mr_mode, 0);
	T_CHECK(info->tx_attr->iov_limit >= 8 && info->rx_attr->iov_limit >= 8, "iov_limit");
	T_CHECK(info->tx_attr->msg_order & FI_ORDER_SAS && info->rx_attr->msg_order & FI_ORDER_SAS,
		"order");
	T_EQ(info->domain_attr->cq_data_size, 8);
	T_CHECK(info->domain_attr->resource_mgmt == FI_RM_ENABLED, "resource_mgmt");
	fi_freeinfo(hints);
	fi_freeinfo(info);
}

/* What isn't there is refused, never silently dropped. */
static void refused_caps(void)
{
	static const struct {
		uint64_t cap;
		const char *name;
		bool never; /* not in this provider at all */
	} caps[] = {
		{FI_RMA, "FI_RMA", false},
		{FI_RMA | FI_READ | FI_WRITE, "FI_RMA|FI_READ|FI_WRITE", false},
		{FI_ATOMIC, "FI_ATOMIC", false},
		{FI_HMEM, "FI_HMEM", true},
		{FI_MULTICAST, "FI_MULTICAST", true},
		{FI_COLLECTIVE, "FI_COLLECTIVE", true},
		{FI_NAMED_RX_CTX, "FI_NAMED_RX_CTX", true},
		{FI_VARIABLE_MSG, "FI_VARIABLE_MSG", true},
		{FI_RMA_PMEM, "FI_RMA_PMEM", true},
		{FI_TRIGGER, "FI_TRIGGER", false},
		{FI_FENCE, "FI_FENCE", false},
	};

	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		struct fi_info *hints = t_hints(&(struct t_opts){.caps = caps[i].cap});
		struct fi_info *info = NULL;
		int rc = t_getinfo(T_API, hints, &info);

		if (rc == 0) {
			T_CHECK((info->caps & caps[i].cap) == caps[i].cap, "%s dropped silently",
				caps[i].name);
			T_CHECK(!t_beeline || !caps[i].never, "%s is claimed", caps[i].name);
			fi_freeinfo(info);
		} else {
			T_CHECK(rc == -FI_ENODATA, "%s: %s", caps[i].name, fi_strerror(-rc));
		}
		fi_freeinfo(hints);
	}
}

/* Operation flags that need a capability go with it: what is offered can be opened. */
static void trigger_flags(void)
{
	for (int side = 0; t_beeline && side < 2; side++) {
		struct fi_info *hints = t_hints(&(struct t_opts){0}), *info = NULL;

		*(side ? &hints->tx_attr->op_flags : &hints->rx_attr->op_flags) = FI_TRIGGER;
		T_EQ(t_getinfo(T_API, hints, &info), -FI_ENODATA);
		hints->caps |= FI_TRIGGER;
		T_OK(t_getinfo(T_API, hints, &info));
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* Operations that are not advertised fail; they do not crash. */
static void refused_operations(void)
{
	struct t_node n;
	char b[8] = {0};
	struct fid_mr *mr = NULL;
	struct fid_cq *cq = NULL;
	struct fi_cq_attr fd = {.wait_obj = FI_WAIT_FD};
	struct t_op op;

	if (!t_beeline)
		t_skip("what ours promises");
	t_start(&n, NULL);
	if (!(n.info->caps & FI_RMA)) {
		T_CHECK(n.ep->rma && n.ep->atomic, "MPIs look into ep->rma and ep->atomic");
		T_CHECK(fi_write(n.ep, b, 8, NULL, n.peer[0], 0, 0, &op) < 0, "write");
		T_CHECK(fi_read(n.ep, b, 8, NULL, n.peer[0], 0, 0, &op) < 0, "read");
	}
	/* With mr_mode 0 a registration is optional, and may succeed or be refused. */
	if (fi_mr_reg(n.domain, b, 8, FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL) == 0)
		T_OK(fi_close(&mr->fid));
	if (fi_cq_open(n.domain, &fd, &cq, NULL) == 0)
		T_OK(fi_close(&cq->fid));
	t_finish(&n);
}

static void ep_types(void)
{
	static const enum fi_ep_type types[] = {FI_EP_MSG, FI_EP_DGRAM, FI_EP_SOCK_STREAM};
	struct fi_info *hints = t_hints(&(struct t_opts){0});

	T_EQ(find(hints), 0);
	hints->ep_attr->type = FI_EP_UNSPEC;
	T_EQ(find(hints), 0);
	if (!t_beeline)
		t_skip("others may have other types");
	for (int i = 0; i < 3; i++) {
		hints->ep_attr->type = types[i];
		T_EQ(find(hints), -FI_ENODATA);
	}
	fi_freeinfo(hints);
}

static void names(void)
{
	struct fi_info *hints = t_hints(&(struct t_opts){0}), *info = must_find(hints);

	hints->fabric_attr->name = strdup(info->fabric_attr->name);
	T_EQ(find(hints), 0);
	hints->domain_attr->name = strdup(info->domain_attr->name);
	T_EQ(find(hints), 0);
	if (!t_beeline)
		t_skip("names are found; others do not refuse wrong ones");
	free(hints->domain_attr->name);
	hints->domain_attr->name = strdup("no such domain");
	T_EQ(find(hints), -FI_ENODATA);
	free(hints->domain_attr->name);
	hints->domain_attr->name = NULL;
	free(hints->fabric_attr->name);
	hints->fabric_attr->name = strdup("no such fabric");
	T_EQ(find(hints), -FI_ENODATA);
	fi_freeinfo(hints);
	fi_freeinfo(info);
}

/* MPICH wants back the level that it asked for. */
static void threading(void)
{
	static const enum fi_threading levels[] = {FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN,
						   FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT};
	struct fi_info *hints, *info;

	for (int i = 0; i < 5; i++) {
		hints = t_hints(&(struct t_opts){.threading = levels[i]});
		if (!t_beeline && find(hints)) {
			fi_freeinfo(hints);
			continue;
		}
		info = must_find(hints);
		if (t_beeline)
			T_CHECK(info->domain_attr->threading == levels[i] ||
					info->domain_attr->threading == FI_THREAD_SAFE,
				"asked for threading %d, got %d", levels[i],
				info->domain_attr->threading);
		if (t_beeline && levels[i] == FI_THREAD_DOMAIN)
			T_EQ(info->domain_attr->threading, FI_THREAD_DOMAIN);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

static void av_types(void)
{
	static const enum fi_av_type types[] = {FI_AV_UNSPEC, FI_AV_TABLE, FI_AV_MAP};

	for (int i = 0; i < 3; i++) {
		struct fi_info *hints = t_hints(&(struct t_opts){.av = types[i]});
		struct fi_info *info = must_find(hints);

		if (types[i] != FI_AV_UNSPEC)
			T_CHECK(info->domain_attr->av_type == types[i] ||
					info->domain_attr->av_type == FI_AV_UNSPEC,
				"av_type");
		else if (t_beeline) /* a type in the answer would be taken for the only one */
			T_EQ(info->domain_attr->av_type, FI_AV_UNSPEC);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* Before 1.5 there were two modes of registration, and the answer had to be one. */
static void old_mr_modes(void)
{
	for (int mode = 0; mode < 3; mode++) { /* any, FI_MR_BASIC, FI_MR_SCALABLE */
		struct fi_info *hints = t_hints(&(struct t_opts){0}), *info = NULL;

		if (!t_beeline)
			t_skip("others differ");
		hints->domain_attr->mr_mode = mode;
		T_OK(t_getinfo(FI_VERSION(1, 4), hints, &info));
		T_EQ(info->domain_attr->mr_mode, mode ? mode : 2);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* An application that offers registrations it needn't make is served, too. */
static void mr_modes(void)
{
	static const int modes[] = {0, FI_MR_LOCAL,
				    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
					    FI_MR_PROV_KEY | FI_MR_ENDPOINT,
				    FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY};

	for (int i = 0; i < 4; i++) {
		struct fi_info *hints = t_hints(&(struct t_opts){0}), *info;

		hints->domain_attr->mr_mode = modes[i];
		info = must_find(hints);
		T_CHECK(!(info->domain_attr->mr_mode & ~modes[i]), "mr_mode 0x%x for 0x%x",
			info->domain_attr->mr_mode, modes[i]);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* Attributes beyond what there is are refused. */
static void limits(void)
{
	struct fi_info *hints, *info, *plain;

	if (!t_beeline)
		t_skip("others are not strict here");
	hints = t_hints(&(struct t_opts){0});
	plain = must_find(hints);
	hints->tx_attr->inject_size = plain->tx_attr->inject_size;
	info = must_find(hints);
	T_CHECK(info->tx_attr->inject_size >= plain->tx_attr->inject_size, "inject_size");
	fi_freeinfo(info);
	hints->tx_attr->inject_size = (size_t)1 << 40;
	T_EQ(find(hints), -FI_ENODATA);
	hints->tx_attr->inject_size = 0;
	hints->tx_attr->iov_limit = plain->tx_attr->iov_limit + 1;
	T_EQ(find(hints), -FI_ENODATA);
	hints->tx_attr->iov_limit = 0;
	T_CHECK(plain->tx_attr->rma_iov_limit >= 1024, "rma_iov_limit");
	hints->tx_attr->rma_iov_limit = plain->tx_attr->rma_iov_limit + 1;
	T_EQ(find(hints), -FI_ENODATA);
	hints->tx_attr->rma_iov_limit = 0;
	hints->rx_attr->iov_limit = plain->rx_attr->iov_limit + 1;
	T_EQ(find(hints), -FI_ENODATA);
	hints->rx_attr->iov_limit = 0;
	hints->domain_attr->cq_data_size = 9;
	T_EQ(find(hints), -FI_ENODATA);
	hints->domain_attr->cq_data_size = 0;
	hints->domain_attr->mr_key_size = plain->domain_attr->mr_key_size + 1;
	T_EQ(find(hints), -FI_ENODATA);
	hints->domain_attr->mr_key_size = 0;
	hints->domain_attr->mr_iov_limit = plain->domain_attr->mr_iov_limit + 1;
	T_EQ(find(hints), -FI_ENODATA);
	hints->domain_attr->mr_iov_limit = 0;
	hints->domain_attr->max_err_data = 1;
	T_EQ(find(hints), -FI_ENODATA);
	hints->domain_attr->max_err_data = 0;
	hints->ep_attr->msg_prefix_size = 1;
	T_EQ(find(hints), -FI_ENODATA);
	hints->ep_attr->msg_prefix_size = 0;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	T_EQ(find(hints), 0);
	fi_freeinfo(plain);
	fi_freeinfo(hints);
}

/* What is offered is no less than what was asked for: of what has no limit but memory. */
static void unlimited(void)
{
	struct fi_info *hints = t_hints(&(struct t_opts){0}), *info;
	struct fi_domain_attr *asked = hints->domain_attr, *got;
	size_t many = 1 << 20;

	if (!t_beeline)
		t_skip("others have limits");
	asked->cq_cnt = asked->ep_cnt = asked->cntr_cnt = many;
	asked->tx_ctx_cnt = asked->rx_ctx_cnt = asked->mr_cnt = many;
	hints->ep_attr->max_order_raw_size = hints->ep_attr->max_order_war_size =
		hints->ep_attr->max_order_waw_size = SIZE_MAX;
	info = must_find(hints);
	got = info->domain_attr;
	T_CHECK(got->cq_cnt >= many && got->ep_cnt >= many && got->cntr_cnt >= many &&
			got->tx_ctx_cnt >= many && got->rx_ctx_cnt >= many && got->mr_cnt >= many,
		"fewer objects");
	T_CHECK(info->ep_attr->max_order_raw_size == SIZE_MAX &&
			info->ep_attr->max_order_war_size == SIZE_MAX &&
			info->ep_attr->max_order_waw_size == SIZE_MAX,
		"an order that ends");
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* One direction has what was asked of it, which was asked of all; with that, shared contexts can
 * be bound. */
static void directions(void)
{
	struct fi_info *hints = t_hints(&(struct t_opts){0}), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_stx *stx;
	struct fid_ep *ep, *srx;

	if (!t_beeline)
		t_skip("others differ");
	hints->caps = FI_MSG;
	hints->tx_attr->caps = FI_ATOMIC;
	T_EQ(find(hints), -FI_ENODATA);
	hints->tx_attr->caps = 0;
	hints->rx_attr->caps = FI_TAGGED;
	T_EQ(find(hints), -FI_ENODATA);
	hints->rx_attr->caps = FI_DIRECTED_RECV; /* said of one direction alone */
	info = must_find(hints);
	T_CHECK(info->caps & FI_DIRECTED_RECV && info->rx_attr->caps & FI_DIRECTED_RECV,
		"not granted");
	fi_freeinfo(info);
	hints->caps = FI_SOURCE; /* and all kinds of messages */
	hints->rx_attr->caps = FI_TAGGED;
	T_EQ(find(hints), 0);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
	hints->tx_attr->caps = FI_MSG;
	hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	info = must_find(hints);
	T_EQ(info->tx_attr->caps & (FI_MSG | FI_TAGGED | FI_RMA | FI_SEND), FI_MSG | FI_SEND);
	T_EQ(info->rx_attr->caps & (FI_MSG | FI_TAGGED | FI_RMA | FI_RECV), FI_TAGGED | FI_RECV);
	T_OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	T_OK(fi_domain(fabric, info, &domain, NULL));
	T_OK(fi_endpoint(domain, info, &ep, NULL));
	T_OK(fi_stx_context(domain, hints->tx_attr, &stx, NULL));
	T_OK(fi_srx_context(domain, hints->rx_attr, &srx, NULL));
	T_OK(fi_ep_bind(ep, &stx->fid, 0));
	T_OK(fi_ep_bind(ep, &srx->fid, 0));
	T_OK(fi_close(&ep->fid));
	T_OK(fi_close(&stx->fid));
	T_OK(fi_close(&srx->fid));
	/* A context with less than its endpoint isn't bound. */
	info->tx_attr->caps |= FI_TAGGED;
	T_OK(fi_endpoint(domain, info, &ep, NULL));
	T_OK(fi_stx_context(domain, hints->tx_attr, &stx, NULL));
	T_EQ(fi_ep_bind(ep, &stx->fid, 0), -FI_EINVAL);
	T_OK(fi_close(&ep->fid));
	T_OK(fi_close(&stx->fid));
	T_OK(fi_close(&domain->fid));
	T_OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* Applications of other ages ask with their own version. */
static void versions(void)
{
	static const uint32_t v[] = {FI_VERSION(1, 5), FI_VERSION(1, 9), FI_VERSION(1, 14),
				     FI_VERSION(1, 17)};

	for (int i = 0; i < 4; i++) {
		struct fi_info *hints = t_hints(&(struct t_opts){0}), *info = NULL;
		int rc = t_getinfo(v[i], hints, &info);

		T_CHECK(rc == 0, "version %u.%u: %s", FI_MAJOR(v[i]), FI_MINOR(v[i]),
			fi_strerror(-rc));
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* The caller narrows caps; the endpoint must open with what came back. */
static void narrowed(void)
{
	static const uint64_t caps[] = {FI_TAGGED, FI_MSG, FI_TAGGED | FI_SEND,
					FI_TAGGED | FI_SEND | FI_RECV, FI_MSG | FI_RECV};

	for (int i = 0; i < 5; i++) {
		struct fi_info *hints = t_hints(&(struct t_opts){0}), *info;
		struct fid_fabric *fabric;
		struct fid_domain *domain;
		struct fid_ep *ep;

		hints->caps = caps[i];
		info = must_find(hints);
		T_EQ(info->caps & caps[i], caps[i]);
		T_OK(fi_fabric(info->fabric_attr, &fabric, NULL));
		T_OK(fi_domain(fabric, info, &domain, NULL));
		T_OK(fi_endpoint(domain, info, &ep, NULL));
		T_OK(fi_close(&ep->fid));
		T_OK(fi_close(&domain->fid));
		T_OK(fi_close(&fabric->fid));
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* Automatic progress isn't offered, for data nor control; that the application serialises
 * both (3, since libfabric 2.0) says something of control only. */
static void progress(void)
{
	static const struct {
		int model;
		bool control, data;
	} rows[] = {
		{FI_PROGRESS_UNSPEC, true, true},
		{FI_PROGRESS_MANUAL, true, true},
		{FI_PROGRESS_AUTO, false, false},
		{3, true, false},
		{4, false, false},
	};

	if (!t_beeline)
		t_skip("others differ");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fi_info *hints = t_hints(&(struct t_opts){0});

		t_at("model %d", rows[i].model);
		hints->domain_attr->control_progress = rows[i].model;
		T_EQ(find(hints), rows[i].control ? 0 : -FI_ENODATA);
		hints->domain_attr->control_progress = FI_PROGRESS_UNSPEC;
		hints->domain_attr->data_progress = rows[i].model;
		T_EQ(find(hints), rows[i].data ? 0 : -FI_ENODATA);
		fi_freeinfo(hints);
	}
}

/* So many operations as an endpoint says are taken, whatever the other side does. */
static void size_left(void)
{
	struct t_node n;
	ssize_t left;
	char c[8];

	t_start(&n, NULL);
	t_barrier();
	if (t_rank == 0) {
		left = n.ep->ops->tx_size_left(n.ep);
		T_CHECK(left >= 0 || left == -FI_ENOSYS, "%zd", left);
		for (ssize_t i = 0; i < left; i++) {
			ssize_t rc = fi_inject(n.ep, c, 8, n.peer[1]);

			T_CHECK(!rc, "send %zd of %zd: %s", i, left, fi_strerror((int)-rc));
		}
	}
	t_allgather(NULL, 0, NULL, NULL); /* rank 1 reads nothing */
	left = n.ep->ops->rx_size_left(n.ep);
	T_CHECK(left >= 0 || left == -FI_ENOSYS, "%zd", left);
	for (ssize_t i = 0; i < left; i++) {
		ssize_t rc = fi_trecv(n.ep, c, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL);

		T_CHECK(!rc, "receive %zd of %zd: %s", i, left, fi_strerror((int)-rc));
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"info_null_hints", 1, null_hints, "no hints: a full description", 0},
	{"info_full", 1, full, "everything promised at once", 0},
	{"info_refused_caps", 1, refused_caps, "refused, never dropped", 0},
	{"info_trigger_flags", 1, trigger_flags, "FI_TRIGGER as a flag without the capability", 0},
	{"info_refused_operations", 1, refused_operations, "what isn't there fails", 0},
	{"info_ep_types", 1, ep_types, "FI_EP_RDM only", 0},
	{"info_names", 1, names, "fabric and domain by name", 0},
	{"info_threading", 1, threading, "the level asked for comes back", 0},
	{"info_av_types", 1, av_types, "table and map", 0},
	{"info_mr_modes", 1, mr_modes, "no registration needed", 0},
	{"info_limits", 1, limits, "beyond the limits: refused", 0},
	{"info_unlimited", 1, unlimited, "no less than asked for", 0},
	{"info_directions", 1, directions, "capabilities of one direction", 0},
	{"info_old_mr_modes", 1, old_mr_modes, "registration modes before API 1.5", 0},
	{"info_versions", 1, versions, "interfaces 1.5 to 1.17", 0},
	{"info_progress", 1, progress, "manual, by the application", 0},
	{"info_size_left", 2, size_left, "no promise that isn't kept", 0},
	{"info_narrowed", 1, narrowed, "fewer capabilities", 0},
};

const struct t_group group_info = T_GROUP("info", cases);
