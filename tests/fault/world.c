/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * world.c: see world.h.
 */
#include "fault/world.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct world_shared *world;
pid_t world_pid[RANKS];
static int started;

struct bl_domain *domain;
struct bl_av *av;
struct bl_cq *cq;
struct bl_ep *ep;
uint64_t world_index[RANKS];

/* --- test program --------------------------------------------------------- */

void world_start_rank(int rank, void (*run)(int rank))
{
	fflush(NULL);
	world_pid[rank] = fork();
	assert_true(world_pid[rank] >= 0);
	if (world_pid[rank])
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL); /* cmocka's handlers are the parent's */
	run(rank);
	_exit(0);
}

void world_start(int count, void (*run)(int rank))
{
	if (!world) {
		world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(world, MAP_FAILED);
	}
	memset(world, 0, sizeof *world);
	started = count;
	for (int rank = 0; rank < count; rank++)
		world_start_rank(rank, run);
}

static void kill_all(void)
{
	for (int rank = 0; rank < started; rank++)
		if (world_pid[rank] > 0) {
			kill(world_pid[rank], SIGKILL);
			waitpid(world_pid[rank], NULL, 0);
			world_pid[rank] = 0;
		}
}

static void say_why(void)
{
	for (int rank = 0; rank < started; rank++)
		if (world->why[rank][0])
			print_error("rank %d: %s\n", rank, world->why[rank]);
}

void world_fail(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	kill_all();
	say_why();
	fail_msg("%s", text);
}

static bool anybody_failed(void)
{
	for (int rank = 0; rank < started; rank++)
		if (world->why[rank][0])
			return true;
	return false;
}

void world_until(bool (*condition)(void), const char *what)
{
	struct deadline late = deadline_in(WORLD_NS);

	while (!condition()) {
		if (anybody_failed() || deadline_over(&late))
			world_fail("waiting for: %s", what);
		usleep(200);
	}
}

/* An abstract socket of the rank that still exists, or NULL. */
static const char *socket_left(int rank)
{
	static char line[512];
	FILE *f = fopen("/proc/net/unix", "r");
	char id[33];

	assert_non_null(f);
	for (int i = 0; i < 16; i++)
		snprintf(id + 2 * i, 3, "%02x", world->addr[rank].id[i]);
	while (fgets(line, sizeof line, f))
		if (strstr(line, id)) {
			fclose(f);
			return line;
		}
	fclose(f);
	return NULL;
}

/* A file that the rank may have made, or NULL: it names the library, and the rank
 * by its process or its endpoint. */
static const char *file_left(const char *folder, int rank)
{
	static char name[512];
	DIR *dir = opendir(folder);
	char pid[16], id[9];
	struct dirent *entry;
	bool found = false;

	if (!dir)
		return NULL;
	/* In a namespace of its own it may be number 1, as many a name has it. */
	snprintf(pid, sizeof pid, "-%u", world->addr[rank].pid);
	if (world->addr[rank].pid < 100)
		snprintf(pid, sizeof pid, "no number");
	for (int i = 0; i < 4; i++)
		snprintf(id + 2 * i, 3, "%02x", world->addr[rank].id[i]);
	while (!found && (entry = readdir(dir))) {
		snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
		found = strstr(name, "beeline") && (strstr(name, pid) || strstr(name, id));
	}
	closedir(dir);
	return found ? name : NULL;
}

const char *world_left_of(int rank)
{
	const char *left;

	if (!atomic_load(&world->here[rank]))
		return NULL; /* it never had an address */
	left = socket_left(rank);
	if (!left)
		left = file_left("/dev/shm", rank);
	return left ? left : file_left("/tmp", rank);
}

void world_end(int victim)
{
	struct deadline late = deadline_in(WORLD_NS);
	bool bad = false;

	for (int rank = 0; rank < started; rank++) {
		pid_t pid = world_pid[rank];
		int status = 0;

		while (pid > 0 && !waitpid(pid, &status, WNOHANG)) {
			if (deadline_over(&late)) {
				print_error("rank %d hangs\n", rank);
				kill_all();
				bad = true;
				break;
			}
			usleep(200);
		}
		world_pid[rank] = 0;
		if (rank != victim && status) {
			print_error("rank %d ended with status 0x%x\n", rank, (unsigned)status);
			bad = true;
		}
	}
	say_why();
	assert_false(bad);
	for (int rank = 0; rank < started; rank++)
		if (world_left_of(rank))
			fail_msg("left behind: %s", world_left_of(rank));
}

/* --- rank --------------------------------------------------------------------- */

bool rank_is_mad;

_Noreturn void rank_fail(int rank, const char *format, ...)
{
	va_list args;

	if (rank_is_mad)
		_exit(0);
	va_start(args, format);
	vsnprintf(world->why[rank], sizeof world->why[rank], format, args);
	va_end(args);
	_exit(1);
}

static int log_pipe = -1; /* a pipe: the limits on files are tested, too */

void rank_keep_log(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return;
	fflush(stderr);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	log_pipe = ends[0];
}

unsigned rank_logged(const char *text)
{
	static char log[65536];
	static size_t len;
	unsigned count = 0;
	ssize_t n;

	while (len < sizeof log - 1 && (n = read(log_pipe, log + len, sizeof log - 1 - len)) > 0)
		len += (size_t)n;
	log[len] = 0;
	for (const char *at = log; (at = strstr(at, text)); at++)
		count++;
	return count;
}

static int descriptors_before;

int rank_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

void rank_open(int rank, int count)
{
	struct deadline late = deadline_in(WORLD_NS);

	descriptors_before = rank_descriptors();
	RANK_CHECK(rank, !bl_domain_open(&domain));
	RANK_CHECK(rank, !bl_av_open(domain, &av));
	RANK_CHECK(rank, !bl_cq_open(domain, 0, &cq));
	RANK_CHECK(rank, !bl_ep_open(domain, &ep));
	RANK_CHECK(rank, !bl_ep_bind_av(ep, av));
	RANK_CHECK(rank, !bl_ep_bind_cq(ep, cq, BL_SEND | BL_RECV));
	RANK_CHECK(rank, !bl_ep_enable(ep));
	bl_ep_getname(ep, &world->addr[rank]);
	atomic_store(&world->here[rank], 1);
	for (int i = 0; i < count; i++) {
		while (!atomic_load(&world->here[i])) {
			if (atomic_load(&world->stop))
				_exit(0); /* nobody will */
			if (deadline_over(&late))
				rank_fail(rank, "rank %d never came", i);
			sched_yield();
		}
		RANK_CHECK(rank, !bl_av_insert(av, &world->addr[i], &world_index[i]));
	}
}

int rank_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof line, f))
		n += strstr(line, "memfd:beeline") != NULL;
	if (f)
		fclose(f);
	return n;
}

void rank_close(int rank)
{
	RANK_CHECK(rank, !bl_ep_close(ep));
	RANK_CHECK(rank, !bl_cq_close(cq));
	RANK_CHECK(rank, !bl_av_close(av));
	RANK_CHECK(rank, !bl_domain_close(domain));
	if (rank_mappings())
		rank_fail(rank, "%d mappings of shared memory are left", rank_mappings());
	if (rank_descriptors() != descriptors_before)
		rank_fail(rank, "%d descriptors were open before, %d are now", descriptors_before,
			  rank_descriptors());
}
