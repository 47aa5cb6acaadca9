/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * gen_fi_beeline.c: writes fi_beeline(7) to stdout: the page that is its
 * argument, with the list of knobs, from the very table that the provider reads
 * (base/knobs.c), in the place that says so. Without an argument it writes a line for each
 * knob, which the command compares the environment with (cli/beeline/knobs.py): its name, and
 * "choice" and the words, or "size" or "number", the least, the most, and "auto" or "-". Run
 * while building; one thread, no state.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/knobs.h"

#define WIDTH 78
#define PLACE ".\\\" The knobs come here.\n"

/* 16384 as 16K, where that is exact. */
static void print_value(const struct bl_knob_info *knob, uint64_t value)
{
	static const char units[] = {0, 'K', 'M', 'G'};
	size_t unit = 0;

	if (value == BL_KNOB_AUTO) {
		fputs("auto", stdout);
		return;
	}
	while (knob->kind == BL_KNOB_SIZE && value && value % 1024 == 0 &&
	       unit + 1 < bl_countof(units)) {
		value /= 1024;
		unit++;
	}
	printf("%" PRIu64, value);
	if (unit)
		putchar(units[unit]);
}

/* The word at this place of "a|b|c". */
static void print_choice(const char *choices, uint64_t place)
{
	while (place--)
		choices = strchr(choices, '|') + 1;
	printf("%.*s", (int)strcspn(choices, "|"), choices);
}

/* A new line for each sentence, as mdoc wants it, and none longer than WIDTH. No
 * help text has a backslash, or a line that begins with a dot. */
static void print_text(const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column && column + 1 + n > WIDTH) {
			putchar('\n');
			column = 0;
		}
		column += (size_t)printf("%s%.*s", column ? " " : "", (int)n, text);
		if (text[n - 1] == '.') {
			putchar('\n');
			column = 0;
		}
		text += n + strspn(text + n, " ");
	}
	if (column)
		putchar('\n');
}

static void print_choices(const struct bl_knob_info *knob)
{
	const char *word = knob->choices;

	fputs("One of", stdout);
	for (;;) {
		size_t n = strcspn(word, "|");

		printf("\n.Cm %.*s%s", (int)n, word, word[n] ? " ," : " ;");
		if (!word[n])
			break;
		word += n + 1;
	}
	fputs("\nby default\n.Cm ", stdout);
	print_choice(knob->choices, knob->init);
	fputs(" .\n", stdout);
}

static void print_range(const struct bl_knob_info *knob)
{
	fputs(knob->kind == BL_KNOB_SIZE ? "Bytes, from " : "A number from ", stdout);
	print_value(knob, knob->least);
	fputs(" to ", stdout);
	print_value(knob, knob->most);
	if (knob->init == BL_KNOB_AUTO) {
		fputs(", or\n.Cm auto ,\nthe default.\n", stdout);
		return;
	}
	fputs("; by default ", stdout);
	print_value(knob, knob->init);
	fputs(".\n", stdout);
}

static void print_knobs(void)
{
	puts(".Bl -tag -width Ds");
	for (size_t i = 0; i < bl_knob_count; i++) {
		const struct bl_knob_info *knob = &bl_knob_table[i];

		printf(".It Ev %s\n", knob->variable);
		if (knob->kind == BL_KNOB_CHOICE)
			print_choices(knob);
		else
			print_range(knob);
		print_text(knob->help);
	}
	puts(".El");
}

static int print_lines(void)
{
	for (size_t i = 0; i < bl_knob_count; i++) {
		const struct bl_knob_info *knob = &bl_knob_table[i];

		if (knob->kind == BL_KNOB_CHOICE)
			printf("%s choice %s\n", knob->variable, knob->choices);
		else
			printf("%s %s %" PRIu64 " %" PRIu64 " %s\n", knob->variable,
			       knob->kind == BL_KNOB_SIZE ? "size" : "number", knob->least,
			       knob->most, knob->init == BL_KNOB_AUTO ? "auto" : "-");
	}
	return ferror(stdout) || fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc == 1)
		return print_lines();

	FILE *in = argc == 2 ? fopen(argv[1], "r") : NULL;
	bool placed = false;
	char line[1024];

	if (!in) {
		fprintf(stderr, "usage: %s [fi_beeline.7.in]\n", argv[0]);
		return 1;
	}
	while (fgets(line, sizeof line, in)) {
		if (strcmp(line, PLACE)) {
			fputs(line, stdout);
			continue;
		}
		print_knobs();
		placed = true;
	}
	if (ferror(in) || !placed) {
		fprintf(stderr, "%s: no line for the knobs in it\n", argv[1]);
		return 1;
	}
	fclose(in);
	return ferror(stdout) || fflush(stdout);
}
