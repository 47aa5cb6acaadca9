/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stretch.c: longer payload rings where they are worth their memory. Owner, now and then.
 *
 * A ring of 36 KiB is quick where a message of that length isn't: all its lines lie in the
 * caches of the two. But the sender's stores take each line out of the receiver's own cache,
 * which for some KiB costs more than the copies do. In a ring that is longer than that cache the
 * lines have left it by the time they are stored to again, and it has room for whole messages up
 * to the one that is worth a system call. Where that is dear (bl_copy_plan), those neighbours get
 * one to whom long packets go, but not more than a few: the memory is the endpoint's.
 * docs/performance.md has the numbers.
 */
#include <string.h>

#include "base/knobs.h"
#include "base/log.h"
#include "copy/engine.h"
#include "local/count.h"
#include "local/local.h"

#define ALWAYS 1u /* FI_BEELINE_STRETCH */
#define NEVER  2u

#define MOST 16u /* neighbours at a time: 7 MiB */

static bool is_worth_it(const struct bl_peer *peer)
{
	uint64_t when = bl_knobs()->stretch;

	return peer->copy.pull != BL_COPY_SELF && !peer->copy.lend && when != NEVER &&
	       (when == ALWAYS || bl_copy_plan()->carry_max);
}

bool bl_stretch_look(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	struct bl_tx *tx = &peer->tx;
	int err;

	if (likely(tx->nlong < BL_STRETCH_USES && bl_knobs()->stretch != ALWAYS) ||
	    tx->pay_size == BL_PAYLOAD_MOST || peer->stays_short)
		return false;
	tx->nlong = 0;
	if (local->nstretched >= MOST || !is_worth_it(peer))
		return false;
	err = bl_lane_stretch(&local->seg, tx->lane);
	if (err) {
		bl_debug("no longer lane to process %u: %s", peer->addr.pid, strerror(-err));
		peer->stays_short = true;
		return true;
	}
	bl_tx_stretch(tx);
	local->nstretched++;
	bl_stats_add(local->stats, BL_STAT_stretched_bytes, BL_LANE_MOST - BL_LANE_SIZE);
	return true;
}

void bl_stretch_over(struct bl_peer *peer)
{
	if (peer->tx.pay_size != BL_PAYLOAD_MOST)
		return;
	peer->local->nstretched--;
	bl_lane_shrink(peer->tx.lane);
	bl_stats_add(peer->local->stats, BL_STAT_stretched_bytes,
		     -(uint64_t)(BL_LANE_MOST - BL_LANE_SIZE));
}
