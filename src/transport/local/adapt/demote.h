/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * demote.h: whether the lines of what is sent are demoted to the cache that all cores share
 * (bl_demote_line()).
 *
 * A CLDEMOTE is on its way for a while, and a locked instruction waits for it as for a store. In a
 * ping-pong that costs nothing: nobody has anything to do but wait for the answer. But a library
 * that locks in each call (MPI_THREAD_MULTIPLE, FI_THREAD_SAFE) sends its next message so much
 * later, which is more than the receiver gains (docs/notes/short.md).
 *
 * Our own lock is known of. For others', one send in 64 is a sample: the time from there until the
 * next one, demoted and not. Pairs of samples decide, of sends that follow each other soon, with no
 * completion read in between. A hint: wrong, it costs that time, or what the receiver would have
 * gained. Where there is no CLDEMOTE the two are alike. Only messages are sampled; packets of
 * rendezvous and of one-sided operations are always demoted. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_DEMOTE_H
#define BL_TRANSPORT_LOCAL_ADAPT_DEMOTE_H

#include "transport/local/lane/ring.h"

/* What the short path asks about its stores. */
struct bl_demoting {
	bool locks;   /* a locked instruction follows each send; demote.h */
	bool sampled; /* the time until the next send is taken */
};

#define BL_DEMOTE_PAIRS 8u	/* of samples say something; */
#define BL_DEMOTE_MOST	6u	/* a lock, if so many of them took longer, */
#define BL_DEMOTE_LEAST 2u	/* none, if at most so many did; else nothing */
#define BL_DEMOTE_ORDER 0xd22du /* bit i: the first one of pair i is passed on, not the second */
#define BL_DEMOTE_REST                                                                             \
	15u /* what could be samples is left out after each pair, once one is sure                 \
	     */

struct bl_demote {
	uint64_t began;	  /* ticks: the sample was sent */
	uint64_t reads;	  /* what the queues had seen by then */
	uint32_t took[2]; /* ns, of this pair: not passed on, passed on; 0: not yet */
	bool with;	  /* the sample was passed on */
	bool sure;	  /* what was said the last time is what is believed */
	uint8_t pairs, slower;
	uint8_t rest; /* so many are left out */
};

struct bl_ep;

/* demote.c; its tests decide by them what seems to wait, and to have been something else. */
extern int32_t bl_demote_wait_ns;
extern uint32_t bl_demote_long_ns;

/* The packet that has just been published may be a sample: no two places in a row are the same
 * modulo 64, for windows are of 64 messages. */
bl_always_inline bool bl_demote_due(const struct bl_tx *tx)
{
	static_assert(BL_SLOTS == 1 << 6, "the place, and the lap above it");

	return !((tx->next ^ tx->next >> 6) & (BL_SLOTS - 1));
}

/*
 * Is the next one passed on? Of half of the pairs the first one is, in an order that no pattern of
 * up to eight samples has for long: who does something else after every second send, or sends to
 * four neighbours in turn, is not taken for one that locks.
 */
static inline bool bl_demote_with(const struct bl_demote *pass)
{
	return pass->took[0] || pass->took[1] ? !pass->took[1]
					      : BL_DEMOTE_ORDER >> pass->pairs % 16 & 1;
}

/* A sample took so many ns: what that says of *locks. Once it is sure, only two in a row change it.
 */
void bl_demote_judge(struct bl_demote *pass, uint32_t ns, bool *locks);

/* That packet; passes it on, or not. */
bl_noinline void bl_demote_sample(struct bl_ep *ep, const struct bl_tx *tx,
				  const struct bl_slot *slot, size_t len, bool stream);
/* The next one is about to be sent: ep->sampled. */
bl_noinline void bl_demote_next(struct bl_ep *ep);

#endif
