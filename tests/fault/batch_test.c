/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * batch_test.c: short one-sided operations that are kept and done together
 * (transport/local/rma/batch.h), whose target stops or dies: before it hears of them, with them in
 * hand, or when it has done them. Each is done and ends once or, where an error says so, ends once.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "transport/local/rma/batch.h"
#include "transport/local/ways/rndv.h"
#include "endpoint/txq.h"
#include "fault/promise.h"

#define KEY    77
#define TARGET 0
#define ORIGIN 1
#define SOME   3 /* so many are kept, */
#define APART  2 /* in words so far apart */

static uint64_t mem[SOME * APART], out[SOME], in[SOME];

/* What happens to the target the next time that it comes there; 0: nothing. */
static enum bl_window where;
static void (*what)(void);

void bl_window(enum bl_window window, void *at)
{
	if (window != where || !what)
		return;
	where = 0;
	what();
}

static struct bl_mr *open_rank(int rank, const char *asks)
{
	struct iovec iov = {mem, sizeof mem};
	struct bl_mr_attr attr = {
		.iov = &iov, .niov = 1, .flags = BL_MR_READ | BL_MR_WRITE, .key = KEY};
	struct bl_mr *mr;

	setenv("FI_BEELINE_RMA_DELEGATE", asks, 1);
	setenv("FI_BEELINE_RMA_BATCH", "always", 1);
	rank_open(rank, 2);
	RANK_CHECK(rank, !bl_mr_open(domain, &attr, &mr));
	atomic_store(&world->enough[rank], 1);
	rank_await(rank, &world->enough[!rank], 1);
	return mr;
}

static void close_rank(int rank, struct bl_mr *mr)
{
	bl_mr_close(mr);
	rank_close(rank);
}

/* The i-th, on a word of its own. */
static int begin(enum bl_rma_what kind, uint64_t i)
{
	struct iovec iov = {kind == BL_RMA_READ ? &in[i] : &out[i], 8};
	struct bl_rma_place place = {8 * APART * i, 8, KEY};
	struct bl_rma rma = {.what = kind,
			     .iov = &iov,
			     .niov = 1,
			     .place = &place,
			     .nplace = 1,
			     .dest = world_index[TARGET],
			     .context = &out[i],
			     .flags = BL_COMPLETION};

	return bl_rma(ep, &rma);
}

static void begin_some(int rank, enum bl_rma_what kind)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	int err;

	for (uint64_t i = 0; i < SOME; i++)
		while ((err = begin(kind, i))) {
			RANK_CHECK(rank, err == -EAGAIN); /* not connected yet */
			bl_ep_progress(ep);
			sched_yield();
			if (deadline_over(&late))
				rank_fail(rank, "an operation can't begin");
		}
}

/* That end after them: the first of them once more, say. */
static uint64_t more;

/* So many end, in order: with 0 or a positive errno, each the same. Until then: `again`. */
static int end_some(int rank, void (*again)(void))
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	struct bl_comp_err failed = {0};
	struct bl_comp comp;
	int err = 0;

	for (uint64_t i = 0; i < SOME + more;) {
		ssize_t n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL);

		if (n == -EAGAIN) {
			if (again)
				again();
			if (deadline_over(&late))
				rank_fail(rank, "an operation doesn't end");
			continue;
		}
		if (n != 1) {
			RANK_CHECK(rank, bl_cq_readerr(cq, &failed) == 1 && failed.err > 0);
			comp = failed.comp;
		}
		RANK_CHECK(rank, comp.context == &out[i % SOME] && (!i || failed.err == err));
		err = failed.err;
		i++;
	}
	RANK_CHECK(rank, bl_cq_read(cq, &comp, 1, sizeof comp, NULL) == -EAGAIN);
	return err;
}

/* --- it stops in the middle -------------------------------------------------------- */

struct stop_row {
	struct row row;
	enum bl_window window;
	enum bl_rma_what kind;
};

static const struct stop_row stops[] = {
	{{"before writes", "it has them in hand"}, BL_WINDOW_SERVING, BL_RMA_WRITE},
	{{"after writes", "it has done them, and hasn't said so"}, BL_WINDOW_SERVED, BL_RMA_WRITE},
	{{"before reads", "as above"}, BL_WINDOW_SERVING, BL_RMA_READ},
	{{"after reads", "as above"}, BL_WINDOW_SERVED, BL_RMA_READ},
};

static const struct stop_row *stop_row;

static void stop(void)
{
	atomic_store(&world->mark[TARGET], 2);
	raise(SIGSTOP);
}

static void go_on(void)
{
	kill(world->pid[TARGET], SIGCONT); /* it may be about to stop only now */
}

/* Rounds of some, until the target is stopped in one: how many, with that. */
static uint64_t until_stopped(int rank)
{
	struct bl_comp comp;

	for (uint64_t round = 1;; round++) {
		for (uint64_t i = 0; i < SOME; i++) {
			out[i] = 100 * round + i;
			in[i] = ~0ul;
		}
		begin_some(rank, stop_row->kind);
		for (uint64_t ended = 0; ended < SOME;) {
			if (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) == 1)
				ended++;
			else if (atomic_load(&world->mark[TARGET]) == 2)
				return round;
		}
	}
}

static void check_some(int rank, uint64_t round)
{
	more = 1;
	RANK_CHECK(rank, !end_some(rank, go_on));
	more = 0;
	for (uint64_t i = 0; i < SOME && stop_row->kind == BL_RMA_READ; i++)
		RANK_CHECK(rank, in[i] == 7 + i);
	begin_some(rank, BL_RMA_READ);
	RANK_CHECK(rank, !end_some(rank, NULL));
	for (uint64_t i = 0; i < SOME; i++)
		RANK_CHECK(rank,
			   in[i] == (stop_row->kind == BL_RMA_READ && i ? 7 + i : 100 * round + i));
}

/* Nothing that comes later overtakes them, and they end when the target goes on. */
static void stopped_rank(int rank)
{
	struct bl_mr *mr = open_rank(rank, "always");

	for (uint64_t i = 0; i < SOME; i++)
		mem[APART * i] = 7 + i;
	if (rank == ORIGIN) {
		uint64_t round = until_stopped(rank);
		const struct bl_peer *target = world_peer(TARGET);
		bool reads = stop_row->kind == BL_RMA_READ;

		RANK_CHECK(rank, !begin(reads ? BL_RMA_WRITE : BL_RMA_READ, 0));
		RANK_CHECK(rank, bl_rma_pending(ep, target) && target->txq->rma.n == 1);
		RANK_CHECK(rank, target->rma->combine->asked == SOME);
		check_some(rank, round);
		atomic_store(&world->mark[rank], 1);
	} else {
		what = stop;
		where = stop_row->window;
		rank_reach_mark(rank, ORIGIN, 1);
	}
	close_rank(rank, mr);
}

static void stops_in(void **state)
{
	stop_row = TABLE_ROW(struct stop_row, state);
	world_start(2, stopped_rank);
	world_end(-1);
}

/* --- it dies ----------------------------------------------------------------------- */

struct death_row {
	struct row row;
	enum bl_window window; /* 0: when they are kept, before anybody hears of them */
	const char *asks;
};

static const struct death_row deaths[] = {
	{{"with them in hand", "nothing is done"}, BL_WINDOW_SERVING, "always"},
	{{"when it has done them", "it hasn't said so"}, BL_WINDOW_SERVED, "always"},
	{{"before it is asked", "they are kept"}, 0, "always"},
	{{"before they are copied", "they are kept"}, 0, "never"},
};

static const struct death_row *death_row;

static void death(void)
{
	atomic_store(&world->hurt_at, bl_clock_ns());
	kill(world->pid[TARGET], SIGKILL);
}

static void death_rank(int rank)
{
	struct bl_mr *mr = open_rank(rank, death_row->asks);
	int err;

	if (rank == TARGET) {
		what = death;
		where = death_row->window;
		while (!atomic_load(&world->hurt_at))
			bl_ep_progress(ep);
		return;
	}
	begin_some(rank, BL_RMA_WRITE);
	RANK_CHECK(rank, death_row->window || !end_some(rank, NULL));
	if (!death_row->window) {
		begin_some(rank, BL_RMA_WRITE);
		RANK_CHECK(rank, world_peer(TARGET)->rma->combine->n == SOME);
		death();
	}
	while (!(err = end_some(rank, NULL)))
		begin_some(rank, BL_RMA_WRITE);
	if (err != ECONNRESET)
		rank_fail(rank, "the target died: %s", strerror(err));
	promise_noticed(rank);
	close_rank(rank, mr);
}

static void dies(void **state)
{
	death_row = TABLE_ROW(struct death_row, state);
	promise_watch();
	for (unsigned i = world_kills(20); i--;) {
		world_start(2, death_rank);
		promise_await_death(TARGET);
		world_end(TARGET);
		promise_judge(promise_late(ORIGIN));
	}
}

int main(void)
{
	TABLE_ROWS("stops", stops_in, stops);
	TABLE_ROWS("dies", dies, deaths);
	return table_run("batch");
}
