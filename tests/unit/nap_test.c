/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * nap_test.c: which waits nap that nothing has come to for long, and for how long. Time is real,
 * and processor time as the row has it; a nap takes none.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/knobs.h"
#include "copy/engine.h"
#include "endpoint/api.h"
#include "core/mr.h"
#include "wait/nap.h"
#include "endpoint/rma.h"
#include "endpoint/wait.h"
#include "unit/node.h"

#define DEADLINE_MS 10000u
#define CHEAP_NS    600u /* of a system call */
#define QUIET_MS    (BL_NAP_AFTER_US / 1000)
#define LONG_MS	    60u /* three times what a wait needs to be believed */

static struct node node;
static uint64_t cpu_ns, naps, nap_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_clock_gettime(clockid_t clock, struct timespec *t);
void __wrap_bl_wait_sleep(const struct bl_sleep *sleep, uint64_t ns);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock != CLOCK_THREAD_CPUTIME_ID)
		return __real_clock_gettime(clock, t);
	*t = (struct timespec){(time_t)(cpu_ns / 1000000000u), (long)(cpu_ns % 1000000000u)};
	return 0;
}

void __wrap_bl_wait_sleep(const struct bl_sleep *sleep, uint64_t ns)
{
	(void)sleep;
	naps++;
	nap_ns = ns;
}

static uint64_t ms(uint64_t n)
{
	return n * 1000 * bl_ticks_per_us();
}

enum between {
	NOTHING,
	A_SEND,	     /* of which no completion tells */
	ANOTHERS,    /* a message between two other endpoints of the domain */
	A_STRANGERS, /* of other domains */
	A_WRITE,     /* to another's memory */
};

struct quiet_row {
	struct row row;
	uint64_t read_ns; /* of a processor, each read */
	enum between between;
	bool crowded, poll, apart;
	bool naps;
	uint32_t call_ns; /* a system call takes so long; 0: as is cheap */
};

static const struct quiet_row rows[] = {
	{{"waits", "it only reads"}, 300, NOTHING, false, false, false, true, 0},
	{{"slowly", "as much as a read and its yields may take"},
	 3900,
	 NOTHING,
	 false,
	 false,
	 false,
	 true,
	 0},
	{{"works", "a bit more, between two reads"}, 4100, NOTHING, false, false, false, false, 0},
	{{"works much", "a millisecond"}, 1000000, NOTHING, false, false, false, false, 0},
	{{"shared core", "no less"}, 3900, NOTHING, true, false, false, true, 0},
	{{"shared core, works", "no more"}, 4100, NOTHING, true, false, false, false, 0},
	{{"shared, dear calls", "a switch takes some"},
	 6700,
	 NOTHING,
	 true,
	 false,
	 false,
	 true,
	 1600},
	{{"shared, dear calls, works", "more than that"},
	 6900,
	 NOTHING,
	 true,
	 false,
	 false,
	 false,
	 1600},
	{{"shared, absurd calls", "there is an end"},
	 12100,
	 NOTHING,
	 true,
	 false,
	 false,
	 false,
	 9000},
	{{"FI_BEELINE_IDLE=poll", "it must not"}, 300, NOTHING, false, true, false, false, 0},
	{{"sends", "it has something to do"}, 300, A_SEND, false, false, false, false, 0},
	{{"writes", "the same"}, 300, A_WRITE, false, false, false, false, 0},
	{{"another queue", "its messages would come late"},
	 300,
	 ANOTHERS,
	 false,
	 false,
	 false,
	 false,
	 0},
	{{"another domain's", "the same"}, 300, A_STRANGERS, false, false, true, false, 0},
};

static struct bl_comp comp;

static ssize_t read_one(size_t at)
{
	return bl_cq_read(node.cq[at], &comp, 1, sizeof comp, NULL);
}

/* One message, received; and what its queue brings with it. */
static void message(size_t from, size_t to)
{
	uint64_t until = bl_ticks() + ms(DEADLINE_MS);
	char byte = 1;

	assert_int_equal(bl_recv_buf(node.ep[to], &byte, 1, from, 5, 0, NULL, NODE_FLAGS), 0);
	node_send(&node, from, to, &byte, 1, 5, NULL, BL_TAGGED);
	while (read_one(to) != 1)
		assert_true((int64_t)(bl_ticks() - until) < 0);
}

static void write_there(void)
{
	static uint64_t value;
	struct iovec from = {&value, sizeof value};
	struct bl_rma_place to = {0, sizeof value, 5};
	const struct bl_rma rma = {.what = BL_RMA_WRITE,
				   .iov = &from,
				   .niov = 1,
				   .place = &to,
				   .nplace = 1,
				   .dest = 1};

	assert_int_equal(bl_rma(node.ep[0], &rma), 0);
}

static void between(enum between what)
{
	char byte = 1;

	switch (what) {
	case A_SEND:
		node_send(&node, 0, 1, &byte, 1, 6, NULL, BL_TAGGED);
		node_settle(&node, 1);
		break;
	case ANOTHERS:
	case A_STRANGERS:
		message(1, 2);
		break;
	case A_WRITE:
		write_there();
		break;
	default:
		break;
	}
}

static void one_read(const struct quiet_row *row)
{
	if (row->crowded) { /* by whose rules it naps no more */
		node.cq[0]->crowd.until = bl_ticks() + ms(1000);
		node.cq[0]->crowd.no_nap = bl_ticks() + ms(1000);
	}
	between(row->between);
	assert_int_equal(read_one(0), -EAGAIN);
	cpu_ns += row->read_ns;
}

static void begin(const struct quiet_row *row)
{
	static char buf[8];

	row->apart ? node_open_apart(&node, 3) : node_open(&node, 3);
	((struct bl_knobs *)(uintptr_t)bl_knobs())->idle = row->poll ? 0 : BL_IDLE_NAP;
	((struct bl_copy_plan *)(uintptr_t)bl_copy_plan())->call_ns =
		row->call_ns ? row->call_ns : CHEAP_NS;
	naps = 0;
	assert_int_equal(bl_recv_buf(node.ep[0], buf, sizeof buf, 1, 7, 0, NULL, NODE_FLAGS), 0);
}

static void which_waits_nap(void **state)
{
	static uint64_t there;
	const struct quiet_row *row = TABLE_ROW(struct quiet_row, state);
	uint64_t began = bl_ticks(), until;
	struct iovec room = {&there, sizeof there};
	const struct bl_mr_attr attr = {.iov = &room, .niov = 1, .flags = BL_MR_WRITE, .key = 5};
	struct bl_mr *mr;

	begin(row);
	assert_int_equal(bl_mr_open(node.of[1], &attr, &mr), 0);
	until = began + ms(row->naps ? DEADLINE_MS : LONG_MS);
	while (!naps && (int64_t)(bl_ticks() - until) < 0)
		one_read(row);
	assert_int_equal(naps > 0, row->naps);
	if (naps) {
		/* Not before 20 ms, and for a hundredth of the second half of what it took. */
		assert_true(bl_ticks() - began >= ms(2 * QUIET_MS));
		assert_in_range(nap_ns / 1000, 50, 1000);
		assert_true(nap_ns / 1000 * 100 <= (bl_ticks() - began) / bl_ticks_per_us() + 5000);
	}
	bl_mr_close(mr);
	node_close(&node);
}

static const struct quiet_row waiting = {{"", ""}, 300, NOTHING, false, false, false, true, 0};

static void until_it_naps(void)
{
	uint64_t until = bl_ticks() + ms(DEADLINE_MS), before = naps;

	while (naps == before) {
		one_read(&waiting);
		assert_true((int64_t)(bl_ticks() - until) < 0);
	}
}

/* The reads from now on that nap within so many ms. */
static uint64_t naps_in(uint64_t n)
{
	uint64_t until = bl_ticks() + ms(n), before = naps;

	while ((int64_t)(bl_ticks() - until) < 0)
		one_read(&waiting);
	return naps - before;
}

/* As many as there are between two naps. */
static void reads(void)
{
	for (int i = 0; i < 4; i++)
		one_read(&waiting);
}

/* Each fourth read naps, but none for a while once it has worked, or something has come. */
static void what_ends_it(void **state)
{
	(void)state;
	begin(&waiting);
	until_it_naps();
	naps = 0;
	for (int i = 0; i < 10; i++)
		reads();
	assert_int_equal(naps, 10);

	cpu_ns += 50000; /* an interrupt, once */
	reads();
	reads();
	assert_int_equal(naps, 11);

	cpu_ns += 50000; /* work */
	reads();
	cpu_ns += 50000;
	reads();
	assert_int_equal(naps_in(QUIET_MS - 2), 0);
	until_it_naps();

	cpu_ns += 300000;
	reads();
	assert_int_equal(naps_in(QUIET_MS - 2), 0);
	until_it_naps();

	message(1, 2);
	assert_int_equal(naps_in(QUIET_MS - 2), 0);
	until_it_naps();

	message(1, 0);
	assert_int_equal(naps_in(QUIET_MS - 2), 0);
	until_it_naps();
	node_close(&node);
}

/* A hundredth of the wait, and never more than 1 ms. */
static void how_long(void **state)
{
	const struct bl_nap *quiet;
	uint64_t waited;

	(void)state;
	begin(&waiting);
	until_it_naps();
	quiet = &node.cq[0]->crowd.quiet;
	assert_true(nap_ns >= 100000);
	do {
		waited = (bl_ticks() - quiet->since) / bl_ticks_per_us();
		reads();
		assert_true(nap_ns / 1000 >= bl_min(waited / 100, 1000u));
		assert_true(nap_ns <= 1000000);
	} while (waited < 150000);
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("nap", which_waits_nap, rows);
	TABLE_TEST(what_ends_it);
	TABLE_TEST(how_long);
	return table_run("nap");
}
