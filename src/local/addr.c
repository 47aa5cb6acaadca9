/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * addr.c: see addr.h. No state.
 */
#include "local/addr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The boot id tells running kernels apart: containers of one node share it,
 * virtual machines of one image don't. */
static int read_boot_id(uint8_t id[16])
{
	char text[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n;
	int digits = 0;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof text);
	close(fd);
	memset(id, 0, 16);
	for (ssize_t i = 0; i < n && digits < 32; i++) {
		int c = text[i], v;

		if (c >= '0' && c <= '9')
			v = c - '0';
		else if (c >= 'a' && c <= 'f')
			v = c - 'a' + 10;
		else
			continue;
		id[digits / 2] |= (uint8_t)(v << (digits & 1 ? 0 : 4));
		digits++;
	}
	return digits == 32 ? 0 : -EIO;
}

int bl_addr_make(struct bl_addr *addr)
{
	struct stat netns;
	int err;

	memset(addr, 0, sizeof *addr);
	addr->magic = BL_ADDR_MAGIC;
	addr->version = BL_ADDR_VERSION;
	addr->pid = (uint32_t)getpid();
	err = read_boot_id(addr->host);
	if (err)
		return err;
	if (!stat("/proc/self/ns/net", &netns))
		addr->netns = netns.st_ino;
	if (gethostname(addr->hostname, sizeof addr->hostname))
		memcpy(addr->hostname, "?", 2);
	addr->hostname[sizeof addr->hostname - 1] = 0;
	if (getrandom(addr->id, sizeof addr->id, 0) != (ssize_t)sizeof addr->id)
		return -errno;
	return 0;
}

bool bl_addr_valid(const struct bl_addr *addr)
{
	return addr->magic == BL_ADDR_MAGIC && addr->version == BL_ADDR_VERSION &&
	       !addr->flags && !addr->reserved &&
	       memchr(addr->hostname, 0, sizeof addr->hostname);
}

int bl_addr_reachable(const struct bl_addr *from, const struct bl_addr *to)
{
	if (memcmp(from->host, to->host, sizeof to->host))
		return -EHOSTUNREACH;
	return from->netns == to->netns ? 0 : -ENETUNREACH;
}
