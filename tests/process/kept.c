/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * kept.c: how long short reads and writes of another process's memory are kept that are to be done
 * together (combine.c): not longer than to the next progress, whoever makes it, or to the end.
 */
#define GROUP "kept"
#include "batch.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../deny.h"

/* --- not longer than to the next progress ------------------------------------------- */

static bool differs(const unsigned char *mem, int value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (mem[i] != value)
			return true;
	return false;
}

/* One by itself is there when its call returns. */
static void by_itself(void)
{
	struct t_opts o = {0};
	static unsigned char mem[320], b[64];
	static struct t_op op, first[20];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, sizeof(mem), BOTH, KEY);
	t_barrier();
	if (t_rank == 0) { /* behind some that weren't */
		some(&n, first, 20, b);
		for (int i = 0; i < 20; i++)
			T_WAIT(&first[i]);
	}
	t_barrier();
	t_barrier_with(nothing);
	if (t_rank == 0) {
		memset(b, 7, 64);
		put(&n, b, 64, 0, &op);
	}
	t_barrier_with(nothing);
	if (t_rank == 1)
		T_CHECK(!differs(mem, 7, 64), "it is still kept");
	t_barrier();
	if (t_rank == 0)
		T_WAIT(&op);
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* Who reads the queue of another endpoint of the domain only may be waiting for their answer. */
static struct t_node other;

static bool reads_other(void)
{
	struct fi_cq_tagged_entry entry;

	T_EQ(fi_cq_read(other.cq, &entry, 1), -FI_EAGAIN);
	return false;
}

static void beside(void)
{
	enum { N = 20 };
	struct t_opts o = {0};
	static unsigned char mem[ROOM];
	unsigned char b[8];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	t_open_beside(&other, &n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	memset(b, 7, sizeof(b));
	for (int i = 0; t_rank == 0 && i < N; i++)
		inject(&n, b, sizeof(b), 16 * (uint64_t)i);
	t_barrier_with(reads_other);
	for (int i = 0; t_rank == 1 && i < N; i++)
		T_CHECK(!differs(mem + 16 * i, 7, sizeof(b)), "%d is still kept", i);
	t_barrier();
	t_close(&other);
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* Asleep, until all have completed. */
static void sleep_until_all(struct t_node *n, struct t_op *op, int count)
{
	struct fi_cq_tagged_entry entry;
	int left = 0;

	for (int i = 0; i < count; i++)
		left += !op[i].done; /* while they began others were read */
	for (; left; left--) {
		T_EQ(fi_cq_sread(n->cq, &entry, 1, NULL, 20000), 1);
		((struct t_op *)entry.op_context)->done++;
	}
	for (int i = 0; i < count; i++)
		T_EQ(op[i].done, 1);
}

/* Whoever waits, by whatever call, is no hindrance. */
static void waited_for(void)
{
	enum { N = 20 };
	struct t_opts o = {.rma_counters = true, .uncounted = true, .wait = FI_WAIT_FD};
	static unsigned char mem[ROOM], b[8];
	static struct t_op op[N];
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	if (t_rank == 0) {
		struct fid *fids[] = {&n.cq->fid};

		some(&n, op, N, b);
		T_OK(fi_cntr_wait(n.rma, N, 20000));
		for (int i = 0; i < N; i++)
			T_WAIT(&op[i]);
		memset(op, 0, sizeof(op));
		some(&n, op, N, b);
		sleep_until_all(&n, op, N);
		memset(op, 0, sizeof(op));
		some(&n, op, N, b);
		if (way != ASKED) /* else the target has them */
			T_EQ(fi_trywait(n.fabric, fids, 1), -FI_EAGAIN);
		for (int i = 0; i < N; i++)
			T_WAIT(&op[i]);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* Who closes has no progress any more: what was injected is there, but for what is refused. */
static void end_with(bool counts, int wrong)
{
	enum { N = 40 };
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct t_opts o = {0};
	static uint64_t mem[ROOM / 8], in;
	struct fid_cntr *cntr;
	struct t_op op = {0};
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	T_OK(fi_cntr_open(n.domain, &attr, &cntr, NULL));
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	if (counts)
		T_OK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	t_barrier();
	if (t_rank == 0) {
		get(&n, &in, 8, 0, &op);
		T_WAIT(&op);
	}
	t_barrier();
	for (uint64_t i = 0; i < N && t_rank == 0; i++) /* two by two side by side */
		T_TRY(fi_inject_write(n.ep, &(uint64_t){i + 1}, 8, n.peer[1], 8 * (i + i / 2),
				      (int)i == wrong ? 77 : KEY));
	if (t_rank == 0) {
		if (way == DENIED && deny_process_vm())
			t_skip("no seccomp filter");
		T_OK(fi_close(&mr->fid));
		T_OK(fi_close(&cntr->fid));
		t_close(&n);
	}
	t_barrier_with(way == DENIED && t_rank == 1 ? t_progress : nothing);
	if (t_rank == 0)
		return;
	for (uint64_t i = 0; i < N; i++)
		T_EQ(mem[i + i / 2], (int)i == wrong ? 0 : i + 1);
	if (counts)
		reach(cntr, wrong < 0 ? N : N - 1);
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&cntr->fid));
	t_close(&n);
}

static void ends(void)
{
	end_with(false, -1);
}

static void ends_counted(void)
{
	end_with(true, -1);
}

static void ends_refused(void)
{
	end_with(false, 1);
}

/* What a parent keeps isn't its child's, which may read and close. */
static void forked(void)
{
	enum { N = 8 };
	struct t_opts o = {0};
	static unsigned char mem[ROOM], b[8];
	static struct t_op op[N];
	struct fi_cq_tagged_entry entry;
	struct fid_ep *second;
	struct fid_mr *mr;
	struct t_node n;
	int status;

	begin(&n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	for (int does = 0; does < 3 && t_rank == 0; does++) {
		pid_t child;

		memset(op, 0, sizeof(op));
		some(&n, op, N, b);
		child = fork();
		if (!child) {
			if (does == 0)
				fi_cq_read(n.cq, &entry, 1);
			else if (does == 1)
				fi_close(&n.ep->fid);
			else /* however that ends */
				fi_endpoint(n.domain, n.info, &second, NULL);
			_exit(0);
		}
		T_CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork");
		T_EQ(status, 0);
		for (int i = 0; i < N; i++)
			T_WAIT(&op[i]);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* Its user says that more follow: the first one is kept, too. */
static void more(void)
{
	struct t_opts o = {0};
	static unsigned char mem[64], b[8];
	struct iovec iov = {b, 8};
	struct fi_rma_iov at = {0, 8, KEY};
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &at, .rma_iov_count = 1};
	static struct t_op first, op;
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, sizeof(mem), BOTH, KEY);
	t_barrier();
	if (t_rank == 0) {
		put(&n, b, 8, 8, &first);
		T_WAIT(&first);
		memset(b, 7, 8);
		msg.addr = n.peer[1];
		msg.context = &op;
		T_TRY(fi_writemsg(n.ep, &msg, FI_COMPLETION | FI_MORE));
	}
	t_barrier_with(nothing);
	if (t_rank == 1)
		T_CHECK(!differs(mem, 0, 8), "it wasn't kept");
	t_barrier_with(nothing);
	if (t_rank == 0)
		T_WAIT(&op);
	t_barrier();
	if (t_rank == 1)
		T_CHECK(!differs(mem, 7, 8), "it isn't done");
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* --- another thread waits for them ---------------------------------------------------- */

struct sleeper {
	struct t_node *n;
	bool polls; /* a descriptor */
	int fd;
	unsigned most;
	_Atomic unsigned got;
};

static void *sleep_for_all(void *arg)
{
	struct sleeper *s = arg;
	struct fid *fids[] = {&s->n->cq->fid};
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	struct fi_cq_tagged_entry entry;

	while (s->got < s->most) {
		if (s->polls && !fi_trywait(s->n->fabric, fids, 1))
			poll(&p, 1, -1);
		if ((s->polls ? fi_cq_read(s->n->cq, &entry, 1)
			      : fi_cq_sread(s->n->cq, &entry, 1, NULL, -1)) == 1)
			s->got++;
	}
	return NULL;
}

static void other_thread(bool polls)
{
	enum { ROUNDS = 1000 }; /* each would take 50 ms if nothing woke it */
	struct t_opts o = {.threading = FI_THREAD_SAFE, .wait = FI_WAIT_FD};
	static unsigned char mem[ROOM], b[8];
	struct sleeper s = {.polls = polls, .most = 2 * ROUNDS};
	struct fid_mr *mr;
	pthread_t thread;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	if (t_rank == 0) {
		s.n = &n;
		T_OK(fi_control(&n.cq->fid, FI_GETWAIT, &s.fd));
		T_OK(pthread_create(&thread, NULL, sleep_for_all, &s));
		for (unsigned i = 0; i < ROUNDS; i++) {
			for (uint64_t k = 0; k < 2; k++)
				while (fi_write(n.ep, b, 8, NULL, n.peer[1], 16 * k, KEY, NULL))
					sched_yield();
			while (s.got < 2 * (i + 1))
				sched_yield();
		}
		T_OK(pthread_join(thread, NULL));
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* One thread sleeps on the queue of receives, until the other's writes are answered. */
static void answered(void)
{
	enum { ROUNDS = 500 };
	struct t_opts o = {.threading = FI_THREAD_SAFE, .wait = FI_WAIT_FD, .two_cqs = true};
	static uint64_t mem[ROOM / 8], word;
	struct sleeper s = {.polls = true, .most = ROUNDS};
	struct fid_mr *mr;
	pthread_t thread;
	struct t_node n;
	uint64_t i;

	begin(&n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	if (t_rank == 0) {
		for (i = 0; i < ROUNDS; i++)
			T_OK(fi_trecv(n.ep, NULL, 0, NULL, n.peer[1], i, 0, NULL));
		s.n = &n;
		T_OK(fi_control(&n.cq->fid, FI_GETWAIT, &s.fd));
		T_OK(pthread_create(&thread, NULL, sleep_for_all, &s));
		for (i = 0; i < ROUNDS; i++) {
			word = i + 1;
			for (uint64_t k = 0; k < 2; k++)
				while (fi_inject_write(n.ep, &word, 8, n.peer[1], 16 * k, KEY))
					sched_yield();
			while (s.got < i + 1)
				sched_yield();
		}
		T_OK(pthread_join(thread, NULL));
	}
	for (i = 0; i < ROUNDS && t_rank == 1; i++) {
		while (*(volatile uint64_t *)&mem[2] < i + 1)
			t_idle();
		T_TRY(fi_tinject(n.ep, NULL, 0, n.peer[0], i));
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

static void sleeps(void)
{
	other_thread(false);
}

static void polls(void)
{
	other_thread(true);
}

/* What is behind a fence begins when they are over. */
static void fenced(void)
{
	enum { N = 30 };
	struct t_opts o = {.caps = FI_FENCE};
	static unsigned char mem[ROOM], b[8], in[8];
	static struct t_op op[N + 1];
	struct iovec iov = {in, 8};
	struct fi_rma_iov at = {16 * (N - 1), 8, KEY};
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &at, .rma_iov_count = 1};
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, mem, ROOM, BOTH, KEY);
	t_barrier();
	if (t_rank == 0) {
		memset(b, 9, 8);
		some(&n, op, N, b);
		msg.addr = n.peer[1];
		msg.context = &op[N];
		T_TRY(fi_readmsg(n.ep, &msg, FI_COMPLETION | FI_FENCE));
		T_WAIT(&op[N]);
		for (int i = 0; i < N; i++)
			T_EQ(op[i].done, 1);
		T_CHECK(!differs(in, 9, 8), "it was read before");
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

/* --- the table --------------------------------------------------------------------- */

AS(by_itself, AUTO)
ALL(waited_for)
AS(ends, DIRECT)
AS(ends, SERVED)
AS(ends, DENIED)
AS(ends, AUTO)
AS(ends_counted, DIRECT)
AS(ends_refused, DIRECT)
AS(forked, DIRECT)
AS(more, AUTO)
AS(beside, DIRECT)
AS(beside, AUTO)
AS(answered, DIRECT)
AS(answered, AUTO)
AS(sleeps, DIRECT)
AS(sleeps, AUTO)
AS(polls, DIRECT)
AS(polls, AUTO)
ALL(fenced)

static const struct t_case cases[] = {
	CASE(by_itself, AUTO, "", 2, "one is over when its call returns"),
	CASES(waited_for, 2, "whoever waits makes progress"),
	CASE(ends, DIRECT, "", 2, "who closes loses nothing that was injected"),
	CASE(ends, SERVED, "_served", 2, "the same"),
	CASE(ends, DENIED, "_denied", 2, "nor where the right to copy is lost before"),
	CASE(ends, AUTO, "_auto", 2, "the same"),
	CASE(ends_counted, DIRECT, "", 2, "and what is counted, is"),
	CASE(ends_refused, DIRECT, "", 2, "but for what is refused"),
	CASE(forked, DIRECT, "", 2, "a child has nothing of them"),
	CASE(more, AUTO, "", 2, "the first of several is kept where that is said"),
	CASE(beside, DIRECT, "", 2, "none is where the domain has another endpoint"),
	CASE(beside, AUTO, "_auto", 2, "the same"),
	CASE(answered, DIRECT, "", 2, "a thread that sleeps hears what they are answered"),
	CASE(answered, AUTO, "_auto", 2, "the same"),
	CASE(sleeps, DIRECT, "", 2, "a thread that sleeps hears of them"),
	CASE(sleeps, AUTO, "_auto", 2, "the same"),
	CASE(polls, DIRECT, "", 2, "one that polls a descriptor does, too"),
	CASE(polls, AUTO, "_auto", 2, "the same"),
	CASES(fenced, 2, "a fence waits for them"),
};

const struct t_group group_kept = T_GROUP("kept", cases);
