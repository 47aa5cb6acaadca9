/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * apart.c: two pairs on two cores, each on one of them at first, as a scheduler that sees them all
 * run has little reason to change. After a while of messages to and fro one of each pair goes to
 * the other core, by its provider, and is there for a while; and it may run on both as before. A
 * program of its own, whose sched_setaffinity() the provider calls.
 */
#include "fab.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TAG   3
#define ROUND 20000 /* exchanges, until they begin on one core again: the scheduler parted them */
#define LONG  100   /* in a row on different cores: that is no moment */

static int asked; /* the kernel, for other cores */

__attribute__((visibility("default"))) int sched_setaffinity(pid_t pid, size_t size,
							     const cpu_set_t *set)
{
	int (*next)(pid_t, size_t, const cpu_set_t *) =
		(int (*)(pid_t, size_t, const cpu_set_t *))dlsym(RTLD_NEXT, "sched_setaffinity");

	asked++;
	return next(pid, size, set);
}

struct hello {
	int core;
	int went;  /* it, or the other one, as it was told */
	int apart; /* exchanges in a row since then; the first one of a pair says */
};

static void may_run(const cpu_set_t *set)
{
	T_CHECK(!sched_setaffinity(0, sizeof *set, set), "sched_setaffinity: %m");
	asked = 0;
}

static cpu_set_t only(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	return set;
}

static unsigned node_of(int core)
{
	cpu_set_t set = only(core);
	unsigned node = 0;

	may_run(&set);
	syscall(SYS_getcpu, NULL, &node, NULL);
	return node;
}

/* The first two of our cores that are on one node. */
static cpu_set_t two_cores(int core[2])
{
	cpu_set_t ours, two;

	T_CHECK(!sched_getaffinity(0, sizeof ours, &ours), "sched_getaffinity: %m");
	for (int i = 0; i < CPU_SETSIZE; i++)
		for (int j = i + 1; CPU_ISSET(i, &ours) && j < CPU_SETSIZE; j++) {
			if (!CPU_ISSET(j, &ours) || node_of(i) != node_of(j))
				continue;
			CPU_ZERO(&two);
			CPU_SET(core[0] = i, &two);
			CPU_SET(core[1] = j, &two);
			return two;
		}
	t_skip("one core only");
}

static struct hello exchange(struct t_node *n, int other, struct hello *mine)
{
	struct t_op sent = {0}, got = {0};
	struct hello theirs = {0};
	bool first = t_rank % 2 == 0;

	t_trecv(n, n->peer[other], &theirs, sizeof theirs, TAG, 0, &got);
	mine->core = sched_getcpu();
	mine->went |= asked > 0;
	if (first)
		t_tsend(n, other, mine, sizeof *mine, TAG, &sent);
	T_WAIT(&got);
	T_EQ(got.c.len, sizeof theirs);
	mine->went |= theirs.went;
	if (!first) {
		mine->apart = theirs.apart;
		t_tsend(n, other, mine, sizeof *mine, TAG, &sent);
	}
	T_WAIT(&sent);
	if (first)
		mine->apart = mine->went && theirs.core != sched_getcpu() ? mine->apart + 1 : 0;
	return theirs;
}

static void pairs(void)
{
	struct t_opts o = {.caps = FI_DIRECTED_RECV};
	struct hello mine = {0}, theirs;
	int core[2], other = t_rank ^ 1;
	cpu_set_t two = two_cores(core), one = only(core[t_rank / 2]), after;
	struct t_node n;

	t_start(&n, &o);
	may_run(&one);
	t_barrier();
	for (unsigned long i = 0; mine.apart < LONG; i++) {
		if (i % ROUND == 0 && !mine.went) {
			may_run(&one);
			may_run(&two);
		}
		theirs = exchange(&n, other, &mine);
		if (i % 1000 == 0)
			t_at("%lu exchanges, on cores %d and %d, %s", i, mine.core, theirs.core,
			     mine.went ? "one has gone" : "nobody has gone");
	}
	if (t_rank % 2 == 0) /* the other one learns that it is over */
		exchange(&n, other, &mine);
	T_CHECK(!sched_getaffinity(0, sizeof after, &after), "sched_getaffinity: %m");
	T_CHECK(CPU_EQUAL(&after, &two), "it may run on other cores than before");
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"apart_pairs", 4, pairs, "two that share a core take ten times as long for a message", 60},
};

int main(int argc, char **argv)
{
	const struct t_group groups[] = {T_GROUP("apart", cases)};

	return t_main(argc, argv, groups, 1);
}
