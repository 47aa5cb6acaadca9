/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * over.c: whether a process that is dying, or has been asked to keep off, can still write
 * into our memory.
 *
 * Its life futex is marked when its service thread ends, and threads end one by one:
 * another of them may at that moment be inside the kernel, in process_vm_writev, with
 * pages of a buffer of ours pinned, and it copies to the end of its batch before it
 * looks at the signal that killed it. Whoever kills a process makes SIGKILL pending for
 * all of its threads at once, before the first of them can end; and a thread takes
 * it off only on its way out of the kernel, when it copies nothing any more. So a
 * thread that could still write is one that has SIGKILL pending, which /proc says.
 * A program that the process has become by exec(), or a stranger who has got its
 * number since, has none. No state; the owner of an endpoint enters, when a
 * neighbour has died.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "transport/local/local.h"

#define SIGKILL_BIT (1ull << (SIGKILL - 1))
#define STOPPED_NS  1000000000u /* as long one is waited for that may be stopped */
#define CROWDED_NS  10000000000ull
#define STOPS_MOST  8	       /* more: looks are that rare here */
#define NUMBERS	    "NSpid:\t" /* then one for each PID namespace, from that of /proc inwards */

/* In a /proc of an outer PID namespace, where we have a number besides our own, neighbours'
 * numbers are other processes'. */
static bool proc_is_ours(void)
{
	char numbers[64];
	int err = bl_text_line(AT_FDCWD, "/proc/self/status", NUMBERS, numbers, sizeof numbers);

	if (err)
		return err == -ENOMSG; /* this kernel has no namespaces */
	return numbers[strcspn(numbers, "\t\n")] == '\n';
}

/* Has the thread been sent a SIGKILL that it hasn't died of yet? -1: can't be said. One
 * that isn't there any more has died. */
static int dying(int tasks, const char *thread)
{
	char path[300], pending[32];
	int err;

	snprintf(path, sizeof path, "%s/status", thread);
	err = bl_text_line(tasks, path, "SigPnd:", pending, sizeof pending);
	if (err)
		return err == -ENOENT || err == -ESRCH ? 0 : -1;
	return (strtoull(pending, NULL, 16) & SIGKILL_BIT) != 0;
}

int bl_process_over(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	int over = 1;
	DIR *dir;

	if (pid <= 0)
		return -1;
	if (kill(pid, 0) && errno == ESRCH)
		return 1;
	if (!proc_is_ours())
		return -1;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return kill(pid, 0) && errno == ESRCH ? 1 : -1;
	while (over && (entry = readdir(dir))) {
		int still = entry->d_name[0] != '.' ? dying(dirfd(dir), entry->d_name) : 0;

		if (still)
			over = still > 0 ? 0 : -1;
	}
	closedir(dir);
	return over;
}

static bool runs(int tasks, const char *thread)
{
	char path[300], text[512];
	const char *state;

	snprintf(path, sizeof path, "%s/stat", thread);
	if (bl_text_read(tasks, path, text, sizeof text) < 0)
		return false;
	state = strrchr(text, ')'); /* of its name, which may hold more of them */
	return state && (state[2] == 'R' || state[2] == 'D');
}

/* A thread of it has a core, waits for one, or is in the kernel for what won't last; one
 * that is stopped hasn't, and one that can't be seen from here. */
static bool process_runs(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	bool any = false;
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	dir = pid > 0 && proc_is_ours() ? opendir(path) : NULL;
	while (dir && !any && (entry = readdir(dir)))
		any = entry->d_name[0] != '.' && runs(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	return any;
}

bool bl_patience_ends(struct bl_patience *patience, pid_t pid)
{
	uint64_t now = bl_clock_ns();

	if (!patience->since)
		patience->since = now;
	else if (now - patience->looked >= STOPPED_NS && patience->stops < STOPS_MOST) {
		patience->stops++; /* it is we who were stopped, and it perhaps as well */
		patience->since += now - patience->looked;
		if (patience->until)
			patience->until += now - patience->looked;
	}
	patience->looked = now;
	if (!patience->until)
		patience->until = now + STOPPED_NS;
	if (now < patience->until)
		return false;
	if (now - patience->since >= CROWDED_NS || !process_runs(pid))
		return true;
	patience->until = now + STOPPED_NS / 10;
	return false;
}
