// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Lives that end in the middle: revoke, close, exec, exit and SIGKILL of either side, signals,
 * and memory that changes under a copy. A copy that loses may end short with an error; it must
 * never deliver bytes that the exporter had not in the range, nor leave anything behind.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>

#include "vmtest.h"

#define LEN (5ul << 20) /* three windows */

struct shared {
	_Atomic unsigned int phase, copies, ends[64];
	_Atomic bool stop;
	struct beeline_handle h;
	_Atomic unsigned int version; /* of h; odd while it is being changed */
};

static struct shared *shared;

static void share(void)
{
	shared = mem_map(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED);
}

static void wait_for(_Atomic unsigned int *what, unsigned int at_least)
{
	double until = vt_now() + WAIT_MS / 1000.0;

	while (atomic_load(what) < at_least) {
		if (vt_now() > until)
			vt_fail("waited %d ms for %u, have %u", WAIT_MS, at_least,
				atomic_load(what));
		sched_yield();
	}
}

/* The errors with which a copy may lose against the end of its exporter. */
static bool lost(int ret)
{
	return ret == -ENOENT || ret == -ESRCH || ret == -ENXIO;
}

/* ---- orderly ends ---- */

static void exporter_waits(int sock, void *arg)
{
	int fd = arg ? *(int *)arg : dev_open();
	char *p = mem_map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_handle h;

	mem_fill(p, PAGE, 1);
	EQ(dev_export(fd, p, PAGE, 3, &h), 0);
	vt_send(sock, &h, sizeof(h));
	vt_await(sock);
}

static void exporter_exits(void)
{
	int fd = dev_open();
	struct peer p = peer_start(exporter_waits, NULL);
	struct beeline_handle h;
	char buf[PAGE];
	uint64_t n;

	vt_recv(p.sock, &h, sizeof(h));
	EQ(dev_from(fd, &h, 0, buf, PAGE, NULL), 0);
	CHECK(mem_is(buf, PAGE, 1));
	vt_tell(p.sock);
	EQ(peer_wait(&p), 0);
	EQ(dev_from(fd, &h, 0, buf, PAGE, &n), -ENOENT);
}

/* The file outlives the process: its exports are useless, and reaped as the process goes. */
static void exporter_exits_file_stays(void)
{
	int fd = dev_open();
	struct peer p = peer_start(exporter_waits, &fd);
	struct beeline_handle h;
	char buf[PAGE];
	uint64_t n;

	vt_recv(p.sock, &h, sizeof(h));
	EQ(dev_from(fd, &h, 0, buf, PAGE, NULL), 0);
	EQ(dev_stat(fd, 0).live, 1);
	vt_tell(p.sock);
	EQ(peer_wait(&p), 0);
	EQ(dev_from(fd, &h, 0, buf, PAGE, &n), -ENOENT);
	EQ(dev_stat(fd, 0).live, 0);
}

static void exporter_closes(void)
{
	int fd = dev_open(), other = dev_open(), copy = dup(fd);
	static char p[PAGE];
	struct beeline_handle h;
	char buf[PAGE];
	uint64_t n;

	EQ(dev_export(fd, p, PAGE, 3, &h), 0);
	close(fd);
	EQ(dev_from(other, &h, 0, buf, PAGE, NULL), 0);
	close(copy);
	EQ(dev_from(other, &h, 0, buf, PAGE, &n), -ENOENT);
}

/* exec with an inherited descriptor: the handles of the old program are gone. */
static void exporter_execs_child(int sock, void *arg)
{
	int fd = *(int *)arg;
	char number[2][12];
	struct beeline_handle h;

	fcntl(fd, F_SETFD, 0);
	fcntl(sock, F_SETFD, 0);
	EQ(dev_export(fd, number, sizeof(number), 3, &h), 0);
	vt_send(sock, &h, sizeof(h));
	vt_await(sock);
	snprintf(number[0], sizeof(number[0]), "%d", sock);
	snprintf(number[1], sizeof(number[1]), "%d", fd);
	execl("/proc/self/exe", "t_life", "--after-exec", number[0], number[1], NULL);
	_exit(1);
}

static int after_exec(int sock)
{
	vt_tell(sock);
	vt_await(sock);
	return 0;
}

static void exporter_execs(void)
{
	int fd = dev_open(), other = dev_open();
	struct peer p = peer_start(exporter_execs_child, &fd);
	struct beeline_import im = {0};
	char buf[8];
	uint64_t n;

	vt_recv(p.sock, &im.handle, sizeof(im.handle));
	EQ(dev_from(other, &im.handle, 0, buf, 8, NULL), 0);
	vt_tell(p.sock);
	vt_await(p.sock);
	EQ(dev_from(other, &im.handle, 0, buf, 8, &n), -ESRCH);
	EQ(n, 0);
	EQ(dev_ioctl(other, BEELINE_IOC_IMPORT, &im), -ESRCH);
	/* The next export on the file finds the dead one and frees it. */
	EQ(dev_stat(fd, 0).live, 1);
	EQ(dev_export(fd, buf, 8, 1, &im.handle), 0);
	EQ(dev_stat(fd, 0).live, 1);
	vt_tell(p.sock);
	EQ(peer_wait(&p), 0);
}

/* Exports LEN bytes of ones to shared->h, and ends in its own way when it is told to. */
enum { EXIT, EXEC_CLOSING, EXEC_KEEPING };

static void exporter_to_end(int sock, void *arg)
{
	char *p = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	intptr_t how = (intptr_t)arg;
	int fd = dev_open();
	char number[12];

	memset(p, 1, LEN);
	if (how == EXEC_KEEPING)
		fcntl(fd, F_SETFD, 0);
	EQ(dev_export(fd, p, LEN, 3, &shared->h), 0);
	vt_tell(sock);
	vt_await(sock);
	if (how == EXIT)
		return;
	fcntl(sock, F_SETFD, 0);
	snprintf(number, sizeof(number), "%d", sock);
	execl("/proc/self/exe", "t_life", "--after-exec", number, number, NULL);
	_exit(1);
}

/* ---- revoke ---- */

static void reader(int sock, void *arg)
{
	char *buf = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open();

	(void)sock;
	(void)arg;
	while (!atomic_load(&shared->stop)) {
		struct beeline_handle h;
		unsigned int v = atomic_load(&shared->version);
		uint64_t n;
		int ret;

		if (v & 1)
			continue;
		h = shared->h;
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load(&shared->version) != v)
			continue;
		ret = dev_from(fd, &h, 0, buf, LEN, &n);
		if (ret && !lost(ret))
			vt_fail("copy: %d", ret);
		/* 0xEE is what the exporter writes after the revoke. */
		if (memchr(buf, 0xEE, n))
			vt_fail("a byte from after the revoke");
		atomic_fetch_add(&shared->copies, 1);
		if (ret)
			atomic_fetch_add(&shared->ends[0], 1);
	}
}

static void revoke_during_copy(void)
{
	char *p = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct peer readers[3];
	int fd = dev_open();

	share();
	memset(p, 1, LEN);
	EQ(dev_export(fd, p, LEN, 1, &shared->h), 0);
	for (size_t i = 0; i < NELEM(readers); i++)
		readers[i] = peer_start(reader, NULL);
	for (unsigned int i = 0; i < vt_rounds(25); i++) {
		unsigned int seen = atomic_load(&shared->copies);
		struct beeline_handle old = shared->h, new;

		/* Anywhere in a copy: the readers run against us. */
		wait_for(&shared->copies, seen + 2);
		usleep(i * 731 % 5000);
		EQ(dev_revoke(fd, &old, 0), 0);
		memset(p, 0xEE, LEN);
		memset(p, 1, LEN);
		EQ(dev_export(fd, p, LEN, 1, &new), 0);
		atomic_fetch_add(&shared->version, 1);
		shared->h = new;
		atomic_fetch_add(&shared->version, 1);
	}
	atomic_store(&shared->stop, true);
	for (size_t i = 0; i < NELEM(readers); i++)
		EQ(peer_wait(&readers[i]), 0);
	CHECK(atomic_load(&shared->ends[0]) > 0);
}

/* Who holds the caller's memory back (userfaultfd) holds up the caller, not the exporter. */
static int uffd_on(void *p, size_t len)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.range = {(uintptr_t)p, len},
				      .mode = UFFDIO_REGISTER_MODE_MISSING};
	int u = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (u < 0 || ioctl(u, UFFDIO_API, &api) || ioctl(u, UFFDIO_REGISTER, &reg))
		vt_skip("no userfaultfd: errno %d", errno);
	return u;
}

static void uffd_await(int u)
{
	struct pollfd p = {.fd = u, .events = POLLIN};
	struct uffd_msg msg;

	CHECK(poll(&p, 1, WAIT_MS) == 1);
	CHECK(read(u, &msg, sizeof(msg)) == sizeof(msg) && msg.event == UFFD_EVENT_PAGEFAULT);
}

struct stuck {
	int fd;
	struct beeline_handle h;
	char *buf;
	uint64_t n;
	int ret;
};

static void *stuck_copy(void *arg)
{
	struct stuck *s = arg;

	s->ret = dev_from(s->fd, &s->h, 0, s->buf, 8 * PAGE, &s->n);
	return NULL;
}

static void uffd_fill(int u, void *at, size_t len)
{
	struct uffdio_zeropage z = {.range = {(uintptr_t)at, len}};

	CHECK(!ioctl(u, UFFDIO_ZEROPAGE, &z));
}

static void revoke_not_held_up_by_caller(void)
{
	char *p = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct stuck s = {.fd = dev_open()};
	int fd = dev_open(), u;
	pthread_t t;

	memset(p, 1, 8 * PAGE);
	s.buf = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	memset(s.buf, 0, 4 * PAGE);
	u = uffd_on(s.buf + 4 * PAGE, 4 * PAGE);
	EQ(dev_export(fd, p, 8 * PAGE, 1, &s.h), 0);
	pthread_create(&t, NULL, stuck_copy, &s);
	uffd_await(u);
	/* The copier waits for page 4 of its own memory. */
	EQ(dev_revoke(fd, &s.h, 0), 0);
	memset(p, 0xEE, 8 * PAGE);
	uffd_fill(u, s.buf + 4 * PAGE, 4 * PAGE);
	pthread_join(t, NULL);
	EQ(s.ret, -ENOENT);
	EQ(s.n, 4 * PAGE);
	CHECK(mem_all(s.buf, 4 * PAGE, 1) && mem_all(s.buf + 4 * PAGE, 4 * PAGE, 0));
}

/*
 * The export ends while the caller's pages are being faulted in: a private mapping of a file, but
 * for one page that is withheld. No byte of it has changed.
 */
static void caller_untouched(const struct beeline_handle *h, void (*end)(void *), void *arg,
			     int expect)
{
	struct stuck s = {.fd = dev_open(), .h = *h};
	int file = memfd_create("t", MFD_CLOEXEC), u;
	char fill[PAGE];
	pthread_t t;

	memset(fill, 0x77, sizeof(fill));
	for (int i = 0; i < 8; i++)
		CHECK(write(file, fill, PAGE) == PAGE);
	s.buf = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	CHECK(s.buf != MAP_FAILED);
	CHECK(mmap(s.buf + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	u = uffd_on(s.buf + 4 * PAGE, PAGE);
	pthread_create(&t, NULL, stuck_copy, &s);
	uffd_await(u);
	end(arg);
	uffd_fill(u, s.buf + 4 * PAGE, PAGE);
	pthread_join(t, NULL);
	EQ(s.ret, expect);
	EQ(s.n, 0);
	CHECK(mem_all(s.buf, 4 * PAGE, 0x77) && mem_all(s.buf + 4 * PAGE, PAGE, 0) &&
	      mem_all(s.buf + 5 * PAGE, 3 * PAGE, 0x77));
}

struct owned {
	int fd;
	struct beeline_handle h;
};

static void end_by_revoke(void *arg)
{
	struct owned *o = arg;

	EQ(dev_revoke(o->fd, &o->h, 0), 0);
}

static void revoke_leaves_caller_untouched(void)
{
	char *p = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct owned o = {.fd = dev_open()};

	memset(p, 1, 8 * PAGE);
	EQ(dev_export(o.fd, p, 8 * PAGE, 1, &o.h), 0);
	caller_untouched(&o.h, end_by_revoke, &o, -ENOENT);
}

static void end_by_exec(void *arg)
{
	struct peer *p = arg;

	vt_tell(p->sock);
	vt_await(p->sock);
}

static void exec_leaves_caller_untouched(void)
{
	struct beeline_handle h;
	struct peer p;

	share();
	p = peer_start(exporter_to_end, (void *)EXEC_KEEPING);
	vt_await(p.sock);
	h = shared->h;
	caller_untouched(&h, end_by_exec, &p, -ESRCH);
	vt_tell(p.sock);
	EQ(peer_wait(&p), 0);
}

/*
 * A revoke waits for the window of a copier, which waits for a page of the exporter's. Whoever
 * revokes can be killed meanwhile; the handle has ended, the copy ends when it gets its page.
 */
static void revokes(int sock, void *arg)
{
	struct owned *o = arg;

	vt_await(sock);
	dev_revoke(o->fd, &o->h, 0);
}

static void revoker_killed_while_waiting(void)
{
	double until = vt_now() + WAIT_MS / 1000.0;
	struct stuck s = {.fd = dev_open()};
	struct beeline_import im = {0};
	char *p = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int u = uffd_on(p, 8 * PAGE);
	struct owned o = {.fd = dev_open()};
	struct peer revoker;
	pthread_t t;

	EQ(dev_export(o.fd, p, 8 * PAGE, 1, &o.h), 0);
	revoker = peer_start(revokes, &o);
	/* Touched after the fork, which takes away the right to write: one window must do. */
	s.buf = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	memset(s.buf, 9, 8 * PAGE);
	s.h = im.handle = o.h;
	pthread_create(&t, NULL, stuck_copy, &s);
	uffd_await(u);
	vt_tell(revoker.sock);
	while (dev_ioctl(s.fd, BEELINE_IOC_IMPORT, &im) != -ENOENT) {
		CHECK(vt_now() < until);
		sched_yield();
	}
	/* From here on nothing but the kill ends it: had it returned, it would have exited. */
	kill(revoker.pid, SIGKILL);
	EQ(peer_wait(&revoker), SIGKILL);
	EQ(dev_revoke(o.fd, &o.h, 0), -ENOENT);
	EQ(dev_stat(o.fd, 0).live, 0);
	uffd_fill(u, p, 8 * PAGE);
	pthread_join(t, NULL);
	EQ(s.n, 8 * PAGE);
	EQ(s.ret, 0);
	CHECK(mem_all(s.buf, 8 * PAGE, 0));
}

/* Missing pages of the exporter's, answered late: the copy waits for them, and gets them. */
static void exporters_page_comes_late(void)
{
	struct stuck s = {.fd = dev_open()};
	char *p = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open(), u;
	pthread_t t;

	memset(p, 1, 4 * PAGE);
	u = uffd_on(p + 4 * PAGE, 4 * PAGE);
	s.buf = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	memset(s.buf, 9, 8 * PAGE);
	EQ(dev_export(fd, p, 8 * PAGE, 1, &s.h), 0);
	pthread_create(&t, NULL, stuck_copy, &s);
	uffd_await(u);
	uffd_fill(u, p + 4 * PAGE, 4 * PAGE);
	pthread_join(t, NULL);
	EQ(s.ret, 0);
	CHECK(mem_all(s.buf, 4 * PAGE, 1) && mem_all(s.buf + 4 * PAGE, 4 * PAGE, 0));
}

/* ... or never: the copier can be killed. */
static void stuck_for_good(int sock, void *arg)
{
	struct stuck *s = arg;

	(void)sock;
	stuck_copy(s);
}

static void copier_stuck_is_killed(void)
{
	struct stuck s = {.fd = dev_open()};
	char *p = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open(), u = uffd_on(p, 8 * PAGE);
	struct peer peer;

	s.buf = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	EQ(dev_export(fd, p, 8 * PAGE, 1, &s.h), 0);
	peer = peer_start(stuck_for_good, &s);
	uffd_await(u);
	kill(peer.pid, SIGKILL);
	EQ(WTERMSIG(peer_wait(&peer)), SIGKILL);
	EQ(dev_revoke(fd, &s.h, 0), 0);
}

/* ---- sudden ends ---- */

static void copier(int sock, void *arg)
{
	char *buf = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	bool to = arg;
	int fd = dev_open();

	memset(buf, 1, LEN);
	(void)sock;
	for (;;) {
		uint64_t n;
		int ret = to ? dev_to(fd, &shared->h, 0, buf, LEN, &n)
			     : dev_from(fd, &shared->h, 0, buf, LEN, &n);

		if (ret) {
			if (!lost(ret) || !mem_all(buf, n, 1))
				vt_fail("lost with %d", ret);
			atomic_fetch_add(&shared->ends[ret == -ESRCH], 1);
			return;
		}
		CHECK(mem_all(buf, LEN, 1));
		atomic_fetch_add(&shared->copies, 1);
	}
}

static void exporter_for_copiers(int sock, void *arg)
{
	char *p = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open();

	memset(p, 1, LEN);
	EQ(dev_export(fd, p, LEN, 3, &shared->h), 0);
	vt_tell(sock);
	(void)arg;
	for (;;)
		pause();
}

static void exporter_killed_during_copy(void)
{
	for (unsigned int i = 0; i < vt_rounds(12); i++) {
		struct peer ex, c[2];

		share();
		ex = peer_start(exporter_for_copiers, NULL);
		vt_await(ex.sock);
		c[0] = peer_start(copier, NULL);
		c[1] = peer_start(copier, (void *)1);
		wait_for(&shared->copies, 2);
		usleep(i * 977 % 7000);
		kill(ex.pid, SIGKILL);
		EQ(WTERMSIG(peer_wait(&ex)), SIGKILL);
		for (int k = 0; k < 2; k++)
			EQ(peer_wait(&c[k]), 0);
	}
}

/* By their own choice, and with two copiers at it. */
static void exporter_ends_during_copy(intptr_t how)
{
	for (unsigned int i = 0; i < vt_rounds(4); i++) {
		struct peer ex, c[2];

		share();
		ex = peer_start(exporter_to_end, (void *)how);
		vt_await(ex.sock);
		c[0] = peer_start(copier, NULL);
		c[1] = peer_start(copier, (void *)1);
		wait_for(&shared->copies, 2);
		usleep(i * 2477 % 7000);
		vt_tell(ex.sock);
		if (how != EXIT)
			vt_await(ex.sock);
		for (int k = 0; k < 2; k++)
			EQ(peer_wait(&c[k]), 0);
		/* The file lives on after this exec, and the handle in it. */
		if (how == EXEC_KEEPING)
			EQ(atomic_load(&shared->ends[1]), 2);
		if (how != EXIT)
			vt_tell(ex.sock);
		EQ(peer_wait(&ex), 0);
	}
}

static void exporter_exits_during_copy(void)
{
	exporter_ends_during_copy(EXIT);
}

static void exporter_execs_during_copy(void)
{
	exporter_ends_during_copy(EXEC_CLOSING);
	exporter_ends_during_copy(EXEC_KEEPING);
}

/* Writes one number all over the export and reads it back, and then the next. */
static void writer_and_reader(int sock, void *arg)
{
	char *buf = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open();

	(void)sock;
	(void)arg;
	for (unsigned int i = 0; !atomic_load(&shared->stop); i++) {
		unsigned char number = 16 + i % 200;

		memset(buf, number, LEN);
		EQ(dev_to(fd, &shared->h, 0, buf, LEN, NULL), 0);
		memset(buf, 0, LEN);
		EQ(dev_from(fd, &shared->h, 0, buf, LEN, NULL), 0);
		CHECK(mem_all(buf, LEN, number));
		atomic_fetch_add(&shared->copies, 1);
	}
}

/* A copy meets the parent's memory only: no child of a fork in its midst sees or changes it. */
static void exporter_forks_during_copy(void)
{
	char *p = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *before = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open(), status;
	struct peer c;

	share();
	memset(p, 1, LEN);
	EQ(dev_export(fd, p, LEN, 3, &shared->h), 0);
	c = peer_start(writer_and_reader, NULL);
	for (unsigned int i = 0; i < vt_rounds(5); i++) {
		unsigned int seen = atomic_load(&shared->copies);
		pid_t child;

		wait_for(&shared->copies, seen + 1);
		usleep(i * 977 % 7000);
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			memcpy(before, p, LEN);
			wait_for(&shared->copies, atomic_load(&shared->copies) + 2);
			CHECK(!memcmp(before, p, LEN));
			memset(p, 9, LEN);
			wait_for(&shared->copies, atomic_load(&shared->copies) + 1);
			CHECK(mem_all(p, LEN, 9));
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		if (status)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	atomic_store(&shared->stop, true);
	EQ(peer_wait(&c), 0);
}

static void copier_killed_during_copy(void)
{
	char *p = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open();

	share();
	memset(p, 1, LEN);
	EQ(dev_export(fd, p, LEN, 3, &shared->h), 0);
	for (unsigned int i = 0; i < vt_rounds(12); i++) {
		unsigned int seen = atomic_load(&shared->copies);
		struct peer c[2] = {peer_start(copier, NULL), peer_start(copier, (void *)1)};

		wait_for(&shared->copies, seen + 1);
		usleep(i * 977 % 7000);
		for (int k = 0; k < 2; k++) {
			kill(c[k].pid, SIGKILL);
			EQ(WTERMSIG(peer_wait(&c[k])), SIGKILL);
		}
	}
	CHECK(mem_all(p, LEN, 1));
	EQ(dev_revoke(fd, &shared->h, 0), 0);
}

/* ---- signals ---- */

static void on_alarm(int sig)
{
	(void)sig;
}

static void signals_interrupt(void)
{
	const size_t len = 64ul << 20;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *buf = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec every = {{0, 2000000}, {0, 2000000}};
	int fd = dev_open(), interrupted = 0;
	struct beeline_handle h;
	uint64_t done = 0, n;
	timer_t timer;

	for (size_t i = 0; i < len; i += 8)
		*(uint64_t *)(p + i) = i * 0x9E3779B97F4A7C15ull;
	EQ(dev_export(fd, p, len, 1, &h), 0);
	sigaction(SIGUSR1, &sa, NULL);
	CHECK(!timer_create(CLOCK_MONOTONIC, &ev, &timer) &&
	      !timer_settime(timer, 0, &every, NULL));
	while (done < len) {
		int ret = dev_from(fd, &h, done, buf + done, len - done, &n);

		done += n;
		if (ret) {
			EQ(ret, -EINTR);
			CHECK(n > 0);
			interrupted++;
		}
	}
	timer_delete(timer);
	CHECK(!memcmp(p, buf, len));
	CHECK(interrupted > 0);
}

/* ---- memory that changes under a copy ---- */

static void *changes(void *arg)
{
	char *p = arg;
	int file = memfd_create("t", MFD_CLOEXEC);

	CHECK(!ftruncate(file, LEN));
	for (unsigned int i = 0; !atomic_load(&shared->stop); i++) {
		switch (i % 5) {
		case 0:
			mmap(p, LEN, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			memset(p, 1, LEN);
			break;
		case 1:
			madvise(p + LEN / 4, LEN / 2, MADV_DONTNEED);
			break;
		case 2:
			mprotect(p + LEN / 2, LEN / 4, i & 8 ? PROT_NONE : PROT_READ);
			break;
		case 3:
			munmap(p + LEN / 2, LEN / 2);
			break;
		case 4:
			mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
			memset(p, 2, LEN);
			CHECK(!ftruncate(file, LEN / 3) && !ftruncate(file, LEN));
			break;
		}
		atomic_fetch_add(&shared->phase, 1);
	}
	return NULL;
}

static void memory_changes_under_copy(void)
{
	char *p = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *buf = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	double began = vt_now();
	int fd = dev_open();
	struct beeline_handle h;
	pthread_t t;

	share();
	memset(p, 1, LEN);
	EQ(dev_export(fd, p, LEN, 3, &h), 0);
	pthread_create(&t, NULL, changes, p);
	/* 6 s, and longer where the machine has better to do, until each change has been there. */
	for (unsigned int i = 0; vt_now() < began + 6 || atomic_load(&shared->phase) <= 5; i++) {
		uint64_t n = 0;
		int ret;

		memset(buf, i & 1 ? 1 : 0x77, LEN);
		ret = i & 1 ? dev_to(fd, &h, 0, buf, LEN, &n) : dev_from(fd, &h, 0, buf, LEN, &n);
		if (ret && ret != -ENXIO)
			vt_fail("copy: %d", ret);
		if (i & 1)
			continue;
		for (uint64_t k = 0; k < n; k++)
			if (buf[k] < 0 || buf[k] > 2)
				vt_fail("foreign byte %d at %zu", buf[k], (size_t)k);
		CHECK(mem_all(buf + n, LEN - n, 0x77));
	}
	atomic_store(&shared->stop, true);
	pthread_join(t, NULL);
}

static const struct test tests[] = {
	{"exporter_exits", exporter_exits, 0},
	{"exporter_exits_file_stays", exporter_exits_file_stays, 0},
	{"exporter_closes", exporter_closes, 0},
	{"exporter_execs", exporter_execs, 0},
	{"revoke_during_copy", revoke_during_copy, 200},
	{"revoke_not_held_up_by_caller", revoke_not_held_up_by_caller, 0},
	{"exporters_page_comes_late", exporters_page_comes_late, 0},
	{"copier_stuck_is_killed", copier_stuck_is_killed, 0},
	{"revoke_leaves_caller_untouched", revoke_leaves_caller_untouched, 0},
	{"exec_leaves_caller_untouched", exec_leaves_caller_untouched, 0},
	{"revoker_killed_while_waiting", revoker_killed_while_waiting, 0},
	{"exporter_killed_during_copy", exporter_killed_during_copy, 200},
	{"exporter_exits_during_copy", exporter_exits_during_copy, 200},
	{"exporter_execs_during_copy", exporter_execs_during_copy, 200},
	{"exporter_forks_during_copy", exporter_forks_during_copy, 200},
	{"copier_killed_during_copy", copier_killed_during_copy, 200},
	{"signals_interrupt", signals_interrupt, 120},
	{"memory_changes_under_copy", memory_changes_under_copy, 120},
};

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--after-exec"))
		return after_exec(atoi(argv[2]));
	return vt_main(tests, NELEM(tests), argc, argv);
}
