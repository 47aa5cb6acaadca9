/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * crowd_test.c: when a process that polls takes its core for shared (core/wait.c): how many
 * cores there are, how many neighbours, and how often the scheduler has switched to others,
 * all of which are ours to say here.
 */
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/wait.h"
#include "unit/node.h"

struct crowd_row {
	struct row row;
	long online;	 /* cores in the machine */
	int allowed;	 /* of these, for us; 0: the kernel doesn't say */
	uint32_t others; /* neighbours in other processes */
	long switches;	 /* to somebody else, between two looks */
	bool shared;
};

static const struct crowd_row crowds[] = {
	{{"as many neighbours as cores", "with us one too many"}, 2, 2, 2, 8, true},
	{{"a neighbour fewer", "each has his core"}, 2, 2, 1, 8, false},
	{{"all on a few cores", "of a large machine"}, 64, 2, 7, 8, true},
	{{"a few on more cores", "of a large machine"}, 64, 8, 7, 8, false},
	{{"bound to one core", "the others to theirs"}, 64, 1, 7, 8, false},
	{{"bound to one core", "and more of us than there are"}, 4, 1, 4, 8, true},
	{{"more cores than a set holds", "those of the machine"}, 2048, 0, 7, 8, false},
	{{"no set", "more of us than the machine has"}, 4, 0, 4, 8, true},
	{{"nobody else runs", "whatever our number"}, 2, 2, 7, 0, false},
};

static const struct crowd_row *row;
static long switched;

int __wrap_sched_yield(void);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
long __wrap_sysconf(int name);
long __real_sysconf(int name);

/* However many others run on this machine now, the looks are moments apart. */
int __wrap_sched_yield(void)
{
	return 0;
}

int __wrap_getrusage(int who, struct rusage *usage)
{
	(void)who;
	*usage = (struct rusage){.ru_nivcsw = switched += row->switches};
	return 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	(void)size;
	CPU_ZERO(set);
	for (int cpu = 0; cpu < row->allowed; cpu++)
		CPU_SET(cpu, set);
	return row->allowed ? 0 : -1;
}

long __wrap_sysconf(int name)
{
	return name == _SC_NPROCESSORS_ONLN && row ? row->online : __real_sysconf(name);
}

static void counts_as_shared(void **state)
{
	static struct node node;
	struct bl_cq *cq;

	row = TABLE_ROW(struct crowd_row, state);
	switched = 0;
	node_open(&node, 1);
	cq = node.cq[0];
	node.ep[0]->local.others = row->others;
	for (int reads = 0; reads < 64; reads++)
		bl_wait_give_way(cq, bl_ticks());
	assert_int_equal(cq->crowd.until != 0, row->shared);
	node.ep[0]->local.others = 0;
	node_close(&node);
	row = NULL;
}

int main(void)
{
	TABLE_ROWS("core", counts_as_shared, crowds);
	return table_run("crowd");
}
