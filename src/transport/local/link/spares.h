/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * spares.h: connecting takes descriptors for a moment; some are kept aside for each
 * direction, so that a process that has used up its own can still be connected, one
 * neighbour at a time. All of it is under service.lock.
 */
#ifndef BL_TRANSPORT_LOCAL_LINK_SPARES_H
#define BL_TRANSPORT_LOCAL_LINK_SPARES_H

#include "base/compiler.h"

#define BL_SPARES 5 /* the socket, and the memory that comes over it */

/* Descriptors that hold a place. */
struct bl_spares {
	int fd[BL_SPARES];
	bool spent; /* an exchange lives in their place */
};
extern struct bl_spares bl_calling, bl_answering;
extern bool bl_spares_tight; /* memory has come and there was no descriptor for it; for good */

/* Copies of fd. False: some are missing. */
bool bl_spares_fill(int fd);
void bl_spares_close_all(void);
/* A hello is about to be read: where memory found no room before, make some. */
void bl_memlimit_reclaim(struct bl_spares *spares);
/* `err` says that descriptors ran out: give up those aside. True: try again now. */
bool bl_spares_spend(struct bl_spares *spares, int err);
/* Descriptors have run out, the process's or the machine's. */
bool bl_is_short(int err);

#endif
