/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ack.h: how a receiver says that a message is over; see ack.c. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_ACK_H
#define BL_TRANSPORT_LOCAL_LANE_ACK_H

#include "core/ep.h"

/* Say that a message is over, now and without waiting for room, if that can be; ack.c. `status`:
 * FIN's data. */
void bl_ack(struct bl_ep *ep, struct bl_peer *peer, uint64_t request, uint64_t status);

/* The peer has received as many of our messages, and we haven't taken note of it yet. */
uint32_t bl_acks_in_sight(const struct bl_peer *peer);

#endif
