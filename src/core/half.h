/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * half.h: the floating-point types of 16 bits, for atomic_ops.c: IEEE 754's binary16, and
 * bfloat16, the upper half of a float. They are computed with as floats, which have more than
 * twice their bits, so that what a sum or a product is rounded to is what it would have been
 * rounded to at once. To nearest, ties to even; a result that is too large is an infinity.
 */
#ifndef BL_CORE_HALF_H
#define BL_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bl_float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

static inline uint32_t bl_bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return bits;
}

#define BL_HALF_INF 0x7c00u

static inline float bl_from_float16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;

	if (rest >= BL_HALF_INF)
		return bl_float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	if (rest < 0x400) /* subnormal, which floats of this size aren't */
		return bl_float_of(sign | bl_bits_of((float)rest * 0x1p-24f));
	return bl_float_of(sign | ((rest << 13) + (112u << 23)));
}

static inline uint16_t bl_to_float16(float f)
{
	uint32_t bits = bl_bits_of(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;

	if (rest > 0x7f800000)
		return (uint16_t)(sign | BL_HALF_INF | 0x200);
	if (rest >= 0x477ff000) /* 65520, half a step beyond the largest */
		return (uint16_t)(sign | BL_HALF_INF);
	if (rest <
	    0x38800000) /* subnormal: steps of 2^-24, which are those of floats from 0.5 on */
		return (uint16_t)(sign | (bl_bits_of(bl_float_of(rest) + 0.5f) - 0x3f000000));
	rest -= 112u << 23;
	return (uint16_t)(sign | (rest + 0xfff + (rest >> 13 & 1)) >> 13);
}

static inline float bl_from_bfloat16(uint16_t h)
{
	return bl_float_of((uint32_t)h << 16);
}

static inline uint16_t bl_to_bfloat16(float f)
{
	uint32_t bits = bl_bits_of(f);

	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
