/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hold_test.c: looks for an answer that are held back (core/hold.h): which part of the time is
 * found to be best, when that is asked anew, in which messages it is, and that nothing else waits.
 */
#include <stdint.h>
#include <string.h>

#include "base/knobs.h"
#include "core/core.h"
#include "unit/node.h"

#define TIME   16000u /* of a packet, where nothing is held back */
#define SWEEPS ((unsigned)(BL_HOLD_SWEEPS * BL_HOLD_PARTS))

/* --- which part ---------------------------------------------------------------------- */

struct best_row {
	struct row row;
	uint32_t took[BL_HOLD_PARTS];
	unsigned late;	   /* of so many blocks ... */
	unsigned late_one; /* ... this one is interrupted, for a hundred times as long; or 0 */
	uint32_t best;
};

static const struct best_row bests[] = {
	{{"all alike", "none"}, {TIME, TIME, TIME, TIME, TIME}, 1, 0, 0},
	{{"all longer", "none"}, {TIME, 2 * TIME, 3 * TIME, 2 * TIME, 3 * TIME}, 1, 0, 0},
	{{"the first", "is used"}, {TIME, TIME / 2, TIME, TIME, TIME}, 1, 0, 1},
	{{"the last", "is used"}, {TIME, TIME, TIME, TIME, TIME / 2}, 1, 0, 4},
	{{"the best", "of many"}, {TIME, TIME / 2, TIME / 3, TIME / 4, TIME / 3}, 1, 0, 3},
	{{"one in 32", "isn't worth it"}, {TIME, TIME, TIME, TIME / 32 * 31, TIME}, 1, 0, 0},
	{{"a little more", "is"}, {TIME, TIME, TIME, TIME / 32 * 31 - 1, TIME}, 1, 0, 3},
	{{"no time at all", "is none"}, {0, 0, 0, 0, 0}, 1, 0, 0},
	{{"as long as can be", "no overflow"},
	 {UINT32_MAX, UINT32_MAX, UINT32_MAX / 2, UINT32_MAX, UINT32_MAX},
	 1,
	 0,
	 2},
	{{"the best is interrupted once", "and used"},
	 {TIME, TIME, TIME / 2, TIME, TIME},
	 30,
	 11,
	 2},
	{{"none is interrupted once", "it isn't worth it"},
	 {TIME, TIME, TIME, TIME, TIME},
	 30,
	 5,
	 0},
};

/* Until it rests, or so many blocks; how many that were. */
static unsigned sweep(struct bl_hold *hold, const uint32_t *took, unsigned most, unsigned late,
		      unsigned late_one)
{
	unsigned blocks = 0;

	while (blocks < most && !hold->rest) {
		uint32_t this = took[hold->part];

		hold->part = (uint8_t)bl_hold_judge(
			hold, late_one && blocks % late == late_one ? 100 * this : this);
		assert_in_range(hold->part, 0, BL_HOLD_PARTS - 1);
		blocks++;
	}
	return blocks;
}

static void the_best_is_used(void **state)
{
	const struct best_row *row = TABLE_ROW(struct best_row, state);
	struct bl_hold hold = {0};

	assert_int_equal(sweep(&hold, row->took, 1000, row->late, row->late_one), SWEEPS);
	assert_int_equal(hold.best, row->best);
	assert_int_equal(hold.part, row->best);
}

/* In a sweep each part is measured once. */
static void each_has_its_turn(void **state)
{
	struct bl_hold hold = {0};
	static const uint32_t took[BL_HOLD_PARTS] = {1, 1, 1, 1, 1};
	unsigned seen = 0;

	(void)state;
	for (uint32_t block = 0; block < SWEEPS; block++) {
		seen |= 1u << hold.part;
		sweep(&hold, took, 1, 1, 0);
		if (block % BL_HOLD_PARTS == BL_HOLD_PARTS - 1) {
			assert_int_equal(seen, (1u << BL_HOLD_PARTS) - 1);
			seen = 0;
		}
	}
}

static unsigned rest(struct bl_hold *hold, uint32_t took)
{
	unsigned blocks = 0;

	for (; hold->rest; blocks++) {
		assert_int_equal(hold->part, hold->best);
		hold->part = (uint8_t)bl_hold_judge(hold, took);
	}
	return blocks;
}

/* One sweep after each rest; where none gains, rarely. */
static void it_rests(void **state)
{
	static const uint32_t none[BL_HOLD_PARTS] = {TIME, TIME, TIME, TIME, TIME};
	static const uint32_t gains[BL_HOLD_PARTS] = {TIME, TIME / 8 * 7, TIME, TIME, TIME};
	struct bl_hold hold = {0};

	(void)state;
	sweep(&hold, none, 1000, 1, 0);
	for (unsigned vain = 0; vain < BL_HOLD_RARELY + 2; vain++) {
		assert_int_equal(rest(&hold, TIME),
				 BL_HOLD_REST << (vain < BL_HOLD_RARELY ? vain : BL_HOLD_RARELY));
		assert_int_equal(sweep(&hold, none, 1000, 1, 0), BL_HOLD_PARTS);
	}
	rest(&hold, TIME);
	for (int sweeps = 0; sweeps < 10 && !hold.best; sweeps++) {
		sweep(&hold, gains, 1000, 1, 0);
		if (!hold.best)
			rest(&hold, TIME);
	}
	assert_int_equal(hold.best, 1);
	assert_int_equal(rest(&hold, TIME / 8 * 7), BL_HOLD_REST);
	assert_int_equal(sweep(&hold, gains, 1000, 1, 0), BL_HOLD_PARTS);
	assert_int_equal(rest(&hold, TIME / 8 * 7), BL_HOLD_REST);
}

struct change_row {
	struct row row;
	const char *blocks; /* = as before, + longer by a quarter and more, - shorter by a fifth,
			     * / and \ not quite so much */
	bool anew;
};

static const struct change_row changes[] = {
	{{"as before", "it goes on"}, "==========", false},
	{{"two longer ones", "say nothing"}, "++=++=++=", false},
	{{"three", "it is another dialogue"}, "+++", true},
	{{"three shorter ones", "the same"}, "---", true},
	{{"longer and shorter", "the same"}, "+-+", true},
	{{"a quarter longer", "isn't enough"}, "//////////", false},
	{{"a fifth shorter", "isn't enough"}, "\\\\\\\\\\\\\\", false},
};

static void it_may_change(void **state)
{
	const struct change_row *row = TABLE_ROW(struct change_row, state);
	static const uint32_t gains[BL_HOLD_PARTS] = {TIME, TIME, TIME, TIME / 2, TIME};
	struct bl_hold hold = {0};
	uint32_t known = TIME / 2;

	sweep(&hold, gains, 1000, 1, 0);
	for (const char *block = row->blocks; *block; block++) {
		uint32_t took = *block == '+'	 ? known + known / 4 + 1
				: *block == '-'	 ? known - known / 5 - 1
				: *block == '/'	 ? known + known / 4
				: *block == '\\' ? known - known / 5
						 : known;

		assert_int_equal(hold.best, 3);
		assert_true(hold.rest);
		hold.part = (uint8_t)bl_hold_judge(&hold, took);
	}
	assert_int_equal(!hold.rest, row->anew);
	if (row->anew) {
		assert_int_equal(hold.part, 0);
		assert_int_equal(sweep(&hold, gains, 1000, 1, 0), SWEEPS);
		assert_int_equal(hold.best, 3);
	}
}

/* --- in which messages --------------------------------------------------------------- */

static struct node node;
static uint8_t bytes[4096], into[4096];

enum way { TALK, CROSS, WINDOWS };

static void take(size_t from, size_t to)
{
	assert_int_equal(bl_recv_buf(node.ep[to], into, sizeof into, from, 1, 0, NULL, NODE_FLAGS),
			 0);
	node_completion(&node, to, NULL);
}

static void send_to(size_t from, size_t to, size_t len)
{
	node_send(&node, from, to, bytes, len, 1, NULL, BL_TAGGED);
}

static void exchange(enum way way, size_t len, size_t with)
{
	unsigned window = way == WINDOWS ? 8 : 1;

	for (unsigned i = 0; i < window; i++)
		send_to(0, with, len);
	if (way == CROSS)
		send_to(with, 0, len);
	for (unsigned i = 0; i < window; i++)
		take(0, with);
	if (way == TALK)
		send_to(with, 0, len);
	if (way != WINDOWS)
		take(with, 0);
}

static void open_node(size_t count, uint64_t knob)
{
	((struct bl_knobs *)(uintptr_t)bl_knobs())->hold = knob;
	bl_hold_slow_ns = UINT32_MAX;
	node_open(&node, count);
}

struct step_row {
	struct row row;
	enum way way;
	size_t len;
	uint64_t knob;
	bool talks;
};

static const struct step_row steps[] = {
	{{"a message and its answer", "a dialogue"}, TALK, 8, BL_HOLD_AUTO, true},
	{{"lines behind the first", "a dialogue"}, TALK, 200, BL_HOLD_AUTO, true},
	{{"payload", "a dialogue"}, TALK, 1024, BL_HOLD_AUTO, true},
	{{"they cross", "none"}, CROSS, 8, BL_HOLD_AUTO, false},
	{{"windows", "none"}, WINDOWS, 8, BL_HOLD_AUTO, false},
	{{"its user says never", "none"}, TALK, 8, BL_HOLD_NEVER, false},
};

static void of_a_dialogue(void **state)
{
	const struct step_row *row = TABLE_ROW(struct step_row, state);
	const struct bl_hold *hold;
	bool held = false;

	open_node(2, row->knob);
	hold = &node.ep[0]->hold;
	for (unsigned i = 0; i < (SWEEPS + 2) * (BL_SLOTS + 1); i++) {
		exchange(row->way, row->len, 1);
		held |= node.ep[0]->local.held == &node.ep[0]->dest[1]->tx;
	}
	assert_ptr_equal(hold->tx, row->talks ? &node.ep[0]->dest[1]->tx : NULL);
	assert_int_equal(hold->sweeps, row->talks ? BL_HOLD_SWEEPS : 0);
	assert_int_equal(held, row->talks);
	if (row->talks) /* and it ends with that */
		for (unsigned i = 0; i < 2 * BL_SLOTS; i++)
			exchange(WINDOWS, row->len, 1);
	assert_null(hold->tx);
	assert_null(node.ep[0]->local.held);
	node_close(&node);
}

/* The account is of whom it talks with. */
static void of_one_neighbour(void **state)
{
	const struct bl_hold *hold;

	(void)state;
	open_node(3, BL_HOLD_AUTO);
	hold = &node.ep[0]->hold;
	for (size_t with = 1; with <= 2; with++) {
		for (unsigned i = 0; i < 10 * BL_SLOTS; i++)
			exchange(TALK, 8, with);
		assert_ptr_equal(hold->tx, &node.ep[0]->dest[with]->tx);
		assert_in_range(hold->sweeps, 1, 2);
	}
	node_close(&node);
}

/* A block that took too long says nothing: the same part has its turn again, and in a rest none. */
static void one_without_its_core(void **state)
{
	struct bl_hold *hold;
	uint32_t at, part;

	(void)state;
	open_node(2, BL_HOLD_AUTO);
	hold = &node.ep[0]->hold;
	while (!(hold->at == 2 && hold->sweeps == 1))
		exchange(TALK, 8, 1);
	at = hold->at;
	part = hold->part;
	bl_hold_slow_ns = 0;
	for (unsigned i = 0; i < 3 * BL_SLOTS; i++)
		exchange(TALK, 8, 1);
	assert_int_equal(hold->at, at);
	assert_int_equal(hold->part, part);
	bl_hold_slow_ns = UINT32_MAX;
	while (!hold->rest)
		exchange(TALK, 8, 1);
	hold->best = BL_HOLD_PARTS - 1;
	bl_hold_slow_ns = 0;
	for (unsigned i = 0; i < 3 * BL_SLOTS; i++)
		exchange(TALK, 8, 1);
	assert_int_equal(hold->part, 0);
	assert_null(node.ep[0]->local.held);
	node_close(&node);
}

/* --- what waits ---------------------------------------------------------------------- */

enum sender { PARTNER, ANOTHER };

struct wait_row {
	struct row row;
	enum way way;
	enum sender sender;
	bool counter_anew; /* since the send the clock's counter has begun anew */
	bool waits;
};

static const struct wait_row waits[] = {
	{{"an answer", "isn't looked for"}, TALK, PARTNER, false, true},
	{{"another's message", "is"}, TALK, ANOTHER, false, false},
	{{"not to what it was sent", "is looked for"}, CROSS, PARTNER, false, false},
	{{"the counter has begun anew", "it is looked for"}, TALK, PARTNER, true, false},
};

#define LONG (UINT32_MAX / 2) /* ticks: most of a second */

static void until_then(void **state)
{
	const struct wait_row *row = TABLE_ROW(struct wait_row, state);
	size_t sender = row->sender == PARTNER ? 1 : 2;
	struct bl_hold *hold;
	struct bl_comp comp;
	ssize_t n;

	open_node(3, BL_HOLD_AUTO);
	hold = &node.ep[0]->hold;
	for (int i = 0; i < 8; i++)
		exchange(row->way, 8, 1);
	node.ep[0]->local.held = &node.ep[0]->dest[1]->tx;
	hold->wait = LONG;
	send_to(0, 1, 8);
	assert_int_equal(hold->until != 0, row->way == TALK);
	take(0, 1);
	send_to(sender, 0, 8);
	assert_int_equal(bl_recv_buf(node.ep[0], into, sizeof into, sender, 1, 0, NULL, NODE_FLAGS),
			 0);
	if (row->counter_anew)
		hold->until += 2ull * LONG;
	/* however long this machine has held us up since: it is asked whether the time has come */
	n = bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL);
	if (row->waits) {
		for (int reads = 0; reads < 10; reads++) {
			hold->until = bl_ticks() + LONG;
			assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL),
					 -EAGAIN);
		}
		hold->until = bl_ticks(); /* now */
		n = bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL);
		assert_int_equal(hold->until, 0);
	}
	assert_int_equal(n, 1);
	node_close(&node);
}

/* Never for longer than that, however long an answer takes. */
static void not_for_long(void **state)
{
	struct bl_hold *hold;

	(void)state;
	open_node(2, BL_HOLD_AUTO);
	hold = &node.ep[0]->hold;
	for (unsigned i = 0; i < 4 * BL_SLOTS; i++)
		exchange(TALK, 8, 1);
	assert_non_null(hold->tx);
	while (!hold->part) {
		hold->took[0] = UINT32_MAX;
		exchange(TALK, 8, 1);
	}
	assert_in_range(hold->wait, 1, BL_HOLD_MOST_NS * bl_ticks_per_us() / 1000);
	node_close(&node);
}

int main(void)
{
	setenv("FI_BEELINE_SPIN", "0", 1); /* both ends belong to one thread */
	TABLE_ROWS("best", the_best_is_used, bests);
	TABLE_TEST(each_has_its_turn);
	TABLE_TEST(it_rests);
	TABLE_ROWS("change", it_may_change, changes);
	TABLE_ROWS("dialogue", of_a_dialogue, steps);
	TABLE_TEST(of_one_neighbour);
	TABLE_TEST(one_without_its_core);
	TABLE_ROWS("wait", until_then, waits);
	TABLE_TEST(not_for_long);
	return table_run("hold");
}
