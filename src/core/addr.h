/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * addr.h: where an endpoint can be reached. Plain bytes, no pointers, the same
 * on every host: what fi_getname returns and fi_av_insert takes.
 */
#ifndef BL_CORE_ADDR_H
#define BL_CORE_ADDR_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BL_HOSTNAME_MAX 24
#define BL_ADDR_MAGIC	0x656e6c62u /* "blne" */
#define BL_ADDR_VERSION 1

struct bl_addr {
	uint32_t magic;
	uint16_t version;
	uint16_t flags; /* zero */
	uint8_t id[16]; /* random, or of a name: names the endpoint and its rendezvous socket */
	uint64_t host;	/* the running kernel: from its boot id */
	uint32_t netns; /* network namespace of the rendezvous socket */
	uint32_t pid;	/* for people: as the endpoint's own namespace numbers it */
	char hostname[BL_HOSTNAME_MAX]; /* for people; cut to fit, NUL-terminated */
};
/* 64 is FI_NAME_MAX, the room that MPI libraries have for an address. */
static_assert(sizeof(struct bl_addr) == 64, "shared between processes and hosts");
static_assert(offsetof(struct bl_addr, host) == 24, "shared between processes and hosts");

/* This process's half of an address, and a fresh random id. 0 or -errno. */
int bl_addr_make(struct bl_addr *addr);

/*
 * The address of whoever takes this name: of this user's, in this network namespace.
 * Its PID is 0. Others can work out the socket's name and take it first; the kernel's
 * word on who they are keeps them from more than that.
 */
int bl_addr_name(struct bl_addr *addr, const char *name);

/* The bytes make an address that this version understands. */
bool bl_addr_valid(const struct bl_addr *addr);

/*
 * 0 when `to` can be reached through this node's memory from `from`;
 * -EHOSTUNREACH: another host, -ENETUNREACH: another network namespace here.
 */
int bl_addr_reachable(const struct bl_addr *from, const struct bl_addr *to);

/* The abstract name of a socket: the prefix and the id. */
struct sockaddr_un;
unsigned bl_service_name(struct sockaddr_un *name, const char *prefix, const uint8_t id[16]);

#endif
