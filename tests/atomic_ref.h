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

#define REF_TYPES 16u
#define REF_OPS	  19u

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
	REF_MSWAP
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
					       16};

	return size[type];
}

static inline bool ref_is_complex(unsigned type)
{
	return type == 10 || type == 11 || type == 13;
}

static inline bool ref_is_integer(unsigned type)
{
	return type < 8 || type > 13;
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
		return op >= REF_CSWAP;
	return op < REF_CSWAP && (kind == 1 || op != REF_READ);
}

/* A function of sixteen types and nineteen operations takes the compiler a minute
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
