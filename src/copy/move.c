/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * move.c: buffers in several pieces, and copies past the caches; see move.h.
 */
#include "copy/move.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <emmintrin.h>

void bl_move_past(void *dst, const void *src, size_t n)
{
	size_t head = bl_min(-(uintptr_t)dst % BL_LINE, n);
	char *to = (char *)dst + head;
	const char *from = (const char *)src + head;

	memcpy(dst, src, head);
	for (n -= head; n >= BL_LINE; n -= BL_LINE, to += BL_LINE, from += BL_LINE) {
		const __m128i *in = (const __m128i *)from;
		__m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
		__m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);

		_mm_stream_si128((__m128i *)to, a);
		_mm_stream_si128((__m128i *)to + 1, b);
		_mm_stream_si128((__m128i *)to + 2, c);
		_mm_stream_si128((__m128i *)to + 3, d);
	}
	if (n) { /* a part of a line would wait for the rest of it */
		_Alignas(16) char last[BL_LINE] = {0};

		memcpy(last, from, n);
		for (size_t i = 0; i < BL_LINE; i += 16)
			_mm_stream_si128((__m128i *)(to + i), *(const __m128i *)(last + i));
	}
	_mm_sfence(); /* these stores are in no order with others */
}
#else
void bl_move_past(void *dst, const void *src, size_t n)
{
	memcpy(dst, src, n);
}
#endif

#define AHEAD 1024 /* bytes: so long as a line takes to come from memory */

/* memcpy() leaves fetching ahead to the processor, which does it too late, or (rep movsb) not. */
void bl_move_far(void *dst, const void *src, size_t n)
{
	const char *from = src;
	size_t ahead = 0, at = 0, all = n;
	char *to = dst;

	for (; ahead < bl_min(all, (size_t)AHEAD); ahead += BL_LINE)
		bl_prefetch_read(from + ahead);
	for (; n >= BL_LINE; n -= BL_LINE, at += BL_LINE) {
		if (ahead < all)
			bl_prefetch_read(from + ahead);
		ahead += BL_LINE;
		memcpy(to + at, from + at, BL_LINE);
	}
	if (n)
		memcpy(to + at, from + at, n);
}

void bl_move_asking(void *dst, const void *src, size_t n, const void *ask, size_t size)
{
	const char *from = src, *next = ask, *end = next + size;
	char *to = dst;

	for (; n >= BL_LINE && next < end; n -= BL_LINE, to += BL_LINE, from += BL_LINE) {
		memcpy(to, from, BL_LINE);
		bl_prefetch_write(next);
		next += BL_LINE;
	}
	memcpy(to, from, n);
	for (; next < end; next += BL_LINE)
		bl_prefetch_write(next);
}

size_t bl_iov_len_checked(const struct iovec *iov, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		if (__builtin_add_overflow(len, iov[i].iov_len, &len))
			return SIZE_MAX;
	return len;
}

size_t bl_iov_slice(const struct iovec *iov, size_t n, size_t off, size_t len, struct iovec *out)
{
	size_t used = 0;

	for (size_t i = 0; i < n && len; i++) {
		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		size_t take = bl_min(iov[i].iov_len - off, len);

		/* A neighbour's address is a number here, no pointer to calculate with. */
		out[used].iov_base = (void *)((uintptr_t)iov[i].iov_base + off);
		out[used++].iov_len = take;
		len -= take;
		off = 0;
	}
	return used;
}

void bl_iov_skip(struct bl_iov_at *at, size_t len)
{
	for (at->off += len; at->n && at->off >= at->iov->iov_len; at->iov++, at->n--)
		at->off -= at->iov->iov_len;
}

size_t bl_iov_next(struct bl_iov_at at, size_t len, struct iovec *out, size_t most, size_t *bytes)
{
	size_t used = 0;

	*bytes = 0;
	for (; at.n && used < most && *bytes < len; at.iov++, at.n--, at.off = 0) {
		size_t take = bl_min(at.iov->iov_len - at.off, len - *bytes);

		if (!take)
			continue;
		out[used].iov_base = (void *)((uintptr_t)at.iov->iov_base + at.off);
		out[used++].iov_len = take;
		*bytes += take;
	}
	return used;
}

void bl_iov_put(struct bl_iov_at *at, const void *src, size_t len)
{
	const char *in = src;

	while (len && at->n) {
		size_t take = bl_min(at->iov->iov_len - at->off, len);

		bl_move((char *)at->iov->iov_base + at->off, in, take);
		in += take;
		len -= take;
		bl_iov_skip(at, take);
	}
}

size_t bl_iov_gather(void *dst, const struct iovec *iov, size_t n, size_t off, size_t len)
{
	char *out = dst;

	for (size_t i = 0; i < n && len; i++) {
		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		size_t take = bl_min(iov[i].iov_len - off, len);

		memcpy(out, (char *)iov[i].iov_base + off, take);
		out += take;
		len -= take;
		off = 0;
	}
	return (size_t)(out - (char *)dst);
}

size_t bl_iov_scatter(const struct iovec *iov, size_t n, size_t off, const void *src, size_t len)
{
	const char *in = src;

	for (size_t i = 0; i < n && len; i++) {
		if (off >= iov[i].iov_len) {
			off -= iov[i].iov_len;
			continue;
		}
		size_t take = bl_min(iov[i].iov_len - off, len);

		memcpy((char *)iov[i].iov_base + off, in, take);
		in += take;
		len -= take;
		off = 0;
	}
	return (size_t)(in - (const char *)src);
}
