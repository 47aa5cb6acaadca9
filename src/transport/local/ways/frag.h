/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * frag.h: between rndv_rx.c and frag.c, which has the parts of a message that go through the ring
 * after a refusal. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_WAYS_FRAG_H
#define BL_TRANSPORT_LOCAL_WAYS_FRAG_H

#include "transport/local/ways/rndv.h"

/* It has shown itself in the library in the last microseconds: full rings empty soon. */
bool bl_gives_room(const struct bl_peer *peer);
/* We copy so many bytes by ourselves, into or out of the ring: in the library, though neighbours
 * hear nothing, and no absence. */
bl_noinline uint64_t bl_long_copy_begins(struct bl_ep *ep, size_t len);
bl_noinline void bl_long_copy_ends(struct bl_ep *ep, uint64_t began);
#define BL_LONG_COPY 32768u /* bytes: it may take what would be an absence */

static inline uint64_t bl_copy_begins(struct bl_ep *ep, size_t len)
{
	return likely(len < BL_LONG_COPY) ? 0 : bl_long_copy_begins(ep, len);
}

static inline void bl_copy_ends(struct bl_ep *ep, uint64_t began)
{
	if (unlikely(began))
		bl_long_copy_ends(ep, began);
}

/* It waits in the library now, or has left it for no longer than to use so many bytes, and isn't
 * used to leave it after large messages. */
bool bl_waits_here(const struct bl_peer *peer, size_t uses);

/* --- frag.c ------------------------------------------------------------- */

/* Sender: one step of what was asked for; false: nothing is left of it. */
bool bl_frag_serve(struct bl_ep *ep, struct bl_send_op *r);

/* It hasn't said for 10 us that it is in the library, or reads messages of a few pages. */
bool bl_is_gone(const struct bl_peer *peer);
/* Who waits in the library loses its core now and then: that it hasn't been seen says nothing. */
bool bl_shares_core(const struct bl_ep *ep);

/* About to copy something that isn't long. */
void bl_copies_are_no_absence(struct bl_ep *ep);

/* --- rndv_rx.c -------------------------------------------------------------- */

/* The number that names it to its receiver. */
static inline uint64_t bl_send_op_number(const struct bl_send_op *r)
{
	return (uint64_t)r->generation << 32 | r->index;
}
/* The request has something to do in each pass. */
void bl_rndv_serve(struct bl_ep *ep, struct bl_send_op *r);
/* The transfer of this number from the peer, or NULL. */
struct bl_recv_op *bl_recv_op_find(struct bl_ep *ep, const struct bl_peer *peer, uint64_t number);
/* --- endpoint.c ------------------------------------------------------------------ */

/* The caller computes between two reads that bring nothing. */
bool bl_reads_are_rare(const struct bl_ep *ep, uint64_t now);

#endif
