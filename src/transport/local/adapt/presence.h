/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * presence.h: which receivers were in the library lately.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_PRESENCE_H
#define BL_TRANSPORT_LOCAL_ADAPT_PRESENCE_H

#include <stdint.h>

struct bl_peer;

/* Who was in the library lately. */
struct bl_last_seen {
	const struct bl_peer *peer; /* a receiver that was in the library, until then; send.c */
	uint64_t until;
};

#endif
