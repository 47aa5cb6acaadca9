/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * knobs_test.c: base/knobs.h: the parser on made-up knobs of every kind, the
 * table's own health, and the environment, which is read once per process and
 * therefore tested in children.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/knobs.h"
#include "unit/table.h"

static const struct bl_knob_info size_knob = {
	.kind = BL_KNOB_SIZE, .init = 4096, .least = 256, .most = 1 << 30};
static const struct bl_knob_info auto_knob = {
	.kind = BL_KNOB_SIZE, .init = BL_KNOB_AUTO, .least = 256, .most = 14336};
static const struct bl_knob_info count_knob = {
	.kind = BL_KNOB_COUNT, .init = 1, .least = 0, .most = 100};
static const struct bl_knob_info widest_knob = {
	.kind = BL_KNOB_SIZE, .init = 0, .least = 0, .most = UINT64_MAX - 1};
static const struct bl_knob_info choice_knob = {
	.kind = BL_KNOB_CHOICE, .init = 0, .least = 0, .most = 2, .choices = "auto|vm|ring"};
static const struct bl_knob_info single_knob = {
	.kind = BL_KNOB_CHOICE, .init = 0, .least = 0, .most = 0, .choices = "only"};

struct parse_row {
	struct row row;
	const struct bl_knob_info *knob;
	const char *text;
	int result;
	uint64_t value;
};

static const struct parse_row parses[] = {
	{{"least", "the smallest allowed"}, &size_knob, "256", 0, 256},
	{{"below least", "one too small"}, &size_knob, "255", -EINVAL, 0},
	{{"most", "the largest allowed"}, &size_knob, "1073741824", 0, 1 << 30},
	{{"above most", "one too large"}, &size_knob, "1073741825", -EINVAL, 0},
	{{"K", "a unit"}, &size_knob, "64K", 0, 65536},
	{{"k", "a unit in small"}, &size_knob, "64k", 0, 65536},
	{{"M", "a unit"}, &size_knob, "8M", 0, 8 << 20},
	{{"g", "a unit"}, &size_knob, "1g", 0, 1 << 30},
	{{"2G", "too large only by its unit"}, &size_knob, "2G", -EINVAL, 0},
	{{"T", "no such unit"}, &size_knob, "1T", -EINVAL, 0},
	{{"0K", "too small with any unit"}, &size_knob, "0K", -EINVAL, 0},
	{{"KB", "a unit is one letter"}, &size_knob, "64KB", -EINVAL, 0},
	{{"unit alone", "no number"}, &size_knob, "K", -EINVAL, 0},
	{{"blank before unit", "one word"}, &size_knob, "64 K", -EINVAL, 0},
	{{"control character", "0x0b | 0x20 is a plus, 0x4b ^ 0x20 a k"},
	 &size_knob,
	 "64\x0b",
	 -EINVAL,
	 0},
	{{"at sign", "'@' | 0x20 is a backquote, no unit"}, &size_knob, "64@", -EINVAL, 0},
	{{"leading blank", "strtoull would skip it"}, &size_knob, " 4096", -EINVAL, 0},
	{{"plus", "strtoull would take it"}, &size_knob, "+4096", -EINVAL, 0},
	{{"minus", "strtoull would wrap it"}, &size_knob, "-4096", -EINVAL, 0},
	{{"hexadecimal", "decimal only: 0, then garbage"}, &size_knob, "0x1000", -EINVAL, 0},
	{{"leading zeros", "decimal, not octal"}, &size_knob, "0004096", 0, 4096},
	{{"fraction", "whole bytes"}, &size_knob, "1.5K", -EINVAL, 0},
	{{"empty", "nothing"}, &size_knob, "", -EINVAL, 0},
	{{"garbage", "no digit"}, &size_knob, "large", -EINVAL, 0},
	{{"2^64", "more than strtoull takes"}, &size_knob, "18446744073709551616", -EINVAL, 0},
	{{"2^64 - 1", "it is how auto is kept: must not pass as a number"},
	 &widest_knob,
	 "18446744073709551615",
	 -EINVAL,
	 0},
	{{"2^64 by its unit", "the shift must not wrap"}, &widest_knob, "17179869184G", -EINVAL, 0},
	{{"2^64 - 1G", "the largest with a unit"},
	 &widest_knob,
	 "17179869183G",
	 0,
	 17179869183ull << 30},
	{{"auto", "where it is the default"}, &auto_knob, "auto", 0, BL_KNOB_AUTO},
	{{"AUTO", "in capitals"}, &auto_knob, "AUTO", 0, BL_KNOB_AUTO},
	{{"automatic", "a longer word"}, &auto_knob, "automatic", -EINVAL, 0},
	{{"auto elsewhere", "where nothing is measured"}, &size_knob, "auto", -EINVAL, 0},
	{{"number for auto", "overrides"}, &auto_knob, "1K", 0, 1024},
	{{"count 0", "the least"}, &count_knob, "0", 0, 0},
	{{"count 100", "the most"}, &count_knob, "100", 0, 100},
	{{"count 101", "one too many"}, &count_knob, "101", -EINVAL, 0},
	{{"count with unit", "units are for sizes"}, &count_knob, "1K", -EINVAL, 0},
	{{"first choice", "its place is 0"}, &choice_knob, "auto", 0, 0},
	{{"middle choice", "its place is 1"}, &choice_knob, "vm", 0, 1},
	{{"last choice", "its place is 2"}, &choice_knob, "ring", 0, 2},
	{{"choice in capitals", "case doesn't matter"}, &choice_knob, "RING", 0, 2},
	{{"prefix", "a word's beginning is no word"}, &choice_knob, "rin", -EINVAL, 0},
	{{"longer word", "a word and more is no word"}, &choice_knob, "rings", -EINVAL, 0},
	{{"separator", "not a word"}, &choice_knob, "|", -EINVAL, 0},
	{{"two words", "one only"}, &choice_knob, "auto|vm", -EINVAL, 0},
	{{"empty choice", "nothing"}, &choice_knob, "", -EINVAL, 0},
	{{"place of a choice", "words, not numbers"}, &choice_knob, "1", -EINVAL, 0},
	{{"single choice", "no separator in the list"}, &single_knob, "only", 0, 0},
};

static void parse(void **state)
{
	const struct parse_row *row = TABLE_ROW(struct parse_row, state);
	uint64_t value = 77;

	assert_int_equal(bl_knob_parse(row->knob, row->text, &value), row->result);
	assert_true(value == (row->result ? 77 : row->value)); /* untouched by an error */
}

/* --- the table ---------------------------------------------------------- */

static unsigned words(const char *choices)
{
	unsigned n = 1;

	for (; *choices; choices++)
		n += *choices == '|';
	return n;
}

static void every_knob_is_complete(void **state)
{
	for (size_t i = 0; i < bl_knob_count; i++) {
		const struct bl_knob_info *k = &bl_knob_table[i];
		const char *name = k->name ? k->name : "(no name)";

		if (!k->name || !*k->name || !k->variable)
			fail_msg("knob %zu has no name", i);
		if (!k->help || strlen(k->help) < 20 || k->help[strlen(k->help) - 1] != '.')
			fail_msg("%s: its help is no sentence", name);
		if (k->least > k->most)
			fail_msg("%s: least is above most", name);
		if (k->init != BL_KNOB_AUTO && (k->init < k->least || k->init > k->most))
			fail_msg("%s: its default is out of its range", name);
		if (k->most == BL_KNOB_AUTO)
			fail_msg("%s: its most is how auto is kept", name);
		if ((k->kind == BL_KNOB_CHOICE) != (k->choices != NULL))
			fail_msg("%s: choices are for choices", name);
		if (k->choices && (k->least || k->most + 1 != words(k->choices)))
			fail_msg("%s: its range doesn't count its choices", name);
		if (k->offset != i * sizeof(uint64_t))
			fail_msg("%s: its value is elsewhere", name);
	}
	assert_int_equal(bl_knob_count * sizeof(uint64_t), sizeof(struct bl_knobs));
}

static void every_variable_is_the_name_in_capitals(void **state)
{
	for (size_t i = 0; i < bl_knob_count; i++) {
		char expected[128] = "FI_BEELINE_";
		size_t at = strlen(expected);

		for (const char *c = bl_knob_table[i].name; *c; c++)
			expected[at++] = (char)toupper((unsigned char)*c);
		assert_string_equal(bl_knob_table[i].variable, expected);
	}
}

static void names_are_unique(void **state)
{
	for (size_t i = 0; i < bl_knob_count; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(bl_knob_table[i].name, bl_knob_table[k].name);
}

static void every_knob_takes_its_own_range(void **state)
{
	for (size_t i = 0; i < bl_knob_count; i++) {
		const struct bl_knob_info *k = &bl_knob_table[i];
		char text[32];
		uint64_t value;

		if (k->kind == BL_KNOB_CHOICE)
			continue;
		snprintf(text, sizeof text, "%llu", (unsigned long long)k->least);
		assert_int_equal(bl_knob_parse(k, text, &value), 0);
		snprintf(text, sizeof text, "%llu", (unsigned long long)k->most);
		assert_int_equal(bl_knob_parse(k, text, &value), 0);
		snprintf(text, sizeof text, "%llu", (unsigned long long)k->most + 1);
		assert_int_equal(bl_knob_parse(k, text, &value), -EINVAL);
	}
}

/* --- the environment ---------------------------------------------------- */

struct environment_row {
	struct row row;
	const char *text; /* of FI_BEELINE_SPIN; NULL: not set */
	uint64_t spin;
	bool complains;
};

static const struct environment_row environments[] = {
	{{"not set", "the default"}, NULL, 100, false},
	{{"empty", "as if it were not set"}, "", 100, false},
	{{"a number", "holds"}, "7", 7, false},
	{{"least", "0 is a value"}, "0", 0, false},
	{{"too large", "the default, and a word about it"}, "100001", 100, true},
	{{"garbage", "the default, and a word about it"}, "fast", 100, true},
};

static void environment(void **state)
{
	const struct environment_row *row = TABLE_ROW(struct environment_row, state);
	char said[512] = "";
	int status, pipes[2];
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(pipes[1], 2);
		for (size_t i = 0; i < bl_knob_count; i++)
			unsetenv(bl_knob_table[i].variable);
		if (row->text)
			setenv("FI_BEELINE_SPIN", row->text, 1);
		_exit(bl_knobs()->spin != row->spin);
	}
	close(pipes[1]);
	n = read(pipes[0], said, sizeof said - 1);
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(n >= 0);
	assert_int_equal(strstr(said, "FI_BEELINE_SPIN") != NULL, row->complains);
	if (row->complains)
		assert_non_null(strstr(said, "0 to 100000")); /* what is allowed */
}

int main(void)
{
	TABLE_ROWS("parse", parse, parses);
	TABLE_TEST(every_knob_is_complete);
	TABLE_TEST(every_variable_is_the_name_in_capitals);
	TABLE_TEST(names_are_unique);
	TABLE_TEST(every_knob_takes_its_own_range);
	TABLE_ROWS("environment", environment, environments);
	return table_run("knobs");
}
