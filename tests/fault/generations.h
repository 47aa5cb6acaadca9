/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * generations.h: two ranks that live through it all, and a third that is started,
 * talked to and killed, again and again. After each death the two must have ended
 * all that they had with it, in errors; have gone on with each other; get an error
 * from its old address, known or new; hold no more descriptors and mappings than
 * before; and talk to its successor as if nothing had been.
 */
#ifndef BL_TESTS_FAULT_GENERATIONS_H
#define BL_TESTS_FAULT_GENERATIONS_H

#include "base/window.h"
#include "fault/traffic.h"

#define VICTIM 2

/* How one of them lives and ends. */
struct life {
	size_t least, most;    /* bytes of the messages among all three */
	bool copybuf;	       /* which wait for each other's; traffic.h */
	enum bl_window window; /* where it kills itself; BL_WINDOWS_MOST: from outside */
	unsigned nth;	       /* the how manieth time that it gets there, from 1 */
	/* from outside: once it has received so many; EARLIEST: it may not even be there */
	uint64_t moment;
	unsigned wait_us;
	/* What it says is mutated. It is killed once it has said so many packets, or neither
	 * of the others listens any more. */
	bool mad;
	unsigned packets;
	uint64_t seed;
};
#define EARLIEST UINT64_MAX

struct outcome {
	unsigned deaths;
	unsigned unborn;     /* of them: before it had an address */
	unsigned unreached;  /* it lived on for a second without getting to its window */
	unsigned mistrusted; /* mad ones that a survivor gave up before they were killed */
	uint64_t *noticed;   /* ns, of each survivor after each death, sorted */
	size_t nnoticed;
	uint64_t latest; /* ns: the worst promise_late() of those */
};

/* In the test program. outcome->noticed is freed by generations_free(). */
void generations_run(unsigned count, void (*plan)(unsigned n, struct life *life),
		     struct outcome *outcome);
void generations_free(struct outcome *outcome);
/* One line about what came out. Fails if a survivor was later than is promised (promise.h). */
void generations_judge(const char *what, const struct outcome *outcome);

/* In the victim: mutate what is about to be said (bl_window's arguments). */
void generations_mutate(enum bl_window window, void *what, uint64_t *seed);

#endif
