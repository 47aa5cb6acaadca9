/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * eager_limit_test.c: how long a message may be that is one packet in a longer ring
 * (bl_policy_eager), to one who is near or far away. Which messages are is
 * eager_long_test's.
 */
#include "unit/longring.h"

/* --- far away ------------------------------------------------------------------- */

struct far_row {
	struct row row;
	bool far, tight; /* its ring is shorter than it would be with more memory */
	bool buffer;	 /* some of the lane is for dialogues, */
	bool more;	 /* and more may be */
	bool timed;	 /* by its stores */
	uint32_t sent;	 /* packets since a message has come */
	size_t to;
};

#define FAR_TO 20000u

static const struct far_row fars[] = {
	{{"near", "by what is carried anywhere"}, .sent = 1, .to = EAGER_LONG},
	{{"near, with a buffer", "the same"}, .buffer = true, .sent = 1, .to = EAGER_LONG},
	{{"near, room for more", "but the cache holds no more"},
	 .buffer = true,
	 .more = true,
	 .sent = 1,
	 .to = EAGER_LONG},
	{{"far", "as long as both wait"}, .far = true, .sent = 1, .to = FAR_TO},
	{{"far, crossing", "a word, one of ours and an answer"},
	 .far = true,
	 .sent = 3,
	 .to = FAR_TO},
	{{"far, a stream", "each has copies of its own to do"},
	 .far = true,
	 .sent = 4,
	 .to = EAGER_LONG},
	{{"tight", "what it holds stays in the caches"}, .tight = true, .sent = 1, .to = FAR_TO},
	{{"tight, with a buffer", "the same"},
	 .tight = true,
	 .buffer = true,
	 .sent = 1,
	 .to = FAR_TO},
	{{"far, timed", "nothing has been measured there"},
	 .far = true,
	 .timed = true,
	 .sent = 1,
	 .to = EAGER_LONG},
	{{"tight, timed", "nothing has been measured there"},
	 .tight = true,
	 .timed = true,
	 .sent = 1,
	 .to = EAGER_LONG},
	{{"tight, a stream", "each has copies of its own to do"},
	 .tight = true,
	 .sent = 4,
	 .to = EAGER_LONG},
};

static void up_to(void **state)
{
	uint32_t past_min = atomic_load(&bl_tx_past_min);
	const struct far_row *row = TABLE_ROW(struct far_row, state);

	cache = row->tight ? 1 << 20 : 512 << 10;
	limits_by_length(EAGER_LONG, FAR_TO, EAGER_LONG);
	plan()->copybuf = row->buffer;
	limits()->dirty[false] = row->more ? BL_COPYBUF_MOST : 0;
	open_pair();
	atomic_store(&bl_tx_past_min, row->timed ? BL_TX_TIMED : 289);
	sender->local.longring.nlongest = 4;
	lengthen();
	assert_int_equal(peer()->tx.pay_size + peer()->tx.copybuf_room,
			 BL_PAYLOAD_OF(BL_LANE_LONG));
	/* By its stores it is never said to be. */
	peer()->tx.slow = !row->far ? BL_SLOW_ENOUGH - 1 : row->timed ? BL_SLOW_ENOUGH : BL_FAR;
	peer()->tx.probed = (uint16_t)peer()->tx.next; /* no look is due */
	peer()->tx.asked = (uint8_t)(peer()->tx.next - row->sent);
	for (size_t more = 0; more < 2; more++) {
		uint32_t number = peer()->tx.next;

		peer()->tx.asked = (uint8_t)(number - row->sent);
		send_by(row->to + more, 1, 0);
		assert_int_equal(op_of(number), more ? BL_OP_TAGGED_RTS : BL_OP_TAGGED);
	}
	node_close(&node);
	cache = 512 << 10;
	limits_by_length(EAGER_LONG, EAGER_LONG, EAGER_LONG);
	plan()->copybuf = false;
	limits()->dirty[false] = 0;
	atomic_store(&bl_tx_past_min, past_min);
}

int main(void)
{
	TABLE_ROWS("far", up_to, fars);
	return run_longring("eager limit");
}
