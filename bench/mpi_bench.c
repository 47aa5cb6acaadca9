/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * mpi_bench.c: an ordinary MPI program that measures two ranks. It knows nothing
 * of Beeline: the same binary runs over an MPI's own path and over Beeline. One
 * launch measures many sizes, so that whole launches can be interleaved.
 *
 *	mpi_bench [-t TESTS] [-s SIZES] [-m MILLISECONDS] [-r SAMPLES] [-n] [-u] [-M]
 *
 * Tests, all in nanoseconds per message:
 *  latency        half the time of a ping and its pong
 *  stream         a window of up to 64 messages one way, then one back: message
 *                 rate where they are short, bandwidth where they are long
 *  exchange       MPI_Sendrecv of both ranks at once, as neighbours in a grid do
 *  bidirectional  windows as in stream, both ways at once; per pair of messages
 * Each size takes MILLISECONDS (20) in all, from 1 MiB on five times as long, or as long as two
 * rounds a sample do.
 * Before a size is measured its data is sent once and every byte compared, unless
 * -n says not to (a launch before this one did).
 * With -M MPI is asked for MPI_THREAD_MULTIPLE, as mpi4py always does, and locks in each call.
 * With -u messages are used: each is written to before it is sent, in each of its lines, and
 * read so when it has come, which is part of the time. Otherwise nobody looks at their bytes,
 * as in other benchmarks: then what one processor copies from the other's memory, or to it, may
 * lie in its own caches since the time before, and what a message leaves in whose cache doesn't
 * count. The buffers belong to the process; there is one thread.
 */
#include <mpi.h>

#include <fcntl.h>

#include "apart.h"
#include "report.h"

#define WINDOW	     64
#define WINDOW_BYTES ((size_t)64 << 20) /* a window holds at most this much */
#define LONG_SIZE    ((size_t)1 << 20)
#define LONG_TIMES   5
#define TAG_DATA     7
#define TAG_ACK	     8

struct pair {
	int rank; /* 0 or 1; the other is 1 - rank */
	unsigned char *out;
	unsigned char *in;
	MPI_Request request[2 * WINDOW];
	struct apart apart;
	bool used;
	uint32_t count; /* what is written next */
};

struct test {
	const char *name;
	int windowed;
	int both_send;
	/* One round; every rank calls it with the same size and window. */
	void (*round)(struct pair *pair, size_t size, int window);
	int messages_in_turn; /* messages that one round sends one after the other, if not a window
			       */
};

#define LINE 64u /* bytes */

/* Messages to be sent get new bytes, if they are used. */
static void write_out(struct pair *pair, size_t len)
{
	if (!pair->used)
		return;
	pair->count++;
	for (size_t i = 0; i + sizeof pair->count <= len; i += LINE)
		memcpy(pair->out + i, &pair->count, sizeof pair->count);
}

/* Those that have come are read. */
static void read_in(struct pair *pair, size_t len)
{
	if (!pair->used)
		return;
	for (size_t i = 0; i < len; i += LINE)
		(void)*(volatile unsigned char *)(pair->in + i);
}

static void latency_round(struct pair *pair, size_t size, int window)
{
	int other = 1 - pair->rank, n = (int)size;

	(void)window;
	if (pair->rank == 0) {
		write_out(pair, size);
		MPI_Send(pair->out, n, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD);
		MPI_Recv(pair->in, n, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		read_in(pair, size);
	} else {
		MPI_Recv(pair->in, n, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		read_in(pair, size);
		write_out(pair, size);
		MPI_Send(pair->out, n, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD);
	}
}

static void stream_round(struct pair *pair, size_t size, int window)
{
	int other = 1 - pair->rank, n = (int)size;
	unsigned char ack = 0;

	if (pair->rank == 0) {
		write_out(pair, size * (size_t)window);
		for (int i = 0; i < window; i++)
			MPI_Isend(pair->out + (size_t)i * size, n, MPI_BYTE, other, TAG_DATA,
				  MPI_COMM_WORLD, &pair->request[i]);
		MPI_Waitall(window, pair->request, MPI_STATUSES_IGNORE);
		MPI_Recv(&ack, 1, MPI_BYTE, other, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		for (int i = 0; i < window; i++)
			MPI_Irecv(pair->in + (size_t)i * size, n, MPI_BYTE, other, TAG_DATA,
				  MPI_COMM_WORLD, &pair->request[i]);
		MPI_Waitall(window, pair->request, MPI_STATUSES_IGNORE);
		read_in(pair, size * (size_t)window);
		MPI_Send(&ack, 1, MPI_BYTE, other, TAG_ACK, MPI_COMM_WORLD);
	}
}

static void exchange_round(struct pair *pair, size_t size, int window)
{
	int other = 1 - pair->rank, n = (int)size;

	(void)window;
	write_out(pair, size);
	MPI_Sendrecv(pair->out, n, MPI_BYTE, other, TAG_DATA, pair->in, n, MPI_BYTE, other,
		     TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	read_in(pair, size);
}

static void bidirectional_round(struct pair *pair, size_t size, int window)
{
	int other = 1 - pair->rank, n = (int)size;

	write_out(pair, size * (size_t)window);
	for (int i = 0; i < window; i++)
		MPI_Irecv(pair->in + (size_t)i * size, n, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD,
			  &pair->request[i]);
	for (int i = 0; i < window; i++)
		MPI_Isend(pair->out + (size_t)i * size, n, MPI_BYTE, other, TAG_DATA,
			  MPI_COMM_WORLD, &pair->request[window + i]);
	MPI_Waitall(2 * window, pair->request, MPI_STATUSES_IGNORE);
	read_in(pair, size * (size_t)window);
}

static const struct test tests[] = {
	{"latency", 0, 1, latency_round, 2},
	{"stream", 1, 0, stream_round, 0},
	{"exchange", 0, 1, exchange_round, 1},
	{"bidirectional", 1, 1, bidirectional_round, 0},
};
#define TESTS (sizeof(tests) / sizeof(tests[0]))

static int window_of(const struct test *test, size_t size)
{
	if (!test->windowed)
		return 1;
	if (size * WINDOW <= WINDOW_BYTES)
		return WINDOW;
	return size >= WINDOW_BYTES ? 1 : (int)(WINDOW_BYTES / size);
}

static void verify(struct pair *pair, const struct test *test, size_t size, int window)
{
	uint32_t seed = (uint32_t)(test - tests) * 1000 + (uint32_t)size;
	bool used = pair->used;

	for (int i = 0; i < window; i++) {
		bench_fill(pair->out + (size_t)i * size, size, seed + 2 * (uint32_t)i + pair->rank);
		memset(pair->in + (size_t)i * size, 0xee, size);
	}
	pair->used = false; /* it has bytes of its own */
	test->round(pair, size, window);
	pair->used = used;
	if (!test->both_send && pair->rank == 0)
		return;
	for (int i = 0; i < window; i++) {
		size_t at = bench_check(pair->in + (size_t)i * size, size,
					seed + 2 * (uint32_t)i + (1 - pair->rank));
		if (at != size) {
			printf("corrupt %s %zu message %d byte %zu rank %d\n", test->name, size, i,
			       at, pair->rank);
			fflush(stdout);
			MPI_Abort(MPI_COMM_WORLD, 3);
		}
	}
}

/* Nanoseconds per message over this many rounds. */
static double timed(struct pair *pair, const struct test *test, size_t size, int window,
		    long rounds)
{
	int messages = test->windowed ? window : test->messages_in_turn;

	MPI_Barrier(MPI_COMM_WORLD);
	double start = bench_now();
	for (long i = 0; i < rounds; i++)
		test->round(pair, size, window);
	return (bench_now() - start) / (double)rounds / messages;
}

/* Rounds in one sample, so that all samples take about this long; rank 0 decides. What it tries is
 * the warm-up as well, of as many messages as other benchmarks take: pages, caches, connections,
 * and whatever a library does the first times it sees a buffer. */
static long rounds_for(struct pair *pair, const struct test *test, size_t size, int window,
		       double ns_per_sample)
{
	long probe = size * (size_t)window <= 16384 ? 100 : window > 1 ? 2 : 16;
	int messages = test->windowed ? window : test->messages_in_turn;
	double each = timed(pair, test, size, window, probe) * messages;
	long rounds = (long)(ns_per_sample / each);

	if (rounds < 2)
		rounds = 2;
	MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	return rounds;
}

static void measure(struct pair *pair, const struct test *test, size_t size, double ns_per_size,
		    int samples, bool check)
{
	int window = window_of(test, size);
	double ns[BENCH_SAMPLES_MAX], apart[BENCH_SAMPLES_MAX];

	/* As large as they have to be: where malloc takes memory from, and in pages of what size,
	 * depends on it, and is part of what a program of messages of this size sees. */
	pair->out = bench_alloc(size * (size_t)window, 1);
	pair->in = bench_alloc(size * (size_t)window, 2);
	if (check)
		verify(pair, test, size, window);
	if (size >= LONG_SIZE)
		ns_per_size *= LONG_TIMES;
	long rounds = rounds_for(pair, test, size, window, ns_per_size / samples);
	for (int i = 0; i < samples; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		apart[i] = apart_ns(&pair->apart);
		ns[i] = timed(pair, test, size, window, rounds);
	}
	if (pair->rank == 0)
		apart_sample(test->name, size, ns, apart, samples);
	free(pair->out);
	free(pair->in);
}

/* A line that both ranks can see, or NULL. */
static struct apart_line *share_line(int rank)
{
	char name[64] = "";
	int fd = -1, good, both;
	void *line = MAP_FAILED;

	if (rank == 0) {
		snprintf(name, sizeof(name), "/dev/shm/beeline-bench-%d", (int)getpid());
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0 && ftruncate(fd, sizeof(struct apart_line)))
			fprintf(stderr, "mpi_bench: %s: %s\n", name, strerror(errno));
	}
	MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank != 0)
		fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		line = mmap(NULL, sizeof(struct apart_line), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			    0);
		close(fd);
	}
	good = line != MAP_FAILED;
	MPI_Allreduce(&good, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (rank == 0 && fd >= 0)
		unlink(name);
	return both ? line : NULL;
}

static const struct test *find_test(const char *name, size_t length)
{
	for (size_t i = 0; i < TESTS; i++)
		if (strlen(tests[i].name) == length && !strncmp(tests[i].name, name, length))
			return &tests[i];
	return NULL;
}

struct options {
	const char *names;
	struct bench_sizes sizes;
	double ms;
	int samples;
	bool check, used, multiple;
};

/* Before MPI_Init_thread(), which needs one of them. False: they are wrong. */
static bool parse(struct options *o, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "t:s:m:r:nuM")) != -1) {
		if (option == 't')
			o->names = optarg;
		else if (option == 's' && bench_parse_sizes(optarg, &o->sizes))
			continue;
		else if (option == 'm' && atof(optarg) > 0)
			o->ms = atof(optarg);
		else if (option == 'r' && atoi(optarg) > 0 && atoi(optarg) <= BENCH_SAMPLES_MAX)
			o->samples = atoi(optarg);
		else if (option == 'n')
			o->check = false;
		else if (option == 'u')
			o->used = true;
		else if (option == 'M')
			o->multiple = true;
		else
			return false;
	}
	return true;
}

static void begin(struct options *o, int argc, char **argv)
{
	bool right;
	int wanted, provided;

	*o = (struct options){.names = "latency,stream,exchange,bidirectional"};
	o->ms = 20;
	o->samples = 5;
	o->check = true;
	bench_parse_sizes("0,8,64,1024,16384,262144,4194304", &o->sizes);
	right = parse(o, argc, argv);
	wanted = o->multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
	MPI_Init_thread(&argc, &argv, wanted, &provided);
	if (!right) {
		fprintf(stderr, "usage: mpi_bench [-t TESTS] [-s SIZES] [-m MILLISECONDS] "
				"[-r SAMPLES] [-n] [-u] [-M]\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	if (provided < wanted) {
		fprintf(stderr, "mpi_bench: -M: this MPI has no MPI_THREAD_MULTIPLE\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
}

int main(int argc, char **argv)
{
	struct options o;
	struct pair pair;
	int ranks;

	begin(&o, argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &pair.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2 || bench_largest(&o.sizes) > INT32_MAX) {
		fprintf(stderr, "mpi_bench: needs 2 ranks, and sizes below 2 GiB\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	pair.used = o.used;
	pair.count = 0;
	pair.apart = (struct apart){.line = share_line(pair.rank), .first = pair.rank == 0};
	report_all(pair.rank);
	for (const char *name = o.names; *name;) {
		size_t length = strcspn(name, ",");
		const struct test *test = find_test(name, length);

		if (!test) {
			fprintf(stderr, "mpi_bench: no test is called %.*s\n", (int)length, name);
			MPI_Abort(MPI_COMM_WORLD, 2);
			return 2;
		}
		for (int i = 0; i < o.sizes.count; i++)
			measure(&pair, test, o.sizes.value[i], o.ms * 1e6, o.samples, o.check);
		name += length + (name[length] == ',');
	}
	if (pair.rank == 0)
		printf("done\n");
	MPI_Finalize();
	return 0;
}
