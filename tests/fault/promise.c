/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * promise.c: see promise.h. Test program and ranks share one page. Processes of their own, one for
 * each core, which end with the test program, write `stalled`; the test program writes `at_death`,
 * each rank its own `at_notice`.
 */
#include "fault/promise.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS	  1000000u
#define JITTER_NS 100000u /* a timer is no more exact than that */
#define CORES	  32	  /* are watched */

struct moment {
	uint64_t when, waited, stalled; /* ns; the latter two: since it all began */
};

static struct {
	_Atomic uint64_t stalled;
	_Atomic uint64_t counted_to; /* the time up to which stalls of any core are counted */
	struct moment at_death[RANKS], at_notice[RANKS];
} * shared;

/* No time counts twice, however many cores stood still in it. */
static void count_stall(uint64_t from, uint64_t to)
{
	uint64_t counted = atomic_load(&shared->counted_to), begin;

	do {
		if (counted >= to)
			return;
		begin = from > counted ? from : counted;
	} while (!atomic_compare_exchange_weak(&shared->counted_to, &counted, to));
	atomic_fetch_add(&shared->stalled, to - begin);
}

/* Never returns. With a priority above all others, where that is allowed, it oversleeps only
 * if the core does. */
static _Noreturn void watch(int core, pid_t parent)
{
	static const struct timespec nap = {.tv_nsec = NAP_NS};
	static const struct sched_param first = {.sched_priority = 1};
	cpu_set_t mine;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&mine);
	CPU_SET(core, &mine);
	sched_setaffinity(0, sizeof mine, &mine);
	sched_setscheduler(0, SCHED_FIFO, &first);
	while (getppid() == parent) {
		uint64_t due = bl_clock_ns() + NAP_NS, now;

		nanosleep(&nap, NULL);
		now = bl_clock_ns();
		if (now > due + JITTER_NS)
			count_stall(due, now);
	}
	_exit(0);
}

void promise_watch(void)
{
	pid_t parent = getpid(), pid;
	int watched = 0;
	cpu_set_t ours;

	if (shared)
		return;
	assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	fflush(NULL);
	for (int core = 0; core < CPU_SETSIZE && watched < CORES; core++) {
		if (!CPU_ISSET(core, &ours))
			continue;
		watched++;
		pid = fork(); /* no thread: ranks are forked from here */
		assert_true(pid >= 0);
		if (!pid)
			watch(core, parent);
	}
}

/* ns that this thread has waited for a core. */
static bool waited(const char *thread, uint64_t *ns)
{
	unsigned long on_core, off_core;
	char path[320], text[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%s/schedstat", thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	if (sscanf(text, "%lu %lu", &on_core, &off_core) != 2)
		return false;
	*ns += off_core;
	return true;
}

/* Of a rank: its own thread, and the service thread, which it waits for while it connects. */
static struct moment moment_of(int rank)
{
	struct moment m = {.when = bl_clock_ns(), .stalled = atomic_load(&shared->stalled)};
	struct dirent *entry;
	char path[300];
	DIR *tasks;

	snprintf(path, sizeof path, "/proc/%d/task", (int)world->pid[rank]);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof path, "/proc/%d/task/%.16s", (int)world->pid[rank],
			 entry->d_name);
		if (entry->d_name[0] != '.')
			waited(path, &m.waited);
	}
	if (tasks)
		closedir(tasks);
	return m;
}

void promise_died(int victim)
{
	for (int rank = 0; rank < RANKS; rank++)
		if (rank != victim && atomic_load(&world->here[rank]))
			shared->at_death[rank] = moment_of(rank);
}

void promise_await_death(int victim)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)world_pid[victim], &info, WEXITED | WNOWAIT), 0);
	promise_died(victim);
}

uint64_t promise_late(int rank)
{
	const struct moment *from = &shared->at_death[rank], *to = &shared->at_notice[rank];
	uint64_t allowed = to->waited - from->waited + to->stalled - from->stalled;

	if (to->when <= from->when || to->when - from->when <= allowed)
		return 0;
	return to->when - from->when - allowed;
}

bool promise_can_be_judged(void)
{
	uint64_t ns = 0;

	return waited("/proc/self", &ns);
}

void promise_judge(uint64_t latest)
{
	if (!promise_can_be_judged())
		print_message("             not judged: there is no /proc/PID/schedstat\n");
	else
		assert_true(latest <= PROMISED_NS * SLOWER);
}

void promise_noticed(int rank)
{
	if (shared)
		shared->at_notice[rank] = moment_of(rank);
}
