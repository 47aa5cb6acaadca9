/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomics_page.h: a page that a process shares with those neighbours of its endpoints that may
 * write all of its memory anyway (prove_access.c): the lock of that memory, which whoever
 * changes it by an atomic operation holds, its own process too.
 *
 * The lock is one word: 0, or the token of the process that holds it. A token is a
 * random number, and a socket in the abstract namespace is named by it for as long
 * as its process lives: so a waiter can tell, with no right and no PID, whether the
 * holder has died, and takes the lock over. What the dead had begun stays as it was:
 * each element is old or new, or, if it is longer than the machine's word, both.
 *
 * Who is at it for long looks now and then whether somebody else wants it, and lets
 * him have his turn.
 *
 * Nobody waits in here for longer than a few yields; the caller comes again. A
 * holder that is stopped keeps others out until it goes on.
 *
 * Any thread enters; the page of this process is made with its first endpoint and
 * is gone with its last.
 */
#ifndef BL_TRANSPORT_LOCAL_LINK_ATOMICS_PAGE_H
#define BL_TRANSPORT_LOCAL_LINK_ATOMICS_PAGE_H

#include <assert.h>

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

/* One endpoint more, one less, of this process. 0 or -errno, logged. */
int bl_atomics_page_get(void);
void bl_atomics_page_put(void);
/* This process's page and its descriptor, while it has an endpoint. */
struct bl_atomics_page *bl_atomics_page_own(void);
int bl_atomics_page_fd(void);
/* Where this process's secret lies, for who may read its memory; 0: there is none. */
uint64_t bl_atomics_page_secret_at(void);
bool bl_atomics_page_is_secret(uint64_t word);
/* In a forked child, which has no endpoint and none of the mappings. */
void bl_atomics_page_orphan(void);

/* A neighbour's page; NULL: it has none that can be used. */
struct bl_atomics_page *bl_atomics_page_map(int fd);
void bl_atomics_page_unmap(struct bl_atomics_page *atomics_page);

/* 0, or -EAGAIN: somebody has it. -EOPNOTSUPP: this process can't hold locks (no
 * descriptor is left for its token). */
int bl_atomics_page_lock(struct bl_atomics_page *atomics_page, struct bl_atomics_page_wait *wait);
void bl_atomics_page_unlock(struct bl_atomics_page *atomics_page);
/* In the middle of something long: if others want the lock let them have it, and take
 * it again. 0, or -EAGAIN: one of them has it now, and we haven't. */
int bl_atomics_page_share(struct bl_atomics_page *atomics_page, struct bl_atomics_page_wait *wait);

#endif
