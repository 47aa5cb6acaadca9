/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rebind_test.c: base/rebind.h on libraries whose call of sched_yield is bound when it is first
 * made, when the library is loaded (and then made read-only), and without a table of procedures;
 * nobody else's calls change, and no page stays writable that wasn't.
 */
#include <errno.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rebind.h"
#include "unit/table.h"

int calls_lazily(void);
int calls_sealed(void);
int calls_unplanned(void);
int calls_high(void);
int calls_own(void);
int calls_untouched(void);

enum { REAL = 1, US, ANOTHER };

/* What all of them call at first, for the program comes before libc. */
__attribute__((visibility("default"))) int sched_yield(void)
{
	return REAL;
}

static int by_us(void)
{
	return US;
}

static int by_another(void)
{
	return ANOTHER;
}

#define FN(function) ((bl_function)(function))

static int rebind(int (*library)(void), int (*was)(void), int (*by)(void))
{
	return bl_rebind((const void *)(uintptr_t)library, "sched_yield", FN(was), FN(by), NULL);
}

/* --- where a library lies ---------------------------------------------------------------- */

/* Of the library's mappings how many have these rights: "rw-p". */
static int mappings(const char *library, const char *rights)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	int n = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof line, maps))
		n += strstr(line, library) && strstr(line, rights);
	fclose(maps);
	return n;
}

struct place {
	uintptr_t inside;
	void *sealed; /* when it was loaded */
	size_t size;
};

static int find(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t page = (uintptr_t)getpagesize();
	struct place *place = arg;
	bool here = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + ph->p_vaddr;

		here |= ph->p_type == PT_LOAD && place->inside - at < ph->p_memsz;
		if (here && ph->p_type == PT_GNU_RELRO) {
			place->sealed = (void *)(at & ~(page - 1));
			place->size = ((at + ph->p_memsz) & ~(page - 1)) - (at & ~(page - 1));
		}
	}
	return here;
}

static struct place place_of(int (*library)(void))
{
	struct place place = {.inside = (uintptr_t)library};

	assert_int_equal(dl_iterate_phdr(find, &place), 1);
	assert_true(place.size > 0);
	return place;
}

/* --- ways to be linked ------------------------------------------------------------------- */

struct library_row {
	struct row row;
	const char *library;
	int (*call)(void);
	bool called; /* once before, so that it is bound */
};

static const struct library_row rows[] = {
	{{"lazily", "the word still leads to the linker"}, "calls_lazily", calls_lazily, false},
	{{"lazily, called before", "it is bound"}, "calls_lazily", calls_lazily, true},
	{{"sealed", "read-only, and so again"}, "calls_sealed", calls_sealed, false},
	{{"unplanned", "a GLOB_DAT: no table of procedures"},
	 "calls_unplanned",
	 calls_unplanned,
	 false},
	{{"high", "linked for where it isn't loaded: what it is off by is negative"},
	 "calls_high",
	 calls_high,
	 false},
};

static void library(void **state)
{
	const struct library_row *row = TABLE_ROW(struct library_row, state);
	int writable = mappings(row->library, " rw-p "), parts = mappings(row->library, " ");
	const char *object = NULL;

	if (row->called)
		assert_int_equal(row->call(), REAL);
	assert_int_equal(bl_rebind((const void *)(uintptr_t)row->call, "sched_yield",
				   FN(sched_yield), FN(by_us), &object),
			 1);
	assert_non_null(strstr(object, row->library));
	assert_int_equal(row->call(), US);
	assert_int_equal(rebind(row->call, sched_yield, by_us), 1);
	assert_int_equal(row->call(), US);
	/* Others call what they did. */
	assert_int_equal(calls_untouched(), REAL);
	assert_int_equal(sched_yield(), REAL);
	assert_int_equal(mappings(row->library, " rw-p "), writable);
	assert_int_equal(mappings(row->library, " "), parts);
	/* And back. */
	assert_int_equal(rebind(row->call, by_us, sched_yield), 1);
	assert_int_equal(row->call(), REAL);
}

/* --- what is left alone ------------------------------------------------------------------ */

static void not_called(void **state)
{
	static const char *const names[] = {"sched_yiel", "sched_yields", ""};
	const void *inside = (const void *)(uintptr_t)calls_untouched;

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		assert_int_equal(bl_rebind(inside, names[i], FN(sched_yield), FN(by_us), NULL), 0);
	assert_int_equal(calls_untouched(), REAL);
}

static void its_own(void **state)
{
	(void)state;
	assert_int_equal(rebind(calls_own, sched_yield, by_us), 0);
	assert_int_equal(calls_own(), REAL); /* the program's comes first */
}

static void nowhere(void **state)
{
	const char *object = "";
	void *heap = malloc(64);

	(void)state;
	assert_non_null(heap);
	assert_int_equal(bl_rebind(heap, "sched_yield", FN(sched_yield), FN(by_us), &object),
			 -ENOENT);
	assert_null(object);
	assert_int_equal(bl_rebind(NULL, "sched_yield", FN(sched_yield), FN(by_us), NULL), -ENOENT);
	free(heap);
}

/* By one that lies in the very object, or that would call it by that object's word. */
static void in_itself(void **state)
{
	(void)state;
	assert_int_equal(rebind(calls_lazily, calls_lazily, by_us), -EINVAL);
	assert_int_equal(rebind(calls_lazily, sched_yield, calls_lazily), -EINVAL);
	assert_int_equal(calls_lazily(), REAL);
}

static void somebody_elses(void **state)
{
	(void)state;
	assert_int_equal(calls_lazily(), REAL);
	assert_int_equal(rebind(calls_lazily, by_another, by_us), -EBUSY);
	assert_int_equal(calls_lazily(), REAL);
}

/* --- pages that are read-only ------------------------------------------------------------ */

/* A tool that has made it writable goes on to write to it. */
static void made_writable(void **state)
{
	struct place place = place_of(calls_sealed);

	(void)state;
	assert_int_equal(mprotect(place.sealed, place.size, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(rebind(calls_sealed, sched_yield, by_us), 1);
	*(volatile char *)place.sealed = *(volatile char *)place.sealed;
	assert_int_equal(calls_sealed(), US);
	assert_int_equal(rebind(calls_sealed, by_us, sched_yield), 1);
	assert_int_equal(mprotect(place.sealed, place.size, PROT_READ), 0);
	assert_int_equal(calls_sealed(), REAL);
}

/* 1: mprotect is refused from now on, by -EACCES. */
static bool forbid_mprotect(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void refused(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (!child)
		_exit(!forbid_mprotect() ? 2
					 : rebind(calls_sealed, sched_yield, by_us) != -EACCES ||
						   calls_sealed() != REAL);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define TURNS 500

static void *turns(void *arg)
{
	(void)arg;
	for (int i = 0; i < TURNS; i++) {
		rebind(calls_sealed, sched_yield, by_us);
		rebind(calls_sealed, by_us, sched_yield);
	}
	return NULL;
}

/* One doesn't seal the page that another is about to write to. */
static void two_at_once(void **state)
{
	pthread_t other;

	(void)state;
	assert_int_equal(pthread_create(&other, NULL, turns, NULL), 0);
	turns(NULL);
	assert_int_equal(pthread_join(other, NULL), 0);
	rebind(calls_sealed, by_us, sched_yield);
	assert_int_equal(calls_sealed(), REAL);
}

int main(void)
{
	TABLE_ROWS("library", library, rows);
	table_add("a name that it doesn't call", not_called, NULL);
	table_add("a function of its own", its_own, NULL);
	table_add("where nothing is loaded", nowhere, NULL);
	table_add("by what lies in it", in_itself, NULL);
	table_add("a word that leads elsewhere", somebody_elses, NULL);
	table_add("made writable by somebody", made_writable, NULL);
	table_add("may not be made writable", refused, NULL);
	table_add("two threads at once", two_at_once, NULL);
	return table_run("rebind");
}
