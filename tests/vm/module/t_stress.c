// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Many at once, and nonsense: 64 processes that copy among each other while they make and revoke
 * handles, processes that are killed in the midst of it, and requests made of random bytes.
 *
 *	t_stress crowd SECONDS		64 processes, checked
 *	t_stress mortal SECONDS		the same, and someone is killed all the time
 *	t_stress fuzz SECONDS [SEED]	random requests
 */
#include <pthread.h>
#include <sys/resource.h>

#include "vmtest.h"

enum { CROWD = 64 };
#define BUF (160 * PAGE)

/* What one process tells the others: its handle, in which generation, and when it ends. */
struct post {
	_Atomic unsigned int version; /* odd: being changed */
	struct beeline_handle h;
	uint64_t len;
	unsigned int fill; /* all bytes of the range */
};

static struct {
	_Atomic bool stop;
	_Atomic uint64_t copies, refused;
	struct post post[CROWD];
} * all;

static uint64_t rng;

static uint64_t rnd(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng * 0x2545F4914F6CDD1Dull >> 11) % below;
}

static void member_export(int fd, int me, char *mine, bool again)
{
	struct post *p = &all->post[me];
	/* Version first, then revoke: a copy begun before sees the old bytes or an error. */
	if (again) {
		atomic_fetch_add(&p->version, 1);
		EQ(dev_revoke(fd, &p->h, 0), 0);
	} else if (!(atomic_load(&p->version) & 1)) {
		atomic_fetch_add(&p->version, 1); /* the one before us here was killed */
	}
	p->fill = 1 + rnd(250);
	p->len = 1 + rnd(BUF);
	memset(mine, p->fill, BUF);
	EQ(dev_export(fd, mine, p->len, BEELINE_READ, &p->h), 0);
	atomic_fetch_add(&p->version, 1);
}

static void member_copy(int fd, char *buf)
{
	struct post *p = &all->post[rnd(CROWD)], seen;
	unsigned int v = atomic_load(&p->version);
	uint64_t off, len, n;
	int ret;

	if (v & 1)
		return;
	memcpy(&seen, p, sizeof(seen));
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load(&p->version) != v || !seen.len)
		return;
	off = rnd(seen.len);
	len = 1 + rnd(seen.len - off);
	ret = dev_from(fd, &seen.h, off, buf, len, &n);
	if (ret && ret != -ENOENT && ret != -ESRCH)
		vt_fail("copy: %d", ret);
	if (!mem_all(buf, n, seen.fill))
		vt_fail("bytes of somebody else");
	if (ret)
		atomic_fetch_add(&all->refused, 1);
	atomic_fetch_add(&all->copies, 1);
}

static void member(int sock, void *arg)
{
	int me = (int)(intptr_t)arg, fd = dev_open();
	char *mine = mem_map(BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *buf = mem_map(BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	setpriority(PRIO_PROCESS, 0, 0);
	vt_await(sock);
	rng = 88172645463325252ull + getpid() * 7919ull;
	member_export(fd, me, mine, false);
	while (!atomic_load(&all->stop)) {
		if (!rnd(20))
			member_export(fd, me, mine, true);
		else
			member_copy(fd, buf);
	}
}

static unsigned int seconds = 5;
static bool mortal;

static void crowd(void)
{
	struct peer p[CROWD];
	double until;

	/* Ahead of the crowd, or on few CPUs it would take minutes to start and stop it. */
	setpriority(PRIO_PROCESS, 0, -15);
	all = mem_map(sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED);
	for (long i = 0; i < CROWD; i++)
		p[i] = peer_start(member, (void *)i);
	for (long i = 0; i < CROWD; i++)
		vt_tell(p[i].sock);
	until = vt_now() + seconds;
	rng = 99;
	/* For the time given, and on a slow machine until there is something to look back on. */
	while (vt_now() < until || atomic_load(&all->copies) < 4 * CROWD) {
		long i = rnd(CROWD);

		usleep(20000);
		if (!mortal)
			continue;
		kill(p[i].pid, SIGKILL);
		peer_wait(&p[i]);
		p[i] = peer_start(member, (void *)i);
		vt_tell(p[i].sock);
	}
	atomic_store(&all->stop, true);
	for (long i = 0; i < CROWD; i++)
		EQ(peer_wait(&p[i]), 0);
	printf("# %llu copies among %d processes, %llu to handles that were gone\n",
	       (unsigned long long)all->copies, CROWD, (unsigned long long)all->refused);
	CHECK(all->copies > CROWD);
}

/* ---- nonsense ---- */

static const unsigned long known[] = {
	BEELINE_IOC_INFO, BEELINE_IOC_EXPORT, BEELINE_IOC_REVOKE, BEELINE_IOC_IMPORT,
	BEELINE_IOC_COPY, BEELINE_IOC_BATCH,  BEELINE_IOC_GROUP,  BEELINE_IOC_STAT,
};

enum { NFD = 8, NHANDLE = 32, LASTING = 8 };
static struct {
	int fd[NFD];
	struct beeline_handle h[NHANDLE];
	char *area;
} fz;
#define FUZZ_AREA (600 * PAGE)

static uint64_t odd_number(void)
{
	static const uint64_t odd[] = {0,
				       1,
				       2,
				       3,
				       64,
				       4095,
				       4096,
				       4097,
				       1024,
				       1025,
				       1ull << 31,
				       1ull << 32,
				       1ull << 47,
				       ~0ull,
				       ~0ull - 4095,
				       1ull << 63,
				       0xffffffff81000000ull,
				       512 * 4096};

	switch (rnd(4)) {
	case 0:
		return odd[rnd(NELEM(odd))];
	case 1:
		return rnd(FUZZ_AREA);
	case 2:
		return (uintptr_t)fz.area + rnd(FUZZ_AREA);
	default:
		return rnd(3) ? rnd(5) : rng;
	}
}

/*
 * The fields of a request, each a good value or an odd one. The first LASTING handles are those of
 * the parent, which outlives all; the others come and go.
 */
static void *make_request(unsigned long cmd, uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		words[i] = rnd(6) ? 0 : odd_number();
	if (cmd == BEELINE_IOC_COPY || cmd == BEELINE_IOC_IMPORT)
		memcpy(words, &fz.h[rnd(rnd(2) ? NHANDLE : LASTING)], 16);
	if (cmd == BEELINE_IOC_REVOKE)
		memcpy(words, &fz.h[LASTING + rnd(NHANDLE - LASTING)], 16);
	if (cmd == BEELINE_IOC_EXPORT) {
		struct beeline_export *e = (void *)words;

		e->addr = rnd(8) ? (uintptr_t)fz.area + rnd(FUZZ_AREA) : odd_number();
		e->len = rnd(8) ? 1 + rnd(FUZZ_AREA) : odd_number();
		e->rights = rnd(16) ? 3 : rnd(9);
		e->scope = rnd(8) ? 0 : rnd(5);
		e->uid = e->reserved = rnd(20) ? 0 : 7;
	}
	if (cmd == BEELINE_IOC_COPY) {
		struct beeline_copy *c = (void *)words;

		c->offset = rnd(8) ? rnd(20 * PAGE) : odd_number();
		c->len = rnd(8) ? rnd(rnd(4) ? 2 * PAGE : 200 * PAGE) : odd_number();
		c->local = rnd(6) ? (uintptr_t)fz.area + rnd(FUZZ_AREA) : odd_number();
		c->niov = rnd(6) ? 0 : rnd(1030);
		c->flags = rnd(16) ? rnd(4) : rnd(256);
		c->reserved = rnd(30) ? 0 : 1;
		if ((c->flags & BEELINE_COPY_ADDRESS) && rnd(8))
			c->offset += (uintptr_t)fz.area;
	}
	if (cmd == BEELINE_IOC_BATCH) {
		struct beeline_batch *b = (void *)words;

		b->copies = rnd(8) ? (uintptr_t)fz.area + rnd(FUZZ_AREA) : odd_number();
		b->count = rnd(8) ? rnd(20) : rnd(2000);
		b->size = rnd(8) ? 64 : rnd(100);
		b->flags = rnd(30) ? 0 : 1;
	}
	return words;
}

/* Good copies and segments lie about in the area, for batches and vectors to find. */
static void litter(void)
{
	uint64_t at = rnd(FUZZ_AREA - PAGE) & ~7ull;
	uint64_t words[8];

	if (rnd(2)) {
		struct beeline_iov iov = {(uintptr_t)fz.area + rnd(FUZZ_AREA), rnd(3 * PAGE)};

		memcpy(words, &iov, sizeof(iov));
	} else {
		make_request(BEELINE_IOC_COPY, words, 8);
	}
	mmap(fz.area + (at & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	/* The other thread may take the page away again: this way it is an error, not a signal. */
	process_vm_writev(getpid(), &(struct iovec){words, sizeof(words)}, 1,
			  &(struct iovec){fz.area + at, sizeof(words)}, 1, 0);
}

static void upset_memory(void)
{
	char *at = fz.area + rnd(FUZZ_AREA / PAGE - 40) * PAGE;
	size_t len = (1 + rnd(40)) * PAGE;

	switch (rnd(6)) {
	case 0:
		munmap(at, len);
		break;
	case 1:
		mprotect(at, len, rnd(3) ? PROT_READ : PROT_NONE);
		break;
	case 2:
		madvise(at, len, MADV_DONTNEED);
		break;
	default:
		mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		     0);
	}
}

static void one_step(void)
{
	uint64_t words[512 / 8];
	unsigned long cmd = known[rnd(NELEM(known))];
	size_t size = _IOC_SIZE(cmd);
	int fd = fz.fd[rnd(NFD)];

	make_request(cmd, words, NELEM(words));
	if (!rnd(12)) {
		size = rnd(sizeof(words));
		cmd = _IOC(rnd(4), BEELINE_IOC_MAGIC, rnd(256), size);
		if (_IOC_NR(cmd) == _IOC_NR(BEELINE_IOC_REVOKE))
			return; /* the words may hold a lasting handle */
	} else if (!rnd(12)) {
		size = rnd(sizeof(words));
		cmd = _IOC(_IOC_DIR(cmd), BEELINE_IOC_MAGIC, _IOC_NR(cmd), size);
	}
	if (rnd(20)) {
		if (!ioctl(fd, cmd, words) && cmd == BEELINE_IOC_EXPORT)
			memcpy(&fz.h[LASTING + rnd(NHANDLE - LASTING)],
			       &((struct beeline_export *)words)->handle, 16);
	} else {
		ioctl(fd, cmd, odd_number());
	}
	if (!rnd(10))
		litter();
	if (!rnd(20))
		upset_memory();
	if (!rnd(300)) {
		int i = rnd(NFD);

		close(fz.fd[i]);
		fz.fd[i] = open("/dev/beeline", O_RDWR);
	}
}

static double fuzz_until;

/* With FAULTS in the environment, in this thread allocations and the like fail at random. */
static void *fuzz_thread(void *arg)
{
	(void)arg;
	if (getenv("FAULTS")) {
		int fd = open("/proc/thread-self/make-it-fail", O_WRONLY);

		CHECK(fd >= 0 && write(fd, "1", 1) == 1);
		close(fd);
	}
	while (vt_now() < fuzz_until)
		one_step(); /* the threads share the generator, unlocked: so much the better */
	return NULL;
}

static void fuzzer(int sock, void *arg)
{
	pthread_t t;

	(void)sock;
	rng = (uintptr_t)arg;
	/* Signals that stray writes may cause end this process: another is started. */
	pthread_create(&t, NULL, fuzz_thread, NULL);
	fuzz_thread(NULL);
	pthread_join(t, NULL);
}

static uint64_t fuzz_seed;

/* Signals may end a fuzzer, ours or those of stray writes; a check that failed may not. */
static void fuzzer_ended(struct peer *p)
{
	int status = peer_wait(p);

	if (WIFEXITED(status) && WEXITSTATUS(status))
		_exit(WEXITSTATUS(status));
}

/*
 * Processes of two threads each, which share files and handles, at random; now and then one is
 * killed, and others are born with what it left. The kernel's console is the judge.
 */
static void fuzz(void)
{
	struct peer p[3];
	uint64_t seed = fuzz_seed;
	struct rlimit no_core = {0, 0};
	unsigned int born = 0;

	setrlimit(RLIMIT_CORE, &no_core);
	fuzz_until = vt_now() + seconds;
	fz.area = mem_map(FUZZ_AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	for (int i = 0; i < NFD; i++)
		fz.fd[i] = dev_open();
	rng = seed;
	for (int i = 0; i < NHANDLE; i++)
		EQ(dev_export(fz.fd[i % NFD], fz.area, FUZZ_AREA, 3, &fz.h[i]), 0);
	for (size_t i = 0; i < NELEM(p); i++)
		p[i] = peer_start(fuzzer, (void *)(uintptr_t)(seed * 31 + ++born));
	while (vt_now() < fuzz_until) {
		size_t i = rnd(NELEM(p));
		struct pollfd end = {.fd = p[i].sock, .events = POLLIN};

		poll(&end, 1, 300 + rnd(500));
		kill(p[i].pid, SIGKILL);
		fuzzer_ended(&p[i]);
		p[i] = peer_start(fuzzer, (void *)(uintptr_t)(seed * 31 + ++born));
	}
	for (size_t i = 0; i < NELEM(p); i++)
		fuzzer_ended(&p[i]);
	{
		struct beeline_stat st = dev_stat(dev_open(), BEELINE_STAT_MODULE);

		printf("# fuzz: seed %llu, %u processes, %llu exports, %llu copies, %llu failed\n",
		       (unsigned long long)seed, born, (unsigned long long)st.exports,
		       (unsigned long long)(st.from + st.to), (unsigned long long)st.failed);
		CHECK(st.exports > 100 && st.from + st.to > st.failed);
	}
}

int main(int argc, char **argv)
{
	struct test t = {"crowd", crowd, 0};

	if (argc < 3)
		return 2;
	seconds = atoi(argv[2]);
	if (!strcmp(argv[1], "mortal")) {
		mortal = true;
		t.name = "crowd_mortal";
	} else if (!strcmp(argv[1], "fuzz")) {
		fuzz_seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
		t = (struct test){"fuzz", fuzz, 0};
	}
	t.seconds = seconds + 120;
	return vt_main(&t, 1, 1, argv);
}
