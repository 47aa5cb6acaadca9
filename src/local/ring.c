/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ring.c: room for many packets, and long stores into a payload ring; see ring.h. Serialised by the
 * domain.
 *
 * The lines that a sender writes lie in the receiver's cache. Where that is far away (another
 * die, another socket), each store to one waits for it, and the sender, not the memory, sets
 * the pace; stores that pass the caches by wait for nothing, and the receiver finds the bytes
 * in memory. Where it is near, they are the slower ones. Which it is shows in how long the
 * stores take.
 */
#include "local/ring.h"

#include "base/clock.h"
#include "copy/move.h"

#define SLOW_BYTES_US 10240u /* 100 ns/KiB; near ones take half as long, far ones twice */
#define LOOK_EVERY    16u    /* counts; two of them, one of which is a store in any case (nlong) */
#define SLOW_ENOUGH   3u     /* in a row: a single one may have been interrupted */
#define PAST_FOR      255u   /* then it is tried again */

bl_noinline uint32_t bl_tx_store_long(struct bl_tx *tx, void *to, const void *from, size_t len)
{
	uint32_t nth = tx->nlong++;
	uint64_t took;

	if (tx->past) {
		tx->past--;
		bl_move_past(to, from, len);
		return BL_SLOT_PAST;
	}
	if (likely(!tx->slow && nth % LOOK_EVERY > 1)) {
		memcpy(to, from, len);
		return 0;
	}
	took = bl_ticks();
	memcpy(to, from, len);
	took = bl_ticks() - took;
	if (took * SLOW_BYTES_US < len * bl_ticks_per_us()) {
		tx->slow = 0;
		return 0;
	}
	if (tx->slow < SLOW_ENOUGH)
		tx->slow++;
	if (tx->slow == SLOW_ENOUGH)
		tx->past = PAST_FOR;
	return 0;
}

/*
 * What is in flight may lie anywhere in the ring as it was, across its end too. So the next packet
 * goes behind all of that, as if what it was had been skipped: the first place of the longer ring
 * isn't used again before whatever was in flight has been read.
 */
void bl_tx_stretch(struct bl_tx *tx)
{
	tx->pay_head += tx->pay_size;
	tx->pay_at = tx->pay_size;
	tx->pay_size = BL_PAYLOAD_MOST;
}

static size_t fits(const struct bl_tx *tx, uint32_t before, uint32_t piece, size_t len)
{
	uint64_t vacant = tx->pay_size - (tx->pay_head - tx->pay_tail);
	uint32_t slots = tx->limit - tx->next, at = tx->pay_at;
	size_t done = 0;

	for (; before < slots && done < len; slots--) {
		uint32_t bytes = (uint32_t)bl_min(len - done, (size_t)piece);
		uint32_t size = bytes > BL_SLOT_INLINE ? bl_tx_payload_size(bytes) : 0;
		uint32_t skip = at + size > tx->pay_size ? tx->pay_size - at : 0;

		if (skip + size > vacant)
			break;
		vacant -= skip + size;
		at = (skip ? 0 : at) + size;
		at = at == tx->pay_size ? 0 : at;
		done += bytes;
	}
	return done;
}

bl_noinline size_t bl_tx_fits(struct bl_tx *tx, uint32_t before, uint32_t piece, size_t len)
{
	size_t n = fits(tx, before, piece, len);

	if (n < len && bl_tx_refresh(tx))
		n = fits(tx, before, piece, len);
	return n;
}
