/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * recv.h: between recv.c, which posts receives and matches them, and peek.c, which looks
 * at what has come before its receive. Serialised by the domain.
 */
#ifndef BL_CORE_RECV_H
#define BL_CORE_RECV_H

#include "core/large.h"

/* --- recv.c ------------------------------------------------------------- */

/* A receive that is in no queue yet, with a copy of what recv says; NULL: no memory. */
struct bl_post *bl_post_make(struct bl_ep *ep, const struct bl_recv *recv, struct bl_peer *src);
void bl_post_release(struct bl_ep *ep, struct bl_post *post);

/* The first early message that a receive takes, or the link to NULL. */
struct bl_unex **bl_unex_find(struct bl_unex_queue *early, const struct bl_post *post, bool tagged);
/* It goes into a receive that isn't in a queue. False: not now, no memory. */
bool bl_unex_give(struct bl_sink *sink, struct bl_unex *u, struct bl_post *post, bool tagged,
		  bool *spent);
/* ep: which it came to. */
void bl_unex_free(struct bl_ep *ep, struct bl_unex *u);

/* A receive, or a look, ends without a message. counts: its owner hasn't taken it back,
 * nor only asked. */
void bl_recv_refuse(struct bl_ep *ep, struct bl_sink *sink, struct bl_work *work, void *context,
		    uint64_t flags, uint64_t tag, int error, bool counts);
/* Who waits for one process is connected to it, so that its death is noticed. 0, or why
 * nothing will ever come from it. index: its place in the vector. */
int bl_recv_reach(struct bl_ep *ep, struct bl_peer *src, uint64_t index);

/* --- peek.c: bl_recv() with these flags ----------------------------------- */

int bl_peek(struct bl_ep *ep, const struct bl_recv *recv, struct bl_peer *src, bool tagged);
int bl_claim(struct bl_ep *ep, const struct bl_recv *recv, bool tagged);

#endif
