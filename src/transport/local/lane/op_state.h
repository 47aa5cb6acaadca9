/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * op_state.h: what an endpoint has under way by rendezvous (op.h).
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_OP_STATE_H
#define BL_TRANSPORT_LOCAL_LANE_OP_STATE_H

#include <stdint.h>

struct bl_recv_op;
struct bl_send_op;

/* Rendezvous: the operations of both sides. */
struct bl_rndv {
	struct bl_recv_op **transfer; /* being copied */
	uint32_t ntransfer, room_transfer;
	struct bl_send_op **request; /* all in use, by index; see op.c */
	uint32_t nrequest, requests;
	struct bl_send_op **serving; /* helped with or streamed */
	uint32_t nserving, room_serving;
	struct bl_send_op *free_send_op;
	struct bl_recv_op *free_recv_op;
};

#endif
