/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * self.c: messages to the endpoint itself, and between endpoints of one process,
 * in one domain and in several.
 */
#include "cases.h"

#include <stdlib.h>

static const size_t lens[] = {0, 8, 41, 289, 5000, 20000, 100000, 3000000};
#define NLENS 8

/* Endpoint a sends each length to b (which may be a), receive first or message first. */
static void exchange(struct t_node *a, struct t_node *b, fi_addr_t to, bool unexpected, bool tagged)
{
	for (uint64_t i = 0; i < NLENS; i++) {
		struct t_buf out = t_buf(lens[i], 1), in = t_buf(lens[i], 2);
		struct t_op tx = {0}, rx = {0};

		t_fill(out.p, lens[i], i, 0);
		for (int step = 0; step < 2; step++) {
			if (step == unexpected) {
				if (tagged)
					t_trecv(b, FI_ADDR_UNSPEC, in.p, lens[i], i, 0, &rx);
				else
					T_TRY(fi_recv(b->ep, in.p, lens[i], NULL, FI_ADDR_UNSPEC,
						      &rx));
			} else if (tagged) {
				T_TRY(fi_tsend(a->ep, out.p, lens[i], NULL, to, i, &tx));
			} else {
				T_TRY(fi_send(a->ep, out.p, lens[i], NULL, to, &tx));
			}
			for (int k = 0; k < 50; k++)
				t_progress();
		}
		T_WAIT(&rx);
		T_WAIT(&tx);
		T_EQ(rx.c.len, lens[i]);
		T_GOT(&in, lens[i], i);
		if (b->o.caps & FI_SOURCE)
			T_EQ(rx.c.src, b->peer[0]);
		t_buf_free(&out);
		t_buf_free(&in);
	}
}

static void self(bool unexpected)
{
	struct t_opts o = {.caps = FI_SOURCE};
	struct t_node n;

	t_start(&n, &o);
	exchange(&n, &n, n.peer[0], unexpected, true);
	exchange(&n, &n, n.peer[0], unexpected, false);
	t_finish(&n);
}

static void self_expected(void)
{
	self(false);
}

static void self_unexpected(void)
{
	self(true);
}

/* Many to itself before any receive: injects, and sends that stay pending. */
static void self_flood(void)
{
	enum { N = 500 };
	struct t_node n;
	struct t_op *tx = calloc(N, sizeof(*tx));
	struct t_buf out[N];

	t_start(&n, NULL);
	for (uint64_t i = 0; i < N; i++) {
		size_t len = lens[i % 7];

		out[i] = t_buf(len, 0);
		t_fill(out[i].p, len, i, 0);
		t_tsend(&n, 0, out[i].p, len, i, &tx[i]);
	}
	for (uint64_t k = 0; k < N; k++) {
		uint64_t i = (k * 7 + 3) % N; /* N and 7 have no common factor */
		size_t len = lens[i % 7];
		struct t_buf in = t_buf(len, 5);
		struct t_op rx = {0};

		t_trecv(&n, FI_ADDR_UNSPEC, in.p, len, i, 0, &rx);
		T_WAIT(&rx);
		T_GOT(&in, len, i);
		T_WAIT(&tx[i]);
		t_buf_free(&in);
		t_buf_free(&out[i]);
	}
	t_finish(&n);
	free(tx);
}

static void self_cut(void)
{
	struct t_node n;

	t_start(&n, NULL);
	for (uint64_t i = 1; i < NLENS; i++) {
		struct t_buf out = t_buf(lens[i], 1), in = t_buf(lens[i] / 2, 2);
		struct t_op tx = {0}, rx = {0};

		t_fill(out.p, lens[i], i, 0);
		t_trecv(&n, FI_ADDR_UNSPEC, in.p, in.len, i, 0, &rx);
		t_tsend(&n, 0, out.p, lens[i], i, &tx);
		T_WAIT_ERR(&rx, FI_ETRUNC);
		T_WAIT(&tx);
		T_GOT(&in, in.len, i);
		t_buf_free(&out);
		t_buf_free(&in);
	}
	t_finish(&n);
}

/* Two endpoints in one process. */
static void pair(bool one_domain, enum fi_threading threading)
{
	struct t_opts o = {.threading = threading};
	struct t_node a, b;
	fi_addr_t a_to_b, b_to_a;

	t_open(&a, &o);
	if (one_domain)
		t_open_beside(&b, &a, &o);
	else
		t_open(&b, &o);
	a_to_b = t_insert(&a, b.name);
	b_to_a = t_insert(&b, a.name);
	for (int unexpected = 0; unexpected < 2; unexpected++) {
		exchange(&a, &b, a_to_b, unexpected, true);
		exchange(&b, &a, b_to_a, unexpected, false);
	}
	t_close(&b);
	t_close(&a);
}

static void pair_one_domain(void)
{
	pair(true, FI_THREAD_UNSPEC);
}

static void pair_two_domains(void)
{
	pair(false, FI_THREAD_UNSPEC);
}

static void pair_safe(void)
{
	pair(true, FI_THREAD_SAFE);
	pair(false, FI_THREAD_SAFE);
}

/* Three processes with four endpoints each, in two domains: all to all. */
static void many_endpoints(void)
{
	enum { E = 4, P = 3 };
	struct t_node n[E];
	unsigned char mine[E][T_NAME_MAX], all[P][E][T_NAME_MAX];
	fi_addr_t to[E][P][E];
	struct t_op tx[P][E] = {0}, rx[P][E] = {0};
	uint64_t v[P][E], got[P][E];

	for (int e = 0; e < E; e++) {
		if (e < 2)
			t_open(&n[e], NULL);
		else
			t_open_beside(&n[e], &n[e - 2], NULL);
		for (size_t i = 0; i < T_NAME_MAX; i++)
			mine[e][i] = n[e].name[i];
	}
	t_allgather(mine, sizeof(mine), all, t_progress);
	for (int e = 0; e < E; e++)
		for (int p = 0; p < P; p++)
			for (int f = 0; f < E; f++)
				to[e][p][f] = t_insert(&n[e], all[p][f]);
	for (int e = 0; e < E; e++) { /* which of my endpoints sends */
		for (int p = 0; p < P; p++)
			for (int f = 0; f < E; f++) {
				tx[p][f] = (struct t_op){0};
				rx[p][f] = (struct t_op){0};
				/* f receives what endpoint e of process p sends it */
				t_trecv(&n[f], FI_ADDR_UNSPEC, &got[p][f], 8,
					(uint64_t)(p * 100 + e * 10 + f), 0, &rx[p][f]);
			}
		for (int p = 0; p < P; p++)
			for (int f = 0; f < E; f++) {
				v[p][f] = (uint64_t)(t_rank * 1000 + p * 100 + e * 10 + f);
				T_TRY(fi_tsend(n[e].ep, &v[p][f], 8, NULL, to[e][p][f],
					       (uint64_t)(t_rank * 100 + e * 10 + f), &tx[p][f]));
			}
		for (int p = 0; p < P; p++)
			for (int f = 0; f < E; f++) {
				T_WAIT(&tx[p][f]);
				T_WAIT(&rx[p][f]);
				T_EQ(got[p][f], p * 1000 + t_rank * 100 + e * 10 + f);
			}
	}
	t_barrier();
	for (int e = E - 1; e >= 0; e--)
		t_close(&n[e]);
}

static const struct t_case cases[] = {
	{"self_expected", 1, self_expected, "to itself, receive first", 0},
	{"self_unexpected", 1, self_unexpected, "to itself, message first", 0},
	{"self_flood", 1, self_flood, "500 pending messages to itself", 0},
	{"self_cut", 1, self_cut, "to itself, truncated", 0},
	{"pair_one_domain", 1, pair_one_domain, "two endpoints of a domain", 0},
	{"pair_two_domains", 1, pair_two_domains, "two domains of a process", 0},
	{"pair_safe", 1, pair_safe, "the same under FI_THREAD_SAFE", 0},
	{"many_endpoints", 3, many_endpoints, "12 endpoints, all to all", 0},
};

const struct t_group group_self = T_GROUP("self", cases);
