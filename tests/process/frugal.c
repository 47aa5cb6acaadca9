/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * frugal.c: a program of its own: the way of a short message makes no system call and allocates
 * nothing (CONTRIBUTING.md), once connections, pools and longer rings are there. Nobody ever
 * waits here: who reads a queue reads what is there already, and waits for another process
 * are outside of what is watched. What is done each so many milliseconds might make a call: less
 * than one for a hundred messages, of each length in each way, is let pass.
 *
 * Short: up to the eager limit, whether its receive is there before or not.
 */
#include "fab.h"
#include "spy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum way { TSEND, TINJECT, SEND, INJECT, NWAYS };
static const char *const way_names[] = {"fi_tsend", "fi_tinject", "fi_send", "fi_inject"};

#define EAGER ((size_t)-1) /* the longest that is eager, and that may be injected */
static const struct {
	size_t len;
	const char *why;
} lengths[] = {
	{0, "nothing to copy"},	       {8, "in the slot's first line"},
	{64, "in two lines"},	       {200, "in most of a slot"},
	{288, "fills a slot"},	       {289, "doesn't fit in one"},
	{1024, "in the payload ring"}, {4096, "a page"},
	{EAGER, "the longest"},
};
#define NLENGTHS (sizeof lengths / sizeof lengths[0])
#define LONGEST	 16384

#define MESSAGES 1000 /* of a length, in a way, in one process */
#define BATCH	 8    /* between two */
#define BATCHES	 64   /* one way and the other, in turn */
#define READS	 100  /* in which all must come that is there */
#define TAG	 5

static unsigned char out[LONGEST], in[BATCH][LONGEST];
static struct fi_context2 sent, got[BATCH];

static bool is_tagged(enum way way)
{
	return way == TSEND || way == TINJECT;
}

static bool is_inject(enum way way)
{
	return way == TINJECT || way == INJECT;
}

static ssize_t ship(struct t_node *n, enum way way, size_t len, fi_addr_t to)
{
	switch (way) {
	case TSEND:
		return fi_tsend(n->ep, out, len, NULL, to, TAG, &sent);
	case TINJECT:
		return fi_tinject(n->ep, out, len, to, TAG);
	case SEND:
		return fi_send(n->ep, out, len, NULL, to, &sent);
	default:
		return fi_inject(n->ep, out, len, to);
	}
}

static void post(struct t_node *n, enum way way, size_t len, int i)
{
	if (is_tagged(way))
		T_OK(fi_trecv(n->ep, in[i], len, NULL, FI_ADDR_UNSPEC, TAG, 0, &got[i]));
	else
		T_OK(fi_recv(n->ep, in[i], len, NULL, FI_ADDR_UNSPEC, &got[i]));
}

/* Reads so many completions; no t_progress, which gives its core away when nothing comes. */
static void take(struct t_node *n, int many)
{
	struct fi_cq_tagged_entry e[16];

	for (int reads = 0; many; reads++) {
		ssize_t rc = fi_cq_read(n->cq, e, many < 16 ? (size_t)many : 16);

		T_CHECK(rc > 0 || rc == -FI_EAGAIN, "fi_cq_read: %zd", rc);
		T_CHECK(reads < READS, "%d completions lack after %d reads", many, reads);
		many -= rc > 0 ? (int)rc : 0;
	}
}

/* Its length in bytes; whether it is short here. */
static bool is_short(const struct t_node *n, size_t *len)
{
	size_t eager = n->info->tx_attr->inject_size;

	T_CHECK(eager <= LONGEST, "%zu bytes are eager", eager);
	if (*len == EAGER)
		*len = eager;
	return *len <= eager;
}

static void judge(const struct spy_report *r, enum way way, size_t len, const char *how,
		  int messages)
{
	T_CHECK(!r->allocations, "%s of %zu bytes, %s: %lu allocations in %d messages, first %s",
		way_names[way], len, how, r->allocations, messages, r->allocation);
	T_CHECK(r->calls * 100 < (unsigned long)messages,
		"%s of %zu bytes, %s: %lu system calls in %d messages, first %s", way_names[way],
		len, how, r->calls, messages, r->call);
}

/* --- one thread, two endpoints ---------------------------------------------- */

static void pass(struct t_node *from, struct t_node *to, enum way way, size_t len, bool early)
{
	struct fi_cq_tagged_entry e;

	if (!early)
		post(to, way, len, 0);
	T_OK(ship(from, way, len, from->peer[1]));
	if (early) {
		T_EQ(fi_cq_read(to->cq, &e, 1), -FI_EAGAIN);
		post(to, way, len, 0);
	}
	take(to, 1);
	if (!is_inject(way))
		take(from, 1);
}

/* There and back, watched. */
static void ping_pong(struct t_node *a, struct t_node *b, enum way way, size_t len, bool early,
		      struct spy_report *r)
{
	spy_begin();
	for (int i = 0; i < MESSAGES / 2; i++) {
		pass(a, b, way, len, early);
		pass(b, a, way, len, early);
	}
	spy_end(r);
}

/* Each length in each way, twice: what the first time takes is for connections and pools. */
static void all_lengths(struct t_node *a, struct t_node *b, bool early)
{
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < NLENGTHS * NWAYS; i++) {
			enum way way = i % NWAYS;
			size_t len = lengths[i / NWAYS].len;
			struct spy_report r = {0};

			if (!is_short(a, &len))
				continue;
			t_at("%s of %zu bytes (%s)", way_names[way], len, lengths[i / NWAYS].why);
			ping_pong(a, b, way, len, early, &r);
			if (round)
				judge(&r, way, len, early ? "early" : "posted", MESSAGES);
		}
	}
}

/* The endpoint's thread is there before the filter, and goes on without it. */
static void pair(bool one_domain, enum fi_threading threading)
{
	struct t_opts o = {.threading = threading};
	const char *blind;
	struct t_node a, b;

	t_open(&a, &o);
	if (one_domain)
		t_open_beside(&b, &a, &o);
	else
		t_open(&b, &o);
	a.peer[1] = t_insert(&a, b.name);
	b.peer[1] = t_insert(&b, a.name);
	blind = spy_open();
	all_lengths(&a, &b, false);
	all_lengths(&a, &b, true);
	t_close(&b);
	t_close(&a);
	if (blind)
		t_skip("nothing is allocated; %s", blind);
}

static void one_domain(void)
{
	pair(true, FI_THREAD_UNSPEC);
}

static void two_domains(void)
{
	pair(false, FI_THREAD_UNSPEC);
}

static void safe(void)
{
	pair(true, FI_THREAD_SAFE);
}

/* --- two processes ---------------------------------------------------------- */

/* Those that the ring has room for at once, watched; the others wait for their receiver. */
static int send_some(struct t_node *n, enum way way, size_t len, int most, struct spy_report *r)
{
	ssize_t rc = 0;
	int done = 0;

	spy_begin();
	while (done < most && !(rc = ship(n, way, len, n->peer[1 - t_rank])))
		done++;
	if (!is_inject(way))
		take(n, done);
	spy_end(r);
	T_CHECK(!rc || rc == -FI_EAGAIN, "%s: %zd", way_names[way], rc);
	return done;
}

/* A few from one to the other, who looks when they are there. */
static void batch(struct t_node *n, int from, enum way way, size_t len, bool early,
		  struct spy_report *r)
{
	int done = 0, posted = 0, had[2], now = 0;

	for (int tries = 0; done < BATCH; tries++, done += had[from]) {
		T_CHECK(tries < READS, "no room for %zu bytes", len);
		for (spy_begin(); t_rank != from && !early && posted < BATCH; posted++)
			post(n, way, len, posted);
		spy_end(r);
		t_allgather(NULL, 0, NULL, NULL);
		if (t_rank == from)
			now = send_some(n, way, len, BATCH - done, r);
		t_allgather(&now, sizeof now, had, NULL);
		if (t_rank == from)
			continue;
		spy_begin();
		if (early) /* brings at least the first one */
			T_EQ(fi_cq_read(n->cq, &(struct fi_cq_tagged_entry){0}, 1), -FI_EAGAIN);
		for (; early && posted < done + had[from]; posted++)
			post(n, way, len, posted);
		take(n, had[from]);
		spy_end(r);
	}
}

static void all_lengths_between(struct t_node *n, bool early)
{
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < NLENGTHS * NWAYS; i++) {
			enum way way = i % NWAYS;
			size_t len = lengths[i / NWAYS].len;
			struct spy_report r = {0};

			if (!is_short(n, &len))
				continue;
			t_at("%s of %zu bytes (%s)", way_names[way], len, lengths[i / NWAYS].why);
			for (int k = 0; k < BATCHES; k++)
				batch(n, k & 1, way, len, early, &r);
			if (round)
				judge(&r, way, len, early ? "early" : "posted", BATCH * BATCHES);
		}
	}
}

/* Their rings are longer where that is of use, for they are no endpoints of one process. */
static void processes(void)
{
	const char *blind;
	struct t_node n;

	t_start(&n, NULL);
	t_barrier();
	blind = spy_open();
	all_lengths_between(&n, false);
	all_lengths_between(&n, true);
	t_finish(&n);
	if (blind)
		t_skip("nothing is allocated; %s", blind);
}

/* --- what it is seen with ----------------------------------------------------- */

/* A library's memory, libc's, and calls; what is outside of the two isn't counted. */
static void spied(void)
{
	const char *blind = spy_open();
	struct spy_report r = {0};
	struct fi_info *info;

	free(malloc(8));
	spy_begin();
	spy_end(&r);
	T_EQ(r.allocations, 0);
	T_EQ(r.calls, 0);
	syscall(SYS_getppid);
	spy_begin();
	info = fi_allocinfo();
	spy_end(&r);
	T_CHECK(r.allocations && strstr(r.allocation, "calloc(") && strstr(r.allocation, "fabric"),
		"libfabric's memory: %lu, %s", r.allocations, r.allocation);
	r = (struct spy_report){0};
	spy_begin();
	fi_freeinfo(info);
	spy_end(&r);
	T_CHECK(r.allocations && strstr(r.allocation, "free("), "%lu, %s", r.allocations,
		r.allocation);
	if (blind)
		t_skip("%s", blind);
	r = (struct spy_report){0};
	spy_begin();
	for (int i = 0; i < 3; i++)
		syscall(SYS_getppid);
	spy_end(&r);
	T_EQ(r.calls, 3);
	T_EQ(r.allocations, 0);
	T_EQ(atoi(r.call + strlen("number ")), SYS_getppid);
}

static const struct t_case cases[] = {
	{"frugal_spied", 1, spied, "what there is, is seen", 0},
	{"frugal_one_domain", 1, one_domain, "two endpoints of a domain", 60},
	{"frugal_two_domains", 1, two_domains, "of two domains", 60},
	{"frugal_safe", 1, safe, "with a lock in each call", 60},
	{"frugal_processes", 2, processes, "through rings of two processes", 60},
};

int main(int argc, char **argv)
{
	const struct t_group group = T_GROUP("frugal", cases);

	return t_main(argc, argv, &group, 1);
}
