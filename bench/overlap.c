/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * overlap.c: an ordinary MPI program that measures how much of a transfer is hidden
 * behind a computation. It knows nothing of Beeline. One launch, two ranks, many
 * sizes; rank 0 sends, rank 1 receives.
 *
 *	overlap [-s SIZES] [-m MILLISECONDS] [-n]
 *
 * Samples, all in nanoseconds, medians of many rounds:
 *  transfer   how long the message takes when both wait for it: from the beginning of
 *             MPI_Isend, the receiver being in MPI_Wait, to the end of MPI_Wait there
 *  receiver   what a receiver loses that has posted its receive before the message
 *             is sent and computes meanwhile: its time from then to the end of
 *             MPI_Wait, less the computation
 *  sender     what a sender loses that computes after MPI_Isend while the receiver
 *             waits: MPI_Isend, computation and MPI_Wait, less the computation
 *  both       both compute after posting, the receiver having posted first: what is
 *             left in MPI_Wait when they are done, the longer of the two
 *  call       the same rounds: how long the second call, MPI_Isend, takes
 * 1 - loss / transfer is the overlap. In `both` nobody is inside the library once
 * the second call has returned: what is to be hidden must have been done in it.
 *
 * A computation is a loop on the clock, three transfers long but at least 60 us.
 * The data is checked once, unless -n says not to. The buffers belong to the
 * process; there is one thread.
 */
#include <mpi.h>

#include "bench.h"
#include "report.h"

#define TAG	   7
#define ROUNDS_MAX 400
#define AWAY_NS	   20000.0 /* after a barrier, until the receiver is surely computing */
#define LEAST_NS   60000.0

struct job {
	int rank;
	int size;
	unsigned char *buffer;
	double compute; /* ns */
};

static double compute(double ns)
{
	double start = bench_now(), now;

	do
		now = bench_now();
	while (now - start < ns);
	return now - start;
}

static void post(struct job *job, MPI_Request *request)
{
	if (job->rank == 0)
		MPI_Isend(job->buffer, job->size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, request);
	else
		MPI_Irecv(job->buffer, job->size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, request);
}

/* When rank 0 began to send, and when rank 1 had it: the clock is the node's. */
static double transfer_round(struct job *job)
{
	MPI_Request request;
	double start = 0;

	if (job->rank == 1)
		post(job, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	if (job->rank == 0) {
		compute(AWAY_NS); /* the receiver is in MPI_Wait by then */
		start = bench_now();
		post(job, &request);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return job->rank == 0 ? start : bench_now();
}

/* The others return what this rank has lost; which rank's counts, measure() knows. */
static double receiver_round(struct job *job)
{
	MPI_Request request;
	double start, worked = 0;

	if (job->rank == 1)
		post(job, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	start = bench_now();
	if (job->rank == 0) {
		compute(AWAY_NS);
		post(job, &request);
	} else {
		worked = compute(AWAY_NS + job->compute);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return bench_now() - start - worked;
}

static double sender_round(struct job *job)
{
	MPI_Request request;
	double start, worked = 0;

	if (job->rank == 1)
		post(job, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	if (job->rank == 0)
		compute(AWAY_NS); /* the receiver is in MPI_Wait by then */
	start = bench_now();
	if (job->rank == 0) {
		post(job, &request);
		worked = compute(job->compute);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return bench_now() - start - worked;
}

static double both_round(struct job *job, double *call)
{
	MPI_Request request;
	double start;

	if (job->rank == 1)
		post(job, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	if (job->rank == 0) {
		compute(AWAY_NS);
		start = bench_now();
		post(job, &request);
		*call = bench_now() - start;
		compute(job->compute);
	} else {
		compute(AWAY_NS + 2 * job->compute);
	}
	start = bench_now();
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return bench_now() - start;
}

static void check(struct job *job)
{
	uint32_t seed = (uint32_t)job->size;
	size_t at;

	if (job->rank == 0)
		bench_fill(job->buffer, (size_t)job->size, seed);
	else
		memset(job->buffer, 0xee, (size_t)job->size);
	receiver_round(job);
	if (job->rank == 0)
		return;
	at = bench_check(job->buffer, (size_t)job->size, seed);
	if (at != (size_t)job->size) {
		printf("corrupt overlap %d byte %zu\n", job->size, at);
		fflush(stdout);
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
}

/* The median over the rounds of rank `of`, on rank 0. */
static double median_of(struct job *job, double *ns, int rounds, int of)
{
	double value = bench_median(ns, rounds);

	if (of == 1 && job->rank == 1)
		MPI_Send(&value, 1, MPI_DOUBLE, 0, TAG + 1, MPI_COMM_WORLD);
	else if (of == 1)
		MPI_Recv(&value, 1, MPI_DOUBLE, 1, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return value;
}

/* The median over the rounds of a transfer, on rank 0. */
static double transfer_of(struct job *job, int rounds)
{
	double ns[ROUNDS_MAX], start[ROUNDS_MAX];

	for (int i = 0; i < rounds; i++)
		ns[i] = transfer_round(job);
	if (job->rank == 0) {
		MPI_Send(ns, rounds, MPI_DOUBLE, 1, TAG + 1, MPI_COMM_WORLD);
	} else {
		MPI_Recv(start, rounds, MPI_DOUBLE, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < rounds; i++)
			ns[i] -= start[i];
	}
	return median_of(job, ns, rounds, 1);
}

static int rounds_for(struct job *job, double each, double ns)
{
	int rounds = (int)(ns / each);

	if (rounds < 5)
		rounds = 5;
	if (rounds > ROUNDS_MAX)
		rounds = ROUNDS_MAX;
	MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
	(void)job;
	return rounds;
}

static void measure(struct job *job, double ns_per_size)
{
	double ns[ROUNDS_MAX], call[ROUNDS_MAX], value, other;
	int rounds;

	value = transfer_of(job, 5);
	rounds = rounds_for(job, AWAY_NS + value, ns_per_size / 8);
	value = transfer_of(job, rounds);
	if (job->rank == 0)
		bench_sample("transfer", (size_t)job->size, value);
	job->compute = 3 * value > LEAST_NS ? 3 * value : LEAST_NS;
	MPI_Bcast(&job->compute, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);

	rounds = rounds_for(job, AWAY_NS + 2 * job->compute, ns_per_size / 3);
	for (int i = 0; i < rounds; i++)
		ns[i] = receiver_round(job);
	value = median_of(job, ns, rounds, 1);
	if (job->rank == 0)
		bench_sample("receiver", (size_t)job->size, value);

	for (int i = 0; i < rounds; i++)
		ns[i] = sender_round(job);
	value = median_of(job, ns, rounds, 0);
	if (job->rank == 0)
		bench_sample("sender", (size_t)job->size, value);

	for (int i = 0; i < rounds; i++)
		ns[i] = both_round(job, &call[i]);
	other = median_of(job, ns, rounds, 1);
	value = bench_median(ns, rounds);
	if (job->rank == 0) {
		bench_sample("both", (size_t)job->size, value > other ? value : other);
		bench_sample("call", (size_t)job->size, bench_median(call, rounds));
	}
}

int main(int argc, char **argv)
{
	struct bench_sizes sizes;
	struct job job = {0};
	double ms = 60;
	bool verify = true;
	int ranks, option;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	bench_parse_sizes("65536,262144,1048576,4194304,16777216", &sizes);
	while ((option = getopt(argc, argv, "s:m:n")) != -1) {
		if (option == 's' && bench_parse_sizes(optarg, &sizes)) {
			continue;
		} else if (option == 'm' && atof(optarg) > 0) {
			ms = atof(optarg);
		} else if (option == 'n') {
			verify = false;
		} else {
			fprintf(stderr, "usage: overlap [-s SIZES] [-m MILLISECONDS] [-n]\n");
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
	}
	if (ranks != 2 || bench_largest(&sizes) > INT32_MAX) {
		fprintf(stderr, "overlap: needs 2 ranks, and sizes below 2 GiB\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	job.buffer = bench_alloc(bench_largest(&sizes), 1);
	report_all(job.rank);
	job.compute = LEAST_NS;
	for (int i = 0; i < sizes.count; i++) {
		job.size = (int)sizes.value[i];
		if (verify)
			check(&job);
		measure(&job, ms * 1e6);
	}
	if (job.rank == 0)
		printf("done\n");
	free(job.buffer);
	MPI_Finalize();
	return 0;
}
