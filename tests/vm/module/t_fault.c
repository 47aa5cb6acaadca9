// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Fault injection, systematically: each request is made again and again, and in the n-th round
 * the n-th thing in it that can fail (an allocation, a copy from or to user memory) fails, until
 * a round goes by with nothing left to fail. Every outcome must be a plain error, and the same
 * request without injection must then work on the same data: nothing half done stays behind.
 * Needs a kernel with fault injection (/proc/self/fail-nth).
 */
#include "vmtest.h"

static int nth_fd;
static int dev;
static struct beeline_handle handle;
static char *theirs, *ours;
#define LEN (64 * PAGE)

static void set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		vt_skip("no fault injection in this kernel (%s)", path);
	close(fd);
}

static bool try_inject(int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n);

	return pwrite(nth_fd, text, len, 0) == len;
}

static void inject(int n)
{
	CHECK(try_inject(n));
}

/*
 * True if the injection of this round has happened. If it has not, it may hit the very calls that
 * find this out.
 */
static bool injected(void)
{
	char text[16] = "";

	if (pread(nth_fd, text, sizeof(text) - 1, 0) > 0 && !atoi(text))
		return true;
	for (int i = 0; !try_inject(0); i++)
		CHECK(i < 3);
	return false;
}

static void prepare(void)
{
	set("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	set("/sys/kernel/debug/failslab/verbose", "0");
	set("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	set("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	set("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	set("/sys/kernel/debug/fail_usercopy/verbose", "0");
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	if (nth_fd < 0)
		vt_skip("no /proc/self/fail-nth");
	dev = dev_open();
	theirs = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	ours = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	mem_fill(theirs, LEN, 1);
	memset(ours, 0, LEN);
	EQ(dev_export(dev, theirs, LEN, 3, &handle), 0);
}

/* Runs op with the first, second, ... fault until none is left; op checks its own results. */
static void each_fault(const char *what, int (*op)(void))
{
	int n, failed = 0;

	for (n = 1; n < 5000; n++) {
		int ret;
		bool hit;

		inject(n);
		ret = op();
		hit = injected();
		if (!hit) {
			EQ(ret, 0);
			break;
		}
		EQ(dev_stat(dev, 0).live, 1);
		if (ret && ret != -ENOMEM && ret != -EFAULT && ret != -ENXIO)
			vt_fail("%s: fault %d gives %d", what, n, ret);
		failed += !!ret;
		ret = op();
		if (ret)
			vt_fail("%s: without a fault after fault %d: %d", what, n, ret);
	}
	printf("# %s: %d faults injected, %d seen as errors\n", what, n - 1, failed);
	/* Each of the requests allocates or copies something: none can go without. */
	if (n == 1 || !failed)
		vt_fail("%s: %d faults injected, %d seen as errors", what, n - 1, failed);
}

static int op_open(void)
{
	int fd = open("/dev/beeline", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return errno == ENXIO ? -EFAULT : -errno;
	close(fd);
	return 0;
}

static int op_export(void)
{
	struct beeline_handle h;
	int ret = dev_export(dev, theirs, LEN, 3, &h);

	if (ret)
		return ret;
	ret = dev_revoke(dev, &h, 0);
	/* A fault in the revoke itself: the export is still there, to be revoked again. */
	if (ret)
		EQ(dev_revoke(dev, &h, 0), 0);
	return ret;
}

static int op_group(void)
{
	struct beeline_group g = {0};
	int fd = open("/dev/beeline", O_RDWR | O_CLOEXEC), ret;

	if (fd < 0)
		return -ENOMEM;
	ret = dev_ioctl(fd, BEELINE_IOC_GROUP, &g);
	close(fd);
	return ret;
}

static size_t copy_len;
static bool copy_fresh;

/* As dev_from(), but a fault may hit the writing of the results too: then they stay as set. */
static int copy_raw(unsigned int flags, uint64_t *copied)
{
	struct beeline_copy c = {
		.handle = handle, .len = copy_len, .local = (uintptr_t)ours, .flags = flags};
	int ret = dev_ioctl(dev, BEELINE_IOC_COPY, &c);

	*copied = c.copied;
	return ret;
}

static int op_from(void)
{
	uint64_t n;
	int ret;

	if (copy_fresh)
		madvise(ours, LEN, MADV_DONTNEED);
	else
		memset(ours, 0, copy_len);
	ret = copy_raw(0, &n);
	if (n > copy_len || (!ret && n != copy_len) || memcmp(ours, theirs, n))
		vt_fail("from: %d with %llu bytes", ret, (unsigned long long)n);
	return ret;
}

static int op_to(void)
{
	static unsigned int seed = 5;
	uint64_t n;
	int ret;

	mem_fill(ours, copy_len, ++seed);
	ret = copy_raw(BEELINE_COPY_TO, &n);
	if (n > copy_len || (!ret && n != copy_len) || memcmp(ours, theirs, n))
		vt_fail("to: %d with %llu bytes", ret, (unsigned long long)n);
	return ret;
}

static int op_batch(void)
{
	struct beeline_copy c[3] = {0};
	struct beeline_batch b = {.copies = (uintptr_t)c, .count = 3, .size = sizeof(c[0])};
	int ret;

	for (int i = 0; i < 3; i++) {
		c[i].handle = handle;
		c[i].offset = i * PAGE;
		c[i].len = PAGE;
		c[i].local = (uintptr_t)ours + i * PAGE;
	}
	ret = dev_ioctl(dev, BEELINE_IOC_BATCH, &b);
	CHECK(b.done <= 3 && (ret || b.done == 3) && !memcmp(ours, theirs, b.done * PAGE));
	return ret;
}

static int op_iov(void)
{
	struct beeline_iov iov[40];
	struct beeline_copy c = {.handle = handle, .local = (uintptr_t)iov, .niov = 40};
	int ret;

	for (int i = 0; i < 40; i++)
		iov[i] = (struct beeline_iov){(uintptr_t)ours + i * 1000, 1000};
	c.len = 40000;
	ret = dev_ioctl(dev, BEELINE_IOC_COPY, &c);
	CHECK(c.copied <= 40000 && !memcmp(ours, theirs, c.copied));
	return ret;
}

static int op_stat(void)
{
	struct beeline_stat st = {.flags = BEELINE_STAT_MODULE};

	return dev_ioctl(dev, BEELINE_IOC_STAT, &st);
}

static void faults_one_by_one(void)
{
	prepare();
	each_fault("open", op_open);
	each_fault("export", op_export);
	each_fault("group", op_group);
	each_fault("stat", op_stat);
	each_fault("batch", op_batch);
	each_fault("vector", op_iov);
	for (int i = 0; i < 3; i++) {
		copy_len = (size_t[]){100, 2 * PAGE, 40 * PAGE}[i];
		copy_fresh = false;
		each_fault("copy from", op_from);
		each_fault("copy to", op_to);
	}
	copy_len = 40 * PAGE;
	copy_fresh = true;
	each_fault("copy from, to untouched memory", op_from);
}

static const struct test tests[] = {
	{"faults_one_by_one", faults_one_by_one, 300},
};

int main(int argc, char **argv)
{
	return vt_main(tests, NELEM(tests), argc, argv);
}
