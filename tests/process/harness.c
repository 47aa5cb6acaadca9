/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * harness.c: runs cases (see harness.h). The parent owns the processes, their
 * sockets and the deadline; a child owns its page of text. One thread enters,
 * but for t_fail, t_skip and t_at, which any thread of a child may call.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define USUAL_SECONDS 20
#define LOOK_SECONDS  1
#define SLOT_TEXT     1000
#define GATHER_MAX    8192 /* bytes that one process may give to t_allgather */

enum verdict { RUNNING, FAILED, SKIPPED };

/* One page of text per process: written by the child, read by the parent. */
struct slot {
	_Atomic int verdict;
	char why[SLOT_TEXT];
	char at[SLOT_TEXT];
};

struct child {
	pid_t pid; /* 0: has ended */
	int sock;
	bool gave; /* its part of the exchange under way has arrived */
};

struct options {
	const char *match;
	const char *group;
	bool list;
	bool pin;
	bool verbose;
	int scale; /* of counts */
	int slow;  /* of deadlines */
	int repeat;
	uint64_t seed;
};

int t_rank, t_nproc;
const char *t_provider = "beeline";
bool t_beeline;

static struct options opt = {.scale = 1, .slow = 1, .repeat = 1, .seed = 1};
static uint64_t seed;	   /* of the case, this time */
static struct slot *slots; /* one per process of the case */
static int hub = -1;	   /* a child's socket to the parent */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static pid_t rank_pid; /* this rank's process, or that which began this one */

static _Noreturn void finish(int verdict, const char *text)
{
	int running = RUNNING;

	if (atomic_compare_exchange_strong(&slots[t_rank].verdict, &running, verdict)) {
		snprintf(slots[t_rank].why, SLOT_TEXT, "%s", text);
		_exit(1);
	}
	while (getpid() == rank_pid)
		pause(); /* another thread is already ending the process */
	_exit(1);	 /* a child of the rank's, which nobody would end */
}

void t_fail(const char *file, int line, const char *fmt, ...)
{
	char text[SLOT_TEXT];
	const char *slash = strrchr(file, '/');
	int n = snprintf(text, sizeof(text), "%s:%d: ", slash ? slash + 1 : file, line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	finish(FAILED, text);
}

void t_skip(const char *fmt, ...)
{
	char text[SLOT_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	finish(SKIPPED, text);
}

void t_lacks(const char *what)
{
	if (t_beeline)
		t_fail("provider", 0, "does not offer %s", what);
	t_skip("%s does not offer %s", t_provider, what);
}

void t_at(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(slots[t_rank].at, SLOT_TEXT, fmt, ap);
	va_end(ap);
}

void t_rng_init(struct t_rng *rng, uint64_t stream)
{
	rng->s = seed * 0x9e3779b97f4a7c15u + stream * 0xd1342543de82ef95u + 1;
}

uint64_t t_seed(void)
{
	return seed;
}

uint64_t t_rand(struct t_rng *rng)
{
	uint64_t z = rng->s += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t t_rand_below(struct t_rng *rng, uint64_t n)
{
	return n ? t_rand(rng) % n : 0;
}

void t_shuffle(struct t_rng *rng, int *items, int n)
{
	for (int i = n - 1; i > 0; i--) {
		int j = (int)t_rand_below(rng, (uint64_t)i + 1), x = items[i];

		items[i] = items[j];
		items[j] = x;
	}
}

int t_scaled(int n)
{
	return n * opt.scale;
}

/* --- a child's side of the exchange ------------------------------------- */

void t_allgather(const void *mine, size_t len, void *all, bool (*progress)(void))
{
	char out[GATHER_MAX + 1], in[GATHER_MAX * T_PROC_MAX + 1];
	size_t want = len * (size_t)t_nproc;
	struct pollfd pfd = {.fd = hub, .events = POLLIN};
	ssize_t n;

	T_CHECK(len <= GATHER_MAX, "t_allgather of %zu bytes", len);
	if (len)
		memcpy(out, mine, len);
	out[len] = 0; /* a packet is never empty: empty means that the other end is gone */
	if (send(hub, out, len + 1, 0) != (ssize_t)len + 1)
		T_FAIL("the parent is gone: %s", strerror(errno));
	for (int idle = 0;; idle++) {
		int ready = poll(&pfd, 1, progress ? 0 : -1);

		if (ready > 0)
			break;
		if (progress && progress())
			idle = 0;
		if (idle > 100)
			sched_yield();
	}
	n = recv(hub, in, sizeof(in), 0);
	T_CHECK(n == (ssize_t)want + 1, "exchange: got %zd bytes, not %zu", n, want + 1);
	if (want)
		memcpy(all, in, want);
}

void t_barrier_with(bool (*progress)(void))
{
	t_allgather(NULL, 0, NULL, progress);
}

/* --- the parent ---------------------------------------------------------- */

static _Noreturn void child_main(const struct t_case *c, int rank, int sock)
{
	t_rank = rank;
	rank_pid = getpid();
	hub = sock;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	/* Libraries that libfabric brings catch these and hide what happened. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	signal(SIGILL, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
#endif
	if (opt.pin) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(rank % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	c->run();
	exit(0); /* destructors run: leaks and late crashes count */
}

/* Pass the exchange on once every process has given its part. */
static int exchange(struct child *child, int n, char (*part)[GATHER_MAX + 1], size_t *len)
{
	char all[GATHER_MAX * T_PROC_MAX + 1];
	size_t total = 0;

	for (int i = 0; i < n; i++) {
		if (!child[i].gave)
			return 0;
		if (len[i] != len[0])
			return -1;
	}
	for (int i = 0; i < n; i++) {
		memcpy(all + total, part[i], len[i]);
		total += len[i];
		child[i].gave = false;
	}
	all[total] = 0;
	for (int i = 0; i < n; i++)
		if (child[i].pid)
			send(child[i].sock, all, total + 1, MSG_NOSIGNAL);
	return 0;
}

static void describe_all(char *why, size_t size, int n)
{
	size_t used = strlen(why);

	for (int i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(why + used, size - used, "; rank %d at: %s", i,
					 slots[i].at[0] ? slots[i].at : "the start");
}

/* Takes one ended child's result. Returns 1 if the case is over because of it. */
static int reap(struct child *child, int rank, int *verdict, char *why, size_t size)
{
	struct slot *slot = &slots[rank];
	int status = 0;

	waitpid(child->pid, &status, 0);
	child->pid = 0;
	close(child->sock);
	if (slot->verdict != RUNNING) {
		*verdict = slot->verdict;
		if (*verdict == FAILED)
			snprintf(why, size, "rank %d: %s", rank, slot->why);
		else
			snprintf(why, size, "%s", slot->why);
		return 1;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	*verdict = FAILED;
	if (WIFSIGNALED(status))
		snprintf(why, size, "rank %d was killed by signal %d (%s), at: %s", rank,
			 WTERMSIG(status), strsignal(WTERMSIG(status)), slot->at);
	else
		snprintf(why, size, "rank %d exited with %d without saying why, at: %s", rank,
			 WEXITSTATUS(status), slot->at);
	return 1;
}

/* Watches the processes of a case until all have ended or the case is lost. While the
 * machine stands still, or all of us are stopped, the `left` seconds don't pass. */
static int watch(struct child *child, int n, double left, char *why, size_t size)
{
	static char part[T_PROC_MAX][GATHER_MAX + 1];
	size_t len[T_PROC_MAX] = {0};
	int verdict = RUNNING, alive = n;
	double looked = now();

	while (alive) {
		struct pollfd pfd[T_PROC_MAX];
		double since = now() - looked;

		looked += since;
		left -= since < 2 * LOOK_SECONDS ? since : 2 * LOOK_SECONDS;
		if (left <= 0) {
			snprintf(why, size, "not done in time");
			describe_all(why, size, n);
			return FAILED;
		}
		for (int i = 0; i < T_PROC_MAX; i++)
			pfd[i] = (struct pollfd){.fd = i < n && child[i].pid ? child[i].sock : -1,
						 .events = i < n && child[i].gave ? 0 : POLLIN};
		if (poll(pfd, T_PROC_MAX, LOOK_SECONDS * 1000) < 0 && errno != EINTR) {
			snprintf(why, size, "poll: %s", strerror(errno));
			return FAILED;
		}
		for (int i = 0; i < n; i++) {
			ssize_t got;

			if (pfd[i].revents & POLLIN) {
				got = recv(child[i].sock, part[i], sizeof(part[i]), 0);
				if (got > 0) {
					len[i] = (size_t)got - 1;
					child[i].gave = true;
					continue;
				}
			}
			if (!(pfd[i].revents & (POLLIN | POLLHUP | POLLERR)))
				continue;
			alive--;
			if (reap(&child[i], i, &verdict, why, size))
				return verdict;
		}
		if (exchange(child, n, part, len)) {
			snprintf(why, size, "the processes exchange different lengths");
			describe_all(why, size, n);
			return FAILED;
		}
	}
	return RUNNING;
}

static int run_case(const struct t_case *c, char *why, size_t size)
{
	struct child child[T_PROC_MAX] = {0};
	size_t bytes = sizeof(struct slot) * T_PROC_MAX;
	int seconds = (c->seconds ? c->seconds : USUAL_SECONDS) * opt.slow * opt.scale;
	int verdict;

	slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	t_nproc = c->nproc;
	fflush(stdout);
	for (int i = 0; i < c->nproc; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
			perror("socketpair");
			exit(2);
		}
		child[i].pid = fork();
		if (child[i].pid < 0) {
			perror("fork");
			exit(2);
		}
		if (child[i].pid == 0) {
			close(pair[0]);
			for (int j = 0; j < i; j++)
				close(child[j].sock);
			child_main(c, i, pair[1]);
		}
		close(pair[1]);
		child[i].sock = pair[0];
	}
	verdict = watch(child, c->nproc, seconds, why, size);
	for (int i = 0; i < c->nproc; i++) {
		if (!child[i].pid)
			continue;
		kill(child[i].pid, SIGKILL);
		waitpid(child[i].pid, NULL, 0);
		close(child[i].sock);
	}
	munmap(slots, bytes);
	slots = NULL;
	return verdict;
}

static _Noreturn void usage(const char *self, int status)
{
	fprintf(status ? stderr : stdout,
		"usage: %s [-p provider] [-g group] [-n part-of-name] [-s seed] [-x scale]\n"
		"       [-w slower] [-r repeat] [-c] [-v] [-l]\n"
		"  -p  provider to test, as libfabric names it (default beeline)\n"
		"  -g  only this group        -n  only cases with this in their name\n"
		"  -s  seed of random numbers -x  multiply the work of the random cases\n"
		"  -w  multiply the deadlines -r  run each case so many times, each with the next "
		"seed\n"
		"  -c  bind rank to core      -v  print what each case is for, and its time\n"
		"  -l  list the cases\n",
		self);
	exit(status);
}

static void parse(int argc, char **argv)
{
	const char *slow = getenv("BEELINE_TEST_SLOW"); /* set by sanitizer builds */
	int ch;

	if (slow && atoi(slow) > 0)
		opt.slow = atoi(slow);
	if (getenv("BEELINE_TEST_PROVIDER"))
		t_provider = getenv("BEELINE_TEST_PROVIDER");
	while ((ch = getopt(argc, argv, "p:g:n:s:x:w:r:cvlh")) != -1) {
		switch (ch) {
		case 'p':
			t_provider = optarg;
			break;
		case 'g':
			opt.group = optarg;
			break;
		case 'n':
			opt.match = optarg;
			break;
		case 's':
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		case 'x':
			opt.scale = atoi(optarg);
			break;
		case 'w':
			opt.slow = atoi(optarg);
			break;
		case 'r':
			opt.repeat = atoi(optarg);
			break;
		case 'c':
			opt.pin = true;
			break;
		case 'v':
			opt.verbose = true;
			break;
		case 'l':
			opt.list = true;
			break;
		default:
			usage(argv[0], ch == 'h' ? 0 : 2);
		}
	}
	if (opt.scale < 1 || opt.slow < 1 || opt.repeat < 1 || optind != argc)
		usage(argv[0], 2);
	t_beeline = !strcmp(t_provider, "beeline");
}

int t_main(int argc, char **argv, const struct t_group *groups, size_t ngroups)
{
	int count[3] = {0};
	char why[SLOT_TEXT * 4];

	parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	for (size_t g = 0; g < ngroups; g++) {
		if (opt.group && strcmp(opt.group, groups[g].name))
			continue;
		for (size_t i = 0; i < groups[g].ncases * (size_t)opt.repeat; i++) {
			const struct t_case *c = &groups[g].cases[i / (size_t)opt.repeat];
			double start = now();
			int verdict;

			if (opt.match && !strstr(c->name, opt.match))
				continue;
			if (opt.list) {
				printf("%s/%s: %s\n", groups[g].name, c->name, c->why);
				continue;
			}
			why[0] = 0;
			seed = opt.seed + i % (size_t)opt.repeat;
			verdict = run_case(c, why, sizeof(why));
			count[verdict]++;
			if (verdict == RUNNING)
				printf("ok %s", c->name);
			else
				printf("%s %s: %s", verdict == FAILED ? "not ok" : "skip", c->name,
				       why);
			if (verdict == FAILED && opt.repeat > 1)
				printf(" (seed %llu)", (unsigned long long)seed);
			if (opt.verbose)
				printf("  # %.2f s: %s", now() - start, c->why);
			printf("\n");
			fflush(stdout);
		}
	}
	if (opt.list)
		return 0;
	printf("# %s: %d ok, %d not ok, %d skipped (seed %llu)\n", t_provider, count[RUNNING],
	       count[FAILED], count[SKIPPED], (unsigned long long)opt.seed);
	return count[FAILED] || !(count[RUNNING] + count[SKIPPED]);
}
