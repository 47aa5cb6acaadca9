/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * death_test.c: a rank goes, at a random moment of heavy traffic among three.
 * The two others must end all that they had under way with it, in errors and
 * soon, and go on with each other as if nothing had happened. Being stopped is
 * no death.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "deny.h"
#include "fault/traffic.h"

#define VICTIM 2

enum how { KILL, CRASH, LEAVE, EXEC, STOP_AND_KILL, FORKED };

struct death_row {
	struct row row;
	enum how how;
	size_t least, most;
	uint64_t at; /* messages that the victim has received by then, at least */
	unsigned rounds;
	bool unkept; /* the victim may not have robust futexes */
};

static const struct death_row deaths[] = {
	{{"short messages", "its ring is full of them"}, KILL, 0, 200, 300, 5, false},
	{{"payload ring", "it dies while it fills a long packet"}, KILL, 300, 4000, 200, 5, false},
	{{"large", "it dies while both hands copy"}, KILL, 200000, 1000000, 30, 5, false},
	{{"very large", "a chunk of ours is in its memory"}, KILL, 4000000, 8000000, 6, 3, false},
	{{"all lengths", "some of each are under way"}, KILL, 0, 500000, 60, 5, false},
	{{"at the first message", "connections are being made"}, KILL, 0, 100000, 0, 8, false},
	{{"crash", "SIGSEGV: no handler says goodbye"}, CRASH, 0, 300000, 50, 2, false},
	{{"exit without closing", "the process ends in peace, the endpoint doesn't"},
	 LEAVE,
	 0,
	 300000,
	 50,
	 2,
	 false},
	{{"exec", "the process lives, what was in it doesn't"}, EXEC, 0, 300000, 50, 2, false},
	{{"killed while stopped", "not dead before it is"}, STOP_AND_KILL, 0, 300000, 50, 2, false},
	{{"its child lives on", "with a copy of all its descriptors"},
	 FORKED,
	 0,
	 300000,
	 50,
	 2,
	 false},
	{{"unkept", "set_robust_list is denied: no word tells"}, KILL, 0, 300000, 60, 4, true},
	{{"unkept, exec", "the process lives on"}, EXEC, 0, 300000, 50, 2, true},
	{{"unkept, its child lives on", "the name must not"}, FORKED, 0, 300000, 50, 2, true},
};

static const struct death_row *row;
static uint64_t moment; /* when the victim hurts itself: messages received */

static void hurt_yourself(uint64_t received)
{
	if (received < moment)
		return;
	if (row->how == FORKED) {
		if (!fork()) { /* outlives its parent by more than anybody may wait */
			usleep(2 * TOLERATED_NS / 1000);
			_exit(0);
		}
	}
	atomic_store(&world->hurt_at, bl_clock_ns());
	if (row->how == CRASH) {
		prctl(PR_SET_DUMPABLE, 0); /* no core file */
		raise(SIGSEGV);
	} else if (row->how == EXEC) {
		execl("/bin/sleep", "sleep", "30", (char *)NULL);
	}
	_exit(0);
}

static bool by_itself(void)
{
	return row->how == CRASH || row->how == LEAVE || row->how == EXEC || row->how == FORKED;
}

static void live_and_die(int rank)
{
	struct traffic t = {
		.rank = rank,
		.count = RANKS,
		.victim = VICTIM,
		.least = row->least,
		.most = row->most,
		.after = 40,
		.each = rank == VICTIM && by_itself() ? hurt_yourself : NULL,
	};

	if (row->unkept && rank == VICTIM)
		RANK_CHECK(rank, !fail_calls(SYS_set_robust_list, SYS_set_robust_list, EPERM));
	rank_open(rank, RANKS);
	traffic_run(&t);
	rank_close(rank);
}

static bool victim_is_busy(void)
{
	return atomic_load(&world->here[VICTIM]) && atomic_load(&world->messages[VICTIM]) >= moment;
}

static bool victim_has_hurt_itself(void)
{
	return atomic_load(&world->hurt_at);
}

static void death(void **state)
{
	static uint64_t seed = 4711;
	uint64_t slowest = 0;

	row = TABLE_ROW(struct death_row, state);
	for (unsigned round = 0; round < row->rounds; round++) {
		moment = row->at + table_random(&seed) % (row->at + 1);
		world_start(RANKS, live_and_die);
		if (by_itself()) {
			world_until(victim_has_hurt_itself, "the victim to hurt itself");
		} else {
			world_until(victim_is_busy, "traffic");
			usleep((useconds_t)(table_random(&seed) % 3000)); /* any moment */
			if (row->how == STOP_AND_KILL) {
				kill(world_pid[VICTIM], SIGSTOP);
				usleep(200000); /* long enough to be taken for dead */
			}
			atomic_store(&world->hurt_at, bl_clock_ns());
			kill(world_pid[VICTIM], SIGKILL);
		}
		if (row->how == EXEC) { /* the sleeping program has done its part */
			while (!atomic_load(&world->noticed_at[0]) && !world->why[0][0])
				usleep(1000);
			kill(world_pid[VICTIM], SIGKILL);
		}
		world_end(VICTIM);
		for (int rank = 0; rank < RANKS; rank++) {
			uint64_t at = atomic_load(&world->noticed_at[rank]),
				 hurt = atomic_load(&world->hurt_at);

			if (at > hurt && at - hurt > slowest)
				slowest = at - hurt;
		}
	}
	print_message("             all ended after at most %.1f ms%s\n", (double)slowest / 1e6,
		      slowest > PROMISED_NS
			      ? " (promised: 100 ms, on a machine that isn't overcommitted)"
			      : "");
}

/* --- a rank that never said a word -------------------------------------------- */

struct silent_row {
	struct row row;
	bool before; /* it dies before the receive is posted */
};

static const struct silent_row silents[] = {
	{{"dies before", "nobody is there when the receive is posted"}, true},
	{{"dies after", "the receive waits for it alone"}, false},
};

static const struct silent_row *silent_row;

static void wait_for_the_silent(int rank)
{
	struct deadline late = deadline_in(WORLD_NS), noticed = deadline_in(TOLERATED_NS);
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;
	int err;

	rank_open(rank, 2);
	if (rank)
		for (;;)
			pause(); /* opened its endpoint; never makes progress */
	while (silent_row->before && !atomic_load(&world->hurt_at))
		usleep(200);
	err = bl_recv_buf(ep, &comp, sizeof comp, 1, 1, 0, NULL, BL_TAGGED | BL_COMPLETION);
	RANK_CHECK(0, !err);
	bl_ep_progress(ep);
	atomic_store(&world->mark[0], 1);
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN) {
		if (!atomic_load(&world->hurt_at))
			noticed = deadline_in(TOLERATED_NS);
		if (deadline_over(&late) || deadline_over(&noticed))
			rank_fail(0, "the receive waits for ever");
	}
	RANK_CHECK(0, n == -BL_EAVAIL && bl_cq_readerr(cq, &failed) == 1);
	rank_close(0);
}

static bool silent_may_die(void)
{
	return atomic_load(&world->here[1]) && (silent_row->before || atomic_load(&world->mark[0]));
}

static void silent(void **state)
{
	silent_row = TABLE_ROW(struct silent_row, state);
	world_start(2, wait_for_the_silent);
	world_until(silent_may_die, "the receive to be posted");
	kill(world_pid[1], SIGKILL);
	atomic_store(&world->hurt_at, bl_clock_ns());
	world_end(1);
}

/* --- not dead --------------------------------------------------------------- */

struct stop_row {
	struct row row;
	size_t least, most;
};

static const struct stop_row stops[] = {
	{{"short", "its ring is full meanwhile"}, 0, 200},
	{{"large", "a chunk is in its hands meanwhile"}, 200000, 1000000},
};

static const struct stop_row *stop_row;

static void live(int rank)
{
	struct traffic t = {.rank = rank,
			    .count = RANKS,
			    .victim = -1,
			    .least = stop_row->least,
			    .most = stop_row->most};

	rank_open(rank, RANKS);
	traffic_run(&t);
	rank_close(rank);
}

static uint64_t others_by_now;

static bool others_go_on(void)
{
	return atomic_load(&world->messages[0]) + atomic_load(&world->messages[1]) >=
	       others_by_now + 40;
}

static void stopped_is_not_dead(void **state)
{
	stop_row = TABLE_ROW(struct stop_row, state);
	moment = 20;
	world_start(RANKS, live);
	for (int round = 0; round < 3; round++) {
		world_until(victim_is_busy, "traffic");
		kill(world_pid[VICTIM], SIGSTOP);
		others_by_now = atomic_load(&world->messages[0]) + atomic_load(&world->messages[1]);
		usleep(300000); /* longer than any death goes unnoticed */
		world_until(others_go_on, "traffic of the others while one is stopped");
		moment = atomic_load(&world->messages[VICTIM]) + 20;
		kill(world_pid[VICTIM], SIGCONT);
	}
	world_until(victim_is_busy, "traffic after being stopped");
	atomic_store(&world->stop, 1);
	world_end(-1);
}

int main(void)
{
	TABLE_ROWS("death", death, deaths);
	TABLE_ROWS("silent", silent, silents);
	TABLE_ROWS("stopped", stopped_is_not_dead, stops);
	return table_run("death");
}
