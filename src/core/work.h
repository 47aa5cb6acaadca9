/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * work.h: what deferred work looks like to who ends it. Serialised by the domain.
 */
#ifndef BL_CORE_WORK_H
#define BL_CORE_WORK_H

struct bl_work; /* trigger.h; it begins with: */
struct bl_work_end {
	void (*over)(struct bl_work *work, int err);
};

/* A deferred operation has ended (a positive errno); it is no more on return. */
static inline void bl_work_over(struct bl_work *work, int err)
{
	((struct bl_work_end *)(void *)work)->over(work, err);
}

#endif
