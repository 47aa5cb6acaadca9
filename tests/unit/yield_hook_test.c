/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * yield_hook_test.c: wait/yield_hook.h: which calls of sched_yield by the library that reads the
 * queues give the core away. That library is caller.c; the ones that do are counted.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wait/yield_hook.h"
#include "unit/node.h"

#define DEADLINE_NS 20000000000ull
#define TAG	    3
#define ANOTHER	    4

int library_yields(void);

static struct node node;
static _Thread_local unsigned yielded;

/* Everybody's, Beeline's own among them, for the program comes before libc. */
__attribute__((visibility("default"))) int sched_yield(void)
{
	yielded++;
	return (int)syscall(SYS_sched_yield);
}

static void adopt(void)
{
	bl_yield_hook_adopt((const void *)(uintptr_t)library_yields);
}

/* A read that brings a message. */
static void found(void)
{
	struct bl_comp comp;

	assert_int_equal(bl_recv_buf(node.ep[0], NULL, 0, 0, TAG, 0, NULL, NODE_FLAGS), 0);
	node_send(&node, 0, 0, NULL, 0, TAG, NULL, BL_TAGGED);
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), 1);
}

/* One that finds it among the completions that are there already. */
static void taken(void)
{
	struct bl_comp comp;
	uint64_t late = bl_clock_ns() + DEADLINE_NS;

	assert_int_equal(bl_recv_buf(node.ep[0], NULL, 0, 0, TAG, 0, NULL, NODE_FLAGS), 0);
	node_send(&node, 0, 0, NULL, 0, TAG, NULL, BL_TAGGED);
	while (node.cq[0]->head == node.cq[0]->tail) {
		assert_true(bl_clock_ns() < late);
		bl_ep_progress(node.ep[0]);
	}
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), 1);
}

/* So many microseconds after the last one, however slow we are. */
static void empty_after(uint64_t us)
{
	struct bl_comp comp;

	node.cq[0]->last_empty = bl_ticks() - us * bl_ticks_per_us();
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
}

static void empty(void)
{
	empty_after(0);
}

/* Empty reads until the wait has become a long one, in which a read gives the core away. */
static void long_wait(void)
{
	uint64_t late = bl_clock_ns() + DEADLINE_NS, before = node.cq[0]->gave_way;

	while (node.cq[0]->gave_way == before) {
		assert_true(bl_clock_ns() < late);
		empty();
	}
}

static void await_another(void)
{
	assert_int_equal(bl_recv_buf(node.ep[0], NULL, 0, 0, ANOTHER, 0, NULL, NODE_FLAGS), 0);
}

/* The core is ours, or shared, or the library gives it away itself where that is of use. */
enum core { OURS, SHARED, LEFT };

struct step_row {
	struct row row;
	enum core core;
	/* f, t, e, l: reads as above, c: an empty one a millisecond later; a: a receive is awaited;
	 * y: the library yields */
	const char *steps;
	unsigned yields;
};

/* Each begins behind a read that has brought something and one that has not. */
static const struct step_row rows[] = {
	{{"nothing read since", "a yield as any"}, OURS, "yy", 2},
	{{"a message", "skipped"}, OURS, "fy", 0},
	{{"a message that was there", "skipped"}, OURS, "ty", 0},
	{{"a message, two yields", "the second goes on with a collective"}, OURS, "fyy", 0},
	{{"a message, three yields", "the third has nothing to do with it"}, OURS, "fyyy", 1},
	{{"two messages", "no more than of one"}, OURS, "ffyyy", 1},
	{{"again and again", "each of them"}, OURS, "fyfytyfyfyafyfy", 0},
	{{"an empty read behind it", "nothing is awaited: no wait begins"}, OURS, "fey", 1},
	{{"the same, awaiting another", "a wait begins"}, OURS, "afey", 0},
	{{"an empty read", "a short wait"}, OURS, "ey", 0},
	{{"another without a yield", "no more than of one"}, OURS, "eeyyy", 1},
	{{"a long wait", "what is awaited may need the core"}, OURS, "ly", 1},
	{{"reads far apart", "in between others may have had their turn"}, OURS, "cycy", 2},
	{{"behind a message, far apart", "a wait begins"}, OURS, "afcy", 0},
	{{"a long wait, left to the library", "nobody else yields"}, LEFT, "ly", 1},
	{{"a short wait, left to the library", "nobody needs to"}, LEFT, "ey", 0},
	{{"an empty read, shared", "what is awaited may need the core"}, SHARED, "ey", 1},
	{{"a message, shared", "skipped"}, SHARED, "fy", 0},
	{{"an empty read behind it, shared", "a wait begins"}, SHARED, "afyey", 1},
};

static void step(char what)
{
	switch (what) {
	case 'f':
		found();
		break;
	case 't':
		taken();
		break;
	case 'e':
		empty();
		break;
	case 'l':
		long_wait();
		break;
	case 'c':
		empty_after(1000);
		break;
	default:
		await_another();
	}
}

static unsigned yields_of(const struct step_row *row)
{
	struct bl_oversub *crowd = &node.cq[0]->crowd;
	unsigned n = 0;

	found();
	empty();
	crowd->until = row->core == SHARED ? bl_ticks() + 1000000 * bl_ticks_per_us() : 0;
	crowd->left_to_caller = row->core == LEFT;
	for (const char *at = row->steps; *at; at++) {
		if (*at != 'y') {
			step(*at);
			continue;
		}
		yielded = 0; /* those in a read are Beeline's own business */
		assert_int_equal(library_yields(), 0);
		n += yielded;
	}
	crowd->until = 0;
	crowd->left_to_caller = false;
	if (strchr(row->steps, 'a')) {
		node_send(&node, 0, 0, NULL, 0, ANOTHER, NULL, BL_TAGGED);
		node_completion(&node, 0, NULL);
	}
	return n;
}

/* Whoever loses its core for a moment in the middle of a read has read late: once more then. */
static void steps(void **state)
{
	const struct step_row *row = TABLE_ROW(struct step_row, state);
	unsigned n = yields_of(row);

	for (int again = 0; again < 4 && n != row->yields; again++)
		n = yields_of(row);
	assert_int_equal(n, row->yields);
}

static void now_and_then(void **state)
{
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < 4 * BL_YIELD_HOOK_EVERY; i++) {
		found();
		yielded = 0;
		library_yields();
		n += yielded;
	}
	assert_int_equal(n, 4);
}

static bool is_skipped(void)
{
	found();
	yielded = 0;
	library_yields();
	return !yielded;
}

static void *read_elsewhere(void *arg)
{
	(void)arg;
	found();
	yielded = 0;
	library_yields();
	return (void *)(uintptr_t)yielded;
}

/* While another thread reads as well none is skipped, nor for a while after that; then again. */
static void two_threads(void **state)
{
	uint64_t late = bl_clock_ns() + DEADLINE_NS;
	uint64_t until, before;
	pthread_t thread;
	void *yields;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_create(&thread, NULL, read_elsewhere, NULL), 0);
		assert_int_equal(pthread_join(thread, &yields), 0);
		assert_int_equal((uintptr_t)yields, 1);
		before = bl_ticks();
		assert_false(is_skipped());
	}
	until = node.cq[0]->yields.threads_until;
	assert_true(until >= before + BL_YIELD_HOOK_THREADS_US * bl_ticks_per_us());
	while (node.cq[0]->yields.threads_until) {
		assert_true(bl_clock_ns() < late);
		is_skipped();
	}
	assert_true(bl_is_due(bl_ticks(), until));
	/* One in 256 isn't. */
	assert_true(is_skipped() || is_skipped());
}

/* 0: a yield behind a read that brings something goes to the kernel, and nobody keeps account. */
static int as_before(void)
{
	found();
	yielded = 0;
	library_yields();
	return yielded != 1 || atomic_load(&bl_yield_hook_heard);
}

/* Before the knobs are read, for they are once. */
static void left_alone(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (!child) {
		setenv("FI_BEELINE_YIELD", "library", 1);
		node_open(&node, 1);
		adopt();
		_exit(as_before());
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Of the object that opens the queue, and of no other. */
static void another(void **state)
{
	(void)state;
	node_open(&node, 1);
	bl_yield_hook_adopt((const void *)(uintptr_t)abort);
	bl_yield_hook_adopt(NULL);
	assert_int_equal(as_before(), 0);
}

static void begin(void **state)
{
	(void)state;
	adopt();
	adopt();
	found();
	assert_false(atomic_load(&bl_yield_hook_heard)); /* it has never yielded: who knows? */
	yielded = 0;
	assert_int_equal(library_yields(), 0);
	assert_int_equal(yielded, 1);
	assert_true(atomic_load(&bl_yield_hook_heard));
}

static void end(void **state)
{
	(void)state;
	node_close(&node);
}

int main(void)
{
	table_add("left alone by FI_BEELINE_YIELD=library", left_alone, NULL);
	table_add("another library opens a queue", another, NULL);
	table_add("the library does", begin, NULL);
	TABLE_ROWS("behind", steps, rows);
	TABLE_TEST(now_and_then);
	TABLE_TEST(two_threads);
	table_add("closed", end, NULL);
	return table_run("yield_hook");
}
