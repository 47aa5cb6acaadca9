/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * predict_test.c: to whom a receive from anybody is shown: core/predict.h.
 */
#include "core/predict.h"

#include "transport/local/local.h"
#include "unit/table.h"

static struct bl_peer ann, bob;

static void nobody_at_first(void **state)
{
	static struct bl_predictions g;

	(void)state;
	assert_null(bl_prediction(&g, true, 5, 0));
	assert_null(bl_prediction(&g, true, 0, 0)); /* the key of an empty place */
	assert_true(bl_predict_learn(&g, true, 5, 0, &ann));
	assert_false(bl_predict_learn(&g, true, 5, 0, &bob));
}

static void by_tag(void **state)
{
	static struct bl_predictions g;
	const uint64_t a = 1ull << 32 | 5, b = 2ull << 32 | 5, field = 0xffffull << 48;

	(void)state;
	bl_predict_learn(&g, true, a, 0, &ann);
	bl_predict_learn(&g, true, b, 0, &bob);
	assert_ptr_equal(bl_prediction(&g, true, a, 0), &ann);
	assert_ptr_equal(bl_prediction(&g, true, b, 0), &bob);
	/* bits that needn't match don't count */
	assert_ptr_equal(bl_prediction(&g, true, a | 7ull << 48, field), &ann);
	/* a tag that was never seen: the last of all */
	assert_ptr_equal(bl_prediction(&g, true, 3ull << 32 | 5, 0), &bob);
	assert_ptr_equal(bl_prediction(&g, false, a, 0), &bob);
}

static void untagged(void **state)
{
	static struct bl_predictions g;

	(void)state;
	bl_predict_learn(&g, false, 0, UINT64_MAX, &ann);
	bl_predict_learn(&g, true, 0, 0, &bob);
	assert_ptr_equal(bl_prediction(&g, false, 0, UINT64_MAX), &ann);
	assert_ptr_equal(bl_prediction(&g, true, 0, 0), &bob);
}

/* More tags than places: every guess is one of those who have sent. */
static void full(void **state)
{
	static struct bl_predictions g;

	(void)state;
	for (uint64_t tag = 0; tag < 10000; tag++) {
		bl_predict_learn(&g, true, tag, 0, tag % 2 ? &ann : &bob);
		assert_ptr_equal(bl_prediction(&g, true, tag, 0), tag % 2 ? &ann : &bob);
	}
	for (uint64_t tag = 0; tag < 10000; tag++)
		assert_true(bl_prediction(&g, true, tag, 0) == &ann ||
			    bl_prediction(&g, true, tag, 0) == &bob);
}

static void forgotten(void **state)
{
	static struct bl_predictions g;

	(void)state;
	bl_predict_learn(&g, true, 1, 0, &ann);
	bl_predict_learn(&g, true, 2, 0, &bob);
	bl_predict_learn(&g, true, 3, 0, &ann);
	bl_predict_forget(&g, &ann);
	assert_null(bl_prediction(&g, true, 1, 0));
	assert_ptr_equal(bl_prediction(&g, true, 2, 0), &bob);
	bl_predict_forget(&g, &bob);
	assert_null(bl_prediction(&g, true, 2, 0));
	assert_true(bl_predict_learn(&g, true, 1, 0, &ann));
}

int main(void)
{
	TABLE_TEST(nobody_at_first);
	TABLE_TEST(by_tag);
	TABLE_TEST(untagged);
	TABLE_TEST(full);
	TABLE_TEST(forgotten);
	return table_run("predict");
}
