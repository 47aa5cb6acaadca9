/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * world.h: for tests of what goes wrong: a few real processes ("ranks"), each
 * with one endpoint, and the test program that starts them, hurts them and
 * collects what they report. Ranks and test program share one page of
 * anonymous memory and nothing else; the test program itself never opens an
 * endpoint. A rank that fails says why and exits; whoever is late is killed and
 * the test fails.
 */
#ifndef BL_TESTS_FAULT_WORLD_H
#define BL_TESTS_FAULT_WORLD_H

#include "endpoint/api.h"
#include "fault/deadline.h"
#include "unit/table.h"

#define RANKS	 3
#define WORLD_NS 60000000000ull /* a rank that takes longer hangs */

struct world_shared {
	struct bl_addr addr[RANKS];
	pid_t pid[RANKS];		    /* in the test program's /proc */
	_Atomic uint32_t here[RANKS];	    /* the address is there */
	_Atomic uint64_t messages[RANKS];   /* received and checked */
	_Atomic uint64_t hurt_at;	    /* ns: when the victim was hurt; 0: not yet */
	_Atomic uint64_t noticed_at[RANKS]; /* ns: its last operation with the victim ended */
	_Atomic uint32_t enough[RANKS];	    /* of the traffic */
	_Atomic uint32_t stop;		    /* end in good order */
	_Atomic uint32_t mark[RANKS];	    /* for the test's own use */
	char why[RANKS][256];
};

extern struct world_shared *world;
extern pid_t world_pid[RANKS];

/* --- test program -------------------------------------------------------- */

/* For the next world_start(), which takes root then: the PID namespace that each rank lives in.
 * 0: ours; ranks next to each other with the same number share one. */
extern unsigned world_space[RANKS];

/* Start ranks 0..count-1. Each runs `run(rank)` and exits with 0 at its end. */
void world_start(int count, void (*run)(int rank));
/* Start one more process as this rank, whose last one has ended. */
void world_start_rank(int rank, void (*run)(int rank));
/* Wait until condition() holds or fail. */
void world_until(bool (*condition)(void), const char *what);
/* How many deaths BEELINE_KILLS asks for, or else the usual number; fewer under a sanitizer. */
unsigned world_kills(unsigned usual);
/* Kill all, say what each rank said, and fail. */
void world_fail(const char *format, ...) bl_printf(1, 2);
/* A socket or file of this rank that still exists, or NULL. */
const char *world_left_of(int rank);
/* All ranks must exit with 0; `victim` (or -1) may have gone in any way. Then
 * nothing of them may be left: no process, socket or file. */
void world_end(int victim);

/* --- rank ------------------------------------------------------------------ */

extern struct bl_domain *domain;
extern struct bl_av *av;
extern struct bl_cq *cq;
extern struct bl_ep *ep;

/* Set before rank_open(): it is the only member of a shared context. Where receives are
 * posted: that, or the endpoint. */
extern bool rank_shares;
extern struct bl_ep *rank_home;

/* Where each rank is in our address vector. */
extern uint64_t world_index[RANKS];
/* That rank, as our endpoint knows it. */
struct bl_peer *world_peer(int rank);

/* Open an endpoint, tell its address, learn those of `count` ranks. */
void rank_open(int rank, int count);
/* Without a call of the library: until the word is at least so much, or fail. */
void rank_await(int rank, const _Atomic uint32_t *word, uint32_t least);
/* The same for a mark of another rank, with progress. */
void rank_reach_mark(int rank, int of, uint32_t mark);
/* What this process logs from now on; how many times it has said so. */
void rank_keep_log(void);
unsigned rank_logged(const char *text);
/* Descriptors that are open, and mappings of memfds that begin with name, in this process. */
int rank_descriptors(void);
int rank_mappings(const char *name);
/* Close all; nothing of ours may be left in this process. */
void rank_close(int rank);
extern bool rank_is_mad; /* nobody cares why it fails */
_Noreturn void rank_fail(int rank, const char *format, ...) bl_printf(2, 3);

#define RANK_CHECK(rank, condition)                                                                \
	do {                                                                                       \
		if (!(condition))                                                                  \
			rank_fail(rank, "%s:%d: %s", __FILE__, __LINE__, #condition);              \
	} while (0)

#endif
