/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * isends.c: MPI_Isend is local. Rank 0 starts many, and says by a word in a shared file that it
 * has; rank 1 waits for that word without entering MPI, then receives them. Then both start many
 * before either receives. Argument: the file. Prints "isends N", the messages that came.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 60 /* seconds */

static const struct {
	int count, len;
} rows[] = {{100, 100}, {1000, 8},   {100, 10000},  {100, 200000},
	    {5000, 0},	{100000, 8}, {500, 1 << 20}};

#define ROWS ((int)(sizeof rows / sizeof rows[0]))

static int rank, received;

static void wrong(const char *what, int row, int i)
{
	printf("wrong: rank %d, %d times %d bytes, message %d: %s\n", rank, rows[row].count,
	       rows[row].len, i, what);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void start(int row, int to, char *bytes, MPI_Request *request)
{
	memset(bytes, row + 1, (size_t)rows[row].len);
	for (int i = 0; i < rows[row].count; i++)
		MPI_Isend(bytes, rows[row].len, MPI_BYTE, to, i % 1000, MPI_COMM_WORLD,
			  request + i);
}

static void receive(int row, int from, char *bytes)
{
	for (int i = 0; i < rows[row].count; i++) {
		int len = rows[row].len;

		memset(bytes, 0, (size_t)len);
		MPI_Recv(bytes, len, MPI_BYTE, from, i % 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (len && (bytes[0] != row + 1 || bytes[len - 1] != row + 1))
			wrong("other bytes", row, i);
		received++;
	}
}

static void one_way(int row, _Atomic int *started, char *bytes, MPI_Request *request)
{
	time_t until = time(NULL) + PATIENCE;

	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank) {
		start(row, 1, bytes, request);
		atomic_store(started, row + 1);
		MPI_Waitall(rows[row].count, request, MPI_STATUSES_IGNORE);
		return;
	}
	while (atomic_load(started) != row + 1)
		if (time(NULL) > until)
			wrong("MPI_Isend waits for its receiver", row, 0);
	receive(row, 0, bytes);
}

static void both_ways(int row, char *bytes, char *in, MPI_Request *request)
{
	MPI_Barrier(MPI_COMM_WORLD);
	start(row, !rank, bytes, request);
	receive(row, !rank, in);
	MPI_Waitall(rows[row].count, request, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
	char *bytes = malloc(1 << 20), *in = malloc(1 << 20);
	MPI_Request *request = malloc(100000 * sizeof *request);
	_Atomic int *started;
	int fd;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	fd = open(argv[1], O_RDWR);
	started = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (argc < 2 || fd < 0 || started == MAP_FAILED) {
		perror("the shared file");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int row = 0; row < ROWS; row++)
		one_way(row, started, bytes, request);
	for (int row = 0; row < ROWS; row++)
		both_ways(row, bytes, in, request);
	if (rank)
		printf("isends %d\n", received);
	MPI_Finalize();
	return 0;
}
