// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Since 6.5: get_user_pages_remote() and pin_user_pages_remote() return no VMAs. */
#include <linux/mm.h>

long bl_probe(struct mm_struct *mm, struct page **pages, int *locked);
long bl_probe(struct mm_struct *mm, struct page **pages, int *locked)
{
	return get_user_pages_remote(mm, 0, 1, 0, pages, locked) +
	       pin_user_pages_remote(mm, 0, 1, 0, pages, locked);
}
