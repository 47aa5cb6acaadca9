/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cores_test.c: to which core a thread goes that leaves the one it runs on (place/cores.h), and
 * that it may run where it might before. First on machines that are made up here.
 */
#include "place/cores.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit/table.h"

struct machine {
	struct row row;
	const char *allowed; /* a character for each core: the number of its node; ' ': not ours */
	int ours;
	uint32_t number;
	int to; /* or -ENODEV */
};

static const struct machine machines[] = {
	{{"two cores", "the other one"}, "00", 0, 0, 1},
	{{"two cores", "whatever the number"}, "00", 0, 1, 1},
	{{"two cores", "we are on the second"}, "00", 1, 1, 0},
	{{"one core", "nowhere to go"}, "0", 0, 0, -ENODEV},
	{{"one of many", "the others aren't ours"}, " 0  ", 1, 3, -ENODEV},
	{{"four", "the first of the others"}, "0000", 3, 0, 0},
	{{"four", "the third"}, "0000", 3, 2, 2},
	{{"four", "without ours"}, "0000", 1, 1, 2},
	{{"four", "in a circle"}, "0000", 1, 3, 0},
	{{"four", "the largest number"}, "0000", 0, UINT32_MAX, 1},
	{{"with gaps", "the first of two"}, "0 0  0", 0, 0, 2},
	{{"with gaps", "the second of two"}, "0 0  0", 0, 1, 5},
	{{"long lists", "as the kernel writes them"}, "0001110001110000", 0, 4, 8},
	{{"two nodes", "near its memory"}, "0011", 0, 2, 1},
	{{"two nodes", "on the second"}, "0011", 3, 0, 2},
	{{"two nodes", "mixed, the first"}, "010101", 1, 0, 3},
	{{"two nodes", "mixed, the second"}, "010101", 1, 1, 5},
	{{"two nodes", "mixed, the third: the first"}, "010101", 1, 2, 3},
	{{"two nodes", "alone on ours"}, "0111", 0, 1, -ENODEV},
	{{"no nodes", "a kernel without NUMA"}, "????", 0, 1, 2},
};

static const struct machine *machine;	 /* NULL: this one */
static struct bl_cores set[4];		 /* those that were asked for, ... */
static int sets;			 /* ... so many */
static int refuses;			 /* the so manieth of them, from 1 */
static const struct bl_cores *meanwhile; /* somebody else says so behind the first one */
static bool contained;			 /* the container has just what is allowed, and no more */

long __wrap_syscall(long number, unsigned *cpu, unsigned *node);
ssize_t __wrap_bl_text_read(int dir, const char *path, char *text, size_t size);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cores);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cores);
ssize_t __real_bl_text_read(int dir, const char *path, char *text, size_t size);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cores);
int __real_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cores);

long __wrap_syscall(long number, unsigned *cpu, unsigned *node)
{
	assert_int_equal(number, SYS_getcpu);
	if (!machine)
		return getcpu(cpu, node);
	*cpu = (unsigned)machine->ours;
	*node = machine->allowed[machine->ours] == '?'
			? 0
			: (unsigned)(machine->allowed[machine->ours] - '0');
	return 0;
}

/* "0-2,6,8-9" of that node; a core that isn't ours is on each. */
ssize_t __wrap_bl_text_read(int dir, const char *path, char *text, size_t size)
{
	const char *all = machine ? machine->allowed : NULL, *comma = "";
	size_t at = 0;
	unsigned node;

	if (!machine)
		return __real_bl_text_read(dir, path, text, size);
	assert_int_equal(sscanf(path, "/sys/devices/system/node/node%u/cpulist", &node), 1);
	if (strchr(all, '?'))
		return -ENOENT;
	for (size_t i = 0, end; all[i]; i = end) {
		for (end = i; all[end] == (char)('0' + node) || all[end] == ' '; end++)
			;
		if (end == i) {
			end++;
			continue;
		}
		if (at >= size)
			return (ssize_t)size - 1;
		at += (size_t)snprintf(text + at, size - at, end == i + 1 ? "%s%zu" : "%s%zu-%zu",
				       comma, i, end - 1);
		comma = ",";
	}
	if (at < size)
		at += (size_t)snprintf(text + at, size - at, "\n");
	return (ssize_t)(at < size ? at : size - 1);
}

static struct bl_cores allowed_here(void)
{
	struct bl_cores cores = {0};

	for (size_t i = 0; machine->allowed[i]; i++)
		if (machine->allowed[i] != ' ')
			CPU_SET_S(i, sizeof cores, cores.part);
	return cores;
}

/* What was said last, of what there is. */
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cores)
{
	struct bl_cores here;

	if (!machine)
		return __real_sched_getaffinity(pid, size, cores);
	here = allowed_here();
	if (sets == 1 && meanwhile)
		here = *meanwhile;
	else if (sets && (CPU_COUNT_S(size, set[sets - 1].part) < 8192 || !contained))
		here = set[sets - 1];
	memcpy(cores, &here, size);
	return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cores)
{
	if (!machine)
		return __real_sched_setaffinity(pid, size, cores);
	assert_in_range(sets, 0, 3);
	memcpy(&set[sets++], cores, size);
	if (sets == refuses) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

static void on(const struct machine *what, int refuses_set, bool no_more)
{
	machine = what;
	refuses = refuses_set;
	contained = no_more;
	sets = 0;
	meanwhile = NULL;
}

static bool is_one(const struct bl_cores *cores, int core)
{
	return CPU_COUNT_S(sizeof *cores, cores->part) == 1 &&
	       CPU_ISSET_S((size_t)core, sizeof *cores, cores->part);
}

static void goes(void **state)
{
	const struct machine *what = TABLE_ROW(struct machine, state);
	struct bl_cores before;
	int to;

	on(what, 0, false);
	before = allowed_here();
	to = bl_place_elsewhere(what->number);
	machine = NULL;
	assert_int_equal(to, what->to);
	assert_int_equal(sets, to < 0 ? 0 : 3);
	if (to < 0)
		return;
	assert_true(is_one(&set[0], to));
	assert_int_equal(CPU_COUNT_S(sizeof set[1], set[1].part), BL_CORES_MOST);
	assert_memory_equal(&set[2], &before, sizeof before); /* as before, and no more */
}

static const struct machine four = {{"", ""}, "0000", 0, 1, 2};

/* Who may run on all that there are may run on those to come. */
static void anywhere(void **state)
{
	(void)state;
	on(&four, 0, true);
	assert_int_equal(bl_place_elsewhere(1), 2);
	machine = NULL;
	assert_int_equal(sets, 2);
	assert_int_equal(CPU_COUNT_S(sizeof set[1], set[1].part), BL_CORES_MOST);
}

static void refused(void **state)
{
	(void)state;
	on(&four, 1, false);
	assert_int_equal(bl_place_elsewhere(1), -EINVAL);
	machine = NULL;
	assert_int_equal(sets, 1);
}

/* All is refused: what was before is said in any case. */
static void not_all(void **state)
{
	(void)state;
	on(&four, 2, false);
	assert_int_equal(bl_place_elsewhere(1), 2);
	machine = NULL;
	assert_int_equal(sets, 3);
	assert_int_equal(CPU_COUNT_S(sizeof set[2], set[2].part), 4);
}

/* Somebody else says where it may run while it goes: so be it. */
static void changed(void **state)
{
	struct bl_cores other = {0};

	(void)state;
	CPU_SET_S(3, sizeof other, other.part);
	on(&four, 0, false);
	meanwhile = &other;
	assert_int_equal(bl_place_elsewhere(1), -EBUSY);
	machine = NULL;
	assert_int_equal(sets, 1);
}

struct at_row {
	struct row row;
	uint32_t core;
	int to;
};

static const struct machine five = {{"", ""}, "00001", 0, 0, 0};

static const struct at_row ats[] = {
	{{"another", "that is ours"}, 2, 2},
	{{"the one that it is on", "nothing changes"}, 0, 0},
	{{"not ours", "it may not"}, 5, -ENODEV},
	{{"on another node", "far from its memory"}, 4, -ENODEV},
	{{"beyond any", "said by a broken neighbour"}, BL_CORES_MOST, -ENODEV},
	{{"the largest number", "the same"}, UINT32_MAX, -ENODEV},
};

static void at(void **state)
{
	const struct at_row *what = TABLE_ROW(struct at_row, state);

	on(&five, 0, false);
	assert_int_equal(bl_place_at(what->core), what->to);
	machine = NULL;
	assert_int_equal(sets, what->to < 0 ? 0 : 3);
	assert_true(what->to < 0 || is_one(&set[0], what->to));
}

/* Its node's list is longer than is read: the first ones, and nothing of what the end cuts. */
static void long_list(void **state)
{
	static char many[2001];
	static const struct machine nodes = {{"", ""}, many, 0, 0, 0};

	(void)state;
	for (size_t i = 0; i < 2000; i++)
		many[i] = (char)('0' + i % 2);
	for (uint32_t i = 0; i < 1000; i++) {
		int to;

		on(&nodes, 0, false);
		to = bl_place_elsewhere(i);
		machine = NULL;
		assert_in_range(to, 2, 1998);
		assert_int_equal(to % 2, 0);
	}
}

/* Each of those that it may go to as often as another. */
static void evenly(void **state)
{
	static const struct machine nodes = {{"", ""}, "0000111100001111", 5, 0, 0};
	unsigned hits[16] = {0};

	(void)state;
	for (uint32_t i = 0; i < 700; i++) {
		int to;

		on(&nodes, 0, false);
		to = bl_place_elsewhere(i);
		machine = NULL;
		assert_in_range(to, 0, 15);
		hits[to]++;
	}
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(hits[i], nodes.allowed[i] == '1' && i != 5 ? 100 : 0);
}

/* --- this machine ------------------------------------------------------------------ */

static struct bl_cores allowed(void)
{
	struct bl_cores cores;

	assert_int_equal(__real_sched_getaffinity(0, sizeof cores, cores.part), 0);
	return cores;
}

static void this_machine(void **state)
{
	struct bl_cores before = allowed(), after;
	int to;

	(void)state;
	for (uint32_t i = 0; i < 16; i++) {
		to = bl_place_elsewhere(i);
		after = allowed();
		assert_memory_equal(&before, &after, sizeof before);
		if (to < 0) {
			assert_int_equal(to, -ENODEV);
			print_message("one core on this node: nowhere to go\n");
			return;
		}
		assert_true(CPU_ISSET_S((size_t)to, sizeof before, before.part));
	}
}

/* A launcher has bound it. */
static void bound(void **state)
{
	struct bl_cores before = allowed(), one = {0}, after;
	unsigned core, node;

	(void)state;
	getcpu(&core, &node);
	CPU_SET_S(core, sizeof one, one.part);
	if (__real_sched_setaffinity(0, sizeof one, one.part))
		skip();
	assert_int_equal(bl_place_elsewhere(1), -ENODEV);
	after = allowed();
	assert_memory_equal(&after, &one, sizeof one);
	assert_int_equal(__real_sched_setaffinity(0, sizeof before, before.part), 0);
}

int main(void)
{
	TABLE_ROWS("machine", goes, machines);
	TABLE_ROWS("at", at, ats);
	TABLE_TEST(evenly);
	TABLE_TEST(long_list);
	TABLE_TEST(anywhere);
	TABLE_TEST(refused);
	TABLE_TEST(not_all);
	TABLE_TEST(changed);
	TABLE_TEST(this_machine);
	TABLE_TEST(bound);
	return table_run("cores");
}
