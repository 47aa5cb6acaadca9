/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * demote_test.c: who passes on what it sends (transport/local/adapt/demote.h): what samples of the
 * time until the next send say, which sends are samples, and what is passed on then.
 */
#include <stdint.h>
#include <string.h>

#include "base/window.h"
#include "endpoint/api.h"
#include "endpoint/rma.h"
#include "unit/node.h"

#define SAYS	      (2 * BL_DEMOTE_PAIRS * 65u) /* sends until something is said, at first; */
#define SURE	      (SAYS * (BL_DEMOTE_REST + 2) / 2) /* once one is sure; */
#define TURNS	      (2 * SURE + 4 * SAYS)		/* until one believes the contrary */
#define LAP	      BL_SLOTS /* sends, one or two of which may be samples */
#define ANY_OF(count) assert_in_range(count, 0, 2)
#define ALL_OF(count) assert_in_range(count, LAP - 2, LAP)

static unsigned passed, passed_payload;

void bl_window(enum bl_window window, void *what)
{
	if (window == BL_WINDOW_PASSED)
		++*(what ? &passed_payload : &passed);
}

/* --- what they say ----------------------------------------------------------------- */

#define WAIT 30

struct say_row {
	struct row row;
	bool locks, sure; /* before */
	uint8_t slower;	  /* so many pairs; the others aren't */
	uint8_t pairs;
	int32_t by; /* ns that those take longer */
	bool locks_then, sure_then;
};

static const struct say_row says[] = {
	{{"all, at first", "a lock"}, false, false, 8, 8, 80, true, false},
	{{"none, at first", "none: one is sure"}, false, false, 0, 8, 80, false, true},
	{{"all, once more", "one is sure"}, true, false, 8, 8, 80, true, true},
	{{"all, against what was sure", "it isn't any more"}, false, true, 8, 8, 80, false, false},
	{{"none, against what was sure", "it isn't any more"}, true, true, 0, 8, 80, true, false},
	{{"none, once more", "it is the contrary"}, true, false, 0, 8, 80, false, false},
	{{"by as much as it takes", "a lock"}, false, false, 8, 8, WAIT, true, false},
	{{"by less", "none"}, false, false, 8, 8, WAIT - 1, false, true},
	{{"sooner", "none"}, false, false, 8, 8, -80, false, true},
	{{"most", "a lock"}, false, false, BL_DEMOTE_MOST, 8, 80, true, false},
	{{"one less than most", "says nothing"},
	 false,
	 true,
	 BL_DEMOTE_MOST - 1,
	 8,
	 80,
	 false,
	 true},
	{{"the same of a lock", "says nothing"}, true, true, BL_DEMOTE_MOST - 1, 8, 80, true, true},
	{{"few", "no lock"}, true, false, BL_DEMOTE_LEAST, 8, 80, false, false},
	{{"one more than few", "says nothing"},
	 true,
	 false,
	 BL_DEMOTE_LEAST + 1,
	 8,
	 80,
	 true,
	 false},
	{{"one pair less", "says nothing yet"}, false, false, 7, 7, 80, false, false},
};

static void sample(struct bl_demote *pass, bool *locks, uint32_t without, uint32_t with)
{
	pass->with = bl_demote_with(pass);
	bl_demote_judge(pass, pass->with ? with : without, locks);
}

static void what_they_say(void **state)
{
	const struct say_row *row = TABLE_ROW(struct say_row, state);
	struct bl_demote pass = {.sure = row->sure};
	bool locks = row->locks;

	bl_demote_wait_ns = WAIT;
	for (int32_t i = 0; i < row->pairs; i++) {
		uint32_t with = (uint32_t)(100 + (i < row->slower ? row->by : 0));

		bool first = bl_demote_with(&pass);

		sample(&pass, &locks, 100, with);
		assert_int_equal(bl_demote_with(&pass), !first);
		pass.rest = 77; /* whatever it was: not within a pair */
		sample(&pass, &locks, 100, with);
	}
	assert_int_equal(locks, row->locks_then);
	assert_int_equal(pass.sure, row->sure_then);
	assert_int_equal(pass.pairs, row->pairs);
	assert_int_equal(pass.rest, row->sure_then ? BL_DEMOTE_REST : 0);
}

/* Some of each so many samples take longer, for whatever reason: that is no lock, or not for long.
 */
#define MANY 3000u

static void no_pattern_fools(void **state)
{
	(void)state;
	bl_demote_wait_ns = WAIT;
	for (unsigned period = 1; period <= 8; period++) {
		for (unsigned slow = 0; slow < 1u << period; slow++) {
			struct bl_demote pass = {0};
			unsigned wrong = 0;
			bool locks = false;

			for (unsigned i = 0; i < MANY; i++) {
				uint32_t ns = slow >> i % period & 1 ? 400 : 100;

				if (pass.rest)
					pass.rest--;
				else
					sample(&pass, &locks, ns, ns);
				wrong += locks;
			}
			if (wrong > MANY / 10)
				fail_msg("%#x of %u", slow, period);
		}
	}
}

/* As quick as the clock can tell is a time, too. */
static void no_time(void **state)
{
	struct bl_demote pass = {0};
	bool locks = false;

	(void)state;
	bl_demote_wait_ns = WAIT;
	sample(&pass, &locks, 0, 0);
	sample(&pass, &locks, 0, 0);
	assert_int_equal(pass.pairs, 1);
	assert_int_equal(pass.slower, 0);
}

/* Between what a send takes with a lock behind it and without one; and less than a wait. */
static void as_shipped(void **state)
{
	(void)state;
	assert_in_range(bl_demote_wait_ns, 15, 60);
	assert_in_range(bl_demote_long_ns, 400, 2000);
}

/* --- which ones are, and what is passed on ----------------------------------------- */

static struct node node;
static uint8_t bytes[8192], into[8192];

enum way { WINDOWS, CROSS, BACK, READ_BETWEEN, EMPTY_BETWEEN, LATE, LOCKED, TOLD };

struct which_row {
	struct row row;
	enum way way;
	size_t len;
	bool seem_slow, learned;
};

static const struct which_row which[] = {
	{{"windows", "no lock is seen"}, WINDOWS, 0, false, false},
	{{"windows and locks", "one is seen"}, WINDOWS, 0, true, true},
	{{"lines behind the first", "the same"}, WINDOWS, 200, true, true},
	{{"payload", "the same"}, WINDOWS, 300, true, true},
	{{"payload, no lock", "none of it is"}, WINDOWS, 300, false, false},
	{{"payload that crosses", "the same"}, CROSS, 300, true, true},
	{{"payload that crosses, no lock", "none is seen"}, CROSS, 300, false, false},
	{{"long payload that does", "none of it is"}, CROSS, 600, false, false},
	{{"long payload", "the same"}, WINDOWS, 4096, true, true},
	{{"long payload, no lock", "none is seen"}, WINDOWS, 4096, false, false},
	{{"to be told of", "the same"}, TOLD, 8, true, true},
	{{"to be told of, no lock", "none is seen"}, TOLD, 8, false, false},
	{{"a message and its answer", "who waits for it is passed it on"}, BACK, 0, true, false},
	{{"a read in between", "took a time of its own"}, READ_BETWEEN, 0, true, false},
	{{"one that found nothing", "that, too"}, EMPTY_BETWEEN, 0, true, false},
	{{"the next one is late", "something else happened"}, LATE, 0, true, false},
	{{"our own lock", "is known"}, LOCKED, 0, false, true},
	{{"our own lock, long payload", "is known"}, LOCKED, 4096, false, true},
};

static void take(size_t from, size_t to)
{
	assert_int_equal(bl_recv_buf(node.ep[to], into, sizeof into, from, 1, 0, NULL, NODE_FLAGS),
			 0);
	node_completion(&node, to, NULL);
}

static void reply(size_t from, size_t to)
{
	node_send(&node, from, to, NULL, 0, 1, NULL, BL_TAGGED);
	take(from, to);
}

static void send_one(enum way way, size_t len)
{
	struct iovec iov = {bytes, len};
	struct bl_send told = {&iov, 1, 1, 1, 0, NULL, NODE_FLAGS | BL_DELIVERY_COMPLETE, NULL};

	if (way == TOLD)
		assert_int_equal(bl_send(node.ep[0], &told), 0);
	else
		assert_int_equal(bl_send_buf(node.ep[0], bytes, len, 1, 1, 0, NULL, BL_TAGGED), 0);
}

/* So many sends, in windows in which nothing is read. */
static void send_all(enum way way, size_t len, unsigned sends)
{
	unsigned window = way == BACK ? 1 : len > BL_SLOT_INLINE ? 8 : 32; /* of the ring's 64 */

	for (unsigned sent = 0; sent < sends; sent += window) {
		if (way == CROSS)
			reply(1, 0);
		for (unsigned i = 0; i < window; i++) {
			unsigned before = passed + passed_payload;

			send_one(way, len);
			if (node.ep[0]->demoting.sampled) /* all of it, or nothing */
				assert_int_equal(passed + passed_payload - before,
						 node.ep[0]->demote.with);
			if (way == READ_BETWEEN && node.ep[0]->demoting.sampled)
				reply(1, 0);
			else if (way == EMPTY_BETWEEN && node.ep[0]->demoting.sampled)
				node_expect_nothing(&node, 0);
		}
		for (unsigned i = 0; i < window; i++)
			take(0, 1);
		for (unsigned i = 0; way == TOLD && i < window; i++)
			node_completion(&node, 0, NULL);
		if (way == BACK)
			reply(1, 0);
	}
}

static void open_node(enum way way)
{
	node_open(&node, 2);
	for (size_t i = 0; i < 2 && way == LOCKED; i++) {
		bl_domain_locks(node.domain);
		node.ep[i]->demoting.locks = true; /* as of one that is opened after that */
	}
}

static void which_ones_are(void **state)
{
	const struct which_row *row = TABLE_ROW(struct which_row, state);
	bool judged = row->way == WINDOWS || row->way == CROSS || row->way == TOLD;
	const struct bl_demote *pass;

	bl_demote_wait_ns = row->seem_slow ? INT32_MIN : INT32_MAX;
	bl_demote_long_ns = row->way == LATE ? 0 : UINT32_MAX;
	open_node(row->way);
	pass = &node.ep[0]->demote;
	send_all(row->way, row->len, 3 * SAYS);
	assert_int_equal(node.ep[0]->demoting.locks, row->learned);
	assert_int_equal(pass->began != 0, row->way != BACK && row->way != LOCKED);
	assert_int_equal(pass->sure, judged);
	passed = passed_payload = 0;
	send_all(row->way, row->len, LAP);
	if (row->way == TOLD)
		passed -= LAP; /* what tells of them */
	else if (row->way == CROSS)
		passed -= LAP / 8; /* what crosses */
	if (row->way == BACK)
		assert_int_equal(passed, 2 * LAP);
	else if (row->way == LOCKED)
		assert_int_equal(passed, 0);
	else if (row->way != READ_BETWEEN && row->learned)
		ANY_OF(passed);
	else if (row->way != READ_BETWEEN)
		ALL_OF(passed);
	assert_int_equal(passed_payload != 0,
			 row->way == CROSS && row->len == 300 && !row->learned);
	node_close(&node);
}

/* It was one way, and is the other: it is learned again, though most samples are left out. */
static void it_may_change(void **state)
{
	(void)state;
	bl_demote_long_ns = UINT32_MAX;
	open_node(WINDOWS);
	for (unsigned turn = 0; turn < 3; turn++) {
		bl_demote_wait_ns = turn % 2 ? INT32_MAX : INT32_MIN;
		send_all(WINDOWS, 0, TURNS);
		assert_int_equal(node.ep[0]->demoting.locks, !(turn % 2));
		assert_true(node.ep[0]->demote.sure);
	}
	for (unsigned i = 0; i < 4; i++) { /* but who waits for it is passed it on */
		reply(0, 1);
		reply(1, 0);
	}
	passed = 0;
	for (unsigned i = 0; i < LAP; i++) {
		reply(0, 1);
		reply(1, 0);
	}
	assert_int_equal(passed, 2 * LAP);
	node_close(&node);
}

/* Once one is sure, two of eighteen that might be samples are. */
static void few_once_sure(void **state)
{
	unsigned samples = 0;

	(void)state;
	bl_demote_wait_ns = INT32_MAX;
	bl_demote_long_ns = UINT32_MAX;
	open_node(WINDOWS);
	send_all(WINDOWS, 0, 3 * SAYS);
	assert_true(node.ep[0]->demote.sure);
	for (unsigned i = 0; i < (BL_DEMOTE_REST + 2) * 65; i++) {
		send_one(WINDOWS, 0);
		samples += node.ep[0]->demoting.sampled;
		take(0, 1);
		/* what was read in between: as if it had not been */
		node.ep[0]->demote.reads =
			node.ep[0]->bound.rx_cq->full + node.ep[0]->bound.rx_cq->last_empty +
			node.ep[0]->bound.tx_cq->full + node.ep[0]->bound.tx_cq->last_empty;
	}
	assert_in_range(samples, 2, 4);
	node_close(&node);
}

static void to_a_sample(void)
{
	while (!node.ep[0]->demoting.sampled) {
		reply(0, 1);
		bl_tx_hear(&node.ep[0]->dest[1]->tx, 0); /* no dialogue */
	}
}

/* It takes as long as it takes; and who talks takes no rest from that. */
static void how_long(void **state)
{
	struct bl_demote *pass;
	uint64_t until;

	(void)state;
	bl_demote_long_ns = UINT32_MAX;
	open_node(WINDOWS);
	pass = &node.ep[0]->demote;
	send_all(WINDOWS, 0, LAP);
	for (unsigned i = 0; !node.ep[0]->demoting.sampled; i++) {
		assert_in_range(i, 0, 2 * LAP);
		send_one(WINDOWS, 0);
		take(0, 1);
	}
	until = bl_clock_ns() + 1000000;
	while (bl_clock_ns() < until)
		;
	send_one(WINDOWS, 0);
	assert_in_range(pass->took[pass->with], 1000000, UINT32_MAX);
	take(0, 1);
	for (unsigned i = 0; i < 4; i++) {
		reply(1, 0);
		reply(0, 1);
	}
	pass->rest = 9;
	for (unsigned i = 0; i < 4 * LAP; i++) {
		reply(1, 0);
		reply(0, 1);
	}
	assert_int_equal(pass->rest, 9);
	node_close(&node);
}

/* A sample ends where anything else is sent. */
static void anything_ends_it(void **state)
{
	static uint8_t large[1 << 20];
	struct iovec iov = {large, sizeof large};
	struct bl_send send = {&iov, 1, 1, 1, 0, NULL, NODE_FLAGS, NULL};
	struct bl_rma nothing = {.niov = BL_RMA_IOV_MAX + 1};

	(void)state;
	bl_demote_long_ns = UINT32_MAX;
	open_node(WINDOWS);
	for (unsigned i = 0; i < 2; i++) {
		to_a_sample();
		if (i == 0) {
			assert_int_equal(bl_send(node.ep[0], &send), 0);
			assert_int_equal(bl_recv_buf(node.ep[1], large, sizeof large, 0, 1, 0, NULL,
						     NODE_FLAGS),
					 0);
		} else {
			assert_int_equal(bl_rma(node.ep[0], &nothing), -EINVAL);
		}
		assert_false(node.ep[0]->demoting.sampled);
		if (i == 0) {
			node_completion(&node, 1, NULL);
			node_completion(&node, 0, NULL);
		}
	}
	node_close(&node);
}

/* No place in windows of 64 is left out, and none has all of them. */
static void places_move(void **state)
{
	unsigned at[BL_SLOTS] = {0};
	struct bl_tx tx = {0};

	(void)state;
	for (tx.next = 0; tx.next < BL_SLOTS * BL_SLOTS; tx.next++)
		at[tx.next % BL_SLOTS] += bl_demote_due(&tx);
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
	assert_false(before->demoting.locks);
	assert_true(after->demoting.locks);
	assert_int_equal(bl_ep_close(before), 0);
	assert_int_equal(bl_ep_close(after), 0);
	assert_int_equal(bl_domain_close(domain), 0);
}

int main(void)
{
	setenv("FI_BEELINE_SPIN", "0", 1); /* both ends belong to one thread */
	bl_tx_far_ns = UINT32_MAX;	   /* which are near each other, however slow the clock */
	TABLE_TEST(as_shipped);
	TABLE_ROWS("says", what_they_say, says);
	TABLE_TEST(no_pattern_fools);
	TABLE_TEST(no_time);
	TABLE_ROWS("which", which_ones_are, which);
	TABLE_TEST(it_may_change);
	TABLE_TEST(few_once_sure);
	TABLE_TEST(how_long);
	TABLE_TEST(anything_ends_it);
	TABLE_TEST(places_move);
	TABLE_TEST(a_domain_says);
	return table_run("demote");
}
