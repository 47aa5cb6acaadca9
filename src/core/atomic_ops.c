/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic_ops.c: what each atomic operation does to elements of each type: one
 * function per pair, in a table by the numbers of libfabric. No state; any thread.
 *
 * Integers wrap. Comparisons of the compare-and-swap family read "compared with OP
 * old value", as in libfabric's manual. Types without an order (complex) have no
 * minimum, and only those made of bits have bitwise operations.
 */
#include "core/atomic_ops.h"

#include <complex.h>

#include "core/half.h"

typedef void apply(void *to, const void *from, const void *compare, size_t count);

typedef float _Complex float_complex;
typedef double _Complex double_complex;
typedef long double long_double;
typedef long double _Complex long_double_complex;
__extension__ typedef __int128 int128_t;
__extension__ typedef unsigned __int128 uint128_t;

/* t: the old value; f: the operand; c: what it is compared with. */
#define EACH(name, type, statement)                                                                \
	static void name(void *to, const void *from, const void *compare, size_t count)            \
	{                                                                                          \
		type *t = to;                                                                      \
		const type *f = from, *c = compare;                                                \
                                                                                                   \
		(void)c;                                                                           \
		for (; count; count--, t++, f++, c = c ? c + 1 : c)                                \
			statement;                                                                 \
	}

#define ANY_TYPE(type)                                                                             \
	EACH(lor_##type, type, *t = *t || *f)                                                      \
	EACH(land_##type, type, *t = *t && *f)                                                     \
	EACH(lxor_##type, type, *t = !*t != !*f)                                                   \
	EACH(write_##type, type, *t = *f)                                                          \
	EACH(cswap_##type, type, if (*c == *t) *t = *f)                                            \
	EACH(cswap_ne_##type, type, if (*c != *t) *t = *f)

#define ORDERED(type)                                                                              \
	EACH(min_##type, type, if (*t > *f) *t = *f)                                               \
	EACH(max_##type, type, if (*t < *f) *t = *f)                                               \
	EACH(cswap_le_##type, type, if (*c <= *t) *t = *f)                                         \
	EACH(cswap_lt_##type, type, if (*c < *t) *t = *f)                                          \
	EACH(cswap_ge_##type, type, if (*c >= *t) *t = *f)                                         \
	EACH(cswap_gt_##type, type, if (*c > *t) *t = *f)

#define BITS(type)                                                                                 \
	EACH(sum_##type, type, __builtin_add_overflow(*t, *f, t))                                  \
	EACH(diff_##type, type, __builtin_sub_overflow(*t, *f, t))                                 \
	EACH(prod_##type, type, __builtin_mul_overflow(*t, *f, t))                                 \
	EACH(bor_##type, type, *t |= *f)                                                           \
	EACH(band_##type, type, *t &= *f)                                                          \
	EACH(bxor_##type, type, *t ^= *f)                                                          \
	EACH(mswap_##type, type, *t = (type)((*f & *c) | (*t & ~*c)))

#define FLOATING(type)                                                                             \
	EACH(sum_##type, type, *t += *f)                                                           \
	EACH(diff_##type, type, *t -= *f)                                                          \
	EACH(prod_##type, type, *t *= *f)

#define INTEGER(type) ANY_TYPE(type) ORDERED(type) BITS(type)
#define REAL(type)    ANY_TYPE(type) ORDERED(type) FLOATING(type)
#define COMPLEX(type) ANY_TYPE(type) FLOATING(type)

INTEGER(int8_t)
INTEGER(uint8_t)
INTEGER(int16_t)
INTEGER(uint16_t)
INTEGER(int32_t)
INTEGER(uint32_t)
INTEGER(int64_t)
INTEGER(uint64_t)
INTEGER(int128_t)
INTEGER(uint128_t)
REAL(float)
REAL(double)
REAL(long_double)
COMPLEX(float_complex)
COMPLEX(double_complex)
COMPLEX(long_double_complex)

/* Of 16 bits: T, F, C are the values of *t, *f, *c. */
#define EACH16(name, type, statement)                                                              \
	static void name##_##type(void *to, const void *from, const void *compare, size_t count)   \
	{                                                                                          \
		const uint16_t *f = from, *c = compare;                                            \
		uint16_t *t = to;                                                                  \
                                                                                                   \
		for (; count; count--, t++, f++, c = c ? c + 1 : c) {                              \
			float T = bl_from_##type(*t), F = bl_from_##type(*f);                      \
			float C = c ? bl_from_##type(*c) : 0;                                      \
                                                                                                   \
			(void)T, (void)F, (void)C;                                                 \
			statement;                                                                 \
		}                                                                                  \
	}

#define REAL16(type)                                                                               \
	EACH16(min, type, if (T > F) *t = *f)                                                      \
	EACH16(max, type, if (T < F) *t = *f)                                                      \
	EACH16(sum, type, *t = bl_to_##type(T + F))                                                \
	EACH16(diff, type, *t = bl_to_##type(T - F))                                               \
	EACH16(prod, type, *t = bl_to_##type(T * F))                                               \
	EACH16(lor, type, *t = bl_to_##type(T || F))                                               \
	EACH16(land, type, *t = bl_to_##type(T && F))                                              \
	EACH16(lxor, type, *t = bl_to_##type(!T != !F))                                            \
	EACH16(write, type, *t = *f)                                                               \
	EACH16(cswap, type, if (C == T) *t = *f)                                                   \
	EACH16(cswap_ne, type, if (C != T) *t = *f)                                                \
	EACH16(cswap_le, type, if (C <= T) *t = *f)                                                \
	EACH16(cswap_lt, type, if (C < T) *t = *f)                                                 \
	EACH16(cswap_ge, type, if (C >= T) *t = *f)                                                \
	EACH16(cswap_gt, type, if (C > T) *t = *f)

REAL16(float16)
REAL16(bfloat16)

/* Nothing changes: the old values go back to the origin, that is all. */
static void keep(void *to, const void *from, const void *compare, size_t count)
{
}

#define ROW_ANY(type)                                                                              \
	[BL_ATOMIC_OP_SUM] = sum_##type, [BL_ATOMIC_OP_DIFF] = diff_##type,                        \
	[BL_ATOMIC_OP_PROD] = prod_##type, [BL_ATOMIC_OP_LOR] = lor_##type,                        \
	[BL_ATOMIC_OP_LAND] = land_##type, [BL_ATOMIC_OP_LXOR] = lxor_##type,                      \
	[BL_ATOMIC_OP_READ] = keep, [BL_ATOMIC_OP_WRITE] = write_##type,                           \
	[BL_ATOMIC_OP_CSWAP] = cswap_##type, [BL_ATOMIC_OP_CSWAP_NE] = cswap_ne_##type
#define ROW_ORDERED(type)                                                                          \
	[BL_ATOMIC_OP_MIN] = min_##type, [BL_ATOMIC_OP_MAX] = max_##type,                          \
	[BL_ATOMIC_OP_CSWAP_LE] = cswap_le_##type, [BL_ATOMIC_OP_CSWAP_LT] = cswap_lt_##type,      \
	[BL_ATOMIC_OP_CSWAP_GE] = cswap_ge_##type, [BL_ATOMIC_OP_CSWAP_GT] = cswap_gt_##type
#define ROW_BITS(type)                                                                             \
	[BL_ATOMIC_OP_BOR] = bor_##type, [BL_ATOMIC_OP_BAND] = band_##type,                        \
	[BL_ATOMIC_OP_BXOR] = bxor_##type, [BL_ATOMIC_OP_MSWAP] = mswap_##type

#define ROW_INTEGER(type)                                                                          \
	{                                                                                          \
		ROW_ANY(type), ROW_ORDERED(type), ROW_BITS(type)                                   \
	}
#define ROW_REAL(type)                                                                             \
	{                                                                                          \
		ROW_ANY(type), ROW_ORDERED(type)                                                   \
	}
#define ROW_COMPLEX(type)                                                                          \
	{                                                                                          \
		ROW_ANY(type)                                                                      \
	}

static apply *const table[BL_ATOMIC_TYPES][BL_ATOMIC_OPS] = {
	[BL_INT8] = ROW_INTEGER(int8_t),
	[BL_UINT8] = ROW_INTEGER(uint8_t),
	[BL_INT16] = ROW_INTEGER(int16_t),
	[BL_UINT16] = ROW_INTEGER(uint16_t),
	[BL_INT32] = ROW_INTEGER(int32_t),
	[BL_UINT32] = ROW_INTEGER(uint32_t),
	[BL_INT64] = ROW_INTEGER(int64_t),
	[BL_UINT64] = ROW_INTEGER(uint64_t),
	[BL_FLOAT] = ROW_REAL(float),
	[BL_DOUBLE] = ROW_REAL(double),
	[BL_FLOAT_COMPLEX] = ROW_COMPLEX(float_complex),
	[BL_DOUBLE_COMPLEX] = ROW_COMPLEX(double_complex),
	[BL_LONG_DOUBLE] = ROW_REAL(long_double),
	[BL_LONG_DOUBLE_COMPLEX] = ROW_COMPLEX(long_double_complex),
	[BL_INT128] = ROW_INTEGER(int128_t),
	[BL_UINT128] = ROW_INTEGER(uint128_t),
	[BL_FLOAT16] = ROW_REAL(float16),
	[BL_BFLOAT16] = ROW_REAL(bfloat16),
};

static const uint8_t size_of[BL_ATOMIC_TYPES] = {
	[BL_INT8] = 1,
	[BL_UINT8] = 1,
	[BL_INT16] = 2,
	[BL_UINT16] = 2,
	[BL_INT32] = 4,
	[BL_UINT32] = 4,
	[BL_INT64] = 8,
	[BL_UINT64] = 8,
	[BL_FLOAT] = sizeof(float),
	[BL_DOUBLE] = sizeof(double),
	[BL_FLOAT_COMPLEX] = sizeof(float_complex),
	[BL_DOUBLE_COMPLEX] = sizeof(double_complex),
	[BL_LONG_DOUBLE] = sizeof(long_double),
	[BL_LONG_DOUBLE_COMPLEX] = sizeof(long_double_complex),
	[BL_INT128] = 16,
	[BL_UINT128] = 16,
	[BL_FLOAT16] = 2,
	[BL_BFLOAT16] = 2,
};

size_t bl_atomic_size(unsigned type)
{
	return type < BL_ATOMIC_TYPES ? size_of[type] : 0;
}

static bool compares(unsigned op)
{
	return op >= BL_ATOMIC_OP_CSWAP && op <= BL_ATOMIC_OP_MSWAP;
}

bool bl_atomic_valid(enum bl_rma_what what, unsigned type, unsigned op)
{
	if (type >= BL_ATOMIC_TYPES || op >= BL_ATOMIC_OPS || !table[type][op])
		return false;
	switch (what) {
	case BL_RMA_ATOMIC:
		return op != BL_ATOMIC_OP_READ && !compares(op);
	case BL_RMA_FETCH:
		return !compares(op);
	case BL_RMA_COMPARE:
		return compares(op);
	default:
		return false;
	}
}

bool bl_atomic_fits(enum bl_rma_what what, unsigned type, unsigned op, size_t len)
{
	return bl_atomic_valid(what, type, op) && len % size_of[type] == 0;
}

void bl_atomic_apply(unsigned type, unsigned op, void *to, const void *from, const void *compare,
		     size_t count)
{
	table[type][op](to, from, compare, count);
}
