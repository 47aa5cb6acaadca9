/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pass_test.c: who passes on what it sends (core/pass.h): what samples of the time until the next
 * send say, and which sends are samples.
 */
#include <stdint.h>
#include <string.h>

#include "core/core.h"
#include "unit/node.h"

#define WINDOW	32u /* less than a ring has: nothing is read before all of it has been sent */
#define DECIDED (4 * BL_PASS_PAIRS * 64u / WINDOW) /* windows: twice as many as it takes */
#define SETTLED (DECIDED * (BL_PASS_REST + 1))	   /* once most samples are left out */

/* --- what they say ----------------------------------------------------------------- */

struct say_row {
	struct row row;
	bool before, after;
	uint8_t slower; /* so many pairs; the others aren't */
	uint8_t pairs;
	int32_t by; /* ns that those take longer */
};

static const struct say_row says[] = {
	{{"all", "a lock"}, false, true, 8, 8, 80},
	{{"none", "none"}, false, false, 0, 8, 80},
	{{"by just as much as it takes", "a lock"}, false, true, 8, 8, 30},
	{{"by less", "none"}, false, false, 8, 8, 29},
	{{"sooner", "none"}, false, false, 8, 8, -80},
	{{"most", "a lock"}, false, true, BL_PASS_MOST, 8, 80},
	{{"one less", "doubtful: as it was"}, false, false, BL_PASS_MOST - 1, 8, 80},
	{{"one less, and there was a lock", "as it was"}, true, true, BL_PASS_MOST - 1, 8, 80},
	{{"few", "no lock any more"}, true, false, BL_PASS_LEAST, 8, 80},
	{{"one more", "doubtful: as it was"}, true, true, BL_PASS_LEAST + 1, 8, 80},
	{{"too few to say", "not decided yet"}, false, false, 7, 7, 80},
};

static void say(struct bl_pass *pass, bool *locks, bool with, uint32_t ns)
{
	pass->with = with;
	bl_pass_judge(pass, ns, locks);
}

static void what_they_say(void **state)
{
	const struct say_row *row = TABLE_ROW(struct say_row, state);
	struct bl_pass pass = {.settled = true};
	bool locks = row->before;

	bl_pass_wait_ns = 30;
	for (int32_t i = 0; i < row->pairs; i++) {
		say(&pass, &locks, false, 100);
		say(&pass, &locks, true, (uint32_t)(100 + (i < row->slower ? row->by : 0)));
	}
	assert_int_equal(locks, row->after);
	assert_int_equal(pass.settled, row->before == row->after);
	assert_int_equal(pass.rest, BL_PASS_REST); /* it was before the last one */
	assert_int_equal(pass.pairs, row->pairs % BL_PASS_PAIRS);
}

/* A sample that was passed on is compared with one before it that wasn't, and each only once. */
static void only_pairs_count(void **state)
{
	struct bl_pass pass = {0};
	bool locks = false;

	(void)state;
	bl_pass_wait_ns = 30;
	for (unsigned i = 0; i < 8 * BL_PASS_PAIRS; i++)
		say(&pass, &locks, true, 200);
	assert_int_equal(pass.pairs, 0);
	say(&pass, &locks, false, 0); /* as quick as the clock can tell */
	say(&pass, &locks, true, 200);
	say(&pass, &locks, true, 200);
	assert_int_equal(pass.pairs, 1);
	assert_int_equal(pass.slower, 1);
	assert_int_equal(pass.rest, 0);
	assert_false(locks);
}

/* --- which ones are ---------------------------------------------------------------- */

static struct node node;

enum way { WINDOWS, BACK, READ_BETWEEN, EMPTY_BETWEEN, LATE, LOCKED };

struct which_row {
	struct row row;
	enum way way;
	bool seem_slow, learned;
};

static const struct which_row which[] = {
	{{"windows", "no lock is seen"}, WINDOWS, false, false},
	{{"windows and locks", "one is seen"}, WINDOWS, true, true},
	{{"a message and its answer", "who waits for it is passed it on"}, BACK, true, false},
	{{"a read in between", "took a time of its own"}, READ_BETWEEN, true, false},
	{{"one that found nothing", "that, too"}, EMPTY_BETWEEN, true, false},
	{{"the next one is late", "something else happened"}, LATE, true, false},
	{{"our own lock", "is known"}, LOCKED, false, true},
};

static void reply(size_t from, size_t to)
{
	node_send(&node, from, to, NULL, 0, 1, NULL, BL_TAGGED);
	assert_int_equal(bl_recv_buf(node.ep[to], NULL, 0, from, 1, 0, NULL, NODE_FLAGS), 0);
	node_completion(&node, to, NULL);
}

static void window(enum way way)
{
	for (unsigned i = 0; i < WINDOW; i++) {
		assert_int_equal(bl_inject(node.ep[0], NULL, 0, 1, 1, 0, BL_TAGGED), 0);
		if (way == READ_BETWEEN && node.ep[0]->sampled)
			reply(1, 0);
		else if (way == EMPTY_BETWEEN && node.ep[0]->sampled)
			node_expect_nothing(&node, 0);
		else if (way == BACK) {
			assert_int_equal(
				bl_recv_buf(node.ep[1], NULL, 0, 0, 1, 0, NULL, NODE_FLAGS), 0);
			node_completion(&node, 1, NULL);
			reply(1, 0);
		}
	}
	for (unsigned i = 0; way != BACK && i < WINDOW; i++) {
		assert_int_equal(bl_recv_buf(node.ep[1], NULL, 0, 0, 1, 0, NULL, NODE_FLAGS), 0);
		node_completion(&node, 1, NULL);
	}
}

static void open_node(enum way way)
{
	node_open(&node, 2);
	for (size_t i = 0; i < 2 && way == LOCKED; i++) {
		bl_domain_locks(node.domain);
		node.ep[i]->locks = true; /* as of one that is opened after that */
	}
}

static void which_ones_are(void **state)
{
	const struct which_row *row = TABLE_ROW(struct which_row, state);
	struct bl_pass *pass;
	struct bl_tx *tx;
	unsigned samples = 0, pairs = 0;

	bl_pass_wait_ns = row->seem_slow ? INT32_MIN : INT32_MAX;
	bl_pass_long_ns = row->way == LATE ? 0 : UINT32_MAX;
	open_node(row->way);
	pass = &node.ep[0]->pass;
	tx = &node.ep[0]->dest[1]->tx;
	for (unsigned i = 0; i < DECIDED; i++) {
		window(row->way);
		samples += pass->began != 0;
		pairs += pass->pairs;
		pass->began = 0;
	}
	assert_int_equal(node.ep[0]->locks, row->learned);
	assert_int_equal(samples != 0, row->way != BACK && row->way != LOCKED);
	assert_int_equal(pairs != 0, row->way == WINDOWS);
	assert_int_equal(bl_passes(node.ep[0], tx), row->way == BACK || !row->learned);
	node_close(&node);
}

/* It was one way, and is the other: it is learned again, though most samples are left out. */
static void it_may_change(void **state)
{
	(void)state;
	bl_pass_long_ns = UINT32_MAX;
	open_node(WINDOWS);
	for (unsigned turn = 0; turn < 3; turn++) {
		bl_pass_wait_ns = turn % 2 ? INT32_MAX : INT32_MIN;
		for (unsigned i = 0; i < SETTLED; i++)
			window(WINDOWS);
		assert_int_equal(node.ep[0]->locks, !(turn % 2));
		assert_true(node.ep[0]->pass.settled);
	}
	reply(1, 0);
	assert_false(bl_passes(node.ep[0], &node.ep[0]->dest[1]->tx));
	for (unsigned i = 0; i < 4; i++) { /* but who waits for it is passed it on */
		reply(0, 1);
		reply(1, 0);
	}
	assert_true(bl_passes(node.ep[0], &node.ep[0]->dest[1]->tx));
	node_close(&node);
}

/* No place in windows of 64 is left out, and none has all of them. */
static void places_move(void **state)
{
	unsigned at[BL_SLOTS] = {0};
	struct bl_tx tx = {0};

	(void)state;
	for (tx.next = 0; tx.next < BL_SLOTS * BL_SLOTS; tx.next++)
		at[tx.next % BL_SLOTS] += bl_pass_due(&tx);
	for (unsigned i = 0; i < BL_SLOTS; i++)
		assert_int_equal(at[i], 1);
}

/* An endpoint of a domain whose user locks knows that, and no other does. */
static void a_domain_says(void **state)
{
	struct bl_domain *domain;
	struct bl_ep *before, *after;

	(void)state;
	assert_int_equal(bl_domain_open(&domain), 0);
	assert_int_equal(bl_ep_open(domain, &before), 0);
	bl_domain_locks(domain);
	assert_int_equal(bl_ep_open(domain, &after), 0);
	assert_false(before->locks);
	assert_true(after->locks);
	assert_int_equal(bl_ep_close(before), 0);
	assert_int_equal(bl_ep_close(after), 0);
	assert_int_equal(bl_domain_close(domain), 0);
}

int main(void)
{
	setenv("FI_BEELINE_SPIN", "0", 1); /* both ends belong to one thread */
	TABLE_ROWS("says", what_they_say, says);
	TABLE_ROWS("which", which_ones_are, which);
	TABLE_TEST(only_pairs_count);
	TABLE_TEST(it_may_change);
	TABLE_TEST(places_move);
	TABLE_TEST(a_domain_says);
	return table_run("pass");
}
