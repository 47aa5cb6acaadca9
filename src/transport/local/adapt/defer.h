/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * defer.h: see defer.c.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_DEFER_H
#define BL_TRANSPORT_LOCAL_ADAPT_DEFER_H

#include "transport/local/lane/op.h"

/* True: a message that came whole and has no receive stays in the ring for now, in at most so many
 * reads, rather than be kept. */
#define BL_LEFT_READS 4u

bool bl_defer(const struct bl_sink *sink, const struct bl_arrival *a);

#endif
