/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomics_lock.h: the lock that whoever changes a process's memory by an atomic operation holds,
 * that process too.
 *
 * It is one word: 0, or the token of the process that holds it. A token is a
 * random number, and a socket in the abstract namespace is named by it for as long
 * as its process lives: so a waiter can tell, with no right and no PID, whether the
 * holder has died, and takes the lock over. What the dead had begun stays as it was:
 * each element is old or new, or, if it is longer than the machine's word, both.
 *
 * Who is at it for long looks now and then whether somebody else wants it, and lets
 * him have his turn.
 *
 * Nobody waits in here for longer than a few yields; the caller comes again. A
 * holder that is stopped keeps others out until it goes on. Any thread enters.
 */
#ifndef BL_CORE_ATOMICS_LOCK_H
#define BL_CORE_ATOMICS_LOCK_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define BL_ATOMICS_PAGE_MAGIC	0x6d6f6342u
#define BL_ATOMICS_PAGE_VERSION 1
#define BL_ATOMICS_PAGE_SIZE	4096u

struct bl_atomics_page {
	uint32_t magic;
	uint32_t version;
	uint8_t pad0[BL_LINE - 8];
	_Atomic uint64_t holder;
	_Atomic uint32_t wanted; /* somebody has met the lock held; a hint */
	uint8_t pad1[BL_LINE - 12];
	uint8_t unused[BL_ATOMICS_PAGE_SIZE - 2 * BL_LINE];
};
static_assert(sizeof(struct bl_atomics_page) == BL_ATOMICS_PAGE_SIZE, "shared layout");
static_assert(offsetof(struct bl_atomics_page, holder) == BL_LINE, "shared layout");

/* What a waiter remembers between its attempts. */
struct bl_atomics_page_wait {
	uint64_t seen;	/* the holder */
	uint64_t since; /* ns */
};

/* 0, or -EAGAIN: somebody has it. -EOPNOTSUPP: this process can't hold locks (no
 * descriptor is left for its token). */
int bl_atomics_page_lock(struct bl_atomics_page *atomics_page, struct bl_atomics_page_wait *wait);
void bl_atomics_page_unlock(struct bl_atomics_page *atomics_page);
/* In the middle of something long: if others want the lock let them have it, and take
 * it again. 0, or -EAGAIN: one of them has it now, and we haven't. */
int bl_atomics_page_share(struct bl_atomics_page *atomics_page, struct bl_atomics_page_wait *wait);

/* This process's token is no more: its last endpoint is closed; or it is a forked child. */
void bl_atomics_token_forget(void);
void bl_atomics_token_orphan(void);

#endif
