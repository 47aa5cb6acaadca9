/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * refused.c: what is refused with -FI_EAGAIN, and whoever then waits at a descriptor until it may
 * go: for a table of the peer's, a lock, a connection, and, in a wait set, for room. It is woken,
 * or never falls asleep; each sleep that would have no end is found out by its timeout.
 */
#include "ways.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define PATIENCE 10000 /* ms */
#define KEY	 0x4ef
#define MIB	 (1u << 20)

/* It was refused: wait as one does who has nothing else to do. */
static void wait_at(struct t_node *n, struct fid_cq *cq)
{
	struct fid *fids[] = {&cq->fid};
	struct fi_cq_tagged_entry e;

	if (!fi_trywait(n->fabric, fids, 1))
		T_CHECK(sleep_on(descriptor(&cq->fid), PATIENCE, POLL) == 1, "nothing woke it");
	fi_cq_read(cq, &e, 0);
}

static void add_one(struct t_node *n, uint64_t *one, struct fi_context2 *ctx)
{
	struct fi_cq_tagged_entry e;
	ssize_t rc;

	while ((rc = fi_atomic(n->ep, one, 1, NULL, n->peer[0], 0, KEY, FI_UINT64, FI_SUM, ctx)) ==
	       -FI_EAGAIN)
		wait_at(n, n->cq);
	T_EQ(rc, 0);
	while ((rc = fi_cq_read(n->cq, &e, 1)) == -FI_EAGAIN)
		;
	T_EQ(rc, 1);
}

/* The first one asks for what the two need to know of each other, and may go when that has come. */
static void first_atomic(void)
{
	const struct t_opts o = {.caps = FI_RMA | FI_ATOMIC, .wait = FI_WAIT_FD};

	for (int round = 0; round < t_scaled(8); round++) {
		uint64_t sum = 0, one = 1;
		struct fi_context2 ctx;
		struct fid_mr *mr;
		struct t_node n;

		t_start(&n, &o);
		T_OK(fi_mr_reg(n.domain, &sum, sizeof sum, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY,
			       0, &mr, NULL));
		t_barrier();
		if (t_rank == 1)
			add_one(&n, &one, &ctx);
		t_barrier();
		T_EQ(sum, t_rank == 0);
		T_OK(fi_close(&mr->fid));
		t_finish(&n);
	}
}

/* Another process holds the lock of what is to be changed, for as long as 8 MiB take. */
static void behind_a_lock(void)
{
	enum { MANY = 1 << 20 };
	const struct t_opts o = {.caps = FI_RMA | FI_ATOMIC, .wait = FI_WAIT_FD};
	struct t_buf b = t_buf(MANY * sizeof(uint64_t), 0);
	struct t_op stop = {0}, op;
	struct fi_context2 ctx;
	struct fid_mr *mr;
	uint64_t one = 1;
	struct t_node n;
	char word;

	memset(b.p, 0, b.len);
	t_start(&n, &o);
	T_OK(fi_mr_reg(n.domain, b.p, b.len, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &mr,
		       NULL));
	if (t_rank < 2)
		t_trecv(&n, n.peer[2], &word, 1, 1, 0, &stop);
	t_barrier();
	while (t_rank == 1 && !stop.done) {
		op = (struct t_op){0};
		T_TRY(fi_atomic(n.ep, b.p, MANY, NULL, n.peer[0], 0, KEY, FI_UINT64, FI_SUM, &op));
		T_WAIT(&op);
	}
	while (t_rank == 0 && !stop.done)
		t_idle();
	if (t_rank == 2) {
		for (int i = 0; i < t_scaled(2000); i++)
			add_one(&n, &one, &ctx);
		for (int to = 0; to < 2; to++)
			T_TRY(fi_tinject(n.ep, &word, 1, n.peer[to], 1));
	}
	t_barrier();
	T_EQ(*(uint64_t *)(void *)b.p, t_rank == 0 ? (uint64_t)t_scaled(2000) : 0);
	T_OK(fi_close(&mr->fid));
	t_buf_free(&b);
	t_finish(&n);
}

static bool has_stopped(pid_t pid, const char *thread)
{
	char path[300], line[300], *state;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, thread);
	file = fopen(path, "r");
	T_CHECK(file && fgets(line, sizeof line, file), "%s can't be read", path);
	fclose(file);
	state = strrchr(line, ')');
	return state && state[1] && state[2] == 'T';
}

static bool all_have_stopped(pid_t pid)
{
	const struct dirent *e;
	bool all = true;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	dir = opendir(path);
	T_CHECK(dir, "%s can't be read", path);
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.')
			all &= has_stopped(pid, e->d_name);
	closedir(dir);
	return all;
}

static void stop(pid_t pid)
{
	T_OK(kill(pid, SIGSTOP));
	while (!all_have_stopped(pid)) /* the case has a deadline */
		;
}

static _Atomic bool answered;

/* It waits at the other queue of the same endpoint. */
static void *read_on(void *arg)
{
	struct t_node *n = arg;
	struct fi_cq_tagged_entry e;

	while (!atomic_load(&answered))
		T_EQ(fi_cq_sread(n->cq, &e, 1, NULL, 200), -FI_EAGAIN);
	return NULL;
}

enum meanwhile { NOTHING, ANOTHER_WAITS, WE_WAITED };

/*
 * The peer is stopped, so that nobody connects; then it goes on, while we are away. Whoever looks
 * at another queue of this endpoint meanwhile doesn't take the news away.
 */
static void no_connection_and(enum meanwhile meanwhile)
{
	const struct t_opts o = {.wait = FI_WAIT_FD, .two_cqs = true, .threading = FI_THREAD_SAFE};
	pid_t pid[T_PROC_MAX], own = getpid();
	struct fi_cq_tagged_entry e;
	uint64_t v = 5, got = 0;
	struct t_op op = {0};
	pthread_t other;
	struct t_node n;
	ssize_t rc;

	t_start(&n, &o);
	t_allgather(&own, sizeof own, pid, NULL);
	if (t_rank == 1) {
		t_barrier_with(NULL);
		t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 1, 0, &op);
		T_WAIT(&op);
		T_EQ(got, 5);
		t_finish(&n);
		return;
	}
	stop(pid[1]);
	atomic_store(&answered, false);
	if (meanwhile == ANOTHER_WAITS)
		T_OK(pthread_create(&other, NULL, read_on, &n));
	rc = fi_tinject(n.ep, &v, 8, n.peer[1], 1);
	T_OK(kill(pid[1], SIGCONT));
	T_EQ(rc, -FI_EAGAIN);
	pause_ms(150); /* it computes, and the other connects */
	if (meanwhile == WE_WAITED)
		T_EQ(fi_cq_sread(n.cq, &e, 1, NULL, 1), -FI_EAGAIN);
	do
		wait_at(&n, n.txcq);
	while ((rc = fi_tinject(n.ep, &v, 8, n.peer[1], 1)) == -FI_EAGAIN);
	T_EQ(rc, 0);
	atomic_store(&answered, true);
	if (meanwhile == ANOTHER_WAITS)
		T_OK(pthread_join(other, NULL));
	t_barrier_with(NULL);
	t_finish(&n);
}

static void no_connection(void)
{
	no_connection_and(NOTHING);
}

static void beside_another(void)
{
	no_connection_and(ANOTHER_WAITS);
}

static void after_a_wait(void)
{
	no_connection_and(WE_WAITED);
}

/* The same with one that never goes on: who tries again hears of its death. */
static void dies_unconnected(void)
{
	const struct t_opts o = {.wait = FI_WAIT_FD};
	unsigned char name[T_NAME_MAX];
	struct t_node n;
	uint64_t v = 1;
	fi_addr_t dead;
	int pipes[2];
	ssize_t rc;
	pid_t child;

	T_OK(pipe(pipes));
	child = fork();
	if (!child) {
		t_open(&n, NULL);
		T_EQ(write(pipes[1], n.name, T_NAME_MAX), T_NAME_MAX);
		for (;;)
			pause();
	}
	t_open(&n, &o);
	T_EQ(read(pipes[0], name, T_NAME_MAX), T_NAME_MAX);
	dead = t_insert(&n, name);
	stop(child);
	T_EQ(fi_tinject(n.ep, &v, 8, dead, 1), -FI_EAGAIN);
	T_OK(kill(child, SIGKILL));
	T_EQ(waitpid(child, NULL, 0), child);
	pause_ms(150); /* it computes, and the service thread sees it */
	do
		wait_at(&n, n.cq);
	while ((rc = fi_tinject(n.ep, &v, 8, dead, 1)) == -FI_EAGAIN);
	T_EQ(rc, -FI_ECONNREFUSED);
	close(pipes[0]);
	close(pipes[1]);
	t_close(&n);
}

/* --- those that are woken by what comes sleep until then ----------------------------- */

#define AWAY 300 /* ms */

static ssize_t write_data(struct t_node *n, uint64_t *word)
{
	return fi_inject_writedata(n->ep, word, 8, 1, n->peer[1], 0, KEY);
}

static ssize_t write_fenced(struct t_node *n, uint64_t *word)
{
	const struct iovec iov = {word, 8};
	const struct fi_rma_iov place = {0, 8, KEY};
	const struct fi_msg_rma msg = {.msg_iov = &iov,
				       .iov_count = 1,
				       .addr = n->peer[1],
				       .rma_iov = &place,
				       .rma_iov_count = 1};

	return fi_writemsg(n->ep, &msg, FI_FENCE);
}

static void is_foreign(const struct t_comp *c)
{
	T_CHECK(c->flags & FI_REMOTE_CQ_DATA, "a completion of something else");
}

/* Until no more goes; then the peer is away, and we wait for what it does next. */
static void sleeps_until(ssize_t (*go)(struct t_node *n, uint64_t *word), bool fenced)
{
	const struct t_opts o = {.caps = FI_RMA | FI_RMA_EVENT | FI_ATOMIC,
				 .wait = FI_WAIT_FD,
				 .cq_data = !fenced,
				 .selective = FI_SEND};
	static uint64_t word = 1, mem[512];
	struct t_buf b = t_buf(MIB, 0);
	struct t_op op = {0};
	struct fid_mr *mr;
	struct t_node n;
	uint64_t used;
	ssize_t rc;

	t_foreign = is_foreign;
	t_start(&n, &o);
	T_OK(fi_mr_reg(n.domain, mem, sizeof mem, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &mr,
		       NULL));
	t_barrier();
	if (t_rank == 0) {
		/* What was asked for before and has been answered is no news any more. */
		while ((rc = fi_inject_atomic(n.ep, &word, 1, n.peer[1], 0, KEY, FI_UINT64,
					      FI_SUM)) == -FI_EAGAIN)
			wait_at(&n, n.cq);
		T_EQ(rc, 0);
		if (fenced) /* what the others are to wait for */
			t_tsend(&n, 1, b.p, b.len, 1, &op);
		while (!(rc = go(&n, &word)))
			;
		T_EQ(rc, -FI_EAGAIN);
		t_barrier_with(NULL);
		used = cpu();
		do
			wait_at(&n, n.cq);
		while ((rc = go(&n, &word)) == -FI_EAGAIN);
		T_EQ(rc, 0);
		used = cpu() - used;
		T_CHECK(used < AWAY * 1000000ull / 3, "%llu us of CPU in a wait of %d ms",
			(unsigned long long)used / 1000, AWAY);
	} else {
		t_barrier_with(NULL);
		pause_ms(AWAY);
		if (fenced) {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, b.len, 1, 0, &op);
			T_WAIT(&op);
		}
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_buf_free(&b);
	t_finish(&n);
}

static void data_without_room(void)
{
	sleeps_until(write_data, false);
}

static void full_fence(void)
{
	sleeps_until(write_fenced, true);
}

/* fi_wait() on a set returns when there is room, too. */
static void room_in_a_set(void)
{
	struct t_opts o = {0};
	uint64_t sent = 0, got, all[T_PROC_MAX];
	struct t_set set;
	struct t_node n;
	ssize_t rc;

	t_start_in_set(&n, &o, &set);
	if (t_rank == 0) {
		T_TRY(fi_tinject(n.ep, &sent, 8, n.peer[1], 1));
		do
			sent++;
		while (!(rc = fi_tinject(n.ep, &sent, 8, n.peer[1], 1)));
		T_EQ(rc, -FI_EAGAIN);
		t_barrier_with(NULL);
		do
			T_OK(fi_wait(set.wait, PATIENCE));
		while ((rc = fi_tinject(n.ep, &sent, 8, n.peer[1], 1)) == -FI_EAGAIN);
		T_EQ(rc, 0);
		sent++;
	} else {
		t_barrier_with(NULL);
		pause_ms(60); /* the other sleeps */
	}
	t_allgather(&sent, sizeof sent, all, t_progress);
	for (uint64_t i = 0; t_rank == 1 && i < all[0]; i++) {
		struct t_op op = {0};

		t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 1, 0, &op);
		T_WAIT(&op);
		T_EQ(got, i);
	}
	t_finish_in_set(&n, &set);
}

static const struct t_case cases[] = {
	{"refused_first_atomic", 2, first_atomic, "what it waits for comes before it sleeps", 120},
	{"refused_behind_a_lock", 3, behind_a_lock, "a lock is let go of, and nobody rings", 120},
	{"refused_no_connection", 2, no_connection, "a connection is made before it sleeps", 120},
	{"refused_beside_another", 2, beside_another, "another thread's wait takes the news", 120},
	{"refused_after_a_wait", 2, after_a_wait, "another queue's wait takes the news", 120},
	{"refused_dies_unconnected", 1, dies_unconnected, "nor is it told of a death", 120},
	{"refused_data_without_room", 2, data_without_room, "it spins until there is room", 120},
	{"refused_full_fence", 2, full_fence, "it spins until the fence opens", 120},
	{"refused_room_in_a_set", 2, room_in_a_set, "room comes, and no completion", 120},
};
const struct t_group group_refused = T_GROUP("refused", cases);
