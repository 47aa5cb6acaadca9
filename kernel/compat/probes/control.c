// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Compiles on every kernel: without it the absence of the others would say nothing. */
#include <linux/mm.h>
#include <linux/module.h>

int bl_probe(void);
int bl_probe(void)
{
	return THIS_MODULE ? FOLL_WRITE : 0;
}
