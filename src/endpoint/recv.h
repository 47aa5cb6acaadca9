/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * recv.h: between recv.c, which posts receives, and probe.c, which looks at unexpected messages.
 * Serialised by the domain.
 */
#ifndef BL_ENDPOINT_RECV_H
#define BL_ENDPOINT_RECV_H

#include "core/post.h"
#include "endpoint/trigger.h"
#include "transport/local/ways/copybuf.h"
#include "transport/local/ways/rndv.h"

/* --- recv.c ------------------------------------------------------------- */

/* Who waits for one process is connected to it, so that its death is noticed. 0, or why
 * nothing will ever come from it. index: its place in the vector. */
int bl_recv_reach(struct bl_ep *ep, struct bl_peer *src, uint64_t index);

/* --- probe.c: bl_recv() with these flags ----------------------------------- */

int bl_probe(struct bl_ep *ep, const struct bl_recv *recv, struct bl_peer *src, bool tagged);
int bl_claim(struct bl_ep *ep, const struct bl_recv *recv, bool tagged);

#endif
