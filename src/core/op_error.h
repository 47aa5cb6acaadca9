/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * op_error.h: tells people of an operation that ended with an error: with whom it was, on what
 * way, and what to try. For errors that are decided here, not those that a neighbour tells
 * of; a neighbour's death is told of by itself (tell_of_death()). Any thread; owns nothing.
 */
#ifndef BL_CORE_OP_ERROR_H
#define BL_CORE_OP_ERROR_H

#include <stddef.h>

#include "base/compiler.h"

struct bl_peer;

/*
 * `what` and `way` as in "a message of 9 bytes from", "rendezvous". At level warn, but at
 * level info where the last one was the same error with the same neighbour; nothing of what
 * was cancelled, or of a neighbour that is gone.
 */
bl_cold void bl_tell_error(const struct bl_peer *peer, const char *what, size_t len,
			   const char *way, int err);

#endif
