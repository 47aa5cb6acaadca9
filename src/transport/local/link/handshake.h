/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * handshake.h: two endpoints get connected. Each sends the other the memory that they will share
 * (wire.h), its lane to it among it, over the socket that one of them has called the other by:
 *
 *   caller                                   called
 *   CALL                           ───────►  is it who it says?
 *                                  ◄───────  ANSWER: header, doorbells, lane; promised
 *   maps them
 *   GIVE: header, doorbells, lane  ───────►  maps them
 *   connected                      ◄───────  READY; connected
 *
 * Memory goes only to somebody who waits for it, and no descriptor of a lane is kept. That there is
 * one connection of a pair and not two, or halves of two, comes from these rules:
 *
 *  - Who has promised neither calls nor ends a call of its own before the caller has given, hung
 *    up, or taken too long.
 *  - Of two that have called each other the one with the smaller id refuses the other's call
 *    (-EALREADY), and so does one that is connected.
 *  - READY counts when it is in the caller's socket: the caller shuts the socket, and reads what
 *    is there, before it gives a call up.
 *
 * Who is connected may call with a proof for the atomics page (prove_access.c). The service threads
 * are at both ends. service.lock is held in all of this, before bl_local.lock.
 */
#ifndef BL_TRANSPORT_LOCAL_LINK_HANDSHAKE_H
#define BL_TRANSPORT_LOCAL_LINK_HANDSHAKE_H

#include "transport/local/local.h"

struct bl_spares; /* spares.h */

struct bl_handshake {
	struct bl_handshake *next;
	struct bl_local *local;
	/* Whom we have called or promised; NULL: a caller that has said nothing yet. */
	struct bl_peer *peer;
	bool incoming;
	bool cts_all; /* outgoing: READY is what is missing */
	bool proof;   /* outgoing: the atomics_page is; of one that is connected */
	bool over;    /* it has no descriptor any more */
	int fd;
	pid_t pid;	   /* of the other process */
	uint32_t doorbell; /* given: ours there */
	uint64_t started_ms;
	struct bl_spares *spares; /* whose place its descriptors took, or NULL */
	struct bl_link link;	  /* as far as it is there */
};

struct bl_handshakes {
	struct bl_handshake *list;
	unsigned calls, callers; /* in it */
	bool full;		 /* no room for another caller: leave listeners alone a while */
	bool retry;		 /* some spares are missing: try again */
	uint64_t due_ms;	 /* when some call must be made again; UINT64_MAX: none */
};
extern struct bl_handshakes bl_handshakes;

/* Call all that the endpoint wants to be connected to. */
void bl_handshake_call(struct bl_local *local);
/* False: leave listeners alone a while. */
bool bl_handshake_takes_callers(void);
/* Somebody calls the endpoint. */
void bl_handshake_answer(struct bl_local *local);
/* There is something to be read. */
void bl_handshake_serve(struct bl_handshake *x);
/* Give up those that have waited for too long, and free those that are over. */
void bl_handshake_tidy(void);
/* How long the thread may sleep: milliseconds, or -1. */
int bl_handshake_patience(void);
/* The endpoint closes. */
void bl_handshake_forget(const struct bl_local *local);
/* In a forked child. */
void bl_handshake_orphan(void);

#endif
