/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* thread.c: see thread.h. No state. */
#include "base/thread.h"

#include <link.h>

#include "base/compiler.h"

#define OUR_STACK (256u * 1024)

static int add_tls(struct dl_phdr_info *info, size_t size, void *sum)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

size_t bl_thread_stack(void)
{
	size_t sum = OUR_STACK;

	dl_iterate_phdr(add_tls, &sum);
	return bl_round_up(sum, (size_t)65536);
}
