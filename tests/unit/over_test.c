/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * over_test.c: how long one that is in the middle of a copy is waited for
 * (transport/local/link/over.c), by a clock of the test's own, and the lines of /proc that it is
 * judged by (base/text.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "transport/local/local.h"
#include "unit/table.h"

/* --- patience ------------------------------------------------------------ */

#define MS 1000000ull

static uint64_t now;

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	*ts = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
	return 0;
}

struct patience_row {
	struct row row;
	bool runs;	      /* it is a process that has a core, else one that can't be seen */
	unsigned step, gap;   /* ms between two looks; once, at the 5th, this */
	unsigned first, last; /* ms: it ends between the two */
};

static const struct patience_row rows[] = {
	{{"can't be seen", "a second"}, false, 10, 10, 1000, 1020},
	{{"runs", "ten"}, true, 10, 10, 10000, 10200},
	{{"stopped, both", "the time of a stop doesn't count"}, true, 10, 60000, 69900, 70200},
	{{"stopped, unseen", "nor for it"}, false, 10, 60000, 60900, 61020},
	{{"crowded", "looks far between count, up to a second"}, true, 900, 900, 10000, 11800},
	{{"each look late", "which they all can't be for being stopped"},
	 true,
	 2000,
	 2000,
	 24000,
	 28000},
};

static void patience_ends(void **state)
{
	const struct patience_row *row = TABLE_ROW(struct patience_row, state);
	struct bl_patience patience = {0};
	uint64_t begun = now = 1000000 * MS;
	unsigned looks = 0;

	while (!bl_patience_ends(&patience, row->runs ? getpid() : 0)) {
		now += (++looks == 5 ? row->gap : row->step) * MS;
		assert_true(looks < 10000);
	}
	assert_in_range((now - begun) / MS, row->first, row->last);
}

/* --- lines ------------------------------------------------------------------ */

struct line_row {
	struct row row;
	const char *before; /* the line that is looked for */
	size_t times;
	const char *line, *name, *value;
	int ret;
};

static const struct line_row lines[] = {
	{{"first", "nothing before it"}, "", 0, "SigPnd:\t01\n", "SigPnd:", "\t01\n", 0},
	{{"far", "behind more than any buffer"},
	 "0123456789",
	 100000,
	 "\nSigPnd:\t02\n",
	 "SigPnd:",
	 "\t02\n",
	 0},
	{{"within a line", "is not the line"}, "", 0, "xSigPnd:\t01\n", "SigPnd:", "", -ENOMSG},
	{{"none", "an empty file"}, "", 0, "", "SigPnd:", "", -ENOMSG},
	{{"no end", "the last line of a file"}, "a\n", 1, "SigPnd:\t3", "SigPnd:", "\t3", 0},
	{{"long value", "cut to what there is room for"},
	 "",
	 0,
	 "N:0123456789abcdefghij\n",
	 "N:",
	 "0123456789abcde",
	 0},
};

static void line_is_found(void **state)
{
	const struct line_row *row = TABLE_ROW(struct line_row, state);
	char path[64], value[16] = "";
	int fd = memfd_create("lines", 0);

	assert_true(fd >= 0);
	for (size_t i = 0; i < row->times; i++)
		assert_true(write(fd, row->before, strlen(row->before)) > 0);
	assert_int_equal(write(fd, row->line, strlen(row->line)), strlen(row->line));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	assert_int_equal(bl_text_line(AT_FDCWD, path, row->name, value, sizeof value), row->ret);
	assert_string_equal(value, row->value);
	close(fd);
}

static void no_file(void **state)
{
	char value[8];

	assert_int_equal(bl_text_line(AT_FDCWD, "/proc/none", "N:", value, sizeof value), -ENOENT);
	assert_int_equal(bl_text_line(AT_FDCWD, "/proc", "N:", value, sizeof value), -EISDIR);
}

int main(void)
{
	TABLE_ROWS("patience", patience_ends, rows);
	TABLE_ROWS("line", line_is_found, lines);
	TABLE_TEST(no_file);
	return table_run("over");
}
