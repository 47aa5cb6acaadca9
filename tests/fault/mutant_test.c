/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * mutant_test.c: a live neighbour that is mutated (mutate.c) talks to two real
 * ranks, and its successor does, for as long as the time allows. The two never
 * crash, never hang, never take anybody else's bytes for wrong or wrong ones for
 * right, and hold nothing of it when it is gone. garbage_test.c writes nonsense at
 * random; this one nearly makes sense. BEELINE_FUZZ_SECONDS: per row.
 */
#include <string.h>
#include <unistd.h>

#include "fault/generations.h"
#include "long.h"

struct mutant_row {
	struct row row;
	const char *copy, *carry; /* FI_BEELINE_COPY, FI_BEELINE_EAGER_LONG_MAX */
	size_t least, most;
};

static const struct mutant_row rows[] = {
	{{"short", "lengths, tags and operations"}, "auto", "0", 0, 500},
	{{"payload ring", "places in it, and credits"}, "auto", "0", 200, 4000},
	{{"large", "pieces, chunk counters, numbers of transfers"}, "auto", "0", 20000, 600000},
	{{"whole", "what lies in a longer ring"}, "auto", "65535", 15000, 65535},
	{{"fragments", "offsets, and bytes that weren't asked for"}, "ring", "0", 20000, 200000},
};

#define SECONDS (SLOWER > 1 ? 8 : test_long() ? 4 : 1) /* longer where a sanitizer looks on */
#define PACKETS 2000				       /* a mutant says at most, give or take */
#define EXTRA	4 /* so much longer, should none have been given up by then */

static const struct mutant_row *row;
static uint64_t seed;

static void mutant(unsigned n, struct life *life)
{
	life->least = row->least;
	life->most = row->most;
	life->mad = true;
	life->packets = (unsigned)(table_random(&seed) % PACKETS);
	life->wait_us = (unsigned)(table_random(&seed) % 5000);
	life->seed = table_random(&seed);
}

static void mutants(void **state)
{
	const char *text = getenv("BEELINE_FUZZ_SECONDS");
	uint64_t seconds = text && atoi(text) > 0 ? (uint64_t)atoi(text) : SECONDS;
	uint64_t until = bl_clock_ns() + seconds * 1000000000ull;
	uint64_t last = until + EXTRA * (seconds > 4 ? seconds : 4) * 1000000000ull;
	unsigned all = 0, mistrusted = 0;

	row = TABLE_ROW(struct mutant_row, state);
	setenv("FI_BEELINE_COPY", row->copy, 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", row->carry, 1);
	seed = bl_clock_ns();
	/* new survivors now and then, too */
	while (bl_clock_ns() < until || (!mistrusted && bl_clock_ns() < last)) {
		struct outcome out;

		print_message("             seed %lu\n", (unsigned long)seed);
		generations_run(50, mutant, &out);
		all += out.deaths;
		mistrusted += out.mistrusted;
		generations_free(&out);
	}
	print_message("             %u mutants, %u times one was given up before its death\n", all,
		      mistrusted);
	assert_true(mistrusted); /* else what it says isn't bad enough */
}

int main(void)
{
	TABLE_ROWS("mutant", mutants, rows);
	return table_run("mutant");
}
