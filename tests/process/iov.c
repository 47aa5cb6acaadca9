/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * iov.c: messages gathered from and scattered into up to eight buffers of odd
 * lengths, the two sides cut differently.
 */
#include "pieces.h"

#include <string.h>

/* Message k of a run: both ranks compute the same length and their own cuts. */
static void one(struct t_node *n, struct t_rng *common, struct t_rng *own, uint64_t k, size_t iovs,
		bool unexpected)
{
	static const size_t maxima[] = {40, 288, 1000, 9000, 40000, 300000, 3000000};
	size_t max = maxima[t_rand_below(common, 7)];
	size_t len = t_rand_below(common, max + 1), room = len + t_rand_below(common, 2) * 100;
	bool tagged = t_rand(common) & 1, with_flags = t_rand(common) & 1;
	size_t ntx = 1 + t_rand_below(common, iovs), nrx = 1 + t_rand_below(common, iovs);
	struct iovec iov[IOV];
	struct t_buf b[IOV];
	struct t_op op = {0};

	t_at("iov: message %llu: %zu bytes, %zu -> %zu pieces", (unsigned long long)k, len, ntx,
	     nrx);
	if (t_rank == 0) {
		struct fi_msg_tagged tm = {.msg_iov = iov,
					   .iov_count = ntx,
					   .addr = n->peer[1],
					   .tag = k,
					   .context = &op};
		struct fi_msg m = {
			.msg_iov = iov, .iov_count = ntx, .addr = n->peer[1], .context = &op};

		pieces_cut(own, len, ntx, iov, b);
		pieces_fill(iov, ntx, k);
		if (tagged && with_flags)
			T_TRY(fi_tsendmsg(n->ep, &tm, FI_COMPLETION));
		else if (tagged)
			T_TRY(fi_tsendv(n->ep, iov, NULL, ntx, n->peer[1], k, &op));
		else if (with_flags)
			T_TRY(fi_sendmsg(n->ep, &m, FI_COMPLETION));
		else
			T_TRY(fi_sendv(n->ep, iov, NULL, ntx, n->peer[1], &op));
		memset(iov, 0, sizeof(iov)); /* the list itself is the caller's again */
		if (unexpected)
			t_mark(n, 1, k);
		T_WAIT(&op);
		pieces_free(b, ntx);
		return;
	}
	pieces_cut(own, room, nrx, iov, b);
	if (unexpected)
		t_wait_mark(n, 0, k);
	if (tagged) {
		struct fi_msg_tagged tm = {.msg_iov = iov,
					   .iov_count = nrx,
					   .addr = FI_ADDR_UNSPEC,
					   .tag = k,
					   .context = &op};

		if (with_flags)
			T_TRY(fi_trecvmsg(n->ep, &tm, FI_COMPLETION));
		else
			T_TRY(fi_trecvv(n->ep, iov, NULL, nrx, FI_ADDR_UNSPEC, k, 0, &op));
	} else {
		struct fi_msg m = {
			.msg_iov = iov, .iov_count = nrx, .addr = FI_ADDR_UNSPEC, .context = &op};

		if (with_flags)
			T_TRY(fi_recvmsg(n->ep, &m, FI_COMPLETION));
		else
			T_TRY(fi_recvv(n->ep, iov, NULL, nrx, FI_ADDR_UNSPEC, &op));
	}
	memset(iov, 0, sizeof(iov));
	T_WAIT(&op);
	T_EQ(op.c.len, len);
	pieces_check(b, nrx, len, k);
	pieces_free(b, nrx);
}

static void many(size_t iovs, bool unexpected, int count)
{
	struct t_opts o = {.iov = iovs};
	struct t_rng common, own;
	struct t_node n;

	t_rng_init(&common, iovs);
	t_rng_init(&own, 1000 + (uint64_t)t_rank);
	t_start(&n, &o);
	for (int k = 0; k < t_scaled(count); k++)
		one(&n, &common, &own, (uint64_t)k, iovs, unexpected);
	t_finish(&n);
}

static void four_expected(void)
{
	many(4, false, 200);
}

static void four_unexpected(void)
{
	many(4, true, 200);
}

static void eight_expected(void)
{
	many(IOV, false, 300);
}

static void eight_unexpected(void)
{
	many(IOV, true, 300);
}

/* Every cut of a short message into two pieces on either side. */
static void all_cuts(void)
{
	enum { LEN = 70 };
	struct t_opts o = {.iov = 2};
	struct t_node n;

	t_start(&n, &o);
	for (size_t at = 0; at <= LEN; at++) {
		struct t_buf b = t_buf(LEN + 8, at);
		size_t mine = t_rank ? LEN - at : at;
		struct iovec iov[2] = {{b.p, mine}, {b.p + mine + 8, LEN - mine}};
		struct t_op op = {0};

		if (t_rank == 0) {
			pieces_fill(iov, 2, at);
			T_TRY(fi_tsendv(n.ep, iov, NULL, 2, n.peer[1], at, &op));
			T_WAIT(&op);
		} else {
			T_TRY(fi_trecvv(n.ep, iov, NULL, 2, FI_ADDR_UNSPEC, at, 0, &op));
			T_WAIT(&op);
			T_SAME(b.p, mine, at, 0);
			T_SAME(b.p + mine + 8, LEN - mine, at, mine);
			for (size_t i = mine; i < mine + 8; i++)
				T_CHECK(b.p[i] == 0xee, "the gap was written");
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* No buffers at all is an empty message. */
static void none(void)
{
	struct t_node n;
	struct t_op op = {0};

	t_start(&n, NULL);
	if (t_rank == 0)
		T_TRY(fi_tsendv(n.ep, NULL, NULL, 0, n.peer[1], 1, &op));
	else
		T_TRY(fi_trecvv(n.ep, NULL, NULL, 0, FI_ADDR_UNSPEC, 1, 0, &op));
	T_WAIT(&op);
	if (t_rank == 1)
		T_EQ(op.c.len, 0);
	t_finish(&n);
}

/* Lengths that no message has, and such as seem short because their sum overflows. */
static void too_long(void)
{
	struct t_opts o = {.iov = 2};
	struct iovec sum[] = {{&o, SIZE_MAX}, {&o, 9}}, huge = {&o, ((size_t)1 << 40) + 1};
	struct t_node n;

	if (!t_beeline)
		t_skip("what ours promises");
	t_start(&n, &o);
	T_EQ(n.info->ep_attr->max_msg_size, (size_t)1 << 40);
	T_EQ(fi_sendv(n.ep, sum, NULL, 2, n.peer[0], &o), -FI_EMSGSIZE);
	T_EQ(fi_tsendv(n.ep, sum, NULL, 2, n.peer[0], 1, &o), -FI_EMSGSIZE);
	T_EQ(fi_tsendv(n.ep, &huge, NULL, 1, n.peer[0], 1, &o), -FI_EMSGSIZE);
	T_EQ(fi_tsend(n.ep, &o, huge.iov_len, NULL, n.peer[0], 1, &o), -FI_EMSGSIZE);
	T_EQ(fi_send(n.ep, &o, SIZE_MAX, NULL, n.peer[0], &o), -FI_EMSGSIZE);
	T_EQ(fi_inject(n.ep, &o, SIZE_MAX, n.peer[0]), -FI_EMSGSIZE);
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"iov_4_expected", 2, four_expected, "up to 4 pieces, all lengths", 30},
	{"iov_4_unexpected", 2, four_unexpected, "the same, message first", 30},
	{"iov_8_expected", 2, eight_expected, "up to 8 pieces, all lengths", 30},
	{"iov_8_unexpected", 2, eight_unexpected, "the same, message first", 30},
	{"iov_all_cuts", 2, all_cuts, "every cut of 70 bytes", 0},
	{"iov_none", 2, none, "an empty list", 0},
	{"iov_too_long", 1, too_long, "a length that can't be, or overflows", 0},
};

const struct t_group group_iov = T_GROUP("iov", cases);
