/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * retry.h: an operation that can't even be queued (txq.h), for want of memory or since too many
 * injected bytes are, is refused with -EAGAIN, and its user tries again. Any thread.
 */
#ifndef BL_CORE_RETRY_H
#define BL_CORE_RETRY_H

#include <errno.h>
#include "base/compiler.h"

/* Refuse it: this thread's next bl_wait_try() says no, so that it tries again before it sleeps.
 * wait.c */
bl_cold int bl_again(void);

#endif
