/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * limits_test.c: a process with too little of something: descriptors, address
 * space, processes, file size, locked memory, /dev/shm, a cgroup's memory, system calls. Either its
 * endpoint can't be opened and the log says what to raise, or it opens and then talks to another
 * like any other. Each value of a limit is a world of two: rank 0 is the poor one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deny.h"
#include "fault/traffic.h"

#define LARGE 300000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

enum outcome { UNKNOWN, REFUSED, TALKED };

struct limit_row {
	struct row row;
	int resource;
	rlim_t value[24]; /* 0 ends the list, but for its first */
	bool more;	  /* than what is in use now */
	bool user;	  /* it doesn't bind root */
	const char *says; /* in the log of a refusal; NULL: there must be none */
	bool too_little;  /* the first value must be too little, the last enough */
};

static const struct limit_row limits[] = {
	{{"descriptors", "each number from none to enough"},
	 RLIMIT_NOFILE,
	 {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 22},
	 true,
	 false,
	 "ulimit -n",
	 true},
	{{"processes", "the service thread is one"},
	 RLIMIT_NPROC,
	 {0},
	 false,
	 true,
	 "ulimit -u",
	 false},
	{{"file size", "which counts memfds, and kills"},
	 RLIMIT_FSIZE,
	 {0, 4096, 65536, 131072, 1 << 20},
	 false,
	 false,
	 "ulimit -f",
	 true},
	{{"locked memory", "none is needed"}, RLIMIT_MEMLOCK, {0}, false, false, NULL, false},
	/* the last, which sanitizers leave out */
	{{"address space", "each mapping may be the one that fails"},
	 RLIMIT_AS,
	 {4096, 65536, 131072, 262144, 524288, 1 << 20, 2 << 20, 4 << 20, 1 << 30},
	 true,
	 false,
	 "ulimit -v",
	 true},
};

static const struct limit_row *row;
static rlim_t limit;

/* The least number of the next descriptor, or the bytes that are mapped. */
static rlim_t in_use(void)
{
	unsigned long pages = 0;
	FILE *f;
	int fd;

	if (row->resource == RLIMIT_NOFILE) {
		fd = open("/dev/null", O_RDONLY);
		close(fd);
		return (rlim_t)fd;
	}
	f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void become_poor(void)
{
	struct rlimit r;

	rank_keep_log();
	if (row->user && !geteuid())
		RANK_CHECK(0, !setgid(65534) && !setuid(65534));
	r.rlim_cur = r.rlim_max = limit + (row->more ? in_use() : 0);
	RANK_CHECK(0, !setrlimit((__rlimit_resource_t)row->resource, &r));
}

/* False: an error. */
static bool open_endpoint(void)
{
	if (bl_domain_open(&domain) || bl_av_open(domain, &av) || bl_cq_open(domain, 0, &cq) ||
	    bl_ep_open(domain, &ep))
		return false;
	return !bl_ep_bind_av(ep, av) && !bl_ep_bind_cq(ep, cq, BL_SEND | BL_RECV) &&
	       !bl_ep_enable(ep);
}

/* Wait for so many completions; false: an error came instead. */
static bool complete(int rank, unsigned count)
{
	struct deadline late = deadline_in(WORLD_NS);
	struct bl_comp comp;
	ssize_t n;

	while (count) {
		n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL);
		if (n == -BL_EAVAIL)
			return false;
		count -= n == 1;
		if (atomic_load(&world->stop))
			return false;
		if (deadline_over(&late))
			rank_fail(rank, "%u completions are missing", count);
	}
	return true;
}

static bool say(int rank, const void *buf, size_t len, uint64_t tag)
{
	struct deadline late = deadline_in(WORLD_NS);
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct bl_send send = {&iov, 1,	   world_index[!rank],	      tag,
			       0,    NULL, BL_TAGGED | BL_COMPLETION, NULL};
	int err;

	while ((err = bl_send(ep, &send)) == -EAGAIN) {
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(rank, "no room, no connection and no error");
	}
	return !err;
}

static char large[LARGE], other_large[LARGE];

/* Both send a short and a large message and receive the other's. */
static bool talk(int rank)
{
	char letter = 0;

	memset(large, 'a' + rank, sizeof large);
	if (bl_recv_buf(ep, &letter, 1, world_index[!rank], 1, 0, NULL,
			BL_TAGGED | BL_COMPLETION) ||
	    bl_recv_buf(ep, other_large, LARGE, world_index[!rank], 2, 0, NULL,
			BL_TAGGED | BL_COMPLETION) ||
	    !say(rank, large, 1, 1) || !say(rank, large, LARGE, 2) || !complete(rank, 4))
		return false;
	RANK_CHECK(rank, letter == 'a' + !rank && other_large[LARGE - 1] == 'a' + !rank);
	return true;
}

static void rank(int me)
{
	if (me) {
		rank_open(me, 2);
		talk(me);
		_exit(0);
	}
	become_poor();
	if (!open_endpoint()) {
		atomic_store(&world->mark[0], REFUSED);
	} else {
		bl_ep_getname(ep, &world->addr[0]);
		atomic_store(&world->here[0], 1);
		rank_await(0, &world->here[1], 1);
		RANK_CHECK(0, !bl_av_insert(av, &world->addr[0], &world_index[0]) &&
				      !bl_av_insert(av, &world->addr[1], &world_index[1]));
		atomic_store(&world->mark[0], talk(0) ? TALKED : REFUSED);
	}
	if (atomic_load(&world->mark[0]) == REFUSED)
		atomic_store(&world->stop, 1);
	if (atomic_load(&world->mark[0]) == REFUSED && (!row->says || !rank_logged(row->says)))
		rank_fail(0, "refused at %lu without a word about %s", (unsigned long)limit,
			  row->says ? row->says : "anything that is to be raised");
	/* The other may still be receiving. */
	for (uint64_t until = bl_clock_ns() + PROMISED_NS / 10; ep && bl_clock_ns() < until;)
		bl_ep_progress(ep);
	_exit(0);
}

static void limited(void **state)
{
	enum outcome first = UNKNOWN, last = UNKNOWN;

	row = TABLE_ROW(struct limit_row, state);
	for (size_t i = 0; i < bl_countof(row->value) && (!i || row->value[i]); i++) {
		limit = row->value[i];
		world_start(2, rank);
		world_end(-1);
		last = atomic_load(&world->mark[0]);
		assert_int_not_equal(last, UNKNOWN);
		if (first == UNKNOWN)
			first = last;
		if (!row->says)
			assert_int_equal(last, TALKED);
	}
	if (row->too_little) {
		assert_int_equal(first, REFUSED);
		assert_int_equal(last, TALKED);
	}
}

/* --- all used up once the endpoint is open ---------------------------------- */

/* A letter to oneself. */
static bool talk_to_oneself(int me)
{
	char in = 0, out = 'x';
	struct iovec iov = {&out, 1};
	struct bl_send send = {&iov, 1,	   world_index[me],	      3,
			       0,    NULL, BL_TAGGED | BL_COMPLETION, NULL};
	struct deadline late = deadline_in(WORLD_NS);
	int err;

	if (bl_recv_buf(ep, &in, 1, world_index[me], 3, 0, NULL, BL_TAGGED | BL_COMPLETION))
		return false;
	while ((err = bl_send(ep, &send)) == -EAGAIN && !deadline_over(&late))
		bl_ep_progress(ep);
	return !err && complete(me, 2) && in == out;
}

static void use_up_descriptors(int me)
{
	rank_open(me, 2);
	while (dup(STDOUT_FILENO) >= 0)
		;
	atomic_store(&world->mark[me], 1);
	rank_await(me, &world->mark[!me], 1);
	RANK_CHECK(me, talk(me));
	RANK_CHECK(me, talk_to_oneself(me));
	atomic_store(&world->mark[me], 2);
	while (atomic_load(&world->mark[!me]) < 2)
		bl_ep_progress(ep);
}

/* Both must connect, to themselves as well, with the descriptors that were kept aside. */
static void no_descriptor_is_left(void **state)
{
	world_start(2, use_up_descriptors);
	world_end(-1);
}

/* --- a system call that a container denies ------------------------------------ */

struct call_row {
	struct row row;
	unsigned call;
	const char *says[2]; /* in one line of the log: the call, and what to do */
};

static const struct call_row calls[] = {
	{{"memfd_create", "no memory to share"},
	 SYS_memfd_create,
	 {"memfd_create: ", "allow this system call"}},
	{{"fallocate", "no lack of memory"}, SYS_fallocate, {"fallocate: ", "allow this"}},
	{{"fcntl", "no seals"}, SYS_fcntl, {"fcntl: ", "allow this system call"}},
	{{"eventfd2", "no lack of processes"}, SYS_eventfd2, {"eventfd2: ", "allow this"}},
	{{"getsockopt", "it isn't another user's"}, SYS_getsockopt, {"getsockopt", "allow this"}},
};

static const struct call_row *call_row;

static void denied_a_call(int me)
{
	struct deadline late = deadline_in(TOLERATED_NS);
	uint64_t index;
	int err = 0;

	if (me) { /* to be called, if it comes to that */
		rank_open(me, 0);
		rank_await(me, &world->mark[0], 1);
		_exit(0);
	}
	rank_keep_log();
	RANK_CHECK(me, !fail_calls(call_row->call, call_row->call, EPERM));
	rank_await(0, &world->here[1], 1);
	if (open_endpoint()) { /* then it can't be connected */
		RANK_CHECK(me, !bl_av_insert(av, &world->addr[1], &index));
		while ((err = bl_inject(ep, "x", 1, index, 1, 0, BL_TAGGED)) == -EAGAIN) {
			RANK_CHECK(me, !deadline_over(&late));
			bl_ep_progress(ep);
		}
		RANK_CHECK(me, err);
	}
	for (int i = 0; i < 2; i++)
		if (!rank_logged(call_row->says[i]))
			rank_fail(me, "the log doesn't say: %s", call_row->says[i]);
	if (rank_logged("another user") || rank_logged("raise"))
		rank_fail(me, "the log gives a wrong reason");
	atomic_store(&world->mark[0], 1);
	_exit(0);
}

static void denied_call(void **state)
{
	call_row = TABLE_ROW(struct call_row, state);
	world_start(2, denied_a_call);
	world_end(-1);
}

/* --- /dev/shm --------------------------------------------------------------- */

struct shm_row {
	struct row row;
	const char *at; /* what a tmpfs is mounted over */
	unsigned long flags;
	bool fill;
	int err; /* of making a file there */
};

static const struct shm_row shms[] = {
	{{"full", "of 1 MiB, as container engines make it smaller than one may need"},
	 "/dev/shm",
	 0,
	 true,
	 ENOSPC},
	{{"read-only", "and empty"}, "/dev/shm", MS_RDONLY, false, EROFS},
	{{"missing", "nor is anything else in /dev"}, "/dev", 0, false, ENOENT},
};

static const struct shm_row *shm_row;

static void fill_dev_shm(void)
{
	static char block[65536];
	int fd = open("/dev/shm/full", O_CREAT | O_WRONLY, 0600);

	while (write(fd, block, sizeof block) > 0)
		;
	close(fd);
}

/* What a library that wanted a file there would meet. */
static int file_in_dev_shm(void)
{
	static char page[4096];
	int fd = open("/dev/shm/file", O_CREAT | O_RDWR, 0600), err = fd < 0 ? errno : 0;

	if (fd >= 0 && write(fd, page, sizeof page) < 0)
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

static void without_dev_shm(int me)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", shm_row->at, "tmpfs", shm_row->flags, "size=1m"))
		rank_fail(me, "a tmpfs over %s: %s", shm_row->at, strerror(errno));
	if (shm_row->fill)
		fill_dev_shm();
	RANK_CHECK(me, file_in_dev_shm() == shm_row->err);
	rank_open(me, 2);
	RANK_CHECK(me, talk(me));
	atomic_store(&world->mark[me], 1);
	while (!atomic_load(&world->mark[!me]))
		bl_ep_progress(ep);
}

static void dev_shm(void **state)
{
	shm_row = TABLE_ROW(struct shm_row, state);
	world_start(2, without_dev_shm);
	world_end(-1);
}

/* --- a cgroup's memory ------------------------------------------------------- */

#define GROUP_LIMIT (64u << 20)
#define EAT_STEP    65536u

struct group_row {
	struct row row;
	size_t at_start, later; /* bytes that are left; 0: as before */
	enum outcome outcome;
};

static const struct group_row groups[] = {
	{{"too little at start", "opening fails"}, 512u << 10, 0, REFUSED},
	{{"too little later", "connecting fails"}, 8u << 20, 512u << 10, REFUSED},
	{{"enough", "it talks"}, 8u << 20, 0, TALKED},
};

static const struct group_row *group_row;
static char group[512];
static const char *group_limit, *group_usage; /* files */

static bool group_write(const char *file, unsigned long value)
{
	char path[600];
	FILE *f;
	bool ok;

	snprintf(path, sizeof path, "%s/%s", group, file);
	f = fopen(path, "w");
	ok = f && fprintf(f, "%lu", value) > 0;
	return f && !fclose(f) && ok;
}

static unsigned long group_used(void)
{
	unsigned long bytes = 0;
	char path[600];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", group, group_usage);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lu", &bytes) != 1)
		rank_fail(0, "%s can't be read", path);
	fclose(f);
	return bytes;
}

/* A group with a limit below `base`; false: there can be none. */
static bool group_make(const char *base, const char *limit_file, const char *usage_file)
{
	group_limit = limit_file;
	group_usage = usage_file;
	snprintf(group, sizeof group, "%s/beeline-test-%d", base, (int)getpid());
	if (mkdir(group, 0755))
		return false;
	if (group_write(group_limit, GROUP_LIMIT))
		return true;
	rmdir(group);
	return false;
}

/* Use up what the group has but for `left`. */
static void eat(size_t left)
{
	while (group_used() + left < GROUP_LIMIT) {
		char *food = mmap(NULL, EAT_STEP, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		RANK_CHECK(0, food != MAP_FAILED);
		memset(food, 1, EAT_STEP);
	}
}

static void in_a_group(int me)
{
	bool talked = false;

	if (me) {
		rank_open(me, 2);
		talk(me);
		_exit(0);
	}
	memset(other_large, 0, sizeof other_large); /* it is to be there */
	memset(large, 0, sizeof large);
	rank_keep_log();
	RANK_CHECK(0, group_write("cgroup.procs", (unsigned long)getpid()));
	eat(group_row->at_start);
	if (open_endpoint()) {
		bl_ep_getname(ep, &world->addr[0]);
		if (group_row->later)
			eat(group_row->later);
		atomic_store(&world->here[0], 1); /* it may be called from now on */
		rank_await(0, &world->here[1], 1);
		RANK_CHECK(0, !bl_av_insert(av, &world->addr[0], &world_index[0]) &&
				      !bl_av_insert(av, &world->addr[1], &world_index[1]));
		talked = talk(0);
	}
	if (!talked) {
		atomic_store(&world->stop, 1);
		RANK_CHECK(0, rank_logged("memory.max"));
	}
	atomic_store(&world->mark[0], talked ? TALKED : REFUSED);
	/* The other may still be receiving. */
	for (uint64_t until = bl_clock_ns() + PROMISED_NS / 10; ep && bl_clock_ns() < until;)
		bl_ep_progress(ep);
	_exit(0);
}

static void memory_limit(void **state)
{
	group_row = TABLE_ROW(struct group_row, state);
	world_start(2, in_a_group);
	world_end(-1);
	assert_int_equal(atomic_load(&world->mark[0]), group_row->outcome);
}

/* Where this process may make a group for a rank. */
static bool can_make_groups(void)
{
	return group_make("/sys/fs/cgroup/memory", "memory.limit_in_bytes",
			  "memory.usage_in_bytes") ||
	       group_make("/sys/fs/cgroup", "memory.max", "memory.current");
}

int main(void)
{
	int status;

	table_add_rows("limited", limited, limits, bl_countof(limits) - SANITIZED,
		       sizeof limits[0]);
	if (SANITIZED)
		printf("skip limited address space: the sanitizer's shadow memory alone takes "
		       "terabytes of it\n");
	TABLE_TEST(no_descriptor_is_left);
	TABLE_ROWS("denied", denied_call, calls);
	if (SANITIZED)
		printf("skip memory_limit: the sanitizer's shadow memory and red zones would be "
		       "counted, too\n");
	else if (can_make_groups())
		TABLE_ROWS("memory limit", memory_limit, groups);
	else
		printf("skip memory_limit: no cgroup with a memory limit can be made here\n");
	if (geteuid())
		printf("skip dev_shm: only root can mount\n");
	else
		TABLE_ROWS("dev_shm", dev_shm, shms);
	status = table_run("limits");
	rmdir(group);
	return status;
}
