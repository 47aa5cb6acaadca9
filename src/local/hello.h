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
/* The other end's process as our PID namespace numbers it; -EPERM: not ours. */
int bl_socket_pid(int fd, pid_t *pid);
/* 0 or -errno; without the segment when the status is an error. */
int bl_hello_send(int fd, const struct bl_peer *peer, int status);
/* One hello and the descriptors that came along: the segment's, the commons' (-1: it
 * didn't). -EAGAIN: not yet, -EMFILE: a descriptor came and there was no room for it;
 * the hello is good. */
int bl_hello_receive(int fd, struct bl_hello *hello, int got[2]);

#endif
