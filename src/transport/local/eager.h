/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * eager.h: a short message into a neighbour's ring.
 */
#ifndef BL_TRANSPORT_LOCAL_EAGER_H
#define BL_TRANSPORT_LOCAL_EAGER_H

#include "transport/local/adapt/demote.h"
#include "transport/local/lane/op.h"

/* One message longer than a slot, as one packet through the payload; `head`: of its length, its
 * operation and flags. send.c */
bl_noinline int bl_put_long(struct bl_ep *ep, struct bl_peer *peer, const void *buf, uint32_t head,
			    uint64_t tag, uint64_t data);

#endif
