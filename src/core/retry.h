/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * retry.h: an operation that can't even be queued (txq.h), for want of memory or since too many
 * injected bytes are, is refused with -EAGAIN, and its user tries again. Any thread.
 */
#ifndef BL_CORE_RETRY_H
#define BL_CORE_RETRY_H

#include <errno.h>
#include <stdbool.h>

#include "base/compiler.h"

struct bl_ep;

/* Refuse it: this thread's next bl_wait_try() says no, so that it tries again before it sleeps. */
bl_cold int bl_again(void);
/* This thread has been refused something since it was last asked. */
bool bl_was_refused(void);

/* There is no memory for it: as bl_again(), but an error once all that was begun has been refused
 * so for a second, or else a limit that isn't raised (ulimit -v) would have its user try again for
 * ever. The domain's. */
bl_cold int bl_no_memory(struct bl_ep *ep);

#endif
