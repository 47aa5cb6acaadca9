/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * counts.c: what a counter says of itself: to who waits for it, to poll sets and to
 * fi_trywait(). One process, one endpoint that sends to another, whose receives are counted; what
 * was sent lies in its ring until something of the second's is read.
 */
#include "cases.h"

#include <poll.h>
#include <string.h>

#include <rdma/fi_trigger.h>

struct pair {
	struct t_node from, to;
	struct t_op op[64];
	unsigned int posted;
	fi_addr_t addr;
	char in[64];
};

static void begin(struct pair *p)
{
	struct t_opts o = {.counters = true, .wait = FI_WAIT_FD, .caps = FI_TRIGGER};
	struct t_op op = {0};
	char c = 0;

	memset(p, 0, sizeof(*p));
	t_open(&p->from, &(struct t_opts){.caps = FI_TRIGGER});
	t_open_beside(&p->to, &p->from, &o);
	p->addr = t_insert(&p->from, p->to.name);
	/* The first one connects them, and makes progress everywhere until it is sent. */
	t_trecv(&p->to, FI_ADDR_UNSPEC, &c, 1, 1, 0, &op);
	T_TRY(fi_tinject(p->from.ep, &c, 1, p->addr, 1));
	T_WAIT(&op);
	T_OK(fi_cntr_set(p->to.rxcntr, 0));
	T_EQ(fi_cntr_read(p->to.rxcntr), 0);
}

static void end(struct pair *p)
{
	t_close(&p->to);
	t_close(&p->from);
}

/* So many receives of 8 bytes, and as many messages of this length, which nobody reads yet. */
static void send_some(struct pair *p, int count, size_t len)
{
	static const char out[64];

	for (int i = 0; i < count; i++) {
		t_trecv(&p->to, FI_ADDR_UNSPEC, p->in, 8, 2, 0, &p->op[p->posted++]);
		T_OK(fi_tinject(p->from.ep, out, len, p->addr, 2));
	}
}

static void collect(struct pair *p, int err)
{
	while (p->posted)
		t_wait(__FILE__, __LINE__, &p->op[--p->posted], err);
	memset(p->op, 0, sizeof(p->op));
}

/* The progress that the wait itself makes may be what finds the error. */
static void wait_error(void)
{
	struct pair p;

	begin(&p);
	for (unsigned int i = 1; i < 4; i++) {
		send_some(&p, 1, 9);
		T_EQ(fi_cntr_wait(p.to.rxcntr, 1, 20000), -FI_EAVAIL);
		T_EQ(fi_cntr_readerr(p.to.rxcntr), i);
		T_EQ(fi_cntr_read(p.to.rxcntr), 0);
		T_EQ(fi_cntr_wait(p.to.rxcntr, 1, 20), -FI_ETIMEDOUT); /* that one is old */
		collect(&p, FI_ETRUNC);
	}
	end(&p);
}

/* Poll sets report what has changed since they were last asked or it was set. fi_poll(3) */
static void polled(void)
{
	struct fi_poll_attr attr = {0};
	struct fid_poll *set;
	struct fid_cntr *cntr;
	void *context[2];
	struct pair p;

	begin(&p);
	cntr = p.to.rxcntr;
	T_OK(fi_poll_open(p.to.domain, &attr, &set));
	T_OK(fi_poll_add(set, &cntr->fid, 0));
	fi_poll(set, context, 2);
	T_EQ(fi_poll(set, context, 2), 0);
	send_some(&p, 5, 8);
	T_EQ(fi_poll(set, context, 2), 1);
	T_CHECK(context[0] == cntr->fid.context, "another counter");
	T_EQ(fi_poll(set, context, 2), 0);
	/* As many again, from zero; the setting itself is no news. */
	T_OK(fi_cntr_set(cntr, 0));
	T_EQ(fi_poll(set, context, 2), 0);
	send_some(&p, 5, 8);
	T_EQ(fi_poll(set, context, 2), 1);
	T_EQ(fi_cntr_read(cntr), 5);
	T_EQ(fi_poll(set, context, 2), 0);
	/* One less by hand, one error more. */
	T_OK(fi_cntr_set(cntr, 4));
	collect(&p, 0);
	send_some(&p, 1, 9);
	T_EQ(fi_poll(set, context, 2), 1);
	T_EQ(fi_poll(set, context, 2), 0);
	collect(&p, FI_ETRUNC);
	T_OK(fi_cntr_add(cntr, 7));
	T_OK(fi_cntr_adderr(cntr, 7));
	T_OK(fi_cntr_seterr(cntr, 1));
	T_EQ(fi_poll(set, context, 2), 0);
	/* Read, and not asked since. */
	send_some(&p, 1, 8);
	T_EQ(fi_cntr_read(cntr), 12);
	T_EQ(fi_poll(set, context, 2), 1);
	T_OK(fi_cntr_add(cntr, 1));
	send_some(&p, 1, 8);
	T_OK(fi_cntr_add(cntr, 1));
	T_EQ(fi_poll(set, context, 2), 1);
	T_EQ(fi_poll(set, context, 2), 0);
	collect(&p, 0);
	T_OK(fi_close(&set->fid));
	end(&p);
}

static bool silent(struct pair *p, struct fid *fid, int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	for (int tries = 0; tries < 10000; tries++) {
		fi_cntr_read(p->to.rxcntr);
		if (!fi_trywait(p->to.fabric, &fid, 1) && !poll(&wait, 1, 0))
			return true;
	}
	return false;
}

/* 0 from fi_trywait() says: go and poll, you have read what there is. */
static void tried(void)
{
	struct fi_deferred_work work = {0};
	struct fi_op_cntr reset = {0};
	struct fid_cntr *cntr, *trigger;
	struct fi_cntr_attr attr = {0};
	struct fid *fid;
	struct pair p;
	int fd;

	begin(&p);
	cntr = p.to.rxcntr;
	fid = &cntr->fid;
	T_OK(fi_control(fid, FI_GETWAIT, &fd));
	send_some(&p, 5, 8);
	while (fi_cntr_read(cntr) < 5)
		t_idle();
	T_CHECK(silent(&p, fid, fd), "never silent");
	/* As many again, from zero. */
	T_OK(fi_cntr_set(cntr, 0));
	send_some(&p, 5, 8);
	T_EQ(fi_trywait(p.to.fabric, &fid, 1), -FI_EAGAIN);
	T_EQ(fi_trywait(p.to.fabric, &fid, 1), -FI_EAGAIN);
	T_EQ(fi_cntr_read(cntr), 5);
	T_CHECK(silent(&p, fid, fd), "never silent");
	collect(&p, 0);
	/* One less by hand, one error more. */
	T_OK(fi_cntr_set(cntr, 4));
	send_some(&p, 1, 9);
	T_EQ(fi_trywait(p.to.fabric, &fid, 1), -FI_EAGAIN);
	T_CHECK(silent(&p, fid, fd), "never silent");
	collect(&p, FI_ETRUNC);
	/* The same by a triggered operation. */
	T_OK(fi_cntr_open(p.to.domain, &attr, &trigger, NULL));
	T_EQ(fi_cntr_read(cntr), 4);
	T_CHECK(silent(&p, fid, fd), "never silent");
	reset = (struct fi_op_cntr){.cntr = cntr, .value = 3};
	work.threshold = 1;
	work.triggering_cntr = trigger;
	work.op_type = FI_OP_CNTR_SET;
	work.op.cntr = &reset;
	T_OK(fi_control(&p.to.domain->fid, FI_QUEUE_WORK, &work));
	T_OK(fi_cntr_add(trigger, 1));
	send_some(&p, 1, 8);
	T_EQ(fi_trywait(p.to.fabric, &fid, 1), -FI_EAGAIN);
	T_EQ(fi_cntr_read(cntr), 4);
	collect(&p, 0);
	T_OK(fi_close(&trigger->fid));
	end(&p);
}

static const struct t_case cases[] = {
	{"counts_wait_error", 1, wait_error, "an error that the wait finds ends it", 0},
	{"counts_polled", 1, polled, "a poll set tells each change once", 0},
	{"counts_tried", 1, tried, "nobody is sent to sleep on news", 0},
};
const struct t_group group_counts = T_GROUP("counts", cases);
