/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* thread.h: what threads of ours need. Any thread. */
#ifndef BL_BASE_THREAD_H
#define BL_BASE_THREAD_H

#include <stddef.h>

/*
 * Bytes of stack for a thread of ours: 256 KiB for itself, and as much as the program and its
 * libraries have for each thread (thread-local arrays, Fortran's threadprivate COMMON blocks),
 * which the C library takes out of the stack.
 */
size_t bl_thread_stack(void);

#endif
