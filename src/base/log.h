/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * log.h: one place where messages for people leave the library. The level is
 * the knob FI_BEELINE_LOG; messages go to stderr, or to whoever took them over
 * with bl_log_redirect() (the provider hands them to libfabric's log).
 * A message is logged once, where its error is decided. Any thread.
 */
#ifndef BL_BASE_LOG_H
#define BL_BASE_LOG_H

#include "base/compiler.h"

enum bl_log_level { BL_LOG_WARN, BL_LOG_INFO, BL_LOG_DEBUG };

/* text: one line without its newline; valid during the call. */
typedef void bl_log_sink(enum bl_log_level level, const char *text);

void bl_log_redirect(bl_log_sink *sink); /* NULL: back to stderr */
void bl_log(enum bl_log_level level, const char *format, ...) bl_printf(2, 3);

#define bl_warn(...)  bl_log(BL_LOG_WARN, __VA_ARGS__)
#define bl_info(...)  bl_log(BL_LOG_INFO, __VA_ARGS__)
#define bl_debug(...) bl_log(BL_LOG_DEBUG, __VA_ARGS__)

/* What a user can do about a system call that failed with this errno. */
const char *bl_remedy(int err);

#endif
