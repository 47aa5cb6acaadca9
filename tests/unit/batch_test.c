/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * batch_test.c: which one-sided operations are kept and done together
 * (transport/local/rma/batch.h): how many copies a series of them takes, when they are done, and
 * that the bytes are theirs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "transport/local/rma/batch.h"
#include "transport/local/rma/runs.h"
#include "endpoint/wait.h"
#include "unit/node.h"

#define KEY  5
#define ROOM (128u << 10)

static unsigned copies, attempts;
static bool refuses;

int __real_bl_rma_move(struct bl_copy_pair *pair, bool write, const struct bl_rma_memory *mem,
		       size_t off, const struct iovec *mine, size_t nmine, size_t len,
		       size_t *moved);
int __wrap_bl_rma_move(struct bl_copy_pair *pair, bool write, const struct bl_rma_memory *mem,
		       size_t off, const struct iovec *mine, size_t nmine, size_t len,
		       size_t *moved);

int __wrap_bl_rma_move(struct bl_copy_pair *pair, bool write, const struct bl_rma_memory *mem,
		       size_t off, const struct iovec *mine, size_t nmine, size_t len,
		       size_t *moved)
{
	copies++;
	if (pair && refuses) { /* the right to copy is lost; else as in rma_memory.c */
		attempts++;
		pair->pull = pair->push = BL_COPY_NOTHING;
		return -EOPNOTSUPP;
	}
	return __real_bl_rma_move(pair, write, mem, off, mine, nmine, len, moved);
}

struct series_row {
	struct row row;
	enum bl_rma_what what;
	unsigned count;	    /* operations */
	size_t len;	    /* of each */
	size_t there, here; /* from the beginning of one to that of the next */
	unsigned keys;	    /* the regions that they take turns at */
	uint64_t flags;
	unsigned at_once; /* copies before any progress, */
	unsigned in_all;  /* and with it */
};

#define W BL_RMA_WRITE
#define R BL_RMA_READ

static const struct series_row serieses[] = {
	{{"one", "it waits for progress here"}, W, 1, 8, 8, 8, 1, 0, 0, 1},
	{{"two", "in one copy"}, W, 2, 8, 16, 8, 1, 0, 0, 1},
	{{"eight places", "the same"}, W, 8, 8, 16, 8, 1, 0, 0, 1},
	{{"nine places", "more than a short packet has"}, W, 9, 8, 16, 8, 1, 0, 0, 1},
	{{"sixteen reads", "the same"}, R, 16, 8, 16, 8, 1, 0, 0, 1},
	{{"side by side", "one place"}, W, 64, 8, 8, 8, 1, 0, 0, 1},
	{{"reads side by side", "one place"}, R, 64, 8, 8, 8, 1, 0, 0, 1},
	{{"side by side there", "and apart here"}, W, 64, 8, 8, 16, 1, 0, 0, 1},
	{{"side by side here", "and apart there"}, W, 64, 8, 16, 8, 1, 0, 0, 1},
	{{"to the same place", "one after the other"}, W, 16, 8, 0, 8, 1, 0, 0, 1},
	{{"of two regions", "each in turn: none is beside another"}, W, 16, 8, 8, 8, 2, 0, 0, 1},
	{{"as many as are kept", "they still wait"}, W, 64, 8, 16, 8, 1, 0, 0, 1},
	{{"one more than are kept", "the first ones don't"}, W, 65, 8, 16, 8, 1, 0, 1, 2},
	{{"injected", "what is kept lies side by side here"}, W, 64, 8, 8, 24, 1, BL_INJECT, 0, 1},
	{{"the longest", "together"}, W, 8, 4096, 4096, 4096, 1, 0, 0, 1},
	{{"longer", "each at once"}, W, 8, 4097, 4097, 4097, 1, 0, 8, 8},
	{{"as much as is kept", "injected"}, W, 8, 4096, 8192, 4096, 1, BL_INJECT, 0, 1},
	{{"more than is kept", "the first ones don't wait"},
	 W,
	 9,
	 4096,
	 8192,
	 4096,
	 1,
	 BL_INJECT,
	 1,
	 2},
	{{"nothing", "at once"}, W, 3, 0, 8, 8, 1, 0, 3, 3},
};

static uint8_t mem[ROOM], buf[ROOM];
static struct bl_mr *mr[2];

static void reg(struct node *node)
{
	struct iovec iov = {mem, ROOM};

	for (uint64_t i = 0; i < 2; i++) {
		struct bl_mr_attr attr = {
			.iov = &iov, .niov = 1, .flags = BL_MR_READ | BL_MR_WRITE, .key = KEY + i};

		assert_int_equal(bl_mr_open(node->of[1], &attr, &mr[i]), 0);
	}
}

static void open_all(struct node *node)
{
	node_open_apart(node, 2);
	reg(node);
}

static void close_all(struct node *node)
{
	for (int i = 0; i < 2; i++)
		bl_mr_close(mr[i]);
	node_close(node);
}

/* Of the first endpoint on the second's memory. */
static void begin(struct node *node, enum bl_rma_what what, void *here, size_t len, uint64_t there,
		  uint64_t key, uint64_t flags)
{
	struct iovec iov = {here, len};
	struct bl_rma_place place = {there, len, key};
	struct bl_rma rma = {.what = what,
			     .iov = &iov,
			     .niov = 1,
			     .place = &place,
			     .nplace = 1,
			     .dest = 1,
			     .context = here,
			     .flags = flags | BL_COMPLETION};
	int err;

	while ((err = bl_rma(node->ep[0], &rma)) == -EAGAIN)
		node_progress(node);
	assert_int_equal(err, 0);
}

static void end(struct node *node, const void *context)
{
	uint64_t src;

	assert_ptr_equal(node_completion(node, 0, &src).context, context);
}

/* They are connected, and it is known what is registered. */
static void meet(struct node *node)
{
	begin(node, R, buf, 1, 0, KEY, 0);
	end(node, buf);
	begin(node, R, buf, 1, 0, KEY + 1, 0);
	end(node, buf);
}

static void fill(void)
{
	for (size_t i = 0; i < ROOM; i++) {
		mem[i] = (uint8_t)(i * 7);
		buf[i] = (uint8_t)(i * 13 + 1);
	}
}

/* What one after the other would have left. */
static void expect(const struct series_row *row, uint8_t *there, uint8_t *here)
{
	for (unsigned i = 0; i < row->count; i++) {
		uint8_t *a = there + i * row->there, *b = here + i * row->here;

		if (row->what == W)
			memcpy(a, b, row->len);
		else
			memcpy(b, a, row->len);
	}
}

static void series(void **state)
{
	const struct series_row *row = TABLE_ROW(struct series_row, state);
	static uint8_t there[ROOM], here[ROOM];
	struct node node;

	open_all(&node);
	meet(&node);
	fill();
	memcpy(there, mem, ROOM);
	memcpy(here, buf, ROOM);
	expect(row, there, here);
	copies = 0;
	for (unsigned i = 0; i < row->count; i++) {
		uint8_t *mine = buf + i * row->here;

		begin(&node, row->what, mine, row->len, i * row->there, KEY + i % row->keys,
		      row->flags);
		if (row->flags & BL_INJECT) /* they are their user's again */
			memset(mine, 0, row->len);
	}
	assert_int_equal(copies, row->at_once);
	for (unsigned i = 0; i < row->count; i++)
		end(&node, buf + i * row->here);
	node_expect_nothing(&node, 0);
	assert_int_equal(copies, row->in_all);
	assert_memory_equal(mem, there, ROOM);
	if (!(row->flags & BL_INJECT))
		assert_memory_equal(buf, here, ROOM);
	close_all(&node);
}

/* --- of different kinds -------------------------------------------------------- */

struct mix_row {
	struct row row;
	const char *kinds; /* r, w: short; R, W: long */
	unsigned at_once, in_all;
};

static const struct mix_row mixes[] = {
	{{"reads behind writes", "the writes are done first"}, "wwrr", 1, 2},
	{{"writes behind reads", "the reads are"}, "rrrw", 1, 2},
	{{"in turn", "each for the sake of the next"}, "wrwrwr", 5, 6},
	{{"a long one in the middle", "it is done when what is before it is"}, "wwWww", 2, 3},
	{{"a long one behind them", "nothing is left"}, "rrrrR", 2, 2},
	{{"a long one before them", "it is nothing to them"}, "Wwww", 1, 2},
};

static void mixed(void **state)
{
	const struct mix_row *row = TABLE_ROW(struct mix_row, state);
	struct node node;

	open_all(&node);
	meet(&node);
	copies = 0;
	for (const char *kind = row->kinds; *kind; kind++) {
		bool is_long = *kind < 'a', reads = *kind == 'r' || *kind == 'R';
		size_t at = (size_t)(kind - row->kinds) * 10000;

		begin(&node, reads ? R : W, buf + at, is_long ? 5000 : 8, at, KEY, 0);
	}
	assert_int_equal(copies, row->at_once);
	for (size_t i = 0; i < strlen(row->kinds); i++)
		end(&node, buf + i * 10000);
	assert_int_equal(copies, row->in_all);
	close_all(&node);
}

/* --- where the right to copy is lost ------------------------------------------------- */

/* What is behind those that go by message goes by message, too: it would overtake them. */
static void refused(void **state)
{
	enum { N = 30 };
	struct node node;

	(void)state;
	open_all(&node);
	meet(&node);
	fill();
	attempts = 0;
	refuses = true;
	for (size_t i = 0; i < N; i++)
		begin(&node, W, buf + 8 * i, 8, 16 * i, KEY, 0);
	for (size_t i = 0; i < N; i++)
		end(&node, buf + 8 * i);
	refuses = false;
	assert_int_equal(attempts, 1);
	for (size_t i = 0; i < N; i++)
		assert_memory_equal(mem + 16 * i, buf + 8 * i, 8);
	close_all(&node);
}

/* --- by itself, or one of several ---------------------------------------------------- */

static void set_knob(uint64_t combine)
{
	((struct bl_knobs *)(uintptr_t)bl_knobs())->rma_batch = combine;
}

/* So long that nothing follows what was before. */
static void rest(void)
{
	uint64_t until = bl_ticks() + 50 * bl_ticks_per_us();

	while (!bl_is_due(bl_ticks(), until))
		;
}

static void one(struct node *node, size_t i, uint64_t flags)
{
	begin(node, W, buf + 8 * i, 8, 16 * i, KEY, flags);
}

static void ends(struct node *node, size_t count)
{
	for (size_t i = 0; i < count; i++)
		end(node, buf + 8 * i);
}

struct alone_row {
	struct row row;
	bool rests, reads; /* between two */
	bool sleeper;	   /* somebody waits for their completions at a descriptor */
	uint64_t flags;
	unsigned at_once; /* of four */
};

static const struct alone_row alones[] = {
	{{"one after another", "all but the first are kept"}, false, false, false, 0, 1},
	{{"now and then", "each is over when its call returns"}, true, false, false, 0, 4},
	{{"each waited for", "the same"}, false, true, false, 0, 4},
	{{"said to be followed", "the first is kept, too"}, false, false, false, BL_MORE, 0},
	{{"somebody sleeps", "the first one wakes him, and he reads"}, false, false, true, 0, 1},
	{{"somebody sleeps, and more follow", "the same"}, false, false, true, BL_MORE, 1},
};

/* Copies of four, before any progress that their user doesn't make between them. */
static unsigned four(struct node *node, const struct alone_row *row)
{
	struct bl_waiter *w = &node->cq[0]->wait;

	if (row->sleeper) {
		assert_true(bl_wait_fd(w) >= 0);
		assert_int_equal(bl_wait_try(w), 0);
	}
	copies = 0;
	for (size_t i = 0; i < 4; i++) {
		one(node, i, row->flags);
		if (row->rests)
			rest();
		if (row->reads)
			end(node, buf + 8 * i);
	}
	return copies;
}

static void alone(void **state)
{
	const struct alone_row *row = TABLE_ROW(struct alone_row, state);
	unsigned at_once = 0, round;
	struct node node;

	open_all(&node);
	meet(&node);
	set_knob(0);
	bl_batch_follows_us = row->rests ? 1 : 100000; /* however slow it is here */
	/* But this core may be lost for longer between two that follow each other. */
	for (round = 0; round < 1000; round++) {
		node.ep[0]->dest[1]->rma->last_at = 0; /* long ago */
		at_once = four(&node, row);
		if (!row->reads)
			ends(&node, 4);
		if (at_once == row->at_once)
			break;
		assert_true(at_once > row->at_once);
	}
	assert_int_equal(at_once, row->at_once);
	bl_batch_follows_us = 1;
	set_knob(BL_BATCH_ALWAYS);
	close_all(&node);
}

/* Nothing is kept. */
static void never(void **state)
{
	struct node node;

	(void)state;
	open_all(&node);
	meet(&node);
	set_knob(BL_BATCH_NEVER);
	copies = 0;
	for (size_t i = 0; i < 4; i++)
		one(&node, i, 0);
	assert_int_equal(copies, 4);
	ends(&node, 4);
	set_knob(BL_BATCH_ALWAYS);
	close_all(&node);
}

/* Nor where the domain has another endpoint. */
static void beside(void **state)
{
	struct node node;

	(void)state;
	node_open(&node, 2);
	reg(&node);
	meet(&node);
	copies = 0;
	for (size_t i = 0; i < 4; i++)
		one(&node, i, BL_MORE);
	assert_int_equal(copies, 4);
	ends(&node, 4);
	close_all(&node);
}

/* What is kept is done when another one is opened. */
static void opened_beside(void **state)
{
	struct node node;
	struct bl_ep *ep;

	(void)state;
	open_all(&node);
	meet(&node);
	copies = 0;
	for (size_t i = 0; i < 4; i++)
		one(&node, i, 0);
	assert_int_equal(copies, 0);
	assert_int_equal(bl_ep_open(node.domain, &ep), 0);
	assert_int_equal(copies, 1);
	one(&node, 4, 0);
	assert_int_equal(copies, 2);
	ends(&node, 5);
	assert_int_equal(bl_ep_close(ep), 0);
	close_all(&node);
}

/* A write of nothing that only carries data, injected, which its target does. */
static void nothing_with_data(void **state)
{
	struct bl_rma rma = {.what = BL_RMA_WRITE,
			     .dest = 1,
			     .data = 7,
			     .flags = BL_INJECT | BL_REMOTE_CQ_DATA | BL_COMPLETION};
	struct node two;
	struct bl_comp comp;

	(void)state;
	node_open(&two, 2);
	two.peer[0][1]->copy.pull = two.peer[0][1]->copy.push = BL_COPY_NOTHING;
	assert_int_equal(bl_rma(two.ep[0], &rma), 0);
	comp = node_completion(&two, 1, NULL);
	assert_true(comp.flags & BL_REMOTE_CQ_DATA);
	assert_int_equal(comp.data, 7);
	assert_true(node_completion(&two, 0, NULL).flags & BL_WRITE);
	node_close(&two);
}

/* Page zero may be registered, and isn't there: its owner says so, and lives. */
static void page_zero(void **state)
{
	const struct bl_mr_attr all = {.iov = &(struct iovec){NULL, SIZE_MAX / 2},
				       .niov = 1,
				       .flags = BL_MR_READ | BL_MR_WRITE,
				       .key = 5};
	static uint8_t bytes[4 * 16];
	struct bl_rma_place place[16];
	struct bl_mr *zero;
	struct node two;
	alignas(8) uint8_t packet[BL_RUNS_HEAD(1) + sizeof bytes] = {0},
							   result[BL_DELEGATED_SUM_BYTES];
	struct bl_rma_runs *runs = (void *)packet;
	struct bl_rma_exec exec;
	size_t moved;

	(void)state;
	node_open(&two, 1);
	assert_int_equal(bl_mr_open(two.domain, &all, &zero), 0);
	runs->what = BL_RMA_WRITE;
	runs->nrun = 1;
	runs->key = 5;
	runs->run[0] = (struct bl_rma_run){16, 16, 4, 16};
	assert_int_equal(
		bl_runs_perform(two.ep[0], runs, sizeof packet, result, place, &exec, &moved),
		-EOPNOTSUPP);
	assert_int_equal(moved, 0);
	bl_mr_close(zero);
	node_close(&two);
}

int main(void)
{
	setenv("FI_BEELINE_RMA_BATCH", "always", 1);
	setenv("FI_BEELINE_EAGER_MAX", "8192", 1);
	TABLE_ROWS("series", series, serieses);
	TABLE_ROWS("mixed", mixed, mixes);
	TABLE_TEST(refused);
	TABLE_ROWS("alone", alone, alones);
	TABLE_TEST(never);
	TABLE_TEST(beside);
	TABLE_TEST(opened_beside);
	TABLE_TEST(nothing_with_data);
	TABLE_TEST(page_zero);
	return table_run("batch");
}
