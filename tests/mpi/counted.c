/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * counted.c: messages and one-sided operations, so many of each between two ranks, and what
 * `beeline stat` then says of the first, by itself: "counted PID", its output, "end". The windows
 * are of memory that the program has, which no MPI library can put into shared memory of its own.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIMES = 200, TAG = 1 };

static void messages(int rank)
{
	double value = 1;

	for (int i = 0; i < TIMES; i++) {
		if (rank == i % 2)
			MPI_Send(&value, 1, MPI_DOUBLE, !rank, TAG, MPI_COMM_WORLD);
		else
			MPI_Recv(&value, 1, MPI_DOUBLE, !rank, TAG, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
	}
}

static void one_sided(int rank)
{
	static double window[64], value = 1, sum;
	MPI_Win win;

	MPI_Win_create(window, sizeof window, sizeof value, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < TIMES && rank == 0; i++) {
		MPI_Put(&value, 1, MPI_DOUBLE, 1, i % 64, 1, MPI_DOUBLE, win);
		MPI_Win_flush(1, win);
		MPI_Get(&sum, 1, MPI_DOUBLE, 1, i % 64, 1, MPI_DOUBLE, win);
		MPI_Win_flush(1, win);
		if (sum != value) {
			printf("wrong: %g was put, %g is there\n", value, sum);
			MPI_Abort(MPI_COMM_WORLD, 3);
		}
		value++;
	}
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	char command[4096];
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	messages(rank);
	one_sided(rank);
	if (rank == 0) {
		printf("counted %d\n", (int)getpid());
		fflush(stdout);
		snprintf(command, sizeof command, "%s stat --json %d", argv[1], (int)getpid());
		if (system(command))
			printf("wrong: %s\n", command);
		printf("end\n");
		fflush(stdout);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
