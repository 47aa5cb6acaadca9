/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * name.c: addresses that two programs agree on beforehand: a node, which must be this
 * one, and a service, any text. The service names a rendezvous of this user, in this
 * network namespace: whoever opens an endpoint under it is reached by it. The node
 * says only whether the service may be had by another endpoint already (none: yes).
 * No state: any thread.
 *
 * An address of this kind has no PID. That tells it from one that fi_getname gave,
 * which an application may leave in a fi_info that it opens another endpoint with:
 * two endpoints can't have one address, so that is no request.
 */
#include "fabric/fabric.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A numeric address is this node's if a socket can have it. */
static bool is_own_number(const char *node)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *found;
	bool own = false;
	int fd;

	if (getaddrinfo(node, NULL, &hints, &found))
		return false;
	fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		own = !bind(fd, found->ai_addr, found->ai_addrlen);
		close(fd);
	}
	freeaddrinfo(found);
	return own;
}

/* Other names aren't looked up: that may take seconds, and an MPI library never asks. */
static bool is_own_node(const char *node)
{
	char own[256] = "";

	gethostname(own, sizeof own - 1);
	return !strcmp(node, own) || !strcmp(node, "localhost") || is_own_number(node);
}

int bl_fi_name(struct bl_addr *addr, const char *node, const char *service)
{
	int err;

	if (node && !is_own_node(node))
		return bl_fi_refuse(-FI_ENODATA, FI_LOG_CORE,
				    "node %s isn't this host; exchange fi_getname's addresses",
				    node);
	err = bl_addr_name(addr, service ? service : "");
	if (err)
		return err;
	if (!service)
		memset(addr->id, 0, sizeof addr->id);
	if (!node)
		memset(addr->hostname, 0, sizeof addr->hostname);
	return 0;
}

int bl_fi_take_name(struct bl_ep *ep, const void *src, size_t len)
{
	static const uint8_t none[sizeof(((struct bl_addr *)NULL)->id)];
	struct bl_addr addr;
	int err;

	if (!src || len != sizeof addr)
		return 0;
	memcpy(&addr, src, sizeof addr);
	if (addr.magic != BL_ADDR_MAGIC || addr.pid || !memcmp(addr.id, none, sizeof none))
		return 0;
	err = bl_ep_rename(ep, addr.id);
	return err == -EADDRINUSE && !addr.hostname[0] ? 0 : err;
}
