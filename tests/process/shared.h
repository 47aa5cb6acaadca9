/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * shared.h: what the cases of shared receive contexts begin with. Rank 0 has the context
 * and two endpoints on it, the others send to either.
 */
#ifndef BL_TESTS_PROCESS_SHARED_H
#define BL_TESTS_PROCESS_SHARED_H

#include "cases.h"

#include <string.h>

#define MEMBERS 2

struct group {
	struct t_node base; /* rank 0: only for its domain; others: their endpoint */
	struct fid_ep *srx;
	struct t_node member[MEMBERS];
	fi_addr_t to[MEMBERS];	    /* others: the members */
	fi_addr_t from[T_PROC_MAX]; /* rank 0: the others */
};

static inline struct fid_ep *open_srx(struct t_node *n, const struct t_opts *o)
{
	struct fi_info *hints = t_hints(o), *info;
	struct fid_ep *srx;

	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	if (t_getinfo(T_API, hints, &info))
		t_lacks("FI_SHARED_CONTEXT");
	T_EQ(info->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
	T_CHECK(info->domain_attr->max_ep_srx_ctx > 0, "max_ep_srx_ctx");
	T_OK(fi_srx_context(n->domain, info->rx_attr, &srx, NULL));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return srx;
}

static inline void start_group(struct group *g, const struct t_opts *usual)
{
	struct t_opts o = *usual;
	unsigned char names[MEMBERS + 1][T_NAME_MAX], all[T_PROC_MAX][MEMBERS + 1][T_NAME_MAX];

	memset(g, 0, sizeof(*g));
	memset(names, 0, sizeof(names));
	t_open(&g->base, &o);
	memcpy(names[MEMBERS], g->base.name, T_NAME_MAX);
	if (t_rank == 0) {
		o.srx = g->srx = open_srx(&g->base, usual);
		o.shared_av = g->base.av;
		for (int i = 0; i < MEMBERS; i++) {
			t_open_beside(&g->member[i], &g->base, &o);
			memcpy(names[i], g->member[i].name, T_NAME_MAX);
		}
	}
	t_allgather(names, sizeof(names), all, t_progress);
	if (t_rank != 0)
		for (int i = 0; i < MEMBERS; i++)
			g->to[i] = t_insert(&g->base, all[0][i]);
	else
		for (int p = 1; p < t_nproc; p++)
			g->from[p] = t_insert(&g->base, all[p][MEMBERS]);
}

static inline void finish_group(struct group *g)
{
	t_barrier();
	if (t_rank == 0) {
		for (int i = 0; i < MEMBERS; i++)
			t_close(&g->member[i]);
		T_OK(fi_close(&g->srx->fid));
	}
	t_close(&g->base);
}

#endif
