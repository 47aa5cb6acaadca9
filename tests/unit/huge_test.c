/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * huge_test.c: which buffers are put into huge pages, and when (place/huge.c). The kernel's part
 * is ours: what it is asked is counted, what it answers and how long that takes is in the tables.
 * The last test asks the real one.
 */
#include "place/huge.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "unit/table.h"

#define MIB  (1u << 20)
#define BASE (64ull * BL_HUGE_SIZE) /* no memory: nothing is read or written there */

static struct {
	const char *policy; /* what transparent_hugepage/enabled says; NULL: there is none */
	bool real;
	int err; /* of madvise; 0: none */
	int err_of_mincore;
	unsigned resident, tries, asked;
	uint64_t takes; /* ns */
	uintptr_t last;
} kernel;

static struct bl_huge huge;

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice);
int __real_mincore(void *at, size_t len, unsigned char *there);
int __wrap_mincore(void *at, size_t len, unsigned char *there);

int __wrap_open64(const char *path, int flags, ...)
{
	int fd;

	if (kernel.real || !strstr(path, "transparent_hugepage"))
		return __real_open64(path, flags, 0600);
	if (!kernel.policy) {
		errno = ENOENT;
		return -1;
	}
	fd = memfd_create("policy", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, kernel.policy, strlen(kernel.policy), 0),
			 strlen(kernel.policy));
	return fd;
}

int __wrap_madvise(void *at, size_t len, int advice)
{
	if (kernel.real || advice != 25)
		return __real_madvise(at, len, advice);
	assert_int_equal(len, BL_HUGE_SIZE);
	assert_int_equal((uintptr_t)at % BL_HUGE_SIZE, 0);
	kernel.tries++;
	kernel.last = (uintptr_t)at;
	for (uint64_t until = bl_clock_ns() + kernel.takes; bl_clock_ns() < until;)
		;
	errno = kernel.err;
	return kernel.err ? -1 : 0;
}

int __wrap_mincore(void *at, size_t len, unsigned char *there)
{
	if (kernel.real)
		return __real_mincore(at, len, there);
	assert_int_equal(len, BL_HUGE_SIZE);
	kernel.asked++;
	errno = kernel.err_of_mincore;
	if (errno)
		return -1;
	for (unsigned i = 0; i < 512; i++) /* the other bits mean nothing */
		there[i] = i < kernel.resident ? 0xff : 0xfe;
	return 0;
}

static void begin(void)
{
	memset(&kernel, 0, sizeof kernel);
	memset(&huge, 0, sizeof huge);
	kernel.policy = "always [madvise] never\n";
	kernel.resident = 512;
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
	const char *policy;
	uint64_t knob;
	unsigned first; /* message of 2 MiB that leads to a try; 0: none does */
};

static const struct policy_row policies[] = {
	{{"on request", "Debian's and Ubuntu's servers"}, "always [madvise] never\n", 0, 8},
	{{"always", "what is huge already isn't moved"}, "[always] madvise never\n", 0, 8},
	{{"never", "the administrator"}, "always madvise [never]\n", 0, 0},
	{{"never, though asked for", "the same"}, "always madvise [never]\n", BL_HUGE_ALWAYS, 0},
	{{"no such file", "a kernel without huge pages"}, NULL, 0, 0},
	{{"an empty file", "nobody knows"}, "", 0, 0},
	{{"knob never", "the user"}, "[always] madvise never\n", BL_HUGE_NEVER, 0},
	{{"knob always", "the first message"}, "always [madvise] never\n", BL_HUGE_ALWAYS, 1},
};

static void obeys(void **state)
{
	const struct policy_row *row = TABLE_ROW(struct policy_row, state);

	begin();
	kernel.policy = row->policy;
	set_knob(row->knob);
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

/* Once it has worked it is asked again after as many: the memory may be another by then. */
static void again(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 5; i++)
		assert_int_equal(until_tried(0, BL_HUGE_SIZE), 8);
}

struct failure_row {
	struct row row;
	int err, err_of_mincore;
	unsigned resident;
	size_t len;
	bool asked; /* the kernel, after all */
};

static const struct failure_row failures[] = {
	{{"other memory", "a file's, a device's"}, EINVAL, 0, 512, BL_HUGE_SIZE, true},
	{{"no huge page", "none left"}, ENOMEM, 0, 512, BL_HUGE_SIZE, true},
	{{"in use", "a page is pinned"}, EAGAIN, 0, 512, BL_HUGE_SIZE, true},
	{{"a part isn't mapped", "a buffer at the end"}, 0, ENOMEM, 512, MIB, false},
	{{"too little is there", "it would take memory"}, 0, 0, 383, MIB, false},
};

/* Each time it fails, twice as many messages lead to the next try. */
static void gives_up(void **state)
{
	const struct failure_row *row = TABLE_ROW(struct failure_row, state);
	unsigned first = 16 * MIB / (unsigned)row->len, n = 0;

	begin();
	kernel.err = row->err;
	kernel.err_of_mincore = row->err_of_mincore;
	kernel.resident = row->resident;
	for (unsigned k = 0; k < 9; k++)
		for (unsigned i = 0; i < first << k; i++, n++) {
			assert_int_equal(kernel.tries, row->asked ? k : 0);
			assert_int_equal(use(0, row->len), 0);
		}
	assert_int_equal(kernel.tries, row->asked ? 9 : 0);
	assert_int_equal(kernel.asked, row->len < BL_HUGE_SIZE ? 9 : 0);
	/* from 4 GiB on it stays at that */
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < 4096ull * MIB / row->len; k++)
			use(0, row->len);
	assert_int_equal(kernel.tries, row->asked ? 11 : 0);
}

/* Whoever has a part of a range: three quarters of it are there. */
static void a_part(void **state)
{
	(void)state;
	begin();
	kernel.resident = 384;
	assert_int_equal(until_tried(MIB / 2, MIB), 16);
	assert_int_equal(kernel.asked, 1);
	assert_int_equal(kernel.last, BASE);
}

/* --- what it costs ------------------------------------------------------------ */

struct cost_row {
	struct row row;
	uint64_t takes;
	int err;
	unsigned next, most; /* messages of 2 MiB that lead to another range's try */
};

static const struct cost_row costs[] = {
	{{"it was huge", "nothing was done"}, 0, 0, 8, 70},
	{{"cheap", "never less than at first"}, 100000, 0, 8, 70},
	{{"dear", "a quarter of the cost comes on top: 4 ms are worth 130 MiB"},
	 4000000,
	 0,
	 22,
	 70},
	{{"dear, in vain", "the same"}, 4000000, ENOMEM, 22, 70},
	{{"very dear", "512 MiB of it count"}, 20000000, 0, 70, 70},
};

static void pays(void **state)
{
	const struct cost_row *row = TABLE_ROW(struct cost_row, state);

	begin();
	kernel.takes = row->takes;
	kernel.err = row->err;
	assert_int_equal(until_tried(0, BL_HUGE_SIZE), 8);
	/* the time is real, so a busy machine makes it more */
	assert_in_range(until_tried(BL_HUGE_SIZE, BL_HUGE_SIZE), row->next, row->most);
}

/* A message is held up for about as long as it took: 64 MiB for 4 ms. */
static void not_all_at_once(void **state)
{
	size_t moved = 0;

	(void)state;
	begin();
	kernel.takes = 1000000;
	for (int i = 0; i < 8; i++)
		moved += use(0, 32 * BL_HUGE_SIZE);
	assert_in_range(kernel.tries, 1, 4);
	assert_int_equal(moved, (size_t)kernel.tries * BL_HUGE_SIZE);
	for (int i = 0; i < 40; i++)
		moved += use(0, 32 * BL_HUGE_SIZE);
	assert_in_range(moved, 32 * (uint64_t)BL_HUGE_SIZE, UINT64_MAX);
}

/* --- more buffers than are remembered ------------------------------------------- */

/* Another range that is counted in the same place. */
static uint64_t rival(void)
{
	struct bl_huge_range *mine = NULL;

	use(0, 65536);
	for (size_t i = 0; i < BL_HUGE_RANGES; i++)
		if (huge.range[i].number)
			mine = &huge.range[i];
	assert_non_null(mine);
	for (uint64_t n = 1; n < 100000; n++) {
		struct bl_huge_range was = *mine;

		use(n * BL_HUGE_SIZE, 65536);
		if (memcmp(&was, mine, sizeof was)) {
			begin();
			return n * BL_HUGE_SIZE;
		}
	}
	fail_msg("every range has a place of its own");
	return 0;
}

static void one_place(void **state)
{
	uint64_t other;

	(void)state;
	begin();
	other = rival();
	for (int i = 0; i < 4; i++)
		use(0, BL_HUGE_SIZE);
	use(other, BL_HUGE_SIZE); /* takes one away from the first */
	assert_int_equal(until_tried(0, BL_HUGE_SIZE), 5);
	assert_int_equal(kernel.last, BASE);
	assert_int_equal(until_tried(other, BL_HUGE_SIZE), 8); /* the first is through */
	assert_int_equal(kernel.last, BASE + other);
	/* In turn neither gets anywhere: no try for nothing, no matter how long. */
	begin();
	for (int i = 0; i < 1000; i++) {
		use(0, BL_HUGE_SIZE);
		use(other, BL_HUGE_SIZE);
	}
	assert_int_equal(kernel.tries, 0);
}

/* --- the real kernel -------------------------------------------------------------- */

static void in_earnest(void **state)
{
	size_t len = 4 * BL_HUGE_SIZE, moved = 0;
	uint8_t *map, *at;

	(void)state;
	begin();
	kernel.real = true;
	map = mmap(NULL, len + BL_HUGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	at = (uint8_t *)(((uintptr_t)map + BL_HUGE_SIZE - 1) / BL_HUGE_SIZE * BL_HUGE_SIZE);
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(i * 2654435761u >> 9);
	if (__real_madvise(at, BL_HUGE_SIZE, 25)) {
		print_message("             MADV_COLLAPSE: %s\n", strerror(errno));
		munmap(map, len + BL_HUGE_SIZE);
		skip();
	}
	for (int i = 0; i < 100; i++)
		moved += bl_huge_used(&huge, at, len);
	for (size_t i = 0; i < len; i++)
		if (at[i] != (uint8_t)(i * 2654435761u >> 9))
			fail_msg("byte %zu has changed", i);
	if (huge.ready == 1) /* nothing by now, if it always is */
		assert_in_range(moved, 0, 3 * BL_HUGE_SIZE);
	else
		assert_int_equal(moved, 0);
	print_message("             %zu of %zu bytes were moved\n", moved, len);
	munmap(map, len + BL_HUGE_SIZE);
}

int main(void)
{
	unsetenv("FI_BEELINE_HUGE");
	TABLE_ROWS("says", obeys, policies);
	TABLE_ROWS("often", so_often, often);
	TABLE_ROWS("fails", gives_up, failures);
	TABLE_ROWS("costs", pays, costs);
	TABLE_TEST(again);
	TABLE_TEST(a_part);
	TABLE_TEST(not_all_at_once);
	TABLE_TEST(one_place);
	TABLE_TEST(in_earnest);
	return table_run("huge");
}
