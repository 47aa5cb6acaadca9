/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * queued.c: what can't begin yet waits at its sender, whose call returns: for a receiver that
 * computes, a table of the peer's, a lock, a connection. Who waits at a descriptor meanwhile is
 * woken, or never falls asleep; each sleep that would have no end is found out by its timeout.
 */
#include "ways.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 10000 /* ms */
#define KEY	 0x4ef
#define MIB	 (1u << 20)

/* Nothing has completed: wait as one does who has nothing else to do. */
static void wait_at(struct t_node *n, struct fid_cq *cq)
{
	struct fid *fids[] = {&cq->fid};

	if (!fi_trywait(n->fabric, fids, 1))
		T_CHECK(sleep_on(descriptor(&cq->fid), PATIENCE, POLL) == 1, "nothing woke it");
}

/* The one completion of a queue, however long it takes. */
static ssize_t wait_for(struct t_node *n, struct fid_cq *cq)
{
	struct fi_cq_tagged_entry e;
	ssize_t rc;

	while ((rc = fi_cq_read(cq, &e, 1)) == -FI_EAGAIN)
		wait_at(n, cq);
	return rc;
}

static void add_one(struct t_node *n, uint64_t *one, struct fi_context2 *ctx)
{
	T_EQ(fi_atomic(n->ep, one, 1, NULL, n->peer[0], 0, KEY, FI_UINT64, FI_SUM, ctx), 0);
	T_EQ(wait_for(n, n->cq), 1);
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
	struct fi_context2 ctx;
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
	rc = fi_tsend(n.ep, &v, 8, NULL, n.peer[1], 1, &ctx);
	T_EQ(fi_cq_read(n.txcq, &e, 1), -FI_EAGAIN);
	T_OK(kill(pid[1], SIGCONT));
	T_EQ(rc, 0);
	pause_ms(150); /* it computes, and the other connects */
	if (meanwhile == WE_WAITED)
		T_EQ(fi_cq_sread(n.cq, &e, 1, NULL, 1), -FI_EAGAIN);
	T_EQ(wait_for(&n, n.txcq), 1);
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

/* The same with one that never goes on: who waits hears of its death. */
static void dies_unconnected(void)
{
	const struct t_opts o = {.wait = FI_WAIT_FD};
	unsigned char name[T_NAME_MAX];
	struct t_node n;
	struct fi_cq_err_entry err = {0};
	struct fi_context2 ctx;
	uint64_t v = 1;
	fi_addr_t dead;
	int pipes[2];
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
	T_EQ(fi_tsend(n.ep, &v, 8, NULL, dead, 1, &ctx), 0);
	T_OK(kill(child, SIGKILL));
	T_EQ(waitpid(child, NULL, 0), child);
	pause_ms(150); /* it computes, and the service thread sees it */
	T_EQ(wait_for(&n, n.cq), -FI_EAVAIL);
	T_EQ(fi_cq_readerr(n.cq, &err, 0), 1);
	T_EQ(err.err, FI_ECONNREFUSED);
	T_CHECK(err.op_context == &ctx, "another operation's error");
	close(pipes[0]);
	close(pipes[1]);
	t_close(&n);
}

static _Atomic pid_t sleeper;

static void *await_answer(void *arg)
{
	struct t_node *n = arg;

	atomic_store(&sleeper, gettid());
	T_EQ(wait_for(n, n->cq), 1);
	return NULL;
}

static bool polls(pid_t thread)
{
	char path[64], line[64] = "";
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
	file = fopen(path, "r");
	T_CHECK(file, "%s can't be read", path);
	if (!fgets(line, sizeof line, file))
		line[0] = 0;
	fclose(file);
	return atoi(line) == SYS_poll && line[0] != 'r';
}

/* One thread sleeps at the descriptor, and another queues: it hasn't asked for that room. */
static void by_another_thread(void)
{
	enum { MANY = 300 };
	const struct t_opts o = {.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
	struct fi_context2 ctx;
	struct t_op op;
	pthread_t other;
	struct t_node n;
	uint64_t got;

	t_start(&n, &o);
	atomic_store(&sleeper, 0);
	if (t_rank == 0) {
		T_EQ(fi_trecv(n.ep, &got, 8, NULL, n.peer[1], 2, 0, &ctx), 0);
		T_OK(pthread_create(&other, NULL, await_answer, &n));
		while (!atomic_load(&sleeper) || !polls(atomic_load(&sleeper)))
			sched_yield();
		for (uint64_t i = 0; i < MANY; i++)
			T_EQ(fi_tinject(n.ep, &i, 8, n.peer[1], 1), 0);
		t_barrier_with(NULL);
		T_OK(pthread_join(other, NULL)); /* who goes on with what we have queued */
	} else {
		t_barrier_with(NULL);
		for (uint64_t i = 0; i < MANY; i++) {
			op = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 1, 0, &op);
			T_WAIT(&op);
			T_EQ(got, i);
		}
		T_TRY(fi_tinject(n.ep, &got, 8, n.peer[0], 2));
	}
	t_barrier();
	t_finish(&n);
}

/* --- those that are woken by what comes sleep until then ----------------------------- */

#define AWAY 300 /* ms */

static ssize_t write_with(struct t_node *n, uint64_t *word, uint64_t flags, void *ctx)
{
	const struct iovec iov = {word, 8};
	const struct fi_rma_iov place = {0, 8, KEY};
	const struct fi_msg_rma msg = {.msg_iov = &iov,
				       .iov_count = 1,
				       .addr = n->peer[1],
				       .rma_iov = &place,
				       .rma_iov_count = 1,
				       .context = ctx,
				       .data = 1};

	return fi_writemsg(n->ep, &msg, flags | FI_COMPLETION);
}

static ssize_t write_data(struct t_node *n, uint64_t *word, void *ctx)
{
	return write_with(n, word, FI_REMOTE_CQ_DATA, ctx);
}

static ssize_t write_fenced(struct t_node *n, uint64_t *word, void *ctx)
{
	return write_with(n, word, FI_FENCE, ctx);
}

static ssize_t add(struct t_node *n, uint64_t *word, void *ctx)
{
	const struct fi_ioc ioc = {word, 1};
	const struct fi_rma_ioc place = {0, 1, KEY};
	const struct fi_msg_atomic msg = {.msg_iov = &ioc,
					  .iov_count = 1,
					  .addr = n->peer[1],
					  .rma_iov = &place,
					  .rma_iov_count = 1,
					  .datatype = FI_UINT64,
					  .op = FI_SUM,
					  .context = ctx};

	return fi_atomicmsg(n->ep, &msg, FI_COMPLETION);
}

static void is_foreign(const struct t_comp *c)
{
	T_CHECK(c->flags & FI_REMOTE_CQ_DATA, "a completion of something else");
}

/* Until one has to wait; then the peer is away, and we sleep until it does what that waits for. */
static void sleeps_until(ssize_t (*go)(struct t_node *n, uint64_t *word, void *ctx), bool fenced)
{
	const struct t_opts o = {.caps = FI_RMA | FI_RMA_EVENT | FI_ATOMIC,
				 .wait = FI_WAIT_FD,
				 .cq_data = !fenced,
				 .selective = FI_SEND};
	static uint64_t word = 1, mem[512];
	struct t_buf b = t_buf(MIB, 0);
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx;
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
		T_EQ(add(&n, &word, &ctx), 0);
		T_EQ(wait_for(&n, n.cq), 1);
		if (fenced) /* what the others are to wait for */
			t_tsend(&n, 1, b.p, b.len, 1, &op);
		do
			T_EQ(go(&n, &word, &ctx), 0);
		while ((rc = fi_cq_read(n.cq, &e, 1)) == 1);
		T_EQ(rc, -FI_EAGAIN);
		t_barrier_with(NULL);
		used = cpu();
		T_EQ(wait_for(&n, n.cq), 1);
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

/* fi_wait() on a set returns when there has been room, too. */
static void room_in_a_set(void)
{
	enum { MANY = 300 };
	struct fi_context2 ctx[MANY];
	struct fi_cq_tagged_entry e;
	struct t_opts o = {0};
	struct t_set set;
	struct t_node n;
	uint64_t got;
	int done = 0;

	t_start_in_set(&n, &o, &set);
	if (t_rank == 0) {
		for (uint64_t i = 0; i < MANY; i++)
			T_EQ(fi_tinject(n.ep, &i, 8, n.peer[1], 1), 0);
		T_EQ(fi_tsend(n.ep, NULL, 0, NULL, n.peer[1], 1, &ctx[0]), 0);
		T_EQ(fi_cq_read(n.cq, &e, 1), -FI_EAGAIN);
		t_barrier_with(NULL);
		while (!done) {
			ssize_t rc = fi_cq_read(n.cq, &e, 1);

			T_CHECK(rc == 1 || rc == -FI_EAGAIN, "fi_cq_read: %zd", rc);
			done = rc == 1;
			if (!done)
				T_OK(fi_wait(set.wait, PATIENCE));
		}
	} else {
		t_barrier_with(NULL);
		pause_ms(60); /* the other sleeps */
	}
	for (uint64_t i = 0; t_rank == 1 && i < MANY; i++) {
		struct t_op op = {0};

		t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 1, 0, &op);
		T_WAIT(&op);
		T_EQ(got, i);
	}
	if (t_rank == 1) {
		struct t_op op = {0};

		t_trecv(&n, FI_ADDR_UNSPEC, NULL, 0, 1, 0, &op);
		T_WAIT(&op);
	}
	t_finish_in_set(&n, &set);
}

/* --- many, to one that computes -------------------------------------------------------- */

struct many {
	size_t len;
	int n;
};

/* Each rank sends them all before either receives; in order, and nothing is lost. */
static void both_send_all(void)
{
	static const struct many rows[] = {{8, 10000}, {0, 3000}, {5000, 2000}, {200000, 1000}};
	struct t_node n;

	t_start(&n, NULL);
	for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
		struct t_op *tx = calloc((size_t)rows[row].n, sizeof *tx), rx;
		struct t_buf b = t_buf(rows[row].len, 0), in = t_buf(rows[row].len, 0);

		t_fill(b.p, b.len, 7 + row, 0);
		for (int i = 0; i < rows[row].n; i++)
			t_tsend(&n, !t_rank, b.p, b.len, (uint64_t)i, &tx[i]);
		for (int i = 0; i < rows[row].n; i++) {
			rx = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, in.p, in.len, 0, ~0ull, &rx);
			T_WAIT(&rx);
			T_EQ(rx.c.tag, (uint64_t)i);
			if (!(i % 97))
				T_GOT(&in, in.len, 7 + row);
		}
		for (int i = 0; i < rows[row].n; i++)
			T_WAIT(&tx[i]);
		t_buf_free(&b);
		t_buf_free(&in);
		free(tx);
	}
	t_finish(&n);
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long pages = 0;

	T_CHECK(f && fscanf(f, "%*d %ld", &pages) == 1, "statm");
	fclose(f);
	return pages * 4;
}

/* What may stay resident, of megabytes. (A byte has four of ThreadSanitizer's, and these stay.) */
#ifdef __SANITIZE_THREAD__
#define STAYS_KIB (5 * 512)
#else
#define STAYS_KIB 512
#endif

/* A hundred thousand short ones to one that stays away: all calls return, and their memory is given
 * back. */
static void memory_comes_back(void)
{
	enum { MANY = 100000 };
	struct t_op rx, tx = {0};
	long before, most, stays;
	struct t_node n;
	uint64_t got;

	t_start(&n, NULL);
	if (t_rank == 0) {
		t_mark(&n, 1, 1); /* connected */
		before = resident_kib();
		for (uint64_t i = 0; i < MANY; i++)
			T_EQ(fi_tinject(n.ep, &i, 8, n.peer[1], 2), 0);
		most = resident_kib();
		T_CHECK(most - before > 8 * STAYS_KIB, "%ld KiB for what is queued", most - before);
		t_barrier_with(NULL);
		t_tsend(&n, 1, NULL, 0, 3, &tx);
		T_WAIT(&tx); /* it is the last one */
		stays = resident_kib() - before;
		T_CHECK(stays < STAYS_KIB, "%ld of %ld KiB stay", stays, most - before);
	} else {
		t_wait_mark(&n, 0, 1);
		t_barrier_with(NULL);
		for (uint64_t i = 0; i < MANY; i++) {
			rx = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 2, 0, &rx);
			T_WAIT(&rx);
			T_EQ(got, i);
		}
		rx = (struct t_op){0};
		t_trecv(&n, FI_ADDR_UNSPEC, NULL, 0, 3, 0, &rx);
		T_WAIT(&rx);
	}
	t_barrier();
	t_finish(&n);
}

/* So many injected bytes wait, no more; of others any number. */
static void kept_bytes(void)
{
	enum { BYTES = 4096, EACH = 100, MORE = 500 };
	static struct t_op tx[MORE];
	char word[EACH];
	struct t_node n;
	int kept = 0;

	setenv("FI_BEELINE_INJECT_QUEUE", "4096", 1);
	t_start(&n, NULL);
	if (t_rank == 0) {
		t_mark(&n, 1, 1);
		memset(word, 5, sizeof word);
		while (!fi_tinject(n.ep, word, EACH, n.peer[1], 2))
			kept++;
		T_EQ(fi_tinject(n.ep, word, EACH, n.peer[1], 2), -FI_EAGAIN);
		T_CHECK(kept >= BYTES / EACH && kept <= BYTES / EACH + 64, "%d were taken", kept);
		for (int i = 0; i < MORE; i++)
			T_EQ(fi_tsend(n.ep, word, EACH, NULL, n.peer[1], 2, &tx[i]), 0);
		t_barrier_with(NULL);
		for (int i = 0; i < MORE; i++)
			T_WAIT(&tx[i]);
		T_EQ(fi_tinject(n.ep, &kept, sizeof kept, n.peer[1], 3), 0);
	} else {
		struct t_op rx = {0};

		t_wait_mark(&n, 0, 1);
		t_barrier_with(NULL);
		t_trecv(&n, FI_ADDR_UNSPEC, &kept, sizeof kept, 3, 0, &rx);
		T_WAIT(&rx);
		for (int i = 0; i < kept + MORE; i++) {
			rx = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, word, EACH, 2, 0, &rx);
			T_WAIT(&rx);
			T_CHECK(word[0] == 5 && word[EACH - 1] == 5, "other bytes");
		}
	}
	t_barrier();
	t_finish(&n);
}

/* What is queued can be taken back: it never comes, and what is behind it does. */
static void taken_back(void)
{
	enum { MANY = 200, BACK = 150 };
	static struct t_op tx[MANY];
	struct t_op rx;
	struct t_node n;
	uint64_t v[MANY], got;

	t_start(&n, NULL);
	if (t_rank == 0) {
		t_mark(&n, 1, 1);
		for (uint64_t i = 0; i < MANY; i++) {
			v[i] = i;
			T_EQ(fi_tsend(n.ep, &v[i], 8, NULL, n.peer[1], 2, &tx[i]), 0);
		}
		for (int i = BACK; i < MANY; i += 7)
			T_EQ(fi_cancel(&n.ep->fid, &tx[i]), 0);
		t_barrier_with(NULL);
		for (int i = 0; i < MANY; i++) {
			if (i < BACK || (i - BACK) % 7) {
				T_WAIT(&tx[i]);
			} else {
				T_WAIT_ERR(&tx[i], FI_ECANCELED);
			}
		}
	} else {
		t_wait_mark(&n, 0, 1);
		t_barrier_with(NULL);
		for (uint64_t i = 0; i < MANY; i++) {
			if (i >= BACK && !((i - BACK) % 7))
				continue;
			rx = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 2, 0, &rx);
			T_WAIT(&rx);
			T_EQ(got, i);
		}
	}
	t_barrier();
	t_finish(&n);
}

/* Whoever closes with injected messages that wait sends them first: they are known as sent. */
static void close_sends(void)
{
	enum { MANY = 1000 };
	struct t_node n;
	uint64_t got;

	t_start(&n, NULL);
	if (t_rank == 0) {
		t_mark(&n, 1, 1);
		for (uint64_t i = 0; i < MANY; i++)
			T_EQ(fi_tinject(n.ep, &i, 8, n.peer[1], 2), 0);
		t_barrier_with(NULL);
		t_close(&n);
	} else {
		t_wait_mark(&n, 0, 1);
		t_barrier_with(NULL);
		pause_ms(1500); /* longer than what isn't injected would be waited for */
		for (uint64_t i = 0; i < MANY; i++) {
			struct t_op rx = {0};

			t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 2, 0, &rx);
			T_WAIT(&rx);
			T_EQ(got, i);
		}
		t_close(&n);
	}
}

/* The same to an endpoint of the same domain: closing makes it receive, and is soon over. */
static void close_beside(void)
{
	enum { MANY = 1000 };
	static const enum fi_threading threading[] = {FI_THREAD_DOMAIN, FI_THREAD_SAFE};

	for (int i = 0; i < 2; i++) {
		const struct t_opts o = {.threading = threading[i]};
		struct t_node receiver, sender;
		struct timespec began, ended;
		fi_addr_t to;
		uint64_t got;

		t_open(&receiver, &o);
		t_open_beside(&sender, &receiver, &o);
		to = t_insert(&sender, receiver.name);
		for (uint64_t k = 0; k < MANY; k++)
			T_EQ(fi_tinject(sender.ep, &k, 8, to, 2), 0);
		clock_gettime(CLOCK_MONOTONIC, &began);
		t_close(&sender);
		clock_gettime(CLOCK_MONOTONIC, &ended);
		T_CHECK(ended.tv_sec - began.tv_sec < 5, "closing took %ld s",
			(long)(ended.tv_sec - began.tv_sec));
		for (uint64_t k = 0; k < MANY; k++) {
			struct t_op rx = {0};

			t_trecv(&receiver, FI_ADDR_UNSPEC, &got, 8, 2, 0, &rx);
			T_WAIT(&rx);
			T_EQ(got, k);
		}
		t_close(&receiver);
	}
}

static const struct t_case cases[] = {
	{"queued_first_atomic", 2, first_atomic, "what it waits for comes before it sleeps", 120},
	{"queued_behind_a_lock", 3, behind_a_lock, "a lock is let go of, and nobody rings", 120},
	{"queued_no_connection", 2, no_connection, "a connection is made before it sleeps", 120},
	{"queued_beside_another", 2, beside_another, "another thread's wait takes the news", 120},
	{"queued_after_a_wait", 2, after_a_wait, "another queue's wait takes the news", 120},
	{"queued_dies_unconnected", 1, dies_unconnected, "nor is it told of a death", 120},
	{"queued_by_another_thread", 2, by_another_thread, "a sleeper isn't woken for it", 120},
	{"queued_data_without_room", 2, data_without_room, "it spins until there is room", 120},
	{"queued_full_fence", 2, full_fence, "it spins until the fence opens", 120},
	{"queued_room_in_a_set", 2, room_in_a_set, "room comes, and then the completion", 120},
	{"queued_both_send_all", 2, both_send_all, "neither receives before all is sent", 120},
	{"queued_memory_comes_back", 2, memory_comes_back, "a long queue leaves nothing", 120},
	{"queued_kept_bytes", 2, kept_bytes, "what is injected is bounded, others aren't", 120},
	{"queued_taken_back", 2, taken_back, "fi_cancel finds what is queued", 120},
	{"queued_close_sends", 2, close_sends, "closing loses what was injected", 120},
	{"queued_close_beside", 1, close_beside, "closing waits for itself", 120},
};
const struct t_group group_queued = T_GROUP("queued", cases);
