/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * idle.c: what waiting costs. All ranks but the first wait for it while it sleeps, in a receive, in
 * a probe and in a barrier. Prints "idle TEST PERCENT", the processor time of the one that took
 * most, as a part of the time.
 */
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum { TAG = 1, SLEEP_S = 1 };

static int rank, ranks;

static double processor_time(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* Ready when all have what they wait for, but for the barrier. */
static void release(void)
{
	struct timespec t = {SLEEP_S, 0};

	nanosleep(&t, NULL);
	for (int to = 1; to < ranks; to++)
		MPI_Send(NULL, 0, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

static void receive(void)
{
	MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void probe(void)
{
	MPI_Probe(0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	receive();
}

static void barrier(void)
{
	struct timespec t = {SLEEP_S, 0};

	if (rank == 0)
		nanosleep(&t, NULL);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*wait)(void);
		void (*first)(void);
	} tests[] = {{"receive", receive, release},
		     {"probe", probe, release},
		     {"barrier", barrier, barrier}};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < 3; i++) {
		double used, most;

		MPI_Barrier(MPI_COMM_WORLD);
		used = processor_time();
		rank ? tests[i].wait() : tests[i].first();
		used = processor_time() - used;
		MPI_Reduce(&used, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		if (rank == 0)
			printf("idle %s %.0f\n", tests[i].name, 100 * most / SLEEP_S);
	}
	MPI_Finalize();
	return 0;
}
