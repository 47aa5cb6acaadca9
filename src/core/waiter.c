/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * waiter.c: see waiter.h. Serialised by the domain.
 */
#include "core/waiter.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/comp.h"
#include "core/ep.h"

void bl_wait_init(struct bl_waiter *w, struct bl_cq *cq, struct bl_cntr *cntr)
{
	*w = (struct bl_waiter){.cq = cq, .cntr = cntr, .epoll = -1, .event = -1};
}

void bl_wait_fini(struct bl_waiter *w)
{
	if (w->epoll < 0)
		return;
	close(w->epoll);
	close(w->event);
}

void bl_wait_raise(struct bl_waiter *w)
{
	uint64_t one = 1;

	if (w->event >= 0 && write(w->event, &one, sizeof one) < 0)
		return; /* it is readable already */
}

void bl_wait_interrupt(struct bl_waiter *w)
{
	struct bl_wait_group g = bl_wait_group_of(w);

	bl_wait_raise(w);
	for (uint32_t i = 0; i < g.count; i++)
		bl_local_wake(&g.ep[i]->local);
}

bl_cold void bl_wait_wake(struct bl_waiter *w)
{
	w->armed = false;
	if (w->cq)
		bl_cq_limit(w->cq, true);
	else
		w->cntr->asleep = false;
	bl_wait_interrupt(w);
}

int bl_wait_add(struct bl_waiter *w, struct bl_ep *ep)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd;

	if (w->epoll < 0)
		return 0;
	fd = bl_local_wake_socket(&ep->local);
	if (fd < 0)
		return fd;
	if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
		return -errno;
	return 0;
}

void bl_wait_remove(struct bl_waiter *w, struct bl_ep *ep)
{
	if (w->epoll >= 0 && ep->local.doorbell.wake_socket >= 0)
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, ep->local.doorbell.wake_socket, NULL);
}

/* It sleeps on what isn't all any more that it should. */
void bl_wait_stir(struct bl_waiter *w, const struct bl_waiter *self)
{
	if (w->armed || w->sleepers)
		bl_wait_wake(w);
}

static bool is_bound(const struct bl_cntr *cntr, const struct bl_ep *ep)
{
	for (uint32_t i = 0; i < cntr->nep; i++)
		if (cntr->ep[i] == ep)
			return true;
	return false;
}

static void leave_sockets(struct bl_cntr *cntr)
{
	for (struct bl_ep *ep = cntr->domain->eps; ep; ep = ep->next_in_domain)
		if (!is_bound(cntr, ep))
			bl_wait_remove(&cntr->wait, ep);
}

int bl_wait_widen(struct bl_cntr *cntr)
{
	struct bl_domain *domain = cntr->domain;

	for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain) {
		int err = bl_wait_add(&cntr->wait, ep);

		if (err) {
			leave_sockets(cntr);
			return err;
		}
	}
	cntr->next_regional = domain->regional;
	domain->regional = cntr;
	bl_wait_stir(&cntr->wait, NULL);
	return 0;
}

void bl_wait_narrow(struct bl_cntr *cntr)
{
	struct bl_cntr **at = &cntr->domain->regional;
	struct bl_waiter *w = &cntr->wait;

	/* On whatever endpoint's futex. */
	for (struct bl_ep *ep = cntr->domain->eps; ep && w->sleepers; ep = ep->next_in_domain)
		bl_local_wake(&ep->local);
	bl_wait_stir(w, NULL);
	leave_sockets(cntr);
	while (*at != cntr)
		at = &(*at)->next_regional;
	*at = cntr->next_regional;
}
