/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic_test.c: the table of atomic operations: each on each type, random and
 * border values, against plain C (atomic_ref.h); and which there are.
 */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_ref.h"
#include "core/atomic_ops.h"
#include "unit/table.h"

#define COUNT 64

static const enum bl_rma_what kinds[] = {BL_RMA_ATOMIC, BL_RMA_FETCH, BL_RMA_COMPARE};

static void which_there_are(void **state)
{
	for (unsigned kind = 0; kind < 3; kind++)
		for (unsigned type = 0; type < BL_ATOMIC_TYPES; type++)
			for (unsigned op = 0; op < BL_ATOMIC_OPS; op++)
				assert_int_equal(bl_atomic_valid(kinds[kind], type, op),
						 ref_valid(kind, type, op));
	assert_false(bl_atomic_valid(BL_RMA_ATOMIC, BL_ATOMIC_TYPES, BL_ATOMIC_OP_SUM));
	assert_false(bl_atomic_valid(BL_RMA_ATOMIC, BL_INT8, BL_ATOMIC_OPS));
	assert_false(bl_atomic_valid(BL_RMA_READ, BL_INT8, BL_ATOMIC_OP_SUM));
	assert_int_equal(bl_atomic_size(BL_ATOMIC_TYPES), 0);
}

static void whole_elements(void **state)
{
	assert_true(bl_atomic_fits(BL_RMA_ATOMIC, BL_DOUBLE, BL_ATOMIC_OP_SUM, 0));
	assert_true(bl_atomic_fits(BL_RMA_ATOMIC, BL_DOUBLE, BL_ATOMIC_OP_SUM, 24));
	assert_false(bl_atomic_fits(BL_RMA_ATOMIC, BL_DOUBLE, BL_ATOMIC_OP_SUM, 12));
}

/* Random, then the least and the greatest, all ones and 0, each with each. */
static void fill(unsigned type, unsigned char *at, uint64_t *seed, unsigned column)
{
	size_t size = ref_size(type);

	for (unsigned i = 0; i < COUNT; i++) {
		unsigned char *p = at + i * size;
		unsigned border = i / (column ? 4 : 1) % 4;

		if (i >= 16 || !ref_is_integer(type)) {
			ref_random(type, p, table_random(seed), table_random(seed));
			continue;
		}
		memset(p, border == 1 ? 0xff : 0, size);
		if (border == 2)
			p[size - 1] = 0x80; /* the least, little-endian */
		if (border == 3)
			p[0] = 1;
	}
}

static void against_plain_c(void **state)
{
	static alignas(64) unsigned char to[COUNT * 32], from[COUNT * 32], with[COUNT * 32];
	static unsigned char want[COUNT * 32];
	uint64_t seed = 11;

	for (unsigned type = 0; type < BL_ATOMIC_TYPES; type++)
		for (unsigned op = 0; op < BL_ATOMIC_OPS; op++) {
			unsigned kind = ref_valid(2, type, op) ? 2 : 1;
			size_t size = ref_size(type);

			assert_int_equal(bl_atomic_size(type), size);
			if (!ref_valid(kind, type, op))
				continue;
			fill(type, to, &seed, 0);
			fill(type, from, &seed, 1);
			fill(type, with, &seed, 0);
			for (unsigned i = 0; i < COUNT; i += 2) /* some compare equal */
				memcpy(with + i * size, to + i * size, size);
			memcpy(want, to, sizeof want);
			ref_apply(type, op, want, from, with, COUNT);
			bl_atomic_apply(type, op, to, from, kind == 2 ? with : NULL, COUNT);
			if (!ref_same(type, to, want, COUNT))
				fail_msg("type %u, operation %u", type, op);
		}
}

/* Each number of 16 bits with some of these and one at random: what rounds up, down and to even,
 * subnormal ones, infinities and what isn't a number. */
static void numbers_of_16_bits(void **state)
{
	static const unsigned ops[] = {BL_ATOMIC_OP_SUM, BL_ATOMIC_OP_DIFF, BL_ATOMIC_OP_PROD,
				       BL_ATOMIC_OP_MIN, BL_ATOMIC_OP_LXOR};
	static const uint16_t with[] = {0,	0x8000, 1,	0x8001, 0x3ff,	0x400,	0x1000,
					0x3555, 0x3c00, 0xbc01, 0x3f80, 0x7bff, 0x7c00, 0x7f7f,
					0x7f80, 0xff80, 0x7fff, 0xfc00, 0x0080, 0x8100};
	enum { BORDERS = sizeof with / sizeof with[0] };
	uint64_t seed = 7;

	for (unsigned type = BL_FLOAT16; type <= BL_BFLOAT16; type++)
		for (uint32_t code = 0; code < 0x10000; code++)
			for (unsigned i = 0; i < 6; i++) {
				uint16_t f = i < 5 ? with[(code + 4 * i) % BORDERS]
						   : (uint16_t)table_random(&seed);
				uint16_t got = (uint16_t)code, want = got;
				unsigned op = ops[(code + i) % 5];

				bl_atomic_apply(type, op, &got, &f, NULL, 1);
				ref_one(type, op, &want, &f, &f);
				if (!ref_same(type, &got, &want, 1))
					fail_msg("type %u, operation %u, %#x and %#x: %#x, not %#x",
						 type, op, code, f, got, want);
			}
}

int main(void)
{
	TABLE_TEST(which_there_are);
	TABLE_TEST(whole_elements);
	TABLE_TEST(against_plain_c);
	TABLE_TEST(numbers_of_16_bits);
	return table_run("atomic");
}
