/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hold.h: an answer isn't looked for before it can be there.
 *
 * Who waits polls the line that the answer will be written to, and each look brings that line back
 * from the one who is about to write to it: the answer's store has to ask for it once more, which
 * takes as long as the message itself where the two are far apart (docs/performance.md, "An answer
 * isn't looked for too early"). So with FI_BEELINE_HOLD=auto whoever has sent what the other waits
 * for (bl_tx_in_dialogue()) leaves the other's next slot alone for a part of the time that a
 * message and its answer take.
 *
 * Which part is best depends on the distance and on what both do in between, and sometimes it is
 * none. So that is measured: each part has its turn for a block of 64 packets (a sweep), and after
 * some sweeps the best one is used for a while, until the next. An endpoint keeps one such account,
 * of the dialogue that it is in: the steps are those of bl_pass_due().
 *
 * A hint: wrong, an answer is found so much late, and never more than BL_HOLD_MOST_NS. Serialised
 * by the domain.
 */
#ifndef BL_CORE_HOLD_H
#define BL_CORE_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#define BL_HOLD_PARTS	5u  /* none, and 4 to 7 sixteenths */
#define BL_HOLD_SWEEPS	6u  /* until one of them is used */
#define BL_HOLD_REST	64u /* blocks until the next sweep then, ... */
#define BL_HOLD_RARELY	3u  /* ... doubled so often while none is best */
#define BL_HOLD_OTHERS	2u  /* blocks in a row that may take another time than before */
#define BL_HOLD_MOST_NS 1000u

enum bl_hold_knob { BL_HOLD_AUTO, BL_HOLD_NEVER }; /* FI_BEELINE_HOLD */

/* hold.c; its tests change it. A packet takes longer: nobody waits for just this. */
extern uint32_t bl_hold_slow_ns;

struct bl_tx;

struct bl_hold {
	uint64_t until;		      /* ticks: what comes isn't looked for; 0: it is */
	uint32_t wait;		      /* ticks, from a packet of ours on */
	uint32_t first;		      /* packets sent before this block */
	uint64_t began;		      /* ticks: this block */
	const struct bl_tx *tx;	      /* whose account it is; NULL: nobody's */
	uint32_t took[BL_HOLD_PARTS]; /* sixteenths of a tick a packet; 0: not known */
	uint8_t part;		      /* of this block, */
	uint8_t best;		      /* and of those of a rest */
	uint8_t sweeps;		      /* so far, at most BL_HOLD_SWEEPS */
	uint8_t at;		      /* blocks of this one so far */
	uint8_t vain;	/* times in a row that none was best, at most BL_HOLD_RARELY */
	uint8_t others; /* blocks in a row that took another time */
	uint16_t rest;	/* blocks until the next sweep */
};

/* The block took so many sixteenths of a tick a packet. Which part is the next one's? */
uint32_t bl_hold_judge(struct bl_hold *hold, uint32_t took);

#endif
