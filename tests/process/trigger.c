/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * trigger.c: triggered operations, deferred work and aliases.
 */
#include "cases.h"
#include "when.h"

#include <stdlib.h>
#include <string.h>

#define CAPS (FI_TRIGGER | FI_RMA | FI_ATOMIC | FI_RMA_EVENT)
#define KEY  0x7716
#define LEN  64

static void triggered_tsend(struct t_node *n, int rank, const void *buf, size_t len, uint64_t tag,
			    struct t_op *op)
{
	struct iovec iov = {(void *)buf, len};
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = n->peer[rank], .tag = tag, .context = op};

	T_OK(fi_tsendmsg(n->ep, &msg, FI_TRIGGER | FI_COMPLETION));
}

/* --- triggered ------------------------------------------------------------------------- */

/* Thresholds 3, 1, 2, 1, reached at once: they begin by threshold, then as posted. */
static void order(void)
{
	static const uint64_t threshold[] = {3, 1, 2, 1}, expect[] = {1, 3, 2, 0};
	struct t_opts o = {.caps = CAPS};
	struct fid_cntr *cntr;
	struct t_op op[4];
	struct t_node n;

	t_start(&n, &o);
	cntr = counter(&n);
	if (t_rank == 0) {
		uint64_t value[4] = {0, 1, 2, 3};

		for (uint64_t i = 0; i < 4; i++)
			triggered_tsend(&n, 1, &value[i], 8, 5, when(&op[i], cntr, threshold[i]));
		T_EQ(fi_close(&cntr->fid), -FI_EBUSY);
		quiet(2000);
		for (int i = 0; i < 4; i++)
			T_EQ(op[i].done, 0);
		T_OK(fi_cntr_add(cntr, 3));
		for (int i = 0; i < 4; i++)
			T_WAIT(&op[i]);
	} else {
		for (int i = 0; i < 4; i++) {
			struct t_op rx = {0};
			uint64_t got = 99;

			t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 5, 0, &rx);
			T_WAIT(&rx);
			T_EQ(got, expect[i]);
		}
	}
	T_OK(fi_close(&cntr->fid));
	t_finish(&n);
}

/* What comes in sets off what goes out: rank 0 answers its second message. */
static void answer(void)
{
	struct t_opts o = {.caps = CAPS, .counters = true};
	struct t_op tx, rx[2] = {0};
	uint64_t v[2] = {0}, w = 7;
	struct t_node n;

	t_start(&n, &o);
	if (t_rank == 0) {
		for (int i = 0; i < 2; i++)
			t_trecv(&n, FI_ADDR_UNSPEC, &v[i], 8, 1, 0, &rx[i]);
		triggered_tsend(&n, 1, &v[1], 8, 2, when(&tx, n.rxcntr, 2));
		t_barrier();
		T_WAIT(&tx);
		T_EQ(fi_cntr_read(n.txcntr), 1);
	} else {
		t_barrier();
		T_TRY(fi_tinject(n.ep, &w, 8, n.peer[0], 1));
		quiet(2000);
		w = 8;
		t_trecv(&n, FI_ADDR_UNSPEC, &v[0], 8, 2, 0, &rx[0]);
		T_EQ(rx[0].done, 0);
		T_TRY(fi_tinject(n.ep, &w, 8, n.peer[0], 1));
		T_WAIT(&rx[0]);
		T_EQ(v[0], 8);
	}
	t_finish(&n);
}

/* Each way to post one: sends, receives, and an alias whose calls are all triggered. */
static void alias(void)
{
	struct t_opts o = {.caps = CAPS, .rma_counters = true};
	unsigned char mem[LEN] = {0}, in[4][LEN], out[LEN];
	struct t_op op[8];
	struct fid_ep *tx, *rx;
	struct fid_cntr *go;
	struct fid_mr *mr;
	struct t_node n;

	t_start(&n, &o);
	go = counter(&n);
	T_OK(fi_mr_reg(n.domain, mem, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	T_OK(fi_ep_alias(n.ep, &tx, FI_TRANSMIT | FI_TRIGGER | FI_COMPLETION));
	T_OK(fi_ep_alias(n.ep, &rx, FI_RECV | FI_TRIGGER | FI_COMPLETION));
	T_EQ(fi_close(&n.ep->fid), -FI_EBUSY);
	t_fill(out, LEN, 4, 0);
	t_barrier();
	if (t_rank == 0) {
		T_OK(fi_send(tx, out, LEN, NULL, n.peer[1], when(&op[0], go, 1)));
		T_OK(fi_tsend(tx, out, LEN, NULL, n.peer[1], 9, when(&op[1], go, 1)));
		T_OK(fi_write(tx, out, LEN, NULL, n.peer[1], 0, KEY, when(&op[2], go, 1)));
		T_OK(fi_read(tx, in[0], LEN, NULL, n.peer[1], 0, KEY, when(&op[3], go, 2)));
		T_EQ(fi_send(tx, out, LEN, NULL, n.peer[1], NULL), -FI_EINVAL);
	} else {
		T_OK(fi_recv(rx, in[0], LEN, NULL, FI_ADDR_UNSPEC, when(&op[0], go, 1)));
		T_OK(fi_trecv(rx, in[1], LEN, NULL, FI_ADDR_UNSPEC, 9, 0, when(&op[1], go, 1)));
	}
	quiet(2000);
	T_EQ(op[0].done + op[1].done, 0);
	T_OK(fi_cntr_add(go, 1));
	T_WAIT(&op[0]);
	T_WAIT(&op[1]);
	if (t_rank == 0) {
		T_WAIT(&op[2]);
		T_EQ(fi_cntr_read(n.rma), 1);
		quiet(100);
		T_EQ(op[3].done, 0);
		T_OK(fi_cntr_set(go, 7));
		T_WAIT(&op[3]);
		T_SAME(in[0], LEN, 4, 0);
	} else {
		T_SAME(in[0], LEN, 4, 0);
		T_SAME(in[1], LEN, 4, 0);
	}
	t_barrier();
	if (t_rank == 1)
		T_SAME(mem, LEN, 4, 0);
	T_OK(fi_close(&tx->fid));
	T_OK(fi_close(&rx->fid));
	T_OK(fi_close(&mr->fid));
	T_OK(fi_close(&go->fid));
	t_finish(&n);
}

/* --- deferred -------------------------------------------------------------------------- */

static int submit(struct t_node *n, struct fi_deferred_work *w)
{
	return fi_control(&n->domain->fid, FI_QUEUE_WORK, w);
}

struct wait_for {
	struct fid_cntr *go, *done;
	uint64_t threshold;
};

static struct fi_deferred_work *work(struct fi_deferred_work *w, const struct wait_for *f,
				     enum fi_op_type type)
{
	*w = (struct fi_deferred_work){.threshold = f->threshold,
				       .triggering_cntr = f->go,
				       .completion_cntr = f->done,
				       .op_type = type};
	return w;
}

/* Queues a message operation and forgets all structures but the buffer. */
static void defer_msg(struct t_node *n, const struct wait_for *f, enum fi_op_type type,
		      struct fid_ep *ep, void *buf, size_t len, struct t_op *op, uint64_t flags)
{
	bool out = type == FI_OP_SEND || type == FI_OP_TSEND;
	fi_addr_t addr = out ? n->peer[1 - t_rank] : FI_ADDR_UNSPEC;
	struct iovec iov = {buf, len};
	struct fi_op_msg msg = {
		.ep = ep,
		.msg = {.msg_iov = &iov, .iov_count = 1, .addr = addr, .context = op},
		.flags = flags};
	struct fi_op_tagged tagged = {
		.ep = ep,
		.msg = {.msg_iov = &iov, .iov_count = 1, .addr = addr, .tag = 33, .context = op},
		.flags = flags};
	struct fi_deferred_work w;

	work(&w, f, type);
	if (type == FI_OP_SEND || type == FI_OP_RECV)
		w.op.msg = &msg;
	else
		w.op.tagged = &tagged;
	T_OK(submit(n, &w));
}

static void defer_rma(struct t_node *n, const struct wait_for *f, enum fi_op_type type, void *buf,
		      void *compare, void *result)
{
	struct iovec iov = {buf, LEN};
	struct fi_rma_iov place = {0, LEN, KEY};
	struct fi_ioc ioc = {buf, LEN / 8}, compare_ioc = {compare, LEN / 8};
	struct fi_ioc result_ioc = {result, LEN / 8};
	struct fi_rma_ioc atomic_place = {0, LEN / 8, KEY};
	struct fi_op_rma rma = {.ep = n->ep,
				.msg = {.msg_iov = &iov,
					.iov_count = 1,
					.addr = n->peer[1 - t_rank],
					.rma_iov = &place,
					.rma_iov_count = 1}};
	struct fi_msg_atomic msg = {.msg_iov = &ioc,
				    .iov_count = 1,
				    .addr = n->peer[1 - t_rank],
				    .rma_iov = &atomic_place,
				    .rma_iov_count = 1,
				    .datatype = FI_UINT64,
				    .op = type == FI_OP_COMPARE_ATOMIC ? FI_CSWAP : FI_SUM};
	struct fi_msg_fetch fetch = {.msg_iov = &result_ioc, .iov_count = 1};
	struct fi_op_atomic plain = {.ep = n->ep, .msg = msg};
	struct fi_op_fetch_atomic fetching = {.ep = n->ep, .msg = msg, .fetch = fetch};
	struct fi_op_compare_atomic comparing = {
		.ep = n->ep,
		.msg = msg,
		.fetch = fetch,
		.compare = {.msg_iov = &compare_ioc, .iov_count = 1}};
	struct fi_deferred_work w;

	work(&w, f, type);
	if (type == FI_OP_READ || type == FI_OP_WRITE)
		w.op.rma = &rma;
	else if (type == FI_OP_ATOMIC)
		w.op.atomic = &plain;
	else if (type == FI_OP_FETCH_ATOMIC)
		w.op.fetch_atomic = &fetching;
	else
		w.op.compare_atomic = &comparing;
	T_OK(submit(n, &w));
}

/* The counter says it, the endpoint's queue and counters don't, unless asked to. */
static void messages(size_t len, bool tagged, uint64_t flags)
{
	struct t_opts o = {.caps = CAPS, .counters = true};
	struct t_buf buf = t_buf(len, 0);
	struct t_op op = {0};
	struct wait_for f = {.threshold = 1};
	struct t_node n;

	t_start(&n, &o);
	f.go = counter(&n);
	f.done = counter(&n);
	if (t_rank == 0) {
		t_blank(&buf);
		defer_msg(&n, &f, tagged ? FI_OP_TRECV : FI_OP_RECV, n.ep, buf.p, len, &op,
			  flags | FI_REMOTE_CQ_DATA);
	} else {
		t_fill(buf.p, len, len, 0);
		defer_msg(&n, &f, tagged ? FI_OP_TSEND : FI_OP_SEND, n.ep, buf.p, len, &op, flags);
	}
	quiet(1000);
	T_EQ(fi_cntr_read(f.done), 0);
	T_EQ(fi_close(&f.done->fid), -FI_EBUSY);
	T_OK(fi_cntr_add(f.go, 1));
	T_OK(fi_cntr_wait(f.done, 1, -1));
	if (t_rank == 0)
		T_GOT(&buf, len, len);
	if (flags & FI_COMPLETION)
		T_WAIT(&op);
	quiet(1000);
	T_EQ(op.done, flags & FI_COMPLETION ? 1 : 0);
	T_EQ(fi_cntr_read(n.rxcntr) + fi_cntr_read(n.txcntr), 0);
	T_EQ(fi_cntr_read(f.done), 1);
	T_OK(fi_close(&f.go->fid));
	T_OK(fi_close(&f.done->fid));
	t_finish(&n);
	t_buf_free(&buf);
}

static void all_messages(void)
{
	static const size_t lens[] = {0, 8, 5000, 100000, 2000000};

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		for (int k = 0; k < 4; k++)
			messages(lens[i], k & 1, k & 2 ? FI_COMPLETION : 0);
}

/* All operations on memory, each set off by the one before; the last counter alone is
 * waited for. */
static void one_sided(bool ring)
{
	static const enum fi_op_type types[] = {FI_OP_WRITE, FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC,
						FI_OP_COMPARE_ATOMIC, FI_OP_READ};
	struct t_opts o = {.caps = CAPS, .counters = true, .rma_counters = true};
	uint64_t mem[LEN / 8] = {0}, buf[LEN / 8], compare[LEN / 8], old[2][LEN / 8], in[LEN / 8];
	struct fid_cntr *c[6];
	struct fid_mr *mr;
	struct t_node n;

	if (ring)
		setenv("FI_BEELINE_COPY", "ring", 1);
	t_start(&n, &o);
	T_OK(fi_mr_reg(n.domain, mem, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	for (int i = 0; i < 6; i++)
		c[i] = counter(&n);
	t_barrier();
	if (t_rank == 0) {
		for (int k = 0; k < LEN / 8; k++) {
			buf[k] = (uint64_t)k + 1;
			compare[k] = 3 * buf[k]; /* write, then twice the sum */
		}
		for (int i = 4; i >= 0; i--) {
			const struct wait_for f = {c[i], c[i + 1], 1};

			defer_rma(&n, &f, types[i], types[i] == FI_OP_READ ? in : buf, compare,
				  old[types[i] == FI_OP_COMPARE_ATOMIC]);
		}
		T_OK(fi_cntr_add(c[0], 1));
		T_OK(fi_cntr_wait(c[5], 1, -1));
		for (int k = 0; k < LEN / 8; k++) {
			T_EQ(old[0][k], 2 * buf[k]);
			T_EQ(old[1][k], 3 * buf[k]);
			T_EQ(in[k], buf[k]);
		}
		T_EQ(fi_cntr_read(n.rma), 0);
		quiet(100); /* nothing in the queue, whose entries would have no context */
	}
	t_barrier();
	/* The first read may find no more than a new neighbour. */
	while (t_rank == 1 && fi_cntr_read(n.remote) < 5)
		t_idle();
	T_EQ(fi_cntr_read(n.remote), t_rank ? 5 : 0);
	for (int i = 0; i < 6; i++)
		T_OK(fi_close(&c[i]->fid));
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

static void one_sided_direct(void)
{
	one_sided(false);
}

static void one_sided_ring(void)
{
	one_sided(true);
}

static void counters(void)
{
	struct t_opts o = {.caps = CAPS};
	struct fi_deferred_work w[3];
	struct fi_op_cntr set, add;
	struct wait_for f = {.threshold = 2};
	struct fid_cntr *target;
	struct t_node n;

	t_start(&n, &o);
	f.go = counter(&n);
	target = counter(&n);
	set = (struct fi_op_cntr){target, 10};
	add = (struct fi_op_cntr){target, 5};
	work(&w[0], &f, FI_OP_CNTR_SET)->op.cntr = &set;
	work(&w[1], &f, FI_OP_CNTR_ADD)->op.cntr = &add;
	T_OK(submit(&n, &w[0]));
	T_OK(submit(&n, &w[1]));
	/* The target is itself waited for, and has errors counted for the threshold. */
	f.go = target;
	f.threshold = 15;
	work(&w[2], &f, FI_OP_CNTR_ADD)->op.cntr = &add;
	T_OK(submit(&n, &w[2]));
	T_EQ(fi_cntr_read(target), 0);
	T_OK(fi_cntr_add(w[0].triggering_cntr, 1));
	T_EQ(fi_cntr_read(target), 0);
	T_OK(fi_cntr_adderr(w[0].triggering_cntr, 1));
	T_OK(fi_cntr_wait(target, 20, -1));
	T_EQ(fi_cntr_read(target), 20);
	/* Met already: at once. A counter of its own is an error. */
	T_OK(submit(&n, &w[2]));
	T_EQ(fi_cntr_read(target), 25);
	w[2].completion_cntr = target;
	T_EQ(submit(&n, &w[2]), -FI_EINVAL);
	T_OK(fi_close(&w[0].triggering_cntr->fid));
	T_OK(fi_close(&target->fid));
	t_finish(&n);
}

static void cancel_and_flush(void)
{
	struct t_opts o = {.caps = CAPS};
	struct fid_domain *domain;
	struct fid_cntr *go[2], *target;
	struct fi_deferred_work w[6];
	struct fi_op_cntr add;
	struct t_node n;

	t_start(&n, &o);
	domain = n.domain;
	go[0] = counter(&n);
	go[1] = counter(&n);
	target = counter(&n);
	add = (struct fi_op_cntr){target, 1};
	for (int i = 0; i < 6; i++) {
		const struct wait_for f = {go[i / 3], NULL, 1};

		work(&w[i], &f, FI_OP_CNTR_ADD)->op.cntr = &add;
		T_OK(submit(&n, &w[i]));
	}
	T_OK(fi_control(&domain->fid, FI_CANCEL_WORK, &w[1]));
	T_EQ(fi_control(&domain->fid, FI_CANCEL_WORK, &w[1]), -FI_ENOENT);
	T_OK(fi_control(&domain->fid, FI_FLUSH_WORK, go[1]));
	T_OK(fi_close(&go[1]->fid)); /* nothing waits for it */
	T_OK(fi_cntr_add(go[0], 1));
	T_EQ(fi_cntr_read(target), 2);
	T_EQ(fi_control(&domain->fid, FI_CANCEL_WORK, &w[0]), -FI_ENOENT);
	T_OK(fi_cntr_set(go[0], 0));
	for (int i = 0; i < 3; i++)
		T_OK(submit(&n, &w[i]));
	T_EQ(fi_close(&go[0]->fid), -FI_EBUSY);
	T_OK(fi_control(&domain->fid, FI_FLUSH_WORK, NULL));
	T_OK(fi_cntr_add(go[0], 1));
	T_EQ(fi_cntr_read(target), 2);
	T_EQ(fi_control(&domain->fid, FI_QUEUE_WORK, NULL), -FI_EINVAL);
	T_OK(fi_close(&go[0]->fid));
	T_OK(fi_close(&target->fid));
	t_finish(&n);
}

/* A failure counts as one, in the completion counter, and is told in the queue. */
static void failures(void)
{
	struct t_opts o = {.caps = CAPS, .counters = true};
	struct t_buf buf = t_buf(1000, 0);
	struct t_op op = {0}, late;
	struct wait_for f = {.threshold = 0};
	struct t_node n;

	t_start(&n, &o);
	f.go = counter(&n);
	f.done = counter(&n);
	if (t_rank == 0) {
		defer_msg(&n, &f, FI_OP_TRECV, n.ep, buf.p, 10, &op, 0);
		t_barrier();
		T_WAIT_ERR(&op, FI_ETRUNC);
		T_EQ(fi_cntr_readerr(f.done), 1);
		T_EQ(fi_cntr_read(f.done), 0);
		T_EQ(fi_cntr_readerr(n.rxcntr), 0);
		/* Cancelled when it has begun; a triggered one before. */
		op.done = 0;
		defer_msg(&n, &f, FI_OP_TRECV, n.ep, buf.p, 10, &op, 0);
		T_OK(fi_cancel(&n.ep->fid, &op));
		T_WAIT_ERR(&op, FI_ECANCELED);
		T_EQ(fi_cntr_readerr(f.done), 1);
		triggered_tsend(&n, 1, buf.p, 10, 1, when(&late, f.go, 5));
		T_OK(fi_cancel(&n.ep->fid, &late));
		T_WAIT_ERR(&late, FI_ECANCELED);
		/* To nobody: it is told when it begins. */
		n.peer[2] = 1000;
		triggered_tsend(&n, 2, buf.p, 10, 1, when(&late, f.go, 5));
		T_OK(fi_cntr_set(f.go, 5));
		T_WAIT_ERR(&late, FI_EINVAL);
		T_EQ(fi_cntr_readerr(n.txcntr), 1);
		/* What is queued and what has begun goes with its endpoint. */
		op.done = 0;
		defer_msg(&n, &f, FI_OP_TRECV, n.ep, buf.p, 10, &op, 0);
		f.threshold = 9;
		defer_msg(&n, &f, FI_OP_TRECV, n.ep, buf.p, 10, &op, 0);
		T_EQ(fi_close(&f.go->fid), -FI_EBUSY);
	} else {
		t_barrier();
		T_TRY(fi_tinject(n.ep, buf.p, 1000, n.peer[0], 33));
	}
	t_barrier();
	n.watched = false;
	T_OK(fi_close(&n.ep->fid));
	T_OK(fi_close(&f.go->fid));
	T_OK(fi_close(&f.done->fid));
	T_OK(fi_close(&n.rxcntr->fid));
	T_OK(fi_close(&n.txcntr->fid));
	T_OK(fi_close(&n.cq->fid));
	T_OK(fi_close(&n.av->fid));
	T_OK(fi_close(&n.domain->fid));
	T_OK(fi_close(&n.fabric->fid));
	fi_freeinfo(n.info);
	t_buf_free(&buf);
}

static void refused(void)
{
	struct t_opts o = {0};
	struct fi_msg_tagged msg = {0};
	struct wait_for f = {.threshold = 1};
	struct fi_op_tagged tagged = {0};
	struct fi_deferred_work w;
	struct fi_triggered_context t;
	struct t_node n, m;
	struct t_op op;

	if (!t_beeline)
		t_skip("what ours promises");
	t_start(&n, &o);
	f.go = counter(&n);
	msg.addr = n.peer[0];
	msg.context = when(&op, f.go, 1);
	/* Without the capability; then with it. */
	T_EQ(fi_tsendmsg(n.ep, &msg, FI_TRIGGER), -FI_EOPNOTSUPP);
	T_EQ(fi_trecvmsg(n.ep, &msg, FI_TRIGGER), -FI_EOPNOTSUPP);
	tagged.ep = n.ep;
	work(&w, &f, FI_OP_TSEND)->op.tagged = &tagged;
	T_EQ(submit(&n, &w), -FI_ENOSYS);
	o.caps = FI_TRIGGER;
	t_open_beside(&m, &n, &o);
	tagged.ep = m.ep;
	tagged.flags = FI_INJECT;
	T_EQ(submit(&n, &w), -FI_ENOSYS);
	w.triggering_cntr = NULL;
	T_EQ(submit(&n, &w), -FI_EINVAL);
	T_EQ(fi_tsendmsg(m.ep, &msg, FI_TRIGGER | FI_INJECT), -FI_ENOSYS);
	memcpy(&t, &op.ctx, sizeof(t));
	t.event_type = (enum fi_trigger_event)77;
	msg.context = &t;
	T_EQ(fi_tsendmsg(m.ep, &msg, FI_TRIGGER), -FI_EINVAL);
	t_close(&m);
	T_OK(fi_close(&f.go->fid));
	t_finish(&n);
}

/* A deferred receive on a shared context. */
static void on_shared(void)
{
	struct t_opts o = {.caps = CAPS};
	struct fi_info *hints = t_hints(&o), *info;
	struct wait_for f = {.threshold = 1};
	struct t_node n, m;
	struct fid_ep *srx;
	struct t_op op = {0}, tx = {0};
	uint64_t in = 0, out = 6;

	t_start(&n, &o);
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	T_OK(t_getinfo(T_API, hints, &info));
	T_OK(fi_srx_context(n.domain, info->rx_attr, &srx, NULL));
	o.srx = srx;
	t_open_beside(&m, &n, &o);
	f.go = counter(&n);
	f.done = counter(&n);
	defer_msg(&m, &f, FI_OP_TRECV, srx, &in, 8, &op, 0);
	T_OK(fi_cntr_add(f.go, 1));
	T_TRY(fi_tsend(n.ep, &out, 8, NULL, t_insert(&n, m.name), 33, &tx));
	T_OK(fi_cntr_wait(f.done, 1, -1));
	T_EQ(in, 6);
	T_WAIT(&tx);
	T_EQ(op.done, 0);
	t_close(&m);
	T_OK(fi_close(&srx->fid));
	T_OK(fi_close(&f.go->fid));
	T_OK(fi_close(&f.done->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	t_finish(&n);
}

static void send_to_self(struct t_node *n)
{
	struct t_op tx = {0}, rx = {0};

	t_tsend(n, 0, NULL, 0, 1, &tx);
	t_trecv(n, FI_ADDR_UNSPEC, NULL, 0, 1, 0, &rx);
	T_WAIT(&rx);
	T_WAIT(&tx);
}

/* --- looks ------------------------------------------------------------------------------ */

/* Takes what lies in the queue, up to `last`, without any progress. */
static bool take_until(struct t_node *n, const struct t_op *last)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	struct t_op *op;
	bool any = false;

	for (;; op->done++, any = true) {
		ssize_t rc = fi_cq_readerr(n->cq, &err, 0);

		if (rc == 1) {
			op = err.op_context;
			if (op == last)
				return any;
			op->c.err = err.err;
			continue;
		}
		T_EQ(fi_cq_read(n->cq, &e, 1), 1);
		op = e.op_context;
	}
}

/* One progress ends an operation, only because it looks after its neighbours, and
 * begins what waited for that. A peek makes progress once and tells of itself last. */
static void in_one_look(void)
{
	struct t_opts o = {.caps = CAPS, .counters = true};
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op big = {0}, late = {0}, peek = {0}, rx = {0};
	struct fi_msg_tagged msg = {.tag = 77, .context = &peek};
	struct wait_for f;
	struct t_node n, m;

	t_start(&n, &o);
	t_open_beside(&m, &n, &o);
	send_to_self(&n);
	f = (struct wait_for){n.txcntr, counter(&n), fi_cntr_read(n.txcntr) + 1};
	T_TRY(fi_tsend(n.ep, buf.p, buf.len, NULL, t_insert(&n, m.name), 3, &big));
	/* To whoever is called 1 - t_rank: ourselves. */
	n.peer[1] = n.peer[0];
	defer_msg(&n, &f, FI_OP_TSEND, n.ep, buf.p, 8, &late, FI_COMPLETION);
	quiet(10);
	T_EQ(big.done + late.done, 0);
	t_close(&m);
	while (!big.done) {
		T_OK(fi_trecvmsg(n.ep, &msg, FI_PEEK));
		take_until(&n, &peek);
	}
	T_EQ(big.c.err, FI_ENOTCONN);
	T_EQ(late.done, 1);
	t_trecv(&n, FI_ADDR_UNSPEC, buf.p, 8, 33, 0, &rx);
	T_WAIT(&rx);
	T_OK(fi_close(&f.done->fid));
	t_finish(&n);
	t_buf_free(&buf);
}

/* A deferred receive whose message never comes whole, because the member that it came
 * to is closed, counts as an error like any other. */
static void cut_short(void)
{
	struct t_opts o = {.caps = CAPS};
	struct fi_info *hints = t_hints(&o), *info;
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op op = {0}, tx = {0};
	struct wait_for f = {.threshold = 0};
	struct t_node n, m;
	struct fid_ep *srx;
	unsigned char all[2][T_NAME_MAX];

	setenv("FI_BEELINE_COPY", "ring", 1);
	t_start(&n, &o);
	if (t_rank == 0) {
		hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
		T_OK(t_getinfo(T_API, hints, &info));
		T_OK(fi_srx_context(n.domain, info->rx_attr, &srx, NULL));
		o.srx = srx;
		t_open_beside(&m, &n, &o);
		f.go = counter(&n);
		f.done = counter(&n);
		defer_msg(&m, &f, FI_OP_TRECV, srx, buf.p, buf.len, &op, 0);
	}
	t_allgather(t_rank ? n.name : m.name, T_NAME_MAX, all, t_progress);
	if (t_rank == 1) {
		T_TRY(fi_tsend(n.ep, buf.p, buf.len, NULL, t_insert(&n, all[0]), 33, &tx));
		t_barrier_with(NULL); /* the other waits for what we send now */
		t_barrier_with(NULL);
		T_WAIT_ERR(&tx, FI_ENOTCONN);
	} else {
		t_barrier_with(NULL);
		quiet(100);
		T_EQ(fi_cntr_read(f.done) + fi_cntr_readerr(f.done), 0);
		t_close(&m);
		T_EQ(fi_cntr_readerr(f.done), 1);
		T_EQ(fi_cntr_read(f.done), 0);
		t_barrier_with(NULL);
		T_OK(fi_close(&srx->fid));
		T_OK(fi_close(&f.go->fid));
		T_OK(fi_close(&f.done->fid));
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
	t_finish(&n);
	t_buf_free(&buf);
}

static const struct t_case cases[] = {
	{"trigger_order", 2, order, "by threshold, then as posted", 0},
	{"trigger_answer", 2, answer, "a message that a message sets off", 0},
	{"trigger_alias", 2, alias, "every call of an alias waits", 0},
	{"trigger_messages", 2, all_messages, "deferred sends and receives, every way of one", 0},
	{"trigger_one_sided", 2, one_sided_direct, "a chain of reads, writes, atomics", 0},
	{"trigger_one_sided_ring", 2, one_sided_ring, "the same by the target's hand", 0},
	{"trigger_counters", 1, counters, "deferred changes of counters", 0},
	{"trigger_cancel", 1, cancel_and_flush, "what is taken back doesn't happen", 0},
	{"trigger_failures", 2, failures, "errors are counted and told", 0},
	{"trigger_refused", 1, refused, "what isn't there", 0},
	{"trigger_shared", 1, on_shared, "a deferred receive of a shared context", 0},
	{"trigger_one_look", 1, in_one_look, "what a look ends sets off in the same look", 0},
	{"trigger_cut_short", 2, cut_short, "every end of deferred work counts", 0},
};

const struct t_group group_trigger = T_GROUP("trigger", cases);
