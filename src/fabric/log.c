/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * log.c: the way to libfabric's log. Its functions are those of the libfabric that loaded
 * this provider, which provider.c looks up. Without them messages go to stderr.
 */
#include "fabric/fabric.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

/* NULL before there is a libfabric, and after cleanup(): whoever logs meanwhile takes a copy. */
static _Atomic(__typeof__(&fi_log_enabled)) log_enabled;
static _Atomic(__typeof__(&fi_log)) log_write;
static _Atomic(const struct fi_provider *) provider; /* in whose name; set before the two */

static void log_sink(enum bl_log_level level, const char *text)
{
	static const enum fi_log_level levels[] = {FI_LOG_WARN, FI_LOG_INFO, FI_LOG_DEBUG};

	__typeof__(&fi_log_enabled) enabled = log_enabled;
	__typeof__(&fi_log) put = log_write;

	if (enabled && put && enabled(provider, levels[level], FI_LOG_CORE)) {
		put(provider, levels[level], FI_LOG_CORE, "beeline", 0, "%s\n", text);
		return;
	}
	/* libfabric says nothing at all unless FI_LOG_LEVEL is set. A warning of
	 * ours explains a failure that the MPI library reports as a bare number,
	 * so people see it unless they chose what to see. */
	if (level == BL_LOG_WARN && !getenv("FI_LOG_LEVEL"))
		dprintf(STDERR_FILENO, "beeline[%d] warn: %s\n", (int)getpid(), text);
}

bl_cold int bl_fi_refuse(int error, enum fi_log_subsys subsys, const char *format, ...)
{
	__typeof__(&fi_log_enabled) enabled = log_enabled;
	__typeof__(&fi_log) put = log_write;
	char text[256];
	va_list args;

	if (!enabled || !put || !enabled(provider, FI_LOG_INFO, subsys))
		return error;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	put(provider, FI_LOG_INFO, subsys, "beeline", 0, "%s\n", text);
	return error;
}

void bl_fi_log_open(const struct fi_provider *as, __typeof__(&fi_log_enabled) enabled,
		    __typeof__(&fi_log) put)
{
	provider = as;
	log_write = put;
	log_enabled = put ? enabled : NULL;
	if (log_enabled)
		bl_log_redirect(log_sink);
}

void bl_fi_log_close(void)
{
	bl_log_redirect(NULL);
	log_enabled = NULL;
	log_write = NULL;
}
