/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * peek.c: FI_PEEK, FI_CLAIM and FI_DISCARD, as MPI's probes use them.
 */
#include "cases.h"

#include <stdlib.h>

#define LARGE 400000

static const size_t lens[] = {0, 8, 100, 5000, LARGE};
#define NLENS 5

static ssize_t peek(struct t_node *n, fi_addr_t src, uint64_t tag, uint64_t ignore, uint64_t flags,
		    struct t_op *op)
{
	struct fi_msg_tagged m = {.addr = src, .tag = tag, .ignore = ignore, .context = op};
	ssize_t rc;

	*op = (struct t_op){0};
	while ((rc = fi_trecvmsg(n->ep, &m, FI_PEEK | FI_COMPLETION | flags)) == -FI_EAGAIN)
		t_idle();
	return rc;
}

/* A provider may refuse to peek (shm in 1.17 does), but not claim what it cannot. */
static void must_peek(struct t_node *n, fi_addr_t src, uint64_t tag, uint64_t ignore,
		      uint64_t flags, struct t_op *op)
{
	ssize_t rc = peek(n, src, tag, ignore, flags, op);

	if (rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL || rc == -FI_EBADFLAGS)
		t_lacks("FI_PEEK with these flags");
	/* libfabric 1.17's sockets answers a miss from the call itself as well. */
	T_CHECK(rc == 0, "FI_PEEK: %s", fi_strerror((int)-rc));
}

static void claim(struct t_node *n, struct t_op *op, void *buf, size_t len, uint64_t flags)
{
	struct iovec iov = {buf, len};
	struct fi_msg_tagged m = {.msg_iov = &iov,
				  .iov_count = 1,
				  .addr = FI_ADDR_UNSPEC,
				  .tag = op->c.tag,
				  .context = op};

	op->done = 0;
	T_TRY(fi_trecvmsg(n->ep, &m, FI_CLAIM | FI_COMPLETION | flags));
}

static void miss(void)
{
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct t_node n;
	struct t_op op;
	uint64_t v = 1;

	t_start(&n, &o);
	if (t_rank == 1) {
		must_peek(&n, FI_ADDR_UNSPEC, 1, 0, 0, &op);
		T_WAIT_ERR(&op, FI_ENOMSG);
		T_EQ(op.done, 1);
	}
	t_barrier();
	if (t_rank == 0) {
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 2));
		t_mark(&n, 1, 0);
	} else {
		t_wait_mark(&n, 0, 0);
		/* Another tag, another source, and an untagged look all miss. */
		must_peek(&n, FI_ADDR_UNSPEC, 1, 0, 0, &op);
		T_WAIT_ERR(&op, FI_ENOMSG);
		must_peek(&n, n.peer[1], 2, 0, FI_REMOTE_CQ_DATA, &op);
		T_WAIT_ERR(&op, FI_ENOMSG);
		must_peek(&n, FI_ADDR_UNSPEC, 0, 0, FI_CLAIM, &op);
		T_WAIT_ERR(&op, FI_ENOMSG);
		must_peek(&n, FI_ADDR_UNSPEC, 0, 0, FI_DISCARD, &op);
		T_WAIT_ERR(&op, FI_ENOMSG);
		/* A miss leaves nothing posted: the message is still there. */
		v = 0;
		op = (struct t_op){0};
		t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 2, 0, &op);
		T_WAIT(&op);
		T_EQ(v, 1);
	}
	t_finish(&n);
}

/* Rank 0 sends each length with tag 10 + i and remote data; all are there. */
static void send_all(struct t_node *n)
{
	struct t_buf b[NLENS];
	struct t_op op[NLENS] = {0};

	for (uint64_t i = 0; i < NLENS; i++) {
		b[i] = t_buf(lens[i], 0);
		t_fill(b[i].p, lens[i], i, 0);
		T_TRY(fi_tsenddata(n->ep, b[i].p, lens[i], NULL, 900 + i, n->peer[1], 10 + i,
				   &op[i]));
	}
	t_mark(n, 1, 0);
	for (int i = 0; i < NLENS; i++) {
		T_WAIT(&op[i]);
		t_buf_free(&b[i]);
	}
}

static void check_peek(struct t_node *n, struct t_op *op, uint64_t i)
{
	T_WAIT(op);
	T_EQ(op->done, 1);
	T_EQ(op->c.len, lens[i]);
	T_EQ(op->c.tag, 10 + i);
	if (t_beeline || op->c.flags & FI_REMOTE_CQ_DATA) {
		T_CHECK(op->c.flags & FI_REMOTE_CQ_DATA, "no FI_REMOTE_CQ_DATA");
		T_EQ(op->c.data, 900 + i);
	}
	if (t_beeline || op->c.src != FI_ADDR_NOTAVAIL)
		T_EQ(op->c.src, n->peer[0]);
}

static const struct t_opts peek_opts = {.caps = FI_SOURCE | FI_DIRECTED_RECV, .cq_data = true};

static void hit(void)
{
	struct t_node n;

	t_start(&n, &peek_opts);
	if (t_rank == 0) {
		send_all(&n);
	} else {
		t_wait_mark(&n, 0, 0);
		for (uint64_t i = 0; i < NLENS; i++) {
			struct t_buf b = t_buf(lens[i], 0);
			struct t_op op;

			/* Looking twice changes nothing, and so does a flag of Intel MPI's. */
			must_peek(&n, FI_ADDR_UNSPEC, 10 + i, 0, FI_REMOTE_CQ_DATA, &op);
			check_peek(&n, &op, i);
			must_peek(&n, n.peer[0], 10 + i, 0, 0, &op);
			check_peek(&n, &op, i);
			op = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, lens[i], 10 + i, 0, &op);
			T_WAIT(&op);
			T_GOT(&b, lens[i], i);
			t_buf_free(&b);
		}
	}
	t_finish(&n);
}

/* A wildcard look finds the oldest. */
static void hit_any(void)
{
	struct t_node n;

	t_start(&n, &peek_opts);
	if (t_rank == 0) {
		send_all(&n);
	} else {
		t_wait_mark(&n, 0, 0);
		for (uint64_t i = 0; i < NLENS; i++) {
			struct t_buf b = t_buf(lens[i], 0);
			struct t_op op;

			must_peek(&n, FI_ADDR_UNSPEC, 0, ~0ULL, 0, &op);
			check_peek(&n, &op, i);
			op = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, lens[i], 0, ~0ULL, &op);
			T_WAIT(&op);
			T_GOT(&b, lens[i], i);
			t_buf_free(&b);
		}
	}
	t_finish(&n);
}

/* What is claimed is out of others' sight, and is received by its claimer, in any
 * order. */
static void claimed(void)
{
	struct t_node n;

	t_start(&n, &peek_opts);
	if (t_rank == 0) {
		send_all(&n);
	} else {
		struct t_op op[NLENS], other;

		t_wait_mark(&n, 0, 0);
		for (uint64_t i = 0; i < NLENS; i++) {
			must_peek(&n, FI_ADDR_UNSPEC, 10 + i, 0, FI_CLAIM, &op[i]);
			check_peek(&n, &op[i], i);
			must_peek(&n, FI_ADDR_UNSPEC, 10 + i, 0, 0, &other);
			T_WAIT_ERR(&other, FI_ENOMSG);
		}
		for (uint64_t i = NLENS; i-- > 0;) {
			struct t_buf b = t_buf(lens[i], 0);

			claim(&n, &op[i], b.p, lens[i], 0);
			T_WAIT(&op[i]);
			T_EQ(op[i].c.len, lens[i]);
			T_EQ(op[i].c.tag, 10 + i);
			T_GOT(&b, lens[i], i);
			t_buf_free(&b);
		}
	}
	t_finish(&n);
}

/* A claimed message that is longer than what it is received into. */
static void claimed_cut(void)
{
	struct t_node n;

	t_start(&n, &peek_opts);
	if (t_rank == 0) {
		send_all(&n);
	} else {
		t_wait_mark(&n, 0, 0);
		for (uint64_t i = 0; i < NLENS; i++) {
			size_t room = lens[i] / 2;
			struct t_buf b = t_buf(room, 0);
			struct t_op op;

			must_peek(&n, FI_ADDR_UNSPEC, 10 + i, 0, FI_CLAIM, &op);
			check_peek(&n, &op, i);
			claim(&n, &op, b.p, room, 0);
			if (room == lens[i])
				T_WAIT(&op);
			else
				T_WAIT_ERR(&op, FI_ETRUNC);
			T_GOT(&b, room, i);
			t_buf_free(&b);
		}
	}
	t_finish(&n);
}

/* FI_DISCARD alone names no message: a receive that the caller doesn't mean isn't posted. */
static void discard_alone(void)
{
	struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 1};
	struct t_node n;

	if (!t_beeline)
		t_skip("what ours promises");
	t_start(&n, &peek_opts);
	T_EQ(fi_trecvmsg(n.ep, &msg, FI_DISCARD), -FI_EINVAL);
	T_EQ(fi_cancel(&n.ep->fid, NULL), -FI_ENOENT);
	t_finish(&n);
}

/* FI_PEEK | FI_DISCARD drops what it finds; the sender's operation completes. */
static void peek_discard(void)
{
	struct t_node n;

	t_start(&n, &peek_opts);
	if (t_rank == 0) {
		send_all(&n);
	} else {
		struct t_op op;

		t_wait_mark(&n, 0, 0);
		for (uint64_t i = 0; i < NLENS; i++) {
			must_peek(&n, FI_ADDR_UNSPEC, 10 + i, 0, FI_DISCARD, &op);
			T_WAIT(&op);
			must_peek(&n, FI_ADDR_UNSPEC, 10 + i, 0, 0, &op);
			T_WAIT_ERR(&op, FI_ENOMSG);
		}
	}
	t_finish(&n);
}

/* FI_CLAIM | FI_DISCARD drops what was claimed. */
static void claim_discard(void)
{
	struct t_node n;

	t_start(&n, &peek_opts);
	if (t_rank == 0) {
		send_all(&n);
	} else {
		struct t_op op;

		t_wait_mark(&n, 0, 0);
		for (uint64_t i = 0; i < NLENS; i++) {
			must_peek(&n, FI_ADDR_UNSPEC, 10 + i, 0, FI_CLAIM, &op);
			T_WAIT(&op);
			claim(&n, &op, NULL, 0, FI_DISCARD);
			check_peek(&n, &op, i);
			must_peek(&n, FI_ADDR_UNSPEC, 10 + i, 0, 0, &op);
			T_WAIT_ERR(&op, FI_ENOMSG);
		}
	}
	t_finish(&n);
}

/* Several claims at once from several sources, each received by its own context,
 * while ordinary receives go on. */
static void claims_beside(void)
{
	enum { N = 40 };
	struct t_node n;
	uint64_t v;

	t_start(&n, &peek_opts);
	if (t_rank > 0) {
		for (uint64_t i = 0; i < N; i++) {
			v = (uint64_t)t_rank << 32 | i;
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[0], 5));
		}
		t_mark(&n, 0, 0);
	} else {
		struct t_op *op = calloc(N * 4, sizeof(*op));
		int claims = 0;

		for (int r = 1; r < t_nproc; r++)
			t_wait_mark(&n, r, 0);
		for (uint64_t i = 0; i < N; i++) {
			for (int r = 1; r < t_nproc; r++) {
				struct t_op rx = {0};

				if ((i + (uint64_t)r) & 1) {
					must_peek(&n, n.peer[r], 5, 0, FI_CLAIM, &op[claims]);
					T_WAIT(&op[claims]);
					op[claims++].arg = (void *)((uintptr_t)r << 32 | i);
					continue;
				}
				t_trecv(&n, n.peer[r], &v, 8, 5, 0, &rx);
				T_WAIT(&rx);
				T_EQ(v, (uint64_t)r << 32 | i);
			}
		}
		for (int i = claims; i-- > 0;) {
			claim(&n, &op[i], &v, 8, 0);
			T_WAIT(&op[i]);
			T_EQ(v, (uintptr_t)op[i].arg);
		}
		free(op);
	}
	t_finish(&n);
}

/* Untagged messages can be looked at, too (fi_msg(3)). */
static void untagged(void)
{
	struct t_node n;

	t_start(&n, &peek_opts);
	if (t_rank == 0) {
		uint64_t v = 77;

		T_TRY(fi_inject(n.ep, &v, 8, n.peer[1]));
		t_mark(&n, 1, 0);
	} else {
		struct t_op op = {0};
		struct fi_msg m = {.addr = FI_ADDR_UNSPEC, .context = &op};
		uint64_t v = 0;
		ssize_t rc;

		t_wait_mark(&n, 0, 0);
		while ((rc = fi_recvmsg(n.ep, &m, FI_PEEK | FI_COMPLETION)) == -FI_EAGAIN)
			t_idle();
		if (rc || !t_beeline)
			t_lacks("FI_PEEK of untagged messages");
		T_WAIT(&op);
		T_EQ(op.c.len, 8);
		op.done = 0;
		T_TRY(fi_recv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, &op));
		T_WAIT(&op);
		T_EQ(v, 77);
		op.done = 0;
		T_TRY(fi_recvmsg(n.ep, &m, FI_PEEK | FI_COMPLETION));
		T_WAIT_ERR(&op, FI_ENOMSG);
	}
	t_finish(&n);
}

/* Nothing comes from one that isn't there, and the look says so: it connects, as a receive
 * would. */
static void gone(void)
{
	struct t_node n, second;
	struct t_op op;
	ssize_t rc;

	if (!t_beeline)
		t_skip("some say FI_ENOMSG for ever");
	t_start(&n, &peek_opts);
	t_open(&second, &peek_opts);
	t_connect(&second);
	t_barrier();
	if (t_rank == 0) {
		t_close(&second);
		t_barrier();
	} else {
		must_peek(&second, second.peer[0], 1, 0, 0, &op);
		T_WAIT_ERR(&op, FI_ENOMSG);
		t_barrier();
		while (!(rc = peek(&second, second.peer[0], 1, 0, 0, &op)))
			T_WAIT_ERR(&op, FI_ENOMSG);
		T_CHECK(rc == -FI_ENOTCONN || rc == -FI_ECONNREFUSED, "a peek said %zd (%s)", rc,
			fi_strerror((int)-rc));
		T_EQ(op.done, 0);
		t_close(&second);
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"peek_miss", 2, miss, "FI_ENOMSG, and nothing stays posted", 0},
	{"peek_hit", 2, hit, "length, tag, data, source; nothing changes", 0},
	{"peek_hit_any", 2, hit_any, "a wildcard finds the oldest", 0},
	{"peek_claim", 2, claimed, "a claimed message is its claimer's", 0},
	{"peek_claim_cut", 2, claimed_cut, "claimed, then truncated", 0},
	{"peek_discard_alone", 1, discard_alone, "FI_DISCARD of nothing in particular", 0},
	{"peek_discard", 2, peek_discard, "found and dropped", 0},
	{"peek_claim_discard", 2, claim_discard, "claimed and dropped", 0},
	{"peek_claims_beside", 4, claims_beside, "many claims beside receives", 0},
	{"peek_untagged", 2, untagged, "untagged messages", 0},
	{"peek_gone", 2, gone, "a source that goes", 0},
};

const struct t_group group_peek = T_GROUP("peek", cases);
