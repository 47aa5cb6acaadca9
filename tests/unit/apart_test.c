/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * apart_test.c: who counts as a pair, and which one of it goes to another core, and when
 * (core/apart.h). We are endpoint 0; what it sends is only said here.
 */
#include "core/apart.h"
#include "unit/node.h"

#define OUR_CORE     8 /* it counts from 1 here */
#define ANOTHER_CORE 9
#define LEFT_OURS    (OUR_CORE | BL_TURN_AWAY)
#define LEFT_ANOTHER (ANOTHER_CORE | BL_TURN_AWAY)

int __wrap_bl_place_elsewhere(uint32_t number);
int __wrap_sched_getcpu(void);

static int core = OUR_CORE - 1;
static int went;
static int goes_to; /* the number of a core, or an error */

int __wrap_bl_place_elsewhere(uint32_t number)
{
	(void)number;
	went++;
	if (goes_to >= 0)
		core = goes_to;
	return goes_to;
}

int __wrap_sched_getcpu(void)
{
	return core;
}

#define WINDOW (BL_APART_SAME + BL_APART_FEW + BL_APART_MORE) /* looks: more than any takes */
#define FEWEST (BL_APART_SAME + BL_APART_FEW)

static struct node node;
static uint32_t sent[3]; /* to each, before the test */

static struct bl_peer *peer(size_t i)
{
	return node.ep[0]->dest[i];
}

static void send_to(size_t i)
{
	peer(i)->tx.next++;
}

static struct bl_apart *apart(void)
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
	went = 0;
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
	uint32_t vain;	    /* one in so many looks gains nothing; 0: none */
	uint32_t idle;	    /* nothing was sent before one in so many looks; 0: never */
	enum says says;
	uint64_t us; /* from one look to the next */
	bool alone;  /* we say that we talk with it alone */
	bool pair;
	bool goes;
};

#define NEVER 1u /* each look gains nothing */

static const struct pair_row pairs[] = {
	{{"two", "on one core"}, 0, 0, 0, 0, US, 5, true, true, true},
	{{"two", "on two"}, 0, 0, NEVER, 0, US, 5, true, true, false},
	{{"two", "mostly on two"}, 0, 0, 2, 0, US, 5, true, true, false},
	{{"two", "mostly on one"}, 0, 0, 16, 0, US, 5, true, true, true},
	{{"two", "who compute in between"}, 0, 0, 0, 0, US, 10000, true, true, false},
	{{"a leaf", "of a tree, whose root has others"}, 0, 0, 0, 0, NOBODY, 5, true, false, false},
	{{"a leaf", "whose root talks with another"}, 0, 0, 0, 0, ANOTHER, 5, true, false, false},
	{{"a root", "whose leaves say that they are two"}, 2, 0, 0, 0, US, 5, false, false, false},
	{{"an eighth", "goes to others"}, 7, 0, 0, 0, US, 5, false, false, false},
	{{"hardly any", "goes to others"}, 40, 0, 0, 0, US, 5, true, true, true},
	{{"two in turn", "that we wait for"}, 0, 2, 0, 0, US, 5, false, false, false},
	{{"another", "that we wait for, now and then"}, 0, 8, 0, 0, US, 5, false, false, false},
	{{"who only listens", "sends nothing"}, 0, 0, 0, NEVER, US, 5, false, false, false},
	{{"who mostly listens", "sends little"}, 0, 0, 0, 2, US, 5, false, false, false},
};

static bool is_one_in(uint32_t so_many, uint32_t i)
{
	return so_many && i % so_many == so_many - 1;
}

/* The next look after `us`. */
static bool look(const struct pair_row *row, uint32_t i, uint64_t *now)
{
	const struct bl_peer *whom = is_one_in(row->awaits, i) ? peer(2) : peer(1);

	if (!is_one_in(row->idle, i))
		send_to(1);
	if (is_one_in(row->to_others, i))
		send_to(2);
	*now += row->us * bl_ticks_per_us();
	return bl_apart_look(node.cq[0], whom, !is_one_in(row->vain, i), *now);
}

static void is_pair(void **state)
{
	const struct pair_row *row = TABLE_ROW(struct pair_row, state);
	uint64_t now = bl_ticks();
	bool goes = false, alone = false, is = false;

	begin();
	they_say(row->says == US ? name_of(0) : row->says == ANOTHER ? name_of(2) : 0);
	for (uint32_t i = 0; i < 2 * WINDOW; i++) {
		goes |= look(row, i, &now);
		assert_true(!goes || i + 1 >= FEWEST);
		assert_true(says(0) == 0 || says(0) == name_of(1));
		alone |= says(0) != 0;
		is |= apart()->pair;
	}
	assert_int_equal(goes, row->goes);
	assert_int_equal(alone, row->alone);
	assert_int_equal(is, row->pair);
	end();
}

static const struct pair_row two = {{"two", "on one core"}, 0, 0, 0, 0, US, 5, true, true, true};

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
		assert_false(bl_apart_look(node.cq[0], whom ? peer(2) : NULL, true, now));
		assert_int_equal(says(0), 0);
		assert_false(apart()->pair);
		end();
	}
}

/* Ticks until it goes, which it does within so many looks. */
static uint64_t goes_after(uint64_t *now, uint32_t looks)
{
	uint64_t began = *now;

	for (uint32_t i = 0; i < looks; i++)
		if (look(&two, i, now)) {
			bl_apart_go(apart(), *now);
			return *now - began;
		}
	fail_msg("it stays");
	return 0;
}

#define AGAIN_US 20000u
#define AGAIN	 6u

/* Twice as long until the next time, up to a second or so; after a longer while all begins anew. */
static void rarer(void **state)
{
	uint64_t now = bl_ticks(), us = bl_ticks_per_us(), again, looks = WINDOW * two.us;

	(void)state;
	begin();
	they_say(name_of(0));
	goes_after(&now, WINDOW);
	for (uint32_t i = 0; i < AGAIN + 2; i++) {
		again = (uint64_t)AGAIN_US << bl_min(i, AGAIN);
		assert_in_range(goes_after(&now, 1000000) / us, again - 1, again + looks);
	}
	now += (2ull * AGAIN_US << AGAIN) * us + 1;
	goes_after(&now, 2 * WINDOW);
	assert_in_range(goes_after(&now, 1000000) / us, AGAIN_US - 1, AGAIN_US + looks);
	assert_int_equal(went, 1 + AGAIN + 2 + 2);
	end();
}

/* Nowhere to go: no look at it but once in a second or so. */
static void nowhere(void **state)
{
	uint64_t now = bl_ticks(), us = bl_ticks_per_us(), rarely = (uint64_t)AGAIN_US << AGAIN;

	(void)state;
	begin();
	goes_to = -1;
	they_say(name_of(0));
	goes_after(&now, WINDOW);
	assert_in_range(goes_after(&now, 1000000) / us, rarely - 1, rarely + WINDOW * two.us);
	end();
}

/* Two that begin together don't take the same number of looks, or not again and again. */
static void not_both(void **state)
{
	uint64_t now = bl_ticks();
	bool differ = false;

	(void)state;
	begin();
	they_say(name_of(0));
	for (uint32_t first = 0, i = 0; i < 64 && !differ; i++) {
		struct bl_apart *a = apart();

		for (a->same = 0; a->same < BL_APART_SAME;)
			look(&two, 0, &now);
		assert_in_range(a->enough, BL_APART_FEW, BL_APART_FEW + BL_APART_MORE - 1);
		first = first ? first : a->enough;
		differ = a->enough != first;
	}
	assert_true(differ);
	end();
}

/* Not at each so many waits: of two in turn that would be always the same one. */
static void irregular(void **state)
{
	struct bl_apart a = {0};
	uint32_t before = 0, same = 0, looks = 0;
	uint64_t now = 0;

	(void)state;
	for (uint32_t i = 1; looks < 200; i++) {
		now += 5000;
		if (!bl_apart_may_look(&a, now))
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
	size_t out, in;	 /* bytes that we send, and post a receive for */
	bool anybody;	 /* that is from anybody */
	bool by_knob;	 /* FI_BEELINE_APART=never */
	bool on_our_own; /* the core isn't shared */
	bool parts;
};

static const struct part_row parts[] = {
	{{"runs here", "so it must stop for us"}, OUR_CORE, 8, 8, false, false, false, true},
	{{"left our core", "for us"}, LEFT_OURS, 8, 8, false, false, false, true},
	{{"runs elsewhere", "they are apart"}, ANOTHER_CORE, 8, 8, false, false, false, false},
	{{"left another", "they are apart"}, LEFT_ANOTHER, 8, 8, false, false, false, false},
	{{"never said anything", "it may be anywhere"}, 0, 8, 8, false, false, false, false},
	{{"the longest", "that gain"}, OUR_CORE, 8192, 8192, false, false, false, true},
	{{"longer ones", "to it"}, OUR_CORE, 8193, 8, false, false, false, false},
	{{"longer ones", "from it, perhaps"}, OUR_CORE, 8, 8193, false, false, false, false},
	{{"anybody", "who that is isn't known"}, OUR_CORE, 8, 8, true, false, false, false},
	{{"never", "its user says so"}, OUR_CORE, 8, 8, false, true, false, false},
	{{"a core of our own", "nobody to part from"}, OUR_CORE, 8, 8, false, false, true, false},
};

/* A message to it, and one back that isn't there at the first read. */
static void exchange(const struct part_row *what)
{
	static uint8_t to_it[8193], from_it[8193], received[8193];
	struct bl_comp comp;

	node.ep[0]->next_look = bl_ticks() + BL_TICKS_AHEAD;
	assert_int_equal(bl_recv_buf(node.ep[0], from_it, what->in, what->anybody ? BL_ADDR_ANY : 1,
				     5, 0, NULL, NODE_FLAGS),
			 0);
	assert_int_equal(
		bl_recv_buf(node.ep[1], received, sizeof received, 0, 5, 0, NULL, NODE_FLAGS), 0);
	node_send(&node, 0, 1, to_it, what->out, 5, NULL, BL_TAGGED);
	node_completion(&node, 1, NULL);
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
	node_send(&node, 1, 0, NULL, 0, 5, NULL, BL_TAGGED);
	node_completion(&node, 0, NULL);
	atomic_store(&node.ep[1]->local.seg.header->turn, what->turn);
}

static void part(void **state)
{
	const struct part_row *what = TABLE_ROW(struct part_row, state);
	struct bl_knobs *knobs = (struct bl_knobs *)(uintptr_t)bl_knobs();

	begin();
	they_say(name_of(0));
	node.cq[0]->crowd.until = what->on_our_own ? 0 : bl_ticks() + BL_TICKS_AHEAD;
	node.cq[0]->crowd.visit_every = 32;
	knobs->apart = what->by_knob ? BL_APART_NEVER : BL_APART_AUTO;
	bl_crowd_return(node.cq[0]);
	atomic_store(&node.ep[1]->local.seg.header->turn, what->turn);
	for (int i = 0; i < 2000 && !went; i++)
		exchange(what);
	assert_int_equal(went, what->parts);
	if (what->parts)
		assert_int_equal(atomic_load(&node.ep[0]->local.seg.header->turn) & ~BL_TURN_AWAY,
				 goes_to + 1);
	knobs->apart = BL_APART_AUTO;
	core = OUR_CORE - 1;
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("pair", is_pair, pairs);
	TABLE_ROWS("part", part, parts);
	TABLE_TEST(taken_back);
	TABLE_TEST(rarer);
	TABLE_TEST(nowhere);
	TABLE_TEST(not_both);
	TABLE_TEST(irregular);
	return table_run("apart");
}
