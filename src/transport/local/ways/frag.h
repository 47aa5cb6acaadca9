/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * frag.h: between rndv_rx.c and frag.c, which has the parts of a large message that go
 * through the ring. Serialised by the domain.
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

#define BL_CARRY_MOST 64u /* chunks of a carried message */

/* --- frag.c ------------------------------------------------------------- */

/* Sender: one step of what was asked for; false: nothing is left of it. */
bool bl_frag_serve(struct bl_ep *ep, struct bl_send_op *r);

/* It hasn't said for 10 us that it is in the library, or reads messages of a few pages. */
bool bl_is_gone(const struct bl_peer *peer);
/* Who waits in the library loses its core now and then: that it hasn't been seen says nothing. */
bool bl_shares_core(const struct bl_ep *ep);

/* Receiver: have the sender carry the message; false: copy it once. */
bool bl_carry_begin(struct bl_ep *ep, struct bl_recv_op *t);
/* Receiver: a look at a carried message, which may find an error; true: all of it is there. */
bool bl_carry_step(struct bl_ep *ep, struct bl_recv_op *t);
/* Receiver: its caller may go away. If it is used to, what the sender hasn't begun with is
 * copied now, and the rest is in the ring. False: it isn't, nothing was done. */
bool bl_carry_finish(struct bl_ep *ep, struct bl_recv_op *t);
/* Sender: put in the ring what it has room for, or (waits) will have in a moment. */
enum bl_carry {
	BL_CARRY_ON,   /* there is more */
	BL_CARRY_OVER, /* all is in the ring, and the request has ended */
	BL_CARRY_NONE, /* nothing is left to do here: the end is the receiver's to tell */
};
/* Sender: what a receiver asks for in such a CTS is possible. */
static inline bool bl_carry_valid(const struct bl_cts *cts)
{
	return cts->len < BL_PROXY_MIN && cts->chunk <= BL_EAGER_MOST &&
	       (cts->len - 1) / cts->chunk < BL_CARRY_MOST;
}
enum bl_carry bl_carry_serve(struct bl_ep *ep, struct bl_sink *sink, struct bl_send_op *r,
			     bool waits);
/* Sender, about to announce the message: so many bytes of it follow at once; then they do; and
 * were they of use? */
uint32_t bl_ahead(struct bl_ep *ep, const struct bl_send_op *r);
void bl_ahead_send(struct bl_ep *ep, struct bl_send_op *r);
void bl_ahead_told(struct bl_send_op *r, bool of_use);
/* Receiver: a message has met its receive, and some of it follows. may_ask: for the rest. */
void bl_ahead_begin(struct bl_ep *ep, struct bl_recv_op *t, bool may_ask);
/* Receiver: some of that came before the receive. */
void bl_ahead_take(struct bl_ep *ep, struct bl_recv_op *t, const struct bl_kept *kept);
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
/* A step of ep->transfer[i]; true: it was over, and another may have its place. */
bool bl_recv_op_go_on(struct bl_ep *ep, struct bl_sink *sink, uint32_t i);
/* A coop descriptor for the transfer's chunks; false: all are in use. */
bool bl_recv_op_lease(struct bl_ep *ep, struct bl_recv_op *t);
/* Nobody takes a chunk from now on; those not taken are [*front, *end). */
void bl_recv_op_stop(struct bl_recv_op *t, uint32_t *front, uint32_t *end);
/* Copy a range from the sender: 0, or -EOPNOTSUPP: refused, and to be asked for; or another
 * error, which is the transfer's now. */
int bl_recv_op_pull(struct bl_ep *ep, struct bl_recv_op *t, size_t off, size_t len);
/* Ask the sender for chunks that we can't reach. */
void bl_recv_op_ask(struct bl_ep *ep, struct bl_recv_op *t, uint32_t chunk, uint32_t count);

/* --- endpoint.c ------------------------------------------------------------------ */

/* The caller computes between two reads that bring nothing. */
bool bl_reads_are_rare(const struct bl_ep *ep, uint64_t now);

#endif
