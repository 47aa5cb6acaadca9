/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* thread.c: several threads on one endpoint, and several endpoints. */
#include <pthread.h>

#include "common.h"

enum { THREADS = 4 };

static void run_threads(void *(*body)(void *))
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		T_CHECK(!pthread_create(&thread[i], NULL, body, (void *)i), "no thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* Each thread talks to its counterpart in a context of its own. */
static void *talk(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;
	static const size_t sizes[] = {8, 100, 3000, 40000};
	unsigned char *out = bytes_new(40000), *in = bytes_new(40000);

	for (uint32_t i = 0; i < 800; i++) {
		size_t len = sizes[(i + me) % 4];
		struct beeline_request *req[2];
		struct beeline_status s[2];

		bytes_fill(out, len, i + me);
		L_OK(beeline_irecv(ep, in, len, beeline_from(1 - t_rank, i, me), &req[0]));
		L_OK(beeline_isend(ep, out, len, 1 - t_rank, i, me, &req[1]));
		if (i % 3 == 0) {
			L_OK(beeline_waitall(2, req, s));
		} else if (i % 3 == 1) {
			L_OK(beeline_wait(&req[1], &s[1]));
			L_OK(beeline_wait(&req[0], &s[0]));
		} else {
			for (int n = 0; n < 2; n++) {
				struct beeline_status any;
				size_t index;

				L_OK(beeline_waitany(2, req, &index, &any));
				s[index] = any;
			}
		}
		status_check("thread", &s[0], 1 - t_rank, i, me, len);
		bytes_check("thread", in, len, i + me);
	}
	free(out);
	free(in);
	return NULL;
}

static void run_shared_endpoint(void)
{
	enter_world(BEELINE_THREAD_SAFE);
	run_threads(talk);
	leave_world();
}

/* Threads compete for the same messages; each must be received once. */
enum { TOKENS = 4000 };
static _Atomic int received[TOKENS];

static void *compete(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;

	if (t_rank) {
		for (uint32_t i = me; i < TOKENS; i += THREADS)
			L_OK(beeline_send(ep, &i, sizeof i, 0, 1, 0));
		return NULL;
	}
	for (uint32_t i = me; i < TOKENS; i += THREADS) {
		struct beeline_message *message;
		struct beeline_request *req;
		uint32_t v = UINT32_MAX;

		if (i % 2) {
			L_OK(beeline_recv(ep, &v, sizeof v, beeline_from(BEELINE_ANY_SOURCE, 1, 0),
					  NULL));
		} else if (beeline_improbe(ep, beeline_from(1, 1, 0), &message, NULL) == 1) {
			L_OK(beeline_imrecv(&v, sizeof v, &message, &req));
			L_OK(beeline_wait(&req, NULL));
		} else {
			L_OK(beeline_irecv(ep, &v, sizeof v, beeline_from(1, 1, 0), &req));
			while (!beeline_test(&req, NULL))
				beeline_progress(ep);
		}
		T_CHECK(v < TOKENS, "token %u", v);
		received[v]++;
	}
	return NULL;
}

static void run_competing(void)
{
	enter_world(BEELINE_THREAD_SAFE);
	run_threads(compete);
	for (int i = 0; t_rank == 0 && i < TOKENS; i++)
		T_EQ(received[i], 1);
	leave_world();
}

/* One endpoint per thread, without locks, all in one process. */
static struct beeline_endpoint *own[THREADS];

static void *alone(void *arg)
{
	int me = (int)(uintptr_t)arg, right = (me + 1) % THREADS,
	    left = (me + THREADS - 1) % THREADS;

	for (uint32_t i = 0; i < 1500; i++) {
		struct beeline_request *req[2];
		struct beeline_status s[2];
		uint32_t out = i * 8 + (uint32_t)me, in;

		L_OK(beeline_irecv(own[me], &in, sizeof in, beeline_from(left, i, 0), &req[0]));
		L_OK(beeline_isend(own[me], &out, sizeof out, right, i, 0, &req[1]));
		L_OK(beeline_waitall(2, req, s));
		T_EQ(in, i * 8 + (uint32_t)left);
		T_EQ(s[0].source, left);
	}
	return NULL;
}

static void open_four(void)
{
	struct beeline_address address[THREADS];
	int peer;

	for (int i = 0; i < THREADS; i++) {
		L_OK(beeline_open(&own[i], 0));
		beeline_get_address(own[i], &address[i]);
	}
	for (int i = 0; i < THREADS; i++)
		for (int j = 0; j < THREADS; j++) {
			L_OK(beeline_add_peer(own[i], &address[j], &peer));
			T_EQ(peer, j);
		}
}

static void run_own_endpoints(void)
{
	open_four();
	run_threads(alone);
	for (int i = 0; i < THREADS; i++)
		beeline_close(own[i]);
}

/* One thread, four endpoints: the calls for several requests move them all. */
static void run_mixed_requests(void)
{
	enum { LEN = 300000 };
	struct beeline_request *req[2 * THREADS];
	struct beeline_status s[2 * THREADS];
	unsigned char *in[THREADS], *out = bytes_new(LEN);

	open_four();
	bytes_fill(out, LEN, 1);
	for (int i = 0; i < THREADS; i++)
		in[i] = bytes_new(LEN);
	for (int round = 0; round < 50; round++) {
		size_t len = round % 2 ? LEN : 100;

		for (int i = 0; i < THREADS; i++) {
			L_OK(beeline_isend(own[i], out, len, (i + 1) % THREADS, 2, 2, &req[i]));
			L_OK(beeline_irecv(own[i], in[i], len,
					   beeline_from_any_tag(BEELINE_ANY_SOURCE, 2),
					   &req[THREADS + i]));
		}
		if (round % 4 < 2) {
			L_OK(beeline_waitall(2 * THREADS, req, s));
		} else {
			for (int n = 0; n < 2 * THREADS; n++) {
				struct beeline_status any;
				size_t index;

				L_OK(beeline_waitany(2 * THREADS, req, &index, &any));
				s[index] = any;
			}
		}
		for (int i = 0; i < THREADS; i++) {
			status_check("mixed", &s[THREADS + i], (i + THREADS - 1) % THREADS, 2, 2,
				     len);
			bytes_check("mixed", in[i], len, 1);
			memset(in[i], 0, len);
		}
	}
	for (int i = 0; i < THREADS; i++) {
		beeline_close(own[i]);
		free(in[i]);
	}
	free(out);
}

static const struct t_case cases[] = {
	{"threads_share_an_endpoint", 2, run_shared_endpoint, "four threads on each side", 60},
	{"threads_compete", 2, run_competing, "each message is received once", 60},
	{"threads_of_their_own", 1, run_own_endpoints, "an endpoint each needs no lock", 60},
	{"requests_of_several", 1, run_mixed_requests, "waitall moves all the endpoints", 60},
};
const struct t_group group_thread = T_GROUP("thread", cases);
