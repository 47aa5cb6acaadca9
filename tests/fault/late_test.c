/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * late_test.c: a sender is killed while it writes into the receiver's buffer. Once
 * the receive has ended in an error the buffer is the receiver's again: no byte of it
 * may change any more, although the threads of a process die one by one and one that
 * is in the kernel, copying, is not the first. The receiver looks for deaths without
 * a pause here, which leaves no time for the copy to end by itself.
 * BEELINE_KILLS: rounds.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/world.h"

#define BATCH	 (4u << 20) /* bytes that the kernel copies without a look at signals */
#define LEN	 (2 * BATCH)
#define END	 65536u /* of each: what is written last */
#define ROUNDS	 150
#define WATCH_NS 3000000u /* a late copy has shown itself by then */
#define MINE	 0xee

static _Noreturn void send_for_ever(int rank)
{
	uint8_t *buf = malloc(LEN);
	struct iovec iov = {buf, LEN};
	struct bl_comp comp;

	RANK_CHECK(rank, buf);
	memset(buf, 0x11, LEN);
	rank_open(rank, 2);
	for (;;) {
		struct bl_send send = {
			&iov, 1, world_index[0], 1, 0, NULL, BL_TAGGED | BL_COMPLETION, NULL};

		if (!bl_send(ep, &send))
			while (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) != 1)
				;
		else
			bl_ep_progress(ep);
	}
}

/* False: an error has come. The sender copies, by a claim. */
static bool receive_one(uint8_t *buf)
{
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;

	if (bl_recv_buf(ep, buf, LEN, world_index[1], 1, 0, NULL, BL_TAGGED | BL_COMPLETION))
		return false;
	usleep(100); /* away: so it is the sender who copies */
	do {
		ep->next_look = bl_ticks();
		n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL);
	} while (n == -EAGAIN);
	if (n == 1) {
		atomic_fetch_add(&world->messages[0], 1);
		return true;
	}
	RANK_CHECK(0, bl_cq_readerr(cq, &failed) == 1);
	return false;
}

static void receive_until_it_dies(int rank)
{
	static uint8_t mine[END];
	uint8_t *buf = malloc(LEN), *end[] = {buf + BATCH - END, buf + LEN - END};

	RANK_CHECK(rank, buf);
	memset(mine, MINE, END);
	memset(buf, 0, LEN);
	rank_open(rank, 2);
	while (receive_one(buf))
		;
	for (int i = 0; i < 2; i++)
		memset(end[i], MINE, END);
	for (uint64_t until = bl_clock_ns() + WATCH_NS; bl_clock_ns() < until;)
		for (int i = 0; i < 2; i++)
			if (memcmp(end[i], mine, END))
				rank_fail(
					0,
					"the dead sender wrote into a buffer that was ours again");
	rank_close(rank);
	free(buf);
}

static void run(int rank)
{
	if (rank)
		send_for_ever(rank);
	receive_until_it_dies(rank);
}

static bool busy(void)
{
	return atomic_load(&world->messages[0]) >= 2;
}

static void late_hand(void **state)
{
	const char *text = getenv("BEELINE_KILLS");
	int rounds = text && atoi(text) > 0 ? atoi(text) : ROUNDS / SLOWER;
	uint64_t seed = 1;

	setenv("FI_BEELINE_BOTH_HANDS_MIN", "1g", 1); /* the sender alone, in one call */
	setenv("FI_BEELINE_OVERLAP", "always", 1);
	for (int round = 0; round < rounds; round++) {
		world_start(2, run);
		world_until(busy, "traffic");
		usleep((useconds_t)(table_random(&seed) % 3000));
		kill(world_pid[1], SIGKILL);
		world_end(1);
	}
}

int main(void)
{
	TABLE_TEST(late_hand);
	return table_run("late");
}
