/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * over.c: whether a process that is dying can still write into our memory.
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

#include "local/local.h"

#define SIGKILL_BIT (1ull << (SIGKILL - 1))

/* Has the thread been sent a SIGKILL that it hasn't died of yet? -1: can't be said. One
 * that isn't there any more has died. */
static int dying(int tasks, const char *thread)
{
	char path[300], text[4096];
	const char *line;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%s/status", thread);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ESRCH ? 0 : -1;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	line = strstr(text, "\nSigPnd:");
	return line && strtoull(line + strlen("\nSigPnd:"), NULL, 16) & SIGKILL_BIT;
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
