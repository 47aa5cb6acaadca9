/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hello.h: the rendezvous sockets and what two service threads say to each other
 * there (handshake.h): hellos, with the sender's memory. Nothing is believed before
 * the kernel has said whose process it comes from.
 */
#ifndef BL_TRANSPORT_LOCAL_LINK_HELLO_H
#define BL_TRANSPORT_LOCAL_LINK_HELLO_H

#include <sys/socket.h>
#include <sys/un.h>

#include "transport/local/local.h"

enum bl_hello_step {
	BL_HELLO_CALL = 1, /* let us be connected */
	BL_HELLO_ANSWER,   /* here is my memory; or an error */
	BL_HELLO_GIVE,	   /* here is mine */
	BL_HELLO_READY,	   /* we are connected */
	BL_HELLO_PROVE,	   /* this is your secret: let me have your atomics_page; prove_access.c */
	BL_HELLO_ATOMICS_PAGE, /* here they are */
};

struct bl_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t size;
	struct bl_addr from;
	uint8_t to[16];
	uint32_t doorbell; /* the receiver's among the sender's */
	int32_t status;	   /* of an answer: 0 or a negative errno */
	uint32_t step;	   /* enum bl_hello_step */
	uint32_t unused;
	uint64_t seen; /* of a proof: the receiver's secret */
};
#define HELLO_MAGIC 0x6f6c6c68u
static_assert(sizeof(struct bl_hello) == 112, "exchanged between processes");

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
/*
 * Say this step of the exchange: 0 or -errno. lane: the descriptor of ours to the peer,
 * which goes along with all that we share; -1: none of that.
 */
struct bl_handshake;
int bl_hello_send(const struct bl_handshake *x, enum bl_hello_step step, int lane);
/* To the one that has this name: what its secret is. 0 or -errno. */
int bl_hello_prove(int fd, const struct bl_local *local, const uint8_t to[16], uint64_t seen);
/* The answer to that: the atomics_page. */
void bl_hello_give_atomics_page(int fd, const struct bl_local *local);
/* An answer that is an error. */
void bl_hello_refuse(int fd, const struct bl_local *local, int status);
/* The hello that can be received next, without what comes along; -EAGAIN: not yet. */
int bl_hello_peek(int fd, struct bl_hello *hello);
/* Take it unread: whoever hears that a hello wasn't taken calls again. */
void bl_hello_skip(int fd);
/* One hello and the descriptors that came along (-1: it didn't). -EAGAIN: not yet,
 * -EMFILE: one came and there was no room for it; the hello is good. -ECONNRESET: the
 * other hung up; -EPIPE: without having read ours. */
int bl_hello_receive(int fd, struct bl_hello *hello, int got[BL_FDS]);

#endif
