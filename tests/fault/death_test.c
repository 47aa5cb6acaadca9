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
#include "fault/promise.h"
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

struct apart_row {
	struct death_row death;
	unsigned space[RANKS]; /* PID namespaces: world_space */
};

static const struct apart_row deaths_apart[] = {
	{{{"in an inner PID namespace", "all have a number for it"}, KILL, 0, 500000, 60, 3, false},
	 {0, 0, 1}},
	{{{"in an outer PID namespace", "nobody has"}, KILL, 0, 500000, 60, 3, false}, {1, 2, 0}},
	{{{"each in a PID namespace", "nobody sees anybody"}, KILL, 0, 500000, 60, 3, false},
	 {1, 2, 3}},
	{{{"each in a PID namespace, unkept", "names are the network's"},
	  KILL,
	  0,
	  300000,
	  60,
	  3,
	  true},
	 {1, 2, 3}},
};

static const struct death_row *row;
static uint64_t moment; /* when the victim hurts itself: messages received */

static void hurt_yourself(uint64_t received)
{
	if (received < moment)
		return;
	if (row->how == FORKED) {
		pid_t child = fork();

		if (!child) { /* outlives its parent, until the test program ends it */
			alarm(WORLD_NS / 1000000000);
			pause();
			_exit(0);
		}
		atomic_store(&world->mark[VICTIM], (uint32_t)child);
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

static bool exec_is_noticed(void)
{
	return atomic_load(&world->noticed_at[0]);
}

static uint64_t others_by_now;
static struct deadline stopped_for;

static uint64_t others(void)
{
	return atomic_load(&world->messages[0]) + atomic_load(&world->messages[1]);
}

static bool others_go_on(void)
{
	return deadline_over(&stopped_for) && others() >= others_by_now + 40;
}

/* For longer than any death goes unnoticed, while the others talk. */
static void stop_the_victim(void)
{
	kill(world_pid[VICTIM], SIGSTOP);
	others_by_now = others();
	stopped_for = deadline_in(3 * PROMISED_NS);
	world_until(others_go_on, "traffic of the others while one is stopped");
}

/* One death among ranks in these namespaces; ns to the last notice of it, in all and without
 * what the machine took. */
static uint64_t die_once(const unsigned space[RANKS], uint64_t *seed, uint64_t *late)
{
	uint64_t slowest = 0;

	moment = row->at + table_random(seed) % (row->at + 1);
	memcpy(world_space, space, sizeof world_space);
	world_start(RANKS, live_and_die);
	if (by_itself()) {
		world_until(victim_has_hurt_itself, "the victim to hurt itself");
	} else {
		world_until(victim_is_busy, "traffic");
		/* This waits for nothing: the kill is to fall anywhere in a message. */
		usleep((useconds_t)(table_random(seed) % 3000));
		if (row->how == STOP_AND_KILL)
			stop_the_victim();
		atomic_store(&world->hurt_at, bl_clock_ns());
		kill(world_pid[VICTIM], SIGKILL);
	}
	if (row->how == EXEC) { /* the sleeping program has done its part */
		promise_died(VICTIM);
		world_until(exec_is_noticed, "the other program to be noticed");
		kill(world_pid[VICTIM], SIGKILL);
	} else {
		promise_await_death(VICTIM);
	}
	world_end(VICTIM);
	if (row->how == FORKED)
		kill((pid_t)atomic_load(&world->mark[VICTIM]), SIGKILL);
	*late = 0;
	for (int rank = 0; rank < RANKS; rank++) {
		uint64_t at = atomic_load(&world->noticed_at[rank]),
			 hurt = atomic_load(&world->hurt_at);

		if (at > hurt && at - hurt > slowest)
			slowest = at - hurt;
		if (at && promise_late(rank) > *late)
			*late = promise_late(rank);
	}
	return slowest;
}

/* Not all that a machine does can be taken off: one of a row's rounds may be done again. */
static void die_among(const unsigned space[RANKS])
{
	static uint64_t seed = 4711;
	uint64_t slowest = 0, latest = 0;
	bool again = false;

	promise_watch();
	for (unsigned round = 0; round < row->rounds; round++) {
		uint64_t late, slow = die_once(space, &seed, &late);

		if (late > PROMISED_NS * SLOWER && !again) {
			print_message("             once after %.1f ms: again\n",
				      (double)late / 1e6);
			again = true;
			round--;
			continue;
		}
		slowest = slow > slowest ? slow : slowest;
		latest = late > latest ? late : latest;
	}
	print_message("             all ended after at most %.1f ms; at most %.1f ms from the end "
		      "of the process, without what the machine took\n",
		      (double)slowest / 1e6, (double)latest / 1e6);
	promise_judge(latest);
}

static void death(void **state)
{
	static const unsigned together[RANKS];

	row = TABLE_ROW(struct death_row, state);
	die_among(together);
}

static void death_apart(void **state)
{
	const struct apart_row *apart = TABLE_ROW(struct apart_row, state);

	row = &apart->death;
	die_among(apart->space);
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
	struct deadline late = deadline_in(WORLD_NS);
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;
	int err;

	rank_open(rank, 2);
	if (rank)
		for (;;)
			pause(); /* opened its endpoint; never makes progress */
	if (silent_row->before)
		rank_await(rank, &world->mark[1], 1);
	err = bl_recv_buf(ep, &comp, sizeof comp, 1, 1, 0, NULL, BL_TAGGED | BL_COMPLETION);
	RANK_CHECK(0, !err);
	while (!silent_row->before && !world_peer(1)->adopted) {
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(0, "the receive makes no connection");
	}
	atomic_store(&world->mark[0], 1);
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		if (deadline_over(&late))
			rank_fail(0, "the receive waits for ever");
	promise_noticed(0);
	RANK_CHECK(0, n == -BL_EAVAIL && bl_cq_readerr(cq, &failed) == 1);
	rank_close(0);
}

static bool silent_may_die(void)
{
	return atomic_load(&world->here[0]) && atomic_load(&world->here[1]) &&
	       (silent_row->before || atomic_load(&world->mark[0]));
}

static void silent(void **state)
{
	silent_row = TABLE_ROW(struct silent_row, state);
	promise_watch();
	world_start(2, wait_for_the_silent);
	world_until(silent_may_die, "the receive to be posted");
	kill(world_pid[1], SIGKILL);
	promise_await_death(1);
	atomic_store(&world->mark[1], 1);
	world_end(1);
	print_message("             the receive ended %.1f ms after the process\n",
		      (double)promise_late(0) / 1e6);
	promise_judge(promise_late(0));
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

static void stopped_is_not_dead(void **state)
{
	stop_row = TABLE_ROW(struct stop_row, state);
	moment = 20;
	world_start(RANKS, live);
	for (int round = 0; round < 3; round++) {
		world_until(victim_is_busy, "traffic");
		stop_the_victim();
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
	if (geteuid())
		printf("skip death in PID namespaces: only root can make them\n");
	else
		TABLE_ROWS("death", death_apart, deaths_apart);
	TABLE_ROWS("silent", silent, silents);
	TABLE_ROWS("stopped", stopped_is_not_dead, stops);
	return table_run("death");
}
