/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cancel.c: fi_cancel of receives: posted, matched already, complete, unknown; what
 * was cancelled takes no message, what was not is unharmed. And of sends that wait for their
 * receiver.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#define LARGE 300000

static void posted(bool tagged)
{
	struct t_node n;
	uint64_t v[3] = {0}, sent = 7;
	struct t_op op[3] = {0};

	t_start(&n, NULL);
	if (t_rank == 1) {
		for (int i = 0; i < 3; i++) {
			if (tagged)
				t_trecv(&n, FI_ADDR_UNSPEC, &v[i], 8, 4, 0, &op[i]);
			else
				T_TRY(fi_recv(n.ep, &v[i], 8, NULL, FI_ADDR_UNSPEC, &op[i]));
		}
		T_EQ(fi_cancel(&n.ep->fid, &op[1]), 0);
		T_WAIT_ERR(&op[1], FI_ECANCELED);
		T_CHECK(op[1].c.flags & FI_RECV || !t_beeline, "flags 0x%llx",
			(unsigned long long)op[1].c.flags);
		T_EQ(op[0].done + op[2].done, 0);
	}
	t_barrier();
	/* The others still receive, in order. */
	if (t_rank == 0) {
		for (int i = 0; i < 2; i++, sent++)
			if (tagged)
				T_TRY(fi_tinject(n.ep, &sent, 8, n.peer[1], 4));
			else
				T_TRY(fi_inject(n.ep, &sent, 8, n.peer[1]));
	} else {
		T_WAIT(&op[0]);
		T_WAIT(&op[2]);
		T_EQ(v[0], 7);
		T_EQ(v[2], 8);
		T_EQ(v[1], 0);
		T_EQ(op[1].done, 1);
	}
	t_finish(&n);
}

static void posted_tagged(void)
{
	posted(true);
}

static void posted_untagged(void)
{
	posted(false);
}

/* A large receive with a wildcard source, cancelled before anything came: a message
 * that comes then waits for the next receive, untouched. */
static void before_large(void)
{
	struct t_node n;
	struct t_buf a = t_buf(LARGE, 0), b = t_buf(LARGE, 0);
	struct t_op op[2] = {0};

	t_start(&n, NULL);
	if (t_rank == 1) {
		t_trecv(&n, FI_ADDR_UNSPEC, a.p, LARGE, 4, ~0ULL, &op[0]);
		T_EQ(fi_cancel(&n.ep->fid, &op[0]), 0);
		T_WAIT_ERR(&op[0], FI_ECANCELED);
	}
	t_barrier();
	if (t_rank == 0) {
		t_fill(a.p, LARGE, 1, 0);
		t_tsend(&n, 1, a.p, LARGE, 4, &op[0]);
		t_mark(&n, 1, 0);
		T_WAIT(&op[0]);
	} else {
		t_wait_mark(&n, 0, 0);
		t_trecv(&n, FI_ADDR_UNSPEC, b.p, LARGE, 4, 0, &op[1]);
		T_WAIT(&op[1]);
		T_GOT(&b, LARGE, 1);
		T_GOT(&a, 0, 1);
	}
	t_buf_free(&a);
	t_buf_free(&b);
	t_finish(&n);
}

/* After the message was matched, or its completion read, cancel changes nothing. */
static void matched(void)
{
	static const size_t lens[] = {8, 5000, LARGE, 3000000};
	struct t_node n;

	t_start(&n, NULL);
	for (uint64_t i = 0; i < 4; i++) {
		struct t_buf b = t_buf(lens[i], 0);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, lens[i], i, 0);
			t_tsend(&n, 1, b.p, lens[i], i, &op);
			t_mark(&n, 1, i);
			T_WAIT(&op);
		} else {
			t_wait_mark(&n, 0, i);
			/* Posting matches the message that waits. */
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, lens[i], i, 0, &op);
			fi_cancel(&n.ep->fid, &op);
			while (!op.done)
				t_idle();
			if (op.c.err == FI_ECANCELED && !t_beeline)
				t_skip("%s matches waiting messages later", t_provider);
			T_WAIT(&op);
			T_GOT(&b, lens[i], i);
			fi_cancel(&n.ep->fid, &op);
			t_mark(&n, 1, 100 + i); /* to itself: all there is comes out */
			t_wait_mark(&n, 1, 100 + i);
			T_EQ(op.done, 1);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void unknown(void)
{
	struct t_node n;
	uint64_t v = 3, got = 0;
	struct t_op op = {0}, nobody = {0};

	t_start(&n, NULL);
	if (t_rank == 1) {
		ssize_t rc = fi_cancel(&n.ep->fid, &nobody);

		T_CHECK(rc == 0 || rc == -FI_ENOENT, "fi_cancel of nothing: %zd", rc);
		t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 1, 0, &op);
		rc = fi_cancel(&n.ep->fid, &nobody);
		T_CHECK(rc == 0 || rc == -FI_ENOENT, "fi_cancel of another: %zd", rc);
	}
	t_barrier();
	if (t_rank == 0) {
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 1));
	} else {
		T_WAIT(&op);
		T_EQ(got, 3);
		T_EQ(nobody.done, 0);
	}
	t_finish(&n);
}

/* Half of many posted receives, the rest in order; tagged and untagged. */
static void every_other(void)
{
	enum { N = 200 };
	struct t_node n;
	uint64_t got[2 * N] = {0};
	struct t_op *op = calloc(2 * N, sizeof(*op));

	t_start(&n, NULL);
	if (t_rank == 1) {
		for (int i = 0; i < N; i++) {
			t_trecv(&n, FI_ADDR_UNSPEC, &got[i], 8, 1, i % 4 < 2 ? ~0ULL : 0, &op[i]);
			T_TRY(fi_recv(n.ep, &got[N + i], 8, NULL, FI_ADDR_UNSPEC, &op[N + i]));
		}
		for (int i = 0; i < 2 * N; i += 2)
			T_EQ(fi_cancel(&n.ep->fid, &op[i]), 0);
		for (int i = 0; i < 2 * N; i += 2)
			T_WAIT_ERR(&op[i], FI_ECANCELED);
	}
	t_barrier();
	if (t_rank == 0) {
		for (uint64_t i = 0; i < N / 2; i++) {
			T_TRY(fi_tinject(n.ep, &i, 8, n.peer[1], 1));
			T_TRY(fi_inject(n.ep, &i, 8, n.peer[1]));
		}
	} else {
		for (int i = 1; i < 2 * N; i += 2) {
			T_WAIT(&op[i]);
			T_EQ(got[i], i % N / 2);
		}
	}
	t_finish(&n);
	free(op);
}

/* Cancel races with a message on its way: either it is received whole, or it waits
 * for the next receive; never both, never neither. */
static void racing(void)
{
	struct t_node n;
	int cancelled = 0;

	t_start(&n, NULL);
	for (uint64_t i = 0; i < (uint64_t)t_scaled(400); i++) {
		size_t len = i % 8 == 7 ? 100000 : i % 3 * 100;
		struct t_buf b = t_buf(len, 0);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			t_tsend(&n, 1, b.p, len, i, &op);
			T_WAIT(&op);
		} else {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, i, 0, &op);
			for (uint64_t k = 0; k < i % 64; k++)
				t_progress();
			fi_cancel(&n.ep->fid, &op);
			while (!op.done)
				t_idle();
			if (op.c.err) {
				T_EQ(op.c.err, FI_ECANCELED);
				T_GOT(&b, 0, 0);
				cancelled++;
				op.done = 0;
				t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, i, 0, &op);
				T_WAIT(&op);
			}
			T_EQ(op.c.len, len);
			T_GOT(&b, len, i);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* A cancelled multi-receive buffer is gone, its earlier messages are not. */
static void multi(void)
{
	struct t_opts o = {.caps = FI_MULTI_RECV, .min_multi_recv = 64};
	struct t_node n;
	struct t_buf b = t_buf(4096, 0);
	uint64_t v = 5;

	t_start(&n, &o);
	if (t_rank == 1) {
		struct iovec iov = {b.p, b.len};
		struct t_op op = {0}, next = {0};
		struct fi_msg m = {
			.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &op};

		T_TRY(fi_recvmsg(n.ep, &m, FI_MULTI_RECV | FI_COMPLETION));
		t_barrier();
		T_WAIT(&op);
		T_EQ(op.c.len, 8);
		T_CHECK(!(op.c.flags & FI_MULTI_RECV), "released early");
		T_EQ(fi_cancel(&n.ep->fid, &op), 0);
		while (op.done < 2)
			t_idle();
		T_CHECK(op.c.err == FI_ECANCELED || op.c.flags & FI_MULTI_RECV,
			"error %d, flags 0x%llx", op.c.err, (unsigned long long)op.c.flags);
		v = 0;
		T_TRY(fi_recv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, &next));
		t_barrier();
		T_WAIT(&next);
		T_EQ(v, 5);
	} else {
		t_barrier();
		T_TRY(fi_inject(n.ep, &v, 8, n.peer[1]));
		t_barrier();
		T_TRY(fi_inject(n.ep, &v, 8, n.peer[1]));
	}
	t_finish(&n);
	t_buf_free(&b);
}

static void send_delivered(struct t_node *n, const struct t_buf *b, uint64_t tag, struct t_op *op)
{
	struct iovec iov = {b->p, b->len};
	struct fi_msg_tagged m = {
		.msg_iov = &iov, .iov_count = 1, .addr = n->peer[1], .tag = tag, .context = op};

	T_TRY(fi_tsendmsg(n->ep, &m, FI_DELIVERY_COMPLETE | FI_COMPLETION));
}

static const size_t send_lens[] = {0, 8, 300, 4000, 20000, LARGE, 3000000};
#define SENDS	(sizeof(send_lens) / sizeof(send_lens[0]))
#define VERDICT (1ULL << 40) /* in the tag of what the sender says of its first message */

/* A send that nobody receives, to a process that isn't in the library (it waits in t_barrier_with):
 * it ends when that is back. Nobody gets them, nor the new contents of their buffers. */
static void send_away(void)
{
	struct t_node n;

	if (!t_beeline)
		t_skip("others don't cancel sends that have left");
	t_start(&n, NULL);
	for (uint64_t i = 0; i < SENDS; i++) {
		struct t_buf b = t_buf(send_lens[i], 0);
		struct t_op op = {0}, next = {0};

		t_at("%zu bytes", send_lens[i]);
		if (t_rank == 0) {
			t_fill(b.p, b.len, 99, 0);
			send_delivered(&n, &b, i, &op);
			T_EQ(fi_cancel(&n.ep->fid, &op), 0);
		}
		t_barrier_with(t_rank ? NULL : t_progress);
		if (t_rank == 0) {
			T_WAIT_ERR(&op, FI_ECANCELED);
			t_fill(b.p, b.len, i, 0);
			t_tsend(&n, 1, b.p, b.len, i, &next);
			t_mark(&n, 1, i);
		} else {
			t_wait_mark(&n, 0, i); /* the cancelled one has been and gone */
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, b.len, i, 0, &next);
		}
		T_WAIT(&next);
		if (t_rank == 1)
			T_GOT(&b, b.len, i);
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* The bytes are those of message `seed`. */
static bool is_message(const struct t_buf *b, uint64_t seed)
{
	unsigned char *should = malloc(b->len);
	bool same;

	t_fill(should, b->len, seed, 0);
	same = !memcmp(b->p, should, b->len);
	free(should);
	return same;
}

/* A send is cancelled, and its buffer overwritten; another of its kind follows. */
static void cancel_one(struct t_node *n, size_t len, uint64_t i)
{
	struct t_buf b = t_buf(len, 0), c = t_buf(len, 0);
	struct t_op op = {0}, next = {0};
	uint64_t received;

	t_fill(b.p, len, 2 * i, 0);
	t_fill(c.p, len, 2 * i + 1, 0);
	send_delivered(n, &b, i, &op);
	for (uint64_t k = 0; k < i * 7 % 64; k++)
		t_progress();
	fi_cancel(&n->ep->fid, &op);
	while (!op.done)
		t_idle();
	T_CHECK(!op.c.err || op.c.err == FI_ECANCELED, "error %d", op.c.err);
	t_blank(&b);
	t_tsend(n, 1, c.p, len, i, &next);
	T_WAIT(&next);
	received = !op.c.err;
	T_TRY(fi_tinject(n->ep, &received, sizeof received, n->peer[1], VERDICT | i));
	t_buf_free(&b);
	t_buf_free(&c);
}

/* The first that comes is one of the two, whole; the second one comes in any case. */
static void receive_either(struct t_node *n, size_t len, uint64_t i)
{
	struct t_buf b = t_buf(len, 0);
	struct t_op op[3] = {0};
	uint64_t received;
	bool first;

	t_trecv(n, FI_ADDR_UNSPEC, b.p, len, i, 0, &op[0]);
	T_WAIT(&op[0]);
	first = is_message(&b, 2 * i);
	if (first) {
		t_trecv(n, FI_ADDR_UNSPEC, b.p, len, i, 0, &op[1]);
		T_WAIT(&op[1]);
	}
	T_GOT(&b, len, 2 * i + 1);
	t_trecv(n, FI_ADDR_UNSPEC, &received, sizeof received, VERDICT | i, 0, &op[2]);
	T_WAIT(&op[2]);
	T_CHECK(first == received, "%s", first ? "both cancelled and received" : "neither");
	t_buf_free(&b);
}

/* A cancel races with the receive: the message is received whole, or the next one in its place. */
static void send_racing(void)
{
	struct t_node n;

	if (!t_beeline)
		t_skip("others don't cancel sends that have left");
	t_start(&n, NULL);
	for (uint64_t i = 0; i < (uint64_t)t_scaled(150); i++) {
		size_t len = send_lens[1 + i % (SENDS - 1)];

		t_at("%zu bytes, the %luth", len, (unsigned long)i);
		if (t_rank == 0)
			cancel_one(&n, len, i);
		else
			receive_either(&n, len, i);
	}
	t_finish(&n);
}

/* The receive is posted later than the cancel: exactly one of the two happens. */
static void send_posted_later(void)
{
	struct t_node n;

	if (!t_beeline)
		t_skip("others don't cancel sends that have left");
	t_start(&n, NULL);
	for (uint64_t i = 0; i < SENDS; i++) {
		struct t_buf b = t_buf(send_lens[i], 0);
		struct t_op op = {0}, told = {0};
		uint64_t cancelled;

		t_at("%zu bytes", send_lens[i]);
		if (t_rank == 0) {
			t_fill(b.p, b.len, i, 0);
			send_delivered(&n, &b, i, &op);
			t_mark(&n, 1, i); /* behind it: it is early there */
			T_EQ(fi_cancel(&n.ep->fid, &op), 0);
			t_barrier_with(NULL);
			while (!op.done)
				t_idle();
			T_CHECK(!op.c.err || op.c.err == FI_ECANCELED, "error %d", op.c.err);
			cancelled = op.c.err;
			T_TRY(fi_tinject(n.ep, &cancelled, 8, n.peer[1], VERDICT | i));
		} else {
			t_wait_mark(&n, 0, i);
			t_barrier_with(NULL);
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, b.len, i, 0, &op);
			t_trecv(&n, FI_ADDR_UNSPEC, &cancelled, 8, VERDICT | i, 0, &told);
			T_WAIT(&told);
			if (cancelled) {
				T_EQ(op.done, 0);
				T_EQ(fi_cancel(&n.ep->fid, &op), 0);
				T_WAIT_ERR(&op, FI_ECANCELED);
			} else {
				T_WAIT(&op);
				T_GOT(&b, b.len, i);
			}
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"cancel_posted_tagged", 2, posted_tagged, "one of three receives", 0},
	{"cancel_posted_untagged", 2, posted_untagged, "one of three, untagged", 0},
	{"cancel_before_large", 2, before_large, "the message waits for the next", 0},
	{"cancel_matched", 2, matched, "too late: nothing changes", 0},
	{"cancel_unknown", 2, unknown, "no such operation", 0},
	{"cancel_every_other", 2, every_other, "half of many", 0},
	{"cancel_racing", 2, racing, "while the message is on its way", 0},
	{"cancel_multi", 2, multi, "a multi-receive buffer", 0},
	{"cancel_send_away", 2, send_away, "sends to one who is away", 0},
	{"cancel_send_posted_later", 2, send_posted_later, "its receive comes after that", 0},
	{"cancel_send_racing", 2, send_racing, "sends while they are received", 0},
};

const struct t_group group_cancel = T_GROUP("cancel", cases);
