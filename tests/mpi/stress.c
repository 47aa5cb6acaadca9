/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stress.c: an MPI program that checks all it receives: point to point in every
 * mode and with every wildcard, probes, cancels, truncation, datatypes, collectives
 * against what one process computes, and several threads at once. Rank 0 prints
 * `ok NAME` per part; the first wrong byte ends the program.
 *
 *	stress [seed [rounds]]		stress threads [seed [rounds]]
 *
 * All ranks compute everybody's messages from the same random numbers, so that each
 * knows what it must get.
 */
#include <mpi.h>

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_SECONDS 200

static int me, n, rounds = 3;
static uint64_t seed0 = 1;
static const char *volatile part = "the start";

static _Noreturn void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void wrong(const char *fmt, ...)
{
	char text[500];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printf("not ok %s: rank %d: %s\n", part, me, text);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

static void too_late(int sig)
{
	static const char text[] = "not ok late: stress is not done in time: ";

	(void)sig;
	if (write(1, text, sizeof(text) - 1) < 0 || write(1, part, strlen(part)) < 0 ||
	    write(1, "\n", 1) < 0)
		_exit(3);
	_exit(2);
}

static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* A number that every rank knows: of message k from `from` to `to` in this round. */
static uint64_t known(int round, int from, int to, int k)
{
	return mix(mix(mix(mix(seed0 + (uint64_t)round) + (uint64_t)from) + (uint64_t)to) +
		   (uint64_t)k);
}

static size_t length_of(uint64_t x)
{
	static const size_t lens[] = {0,    8,	  39,	40,    64,    100,    232,    256,
				      1000, 4096, 8192, 16384, 20000, 100000, 300000, 1000003};
	size_t len = lens[x % (x & 256 ? 16 : 13)];

	return x & 512 ? len : len / 2 + x / 1024 % (len / 2 + 1);
}

static void fill(unsigned char *p, size_t len, uint64_t x)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)(mix(x + i / 8) >> (i % 8 * 8));
}

static unsigned char *message(uint64_t x, size_t *len)
{
	unsigned char *p = malloc(length_of(x) + 1);

	*len = length_of(x);
	fill(p, *len, x);
	return p;
}

static void verify(const unsigned char *p, const MPI_Status *st, uint64_t x, int from)
{
	size_t len = length_of(x);
	int count;

	MPI_Get_count(st, MPI_BYTE, &count);
	if ((size_t)count != len || st->MPI_SOURCE != from)
		wrong("%d bytes from rank %d, not %zu from %d", count, st->MPI_SOURCE, len, from);
	for (size_t i = 0; i < len; i++)
		if (p[i] != (unsigned char)(mix(x + i / 8) >> (i % 8 * 8)))
			wrong("byte %zu of %zu from rank %d is wrong", i, len, from);
}

static void begin(const char *name)
{
	part = name;
	alarm(LIMIT_SECONDS);
}

static void end(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	alarm(0);
	if (me == 0) {
		printf("ok %s\n", part);
		fflush(stdout);
	}
}

/* --- point to point ---------------------------------------------------------- */

struct out {
	MPI_Request *request;
	unsigned char **p;
	int count;
};

/* Starts K messages to every rank, itself included: plain, synchronous, buffered. */
static struct out send_all(MPI_Comm comm, int round, int k_each, int base_tag)
{
	struct out o = {.count = n * k_each};

	o.request = malloc(sizeof(*o.request) * (size_t)o.count);
	o.p = malloc(sizeof(*o.p) * (size_t)o.count);
	for (int i = 0; i < o.count; i++) {
		int to = (me + i) % n, k = i / n;
		uint64_t x = known(round, me, to, k);
		size_t len;

		o.p[i] = message(x, &len);
		switch (x >> 40 & 3) {
		case 0:
			MPI_Issend(o.p[i], (int)len, MPI_BYTE, to, base_tag + k, comm,
				   &o.request[i]);
			break;
		case 1:
			MPI_Ibsend(o.p[i], (int)len, MPI_BYTE, to, base_tag + k, comm,
				   &o.request[i]);
			break;
		default:
			MPI_Isend(o.p[i], (int)len, MPI_BYTE, to, base_tag + k, comm,
				  &o.request[i]);
		}
	}
	return o;
}

static void send_end(struct out *o)
{
	MPI_Waitall(o->count, o->request, MPI_STATUSES_IGNORE);
	for (int i = 0; i < o->count; i++)
		free(o->p[i]);
	free(o->request);
	free(o->p);
}

enum { EACH = 12, MOST = 1000004 };

static void directed(int round)
{
	int total = n * EACH;
	MPI_Request *request = malloc(sizeof(*request) * (size_t)total);
	unsigned char **p = malloc(sizeof(*p) * (size_t)total);
	struct out o;

	/* Some receives before the sends, some after; the later tags first. */
	for (int pass = 0; pass < 2; pass++) {
		if (pass == 1)
			o = send_all(MPI_COMM_WORLD, round, EACH, 0);
		for (int i = total - 1; i >= 0; i--) {
			int from = i % n, k = i / n;

			if ((k & 1) != pass)
				continue;
			p[i] = malloc(MOST);
			MPI_Irecv(p[i], MOST, MPI_BYTE, from, k, MPI_COMM_WORLD, &request[i]);
		}
	}
	for (int done = 0; done < total; done++) {
		MPI_Status st;
		int i;

		MPI_Waitany(total, request, &i, &st);
		verify(p[i], &st, known(round, i % n, me, i / n), i % n);
		free(p[i]);
	}
	send_end(&o);
	free(request);
	free(p);
}

/* All with one tag: a wildcard receive gets each source's messages in their order. */
static void any_source(int round)
{
	unsigned char *p = malloc(MOST);
	int *next = calloc((size_t)n, sizeof(int));
	struct out o = {.count = 0};

	o.request = malloc(sizeof(*o.request) * (size_t)(n * EACH));
	o.p = malloc(sizeof(*o.p) * (size_t)(n * EACH));
	for (int k = 0; k < EACH; k++)
		for (int to = 0; to < n; to++, o.count++) {
			size_t len;

			o.p[o.count] = message(known(round, me, to, k), &len);
			MPI_Isend(o.p[o.count], (int)len, MPI_BYTE, to, 5, MPI_COMM_WORLD,
				  &o.request[o.count]);
		}
	for (int i = 0; i < n * EACH; i++) {
		MPI_Status st;

		MPI_Recv(p, MOST, MPI_BYTE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &st);
		verify(p, &st, known(round, st.MPI_SOURCE, me, next[st.MPI_SOURCE]++),
		       st.MPI_SOURCE);
	}
	send_end(&o);
	free(next);
	free(p);
}

/* From one source with any tag: in the order they were sent. */
static void any_tag(int round)
{
	unsigned char *p = malloc(MOST);
	struct out o = send_all(MPI_COMM_WORLD, round, EACH, 100);

	for (int from = n - 1; from >= 0; from--)
		for (int k = 0; k < EACH; k++) {
			MPI_Status st;

			MPI_Recv(p, MOST, MPI_BYTE, from, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
			if (st.MPI_TAG != 100 + k)
				wrong("tag %d in the place of %d", st.MPI_TAG, 100 + k);
			verify(p, &st, known(round, from, me, k), from);
		}
	send_end(&o);
	free(p);
}

/* As large as each MPI library's own default allows them. */
static void large_tags(int round)
{
	static const int tags[] = {0, 32767, 32768, 524287, 524288, 1 << 28, (1 << 29) - 1};
	enum { TAGS = sizeof(tags) / sizeof(*tags) };
	int next = (me + 1) % n, prev = (me + n - 1) % n, found, len, *most;
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	uint64_t sent[TAGS], got;
	MPI_Request request[TAGS];

	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
	MPI_Get_library_version(version, &len);
	/* Intel MPI has more, by its own default too. */
	if (!found || *most < (strstr(version, "Intel") ? (1 << 30) - 1 : tags[TAGS - 1]))
		wrong("tags up to %d only", found ? *most : 0);
	for (int i = 0; i < TAGS; i++) {
		sent[i] = known(round, me, next, i);
		MPI_Isend(&sent[i], 8, MPI_BYTE, next, tags[i], MPI_COMM_WORLD, &request[i]);
	}
	for (int i = TAGS - 1; i >= 0; i--) {
		MPI_Status st;

		MPI_Recv(&got, 8, MPI_BYTE, i & 1 ? MPI_ANY_SOURCE : prev, tags[i], MPI_COMM_WORLD,
			 &st);
		if (got != known(round, prev, me, i) || st.MPI_TAG != tags[i] ||
		    st.MPI_SOURCE != prev)
			wrong("tag %d from %d in the place of tag %d", st.MPI_TAG, st.MPI_SOURCE,
			      tags[i]);
	}
	MPI_Waitall(TAGS, request, MPI_STATUSES_IGNORE);
}

enum { DEEP = 600 }; /* from each */

static bool is_anybodys(int round, int to, int k)
{
	return !(known(round, 0, to, k) >> 33 & 7);
}

/* Receive k, in an order of the receiver's own; some are from anybody. */
static void deep_receive(int round, int i, uint64_t *got, MPI_Request *request)
{
	int from = i % n, k = i / n;

	MPI_Irecv(&got[i], 8, MPI_BYTE, is_anybodys(round, me, k) ? MPI_ANY_SOURCE : from, 1000 + k,
		  MPI_COMM_WORLD, &request[i]);
}

/* Many receives wait, and many messages have come before theirs: each is found, the right one. */
static void deep_queues(int round)
{
	int total = n * DEEP, *order = malloc(sizeof(*order) * (size_t)total);
	uint64_t *sent = malloc(sizeof(*sent) * (size_t)total);
	uint64_t *got = malloc(sizeof(*got) * (size_t)total);
	MPI_Request *rx = malloc(sizeof(*rx) * (size_t)total);
	MPI_Request *tx = malloc(sizeof(*tx) * (size_t)total);

	for (int i = 0; i < total; i++) {
		int with = (int)(known(round, me, n, i) % (uint64_t)(i + 1));

		order[i] = order[with];
		order[with] = i;
	}
	for (int i = 0; i < total / 2; i++)
		deep_receive(round, order[i], got, rx);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < total; i++) {
		int to = order[i] % n, k = order[i] / n;

		sent[i] = known(round, me, to, k);
		MPI_Isend(&sent[i], 8, MPI_BYTE, to, 1000 + k, MPI_COMM_WORLD, &tx[i]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = total / 2; i < total; i++)
		deep_receive(round, order[i], got, rx);
	for (int i = 0; i < total; i++) {
		MPI_Status st;

		MPI_Wait(&rx[i], &st);
		if (st.MPI_TAG != 1000 + i / n ||
		    got[i] != known(round, st.MPI_SOURCE, me, i / n) ||
		    (!is_anybodys(round, me, i / n) && st.MPI_SOURCE != i % n))
			wrong("tag %d from %d in the place of %d from %d", st.MPI_TAG,
			      st.MPI_SOURCE, 1000 + i / n, i % n);
	}
	MPI_Waitall(total, tx, MPI_STATUSES_IGNORE);
	free(order);
	free(sent);
	free(got);
	free(rx);
	free(tx);
}

static void probes(int round)
{
	unsigned char *p = malloc(MOST);
	struct out o = send_all(MPI_COMM_WORLD, round, EACH, 200);

	for (int i = 0; i < n * EACH; i++) {
		MPI_Status found, st;
		int count, flag = 0;

		if (i & 1)
			MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found);
		else
			while (!flag)
				MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
					   &found);
		MPI_Get_count(&found, MPI_BYTE, &count);
		MPI_Recv(p, count, MPI_BYTE, found.MPI_SOURCE, found.MPI_TAG, MPI_COMM_WORLD, &st);
		verify(p, &st, known(round, found.MPI_SOURCE, me, found.MPI_TAG - 200),
		       found.MPI_SOURCE);
	}
	send_end(&o);
	free(p);
}

/* Matched probes: several messages are taken out of the queue, then received last
 * one first. */
static void matched_probes(int round)
{
	enum { HELD = 6 };
	unsigned char *p = malloc(MOST);
	struct out o = send_all(MPI_COMM_WORLD, round, EACH, 300);

	for (int left = n * EACH; left;) {
		int held = left < HELD ? left : HELD;
		MPI_Message m[HELD];
		MPI_Status found[HELD], st;

		for (int i = 0; i < held; i++) {
			int flag = 0;

			if (i & 1) {
				MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &m[i],
					   &found[i]);
				continue;
			}
			while (!flag)
				MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
					    &m[i], &found[i]);
		}
		for (int i = held - 1; i >= 0; i--) {
			int count;

			MPI_Get_count(&found[i], MPI_BYTE, &count);
			if (i & 1) {
				MPI_Mrecv(p, count, MPI_BYTE, &m[i], &st);
			} else {
				MPI_Request r;

				MPI_Imrecv(p, count, MPI_BYTE, &m[i], &r);
				MPI_Wait(&r, &st);
			}
			verify(p, &st,
			       known(round, found[i].MPI_SOURCE, me, found[i].MPI_TAG - 300),
			       found[i].MPI_SOURCE);
		}
		left -= held;
	}
	send_end(&o);
	free(p);
}

/* Cancelled receives take nothing; a cancelled send is either gone or arrives. */
static void cancels(int round)
{
	int next = (me + 1) % n, prev = (me + n - 1) % n, tag = 400;

	for (int i = 0; i < 40; i++) {
		MPI_Request rx, tx;
		MPI_Status st;
		int cancelled, sent = i + round, got = -1, gone, theirs;

		MPI_Irecv(&got, 1, MPI_INT, i & 1 ? MPI_ANY_SOURCE : prev, tag, MPI_COMM_WORLD,
			  &rx);
		MPI_Cancel(&rx);
		MPI_Wait(&rx, &st);
		MPI_Test_cancelled(&st, &cancelled);
		if (!cancelled)
			wrong("a receive of what nobody has sent was not cancelled");
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Isend(&sent, 1, MPI_INT, next, tag, MPI_COMM_WORLD, &tx);
		MPI_Cancel(&tx);
		MPI_Wait(&tx, &st);
		MPI_Test_cancelled(&st, &gone);
		MPI_Sendrecv(&gone, 1, MPI_INT, next, tag + 1, &theirs, 1, MPI_INT, prev, tag + 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (theirs)
			continue;
		MPI_Recv(&got, 1, MPI_INT, prev, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (got != i + round)
			wrong("got %d, not %d", got, i + round);
	}
}

static void truncation(int round)
{
	static const int lens[] = {16, 200, 5000, 20000, 300000};
	int next = (me + 1) % n, prev = (me + n - 1) % n;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < 5; i++) {
		unsigned char *out = calloc(1, (size_t)lens[i]);
		unsigned char *in = calloc(1, (size_t)lens[i] + 1);
		MPI_Request tx;
		int rc, class, v = round + i, got = 0;

		MPI_Isend(out, lens[i], MPI_BYTE, next, 500, MPI_COMM_WORLD, &tx);
		in[lens[i] / 2] = 77;
		rc = MPI_Recv(in, lens[i] / 2, MPI_BYTE, prev, 500, MPI_COMM_WORLD,
			      MPI_STATUS_IGNORE);
		MPI_Error_class(rc, &class);
		if (class != MPI_ERR_TRUNCATE)
			wrong("error class %d for %d bytes into half", class, lens[i]);
		if (in[lens[i] / 2] != 77)
			wrong("written beyond the receive");
		MPI_Wait(&tx, MPI_STATUS_IGNORE);
		MPI_Sendrecv(&v, 1, MPI_INT, next, 501, &got, 1, MPI_INT, prev, 501, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		if (got != v)
			wrong("the message after a truncated one is %d, not %d", got, v);
		free(out);
		free(in);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Every other int of a vector, large and small, into every third place. */
static void datatypes(int round)
{
	static const int counts[] = {1, 10, 1000, 40000};
	int next = (me + 1) % n, prev = (me + n - 1) % n;

	for (int c = 0; c < 4; c++) {
		int count = counts[c];
		int *out = malloc(sizeof(int) * (size_t)count * 2);
		int *in = malloc(sizeof(int) * (size_t)count * 3);
		MPI_Datatype two, three;

		MPI_Type_vector(count, 1, 2, MPI_INT, &two);
		MPI_Type_vector(count, 1, 3, MPI_INT, &three);
		MPI_Type_commit(&two);
		MPI_Type_commit(&three);
		for (int i = 0; i < count * 2; i++)
			out[i] = (i & 1 ? -1 : i / 2 * 3 + me + round);
		for (int i = 0; i < count * 3; i++)
			in[i] = -7;
		MPI_Sendrecv(out, 1, two, next, 600, in, 1, three, prev, 600, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		for (int i = 0; i < count * 3; i++)
			if (in[i] != (i % 3 ? -7 : i / 3 * 3 + prev + round))
				wrong("element %d of %d is %d", i, count, in[i]);
		MPI_Type_free(&two);
		MPI_Type_free(&three);
		free(out);
		free(in);
	}
}

/* --- collectives --------------------------------------------------------------- */

static int value(int rank, int i)
{
	return (rank + 1) * 1000 + i % 997;
}

#define SAME(what, got, want)                                                                      \
	do {                                                                                       \
		if ((got) != (want))                                                               \
			wrong("%s: %d, not %d (count %d, element %d)", what, (int)(got),           \
			      (int)(want), count, i);                                              \
	} while (0)

static void collectives_of(MPI_Comm comm, int count, int root)
{
	int size, rank, sum;
	int *a, *b;
	MPI_Request request;

	MPI_Comm_size(comm, &size);
	MPI_Comm_rank(comm, &rank);
	root %= size;
	a = malloc(sizeof(int) * (size_t)(count * size + 1));
	b = malloc(sizeof(int) * (size_t)(count * size + 1));
#define RESET()                                                                                    \
	do {                                                                                       \
		for (int i = 0; i < count * size; i++) {                                           \
			a[i] = value(rank, i);                                                     \
			b[i] = -1;                                                                 \
		}                                                                                  \
	} while (0)
	RESET();
	MPI_Bcast(a, count, MPI_INT, root, comm);
	for (int i = 0; i < count; i++)
		SAME("Bcast", a[i], value(root, i));
	RESET();
	MPI_Allreduce(a, b, count, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < count; i++) {
		sum = 0;
		for (int r = 0; r < size; r++)
			sum += value(r, i);
		SAME("Allreduce", b[i], sum);
	}
	RESET();
	MPI_Reduce(a, b, count, MPI_INT, MPI_MAX, root, comm);
	for (int i = 0; i < count && rank == root; i++)
		SAME("Reduce", b[i], value(size - 1, i));
	RESET();
	MPI_Allgather(a, count, MPI_INT, b, count, MPI_INT, comm);
	for (int i = 0; i < count * size; i++)
		SAME("Allgather", b[i], value(i / count, i % count));
	RESET();
	MPI_Alltoall(a, count, MPI_INT, b, count, MPI_INT, comm);
	for (int i = 0; i < count * size; i++)
		SAME("Alltoall", b[i], value(i / count, rank * count + i % count));
	RESET();
	MPI_Gather(a, count, MPI_INT, b, count, MPI_INT, root, comm);
	for (int i = 0; i < count * size && rank == root; i++)
		SAME("Gather", b[i], value(i / count, i % count));
	RESET();
	MPI_Scatter(a, count, MPI_INT, b, count, MPI_INT, root, comm);
	for (int i = 0; i < count; i++)
		SAME("Scatter", b[i], value(root, rank * count + i));
	RESET();
	MPI_Scan(a, b, count, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < count; i++) {
		sum = 0;
		for (int r = 0; r <= rank; r++)
			sum += value(r, i);
		SAME("Scan", b[i], sum);
	}
	RESET();
	MPI_Reduce_scatter_block(a, b, count, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < count; i++) {
		sum = 0;
		for (int r = 0; r < size; r++)
			sum += value(r, rank * count + i);
		SAME("Reduce_scatter_block", b[i], sum);
	}
	RESET();
	MPI_Iallreduce(a, b, count, MPI_INT, MPI_MIN, comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (int i = 0; i < count; i++)
		SAME("Iallreduce", b[i], value(0, i));
	MPI_Ibarrier(comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	free(a);
	free(b);
}

/* The v forms, with a different count for each pair. */
static void uneven(MPI_Comm comm, int round)
{
	int size, rank, sends = 0, receives = 0, at = 0, count = 0;
	int *sc, *sd, *rc, *rd, *a, *b;

	MPI_Comm_size(comm, &size);
	MPI_Comm_rank(comm, &rank);
	sc = calloc((size_t)size * 4, sizeof(int));
	sd = sc + size;
	rc = sd + size;
	rd = rc + size;
	for (int r = 0; r < size; r++) {
		sc[r] = (int)(known(round, rank, r, 7) % 3000);
		rc[r] = (int)(known(round, r, rank, 7) % 3000);
		sd[r] = sends;
		rd[r] = receives;
		sends += sc[r];
		receives += rc[r];
	}
	a = malloc(sizeof(int) * (size_t)(sends + 1));
	b = malloc(sizeof(int) * (size_t)(receives + 1));
	for (int r = 0; r < size; r++)
		for (int i = 0; i < sc[r]; i++)
			a[sd[r] + i] = value(rank, i) * 10 + r;
	MPI_Alltoallv(a, sc, sd, MPI_INT, b, rc, rd, MPI_INT, comm);
	for (int r = 0; r < size; r++)
		for (int i = 0; i < rc[r]; i++, at++)
			SAME("Alltoallv", b[at], value(r, i) * 10 + rank);
	free(a);
	free(b);
	free(sc);
}

static void collectives(int round)
{
	static const int counts[] = {1, 3, 64, 1000, 5000, 40000};
	MPI_Comm dup, half;

	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &half);
	for (int i = 0; i < 6; i++) {
		collectives_of(MPI_COMM_WORLD, counts[i], round + i);
		collectives_of(i & 1 ? dup : half, counts[5 - i], round + i);
	}
	uneven(dup, round);
	uneven(half, round);
	MPI_Comm_free(&dup);
	MPI_Comm_free(&half);
}

static void communicators(int round)
{
	for (int i = 0; i < 30; i++) {
		MPI_Comm c, d;
		int v = me + round, sum = 0;

		MPI_Comm_dup(MPI_COMM_WORLD, &c);
		MPI_Comm_split(c, me % 2, me, &d);
		MPI_Allreduce(&v, &sum, 1, MPI_INT, MPI_SUM, c);
		if (sum != n * (n - 1) / 2 + n * round)
			wrong("sum %d", sum);
		MPI_Barrier(d);
		MPI_Comm_free(&d);
		MPI_Comm_free(&c);
	}
}

/* --- threads -------------------------------------------------------------------- */

#define THREADS 3

struct thread {
	pthread_t id;
	int number;
	MPI_Comm own, common;
};

/* Each thread goes round the ring with its own communicator and, by tag, on one that
 * all threads share; then a wildcard receive per message. */
static void *thread_main(void *arg)
{
	struct thread *t = arg;
	unsigned char *in = malloc(MOST);
	int next = (me + 1) % n, prev = (me + n - 1) % n;

	for (int i = 0; i < 60 * rounds; i++) {
		MPI_Comm comm = i & 1 ? t->common : t->own;
		uint64_t x = known(i, me, t->number, 1), y = known(i, prev, t->number, 1);
		MPI_Request request[2];
		MPI_Status st[2];
		size_t len;
		unsigned char *out = message(x, &len);

		MPI_Irecv(in, MOST, MPI_BYTE, i % 3 ? prev : MPI_ANY_SOURCE, t->number, comm,
			  &request[0]);
		MPI_Isend(out, (int)len, MPI_BYTE, next, t->number, comm, &request[1]);
		if (i & 2) {
			MPI_Waitall(2, request, st);
		} else {
			int done = 0;

			while (!done)
				MPI_Testall(2, request, &done, st);
		}
		verify(in, &st[0], y, prev);
		free(out);
		if (i % 20 == 19)
			MPI_Barrier(t->own);
	}
	free(in);
	return NULL;
}

static void threads(void)
{
	struct thread t[THREADS];
	MPI_Comm common;

	begin("threads");
	MPI_Comm_dup(MPI_COMM_WORLD, &common);
	for (int i = 0; i < THREADS; i++) {
		t[i].number = i;
		t[i].common = common;
		MPI_Comm_dup(MPI_COMM_WORLD, &t[i].own);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i].id, NULL, thread_main, &t[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i].id, NULL);
	for (int i = 0; i < THREADS; i++)
		MPI_Comm_free(&t[i].own);
	MPI_Comm_free(&common);
	end();
}

static const struct {
	const char *name;
	void (*run)(int round);
} parts[] = {
	{"directed", directed},
	{"any_source", any_source},
	{"any_tag", any_tag},
	{"large_tags", large_tags},
	{"deep_queues", deep_queues},
	{"probes", probes},
	{"matched_probes", matched_probes},
	{"cancels", cancels},
	{"truncation", truncation},
	{"datatypes", datatypes},
	{"collectives", collectives},
	{"communicators", communicators},
};

int main(int argc, char **argv)
{
	int threaded = argc > 1 && !strcmp(argv[1], "threads"), given;
	int size = 64 << 20;
	void *buffer;

	if (argc > 1 + threaded)
		seed0 = strtoull(argv[1 + threaded], NULL, 0);
	if (argc > 2 + threaded)
		rounds = atoi(argv[2 + threaded]);
	signal(SIGALRM, too_late);
	alarm(LIMIT_SECONDS);
	MPI_Init_thread(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &given);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (threaded) {
		if (given < MPI_THREAD_MULTIPLE && !me)
			printf("skip threads: this MPI offers thread level %d\n", given);
		else if (given == MPI_THREAD_MULTIPLE)
			threads();
		MPI_Finalize();
		return 0;
	}
	buffer = malloc((size_t)size);
	MPI_Buffer_attach(buffer, size);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		begin(parts[i].name);
		for (int round = 0; round < rounds; round++) {
			parts[i].run(round);
			/* Wildcards must not see the next round. */
			MPI_Barrier(MPI_COMM_WORLD);
		}
		end();
	}
	MPI_Buffer_detach(&buffer, &size);
	free(buffer);
	MPI_Finalize();
	return 0;
}
