/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ring.c: room for many packets, and long stores into a payload ring; see ring.h. Serialised by the
 * domain.
 *
 * The lines that a sender writes lie in the receiver's cache. Where that is far away (another
 * die, another socket), each store to one waits for it, and the sender, not the memory, sets
 * the pace; stores that pass the caches by wait for nothing, and the receiver finds the bytes
 * in memory. Where it is near, they are the slower ones. Which it is shows in how long long
 * stores take. Where short ones matter as well (bl_copy_plan()->past_min), it shows in how long
 * it takes to read the line in which the receiver tells how far it has read, when there is
 * something new in it: their own lines have been asked for before they are stored to.
 *
 * Distance also decides whether an answer's lines are owned ahead.
 */
#include "transport/local/lane/ring.h"

#include "base/clock.h"
#include "copy/engine.h"
#include "copy/move.h"

#define SLOW_BYTES_US 10240u /* 100 ns/KiB; near ones take half as long, far ones twice */
#define LOOK_EVERY    16u    /* stores, two of which are timed */
#define PAST_FOR      255u   /* then it is tried again */

#define PROBE_EVERY 61u	   /* packets: nothing else happens each so many; */
#define PROBE_SOON  7u	   /* long ones, for which it matters more, */
#define PROBE_LONG  16384u /* of so many bytes; */
#define PROBE_AGAIN 7u	   /* where there was nothing new, or it is doubtful */

_Atomic uint32_t bl_tx_past_min = BL_TX_TIMED;
/* For one line: struct bl_machine.far_ns, unless it is set here; what takes less than the other was
 * here already: the processor brings neighbours of lines that it is asked for. */
uint32_t bl_tx_far_ns, bl_tx_here_ns = 36;
/* ns until an answer: MPI libraries take 70 to 220, and more than 600 where they yield before. */
uint32_t bl_tx_late_ns = 400;

_Atomic bool bl_tx_by_store;

void bl_tx_begin(struct bl_tx *tx)
{
	atomic_store_explicit(&bl_tx_by_store, bl_copy_plan()->own_by_store, memory_order_relaxed);
	atomic_store_explicit(&bl_tx_past_min, (uint32_t)bl_copy_plan()->past_min,
			      memory_order_relaxed);
	tx->slot = tx->lane->slot;
	tx->limit = BL_SLOTS;
	tx->pay_size = tx->pay_most = BL_PAYLOAD_SIZE;
	tx->alone = BL_STREAM_AFTER;
	tx->exchange_only = bl_copy_plan()->exchange_only;
}

/* slow: so many lines in a row were; from BL_SLOW_ENOUGH on BL_FAR, or one less when the last one
 * was quick. */
static void judge_line(struct bl_tx *tx, bool slow)
{
	if (!slow)
		tx->slow = tx->slow == BL_FAR ? BL_FAR - 1 : 0;
	else if (++tx->slow >= BL_SLOW_ENOUGH)
		tx->slow = BL_FAR;
}

static bool is_doubtful(const struct bl_tx *tx)
{
	return tx->slow && tx->slow != BL_FAR;
}

static uint32_t pass(void *to, const void *from, size_t len)
{
	bl_move_past(to, from, len);
	return BL_SLOT_NT_STORED;
}

static uint32_t period(size_t len)
{
	return len < PROBE_LONG ? PROBE_EVERY : PROBE_SOON;
}

static bool is_due(const struct bl_tx *tx, size_t len)
{
	return (uint16_t)(tx->next - tx->probed) >= period(len);
}

/*
 * Only what is new takes its time. A sender that has no room takes the news away, again and again,
 * and its reads and the receiver's stores are in each other's way: it learns nothing meanwhile.
 */
static void probe(struct bl_tx *tx, size_t len)
{
	uint32_t limit = tx->limit,
		 far = bl_tx_far_ns ? bl_tx_far_ns : bl_copy_plan()->machine->far_ns;
	uint64_t ns = bl_ticks_settled();
	bool news;

	bl_tx_refresh(tx);
	ns = (bl_ticks_settled() - ns) * 1000 / bl_ticks_per_us();
	news = tx->limit != limit && ns >= bl_tx_here_ns;
	if (news)
		judge_line(tx, ns >= far);
	tx->probed = (uint16_t)tx->next;
	if (!news || is_doubtful(tx))
		tx->probed -= (uint16_t)(period(len) - PROBE_AGAIN);
}

static bool is_far_now(struct bl_tx *tx, size_t len)
{
	if (unlikely(is_due(tx, len)))
		probe(tx, len);
	return bl_tx_is_far(tx);
}

void bl_tx_look(struct bl_tx *tx, size_t len)
{
	if (bl_tx_probes())
		is_far_now(tx, len);
}

uint64_t bl_tx_unread(struct bl_tx *tx)
{
	if (tx->pay_head == tx->pay_tail)
		return 0;
	if (bl_tx_probes() && is_due(tx, PROBE_LONG))
		probe(tx, PROBE_LONG); /* who asks does so for each message: nothing would be new */
	else
		bl_tx_refresh(tx);
	return tx->pay_head - tx->pay_tail;
}

bl_noinline void bl_tx_answer_due(struct bl_tx *tx)
{
	tx->timed = bl_tx_stores();
	tx->answer = tx->next;
	tx->heard_at = (uint32_t)bl_ticks();
}

static_assert(BL_ANSWER_EVERY < BL_SLOTS - 2 * BL_CREDIT_EVERY, "nothing would be new");

/*
 * Each BL_ANSWER_EVERY packets, which is before the sender has used up the room that it knows of:
 * if it looked for room itself just before, each time, there would never be anything new to see how
 * far it is by.
 *
 * Where the other is near, asking is as good. And it polls the first line of what it waits for:
 * that of an answer that comes late has been taken back by then, and twice is worse than once.
 */
bl_noinline void bl_tx_answers(struct bl_tx *tx)
{
	uint64_t took = (uint32_t)bl_ticks() - tx->heard_at;

	tx->timed = tx->stores = false;
	if (tx->next != tx->answer) /* what was to be timed has gone another way */
		return;
	bl_tx_look(tx, 0);
	tx->stores = bl_tx_is_far(tx) && took * 1000 < bl_tx_late_ns * bl_ticks_per_us();
}

bl_noinline void bl_tx_own_slots(struct bl_tx *tx, size_t len)
{
	uint32_t lines = bl_slot_lines(len);
	uint32_t most = bl_min(BL_OWN_SLOTS, BL_OWN_LINES / lines);
	uint32_t n = tx->owned == tx->next ? bl_min(2u * tx->stride + 1, most) : 1;

	n = bl_min(n, tx->limit - tx->next);
	for (uint32_t i = 0; i < n; i++)
		bl_slot_own(&tx->slot[(tx->next + i) % BL_SLOTS], len);
	tx->stride = (uint8_t)n;
	tx->lines = lines & 7;
	tx->owned = tx->next + n;
}

/* By how long some of the stores take. */
static uint32_t store_timed(struct bl_tx *tx, void *to, const void *from, size_t len)
{
	uint32_t nth = tx->nstored++;
	uint64_t took;

	if (tx->past) {
		tx->past--;
		return pass(to, from, len);
	}
	if (likely(!tx->slow && nth % LOOK_EVERY > 1)) {
		memcpy(to, from, len);
		return 0;
	}
	took = bl_ticks();
	memcpy(to, from, len);
	took = bl_ticks() - took;
	if (took * SLOW_BYTES_US < len * bl_ticks_per_us())
		tx->slow = 0;
	else if (tx->slow < BL_SLOW_ENOUGH)
		tx->slow++;
	tx->past = tx->slow == BL_SLOW_ENOUGH ? PAST_FOR : 0;
	return 0;
}

bl_noinline uint32_t bl_tx_store_long(struct bl_tx *tx, void *to, const void *from, size_t len)
{
	uint32_t flags = 0;

	if (!bl_tx_probes())
		flags = store_timed(tx, to, from, len);
	else if (is_far_now(tx, len))
		flags = pass(to, from, len);
	else
		memcpy(to, from, len);
	tx->nlong += len >= BL_TX_TIMED;
	return flags;
}

/*
 * What is in flight may lie anywhere in the ring as it was, across its end too. So the next packet
 * goes behind all of that, as if what it was had been skipped: the first place of the longer ring
 * isn't used again before whatever was in flight has been read. And if some of a lap of the longer
 * ring still is (bl_tx_payload_again), at its end, that place isn't reached before: all that has
 * been taken since counts, and what has been skipped twice.
 */
static void lengthen(struct bl_tx *tx)
{
	tx->pay_head += tx->pay_size;
	tx->pay_at = tx->pay_size;
	tx->pay_size = tx->pay_most;
}

void bl_tx_lengthen(struct bl_tx *tx, uint32_t size, uint32_t copybuf)
{
	bool empty = tx->pay_head == tx->pay_tail;

	tx->copybuf = copybuf ? size - copybuf : 0;
	tx->copybuf_room = copybuf;
	tx->pay_most = size - copybuf;
	lengthen(tx);
	if (!empty)
		return;
	tx->pay_tail = tx->pay_head; /* nor is what was skipped unread */
	for (uint32_t n = tx->limit - BL_SLOTS; n != tx->next; n++)
		tx->pay_end[n % BL_SLOTS] = (uint16_t)(tx->pay_head / BL_LINE);
}

bool bl_tx_is_empty(struct bl_tx *tx)
{
	bl_tx_refresh(tx);
	return tx->pay_head == tx->pay_tail && !tx->offers;
}

void bl_tx_shrink(struct bl_tx *tx)
{
	tx->copybuf = tx->copybuf_room = tx->pay_at = 0;
	tx->pay_size = tx->pay_most = BL_PAYLOAD_SIZE;
}

bool bl_tx_lacks_buffer(const struct bl_tx *tx, size_t len)
{
	return tx->turns == BL_PINGPONG_AFTER && bl_copy_plan()->copybuf &&
	       !(tx->exchange_only && (len < BL_EXCHANGE_MIN || bl_tx_is_pingpong(tx)));
}

bl_noinline void bl_tx_payload_lap(struct bl_tx *tx, size_t len)
{
	tx->nlong += len < BL_TX_TIMED ? BL_SHORT_LAP : 1;
	if (bl_tx_is_silent(tx) || bl_tx_lacks_buffer(tx, len))
		tx->short_of += tx->short_of < UINT8_MAX - 1 ? 2 : 0;
	else
		tx->short_of -= tx->short_of > 0;
}

bl_noinline uint8_t *bl_tx_payload_longer(struct bl_tx *tx, uint32_t len)
{
	if (tx->pay_size == tx->pay_most)
		return NULL;
	lengthen(tx);
	return bl_tx_payload(tx, len);
}

/*
 * A stream is the quicker one in a long ring even if its reader keeps up with it, and messages up
 * to 2 KiB one by one are in a short one, in which each line is used again soon. What else is in
 * flight lies at the end of the long one, and counts as if it lay in the short one: so long as that
 * is no more than the short one holds, neither is in the other's way. Messages of which a short one
 * holds few (transport/local/adapt/dirty.h) keep the long one.
 */
bl_noinline void bl_tx_payload_again(struct bl_tx *tx)
{
	static_assert(BL_PAYLOAD_OF(BL_LANE_LONG) - BL_COPYBUF_SIZE >= 2 * BL_PAYLOAD_SIZE,
		      "its end is elsewhere");
	if (tx->pay_most == BL_PAYLOAD_SIZE || !bl_copy_plan()->by_stream)
		return;
	if (bl_tx_is_silent(tx)) {
		if (tx->pay_size == BL_PAYLOAD_SIZE)
			lengthen(tx);
		return;
	}
	if (tx->last > BL_SHORT_MOST)
		return;
	bl_tx_refresh(tx);
	if (tx->pay_head - tx->pay_tail <= BL_PAYLOAD_SIZE)
		tx->pay_size = BL_PAYLOAD_SIZE;
}

/* We may write up to `room` bytes there: all of them have to lie in the lane. */
static void take_offer(struct bl_tx *tx, const struct bl_rx *rx, const struct bl_slot *slot)
{
	uint32_t at = *(const volatile uint32_t *)&slot->at;
	uint32_t room = *(const volatile uint32_t *)&slot->room;
	uint32_t end = BL_PAYLOAD_OF(1u << rx->span);

	tx->offer = room <= end && at <= end - room ? at : 0;
	tx->offer_room = room;
}

void bl_copybuf_heard(struct bl_tx *tx, const struct bl_rx *rx, const struct bl_slot *slot,
		      uint32_t head)
{
	tx->answered = true;
	tx->alone = 0;
	if (head & BL_HEAD(0, 0, BL_SLOT_CB_USE))
		tx->offers = false;
	if (head & BL_HEAD(0, 0, BL_SLOT_CB_GRANT))
		take_offer(tx, rx, slot);
}
