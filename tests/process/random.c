/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * random.c: everybody to everybody, itself included, with random lengths, in random
 * order of posts, by every kind of call; each byte is checked. Both sides of a pair
 * compute the same schedule from the same stream of random numbers.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

/* What happens to message k of the pair (from, to) in a round. */
struct plan {
	size_t len;
	uint64_t seed;
	bool tagged;
	bool data;
	int how; /* which send call */
};

enum { SEND, SENDDATA, INJECT, SENDV, SENDMSG, HOWS };

static struct plan plan_for(int round, int from, int to, int k, size_t max, size_t inject)
{
	struct t_rng rng;
	struct plan p = {0};

	t_rng_init(&rng, ((uint64_t)round << 40) + ((uint64_t)from << 32) + ((uint64_t)to << 24) +
				 (uint64_t)k);
	p.seed = t_rand(&rng) | 1;
	p.len = t_rand_size(&rng, max);
	p.tagged = t_rand_below(&rng, 4);
	p.how = (int)t_rand_below(&rng, HOWS);
	if (p.how == INJECT && p.len > inject)
		p.how = SEND;
	p.data = p.how == SENDDATA || (p.how == INJECT && p.seed & 2);
	return p;
}

static uint64_t tag_of(int from, int k)
{
	return (uint64_t)from << 32 | (uint64_t)k << 1;
}

static void send_planned(struct t_node *n, int to, int k, const struct plan *p, struct t_buf *b,
			 struct t_op *op)
{
	fi_addr_t dest = n->peer[to];
	uint64_t tag = tag_of(t_rank, k), data = p->seed;
	size_t half = p->len / 3;
	struct iovec iov[2];
	struct fi_msg m = {.msg_iov = iov, .iov_count = 2, .addr = dest, .context = op};
	struct fi_msg_tagged tm = {
		.msg_iov = iov, .iov_count = 2, .addr = dest, .tag = tag, .context = op};

	*b = t_buf(p->len, p->seed >> 8);
	t_fill(b->p, p->len, p->seed, 0);
	iov[0] = (struct iovec){b->p, half};
	iov[1] = (struct iovec){b->p + half, p->len - half};
	switch (p->how) {
	case SEND:
		if (p->tagged)
			T_TRY(fi_tsend(n->ep, b->p, p->len, NULL, dest, tag, op));
		else
			T_TRY(fi_send(n->ep, b->p, p->len, NULL, dest, op));
		break;
	case SENDDATA:
		if (p->tagged)
			T_TRY(fi_tsenddata(n->ep, b->p, p->len, NULL, data, dest, tag, op));
		else
			T_TRY(fi_senddata(n->ep, b->p, p->len, NULL, data, dest, op));
		break;
	case INJECT:
		if (p->tagged && p->data)
			T_TRY(fi_tinjectdata(n->ep, b->p, p->len, data, dest, tag));
		else if (p->tagged)
			T_TRY(fi_tinject(n->ep, b->p, p->len, dest, tag));
		else if (p->data)
			T_TRY(fi_injectdata(n->ep, b->p, p->len, data, dest));
		else
			T_TRY(fi_inject(n->ep, b->p, p->len, dest));
		t_blank(b);
		break;
	case SENDV:
		if (p->tagged)
			T_TRY(fi_tsendv(n->ep, iov, NULL, 2, dest, tag, op));
		else
			T_TRY(fi_sendv(n->ep, iov, NULL, 2, dest, op));
		break;
	case SENDMSG:
		if (p->tagged)
			T_TRY(fi_tsendmsg(n->ep, &tm, FI_COMPLETION | FI_DELIVERY_COMPLETE));
		else
			T_TRY(fi_sendmsg(n->ep, &m, FI_COMPLETION));
		break;
	}
}

static void check_received(const struct t_node *n, int from, const struct plan *p,
			   const struct t_buf *b, const struct t_op *op)
{
	T_CHECK(op->c.len == p->len, "%zu bytes from rank %d, not %zu (way %d)", op->c.len, from,
		p->len, p->how);
	T_EQ(op->c.src, n->peer[from]);
	T_GOT(b, p->len, p->seed);
	if (t_beeline || !p->data) {
		T_EQ(!!(op->c.flags & FI_REMOTE_CQ_DATA), p->data);
		if (p->data)
			T_EQ(op->c.data, p->seed);
	}
}

static void round_of(struct t_node *n, int round, int each, size_t max)
{
	int total = each * t_nproc, *order = calloc((size_t)total * 2, sizeof(int));
	struct plan *out = calloc((size_t)total, sizeof(*out));
	struct plan *in = calloc((size_t)total, sizeof(*in));
	struct t_op *tx = calloc((size_t)total, sizeof(*tx));
	struct t_op *rx = calloc((size_t)total, sizeof(*rx));
	struct t_buf *ob = calloc((size_t)total, sizeof(*ob));
	struct t_buf *ib = calloc((size_t)total, sizeof(*ib));
	/* Each process measures its own limit; the plans must agree on one. */
	size_t own = n->info->tx_attr->inject_size, inject = own < 4096 ? own : 4096;
	struct t_rng rng;

	for (int i = 0; i < total; i++) {
		int peer = i / each, k = i % each;

		/* One in eight is large, so that a round stays short. */
		out[i] = plan_for(round, t_rank, peer, k, k % 8 ? 20000 : max, inject);
		in[i] = plan_for(round, peer, t_rank, k, k % 8 ? 20000 : max, inject);
		order[i] = i;
		order[total + i] = total + i;
	}
	t_rng_init(&rng, (uint64_t)round * 100 + (uint64_t)t_rank);
	t_shuffle(&rng, order, total * 2);
	/* Untagged messages match in order: posts of one pair must keep theirs. */
	for (int s = 0; s < total * 2; s++) {
		int i = order[s] % total;
		const struct plan *p = order[s] < total ? &out[i] : &in[i];

		if (p->tagged)
			continue;
		for (int t = s + 1; t < total * 2; t++) {
			int j = order[t] % total;
			const struct plan *q = order[t] < total ? &out[j] : &in[j];

			if (q->tagged || (order[s] < total) != (order[t] < total) ||
			    i / each != j / each || j > i)
				continue;
			order[s] ^= order[t];
			order[t] ^= order[s];
			order[s] ^= order[t];
			i = order[s] % total;
		}
	}
	for (int s = 0; s < total * 2; s++) {
		int i = order[s] % total, peer = i / each, k = i % each;

		t_at("random: round %d, post %d of %d", round, s, total * 2);
		if (order[s] < total) {
			send_planned(n, peer, k, &out[i], &ob[i], &tx[i]);
			continue;
		}
		ib[i] = t_buf(in[i].len, in[i].seed >> 16);
		if (in[i].tagged)
			t_trecv(n, in[i].seed & 4 ? n->peer[peer] : FI_ADDR_UNSPEC, ib[i].p,
				in[i].len, tag_of(peer, k), 0, &rx[i]);
		else
			T_TRY(fi_recv(n->ep, ib[i].p, in[i].len, NULL, n->peer[peer], &rx[i]));
		if (t_rand_below(&rng, 4) == 0)
			t_progress();
	}
	for (int i = 0; i < total; i++) {
		T_WAIT(&rx[i]);
		check_received(n, i / each, &in[i], &ib[i], &rx[i]);
		t_buf_free(&ib[i]);
	}
	for (int i = 0; i < total; i++) {
		if (out[i].how != INJECT) {
			T_WAIT(&tx[i]);
			T_SAME(ob[i].p, out[i].len, out[i].seed, 0);
		}
		t_buf_free(&ob[i]);
	}
	free(order);
	free(out);
	free(in);
	free(tx);
	free(rx);
	free(ob);
	free(ib);
}

static void all_to_all(int rounds, int each, size_t max)
{
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV, .cq_data = true, .iov = 2};
	struct t_node n;

	t_start(&n, &o);
	for (int r = 0; r < t_scaled(rounds); r++)
		round_of(&n, r, each, max);
	t_finish(&n);
}

static void four(void)
{
	all_to_all(8, 24, 4 << 20);
}

static void eight(void)
{
	all_to_all(4, 16, 1 << 20);
}

static void four_small(void)
{
	all_to_all(10, 100, 300);
}

static void two_large(void)
{
	all_to_all(6, 16, 16 << 20);
}

static const struct t_case cases[] = {
	{"random_two_large", 2, two_large, "up to 16 MiB", 40},
	{"random_four", 4, four, "up to 4 MiB", 40},
	{"random_four_small", 4, four_small, "short ones, many", 40},
	{"random_eight", 8, eight, "eight processes on few cores", 60},
};

const struct t_group group_random = T_GROUP("random", cases);
