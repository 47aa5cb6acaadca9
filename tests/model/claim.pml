/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * claim.pml: a model for spin of src/local/advert.h, src/core/claim.c and
 * claim_send.c: two senders (or one), one receiver, every order of their steps. A step is
 * one access to shared memory; what lies between two of them is private. Memory is
 * sequentially consistent here: the code has a full fence at the two places where
 * a store is followed by a look at what the other side stores (bl_claim_fence).
 *
 * All messages match all receives that name their sender or nobody: every conflict
 * is possible. The receiver posts, cancels, polls and goes away whenever it likes;
 * what it does is chosen freely, as is who sends what.
 *
 * Properties, by name in the assertions below:
 *  ONCE    no message comes into two receives, no receive takes two messages
 *  ORDER   of one sender's messages, the earlier comes into the earlier receive, and
 *          none waits while a later one is received
 *  AWAY    when the senders have returned and the receiver is away, no large message
 *          is left beside a receive that it could have (where nothing short or
 *          private stands between): the transfer is over with the second call
 *  ALL     when the receiver has come back and polled, nothing is left in a ring, and
 *          nobody waits beside a receive that takes its message (no stuck receive)
 * Broken on purpose, each is violated: BREAK=1..6 (tests/model/run.sh).
 */
#ifndef MESSAGES
#define MESSAGES 2 /* of each sender */
#endif
#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef POSTS
#define POSTS 2
#endif
#ifndef SHORT
#define SHORT 1 /* short messages and private receives as well */
#endif
#ifndef BREAK
#define BREAK 0
#endif

#define ANY  2
#define NONE 255
#define M(s, i) ((s) * MESSAGES + (i))

/* bl_rts.taken */
#define TAKEN_OPEN     1
#define TAKEN_RECEIVER 2
#define TAKEN_SENDER   3
#define TAKEN_CLAIMED  4
/* a receive: not posted, in the private queue alone, or as in bl_advert.state */
#define UNPOSTED 0
#define PRIVATE	 1
#define OPEN	 2
#define OWNED	 3
#define CLAIMED	 4
#define GONE	 5 /* a private one that was matched or cancelled */

byte taken[2 * MESSAGES];   /* 0: short */
bool large[2 * MESSAGES];
byte sent[2];		    /* packets in the ring ever */
byte consumed[2];	    /* credits: as the receiver tells after each packet */
byte into[2 * MESSAGES];    /* the receive that took it; NONE */
bool early[2 * MESSAGES];   /* in the early queue */
byte arrival[2 * MESSAGES]; /* when it came there */
byte arrivals;
byte state[POSTS], src[POSTS], got[POSTS]; /* got: messages that came into it */
byte returned; /* senders that are done */

inline deliver(msg, rcv)
{
	assert(into[msg] == NONE); /* ONCE */
	into[msg] = rcv;
	got[rcv]++;
	assert(got[rcv] == 1); /* ONCE */
}

#define MATCHES(p, s) (src[p] == ANY || src[p] == (s))

/* --- a sender ------------------------------------------------------------ */

/* bl_board_find: the first open one below `under` on this board. One step: the mask
 * is one word, and a receive that was open when it was looked at and isn't any more
 * is found out by the compare-and-swap. */
inline find(board, under, found)
{
	atomic {
		j = 0;
		do
		:: j < POSTS && j < under ->
			if
			:: src[j] == board && state[j] == OPEN -> found = j; break
			:: else -> j++
			fi
		:: else -> break
		od;
		j = 0
	}
}

/* choose(): both boards, again for what is older, then the messages before. */
inline choose(who, n, res)
{
	res = NONE;
	find(who, NONE, res);
	if
	:: res == NONE -> find(ANY, NONE, res)
	:: else
	fi;
	if
	:: res != NONE && BREAK != 1 -> find(who, res, res); find(ANY, res, res)
	:: else
	fi;
	if
	:: res != NONE && BREAK != 2 ->
		atomic {
			k = consumed[who];
			do
			:: k < n ->
				if
				:: taken[M(who, k)] != TAKEN_CLAIMED -> res = NONE; break
				:: else -> k++
				fi
			:: else -> break
			od;
			k = 0
		}
	:: else
	fi
}

proctype sender(byte s)
{
	byte i, j, k, f;

	for (i : 0 .. MESSAGES - 1) {
		atomic {
			if
			:: true -> large[M(s, i)] = true; taken[M(s, i)] = TAKEN_OPEN
			:: SHORT -> skip
			fi;
			sent[s]++ /* bl_tx_publish */
		}
		if
		:: !large[M(s, i)] -> goto next
		:: else
		fi;
again:
		choose(s, i, f);
		if
		:: f == NONE || consumed[s] > i -> goto next
		:: else
		fi;
		if
		:: BREAK == 3 -> skip
		:: else ->
			atomic {
				if
				:: taken[M(s, i)] == TAKEN_OPEN -> taken[M(s, i)] = TAKEN_SENDER
				:: else -> goto next
				fi
			}
		fi;
		choose(s, i, f);
		if
		:: f != NONE ->
			atomic {
				if
				:: state[f] == OPEN -> state[f] = CLAIMED
				:: else -> f = NONE
				fi
			}
		:: else
		fi;
		if
		:: f != NONE ->
			atomic {
				taken[M(s, i)] = TAKEN_CLAIMED;
				deliver(M(s, i), f)
			}
		:: else ->
			taken[M(s, i)] = TAKEN_OPEN;
			if
			:: BREAK == 4 -> goto next
			:: else -> goto again
			fi
		fi;
next:
		f = 0
	}
	returned++
}

/* --- the receiver -------------------------------------------------------- */

/* bl_claim_match: the first receive in the queue that is ours to give. One step: a
 * claim that comes between two of its compare-and-swaps might as well have come
 * before the first or after the last. */
inline match(msg, s)
{
	atomic {
		p = 0;
		do
		:: p < posted ->
			if
			:: MATCHES(p, s) && state[p] == PRIVATE -> state[p] = GONE; break
			:: MATCHES(p, s) && state[p] == OPEN -> state[p] = OWNED; break
			:: else -> p++
			fi
		:: else -> break
		od;
		if
		:: p < posted -> deliver(msg, p)
		:: else ->
			early[msg] = true;
			arrival[msg] = arrivals;
			arrivals++
		fi;
		p = 0
	}
}

/* bl_poll_peer: until the ring is empty, or its first packet must wait. */
inline poll(s)
{
	do
	:: sent[s] == consumed[s] -> break
	:: else ->
		m = M(s, consumed[s]);
		if
		:: !large[m] -> match(m, s)
		:: else ->
			atomic {
				w = taken[m];
				if
				:: w == TAKEN_OPEN -> taken[m] = TAKEN_RECEIVER
				:: else
				fi
			}
			if
			:: w == TAKEN_OPEN -> match(m, s)
			:: w == TAKEN_SENDER -> break
			:: w == TAKEN_CLAIMED -> skip
			fi
		fi;
		consumed[s]++ /* told at once: bl_rx.hurry */
	od;
	m = 0;
	w = 0
}

inline from_early(rcv)
{
	atomic {
		w = NONE;
		m = 0;
		do
		:: m < 2 * MESSAGES ->
			if
			:: early[m] && MATCHES(rcv, m / MESSAGES) &&
			   (w == NONE || arrival[m] < arrival[w]) ->
				w = m
			:: else
			fi;
			m++
		:: else -> break
		od;
		if
		:: w != NONE -> early[w] = false; deliver(w, rcv); state[rcv] = GONE
		:: else
		fi;
		m = 0;
		w = 0
	}
}

/* may_show(): no earlier one that overlaps is private. */
inline post()
{
	atomic {
		from_early(posted);
		p = 0;
		behind = false;
		do
		:: p < posted ->
			if
			:: state[p] == PRIVATE && (src[p] == ANY || src[posted] == ANY ||
						   src[p] == src[posted]) ->
				behind = true
			:: else
			fi;
			p++
		:: else -> break
		od;
		if
		:: state[posted] == GONE -> big = false
		:: state[posted] == UNPOSTED && SHORT -> state[posted] = PRIVATE; big = false
		:: state[posted] == UNPOSTED ->
			big = true;
			state[posted] = (!behind || BREAK == 5 -> OPEN : PRIVATE)
		fi;
		posted++;
		p = 0;
		behind = false
	}
	if
	:: big && BREAK != 6 ->
		if
		:: src[posted - 1] != 1 -> poll(0)
		:: else
		fi;
		if
		:: src[posted - 1] != 0 -> poll(1)
		:: else
		fi
	:: else
	fi;
	big = false
}

inline check_away()
{
	atomic {
		for (m : 0 .. SENDERS * MESSAGES - 1) {
			w = m / MESSAGES;
			if
			:: large[m] && into[m] == NONE && !early[m] ->
				/* an earlier short one of the same sender may stand before */
				behind = false;
				for (p : M(w, 0) .. m - 1) {
					if
					:: p < m && into[p] == NONE && !large[p] -> behind = true
					:: else
					fi
				}
				for (p : 0 .. POSTS - 1) {
					if
					:: MATCHES(p, w) && state[p] == PRIVATE -> behind = true
					:: else
					fi
				}
				for (p : 0 .. POSTS - 1) {
					assert(behind || !MATCHES(p, w) || state[p] != OPEN) /* AWAY */
				}
			:: else
			fi
		}
	}
}

inline check_all()
{
	atomic {
		for (m : 0 .. SENDERS * MESSAGES - 1) {
			assert(early[m] || into[m] != NONE); /* ALL */
			for (p : 0 .. POSTS - 1) {
				assert(!early[m] || !MATCHES(p, m / MESSAGES) ||
				       (state[p] != OPEN && state[p] != PRIVATE)) /* ALL */
			}
			if
			:: m % MESSAGES && into[m] != NONE ->
				assert(into[m - 1] != NONE); /* ORDER */
				assert(into[m - 1] < into[m]) /* ORDER */
			:: else
			fi
		}
	}
}

init {
	byte posted, m, p, w;
	bool big, behind;

	atomic {
		for (m : 0 .. 2 * MESSAGES - 1) {
			into[m] = NONE
		}
		m = 0;
		for (p : 0 .. POSTS - 1) {
			if
			:: src[p] = 0
			:: src[p] = 1
			:: src[p] = ANY
			fi
		}
		p = 0;
		run sender(0);
		if
		:: SENDERS == 2 -> run sender(1)
		:: else -> returned++
		fi
	}
	do
	:: posted < POSTS -> post()
	:: true -> poll(0)
	:: true -> poll(1)
	:: posted > 0 -> /* cancel the first */
		if
		:: state[0] == PRIVATE -> state[0] = GONE
		:: state[0] != PRIVATE ->
			atomic {
				if
				:: state[0] == OPEN -> state[0] = OWNED
				:: else
				fi
			}
		fi
	:: break
	od;
	(returned == 2); /* away, until the senders are */
	check_away();
	/* One that was cancelled leaves a gap that later receives may fill only in
	 * order: nothing more is posted. */
	poll(0);
	poll(1);
	check_all()
}
