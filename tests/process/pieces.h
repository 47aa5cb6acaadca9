/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pieces.h: one message in several buffers, each between guards of its own; for iov.c and
 * scattered.c.
 */
#ifndef BL_TESTS_PROCESS_PIECES_H
#define BL_TESTS_PROCESS_PIECES_H

#include "cases.h"

#define IOV 8

/* Cuts len bytes into n pieces, some empty, and lays them out with gaps. */
static inline void pieces_cut(struct t_rng *rng, size_t len, size_t n, struct iovec *iov,
			      struct t_buf *b)
{
	size_t left = len;

	for (size_t i = 0; i < n; i++) {
		size_t piece = i == n - 1 ? left : t_rand_below(rng, left / (n - i) * 2 + 1);

		if (piece > left)
			piece = left;
		left -= piece;
		b[i] = t_buf(piece, t_rand(rng) & 63);
		iov[i] = (struct iovec){b[i].p, piece};
	}
}

static inline void pieces_fill(const struct iovec *iov, size_t n, uint64_t seed)
{
	size_t offset = 0;

	for (size_t i = 0; i < n; i++) {
		t_fill(iov[i].iov_base, iov[i].iov_len, seed, offset);
		offset += iov[i].iov_len;
	}
}

/* The first len bytes are there, the rest is untouched. */
static inline void pieces_check(const struct t_buf *b, size_t n, size_t len, uint64_t seed)
{
	size_t offset = 0;

	for (size_t i = 0; i < n; i++) {
		size_t here = len - offset < b[i].len ? len - offset : b[i].len;

		T_SAME(b[i].p, here, seed, offset);
		for (size_t k = here; k < b[i].len; k++)
			T_CHECK(b[i].p[k] == T_BLANK, "piece %zu was written beyond the message",
				i);
		offset += here;
	}
	T_EQ(offset, len);
}

static inline void pieces_free(struct t_buf *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		t_buf_free(&b[i]);
}

#endif
