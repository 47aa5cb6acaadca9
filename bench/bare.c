/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * bare.c: ping-pong over libfabric alone, with no MPI above it: what the provider
 * itself costs. Two pinned processes, tagged messages, one completion queue each.
 *
 *	bare [-p PROVIDER] [-T domain|safe] [-c CPU,CPU] [-s SIZES]
 *	     [-m MILLISECONDS] [-r SAMPLES] [-w]
 *
 * Prints "sample bare-domain SIZE NS" or "sample bare-safe SIZE NS": half the time
 * of a ping and its pong under FI_THREAD_DOMAIN or FI_THREAD_SAFE. With -w "sample
 * bare-stream SIZE NS": the time of each message one way, 64 in flight.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "apart.h"

#define NAME_MAX_BYTES 512
#define TAG	       5
#define WINDOW	       64

struct bare {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;
	unsigned char *out, *in;
	struct fi_context contexts[2][WINDOW]; /* of sends, of receives */
	size_t inject;			       /* longest message that needs no completion */
	bool parent;
	struct apart apart;
};

struct options {
	const char *provider;
	enum fi_threading threading;
	struct bench_sizes sizes;
	double ms;
	int samples;
	int cpu[2];
	bool stream;
};

static void check(long result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "bare: %s: %s\n", what, fi_strerror((int)-result));
	exit(1);
}

static void open_endpoint(struct bare *bare, const struct options *options)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 2};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};

	if (!hints)
		check(-FI_ENOMEM, "fi_allocinfo");
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = options->threading;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->fabric_attr->prov_name = strdup(options->provider);
	check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &bare->info), "fi_getinfo");
	fi_freeinfo(hints);
	bare->inject = bare->info->tx_attr->inject_size;
	check(fi_fabric(bare->info->fabric_attr, &bare->fabric, NULL), "fi_fabric");
	check(fi_domain(bare->fabric, bare->info, &bare->domain, NULL), "fi_domain");
	check(fi_endpoint(bare->domain, bare->info, &bare->ep, NULL), "fi_endpoint");
	check(fi_av_open(bare->domain, &av_attr, &bare->av, NULL), "fi_av_open");
	check(fi_cq_open(bare->domain, &cq_attr, &bare->cq, NULL), "fi_cq_open");
	check(fi_ep_bind(bare->ep, &bare->av->fid, 0), "fi_ep_bind av");
	check(fi_ep_bind(bare->ep, &bare->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind cq");
	check(fi_enable(bare->ep), "fi_enable");
}

static void close_endpoint(struct bare *bare)
{
	fi_close(&bare->ep->fid);
	fi_close(&bare->cq->fid);
	fi_close(&bare->av->fid);
	fi_close(&bare->domain->fid);
	fi_close(&bare->fabric->fid);
	fi_freeinfo(bare->info);
}

static void meet(struct bare *bare, int socket)
{
	char mine[NAME_MAX_BYTES] = "", theirs[NAME_MAX_BYTES];
	size_t length = sizeof(mine);

	check(fi_getname(&bare->ep->fid, mine, &length), "fi_getname");
	bench_swap(socket, mine, theirs, sizeof(mine));
	if (fi_av_insert(bare->av, theirs, 1, &bare->peer, 0, NULL) != 1)
		check(-FI_EADDRNOTAVAIL, "fi_av_insert");
}

/* Wait for `count` completions, of whatever kind. */
static inline void complete(struct bare *bare, int count)
{
	struct fi_cq_tagged_entry entries[WINDOW];

	while (count > 0) {
		size_t most = count > WINDOW ? WINDOW : (size_t)count;
		ssize_t n = fi_cq_read(bare->cq, entries, most);

		if (n > 0)
			count -= (int)n;
		else if (n != -FI_EAGAIN)
			check(n, "fi_cq_read");
	}
}

static inline void send_one(struct bare *bare, size_t size, int i)
{
	ssize_t n;

	do {
		n = size <= bare->inject ? fi_tinject(bare->ep, bare->out, size, bare->peer, TAG)
					 : fi_tsend(bare->ep, bare->out, size, NULL, bare->peer,
						    TAG, &bare->contexts[0][i]);
		if (n == -FI_EAGAIN)
			(void)fi_cq_read(bare->cq, NULL, 0);
	} while (n == -FI_EAGAIN);
	check(n, "fi_tsend");
}

static inline void post_one(struct bare *bare, size_t size, int i)
{
	ssize_t n;

	while ((n = fi_trecv(bare->ep, bare->in, size, NULL, bare->peer, TAG, 0,
			     &bare->contexts[1][i])) == -FI_EAGAIN)
		(void)fi_cq_read(bare->cq, NULL, 0);
	check(n, "fi_trecv");
}

static void rounds(struct bare *bare, size_t size, long count)
{
	int sent = size > bare->inject; /* completions that a send brings */

	for (long i = 0; i < count; i++) {
		if (bare->parent) {
			send_one(bare, size, 0);
			post_one(bare, size, 0);
			complete(bare, 1 + sent);
		} else {
			post_one(bare, size, 0);
			complete(bare, 1);
			send_one(bare, size, 0);
			complete(bare, sent);
		}
	}
}

/* A window of messages, and an empty one back when all of them have come. */
static void windows(struct bare *bare, size_t size, long count)
{
	int sent = size > bare->inject;

	for (long i = 0; i < count; i++) {
		if (bare->parent) {
			post_one(bare, 0, 0);
			for (int k = 0; k < WINDOW; k++)
				send_one(bare, size, k);
			complete(bare, 1 + WINDOW * sent);
		} else {
			for (int k = 0; k < WINDOW; k++)
				post_one(bare, size, k);
			complete(bare, WINDOW);
			send_one(bare, 0, 0);
		}
	}
	/* The sends of the last window end while the receiver is inside the library. */
	if (bare->parent) {
		send_one(bare, 0, 0);
	} else {
		post_one(bare, 0, 0);
		complete(bare, 1);
	}
}

static void measure(struct bare *bare, const struct options *options, int socket, size_t size)
{
	double ns[BENCH_SAMPLES_MAX], apart[BENCH_SAMPLES_MAX], each;
	uint32_t seed = (uint32_t)size;
	long count, probe = (size <= 16384 ? 200 : 2) / (options->stream ? WINDOW : 1) + 1;

	bench_fill(bare->out, size, seed + bare->parent);
	memset(bare->in, 0xee, size);
	rounds(bare, size, 1);
	if (bench_check(bare->in, size, seed + !bare->parent) != size) {
		printf("corrupt bare %zu\n", size);
		exit(3);
	}
	void (*run)(struct bare *, size_t, long) = options->stream ? windows : rounds;
	double start = bench_now();
	run(bare, size, probe);
	each = (bench_now() - start) / (double)probe;
	count = (long)(options->ms * 1e6 / options->samples / each);
	if (count < 2)
		count = 2;
	long theirs;
	bench_swap(socket, &count, &theirs, sizeof(count));
	if (!bare->parent)
		count = theirs;
	for (int i = 0; i < options->samples; i++) {
		apart[i] = apart_ns(&bare->apart);
		start = bench_now();
		run(bare, size, count);
		ns[i] = (bench_now() - start) / (double)count / (options->stream ? WINDOW : 2);
	}
	if (bare->parent)
		apart_sample(options->stream			    ? "bare-stream"
			     : options->threading == FI_THREAD_SAFE ? "bare-safe"
								    : "bare-domain",
			     size, ns, apart, options->samples);
}

static bool parse(int argc, char **argv, struct options *options)
{
	int option;

	bench_parse_sizes("0,8,64,128,1024", &options->sizes);
	while ((option = getopt(argc, argv, "p:T:c:s:m:r:w")) != -1) {
		bool good = true;

		switch (option) {
		case 'p':
			options->provider = optarg;
			break;
		case 'T':
			good = !strcmp(optarg, "safe") || !strcmp(optarg, "domain");
			options->threading = *optarg == 's' ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
			break;
		case 'c':
			good = sscanf(optarg, "%d,%d", &options->cpu[0], &options->cpu[1]) == 2;
			break;
		case 's':
			good = bench_parse_sizes(optarg, &options->sizes);
			break;
		case 'm':
			good = (options->ms = atof(optarg)) > 0;
			break;
		case 'r':
			options->samples = atoi(optarg);
			good = options->samples > 0 && options->samples <= BENCH_SAMPLES_MAX;
			break;
		case 'w':
			options->stream = true;
			break;
		default:
			good = false;
		}
		if (!good)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct options options = {
		.provider = "beeline",
		.threading = FI_THREAD_DOMAIN,
		.ms = 20,
		.samples = 11,
		.cpu = {0, 1},
	};
	struct bare bare = {0};
	int sockets[2], status = 0;

	if (!parse(argc, argv, &options)) {
		fprintf(stderr, "usage: bare [-p PROVIDER] [-T domain|safe] [-c CPU,CPU] "
				"[-s SIZES] [-m MILLISECONDS] [-r SAMPLES] [-w]\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0)
		check(-errno, "socketpair");
	bare.apart.line = apart_map();
	pid_t child = fork();
	if (child < 0)
		check(-errno, "fork");
	bare.parent = bare.apart.first = child != 0;
	if (!bare.parent)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(sockets[bare.parent]);
	int socket = sockets[!bare.parent];
	if (!bench_pin(options.cpu[!bare.parent]))
		check(-errno, "sched_setaffinity");
	bare.out = bench_alloc(bench_largest(&options.sizes), 1);
	bare.in = bench_alloc(bench_largest(&options.sizes), 2);
	open_endpoint(&bare, &options);
	meet(&bare, socket);
	for (int i = 0; i < options.sizes.count; i++)
		measure(&bare, &options, socket, options.sizes.value[i]);
	char bye = 0, theirs;
	bench_swap(socket, &bye, &theirs, 1); /* nobody closes while the other still receives */
	close_endpoint(&bare);
	if (!bare.parent)
		return 0;
	if (waitpid(child, &status, 0) < 0 || status)
		return 1;
	printf("done\n");
	return 0;
}
