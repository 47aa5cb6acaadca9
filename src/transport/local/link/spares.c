/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * spares.c: see spares.h.
 */
#include "transport/local/link/spares.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct bl_spares bl_calling = {.fd = {-1, -1, -1, -1, -1}};
struct bl_spares bl_answering = {.fd = {-1, -1, -1, -1, -1}};
bool bl_spares_tight;

static void close_those(struct bl_spares *spares)
{
	for (int i = 0; i < BL_SPARES; i++) {
		if (spares->fd[i] >= 0)
			close(spares->fd[i]);
		spares->fd[i] = -1;
	}
}

static bool fill(struct bl_spares *spares, int fd)
{
	for (int i = 0; i < BL_SPARES && !spares->spent; i++) {
		if (spares->fd[i] < 0)
			spares->fd[i] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (spares->fd[i] < 0)
			return false;
	}
	return true;
}

bool bl_spares_fill(int fd)
{
	return fill(&bl_calling, fd) && fill(&bl_answering, fd);
}

void bl_spares_close_all(void)
{
	close_those(&bl_calling);
	close_those(&bl_answering);
}

bool bl_is_short(int err)
{
	return err == -EMFILE || err == -ENFILE;
}

void bl_memlimit_reclaim(struct bl_spares *spares)
{
	if (bl_spares_tight && !spares->spent)
		close_those(spares); /* filled again before the next sleep */
}

bool bl_spares_spend(struct bl_spares *spares, int err)
{
	if (!bl_is_short(err) || spares->spent)
		return false;
	close_those(spares);
	return true;
}
