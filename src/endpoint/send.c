/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * send.c: the general send: finding room, choosing the way, and the eager ones. Serialised by the
 * domain.
 */
#include <string.h>

#include "core/stat.h"
#include "endpoint/api.h"
#include "endpoint/txq.h"
#include "transport/local/adapt/dirty.h"
#include "transport/local/ways/proxy.h"
#include "transport/local/ways/proxy_post.h"
#include "transport/local/ways/rndv.h"

#define CREDIT_POLLS	400 /* about 700 ns */
#define CONGESTED_EVERY 8u  /* messages that may go whole */
#define SEEN_US		10u /* a receiver that was there may have gone since, for all we know */

size_t bl_inject_max(void)
{
	return bl_limits()->inject_max;
}

/*
 * There is no room. A receiver at work gives credits every few packets: shorter to wait for than
 * to queue, and to go on later. One that gave none in the last such wait isn't waited for.
 */
static bool await_credits(struct bl_peer *peer)
{
	int polls = peer->tx.limit != peer->stalled_at ? CREDIT_POLLS : 1;

	while (polls--)
		if (bl_tx_refresh(&peer->tx))
			return true;
	peer->stalled_at = peer->tx.limit;
	return false;
}

bl_noinline int bl_find_room(struct bl_ep *ep, uint64_t dest, struct bl_peer **peer)
{
	struct bl_peer *p = dest < ep->ndest ? ep->dest[dest] : &bl_nobody;
	int err;

	if (p == &bl_nobody) {
		err = bl_ep_resolve(ep, dest, &p);
		if (err)
			return err;
	}
	*peer = p;
	if (unlikely(p->dead))
		return -(int)p->dead;
	if (unlikely(bl_txq_holds_send(ep, p)) &&
	    !(p->adopted && (bl_tx_room(&p->tx) || await_credits(p)) && bl_txq_open(ep, p)))
		return BL_QUEUE;
	if (unlikely(!p->adopted)) {
		err = bl_ep_connect(ep, p);
		if (err)
			return err == -EAGAIN ? bl_txq_not_now(ep, p, BL_TXQ_NEWS) : err;
	}
	if (bl_tx_room(&p->tx) || await_credits(p))
		return 0;
	return bl_txq_not_now(ep, p, BL_TXQ_CREDIT);
}

static bool waits_for_room(const struct bl_peer *peer)
{
	return peer && !peer->dead && (peer->control.n || bl_txq_wants_credit(peer));
}

int bl_ep_want_credit(struct bl_ep *ep)
{
	bool asks = false;
	int err = 0, ret;

	if (likely(!ep->txq.nactive && !ep->credit.nowing))
		return 0;
	ep->credit.wanted = true;
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		struct bl_peer *peer = ep->local.by_index[i];

		if (!waits_for_room(peer))
			continue;
		ret = bl_peer_want_credit(peer);
		asks |= ret > 0;
		if (ret < 0)
			err = ret;
	}
	if (asks && !bl_local_drain_all()) {
		bl_ep_forgo_credit(ep, true);
		return -EOPNOTSUPP;
	}
	return err;
}

void bl_ep_forgo_credit(struct bl_ep *ep, bool all)
{
	if (likely(!ep->credit.wanted))
		return;
	ep->credit.wanted = false;
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		struct bl_peer *peer = ep->local.by_index[i];

		if (peer && !peer->dead && (all || !waits_for_room(peer)))
			bl_peer_forgo_credit(peer);
		else
			ep->credit.wanted |= waits_for_room(peer);
	}
}

/* Several pieces of together at most eager_max bytes. */
static int send_pieces(struct bl_ep *ep, const struct bl_send *send, size_t len)
{
	uint8_t bytes[BL_EAGER_MOST];

	bl_iov_gather(bytes, send->iov, send->niov, 0, len);
	return bl_put_flags(ep, send->dest, bytes, len, send->tag, send->data, send->flags);
}

/* All of it is in the ring. */
static void sent(struct bl_ep *ep, const struct bl_send *send, size_t len)
{
	if (ep->bound.tx_cntr && !send->work)
		bl_cntr_up(ep->bound.tx_cntr);
	if (send->flags & BL_COMPLETION && ep->bound.tx_cq)
		bl_cq_append(ep->bound.tx_cq,
			     &(struct bl_comp){send->context,
					       (send->flags & (BL_TAGGED | BL_MSG)) | BL_SEND, len,
					       NULL, 0, 0},
			     BL_ADDR_ANY);
	if (unlikely(send->work != NULL))
		bl_work_over(send->work, 0);
}

/* The ring is so short that each line crosses from one cache to the other. Not one that hasn't been
 * made longer at all, and may yet be; only where that has been measured, which is where lines are
 * probed. */
static bool is_tight(const struct bl_ep *ep, const struct bl_tx *tx)
{
	size_t enough;

	if (tx->pay_most == BL_PAYLOAD_SIZE || !bl_tx_probes())
		return false;
	enough = bl_min(bl_longring_most(&ep->local), ep->local.seg.lane_enough);
	return tx->pay_most + tx->copybuf_room < BL_PAYLOAD_OF(enough);
}

/* The peer keeps as much as it may of what has come before its receives: announce one of len bytes.
 * Asked now and then, for the answer lies in a line that it writes all the time. */
static bool is_congested(struct bl_peer *peer, size_t len)
{
	if (unlikely(peer->congestion.high || len >= BL_PROXY_MIN ||
		     !(++peer->congestion.unasked % CONGESTED_EVERY)))
		peer->congestion.high = atomic_load_explicit(&peer->mapped.header->congested,
							     memory_order_relaxed) != 0;
	return peer->congestion.high;
}

/* A message could be one packet if the ring were longer: where a system call is dear that pays for
 * 484 KiB at once. */
static void wants_longer(struct bl_peer *peer)
{
	struct bl_tx *tx = &peer->tx;

	tx->short_of += tx->short_of < UINT8_MAX;
	tx->nlong += tx->nlong < UINT16_MAX;
	if (!bl_copy_plan()->by_stream && tx->pay_most == BL_PAYLOAD_SIZE)
		bl_longring_now(peer);
	else if (tx->nlong >= BL_LONGRING_USES)
		bl_longring_look(peer);
}

/* Or our buffer can be made longer, which it may. */
static bool has_place(struct bl_ep *ep, struct bl_peer *peer, size_t len)
{
	uint64_t began;

	if (likely(bl_copybuf_has_place(&peer->tx, len)))
		return true;
	began = bl_copy_begins(ep, len); /* it takes about as long, and is no absence either */
	bl_longring_copybuf(peer, len);
	bl_copy_ends(ep, began);
	return bl_copybuf_has_place(&peer->tx, len);
}

/* Asked now and then, for the answer lies in lines that it writes all the time. */
static bool was_seen_lately(struct bl_ep *ep, const struct bl_peer *peer)
{
	uint64_t now = bl_ticks();

	if (ep->ways.seen.peer == peer && !bl_is_due(now, ep->ways.seen.until))
		return true;
	if (bl_is_gone(peer))
		return false;
	ep->ways.seen.peer = peer;
	ep->ways.seen.until = now + SEEN_US * bl_ticks_per_us();
	return true;
}

/* What our ring to the peer, and the two copy buffers, have for it. */
static void look_at_ring(const struct bl_ep *ep, const struct bl_peer *peer, struct bl_situation *s)
{
	const struct bl_tx *tx = &peer->tx;

	s->long_ring = tx->pay_most > BL_PAYLOAD_SIZE;
	s->room = tx->pay_most;
	s->tight = is_tight(ep, tx);
	s->has_copybuf = bl_copybuf_may(tx, ep->limit.eager_max);
	s->copybuf = bl_copybuf_may(tx, s->len);
	s->place = bl_copybuf_has_place(tx, s->len);
	s->may_grow = s->len > tx->copybuf_room && bl_copybuf_may_offer(tx);
	s->lacks_copybuf = bl_tx_lacks_buffer(tx, s->len);
	s->stays_short = peer->stays_short;
}

/* Whether it is our turn is asked of those only for which that decides: to ask takes note of what
 * has been heard. */
static enum bl_pattern pattern_of(struct bl_peer *peer, const struct bl_situation *s)
{
	struct bl_tx *tx = &peer->tx;
	bool pingpong = bl_tx_is_pingpong(tx), streams = true;

	if ((s->len <= bl_limits()->pingpong_max && !s->one_copy) ||
	    (pingpong && s->dirty && s->len <= BL_PROXY_MIN))
		streams = bl_tx_streams(tx, peer->rx.next);
	if (pingpong)
		return streams ? BL_PINGPONG : BL_ANSWER;
	if (!bl_limits()->eager_long && bl_tx_is_alone(tx))
		return BL_STREAM;
	return bl_tx_is_silent(tx) ? BL_BURST : BL_EXCHANGE;
}

/* How far it is may have to be found out anew, where two copies would do. */
static void look_how_far(struct bl_peer *peer, struct bl_situation *s)
{
	if (unlikely(s->far) && s->len <= bl_limits()->eager[BL_RING_LONG][BL_STREAM][0])
		bl_tx_look(&peer->tx, s->len);
	s->far = bl_tx_is_far(&peer->tx);
}

/* All that is at hand. */
static void look(struct bl_ep *ep, struct bl_peer *peer, const struct bl_send *send,
		 struct bl_situation *s)
{
	struct bl_tx *tx = &peer->tx;

	s->dirty = tx->dirty == BL_DIRTY_AFTER;
	s->one_copy = peer->copy.needs_rkeys || peer->copy.pull == BL_COPY_SELF;
	s->pattern = pattern_of(peer, s);
	s->there = BL_WAITING;
	s->far = bl_tx_is_far(tx);
	s->talks = tx->turns == BL_PINGPONG_AFTER && tx->answered;
	s->spent = !tx->dirty_left;
	s->past = tx->past;
	s->pending = ep->rndv.requests != ep->ways.pending.neager_long;
	s->leaves = ep->ways.habit.leaves;
	s->expects = peer->board && peer->board->used;
	s->published = true;
	s->acked = send->flags & BL_DELIVERY_COMPLETE;
	look_at_ring(ep, peer, s);
	if (s->len < bl_limits()->proxy_min && !s->one_copy &&
	    !(s->pattern == BL_ANSWER && s->len <= bl_limits()->pingpong_max))
		look_how_far(peer, s);
}

/* What lies in lines that the receiver writes: from proxy_min on, if it matters. */
static void look_closer(struct bl_peer *peer, struct bl_situation *s)
{
	const struct bl_limits *l = bl_limits();

	if (s->len < l->proxy_min || s->leaves ||
	    (bl_policy_choose(l, s) > BL_COPYBUF && bl_policy_dirty(l, s) == BL_DIRTY_NOT &&
	     !bl_policy_wants_longer(l, s)))
		return;
	s->unread = bl_tx_unread(&peer->tx);
	look_how_far(peer, s);
	/* asked of what may be dirty, and isn't sent at once by both */
	s->published = bl_policy_dirty(l, s) == BL_DIRTY_NOT || s->pattern > BL_PINGPONG ||
		       bl_adverts_any(&peer->rx.lane->board);
	s->there = bl_waits_here(peer, 0)	 ? BL_WAITING
		   : bl_waits_here(peer, s->len) ? BL_USING
						 : BL_GONE;
}

/* For the next ones' sake. */
static void learn(struct bl_ep *ep, struct bl_peer *peer, struct bl_situation *s)
{
	const struct bl_limits *l = bl_limits();
	enum bl_dirty dirty = bl_policy_dirty(l, s);

	if (dirty >= BL_DIRTY_RING)
		return;
	peer->tx.past -= dirty == BL_DIRTY_PAST;
	if (dirty == BL_DIRTY_SPENT)
		peer->tx.dirty = 0; /* announce some */
	s->clean = dirty == BL_DIRTY_SHORT;
	if (!s->clean && !bl_policy_wants_longer(l, s))
		return;
	wants_longer(peer);
	if (l->eager_long) /* where rings are for streams it is for the next one */
		look_at_ring(ep, peer, s);
}

/* It is announced, as far as is known: has the receiver published a receive for it? */
static enum bl_way announced_way(struct bl_ep *ep, struct bl_peer *peer, const struct bl_send *send,
				 struct bl_situation *s)
{
	s->claimable = bl_proxy_may(peer);
	s->matches = bl_proxy_is_for(ep, peer, s->len, send->flags & BL_TAGGED, send->tag);
	s->announce = true;
	return bl_policy_choose(bl_limits(), s);
}

static enum bl_way choose(struct bl_ep *ep, struct bl_peer *peer, const struct bl_send *send,
			  struct bl_situation *s)
{
	const struct bl_limits *l = bl_limits();
	enum bl_way way;

	if (!bl_policy_may_be_packet(l, s->len, peer->tx.dirty == BL_DIRTY_AFTER))
		return announced_way(ep, peer, send, s);
	look(ep, peer, send, s);
	s->away = s->acked && s->len < l->proxy_min && !was_seen_lately(ep, peer) &&
		  bl_proxy_is_away(ep, peer);
	if (unlikely(s->away) && announced_way(ep, peer, send, s) == BL_PROXY)
		return BL_PROXY;
	s->announce = false;
	look_closer(peer, s);
	learn(ep, peer, s);
	way = bl_policy_choose(l, s);
	if (way <= BL_COPYBUF && unlikely(is_congested(peer, s->len))) {
		s->congested = true;
		way = bl_policy_choose(l, s);
	}
	if (way == BL_COPYBUF && !has_place(ep, peer, s->len)) {
		s->clean = true;
		way = bl_policy_choose(l, s);
	}
	return way <= BL_COPYBUF ? way : announced_way(ep, peer, send, s);
}

/* A message that lies in the ring, of whose delivery its sender wants to hear; NULL: no memory. */
static struct bl_send_op *await_delivery(struct bl_ep *ep, struct bl_peer *peer,
					 const struct bl_send *send, size_t len)
{
	struct bl_send_op *r = bl_send_op_new(ep);

	if (unlikely(!r))
		return NULL;
	r->peer = peer;
	r->len = len;
	r->niov = 0;
	r->context = send->context;
	r->flags = (send->flags & (BL_TAGGED | BL_MSG)) | BL_SEND;
	r->quiet = !(send->flags & BL_COMPLETION);
	r->work = send->work;
	r->whole = true;
	ep->ways.pending.neager_long++;
	return r;
}

/* The same in a slot, for which there is room. */
static int put_acked(struct bl_ep *ep, struct bl_peer *peer, const struct bl_send *send, size_t len,
		     uint32_t op, uint32_t flags)
{
	struct bl_send_op *r = await_delivery(ep, peer, send, len);
	struct bl_tx *tx = &peer->tx;
	struct bl_slot *slot = bl_tx_slot(tx);
	size_t at = BL_SLOT_ACK_WORD(len), all = 8 * (at + 1);
	bool stream;

	if (unlikely(!r))
		return bl_no_memory(ep);
	stream = bl_tx_streams(tx, peer->rx.next);
	bl_prefetch_write(slot);
	bl_tx_before_packet(tx, all, stream);
	if (stream)
		bl_rx_settle(&peer->rx);
	slot->word[at] = bl_send_op_number(r);
	if (likely(send->niov == 1))
		bl_slot_fill(slot, send->iov[0].iov_base, len);
	else
		bl_iov_gather(slot->bytes, send->iov, send->niov, 0, len);
	bl_compiler_barrier();
	slot->head = BL_HEAD(len, op, flags | BL_SLOT_ACK | BL_SLOT_HEARD(peer->rx.next));
	slot->tag = send->tag;
	slot->data = send->data;
	bl_tx_publish(tx, slot, (uint32_t)len);
	bl_demote_packet(ep, tx, slot, all, stream);
	bl_peer_notify(peer);
	bl_tx_after_packet(tx, all, stream);
	return 0;
}

/* Through the caches, but it shows how far it is as any other does. */
static void gather(struct bl_tx *tx, void *to, const struct bl_send *send, size_t len)
{
	bl_tx_look(tx, len);
	tx->nlong += len >= BL_TX_TIMED;
	bl_iov_gather(to, send->iov, send->niov, 0, len);
}

/* It lies there; nothing of its slot has been written to, which its receiver looks at, but
 * slot->request and slot->there. `to`: where in the ring, whose room has been taken, or NULL. */
static void publish_long(struct bl_ep *ep, struct bl_peer *peer, const uint8_t *to, uint32_t head,
			 uint64_t tag, uint64_t data)
{
	struct bl_tx *tx = &peer->tx;
	struct bl_slot *slot = bl_tx_slot(tx);

	bl_copybuf_said(tx);
	bl_compiler_barrier();
	slot->head = head | BL_HEAD(0, 0, BL_SLOT_HEARD(peer->rx.next));
	slot->tag = tag;
	slot->data = data;
	if (likely(to != NULL)) {
		slot->at = (uint32_t)(to - tx->lane->payload);
	} else {
		slot->at = tx->copybuf;
		slot->room = tx->copybuf_room;
	}
	bl_tx_publish(tx, slot, BL_HEAD_LEN(head));
	bl_demote_packet(ep, tx, slot, 0, true);
}

#define STREAMED_MIN 8192u /* bytes: a shorter one is written at once */
#define STREAMED_PIECES                                                                            \
	8u /* or one more, for they end where lines do; or more of BL_STREAMED_PIECE */
#define STREAMED_LEAST 4096u /* bytes of one */

/*
 * Its receiver waits for just this message, and copies its beginning out while we copy the rest in.
 * Where messages cross, each is copied in first; far away nothing is gained on some machines.
 */
static bool streamed(const struct bl_tx *tx, size_t len)
{
	const struct bl_limits *l = bl_limits();

	return len >= STREAMED_MIN &&
	       (l->streamed || (bl_tx_is_pingpong(tx) && (l->streamed_far || !bl_tx_is_far(tx))));
}

/* Published with its first piece. */
static void put_streamed(struct bl_ep *ep, struct bl_peer *peer, uint8_t *to,
			 const struct iovec *iov, size_t niov, uint32_t head, uint64_t tag,
			 uint64_t data)
{
	struct bl_slot *slot = bl_tx_slot(&peer->tx);
	uint32_t len = BL_HEAD_LEN(head), there = 0;
	uint32_t piece = (uint32_t)bl_round_up(len / STREAMED_PIECES, BL_LINE);

	piece = bl_min(piece < STREAMED_LEAST ? STREAMED_LEAST : piece, BL_STREAMED_PIECE);
	while (there < len) {
		uint32_t n = bl_min(piece, len - there);

		bl_iov_gather(to + there, iov, niov, there, n);
		bl_window(BL_WINDOW_STREAMED, slot);
		there += n;
		bl_slot_advance(slot, there);
		if (there == n)
			publish_long(ep, peer, NULL, head | BL_HEAD(0, 0, BL_SLOT_STREAMED), tag,
				     data);
	}
}

/* The next long message goes where the other's was, or its answer will be; bl_copybuf_may(). */
static void put_copybuf(struct bl_ep *ep, struct bl_peer *peer, const struct iovec *iov,
			size_t niov, uint32_t head, uint64_t tag, uint64_t data)
{
	struct bl_tx *tx = &peer->tx;
	uint32_t len = BL_HEAD_LEN(head), flags;
	uint8_t *to;

	bl_tx_look(tx, len);
	bl_stat_add(ep, BL_STAT_copybuf, 1);
	to = bl_copybuf_take(tx, &peer->rx, len, &flags);
	head |= BL_HEAD(0, 0, flags);
	if (streamed(tx, len)) {
		put_streamed(ep, peer, to, iov, niov, head, tag, data);
		return;
	}
	bl_iov_gather(to, iov, niov, 0, len);
	publish_long(ep, peer, NULL, head, tag, data);
}

/* A message that lies there in the payload ring is on its way: a moment for what a lap calls for.
 */
static inline void may_be_a_lap(struct bl_peer *peer, const uint8_t *at)
{
	if (likely(at != peer->tx.lane->payload))
		return;
	bl_tx_payload_again(&peer->tx);
	bl_longring_look(peer);
}

bl_noinline int bl_put_long(struct bl_ep *ep, struct bl_peer *peer, const void *buf, uint32_t head,
			    uint64_t tag, uint64_t data)
{
	struct bl_tx *tx = &peer->tx;
	bool stream = bl_tx_streams(tx, peer->rx.next);
	uint32_t len = BL_HEAD_LEN(head), past;
	uint8_t *to;

	if (bl_copybuf_may(tx, len)) {
		put_copybuf(ep, peer, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, head, tag,
			    data);
		bl_peer_notify(peer);
		return 0;
	}
	to = bl_tx_payload(tx, len);
	if (unlikely(!to) && bl_copy_plan()->by_stream && bl_longring_look(peer))
		to = bl_tx_payload(tx, len);
	if (unlikely(!to))
		return bl_txq_not_now(ep, peer, BL_TXQ_CREDIT);
	past = bl_tx_store(tx, to, buf, len);
	bl_tx_payload_take(tx, len);
	if (likely(!past)) {
		if (stream)
			bl_tx_payload_prefetch(tx, len);
		bl_warm_later(ep, peer);
	}
	publish_long(ep, peer, to, head | BL_HEAD(0, 0, past), tag, data);
	if (likely(!past) && !ep->demoting.sampled && bl_demotes(ep, tx))
		bl_tx_payload_demote(tx, to, len, stream);
	bl_peer_notify(peer);
	may_be_a_lap(peer, to);
	return 0;
}

/* A message that may go as one packet: beyond the eager limit, or to be told of its delivery. The
 * ring has a slot for it. 0: it is there, and completed unless its receiver is to say so; -EAGAIN:
 * there will be room in a moment; -EMSGSIZE: it is to be announced, for its length, or since its
 * receiver doesn't read just now, and goes *way. */
static int put_eager_long(struct bl_ep *ep, struct bl_peer *peer, const struct bl_send *send,
			  size_t len, enum bl_way *way)
{
	uint32_t op = send->flags & BL_TAGGED ? BL_OP_TAGGED : BL_OP_MSG;
	uint32_t flags = send->flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0;
	struct bl_situation s = {.len = len};
	struct bl_tx *tx = &peer->tx;
	bool turn, dirty = false;
	uint64_t began;
	uint8_t *to;

	if (len <= BL_SLOT_INLINE)
		return put_acked(ep, peer, send, len, op, flags);
	if (len > ep->limit.eager_max) {
		*way = choose(ep, peer, send, &s);
		if (*way > BL_COPYBUF)
			return -EMSGSIZE;
		dirty = bl_policy_dirty(bl_limits(), &s) >= BL_DIRTY_RING;
	} else {
		*way = bl_copybuf_may(tx, len) ? BL_COPYBUF : BL_EAGER;
	}
	turn = *way == BL_COPYBUF;
	to = turn ? NULL : bl_tx_payload(tx, (uint32_t)len);
	bl_presence_active(ep, bl_ticks());
	if (unlikely(!to && !turn)) {
		/* A full ring is not what a ping-pong looks like. */
		s.pattern = s.pattern == BL_ANSWER ? BL_PINGPONG : s.pattern;
		if ((len <= ep->limit.eager_max || len <= bl_policy_eager(bl_limits(), &s)) &&
		    bl_gives_room(peer))
			return bl_txq_not_now(ep, peer, BL_TXQ_SOON);
		*way = announced_way(ep, peer, send, &s);
		return -EMSGSIZE;
	}
	if (dirty) /* one that the ring has no room for is judged again when it goes */
		tx->dirty_left -= !bl_policy_near_enough(bl_limits(), &s);
	if (send->flags & BL_DELIVERY_COMPLETE) {
		struct bl_send_op *r = await_delivery(ep, peer, send, len);

		if (unlikely(!r))
			return bl_no_memory(ep);
		flags |= BL_SLOT_ACK;
		bl_tx_slot(tx)->request = bl_send_op_number(r);
	}
	began = bl_copy_begins(ep, len);
	if (turn) {
		put_copybuf(ep, peer, send->iov, send->niov, BL_HEAD(len, op, flags), send->tag,
			    send->data);
	} else {
		if (likely(send->niov == 1 && !dirty)) /* which are stored slowly near by, too */
			flags |= bl_tx_store(tx, to, send->iov[0].iov_base, len);
		else
			gather(tx, to, send, len);
		bl_tx_payload_take(tx, (uint32_t)len);
	}
	bl_copy_ends(ep, began);
	if (!turn)
		publish_long(ep, peer, to, BL_HEAD(len, op, flags), send->tag, send->data);
	if (to && bl_tx_is_pingpong(tx) && !(flags & BL_SLOT_NT_STORED))
		bl_tx_payload_demote(tx, to, (uint32_t)len, false);
	if (to && (dirty || len <= BL_SHORT_MOST) && !(flags & BL_SLOT_NT_STORED)) {
		bl_warm_later(ep, peer);
		ep->warm_long = dirty;
	}
	bl_peer_notify(peer);
	if (len >= BL_PROXY_MIN)
		bl_habit_leave(ep);
	if (to)
		may_be_a_lap(peer, to);
	if (!(flags & BL_SLOT_ACK))
		sent(ep, send, len);
	return 0;
}

/* One longer than the eager limit, or of whose delivery its sender wants to hear. */
static int send_long(struct bl_ep *ep, const struct bl_send *send, size_t len)
{
	struct bl_peer *peer = likely(send->dest < ep->ndest) ? ep->dest[send->dest] : &bl_nobody;
	enum bl_way way = BL_RNDV;
	struct bl_send_op *r;
	int err;

	if (unlikely(ep->demoting.sampled))
		bl_demote_next(ep);
	if (len >= BL_PROXY_MIN)
		bl_dirty_back(ep);
	if (unlikely(!bl_tx_room(&peer->tx))) {
		err = bl_find_room(ep, send->dest, &peer);
		if (unlikely(err))
			return bl_txq_send(ep, send, err);
	}
	err = put_eager_long(ep, peer, send, len, &way);
	if (likely(!err))
		return 0;
	if (err != -EMSGSIZE)
		return bl_txq_send(ep, send, err);
	bl_proxy_ask(ep, peer, len);
	r = bl_rndv_announce(ep, peer, send, len, way == BL_PROXY);
	if (unlikely(!r))
		return bl_no_memory(ep);
	if (way == BL_PROXY)
		bl_proxy_announced(ep, r);
	return 0;
}

int bl_send(struct bl_ep *ep, const struct bl_send *send)
{
	size_t len;
	int err;

	if (send->niov > BL_IOV_MAX)
		return -EINVAL;
	len = bl_iov_len_checked(send->iov, send->niov);
	if (len > BL_MSG_MOST || (len > ep->limit.inject_max && send->flags & BL_INJECT))
		return -EMSGSIZE;
	/* Whoever wants to hear of the delivery hears of it by FIN. */
	if (len > ep->limit.eager_max || send->flags & BL_DELIVERY_COMPLETE)
		return send_long(ep, send, len);
	if (send->niov == 1)
		err = bl_put_flags(ep, send->dest, send->iov[0].iov_base, len, send->tag,
				   send->data, send->flags);
	else
		err = send_pieces(ep, send, len);
	if (unlikely(err))
		return bl_txq_send(ep, send, err);
	sent(ep, send, len);
	return 0;
}

int bl_send_fenced(struct bl_ep *ep, const struct bl_send *send)
{
	struct bl_peer *peer;
	int err = bl_ep_resolve(ep, send->dest, &peer);

	if (err)
		return err;
	if (!peer->dead && ep->txq.opening != peer &&
	    (bl_rma_pending(ep, peer) || !bl_txq_is_empty(peer->txq)))
		return bl_txq_send(ep, send, BL_QUEUE);
	return bl_send(ep, send);
}

bl_noinline int bl_send_long(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			     uint64_t tag, uint64_t data, void *context, uint64_t flags)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct bl_send send = {&iov, 1, dest, tag, data, context, flags, NULL};

	if (unlikely(len > BL_MSG_MOST))
		return -EMSGSIZE;
	return send_long(ep, &send, len);
}
