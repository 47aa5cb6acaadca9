/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * crowd.c: an ordinary MPI program for more ranks than processors. It knows nothing
 * of Beeline. One launch, any even number of ranks, many tests and sizes; a rank that
 * waits may be waiting for one that doesn't run. many.h says how it is called and timed.
 *
 *  pairs      half the time of a ping and its pong, between ranks 2i and 2i + 1, all
 *             pairs at once
 *  ring       MPI_Sendrecv to the right, from the left
 *  allreduce  the sum of MPI_INTs; only sizes that are whole MPI_INTs
 *  alltoall   SIZE bytes from each to each
 *  barrier    said to be of size 0
 */
#include <mpi.h>

#include "many.h"

#define TAG 7

static int left_of(const struct job *job)
{
	return (job->rank + job->ranks - 1) % job->ranks;
}

static int right_of(const struct job *job)
{
	return (job->rank + 1) % job->ranks;
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

static const struct test tests[] = {
	{"pairs", "8,1024,32768", 1, 2, pairs_run, pairs_fill, pairs_check},
	{"ring", "8,1024,32768", 1, 1, ring_run, ring_fill, ring_check},
	{"allreduce", "8,1024", sizeof(int), 1, allreduce_run, allreduce_fill, allreduce_check},
	{"alltoall", "8,1024", 1, 1, alltoall_run, alltoall_fill, alltoall_check},
	{"barrier", NULL, 1, 1, barrier_run, NULL, NULL},
};

int main(int argc, char **argv)
{
	return many_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]), 2, 150);
}
