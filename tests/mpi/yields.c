/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * yield_hook.c: in how many receives an MPI library gives its core away while two ranks, each on a
 * core of its own, send each other 8 bytes in turn: one in which the other has lost its core may do
 * so thousands of times. Prints "yields in N of M receives", both ranks together, "one core" where
 * there are no two, or what is wrong.
 *
 * What the library and Beeline call is the program's own sched_yield, which counts.
 */
#define _GNU_SOURCE

#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TURNS = 5000 };

static atomic_long yields;

int sched_yield(void)
{
	atomic_fetch_add(&yields, 1);
	return (int)syscall(SYS_sched_yield);
}

/* The rank's own of the cores that it may run on; 0: there are none for two. */
static int bind_to_own(int rank)
{
	cpu_set_t all, own;
	int n = -1;

	if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
		return 0;
	CPU_ZERO(&own);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && ++n == rank)
			CPU_SET(cpu, &own);
	return !sched_setaffinity(0, sizeof own, &own);
}

/* Counts the receives that yield. 1: the other's number came each time. */
static int talk(int rank, int turns, long *count)
{
	long in, out = 0;

	*count = 0;

	for (int i = 0; i < 2 * turns; i++) {
		if (i % 2 == rank) {
			out = 2l * i + rank;
			MPI_Send(&out, 1, MPI_LONG, !rank, 1, MPI_COMM_WORLD);
			continue;
		}
		atomic_store(&yields, 0);
		MPI_Recv(&in, 1, MPI_LONG, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		*count += atomic_load(&yields) > 0;
		if (in != 2l * i + !rank)
			return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	int rank, mine, both;
	long count, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	mine = bind_to_own(rank);
	MPI_Allreduce(&mine, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (!both) {
		if (!rank)
			printf("one core\n");
		MPI_Finalize();
		return 0;
	}
	mine = talk(rank, TURNS, &count); /* each finds out how the other answers */
	mine &= talk(rank, TURNS, &count);
	MPI_Reduce(&count, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &both, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
	if (!rank && both)
		printf("yields in %ld of %d receives\n", all, 2 * TURNS);
	else if (!rank)
		printf("wrong: another message\n");
	MPI_Finalize();
	return 0;
}
