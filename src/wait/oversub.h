/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * oversub.h: reads that poll where processes share cores (oversubscription), and co-run: staying
 * while the one that we wait for runs elsewhere.
 *
 * With a core for each process a wait polls. Where cores are shared, who polls may keep the one
 * that it waits for from running. So a wait of more than a few microseconds yields. When our core
 * is seen to have gone to others, it counts as shared for a while. There each wait leaves the core
 * at once, unless the one that it waits for runs on another, and naps when it has lasted so long
 * that somebody computes. Naps are short, and naps that nobody wakes us from become rare.
 *
 * Each says in its segment (bl_seg_header.turn) which core it runs on, or has left. Who waits reads
 * the word of the one that its oldest receive is from:
 *
 *   runs on another core       stay as long as it does, for 2 us at most; so for one who says
 *                              nothing
 *   has left another core      leave; but now and then stay a little (a visit), so that two whose
 *                              turns never coincide meet
 *   is on our core, or was     leave; and a yield that others take makes the core count as shared
 *
 * A receive from anybody, or of a shared context, names nobody: there nobody stays. The word is a
 * hint: stays that find nothing take credit from those that did (`company`).
 *
 * Serialised by the domain like everything in api.h.
 */
#ifndef BL_WAIT_OVERSUB_H
#define BL_WAIT_OVERSUB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "wait/pair_migrate.h"
#include "wait/nap.h"

struct bl_cq;
struct bl_peer;

/*
 * Whether spins at the beginning of a wait are of use: see the end of this file. `waits`, so far,
 * that might have spun.
 */
struct bl_spin_credit {
	uint32_t luck;	 /* > 0: a wait may begin with a spin */
	uint32_t rarely; /* without luck: probes have become rarer, so many times */
	uint32_t waits;
};

/* What a queue's empty reads have found out about its core. */
struct bl_oversub {
	uint64_t counted;    /* ticks: when it was found out that ... */
	bool outnumbers;     /* there are more of us than cores */
	uint64_t before;     /* switches away from us, then */
	uint64_t until;	     /* ticks: it is shared with others, as far as we know */
	uint64_t window;     /* ticks: since when switches are counted */
	uint64_t switches;   /* away from us, then */
	uint64_t seen;	     /* switches, when last looked at; since then ... */
	uint32_t reads, own; /* ... empty reads that gave way, and our own yields among them */
	struct bl_spin_credit read; /* of reads, on a core of our own, ... */
	struct bl_spin_credit peek; /* ... and of looks for a message without a receive; probe.c */
	uint32_t core;		    /* its number + 1, at our last return; 0: not known */
	uint32_t company;	    /* > 0: who says that it runs mostly answers */
	uint32_t visit_every, skipped; /* empty reads between visits; so far */
	bool left_to_caller;	       /* who gives way himself between two reads */
	uint64_t taken;		       /* ticks: others have run meanwhile, while we gave way */
	uint64_t no_nap;	       /* ticks: naps have been in vain, none before this */
	uint32_t vain;
	struct bl_nap quiet;
	struct bl_migrate apart;
};

/* One wait that stays. */
struct bl_stay {
	const struct bl_peer *peer; /* with it; only to compare: it may be gone */
	uint64_t until;		    /* ticks: no longer */
	bool visit;
	bool left; /* it has left its core meanwhile, or is no longer awaited */
};

/* A new wait begins: the last one ended with something. `awaited`: it might have spun. */
void bl_oversub_new_wait(struct bl_oversub *crowd, bool awaited);

/* A wait begins on a shared core. Whether we had better go to another: away from the core of the
 * one that we talk with, or back to it. pair_migrate.h */
enum bl_migrate_step bl_oversub_step(struct bl_cq *cq, uint64_t now);

/* Go there, if it can be; the domain is unlocked meanwhile if it is locked. Returns the time. */
uint64_t bl_oversub_go(struct bl_cq *cq, enum bl_migrate_step step, uint64_t now);

/* Find out whether the core is shared: empty reads have yielded, or a wait has spun in vain. */
void bl_oversub_doubt(struct bl_cq *cq, uint64_t now);

/* What a tick counter said before it began anew (bl_is_due) is forgotten. */
void bl_oversub_put_right(struct bl_cq *cq, uint64_t now);

static inline bool bl_oversub_shared(const struct bl_oversub *crowd, uint64_t now)
{
	return !bl_has_come(now, crowd->until);
}

/* An empty read on a shared core. True: poll on, while bl_oversub_stay_on() says so; then tell
 * bl_oversub_stayed() whether that has found something. */
bool bl_oversub_stay(struct bl_cq *cq, struct bl_stay *stay);
bool bl_oversub_stay_on(const struct bl_cq *cq, struct bl_stay *stay);
void bl_oversub_stayed(struct bl_oversub *crowd, const struct bl_stay *stay, bool found);

#define BL_CORUN_CREDIT 8u /* stays that have found something count, at most so many, */
#define BL_CORUN_LOSS	3u /* and one in vain takes so many of them away */

/* Something of ours is awaited: a receive from somebody, or work. */
bool bl_oversub_waits(const struct bl_cq *cq);

/*
 * An empty read that has waited for a while, or, on a core that is shared, any, gives its core
 * away: now, or, where the library above does that between two reads, by then. Returns the time.
 */
uint64_t bl_oversub_give_way(struct bl_cq *cq, uint64_t now);

/* Sleep until woken by a neighbour, or for so long; the domain is unlocked meanwhile if it is
 * locked. Returns the ticks since `now`; 0: there is something to do. */
uint64_t bl_oversub_sleep(struct bl_cq *cq, uint64_t us, uint64_t now);

/* The core is left to others from now on; and is ours again, a read that follows. */
void bl_oversub_leave(struct bl_cq *cq);
bl_noinline void bl_oversub_return(struct bl_cq *cq);

/*
 * On a core of our own a wait begins with a spin only while spins are of use: one by empty reads,
 * or one by looks for a message (FI_PEEK), each with an account of its own. One in vain, for
 * something that needs its caller's next step, say, costs 4 us, and one that finds something saves
 * a way through the library above, or a yield there: 0.2 us, or 1 on some machines. So it takes
 * BL_SPIN_CREDIT_VAIN that have found something to make up for one in vain. Without luck one of so
 * many waits tries, and of twice as many after each in vain that no luck has paid for.
 */
#define BL_SPIN_CREDIT_MOST   32u /* at most */
#define BL_SPIN_CREDIT_VAIN   16u
#define BL_SPIN_CREDIT_PROBE  32u
#define BL_SPIN_CREDIT_RARELY 3u /* doublings; probes also find out that a core is shared */

static inline bool bl_spin_credit_may_spin(const struct bl_spin_credit *luck)
{
	return luck->luck || !(luck->waits % (BL_SPIN_CREDIT_PROBE << luck->rarely));
}

static inline void bl_spin_credit_spun(struct bl_spin_credit *luck, bool found)
{
	if (found) {
		luck->luck += luck->luck < BL_SPIN_CREDIT_MOST;
		if (luck->luck >= BL_SPIN_CREDIT_VAIN)
			luck->rarely = 0;
	} else {
		luck->rarely +=
			luck->luck < BL_SPIN_CREDIT_VAIN && luck->rarely < BL_SPIN_CREDIT_RARELY;
		luck->luck -= bl_min(luck->luck, BL_SPIN_CREDIT_VAIN);
	}
}

#endif
