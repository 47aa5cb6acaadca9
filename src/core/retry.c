/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* retry.c: see retry.h. */
#include "core/retry.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/ep.h"

#define POOR_NS	    1000000000u /* of refusals in a row, ... */
#define POOR_ROW_NS 200000000u	/* ... none of them later than that after the last one */

/* This thread has been refused something since it was last asked. */
static _Thread_local bool refused;

bl_cold int bl_again(void)
{
	refused = true;
	return -EAGAIN;
}

bool bl_was_refused(void)
{
	bool was = refused;

	refused = false;
	return was;
}

bl_cold int bl_no_memory(struct bl_ep *ep)
{
	uint64_t now = bl_clock_ns();

	if (now - ep->shortage.last > POOR_ROW_NS)
		ep->shortage.since = now;
	ep->shortage.last = now;
	if (now - ep->shortage.since < POOR_NS)
		return bl_again();
	bl_warn("no memory for what is to be begun, for a second: %s", bl_remedy(ENOMEM));
	ep->shortage.last = 0; /* whoever begins something again may wait again */
	return -ENOMEM;
}
