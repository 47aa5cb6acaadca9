// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Who may do what: handles, scopes, namespaces, limits, and the form of the requests. */
#include <grp.h>
#include <sys/random.h>

#include "vmtest.h"

#define SOME_UID 1000

static char memory[8192];

static void become(uid_t uid)
{
	CHECK(!setgroups(0, NULL) && !setgid(uid) && !setuid(uid));
	/* The device file's mode is not what is tested: the descriptor is open already. */
}

/* Runs f in a child and passes its failure on. */
static void in_child(void (*f)(void *), void *arg)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		f(arg);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void handle_guessing(void)
{
	int fd = dev_open(), other = dev_open();
	struct beeline_handle h, g;
	char buf[16];
	uint64_t n;

	EQ(dev_export(fd, memory, sizeof(memory), 3, &h), 0);
	EQ(dev_from(other, &h, 0, buf, 16, NULL), 0);
	for (int bit = 0; bit < 128; bit++) {
		g = h;
		g.w[bit / 64] ^= 1ull << bit % 64;
		EQ(dev_from(other, &g, 0, buf, 16, &n), -ENOENT);
		EQ(dev_revoke(fd, &g, 0), -ENOENT);
	}
	for (int i = 0; i < 100000; i++) {
		CHECK(getrandom(&g, sizeof(g), 0) == sizeof(g));
		EQ(dev_from(other, &g, 0, buf, 16, &n), -ENOENT);
	}
	g = (struct beeline_handle){0};
	EQ(dev_from(other, &g, 0, buf, 16, &n), -ENOENT);
	g = (struct beeline_handle){{h.w[1], h.w[0]}};
	EQ(dev_from(other, &g, 0, buf, 16, &n), -ENOENT);
}

/* No two alike, and no bit constant, over many exports. */
static void handles_differ(void)
{
	enum { N = 4096 };
	static struct beeline_handle h[N];
	uint64_t ones[2] = {~0ull, ~0ull}, zeros[2] = {0, 0};
	int fd = dev_open();

	for (int i = 0; i < N; i++) {
		EQ(dev_export(fd, memory, 1, 1, &h[i]), 0);
		for (int k = 0; k < 2; k++) {
			ones[k] &= h[i].w[k];
			zeros[k] |= h[i].w[k];
		}
		for (int j = 0; j < i; j++)
			CHECK(memcmp(&h[i], &h[j], sizeof(h[0])));
	}
	CHECK(!ones[0] && !ones[1] && !~zeros[0] && !~zeros[1]);
	EQ(dev_stat(fd, 0).live, N);
	for (int i = 0; i < N; i++)
		EQ(dev_revoke(fd, &h[i], i & 1), 0);
	EQ(dev_stat(fd, 0).live, 0);
}

static void revoke_once(void)
{
	int fd = dev_open(), other = dev_open();
	struct beeline_handle h;
	char buf[16];
	uint64_t n;

	EQ(dev_export(fd, memory, sizeof(memory), 3, &h), 0);
	EQ(dev_revoke(other, &h, 0), -ENOENT);
	EQ(dev_from(other, &h, 0, buf, 16, NULL), 0);
	EQ(dev_revoke(fd, &h, 0), 0);
	EQ(dev_revoke(fd, &h, 0), -ENOENT);
	EQ(dev_revoke(fd, &h, BEELINE_REVOKE_NOWAIT), -ENOENT);
	EQ(dev_from(other, &h, 0, buf, 16, &n), -ENOENT);
	EQ(dev_revoke(fd, &h, 2), -EINVAL);
}

static void directions(void)
{
	int fd = dev_open();
	struct beeline_handle r, w;
	struct beeline_import im = {0};
	char buf[16] = {0};
	uint64_t n;

	EQ(dev_export(fd, memory, 100, BEELINE_READ, &r), 0);
	EQ(dev_export(fd, memory, 100, BEELINE_WRITE, &w), 0);
	EQ(dev_to(fd, &r, 0, buf, 16, &n), -EACCES);
	EQ(dev_from(fd, &w, 0, buf, 16, &n), -EACCES);
	EQ(dev_from(fd, &w, 0, buf, 0, &n), -EACCES);
	EQ(dev_to(fd, &w, 0, buf, 16, NULL), 0);
	EQ(dev_from(fd, &r, 0, buf, 16, NULL), 0);
	im.handle = r;
	EQ(dev_ioctl(fd, BEELINE_IOC_IMPORT, &im), 0);
	EQ(im.len, 100);
	EQ(im.rights, BEELINE_READ);
	im.handle.w[0]++;
	EQ(dev_ioctl(fd, BEELINE_IOC_IMPORT, &im), -ENOENT);
}

struct scoped {
	int fd;
	struct beeline_handle h;
	int expect;
};

static void try_as_user(void *arg)
{
	struct scoped *s = arg;
	char buf[16];
	uint64_t n;

	become(SOME_UID);
	EQ(dev_from(s->fd, &s->h, 0, buf, 16, &n), s->expect);
}

static int export_scoped(int fd, unsigned int scope, unsigned int uid, struct beeline_handle *h)
{
	struct beeline_export e = {
		.addr = (uintptr_t)memory, .len = 100, .rights = 3, .scope = scope, .uid = uid};
	int ret = dev_ioctl(fd, BEELINE_IOC_EXPORT, &e);

	*h = e.handle;
	return ret;
}

static void scope_uid(void)
{
	struct scoped s = {.fd = dev_open()};
	char buf[16];
	uint64_t n;

	EQ(export_scoped(s.fd, BEELINE_SCOPE_UID, SOME_UID, &s.h), 0);
	in_child(try_as_user, &s);
	EQ(dev_from(s.fd, &s.h, 0, buf, 16, &n), -EACCES);
	EQ(export_scoped(s.fd, BEELINE_SCOPE_UID, 0, &s.h), 0);
	EQ(dev_from(s.fd, &s.h, 0, buf, 16, NULL), 0);
	s.expect = -EACCES;
	in_child(try_as_user, &s);
	EQ(export_scoped(s.fd, BEELINE_SCOPE_UID, -1, &s.h), -EINVAL);
	EQ(export_scoped(s.fd, BEELINE_SCOPE_ANY, SOME_UID, &s.h), -EINVAL);
}

static void scope_file(void)
{
	int fd = dev_open(), other = dev_open(), copy = dup(fd);
	struct beeline_handle h;
	char buf[16];
	uint64_t n;

	EQ(export_scoped(fd, BEELINE_SCOPE_FILE, 0, &h), 0);
	EQ(dev_from(fd, &h, 0, buf, 16, NULL), 0);
	EQ(dev_from(copy, &h, 0, buf, 16, NULL), 0);
	EQ(dev_from(other, &h, 0, buf, 16, &n), -EACCES);
}

static void scope_group(void)
{
	int a = dev_open(), b = dev_open(), c = dev_open();
	struct beeline_group g = {0}, stranger = {0};
	struct beeline_handle h;
	char buf[16];
	uint64_t n;

	EQ(export_scoped(a, BEELINE_SCOPE_GROUP, 0, &h), -EINVAL);
	EQ(dev_ioctl(a, BEELINE_IOC_GROUP, &g), 0);
	CHECK(g.token.w[0] | g.token.w[1]);
	EQ(export_scoped(a, BEELINE_SCOPE_GROUP, 0, &h), 0);
	EQ(dev_from(a, &h, 0, buf, 16, NULL), 0);
	EQ(dev_from(b, &h, 0, buf, 16, &n), -EACCES);
	EQ(dev_ioctl(b, BEELINE_IOC_GROUP, &g), 0);
	EQ(dev_from(b, &h, 0, buf, 16, NULL), 0);
	memset(&stranger, 0, sizeof(stranger));
	EQ(dev_ioctl(b, BEELINE_IOC_GROUP, &stranger), -EBUSY);
	CHECK(!memcmp(&stranger.token, &g.token, sizeof(g.token)));
	memset(&stranger, 0, sizeof(stranger));
	EQ(dev_ioctl(c, BEELINE_IOC_GROUP, &stranger), 0);
	EQ(dev_from(c, &h, 0, buf, 16, &n), -EACCES);
	/* The maker leaves: the group lives on with b. With b it ends. */
	close(a);
	EQ(dev_from(b, &h, 0, buf, 16, &n), -ENOENT);
	a = dev_open();
	EQ(dev_ioctl(a, BEELINE_IOC_GROUP, &g), 0);
	close(a);
	close(b);
	a = dev_open();
	EQ(dev_ioctl(a, BEELINE_IOC_GROUP, &g), -ENOENT);
	g.token.w[1] ^= 1;
	EQ(dev_ioctl(a, BEELINE_IOC_GROUP, &g), -ENOENT);
}

static ssize_t by_ptrace(pid_t pid, void *from, void *to, size_t len)
{
	struct iovec l = {to, len}, r = {from, len};
	ssize_t n = process_vm_readv(pid, &l, 1, &r, 1, 0);

	return n < 0 ? -errno : n;
}

struct ns_owner {
	int fd;
	bool userns;
};

/* What it tells: its memory, by handle and by address, and its number where we are. */
struct ns_told {
	struct beeline_handle h;
	char *p;
	pid_t pid;
};

static void ns_exporter(int sock, void *arg)
{
	struct ns_owner *o = arg;
	struct ns_told told = {.p = mem_map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE)};

	CHECK(!o->userns || getpid() == 1);
	mem_fill(told.p, PAGE, 6);
	prctl(PR_SET_DUMPABLE, 0);
	EQ(dev_export(o->fd, told.p, PAGE, 3, &told.h), 0);
	vt_send(sock, &told, sizeof(told));
	vt_await(sock);
}

/*
 * An exporter that is nobody's business: another user, and in user and PID namespaces of its own.
 * The latter begin with a child.
 */
static void ns_owner(int sock, void *arg)
{
	struct ns_owner *o = arg;
	struct ns_told told;
	struct peer child;
	int ready;

	become(SOME_UID);
	ready = !o->userns || !unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID);
	vt_send(sock, &ready, sizeof(ready));
	if (!ready)
		return;
	child = peer_start(ns_exporter, o);
	vt_recv(child.sock, &told, sizeof(told));
	told.pid = child.pid;
	vt_send(sock, &told, sizeof(told));
	vt_await(sock);
	vt_tell(child.sock);
	EQ(peer_wait(&child), 0);
}

struct ns_seen {
	int fd;
	struct ns_told told;
};

/* In a PID namespace of its own, where the exporter has no number at all. */
static void pid_importer(void *arg)
{
	struct ns_seen *s = arg;
	char buf[PAGE];

	EQ(getpid(), 1);
	EQ(by_ptrace(s->told.pid, s->told.p, buf, PAGE), -ESRCH);
	EQ(dev_from(s->fd, &s->told.h, 0, buf, PAGE, NULL), 0);
	CHECK(mem_is(buf, PAGE, 6));
}

static void ns_importer(void *arg)
{
	struct ns_seen *s = arg;
	char buf[PAGE];

	become(SOME_UID);
	CHECK(!unshare(CLONE_NEWUSER | CLONE_NEWPID));
	EQ(by_ptrace(s->told.pid, s->told.p, buf, PAGE), -EPERM);
	EQ(dev_from(s->fd, &s->told.h, 0, buf, PAGE, NULL), 0);
	CHECK(mem_is(buf, PAGE, 6));
	in_child(pid_importer, s);
	memset(buf, 1, PAGE);
	EQ(dev_to(s->fd, &s->told.h, 0, buf, PAGE, NULL), 0);
}

/* Where process_vm_readv() is refused, a handle still serves. */
static void across_namespaces(void)
{
	struct ns_owner o = {dev_open(), true};
	struct ns_seen s = {.fd = dev_open()};
	struct peer p = peer_start(ns_owner, &o);
	int ready;

	vt_recv(p.sock, &ready, sizeof(ready));
	if (!ready)
		vt_skip("no user namespaces here");
	vt_recv(p.sock, &s.told, sizeof(s.told));
	in_child(ns_importer, &s);
	vt_tell(p.sock);
	EQ(peer_wait(&p), 0);
}

static void yama_importer(void *arg)
{
	struct ns_seen *s = arg;
	char buf[PAGE];

	become(SOME_UID);
	EQ(by_ptrace(s->told.pid, s->told.p, buf, PAGE), -EPERM);
	EQ(dev_from(s->fd, &s->told.h, 0, buf, PAGE, NULL), 0);
	CHECK(mem_is(buf, PAGE, 6));
}

static void under_yama(void)
{
	struct ns_owner o = {dev_open(), false};
	struct ns_seen s = {.fd = dev_open()};
	struct peer p;
	int f = open("/proc/sys/kernel/yama/ptrace_scope", O_WRONLY), ready;

	if (f < 0)
		vt_skip("no Yama in this kernel");
	CHECK(write(f, "1", 1) == 1);
	p = peer_start(ns_owner, &o);
	vt_recv(p.sock, &ready, sizeof(ready));
	vt_recv(p.sock, &s.told, sizeof(s.told));
	in_child(yama_importer, &s);
	vt_tell(p.sock);
	EQ(peer_wait(&p), 0);
	CHECK(write(f, "0", 1) == 1);
}

/* ---- the form of the requests ---- */

static void sizes_of_requests(void)
{
	struct {
		struct beeline_export e;
		uint64_t later;
	} big = {.e = {.addr = (uintptr_t)memory, .len = 8, .rights = 1}};
	const unsigned long longer =
		_IOC(_IOC_READ | _IOC_WRITE, BEELINE_IOC_MAGIC, 0x41, sizeof(big));
	const unsigned long shorter = _IOC(_IOC_READ | _IOC_WRITE, BEELINE_IOC_MAGIC, 0x41, 40);
	struct {
		struct beeline_copy c;
		uint64_t later[4];
	} copy = {.c = {.len = 8, .local = (uintptr_t)(memory + 64)}};
	const unsigned long longer_copy =
		_IOC(_IOC_READ | _IOC_WRITE, BEELINE_IOC_MAGIC, 0x44, sizeof(copy));
	int fd = dev_open();

	EQ(dev_ioctl(fd, longer, &big), 0);
	big.later = 1;
	EQ(dev_ioctl(fd, longer, &big), -E2BIG);
	EQ(dev_ioctl(fd, shorter, &big), -ENOTTY);
	copy.c.handle = big.e.handle;
	EQ(dev_ioctl(fd, longer_copy, &copy), 0);
	copy.later[3] = 1;
	EQ(dev_ioctl(fd, longer_copy, &copy), -E2BIG);
	EQ(dev_ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, BEELINE_IOC_MAGIC, 0x44, 56), &copy),
	   -ENOTTY);
	EQ(dev_ioctl(fd, _IOC(_IOC_READ, BEELINE_IOC_MAGIC, 0x41, sizeof(big.e)), &big), -ENOTTY);
	for (int nr = 0; nr < 256; nr++)
		if (nr < 0x40 || nr > 0x47)
			EQ(dev_ioctl(fd, _IOC(3, BEELINE_IOC_MAGIC, nr, 64), &copy), -ENOTTY);
	EQ(dev_ioctl(fd, BEELINE_IOC_EXPORT, NULL), -EFAULT);
	{
		/* Readable, not writable: the handle cannot be told, and does not stay. */
		struct beeline_export *ro = mem_map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		uint64_t live = dev_stat(fd, 0).live;

		*ro = (struct beeline_export){.addr = 4096, .len = 8, .rights = 1};
		mprotect(ro, PAGE, PROT_READ);
		EQ(dev_ioctl(fd, BEELINE_IOC_EXPORT, ro), -EFAULT);
		EQ(dev_stat(fd, 0).live, live);
	}
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, NULL), -EFAULT);
	EQ(dev_ioctl(fd, BEELINE_IOC_INFO, NULL), -EFAULT);
}

/* Results that cannot be written back: what was done is done, and can be learned again. */
static void results_lost(void)
{
	struct {
		struct beeline_copy c;
		struct beeline_group g;
	} *ro = mem_map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_group again = {0}, other = {0};
	char buf[64] = {0};
	int fd = dev_open();

	mem_fill(memory, sizeof(buf), 3);
	EQ(dev_export(fd, memory, sizeof(buf), BEELINE_READ, &ro->c.handle), 0);
	ro->c.len = sizeof(buf);
	ro->c.local = (uintptr_t)buf;
	mprotect(ro, PAGE, PROT_READ);
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &ro->c), -EFAULT);
	CHECK(mem_is(buf, sizeof(buf), 3));
	EQ(dev_ioctl(fd, BEELINE_IOC_GROUP, &ro->g), -EFAULT);
	EQ(dev_ioctl(fd, BEELINE_IOC_GROUP, &again), -EBUSY);
	CHECK(again.token.w[0] | again.token.w[1]);
	other.token = again.token;
	EQ(dev_ioctl(dev_open(), BEELINE_IOC_GROUP, &other), 0);
}

static int export_raw(int fd, uint64_t addr, uint64_t len, unsigned int rights, unsigned int scope,
		      unsigned int reserved)
{
	struct beeline_export e = {
		.addr = addr, .len = len, .rights = rights, .scope = scope, .reserved = reserved};

	return dev_ioctl(fd, BEELINE_IOC_EXPORT, &e);
}

static void what_is_refused(void)
{
	struct beeline_copy c = {.len = 8, .local = (uintptr_t)(memory + 64)};
	struct beeline_import im = {.reserved = 1};
	struct beeline_group g = {.flags = 1};
	struct beeline_stat st = {.flags = 2};
	int fd = dev_open();
	uint64_t here = (uintptr_t)memory;

	EQ(export_raw(fd, here, 8, 1, 0, 0), 0);
	EQ(export_raw(fd, here, 0, 1, 0, 0), -EINVAL);
	EQ(export_raw(fd, here, 8, 0, 0, 0), -EINVAL);
	EQ(export_raw(fd, here, 8, 4, 0, 0), -EINVAL);
	EQ(export_raw(fd, here, 8, 1, 4, 0), -EINVAL);
	EQ(export_raw(fd, here, 8, 1, 0, 1), -EINVAL);
	EQ(export_raw(fd, here, ~0ull, 1, 0, 0), -EFAULT);
	EQ(export_raw(fd, here, ~0ull - here + 1, 1, 0, 0), -EFAULT);
	EQ(export_raw(fd, 0xffffffff81000000ull, 8, 1, 0, 0), -EFAULT);
	EQ(export_raw(fd, ~0ull, 1, 1, 0, 0), -EFAULT);
	/* What is not mapped may be exported: it may be mapped by the time it is used. */
	EQ(export_raw(fd, 0, 4096, 1, 0, 0), 0);
	EQ(dev_export(fd, memory, 64, 3, &c.handle), 0);
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), 0);
	c.flags = 4;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -EINVAL);
	c.flags = 0;
	c.reserved = 1;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -EINVAL);
	EQ(dev_ioctl(fd, BEELINE_IOC_IMPORT, &im), -EINVAL);
	EQ(dev_ioctl(fd, BEELINE_IOC_GROUP, &g), -EINVAL);
	EQ(dev_ioctl(fd, BEELINE_IOC_STAT, &st), -EINVAL);
}

static void stat_as_user(void *arg)
{
	struct beeline_stat st = {.flags = BEELINE_STAT_MODULE};

	become(SOME_UID);
	EQ(dev_ioctl(*(int *)arg, BEELINE_IOC_STAT, &st), -EPERM);
	st.flags = 0;
	EQ(dev_ioctl(*(int *)arg, BEELINE_IOC_STAT, &st), 0);
}

static void counters(void)
{
	int fd = dev_open(), other = dev_open();
	struct beeline_stat before = dev_stat(fd, BEELINE_STAT_MODULE), st;
	struct beeline_info info;
	struct beeline_handle h;
	char buf[100] = {0};
	uint64_t n;

	EQ(dev_ioctl(fd, BEELINE_IOC_INFO, &info), 0);
	EQ(info.abi, BEELINE_ABI);
	EQ(info.max_iov, 1024);
	EQ(info.window_pages, 512);
	EQ(dev_export(fd, memory, 100, 3, &h), 0);
	EQ(dev_from(other, &h, 0, buf, 100, NULL), 0);
	EQ(dev_from(other, &h, 0, buf, 60, NULL), 0);
	EQ(dev_to(other, &h, 0, buf, 30, NULL), 0);
	EQ(dev_to(other, &h, 99, buf, 30, &n), -ERANGE);
	st = dev_stat(other, 0);
	EQ(st.from, 2);
	EQ(st.from_bytes, 160);
	EQ(st.to, 2);
	EQ(st.to_bytes, 30);
	EQ(st.failed, 1);
	EQ(st.exports, 0);
	EQ(dev_stat(fd, 0).exports, 1);
	EQ(dev_stat(fd, 0).live, 1);
	close(other);
	st = dev_stat(fd, BEELINE_STAT_MODULE);
	EQ(st.from_bytes - before.from_bytes, 160);
	EQ(st.exports - before.exports, 1);
	EQ(before.files - st.files, 1);
	in_child(stat_as_user, &fd);
}

static void limit_of_exports(void)
{
	int f = open("/sys/module/beeline/parameters/max_exports", O_WRONLY), fd = dev_open();
	struct beeline_handle h[101], extra;

	CHECK(f >= 0 && write(f, "100", 3) == 3);
	for (int i = 0; i < 100; i++)
		EQ(dev_export(fd, memory, 1, 1, &h[i]), 0);
	EQ(dev_export(fd, memory, 1, 1, &extra), -ENOSPC);
	EQ(dev_revoke(fd, &h[7], 0), 0);
	EQ(dev_export(fd, memory, 1, 1, &extra), 0);
	EQ(dev_export(fd, memory, 1, 1, &extra), -ENOSPC);
	CHECK(write(f, "1048576", 7) == 7);
	EQ(dev_export(fd, memory, 1, 1, &extra), 0);
}

static const struct test tests[] = {
	{"handle_guessing", handle_guessing, 0},
	{"handles_differ", handles_differ, 0},
	{"revoke_once", revoke_once, 0},
	{"directions", directions, 0},
	{"scope_uid", scope_uid, 0},
	{"scope_file", scope_file, 0},
	{"scope_group", scope_group, 0},
	{"across_namespaces", across_namespaces, 0},
	{"under_yama", under_yama, 0},
	{"sizes_of_requests", sizes_of_requests, 0},
	{"results_lost", results_lost, 0},
	{"what_is_refused", what_is_refused, 0},
	{"counters", counters, 0},
	{"limit_of_exports", limit_of_exports, 0},
};

int main(int argc, char **argv)
{
	return vt_main(tests, NELEM(tests), argc, argv);
}
