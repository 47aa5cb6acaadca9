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

/* While a large message to the peer waits for its receive, nothing fenced goes there;
 * to others it does. */
static void fence(void)
{
	struct t_opts o = {.caps = CAPS};
	struct t_buf buf = t_buf(1000000, 0);
	struct t_op big = {0}, small = {0}, other = {0};
	struct fi_msg_tagged msg = {.tag = 2, .context = &small};
	struct fi_msg untagged = {.context = &small};
	struct t_node n;

	t_start(&n, &o);
	if (t_rank == 0) {
		msg.addr = untagged.addr = n.peer[1];
		t_tsend(&n, 1, buf.p, buf.len, 1, &big);
		for (int i = 0; i < 1000; i++) {
			T_EQ(fi_tsendmsg(n.ep, &msg, FI_FENCE), -FI_EAGAIN);
			T_EQ(fi_sendmsg(n.ep, &untagged, FI_FENCE), -FI_EAGAIN);
			t_progress();
		}
		msg.addr = n.peer[2];
		msg.context = &other;
		T_TRY(fi_tsendmsg(n.ep, &msg, FI_FENCE));
		T_WAIT(&other);
		T_EQ(big.done, 0);
		t_barrier();
		msg.addr = n.peer[1];
		msg.context = &small;
		T_TRY(fi_tsendmsg(n.ep, &msg, FI_FENCE));
		T_WAIT(&big);
		T_WAIT(&small);
		T_CHECK(big.c.order < small.c.order, "the fenced one was first");
	} else {
		t_barrier();
		if (t_rank == 1) {
			t_trecv(&n, FI_ADDR_UNSPEC, buf.p, buf.len, 1, 0, &big);
			T_WAIT(&big);
		}
		t_trecv(&n, FI_ADDR_UNSPEC, NULL, 0, 2, 0, &small);
		T_WAIT(&small);
	}
	t_finish(&n);
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
			T_TRY(fi_tsendmsg(n.ep, &msg, FI_FENCE));
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
	{"fence_write", 2, fence_direct, "a message after a write", 0},
	{"fence_write_ring", 2, fence_ring, "the same by the target's hand", 0},
};

const struct t_group group_blocked = T_GROUP("blocked", cases);
