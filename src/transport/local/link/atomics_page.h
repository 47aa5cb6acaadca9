/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomics_page.h: a page that a process shares with those neighbours of its endpoints that may
 * write all of its memory anyway (prove_access.c): the lock of that memory (core/atomics_lock.h).
 *
 * Any thread enters; the page of this process is made with its first endpoint and
 * is gone with its last.
 */
#ifndef BL_TRANSPORT_LOCAL_LINK_ATOMICS_PAGE_H
#define BL_TRANSPORT_LOCAL_LINK_ATOMICS_PAGE_H

#include "core/atomics_lock.h"

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

#endif
