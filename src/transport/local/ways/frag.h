/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * frag.h: between rndv_rx.c and frag.c, which has the parts of a message that go through the ring
 * after a refusal. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_WAYS_FRAG_H
#define BL_TRANSPORT_LOCAL_WAYS_FRAG_H

#include "transport/local/adapt/habit.h"
#include "transport/local/lane/ack.h"
#include "transport/local/lane/ctrl.h"
#include "transport/local/lane/op.h"

/* Sender: one step of what was asked for; false: nothing is left of it. */
bool bl_frag_serve(struct bl_ep *ep, struct bl_send_op *r);

void bl_on_frag_ask(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
		    const void *bytes, uint32_t len);

void bl_on_frag(struct bl_ep *ep, struct bl_peer *peer, uint64_t tag, uint64_t data,
		const void *bytes, uint32_t len);

#endif
