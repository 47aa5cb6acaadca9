/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * apart.h: two that talk with each other, and share a core, part.
 *
 * Where there are more processes than cores, two that talk and both run need a fraction of a
 * microsecond for a message (crowd.h); two whose core is the same one need a switch for each. The
 * scheduler, which sees both run all the time, has no reason to part them. So a process looks, at
 * some of its waits, for whom it is and on which core that one says that it runs, or ran
 * (bl_seg_header.turn). If it is the same one time after time, and nearly all that we have sent
 * meanwhile was for it, we say so (bl_seg_header.partner); if it says the same of us, we are a
 * pair. One of a pair whose waits come quickly, and find the other on its core, goes to another
 * core of those that it may run on, near its memory.
 *
 * Both must say so: the leaves of a tree talk with their root alone, but if all went from its core
 * they would share one.
 *
 * What has been sent counts, not only the waits: of an exchange with one here and one elsewhere in
 * turn those for the latter may be over at once (crowd.h, STAYING), and aren't seen.
 *
 * Both come to that end at the same time, and if both went nothing would be won: each
 * takes a number of looks of its own. Who has gone in vain, or is taken back by the scheduler, goes
 * more and more rarely.
 *
 * Serialised by the domain like everything in core.h.
 */
#ifndef BL_CORE_APART_H
#define BL_CORE_APART_H

#include <stdbool.h>
#include <stdint.h>

#define BL_APART_SAME 8u    /* looks in a row that find the same one, before those ... */
#define BL_APART_FEW  8u    /* ... that it is found out by, at least, ... */
#define BL_APART_MORE 16u   /* ... and fewer than so many more */
#define BL_APART_ALL  8u    /* of what we send less than one in so many is for others */
#define BL_APART_LONG 8192u /* bytes; what is longer had better stay in a core's cache */

enum bl_apart_knob { BL_APART_AUTO, BL_APART_NEVER }; /* FI_BEELINE_APART */

struct bl_cq;
struct bl_peer;

struct bl_apart {
	uint32_t waits;		    /* until the next look */
	const struct bl_peer *peer; /* whom the last look found awaited, only to compare, ... */
	uint32_t sent;		    /* ... what it had been sent by then, in packets, ... */
	uint32_t same;		    /* ... and how often in a row that was so */
	uint32_t enough;	    /* so many times are, beyond BL_APART_SAME, of which ... */
	uint32_t gains;		    /* ... it was on our core, and the message short */
	uint32_t to_it, to_all;	    /* packets sent before these; only the difference counts */
	uint64_t since;		    /* ticks: the first of these */
	uint64_t next;		    /* ticks: we may go, not before */
	uint32_t again;		    /* doublings of the time until we may go once more */
	bool pair;		    /* it is our partner, and we are its */
};

/* A wait begins: is it time to look? */
bool bl_apart_may_look(struct bl_apart *apart, uint64_t now);

/* This one is awaited (NULL: anybody, or nothing), and if it `gains`, by a short message and on our
 * core. True: it is time to go. */
bool bl_apart_look(struct bl_cq *cq, const struct bl_peer *peer, bool gains, uint64_t now);

/* Go, if it can be. */
void bl_apart_go(struct bl_apart *apart, uint64_t now);

#endif
