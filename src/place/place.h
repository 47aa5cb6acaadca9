/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * place.h: memory on the right NUMA node. A segment is bound to the node of
 * the thread that owns it and then touched, so that its pages lie where the
 * sender writes them ("sender-owned" packets; the NUMA-aware MPICH study).
 * No state; any thread.
 */
#ifndef BL_PLACE_PLACE_H
#define BL_PLACE_PLACE_H

#include <stddef.h>

/* The NUMA node that the calling thread runs on now; 0 where there is one only. */
int bl_place_node(void);

/* Bytes of a core's second-level cache; 0: not known. */
size_t bl_place_cache(void);

/* New pages of [addr, addr+len), page aligned, come from `node` if it has some, whoever
 * touches or reserves them; node < 0: as the kernel likes. Advice: it can't fail. */
void bl_place_prefer(void *addr, size_t len, int node);

/* Pages of [addr, addr+len), page aligned, from `node` if it has some. -ENOMEM: the kernel has
 * none; -EOPNOTSUPP: it gives pages only to those who touch them (before Linux 5.14). */
int bl_place_more(void *addr, size_t len, int node);

/*
 * Prefer `node` for the pages of [addr, addr+len), page aligned, and touch them
 * all. A machine without NUMA, or a kernel that refuses the policy, is no error:
 * the pages are touched all the same. -ENOMEM when the kernel has no pages.
 * node < 0: touch only.
 */
int bl_place_populate(void *addr, size_t len, int node);

#endif
