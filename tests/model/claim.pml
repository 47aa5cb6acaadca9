/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * claim.pml: a model for spin of src/transport/local/ways/advert.h, src/transport/local/ways/proxy_rx.c and
 * proxy_tx.c: two senders (or one), one receiver, every order of their steps. A step is
 * one access to shared memory; what lies between two of them is private. Memory is
 * sequentially consistent here: the code has a full fence at the two places where
 * a store is followed by a look at what the other side stores (bl_proxy_fence).
 *
 * A sender is a lane: one process that sends to two members of a shared context is two
 * senders here, and a receive of the context from that process is one from anybody.
 *
 * All messages match all receives that name their sender or nobody: every conflict
 * is possible. The receiver posts, cancels, polls and goes away whenever it likes;
 * what it does is chosen freely, as are who sends what, and to which sender a receive
 * from anybody is shown (the code guesses; no property depends on how well). With
 * DEATH the second sender may die at any of its steps, with LIES it writes that many
 * times whatever it likes where it may: its own messages, its own board. With WITHDRAWS a sender
 * may cancel what it has sent (src/transport/local/ways/withdraw.c): by the message's word, or it asks the
 * receiver. Its WITHDRAW may be read before later messages that were sent earlier, which only
 * adds orders.
 *
 * Properties, by name in the assertions below:
 *  ONCE    no message comes into two receives, no receive takes two messages
 *  ORDER   of one sender's messages, the earlier comes into the earlier receive, and
 *          none waits while a later one is received
 *  AWAY    when the senders have returned and the receiver is away, no large message
 *          is left beside a receive that its sender can see and that is open (where no
 *          short one stands between): the transfer is over with the second call. Not
 *          with STAYS, where a call looks and claims or doesn't: who waits does it then
 *  ALL     when the receiver has come back and polled, nothing is left in a ring, and
 *          nobody waits beside a receive that takes its message (no stuck receive),
 *          unless a message of the liar's holds it, who isn't found out
 *  CANCEL  a cancel is refused only where a message has the receive, or the liar that has
 *          it is found out, and the receive ends with him
 *  HONEST  who keeps to the protocol isn't taken for a liar
 *  EITHER  a message is received or withdrawn, never both; withdrawn if it was asked for, has come
 *          and has no receive
 * Those that are about one sender's messages hold for those of the dead and the liar
 * only as far as others are concerned. Broken on purpose, each is violated:
 * BREAK=1..12 (tests/model/run.sh).
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
#ifndef DEATH
#define DEATH 0
#endif
#ifndef LIES
#define LIES 0
#endif
#ifndef SILENT
#define SILENT 0 /* the second sender is there, and sends nothing */
#endif
#ifndef SLOTS
#define SLOTS 0 /* places of a board, one step each to look at; 0: as many as receives, one step */
#endif
#ifndef STAYS
#define STAYS 0 /* either side may believe that its caller comes back at once (bl_habit.leaves) */
#endif
#ifndef WITHDRAWS
#define WITHDRAWS 0 /* senders cancel */
#endif
#ifndef BREAK
#define BREAK 0
#endif

#define ANY  2
#define LOST 254 /* its sender died over the decision */
#define NONE 255
#define M(s, i) ((s) * MESSAGES + (i))

/* bl_rts.taken */
#define TAKEN_OPEN     1
#define TAKEN_RECEIVER 2
#define TAKEN_SENDER   3
#define TAKEN_CLAIMED  4
#define TAKEN_WITHDRAWN 5
/* bl_advert.state */
#define FREE	0
#define OPEN	1
#define OWNED	2
#define CLAIMED 3

byte taken[2 * MESSAGES];   /* 0: short */
byte claim[2 * MESSAGES];   /* with CLAIMED: which receive */
bool large[2 * MESSAGES];
byte sent[2];		    /* packets in the ring ever */
byte consumed[2];	    /* credits: as the receiver tells after each packet */
byte into[2 * MESSAGES];    /* the receive that took it; NONE */
bool early[2 * MESSAGES];   /* in the early queue */
byte arrival[2 * MESSAGES]; /* when it came there */
byte arrivals;
byte state[POSTS], got[POSTS]; /* got: messages that came into it */
byte returned;		       /* senders that are done */
bool dead;		       /* the second one */
/* the receiver's own */
byte src[POSTS];
bool queued[POSTS], small[POSTS], landed[POSTS], passed[POSTS];
byte shown[POSTS];	   /* on whose board; NONE */
bool held[POSTS]; /* no variable of the code: `passed`, by a message of the claimer's */
bool broken, dropped, over; /* the second sender: is a liar, died deciding, is forgotten */
#if WITHDRAWS
bool asked[2 * MESSAGES];     /* WITHDRAW is in the ring, or has been */
bool withdrawn[2 * MESSAGES]; /* its sender has heard so */
#define WITHDRAWN(m) withdrawn[m]
#define ASKED(m)     asked[m]
#else
#define WITHDRAWN(m) false
#define ASKED(m)     false
#endif
#if SLOTS
byte slot[2 * SLOTS]; /* the receive that was put there last */
bool used[2 * SLOTS];
#endif

inline deliver(msg, rcv)
{
	assert(into[msg] == NONE); /* ONCE */
	assert(!WITHDRAWN(msg)); /* EITHER */
	into[msg] = rcv;
	got[rcv]++;
	assert(got[rcv] == 1); /* ONCE */
}

#define MATCHES(p, s) (src[p] == ANY || src[p] == (s))
#define FROM_LIAR(m)  (LIES && (m) >= MESSAGES)

/* --- a sender ------------------------------------------------------------ */

/* bl_adverts_look: the first open one below `under` on the sender's board. */
#if SLOTS
inline look(who, under, found)
{
	atomic {
		for (j : 0 .. SLOTS - 1) {
			seen[j] = used[who * SLOTS + j]
		}
		j = 0
	}
	best = under;
	do
	:: j < SLOTS ->
		atomic {
			if
			:: seen[j] && slot[who * SLOTS + j] < best &&
			   state[slot[who * SLOTS + j]] == OPEN ->
				best = slot[who * SLOTS + j];
				found = best
			:: else
			fi;
			seen[j] = false;
			j++
		}
	:: else -> break
	od;
	j = 0;
	best = 0
}
#else
inline look(who, under, found)
{
	atomic {
		j = 0;
		do
		:: j < POSTS && j < under ->
			if
			:: shown[j] == who && state[j] == OPEN -> found = j; break
			:: else -> j++
			fi
		:: else -> break
		od;
		j = 0
	}
}
#endif

/* choose(): the board, again for what is older, then the messages before. */
inline choose(who, n, res)
{
	res = NONE;
	look(who, NONE, res);
	if
	:: res != NONE && SLOTS && BREAK != 1 -> look(who, res, res)
	:: else
	fi;
	if
	:: res != NONE && BREAK != 2 ->
		atomic {
			k = consumed[who];
			do
			:: k < n ->
				if
				:: taken[M(who, k)] < TAKEN_CLAIMED -> res = NONE; break
				:: else -> k++
				fi
			:: else -> break
			od;
			k = 0
		}
	:: else
	fi
}

#if WITHDRAWS
/* withdraw(): what has been read, or may be claimed by its sender alone, isn't open. */
inline withdraw(msg)
{
	if
	:: BREAK == 12 && large[msg] && taken[msg] == TAKEN_OPEN -> taken[msg] = TAKEN_WITHDRAWN
	:: else
	fi;
	atomic {
		if
		:: asked[msg] || withdrawn[msg] -> skip
		:: else ->
			if
			:: large[msg] && (taken[msg] == TAKEN_OPEN || taken[msg] == TAKEN_WITHDRAWN) ->
				taken[msg] = TAKEN_WITHDRAWN;
				withdrawn[msg] = true;
				assert(into[msg] == NONE) /* EITHER */
			:: else ->
				asked[msg] = true;
				withdrawn[msg] = (BREAK == 11)
			fi
		fi
	}
}

/* bl_on_withdraw(): it is dropped if it has come and has no receive. */
inline on_withdraw(s)
{
	atomic {
		for (m : M(s, 0) .. M(s, MESSAGES - 1)) {
			if
			:: asked[m] && early[m] && !(s == 1 && (broken || over)) ->
				early[m] = false;
				withdrawn[m] = true;
				assert(into[m] == NONE) /* EITHER */
			:: else
			fi
		}
		m = 0
	}
}
#endif

#define MAY_DIE                                                                                    \
	if                                                                                         \
	:: DEATH && s == 1 -> goto dies                                                            \
	:: true                                                                                    \
	fi

proctype sender(byte s)
{
	byte i, j, k, f;
#if SLOTS
	byte best;
	bool seen[SLOTS];
#endif

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
		:: large[M(s, i)] && STAYS -> goto next /* and bl_proxy_later comes too late */
		:: large[M(s, i)]
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
		MAY_DIE;
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
		MAY_DIE;
		if
		:: f != NONE ->
			atomic {
				taken[M(s, i)] = TAKEN_CLAIMED;
				claim[M(s, i)] = f;
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
		f = 0;
#if WITHDRAWS
		if
		:: withdraw(M(s, i))
		:: i > 0 -> withdraw(M(s, 0))
		:: true
		fi;
#endif
		MAY_DIE
	}
	goto returns;
dies:
	dead = true;
returns:
	returned++
}

/* --- one that lies ------------------------------------------------------- */

#if LIES
proctype liar()
{
	byte n, m, p;

	for (n : 1 .. LIES) {
		atomic {
			select (m : MESSAGES .. 2 * MESSAGES - 1);
			select (p : 0 .. POSTS - 1);
			if
			:: sent[1] < MESSAGES -> /* a message, with any word on it */
				m = M(1, sent[1]);
				large[m] = true;
				claim[m] = p;
				if
				:: taken[m] = TAKEN_OPEN
				:: taken[m] = TAKEN_SENDER
				:: taken[m] = TAKEN_CLAIMED
				fi;
				sent[1]++
			:: m < M(1, sent[1]) -> /* the word is another */
				claim[m] = p;
				if
				:: taken[m] = TAKEN_OPEN
				:: taken[m] = TAKEN_SENDER
				:: taken[m] = TAKEN_CLAIMED
				fi
			:: shown[p] == 1 -> /* the receive's is */
				if
				:: state[p] = OPEN
				:: state[p] = OWNED
				:: state[p] = CLAIMED
				fi
			fi;
			m = 0;
			p = 0
		}
	}
	returned++
}
#endif

/* --- the receiver -------------------------------------------------------- */

/* retire(): it is nowhere on a board. */
inline retire(rcv)
{
#if SLOTS
	for (y : 0 .. SLOTS - 1) {
		if
		:: slot[shown[rcv] * SLOTS + y] == rcv -> used[shown[rcv] * SLOTS + y] = false
		:: else
		fi
	}
	y = 0;
#endif
	shown[rcv] = NONE;
	landed[rcv] = false
}

/* message_claims(): the claimer has a message in its ring that is about to claim the
 * receive, or has. */
inline message_claims(rcv, res)
{
	res = (shown[rcv] == 1 && dropped);
	x = consumed[shown[rcv]];
	do
	:: x < sent[shown[rcv]] ->
		y = M(shown[rcv], x);
		if
		:: large[y] && (taken[y] == TAKEN_SENDER ||
				(taken[y] == TAKEN_CLAIMED && claim[y] == rcv)) ->
			res = true
		:: else
		fi;
		x++
	:: else -> break
	od;
	x = 0;
	y = 0
}

/* bl_proxy_revoke */
inline take_back(rcv, res)
{
	if
	:: landed[rcv] -> res = false
	:: passed[rcv] && !landed[rcv] ->
		message_claims(rcv, res);
		if
		:: res || BREAK == 10 -> skip
		:: else ->
			assert(LIES && shown[rcv] == 1); /* HONEST */
			broken = true /* the receive ends with it */
		fi;
		res = false
	:: else ->
		if
		:: state[rcv] == OPEN -> state[rcv] = OWNED; res = true
		:: else ->
			if
			:: state[rcv] == CLAIMED && BREAK == 8 -> res = true
			:: state[rcv] == CLAIMED && BREAK != 8 ->
				message_claims(rcv, res);
				held[rcv] = res
			:: else -> res = false
			fi;
			if
			:: res -> passed[rcv] = (BREAK != 9); res = false
			:: else ->
				assert(LIES && shown[rcv] == 1); /* HONEST */
				broken = true;
				res = true
			fi
		fi;
		if
		:: res -> retire(rcv)
		:: else
		fi
	fi
}

/* bl_proxy_match: the first receive in the queue that is ours to give. One step: a
 * claim that comes between two of its compare-and-swaps might as well have come
 * before the first or after the last. */
inline match(msg, s)
{
	atomic {
		p = 0;
		do
		:: p < posted ->
			if
			:: queued[p] && MATCHES(p, s) && shown[p] == NONE -> break
			:: queued[p] && MATCHES(p, s) && shown[p] != NONE ->
				take_back(p, ok);
				if
				:: ok -> break
				:: else -> p++
				fi
			:: else -> p++
			fi
		:: else -> break
		od;
		if
		:: p < posted -> queued[p] = false; deliver(msg, p)
		:: else ->
			early[msg] = true;
			arrival[msg] = arrivals;
			arrivals++
		fi;
		p = 0;
		ok = false
	}
}

/* bl_proxy_on_rts, of a claimed message: it lands, or makes no sense. */
inline land(msg, s)
{
	p = claim[msg];
	if
	:: queued[p] && shown[p] == s && !landed[p] && MATCHES(p, s) && state[p] == CLAIMED ->
		landed[p] = true;
		if
		:: FROM_LIAR(msg) -> deliver(msg, p)
		:: else -> assert(into[msg] == p)
		fi;
		queued[p] = false; /* it may last, but it is decided */
		retire(p)
	:: else ->
		assert(FROM_LIAR(msg)); /* HONEST */
		broken = true
	fi;
	p = 0
}

/* bl_poll_peer: until the ring is empty, or its first packet must wait. There is one
 * poll() in the model, in the loop of init: spin writes an inline out at each use. */
inline poll(s)
{
	do
	:: sent[s] == consumed[s] || (s == 1 && (broken || over)) -> break
	:: else ->
		m = M(s, consumed[s]);
		w = TAKEN_OPEN; /* a short one is the receiver's as it comes */
		atomic {
			if
			:: large[m] ->
				w = taken[m];
				if
				:: w == TAKEN_OPEN -> taken[m] = TAKEN_RECEIVER
				:: else
				fi
			:: else
			fi
		}
		if
		:: w == TAKEN_OPEN -> match(m, s)
		:: w == TAKEN_SENDER && s == 1 && dead -> into[m] = LOST; dropped = true
		:: w == TAKEN_SENDER && !(s == 1 && dead) -> break
		:: w == TAKEN_CLAIMED -> atomic { land(m, s) }
		:: w == TAKEN_WITHDRAWN -> skip
		:: w == TAKEN_RECEIVER -> assert(FROM_LIAR(m)); broken = true
		fi;
		if
		:: s == 0 || !broken -> consumed[s]++ /* told at once: bl_rx.exact_credits */
		:: else
		fi
	od;
	m = 0;
	w = 0;
#if WITHDRAWS
	on_withdraw(s)
#endif
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
		:: w != NONE -> early[w] = false; deliver(w, rcv); queued[rcv] = false
		:: else
		fi;
		m = 0;
		w = 0
	}
}

/* show(), proxy_rx.c: to its sender, or to one of them, who must see all earlier ones that a message
 * of his could take. ok: it was. */
inline board(rcv)
{
	if
	:: src[rcv] != 1 -> w = 0
	:: src[rcv] != 0 -> w = 1
	fi;
	ok = !(w == 1 && over) && w < SENDERS;
	p = 0;
	do
	:: p < rcv ->
		if
		:: queued[p] && MATCHES(p, w) && shown[p] != w && (BREAK != 5 || shown[p] != NONE) &&
		   (BREAK != 6 || shown[p] == NONE) ->
			ok = false
		:: else
		fi;
		p++
	:: else -> break
	od;
	p = 0;
#if SLOTS
	do
	:: ok && p < SLOTS && used[w * SLOTS + p] -> p++
	:: else -> break
	od;
	if
	:: ok && p < SLOTS -> used[w * SLOTS + p] = true; slot[w * SLOTS + p] = rcv
	:: else -> ok = false
	fi;
	p = 0;
#endif
	if
	:: ok -> shown[rcv] = w; state[rcv] = OPEN
	:: else
	fi;
	w = 0
}

inline post()
{
	atomic {
		from_early(posted);
		big = false;
		if
		:: got[posted] -> skip
		:: !got[posted] && SHORT -> queued[posted] = true; small[posted] = true
		:: !got[posted] -> queued[posted] = true; big = true; board(posted)
		:: !got[posted] -> queued[posted] = true; big = true /* no guess, no place */
		fi;
		posted++;
		ok = false;
		if
		:: big && BREAK != 7 -> from[0] = (src[posted - 1] != 1); from[1] = (src[posted - 1] != 0)
		:: !big || BREAK == 7 || STAYS
		fi;
		big = false
	}
}

/* bl_proxy_again: the first that could not be shown before. */
inline show_later()
{
	atomic {
		m = 0;
		do
		:: m < posted && !(queued[m] && !small[m] && shown[m] == NONE) -> m++
		:: else -> break
		od;
		if
		:: m < posted -> board(m)
		:: else
		fi;
		m = 0;
		from[0] = ok;
		from[1] = ok;
		ok = false
	}
}

/* bl_ep_peer_gone, of the second sender, after its last message. */
inline abandon()
{
	atomic {
		over = true;
		for (p : 0 .. POSTS - 1) {
			if
			:: p < posted && shown[p] == 1 ->
				if
				:: state[p] == OPEN -> state[p] = OWNED; ok = false
				:: state[p] == CLAIMED -> message_claims(p, ok)
				:: else -> ok = false
				fi;
				if
				:: ok || passed[p] ->
					queued[p] = false /* ends with an error */
				:: else
				fi;
				retire(p)
			:: else
			fi
		}
		for (p : 0 .. POSTS - 1) {
			if
			:: src[p] == 1 -> queued[p] = false
			:: else
			fi
		}
		p = 0;
		ok = false
	}
}

#define GONE (over || broken || dead)

inline cancel_first()
{
	atomic {
		ok = true;
		if
		:: shown[0] != NONE ->
			take_back(0, ok);
			if
			:: !ok && !landed[0] ->
				message_claims(0, big);
				assert(big || broken); /* CANCEL */
				big = false
			:: else
			fi
		:: else
		fi;
		if
		:: ok -> queued[0] = false
		:: else
		fi;
		ok = false
	}
}

inline check_away()
{
	atomic {
		for (m : 0 .. (SENDERS - SILENT) * MESSAGES - 1) {
			w = m / MESSAGES;
			if
			:: large[m] && into[m] == NONE && !early[m] && !WITHDRAWN(m) &&
			   !(w == 1 && (GONE || LIES)) ->
				/* an earlier short one of the same sender may stand before */
				big = false;
				for (p : M(w, 0) .. m - 1) {
					if
					:: p < m && into[p] == NONE && !large[p] -> big = true
					:: else
					fi
				}
				for (p : 0 .. POSTS - 1) {
					assert(STAYS || big || shown[p] != w || state[p] != OPEN) /* AWAY */
				}
				big = false
			:: else
			fi
		}
	}
}

inline check_all()
{
	atomic {
		for (m : 0 .. (SENDERS - SILENT) * MESSAGES - 1) {
			w = m / MESSAGES;
			assert(early[m] || into[m] != NONE || WITHDRAWN(m) ||
			       (w == 1 && (GONE || LIES))); /* ALL */
			assert(!early[m] || !ASKED(m) || (w == 1 && GONE)); /* EITHER */
			for (p : 0 .. POSTS - 1) {
				assert(!early[m] || !queued[p] || !MATCHES(p, w) ||
				       (held[p] && !over) || (w == 1 && GONE)) /* ALL */
			}
			if
			:: m % MESSAGES && into[m] != NONE && !(w == 1 && (GONE || LIES)) ->
				assert(into[m - 1] != NONE || WITHDRAWN(m - 1)); /* ORDER */
				assert(into[m - 1] < into[m] || WITHDRAWN(m - 1)) /* ORDER */
			:: else
			fi
		}
	}
}

/* What the receiver is at. */
#define WORKING 0
#define LEAVING 1 /* it forgets the second sender, and goes on */
#define BACK	2 /* after its absence */

init {
	byte posted, m, p, r, w, x, y;
	bool big, ok, from[2]; /* from: rings to poll before anything else */
	byte phase, was; /* was: before LEAVING */

	atomic {
		for (m : 0 .. 2 * MESSAGES - 1) {
			into[m] = NONE
		}
		m = 0;
		for (p : 0 .. POSTS - 1) {
			shown[p] = NONE;
			if
			:: src[p] = 0
			:: SENDERS == 2 -> src[p] = 1
			:: src[p] = ANY
			fi
		}
		p = 0;
#if SLOTS
		for (p : 0 .. 2 * SLOTS - 1) {
			slot[p] = NONE
		}
		p = 0;
#endif
		run sender(0);
#if LIES
		run liar()
#elif SENDERS == 2 && !SILENT
		run sender(1)
#else
		returned++
#endif
	}
	do
	:: from[0] || from[1] ->
		r = (from[0] -> 0 : 1);
		from[r] = false;
		poll(r);
		r = 0
	:: else ->
		if
		:: phase == WORKING && posted < POSTS -> post()
		:: phase == WORKING && posted > 0 -> show_later()
		:: phase == WORKING -> from[0] = true
		:: phase == WORKING -> from[1] = true
		:: phase == WORKING && queued[0] -> cancel_first()
		:: phase == WORKING -> /* away, until the senders are */
			(returned == 2);
			check_away();
			/* One that was cancelled leaves a gap that later receives may fill
			 * only in order: nothing more is posted. */
			from[0] = true;
			from[1] = true;
			phase = BACK
		:: phase != LEAVING && (broken || dead) && !over -> /* its last messages first */
			from[1] = true;
			was = phase;
			phase = LEAVING
		:: phase == LEAVING -> abandon(); from[0] = (was == BACK); phase = was
		:: phase == BACK && !((broken || dead) && !over) -> break
		fi
	od;
	check_all()
}
