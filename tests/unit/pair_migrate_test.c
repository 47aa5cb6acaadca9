/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pair_migrate_test.c: who counts as a pair, and which one of it goes to another core, and when
 * (wait/pair_migrate.h). We are endpoint 0; what it sends is only said here.
 */
#include "wait/pair_migrate.h"
#include "unit/node.h"

#define OUR_CORE     8 /* it counts from 1 here */
#define ANOTHER_CORE 9
#define LEFT_OURS    (OUR_CORE | BL_TURN_AWAY)
#define LEFT_ANOTHER (ANOTHER_CORE | BL_TURN_AWAY)

int __wrap_bl_place_elsewhere(uint32_t to);
int __wrap_bl_place_at(uint32_t to);
int __wrap_sched_getcpu(void);
uint64_t __wrap_bl_clock_thread_ns(void);

static struct node node;
static int core = OUR_CORE - 1;
static int went, returned;
static uint32_t number; /* to which it went, or the core */
static int goes_to;	/* the number of a core, or an error */

int __wrap_bl_place_elsewhere(uint32_t to)
{
	number = to;
	went++;
	/* nobody finds us where we were, while we wait to get there */
	assert_int_equal(atomic_load(&node.ep[0]->local.seg.header->turn), 0);
	if (goes_to >= 0)
		core = goes_to;
	return goes_to;
}

int __wrap_bl_place_at(uint32_t to)
{
	number = to;
	returned++;
	core = (int)to;
	return core;
}

static uint64_t cpu_ns;

uint64_t __wrap_bl_clock_thread_ns(void)
{
	return cpu_ns;
}

int __wrap_sched_getcpu(void)
{
	return core;
}

#define WINDOW                                                                                     \
	(BL_MIGRATE_SAME + BL_MIGRATE_FEW + BL_MIGRATE_MORE) /* looks: more than any takes         \
							      */
#define MEASURE_US 20000u
#define AGAIN_US   20000u
#define AGAIN_MOST 7u

static uint32_t sent[3]; /* to each, before the test */

static struct bl_peer *peer(size_t i)
{
	return node.ep[0]->dest[i];
}

static void send_to(size_t i)
{
	peer(i)->tx.next++;
}

static struct bl_migrate *apart(void)
{
	return &node.cq[0]->crowd.apart;
}

static uint64_t name_of(size_t i)
{
	uint64_t name;

	memcpy(&name, node.ep[i]->local.addr.id, sizeof name);
	return name;
}

static uint64_t says(size_t i)
{
	return atomic_load(&node.ep[i]->local.seg.header->partner);
}

static void they_say(uint64_t name)
{
	atomic_store(&node.ep[1]->local.seg.header->partner, name);
}

static void begin(void)
{
	node_open(&node, 3);
	for (size_t i = 0; i < 3; i++)
		sent[i] = peer(i)->tx.next;
	went = returned = 0;
	goes_to = 1;
}

static void end(void)
{
	for (size_t i = 0; i < 3; i++)
		peer(i)->tx.next = sent[i];
	node_close(&node);
}

enum says { US, NOBODY, ANOTHER };

struct pair_row {
	struct row row;
	uint32_t to_others; /* one in so many packets; 0: none */
	uint32_t awaits;    /* another, at one in so many looks; 0: never */
	uint32_t elsewhere; /* it is, at one in so many looks; 0: never */
	uint32_t idle;	    /* nothing was sent before one in so many looks; 0: never */
	enum says says;
	uint64_t uses; /* ns of a processor, for each look */
	bool alone;    /* we say that we talk with it alone */
	bool pair;
	bool goes;
};

#define ALWAYS 1u

static const struct pair_row pairs[] = {
	{{"two", "on one core"}, 0, 0, 0, 0, US, 5000, true, true, true},
	{{"two", "on two"}, 0, 0, ALWAYS, 0, US, 5000, true, true, false},
	{{"two", "mostly on two"}, 0, 0, 2, 0, US, 5000, true, true, false},
	{{"two", "mostly on one"}, 0, 0, 16, 0, US, 5000, true, true, true},
	{{"two", "that work hardly at all"}, 0, 0, 0, 0, US, 12000, true, true, true},
	{{"two", "that work in between"}, 0, 0, 0, 0, US, 12001, true, false, false},
	{{"a leaf", "of a tree, whose root has others"},
	 0,
	 0,
	 0,
	 0,
	 NOBODY,
	 5000,
	 true,
	 false,
	 false},
	{{"a leaf", "whose root talks with another"},
	 0,
	 0,
	 0,
	 0,
	 ANOTHER,
	 5000,
	 true,
	 false,
	 false},
	{{"a root", "whose leaves say that they are two"},
	 2,
	 0,
	 0,
	 0,
	 US,
	 5000,
	 false,
	 false,
	 false},
	{{"a fifth", "goes to others"}, 4, 0, 0, 0, US, 5000, false, false, false},
	{{"hardly any", "goes to others"}, 40, 0, 0, 0, US, 5000, true, true, true},
	{{"two in turn", "that we wait for"}, 0, 2, 0, 0, US, 5000, false, false, false},
	{{"another", "that we wait for, now and then"}, 0, 8, 0, 0, US, 5000, false, false, false},
	{{"who only listens", "sends nothing"}, 0, 0, 0, ALWAYS, US, 5000, false, false, false},
	{{"who mostly listens", "sends little"}, 0, 0, 0, 2, US, 5000, false, false, false},
};

static bool is_one_in(uint32_t so_many, uint32_t i)
{
	return so_many && i % so_many == so_many - 1;
}

#define WAIT_US 100u /* between two */

/* At one of the next waits. */
static enum bl_migrate_step look(const struct pair_row *row, uint32_t i, uint64_t *now)
{
	const struct bl_peer *whom = is_one_in(row->awaits, i) ? peer(2) : peer(1);

	if (!is_one_in(row->idle, i))
		send_to(1);
	if (is_one_in(row->to_others, i))
		send_to(2);
	cpu_ns += row->uses;
	do
		*now += WAIT_US * bl_ticks_per_us();
	while (!bl_migrate_may_look(apart(), *now));
	return bl_migrate_look(node.cq[0], whom, !is_one_in(row->elsewhere, i), *now);
}

static void is_pair(void **state)
{
	const struct pair_row *row = TABLE_ROW(struct pair_row, state);
	uint64_t now = bl_ticks(), began = now;
	bool goes = false, alone = false, is = false;

	begin();
	they_say(row->says == US ? name_of(0) : row->says == ANOTHER ? name_of(2) : 0);
	for (uint32_t i = 0; i < 20 * WINDOW; i++) {
		goes |= look(row, i, &now) == BL_MIGRATE_GO;
		assert_true(!goes || now - began >= MEASURE_US * bl_ticks_per_us());
		assert_true(says(0) == 0 || says(0) == name_of(1));
		alone |= says(0) != 0;
		is |= apart()->pair;
	}
	assert_int_equal(goes, row->goes);
	assert_int_equal(alone, row->alone);
	assert_int_equal(is, row->pair);
	end();
}

static const struct pair_row two = {{"two", "on one core"}, 0, 0, 0, 0, US, 5000, true, true, true};

/* What it has said is taken back at the first wait for somebody else, or for anybody. */
static void taken_back(void **state)
{
	uint64_t now = bl_ticks();

	(void)state;
	for (int whom = 0; whom < 2; whom++) {
		begin();
		they_say(name_of(0));
		for (uint32_t i = 0; i < WINDOW; i++)
			look(&two, i, &now);
		assert_int_equal(says(0), name_of(1));
		assert_true(apart()->pair);
		assert_int_equal(bl_migrate_look(node.cq[0], whom ? peer(2) : NULL, true, now),
				 BL_MIGRATE_REMAIN);
		assert_int_equal(says(0), 0);
		assert_false(apart()->pair);
		end();
	}
}

/* It goes, within so long. Returns the us until then. */
static uint64_t goes_after(uint64_t *now, uint64_t us)
{
	uint64_t began = *now;

	while ((*now - began) / bl_ticks_per_us() <= us)
		if (look(&two, 0, now) == BL_MIGRATE_GO) {
			number = bl_migrate_goes(apart(), *now);
			return (*now - began) / bl_ticks_per_us();
		}
	fail_msg("it stays");
	return 0;
}

#define SOON_US (MEASURE_US + 3 * WINDOW * 4 * WAIT_US) /* measured, and found out */

/* Twice as long until the next time, up to some seconds; after a longer while all begins anew. */
static void rarer(void **state)
{
	uint64_t now = bl_ticks(), again, most = (uint64_t)AGAIN_US << AGAIN_MOST;

	(void)state;
	begin();
	they_say(name_of(0));
	goes_after(&now, SOON_US);
	for (uint32_t i = 0; i < AGAIN_MOST + 2; i++) {
		apart()->each = 0; /* it isn't judged */
		again = (uint64_t)AGAIN_US << bl_min(i, AGAIN_MOST);
		assert_in_range(goes_after(&now, most + SOON_US), again - 1, again + SOON_US);
	}
	now += (2 * most + 1) * bl_ticks_per_us();
	apart()->each = 0;
	goes_after(&now, SOON_US);
	apart()->each = 0;
	assert_in_range(goes_after(&now, SOON_US + AGAIN_US), AGAIN_US - 1, AGAIN_US + SOON_US);
	end();
}

/* Nowhere to go, or not worth it: after some seconds once more. */
static void nowhere(void **state)
{
	uint64_t now = bl_ticks(), most = (uint64_t)AGAIN_US << AGAIN_MOST;

	(void)state;
	begin();
	they_say(name_of(0));
	goes_after(&now, SOON_US);
	bl_migrate_stays(apart(), now);
	assert_in_range(goes_after(&now, most + SOON_US), most - 1, most + SOON_US);
	end();
}

/* What a tick counter said before it began anew holds up nobody. */
static void clock_begins_anew(void **state)
{
	uint64_t now = bl_ticks();

	(void)state;
	begin();
	they_say(name_of(0));
	apart()->next = now + 2 * BL_TICKS_AHEAD;
	goes_after(&now, SOON_US);
	end();
}

struct worth_row {
	struct row row;
	uint32_t packets; /* at each look, where there were four before */
	bool otherwise;	  /* it waits for anybody now and then, ... */
	bool another;	  /* ... or for another from then on, ... */
	bool works;	  /* ... or works in between, ... */
	bool alone;	  /* ... or the other one talks with others */
	bool back;
};

static const struct worth_row worths[] = {
	{{"half of the time", "worth it"}, 8, false, false, false, false, false},
	{{"less than two thirds", "worth it"}, 7, false, false, false, false, false},
	{{"four fifths", "not worth it"}, 5, false, false, false, false, true},
	{{"as long as before", "not worth it"}, 4, false, false, false, false, true},
	{{"half of the time", "anybody now and then"}, 8, true, false, false, false, false},
	{{"as long as before", "anybody now and then"}, 4, true, false, false, false, true},
	{{"another partner", "it wasn't measured before"}, 4, false, true, false, false, false},
	{{"longer", "it works now"}, 2, false, false, true, false, false},
	{{"longer", "no pair any more"}, 2, false, false, false, true, false},
};

static void some_to(size_t i, uint32_t packets)
{
	while (packets--)
		send_to(i);
}

static void worth_it(void **state)
{
	const struct worth_row *row = TABLE_ROW(struct worth_row, state);
	uint64_t now = bl_ticks(), measured = 2 * MEASURE_US * bl_ticks_per_us(), went_at;
	const struct pair_row how = {.elsewhere = ALWAYS,
				     .awaits = row->another ? ALWAYS : 0,
				     .to_others = row->another ? ALWAYS : 0,
				     .uses = row->works ? 12001 * row->packets : 0};
	bool back = false, goes = false;

	begin();
	they_say(name_of(0));
	while (!goes) {
		some_to(1, 3);
		goes = look(&two, 0, &now) == BL_MIGRATE_GO;
	}
	bl_migrate_goes(apart(), now);
	went_at = now;
	if (row->another)
		atomic_store(&node.ep[2]->local.seg.header->partner, name_of(0));
	if (row->alone)
		they_say(0);
	for (uint32_t i = 0; i < 40 * WINDOW && !back; i++) {
		some_to(row->another ? 2 : 1, row->packets - 1);
		if (row->otherwise && i % (2 * WINDOW) == 3)
			bl_migrate_look(node.cq[0], NULL, false, now);
		back = look(&how, i, &now) == BL_MIGRATE_BACK;
		if (row->another)
			peer(1)->tx.next--; /* nothing for the first one */
		assert_true(!back || now - went_at >= measured);
	}
	assert_int_equal(back, row->back);
	end();
}

/* A pause isn't taken for long messages. */
static void pause_between(void **state)
{
	uint64_t now = bl_ticks();

	(void)state;
	begin();
	they_say(name_of(0));
	goes_after(&now, SOON_US);
	for (uint32_t i = 0; i < 20 * WINDOW; i++) {
		send_to(1);
		if (i % (2 * WINDOW) == 5)
			now += 1000000 * bl_ticks_per_us();
		assert_int_equal(look(&two, 0, &now), BL_MIGRATE_REMAIN);
	}
	end();
}

static void *look_once(void *now)
{
	assert_int_equal(bl_migrate_look(node.cq[0], peer(1), true, *(uint64_t *)now),
			 BL_MIGRATE_REMAIN);
	return NULL;
}

/* Another thread's looks say nothing of where this one runs. */
static void another_thread(void **state)
{
	uint64_t now = bl_ticks();
	pthread_t thread;

	(void)state;
	begin();
	they_say(name_of(0));
	goes_after(&now, SOON_US);
	assert_true(apart()->each);
	assert_int_equal(pthread_create(&thread, NULL, look_once, &now), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(apart()->each, 0);
	assert_false(apart()->pair);
	end();
}

/* Two that begin together don't take the same number of looks, nor go to the same core, but by
 * chance. */
static void not_both(void **state)
{
	bool seen[BL_MIGRATE_FEW + BL_MIGRATE_MORE] = {false};
	uint64_t now = bl_ticks();
	uint32_t different = 0, before = 0, numbers = 0;

	(void)state;
	begin();
	they_say(name_of(0));
	for (uint32_t i = 0; i < 64; i++) {
		struct bl_migrate *a = apart();

		for (a->same = 0; a->same < BL_MIGRATE_SAME;)
			look(&two, 0, &now);
		assert_in_range(a->enough, BL_MIGRATE_FEW, BL_MIGRATE_FEW + BL_MIGRATE_MORE - 1);
		different += !seen[a->enough];
		seen[a->enough] = true;
		now += 4321;
		number = bl_migrate_goes(a, now);
		numbers += number % 2 != before % 2;
		before = number;
		a->each = 0;
		while (bl_ticks() % 1024 < 512) /* another moment */
			;
	}
	assert_in_range(different, 5, BL_MIGRATE_MORE);
	assert_in_range(numbers, 10, 54);
	end();
}

/* Not at each so many waits: of two in turn that would be always the same one. */
static void irregular(void **state)
{
	struct bl_migrate a = {0};
	uint32_t before = 0, same = 0, looks = 0;
	uint64_t now = 0;

	(void)state;
	for (uint32_t i = 1; looks < 200; i++) {
		now += 5000;
		if (!bl_migrate_may_look(&a, now))
			continue;
		assert_true(!before || (i - before >= 3 && i - before <= 4));
		same += i % 2 == before % 2;
		before = i;
		looks++;
	}
	assert_in_range(same, 20, 180);
}

/* --- in a wait --------------------------------------------------------------------- */

struct part_row {
	struct row row;
	uint32_t turn;	 /* what the other says */
	bool anybody;	 /* a receive from anybody is posted */
	bool by_knob;	 /* FI_BEELINE_MIGRATE=never */
	bool on_our_own; /* the core isn't shared */
	bool parts;
};

static const struct part_row parts[] = {
	{{"runs here", "so it must stop for us"}, OUR_CORE, false, false, false, true},
	{{"left our core", "for us"}, LEFT_OURS, false, false, false, true},
	{{"runs elsewhere", "they are apart"}, ANOTHER_CORE, false, false, false, false},
	{{"left another", "they are apart"}, LEFT_ANOTHER, false, false, false, false},
	{{"never said anything", "it may be anywhere"}, 0, false, false, false, false},
	{{"anybody", "who that is isn't known"}, OUR_CORE, true, false, false, false},
	{{"never", "its user says so"}, OUR_CORE, false, true, false, false},
	{{"a core of our own", "nobody to part from"}, OUR_CORE + 1, false, false, true, false},
};

/* A message to it, and one back that isn't there at the first two reads. */
static void exchange(const struct part_row *what)
{
	static uint8_t to_it[8], from_it[8], received[8];
	struct bl_comp comp;
	uint32_t waits;

	node.ep[0]->watch.next_look = bl_ticks() + BL_TICKS_AHEAD;
	assert_int_equal(bl_recv_buf(node.ep[0], from_it, sizeof from_it,
				     what->anybody ? BL_ADDR_ANY : 1, 5, 0, NULL, NODE_FLAGS),
			 0);
	assert_int_equal(
		bl_recv_buf(node.ep[1], received, sizeof received, 0, 5, 0, NULL, NODE_FLAGS), 0);
	node_send(&node, 0, 1, to_it, sizeof to_it, 5, NULL, BL_TAGGED);
	node_completion(&node, 1, NULL);
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
	waits = apart()->until_look;
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
	assert_int_equal(apart()->until_look, waits); /* it is the same wait */
	if (went)
		return;
	node_send(&node, 1, 0, NULL, 0, 5, NULL, BL_TAGGED);
	node_completion(&node, 0, NULL);
	atomic_store(&node.ep[1]->local.seg.header->turn, what->turn);
}

static void part(void **state)
{
	const struct part_row *what = TABLE_ROW(struct part_row, state);
	struct bl_knobs *knobs = (struct bl_knobs *)(uintptr_t)bl_knobs();
	uint64_t began = bl_clock_ns(), most = what->parts ? 20000000000ull : 100000000ull;

	begin();
	they_say(name_of(0));
	node.cq[0]->crowd.until = what->on_our_own ? 0 : bl_ticks() + BL_TICKS_AHEAD;
	node.cq[0]->crowd.visit_every = 32;
	knobs->migrate = what->by_knob ? BL_MIGRATE_NEVER : BL_MIGRATE_AUTO;
	bl_oversub_return(node.cq[0]);
	atomic_store(&node.ep[1]->local.seg.header->turn, what->turn);
	while (!went && bl_clock_ns() - began < most)
		exchange(what);
	assert_int_equal(went, what->parts);
	assert_int_equal(returned, 0);
	if (what->by_knob)
		assert_int_equal(says(0), 0);
	if (what->parts)
		assert_int_equal(atomic_load(&node.ep[0]->local.seg.header->turn) & ~BL_TURN_AWAY,
				 goes_to + 1);
	knobs->migrate = BL_MIGRATE_AUTO;
	core = OUR_CORE - 1;
	node_close(&node);
}

/* Back to where the other one says that it is, which may be nowhere. */
static void goes_back(void **state)
{
	(void)state;
	begin();
	apart()->peer = peer(1);
	apart()->each = 1;
	atomic_store(&node.ep[1]->local.seg.header->turn, LEFT_ANOTHER);
	bl_oversub_go(node.cq[0], BL_MIGRATE_BACK, bl_ticks());
	assert_int_equal(went, 0);
	assert_int_equal(returned, 1);
	assert_int_equal(number, ANOTHER_CORE - 1);
	assert_int_equal(apart()->each, 0);
	assert_int_equal(atomic_load(&node.ep[0]->local.seg.header->turn), ANOTHER_CORE);
	core = OUR_CORE - 1;
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("pair", is_pair, pairs);
	TABLE_ROWS("worth", worth_it, worths);
	TABLE_ROWS("part", part, parts);
	TABLE_TEST(taken_back);
	TABLE_TEST(rarer);
	TABLE_TEST(nowhere);
	TABLE_TEST(clock_begins_anew);
	TABLE_TEST(goes_back);
	TABLE_TEST(pause_between);
	TABLE_TEST(another_thread);
	TABLE_TEST(not_both);
	TABLE_TEST(irregular);
	return table_run("pair_migrate");
}
