/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * early.c: what was sent ahead of a message that waits for its receive, and what is left of
 * both queues when an endpoint closes; see recv.h. Serialised by the domain.
 *
 * What was sent ahead is copied out of the ring, as a short message that comes early is, and once
 * more when the receive is there: less than a system call costs where messages are carried. Not
 * more than BL_KEPT_MOST for an endpoint, so that senders that nobody receives from take no more
 * memory than that; what comes then is dropped, and the message copied once later.
 *
 * The pieces of one message follow each other in their sender's ring. So of each sender one
 * message is incomplete at most, and the list of those is short.
 */
#include <stdlib.h>
#include <string.h>

#include "core/match.h"
#include "core/recv.h"

struct bl_kept *bl_kept_new(struct bl_ep *ep, const struct bl_arrival *a)
{
	size_t size = sizeof(struct bl_kept) + a->ahead;
	struct bl_kept *k = ep->keeping;

	while (k && k->peer != a->peer)
		k = k->next;
	if (k || size > BL_KEPT_MOST - ep->kept_bytes)
		return NULL; /* no sender begins with one before the other is complete */
	k = malloc(size);
	if (!k)
		return NULL;
	*k = (struct bl_kept){
		.next = ep->keeping,
		.peer = a->peer,
		.request = a->request,
		.len = a->ahead,
	};
	ep->keeping = k;
	ep->kept_bytes += size;
	return k;
}

static void complete(struct bl_ep *ep, const struct bl_kept *k)
{
	struct bl_kept **at = &ep->keeping;

	while (*at && *at != k)
		at = &(*at)->next;
	if (*at)
		*at = k->next;
}

void bl_kept_free(struct bl_ep *ep, struct bl_kept *k)
{
	if (k->got < k->len)
		complete(ep, k);
	ep->kept_bytes -= sizeof *k + k->len;
	free(k);
}

void bl_kept_add(struct bl_ep *ep, const struct bl_peer *peer, uint64_t request, uint64_t off,
		 const void *bytes, size_t len)
{
	struct bl_kept *k = ep->keeping;

	while (k && (k->peer != peer || k->request != request))
		k = k->next;
	if (!k || off != k->got || len > k->len - k->got)
		return; /* dropped; or nonsense */
	memcpy(k->bytes + off, bytes, len);
	k->got += (uint32_t)len;
	if (k->got == k->len)
		complete(ep, k);
}

/* --- the endpoint closes ---------------------------------------------------- */

static void drop_list(struct bl_ep *ep, struct bl_unex *u)
{
	for (struct bl_unex *next; u; u = next) {
		next = u->next;
		bl_unex_free(ep, u);
	}
}

/* What came to this member. */
static void drop_members(struct bl_ep *ep, struct bl_unex_queue *early)
{
	for (struct bl_unex **at = &early->head; *at;)
		if ((*at)->peer->local == &ep->local)
			bl_unex_free(ep, bl_unex_unlink(early, at));
		else
			at = &(*at)->next;
}

static void drop_claimed(struct bl_ep *ep, struct bl_unex **at)
{
	while (*at) {
		struct bl_unex *u = *at;

		if (u->peer->local != &ep->local) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		bl_unex_free(ep, u);
	}
}

void bl_recv_drop_from(struct bl_ep *home, struct bl_ep *ep)
{
	drop_members(ep, &home->early_tagged);
	drop_members(ep, &home->early_msg);
	drop_claimed(ep, &home->claimed);
}

void bl_recv_drop_all(struct bl_ep *ep)
{
	drop_list(ep, ep->early_tagged.head);
	drop_list(ep, ep->early_msg.head);
	drop_list(ep, ep->claimed);
	bl_unex_unindex(&ep->early_tagged);
	bl_unex_unindex(&ep->early_msg);
	bl_post_unindex(&ep->tagged);
	bl_post_unindex(&ep->msg);
}
