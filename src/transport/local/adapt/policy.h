/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * policy.h: which way a message takes that is longer than the eager limit, or whose delivery its
 * sender waits for. The limits are filled once in a process, from the row of copy/machine.c and
 * what a system call takes. To change a limit, change that row, or bl_limits_make(). The functions
 * are pure: endpoint/send.c looks at the peer and asks. FRAG isn't chosen: it follows a refusal.
 */
#ifndef BL_TRANSPORT_LOCAL_ADAPT_POLICY_H
#define BL_TRANSPORT_LOCAL_ADAPT_POLICY_H

#include <stdatomic.h>

#include "base/knobs.h"
#include "copy/engine.h"
#include "transport/local/lane/ring.h"

#define BL_DIRTY_LEAST 131072u /* bytes of what was just written and goes to a copy buffer, at */
#define BL_DIRTY_MAX   524288u /* most; where a core has 2 MiB of its own, or is Zen 3 or later */
/* From here on a posted receive is shown to senders, and may be claimed; shorter ones: proxy.h. */
#define BL_PROXY_MIN 65536u

enum bl_way { BL_EAGER, BL_COPYBUF, BL_RNDV, BL_PROXY };

enum bl_pattern {
	BL_ANSWER,   /* a ping-pong, and our turn: its receiver waits for just this message */
	BL_PINGPONG, /* a ping-pong, and we have sent since it was our turn */
	BL_EXCHANGE, /* both send at once */
	BL_BURST,    /* some packets since we have heard of it */
	BL_STREAM,   /* many long messages since one of its own; only where a call is cheap */
	BL_PATTERNS
};

/* Ours to the peer: as it began, longer, or longer and with a copy buffer that may be used. */
enum bl_ring { BL_RING_SHORT, BL_RING_LONG, BL_RING_COPYBUF, BL_RINGS };

/* A receiver that isn't used to leave: away for too long; for no longer than to use what it has
 * got; waiting. */
enum bl_presence { BL_GONE, BL_USING, BL_WAITING };

struct bl_limits {				  /* bytes, if not said */
	uint32_t eager[BL_RINGS][BL_PATTERNS][2]; /* [far]: up to here one packet */
	uint32_t eager_max;			  /* for everybody: two short copies win */
	uint32_t pingpong_max;			  /* for an answer */
	uint32_t inject_max;			  /* one of these two */
	uint32_t eager_long; /* the most of a longer ring; 0: it is for streams, calls are cheap */
	uint32_t dirty[2];   /* [far]: what was just written goes to the copy buffer; 0: nothing */
	uint32_t copybuf;    /* near by anything does; more than eager_long, or 0 */
	uint32_t stream_depth; /* unread messages from proxy_min on in a burst to one near by */
	uint32_t proxy_min; /* from here on any receive may be claimed, and both are to be there */
	uint32_t split_min; /* from here on a second core pays for its system call */
	uint32_t chunk_half,
		chunk_max; /* a piece is half of it up to here; or a quarter up to here */
	/* By which copies are judged, in ns: dirty.h */
	uint32_t dirty_ns, dirty_per_kb, dirty_per_kb_most;
	uint32_t used_near, used_far_ns_kb; /* bytes that are used near by; ns, far away */
	bool streamed;	   /* what goes to the copy buffer is always published piece by piece, */
	bool streamed_far; /* or an answer far away, too */
};

struct bl_situation {
	size_t len;
	enum bl_pattern pattern;
	enum bl_presence there; /* from proxy_min on */
	uint64_t unread;	/* bytes of ours, from proxy_min on */
	uint32_t room;		/* bytes of our ring, at most */
	bool far;
	bool tight;	    /* our ring is longer, but so short that its lines stay in the caches */
	bool long_ring;	    /* it is longer */
	bool has_copybuf;   /* a message of the eager limit may go to a copy buffer, */
	bool copybuf;	    /* and this one may, */
	bool place;	    /* or may if it is dirty, */
	bool may_grow;	    /* or once ours is made longer */
	bool talks;	    /* they take turns: with a longer ring there would be a copy buffer, */
	bool lacks_copybuf; /* and this message might go there */
	bool stays_short;   /* neither can be made longer */
	bool dirty;	    /* as far as is known */
	bool spent;	    /* for so long that it is to be judged again */
	bool clean;	    /* it isn't to be taken for dirty, nor for near enough */
	bool past;	    /* its bytes would pass the caches by */
	bool one_copy;	    /* by a module's key, or to ourselves */
	bool announce;	    /* it can't be a packet, or the ring has no room for it */
	bool congested;	    /* the receiver keeps as much as it may */
	bool pending;	    /* announced messages of ours */
	bool leaves;	    /* our user is used to leave after it has sent */
	bool expects;	    /* we have published receives of the peer's messages */
	bool published;	    /* it has published receives of ours, */
	bool matches;	    /* one of them for this message */
	bool claimable;	    /* by us, if there is one */
	bool acked;	    /* its sender waits for its delivery */
	bool away;	    /* the receiver, for longer than one that polls */
};

/* The way of this message. */
enum bl_way bl_policy_choose(const struct bl_limits *l, const struct bl_situation *s);

/* It may be one packet at all; `dirty`: as far as is known. */
static inline bool bl_policy_may_be_packet(const struct bl_limits *l, size_t len, bool dirty)
{
	return len <= l->eager[BL_RING_LONG][BL_STREAM][false] || len <= l->pingpong_max ||
	       len <= l->copybuf || (dirty && len <= l->dirty[false]);
}

/* Up to here one packet, if it is there. */
uint32_t bl_policy_eager(const struct bl_limits *l, const struct bl_situation *s);

/* Would it be one packet, if our ring were longer? */
bool bl_policy_wants_longer(const struct bl_limits *l, const struct bl_situation *s);

/* A message that is dirty, or near enough: where it goes, or why it goes as any other. */
enum bl_dirty {
	BL_DIRTY_NOT,	 /* it isn't, or it can't be helped */
	BL_DIRTY_PAST,	 /* its receiver is far away, which is to be looked at again */
	BL_DIRTY_SHORT,	 /* the ring is */
	BL_DIRTY_SPENT,	 /* it is to be judged again */
	BL_DIRTY_RING,	 /* through the ring */
	BL_DIRTY_COPYBUF /* to a copy buffer, which may have to grow */
};
enum bl_dirty bl_policy_dirty(const struct bl_limits *l, const struct bl_situation *s);

/* Near by it goes to a copy buffer, dirty or not. */
bool bl_policy_near_enough(const struct bl_limits *l, const struct bl_situation *s);

/* How one message of len bytes is cut for two processes: the piece, a multiple of the page, and
 * through *count the number of pieces. */
size_t bl_policy_cut(const struct bl_limits *l, size_t len, uint32_t *count);

/* Those in force. Found once per process; any thread. */
extern _Atomic(const struct bl_limits *) bl_limits_found;
bl_cold const struct bl_limits *bl_limits_find(void);
static inline const struct bl_limits *bl_limits(void)
{
	/* acquire: pairs with the release in bl_limits_find */
	const struct bl_limits *l = atomic_load_explicit(&bl_limits_found, memory_order_acquire);

	return likely(l != NULL) ? l : bl_limits_find();
}
/* Those of any machine. */
void bl_limits_make(struct bl_limits *l, const struct bl_copy_plan *plan,
		    const struct bl_knobs *knobs);
/* All of l->eager, from eager_max and pingpong_max: where longer rings are for streams, */
void bl_limits_by_stream(struct bl_limits *l, size_t stream_max);
/* or for what is one packet near by, far away, and far away with a copy buffer. */
void bl_limits_by_length(struct bl_limits *l, size_t near, size_t far, size_t copybuf);

/* What a copy takes to a receiver that is far away: two, past the caches; two, by a copy buffer. */
extern const struct bl_copy_cost bl_cost_past, bl_cost_copybuf;
/*
 * Bytes up to which two copies take less time than one, to a receiver that is far away: from
 * `eager` to `most`, in whole pages but for these two. `once`: a system call, as measured. One copy
 * takes twice the call there, and half as much of each KiB. (A page more or less, from one process
 * to the next, harms nobody.)
 */
size_t bl_limit_far(const struct bl_copy_cost *once, const struct bl_copy_cost *twice, size_t eager,
		    size_t most);
/* Bytes that two copies take less time for than one of what was just written, where a core has so
 * much of a cache of its own (0: not known): the message in the sender's memory, in the receiver's
 * and between them, and another that crosses it, have to lie there. */
size_t bl_limit_dirty(size_t cache);

#endif
