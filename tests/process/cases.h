/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* cases.h: the groups of cases, one per file; main.c runs them. */
#ifndef TESTS_CASES_H
#define TESTS_CASES_H

#include "fab.h"

extern const struct t_group group_info;	      /* what fi_getinfo offers and refuses */
extern const struct t_group group_open;	      /* opening and closing */
extern const struct t_group group_av;	      /* addresses */
extern const struct t_group group_name;	      /* nodes and services */
extern const struct t_group group_match;      /* which message goes to which receive */
extern const struct t_group group_size;	      /* every length, every alignment */
extern const struct t_group group_cq;	      /* what completions say; counters */
extern const struct t_group group_flags;      /* inject and the flags of sendmsg, recvmsg */
extern const struct t_group group_iov;	      /* scattered and gathered buffers */
extern const struct t_group group_multi;      /* multi-receive buffers */
extern const struct t_group group_peek;	      /* peek, claim, discard */
extern const struct t_group group_cancel;     /* fi_cancel */
extern const struct t_group group_trunc;      /* messages longer than the receive */
extern const struct t_group group_self;	      /* to oneself, and between endpoints of one process */
extern const struct t_group group_order;      /* order per source, floods, flow control */
extern const struct t_group group_overlap;    /* one process away, large messages */
extern const struct t_group group_short_away; /* and messages below the length of these */
extern const struct t_group group_stress;     /* everybody to everybody, now and then away */
extern const struct t_group group_delegate;   /* the same, receives from anybody */
extern const struct t_group group_eager_long; /* messages that a longer ring takes whole */
extern const struct t_group group_copybuf;    /* two who answer each other, to one place in turn */
extern const struct t_group group_random;     /* everybody to everybody, random everything */
extern const struct t_group group_rma;	      /* others' memory, without their help and with it */
extern const struct t_group group_batch;      /* short ones of these, done together */
extern const struct t_group group_kept;	      /* until when these are kept */
extern const struct t_group group_counted;    /* the same, its owner counting and away */
extern const struct t_group group_onesided;   /* all of these, random, against an oracle */
extern const struct t_group group_atomic;     /* changing others' memory, many at once */
extern const struct t_group group_shared;     /* contexts that several endpoints share */
extern const struct t_group group_shared_away; /* the same, their process away */
extern const struct t_group group_scattered;   /* the same, receives of several pieces */
extern const struct t_group group_owned;       /* memory that only its owner can touch */
extern const struct t_group group_trigger;     /* operations that wait */
extern const struct t_group group_blocked;     /* what can't begin yet */
extern const struct t_group group_thread;      /* FI_THREAD_SAFE */
extern const struct t_group group_life;	       /* fork, exec, exit, threads that end */
extern const struct t_group group_wait;	       /* sleeping until something comes */
extern const struct t_group group_queued;      /* the same until what is queued may go */
extern const struct t_group group_mourn;       /* asleep when a neighbour dies */
extern const struct t_group group_counts;      /* what counters tell, and to whom */
extern const struct t_group group_set;	       /* event queues, poll sets, wait sets */

#endif
