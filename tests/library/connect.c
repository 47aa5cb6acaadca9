/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * connect.c: peers that can't be connected yet, because their process is stopped: no
 * call that starts something waits for them, and what was started meanwhile arrives
 * once and in order, whichever thread pushes it.
 *
 *	rank 0: ep, one more ──────► rank 1: ep and others, stopped, then continued
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common.h"

/* Rank 1 stops; the others return when it has. Returns its number, to be continued. */
static pid_t stop_rank_1(void)
{
	pid_t mine = getpid(), all[T_PROC_MAX];
	char path[32], state = 0;

	t_allgather(&mine, sizeof mine, all, NULL);
	if (t_rank == 1) {
		raise(SIGSTOP);
		return mine;
	}
	t_at("waiting for rank 1 to be stopped");
	snprintf(path, sizeof path, "/proc/%d/stat", all[1]);
	while (state != 'T') {
		FILE *f = fopen(path, "r");

		T_CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1, "can't read %s", path);
		fclose(f);
	}
	return all[1];
}

/* How often this thread has given its core away to wait for something. */
static long waits(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/* A lock that the library's own thread holds may cost a few, a wait costs hundreds. */
#define FEW 20

static void run_no_waiting(void)
{
	enum { LARGE = 1 << 20 };
	unsigned char *in = bytes_new(LARGE), *out = bytes_new(LARGE), c = 'c', d = 'd';
	struct beeline_request *req[4];
	long before;
	pid_t pid;

	enter_world(0);
	bytes_fill(out, LARGE, 3);
	pid = stop_rank_1();
	if (t_rank == 0) {
		before = waits();
		L_OK(beeline_irecv(ep, in, LARGE, beeline_from(1, 1, 0), &req[0]));
		T_CHECK(waits() - before < FEW, "irecv waited %ld times", waits() - before);
		before = waits();
		L_OK(beeline_isend(ep, &c, 1, 1, 2, 0, &req[1]));
		T_CHECK(waits() - before < FEW, "isend waited %ld times", waits() - before);
		before = waits();
		L_OK(beeline_issend(ep, &d, 1, 1, 3, 0, &req[2]));
		L_OK(beeline_isend(ep, out, LARGE, 1, 4, 0, &req[3]));
		T_CHECK(waits() - before < FEW, "others waited %ld times", waits() - before);
		kill(pid, SIGCONT);
		L_OK(beeline_waitall(4, req, NULL));
		bytes_check("from rank 1", in, LARGE, 3);
	} else {
		L_OK(beeline_isend(ep, out, LARGE, 0, 1, 0, &req[0]));
		L_OK(beeline_recv(ep, &d, 1, beeline_from_any_tag(0, 0), NULL));
		T_EQ(d, 'c');
		L_OK(beeline_recv(ep, &d, 1, beeline_from_any_tag(0, 0), NULL));
		T_EQ(d, 'd');
		L_OK(beeline_recv(ep, in, LARGE, beeline_from_any_tag(0, 0), NULL));
		bytes_check("from rank 0", in, LARGE, 3);
		L_OK(beeline_wait(&req[0], NULL));
	}
	leave_world();
	free(in);
	free(out);
}

/* --- threads that push the same sends ------------------------------------------ */

enum { PEERS = 8, EACH = 40, PUSHERS = 3 };

static _Atomic bool pushed;

static void *push(void *arg)
{
	while (!pushed)
		beeline_progress(ep);
	return arg;
}

/* A neighbour that comes is a reason to ask again for those that don't. */
static void come(struct beeline_endpoint **other)
{
	struct beeline_address address;
	struct beeline_request *req;
	char c = 'n';
	int peer;

	L_OK(beeline_open(other, 0));
	beeline_get_address(ep, &address);
	L_OK(beeline_add_peer(*other, &address, &peer));
	L_OK(beeline_isend(*other, &c, 1, peer, 7, 0, &req));
	L_OK(beeline_wait(&req, NULL));
	L_OK(beeline_recv(ep, &c, 1, beeline_from(BEELINE_ANY_SOURCE, 7, 0), NULL));
}

static void send_to_all(pid_t stopped, const struct beeline_address *address)
{
	static struct beeline_request *req[PEERS * EACH];
	static uint32_t value[EACH];
	struct beeline_endpoint *other;
	pthread_t thread[PUSHERS];
	int peer[PEERS];

	for (int p = 0; p < PEERS; p++)
		L_OK(beeline_add_peer(ep, &address[p], &peer[p]));
	for (uint32_t i = 0; i < EACH; i++) {
		value[i] = i;
		for (int p = 0; p < PEERS; p++)
			L_OK(beeline_isend(ep, &value[i], sizeof value[i], peer[p], i, 0,
					   &req[p * EACH + (int)i]));
	}
	for (int i = 0; i < PUSHERS; i++)
		T_CHECK(!pthread_create(&thread[i], NULL, push, NULL), "no thread");
	t_at("a neighbour comes");
	come(&other);
	kill(stopped, SIGCONT);
	t_at("waiting for all sends");
	L_OK(beeline_waitall(PEERS * EACH, req, NULL));
	pushed = true;
	for (int i = 0; i < PUSHERS; i++)
		pthread_join(thread[i], NULL);
	beeline_close(other);
}

static void run_pushers(void)
{
	struct beeline_address address[PEERS], all[2 * PEERS];
	struct beeline_endpoint *own[PEERS];
	pid_t pid;

	enter_world(BEELINE_THREAD_SAFE);
	for (int p = 0; p < PEERS; p++) {
		L_OK(beeline_open(&own[p], 0));
		beeline_get_address(own[p], &address[p]);
	}
	t_allgather(address, sizeof address, all, NULL);
	pid = stop_rank_1();
	if (t_rank == 0)
		send_to_all(pid, &all[PEERS]);
	for (int p = 0; t_rank == 1 && p < PEERS; p++)
		for (uint32_t i = 0; i < EACH; i++) {
			uint32_t got;

			t_at("message %u for endpoint %d", i, p);
			L_OK(beeline_recv(own[p], &got, sizeof got,
					  beeline_from_any_tag(BEELINE_ANY_SOURCE, 0), NULL));
			T_EQ(got, i);
		}
	barrier();
	for (int p = 0; p < PEERS; p++) {
		L_IS(beeline_iprobe(own[p], beeline_from_any_tag(BEELINE_ANY_SOURCE, 0), NULL), 0);
		beeline_close(own[p]);
	}
	leave_world();
}

static const struct t_case cases[] = {
	{"stopped_peer", 2, run_no_waiting, "nothing that starts an operation waits", 0},
	{"pushed_by_many", 2, run_pushers, "each message once, whoever pushes it", 60},
};
const struct t_group group_connect = T_GROUP("connect", cases);
