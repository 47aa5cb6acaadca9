/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * starts_test.c: how a process may begin and go on that uses endpoints: threads that open
 * and close theirs at the same time, a main thread that ends before the others, a child
 * that closes what its parent has just opened, a limit of descriptors that is lowered later.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "endpoint/wait.h"
#include "fault/traffic.h"

/* --- threads that open and close at once -------------------------------------- */

/* An endpoint of a thread's own. */
struct own {
	struct bl_domain *domain;
	struct bl_ep *ep;
	struct bl_av *av;
	struct bl_cq *cq;
};

static void own_open(struct own *o)
{
	RANK_CHECK(1, !bl_domain_open(&o->domain));
	RANK_CHECK(1, !bl_av_open(o->domain, &o->av));
	RANK_CHECK(1, !bl_cq_open(o->domain, 0, &o->cq));
	RANK_CHECK(1, !bl_ep_open(o->domain, &o->ep));
	RANK_CHECK(1, !bl_ep_bind_av(o->ep, o->av));
	RANK_CHECK(1, !bl_ep_bind_cq(o->ep, o->cq, BL_SEND | BL_RECV));
	RANK_CHECK(1, !bl_ep_enable(o->ep));
	/* Neighbours find out by it that this process has died: the thread that keeps it. */
	RANK_CHECK(1, atomic_load(&o->ep->local.seg.header->life));
}

static void own_close(struct own *o)
{
	RANK_CHECK(1, !bl_ep_close(o->ep));
	RANK_CHECK(1, !bl_cq_close(o->cq));
	RANK_CHECK(1, !bl_av_close(o->av));
	RANK_CHECK(1, !bl_domain_close(o->domain));
}

#define CHURNERS 3
#define ROUNDS	 100

static _Atomic bool enough;

static void *churn(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	struct own o;

	while (!atomic_load(&enough)) {
		own_open(&o);
		own_close(&o);
		for (uint64_t n = table_random(&seed) % 64; n--;)
			sched_yield();
	}
	return NULL;
}

/* Whoever came and went meanwhile: one that stays is served, and can be closed. */
static void say_hello(void)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	struct own o;
	uint64_t to;
	int err;

	own_open(&o);
	atomic_store(&enough, true);
	RANK_CHECK(1, !bl_av_insert(o.av, &world->addr[0], &to));
	while ((err = bl_inject(o.ep, "hello", 6, to, 1, 0, BL_TAGGED)) == -EAGAIN) {
		if (deadline_over(&late))
			rank_fail(1, "an endpoint that nobody connects");
		bl_ep_progress(o.ep);
		sched_yield();
	}
	RANK_CHECK(1, !err);
	own_close(&o);
}

static void churning_rank(int rank)
{
	pthread_t thread[CHURNERS];

	if (!rank) {
		char text[8];
		struct bl_comp comp;

		rank_open(rank, 1);
		for (unsigned got = 0; got < ROUNDS; got++) {
			struct deadline late = deadline_in(WORLD_NS);

			RANK_CHECK(rank, !bl_recv_buf(ep, text, sizeof text, BL_ADDR_ANY, 1, 0,
						      NULL, BL_TAGGED | BL_COMPLETION));
			while (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) != 1)
				if (deadline_over(&late))
					rank_fail(rank, "%u of %u came", got, ROUNDS);
		}
		rank_close(rank);
		return;
	}
	rank_await(rank, &world->here[0], 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		atomic_store(&enough, false);
		for (uintptr_t i = 0; i < CHURNERS; i++)
			RANK_CHECK(rank, !pthread_create(&thread[i], NULL, churn,
							 (void *)(round * CHURNERS + i + 1)));
		for (unsigned n = round % 16; n--;)
			sched_yield();
		say_hello();
		for (int i = 0; i < CHURNERS; i++)
			RANK_CHECK(rank, !pthread_join(thread[i], NULL));
	}
}

static void opened_at_once(void **state)
{
	world_start(2, churning_rank);
	world_end(-1);
}

/* --- a main thread that ends ------------------------------------------------------ */

struct end_row {
	struct row row;
	unsigned who; /* bit of each rank whose main thread ends */
	const char *copy;
};

static const struct end_row ends[] = {
	{{"the first's", "its number names no memory any more: the other is copied from"},
	 1,
	 "auto"},
	{{"the second's", "the same"}, 2, "auto"},
	{{"both", "nobody can be copied from"}, 3, "auto"},
	{{"both, through the ring", "nobody need be"}, 3, "ring"},
};

static const struct end_row *end_row;
static pthread_t main_thread;
static int my_rank;

static void *go_on(void *arg)
{
	struct traffic t = {.rank = my_rank,
			    .count = 2,
			    .victim = -1,
			    .least = 0,
			    .most = 600000,
			    .limit = 100};

	if (end_row->who & 1u << my_rank)
		RANK_CHECK(my_rank, !pthread_join(main_thread, NULL));
	rank_open(my_rank, 2);
	traffic_run(&t);
	rank_close(my_rank);
	_exit(0); /* what the main thread's stack led to would count as leaks */
}

static void ending_rank(int rank)
{
	pthread_t other;

	my_rank = rank;
	main_thread = pthread_self();
	RANK_CHECK(rank, !pthread_create(&other, NULL, go_on, NULL));
	if (end_row->who & 1u << rank)
		pthread_exit(NULL);
	pthread_join(other, NULL);
}

static void main_thread_ends(void **state)
{
	end_row = TABLE_ROW(struct end_row, state);
	setenv("FI_BEELINE_COPY", end_row->copy, 1);
	world_start(2, ending_rank);
	world_end(-1);
	unsetenv("FI_BEELINE_COPY");
}

/* --- a child that closes -------------------------------------------------------------- */

/* Rank 0 opens, forks before it enables, and is woken all the same. */
static void forking_rank(int rank)
{
	struct deadline late = deadline_in(WORLD_NS);
	char text[8];
	struct bl_comp comp;
	struct own o;
	uint64_t to;
	int fd, err;
	pid_t child;

	if (rank) {
		rank_open(rank, 1);		    /* where rank 0 is */
		for (uint32_t i = 1; i <= 2; i++) { /* the second once it sleeps */
			while (atomic_load(&world->mark[0]) < i)
				bl_ep_progress(ep);
			while ((err = bl_inject(ep, "hello", 6, world_index[0], 1, 0, BL_TAGGED)) ==
			       -EAGAIN)
				bl_ep_progress(ep);
			RANK_CHECK(rank, !err);
		}
		rank_close(rank);
		return;
	}
	RANK_CHECK(rank, !bl_domain_open(&o.domain));
	RANK_CHECK(rank, !bl_av_open(o.domain, &o.av));
	RANK_CHECK(rank, !bl_cq_open(o.domain, 0, &o.cq));
	RANK_CHECK(rank, !bl_ep_open(o.domain, &o.ep));
	RANK_CHECK(rank, !bl_ep_bind_av(o.ep, o.av));
	RANK_CHECK(rank, !bl_ep_bind_cq(o.ep, o.cq, BL_SEND | BL_RECV));
	fd = bl_wait_fd(&o.cq->wait);
	RANK_CHECK(rank, fd >= 0);
	child = fork();
	RANK_CHECK(rank, child >= 0);
	if (!child) {
		bl_ep_close(o.ep);
		_exit(0);
	}
	RANK_CHECK(rank, waitpid(child, NULL, 0) == child);
	RANK_CHECK(rank, !bl_ep_enable(o.ep));
	bl_ep_getname(o.ep, &world->addr[rank]);
	atomic_store(&world->here[rank], 1);
	RANK_CHECK(rank, !bl_av_insert(o.av, &world->addr[rank], &to));
	for (uint32_t i = 1; i <= 2; i++) {
		struct pollfd wait = {fd, POLLIN, 0};
		ssize_t n;

		RANK_CHECK(rank, !bl_recv_buf(o.ep, text, sizeof text, BL_ADDR_ANY, 1, 0, NULL,
					      BL_TAGGED | BL_COMPLETION));
		while ((n = bl_cq_read(o.cq, &comp, 1, sizeof comp, NULL)) != 1) {
			if (bl_wait_try(&o.cq->wait))
				continue;
			atomic_store(&world->mark[0], i);
			if (poll(&wait, 1, 10000) != 1)
				rank_fail(rank, "asleep though message %u has come", i);
			RANK_CHECK(rank, !deadline_over(&late));
		}
	}
	own_close(&o);
}

static void child_closes(void **state)
{
	world_start(2, forking_rank);
	world_end(-1);
}

/* --- a limit that is lowered --------------------------------------------------------- */

#define MEASURED_NS 300000000ull

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Rank 0 may have fewer descriptors than its service thread watches, and is called. */
static void lowering_rank(int rank)
{
	struct rlimit files, one;
	uint64_t used, until;

	rank_open(rank, 2);
	if (rank) {
		rank_reach_mark(rank, 0, 1);
		RANK_CHECK(rank, !bl_inject(ep, "x", 1, world_index[0], 1, 0, BL_TAGGED));
		RANK_CHECK(rank, ep->txq.kept == 1);
		atomic_store(&world->mark[rank], 1);
		rank_reach_mark(rank, 0, 2);
		rank_close(rank);
		return;
	}
	RANK_CHECK(rank, !getrlimit(RLIMIT_NOFILE, &files));
	one = (struct rlimit){1, files.rlim_max};
	RANK_CHECK(rank, !setrlimit(RLIMIT_NOFILE, &one));
	atomic_store(&world->mark[0], 1);
	rank_await(rank, &world->mark[1], 1);
	used = cpu_ns();
	for (until = bl_clock_ns() + MEASURED_NS; bl_clock_ns() < until;)
		usleep(10000); /* asleep, so that it is the service thread's time */
	used = cpu_ns() - used;
	RANK_CHECK(rank, !setrlimit(RLIMIT_NOFILE, &files));
	if (used > MEASURED_NS / 3)
		rank_fail(rank, "%u us of CPU in %u", (unsigned)(used / 1000),
			  (unsigned)(MEASURED_NS / 1000));
	atomic_store(&world->mark[0], 2);
	rank_close(rank);
}

static void limit_lowered(void **state)
{
	world_start(2, lowering_rank);
	world_end(-1);
}

int main(void)
{
	TABLE_TEST(opened_at_once);
	TABLE_ROWS("main thread ends", main_thread_ends, ends);
	TABLE_TEST(child_closes);
	TABLE_TEST(limit_lowered);
	return table_run("starts");
}
