/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * endpoint.c: an endpoint's beginning and end, the less frequent parts of progress,
 * and domains. Serialised by the domain.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/mr.h"
#include "core/retry.h"
#include "endpoint/api.h"
#include "endpoint/srx.h"
#include "endpoint/trigger.h"
#include "endpoint/txq.h"
#include "transport/local/link/atomics_page.h"
#include "transport/local/rma/batch.h"
#include "transport/local/rma/count.h"
#include "transport/local/rma/rma.h"
#include "transport/local/ways/proxy.h"

#define LOOK_EVERY_US	  10000 /* after peers' lives: well inside the 100 ms promised */
#define SILENT_LOOKS	  2	/* a lane silent for so long is no longer polled */
#define FLUSH_NS	  1000000000ull
#define FLUSH_INJECTED_NS 10000000000ull
#define CONNECT_LOOKS	  450

/* Its ring is always full: the slow path finds out what it stands for. */
struct bl_peer bl_nobody;

/* --- domain ------------------------------------------------------------- */

/* And of neighbours that its endpoints know only now. */
static bl_cold void settle(struct bl_domain *domain)
{
	for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain) {
		/* Who has been told that we are connected, and has counted since, has arrived when
		 * the service thread, which says so under this lock, has dropped it. */
		pthread_mutex_lock(&ep->local.lock);
		pthread_mutex_unlock(&ep->local.lock);
		if (atomic_load_explicit(&ep->local.attention, memory_order_relaxed))
			bl_ep_adopt(ep);
		bl_rma_count_take_all(ep);
	}
}

static const struct bl_mr_hooks hooks = {.number = bl_rma_count_number, .settle = settle};

int bl_domain_open(struct bl_domain **domain)
{
	*domain = calloc(1, sizeof **domain);
	if (!*domain)
		return -ENOMEM;
	bl_huge_init(&(*domain)->huge);
	(*domain)->hooks = &hooks;
	return 0;
}

int bl_domain_close(struct bl_domain *domain)
{
	if (domain->users)
		return -EBUSY;
	bl_mr_free_table(domain);
	free(domain->ep);
	free(domain);
	return 0;
}

/* --- binding ------------------------------------------------------------ */

static int list_add(struct bl_ep ***list, uint32_t *count, struct bl_ep *ep)
{
	struct bl_ep **grown;

	for (uint32_t i = 0; i < *count; i++)
		if ((*list)[i] == ep)
			return 0;
	grown = realloc(*list, (*count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	grown[(*count)++] = ep;
	*list = grown;
	return 0;
}

static void list_remove(struct bl_ep **list, uint32_t *count, struct bl_ep *ep)
{
	for (uint32_t i = 0; i < *count; i++)
		if (list[i] == ep) {
			list[i] = list[--*count];
			return;
		}
}

/* A shared context outlives the vectors of its members: what its receives name is
 * somewhere else in the next one, or nowhere. */
static void rename_sources(struct bl_ep *home)
{
	for (struct bl_peer *name = home->local.peers.all; name; name = name->next.all)
		name->av_index = home->av ? bl_av_find(home->av, &name->addr) : BL_ADDR_ANY;
}

/* The endpoint is one of a queue's or counter's, unless it can't wake who waits there. */
static int list_join(struct bl_ep ***list, uint32_t *count, struct bl_waiter *w, struct bl_ep *ep)
{
	uint32_t before = *count;
	int err = list_add(list, count, ep);

	if (!err)
		err = bl_wait_add(w, ep);
	if (err)
		*count = before; /* it is the last, or was there before */
	return err;
}

int bl_ep_bind_av(struct bl_ep *ep, struct bl_av *av)
{
	int err;

	if (ep->av)
		return -EINVAL;
	err = list_add(&av->ep, &av->nep, ep);
	if (err)
		return err;
	ep->av = av;
	if (unlikely(ep->shared))
		rename_sources(ep);
	return 0;
}

void bl_ep_unbind_av(struct bl_ep *ep)
{
	if (ep->av)
		list_remove(ep->av->ep, &ep->av->nep, ep);
	for (uint64_t i = 0; i < ep->ndest; i++) /* places in a vector that it has no more */
		ep->dest[i] = &bl_nobody;
	ep->av = NULL;
	if (unlikely(ep->shared))
		rename_sources(ep);
}

int bl_ep_bind_cq(struct bl_ep *ep, struct bl_cq *cq, uint64_t flags)
{
	int err;

	if ((flags & BL_SEND && ep->bound.tx_cq) || (flags & BL_RECV && ep->bound.rx_cq))
		return -EINVAL;
	err = list_join(&cq->ep, &cq->nep, &cq->wait, ep);
	if (err)
		return err;
	if (flags & BL_SEND) {
		ep->bound.tx_cq = cq;
		cq->users++;
	}
	if (flags & BL_RECV) {
		ep->bound.rx_cq = cq;
		cq->users++;
	}
	return 0;
}

int bl_ep_bind_cntr(struct bl_ep *ep, struct bl_cntr *cntr, uint64_t flags)
{
	const struct {
		uint64_t flag;
		struct bl_cntr **at;
	} kind[] = {
		{BL_SEND, &ep->bound.tx_cntr},
		{BL_RECV, &ep->bound.rx_cntr},
		{BL_READ, &ep->rma_cntr.read},
		{BL_WRITE, &ep->rma_cntr.write},
		{BL_REMOTE_READ, &ep->rma_cntr.remote_read},
		{BL_REMOTE_WRITE, &ep->rma_cntr.remote_write},
	};
	int err;

	for (size_t i = 0; i < bl_countof(kind); i++)
		if (flags & kind[i].flag && *kind[i].at)
			return -EINVAL;
	err = list_join(&cntr->ep, &cntr->nep, &cntr->wait, ep);
	if (err)
		return err;
	for (size_t i = 0; i < bl_countof(kind); i++)
		if (flags & kind[i].flag) {
			*kind[i].at = cntr;
			cntr->users++;
		}
	bl_mr_events(ep);
	return 0;
}

static void unbind_cq(struct bl_cq **cq, struct bl_ep *ep)
{
	if (!*cq)
		return;
	bl_wait_remove(&(*cq)->wait, ep);
	list_remove((*cq)->ep, &(*cq)->nep, ep);
	(*cq)->users--;
	*cq = NULL;
}

static void unbind_cntr(struct bl_cntr **cntr, struct bl_ep *ep)
{
	if (!*cntr)
		return;
	bl_wait_remove(&(*cntr)->wait, ep);
	list_remove((*cntr)->ep, &(*cntr)->nep, ep);
	(*cntr)->users--;
	*cntr = NULL;
}

/* --- endpoint ----------------------------------------------------------- */

static void poll_peer(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer)
{
	bl_poll_peer(ep, sink, peer);
}

static const struct bl_up up = {
	.poll = poll_peer,
	.doorbells = bl_ep_doorbells,
	.look = bl_ep_look,
	.adopt = bl_ep_adopt,
	.connect = bl_ep_connect,
	.finish = bl_rndv_finish,
	.pull = bl_recv_op_begin,
};

struct bl_ep *bl_ep_new(struct bl_domain *domain)
{
	struct bl_ep *e = aligned_alloc(BL_PAIR, bl_round_up(sizeof *e, BL_PAIR));

	if (!e)
		return NULL;
	memset(e, 0, sizeof *e);
	e->tagged.posted.tail = &e->tagged.posted.head;
	e->msg.posted.tail = &e->msg.posted.head;
	e->tagged.unexpected.tail = &e->tagged.unexpected.head;
	e->msg.unexpected.tail = &e->msg.unexpected.head;
	e->limit.eager_max = (uint16_t)bl_limits()->eager_max;
	e->limit.inject_max = (uint32_t)bl_inject_max();
	e->min_multi_recv = 64;
	e->ways.habit.leaves = bl_knobs()->overlap == BL_OVERLAP_NEVER ? 0 : BL_LEAVES_MOST;
	e->limit.publish_above = BL_PROXY_MIN - 1;
	if (bl_knobs()->overlap == BL_OVERLAP_ALWAYS)
		bl_habit_missed(e);
	e->domain = domain;
	e->demoting.locks = domain->locks;
	e->number = ++domain->opened;
	domain->users++;
	e->home = e;
	e->up = &up;
	return e;
}

void bl_ep_free(struct bl_ep *ep)
{
	bl_slabs_free(ep);
	bl_unexpected_pool_fini(ep);
	free(ep->dest);
	ep->domain->users--;
	free(ep);
}

int bl_ep_open(struct bl_domain *domain, struct bl_ep **ep)
{
	struct bl_ep *e = bl_ep_new(domain);
	int err;

	if (!e)
		return -ENOMEM;
	err = bl_local_open(&e->local);
	if (err) {
		bl_ep_free(e);
		return err;
	}
	/* With another endpoint nothing is kept any more (batch.h). Forked, it is our parent's.
	 */
	for (uint32_t i = 0; i < domain->nep; i++)
		if (domain->ep[i]->local.seg.header && bl_batch_any(domain->ep[i]))
			bl_ep_progress(domain->ep[i]);
	err = list_add(&domain->ep, &domain->nep, e);
	if (!err)
		err = bl_wait_meet(e);
	if (err) {
		list_remove(domain->ep, &domain->nep, e);
		bl_local_close(&e->local);
		bl_ep_free(e);
		return err;
	}
	e->next_in_domain = domain->eps;
	domain->eps = e;
	bl_work_meet(e);
	bl_rma_count_meet(e);
	*ep = e;
	return 0;
}

int bl_ep_rename(struct bl_ep *ep, const uint8_t id[16])
{
	return bl_local_rename(&ep->local, id);
}

int bl_ep_enable(struct bl_ep *ep)
{
	int err;

	ep->watch.next_look = bl_ticks() + LOOK_EVERY_US * bl_ticks_per_us();
	err = bl_local_enable(&ep->local, ep->limit.eager_max);
	if (err)
		return err;
	ep->rma.atomics_page = bl_atomics_page_own();
	bl_mr_publish(ep);
	bl_habit_stays(ep);
	bl_srx_enabled(ep);
	bl_wait_enabled(ep);
	return 0;
}

/* Whom we wait for may be of our own domain: while we hold its lock, nobody else progresses it. */
static void let_others_go_on(struct bl_ep *ep)
{
	struct bl_domain *domain = ep->domain;
	bool locked = atomic_load_explicit(&domain->lock.held, memory_order_relaxed);

	for (struct bl_ep *other = domain->eps; other; other = other->next_in_domain)
		if (other != ep && other->local.seg.header)
			bl_ep_progress(other);
	if (locked)
		bl_domain_unlock(domain);
	sched_yield();
	if (locked)
		bl_domain_lock(domain);
}

/* What we owe to others (that their messages have arrived, say) must not die in our queues, nor
 * what need not wait behind a fence any more, nor what is kept to be done together (batch.h). A
 * peer that doesn't read for a second is left alone, but for what was injected, which its user
 * takes for sent: that it has for longer. */
static void flush_before_close(struct bl_ep *ep)
{
	uint64_t began = bl_clock_ns();
	bool ours = ep->local.seg.header; /* else we are forked */
	bool queued = ours && ep->txq.nactive, kept = ours && bl_batch_any(ep);
	bool owing = true;

	while (owing &&
	       bl_clock_ns() - began < (bl_txq_owes(ep, true) ? FLUSH_INJECTED_NS : FLUSH_NS)) {
		if (queued | kept) /* the end of what it waits for may have come, unread */
			bl_ep_progress(ep);
		bl_control_flush(ep);
		owing = (queued && bl_txq_owes(ep, false)) || (kept && bl_batch_left(ep));
		for (uint32_t i = 0; i < ep->local.nby_index; i++) {
			struct bl_peer *peer = ep->local.by_index[i];

			owing |= peer && peer->control.n && !bl_peer_life(peer);
		}
		if (owing)
			let_others_go_on(ep);
	}
	if (ours && ep->txq.kept)
		bl_warn("%zu injected bytes are lost: they still wait, for a receiver that doesn't "
			"look, or behind a fence",
			ep->txq.kept);
}

static void leave_domain(struct bl_ep *ep)
{
	struct bl_ep **at = &ep->domain->eps;

	while (*at != ep)
		at = &(*at)->next_in_domain;
	*at = ep->next_in_domain;
	for (struct bl_cntr *c = ep->domain->regional; c; c = c->next_regional)
		bl_wait_interrupt(&c->wait); /* what they sleep on is about to go */
	list_remove(ep->domain->ep, &ep->domain->nep, ep);
	bl_wait_part(ep);
}

int bl_ep_close(struct bl_ep *ep)
{
	/* Who has come unseen may have counted operations on our memory. */
	if (ep->local.seg.header &&
	    atomic_load_explicit(&ep->local.attention, memory_order_relaxed))
		bl_ep_adopt(ep);
	flush_before_close(ep);
	bl_rndv_close(ep);
	bl_proxy_close(ep);
	leave_domain(ep);
	bl_rma_close(ep);
	bl_srx_leave(ep);
	bl_work_drop(ep);
	bl_txq_drop(ep);
	unbind_cq(&ep->bound.tx_cq, ep);
	unbind_cq(&ep->bound.rx_cq, ep);
	unbind_cntr(&ep->bound.tx_cntr, ep);
	unbind_cntr(&ep->bound.rx_cntr, ep);
	unbind_cntr(&ep->rma_cntr.read, ep);
	unbind_cntr(&ep->rma_cntr.write, ep);
	unbind_cntr(&ep->rma_cntr.remote_read, ep);
	unbind_cntr(&ep->rma_cntr.remote_write, ep);
	bl_local_close(&ep->local);
	bl_ep_unbind_av(ep);
	bl_rndv_drop_all(ep);
	bl_recv_drop_all(ep);
	free(ep->rndv.transfer);
	free(ep->rndv.request);
	free(ep->rndv.serving);
	bl_ep_free(ep);
	return 0;
}

void bl_ep_getname(struct bl_ep *ep, struct bl_addr *addr)
{
	*addr = ep->local.addr;
}

void bl_ep_set_min_multi_recv(struct bl_ep *ep, size_t bytes)
{
	ep->min_multi_recv = bytes ? bytes : 1; /* a full buffer takes nothing more */
}

size_t bl_ep_min_multi_recv(struct bl_ep *ep)
{
	return ep->min_multi_recv;
}

/* Room for `count` destinations, those that are new unresolved. */
static int grow_dest(struct bl_ep *ep, uint64_t count)
{
	struct bl_peer **grown = realloc(ep->dest, count * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	ep->dest = grown;
	while (ep->ndest < count)
		ep->dest[ep->ndest++] = &bl_nobody;
	return 0;
}

void bl_ep_unname(struct bl_ep *ep, const struct bl_peer *peer)
{
	uint64_t own = peer->av_index;

	if (own < ep->ndest && ep->dest[own] == peer)
		ep->dest[own] = &bl_nobody;
	for (uint64_t i = 0; unlikely(peer->many_names) && i < ep->ndest; i++)
		if (ep->dest[i] == peer)
			ep->dest[i] = &bl_nobody;
}

int bl_ep_resolve(struct bl_ep *ep, uint64_t index, struct bl_peer **peer)
{
	struct bl_addr addr;
	int err;

	if (index < ep->ndest && ep->dest[index] != &bl_nobody) {
		*peer = ep->dest[index];
		return 0;
	}
	if (unlikely(ep->shared && !ep->av))
		return bl_srx_expect(ep, index, peer);
	if (!ep->av || bl_av_lookup(ep->av, index, &addr))
		return -EINVAL;
	if (index >= ep->ndest && (err = grow_dest(ep, ep->av->room)))
		return err;
	*peer = bl_local_peer(&ep->local, &addr);
	if (!*peer)
		return -ENOMEM;
	if ((*peer)->av_index == BL_ADDR_ANY)
		(*peer)->av_index = index;
	else if ((*peer)->av_index != index)
		(*peer)->many_names = true;
	/* Else what names it goes the slow way, and fails, or waits. */
	if (likely(!(*peer)->dead && bl_txq_is_empty((*peer)->txq)))
		ep->dest[index] = *peer;
	return 0;
}

/* --- progress ----------------------------------------------------------- */

static void adopted(struct bl_peer *peer)
{
	struct bl_ep *ep = bl_containerof(peer->local, struct bl_ep, local);

	bl_proxy_meet(ep, peer);
	ep->watch.looks = 0;
	if (peer->av_index != BL_ADDR_ANY || !ep->av)
		return;
	peer->av_index = bl_av_find(ep->av, &peer->addr);
}

static void lost(struct bl_peer *peer)
{
	struct bl_ep *ep = bl_containerof(peer->local, struct bl_ep, local);
	struct bl_sink none = BL_SINK_NONE;

	bl_ep_peer_gone(ep, &none, peer, -peer->error);
}

void bl_ep_adopt(struct bl_ep *ep)
{
	bl_local_adopt(&ep->local, adopted, lost);
	ep->watch.next_look = bl_ticks(); /* the news may be of a death */
}

/* Ourselves, say. */
static int connected_now(struct bl_ep *ep, const struct bl_peer *peer)
{
	bl_ep_adopt(ep);
	if (peer->dead || peer->adopted)
		return -(int)peer->dead;
	return -EAGAIN;
}

/*
 * The service threads connect a pair in about 200 us, without help of their users.
 * Programs take -EAGAIN from an endpoint with nothing under way for a failure, or
 * never ask again: so an operation waits. All of them together no longer than about
 * 100 ms without success, since peers that are stopped or aren't enabled yet may take
 * for ever; looks are counted, not time, which runs on when this process is stopped.
 * Not where the caller is in the middle of a list that others may change while the
 * domain is unlocked, or has promised its own caller not to wait.
 */
bl_cold int bl_ep_connect(struct bl_ep *ep, struct bl_peer *peer)
{
	/* Whoever shares the domain among threads has locked it. */
	bool locked = atomic_load_explicit(&ep->domain->lock.held, memory_order_relaxed);
	int err;

	for (;; ep->watch.looks++) {
		struct timespec moment = {.tv_nsec = ep->watch.looks < 50 ? 20000 : 200000};

		bl_ep_adopt(ep);
		if (peer->dead)
			return -(int)peer->dead;
		if (peer->adopted)
			return 0;
		err = bl_peer_connect(peer);
		if (err == -EAGAIN &&
		    (ep->txq.opening || ep->domain->working || ep->domain->nonblocking))
			return connected_now(ep, peer);
		if (err != -EAGAIN || ep->watch.looks >= CONNECT_LOOKS)
			return err;
		if (locked)
			bl_domain_unlock(ep->domain);
		nanosleep(&moment, NULL);
		if (locked)
			bl_domain_lock(ep->domain);
	}
}

/* Deaths are seen in time meanwhile; what a dead one has left to read is for the next read. */
static void finish_copies(struct bl_ep *ep, struct bl_sink *sink)
{
	while (!bl_rndv_finish_by(ep, sink, ep->watch.next_look)) {
		uint64_t now = bl_ticks();

		bl_ep_look(ep, sink, now);
		if (ep->watch.next_look == now)
			break;
	}
}

/*
 * Large messages, a step each. The sender has seen that its message was taken, and may be
 * away: so whoever goes away as well in the middle of it, with another message or with
 * nothing, is remembered, and the next read finishes what it can before it returns. By itself: who
 * comes back at once after posts (proxy.h) may leave with messages all the same.
 */
static void copy_on(struct bl_ep *ep, struct bl_sink *sink)
{
	uint64_t now = bl_ticks();
	bool rare = ep->ways.habit.leaves && bl_reads_are_rare(ep, now);

	if (ep->ways.habit.brought_at) {
		if (now - ep->ways.habit.brought_at > BL_AWAY_US * bl_ticks_per_us())
			ep->ways.habit.leaves_amid = BL_LEAVES_MOST;
		else if (ep->ways.habit.leaves_amid)
			ep->ways.habit.leaves_amid--;
		ep->ways.habit.brought_at = 0;
	}
	bl_ways_progress(ep, sink);
	if (!ep->rndv.ntransfer || unlikely(bl_knobs()->overlap == BL_OVERLAP_NEVER))
		return;
	if (unlikely(rare || (ep->ways.habit.leaves_amid && sink->n)))
		finish_copies(ep, sink);
	if (sink->n)
		ep->ways.habit.brought_at = bl_ticks();
}

bl_noinline void bl_ep_work(struct bl_ep *ep, struct bl_sink *sink)
{
	if (unlikely(atomic_load_explicit(&ep->local.attention, memory_order_relaxed))) {
		bl_ep_adopt(ep);
		bl_local_wake(&ep->local); /* other threads that sleep on us */
	}
	if (!ep->work)
		return;
	if (unlikely(ep->duty.counting))
		bl_rma_count_take_polled(ep);
	if (ep->rndv.ntransfer | ep->rndv.nserving | ep->ways.proxy.nclaimed) {
		bl_habit_back_now(ep); /* before the copies, which are no absence */
		copy_on(ep, sink);
		if (ep->ways.proxy.nclaimed)
			bl_proxy_progress(ep, sink);
		/* Reads may be far apart where each finds megabytes to copy. */
		if (unlikely(bl_is_due(bl_ticks(), ep->watch.next_look)))
			bl_ep_look(ep, sink, bl_ticks());
	}
	if (unlikely(ep->work != ep->rndv.ntransfer + ep->rndv.nserving + ep->ways.proxy.nclaimed +
					 ep->duty.attends + ep->duty.counting)) {
		if (ep->rma.active)
			bl_rma_progress(ep, sink);
		bl_control_flush(ep);
		if (ep->txq.nactive)
			bl_txq_progress(ep);
	}
	if (unlikely(ep->duty.attends))
		bl_work_progress(ep->domain, ep, sink);
}

struct visit {
	struct bl_ep *ep;
	struct bl_sink *sink;
};

/* All that a lane has which nobody polls: it would have to ring again for the rest. */
static void visit(struct bl_peer *peer, void *arg)
{
	struct visit *v = arg;
	bool more = v->sink->more;

	v->sink->more = true;
	bl_poll_peer(v->ep, v->sink, peer);
	v->sink->more = more;
	bl_ack_look(v->ep, v->sink, peer);
	if (unlikely(v->ep->duty.counting))
		bl_rma_count_take(v->ep, peer);
}

bl_noinline void bl_ep_doorbells(struct bl_ep *ep, struct bl_sink *sink)
{
	struct visit v = {ep, sink};

	/* What has come may be for a thread that sleeps on another queue. */
	if (bl_local_answer_doorbells(&ep->local, visit, &v))
		bl_local_wake(&ep->local);
}

bool bl_ep_needs_hand(const struct bl_ep *ep)
{
	if (ep->rndv.nserving ||
	    ep->work != ep->rndv.ntransfer + ep->duty.attends + ep->duty.counting +
				ep->txq.nactive + ep->credit.nowing ||
	    bl_txq_needs_hand(ep))
		return true;
	for (uint32_t i = 0; i < ep->rndv.ntransfer; i++)
		if (!ep->rndv.transfer[i]->handed_out || ep->rndv.transfer[i]->error)
			return true;
	return false;
}

void bl_ep_progress(struct bl_ep *ep)
{
	struct bl_sink none = BL_SINK_NONE;

	if (unlikely(ep->shared)) {
		bl_srx_progress(ep);
		return;
	}
	bl_progress(ep, &none);
	bl_proxy_upkeep(ep, bl_ticks());
	if (unlikely(bl_is_due(bl_ticks(), ep->watch.next_look)))
		bl_ep_look(ep, &none, bl_ticks());
	/* These two end operations as well, for which others may have waited. */
	if (unlikely(ep->txq.nactive))
		bl_txq_progress(ep);
	if (unlikely(ep->duty.attends))
		bl_work_look(ep->domain);
}

bl_cold void bl_ep_peer_gone(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer, int err)
{
	peer->dead = (uint32_t)err;
	bl_stats_peer_gone(peer, err);
	peer->tx.next = peer->tx.limit; /* full: senders take the slow path and learn why */
	bl_ep_unname(ep, peer);		/* and so do receivers */
	if (peer->control.n) {
		peer->control.n = 0;
		bl_control_paid(ep);
	}
	if (!bl_txq_is_empty(peer->txq)) /* another thread may sleep until it ends */
		bl_local_wake(&ep->local);
	bl_local_forget(&ep->local, peer);
	bl_proxy_abandon(ep, sink, peer, err);
	bl_rma_abandon(ep, sink, peer, err);
	bl_rndv_abandon(ep, sink, peer, err);
	/* One that closed in good order has said all it had to say, and a receive
	 * that is cancelled next is no error; one that died is. */
	if (err != ENOTCONN)
		bl_recv_abandon(ep, sink, peer, err);
	if (ep->warm == peer)
		ep->warm = NULL;
	/* Whoever broke the protocol lives and may write to its lane for as long. */
	if (err == ECONNRESET || err == ENOTCONN || err == ECONNREFUSED)
		bl_local_release(&ep->local, peer);
}

/* A job that is ended (MPI_Abort) loses many at once, and whoever waits for one of them hears of it
 * by an error. So the first is news to who reads the log; the others mostly follow from it. */
static void tell_of_death(const struct bl_peer *peer)
{
	static _Atomic bool told;

	if (atomic_exchange_explicit(&told, true, memory_order_relaxed))
		bl_debug("process %u has died", peer->addr.pid);
	else
		bl_info("process %u has died", peer->addr.pid);
}

bl_cold void bl_ep_look(struct bl_ep *ep, struct bl_sink *sink, uint64_t now)
{
	uint64_t period = LOOK_EVERY_US * bl_ticks_per_us();
	bool busy = false;

	ep->watch.next_look = now + period;
	if (unlikely(atomic_load_explicit(&ep->local.life.unkept, memory_order_relaxed)))
		bl_local_check_unkept(&ep->local);
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		struct bl_peer *peer = ep->local.by_index[i];
		int err;

		if (!peer || peer->dead)
			continue;
		if (peer->rx.next != peer->watch.seen_next) {
			peer->watch.seen_next = peer->rx.next;
			peer->watch.seen_at = now;
		}
		bl_stats_look(peer);
		if (!busy) /* one at a time */
			busy = bl_longring_look(peer);
		err = peer->broken ? -EPROTO : bl_peer_life(peer);
		bl_ack_look(ep, sink, peer);
		if (likely(!err))
			continue;
		/* What it sent before it went still counts, but for what it hadn't finished. */
		if (err != -EPROTO && bl_rx_peek(&peer->rx) && !bl_rx_is_unfinished(&peer->rx)) {
			bl_poll_peer(ep, sink, peer);
			ep->watch.next_look = now; /* until nothing is left */
			continue;
		}
		if (err == -ECONNRESET && bl_peer_lingers(peer, now)) {
			if (ep->watch.next_look != now)
				ep->watch.next_look = now + period / 10;
			continue;
		}
		if (err == -ECONNRESET)
			tell_of_death(peer);
		bl_ack_look(ep, sink, peer); /* its last words */
		bl_rma_count_take(ep, peer);
		bl_proxy_last(ep, sink, peer, err);
		bl_ep_peer_gone(ep, sink, peer, -err);
	}
	bl_nap_look(ep, now);
	if (ep->local.nunpolled)
		bl_local_listen(&ep->local, visit, &(struct visit){ep, sink});
	/* Whoever looks at doorbells anyway need poll no lane that is silent. */
	if (ep->local.npolled > (ep->local.nunpolled ? BL_POLLED_KEEP : BL_POLLED_CALM))
		bl_local_unpoll_silent(&ep->local, now - SILENT_LOOKS * period);
}
