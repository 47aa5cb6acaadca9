/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * srx.c: shared receive contexts and their members; see srx.h. Serialised by
 * the domain.
 */
#include "endpoint/srx.h"

#include <stdlib.h>

#include "core/match.h"
#include "endpoint/trigger.h"
#include "transport/local/ways/proxy.h"

/* --- the context ----------------------------------------------------------- */

int bl_srx_open(struct bl_domain *domain, struct bl_ep **home)
{
	struct bl_ep *ep = bl_ep_new(domain);

	if (!ep)
		return -ENOMEM;
	bl_local_open_names(&ep->local);
	ep->shared = true;
	*home = ep;
	return 0;
}

int bl_srx_close(struct bl_ep *home)
{
	if (home->srx.nmember)
		return -EBUSY;
	bl_work_drop(home);
	bl_recv_drop_all(home);
	bl_local_close(&home->local);
	free(home->srx.member);
	bl_ep_free(home);
	return 0;
}

/* --- members ----------------------------------------------------------------- */

int bl_srx_join(struct bl_ep *ep, struct bl_ep *home)
{
	struct bl_ep **grown;

	if (ep->home != ep || ep->domain != home->domain || ep->local.enabled)
		return -EINVAL;
	grown = realloc(home->srx.member, (home->srx.nmember + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	home->srx.member = grown;
	home->srx.member[home->srx.nmember++] = ep;
	ep->home = home;
	return 0;
}

bl_cold int bl_srx_expect(struct bl_ep *home, uint64_t index, struct bl_peer **peer)
{
	struct bl_peer *p = home->srx.expected;

	while (p && p->av_index != index)
		p = p->next.all;
	if (!p) {
		p = bl_slab(home, sizeof *p);
		if (!p)
			return -ENOMEM;
		p->av_index = index;
		p->next.all = home->srx.expected;
		home->srx.expected = p;
	}
	*peer = p;
	return 0;
}

/* There is a vector now: what stands in for a source gives way to its name. A receive from
 * nobody ends. */
static void name_sources(struct bl_ep *home, struct bl_post_queue *queue, bool tagged)
{
	struct bl_sink none = BL_SINK_NONE;

	bl_post_unindex(queue); /* its keys change */
	for (struct bl_post *post = queue->head, *next; post; post = next) {
		int err;

		next = post->next;
		if (!post->src || post->src->local)
			continue;
		err = bl_ep_resolve(home, post->src->av_index, &post->src);
		if (err)
			bl_recv_fail(home, &none, post, tagged, -err);
	}
}

int bl_srx_ready(struct bl_ep *ep)
{
	struct bl_ep *home = ep->home;
	int err;

	if (home == ep || home->av == ep->av)
		return 0;
	if (home->av)
		return -EINVAL;
	err = bl_ep_bind_av(home, ep->av);
	if (err)
		return err;
	name_sources(home, &home->tagged.posted, true);
	name_sources(home, &home->msg.posted, false);
	return 0;
}

/* A message into a multi-receive is dropped with its member. If it was the last,
 * nobody else says that the buffer is its owner's again. */
static void drop_user(struct bl_ep *home, struct bl_post *post)
{
	struct bl_ep *teller = bl_srx_teller(home);
	struct bl_sink none = BL_SINK_NONE;
	struct bl_comp_err err = {
		.comp = {.context = post->context, .flags = BL_MSG | BL_RECV | BL_MULTI_RECV},
		.err = ECANCELED,
		.src = BL_ADDR_ANY,
	};

	if (bl_multi_done(home, post))
		bl_cq_fail(teller->bound.rx_cq, &none, &err);
}

/* The receive was the context's, which lives on: its owner hears. */
static void call_off(struct bl_ep *ep, const struct bl_recv_op *t)
{
	struct bl_sink none = BL_SINK_NONE;
	struct bl_comp_err err = {
		.comp = {.context = t->end.context,
			 .flags = t->end.flags,
			 .buf = t->end.buf,
			 .tag = t->end.tag},
		.olen = t->sent,
		.err = ECANCELED,
		.src = t->peer->av_index,
	};

	if (ep->bound.rx_cntr)
		bl_cntr_error(ep->bound.rx_cntr);
	bl_cq_fail(ep->bound.rx_cq, &none, &err);
}

void bl_srx_leave(struct bl_ep *ep)
{
	struct bl_ep *home = ep->home;
	uint32_t i = 0;

	if (home == ep)
		return;
	while (home->srx.member[i] != ep)
		i++;
	home->srx.member[i] = home->srx.member[--home->srx.nmember];
	bl_proxy_neighbours(home);
	bl_recv_drop_from(home, ep);
	for (i = 0; i < ep->rndv.ntransfer; i++) {
		struct bl_recv_op *t = ep->rndv.transfer[i];

		if (t->end.multi)
			drop_user(home, t->end.multi);
		else if (t->end.work && t->end.work->ep == home)
			bl_work_over(t->end.work, ECANCELED);
		else if (!t->end.work)
			call_off(ep, t);
	}
	if (!home->srx.nmember)
		bl_ep_unbind_av(home); /* which may be closed before the context */
	ep->home = ep;
}

void bl_srx_progress(struct bl_ep *home)
{
	for (uint32_t i = 0; i < home->srx.nmember; i++)
		bl_ep_progress(home->srx.member[i]);
}

/* --- sources ------------------------------------------------------------------ */

int bl_srx_connect(struct bl_ep *home, uint64_t src)
{
	for (uint32_t i = 0; i < home->srx.nmember; i++) {
		struct bl_ep *ep = home->srx.member[i];
		struct bl_peer *peer;
		int err;

		if (!ep->local.enabled)
			continue;
		err = bl_ep_resolve(ep, src, &peer);
		if (err)
			return err;
		if (peer->dead)
			return -(int)peer->dead;
		err = peer->adopted ? 0 : bl_peer_connect(peer);
		return err == -EAGAIN ? 0 : err;
	}
	return 0;
}

void bl_srx_enabled(struct bl_ep *ep)
{
	struct bl_ep *home = ep->home;

	if (home == ep)
		return;
	/* A connection that fails ends the receives that wait for it. */
	for (const struct bl_peer *name = home->local.peers.all; name; name = name->next.all)
		if (name->av_index != BL_ADDR_ANY)
			bl_srx_connect(home, name->av_index);
}

void bl_srx_drain(struct bl_ep *home, const struct bl_peer *name)
{
	struct bl_sink none = BL_SINK_NONE;

	for (uint32_t i = 0; i < home->srx.nmember; i++) {
		struct bl_ep *ep = home->srx.member[i];
		struct bl_peer *peer = bl_local_find(&ep->local, &name->addr);

		if (peer && peer->adopted && !peer->dead)
			bl_poll_peer(ep, &none, peer);
	}
}
