/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic.c: changing other processes' memory: each operation on each type through
 * libfabric's calls, and many processes at one place at once, of which some may copy
 * directly and some must ask.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#include "../atomic_ref.h"
#include "../deny.h"

#define KEY  0xa70
#define BOTH (FI_REMOTE_READ | FI_REMOTE_WRITE)

enum way { DIRECT, SERVED, ASKED, MIXED };

static enum way way;

static void begin_with(struct t_node *n, struct t_opts *o)
{
	o->caps = FI_RMA | FI_ATOMIC;
	o->iov = 2;
	if (way == ASKED || (way == MIXED && t_rank % 2))
		setenv("FI_BEELINE_COPY", "ring", 1);
	/* Of those that mix, the others are served as it comes. */
	if (way == DIRECT || way == SERVED)
		setenv("FI_BEELINE_RMA_DELEGATE", way == DIRECT ? "never" : "always", 1);
	t_start(n, o);
}

static void begin(struct t_node *n)
{
	struct t_opts o = {0};

	begin_with(n, &o);
}

static struct fid_mr *reg(struct t_node *n, void *buf, size_t len)
{
	struct fid_mr *mr;

	T_OK(fi_mr_reg(n->domain, buf, len, BOTH, 0, KEY, 0, &mr, NULL));
	return mr;
}

/* --- the table ------------------------------------------------------------------- */

#define COUNT 300 /* of 32 bytes: more than one step of the core */

struct buffers {
	_Alignas(64) unsigned char old[COUNT * 32], operand[COUNT * 32], compare[COUNT * 32];
	unsigned char want[COUNT * 32], got[COUNT * 32], result[COUNT * 32];
};
static struct buffers b;

/* Rank 0 puts the old values into rank 1's memory, changes them, and reads them back. */
static void one(struct t_node *n, unsigned kind, unsigned type, unsigned op, struct t_rng *rng)
{
	size_t size = ref_size(type), len = COUNT * size;
	fi_addr_t to = n->peer[1];
	struct t_op o[3] = {0};

	for (unsigned i = 0; i < COUNT; i++) {
		ref_random(type, b.old + i * size, t_rand(rng), t_rand(rng));
		ref_random(type, b.operand + i * size, t_rand(rng), t_rand(rng));
		ref_random(type, b.compare + i * size, t_rand(rng), t_rand(rng));
		if (i % 3 == 0)
			memcpy(b.compare + i * size, b.old + i * size, size);
	}
	memcpy(b.want, b.old, len);
	ref_apply(type, op, b.want, b.operand, b.compare, COUNT);
	T_TRY(fi_write(n->ep, b.old, len, NULL, to, 0, KEY, &o[0]));
	switch (kind) {
	case 0:
		T_TRY(fi_atomic(n->ep, b.operand, COUNT, NULL, to, 0, KEY, type, op, &o[1]));
		break;
	case 1:
		T_TRY(fi_fetch_atomic(n->ep, b.operand, COUNT, NULL, b.result, NULL, to, 0, KEY,
				      type, op, &o[1]));
		break;
	default:
		T_TRY(fi_compare_atomic(n->ep, b.operand, COUNT, NULL, b.compare, NULL, b.result,
					NULL, to, 0, KEY, type, op, &o[1]));
	}
	T_TRY(fi_read(n->ep, b.got, len, NULL, to, 0, KEY, &o[2]));
	for (int i = 0; i < 3; i++)
		T_WAIT(&o[i]);
	T_CHECK((o[1].c.flags & FI_ATOMIC) && (o[1].c.flags & (kind ? FI_READ : FI_WRITE)),
		"flags 0x%llx", (unsigned long long)o[1].c.flags);
	T_CHECK(ref_same(type, b.got, b.want, COUNT), "type %u, op %u, kind %u: wrong values", type,
		op, kind);
	T_CHECK(!kind || ref_same(type, b.result, b.old, COUNT),
		"type %u, op %u, kind %u: wrong old values", type, op, kind);
}

static void table(void)
{
	static _Alignas(64) unsigned char mem[COUNT * 32];
	struct t_rng rng;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n);
	t_rng_init(&rng, 5);
	mr = reg(&n, mem, sizeof(mem));
	t_barrier();
	/* What libfabric 2 has added its own providers refuse. */
	for (unsigned type = 0; type < (t_beeline ? REF_TYPES : 16) && t_rank == 0; type++)
		for (unsigned op = 0; op < (t_beeline ? REF_OPS : FI_MSWAP + 1); op++)
			for (unsigned kind = 0; kind < 3; kind++) {
				size_t count = 0;
				int rc = kind == 0 ? fi_atomicvalid(n.ep, type, op, &count)
					 : kind == 1
						 ? fi_fetch_atomicvalid(n.ep, type, op, &count)
						 : fi_compare_atomicvalid(n.ep, type, op, &count);

				t_at("type %u, op %u, kind %u", type, op, kind);
				T_EQ(rc, ref_valid(kind, type, op) ? 0 : -FI_EOPNOTSUPP);
				if (rc)
					continue;
				T_CHECK(count >= COUNT, "only %zu elements", count);
				one(&n, kind, type, op, &rng);
			}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* --- every call -------------------------------------------------------------------- */

static void calls(void)
{
	static uint64_t mem[64];
	uint64_t a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, old[8], with[8] = {0};
	struct fi_ioc in[2] = {{a, 3}, {a + 3, 5}}, out[2] = {{old, 1}, {old + 1, 7}};
	struct fi_ioc cmp[2] = {{with, 4}, {with + 4, 4}};
	struct fi_rma_ioc place[2] = {{80, 2, KEY}, {160, 6, KEY}};
	struct fi_msg_atomic msg = {.msg_iov = in,
				    .iov_count = 2,
				    .rma_iov = place,
				    .rma_iov_count = 2,
				    .datatype = FI_UINT64,
				    .op = FI_SUM};
	struct t_op op[7] = {0};
	struct fid_mr *mr;
	struct t_node n;

	begin(&n);
	mr = reg(&n, mem, sizeof(mem));
	t_barrier();
	if (t_rank == 0) {
		fi_addr_t to = msg.addr = n.peer[1];

		T_TRY(fi_atomicv(n.ep, in, NULL, 2, to, 0, KEY, FI_UINT64, FI_SUM, &op[0]));
		msg.context = &op[1];
		T_TRY(fi_atomicmsg(n.ep, &msg, FI_COMPLETION));
		T_TRY(fi_inject_atomic(n.ep, a, 8, to, 0, KEY, FI_UINT64, FI_SUM));
		T_TRY(fi_fetch_atomicv(n.ep, in, NULL, 2, out, NULL, 2, to, 0, KEY, FI_UINT64,
				       FI_PROD, &op[2]));
		T_WAIT(&op[2]);
		for (uint64_t i = 0; i < 8; i++)
			T_EQ(old[i], 2 * (i + 1));
		msg.op = FI_MAX;
		msg.context = &op[3];
		T_TRY(fi_fetch_atomicmsg(n.ep, &msg, out, NULL, 2, FI_COMPLETION));
		T_WAIT(&op[3]);
		for (uint64_t i = 0; i < 8; i++)
			T_EQ(old[i], i + 1);
		with[3] = 32; /* 2 * 4 * 4 */
		T_TRY(fi_compare_atomicv(n.ep, in, NULL, 2, cmp, NULL, 2, out, NULL, 2, to, 0, KEY,
					 FI_UINT64, FI_CSWAP, &op[4]));
		T_WAIT(&op[4]);
		T_EQ(old[3], 32);
		T_EQ(old[4], 50);
		msg.op = FI_MSWAP;
		memset(with, 0xff, sizeof(with));
		a[0] = 1000;
		msg.context = &op[5];
		T_TRY(fi_compare_atomicmsg(n.ep, &msg, cmp, NULL, 2, out, NULL, 2, FI_COMPLETION));
		T_WAIT(&op[5]);
		T_EQ(old[0], 1);
		T_TRY(fi_fetch_atomic(n.ep, NULL, 8, NULL, old, NULL, to, 0, KEY, FI_UINT64,
				      FI_ATOMIC_READ, &op[6]));
		T_WAIT(&op[6]);
		for (uint64_t i = 0; i < 8; i++)
			T_EQ(old[i], i == 3 ? 4 : 2 * (i + 1) * (i + 1));
		T_WAIT(&op[0]);
		T_WAIT(&op[1]);
		T_EQ(fi_atomic(n.ep, a, 1, NULL, to, 0, KEY, FI_DOUBLE, FI_BOR, NULL),
		     -FI_EOPNOTSUPP);
	}
	t_barrier();
	if (t_rank == 1) {
		T_EQ(mem[10], 1000);
		T_EQ(mem[11], 2);
		T_EQ(mem[20], 3);
		T_EQ(mem[25], 8);
		T_EQ(mem[26], 0);
	}
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* --- all at once --------------------------------------------------------------------- */

/* Everybody adds to everybody's numbers; no addition may be lost. */
static void sums(void)
{
	enum { LEN = 600, ROUNDS = 150 };
	static uint32_t mem[LEN], one_each[LEN];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n);
	mr = reg(&n, mem, sizeof(mem));
	for (int i = 0; i < LEN; i++)
		one_each[i] = 1;
	t_barrier();
	for (int round = 0; round < ROUNDS; round++)
		for (int k = 0; k < t_nproc; k++) {
			size_t count = 1 + (size_t)(round * 37 + k) % LEN;
			struct t_op op[2] = {0};

			T_TRY(fi_atomic(n.ep, one_each, count, NULL, n.peer[k], 0, KEY, FI_UINT32,
					FI_SUM, &op[0]));
			T_WAIT(&op[0]);
			if (count == LEN)
				continue;
			T_TRY(fi_atomic(n.ep, one_each, LEN - count, NULL, n.peer[k], count * 4,
					KEY, FI_UINT32, FI_SUM, &op[1]));
			T_WAIT(&op[1]);
		}
	t_barrier();
	for (int i = 0; i < LEN; i++)
		T_EQ(mem[i], ROUNDS * t_nproc);
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* While rank 1 changes a lot, rank 2 has its turns at the first and the last element: sooner
 * or later it sees a change that has come to one of them and not yet to the other. */
static void turns(void)
{
	enum { LEN = 1 << 19, ROUNDS = 48 };
	const uint64_t one_each[2] = {(uint64_t)1 << 32, (uint64_t)1 << 32};
	struct fi_rma_ioc place[2] = {{0, 1, KEY}, {(LEN - 1) * 8, 1, KEY}};
	uint64_t *mem = calloc(LEN, 8), old[2] = {0};
	struct fi_ioc operand = {(void *)one_each, 2}, result = {old, 2};
	struct fi_msg_atomic msg = {.msg_iov = &operand,
				    .iov_count = 1,
				    .rma_iov = place,
				    .rma_iov_count = 2,
				    .datatype = FI_UINT64,
				    .op = FI_SUM};
	uint64_t count = 0, between = 0;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n);
	mr = reg(&n, mem, LEN * 8);
	for (int i = 0; t_rank == 1 && i < LEN; i++)
		mem[i] = 1;
	t_barrier();
	for (int round = 0; t_rank == 1 && round < ROUNDS; round++) {
		struct t_op op = {0};

		T_TRY(fi_atomic(n.ep, mem, LEN, NULL, n.peer[0], 0, KEY, FI_UINT64, FI_SUM, &op));
		T_WAIT(&op);
	}
	while (t_rank == 2 && (uint32_t)old[1] < ROUNDS) {
		struct t_op op = {0};

		msg.addr = n.peer[0];
		msg.context = &op;
		T_TRY(fi_fetch_atomicmsg(n.ep, &msg, &result, NULL, 1, FI_COMPLETION));
		T_WAIT(&op);
		T_EQ(old[0] >> 32, count);
		T_EQ(old[1] >> 32, count);
		count++;
		between += (uint32_t)old[0] != (uint32_t)old[1];
	}
	t_barrier();
	if (t_rank == 2)
		T_CHECK(between, "%llu turns, none in the middle", (unsigned long long)count);
	for (int i = 0; t_rank == 0 && i < LEN; i++)
		T_EQ((uint32_t)mem[i], ROUNDS);
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
	free(mem);
}

/* --- in parts ------------------------------------------------------------------------ */

#define PART ((4u << 20) / 8) /* elements that a target does for an origin at once */

static struct {
	unsigned count;
	uint64_t data, len;
} told;

static void hear(const struct t_comp *c)
{
	told.count++;
	told.data = c->data;
	told.len = c->len;
}

/* So many elements, from two buffers to three places, whose borders aren't those of parts. */
struct span {
	uint64_t *operand, *compare, *old;
	struct fi_ioc in[2], cmp[1], out[2];
	struct fi_rma_ioc place[3];
	struct fi_msg_atomic msg;
	size_t count;
};

static void span(struct span *s, struct t_node *n, size_t count)
{
	size_t first = count / 5, third = count - count / 7;

	s->count = count;
	s->in[0] = (struct fi_ioc){s->operand, first};
	s->in[1] = (struct fi_ioc){s->operand + first, count - first};
	s->cmp[0] = (struct fi_ioc){s->compare, count};
	s->out[0] = (struct fi_ioc){s->old, third};
	s->out[1] = (struct fi_ioc){s->old + third, count - third};
	s->place[0] = (struct fi_rma_ioc){0, first, KEY};
	s->place[1] = (struct fi_rma_ioc){8 * first, third - first, KEY};
	s->place[2] = (struct fi_rma_ioc){8 * third, count - third, KEY};
	s->msg = (struct fi_msg_atomic){.msg_iov = s->in,
					.iov_count = 2,
					.addr = n->peer[1],
					.rma_iov = s->place,
					.rma_iov_count = 3,
					.datatype = FI_UINT64,
					.data = count};
}

/* The memory is i in each element i: rank 0 adds 1, fetches and adds 2, and takes i + 3 for 7
 * where i is odd. */
static void change(struct span *s, struct t_node *n)
{
	struct t_op op[5] = {0};

	for (size_t i = 0; i < s->count; i++)
		s->operand[i] = 1;
	s->msg.op = FI_SUM;
	s->msg.context = &op[0];
	T_TRY(fi_atomicmsg(n->ep, &s->msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
	T_WAIT(&op[0]);
	for (size_t i = 0; i < s->count; i++)
		s->operand[i] = 2;
	s->msg.context = &op[1];
	T_TRY(fi_fetch_atomicmsg(n->ep, &s->msg, s->out, NULL, 2, FI_COMPLETION));
	T_WAIT(&op[1]);
	for (size_t i = 0; i < s->count; i++) {
		T_EQ(s->old[i], i + 1);
		s->operand[i] = 7;
		s->compare[i] = i % 2 ? i + 3 : i;
	}
	s->msg.op = FI_CSWAP;
	s->msg.context = &op[2];
	T_TRY(fi_compare_atomicmsg(n->ep, &s->msg, s->cmp, NULL, 1, s->out, NULL, 2,
				   FI_COMPLETION));
	T_WAIT(&op[2]);
	for (size_t i = 0; i < s->count; i++)
		T_EQ(s->old[i], i + 3);
	s->msg.op = FI_ATOMIC_READ;
	s->msg.context = &op[3];
	T_TRY(fi_fetch_atomicmsg(n->ep, &s->msg, s->out, NULL, 2, FI_COMPLETION));
	T_WAIT(&op[3]);
	for (size_t i = 0; i < s->count; i++)
		T_EQ(s->old[i], i % 2 ? 7 : i + 3);
	s->place[1].key++; /* nothing is done before all is found to be in order */
	s->msg.op = FI_SUM;
	s->msg.context = &op[4];
	T_TRY(fi_atomicmsg(n->ep, &s->msg, FI_COMPLETION));
	T_WAIT_ERR(&op[4], FI_EKEYREJECTED);
}

/* What is longer than the target has memory for comes in parts, and is one operation. */
static void parts(void)
{
	static const size_t counts[] = {1, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 5};
	const size_t most = 3 * PART + 5;
	uint64_t *mem = calloc(most, 8);
	struct span s = {.operand = calloc(most, 8), .compare = calloc(most, 8)};
	struct t_opts o = {.rma_counters = true, .cq_data = true};
	struct fid_mr *mr;
	struct t_node n;

	s.old = calloc(most, 8);
	begin_with(&n, &o);
	t_foreign = hear;
	mr = reg(&n, mem, 8 * most);
	for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++) {
		t_at("%zu elements", counts[k]);
		for (size_t i = 0; i < most; i++)
			mem[i] = i;
		t_barrier();
		if (t_rank == 0) {
			span(&s, &n, counts[k]);
			change(&s, &n);
		}
		t_barrier();
		for (size_t i = 0; t_rank == 1 && i < most; i++)
			T_EQ(mem[i], i >= counts[k] ? i : i % 2 ? 7 : i + 3);
		while (t_rank == 1 && (told.count <= k || fi_cntr_read(n.remote) < 4 * (k + 1)))
			t_idle();
		T_EQ(told.count, t_rank ? k + 1 : 0);
		T_EQ(told.len, t_rank ? 8 * counts[k] : 0);
		T_EQ(told.data, t_rank ? counts[k] : 0);
		T_EQ(fi_cntr_read(n.remote), t_rank ? 4 * (k + 1) : 0);
	}
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
	free(mem);
	free(s.operand);
	free(s.compare);
	free(s.old);
}

/* Tickets: each number is drawn once. */
static void tickets(void)
{
	enum { EACH = 300 };
	static uint64_t mem[1], mine[EACH], all[T_PROC_MAX * EACH];
	static unsigned char seen[T_PROC_MAX * EACH];
	uint64_t inc = 1;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n);
	mr = reg(&n, mem, sizeof(mem));
	t_barrier();
	for (int i = 0; i < EACH; i++) {
		struct t_op op = {0};

		T_TRY(fi_fetch_atomic(n.ep, &inc, 1, NULL, &mine[i], NULL, n.peer[0], 0, KEY,
				      FI_UINT64, FI_SUM, &op));
		T_WAIT(&op);
		T_CHECK(i == 0 || mine[i] > mine[i - 1], "tickets go back");
	}
	t_allgather(mine, sizeof(mine), all, t_progress);
	for (int i = 0; i < t_nproc * EACH; i++) {
		T_CHECK(all[i] < (uint64_t)(t_nproc * EACH) && !seen[all[i]],
			"ticket %llu: drawn twice, or never made", (unsigned long long)all[i]);
		seen[all[i]] = 1;
	}
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* A lock by compare-and-swap keeps plain reads and writes apart. */
static void lock(void)
{
	enum { EACH = 60 };
	static uint64_t mem[2];
	uint64_t free_word = 0, me = (uint64_t)t_rank + 1, old, value;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n);
	mr = reg(&n, mem, sizeof(mem));
	t_barrier();
	for (int i = 0; i < EACH; i++) {
		do {
			struct t_op op = {0};

			T_TRY(fi_compare_atomic(n.ep, &me, 1, NULL, &free_word, NULL, &old, NULL,
						n.peer[0], 0, KEY, FI_UINT64, FI_CSWAP, &op));
			T_WAIT(&op);
		} while (old);
		struct t_op op[3] = {0};

		T_TRY(fi_read(n.ep, &value, 8, NULL, n.peer[0], 8, KEY, &op[0]));
		T_WAIT(&op[0]);
		value++;
		T_TRY(fi_write(n.ep, &value, 8, NULL, n.peer[0], 8, KEY, &op[1]));
		T_TRY(fi_atomic(n.ep, &free_word, 1, NULL, n.peer[0], 0, KEY, FI_UINT64,
				FI_ATOMIC_WRITE, &op[2]));
		T_WAIT(&op[1]);
		T_WAIT(&op[2]);
	}
	t_barrier();
	if (t_rank == 0)
		T_EQ(mem[1], EACH * t_nproc);
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* Rank 0 looks at its own memory by operations that complete at once, and never
 * meets an empty queue: it must still serve rank 1, for whose write it looks. */
static void busy(void)
{
	static uint64_t mem[1];
	uint64_t value = 5, seen = 0;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n);
	mr = reg(&n, mem, sizeof(mem));
	t_barrier();
	if (t_rank == 1) {
		struct t_op op = {0};

		T_TRY(fi_atomic(n.ep, &value, 1, NULL, n.peer[0], 0, KEY, FI_UINT64,
				FI_ATOMIC_WRITE, &op));
		T_WAIT(&op);
	}
	while (t_rank == 0 && seen != value) {
		struct t_op op = {0};

		T_TRY(fi_fetch_atomic(n.ep, NULL, 1, NULL, &seen, NULL, n.peer[0], 0, KEY,
				      FI_UINT64, FI_ATOMIC_READ, &op));
		T_WAIT(&op);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* --- refused ----------------------------------------------------------------------------- */

static void fails(struct t_node *n, enum fi_op op, bool fetch, uint64_t key, uint64_t addr,
		  int error)
{
	uint64_t value = 1, old;
	struct t_op o = {0};

	if (fetch)
		T_TRY(fi_fetch_atomic(n->ep, &value, 1, NULL, &old, NULL, n->peer[1], addr, key,
				      FI_UINT64, op, &o));
	else
		T_TRY(fi_atomic(n->ep, &value, 1, NULL, n->peer[1], addr, key, FI_UINT64, op, &o));
	T_WAIT_ERR(&o, error);
}

static void refusals(void)
{
	static uint64_t mem[2];
	struct fid_mr *reads, *writes;
	uint64_t old = 9;
	struct t_op op = {0};
	struct t_node n;

	begin(&n);
	T_OK(fi_mr_reg(n.domain, mem, 16, FI_REMOTE_READ, 0, 1, 0, &reads, NULL));
	T_OK(fi_mr_reg(n.domain, mem, 16, FI_REMOTE_WRITE, 0, 2, 0, &writes, NULL));
	t_barrier();
	if (t_rank == 0) {
		fails(&n, FI_SUM, false, 1, 0, FI_EACCES);
		fails(&n, FI_SUM, true, 1, 0, FI_EACCES);
		fails(&n, FI_SUM, true, 2, 0, FI_EACCES);
		fails(&n, FI_SUM, false, 2, 9, FI_EINVAL);
		fails(&n, FI_SUM, false, 3, 0, FI_EKEYREJECTED);
		T_TRY(fi_fetch_atomic(n.ep, NULL, 1, NULL, &old, NULL, n.peer[1], 0, 1, FI_UINT64,
				      FI_ATOMIC_READ, &op));
		T_WAIT(&op);
		T_EQ(old, 0);
	}
	t_barrier();
	T_EQ(mem[0], 0);
	T_OK(fi_close(&reads->fid));
	T_OK(fi_close(&writes->fid));
	t_finish(&n);
}

static void query(void)
{
	struct fi_atomic_attr attr = {0};
	struct t_node n;

	begin(&n);
	T_OK(fi_query_atomic(n.domain, FI_DOUBLE, FI_SUM, &attr, 0));
	T_EQ(attr.size, 8);
	T_CHECK(attr.count >= 1u << 20, "%zu", attr.count);
	T_OK(fi_query_atomic(n.domain, FI_INT8, FI_ATOMIC_READ, &attr, FI_FETCH_ATOMIC));
	T_OK(fi_query_atomic(n.domain, FI_UINT64, FI_MSWAP, &attr, FI_COMPARE_ATOMIC));
	T_EQ(fi_query_atomic(n.domain, FI_FLOAT, FI_MSWAP, &attr, FI_COMPARE_ATOMIC),
	     -FI_EOPNOTSUPP);
	T_EQ(fi_query_atomic(n.domain, FI_INT8, FI_ATOMIC_READ, &attr, 0), -FI_EOPNOTSUPP);
	t_finish(&n);
}

/* A region counts what changes it, whether or not the old values come back; not what only
 * fetches. */
static void events(void)
{
	static uint64_t mem[2];
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct t_opts o = {0};
	uint64_t one = 1, two = 2, old;
	struct fid_cntr *changes;
	struct t_op op[5] = {0};
	struct fid_mr *mr;
	struct t_node n;

	begin_with(&n, &o);
	T_OK(fi_cntr_open(n.domain, &attr, &changes, NULL));
	mr = reg(&n, mem, sizeof(mem));
	T_OK(fi_mr_bind(mr, &changes->fid, FI_REMOTE_WRITE));
	t_barrier();
	if (t_rank == 0) {
		fi_addr_t to = n.peer[1];

		T_TRY(fi_atomic(n.ep, &one, 1, NULL, to, 0, KEY, FI_UINT64, FI_SUM, &op[0]));
		T_TRY(fi_fetch_atomic(n.ep, &one, 1, NULL, &old, NULL, to, 0, KEY, FI_UINT64,
				      FI_SUM, &op[1]));
		T_WAIT(&op[1]);
		T_EQ(old, 1);
		T_TRY(fi_fetch_atomic(n.ep, NULL, 1, NULL, &old, NULL, to, 0, KEY, FI_UINT64,
				      FI_ATOMIC_READ, &op[2]));
		T_WAIT(&op[2]);
		T_EQ(old, 2);
		T_TRY(fi_compare_atomic(n.ep, &one, 1, NULL, &two, NULL, &old, NULL, to, 0, KEY,
					FI_UINT64, FI_CSWAP, &op[3]));
		T_WAIT(&op[3]);
		T_TRY(fi_fetch_atomic(n.ep, &one, 1, NULL, &old, NULL, to, 8, KEY, FI_UINT64,
				      FI_ATOMIC_WRITE, &op[4]));
		T_WAIT(&op[4]);
		T_WAIT(&op[0]);
	} else {
		while (fi_cntr_read(changes) < 4)
			t_idle();
		T_EQ(mem[0], 1);
		T_EQ(mem[1], 1);
	}
	t_barrier();
	T_EQ(fi_cntr_read(changes), t_rank ? 4 : 0);
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&changes->fid));
	t_finish(&n);
}

#define WAYS(name)                                                                                 \
	static void name##_direct(void)                                                            \
	{                                                                                          \
		way = DIRECT;                                                                      \
		name();                                                                            \
	}                                                                                          \
	static void name##_served(void)                                                            \
	{                                                                                          \
		way = SERVED;                                                                      \
		name();                                                                            \
	}                                                                                          \
	static void name##_asked(void)                                                             \
	{                                                                                          \
		way = ASKED;                                                                       \
		name();                                                                            \
	}                                                                                          \
	static void name##_mixed(void)                                                             \
	{                                                                                          \
		way = MIXED;                                                                       \
		name();                                                                            \
	}
#define CASES(name, nproc, why)                                                                    \
	{"atomic_" #name, nproc, name##_direct, why, 0},                                           \
		{"atomic_" #name "_served", nproc, name##_served, why, 0},                         \
		{"atomic_" #name "_asked", nproc, name##_asked, why, 0},                           \
	{                                                                                          \
		"atomic_" #name "_mixed", nproc, name##_mixed, why, 0                              \
	}

WAYS(table)
WAYS(calls)
WAYS(sums)
WAYS(tickets)
WAYS(lock)
WAYS(busy)
WAYS(refusals)
WAYS(events)

static void parts_direct(void)
{
	way = DIRECT;
	parts();
}

static void parts_asked(void)
{
	way = ASKED;
	parts();
}

static void turns_direct(void)
{
	way = DIRECT;
	turns();
}

static void turns_mixed(void)
{
	way = MIXED;
	turns();
}

static const struct t_case cases[] = {
	CASES(table, 2, "each operation on each type, against plain C"),
	CASES(calls, 2, "each call does what it says"),
	CASES(sums, 4, "no addition is lost"),
	CASES(tickets, 4, "old values are those of one moment"),
	CASES(lock, 3, "programs build locks of it"),
	CASES(busy, 2, "a target that is never idle serves others"),
	CASES(refusals, 2, "nobody changes what isn't registered"),
	CASES(events, 2, "a region counts what changes it"),
	{"atomic_parts", 2, parts_direct, "any count, told of once", 0},
	{"atomic_parts_asked", 2, parts_asked, "the same where the target has no memory for all",
	 0},
	{"atomic_turns", 3, turns_direct, "a long one keeps nobody out", 60},
	{"atomic_turns_mixed", 3, turns_mixed, "the same by the target's hand", 60},
	{"atomic_query", 1, query, "applications ask before they use it", 0},
};

const struct t_group group_atomic = T_GROUP("atomic", cases);
