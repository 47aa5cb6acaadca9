/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * crowd_stay_test.c: of a process that shares its core (wait/oversub.h): when it stays there for an
 * answer that is near, what it says of where it runs, and when it yields. On which core it runs,
 * and how long a yield takes, are ours to say here.
 */
#include <errno.h>
#include <sched.h>

#include "endpoint/api.h"
#include "wait/oversub.h"
#include "unit/node.h"

#define GIVES_AFTER_US 30 /* of a wait */
/* cq.c and oversub.c have the same: longer between two reads is computing, a longer wait naps. */
#define COMPUTING_US  7
#define NAPS_AFTER_US 1000
#define HELD_UP_US    50 /* much longer than a read takes */

int __wrap_sched_yield(void);
int __wrap_sched_getcpu(void);

/* However many others run on this machine now, the looks are moments apart. */
static int yields;
static uint64_t each_takes; /* us */

int __wrap_sched_yield(void)
{
	uint64_t began = bl_ticks();

	yields++;
	while (bl_ticks() - began < each_takes * bl_ticks_per_us())
		;
	return 0;
}

static int core = 7; /* OUR_CORE */

int __wrap_sched_getcpu(void)
{
	return core;
}

/* --- stays ----------------------------------------------------------------------- */

#define OUR_CORE     8 /* it counts from 1 here */
#define ANOTHER_CORE 9
#define LEFT_OURS    (OUR_CORE | BL_TURN_AWAY)
#define LEFT_ANOTHER (ANOTHER_CORE | BL_TURN_AWAY)

static struct node pair; /* we are the first */

static void open_pair(uint32_t company)
{
	node_open(&pair, 2);
	pair.cq[0]->crowd = (struct bl_oversub){
		.until = bl_ticks() + BL_TICKS_AHEAD,
		.company = company,
		.visit_every = 32,
	};
	/* nobody looks after lives or the scheduler meanwhile */
	pair.ep[0]->watch.next_look = pair.cq[0]->crowd.until;
}

static void post(uint64_t from, uint64_t tag)
{
	static uint8_t buf[8];

	assert_int_equal(bl_recv_buf(pair.ep[0], buf, sizeof buf, from, tag, 0, NULL, NODE_FLAGS),
			 0);
}

static void their_turn(uint32_t turn)
{
	atomic_store(&pair.ep[1]->local.seg.header->turn, turn);
}

static uint32_t our_turn(void)
{
	return atomic_load(&pair.ep[0]->local.seg.header->turn);
}

enum whom { NOBODY, THEM, ANYBODY, US };
enum outcome { LEAVES, STAYS, VISITS };

struct stay_row {
	struct row row;
	enum whom whom; /* the oldest receive is from */
	uint32_t turn;	/* of the other */
	uint32_t company;
	bool due; /* it is time for a visit */
	enum outcome outcome;
};

static const struct stay_row stays[] = {
	{{"runs elsewhere", "its answer is near"}, THEM, ANOTHER_CORE, 1, false, STAYS},
	{{"has not said anything", "it may run"}, THEM, 0, 1, false, STAYS},
	{{"runs here", "so it has been stopped in the middle"}, THEM, OUR_CORE, 1, true, LEAVES},
	{{"left our core", "it can't run before we go"}, THEM, LEFT_OURS, 1, true, LEAVES},
	{{"left another core", "no answer before its turn"}, THEM, LEFT_ANOTHER, 1, false, LEAVES},
	{{"left another core", "it may find us here"}, THEM, LEFT_ANOTHER, 1, true, VISITS},
	{{"runs elsewhere, no company", "it never answered"}, THEM, ANOTHER_CORE, 0, false, LEAVES},
	{{"runs elsewhere, no company", "perhaps now"}, THEM, ANOTHER_CORE, 0, true, VISITS},
	{{"left our core, no company", "nobody to find us"}, THEM, LEFT_OURS, 0, true, LEAVES},
	{{"from anybody", "who that is isn't known"}, ANYBODY, ANOTHER_CORE, 8, true, LEAVES},
	{{"nothing posted", "nobody is waited for"}, NOBODY, ANOTHER_CORE, 8, true, LEAVES},
	{{"from ourselves", "we are here"}, US, ANOTHER_CORE, 8, true, LEAVES},
	{{"a core beyond any", "said by a broken neighbour"}, THEM, 0x7fffffff, 1, false, STAYS},
};

static void stays_with(void **state)
{
	const struct stay_row *what = TABLE_ROW(struct stay_row, state);
	struct bl_stay stay;
	struct bl_cq *cq;
	enum outcome outcome = LEAVES;

	open_pair(what->company);
	cq = pair.cq[0];
	cq->crowd.skipped = what->due ? 31 : 7;
	bl_oversub_return(cq);
	assert_int_equal(our_turn(), OUR_CORE);
	their_turn(what->turn);
	if (what->whom != NOBODY)
		post(what->whom == ANYBODY ? BL_ADDR_ANY : what->whom == US ? 0 : 1, 5);
	if (bl_oversub_stay(cq, &stay))
		outcome = stay.visit ? VISITS : STAYS;
	assert_int_equal(outcome, what->outcome);
	node_close(&pair);
}

/* Where the kernel doesn't say on which core we run, no process there knows, and all are as if on
 * one. */
static void unknown_cores(void **state)
{
	struct bl_stay stay;

	open_pair(8);
	core = -1;
	bl_oversub_return(pair.cq[0]);
	assert_int_equal(our_turn(), 0);
	bl_oversub_leave(pair.cq[0]);
	assert_int_equal(our_turn(), BL_TURN_AWAY);
	post(1, 5);
	for (int away = 0; away < 2; away++) {
		pair.cq[0]->crowd.skipped = 31;
		their_turn(away ? BL_TURN_AWAY : 0);
		assert_false(bl_oversub_stay(pair.cq[0], &stay));
	}
	core = 7;
	node_close(&pair);
}

/* A process with a queue for its sends and one for its receives: which of them it has left by
 * doesn't matter. */
static void returns_by_any_queue(void **state)
{
	struct bl_comp comp;
	struct bl_cq *tx;

	open_pair(0);
	assert_int_equal(bl_cq_open(pair.domain, 0, &tx), 0);
	pair.ep[0]->bound.tx_cq = tx;
	bl_oversub_leave(pair.cq[0]);
	assert_int_equal(our_turn(), BL_TURN_AWAY);
	assert_true(tx->away);
	bl_oversub_return(tx);
	bl_cq_read(pair.cq[0], &comp, 1, sizeof comp, NULL);
	assert_int_equal(our_turn(), OUR_CORE);
	pair.ep[0]->bound.tx_cq = pair.cq[0];
	assert_int_equal(bl_cq_close(tx), 0);
	node_close(&pair);
}

/* What ends a stay of either kind. */
static void stays_until(void **state)
{
	for (int visit = 0; visit < 2; visit++) {
		struct bl_stay stay;
		struct bl_cq *cq;

		open_pair(1);
		cq = pair.cq[0];
		cq->crowd.skipped = 31;
		their_turn(ANOTHER_CORE | (visit ? BL_TURN_AWAY : 0));
		post(1, 5);
		assert_true(bl_oversub_stay(cq, &stay));
		assert_int_equal(stay.visit, visit);
		stay.until = cq->crowd.until;
		assert_true(bl_oversub_stay_on(cq, &stay));
		their_turn(ANOTHER_CORE |
			   BL_TURN_AWAY); /* a visit minds that as little as before */
		assert_int_equal(bl_oversub_stay_on(cq, &stay), visit);
		their_turn(ANOTHER_CORE);
		assert_true(bl_oversub_stay_on(cq, &stay));
		stay.until = bl_ticks() - 1;
		assert_false(bl_oversub_stay_on(cq, &stay));
		assert_false(stay.left);
		stay.until = cq->crowd.until;
		assert_int_equal(bl_cancel(pair.ep[0], NULL), 0); /* no longer awaited */
		assert_false(bl_oversub_stay_on(cq, &stay));
		assert_true(stay.left);
		node_close(&pair);
	}
}

struct company_row {
	struct row row;
	const char *stays; /* + found, - in vain, . the other left; the same of visits: F V */
	uint32_t company, visit_every;
};

static const struct company_row companies[] = {
	{{"a visit", "is how it begins"}, "F", 1, 0},
	{{"a visit in vain", "the next one in a while"}, "V", 0, 32},
	{{"two", "in twice that"}, "VV", 0, 64},
	{{"many", "rarely"}, "VVVVVVVVVV", 0, 512},
	{{"a visit found", "is no reason for more"}, "VVVF", 1, 128},
	{{"and has stayed", "is one"}, "VVVF+", 2, 32},
	{{"four, then in vain", "one is left"}, "++++-", 1, 64},
	{{"every other", "half of them in vain is too many"}, "+-+-+-+-", 0, 64},
	{{"three of four", "less than pays"}, "+++-+++-+++-", 0, 64},
	{{"four of five", "pays"}, "++++-++++-++++-", 3, 64},
	{{"long together", "counts no more than eight"}, "++++++++++++--", 2, 128},
	{{"left", "costs nothing"}, "++..........", 2, 32},
	{{"visits in vain", "say nothing of who runs"}, "++VV", 2, 128},
};

static void company_lasts(void **state)
{
	const struct company_row *what = TABLE_ROW(struct company_row, state);
	struct bl_oversub crowd = {0};

	for (const char *end = what->stays; *end; end++) {
		struct bl_stay stay = {.visit = *end == 'F' || *end == 'V', .left = *end == '.'};

		bl_oversub_stayed(&crowd, &stay, *end == 'F' || *end == '+');
	}
	assert_int_equal(crowd.company, what->company);
	assert_int_equal(crowd.visit_every, what->visit_every);
}

/* Each 16th time where it would be each 512th. */
static void visits_its_partner(void **state)
{
	struct bl_stay stay;

	(void)state;
	for (int two = 0; two < 2; two++)
		for (uint32_t skipped = 14; skipped < 16; skipped++) {
			open_pair(1);
			pair.cq[0]->crowd.visit_every = 512;
			pair.cq[0]->crowd.skipped = skipped;
			pair.cq[0]->crowd.apart.pair = two;
			bl_oversub_return(pair.cq[0]);
			their_turn(LEFT_ANOTHER);
			post(1, 5);
			assert_int_equal(bl_oversub_stay(pair.cq[0], &stay), two && skipped == 15);
			node_close(&pair);
		}
}

/* Who reads says whether it is here. */
struct turn_row {
	struct row row;
	enum whom posted;
	const char *reads; /* -: nothing is there, +: something, which another has sent */
	bool away;
	int yields;
};

static const struct turn_row turns[] = {
	{{"something", "is here"}, NOBODY, "+", false, 0},
	{{"first of a wait", "its caller may yield"}, THEM, "+-", true, 0},
	{{"first, for anybody", "its caller may have enough"}, ANYBODY, "+-", false, 0},
	{{"second, for anybody", "its caller waits"}, ANYBODY, "+--", true, 1},
	{{"first, for nothing", "its caller goes on"}, NOBODY, "+-", false, 0},
	{{"second, for nothing", "its caller waits for something else"}, NOBODY, "+--", true, 1},
	{{"then something", "is here again"}, NOBODY, "+---+", false, 2},
};

/* True: this machine has held us up between two empty reads, by the times that the queue itself has
 * noted, which it takes for its caller's computing; or altogether for as long as a wait that naps.
 */
static bool reads_as(const struct turn_row *what, struct bl_cq *cq)
{
	uint64_t us = bl_ticks_per_us(), began = bl_ticks();
	bool held_up = false;
	struct bl_comp comp;

	for (const char *read = what->reads; *read; read++) {
		uint64_t before = cq->last_empty;

		if (*read == '+') {
			post(1, 5);
			node_send(&pair, 1, 0, NULL, 0, 5, NULL, BL_TAGGED);
			for (int reads = 1; bl_cq_read(cq, &comp, 1, sizeof comp, NULL) != 1;
			     reads++)
				assert_in_range(reads, 1, 1000000);
			continue;
		}
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
		if (read != what->reads && read[-1] == '-')
			held_up |= cq->last_empty - before > COMPUTING_US * us;
	}
	return held_up || bl_ticks() - began > NAPS_AFTER_US * us;
}

static bool is_as_expected(const struct turn_row *what, const struct bl_cq *cq)
{
	return cq->away == what->away && yields == what->yields &&
	       (cq->crowd.skipped > 0) == (what->posted == THEM) && /* asked whether to stay */
	       our_turn() == (what->away ? OUR_CORE | BL_TURN_AWAY : OUR_CORE);
}

static void says_its_turn(void **state)
{
	const struct turn_row *what = TABLE_ROW(struct turn_row, state);
	bool good = false, held_up = true;

	for (int tries = 0; !good && held_up; tries++) {
		struct bl_cq *cq;

#ifdef __SANITIZE_THREAD__
		if (tries == 1000) {
			print_message("# an empty read takes over %d us with the sanitizer\n",
				      COMPUTING_US);
			skip();
		}
#endif
		assert_in_range(tries, 0, 1000);
		open_pair(0);
		cq = pair.cq[0];
		cq->last_empty = bl_ticks();
		bl_oversub_return(cq);
		if (what->posted != NOBODY)
			post(what->posted == ANYBODY ? BL_ADDR_ANY : 1, 6);
		yields = 0;
		held_up = reads_as(what, cq);
		good = is_as_expected(what, cq);
		if (!good && !held_up)
			fail_msg("away %d, %d yields, asked %u, turn %#x", cq->away, yields,
				 cq->crowd.skipped, our_turn());
		node_close(&pair);
	}
}

/* --- yields ---------------------------------------------------------------------- */

struct yield_row {
	struct row row;
	enum whom posted;
	bool crowded;
	uint64_t every; /* us: a yield at the most, but the first; 0: each read */
	bool taken;	/* a yield, by others, which takes a while */
};

static const struct yield_row lasting[] = {
	{{"for a message", "its sender may want the core"}, THEM, false, 2, false},
	{{"for nothing of ours", "whatever it is comes sooner"}, NOBODY, false, 30, false},
	{{"taken", "for its sender, perhaps"}, THEM, false, 0, true},
	{{"for nothing of ours, taken", "for whatever it is, perhaps"}, NOBODY, false, 0, true},
	{{"in a crowd", "whoever it is wants the core"}, THEM, true, 0, false},
	{{"for nothing of ours, in a crowd", "whatever it is"}, NOBODY, true, 0, false},
};

#define LASTS_US 2000

/* Reads in a row of a wait that has lasted for a while, and goes on. */
static void yields_while_it_lasts(void **state)
{
	const struct yield_row *what = TABLE_ROW(struct yield_row, state);
	uint64_t began, us = bl_ticks_per_us(), lasted, last;
	int reads = 0;
	struct bl_comp comp;
	struct bl_cq *cq;

	open_pair(0);
	cq = pair.cq[0];
	if (!what->crowded)
		cq->crowd.until = 0;
	if (what->posted == THEM)
		post(1, 6);
	for (int i = 0; i < 2; i++) /* the second one begins no wait */
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
	began = bl_ticks();
	cq->wait_began = began - 2 * GIVES_AFTER_US * us;
	cq->gave_way = began - 2 * GIVES_AFTER_US * us;
	cq->crowd.no_nap = began + BL_TICKS_AHEAD;
	yields = 0;
	each_takes = what->taken ? 4 : 0;
	last = began;
	do {
		uint64_t now = bl_ticks();

		/* However long this machine has held us up, in the last read, too: its caller
		 * hasn't computed, and its wait goes on. */
		cq->last_empty = now;
		if (now - last > COMPUTING_US * us)
			cq->wait_began = began - 2 * GIVES_AFTER_US * us;
		if (cq->crowd.taken && now - last > HELD_UP_US * us)
			cq->crowd.taken = now;
		last = now;
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
		lasted = bl_ticks() - began;
	} while (++reads, lasted < LASTS_US * us);
	each_takes = 0;
	assert_true(yields > 0);
	if (what->every && !cq->crowd.taken) /* by nobody else on this machine */
		assert_true((uint64_t)yields <= 1 + lasted / (what->every * us));
	else if (!what->every) /* but while it is held up between two looks */
		assert_in_range(yields, reads - reads / 8 - 1, reads);
	node_close(&pair);
}

/* --- met on one core ------------------------------------------------------------- */

struct met_row {
	struct row row;
	uint32_t turn;	/* what the other one says */
	uint64_t takes; /* us: a yield */
	bool shared;
};

static const struct met_row mets[] = {
	{{"it waits here", "a yield each turn, not 30 us"}, OUR_CORE, 5, true},
	{{"it has left our core", "it waits here"}, OUR_CORE | BL_TURN_AWAY, 5, true},
	{{"it waits elsewhere", "a stranger took the core"}, OUR_CORE + 1, 5, false},
	{{"it has said nothing", "a stranger took the core"}, 0, 5, false},
	{{"nobody took the core", "it isn't here any more"}, OUR_CORE, 0, false},
};

/* Two of a job of two, on two cores: others' load has put both on one of these. */
static void met_on_one_core(void **state)
{
	const struct met_row *what = TABLE_ROW(struct met_row, state);
	struct bl_cq *cq;

	open_pair(0);
	cq = pair.cq[0];
	cq->crowd.until = 0;
	their_turn(what->turn);
	each_takes = what->takes;
	bl_oversub_give_way(cq, bl_ticks());
	each_takes = 0;
	assert_int_equal(our_turn(), OUR_CORE); /* so that it finds us, too */
	assert_int_equal(bl_oversub_shared(&cq->crowd, bl_ticks()), what->shared);
	/* And no longer than for a moment. */
	assert_false(bl_oversub_shared(&cq->crowd, bl_ticks() + 11000 * bl_ticks_per_us()));
	node_close(&pair);
}

int main(void)
{
	TABLE_ROWS("stay", stays_with, stays);
	TABLE_TEST(unknown_cores);
	TABLE_TEST(returns_by_any_queue);
	TABLE_TEST(stays_until);
	TABLE_ROWS("company", company_lasts, companies);
	TABLE_TEST(visits_its_partner);
	TABLE_ROWS("turn", says_its_turn, turns);
	TABLE_ROWS("yield", yields_while_it_lasts, lasting);
	TABLE_ROWS("met", met_on_one_core, mets);
	return table_run("crowd_stay");
}
