/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * connect.c: MPI_Comm_connect to a port on which nobody accepts ends with an error once its time is
 * over; and the next one, which is accepted, isn't taken for it. Rank 1 has the port and computes
 * meanwhile.
 *
 *     connect SECONDS         the MPI library's limit (MPIR_CVAR_CH4_COMM_CONNECT_TIMEOUT)
 *
 * MPI_Finalize is left out: after a connect whose time was over MPICH 5.0 aborts there.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TRIES 2

static void check(int right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "WRONG: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void spend(double seconds)
{
	double until = MPI_Wtime() + seconds;

	while (MPI_Wtime() < until)
		;
}

int main(int argc, char **argv)
{
	double limit = argc > 1 ? atof(argv[1]) : 1, began;
	int rank, number = 0, class;
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm other;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (rank == 1)
		MPI_Open_port(MPI_INFO_NULL, port);
	MPI_Bcast(port, sizeof port, MPI_CHAR, 1, MPI_COMM_WORLD);
	for (int i = 0; i < TRIES; i++) {
		if (rank == 1) {
			spend(i ? 0 : 1.5 * limit); /* in the library the second time */
		} else if (rank == 0) {
			began = MPI_Wtime();
			MPI_Error_class(
				MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other),
				&class);
			check(class == MPI_ERR_PORT, "nobody has accepted");
			printf("given up after %.2f s\n", MPI_Wtime() - began);
			check(MPI_Wtime() - began < 3 * limit + 2, "it took too long");
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	if (rank == 0) {
		number = 42;
		check(!MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other),
		      "connect failed");
		MPI_Send(&number, 1, MPI_INT, 0, 7, other);
	} else if (rank == 1) {
		check(!MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other),
		      "accept failed");
		MPI_Recv(&number, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
		check(number == 42, "another number");
		MPI_Close_port(port);
	}
	if (rank < 2)
		MPI_Comm_disconnect(&other);
	if (rank == 0)
		printf("connected\n");
	fflush(stdout);
	MPI_Barrier(MPI_COMM_WORLD);
	_exit(0);
}
