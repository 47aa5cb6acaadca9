// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* What vmtest.h promises. */
#include <stdarg.h>

#include "vmtest.h"

enum { PASSED = 0, FAILED = 1, SKIPPED = 77 };

/* The reason of a failure or skip, from the test's process to the one that reports. */
static char *reason;
#define REASON_SIZE 512

static void put_reason(const char *format, va_list ap)
{
	vsnprintf(reason, REASON_SIZE, format, ap);
	for (char *c = reason; *c; c++)
		if (*c == '\n')
			*c = ' ';
}

void vt_fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	put_reason(format, ap);
	va_end(ap);
	_exit(FAILED);
}

void vt_skip(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	put_reason(format, ap);
	va_end(ap);
	_exit(SKIPPED);
}

void vt_check(bool ok, const char *what)
{
	if (!ok)
		vt_fail("%s (errno %d)", what, errno);
}

void vt_eq(long long is, long long should, const char *what)
{
	if (is != should)
		vt_fail("%s is %lld, should be %lld", what, is, should);
}

double vt_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int vt_patience(void)
{
	const char *text = getenv("PATIENCE");
	int n = text ? atoi(text) : 1;

	return n > 1 ? n : 1;
}

unsigned int vt_rounds(unsigned int n)
{
	const char *text = getenv("LONG");

	return text && !strcmp(text, "1") ? n : (n + 3) / 4;
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

static bool run_one(const struct test *t)
{
	unsigned int seconds = (t->seconds ? t->seconds : 60) * vt_patience();
	double began = vt_now();
	int status = 0;
	pid_t pid;

	reason[0] = 0;
	pid = fork();
	if (!pid) {
		/* A group of its own: what it leaves behind ends with it. */
		setpgid(0, 0);
		alarm(seconds);
		t->run();
		_exit(PASSED);
	}
	waitpid(pid, &status, 0);
	kill(-pid, SIGKILL);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		printf("not ok - %s: no end after %u s\n", t->name, seconds);
	else if (WIFSIGNALED(status))
		printf("not ok - %s: signal %d\n", t->name, WTERMSIG(status));
	else if (WEXITSTATUS(status) == SKIPPED)
		printf("ok - %s # skip %s\n", t->name, reason);
	else if (WEXITSTATUS(status) != PASSED)
		printf("not ok - %s: %s\n", t->name, reason);
	else
		printf("ok - %s (%.1f s)\n", t->name, vt_now() - began);
	return !WIFSIGNALED(status) &&
	       (WEXITSTATUS(status) == PASSED || WEXITSTATUS(status) == SKIPPED);
}

int vt_main(const struct test *tests, size_t n, int argc, char **argv)
{
	bool good = true;

	setvbuf(stdout, NULL, _IONBF, 0);
	signal(SIGPIPE, SIG_IGN);
	reason = mmap(NULL, REASON_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < n; i++)
		if (wanted(tests[i].name, argc, argv))
			good &= run_one(&tests[i]);
	return !good;
}

/* ---- the device ---- */

int dev_open(void)
{
	int fd = open("/dev/beeline", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

int dev_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) ? -errno : 0;
}

int dev_export(int fd, const void *addr, size_t len, unsigned int rights, struct beeline_handle *h)
{
	struct beeline_export e = {.addr = (uintptr_t)addr, .len = len, .rights = rights};
	int ret = dev_ioctl(fd, BEELINE_IOC_EXPORT, &e);

	*h = e.handle;
	return ret;
}

int dev_revoke(int fd, const struct beeline_handle *h, unsigned int flags)
{
	struct beeline_revoke r = {.handle = *h, .flags = flags};

	return dev_ioctl(fd, BEELINE_IOC_REVOKE, &r);
}

static int dev_copy(int fd, const struct beeline_handle *h, uint64_t offset, const void *local,
		    size_t len, uint64_t *copied, unsigned int flags)
{
	struct beeline_copy c = {.handle = *h,
				 .offset = offset,
				 .len = len,
				 .local = (uintptr_t)local,
				 .flags = flags,
				 .copied = ~0ull,
				 .status = 12345};
	int ret = dev_ioctl(fd, BEELINE_IOC_COPY, &c);

	EQ(c.status, ret);
	CHECK(c.copied <= len);
	if (!ret)
		EQ(c.copied, len);
	if (copied)
		*copied = c.copied;
	return ret;
}

int dev_from(int fd, const struct beeline_handle *h, uint64_t offset, void *to, size_t len,
	     uint64_t *copied)
{
	return dev_copy(fd, h, offset, to, len, copied, 0);
}

int dev_to(int fd, const struct beeline_handle *h, uint64_t offset, const void *from, size_t len,
	   uint64_t *copied)
{
	return dev_copy(fd, h, offset, from, len, copied, BEELINE_COPY_TO);
}

struct beeline_stat dev_stat(int fd, unsigned int flags)
{
	struct beeline_stat st = {.flags = flags};

	EQ(dev_ioctl(fd, BEELINE_IOC_STAT, &st), 0);
	return st;
}

/* ---- memory ---- */

void *mem_map(size_t len, int prot, int flags)
{
	void *p = mmap(NULL, len, prot, MAP_ANONYMOUS | flags, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

unsigned char mem_byte(size_t at, unsigned int seed)
{
	return (at * 7 + (at >> 8) * 31 + (at >> 16) * 13 + seed) ^ (seed >> 8);
}

void mem_fill(void *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *)p)[i] = mem_byte(i, seed);
}

bool mem_is(const void *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		if (((const unsigned char *)p)[i] != mem_byte(i, seed))
			return false;
	return true;
}

bool mem_all(const void *p, size_t len, unsigned char byte)
{
	const unsigned char *c = p;

	return !len || (c[0] == byte && !memcmp(c, c + 1, len - 1));
}

/* ---- peers ---- */

struct peer peer_start(void (*run)(int sock, void *arg), void *arg)
{
	struct peer p;
	int s[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	p.pid = fork();
	CHECK(p.pid >= 0);
	if (!p.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(s[0]);
		run(s[1], arg);
		_exit(PASSED);
	}
	close(s[1]);
	p.sock = s[0];
	return p;
}

int peer_wait(struct peer *p)
{
	int status = -1;

	CHECK(waitpid(p->pid, &status, 0) == p->pid);
	close(p->sock);
	return status;
}

void vt_send(int sock, const void *msg, size_t len)
{
	CHECK(send(sock, msg, len, 0) == (ssize_t)len);
}

void vt_recv(int sock, void *msg, size_t len)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	CHECK(poll(&p, 1, WAIT_MS) == 1);
	CHECK(recv(sock, msg, len, 0) == (ssize_t)len);
}

void vt_tell(int sock)
{
	vt_send(sock, "", 1);
}

void vt_await(int sock)
{
	char c;

	vt_recv(sock, &c, 1);
}
