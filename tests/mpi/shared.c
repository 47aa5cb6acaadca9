/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * shared.c: memory that the processes of a node share as MPI has it: MPI_Comm_split_type and
 * MPI_Win_allocate_shared, by which each rank reads what every other has written, while messages
 * go to and fro; and one-sided operations on such a window. Prints, once, how many ranks such a
 * communicator has.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

#define WORDS  1000
#define ROUNDS 20

static long word(int rank, int round, int at)
{
	return (long)rank * 1000000 + round * 10000 + at;
}

static void wrong(const char *what, int rank, long is, long should)
{
	fprintf(stderr, "WRONG: %s of rank %d: %ld instead of %ld\n", what, rank, is, should);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Each writes its own part, and reads those of all. */
static void check(MPI_Comm node, MPI_Win win, long *mine, int round)
{
	int rank, ranks, unit;
	MPI_Aint size;
	long *part;

	MPI_Comm_rank(node, &rank);
	MPI_Comm_size(node, &ranks);
	for (int i = 0; i < WORDS; i++)
		mine[i] = word(rank, round, i);
	MPI_Win_fence(0, win);
	for (int of = 0; of < ranks; of++) {
		MPI_Win_shared_query(win, of, &size, &unit, &part);
		for (int i = 0; i < WORDS; i++)
			if (part[i] != word(of, round, i))
				wrong("shared word", of, part[i], word(of, round, i));
	}
	MPI_Win_fence(0, win);
}

/* Of all second words: their writers have numbers of their own communicator, where one has all or
 * each its own. */
static long expected_sum(int ranks, int together, int round)
{
	long sum = 0;

	for (int i = 0; i < ranks; i++)
		sum += word(together == 1 ? 0 : i, round, 1);
	return sum;
}

/* Each changes the first words of the next one's part, and reads another. */
static void reach(MPI_Comm node, MPI_Win win, const long *mine, int round)
{
	int rank, ranks, next, before;
	long put, one = 1, got = 0, old = 0;

	MPI_Comm_rank(node, &rank);
	MPI_Comm_size(node, &ranks);
	next = (rank + 1) % ranks;
	before = (rank + ranks - 1) % ranks;
	put = word(rank, round, -1);
	MPI_Win_fence(0, win);
	MPI_Put(&put, 1, MPI_LONG, next, 3, 1, MPI_LONG, win);
	MPI_Accumulate(&one, 1, MPI_LONG, next, 4, 1, MPI_LONG, MPI_SUM, win);
	MPI_Get(&got, 1, MPI_LONG, next, 5, 1, MPI_LONG, win);
	MPI_Fetch_and_op(&one, &old, MPI_LONG, next, 6, MPI_SUM, win);
	MPI_Win_fence(0, win);
	if (got != word(next, round, 5))
		wrong("what was got", next, got, word(next, round, 5));
	if (old != word(next, round, 6))
		wrong("what was fetched", next, old, word(next, round, 6));
	if (mine[3] != word(before, round, -1))
		wrong("what was put", before, mine[3], word(before, round, -1));
	if (mine[4] != word(rank, round, 4) + 1 || mine[6] != word(rank, round, 6) + 1)
		wrong("what was added", before, mine[4], word(rank, round, 4) + 1);
}

int main(int argc, char **argv)
{
	int rank, ranks, together;
	long *mine, sum;
	MPI_Comm node;
	MPI_Win win;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &together);
	MPI_Win_allocate_shared(WORDS * sizeof *mine, sizeof *mine, MPI_INFO_NULL, node, &mine,
				&win);
	for (int round = 0; round < ROUNDS; round++) {
		check(node, win, mine, round);
		MPI_Allreduce(&mine[1], &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		if (sum != expected_sum(ranks, together, round))
			wrong("the sum", rank, sum, expected_sum(ranks, together, round));
		reach(node, win, mine, round);
	}
	if (rank == 0)
		printf("together %d\n", together);
	MPI_Win_free(&win);
	MPI_Comm_free(&node);
	MPI_Finalize();
	return 0;
}
