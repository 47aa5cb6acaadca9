/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * world.c: see world.h.
 */
#include "transport/local/ways/rndv.h"
#include "fault/world.h"
#include "long.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct world_shared *world;
pid_t world_pid[RANKS];
unsigned world_space[RANKS];
static int started;

struct bl_domain *domain;
struct bl_av *av;
struct bl_cq *cq;
struct bl_ep *ep;
bool rank_shares;
struct bl_ep *rank_home;
uint64_t world_index[RANKS];

struct bl_peer *world_peer(int rank)
{
	struct bl_peer *peer = NULL;

	return bl_ep_resolve(ep, world_index[rank], &peer) ? NULL : peer;
}

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

/* Children live in our PID namespace again, or in a new one. */
static void choose_space(bool another)
{
	int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

	assert_true(ours >= 0);
	assert_int_equal(setns(ours, CLONE_NEWPID), 0);
	close(ours);
	if (another)
		assert_int_equal(unshare(CLONE_NEWPID), 0);
}

void world_start(int count, void (*run)(int rank))
{
	unsigned space = 0;

	if (!world) {
		world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(world, MAP_FAILED);
	}
	memset(world, 0, sizeof *world);
	started = count;
	for (int rank = 0; rank < count; rank++) {
		if (world_space[rank] != space)
			choose_space(world_space[rank]);
		space = world_space[rank];
		world_start_rank(rank, run);
	}
	if (space)
		choose_space(false);
	memset(world_space, 0, sizeof world_space);
}

/* In the short run one of so many. */
#define SHORT_OF 2

unsigned world_kills(unsigned usual)
{
	const char *text = getenv("BEELINE_KILLS");

	if (text && atoi(text) > 0)
		return (unsigned)atoi(text);
	if (!test_long() && usual > SHORT_OF)
		usual /= SHORT_OF;
	return usual > SLOWER ? usual / SLOWER : usual;
}

/* One line of a file of a thread's, without its end. */
static const char *line_of(pid_t pid, const char *tid, const char *name)
{
	static char text[3][128];
	static unsigned turn;
	char path[320], *line = text[turn++ % bl_countof(text)];
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%.16s/%s", (int)pid, tid, name);
	f = fopen(path, "r");
	if (!f || !fgets(line, sizeof text[0], f))
		snprintf(line, sizeof text[0], "?");
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = 0;
	return line;
}

/* For who looks for the cause: what each thread of a rank is at. */
static void say_where(int rank)
{
	struct dirent *entry;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof path, "/proc/%d/task", (int)world_pid[rank]);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			print_error("rank %d, %s: in %s, system call %s\n", rank,
				    line_of(world_pid[rank], entry->d_name, "comm"),
				    line_of(world_pid[rank], entry->d_name, "wchan"),
				    line_of(world_pid[rank], entry->d_name, "syscall"));
	if (tasks)
		closedir(tasks);
}

/* The first of a PID namespace last: it ends when the others have been waited for. */
static void kill_all(void)
{
	for (int rank = started - 1; rank >= 0; rank--)
		if (world_pid[rank] > 0) {
			say_where(rank);
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

/* Whether a number stands in a name by itself; "-314l6p2l" isn't process 314. */
static bool holds_number(const char *name, const char *number)
{
	size_t len = strlen(number);

	for (const char *at = name; (at = strstr(at, number)); at++)
		if ((at == name || !isalnum((unsigned char)at[-1])) &&
		    !isalnum((unsigned char)at[len]))
			return true;
	return false;
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
	snprintf(pid, sizeof pid, "%u", world->addr[rank].pid);
	if (world->addr[rank].pid < 100)
		snprintf(pid, sizeof pid, "no number");
	for (int i = 0; i < 4; i++)
		snprintf(id + 2 * i, 3, "%02x", world->addr[rank].id[i]);
	while (!found && (entry = readdir(dir))) {
		snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
		found = strstr(entry->d_name, "beeline") &&
			(holds_number(entry->d_name, pid) || strstr(entry->d_name, id));
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

/* Whether the rank is there; one that has ended is waited for, and judged. */
static bool rank_lives(int rank, bool is_victim, bool *bad)
{
	int status = 0;

	if (world_pid[rank] <= 0)
		return false;
	if (!waitpid(world_pid[rank], &status, WNOHANG))
		return true;
	world_pid[rank] = 0;
	if (status && !is_victim) {
		print_error("rank %d ended with status 0x%x\n", rank, (unsigned)status);
		*bad = true;
	}
	return false;
}

/* In any order: the first of a PID namespace ends when the others have been waited for. */
static unsigned ranks_left(int victim, bool *bad)
{
	unsigned left = 0;

	for (int rank = 0; rank < started; rank++)
		if (rank_lives(rank, rank == victim, bad))
			left |= 1u << rank;
	return left;
}

/* Until one of them ends, or a while has passed. */
static void await_exit(unsigned left)
{
	struct pollfd end[RANKS];
	nfds_t n = 0;

	for (int rank = 0; rank < started; rank++) {
		int fd = left & 1u << rank ? (int)syscall(SYS_pidfd_open, world_pid[rank], 0) : -1;

		if (fd >= 0)
			end[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	poll(end, n, 100);
	while (n)
		close(end[--n].fd);
}

void world_end(int victim)
{
	struct deadline late = deadline_in(WORLD_NS);
	bool bad = false;
	unsigned left;

	while ((left = ranks_left(victim, &bad)) && !deadline_over(&late))
		await_exit(left);
	if (left) {
		print_error("ranks hang: 0x%x\n", left);
		kill_all();
		bad = true;
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

void rank_await(int rank, const _Atomic uint32_t *word, uint32_t least)
{
	struct deadline late = deadline_in(WORLD_NS);

	while (atomic_load(word) < least) {
		if (deadline_over(&late))
			rank_fail(rank, "what is waited for never came (%u of %u)",
				  atomic_load(word), least);
		sched_yield();
	}
}

void rank_reach_mark(int rank, int of, uint32_t mark)
{
	struct deadline late = deadline_in(WORLD_NS);

	while (atomic_load(&world->mark[of]) < mark) {
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(rank, "rank %d never came to its mark %u", of, mark);
	}
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

/* This process's number in /proc, which may be of an outer PID namespace. */
static pid_t number_in_proc(void)
{
	char text[16] = "";

	return readlink("/proc/self", text, sizeof text - 1) > 0 ? atoi(text) : 0;
}

void rank_open(int rank, int count)
{
	struct deadline late = deadline_in(WORLD_NS);

	world->pid[rank] = number_in_proc();
	descriptors_before = rank_descriptors();
	RANK_CHECK(rank, !bl_domain_open(&domain));
	RANK_CHECK(rank, !bl_av_open(domain, &av));
	RANK_CHECK(rank, !bl_cq_open(domain, 0, &cq));
	RANK_CHECK(rank, !bl_ep_open(domain, &ep));
	RANK_CHECK(rank, !bl_ep_bind_av(ep, av));
	RANK_CHECK(rank, !bl_ep_bind_cq(ep, cq, BL_SEND | BL_RECV));
	rank_home = ep;
	if (rank_shares) {
		RANK_CHECK(rank, !bl_srx_open(domain, &rank_home));
		RANK_CHECK(rank, !bl_srx_join(ep, rank_home));
		RANK_CHECK(rank, !bl_srx_ready(ep));
	}
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

int rank_mappings(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], memfd[64];
	int n = 0;

	snprintf(memfd, sizeof memfd, "memfd:%s", name);
	while (f && fgets(line, sizeof line, f))
		n += strstr(line, memfd) != NULL;
	if (f)
		fclose(f);
	return n;
}

/* What the highest one stands for: mostly the one too many. */
static const char *last_descriptor(void)
{
	static char target[128];
	char path[32];

	for (int fd = 1023; fd >= 0; fd--) {
		ssize_t n;

		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof target - 1);
		if (n >= 0) {
			target[n] = 0;
			break;
		}
	}
	return target;
}

void rank_close(int rank)
{
	RANK_CHECK(rank, !bl_ep_close(ep));
	if (rank_shares)
		RANK_CHECK(rank, !bl_srx_close(rank_home));
	RANK_CHECK(rank, !bl_cq_close(cq));
	RANK_CHECK(rank, !bl_av_close(av));
	RANK_CHECK(rank, !bl_domain_close(domain));
	if (rank_mappings("beeline"))
		rank_fail(rank, "%d mappings of shared memory are left", rank_mappings("beeline"));
	/* What has come from strangers is closed by a thread of its own; discard.h. */
	for (struct deadline late = deadline_in(TOLERATED_NS);
	     rank_descriptors() != descriptors_before && !deadline_over(&late);)
		sched_yield();
	if (rank_descriptors() != descriptors_before)
		rank_fail(rank, "%d descriptors were open before, %d are now, the last of them %s",
			  descriptors_before, rank_descriptors(), last_descriptor());
}
