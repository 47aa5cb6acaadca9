/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hello.h: the rendezvous sockets and what two service threads say to each other
 * there: one hello in each direction, with the sender's segment. Nothing is
 * believed before the kernel has said whose process it comes from.
 */
#ifndef BL_LOCAL_HELLO_H
#define BL_LOCAL_HELLO_H

#include <sys/socket.h>
#include <sys/un.h>

#include "local/local.h"

struct bl_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t size;
	struct bl_addr from;
	uint8_t to[16];
	uint64_t lane_at; /* the sender's lane to the receiver, in the segment that comes along */
	uint32_t bell;	  /* the receiver's bell in the sender's header */
	int32_t status;	  /* answer: 0 or a negative errno */
};
#define HELLO_MAGIC 0x6f6c6c68u
static_assert(sizeof(struct bl_hello) == 104, "exchanged between processes");

/* The abstract name of the endpoint's socket; returns its length. */
socklen_t bl_socket_name(struct sockaddr_un *name, const uint8_t id[16]);
/* A fresh one that never blocks, or -errno. */
int bl_socket(void);
/* Make local->listener; 0 or -errno, logged. */
int bl_socket_listen(struct bl_local *local);
/* The other end's process as our PID namespace numbers it; -EPERM: not ours,
 * -EOPNOTSUPP: the kernel doesn't say whose, logged. */
int bl_socket_pid(int fd, pid_t *pid);
/*
 * Whether the process that called us by fd is the one that listens under this id.
 * 0; -EACCES: it isn't; -EAGAIN: it has many callers; else why it can't be found out.
 * Where neither can be seen from our PID namespace, their user is all that is compared.
 */
int bl_socket_listens(int fd, const uint8_t id[16]);
/* What makes the other end a stranger (-EPERM), for people. */
const char *bl_why_stranger(void);
/* 0 or -errno; without the segment when the status is an error. */
int bl_hello_send(int fd, const struct bl_peer *peer, int status);
/* Nothing but the status, which is an error. */
void bl_hello_refuse(int fd, const struct bl_local *local, int status);
/* The hello that can be received next, without what comes along; -EAGAIN: not yet. */
int bl_hello_peek(int fd, struct bl_hello *hello);
/* Take it unread: whoever hears that a hello wasn't taken calls again. */
void bl_hello_skip(int fd);
/* One hello and the descriptors that came along: the segment's, the commons' (-1: it
 * didn't). -EAGAIN: not yet, -EMFILE: a descriptor came and there was no room for it;
 * the hello is good. -ECONNRESET: the other hung up; -EPIPE: without having read ours. */
int bl_hello_receive(int fd, struct bl_hello *hello, int got[2]);

#endif
