/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wait.c: see wait.h. What wakes a sleeper:
 *
 *   a packet, a chunk that a neighbour has copied, an
 *   operation on our memory that it has counted,
 *   an ack bit (ack.c)                              its doorbell; transport/local/lane/doorbell.c
 *   room in a neighbour's ring                      the same, of who has said that it wants it
 *                                                   (bl_ep_want_credit); once
 *   a connection made or refused, an atomics page   the service thread
 *   a place behind a fence                          what opens it
 *   what a queued operation waits for, and nobody   a nap's end (bl_txq_needs_hand)
 *   tells of
 *   a neighbour's death                             the sleeper's own look every 50 ms, or,
 *                                                   for who polls a descriptor, the service
 *                                                   thread's
 *   another thread that took what came              bl_ep_doorbells, bl_ep_work
 *   another thread's completion in the same queue   the queue's limit (comp.c)
 *   another thread's count in the same counter      the counter's `asleep` (bl_cntr_up)
 *   an endpoint that is enabled                     bl_wait_enabled
 *   fi_cq_signal, fi_cntr_add and the like          bl_wait_interrupt, bl_wait_wake
 *
 * Limit and `asleep` are set while there are sleepers, and from a successful
 * bl_wait_try() until something comes: a poll of the descriptor has no end that we see.
 */
#include "endpoint/wait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/retry.h"
#include "endpoint/api.h"
#include "endpoint/trigger.h"
#include "endpoint/txq.h"

#define NAP_NS	1000000u /* where not everything wakes us */
#define SPIN_NS 20000u	 /* about what a sleep and a wake cost */

int bl_wait_fd(struct bl_waiter *w)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct bl_wait_group g = bl_wait_group_of(w);
	int err;

	if (w->epoll >= 0)
		return w->epoll;
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event < 0)
		return -errno;
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->event, &event)) {
		err = -errno;
		goto undo;
	}
	for (uint32_t i = 0; i < g.count; i++) {
		err = bl_wait_add(w, g.ep[i]);
		if (err)
			goto undo;
	}
	return w->epoll;

undo:
	bl_warn("no descriptor to wait on: %s", strerror(-err));
	if (w->epoll >= 0)
		close(w->epoll);
	close(w->event);
	w->epoll = w->event = -1;
	return err;
}

/* Whether who appends or counts must wake somebody. */
static void settle(struct bl_waiter *w)
{
	if (w->cq)
		bl_cq_limit(w->cq, !w->armed && !w->sleepers);
	else
		w->cntr->asleep = w->armed || w->sleepers;
}

/* The waiters of all queues and counters of an endpoint, and of its domain's regions, some perhaps
 * twice. self: for `visit`. */
static void each_waiter(struct bl_ep *ep,
			void (*visit)(struct bl_waiter *w, const struct bl_waiter *self),
			const struct bl_waiter *self)
{
	struct bl_cq *cq[] = {ep->bound.tx_cq, ep->bound.rx_cq};
	struct bl_cntr *cntr[] = {ep->bound.tx_cntr,	    ep->bound.rx_cntr,
				  ep->rma_cntr.read,	    ep->rma_cntr.write,
				  ep->rma_cntr.remote_read, ep->rma_cntr.remote_write};

	for (size_t i = 0; i < bl_countof(cq); i++)
		if (cq[i])
			visit(&cq[i]->wait, self);
	for (size_t i = 0; i < bl_countof(cntr); i++)
		if (cntr[i])
			visit(&cntr[i]->wait, self);
	for (struct bl_cntr *c = ep->domain->regional; c; c = c->next_regional)
		visit(&c->wait, self);
}

void bl_wait_enabled(struct bl_ep *ep)
{
	each_waiter(ep, bl_wait_stir, NULL);
}

/* --- counters of regions ------------------------------------------------- */

int bl_wait_meet(struct bl_ep *ep)
{
	for (struct bl_cntr *c = ep->domain->regional; c; c = c->next_regional) {
		int err = bl_wait_add(&c->wait, ep);

		if (err) {
			bl_wait_part(ep);
			return err;
		}
	}
	return 0;
}

void bl_wait_part(struct bl_ep *ep)
{
	for (struct bl_cntr *c = ep->domain->regional; c; c = c->next_regional)
		bl_wait_remove(&c->wait, ep);
}

/* --- falling asleep ----------------------------------------------------- */

static void pass_on(struct bl_waiter *w, const struct bl_waiter *self)
{
	if (w != self)
		bl_wait_raise(w);
}

/* Readable no longer, until there is news; true: it was. The other queues and counters of
 * these endpoints hear of it from the same sockets: pass it on. */
static bool drain(struct bl_waiter *w)
{
	struct bl_wait_group g = bl_wait_group_of(w);
	uint64_t count;
	bool any;

	any = read(w->event, &count, sizeof count) > 0;
	for (uint32_t i = 0; i < g.count; i++) {
		if (!bl_local_drain_wakes(&g.ep[i]->local))
			continue;
		any = true;
		each_waiter(g.ep[i], pass_on, w);
	}
	return any;
}

static bool has_something(const struct bl_waiter *w)
{
	return w->cq && w->cq->head != w->cq->tail;
}

/* The endpoint on whose futex this thread dozes may be gone, others in its place. */
static void leave_futex(const struct bl_waiter *w, struct bl_sleep *sleep)
{
	struct bl_ep *ep = sleep->ep ? bl_wait_domain(w)->eps : NULL;

	for (; ep; ep = ep->next_in_domain)
		if (ep->number == sleep->ep)
			bl_local_rise(&ep->local);
	sleep->ep = 0;
}

/* Make progress once more, and have all endpoints wake us from now on. The most
 * that we may sleep; 0: there is something. */
static uint64_t fall_asleep(struct bl_waiter *w, uint32_t how, struct bl_sleep *sleep)
{
	struct bl_wait_group g = bl_wait_group_of(w);
	uint64_t most = BL_WAIT_MOST_NS;
	uint32_t i;

	for (i = 0; i < g.count; i++)
		bl_ep_progress(g.ep[i]);
	if (has_something(w))
		return 0;
	for (i = 0; i < g.count; i++) {
		int err = bl_local_doze(&g.ep[i]->local, how, &sleep->futex);

		if (err == -EAGAIN)
			return 0;
		if (sleep->futex.word)
			sleep->ep = g.ep[i]->number;
		if (err)
			most = NAP_NS;
	}
	/* What was done before its doer could see that we stopped polling: a chunk counted, the
	 * end of a message that had no room in the ring. */
	for (i = 0; i < g.count; i++) {
		bl_ack_look_at_all(g.ep[i]); /* first: what waits for that may begin */
		if (g.ep[i]->work)
			bl_ep_progress(g.ep[i]);
	}
	/* That pass may have begun what only we can end, or what finds no room. */
	for (i = 0; i < g.count; i++) {
		int err = bl_ep_want_credit(g.ep[i]);

		if (g.ep[i]->credit.nowing)
			bl_control_flush(g.ep[i]);
		/* What is behind it may wait for something else, which nobody was asked for. */
		if (g.ep[i]->txq.nactive && bl_txq_progress(g.ep[i]) &&
		    (g.ep[i]->txq.nactive || g.ep[i]->duty.attends))
			most = NAP_NS;
		bl_ep_forgo_credit(g.ep[i], false);
		if (err || bl_ep_needs_hand(g.ep[i]))
			most = NAP_NS;
	}
	/* That pass may have found work to begin. */
	if (bl_work_naps(bl_wait_domain(w), g.count))
		most = NAP_NS;
	if (has_something(w)) {
		leave_futex(w, sleep);
		return 0;
	}
	return most;
}

/*
 * Have the descriptor wake us. What has made it readable may not yet have woken others
 * who poll it, and who would find it silent again now: it is made so once more if there
 * is something, or when something comes.
 */
static uint64_t fall_asleep_on_fd(struct bl_waiter *w, struct bl_sleep *sleep)
{
	bool news = drain(w);
	uint64_t most = fall_asleep(w, BL_SLEEP_SOCKET, sleep);

	if (news && !most)
		bl_wait_raise(w);
	else if (news)
		w->armed = true;
	return most;
}

int bl_wait_try(struct bl_waiter *w)
{
	struct bl_sleep sleep = {0};
	bool quiet;

	if (w->epoll < 0)
		return has_something(w) ? -EAGAIN : 0;
	quiet = fall_asleep_on_fd(w, &sleep) == BL_WAIT_MOST_NS;
	quiet &= !bl_was_refused();
	w->armed |= quiet;
	settle(w);
	return quiet ? 0 : -EAGAIN;
}

/* One endpoint's futex is the quickest; for more, or none, the descriptor. */
bool bl_wait_doze(struct bl_waiter *w, struct bl_sleep *sleep)
{
	*sleep = (struct bl_sleep){.fd = -1};
	if (bl_wait_group_of(w).count == 1) {
		sleep->most = fall_asleep(w, BL_SLEEP_FUTEX, sleep);
		sleep->others = !sleep->most && bl_wait_group_of(w).ep[0]->local.doorbell.sleepers;
	} else if ((sleep->fd = bl_wait_fd(w)) >= 0) {
		sleep->most = fall_asleep_on_fd(w, sleep);
	} else {
		sleep->most = fall_asleep(w, 0, sleep);
		sleep->most = bl_min(sleep->most, (uint64_t)NAP_NS);
	}
	w->sleepers += sleep->most > 0;
	settle(w);
	return sleep->most;
}

void bl_wait_sleep(const struct bl_sleep *sleep, uint64_t ns)
{
	uint64_t most = bl_min(sleep->most, ns);
	struct timespec timeout = {(time_t)(most / 1000000000u), (long)(most % 1000000000u)};
	struct pollfd fd = {.fd = sleep->fd, .events = POLLIN};

	if (sleep->futex.word)
		bl_local_sleep(&sleep->futex, most);
	else
		ppoll(&fd, 1, &timeout, NULL); /* -1 is no descriptor: it only sleeps */
}

/* Who slept was in the library all the time: what went on meanwhile went on in a wait. */
void bl_wait_rise(struct bl_waiter *w, struct bl_sleep *sleep)
{
	struct bl_wait_group g = bl_wait_group_of(w);
	uint64_t now = bl_ticks();

	for (uint32_t i = 0; i < g.count; i++)
		bl_presence_seen(g.ep[i], now);
	leave_futex(w, sleep);
	w->sleepers--;
	settle(w);
}

uint64_t bl_wait_spin_ns(void)
{
	return SPIN_NS;
}
