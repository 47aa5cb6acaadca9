/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * blocked.c: what can't begin yet: fenced operations, and triggered ones whose peer
 * can't be reached. Each holds up what it must, and nothing else.
 */
#include "cases.h"
#include "when.h"

#include <stdlib.h>
#include <string.h>

#define CAPS (FI_TRIGGER | FI_RMA)
#define KEY  0x7716

static void send_to_self(struct t_node *n)
{
	struct t_op tx = {0}, rx = {0};

	t_tsend(n, 0, NULL, 0, 1, &tx);
	t_trecv(n, FI_ADDR_UNSPEC, NULL, 0, 1, 0, &rx);
	T_WAIT(&rx);
	T_WAIT(&tx);
}

/* --- peers that can't be reached --------------------------------------------------------- */

#define LATE 12 /* more than are remembered in one look */

/* An endpoint that has an address but isn't enabled: nobody can connect to it yet. */
static struct fid_ep *late_endpoint(struct t_node *n, fi_addr_t *addr)
{
	unsigned char name[T_NAME_MAX];
	size_t len = sizeof(name);
	struct fid_ep *ep;

	T_OK(fi_endpoint(n->domain, n->info, &ep, NULL));
	T_OK(fi_ep_bind(ep, &n->cq->fid, FI_TRANSMIT | FI_RECV));
	T_OK(fi_ep_bind(ep, &n->av->fid, 0));
	T_OK(fi_getname(&ep->fid, name, &len));
	*addr = t_insert(n, name);
	return ep;
}

static void triggered_to(struct t_node *n, fi_addr_t to, const void *buf, uint64_t tag,
			 struct t_op *op)
{
	struct iovec iov = {(void *)buf, 8};
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = to, .tag = tag, .context = op};

	T_OK(fi_tsendmsg(n->ep, &msg, FI_TRIGGER | FI_COMPLETION));
}

/* What goes to one that can't be reached holds up nothing but what goes there too,
 * under whatever name, and that keeps its order. */
static void blocked(void)
{
	static const uint64_t value[3] = {1, 2, 3};
	struct t_opts o = {.caps = CAPS};
	struct t_op tx[3], self, rx[3] = {0}, in = {0};
	uint64_t got[3] = {0}, v = 0;
	unsigned char name[T_NAME_MAX];
	size_t len = sizeof(name);
	struct fid_cntr *go;
	struct fid_ep *late;
	fi_addr_t to, again;
	struct t_node n;

	t_start(&n, &o);
	send_to_self(&n);
	go = counter(&n);
	late = late_endpoint(&n, &to);
	T_OK(fi_getname(&late->fid, name, &len));
	again = t_insert(&n, name);
	triggered_to(&n, to, &value[0], 5, when(&tx[0], go, 1));
	triggered_to(&n, n.peer[0], &value[2], 5, when(&self, go, 1));
	triggered_to(&n, again, &value[1], 5, when(&tx[1], go, 2));
	triggered_to(&n, to, &value[2], 5, when(&tx[2], go, 3));
	t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 5, 0, &in);
	T_OK(fi_cntr_add(go, 3));
	T_WAIT(&in);
	T_WAIT(&self);
	T_EQ(v, 3);
	T_EQ(tx[0].done + tx[1].done + tx[2].done, 0);
	T_OK(fi_enable(late));
	for (int i = 0; i < 3; i++)
		T_TRY(fi_trecv(late, &got[i], 8, NULL, FI_ADDR_UNSPEC, 5, 0, &rx[i]));
	for (int i = 0; i < 3; i++) {
		T_WAIT(&rx[i]);
		T_WAIT(&tx[i]);
		T_EQ(got[i], value[i]);
	}
	T_OK(fi_close(&late->fid));
	T_OK(fi_close(&go->fid));
	t_finish(&n);
}

/* Of many that can't be reached not all are looked at each time, and yet each gets its. */
static void blocked_many(void)
{
	struct t_opts o = {.caps = CAPS};
	struct t_op tx[LATE][8], rx[LATE][8] = {0};
	uint64_t value[LATE][8], got[LATE][8];
	struct fid_ep *late[LATE];
	fi_addr_t to[LATE];
	struct fid_cntr *go;
	struct t_node n;

	t_start(&n, &o);
	go = counter(&n);
	for (int i = 0; i < LATE; i++)
		late[i] = late_endpoint(&n, &to[i]);
	for (uint64_t k = 0; k < 8; k++)
		for (uint64_t i = 0; i < LATE; i++) {
			value[i][k] = i << 8 | k;
			triggered_to(&n, to[i], &value[i][k], 5, when(&tx[i][k], go, 1));
		}
	T_OK(fi_cntr_add(go, 1));
	quiet(100);
	for (int i = 0; i < LATE; i++) {
		T_OK(fi_enable(late[i]));
		for (int k = 0; k < 8; k++)
			T_TRY(fi_trecv(late[i], &got[i][k], 8, NULL, FI_ADDR_UNSPEC, 5, 0,
				       &rx[i][k]));
	}
	for (int i = 0; i < LATE; i++)
		for (int k = 0; k < 8; k++) {
			T_WAIT(&rx[i][k]);
			T_WAIT(&tx[i][k]);
			T_EQ(got[i][k], value[i][k]);
		}
	for (int i = 0; i < LATE; i++)
		T_OK(fi_close(&late[i]->fid));
	T_OK(fi_close(&go->fid));
	t_finish(&n);
}

/* --- fences ---------------------------------------------------------------------------- */

#define BEHIND 5

/* A fenced message to rank 1, an atomic operation, and what is sent behind them, each in
 * another way, from memory that is its owner's again where it is injected. */
static void behind(struct t_node *n, struct t_op *op, uint64_t *value)
{
	struct iovec iov = {&value[0], 8};
	struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .tag = 2, .addr = n->peer[1]};
	struct fi_ioc ioc = {&value[3], 1};
	struct fi_rma_ioc place = {0, 1, KEY};
	struct fi_msg_atomic add = {.msg_iov = &ioc,
				    .iov_count = 1,
				    .rma_iov = &place,
				    .rma_iov_count = 1,
				    .addr = n->peer[1],
				    .datatype = FI_UINT64,
				    .op = FI_SUM,
				    .context = &op[3]};

	for (uint64_t i = 0; i < BEHIND; i++)
		value[i] = 100 + i;
	msg.context = &op[0];
	T_OK(fi_tsendmsg(n->ep, &msg, FI_FENCE));
	T_OK(fi_tsend(n->ep, &value[1], 8, NULL, n->peer[1], 2, &op[1]));
	T_OK(fi_tinject(n->ep, &value[2], 8, n->peer[1], 2));
	T_OK(fi_atomicmsg(n->ep, &add, FI_FENCE | FI_INJECT | FI_COMPLETION));
	iov.iov_base = &value[4];
	msg.context = &op[4];
	T_OK(fi_tsendmsg(n->ep, &msg, FI_INJECT | FI_COMPLETION));
	value[2] = value[3] = value[4] = 0;
}

/* While a large message to the peer waits for its receive, what is fenced is taken and waits,
 * and what comes behind it too; to others there is no fence. */
static void fence(void)
{
	struct t_opts o = {.caps = FI_RMA | FI_ATOMIC};
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op big = {0}, other = {0}, op[BEHIND] = {0};
	struct fi_msg_tagged msg = {.tag = 2, .context = &other};
	uint64_t value[BEHIND], mem = 1;
	struct fid_mr *mr;
	struct t_node n;

	t_start(&n, &o);
	T_OK(fi_mr_reg(n.domain, &mem, 8, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	t_barrier();
	if (t_rank == 0) {
		t_tsend(&n, 1, buf.p, buf.len, 1, &big);
		behind(&n, op, value);
		quiet(1000);
		for (int i = 0; i < BEHIND; i++)
			T_EQ(op[i].done, 0);
		msg.addr = n.peer[2];
		T_TRY(fi_tsendmsg(n.ep, &msg, FI_FENCE));
		T_WAIT(&other);
		T_EQ(big.done, 0);
		t_barrier();
		T_WAIT(&big);
		for (int i = 0; i < BEHIND; i++)
			if (i != 2) /* which reports nothing */
				T_WAIT(&op[i]);
		T_CHECK(big.c.order < op[0].c.order, "the fenced one was first");
		T_CHECK(op[0].c.order < op[3].c.order, "the second fenced one was first");
		T_CHECK(op[3].c.order < op[4].c.order, "what is behind it was first");
		t_barrier();
	} else {
		quiet(1000);
		T_EQ(mem, 1);
		t_barrier();
		if (t_rank == 1) {
			t_trecv(&n, FI_ADDR_UNSPEC, buf.p, buf.len, 1, 0, &big);
			T_WAIT(&big);
		}
		for (uint64_t i = 0; i < (t_rank == 1 ? BEHIND : 1); i++) {
			if (i == 3)
				continue;
			op[i].done = 0;
			t_trecv(&n, FI_ADDR_UNSPEC, &value[i], t_rank == 1 ? 8 : 0, 2, 0, &op[i]);
			T_WAIT(&op[i]);
			T_CHECK(t_rank == 2 || value[i] == 100 + i, "%llu instead of %llu",
				(unsigned long long)value[i], (unsigned long long)(100 + i));
		}
		t_barrier();
		T_EQ(mem, t_rank == 1 ? 104 : 1);
	}
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
	t_buf_free(&buf);
}

/* So many bytes wait, each in its place; for one more there is no room until they have gone. */
static void fence_full(void)
{
	enum { MOST = 100000, LEAST = 100 };
	struct t_opts o = {.caps = CAPS};
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op *op = calloc(MOST, sizeof(*op)), big = {0};
	struct t_node n;
	ssize_t rc = 0;
	uint64_t i, v;

	setenv("FI_BEELINE_INJECT_QUEUE", "8192", 1);
	t_start(&n, &o);
	if (t_rank == 0) {
		struct iovec iov = {&i, 8};
		struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = n.peer[1]};

		t_tsend(&n, 1, buf.p, buf.len, 1, &big);
		for (i = 0; i < MOST && !rc; i += !rc) {
			msg.context = &op[i];
			rc = fi_sendmsg(n.ep, &msg,
					FI_INJECT | FI_COMPLETION | (i % 3 ? 0 : FI_FENCE));
		}
		T_EQ(rc, -FI_EAGAIN);
		T_CHECK(i >= LEAST, "only %llu were taken", (unsigned long long)i);
		quiet(100);
		T_EQ(fi_inject(n.ep, &i, 8, n.peer[1]), -FI_EAGAIN);
		t_barrier();
		T_TRY(fi_inject(n.ep, &i, 8, n.peer[1]));
		for (uint64_t k = 0; k < i; k++) {
			T_WAIT(&op[k]);
			T_CHECK(!k || op[k].c.order > op[k - 1].c.order, "out of order");
		}
		v = UINT64_MAX;
		T_TRY(fi_inject(n.ep, &v, 8, n.peer[1]));
		T_WAIT(&big);
	} else {
		t_barrier();
		t_trecv(&n, FI_ADDR_UNSPEC, buf.p, buf.len, 1, 0, &big);
		T_WAIT(&big);
		for (i = 0; i < MOST; i++) {
			op[i].done = 0;
			T_TRY(fi_recv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, &op[i]));
			T_WAIT(&op[i]);
			if (v == UINT64_MAX)
				break;
			T_EQ(v, i);
		}
		T_CHECK(i > LEAST, "only %llu came", (unsigned long long)i);
	}
	t_finish(&n);
	t_buf_free(&buf);
	free(op);
}

/* One that waits for a counter meets the fence when the counter gets there, deferred work
 * too, and counts when it is over. */
static void fence_deferred(void)
{
	struct t_opts o = {.caps = CAPS};
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op big = {0}, op[3] = {0};
	struct fid_cntr *go, *done;
	uint64_t v[3] = {7, 8, 9};
	struct t_node n;

	t_start(&n, &o);
	go = counter(&n);
	done = counter(&n);
	if (t_rank == 0) {
		struct iovec iov = {&v[0], 8};
		struct fi_op_tagged tagged = {
			.ep = n.ep,
			.msg = {.msg_iov = &iov, .iov_count = 1, .addr = n.peer[1], .tag = 2},
			.flags = FI_FENCE};
		struct fi_deferred_work work = {.threshold = 1,
						.triggering_cntr = go,
						.completion_cntr = done,
						.op_type = FI_OP_TSEND,
						.op.tagged = &tagged};
		struct iovec later = {&v[1], 8};
		struct fi_msg_tagged msg = {.msg_iov = &later,
					    .iov_count = 1,
					    .addr = n.peer[1],
					    .tag = 2,
					    .context = when(&op[1], go, 1)};

		t_tsend(&n, 1, buf.p, buf.len, 1, &big);
		T_OK(fi_control(&n.domain->fid, FI_QUEUE_WORK, &work));
		T_OK(fi_tsendmsg(n.ep, &msg, FI_FENCE | FI_TRIGGER | FI_COMPLETION));
		T_OK(fi_cntr_add(go, 1));
		T_OK(fi_tsend(n.ep, &v[2], 8, NULL, n.peer[1], 2, &op[2]));
		quiet(1000);
		T_EQ(fi_cntr_read(done) + op[1].done + op[2].done, 0);
		t_barrier();
		T_WAIT(&op[2]);
		T_EQ(fi_cntr_read(done), 1);
		T_EQ(op[1].done, 1);
	} else {
		t_barrier();
		t_trecv(&n, FI_ADDR_UNSPEC, buf.p, buf.len, 1, 0, &big);
		for (uint64_t i = 0; i < 3; i++) {
			uint64_t got = 0;

			t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 2, 0, &op[i]);
			T_WAIT(&op[i]);
			T_EQ(got, v[i]);
		}
	}
	T_WAIT(&big);
	T_OK(fi_close(&go->fid));
	T_OK(fi_close(&done->fid));
	t_finish(&n);
	t_buf_free(&buf);
}

/* What waits behind a fence can be taken back, the fence itself and what is behind it; the
 * rest goes as if that had never been. */
static void fence_cancel(void)
{
	struct t_opts o = {.caps = FI_RMA | FI_ATOMIC};
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op big = {0}, op[BEHIND] = {0};
	uint64_t value[BEHIND], mem = 1;
	struct fid_mr *mr;
	struct t_node n;

	t_start(&n, &o);
	T_OK(fi_mr_reg(n.domain, &mem, 8, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	t_barrier();
	if (t_rank == 0) {
		t_tsend(&n, 1, buf.p, buf.len, 1, &big);
		behind(&n, op, value);
		T_EQ(fi_cancel(&n.ep->fid, &op[3]), 0);
		T_WAIT_ERR(&op[3], FI_ECANCELED);
		T_EQ(fi_cancel(&n.ep->fid, &op[0]), 0);
		T_WAIT_ERR(&op[0], FI_ECANCELED);
		T_CHECK(fi_cancel(&n.ep->fid, &op[0]), "it was taken back twice");
		T_EQ(fi_cancel(&n.ep->fid, &op[4]), 0); /* the last one */
		T_WAIT_ERR(&op[4], FI_ECANCELED);
		T_OK(fi_tinject(n.ep, &value[1], 8, n.peer[1], 2));
		t_barrier();
		T_WAIT(&big);
		T_WAIT(&op[1]);
		for (int i = 0; i < BEHIND; i++)
			T_EQ(op[i].done, i != 2);
	} else {
		static const uint64_t come[] = {101, 102, 101};

		t_barrier();
		t_trecv(&n, FI_ADDR_UNSPEC, buf.p, buf.len, 1, 0, &big);
		T_WAIT(&big);
		for (int i = 0; i < 3; i++) {
			uint64_t got = 0;

			t_trecv(&n, FI_ADDR_UNSPEC, &got, 8, 2, 0, &op[i]);
			T_WAIT(&op[i]);
			T_EQ(got, come[i]);
		}
	}
	t_barrier();
	T_EQ(mem, 1);
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
	t_buf_free(&buf);
}

/* A counter of sends counts what is injected too: when it goes, not when it is taken to wait. */
static void fence_counted(void)
{
	struct t_opts o = {.counters = true};
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op big = {0}, op[3] = {0};
	struct t_node n;

	t_start(&n, &o);
	t_barrier();
	if (t_rank == 0) {
		struct fi_msg_tagged msg = {.tag = 2, .addr = n.peer[1], .context = &op[0]};

		t_tsend(&n, 1, buf.p, buf.len, 1, &big);
		T_OK(fi_tsendmsg(n.ep, &msg, FI_FENCE));
		T_OK(fi_tinject(n.ep, NULL, 0, n.peer[1], 2));
		T_OK(fi_tinjectdata(n.ep, NULL, 0, 0, n.peer[1], 2));
		quiet(1000);
		T_EQ(fi_cntr_read(n.txcntr), 0);
		t_barrier();
		T_OK(fi_cntr_wait(n.txcntr, 4, -1));
		T_EQ(fi_cntr_readerr(n.txcntr), 0);
		T_WAIT(&big);
		T_WAIT(&op[0]);
	} else {
		t_barrier();
		t_trecv(&n, FI_ADDR_UNSPEC, buf.p, buf.len, 1, 0, &big);
		T_WAIT(&big);
		for (int i = 0; i < 3; i++) {
			t_trecv(&n, FI_ADDR_UNSPEC, NULL, 0, 2, 0, &op[i]);
			T_WAIT(&op[i]);
		}
		T_EQ(fi_cntr_read(n.txcntr), 0);
	}
	t_finish(&n);
	t_buf_free(&buf);
}

/* What waits behind a fence goes when its endpoint closes, if it need not wait any more. */
static void fence_closed(void)
{
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op big = {0}, op[2] = {0};
	struct t_node n, second;
	uint64_t v[2] = {7, 8};

	t_start(&n, NULL);
	t_open(&second, NULL); /* from which rank 0 sends */
	t_connect(&second);
	if (t_rank == 0) {
		struct iovec iov = {&v[0], 8};
		struct fi_msg_tagged msg = {.msg_iov = &iov,
					    .iov_count = 1,
					    .tag = 2,
					    .addr = second.peer[1],
					    .context = &op[0]};

		t_tsend(&second, 1, buf.p, buf.len, 1, &big);
		T_OK(fi_tsendmsg(second.ep, &msg, FI_FENCE | FI_INJECT));
		T_OK(fi_tinject(second.ep, &v[1], 8, second.peer[1], 2));
		t_barrier_with(NULL);
		t_barrier_with(NULL); /* it is received while this one is away */
		t_close(&second);
		t_barrier();
	} else {
		t_barrier();
		t_trecv(&second, FI_ADDR_UNSPEC, buf.p, buf.len, 1, 0, &big);
		T_WAIT(&big);
		t_barrier();
		t_barrier();
		for (uint64_t i = 0; i < 2; i++) {
			uint64_t got = 0;

			t_trecv(&second, FI_ADDR_UNSPEC, &got, 8, 2, 0, &op[i]);
			T_WAIT(&op[i]);
			T_EQ(got, v[i]);
		}
		t_close(&second);
	}
	t_finish(&n);
	t_buf_free(&buf);
}

/* The peer goes: what waited for it ends as what it waited for does. And what still waits
 * when its own endpoint closes is gone. */
static void fence_gone(void)
{
	struct t_opts o = {.counters = true};
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op big[2] = {0}, op[2] = {0};
	struct fi_msg_tagged msg = {.tag = 2};
	struct t_node n, second;

	t_start(&n, &o);
	t_open(&second, NULL);
	t_connect(&second);
	if (t_rank == 0) {
		t_tsend(&n, 1, buf.p, buf.len, 1, &big[0]);
		t_tsend(&second, 1, buf.p, buf.len, 1, &big[1]);
		for (int i = 0; i < 2; i++) {
			msg.addr = (i ? &second : &n)->peer[1];
			msg.context = &op[i];
			T_OK(fi_tsendmsg((i ? &second : &n)->ep, &msg, FI_FENCE));
		}
		T_OK(fi_tinject(n.ep, NULL, 0, n.peer[1], 2));
	}
	t_barrier();
	if (t_rank == 1)
		t_close(&n);
	if (t_rank == 0) {
		while (!big[0].done || !op[0].done || fi_cntr_readerr(n.txcntr) < 3)
			t_idle();
		T_EQ(fi_cntr_read(n.txcntr), 0);
		T_EQ(fi_cntr_readerr(n.txcntr), 3);
		T_CHECK(big[0].c.err && op[0].c.err, "a success, of an endpoint that is gone");
		T_EQ(op[1].done, 0);
		t_close(&n);
	}
	t_barrier();
	t_close(&second);
	t_buf_free(&buf);
}

/* What was written before a fenced message is there when it comes, also where the
 * target does the writing. */
static void fence_write(bool ring)
{
	struct t_opts o = {.caps = CAPS};
	struct t_buf mem = t_buf(200000, 0);
	struct t_node n;
	struct fid_mr *mr;

	if (ring)
		setenv("FI_BEELINE_COPY", "ring", 1);
	t_start(&n, &o);
	T_OK(fi_mr_reg(n.domain, mem.p, mem.len, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	for (uint64_t i = 0; i < 20; i++) {
		struct t_op w = {0}, s = {0};

		t_barrier();
		if (t_rank == 0) {
			struct fi_msg_tagged msg = {.addr = n.peer[1], .tag = i, .context = &s};

			t_fill(mem.p, mem.len, i, 0);
			T_TRY(fi_write(n.ep, mem.p, mem.len, NULL, n.peer[1], 0, KEY, &w));
			T_OK(fi_tsendmsg(n.ep, &msg, FI_FENCE));
			T_WAIT(&w);
		} else {
			t_trecv(&n, FI_ADDR_UNSPEC, NULL, 0, i, 0, &s);
		}
		T_WAIT(&s);
		if (t_rank == 1)
			T_SAME(mem.p, mem.len, i, 0);
	}
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
	t_buf_free(&mem);
}

static void fence_direct(void)
{
	fence_write(false);
}

static void fence_ring(void)
{
	fence_write(true);
}

static const struct t_case cases[] = {
	{"blocked_peer", 1, blocked, "who can't be reached holds up nobody else", 0},
	{"blocked_peers", 1, blocked_many, "more of them than one look remembers", 0},
	{"fence_message", 3, fence, "after all that went to the peer before", 0},
	{"fence_full", 2, fence_full, "as many as there is room for", 0},
	{"fence_deferred", 2, fence_deferred, "a fence behind a counter", 0},
	{"fence_cancel", 2, fence_cancel, "taken back before it has begun", 0},
	{"fence_counted", 2, fence_counted, "an inject counts when it goes", 0},
	{"fence_closed", 2, fence_closed, "what may go goes before the endpoint does", 10},
	{"fence_gone", 2, fence_gone, "nobody waits for ever", 0},
	{"fence_write", 2, fence_direct, "a message after a write", 0},
	{"fence_write_ring", 2, fence_ring, "the same by the target's hand", 0},
};

const struct t_group group_blocked = T_GROUP("blocked", cases);
