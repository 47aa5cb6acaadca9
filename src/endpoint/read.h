/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * read.h: reading completions: the inline path of a read that finds something, and what it leaves
 * for those that find nothing (read.c, oversub.h). Serialised by the domain.
 */
#ifndef BL_ENDPOINT_READ_H
#define BL_ENDPOINT_READ_H

#include "endpoint/endpoint.h"

bl_noinline ssize_t bl_cq_take(struct bl_cq *cq, void *buf, size_t max, size_t entry,
			       uint64_t *src);
bl_noinline ssize_t bl_cq_idle(struct bl_cq *cq, struct bl_sink *sink);
/* After the lives of peers, when it is time. */
bl_cold void bl_cq_look(struct bl_cq *cq);
/* The first read of a wait polls for so long, while that finds something: some libraries give their
 * core away after each read, MPICH even after one that has brought what they wait for, and a
 * message arrives in less time than two yields take. */
static inline uint64_t bl_first_ticks(void)
{
	return bl_ticks_per_us() * 4;
}

/* One that follows another within so many, and nothing has come between, polls a while, too, before
 * it returns through the layers above. */
static inline uint64_t bl_waiting_ticks(void)
{
	return bl_ticks_per_us() * 4 / 5;
}

#define BL_LOOK_READS 32 /* few, because each may have copied megabytes */

/* A read brought something. One that is never idle must look around as well: so
 * whoever counts looks, or two that count in turn would pass over it for ever. */
static inline void bl_cq_brought(struct bl_cq *cq)
{
	bl_yield_hook_read(&cq->yields, true);
	if (unlikely(!(++cq->full % BL_LOOK_READS)))
		bl_cq_look(cq);
}

/* Something has ended without a word here, its caller's or what another asked for: a wait that
 * follows has not lasted since before, and gives its core away no sooner than another that begins,
 * nor naps. */
static inline void bl_cq_renew(struct bl_cq *cq)
{
	if (cq)
		cq->renewed = true;
}

/* A message of len bytes is over. Whoever moves megabytes between two reads takes a good
 * while for so many: the next read looks, if it is time. */
#define BL_LONG_BYTES (256u << 10)
static inline void bl_cq_moved(const struct bl_ep *ep, struct bl_cq *cq, size_t len)
{
	if (len >= BL_LONG_BYTES && cq && bl_is_due(bl_ticks(), ep->watch.next_look))
		cq->full |= BL_LOOK_READS - 1;
}

/*
 * Does a read ask a lane that has brought something for more? Mostly there is none yet, and the
 * look would be at the line that its sender writes next: where it does so already, messages
 * crossing, that line is on its way, and our own next one waits as long, for stores keep their
 * order behind loads (20 to 70 ns of an MPI_Sendrecv of 230 to 500). So only after BL_IN_ROW reads
 * that have found something at once, with no empty one between, and until no lane has more.
 */
#define BL_IN_ROW 2
static inline bool bl_cq_more(const struct bl_cq *cq)
{
	return cq->in_row >= BL_IN_ROW;
}

static inline void bl_cq_took(struct bl_cq *cq, const struct bl_sink *sink)
{
	if (!sink->more)
		cq->in_row++;
	else if (!sink->followed)
		cq->in_row = 0;
}

static inline ssize_t bl_cq_read(struct bl_cq *cq, void *buf, size_t max, size_t entry,
				 uint64_t *src)
{
	struct bl_sink sink = {cq, buf, 0, max, entry, src, 0, bl_cq_more(cq), false};

	if (unlikely(cq->away))
		bl_oversub_return(cq);
	if (unlikely(cq->head != cq->tail) && max)
		return bl_cq_take(cq, buf, max, entry, src);
	if (unlikely(!max))
		sink = (struct bl_sink)BL_SINK_NONE;
	for (uint32_t i = 0; i < cq->nep; i++)
		bl_progress(cq->ep[i], &sink);
	if (likely(sink.n)) {
		bl_cq_took(cq, &sink);
		bl_cq_brought(cq);
		return (ssize_t)sink.n;
	}
	return bl_cq_idle(cq, &sink);
}

#endif
