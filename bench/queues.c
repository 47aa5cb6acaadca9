/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * queues.c: an ordinary MPI program: what a message costs when many receives, or many early
 * messages, wait before the right one. It knows nothing of Beeline. Two ranks:
 *
 *	mpicc -O2 bench/queues.c -o queues
 *	mpiexec -n 2 ./queues; beeline run -- mpiexec -n 2 ./queues
 *
 * Of 1, 8, ... 4096 messages of 8 bytes, each with a tag of its own, nanoseconds per message
 * at the receiver, the least of several rounds:
 *  posted, in order	all receives are posted first; messages come in their order
 *  posted, reversed	messages come in the opposite order: each passes all others' receives
 *  early, in order	all messages are there before the first receive is posted
 *  early, reversed	each receive passes all others' messages
 * What each message carries is checked.
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MOST	 4096
#define ROUNDS	 8
#define TAG_LAST MOST

struct queues {
	int rank, count;
	int early, reversed;
	uint64_t out[MOST], in[MOST];
	MPI_Request request[MOST];
};

/* The tag of the one whose turn it is. */
static int turn(const struct queues *q, int i, int other_way)
{
	return other_way ? q->count - 1 - i : i;
}

static void send_all(struct queues *q)
{
	for (int i = 0; i < q->count; i++) {
		int tag = turn(q, i, q->reversed && !q->early);

		q->out[i] = (uint64_t)tag + 1;
		MPI_Isend(&q->out[i], 8, MPI_BYTE, 1 - q->rank, tag, MPI_COMM_WORLD,
			  &q->request[i]);
	}
	if (q->early)
		MPI_Send(NULL, 0, MPI_BYTE, 1 - q->rank, TAG_LAST, MPI_COMM_WORLD);
	MPI_Waitall(q->count, q->request, MPI_STATUSES_IGNORE);
}

static void check(const struct queues *q)
{
	for (int i = 0; i < q->count; i++)
		if (q->in[i] != (uint64_t)i + 1) {
			fprintf(stderr, "queues: receive %d has got message %lld\n", i,
				(long long)q->in[i] - 1);
			MPI_Abort(MPI_COMM_WORLD, 3);
		}
}

/* Nanoseconds per message. */
static double receive_all(struct queues *q)
{
	double start, ns;

	if (q->early) /* behind all others */
		MPI_Recv(NULL, 0, MPI_BYTE, 1 - q->rank, TAG_LAST, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	start = MPI_Wtime();
	if (q->early)
		for (int i = 0; i < q->count; i++) {
			int tag = turn(q, i, q->reversed);

			MPI_Recv(&q->in[tag], 8, MPI_BYTE, 1 - q->rank, tag, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		}
	else
		MPI_Waitall(q->count, q->request, MPI_STATUSES_IGNORE);
	ns = (MPI_Wtime() - start) * 1e9;
	check(q);
	return ns / q->count;
}

static void post_all(struct queues *q)
{
	for (int i = 0; i < q->count; i++)
		MPI_Irecv(&q->in[i], 8, MPI_BYTE, 1 - q->rank, i, MPI_COMM_WORLD, &q->request[i]);
}

static double best(struct queues *q)
{
	double least = 1e18;

	for (int round = 0; round < ROUNDS; round++) {
		memset(q->in, 0, sizeof(q->in));
		MPI_Barrier(MPI_COMM_WORLD);
		if (q->rank == 0 && !q->early)
			post_all(q);
		MPI_Barrier(MPI_COMM_WORLD);
		if (q->rank == 0) {
			double ns = receive_all(q);

			least = ns < least ? ns : least;
		} else {
			send_all(q);
		}
	}
	return least;
}

int main(int argc, char **argv)
{
	static struct queues q;
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &q.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2) {
		fprintf(stderr, "queues: needs 2 ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (q.count = 1; q.count <= MOST; q.count *= 8)
		for (int kind = 0; kind < 4; kind++) {
			double ns;

			q.early = kind / 2;
			q.reversed = kind % 2;
			ns = best(&q);
			if (q.rank == 0)
				printf("%5d %s, %-9s %6.0f ns\n", q.count,
				       q.early ? "early" : "posted",
				       q.reversed ? "reversed" : "in order", ns);
		}
	MPI_Finalize();
	return 0;
}
