// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Makes copies between marks that tests/vm/icount.c sees, for tests/vm/counts.py to compare. The
 * exporter is another process that sleeps; all memory is present and warm.
 *
 * With the argument "time", on a real machine: nanoseconds instead, the median of many calls
 * (make -C kernel measure).
 */
#include "vmtest.h"

#define MARK() __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,0x78,0x56,0x34,0x12" ::: "memory")
#define ROUNDS 41
#define MOST   (1ul << 20)

static struct {
	struct beeline_handle h;
	char *addr;
	pid_t pid;
} theirs;
static int dev, many; /* files, of copies and of exports */
static char *ours;

static void exporter(int sock, void *arg)
{
	char *p = mem_map(MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	(void)arg;
	madvise(p, MOST, MADV_NOHUGEPAGE);
	mem_fill(p, MOST, 1);
	theirs.addr = p;
	theirs.pid = getpid();
	EQ(dev_export(dev, p, MOST, 3, &theirs.h), 0);
	vt_send(sock, &theirs, sizeof(theirs));
	vt_await(sock);
}

static void nothing(size_t len)
{
	(void)len;
}

static void beeline_from(size_t len)
{
	struct beeline_copy c = {.handle = theirs.h, .len = len, .local = (uintptr_t)ours};

	if (ioctl(dev, BEELINE_IOC_COPY, &c))
		vt_fail("beeline: errno %d", errno);
}

static void beeline_to(size_t len)
{
	struct beeline_copy c = {
		.handle = theirs.h, .len = len, .local = (uintptr_t)ours, .flags = BEELINE_COPY_TO};

	if (ioctl(dev, BEELINE_IOC_COPY, &c))
		vt_fail("beeline: errno %d", errno);
}

static void process_vm_from(size_t len)
{
	struct iovec l = {ours, len}, r = {theirs.addr, len};

	if (process_vm_readv(theirs.pid, &l, 1, &r, 1, 0) != (ssize_t)len)
		vt_fail("process_vm_readv: errno %d", errno);
}

static void process_vm_to(size_t len)
{
	struct iovec l = {ours, len}, r = {theirs.addr, len};

	if (process_vm_writev(theirs.pid, &l, 1, &r, 1, 0) != (ssize_t)len)
		vt_fail("process_vm_writev: errno %d", errno);
}

static void beeline_export(size_t len)
{
	struct beeline_handle h;

	if (dev_export(many, ours, len, 3, &h))
		vt_fail("export: errno %d", errno);
}

static bool by_time;

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void series_timed(const char *name, void (*call)(size_t len), size_t len)
{
	enum { N = 2001 };
	static double took[N];

	for (int i = 0; i < N; i++) {
		double began = vt_now();

		call(len);
		took[i] = vt_now() - began;
	}
	qsort(took, N, sizeof(took[0]), by_value);
	printf("%-16s %8zu B %10.0f ns (fastest tenth %.0f, slowest tenth %.0f)\n", name, len,
	       took[N / 2] * 1e9, took[N / 10] * 1e9, took[N * 9 / 10] * 1e9);
}

static void series(const char *name, void (*call)(size_t len), size_t len)
{
	if (by_time) {
		series_timed(name, call, len);
		return;
	}
	printf("count %s %zu %d\n", name, len, ROUNDS);
	for (int i = 0; i < 4; i++)
		call(len);
	for (int i = 0; i < ROUNDS; i++) {
		MARK();
		call(len);
		MARK();
	}
}

static void counts(void)
{
	static const size_t sizes[] = {4096, 65536, 1 << 20};
	struct peer p;

	dev = dev_open();
	ours = mem_map(MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	madvise(ours, MOST, MADV_NOHUGEPAGE);
	memset(ours, 1, MOST);
	p = peer_start(exporter, NULL);
	vt_recv(p.sock, &theirs, sizeof(theirs));
	many = dev_open(); /* which the other one doesn't hold */
	series("nothing", nothing, 0);
	series("beeline_export", beeline_export, 4096);
	close(many); /* else chance says how many of them lie before the one that is copied from */
	for (size_t i = 0; i < NELEM(sizes); i++) {
		series("beeline_from", beeline_from, sizes[i]);
		series("process_vm_from", process_vm_from, sizes[i]);
		series("beeline_to", beeline_to, sizes[i]);
		series("process_vm_to", process_vm_to, sizes[i]);
	}
	vt_tell(p.sock);
	EQ(peer_wait(&p), 0);
}

static const struct test tests[] = {{"counts", counts, 200}};

int main(int argc, char **argv)
{
	by_time = argc > 1 && !strcmp(argv[1], "time");
	return vt_main(tests, NELEM(tests), 1, argv);
}
