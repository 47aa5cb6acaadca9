/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hello.c: see hello.h. No state; the service thread enters, and whoever opens or
 * closes an endpoint.
 */
#include "local/hello.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/window.h"
#include "local/commons.h"

#define BACKLOG	     4096
#define OVERFLOW_UID 65534ul

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

socklen_t bl_socket_name(struct sockaddr_un *name, const uint8_t id[16])
{
	return bl_service_name(name, "beeline-", id);
}

int bl_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

int bl_socket_listen(struct bl_local *local)
{
	struct sockaddr_un name;
	socklen_t len = bl_socket_name(&name, local->addr.id);
	int fd = bl_socket(), err;

	if (fd < 0) {
		bl_warn("no socket for connections: %s; raise the limit of open files (ulimit -n)",
			strerror(-fd));
		return fd;
	}
	if (bind(fd, (struct sockaddr *)&name, len) || listen(fd, BACKLOG)) {
		err = -errno;
		if (err == -EADDRINUSE)
			bl_info("the name of this endpoint is another's");
		else
			bl_warn("no rendezvous socket: %s", strerror(-err));
		close(fd);
		return err;
	}
	local->listener = fd;
	return 0;
}

/* In a user namespace that doesn't map our user we and all strangers look the same. */
static bool user_is_known(void)
{
	unsigned long first, outside, count;
	bool known = geteuid() != OVERFLOW_UID;
	FILE *f = known ? NULL : fopen("/proc/self/uid_map", "re");

	while (f && fscanf(f, "%lu %lu %lu", &first, &outside, &count) == 3)
		known |= OVERFLOW_UID - first < count && OVERFLOW_UID >= first;
	if (f)
		fclose(f);
	return known;
}

/* The other end's process as our PID namespace numbers it; -EPERM: not ours. */
int bl_socket_pid(int fd, pid_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof cred;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.uid != geteuid())
		return -EPERM;
	if (cred.pid != getpid() && !user_is_known()) {
		bl_info("this process's user has no name in its user namespace: no neighbour can "
			"be trusted; map it (unshare --map-current-user)");
		return -EPERM;
	}
	*pid = cred.pid;
	return 0;
}

int bl_hello_send(int fd, const struct bl_peer *peer, int status)
{
	const struct bl_local *local = peer->local;
	struct bl_hello hello = {
		.magic = HELLO_MAGIC,
		.version = BL_SEG_VERSION,
		.size = sizeof hello,
		.from = local->addr,
		.lane_at = peer->lane_at,
		.bell = peer->index,
		.status = status,
	};
	struct iovec iov = {&hello, sizeof hello};
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	int fds[2] = {local->seg.fd, bl_commons_fd()};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	memcpy(hello.to, peer->addr.id, sizeof hello.to);
	bl_window(BL_WINDOW_HELLO, &hello);
	if (!status) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof control.bytes;
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof fds);
		memcpy(CMSG_DATA(c), fds, sizeof fds);
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof hello ? 0 : -errno;
}

/* See hello.h. */
int bl_hello_receive(int fd, struct bl_hello *hello, int got[2])
{
	struct iovec iov = {hello, sizeof *hello};
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof control.bytes};
	ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	got[0] = got[1] = -1;
	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
			if (got[0] < 0)
				got[0] = one;
			else if (got[1] < 0)
				got[1] = one;
			else
				close(one);
		}
	}
	if (!n)
		return -ECONNRESET;
	if (got[0] < 0 && msg.msg_flags & MSG_CTRUNC)
		return -EMFILE; /* one came, and there was no room for it */
	if (n != (ssize_t)sizeof *hello || hello->magic != HELLO_MAGIC ||
	    hello->size != sizeof *hello || hello->version != BL_SEG_VERSION ||
	    !bl_addr_valid(&hello->from))
		return -EPROTO;
	return 0;
}
