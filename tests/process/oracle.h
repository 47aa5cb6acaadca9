/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * oracle.h: what random one-sided operations are, and what must come of them: for onesided.c.
 *
 *   origin                                       target
 *   plan: its operations of a round              the same plan, from the same random numbers
 *   shadow: what its region there holds          final: what that region has to hold in the end,
 *   a read brings what the shadow was when         and by which operation each byte is written last
 *   it was posted                                remote data or a message that comes behind
 *                                                  operation k: bytes that none after k writes are
 *                                                  there
 *
 * Each process has a region for each origin, which that one alone changes; and words of sums to
 * which all add, each process in 16 bits of its own, so that who fetches one knows its part. The
 * oracle relies on the order of a pair's one-sided operations that fi_info promises; and on more
 * than libfabric asks for, which this provider keeps: whatever completes is there, and the target
 * has counted it, each operation once.
 *
 * One thread enters.
 */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include "cases.h"

#define PROCS	4
#define ROOM	(128 << 10)
#define LONGEST (64 << 10)
#define OPS	150 /* of each process in a round */
#define WORDS	8   /* most elements of an atomic operation */
#define SUMS	32
#define BLOCK	256 /* bytes that are compared at once */

enum kind {
	WRITE,
	WRITEV,
	WRITEMSG,
	INJECT,
	WRITEDATA,
	INJECTDATA,
	READ,
	READV,
	READMSG,
	ATOMIC,
	INJECT_ATOMIC,
	FETCH,
	COMPARE,
	ADD,
	INJECT_ADD,
	FETCH_ADD,
	SEND,
	TSEND,
	KINDS
};

/* One operation, as origin and target know it. */
struct plan {
	enum kind kind;
	int to;
	uint64_t addr, seed, flags;
	size_t len, cut, gap; /* two pieces: [0, cut), and behind a gap at the target the rest */
	bool settled;	      /* all before it have completed first */
};

/* All that is known of a round. mem and sums are what others change; the rest is private. */
struct oracle {
	int round;
	size_t inject_max; /* all processes agree on it */
	struct plan plan[PROCS][OPS];
	unsigned char mem[PROCS][ROOM], final[PROCS][ROOM]; /* here, by origin */
	short last[PROCS][ROOM];			    /* operation; -1: none of this round */
	short last_of[PROCS][ROOM / BLOCK];		    /* the latest of those */
	uint64_t sums[SUMS], final_sums[SUMS];
	unsigned char shadow[PROCS][ROOM]; /* this process's regions, by target */
	uint64_t added[PROCS][SUMS];
};

extern struct oracle oracle;
extern const char *const oracle_names[KINDS];

static inline bool is_write(const struct plan *p)
{
	return p->kind <= INJECTDATA;
}

static inline bool is_read(const struct plan *p)
{
	return p->kind >= READ && p->kind <= READMSG;
}

static inline bool is_atomic(const struct plan *p)
{
	return p->kind >= ATOMIC && p->kind <= FETCH_ADD;
}

static inline bool is_add(const struct plan *p)
{
	return p->kind >= ADD && p->kind <= FETCH_ADD;
}

static inline bool fetches(const struct plan *p)
{
	return p->kind == FETCH || p->kind == COMPARE || p->kind == FETCH_ADD;
}

static inline bool is_message(const struct plan *p)
{
	return p->kind >= SEND;
}

static inline bool has_data(const struct plan *p)
{
	return p->kind == WRITEDATA || p->kind == INJECTDATA || p->flags & FI_REMOTE_CQ_DATA;
}

static inline bool is_injected(const struct plan *p)
{
	return p->kind == INJECT || p->kind == INJECTDATA || p->kind == INJECT_ATOMIC ||
	       p->kind == INJECT_ADD;
}

/* By a call that takes flags. */
static inline bool takes_flags(const struct plan *p)
{
	return p->kind == WRITEMSG || p->kind == READMSG || p->kind == ATOMIC || p->kind >= SEND;
}

static inline bool one_in(struct t_rng *rng, uint64_t count)
{
	return !t_rand_below(rng, count);
}

/* All plans of a round, and what this process has to find when it is over. */
void oracle_plan(int round);

/*
 * The next operation of this process, in the order of posts: its operands, what it compares with,
 * and what it has to bring (malloc'ed; NULL: nothing. Of a word that all add to: how often this
 * process has).
 */
void *oracle_next(const struct plan *p, uint64_t *operand, uint64_t *compare);

/* All that `from` did up to operation k is there: bytes that nothing later changes. */
void oracle_check(int from, int k);
/* The round is over: all of everything is. */
void oracle_check_end(void);

/* Ends the case: operation k of `from`. */
_Noreturn void oracle_wrong(const char *file, int line, int from, int k, const char *what);
#define OP_CHECK(cond, from, k, what)                                                              \
	do {                                                                                       \
		if (!(cond))                                                                       \
			oracle_wrong(__FILE__, __LINE__, from, k, what);                           \
	} while (0)

#endif
