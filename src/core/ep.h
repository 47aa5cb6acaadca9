/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ep.h: an endpoint as everything below the endpoint layer sees it. Serialised by the domain.
 * It has one posted and one unexpected queue for each of tagged and untagged messages, in post
 * order and in order of arrival; match.h searches them.
 */
#ifndef BL_CORE_EP_H
#define BL_CORE_EP_H

#include <sys/queue.h>

#include "core/atomics_lock.h"
#include "core/comp.h"
#include "core/domain.h"
#include "core/queues.h"
#include "core/table.h"
#include "transport/local/adapt/demote_state.h"
#include "transport/local/adapt/habit_state.h"
#include "transport/local/adapt/presence_state.h"
#include "transport/local/adapt/proxy_state.h"
#include "transport/local/adapt/used.h"
#include "transport/local/lane/op_state.h"
#include "transport/local/local.h"

struct bl_send_op; /* sender's side of a large message; lane/op.h */
struct bl_recv_op; /* receiver's side */

/* The queues and counters that an endpoint is bound to, or NULL. */
struct bl_bound {
	struct bl_cq *tx_cq, *rx_cq;
	struct bl_cntr *tx_cntr, *rx_cntr;
};

/* Bytes from which a message or a receive leaves the short path. */
struct bl_ep_limits {
	uint32_t inject_max;	/* bytes; api.h */
	uint16_t eager_max;	/* the same */
	uint16_t publish_above; /* bytes: a longer receive is shown to its senders; proxy.h */
};

/* Unexpected payload that is kept for receives yet to come. */
struct bl_congestion {
	size_t bytes; /* of messages beyond the eager limit that came whole; unexpected.c */
	bool high;    /* that is much, as neighbours are told */
};

/* What the ways of a long message on this node know of their endpoint. */
struct bl_ways {
	uint32_t generation; /* of the last chunk counter; never 0 */
	struct bl_proxy_state proxy;
	struct bl_pending_sends pending;
	struct bl_habit habit;
	struct bl_last_seen seen;
	struct bl_used used;
};

/* Memory that was refused; bl_no_memory(). */
struct bl_shortage {
	uint64_t since, last; /* ns: the first and the last time that there was no memory */
};

/* Peers whose rings are full. */
struct bl_credit {
	bool wanted;	 /* some peers may have been asked to ring */
	uint32_t nowing; /* peers for which control packets wait for room */
};

/* Counters of one-sided operations, or NULL. */
struct bl_rma_cntrs {
	struct bl_cntr *read, *write;		    /* of our operations on others' memory */
	struct bl_cntr *remote_read, *remote_write; /* and of others' on ours */
};

/* One-sided operations under way. */
struct bl_rma_state {
	struct bl_rma_peer *active; /* with something to do; rma.h */
	struct bl_batch *batches;   /* unused ones, so many: batch.h */
	uint32_t nbatches;
	uint64_t number;
	struct bl_atomics_page *atomics_page; /* our own memory's lock, once enabled */
	struct bl_atomics_page_wait atomics_wait;
};

/* What an endpoint does for its domain, counted in bl_ep.work. */
struct bl_duty {
	bool attends;  /* its domain has work: counted in `work` */
	bool counting; /* it looks at what origins count: the same */
};

/* What a shared context has besides; srx.h */
struct bl_srx_state {
	struct bl_ep **member;
	uint32_t nmember;
	struct bl_peer *expected; /* stand-ins for sources that have no name yet; srx.c */
};

/* Operations that wait for their peer. */
struct bl_txq_state {
	struct bl_txq *active;	    /* of peers for which something waits; txq.h */
	uint32_t nactive;	    /* so many, counted in `work` */
	uint8_t opening_why;	    /* enum bl_txq_why: it can't begin after all */
	struct bl_peer *opening;    /* what has waited for this peer is about to begin; or NULL */
	size_t kept;		    /* injected bytes that wait */
	struct bl_txq_chunk *spare; /* memory for more; or NULL */
};

/* When to look whether peers are alive. */
struct bl_watch {
	uint32_t looks;	    /* in vain, while operations waited for a peer to be connected */
	uint64_t next_look; /* ticks: after the lives of peers */
};

struct bl_arrival; /* lane/op.h */
struct bl_target;  /* post.h */

/* What the layers below ask of those above, and one way of another, on their slow paths. */
struct bl_up {
	/* Take what has come from one neighbour, or from those that aren't polled. */
	void (*poll)(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer);
	void (*doorbells)(struct bl_ep *ep, struct bl_sink *sink);
	void (*look)(struct bl_ep *ep, struct bl_sink *sink, uint64_t now); /* bl_ep_look() */
	void (*adopt)(struct bl_ep *ep);				    /* bl_ep_adopt() */
	int (*connect)(struct bl_ep *ep, struct bl_peer *peer);		    /* bl_ep_connect() */
	void (*finish)(struct bl_ep *ep, struct bl_sink *sink);		    /* bl_rndv_finish() */
	/* bl_recv_op_begin(): a message that its sender had claimed a receive for, in vain. */
	void (*pull)(struct bl_ep *ep, struct bl_sink *sink, const struct bl_arrival *arrival,
		     const struct bl_target *target);
};

struct bl_ep {
	struct bl_local local; /* first: what a poll reads */
	/* One line for posting and matching, ... */
	alignas(BL_LINE) struct bl_queues tagged;
	struct bl_post *free_post;
	struct bl_peer **dest; /* by index in the address vector; never NULL inside */
	/* ... one for what else a message needs. */
	uint64_t ndest;
	struct bl_bound bound;
	struct bl_ep_limits limit;
	uint32_t work;	/* transfers, requests being served, peers with control packets */
	bool exchange;	/* `warm` is for when the other's message is copied out, not before */
	bool warm_long; /* as many as of a fresh one (dirty.h) */
	struct bl_demoting demoting;
	struct bl_peer *warm; /* the lines of its next payload are to be asked for */

	struct bl_queues msg;
	struct bl_domain *domain;
	struct bl_av *av;
	size_t min_multi_recv;
	struct bl_unexpected *claimed;
	struct bl_unexpected_pool unexpected_pool;
	struct bl_congestion congestion;
	struct bl_rndv rndv;
	struct bl_iov8 *free_iov;
	void *slabs; /* all pools' memory */
	struct bl_ways ways;
	struct bl_shortage shortage;
	struct bl_credit credit;
	uint32_t unsaid; /* bytes of long packets read since we said that we are active */
	struct bl_rma_cntrs rma_cntr;
	struct bl_rma_state rma;
	struct bl_ep *next_in_domain;
	uint64_t number;    /* in its domain; no other ever has it; not 0 */
	struct bl_ep *home; /* whose queues take what comes here: mostly its own; srx.h */
	bool reports;	    /* a shared context's receives complete here, asked for or not */
	bool shared;	    /* this is a shared context, with ... */
	struct bl_duty duty;
	struct bl_srx_state srx;
	struct bl_txq_state txq;
	struct bl_watch watch;
	uint32_t moves;		 /* packets and one-sided operations, by the last one; nap.h */
	struct bl_demote demote; /* of sends whose time is taken */
	const struct bl_up *up;
};

extern struct bl_peer bl_nobody; /* whose ring is always full */

bl_always_inline void bl_post_free(struct bl_ep *ep, struct bl_post *post)
{
	post->next = ep->free_post;
	ep->free_post = post;
}

bl_noinline struct bl_post *bl_post_more(struct bl_ep *ep);

/* The endpoint that a peer is a neighbour of. */
static inline struct bl_ep *bl_ep_of(const struct bl_peer *peer)
{
	return bl_containerof(peer->local, struct bl_ep, local);
}

bl_noinline struct bl_peer *bl_srx_find_name(struct bl_ep *ep, struct bl_peer *peer);

/* What the receives that ep's messages are matched with call their source. */
static inline struct bl_peer *bl_source_name(struct bl_ep *ep, struct bl_peer *peer)
{
	return likely(ep->home == ep) ? peer : bl_srx_find_name(ep, peer);
}

/* A message of len bytes is over. Whoever moves megabytes between two reads takes a good
 * while for so many: the next read looks, if it is time. */
#define BL_LONG_BYTES (256u << 10)

static inline void bl_cq_moved(const struct bl_ep *ep, struct bl_cq *cq, size_t len)
{
	if (len >= BL_LONG_BYTES && cq && bl_is_due(bl_ticks(), ep->watch.next_look))
		cq->full |= BL_LOOK_READS - 1;
}

/* Memory for n objects of a pool that lives as long as the endpoint. */
void *bl_slab(struct bl_ep *ep, size_t bytes);
void bl_slabs_free(struct bl_ep *ep);

/* It has more to do than to look at what others count. */
static inline bool bl_ep_has_work(const struct bl_ep *ep)
{
	return ep->work != ep->duty.counting;
}

#endif
