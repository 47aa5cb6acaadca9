/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * trunc.c: a message longer than its receive: FI_ETRUNC with what was lost
 * (olen), the part that fits intact, nothing beyond it, and the next message
 * untouched. fi_cq(3) leaves `len` of such a completion to the provider, and some
 * report no olen; ours reports both, so that len + olen is what was sent.
 */
#include "cases.h"

static const struct {
	size_t sent, room;
	const char *why;
} cuts[] = {
	{1, 0, "no room at all"},
	{8, 7, "inline"},
	{40, 39, "a full first line"},
	{41, 40, "into the second line"},
	{288, 100, "a full slot"},
	{289, 1, "the first eager length"},
	{5000, 4999, "eager"},
	{7168, 0, "eager, no room"},
	{16385, 41, "around the rendezvous limit"},
	{70000, 69999, "rendezvous"},
	{300000, 64, "rendezvous into very little"},
	{300000, 0, "rendezvous, no room"},
	{3000001, 1500000, "many chunks, half of them"},
};
#define NCUTS (sizeof(cuts) / sizeof(cuts[0]))

static void check(const struct t_op *op, const struct t_buf *b, size_t i)
{
	size_t lost = cuts[i].sent - cuts[i].room;

	T_CHECK(op->c.olen == lost || (!t_beeline && !op->c.olen), "%s: olen is %zu, not %zu",
		cuts[i].why, op->c.olen, lost);
	if (t_beeline)
		T_CHECK(op->c.len == cuts[i].room, "%s: len is %zu, not %zu", cuts[i].why,
			op->c.len, cuts[i].room);
	T_CHECK(op->c.flags & FI_RECV, "%s: flags 0x%llx without FI_RECV", cuts[i].why,
		(unsigned long long)op->c.flags);
	T_GOT(b, cuts[i].room, i);
}

static void cut(bool tagged, bool unexpected)
{
	struct t_node n;

	t_start(&n, NULL);
	for (size_t i = 0; i < NCUTS; i++) {
		struct t_buf b = t_buf(t_rank ? cuts[i].room : cuts[i].sent, i);
		struct t_op op = {0}, next = {0};
		uint64_t after = 0;

		if (t_rank == 0) {
			if (!unexpected)
				t_barrier();
			t_fill(b.p, cuts[i].sent, i, 0);
			after = i + 1000;
			if (tagged)
				t_tsend(&n, 1, b.p, cuts[i].sent, i, &op);
			else
				T_TRY(fi_send(n.ep, b.p, cuts[i].sent, NULL, n.peer[1], &op));
			if (tagged)
				t_tsend(&n, 1, &after, 8, i, &next);
			else
				T_TRY(fi_send(n.ep, &after, 8, NULL, n.peer[1], &next));
			t_mark(&n, 1, i);
			T_WAIT(&op); /* the sender is not to blame */
			T_WAIT(&next);
		} else {
			if (unexpected)
				t_wait_mark(&n, 0, i);
			if (tagged) {
				t_trecv(&n, FI_ADDR_UNSPEC, b.p, cuts[i].room, i, 0, &op);
				t_trecv(&n, FI_ADDR_UNSPEC, &after, 8, i, 0, &next);
			} else {
				T_TRY(fi_recv(n.ep, b.p, cuts[i].room, NULL, FI_ADDR_UNSPEC, &op));
				T_TRY(fi_recv(n.ep, &after, 8, NULL, FI_ADDR_UNSPEC, &next));
			}
			if (!unexpected)
				t_barrier();
			T_WAIT_ERR(&op, FI_ETRUNC);
			check(&op, &b, i);
			if (tagged)
				T_EQ(op.c.tag, i);
			T_WAIT(&next);
			T_EQ(after, i + 1000);
			if (!unexpected)
				t_wait_mark(&n, 0, i);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void tagged_expected(void)
{
	cut(true, false);
}

static void tagged_unexpected(void)
{
	cut(true, true);
}

static void untagged_expected(void)
{
	cut(false, false);
}

static void untagged_unexpected(void)
{
	cut(false, true);
}

/* Into several buffers, cut in the middle of one. */
static void scattered(void)
{
	static const size_t sent[] = {50, 8000, 200000};
	struct t_node n;

	t_start(&n, &(struct t_opts){.iov = 3});
	for (size_t i = 0; i < 3; i++) {
		struct t_buf b = t_buf(sent[i], 0);
		size_t third = sent[i] / 4;
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, sent[i], i, 0);
			t_tsend(&n, 1, b.p, sent[i], i, &op);
			T_WAIT(&op);
		} else {
			struct iovec iov[3] = {
				{b.p, third}, {b.p + third, third}, {b.p + 2 * third, third - 1}};
			size_t room = 3 * third - 1;

			T_TRY(fi_trecvv(n.ep, iov, NULL, 3, FI_ADDR_UNSPEC, i, 0, &op));
			T_WAIT_ERR(&op, FI_ETRUNC);
			if (t_beeline || op.c.olen)
				T_EQ(op.c.olen, sent[i] - room);
			T_GOT(&b, room, i);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* A counter of receives counts the failure as an error, not as a success. */
static void counted(void)
{
	struct t_node n;
	uint64_t v[2] = {1, 2};
	struct t_op op = {0};

	t_start(&n, &(struct t_opts){.counters = true});
	if (t_rank == 0) {
		t_tsend(&n, 1, v, 16, 1, &op);
		T_WAIT(&op);
	} else {
		t_trecv(&n, FI_ADDR_UNSPEC, v, 8, 1, 0, &op);
		T_WAIT_ERR(&op, FI_ETRUNC);
		while (!fi_cntr_readerr(n.rxcntr))
			t_idle();
		T_EQ(fi_cntr_readerr(n.rxcntr), 1);
		T_EQ(fi_cntr_read(n.rxcntr), 0);
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"trunc_tagged_expected", 2, tagged_expected, "every protocol, receive first", 0},
	{"trunc_tagged_unexpected", 2, tagged_unexpected, "every protocol, message first", 0},
	{"trunc_untagged_expected", 2, untagged_expected, "the same, untagged", 0},
	{"trunc_untagged_unexpected", 2, untagged_unexpected, "the same, untagged", 0},
	{"trunc_scattered", 2, scattered, "cut within a list of buffers", 0},
	{"trunc_counted", 2, counted, "the error counter", 0},
};

const struct t_group group_trunc = T_GROUP("trunc", cases);
