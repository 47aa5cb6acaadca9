/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ack.c: how a receiver says that a message is over. Serialised by the domain.
 *
 * Commonly by a packet, FIN. If its ring is full, its sender hasn't looked for long, and the
 * receiver may leave the library before there is room: it sets the send op's bit in the sender's
 * own memory instead (struct bl_acks), and the sender, who finds 64 packets when it is back,
 * finds the bits behind them (bl_poll_peer). So who has received everything isn't waited for,
 * except to say what a bit can't (whether it was dirty is a hint): an error, or the end of
 * a message whose index is 960 or more.
 *
 * A bit set while those packets are being read is seen behind the next one, before a sleep
 * (bl_ack_look_at_all), or by the look at all neighbours each 10 ms (bl_ep_look); so is that of
 * one that has died since.
 *
 * A bit names a send op by its index, without its generation. That is enough, for it ends
 * in no other way: until the bit has been taken, nothing else has that index.
 */
#include "transport/local/lane/ack.h"

#include "transport/local/lane/ctrl.h"

#define FIN_BITS (64u * BL_ACK_WORDS)

static bool set_bit(struct bl_acks *fins, uint64_t request)
{
	uint32_t index = (uint32_t)request;

	if (index >= FIN_BITS)
		return false;
	/* release: pairs with the acquires in bl_ack_take; we have read the sender's memory. The
	 * bit is before its word's, and that before bl_peer_notify() looks whether the sender
	 * polls; one that stops doing so has our stores drained, as for packets, and looks for
	 * bits then (fall_asleep). */
	atomic_fetch_or_explicit(&fins->word[index / 64], 1ULL << index % 64, memory_order_release);
	atomic_fetch_or_explicit(&fins->some, 1ULL << index / 64, memory_order_seq_cst);
	return true;
}

void bl_ack(struct bl_ep *ep, struct bl_peer *peer, uint64_t request, uint64_t status)
{
	bool full;

	if (unlikely(peer->dead)) /* it may have no ring any more */
		return;
	if (unlikely(peer->control.n))
		bl_control_flush_peer(ep, peer);
	full = peer->control.n || (!bl_tx_room(&peer->tx) && !bl_tx_refresh(&peer->tx));
	if (unlikely(full && !(status & ~BL_FIN_VERDICT)) &&
	    set_bit(&peer->rx.lane->fins, request)) {
		bl_peer_notify(peer);
		/* The sender may have found the last packet just before: another has it look. */
		if (likely(!bl_tx_refresh(&peer->tx)))
			return;
	}
	bl_control(ep, peer, BL_OP_FIN, request, status, NULL, 0);
}

uint32_t bl_acks_in_sight(const struct bl_peer *peer)
{
	const struct bl_acks *fins = &peer->tx.lane->fins;
	uint64_t some = atomic_load_explicit(&fins->some, memory_order_relaxed);
	const struct bl_rx *rx = &peer->rx;
	uint32_t sum = 0;

	for (; some; some &= some - 1) {
		uint32_t w = (uint32_t)__builtin_ctzll(some);

		if (w < BL_ACK_WORDS)
			sum += (uint32_t)__builtin_popcountll(
				atomic_load_explicit(&fins->word[w], memory_order_relaxed));
	}
	for (uint32_t n = rx->next; n - rx->next < BL_SLOTS; n++) {
		const struct bl_slot *slot = bl_rx_at(rx, n);

		if (!slot)
			break;
		sum += bl_slot_op(slot) == BL_OP_FIN;
	}
	return sum;
}
