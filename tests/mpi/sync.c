/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * sync.c: a synchronous send is over when its receive has begun, and not before, however
 * its bytes travel; and what an ordinary send has said is over is received though its
 * sender has nothing more to do than to leave. Two ranks; prints "sync N", the checks
 * made, or what is wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA = 1, BEGUN, LOOKED, NOW, LAST };
enum { TURNS = 300, LOOKS = 2000, LEFT = 16, LONGEST = 262144 };

static int rank;
static unsigned char *buffer;

static void fail(const char *what, int size)
{
	printf("wrong: %s, %d bytes\n", what, size);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static unsigned char byte_of(int number, int i)
{
	return (unsigned char)(101 * number + 7 * i + i / 251);
}

/* Message `number` of so many bytes. */
static void fill(int size, int number)
{
	for (int i = 0; i < size; i++)
		buffer[i] = byte_of(number, i);
}

static void check(int size, int number)
{
	for (int i = 0; i < size; i++)
		if (buffer[i] != byte_of(number, i))
			fail("other bytes", size);
}

static void empty_to_other(int tag)
{
	MPI_Send(NULL, 0, MPI_BYTE, !rank, tag, MPI_COMM_WORLD);
}

static void empty_from_other(int tag)
{
	MPI_Recv(NULL, 0, MPI_BYTE, !rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* So that each has seen how the other answers. */
static void warm(int size)
{
	for (int i = 0; i < TURNS; i++) {
		if (rank == i % 2)
			MPI_Send(buffer, size, MPI_BYTE, !rank, DATA, MPI_COMM_WORLD);
		else
			MPI_Recv(buffer, size, MPI_BYTE, !rank, DATA, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
	}
}

static void synchronous(int size)
{
	MPI_Request request, answer;
	int done = 0, answered = 0;

	if (rank == 0) {
		fill(size, 0);
		MPI_Irecv(NULL, 0, MPI_BYTE, 1, LOOKED, MPI_COMM_WORLD, &answer);
		MPI_Issend(buffer, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &request);
		empty_to_other(BEGUN);
		while (!answered && !done) {
			MPI_Test(&request, &done, MPI_STATUS_IGNORE);
			MPI_Test(&answer, &answered, MPI_STATUS_IGNORE);
		}
		if (done)
			fail("over before its receive has begun", size);
		empty_to_other(NOW);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		return;
	}
	empty_from_other(BEGUN);
	for (int i = 0; i < LOOKS; i++) /* in the library, but for something else */
		MPI_Iprobe(0, NOW, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
	empty_to_other(LOOKED);
	empty_from_other(NOW);
	memset(buffer, 0xee, (size_t)size);
	MPI_Recv(buffer, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check(size, 0);
}

static void left_behind(int size)
{
	for (int i = 0; i < LEFT; i++) {
		MPI_Request request;

		if (rank == 0) {
			fill(size, i);
			MPI_Isend(buffer, size, MPI_BYTE, 1, LAST, MPI_COMM_WORLD, &request);
			MPI_Wait(&request, MPI_STATUS_IGNORE); /* it is ours again */
		} else {
			memset(buffer, 0xee, (size_t)size);
			MPI_Recv(buffer, size, MPI_BYTE, 0, LAST, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
			check(size, i);
		}
	}
	if (rank == 0)
		memset(buffer, 0xdd, (size_t)size);
}

int main(int argc, char **argv)
{
	static const int sizes[] = {0, 8, 1000, 6000, 8192, 8193, 16384, 32768, 65536, LONGEST};
	int n = sizeof sizes / sizeof sizes[0];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	buffer = calloc(1, LONGEST);
	for (int i = 0; i < n; i++) {
		warm(sizes[i]);
		synchronous(sizes[i]);
		left_behind(sizes[i]);
	}
	left_behind(16384);
	if (rank == 1)
		printf("sync %d\n", 2 * n + 1);
	MPI_Finalize();
	return 0;
}
