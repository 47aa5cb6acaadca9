/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * set.c: event queues with the application's own events, poll sets and wait sets.
 */
#include "cases.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_eq.h>

static void pause_ms(int ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000l};

	nanosleep(&ts, NULL);
}

/* --- event queues ---------------------------------------------------------- */

static void eq_events(void)
{
	struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
	struct fi_eq_entry in = {.data = 1}, out;
	struct fid *fids[1];
	struct pollfd p = {.events = POLLIN};
	struct t_node n;
	struct fid_eq *eq;
	uint32_t event;

	t_open(&n, NULL);
	T_OK(fi_eq_open(n.fabric, &attr, &eq, NULL));
	fids[0] = &eq->fid;
	T_OK(fi_control(&eq->fid, FI_GETWAIT, &p.fd));
	T_EQ(fi_eq_read(eq, &event, &out, sizeof out, 0), -FI_EAGAIN);
	T_OK(fi_trywait(n.fabric, fids, 1));
	T_EQ(poll(&p, 1, 0), 0);
	for (uint64_t i = 0; i < 5; i++) {
		in.data = i;
		in.context = &in;
		T_EQ(fi_eq_write(eq, FI_NOTIFY + (uint32_t)i, &in, sizeof in, 0), sizeof in);
	}
	T_EQ(poll(&p, 1, 0), 1);
	T_EQ(fi_trywait(n.fabric, fids, 1), -FI_EAGAIN);
	T_EQ(fi_eq_read(eq, &event, &out, sizeof out - 1, 0), -FI_ETOOSMALL);
	for (uint64_t i = 0; i < 5; i++) {
		T_EQ(fi_eq_read(eq, &event, &out, sizeof out, FI_PEEK), sizeof out);
		T_EQ(out.data, i);
		if (i % 2)
			T_EQ(fi_eq_read(eq, &event, &out, sizeof out, 0), sizeof out);
		else
			T_EQ(fi_eq_sread(eq, &event, &out, sizeof out, -1, 0), sizeof out);
		T_EQ(out.data, i);
		T_EQ(event, FI_NOTIFY + i);
		T_CHECK(out.context == &in, "another context");
	}
	T_EQ(poll(&p, 1, 0), 0);
	T_EQ(fi_eq_sread(eq, &event, &out, sizeof out, 30, 0), -FI_EAGAIN);
	T_OK(fi_close(&eq->fid));
	attr.flags = 0;
	T_OK(fi_eq_open(n.fabric, &attr, &eq, NULL));
	T_CHECK(fi_eq_write(eq, FI_NOTIFY, &in, sizeof in, 0) < 0, "written without FI_WRITE");
	T_OK(fi_close(&eq->fid));
	t_close(&n);
}

static void *write_later(void *arg)
{
	struct fi_eq_entry e = {.data = 77};

	pause_ms(60);
	T_EQ(fi_eq_write(arg, FI_NOTIFY, &e, sizeof e, 0), sizeof e);
	return NULL;
}

static void eq_wakes(void)
{
	struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_eq_entry out;
	pthread_t thread;
	struct t_node n;
	struct fid_eq *eq;
	uint32_t event;

	t_open(&n, NULL);
	T_OK(fi_eq_open(n.fabric, &attr, &eq, NULL));
	T_OK(pthread_create(&thread, NULL, write_later, eq));
	T_EQ(fi_eq_sread(eq, &event, &out, sizeof out, 10000, 0), sizeof out);
	T_EQ(out.data, 77);
	T_OK(pthread_join(thread, NULL));
	T_OK(fi_close(&eq->fid));
	t_close(&n);
}

/* --- poll sets -------------------------------------------------------------- */

static void poll_set(void)
{
	struct fi_poll_attr attr = {0};
	struct t_opts o = {.counters = true};
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx;
	struct fid_poll *set;
	void *context[4];
	uint64_t v = 3;
	struct t_node n;

	t_start(&n, &o);
	n.cq->fid.context = "cq";
	n.rxcntr->fid.context = "cntr";
	T_OK(fi_poll_open(n.domain, &attr, &set));
	T_OK(fi_poll_add(set, &n.cq->fid, 0));
	T_OK(fi_poll_add(set, &n.rxcntr->fid, 0));
	if (t_rank == 0) {
		T_EQ(fi_poll(set, context, 4), 0);
		t_barrier();
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 1));
	} else {
		int n_events = 0;
		bool cq = false, cntr = false;

		T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx));
		T_EQ(fi_poll(set, context, 4), 0);
		t_barrier();
		while (!cq || !cntr) {
			n_events = fi_poll(set, context, 4);
			T_CHECK(n_events >= 0, "fi_poll: %d", n_events);
			for (int i = 0; i < n_events; i++) {
				cq |= !strcmp(context[i], "cq");
				cntr |= !strcmp(context[i], "cntr");
			}
		}
		T_EQ(fi_poll(set, context, 1), 1); /* it can still be read */
		T_EQ(fi_cq_read(n.cq, &e, 1), 1);
		T_EQ(fi_poll(set, context, 4), 0);
	}
	T_EQ(fi_close(&n.cq->fid), -FI_EBUSY);
	T_OK(fi_poll_del(set, &n.cq->fid, 0));
	T_CHECK(fi_poll_del(set, &n.cq->fid, 0), "taken out twice");
	T_CHECK(fi_close(&n.domain->fid) == -FI_EBUSY, "a domain closed under a poll set");
	T_OK(fi_close(&set->fid));
	t_finish(&n);
}

/* What is in a set isn't closed; what has been closed or taken out isn't looked at. */
static void poll_held(void)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cntr_attr cntr_attr = {0};
	struct fi_poll_attr attr = {0};
	struct fid_domain *other;
	struct fid_poll *set;
	struct fid_cntr *cntr;
	struct fid_cq *cq;
	void *context[4];
	struct t_node n;

	t_open(&n, NULL);
	T_OK(fi_poll_open(n.domain, &attr, &set));
	T_OK(fi_cq_open(n.domain, &cq_attr, &cq, NULL));
	T_OK(fi_cntr_open(n.domain, &cntr_attr, &cntr, NULL));
	for (int i = 0; i < 2; i++) { /* twice in is once */
		T_OK(fi_poll_add(set, &cq->fid, 0));
		T_OK(fi_poll_add(set, &cntr->fid, 0));
	}
	T_EQ(fi_close(&cq->fid), -FI_EBUSY);
	T_EQ(fi_close(&cntr->fid), -FI_EBUSY);
	T_EQ(fi_poll(set, context, 4), 0);
	T_OK(fi_poll_del(set, &cq->fid, 0));
	T_OK(fi_close(&cq->fid));
	T_EQ(fi_poll(set, context, 4), 0);
	T_OK(fi_domain(n.fabric, n.info, &other, NULL));
	T_OK(fi_cq_open(other, &cq_attr, &cq, NULL));
	if (t_beeline)
		T_EQ(fi_poll_add(set, &cq->fid, 0), -FI_EDOMAIN);
	T_OK(fi_close(&cq->fid));
	T_OK(fi_close(&other->fid));
	T_OK(fi_close(&set->fid)); /* lets go of the counter */
	T_OK(fi_close(&cntr->fid));
	t_close(&n);
}

/* --- wait sets -------------------------------------------------------------- */

static void wait_set(void)
{
	struct fi_eq_attr eq_attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_SET};
	struct t_opts o = {.two_cqs = true};
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx;
	struct fi_eq_entry entry = {.data = 4};
	struct t_set in;
	struct fid_wait *set;
	struct fid_eq *eq;
	uint32_t event;
	uint64_t v = 3;
	struct t_node n;

	t_start_in_set(&n, &o, &in);
	set = eq_attr.wait_set = in.wait;
	T_OK(fi_eq_open(in.fabric, &eq_attr, &eq, NULL));
	T_CHECK(fi_close(&set->fid) == -FI_EBUSY, "closed with members");
	if (t_rank == 0) {
		t_barrier();
		pause_ms(80);
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 1));
	} else {
		T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx));
		T_EQ(fi_wait(set, 30), -FI_ETIMEDOUT);
		t_barrier();
		while (fi_cq_read(n.cq, &e, 1) == -FI_EAGAIN)
			T_OK(fi_wait(set, 10000));
	}
	T_EQ(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0), sizeof entry);
	T_OK(fi_wait(set, 10000));
	T_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, 0), sizeof entry);
	T_OK(fi_close(&eq->fid));
	t_finish_in_set(&n, &in);
}

/* A queue that is closed leaves its set, though a forked process still holds its descriptor. */
static void wait_forked(void)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_eq_attr eq_attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_SET};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_eq_entry entry = {.data = 4};
	struct fid_cntr *cntr;
	struct fid_wait *set;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct t_node n;
	int child, end[2];
	char c;

	t_open(&n, NULL);
	T_OK(fi_wait_open(n.fabric, &attr, &set));
	eq_attr.wait_set = cq_attr.wait_set = cntr_attr.wait_set = set;
	T_OK(fi_eq_open(n.fabric, &eq_attr, &eq, NULL));
	T_OK(fi_cq_open(n.domain, &cq_attr, &cq, NULL));
	T_OK(fi_cntr_open(n.domain, &cntr_attr, &cntr, NULL));
	T_EQ(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0), sizeof entry);
	T_OK(fi_cq_signal(cq));
	T_OK(fi_cntr_add(cntr, 1));
	T_OK(pipe(end));
	child = fork();
	T_CHECK(child >= 0, "no child");
	if (!child) {
		close(end[1]);
		_exit(read(end[0], &c, 1) != 0);
	}
	T_OK(fi_close(&eq->fid));
	T_OK(fi_close(&cq->fid));
	T_OK(fi_close(&cntr->fid));
	T_EQ(fi_wait(set, 30), -FI_ETIMEDOUT);
	close(end[0]);
	close(end[1]);
	T_EQ(waitpid(child, NULL, 0), child);
	T_OK(fi_close(&set->fid));
	t_close(&n);
}

static void *signal_later(void *arg)
{
	pause_ms(60);
	T_OK(fi_cq_signal(arg));
	return NULL;
}

/* A forked process that closes what it has inherited takes nothing from its parent's set. */
static void wait_fork_closes(void)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct t_opts o = {.threading = FI_THREAD_SAFE};
	struct fid_wait *set;
	struct fid_cq *cq;
	pthread_t thread;
	struct t_node n;
	int child;

	t_open(&n, &o);
	T_OK(fi_wait_open(n.fabric, &attr, &set));
	cq_attr.wait_set = set;
	T_OK(fi_cq_open(n.domain, &cq_attr, &cq, NULL));
	child = fork();
	T_CHECK(child >= 0, "no child");
	if (!child)
		_exit(fi_close(&cq->fid) != 0);
	T_EQ(waitpid(child, NULL, 0), child);
	T_EQ(fi_wait(set, 30), -FI_ETIMEDOUT);
	T_OK(pthread_create(&thread, NULL, signal_later, cq));
	T_OK(fi_wait(set, 10000));
	T_OK(pthread_join(thread, NULL));
	T_OK(fi_close(&cq->fid));
	T_OK(fi_close(&set->fid));
	t_close(&n);
}

static const struct t_case cases[] = {
	{"set_eq_events", 1, eq_events, "events written are read in order", 0},
	{"set_eq_wakes", 1, eq_wakes, "an event wakes a waiting read", 0},
	{"set_poll", 2, poll_set, "a poll set names what has something", 0},
	{"set_poll_held", 1, poll_held, "what is in a poll set isn't closed", 0},
	{"set_wait", 2, wait_set, "a wait set wakes for each of its members", 0},
	{"set_wait_forked", 1, wait_forked, "what is closed leaves its set", 0},
	{"set_wait_fork_closes", 1, wait_fork_closes, "what a child closes doesn't", 0},
};
const struct t_group group_set = T_GROUP("set", cases);
