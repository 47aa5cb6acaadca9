/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * huge_test.c: which buffers are put into huge pages, and when (place/huge.c). The kernel's part
 * is ours: what it is asked is counted, what it answers and how long that takes is in the tables.
 * The last test asks the real one.
 */
#include "place/huge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "unit/table.h"

#define MIB  (1u << 20)
#define BASE (64ull * BL_HUGE_SIZE) /* no memory: nothing is read or written there */

/* A word of /proc/self/pagemap. */
#define OURS   (1ull << 63 | 1ull << 56 | 1ull << 55)
#define SHARED (1ull << 63 | 1ull << 61)
#define FILES  (1ull << 63 | 1ull << 61 | 1ull << 56)
#define FORKED (1ull << 63)
#define ZERO   (1ull << 63) /* the page that all have that only read */
#define NONE   0ull
#define SWAP   (1ull << 62)

static struct {
	const char *policy, *policy_2m; /* what the settings' files say; NULL: there is none */
	const char *rt_runtime;		/* of sched_rt_runtime_us */
	const char *maps;
	bool real, no_pagemap;
	int err; /* of madvise; 0: none */
	uint64_t page, rest;
	unsigned pages; /* the first so many are `page`, others `rest` */
	unsigned tries, asked;
	uint64_t now, takes; /* ns */
	uintptr_t last;
} kernel;

static struct bl_huge huge;

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __real_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice);
ssize_t __real_pread64(int fd, void *to, size_t len, off_t off);
ssize_t __wrap_pread64(int fd, void *to, size_t len, off_t off);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

static int file_that_says(const char *text)
{
	int fd = -1;

	if (text) {
		fd = memfd_create("settings", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
	}
	errno = ENOENT;
	return fd;
}

int __wrap_open64(const char *path, int flags, ...)
{
	if (kernel.real)
		return __real_open64(path, flags, 0600);
	if (strstr(path, "/pagemap"))
		return file_that_says(kernel.no_pagemap ? NULL : "");
	if (strstr(path, "/maps"))
		return file_that_says(kernel.maps);
	return __real_open64(path, flags, 0600);
}

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	if (kernel.real)
		return __real_openat64(dir, path, flags, 0600);
	if (strstr(path, "transparent_hugepage"))
		return file_that_says(strstr(path, "2048kB") ? kernel.policy_2m : kernel.policy);
	if (strstr(path, "sched_rt_runtime_us"))
		return file_that_says(kernel.rt_runtime);
	return __real_openat64(dir, path, flags, 0600);
}

int __wrap_madvise(void *at, size_t len, int advice)
{
	if (kernel.real || advice != 25) {
		kernel.tries += advice == 25;
		return __real_madvise(at, len, advice);
	}
	assert_int_equal(len, BL_HUGE_SIZE);
	assert_int_equal((uintptr_t)at % BL_HUGE_SIZE, 0);
	kernel.tries++;
	kernel.last = (uintptr_t)at;
	kernel.now += kernel.takes;
	errno = kernel.err;
	return kernel.err ? -1 : 0;
}

ssize_t __wrap_pread64(int fd, void *to, size_t len, off_t off)
{
	uint64_t *page = to;

	if (kernel.real)
		return __real_pread64(fd, to, len, off);
	assert_int_equal(len, 512 * sizeof *page);
	assert_int_equal(off % (off_t)len, 0);
	kernel.asked++;
	for (unsigned i = 0; i < 512; i++)
		page[i] = i < kernel.pages ? kernel.page : kernel.rest;
	return (ssize_t)len;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (kernel.real || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){(time_t)(kernel.now / 1000000000u),
				(long)(kernel.now % 1000000000u)};
	return 0;
}

static void begin(void)
{
	memset(&kernel, 0, sizeof kernel);
	kernel.policy = "always [madvise] never\n";
	kernel.maps = "1000-7fff00000000 rw-p 00000000 00:00 0 \n";
	kernel.pages = 512;
	kernel.page = OURS;
	bl_huge_init(&huge);
}

static void set_knob(uint64_t value)
{
	((struct bl_knobs *)(uintptr_t)bl_knobs())->huge = value;
}

static size_t use(uint64_t offset, size_t len)
{
	return bl_huge_used(&huge, (const void *)(uintptr_t)(BASE + offset), len);
}

/* So many messages until the next try; 0: none in 100,000. */
static unsigned until_tried(uint64_t offset, size_t len)
{
	unsigned before = kernel.tries;

	for (unsigned n = 1; n <= 100000; n++) {
		use(offset, len);
		if (kernel.tries != before)
			return n;
	}
	return 0;
}

/* --- who says no ------------------------------------------------------------- */

struct policy_row {
	struct row row;
	const char *policy, *policy_2m, *rt_runtime;
	uint64_t knob;
	unsigned first; /* message of 2 MiB that leads to a try; 0: none does */
};

#define MADVISE "always [madvise] never\n"
#define ALWAYS	"[always] madvise never\n"
#define NEVER	"always madvise [never]\n"

static const struct policy_row policies[] = {
	{{"on request", "Ubuntu's"}, MADVISE, NULL, NULL, 0, 8},
	{{"always", "Debian's; what is huge already isn't moved"}, ALWAYS, NULL, NULL, 0, 8},
	{{"never", "the administrator"}, NEVER, NULL, NULL, 0, 0},
	{{"never, though asked for", "the same"}, NEVER, NULL, NULL, BL_HUGE_ALWAYS, 0},
	{{"of 2 MiB as the rest", "Linux 6.8"}, MADVISE, "[inherit] never\n", NULL, 0, 8},
	{{"of 2 MiB never", "the administrator"}, MADVISE, "inherit [never]\n", NULL, 0, 0},
	{{"no such file", "a kernel without huge pages"}, NULL, NULL, NULL, 0, 0},
	{{"an empty file", "nobody knows"}, "", NULL, NULL, 0, 0},
	{{"real time, throttled", "the default"}, MADVISE, NULL, "950000\n", 0, 8},
	{{"real time, not throttled", "it may keep a core"}, MADVISE, NULL, "-1\n", 0, 0},
	{{"the same, but asked for", "the user"}, MADVISE, NULL, "-1\n", BL_HUGE_ALWAYS, 1},
	{{"knob never", "the user"}, ALWAYS, NULL, NULL, BL_HUGE_NEVER, 0},
	{{"knob always", "the first message"}, MADVISE, NULL, NULL, BL_HUGE_ALWAYS, 1},
};

static void obeys(void **state)
{
	const struct policy_row *row = TABLE_ROW(struct policy_row, state);

	begin();
	kernel.policy = row->policy;
	kernel.policy_2m = row->policy_2m;
	kernel.rt_runtime = row->rt_runtime;
	set_knob(row->knob);
	bl_huge_init(&huge);
	assert_int_equal(until_tried(0, BL_HUGE_SIZE), row->first);
	set_knob(0);
}

/* --- how often ---------------------------------------------------------------- */

struct often_row {
	struct row row;
	uint64_t offset;
	size_t len;
	unsigned messages, tries; /* so many lead to so many */
};

static const struct often_row often[] = {
	{{"a range, once less", "not paid for"}, 0, BL_HUGE_SIZE, 7, 0},
	{{"a range, enough", "16 MiB of messages"}, 0, BL_HUGE_SIZE, 8, 1},
	{{"short ones", "each counts for its length"}, 0, 65536, 256, 1},
	{{"short ones, once less", ""}, 0, 65536, 255, 0},
	{{"across two", "each half for its own"}, MIB, BL_HUGE_SIZE, 15, 0},
	{{"across two, enough", "both at once"}, MIB, BL_HUGE_SIZE, 16, 2},
	{{"eight ranges", "all at once: it is cheap"}, 0, 8 * BL_HUGE_SIZE, 8, 8},
	{{"a byte into the next", "less than a KiB counts for nothing"}, 1, BL_HUGE_SIZE, 9, 1},
};

static void so_often(void **state)
{
	const struct often_row *row = TABLE_ROW(struct often_row, state);

	begin();
	for (unsigned i = 0; i < row->messages; i++)
		use(row->offset, row->len);
	assert_int_equal(kernel.tries, row->tries);
}

/* Once it has worked it will stay so, unless the memory is another by then. */
static void again(void **state)
{
	unsigned n = 8;

	(void)state;
	begin();
	kernel.takes = 100000;
	assert_int_equal(until_tried(0, BL_HUGE_SIZE), 8);
	for (n = 64; n < 2048; n *= 8)
		assert_int_equal(until_tried(0, BL_HUGE_SIZE), n);
	for (int i = 0; i < 3; i++)
		assert_int_equal(until_tried(0, BL_HUGE_SIZE), 2048);
}

struct failure_row {
	struct row row;
	int err;
	uint64_t page, rest;
	unsigned pages;
	bool no_pagemap;
	size_t len;
	bool tried; /* after all */
};

static const struct failure_row failures[] = {
	{{"huge already", "nothing was done"}, 0, OURS, NONE, 512, false, BL_HUGE_SIZE, true},
	{{"other memory", "a device's"}, EINVAL, OURS, NONE, 512, false, BL_HUGE_SIZE, true},
	{{"no huge page", "none left"}, ENOMEM, OURS, NONE, 512, false, BL_HUGE_SIZE, true},
	{{"in use", "a page is pinned"}, EAGAIN, OURS, NONE, 512, false, BL_HUGE_SIZE, true},
	{{"a part isn't ours", "a buffer at the end"}, EINVAL, OURS, NONE, 384, false, MIB, true},
	{{"too little is there", "it would take memory"}, 0, OURS, NONE, 383, false, MIB, false},
	{{"a file", "its pages are others', too"}, 0, FILES, NONE, 512, false, MIB, false},
	{{"shared memory", "the same"}, 0, SHARED, NONE, 512, false, MIB, false},
	{{"a fork has it as well", "would be copied"}, 0, FORKED, NONE, 512, false, MIB, false},
	{{"never written", "takes no memory"}, 0, ZERO, NONE, 512, false, MIB, false},
	{{"one isn't ours", "would be copied"}, 0, OURS, FORKED, 511, false, MIB, false},
	{{"in swap", "not there"}, 0, SWAP, NONE, 512, false, MIB, false},
	{{"nobody tells", "no /proc, or no access"}, 0, OURS, NONE, 512, true, MIB, false},
};

/* Each time it is in vain, twice as many messages lead to the next try. */
static void gives_up(void **state)
{
	const struct failure_row *row = TABLE_ROW(struct failure_row, state);
	unsigned first = 16 * MIB / (unsigned)row->len, n = 0;

	begin();
	kernel.err = row->err;
	kernel.page = row->page;
	kernel.rest = row->rest;
	kernel.pages = row->pages;
	kernel.no_pagemap = row->no_pagemap;
	for (unsigned k = 0; k < 9; k++)
		for (unsigned i = 0; i < first << k; i++, n++) {
			assert_int_equal(kernel.tries, row->tried ? k : 0);
			assert_int_equal(use(0, row->len), 0);
		}
	assert_int_equal(kernel.tries, row->tried ? 9 : 0);
	assert_int_equal(kernel.asked, row->no_pagemap ? 0 : 9);
	/* from 4 GiB on it stays at that */
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < 4096ull * MIB / row->len; k++)
			use(0, row->len);
	assert_int_equal(kernel.tries, row->tried ? 11 : 0);
}

/* --- whose mapping it is --------------------------------------------------------- */

#define A_LINE(from, to, inode) from "-" to " rw-p 00000000 00:01 " inode "\n"
/* So long that its end is read as a line of its own. */
#define A_PATH                                                                                     \
	"1000-2000 r--p 00000000 08:01 77 /"                                                       \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"                   \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"                   \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"                   \
	"aaaaaaaaaaa"                                                                              \
	"8000000-9000000 rw-p 00000000 00:00 0\n"

struct maps_row {
	struct row row;
	const char *maps; /* NULL: can't be read */
	bool tried;
};

/* The range is 8000000-8200000. */
static const struct maps_row mappings[] = {
	{{"just it", "one mapping"}, A_LINE("8000000", "8200000", "0"), true},
	{{"more than it", "a large one"}, A_LINE("7000000", "a000000", "0"), true},
	{{"behind others", "the last line"},
	 A_LINE("1000", "2000", "5") A_LINE("7000000", "8000000", "0")
		 A_LINE("8000000", "9000000", "0"),
	 true},
	{{"a page short", "at its end"}, A_LINE("8000000", "81ff000", "0"), false},
	{{"a page late", "at its begin"}, A_LINE("8001000", "9000000", "0"), false},
	{{"two mappings", "none has all of it"},
	 A_LINE("7000000", "8100000", "0") A_LINE("8100000", "9000000", "0"),
	 false},
	{{"a file's", "private, but /dev/zero's"}, A_LINE("7000000", "a000000", "5"), false},
	{{"not mapped", "by now"}, A_LINE("1000", "2000", "0"), false},
	{{"a path", "whose end looks like a line"}, A_PATH, false},
	{{"nonsense", "not /proc"}, "hello\n", false},
	{{"nothing", "an empty file"}, "", false},
	{{"nobody tells", "no /proc"}, NULL, false},
};

static void mapped_so(void **state)
{
	const struct maps_row *row = TABLE_ROW(struct maps_row, state);

	begin();
	kernel.maps = row->maps;
	for (int i = 0; i < 20; i++)
		use(0, BL_HUGE_SIZE);
	assert_int_equal(kernel.tries, row->tried);
}

/* Whoever has a part of a range. */
static void a_part(void **state)
{
	(void)state;
	begin();
	assert_int_equal(until_tried(MIB / 2, MIB), 16);
	assert_int_equal(kernel.last, BASE);
}

/* --- what it costs ------------------------------------------------------------ */

struct cost_row {
	struct row row;
	uint64_t takes;
	int err;
	unsigned next; /* message of 2 MiB that leads to another range's try */
};

static const struct cost_row costs[] = {
	{{"it was huge", "nothing was done"}, 49999, 0, 8},
	{{"cheap", "never less than at first"}, 50000, 0, 8},
	{{"dear", "a quarter of the cost comes on top: 4 ms are worth 130 MiB"}, 4000000, 0, 23},
	{{"dear, in vain", "the same"}, 4000000, ENOMEM, 23},
	{{"very dear", "a real-time thread has a core: 28 GiB"}, 850000000, 0, 3465},
};

static void pays(void **state)
{
	const struct cost_row *row = TABLE_ROW(struct cost_row, state);

	begin();
	kernel.takes = row->takes;
	kernel.err = row->err;
	assert_int_equal(until_tried(0, BL_HUGE_SIZE), 8);
	assert_int_equal(until_tried(BL_HUGE_SIZE, BL_HUGE_SIZE), row->next);
}

/* However dear and however often: it takes no more time than it may save, 30 ns for each KiB. */
static void pays_for_ever(void **state)
{
	const struct cost_row *row = TABLE_ROW(struct cost_row, state);
	uint64_t copied = 0;

	begin();
	kernel.takes = row->takes;
	kernel.err = row->err;
	for (uint64_t range = 0; range < 64; range++)
		copied += until_tried(range * BL_HUGE_SIZE, BL_HUGE_SIZE) * 2048ull;
	/* while it is learnt what it costs, some more */
	assert_in_range(kernel.now, 0, copied * 30 + 4 * kernel.takes);
}

/* One that lasts so long that it must be as rare as can be counted. */
static void an_hour(void **state)
{
	(void)state;
	begin();
	kernel.takes = 3600000000000ull;
	assert_int_equal(until_tried(0, BL_HUGE_SIZE), 8);
	assert_int_equal(until_tried(BL_HUGE_SIZE, BL_HUGE_SIZE), 0);
	assert_int_equal(huge.needs, UINT32_MAX / 2);
}

/* A message is held up for about as long as it took, or by one. */
static void not_all_at_once(void **state)
{
	unsigned most = 0;

	(void)state;
	begin();
	kernel.takes = 1000000;
	for (int i = 0; i < 24; i++) {
		unsigned before = kernel.tries;

		use(0, 32 * BL_HUGE_SIZE); /* 64 MiB: 4 ms */
		if (kernel.tries - before > most)
			most = kernel.tries - before;
	}
	assert_int_equal(most, 4);
	assert_int_equal(kernel.tries, 32);
	begin();
	kernel.takes = 1000000;
	assert_int_equal(until_tried(0, BL_HUGE_LEAST), 256); /* more than its own copy took */
}

/* --- more buffers than are remembered ------------------------------------------- */

/* Where a range is counted, beside another. */
static size_t set_of(uint64_t offset)
{
	begin();
	use(offset, 65536);
	for (size_t i = 0; i < BL_HUGE_RANGES; i++)
		if (huge.range[i].number)
			return i / 2;
	fail_msg("it isn't counted");
	return 0;
}

/* Two ranges that are counted where the first one is. */
static void find_rivals(uint64_t other[2])
{
	size_t set = set_of(0), n = 0;

	for (uint64_t at = BL_HUGE_SIZE; n < 2; at += BL_HUGE_SIZE)
		if (set_of(at) == set)
			other[n++] = at;
}

static void three_for_two(void **state)
{
	uint64_t other[2];

	(void)state;
	find_rivals(other);
	begin();
	for (int i = 0; i < 7; i++) { /* two don't disturb each other */
		use(0, BL_HUGE_SIZE);
		use(other[0], BL_HUGE_SIZE);
	}
	for (int i = 0; i < 2; i++)
		use(other[1], BL_HUGE_SIZE); /* takes one each time from who has less */
	assert_int_equal(kernel.tries, 0);
	assert_int_equal(until_tried(0, BL_HUGE_SIZE) + until_tried(other[0], BL_HUGE_SIZE), 4);
	assert_int_equal(until_tried(other[1], BL_HUGE_SIZE), 8); /* a place is free */
	assert_int_equal(kernel.last, BASE + other[1]);
}

/* Three in turn: none for nothing, no matter how long. */
static void copybuf(void **state)
{
	uint64_t other[2];

	(void)state;
	find_rivals(other);
	begin();
	for (int i = 0; i < 1000; i++) {
		use(0, BL_HUGE_SIZE);
		use(other[0], BL_HUGE_SIZE);
		use(other[1], BL_HUGE_SIZE);
	}
	/* one that is through has a place no longer than it is used */
	assert_in_range(kernel.tries, 0, 3 * 1000 / 8);
	assert_true(kernel.tries * 16ull * MIB <= 3000ull * BL_HUGE_SIZE);
}

/* --- the real kernel -------------------------------------------------------------- */

struct memory {
	uint8_t *map, *at;
	size_t len;
};

static void map_some(struct memory *m, size_t ranges, int flags, int fd)
{
	m->len = (ranges + 1) * BL_HUGE_SIZE;
	m->map = mmap(NULL, m->len, PROT_READ | PROT_WRITE, flags, fd, 0);
	assert_ptr_not_equal(m->map, MAP_FAILED);
	m->at = (uint8_t *)(((uintptr_t)m->map + BL_HUGE_SIZE - 1) / BL_HUGE_SIZE * BL_HUGE_SIZE);
	madvise(m->map, m->len, MADV_NOHUGEPAGE); /* where it always is */
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 2654435761u >> 9);
}

/* Bytes of the mapping there that are in huge pages. */
static size_t huge_bytes(const void *at)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	bool there = false;
	char line[512];
	size_t kib = 0;

	assert_non_null(smaps);
	while (fgets(line, sizeof line, smaps)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			there = (uintptr_t)at >= from && (uintptr_t)at < to;
		else if (there && sscanf(line, "AnonHugePages: %zu kB", &kib) == 1)
			break;
	}
	fclose(smaps);
	return kib * 1024;
}

/* As many huge pages as are needed can be had, in just this way. */
static bool can_be_had(size_t ranges)
{
	struct memory m;
	bool good;

	map_some(&m, ranges, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memset(m.at, 1, ranges * BL_HUGE_SIZE);
	madvise(m.map, m.len, MADV_HUGEPAGE);
	good = !access("/proc/self/pagemap", R_OK) &&
	       !__real_madvise(m.at, ranges * BL_HUGE_SIZE, 25);
	if (!good)
		print_message("             MADV_COLLAPSE: %s\n", strerror(errno));
	munmap(m.map, m.len);
	return good;
}

static void in_earnest(void **state)
{
	size_t len = 4 * BL_HUGE_SIZE, moved = 0, are;
	struct memory m;

	(void)state;
	begin();
	kernel.real = true;
	bl_huge_init(&huge);
	if (!huge.on || !can_be_had(4))
		skip();
	map_some(&m, 4, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	for (size_t i = 0; i < len; i++)
		m.at[i] = byte_at(i);
	are = huge_bytes(m.at);
	assert_int_equal(are, 0);
	madvise(m.map, m.len, MADV_HUGEPAGE); /* of pages to come: these are there */
	/* A page in use just then isn't another time, and what a slow one has cost is forgotten. */
	for (int round = 0; round < 100 && are < len; round++) {
		bl_huge_init(&huge);
		for (int i = 0; i < 100 && are < len; i++) {
			moved += bl_huge_used(&huge, m.at, len);
			if (kernel.tries)
				are = huge_bytes(m.at);
			kernel.tries = 0;
		}
	}
	for (size_t i = 0; i < len; i++)
		if (m.at[i] != byte_at(i))
			fail_msg("byte %zu has changed", i);
	assert_int_equal(are, len);
	print_message("             %zu of %zu bytes were moved\n", moved, len);
	munmap(m.map, m.len);
}

struct kind_row {
	struct row row;
	bool shared, read_only, forked;
	const char *file; /* of which it is a mapping */
	bool tried;
};

static const struct kind_row kinds[] = {
	{{"private", "ours alone"}, false, false, false, NULL, true},
	{{"shared", "others' as well"}, true, false, false, NULL, false},
	{{"only read", "there is one page of zeros"}, false, true, false, NULL, false},
	{{"a child has it", "until it goes"}, false, false, true, NULL, false},
	{{"of /dev/zero", "its pages look like ours"}, false, false, false, "/dev/zero", false},
	{{"of a file", "written since, so they do"}, false, false, false, "", false},
};

static void of_kind(void **state)
{
	const struct kind_row *row = TABLE_ROW(struct kind_row, state);
	volatile uint8_t sum = 0;
	int hold[2], status, fd = -1;
	struct memory m;
	char byte;
	pid_t pid;

	begin();
	kernel.real = true;
	if (access("/proc/self/pagemap", R_OK))
		skip();
	if (row->file) {
		fd = *row->file ? open(row->file, O_RDWR | O_CLOEXEC)
				: memfd_create("file", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_true(*row->file || !ftruncate(fd, 2 * BL_HUGE_SIZE));
	}
	map_some(&m, 1, (row->shared ? MAP_SHARED : MAP_PRIVATE) | (row->file ? 0 : MAP_ANONYMOUS),
		 fd);
	for (size_t i = 0; i < BL_HUGE_SIZE; i += 4096)
		if (row->read_only)
			sum = (uint8_t)(sum + m.at[i]);
		else
			m.at[i] = byte_at(i);
	assert_int_equal(pipe(hold), 0);
	pid = row->forked ? fork() : -1;
	if (!pid) {
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) != 0); /* until its end */
	}
	for (int i = 0; i < 100; i++)
		bl_huge_used(&huge, m.at, BL_HUGE_SIZE);
	assert_int_equal(kernel.tries != 0, row->tried);
	close(hold[0]);
	close(hold[1]);
	if (fd >= 0)
		close(fd);
	if (pid > 0)
		assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(m.map, m.len);
}

int main(void)
{
	unsetenv("FI_BEELINE_HUGE");
	TABLE_ROWS("says", obeys, policies);
	TABLE_ROWS("often", so_often, often);
	TABLE_ROWS("fails", gives_up, failures);
	TABLE_ROWS("costs", pays, costs);
	TABLE_ROWS("for ever", pays_for_ever, costs);
	TABLE_ROWS("mapping", mapped_so, mappings);
	TABLE_TEST(again);
	TABLE_TEST(a_part);
	TABLE_TEST(not_all_at_once);
	TABLE_TEST(an_hour);
	TABLE_TEST(three_for_two);
	TABLE_TEST(copybuf);
	TABLE_ROWS("kind", of_kind, kinds);
	TABLE_TEST(in_earnest);
	return table_run("huge");
}
