/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * log.c: see log.h. The sink is one atomic pointer; a line is built on the
 * caller's stack and written at once, so that lines of threads don't mix.
 */
#include "base/log.h"

#include <stdarg.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/knobs.h"

static _Atomic(bl_log_sink *) redirect;

void bl_log_redirect(bl_log_sink *sink)
{
	atomic_store_explicit(&redirect, sink, memory_order_release);
}

bl_cold void bl_log(enum bl_log_level level, const char *format, ...)
{
	bl_log_sink *sink = atomic_load_explicit(&redirect, memory_order_acquire);
	static const char *const names[] = {"warn", "info", "debug"};
	char text[512];
	va_list args;

	/* A sink has a filter of its own. */
	if (!sink && (uint64_t)level > bl_knobs()->log)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (sink)
		sink(level, text);
	else
		dprintf(STDERR_FILENO, "beeline[%d] %s: %s\n", (int)getpid(), names[level], text);
}

const char *bl_remedy(int err)
{
	switch (err) {
	case EMFILE:
		return "raise the limit of open files (ulimit -n)";
	case ENFILE:
		return "raise the machine's limit of open files (sysctl fs.file-max)";
	case EPERM:
	case EACCES:
	case ENOSYS:
		return "allow this system call (a seccomp profile denies it, as containers have "
		       "them)";
	case EAGAIN:
	case ENOMEM:
		return "raise the limit of processes (ulimit -u, or pids.max of the cgroup), of "
		       "address space (ulimit -v) or of memory (memory.max of the cgroup)";
	}
	return "the kernel has no other reason";
}
