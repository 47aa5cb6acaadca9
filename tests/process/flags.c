/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * flags.c: inject, whose buffer is free on return, and the flags of sendmsg and
 * recvmsg: FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
 * FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE, FI_REMOTE_CQ_DATA, FI_MORE.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#define LARGE 500000

static const size_t inject_lens[] = {0, 1, 8, 40, 41, 64, 200, 288, 289, 1000, 4096, 8192};

/* What all of them may inject: it is measured, by each process for itself. */
static size_t inject_most(const struct t_node *n)
{
	size_t own = n->info->tx_attr->inject_size, all[T_PROC_MAX], least = own;

	t_allgather(&own, sizeof own, all, t_progress);
	for (int i = 0; i < t_nproc; i++)
		least = all[i] < least ? all[i] : least;
	return least;
}

/* Each buffer is overwritten as soon as the call returns. */
static void inject(bool tagged, bool data)
{
	struct t_opts o = {.cq_data = data};
	struct t_node n;
	size_t most;

	t_start(&n, &o);
	most = inject_most(&n);
	for (uint64_t i = 0; i < sizeof(inject_lens) / sizeof(inject_lens[0]); i++) {
		size_t len = inject_lens[i];
		struct t_buf b = t_buf(len, i);

		if (len > most) {
			t_buf_free(&b);
			break;
		}
		if (t_rank == 0) {
			fi_addr_t to = n.peer[1];

			t_fill(b.p, len, i, 0);
			if (tagged && data)
				T_TRY(fi_tinjectdata(n.ep, b.p, len, ~i, to, i));
			else if (tagged)
				T_TRY(fi_tinject(n.ep, b.p, len, to, i));
			else if (data)
				T_TRY(fi_injectdata(n.ep, b.p, len, ~i, to));
			else
				T_TRY(fi_inject(n.ep, b.p, len, to));
			t_blank(&b);
		} else {
			struct t_op op = {0};

			if (tagged)
				t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, i, 0, &op);
			else
				T_TRY(fi_recv(n.ep, b.p, len, NULL, FI_ADDR_UNSPEC, &op));
			T_WAIT(&op);
			T_EQ(op.c.len, len);
			T_GOT(&b, len, i);
			T_EQ(!!(op.c.flags & FI_REMOTE_CQ_DATA), data);
			if (data)
				T_EQ(op.c.data, ~i);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void inject_tagged(void)
{
	inject(true, false);
}

static void inject_untagged(void)
{
	inject(false, false);
}

static void injectdata_tagged(void)
{
	inject(true, true);
}

static void injectdata_untagged(void)
{
	inject(false, true);
}

/* Injects never complete, even without selective completion: a send after them does,
 * and is the first to. */
static void inject_silent(void)
{
	struct t_node n;
	uint64_t v = 1;
	struct t_op op = {0};

	t_start(&n, NULL);
	if (t_rank == 0) {
		for (int i = 0; i < 10; i++)
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 1));
		t_tsend(&n, 1, &v, 8, 1, &op);
		T_WAIT(&op);
		T_EQ(op.c.order, 1);
	} else {
		for (int i = 0; i < 11; i++) {
			op = (struct t_op){0};
			t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 1, 0, &op);
			T_WAIT(&op);
		}
	}
	t_finish(&n);
}

/* Beyond inject_size the call refuses. fi_msg(3) leaves a provider free to take it
 * all the same; ours says -FI_EMSGSIZE. */
static void inject_too_long(void)
{
	struct t_node n;
	struct t_buf b;

	if (!t_beeline)
		t_skip("what happens then is up to the provider");
	t_start(&n, NULL);
	b = t_buf(n.info->tx_attr->inject_size + 1, 0);
	if (t_rank == 0) {
		ssize_t rc = fi_tinject(n.ep, b.p, b.len, n.peer[1], 1);

		T_CHECK(rc == -FI_EMSGSIZE, "fi_tinject beyond the limit returned %zd", rc);
		rc = fi_inject(n.ep, b.p, b.len, n.peer[1]);
		T_CHECK(rc == -FI_EMSGSIZE, "fi_inject beyond the limit returned %zd", rc);
		t_mark(&n, 1, 0);
	} else {
		t_wait_mark(&n, 0, 0);
	}
	t_buf_free(&b);
	t_finish(&n);
}

/* FI_INJECT with sendmsg: the buffer is free at once, and it completes. */
static void sendmsg_inject(void)
{
	struct t_node n;

	t_start(&n, NULL);
	for (uint64_t i = 0; i < 10; i++) {
		size_t len = i * 7 < n.info->tx_attr->inject_size ? i * 7 : 0;
		struct t_buf b = t_buf(len, i);
		struct t_op op = {0};
		struct iovec iov = {b.p, len};

		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			if (i & 1) {
				struct fi_msg m = {.msg_iov = &iov,
						   .iov_count = 1,
						   .addr = n.peer[1],
						   .context = &op};

				T_TRY(fi_sendmsg(n.ep, &m, FI_INJECT | FI_COMPLETION));
			} else {
				struct fi_msg_tagged m = {.msg_iov = &iov,
							  .iov_count = 1,
							  .addr = n.peer[1],
							  .tag = i,
							  .context = &op};

				T_TRY(fi_tsendmsg(n.ep, &m, FI_INJECT | FI_COMPLETION));
			}
			t_blank(&b);
		} else if (i & 1) {
			T_TRY(fi_recv(n.ep, b.p, len, NULL, FI_ADDR_UNSPEC, &op));
		} else {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, i, 0, &op);
		}
		T_WAIT(&op);
		if (t_rank == 1)
			T_GOT(&b, len, i);
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* Each completion level, each length: the sender overwrites its buffer on completion. */
static void levels(void)
{
	static const uint64_t level[] = {0,
					 FI_INJECT_COMPLETE,
					 FI_TRANSMIT_COMPLETE,
					 FI_DELIVERY_COMPLETE,
					 FI_MATCH_COMPLETE,
					 FI_MORE};
	static const size_t lens[] = {0, 30, 230, 3000, 20000, LARGE};
	struct t_node n;
	uint64_t id = 0;

	t_start(&n, NULL);
	for (size_t l = 0; l < count_of(level); l++) {
		for (int s = 0; s < 6; s++, id++) {
			struct t_buf b = t_buf(lens[s], 2);
			struct iovec iov = {b.p, lens[s]};
			struct t_op op = {0};
			struct fi_msg_tagged m = {
				.msg_iov = &iov, .iov_count = 1, .tag = id, .context = &op};

			if (t_rank == 0) {
				t_fill(b.p, lens[s], id, 0);
				m.addr = n.peer[1];
				T_TRY(fi_tsendmsg(n.ep, &m, level[l] | FI_COMPLETION));
				T_WAIT(&op);
				t_blank(&b);
			} else {
				m.addr = FI_ADDR_UNSPEC;
				T_TRY(fi_trecvmsg(n.ep, &m, FI_COMPLETION));
				T_WAIT(&op);
				T_GOT(&b, lens[s], id);
			}
			t_buf_free(&b);
		}
	}
	t_finish(&n);
}

/* FI_DELIVERY_COMPLETE into a posted receive: when the send completes the data is in
 * the receiver's buffer. Nothing is posted for what comes second: the completion
 * must then not wait for ever once the receiver takes it. */
static void delivery_by(uint64_t level)
{
	static const size_t lens[] = {8, 300, 5000, 20000, LARGE};
	struct t_node n;

	t_start(&n, NULL);
	for (uint64_t i = 0; i < count_of(lens); i++) {
		struct t_buf b = t_buf(lens[i], 2);
		struct iovec iov = {b.p, lens[i]};
		struct t_op op = {0};
		struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .context = &op};

		if (t_rank == 0) {
			t_barrier();
			t_fill(b.p, lens[i], i, 0);
			m.addr = n.peer[1];
			m.tag = i;
			T_TRY(fi_tsendmsg(n.ep, &m, level | FI_COMPLETION));
			T_WAIT(&op);
			t_barrier();
		} else {
			m.addr = FI_ADDR_UNSPEC;
			m.tag = i;
			T_TRY(fi_trecvmsg(n.ep, &m, FI_COMPLETION));
			t_barrier();
			t_barrier(); /* the sender's operation has completed */
			T_GOT(&b, lens[i], i);
			T_WAIT(&op);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void delivery(void)
{
	delivery_by(FI_DELIVERY_COMPLETE);
}

/* One that is matched by a receive of that length is in its buffer as well. */
static void match(void)
{
	delivery_by(FI_MATCH_COMPLETE);
}

/* FI_REMOTE_CQ_DATA through sendmsg. */
static void sendmsg_data(void)
{
	static const size_t lens[] = {8, 300, LARGE};
	struct t_opts o = {.cq_data = true};
	struct t_node n;

	t_start(&n, &o);
	for (uint64_t i = 0; i < 3; i++) {
		struct t_buf b = t_buf(lens[i], 2);
		struct iovec iov = {b.p, lens[i]};
		struct t_op op = {0};

		if (t_rank == 0) {
			struct fi_msg m = {.msg_iov = &iov,
					   .iov_count = 1,
					   .addr = n.peer[1],
					   .context = &op,
					   .data = 0xfeedfacecafe0000 + i};

			t_fill(b.p, lens[i], i, 0);
			T_TRY(fi_sendmsg(n.ep, &m, FI_REMOTE_CQ_DATA | FI_COMPLETION));
		} else {
			struct fi_msg m = {.msg_iov = &iov,
					   .iov_count = 1,
					   .addr = FI_ADDR_UNSPEC,
					   .context = &op};

			/* It says nothing about a receive. */
			T_TRY(fi_recvmsg(n.ep, &m, (i ? FI_REMOTE_CQ_DATA : 0) | FI_COMPLETION));
		}
		T_WAIT(&op);
		if (t_rank == 1) {
			T_GOT(&b, lens[i], i);
			T_CHECK(op.c.flags & FI_REMOTE_CQ_DATA, "no FI_REMOTE_CQ_DATA");
			T_EQ(op.c.data, 0xfeedfacecafe0000 + i);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* Default flags of the endpoint hold for the plain calls. */
static void default_flags(void)
{
	struct t_opts o = {.tx_flags = FI_DELIVERY_COMPLETE};
	struct t_node n;
	struct t_buf b = t_buf(LARGE, 0);
	struct t_op op = {0};

	t_start(&n, &o);
	if (t_rank == 0) {
		t_barrier();
		t_fill(b.p, LARGE, 9, 0);
		t_tsend(&n, 1, b.p, LARGE, 9, &op);
		T_WAIT(&op);
		t_barrier();
	} else {
		t_trecv(&n, FI_ADDR_UNSPEC, b.p, LARGE, 9, 0, &op);
		t_barrier();
		t_barrier();
		T_GOT(&b, LARGE, 9);
		T_WAIT(&op);
	}
	t_buf_free(&b);
	t_finish(&n);
}

/* Rank 1 receives message `tag` at last; both end. */
static void finish(struct t_node *n, struct t_buf *b, size_t len, uint64_t tag, struct t_op *op)
{
	if (t_rank == 1)
		t_trecv(n, FI_ADDR_UNSPEC, b->p, len, tag, 0, op);
	T_WAIT(op);
	if (t_rank == 1)
		T_GOT(b, len, tag);
	t_buf_free(b);
}

/* One that nobody has received yet, short or long, is over for its sender: not if it is to hear of
 * the delivery, by the flags that the endpoint was opened with, by the call's own or by those set
 * since. */
static void default_of(uint64_t level, bool told)
{
	static const size_t lens[] = {8, 300, 4000}; /* eager wherever we are */
	enum { AS_OPENED, BY_CALL, SET, WAYS };
	static const char *const by[WAYS] = {"as opened", "by the call's flags", "by flags set"};
	struct t_opts o = {.tx_flags = level};
	uint64_t flags = FI_SEND;
	struct t_node n;

	t_start(&n, &o);
	T_TRY(fi_control(&n.ep->fid, FI_GETOPSFLAG, &flags));
	T_CHECK(flags & level, "its flags aren't those that it was opened with");
	for (uint64_t i = 0; i < WAYS * count_of(lens); i++) {
		size_t len = lens[i % count_of(lens)];
		uint64_t way = i / count_of(lens);
		struct t_buf b = t_buf(len, i);
		struct iovec iov = {b.p, len};
		struct t_op op = {0};
		struct fi_msg_tagged m = {
			.msg_iov = &iov, .iov_count = 1, .tag = i, .context = &op};

		t_at("%zu bytes, %s", len, by[way]);
		flags = FI_SEND | level;
		if (way == SET)
			T_TRY(fi_control(&n.ep->fid, FI_SETOPSFLAG, &flags));
		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			m.addr = n.peer[1];
			if (way == BY_CALL)
				T_TRY(fi_tsendmsg(n.ep, &m, level | FI_COMPLETION));
			else
				t_tsend(&n, 1, b.p, len, i, &op);
			for (int k = 0; k < 1000; k++)
				t_progress();
			T_EQ(op.done, way == AS_OPENED && !told);
		}
		t_barrier();
		finish(&n, &b, len, i, &op);
	}
	t_finish(&n);
}

static void default_of_all(void)
{
	if (!t_beeline)
		t_skip("some complete it with the send");
	setenv("FI_BEELINE_DELIVERY", "all", 1);
	default_of(FI_DELIVERY_COMPLETE, true);
}

static void default_of_rma(void)
{
	if (!t_beeline)
		t_skip("FI_BEELINE_DELIVERY is Beeline's");
	setenv("FI_BEELINE_DELIVERY", "rma", 1);
	default_of(FI_DELIVERY_COMPLETE, false);
}

static void default_of_match(void)
{
	if (!t_beeline)
		t_skip("FI_BEELINE_DELIVERY is Beeline's");
	setenv("FI_BEELINE_DELIVERY", "rma", 1);
	default_of(FI_MATCH_COMPLETE, true);
}

/* An injected buffer is free at once, but its completion says that the message was
 * received: not while nobody has. What nobody ever receives is dropped by the close. */
static void inject_delivery(void)
{
	static const size_t lens[] = {0, 8, 288, 289, SIZE_MAX};
	enum { N = 5 };
	struct t_opts o = {.iov = 2};
	struct t_node n;
	size_t most;

	if (!t_beeline)
		t_skip("some complete it with the inject");
	t_start(&n, &o);
	most = inject_most(&n);
	for (uint64_t i = 0; i <= N; i++) {
		size_t len = i < N ? (lens[i] < most ? lens[i] : most) : 100;
		struct t_buf b = t_buf(len, i);
		struct t_op op = {0};
		struct iovec iov[2] = {{b.p, len / 3}, {b.p + len / 3, len - len / 3}};
		struct fi_msg_tagged m = {.msg_iov = iov, .iov_count = 2, .tag = i, .context = &op};

		t_at("%zu bytes", len);
		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			m.addr = n.peer[1];
			T_TRY(fi_tsendmsg(n.ep, &m,
					  FI_INJECT | FI_DELIVERY_COMPLETE | FI_COMPLETION));
			memset(b.p, 0x55, len);
			t_mark(&n, 1, i);
		} else {
			t_wait_mark(&n, 0, i);
		}
		for (int k = 0; k < 1000; k++)
			t_progress();
		T_EQ(op.done, 0);
		t_barrier();
		if (i == N) { /* left where it is */
			t_buf_free(&b);
			break;
		}
		finish(&n, &b, len, i, &op);
	}
	t_finish(&n);
}

static void inject_delivery_ring(void)
{
	setenv("FI_BEELINE_COPY", "ring", 1);
	inject_delivery();
}

static const struct t_case cases[] = {
	{"inject_tagged", 2, inject_tagged, "the buffer is free on return", 0},
	{"inject_untagged", 2, inject_untagged, "the same, untagged", 0},
	{"injectdata_tagged", 2, injectdata_tagged, "with remote data", 0},
	{"injectdata_untagged", 2, injectdata_untagged, "with remote data, untagged", 0},
	{"inject_silent", 2, inject_silent, "an inject never completes", 0},
	{"inject_too_long", 2, inject_too_long, "the limit is enforced", 0},
	{"flags_inject", 2, sendmsg_inject, "FI_INJECT with sendmsg", 0},
	{"flags_levels", 2, levels, "every completion level, every protocol", 0},
	{"flags_delivery", 2, delivery, "delivered means in the buffer", 0},
	{"flags_match", 2, match, "matched means the same", 0},
	{"flags_inject_delivery", 2, inject_delivery, "and of what was injected", 0},
	{"flags_inject_delivery_ring", 2, inject_delivery_ring, "the same through the ring", 0},
	{"flags_sendmsg_data", 2, sendmsg_data, "remote data with sendmsg", 0},
	{"flags_default", 2, default_flags, "the endpoint's default flags", 0},
	{"flags_default_of_all", 2, default_of_all, "delivered, by them, is what it says", 0},
	{"flags_default_of_rma", 2, default_of_rma, "and is not for messages, if a knob says so",
	 0},
	{"flags_default_of_match", 2, default_of_match, "matched always is for messages", 0},
};

const struct t_group group_flags = T_GROUP("flags", cases);
