/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * used.h: whether an endpoint's user uses what it receives (dirty.h).
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_USED_H
#define BL_TRANSPORT_LOCAL_ADAPT_USED_H

#include <stdint.h>

/* Whether received messages are used before the next send. */
struct bl_used {
	uint64_t got_at; /* ticks: the end of a large message whose use is to be seen; or 0 */
	uint32_t use_ns; /* that this takes at least */
	uint8_t in_row;	 /* such messages in a row that were used; dirty.h */
};

#endif
