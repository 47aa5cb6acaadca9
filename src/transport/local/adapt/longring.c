/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * longring.c: longer payload rings where they are worth their memory. Owner, at a lap, and now and
 * then.
 *
 * A ring of 36 KiB is quick where a message of that length isn't: all its lines lie in the
 * caches of the two. But the sender's stores take each line out of the receiver's own cache,
 * which for some KiB costs more than the copies do. In a ring that is longer than that cache the
 * lines have left it by the time they are stored to again, and it has room for whole messages up
 * to the one that is worth a system call. Where that is dear (bl_copy_plan), those neighbours get
 * one to whom long packets go, or whose rings have been filled many times, but not more than a few:
 * the memory is the endpoint's. How long it is to be depends on a core's own (second-level) cache:
 * 512 KiB are enough where that has 512 KiB (AMD EPYC up to Milan), and 2 MiB have room for a
 * longer copy buffer as well; where it has 1 MiB, all lines of 512 KiB stay there, and 2 MiB
 * are twice as quick. Where it has 2 MiB it would take more than that.
 *
 * Where a system call is cheap, one copy does for what doesn't fit, and a short ring is the quicker
 * one for messages of a few KiB that come one by one. There a longer ring is for streams, which
 * don't have to wait for their reader each few packets, and it is used as a short one whenever
 * there is none; or for those who have a copy buffer behind it (ring.h), which is made longer
 * when it is to hold what was just written (transport/local/adapt/dirty.h). docs/performance.md has
 * the numbers.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/knobs.h"
#include "base/log.h"
#include "copy/engine.h"
#include "transport/local/lane/count.h"
#include "transport/local/local.h"
#include "place/place.h"

#define ALWAYS 1u /* FI_BEELINE_LONG_RING */
#define NEVER  2u

#define MOST	16u /* neighbours at a time, ... */
#define LONGEST 4u  /* ... those of them with more than BL_LANE_LONG: 13 MiB in all, else 7 */
/* (Or 13, if all of them have buffers of BL_COPYBUF_MOST; or 17.5, if four of those are long.) */

/* Each neighbour's two lanes take as much address space, whether they are stretched or not. */
static bool has_address_space(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY;
}

size_t bl_longring_span(void)
{
	const struct bl_copy_plan *plan = bl_copy_plan();
	size_t cache = bl_place_cache();
	bool longer;

	if (bl_knobs()->long_ring == NEVER)
		return BL_LANE_SIZE;
	if (plan->by_stream && !has_address_space())
		return BL_LANE_SIZE;
	if (plan->by_stream)
		return plan->dirty_max > BL_COPYBUF_SIZE ? BL_LANE_COPYBUF : BL_LANE_LONG;
	longer = cache > BL_LANE_LONG || plan->dirty_max > BL_COPYBUF_SIZE;
	return longer && cache < BL_LANE_MOST && has_address_space() ? BL_LANE_MOST : BL_LANE_LONG;
}

size_t bl_longring_enough(void)
{
	return bl_place_cache() > BL_LANE_LONG ? BL_LANE_MOST : BL_LANE_LONG;
}

static bool is_worth_it(const struct bl_peer *peer)
{
	return peer->copy.pull != BL_COPY_SELF && !peer->copy.lend &&
	       peer->local->seg.lane_span > BL_LANE_SIZE;
}

/* What is left behind it for a copy buffer that is made longer. */
static size_t kept_for_dialogue(size_t span)
{
	size_t most = bl_copy_plan()->dirty_max;

	return span > BL_LANE_LONG && most > BL_COPYBUF_SIZE ? most - BL_COPYBUF_SIZE : 0;
}

size_t bl_longring_most(const struct bl_local *local)
{
	size_t span = local->seg.lane_span;

	return bl_copy_plan()->by_stream ? bl_min(span, (size_t)BL_LANE_LONG)
					 : span - kept_for_dialogue(span);
}

/* As long as may be; else, and for want of memory, as is enough in most cases. */
static int stretch(struct bl_peer *peer, size_t *size)
{
	struct bl_local *local = peer->local;
	int err = -ENOMEM;

	*size = bl_longring_most(local);
	if (*size <= BL_LANE_LONG || local->nlongest < LONGEST)
		err = bl_lane_lengthen(&local->seg, peer->tx.lane, BL_LANE_SIZE, *size);
	if (err == -ENOMEM && *size > BL_LANE_LONG) {
		*size = BL_LANE_LONG;
		err = bl_lane_lengthen(&local->seg, peer->tx.lane, BL_LANE_SIZE, *size);
	}
	return err;
}

static bool is_due(const struct bl_tx *tx)
{
	uint32_t uses = bl_copy_plan()->by_stream ? tx->short_of : tx->nlong;

	return unlikely(uses >= BL_LONGRING_USES || bl_knobs()->long_ring == ALWAYS);
}

bool bl_longring_look(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	struct bl_tx *tx = &peer->tx;
	size_t size;
	int err;

	if (likely(!is_due(tx)) || tx->pay_most != BL_PAYLOAD_SIZE || peer->stays_short)
		return false;
	tx->nlong = tx->short_of = 0;
	if (local->nlongrings >= MOST || !is_worth_it(peer))
		return false;
	err = stretch(peer, &size);
	if (err) {
		bl_debug("no longer lane to process %u: %s", peer->addr.pid, strerror(-err));
		peer->stays_short = true;
		return true;
	}
	bl_tx_lengthen(tx, BL_PAYLOAD_OF(size), bl_copy_plan()->copybuf ? BL_COPYBUF_SIZE : 0);
	local->nlongrings++;
	local->nlongest += size > BL_LANE_LONG;
	bl_stats_add(local->stats, BL_STAT_longring_bytes, size - BL_LANE_SIZE);
	return true;
}

/* The lane has nothing behind it, and what has been offered stays as long as it was said to be. */
bl_cold void bl_longring_copybuf(struct bl_peer *peer, size_t len)
{
	const struct bl_segment *seg = &peer->local->seg;
	size_t most = bl_copy_plan()->dirty_max, end, more;
	struct bl_tx *tx = &peer->tx;
	int err;

	if (!tx->copybuf || len <= tx->copybuf_room || len > most || peer->stays_short)
		return;
	end = offsetof(struct bl_lane, payload) + tx->copybuf + most;
	more = most - tx->copybuf_room;
	err = end > seg->lane_span ? -EFBIG : bl_lane_lengthen(seg, tx->lane, end - more, end);
	if (err) {
		bl_debug("no longer copy buffer for process %u: %s", peer->addr.pid,
			 strerror(-err));
		peer->stays_short = true;
		return;
	}
	tx->copybuf_room = (uint32_t)most;
	bl_stats_add(peer->local->stats, BL_STAT_longring_bytes, more);
}

void bl_longring_over(struct bl_peer *peer)
{
	const struct bl_tx *tx = &peer->tx;
	uint32_t more;

	if (tx->pay_most <= BL_PAYLOAD_SIZE)
		return;
	more = tx->pay_most + tx->copybuf_room - BL_PAYLOAD_SIZE;
	peer->local->nlongrings--;
	peer->local->nlongest -= tx->pay_most > BL_PAYLOAD_OF(BL_LANE_LONG);
	bl_lane_shrink(peer->tx.lane, BL_LANE_SIZE, peer->local->seg.lane_span);
	bl_stats_add(peer->local->stats, BL_STAT_longring_bytes, -(uint64_t)more);
}
