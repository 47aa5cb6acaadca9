/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * shared.c: shared receive and transmit contexts. Rank 0 has the context and two
 * endpoints on it, A and B, with a queue each; the others send to either.
 *
 *   rank 1 ─┬─► A ─┐
 *           │      ├─ srx ─► completions in A's or B's queue
 *   rank 2 ─┴─► B ─┘
 */
#include "shared.h"

#include <stdlib.h>
#include <string.h>

static const size_t lens[] = {0, 8, 41, 289, 5000, 20000, 100000, 1000000};
#define NLENS 8

static uint64_t seed(int rank, int member, size_t i)
{
	return (uint64_t)rank << 16 | (uint64_t)member << 8 | i;
}

/* --- who takes what, and who says so ---------------------------------------------- */

static void send_all(struct group *g, bool tagged)
{
	for (size_t i = 0; i < NLENS; i++)
		for (int m = 0; m < MEMBERS; m++) {
			struct t_buf out = t_buf(lens[i], 1);
			struct t_op tx = {0};

			t_fill(out.p, lens[i], seed(t_rank, m, i), 0);
			if (tagged)
				T_TRY(fi_tsend(g->base.ep, out.p, lens[i], NULL, g->to[m],
					       seed(t_rank, m, i), &tx));
			else
				T_TRY(fi_send(g->base.ep, out.p, lens[i], NULL, g->to[m], &tx));
			T_WAIT(&tx);
			t_buf_free(&out);
		}
}

/* One receive for each message, from anybody; it says where it came from. */
static void receive_all(struct group *g)
{
	for (size_t i = 0; i < NLENS; i++)
		for (int p = 1; p < t_nproc; p++)
			for (int m = 0; m < MEMBERS; m++) {
				struct t_buf in = t_buf(lens[i], 3);
				struct t_op rx = {0};

				T_TRY(fi_trecv(g->srx, in.p, lens[i], NULL, FI_ADDR_UNSPEC,
					       seed(p, m, i), 0, &rx));
				T_WAIT(&rx);
				T_EQ(rx.c.len, lens[i]);
				T_EQ(rx.c.src, g->from[p]);
				T_EQ(rx.c.tag, seed(p, m, i));
				T_CHECK(rx.c.node == &g->member[m], "in the other member's queue");
				T_GOT(&in, lens[i], seed(p, m, i));
				t_buf_free(&in);
			}
}

static void tagged_with(const struct t_opts *o, bool early)
{
	struct group g;

	start_group(&g, o);
	if (t_rank != 0) {
		send_all(&g, true);
	} else {
		/* Give what was sent the time to come, or be there first. */
		for (int k = 0; early && k < 20000; k++)
			t_progress();
		receive_all(&g);
	}
	finish_group(&g);
}

static void tagged(void)
{
	tagged_with(&(struct t_opts){.caps = FI_SOURCE}, false);
}

static void tagged_early(void)
{
	tagged_with(&(struct t_opts){.caps = FI_SOURCE}, true);
}

static void tagged_safe(void)
{
	tagged_with(&(struct t_opts){.caps = FI_SOURCE, .threading = FI_THREAD_SAFE}, false);
}

static void tagged_ring(void)
{
	setenv("FI_BEELINE_COPY", "ring", 1);
	tagged_with(&(struct t_opts){.caps = FI_SOURCE}, false);
}

/* Untagged, all posted before anything is sent: any receive takes any message, each
 * sender's to each member in order. */
static void untagged(void)
{
	enum { ALL = 2 * MEMBERS * NLENS };
	struct t_opts o = {.caps = FI_SOURCE};
	size_t next[3][MEMBERS] = {0};
	struct t_buf in[ALL];
	struct t_op rx[ALL];
	struct group g;

	start_group(&g, &o);
	if (t_rank == 0)
		for (int i = 0; i < ALL; i++) {
			in[i] = t_buf(lens[NLENS - 1], 0);
			t_blank(&in[i]);
			rx[i] = (struct t_op){0};
			T_TRY(fi_recv(g.srx, in[i].p, in[i].len, NULL, FI_ADDR_UNSPEC, &rx[i]));
		}
	t_barrier();
	if (t_rank != 0)
		send_all(&g, false);
	for (int i = 0; t_rank == 0 && i < ALL; i++) {
		int p, m;

		T_WAIT(&rx[i]);
		p = rx[i].c.src == g.from[1] ? 1 : 2;
		T_EQ(rx[i].c.src, g.from[p]);
		m = rx[i].c.node == &g.member[0] ? 0 : 1;
		T_CHECK(rx[i].c.node == &g.member[m], "in nobody's queue");
		T_CHECK(next[p][m] < NLENS, "one message too many");
		T_EQ(rx[i].c.len, lens[next[p][m]]);
		T_GOT(&in[i], rx[i].c.len, seed(p, m, next[p][m]));
		next[p][m]++;
		t_buf_free(&in[i]);
	}
	finish_group(&g);
}

/* Receives for one source each, whichever member it sends to; the one that is posted
 * later is sent to first. */
static void directed(void)
{
	struct t_opts o = {.caps = FI_DIRECTED_RECV | FI_SOURCE};
	uint64_t in[2][MEMBERS], v;
	struct t_op rx[2][MEMBERS] = {0};
	struct group g;

	start_group(&g, &o);
	for (int round = 0; round < 4; round++) {
		if (round % 2 && t_rank != 0)
			for (int m = MEMBERS - 1; m >= 0; m--) {
				v = seed(t_rank, m, (size_t)round);
				T_TRY(fi_tinject(g.base.ep, &v, 8, g.to[m], 7));
			}
		for (int k = 0; round % 2 && t_rank == 0 && k < 5000; k++)
			t_progress();
		if (t_rank == 0)
			for (int p = 2; p >= 1; p--)
				for (int m = 0; m < MEMBERS; m++) {
					rx[p - 1][m] = (struct t_op){0};
					T_TRY(fi_trecv(g.srx, &in[p - 1][m], 8, NULL, g.from[p], 7,
						       0, &rx[p - 1][m]));
				}
		if (round % 2 == 0) {
			t_barrier();
			for (int m = 0; t_rank != 0 && m < MEMBERS; m++) {
				v = seed(t_rank, m, (size_t)round);
				T_TRY(fi_tinject(g.base.ep, &v, 8, g.to[m], 7));
			}
		}
		for (int p = 1; t_rank == 0 && p <= 2; p++) {
			unsigned seen = 0;

			for (int m = 0; m < MEMBERS; m++) {
				int got;

				T_WAIT(&rx[p - 1][m]);
				T_EQ(rx[p - 1][m].c.src, g.from[p]);
				got = rx[p - 1][m].c.node == &g.member[0] ? 0 : 1;
				T_EQ(in[p - 1][m], seed(p, got, (size_t)round));
				seen |= 1u << got;
			}
			T_EQ(seen, 3);
		}
		t_barrier();
	}
	finish_group(&g);
}

/* Posted before the context has a member, and with it a vector that says who the sources are:
 * each is served as if it had been posted after; one from nobody ends with the first member. */
static void directed_first(void)
{
	enum { LARGE = 200000 };
	struct t_opts o = {.caps = FI_DIRECTED_RECV | FI_SOURCE}, with = o;
	struct t_op rx[3][2] = {0}, gone = {0}, nobody[2] = {0}, tx = {0};
	struct t_buf buf[3], out = t_buf(LARGE, 0);
	unsigned char name[T_NAME_MAX], all[T_PROC_MAX][T_NAME_MAX];
	uint64_t v[3] = {0}, w = (uint64_t)t_rank;
	struct t_node n, member;

	t_start(&n, &o);
	for (int p = 1; t_rank == 0 && p < 3; p++)
		buf[p] = t_buf(LARGE, 0);
	if (t_rank == 0) {
		with.srx = open_srx(&n, &o);
		for (int p = 2; p > 0; p--) {
			t_blank(&buf[p]);
			T_OK(fi_trecv(with.srx, &v[p], 8, NULL, n.peer[p], 1, 0, &rx[p][0]));
			T_OK(fi_recv(with.srx, buf[p].p, LARGE, NULL, n.peer[p], &rx[p][1]));
		}
		T_OK(fi_trecv(with.srx, &v[0], 8, NULL, n.peer[1], 1, 0, &gone));
		T_OK(fi_cancel(&with.srx->fid, &gone));
		T_OK(fi_trecv(with.srx, &v[0], 8, NULL, 999, 1, 0, &nobody[0]));
		T_OK(fi_recv(with.srx, buf[1].p, LARGE, NULL, 999, &nobody[1]));
		with.shared_av = n.av;
		t_open_beside(&member, &n, &with);
		memcpy(name, member.name, sizeof(name));
		for (int i = 0; i < 2; i++)
			T_WAIT_ERR(&nobody[i], FI_EINVAL);
		T_EQ(fi_trecv(with.srx, &v[0], 8, NULL, 999, 1, 0, &gone), -FI_EINVAL);
	}
	t_allgather(name, sizeof(name), all, t_progress);
	if (t_rank != 0) {
		fi_addr_t to = t_insert(&n, all[0]);

		t_fill(out.p, LARGE, w, 0);
		T_TRY(fi_tinject(n.ep, &w, 8, to, 1));
		T_TRY(fi_send(n.ep, out.p, LARGE, NULL, to, &tx));
		T_WAIT(&tx);
	}
	for (int p = 1; t_rank == 0 && p < 3; p++) {
		T_WAIT(&rx[p][0]);
		T_WAIT(&rx[p][1]);
		T_EQ(rx[p][0].c.src, n.peer[p]);
		T_EQ(v[p], p);
		T_GOT(&buf[p], LARGE, (uint64_t)p);
		t_buf_free(&buf[p]);
	}
	t_barrier();
	if (t_rank == 0) {
		t_close(&member);
		T_OK(fi_close(&with.srx->fid));
	}
	t_close(&n);
	t_buf_free(&out);
}

/* --- the other ways to receive ------------------------------------------------------ */

static void multi(void)
{
	enum { N = 40, LEN = 100 };
	struct t_opts o = {.caps = FI_MULTI_RECV | FI_SOURCE};
	struct t_op rx[2] = {0};
	struct t_buf in[2];
	unsigned got = 0, released = 0;
	size_t least = LEN;
	struct group g;

	start_group(&g, &o);
	if (t_rank == 0) {
		T_OK(fi_setopt(&g.srx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			       sizeof(least)));
		for (int i = 0; i < 2; i++) {
			struct iovec iov;
			struct fi_msg msg = {.msg_iov = &iov,
					     .iov_count = 1,
					     .addr = FI_ADDR_UNSPEC,
					     .context = &rx[i]};

			in[i] = t_buf(N * 128 / 2 * 3 / 2, 0);
			iov = (struct iovec){in[i].p, in[i].len};
			T_TRY(fi_recvmsg(g.srx, &msg, FI_MULTI_RECV));
		}
	}
	t_barrier();
	if (t_rank != 0)
		for (int i = 0; i < N / 2; i++) {
			unsigned char out[LEN];

			t_fill(out, LEN, (uint64_t)i, 0);
			T_TRY(fi_inject(g.base.ep, out, LEN, g.to[(i + t_rank) % MEMBERS]));
		}
	while (t_rank == 0 && got < N) {
		got = rx[0].done + rx[1].done;
		released = (rx[0].c.flags & FI_MULTI_RECV ? 1 : 0);
		t_idle();
	}
	if (t_rank == 0) {
		T_EQ(released, 1); /* the first is full, the second isn't */
		T_EQ(fi_cancel(&g.srx->fid, &rx[1]), 0);
		got = rx[1].done;
		while (rx[1].done == got)
			t_idle();
		T_EQ(rx[1].c.err, FI_ECANCELED);
		t_buf_free(&in[0]);
		t_buf_free(&in[1]);
	}
	finish_group(&g);
}

static void look(struct group *g, uint64_t tag, uint64_t flags, struct t_op *op)
{
	struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = op};

	do {
		op->done = 0;
		T_TRY(fi_trecvmsg(g->srx, &msg, FI_PEEK | flags));
		while (!op->done)
			t_idle();
	} while (op->c.err == FI_ENOMSG);
	T_EQ(op->c.err, 0);
}

static void peek(void)
{
	struct t_opts o = {.caps = FI_SOURCE};
	struct t_op op = {0}, tx[3] = {0};
	struct t_buf buf = t_buf(50000, 0);
	struct group g;

	start_group(&g, &o);
	if (t_rank == 1) {
		t_fill(buf.p, buf.len, 1, 0);
		for (int i = 0; i < 3; i++)
			T_TRY(fi_tsend(g.base.ep, buf.p, buf.len, NULL, g.to[i % MEMBERS],
				       (uint64_t)i, &tx[i]));
		for (int i = 0; i < 3; i++)
			T_WAIT(&tx[i]);
	} else {
		struct iovec iov = {buf.p, buf.len};
		struct fi_msg_tagged msg = {
			.msg_iov = &iov, .iov_count = 1, .tag = 0, .context = &op};

		T_TRY(fi_trecvmsg(g.srx, &(struct fi_msg_tagged){.tag = 99, .context = &op},
				  FI_PEEK));
		T_WAIT_ERR(&op, FI_ENOMSG);
		look(&g, 0, FI_CLAIM, &op);
		T_EQ(op.c.len, 50000);
		T_EQ(op.c.src, g.from[1]);
		T_CHECK(op.c.node == &g.member[0], "the other's");
		t_blank(&buf);
		op.done = 0;
		T_TRY(fi_trecvmsg(g.srx, &msg, FI_CLAIM));
		T_WAIT(&op);
		T_GOT(&buf, 50000, 1);
		look(&g, 1, FI_DISCARD, &op);
		T_CHECK(op.c.node == &g.member[1], "the other's");
		look(&g, 2, 0, &op);
		t_blank(&buf);
		op.done = 0;
		T_TRY(fi_trecv(g.srx, buf.p, buf.len, NULL, FI_ADDR_UNSPEC, 2, 0, &op));
		T_WAIT(&op);
		T_GOT(&buf, 50000, 1);
	}
	finish_group(&g);
	t_buf_free(&buf);
}

static void cancel(void)
{
	struct t_opts o = {0};
	struct t_op rx[3] = {0};
	struct group g;
	uint64_t v[3] = {0}, w = 5;

	start_group(&g, &o);
	for (int i = 0; t_rank == 0 && i < 3; i++)
		T_TRY(fi_trecv(g.srx, &v[i], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &rx[i]));
	if (t_rank == 0) {
		T_OK(fi_cancel(&g.srx->fid, &rx[1]));
		T_WAIT_ERR(&rx[1], FI_ECANCELED);
		T_EQ(fi_cancel(&g.srx->fid, &rx[1]), -FI_ENOENT);
		T_EQ(fi_cancel(&g.member[0].ep->fid, &rx[2]), -FI_ENOENT);
	}
	t_barrier();
	if (t_rank == 1)
		for (int m = 0; m < 2; m++)
			T_TRY(fi_tinject(g.base.ep, &w, 8, g.to[m], 1));
	if (t_rank == 0) {
		T_WAIT(&rx[0]);
		T_WAIT(&rx[2]);
		T_EQ(v[0] + v[1] + v[2], 10);
		T_EQ(rx[1].done, 1);
	}
	finish_group(&g);
}

static void truncated(void)
{
	struct t_opts o = {0};
	struct t_buf buf = t_buf(100000, 0), small = t_buf(1000, 0);
	struct t_op op[2] = {0};
	struct group g;

	start_group(&g, &o);
	t_fill(buf.p, buf.len, 3, 0);
	for (int i = 0; i < 2; i++) {
		size_t len = i ? 100000 : 2000;

		t_barrier(); /* two members' messages come in any order */
		if (t_rank == 1) {
			T_TRY(fi_tsend(g.base.ep, buf.p, len, NULL, g.to[i], 1, &op[i]));
			T_WAIT(&op[i]);
			continue;
		}
		t_blank(&small);
		T_TRY(fi_trecv(g.srx, small.p, 1000, NULL, FI_ADDR_UNSPEC, 1, 0, &op[i]));
		T_WAIT_ERR(&op[i], FI_ETRUNC);
		T_CHECK(op[i].c.node == &g.member[i], "the other's");
		T_EQ(op[i].c.olen, len - 1000);
		T_GOT(&small, 1000, 3);
	}
	finish_group(&g);
	t_buf_free(&buf);
	t_buf_free(&small);
}

/* Counters are the members', and a member that reports only what it is asked to
 * reports no more; the other one does. */
static void selective(void)
{
	struct t_opts o = {.counters = true, .selective = FI_RECV};
	struct t_op rx[4] = {0};
	uint64_t v[4] = {0};
	struct group g;

	start_group(&g, &o);
	for (uint64_t i = 0; t_rank == 0 && i < 4; i++) {
		struct iovec iov = {&v[i], 8};
		struct fi_msg_tagged msg = {.msg_iov = &iov,
					    .iov_count = 1,
					    .addr = FI_ADDR_UNSPEC,
					    .tag = i,
					    .context = &rx[i]};

		T_TRY(fi_trecvmsg(g.srx, &msg, i % 2 ? FI_COMPLETION : 0));
	}
	t_barrier();
	for (uint64_t i = 0; t_rank == 1 && i < 4; i++) {
		uint64_t w = 10 + i;

		T_TRY(fi_tinject(g.base.ep, &w, 8, g.to[i == 3], i));
	}
	if (t_rank == 0) {
		T_OK(fi_cntr_wait(g.member[0].rxcntr, 3, -1));
		T_OK(fi_cntr_wait(g.member[1].rxcntr, 1, -1));
		t_progress();
		for (unsigned i = 0; i < 4; i++) {
			T_EQ(v[i], 10 + i);
			T_EQ(rx[i].done, i % 2);
		}
		T_EQ(fi_cntr_read(g.base.rxcntr), 0);
	}
	finish_group(&g);
}

/* --- lives ------------------------------------------------------------------------------ */

static int enable_beside(struct t_node *n, struct fi_info *info, struct fid_ep *srx,
			 struct fid_av *av, struct fid_ep **ep)
{
	T_OK(fi_endpoint(n->domain, info, ep, NULL));
	T_OK(fi_ep_bind(*ep, &av->fid, 0));
	T_OK(fi_ep_bind(*ep, &n->cq->fid, FI_TRANSMIT | FI_RECV));
	if (srx)
		T_OK(fi_ep_bind(*ep, &srx->fid, 0));
	return fi_enable(*ep);
}

static void order_of_closing(void)
{
	struct t_opts o = {.srx = (void *)1};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_info *hints = t_hints(&o), *info = NULL;
	struct t_node n;
	struct fid_ep *srx, *srx2, *ep, *ep2;
	struct fid_av *av2;
	struct t_op op = {0};
	char b[8];

	if (!t_beeline)
		t_skip("what ours promises");
	t_start(&n, NULL);
	T_OK(t_getinfo(T_API, hints, &info));
	srx = open_srx(&n, &(struct t_opts){0});
	srx2 = open_srx(&n, &(struct t_opts){0});
	T_OK(fi_av_open(n.domain, &av_attr, &av2, NULL));
	T_EQ(fi_close(&n.domain->fid), -FI_EBUSY);

	/* Not without the context, not with one that wasn't asked for, not with two. */
	T_EQ(enable_beside(&n, info, NULL, n.av, &ep), -FI_EOPBADSTATE);
	T_EQ(fi_ep_bind(n.ep, &srx->fid, 0), -FI_EOPBADSTATE);
	T_OK(fi_close(&ep->fid));
	T_OK(fi_endpoint(n.domain, n.info, &ep, NULL));
	T_EQ(fi_ep_bind(ep, &srx->fid, 0), -FI_EINVAL);
	T_OK(fi_close(&ep->fid));
	T_OK(enable_beside(&n, info, srx, n.av, &ep));
	T_OK(fi_endpoint(n.domain, info, &ep2, NULL));
	T_OK(fi_ep_bind(ep2, &srx->fid, 0));
	T_EQ(fi_ep_bind(ep2, &srx2->fid, 0), -FI_EINVAL);
	T_OK(fi_close(&ep2->fid));

	/* Members have one address vector. */
	T_EQ(enable_beside(&n, info, srx, av2, &ep2), -FI_EINVAL);
	T_OK(fi_close(&ep2->fid));

	/* Receives are posted to the context alone, and nothing is sent from it. */
	T_EQ(fi_recv(ep, b, 8, NULL, FI_ADDR_UNSPEC, &op), -FI_ENOSYS);
	T_EQ(fi_trecv(ep, b, 8, NULL, FI_ADDR_UNSPEC, 0, 0, &op), -FI_ENOSYS);
	T_EQ(fi_send(srx, b, 8, NULL, n.peer[0], &op), -FI_ENOSYS);
	T_EQ(fi_tinject(srx, b, 8, n.peer[0], 0), -FI_ENOSYS);
	T_CHECK(fi_write(srx, b, 8, NULL, n.peer[0], 0, 0, &op) < 0, "write");

	T_EQ(fi_close(&srx->fid), -FI_EBUSY);
	T_OK(fi_close(&ep->fid));
	T_OK(fi_close(&av2->fid));
	T_TRY(fi_trecv(srx, b, 8, NULL, FI_ADDR_UNSPEC, 0, 0, &op)); /* and never received */
	T_OK(fi_close(&srx->fid));
	T_OK(fi_close(&srx2->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	t_finish(&n);
}

/* One member closes with messages that wait for a receive; the other's stay, and
 * so do the receives. */
static void member_closes(void)
{
	struct t_opts o = {.caps = FI_DIRECTED_RECV};
	struct t_buf buf = t_buf(100000, 0);
	struct t_op rx[2] = {0}, tx[4] = {0};
	uint64_t v = 0;
	struct group g;

	start_group(&g, &o);
	if (t_rank == 1) {
		t_fill(buf.p, buf.len, 9, 0);
		for (int i = 0; i < 4; i++)
			T_TRY(fi_tsend(g.base.ep, buf.p, i / 2 ? buf.len : 1000, NULL, g.to[i % 2],
				       (uint64_t)i / 2, &tx[i]));
	} else {
		struct t_op seen = {0};

		for (uint64_t tag = 0; tag < 2; tag++) /* all four are here */
			look(&g, tag, 0, &seen);
	}
	t_barrier();
	for (int k = 0; t_rank == 0 && k < 5000; k++)
		t_progress();
	if (t_rank == 0) {
		T_TRY(fi_trecv(g.srx, &v, 8, NULL, g.from[1], 5, 0, &rx[0]));
		t_close(&g.member[0]);
	}
	t_barrier();
	if (t_rank == 0) {
		T_TRY(fi_trecv(g.srx, buf.p, 1000, NULL, g.from[1], 0, 0, &rx[1]));
		T_WAIT(&rx[1]);
		T_SAME(buf.p, 1000, 9, 0);
		rx[1].done = 0;
		T_TRY(fi_trecv(g.srx, buf.p, buf.len, NULL, FI_ADDR_UNSPEC, 1, 0, &rx[1]));
		T_WAIT(&rx[1]);
		T_SAME(buf.p, buf.len, 9, 0);
		/* What waited for the one that is closed is nowhere. */
		rx[1].done = 0;
		T_TRY(fi_trecvmsg(g.srx, &(struct fi_msg_tagged){.tag = 1, .context = &rx[1]},
				  FI_PEEK));
		T_WAIT_ERR(&rx[1], FI_ENOMSG);
		t_barrier();
		T_WAIT(&rx[0]);
		T_EQ(v, 77);
		t_close(&g.member[1]);
		T_OK(fi_close(&g.srx->fid));
		t_close(&g.base);
	} else {
		uint64_t w = 77;

		T_WAIT(&tx[0]);
		T_WAIT(&tx[1]);
		T_WAIT(&tx[3]);
		T_WAIT_ERR(&tx[2], FI_ENOTCONN);
		t_barrier();
		T_TRY(fi_tinject(g.base.ep, &w, 8, g.to[1], 5));
		t_close(&g.base);
	}
	t_buf_free(&buf);
}

/* Without members it has no queue to say so in: the call does. */
static void peek_alone(void)
{
	struct t_opts o = {0};
	struct t_op op = {0};
	struct fi_msg_tagged msg = {.context = &op};
	struct fid_ep *srx;
	struct t_node n, m;

	t_start(&n, &o);
	o.srx = srx = open_srx(&n, &o);
	T_EQ(fi_trecvmsg(srx, &msg, FI_PEEK), -FI_ENOMSG);
	t_open_beside(&m, &n, &o);
	T_OK(fi_trecvmsg(srx, &msg, FI_PEEK));
	T_WAIT_ERR(&op, FI_ENOMSG);
	t_close(&m);
	T_EQ(fi_trecvmsg(srx, &msg, FI_PEEK), -FI_ENOMSG);
	T_OK(fi_close(&srx->fid));
	t_finish(&n);
}

/* A receive from one process outlives the members' vector. In that of the next member
 * the process is somewhere else; that it has gone is found out there, and ends it. */
static void new_vector(void)
{
	struct t_opts o = {.caps = FI_DIRECTED_RECV};
	struct t_op rx = {0};
	struct fid_ep *srx;
	struct t_node n, m, gone;
	fi_addr_t from;

	t_start(&n, &o);
	t_open_beside(&gone, &n, &o);
	o.srx = srx = open_srx(&n, &o);
	t_open_beside(&m, &n, &o);
	t_insert(&m, n.name);
	from = t_insert(&m, gone.name);
	T_TRY(fi_trecv(srx, NULL, 0, NULL, from, 1, 0, &rx));
	for (int i = 0; i < 100; i++)
		t_progress();
	t_close(&m);
	o.shared_av = n.av; /* where index `from` is ours */
	T_EQ(n.peer[0], 0);
	T_EQ(t_insert(&n, n.name), from);
	t_insert(&n, gone.name);
	t_close(&gone);
	T_EQ(rx.done, 0);
	t_open_beside(&m, &n, &o);
	T_WAIT_ERR(&rx, FI_ECONNREFUSED);
	t_close(&m);
	T_OK(fi_close(&srx->fid));
	t_finish(&n);
}

/* A member goes with a receive of the context under way: the receive ends with it, and
 * its buffer is said to be the user's. */
static void close_under_way(bool helped)
{
	struct t_buf buf = t_buf((size_t)64 << 20, 0);
	struct t_opts o = {0};
	struct t_op op = {0};
	struct group g;

	setenv("FI_BEELINE_OVERLAP", "never", 1); /* or a read may copy all that there is, */
	setenv("FI_BEELINE_SPIN", "0", 1);	  /* as it does if it polls a hundred times */
	start_group(&g, &o);
	if (t_rank == 0) {
		memset(buf.p, 0, buf.len);
		T_TRY(fi_trecv(g.srx, buf.p, buf.len, NULL, FI_ADDR_UNSPEC, 1, 0, &op));
		t_barrier();
		while (!*(uint64_t *)buf.p && !op.done)
			t_progress();
		/* A sender that helps may have copied all before this one looked again. */
		T_CHECK(!op.done || helped, "under way");
		T_OK(fi_close(&g.member[0].ep->fid));
		g.member[0].ep = NULL;
		while (!op.done)
			t_idle();
		if (!helped || op.c.err)
			T_EQ(op.c.err, FI_ECANCELED);
		else
			T_SAME(buf.p, buf.len, 1, 0);
		T_EQ(fi_cancel(&g.srx->fid, &op), -FI_ENOENT);
		if (!helped)
			t_barrier_with(NULL);
	} else {
		t_fill(buf.p, buf.len, 1, 0);
		t_barrier();
		T_TRY(fi_tsend(g.base.ep, buf.p, buf.len, NULL, g.to[0], 1, &op));
		if (!helped) /* away: who begins to help doesn't stop before all is copied */
			t_barrier_with(NULL);
		while (!op.done)
			t_idle();
		/* If it was we who copied last, we have done that to the end. */
		T_CHECK((!op.c.err && helped) || op.c.err == FI_ENOTCONN, "error %d", op.c.err);
	}
	finish_group(&g);
	t_buf_free(&buf);
}

static void closes_under_way(void)
{
	close_under_way(false);
}

static void closes_while_helped(void)
{
	close_under_way(true);
}

/* Two endpoints on one shared transmit context, which outlives them. */
static void transmit(void)
{
	struct t_opts o = {0};
	struct fi_info *hints = t_hints(&o), *info;
	struct fid_stx *stx;
	struct t_node n, m;
	struct t_op tx[2] = {0}, rx[2] = {0};
	uint64_t out[2] = {1, 2}, in[2] = {0};
	fi_addr_t to;

	t_start(&n, &o);
	hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	if (t_getinfo(T_API, hints, &info))
		t_lacks("FI_SHARED_CONTEXT");
	T_EQ(info->ep_attr->tx_ctx_cnt, FI_SHARED_CONTEXT);
	T_OK(fi_stx_context(n.domain, info->tx_attr, &stx, NULL));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	o.stx = stx;
	t_open_beside(&m, &n, &o);
	T_EQ(fi_close(&stx->fid), -FI_EBUSY);
	to = t_insert(&m, n.name);
	for (int i = 0; i < 2; i++) {
		t_trecv(&n, FI_ADDR_UNSPEC, &in[i], 8, (uint64_t)i, 0, &rx[i]);
		T_TRY(fi_tsend(m.ep, &out[i], 8, NULL, to, (uint64_t)i, &tx[i]));
		T_WAIT(&rx[i]);
		T_WAIT(&tx[i]);
		T_CHECK(tx[i].c.node == &m, "in the other's queue");
		T_EQ(in[i], out[i]);
	}
	t_close(&m);
	T_OK(fi_close(&stx->fid));
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"shared_tagged", 3, tagged, "each receive takes its message, at either member", 0},
	{"shared_tagged_early", 3, tagged_early, "the same, message first", 0},
	{"shared_tagged_safe", 3, tagged_safe, "the same under FI_THREAD_SAFE", 0},
	{"shared_tagged_ring", 3, tagged_ring, "the same without direct copies", 0},
	{"shared_untagged", 3, untagged, "any receive takes any, in each sender's order", 0},
	{"shared_directed", 3, directed, "receives for one source each", 0},
	{"shared_directed_first", 3, directed_first, "posted before there is any member", 0},
	{"shared_multi", 3, multi, "one buffer for many messages of two members", 0},
	{"shared_peek", 2, peek, "peek, claim and discard", 0},
	{"shared_cancel", 2, cancel, "a cancelled receive takes nothing", 0},
	{"shared_truncated", 2, truncated, "too long: the member says so", 0},
	{"shared_selective", 2, selective, "completions on request, counters by member", 0},
	{"shared_closing", 1, order_of_closing, "what is refused, and in which order", 0},
	{"shared_member_closes", 2, member_closes, "one member's end leaves the other's", 0},
	{"shared_peek_alone", 1, peek_alone, "a context without members has nothing", 0},
	{"shared_new_vector", 1, new_vector, "the next member's address vector counts", 0},
	{"shared_closes_under_way", 2, closes_under_way, "a receive ends with its member", 0},
	{"shared_closes_while_helped", 2, closes_while_helped, "the same, or all has come", 0},
	{"shared_transmit", 1, transmit, "a shared transmit context", 0},
};

const struct t_group group_shared = T_GROUP("shared", cases);
