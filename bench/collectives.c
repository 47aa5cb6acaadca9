/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * collectives.c: an ordinary MPI program that times collective operations. It knows
 * nothing of Beeline. many.h says how it is called and timed.
 *
 *  barrier    said to be of size 0
 *  bcast      SIZE bytes from the root to all
 *  reduce     the sum of MPI_INTs at the root
 *  allreduce  the same, at all
 *  allgather  SIZE bytes from each to all
 *  alltoall   SIZE bytes from each to each
 *
 * Another rank is the root each time: from one root to the next the operation is to be
 * over, and not only begun, as it would be for a root that has sent and goes on.
 */
#include <mpi.h>

#include "many.h"

#define SIZES "8,64,256,1024,4096,16384,65536,262144,1048576"

static int root_of(const struct job *job)
{
	return (int)(job->calls % (unsigned)job->ranks);
}

static void bcast_run(struct job *job)
{
	int root = root_of(job);

	MPI_Bcast(job->rank == root ? job->out : job->in, job->size, MPI_BYTE, root,
		  MPI_COMM_WORLD);
}

static void bcast_fill(struct job *job)
{
	bench_fill(job->out, (size_t)job->size, seed_of(job, root_of(job), 0));
}

static long bcast_check(struct job *job)
{
	size_t size = (size_t)job->size, at;

	if (job->rank == root_of(job))
		return -1;
	at = bench_check(job->in, size, seed_of(job, root_of(job), 0));
	return at == size ? -1 : (long)at;
}

static void reduce_run(struct job *job)
{
	MPI_Reduce(job->out, job->in, job->size / (int)sizeof(int), MPI_INT, MPI_SUM, root_of(job),
		   MPI_COMM_WORLD);
}

static long reduce_check(struct job *job)
{
	return job->rank == root_of(job) ? allreduce_check(job) : -1;
}

static void allgather_run(struct job *job)
{
	MPI_Allgather(job->out, job->size, MPI_BYTE, job->in, job->size, MPI_BYTE, MPI_COMM_WORLD);
}

static void allgather_fill(struct job *job)
{
	bench_fill(job->out, (size_t)job->size, seed_of(job, job->rank, job->rank));
}

static long allgather_check(struct job *job)
{
	size_t size = (size_t)job->size;

	for (int from = 0; from < job->ranks; from++) {
		size_t offset = (size_t)from * size;
		size_t at = bench_check(job->in + offset, size, seed_of(job, from, from));

		if (at != size)
			return (long)(offset + at);
	}
	return -1;
}

static const struct test tests[] = {
	{"barrier", NULL, 1, 1, barrier_run, NULL, NULL},
	{"bcast", SIZES, 1, 1, bcast_run, bcast_fill, bcast_check},
	{"reduce", SIZES, sizeof(int), 1, reduce_run, allreduce_fill, reduce_check},
	{"allreduce", SIZES, sizeof(int), 1, allreduce_run, allreduce_fill, allreduce_check},
	{"allgather", SIZES, 1, 1, allgather_run, allgather_fill, allgather_check},
	{"alltoall", SIZES, 1, 1, alltoall_run, alltoall_fill, alltoall_check},
};

int main(int argc, char **argv)
{
	return many_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]), 1, 20);
}
