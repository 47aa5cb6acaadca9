/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * counted.c: counters of others' operations on one's memory, their owner away, asleep, or at
 * something else. The origins go all the ways of rma.c.
 */
#include "ways.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rdma/fi_trigger.h>

#include "../deny.h"

#define KEY  0xbee
#define BOTH (FI_REMOTE_READ | FI_REMOTE_WRITE)

enum way { DIRECT, SERVED, ASKED, DENIED };

static enum way way;
static unsigned char mem[256], b[256];

static void begin(struct t_node *n, struct t_opts *o)
{
	o->caps |= FI_RMA | FI_RMA_EVENT;
	if (way == ASKED)
		setenv("FI_BEELINE_COPY", "ring", 1);
	else
		setenv("FI_BEELINE_RMA_DELEGATE", way == DIRECT ? "never" : "always", 1);
	t_start(n, o);
}

static void midway(void)
{
	if (way == DENIED && deny_process_vm())
		t_skip("no seccomp filter");
}

/* The target needn't do anything for its origins. */
static bool needs_no_help(void)
{
	return way == DIRECT || way == SERVED;
}

static bool nothing(void)
{
	return false;
}

static struct fid_cntr *counter(struct t_node *n)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = n->o.wait};
	struct fid_cntr *cntr;

	T_OK(fi_cntr_open(n->domain, &attr, &cntr, NULL));
	return cntr;
}

/* A region of `mem`; cntr: counts what is done to it, or NULL. */
static struct fid_mr *region(struct t_node *n, uint64_t key, struct fid_cntr *cntr, uint64_t events)
{
	struct fid_mr *mr;

	T_OK(fi_mr_reg(n->domain, mem, sizeof(mem), BOTH, 0, key, cntr ? FI_RMA_EVENT : 0, &mr,
		       NULL));
	if (cntr)
		T_OK(fi_mr_bind(mr, &cntr->fid, events));
	return mr;
}

static void write_once(struct t_node *n, int rank, uint64_t key)
{
	struct t_op op = {0};

	T_TRY(fi_write(n->ep, b, 8, NULL, n->peer[rank], 8 * (uint64_t)t_rank, key, &op));
	T_WAIT(&op);
}

static void read_once(struct t_node *n, int rank, uint64_t key)
{
	struct t_op op = {0};

	T_TRY(fi_read(n->ep, b, 8, NULL, n->peer[rank], 8 * (uint64_t)t_rank, key, &op));
	T_WAIT(&op);
}

static void counted(struct fid_cntr *cntr, uint64_t value)
{
	while (fi_cntr_read(cntr) < value)
		t_idle();
	T_EQ(fi_cntr_read(cntr), value);
}

/* --- away ------------------------------------------------------------------- */

/* All of a round's operations are over, and only then does their target look, at the first
 * counter. */
static void await_round(void)
{
	if (t_rank == 0 && needs_no_help())
		t_barrier_with(nothing);
	else
		t_barrier();
}

/* Its neighbours meet it while it is away: it doesn't even know them. */
static void away(void)
{
	struct t_opts o = {.rma_counters = true};
	uint64_t writes = way == ASKED ? 1000 : 10000, all = writes * (uint64_t)(t_nproc - 1);
	struct fid_cntr *of_region, *unused;
	struct fid_mr *mr, *plain;
	struct t_node n;

	begin(&n, &o);
	of_region = counter(&n);
	unused = counter(&n);
	mr = region(&n, KEY, of_region, FI_REMOTE_WRITE);
	plain = region(&n, KEY + 1, NULL, 0);
	t_barrier_with(nothing);
	for (uint64_t i = 0; t_rank && i < writes; i++) {
		if (i == writes / 2 && t_rank == 1)
			midway();
		write_once(&n, 0, i % 4 ? KEY : KEY + 1);
		if (!(i % 100))
			read_once(&n, 0, KEY);
	}
	await_round();
	if (t_rank == 0) {
		T_EQ(fi_cntr_read(of_region), all / 4 * 3);
		T_EQ(fi_cntr_read(n.remote), all + all / 100);
		T_EQ(fi_cntr_read(unused), 0);
		write_once(&n, 0, KEY); /* its own count, too */
		T_EQ(fi_cntr_read(of_region), all / 4 * 3 + 1);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&plain->fid));
	T_OK(fi_close(&of_region->fid));
	T_OK(fi_close(&unused->fid));
	t_finish(&n);
}

/* What was counted by origins that its endpoint has never met is in the counter when that closes.
 */
static void left(void)
{
	enum { N = 1000 };
	struct t_opts o = {0};
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	cntr = counter(&n);
	mr = region(&n, KEY, cntr, FI_REMOTE_WRITE);
	t_barrier_with(nothing);
	for (int i = 0; t_rank && i < N; i++)
		write_once(&n, 0, KEY);
	t_barrier_with(nothing);
	if (t_rank == 0) {
		T_OK(fi_close(&n.ep->fid));
		n.ep = NULL;
		T_EQ(fi_cntr_read(cntr), N * (t_nproc - 1));
	}
	t_barrier_with(nothing);
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&cntr->fid));
	t_close(&n);
}

/* --- regions that come and go -------------------------------------------------- */

/* What was counted before the end is in the counter then, and in no later one. */
static void reopened(void)
{
	enum { ROUNDS = 30 };
	struct t_opts o = {0};
	struct t_node n;

	begin(&n, &o);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		struct fid_cntr *cntr = NULL;
		struct fid_mr *mr = NULL;

		if (t_rank == 0) {
			cntr = counter(&n);
			mr = region(&n, KEY, cntr, FI_REMOTE_WRITE);
		}
		t_barrier_with(nothing);
		if (round == ROUNDS / 2 && t_rank == 1)
			midway();
		for (uint64_t i = 0; t_rank && i < 5 * round; i++)
			write_once(&n, 0, KEY);
		await_round();
		if (t_rank == 0) {
			T_OK(fi_close(&mr->fid));
			T_EQ(fi_cntr_read(cntr), 5 * round * (uint64_t)(t_nproc - 1));
			T_OK(fi_close(&cntr->fid));
		}
	}
	t_finish(&n);
}

/* More counters than there are words for. */
static void many(void)
{
	enum { MANY = 12 };
	struct t_opts o = {.rma_counters = true};
	struct fid_cntr *cntr[MANY];
	struct fid_mr *mr[MANY];
	uint64_t sum = 0;
	struct t_node n;

	begin(&n, &o);
	for (uint64_t i = 0; i < MANY; i++) {
		cntr[i] = counter(&n);
		mr[i] = region(&n, KEY + i, cntr[i], BOTH);
	}
	t_barrier();
	for (uint64_t i = 0; i < MANY; i++) {
		if (i == MANY / 2 && t_rank == 1)
			midway();
		for (uint64_t k = 0; t_rank && k < 20 * (i + 1); k++)
			write_once(&n, 0, KEY + i);
		sum += 20 * (i + 1) * (uint64_t)(t_nproc - 1);
	}
	for (uint64_t i = 0; t_rank == 0 && i < MANY; i++)
		counted(cntr[i], 20 * (i + 1) * (uint64_t)(t_nproc - 1));
	if (t_rank == 0)
		counted(n.remote, sum);
	t_barrier();
	for (int i = 0; i < MANY; i++) {
		T_OK(fi_close(&mr[i]->fid));
		T_OK(fi_close(&cntr[i]->fid));
	}
	t_finish(&n);
}

/* --- once --------------------------------------------------------------------------- */

static void hear(const struct t_comp *c)
{
	T_EQ(c->data, 0x77);
	T_CHECK(c->flags & FI_REMOTE_CQ_DATA, "flags 0x%llx", (unsigned long long)c->flags);
}

/* One operation in two regions, and in one of them twice. */
static void write_both(struct t_node *n, uint64_t flags)
{
	const struct iovec iov = {b, 24};
	const struct fi_rma_iov place[3] = {{0, 8, KEY}, {8, 8, KEY + 1}, {16, 8, KEY}};
	struct t_op op = {0};
	const struct fi_msg_rma msg = {.msg_iov = &iov,
				       .iov_count = 1,
				       .addr = n->peer[0],
				       .rma_iov = place,
				       .rma_iov_count = 3,
				       .context = &op,
				       .data = 0x77};

	T_TRY(fi_writemsg(n->ep, &msg, flags | FI_COMPLETION));
	T_WAIT(&op);
}

/* Each region that is written to counts an operation once; a counter that is the endpoint's, too,
 * counts it once in all. With and without remote data, which take another way. */
static void once(void)
{
	enum { TIMES = 200 };
	struct t_opts o = {.rma_counters = true, .cq_data = true, .iov = 3};
	uint64_t both = 0, first = 0, other = 0;
	struct fid_cntr *cntr;
	struct fid_mr *mr[3];
	struct t_op op = {0};
	struct t_node n;

	begin(&n, &o);
	t_foreign = hear;
	cntr = counter(&n);
	mr[0] = region(&n, KEY, n.remote, FI_REMOTE_WRITE);
	mr[1] = region(&n, KEY + 1, cntr, FI_REMOTE_WRITE);
	mr[2] = region(&n, KEY + 2, cntr, FI_REMOTE_READ);
	t_barrier();
	for (int i = 0; i < TIMES; i++, both++, first += 2, other++) {
		if (i == TIMES / 2 && t_rank)
			midway();
		if (!t_rank)
			continue;
		write_both(&n, i % 3 ? 0 : FI_REMOTE_CQ_DATA);
		write_once(&n, 0, KEY);
		T_TRY(fi_writedata(n.ep, b, 8, NULL, 0x77, n.peer[0], 0, KEY, &op));
		T_WAIT(&op);
		write_once(&n, 0, KEY + 2); /* which counts reads */
		read_once(&n, 0, KEY + 2);
	}
	if (t_rank == 0) {
		counted(n.remote, both + first + other + TIMES);
		counted(cntr, both + TIMES);
	}
	t_barrier();
	for (int i = 0; i < 3; i++)
		T_OK(fi_close(&mr[i]->fid));
	T_OK(fi_close(&cntr->fid));
	t_finish(&n);
}

/* --- by hand -------------------------------------------------------------------------- */

/* What came before a value is set is gone with the old one. */
static void by_hand(void)
{
	struct t_opts o = {.rma_counters = true};
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = region(&n, KEY, NULL, 0);
	t_barrier();
	for (uint64_t round = 0; round < 10; round++) {
		for (int i = 0; t_rank && i < 100; i++)
			write_once(&n, 0, KEY);
		await_round();
		if (t_rank == 0) {
			T_OK(fi_cntr_set(n.remote, round));
			T_EQ(fi_cntr_read(n.remote), round);
		}
		t_barrier();
		for (int i = 0; t_rank && i < 70; i++)
			write_once(&n, 0, KEY);
		await_round();
		if (t_rank == 0) {
			T_OK(fi_cntr_add(n.remote, 5));
			T_EQ(fi_cntr_read(n.remote), round + 75);
			T_EQ(fi_cntr_readerr(n.remote), 0);
		}
		t_barrier();
	}
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* --- what waits ---------------------------------------------------------------------------- */

/* Begun by progress that is made for another counter. */
static void triggers(void)
{
	struct t_opts o = {.caps = FI_TRIGGER};
	struct fid_cntr *writes, *other;
	struct fi_deferred_work work = {0};
	struct fi_op_cntr add = {.value = 10};
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	writes = counter(&n);
	other = counter(&n);
	mr = region(&n, KEY, writes, FI_REMOTE_WRITE);
	add.cntr = other;
	work.threshold = 150;
	work.triggering_cntr = writes;
	work.op_type = FI_OP_CNTR_ADD;
	work.op.cntr = &add;
	if (t_rank == 0)
		T_OK(fi_control(&n.domain->fid, FI_QUEUE_WORK, &work));
	t_barrier();
	for (int i = 0; t_rank && i < 149; i++)
		write_once(&n, 0, KEY);
	await_round();
	T_EQ(fi_cntr_read(other), 0);
	t_barrier();
	if (t_rank)
		write_once(&n, 0, KEY);
	await_round();
	if (t_rank == 0)
		counted(other, 10);
	t_barrier();
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&writes->fid));
	T_OK(fi_close(&other->fid));
	t_finish(&n);
}

/* Until the counter says so, asleep; cntr: the endpoint's or a region's. */
static void by_wait(struct t_node *n, struct fid_cntr *cntr, uint64_t value)
{
	T_OK(fi_cntr_wait(cntr, value, 20000));
}

static void by_descriptor(struct t_node *n, struct fid_cntr *cntr, uint64_t value)
{
	struct fid *fid = &cntr->fid;
	int fd = descriptor(fid);

	while (fi_cntr_read(cntr) < value)
		if (!fi_trywait(n->fabric, &fid, 1))
			T_CHECK(sleep_on(fd, 20000, POLL) == 1, "nothing for 20 s");
}

typedef void (*await_fn)(struct t_node *n, struct fid_cntr *cntr, uint64_t value);

/* Of the quickest of some sleeps: how long after what it waited for it ended, and how often the
 * sleeper had risen by then, which is what naps do. */
struct woken {
	uint64_t ns;
	long rises;
};

static long rises(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/* What is written is when. */
static struct woken wakes(struct t_node *n, struct fid_cntr *cntr, uint64_t key, await_fn await)
{
	struct woken best = {UINT64_MAX, 0};
	uint64_t from = fi_cntr_read(cntr), sent;

	for (uint64_t i = 1; i <= TRIES; i++) {
		t_barrier();
		if (t_rank) {
			pause_ms(100);
			sent = now();
			memcpy(b, &sent, sizeof(sent));
			write_once(n, 0, key);
		} else {
			struct woken this = {.rises = -rises()};

			await(n, cntr, from + i);
			memcpy(&sent, mem + 8, sizeof(sent));
			this.ns = now() - sent;
			this.rises += rises();
			best = this.ns < best.ns ? this : best;
		}
	}
	t_barrier();
	return best;
}

static void at_once(struct t_node *n, struct fid_cntr *cntr, uint64_t key, await_fn await)
{
	struct woken woken = wakes(n, cntr, key, await);

	T_CHECK(t_rank || (woken.ns < 500000 && woken.rises < 20),
		"woken after %llu ns, %ld rises in 100 ms", (unsigned long long)woken.ns,
		woken.rises);
}

static void sleeps(void)
{
	struct t_opts o = {.rma_counters = true, .wait = FI_WAIT_FD};
	struct fid_cntr *of_region;
	struct fid_mr *mr, *plain;
	struct t_node n, second;

	begin(&n, &o);
	of_region = counter(&n);
	mr = region(&n, KEY, of_region, FI_REMOTE_WRITE);
	plain = region(&n, KEY + 1, NULL, 0);
	at_once(&n, n.remote, KEY + 1, by_wait);
	at_once(&n, n.remote, KEY + 1, by_descriptor);
	at_once(&n, of_region, KEY, by_wait);
	at_once(&n, of_region, KEY, by_descriptor);
	/* By way of any of the domain's endpoints. */
	t_open_beside(&second, &n, &o);
	at_once(&n, of_region, KEY, by_wait);
	at_once(&n, of_region, KEY, by_descriptor);
	t_barrier();
	t_close(&second);
	at_once(&n, of_region, KEY, by_wait);
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&plain->fid));
	T_OK(fi_close(&of_region->fid));
	t_finish(&n);
}

/* Asleep and awake by turns, with no pause: none may be missed. */
static void turns(void)
{
	struct t_opts o = {.rma_counters = true, .wait = FI_WAIT_FD};
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	cntr = counter(&n);
	mr = region(&n, KEY, cntr, FI_REMOTE_WRITE);
	t_barrier();
	for (uint64_t i = 1; i <= 2000; i++) {
		struct fid_cntr *mine = i % 2 ? n.remote : cntr;

		if ((i + (uint64_t)t_rank) % 2)
			write_once(&n, !t_rank, KEY);
		else if (i % 5)
			by_wait(&n, mine, (i + 1) / 2);
		else
			by_descriptor(&n, mine, (i + 1) / 2);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&cntr->fid));
	t_finish(&n);
}

/* --- the table ------------------------------------------------------------------------------ */

#define AS(name, suffix, how)                                                                      \
	static void name##_##suffix(void)                                                          \
	{                                                                                          \
		if (!t_beeline)                                                                    \
			t_skip("knobs of ours");                                                   \
		way = how;                                                                         \
		name();                                                                            \
	}
#define WAYS(name)                                                                                 \
	AS(name, direct, DIRECT)                                                                   \
	AS(name, served, SERVED)                                                                   \
	AS(name, asked, ASKED)                                                                     \
	AS(name, denied, DENIED)
#define CASES(name, nproc, why)                                                                    \
	{"counted_" #name, nproc, name##_direct, why, 0},                                          \
		{"counted_" #name "_served", nproc, name##_served, why, 0},                        \
		{"counted_" #name "_asked", nproc, name##_asked, why, 0},                          \
	{                                                                                          \
		"counted_" #name "_denied", nproc, name##_denied, why, 0                           \
	}

WAYS(away)
AS(left, direct, DIRECT)
WAYS(reopened)
WAYS(many)
WAYS(once)
WAYS(by_hand)
WAYS(triggers)
AS(sleeps, direct, DIRECT)
AS(sleeps, served, SERVED)
WAYS(turns)

static const struct t_case cases[] = {
	CASES(away, 4, "a target that computes keeps nobody from going on, and counts all"),
	{"counted_left", 3, left_direct, "who closes first loses no count", 0},
	CASES(reopened, 3, "a counter counts what was meant for it, all of it"),
	CASES(many, 3, "so many counters that some are told by packets"),
	CASES(once, 2, "each operation counts once, with remote data and without"),
	CASES(by_hand, 2, "a value that is set is the value"),
	CASES(triggers, 2, "what waits for a count begins"),
	{"counted_sleeps", 2, sleeps_direct, "who sleeps is woken at once", 0},
	{"counted_sleeps_served", 2, sleeps_served, "who sleeps is woken at once", 0},
	CASES(turns, 2, "no wake is lost"),
};

const struct t_group group_counted = T_GROUP("counted", cases);
