/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * table.h: tables of named boundary cases as cmocka tests. Each row of a table
 * begins with a struct row: its name and why it is there. Each row becomes a
 * test of its own, so that a failure names the row and the others still run.
 * One list per test program, filled and run by main().
 */
#ifndef BL_TESTS_UNIT_TABLE_H
#define BL_TESTS_UNIT_TABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct row {
	const char *name;
	const char *why;
};

#define TABLE_MOST 1024

static struct CMUnitTest table_test[TABLE_MOST];
static size_t table_tests;

/* The row that a test was made for. */
#define TABLE_ROW(type, state) ((const type *)*(state))

static inline void table_add(const char *name, CMUnitTestFunction run, const void *row)
{
	if (table_tests == TABLE_MOST) {
		fprintf(stderr, "more than %d tests in one program\n", TABLE_MOST);
		abort();
	}
	table_test[table_tests++] = (struct CMUnitTest){
		.name = name, .test_func = run, .initial_state = (void *)(uintptr_t)row};
}

/* Every row of `rows` through `run`. */
static inline void table_add_rows(const char *group, CMUnitTestFunction run, const void *rows,
				  size_t count, size_t size)
{
	for (size_t i = 0; i < count; i++) {
		const struct row *row = (const void *)((const char *)rows + i * size);
		char *name;

		if (asprintf(&name, "%s: %s (%s)", group, row->name, row->why) < 0)
			abort();
		table_add(name, run, row); /* cmocka keeps the name: it lives as long as we do */
	}
}

#define TABLE_ROWS(group, run, rows)                                                               \
	table_add_rows(group, run, rows, sizeof(rows) / sizeof((rows)[0]), sizeof((rows)[0]))
#define TABLE_TEST(run) table_add(#run, run, NULL)

/* ONLY='ring*' in the environment: the tests whose names fit. */
static inline int table_run(const char *program)
{
	cmocka_set_test_filter(getenv("ONLY"));
	return _cmocka_run_group_tests(program, table_test, table_tests, NULL, NULL);
}

/* Where one thread is alone ThreadSanitizer has nothing to find, and takes a hundred times as long
 * to look at many thousand packets: a tenth of them will do there. */
#ifdef __SANITIZE_THREAD__
#define TABLE_LESS 10u
#else
#define TABLE_LESS 1u
#endif

/* The same numbers in every run: a failure can be repeated. */
static inline uint64_t table_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

#endif
