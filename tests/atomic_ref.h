/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic_ref.h: for tests: what atomic operations on remote memory must do, one
 * element at a time and as plainly as C can say it, with the numbers of libfabric's
 * enum fi_datatype and enum fi_op. It shares nothing with the library's table.
 */
#ifndef BL_TESTS_ATOMIC_REF_H
#define BL_TESTS_ATOMIC_REF_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define REF_TYPES 18u
#define REF_OPS	  20u

enum {
	REF_MIN,
	REF_MAX,
	REF_SUM,
	REF_PROD,
	REF_LOR,
	REF_LAND,
	REF_BOR,
	REF_BAND,
	REF_LXOR,
	REF_BXOR,
	REF_READ,
	REF_WRITE,
	REF_CSWAP,
	REF_CSWAP_NE,
	REF_CSWAP_LE,
	REF_CSWAP_LT,
	REF_CSWAP_GE,
	REF_CSWAP_GT,
	REF_MSWAP,
	REF_DIFF
};

__extension__ typedef __int128 ref_i128;
__extension__ typedef unsigned __int128 ref_u128;

static inline size_t ref_size(unsigned type)
{
	static const size_t size[REF_TYPES] = {1,
					       1,
					       2,
					       2,
					       4,
					       4,
					       8,
					       8,
					       4,
					       8,
					       8,
					       16,
					       sizeof(long double),
					       sizeof(long double _Complex),
					       16,
					       16,
					       2,
					       2};

	return size[type];
}

static inline bool ref_is_complex(unsigned type)
{
	return type == 10 || type == 11 || type == 13;
}

static inline bool ref_is_integer(unsigned type)
{
	return type < 8 || type == 14 || type == 15;
}

/* kind: 0 plain, 1 with the old values, 2 with a comparison. */
static inline bool ref_valid(unsigned kind, unsigned type, unsigned op)
{
	bool ordered = op == REF_MIN || op == REF_MAX || (op >= REF_CSWAP_LE && op <= REF_CSWAP_GT);
	bool bits = op == REF_BOR || op == REF_BAND || op == REF_BXOR || op == REF_MSWAP;

	if (ordered && ref_is_complex(type))
		return false;
	if (bits && !ref_is_integer(type))
		return false;
	if (kind == 2)
		return op >= REF_CSWAP && op != REF_DIFF;
	return (op < REF_CSWAP || op == REF_DIFF) && (kind == 1 || op != REF_READ);
}

/* A function of eighteen types and twenty operations takes the compiler a minute
 * wherever it unfolds one of the two. */
#define REF_SMALL static __attribute__((noinline, unused))

/* Integers as unsigned, whose arithmetic wraps; their order by `is_less`. */
REF_SMALL ref_u128 ref_integer(unsigned op, ref_u128 t, ref_u128 f, ref_u128 c, bool f_less_t,
			       bool t_less_f, bool c_less_t, bool t_less_c)
{
	switch (op) {
	case REF_MIN:
		return f_less_t ? f : t;
	case REF_MAX:
		return t_less_f ? f : t;
	case REF_SUM:
		return t + f;
	case REF_DIFF:
		return t - f;
	case REF_PROD:
		return t * f;
	case REF_LOR:
		return t != 0 || f != 0;
	case REF_LAND:
		return t != 0 && f != 0;
	case REF_BOR:
		return t | f;
	case REF_BAND:
		return t & f;
	case REF_LXOR:
		return (t != 0) ^ (f != 0);
	case REF_BXOR:
		return t ^ f;
	case REF_READ:
		return t;
	case REF_WRITE:
		return f;
	case REF_CSWAP:
		return c == t ? f : t;
	case REF_CSWAP_NE:
		return c != t ? f : t;
	case REF_CSWAP_LE:
		return t_less_c ? t : f;
	case REF_CSWAP_LT:
		return c_less_t ? f : t;
	case REF_CSWAP_GE:
		return c_less_t ? t : f;
	case REF_CSWAP_GT:
		return t_less_c ? f : t;
	default: /* MSWAP */
		return (f & c) | (t & ~c);
	}
}

#define REF_INTEGER(type)                                                                          \
	{                                                                                          \
		type t_, f_, c_;                                                                   \
		memcpy(&t_, to, sizeof t_);                                                        \
		memcpy(&f_, from, sizeof f_);                                                      \
		memcpy(&c_, compare, sizeof c_);                                                   \
		t_ = (type)ref_integer(op, (ref_u128)t_, (ref_u128)f_, (ref_u128)c_, f_ < t_,      \
				       t_ < f_, c_ < t_, t_ < c_);                                 \
		memcpy(to, &t_, sizeof t_);                                                        \
		break;                                                                             \
	}

#define REF_COMMON(t, f, c)                                                                        \
	case REF_SUM:                                                                              \
		t = t + f;                                                                         \
		break;                                                                             \
	case REF_DIFF:                                                                             \
		t = t - f;                                                                         \
		break;                                                                             \
	case REF_PROD:                                                                             \
		t = t * f;                                                                         \
		break;                                                                             \
	case REF_LOR:                                                                              \
		t = t != 0 || f != 0 ? 1 : 0;                                                      \
		break;                                                                             \
	case REF_LAND:                                                                             \
		t = t != 0 && f != 0 ? 1 : 0;                                                      \
		break;                                                                             \
	case REF_LXOR:                                                                             \
		t = (t != 0) != (f != 0) ? 1 : 0;                                                  \
		break;                                                                             \
	case REF_WRITE:                                                                            \
		t = f;                                                                             \
		break;                                                                             \
	case REF_CSWAP:                                                                            \
		t = c == t ? f : t;                                                                \
		break;                                                                             \
	case REF_CSWAP_NE:                                                                         \
		t = c != t ? f : t;                                                                \
		break

#define REF_REAL(type)                                                                             \
	{                                                                                          \
		type t_, f_, c_;                                                                   \
		memcpy(&t_, to, sizeof t_);                                                        \
		memcpy(&f_, from, sizeof f_);                                                      \
		memcpy(&c_, compare, sizeof c_);                                                   \
		switch (op) {                                                                      \
			REF_COMMON(t_, f_, c_);                                                    \
		case REF_MIN:                                                                      \
			t_ = f_ < t_ ? f_ : t_;                                                    \
			break;                                                                     \
		case REF_MAX:                                                                      \
			t_ = f_ > t_ ? f_ : t_;                                                    \
			break;                                                                     \
		case REF_CSWAP_LE:                                                                 \
			t_ = c_ <= t_ ? f_ : t_;                                                   \
			break;                                                                     \
		case REF_CSWAP_LT:                                                                 \
			t_ = c_ < t_ ? f_ : t_;                                                    \
			break;                                                                     \
		case REF_CSWAP_GE:                                                                 \
			t_ = c_ >= t_ ? f_ : t_;                                                   \
			break;                                                                     \
		case REF_CSWAP_GT:                                                                 \
			t_ = c_ > t_ ? f_ : t_;                                                    \
			break;                                                                     \
		default:                                                                           \
			break;                                                                     \
		}                                                                                  \
		memcpy(to, &t_, sizeof t_);                                                        \
		break;                                                                             \
	}

#define REF_COMPLEX(type)                                                                          \
	{                                                                                          \
		type t_, f_, c_;                                                                   \
		memcpy(&t_, to, sizeof t_);                                                        \
		memcpy(&f_, from, sizeof f_);                                                      \
		memcpy(&c_, compare, sizeof c_);                                                   \
		switch (op) {                                                                      \
			REF_COMMON(t_, f_, c_);                                                    \
		default:                                                                           \
			break;                                                                     \
		}                                                                                  \
		memcpy(to, &t_, sizeof t_);                                                        \
		break;                                                                             \
	}

/* A float of 16 bits, `fraction` of them behind the point: what it is; of an infinity what would be
 * next. NaN: 0, see ref_is_nan16. */
static inline double ref_from16(unsigned fraction, uint16_t code)
{
	int exponents = 1 << (15 - fraction), exponent = (code & 0x7fff) >> fraction;
	double value = (code & ((1u << fraction) - 1)) + (exponent ? (double)(1u << fraction) : 0);

	for (int e = exponent ? exponent : 1; e > exponents / 2 - 1 + (int)fraction; e--)
		value *= 2;
	for (int e = exponent ? exponent : 1; e < exponents / 2 - 1 + (int)fraction; e++)
		value /= 2;
	return code & 0x8000 ? -value : value;
}

static inline uint16_t ref_inf16(unsigned fraction)
{
	return (uint16_t)(((1u << (15 - fraction)) - 1) << fraction);
}

static inline bool ref_is_nan16(unsigned fraction, uint16_t code)
{
	return (code & 0x7fff) > ref_inf16(fraction);
}

/* The nearest one, of two the one whose last bit is 0. */
static inline uint16_t ref_to16(unsigned fraction, double x, bool negative)
{
	uint16_t low = 0, high = ref_inf16(fraction), sign = negative ? 0x8000 : 0;
	double size = x < 0 ? -x : x, below, above;

	if (size >= ref_from16(fraction, high))
		return sign | high;
	while (high - low > 1) {
		uint16_t middle = (uint16_t)((low + high) / 2);

		if (ref_from16(fraction, middle) <= size)
			low = middle;
		else
			high = middle;
	}
	below = size - ref_from16(fraction, low);
	above = ref_from16(fraction, high) - size;
	return sign | (below < above || (below == above && !(low & 1)) ? low : high);
}

/* As a double, infinities and what isn't a number too. */
static inline double ref_value16(unsigned fraction, uint16_t code)
{
	if (ref_is_nan16(fraction, code))
		return __builtin_nan("");
	if ((code & 0x7fff) == ref_inf16(fraction))
		return code & 0x8000 ? -__builtin_inf() : __builtin_inf();
	return ref_from16(fraction, code);
}

REF_SMALL void ref_real16(unsigned fraction, unsigned op, void *to, const void *from,
			  const void *compare)
{
	uint16_t code[3];
	double t, f, c, result;

	memcpy(&code[0], to, 2);
	memcpy(&code[1], from, 2);
	memcpy(&code[2], compare, 2);
	t = ref_value16(fraction, code[0]);
	f = ref_value16(fraction, code[1]);
	c = ref_value16(fraction, code[2]);
	switch (op) {
	case REF_SUM:
		result = t + f;
		break;
	case REF_DIFF:
		result = t - f;
		break;
	case REF_PROD:
		result = t * f;
		break;
	case REF_LOR:
		result = t != 0 || f != 0;
		break;
	case REF_LAND:
		result = t != 0 && f != 0;
		break;
	case REF_LXOR:
		result = (t != 0) != (f != 0);
		break;
	default: /* the operand, or nothing */
		if (op == REF_WRITE || (op == REF_MIN && f < t) || (op == REF_MAX && f > t) ||
		    (op == REF_CSWAP && c == t) || (op == REF_CSWAP_NE && c != t) ||
		    (op == REF_CSWAP_LE && c <= t) || (op == REF_CSWAP_LT && c < t) ||
		    (op == REF_CSWAP_GE && c >= t) || (op == REF_CSWAP_GT && c > t))
			memcpy(to, from, 2);
		return;
	}
	code[0] = result != result ? 0x7fff : ref_to16(fraction, result, __builtin_signbit(result));
	memcpy(to, code, 2);
}

REF_SMALL void ref_one(unsigned type, unsigned op, void *to, const void *from, const void *compare)
{
	switch (type) {
	case 0:
		REF_INTEGER(int8_t)
	case 1:
		REF_INTEGER(uint8_t)
	case 2:
		REF_INTEGER(int16_t)
	case 3:
		REF_INTEGER(uint16_t)
	case 4:
		REF_INTEGER(int32_t)
	case 5:
		REF_INTEGER(uint32_t)
	case 6:
		REF_INTEGER(int64_t)
	case 7:
		REF_INTEGER(uint64_t)
	case 8:
		REF_REAL(float)
	case 9:
		REF_REAL(double)
	case 10:
		REF_COMPLEX(float _Complex)
	case 11:
		REF_COMPLEX(double _Complex)
	case 12:
		REF_REAL(long double)
	case 13:
		REF_COMPLEX(long double _Complex)
	case 14:
		REF_INTEGER(ref_i128)
	case 16:
		ref_real16(10, op, to, from, compare);
		break;
	case 17:
		ref_real16(7, op, to, from, compare);
		break;
	default:
		REF_INTEGER(ref_u128)
	}
}

static inline void ref_apply(unsigned type, unsigned op, void *to, const void *from,
			     const void *compare, size_t count)
{
	size_t size = ref_size(type);

	for (size_t i = 0; i < count; i++)
		ref_one(type, op, (char *)to + i * size, (const char *)from + i * size,
			(const char *)compare + i * size);
}

/* An element of two random numbers; a quarter are 0, for the logical operations. */
static inline void ref_random(unsigned type, void *at, uint64_t a, uint64_t b)
{
	double x = (double)(int64_t)a / 1e15, y = (double)(int64_t)b / 1e15;
	ref_u128 bits = (ref_u128)a << 64 | b;
	float f[2] = {(float)x, (float)y};
	double d[2] = {x, y};
	long double l[2] = {0};

	if (a % 4 == 0) {
		memset(at, 0, ref_size(type));
		return;
	}
	l[0] = x; /* their padding is 0 */
	l[1] = y;
	switch (type) {
	case 8:
	case 10:
		memcpy(at, f, ref_size(type));
		break;
	case 9:
	case 11:
		memcpy(at, d, ref_size(type));
		break;
	case 12:
	case 13:
		memset(at, 0, ref_size(type));
		memcpy(at, l, ref_size(type));
		break;
	default:
		memcpy(at, &bits, ref_size(type));
	}
}

/* By value where elements have bytes that mean nothing. */
static inline bool ref_same(unsigned type, const void *x, const void *y, size_t count)
{
	size_t n = type == 12 ? count : 2 * count;

	for (size_t i = 0; type >= 16 && i < count; i++) {
		unsigned fraction = type == 16 ? 10 : 7;
		uint16_t a, b;

		memcpy(&a, (const char *)x + 2 * i, 2);
		memcpy(&b, (const char *)y + 2 * i, 2);
		if (a != b && !(ref_is_nan16(fraction, a) && ref_is_nan16(fraction, b)))
			return false;
	}
	if (type >= 16)
		return true;
	if (type != 12 && type != 13)
		return !memcmp(x, y, count * ref_size(type));
	for (size_t i = 0; i < n; i++) {
		long double a, b;

		memcpy(&a, (const char *)x + i * sizeof a, sizeof a);
		memcpy(&b, (const char *)y + i * sizeof b, sizeof b);
		if (a != b && (a == a || b == b))
			return false;
	}
	return true;
}

#endif
