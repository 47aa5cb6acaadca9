/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * copybuf.h: the receiving side of COPYBUF: a message is copied out while it is still being
 * written; see copybuf_rx.c. Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_WAYS_COPYBUF_H
#define BL_TRANSPORT_LOCAL_WAYS_COPYBUF_H

#include "transport/local/lane/op.h"

/*
 * A message of len bytes that may still be being written is copied into `post` as it comes; NULL:
 * it is waited for. Its sender does nothing else meanwhile, but it may lose its core, or die.
 * False: it stays in the ring until all of it has been written, and takes no receive before; one
 * that has been written to is BL_POST_BEGUN.
 */
bl_noinline bool bl_take_streamed(struct bl_ep *ep, struct bl_rx *rx, const struct bl_slot *slot,
				  uint32_t len, struct bl_post *post, const uint8_t *bytes);

/* The receive has been written to by a message that is still to come, and so isn't cancelled: of
 * one that is, no part may have been altered (MPI 4.0, 3.8.4). Its message ends it, or its sender's
 * death. */
bool bl_post_is_begun(const struct bl_post *post, bool tagged);

#endif
