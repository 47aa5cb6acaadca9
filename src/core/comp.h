/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * comp.h: completions: queues, counters, and where those of one read go. Serialised by the domain.
 */
#ifndef BL_CORE_COMP_H
#define BL_CORE_COMP_H

#include <errno.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "core/domain.h"
#include "core/types.h"
#include "core/waiter.h"
#include "wait/oversub.h"
#include "wait/yield_hook.h"

struct bl_cntr {
	uint64_t value;
	bool asleep; /* somebody sleeps until it counts; beside `value`, where counting looks */
	uint32_t nep;
	uint64_t errors;
	uint64_t by_hand; /* how often either was set or added to */
	uint32_t reads;
	struct bl_domain *domain;
	struct bl_ep **ep;
	uint32_t users;
	struct bl_waiter wait;
	uint32_t number; /* origins count in bl_lane.count[number - 1]; 0: nowhere. count.h */
	/* Registrations that count here: it is as if all of the domain's endpoints were bound to it
	 */
	uint32_t regions;
	struct bl_cntr *next_regional;
	struct bl_work *queued; /* what waits for it; trigger.h */
	struct bl_cntr *next_trigger;
	bool triggers; /* it is in the domain's list of such */
};

struct bl_queued {
	struct bl_comp comp;
	uint64_t src;
	bool error; /* the next of bl_cq.err */
};

struct bl_cq {
	struct bl_ep **ep;
	uint32_t nep;
	uint32_t head, tail; /* positions; the ring has mask + 1 places */
	uint32_t mask;
	uint32_t limit; /* so many in it need a look: it is full, or, 0: somebody sleeps */
	bool away;	/* the last read has left its core to others, as they are told; oversub.h */
	uint8_t in_row; /* reads that found something at once, up to BL_IN_ROW; bl_cq_more */
	struct bl_queued *ring;
	uint64_t last_empty; /* ticks */
	uint64_t wait_began; /* ticks: the first empty read since one that brought something */
	uint64_t gave_way;   /* ticks: an empty read last gave its core away */
	uint64_t last_look;  /* ticks: for a message, in vain; probe.c */
	uint32_t wait_full;  /* `full` at wait_began */
	uint32_t full;	     /* reads that brought something */
	uint32_t empty_full; /* `full` at the last empty read, `last_empty`; ... */
	uint32_t peek_full;  /* ... and at last_look */
	uint32_t empties;    /* empty reads */
	bool renewed;	     /* bl_cq_renew(), since the last empty read */
	struct bl_oversub crowd;
	struct bl_yield_hook yields;
	struct bl_comp_err *err;
	uint32_t err_head, err_tail, err_room;
	uint32_t users;
	struct bl_domain *domain;
	struct bl_waiter wait;
};

/* Where the completions of one bl_cq_read go: the caller's array, as long as
 * there is room and the order allows; then the queue. */
struct bl_sink {
	struct bl_cq *cq;
	char *at;
	size_t n, max, entry;
	uint64_t *src;
	size_t had;    /* of `n`, when the lane that is being read came to its turn */
	bool more;     /* a lane that has brought something is asked for more, ... */
	bool followed; /* ... and one had */
};

extern struct bl_cq bl_no_queue; /* of a sink that takes nothing */

/* All goes to the queues. */
#define BL_SINK_NONE                                                                               \
	{                                                                                          \
		.cq = &bl_no_queue, .max = SIZE_MAX                                                \
	}

/* Append; grows the ring when it is full. */
void bl_cq_append(struct bl_cq *cq, const struct bl_comp *comp, uint64_t src);

/* Its limit: whether somebody sleeps until something is appended. */
void bl_cq_limit(struct bl_cq *cq, bool awake);

/* An error for cq (may be NULL), keeping its place among the completions. */
bl_cold void bl_cq_fail(struct bl_cq *cq, struct bl_sink *sink, const struct bl_comp_err *err);

bl_always_inline void bl_complete(struct bl_cq *cq, struct bl_sink *sink, void *context,
				  uint64_t flags, size_t len, void *buf, uint64_t data,
				  uint64_t tag, uint64_t src)
{
	if (likely(sink->cq == cq && sink->n < sink->max)) {
		struct bl_comp *comp = (struct bl_comp *)(sink->at + sink->n * sink->entry);

		if (unlikely(sink->src != NULL))
			sink->src[sink->n] = src;
		sink->n++;
		comp->context = context;
		if (unlikely(sink->entry == 8))
			return;
		comp->flags = flags;
		comp->len = len;
		if (unlikely(sink->entry == 24))
			return;
		comp->buf = buf;
		comp->data = data;
		if (likely(sink->entry == 48))
			comp->tag = tag;
	} else if (cq) {
		bl_cq_append(cq, &(struct bl_comp){context, flags, len, buf, data, tag}, src);
	}
}

/* So many more operations have ended well, one more has, or has failed. */
bl_always_inline void bl_cntr_more(struct bl_cntr *cntr, uint64_t more)
{
	cntr->value += more;
	if (unlikely(cntr->asleep))
		bl_wait_wake(&cntr->wait);
}

bl_always_inline void bl_cntr_up(struct bl_cntr *cntr)
{
	bl_cntr_more(cntr, 1);
}

static inline void bl_cntr_error(struct bl_cntr *cntr)
{
	cntr->errors++;
	if (unlikely(cntr->asleep))
		bl_wait_wake(&cntr->wait);
}

#define BL_LOOK_READS 32 /* few, because each may have copied megabytes */

/* Something has ended without a word here, its caller's or what another asked for: a wait that
 * follows has not lasted since before, and gives its core away no sooner than another that begins,
 * nor naps. */
static inline void bl_cq_renew(struct bl_cq *cq)
{
	if (cq)
		cq->renewed = true;
}

struct bl_wait_group {
	struct bl_ep **ep;
	uint32_t count;
};

static inline struct bl_wait_group bl_wait_group_of(const struct bl_waiter *w)
{
	if (w->cq)
		return (struct bl_wait_group){w->cq->ep, w->cq->nep};
	if (w->cntr->regions) /* any of them may count there */
		return (struct bl_wait_group){w->cntr->domain->ep, w->cntr->domain->nep};
	return (struct bl_wait_group){w->cntr->ep, w->cntr->nep};
}

static inline struct bl_domain *bl_wait_domain(const struct bl_waiter *w)
{
	return w->cq ? w->cq->domain : w->cntr->domain;
}

/* The first read of a wait polls for so long, while that finds something: some libraries give their
 * core away after each read, MPICH even after one that has brought what they wait for, and a
 * message arrives in less time than two yields take. */
static inline uint64_t bl_first_ticks(void)
{
	return bl_ticks_per_us() * 4;
}

void bl_cntr_add(struct bl_cntr *cntr, uint64_t value);

/* --- completion queue --------------------------------------------------- */
/* size: completions to make room for at first; the queue grows, it never overflows. */
int bl_cq_open(struct bl_domain *domain, size_t size, struct bl_cq **cq);

int bl_cq_close(struct bl_cq *cq); /* -EBUSY while an endpoint is bound */

/* Take the error at the head; 1, or -EAGAIN if the head is none. */
int bl_cq_readerr(struct bl_cq *cq, struct bl_comp_err *err);

#endif
