/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * clock_test.c: when a moment has come (base/clock.h), of a counter that may begin anew.
 */
#include <stddef.h>

#include "base/clock.h"
#include "unit/table.h"

#define YEAR (365ull * 86400 * 3000000000u)

struct due_row {
	struct row row;
	uint64_t now, at;
	bool due;
};

static const struct due_row dues[] = {
	{{"at", "it has come"}, 1000, 1000, true},
	{{"a tick before", "not yet"}, 999, 1000, false},
	{{"a tick after", "it has come"}, 1001, 1000, true},
	{{"never set", "it has come"}, 1000, 0, true},
	{{"never set, counter at its beginning", "it has come"}, 0, 0, true},
	{{"as far ahead as any", "not yet"}, 1000, 1000 + BL_TICKS_AHEAD, false},
	{{"further ahead", "set before the counter began anew"}, 1000, 1001 + BL_TICKS_AHEAD, true},
	{{"a year ahead", "the same"}, 5, YEAR, true},
	{{"a year ago", "it has come"}, YEAR, 5, true},
	{{"wraps, not yet", "behind the end of the numbers"}, UINT64_MAX - 5, 5, false},
	{{"wraps, due", "behind the end of the numbers"}, 5, UINT64_MAX - 5, true},
};

static void is_due(void **state)
{
	const struct due_row *row = TABLE_ROW(struct due_row, state);

	assert_int_equal(bl_is_due(row->now, row->at), row->due);
}

struct since_row {
	struct row row;
	uint64_t now, then;
	int64_t since;
};

static const struct since_row sinces[] = {
	{{"before", "so long ago"}, 1000, 400, 600},
	{{"now", "no time"}, 1000, 1000, 0},
	{{"to come", "in so long"}, 1000, 1600, -600},
	{{"as far ahead as any", "in so long"}, 7, 7 + BL_TICKS_AHEAD, -(int64_t)BL_TICKS_AHEAD},
	{{"further ahead", "long ago"}, 7, 8 + BL_TICKS_AHEAD, INT64_MAX},
	{{"a year ahead", "long ago"}, 7, YEAR, INT64_MAX},
	{{"never", "since the counter began"}, YEAR, 0, (int64_t)YEAR},
	{{"wraps", "behind the end of the numbers"}, 5, UINT64_MAX - 4, 10},
};

static void so_long_since(void **state)
{
	const struct since_row *row = TABLE_ROW(struct since_row, state);

	assert_true(bl_ticks_since(row->now, row->then) == row->since);
}

/* What everybody takes for a microsecond is one, within what a busy machine does to us. */
static void a_microsecond(void **state)
{
	uint64_t ns = bl_clock_ns(), ticks = bl_ticks(), took_ns, took;

	(void)state;
	assert_true(bl_ticks_per_us() >= 1);
	do { /* until both were read at one moment */
		took = bl_ticks() - ticks;
		took_ns = bl_clock_ns() - ns;
	} while (took_ns < 50000000 || bl_ticks() - ticks - took > 10 * bl_ticks_per_us());
	assert_in_range(took / bl_ticks_per_us(), took_ns / 1100, took_ns / 900);
}

int main(void)
{
	TABLE_ROWS("due", is_due, dues);
	TABLE_ROWS("since", so_long_since, sinces);
	TABLE_TEST(a_microsecond);
	return table_run("clock");
}
