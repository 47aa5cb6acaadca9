/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pass.c: samples of what passing on costs; see pass.h.
 */
#include "core/pass.h"

#include "base/clock.h"
#include "core/core.h"

/* A locked instruction takes that much longer; 3 to 6 ns without one, 70 to 120 with it. */
int32_t bl_pass_wait_ns = 30;
/* Something else has happened meanwhile. */
uint32_t bl_pass_long_ns = 1000;

void bl_pass_judge(struct bl_pass *pass, uint32_t ns, bool *locks)
{
	bool was = *locks;

	pass->rest = pass->settled ? BL_PASS_REST : 0;
	if (!pass->with) {
		pass->without = ns ? ns : 1;
		return;
	}
	if (!pass->without)
		return;
	pass->slower += (int64_t)ns - pass->without >= bl_pass_wait_ns;
	pass->without = 0;
	if (++pass->pairs < BL_PASS_PAIRS)
		return;
	if (pass->slower >= BL_PASS_MOST)
		*locks = true;
	else if (pass->slower <= BL_PASS_LEAST)
		*locks = false;
	pass->pairs = pass->slower = 0;
	pass->settled = *locks == was;
}

/* Where it is read what has come, if anywhere. */
static void look_at_queue(const struct bl_ep *ep, uint32_t *full, uint64_t *last_empty)
{
	*full = ep->rx_cq ? ep->rx_cq->full : 0;
	*last_empty = ep->rx_cq ? ep->rx_cq->last_empty : 0;
}

bl_noinline void bl_pass_sample(struct bl_ep *ep, const struct bl_tx *tx,
				const struct bl_slot *slot, size_t len, bool stream)
{
	struct bl_pass *pass = &ep->pass;
	bool talks = bl_tx_in_dialogue(tx);

	if (talks || pass->rest || ep->domain->locks) {
		pass->rest -= !talks && pass->rest;
		if (bl_passes(ep, tx))
			bl_tx_slot_pass_on(slot, len, stream);
		return;
	}
	pass->with = pass->without != 0;
	look_at_queue(ep, &pass->full, &pass->last_empty);
	ep->sampled = true;
	pass->began = bl_ticks_settled();
	if (pass->with)
		bl_tx_slot_pass_on(slot, len, stream);
}

bl_noinline void bl_pass_next(struct bl_ep *ep)
{
	struct bl_pass *pass = &ep->pass;
	uint64_t ns = (bl_ticks_settled() - pass->began) * 1000 / bl_ticks_per_us(), last_empty;
	uint32_t full;

	ep->sampled = false;
	look_at_queue(ep, &full, &last_empty);
	if (ns < bl_pass_long_ns && full == pass->full && last_empty == pass->last_empty)
		bl_pass_judge(pass, (uint32_t)ns, &ep->locks);
}
