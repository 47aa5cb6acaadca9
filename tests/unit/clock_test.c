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

/* What everybody takes for a microsecond is one, within what a busy machine does to us. */
static void a_microsecond(void **state)
{
	uint64_t ns = bl_clock_ns(), ticks = bl_ticks(), took_ns, took;

	(void)state;
	assert_true(bl_ticks_per_us() >= 1);
	assert_int_equal(bl_ticks_per_us(), bl_ticks_per_us());
	while ((took_ns = bl_clock_ns() - ns) < 50000000)
		;
	took = bl_ticks() - ticks;
	assert_in_range(took / bl_ticks_per_us(), took_ns / 1100, took_ns / 900);
}

int main(void)
{
	TABLE_ROWS("due", is_due, dues);
	TABLE_TEST(a_microsecond);
	return table_run("clock");
}
