/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * comp.c: a completion queue is a ring that doubles when it is full: no completion is lost, none
 * waits in a message's place. Errors lie in a list of their own; the ring keeps their place in the
 * order. Serialised by the domain.
 */
#include "core/comp.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define LEAST_SIZE 64

struct bl_cq bl_no_queue;

int bl_cq_open(struct bl_domain *domain, size_t size, struct bl_cq **cq)
{
	struct bl_cq *c = calloc(1, sizeof *c);
	uint32_t places = LEAST_SIZE;

	if (!c)
		return -ENOMEM;
	while (places < size && places < 1u << 20)
		places *= 2;
	c->ring = calloc(places, sizeof *c->ring);
	if (!c->ring) {
		free(c);
		return -ENOMEM;
	}
	c->mask = places - 1;
	c->limit = places;
	bl_wait_init(&c->wait, c, NULL);
	c->domain = domain;
	domain->users++;
	*cq = c;
	return 0;
}

int bl_cq_close(struct bl_cq *cq)
{
	if (cq->users)
		return -EBUSY;
	cq->domain->users--;
	bl_wait_fini(&cq->wait);
	free(cq->ep);
	free(cq->err);
	free(cq->ring);
	free(cq);
	return 0;
}

/* A queue that can't grow must not drop what has happened: there is nobody left
 * to tell, so this ends the process as a failed allocation in malloc's own
 * callers would. */
static bl_cold void no_memory(void)
{
	bl_warn("no memory for a completion queue");
	abort();
}

static bl_cold void grow(struct bl_cq *cq)
{
	uint32_t places = cq->mask + 1, count = cq->tail - cq->head;
	struct bl_queued *ring = malloc(2 * (size_t)places * sizeof *ring);

	if (!ring)
		no_memory();
	for (uint32_t i = 0; i < count; i++)
		ring[i] = cq->ring[(cq->head + i) & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = 2 * places - 1;
	cq->limit = 2 * places;
	cq->head = 0;
	cq->tail = count;
}

void bl_cq_limit(struct bl_cq *cq, bool awake)
{
	cq->limit = awake ? cq->mask + 1 : 0;
}

/* It is full, or somebody sleeps until this. */
static bl_cold void at_limit(struct bl_cq *cq)
{
	if (!cq->limit)
		bl_wait_wake(&cq->wait);
	if (cq->tail - cq->head > cq->mask)
		grow(cq);
}

static struct bl_queued *append(struct bl_cq *cq)
{
	if (unlikely(cq->tail - cq->head >= cq->limit))
		at_limit(cq);
	return &cq->ring[cq->tail++ & cq->mask];
}

void bl_cq_append(struct bl_cq *cq, const struct bl_comp *comp, uint64_t src)
{
	struct bl_queued *q = append(cq);

	q->comp = *comp;
	q->src = src;
	q->error = false;
}

bl_cold void bl_cq_fail(struct bl_cq *cq, struct bl_sink *sink, const struct bl_comp_err *err)
{
	if (!cq)
		return;
	if (cq->err_tail == cq->err_room && cq->err_head > cq->err_room / 2) {
		/* a list that is never quite empty doesn't grow by what has been read */
		cq->err_tail -= cq->err_head;
		memmove(cq->err, cq->err + cq->err_head, cq->err_tail * sizeof *cq->err);
		cq->err_head = 0;
	}
	if (cq->err_tail == cq->err_room) {
		uint32_t room = cq->err_room ? 2 * cq->err_room : 16;
		struct bl_comp_err *more = realloc(cq->err, room * sizeof *more);

		if (!more)
			no_memory();
		cq->err = more;
		cq->err_room = room;
	}
	cq->err[cq->err_tail++] = *err;
	append(cq)->error = true;
	if (sink->cq == cq) /* what follows must stay behind it */
		sink->max = sink->n;
}

int bl_cq_readerr(struct bl_cq *cq, struct bl_comp_err *err)
{
	if (cq->head == cq->tail || !cq->ring[cq->head & cq->mask].error)
		return -EAGAIN;
	cq->head++;
	*err = cq->err[cq->err_head++];
	if (cq->err_head == cq->err_tail)
		cq->err_head = cq->err_tail = 0;
	return 1;
}
