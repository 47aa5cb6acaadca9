/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hold.c: see hold.h.
 */
#include "core/hold.h"

#include <string.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "core/core.h"

#define PACKETS	  (BL_SLOTS + 2) /* of a block, at most: bl_pass_due() */
#define SIXTEENTH 16u

uint32_t bl_hold_slow_ns = 2000;

/* Of the time that a packet and its answer take. */
static const uint8_t sixteenths[BL_HOLD_PARTS] = {0, 4, 5, 6, 7};

/* A mean of the last few; one block that was interrupted says little. */
static void account(uint32_t *took, uint32_t now)
{
	uint64_t known = *took, most = known + known / 4;

	*took = known ? (uint32_t)((3 * known + (now < most ? now : most)) / 4) : now;
}

/* The quickest, if it saves more than one part in 32; else none. */
static void choose(struct bl_hold *hold)
{
	uint32_t best = 0;

	for (uint32_t part = 1; part < BL_HOLD_PARTS; part++)
		if (hold->took[part] < hold->took[best])
			best = part;
	if ((uint64_t)hold->took[best] * 32 >= (uint64_t)hold->took[0] * 31)
		best = 0;
	hold->best = (uint8_t)best;
}

static void swept(struct bl_hold *hold)
{
	hold->at = 0;
	if (hold->sweeps < BL_HOLD_SWEEPS && ++hold->sweeps < BL_HOLD_SWEEPS)
		return;
	choose(hold);
	if (hold->best)
		hold->vain = 0;
	hold->rest = (uint16_t)(BL_HOLD_REST << hold->vain);
	if (!hold->best && hold->vain < BL_HOLD_RARELY)
		hold->vain++;
}

/* What is known is of something else by now: other messages, another core. */
static bool has_changed(struct bl_hold *hold, uint32_t took)
{
	uint64_t known = hold->took[hold->part];
	bool other = took > known + known / 4 || took < known - known / 5;

	hold->others = other ? hold->others + 1 : 0;
	return hold->others > BL_HOLD_OTHERS;
}

static void begin_anew(struct bl_hold *hold)
{
	memset(hold->took, 0, sizeof hold->took);
	hold->sweeps = hold->at = hold->others = 0;
	hold->rest = 0;
}

uint32_t bl_hold_judge(struct bl_hold *hold, uint32_t took)
{
	took = took ? took : 1;
	if (hold->rest) {
		hold->rest--;
		if (has_changed(hold, took))
			begin_anew(hold);
	} else {
		account(&hold->took[hold->part], took);
		if (++hold->at == BL_HOLD_PARTS)
			swept(hold);
	}
	/* No two that are alike follow each other, so that what drifts is no part's. */
	return hold->rest ? hold->best : 2 * hold->at % BL_HOLD_PARTS;
}

static void begin(struct bl_ep *ep, const struct bl_tx *tx, uint64_t now, uint32_t part)
{
	struct bl_hold *hold = &ep->hold;
	uint64_t most = BL_HOLD_MOST_NS * bl_ticks_per_us() / 1000;
	uint64_t wait = (uint64_t)hold->took[0] * sixteenths[part] / SIXTEENTH / SIXTEENTH;

	hold->began = now;
	hold->first = tx->next;
	hold->part = (uint8_t)part;
	hold->wait = (uint32_t)bl_min(wait, most);
	hold->until = 0;
	ep->local.held = hold->wait ? tx : NULL;
}

static void end(struct bl_ep *ep)
{
	ep->hold.tx = NULL;
	ep->local.held = NULL;
}

bl_noinline void bl_hold_step(struct bl_ep *ep, const struct bl_tx *tx)
{
	struct bl_hold *hold = &ep->hold;
	uint32_t packets = tx->next - hold->first;
	uint64_t now, took;

	if (!bl_tx_in_dialogue(tx)) {
		if (hold->tx == tx)
			end(ep);
		return;
	}
	if (bl_knobs()->hold == BL_HOLD_NEVER)
		return;
	now = bl_ticks();
	if (hold->tx != tx) {
		*hold = (struct bl_hold){.tx = tx};
		begin(ep, tx, now, 0);
		return;
	}
	took = now - hold->began;
	if (packets && packets <= PACKETS &&
	    took * 1000 < (uint64_t)packets * bl_hold_slow_ns * bl_ticks_per_us())
		begin(ep, tx, now, bl_hold_judge(hold, (uint32_t)(took * SIXTEENTH / packets)));
	else /* it says nothing, and whoever had no core may have none again */
		begin(ep, tx, now, hold->rest ? 0 : hold->part);
}

bl_noinline void bl_hold_sent(struct bl_ep *ep, const struct bl_tx *tx)
{
	ep->hold.until = bl_tx_in_dialogue(tx) ? bl_ticks() + ep->hold.wait : 0;
}

bl_noinline bool bl_hold_lasts(struct bl_ep *ep)
{
	struct bl_hold *hold = &ep->hold;

	if (!hold->until)
		return false;
	/* The counter may have begun anew (bl_is_due()): what is further ahead isn't waited for. */
	if (hold->until - bl_ticks() - 1 < hold->wait)
		return true;
	hold->until = 0;
	return false;
}
