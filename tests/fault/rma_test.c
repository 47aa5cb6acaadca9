/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma_test.c: one-sided operations when something goes wrong: the target dies, an
 * origin dies while the target works for it, a process dies with the lock of
 * another's memory, a region is closed under a copy.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/rma.h"
#include "core/atomic.h"
#include "fault/world.h"

#define KEY    77
#define TARGET 0
#define LENGTH (1u << 20)

static uint8_t mem[LENGTH], buf[LENGTH], result[LENGTH];

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
		reg(rank, LENGTH);
		atomic_store(&world->mark[rank], 1);
		await(rank, 1, 20); /* it is at it */
		die();
	}
	await(rank, TARGET, 1);
	mr = reg(rank, 8);
	while (!(err = one(rank, target_row->what, TARGET, target_row->len)))
		atomic_store(&world->mark[rank], ++done);
	if (err != ECONNRESET)
		rank_fail(rank, "the target died: %s", strerror(err));
	if (bl_clock_ns() - atomic_load(&world->hurt_at) > TOLERATED_NS)
		rank_fail(rank, "its death was noticed late");
	RANK_CHECK(rank, done >= 20);
	RANK_CHECK(rank, one(rank, target_row->what, TARGET, 8) == ECONNRESET);
	RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, 1, 8)); /* ourselves, as ever */
	bl_mr_close(mr);
	rank_close(rank);
}

static void target_dies(void **state)
{
	target_row = TABLE_ROW(struct target_row, state);
	world_start(2, target_rank);
	world_end(TARGET);
}

/* --- the origin dies while the target works for it --------------------------------- */

static void origin_rank(int rank)
{
	struct bl_mr *mr = NULL;

	if (rank)
		setenv("FI_BEELINE_COPY", "ring", 1);
	rank_open(rank, 3);
	if (rank == TARGET) {
		mr = reg(rank, LENGTH);
		atomic_store(&world->mark[rank], 1);
		await(rank, 2, 1);
		bl_mr_close(mr);
	} else if (rank == 1) {
		await(rank, TARGET, 1);
		RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, 8));
		RANK_CHECK(rank, !begin(BL_RMA_WRITE, TARGET, LENGTH));
		RANK_CHECK(rank, !begin(BL_RMA_FETCH, TARGET, LENGTH));
		die();
	} else {
		uint64_t until;

		while (!atomic_load(&world->hurt_at))
			bl_ep_progress(ep);
		await(rank, TARGET, 1);
		until = bl_clock_ns() + 2 * PROMISED_NS;
		while (bl_clock_ns() < until) { /* before and after it is noticed */
			RANK_CHECK(rank, !one(rank, BL_RMA_WRITE, TARGET, 100000));
			RANK_CHECK(rank, !one(rank, BL_RMA_FETCH, TARGET, 8000));
		}
		atomic_store(&world->mark[rank], 1);
	}
	rank_close(rank);
}

static void origin_dies(void **state)
{
	world_start(3, origin_rank);
	world_end(1);
}

/* --- a process dies with the lock ---------------------------------------------------- */

static void holder_rank(int rank)
{
	struct bl_commons_wait wait = {0};
	struct bl_mr *mr = NULL;
	uint64_t began;

	rank_open(rank, 3);
	if (rank == TARGET) {
		mr = reg(rank, LENGTH);
		atomic_store(&world->mark[rank], 1);
	} else {
		await(rank, TARGET, 1);
		RANK_CHECK(rank, !one(rank, BL_RMA_ATOMIC, TARGET, 8));
		if (rank == 1) {
			RANK_CHECK(rank, !bl_commons_lock(ep->dest[TARGET]->commons, &wait));
			RANK_CHECK(rank,
				   bl_commons_lock(ep->dest[TARGET]->commons, &wait) == -EAGAIN);
			die();
		}
	}
	while (!atomic_load(&world->hurt_at))
		bl_ep_progress(ep);
	began = bl_clock_ns();
	for (int i = 0; i < 100; i++)
		RANK_CHECK(rank, !one(rank, BL_RMA_FETCH, TARGET, 8));
	if (bl_clock_ns() - began > TOLERATED_NS)
		rank_fail(rank, "the lock of a dead process was taken over late");
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
	world_start(3, holder_rank);
	world_end(1);
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

int main(void)
{
	TABLE_ROWS("target dies", target_dies, targets);
	TABLE_TEST(origin_dies);
	TABLE_TEST(holder_dies);
	TABLE_TEST(closed_under_a_copy);
	return table_run("rma");
}
