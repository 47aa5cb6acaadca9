/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pair_migrate.h: pair migration: of two that talk with each other and share a core, one moves.
 *
 * Two that talk on one core need a switch for each message, and the scheduler, which sees both run
 * all the time, leaves them there. So a process looks, at some of its waits, for whom it waits, and
 * on which core that one says that it runs, or ran (bl_seg_header.turn). If it is the same one time
 * after time, and nearly all that we have sent was for it, we say so (bl_seg_header.partner). If it
 * says the same of us, and we work little between messages, we are a pair. One of a pair that finds
 * the other on its core at nearly each look goes to another core of those that it may run on, near
 * its memory.
 *
 * Both must say so, or the leaves of a tree would all leave their root's core for one other. What
 * has been sent counts, not only the waits, for some of those are over at once and aren't seen.
 *
 * It isn't always better: how long each message takes is measured before and after, again and
 * again, and one that isn't worth it any more goes back to the other's core. Each takes a number of
 * looks of its own, so that not both go. Who has gone for nothing tries again after some seconds.
 *
 * Serialised by the domain like everything in api.h.
 */
#ifndef BL_WAIT_PAIR_MIGRATE_H
#define BL_WAIT_PAIR_MIGRATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BL_MIGRATE_SAME 8u  /* looks in a row that find the same one, before those ... */
#define BL_MIGRATE_FEW	8u  /* ... that it is found out by, at least, ... */
#define BL_MIGRATE_MORE 16u /* ... and fewer than so many more */
#define BL_MIGRATE_ALL	8u  /* less than one in so many of what we send is for others */

enum bl_migrate_knob { BL_MIGRATE_AUTO, BL_MIGRATE_NEVER }; /* FI_BEELINE_MIGRATE */

enum bl_migrate_step { BL_MIGRATE_REMAIN, BL_MIGRATE_GO, BL_MIGRATE_BACK };

struct bl_cq;
struct bl_peer;

struct bl_migrate {
	uint32_t until_look; /* waits, so many more */
	/* Whom the last look found awaited; later only to compare. */
	const struct bl_peer *peer;
	uint32_t sent;		/* what it had been sent by then, in packets, ... */
	uint32_t same;		/* ... and how often in a row that was so */
	uint32_t enough;	/* looks that it is found out by, after BL_MIGRATE_SAME, ... */
	uint32_t on_ours;	/* ... at so many of which it was on our core */
	uint32_t to_it, to_all; /* packets sent before these; only the difference counts */
	uint64_t cpu_ns;	/* of a processor, used before */
	uint64_t since;		/* ticks: the first of these */
	uint64_t ticks;		/* measured so far, of a pair, ... */
	uint32_t packets;	/* ... for so many sent to the other one */
	uint64_t each;		/* ticks that one took before we went; 0: we haven't, ... */
	const struct bl_peer *gone_for; /* ... for this one; only to compare */
	uint64_t next;			/* ticks: we may go, not before */
	uint32_t again;			/* doublings of the time from this time until that */
	pthread_t thread;		/* whose looks these are */
	bool pair;			/* it is our partner, we are its, and work little */
};

/* A wait begins: is it time to look? */
bool bl_migrate_may_look(struct bl_migrate *apart, uint64_t now);

/* This one is awaited (NULL: anybody, or nothing), and on our core or not. What is to be done? */
enum bl_migrate_step bl_migrate_look(struct bl_cq *cq, const struct bl_peer *peer, bool on_ours,
				     uint64_t now);

/* We go: to a core of this number (bl_place_elsewhere). */
uint32_t bl_migrate_goes(struct bl_migrate *apart, uint64_t now);

/* It couldn't be: there is nowhere to go, or the kernel refuses. Or we go back. */
void bl_migrate_stays(struct bl_migrate *apart, uint64_t now);

#endif
