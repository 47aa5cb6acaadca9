// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Since 6.2: FOLL_INTERRUPTIBLE. */
#include <linux/mm.h>

unsigned int bl_probe(void);
unsigned int bl_probe(void)
{
	return FOLL_INTERRUPTIBLE;
}
