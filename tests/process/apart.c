/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * apart.c: two pairs on two cores, each on one of them at first, as a scheduler that sees them all
 * run has no reason to change: after a while of messages to and fro the two of a pair are on
 * different cores, and may run on both as before.
 */
#include "cases.h"

#include <sched.h>

#define TAG  3
#define LONG 100 /* exchanges in a row on different cores: that is no moment */

struct hello {
	int core;
	int apart; /* exchanges in a row, so far; the first one of a pair says */
};

static void may_run(const cpu_set_t *set)
{
	T_CHECK(!sched_setaffinity(0, sizeof *set, set), "sched_setaffinity: %m");
}

/* The first two of our cores. */
static cpu_set_t two_cores(int core[2])
{
	cpu_set_t ours, two;
	int n = 0;

	CPU_ZERO(&two);
	T_CHECK(!sched_getaffinity(0, sizeof ours, &ours), "sched_getaffinity: %m");
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &ours)) {
			core[n++] = i;
			CPU_SET(i, &two);
		}
	if (n < 2)
		t_skip("one core only");
	return two;
}

static struct hello exchange(struct t_node *n, int other, struct hello mine)
{
	struct t_op sent = {0}, got = {0};
	struct hello theirs = {0};

	t_trecv(n, n->peer[other], &theirs, sizeof theirs, TAG, 0, &got);
	mine.core = sched_getcpu();
	if (t_rank % 2 == 0)
		t_tsend(n, other, &mine, sizeof mine, TAG, &sent);
	T_WAIT(&got);
	if (t_rank % 2 == 1) {
		mine.apart = theirs.apart;
		t_tsend(n, other, &mine, sizeof mine, TAG, &sent);
	}
	T_WAIT(&sent);
	T_EQ(got.c.len, sizeof theirs);
	return theirs;
}

static void pairs(void)
{
	struct t_opts o = {.caps = FI_DIRECTED_RECV};
	struct hello mine = {0}, theirs;
	int core[2], other = t_rank ^ 1;
	cpu_set_t two = two_cores(core), one, after;
	struct t_node n;

	t_start(&n, &o);
	CPU_ZERO(&one);
	CPU_SET(core[t_rank / 2], &one);
	may_run(&one);
	t_barrier();
	may_run(&two);
	for (unsigned long i = 0; mine.apart < LONG; i++) {
		theirs = exchange(&n, other, mine);
		if (t_rank % 2 == 0)
			mine.apart = theirs.core != sched_getcpu() ? mine.apart + 1 : 0;
		else
			mine.apart = theirs.apart;
		if (i % 1000 == 0)
			t_at("%lu exchanges, on cores %d and %d", i, sched_getcpu(), theirs.core);
	}
	if (t_rank % 2 == 0) /* the other one learns that it is over */
		exchange(&n, other, mine);
	T_CHECK(!sched_getaffinity(0, sizeof after, &after), "sched_getaffinity: %m");
	T_CHECK(CPU_EQUAL(&after, &two), "it may run on other cores than before");
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"apart_pairs", 4, pairs, "two that share a core take ten times as long for a message", 60},
};

const struct t_group group_apart = T_GROUP("apart", cases);
