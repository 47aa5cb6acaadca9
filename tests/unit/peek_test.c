/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * peek_test.c: a look for a message that has no receive (FI_PEEK) and isn't there: whether it polls
 * a while, as the first read of a wait does, and what that finds. What a look says of what is
 * there, tests/process/peek.c shows.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "endpoint/api.h"
#include "transport/local/ways/rndv.h"
#include "endpoint/srx.h"
#include "unit/node.h"

#define TAG	   7
#define DEADLINE_S 20

static struct node node;
static int others; /* completions that a look has met */

/* Endpoint 0 looks for TAG of anybody. */
static bool look(bool tagged)
{
	uint64_t kind = tagged ? BL_TAGGED : BL_MSG;
	const struct bl_recv recv = {
		.src = BL_ADDR_ANY,
		.tag = TAG,
		.context = &node,
		.flags = kind | BL_PEEK | BL_COMPLETION,
	};
	struct bl_comp comp;
	struct bl_comp_err err;
	ssize_t n;

	assert_int_equal(bl_recv(node.ep[0], &recv), 0);
	for (others = 0;; others++) {
		n = bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL);
		if (n != 1 || comp.context == &node)
			break;
	}
	if (n == 1)
		return true;
	assert_int_equal(n, -BL_EAVAIL);
	assert_int_equal(bl_cq_readerr(node.cq[0], &err), 1);
	assert_int_equal(err.err, ENOMSG);
	return false;
}

/* --- whether it polls ---------------------------------------------------------------- */

#define MOST BL_SPIN_CREDIT_MOST
#define LESS (BL_SPIN_CREDIT_MOST - BL_SPIN_CREDIT_VAIN)

enum state { ALONE, SHARED_CORE, COPIES, HAS_COMPLETION };

struct row_of_looks {
	struct row row;
	enum state state;
	uint32_t luck, waits;
	const char *looks; /* in vain; +: a read that brings something before */
	uint32_t after;	   /* luck */
	uint32_t begun;	   /* waits */
	bool other;	   /* looks for messages without tags */
};

static const struct row_of_looks rows[] = {
	{{"with luck", "a spin, in vain"}, ALONE, MOST, 1, "-", LESS, 1, false},
	{{"without a tag", "the same"}, ALONE, MOST, 1, "-", LESS, 1, true},
	{{"looks again", "the wait has begun before"}, ALONE, MOST, 1, "---", LESS, 1, false},
	{{"at last, a probe", "one of so many waits tries"},
	 ALONE,
	 0,
	 BL_SPIN_CREDIT_PROBE,
	 "-",
	 0,
	 1,
	 false},
	{{"another wait", "another spin"}, ALONE, MOST, 1, "-+-", 0, 2, false},
	{{"without luck", "none"}, ALONE, 0, 1, "-", 0, 1, false},
	{{"a core that others want", "none"}, SHARED_CORE, MOST, 1, "-", MOST, 1, false},
	{{"a copy under way", "cut short"}, COPIES, MOST, 1, "-", MOST, 1, false},
	{{"something else is over", "its caller wants to hear of it"},
	 HAS_COMPLETION,
	 MOST,
	 1,
	 "-",
	 MOST,
	 0,
	 false},
};

static void polls(void **state)
{
	const struct row_of_looks *row = TABLE_ROW(struct row_of_looks, state);
	uint64_t began;
	struct bl_cq *cq;

	node_open(&node, 2);
	cq = node.cq[0];
	cq->full = 1;
	cq->crowd.peek = (struct bl_spin_credit){.luck = row->luck, .waits = row->waits};
	if (row->state == SHARED_CORE)
		cq->crowd.until = bl_ticks() + BL_TICKS_AHEAD;
	node.ep[0]->work += row->state == COPIES;
	if (row->state == HAS_COMPLETION)
		bl_cq_append(cq, &(struct bl_comp){.flags = BL_SEND}, BL_ADDR_ANY);
	began = bl_ticks();
	for (const char *at = row->looks; *at; at++) {
		cq->full += *at == '+';
		if (*at == '-')
			assert_false(look(!row->other));
	}
	node.ep[0]->work -= row->state == COPIES;
	assert_true(row->after >= row->luck || bl_ticks() - began >= bl_first_ticks());
	assert_int_equal(cq->crowd.peek.luck, row->after);
	assert_int_equal(cq->crowd.peek.waits, row->waits + row->begun);
	assert_int_equal(cq->crowd.peek.rarely, row->waits == BL_SPIN_CREDIT_PROBE);
	assert_int_equal(cq->crowd.read.luck, 0); /* that's another matter */
	node_close(&node);
}

/* Without luck one of so many tries, and rarer ones when that was in vain. */
static void tries(void **state)
{
	const uint32_t due[] = {BL_SPIN_CREDIT_PROBE, 2 * BL_SPIN_CREDIT_PROBE,
				4 * BL_SPIN_CREDIT_PROBE};
	struct bl_spin_credit *luck;

	(void)state;
	node_open(&node, 2);
	luck = &node.cq[0]->crowd.peek;
	luck->waits = 1;
	for (size_t i = 0; i < bl_countof(due); i++) {
		do {
			assert_int_equal(luck->rarely, i);
			node.cq[0]->full++;
			assert_false(look(true));
		} while (luck->waits <= due[i]);
		assert_int_equal(luck->rarely, i + 1);
	}
	node_close(&node);
}

/* A look in vain is an idle moment: the lines of the next long packet are asked for. */
static void asks_for_lines(void **state)
{
	struct bl_ep *ep;

	(void)state;
	node_open(&node, 2);
	ep = node.ep[0];
	for (int exchange = 0; exchange < 2; exchange++) {
		node.cq[0]->full++;
		node.cq[0]->crowd.peek.luck = MOST;
		node_settle(&node, 1);
		bl_warm_later(ep, ep->dest[1]);
		ep->exchange = exchange;
		assert_false(look(true));
		assert_true((ep->warm != NULL) == exchange);
	}
	ep->warm = NULL;
	node_close(&node);
}

/* One that goes on with a wait, so long after the last one. True: it polls. */
static bool polls_after(uint64_t ticks, uint32_t luck)
{
	struct bl_ep *ep = node.ep[0];
	struct bl_cq *cq = node.cq[0];

	cq->crowd.peek.luck = luck;
	cq->peek_full = cq->full;
	ep->exchange = false;
	bl_warm_later(ep, ep->dest[1]);
	cq->last_look = bl_ticks() - ticks;
	assert_false(look(true));
	return !ep->warm;
}

/* A program that computes, and looks now and then for what doesn't come, pays for no poll, whatever
 * luck it had before. */
static void polls_when_close(void **state)
{
	time_t deadline = time(NULL) + DEADLINE_S;

	(void)state;
	node_open(&node, 2);
	while (!polls_after(0, 1)) /* unless something has held it up */
		assert_true(time(NULL) < deadline);
	for (int i = 0; i < 100; i++) {
		assert_false(polls_after(bl_waiting_ticks(), MOST));
		assert_false(polls_after(0, 0));
	}
	node.ep[0]->warm = NULL;
	node_close(&node);
}

/* --- what comes meanwhile --------------------------------------------------------------- */

static _Atomic int ready, go, sent;
static uint64_t late;
static cpu_set_t cores;

/* Run on core `n` of those that we may use, `all`, so that the two of us never wait for one core.
 * False: there aren't so many. */
static bool run_on(const cpu_set_t *all, int n)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, all) && n-- == 0)
			CPU_SET(cpu, &one);
	return CPU_COUNT(&one) && !sched_setaffinity(0, sizeof one, &one);
}

static void pass(uint64_t ticks)
{
	uint64_t until = bl_ticks() + ticks;

	while ((int64_t)(bl_ticks() - until) < 0)
		;
}

/* Endpoint 1, which nobody else uses meanwhile, sends so long after it has been told to. */
static void *send_then(void *tag)
{
	if (!run_on(&cores, 1))
		abort();
	atomic_store_explicit(&ready, 1, memory_order_release);
	while (!atomic_load_explicit(&go, memory_order_acquire))
		;
	pass(late);
	if (bl_send_buf(node.ep[1], "x", 1, 0, *(uint64_t *)tag, 0, NULL, BL_TAGGED))
		abort();
	atomic_store_explicit(&sent, 1, memory_order_release);
	return NULL;
}

enum meets { NO_RECEIVE, A_RECEIVE };

/* As often as it takes until one comes in the middle of a spin; what it says of that is `want`. */
static void comes(uint64_t tag, enum meets meets, uint32_t want)
{
	bool found = tag == TAG && meets == NO_RECEIVE;
	time_t deadline = time(NULL) + DEADLINE_S;
	struct bl_spin_credit *luck;
	bool spun = false;

	assert_int_equal(sched_getaffinity(0, sizeof cores, &cores), 0);
	if (CPU_COUNT(&cores) < 2)
		skip(); /* on one core none comes while the other looks */
	assert_true(run_on(&cores, 0));
	node_open(&node, 2);
	luck = &node.cq[0]->crowd.peek;
	for (int round = 0; !spun; round++) {
		pthread_t thread;
		char to[8];
		bool there;

		if (meets == A_RECEIVE)
			assert_int_equal(bl_recv_buf(node.ep[0], to, sizeof to, BL_ADDR_ANY, tag, 0,
						     NULL, NODE_FLAGS),
					 0);
		assert_true(time(NULL) < deadline);
		node.cq[0]->full++;
		*luck = (struct bl_spin_credit){.luck = BL_SPIN_CREDIT_VAIN + 1, .waits = 1};
		late = (uint64_t)(round % 8) * 800;
		atomic_store(&sent, 0);
		atomic_store(&go, 0);
		atomic_store(&ready, 0);
		assert_int_equal(pthread_create(&thread, NULL, send_then, &tag), 0);
		while (!atomic_load_explicit(&ready, memory_order_acquire))
			sched_yield();
		atomic_store_explicit(&go, 1, memory_order_release);
		/* Under a sanitizer sending alone may take longer than the look spins. */
		pass((uint64_t)(round / 8 % 32) * 1000);
		there = look(true);
		spun = others == (meets == A_RECEIVE) && luck->waits == 2 && luck->luck == want &&
		       there == found && atomic_load_explicit(&sent, memory_order_acquire);
		assert_int_equal(pthread_join(thread, NULL), 0);
		node_settle(&node, 0);
		if (meets == NO_RECEIVE) /* off the queue */
			assert_int_equal(bl_recv_buf(node.ep[0], to, sizeof to, BL_ADDR_ANY, tag, 0,
						     NULL, NODE_FLAGS),
					 0);
		if (meets == NO_RECEIVE || !others)
			node_completion(&node, 0, NULL);
	}
	node_close(&node);
	assert_int_equal(sched_setaffinity(0, sizeof cores, &cores), 0);
}

static void finds_it(void **state)
{
	(void)state;
	comes(TAG, NO_RECEIVE, BL_SPIN_CREDIT_VAIN + 2);
}

/* It ends the spin, which has said nothing then. */
static void finds_another(void **state)
{
	(void)state;
	comes(TAG + 1, NO_RECEIVE, BL_SPIN_CREDIT_VAIN + 1);
}

/* The same. */
static void finds_what_is_awaited(void **state)
{
	(void)state;
	comes(TAG + 1, A_RECEIVE, BL_SPIN_CREDIT_VAIN + 1);
}

int main(void)
{
	TABLE_ROWS("look", polls, rows);
	TABLE_TEST(tries);
	TABLE_TEST(asks_for_lines);
	TABLE_TEST(polls_when_close);
	TABLE_TEST(finds_it);
	TABLE_TEST(finds_another);
	TABLE_TEST(finds_what_is_awaited);
	return table_run("peek");
}
