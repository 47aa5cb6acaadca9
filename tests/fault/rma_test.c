/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma_test.c: one-sided operations when something goes wrong: the target dies, an
 * origin dies while the target works for it or after it has counted what it did, a process dies
 * with the lock of another's memory, a region is closed under a copy. BEELINE_KILLS: deaths.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "endpoint/rma.h"
#include "fault/promise.h"

#define KEY    77
#define TARGET 0
#define LENGTH (1u << 20)
#define KINDS  12 /* of deaths: BEELINE_KILLS is of all together */

#define PARTS (2 * BL_RMA_PART + 8)

static uint8_t mem[PARTS], buf[PARTS], result[PARTS];

static struct bl_mr *reg(int rank, size_t len)
{
	struct iovec iov = {mem, len};
	struct bl_mr_attr attr = {
		.iov = &iov, .niov = 1, .flags = BL_MR_READ | BL_MR_WRITE, .key = KEY};
	struct bl_mr *mr;

	RANK_CHECK(rank, !bl_mr_open(domain, &attr, &mr));
	return mr;
}

/* Begin one on rank `to`; the error of the call. */
static int begin(enum bl_rma_what what, int to, size_t len)
{
	struct iovec iov = {buf, len}, out = {result, len};
	struct bl_rma_place place = {0, len, KEY};
	struct bl_rma rma = {.what = what,
			     .type = BL_UINT64,
			     .op = what >= BL_RMA_ATOMIC ? BL_ATOMIC_OP_SUM : 0,
			     .iov = &iov,
			     .niov = 1,
			     .result = &out,
			     .nresult = what == BL_RMA_FETCH,
			     .place = &place,
			     .nplace = 1,
			     .dest = (uint64_t)to,
			     .context = buf,
			     .flags = BL_COMPLETION};

	return bl_rma(ep, &rma);
}

/* One, start to end; 0 or a positive errno. */
static int one(int rank, enum bl_rma_what what, int to, size_t len)
{
	uint64_t until = bl_clock_ns() + WORLD_NS / 2;
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;
	int err;

	while ((err = begin(what, to, len)) == -EAGAIN) {
		bl_ep_progress(ep);
		sched_yield();
		if (bl_clock_ns() > until)
			rank_fail(rank, "an operation can't begin");
	}
	if (err)
		return -err;
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN) {
		sched_yield();
		if (bl_clock_ns() > until)
			rank_fail(rank, "an operation doesn't end");
	}
	if (n == 1)
		return 0;
	RANK_CHECK(rank, n == -BL_EAVAIL && bl_cq_readerr(cq, &failed) == 1);
	RANK_CHECK(rank, failed.err > 0);
	return failed.err;
}

static void await(int rank, int of, uint32_t mark)
{
	uint64_t until = bl_clock_ns() + WORLD_NS / 2;

	while (atomic_load(&world->mark[of]) < mark) {
		bl_ep_progress(ep);
		sched_yield();
		if (bl_clock_ns() > until)
			rank_fail(rank, "rank %d never came to its mark %u", of, mark);
	}
}

/* How many deaths of each kind. */
static unsigned rounds(void)
{
	return (world_kills(KINDS) + KINDS - 1) / KINDS;
}

/* Kill the rank, again and again, and look how late the others noticed. */
static void die_in_turn(int count, void (*run)(int rank), int victim)
{
	uint64_t latest = 0;

	promise_watch();
	for (unsigned round = 0; round < rounds(); round++) {
		world_start(count, run);
		promise_await_death(victim);
		world_end(victim);
		for (int rank = 0; rank < count; rank++)
			if (rank != victim && promise_late(rank) > latest)
				latest = promise_late(rank);
	}
	print_message("             %u deaths, all over at most %.1f ms after the end of the "
		      "process, without what the machine took\n",
		      rounds(), (double)latest / 1e6);
	promise_judge(latest);
}

static _Noreturn void die(void)
{
	atomic_store(&world->hurt_at, bl_clock_ns());
	raise(SIGKILL);
	abort();
}

/* --- the target dies ------------------------------------------------------------ */

struct target_row {
	struct row row;
	enum bl_rma_what what;
	const char *copy; /* FI_BEELINE_COPY */
	size_t len;
};

static const struct target_row targets[] = {
	{{"write", "its memory is being written"}, BL_RMA_WRITE, "auto", LENGTH},
	{{"short write", "many"}, BL_RMA_WRITE, "auto", 8},
	{{"read", "its memory is being read"}, BL_RMA_READ, "auto", LENGTH},
	{{"atomic", "its lock is ours"}, BL_RMA_ATOMIC, "auto", 8},
	{{"long atomic", "for long"}, BL_RMA_ATOMIC, "auto", LENGTH},
	{{"write by its hand", "half of it is there"}, BL_RMA_WRITE, "ring", LENGTH},
	{{"read by its hand", "half of it is here"}, BL_RMA_READ, "ring", LENGTH},
	{{"fetch by its hand", "operands go, results come"}, BL_RMA_FETCH, "ring", 100000},
	{{"long fetch by its hand", "in three parts"}, BL_RMA_FETCH, "ring", PARTS},
};

static const struct target_row *target_row;

static void target_rank(int rank)
{
	struct bl_mr *mr;
	unsigned done = 0;
	int err;

	setenv("FI_BEELINE_COPY", target_row->copy, 1);
	rank_open(rank, 2);
	if (rank == TARGET) {
		reg(rank, sizeof mem);
		atomic_store(&world->mark[rank], 1);
		await(rank, 1, 20); /* it is at it */
		die();
	}
	await(rank, TARGET, 1);
	mr = reg(rank, 8);
	while (!(err = one(rank, target_row->what, TARGET, target_row->len)))
		atomic_store(&world->mark[rank], ++done);
	promise_noticed(rank);
	if (err != ECONNRESET)
		rank_fail(rank, "the target died: %s", strerror(err));
	RANK_CHECK(rank, done >= 20);
	RANK_CHECK(rank, one(rank, target_row->what, TARGET, 8) == ECONNRESET);
	RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, 1, 8)); /* ourselves, as ever */
	bl_mr_close(mr);
	rank_close(rank);
}

static void target_dies(void **state)
{
	target_row = TABLE_ROW(struct target_row, state);
	die_in_turn(2, target_rank, TARGET);
}

/* --- the origin dies while the target works for it --------------------------------- */

static bool is_a_neighbour(int of)
{
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		const struct bl_peer *peer = ep->local.by_index[i];

		if (peer && !memcmp(peer->addr.id, world->addr[of].id, sizeof peer->addr.id))
			return true;
	}
	return false;
}

static void await_the_end_of(int rank, int of)
{
	struct deadline late = deadline_in(WORLD_NS / 2);

	while (!atomic_load(&world->hurt_at) || is_a_neighbour(of)) {
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(rank, "the death of rank %d isn't noticed", of);
	}
}

static void origin_rank(int rank)
{
	struct bl_mr *mr = NULL;

	if (rank)
		setenv("FI_BEELINE_COPY", "ring", 1);
	rank_open(rank, 3);
	if (rank == TARGET) {
		mr = reg(rank, sizeof mem);
		atomic_store(&world->mark[rank], 1);
		await_the_end_of(rank, 1);
		promise_noticed(rank);
		atomic_store(&world->mark[rank], 2);
		await(rank, 2, 1);
		bl_mr_close(mr);
	} else if (rank == 1) {
		await(rank, TARGET, 1);
		RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, 8));
		RANK_CHECK(rank, !begin(BL_RMA_WRITE, TARGET, LENGTH));
		RANK_CHECK(rank, !begin(BL_RMA_FETCH, TARGET, PARTS));
		die();
	} else {
		uint32_t noticed;

		while (!atomic_load(&world->hurt_at))
			bl_ep_progress(ep);
		await(rank, TARGET, 1);
		do { /* before and after it is noticed */
			noticed = atomic_load(&world->mark[TARGET]);
			RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, 100000));
			RANK_CHECK(rank, !one(rank, BL_RMA_FETCH, TARGET, 8000));
		} while (noticed < 2);
		atomic_store(&world->mark[rank], 1);
	}
	rank_close(rank);
}

static void origin_dies(void **state)
{
	die_in_turn(3, origin_rank, 1);
}

/* --- the origin dies, and its target hasn't looked ------------------------------------- */

static void counted_rank(int rank)
{
	enum { WRITES = 1000 };
	struct bl_cntr *cntr;
	struct bl_mr *mr;

	rank_open(rank, 2);
	if (rank != TARGET) {
		while (!atomic_load(&world->mark[TARGET]))
			sched_yield();
		for (int i = 0; i < WRITES; i++)
			RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, 8));
		die();
	}
	mr = reg(rank, LENGTH);
	RANK_CHECK(rank, !bl_cntr_open(domain, &cntr));
	RANK_CHECK(rank, !bl_mr_bind_cntr(mr, cntr, BL_REMOTE_WRITE));
	atomic_store(&world->mark[rank], 1);
	while (!atomic_load(&world->hurt_at))
		sched_yield();
	bl_ep_progress(ep); /* who it is */
	await_the_end_of(rank, 1);
	promise_noticed(rank);
	RANK_CHECK(rank, bl_cntr_read(cntr) == WRITES);
	bl_mr_close(mr);
	RANK_CHECK(rank, !bl_cntr_close(cntr));
	rank_close(rank);
}

static void counted_dies(void **state)
{
	die_in_turn(2, counted_rank, 1);
}

/* --- a process dies with the lock ---------------------------------------------------- */

static void holder_rank(int rank)
{
	struct bl_atomics_page_wait wait = {0};
	struct bl_mr *mr = NULL;

	rank_open(rank, 3);
	if (rank == TARGET) {
		mr = reg(rank, LENGTH);
		atomic_store(&world->mark[rank], 1);
	} else {
		await(rank, TARGET, 1);
		RANK_CHECK(rank, !one(rank, BL_RMA_ATOMIC, TARGET, 8));
		if (rank == 1) {
			RANK_CHECK(rank, !bl_atomics_page_lock(
						 world_peer(TARGET)->access.atomics_page, &wait));
			RANK_CHECK(rank,
				   bl_atomics_page_lock(world_peer(TARGET)->access.atomics_page,
							&wait) == -EAGAIN);
			die();
		}
	}
	while (!atomic_load(&world->hurt_at))
		bl_ep_progress(ep);
	RANK_CHECK(rank, !one(rank, BL_RMA_FETCH, TARGET, 8));
	promise_noticed(rank);
	for (int i = 0; i < 100; i++)
		RANK_CHECK(rank, !one(rank, BL_RMA_FETCH, TARGET, 8));
	atomic_fetch_add(&world->mark[rank], 1);
	await(rank, TARGET, 2);
	await(rank, 2, 1);
	if (mr) {
		uint64_t value;

		memcpy(&value, mem, sizeof value);
		RANK_CHECK(rank, value == 0); /* all added 0 */
		bl_mr_close(mr);
	}
	rank_close(rank);
}

static void holder_dies(void **state)
{
	die_in_turn(3, holder_rank, 1);
}

/* --- somebody takes the lock in the middle of a long operation, and keeps it ------------ */

struct keeper_row {
	struct row row;
	bool dies;
};

static const struct keeper_row keepers[] = {
	{{"gives it back", "it was stopped, say"}, false},
	{{"dies with it", "it is taken over"}, true},
};

static const struct keeper_row *keeper_row;

/* Rank 1 has the lock (mark: how many times so far) until rank 2 has seen that. */
#define MIDWAY (1u << 31) /* in rank 2's mark: a part of its operation is done */

static void keep_lock(int rank)
{
	struct bl_atomics_page_wait wait = {0};
	struct bl_atomics_page *atomics_page = world_peer(TARGET)->access.atomics_page;
	uint64_t until = bl_clock_ns() + WORLD_NS / 2;
	uint32_t seen;

	for (uint32_t times = 1;; times++) {
		while (bl_atomics_page_lock(atomics_page, &wait))
			if (bl_clock_ns() > until)
				rank_fail(rank, "no turn");
		atomic_store(&world->mark[rank], times);
		while (((seen = atomic_load(&world->mark[2])) & ~MIDWAY) != times)
			if (bl_clock_ns() > until)
				rank_fail(rank, "a call waits for the lock");
		if (seen & MIDWAY && keeper_row->dies)
			die();
		bl_atomics_page_unlock(atomics_page);
		if (seen & MIDWAY)
			return;
	}
}

/* One operation; whether it was interrupted and is not over. */
static bool interrupted(int rank)
{
	uint32_t times = atomic_load(&world->mark[rank]);
	struct bl_comp comp;
	bool midway = false;
	ssize_t n;
	int err = begin(BL_RMA_ATOMIC, TARGET, LENGTH);

	RANK_CHECK(rank, !err || err == -EAGAIN);
	if (!err) {
		n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL);
		RANK_CHECK(rank, n == 1 || n == -EAGAIN);
		midway = n != 1;
	}
	if (midway) {
		while (atomic_load(&world->mark[1]) == times)
			sched_yield();
		RANK_CHECK(rank, !begin(BL_RMA_WRITE, TARGET, 8)); /* no overtaking */
	}
	times = atomic_load(&world->mark[1]);
	atomic_store(&world->mark[rank], times | (midway ? MIDWAY : 0));
	return midway;
}

static void keeper_rank(int rank)
{
	struct bl_mr *mr = NULL;
	struct bl_comp comp;
	uint64_t began;

	rank_open(rank, 3);
	for (size_t i = 0; i < LENGTH; i += 8)
		buf[i] = 1;
	if (rank == TARGET) {
		mr = reg(rank, LENGTH);
		atomic_store(&world->mark[rank], 1);
		await(rank, 2, UINT32_MAX);
		for (size_t i = 8; i < LENGTH; i++)
			RANK_CHECK(rank, mem[i] == mem[8 + i % 8]);
		RANK_CHECK(rank, mem[0] == 1); /* written behind all that was added */
		bl_mr_close(mr);
		rank_close(rank);
		return;
	}
	await(rank, TARGET, 1);
	memset(buf, 0, 8);
	RANK_CHECK(rank, !one(rank, BL_RMA_ATOMIC, TARGET, 8));
	buf[0] = 1;
	if (rank == 1) {
		rank_await(rank, &world->enough[2], 1);
		keep_lock(rank);
	} else {
		atomic_store(&world->enough[rank], 1);
		began = bl_clock_ns();
		while (!interrupted(rank))
			if (bl_clock_ns() - began > WORLD_NS / 2)
				rank_fail(rank, "nobody ever got between");
		began = bl_clock_ns();
		while (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) == -EAGAIN)
			if (bl_clock_ns() - began > TOLERATED_NS)
				rank_fail(rank, "its rest never came");
		RANK_CHECK(rank, comp.flags & BL_ATOMIC);
		while (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) == -EAGAIN)
			if (bl_clock_ns() - began > TOLERATED_NS)
				rank_fail(rank, "what was behind it never came");
		atomic_store(&world->mark[rank], UINT32_MAX);
	}
	rank_close(rank);
}

static void keeps_lock(void **state)
{
	keeper_row = TABLE_ROW(struct keeper_row, state);
	world_start(3, keeper_rank);
	world_end(keeper_row->dies ? 1 : -1);
}

/* --- a region is closed under a copy --------------------------------------------------- */

static bool untouched(uint8_t byte)
{
	for (size_t i = 0; i < LENGTH; i++)
		if (mem[i] != byte)
			return false;
	return true;
}

static void closing_rank(int rank)
{
	enum { ROUNDS = 60 };

	rank_open(rank, 2);
	memset(buf, 0x11, sizeof buf);
	if (rank == TARGET) {
		for (uint32_t i = 1; i <= ROUNDS; i++) {
			struct bl_mr *mr = reg(rank, LENGTH);
			volatile uint8_t *last = &mem[(i * 7919) % LENGTH];

			atomic_store(&world->mark[rank], i);
			for (uint64_t until = bl_clock_ns() + WORLD_NS / 2; *last != 0x11;)
				if (bl_clock_ns() > until)
					rank_fail(rank, "nobody writes");
			bl_mr_close(mr);
			memset(mem, 0x22, sizeof mem);
			for (int k = 0; k < 3; k++) {
				RANK_CHECK(rank, untouched(0x22));
				sched_yield();
			}
		}
		atomic_store(&world->mark[rank], ROUNDS + 1);
	} else {
		await(rank, TARGET, 1);
		while (atomic_load(&world->mark[TARGET]) <= ROUNDS) {
			int err = one(rank, BL_RMA_WRITE, TARGET, LENGTH);

			RANK_CHECK(rank, !err || err == EKEYREJECTED);
		}
		atomic_store(&world->mark[rank], 1);
	}
	await(rank, 1, 1);
	rank_close(rank);
}

static void closed_under_a_copy(void **state)
{
	world_start(2, closing_rank);
	world_end(-1);
}

/* The origin is killed in the middle of a copy. Its life ends before the last of its threads
 * does: the close waits for that, too. */
static void killing_rank(int rank)
{
	struct bl_mr *mr;
	volatile uint8_t *begun = &mem[64];

	rank_open(rank, 2);
	memset(buf, 0x11, sizeof buf);
	if (rank != TARGET) {
		await(rank, TARGET, 1);
		for (;;)
			one(rank, BL_RMA_WRITE, TARGET, LENGTH);
	}
	mr = reg(rank, LENGTH);
	atomic_store(&world->mark[rank], 1);
	for (uint64_t until = bl_clock_ns() + WORLD_NS / 2; *begun != 0x11;)
		if (bl_clock_ns() > until)
			rank_fail(rank, "nobody writes");
	*begun = 0x22; /* and now in the middle of the next one */
	while (*begun != 0x11)
		;
	kill(world->pid[!rank], SIGKILL);
	bl_mr_close(mr);
	memset(mem, 0x22, sizeof mem);
	for (uint64_t until = bl_clock_ns() + 2000000u; bl_clock_ns() < until;)
		RANK_CHECK(rank, untouched(0x22));
	rank_close(rank);
}

static void closed_under_a_dying_copy(void **state)
{
	for (unsigned i = world_kills(60); i--;) {
		world_start(2, killing_rank);
		world_end(!TARGET);
	}
}

int main(void)
{
	/* Short ones, too, by the origin's hand, or by message: delegated_test.c has the others. */
	setenv("FI_BEELINE_RMA_DELEGATE", "never", 1);
	TABLE_ROWS("target dies", target_dies, targets);
	TABLE_TEST(origin_dies);
	TABLE_TEST(counted_dies);
	TABLE_TEST(holder_dies);
	TABLE_ROWS("keeps the lock", keeps_lock, keepers);
	TABLE_TEST(closed_under_a_copy);
	TABLE_TEST(closed_under_a_dying_copy);
	return table_run("rma");
}
