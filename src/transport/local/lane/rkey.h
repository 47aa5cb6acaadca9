/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rkey.h: how a message's buffers are described to the peer, with the rkeys by which they are
 * registered where a pair needs the module (copy/kmod.h). A send op and a recv op each hold what
 * they have registered and the peer's rkeys. What is registered is deregistered before the buffer
 * is its application's again. Serialised by the domain; what a peer wrote is read once, into
 * private memory.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_RKEY_H
#define BL_TRANSPORT_LOCAL_LANE_RKEY_H

#include "core/ep.h"

/* Keys, one for each piece of a description; n 0: the buffers are not lent. */
struct bl_rkeys {
	uint32_t n;
	struct bl_rkey key[BL_RKEYS];
};

static inline const struct bl_rkey *bl_rkeys_of(const struct bl_rkeys *rkeys)
{
	return rkeys->n ? rkeys->key : NULL;
}

/* Lend our pieces to this peer, if that pair copies by the module. True: they are lent. */
static inline bool bl_rkeys_register(struct bl_rkeys *rkeys, const struct bl_copy_pair *pair,
				     const struct iovec *iov, uint32_t n, bool write)
{
	if (unlikely(pair->needs_rkeys && !rkeys->n && bl_kmod_register(iov, n, write, rkeys->key)))
		rkeys->n = n;
	return rkeys->n;
}

static inline void bl_rkeys_deregister(struct bl_rkeys *rkeys)
{
	if (unlikely(rkeys->n))
		bl_kmod_deregister(rkeys->key, rkeys->n);
	rkeys->n = 0;
}

/* Write our pieces and their keys into a packet; returns the bytes used. */
static inline size_t bl_describe(struct bl_piece *piece, const struct iovec *iov, uint32_t n,
				 const struct bl_rkeys *rkeys)
{
	for (uint32_t i = 0; i < n; i++)
		piece[i] = (struct bl_piece){(uintptr_t)iov[i].iov_base, iov[i].iov_len};
	if (unlikely(rkeys->n))
		memcpy(piece + n, rkeys->key, n * sizeof rkeys->key[0]);
	return (n + rkeys->n) * sizeof *piece;
}

/* Read what a peer described, out of `bytes` bytes of a packet; false: it makes no
 * sense. What the pieces add up to is the caller's to check. */
static inline bool bl_described(const void *packet, size_t bytes, bool rkeys, struct iovec *iov,
				uint32_t *count, struct bl_rkeys *keys)
{
	struct bl_piece piece[BL_PLACES];
	size_t n = bytes / sizeof piece[0];

	keys->n = 0;
	if (bytes % sizeof piece[0] || n > BL_PLACES || (rkeys && n % 2))
		return false;
	memcpy(piece, packet, bytes);
	if (rkeys) {
		n /= 2;
		keys->n = (uint32_t)n;
		memcpy(keys->key, piece + n, n * sizeof piece[0]);
	} else if (n > BL_IOV_MAX) {
		return false;
	}
	for (size_t i = 0; i < n; i++)
		iov[i] = (struct iovec){(void *)(uintptr_t)piece[i].base, piece[i].len};
	*count = (uint32_t)n;
	return true;
}

#endif
