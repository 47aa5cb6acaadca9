/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * move.c: buffers in several pieces; see move.h.
 */
#include "copy/move.h"

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
