/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * limic_test.c: liblimic2 where one process may open /dev/beeline and the other may not. The
 * announcing process is a child, in which ioctl() (-Wl,--wrap) stands in for the module: it gives
 * handles, but copies nothing; the tests are its peer without a module. What needs the real module
 * is in tests/vm.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limic.h"
#include "uapi/beeline.h"
#include "unit/table.h"

#define LEN (1u << 20)

/* ThreadSanitizer has its own use for that part of the address space. */
#ifdef __SANITIZE_THREAD__
#define PLACES_THERE false
#else
#define PLACES_THERE true
#endif

static bool module_here; /* in this process */
static bool crowded;	 /* the announcer's table finds no place */
static uint64_t bucket;	 /* not 0: all handles begin with it, and so lie in one chain */
static unsigned char data[LEN], buf[LEN];
static int sock = -1; /* to the other process */
static pid_t announcer;
static int fd;

int __real_ioctl(int fd_, unsigned long request, ...);
int __wrap_ioctl(int fd_, unsigned long request, ...);

int __wrap_ioctl(int fd_, unsigned long request, ...)
{
	struct beeline_export *e;
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!module_here)
		return __real_ioctl(fd_, request, arg);
	if (request == BEELINE_IOC_REVOKE)
		return 0;
	assert_int_equal(request, BEELINE_IOC_EXPORT);
	e = arg;
	assert_int_equal(getrandom(&e->handle, sizeof e->handle, 0), sizeof e->handle);
	if (bucket)
		e->handle.w[0] = bucket;
	return 0;
}

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 7 + i / 251);
}

/* What the announcer is to do; it answers each with a limic_user. */
struct order {
	enum { ANNOUNCE, CLOSE, FORK, SAME_CHAIN, AGAIN, CHECK } what;
	size_t at, len;
};

static void announce_for(int to)
{
	struct order o;
	limic_user lu;

	while (read(to, &o, sizeof o) == sizeof o) {
		memset(&lu, 0, sizeof lu);
		switch (o.what) {
		case ANNOUNCE:
			if (limic_tx_init(fd, data + o.at, o.len, &lu) != o.len)
				_exit(2);
			break;
		case CLOSE:
			limic_close(fd);
			fd = open("/dev/null", O_RDWR | O_CLOEXEC);
			break;
		case SAME_CHAIN:
			bucket = o.at;
			break;
		case AGAIN: /* until the oldest announcements have been retired */
			for (size_t i = 0; i < o.len; i++)
				if (!limic_tx_init(fd, data + i % LEN, 1 + i / LEN, &lu))
					_exit(2);
			break;
		case CHECK: /* lu->length says whether the bytes are there */
			lu.length = 1;
			for (size_t i = 0; i < o.len; i++)
				if (data[o.at + i] != (unsigned char)~byte_at(o.at + i))
					lu.length = 0;
			break;
		case FORK: { /* the child announces its own bytes, at the same addresses */
			pid_t child = fork();

			if (!child) {
				memset(data, 0x5c, sizeof data);
				if (limic_tx_init(fd, data + o.at, o.len, &lu) != o.len)
					_exit(2);
				if (write(to, &lu, sizeof lu) != sizeof lu ||
				    read(to, &o, sizeof o) != sizeof o)
					_exit(2);
				_exit(write(to, &lu, sizeof lu) != sizeof lu);
			}
			waitpid(child, NULL, 0);
			continue;
		}
		}
		if (write(to, &lu, sizeof lu) != sizeof lu)
			_exit(2);
	}
	_exit(0);
}

static limic_user tell(int what, size_t at, size_t len)
{
	struct order o = {what, at, len};
	limic_user lu;

	assert_int_equal(write(sock, &o, sizeof o), sizeof o);
	assert_int_equal(read(sock, &lu, sizeof lu), sizeof lu);
	return lu;
}

static void begin(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	announcer = fork();
	assert_true(announcer >= 0);
	if (!announcer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		close(pair[0]);
		module_here = true;
		/* As in src/limic/limic.c: 256 places of 16 MiB. */
		if (crowded &&
		    mmap((void *)0x200000000000, 256ul << 24, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
			_exit(3);
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		for (size_t i = 0; i < LEN; i++)
			data[i] = byte_at(i);
		announce_for(pair[1]);
	}
	close(pair[1]);
	sock = pair[0];
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
}

static void end(void)
{
	int status;

	close(sock);
	assert_int_equal(waitpid(announcer, &status, 0), announcer);
	assert_int_equal(status, 0);
	limic_close(fd);
}

static void received(limic_user lu, size_t at, size_t len)
{
	memset(buf, 0, len + 1);
	assert_int_equal(limic_rx_comp(fd, buf, len, &lu), len);
	assert_int_equal(lu.length, len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(buf[i], byte_at(at + i));
	assert_int_equal(buf[len], 0);
}

static void refused_with(limic_user lu, size_t len, int error, bool cleared)
{
	const limic_user before = lu;

	memset(buf, 0x33, len);
	errno = 0;
	assert_int_equal(limic_rx_comp(fd, buf, len, &lu), 0);
	if (error)
		assert_int_equal(errno, error);
	assert_int_not_equal(errno, 0);
	/* Untouched, or cleared where an earlier copy had been made of it. */
	for (size_t i = 0; i < len; i++)
		assert_int_equal(buf[i], cleared ? 0 : 0x33);
	assert_int_equal(lu.length, before.length);
	assert_int_equal(limic_tx_comp(fd, buf, len, &lu), 0);
}

static void refused(limic_user lu, size_t len, int error)
{
	refused_with(lu, len, error, false);
}

/* Copied from before, and ended since. */
static void refused_now(limic_user lu, size_t len, int error)
{
	refused_with(lu, len, error, true);
}

/* Then there is no telling where its announcements are, and no harm in asking. */
static void no_place(void **state)
{
	limic_user lu;

	crowded = true;
	begin();
	crowded = false;
	lu = tell(ANNOUNCE, 0, 100);
	assert_in_range(lu.nr_pages, 1, 2);
	refused(lu, 100, 0);
	end();
}

static void both_ways(void **state)
{
	static const size_t sizes[] = {1, 100, 4096, 4097, 70000, LEN - 4001};

	begin();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		received(tell(ANNOUNCE, 4000, sizes[i]), 4000, sizes[i]);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		limic_user lu = tell(ANNOUNCE, 4000, sizes[i]);

		for (size_t n = 0; n < sizes[i]; n++)
			buf[n] = (unsigned char)~byte_at(4000 + n);
		assert_int_equal(limic_tx_comp(fd, buf, sizes[i], &lu), sizes[i]);
		assert_int_equal(tell(CHECK, 4000, sizes[i]).length, 1);
	}
	end();
}

/* nr_pages is the receiver's after the first part, and holds what the fallback needs. */
static void in_parts(void **state)
{
	static const size_t parts[] = {100, 4096, 1, 8199, 5000};
	size_t left = 0, at = 50;
	limic_user lu;

	begin();
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		left += parts[i];
	lu = tell(ANNOUNCE, at, left);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		received(lu, at, parts[i]);
		at += parts[i];
		left -= parts[i];
		lu.va += parts[i];
		lu.offset = lu.va % 4096;
		lu.length = left;
		lu.nr_pages = (int)((lu.va + left + 4095) / 4096 - lu.va / 4096);
	}
	end();
}

static void tampered(void **state)
{
	limic_user lu, t;

	begin();
	lu = tell(ANNOUNCE, 10000, 200);
	for (int bit = 0; bit < 128; bit++) {
		t = lu;
		((unsigned char *)&t.mm)[bit / 8] ^= (unsigned char)(1 << bit % 8);
		refused(t, 200, 0);
	}
	/* No bit of it reaches anything else; before the first copy, each is needed. */
	for (int bit = 0; bit < 32; bit++) {
		t = lu;
		t.nr_pages ^= (int)(1u << bit);
		refused(t, 200, 0);
	}
	for (int i = 0; i < 8; i++) {
		t = lu;
		t.va += i == 0 ? -4096ul : i == 1 ? 4096 : 0;
		t.offset += i == 2 ? -1ul : i == 3 ? 1 : i == 4 ? -(size_t)10000 : 0;
		t.length += i == 5;
		t.offset = i == 6 ? SIZE_MAX : t.offset;
		t.va = i == 7 ? 0 : t.va;
		refused(t, i == 5 ? 201 : 200, ERANGE);
	}
	received(lu, 10000, 200);
	end();
}

static void ended(void **state)
{
	limic_user lu, other;

	begin();
	lu = tell(ANNOUNCE, 0, 100);
	received(lu, 0, 100);
	tell(CLOSE, 0, 0);
	refused_now(lu, 100, ENOENT);
	other = tell(ANNOUNCE, 0, 100);
	received(other, 0, 100);
	refused(lu, 100, ENOENT);
	end();
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	refused(other, 100, ESRCH);
	limic_close(fd);
}

static void retired(void **state)
{
	limic_user lu;

	begin();
	lu = tell(ANNOUNCE, 0, 100);
	received(lu, 0, 100);
	tell(AGAIN, 0, LIMIC_MOST - 1);
	received(lu, 0, 100);
	tell(AGAIN, 0, LIMIC_MOST + 1);
	refused_now(lu, 100, ENOENT);
	/* Slots and chains have all been used twice. */
	received(tell(ANNOUNCE, 500, 3000), 500, 3000);
	end();
}

static void one_chain(void **state)
{
	limic_user lu[30];

	begin();
	tell(SAME_CHAIN, 77, 0);
	for (size_t i = 0; i < 30; i++)
		lu[i] = tell(ANNOUNCE, i, 100 + i);
	for (size_t i = 0; i < 30; i++)
		received(lu[i], i, 100 + i);
	tell(SAME_CHAIN, 0, 0);
	/* All but the last of them leave it. */
	tell(AGAIN, 0, LIMIC_MOST - 1);
	for (size_t i = 0; i < 29; i++)
		refused(lu[i], 100, ENOENT);
	received(lu[29], 29, 129);
	end();
}

static void forked(void **state)
{
	limic_user parent, child;

	begin();
	parent = tell(ANNOUNCE, 0, 1000);
	child = tell(FORK, 0, 1000);
	assert_int_equal(limic_rx_comp(fd, buf, 1000, &child), 1000);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(buf[i], 0x5c);
	received(parent, 0, 1000);
	tell(ANNOUNCE, 0, 0); /* the child's last */
	end();
}

/* The announcer without, the receiver's own table unused: the other case of the fallback. */
static void neither(void **state)
{
	limic_user lu;

	begin();
	assert_int_equal(limic_tx_init(fd, data, 5000, &lu), 5000);
	assert_int_equal(lu.nr_pages,
			 ((uintptr_t)data + 5000 + 4095) / 4096 - (uintptr_t)data / 4096);
	memset(data, 0x21, 5000);
	assert_int_equal(limic_rx_comp(fd, buf, 5000, &lu), 5000);
	assert_memory_equal(buf, data, 5000);
	end();
}

int main(void)
{
	TABLE_TEST(no_place); /* the first: children inherit the table that the others make */
	if (PLACES_THERE) {
		TABLE_TEST(both_ways);
		TABLE_TEST(in_parts);
		TABLE_TEST(tampered);
		TABLE_TEST(ended);
		TABLE_TEST(retired);
		TABLE_TEST(one_chain);
		TABLE_TEST(forked);
	}
	TABLE_TEST(neither);
	return table_run("limic");
}
