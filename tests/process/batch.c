/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * batch.c: short reads and writes of another process's memory that follow each other, which are
 * kept and done together: the bytes are those of one after the other, each completes, and each is
 * refused or counted by itself. (How long they are kept: kept.c.)
 */
#define GROUP "batch"
#include "batch.h"

#include <string.h>

#include "../deny.h"

/* --- as one after the other --------------------------------------------------- */

#define BURST 150
#define LONG  20000

/* One of a burst: what it writes, or reads; what a read has to bring. */
struct one {
	struct t_op op;
	bool reads;
	size_t len;
	unsigned char *bytes, *wanted;
};

static unsigned char shadow[ROOM];
static uint64_t deny_at = BURST; /* the right to copy is lost behind this one of the next burst */

static size_t length(struct t_rng *rng)
{
	switch (t_rand_below(rng, 10)) {
	case 0:
		return 4097 + t_rand_below(rng, LONG - 4097);
	case 1:
		return t_rand_below(rng, 4097);
	case 2:
		return 0;
	}
	return 1 + t_rand_below(rng, 40);
}

/* Beside the last one, or anywhere; now and then over a part of it. */
static uint64_t place(struct t_rng *rng, uint64_t end, size_t len)
{
	if (t_rand_below(rng, 3) && end + len <= ROOM)
		return end;
	return t_rand_below(rng, ROOM - len + 1);
}

static void add(struct t_node *n, uint64_t at, struct t_op *op)
{
	uint64_t one = 1, sum;

	at = at % (ROOM / 8) * 8;
	memcpy(&sum, shadow + at, 8);
	sum++;
	memcpy(shadow + at, &sum, 8);
	T_TRY(fi_inject_atomic(n->ep, &one, 1, n->peer[1], at, KEY, FI_UINT64, FI_SUM));
	op->done = 1; /* it tells of itself by a counter only */
}

static void begin_one(struct t_node *n, struct t_rng *rng, struct one *one, uint64_t *end)
{
	uint64_t kind = t_rand_below(rng, 12), at;

	*one = (struct one){.len = length(rng)};
	at = place(rng, *end, one->len);
	*end = at + one->len;
	if (!kind) {
		add(n, at, &one->op);
		return;
	}
	one->bytes = malloc(one->len + 1);
	if (kind < 4) {
		one->reads = true;
		one->wanted = malloc(one->len + 1);
		memcpy(one->wanted, shadow + at, one->len);
		get(n, one->bytes, one->len, at, &one->op);
		return;
	}
	t_fill(one->bytes, one->len, t_rand(rng), 0);
	memcpy(shadow + at, one->bytes, one->len);
	if (kind < 8 && one->len <= n->info->tx_attr->inject_size) {
		inject(n, one->bytes, one->len, at);
		memset(one->bytes, 0, one->len);
		one->op.done = 1;
	} else {
		put(n, one->bytes, one->len, at, &one->op);
	}
}

static void end_one(struct one *one)
{
	T_WAIT(&one->op);
	T_EQ(one->op.done, 1);
	if (one->reads)
		T_CHECK(!memcmp(one->bytes, one->wanted, one->len), "%zu bytes read", one->len);
	free(one->bytes);
	free(one->wanted);
}

static void burst(struct t_node *n, struct t_rng *rng)
{
	static struct one all[BURST];
	uint64_t count = 1 + t_rand_below(rng, BURST), end = 0;

	for (uint64_t i = 0; i < count; i++) {
		begin_one(n, rng, &all[i], &end);
		if (i == deny_at && deny_process_vm())
			t_skip("no seccomp filter");
	}
	for (uint64_t i = count; i--;)
		end_one(&all[i]);
}

static void bursts(void)
{
	struct t_opts o = {0};
	static unsigned char mem[ROOM], all[ROOM];
	struct t_op op = {0};
	struct t_rng rng;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	t_rng_init(&rng, 1);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	for (int round = 0; round < 60 && t_rank == 0; round++) {
		if (round == 30 && way >= DENIED)
			deny_at = t_rand_below(&rng, BURST / 2);
		burst(&n, &rng);
	}
	if (t_rank == 0) {
		get(&n, all, ROOM, 0, &op);
		T_WAIT(&op);
		T_CHECK(!memcmp(all, shadow, ROOM), "the bytes are others");
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* To oneself: both sides of it are here. */
static void oneself(void)
{
	enum { N = 200 };
	struct t_opts o = {0};
	static uint64_t mem[N], in[N];
	static struct t_op op[2 * N];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, sizeof(mem), BOTH, KEY);
	for (uint64_t i = 0; i < N; i++) {
		in[i] = i + 1;
		T_TRY(fi_write(n.ep, &in[i], 8, NULL, n.peer[0], 8 * (N - 1 - i), KEY, &op[i]));
	}
	for (uint64_t i = 0; i < N; i++)
		T_WAIT(&op[i]);
	for (uint64_t i = 0; i < N; i++) {
		T_EQ(mem[i], N - i);
		T_TRY(fi_read(n.ep, &in[i], 8, NULL, n.peer[0], 8 * i, KEY, &op[N + i]));
	}
	for (uint64_t i = 0; i < N; i++) {
		T_WAIT(&op[N + i]);
		T_EQ(in[i], N - i);
	}
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* --- each by itself, all the same ------------------------------------------------ */

static const struct {
	const char *what;
	uint64_t addr, key;
	size_t len;
	int error; /* of a write */
} bad[] = {
	{"no such key", 0, 77, 8, FI_EKEYREJECTED},
	{"beyond the end", ROOM - 4, KEY, 8, FI_EINVAL},
	{"not to be written", 0, KEY + 1, 8, FI_EACCES},
	{"not there", 4096, KEY + 2, 8, FI_EFAULT},
};

/* Eight bytes each to 100 places, one of which is none. */
static void with_bad(struct t_node *n, size_t which, int at)
{
	enum { N = 100 };
	static uint64_t out[N];
	static struct t_op op[N];

	memset(op, 0, sizeof(op));
	t_at("%s, the one at %d", bad[which].what, at);
	for (int i = 0; i < N; i++) {
		uint64_t addr = (uint64_t)i * 16, key = KEY;

		out[i] = which * 1000 + (uint64_t)i;
		if (i == at) {
			addr = bad[which].addr;
			key = bad[which].key;
		}
		T_TRY(fi_write(n->ep, &out[i], 8, NULL, n->peer[1], addr, key, &op[i]));
	}
	for (int i = 0; i < N; i++) {
		if (i == at)
			T_WAIT_ERR(&op[i], bad[which].error);
		else
			T_WAIT(&op[i]);
		T_EQ(op[i].done, 1);
	}
	for (int i = 0; i < N; i++) {
		uint64_t in = 0;
		struct t_op r = {0};

		get(n, &in, 8, (uint64_t)i * 16, &r);
		T_WAIT(&r);
		if (i != at)
			T_EQ(in, out[i]);
	}
}

static void refusals(void)
{
	const int places[] = {0, 1, 6, 7, 8, 63, 64, 99};
	struct t_opts o = {0};
	static unsigned char mem[ROOM];
	struct fid_mr *mr[3];
	struct t_node n;

	begin(&n, &o);
	mr[0] = reg(&n, mem, ROOM, BOTH, KEY);
	mr[1] = reg(&n, mem, ROOM, FI_REMOTE_READ, KEY + 1);
	mr[2] = reg(&n, NULL, SIZE_MAX, BOTH, KEY + 2);
	t_barrier();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) && t_rank == 0; i++)
		for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++)
			with_bad(&n, i, places[k]);
	t_barrier();
	for (int i = 0; i < 3; i++)
		T_OK(fi_close(&mr[i]->fid));
	t_finish(&n);
}

/* What is done isn't done again because another of them fails: the target, which takes away what it
 * finds, finds it once. */
static void once(void)
{
	enum { N = 5000 };
	struct t_opts o = {0};
	static uint64_t mem[ROOM / 8], one = 1, last = 2;
	volatile uint64_t *flag = mem, *end = mem + 1;
	static struct t_op op[2];
	struct fid_mr *mr[2];
	struct t_node n;
	unsigned found = 0;

	begin(&n, &o);
	mr[0] = reg(&n, mem, sizeof(mem), BOTH, KEY);
	mr[1] = reg(&n, NULL, SIZE_MAX, BOTH, KEY + 2);
	t_barrier();
	for (int i = 0; i < N && t_rank == 0; i++) {
		memset(op, 0, sizeof(op));
		put(&n, &one, 8, 0, &op[0]);
		T_TRY(fi_write(n.ep, &one, 8, NULL, n.peer[1], 4096, KEY + 2, &op[1]));
		T_WAIT(&op[0]);
		T_WAIT_ERR(&op[1], FI_EFAULT);
	}
	if (t_rank == 0) {
		op[0] = (struct t_op){0};
		put(&n, &last, 8, 8, &op[0]);
		T_WAIT(&op[0]);
	}
	while (t_rank == 1 && *end != last) {
		found += *flag;
		*flag = 0;
		t_progress(); /* what the kernel can't reach for the other is ours to look at */
	}
	T_CHECK(found <= N, "%u were found of %d", found, N);
	t_barrier();
	for (int i = 0; i < 2; i++)
		T_OK(fi_close(&mr[i]->fid));
	t_finish(&n);
}

/* A third process has work for the first one, while that waits for the second to do its own. */
static void beside(void)
{
	enum { N = 300, SOME = 6 };
	struct t_opts o = {0};
	static uint64_t mem[ROOM / 8], b[SOME], count;
	static struct t_op op[SOME];
	struct fid_mr *mr;
	struct t_node n;

	if (t_rank == 2)
		setenv("FI_BEELINE_COPY", "ring", 1); /* others do it for this one */
	begin(&n, &o);
	mr = reg(&n, mem, sizeof(mem), BOTH, KEY);
	t_barrier();
	while (t_rank == 0 && *(volatile uint64_t *)mem < N) {
		memset(op, 0, sizeof(op));
		for (uint64_t i = 0; i < SOME; i++)
			put(&n, &b[i], 8, 16 * i, &op[i]);
		for (int i = 0; i < SOME; i++)
			T_WAIT(&op[i]);
	}
	for (count = 1; count <= N && t_rank == 2; count++) {
		op[0] = (struct t_op){0};
		T_TRY(fi_write(n.ep, &count, 8, NULL, n.peer[0], 0, KEY, &op[0]));
		T_WAIT(&op[0]);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* A region that its owner closes while some for it are kept. */
static void closed(void)
{
	enum { N = 20 };
	struct t_opts o = {0};
	static unsigned char mem[ROOM], b[8];
	static struct t_op op[N];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	if (t_rank == 0) {
		put(&n, b, 8, 0, &op[0]);
		T_WAIT(&op[0]);
		memset(op, 0, sizeof(op));
		memset(b, 1, 8);
	}
	t_barrier();
	for (int i = 0; i < N && t_rank == 0; i++)
		put(&n, b, 8, 100 * (uint64_t)i, &op[i]);
	t_barrier_with(nothing); /* nothing makes progress */
	if (t_rank == 1) {
		T_OK(fi_close(&mr->fid));
		for (size_t i = 0; i < ROOM; i++)
			T_EQ(mem[i], 0);
	}
	t_barrier_with(nothing);
	for (int i = 0; i < N && t_rank == 0; i++)
		T_WAIT_ERR(&op[i], FI_EKEYREJECTED);
	t_barrier();
	if (t_rank == 0)
		T_OK(fi_close(&mr->fid));
	for (size_t i = 0; i < ROOM; i++)
		T_EQ(mem[i], 0);
	t_finish(&n);
}

/* Each is counted: here by the endpoint, there by the region, and where both endpoints count. */
static void counted(bool remote)
{
	enum { N = 1000 };
	struct t_opts o = {.rma_counters = remote, .counters = !remote};
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *of_region;
	static uint64_t mem[ROOM / 8];
	struct fid_mr *mr, *plain;
	struct t_node n;

	begin(&n, &o);
	T_OK(fi_cntr_open(n.domain, &attr, &of_region, NULL));
	mr = reg(&n, mem, ROOM, BOTH, KEY + 1);
	plain = reg(&n, mem, ROOM, BOTH, KEY);
	T_OK(fi_mr_bind(mr, &of_region->fid, FI_REMOTE_WRITE));
	t_barrier();
	for (uint64_t i = 0; i < N && t_rank == 0; i++) {
		inject(&n, &i, 8, 16 * i);
		T_TRY(fi_inject_write(n.ep, &i, 8, n.peer[1], 16 * i + 8, KEY + 1));
	}
	if (remote) /* of all, where it comes from and where it goes */
		reach(t_rank ? n.remote : n.rma, 2 * N);
	if (t_rank == 1)
		reach(of_region, N);
	t_barrier();
	for (uint64_t i = 0; i < 2 * N && t_rank == 1; i++)
		T_EQ(mem[i], i / 2);
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&plain->fid));
	T_OK(fi_close(&of_region->fid));
	t_finish(&n);
}

static void counters(void)
{
	counted(true);
}

static void regions(void)
{
	counted(false);
}

/* --- the table --------------------------------------------------------------------- */

ALL(bursts)
AS(bursts, DENIED)
AS(bursts, DENIED_SERVED)
/* --- of many pieces --------------------------------------------------------------- */

#define MOST 1024

/* Lengths of pieces, by turns, and what lies between them. */
static const struct {
	const char *name;
	size_t n, there, here, gap, len;
} vectors[] = {
	{"one", 1, 1, 1, 8, 8},
	{"as many as a packet's places", 8, 8, 8, 8, 8},
	{"one more", 9, 9, 9, 8, 8},
	{"others here than there", 64, 64, 1, 8, 8},
	{"others there than here", 64, 1, 64, 0, 8},
	{"of a byte", 1023, 1023, 1023, 1, 1},
	{"as many as there may be", 1024, 1024, 1024, 8, 8},
	{"far apart", 16, 16, 16, 2000, 8},
	{"over a page's end", 40, 40, 40, 77, 123},
	{"longer ones", 9, 9, 9, 100, 3000},
};
#define NVECTORS (sizeof(vectors) / sizeof(vectors[0]))

static void fill_places(struct fi_rma_iov *to, size_t n, size_t len, size_t gap, bool odd)
{
	for (size_t i = 0; i < n; i++) {
		/* Not all with the same distance, for half of them. */
		uint64_t at = i * (len + gap) + (odd && i % 5 == 3 && gap > 1);

		to[i] = (struct fi_rma_iov){at, len, KEY};
	}
}

static ssize_t vector(struct t_node *n, bool reads, struct iovec *iov, size_t niov,
		      struct fi_rma_iov *place, size_t nplace, uint64_t flags, struct t_op *op)
{
	struct fi_msg_rma msg = {.msg_iov = iov,
				 .iov_count = niov,
				 .addr = n->peer[1],
				 .rma_iov = place,
				 .rma_iov_count = nplace,
				 .context = op};

	flags |= FI_COMPLETION;
	return reads ? fi_readmsg(n->ep, &msg, flags) : fi_writemsg(n->ep, &msg, flags);
}

/* Write by vectors, and read back by them: exactly the bytes that are named. */
static void one_vector(struct t_node *n, size_t which, bool odd, uint64_t flags)
{
	size_t np = vectors[which].there, nb = vectors[which].here;
	size_t all = vectors[which].n * vectors[which].len;
	static struct fi_rma_iov place[MOST];
	static struct iovec iov[MOST];
	static unsigned char bytes[ROOM], back[ROOM], seen[ROOM];
	struct t_op op = {0}, op2 = {0}, op3 = {0};

	fill_places(place, np, all / np, vectors[which].gap, odd);
	t_fill(bytes, ROOM, which + 77 * odd, 0);
	for (size_t i = 0; i < nb; i++)
		iov[i] = (struct iovec){bytes + i * (all / nb), all / nb};
	for (size_t i = 0; i < np; i++)
		memcpy(shadow + place[i].addr, bytes + i * (all / np), all / np);
	T_TRY(vector(n, false, iov, nb, place, np, flags, &op));
	if (flags & FI_INJECT)
		memset(bytes, 0, all);
	memset(back, 0, ROOM);
	for (size_t i = 0; i < nb; i++)
		iov[i].iov_base = back + i * (all / nb);
	T_TRY(vector(n, true, iov, nb, place, np, 0, &op2));
	T_WAIT(&op);
	T_WAIT(&op2);
	for (size_t i = 0; i < np; i++)
		T_CHECK(!memcmp(back + i * (all / np), shadow + place[i].addr, all / np),
			"%s: read back piece %zu", vectors[which].name, i);
	get(n, seen, ROOM, 0, &op3);
	T_WAIT(&op3);
	T_CHECK(!memcmp(seen, shadow, ROOM), "%s: the bytes are others", vectors[which].name);
}

/* A key in the middle is nobody's. */
static void bad_vector(struct t_node *n, bool reads)
{
	static struct fi_rma_iov place[MOST];
	static unsigned char bytes[8 * MOST], seen[ROOM];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct t_op op = {0}, after = {0};

	fill_places(place, MOST, 8, 8, false);
	place[MOST / 2].key = KEY + 99;
	memset(bytes, 0xee, sizeof(bytes));
	T_TRY(vector(n, reads, &iov, 1, place, MOST, 0, &op));
	T_WAIT_ERR(&op, FI_EKEYREJECTED);
	get(n, seen, ROOM, 0, &after);
	T_WAIT(&after);
	/* Of a write in parts some may be done before. */
	T_CHECK(!memcmp(seen + MOST / 2 * 16, shadow + MOST / 2 * 16, ROOM - MOST / 2 * 16),
		"behind a bad key");
	memcpy(shadow, seen, ROOM);
}

static void pieces(void)
{
	struct t_opts o = {0};
	static unsigned char mem[ROOM];
	struct iovec none[1] = {{mem, 8}};
	static struct fi_rma_iov place[MOST + 1];
	struct fid_mr *mr;
	struct t_op op = {0};
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	for (size_t i = 0; i < 2 * NVECTORS && t_rank == 0; i++) {
		bool small = vectors[i / 2].n * vectors[i / 2].len <= n.info->tx_attr->inject_size;

		one_vector(&n, i / 2, i % 2, 0);
		one_vector(&n, i / 2, i % 2, small ? FI_INJECT : FI_DELIVERY_COMPLETE);
	}
	if (t_rank == 0) {
		bad_vector(&n, false);
		bad_vector(&n, true);
		T_EQ(vector(&n, false, none, 1, place, MOST + 1, 0, &op), -FI_EINVAL);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

AS(once, DIRECT)
AS(once, SERVED)
ALL(pieces)
AS(beside, SERVED)
ALL(oneself)
ALL(refusals)
AS(closed, DIRECT)
AS(closed, SERVED)
ALL(counters)
ALL(regions)

static const struct t_case cases[] = {
	CASES(bursts, 2, "the bytes are those of one after the other"),
	CASE(bursts, DENIED, "_denied", 2, "the same, with the right to copy lost in the middle"),
	CASE(bursts, DENIED_SERVED, "_denied_served", 2, "the same, of a target that is asked"),
	CASE(once, DIRECT, "", 2, "none is done twice because another fails"),
	CASE(once, SERVED, "_served", 2, "nor by the target's hand"),
	CASE(beside, SERVED, "_served", 3, "work that comes meanwhile isn't lost"),
	CASES(oneself, 1, "both sides are one process"),
	CASES(refusals, 2, "one that fails is the only one"),
	CASE(closed, DIRECT, "", 2, "nobody reaches what is registered no more"),
	CASE(closed, SERVED, "_served", 2, "the same, by the target's hand"),
	CASES(pieces, 2, "of up to 1024 pieces exactly the bytes that are named"),
	CASES(counters, 2, "each is counted by both endpoints"),
	CASES(regions, 2, "each is counted by its region"),
};

const struct t_group group_batch = T_GROUP("batch", cases);
