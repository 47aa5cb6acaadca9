/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cut_test.c: transport/local/adapt/policy.h: into how many chunks a message is cut that both
 * processes copy.
 */
#include "transport/local/adapt/policy.h"
#include "unit/table.h"

#define PAGE 4096u

struct cut_row {
	struct row row;
	size_t chunk_max, len, piece;
	uint32_t count;
	size_t half; /* 0: chunk_max */
};

static const struct cut_row cuts[] = {
	{{"one byte", "the piece is never 0"}, 262144, 1, PAGE, 1, 0},
	{{"a page", "can't be halved in pages"}, 262144, PAGE, PAGE, 1, 0},
	{{"a page and a byte", "two pieces, the second of one byte"}, 262144, PAGE + 1, PAGE, 2, 0},
	{{"two pages", "one each"}, 262144, 2 * PAGE, PAGE, 2, 0},
	{{"two pages and a byte", "the half is rounded up"}, 262144, 2 * PAGE + 1, 2 * PAGE, 2, 0},
	{{"twice the largest piece", "still halves"}, 262144, 524288, 262144, 2, 0},
	{{"a byte more", "a third piece of one byte"}, 262144, 524289, 262144, 3, 0},
	{{"64 MiB", "many of the largest"}, 262144, 64u << 20, 262144, 256, 0},
	{{"smallest piece", "the least that the knob takes"}, PAGE, 1u << 20, PAGE, 256, 0},
	{{"just fits", "as many pieces as the counter holds"},
	 PAGE,
	 65534ul * PAGE,
	 PAGE,
	 65534,
	 0},
	{{"doubled", "one more: the pieces grow beyond the largest"},
	 PAGE,
	 65535ul * PAGE,
	 2 * PAGE,
	 32768,
	 0},
	{{"2^62", "far more than any largest piece allows"},
	 PAGE,
	 (size_t)1 << 62,
	 (size_t)1 << 47,
	 32768,
	 0},
	{{"halves of the most", "two"}, 1u << 20, 524288, 262144, 2, 262144},
	{{"a byte more than those", "no halves, which would be longer"},
	 1u << 20,
	 524289,
	 262144,
	 3,
	 262144},
	{{"four halves", "and quarters, for once"}, 1u << 20, 1u << 20, 262144, 4, 262144},
	{{"2 MiB", "quarters"}, 1u << 20, 2u << 20, 524288, 4, 262144},
	{{"2 MiB and a byte", "of whole pages"},
	 1u << 20,
	 (2u << 20) + 1,
	 524288 + PAGE,
	 4,
	 262144},
	{{"4 MiB", "of the largest"}, 1u << 20, 4u << 20, 1u << 20, 4, 262144},
	{{"8 MiB", "more of those"}, 1u << 20, 8u << 20, 1u << 20, 8, 262144},
};

static void cut(void **state)
{
	const struct cut_row *row = TABLE_ROW(struct cut_row, state);
	struct bl_limits l = {.chunk_max = (uint32_t)row->chunk_max,
			      .chunk_half = (uint32_t)(row->half ? row->half : row->chunk_max)};
	uint32_t count = 0;
	size_t piece = bl_policy_cut(&l, row->len, &count);

	assert_int_equal(piece % PAGE, 0);
	assert_true((piece * (count - 1) < row->len && row->len - piece * (count - 1) <= piece));
	assert_true(piece == row->piece);
	assert_int_equal(count, row->count);
}

static void cut_covers_every_length(void **state)
{
	struct bl_limits l = {.chunk_max = 8 * PAGE, .chunk_half = 3 * PAGE};

	for (size_t len = 1; len < 40 * PAGE; len += len < 3 * PAGE ? 1 : 97) {
		uint32_t count;
		size_t piece = bl_policy_cut(&l, len, &count);

		assert_true(piece && piece <= l.chunk_max && piece % PAGE == 0);
		assert_true(piece * (count - 1) < len && len <= piece * count);
	}
}

int main(void)
{
	TABLE_ROWS("cut", cut, cuts);
	TABLE_TEST(cut_covers_every_length);
	return table_run("cut");
}
