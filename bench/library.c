/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * library.c: ping-pong over libbeeline.so alone, with neither MPI nor libfabric
 * above it. Two pinned processes, beeline_send() and beeline_recv().
 *
 *	library [-c CPU,CPU] [-s SIZES] [-m MILLISECONDS] [-r SAMPLES]
 *
 * Prints "sample library SIZE NS": half the time of a ping and its pong.
 */
#include <beeline.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "apart.h"

#define TAG	5
#define CONTEXT 0

struct library {
	struct beeline_endpoint *ep;
	unsigned char *out, *in;
	int peer;
	bool parent;
	struct apart apart;
};

static void check(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "library: %s: %s\n", what, beeline_strerror(result));
	exit(1);
}

static void meet(struct library *library, int socket)
{
	struct beeline_address mine, theirs;

	beeline_get_address(library->ep, &mine);
	bench_swap(socket, &mine, &theirs, sizeof(mine));
	check(beeline_add_peer(library->ep, &theirs, &library->peer), "beeline_add_peer");
}

static void send_one(struct library *library, size_t size)
{
	check(beeline_send(library->ep, library->out, size, library->peer, TAG, CONTEXT),
	      "beeline_send");
}

static void receive_one(struct library *library, size_t size)
{
	struct beeline_match match = beeline_from(library->peer, TAG, CONTEXT);

	check(beeline_recv(library->ep, library->in, size, match, NULL), "beeline_recv");
}

static void rounds(struct library *library, size_t size, long count)
{
	for (long i = 0; i < count; i++) {
		if (library->parent) {
			send_one(library, size);
			receive_one(library, size);
		} else {
			receive_one(library, size);
			send_one(library, size);
		}
	}
}

static void measure(struct library *library, int socket, size_t size, double ms, int samples)
{
	double ns[BENCH_SAMPLES_MAX], apart[BENCH_SAMPLES_MAX], start;
	uint32_t seed = (uint32_t)size;
	long count, theirs, probe = size <= 16384 ? 200 : 2;

	bench_fill(library->out, size, seed + library->parent);
	memset(library->in, 0xee, size);
	rounds(library, size, 1);
	if (bench_check(library->in, size, seed + !library->parent) != size) {
		printf("corrupt library %zu\n", size);
		exit(3);
	}
	start = bench_now();
	rounds(library, size, probe);
	count = (long)(ms * 1e6 / samples * (double)probe / (bench_now() - start));
	if (count < 2)
		count = 2;
	bench_swap(socket, &count, &theirs, sizeof(count));
	if (!library->parent)
		count = theirs;
	for (int i = 0; i < samples; i++) {
		apart[i] = apart_ns(&library->apart);
		start = bench_now();
		rounds(library, size, count);
		ns[i] = (bench_now() - start) / (double)count / 2;
	}
	if (library->parent)
		apart_sample("library", size, ns, apart, samples);
}

int main(int argc, char **argv)
{
	struct library library = {0};
	struct bench_sizes sizes;
	int cpu[2] = {0, 1}, samples = 11, sockets[2], option, status = 0;
	double ms = 20;

	bench_parse_sizes("0,8,64,128,1024", &sizes);
	while ((option = getopt(argc, argv, "c:s:m:r:")) != -1) {
		if (option == 'c' && sscanf(optarg, "%d,%d", &cpu[0], &cpu[1]) == 2) {
			continue;
		} else if (option == 's' && bench_parse_sizes(optarg, &sizes)) {
			continue;
		} else if (option == 'm' && atof(optarg) > 0) {
			ms = atof(optarg);
		} else if (option == 'r' && atoi(optarg) > 0 && atoi(optarg) <= BENCH_SAMPLES_MAX) {
			samples = atoi(optarg);
		} else {
			fprintf(stderr, "usage: library [-c CPU,CPU] [-s SIZES] [-m MILLISECONDS] "
					"[-r SAMPLES]\n");
			return 2;
		}
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0)
		check(-errno, "socketpair");
	library.apart.line = apart_map();
	pid_t child = fork();
	if (child < 0)
		check(-errno, "fork");
	library.parent = library.apart.first = child != 0;
	if (!library.parent)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(sockets[library.parent]);
	int socket = sockets[!library.parent];
	if (!bench_pin(cpu[!library.parent]))
		check(-errno, "sched_setaffinity");
	library.out = bench_alloc(bench_largest(&sizes), 1);
	library.in = bench_alloc(bench_largest(&sizes), 2);
	check(beeline_open(&library.ep, 0), "beeline_open");
	meet(&library, socket);
	for (int i = 0; i < sizes.count; i++)
		measure(&library, socket, sizes.value[i], ms, samples);
	char bye = 0, theirs;
	bench_swap(socket, &bye, &theirs, 1); /* nobody closes while the other still receives */
	beeline_close(library.ep);
	if (!library.parent)
		return 0;
	if (waitpid(child, &status, 0) < 0 || status)
		return 1;
	printf("done\n");
	return 0;
}
