/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * memcheck.c: a program whose memory valgrind's memcheck follows: what has been received, got or
 * put by the other rank is looked at byte by byte, so that a byte that memcheck believes to be
 * uninitialised is reported in a frame of this program. Two ranks; rank 1 prints "memcheck N", the
 * checks made, or what is wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG = 1, TURNS = 6, LONGEST = 1 << 20 };

static int rank, checks;

/* Uninitialised to memcheck, each time. */
static unsigned char *fresh(int size)
{
	unsigned char *p = malloc((size_t)size);

	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 3);
	return p;
}

static unsigned char *filled(int size, int number)
{
	unsigned char *p = fresh(size);

	for (int i = 0; i < size; i++)
		p[i] = (unsigned char)(101 * number + 7 * i + i / 251);
	return p;
}

static void check(const unsigned char *p, int size, int number, const char *what)
{
	for (int i = 0; i < size; i++)
		if (p[i] != (unsigned char)(101 * number + 7 * i + i / 251)) {
			printf("wrong: byte %d of %d, %s\n", i, size, what);
			fflush(stdout);
			MPI_Abort(MPI_COMM_WORLD, 3);
		}
	checks++;
}

static void send(int size, int number)
{
	unsigned char *p = filled(size, number);

	MPI_Send(p, size, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD);
	free(p);
}

static void receive(int size, int number)
{
	unsigned char *p = fresh(size);

	MPI_Recv(p, size, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check(p, size, number, "received");
	free(p);
}

static void ping_pong(int size)
{
	for (int i = 0; i < TURNS; i++)
		if (i % 2 == rank)
			send(size, i);
		else
			receive(size, i);
}

/* The receive is there before its message, and its process away: the sender writes into it. */
static void claimed(int size)
{
	unsigned char *p;
	MPI_Request request;

	if (rank) {
		p = fresh(size);
		MPI_Irecv(p, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		check(p, size, 9, "received by a posted receive");
		free(p);
	} else {
		MPI_Barrier(MPI_COMM_WORLD);
		send(size, 9);
	}
}

static void one_sided(int size)
{
	unsigned char *window = fresh(size), *other = filled(size, rank), *got = fresh(size);
	MPI_Win win;

	MPI_Win_create(window, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	MPI_Put(other, size, MPI_BYTE, !rank, 0, size, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check(window, size, !rank, "put here");
	MPI_Win_fence(0, win);
	MPI_Get(got, size, MPI_BYTE, !rank, 0, size, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	check(got, size, rank, "got");
	MPI_Accumulate(other, size, MPI_BYTE, !rank, 0, size, MPI_BYTE, MPI_REPLACE, win);
	MPI_Win_fence(0, win);
	check(window, size, !rank, "accumulated here");
	MPI_Win_free(&win);
	free(window);
	free(other);
	free(got);
}

int main(int argc, char **argv)
{
	static const int sizes[] = {8, 1000, 20000, 100000, LONGEST};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		ping_pong(sizes[i]);
		claimed(sizes[i]);
		one_sided(sizes[i]);
	}
	if (rank == 1)
		printf("memcheck %d\n", checks);
	MPI_Finalize();
	return 0;
}
