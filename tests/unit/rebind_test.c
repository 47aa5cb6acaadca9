/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rebind_test.c: base/rebind.h on libraries whose call of sched_yield is bound when it is first
 * made, when the library is loaded (and then made read-only), and without a table of procedures;
 * nobody else's calls change, and no page stays writable that wasn't.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rebind.h"
#include "unit/table.h"

int calls_lazily(void);
int calls_sealed(void);
int calls_unplanned(void);
int calls_untouched(void);

#define BY 4711 /* what a replaced one returns */

static int by_us(void)
{
	return BY;
}

static int by_another(void)
{
	return BY + 1;
}

/* Of the library's mappings how many have these rights: "rw-p". */
static int mappings(const char *library, const char *rights)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	int n = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof line, maps))
		n += strstr(line, library) && strstr(line, rights);
	fclose(maps);
	return n;
}

struct library_row {
	struct row row;
	const char *library;
	int (*call)(void);
	bool called; /* once before, so that it is bound */
};

static const struct library_row rows[] = {
	{{"lazily", "the word still leads to the linker"}, "calls_lazily", calls_lazily, false},
	{{"lazily, called before", "it is bound"}, "calls_lazily", calls_lazily, true},
	{{"sealed", "read-only, and so again"}, "calls_sealed", calls_sealed, false},
	{{"unplanned", "a GLOB_DAT: no table of procedures"},
	 "calls_unplanned",
	 calls_unplanned,
	 false},
};

static void library(void **state)
{
	const struct library_row *row = TABLE_ROW(struct library_row, state);
	const void *inside = (const void *)(uintptr_t)row->call;
	int writable = mappings(row->library, " rw-p "), parts = mappings(row->library, " ");

	if (row->called) {
		assert_int_equal(bl_rebind(inside, "sched_yield", (void (*)(void))sched_yield), 1);
		assert_int_equal(row->call(), 0);
	}
	assert_int_equal(bl_rebind(inside, "sched_yield", (void (*)(void))by_us), 1);
	assert_int_equal(row->call(), BY);
	/* Again, by the same and by another. */
	assert_int_equal(bl_rebind(inside, "sched_yield", (void (*)(void))by_us), 1);
	assert_int_equal(row->call(), BY);
	assert_int_equal(bl_rebind(inside, "sched_yield", (void (*)(void))by_another), 1);
	assert_int_equal(row->call(), BY + 1);
	/* Others call what they did. */
	assert_int_equal(calls_untouched(), 0);
	assert_int_equal(sched_yield(), 0);
	assert_int_equal(mappings(row->library, " rw-p "), writable);
	assert_int_equal(mappings(row->library, " "), parts);
}

static void not_called(void **state)
{
	const void *inside = (const void *)(uintptr_t)calls_untouched;

	(void)state;
	assert_int_equal(bl_rebind(inside, "sched_yiel", (void (*)(void))by_us), 0);
	assert_int_equal(bl_rebind(inside, "sched_yields", (void (*)(void))by_us), 0);
	assert_int_equal(bl_rebind(inside, "", (void (*)(void))by_us), 0);
	assert_int_equal(calls_untouched(), 0);
}

static void nowhere(void **state)
{
	void *heap = malloc(64);

	(void)state;
	assert_non_null(heap);
	assert_int_equal(bl_rebind(heap, "sched_yield", (void (*)(void))by_us), -ENOENT);
	assert_int_equal(bl_rebind(NULL, "sched_yield", (void (*)(void))by_us), -ENOENT);
	free(heap);
	assert_int_equal(calls_untouched(), 0);
}

int main(void)
{
	TABLE_ROWS("library", library, rows);
	table_add("a name that it doesn't call", not_called, NULL);
	table_add("where nothing is loaded", nowhere, NULL);
	return table_run("rebind");
}
