/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * text.h: what the kernel says in its small files. Any thread.
 */
#ifndef BL_BASE_TEXT_H
#define BL_BASE_TEXT_H

#include <fcntl.h>
#include <stddef.h>
#include <sys/types.h>

/* The first size - 1 bytes of a file, ended by a NUL. `path` as openat() takes it. Says how many
 * there are, or a negative errno, text being empty then. */
ssize_t bl_text_read(int dir, const char *path, char *text, size_t size);

/* What follows `name` in the first line that begins with it, its end included: of a file that may
 * be long, such as /proc/PID/status of a process with 65,536 groups. 0, -ENOMSG: there is no such
 * line, or another negative errno. */
int bl_text_line(int dir, const char *path, const char *name, char *value, size_t size);

#endif
