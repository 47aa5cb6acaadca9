/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dirty_way_test.c: where messages go whose bytes their sender has just written
 * (transport/local/adapt/dirty.h), and others of their lengths.
 */
#include <sys/resource.h>

#include "unit/dirty.h"

/* --- where they go ------------------------------------------------------------- */

struct way_row {
	struct row row;
	/* A: one of ours of len bytes, received at once; B: one of the other's; a, b: 8 bytes each;
	 * X: both at once */
	const char *steps;
	const char *ways; /* of the long ones */
	size_t len;
	bool ours_isnt, others_isnt, is_short, congested, past, far, rkeys, leaves;
	bool posted;   /* before they are sent */
	uint32_t room; /* of the other's buffer; 0: for all of them */
	size_t turn;   /* bytes that go in turn near by, whatever is known of them */
	bool deep, streamed_far;
};

#define TURN 262144u

static const struct way_row ways[] = {
	{{"in turn", "each waits for the other's"}, "ABABABABABAB", "rrrrrpgggggg", .len = LEN},
	{{"the longest", "if both stay here, and have posted"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = FRESH,
	 .posted = true},
	{{"the longest, not posted", "would be copied three times"},
	 "ABABABABABAB",
	 "rrrrrprrrrrr",
	 .len = FRESH},
	{{"a byte less than can be claimed", "posted or not"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = BL_PROXY_MIN - 1},
	{{"the shortest that can be claimed, one leaves", "the same"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = BL_PROXY_MIN,
	 .posted = true,
	 .leaves = true},
	{{"the longest, one leaves", "is copied for one who computes"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = FRESH,
	 .posted = true,
	 .leaves = true},
	{{"crossing", "copied in as a whole"}, "XXXXXX", "rrrrrrpppppp", .len = LEN},
	{{"crossing, the longest", "both will have posted"},
	 "XXXXXX",
	 "rrrrrrpppppp",
	 .len = FRESH},
	{{"longer than the other's buffer", "all go to ours"},
	 "ABABABABABAB",
	 "rrrrrrgggggg",
	 .len = FRESH,
	 .posted = true,
	 .room = FRESH - 1},
	{{"as long as the other's buffer", "goes there"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = FRESH - 1,
	 .posted = true,
	 .room = FRESH - 1},
	{{"short answers", "through the ring"}, "AbAbAbAbAbAb", "rrrwww", .len = LEN},
	{{"short answers, 64 KiB", "the longest there"},
	 "AbAbAbAbAbAb",
	 "rrrwww",
	 .len = BL_PROXY_MIN,
	 .posted = true},
	{{"short answers, a byte more", "is announced"},
	 "AbAbAbAbAbAb",
	 "rrrrrr",
	 .len = BL_PROXY_MIN + 1,
	 .posted = true},
	{{"a stream", "nothing comes back"}, "AAAAAAAA", "rrrrrrrr", .len = LEN},
	{{"only ours", "the other's are announced"},
	 "ABABABABABAB",
	 "rrrrrrgrwrwr",
	 .len = LEN,
	 .others_isnt = true},
	{{"neither", "copied once"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"short lanes", "have no place yet"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .is_short = true},
	{{"congested", "it keeps enough"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .congested = true},
	{{"far away", "its stores pass the caches by"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .past = true},
	{{"far away", "by the time of a line"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .far = true},
	{{"far away, two copies are quicker there, too", "copied in as a whole"},
	 "ABABABABABAB",
	 "rrrrrppppppp",
	 .len = LEN,
	 .far = true,
	 .deep = true},
	{{"far away, where it grows there, too", "read while it is written"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = LEN,
	 .far = true,
	 .deep = true,
	 .streamed_far = true},
	{{"near by", "whether it was just written or not"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = TURN,
	 .turn = TURN,
	 .posted = true,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"near by, crossing", "the same"},
	 "XXXXXX",
	 "rrrrrrpppppp",
	 .len = TURN,
	 .turn = TURN,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"near by, a byte more", "copied once"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = TURN + 1,
	 .turn = TURN,
	 .posted = true,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"near by, not posted", "would be copied three times"},
	 "ABABABABABAB",
	 "rrrrrprrrrrr",
	 .len = TURN,
	 .turn = TURN,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"near by, one leaves", "is copied for one who computes"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = TURN,
	 .turn = TURN,
	 .posted = true,
	 .ours_isnt = true,
	 .others_isnt = true,
	 .leaves = true},
	{{"far away, not just written", "copied once"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = TURN,
	 .turn = TURN,
	 .posted = true,
	 .ours_isnt = true,
	 .others_isnt = true,
	 .far = true,
	 .deep = true},
	{{"lent", "the module copies it once"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .rkeys = true},
};

static void which_way(void **state)
{
	const struct way_row *row = TABLE_ROW(struct way_row, state);
	char seen[32] = "";
	size_t n = 0;

	open_fresh();
	copies_take_long(true);
	limits()->copybuf = (uint32_t)row->turn;
	limits_dirty(FRESH, row->deep);
	limits()->streamed_far = row->streamed_far;
	waits_here = !row->leaves;
	if (!row->is_short)
		stretch_both();
	if (row->room) {
		node.ep[0]->dest[1]->tx.copybuf_room = row->room;
		node.ep[0]->dest[1]->stays_short = true;
	}
	for (const char *at = row->steps; *at; at++) {
		bool ours = *at == 'A' || *at == 'a' || *at == 'X';

		say_fresh(1, !row->ours_isnt);
		say_fresh(0, !row->others_isnt);
		for (size_t i = 0; i < 2; i++) {
			atomic_store(&node.ep[i]->local.seg.header->congested, row->congested);
			node.ep[i]->dest[!i]->congestion.high = row->congested;
			node.ep[i]->dest[!i]->tx.slow = row->far ? 7 : 0;
			node.ep[i]->dest[!i]->copy.needs_rkeys = row->rkeys;
		}
		if (*at == 'a' || *at == 'b') {
			word(ours);
			continue;
		}
		if (row->posted)
			posts(!ours);
		sends_past(ours, row->len, row->past);
		for (size_t i = 0; i < 2; i++)
			node.ep[i]->dest[!i]->copy.needs_rkeys = false;
		seen[n++] = way_of_last(ours);
		if (*at == 'X') {
			sends_past(0, row->len, row->past);
			seen[n++] = way_of_last(0);
			receive_both(row->len);
		} else {
			if (!row->posted)
				posts(!ours);
			has(!ours, row->len);
		}
	}
	assert_string_equal(seen, row->ways);
	if (strpbrk(seen, "pg") && row->len >= BL_PROXY_MIN)
		assert_int_equal(waits_for, row->len); /* and may be at using that */
	assert_int_equal(sender->rndv.requests + receiver->rndv.requests, 0);
	waits_here = true;
	node_close(&node);
}

/* What has been offered is too short: ours is offered, too, and that stays for what isn't. */
static void offered_too_little(void **state)
{
	static const struct {
		size_t len;
		uint32_t where;
	} steps[] = {
		{100000, BL_SLOT_CB_USE}, {200000, BL_SLOT_CB_GRANT}, {100000, BL_SLOT_CB_USE}};

	(void)state;
	open_fresh();
	stretch_both();
	sender->dest[0]->stays_short = true; /* which offers first, and last */
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		for (uint32_t n = 0; n < 12; n++) {
			size_t by = n & 1;

			say_fresh(0, true);
			say_fresh(1, true);
			posts(!by);
			sends(by, steps[i].len);
			has(!by, steps[i].len);
		}
		assert_int_equal(way_of_last(0), 'g');
		assert_int_equal(way_of_last(1), 'g');
		assert_int_equal(BL_HEAD_FLAGS(last_head(0)) & (BL_SLOT_CB_USE | BL_SLOT_CB_GRANT),
				 steps[i].where);
	}
	node_close(&node);
}

/* One each, at once, and they go that way. */
static void cross(size_t len, char way)
{
	char seen[2];

	say_fresh(0, true);
	say_fresh(1, true);
	for (size_t by = 2; by--;) {
		sends(by, len);
		seen[by] = way_of_last(by);
	}
	receive_both(len);
	if (way) {
		assert_int_equal(seen[0], way);
		assert_int_equal(seen[1], way);
	}
}

/* No buffer is made longer for one that is announced all the same. */
static void not_for_nothing(void **state)
{
	struct bl_tx *tx;

	(void)state;
	open_fresh();
	stretch_both();
	tx = &peer()->tx;
	for (uint32_t i = 0; i < 4; i++) {
		say_fresh(1, true);
		tx->answered = true;
		tx->turns = BL_PINGPONG_AFTER;
		tx->dirty_left = i == 0 ? 0 : BL_DIRTY_MOST;
		waits_here = i != 1;
		atomic_store(&receiver->local.seg.header->congested, i == 2);
		posts(0);
		sends(1, FRESH);
		assert_int_equal(way_of_last(1), i < 3 ? 'r' : 'p');
		has(0, FRESH);
		assert_int_equal(tx->copybuf_room, i < 3 ? BL_COPYBUF_SIZE : FRESH);
	}
	node_close(&node);
}

/* Both have offered what is too short then: each has its own back, and makes it longer. */
static void longer_ones_cross(void **state)
{
	struct bl_tx *ours, *its;
	uint32_t n;

	(void)state;
	open_fresh();
	stretch_both();
	ours = &sender->dest[0]->tx;
	its = &receiver->dest[1]->tx;
	for (n = 0; n < 20 && !(ours->offers && its->offers); n++)
		cross(100000, 0);
	assert_true(ours->offers && its->offers && ours->offer && its->offer);
	cross(FRESH + 1, 'r'); /* which is announced in any case */
	assert_true(ours->offers && its->offers && ours->offer && its->offer);
	cross(FRESH, 'r');
	for (n = 0; n < 5; n++)
		cross(FRESH, 'p');
	node_close(&node);
}

/* Its pieces come while they are copied out: it is taken in one go, now and then at least, for who
 * adds them may lose its processor. */
static uint32_t added, added_ns; /* bytes at a time, and how often */
static uint32_t added_first;	 /* so many, and the rest only when ... */
static atomic_bool was_left;	 /* ... the receiver has given up */

static void *adds(void *arg)
{
	struct bl_slot *slot = arg;
	uint64_t since = bl_ticks(), end = since + 1000000 * bl_ticks_per_us();

	for (uint32_t there = atomic_load(&slot->there); there < FRESH; since = bl_ticks()) {
		there = bl_min(there + added, FRESH);
		while ((bl_ticks() - since) * 1000 < added_ns * bl_ticks_per_us())
			bl_cpu_relax();
		/* (Or when it is late: a receiver that never does fails by having got all of it.)
		 */
		while (there > added_first && !atomic_load(&was_left) &&
		       !bl_is_due(bl_ticks(), end))
			bl_cpu_relax();
		bl_slot_advance(slot, there);
	}
	return NULL;
}

/* The longest is in the buffer, and none of it is there yet. */
static struct bl_slot *send_growing(void)
{
	struct bl_tx *tx = &peer()->tx;
	struct bl_slot *slot = &tx->slot[tx->next % BL_SLOTS];

	tx->answered = true;
	tx->turns = BL_PINGPONG_AFTER;
	tx->replies = 7;
	say_fresh(1, true);
	posts(0);
	sends(1, FRESH);
	assert_int_equal(way_of_last(1), 'g');
	bl_slot_advance(slot, 0);
	return slot;
}

struct added_row {
	struct row row;
	uint32_t at_a_time, ns; /* less than a receiver waits, and more than it copies for */
	uint32_t first;		/* FRESH: it can be taken in one go */
};

static const struct added_row addeds[] = {
	{{"pieces", "as any sender adds them"}, BL_STREAMED_PIECE, 3500, FRESH},
	{{"a little at a time", "nobody waits for that"}, 64, 2500, 16384},
};

/* How often this thread has lost its processor to another. */
static long lost(void)
{
	struct rusage use;

	return getrusage(RUSAGE_THREAD, &use) ? 0 : use.ru_nivcsw;
}

static void taken_as_it_grows(void **state)
{
	const struct added_row *row = TABLE_ROW(struct added_row, state);
	time_t deadline = time(NULL) + 20;
	uint32_t looks = 0, went = 0;

	added = row->at_a_time;
	added_ns = row->ns;
	added_first = row->first;
	/* Until one has gone so, or most of some: others may run on these processors. */
	while ((row->first < FRESH ? looks < 16 : !went) && time(NULL) < deadline) {
		struct bl_comp comp;
		struct bl_slot *slot;
		uint32_t there, at_first;
		pthread_t other;
		bool late, all;
		long was;

		open_fresh();
		stretch_both();
		slot = send_growing();
		atomic_store(&was_left, false);
		assert_int_equal(pthread_create(&other, NULL, adds, slot), 0);
		while (!(at_first = bl_slot_progress(slot, FRESH)))
			bl_cpu_relax();
		was = lost();
		/* One look: all of it is taken, or it has been left, soon. */
		all = bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL) == 1;
		there = bl_slot_progress(slot, FRESH);
		atomic_store(&was_left, true);
		late = at_first > row->first / 2 || lost() != was; /* it is we who weren't there */
		if (row->first < FRESH)
			assert_false(all);
		if (!all)
			comp = node_completion(&node, 0, NULL);
		went += !late && (row->first < FRESH ? there < row->first : all);
		looks += !late;
		assert_int_equal(comp.len, FRESH);
		check(FRESH);
		assert_int_equal(pthread_join(other, NULL), 0);
		node_completion(&node, 1, NULL);
		node_close(&node);
	}
	if (row->first == FRESH && looks)
		assert_true(went);
	if (row->first < FRESH && looks >= 8)
		assert_true(went > looks * 3 / 4);
}

int main(void)
{
	set_limits();
	is_using = true;
	unsetenv("FI_BEELINE_LONG_RING");
	unsetenv("FI_BEELINE_COPYBUF");
	TABLE_ROWS("way", which_way, ways);
	TABLE_TEST(offered_too_little);
	TABLE_TEST(not_for_nothing);
	TABLE_TEST(longer_ones_cross);
	TABLE_ROWS("added", taken_as_it_grows, addeds);
	return table_run("dirty_way");
}
