// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Data: every size and alignment around the borders that the module has, and every kind of
 * memory on either side. The exporter is this process itself where nothing depends on it, since
 * the module reaches its memory as it would anybody's.
 */
#include "vmtest.h"

#define GUARD 64

static const struct {
	size_t len;
	const char *why;
} sizes[] = {
	{1, "least"},
	{8, "a word"},
	{63, "less than a line"},
	{PAGE - 1, "page - 1"},
	{PAGE, "page"},
	{PAGE + 1, "page + 1"},
	{31 * PAGE - 1, "page addresses still on the stack"},
	{31 * PAGE, "the most for which they are"},
	{31 * PAGE + 1, "allocated"},
	{32 * PAGE + 1, "more than the stack's, in any alignment"},
	{100 * PAGE + 77, "inside the first window"},
	{HUGE - 1, "huge page - 1"},
	{HUGE, "huge page"},
	{HUGE + 1, "huge page + 1"},
	{511 * PAGE + 1, "a window, or two if not aligned"},
	{2 * HUGE - 1, "two windows - 1"},
	{2 * HUGE + 3 * PAGE + 5, "three windows"},
};

static const size_t aligns[] = {0, 1, 63, PAGE - 1};

/* One transfer of len bytes between theirs + a and ours + b, with guards around the target. */
static void transfer(int fd, char *theirs, char *ours, size_t a, size_t b, size_t len, bool to)
{
	static unsigned int seed;
	char *target = to ? theirs + a : ours + b;
	char *source = to ? ours + b : theirs + a;
	struct beeline_handle h;
	int ret;

	mem_fill(source, len, ++seed);
	memset(target - GUARD, 0xA5, GUARD);
	memset(target, 0, len);
	memset(target + len, 0xA5, GUARD);
	EQ(dev_export(fd, theirs + a, len, BEELINE_READ | BEELINE_WRITE, &h), 0);
	ret = to ? dev_to(fd, &h, 0, source, len, NULL) : dev_from(fd, &h, 0, target, len, NULL);
	if (ret || !mem_is(target, len, seed) || !mem_all(target - GUARD, GUARD, 0xA5) ||
	    !mem_all(target + len, GUARD, 0xA5))
		vt_fail("%s %zu bytes, theirs at +%zu, ours at +%zu: %d", to ? "to" : "from", len,
			a, b, ret);
	EQ(dev_revoke(fd, &h, 0), 0);
}

static void sizes_and_alignments(char *theirs, char *ours)
{
	int fd = dev_open();

	for (size_t s = 0; s < NELEM(sizes); s++)
		for (size_t a = 0; a < NELEM(aligns); a++)
			for (size_t b = 0; b < NELEM(aligns); b++) {
				/* Long ones: each alignment once on each side is enough. */
				if (sizes[s].len > 40 * PAGE && (a + s) % NELEM(aligns) != b)
					continue;
				transfer(fd, theirs, ours, aligns[a], aligns[b], sizes[s].len, 0);
				transfer(fd, theirs, ours, aligns[a], aligns[b], sizes[s].len, 1);
			}
}

#define AREA (3 * HUGE)

static void data_small_pages(void)
{
	char *a = mem_map(AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *b = mem_map(AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	madvise(a, AREA, MADV_NOHUGEPAGE);
	madvise(b, AREA, MADV_NOHUGEPAGE);
	sizes_and_alignments(a + PAGE, b + PAGE);
}

static char *huge_aligned(size_t len)
{
	char *p = mem_map(len + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	return (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
}

static void data_transparent_huge_pages(void)
{
	char *a = huge_aligned(AREA), *b = huge_aligned(AREA);

	if (madvise(a, AREA, MADV_HUGEPAGE) || madvise(b, AREA, MADV_HUGEPAGE))
		vt_skip("no transparent huge pages: errno %d", errno);
	memset(a, 1, AREA);
	memset(b, 1, AREA);
	sizes_and_alignments(a + PAGE, b + PAGE);
}

static void data_hugetlb(void)
{
	int f = open("/proc/sys/vm/nr_hugepages", O_WRONLY);
	char *a;

	CHECK(f >= 0 && write(f, "6", 1) == 1);
	close(f);
	a = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
		 0);
	if (a == MAP_FAILED)
		vt_skip("no huge pages to be had: errno %d", errno);
	sizes_and_alignments(a + PAGE,
			     (char *)mem_map(AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE) + PAGE);
}

static char *memfd_map(size_t len, int flags, int *fd)
{
	char *p;

	*fd = memfd_create("t", MFD_CLOEXEC);
	CHECK(*fd >= 0 && !ftruncate(*fd, len));
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, *fd, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

static void data_file_shared(void)
{
	int a, b;

	sizes_and_alignments(memfd_map(AREA, MAP_SHARED, &a) + PAGE,
			     memfd_map(AREA, MAP_SHARED, &b) + PAGE);
}

static void data_file_private(void)
{
	int fd;

	sizes_and_alignments(memfd_map(AREA, MAP_PRIVATE, &fd) + PAGE,
			     (char *)mem_map(AREA, PROT_READ | PROT_WRITE, MAP_SHARED) + PAGE);
}

/* The caller's memory has never been touched: each window meets missing pages. */
static void data_untouched_target(void)
{
	const size_t len = 2 * HUGE + PAGE;
	char *src = mem_map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open();
	struct beeline_handle h;
	char *dst;

	mem_fill(src, len, 3);
	EQ(dev_export(fd, src, len, BEELINE_READ, &h), 0);
	for (int huge = 0; huge < 2; huge++) {
		dst = mem_map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		madvise(dst, len, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		EQ(dev_from(fd, &h, 0, dst, len, NULL), 0);
		CHECK(mem_is(dst, len, 3));
		munmap(dst, len);
	}
	CHECK(dev_stat(fd, 0).faults > 0);
}

static void memory_read_only(void)
{
	char *p = mem_map(2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char buf[PAGE];
	int fd = dev_open();
	struct beeline_handle h;
	uint64_t n;

	mem_fill(p, PAGE, 1);
	mprotect(p, PAGE, PROT_READ);
	EQ(dev_export(fd, p, PAGE, BEELINE_READ | BEELINE_WRITE, &h), 0);
	EQ(dev_from(fd, &h, 0, buf, PAGE, NULL), 0);
	CHECK(mem_is(buf, PAGE, 1));
	memset(buf, 9, sizeof(buf));
	EQ(dev_to(fd, &h, 0, buf, PAGE, &n), -ENXIO);
	EQ(n, 0);
	CHECK(mem_is(p, PAGE, 1));
}

static void memory_none_and_unmapped(void)
{
	char *p = mem_map(64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *buf = mem_map(64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	/* Holes in the first page, inside, and around the size of the array on the stack. */
	static const size_t holes[] = {0, 5, 31, 32, 40};
	int fd = dev_open();
	struct beeline_handle h;
	uint64_t n;

	for (size_t i = 0; i < NELEM(holes); i++)
		for (int unmap = 0; unmap < 2; unmap++)
			for (int to = 0; to < 2; to++) {
				char *hole = p + holes[i] * PAGE;
				size_t off = 100, len = 60 * PAGE;
				size_t expect = holes[i] ? holes[i] * PAGE - off : 0;

				mem_fill(p, 64 * PAGE, i);
				mem_fill(buf, 64 * PAGE, i + 1);
				if (unmap)
					munmap(hole, PAGE);
				else
					mprotect(hole, PAGE, PROT_NONE);
				EQ(dev_export(fd, p + off, len, 3, &h), 0);
				if (to) {
					EQ(dev_to(fd, &h, 0, buf, len, &n), -ENXIO);
					CHECK(mem_is(p + off, 0, 0) && !memcmp(p + off, buf, n));
				} else {
					EQ(dev_from(fd, &h, 0, buf, len, &n), -ENXIO);
					CHECK(!memcmp(buf, p + off, n));
				}
				EQ(n, expect);
				mmap(hole, PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
				mprotect(hole, PAGE, PROT_READ | PROT_WRITE);
				EQ(dev_revoke(fd, &h, 0), 0);
			}
}

static void memory_dontneed_reads_zero(void)
{
	char *p = mem_map(8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char buf[8 * PAGE];
	int fd = dev_open();
	struct beeline_handle h;

	memset(p, 1, 8 * PAGE);
	EQ(dev_export(fd, p, 8 * PAGE, 3, &h), 0);
	EQ(dev_from(fd, &h, 0, buf, sizeof(buf), NULL), 0);
	madvise(p + PAGE, 2 * PAGE, MADV_DONTNEED);
	EQ(dev_from(fd, &h, 0, buf, sizeof(buf), NULL), 0);
	CHECK(mem_all(buf, PAGE, 1) && mem_all(buf + PAGE, 2 * PAGE, 0) &&
	      mem_all(buf + 3 * PAGE, 5 * PAGE, 1));
	/* And a write there is seen by the owner. */
	memset(buf, 7, sizeof(buf));
	madvise(p, 8 * PAGE, MADV_DONTNEED);
	EQ(dev_to(fd, &h, 0, buf, sizeof(buf), NULL), 0);
	CHECK(mem_all(p, 8 * PAGE, 7));
}

static void memory_truncated(void)
{
	int file, fd = dev_open();
	char *p = memfd_map(64 * PAGE, MAP_SHARED, &file);
	char *buf = mem_map(64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_handle h;
	uint64_t n;

	mem_fill(p, 64 * PAGE, 4);
	EQ(dev_export(fd, p, 64 * PAGE, 3, &h), 0);
	CHECK(!ftruncate(file, 40 * PAGE + 10));
	EQ(dev_from(fd, &h, 0, buf, 64 * PAGE, &n), -ENXIO);
	/* The page in which the file ends is there; what follows its end reads as zero. */
	EQ(n, 41 * PAGE);
	CHECK(mem_is(buf, 40 * PAGE + 10, 4) && mem_all(buf + 40 * PAGE + 10, PAGE - 10, 0));
}

static void memory_secret(void)
{
	int file = syscall(SYS_memfd_secret, 0), fd = dev_open();
	struct beeline_handle h;
	char buf[PAGE], *p;
	uint64_t n;

	if (file < 0 || ftruncate(file, PAGE))
		vt_skip("no memfd_secret (secretmem.enable=1): errno %d", errno);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 1, PAGE);
	EQ(dev_export(fd, p, PAGE, 3, &h), 0);
	EQ(dev_from(fd, &h, 0, buf, PAGE, &n), -ENXIO);
	EQ(n, 0);
}

/* What the caller cannot write or read is EFAULT, with the count up to there. */
static void memory_callers_own(void)
{
	char *p = mem_map(64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *buf = mem_map(64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open();
	struct beeline_handle h;
	uint64_t n;

	mem_fill(p, 64 * PAGE, 5);
	memset(buf, 0x77, 64 * PAGE);
	EQ(dev_export(fd, p, 64 * PAGE, 3, &h), 0);
	mprotect(buf + 50 * PAGE, PAGE, PROT_READ);
	EQ(dev_from(fd, &h, 0, buf, 64 * PAGE, &n), -EFAULT);
	EQ(n, 50 * PAGE);
	CHECK(mem_is(buf, n, 5) && mem_all(buf + n, 64 * PAGE - n, 0x77));
	EQ(dev_from(fd, &h, 0, (char *)0xffff888000000000ul, PAGE, &n), -EFAULT);
	EQ(n, 0);
	EQ(dev_from(fd, &h, 0, NULL, PAGE, &n), -EFAULT);
	munmap(buf + 20 * PAGE, PAGE);
	memset(p, 0xEE, 64 * PAGE);
	EQ(dev_to(fd, &h, 0, buf + 10, 64 * PAGE - 10, &n), -EFAULT);
	EQ(n, 20 * PAGE - 10);
	CHECK(!memcmp(p, buf + 10, n) && mem_all(p + n, 64 * PAGE - n, 0xEE));
}

/*
 * What a copy does not reach, it leaves alone, also in memory that was never touched: a private
 * mapping of a file, whose pages all have to be made present, and an exporter whose memory ends.
 */
static void memory_beyond_the_count(void)
{
	static const size_t holes[] = {0, 5, 40, 600};
	const size_t len = 700 * PAGE;
	char *p = mem_map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open(), file;
	struct beeline_handle h;
	uint64_t n;

	memset(memfd_map(len, MAP_SHARED, &file), 0x77, len);
	for (size_t i = 0; i < NELEM(holes); i++) {
		char *buf = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);

		CHECK(buf != MAP_FAILED);
		mem_fill(p, len, 5);
		EQ(dev_export(fd, p, len, 3, &h), 0);
		mprotect(p + holes[i] * PAGE, PAGE, PROT_NONE);
		EQ(dev_from(fd, &h, 0, buf, len - 77, &n), -ENXIO);
		EQ(n, holes[i] * PAGE);
		CHECK(mem_is(buf, n, 5) && mem_all(buf + n, len - n, 0x77));
		mprotect(p + holes[i] * PAGE, PAGE, PROT_READ | PROT_WRITE);
		EQ(dev_revoke(fd, &h, 0), 0);
		munmap(buf, len);
	}
}

/* The stack grows under a copy as it does under any other store: far below what is in use. */
static void memory_stack_grows(void)
{
	char *p = mem_map(64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *below = (char *)((uintptr_t)__builtin_frame_address(0) - 300 * PAGE);
	int fd = dev_open();
	struct beeline_handle h;

	mem_fill(p, 64 * PAGE, 5);
	EQ(dev_export(fd, p, 64 * PAGE, 3, &h), 0);
	EQ(dev_from(fd, &h, 0, below, 64 * PAGE, NULL), 0);
	CHECK(mem_is(below, 64 * PAGE, 5));
}

/* Memory that a fork shares stays shared when read, and parts when written. */
static void memory_forked(void)
{
	char *p = mem_map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char buf[4 * PAGE];
	int fd = dev_open(), status;
	struct beeline_handle h;
	pid_t child;

	memset(p, 1, 4 * PAGE);
	EQ(dev_export(fd, p, 4 * PAGE, 3, &h), 0);
	child = fork();
	if (!child) {
		/* The child writes to the parent's memory by the parent's handle, not its own. */
		memset(buf, 2, sizeof(buf));
		EQ(dev_to(fd, &h, 0, buf, sizeof(buf), NULL), 0);
		CHECK(mem_all(p, 4 * PAGE, 1));
		memset(p, 3, 4 * PAGE);
		EQ(dev_from(fd, &h, 0, buf, sizeof(buf), NULL), 0);
		CHECK(mem_all(buf, sizeof(buf), 2));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	EQ(status, 0);
	CHECK(mem_all(p, 4 * PAGE, 2));
}

static void iovecs(void)
{
	enum { N = 1024 };
	static struct beeline_iov iov[N + 1];
	char *p = mem_map(AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *buf = mem_map(AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_copy c = {0};
	int fd = dev_open();
	size_t at, total;

	/* 5000-byte steps: segments begin anywhere in a page; some are empty, some one byte. */
	for (int to = 0; to < 2; to++) {
		mem_fill(to ? buf : p, AREA, 8 + to);
		memset(to ? p : buf, 0, AREA);
		for (at = 0, total = 0; at < N; at++) {
			iov[at].addr = (uintptr_t)buf + at * 5000;
			iov[at].len = at % 5 == 3 ? 0 : at % 5 == 4 ? 1 : at * 4 % 4999;
			total += iov[at].len;
		}
		EQ(dev_export(fd, p + 77, total, 3, &c.handle), 0);
		c.len = total;
		c.local = (uintptr_t)iov;
		c.niov = N;
		c.flags = to ? BEELINE_COPY_TO : 0;
		EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), 0);
		EQ(c.copied, total);
		for (at = 0, total = 0; at < N; total += iov[at++].len)
			CHECK(!memcmp(buf + at * 5000, p + 77 + total, iov[at].len));
	}
	c.flags = 0;
	/* Fewer bytes than the segments hold: the rest is left alone. */
	memset(buf, 0xA5, AREA);
	c.len = 10000;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), 0);
	for (at = 0, total = 0; at < N; total += iov[at++].len)
		for (size_t i = 0; i < iov[at].len; i++)
			if (total + i >= 10000)
				CHECK(buf[at * 5000 + i] == (char)0xA5);
	/* More bytes than they hold. */
	c.niov = 3;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -EINVAL);
	EQ(c.copied, iov[0].len + iov[1].len + iov[2].len);
	c.niov = N + 1;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -EINVAL);
	c.niov = 1;
	c.local = 1;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -EFAULT);
}

/* Pins taken and let go since boot, by anybody. */
static void pins(uint64_t *taken, uint64_t *let_go)
{
	int refresh = open("/proc/sys/vm/stat_refresh", O_WRONLY);
	FILE *f = fopen("/proc/vmstat", "r");
	char name[64];
	unsigned long long value;

	CHECK(refresh >= 0 && write(refresh, "1", 1) == 1 && f);
	close(refresh);
	*taken = *let_go = ~0ull;
	while (fscanf(f, "%63s %llu", name, &value) == 2) {
		if (!strcmp(name, "nr_foll_pin_acquired"))
			*taken = value;
		if (!strcmp(name, "nr_foll_pin_released"))
			*let_go = value;
	}
	fclose(f);
	CHECK(*taken != ~0ull && *let_go != ~0ull);
}

/*
 * Segments are known 16 at a time: a window takes no more pages than they can fill, and where one
 * of theirs is missing all of them are made present at once.
 */
static void iovecs_small(void)
{
	enum { N = 1024, WINDOWS = N / 16, LAST = 512 };
	const size_t len = (N + LAST) * PAGE;
	static struct beeline_iov iov[N];
	char *p = mem_map(AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *buf = mem_map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_copy c = {.local = (uintptr_t)iov, .niov = N};
	uint64_t before[2], after[2];
	int fd = dev_open();

	madvise(buf, len, MADV_NOHUGEPAGE);
	for (int i = 0; i < N - 1; i++)
		iov[i] = (struct beeline_iov){(uintptr_t)buf + i * PAGE + 1000, 8};
	iov[N - 1] = (struct beeline_iov){(uintptr_t)buf + N * PAGE, LAST * PAGE};
	mem_fill(p, AREA, 2);
	EQ(dev_export(fd, p, AREA, 3, &c.handle), 0);
	c.len = (N - 1) * 8 + LAST * PAGE;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), 0);
	for (int i = 0; i < N; i++)
		CHECK(!memcmp((char *)iov[i].addr, p + 8 * i, iov[i].len));
	EQ(dev_stat(fd, 0).faults, 1);
	c.flags = BEELINE_COPY_TO;
	memset(buf, 3, len);
	pins(&before[0], &before[1]);
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), 0);
	pins(&after[0], &after[1]);
	CHECK(mem_all(p, c.len, 3));
	EQ(after[1] - before[1], after[0] - before[0]);
	if (after[0] - before[0] > 2 * WINDOWS + LAST)
		vt_fail("%llu pages pinned", (unsigned long long)(after[0] - before[0]));
}

/* Copies of all shapes between an export and ourselves, some of them short. */
static void copy_about(char *p, size_t len)
{
	static const size_t lens[] = {1,	 PAGE,		PAGE + 1,	2 * PAGE,
				      31 * PAGE, 33 * PAGE + 1, 511 * PAGE + 1, 513 * PAGE};
	char *buf = mem_map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *gone = mem_map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	int fd = dev_open();
	struct beeline_handle h;
	uint64_t n;

	munmap(gone + 20 * PAGE, PAGE);
	EQ(dev_export(fd, p, len, 3, &h), 0);
	for (size_t i = 0; i < NELEM(lens); i++)
		for (size_t at = 0; at + lens[i] <= len; at += 67 * PAGE + 5) {
			EQ(dev_from(fd, &h, at, buf, lens[i], NULL), 0);
			EQ(dev_to(fd, &h, at, buf, lens[i], NULL), 0);
		}
	/* Windows that end at a page of ours that cannot be had. */
	EQ(dev_from(fd, &h, 0, gone, 100 * PAGE, &n), -EFAULT);
	EQ(dev_to(fd, &h, 0, gone, 100 * PAGE, &n), -EFAULT);
	close(fd);
}

/*
 * No reference and no pin outlives a copy. A memfd can be sealed against writing only when
 * nobody but its mappings holds one of its pages.
 */
static void pages_let_go(void)
{
	const size_t len = 1100 * PAGE;
	int file = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint64_t taken, let_go;
	char *p;

	CHECK(file >= 0 && !ftruncate(file, len));
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 1, len);
	copy_about(p, len);
	munmap(p, len);
	if (fcntl(file, F_ADD_SEALS, F_SEAL_WRITE))
		vt_fail("pages are still held: errno %d", errno);
	pins(&taken, &let_go);
	EQ(let_go, taken);
}

static long huge_pages_free(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	long n = -1;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "HugePages_Free: %ld", &n) == 1)
			break;
	fclose(f);
	return n;
}

static void pages_let_go_huge(void)
{
	int f = open("/proc/sys/vm/nr_hugepages", O_WRONLY), file;
	double until = vt_now() + WAIT_MS / 1000.0;
	long before;
	char *p;

	CHECK(f >= 0 && write(f, "6", 1) == 1);
	close(f);
	before = huge_pages_free();
	file = memfd_create("t", MFD_CLOEXEC | MFD_HUGETLB);
	CHECK(file >= 0 && !ftruncate(file, AREA));
	p = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (p == MAP_FAILED || before < 3)
		vt_skip("no huge pages to be had: %ld free", before);
	memset(p, 1, AREA);
	EQ(huge_pages_free(), before - 3);
	copy_about(p, AREA);
	munmap(p, AREA);
	close(file);
	while (huge_pages_free() != before) {
		if (vt_now() > until)
			vt_fail("%ld huge pages are still held", before - huge_pages_free());
		usleep(10000);
	}
}

static void ranges(void)
{
	char p[300], buf[300];
	int fd = dev_open();
	struct beeline_handle h;
	uint64_t n;
	struct beeline_copy c = {.local = (uintptr_t)buf, .flags = BEELINE_COPY_ADDRESS};

	mem_fill(p, sizeof(p), 1);
	EQ(dev_export(fd, p, 200, BEELINE_READ, &h), 0);
	EQ(dev_from(fd, &h, 50, buf, 150, NULL), 0);
	CHECK(!memcmp(buf, p + 50, 150));
	EQ(dev_from(fd, &h, 200, buf, 0, NULL), 0);
	EQ(dev_from(fd, &h, 201, buf, 0, &n), -ERANGE);
	EQ(dev_from(fd, &h, 0, buf, 201, &n), -ERANGE);
	EQ(dev_from(fd, &h, 199, buf, 2, &n), -ERANGE);
	EQ(dev_from(fd, &h, ~0ull, buf, 2, &n), -ERANGE);
	EQ(dev_from(fd, &h, ~0ull - 1, buf, 2, &n), -ERANGE);
	c.handle = h;
	c.offset = (uintptr_t)p + 7;
	c.len = 193;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), 0);
	CHECK(!memcmp(buf, p + 7, 193));
	c.len = 194;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -ERANGE);
	c.offset = (uintptr_t)p - 1;
	c.len = 1;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -ERANGE);
	c.offset = 0;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -ERANGE);
	c.offset = ~0ull;
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), -ERANGE);
}

static void batches(void)
{
	char p[4096], buf[4096];
	struct beeline_copy c[4] = {0};
	struct beeline_batch b = {.copies = (uintptr_t)c, .count = 4, .size = sizeof(c[0])};
	int fd = dev_open();
	struct beeline_handle h;

	mem_fill(p, sizeof(p), 1);
	EQ(dev_export(fd, p, sizeof(p), BEELINE_READ, &h), 0);
	for (int i = 0; i < 4; i++) {
		c[i].handle = h;
		c[i].offset = i * 1024;
		c[i].local = (uintptr_t)buf + i * 1024;
		c[i].len = 1024;
		c[i].status = 99;
	}
	EQ(dev_ioctl(fd, BEELINE_IOC_BATCH, &b), 0);
	EQ(b.done, 4);
	CHECK(mem_is(buf, sizeof(buf), 1));
	c[2].offset = 4000;
	c[3].status = 99;
	EQ(dev_ioctl(fd, BEELINE_IOC_BATCH, &b), -ERANGE);
	EQ(b.done, 2);
	EQ(c[1].status, 0);
	EQ(c[2].status, -ERANGE);
	EQ(c[2].copied, 0);
	EQ(c[3].status, 99);
	b.count = 0;
	EQ(dev_ioctl(fd, BEELINE_IOC_BATCH, &b), 0);
	b.count = 1025;
	EQ(dev_ioctl(fd, BEELINE_IOC_BATCH, &b), -EINVAL);
	b.count = 4;
	b.size = 56;
	EQ(dev_ioctl(fd, BEELINE_IOC_BATCH, &b), -EINVAL);
	b.size = sizeof(c[0]);
	b.copies = 4096;
	EQ(dev_ioctl(fd, BEELINE_IOC_BATCH, &b), -EFAULT);
	EQ(b.done, 0);
}

/*
 * More than 2 GiB in one call: the exporter's pages are all the zero page, and the segments all
 * name the same megabytes, so that it fits a small guest.
 */
static void data_beyond_2_gib(void)
{
	enum { N = 1024 };
	const size_t each = (2ul << 20) + 8, total = N * each;
	static struct beeline_iov iov[N];
	char *p = mmap(NULL, total, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *buf = mem_map(each, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct beeline_copy c = {.len = total, .local = (uintptr_t)iov, .niov = N};
	int fd = dev_open();

	CHECK(p != MAP_FAILED && total > 1ul << 31);
	for (int i = 0; i < N; i++)
		iov[i] = (struct beeline_iov){(uintptr_t)buf, each};
	memset(buf, 1, each);
	EQ(dev_export(fd, p, total, BEELINE_READ, &c.handle), 0);
	EQ(dev_ioctl(fd, BEELINE_IOC_COPY, &c), 0);
	EQ(c.copied, total);
	CHECK(mem_all(buf, each, 0));
	EQ(dev_stat(fd, 0).from_bytes, total);
}

static const struct test tests[] = {
	{"data_small_pages", data_small_pages, 120},
	{"data_transparent_huge_pages", data_transparent_huge_pages, 120},
	{"data_hugetlb", data_hugetlb, 120},
	{"data_file_shared", data_file_shared, 120},
	{"data_file_private", data_file_private, 120},
	{"data_untouched_target", data_untouched_target, 0},
	{"memory_read_only", memory_read_only, 0},
	{"memory_none_and_unmapped", memory_none_and_unmapped, 0},
	{"memory_dontneed_reads_zero", memory_dontneed_reads_zero, 0},
	{"memory_truncated", memory_truncated, 0},
	{"memory_secret", memory_secret, 0},
	{"memory_callers_own", memory_callers_own, 0},
	{"memory_beyond_the_count", memory_beyond_the_count, 0},
	{"memory_stack_grows", memory_stack_grows, 0},
	{"memory_forked", memory_forked, 0},
	{"iovecs", iovecs, 0},
	{"iovecs_small", iovecs_small, 0},
	{"pages_let_go", pages_let_go, 0},
	{"pages_let_go_huge", pages_let_go_huge, 0},
	{"ranges", ranges, 0},
	{"batches", batches, 0},
	{"data_beyond_2_gib", data_beyond_2_gib, 200},
};

int main(int argc, char **argv)
{
	return vt_main(tests, NELEM(tests), argc, argv);
}
