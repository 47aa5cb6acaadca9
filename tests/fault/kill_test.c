/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * kill_test.c: SIGKILL at any moment of a rank's life, hundreds of times in one
 * world of two survivors (generations.h), and in each of the windows where a death
 * would hurt most (base/window.h). BEELINE_KILLS says how many random deaths
 * instead of the usual; `make soak` asks for thousands.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "fault/generations.h"

/* "auto", and what fits between 4 and 64 KiB goes whole through a longer ring. */
#define WHOLE "whole"
/* "auto", and who answers does so in the place of the message. */
#define IN_TURN "in turn"

static void copy_by(const char *copy)
{
	bool turns = !strcmp(copy, IN_TURN), whole = turns || !strcmp(copy, WHOLE);

	setenv("FI_BEELINE_COPY", whole ? "auto" : copy, 1);
	setenv("FI_BEELINE_EAGER_MAX", whole ? "4096" : "auto", 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", turns ? "98304" : whole ? "65535" : "0", 1);
	setenv("FI_BEELINE_LONG_RING", turns ? "always" : "auto", 1);
	setenv("FI_BEELINE_COPYBUF", turns ? "always" : "auto", 1);
}

/* --- at any moment ---------------------------------------------------------- */

struct random_row {
	struct row row;
	const char *copy; /* FI_BEELINE_COPY */
	unsigned usual;
};

static const struct random_row randoms[] = {
	{{"any way of copying", "both hands, one hand, short"}, "auto", 200},
	{{"whole", "what isn't large goes through a longer ring"}, WHOLE, 60},
	{{"in turn", "where the other's message was"}, IN_TURN, 60},
	{{"no right to copy", "all goes through the ring, in fragments"}, "ring", 60},
};

static uint64_t seed;
static bool copybuf;

static void at_any_moment(unsigned n, struct life *life)
{
	static const struct {
		size_t least, most;
		uint64_t moment;
	} stages[] = {
		{0, 200, EARLIEST},    /* while it starts and connects */
		{0, 200, 50},	       /* the ring is full */
		{300, 4000, 50},       /* the payload ring */
		{5000, 60000, 10},     /* one hand copies */
		{100000, 1000000, 3},  /* both hands */
		{0, 400000, 5},	       /* all of it */
		{0, 400000, 0},	       /* connected, or nearly */
		{2000000, 4000000, 1}, /* many chunks */
	};
	size_t stage = n % bl_countof(stages);

	life->least = stages[stage].least;
	life->most = stages[stage].most;
	life->moment = stages[stage].moment;
	life->copybuf = copybuf && (n / bl_countof(stages)) % 2;
	life->wait_us = (unsigned)(table_random(&seed) % (stage || n % 16 ? 2000 : 500));
}

static void random_kills(void **state)
{
	const struct random_row *row = TABLE_ROW(struct random_row, state);
	unsigned count = world_kills(row->usual);
	struct outcome out;

	copy_by(row->copy);
	copybuf = !strcmp(row->copy, IN_TURN);
	seed = bl_clock_ns();
	print_message("             seed %lu\n", (unsigned long)seed);
	generations_run(count, at_any_moment, &out);
	generations_judge(row->row.name, &out);
	assert_int_equal(out.deaths, count);
	/* Most must have died in the middle of something. */
	assert_true(out.unborn * 2 < count && out.nnoticed > count / 2);
	generations_free(&out);
}

/* --- in a window -------------------------------------------------------------- */

struct window_row {
	struct row row;
	enum bl_window window;
	const char *copy;
	size_t least, most;
};

static const struct window_row windows[] = {
	{{"called", "connected to a neighbour's socket, silent"}, BL_WINDOW_CALLED, "auto", 0, 200},
	{{"hello", "about to say it"}, BL_WINDOW_HELLO, "auto", 0, 200},
	{{"asked", "has read a call, hasn't answered"}, BL_WINDOW_ASKED, "auto", 0, 200},
	{{"answered", "its owner doesn't know the neighbour yet"},
	 BL_WINDOW_ANSWERED,
	 "auto",
	 0,
	 200},
	{{"attached", "has read the answer, not acted on it"}, BL_WINDOW_ATTACHED, "auto", 0, 200},
	{{"agreed", "has said or heard that it is connected, not acted on it"},
	 BL_WINDOW_AGREED,
	 "auto",
	 0,
	 200},
	{{"adopted", "connected, nothing sent"}, BL_WINDOW_ADOPTED, "auto", 0, 200},
	{{"packet", "a slot is written but its number"}, BL_WINDOW_PACKET, "auto", 0, 200},
	{{"long packet", "the payload is written, the number isn't"},
	 BL_WINDOW_PACKET,
	 "auto",
	 300,
	 4000},
	{{"published", "its number is written, too"}, BL_WINDOW_PASSED, "auto", 0, 200},
	{{"matched", "between match and copy"}, BL_WINDOW_MATCHED, "auto", 20000, 600000},
	{{"taken", "a chunk is the receiver's, not copied"},
	 BL_WINDOW_TAKEN,
	 "auto",
	 200000,
	 2000000},
	{{"pulled", "a chunk is copied, not counted"}, BL_WINDOW_PULLED, "auto", 200000, 2000000},
	{{"copied", "between copy and completion, before FIN"},
	 BL_WINDOW_COPIED,
	 "auto",
	 20000,
	 600000},
	{{"helping", "a chunk is the sender's, not written"},
	 BL_WINDOW_HELPING,
	 "auto",
	 1000000,
	 4000000},
	{{"pushed", "a chunk is written by the sender, not counted"},
	 BL_WINDOW_PUSHED,
	 "auto",
	 1000000,
	 4000000},
	{{"told", "between FIN and the sender's completion"},
	 BL_WINDOW_TOLD,
	 "auto",
	 20000,
	 600000},
	{{"won", "the message is the sender's, no receive is"},
	 BL_WINDOW_WON,
	 "auto",
	 100000,
	 600000},
	{{"claimed", "the receive is, the message doesn't say so"},
	 BL_WINDOW_CLAIMED,
	 "auto",
	 100000,
	 600000},
	{{"announced", "it does, nothing is copied"}, BL_WINDOW_ANNOUNCED, "auto", 100000, 600000},
	{{"written", "all is copied, the receive doesn't say so"},
	 BL_WINDOW_WRITTEN,
	 "auto",
	 100000,
	 600000},
	{{"joined", "the receiver has taken a chunk of a claimed message"},
	 BL_WINDOW_JOINED,
	 "auto",
	 1000000,
	 4000000},
	{{"streaming", "some fragments are out"}, BL_WINDOW_FRAGMENTING, "ring", 20000, 600000},
	{{"streamed", "a piece of a message is there, and isn't said to be"},
	 BL_WINDOW_STREAMED,
	 IN_TURN,
	 8192,
	 90000},
	{{"copied from fragments", "before FIN"}, BL_WINDOW_COPIED, "ring", 20000, 600000},
};

#define ATTEMPTS 10 /* until somebody gets to the window */

static const struct window_row *window_row;

static void in_the_window(unsigned n, struct life *life)
{
	/* The first time, the second, and when all is in full swing. */
	static const unsigned nth[] = {1, 2, 7};

	life->least = window_row->least;
	life->most = window_row->most;
	life->window = window_row->window;
	life->nth = nth[n % bl_countof(nth)];
	life->copybuf = !strcmp(window_row->copy, IN_TURN);
	if (life->copybuf && n % 3 == 0)
		life->nth = 3; /* the first piece isn't published yet */
	if (window_row->window <= BL_WINDOW_ADOPTED)
		life->nth = 1 + n % 2; /* it has two neighbours */
}

static void window(void **state)
{
	struct outcome out;

	window_row = TABLE_ROW(struct window_row, state);
	copy_by(window_row->copy);
	/* Who calls whom is chance: one that is only called doesn't get to call. */
	for (int attempt = 0;; attempt++) {
		generations_run(world_kills(0) > 60 ? 60 : 6, in_the_window, &out);
		generations_judge(window_row->row.name, &out);
		if (out.unreached < out.deaths)
			break;
		assert_true(attempt < ATTEMPTS);
		generations_free(&out);
	}
	if (window_row->window > BL_WINDOW_AGREED)
		assert_int_equal(out.unreached, 0);
	generations_free(&out);
}

int main(void)
{
	TABLE_ROWS("killed", random_kills, randoms);
	TABLE_ROWS("killed in the window", window, windows);
	return table_run("kill");
}
