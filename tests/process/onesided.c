/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * onesided.c: random one-sided operations of everybody at everybody, itself included, against an
 * oracle (oracle.h): none may be lost, done twice, overtaken by a later one, or done in part, and
 * each completes once and counts once. Messages follow: behind a fence, or the completion of what
 * they follow, since nothing else promises that order.
 *
 * Two random streams: that of the plans, and that of what a process does between two of its
 * operations, so that the plan of a seed and a round is always the same. `-r N` goes on with the
 * next seeds. The process's own thread posts and reads the queue; `helper` reads counters beside
 * it.
 */
#include "oracle.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../deny.h"

#define KEY	 0x51de
#define KEY_SUMS 0x5035
#define BOTH	 (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define ORDERS	 (FI_ORDER_SAS | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW)
#define BURST	 24 /* operations with nothing between them */

/* One operation under way. */
struct run {
	struct fi_context2 ctx; /* what libfabric sees; must be first */
	unsigned done;
	bool wants;	/* a completion */
	struct t_buf b; /* what goes, or what comes */
	void *wanted;	/* what has to come */
	uint64_t operand[WORDS], compare[WORDS];
};

/* Who counts what others do to one's memory: that changes how an origin goes about it. */
enum counting { NOBODY, ENDPOINT, REGION };

struct row {
	const char *combine, *serve, *copy;
	enum counting counting;
	enum fi_threading threading;
	bool sleeps;	/* waits may be asleep */
	bool selective; /* completions where they are asked for */
	bool odd_copy;	/* `copy` is for processes of odd rank only */
	bool denied;	/* the kernel refuses to copy, from the middle on, for those of odd rank */
	bool helper;	/* a second thread */
};

static const struct row *row;
static struct t_node n;
static struct t_rng mood;
static int posted;			     /* of the round's operations */
static struct run run[OPS], got[PROCS][OPS]; /* own ones; messages that come */
static unsigned data_seen[PROCS][OPS];
static uint64_t ndata, nmessages; /* of this round */
static uint64_t begun, sent, done_to_us, received;
static struct fid_mr *mr[PROCS], *mr_sums;
static struct fid_cntr *of_regions;
static _Atomic uint64_t awaited, reached; /* by the helper, of own operations */

/* --- completions ----------------------------------------------------------------- */

static bool wants(const struct plan *p)
{
	if (is_injected(p))
		return false;
	return !row->selective || (takes_flags(p) && p->flags & FI_COMPLETION);
}

static uint64_t comp_flags(const struct plan *p)
{
	if (is_message(p))
		return FI_SEND | (p->kind == SEND ? FI_MSG : FI_TAGGED);
	return (is_atomic(p) ? FI_ATOMIC : FI_RMA) |
	       (is_read(p) || fetches(p) ? FI_READ : FI_WRITE);
}

/* It is over: what has come is right; what went is its owner's, who uses it for something else. */
static void settle(int k)
{
	const struct plan *p = &oracle.plan[t_rank][k];
	struct run *r = &run[k];
	const uint64_t *in = (const uint64_t *)r->b.p;

	if (!r->b.mem)
		return;
	if (p->kind == FETCH_ADD)
		for (size_t i = 0; i < p->len / 8; i++)
			OP_CHECK((uint16_t)(in[i] >> 16 * t_rank) ==
					 (uint16_t)((uint64_t *)r->wanted)[i],
				 t_rank, k, "others' sums, or not all of one's own");
	else if (r->wanted)
		OP_CHECK(!memcmp(r->b.p, r->wanted, p->len), t_rank, k, "what came is wrong");
	t_blank(&r->b);
	memset(r->operand, T_BLANK, sizeof(r->operand));
	memset(r->compare, T_BLANK, sizeof(r->compare));
	t_buf_free(&r->b);
	free(r->wanted);
	r->b = (struct t_buf){0};
	r->wanted = NULL;
}

static void on_data(const struct fi_cq_tagged_entry *e, fi_addr_t src)
{
	int from = (int)(e->data >> 16 & 0xff), k = (int)(e->data & 0xffff);

	T_CHECK(e->flags & FI_REMOTE_CQ_DATA && (int)(e->data >> 32) == oracle.round &&
			from < t_nproc && k < OPS,
		"seed %llu, round %d: nobody's completion: flags 0x%llx, data 0x%llx",
		(unsigned long long)t_seed(), oracle.round, (unsigned long long)e->flags,
		(unsigned long long)e->data);
	OP_CHECK(oracle.plan[from][k].to == t_rank && has_data(&oracle.plan[from][k]), from, k,
		 "not its data");
	OP_CHECK(!data_seen[from][k]++, from, k, "its data came twice");
	OP_CHECK(src == n.peer[from] && e->len == oracle.plan[from][k].len, from, k,
		 "another source or length");
	OP_CHECK((e->flags & (FI_RMA | FI_REMOTE_WRITE)) == (FI_RMA | FI_REMOTE_WRITE), from, k,
		 "flags of its data");
	ndata++;
	oracle_check(from, k);
}

static void on_message(struct run *r, const struct fi_cq_tagged_entry *e, fi_addr_t src)
{
	int from = (int)((r - got[0]) / OPS), k = (int)((r - got[0]) % OPS);
	const struct plan *p = &oracle.plan[from][k];

	OP_CHECK(r->wants && !r->done++, from, k, "it came twice, or never went");
	OP_CHECK(src == n.peer[from] && e->len == p->len, from, k, "another source or length");
	t_got(__FILE__, __LINE__, &r->b, p->len, p->seed);
	t_buf_free(&r->b);
	nmessages++;
	if (p->flags & FI_FENCE || p->settled)
		oracle_check(from, k);
}

static void on_completion(const struct fi_cq_tagged_entry *e, fi_addr_t src)
{
	struct run *r = e->op_context;
	int k = (int)(r - run);

	if (!r) {
		on_data(e, src);
		return;
	}
	if (r >= got[0] && r < got[0] + PROCS * OPS) {
		on_message(r, e, src);
		return;
	}
	T_CHECK(r >= run && r < run + OPS, "seed %llu: context %p", (unsigned long long)t_seed(),
		e->op_context);
	OP_CHECK(k < posted, t_rank, k, "completed before it began");
	OP_CHECK(r->wants, t_rank, k, "completed, and wasn't to");
	OP_CHECK(!r->done++, t_rank, k, "completed twice");
	OP_CHECK((e->flags & comp_flags(&oracle.plan[t_rank][k])) ==
			 comp_flags(&oracle.plan[t_rank][k]),
		 t_rank, k, "flags of its completion");
	settle(k);
}

/* Operation k has failed, or -1. If another process has, and so is gone, that one says why. */
static _Noreturn void failed(int line, int k, int err)
{
	if (err == FI_ECONNRESET)
		sleep(2);
	if (k >= 0)
		oracle_wrong(__FILE__, line, t_rank, k, fi_strerror(err));
	t_fail(__FILE__, line, "seed %llu: %s", (unsigned long long)t_seed(), fi_strerror(err));
}

/* Up to `most`; asleep until there is one, for so many ms at most. */
static bool read_some(size_t most, int ms)
{
	struct fi_cq_tagged_entry e[16];
	fi_addr_t src[16];
	ssize_t count;

	if (ms)
		count = fi_cq_sreadfrom(n.cq, e, most, src, NULL, ms);
	else
		count = fi_cq_readfrom(n.cq, e, most, src);
	if (count == -FI_EAVAIL) {
		struct fi_cq_err_entry err = {0};
		struct run *r;

		T_EQ(fi_cq_readerr(n.cq, &err, 0), 1);
		r = err.op_context;
		failed(__LINE__, r >= run && r < run + OPS ? (int)(r - run) : -1, err.err);
	}
	T_CHECK(count == -FI_EAGAIN || count >= 0, "fi_cq_read: %s", fi_strerror((int)-count));
	for (ssize_t i = 0; i < count; i++)
		on_completion(&e[i], src[i]);
	return count > 0;
}

static bool progress(void)
{
	return read_some(16, 0);
}

static void idle(void)
{
	static int in_vain;

	if (progress())
		in_vain = 0;
	else if (++in_vain > 100)
		sched_yield();
}

static void slept(int ret)
{
	T_CHECK(!ret || ret == -FI_EAVAIL, "fi_cntr_wait: %s", fi_strerror(-ret));
}

/* Until a counter says `value`, in one of the ways; and not more. */
static void reach(struct fid_cntr *cntr, uint64_t value, const char *what)
{
	uint64_t is;

	t_at("round %d: %s, %llu of %llu", oracle.round, what,
	     (unsigned long long)fi_cntr_read(cntr), (unsigned long long)value);
	/* Of one that fails its completion says which it was. */
	if (row->sleeps && one_in(&mood, 2))
		slept(fi_cntr_wait(cntr, value, -1));
	else if (one_in(&mood, 2))
		while (fi_cntr_read(cntr) < value && !fi_cntr_readerr(cntr))
			sched_yield();
	while ((is = fi_cntr_read(cntr)) < value)
		idle();
	T_CHECK(is == value, "seed %llu, round %d: %s: %llu, not %llu",
		(unsigned long long)t_seed(), oracle.round, what, (unsigned long long)is,
		(unsigned long long)value);
	T_EQ(fi_cntr_readerr(cntr), 0);
}

static void all_done(void)
{
	reach(n.rma, begun, "own operations");
	reach(n.txcntr, sent, "own messages");
}

/* --- posting ------------------------------------------------------------------------ */

#define TRY(call)                                                                                  \
	do {                                                                                       \
		ssize_t rc_;                                                                       \
		while ((rc_ = (call)) == -FI_EAGAIN)                                               \
			idle();                                                                    \
		if (rc_)                                                                           \
			failed(__LINE__, k, (int)-rc_);                                            \
	} while (0)

static void put(int k, const struct plan *p, struct run *r)
{
	uint64_t data = (uint64_t)oracle.round << 32 | (uint64_t)t_rank << 16 | (uint64_t)k;
	uint64_t key = KEY + (uint64_t)t_rank, a = p->addr;
	const struct fi_rma_iov place[] = {{a, p->cut, key},
					   {a + p->cut + p->gap, p->len - p->cut, key}};
	size_t other = p->len - p->cut; /* here it is cut elsewhere */
	const struct iovec iov[] = {{r->b.p, other}, {r->b.p + other, p->cut}};
	const struct fi_msg_rma msg = {iov, NULL, 2, n.peer[p->to], place, 2, r, data};
	/* In one piece on both sides, most are: only those may be kept. */
	const struct fi_rma_iov one_place = {a, p->len, key};
	const struct iovec one_iov = {r->b.p, p->len};
	const struct fi_msg_rma one = {&one_iov, NULL, 1, msg.addr, &one_place, 1, r, data};
	const struct fi_msg_rma *m = p->gap ? &msg : &one;

	switch (p->kind) {
	case WRITE:
		TRY(fi_write(n.ep, r->b.p, p->len, NULL, msg.addr, a, key, r));
		break;
	case WRITEV:
		TRY(fi_writev(n.ep, iov, NULL, 2, msg.addr, a, key, r));
		break;
	case WRITEMSG:
		TRY(fi_writemsg(n.ep, m, p->flags));
		break;
	case INJECT:
		TRY(fi_inject_write(n.ep, r->b.p, p->len, msg.addr, a, key));
		break;
	case WRITEDATA:
		TRY(fi_writedata(n.ep, r->b.p, p->len, NULL, data, msg.addr, a, key, r));
		break;
	case INJECTDATA:
		TRY(fi_inject_writedata(n.ep, r->b.p, p->len, data, msg.addr, a, key));
		break;
	case READ:
		TRY(fi_read(n.ep, r->b.p, p->len, NULL, msg.addr, a, key, r));
		break;
	case READV:
		TRY(fi_readv(n.ep, iov, NULL, 2, msg.addr, a, key, r));
		break;
	default:
		TRY(fi_readmsg(n.ep, m, p->flags));
	}
}

static void change(int k, const struct plan *p, struct run *r)
{
	uint64_t key = is_add(p) ? KEY_SUMS : KEY + (uint64_t)t_rank;
	size_t count = p->len / 8;
	fi_addr_t to = n.peer[p->to];
	const struct fi_ioc ioc = {r->operand, count};
	const struct fi_rma_ioc place = {p->addr, count, key};
	const struct fi_msg_atomic msg = {&ioc, NULL, 1, to, &place, 1, FI_UINT64, FI_SUM, r, 0};

	switch (p->kind) {
	case ATOMIC:
		TRY(fi_atomicmsg(n.ep, &msg, p->flags));
		break;
	case ADD:
		TRY(fi_atomic(n.ep, r->operand, count, NULL, to, p->addr, key, FI_UINT64, FI_SUM,
			      r));
		break;
	case INJECT_ATOMIC:
	case INJECT_ADD:
		TRY(fi_inject_atomic(n.ep, r->operand, count, to, p->addr, key, FI_UINT64, FI_SUM));
		break;
	case COMPARE:
		TRY(fi_compare_atomic(n.ep, r->operand, count, NULL, r->compare, NULL, r->b.p, NULL,
				      to, p->addr, key, FI_UINT64, FI_CSWAP, r));
		break;
	default:
		TRY(fi_fetch_atomic(n.ep, r->operand, count, NULL, r->b.p, NULL, to, p->addr, key,
				    FI_UINT64, FI_SUM, r));
	}
}

static uint64_t tag_of(int from, int k)
{
	return (uint64_t)from << 32 | (uint64_t)k;
}

static void send_one(int k, const struct plan *p, struct run *r)
{
	const struct iovec iov = {r->b.p, p->len};
	const struct fi_msg msg = {&iov, NULL, 1, n.peer[p->to], r, 0};
	const struct fi_msg_tagged tagged = {&iov, NULL, 1, msg.addr, tag_of(t_rank, k), 0, r, 0};

	if (p->kind == SEND)
		TRY(fi_sendmsg(n.ep, &msg, p->flags));
	else
		TRY(fi_tsendmsg(n.ep, &tagged, p->flags));
}

/* All but the call, so that one call follows the other closely. */
static void prepare(int k)
{
	const struct plan *p = &oracle.plan[t_rank][k];
	struct run *r = &run[k];

	*r = (struct run){.wants = wants(p), .b = t_buf(p->len, p->seed >> 8 & ~7ull)};
	if (is_write(p) || is_message(p))
		t_fill(r->b.p, p->len, p->seed, 0);
	r->wanted = oracle_next(p, r->operand, r->compare);
}

static void post(int k)
{
	const struct plan *p = &oracle.plan[t_rank][k];
	struct run *r = &run[k];

	posted = k + 1;
	if (is_message(p))
		send_one(k, p, r);
	else if (is_atomic(p))
		change(k, p, r);
	else
		put(k, p, r);
	*(is_message(p) ? &sent : &begun) += 1;
	/* What is injected is free for other use at once. */
	if ((is_injected(p) || p->flags & FI_INJECT) && r->b.mem)
		memset(is_atomic(p) ? (void *)r->operand : r->b.p, T_BLANK, p->len);
}

static void receive(int from, int k)
{
	const struct plan *p = &oracle.plan[from][k];
	struct run *r = &got[from][k];

	*r = (struct run){.wants = p->to == t_rank && is_message(p)};
	if (!r->wants)
		return;
	received++;
	r->b = t_buf(p->len, p->seed >> 16);
	if (p->kind == TSEND)
		TRY(fi_trecv(n.ep, r->b.p, p->len, NULL, n.peer[from], tag_of(from, k), 0, r));
	else
		TRY(fi_recv(n.ep, r->b.p, p->len, NULL, n.peer[from], r));
}

/* --- between two operations ------------------------------------------------------------- */

/* It computes, and makes no progress. */
static void compute(uint64_t us)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((uint64_t)(now.tv_sec - from.tv_sec) * 1000000 + (uint64_t)now.tv_nsec / 1000 <
	       us + (uint64_t)from.tv_nsec / 1000);
}

static void between(uint64_t seldom)
{
	if (!one_in(&mood, seldom))
		return;
	switch (t_rand_below(&mood, 8)) {
	case 0:
		compute(t_rand_below(&mood, 60));
		break;
	case 1:
		read_some(1, 0);
		break;
	case 2:
		while (read_some(1 + t_rand_below(&mood, 16), 0))
			;
		break;
	case 3:
		T_CHECK(fi_cntr_read(n.rma) <= begun, "more operations have ended than begun");
		break;
	case 4:
		fi_cntr_read(row->counting == REGION ? of_regions : n.remote);
		break;
	case 5:
		if (row->sleeps)
			read_some(4, 1);
		break;
	case 6:
		reach(n.rma, begun, "own operations");
		break;
	default:
		progress();
	}
}

static void await_counted(uint64_t all)
{
	if (row->counting == ENDPOINT)
		reach(n.remote, all, "others' operations");
	if (row->counting == REGION)
		reach(of_regions, all, "others' operations at regions");
}

/* The helper is to sleep until operations k to end - 1 are over, and hardly anybody else makes
 * progress. */
static bool hand_over(int k, int end)
{
	uint64_t count = begun;

	if (!row->helper || !row->sleeps || one_in(&mood, 2))
		return false;
	for (; k < end; k++)
		count += !is_message(&oracle.plan[t_rank][k]);
	awaited = count;
	compute(t_rand_below(&mood, 200));
	return true;
}

static void await_helper(void)
{
	t_at("round %d: %llu operations, not looking", oracle.round, (unsigned long long)awaited);
	while (reached < awaited)
		sched_yield();
}

static void one_round(int round, int rounds)
{
	const uint64_t seldom[] = {1, 4, 30, OPS};
	uint64_t often = seldom[t_rand_below(&mood, 4)], data = 0, messages = 0;
	uint64_t deny_at =
		row->denied && t_rank % 2 && round == rounds / 2 ? t_rand_below(&mood, OPS) : OPS;
	bool helped = false;
	int prepared = 0;

	oracle_plan(round);
	memset(data_seen, 0, sizeof(data_seen));
	ndata = nmessages = 0;
	posted = 0;
	for (int from = 0; from < t_nproc; from++)
		for (int k = 0; k < OPS; k++) {
			const struct plan *p = &oracle.plan[from][k];

			if (p->to != t_rank)
				continue;
			data += has_data(p);
			messages += is_message(p);
			done_to_us += !is_message(p);
		}
	/* Their bytes may come before all are posted. */
	t_barrier_with(progress);
	for (int from = 0; from < t_nproc; from++)
		for (int k = 0; k < OPS; k++)
			receive(from, k);
	for (int k = 0; k < OPS; k++) {
		if (k == prepared) {
			prepared += 1 + (int)t_rand_below(&mood, BURST);
			prepared = prepared < OPS ? prepared : OPS;
			for (int i = k; i < prepared; i++)
				prepare(i);
			t_at("round %d: operations %d to %d", round, k, prepared - 1);
			helped = hand_over(k, prepared);
		}
		if (oracle.plan[t_rank][k].settled)
			all_done();
		post(k);
		if ((uint64_t)k == deny_at && deny_process_vm())
			t_skip("no seccomp filter");
		if (helped && k == prepared - 1)
			await_helper();
		else if (!helped)
			between(often);
	}
	all_done();
	for (int k = 0; k < OPS; k++) {
		t_at("round %d: the end of operation %d", oracle.round, k);
		while (run[k].done < run[k].wants)
			idle();
		settle(k); /* what has no completion: the counters have said so */
	}
	t_at("round %d: %llu of %llu remote data, %llu of %llu messages", oracle.round,
	     (unsigned long long)ndata, (unsigned long long)data, (unsigned long long)nmessages,
	     (unsigned long long)messages);
	while (ndata < data || nmessages < messages)
		idle();
	await_counted(done_to_us);
	reach(n.rxcntr, received, "messages");
	t_barrier_with(progress);
	while (progress())
		;
	all_done(); /* and nothing since */
	await_counted(done_to_us);
	oracle_check_end();
}

/* --- a case ----------------------------------------------------------------------------- */

static _Atomic bool stop;

/* Progress by another thread, awake and asleep. */
static void *help(void *arg)
{
	struct timespec nap = {0, 20000};

	(void)arg;
	for (unsigned i = 0; !stop; i++) {
		uint64_t is = fi_cntr_read(n.rma);

		if (row->sleeps && awaited > reached) {
			slept(fi_cntr_wait(n.rma, awaited, -1));
			reached = awaited;
		} else if (row->sleeps && i % 8 == 0) {
			fi_cntr_wait(n.rma, is + 1, 1);
		} else if (i % 4 == 0) {
			nanosleep(&nap, NULL);
		}
	}
	return NULL;
}

static struct fid_mr *region(void *p, size_t len, uint64_t key)
{
	struct fid_mr *m;

	T_OK(fi_mr_reg(n.domain, p, len, BOTH, 0, key, row->counting == REGION ? FI_RMA_EVENT : 0,
		       &m, NULL));
	if (row->counting == REGION)
		T_OK(fi_mr_bind(m, &of_regions->fid, BOTH));
	return m;
}

static void begin(void)
{
	struct t_opts o = {.caps = FI_RMA | FI_RMA_EVENT | FI_ATOMIC | FI_FENCE | FI_SOURCE |
				   FI_DIRECTED_RECV,
			   .rma_counters = true,
			   .counters = true,
			   .cq_data = true,
			   .iov = 2,
			   .uncounted = row->counting != ENDPOINT,
			   .selective = row->selective ? FI_SEND : 0,
			   .wait = row->sleeps ? FI_WAIT_FD : 0,
			   .threading = row->threading};
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = o.wait};
	size_t injects[T_PROC_MAX];

	if (!t_beeline)
		t_skip("knobs of ours");
	T_CHECK(t_nproc <= PROCS, "%d processes", t_nproc);
	setenv("FI_BEELINE_RMA_BATCH", row->combine, 1);
	setenv("FI_BEELINE_RMA_DELEGATE", row->serve, 1);
	if (row->copy && !(row->odd_copy && t_rank % 2 == 0))
		setenv("FI_BEELINE_COPY", row->copy, 1);
	t_start(&n, &o);
	n.watched = false; /* its queue is read here alone */
	if (~n.info->tx_attr->msg_order & ORDERS || n.info->ep_attr->max_order_raw_size < LONGEST ||
	    n.info->ep_attr->max_order_war_size < LONGEST ||
	    n.info->ep_attr->max_order_waw_size < LONGEST)
		t_lacks("the order of one-sided operations");
	/* Each process measures its own limit; the plans must agree on one. */
	t_allgather(&n.info->tx_attr->inject_size, sizeof(size_t), injects, progress);
	oracle.inject_max = 4096;
	for (int i = 0; i < t_nproc; i++)
		oracle.inject_max = injects[i] < oracle.inject_max ? injects[i] : oracle.inject_max;
	T_OK(fi_cntr_open(n.domain, &attr, &of_regions, NULL));
	for (int from = 0; from < t_nproc; from++)
		mr[from] = region(oracle.mem[from], ROOM, KEY + (uint64_t)from);
	mr_sums = region(oracle.sums, sizeof(oracle.sums), KEY_SUMS);
	t_barrier_with(progress);
}

static void many_rounds(const struct row *the_row)
{
	int rounds = t_scaled(the_row->copy ? 5 : 10); /* each by message waits for its target */
	pthread_t helper;

	row = the_row;
	begin();
	t_rng_init(&mood, 0x3000d00000000 + (uint64_t)t_rank);
	if (row->helper)
		T_OK(pthread_create(&helper, NULL, help, NULL));
	for (int round = 0; round < rounds; round++)
		one_round(round, rounds);
	stop = true;
	if (row->helper)
		T_OK(pthread_join(helper, NULL));
	t_barrier_with(progress);
	for (int from = 0; from < t_nproc; from++)
		T_OK(fi_close(&mr[from]->fid));
	T_OK(fi_close(&mr_sums->fid));
	T_OK(fi_close(&of_regions->fid));
	t_close(&n);
}

/* --- the table ------------------------------------------------------------------------------ */

#define ROW(name, ...)                                                                             \
	static void name(void)                                                                     \
	{                                                                                          \
		static const struct row of_case = {__VA_ARGS__};                                   \
                                                                                                   \
		many_rounds(&of_case);                                                             \
	}

ROW(apart, .combine = "never", .serve = "never")
ROW(combined, .combine = "always", .serve = "never")
ROW(combined_auto, .combine = "auto", .serve = "auto", .sleeps = true)
ROW(combined_selective, .combine = "always", .serve = "never", .selective = true)
ROW(served, .combine = "never", .serve = "always")
ROW(served_combined, .combine = "always", .serve = "always", .selective = true, .sleeps = true)
ROW(asked, .combine = "always", .serve = "never", .copy = "ring", .selective = true)
ROW(asked_some, .combine = "always", .serve = "always", .copy = "ring", .odd_copy = true)
ROW(denied, .combine = "always", .serve = "never", .denied = true)
ROW(denied_served, .combine = "auto", .serve = "always", .denied = true, .selective = true,
    .sleeps = true)
ROW(counted, .combine = "auto", .serve = "always", .counting = ENDPOINT)
ROW(counted_sleeps, .combine = "auto", .serve = "never", .counting = ENDPOINT, .sleeps = true,
    .selective = true)
ROW(regions, .combine = "always", .serve = "always", .counting = REGION)
ROW(regions_denied, .combine = "always", .serve = "never", .counting = REGION, .denied = true,
    .sleeps = true)
ROW(safe, .combine = "always", .serve = "auto", .threading = FI_THREAD_SAFE, .helper = true)
ROW(safe_sleeps, .combine = "auto", .serve = "always", .threading = FI_THREAD_SAFE, .helper = true,
    .sleeps = true)

static const struct t_case cases[] = {
	{"onesided_apart", 2, apart, "each by itself, directly", 60},
	{"onesided_combined", 2, combined, "kept and done together", 60},
	{"onesided_combined_auto", 4, combined_auto, "as it is, waiting asleep", 60},
	{"onesided_combined_selective", 3, combined_selective, "few complete in the queue", 60},
	{"onesided_served", 2, served, "short ones by a target that is asked each time", 60},
	{"onesided_served_combined", 4, served_combined, "several in a packet", 60},
	{"onesided_asked", 3, asked, "all by message", 60},
	{"onesided_asked_some", 3, asked_some, "by message from and to one of three", 60},
	{"onesided_denied", 2, denied, "by message from the middle on", 60},
	{"onesided_denied_served", 4, denied_served, "the same, asked before that", 60},
	{"onesided_counted", 3, counted, "counted by the target's endpoint", 60},
	{"onesided_counted_sleeps", 2, counted_sleeps, "the same, waiting asleep", 60},
	{"onesided_regions", 3, regions, "counted by regions", 60},
	{"onesided_regions_denied", 3, regions_denied, "the same, by message from the middle on",
	 60},
	{"onesided_safe", 2, safe, "progress by two threads", 60},
	{"onesided_safe_sleeps", 3, safe_sleeps, "the same, one of them asleep", 60},
};

const struct t_group group_onesided = T_GROUP("onesided", cases);
