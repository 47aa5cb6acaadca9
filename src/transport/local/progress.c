/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * progress.c: what is under way, in whichever way, goes on; see deliver.h. Serialised by the
 * domain.
 */
#include "transport/local/deliver.h"
#include "transport/local/ways/frag.h"
#include "transport/local/ways/rndv.h"

/* Over our sends alone. */
static void send_ops_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	for (uint32_t i = 0; i < ep->rndv.nserving;) {
		struct bl_send_op *r = ep->rndv.serving[i];

		/* Who has begun finishes: the receiver may have gone away, relying on that. */
		if (r->chunks && bl_rndv_help(ep, r)) {
			if (unlikely(bl_is_due(bl_ticks(), ep->watch.next_look)))
				ep->up->look(ep, sink, bl_ticks()); /* it may be over now */
			continue;
		}
		r->chunks = NULL;
		if (bl_frag_serve(ep, r))
			i++;
		else
			bl_rndv_unserve(ep, r);
	}
}

void bl_ways_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	bl_rndv_progress(ep, sink);
	send_ops_progress(ep, sink);
}
