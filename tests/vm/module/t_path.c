// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Beeline's same-node path over the module, by the library's public header: two processes that
 * may or may not use process_vm_readv() on each other, with /dev/beeline and without. What the
 * module copied is read from its counters, so that "one copy" is seen and not assumed.
 */
#include <sys/syscall.h>

#include "beeline.h"
#include "vmtest.h"

#define USER	1000
#define DEVICE	"/dev/beeline"
#define LARGEST (5 * (1ul << 20) + 1)

/* All above what goes through the ring as an eager message. */
static const size_t sizes[] = {20000, 65536, 300001, 1ul << 20, LARGEST};

/* What one of the two processes is. */
struct side {
	bool namespace;	  /* in a user namespace of its own */
	const char *copy; /* FI_BEELINE_COPY, or NULL */
	bool first;
	bool vm_refused; /* process_vm_readv() of the other must be */
	int rounds;
};

static bool with_module(void)
{
	return !access(DEVICE, F_OK);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void become_user(bool namespace)
{
	CHECK(!setresgid(USER, USER, USER) && !setresuid(USER, USER, USER));
	prctl(PR_SET_DUMPABLE, 1);
	if (!namespace)
		return;
	CHECK(!unshare(CLONE_NEWUSER));
	write_file("/proc/self/setgroups", "deny");
	write_file("/proc/self/uid_map", "1000 1000 1");
	write_file("/proc/self/gid_map", "1000 1000 1");
}

static void may_read(pid_t pid, const void *at, bool refused)
{
	char byte;
	struct iovec l = {&byte, 1}, r = {(void *)(uintptr_t)at, 1};
	ssize_t n = process_vm_readv(pid, &l, 1, &r, 1, 0);

	if (refused)
		CHECK(n < 0 && errno == EPERM);
	else
		CHECK(n == 1);
}

struct met {
	struct beeline_address address;
	pid_t pid;
	const void *at;
};

static void exchange(struct beeline_endpoint *ep, const struct side *s, unsigned char *buf)
{
	for (int round = 0; round < s->rounds; round++)
		for (size_t i = 0; i < NELEM(sizes); i++) {
			unsigned int seed = (unsigned int)(round * 16 + i);

			for (int turn = 0; turn < 2; turn++)
				if (s->first == !turn) {
					mem_fill(buf, sizes[i], seed + turn);
					EQ(beeline_send(ep, buf, sizes[i], 0, 1, 0), 0);
				} else {
					memset(buf, 0, sizes[i]);
					EQ(beeline_recv(ep, buf, LARGEST, beeline_from(0, 1, 0),
							NULL),
					   0);
					CHECK(mem_is(buf, sizes[i], seed + turn));
				}
		}
}

static void side_run(int sock, void *arg)
{
	const struct side *s = arg;
	unsigned char *buf = mem_map(LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_endpoint *ep;
	struct met mine = {.pid = getpid(), .at = buf}, other;
	int peer;

	memset(buf, 1, LARGEST);
	become_user(s->namespace);
	setenv("FI_BEELINE_EAGER_LONG_MAX", "0", 1); /* the kernel's or the module's */
	if (s->copy)
		setenv("FI_BEELINE_COPY", s->copy, 1);
	EQ(beeline_open(&ep, 0), 0);
	beeline_get_address(ep, &mine.address);
	vt_send(sock, &mine, sizeof(mine));
	vt_recv(sock, &other, sizeof(other));
	may_read(other.pid, other.at, s->vm_refused);
	/* The other has looked, too, before either of us ends. */
	vt_tell(sock);
	vt_await(sock);
	EQ(beeline_add_peer(ep, &other.address, &peer), 0);
	exchange(ep, s, buf);
	beeline_close(ep);
}

static struct beeline_stat module_now(void)
{
	struct beeline_stat none = {0};
	int fd;

	if (!with_module())
		return none;
	fd = dev_open();
	none = dev_stat(fd, BEELINE_STAT_MODULE);
	close(fd);
	return none;
}

/* Both processes, from their start to their end; what the module did meanwhile. */
static struct beeline_stat run_pair(struct side *a, struct side *b)
{
	struct beeline_stat before = module_now(), after;
	struct peer pa, pb;
	struct met ma, mb;

	a->first = true;
	pa = peer_start(side_run, a);
	pb = peer_start(side_run, b);
	vt_recv(pa.sock, &ma, sizeof(ma));
	vt_recv(pb.sock, &mb, sizeof(mb));
	vt_send(pa.sock, &mb, sizeof(mb));
	vt_send(pb.sock, &ma, sizeof(ma));
	vt_await(pa.sock);
	vt_await(pb.sock);
	vt_tell(pa.sock);
	vt_tell(pb.sock);
	EQ(peer_wait(&pa), 0);
	EQ(peer_wait(&pb), 0);
	after = module_now();
	EQ(after.live, before.live);
	after.exports -= before.exports;
	after.from -= before.from;
	after.from_bytes -= before.from_bytes;
	after.to -= before.to;
	after.to_bytes -= before.to_bytes;
	return after;
}

static uint64_t sent(int rounds)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < NELEM(sizes); i++)
		sum += sizes[i];
	return 2 * sum * (uint64_t)rounds;
}

/* The kernel refuses process_vm_readv(): every byte goes once, by the module, or through the ring
 * in two copies where there is none. */
static void namespaces(void)
{
	struct side a = {.namespace = true, .vm_refused = true, .rounds = 3}, b = a;
	struct beeline_stat did = run_pair(&a, &b);

	EQ(did.from_bytes + did.to_bytes, with_module() ? sent(3) : 0);
}

/* A namespace inside one's own: its parent may read it, not the other way round. */
static void namespace_on_one_side(void)
{
	struct side a = {.rounds = 3}, b = {.namespace = true, .vm_refused = true, .rounds = 3};

	run_pair(&a, &b); /* whichever hand is free: the bytes are right */
}

/* Nobody pays for the module where process_vm_readv() is allowed. */
static void allowed(void)
{
	struct side a = {.rounds = 1}, b = a;
	struct beeline_stat did = run_pair(&a, &b);

	EQ(did.exports + did.from + did.to, 0);
}

/* By the knob; and both hands: the receiver copies from, the sender copies to. */
static void always(void)
{
	struct side a = {.copy = "module", .rounds = 6}, b = a;
	struct beeline_stat did = run_pair(&a, &b);

	EQ(did.from_bytes + did.to_bytes, with_module() ? sent(6) : 0);
	if (with_module())
		CHECK(did.from && did.to);
}

static void never(void)
{
	struct side a = {.namespace = true, .vm_refused = true, .copy = "vm", .rounds = 1}, b = a;
	struct beeline_stat did = run_pair(&a, &b);

	EQ(did.exports, 0);
}

/* One of them doesn't use it: keys are sent in vain, a few times, and nothing is lost. */
static void module_on_one_side(void)
{
	struct side a = {.namespace = true, .vm_refused = true, .rounds = 4}, b = a;
	struct beeline_stat did;

	b.copy = "ring";
	did = run_pair(&a, &b);
	EQ(did.from_bytes + did.to_bytes, 0);
	CHECK(did.exports < 20);
}

/* ---- deaths ---- */

/* Lends a megabyte to the parent, which never takes it, and says so. */
static void lender(int sock, void *arg)
{
	unsigned char *buf = mem_map(1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_address mine, other;
	struct beeline_request *send[8];
	struct beeline_endpoint *ep;
	char c = 0;
	int peer;

	(void)arg;
	setenv("FI_BEELINE_COPY", "module", 1);
	mem_fill(buf, 1 << 20, 1);
	EQ(beeline_open(&ep, 0), 0);
	beeline_get_address(ep, &mine);
	vt_send(sock, &mine, sizeof(mine));
	vt_recv(sock, &other, sizeof(other));
	EQ(beeline_add_peer(ep, &other, &peer), 0);
	EQ(beeline_send(ep, &c, 1, 0, 1, 0), 0);
	for (size_t i = 0; i < NELEM(send); i++)
		EQ(beeline_isend(ep, buf, 1 << 20, 0, 2, 0, &send[i]), 0);
	vt_tell(sock);
	for (;;)
		beeline_progress(ep);
}

/* The sender dies while the receiver copies from it: an error, and nothing is left behind. */
static void lender_dies(void)
{
	struct beeline_stat before = module_now();
	unsigned char *buf = mem_map(1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_address mine, other;
	struct beeline_endpoint *ep;
	struct beeline_stat after;
	int peer, err = 0, good = 0;
	struct peer p;
	char c;

	p = peer_start(lender, NULL);
	setenv("FI_BEELINE_COPY", "module", 1);
	EQ(beeline_open(&ep, 0), 0);
	beeline_get_address(ep, &mine);
	vt_recv(p.sock, &other, sizeof(other));
	EQ(beeline_add_peer(ep, &other, &peer), 0);
	vt_send(p.sock, &mine, sizeof(mine));
	EQ(beeline_recv(ep, &c, 1, beeline_from(0, 1, 0), NULL), 0);
	vt_await(p.sock);
	EQ(beeline_recv(ep, buf, 1 << 20, beeline_from(0, 2, 0), NULL), 0);
	CHECK(mem_is(buf, 1 << 20, 1));
	kill(p.pid, SIGKILL);
	for (; !err && good < 8; good++)
		err = beeline_recv(ep, buf, 1 << 20, beeline_from(0, 2, 0), NULL);
	CHECK(err < 0);
	peer_wait(&p);
	beeline_close(ep);
	after = module_now();
	EQ(after.live, before.live);
}

static const struct test tests[] = {
	{"path_namespaces", namespaces, 120},
	{"path_namespace_on_one_side", namespace_on_one_side, 120},
	{"path_allowed", allowed, 120},
	{"path_always", always, 120},
	{"path_never", never, 120},
	{"path_module_on_one_side", module_on_one_side, 120},
	{"path_lender_dies", lender_dies, 120},
};

int main(int argc, char **argv)
{
	return vt_main(tests, NELEM(tests), argc, argv);
}
