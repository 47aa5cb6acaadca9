/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What differs between kernel versions, and only that.
 *
 * The module is written for the newest kernel. probe.sh compiles each snippet of probes/
 * against the kernel at hand and writes BL_HAVE_<NAME> into config.h for those that compile;
 * no version number is compared, as distributions backport.
 */
#ifndef BL_COMPAT_H
#define BL_COMPAT_H

#include <linux/mm.h>

#include "config.h"

/* 6.5 took the array of VMAs, which nobody read, out of these two. */
static inline long bl_compat_get_remote(struct mm_struct *mm, unsigned long addr, unsigned long n,
					unsigned int flags, struct page **pages, int *locked)
{
#ifdef BL_HAVE_GUP_WITHOUT_VMAS
	return get_user_pages_remote(mm, addr, n, flags, pages, locked);
#else
	return get_user_pages_remote(mm, addr, n, flags, pages, NULL, locked);
#endif
}

static inline long bl_compat_pin_remote(struct mm_struct *mm, unsigned long addr, unsigned long n,
					unsigned int flags, struct page **pages, int *locked)
{
#ifdef BL_HAVE_GUP_WITHOUT_VMAS
	return pin_user_pages_remote(mm, addr, n, flags, pages, locked);
#else
	return pin_user_pages_remote(mm, addr, n, flags, pages, NULL, locked);
#endif
}

/* 6.2 lets any signal, not only a fatal one, end the wait for a page. */
#ifdef BL_HAVE_FOLL_INTERRUPTIBLE
#define BL_COMPAT_INTERRUPTIBLE FOLL_INTERRUPTIBLE
#else
#define BL_COMPAT_INTERRUPTIBLE 0
#endif

#endif
