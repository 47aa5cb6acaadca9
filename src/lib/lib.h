/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lib.h: what stands behind the opaque structures of beeline.h. An endpoint owns
 * one of each of the core's objects, so that endpoints are independent, and a
 * pool of requests. All of it belongs to the one thread that is inside, which
 * the caller sees to, or the domain's lock when BEELINE_THREAD_SAFE was given.
 */
#ifndef BL_LIB_LIB_H
#define BL_LIB_LIB_H

#include "beeline.h"
#include "endpoint/api.h"

enum bl_send_op_state {
	BL_SEND_OP_FREE,    /* in the pool */
	BL_SEND_OP_SENDING, /* the core completes it */
	BL_SEND_OP_POSTED,  /* a receive; the core completes it */
	BL_SEND_OP_CLAIMED, /* a struct beeline_message */
	BL_SEND_OP_DONE,    /* its result is in it */
};

/* Also stands behind struct beeline_message, until that is received. */
struct beeline_request {
	struct beeline_endpoint *ep;
	struct beeline_request *next; /* in the pool */
	const void *buf;	      /* of a send */
	size_t length, sent;	      /* of its status; length: bytes to send */
	uint64_t tag;		      /* context << 32 | tag */
	int peer;
	int error;
	enum bl_send_op_state state;
	bool synchronous;
};

struct bl_send_op_slab;

struct beeline_endpoint {
	struct bl_ep *core;
	struct bl_cq *cq;
	struct beeline_request *pool;
	bool safe;
	int npeer;
	struct bl_domain *domain;
	struct bl_av *av;
	struct bl_send_op_slab *slabs;
};

static inline void bl_lib_enter(struct beeline_endpoint *ep)
{
	if (unlikely(ep->safe))
		bl_domain_lock(ep->domain);
}

static inline void bl_lib_leave(struct beeline_endpoint *ep)
{
	if (unlikely(ep->safe))
		bl_domain_unlock(ep->domain);
}

/* Fill the pool. False: no memory. */
bl_cold bool bl_lib_more_requests(struct beeline_endpoint *ep);

#endif
