/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * yields_test.c: core/yields.h: which calls of sched_yield by the library that reads the queues
 * give the core away. That library is caller.c; the ones that do are counted.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/yields.h"
#include "unit/node.h"

#define DEADLINE_NS 20000000000ull
#define TAG	    3

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
	bl_yields_adopt((const void *)(uintptr_t)library_yields);
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

static void empty(void)
{
	struct bl_comp comp;

	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
}

struct step_row {
	struct row row;
	const char *steps; /* f, t, e: a read as above; y: the library yields */
	unsigned yields;
};

static const struct step_row rows[] = {
	{{"nothing read since", "a yield as any"}, "yy", 2},
	{{"an empty read", "what is awaited may need the core"}, "ey", 1},
	{{"a message", "skipped"}, "fy", 0},
	{{"a message that was there", "skipped"}, "ty", 0},
	{{"a message, two yields", "the second goes on with a collective"}, "fyy", 0},
	{{"a message, three yields", "the third has nothing to do with it"}, "fyyy", 1},
	{{"an empty read between them", "a wait begins"}, "fyey", 1},
	{{"an empty read behind it", "a wait begins"}, "fey", 1},
	{{"an empty read before it", "a wait ends"}, "efy", 0},
	{{"two messages", "no more than of one"}, "ffyyy", 1},
	{{"again and again", "each of them"}, "fyfytyfyfyefyfy", 0},
};

static void steps(void **state)
{
	const struct step_row *row = TABLE_ROW(struct step_row, state);

	empty(); /* what a test before has left */
	yielded = 0;
	for (const char *step = row->steps; *step; step++) {
		unsigned before = yielded;

		if (*step == 'f')
			found();
		else if (*step == 't')
			taken();
		else if (*step == 'e')
			empty();
		else
			assert_int_equal(library_yields(), 0);
		if (*step != 'y')
			yielded = before; /* those in a read are Beeline's own business */
	}
	assert_int_equal(yielded, row->yields);
}

static void now_and_then(void **state)
{
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < 4 * BL_YIELDS_EVERY; i++) {
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
	assert_true(until >= before + BL_YIELDS_THREADS_US * bl_ticks_per_us());
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
	return yielded != 1 || atomic_load(&bl_yields_heard);
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
	bl_yields_adopt((const void *)(uintptr_t)abort);
	bl_yields_adopt(NULL);
	assert_int_equal(as_before(), 0);
}

static void begin(void **state)
{
	(void)state;
	adopt();
	adopt();
	found();
	assert_false(atomic_load(&bl_yields_heard)); /* it has never yielded: who knows? */
	yielded = 0;
	assert_int_equal(library_yields(), 0);
	assert_int_equal(yielded, 1);
	assert_true(atomic_load(&bl_yields_heard));
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
	return table_run("yields");
}
