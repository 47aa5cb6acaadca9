/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * death.c: peers that die, close or were never here. The process that dies is a
 * child of the one that watches, made before that one opens its endpoint; both
 * tell each other their addresses over a pair of sockets.
 */
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void meet(int fd)
{
	struct beeline_address mine, theirs;
	int peer;

	L_OK(beeline_open(&ep, 0));
	beeline_get_address(ep, &mine);
	T_CHECK(write(fd, &mine, sizeof mine) == sizeof mine, "the other is gone");
	T_CHECK(read(fd, &theirs, sizeof theirs) == sizeof theirs, "the other is gone");
	L_OK(beeline_add_peer(ep, &theirs, &peer));
	T_EQ(peer, 0);
}

/* Answers one message, then is busy elsewhere until it is killed. */
static _Noreturn void victim(int fd)
{
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	meet(fd);
	L_OK(beeline_recv(ep, &c, 1, beeline_from(0, 1, 0), NULL));
	L_OK(beeline_send(ep, &c, 1, 0, 2, 0));
	for (;;)
		pause();
}

static pid_t start_victim(void)
{
	char c = 'v';
	int pair[2];
	pid_t pid;

	T_CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "no sockets");
	pid = fork();
	T_CHECK(pid >= 0, "no process");
	if (!pid) {
		close(pair[0]);
		victim(pair[1]);
	}
	close(pair[1]);
	meet(pair[0]);
	close(pair[0]);
	L_OK(beeline_send(ep, &c, 1, 0, 1, 0));
	L_OK(beeline_recv(ep, &c, 1, beeline_from(0, 2, 0), NULL));
	return pid;
}

static void kill_victim(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void run_killed(void)
{
	struct beeline_request *posted, *any, *large, *synchronous, *req;
	unsigned char *big = bytes_new(1 << 20), c[4];
	struct beeline_status s;
	pid_t pid = start_victim();
	double died;
	int err;

	L_OK(beeline_irecv(ep, &c[0], 1, beeline_from(0, 5, 0), &posted));
	L_OK(beeline_irecv(ep, &c[1], 1, beeline_from(BEELINE_ANY_SOURCE, 5, 0), &any));
	L_OK(beeline_isend(ep, big, 1 << 20, 0, 6, 0, &large));
	L_OK(beeline_issend(ep, &c[2], 1, 0, 6, 0, &synchronous));
	for (int i = 0; i < 100; i++)
		L_OK(beeline_progress(ep));
	L_IS(beeline_test(&posted, NULL), 0);
	kill_victim(pid);
	died = now();
	t_at("waiting for the errors");
	L_IS(beeline_wait(&posted, &s), -ECONNRESET);
	T_EQ(s.length, 0);
	L_IS(beeline_wait(&large, NULL), -ECONNRESET);
	L_IS(beeline_wait(&synchronous, NULL), -ECONNRESET);
	T_CHECK(now() - died < 2, "it took %.1f s to hear of it", now() - died);

	t_at("what is started afterwards");
	err = beeline_isend(ep, c, 1, 0, 7, 0, &req);
	L_IS(err ? err : beeline_wait(&req, NULL), -ECONNRESET);
	err = beeline_isend(ep, big, 1 << 20, 0, 7, 0, &req);
	L_IS(err ? err : beeline_wait(&req, NULL), -ECONNRESET);
	L_IS(beeline_recv(ep, c, 1, beeline_from(0, 7, 0), NULL), -ECONNRESET);
	L_IS(beeline_send(ep, c, 1, 0, 7, 0), -ECONNRESET);
	L_IS(beeline_iprobe(ep, beeline_from(0, 7, 0), NULL), -ECONNRESET);
	/* A receive from anybody waits on. */
	L_IS(beeline_test(&any, NULL), 0);
	L_OK(beeline_cancel(any));
	L_IS(beeline_wait(&any, NULL), -ECANCELED);
	beeline_close(ep);
	free(big);
}

/* Sends that wait for room when their receiver dies. */
static void run_killed_queue(void)
{
	enum { COUNT = 2000 };
	static struct beeline_request *req[COUNT];
	unsigned char c = 0;
	int failed = 0;
	pid_t pid = start_victim();

	for (int i = 0; i < COUNT; i++)
		L_OK(beeline_isend(ep, &c, 1, 0, 3, 0, &req[i]));
	kill_victim(pid);
	t_at("waiting for the errors");
	for (int i = 0; i < COUNT; i++) {
		int err = beeline_wait(&req[i], NULL);

		T_CHECK(!err || err == -ECONNRESET, "send %d: %s", i, beeline_strerror(err));
		T_CHECK(err || !failed, "send %d succeeded after one that failed", i);
		failed += !!err;
	}
	T_CHECK(failed > COUNT / 2, "only %d failed", failed);
	beeline_close(ep);
}

/* Who only probes hears of it too. */
static void run_killed_probe(void)
{
	struct beeline_message *message;
	struct beeline_match match = beeline_from(0, 5, 0);
	pid_t pid = start_victim();
	int err;

	L_IS(beeline_iprobe(ep, match, NULL), 0);
	kill_victim(pid);
	t_at("probing");
	while (!(err = beeline_iprobe(ep, match, NULL)))
		;
	L_IS(err, -ECONNRESET);
	L_IS(beeline_improbe(ep, match, &message, NULL), -ECONNRESET);
	match.source = BEELINE_ANY_SOURCE;
	L_IS(beeline_iprobe(ep, match, NULL), 0);
	beeline_close(ep);
}

/* What was sent completely arrives although the sender has closed. */
static void run_closed(void)
{
	struct beeline_request *req;
	unsigned char c = 0;
	int err;

	enter_world(0);
	if (t_rank) {
		for (unsigned char i = 0; i < 20; i++)
			L_OK(beeline_send(ep, &i, 1, 0, i, 0));
		beeline_close(ep);
		barrier_outside();
		barrier_outside();
		return;
	}
	barrier_outside();
	for (unsigned i = 0; i < 20; i++) {
		L_OK(beeline_recv(ep, &c, 1, beeline_from(1, i, 0), NULL));
		T_EQ(c, i);
	}
	t_at("sending to a closed endpoint");
	do {
		err = beeline_isend(ep, &c, 1, 1, 0, 0, &req);
		if (!err)
			err = beeline_wait(&req, NULL);
	} while (!err);
	L_IS(err, -ENOTCONN);
	L_IS(beeline_recv(ep, &c, 1, beeline_from(1, 0, 0), NULL), -ENOTCONN);
	barrier_outside();
	beeline_close(ep);
}

/* Was here, is closed before anybody called. */
static void run_never_there(void)
{
	struct beeline_address address;
	struct beeline_endpoint *other;
	struct beeline_request *req;
	char c = 0;
	int peer, err;

	L_OK(beeline_open(&other, 0));
	beeline_get_address(other, &address);
	beeline_close(other);
	L_OK(beeline_open(&ep, 0));
	L_OK(beeline_add_peer(ep, &address, &peer));
	t_at("probing");
	while (!(err = beeline_iprobe(ep, beeline_from(peer, 0, 0), NULL)))
		;
	L_IS(err, -ECONNREFUSED);
	err = beeline_isend(ep, &c, 1, peer, 0, 0, &req);
	L_IS(err ? err : beeline_wait(&req, NULL), -ECONNREFUSED);
	beeline_close(ep);
}

static void run_other_host(void)
{
	struct beeline_address address;
	struct beeline_request *req;
	char c = 0;
	int peer, err;

	L_OK(beeline_open(&ep, 0));
	beeline_get_address(ep, &address);
	for (int i = 8; i < 32; i++) /* its random name and its host */
		address.bytes[i] ^= 0xff;
	L_OK(beeline_add_peer(ep, &address, &peer));
	L_IS(beeline_iprobe(ep, beeline_from(peer, 0, 0), NULL), -EHOSTUNREACH);
	err = beeline_isend(ep, &c, 1, peer, 0, 0, &req);
	L_IS(err ? err : beeline_wait(&req, NULL), -EHOSTUNREACH);
	L_IS(beeline_send(ep, &c, 1, peer, 0, 0), -EHOSTUNREACH);
	beeline_close(ep);
}

static const struct t_case cases[] = {
	{"peer_is_killed", 1, run_killed, "errors instead of a hang, in time", 0},
	{"probed_peer_is_killed", 1, run_killed_probe, "a probe says so", 0},
	{"receiver_of_queue_is_killed", 1, run_killed_queue, "queued sends fail, too", 0},
	{"peer_has_closed", 2, run_closed, "its last words arrive, then errors", 0},
	{"peer_is_not_there", 1, run_never_there, "refused", 0},
	{"peer_on_another_host", 1, run_other_host, "a clear error at first use", 0},
};
const struct t_group group_death = T_GROUP("death", cases);
