/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * close_test.c: a receiver closes its endpoint while its sender, who helps, has taken a
 * chunk and is about to write it. When the close has returned the buffer is the
 * receiver's again: no byte of it may change any more. The sender waits in the window
 * (base/window.h) until the other has closed, or, as that should wait for it, for a
 * while. The same for a region and one who writes there, whose write is counted. Where the other
 * is stopped in the window it is waited for as well, but not for ever; and what it counts when
 * it goes on is counted for nobody.
 */
#include <signal.h>
#include <string.h>

#include "endpoint/rma.h"
#include "fault/world.h"

#define LEN	(4u << 20)
#define STAY_NS 200000000u    /* in the window; less than a close waits at most */
#define WAIT_NS 1000000000ull /* a close waits for one that is stopped, about */
#define MINE	0xee
#define KEY	77

/* world->mark: of 1 where it is; of 0 whether it may begin, and has closed. */
enum { TAKEN = 1, WRITTEN, READY, CLOSED };

static bool i_send, i_stop;

static void stay_a_while(void)
{
	uint64_t until = bl_clock_ns() + STAY_NS;

	while (atomic_load(&world->mark[0]) != CLOSED && bl_clock_ns() < until)
		;
}

void bl_window(enum bl_window window, void *what)
{
	if (!i_send)
		return;
	if (window == BL_WINDOW_PUSHED)
		atomic_store(&world->mark[1], WRITTEN);
	if (window != BL_WINDOW_HELPING && window != BL_WINDOW_REACHING)
		return;
	if (atomic_exchange(&world->mark[1], TAKEN))
		return;
	if (i_stop)
		raise(SIGSTOP);
	else
		stay_a_while();
}

/* Until it has helped with one. */
static void send_some(void)
{
	uint8_t *buf = malloc(LEN);
	struct iovec iov = {buf, LEN};
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;

	RANK_CHECK(1, buf);
	memset(buf, 0x11, LEN);
	rank_open(1, 2);
	struct bl_send send = {&iov, 1, world_index[0], 1, 0, NULL, BL_TAGGED | BL_COMPLETION,
			       NULL};

	while (!atomic_load(&world->mark[1])) {
		while (bl_send(ep, &send))
			bl_ep_progress(ep);
		while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
			;
		RANK_CHECK(1, n == 1 || bl_cq_readerr(cq, &failed) == 1);
	}
	rank_close(1);
	free(buf);
}

/* The receiver may be done alone before the sender has seen that it may help. */
static void receive_until_helped(uint8_t *buf)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	struct bl_comp comp;
	ssize_t n = 1;

	while (!atomic_load(&world->mark[1])) {
		if (n == 1)
			RANK_CHECK(0, !bl_recv_buf(ep, buf, LEN, world_index[1], 1, 0, NULL,
						   BL_TAGGED | BL_COMPLETION));
		n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL);
		RANK_CHECK(0, (n == 1 || n == -EAGAIN) && !deadline_over(&late));
	}
}

/* For a close that began then. */
static void must_have_waited(uint64_t began)
{
	uint64_t took = bl_clock_ns() - began;

	if (took + WAIT_NS / 100 < WAIT_NS || took > WAIT_NS + TOLERATED_NS / 2)
		rank_fail(0, "a close took %lu ms while the other was stopped in a copy",
			  (unsigned long)(took / 1000000));
}

static void await_mark(int rank, int of, uint32_t mark)
{
	struct deadline late = deadline_in(WORLD_NS / 2);

	while (atomic_load(&world->mark[of]) != mark) {
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(rank, "rank %d never came to its mark %u", of, mark);
	}
}

static void close_under_way(void)
{
	uint8_t *buf = malloc(LEN), *mine = malloc(LEN);
	uint64_t until, began;

	RANK_CHECK(0, buf && mine);
	memset(mine, MINE, LEN);
	rank_open(0, 2);
	receive_until_helped(buf);
	began = bl_clock_ns();
	rank_close(0);
	if (i_stop) {
		must_have_waited(began);
		kill(world->pid[1], SIGCONT);
	}
	memset(buf, MINE, LEN);
	atomic_store(&world->mark[0], CLOSED);
	until = bl_clock_ns() + WORLD_NS / 2;
	while (atomic_load(&world->mark[1]) != WRITTEN && bl_clock_ns() < until)
		;
	RANK_CHECK(0, atomic_load(&world->mark[1]) == WRITTEN);
	if (!i_stop && memcmp(buf, mine, LEN))
		rank_fail(0, "the sender wrote into a buffer of a closed endpoint");
	free(buf);
	free(mine);
}

static void run(int rank)
{
	i_send = rank;
	if (rank)
		send_some();
	else
		close_under_way();
}

static void close_among(bool stopped)
{
	i_stop = stopped;
	setenv("FI_BEELINE_SPLIT_MIN", "64k", 1);
	setenv("FI_BEELINE_OVERLAP", "never", 1);
	world_start(2, run);
	world_end(-1);
}

static void helped(void **state)
{
	close_among(false);
}

static void helper_is_stopped(void **state)
{
	close_among(true);
}

/* --- a region ---------------------------------------------------------------- */

static struct bl_cntr *cntr;
static uint32_t numbers_seen;

/* With a counter of its own, which is another's successor. */
static struct bl_mr *region(uint8_t *mem)
{
	struct iovec iov = {mem, LEN};
	struct bl_mr_attr attr = {.iov = &iov, .niov = 1, .flags = BL_MR_WRITE, .key = KEY};
	struct bl_mr *mr;

	RANK_CHECK(0, !cntr || !bl_cntr_close(cntr));
	RANK_CHECK(0, !bl_cntr_open(domain, &cntr));
	RANK_CHECK(0, !bl_mr_open(domain, &attr, &mr));
	RANK_CHECK(0, !bl_mr_bind_cntr(mr, cntr, BL_REMOTE_WRITE));
	numbers_seen |= 1u << cntr->number;
	return mr;
}

static void write_one(const uint8_t *buf)
{
	struct iovec iov = {(void *)(uintptr_t)buf, LEN};
	struct bl_rma_place place = {0, LEN, KEY};
	struct bl_rma rma = {.what = BL_RMA_WRITE,
			     .iov = &iov,
			     .niov = 1,
			     .place = &place,
			     .nplace = 1,
			     .dest = world_index[0],
			     .flags = BL_COMPLETION};
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;

	while (bl_rma(ep, &rma))
		bl_ep_progress(ep);
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		;
	RANK_CHECK(1, n == 1 || bl_cq_readerr(cq, &failed) == 1);
	atomic_store(&world->mark[1], WRITTEN);
}

/* Writes once and is stopped in it, and once more and isn't. */
static void write_twice(void)
{
	uint8_t *buf = malloc(LEN);

	RANK_CHECK(1, buf);
	memset(buf, 0x11, LEN);
	rank_open(1, 2);
	await_mark(1, 0, READY);
	i_stop = true;
	write_one(buf);
	await_mark(1, 0, CLOSED);
	i_stop = false;
	atomic_store(&world->mark[1], 0);
	await_mark(1, 0, READY);
	write_one(buf);
	await_mark(1, 0, CLOSED);
	rank_close(1);
	free(buf);
}

/* The copy that has been waited for isn't again; later ones of the same process are. */
static void close_regions(void)
{
	uint8_t *mem = malloc(LEN), *mine = malloc(LEN);
	struct bl_mr *mr;
	uint64_t began;

	RANK_CHECK(0, mem && mine);
	memset(mine, MINE, LEN);
	rank_keep_log();
	rank_open(0, 2);
	mr = region(mem);
	atomic_store(&world->mark[0], READY);
	await_mark(0, 1, TAKEN);
	began = bl_clock_ns();
	bl_mr_close(mr);
	must_have_waited(began);
	RANK_CHECK(0, rank_logged("stays in the middle of a copy") == 1);
	began = bl_clock_ns();
	bl_mr_close(region(mem));
	RANK_CHECK(0, bl_clock_ns() - began < WAIT_NS / 2);
	kill(world->pid[1], SIGCONT);
	await_mark(0, 1, WRITTEN);
	RANK_CHECK(0, bl_cntr_read(cntr) == 0);
	RANK_CHECK(0, numbers_seen == 6); /* not the first's number, which may be counted in */

	mr = region(mem);
	RANK_CHECK(0, numbers_seen == 6); /* now it may not */
	atomic_store(&world->mark[0], CLOSED);
	await_mark(0, 1, 0);
	atomic_store(&world->mark[0], READY);
	await_mark(0, 1, TAKEN);
	bl_mr_close(mr);
	RANK_CHECK(0, bl_cntr_read(cntr) == 1);
	memset(mem, MINE, LEN);
	atomic_store(&world->mark[0], CLOSED);
	await_mark(0, 1, WRITTEN);
	if (memcmp(mem, mine, LEN))
		rank_fail(0, "memory of a closed region was written to");
	RANK_CHECK(0, rank_logged("stays in the middle of a copy") == 1);
	RANK_CHECK(0, !bl_cntr_close(cntr));
	rank_close(0);
	free(mem);
	free(mine);
}

static void run_regions(int rank)
{
	i_send = rank;
	if (rank)
		write_twice();
	else
		close_regions();
}

static void writer_is_stopped(void **state)
{
	world_start(2, run_regions);
	world_end(-1);
}

int main(void)
{
	TABLE_TEST(helped);
	TABLE_TEST(helper_is_stopped);
	TABLE_TEST(writer_is_stopped);
	return table_run("close");
}
