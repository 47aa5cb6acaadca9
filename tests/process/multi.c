/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * multi.c: FI_MULTI_RECV: one posted buffer takes several messages, packed in
 * order, and is released (flagged FI_MULTI_RECV, with the last message or alone)
 * when less than FI_OPT_MIN_MULTI_RECV bytes are left.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

struct taken {
	struct t_buf buf;
	struct t_op op;
	uint64_t next;	  /* the seed that the next message must have */
	uint64_t *shared; /* if set: the next seed, counted over several buffers */
	uint64_t count;
	size_t used; /* end of the last message, from the buffer's start */
	size_t bytes;
	bool released;
	const size_t *lens; /* lens[seed % nlens] is a message's length */
	size_t nlens;
};

static void take(struct t_op *op, const struct t_comp *c)
{
	struct taken *t = op->arg;

	T_CHECK(!op->c.err, "error %d (%s)", op->c.err, fi_strerror(op->c.err));
	T_CHECK(!t->released, "a completion after the buffer's release");
	if (c->flags & FI_RECV) {
		unsigned char *p = c->buf;
		uint64_t seed = t->shared ? (*t->shared)++ : t->next++;
		size_t len = t->lens[seed % t->nlens];

		T_EQ(c->len, len);
		if (len || t_beeline) { /* some name no place for an empty message */
			T_CHECK(p >= t->buf.p + t->used && p + len <= t->buf.p + t->buf.len,
				"message at offset %td of %zu, after %zu bytes in use",
				p - t->buf.p, t->buf.len, t->used);
			T_SAME(p, len, seed, 0);
			t->used = (size_t)(p - t->buf.p) + len;
		}
		t->bytes += len;
		t->count++;
	}
	if (c->flags & FI_MULTI_RECV)
		t->released = true;
	else
		T_CHECK(c->flags & FI_RECV, "flags 0x%llx", (unsigned long long)c->flags);
}

static void post(struct t_node *n, struct taken *t, size_t size, const size_t *lens, size_t nlens)
{
	struct iovec iov;
	struct fi_msg m = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &t->op};

	*t = (struct taken){.buf = t_buf(size, 0), .lens = lens, .nlens = nlens};
	t->op.each = take;
	t->op.arg = t;
	iov = (struct iovec){t->buf.p, size};
	T_TRY(fi_recvmsg(n->ep, &m, FI_MULTI_RECV | FI_COMPLETION));
}

static void send_one(struct t_node *n, uint64_t seed, size_t len)
{
	struct t_buf b = t_buf(len, seed);
	struct t_op op = {0};

	t_fill(b.p, len, seed, 0);
	T_TRY(fi_send(n->ep, b.p, len, NULL, n->peer[1], &op));
	T_WAIT(&op);
	t_buf_free(&b);
}

/* One buffer, messages until it is released; min_multi_recv is respected. */
static void consume(size_t size, size_t min, const size_t *lens, size_t nlens, bool unexpected)
{
	struct t_opts o = {.caps = FI_MULTI_RECV, .min_multi_recv = min};
	struct t_node n;
	size_t got = 0, len = sizeof(got);
	struct taken *t = calloc(2, sizeof(*t));
	uint64_t seed = 0, next = 0;
	char more = 1, any[T_PROC_MAX];

	t_start(&n, &o);
	T_OK(fi_getopt(&n.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &got, &len));
	T_EQ(got, min);
	if (t_rank == 1 && !unexpected)
		post(&n, &t[0], size, lens, nlens);
	t_barrier();
	/* A message at a time until rank 1 says that its buffer is gone. */
	for (;;) {
		if (t_rank == 0) {
			send_one(&n, seed, lens[seed % nlens]);
			if (unexpected && !seed)
				t_mark(&n, 1, 0);
		} else {
			if (unexpected && !seed) {
				t_wait_mark(&n, 0, 0);
				post(&n, &t[0], size, lens, nlens);
			}
			while (t[0].count <= seed)
				t_idle();
			/* A release that comes alone comes before the next message. */
			more = !(t[0].released || size - t[0].used < min);
			while (!more && !t[0].released)
				t_idle();
			if (more)
				T_CHECK(!t[0].released, "released with %zu bytes left",
					size - t[0].used);
		}
		seed++;
		t_allgather(&more, 1, any, t_progress);
		if (!any[1])
			break;
	}
	/* The next messages go to the next buffer. */
	if (t_rank == 1) {
		T_CHECK(t[0].released, "not released with %zu bytes left", size - t[0].used);
		next = seed;
		post(&n, &t[1], size, lens, nlens);
		t[1].next = next;
	}
	if (t_rank == 0)
		send_one(&n, seed, lens[seed % nlens]);
	else
		while (!t[1].count)
			t_idle();
	t_barrier();
	if (t_rank == 1) {
		T_OK(fi_cancel(&n.ep->fid, &t[1].op));
		t_buf_free(&t[0].buf);
		t[1].op.each = NULL; /* the cancelled rest: released or an error, as provided */
	}
	t_finish(&n);
	if (t_rank == 1)
		t_buf_free(&t[1].buf);
	free(t);
}

static const size_t small[] = {1, 8, 40, 64, 100, 288, 0, 333};
static const size_t mixed[] = {8, 5000, 70000, 41, 20000, 0, 300000, 16384};

static void consume_small(void)
{
	consume(8192, 1024, small, 8, false);
}

static void consume_mixed(void)
{
	consume(4 << 20, 300000, mixed, 8, false);
}

static void consume_unexpected(void)
{
	consume(8192, 1024, small, 8, true);
}

/* Several buffers posted: they fill one after the other, in post order, and no
 * message is lost while one takes over from the other. */
static void several(void)
{
	enum { BUFS = 6, N = 1500 };
	struct t_opts o = {.caps = FI_MULTI_RECV, .min_multi_recv = 400};
	struct t_node n;
	struct taken *t = calloc(BUFS, sizeof(*t));
	uint64_t seed = 0;

	t_start(&n, &o);
	if (t_rank == 1) {
		int live = 0;

		for (int i = 0; i < BUFS; i++) {
			post(&n, &t[i], 8192, small, 8);
			t[i].shared = &seed;
		}
		t_barrier();
		while (seed < N) {
			t_idle();
			/* A released buffer is checked and posted again. */
			if (t[live].released) {
				t_buf_free(&t[live].buf);
				post(&n, &t[live], 8192, small, 8);
				t[live].shared = &seed;
				live = (live + 1) % BUFS;
			}
		}
		T_EQ(seed, N);
	} else {
		struct t_op *op = calloc(N, sizeof(*op));
		struct t_buf *b = calloc(N, sizeof(*b));

		t_barrier();
		for (uint64_t i = 0; i < N; i++) {
			size_t len = small[i % 8];

			b[i] = t_buf(len, i);
			t_fill(b[i].p, len, i, 0);
			T_TRY(fi_send(n.ep, b[i].p, len, NULL, n.peer[1], &op[i]));
		}
		for (uint64_t i = 0; i < N; i++) {
			T_WAIT(&op[i]);
			t_buf_free(&b[i]);
		}
		free(op);
		free(b);
	}
	t_barrier();
	t_close(&n);
	if (t_rank == 1)
		for (int i = 0; i < BUFS; i++)
			t_buf_free(&t[i].buf);
	free(t);
}

/* Large messages into one buffer, all under way at once. */
static void large_at_once(void)
{
	enum { N = 8 };
	static const size_t lens[] = {200000, 70001, 500003, 33000, 1000000, 65536, 99999, 150000};
	struct t_opts o = {.caps = FI_MULTI_RECV, .min_multi_recv = 64};
	struct t_node n;

	t_start(&n, &o);
	if (t_rank == 1) {
		struct taken t;
		static bool seen[N];

		post(&n, &t, 4 << 20, lens, N);
		t.op.each = NULL;
		t_barrier();
		/* Completions of large messages may come in another order than the messages. */
		for (int i = 0; i < N; i++) {
			unsigned int before = t.op.done;
			int which = 0;

			n.o.batch_one = true;
			while (t.op.done == before)
				t_idle();
			T_EQ(t.op.done, before + 1);
			T_EQ(t.op.c.err, 0);
			while (which < N && (lens[which] != t.op.c.len || seen[which]))
				which++;
			T_CHECK(which < N, "length %zu", t.op.c.len);
			seen[which] = true;
			T_SAME(t.op.c.buf, t.op.c.len, (uint64_t)which, 0);
		}
		t_barrier();
		t_close(&n);
		t_buf_free(&t.buf);
		return;
	}
	struct t_op op[N] = {0};
	struct t_buf b[N];

	t_barrier();
	for (int i = 0; i < N; i++) {
		b[i] = t_buf(lens[i], 0);
		t_fill(b[i].p, lens[i], (uint64_t)i, 0);
		T_TRY(fi_send(n.ep, b[i].p, lens[i], NULL, n.peer[1], &op[i]));
	}
	for (int i = 0; i < N; i++) {
		T_WAIT(&op[i]);
		t_buf_free(&b[i]);
	}
	t_finish(&n);
}

/* Tagged receives go on beside a multi-receive buffer. */
static void beside_tagged(void)
{
	enum { N = 100 };
	struct t_opts o = {.caps = FI_MULTI_RECV, .min_multi_recv = 64};
	struct t_node n;

	t_start(&n, &o);
	if (t_rank == 1) {
		struct taken t;

		post(&n, &t, 1 << 20, small, 8);
		t_barrier();
		for (uint64_t i = 0; i < N; i++) {
			struct t_op op = {0};
			uint64_t v = 0;

			t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, i, 0, &op);
			T_WAIT(&op);
			T_EQ(v, i);
		}
		while (t.count < N)
			t_idle();
		T_EQ(t.count, N);
		t_barrier();
		t_close(&n);
		t_buf_free(&t.buf);
		return;
	}
	t_barrier();
	for (uint64_t i = 0; i < N; i++) {
		T_TRY(fi_tinject(n.ep, &i, 8, n.peer[1], i));
		send_one(&n, i, small[i % 8]);
	}
	t_finish(&n);
}

/* Under selective completion the release is reported all the same. */
static void selective_release(void)
{
	struct t_opts o = {.caps = FI_MULTI_RECV, .min_multi_recv = 1000, .selective = FI_RECV};
	struct t_node n;

	t_start(&n, &o);
	if (t_rank == 1) {
		struct t_buf b = t_buf(3000, 0);
		struct iovec iov = {b.p, 3000};
		struct t_op op = {0};
		struct fi_msg m = {
			.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &op};

		T_TRY(fi_recvmsg(n.ep, &m, FI_MULTI_RECV));
		t_barrier();
		T_WAIT(&op);
		T_CHECK(op.c.flags & FI_MULTI_RECV, "flags 0x%llx", (unsigned long long)op.c.flags);
		T_EQ(op.done, 1);
		t_barrier();
		t_close(&n);
		t_buf_free(&b);
		return;
	}
	t_barrier();
	for (uint64_t i = 0; i < 3; i++)
		send_one(&n, i, 800);
	t_finish(&n);
}

/*
 * A large message is still on its way when a short one uses up the buffer: it is
 * not released before the large one is complete. Through the ring, so that the
 * sender, which does nothing meanwhile, holds the large one up.
 */
static void release_last(void)
{
	enum { LARGE = 1 << 20, SHORT = 100, LEAST = 4096 };
	struct t_opts o = {.caps = FI_MULTI_RECV, .min_multi_recv = LEAST};
	struct t_op op[2] = {0};
	struct t_buf b;
	struct t_node n;
	char nothing = 0, all[T_PROC_MAX];

	setenv("FI_BEELINE_COPY", "ring", 1);
	t_start(&n, &o);
	b = t_buf(LARGE + LEAST, 0);
	if (t_rank == 1) {
		struct iovec iov = {b.p, b.len};
		struct fi_msg m = {
			.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &op[0]};

		t_blank(&b);
		T_TRY(fi_recvmsg(n.ep, &m, FI_MULTI_RECV));
		t_barrier();
		while (!op[0].done)
			t_idle();
		T_EQ(op[0].done, 1);
		if (t_beeline) {
			T_EQ(op[0].c.len, SHORT);
			T_CHECK(!(op[0].c.flags & FI_MULTI_RECV), "released too early");
		}
		t_allgather(&nothing, 1, all, NULL); /* the sender may go on */
		while (!(op[0].c.flags & FI_MULTI_RECV))
			t_idle();
		T_SAME(b.p, LARGE, 0, 0);
	} else {
		t_fill(b.p, LARGE, 0, 0);
		t_fill(b.p + LARGE, SHORT, 1, 0);
		t_mark(&n, 1, 0); /* there is a connection */
		t_barrier();
		T_TRY(fi_send(n.ep, b.p, LARGE, NULL, n.peer[1], &op[0]));
		T_TRY(fi_send(n.ep, b.p + LARGE, SHORT, NULL, n.peer[1], &op[1]));
		t_allgather(&nothing, 1, all, t_beeline ? NULL : t_progress);
		T_WAIT(&op[0]);
		T_WAIT(&op[1]);
	}
	t_finish(&n);
	t_buf_free(&b);
}

/* No minimum: a buffer is released when it is full, and the next message goes to the next. */
static void no_minimum(void)
{
	enum { EACH = 64, N = 3 };
	static const size_t lens[] = {EACH};
	struct taken *t = calloc(2, sizeof(*t));
	size_t none = 0;
	struct t_node n;

	if (!t_beeline)
		t_skip("others may begin messages elsewhere");
	t_start(&n, &(struct t_opts){.caps = FI_MULTI_RECV});
	T_OK(fi_setopt(&n.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &none, sizeof(none)));
	if (t_rank == 1) {
		for (int i = 0; i < 2; i++)
			post(&n, &t[i], N * EACH, lens, 1);
		t[1].next = N;
	}
	t_barrier();
	if (t_rank == 0) {
		for (uint64_t i = 0; i < N + 1; i++)
			send_one(&n, i, EACH);
	} else {
		while (t[0].count + t[1].count < N + 1)
			t_idle();
		T_CHECK(t[0].released, "a full buffer isn't released");
		T_CHECK(!t[1].released, "one with room left is");
	}
	t_barrier();
	t_close(&n);
	for (int i = 0; t_rank == 1 && i < 2; i++)
		t_buf_free(&t[i].buf);
	free(t);
}

/*
 * What came before its buffer was posted is in there, and its sender has gone: the call hasn't
 * failed, since something has been received, but the rest of the buffer ends with the reason.
 */
static void early_and_gone(void)
{
	const struct t_opts o = {.caps = FI_MULTI_RECV | FI_DIRECTED_RECV};
	struct t_buf b = t_buf(4096, 0);
	struct iovec iov = {b.p, b.len};
	struct t_op op = {0}, sent = {0};
	struct t_node n;

	t_start(&n, &o);
	if (t_rank == 1) {
		T_TRY(fi_send(n.ep, b.p, 64, NULL, n.peer[0], &sent));
		T_WAIT(&sent);
		t_mark(&n, 0, 1);
		t_barrier();
		t_close(&n);
		t_barrier_with(NULL);
		t_buf_free(&b);
		return;
	}
	t_wait_mark(&n, 1, 1);
	t_barrier();
	t_barrier_with(NULL);
	while (fi_tinject(n.ep, NULL, 0, n.peer[1], 1) != -FI_ENOTCONN) /* until we know it */
		t_progress();

	const struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = n.peer[1], .context = &op};

	T_OK(fi_recvmsg(n.ep, &msg, FI_MULTI_RECV | FI_COMPLETION));
	while (op.done < 2)
		t_idle();
	T_EQ(op.c.err, FI_ENOTCONN);
	T_CHECK(op.c.flags & FI_MULTI_RECV, "the buffer isn't released");
	T_EQ(fi_recvmsg(n.ep, &msg, FI_MULTI_RECV | FI_COMPLETION), -FI_ENOTCONN);
	t_close(&n);
	t_buf_free(&b);
}

static const struct t_case cases[] = {
	{"multi_small", 2, consume_small, "released at the minimum, not before", 0},
	{"multi_mixed", 2, consume_mixed, "every protocol into one buffer", 0},
	{"multi_unexpected", 2, consume_unexpected, "messages came first", 0},
	{"multi_several", 2, several, "six buffers in turn, 1,500 messages", 0},
	{"multi_large_at_once", 2, large_at_once, "several rendezvous into one buffer", 0},
	{"multi_beside_tagged", 2, beside_tagged, "tagged receives beside it", 0},
	{"multi_release_last", 2, release_last, "not before the last copy into it", 0},
	{"multi_no_minimum", 2, no_minimum, "full is full", 0},
	{"multi_selective", 2, selective_release, "the release is never suppressed", 0},
	{"multi_early_and_gone", 2, early_and_gone, "a call that fails has received nothing", 0},
};

const struct t_group group_multi = T_GROUP("multi", cases);
