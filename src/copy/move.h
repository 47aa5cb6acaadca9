/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * move.h: copies inside one address space, and buffers in several pieces.
 * No state; the caller owns all memory; any thread.
 */
#ifndef BL_COPY_MOVE_H
#define BL_COPY_MOVE_H

#include <string.h>
#include <sys/uio.h>

#include "base/compiler.h"

struct bl_chunk16 {
	uint64_t a, b;
};

#define BL_MOVE(type, dst, src)                                                                    \
	do {                                                                                       \
		type bl_v_;                                                                        \
		__builtin_memcpy(&bl_v_, src, sizeof bl_v_);                                       \
		__builtin_memcpy(dst, &bl_v_, sizeof bl_v_);                                       \
	} while (0)

/*
 * Copy n bytes, any n, fastest for the short. Overlapping loads and stores of
 * constant size: the compiler makes each a single move, there is no loop and no
 * call up to 64 bytes. The buffers don't overlap.
 */
bl_always_inline void bl_move(void *dst, const void *src, size_t n)
{
	char *d = (char *)dst;
	const char *s = (const char *)src;

	if (n > 256) {
		memcpy(d, s, n);
	} else if (n > 64) {
		struct bl_chunk16 a, b;
		size_t i = 0;

		do {
			memcpy(&a, s + i, 16);
			memcpy(&b, s + i + 16, 16);
			memcpy(d + i, &a, 16);
			memcpy(d + i + 16, &b, 16);
			i += 32;
		} while (i + 32 <= n);
		memcpy(&a, s + n - 32, 16);
		memcpy(&b, s + n - 16, 16);
		memcpy(d + n - 32, &a, 16);
		memcpy(d + n - 16, &b, 16);
	} else if (n > 32) {
		struct bl_chunk16 a, b, c, e;

		memcpy(&a, s, 16);
		memcpy(&b, s + 16, 16);
		memcpy(&c, s + n - 32, 16);
		memcpy(&e, s + n - 16, 16);
		memcpy(d, &a, 16);
		memcpy(d + 16, &b, 16);
		memcpy(d + n - 32, &c, 16);
		memcpy(d + n - 16, &e, 16);
	} else if (n > 16) {
		struct bl_chunk16 a, b;

		memcpy(&a, s, 16);
		memcpy(&b, s + n - 16, 16);
		memcpy(d, &a, 16);
		memcpy(d + n - 16, &b, 16);
	} else if (n >= 8) {
		uint64_t a, b;

		memcpy(&a, s, 8);
		memcpy(&b, s + n - 8, 8);
		memcpy(d, &a, 8);
		memcpy(d + n - 8, &b, 8);
	} else if (n >= 4) {
		uint32_t a, b;

		memcpy(&a, s, 4);
		memcpy(&b, s + n - 4, 4);
		memcpy(d, &a, 4);
		memcpy(d + n - 4, &b, 4);
	} else if (n) {
		char a = s[0], b = s[n >> 1], c = s[n - 1];

		d[0] = a;
		d[n >> 1] = b;
		d[n - 1] = c;
	}
}

/*
 * Copy n bytes to memory that this core isn't going to read, past its caches, where the machine
 * has such stores; whoever sees what is stored next sees them. The last line, where they end in its
 * middle, is all of it the caller's, and what is behind them there is lost. The buffers don't
 * overlap.
 */
void bl_move_past(void *dst, const void *src, size_t n);

/* Copy n bytes that lie in no near cache, in the order in which they lie. The buffers don't
 * overlap. */
void bl_move_far(void *dst, const void *src, size_t n);

/*
 * Copy n bytes that another core has written, and ask meanwhile for `size` bytes at `ask`, which it
 * has read, to be written next: a line for each, so that neither waits for the other. The buffers
 * don't overlap; nothing at `ask` is touched.
 */
void bl_move_asking(void *dst, const void *src, size_t n, const void *ask, size_t size);

/* Bytes in all pieces. */
static inline size_t bl_iov_len(const struct iovec *iov, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

/* Bytes in all pieces, or SIZE_MAX where the sum overflows. For pieces that a
 * neighbour described. */
size_t bl_iov_len_checked(const struct iovec *iov, size_t n);

/*
 * Describe bytes [off, off+len) of `iov` in `out` (room for n pieces); returns
 * the pieces used. The range lies inside iov, or the result is shorter.
 */
size_t bl_iov_slice(const struct iovec *iov, size_t n, size_t off, size_t len, struct iovec *out);

/* A place in a list of pieces. */
struct bl_iov_at {
	const struct iovec *iov;
	size_t n;   /* pieces that are left, the one it is in included */
	size_t off; /* in that */
};

/* So many bytes further. */
void bl_iov_skip(struct bl_iov_at *at, size_t len);
/* Describe the next len bytes in `out`, as far as `most` pieces do; *bytes: how many those are.
 * Returns the pieces used. */
size_t bl_iov_next(struct bl_iov_at at, size_t len, struct iovec *out, size_t most, size_t *bytes);

/* Copy len bytes there, and go on behind them. */
void bl_iov_put(struct bl_iov_at *at, const void *src, size_t len);

/* Copy len bytes between a contiguous buffer and iov at off; returns the bytes
 * copied, fewer where iov ends. */
size_t bl_iov_gather(void *dst, const struct iovec *iov, size_t n, size_t off, size_t len);
size_t bl_iov_scatter(const struct iovec *iov, size_t n, size_t off, const void *src, size_t len);

#endif
