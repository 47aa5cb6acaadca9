/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * proxy_state.h: what an endpoint knows of messages that the other end may
 * match or copy (proxy.h).
 */
#ifndef BL_TRANSPORT_LOCAL_WAYS_PROXY_STATE_H
#define BL_TRANSPORT_LOCAL_WAYS_PROXY_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct bl_proxy;

/* Messages that we copy for their receiver. */
struct bl_proxy_state {
	struct bl_proxy *claims; /* proxy_post.h */
	uint32_t nclaimed;	 /* claimed messages that are still being copied */
	bool posting;		 /* in a call that posts a receive that is shown: rndv_rx.c */
	bool unpublished;	 /* a receive could not be shown to its senders */
};

struct bl_send_op;

/* Requests that their receiver hasn't answered. */
struct bl_pending_sends {
	uint32_t neager_long;		 /* requests of messages that lie in the ring */
	uint32_t nopen;			 /* requests whose RTS may not have been taken, */
	TAILQ_HEAD(, bl_send_op) opened; /* valid if there are any */
	uint64_t next_claim;		 /* ticks */
};

#endif
