/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * empty_test.c: a read that brings nothing: whether it is a wait, and what it does all the same.
 */
#include <errno.h>
#include <string.h>

#include "transport/local/ways/proxy.h"
#include "endpoint/api.h"
#include "transport/local/ways/rndv.h"
#include "core/mr.h"
#include "endpoint/rma.h"
#include "transport/local/ways/frag.h"
#include "unit/node.h"

static struct node node;
static struct bl_comp comp;

static ssize_t read_one(size_t at)
{
	return bl_cq_read(node.cq[at], &comp, 1, sizeof comp, NULL);
}

static uint64_t us(uint64_t n)
{
	return n * bl_ticks_per_us();
}

static void compute(uint64_t n)
{
	uint64_t until = bl_ticks() + us(n);

	while ((int64_t)(bl_ticks() - until) < 0)
		;
}

/* --- which read is a wait ---------------------------------------------------------- */

enum awaited { NOTHING, A_TAGGED, A_MESSAGE, MANY, A_SEND, A_COPY, OF_ALL };

struct wait_row {
	struct row row;
	enum awaited awaited;
	/* +: brought something, -: nothing, 0: of progress alone, w: a write between, of which no
	 * completion tells */
	const char *reads;
	bool wait;  /* the last one begins a wait, or goes on with one */
	bool spins; /* which began with a spin, in vain */
};

static const struct wait_row waits[] = {
	{{"nothing awaited", "it only looks whether there is more"}, NOTHING, "+-", false, false},
	{{"nothing awaited, again", "for a message without a receive, say"},
	 NOTHING,
	 "+--",
	 true,
	 false},
	{{"progress between", "it isn't a read"}, NOTHING, "+0-", false, false},
	{{"progress, again", "the same"}, NOTHING, "+-0-", true, false},
	{{"brought something again", "it looks again"}, NOTHING, "+-+-", false, false},
	{{"a tagged receive", "the caller waits for it"}, A_TAGGED, "+-", true, true},
	{{"a receive", "the same"}, A_MESSAGE, "+-", true, true},
	{{"a buffer for many", "for what may never come"}, MANY, "+-", false, false},
	{{"the same, again", "a wait, without a spin"}, MANY, "+--", true, false},
	{{"waits on", "it has begun before"}, NOTHING, "+---", false, false},
	{{"a write between", "the wait goes on, and spins no more, since it last gave way"},
	 A_TAGGED,
	 "+---w-",
	 true,
	 true},
	{{"a send's end", "the same"}, A_SEND, "+-", true, true},
	{{"a copy", "the same, and copies: a spin that is cut short"}, A_COPY, "+-", true, false},
	{{"a receive of a shared context", "it may be for us"}, OF_ALL, "+-", true, true},
};

/* `by` 1: begin to wait for it; -1: no more. */
static void await(enum awaited what, int by)
{
	static char buf[8];
	struct bl_ep *ep = node.ep[0];
	uint64_t kind = what == A_MESSAGE ? BL_MSG : BL_TAGGED;
	struct iovec room = {buf, sizeof buf};
	const struct bl_recv many = {.iov = &room,
				     .niov = 1,
				     .src = BL_ADDR_ANY,
				     .flags = BL_MSG | BL_COMPLETION | BL_MULTI_RECV};

	if (what == OF_ALL) {
		ep->home = by > 0 ? node.ep[1] : ep;
		ep = node.ep[1];
	}
	if (by > 0 && (what == A_TAGGED || what == A_MESSAGE || what == OF_ALL))
		assert_int_equal(
			bl_recv_buf(ep, buf, sizeof buf, 0, 5, 0, NULL, kind | BL_COMPLETION), 0);
	if (by > 0 && what == MANY) {
		bl_ep_set_min_multi_recv(ep, 1);
		assert_int_equal(bl_recv(ep, &many), 0);
	}
	ep->rndv.requests += (uint32_t)(what == A_SEND ? by : 0);
	ep->work += (uint32_t)(what == A_COPY ? by : 0);
}

/* Endpoint 0 writes to endpoint 1. */
static void write_there(void)
{
	static uint64_t there, value = 1;
	struct iovec from = {&value, sizeof value};
	struct iovec room = {&there, sizeof there};
	struct bl_rma_place to = {0, sizeof there, 5};
	const struct bl_mr_attr attr = {
		.iov = &room, .niov = 1, .flags = BL_MR_WRITE, .key = to.key};
	const struct bl_rma rma = {.what = BL_RMA_WRITE,
				   .iov = &from,
				   .niov = 1,
				   .place = &to,
				   .nplace = 1,
				   .dest = 1};
	struct bl_mr *mr;

	assert_int_equal(bl_mr_open(node.domain, &attr, &mr), 0);
	assert_int_equal(bl_rma(node.ep[0], &rma), 0);
	assert_int_equal(there, 1);
	there = 0;
	bl_mr_close(mr);
	node.cq[0]->last_empty = bl_ticks(); /* else that was a computation */
}

static void is_a_wait(void **state)
{
	const struct wait_row *row = TABLE_ROW(struct wait_row, state);
	bool empty = false;
	struct bl_cq *cq;

	node_open(&node, 2);
	cq = node.cq[0];
	await(row->awaited, 1);
	cq->wait_began = cq->last_empty = 0;
	cq->crowd.read.luck = BL_SPIN_CREDIT_MOST;
	for (const char *at = row->reads; *at; at++) {
		uint64_t before = bl_ticks();

		cq->wait_began = 0;
		cq->full += *at == '+';
		if (*at == '0')
			assert_int_equal(bl_cq_read(cq, NULL, 0, sizeof comp, NULL), -EAGAIN);
		if (*at == '-') {
			assert_int_equal(read_one(0), -EAGAIN);
			assert_in_range(cq->last_empty, before, bl_ticks());
		}
		if (*at == 'w')
			write_there();
		empty = *at == '0' || *at == 'w' ? empty : *at == '-';
		/* Whoever comes back late, and has seen that there is no more, was away. */
		assert_int_equal(bl_reads_are_rare(node.ep[0], bl_ticks() + us(2 * BL_AWAY_US)),
				 empty);
	}
	assert_int_equal(cq->wait_began != 0, row->wait);
	assert_int_equal(cq->crowd.read.luck,
			 BL_SPIN_CREDIT_MOST - (row->spins ? BL_SPIN_CREDIT_VAIN : 0));
	await(row->awaited, -1);
	node_close(&node);
}

/* --- what it does all the same --------------------------------------------------------- */

/* Of one who only ever finds something and then reads once more. */
static void looks_after_lives(void **state)
{
	struct bl_ep *ep;

	(void)state;
	node_open(&node, 2);
	ep = node.ep[0];
	for (int round = 0; round < 3; round++) {
		uint64_t due = bl_ticks() - 1;

		node.cq[0]->full = 0; /* each so many reads look anyway */
		node.cq[0]->empty_full = 1;
		ep->watch.next_look = due;
		assert_int_equal(bl_send_buf(ep, "x", 1, 1, 9, 0, NULL, NODE_FLAGS), 0);
		assert_int_equal(read_one(0), 1);
		assert_true(ep->watch.next_look == due);
		assert_int_equal(read_one(0), -EAGAIN);
		assert_true(ep->watch.next_look != due);
		node_settle(&node, 1);
	}
	node_close(&node);
}

#define LONG_BYTES 65536u

/* Eight early messages, of which each is over when its receive is posted. True: and none of them
 * took so long, from there until it was read, that this thread may have lost its core. */
static bool take_early(struct bl_ep *ep)
{
	static char from[LONG_BYTES], to[LONG_BYTES];
	bool undisturbed = true;
	uint64_t began;

	for (int round = 0; round < 8; round++) {
		node_send(&node, 1, 0, from, sizeof from, 7, NULL, NODE_FLAGS);
		node_settle(&node, 0);
		while (ep->ways.habit.left_at)
			bl_ep_progress(ep);
		ep->ways.habit.leaves = round ? ep->ways.habit.leaves : BL_LEAVES_MOST;
		began = bl_clock_ns();
		assert_int_equal(bl_recv_buf(ep, to, sizeof to, 1, 7, 0, NULL, NODE_FLAGS), 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, sizeof to);
		assert_int_equal(read_one(0), -EAGAIN);
		undisturbed &= bl_clock_ns() - began < 1000 * BL_AWAY_US;
		assert_true(!ep->ways.habit.left_at);
		compute(5 * BL_AWAY_US);
		node_completion(&node, 1, NULL);
		read_one(0);
	}
	return undisturbed;
}

/* A large message that has come early is over when its receive is posted: whoever computes then has
 * not left in the middle of anything. */
static void has_not_left(void **state)
{
	unsigned tries = 0;
	struct bl_ep *ep;

	(void)state;
	node_open(&node, 2);
	ep = node.ep[0];
	while (!take_early(ep) && ep->ways.habit.leaves && ++tries < 50)
		;
	assert_int_equal(ep->ways.habit.leaves, 0);
	node_close(&node);
}

#define MANY_BYTES (16u << 20)

/* Whoever has found something at each of his reads isn't away because the first empty one is still
 * under way: it doesn't copy megabytes to the end. */
static void is_not_away(void **state)
{
	char *from = calloc(2, MANY_BYTES), *to = calloc(2, MANY_BYTES);
	struct bl_ep *ep;
	struct bl_cq *cq;

	(void)state;
	assert_non_null(from);
	assert_non_null(to);
	node_open(&node, 2);
	ep = node.ep[0];
	cq = node.cq[0];
	ep->dest[1]->copy.pull = BL_COPY_VM;
	ep->ways.habit.leaves = node.ep[1]->ways.habit.leaves = 0;
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(bl_recv_buf(ep, to + i * MANY_BYTES, MANY_BYTES, 1, 7 + i, 0, NULL,
					     NODE_FLAGS),
				 0);
	for (uint64_t i = 0; i < 2; i++)
		node_send(&node, 1, 0, from + i * MANY_BYTES, MANY_BYTES, 7 + i, NULL, NODE_FLAGS);
	for (int i = 0; i < 1000 && ep->rndv.ntransfer < 2; i++)
		bl_progress(ep, &(struct bl_sink)BL_SINK_NONE);
	assert_int_equal(ep->rndv.ntransfer, 2);
	cq->full++;
	cq->last_empty = bl_ticks() - us(1000);
	cq->crowd.read.luck = BL_SPIN_CREDIT_MOST; /* it spins */
	ep->ways.habit.leaves = BL_LEAVES_MOST;
	ep->ways.habit.left_at = 0;
	ep->watch.next_look = bl_ticks() + BL_TICKS_AHEAD;
	assert_int_equal(read_one(0), -EAGAIN);
	assert_int_equal(ep->rndv.ntransfer, 2);
	while (ep->rndv.ntransfer + node.ep[1]->rndv.requests)
		node_progress(&node);
	node_close(&node);
	free(from);
	free(to);
}

int main(void)
{
	TABLE_ROWS("wait", is_a_wait, waits);
	TABLE_TEST(looks_after_lives);
	TABLE_TEST(has_not_left);
	TABLE_TEST(is_not_away);
	return table_run("empty");
}
