/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * settled_test.c: an origin writes and counts as soon as it is told that it is connected, while
 * its target's own thread, which has said so, is held up before it acts on it. A value that the
 * target sets then replaces what was counted; none of it comes on top later. The thread waits in
 * the window (base/window.h) until the origin has counted and the target has set its value, or, as
 * that should wait for the thread, for a while.
 */
#include <string.h>

#include "endpoint/rma.h"
#include "fault/world.h"

#define TARGET	0
#define ORIGIN	1
#define KEY	77
#define WRITES	10u
#define VALUE	5u
#define STAY_NS 50000000u /* in the window */

/* world->mark, in this order */
enum { READY = 1, HELD, SET };
enum { COUNTED = 1 };

static bool i_am_target;

void bl_window(enum bl_window window, void *what)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	uint64_t until;

	if (!i_am_target || window != BL_WINDOW_AGREED || atomic_load(&world->mark[TARGET]) >= HELD)
		return;
	while (atomic_load(&world->mark[ORIGIN]) < COUNTED && !deadline_over(&late))
		;
	atomic_store(&world->mark[TARGET], HELD);
	until = bl_clock_ns() + STAY_NS;
	while (atomic_load(&world->mark[TARGET]) < SET && bl_clock_ns() < until)
		;
}

static void target(void)
{
	static uint64_t mem[WRITES];
	struct iovec iov = {mem, sizeof mem};
	struct bl_mr_attr attr = {.iov = &iov, .niov = 1, .flags = BL_MR_WRITE, .key = KEY};
	struct bl_cntr *cntr;
	struct bl_mr *mr;

	rank_open(TARGET, 2);
	RANK_CHECK(TARGET, !bl_cntr_open(domain, &cntr));
	RANK_CHECK(TARGET, !bl_mr_open(domain, &attr, &mr));
	RANK_CHECK(TARGET, !bl_mr_bind_cntr(mr, cntr, BL_REMOTE_WRITE));
	atomic_store(&world->mark[TARGET], READY);
	rank_await(TARGET, &world->mark[TARGET], HELD);
	RANK_CHECK(TARGET, atomic_load(&world->mark[ORIGIN]) == COUNTED);
	bl_cntr_set(cntr, VALUE);
	atomic_store(&world->mark[TARGET], SET);
	for (uint32_t i = 0; i < WRITES; i++)
		RANK_CHECK(TARGET, mem[i] == i + 1);
	rank_reach_mark(TARGET, ORIGIN, COUNTED + 1);
	for (int i = 0; i < 1000; i++)
		RANK_CHECK(TARGET, bl_cntr_read(cntr) == VALUE);
	bl_mr_close(mr);
	RANK_CHECK(TARGET, !bl_cntr_close(cntr));
	rank_close(TARGET);
}

static void write_one(uint64_t i)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	uint64_t value = i + 1;
	struct bl_rma_place place = {8 * i, 8, KEY};
	struct bl_rma rma = {.what = BL_RMA_WRITE,
			     .iov = &(struct iovec){&value, 8},
			     .niov = 1,
			     .place = &place,
			     .nplace = 1,
			     .dest = world_index[TARGET],
			     .flags = BL_COMPLETION};
	struct bl_comp comp;
	ssize_t n;
	int err;

	while ((err = bl_rma(ep, &rma)) == -EAGAIN) {
		bl_ep_progress(ep);
		RANK_CHECK(ORIGIN, !deadline_over(&late));
	}
	RANK_CHECK(ORIGIN, !err);
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		RANK_CHECK(ORIGIN, !deadline_over(&late));
	RANK_CHECK(ORIGIN, n == 1);
}

static void origin(void)
{
	rank_open(ORIGIN, 2);
	rank_await(ORIGIN, &world->mark[TARGET], READY);
	for (uint64_t i = 0; i < WRITES; i++)
		write_one(i);
	atomic_store(&world->mark[ORIGIN], COUNTED);
	rank_await(ORIGIN, &world->mark[TARGET], SET);
	atomic_store(&world->mark[ORIGIN], COUNTED + 1);
	rank_close(ORIGIN);
}

static void run(int rank)
{
	i_am_target = rank == TARGET;
	if (i_am_target)
		target();
	else
		origin();
}

/* By the operation's origin. */
static void counted_before_it_is_met(void **state)
{
	setenv("FI_BEELINE_RMA_DELEGATE", "never", 1);
	world_start(2, run);
	world_end(-1);
}

int main(void)
{
	TABLE_TEST(counted_before_it_is_met);
	return table_run("settled");
}
