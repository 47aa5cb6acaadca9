/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * delegated_test.c: short one-sided operations that their target is asked to do
 * (transport/local/rma/delegated.h), where it doesn't, or not at once, or not to the end: it is
 * away, is stopped or dies in the middle, the lock of its memory is another's, its origin dies.
 * Each is done once or, where an error says so, not at all.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "transport/local/ways/rndv.h"
#include "endpoint/rma.h"
#include "transport/local/rma/rma.h"
#include "endpoint/txq.h"
#include "fault/promise.h"

#define KEY    77
#define TARGET 0
#define ORIGIN 1
#define THIRD  2
#define MANY   1000

static uint64_t mem[MANY], operand, result;
static bool injects;
static pid_t stopped; /* who is to go on: it may be about to stop only now */

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

static uint64_t counted(enum bl_stat stat)
{
	return atomic_load(&ep->local.stats->counter[stat].value);
}

static struct bl_mr *reg(int rank)
{
	struct iovec iov = {mem, sizeof mem};
	struct bl_mr_attr attr = {
		.iov = &iov, .niov = 1, .flags = BL_MR_READ | BL_MR_WRITE, .key = KEY};
	struct bl_mr *mr;

	RANK_CHECK(rank, !bl_mr_open(domain, &attr, &mr));
	return mr;
}

/* On the word `at` of the rank's memory: write `value`, read, or add it and fetch. */
static int begin(enum bl_rma_what kind, int to, uint64_t at, uint64_t value)
{
	struct iovec iov = {kind == BL_RMA_READ ? &result : &operand, 8}, out = {&result, 8};
	struct bl_rma_place place = {8 * at, 8, KEY};
	struct bl_rma rma = {.what = kind,
			     .type = BL_UINT64,
			     .op = kind >= BL_RMA_ATOMIC ? BL_ATOMIC_OP_SUM : 0,
			     .iov = &iov,
			     .niov = 1,
			     .result = &out,
			     .nresult = kind == BL_RMA_FETCH,
			     .place = &place,
			     .nplace = 1,
			     .dest = world_index[to],
			     .context = &operand,
			     .flags = BL_COMPLETION};
	int err;

	if (injects)
		rma.flags |= BL_INJECT;
	operand = value;
	err = bl_rma(ep, &rma);
	if (injects)
		operand = ~0ul; /* it is ours again */
	return err;
}

/* The end of one that has begun: 0 or a positive errno. */
static int end(int rank)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;

	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN) {
		if (stopped)
			kill(stopped, SIGCONT);
		if (deadline_over(&late))
			rank_fail(rank, "an operation doesn't end");
	}
	if (n == 1)
		return 0;
	RANK_CHECK(rank, n == -BL_EAVAIL && bl_cq_readerr(cq, &failed) == 1 && failed.err > 0);
	return failed.err;
}

static int one(int rank, enum bl_rma_what kind, int to, uint64_t at, uint64_t value)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	int err;

	while ((err = begin(kind, to, at, value)) == -EAGAIN) {
		bl_ep_progress(ep);
		sched_yield();
		if (deadline_over(&late))
			rank_fail(rank, "an operation can't begin");
	}
	return err ? -err : end(rank);
}

static struct bl_mr *open_rank(int rank, int count, const char *asks)
{
	struct bl_mr *mr;

	setenv("FI_BEELINE_RMA_DELEGATE", asks, 1);
	rank_open(rank, count);
	mr = reg(rank);
	atomic_store(&world->enough[rank], 1);
	for (int other = 0; other < count; other++) /* all of it is registered */
		rank_await(rank, &world->enough[other], 1);
	return mr;
}

static void close_rank(int rank, struct bl_mr *mr)
{
	bl_mr_close(mr);
	rank_close(rank);
}

/* --- it waits ------------------------------------------------------------------ */

/* Of each kind one, on the word `at`. */
static void three(int rank, uint64_t at)
{
	RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, at, at));
	RANK_CHECK(rank, !one(rank, BL_RMA_FETCH, TARGET, at, 7) && result == at);
	RANK_CHECK(rank, !one(rank, BL_RMA_READ, TARGET, at, 0) && result == at + 7);
}

static void waiting_rank(int rank)
{
	struct bl_mr *mr = open_rank(rank, 2, "always");

	if (rank == TARGET) {
		rank_reach_mark(rank, ORIGIN, 1);
		RANK_CHECK(rank, counted(BL_STAT_rma_served) > 0);
		for (uint64_t i = 0; i < MANY; i++)
			RANK_CHECK(rank, mem[i] == i + 7);
	} else {
		struct deadline late = deadline_in(WORLD_NS / 2);
		uint64_t rounds = 0;

		do { /* until it has had a core */
			for (uint64_t i = 0; i < MANY; i++)
				three(rank, i);
			rounds++;
		} while (!counted(BL_STAT_rma_by_target) && !deadline_over(&late));
		RANK_CHECK(rank, counted(BL_STAT_rma_by_target) > 0);
		RANK_CHECK(rank, counted(BL_STAT_rma_by_target) + counted(BL_STAT_rma_writes) +
						 counted(BL_STAT_rma_reads) +
						 counted(BL_STAT_rma_atomics) ==
					 rounds * 3 * MANY);
		atomic_store(&world->mark[rank], 1);
	}
	close_rank(rank, mr);
}

static void waits(void **state)
{
	world_start(2, waiting_rank);
	world_end(-1);
}

/* --- it is away ------------------------------------------------------------------ */

#define ASKED 20 /* the ring has room for them */

/* What was taken back isn't done again by a target that finds it later. */
static void away_rank(int rank)
{
	struct bl_mr *mr = open_rank(rank, 2, "always");
	uint64_t served;

	if (rank == TARGET) {
		rank_reach_mark(rank, ORIGIN, 1); /* connected; from here on it is away */
		served = counted(BL_STAT_rma_served);
		atomic_store(&world->mark[rank], 2);
		rank_await(rank, &world->mark[ORIGIN], 2);
		for (uint64_t i = 0; i < ASKED; i++) {
			RANK_CHECK(rank, mem[i] == i + 6);
			mem[i] = 99;
		}
		atomic_store(&world->mark[rank], 3);
		rank_reach_mark(rank, ORIGIN, 3);
		RANK_CHECK(rank, counted(BL_STAT_rma_served) <= served + 1); /* the last */
		for (uint64_t i = 0; i < ASKED; i++)
			RANK_CHECK(rank, mem[i] == (i ? 99 : 100));
	} else {
		while (one(rank, BL_RMA_WRITE, TARGET, MANY - 1, 1) ||
		       !world_peer(TARGET)->access.atomics_page) /* an atomic one needs more */
			one(rank, BL_RMA_FETCH, TARGET, MANY - 1, 1);
		atomic_store(&world->mark[rank], 1);
		rank_reach_mark(rank, TARGET, 2);

		uint64_t before = counted(BL_STAT_rma_taken_back);

		for (uint64_t i = 0; i < ASKED; i++) {
			RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, i, i));
			RANK_CHECK(rank, !one(rank, BL_RMA_FETCH, TARGET, i, 6) && result == i);
		}
		RANK_CHECK(rank, counted(BL_STAT_rma_taken_back) == before + 2 * ASKED);
		atomic_store(&world->mark[rank], 2);
		rank_await(rank, &world->mark[TARGET], 3);
		/* Behind them all. */
		while (one(rank, BL_RMA_FETCH, TARGET, 0, 1) || result != 99)
			rank_fail(rank, "it was %lu", (unsigned long)result);
		atomic_store(&world->mark[rank], 3);
	}
	close_rank(rank, mr);
}

static void is_away(void **state)
{
	world_start(2, away_rank);
	world_end(-1);
}

/* --- it stops in the middle -------------------------------------------------------- */

struct stop_row {
	struct row row;
	enum bl_window window;
	enum bl_rma_what kind;
};

static const struct stop_row stops[] = {
	{{"before a write", "it has it in hand"}, BL_WINDOW_SERVING, BL_RMA_WRITE},
	{{"after a write", "it has done it, and hasn't said so"}, BL_WINDOW_SERVED, BL_RMA_WRITE},
	{{"before a read", "as above"}, BL_WINDOW_SERVING, BL_RMA_READ},
	{{"before a fetch", "as above"}, BL_WINDOW_SERVING, BL_RMA_FETCH},
	{{"after a fetch", "as above"}, BL_WINDOW_SERVED, BL_RMA_FETCH},
};

static const struct stop_row *stop_row;

static void stop(void)
{
	atomic_store(&world->mark[TARGET], 2);
	raise(SIGSTOP);
}

/* Operations on word 0, until the target is stopped in one: how many, with that. */
static uint64_t until_stopped(int rank)
{
	struct bl_comp comp;
	uint64_t count = 0;

	for (;;) {
		while (begin(stop_row->kind, TARGET, 0, 5) == -EAGAIN)
			bl_ep_progress(ep);
		count++;
		while (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) != 1)
			if (atomic_load(&world->mark[TARGET]) == 2)
				return count;
		if (stop_row->kind == BL_RMA_FETCH)
			RANK_CHECK(rank, result == 5 * (count - 1));
	}
}

/* The call returns, operations with others go on, those with the same target wait; when that goes
 * on, each is done once, in order. */
static void stopped_rank(int rank)
{
	struct bl_mr *mr = open_rank(rank, 3, "always");

	if (rank == ORIGIN) {
		const struct bl_peer *target;
		uint64_t count;

		RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, THIRD, 0, 5));
		count = until_stopped(rank);
		target = world_peer(TARGET);
		result = ~0ul;
		RANK_CHECK(rank, !begin(BL_RMA_WRITE, TARGET, 0, 3));
		RANK_CHECK(rank, bl_rma_pending(ep, target) && target->txq->rma.n == 1);
		stopped = world->pid[TARGET];
		RANK_CHECK(rank, !end(rank));
		if (stop_row->kind == BL_RMA_FETCH)
			RANK_CHECK(rank, result == 5 * (count - 1));
		RANK_CHECK(rank, !end(rank)); /* the one that waited */
		RANK_CHECK(rank, !one(rank, BL_RMA_READ, TARGET, 0, 0) && result == 3);
		atomic_store(&world->mark[rank], 1);
	} else {
		if (rank == TARGET) {
			what = stop;
			where = stop_row->window;
		}
		rank_reach_mark(rank, ORIGIN, 1);
	}
	close_rank(rank, mr);
}

static void stops_in(void **state)
{
	stop_row = TABLE_ROW(struct stop_row, state);
	world_start(3, stopped_rank);
	world_end(-1);
}

/* --- and again ------------------------------------------------------------------------ */

static void by_target(int rank, uint64_t least)
{
	struct deadline late = deadline_in(WORLD_NS / 2);

	while (counted(BL_STAT_rma_by_target) < least) {
		RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, 0, 1));
		if (deadline_over(&late))
			rank_fail(rank, "the target isn't asked, or does nothing");
	}
}

/* It was once asked in vain, later it loses its core with one in hand: it is asked again. */
static void again_rank(int rank)
{
	static const struct stop_row row = {{"", ""}, BL_WINDOW_SERVED, BL_RMA_WRITE};
	struct bl_mr *mr = open_rank(rank, 2, "auto");

	((struct bl_copy_plan *)(uintptr_t)bl_copy_plan())->serve = true;
	stop_row = &row;
	if (rank == ORIGIN) {
		struct bl_peer *peer;
		uint64_t before;

		by_target(rank, 1);
		peer = world_peer(TARGET);
		peer->rma->vain = atomic_load(&peer->tx.lane->served) >> 16; /* it has been read */
		atomic_store(&world->mark[rank], 1);
		until_stopped(rank);
		stopped = world->pid[TARGET];
		RANK_CHECK(rank, !end(rank));
		before = counted(BL_STAT_rma_by_target);
		by_target(rank, before + 10);
		atomic_store(&world->mark[rank], 2);
	} else {
		rank_reach_mark(rank, ORIGIN, 1);
		what = stop;
		where = BL_WINDOW_SERVED;
		rank_reach_mark(rank, ORIGIN, 2);
	}
	close_rank(rank, mr);
}

static void asked_again(void **state)
{
	(void)state;
	world_start(2, again_rank);
	world_end(-1);
}

/* --- the lock of its memory is another's ------------------------------------------- */

/* Nothing ends while the lock is held. */
static void begins_in_vain(int rank)
{
	struct bl_comp comp;

	RANK_CHECK(rank, !begin(BL_RMA_FETCH, TARGET, 0, 1));
	for (int i = 0; i < 100; i++)
		RANK_CHECK(rank, bl_cq_read(cq, &comp, 1, sizeof comp, NULL) == -EAGAIN);
}

static void locked_rank(int rank)
{
	struct bl_atomics_page_wait wait = {0};
	struct bl_mr *mr;

	injects = true;
	mr = open_rank(rank, 3, rank == THIRD ? "never" : "always");
	if (rank == THIRD) {
		RANK_CHECK(rank, !one(rank, BL_RMA_ATOMIC, TARGET, 1, 1));
		rank_reach_mark(rank, ORIGIN, 1);
		RANK_CHECK(rank,
			   !bl_atomics_page_lock(world_peer(TARGET)->access.atomics_page, &wait));
		atomic_store(&world->mark[rank], 1);
		rank_reach_mark(rank, ORIGIN, 2);
		bl_atomics_page_unlock(world_peer(TARGET)->access.atomics_page);
	} else if (rank == ORIGIN) {
		RANK_CHECK(rank, !one(rank, BL_RMA_ATOMIC, TARGET, 0, 1));
		atomic_store(&world->mark[rank], 1);
		rank_reach_mark(rank, THIRD, 1);
		begins_in_vain(rank);
		atomic_store(&world->mark[rank], 2);
		RANK_CHECK(rank, !end(rank));
		RANK_CHECK(rank, result == 1);
		RANK_CHECK(rank, !one(rank, BL_RMA_READ, TARGET, 0, 0) && result == 2);
		atomic_store(&world->mark[rank], 3);
	}
	rank_reach_mark(rank, ORIGIN, 3);
	close_rank(rank, mr);
}

static void is_locked(void **state)
{
	world_start(3, locked_rank);
	world_end(-1);
}

/* --- one of them dies -------------------------------------------------------------- */

struct death_row {
	struct row row;
	enum bl_window window; /* of the target's */
	int victim;
};

static const struct death_row deaths[] = {
	{{"target, before", "it has it in hand"}, BL_WINDOW_SERVING, TARGET},
	{{"target, after", "it has done it, and hasn't said so"}, BL_WINDOW_SERVED, TARGET},
	{{"origin, before", "the target has it in hand"}, BL_WINDOW_SERVING, ORIGIN},
	{{"origin, after", "nobody is there to be told"}, BL_WINDOW_SERVED, ORIGIN},
};

static const struct death_row *death_row;

static void death(void)
{
	atomic_store(&world->hurt_at, bl_clock_ns());
	kill(world->pid[death_row->victim], SIGKILL);
}

static void death_rank(int rank)
{
	struct bl_mr *mr = open_rank(rank, 3, "always");
	int err;

	if (rank == TARGET) {
		what = death;
		where = death_row->window;
	}
	if (rank == ORIGIN) { /* dies, or sees the other's death */
		while (!(err = one(rank, BL_RMA_FETCH, TARGET, 0, 1)))
			;
		if (err != ECONNRESET)
			rank_fail(rank, "the target died: %s", strerror(err));
		promise_noticed(rank);
		RANK_CHECK(rank, one(rank, BL_RMA_WRITE, TARGET, 1, 1) == ECONNRESET);
	} else {
		while (!atomic_load(&world->hurt_at))
			bl_ep_progress(ep);
	}
	/* The survivors go on with each other. */
	if (rank == THIRD) {
		int other = death_row->victim == TARGET ? ORIGIN : TARGET;

		for (uint64_t i = 0; i < 100; i++)
			RANK_CHECK(rank, !one(rank, BL_RMA_FETCH, other, 2, 1) && result == i);
	}
	atomic_fetch_add(&world->mark[THIRD], 1);
	rank_reach_mark(rank, THIRD, 2);
	close_rank(rank, mr);
}

static void dies(void **state)
{
	death_row = TABLE_ROW(struct death_row, state);
	promise_watch();
	for (unsigned i = world_kills(20); i--;) {
		world_start(3, death_rank);
		promise_await_death(death_row->victim);
		world_end(death_row->victim);
		if (death_row->victim == TARGET)
			promise_judge(promise_late(ORIGIN));
	}
}

/* --- an origin lies ---------------------------------------------------------------- */

struct lie_row {
	struct row row;
	uint8_t what, op, nplace;
	uint64_t len;
	uint32_t size; /* of the packet */
};

static const struct lie_row lies[] = {
	{{"write of an atomic operation", "no operands come, and the stack isn't written"},
	 BL_RMA_WRITE,
	 BL_ATOMIC_OP_READ,
	 1,
	 256,
	 BL_DELEGATED_HEAD(1)},
	{{"write without bytes", "the same"}, BL_RMA_WRITE, 0, 1, 8, BL_DELEGATED_HEAD(1)},
	{{"too long", "more than a slot has"}, BL_RMA_WRITE, 0, 1, 257, BL_SLOT_INLINE},
	{{"brings too much", "more than there is room for"},
	 BL_RMA_READ,
	 0,
	 1,
	 177,
	 BL_DELEGATED_HEAD(1)},
	{{"no place", "of nothing"}, BL_RMA_READ, 0, 0, 0, BL_DELEGATED_HEAD(1)},
	{{"too many places", "nine"}, BL_RMA_READ, 0, 9, 8, BL_DELEGATED_HEAD(8)},
	{{"fewer places than it says", "the packet ends before"},
	 BL_RMA_READ,
	 0,
	 8,
	 8,
	 BL_DELEGATED_HEAD(2)},
	{{"lengths that overflow", "their sum is short"},
	 BL_RMA_READ,
	 0,
	 2,
	 1ull << 63,
	 BL_DELEGATED_HEAD(2)},
	{{"no such kind", "the first that isn't"}, BL_RMA_WHATS, 0, 1, 8, BL_DELEGATED_HEAD(1) + 8},
	{{"short", "a place is cut off"}, BL_RMA_READ, 0, 1, 8, BL_DELEGATED_HEAD(1) - 1},
};

static const struct lie_row *lie_row;

static void lie(struct bl_peer *peer)
{
	union {
		struct bl_rma_delegated serve;
		uint8_t bytes[BL_SLOT_INLINE];
	} out = {.serve = {.what = lie_row->what, .op = lie_row->op, .nplace = lie_row->nplace}};

	for (size_t i = 0; i < bl_countof(out.serve.place); i++)
		out.serve.place[i] = (struct bl_rma_place){0, lie_row->len, KEY};
	bl_put_packet(peer, BL_OP_RMA_DELEGATED, 0, 1, 0, &out, lie_row->size);
}

static bool is_given_up(int of)
{
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		const struct bl_peer *peer = ep->local.by_index[i];

		if (peer && !memcmp(peer->addr.id, world->addr[of].id, sizeof peer->addr.id))
			return peer->broken || peer->dead;
	}
	return false;
}

/* Who lies isn't listened to any more, and nothing is touched. */
static void lying_rank(int rank)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	struct bl_mr *mr;

	memset(mem, 0x11, sizeof mem);
	rank_is_mad = rank == ORIGIN;
	mr = open_rank(rank, 2, "always");
	if (rank == ORIGIN) {
		RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, 0, mem[0]));
		lie(world_peer(TARGET));
		rank_await(rank, &world->mark[TARGET], 1);
	} else {
		while (!is_given_up(ORIGIN)) {
			bl_ep_progress(ep);
			if (deadline_over(&late))
				rank_fail(rank, "a lie is believed");
		}
		for (uint64_t i = 0; i < MANY; i++)
			RANK_CHECK(rank, mem[i] == 0x1111111111111111u);
		atomic_store(&world->mark[rank], 1);
	}
	close_rank(rank, mr);
}

static void lies_to(void **state)
{
	lie_row = TABLE_ROW(struct lie_row, state);
	world_start(2, lying_rank);
	world_end(ORIGIN);
}

int main(void)
{
	TABLE_TEST(waits);
	TABLE_TEST(is_away);
	TABLE_ROWS("stops", stops_in, stops);
	TABLE_TEST(asked_again);
	TABLE_TEST(is_locked);
	TABLE_ROWS("dies", dies, deaths);
	TABLE_ROWS("lies", lies_to, lies);
	return table_run("delegated");
}
