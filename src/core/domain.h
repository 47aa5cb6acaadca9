/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * domain.h: the unit of serialisation, its memory registrations and its address vectors.
 */
#ifndef BL_CORE_DOMAIN_H
#define BL_CORE_DOMAIN_H

#include "base/lock.h"
#include "core/addr.h"
#include "core/types.h"
#include "place/huge.h"
#include "transport/local/lane/wire.h"

struct bl_mr;
struct bl_mr_entry;

/* The memory registrations of a domain; mr.h. */
struct bl_mr_table {
	struct bl_mr_entry *entry;
	struct bl_mr **who; /* by the same index */
	uint32_t mask;	    /* 0: none yet */
	uint64_t closed;    /* how many have been closed */
	uint64_t next_key;
	void *old; /* smaller tables, which a neighbour may still be reading */
};

/* Pages that the kernel has found to be there a moment ago; mr.h */
#define BL_THERE 64u

struct bl_there {
	uint64_t closed; /* registrations that were closed by then */
	struct {
		uint64_t page;	/* its address, and 1 if it was written */
		uint64_t until; /* ticks: it counts */
	} at[BL_THERE];
};

struct bl_mr_hooks; /* mr.h */

struct bl_domain {
	struct bl_lock lock;
	uint32_t users;
	struct bl_mr_table mr;
	struct bl_there there;
	const struct bl_mr_hooks *hooks;
	struct bl_ep *eps; /* by next_in_domain */
	struct bl_ep **ep; /* the same */
	uint32_t nep;
	struct bl_cntr *regional; /* counters of regions, by next_regional */
	/* trigger.h */
	struct bl_cntr *triggers; /* that something waits for */
	struct bl_work *begun;
	uint32_t works; /* queued and begun */
	bool working;
	bool locks;	  /* its user does around each call; demote.h */
	bool nonblocking; /* nothing of it may wait for a connection; it is queued */
	bool stuck;	  /* what could not begin is to be tried again */
	/* count.h: whose is bl_lane.count[i], NULL: nobody's; bit i: it has been somebody's */
	struct bl_cntr *counter[BL_RMA_COUNTS];
	uint32_t counts;
	uint64_t opened;     /* endpoints, so far */
	struct bl_huge huge; /* buffers of large messages */
};

struct bl_av {
	struct bl_domain *domain;
	struct bl_addr *addr;
	bool *used;
	uint64_t count, room;
	struct bl_ep **ep;
	uint32_t nep;
};

static inline void bl_domain_nonblocking(struct bl_domain *domain)
{
	domain->nonblocking = true;
}

static inline void bl_domain_locks(struct bl_domain *domain)
{
	domain->locks = true;
}

static inline void bl_domain_lock(struct bl_domain *domain)
{
	bl_lock_take(&domain->lock);
}

static inline void bl_domain_unlock(struct bl_domain *domain)
{
	bl_lock_drop(&domain->lock);
}

#endif
