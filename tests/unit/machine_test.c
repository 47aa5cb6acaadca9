/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * machine_test.c: which kind a processor is (copy/machine.c), on whatever machine this runs, and
 * what holds of each. What this machine's own becomes is engine_test's.
 */
#include <string.h>

#include "transport/local/adapt/policy.h"
#include "copy/machine.h"
#include "transport/local/lane/ring.h"
#include "unit/table.h"

#define PAGE 4096

/* Which kind a processor is, by what it says. */
struct kind_row {
	struct row row;
	struct bl_cpu cpu;
	const char *name;
};

#define AMD(number)   .amd = true, .family = (number)
#define INTEL(number) .intel = true, .family = (number)

static const struct kind_row kinds[] = {
	{{"Zen 2", "nothing was measured"}, {AMD(0x17), .cache = 512 << 10}, "any"},
	{{"Zen 3", "512 KiB"}, {AMD(0x19), .cache = 512 << 10}, "zen3"},
	{{"Zen 3, less", "not one of these"}, {AMD(0x19), .cache = (512 << 10) - 1}, "any"},
	{{"Zen 3, nothing said", "of no kind"}, {AMD(0x19), .cache = 0}, "any"},
	{{"Zen 4", "1 MiB"}, {AMD(0x19), .cache = 1 << 20, .avx512f = true}, "zen4"},
	{{"Zen 4, its features hidden", "by its cache"}, {AMD(0x19), .cache = 1 << 20}, "zen4"},
	{{"Zen 4, its cache hidden", "by its features"},
	 {AMD(0x19), .cache = 512 << 10, .avx512f = true},
	 "zen4"},
	{{"Zen 5", "1 MiB"}, {AMD(0x1a), .cache = 1 << 20, .avx512f = true}, "zen5"},
	{{"Zen 5, its cache hidden", "by its family"}, {AMD(0x1a), .cache = 512 << 10}, "zen5"},
	{{"later than that", "as the last one known"}, {AMD(0x1b), .cache = 2 << 20}, "zen5"},
	{{"Sapphire Rapids", "2 MiB"},
	 {INTEL(6), .cache = 2 << 20, .avx512f = true, .avx512_fp16 = true},
	 "xeon"},
	{{"Ice Lake", "no such feature"}, {INTEL(6), .cache = 2 << 20, .avx512f = true}, "any"},
	{{"Sapphire Rapids, nothing said", "of no kind"}, {INTEL(6), .avx512_fp16 = true}, "any"},
	{{"another's", "of no kind"},
	 {.family = 0x19, .cache = 1 << 20, .avx512_fp16 = true},
	 "any"},
};

static void which_kind(void **state)
{
	const struct kind_row *row = TABLE_ROW(struct kind_row, state);

	assert_string_equal(bl_machine_of(&row->cpu)->name, row->name);
}

/* What holds of any of them. */
static void kind_is_sane(void **state)
{
	const struct kind_row *row = TABLE_ROW(struct kind_row, state);
	const struct bl_machine *kind = bl_machine_of(&row->cpu);
	bool later_amd = !strncmp(kind->name, "zen", 3);

	assert_true(kind->eager_long_max <= BL_PACKET_MOST);
	assert_true(kind->eager_long_far <= kind->eager_long_max &&
		    kind->eager_long_copybuf <= kind->eager_long_max);
	assert_true(kind->chunk_half <= kind->chunk_max && kind->chunk_half % PAGE == 0);
	assert_int_equal(kind->turns == BL_COPYBUF_ALL, later_amd);
	assert_int_equal(kind->past_min, later_amd ? BL_SLOT_INLINE + 1 : BL_TX_TIMED);
	assert_int_equal(kind->deep, later_amd);
	assert_int_equal(kind->dirty_max, later_amd ? BL_DIRTY_MAX : 0);
	/* What nobody uses near by is one thing or the other. */
	assert_true(!kind->turn_max || !kind->used_near);
	assert_true(kind->used_near <= kind->dirty_max && kind->turn_max <= kind->dirty_max);
	assert_true(kind->dirty_per_kb <= kind->dirty_per_kb_most);
	assert_in_range(kind->far_ns, 100, 150);
	assert_int_equal(kind->own_by_store, !strcmp(kind->name, "zen4"));
	assert_int_equal(kind->streamed_far, !strcmp(kind->name, "zen3"));
}

int main(void)
{
	TABLE_ROWS("kind", which_kind, kinds);
	TABLE_ROWS("sane", kind_is_sane, kinds);
	return table_run("machine");
}
