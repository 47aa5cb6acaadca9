/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * text.c: see text.h.
 */
#include "base/text.h"

#include <errno.h>
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
