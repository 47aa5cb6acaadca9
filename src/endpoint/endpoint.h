/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * endpoint.h: the structures behind api.h and the inline paths of a short message; a read of
 * completions, which begins the one on the receiver's side, is in read.h.
 *
 * An endpoint has one posted and one unexpected queue for each of tagged and
 * untagged messages, in post order and in order of arrival; whatever path a
 * message takes, it is matched here. Everything belongs to the thread that the
 * domain's user lets in (api.h); only bl_local shares state with the service
 * thread.
 *
 *   bl_inject / bl_send_buf ─► bl_put ─► ring of the peer
 *   bl_cq_read ─► bl_progress ─► bl_deliver ─► posted queue ─► bl_complete
 *                      │              └──────► unexpected queue, large messages
 *                      └─ work(): large messages, control packets, news
 */
#ifndef BL_ENDPOINT_ENDPOINT_H
#define BL_ENDPOINT_ENDPOINT_H

#include <errno.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "wait/oversub.h"
#include "transport/local/adapt/demote.h"
#include "core/queues.h"
#include "core/table.h"
#include "endpoint/wait.h"
#include "wait/yield_hook.h"
#include "core/atomics_lock.h"
#include "transport/local/local.h"
#include "place/huge.h"
#include "transport/local/ways/rndv_state.h"
#include "transport/local/ways/proxy_state.h"
#include "transport/local/adapt/habit.h"
#include "transport/local/adapt/presence.h"
#include "transport/local/adapt/used.h"

struct bl_mr;
struct bl_mr_entry;
struct bl_mr_hooks;

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

struct bl_domain {
	struct bl_lock lock;
	uint32_t users;
	struct bl_mr_table mr;
	const struct bl_mr_hooks *hooks;
	struct bl_there there;
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

/* The first place of an address, or BL_ADDR_ANY. */
uint64_t bl_av_find(const struct bl_av *av, const struct bl_addr *addr);

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

/* All goes to the queues. */
#define BL_SINK_NONE                                                                               \
	{                                                                                          \
		.cq = &bl_no_queue, .max = SIZE_MAX                                                \
	}

struct bl_send_op; /* sender's side of a large message; rndv.h */
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
	size_t bytes; /* of messages beyond the eager limit that came whole; recv.c */
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
	struct bl_peer *expected; /* stand-ins for sources that have no name yet; shared.c */
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
};
static_assert(offsetof(struct bl_ep, warm) % BL_LINE == BL_LINE - sizeof(void *),
	      "`ndest` to `warm`, what a message needs besides, is one line");

extern struct bl_peer bl_nobody; /* whose ring is always full */
extern struct bl_cq bl_no_queue; /* of a sink that takes nothing */

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

static inline void bl_ep_report_srx(struct bl_ep *ep, bool always)
{
	ep->reports = always;
}

/* --- completions -------------------------------------------------------- */

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

/* --- matching ----------------------------------------------------------- */

bl_always_inline bool bl_match(const struct bl_post *post, const struct bl_peer *peer, uint64_t tag)
{
	return !((post->tag ^ tag) & ~post->ignore) && (!post->src || post->src == peer);
}

/* bl_match_find(), when so many at the front haven't matched; at: the link behind them. */
#define BL_MATCH_NEAR 16
bl_noinline struct bl_post **bl_match_deep(struct bl_post_queue *queue, struct bl_post **at,
					   const struct bl_peer *peer, uint64_t tag);
/* To the end of a queue that may have an index. Always 0: bl_recv_buf() returns what it does, for
 * a call that comes last costs those that don't make it nothing. */
bl_noinline int bl_post_append(struct bl_post_queue *queue, struct bl_post *post);
/* It has left the queue: let the index know. */
bl_noinline void bl_post_unlinked(struct bl_post_queue *queue, struct bl_post *post);

/* The link to the first receive that takes a message, or to NULL. */
bl_always_inline struct bl_post **bl_match_find(struct bl_post_queue *queue,
						const struct bl_peer *peer, uint64_t tag)
{
	struct bl_post **at = &queue->head;

	for (uint32_t near = BL_MATCH_NEAR; *at && !bl_match(*at, peer, tag); at = &(*at)->next)
		if (unlikely(!--near))
			return bl_match_deep(queue, &(*at)->next, peer, tag);
	return at;
}

bl_always_inline void bl_post_unlink(struct bl_post_queue *queue, struct bl_post **at)
{
	struct bl_post *post = *at;

	*at = post->next;
	if (!post->next)
		queue->tail = at;
	if (unlikely(queue->index != NULL))
		bl_post_unlinked(queue, post);
}

bl_always_inline void bl_post_free(struct bl_ep *ep, struct bl_post *post)
{
	post->next = ep->free_post;
	ep->free_post = post;
}

/* --- progress ----------------------------------------------------------- */

/* It has more to do than to look at what others count. */
static inline bool bl_ep_has_work(const struct bl_ep *ep)
{
	return ep->work != ep->duty.counting;
}

/* Everything but a short tagged message for a posted buffer. False: it can't be
 * taken now (no memory); it stays in the ring. */
bl_noinline bool bl_deliver_other(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
				  const struct bl_slot *slot, uint32_t head, uint64_t tag,
				  uint64_t data);
bl_noinline void bl_ep_work(struct bl_ep *ep, struct bl_sink *sink);
bl_noinline void bl_ep_doorbells(struct bl_ep *ep, struct bl_sink *sink);

/* Have the lines of the next long packet that we send on their way. Once for each
 * that was sent: in an idle moment, or when a long one has come in. */
void bl_warm_payload(struct bl_ep *ep); /* ep->warm: whose */

#define BL_SAY_BYTES 16384u /* of long packets: then who sends them hears that they are read */
/* A packet longer than a slot has been read. */
bl_noinline void bl_has_read(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			     uint32_t head);
/* Read one, a tagged message for the one buffer of the receive at this link, which leaves the
 * queue; its sender may want to hear of that. False: not all of it has been written, it stays in
 * the ring. */
bl_noinline bool bl_take_long(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			      uint32_t head, const uint8_t *bytes, struct bl_post **at);

/* One in a slot has been read whose sender wants to hear of that. */
bl_noinline void bl_took_acked(struct bl_ep *ep, struct bl_peer *peer, const struct bl_slot *slot,
			       uint32_t head);

/* Where the bytes of a neighbour's packet lie, or NULL: the description is wrong. */
bl_always_inline const uint8_t *bl_packet_bytes(const struct bl_peer *peer,
						const struct bl_slot *slot, uint32_t head)
{
	uint32_t len = BL_HEAD_LEN(head);

	if (likely(len <= BL_SLOT_INLINE))
		return slot->bytes;
	if (head & BL_HEAD(0, 0, BL_SLOT_CB_USE))
		return bl_copybuf_bytes(&peer->tx, len);
	return bl_rx_bytes(&peer->rx, slot, len);
}

bl_always_inline bool bl_deliver(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer,
				 const struct bl_slot *slot)
{
	/* Private copies: what is in shared memory may change under us. */
	uint32_t head = *(const volatile uint32_t *)&slot->head, len = BL_HEAD_LEN(head);
	uint64_t tag = *(const volatile uint64_t *)&slot->tag;
	uint64_t data = *(const volatile uint64_t *)&slot->data;

	/* One who reads them as they come would only take back what their sender has stored to (if
	 * it does so as we do). */
	if (sink->more || !bl_tx_stores())
		bl_prefetch_read(&peer->rx.slot[(peer->rx.next + BL_RX_PREFETCH) % BL_SLOTS]);
	if (likely(BL_HEAD_OP(head) <= BL_OP_MSG_RTS)) {
		if (!bl_rx_was_left(&peer->rx))
			bl_tx_hear(&peer->tx, head);
		bl_tx_slot_warm(&peer->tx);
	}
	if (len > BL_SLOT_FIRST && len <= BL_SLOT_INLINE)
		for (uint32_t off = BL_LINE; off < len + 24; off += BL_LINE)
			bl_prefetch_read((const char *)slot + off);

	if (likely(BL_HEAD_OP(head) == BL_OP_TAGGED)) {
		struct bl_post **at = bl_match_find(&ep->tagged.posted, peer, tag), *post = *at;
		const uint8_t *bytes = bl_packet_bytes(peer, slot, head);

		if (likely(post && bytes && len <= post->len && post->niov <= 1 && !post->flags)) {
			uint64_t flags =
				BL_TAGGED | BL_RECV |
				(BL_HEAD_FLAGS(head) & BL_SLOT_DATA ? BL_REMOTE_CQ_DATA : 0);

			if (likely(len <= BL_SLOT_INLINE)) {
				bl_post_unlink(&ep->tagged.posted, at);
				bl_move(post->buf, bytes, len);
				if (unlikely(head & BL_HEAD(0, 0, BL_SLOT_ACK)))
					bl_took_acked(ep, peer, slot, head);
			} else if (unlikely(!bl_take_long(ep, peer, slot, head, bytes, at))) {
				return false;
			}
			if (unlikely(ep->bound.rx_cntr != NULL))
				bl_cntr_up(ep->bound.rx_cntr);
			bl_complete(ep->bound.rx_cq, sink, post->context, flags, len, post->buf,
				    data, tag, peer->av_index);
			bl_post_free(ep, post);
			bl_rx_consume(&peer->rx, len);
			return true;
		}
	}
	if (!bl_deliver_other(ep, sink, peer, slot, head, tag, data))
		return false;
	if (unlikely(len > BL_SLOT_INLINE))
		bl_has_read(ep, peer, slot, head);
	bl_rx_consume(&peer->rx, len);
	return true;
}

/* Messages of ours that the peer has received, and whose FIN has found no slot; ack.c */
bl_cold void bl_ack_take(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer);

static inline void bl_ack_look(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer)
{
	if (unlikely(!peer->dead && /* else it may have no ring any more */
		     atomic_load_explicit(&peer->tx.lane->fins.some, memory_order_relaxed)))
		bl_ack_take(ep, sink, peer);
}

/* Take what has arrived from one neighbour, at most a ring full: the others, and
 * all else that progress is, have their turn even while it floods us. */
bl_always_inline void bl_poll_peer(struct bl_ep *ep, struct bl_sink *sink, struct bl_peer *peer)
{
	const struct bl_slot *slot = bl_rx_peek(&peer->rx);
	uint32_t end = peer->rx.next + BL_SLOTS;

	if (likely(!slot))
		return;
	sink->had = sink->n;
	while (bl_deliver(ep, sink, peer, slot) && sink->n < sink->max && peer->rx.next != end &&
	       (sink->n == sink->had || sink->more) && (slot = bl_rx_peek(&peer->rx)))
		sink->followed |= sink->n != sink->had;
	if (unlikely(ep->rndv.requests))
		bl_ack_look(ep, sink, peer);
}

bl_always_inline void bl_progress(struct bl_ep *ep, struct bl_sink *sink)
{
	for (uint32_t i = 0; i < ep->local.npolled; i++)
		bl_poll_peer(ep, sink, ep->local.hot[i]);
	if (unlikely(ep->local.nunpolled))
		bl_ep_doorbells(ep, sink);
	if (unlikely(ep->work | atomic_load_explicit(&ep->local.attention, memory_order_relaxed)))
		bl_ep_work(ep, sink);
}

/* --- sending ------------------------------------------------------------ */

/* What goes there can't begin yet: it is to be queued. txq.h */
#define BL_QUEUE (-EINPROGRESS)

/* The peer at dest with room for a packet, or why not; BL_QUEUE. */
bl_noinline int bl_find_room(struct bl_ep *ep, uint64_t dest, struct bl_peer **peer);
/* A message longer than bl_ep_limits.eager_max, in one piece. */
bl_noinline int bl_send_long(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			     uint64_t tag, uint64_t data, void *context, uint64_t flags);

/* The same, or one that may be longer, waits. txq.c */
bl_cold int bl_txq_inject(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			  uint64_t tag, uint64_t data, uint64_t flags);
bl_cold int bl_txq_buf(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest, uint64_t tag,
		       uint64_t data, void *context, uint64_t flags);

/* There is no memory for it: as bl_again() (retry.h), but an error once all that was begun has been
 * refused so for a second, or else a limit that isn't raised (ulimit -v) would have its user try
 * again for ever. endpoint.c */
bl_cold int bl_no_memory(struct bl_ep *ep);

/* Of two long messages that cross, each takes as long to be copied out as it takes to ask for what
 * the next one is written to. Of shorter ones that is asked for before the other's comes. */
#define BL_ASK_MIN 2048u /* bytes */

static inline bool bl_is_exchange(const struct bl_peer *peer)
{
	return peer->tx.last >= BL_ASK_MIN && !bl_tx_is_pingpong(&peer->tx);
}

/* The lines of the next payload there are to be asked for: in an idle moment, or, where messages
 * cross, while the other's is copied out. Two without such a moment in between: they don't. */
static inline void bl_warm_later(struct bl_ep *ep, struct bl_peer *peer)
{
	ep->exchange &= !ep->warm;
	ep->warm = peer;
}

/* A packet is passed on: where nobody has to wait for that but who waits for an answer. */
bl_always_inline bool bl_demotes(const struct bl_ep *ep, const struct bl_tx *tx)
{
	return likely(!ep->demoting.locks) || bl_tx_is_pingpong(tx);
}

/* A message's packet has been published. */
bl_always_inline void bl_demote_packet(struct bl_ep *ep, const struct bl_tx *tx,
				       const struct bl_slot *slot, size_t len, bool stream)
{
	if (unlikely(bl_demote_due(tx)))
		bl_demote_sample(ep, tx, slot, len, stream);
	else if (bl_demotes(ep, tx))
		bl_tx_slot_demote(slot, len, stream);
}

/* One message longer than a slot, as one packet through the payload; `head`: of its length, its
 * operation and flags. send.c */
bl_noinline int bl_put_long(struct bl_ep *ep, struct bl_peer *peer, const void *buf, uint32_t head,
			    uint64_t tag, uint64_t data);

/* One message of at most inject_max bytes into dest's ring. */
bl_always_inline int bl_put(struct bl_ep *ep, uint64_t dest, const void *buf, size_t len,
			    uint64_t tag, uint64_t data, uint32_t op, uint32_t flags)
{
	struct bl_peer *peer = likely(dest < ep->ndest) ? ep->dest[dest] : &bl_nobody;

	if (unlikely(ep->demoting.sampled))
		bl_demote_next(ep);
	if (unlikely(!bl_tx_room(&peer->tx))) {
		int err = bl_find_room(ep, dest, &peer);

		if (err)
			return err;
	}
	if (unlikely(len > BL_SLOT_INLINE))
		return bl_put_long(ep, peer, buf, BL_HEAD(len, op, flags), tag, data);

	struct bl_tx *tx = &peer->tx;
	struct bl_slot *slot = bl_tx_slot(tx);
	bool stream = bl_tx_streams(tx, peer->rx.next);

	bl_prefetch_write(slot);
	bl_tx_before_packet(tx, len, stream);
	if (stream)
		bl_rx_settle(&peer->rx);
	bl_slot_fill(slot, buf, len);
	bl_compiler_barrier();
	slot->head = BL_HEAD(len, op, flags | BL_SLOT_HEARD(peer->rx.next));
	slot->tag = tag;
	slot->data = data;
	bl_tx_publish(tx, slot, (uint32_t)len);
	bl_demote_packet(ep, tx, slot, len, stream);
	bl_peer_notify(peer);
	bl_tx_after_packet(tx, len, stream);
	return 0;
}

bl_always_inline int bl_put_flags(struct bl_ep *ep, uint64_t dest, const void *buf, size_t len,
				  uint64_t tag, uint64_t data, uint64_t flags)
{
	return bl_put(ep, dest, buf, len, tag, data, flags & BL_TAGGED ? BL_OP_TAGGED : BL_OP_MSG,
		      flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0);
}

static inline int bl_inject(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			    uint64_t tag, uint64_t data, uint64_t flags)
{
	if (unlikely(len > ep->limit.inject_max))
		return -EMSGSIZE;

	int err = bl_put_flags(ep, dest, buf, len, tag, data, flags);

	if (unlikely(err == BL_QUEUE))
		return bl_txq_inject(ep, buf, len, dest, tag, data, flags);
	return err;
}

static inline int bl_inject_counted(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
				    uint64_t tag, uint64_t data, uint64_t flags)
{
	if (unlikely(len > ep->limit.inject_max))
		return -EMSGSIZE;

	int err = bl_put_flags(ep, dest, buf, len, tag, data, flags);

	if (unlikely(err == BL_QUEUE)) /* counted when it goes */
		return bl_txq_inject(ep, buf, len, dest, tag, data, flags);
	if (!err && ep->bound.tx_cntr)
		bl_cntr_add(ep->bound.tx_cntr, 1);
	return err;
}

static inline int bl_send_buf(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			      uint64_t tag, uint64_t data, void *context, uint64_t flags)
{
	if (unlikely(len > ep->limit.eager_max))
		return bl_send_long(ep, buf, len, dest, tag, data, context, flags);

	int err = bl_put_flags(ep, dest, buf, len, tag, data, flags);

	if (unlikely(err == BL_QUEUE))
		return bl_txq_buf(ep, buf, len, dest, tag, data, context, flags);
	if (unlikely(err))
		return err;
	if (ep->bound.tx_cntr)
		bl_cntr_up(ep->bound.tx_cntr);
	if (flags & BL_COMPLETION && ep->bound.tx_cq)
		bl_cq_append(ep->bound.tx_cq,
			     &(struct bl_comp){context, (flags & (BL_TAGGED | BL_MSG)) | BL_SEND,
					       len, NULL, 0, 0},
			     BL_ADDR_ANY);
	return 0;
}

/* --- receiving ---------------------------------------------------------- */

bl_noinline struct bl_post *bl_post_more(struct bl_ep *ep);
/* Something has come early, or the source is yet to be resolved. */
bl_noinline int bl_recv_slow(struct bl_ep *ep, struct bl_post *post, uint64_t src, bool tagged);

static inline int bl_recv_buf(struct bl_ep *ep, void *buf, size_t len, uint64_t src, uint64_t tag,
			      uint64_t ignore, void *context, uint64_t flags)
{
	bool tagged = flags & BL_TAGGED;
	struct bl_post_queue *queue = tagged ? &ep->tagged.posted : &ep->msg.posted;
	struct bl_unexpected_queue *early = tagged ? &ep->tagged.unexpected : &ep->msg.unexpected;
	struct bl_post *post = ep->free_post;
	struct bl_peer *peer = NULL;

	if (unlikely(!post) && !(post = bl_post_more(ep)))
		return bl_no_memory(ep);
	if (src != BL_ADDR_ANY)
		peer = likely(src < ep->ndest) ? ep->dest[src] : &bl_nobody;
	ep->free_post = post->next;
	post->tag = tagged ? tag : 0;
	post->ignore = tagged ? ignore : UINT64_MAX;
	post->src = peer;
	post->buf = buf;
	post->len = len;
	post->context = context;
	post->flags = (flags & BL_COMPLETION ? 0 : BL_POST_QUIET) |
		      (flags & BL_MULTI_RECV ? BL_POST_MULTI : 0);
	post->niov = 1;
	post->iov = NULL;
	post->next = NULL;
	/* One that is shown to its senders finds what has come already. */
	if (unlikely(early->head || peer == &bl_nobody || len > ep->limit.publish_above))
		return bl_recv_slow(ep, post, src, tagged);
	if (unlikely(queue->index != NULL))
		return bl_post_append(queue, post);
	*queue->tail = post;
	queue->tail = &post->next;
	return 0;
}

#endif
