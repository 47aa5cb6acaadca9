/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wait.c: a process that waits sleeps, and whatever it waits for wakes it: waiting
 * reads of queues, counters, descriptors. That it slept shows in the CPU time it
 * used; that it was woken, and did not just look now and then, in the time it took.
 */
#include "ways.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_eq.h>

#define LARGE (3u << 20)

static void check_context(const struct fi_cq_tagged_entry *e, const void *context)
{
	T_CHECK(e->op_context == context, "a completion of something else");
}

/* One message that comes `away` ms after the receiver began to wait. Whether it used
 * hardly any CPU meanwhile, and woke soon. */
static bool one_message(struct t_node *n, waiter_fn wait, size_t len, int away)
{
	struct t_buf b = t_buf(len, 0);
	struct fi_context2 ctx;
	struct fi_cq_tagged_entry e;
	uint64_t used = 0, woke, all[2];

	t_at("%zu bytes", len);
	t_barrier_with(NULL);
	if (t_rank == 0) {
		uint64_t sent;

		t_fill(b.p, len, 7, 0);
		pause_ms(away);
		sent = now();
		T_TRY(fi_tsend(n->ep, b.p, len, NULL, n->peer[1], 1, &ctx));
		T_EQ(wait(n, &e, -1), 1);
		check_context(&e, &ctx);
		t_allgather(&sent, sizeof sent, all, NULL);
		t_allgather(&used, sizeof used, all, NULL);
	} else {
		t_blank(&b);
		T_TRY(fi_trecv(n->ep, b.p, len, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx));
		used = cpu();
		T_EQ(wait(n, &e, -1), 1);
		woke = now();
		used = cpu() - used;
		check_context(&e, &ctx);
		T_GOT(&b, len, 7);
		t_allgather(&woke, sizeof woke, all, NULL);
		woke -= all[0];
		t_at("%zu bytes: %llu us of CPU in a wait of %d ms, woken %llu us after", len,
		     (unsigned long long)used / 1000, away, (unsigned long long)woke / 1000);
		/* Looking now and then, every 50 ms, would be late by 25 on average. */
		used = used < (uint64_t)away * 1000000u / 4 && woke < 12000000u;
		t_allgather(&used, sizeof used, all, NULL);
	}
	t_buf_free(&b);
	return all[1];
}

static void messages(waiter_fn wait, enum fi_wait_obj obj, enum fi_threading threading)
{
	static const size_t lens[] = {0, 8, 200, 3000, LARGE};
	struct t_opts o = {.wait = obj, .threading = threading};
	struct t_node n;

	t_start(&n, &o);
	for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
		int tries = TRIES;

		one_message(&n, wait, lens[i], 0);
		while (!one_message(&n, wait, lens[i], 120))
			T_CHECK(--tries, "%zu bytes: not asleep, or woken late, every time",
				lens[i]);
	}
	t_finish(&n);
}

static void sread_messages(void)
{
	messages(by_sread, FI_WAIT_UNSPEC, 0);
}

static void sread_locked(void)
{
	messages(by_sread, FI_WAIT_UNSPEC, FI_THREAD_SAFE);
}

static void sread_fd(void)
{
	messages(by_sread, FI_WAIT_FD, 0);
}

static void poll_messages(void)
{
	messages(by_poll, FI_WAIT_FD, 0);
}

static void epoll_messages(void)
{
	messages(by_epoll, FI_WAIT_FD, FI_THREAD_SAFE);
}

static void select_messages(void)
{
	messages(by_select, FI_WAIT_FD, 0);
}

/* A wait for nothing never ends early. Whether it slept, and one of no time was over soon. */
static bool one_timeout(struct t_node *n, waiter_fn wait)
{
	uint64_t start = now(), used = cpu(), took;
	struct fi_cq_tagged_entry e;

	T_EQ(wait(n, &e, 150), -FI_EAGAIN);
	used = cpu() - used;
	took = now() - start;
	T_CHECK(took >= 149000000u, "back after %llu us", (unsigned long long)took / 1000);
	start = now();
	T_EQ(wait(n, &e, 0), -FI_EAGAIN);
	took = now() - start;
	t_at("%llu us of CPU in a wait of 150 ms, %llu us in one of no time",
	     (unsigned long long)used / 1000, (unsigned long long)took / 1000);
	return used < 40000000u && took < 100000000u;
}

static void timeouts(void)
{
	static const waiter_fn ways[] = {by_sread, by_poll};
	struct t_opts o = {.wait = FI_WAIT_FD};
	struct t_node n;

	t_start(&n, &o);
	t_barrier_with(NULL);
	for (int i = 0; i < 2; i++) {
		int tries = TRIES;

		while (!one_timeout(&n, ways[i]))
			T_CHECK(--tries, "it polled, or came back late, every time");
	}
	t_finish(&n);
}

/* Nothing is there, and the descriptor says so; news of connections may come first. */
static void become_quiet(struct t_node *n, int fd)
{
	struct fid *fids[] = {&n->cq->fid};
	struct fi_cq_tagged_entry e;
	int tries = 1000;

	do {
		T_CHECK(tries--, "never quiet");
		T_EQ(fi_cq_read(n->cq, &e, 1), -FI_EAGAIN);
	} while (fi_trywait(n->fabric, fids, 1) == -FI_EAGAIN || sleep_on(fd, 0, POLL));
}

/* fi_trywait says no while something can be read, yes after, and the descriptor is
 * readable from a message on until it has been dealt with. */
static void trywait(void)
{
	struct t_opts o = {.wait = FI_WAIT_FD};
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx[2];
	uint64_t v = 5, got[2];
	struct t_node n;

	t_start(&n, &o);
	if (t_rank == 1) {
		struct fid *fids[] = {&n.cq->fid};
		int fd = descriptor(fids[0]);

		for (int i = 0; i < 2; i++)
			T_TRY(fi_trecv(n.ep, &got[i], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[i]));
		t_barrier_with(NULL); /* it has connected, and sent what nobody waits for */
		become_quiet(&n, fd);
		t_barrier_with(NULL); /* it sends, once */
		T_EQ(sleep_on(fd, 5000, POLL), 1);
		T_EQ(sleep_on(fd, 0, POLL), 1);
		T_EQ(fi_trywait(n.fabric, fids, 1), -FI_EAGAIN);
		T_EQ(fi_cq_read(n.cq, &e, 1), 1);
		check_context(&e, &ctx[0]);
		become_quiet(&n, fd);
		t_barrier_with(NULL); /* again, while this process does not look */
		t_barrier_with(NULL);
		T_EQ(fi_trywait(n.fabric, fids, 1), -FI_EAGAIN);
		T_EQ(fi_cq_read(n.cq, &e, 1), 1);
		check_context(&e, &ctx[1]);
	} else {
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 2)); /* connected, and early */
		t_barrier_with(NULL);
		t_barrier_with(NULL);
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 1));
		t_barrier_with(NULL);
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 1));
		t_barrier_with(NULL);
	}
	t_finish(&n);
}

/* Everybody sends to rank 0 in bursts with pauses of random length, so that some
 * messages meet a process that is about to sleep, asleep or just awake. It must get
 * each without ever waiting for a look that it takes every 50 ms anyway. */
static void storm_with(waiter_fn wait, enum fi_wait_obj obj, int rounds)
{
	struct t_opts o = {.wait = obj};
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx;
	struct t_rng rng;
	struct t_node n;
	uint64_t v = 0, slow = 0;

	t_start(&n, &o);
	t_rng_init(&rng, (uint64_t)t_rank);
	rounds = t_scaled(rounds);
	if (t_rank == 0)
		for (int i = 1; i < t_nproc; i++) { /* connect before the clock counts */
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[i], 9));
			T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 9, 0, &ctx));
			T_EQ(wait(&n, &e, -1), 1);
		}
	else {
		T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 9, 0, &ctx));
		T_EQ(wait(&n, &e, -1), 1);
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[0], 9));
	}
	t_barrier_with(NULL);
	for (int i = 0; i < rounds; i++) {
		if (t_rank == 0) {
			for (int from = 1; from < t_nproc; from++) {
				uint64_t start = now();

				T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx));
				T_EQ(wait(&n, &e, -1), 1);
				slow += now() - start > 45000000u;
			}
			for (int to = 1; to < t_nproc; to++)
				T_TRY(fi_tinject(n.ep, &v, 8, n.peer[to], 2));
		} else {
			uint64_t until = now() + t_rand_below(&rng, i % 2 ? 100000 : 30000);

			T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 2, 0, &ctx));
			while (now() < until)
				;
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[0], 1));
			T_EQ(wait(&n, &e, -1), 1);
		}
		if (i % 256 == 0)
			t_at("round %d", i);
	}
	/* A machine that is busy may be late a few times, a lost wake always is. */
	T_CHECK(slow <= (uint64_t)rounds / 500 + 3, "%llu of %d rounds took 45 ms or more",
		(unsigned long long)slow, rounds);
	t_finish(&n);
}

static void storm_sread(void)
{
	storm_with(by_sread, FI_WAIT_UNSPEC, 20000);
}

static void storm_fd(void)
{
	storm_with(by_poll, FI_WAIT_FD, 10000);
}

/* Is there anything to be woken by, where a ring is full? */
static bool room_wakes(void)
{
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	return t_beeline && commands > 0 && commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED;
}

/* A message, until it is there: true if a poll of the descriptor took so long that nobody can
 * have ended it but the service thread, which looks whether a doorbell was lost. */
static bool send_when_there_is_room(struct t_node *n, int fd, uint64_t v, uint64_t *sleeps)
{
	struct fid *fids[] = {&n->cq->fid};
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx;
	bool slow = false;
	ssize_t rc;

	T_EQ(fi_tsend(n->ep, &v, 8, NULL, n->peer[1], 1, &ctx), 0);
	while ((rc = fi_cq_read(n->cq, &e, 1)) == -FI_EAGAIN) {
		uint64_t start = now();

		if (!fi_trywait(n->fabric, fids, 1)) {
			T_EQ(sleep_on(fd, 5000, POLL), 1);
			++*sleeps;
		}
		slow |= now() - start > 45000000u;
	}
	T_EQ(rc, 1);
	return slow;
}

/* A sender fills a ring that is read in bursts, with pauses: it sleeps until there is room for the
 * next message, and whoever makes some wakes it, each time. */
static void storm_room(void)
{
	uint64_t count = (uint64_t)t_scaled(20000), got, slow = 0, sleeps = 0;
	struct t_opts o = {.wait = FI_WAIT_FD};
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx;
	struct t_rng rng;
	struct t_node n;

	t_start(&n, &o);
	t_rng_init(&rng, (uint64_t)t_rank);
	t_barrier_with(NULL);
	for (uint64_t i = 0; i < count; i++) {
		if (t_rank == 0) {
			slow += send_when_there_is_room(&n, descriptor(&n.cq->fid), i, &sleeps);
			continue;
		}
		if (!t_rand_below(&rng, 100))
			for (uint64_t until = now() + t_rand_below(&rng, 200000); now() < until;)
				;
		T_TRY(fi_trecv(n.ep, &got, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx));
		T_EQ(by_poll(&n, &e, -1), 1);
		T_EQ(got, i);
	}
	T_CHECK(t_rank || sleeps || !room_wakes(), "it never slept");
	T_CHECK(slow <= count / 500 + 3, "%llu of %llu sends took 45 ms or more",
		(unsigned long long)slow, (unsigned long long)count);
	t_barrier_with(NULL);
	t_finish(&n);
}

/* fi_cq_signal from another thread ends a waiting read. */
static void *signal_later(void *arg)
{
	pause_ms(60);
	T_OK(fi_cq_signal(arg));
	return NULL;
}

static void signalled(void)
{
	static const enum fi_wait_obj objs[] = {FI_WAIT_UNSPEC, FI_WAIT_FD};
	struct fi_cq_tagged_entry e;

	for (int i = 0; i < 2; i++) {
		struct t_opts o = {.wait = objs[i], .threading = FI_THREAD_SAFE};
		pthread_t thread;
		struct t_node n;
		uint64_t start;

		t_start(&n, &o);
		start = now();
		T_OK(pthread_create(&thread, NULL, signal_later, n.cq));
		T_EQ(fi_cq_sread(n.cq, &e, 1, NULL, 10000), -FI_EAGAIN);
		T_CHECK(now() - start < 5000000000u, "the signal was not heard");
		T_OK(pthread_join(thread, NULL));
		t_finish(&n);
	}
}

/* Two threads sleep on the two queues of one endpoint; each hears of its own. */
static void *wait_tx(void *arg)
{
	struct t_node *n = arg;
	struct fi_cq_tagged_entry e;

	T_EQ(fi_cq_sread(n->txcq, &e, 1, NULL, -1), 1);
	T_CHECK(e.flags & FI_SEND, "not a send");
	return NULL;
}

static void two_queues_with(enum fi_wait_obj obj)
{
	struct t_opts o = {.wait = obj, .threading = FI_THREAD_SAFE, .two_cqs = true};
	struct t_buf out, in;
	struct t_node n;

	t_start(&n, &o);
	out = t_buf(LARGE, 0);
	in = t_buf(LARGE, 0);
	for (int i = 0; i < 30; i++) {
		struct fi_cq_tagged_entry e;
		struct fi_context2 tx, rx;
		pthread_t thread;

		t_at("round %d", i);
		T_OK(pthread_create(&thread, NULL, wait_tx, &n));
		pause_ms(i % 3);
		T_TRY(fi_trecv(n.ep, in.p, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, &rx));
		T_TRY(fi_tsend(n.ep, out.p, LARGE, NULL, n.peer[1 - t_rank], 1, &tx));
		T_EQ(fi_cq_sread(n.cq, &e, 1, NULL, -1), 1);
		T_CHECK(e.flags & FI_RECV, "not a receive");
		T_OK(pthread_join(thread, NULL));
	}
	t_buf_free(&out);
	t_buf_free(&in);
	t_finish(&n);
}

static void two_queues(void)
{
	two_queues_with(FI_WAIT_UNSPEC);
	two_queues_with(FI_WAIT_FD);
}

/* fi_cntr_wait sleeps until the count is there; fi_cntr_add by another thread too. */
static void *add_later(void *arg)
{
	pause_ms(60);
	T_OK(fi_cntr_add(arg, 5));
	return NULL;
}

static void counters(void)
{
	struct t_opts o = {.counters = true, .wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
	struct t_op op[3] = {0};
	uint64_t v[3] = {0}, used;
	pthread_t thread;
	struct t_node n;

	t_start(&n, &o);
	t_barrier_with(NULL);
	if (t_rank == 0) {
		for (int i = 0; i < 3; i++) {
			pause_ms(70);
			t_tsend(&n, 1, &v[i], 8, 1, &op[i]);
		}
		T_OK(fi_cntr_wait(n.txcntr, 3, -1));
	} else {
		for (int i = 0; i < 3; i++)
			t_trecv(&n, FI_ADDR_UNSPEC, &v[i], 8, 1, 0, &op[i]);
		used = cpu();
		T_OK(fi_cntr_wait(n.rxcntr, 3, -1));
		T_CHECK(cpu() - used < 60000000u, "%llu us of CPU",
			(unsigned long long)(cpu() - used) / 1000);
		T_EQ(fi_cntr_read(n.rxcntr), 3);
		T_EQ(fi_cntr_wait(n.rxcntr, 4, 60), -FI_ETIMEDOUT);
		T_OK(pthread_create(&thread, NULL, add_later, n.rxcntr));
		T_OK(fi_cntr_wait(n.rxcntr, 8, 10000));
		T_OK(pthread_join(thread, NULL));
	}
	for (int i = 0; i < 3; i++)
		T_WAIT(&op[i]);
	t_finish(&n);
}

/* A counter's descriptor. */
static void counter_fd(void)
{
	struct t_opts o = {.counters = true, .wait = FI_WAIT_FD};
	struct t_op op = {0};
	struct t_node n;
	uint64_t v = 0;

	t_start(&n, &o);
	if (t_rank == 1) {
		struct fid *fids[] = {&n.rxcntr->fid};
		int fd = descriptor(fids[0]);

		t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 1, 0, &op);
		t_barrier_with(NULL);
		while (!fi_cntr_read(n.rxcntr)) {
			int rc = fi_trywait(n.fabric, fids, 1);

			if (rc == -FI_EAGAIN)
				continue;
			T_OK(rc);
			T_EQ(sleep_on(fd, 5000, POLL), 1);
		}
	} else {
		t_barrier_with(NULL);
		pause_ms(80);
		t_tsend(&n, 1, &v, 8, 1, &op);
	}
	T_WAIT(&op);
	t_finish(&n);
}

/* --- several threads, one descriptor ------------------------------------------------
 * What another thread does between a successful fi_trywait and the poll that follows is
 * done here by the same one: poll must find the descriptor readable. */

static int quiet(struct t_node *n, struct fid *fid, int fd)
{
	for (int tries = 10000; tries--;) {
		if (fid->fclass == FI_CLASS_CNTR)
			fi_cntr_read((struct fid_cntr *)fid);
		if (!fi_trywait(n->fabric, &fid, 1) && !sleep_on(fd, 0, POLL))
			return 0;
	}
	return -1;
}

/* A count by the call itself, which no neighbour's doorbell announces. */
static void count_armed(void)
{
	struct t_opts o = {.counters = true, .wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
	struct t_op op[4] = {0};
	struct t_node n;
	uint64_t v[32] = {0};

	t_start(&n, &o);
	if (t_rank == 1) {
		t_tsend(&n, 0, v, 8, 1, &op[0]);
		t_tsend(&n, 0, v, sizeof v, 2, &op[1]);
		t_trecv(&n, FI_ADDR_UNSPEC, v, 8, 3, 0, &op[2]);
		t_mark(&n, 0, 1);
		for (int i = 0; i < 3; i++)
			T_WAIT(&op[i]);
	} else {
		struct fid *tx = &n.txcntr->fid, *rx = &n.rxcntr->fid;
		int txfd = descriptor(tx), rxfd = descriptor(rx);

		t_wait_mark(&n, 1, 1); /* both are here, and wait for their receives */
		T_OK(quiet(&n, tx, txfd));
		t_tsend(&n, 1, v, 8, 3, &op[2]);
		T_EQ(sleep_on(txfd, 5000, POLL), 1);
		T_OK(quiet(&n, rx, rxfd));
		t_trecv(&n, FI_ADDR_UNSPEC, v, 8, 1, 0, &op[0]);
		T_EQ(sleep_on(rxfd, 5000, POLL), 1);
		T_OK(quiet(&n, rx, rxfd));
		t_trecv(&n, FI_ADDR_UNSPEC, v, 8, 2, 0, &op[1]); /* too short: an error */
		T_EQ(sleep_on(rxfd, 5000, POLL), 1);
		T_OK(quiet(&n, rx, rxfd));
		T_OK(fi_cntr_seterr(n.rxcntr, 0));
		T_EQ(sleep_on(rxfd, 5000, POLL), 1);
		T_WAIT(&op[0]);
		T_WAIT_ERR(&op[1], FI_ETRUNC);
		T_WAIT(&op[2]);
	}
	t_finish(&n);
}

static struct fid_ep *another_endpoint(struct t_node *n)
{
	struct fid_ep *ep;

	T_OK(fi_endpoint(n->domain, n->info, &ep, NULL));
	T_OK(fi_ep_bind(ep, &n->av->fid, 0));
	T_OK(fi_ep_bind(ep, &n->cq->fid, FI_TRANSMIT | FI_RECV));
	return ep;
}

/* Another thread waits on the queue meanwhile, in vain or not, and stops waiting. */
static void armed_beside(struct t_node *n)
{
	struct fid *fid = &n->cq->fid;
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx[2];
	int fd = descriptor(fid);
	uint64_t v = 1;

	T_OK(quiet(n, fid, fd));
	T_EQ(fi_cq_sread(n->cq, &e, 1, NULL, 20), -FI_EAGAIN);
	T_TRY(fi_tsend(n->ep, &v, 8, NULL, n->peer[1], 1, &ctx[0]));
	T_EQ(sleep_on(fd, 5000, POLL), 1);
	/* It takes what was there, and with it what made the descriptor readable. */
	T_EQ(fi_cq_sread(n->cq, &e, 1, NULL, 5000), 1);
	check_context(&e, &ctx[0]);
	T_EQ(fi_cq_sread(n->cq, &e, 1, NULL, 20), -FI_EAGAIN);
	T_TRY(fi_tsend(n->ep, &v, 8, NULL, n->peer[1], 1, &ctx[1]));
	T_EQ(sleep_on(fd, 5000, POLL), 1);
	/* Asked whether to sleep, it is told of the completion, which may be for two. */
	T_EQ(fi_trywait(n->fabric, &fid, 1), -FI_EAGAIN);
	T_EQ(sleep_on(fd, 5000, POLL), 1);
	T_EQ(fi_cq_read(n->cq, &e, 1), 1);
	check_context(&e, &ctx[1]);
}

static void queue_armed(void)
{
	struct t_opts o = {.wait = FI_WAIT_FD, .threading = FI_THREAD_SAFE};
	struct fi_cq_tagged_entry e;
	struct fi_context2 ctx;
	struct fid_ep *ep;
	struct t_node n;
	uint64_t v = 1;

	t_start(&n, &o);
	if (t_rank == 1) {
		for (int i = 0; i < 5; i++) {
			T_TRY(fi_trecv(n.ep, &v, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx));
			T_EQ(fi_cq_sread(n.cq, &e, 1, NULL, -1), 1);
		}
	} else {
		T_TRY(fi_tsend(n.ep, &v, 8, NULL, n.peer[1], 1, &ctx)); /* connected */
		T_EQ(fi_cq_sread(n.cq, &e, 1, NULL, -1), 1);
		armed_beside(&n); /* where a waiting read sleeps on a futex */
		T_OK(quiet(&n, &n.cq->fid, descriptor(&n.cq->fid)));
		/* What comes to a new endpoint can't be heard by who polls already. */
		ep = another_endpoint(&n);
		T_OK(fi_enable(ep));
		T_EQ(sleep_on(descriptor(&n.cq->fid), 5000, POLL), 1);
		armed_beside(&n); /* and where on the descriptor */
		T_OK(fi_close(&ep->fid));
	}
	t_finish(&n);
}

/* A wait condition is a hint (fi_cq(3)): one completion of the two asked for ends the wait.
 * One that nobody knows is refused, unless nobody can wait. */
static void condition(void)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED,
				  .wait_obj = FI_WAIT_UNSPEC,
				  .wait_cond = FI_CQ_COND_THRESHOLD};
	struct fi_cq_tagged_entry entry[2];
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct t_op op;
	struct t_node n;

	t_start(&n, NULL);
	T_OK(fi_cq_open(n.domain, &attr, &cq, NULL));
	T_OK(fi_endpoint(n.domain, n.info, &ep, NULL));
	T_OK(fi_ep_bind(ep, &n.av->fid, 0));
	T_OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	T_OK(fi_enable(ep));
	T_TRY(fi_tsend(ep, "c", 1, NULL, n.peer[0], 1, &op));
	if (t_beeline)
		T_EQ(fi_cq_sread(cq, entry, 2, (void *)2, -1), 1);
	T_OK(fi_close(&ep->fid));
	T_OK(fi_close(&cq->fid));
	attr.wait_cond = 7;
	if (t_beeline)
		T_EQ(fi_cq_open(n.domain, &attr, &cq, NULL), -FI_EINVAL);
	attr.wait_obj = FI_WAIT_NONE;
	T_OK(fi_cq_open(n.domain, &attr, &cq, NULL));
	T_OK(fi_close(&cq->fid));
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"wait_condition", 1, condition, "a hint, and nothing unknown", 0},
	{"wait_sread", 2, sread_messages, "messages of all kinds wake a waiting read", 0},
	{"wait_sread_locked", 2, sread_locked, "the same under FI_THREAD_SAFE", 0},
	{"wait_sread_fd", 2, sread_fd, "a waiting read of a queue with a descriptor", 0},
	{"wait_poll", 2, poll_messages, "messages of all kinds wake a descriptor's poll", 0},
	{"wait_epoll", 2, epoll_messages, "an application's own epoll", 0},
	{"wait_select", 2, select_messages, "select", 0},
	{"wait_timeouts", 2, timeouts, "waits end in time", 0},
	{"wait_trywait", 2, trywait, "fi_trywait and the descriptor agree with the queue", 0},
	{"wait_storm_sread", 4, storm_sread, "no wake is lost, from several senders", 120},
	{"wait_storm_fd", 4, storm_fd, "no wake is lost, with descriptors", 120},
	{"wait_storm_room", 2, storm_room, "who waits for room is woken by it", 120},
	{"wait_signal", 1, signalled, "fi_cq_signal", 0},
	{"wait_two_queues", 2, two_queues, "two threads sleep on one endpoint", 60},
	{"wait_counters", 2, counters, "fi_cntr_wait sleeps and wakes", 0},
	{"wait_counter_fd", 2, counter_fd, "a counter's descriptor", 0},
	{"wait_count_armed", 2, count_armed, "another thread's count wakes a descriptor's poll", 0},
	{"wait_queue_armed", 2, queue_armed,
	 "another thread's waiting read doesn't put out a descriptor's poll", 0},
};
const struct t_group group_wait = T_GROUP("wait", cases);
