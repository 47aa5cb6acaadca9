/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cq.c: what completions say: every format, source, remote data, selective
 * completion, errors among successes, and counters.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#define LARGE 200000

/* One small and one large message of each kind, checked field by field. */
static void format(enum fi_cq_format fmt)
{
	static const size_t lens[] = {16, 3000, LARGE};
	struct t_opts o = {.format = fmt, .caps = FI_SOURCE};
	struct t_node n;

	t_start(&n, &o);
	for (int i = 0; i < 6; i++) {
		size_t len = lens[i / 2];
		bool tagged = i & 1;
		uint64_t kind = tagged ? FI_TAGGED : FI_MSG;
		uint64_t way = t_rank ? FI_RECV : FI_SEND;
		struct t_buf b = t_buf(len, 3);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, len, (uint64_t)i, 0);
			if (tagged)
				t_tsend(&n, 1, b.p, len, 0xabc, &op);
			else
				T_TRY(fi_send(n.ep, b.p, len, NULL, n.peer[1], &op));
		} else if (tagged) {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, len + 0, 0xab0, 0xf, &op);
		} else {
			T_TRY(fi_recv(n.ep, b.p, len, NULL, FI_ADDR_UNSPEC, &op));
		}
		T_WAIT(&op);
		T_EQ(op.done, 1);
		if (fmt != FI_CQ_FORMAT_CONTEXT) {
			T_CHECK((op.c.flags & (kind | way)) == (kind | way),
				"flags 0x%llx, without 0x%llx", (unsigned long long)op.c.flags,
				(unsigned long long)(kind | way));
			T_CHECK(!(op.c.flags & FI_REMOTE_CQ_DATA), "no data was sent");
			if (t_rank == 1)
				T_EQ(op.c.len, len);
		} else {
			T_CHECK(op.c.flags == T_ABSENT && op.c.len == T_ABSENT, "format");
		}
		if (t_rank == 1) {
			T_EQ(op.c.src, n.peer[0]);
			T_GOT(&b, len, (uint64_t)i);
			if (fmt == FI_CQ_FORMAT_TAGGED && tagged)
				T_EQ(op.c.tag, 0xabc);
		}
		if (fmt != FI_CQ_FORMAT_TAGGED)
			T_EQ(op.c.tag, T_ABSENT);
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void format_context(void)
{
	format(FI_CQ_FORMAT_CONTEXT);
}

static void format_msg(void)
{
	format(FI_CQ_FORMAT_MSG);
}

static void format_data(void)
{
	format(FI_CQ_FORMAT_DATA);
}

static void format_tagged(void)
{
	format(FI_CQ_FORMAT_TAGGED);
}

/* Remote data comes with the message, whatever its length, and is marked; a
 * message without data is not marked. */
static void remote_data(enum fi_cq_format fmt)
{
	static const size_t lens[] = {0, 8, 100, 5000, LARGE};
	struct t_opts o = {.cq_data = true, .format = fmt};
	struct t_node n;

	t_start(&n, &o);
	for (uint64_t i = 0; i < 5 * 4; i++) {
		size_t len = lens[i / 4];
		bool tagged = i & 1, with = i & 2;
		uint64_t data = ~(i << 56 | i);
		struct t_buf b = t_buf(len, 0);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			if (tagged && with)
				T_TRY(fi_tsenddata(n.ep, b.p, len, NULL, data, n.peer[1], i, &op));
			else if (tagged)
				t_tsend(&n, 1, b.p, len, i, &op);
			else if (with)
				T_TRY(fi_senddata(n.ep, b.p, len, NULL, data, n.peer[1], &op));
			else
				T_TRY(fi_send(n.ep, b.p, len, NULL, n.peer[1], &op));
		} else if (tagged) {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, i, 0, &op);
		} else {
			T_TRY(fi_recv(n.ep, b.p, len, NULL, FI_ADDR_UNSPEC, &op));
		}
		T_WAIT(&op);
		if (t_rank == 1) {
			T_GOT(&b, len, i);
			if (with) {
				T_CHECK(op.c.flags & FI_REMOTE_CQ_DATA, "no FI_REMOTE_CQ_DATA");
				if (fmt != FI_CQ_FORMAT_MSG)
					T_EQ(op.c.data, data);
			} else {
				T_CHECK(!(op.c.flags & FI_REMOTE_CQ_DATA), "FI_REMOTE_CQ_DATA");
			}
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void data_tagged_format(void)
{
	remote_data(FI_CQ_FORMAT_TAGGED);
}

static void data_data_format(void)
{
	remote_data(FI_CQ_FORMAT_DATA);
}

static void data_msg_format(void)
{
	remote_data(FI_CQ_FORMAT_MSG);
}

/* Only what asks for FI_COMPLETION completes; a later one that does shows that the
 * earlier ones did not. */
static void selective(void)
{
	struct t_opts o = {.selective = FI_SEND | FI_RECV};
	struct t_node n;
	static const size_t lens[] = {8, 2000, LARGE};
	struct t_buf b[6];
	struct t_op op[6] = {0};

	t_start(&n, &o);
	for (int i = 0; i < 6; i++) {
		size_t len = lens[i / 2];
		struct iovec iov;
		struct fi_msg_tagged m = {
			.msg_iov = &iov, .iov_count = 1, .tag = (uint64_t)i, .context = &op[i]};
		uint64_t flags = i & 1 ? FI_COMPLETION : 0;

		b[i] = t_buf(len, 1);
		iov = (struct iovec){b[i].p, len};
		if (t_rank == 0) {
			t_fill(b[i].p, len, (uint64_t)i, 0);
			m.addr = n.peer[1];
			T_TRY(fi_tsendmsg(n.ep, &m, flags));
		} else {
			m.addr = FI_ADDR_UNSPEC;
			T_TRY(fi_trecvmsg(n.ep, &m, flags));
		}
		if (flags)
			T_WAIT(&op[i]);
	}
	/* Plain calls do not ask. */
	if (t_rank == 0) {
		uint64_t v = 5;
		struct t_op plain = {0};

		t_tsend(&n, 1, &v, 8, 100, &plain);
		t_mark(&n, 1, 0);
		t_barrier();
		T_EQ(plain.done, 0);
	} else {
		uint64_t got = 0;
		struct t_op plain = {0};

		t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 100, 0, &plain);
		t_wait_mark(&n, 0, 0);
		T_EQ(got, 5);
		T_EQ(plain.done, 0);
		t_barrier();
	}
	for (int i = 0; i < 6; i++) {
		T_EQ(op[i].done, i & 1);
		if (t_rank == 1)
			T_GOT(&b[i], lens[i / 2], (uint64_t)i);
		t_buf_free(&b[i]);
	}
	t_finish(&n);
}

/* FI_SELECTIVE_COMPLETION with FI_COMPLETION as the endpoint's default: plain calls
 * complete, fi_tsendmsg without the flag does not. */
static void selective_default(void)
{
	struct t_opts o = {.selective = FI_SEND | FI_RECV,
			   .tx_flags = FI_COMPLETION,
			   .rx_flags = FI_COMPLETION};
	struct t_node n;
	uint64_t v[2] = {1, 2};
	struct t_op op[2] = {0};
	struct iovec iov = {&v[1], 8};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .tag = 1, .context = &op[1]};

	t_start(&n, &o);
	if (t_rank == 0) {
		m.addr = n.peer[1];
		T_TRY(fi_tsendmsg(n.ep, &m, 0));
		t_tsend(&n, 1, &v[0], 8, 0, &op[0]);
	} else {
		m.addr = FI_ADDR_UNSPEC;
		T_TRY(fi_trecvmsg(n.ep, &m, 0));
		t_trecv(&n, FI_ADDR_UNSPEC, &v[0], 8, 0, 0, &op[0]);
	}
	T_WAIT(&op[0]);
	t_barrier();
	T_EQ(op[1].done, 0);
	t_finish(&n);
}

/* A failure completes even when no completion was asked for. */
static void selective_error(void)
{
	struct t_opts o = {.selective = FI_SEND | FI_RECV};
	struct t_node n;
	uint64_t v[2] = {1, 2};
	struct t_op op = {0};

	t_start(&n, &o);
	if (t_rank == 0) {
		T_TRY(fi_tinject(n.ep, v, 16, n.peer[1], 1));
	} else {
		t_trecv(&n, FI_ADDR_UNSPEC, v, 8, 1, 0, &op);
		T_WAIT_ERR(&op, FI_ETRUNC);
	}
	t_finish(&n);
}

/* Sends complete on their own queue, receives on theirs. */
static void two_queues(void)
{
	struct t_opts o = {.two_cqs = true};
	struct t_node n;
	uint64_t v = 3, got = 0;
	struct t_op tx = {0}, rx = {0};
	struct fi_cq_tagged_entry e;
	ssize_t rc;
	int other = 1 - t_rank;

	t_start(&n, &o);
	n.watched = false;
	t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 1, 0, &rx);
	while ((rc = fi_tsend(n.ep, &v, 8, NULL, n.peer[other], 1, &tx)) == -FI_EAGAIN)
		T_CHECK(fi_cq_read(n.cq, &e, 0) <= 0 && fi_cq_read(n.txcq, &e, 0) <= 0,
			"a read of nothing returned something");
	T_EQ(rc, 0);
	while ((rc = fi_cq_read(n.txcq, &e, 1)) == -FI_EAGAIN)
		fi_cq_read(n.cq, NULL, 0);
	T_EQ(rc, 1);
	T_CHECK(e.op_context == &tx && e.flags & FI_SEND, "not the send on the queue of sends");
	while ((rc = fi_cq_read(n.cq, &e, 1)) == -FI_EAGAIN)
		fi_cq_read(n.txcq, NULL, 0);
	T_EQ(rc, 1);
	T_CHECK(e.op_context == &rx && e.flags & FI_RECV, "not the receive");
	T_CHECK(fi_cq_read(n.txcq, &e, 1) == -FI_EAGAIN, "the queue of sends isn't empty");
	n.watched = true;
	t_finish(&n);
}

/* Errors in between are found in their place, none is lost, none repeats. */
static void errors_between(void)
{
	enum { N = 60 };
	struct t_node n;
	uint64_t v[2] = {7, 7}, got[N][2];
	struct t_op *op = calloc(N, sizeof(*op));

	t_start(&n, NULL);
	if (t_rank == 1)
		for (int i = 0; i < N; i++)
			t_trecv(&n, FI_ADDR_UNSPEC, got[i], i % 3 ? 16 : 8, (uint64_t)i, 0, &op[i]);
	t_barrier();
	if (t_rank == 0)
		for (int i = 0; i < N; i++)
			T_TRY(fi_tinject(n.ep, v, 16, n.peer[1], (uint64_t)i));
	else
		for (int i = 0; i < N; i++) {
			if (i % 3)
				T_WAIT(&op[i]);
			else
				T_WAIT_ERR(&op[i], FI_ETRUNC);
		}
	t_barrier();
	for (int i = 0; i < N; i++)
		T_EQ(op[i].done, t_rank == 1);
	free(op);
	t_finish(&n);
}

/* A waiting read of nothing ends when there is something, and leaves it there. */
static void sread_of_nothing(void)
{
	struct t_opts o = {.wait = FI_WAIT_UNSPEC};
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	struct fi_context2 ctx;
	struct t_node n;
	uint64_t v = 4;

	t_start(&n, &o);
	T_EQ(fi_cq_sread(n.cq, NULL, 0, NULL, 1), -FI_EAGAIN);
	T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx));
	T_TRY(fi_tinject(n.ep, &v, 8, n.peer[0], 1));
	T_EQ(fi_cq_sread(n.cq, NULL, 0, NULL, -1), 0);
	T_EQ(fi_cq_read(n.cq, &e, 1), 1);
	T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx));
	T_OK(fi_cancel(&n.ep->fid, &ctx));
	T_EQ(fi_cq_sread(n.cq, NULL, 0, NULL, -1), -FI_EAVAIL);
	T_EQ(fi_cq_readerr(n.cq, &err, 0), 1);
	t_finish(&n);
}

static void readerr_of_nothing(void)
{
	struct t_node n;
	struct fi_cq_err_entry e = {0};
	char text[100] = "";

	t_start(&n, NULL);
	T_CHECK(fi_cq_readerr(n.cq, &e, 0) == -FI_EAGAIN, "fi_cq_readerr of no error");
	T_CHECK(fi_cq_read(n.cq, &e, 0) <= 0, "fi_cq_read of no entries");
	T_CHECK(fi_cq_strerror(n.cq, FI_ETRUNC, NULL, text, sizeof(text)), "fi_cq_strerror");
	t_finish(&n);
}

/* More completions wait than the queue was opened for, and than one read takes. */
static void many_waiting(void)
{
	enum { N = 900 };
	struct t_node n;
	uint64_t v = 1, got[1];
	struct t_op *op = calloc(N, sizeof(*op));

	t_start(&n, &(struct t_opts){.batch_one = t_rank == 1});
	if (t_rank == 1) {
		for (int i = 0; i < N; i++)
			t_trecv(&n, FI_ADDR_UNSPEC, got, 8, 1, 0, &op[i]);
		t_barrier();
		n.watched = false;
		t_barrier();
		n.watched = true;
		for (int i = 0; i < N; i++) {
			T_WAIT(&op[i]);
			T_CHECK(!i || op[i].c.order > op[i - 1].c.order, "completion %d came early",
				i);
		}
	} else {
		t_barrier();
		for (int i = 0; i < N; i++) {
			ssize_t rc;

			/* The receiver does not read now: what doesn't fit has to wait. */
			rc = fi_tinject(n.ep, &v, 8, n.peer[1], 1);
			if (rc == -FI_EAGAIN) {
				t_barrier();
				for (; i < N; i++)
					T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 1));
				goto out;
			}
			T_EQ(rc, 0);
		}
		t_barrier();
	}
out:
	t_finish(&n);
	free(op);
}

static uint64_t wait_counter(struct fid_cntr *cntr, uint64_t value)
{
	uint64_t now;

	while ((now = fi_cntr_read(cntr)) < value)
		t_idle();
	return now;
}

static void counters(void)
{
	enum { N = 20 };
	static const size_t lens[] = {0, 64, 4000, LARGE};
	struct t_opts o = {.counters = true};
	struct t_node n;
	struct t_op *op = calloc(N, sizeof(*op));
	struct t_buf b[N];

	t_start(&n, &o);
	T_EQ(fi_cntr_read(n.txcntr), 0);
	T_EQ(fi_cntr_read(n.rxcntr), 0);
	for (int i = 0; i < N; i++) {
		size_t len = lens[i % 4];

		b[i] = t_buf(len, 0);
		if (t_rank == 0) {
			t_fill(b[i].p, len, (uint64_t)i, 0);
			t_tsend(&n, 1, b[i].p, len, (uint64_t)i, &op[i]);
		} else {
			t_trecv(&n, FI_ADDR_UNSPEC, b[i].p, len, (uint64_t)i, 0, &op[i]);
		}
	}
	T_EQ(wait_counter(t_rank ? n.rxcntr : n.txcntr, N), N);
	T_EQ(fi_cntr_read(t_rank ? n.txcntr : n.rxcntr), 0);
	T_EQ(fi_cntr_readerr(n.rxcntr), 0);
	for (int i = 0; i < N; i++) {
		if (t_rank == 1)
			T_GOT(&b[i], lens[i % 4], (uint64_t)i);
		T_WAIT(&op[i]);
		t_buf_free(&b[i]);
	}
	T_OK(fi_cntr_set(n.txcntr, 1000));
	T_EQ(wait_counter(n.txcntr, 1000), 1000);
	T_OK(fi_cntr_add(n.txcntr, 5));
	T_EQ(wait_counter(n.txcntr, 1005), 1005);
	free(op);
	t_finish(&n);
}

/* A counter alone tells of operations that put nothing into the queue. */
static void counters_selective(void)
{
	enum { N = 30 };
	struct t_opts o = {.counters = true, .selective = FI_SEND | FI_RECV};
	struct t_node n;
	uint64_t v = 8, got[N] = {0};
	struct t_op *op = calloc(N, sizeof(*op));

	t_start(&n, &o);
	for (int i = 0; i < N; i++) {
		if (t_rank == 0)
			t_tsend(&n, 1, &v, 8, 1, &op[i]);
		else
			t_trecv(&n, FI_ADDR_UNSPEC, &got[i], 8, 1, 0, &op[i]);
	}
	wait_counter(t_rank ? n.rxcntr : n.txcntr, N);
	for (int i = 0; i < N; i++) {
		T_EQ(op[i].done, 0);
		if (t_rank == 1)
			T_EQ(got[i], 8);
	}
	t_finish(&n);
	free(op);
}

static const struct t_case cases[] = {
	{"cq_format_context", 2, format_context, "entries of 8 bytes", 0},
	{"cq_format_msg", 2, format_msg, "entries of 24 bytes", 0},
	{"cq_format_data", 2, format_data, "entries of 40 bytes", 0},
	{"cq_format_tagged", 2, format_tagged, "entries of 48 bytes", 0},
	{"cq_remote_data", 2, data_tagged_format, "data with and without, every length", 0},
	{"cq_remote_data_data", 2, data_data_format, "the same in the data format", 0},
	{"cq_remote_data_msg", 2, data_msg_format, "the flag alone in the msg format", 0},
	{"cq_selective", 2, selective, "only what asks completes", 0},
	{"cq_selective_default", 2, selective_default, "FI_COMPLETION by default", 0},
	{"cq_selective_error", 2, selective_error, "errors complete unasked", 0},
	{"cq_two_queues", 2, two_queues, "sends and receives apart", 0},
	{"cq_errors_between", 2, errors_between, "errors among successes", 0},
	{"cq_sread_of_nothing", 1, sread_of_nothing, "a waiting read with no room", 0},
	{"cq_readerr_of_nothing", 2, readerr_of_nothing, "no error to read", 0},
	{"cq_many_waiting", 2, many_waiting, "900 completions, read one by one, in order", 0},
	{"cq_counters", 2, counters, "counters of sends and receives", 0},
	{"cq_counters_selective", 2, counters_selective, "counters without completions", 0},
};

const struct t_group group_cq = T_GROUP("cq", cases);
