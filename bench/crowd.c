/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * crowd.c: an ordinary MPI program for more ranks than processors. It knows nothing
 * of Beeline. One launch, any even number of ranks, many tests and sizes; a rank that
 * waits may be waiting for one that doesn't run.
 *
 *	crowd [-s SIZES] [-m MILLISECONDS] [-n]
 *
 * Samples, all in nanoseconds per operation, by the slowest rank's clock:
 *  pairs      half the time of a ping and its pong, between ranks 2i and 2i + 1, all
 *             pairs at once
 *  ring       MPI_Sendrecv to the right, from the left
 *  allreduce  the sum of MPI_INTs; only sizes that are whole MPI_INTs
 *  alltoall   SIZE bytes from each to each
 *  barrier    said to be of size 0
 * Without -s each test has sizes of its own.
 *
 * An operation may take a microsecond or ten milliseconds, and a rank may be off its
 * processor for a few time slices. So operations are timed in batches, each started
 * together; one that takes less than a fifth of MILLISECONDS (150) is thrown away,
 * since its length says more of the start than of the operation, and the next is twice
 * as long. Batches are added up to MILLISECONDS, or until a second has gone by.
 * The data of each test and size is checked before, unless -n says not to. The buffers
 * belong to the process; there is one thread.
 */
#include <mpi.h>

#include "bench.h"
#include "report.h"

#define TAG	7
#define LONG_NS 1e9 /* for one sample, with what is thrown away */

struct job {
	int rank;
	int ranks;
	int size;
	unsigned char *out; /* ranks * the largest size */
	unsigned char *in;
};

struct test {
	const char *name;
	const char *sizes; /* unless -s names others */
	int unit;	   /* sizes are multiples of it */
	int in_turn;	   /* operations that one call of run() does one after the other */
	void (*run)(struct job *job);
	void (*fill)(struct job *job);
	/* The offset of the first wrong byte; -1: there is none. */
	long (*check)(struct job *job);
};

static int left_of(const struct job *job)
{
	return (job->rank + job->ranks - 1) % job->ranks;
}

static int right_of(const struct job *job)
{
	return (job->rank + 1) % job->ranks;
}

/* No two ranks' data are alike, nor what one rank has for two others. */
static uint32_t seed_of(const struct job *job, int from, int to)
{
	return (uint32_t)job->size + 1000u * (uint32_t)from + (uint32_t)to;
}

static void fill_for(struct job *job, int to, size_t offset)
{
	bench_fill(job->out + offset, (size_t)job->size, seed_of(job, job->rank, to));
}

static long check_from(struct job *job, int from, size_t offset)
{
	size_t size = (size_t)job->size;
	size_t at = bench_check(job->in + offset, size, seed_of(job, from, job->rank));

	return at == size ? -1 : (long)(offset + at);
}

static void pairs_run(struct job *job)
{
	int other = job->rank ^ 1;

	if (job->rank % 2 == 0)
		MPI_Send(job->out, job->size, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
	MPI_Recv(job->in, job->size, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (job->rank % 2 == 1)
		MPI_Send(job->out, job->size, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
}

static void pairs_fill(struct job *job)
{
	fill_for(job, job->rank ^ 1, 0);
}

static long pairs_check(struct job *job)
{
	return check_from(job, job->rank ^ 1, 0);
}

static void ring_run(struct job *job)
{
	MPI_Sendrecv(job->out, job->size, MPI_BYTE, right_of(job), TAG, job->in, job->size,
		     MPI_BYTE, left_of(job), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ring_fill(struct job *job)
{
	fill_for(job, right_of(job), 0);
}

static long ring_check(struct job *job)
{
	return check_from(job, left_of(job), 0);
}

static void allreduce_run(struct job *job)
{
	MPI_Allreduce(job->out, job->in, job->size / (int)sizeof(int), MPI_INT, MPI_SUM,
		      MPI_COMM_WORLD);
}

/* Rank r adds this to the i-th sum: r and something that repeats late. */
static int addend(int rank, int i)
{
	return rank + i % 1009;
}

static void allreduce_fill(struct job *job)
{
	int *out = (int *)job->out;

	for (int i = 0; i < job->size / (int)sizeof(int); i++)
		out[i] = addend(job->rank, i);
}

static long allreduce_check(struct job *job)
{
	const int *in = (const int *)job->in;
	int of_ranks = job->ranks * (job->ranks - 1) / 2;

	for (int i = 0; i < job->size / (int)sizeof(int); i++)
		if (in[i] != of_ranks + job->ranks * addend(0, i))
			return i * (long)sizeof(int);
	return -1;
}

static void alltoall_run(struct job *job)
{
	MPI_Alltoall(job->out, job->size, MPI_BYTE, job->in, job->size, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall_fill(struct job *job)
{
	for (int to = 0; to < job->ranks; to++)
		fill_for(job, to, (size_t)to * (size_t)job->size);
}

static long alltoall_check(struct job *job)
{
	for (int from = 0; from < job->ranks; from++) {
		long at = check_from(job, from, (size_t)from * (size_t)job->size);

		if (at >= 0)
			return at;
	}
	return -1;
}

static void barrier_run(struct job *job)
{
	(void)job;
	MPI_Barrier(MPI_COMM_WORLD);
}

static const struct test tests[] = {
	{"pairs", "8,1024,32768", 1, 2, pairs_run, pairs_fill, pairs_check},
	{"ring", "8,1024,32768", 1, 1, ring_run, ring_fill, ring_check},
	{"allreduce", "8,1024", sizeof(int), 1, allreduce_run, allreduce_fill, allreduce_check},
	{"alltoall", "8,1024", 1, 1, alltoall_run, alltoall_fill, alltoall_check},
	{"barrier", NULL, 1, 1, barrier_run, NULL, NULL},
};
#define TESTS (sizeof(tests) / sizeof(tests[0]))

static void verify(const struct test *test, struct job *job)
{
	long at;

	test->fill(job);
	memset(job->in, 0xee, (size_t)job->ranks * (size_t)job->size);
	test->run(job);
	at = test->check(job);
	if (at >= 0) {
		printf("corrupt %s %d byte %ld rank %d\n", test->name, job->size, at, job->rank);
		fflush(stdout);
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
}

/* Nanoseconds per operation, the same on every rank. The reduction between batches is
 * also what they start together by. */
static double measure(const struct test *test, struct job *job, double sample_ns)
{
	double begun = bench_now(), counted = 0, spent[2] = {0}; /* by the batch, by all */
	long calls = 0, batch = 1;

	MPI_Barrier(MPI_COMM_WORLD);
	for (;;) {
		double start = bench_now();

		for (long i = 0; i < batch; i++)
			test->run(job);
		spent[0] = bench_now() - start;
		spent[1] = bench_now() - begun;
		MPI_Allreduce(MPI_IN_PLACE, spent, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
		if (spent[0] < sample_ns / 5 && spent[1] < LONG_NS) {
			calls = 0;
			counted = 0;
			batch *= 2;
			continue;
		}
		calls += batch;
		counted += spent[0];
		if (counted >= sample_ns || spent[1] >= LONG_NS)
			return counted / (double)calls / test->in_turn;
	}
}

static void run_test(const struct test *test, struct job *job, const struct bench_sizes *sizes,
		     bool check, double sample_ns)
{
	for (int i = 0; i < sizes->count; i++) {
		double ns;

		if (sizes->value[i] % (size_t)test->unit)
			continue;
		job->size = (int)sizes->value[i];
		if (check && test->check)
			verify(test, job);
		ns = measure(test, job, sample_ns);
		if (job->rank == 0)
			bench_sample(test->name, (size_t)job->size, ns);
	}
}

int main(int argc, char **argv)
{
	struct bench_sizes sizes[TESTS];
	struct job job = {0};
	size_t largest = 0;
	double ms = 150;
	bool check = true;
	int option;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
	for (size_t i = 0; i < TESTS; i++)
		bench_parse_sizes(tests[i].sizes ? tests[i].sizes : "0", &sizes[i]);
	while ((option = getopt(argc, argv, "s:m:n")) != -1) {
		bool understood = option != '?';

		for (size_t i = 0; option == 's' && i < TESTS; i++)
			if (tests[i].sizes)
				understood &= bench_parse_sizes(optarg, &sizes[i]);
		if (option == 'm')
			understood = (ms = atof(optarg)) > 0;
		if (option == 'n')
			check = false;
		if (!understood) {
			fprintf(stderr, "usage: crowd [-s SIZES] [-m MILLISECONDS] [-n]\n");
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
	}
	for (size_t i = 0; i < TESTS; i++)
		if (bench_largest(&sizes[i]) > largest)
			largest = bench_largest(&sizes[i]);
	if (job.ranks % 2 || largest > INT32_MAX) {
		fprintf(stderr, "crowd: needs an even number of ranks, and sizes below 2 GiB\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	job.out = bench_alloc(largest * (size_t)job.ranks, 1);
	job.in = bench_alloc(largest * (size_t)job.ranks, 2);
	report_all(job.rank);
	for (size_t i = 0; i < TESTS; i++)
		run_test(&tests[i], &job, &sizes[i], check, ms * 1e6);
	if (job.rank == 0)
		printf("done\n");
	free(job.out);
	free(job.in);
	MPI_Finalize();
	return 0;
}
