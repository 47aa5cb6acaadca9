/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * policy.c: see policy.h. docs/notes/eager.md has how the numbers were found.
 */
#include "transport/local/adapt/policy.h"

#include <pthread.h>

#include "base/log.h"
#include "copy/chunks.h"
#include "transport/local/lane/wire.h"

#define PAGE 4096

enum { INJECT_EAGER, INJECT_PINGPONG }; /* FI_BEELINE_INJECT */
enum { COPYBUF_AUTO, COPYBUF_ALWAYS };	/* FI_BEELINE_COPYBUF */

#define CHEAP_NS    250.0  /* a system call: one copy is as good as two, however short */
#define STREAM_MAX  32768u /* a message of a stream, through a longer ring */
#define DEPTH	    8u
#define DIRTY_CALL  2.3	 /* as much longer lines of another's cache take than ours: the call, */
#define DIRTY_BYTES 1.27 /* and each KiB; */
#define DIRTY_MOST  4.0	 /* if more than so much, it isn't lines, but new pages */

/* --- the way ------------------------------------------------------------------ */

uint32_t bl_policy_eager(const struct bl_limits *l, const struct bl_situation *s)
{
	if (!s->long_ring)
		return l->eager[BL_RING_SHORT][s->pattern][s->far];
	if (s->has_copybuf)
		return l->eager[BL_RING_COPYBUF][s->pattern][s->far];
	return l->eager[BL_RING_LONG][s->pattern][s->far || s->tight];
}

/*
 * A message that is large enough to be claimed goes as one packet only if both are there: one that
 * is announced is copied for a process that computes meanwhile, and of many at a time both
 * processes copy some, once. So nothing that was announced may be pending, and about one such
 * message may be unread; another may be in a copy buffer. In a burst to one who is near more may be
 * unread, and others pending, unless we wait for large ones as well.
 */
static bool both_there(const struct bl_limits *l, const struct bl_situation *s,
		       enum bl_presence least)
{
	size_t piece = bl_min(s->len, (size_t)BL_PACKET_MOST);

	if (s->len < l->proxy_min)
		return true;
	if (s->leaves || s->there < least)
		return false;
	/* With room for this one, and for what is skipped at the ring's end: no such message waits.
	 */
	if (s->pattern >= BL_BURST && !s->far && !s->expects && l->stream_depth &&
	    (!s->long_ring || s->unread + 2 * piece <= s->room))
		return s->unread < l->stream_depth * piece;
	return !s->pending && s->unread < 2 * piece;
}

bool bl_policy_near_enough(const struct bl_limits *l, const struct bl_situation *s)
{
	return s->len <= l->copybuf && s->len > l->eager_long && !s->far && !s->clean &&
	       (!s->stays_short || s->place);
}

/* What goes whole through a longer ring does so. */
static bool is_dirty(const struct bl_limits *l, const struct bl_situation *s)
{
	return s->dirty && !s->clean && s->len > l->pingpong_max && s->len <= l->dirty[s->far] &&
	       (!l->eager_long || s->len > bl_policy_eager(l, s));
}

/* Its receiver waits for it, or sends one itself: to the copy buffer, if the other's go there as
 * well, or else through the ring. What is found without a receive is copied twice more. */
enum bl_dirty bl_policy_dirty(const struct bl_limits *l, const struct bl_situation *s)
{
	bool near_enough = bl_policy_near_enough(l, s), place = s->place || s->may_grow;
	bool ring = !s->place && s->len <= l->proxy_min && s->pattern == BL_ANSWER;

	if ((!near_enough && !is_dirty(l, s)) || s->one_copy || !both_there(l, s, BL_USING))
		return BL_DIRTY_NOT;
	if (s->len >= l->proxy_min && s->pattern <= BL_PINGPONG && !s->published)
		return BL_DIRTY_NOT;
	if (s->past)
		return BL_DIRTY_PAST;
	if (!s->long_ring)
		return ring || s->talks ? BL_DIRTY_SHORT : BL_DIRTY_NOT;
	if ((!place && !ring) || s->congested)
		return BL_DIRTY_NOT;
	if (!near_enough && s->spent)
		return BL_DIRTY_SPENT;
	return place ? BL_DIRTY_COPYBUF : BL_DIRTY_RING;
}

bool bl_policy_wants_longer(const struct bl_limits *l, const struct bl_situation *s)
{
	struct bl_situation longer;

	if ((s->long_ring && !s->tight) || s->one_copy || !both_there(l, s, BL_WAITING) ||
	    s->len <= bl_policy_eager(l, s))
		return false;
	longer = *s;
	longer.long_ring = true;
	return s->len <= l->eager_long || s->len <= bl_policy_eager(l, &longer) ||
	       (s->len <= l->pingpong_max && s->lacks_copybuf);
}

enum bl_way bl_policy_choose(const struct bl_limits *l, const struct bl_situation *s)
{
	bool may_claim =
		s->claimable && (s->len >= l->proxy_min || (s->len > l->eager_max && s->matches));
	enum bl_way announced = may_claim ? BL_PROXY : BL_RNDV;
	enum bl_way packet = s->copybuf ? BL_COPYBUF : BL_EAGER;

	if (s->announce)
		return announced;
	if (s->len <= l->eager_max)
		return packet;
	/* Its sender waits, and so would the message. */
	if (s->acked && s->away && s->len < l->proxy_min && may_claim)
		return BL_PROXY;
	switch (bl_policy_dirty(l, s)) {
	case BL_DIRTY_COPYBUF:
		return BL_COPYBUF;
	case BL_DIRTY_RING:
		return packet;
	default:
		break;
	}
	if (s->len <= bl_policy_eager(l, s) && !s->one_copy && !s->congested &&
	    both_there(l, s, BL_WAITING))
		return packet;
	return announced;
}

size_t bl_policy_cut(const struct bl_limits *l, size_t len, uint32_t *count)
{
	size_t piece = bl_round_up((len + 1) / 2, PAGE);

	if (piece > l->chunk_half) {
		piece = bl_round_up((len + 3) / 4, PAGE);
		piece = piece < l->chunk_half ? l->chunk_half : bl_min(piece, (size_t)l->chunk_max);
	}
	while (len / piece >= BL_CHUNKS_MOST)
		piece *= 2;
	*count = (uint32_t)((len + piece - 1) / piece);
	return piece;
}

/* --- the limits --------------------------------------------------------------- */

static size_t clamp_page(double value, size_t least, size_t most)
{
	if (value < (double)least)
		return least;
	if (value > (double)most)
		return most;
	return bl_round_up((size_t)value, PAGE);
}

const struct bl_copy_cost bl_cost_past = {500, 117}, bl_cost_copybuf = {760, 80};

size_t bl_limit_far(const struct bl_copy_cost *once, const struct bl_copy_cost *twice, size_t eager,
		    size_t most)
{
	double slope = twice->per_kb - once->per_kb / 2, least = (double)bl_min(eager, most);

	if (slope <= 0)
		return most;
	return clamp_page((2 * once->ns - twice->ns) / slope * 1024.0, (size_t)least, most);
}

size_t bl_limit_dirty(size_t cache)
{
	size_t most = cache / 4 / PAGE * PAGE;

	return most < BL_DIRTY_LEAST ? BL_DIRTY_LEAST : bl_min(most, (size_t)BL_DIRTY_MAX);
}

static void fill(struct bl_limits *l, int ring, int pattern, size_t near, size_t far)
{
	size_t least = pattern == BL_ANSWER ? l->pingpong_max : l->eager_max;

	l->eager[ring][pattern][false] = (uint32_t)(near < least ? least : near);
	l->eager[ring][pattern][true] = (uint32_t)(far < least ? least : far);
}

/* Two copies are better only for those who send one message after the other, and best if nothing
 * long comes back. */
void bl_limits_by_stream(struct bl_limits *l, size_t stream_max)
{
	size_t some = l->pingpong_max;
	const size_t to[BL_RINGS][BL_PATTERNS] = {
		[BL_RING_LONG] = {[BL_BURST] = some, [BL_STREAM] = stream_max},
		[BL_RING_COPYBUF] =
			{[BL_EXCHANGE] = some, [BL_BURST] = some, [BL_STREAM] = stream_max},
	};

	l->eager_long = 0;
	for (int ring = 0; ring < BL_RINGS; ring++)
		for (int pattern = 0; pattern < BL_PATTERNS; pattern++)
			fill(l, ring, pattern, to[ring][pattern], to[ring][pattern]);
}

/* Where it is far, what both wait for is copied once sooner. Of many at a time each copies some,
 * and the ring is better. */
void bl_limits_by_length(struct bl_limits *l, size_t near, size_t far, size_t copybuf)
{
	l->eager_long = (uint32_t)near;
	for (int pattern = 0; pattern < BL_PATTERNS; pattern++) {
		fill(l, BL_RING_SHORT, pattern, 0, 0);
		fill(l, BL_RING_LONG, pattern, near, pattern >= BL_BURST ? near : far);
		fill(l, BL_RING_COPYBUF, pattern, near, copybuf);
	}
}

/*
 * The price of entering the kernel decides. The eager limit is one of three, with wide classes, so
 * that the processes of a job agree on it even where one of them measured on a busy core.
 */
static void choose_eager(struct bl_limits *l, const struct bl_copy_plan *plan,
			 const struct bl_knobs *knobs)
{
	uint32_t max = plan->once.ns < CHEAP_NS			? 4096
		       : plan->once.ns < plan->machine->dear_ns ? 6144
								: BL_EAGER_MOST;

	l->eager_max = max;
	/* Not above BL_EAGER_MOST: what is injected must find room in any drained ring. */
	l->pingpong_max = max == 6144 ? 8192 : max;
	if (knobs->eager_max != BL_KNOB_AUTO)
		l->eager_max = l->pingpong_max = (uint32_t)knobs->eager_max;
	l->inject_max = knobs->inject == INJECT_PINGPONG ? l->pingpong_max : l->eager_max;
}

static void choose_long(struct bl_limits *l, const struct bl_copy_plan *plan,
			const struct bl_knobs *knobs)
{
	const struct bl_machine *kind = plan->machine;
	size_t near = kind->eager_long_max, far = kind->eager_long_far;
	size_t copybuf = kind->eager_long_copybuf;

	if (plan->by_stream) {
		bl_limits_by_stream(l, plan->once.ns < CHEAP_NS ? l->eager_max : STREAM_MAX);
		return;
	}
	if (knobs->eager_long_max != BL_KNOB_AUTO)
		near = far = copybuf = knobs->eager_long_max;
	if (!far)
		far = bl_limit_far(&plan->once, &bl_cost_past, l->eager_max, near);
	if (!copybuf)
		copybuf = bl_limit_far(&plan->once, &bl_cost_copybuf, l->eager_max, near);
	bl_limits_by_length(l, near, bl_min(far, copybuf), copybuf);
}

static void choose_dirty(struct bl_limits *l, const struct bl_copy_plan *plan,
			 const struct bl_knobs *knobs)
{
	const struct bl_machine *kind = plan->machine;
	const struct bl_copy_cost *once = &plan->once;
	size_t most = plan->by_stream ? bl_limit_dirty(plan->cache) : kind->dirty_max;

	l->stream_depth = kind->deep && !plan->by_stream ? DEPTH : 0;
	if (plan->copybuf && knobs->eager_long_max == BL_KNOB_AUTO) {
		l->dirty[false] = (uint32_t)most;
		l->dirty[true] = l->stream_depth ? (uint32_t)most : 0;
		l->copybuf = plan->by_stream ? 0 : (uint32_t)kind->turn_max;
	}
	l->used_near = (uint32_t)kind->used_near;
	l->used_far_ns_kb = kind->used_far_ns_kb;
	l->dirty_ns = (uint32_t)(DIRTY_CALL * once->ns);
	l->dirty_per_kb = (uint32_t)(DIRTY_BYTES * once->per_kb);
	l->dirty_per_kb_most = (uint32_t)(DIRTY_MOST * once->per_kb);
	if (kind->dirty_per_kb && !plan->by_stream) {
		l->dirty_ns = (uint32_t)once->ns;
		l->dirty_per_kb = kind->dirty_per_kb;
		l->dirty_per_kb_most = kind->dirty_per_kb_most;
	}
}

/* Half of the copy must be worth a second entry and the handshake. */
static void choose_split(struct bl_limits *l, const struct bl_copy_plan *plan,
			 const struct bl_knobs *knobs)
{
	const struct bl_copy_cost *once = &plan->once;

	l->split_min = (uint32_t)(knobs->split_min != BL_KNOB_AUTO
					  ? knobs->split_min
					  : clamp_page(3.0 * once->ns / once->per_kb * 1024.0,
						       32768, 131072));
	l->chunk_half = (uint32_t)plan->machine->chunk_half;
	l->chunk_max = (uint32_t)plan->machine->chunk_max;
	if (knobs->chunk_max != BL_KNOB_AUTO)
		l->chunk_half = l->chunk_max = (uint32_t)bl_round_up(knobs->chunk_max, PAGE);
}

void bl_limits_make(struct bl_limits *l, const struct bl_copy_plan *plan,
		    const struct bl_knobs *knobs)
{
	*l = (struct bl_limits){.proxy_min = BL_PROXY_MIN};
	choose_eager(l, plan, knobs);
	choose_long(l, plan, knobs);
	choose_dirty(l, plan, knobs);
	choose_split(l, plan, knobs);
	l->streamed = knobs->copybuf == COPYBUF_ALWAYS;
	l->streamed_far = plan->machine->streamed_far;
}

_Atomic(const struct bl_limits *) bl_limits_found;

static struct bl_limits limits;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make(void)
{
	bl_limits_make(&limits, bl_copy_plan(), bl_knobs());
	bl_debug("eager to %u, an answer to %u, in a longer ring to %u (0: only streams), just "
		 "written to %u, split from %u, pieces of %u to %u",
		 limits.eager_max, limits.pingpong_max, limits.eager_long, limits.dirty[false],
		 limits.split_min, limits.chunk_half, limits.chunk_max);
}

bl_cold const struct bl_limits *bl_limits_find(void)
{
	pthread_once(&made, make);
	/* release: pairs with the acquire in bl_limits */
	atomic_store_explicit(&bl_limits_found, &limits, memory_order_release);
	return &limits;
}
