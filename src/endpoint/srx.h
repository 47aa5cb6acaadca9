/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * srx.h: a shared receive context: receives that are posted once and take what
 * comes to any of several endpoints, its members.
 *
 *   lane of member A ─┐                         ┌─► completion in A's queue
 *   lane of member A ─┤  posted and unexpected  │
 *   lane of member B ─┴─► queues of the context ┴─► completion in B's queue
 *
 * A context is a struct bl_ep without an address: it has the queues and their
 * memory, its members have the neighbours. bl_ep.home of each member points to it;
 * that of any other endpoint to itself. A member's own queues are always empty, so
 * that what comes to it misses the quick path (bl_deliver), which knows nothing of
 * contexts, and is matched by recv.c in the queues of its home.
 *
 * Each member knows a neighbour by a struct bl_peer of its own. The context has one
 * more for each address that a receive was posted for, never connected: the name
 * by which bl_match() knows the source (bl_peer.name). Which address that is, the
 * members' vector says; before one of them is enabled there is none, and a receive's
 * source is only a place in it. Then something stands in for the name (it is no
 * endpoint's peer, and no message comes from it), until the first member is enabled.
 *
 * Large receives are published to senders (proxy.h), each to one neighbour of one member.
 * Serialised by the domain.
 */
#ifndef BL_ENDPOINT_SRX_H
#define BL_ENDPOINT_SRX_H

#include "endpoint/api.h"

/* The source at this place of a vector that isn't known yet. 0 or -ENOMEM. */
bl_cold int bl_srx_expect(struct bl_ep *home, uint64_t index, struct bl_peer **peer);
/* A receive from the source at this index was posted: be connected to it, so that
 * its death is noticed. 0, or why nothing will ever come from it. */
int bl_srx_connect(struct bl_ep *home, uint64_t src);
/* A member is enabled: the same for what was posted before. */
void bl_srx_enabled(struct bl_ep *ep);
/* Take what has come to the members from this source, before its receives fail. */
void bl_srx_drain(struct bl_ep *home, const struct bl_peer *name);
void bl_srx_progress(struct bl_ep *home);
/* A member closes: nothing of it is left in its home. */
void bl_srx_leave(struct bl_ep *ep);

#endif
