/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * copybuf_model_test.c: everything that two can say to each other who write to each other's
 * dialogue buffers in turn (transport/local/lane/ring.h), in every order: messages of three
 * lengths, in a buffer, through the ring or announced, up to QUEUE of them under way in either
 * direction, crossing or not. Each end's half is the ring's own functions; what each buffer's state
 * is in truth the model keeps beside them.
 *
 * What this shows:
 *   - who writes to a buffer is the only one who may, and what was written there has been read;
 *   - an answer, or a refusal, is one of an offer, and lies where that was;
 *   - nobody is offered a buffer while it holds another offer of the same one's;
 *   - a buffer is made longer by its owner, while it is nobody else's;
 *   - from wherever they are, two who go on with messages of one length come to write as many of
 *     them to buffers as have room for them.
 * What it doesn't: memory order, and an end that lies (copybuf_turns_test.c).
 */
#include <stdlib.h>
#include <string.h>

#include "copy/engine.h"
#include "transport/local/lane/ring.h"
#include "unit/table.h"

#define QUEUE  2u
#define PLACE  364544u /* where in a lane the buffer begins */
#define STATES (1u << 20)
#define HASH   (STATES * 2)

static const uint32_t lens[] = {1000, BL_COPYBUF_SIZE, BL_COPYBUF_MOST};
#define LENS bl_countof(lens)

enum what { NOTHING, RING, OFFER, YOURS, ANNOUNCED, DECLINED };

/* Who may write to a buffer: one of the two, or nobody, while something is under way to one. */
enum { UNDER_WAY = 2 /* to end 0; to end 1 */, GIVEN_BACK = 4 };

/* Bytes only, to be compared and hashed. */
struct end {
	uint8_t held, held_long; /* the other's, which it has offered */
	uint8_t offers, is_long; /* ours */
	uint8_t answered, turns, stays_short;
};

struct packet {
	uint8_t what, len, is_long;
};

struct state {
	struct end end[2];
	struct packet to[2][QUEUE];
	uint8_t n[2];
	uint8_t holder[2]; /* of each end's buffer */
};

enum action {
	IN_TURN,		      /* one of each length */
	LONGER = IN_TURN + LENS,      /* the same, having made the buffer longer */
	THROUGH_RING = LONGER + LENS, /* one that is short enough for that */
	ANNOUNCE,		      /* one of each length, which could have gone to a buffer, */
	ANNOUNCE_OTHER = ANNOUNCE + LENS, /* or couldn't, as this end sees it */
	HEAR = ANNOUNCE_OTHER + LENS,
	HEAR_OTHER, /* an announcement that couldn't, as this end sees it */
	SHORT,	    /* no memory for a longer buffer, from now on */
	ACTIONS
};

static struct bl_lane *lane[2];
static struct state *states;
static uint32_t nstate, *came_from, *hash;
static uint8_t *came_by;
static uint32_t at; /* the state whose steps are tried */
static uint64_t taken[ACTIONS], declined;

static uint32_t room(uint8_t is_long)
{
	return is_long ? BL_COPYBUF_MOST : BL_COPYBUF_SIZE;
}

static void load(struct bl_tx *tx, const struct end *e, size_t i)
{
	*tx = (struct bl_tx){
		.lane = lane[i],
		.copybuf = PLACE,
		.copybuf_room = room(e->is_long),
		.offer = e->held ? PLACE : 0,
		.offer_room = room(e->held_long),
		.offers = e->offers,
		.answered = e->answered,
		.turns = e->turns,
	};
}

static void store(struct end *e, const struct bl_tx *tx)
{
	e->held = tx->offer != 0;
	e->held_long = tx->offer && tx->offer_room == BL_COPYBUF_MOST;
	e->is_long = tx->copybuf_room == BL_COPYBUF_MOST;
	e->offers = tx->offers;
	e->answered = tx->answered;
	e->turns = tx->turns;
}

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	print_error("%s; before that, last first:\n", what);
	for (uint32_t i = at; i; i = came_from[i])
		print_error("  end %u: action %u\n", came_by[i] / ACTIONS, came_by[i] % ACTIONS);
	fail();
}

static void say(struct state *s, size_t to, enum what what, size_t len, uint8_t is_long)
{
	s->to[to][s->n[to]++] = (struct packet){(uint8_t)what, (uint8_t)len, is_long};
}

static bool copybuf(struct state *s, size_t i, size_t len, bool longer)
{
	struct bl_rx rx = {.lane = lane[!i], .span = 20};
	uint32_t flags, whose;
	struct bl_tx tx;
	uint8_t *to;

	load(&tx, &s->end[i], i);
	if (longer) { /* as bl_policy_dirty() has it */
		if (bl_copybuf_has_place(&tx, lens[len]) || lens[len] <= tx.copybuf_room ||
		    !bl_copybuf_may_offer(&tx) || s->end[i].stays_short)
			return false;
		must(s->holder[i] == i, "a buffer is made longer that another writes to");
		tx.copybuf_room = BL_COPYBUF_MOST;
	}
	if (!bl_copybuf_has_place(&tx, lens[len]))
		return false;
	to = bl_copybuf_take(&tx, &rx, lens[len], &flags);
	whose = to == lane[1]->payload + PLACE;
	must(whose || to == lane[0]->payload + PLACE, "written elsewhere");
	must(s->holder[whose] == i, "written to what is another's");
	must((flags == BL_SLOT_CB_USE) == (whose != i), "not what the flags say");
	must(lens[len] <= room(s->end[whose].is_long || (whose == i && longer)), "too long");
	s->holder[whose] = (uint8_t)(UNDER_WAY + !i);
	bl_copybuf_said(&tx);
	store(&s->end[i], &tx);
	say(s, !i, flags == BL_SLOT_CB_USE ? YOURS : OFFER, len, s->end[i].is_long);
	return true;
}

static bool through_ring(struct state *s, size_t i)
{
	struct bl_tx tx;

	load(&tx, &s->end[i], i);
	bl_copybuf_said(&tx);
	store(&s->end[i], &tx);
	say(s, !i, RING, 0, 0);
	return true;
}

static bool announce(struct state *s, size_t i, size_t len, bool could)
{
	struct bl_tx tx;
	uint32_t flags;

	load(&tx, &s->end[i], i);
	flags = could ? bl_copybuf_decline(&tx, lens[len]) : 0;
	if (flags) {
		must(s->holder[!i] == i, "given back what it hasn't");
		s->holder[!i] = GIVEN_BACK;
		declined++;
	}
	bl_tx_said_rts(&tx, could);
	store(&s->end[i], &tx);
	say(s, !i, flags ? DECLINED : ANNOUNCED, 0, 0);
	return true;
}

static void heard_message(struct state *s, size_t i, struct bl_tx *tx, const struct packet *p)
{
	struct bl_slot slot = {.at = PLACE, .room = room(p->is_long)};
	struct bl_rx rx = {.lane = lane[!i], .span = 20};
	uint32_t flags = p->what == OFFER   ? BL_SLOT_CB_GRANT
			 : p->what == YOURS ? BL_SLOT_CB_USE
					    : 0;

	if (p->what == YOURS) {
		must(bl_copybuf_bytes(tx, lens[p->len]) == lane[i]->payload + PLACE,
		     "an answer that nobody waits for");
		must(s->holder[i] == UNDER_WAY + i, "written to before it was read");
		s->holder[i] = (uint8_t)i;
	}
	if (p->what == OFFER) {
		must(s->holder[!i] == UNDER_WAY + i, "written to before it was read");
		must(!tx->offer, "offered while another offer is held");
		s->holder[!i] = (uint8_t)i;
	}
	bl_copybuf_heard(tx, &rx, &slot, BL_HEAD(lens[p->len], BL_OP_TAGGED, flags));
	must(p->what != OFFER || tx->offer, "an honest offer isn't believed");
}

static bool hear(struct state *s, size_t i, bool could)
{
	struct packet p = s->to[i][0];
	struct bl_tx tx;

	if (!s->n[i] || (!could && p.what != ANNOUNCED && p.what != DECLINED))
		return false;
	memmove(&s->to[i][0], &s->to[i][1], (QUEUE - 1) * sizeof p);
	memset(&s->to[i][--s->n[i]], 0, sizeof p);
	load(&tx, &s->end[i], i);
	if (p.what == ANNOUNCED || p.what == DECLINED) {
		if (p.what == DECLINED) {
			must(tx.offers && s->holder[i] == GIVEN_BACK, "nothing was offered");
			s->holder[i] = (uint8_t)i;
		}
		bl_tx_heard_rts(&tx, could, p.what == DECLINED ? BL_SLOT_CB_USE : 0);
	} else {
		heard_message(s, i, &tx, &p);
	}
	store(&s->end[i], &tx);
	return true;
}

/* False: it isn't possible there. */
static bool act(struct state *s, size_t i, enum action a)
{
	if (a < HEAR && s->n[!i] == QUEUE)
		return false;
	if (a == HEAR || a == HEAR_OTHER)
		return hear(s, i, a == HEAR);
	if (a == SHORT)
		return !s->end[i].stays_short && (s->end[i].stays_short = 1);
	if (a >= ANNOUNCE_OTHER)
		return announce(s, i, a - ANNOUNCE_OTHER, false);
	if (a >= ANNOUNCE)
		return announce(s, i, a - ANNOUNCE, true);
	if (a == THROUGH_RING)
		return through_ring(s, i);
	return a >= LONGER ? copybuf(s, i, a - LONGER, true) : copybuf(s, i, a, false);
}

/* --- every state ------------------------------------------------------------------ */

static uint32_t place_of(const struct state *s)
{
	const uint8_t *bytes = (const uint8_t *)s;
	uint64_t h = 1469598103934665603u;

	for (size_t i = 0; i < sizeof *s; i++)
		h = (h ^ bytes[i]) * 1099511628211u;
	return (uint32_t)(h ^ h >> 31) & (HASH - 1);
}

static void add(const struct state *s, uint32_t by)
{
	uint32_t h = place_of(s);

	for (; hash[h]; h = (h + 1) & (HASH - 1))
		if (!memcmp(&states[hash[h] - 1], s, sizeof *s))
			return;
	assert_true(nstate < STATES);
	states[nstate] = *s;
	came_from[nstate] = at;
	came_by[nstate] = (uint8_t)by;
	hash[h] = ++nstate;
}

static bool has_room(const struct end *e, size_t len)
{
	return lens[len] <= room(e->is_long || !e->stays_short);
}

static void hear_all(struct state *s)
{
	for (size_t i = 0; i < 2; i++)
		while (s->n[i])
			hear(s, i, true);
}

static bool sends_fresh(struct state *s, size_t i, size_t len)
{
	if (copybuf(s, i, len, false) || copybuf(s, i, len, true))
		return true;
	announce(s, i, len, true);
	return false;
}

/* Everything under way is heard, and then messages of this length follow in turn, or cross: in the
 * end as many go to a buffer as there is room for. */
static void comes_to_turns(struct state s, size_t len, bool crossing)
{
	uint32_t room_for = has_room(&s.end[0], len) + has_room(&s.end[1], len), went = 0;

	hear_all(&s);
	for (uint32_t n = 0; n < 8; n++) {
		went = sends_fresh(&s, 0, len);
		if (!crossing)
			hear_all(&s);
		went += sends_fresh(&s, 1, len);
		hear_all(&s);
	}
	must(went == (crossing || !room_for ? room_for : 2), "they don't come to write in turn");
}

static void all_is_well(bool one_stays_short)
{
	struct state s;

	states = calloc(STATES, sizeof *states);
	came_from = calloc(STATES, sizeof *came_from);
	came_by = calloc(STATES, 1);
	hash = calloc(HASH, sizeof *hash);
	for (size_t i = 0; i < 2; i++)
		lane[i] = aligned_alloc(4096, sizeof *lane[i]); /* nobody touches it */
	assert_true(states && came_from && came_by && hash && lane[0] && lane[1]);
	memset(taken, 0, sizeof taken);
	nstate = at = declined = 0;
	memset(&s, 0, sizeof s);
	s.holder[1] = 1;
	s.end[1].stays_short = one_stays_short;
	add(&s, 0);
	for (at = 0; at < nstate; at++) {
		for (uint32_t by = 0; by < 2 * ACTIONS; by++) {
			s = states[at];
			if (!act(&s, by / ACTIONS, by % ACTIONS))
				continue;
			taken[by % ACTIONS]++;
			add(&s, by);
		}
		for (size_t len = 0; len < LENS; len++) {
			comes_to_turns(states[at], len, false);
			comes_to_turns(states[at], len, true);
		}
	}
	print_message("%u states, %llu refusals\n", nstate, (unsigned long long)declined);
	for (uint32_t a = 0; a < ACTIONS; a++) /* LONGER: of the longest only */
		assert_int_equal(taken[a] != 0, a != LONGER && a != LONGER + 1);
	assert_true(declined);
	free(states);
	free(came_from);
	free(came_by);
	free(hash);
	free(lane[0]);
	free(lane[1]);
}

static void both_may_be_long(void **state)
{
	(void)state;
	all_is_well(false);
}

static void one_stays_short(void **state)
{
	(void)state;
	all_is_well(true);
}

int main(void)
{
	TABLE_TEST(both_may_be_long);
	TABLE_TEST(one_stays_short);
	return table_run("copybuf_model");
}
