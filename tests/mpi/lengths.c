/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lengths.c: rank 0 sends rank 1 one message of each length, plainly and synchronously, which
 * compares every byte. For the protocols that an MPI library may be told to use for long ones.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

#define LONGEST (8 << 20)

static unsigned char byte_of(size_t len, int way, size_t i)
{
	return (unsigned char)((len * 31 + (size_t)way * 7 + i * 2654435761u) >> 5);
}

static void one(int rank, unsigned char *buf, int len, int way)
{
	size_t n = (size_t)len;

	for (size_t i = 0; i < n; i++)
		buf[i] = rank ? 0 : byte_of(n, way, i);
	if (rank == 0)
		(way ? MPI_Ssend : MPI_Send)(buf, len, MPI_BYTE, 1, way, MPI_COMM_WORLD);
	if (rank != 1)
		return;
	MPI_Recv(buf, len, MPI_BYTE, 0, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (size_t i = 0; i < n; i++)
		if (buf[i] != byte_of(n, way, i)) {
			fprintf(stderr, "WRONG: byte %zu of %d\n", i, len);
			MPI_Abort(MPI_COMM_WORLD, 3);
		}
}

int main(int argc, char **argv)
{
	unsigned char *buf = malloc(LONGEST);
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int len = 1; buf && len <= LONGEST; len *= 8)
		for (int way = 0; way < 2; way++)
			one(rank, buf, len, way);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("received\n");
	free(buf);
	MPI_Finalize();
	return 0;
}
