/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * own_test.c: who shares the copying of a large message although he sends some himself: one all of
 * whose messages have been received, as FINs say that he hasn't looked at yet (rndv_rx.c, plan();
 * what bl_acks_in_sight() counts is in ack_test.c).
 */
#include "unit/announced.h"

struct own_row {
	struct row row;
	uint32_t sends;	   /* of ours that are under way */
	uint32_t received; /* of them, as packets behind the message say */
	uint32_t bits;	   /* as bits do */
	size_t len;
	bool both; /* copy it */
};

static const struct own_row owns[] = {
	{{"none", "both wait"}, 0, 0, 0, BOTH_HANDS, true},
	{{"one", "its receiver is busy with that"}, 1, 0, 0, BOTH_HANDS, false},
	{{"one, received", "it waits as we do"}, 1, 1, 0, BOTH_HANDS, true},
	{{"one, received, a bit", "the same"}, 1, 0, 1, BOTH_HANDS, true},
	{{"three, two received", "one less"}, 3, 2, 0, BOTH_HANDS, false},
	{{"three, received", "just enough"}, 3, 3, 0, BOTH_HANDS, true},
	{{"three, a packet and a bit", "one less"}, 3, 1, 1, BOTH_HANDS, false},
	{{"three, a packet and two bits", "their sum"}, 3, 1, 2, BOTH_HANDS, true},
	{{"one, the longest", "that is copied alone"}, 1, 0, 0, MOST, false},
	{{"one, longer", "worth both hands anyway"}, 1, 0, 0, MOST + 1, true},
	{{"short, none", "not worth both"}, 0, 0, 0, BOTH_HANDS - 1, false},
	{{"short, received", "not worth both"}, 1, 1, 0, BOTH_HANDS - 1, false},
};

#define OWN 20000u /* bytes: announced, not to be claimed, copied alone */

/* We send some, of which so many are received when the other's message has been announced. */
static void send_own(const struct own_row *row)
{
	static uint8_t own[OWN];

	for (uint32_t i = 0; i < row->sends; i++) {
		struct bl_send send = {
			&(struct iovec){own, OWN}, 1, 1, i, 0, NULL, BL_TAGGED, NULL};

		assert_int_equal(bl_send(receiver, &send), 0);
	}
	announce(0, row->len, BL_TAGGED);
	for (uint32_t i = 0; i < row->received; i++)
		assert_int_equal(bl_recv_buf(sender, to, OWN, 0, i, 0, NULL, BL_TAGGED), 0);
	bl_ep_progress(sender);
	for (uint32_t i = 0, left = row->bits; left; i++) {
		const struct bl_send_op *r = receiver->rndv.request[i];

		if (r->peer && !r->whole) {
			struct bl_acks *fins = &back()->tx.lane->fins;
			uint32_t index = (uint32_t)bl_send_op_number(r);

			assert_in_range(index, 0, 63);
			atomic_fetch_or(&fins->word[0], 1ull << index);
			atomic_store(&fins->some, 1);
			left--;
		}
	}
	assert_int_equal(receiver->rndv.requests, row->sends);
}

static void with_sends_of_our_own(void **state)
{
	const struct own_row *row = TABLE_ROW(struct own_row, state);
	uint32_t n;

	open_with(BL_COPY_VM);
	post_one(0, row->len, BL_TAGGED);
	send_own(row);
	sender_is(IS_AWAY);
	n = back()->tx.next;
	deliver();
	assert_int_equal(packets(n, BL_OP_CTS), row->both);
	assert_int_equal(receiver->rndv.ntransfer, row->both);
	if (row->both) {
		assert_non_null(receiver->rndv.transfer[0]->chunks);
		assert_false(receiver->rndv.transfer[0]->cts_all);
		assert_int_equal(receiver->rndv.transfer[0]->taken, 1); /* we have begun */
	} else {
		is_there(0, row->len);
	}
	complete(1, &row->len);
	node_close(&node);
}

int main(void)
{
	set_announced_limits();
	TABLE_ROWS("own", with_sends_of_our_own, owns);
	return table_run("own");
}
