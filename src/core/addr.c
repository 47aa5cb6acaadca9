/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * addr.c: see addr.h. No state.
 */
#include "core/addr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

/* The boot id tells running kernels apart: containers of one node share it,
 * virtual machines of one image don't. */
static int read_boot_id(uint64_t *host)
{
	char text[64];
	ssize_t n = bl_text_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof text);

	if (n < 32)
		return n < 0 ? (int)n : -EIO;
	*host = 0xcbf29ce484222325u; /* FNV-1a; the id is random already */
	for (ssize_t i = 0; i < n; i++)
		*host = (*host ^ (uint8_t)text[i]) * 0x100000001b3u;
	return 0;
}

int bl_addr_make(struct bl_addr *addr)
{
	char hostname[256];
	struct stat netns;
	int err;

	memset(addr, 0, sizeof *addr);
	addr->magic = BL_ADDR_MAGIC;
	addr->version = BL_ADDR_VERSION;
	addr->pid = (uint32_t)getpid();
	err = read_boot_id(&addr->host);
	if (err)
		return err;
	/* The process's own can't be read any more once its main thread has ended. */
	if (!stat("/proc/thread-self/ns/net", &netns) || !stat("/proc/self/ns/net", &netns))
		addr->netns = (uint32_t)netns.st_ino;
	if (gethostname(hostname, sizeof hostname))
		memcpy(hostname, "?", 2);
	hostname[sizeof addr->hostname - 1] = 0;
	memcpy(addr->hostname, hostname, strlen(hostname));
	if (getrandom(addr->id, sizeof addr->id, 0) != (ssize_t)sizeof addr->id)
		return -errno;
	return 0;
}

static uint64_t hash(uint64_t h, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u; /* FNV-1a leaves the top bits of few bytes */
	return h ^ h >> 32;
}

int bl_addr_name(struct bl_addr *addr, const char *name)
{
	uint32_t uid = geteuid();
	int err = bl_addr_make(addr);

	addr->pid = 0;
	for (size_t i = 0; i < sizeof addr->id; i += sizeof(uint64_t)) {
		uint64_t h = hash(0xcbf29ce484222325u + i, &uid, sizeof uid);

		h = hash(h, name, strlen(name));
		memcpy(addr->id + i, &h, sizeof h);
	}
	return err;
}

bool bl_addr_valid(const struct bl_addr *addr)
{
	return addr->magic == BL_ADDR_MAGIC && addr->version == BL_ADDR_VERSION && !addr->flags &&
	       memchr(addr->hostname, 0, sizeof addr->hostname);
}

int bl_addr_reachable(const struct bl_addr *from, const struct bl_addr *to)
{
	if (from->host != to->host)
		return -EHOSTUNREACH;
	return from->netns == to->netns ? 0 : -ENETUNREACH;
}

unsigned bl_service_name(struct sockaddr_un *name, const char *prefix, const uint8_t id[16])
{
	static const char digit[] = "0123456789abcdef";
	size_t n = strlen(prefix);
	char *at = name->sun_path + 1;

	memset(name, 0, sizeof *name);
	name->sun_family = AF_UNIX;
	/* sun_path[0] is 0: the abstract namespace, no file */
	memcpy(at, prefix, n);
	for (int i = 0; i < 16; i++) {
		at[n++] = digit[id[i] >> 4];
		at[n++] = digit[id[i] & 15];
	}
	return (unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}
