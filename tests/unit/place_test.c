/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * place_test.c: to which core a thread goes that leaves the one it runs on (place/place.h), and
 * that it may run where it might before. First on machines that are made up here.
 */
#include "place/place.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit/table.h"

#define CORES_MOST 16

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
	{{"four", "the first"}, "0000", 3, 0, 0},
	{{"four", "the third"}, "0000", 3, 2, 2},
	{{"four", "ours: the next one"}, "0000", 2, 2, 3},
	{{"four", "ours, the last: the first"}, "0000", 3, 3, 0},
	{{"four", "a number beyond"}, "0000", 0, 4u * 1000 + 2, 2},
	{{"four", "the largest number"}, "0000", 0, UINT32_MAX, 3},
	{{"with gaps", "the second of three"}, "0 0  0", 0, 1, 2},
	{{"with gaps", "the third of three"}, "0 0  0", 0, 2, 5},
	{{"two nodes", "near its memory"}, "0011", 0, 2, 1},
	{{"two nodes", "on the second"}, "0011", 3, 0, 2},
	{{"two nodes", "mixed"}, "0101", 1, 0, 3},
	{{"two nodes", "alone on ours"}, "0111", 0, 1, -ENODEV},
	{{"no nodes", "a kernel without NUMA"}, "????", 0, 2, 2},
};

static const struct machine *machine; /* NULL: this one */
static int may_run[3], sets;	      /* the cores of the sets that were asked for; -1: several */
static bool all_of_many;	      /* the last one has cores that nobody has */
static int refuses_set;		      /* the so manieth of them, from 1 */

long __wrap_syscall(long number, unsigned *cpu, unsigned *node);
int __wrap_access(const char *path, int mode);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);
long __wrap_sysconf(int name);
int __real_access(const char *path, int mode);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __real_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);
long __real_sysconf(int name);

static int online; /* cores */

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

int __wrap_access(const char *path, int mode)
{
	unsigned cpu, node;

	if (!machine)
		return __real_access(path, mode);
	if (sscanf(path, "/sys/devices/system/cpu/cpu%u/node%u", &cpu, &node) == 2)
		return cpu < strlen(machine->allowed) && machine->allowed[cpu] == (char)('0' + node)
			       ? 0
			       : -1;
	assert_string_equal(path, "/sys/devices/system/node");
	return strchr(machine->allowed, '?') ? -1 : 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	if (!machine)
		return __real_sched_getaffinity(pid, size, set);
	CPU_ZERO_S(size, set);
	for (size_t i = 0; machine->allowed[i]; i++)
		if (machine->allowed[i] != ' ')
			CPU_SET_S(i, size, set);
	return 0;
}

static int only_one(size_t size, const cpu_set_t *set)
{
	if (CPU_COUNT_S(size, set) == 1)
		for (int i = 0; i < CORES_MOST; i++)
			if (CPU_ISSET_S((size_t)i, size, set))
				return i;
	return -1;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	if (!machine)
		return __real_sched_setaffinity(pid, size, set);
	assert_in_range(sets, 0, 2);
	may_run[sets++] = only_one(size, set);
	all_of_many = CPU_ISSET_S(BL_CORES_MOST - 1, size, set);
	if (sets == refuses_set) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

long __wrap_sysconf(int name)
{
	return machine && name == _SC_NPROCESSORS_ONLN ? online : __real_sysconf(name);
}

static void on(const struct machine *what, int cores, int refuses)
{
	machine = what;
	online = cores;
	refuses_set = refuses;
	sets = 0;
	all_of_many = false;
}

static void goes(void **state)
{
	const struct machine *what = TABLE_ROW(struct machine, state);
	int to;

	on(what, CORES_MOST, 0);
	to = bl_place_elsewhere(what->number);
	machine = NULL;
	assert_int_equal(to, what->to);
	assert_int_equal(sets, to < 0 ? 0 : 2);
	if (to < 0)
		return;
	assert_int_equal(may_run[0], to);
	assert_int_equal(may_run[1], -1); /* all of before, and no more */
	assert_false(all_of_many);
}

static const struct machine four = {{"", ""}, "0000", 0, 2, 2};

/* Who might run on all that there are may run on those to come. */
static void anywhere(void **state)
{
	(void)state;
	on(&four, 4, 0);
	assert_int_equal(bl_place_elsewhere(2), 2);
	machine = NULL;
	assert_int_equal(sets, 2);
	assert_true(all_of_many);
}

static void refused(void **state)
{
	(void)state;
	on(&four, CORES_MOST, 1);
	assert_int_equal(bl_place_elsewhere(2), -EINVAL);
	machine = NULL;
	assert_int_equal(sets, 1);
}

/* Its cores were changed in the middle: it is left on none of its own choice. */
static void changed(void **state)
{
	(void)state;
	on(&four, CORES_MOST, 2);
	assert_int_equal(bl_place_elsewhere(2), 2);
	machine = NULL;
	assert_int_equal(sets, 3);
	assert_true(all_of_many);
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
	TABLE_TEST(anywhere);
	TABLE_TEST(refused);
	TABLE_TEST(changed);
	TABLE_TEST(this_machine);
	TABLE_TEST(bound);
	return table_run("place");
}
