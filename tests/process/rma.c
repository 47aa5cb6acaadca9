/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma.c: reading and writing other processes' memory: every call, pieces on both
 * sides, all modes of registration, what is refused, remote data and counters.
 * Most cases run several times: by direct copies, short ones by the hand of a target that is
 * asked each time whether it waits or not, all by the target's hand (a knob forbids direct
 * copies), and with the right to copy lost in the middle.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#include "../deny.h"

#define ROOM	 400000
#define KEY	 0xbee
#define RMA_CAPS (FI_RMA | FI_RMA_EVENT)
#define BOTH	 (FI_REMOTE_READ | FI_REMOTE_WRITE)

enum way { DIRECT, SERVED, ASKED, DENIED };

static enum way way;

static void begin(struct t_node *n, struct t_opts *o)
{
	o->caps |= RMA_CAPS;
	if (way == ASKED)
		setenv("FI_BEELINE_COPY", "ring", 1);
	else
		setenv("FI_BEELINE_RMA_DELEGATE", way == DIRECT ? "never" : "always", 1);
	t_start(n, o);
}

/* From here on there is no right to copy, if that is this case. */
static void midway(void)
{
	if (way == DENIED && deny_process_vm())
		t_skip("no seccomp filter");
}

static struct fid_mr *reg(struct t_node *n, void *buf, size_t len, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;

	T_OK(fi_mr_reg(n->domain, buf, len, access, 0, key, 0, &mr, NULL));
	return mr;
}

static void write_to(struct t_node *n, int rank, const void *buf, size_t len, uint64_t addr,
		     uint64_t key)
{
	struct t_op op = {0};

	T_TRY(fi_write(n->ep, buf, len, NULL, n->peer[rank], addr, key, &op));
	T_WAIT(&op);
	T_CHECK((op.c.flags & (FI_RMA | FI_WRITE)) == (FI_RMA | FI_WRITE), "flags 0x%llx",
		(unsigned long long)op.c.flags);
}

static void read_from(struct t_node *n, int rank, void *buf, size_t len, uint64_t addr,
		      uint64_t key)
{
	struct t_op op = {0};

	T_TRY(fi_read(n->ep, buf, len, NULL, n->peer[rank], addr, key, &op));
	T_WAIT(&op);
	T_CHECK((op.c.flags & (FI_RMA | FI_READ)) == (FI_RMA | FI_READ), "flags 0x%llx",
		(unsigned long long)op.c.flags);
}

/* --- every length ------------------------------------------------------------- */

static void lengths(void)
{
	struct t_opts o = {0};
	struct t_buf mem = t_buf(ROOM, 3);
	const size_t *sizes;
	size_t count = t_sizes(ROOM, &sizes);
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	t_blank(&mem);
	mr = reg(&n, mem.p, ROOM, BOTH, KEY);
	t_barrier();
	for (size_t i = 0; i < count && t_rank == 0; i++) {
		size_t len = sizes[i], at = (ROOM - len) / 2;
		struct t_buf out = t_buf(len, 1), in = t_buf(len, 5);

		if (i == count / 2)
			midway();
		t_at("length %zu", len);
		t_fill(out.p, len, i, 0);
		t_blank(&in);
		write_to(&n, 1, out.p, len, at, KEY);
		read_from(&n, 1, in.p, len, at, KEY);
		T_GOT(&in, len, i);
		t_buf_free(&out);
		t_buf_free(&in);
	}
	t_barrier();
	if (t_rank == 1)
		T_SAME(mem.p + (ROOM - sizes[count - 1]) / 2, sizes[count - 1], count - 1, 0);
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
	t_buf_free(&mem);
}

/* --- every call ------------------------------------------------------------------ */

struct told {
	unsigned count;
	uint64_t flags, data, len;
	fi_addr_t src;
};
static struct told told;

static void hear(const struct t_comp *c)
{
	told.count++;
	told.flags = c->flags;
	told.data = c->data;
	told.len = c->len;
	told.src = c->src;
}

static void expect_told(struct t_node *n, unsigned count, uint64_t data, size_t len)
{
	while (told.count < count)
		t_idle();
	T_EQ(told.count, count);
	T_EQ(told.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	T_EQ(told.data, data);
	T_EQ(told.len, len);
	T_EQ(told.src, n->peer[0]);
}

#define PART 1000

/* Eight ways to write PART bytes, each to a place of its own. */
static void write_all_ways(struct t_node *n, unsigned char *out)
{
	fi_addr_t to = n->peer[1];
	struct iovec iov[2] = {{out + 2 * PART, 300}, {out + 2 * PART + 300, PART - 300}};
	struct iovec iov3[2] = {{out + 3 * PART, 999}, {out + 3 * PART + 999, 1}};
	struct iovec iov7 = {out + 7 * PART, PART};
	struct fi_rma_iov place[3] = {
		{3 * PART, 1, KEY}, {3 * PART + 1, 500, KEY}, {3 * PART + 501, 499, KEY}};
	struct fi_rma_iov place7 = {7 * PART, PART, KEY};
	struct fi_msg_rma msg = {
		.msg_iov = iov3, .iov_count = 2, .addr = to, .rma_iov = place, .rma_iov_count = 3};
	struct t_op op[5] = {0};

	write_to(n, 1, out + PART, PART, PART, KEY);
	T_TRY(fi_writev(n->ep, iov, NULL, 2, to, 2 * PART, KEY, &op[0]));
	msg.context = &op[1];
	T_TRY(fi_writemsg(n->ep, &msg, FI_COMPLETION));
	T_TRY(fi_inject_write(n->ep, out + 4 * PART, PART, to, 4 * PART, KEY));
	T_TRY(fi_writedata(n->ep, out + 5 * PART, PART, NULL, 0x5555, to, 5 * PART, KEY, &op[2]));
	T_TRY(fi_inject_writedata(n->ep, out + 6 * PART, PART, 0x6666, to, 6 * PART, KEY));
	memset(out + 6 * PART, 0, PART); /* it was injected */
	msg.msg_iov = &iov7;
	msg.iov_count = 1;
	msg.rma_iov = &place7;
	msg.rma_iov_count = 1;
	msg.data = 0x7777;
	msg.context = &op[3];
	T_TRY(fi_writemsg(n->ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE));
	for (int i = 0; i < 4; i++)
		T_WAIT(&op[i]);
	T_TRY(fi_writedata(n->ep, NULL, 0, NULL, 0x8888, to, 0, 0, &op[4]));
	T_WAIT(&op[4]);
}

static void read_all_ways(struct t_node *n)
{
	struct t_buf in = t_buf(3 * PART, 7);
	struct iovec iov[2] = {{in.p, 100}, {in.p + 100, PART - 100}};
	struct iovec two = {in.p + PART, 2 * PART};
	struct fi_rma_iov place[2] = {{5 * PART, PART, KEY}, {PART, PART, KEY}};
	struct fi_msg_rma msg = {.msg_iov = &two,
				 .iov_count = 1,
				 .addr = n->peer[1],
				 .rma_iov = place,
				 .rma_iov_count = 2};
	struct t_op op[2] = {0};

	T_TRY(fi_readv(n->ep, iov, NULL, 2, n->peer[1], 2 * PART, KEY, &op[0]));
	msg.context = &op[1];
	T_TRY(fi_readmsg(n->ep, &msg, FI_COMPLETION));
	T_WAIT(&op[0]);
	T_WAIT(&op[1]);
	T_SAME(in.p, PART, 1, 2 * PART);
	T_SAME(in.p + PART, PART, 1, 5 * PART);
	T_SAME(in.p + 2 * PART, PART, 1, PART);
	t_buf_free(&in);
}

static void calls(void)
{
	struct t_opts o = {.caps = FI_SOURCE, .cq_data = true, .iov = 2};
	struct t_buf mem = t_buf(8 * PART, 3);
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	t_foreign = hear;
	t_blank(&mem);
	mr = reg(&n, mem.p, mem.len, BOTH, KEY);
	t_barrier();
	if (t_rank == 0) {
		t_fill(mem.p, 8 * PART, 1, 0);
		write_all_ways(&n, mem.p);
		read_all_ways(&n);
	} else {
		expect_told(&n, 4, 0x8888, 0);
		T_SAME(mem.p + PART, 7 * PART, 1, PART);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
	t_buf_free(&mem);
}

/* --- modes of registration --------------------------------------------------------- */

struct place {
	uint64_t addr, key;
};

static void mode(int mr_mode)
{
	struct t_opts o = {.mr_mode = mr_mode};
	struct t_buf mem = t_buf(3000, 3);
	struct iovec iov[3] = {{mem.p, 1000}, {mem.p + 1500, 500}, {mem.p + 2500, 500}};
	struct place mine, all[2];
	struct fid_mr *mr, *more;
	struct t_node n;
	unsigned char b[1200];

	begin(&n, &o);
	t_blank(&mem);
	T_OK(fi_mr_reg(n.domain, mem.p, 3000, BOTH, 0, KEY, 0, &mr, NULL));
	mine.key = fi_mr_key(mr);
	mine.addr = n.info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC)
			    ? (uintptr_t)mem.p
			    : 0;
	t_allgather(&mine, sizeof(mine), all, t_progress);
	if (t_rank == 0) {
		t_fill(b, 1200, 9, 0);
		write_to(&n, 1, b, 1200, all[1].addr + 700, all[1].key);
	}
	t_barrier();
	if (t_rank == 1)
		T_SAME(mem.p + 700, 1200, 9, 0);
	T_OK(fi_close(&mr->fid));

	/* A region of several pieces: offsets run through them. */
	T_OK(fi_mr_regv(n.domain, iov, 3, BOTH, 0, KEY, 0, &more, NULL));
	mine.key = fi_mr_key(more);
	t_allgather(&mine, sizeof(mine), all, t_progress);
	if (t_rank == 0 && !mine.addr) {
		write_to(&n, 1, b, 1200, 600, all[1].key);
		memset(b, 0, sizeof(b));
		read_from(&n, 1, b, 1200, 600, all[1].key);
		T_SAME(b, 1200, 9, 0);
	} else if (t_rank == 0) {
		write_to(&n, 1, b, 500, all[1].addr + 1500, all[1].key);
	}
	t_barrier();
	if (t_rank == 1 && !mine.addr) {
		T_SAME(mem.p + 600, 400, 9, 0);
		T_SAME(mem.p + 1500, 500, 9, 400);
		T_SAME(mem.p + 2500, 300, 9, 900);
	} else if (t_rank == 1) {
		T_SAME(mem.p + 1500, 500, 9, 0);
	}
	T_OK(fi_close(&more->fid));
	t_finish(&n);
	t_buf_free(&mem);
}

static void mode_none(void)
{
	mode(0);
}

static void mode_basic(void)
{
	mode(FI_MR_BASIC);
}

static void mode_scalable(void)
{
	mode(FI_MR_SCALABLE);
}

static void mode_all(void)
{
	mode(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
}

/* --- refused ------------------------------------------------------------------------ */

static void refused(struct t_node *n, bool write, size_t len, uint64_t addr, uint64_t key,
		    int error)
{
	static unsigned char b[4096];
	struct t_op op = {0};

	if (write)
		T_TRY(fi_write(n->ep, b, len, NULL, n->peer[1], addr, key, &op));
	else
		T_TRY(fi_read(n->ep, b, len, NULL, n->peer[1], addr, key, &op));
	T_WAIT_ERR(&op, error);
}

static void refusals(void)
{
	struct t_opts o = {0};
	static unsigned char mem[2000];
	struct fid_mr *mr[3], *again;
	unsigned char b[100];
	struct t_node n;

	begin(&n, &o);
	memset(mem, 0x33, sizeof(mem));
	mr[0] = reg(&n, mem, 1000, BOTH, 1);
	mr[1] = reg(&n, mem, 1000, FI_REMOTE_READ, 2);
	mr[2] = reg(&n, mem, 1000, FI_REMOTE_WRITE, 3);
	T_EQ(fi_mr_reg(n.domain, mem, 10, BOTH, 0, 2, 0, &again, NULL), -FI_ENOKEY);
	t_barrier();
	if (t_rank == 0) {
		refused(&n, true, 10, 0, 77, FI_EKEYREJECTED);
		refused(&n, false, 10, 0, 77, FI_EKEYREJECTED);
		refused(&n, true, 10, 0, 2, FI_EACCES);
		refused(&n, false, 10, 0, 3, FI_EACCES);
		refused(&n, true, 1, 1000, 1, FI_EINVAL);
		refused(&n, true, 1001, 0, 1, FI_EINVAL);
		refused(&n, false, 2, 999, 1, FI_EINVAL);
		refused(&n, false, 2, UINT64_MAX, 1, FI_EINVAL);
		refused(&n, false, 2, UINT64_MAX - 1, 1, FI_EINVAL);
		/* more than there can be: the target never hears of it */
		if (t_beeline)
			T_EQ(fi_read(n.ep, b, ((size_t)1 << 62) + 8, NULL, n.peer[1], 0, 1, &n),
			     -FI_EINVAL);
		read_from(&n, 1, b, 100, 900, 1); /* it is known now ... */
		write_to(&n, 1, b, 100, 900, 3);
	}
	t_barrier();
	T_OK(fi_close(&mr[0]->fid));
	t_barrier();
	if (t_rank == 0)
		refused(&n, true, 10, 0, 1, FI_EKEYREJECTED); /* ... and is no more */
	t_barrier();
	again = reg(&n, mem + 1000, 1000, BOTH, 1); /* other memory by the same key */
	t_barrier();
	if (t_rank == 0) {
		memset(b, 0x55, 100);
		write_to(&n, 1, b, 100, 0, 1);
	}
	t_barrier();
	for (int i = 0; i < 2000; i++)
		T_EQ(mem[i], t_rank == 1 && i >= 1000 && i < 1100 ? 0x55 : 0x33);
	for (int i = 1; i < 3; i++)
		T_OK(fi_close(&mr[i]->fid));
	T_OK(fi_close(&again->fid));
	t_finish(&n);
}

/* A region may claim memory that isn't there: an error for the origin, nothing else. */
static void not_there(void)
{
	struct t_opts o = {0};
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, NULL, SIZE_MAX, BOTH, KEY);
	t_barrier();
	if (t_rank == 0) {
		refused(&n, true, 100, 4096, KEY, FI_EFAULT);
		refused(&n, false, 100, 4096, KEY, FI_EFAULT);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* Calls that the capabilities don't include, and lengths that don't agree. */
static void misuse(void)
{
	struct t_opts o = {0};
	struct iovec iov = {NULL, 10};
	struct fi_rma_iov place = {0, 11, KEY};
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &place, .rma_iov_count = 1};
	static unsigned char b[70000];
	struct t_node n;

	t_start(&n, NULL);
	T_EQ(fi_write(n.ep, b, 1, NULL, n.peer[0], 0, KEY, NULL), -FI_EOPNOTSUPP);
	t_close(&n);
	begin(&n, &o);
	iov.iov_base = b;
	msg.addr = n.peer[0];
	T_EQ(fi_writemsg(n.ep, &msg, 0), -FI_EINVAL);
	T_EQ(fi_writemsg(n.ep, &msg, FI_PEEK), -FI_EBADFLAGS);
	T_EQ(fi_inject_write(n.ep, b, sizeof(b), n.peer[0], 0, KEY), -FI_EMSGSIZE);
	T_EQ(fi_write(n.ep, b, 1, NULL, 99, 0, KEY, NULL), -FI_EINVAL);
	t_finish(&n);
}

/* --- many regions ----------------------------------------------------------------------- */

static void many(void)
{
	enum { N = 3000 };
	struct t_opts o = {0};
	static uint64_t mem[N];
	static struct fid_mr *mr[N];
	struct t_node n;

	begin(&n, &o);
	for (uint64_t i = 0; i < N; i++) {
		mem[i] = i * 3 + (uint64_t)t_rank;
		mr[i] = reg(&n, &mem[i], 8, BOTH, i * 0x1000100010001);
	}
	for (int i = 1; i < N; i += 2)
		T_OK(fi_close(&mr[i]->fid));
	t_barrier();
	for (uint64_t i = 0; i < N && t_rank == 0; i += 7) {
		uint64_t value = 0;
		struct t_op op = {0};

		T_TRY(fi_read(n.ep, &value, 8, NULL, n.peer[1], 0, i * 0x1000100010001, &op));
		if (i % 2) {
			T_WAIT_ERR(&op, FI_EKEYREJECTED);
		} else {
			T_WAIT(&op);
			T_EQ(value, i * 3 + 1);
		}
	}
	t_barrier();
	for (int i = 0; i < N; i += 2)
		T_OK(fi_close(&mr[i]->fid));
	t_finish(&n);
}

/* --- counters ------------------------------------------------------------------------------ */

static void counted(struct fid_cntr *cntr, uint64_t value)
{
	while (fi_cntr_read(cntr) < value)
		t_idle();
	T_EQ(fi_cntr_read(cntr), value);
}

static void counters(void)
{
	struct t_opts o = {.rma_counters = true, .cq_data = true};
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *of_region;
	static unsigned char mem[100], b[100];
	struct fid_mr *mr, *plain;
	struct t_op op = {0};
	struct t_node n;

	begin(&n, &o);
	t_foreign = hear;
	T_OK(fi_cntr_open(n.domain, &attr, &of_region, NULL));
	mr = reg(&n, mem, 100, BOTH, KEY);
	plain = reg(&n, mem, 100, BOTH, KEY + 1);
	T_OK(fi_mr_bind(mr, &of_region->fid, FI_REMOTE_WRITE));
	t_barrier();
	if (t_rank == 0) {
		for (int i = 0; i < 10; i++) {
			write_to(&n, 1, b, 10, 0, KEY);
			read_from(&n, 1, b, 10, 0, KEY);
			write_to(&n, 1, b, 10, 0, KEY + 1);
			T_TRY(fi_inject_write(n.ep, b, 10, n.peer[1], 0, KEY));
		}
		counted(n.rma, 40);
		T_TRY(fi_write(n.ep, b, 10, NULL, n.peer[1], 99, KEY, &op));
		T_WAIT_ERR(&op, FI_EINVAL);
		T_EQ(fi_cntr_readerr(n.rma), 1);
	} else {
		counted(n.remote, 40);
		counted(of_region, 20); /* not the reads, not the other region */
	}
	t_barrier();
	T_EQ(fi_cntr_read(n.remote), t_rank ? 40 : 0);
	T_EQ(fi_close(&of_region->fid), -FI_EBUSY);
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&plain->fid));
	T_OK(fi_close(&of_region->fid));
	t_finish(&n);
}

/* A signal: nothing is written, but the region counts it. No other counter wants to hear. */
static void signals(void)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct t_opts o = {0};
	struct fid_cntr *writes;
	static unsigned char mem[8];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	T_OK(fi_cntr_open(n.domain, &attr, &writes, NULL));
	mr = reg(&n, mem, sizeof(mem), BOTH, KEY);
	T_OK(fi_mr_bind(mr, &writes->fid, FI_REMOTE_WRITE));
	t_barrier();
	if (t_rank == 0) {
		write_to(&n, 1, NULL, 0, 0, KEY);
		read_from(&n, 1, NULL, 0, 0, KEY);
		write_to(&n, 1, NULL, 0, 0, KEY + 1); /* no such region: nothing is touched */
		write_to(&n, 1, "12345678", 8, 0, KEY);
		write_to(&n, 1, NULL, 0, 0, KEY);
	} else {
		counted(writes, 3);
	}
	t_barrier();
	T_EQ(fi_cntr_read(writes), t_rank ? 3 : 0);
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&writes->fid));
	t_finish(&n);
}

/* --- without the target ---------------------------------------------------------------------- */

static bool nothing(void)
{
	return false;
}

static void absent(void)
{
	struct t_opts o = {0};
	static unsigned char mem[ROOM], b[ROOM];
	struct fid_mr *mr;
	struct t_node n;

	way = DIRECT;
	begin(&n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	if (t_rank == 0) { /* connected; from here on the target makes no progress */
		read_from(&n, 1, b, 1, 0, KEY);
		t_barrier();
		for (uint64_t i = 0; i < 300; i++) {
			t_fill(b, 1000 + i, i, 0);
			write_to(&n, 1, b, 1000 + i, 10 * i, KEY);
			read_from(&n, 1, b, 1000 + i, 10 * i, KEY);
			T_SAME(b, 1000 + i, i, 0);
		}
		t_fill(b, ROOM, 7, 0);
		write_to(&n, 1, b, ROOM, 0, KEY);
		t_barrier();
	} else {
		t_barrier();
		t_barrier_with(nothing);
		T_SAME(mem, ROOM, 7, 0);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* --- many at once, and in order ----------------------------------------------------------------
 */

#define SLICE 20000

static void crowd(void)
{
	struct t_opts o = {0};
	static unsigned char mem[T_PROC_MAX * SLICE], b[SLICE];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, sizeof(mem), BOTH, KEY);
	t_barrier();
	for (uint64_t round = 0; round < 40; round++) {
		if (round == 20 && t_rank % 2)
			midway();
		for (int k = 1; k <= t_nproc; k++) {
			int to = (t_rank + k) % t_nproc; /* ourselves the last */
			uint64_t at = (uint64_t)t_rank * SLICE;
			size_t len = SLICE - round * 401;

			t_fill(b, len, round + (uint64_t)t_rank * 100, 0);
			write_to(&n, to, b, len, at, KEY);
			memset(b, 0, len);
			read_from(&n, to, b, len, at, KEY);
			T_SAME(b, len, round + (uint64_t)t_rank * 100, 0);
		}
	}
	t_barrier();
	for (int from = 0; from < t_nproc; from++)
		T_SAME(mem + from * SLICE, SLICE - 39 * 401, 39 + (uint64_t)from * 100, 0);
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* What is begun first is done first, while nobody waits for completions. */
static void order(void)
{
	enum { N = 200, LEN = 6000 };
	struct t_opts o = {0};
	static unsigned char mem[LEN], out[N][LEN], in[N][LEN];
	static struct t_op w[N], r[N];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, LEN, BOTH, KEY);
	t_barrier();
	for (uint64_t i = 0; i < N && t_rank == 0; i++) {
		if (i == N / 2)
			midway();
		t_fill(out[i], LEN, i, 0);
		T_TRY(fi_write(n.ep, out[i], LEN, NULL, n.peer[1], 0, KEY, &w[i]));
		T_TRY(fi_read(n.ep, in[i], LEN, NULL, n.peer[1], 0, KEY, &r[i]));
	}
	for (uint64_t i = 0; i < N && t_rank == 0; i++) {
		T_WAIT(&w[i]);
		T_WAIT(&r[i]);
		T_SAME(in[i], LEN, i, 0);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* Regions belong to the domain: another endpoint of it reaches them too. */
static void beside(void)
{
	struct t_opts o = {0};
	static unsigned char mem[100], b[100];
	unsigned char all[2 * T_NAME_MAX];
	struct t_node n, second;
	struct fid_mr *mr;
	struct t_op op = {0};

	begin(&n, &o);
	mr = reg(&n, mem, 100, BOTH, KEY);
	t_open_beside(&second, &n, &o);
	t_allgather(second.name, T_NAME_MAX, all, t_progress);
	if (t_rank == 0) {
		fi_addr_t to = t_insert(&n, all + T_NAME_MAX);

		memset(b, 0x44, 100);
		T_TRY(fi_write(n.ep, b, 100, NULL, to, 0, KEY, &op));
		T_WAIT(&op);
	}
	t_barrier();
	T_EQ(mem[50], t_rank ? 0x44 : 0);
	T_OK(fi_close(&mr->fid));
	t_barrier();
	t_close(&second);
	t_finish(&n);
}

/* --- the table
 * ------------------------------------------------------------------------------------ */

#define WAYS(name)                                                                                 \
	static void name##_direct(void)                                                            \
	{                                                                                          \
		way = DIRECT;                                                                      \
		name();                                                                            \
	}                                                                                          \
	static void name##_served(void)                                                            \
	{                                                                                          \
		if (!t_beeline)                                                                    \
			t_skip("a knob of ours");                                                  \
		way = SERVED;                                                                      \
		name();                                                                            \
	}                                                                                          \
	static void name##_asked(void)                                                             \
	{                                                                                          \
		if (!t_beeline)                                                                    \
			t_skip("a knob of ours");                                                  \
		way = ASKED;                                                                       \
		name();                                                                            \
	}
#define WAYS3(name)                                                                                \
	WAYS(name)                                                                                 \
	static void name##_denied(void)                                                            \
	{                                                                                          \
		way = DENIED;                                                                      \
		name();                                                                            \
	}
#define CASES(name, nproc, why)                                                                    \
	{"rma_" #name, nproc, name##_direct, why, 0},                                              \
		{"rma_" #name "_served", nproc, name##_served, why, 0},                            \
	{                                                                                          \
		"rma_" #name "_asked", nproc, name##_asked, why, 0                                 \
	}
#define CASES3(name, nproc, why)                                                                   \
	CASES(name, nproc, why),                                                                   \
	{                                                                                          \
		"rma_" #name "_denied", nproc, name##_denied, why, 0                               \
	}

WAYS3(lengths)
WAYS(calls)
WAYS(mode_none)
WAYS(mode_basic)
WAYS(mode_scalable)
WAYS(mode_all)
WAYS(refusals)
WAYS(not_there)
WAYS(many)
WAYS(counters)
WAYS(signals)
WAYS3(crowd)
WAYS3(order)
WAYS(beside)

static void absent_direct(void)
{
	way = DIRECT;
	absent();
}

static void absent_served(void)
{
	way = SERVED;
	absent();
}

static const struct t_case cases[] = {
	CASES3(lengths, 2, "bytes come and go at every length"),
	CASES(calls, 2, "each call does what it says"),
	CASES(mode_none, 2, "offsets, the application's keys"),
	CASES(mode_basic, 2, "FI_MR_BASIC of old"),
	CASES(mode_scalable, 2, "FI_MR_SCALABLE of old"),
	CASES(mode_all, 2, "what newer applications say they can do"),
	CASES(refusals, 2, "nobody reaches what isn't registered"),
	CASES(not_there, 2, "a bad address ends one operation, not a process"),
	{"rma_misuse", 1, misuse, "wrong arguments", 0},
	CASES(many, 2, "the table grows and forgets"),
	CASES(counters, 2, "each operation is counted where asked for, once"),
	CASES(signals, 2, "writes of nothing are counted, too"),
	{"rma_absent", 2, absent_direct, "the target's help is not needed", 0},
	{"rma_absent_served", 2, absent_served, "one that is asked for it needn't be there", 0},
	CASES3(crowd, 4, "everybody with everybody, themselves included"),
	CASES3(order, 2, "reads after writes, writes after reads"),
	CASES(beside, 2, "two endpoints share a domain's regions"),
};

const struct t_group group_rma = T_GROUP("rma", cases);
