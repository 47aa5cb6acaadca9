/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * close_test.c: a receiver closes its endpoint while its sender, who helps, has taken a
 * chunk and is about to write it. When the close has returned the buffer is the
 * receiver's again: no byte of it may change any more. The sender waits in the window
 * (base/window.h) until the other has closed, or, as that should wait for it, for a
 * while.
 */
#include <string.h>

#include "fault/world.h"

#define LEN	(4u << 20)
#define STAY_NS 200000000u /* in the window; less than a close waits at most */
#define MINE	0xee

enum { TAKEN = 1, WRITTEN, CLOSED }; /* world->mark */

static bool i_send;

void bl_window(enum bl_window window, void *what)
{
	uint64_t until = bl_clock_ns() + STAY_NS;

	if (!i_send || (window != BL_WINDOW_HELPING && window != BL_WINDOW_PUSHED))
		return;
	if (window == BL_WINDOW_PUSHED) {
		atomic_store(&world->mark[1], WRITTEN);
		return;
	}
	if (atomic_exchange(&world->mark[1], TAKEN))
		return;
	while (atomic_load(&world->mark[0]) != CLOSED && bl_clock_ns() < until)
		;
}

static void send_one(void)
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

	while (bl_send(ep, &send))
		bl_ep_progress(ep);
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		;
	RANK_CHECK(1, n == 1 || bl_cq_readerr(cq, &failed) == 1);
	rank_close(1);
	free(buf);
}

static void close_under_way(void)
{
	uint8_t *buf = malloc(LEN), *mine = malloc(LEN);
	uint64_t until;

	RANK_CHECK(0, buf && mine);
	memset(mine, MINE, LEN);
	rank_open(0, 2);
	RANK_CHECK(0, !bl_recv_buf(ep, buf, LEN, world_index[1], 1, 0, NULL,
				   BL_TAGGED | BL_COMPLETION));
	until = bl_clock_ns() + 10000000000u;
	while (!atomic_load(&world->mark[1]) && bl_clock_ns() < until)
		bl_ep_progress(ep);
	RANK_CHECK(0, atomic_load(&world->mark[1]));
	rank_close(0);
	memset(buf, MINE, LEN);
	atomic_store(&world->mark[0], CLOSED);
	while (atomic_load(&world->mark[1]) != WRITTEN && bl_clock_ns() < until)
		;
	RANK_CHECK(0, atomic_load(&world->mark[1]) == WRITTEN);
	if (memcmp(buf, mine, LEN))
		rank_fail(0, "the sender wrote into a buffer of a closed endpoint");
	free(buf);
	free(mine);
}

static void run(int rank)
{
	i_send = rank;
	if (rank)
		send_one();
	else
		close_under_way();
}

static void helped(void **state)
{
	setenv("FI_BEELINE_BOTH_HANDS_MIN", "64k", 1);
	setenv("FI_BEELINE_OVERLAP", "never", 1);
	world_start(2, run);
	world_end(-1);
}

int main(void)
{
	TABLE_TEST(helped);
	return table_run("close");
}
