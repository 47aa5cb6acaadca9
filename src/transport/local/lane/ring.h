/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ring.h: one direction between two endpoints: 64 slots and a payload ring in the sender's
 * memory, and the copy buffer behind it.
 *
 * One producer (the sender's domain) and one consumer (the receiver's), each serialised by its own
 * domain; no lock, no atomic read-modify-write. Progress is wait-free on either side: a full ring
 * says so. A sender that dies between its stores leaves a slot whose number was never stored, which
 * nobody sees; or a streamed message that isn't all there, which nobody takes. A receiver that dies
 * leaves a ring that fills.
 *
 * Why it looks as it does:
 *  - The number in the slot is the only flag, and lies in the line that carries a short message's
 *    bytes: one line crosses.
 *  - Lines after the first are stored before it.
 *  - Credits come back every few packets, and with a second short message in a row the other
 *    way, in a line of their own.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_RING_H
#define BL_TRANSPORT_LOCAL_LANE_RING_H

#include "base/clock.h"
#include "base/window.h"
#include "copy/move.h"
#include "transport/local/lane/wire.h"

#define BL_CREDIT_EVERY	    8u	   /* packets */
#define BL_CREDIT_BYTES	    7680u  /* or payload bytes, whichever comes first */
#define BL_PREFETCH_MOST    8192u  /* payload bytes that are asked for in an idle moment, */
#define BL_PREFETCH_LONG    32768u /* or of messages that are longer than those beside them */
#define BL_SHORT_MOST	    8192u  /* of messages that are best off in a ring of BL_PAYLOAD_SIZE */
#define BL_TX_PREFETCH	    2u	   /* packets: whose lines a stream asks for early */
#define BL_TX_PREFETCH_MOST 6144u  /* payload bytes of them */
#define BL_OWN_SLOTS	    16u	   /* at most, whose lines it stores something to at once, */
#define BL_OWN_LINES	    32u	   /* and so many lines */
#define BL_ANSWER_EVERY	    42u	   /* packets: then it is looked at again how we answer; ring.c */
#define BL_RX_PREFETCH	    4u	   /* packets: which slot the receiver asks for early */
#define BL_TURN		    3u	   /* packets: a CTS and a FIN for what has come, and an answer */
#define BL_DEMOTE_PINGPONG  4096u  /* payload bytes that are passed on: in a ping-pong, */
#define BL_DEMOTE_LONGER    1024u  /* the last ones of more than that, */
#define BL_DEMOTE_EXCHANGE  512u   /* and where messages cross */
#define BL_DEMOTE_STREAM    168u   /* bytes in a slot (three lines) in a stream */
#define BL_STREAM_AFTER	    128u   /* long messages, and none the other way */
#define BL_PINGPONG_AFTER   2u	   /* long messages, before each of which one has come */
#define BL_EXCHANGE_MIN	    1024u  /* bytes of those, where only messages that cross go in turn */
#define BL_SHORT_LAP	    4u /* uses that a lap counts whose last packet isn't one by itself */
#define BL_SLOW_ENOUGH	    3u /* in a row: a single one may have been interrupted */
#define BL_FAR		    5u /* so many slow lines it takes, and two quick ones in a row to undo it */

/* The producer's private half. */
struct bl_tx {
	struct bl_slot *slot; /* NULL until connected */
	struct bl_lane *lane;
	uint32_t next;	    /* number of the next packet */
	uint32_t limit;	    /* packets below this number have room */
	uint32_t last;	    /* length of the last packet */
	uint32_t pay_at;    /* where in the payload ring the next bytes go */
	uint32_t pay_size;  /* of the payload ring: BL_PAYLOAD_SIZE, or more; longring.c */
	uint32_t heard;	    /* packets of the other direction at the last send */
	uint16_t nlong;	    /* long stores, and what else shows that a longer ring were of use */
	uint16_t probed;    /* packet that ring.c looked before how far it is, modulo 65536 */
	uint8_t replies;    /* bit i: the i-th last one heard was an answer to all of ours */
	uint8_t slow : 3;   /* long stores in a row, or lines, that were */
	uint8_t timed : 1;  /* our next answer is being timed */
	uint8_t stores : 1; /* an answer's slot is stored to when its message comes */
	uint8_t lines : 3;  /* of each slot below `owned` */
	uint8_t past;	    /* so many more long ones pass the caches by */
	uint8_t asked;	    /* packets sent when a message or RTS was last heard, modulo 256 */
	uint64_t pay_head;  /* bytes ever taken, the skipped ones included */
	uint64_t pay_tail;  /* bytes ever given back */
	uint16_t pay_end[BL_SLOTS]; /* pay_head after each packet in flight, in lines */
	uint32_t copybuf;	    /* where in the payload the copy buffer begins; 0: none */
	uint32_t copybuf_room;	    /* bytes of it */
	uint32_t offer;		    /* where in the other's our next long message goes; or 0 */
	uint32_t offer_room;	    /* if it is no longer than that */
	bool offers;		    /* ours is the other's to write to */
	bool answered;		    /* a long message has come since our last one */
	uint8_t turns;	   /* so many of ours in a row, at most BL_PINGPONG_AFTER, had been */
	uint8_t stride;	   /* slots that were stored to at once, the last time */
	uint32_t owned;	   /* packets below this number have lines that were stored to */
	uint32_t pay_most; /* what pay_size may be; BL_PAYLOAD_SIZE until the lane is stretched */
	uint8_t alone;	   /* long messages since one of the other's, at most BL_STREAM_AFTER */
	uint8_t short_of;  /* what speaks for a longer ring: 1 for each message that would have gone
			    * whole, 2 for each lap of a stream, and -1 for any other */
	bool exchange_only; /* bl_copy_plan()->exchange_only */
	uint8_t dirty; /* announced messages in a row that were: transport/local/adapt/dirty.h */
	uint8_t dirty_left; /* so many more are taken for it */
	uint8_t nstored;    /* long stores that may have been timed, modulo 256 */
	uint32_t heard_at;  /* ticks: the message whose answer was timed the last time, or is */
	uint32_t answer;    /* that is packet so-and-so */
};
static_assert(offsetof(struct bl_tx, pay_end) == BL_LINE, "one line for what each packet needs");
static_assert(BL_PAYLOAD_MOST / BL_LINE <= UINT16_MAX, "and 16 bits for lines in flight");

/* The consumer's private half. */
struct bl_rx {
	struct bl_slot *slot;
	struct bl_lane *lane;
	uint32_t next;	       /* number of the packet expected */
	uint32_t credited;     /* `consumed` as last told, less `exact_credits` */
	uint32_t bytes;	       /* of the packets since */
	uint8_t exact_credits; /* BL_CREDIT_EVERY - 1: credit every packet; else 0 */
	uint8_t span;	       /* of the lane, as far as it is mapped: a power of two */
	uint16_t left;	       /* the last packet heard that stayed in the ring, modulo 65536 */
	/* for those who count (stats.h) */
	uint64_t total;		    /* bytes of the packets before `credited` */
	uint64_t nlong, long_bytes; /* packets longer than a slot ever, their bytes */
};

/* Bytes from which on it matters how far the receiver's cache is: bl_copy_plan()->past_min once
 * there is a neighbour. */
extern _Atomic uint32_t bl_tx_past_min;
/* ring.c; its tests decide by them what seems far, and late. */
extern uint32_t bl_tx_far_ns, bl_tx_here_ns, bl_tx_late_ns;
/* By how long stores of so many bytes take; where fewer matter, by how long a line takes. */
#define BL_TX_TIMED 4096u

static inline bool bl_tx_probes(void)
{
	return atomic_load_explicit(&bl_tx_past_min, memory_order_relaxed) < BL_TX_TIMED;
}

/* One such store; ring.c. */
bl_noinline uint32_t bl_tx_store_long(struct bl_tx *tx, void *to, const void *from, size_t len);

/* A lane has been connected: fill in the rest of its producer's half. */
void bl_tx_begin(struct bl_tx *tx);

/* The lane has pages for `size` bytes of payload: use them from now on, the last `ping-pong` ones
 * for ping-pongs, the others as a ring. */
void bl_tx_lengthen(struct bl_tx *tx, uint32_t size, uint32_t copybuf);

/* All of the payload has been read, as far as is told, and none of it is the other's to write to.
 */
bool bl_tx_is_empty(struct bl_tx *tx);
/* Then: as it was before it was stretched. */
void bl_tx_shrink(struct bl_tx *tx);

/* The receiver's cache has been found to be far away, by the time that a line takes. */
static inline bool bl_tx_is_far(const struct bl_tx *tx)
{
	return tx->slow > BL_SLOW_ENOUGH;
}

/* Is it? Of len bytes that aren't stored by bl_tx_store(), or not at all. */
void bl_tx_look(struct bl_tx *tx, size_t len);

/* Bytes into the payload ring; what the packet's flags are to say of them. */
static inline uint32_t bl_tx_store(struct bl_tx *tx, void *to, const void *from, size_t len)
{
	if (len >= atomic_load_explicit(&bl_tx_past_min, memory_order_relaxed))
		return bl_tx_store_long(tx, to, from, len);
	memcpy(to, from, len);
	return 0;
}

/* Learn what the receiver has consumed. Returns false if the ring is still full. */
static inline bool bl_tx_refresh(struct bl_tx *tx)
{
	/* acquire: pairs with the release in bl_rx_credit; the receiver has read
	 * what we are about to overwrite */
	uint32_t consumed = atomic_load_explicit(&tx->lane->consumed, memory_order_acquire);

	/* A neighbour may write anything there: believe it only within what is
	 * in flight. */
	if (likely(consumed - (tx->limit - BL_SLOTS) <= tx->next - (tx->limit - BL_SLOTS)) &&
	    consumed != tx->limit - BL_SLOTS) {
		tx->pay_tail += BL_LINE * (uint16_t)(tx->pay_end[(consumed - 1) % BL_SLOTS] -
						     tx->pay_tail / BL_LINE);
		tx->limit = consumed + BL_SLOTS;
	}
	return tx->next != tx->limit;
}

/* Bytes of the payload ring that the receiver hasn't read, as far as it has told; with those that
 * were skipped at its end. */
uint64_t bl_tx_unread(struct bl_tx *tx);

bl_always_inline bool bl_tx_room(const struct bl_tx *tx)
{
	return likely(tx->next != tx->limit);
}

bl_always_inline struct bl_slot *bl_tx_slot(const struct bl_tx *tx)
{
	return &tx->slot[tx->next % BL_SLOTS];
}

/* The next packet stays in the ring, though it has been heard: it isn't news when it is read. */
bl_always_inline void bl_rx_leave(struct bl_rx *rx)
{
	rx->left = (uint16_t)rx->next;
}

bl_always_inline bool bl_rx_was_left(const struct bl_rx *rx)
{
	return unlikely(rx->left == (uint16_t)rx->next);
}

/* Nothing has come back since the last packet: more will follow it. `received`:
 * packets of the other direction. */
bl_always_inline bool bl_tx_streams(struct bl_tx *tx, uint32_t received)
{
	uint32_t heard = tx->heard;

	tx->heard = received;
	return heard == received;
}

/* A message or RTS has come, the first one since we sent something: had its sender read that, or
 * did the two cross? Two bits can't tell of more than three packets; if we sent more, it is no
 * ping-pong. Of what is heard again, or comes behind it, nothing is learned. A hint: one who keeps
 * five unread and answers each looks as if it had read them all, and 256 packets like none. */
bl_always_inline void bl_tx_hear(struct bl_tx *tx, uint32_t head)
{
	uint8_t sent = (uint8_t)(tx->next - tx->asked);
	bool reply = sent <= BL_TURN && !((tx->next ^ BL_HEAD_HEARD(head)) & 3);

	if (!sent)
		return;
	tx->asked = (uint8_t)tx->next;
	tx->replies = (uint8_t)(tx->replies << 1 | reply);
}

/* Three times in a row it had read all that we had sent when it sent, and it is our turn: what we
 * send now it waits for. */
bl_always_inline bool bl_tx_is_pingpong(const struct bl_tx *tx)
{
	return (tx->replies & 7) == 7 && (uint8_t)(tx->next - tx->asked) <= BL_TURN;
}

/* It has heard no message of the other for more packets than a ping-pong has. */
static inline bool bl_tx_is_silent(const struct bl_tx *tx)
{
	return (uint8_t)(tx->next - tx->asked) > BL_TURN;
}

/*
 * Lines of our own. What a packet is written to lies in the receiver's cache, and the sender asks
 * for it ahead. On AMD's Zen 4 a line that prefetchw has brought is ours only as long as it
 * stays in the first-level cache: once the MPI library has pushed it out of there, a store to it
 * waits as if nobody had asked, and the library's next locked instruction waits for that store. A
 * line that has been stored to stays ours, wherever it lies. So there (bl_tx_stores()) something is
 * stored to the lines ahead: of slots that have room (tx->next to tx->limit), never to what a
 * reader or `beeline stat` looks at (seq, head), and of payload that bl_tx_payload() would give.
 * That a line is ours is a hint: who polls it has taken it back.
 */
extern _Atomic bool bl_tx_by_store; /* bl_copy_plan()->own_by_store, once there is a neighbour */

bl_always_inline bool bl_tx_stores(void)
{
	return atomic_load_explicit(&bl_tx_by_store, memory_order_relaxed);
}

/* Lines that a packet of len bytes takes. */
bl_always_inline uint32_t bl_slot_lines(size_t len)
{
	return (uint32_t)(len + offsetof(struct bl_slot, bytes) + BL_LINE - 1) / BL_LINE;
}

/* Store to the lines that a packet of len bytes takes behind its first one. For the slot there is
 * room. */
bl_always_inline void bl_slot_own_rest(struct bl_slot *slot, size_t len)
{
	for (size_t off = BL_LINE; off < len + offsetof(struct bl_slot, bytes); off += BL_LINE)
		*((volatile char *)slot + off) = 0;
}

/* The same to all of them. */
bl_always_inline void bl_slot_own(struct bl_slot *slot, size_t len)
{
	*(volatile uint64_t *)&slot->data = 0;
	bl_slot_own_rest(slot, len);
}

/* A message of a ping-pong has come whose answer, the next packet, is to be timed; and a packet is
 * about to be sent while one is timed. They decide whether tx->stores. */
bl_noinline void bl_tx_answer_due(struct bl_tx *tx);
bl_noinline void bl_tx_answers(struct bl_tx *tx);

/* A packet has come; have the lines of an answer like our last one on their way. In a slot: the
 * first one only in a ping-pong, for where messages cross the other has asked for it already, to
 * read it, and would only do so again. */
bl_always_inline void bl_tx_slot_warm(struct bl_tx *tx)
{
	const char *slot = (const char *)&tx->slot[tx->next % BL_SLOTS];

	if (bl_tx_is_pingpong(tx)) {
		if (unlikely(tx->next - tx->answer >= BL_ANSWER_EVERY && !tx->timed))
			bl_tx_answer_due(tx);
		if (tx->stores && bl_tx_room(tx)) {
			bl_slot_own(bl_tx_slot(tx), tx->last <= BL_SLOT_INLINE ? tx->last : 0);
			return;
		}
		bl_prefetch_write(slot);
	}
	if (tx->last > BL_SLOT_FIRST && tx->last <= BL_SLOT_INLINE)
		for (size_t off = BL_LINE; off < tx->last + offsetof(struct bl_slot, bytes);
		     off += BL_LINE)
			bl_prefetch_write(slot + off);
}

/* In a stream, have the lines of a later packet like this one on their way: they
 * lie in the receiver's cache. Not in a ping-pong, where nothing may be in the way
 * of the one line that counts. */
bl_always_inline void bl_tx_slot_prefetch(const struct bl_tx *tx, size_t len)
{
	const char *slot = (const char *)&tx->slot[(tx->next + BL_TX_PREFETCH) % BL_SLOTS];

	bl_prefetch_write(slot);
	for (size_t off = BL_LINE; off < len + offsetof(struct bl_slot, bytes); off += BL_LINE)
		bl_prefetch_write(slot + off);
}

/* The same by storing to those of the next few packets, as if all were of len bytes: of more each
 * time, as long as the stream goes on, and at once, so that they come side by side. */
bl_noinline void bl_tx_own_slots(struct bl_tx *tx, size_t len);

/* A packet of len bytes is about to be written to its slot; `stream`: bl_tx_streams(). */
bl_always_inline void bl_tx_before_packet(struct bl_tx *tx, size_t len, bool stream)
{
	if (unlikely(tx->timed))
		bl_tx_answers(tx);
	if (stream && !bl_tx_stores())
		bl_tx_slot_prefetch(tx, len);
}

/* It has been published. (Stores keep their order: before it, they would keep it waiting.) Where
 * nothing streams, the other polls the first line of the next slot, and no other. */
bl_always_inline void bl_tx_after_packet(struct bl_tx *tx, size_t len, bool stream)
{
	if (!bl_tx_stores())
		return;
	if (!stream) {
		if (unlikely(len > BL_SLOT_FIRST) && bl_tx_room(tx))
			bl_slot_own_rest(bl_tx_slot(tx), len);
	} else if (tx->owned - tx->next - 1u >= BL_OWN_SLOTS || bl_slot_lines(len) > tx->lines) {
		bl_tx_own_slots(tx, len);
	}
}

static inline void bl_tx_payload_prefetch(const struct bl_tx *tx, size_t len)
{
	size_t end = bl_min(tx->pay_at + 2 * len, (size_t)tx->pay_size);

	if (len <= BL_TX_PREFETCH_MOST)
		for (size_t off = tx->pay_at + len; off < end; off += BL_LINE)
			bl_prefetch_write(tx->lane->payload + off);
}

/* Make the slot that bl_tx_slot() gave visible; all else has been stored. */
bl_always_inline void bl_tx_publish(struct bl_tx *tx, struct bl_slot *slot, uint32_t len)
{
	uint32_t n = tx->next;

	tx->pay_end[n % BL_SLOTS] = (uint16_t)(tx->pay_head / BL_LINE);
	tx->next = n + 1;
	tx->last = len;
	bl_window(BL_WINDOW_PACKET, slot);
	/* release: pairs with the acquire in bl_rx_peek */
	atomic_store_explicit(&slot->seq, n + 1, memory_order_release);
}

bl_always_inline void bl_demote_range(const void *p, size_t from, size_t end)
{
	for (; from < end; from += BL_LINE)
		bl_demote_line((const char *)p + from);
}

/* The packet has been published: its lines are wanted by the receiver, who finds them sooner where
 * all cores look. Few of them, where there is more to do: each takes 6 ns. */
bl_always_inline void bl_tx_slot_demote(const struct bl_slot *slot, size_t len, bool stream)
{
	bl_window(BL_WINDOW_PASSED, NULL);
	bl_demote_line(slot);
	if (len > BL_SLOT_FIRST && (!stream || len <= BL_DEMOTE_STREAM))
		bl_demote_range(slot, BL_LINE, len + offsetof(struct bl_slot, bytes));
}

bl_always_inline void bl_tx_payload_demote(const struct bl_tx *tx, const void *payload, size_t len,
					   bool stream)
{
	size_t from =
		len <= BL_DEMOTE_PINGPONG ? 0 : (len - BL_DEMOTE_LONGER) & ~(size_t)(BL_LINE - 1);

	if (stream || (len > BL_DEMOTE_EXCHANGE && !bl_tx_is_pingpong(tx)))
		return;
	bl_window(BL_WINDOW_PASSED, (void *)(uintptr_t)payload);
	bl_demote_range(payload, from, len);
}

/* What a packet of len bytes takes of the payload ring: no line serves two. */
static inline uint32_t bl_tx_payload_size(uint32_t len)
{
	return (len + BL_LINE - 1) / BL_LINE * BL_LINE;
}

/* What is left unused at the end when size bytes don't fit there. */
static inline uint32_t bl_tx_payload_skip(const struct bl_tx *tx, uint32_t size)
{
	return tx->pay_at + size > tx->pay_size ? tx->pay_size - tx->pay_at : 0;
}

/* The ring has no room for len bytes. If it may be longer it is, and gives some; else NULL. */
bl_noinline uint8_t *bl_tx_payload_longer(struct bl_tx *tx, uint32_t len);

/*
 * Contiguous room for len bytes (at most half of pay_most) in the payload
 * ring, or NULL. Nothing is taken until bl_tx_payload_take(), but it may have
 * become longer.
 */
static inline uint8_t *bl_tx_payload(struct bl_tx *tx, uint32_t len)
{
	uint32_t size = bl_tx_payload_size(len), skip = bl_tx_payload_skip(tx, size);

	if (unlikely(tx->pay_head + skip + size - tx->pay_tail > tx->pay_size)) {
		bl_tx_refresh(tx);
		if (tx->pay_head + skip + size - tx->pay_tail > tx->pay_size)
			return bl_tx_payload_longer(tx, len);
	}
	return tx->lane->payload + (skip ? 0 : tx->pay_at);
}

static_assert(BL_PREFETCH_LONG <= BL_PAYLOAD_SIZE, "all of it lies there");

/* Where in the payload ring the next packet goes if it is like the last one, and how many of its
 * bytes, at most `most`, are worth asking for. */
static inline uint8_t *bl_tx_payload_next(const struct bl_tx *tx, uint32_t most, uint32_t *len)
{
	uint32_t size = bl_tx_payload_size(tx->last);

	*len = bl_min(size, most);
	return tx->lane->payload + (bl_tx_payload_skip(tx, size) ? 0 : tx->pay_at);
}

/* And whether all of them may be written to: the receiver has told that it has read what was there.
 */
static inline bool bl_tx_payload_vacant(const struct bl_tx *tx)
{
	uint32_t size = bl_tx_payload_size(tx->last);

	return tx->pay_head + bl_tx_payload_skip(tx, size) + size - tx->pay_tail <= tx->pay_size;
}

/* A message of len bytes might go to a copy buffer, if the ring were long. */
bool bl_tx_lacks_buffer(const struct bl_tx *tx, size_t len);

/* Once more round a ring that hasn't been stretched, with a packet of len bytes: of what use would
 * that have been? */
bl_noinline void bl_tx_payload_lap(struct bl_tx *tx, size_t len);

/* The room that bl_tx_payload() found for len bytes is taken; publish next. */
static inline void bl_tx_payload_take(struct bl_tx *tx, uint32_t len)
{
	uint32_t size = bl_tx_payload_size(len), skip = bl_tx_payload_skip(tx, size);

	tx->pay_head += skip + size;
	tx->pay_at = (skip ? 0 : tx->pay_at) + size;
	if (tx->pay_at == tx->pay_size)
		tx->pay_at = 0;
	if (unlikely(skip || !tx->pay_at) && tx->pay_most == BL_PAYLOAD_SIZE)
		bl_tx_payload_lap(tx, len);
}

/* A message has been published that lies at the beginning of the ring: a stream needs a stretched
 * one, and who talks doesn't. (Those of large ones and of one-sided operations, which go in pieces
 * for which there is to be room, change nothing.) */
bl_noinline void bl_tx_payload_again(struct bl_tx *tx);

/*
 * The copy buffer. Where a core has just read lines that another had written, they are its own
 * to write to, and the other reads them sooner than any others (AMD's caches), or at least each
 * crosses once, not twice (docs/performance.md). So two who send each other one long message at a
 * time, in turn or both at once (on some machines only both at once: exchange_only), put each where
 * they have just read the other's.
 *
 *   The buffer lies behind the ring of its owner's longer lane. The owner offers it with a message
 * that it has put there (BL_SLOT_CB_GRANT), and leaves it alone from then on. Who has read an offer
 * puts its next long message there (BL_SLOT_CB_USE), once, and nobody writes to it then until the
 * owner, having read that one, offers it anew. Or it declines: the buffer is too short for what it
 * announces instead (BL_SLOT_CB_USE, of an RTS).
 *
 *   There, a message of some length grows: it is published with its first piece, and
 * bl_slot.there says how much of it has been written (BL_SLOT_STREAMED). Until that is all, it is
 * nobody's but his who copies it at once; a receiver that would sleep only naps for as long.
 *
 * A long message is one of more than BL_SLOT_INLINE bytes that goes as one packet, or could have
 * (bl_copy_plan()->pingpong_max; or, if its bytes are fresh, dirty_max: those go there whether they
 * cross or not). What is counted here are such messages alone, whatever is said in between: unlike
 * bl_tx.replies, which also learns from short ones. Credits know nothing of the buffer, and nobody
 * waits for it: whose offer isn't taken uses the ring. Where only what crosses goes there an offer
 * may stay so for good: two turns say that they talk, and it takes three to know that they don't
 * cross.
 *
 * There, too, who has found the other to be far away by the time of its stores (bl_tx.past) passes
 * the caches by, and goes on finding out.
 */
static inline bool bl_copybuf_is_offered(const struct bl_tx *tx, size_t len)
{
	return unlikely(tx->offer && len <= tx->offer_room);
}

static inline bool bl_copybuf_may_offer(const struct bl_tx *tx)
{
	return tx->copybuf && !tx->offers && tx->answered && tx->turns == BL_PINGPONG_AFTER;
}

static inline bool bl_copybuf_has_place(const struct bl_tx *tx, size_t len)
{
	return bl_copybuf_is_offered(tx, len) ||
	       unlikely(bl_copybuf_may_offer(tx) && len <= tx->copybuf_room);
}

static inline bool bl_copybuf_may(const struct bl_tx *tx, size_t len)
{
	return bl_copybuf_has_place(tx, len) &&
	       (!tx->exchange_only ||
		(len >= BL_EXCHANGE_MIN && !tx->past && !bl_tx_is_pingpong(tx)));
}

/* Where the next long message goes, which may go there, and what its flags are to say. If what has
 * been offered is too short, ours is offered as well, and that stays. */
static inline uint8_t *bl_copybuf_take(struct bl_tx *tx, const struct bl_rx *rx, size_t len,
				       uint32_t *flags)
{
	uint32_t offer = tx->offer;

	if (bl_copybuf_is_offered(tx, len)) {
		tx->offer = 0;
		*flags = BL_SLOT_CB_USE;
		return rx->lane->payload + offer;
	}
	tx->offers = true;
	*flags = BL_SLOT_CB_GRANT;
	return tx->lane->payload + tx->copybuf;
}

/* A long message is on its way, there or through the ring. It counts for streams, too. */
static inline void bl_copybuf_said(struct bl_tx *tx)
{
	tx->turns = tx->answered ? tx->turns + (tx->turns < BL_PINGPONG_AFTER) : 0;
	tx->answered = false;
	tx->alone += tx->alone < BL_STREAM_AFTER;
}

/* One has been announced; `could`: it could have gone there, had they been known to talk. */
static inline void bl_tx_said_rts(struct bl_tx *tx, bool could)
{
	if (could)
		bl_copybuf_said(tx);
	else
		tx->alone += tx->alone < BL_STREAM_AFTER;
}

/* What its flags say, if it could: what has been offered is too short, and its owner's again. */
static inline uint32_t bl_copybuf_decline(struct bl_tx *tx, size_t len)
{
	if (likely(!tx->offer || len <= tx->offer_room))
		return 0;
	tx->offer = 0;
	return BL_SLOT_CB_USE;
}

static inline void bl_tx_heard_rts(struct bl_tx *tx, bool could, uint32_t flags)
{
	if (unlikely(flags & BL_SLOT_CB_USE))
		tx->offers = false;
	tx->answered |= could;
	tx->alone = 0;
}

/* None of the other's has come for so many of ours: those who exchange windows of them hear of
 * each other within one. */
static inline bool bl_tx_is_alone(const struct bl_tx *tx)
{
	return tx->alone == BL_STREAM_AFTER;
}

/* Where the bytes of one with BL_SLOT_CB_USE lie, or NULL: nothing has been offered for it. */
static inline const uint8_t *bl_copybuf_bytes(const struct bl_tx *tx, uint32_t len)
{
	return tx->offers && len <= tx->copybuf_room ? tx->lane->payload + tx->copybuf : NULL;
}

/* A long message has been read. `head`: the caller's private copy. */
void bl_copybuf_heard(struct bl_tx *tx, const struct bl_rx *rx, const struct bl_slot *slot,
		      uint32_t head);

/* The bytes of a message that fits its slot: the lines behind the first one
 * first, so that the flag's line is written in one burst. */
bl_always_inline void bl_slot_fill(struct bl_slot *slot, const void *buf, size_t len)
{
	if (likely(len <= BL_SLOT_FIRST)) {
		bl_move(slot->bytes, buf, len);
	} else {
		bl_move(slot->bytes + BL_SLOT_FIRST, (const char *)buf + BL_SLOT_FIRST,
			len - BL_SLOT_FIRST);
		bl_compiler_barrier();
		memcpy(slot->bytes, buf, BL_SLOT_FIRST);
	}
}

/* Packet n, one of the BL_SLOTS at the consumer's end, or NULL: it hasn't come. */
bl_always_inline struct bl_slot *bl_rx_at(const struct bl_rx *rx, uint32_t n)
{
	struct bl_slot *slot = &rx->slot[n % BL_SLOTS];

	/* acquire: pairs with the release in bl_tx_publish */
	if (likely(atomic_load_explicit(&slot->seq, memory_order_acquire) != n + 1))
		return NULL;
	return slot;
}

/* Does the message, of which `head` is the caller's private copy, say of itself how much is there?
 * Only one in a copy buffer. */
bl_always_inline bool bl_slot_is_streamed(uint32_t head)
{
	return head & BL_HEAD(0, 0, BL_SLOT_STREAMED) &&
	       head & BL_HEAD(0, 0, BL_SLOT_CB_GRANT | BL_SLOT_CB_USE) &&
	       BL_HEAD_OP(head) <= BL_OP_MSG && BL_HEAD_LEN(head) > BL_SLOT_INLINE &&
	       BL_HEAD_LEN(head) <= BL_COPYBUF_MOST;
}

/* Of its len bytes those that have been written. */
static inline uint32_t bl_slot_progress(const struct bl_slot *slot, uint32_t len)
{
	/* acquire: pairs with the release in bl_slot_advance */
	return bl_min(atomic_load_explicit(&slot->there, memory_order_acquire), len);
}

#define BL_STREAMED_PIECE 16384u /* bytes of one that are added at a time, at most; */
#define BL_STREAMED_MOST  (BL_COPYBUF_MOST / BL_STREAMED_PIECE + 1) /* and so often */

/* So many are: before the slot is published, and then again and again. */
static inline void bl_slot_advance(struct bl_slot *slot, uint32_t there)
{
	atomic_store_explicit(&slot->there, there, memory_order_release);
}

/* The next packet, or NULL. */
bl_always_inline struct bl_slot *bl_rx_peek(const struct bl_rx *rx)
{
	return bl_rx_at(rx, rx->next);
}

/* The next packet is a message whose bytes aren't all there: if its sender has died, they never
 * will be, and it is as if it hadn't been sent. */
static inline bool bl_rx_is_unfinished(const struct bl_rx *rx)
{
	const struct bl_slot *slot = bl_rx_peek(rx);
	uint32_t head = slot ? *(const volatile uint32_t *)&slot->head : 0;

	return bl_slot_is_streamed(head) &&
	       bl_slot_progress(slot, BL_HEAD_LEN(head)) < BL_HEAD_LEN(head);
}

/* What a packet is for, of one that isn't being read. */
static inline uint32_t bl_slot_op(const struct bl_slot *slot)
{
	return BL_HEAD_OP(*(const volatile uint32_t *)&slot->head);
}

/* The sender may sleep until it hears of that. connect.c */
bl_cold void bl_rx_wake(struct bl_rx *rx);

/* Tell the sender how far we have read. */
bl_always_inline void bl_rx_credit(struct bl_rx *rx)
{
	struct bl_lane *lane = rx->lane;

	rx->credited = rx->next - rx->exact_credits;
	rx->total += rx->bytes;
	rx->bytes = 0;
	/* the same line: they cost no other */
	atomic_store_explicit(&lane->consumed_bytes, rx->total, memory_order_relaxed);
	atomic_store_explicit(&lane->consumed_long, rx->nlong, memory_order_relaxed);
	atomic_store_explicit(&lane->consumed_long_bytes, rx->long_bytes, memory_order_relaxed);
	/* release: pairs with the acquire in bl_tx_refresh */
	atomic_store_explicit(&lane->consumed, rx->next, memory_order_release);
	/* After that, in program order: the sender makes all processes drain their stores between
	 * setting this and its last look. */
	bl_compiler_barrier();
	if (unlikely(atomic_load_explicit(&lane->wants_room, memory_order_relaxed)))
		bl_rx_wake(rx);
}

/* Packets that have been read and not been told of. Whoever sends a window of short messages tells
 * of them, for the other may be sending one as well, and its last few would find no room. */
bl_always_inline void bl_rx_settle(struct bl_rx *rx)
{
	if (unlikely(rx->next - rx->exact_credits != rx->credited))
		bl_rx_credit(rx);
}

/* The packet of len bytes that bl_rx_peek() gave has been read. */
bl_always_inline void bl_rx_consume(struct bl_rx *rx, uint32_t len)
{
	rx->next++;
	rx->bytes += len;
	if (unlikely(len > BL_SLOT_INLINE)) {
		rx->nlong++;
		rx->long_bytes += len;
	}
	if (unlikely(rx->next - rx->credited >= BL_CREDIT_EVERY || rx->bytes >= BL_CREDIT_BYTES))
		bl_rx_credit(rx);
}

/* Where a packet's bytes lie, or NULL: the description is wrong. `len` is the
 * caller's private copy of slot->len. */
bl_always_inline const uint8_t *bl_rx_bytes(const struct bl_rx *rx, const struct bl_slot *slot,
					    uint32_t len)
{
	if (likely(len <= BL_SLOT_INLINE))
		return slot->bytes;

	uint32_t at = *(const volatile uint32_t *)&slot->at;
	uint32_t end = BL_PAYLOAD_OF(1u << rx->span);

	if (unlikely(at > end || len > end - at))
		return NULL;
	return rx->lane->payload + at;
}

#define BL_EAGER_MOST 14336 /* what FI_BEELINE_EAGER_MAX may be at most */
/* What is not credited takes up whole lines, as do what is skipped and the packet. */
#define BL_UNCREDITED (BL_CREDIT_BYTES - 1 + (BL_CREDIT_EVERY - 1) * (BL_LINE - 1))
static_assert(BL_UNCREDITED + 2 * BL_EAGER_MOST - BL_LINE <= BL_PAYLOAD_SIZE &&
		      BL_EAGER_MOST % BL_LINE == 0 && BL_PACKET_MOST % BL_LINE == 0 &&
		      BL_UNCREDITED + BL_PAYLOAD_SIZE + 2 * BL_PACKET_MOST <=
			      BL_PAYLOAD_OF(BL_LANE_LONG) - BL_COPYBUF_SIZE,
	      "a drained ring has room for any packet, whatever is not credited or skipped");

#endif
