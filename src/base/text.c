/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * text.c: see text.h.
 */
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t bl_text_read(int dir, const char *path, char *text, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : read(fd, text, size - 1);

	if (fd >= 0 && n < 0)
		n = -errno;
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

int bl_text_line(int dir, const char *path, const char *name, char *value, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC), ret = -ENOMSG;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	char *line = NULL;
	size_t room = 0;

	if (!file) {
		ret = -errno;
		if (fd >= 0)
			close(fd);
		return ret;
	}
	while (ret == -ENOMSG && getline(&line, &room, file) > 0)
		if (!strncmp(line, name, strlen(name))) {
			snprintf(value, size, "%s", line + strlen(name));
			ret = 0;
		}
	if (ferror(file) && ret)
		ret = errno ? -errno : -EIO;
	free(line);
	fclose(file);
	return ret;
}
