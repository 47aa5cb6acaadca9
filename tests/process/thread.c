/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * thread.c: FI_THREAD_SAFE: several threads of a process send, receive and read
 * completions through one endpoint, and each through its own. A completion may be
 * read by any thread; it is handed over through its operation's `done`.
 */
#include "cases.h"

#include <rdma/fi_trigger.h>

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

struct job {
	struct fi_context2 ctx; /* must be first */
	_Atomic int done;
	int err;
	size_t len;
};

struct worker {
	pthread_t thread;
	struct t_node *n;
	int id;
	int count;
	const fi_addr_t *peer; /* by rank */
	struct t_node own;     /* where each has its own */
	void (*body)(struct worker *w);
};

static void finish_job(void *context, int err, size_t len)
{
	struct job *j = context;

	T_CHECK(j, "a completion without context");
	T_CHECK(!atomic_load_explicit(&j->done, memory_order_relaxed), "completed twice");
	j->err = err;
	j->len = len;
	atomic_store_explicit(&j->done, 1, memory_order_release); /* pairs with: job_done */
}

static bool job_done(struct job *j)
{
	return atomic_load_explicit(&j->done, memory_order_acquire); /* pairs with: finish_job */
}

static void poll_queue(struct t_node *n)
{
	static _Thread_local int idle;
	struct fi_cq_tagged_entry e[4];
	struct fi_cq_err_entry err = {0};
	ssize_t got = fi_cq_read(n->cq, e, 4);

	if (got == -FI_EAGAIN || got == 0) {
		if (++idle > 50)
			sched_yield();
		return;
	}
	idle = 0;
	if (got == -FI_EAVAIL) {
		/* Another thread may have taken it. */
		if (fi_cq_readerr(n->cq, &err, 0) == 1)
			finish_job(err.op_context, err.err, err.len);
		return;
	}
	T_CHECK(got > 0, "fi_cq_read: %s", fi_strerror((int)-got));
	for (ssize_t i = 0; i < got; i++)
		finish_job(e[i].op_context, 0, e[i].len);
}

#define TRY(n, call)                                                                               \
	do {                                                                                       \
		ssize_t rc_;                                                                       \
		while ((rc_ = (call)) == -FI_EAGAIN)                                               \
			poll_queue(n);                                                             \
		T_CHECK(rc_ == 0, "%s: %s", #call, fi_strerror((int)-rc_));                        \
	} while (0)

static void wait_job(struct t_node *n, struct job *j, size_t len)
{
	while (!job_done(j))
		poll_queue(n);
	T_CHECK(!j->err, "error %d (%s)", j->err, fi_strerror(j->err));
	T_EQ(j->len, len);
}

static size_t length(struct t_rng *rng)
{
	static const size_t lens[] = {8, 8, 16, 40, 200, 289, 5000, 8, 20000, 8, 100000, 300000};

	return lens[t_rand_below(rng, 12)];
}

/* Windows of messages to the same thread of the next process, and from the previous. */
static void window_body(struct worker *w)
{
	enum { WINDOW = 4 };
	int next = (t_rank + 1) % t_nproc, prev = (t_rank + t_nproc - 1) % t_nproc;
	struct t_rng out_rng, in_rng;

	t_rng_init(&out_rng, (uint64_t)(t_rank * 100 + w->id));
	t_rng_init(&in_rng, (uint64_t)(prev * 100 + w->id));
	for (int i = 0; i < w->count; i++) {
		struct job tx[WINDOW] = {0}, rx[WINDOW] = {0};
		struct t_buf out[WINDOW], in[WINDOW];

		for (int k = 0; k < WINDOW; k++) {
			uint64_t tag = (uint64_t)w->id << 8 | (uint64_t)k;

			in[k] = t_buf(length(&in_rng), (size_t)i);
			TRY(w->n, fi_trecv(w->n->ep, in[k].p, in[k].len, NULL, FI_ADDR_UNSPEC, tag,
					   0, &rx[k]));
			out[k] = t_buf(length(&out_rng), (size_t)i);
			t_fill(out[k].p, out[k].len, (uint64_t)(t_rank * 10 + i) ^ tag, 0);
			TRY(w->n, fi_tsend(w->n->ep, out[k].p, out[k].len, NULL, w->peer[next], tag,
					   &tx[k]));
		}
		for (int k = 0; k < WINDOW; k++) {
			uint64_t tag = (uint64_t)w->id << 8 | (uint64_t)k;

			wait_job(w->n, &rx[k], in[k].len);
			T_GOT(&in[k], in[k].len, (uint64_t)(prev * 10 + i) ^ tag);
			while (!job_done(&tx[k]))
				poll_queue(w->n);
			t_buf_free(&in[k]);
			t_buf_free(&out[k]);
		}
	}
}

static void *start(void *arg)
{
	struct worker *w = arg;

	w->body(w);
	return NULL;
}

static void run(struct worker *w, int n)
{
	for (int i = 0; i < n; i++)
		T_CHECK(!pthread_create(&w[i].thread, NULL, start, &w[i]), "pthread_create");
	for (int i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
}

static void shared_endpoint(void)
{
	struct t_opts o = {.threading = FI_THREAD_SAFE};
	struct worker *w = calloc(THREADS, sizeof(*w));
	struct t_node n;

	t_start(&n, &o);
	t_barrier();
	n.watched = false; /* the threads read the queue */
	for (int i = 0; i < THREADS; i++) {
		w[i].n = &n;
		w[i].peer = n.peer;
		w[i].id = i;
		w[i].count = t_scaled(60);
		w[i].body = window_body;
	}
	run(w, THREADS);
	n.watched = true;
	t_finish(&n);
	free(w);
}

/* Each thread its own endpoint, in one domain or in one each. */
static void own_endpoints(bool one_domain, enum fi_threading threading)
{
	struct t_opts o = {.threading = threading};
	struct worker *w = calloc(THREADS, sizeof(*w));

	for (int i = 0; i < THREADS; i++) {
		if (i && one_domain)
			t_open_beside(&w[i].own, &w[0].own, &o);
		else
			t_open(&w[i].own, &o);
		t_connect(&w[i].own);
	}
	t_barrier();
	for (int i = 0; i < THREADS; i++) {
		w[i].own.watched = false;
		w[i].n = &w[i].own;
		w[i].peer = w[i].own.peer;
		w[i].id = i;
		w[i].count = t_scaled(60);
		w[i].body = window_body;
	}
	run(w, THREADS);
	for (int i = 0; i < THREADS; i++)
		w[i].own.watched = true;
	t_barrier();
	for (int i = THREADS - 1; i >= 0; i--)
		t_close(&w[i].own);
	free(w);
}

static void own_endpoints_one_domain(void)
{
	own_endpoints(true, FI_THREAD_SAFE);
}

static void own_domains(void)
{
	own_endpoints(false, FI_THREAD_SAFE);
	own_endpoints(false, FI_THREAD_DOMAIN);
}

/* One thread only polls; the others only post and look at `done`. */
static _Atomic bool stop_polling;

static void poller_body(struct worker *w)
{
	while (!atomic_load(&stop_polling))
		poll_queue(w->n);
}

static void poster_body(struct worker *w)
{
	int next = (t_rank + 1) % t_nproc;

	for (int i = 0; i < w->count; i++) {
		struct job tx = {0}, rx = {0};
		uint64_t out = (uint64_t)i, in = 0;
		ssize_t rc;

		while ((rc = fi_trecv(w->n->ep, &in, 8, NULL, FI_ADDR_UNSPEC, (uint64_t)w->id, 0,
				      &rx)) == -FI_EAGAIN)
			sched_yield();
		T_EQ(rc, 0);
		while ((rc = fi_tsend(w->n->ep, &out, 8, NULL, w->peer[next], (uint64_t)w->id,
				      &tx)) == -FI_EAGAIN)
			sched_yield();
		T_EQ(rc, 0);
		while (!job_done(&rx) || !job_done(&tx))
			sched_yield();
		T_EQ(in, i);
	}
}

static void one_poller(void)
{
	struct t_opts o = {.threading = FI_THREAD_SAFE};
	struct worker *w = calloc(THREADS, sizeof(*w));
	struct t_node n;

	t_start(&n, &o);
	t_barrier();
	n.watched = false;
	for (int i = 0; i < THREADS; i++) {
		w[i].n = &n;
		w[i].peer = n.peer;
		w[i].id = i;
		w[i].count = t_scaled(200);
		w[i].body = i ? poster_body : poller_body;
		T_CHECK(!pthread_create(&w[i].thread, NULL, start, &w[i]), "pthread_create");
	}
	for (int i = 1; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	t_barrier_with(NULL); /* the poller still makes progress for the other process */
	atomic_store(&stop_polling, true);
	pthread_join(w[0].thread, NULL);
	n.watched = true;
	t_finish(&n);
	free(w);
}

/* Threads post wildcard receives and sends of the same tag: each message arrives once. */
static _Atomic uint64_t sum_in;

static void same_tag_body(struct worker *w)
{
	int next = (t_rank + 1) % t_nproc;

	for (int i = 0; i < w->count; i++) {
		struct job tx = {0}, rx = {0};
		uint64_t out = (uint64_t)(w->id * w->count + i + 1), in = 0;

		TRY(w->n, fi_trecv(w->n->ep, &in, 8, NULL, FI_ADDR_UNSPEC, 1, ~0ULL, &rx));
		TRY(w->n, fi_tsend(w->n->ep, &out, 8, NULL, w->peer[next], 1, &tx));
		wait_job(w->n, &rx, 8);
		while (!job_done(&tx))
			poll_queue(w->n);
		atomic_fetch_add(&sum_in, in);
	}
}

static void same_tag(void)
{
	struct t_opts o = {.threading = FI_THREAD_SAFE};
	struct worker *w = calloc(THREADS, sizeof(*w));
	uint64_t total = THREADS * (uint64_t)t_scaled(200);
	struct t_node n;

	t_start(&n, &o);
	t_barrier();
	n.watched = false;
	for (int i = 0; i < THREADS; i++) {
		w[i].n = &n;
		w[i].peer = n.peer;
		w[i].id = i;
		w[i].count = t_scaled(200);
		w[i].body = same_tag_body;
	}
	run(w, THREADS);
	T_EQ(sum_in, total * (total + 1) / 2);
	n.watched = true;
	t_finish(&n);
	free(w);
}

/* Threads post and cancel receives that nothing matches. */
static void cancel_body(struct worker *w)
{
	uint64_t v;

	for (int i = 0; i < w->count; i++) {
		struct job rx = {0};

		TRY(w->n, fi_trecv(w->n->ep, &v, 8, NULL, FI_ADDR_UNSPEC, 0xdead0000u, 0, &rx));
		T_EQ(fi_cancel(&w->n->ep->fid, &rx), 0);
		while (!job_done(&rx))
			poll_queue(w->n);
		T_EQ(rx.err, FI_ECANCELED);
	}
}

static void cancels_beside(void)
{
	struct t_opts o = {.threading = FI_THREAD_SAFE};
	struct worker *w = calloc(THREADS, sizeof(*w));
	struct t_node n;

	t_start(&n, &o);
	t_barrier();
	n.watched = false;
	for (int i = 0; i < THREADS; i++) {
		w[i].n = &n;
		w[i].peer = n.peer;
		w[i].id = i;
		w[i].count = t_scaled(i & 1 ? 30 : 200);
		w[i].body = i & 1 ? window_body : cancel_body;
	}
	run(w, THREADS);
	n.watched = true;
	t_finish(&n);
	free(w);
}

/* Endpoints of the same domain come and go while others communicate. */
static void open_close_body(struct worker *w)
{
	struct t_node *n = w->n;

	for (int i = 0; i < w->count; i++) {
		struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
		struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
		struct t_node own = {0};
		struct job tx = {0}, rx = {0};
		uint64_t out = 12, in = 0;
		fi_addr_t self;

		T_OK(fi_endpoint(n->domain, n->info, &own.ep, NULL));
		T_OK(fi_av_open(n->domain, &av_attr, &own.av, NULL));
		T_OK(fi_cq_open(n->domain, &cq_attr, &own.cq, NULL));
		T_OK(fi_ep_bind(own.ep, &own.av->fid, 0));
		T_OK(fi_ep_bind(own.ep, &own.cq->fid, FI_TRANSMIT | FI_RECV));
		T_OK(fi_enable(own.ep));
		own.namelen = sizeof(own.name);
		T_OK(fi_getname(&own.ep->fid, own.name, &own.namelen));
		T_EQ(fi_av_insert(own.av, own.name, 1, &self, 0, NULL), 1);
		TRY(&own, fi_tsend(own.ep, &out, 8, NULL, self, 1, &tx));
		TRY(&own, fi_trecv(own.ep, &in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &rx));
		wait_job(&own, &rx, 8);
		T_EQ(in, 12);
		T_OK(fi_close(&own.ep->fid));
		T_OK(fi_close(&own.cq->fid));
		T_OK(fi_close(&own.av->fid));
	}
}

static void open_close_beside(void)
{
	struct t_opts o = {.threading = FI_THREAD_SAFE};
	struct worker *w = calloc(THREADS, sizeof(*w));
	struct t_node n;

	t_start(&n, &o);
	t_barrier();
	n.watched = false;
	for (int i = 0; i < THREADS; i++) {
		w[i].n = &n;
		w[i].peer = n.peer;
		w[i].id = i;
		w[i].count = t_scaled(i & 1 ? 30 : 20);
		w[i].body = i & 1 ? window_body : open_close_body;
	}
	run(w, THREADS);
	n.watched = true;
	t_finish(&n);
	free(w);
}

/* Threads wait on a queue and a counter, others signal and count by hand, while endpoints
 * are bound to both and closed: now one, now two, now three. */
static _Atomic bool stop_churn;

static void *sleep_body(void *arg)
{
	struct t_node *n = arg;
	struct fi_cq_tagged_entry e;

	while (!atomic_load(&stop_churn))
		T_EQ(fi_cq_sread(n->cq, &e, 1, NULL, 1), -FI_EAGAIN);
	return NULL;
}

static void *count_wait_body(void *arg)
{
	struct t_node *n = arg;
	uint64_t count = 0;

	while (!atomic_load(&stop_churn)) {
		int rc = fi_cntr_wait(n->rxcntr, count + 1, 1);

		T_CHECK(!rc || rc == -FI_ETIMEDOUT, "fi_cntr_wait: %s", fi_strerror(-rc));
		count = fi_cntr_read(n->rxcntr);
	}
	return NULL;
}

static void *signal_body(void *arg)
{
	struct t_node *n = arg;

	while (!atomic_load(&stop_churn)) {
		T_OK(fi_cq_signal(n->cq));
		T_OK(fi_cntr_add(n->rxcntr, 1));
		sched_yield();
	}
	return NULL;
}

static void churn(struct t_node *n, int rounds)
{
	struct fid_ep *ep[2];

	for (int i = 0; i < rounds; i++) {
		for (int k = 0; k < 2; k++) {
			T_OK(fi_endpoint(n->domain, n->info, &ep[k], NULL));
			T_OK(fi_ep_bind(ep[k], &n->av->fid, 0));
			T_OK(fi_ep_bind(ep[k], &n->cq->fid, FI_TRANSMIT | FI_RECV));
			T_OK(fi_ep_bind(ep[k], &n->rxcntr->fid, FI_RECV));
			T_OK(fi_enable(ep[k]));
		}
		for (int k = 0; k < 2; k++)
			T_OK(fi_close(&ep[k]->fid));
	}
}

static void sleepers_beside_churn(void)
{
	void *(*const body[])(void *) = {sleep_body, sleep_body, count_wait_body, signal_body};
	static const enum fi_wait_obj objs[] = {FI_WAIT_UNSPEC, FI_WAIT_FD};
	pthread_t thread[4];

	for (int i = 0; i < 2; i++) {
		struct t_opts o = {.threading = FI_THREAD_SAFE, .counters = true, .wait = objs[i]};
		struct t_node n;

		t_start(&n, &o);
		n.watched = false;
		atomic_store(&stop_churn, false);
		for (int k = 0; k < 4; k++)
			T_OK(pthread_create(&thread[k], NULL, body[k], &n));
		churn(&n, t_scaled(100));
		atomic_store(&stop_churn, true);
		for (int k = 0; k < 4; k++)
			T_OK(pthread_join(thread[k], NULL));
		n.watched = true;
		t_finish(&n);
	}
}

/* Opens that are refused late take back what they have done: the domain still closes. */
static void refused_body(struct worker *w)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_SET};
	struct fid_cntr *cntr;
	struct fid_cq *cq;

	for (int i = 0; i < w->count; i++) { /* there is no set */
		T_EQ(fi_cq_open(w->n->domain, &cq_attr, &cq, NULL), -FI_EINVAL);
		T_EQ(fi_cntr_open(w->n->domain, &cntr_attr, &cntr, NULL), -FI_EINVAL);
	}
}

static void opens_refused(void)
{
	struct t_opts o = {.threading = FI_THREAD_SAFE};
	struct worker *w = calloc(THREADS, sizeof(*w));
	struct t_node n;

	t_open(&n, &o);
	for (int i = 0; i < THREADS; i++) {
		w[i].n = &n;
		w[i].count = t_scaled(20000);
		w[i].body = refused_body;
	}
	run(w, THREADS);
	t_close(&n);
	free(w);
}

/* --- operations that wait -------------------------------------------------------------- */

/* A triggered operation's context: what it waits for, then who hears of it. */
static void when(struct job *j, struct fid_cntr *cntr, size_t threshold)
{
	struct fi_triggered_context t = {
		.event_type = FI_TRIGGER_THRESHOLD,
		.trigger.threshold = {.cntr = cntr, .threshold = threshold},
	};

	static_assert(sizeof(t) <= sizeof(j->ctx), "room");
	*j = (struct job){0};
	memcpy(&j->ctx, &t, sizeof(t));
}

static void triggered(struct fid_ep *ep, fi_addr_t to, struct job *j)
{
	struct fi_msg_tagged msg = {.addr = to, .tag = 1, .context = j};

	T_OK(fi_tsendmsg(ep, &msg, FI_TRIGGER | FI_COMPLETION));
}

static struct fid_ep *closed_endpoint(struct t_node *n, struct fid_cq *cq)
{
	struct fid_ep *ep;

	T_OK(fi_endpoint(n->domain, n->info, &ep, NULL));
	T_OK(fi_ep_bind(ep, &n->av->fid, 0));
	T_OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	return ep;
}

static fi_addr_t address(struct t_node *n, struct fid_ep *ep)
{
	unsigned char name[T_NAME_MAX];
	size_t len = sizeof(name);

	T_OK(fi_getname(&ep->fid, name, &len));
	return t_insert(n, name);
}

struct adder {
	pthread_t thread;
	struct fid_cntr *cntr;
	_Atomic bool over;
};

static void *add_one(void *arg)
{
	struct adder *a = arg;

	T_OK(fi_cntr_add(a->cntr, 1));
	atomic_store(&a->over, true);
	return NULL;
}

/* One thread's count sets off a send that can't be sent yet; others go on queueing at
 * the same counter. It is sent when its peer is there. */
static void work_beside(void)
{
	struct t_opts o = {.threading = FI_THREAD_SAFE, .caps = FI_TRIGGER};
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct adder a = {0};
	struct fi_op_cntr add;
	struct fi_deferred_work later = {
		.threshold = 100, .op_type = FI_OP_CNTR_ADD, .op.cntr = &add};
	struct job first, rx = {0};
	struct fid_cntr *target;
	struct fid_ep *late;
	struct t_node n;
	fi_addr_t to;

	t_start(&n, &o);
	n.watched = false;
	late = closed_endpoint(&n, n.cq);
	to = address(&n, late);
	T_OK(fi_cntr_open(n.domain, &attr, &a.cntr, NULL));
	T_OK(fi_cntr_open(n.domain, &attr, &target, NULL));
	add = (struct fi_op_cntr){target, 1};
	later.triggering_cntr = a.cntr;
	when(&first, a.cntr, 1);
	triggered(n.ep, to, &first);
	T_CHECK(!pthread_create(&a.thread, NULL, add_one, &a), "pthread_create");
	do {
		T_OK(fi_control(&n.domain->fid, FI_QUEUE_WORK, &later));
		T_OK(fi_control(&n.domain->fid, FI_CANCEL_WORK, &later));
		sched_yield();
	} while (!atomic_load(&a.over));
	pthread_join(a.thread, NULL);
	T_OK(fi_enable(late));
	TRY(&n, fi_trecv(late, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, 0, &rx));
	wait_job(&n, &rx, 0);
	wait_job(&n, &first, 0);
	n.watched = true;
	T_OK(fi_close(&late->fid));
	T_OK(fi_close(&target->fid));
	T_OK(fi_close(&a.cntr->fid));
	t_finish(&n);
}

struct reader {
	pthread_t thread;
	struct fid_cq *cq;
	_Atomic uint64_t reads; /* begun */
	_Atomic bool stop;
};

static void *read_on(void *arg)
{
	struct reader *r = arg;
	struct fi_cq_tagged_entry e;

	while (!atomic_load(&r->stop)) {
		atomic_fetch_add(&r->reads, 1);
		fi_cq_read(r->cq, &e, 1);
		sched_yield(); /* the lock is whose turn it happens to be */
	}
	return NULL;
}

/* One thread only reads a queue, and so has what waits in the domain begun; another
 * closes the endpoint that it belongs to. Nothing of it is left. */
static void work_closes(void)
{
	struct t_opts o = {.threading = FI_THREAD_SAFE, .caps = FI_TRIGGER};
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct reader r = {0};
	struct fid_ep *late;
	struct t_node n, m;
	fi_addr_t to;

	t_start(&n, &o);
	t_open_beside(&m, &n, &o);
	n.watched = m.watched = false;
	late = closed_endpoint(&n, n.cq);
	to = address(&n, late);
	r.cq = n.cq;
	T_CHECK(!pthread_create(&r.thread, NULL, read_on, &r), "pthread_create");
	for (int i = 0; i < t_scaled(10); i++) {
		struct fid_ep *ep = closed_endpoint(&n, m.cq);
		struct job first = {0}, later;
		struct fid_cntr *cntr;
		uint64_t reads;

		T_OK(fi_cntr_open(n.domain, &attr, &cntr, NULL));
		T_OK(fi_ep_bind(ep, &cntr->fid, FI_SEND));
		T_OK(fi_enable(ep));
		when(&later, cntr, 1);
		triggered(ep, to, &later);
		TRY(&m, fi_tsend(ep, NULL, 0, NULL, n.peer[0], 2, &first));
		reads = atomic_load(&r.reads);
		while (atomic_load(&r.reads) == reads)
			sched_yield();
		for (int k = 0; k < 2 * (i % 10); k++) /* early in that read, or late */
			sched_yield();
		T_OK(fi_close(&ep->fid));
		wait_job(&m, &first, 0);
		T_OK(fi_close(&cntr->fid));
		T_EQ(job_done(&later), 0);
	}
	atomic_store(&r.stop, true);
	pthread_join(r.thread, NULL);
	n.watched = m.watched = true;
	T_OK(fi_close(&late->fid));
	t_close(&m);
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"thread_shared_endpoint", 2, shared_endpoint, "4 threads, one endpoint", 40},
	{"thread_own_endpoints", 2, own_endpoints_one_domain, "an endpoint each, one domain", 40},
	{"thread_own_domains", 2, own_domains, "a domain each", 40},
	{"thread_one_poller", 2, one_poller, "one thread polls for all", 40},
	{"thread_same_tag", 2, same_tag, "wildcards race, each message once", 40},
	{"thread_cancels_beside", 2, cancels_beside, "cancels beside traffic", 40},
	{"thread_open_close", 2, open_close_beside, "endpoints come and go", 40},
	{"thread_opens_refused", 1, opens_refused, "refused queues and counters leave nothing", 40},
	{"thread_sleepers_beside_churn", 1, sleepers_beside_churn,
	 "endpoints come and go under threads that wait, signal and count", 40},
	{"thread_work_beside", 1, work_beside, "one queues while another begins", 40},
	{"thread_work_closes", 1, work_closes, "one closes what another begins", 40},
};

const struct t_group group_thread = T_GROUP("thread", cases);
