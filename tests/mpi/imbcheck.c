/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * imbcheck.c: checks the data that a benchmark sends. The IMB-MPI1 that Intel ships
 * was built without its own checks, so this library is loaded before it
 * (LD_PRELOAD) and stands between it and MPI: it fills each send buffer with a
 * pattern of the sender's rank and the length, and compares what arrives. Reductions
 * of floats get small integers, whose sum is exact. Only messages of MPI_BYTE are the
 * benchmarks'; IMB tells its own results with other types. Any difference ends the
 * run; the end says how much was checked.
 *
 * Buffers are the benchmark's; the table of requests is this library's. One thread
 * enters (IMB-MPI1 has one).
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANK 0xee

static unsigned long long messages, bytes;

static _Noreturn void wrong(const char *what, int from, int to, size_t len, size_t at)
{
	fprintf(stderr, "imbcheck: WRONG DATA in %s from rank %d to %d: byte %zu of %zu\n", what,
		from, to, at, len);
	fflush(stderr);
	PMPI_Abort(MPI_COMM_WORLD, 3);
	abort();
}

static int rank_in(MPI_Comm comm)
{
	int rank;

	PMPI_Comm_rank(comm, &rank);
	return rank;
}

static int size_of(MPI_Comm comm)
{
	int size;

	PMPI_Comm_size(comm, &size);
	return size;
}

static size_t length(int count, MPI_Datatype type)
{
	int size;

	PMPI_Type_size(type, &size);
	return (size_t)count * (size_t)size;
}

static unsigned char byte_of(int from, int to, size_t len, size_t i)
{
	uint64_t z = (uint64_t)(from + 1) * 0x9e3779b97f4a7c15u + (uint64_t)(to + 2) * 0xd1342543u +
		     (uint64_t)len * 0xbf58476d1ce4e5b9u + i / 8;

	z ^= z >> 29;
	z *= 0x94d049bb133111ebu;
	return (unsigned char)(z >> (i % 8 * 8));
}

/* `to` is -1 where all receivers get the same. */
static void fill(void *buf, size_t len, int from, int to)
{
	unsigned char *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = byte_of(from, to, len, i);
}

static void check(const char *what, const void *buf, size_t len, int from, int to, int me)
{
	const unsigned char *p = buf;

	for (size_t i = 0; i < len; i++)
		if (p[i] != byte_of(from, to, len, i))
			wrong(what, from, me, len, i);
	messages++;
	bytes += len;
}

/* --- point to point --------------------------------------------------------- */

struct pending {
	MPI_Request request;
	void *buf;
	MPI_Comm comm;
	struct pending *next;
};
static struct pending *receives;

static void arrived(void *buf, MPI_Comm comm, const MPI_Status *status)
{
	int count;

	PMPI_Get_count(status, MPI_BYTE, &count);
	check("a message", buf, (size_t)count, status->MPI_SOURCE, -1, rank_in(comm));
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
	if (type == MPI_BYTE)
		fill((void *)(uintptr_t)buf, length(count, type), rank_in(comm), -1);
	return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	/* The same bytes as an earlier send from here that may still be under way. */
	if (type == MPI_BYTE)
		fill((void *)(uintptr_t)buf, length(count, type), rank_in(comm), -1);
	return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	     MPI_Status *status)
{
	MPI_Status own;
	int rc;

	if (type != MPI_BYTE)
		return PMPI_Recv(buf, count, type, source, tag, comm, status);
	if (!receives)
		memset(buf, BLANK, length(count, type));
	rc = PMPI_Recv(buf, count, type, source, tag, comm, &own);
	arrived(buf, comm, &own);
	if (status != MPI_STATUS_IGNORE)
		*status = own;
	return rc;
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	struct pending *p;
	int rc;

	if (type != MPI_BYTE)
		return PMPI_Irecv(buf, count, type, source, tag, comm, request);
	if (!receives) /* else it may hold what another receive is about to report */
		memset(buf, BLANK, length(count, type));
	rc = PMPI_Irecv(buf, count, type, source, tag, comm, request);
	p = malloc(sizeof(*p));
	if (!p)
		abort();
	*p = (struct pending){*request, buf, comm, receives};
	receives = p;
	return rc;
}

static struct pending *take(MPI_Request request)
{
	for (struct pending **p = &receives; *p; p = &(*p)->next) {
		struct pending *found = *p;

		if (found->request == request) {
			*p = found->next;
			return found;
		}
	}
	return NULL;
}

static void completed(struct pending *p, const MPI_Status *status)
{
	if (!p)
		return;
	arrived(p->buf, p->comm, status);
	free(p);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	struct pending *p = take(*request);
	MPI_Status own;
	int rc = PMPI_Wait(request, &own);

	completed(p, &own);
	if (status != MPI_STATUS_IGNORE)
		*status = own;
	return rc;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
	MPI_Status *own = calloc((size_t)count + 1, sizeof(*own));
	struct pending **p = calloc((size_t)count + 1, sizeof(struct pending *));
	int rc;

	for (int i = 0; i < count; i++)
		p[i] = requests[i] == MPI_REQUEST_NULL ? NULL : take(requests[i]);
	rc = PMPI_Waitall(count, requests, own);
	for (int i = 0; i < count; i++) {
		completed(p[i], &own[i]);
		if (statuses != MPI_STATUSES_IGNORE)
			statuses[i] = own[i];
	}
	free(own);
	free(p);
	return rc;
}

int MPI_Sendrecv(const void *sbuf, int scount, MPI_Datatype stype, int dest, int stag, void *rbuf,
		 int rcount, MPI_Datatype rtype, int source, int rtag, MPI_Comm comm,
		 MPI_Status *status)
{
	MPI_Status own;
	int rc;

	if (stype != MPI_BYTE || rtype != MPI_BYTE)
		return PMPI_Sendrecv(sbuf, scount, stype, dest, stag, rbuf, rcount, rtype, source,
				     rtag, comm, status);
	fill((void *)(uintptr_t)sbuf, length(scount, stype), rank_in(comm), -1);
	memset(rbuf, BLANK, length(rcount, rtype));
	rc = PMPI_Sendrecv(sbuf, scount, stype, dest, stag, rbuf, rcount, rtype, source, rtag, comm,
			   &own);
	arrived(rbuf, comm, &own);
	if (status != MPI_STATUS_IGNORE)
		*status = own;
	return rc;
}

/* --- collectives ------------------------------------------------------------- */

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	size_t len = length(count, type);
	int me = rank_in(comm), rc;

	if (type != MPI_BYTE)
		return PMPI_Bcast(buf, count, type, root, comm);
	if (me == root)
		fill(buf, len, root, -1);
	else
		memset(buf, BLANK, len);
	rc = PMPI_Bcast(buf, count, type, root, comm);
	check("MPI_Bcast", buf, len, root, -1, me);
	return rc;
}

static float term(int rank, size_t i)
{
	return (float)(rank + 1) * (float)(i % 7 + 1);
}

static void terms(const void *buf, int count, int rank)
{
	float *f = (float *)(uintptr_t)buf;

	for (size_t i = 0; i < (size_t)count; i++)
		f[i] = term(rank, i);
}

/* `first`: the place of buf[0] in the whole vector. */
static void sums(const char *what, const float *f, int count, size_t first, MPI_Comm comm)
{
	int n = size_of(comm), me = rank_in(comm);

	for (size_t i = 0; i < (size_t)count; i++)
		if (f[i] != (float)(n * (n + 1) / 2) * (float)((first + i) % 7 + 1))
			wrong(what, -1, me, (size_t)count * sizeof(float), i * sizeof(float));
	messages++;
	bytes += (unsigned long long)count * sizeof(float);
}

static int summed(MPI_Datatype type, MPI_Op op, const void *sbuf)
{
	return type == MPI_FLOAT && op == MPI_SUM && sbuf != MPI_IN_PLACE;
}

int MPI_Allreduce(const void *sbuf, void *rbuf, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	int rc;

	if (!summed(type, op, sbuf))
		return PMPI_Allreduce(sbuf, rbuf, count, type, op, comm);
	terms(sbuf, count, rank_in(comm));
	rc = PMPI_Allreduce(sbuf, rbuf, count, type, op, comm);
	sums("MPI_Allreduce", rbuf, count, 0, comm);
	return rc;
}

int MPI_Reduce(const void *sbuf, void *rbuf, int count, MPI_Datatype type, MPI_Op op, int root,
	       MPI_Comm comm)
{
	int rc;

	if (!summed(type, op, sbuf))
		return PMPI_Reduce(sbuf, rbuf, count, type, op, root, comm);
	terms(sbuf, count, rank_in(comm));
	rc = PMPI_Reduce(sbuf, rbuf, count, type, op, root, comm);
	if (rank_in(comm) == root)
		sums("MPI_Reduce", rbuf, count, 0, comm);
	return rc;
}

int MPI_Reduce_scatter(const void *sbuf, void *rbuf, const int counts[], MPI_Datatype type,
		       MPI_Op op, MPI_Comm comm)
{
	int me = rank_in(comm), n = size_of(comm), total = 0, first = 0, rc;

	if (!summed(type, op, sbuf))
		return PMPI_Reduce_scatter(sbuf, rbuf, counts, type, op, comm);
	for (int i = 0; i < n; i++) {
		if (i == me)
			first = total;
		total += counts[i];
	}
	terms(sbuf, total, me);
	rc = PMPI_Reduce_scatter(sbuf, rbuf, counts, type, op, comm);
	sums("MPI_Reduce_scatter", rbuf, counts[me], (size_t)first, comm);
	return rc;
}

static void check_blocks(const char *what, const unsigned char *p, size_t len, int to,
			 MPI_Comm comm)
{
	for (int i = 0; i < size_of(comm); i++)
		check(what, p + (size_t)i * len, len, i, to, rank_in(comm));
}

int MPI_Allgather(const void *sbuf, int scount, MPI_Datatype stype, void *rbuf, int rcount,
		  MPI_Datatype rtype, MPI_Comm comm)
{
	size_t len = length(scount, stype);
	int rc;

	if (stype != MPI_BYTE || sbuf == MPI_IN_PLACE)
		return PMPI_Allgather(sbuf, scount, stype, rbuf, rcount, rtype, comm);
	fill((void *)(uintptr_t)sbuf, len, rank_in(comm), -1);
	memset(rbuf, BLANK, len * (size_t)size_of(comm));
	rc = PMPI_Allgather(sbuf, scount, stype, rbuf, rcount, rtype, comm);
	check_blocks("MPI_Allgather", rbuf, len, -1, comm);
	return rc;
}

int MPI_Allgatherv(const void *sbuf, int scount, MPI_Datatype stype, void *rbuf,
		   const int rcounts[], const int displs[], MPI_Datatype rtype, MPI_Comm comm)
{
	int rc;

	if (stype != MPI_BYTE || rtype != MPI_BYTE || sbuf == MPI_IN_PLACE)
		return PMPI_Allgatherv(sbuf, scount, stype, rbuf, rcounts, displs, rtype, comm);
	fill((void *)(uintptr_t)sbuf, (size_t)scount, rank_in(comm), -1);
	rc = PMPI_Allgatherv(sbuf, scount, stype, rbuf, rcounts, displs, rtype, comm);
	for (int i = 0; i < size_of(comm); i++)
		check("MPI_Allgatherv", (char *)rbuf + displs[i], (size_t)rcounts[i], i, -1,
		      rank_in(comm));
	return rc;
}

int MPI_Gather(const void *sbuf, int scount, MPI_Datatype stype, void *rbuf, int rcount,
	       MPI_Datatype rtype, int root, MPI_Comm comm)
{
	size_t len = length(scount, stype);
	int rc;

	if (stype != MPI_BYTE || sbuf == MPI_IN_PLACE)
		return PMPI_Gather(sbuf, scount, stype, rbuf, rcount, rtype, root, comm);
	fill((void *)(uintptr_t)sbuf, len, rank_in(comm), -1);
	rc = PMPI_Gather(sbuf, scount, stype, rbuf, rcount, rtype, root, comm);
	if (rank_in(comm) == root)
		check_blocks("MPI_Gather", rbuf, len, -1, comm);
	return rc;
}

int MPI_Scatter(const void *sbuf, int scount, MPI_Datatype stype, void *rbuf, int rcount,
		MPI_Datatype rtype, int root, MPI_Comm comm)
{
	size_t len = length(rcount, rtype);
	int me = rank_in(comm), rc;

	if (rtype != MPI_BYTE || rbuf == MPI_IN_PLACE)
		return PMPI_Scatter(sbuf, scount, stype, rbuf, rcount, rtype, root, comm);
	if (me == root)
		for (int i = 0; i < size_of(comm); i++)
			fill((char *)(uintptr_t)sbuf + (size_t)i * len, len, root, i);
	memset(rbuf, BLANK, len);
	rc = PMPI_Scatter(sbuf, scount, stype, rbuf, rcount, rtype, root, comm);
	check("MPI_Scatter", rbuf, len, root, me, me);
	return rc;
}

int MPI_Alltoall(const void *sbuf, int scount, MPI_Datatype stype, void *rbuf, int rcount,
		 MPI_Datatype rtype, MPI_Comm comm)
{
	size_t len = length(scount, stype);
	int rc;

	if (stype != MPI_BYTE || sbuf == MPI_IN_PLACE)
		return PMPI_Alltoall(sbuf, scount, stype, rbuf, rcount, rtype, comm);
	for (int i = 0; i < size_of(comm); i++)
		fill((char *)(uintptr_t)sbuf + (size_t)i * len, len, rank_in(comm), i);
	memset(rbuf, BLANK, len * (size_t)size_of(comm));
	rc = PMPI_Alltoall(sbuf, scount, stype, rbuf, rcount, rtype, comm);
	check_blocks("MPI_Alltoall", rbuf, len, rank_in(comm), comm);
	return rc;
}

int MPI_Finalize(void)
{
	unsigned long long mine[2] = {messages, bytes}, all[2];

	PMPI_Reduce(mine, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank_in(MPI_COMM_WORLD)) {
		printf("imbcheck: %llu messages, %llu bytes as they should be\n", all[0], all[1]);
		fflush(stdout);
	}
	return PMPI_Finalize();
}
