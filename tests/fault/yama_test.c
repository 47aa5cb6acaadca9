/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * yama_test.c: two ranks where the kernel has Yama, at the ptrace_scope that is set
 * (kernel.yama.ptrace_scope), as root and as an ordinary user. Large messages arrive with
 * the same bytes: copied directly where Yama lets those who have been let in (0 and 1) or
 * who have CAP_SYS_PTRACE (up to 2), else through the ring, and the log says so. That it
 * is Yama who decides is seen before the endpoints are opened, when nobody has let anybody
 * in. The scope is not changed here: 3 stays until the next boot. tests/vm/run boots a
 * machine and sets them all.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fault/traffic.h"

#define SCOPE	  "/proc/sys/kernel/yama/ptrace_scope"
#define NOBODY	  65534
#define SCOPES	  4
#define HERE	  1u /* marks: before the look at the other's memory, and after */
#define HAS_TRIED 2u

struct yama_row {
	struct row row;
	bool user;
	bool stranger[SCOPES]; /* by scope: may read one that has let nobody in */
	bool directly[SCOPES]; /* neighbours copy from each other */
};

static const struct yama_row rows[] = {
	{{"root", "has CAP_SYS_PTRACE"},
	 false,
	 {true, true, true, false},
	 {true, true, true, false}},
	{{"ordinary user", "needs to be let in"},
	 true,
	 {true, false, false, false},
	 {true, true, false, false}},
};

static const struct yama_row *row;
static int scope;

static int read_scope(void)
{
	FILE *f = fopen(SCOPE, "r");
	int value = -1;

	if (f && fscanf(f, "%d", &value) != 1)
		value = -1;
	if (f)
		fclose(f);
	return value;
}

static void await(int rank, uint32_t mark)
{
	struct deadline late = deadline_in(WORLD_NS);

	while (atomic_load(&world->mark[rank]) < mark) {
		if (deadline_over(&late))
			rank_fail(!rank, "rank %d never came", rank);
		sched_yield();
	}
}

/* The other has no endpoint yet, and stays without until we have tried. */
static void look_at_a_stranger(int me)
{
	uint64_t word;
	struct iovec here = {&word, sizeof word}, there = {&scope, sizeof scope};
	pid_t pid;
	ssize_t n;

	world->addr[me].pid = (uint32_t)getpid();
	atomic_store(&world->mark[me], HERE);
	await(!me, HERE);
	pid = (pid_t)world->addr[!me].pid;
	n = process_vm_readv(pid, &here, 1, &there, 1, 0);
	if ((n == sizeof scope) != row->stranger[scope])
		rank_fail(me, "scope %d: a stranger's memory: %s", scope,
			  n < 0 ? strerror(errno) : "can be read");
	atomic_store(&world->mark[me], HAS_TRIED);
	await(!me, HAS_TRIED);
}

static void under_yama(int me)
{
	struct traffic t = {
		.rank = me, .count = 2, .victim = -1, .least = 1, .most = 1500000, .limit = 40};
	unsigned refusals;

	rank_keep_log();
	if (row->user) {
		RANK_CHECK(me, !setgid(NOBODY) && !setuid(NOBODY));
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* lost with root's rights */
	}
	look_at_a_stranger(me);
	rank_open(me, 2);
	traffic_run(&t);
	refusals = rank_logged("take another way");
	if (refusals > 2)
		rank_fail(me, "%u lines about another way", refusals);
	atomic_fetch_add(&world->mark[2], refusals);
	rank_close(me);
}

static void yama(void **state)
{
	unsigned refusals;

	row = TABLE_ROW(struct yama_row, state);
	setenv("FI_BEELINE_LOG", "info", 1);
	world_start(2, under_yama);
	world_end(-1);
	refusals = atomic_load(&world->mark[2]);
	print_message("             scope %d: %s\n", scope,
		      refusals ? "through the ring" : "directly");
	if (row->directly[scope])
		assert_int_equal(refusals, 0);
	else
		assert_int_not_equal(refusals, 0);
}

int main(void)
{
	scope = read_scope();
	if (scope < 0 || scope >= SCOPES) {
		printf("skip yama: not in this kernel (tests/vm/run --suite fault boots one)\n");
		return 0;
	}
	if (geteuid()) {
		printf("skip yama: only root can be both root and an ordinary user\n");
		return 0;
	}
	TABLE_ROWS("yama", yama, rows);
	return table_run("yama");
}
