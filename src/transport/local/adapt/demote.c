/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * demote.c: samples of what demotion costs; see demote.h.
 */
#include "transport/local/adapt/demote.h"

#include "base/clock.h"
#include "endpoint/api.h"

/* A locked instruction takes that much longer; 2 to 6 ns without one, 60 to 120 with it. */
int32_t bl_demote_wait_ns = 30;
/* Something else has happened meanwhile. */
uint32_t bl_demote_long_ns = 1000;

/* Of BL_DEMOTE_PAIRS pairs so many took longer. */
static void say(struct bl_demote *pass, bool *locks)
{
	bool seen = pass->slower >= BL_DEMOTE_MOST;

	if (!seen && pass->slower > BL_DEMOTE_LEAST)
		return;
	if (seen == *locks)
		pass->sure = true;
	else if (pass->sure)
		pass->sure = false;
	else
		*locks = seen;
}

void bl_demote_judge(struct bl_demote *pass, uint32_t ns, bool *locks)
{
	pass->took[pass->with] = ns ? ns : 1;
	if (!pass->took[0] || !pass->took[1])
		return;
	pass->slower += (int64_t)pass->took[1] - pass->took[0] >= bl_demote_wait_ns;
	pass->took[0] = pass->took[1] = 0;
	if (++pass->pairs % BL_DEMOTE_PAIRS == 0) {
		say(pass, locks);
		pass->slower = 0;
	}
	pass->rest = pass->sure ? BL_DEMOTE_REST : 0;
}

/* Goes on with each read that has brought something, or has found nothing for one who waits. */
static uint64_t reads_of(const struct bl_cq *cq)
{
	return cq ? cq->full + cq->last_empty : 0;
}

static uint64_t reads(const struct bl_ep *ep)
{
	return reads_of(ep->bound.rx_cq) + reads_of(ep->bound.tx_cq);
}

bl_noinline void bl_demote_sample(struct bl_ep *ep, const struct bl_tx *tx,
				  const struct bl_slot *slot, size_t len, bool stream)
{
	struct bl_demote *pass = &ep->demote;
	bool talks = bl_tx_is_pingpong(tx);

	if (talks || pass->rest || ep->domain->locks) {
		pass->rest -= !talks && pass->rest;
		if (bl_demotes(ep, tx))
			bl_tx_slot_demote(slot, len, stream);
		return;
	}
	pass->with = bl_demote_with(pass);
	pass->reads = reads(ep);
	ep->demoting.sampled = true;
	pass->began = bl_ticks_settled();
	if (pass->with)
		bl_tx_slot_demote(slot, len, stream);
}

bl_noinline void bl_demote_next(struct bl_ep *ep)
{
	struct bl_demote *pass = &ep->demote;
	uint64_t now = bl_ticks_settled();
	uint64_t ns = (now - pass->began) * 1000 / bl_ticks_per_us();

	ep->demoting.sampled = false;
	if (ns < bl_demote_long_ns && reads(ep) == pass->reads)
		bl_demote_judge(pass, (uint32_t)ns, &ep->demoting.locks);
}
