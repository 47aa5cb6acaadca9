/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * limits_test.c: transport/local/adapt/policy.h: what the limits are made of, and what the knobs
 * change.
 */
#include "transport/local/lane/ring.h"
#include "unit/machines.h"
#include "unit/table.h"

/* --- knobs -------------------------------------------------------------------- */

struct knob_row {
	struct row row;
	struct {
		uint64_t eager_max, eager_long_max, inject, copybuf, chunk_max, split_min;
	} set;
	struct {
		uint32_t eager, answer, injects, longest, dirty, piece, split;
		bool streamed;
	} gives; /* of Zen 4's limits where a call takes 600 ns */
};

/* What differs from no variable at all. */
#define SET(...)                                                                                   \
	{                                                                                          \
		.eager_max = BL_KNOB_AUTO, .eager_long_max = BL_KNOB_AUTO,                         \
		.chunk_max = BL_KNOB_AUTO, .split_min = BL_KNOB_AUTO, __VA_ARGS__                  \
	}
#define GIVES(...)                                                                                 \
	{                                                                                          \
		.eager = 6144, .answer = 8192, .injects = 6144, .dirty = 256 * KIB,                \
		.piece = 256 * KIB, .split = 32 * KIB, __VA_ARGS__                                 \
	}

static const struct knob_row knob_rows[] = {
	{{"none", "as measured"}, SET(), GIVES()},
	{{"the least eager", "for answers, too"},
	 SET(.eager_max = 512),
	 GIVES(.eager = 512, .answer = 512, .injects = 512)},
	{{"the most eager", "the same"},
	 SET(.eager_max = 14336, .inject = 1),
	 GIVES(.eager = 14336, .answer = 14336, .injects = 14336)},
	{{"inject as an answer", "which is longer"}, SET(.inject = 1), GIVES(.injects = 8192)},
	{{"longer ones in a long ring", "near and far; nothing is dirty"},
	 SET(.eager_long_max = 50000),
	 GIVES(.longest = 50000, .dirty = 0)},
	{{"none there", "nor what is dirty"}, SET(.eager_long_max = 0), GIVES(.dirty = 0)},
	{{"always a copy buffer", "written piece by piece"},
	 SET(.copybuf = 1),
	 GIVES(.streamed = true)},
	{{"never a copy buffer", "so nothing is dirty"}, SET(.copybuf = 2), GIVES(.dirty = 0)},
	{{"pieces, no page", "whole pages"}, SET(.chunk_max = 5000), GIVES(.piece = 8192)},
	{{"split", "as said"}, SET(.split_min = 1 << 30), GIVES(.split = 1 << 30)},
};

static void knob_sets(void **state)
{
	const struct knob_row *row = TABLE_ROW(struct knob_row, state);
	struct bl_knobs knobs = no_knobs();
	struct bl_limits l;

	knobs.eager_max = row->set.eager_max;
	knobs.eager_long_max = row->set.eager_long_max;
	knobs.inject = row->set.inject;
	knobs.copybuf = row->set.copybuf;
	knobs.chunk_max = row->set.chunk_max;
	knobs.split_min = row->set.split_min;
	l = limits_with(&zen4, MIDDLING, &knobs);
	assert_int_equal(l.eager_max, row->gives.eager);
	assert_int_equal(l.pingpong_max, row->gives.answer);
	assert_int_equal(l.inject_max, row->gives.injects);
	assert_int_equal(l.eager_long, row->gives.longest);
	assert_int_equal(l.eager[BL_RING_LONG][BL_EXCHANGE][true],
			 row->gives.longest ? row->gives.longest : row->gives.eager);
	assert_int_equal(l.dirty[false], row->gives.dirty);
	assert_int_equal(l.chunk_half, row->gives.piece);
	assert_int_equal(l.split_min, row->gives.split);
	assert_int_equal(l.streamed, row->gives.streamed);
}

/* An answer may be longer than what the knob says of a longer ring. */
static void an_answer_may_be_a_packet(void **state)
{
	struct bl_knobs knobs = no_knobs();
	struct bl_limits l;

	(void)state;
	knobs.eager_long_max = 1;
	l = limits_with(&skylake, MIDDLING, &knobs);
	assert_true(l.pingpong_max > l.eager_max);
	assert_true(bl_policy_may_be_packet(&l, l.pingpong_max, false));
	assert_false(bl_policy_may_be_packet(&l, l.pingpong_max + 1, false));
}

struct buffer_row {
	struct row row;
	const struct bl_cpu *cpu;
	uint64_t copybuf; /* the knob */
	bool any, exchange_only;
};

static const struct buffer_row buffer_rows[] = {
	{{"auto, Zen 4", "all"}, &zen4, 0, true, false},
	{{"auto, Sapphire Rapids", "what crosses"}, &sapphire, 0, true, true},
	{{"auto, Skylake", "nothing"}, &skylake, 0, false, false},
	{{"always", "whoever answers"}, &skylake, 1, true, false},
	{{"never", "in the rings"}, &zen4, 2, false, false},
	{{"exchange", "only if both send at once"}, &zen4, 3, true, true},
};

static void who_has_copy_buffers(void **state)
{
	const struct buffer_row *row = TABLE_ROW(struct buffer_row, state);
	struct bl_knobs knobs = no_knobs();
	struct bl_copy_plan plan;

	knobs.copybuf = row->copybuf;
	bl_copy_plan_make(&plan, row->cpu, &(struct bl_copy_cost){DEAR, NS_KB}, &knobs);
	assert_int_equal(plan.copybuf, row->any);
	assert_int_equal(plan.exchange_only, row->exchange_only);
}

/* Of this machine. */
static void those_in_force_are_made_so(void **state)
{
	struct bl_limits l;

	(void)state;
	bl_limits_make(&l, bl_copy_plan(), bl_knobs());
	assert_memory_equal(&l, bl_limits(), sizeof l);
	assert_in_range(l.eager_max, 512, BL_EAGER_MOST);
	for (int ring = 0; ring < BL_RINGS; ring++)
		for (int pattern = 0; pattern < BL_PATTERNS; pattern++)
			for (int far = 0; far < 2; far++)
				assert_in_range(l.eager[ring][pattern][far], l.eager_max,
						BL_PACKET_MOST);
	assert_true(l.split_min > l.eager_max);
	assert_true(l.dirty[true] <= l.dirty[false] && l.dirty[false] <= BL_COPYBUF_MOST);
}

/* --- what they are made of ----------------------------------------------------- */

struct far_row {
	struct row row;
	const struct bl_copy_cost *twice;
	struct bl_copy_cost once;
	size_t eager, carry, far;
};

#define PAST	&bl_cost_past
#define IN_TURN &bl_cost_copybuf

static const struct far_row fars[] = {
	{{"as measured", "24 KiB"}, PAST, {1242, 65}, 14336, 98304, 24576},
	{{"as measured, in turn", "40 KiB"}, IN_TURN, {1242, 65}, 14336, 98304, 40960},
	{{"dearer call", "32 KiB"}, PAST, {1500, 77}, 14336, 98304, 32768},
	{{"much dearer", "as far as anywhere"}, PAST, {9000, 65}, 14336, 98304, 98304},
	{{"cheap call", "no less than what is eager"}, PAST, {250, 65}, 14336, 98304, 14336},
	{{"cheap call, in turn", "the same"}, IN_TURN, {250, 65}, 14336, 98304, 14336},
	{{"dear bytes", "one copy never catches up"}, PAST, {1242, 234}, 14336, 98304, 98304},
	{{"nearly", "and it does so late"}, PAST, {1242, 233}, 14336, 98304, 98304},
	{{"dear bytes, in turn", "never"}, IN_TURN, {1242, 160}, 14336, 98304, 98304},
	{{"nothing carried", "anywhere"}, PAST, {1242, 65}, 14336, 0, 0},
	{{"less than eager", "by the knob"}, PAST, {1242, 65}, 14336, 4096, 4096},
};

static void carried_far(void **state)
{
	const struct far_row *row = TABLE_ROW(struct far_row, state);

	assert_int_equal(bl_limit_far(&row->once, row->twice, row->eager, row->carry), row->far);
}

struct written_row {
	struct row row;
	size_t cache, most;
};

static const struct written_row writtens[] = {
	{{"2 MiB", "four of the longest lie there"}, 2 << 20, 524288},
	{{"more", "no longer ones"}, 64 << 20, 524288},
	{{"a byte less", "whole pages"}, (2 << 20) - 1, 520192},
	{{"1 MiB", "four of half as much"}, 1 << 20, 262144},
	{{"512 KiB", "the least"}, 512 << 10, 131072},
	{{"less", "the least all the same"}, 256 << 10, 131072},
	{{"not known", "the least"}, 0, 131072},
};

static void just_written(void **state)
{
	const struct written_row *row = TABLE_ROW(struct written_row, state);

	assert_int_equal(bl_limit_dirty(row->cache), row->most);
}

int main(void)
{
	forget_variables();
	TABLE_ROWS("knob", knob_sets, knob_rows);
	TABLE_TEST(an_answer_may_be_a_packet);
	TABLE_ROWS("buffer", who_has_copy_buffers, buffer_rows);
	TABLE_TEST(those_in_force_are_made_so);
	TABLE_ROWS("far", carried_far, fars);
	TABLE_ROWS("just written", just_written, writtens);
	return table_run("limits");
}
