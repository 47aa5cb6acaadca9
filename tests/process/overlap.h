/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * overlap.h: what overlap.c and the others about processes that are away begin with. "Away" is a
 * wait at a pipe or a loop of one's own: nothing of the library runs.
 */
#ifndef BL_TESTS_PROCESS_OVERLAP_H
#define BL_TESTS_PROCESS_OVERLAP_H

#include "cases.h"

#include <rdma/fi_tagged.h>
#include <sched.h>
#include <time.h>

#define KIB 1024u
#define MIB (1024u * KIB)

static const size_t sizes[] = {65536, 65537, 100000, 262144, 262145, MIB, 3 * MIB + 17, 16 * MIB};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static inline void away(void)
{
	t_barrier_with(NULL);
}

/* The same for a random moment, or not at all; it waits for nothing. */
static inline void absent(struct t_rng *rng)
{
	switch (t_rand_below(rng, 8)) {
	case 0:
		nanosleep(&(struct timespec){.tv_nsec = (long)t_rand_below(rng, 300000)}, NULL);
		break;
	case 1:
		sched_yield();
		break;
	case 2:
		for (volatile uint64_t k = t_rand_below(rng, 100000); k; k--)
			;
	}
}

static inline void only_ours(void)
{
	if (!t_beeline)
		t_skip("%s needs the other process's help", t_provider);
}

/* known: all are connected. */
static inline void start(struct t_node *n, const struct t_opts *o, bool known)
{
	only_ours();
	t_start(n, o);
	if (!known)
		return;
	for (int i = 0; i < t_nproc; i++)
		if (i != t_rank)
			t_mark(n, i, 1);
	for (int i = 0; i < t_nproc; i++)
		if (i != t_rank)
			t_wait_mark(n, i, 1);
}

/* A receive of a test that posts, cancels and waits at random. */
struct incoming {
	struct t_op op;
	struct t_buf buf;
	uint64_t number; /* in the order of posting */
	bool posted;
};

/* It has ended, with a message; one that was cancelled has none. */
static inline bool has_come(struct incoming *in)
{
	if (!in->op.done)
		return false;
	in->op.done = 0;
	in->posted = false;
	if (!in->op.c.err)
		return true;
	T_EQ(in->op.c.err, FI_ECANCELED);
	T_GOT(&in->buf, 0, 0);
	return false;
}

/* Nothing more comes. */
static inline void cancel_rest(struct fid *fid, struct incoming *in, int n)
{
	while (t_progress()) /* one may have been cancelled last of all */
		;
	for (int i = 0; i < n; i++)
		if (in[i].posted && !in[i].op.done) {
			T_EQ(fi_cancel(fid, &in[i].op), 0);
			T_WAIT_ERR(&in[i].op, FI_ECANCELED);
		}
}

static inline void post(struct t_node *n, bool tagged, fi_addr_t src, struct t_buf *b, uint64_t tag,
			struct t_op *op)
{
	if (tagged)
		t_trecv(n, src, b->p, b->len, tag, 0, op);
	else
		T_TRY(fi_recv(n->ep, b->p, b->len, NULL, src, op));
}

/* The same in so many pieces, one behind the other; opts.iov must allow it. */
static inline void post_pieces(struct t_node *n, fi_addr_t src, struct t_buf *b, size_t pieces,
			       uint64_t tag, struct t_op *op)
{
	size_t each = b->len / pieces;
	struct iovec iov[8];

	for (size_t i = 0; i < pieces; i++)
		iov[i] = (struct iovec){b->p + i * each, each};
	iov[pieces - 1].iov_len += b->len % pieces;
	T_TRY(fi_trecvv(n->ep, iov, NULL, pieces, src, tag, 0, op));
}

#endif
