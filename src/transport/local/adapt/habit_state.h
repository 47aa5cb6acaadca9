/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * habit_state.h: what an endpoint has learnt of its user (habit.h).
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_HABIT_STATE_H
#define BL_TRANSPORT_LOCAL_ADAPT_HABIT_STATE_H

#include <stdint.h>

/* Whether its user computes while messages are under way. */
struct bl_habit {
	uint8_t leaves;	     /* > 0: its user goes away after a large send or receive */
	uint8_t publishes;   /* so many more receives below BL_PROXY_MIN are shown */
	uint8_t unclaimed;   /* of those, since one was claimed */
	uint8_t leaves_amid; /* > 0: or with another message, while we copy */
	uint64_t left_at;    /* ticks: the end of such a call; 0: it has come back */
	uint64_t brought_at; /* ticks: the end of a read that brought one so; or 0 */
};

#endif
