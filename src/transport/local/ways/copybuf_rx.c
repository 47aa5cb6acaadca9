/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * copybuf_rx.c: copying out a streamed message of a copy buffer while its sender still copies it
 * in (BL_SLOT_STREAMED; transport/local/lane/ring.h). Serialised by the domain.
 */
#include <string.h>

#include "base/clock.h"
#include "transport/local/adapt/habit.h"
#include "transport/local/ways/copybuf.h"

#define STREAMED_US                                                                                \
	5u /* so long it is waited for while nothing is added, BL_STREAMED_MOST times              \
	    */

/* Into our caches, out of which it is copied when all of it is there. */
static void fetch(const uint8_t *bytes, uint32_t from, uint32_t to)
{
	for (; from < to; from += BL_LINE)
		bl_prefetch_read(bytes + from);
}

bl_noinline bool bl_take_streamed(struct bl_ep *ep, struct bl_rx *rx, const struct bl_slot *slot,
				  uint32_t len, struct bl_post *post, const uint8_t *bytes)
{
	uint64_t since = bl_ticks(), patience = STREAMED_US * bl_ticks_per_us();
	uint32_t done = 0, pieces = 0, there = bl_slot_progress(slot, len);
	uint64_t began;

	if (there < len && bl_rx_was_left(rx))
		return false;
	if (post && len >= BL_PROXY_MIN)
		bl_habit_back_now(ep);
	began = bl_copy_begins(ep, len);
	for (; done < len; there = bl_slot_progress(slot, len)) {
		if (there > done && pieces < BL_STREAMED_MOST) {
			if (post)
				memcpy(post->buf + done, bytes + done, there - done);
			else
				fetch(bytes, done, there);
			done = there;
			since = bl_ticks();
			pieces++;
		} else if (pieces == BL_STREAMED_MOST || bl_ticks() - since > patience) {
			bl_rx_leave(rx);
			if (post && done)
				post->flags |= BL_POST_BEGUN;
			break;
		} else {
			bl_cpu_relax();
		}
	}
	bl_copy_ends(ep, began);
	return done == len;
}

bool bl_post_is_begun(const struct bl_post *post, bool tagged)
{
	const struct bl_slot *slot;

	if (likely(!(post->flags & BL_POST_BEGUN)) || post->src->dead)
		return false;
	slot = bl_rx_peek(&post->src->rx);
	return slot && bl_slot_op(slot) == (tagged ? BL_OP_TAGGED : BL_OP_MSG) &&
	       bl_match(post, post->src, tagged ? *(const volatile uint64_t *)&slot->tag : 0);
}
