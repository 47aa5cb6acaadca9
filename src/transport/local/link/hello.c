/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hello.c: see hello.h. No state; the service thread enters, and whoever opens or
 * closes an endpoint.
 */
#include "transport/local/link/hello.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/window.h"
#include "transport/local/link/atomics_page.h"
#include "transport/local/link/discard.h"
#include "transport/local/link/handshake.h"

#define BACKLOG	     4096
#define FDS_MOST     253 /* that one message brings */
#define OVERFLOW_UID 65534ul

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
		bl_warn("no socket for connections: %s; %s", strerror(-fd), bl_remedy(-fd));
		return fd;
	}
	if (bind(fd, (struct sockaddr *)&name, len) || listen(fd, BACKLOG)) {
		err = -errno;
		if (err == -EADDRINUSE)
			bl_info("the name of this endpoint is another's");
		else
			bl_warn("no rendezvous socket: %s; %s", strerror(-err), bl_remedy(-err));
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

/* Who called, when it did; of a call of ours: who listens, when it began to. */
static int other_end(int fd, struct ucred *cred)
{
	socklen_t len = sizeof *cred;

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &len))
		return 0;
	bl_warn("no neighbour can be trusted: getsockopt(SO_PEERCRED): %s; %s", strerror(errno),
		bl_remedy(errno));
	return -EOPNOTSUPP;
}

const char *bl_why_stranger(void)
{
	return user_is_known() ? "it belongs to another user"
			       : "this process's user has no name in its user namespace, so "
				 "nobody can be trusted; map it (unshare --map-current-user)";
}

int bl_socket_pid(int fd, pid_t *pid)
{
	struct ucred cred;
	int err = other_end(fd, &cred);

	if (err)
		return err;
	if (cred.uid != geteuid())
		return -EPERM;
	if (cred.pid != getpid() && !user_is_known())
		return -EPERM;
	*pid = cred.pid;
	return 0;
}

int bl_socket_listens(int fd, const uint8_t id[16])
{
	struct ucred caller, listener;
	struct sockaddr_un name;
	socklen_t len = bl_socket_name(&name, id);
	int back = bl_socket(), err;

	if (back < 0)
		return back;
	/* Over when its queue has taken us in: it need not do anything. */
	err = connect(back, (struct sockaddr *)&name, len) ? -errno : other_end(back, &listener);
	bl_discard_socket(back);
	if (!err)
		err = other_end(fd, &caller);
	if (err)
		return err == -ECONNREFUSED ? -EACCES : err; /* nobody has that name */
	return caller.pid == listener.pid && (caller.pid || caller.uid == listener.uid) ? 0
											: -EACCES;
}

static struct bl_hello begin(const struct bl_local *local, enum bl_hello_step step)
{
	return (struct bl_hello){
		.magic = HELLO_MAGIC,
		.version = BL_SEG_VERSION,
		.size = sizeof(struct bl_hello),
		.from = local->addr,
		.step = step,
	};
}

/* With n descriptors, or none. 0 or -errno. */
static int say(int sock, struct bl_hello *hello, const int fds[BL_FDS], size_t n)
{
	struct iovec iov = {hello, sizeof *hello};
	union {
		char bytes[CMSG_SPACE(BL_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof fds[0]);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof fds[0]);
		memcpy(CMSG_DATA(c), fds, n * sizeof fds[0]);
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof *hello ? 0 : -errno;
}

int bl_hello_send(const struct bl_handshake *x, enum bl_hello_step step, int lane)
{
	const struct bl_segment *seg = &x->local->seg;
	struct bl_hello hello = begin(x->local, step);
	int fds[BL_FDS] = {seg->fd, seg->doorbells_fd, lane};

	memcpy(hello.to, x->peer->addr.id, sizeof hello.to);
	hello.doorbell = x->peer->setup.index;
	bl_window(BL_WINDOW_HELLO, &hello);
	return say(x->fd, &hello, fds, lane < 0 ? 0 : BL_FDS);
}

int bl_hello_prove(int fd, const struct bl_local *local, const uint8_t to[16], uint64_t seen)
{
	struct bl_hello hello = begin(local, BL_HELLO_PROVE);

	memcpy(hello.to, to, sizeof hello.to);
	hello.seen = seen;
	return say(fd, &hello, NULL, 0);
}

void bl_hello_give_atomics_page(int fd, const struct bl_local *local)
{
	struct bl_hello hello = begin(local, BL_HELLO_ATOMICS_PAGE);

	if (say(fd, &hello, (int[BL_FDS]){bl_atomics_page_fd()}, 1))
		return; /* it has gone, or will ask again */
}

void bl_hello_refuse(int fd, const struct bl_local *local, int status)
{
	struct bl_hello hello = begin(local, BL_HELLO_ANSWER);

	hello.status = status;
	if (say(fd, &hello, NULL, 0))
		return; /* it has gone, or will find that we have */
}

static bool hello_is_valid(const struct bl_hello *hello, ssize_t n)
{
	return n == (ssize_t)sizeof *hello && hello->magic == HELLO_MAGIC &&
	       hello->size == sizeof *hello && hello->version == BL_SEG_VERSION &&
	       hello->step >= BL_HELLO_CALL && hello->step <= BL_HELLO_ATOMICS_PAGE &&
	       bl_addr_valid(&hello->from);
}

int bl_hello_peek(int fd, struct bl_hello *hello)
{
	ssize_t n = recv(fd, hello, sizeof *hello, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return -errno;
	return hello_is_valid(hello, n) ? 0 : -EPROTO;
}

void bl_hello_skip(int fd)
{
	char byte;

	if (bl_brings_descriptors(fd) || recv(fd, &byte, sizeof byte, MSG_DONTWAIT) < 0)
		return; /* whoever sent that needs no answer; or it hasn't come yet */
}

/* The descriptors of a message; more than we know of are closed. */
static void take_descriptors(struct msghdr *msg, int got[BL_FDS])
{
	unsigned n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
			if (n < BL_FDS)
				got[n++] = one;
			else
				bl_discard_received(one);
		}
	}
}

int bl_hello_receive(int fd, struct bl_hello *hello, int got[BL_FDS])
{
	struct iovec iov = {hello, sizeof *hello};
	union {
		char bytes[CMSG_SPACE(FDS_MOST * sizeof(int))]; /* none is to end here */
		struct cmsghdr align;
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof control.bytes};
	ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	for (int i = 0; i < BL_FDS; i++)
		got[i] = -1;
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	take_descriptors(&msg, got);
	if (!n)
		return -ECONNRESET;
	if (!hello_is_valid(hello, n))
		return -EPROTO;
	/* Some came, and there was no room for all. */
	return msg.msg_flags & MSG_CTRUNC && got[BL_FDS - 1] < 0 ? -EMFILE : 0;
}
