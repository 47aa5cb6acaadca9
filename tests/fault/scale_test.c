/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * scale_test.c: a thousand endpoints on one node, in few processes and in many.
 * All talk to one and it to all, each talks to eight others; nothing fails, and
 * each keeps to its footprint: 1 MiB per endpoint and 64 KiB for each neighbour
 * that it talks to, three descriptors per endpoint and none per neighbour. Silent
 * neighbours aren't looked at, whose number a poll would otherwise show: it is compared,
 * round by round, to a poll of an endpoint that has one neighbour. How long connecting took,
 * and that ratio, are printed; what fails is what only a mistake in the order of growth
 * can cost, not what a machine's caches and other work do.
 *
 * Processes share a page of counters and the table of addresses; whoever fails
 * says why there. One thread each.
 */
#include <dirent.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "endpoint/api.h"
#include "fault/deadline.h"
#include "long.h"
#include "unit/table.h"

#define MOST	    1024u
#define OTHERS	    8u
#define DEADLINE_NS 120000000000ull
#define MIB	    (1u << 20)
#define POLLS	    2000
#define ROUNDS	    31
#define ENOUGH_MIB  6144u	   /* for a thousand processes */
#define ATTEMPTS    100		   /* one undisturbed comparison is enough */
#define RATIO	    1.1		   /* promised */
#define RATIO_MOST  3.0		   /* looking at each would be hundreds */
#define CONNECT_CPU 60000000000ull /* ns, of all processes; 2 to 8 s are usual, naps included */

struct scale_row {
	struct row row;
	unsigned processes, each; /* endpoints */
	bool user; /* not root, who may have any number of descriptors on their way */
};

static const struct scale_row rows[] = {
	{{"few processes", "128 endpoints each"}, 8, 128, false},
	{{"many processes", "one endpoint each, as MPI has it"}, 1024, 1, false},
	{{"an ordinary user's", "1,024 descriptors on their way, of all processes"}, 1024, 1, true},
};

/* Whom each talks to, besides the first: so far behind it. */
static const unsigned distance[OTHERS] = {1, 2, 5, 17, 60, 130, 301, 511};

static struct shared {
	struct bl_addr addr[MOST], lone;
	_Atomic unsigned phase[16]; /* how many processes have come to it */
	_Atomic unsigned failed;
	_Atomic uint64_t began, connected; /* ns */
	_Atomic uint64_t cpu;		   /* ns, of connecting */
	double one, thousand;		   /* ns of a poll */
	uint64_t footprint, allowed;	   /* of the endpoint that came closest */
	char why[256];
} * shared;

static unsigned processes, each, total, me; /* me: the process */

/* --- a process --------------------------------------------------------------- */

static struct bl_domain *domain;
static struct bl_av *av;
static struct bl_cq *cq;
static struct bl_ep *ep[MOST];
static struct deadline late;
/* The first process has one more, which knows one neighbour only. */
static struct bl_av *lone_av;
static struct bl_cq *lone_cq;
static struct bl_ep *lone;

static _Noreturn void give_up(const char *format, ...) bl_printf(1, 2);

static _Noreturn void give_up(const char *format, ...)
{
	va_list args;

	if (!atomic_exchange(&shared->failed, 1)) {
		va_start(args, format);
		vsnprintf(shared->why, sizeof shared->why, format, args);
		va_end(args);
	}
	_exit(1);
}

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			give_up("process %u: line %d: %s", me, __LINE__, #condition);              \
	} while (0)

static unsigned nap_us = 20;
static unsigned done; /* completions of receives */

static void progress(const char *what)
{
	struct bl_comp comp[64];
	struct bl_comp_err err;
	ssize_t n = bl_cq_read(cq, comp, 64, sizeof comp[0], NULL);

	if (n == -BL_EAVAIL && bl_cq_readerr(cq, &err) == 1)
		give_up("process %u: %s: %s", me, what, strerror(err.err));
	if (n > 0)
		done += (unsigned)n;
	else
		usleep(me ? processes * nap_us : 20); /* far more to run than cores */
	if (atomic_load(&shared->failed))
		_exit(1);
	if (deadline_over(&late))
		give_up("process %u hangs: %s, %u received", me, what, done);
}

/* All processes have come here. */
static void barrier(unsigned phase, const char *what)
{
	atomic_fetch_add(&shared->phase[phase], 1);
	while (atomic_load(&shared->phase[phase]) < processes)
		progress(what);
}

static void send_one(unsigned from, unsigned to, const char *what)
{
	uint64_t bytes = from;
	int err;

	while ((err = bl_inject(ep[from - me * each], &bytes, sizeof bytes, to, to, 0,
				BL_TAGGED)) == -EAGAIN)
		progress(what);
	if (err)
		give_up("%u to %u: %s: %s", from, to, what, strerror(-err));
}

static uint64_t inbox[MOST * OTHERS];

static void expect(unsigned at, unsigned from, unsigned slot)
{
	CHECK(!bl_recv_buf(ep[at - me * each], &inbox[slot], sizeof inbox[0], from, at, 0, NULL,
			   BL_TAGGED | BL_COMPLETION));
}

static void await(unsigned count, const char *what)
{
	while (done < count)
		progress(what);
	CHECK(done == count);
	done = 0;
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* Not an endpoint's own: the address vector, and what its user has posted. */
static size_t heap_before, heap_vector, heap_posts;

static size_t heap_now(void)
{
	return mallinfo2().uordblks;
}

static void open_all(void)
{
	uint64_t index;

	CHECK(domain || !bl_domain_open(&domain));
	CHECK(!bl_av_open(domain, &av) && !bl_cq_open(domain, 0, &cq));
	for (unsigned i = 0; i < each; i++) {
		CHECK(!bl_ep_open(domain, &ep[i]) && !bl_ep_bind_av(ep[i], av));
		CHECK(!bl_ep_bind_cq(ep[i], cq, BL_RECV) && !bl_ep_enable(ep[i]));
		bl_ep_getname(ep[i], &shared->addr[me * each + i]);
	}
	barrier(0, "opening");
	heap_vector = heap_now();
	for (unsigned i = 0; i < total; i++)
		CHECK(!bl_av_insert(av, &shared->addr[i], &index) && index == i);
	heap_vector = heap_now() - heap_vector;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static double cost_of_polling(struct bl_ep *one)
{
	uint64_t t = bl_ticks();

	for (int i = 0; i < POLLS; i++)
		bl_ep_progress(one);
	return (double)(bl_ticks() - t) * 1000.0 / (double)bl_ticks_per_us() / POLLS;
}

/* ns of a poll that finds nothing, of either, in rounds in turn: of each the one that
 * the rest of the machine disturbed least. */
static void compare_polling(void)
{
	shared->one = shared->thousand = 1e9;
	for (int round = 0; round < ROUNDS; round++) {
		shared->one = least(shared->one, cost_of_polling(lone));
		shared->thousand = least(shared->thousand, cost_of_polling(ep[0]));
	}
}

static void open_lone(void)
{
	CHECK(!bl_av_open(domain, &lone_av) && !bl_cq_open(domain, 0, &lone_cq));
	CHECK(!bl_ep_open(domain, &lone) && !bl_ep_bind_av(lone, lone_av));
	CHECK(!bl_ep_bind_cq(lone, lone_cq, BL_RECV) && !bl_ep_enable(lone));
	bl_ep_getname(lone, &shared->lone);
}

static void close_lone(void)
{
	CHECK(!bl_ep_close(lone) && !bl_cq_close(lone_cq) && !bl_av_close(lone_av));
}

/* The last of all has a word with the lone one, from another process. */
static void befriend(void)
{
	uint64_t index;

	if (me == processes - 1) {
		CHECK(!bl_av_insert(av, &shared->lone, &index) && index == total);
		send_one(total - 1, total, "one neighbour");
	}
	while (!me && lone->local.npolled + lone->local.nunpolled == 0) {
		bl_ep_progress(lone);
		progress("one neighbour");
	}
	if (!me)
		atomic_store(&shared->began, bl_clock_ns());
}

static uint64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void all_to_one_and_back(void)
{
	size_t before = heap_now();
	uint64_t cpu = cpu_now();

	for (unsigned i = 0; !me && i < total; i++) /* from anybody: no neighbour is made */
		CHECK(!bl_recv_buf(ep[0], &inbox[i], sizeof inbox[0], BL_ADDR_ANY, 0, 0, NULL,
				   BL_TAGGED | BL_COMPLETION));
	heap_posts = heap_now() - before;
	for (unsigned i = me * each; i < (me + 1) * each; i++)
		send_one(i, 0, "all to one");
	if (!me)
		await(total, "all to one");
	barrier(4, "all to one");
	for (unsigned i = 0; i < each; i++)
		expect(me * each + i, 0, i);
	for (unsigned i = 0; !me && i < total; i++)
		send_one(0, i, "one to all");
	await(each, "one to all");
	atomic_fetch_add(&shared->cpu, cpu_now() - cpu);
	barrier(5, "one to all");
	if (!me)
		atomic_store(&shared->connected, bl_clock_ns());
}

static void each_to_others(void)
{
	for (unsigned i = me * each; i < (me + 1) * each; i++)
		for (unsigned k = 0; k < OTHERS; k++)
			expect(i, (i + total - distance[k] % total) % total,
			       (i - me * each) * OTHERS + k);
	for (unsigned i = me * each; i < (me + 1) * each; i++)
		for (unsigned k = 0; k < OTHERS; k++)
			send_one(i, (i + distance[k]) % total, "each to eight");
	await(each * OTHERS, "each to eight");
	barrier(6, "each to eight");
}

/* Once those that spoke last have been silent for long enough to be dropped. */
static void poll_beside_a_thousand(void)
{
	nap_us = 200; /* the first is measuring */
	if (me)
		return;
	CHECK(ep[0]->local.nunpolled + ep[0]->local.npolled >= total - 1);
	while (ep[0]->local.npolled > BL_POLLED_KEEP)
		progress("silence");
	CHECK(lone->local.nunpolled + lone->local.npolled == 1);
	for (int i = 0; i < ATTEMPTS; i++) {
		compare_polling();
		if (SLOWER > 1 || shared->thousand <= RATIO * shared->one)
			return; /* a sanitizer has its own price for each access */
	}
	if (shared->thousand <= RATIO_MOST * shared->one)
		return;
	give_up("a poll takes %.1f ns beside one neighbour, %.1f ns beside %u, %u of them looked "
		"at",
		shared->one, shared->thousand, total - 1, ep[0]->local.npolled);
}

/* Of memory that only a memfd holds. */
static uint64_t blocks_of(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	return (uint64_t)st.st_blocks * 512;
}

static uint64_t lanes_of(const struct bl_local *local)
{
	uint64_t bytes = 0;

	for (const struct bl_peer *peer = local->peers.all; peer; peer = peer->next.all)
		bytes += peer->tx.lane ? BL_LANE_SIZE : 0;
	return bytes;
}

/* What an endpoint has of its own: the memory that it shares, and its share of the heap. */
static void measure_footprint(void)
{
	size_t heap = (heap_now() - heap_before - heap_vector - heap_posts) / each;

	for (unsigned i = 0; i < each; i++) {
		const struct bl_local *local = &ep[i]->local;
		uint64_t allowed = MIB + local->nindexes * 65536ull, has;

		has = blocks_of(local->seg.fd) + blocks_of(local->seg.doorbells_fd) +
		      lanes_of(local) + heap;
		if (has > allowed)
			give_up("endpoint %u has %lu KiB with %u neighbours", me * each + i,
				(unsigned long)has / 1024, local->nindexes);
		if (!me && !i) {
			shared->footprint = has;
			shared->allowed = allowed;
		}
	}
}

static void become_ordinary(void)
{
	struct rlimit files = {1024, 1024};

	CHECK(!setrlimit(RLIMIT_NOFILE, &files));
	if (!geteuid())
		CHECK(!setgid(65534) && !setuid(65534) && !prctl(PR_SET_DUMPABLE, 1));
}

static void run(void)
{
	unsigned before = descriptors();

	heap_before = heap_now();
	late = deadline_in(DEADLINE_NS);
	if (!me) {
		CHECK(!bl_domain_open(&domain));
		open_lone();
	}
	open_all();
	barrier(1, "inserting");
	befriend();
	barrier(2, "one neighbour");
	all_to_one_and_back();
	each_to_others();
	poll_beside_a_thousand();
	if (!me)
		close_lone();
	barrier(7, "polling");
	measure_footprint();
	/* Three per endpoint; the atomics_page, the wake-up, what is kept aside for connecting. */
	if (descriptors() > before + 3 * each + 13)
		give_up("process %u: %u descriptors for %u endpoints", me, descriptors() - before,
			each);
	barrier(8, "the end");
	for (unsigned i = 0; i < each; i++)
		CHECK(!bl_ep_close(ep[i]));
	CHECK(descriptors() == before);
	_exit(0);
}

/* --- test program --------------------------------------------------------- */

static unsigned available_mib(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return (unsigned)(kib / 1024);
}

/* What this machine has room for. */
static unsigned most_processes = MOST, most_each = MOST;

/* Fewer than a thousand show nothing of a thousand: it is said. */
static void choose_size(void)
{
	unsigned mib = available_mib();

	if (SLOWER > 1) {
		most_processes = 64;
		most_each = 16;
		printf("skip 1024 endpoints: a sanitizer takes too much memory and time; 128 and "
		       "64 run\n");
	} else if (!test_long()) {
		most_processes = 256;
		most_each = 32;
		printf("skip 1024 endpoints: they are for the long run; 256 run\n");
	} else if (mib < ENOUGH_MIB) {
		most_processes = 256;
		most_each = 32;
		printf("skip 1024 endpoints: they take %u MiB of memory and %u are available; 256 "
		       "run\n",
		       ENOUGH_MIB, mib);
	}
}

static void scale(void **state)
{
	const struct scale_row *row = TABLE_ROW(struct scale_row, state);
	bool bad = false;
	pid_t pid[MOST];

	processes = (unsigned)bl_min(row->processes, most_processes);
	each = (unsigned)bl_min(row->each, most_each);
	total = processes * each;
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	fflush(NULL);
	for (me = 0; me < processes; me++) {
		pid[me] = fork();
		if (!pid[me]) {
			if (row->user)
				become_ordinary();
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run();
		}
		bad |= pid[me] < 0;
	}
	for (unsigned i = 0; i < processes; i++) {
		int status = 1;

		if (bad && pid[i] > 0)
			kill(pid[i], SIGKILL);
		if (pid[i] > 0)
			waitpid(pid[i], &status, 0);
		bad |= status != 0;
	}
	if (shared->why[0])
		print_error("%s\n", shared->why);
	assert_false(bad);
	assert_true(shared->cpu < CONNECT_CPU);
	print_message("             %u endpoints in %u processes: all connected to one and back "
		      "in %.2f s (%.2f s of all cores); polling beside one neighbour %.1f ns, "
		      "beside %u silent ones "
		      "%.1f ns (%.2fx); the busiest holds %lu KiB of %lu KiB\n",
		      total, processes, (double)(shared->connected - shared->began) / 1e9,
		      (double)shared->cpu / 1e9, shared->one, total - 1, shared->thousand,
		      shared->thousand / shared->one, (unsigned long)shared->footprint / 1024,
		      (unsigned long)shared->allowed / 1024);
	munmap(shared, sizeof *shared);
}

int main(void)
{
	choose_size();
	TABLE_ROWS("scale", scale, rows);
	return table_run("scale");
}
