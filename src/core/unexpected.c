/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * unexpected.c: messages whose receive isn't posted, and what becomes of both queues when an
 * endpoint closes; see post.h. Serialised by the domain.
 */
#include "core/match.h"
#include "core/post.h"
#include "core/stat.h"

/* --- the endpoint closes ---------------------------------------------------- */

static void drop_list(struct bl_ep *ep, struct bl_unexpected *u)
{
	for (struct bl_unexpected *next; u; u = next) {
		next = u->next;
		bl_unexpected_free(ep, u);
	}
}

/* What came to this member. */
static void drop_members(struct bl_ep *ep, struct bl_unexpected_queue *early)
{
	for (struct bl_unexpected **at = &early->head; *at;)
		if ((*at)->peer->local == &ep->local)
			bl_unexpected_free(ep, bl_unexpected_unlink(early, at));
		else
			at = &(*at)->next;
}

static void drop_claimed(struct bl_ep *ep, struct bl_unexpected **at)
{
	while (*at) {
		struct bl_unexpected *u = *at;

		if (u->peer->local != &ep->local) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		bl_unexpected_free(ep, u);
	}
}

void bl_recv_drop_from(struct bl_ep *home, struct bl_ep *ep)
{
	drop_members(ep, &home->tagged.unexpected);
	drop_members(ep, &home->msg.unexpected);
	drop_claimed(ep, &home->claimed);
}

void bl_recv_drop_all(struct bl_ep *ep)
{
	drop_list(ep, ep->tagged.unexpected.head);
	drop_list(ep, ep->msg.unexpected.head);
	drop_list(ep, ep->claimed);
	bl_unexpected_unindex(&ep->tagged.unexpected);
	bl_unexpected_unindex(&ep->msg.unexpected);
	bl_post_unindex(&ep->tagged.posted);
	bl_post_unindex(&ep->msg.posted);
}

/* Bytes of it that are copied here. */
static size_t bytes_kept(const struct bl_unexpected *u)
{
	return u->large ? 0 : u->len;
}

/* Messages beyond the eager limit that came whole and wait for their receives. While they are more
 * than BL_KEPT_MOST bytes we say so in our header, and senders, who look every few packets
 * (is_congested()), announce theirs. */
static void count_eager_long(struct bl_ep *ep, const struct bl_unexpected *u, bool comes)
{
	bool congested;

	if (u->large || likely(u->len <= ep->limit.eager_max))
		return;
	if (comes)
		ep->congestion.bytes += u->len;
	else
		ep->congestion.bytes -= u->len;
	congested = ep->congestion.bytes > BL_KEPT_MOST;
	if (congested != ep->congestion.high && ep->local.seg.header)
		atomic_store_explicit(&ep->local.seg.header->congested, congested,
				      memory_order_relaxed);
	ep->congestion.high = congested;
}

void bl_unexpected_add(struct bl_ep *ep, struct bl_unexpected_queue *early, struct bl_unexpected *u)
{
	bl_unexpected_append(early, u);
	bl_stat_unexpected(ep, bytes_kept(u));
	count_eager_long(ep, u, true);
}

/* ep: which it came to. */
void bl_unexpected_free(struct bl_ep *ep, struct bl_unexpected *u)
{
	bl_stat_unexpected_over(ep, bytes_kept(u));
	count_eager_long(ep, u, false);
	bl_unexpected_put(ep->home, u);
}
