/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * longring.c: longer payload rings where they are worth their memory. Owner, at a lap, and now and
 * then.
 *
 * In a short ring all lines lie in the caches of the two, and the sender's stores take each out of
 * the receiver's own cache. In a ring that is longer than that cache the lines have left it by the
 * time they are stored to again, and it has room for eager messages up to the one that is worth a
 * system call.
 *
 * Where a system call is dear (bl_copy_plan), a neighbour gets 484 KiB with the first message for
 * it, or when its ring has been filled many times, and a longer one when that has been of use. Only
 * a few neighbours have one at a time, and who has had no use for theirs gives it back when others
 * want one. How long it is depends on a core's own cache.
 *
 * Where a system call is cheap, a longer ring is for streams, which don't have to wait for their
 * reader each few packets, and is used as a short one whenever there is none; or for those who have
 * a copy buffer behind it (ring.h), which is made longer when it is to hold dirty messages
 * (dirty.h). docs/notes/eager.md has what was measured.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/knobs.h"
#include "base/log.h"
#include "copy/engine.h"
#include "place/place.h"
#include "transport/local/adapt/policy.h"
#include "transport/local/lane/count.h"
#include "transport/local/local.h"

#define ALWAYS 1u /* FI_BEELINE_LONG_RING */
#define NEVER  2u

#define MOST	  16u /* neighbours at a time, ... */
#define LONGEST	  4u  /* ... those of them with more than BL_LANE_LONG: 13 MiB in all, else 7 */
#define UNUSED_US 1000000u /* whose rings have no use for so long lose them to others */
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
		return bl_limits()->dirty[false] > BL_COPYBUF_SIZE ? BL_LANE_COPYBUF : BL_LANE_LONG;
	longer = cache > BL_LANE_LONG || bl_limits()->dirty[false] > BL_COPYBUF_SIZE;
	return longer && cache < BL_LANE_MOST && has_address_space() ? BL_LANE_MOST : BL_LANE_LONG;
}

size_t bl_longring_enough(void)
{
	return bl_place_cache() > BL_LANE_LONG ? BL_LANE_MOST : BL_LANE_LONG;
}

static bool is_worth_it(const struct bl_peer *peer)
{
	return peer->copy.pull != BL_COPY_SELF && !peer->copy.needs_rkeys &&
	       peer->local->seg.lane_span > BL_LANE_SIZE;
}

/* What is left behind it for a copy buffer that is made longer. */
static size_t kept_for_copybuf(size_t span)
{
	size_t most = bl_limits()->dirty[false];

	return span > BL_LANE_LONG && most > BL_COPYBUF_SIZE ? most - BL_COPYBUF_SIZE : 0;
}

size_t bl_longring_most(const struct bl_local *local)
{
	size_t span = local->seg.lane_span;

	return bl_copy_plan()->by_stream ? bl_min(span, (size_t)BL_LANE_LONG)
					 : span - kept_for_copybuf(span);
}

static bool is_long(const struct bl_tx *tx)
{
	return tx->pay_most > BL_PAYLOAD_SIZE;
}

/* Bytes of the lane that have pages. */
static size_t lane_end(const struct bl_tx *tx)
{
	return BL_LANE_SIZE - BL_PAYLOAD_SIZE + tx->pay_most + tx->copybuf_room;
}

/* To 484 KiB, and then as long as may be. */
static int lengthen(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	struct bl_tx *tx = &peer->tx;
	size_t from = lane_end(tx), room = tx->copybuf_room, size = BL_LANE_LONG;
	int err;

	if (is_long(tx))
		size = bl_longring_most(local) + (room ? room - BL_COPYBUF_SIZE : 0);
	else if (bl_copy_plan()->copybuf)
		room = BL_COPYBUF_SIZE;
	err = bl_lane_lengthen(&local->seg, tx->lane, from, size);
	if (err)
		return err;
	local->longring.nlongest += is_long(tx);
	local->longring.n += !is_long(tx);
	bl_tx_lengthen(tx, BL_PAYLOAD_OF(size), (uint32_t)room);
	bl_stats_add(local->stats, BL_STAT_longring_bytes, size - from);
	return 0;
}

/* All that it may be, beside a copy buffer, which isn't moved while the other may use it. */
static bool may_be_longest(const struct bl_peer *peer)
{
	const struct bl_tx *tx = &peer->tx;

	return is_long(tx) &&
	       tx->pay_most + BL_COPYBUF_SIZE < BL_PAYLOAD_OF(bl_longring_most(peer->local)) &&
	       !tx->offers && peer->local->longring.nlongest < LONGEST;
}

/* What is known to have been read, and isn't to be used as long as it is short. */
static void shrink(struct bl_peer *peer)
{
	bl_longring_over(peer);
	bl_tx_shrink(&peer->tx);
}

/*
 * Others have had no use for theirs since the last time that somebody was refused one: theirs are
 * free. Seldom, or those who take turns would take them from each other each time.
 */
static void free_unused(struct bl_local *local)
{
	uint64_t now = bl_ticks();

	if (now - local->longring.at < UNUSED_US * (uint64_t)bl_ticks_per_us())
		return;
	local->longring.at = now;
	for (uint32_t i = 0; i < local->nby_index; i++) {
		struct bl_peer *peer = local->by_index[i];

		if (!peer || peer->dead || !is_long(&peer->tx))
			continue;
		if (peer->longring_next == (uint16_t)peer->tx.next && bl_tx_is_empty(&peer->tx))
			shrink(peer);
		peer->longring_next = (uint16_t)peer->tx.next;
	}
}

static bool has_place(struct bl_local *local)
{
	if (unlikely(local->longring.n >= MOST))
		free_unused(local);
	return local->longring.n < MOST;
}

static bool is_due(const struct bl_tx *tx)
{
	uint32_t uses = bl_copy_plan()->by_stream ? tx->short_of : tx->nlong;

	return unlikely(uses >= BL_LONGRING_USES || bl_knobs()->long_ring == ALWAYS);
}

bool bl_longring_now(struct bl_peer *peer)
{
	struct bl_local *local = peer->local;
	struct bl_tx *tx = &peer->tx;
	int err;

	tx->nlong = tx->short_of = 0;
	if (peer->stays_short || !is_worth_it(peer) ||
	    !(is_long(tx) ? may_be_longest(peer) : has_place(local)))
		return false;
	err = lengthen(peer);
	if (err) {
		bl_debug("no longer lane to process %u: %s", peer->addr.pid, strerror(-err));
		peer->stays_short = true;
		return true;
	}
	peer->longring_next = (uint16_t)tx->next;
	local->longring.at = bl_ticks();
	return true;
}

bool bl_longring_look(struct bl_peer *peer)
{
	return unlikely(is_due(&peer->tx)) && bl_longring_now(peer);
}

/* The lane has nothing behind it, and what has been offered stays as long as it was said to be. */
bl_cold void bl_longring_copybuf(struct bl_peer *peer, size_t len)
{
	const struct bl_segment *seg = &peer->local->seg;
	size_t most = bl_limits()->dirty[false], end, more;
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

	if (!is_long(tx))
		return;
	more = tx->pay_most + tx->copybuf_room - BL_PAYLOAD_SIZE;
	peer->local->longring.n--;
	peer->local->longring.nlongest -= tx->pay_most > BL_PAYLOAD_OF(BL_LANE_LONG);
	bl_lane_shrink(peer->tx.lane, BL_LANE_SIZE, peer->local->seg.lane_span);
	bl_stats_add(peer->local->stats, BL_STAT_longring_bytes, -(uint64_t)more);
}
