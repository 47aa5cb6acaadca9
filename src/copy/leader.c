/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * leader.c: see leader.h. Threads of a process that is killed, or exits, end one by one, and the
 * main one may be the first: another that is still listed tells nothing. But then each of them
 * has a SIGKILL pending, or has begun to exit or to be dumped, but for a moment between the two: so
 * one is looked at twice. In a /proc of another PID namespace the number is somebody else's: then
 * it doesn't matter what is said of one that has died, and one that lives is taken for dead.
 */
#include "copy/leader.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#define EXITING	    0xcu /* PF_EXITING, PF_POSTCOREDUMP: the kernel's include/linux/sched.h */
#define FLAGS_FIELD 9	 /* of proc_pid_stat(5) */
#define MOMENT_NS   1000000

static bool is_exiting(int tasks, const char *thread)
{
	char path[300], text[512], *at;

	snprintf(path, sizeof path, "%s/stat", thread);
	if (bl_text_read(tasks, path, text, sizeof text) <= 0)
		return true;
	at = strrchr(text, ')'); /* of its name, the second field, which may hold anything */
	for (int field = 2; at && field < FLAGS_FIELD; field++)
		at = strchr(at + 1, ' ');
	return !at || strtoul(at, NULL, 10) & EXITING;
}

static bool is_killed(int tasks, const char *thread)
{
	char path[300], pending[32];

	snprintf(path, sizeof path, "%s/status", thread);
	return bl_text_line(tasks, path, "SigPnd:", pending, sizeof pending) ||
	       strtoull(pending, NULL, 16) & 1ull << (SIGKILL - 1);
}

static bool lives(int tasks, const char *thread)
{
	return !is_killed(tasks, thread) && !is_exiting(tasks, thread);
}

bool bl_lacks_leader(pid_t pid)
{
	struct timespec moment = {0, MOMENT_NS};
	char path[64], self[16];
	struct dirent *entry;
	bool others = false;
	DIR *dir;

	snprintf(self, sizeof self, "%d", (int)pid);
	snprintf(path, sizeof path, "/proc/%s/task", self);
	dir = opendir(path);
	while (dir && !others && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, self) &&
		    lives(dirfd(dir), entry->d_name)) {
			nanosleep(&moment, NULL);
			others = lives(dirfd(dir), entry->d_name);
		}
	if (dir)
		closedir(dir);
	return others;
}
