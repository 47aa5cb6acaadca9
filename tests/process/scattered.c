/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * scattered.c: a large receive of several pieces is served while its process is away, as
 * one that has a single buffer is (overlap.c). The pieces have gaps between them.
 */
#include "overlap.h"
#include "pieces.h"

#include <rdma/fi_tagged.h>
#include <string.h>

#define TAG 5

struct shape {
	const char *name;
	size_t n;
	size_t len[IOV];
};

static const struct shape shapes[] = {
	{"two", 2, {40000, 60001}},
	{"large, then a byte", 2, {65535, 1}},
	{"a byte, then large", 2, {1, 99999}},
	{"three", 3, {70001, 4096, 33333}},
	{"one is empty", 3, {30000, 0, 70003}},
	{"the last is empty", 3, {30000, 70003, 0}},
	{"eight", 8, {4096, 1, 100003, 17, 65536, 8191, 300000, 5}},
	{"eight, the first is empty", 8, {0, 9001, 9002, 9003, 9004, 9005, 9006, 20001}},
	{"eight large ones", 8, {1048577, 524287, MIB, 3, 700001, 262144, 262145, 99}},
};
#define NSHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* A receive in pieces. */
struct into {
	struct iovec iov[IOV];
	struct t_buf b[IOV];
	size_t n, len;
	struct t_op op;
};

static struct t_opts opts(void)
{
	return (struct t_opts){.iov = IOV};
}

static size_t length(const struct shape *s)
{
	size_t len = 0;

	for (size_t i = 0; i < s->n; i++)
		len += s->len[i];
	return len;
}

static void lay_out(struct into *in, const struct shape *s, size_t skew)
{
	memset(in, 0, sizeof(*in));
	in->n = s->n;
	in->len = length(s);
	for (size_t i = 0; i < s->n; i++) {
		in->b[i] = t_buf(s->len[i], (skew + 13 * i) & 63);
		in->iov[i] = (struct iovec){in->b[i].p, s->len[i]};
	}
}

static void blank(struct into *in)
{
	for (size_t i = 0; i < in->n; i++)
		t_blank(&in->b[i]);
}

static void post_into(struct t_node *n, bool tagged, fi_addr_t src, struct into *in)
{
	struct iovec iov[IOV];

	memcpy(iov, in->iov, sizeof(iov));
	if (tagged)
		T_TRY(fi_trecvv(n->ep, iov, NULL, in->n, src, TAG, 0, &in->op));
	else
		T_TRY(fi_recvv(n->ep, iov, NULL, in->n, src, &in->op));
	memset(iov, 0, sizeof(iov)); /* the list is ours again */
}

/* From a buffer, or (pieces > 1) from so many. */
static void ship_from(struct t_node *n, bool tagged, struct t_buf *b, size_t pieces,
		      struct t_op *op)
{
	size_t each = b->len / pieces + 1;
	struct iovec iov[IOV];

	for (size_t i = 0; i < pieces; i++)
		iov[i] = (struct iovec){b->p + i * each, i < pieces - 1 ? each : b->len - i * each};
	if (tagged)
		T_TRY(fi_tsendv(n->ep, iov, NULL, pieces, n->peer[1], TAG, op));
	else
		T_TRY(fi_sendv(n->ep, iov, NULL, pieces, n->peer[1], op));
}

/* --- the receiver is away ------------------------------------------------ */

/* As long as the receive, shorter, or longer: each claims it. */
static size_t sent(const struct shape *s, uint64_t how)
{
	size_t len = length(s);

	return how == 0 ? len : how == 1 ? len - (len - 65536) / 2 : len + 12345;
}

static void served(bool tagged, bool anybody)
{
	struct t_opts o = opts();
	struct t_node n;

	start(&n, &o, true);
	for (uint64_t i = 0; i < 3 * NSHAPES; i++) {
		const struct shape *s = &shapes[i / 3];
		size_t len = sent(s, i % 3), got = len < length(s) ? len : length(s);

		t_at("scattered: %s: %zu bytes into %zu", s->name, len, length(s));
		t_barrier();
		if (t_rank == 0) {
			struct t_buf b = t_buf(len, i * 7);
			struct t_op op = {0};

			t_fill(b.p, len, i, 0);
			away(); /* posted */
			ship_from(&n, tagged, &b, 1 + i % 4, &op);
			T_WAIT(&op);
			away();
			t_buf_free(&b);
		} else {
			struct into in;

			lay_out(&in, s, i);
			post_into(&n, tagged, anybody ? FI_ADDR_UNSPEC : n.peer[0], &in);
			away();
			away(); /* sent */
			pieces_check(in.b, in.n, got, i);
			T_EQ(in.op.done, 0);
			if (len > got) {
				T_WAIT_ERR(&in.op, FI_ETRUNC);
				T_EQ(in.op.c.olen, len - got);
			} else {
				T_WAIT(&in.op);
				T_EQ(in.op.c.len, len);
			}
			pieces_check(in.b, in.n, got, i);
			pieces_free(in.b, in.n);
		}
	}
	t_finish(&n);
}

static void served_tagged(void)
{
	served(true, false);
}

static void served_untagged(void)
{
	served(false, false);
}

static void served_anybody(void)
{
	served(true, true);
}

/*
 * More of them than a board has room for, some receives of one piece among them: those that
 * have found a place are served, in order, and the others when the receiver is back. The
 * places of those that are over are for the next ones.
 */
static void many(void)
{
	enum { N = 30, SHOWN = 10 }; /* eight of several pieces, and two between them */
	static const struct shape one = {"one", 1, {70000}};
	struct t_opts o = opts();
	struct t_buf b[N];
	struct into in[N];
	struct t_op op[N];
	struct t_node n;

	start(&n, &o, true);
	for (uint64_t i = 0; i < N; i++)
		lay_out(&in[i], i % 4 == 3 ? &one : &shapes[i % 3], i);
	for (uint64_t round = 0; round < 4; round++) {
		memset(op, 0, sizeof(op));
		t_barrier();
		if (t_rank == 0) {
			int ahead = 0;

			for (uint64_t i = 0; i < N; i++) {
				b[i] = t_buf(in[i].len, i);
				t_fill(b[i].p, b[i].len, i + 100 * round, 0);
			}
			away();
			for (; ahead < SHOWN; ahead++) {
				ship_from(&n, true, &b[ahead], 1, &op[ahead]);
				T_WAIT(&op[ahead]);
			}
			away();
			for (int i = ahead; i < N; i++)
				ship_from(&n, true, &b[i], 1, &op[i]);
			for (int i = 0; i < N; i++) {
				T_WAIT(&op[i]);
				t_buf_free(&b[i]);
			}
		} else {
			for (int i = 0; i < N; i++) {
				blank(&in[i]);
				in[i].op.done = 0;
				post_into(&n, true, i % 5 ? n.peer[0] : FI_ADDR_UNSPEC, &in[i]);
			}
			away();
			away();
			for (uint64_t i = 0; i < SHOWN; i++)
				pieces_check(in[i].b, in[i].n, in[i].len, i + 100 * round);
			for (uint64_t i = 0; i < N; i++) {
				T_WAIT(&in[i].op);
				pieces_check(in[i].b, in[i].n, in[i].len, i + 100 * round);
			}
		}
	}
	for (int i = 0; i < N; i++)
		pieces_free(in[i].b, in[i].n);
	t_finish(&n);
}

/* --- and comes back ------------------------------------------------------ */

/* While the sender copies: both take chunks. The pieces lie in one buffer, with gaps. */
static void helped(void)
{
	enum { GAP = 100000 };
	static const struct shape shape = {
		"large", 5, {5 * MIB + 1, 3, 262144, 7 * MIB + 4095, 4 * MIB}};
	struct t_buf b = t_buf(length(&shape) + 5 * GAP, 3);
	struct into in = {.n = shape.n, .len = length(&shape)};
	struct t_opts o = opts();
	struct t_node n;
	size_t at = 0;

	start(&n, &o, true);
	for (size_t i = 0; i < shape.n; at += shape.len[i++] + GAP) {
		in.b[i] = (struct t_buf){.p = b.p + at, .len = shape.len[i]};
		in.iov[i] = (struct iovec){b.p + at, shape.len[i]};
	}
	for (uint64_t i = 0; i < 20; i++) {
		if (t_rank == 0) {
			struct t_buf whole = {.p = b.p, .len = in.len};
			struct t_op op = {0};

			t_fill(b.p, in.len, i, 0);
			t_barrier();
			away(); /* posted */
			ship_from(&n, true, &whole, 1 + i % 3, &op);
			T_WAIT(&op);
		} else {
			t_blank(&b);
			in.op.done = 0;
			t_barrier();
			post_into(&n, true, n.peer[0], &in);
			away();
			for (volatile uint64_t k = 0; k < i * 40000; k++)
				;
			T_WAIT(&in.op);
			T_EQ(in.op.c.len, in.len);
			pieces_check(in.b, in.n, in.len, i);
			blank(&in);
			T_GOT(&b, 0, 0);
		}
	}
	t_buf_free(&b);
	t_finish(&n);
}

/* It cancels, and posts in its place a receive that is cut in another way: no message comes
 * into what the first one was, or it does and is whole. */
static void cancelled(void)
{
	struct t_opts o = opts();
	struct t_node n;

	start(&n, &o, true);
	for (uint64_t i = 0; i < (uint64_t)t_scaled(400); i++) {
		const struct shape *s = &shapes[i % NSHAPES], *other = &shapes[(i + 3) % NSHAPES];
		size_t len = length(s) < length(other) ? length(s) : length(other);

		t_barrier();
		if (t_rank == 0) {
			struct t_buf b = t_buf(len, 0);
			struct t_op op = {0};

			t_fill(b.p, len, i, 0);
			away();
			ship_from(&n, true, &b, 1, &op);
			T_WAIT(&op);
			t_buf_free(&b);
		} else {
			struct into in, again;

			lay_out(&in, s, i);
			lay_out(&again, other, i + 1);
			post_into(&n, true, i % 2 ? n.peer[0] : FI_ADDR_UNSPEC, &in);
			away();
			for (volatile uint64_t k = 0; k < i % 37 * 400; k++)
				;
			fi_cancel(&n.ep->fid, &in.op);
			while (!in.op.done)
				t_idle();
			if (in.op.c.err) {
				T_EQ(in.op.c.err, FI_ECANCELED);
				post_into(&n, true, FI_ADDR_UNSPEC, &again);
				T_WAIT(&again.op);
				pieces_check(in.b, in.n, 0, 0);
				pieces_check(again.b, again.n, len, i);
			} else {
				pieces_check(in.b, in.n, len, i);
			}
			pieces_free(in.b, in.n);
			pieces_free(again.b, again.n);
		}
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"scattered_tagged", 2, served_tagged, "the sender completes it alone", 0},
	{"scattered_untagged", 2, served_untagged, "the same, untagged", 0},
	{"scattered_anybody", 2, served_anybody, "posted for any source", 0},
	{"scattered_many", 2, many, "more than a board holds", 0},
	{"scattered_helped", 2, helped, "the receiver comes back meanwhile", 0},
	{"scattered_cancel_race", 2, cancelled, "cancel against claim", 0},
};

const struct t_group group_scattered = T_GROUP("scattered", cases);
