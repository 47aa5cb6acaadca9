/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pingpong.c: two processes that send a message to and fro, through libbeeline
 * alone: what an MPI library would do, in the fewest lines. Checks every byte
 * and prints the latency. Build and run:
 *
 *	cc -O2 pingpong.c -o pingpong $(pkg-config --cflags --libs beeline) \
 *		-Wl,-rpath,$(pkg-config --variable=libdir beeline)
 *	./pingpong
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <beeline.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 1, CONTEXT = 0 };

static const size_t sizes[] = {0, 8, 64, 1024, 8192, 65536, 1 << 20, 4 << 20};
#define NSIZES (sizeof sizes / sizeof sizes[0])

static void must(int err, const char *what)
{
	if (err) {
		fprintf(stderr, "%s: %s\n", what, beeline_strerror(err));
		exit(1);
	}
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* Stay on one processor, a different one in each process if there are two: an
 * endpoint's memory is placed beside the processor that opens it. */
static void bind_process(int nth)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return;
	nth %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && nth-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof one, &one);
			return;
		}
}

/*
 * An endpoint, and the other process as its peer. Addresses are plain bytes and
 * may travel by any means; an MPI library has PMI, we have a pair of sockets.
 */
static struct beeline_endpoint *meet(int fd, int *peer)
{
	struct beeline_address mine, theirs;
	struct beeline_endpoint *ep;

	must(beeline_open(&ep, 0), "beeline_open");
	beeline_get_address(ep, &mine);
	if (write(fd, &mine, sizeof mine) != sizeof mine ||
	    read(fd, &theirs, sizeof theirs) != sizeof theirs) {
		fprintf(stderr, "the other process is gone\n");
		exit(1);
	}
	must(beeline_add_peer(ep, &theirs, peer), "beeline_add_peer");
	return ep;
}

/* One way and back. The receive is posted first, so that the answer goes
 * straight into its buffer. */
static void ping(struct beeline_endpoint *ep, int peer, void *out, void *in, size_t size)
{
	struct beeline_request *answer;

	must(beeline_irecv(ep, in, size, beeline_from(peer, TAG, CONTEXT), &answer),
	     "beeline_irecv");
	must(beeline_send(ep, out, size, peer, TAG, CONTEXT), "beeline_send");
	must(beeline_wait(&answer, NULL), "beeline_wait");
}

static void pong(struct beeline_endpoint *ep, int peer, void *buf, size_t size)
{
	must(beeline_recv(ep, buf, size, beeline_from(peer, TAG, CONTEXT), NULL), "beeline_recv");
	must(beeline_send(ep, buf, size, peer, TAG, CONTEXT), "beeline_send");
}

static int rounds_of(size_t size)
{
	return size <= 1024 ? 20000 : size <= 65536 ? 2000 : 100;
}

static void measure(struct beeline_endpoint *ep, int peer, char *out, char *in, size_t size)
{
	int rounds = rounds_of(size);

	for (size_t i = 0; i < size; i++)
		out[i] = (char)(i * 31 + size);
	memset(in, 0, size);
	ping(ep, peer, out, in, size);
	if (memcmp(in, out, size)) {
		fprintf(stderr, "%zu bytes came back changed\n", size);
		exit(1);
	}

	double start = now_us();

	for (int i = 0; i < rounds; i++)
		ping(ep, peer, out, in, size);

	double us = (now_us() - start) / rounds / 2;

	printf("%10zu %14.3f %14.0f\n", size, us, (double)size / us);
}

int main(void)
{
	struct beeline_endpoint *ep;
	char *out, *in;
	int pair[2], peer, status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
		perror("socketpair");
		return 1;
	}
	child = fork(); /* before any endpoint is opened: they don't survive it */
	if (child < 0) {
		perror("fork");
		return 1;
	}
	bind_process(child == 0);
	ep = meet(pair[child == 0], &peer);
	out = malloc(sizes[NSIZES - 1]);
	in = malloc(sizes[NSIZES - 1]);
	if (!out || !in) {
		perror("malloc");
		return 1;
	}
	if (child)
		printf("%10s %14s %14s\n", "bytes", "one way, us", "MB/s");
	for (size_t i = 0; i < NSIZES; i++) {
		if (child)
			measure(ep, peer, out, in, sizes[i]);
		else
			for (int n = 0; n < rounds_of(sizes[i]) + 1; n++)
				pong(ep, peer, in, sizes[i]);
	}
	beeline_close(ep);
	free(out);
	free(in);
	if (!child)
		return 0;
	if (waitpid(child, &status, 0) != child || status) {
		fprintf(stderr, "the other process failed\n");
		return 1;
	}
	printf("all bytes were checked\n");
	return 0;
}
