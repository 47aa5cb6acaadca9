/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * many.h: what crowd.c and collectives.c share: tests of any number of ranks, each with
 * many sizes, whose data is checked and whose time is taken in batches.
 *
 *	PROGRAM [-t TESTS] [-s SIZES] [-m MILLISECONDS] [-n]
 *
 * Samples are in nanoseconds per operation, by the slowest rank's clock. Without -s each
 * test has sizes of its own, without -t all tests are done.
 *
 * An operation may take a microsecond or ten milliseconds, and a rank may be off its
 * processor for a few time slices. So operations are timed in batches, each started
 * together; one that takes less than a fifth of MILLISECONDS is thrown away, since its
 * length says more of the start than of the operation, and the next is twice as long.
 * Batches are added up to MILLISECONDS, or until a second has gone by. The data of each
 * test and size is checked before, unless -n says not to. The buffers belong to the
 * process; there is one thread. After <mpi.h>.
 */
#ifndef BL_BENCH_MANY_H
#define BL_BENCH_MANY_H

#include "bench.h"
#include "report.h"

#define LONG_NS	  1e9 /* for one sample, with what is thrown away */
#define TESTS_MAX 16

struct job {
	int rank;
	int ranks;
	int size;
	unsigned calls;	    /* of run(), the same on all ranks */
	unsigned char *out; /* ranks * the largest size */
	unsigned char *in;
};

struct test {
	const char *name;
	const char *sizes; /* unless -s names others */
	int unit;	   /* sizes are multiples of it */
	int copybuf;	   /* operations that one call of run() does one after the other */
	void (*run)(struct job *job);
	void (*fill)(struct job *job);
	/* The offset of the first wrong byte; -1: there is none. */
	long (*check)(struct job *job);
};

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

		for (long i = 0; i < batch; i++, job->calls++)
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
			return counted / (double)calls / test->copybuf;
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

/* Whether the list `names`, as "barrier,bcast", has `name`; NULL has all. */
static bool wanted(const char *names, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = names; at; at = strchr(at, ','), at += at != NULL)
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
			return true;
	return !names;
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s [-t TESTS] [-s SIZES] [-m MILLISECONDS] [-n]\n", program);
	return MPI_Abort(MPI_COMM_WORLD, 2);
}

/* `count` up to TESTS_MAX; the number of ranks is a multiple of `multiple`. */
static int many_main(int argc, char **argv, const struct test *tests, size_t count, int multiple,
		     double ms)
{
	struct bench_sizes sizes[TESTS_MAX];
	struct job job = {0};
	const char *names = NULL;
	size_t largest = 0;
	bool check = true;
	int option;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
	for (size_t i = 0; i < count; i++)
		bench_parse_sizes(tests[i].sizes ? tests[i].sizes : "0", &sizes[i]);
	while ((option = getopt(argc, argv, "t:s:m:n")) != -1) {
		bool understood = option != '?';

		for (size_t i = 0; option == 's' && i < count; i++)
			if (tests[i].sizes)
				understood &= bench_parse_sizes(optarg, &sizes[i]);
		if (option == 't')
			names = optarg;
		if (option == 'm')
			understood = (ms = atof(optarg)) > 0;
		if (option == 'n')
			check = false;
		if (!understood)
			return usage(argv[0]);
	}
	for (size_t i = 0; i < count; i++)
		if (bench_largest(&sizes[i]) > largest)
			largest = bench_largest(&sizes[i]);
	if (job.ranks % multiple || largest > INT32_MAX) {
		fprintf(stderr, "%s: needs ranks in multiples of %d, and sizes below 2 GiB\n",
			argv[0], multiple);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	job.out = bench_alloc(largest * (size_t)job.ranks, 1);
	job.in = bench_alloc(largest * (size_t)job.ranks, 2);
	report_all(job.rank);
	for (size_t i = 0; i < count; i++)
		if (wanted(names, tests[i].name))
			run_test(&tests[i], &job, &sizes[i], check, ms * 1e6);
	if (job.rank == 0)
		printf("done\n");
	free(job.out);
	free(job.in);
	MPI_Finalize();
	return 0;
}

#endif
