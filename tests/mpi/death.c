/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * death.c: all ranks send to the next and receive from the one before, round and round, and
 * the last one kills itself in the middle of it. The others would go on for ever: to end them
 * is the launcher's, or theirs, once an operation with the dead has failed.
 *
 *     death LENGTH FILE       FILE is made when it dies: what a rank prints may be lost
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 500 /* until it dies */

int main(int argc, char **argv)
{
	int len = argc > 1 ? atoi(argv[1]) : 8, rank, ranks;
	char *in, *out;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	in = malloc((size_t)len + 1);
	out = calloc((size_t)len + 1, 1);
	if (!in || !out)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = 0;; i++) {
		if (i == ROUNDS && rank == ranks - 1) {
			if (argc > 2)
				fopen(argv[2], "w");
			raise(SIGKILL);
		}
		MPI_Sendrecv(out, len, MPI_CHAR, (rank + 1) % ranks, 1, in, len, MPI_CHAR,
			     (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}
