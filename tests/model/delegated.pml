/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * delegated.pml: a model for spin of src/transport/local/rma/delegated.c: an origin, a target, every
 * order of their steps. A step is one access to shared memory, and memory is sequentially consistent here: in the
 * code the store and the look that follows it, of either side, are so.
 *
 * The origin asks for one operation after the other and, whenever it likes, loses its patience.
 * The target finds the packets in order, when it likes or not at all, but doesn't stop in the
 * middle of one.
 *
 * Properties, by name in the assertions below:
 *  ONCE   when an operation ends it has been done, once, and is never done again
 *  ORDER  none is done before one that was begun earlier
 *  ENDS   each operation ends, whether the target comes or not (no invalid end state)
 * Broken on purpose, each is violated: BREAK=1..5 (tests/model/run.sh).
 */
#ifndef OPS
#define OPS 3
#endif
#ifndef BREAK
#define BREAK 0
#endif

#define NOT  0
#define DONE 1

byte asked;	       /* packets in the ring */
bool ours[OPS + 1];    /* bl_rma_delegated.ours, of each packet */
byte serving;	       /* bl_lane.serving */
byte served;	       /* bl_lane.served: the number, */
bit how;	       /* and how: one word */
byte done[OPS + 1];    /* how often */

inline do_it(n)
{
	assert(!done[n]);		 /* ONCE */
	assert(n == 1 || done[n - 1]); /* ORDER */
	done[n]++
}

active proctype origin()
{
	byte n = 1;
	bool theirs;

	do
	:: n <= OPS ->
		asked = n;
		theirs = false;
		do
		:: atomic { served == n && how == DONE -> break }
		:: atomic { served == n && how == NOT -> do_it(n); break }
		:: !theirs -> /* no more patience */
#if BREAK == 4
			theirs = serving == n;
			ours[n] = true;
#else
			ours[n] = true;
#if BREAK != 2
			theirs = serving == n;
#endif
#endif
			if
			:: !theirs ->
				do_it(n);
				break
			:: else
			fi
		od;
		assert(done[n] == 1); /* ONCE */
		n++
	:: else -> break
	od
}

active proctype target()
{
	byte n = 1;
	bool taken;

	do
	:: n <= OPS && asked >= n ->
#if BREAK == 3
		taken = ours[n];
		serving = n;
#else
		serving = n;
		taken = ours[n];
#endif
#if BREAK == 1
		taken = false;
#endif
		if
		:: taken ->
#if BREAK != 5
			atomic { served = n; how = NOT }
#endif
		:: else ->
			do_it(n);
			atomic { served = n; how = DONE }
		fi;
		n++
	:: break /* away for good */
	od
}
