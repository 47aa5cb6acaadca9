/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * life.c: what programs do besides sending: fork, start other programs, end
 * threads, use an address before its owner is ready, close or exit with operations
 * under way, drop the library. All of it is safe.
 */
#include "cases.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A message to the other and one from it. */
struct both {
	struct t_buf out, in;
	struct t_op tx, rx;
	uint64_t tag;
};

static void both_begin(struct t_node *n, struct both *b, size_t len, uint64_t tag)
{
	int other = 1 - t_rank;

	*b = (struct both){.out = t_buf(len, 1), .in = t_buf(len, 2), .tag = tag};
	t_fill(b->out.p, len, tag + (uint64_t)t_rank, 0);
	t_blank(&b->in);
	t_trecv(n, n->peer[other], b->in.p, len, tag, 0, &b->rx);
	t_tsend(n, other, b->out.p, len, tag, &b->tx);
}

static void both_end(struct both *b, size_t len)
{
	T_WAIT(&b->tx);
	T_WAIT(&b->rx);
	T_GOT(&b->in, len, b->tag + (uint64_t)(1 - t_rank));
	t_buf_free(&b->out);
	t_buf_free(&b->in);
}

static void once(struct t_node *n, size_t len, uint64_t tag)
{
	struct both both;

	both_begin(n, &both, len, tag);
	both_end(&both, len);
}

static void reap(pid_t pid)
{
	int status;

	T_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "no child");
	T_CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with 0x%x", status);
}

_Noreturn static void child_exits(struct t_node *n)
{
	exit(0);
}

_Noreturn static void child_starts_program(struct t_node *n)
{
	execl("/bin/true", "true", (char *)NULL);
	_exit(1);
}

_Noreturn static void child_closes(struct t_node *n)
{
	n->watched = false;
	fi_close(&n->ep->fid);
	_exit(0);
}

/* There may be a completion in what it has inherited, and nothing comes any more. */
_Noreturn static void child_reads(struct t_node *n)
{
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 100; i++)
		fi_cq_read(n->cq, &entry, 1);
	child_closes(n);
}

_Noreturn static void child_opens_its_own(struct t_node *n)
{
	struct t_node own;

	n->watched = false;
	t_open(&own, NULL);
	own.peer[0] = t_insert(&own, own.name);
	t_close(&own);
	_exit(0);
}

/* Children while messages are under way, in turn one of each kind. */
static void with_children(void (*const kinds[])(struct t_node *n), int nkinds)
{
	struct t_node n;

	t_start(&n, NULL);
	for (int i = 0; i < 8; i++) {
		struct both both;
		pid_t pid;

		once(&n, i % 2 ? 8 : 300000, (uint64_t)i);
		both_begin(&n, &both, 1000, 200 + (uint64_t)i); /* the next read warms a ring */
		pid = fork();
		if (!pid)
			kinds[i % nkinds](&n);
		both_end(&both, 1000);
		once(&n, i % 2 ? 300000 : 8, 100 + (uint64_t)i);
		reap(pid);
		t_barrier();
	}
	t_finish(&n);
}

static void forks(void)
{
	static void (*const kinds[])(struct t_node * n) = {child_exits, child_starts_program,
							   child_closes, child_reads};

	with_children(kinds, 4);
}

static void fork_opens(void)
{
	static void (*const kinds[])(struct t_node * n) = {child_opens_its_own};

#ifdef __SANITIZE_THREAD__
	t_skip("ThreadSanitizer knows no threads in a child of a process that had some");
#endif
	with_children(kinds, 1);
}

static void *open_and_talk(void *arg)
{
	t_start(arg, NULL);
	once(arg, 8, 1);
	once(arg, 300000, 2);
	return NULL;
}

static void *talk_and_close(void *arg)
{
	once(arg, 300000, 3);
	t_finish(arg);
	return NULL;
}

/* The thread that opened an endpoint ends; others use it, close it and end. */
static void threads_end(void)
{
	pthread_t thread;
	struct t_node n;

	T_EQ(pthread_create(&thread, NULL, open_and_talk, &n), 0);
	T_EQ(pthread_join(thread, NULL), 0);
	once(&n, 8, 4);
	once(&n, 300000, 5);
	T_EQ(pthread_create(&thread, NULL, talk_and_close, &n), 0);
	T_EQ(pthread_join(thread, NULL), 0);
}

/* An endpoint that exists but isn't enabled yet: whoever sends to it meanwhile
 * waits, and is served when it is. */
static void early_address(void)
{
	struct fi_info *hints = t_hints(&(struct t_opts){0}), *info = NULL;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	unsigned char name[T_NAME_MAX] = {0}, names[2 * T_NAME_MAX];
	size_t namelen = sizeof(name);
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fi_cq_tagged_entry comp;
	uint64_t word = 4711;
	fi_addr_t peer;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	ssize_t n;

	if (!t_beeline)
		t_skip("others differ");
	T_OK(t_getinfo(T_API, hints, &info));
	T_OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	T_OK(fi_domain(fabric, info, &domain, NULL));
	T_OK(fi_endpoint(domain, info, &ep, NULL));
	T_OK(fi_av_open(domain, &av_attr, &av, NULL));
	T_OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	T_OK(fi_ep_bind(ep, &av->fid, 0));
	T_OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	T_OK(fi_getname(&ep->fid, name, &namelen));
	if (t_rank)
		T_OK(fi_enable(ep));
	t_allgather(name, sizeof(name), names, NULL);
	T_EQ(fi_av_insert(av, names + (t_rank ? 0 : T_NAME_MAX), 1, &peer, 0, NULL), 1);
	if (t_rank) { /* rank 0 isn't enabled, and won't be for a while */
		struct fi_context2 context;

		n = fi_tsend(ep, &word, sizeof(word), NULL, peer, 7, &context);
		T_CHECK(!n, "sending to one that isn't enabled: %zd", n);
		for (int i = 0; i < 200; i++) {
			T_EQ(fi_cq_read(cq, &comp, 1), -FI_EAGAIN);
			usleep(200); /* for nothing: it is to stay so */
		}
		t_barrier_with(NULL);
		while ((n = fi_cq_read(cq, &comp, 1)) == -FI_EAGAIN)
			;
		T_EQ(n, 1);
	} else {
		struct fi_context2 context;

		t_barrier_with(NULL);
		T_OK(fi_enable(ep));
		word = 0;
		T_EQ(fi_trecv(ep, &word, sizeof(word), NULL, FI_ADDR_UNSPEC, 7, 0, &context), 0);
		while ((n = fi_cq_read(cq, &comp, 1)) == -FI_EAGAIN)
			;
		T_EQ(n, 1);
		T_EQ(word, 4711);
	}
	t_barrier_with(NULL);
	T_OK(fi_close(&ep->fid));
	T_OK(fi_close(&cq->fid));
	T_OK(fi_close(&av->fid));
	T_OK(fi_close(&domain->fid));
	T_OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* The very first operation on each pair, of each kind, in both directions at once. */
static void first_operation(void)
{
	struct t_buf in = t_buf(200000, 0), out = t_buf(200000, 0);
	struct t_op tx = {0}, rx = {0};
	struct t_node n;

	if (!t_beeline)
		t_skip("others differ");
	for (int kind = 0; kind < 4; kind++) {
		size_t len = kind == 2 ? out.len : 8;
		struct fi_rma_iov place = {.len = 8};
		struct fid_mr *mr = NULL;

		t_open(&n, &(struct t_opts){.caps = FI_RMA,
					    .threading = kind ? FI_THREAD_DOMAIN : FI_THREAD_SAFE});
		T_OK(fi_mr_reg(n.domain, in.p, 8, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
		place.key = fi_mr_key(mr);
		t_connect(&n);
		t_fill(out.p, out.len, (uint64_t)t_rank, 0);
		t_blank(&in);
		t_barrier();
		switch (kind) {
		case 0:
			T_OK(fi_tinject(n.ep, out.p, len, n.peer[!t_rank], 1));
			break;
		case 1:
		case 2:
			T_OK(fi_tsend(n.ep, out.p, len, NULL, n.peer[!t_rank], 1, &tx));
			break;
		case 3:
			T_OK(fi_write(n.ep, out.p, len, NULL, n.peer[!t_rank], place.addr,
				      place.key, &tx));
			break;
		}
		if (kind < 3) {
			rx.done = 0;
			t_trecv(&n, n.peer[!t_rank], in.p, len, 1, 0, &rx);
			T_WAIT(&rx);
		}
		if (kind)
			T_WAIT(&tx);
		t_barrier();
		T_GOT(&in, len, (uint64_t)!t_rank);
		tx.done = 0;
		T_OK(fi_close(&mr->fid));
		t_close(&n);
	}
	t_buf_free(&in);
	t_buf_free(&out);
}

/* As MPI_Finalize with a message that nobody receives: rank 0 closes with large and
 * small sends unmatched; rank 1, which never asks for them, isn't troubled. */
static void unmatched_at_the_end(void)
{
	struct t_buf b = t_buf(1 << 20, 0);
	struct t_op op[20] = {0};
	struct t_node n;

	t_start(&n, NULL);
	once(&n, 8, 1);
	if (!t_rank) {
		for (int i = 0; i < 20; i++)
			t_tsend(&n, 1, b.p, i % 2 ? b.len : 8, 1000 + (uint64_t)i, &op[i]);
		t_mark(&n, 1, 1);
		t_barrier();
		t_close(&n);
	} else {
		t_wait_mark(&n, 0, 1);
		t_barrier();
		n.watched = true;
		for (int i = 0; i < 1000; i++) { /* it notices that the other is gone */
			t_progress();
			usleep(100);
		}
		t_close(&n);
	}
	t_barrier_with(NULL);
	t_buf_free(&b);
}

/* exit() with everything open and messages under way, in every process. */
static void exit_open(void)
{
	static struct t_node n;
	static struct t_op op[4];
	struct t_buf b = t_buf(1 << 20, 0);

	t_start(&n, NULL);
	once(&n, 300000, 1);
	for (int i = 0; i < 4; i++)
		t_tsend(&n, 1 - t_rank, b.p, i % 2 ? b.len : 8, 1000 + (uint64_t)i, &op[i]);
	/* To one that has ended nothing can be sent. */
	t_barrier();
	/* main's caller does it: destructors run with the service thread alive */
}

/* A reference to the library is dropped with an endpoint open; the program is linked to
 * it, so it stays. unload.c really unloads it. */
static void unload(void)
{
	void *self = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);
	struct t_node n;

	t_open(&n, NULL);
	n.peer[0] = t_insert(&n, n.name);
	if (self)
		dlclose(self);
	usleep(20000); /* a service thread without code would not live */
	t_close(&n);
	self = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);
	T_CHECK(self, "libfabric is gone while the program is linked to it");
	dlclose(self);
	/* The provider stays: its code is what exit handlers of the process call. */
	t_open(&n, NULL);
	t_close(&n);
}

/* A queue or counter that has no descriptor left for an endpoint refuses it, and forgets
 * it: the endpoint closes, and is not touched afterwards. */
static void use_all_descriptors(void)
{
	struct rlimit limit = {256, 256};

	T_OK(setrlimit(RLIMIT_NOFILE, &limit));
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	T_EQ(errno, EMFILE);
}

static void bind_refused(void)
{
	struct t_opts o = {.counters = true, .wait = FI_WAIT_FD};
	struct fi_cq_tagged_entry e;
	struct fid_ep *ep[2];
	struct t_node n;

	mallopt(M_PERTURB, 0xa5); /* what is freed is of no use any more */
	t_open(&n, &o);
	n.watched = false;
	for (int i = 0; i < 2; i++) {
		T_OK(fi_endpoint(n.domain, n.info, &ep[i], NULL));
		T_OK(fi_ep_bind(ep[i], &n.av->fid, 0));
	}
	use_all_descriptors();
	T_EQ(fi_ep_bind(ep[0], &n.cq->fid, FI_TRANSMIT | FI_RECV), -FI_EMFILE);
	T_EQ(fi_ep_bind(ep[1], &n.rxcntr->fid, FI_RECV), -FI_EMFILE);
	for (int i = 0; i < 2; i++)
		T_OK(fi_close(&ep[i]->fid));
	for (int i = 0; i < 10; i++) {
		T_EQ(fi_cq_read(n.cq, &e, 1), -FI_EAGAIN);
		T_EQ(fi_cntr_read(n.rxcntr), 0);
	}
	t_close(&n);
}

/* --- more endpoints than the kernel looks after ------------------------------------ */

#define MANY 2100 /* it marks 2,048 lives when a thread ends, the youngest ones */

static bool may_open(rlim_t descriptors)
{
	struct rlimit limit;

	T_OK(getrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_max < descriptors)
		return false;
	limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &limit);
}

/* The first of many endpoints says a word; then its process is killed. */
static void live_and_die(int in, int out)
{
	unsigned char name[T_NAME_MAX];
	struct t_op op = {0};
	struct t_node n;
	fi_addr_t other;
	char word = 1;

	t_open(&n, NULL);
	T_EQ(write(out, n.name, T_NAME_MAX), T_NAME_MAX);
	T_EQ(read(in, name, T_NAME_MAX), T_NAME_MAX);
	other = t_insert(&n, name);
	for (int i = 0; i < MANY; i++) {
		struct fid_ep *ep;

		T_OK(fi_endpoint(n.domain, n.info, &ep, NULL));
		T_OK(fi_ep_bind(ep, &n.av->fid, 0));
		T_OK(fi_ep_bind(ep, &n.cq->fid, FI_TRANSMIT | FI_RECV));
		T_OK(fi_enable(ep));
	}
	T_TRY(fi_tsend(n.ep, &word, 1, NULL, other, 1, &op));
	T_WAIT(&op);
	T_EQ(read(in, &word, 1), 1);
	raise(SIGKILL);
}

static void oldest_of_many(void)
{
	const struct t_opts o = {.caps = FI_DIRECTED_RECV};
	unsigned char name[T_NAME_MAX];
	int there[2], back[2];
	struct t_op op = {0};
	struct t_node n;
	fi_addr_t other;
	pid_t child;
	char word;

	if (!t_beeline)
		t_skip("what ours promises");
	if (!may_open(4 * MANY))
		t_skip("%d descriptors are more than this user may have", 4 * MANY);
	T_OK(pipe(there));
	T_OK(pipe(back));
	child = fork();
	if (!child)
		live_and_die(there[0], back[1]);
	t_open(&n, &o);
	T_EQ(read(back[0], name, T_NAME_MAX), T_NAME_MAX);
	T_EQ(write(there[1], n.name, T_NAME_MAX), T_NAME_MAX);
	other = t_insert(&n, name);
	t_trecv(&n, other, &word, 1, 1, 0, &op);
	T_WAIT(&op);
	op = (struct t_op){0};
	t_trecv(&n, other, &word, 1, 2, 0, &op);
	T_EQ(write(there[1], &word, 1), 1);
	T_EQ(waitpid(child, NULL, 0), child);
	T_WAIT_ERR(&op, FI_ECONNRESET);
	t_close(&n);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
}

static const struct t_case cases[] = {
	{"life_forks", 2, forks, "children that exit, exec, close, read", 0},
	{"life_fork_opens", 2, fork_opens, "children that open endpoints of their own", 0},
	{"life_threads_end", 2, threads_end, "an endpoint outlives the thread that made it", 0},
	{"life_early_address", 2, early_address, "an address used before fi_enable", 0},
	{"life_first_operation", 2, first_operation,
	 "the first send or write says -FI_EAGAIN, which programs take for a failure", 0},
	{"life_unmatched_at_the_end", 2, unmatched_at_the_end, "MPI_Finalize without a receive", 0},
	{"life_exit_open", 2, exit_open, "exit() without fi_close", 0},
	{"life_bind_refused", 1, bind_refused, "no descriptors left for a queue's endpoint", 0},
	{"life_oldest_of_many", 1, oldest_of_many,
	 "the kernel doesn't look after all endpoints of a process", 60},
	{"life_unload", 1, unload, "dlclose of a libfabric that stays", 0},
};

const struct t_group group_life = T_GROUP("life", cases);
