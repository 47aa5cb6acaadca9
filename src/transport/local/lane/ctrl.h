/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ctrl.h: packets that the ways of a message send each other: at once, or when there is room.
 * Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_CTRL_H
#define BL_TRANSPORT_LOCAL_LANE_CTRL_H

#include "core/ep.h"

/* Put a packet that fits a slot into the peer's ring, which has room. */
void bl_put_packet(struct bl_peer *peer, uint32_t op, uint32_t flags, uint64_t tag, uint64_t data,
		   const void *bytes, size_t len);

/* Send a control packet, now or when there is room. */
void bl_control(struct bl_ep *ep, struct bl_peer *peer, uint8_t op, uint64_t tag, uint64_t data,
		const void *bytes, size_t len);

void bl_control_flush(struct bl_ep *ep);

/* For this one there are none any more. */
void bl_control_paid(struct bl_ep *ep);

void bl_control_flush_peer(struct bl_ep *ep, struct bl_peer *peer);

#endif
