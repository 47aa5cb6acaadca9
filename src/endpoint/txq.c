/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * txq.c: see txq.h. Records lie one behind the other in chunks of memory that the kernel gives and
 * gets back whole, so that a long queue leaves nothing behind. Serialised by the domain.
 */
#include "endpoint/txq.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/knobs.h"
#include "core/retry.h"
#include "core/stat.h"
#include "endpoint/api.h"
#include "endpoint/trigger.h"

#define CHUNK	65536u /* bytes; of which only those in use have pages */
#define AT_ONCE 64u    /* operations that begin in one pass, before others have their turn */

enum kind { SEND, INJECT, RMA, CANCELLED };

/* Behind it: copies of what `send` or `rma` point to, then the bytes that its owner has back. */
struct record {
	uint32_t size; /* of all of that */
	uint8_t kind;
	bool fence;
	uint32_t kept; /* bytes */
	uint64_t number;
	union {
		struct bl_send send;
		struct bl_rma rma;
	};
};

struct bl_txq_chunk {
	struct bl_txq_chunk *next;
	uint32_t size, head, tail; /* bytes, from its beginning */
	alignas(16) char at[];
};

/* --- memory ---------------------------------------------------------------------- */

static struct bl_txq_chunk *new_chunk(struct bl_ep *ep, size_t bytes)
{
	size_t size = bl_round_up(bytes + sizeof(struct bl_txq_chunk), CHUNK);
	struct bl_txq_chunk *c = ep->txq.spare;

	if (c && size == CHUNK) {
		ep->txq.spare = NULL;
	} else {
		c = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (c == MAP_FAILED)
			return NULL;
	}
	*c = (struct bl_txq_chunk){.size = (uint32_t)size, .head = sizeof *c, .tail = sizeof *c};
	return c;
}

/* One is kept, for whoever often finds a full ring. */
static void free_chunk(struct bl_ep *ep, struct bl_txq_chunk *c)
{
	if (!ep->txq.spare && c->size == CHUNK)
		ep->txq.spare = c;
	else
		munmap(c, c->size);
}

/* The place of a record of so many bytes, at the end; NULL: no memory. It isn't there until
 * `tail` says so. */
static struct record *reserve(struct bl_ep *ep, struct bl_txq_list *list, size_t bytes)
{
	struct bl_txq_chunk *c = list->last;

	if (!c || c->size - c->tail < bytes) {
		c = new_chunk(ep, bytes);
		if (!c)
			return NULL;
		if (list->last)
			list->last->next = c;
		else
			list->first = c;
		list->last = c;
	}
	return (struct record *)(void *)((char *)c + c->tail);
}

static void pop(struct bl_ep *ep, struct bl_txq_list *list)
{
	struct bl_txq_chunk *c = list->first;
	struct record *r = (void *)((char *)c + c->head);

	ep->txq.kept -= r->kept;
	c->head += r->size;
	if (c->head < c->tail)
		return;
	list->first = c->next;
	if (!list->first)
		list->last = NULL;
	free_chunk(ep, c);
}

/* The first that hasn't been cancelled, or NULL. */
static struct record *first(struct bl_ep *ep, struct bl_txq_list *list)
{
	while (list->first) {
		struct bl_txq_chunk *c = list->first;
		struct record *r = (void *)((char *)c + c->head);

		if (likely(r->kind != CANCELLED))
			return r;
		pop(ep, list);
	}
	return NULL;
}

/* --- queueing -------------------------------------------------------------------- */

bl_cold int bl_txq_not_now(struct bl_ep *ep, struct bl_peer *peer, enum bl_txq_why why)
{
	if (ep->txq.opening != peer)
		return BL_QUEUE;
	ep->txq.opening_why = why;
	return -EAGAIN;
}

static struct bl_txq *queue_of(struct bl_peer *peer)
{
	struct bl_txq *q = peer->txq;

	if (q)
		return q;
	q = calloc(1, sizeof *q);
	if (!q)
		return NULL;
	q->peer = peer;
	peer->txq = q;
	return q;
}

static void activate(struct bl_ep *ep, struct bl_txq *q)
{
	if (q->active)
		return;
	q->active = true;
	q->next_active = ep->txq.active;
	ep->txq.active = q;
	ep->txq.nactive++;
	ep->work++;
}

/* Into the memory behind a record. */
static void *copy(char **to, const void *from, size_t bytes)
{
	void *at = *to;

	if (bytes)
		memcpy(at, from, bytes);
	*to += bytes;
	return at;
}

static const struct iovec *copy_iov(char **to, const struct iovec *iov, size_t n)
{
	return copy(to, iov, n * sizeof *iov);
}

/* The bytes themselves: where they were is free again. `iov`: our copy; how many are left. */
static size_t copy_bytes(char **to, const struct iovec *iov, size_t n)
{
	struct iovec *own = (struct iovec *)(uintptr_t)iov;
	size_t len = bl_iov_len(iov, n);

	if (!n)
		return 0;
	bl_iov_gather((uint8_t *)*to, iov, n, 0, len);
	own[0] = (struct iovec){*to, len};
	*to += len;
	return 1;
}

static size_t size_of_send(const struct bl_send *send)
{
	return offsetof(struct record, send) + sizeof *send + send->niov * sizeof *send->iov;
}

static void write_send(struct record *r, const struct bl_send *send)
{
	char *at = (char *)(&r->send + 1);

	r->send = *send;
	r->send.iov = copy_iov(&at, send->iov, send->niov);
	if (r->kept)
		r->send.niov = copy_bytes(&at, r->send.iov, send->niov);
}

static size_t size_of_rma(const struct bl_rma *rma)
{
	return offsetof(struct record, rma) + sizeof *rma +
	       (rma->niov + rma->ncompare + rma->nresult) * sizeof *rma->iov +
	       rma->nplace * sizeof *rma->place;
}

static void write_rma(struct record *r, const struct bl_rma *rma)
{
	char *at = (char *)(&r->rma + 1);

	r->rma = *rma;
	r->rma.iov = copy_iov(&at, rma->iov, rma->niov);
	r->rma.compare = copy_iov(&at, rma->compare, rma->ncompare);
	r->rma.result = copy_iov(&at, rma->result, rma->nresult);
	r->rma.place = copy(&at, rma->place, rma->nplace * sizeof *rma->place);
	if (!r->kept)
		return;
	r->rma.niov = copy_bytes(&at, r->rma.iov, rma->niov);
	r->rma.ncompare = copy_bytes(&at, r->rma.compare, rma->ncompare);
}

/* One of these two; kept: so many bytes are to be copied. */
static int queue(struct bl_ep *ep, const struct bl_send *send, const struct bl_rma *rma,
		 enum kind kind, size_t kept)
{
	size_t bytes = bl_round_up((send ? size_of_send(send) : size_of_rma(rma)) + kept, 16);
	uint64_t flags = send ? send->flags : rma->flags;
	struct bl_txq_list *list;
	struct bl_peer *peer;
	struct record *r;
	struct bl_txq *q;
	int err = bl_ep_resolve(ep, send ? send->dest : rma->dest, &peer);

	if (err)
		return err;
	if (kept && ep->txq.kept + kept > bl_knobs()->inject_queue)
		return bl_again();
	q = queue_of(peer);
	if (!q)
		return bl_no_memory(ep);
	list = send ? &q->send : &q->rma;
	r = reserve(ep, list, bytes);
	if (!r)
		return bl_no_memory(ep);
	r->size = (uint32_t)bytes;
	r->kind = (uint8_t)kind;
	r->fence = flags & BL_FENCE;
	r->kept = (uint32_t)kept;
	r->number = q->next++;
	if (send)
		write_send(r, send);
	else
		write_rma(r, rma);
	if (bl_txq_is_empty(q))
		bl_ep_unname(ep, peer);
	list->last->tail += r->size;
	if (!list->n++) {
		list->why = BL_TXQ_SOON;
		bl_local_wake(&ep->local); /* another thread that sleeps hasn't asked for this */
	}
	q->nfence += r->fence;
	ep->txq.kept += kept;
	bl_stat_add(ep, BL_STAT_queued, 1);
	activate(ep, q);
	return 0;
}

bl_cold int bl_txq_send(struct bl_ep *ep, const struct bl_send *send, int err)
{
	size_t len;

	if (err != BL_QUEUE)
		return err;
	if (send->niov > BL_IOV_MAX)
		return -EINVAL;
	len = send->flags & BL_INJECT ? bl_iov_len(send->iov, send->niov) : 0;
	return len > ep->limit.inject_max ? -EMSGSIZE : queue(ep, send, NULL, SEND, len);
}

bl_cold int bl_txq_rma(struct bl_ep *ep, const struct bl_rma *rma, int err)
{
	bool inject = rma->flags & BL_INJECT && rma->what != BL_RMA_READ;

	if (err != BL_QUEUE)
		return err;
	return queue(ep, NULL, rma, RMA,
		     inject ? bl_iov_len(rma->iov, rma->niov) +
				      bl_iov_len(rma->compare, rma->ncompare)
			    : 0);
}

bl_cold int bl_txq_inject(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			  uint64_t tag, uint64_t data, uint64_t flags)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	const struct bl_send send = {&iov, 1, dest, tag, data, NULL, flags, NULL};

	return queue(ep, &send, NULL, INJECT, len);
}

bl_cold int bl_txq_buf(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest, uint64_t tag,
		       uint64_t data, void *context, uint64_t flags)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	const struct bl_send send = {&iov, 1, dest, tag, data, context, flags, NULL};

	return bl_txq_send(ep, &send, BL_QUEUE);
}

/* --- beginning ------------------------------------------------------------------- */

static int begin(struct bl_ep *ep, const struct record *r)
{
	const struct bl_send *s = &r->send;
	int err;

	if (r->kind == RMA)
		return bl_rma(ep, &r->rma);
	if (r->kind == SEND)
		return bl_send(ep, s);
	err = bl_inject(ep, s->iov[0].iov_base, s->iov[0].iov_len, s->dest, s->tag, s->data,
			s->flags);
	if (!err && ep->bound.tx_cntr) /* who binds one wants injects counted */
		bl_cntr_up(ep->bound.tx_cntr);
	return err;
}

/* It is no more, and says why (a positive errno). counts: its owner hasn't taken it back. */
static void fail(struct bl_ep *ep, const struct record *r, int err, bool counts)
{
	struct bl_work *told = r->kind == RMA ? r->rma.work : r->send.work;
	struct bl_work w = {.what = r->kind == RMA	? BL_WORK_RMA
				    : r->kind == INJECT ? BL_WORK_INJECT
							: BL_WORK_SEND,
			    .deferred = told != NULL,
			    .ep = ep};

	if (r->kind == RMA)
		w.rma = r->rma;
	else
		w.send = r->send;
	bl_work_fail(&w, err, counts);
	if (told && counts)
		bl_work_over(told, err);
}

/* The service thread does it, and says so: polling needn't look at all neighbours for that. */
static bool is_connecting(const struct bl_peer *peer)
{
	return !peer->dead &&
	       atomic_load_explicit(&peer->state, memory_order_relaxed) == BL_PEER_CONNECTING;
}

/* The first of a list, if there is one; false: not now. */
static bool try(struct bl_ep *ep, struct bl_txq *q, struct bl_txq_list *list,
		const struct record *r)
{
	uint64_t dest = r->kind == RMA ? r->rma.dest : r->send.dest;
	bool name = dest < ep->ndest && ep->dest[dest] == &bl_nobody;
	struct bl_peer *outer = ep->txq.opening;
	int err;

	if (r->fence && bl_rma_pending(ep, q->peer)) {
		list->why = BL_TXQ_FENCE;
		return false;
	}
	if (is_connecting(q->peer)) {
		list->why = BL_TXQ_NEWS;
		return false;
	}
	if (name) /* the short way, while this is the one to go */
		ep->dest[dest] = q->peer;
	ep->txq.opening = q->peer;
	ep->txq.opening_why = BL_TXQ_SOON;
	err = begin(ep, r);
	ep->txq.opening = outer;
	list->why = ep->txq.opening_why;
	if (err && err != -EAGAIN)
		fail(ep, r, -err, true);
	if (err != -EAGAIN) {
		list->n--;
		q->nfence -= r->fence;
		pop(ep, list);
	}
	if (name && ep->dest[dest] == q->peer) /* it may not be in the vector any more */
		ep->dest[dest] = &bl_nobody;
	return err != -EAGAIN;
}

/* A step; false: nothing may begin now. */
static bool step(struct bl_ep *ep, struct bl_txq *q)
{
	const struct record *s = first(ep, &q->send), *r = first(ep, &q->rma);
	bool went = false;

	if (s && r && q->nfence) { /* in order, all of them */
		if (s->number < r->number) {
			q->rma.why = BL_TXQ_FENCE;
			r = NULL;
		} else {
			q->send.why = BL_TXQ_FENCE;
			s = NULL;
		}
	}
	if (s)
		went = try(ep, q, &q->send, s);
	if (r)
		went |= try(ep, q, &q->rma, r);
	return went;
}

/* How many steps were made. */
static uint32_t go_on(struct bl_ep *ep, struct bl_txq *q)
{
	uint32_t n = 0;

	while (n < AT_ONCE && step(ep, q))
		n++;
	return n;
}

bool bl_txq_open(struct bl_ep *ep, struct bl_peer *peer)
{
	go_on(ep, peer->txq);
	return bl_txq_is_empty(peer->txq);
}

bl_cold bool bl_txq_progress(struct bl_ep *ep)
{
	struct bl_txq **at = &ep->txq.active, *q;
	uint32_t steps = 0;

	while ((q = *at)) {
		steps += go_on(ep, q);
		if (!bl_txq_is_empty(q)) {
			at = &q->next_active;
			continue;
		}
		*at = q->next_active;
		q->active = false;
		ep->txq.nactive--;
		ep->work--;
	}
	return steps;
}

/* --- while they wait ------------------------------------------------------------- */

bool bl_txq_needs_hand(const struct bl_ep *ep)
{
	for (const struct bl_txq *q = ep->txq.active; q; q = q->next_active)
		if ((q->send.n && q->send.why == BL_TXQ_SOON) ||
		    (q->rma.n && q->rma.why == BL_TXQ_SOON))
			return true;
	return false;
}

bool bl_txq_wants_credit(const struct bl_peer *peer)
{
	const struct bl_txq *q = peer->txq;

	return q && ((q->send.n && q->send.why == BL_TXQ_CREDIT) ||
		     (q->rma.n && q->rma.why == BL_TXQ_CREDIT));
}

bool bl_txq_owes(const struct bl_ep *ep, bool kept)
{
	if (kept && !ep->txq.kept)
		return false;
	for (const struct bl_txq *q = ep->txq.active; q; q = q->next_active)
		if ((q->send.n && q->send.why != BL_TXQ_FENCE) ||
		    (q->rma.n && q->rma.why != BL_TXQ_FENCE))
			return true;
	return false;
}

/* Deferred work is cancelled by its name, an inject not at all. */
static bool is_meant(const struct record *r, const void *context)
{
	switch (r->kind) {
	case SEND:
		return !r->send.work && r->send.context == context;
	case RMA:
		return !r->rma.work && r->rma.context == context;
	default:
		return false;
	}
}

static bool cancel_in(struct bl_ep *ep, struct bl_txq *q, struct bl_txq_list *list,
		      const void *context)
{
	for (struct bl_txq_chunk *c = list->first; c; c = c->next)
		for (uint32_t at = c->head; at < c->tail;) {
			struct record *r = (void *)((char *)c + at);

			at += r->size;
			if (!is_meant(r, context))
				continue;
			fail(ep, r, ECANCELED, false);
			r->kind = CANCELLED;
			list->n--;
			q->nfence -= r->fence;
			r->fence = false;
			first(ep, list); /* gives back what is cancelled at the front */
			return true;	 /* what is behind it begins with progress */
		}
	return false;
}

bool bl_txq_cancel(struct bl_ep *ep, const void *context)
{
	for (struct bl_txq *q = ep->txq.active; context && q; q = q->next_active)
		if (cancel_in(ep, q, &q->send, context) || cancel_in(ep, q, &q->rma, context))
			return true;
	return false;
}

static void drop_list(struct bl_ep *ep, struct bl_txq_list *list)
{
	for (struct bl_txq_chunk *c = list->first, *next; c; c = next) {
		next = c->next;
		munmap(c, c->size);
	}
	*list = (struct bl_txq_list){0};
}

void bl_txq_drop(struct bl_ep *ep)
{
	for (struct bl_txq *q = ep->txq.active; q; q = q->next_active) {
		drop_list(ep, &q->send);
		drop_list(ep, &q->rma);
		q->active = false;
		ep->work--;
	}
	ep->txq.active = NULL;
	ep->txq.nactive = 0;
	ep->txq.kept = 0;
	if (ep->txq.spare)
		munmap(ep->txq.spare, CHUNK);
	ep->txq.spare = NULL;
}
