/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wire.h: what lies in memory that processes share. Only offsets, fixed widths and bytes; no
 * pointer that anybody follows. Every reader takes a field once into a private copy, checks it
 * there and believes nothing else.
 *
 * What a process may write, it can spoil. So memory is cut by who writes it, each cut a memfd:
 *
 *   header     the endpoint's own words: life, where its regions are, what it shows. All
 *              neighbours map it, and none can write it (F_SEAL_FUTURE_WRITE).
 *   lanes      64 KiB, or up to 2 MiB, for each neighbour that it sends to, and for it alone.
 *   doorbells  what any neighbour writes: which lanes to look at, and who sleeps. Hints.
 *
 *   lane A -> B, in A's memory          who writes
 *     credits, ack bits                 B
 *     slots                             A
 *     chunk counters, of messages to A  A makes them, either takes chunks
 *     posted-receive adverts of A       A publishes, B claims
 *     counts, served                    B
 *     payload ring                      A
 *     copy buffer, at the end           both in turn (ring.h)
 *
 * A packet is written by its sender only, and the receiver writes back what it has consumed: so
 * packets return to their owner.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_WIRE_H
#define BL_TRANSPORT_LOCAL_LANE_WIRE_H

#include <assert.h>

#include "base/compiler.h"
#include "copy/chunks.h"
#include "copy/kmod.h"
#include "core/atomic_ops.h"
#include "transport/local/lane/stats.h"

#define BL_SEG_MAGIC   0x67657342u
#define BL_SEG_VERSION 26 /* cli/beeline/segments.py has it, too */

#define BL_SLOTS	    64u
#define BL_SLOT_SIZE	    320u
#define BL_SLOT_INLINE	    288u /* bytes of a message in its slot */
#define BL_SLOT_FIRST	    40u	 /* of them in the slot's first line */
#define BL_CHUNK_SETS	    45u
#define BL_ADVERTS	    14u
#define BL_RMA_COUNTS	    7u /* of operations, by their origins; transport/local/rma/count.h */
#define BL_SCATTERS	    8u /* of them, the last ones: for receives of several pieces, too */
#define BL_PAYLOAD_SIZE	    36864u /* of a lane when it is made; ring.h */
#define BL_LANE_SIZE	    65536u
#define BL_LANE_LONG	    524288u  /* and when it has been stretched; */
#define BL_LANE_COPYBUF	    1048576u /* at most, where what was just written goes in turn; */
#define BL_LANE_MOST	    2097152u /* where a core's own cache is large; longring.c */
#define BL_PAYLOAD_OF(lane) ((uint32_t)(lane)-BL_LANE_SIZE + BL_PAYLOAD_SIZE)
#define BL_PAYLOAD_MOST	    BL_PAYLOAD_OF(BL_LANE_MOST)
#define BL_PACKET_MOST                                                                             \
	131072u /* bytes of one in the ring: what FI_BEELINE_EAGER_LONG_MAX can be                 \
		 */
#define BL_COPYBUF_SIZE	  BL_PACKET_MOST /* of a longer lane, behind its ring; ring.h */
#define BL_COPYBUF_MOST	  524288u	 /* and when it has been made longer */
#define BL_SEG_HEADER	  4096u
#define BL_DOORBELLS_SIZE 4096u
#define BL_DOORBELL_WORDS 64u
#define BL_DOORBELLS	  (BL_DOORBELL_WORDS * 64u)

/* What a slot holds. */
enum bl_op {
	BL_OP_TAGGED = 1,     /* message; match by tag */
	BL_OP_MSG = 2,	      /* message; in order of arrival */
	BL_OP_TAGGED_RTS = 3, /* its description: struct bl_rts */
	BL_OP_MSG_RTS = 4,
	BL_OP_CTS = 5,	    /* receiver to sender: help to copy; struct bl_cts */
	BL_OP_FRAG_ASK = 6, /* receiver to sender: send these bytes; struct bl_frag_ask */
	BL_OP_FRAG = 7,	    /* sender to receiver: bytes asked for */
	BL_OP_FIN = 8,	    /* receiver to sender: the message is over */

	/* One-sided operations: what a direct copy can't do; transport/local/rma/rma.h. */
	BL_OP_RMA_EVENT = 9,   /* origin to target: it is done, tell and count so; bl_rma_event */
	BL_OP_RMA_ASK = 10,    /* origin to target: do it for me; struct bl_rma_ask */
	BL_OP_RMA_BYTES = 11,  /* origin to target: what to write, operands */
	BL_OP_RMA_RESULT = 12, /* target to origin: what was read */
	BL_OP_RMA_DONE = 13,   /* target to origin: it is over */
	BL_OP_RMA_DELEGATED =
		14, /* origin to target: do it for me, if I don't; struct bl_rma_delegated */

	BL_OP_WITHDRAW = 15, /* sender to receiver: cancelled; tag = request.
				transport/local/withdraw.c */
};

#define BL_SLOT_DATA	  0x01u /* the message carries remote CQ data */
#define BL_SLOT_RKEYS	  0x02u /* RTS: a key for each piece follows the pieces */
#define BL_SLOT_ACK	  0x08u /* message: FIN when it has been delivered */
#define BL_SLOT_NT_STORED 0x10u /* its bytes passed the sender's caches by: they lie in memory */
#define BL_SLOT_CB_GRANT  0x04u /* message: it lies in our copy buffer; ring.h */
#define BL_SLOT_CB_USE	  0x80u /* message: it lies in the receiver's, which had been offered; */
				/* RTS: that isn't used, and its owner's again */
#define BL_SLOT_STREAMED 0x02u	/* one of these: it may still be being written; slot->there */
/* One bit says two things, by what the packet is: RKEYS and STREAMED. */

/* Two bits, read of messages and RTSs only: how many packets of the other direction their sender
 * had read, modulo 4. A hint from which the receiver learns whether its own last packet had come by
 * then; ring.h. */
#define BL_SLOT_HEARD(n)   (((n)&3u) << 5)
#define BL_SLOT_HEARD_BITS BL_SLOT_HEARD(3)

#define BL_HEAD(len, op, flags) ((uint32_t)(len) | (uint32_t)(op) << 20 | (uint32_t)(flags) << 24)
#define BL_HEAD_LEN(head)	((head)&0xfffff)
#define BL_HEAD_OP(head)	((head) >> 20 & 0xf)
#define BL_HEAD_FLAGS(head)	((head) >> 24)
#define BL_HEAD_HEARD(head)	((head) >> 29 & 3)
static_assert(!(BL_SLOT_HEARD_BITS & (BL_SLOT_DATA | BL_SLOT_RKEYS | BL_SLOT_ACK |
				      BL_SLOT_NT_STORED | BL_SLOT_CB_GRANT | BL_SLOT_CB_USE)),
	      "no flag is among them");
static_assert(BL_PACKET_MOST <= 0xfffff && BL_COPYBUF_MOST <= 0xfffff && BL_OP_WITHDRAW <= 0xf,
	      "a packet's head holds them");

/*
 * One packet. `seq` is the packet's number plus one, stored last: the only flag.
 * Up to BL_SLOT_INLINE bytes follow in the slot; more lie in the payload ring
 * and `at` says where.
 */
struct bl_slot {
	_Atomic uint32_t seq;
	uint32_t head; /* BL_HEAD: bytes (here or in the payload ring), operation, flags */
	uint64_t tag;  /* tag; for control packets the number of the transfer */
	uint64_t data; /* remote CQ data; see the operations */
	union {
		uint8_t bytes[BL_SLOT_INLINE];
		uint64_t word[BL_SLOT_INLINE / 8 + 1];
		struct {			/* len > BL_SLOT_INLINE */
			uint32_t at;		/* not of one with BL_SLOT_CB_USE */
			_Atomic uint32_t there; /* BL_SLOT_STREAMED: bytes of it that lie there */
			uint64_t request;	/* BL_SLOT_ACK: as in struct bl_rts; below */
			uint32_t room;		/* BL_SLOT_CB_GRANT: bytes of the copy buffer */
		};
	};
};
static_assert(sizeof(struct bl_slot) == BL_SLOT_SIZE, "shared layout");
static_assert(offsetof(struct bl_slot, bytes) == 24, "shared layout");
static_assert(offsetof(struct bl_slot, there) == 28, "shared layout");
static_assert(offsetof(struct bl_slot, request) == 32, "shared layout");
static_assert(offsetof(struct bl_slot, room) == 40, "shared layout, and in the first line");

/* BL_SLOT_ACK, and the bytes lie in the slot: the request's number is the word behind them. */
#define BL_SLOT_ACK_WORD(len) (((len) + 7) / 8)
static_assert(8 * (BL_SLOT_ACK_WORD(BL_SLOT_INLINE) + 1) == BL_SLOT_SIZE - 24, "the last word");

struct bl_piece {
	uint64_t base, len;
};
static_assert(sizeof(struct bl_piece) == sizeof(struct bl_rkey), "either takes one place");

/* Up to 8 pieces; then, of memory that is lent (kmod.h), as many keys, in the same
 * order. */
#define BL_PLACES (2 * BL_RKEYS)

/* RTS: tag and data are the message's. */
struct bl_rts {
	uint64_t len;	  /* of the message */
	uint64_t request; /* the sender's number for it, comes back in CTS, FRAG_ASK, FIN */
	/* Who has the message, decided by compare-and-swap in the slot:
	 * transport/local/ways/advert.h */
	_Atomic uint32_t taken;
	uint32_t zero;
	struct bl_piece piece[BL_PLACES];
};
/* CTS: tag = request, data = BL_REGISTERED or 0. The pieces are the receiver's, cut to the bytes
 * wanted.
 */
struct bl_cts {
	uint64_t len;
	uint64_t chunk;
	uint32_t chunks; /* which descriptor in the receiver's lane to the sender */
	uint32_t generation;
	struct bl_piece piece[BL_PLACES];
};
/* FRAG_ASK: tag = request, data = BL_REGISTERED, BL_FAULT. The sender writes the range into the
 * receiver's pieces if it may, and sends what is left as fragments. */
struct bl_frag_ask {
	uint64_t transfer;
	uint64_t off, len;
	struct bl_piece piece[BL_PLACES];
};
static_assert(sizeof(struct bl_rts) == 280, "shared layout");
static_assert(offsetof(struct bl_rts, taken) == 16, "shared layout");
static_assert(sizeof(struct bl_cts) == 280 && sizeof(struct bl_frag_ask) == 280, "shared layout");
static_assert(sizeof(struct bl_frag_ask) <= BL_SLOT_INLINE, "a description fits a slot");
#define BL_REGISTERED 1ULL /* a key for each piece follows the pieces */
#define BL_FAULT      2ULL /* the receiver may read the sender's memory, but could not: -EFAULT */
/* FRAG: tag = transfer, data = offset; or BL_FRAG_PUSHED, and
 * the bytes are the count (64 bits) of those that were written directly. */
#define BL_FRAG_PUSHED (1ULL << 63)
/* FIN: tag = request, data = 0 or an errno; and, of one that was copied once, whether it was judged
 * by the time that took, and how: transport/local/adapt/dirty.h */
#define BL_FIN_JUDGED  (1ULL << 32)
#define BL_FIN_DIRTY   (1ULL << 33)
#define BL_FIN_VERDICT (BL_FIN_JUDGED | BL_FIN_DIRTY)

/*
 * A large receive that is posted, for senders to find; see transport/local/ways/advert.h. One
 * line. The owner writes it before it is open; whoever wins it writes the state,
 * and a claimer the last three fields before it says so in its RTS.
 */
struct bl_advert {
	/* generation << 32 | claimer << 16 | enum bl_advert_state */
	_Atomic uint64_t state;
	_Atomic uint64_t number; /* in the order of posting */
	_Atomic uint64_t tag, ignore;
	_Atomic uint64_t base, len; /* len: all bytes */
	_Atomic uint16_t tagged;
	_Atomic uint16_t pieces; /* 0: at base; 2 and more: so many, in bl_adverts.scatter */
	_Atomic uint32_t chunks; /* 1 + a descriptor in the claimer's lane; 0: it copies alone */
	_Atomic uint32_t chunks_generation;
	_Atomic uint32_t chunk; /* bytes */
};
static_assert(sizeof(struct bl_advert) == BL_LINE, "shared layout");

/* Where a receive of several pieces is; the owner writes it before its advert is open. */
struct bl_scatter {
	struct bl_piece piece[BL_RKEYS];
};
static_assert(sizeof(struct bl_scatter) == BL_PAIR, "shared layout");

struct bl_adverts {
	_Atomic uint64_t posted; /* bit i: look at advert i; the owner writes */
	uint8_t pad0[BL_LINE - 8];
	struct bl_advert advert[BL_ADVERTS];
	struct bl_scatter scatter[BL_SCATTERS]; /* of advert BL_SCATTER_FIRST, and so on */
};
#define BL_SCATTER_FIRST (BL_ADVERTS - BL_SCATTERS)
static_assert(sizeof(struct bl_adverts) == (1 + BL_ADVERTS) * BL_LINE + BL_SCATTERS * BL_PAIR,
	      "shared layout");

/* RMA_EVENT: tag = the key of the first region, data = remote CQ data (BL_SLOT_DATA). */
struct bl_rma_event {
	uint64_t len;
	uint32_t what; /* enum bl_rma_what */
	uint8_t op;    /* of an atomic operation */
	uint8_t pad[3];
};
static_assert(sizeof(struct bl_rma_event) == 16, "shared layout");

#ifndef BL_RMA_PART /* less where it is fuzzed */
#define BL_RMA_PART (4u << 20)
#endif

/* RMA_ASK: tag = the origin's number for it, data = remote CQ data (BL_SLOT_DATA).
 * RMA_BYTES, RMA_RESULT: tag = the number, data = offset in the part. RMA_DONE: tag = the
 * number, data = 0 or an errno. */
struct bl_rma_ask {
	uint8_t nplace;
	uint8_t more;  /* 1: other places of the same operation follow when these are done */
	uint8_t first; /* bit i: place i is the operation's first one in its region */
	uint8_t pad0;
	uint8_t what, type, op; /* type and op: of an atomic operation */
	uint8_t pad;
	/* This part of the places, one after the other: all, or the next BL_RMA_PART of an atomic
	 * operation, or what is left of it. */
	uint64_t off, len;
	uint64_t before; /* bytes of the operation that aren't these places' */
	struct bl_rma_place place[8];
};
static_assert(sizeof(struct bl_rma_ask) == 224, "shared layout");
static_assert(sizeof(struct bl_rma_ask) <= BL_SLOT_INLINE, "a request fits a slot");

/* RMA_DELEGATED: tag = the origin's number for it, data = remote CQ data (BL_SLOT_DATA). Behind the
 * places are the operands, then what they are compared with. Who does it:
 * transport/local/rma/delegated.h. */
struct bl_rma_delegated {
	_Atomic uint32_t ours;	/* the origin writes: 1 if it has taken it back */
	uint8_t what, type, op; /* as in struct bl_rma_ask */
	uint8_t nplace;
	struct bl_rma_place place[8];
};
/* With n places: what is before the operands, and how many bytes of them there are at most. */
#define BL_DELEGATED_HEAD(n)  (8u + (uint32_t)(n) * (uint32_t)sizeof(struct bl_rma_place))
#define BL_DELEGATED_BYTES(n) (BL_SLOT_INLINE - BL_DELEGATED_HEAD(n))
static_assert(offsetof(struct bl_rma_delegated, place) == 8, "shared layout");
static_assert(sizeof(struct bl_rma_delegated) < BL_SLOT_INLINE, "it fits a slot, with operands");
static_assert(offsetof(struct bl_slot, bytes) % 8 == 0, "`ours` is a whole word");

/*
 * RMA_DELEGATED of many places in one region, read or written: nplace is 0 then, and runs of
 * equally long places with equal distances follow, then what is written. It may be longer than a
 * slot.
 */
struct bl_rma_run {
	uint64_t addr;	 /* of the first one */
	int64_t step;	 /* from one to the next */
	uint32_t len, n; /* of each; how many */
};
struct bl_rma_runs {
	_Atomic uint32_t ours; /* as in struct bl_rma_delegated, and so are these */
	uint8_t what, type, op;
	uint8_t nplace; /* 0 */
	uint32_t nrun, pad;
	uint64_t key;
	struct bl_rma_run run[];
};
#define BL_RUNS_MOST	64u   /* in one packet */
#define BL_RUNS_BYTES	8192u /* of what is written */
#define BL_RUNS_HEAD(n) ((uint32_t)(sizeof(struct bl_rma_runs) + (n) * sizeof(struct bl_rma_run)))
static_assert(sizeof(struct bl_rma_run) == 24 && sizeof(struct bl_rma_runs) == 24, "shared layout");
static_assert(offsetof(struct bl_rma_runs, nplace) == offsetof(struct bl_rma_delegated, nplace),
	      "it says which of the two it is");
static_assert(BL_RUNS_HEAD(BL_RUNS_MOST) + BL_RUNS_BYTES <= BL_PAYLOAD_SIZE, "it fits any lane");

#define BL_DELEGATED_SUM_BYTES	 176u
#define BL_DELEGATED_SUM(n, how) ((uint64_t)(n) << 16 | (how))
#define BL_DELEGATED_SUM_NUMBER	 (UINT64_MAX >> 16)
#define BL_DELEGATED_SUM_HOW	 0xffffu
#define BL_DELEGATED_SUM_NOT	 0xffffu /* nothing is done; else 0 or an errno */

/* Where an endpoint's memory registrations are: see core/mr.h. Its owner writes. */
struct bl_seg_mr {
	_Atomic uint64_t change; /* odd while the table changes */
	_Atomic uint64_t closed; /* counts the registrations that are no more */
	_Atomic uint64_t table;	 /* its place in the owner's memory; 0: there is none */
	_Atomic uint32_t mask;
	_Atomic uint32_t events; /* BL_MR_EVENT_*: operations that the owner counts, and where */
	uint8_t pad[BL_LINE - 32];
};
static_assert(sizeof(struct bl_seg_mr) == BL_LINE, "shared layout");

/* Requests that are over and whose FIN found no slot: bit i of word w is of the one with index
 * 64w+i, bit w of `some` is set after it. The receiver sets, the sender clears. */
#define BL_ACK_WORDS 15u
struct bl_acks {
	_Atomic uint64_t some;
	_Atomic uint64_t word[BL_ACK_WORDS];
};
static_assert(sizeof(struct bl_acks) == BL_PAIR, "shared layout");

struct bl_lane {
	/* The receiver writes: packets consumed; every few packets, or when it sends a window. */
	_Atomic uint32_t consumed;
	/* The sender writes, rarely: it is about to sleep until there is room. Who has read, and
	 * told so, takes it back and rings. */
	_Atomic uint32_t wants_room;
	/* Of them, for those who count: bytes, packets longer than a slot, theirs. */
	_Atomic uint64_t consumed_bytes, consumed_long, consumed_long_bytes;
	/* The receiver writes: the last of the sender's operations that it has found. */
	_Atomic uint64_t serving;
	uint8_t pad0[BL_LINE - 40];
	/* The receiver writes, rarely: it looks here by itself; 0: ring its doorbell. */
	_Atomic uint32_t polled;
	uint32_t pad1;
	/* The receiver writes: how many of its operations on the sender's memory each of the
	 * sender's counters counts; transport/local/rma/count.h */
	_Atomic uint64_t count[BL_RMA_COUNTS];
	struct bl_slot slot[BL_SLOTS];
	struct bl_chunks chunks[BL_CHUNK_SETS]; /* for messages in the other direction */
	struct bl_acks fins;			/* of messages in this lane */
	struct bl_adverts board;		/* receives that neighbour alone can see */
	/* The receiver writes: it is copying to or from the sender's memory, by a
	 * registration that must not be closed meanwhile; which copy, or 0. */
	_Atomic uint32_t rma_busy;
	uint32_t pad2;
	/* The receiver writes: the last that it has served, or found taken back,
	 * BL_DELEGATED_SUM(); and what it brought. */
	_Atomic uint64_t served;
	uint8_t result[BL_DELEGATED_SUM_BYTES];
	/* Both map as much of it as the sender's file has, which is made once; only the first
	 * BL_PAYLOAD_SIZE have pages before the sender stretches it. Where a packet's bytes lie
	 * is the sender's to say, and where its copy buffer begins. */
	uint8_t payload[BL_PAYLOAD_MOST];
};
static_assert(sizeof(struct bl_lane) == BL_LANE_MOST, "shared layout");
static_assert(offsetof(struct bl_lane, payload) + BL_PAYLOAD_SIZE == BL_LANE_SIZE, "whole pages");
static_assert(offsetof(struct bl_lane, count) == 72, "shared layout");
static_assert(offsetof(struct bl_lane, slot) == 128, "shared layout");
static_assert(offsetof(struct bl_lane, board) == 26496, "shared layout");
static_assert(offsetof(struct bl_lane, payload) % BL_PAIR == 0, "shared layout");

#define BL_TURN_AWAY 0x80000000u

/* After a large receive or send its user ... */
enum bl_stays {
	BL_STAYS_NOT,	 /* goes away */
	BL_STAYS_POSTED, /* comes back at once to wait, as far as was seen, ... */
	BL_STAYS_WAITS,	 /* ... and has been seen to wait since */
};

/* The endpoint's owner writes, and its kernel; others read. What `beeline stat` shows
 * of neighbours follows in the same file: stats.h. */
struct bl_seg_header {
	uint32_t magic;
	uint16_t version;
	uint16_t flags;
	uint8_t id[16];
	uint8_t pad0[BL_LINE - 24];
	/* A robust futex that a thread of the owner holds: when the owner dies, in
	 * whatever way, the kernel sets FUTEX_OWNER_DIED here. */
	_Atomic uint32_t life;
	_Atomic uint32_t closed;    /* the endpoint was closed in good order */
	_Atomic uint32_t wake_port; /* the owner's netlink socket, to be woken by; 0: none */
	uint64_t secret_at; /* where in the owner's memory its secret lies; prove_access.h */
	uint8_t pad1[BL_LINE - 24];
	/* Ticks, when the owner last was in the library with nothing else to do, or until when it
	 * will be with a long copy. A hint for whom to leave work to, nothing else. */
	_Atomic uint64_t here;
	/* The same, or when it last did anything for a message of a few pages. */
	_Atomic uint64_t active;
	/* It keeps enough of what has come too early: announce it rather than send it whole. */
	_Atomic uint32_t congested;
	/* enum bl_stays. A hint, too: transport/local/ways/proxy.h */
	_Atomic uint32_t stays;
	uint8_t pad2[BL_LINE - 24];
	/* Where processes share cores: the number + 1 of the one that it runs on, 0 if that isn't
	 * known, or, with BL_TURN_AWAY, of the one that it has left to others. A hint, nothing
	 * else; wait/oversub.h */
	_Atomic uint32_t turn;
	/* The first bytes of the address (bl_addr.id) of the one to whom nearly all goes that it
	 * sends; 0: of nobody. A hint as well; wait/pair_migrate.h */
	_Atomic uint64_t partner;
	uint8_t pad3[BL_LINE - 16];
	struct bl_seg_mr mr;
	uint8_t pad4[BL_SEG_HEADER - 5 * BL_LINE - sizeof(struct bl_stats)];
	struct bl_stats stats;
};
static_assert(sizeof(struct bl_seg_header) == BL_SEG_HEADER, "shared layout");
static_assert(offsetof(struct bl_seg_header, life) == 64, "shared layout");
static_assert(offsetof(struct bl_seg_header, mr) % BL_LINE == 0, "shared layout");

/* All neighbours write. Bits that are missing cost a delay, until the owner looks at the
 * lanes themselves (bl_local_listen); bits that have no reason cost a look. */
struct bl_doorbells {
	/* Bit i of word w: look at the lane of neighbour 64w+i. Bit w of the summary is
	 * set after it. */
	_Atomic uint64_t summary;
	uint8_t pad0[BL_LINE - 8];
	_Atomic uint64_t word[BL_DOORBELL_WORDS];
	/* BL_SLEEP_*: how the owner sleeps. Whoever has rung a doorbell takes these bits
	 * and wakes it accordingly. */
	_Atomic uint32_t sleeping;
	uint8_t unused[BL_DOORBELLS_SIZE - BL_LINE - 8 * BL_DOORBELL_WORDS - 4];
};
static_assert(sizeof(struct bl_doorbells) == BL_DOORBELLS_SIZE, "shared layout");
static_assert(offsetof(struct bl_doorbells, sleeping) % BL_LINE == 0, "shared layout");

#define BL_SLEEP_FUTEX	0x1u /* on `sleeping` itself */
#define BL_SLEEP_SOCKET 0x2u /* on a datagram to its netlink socket; doorbell.c */

#define BL_SEG_NO_MEMBARRIER 0x1u /* the owner can't be told to drain its stores */
#define BL_SEG_UNKEPT	     0x2u /* the kernel won't mark `life`; alive.c */

enum bl_taken {
	BL_TAKEN_CLOSED, /* only the receiver may take it */
	BL_TAKEN_OPEN,
	BL_TAKEN_RECEIVER,
	BL_TAKEN_SENDER,
	BL_TAKEN_CLAIMED, /* BL_TAKEN_ADVERT says which advert */
	BL_TAKEN_WITHDRAWN,
};

#endif
