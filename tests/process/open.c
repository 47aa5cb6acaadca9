/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * open.c: opening and closing, in any order, a thousand times, with operations
 * under way; nothing is left behind in the process or on the system.
 */
#include "cases.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	T_CHECK(d, "%s", path);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Sanitizers map memory of their own, more and more: there, only what is shared. */
static int mappings(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	const char *which = "memfd:";
#else
	const char *which = "-";
#endif
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int lines = 0;

	T_CHECK(f, "/proc/self/maps");
	while (fgets(line, sizeof(line), f))
		lines += strstr(line, which) != NULL;
	fclose(f);
	return lines;
}

static size_t resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t size, rss;

	T_CHECK(f && fscanf(f, "%zu %zu", &size, &rss) == 2, "/proc/self/statm");
	fclose(f);
	return rss * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void talk(struct t_node *n, size_t len)
{
	int next = (t_rank + 1) % t_nproc, prev = (t_rank + t_nproc - 1) % t_nproc;
	struct t_buf out = t_buf(len, 1), in = t_buf(len, 2);
	struct t_op tx = {0}, rx = {0};

	t_fill(out.p, len, (uint64_t)t_rank, 0);
	t_trecv(n, FI_ADDR_UNSPEC, in.p, len, 1, 0, &rx);
	t_tsend(n, next, out.p, len, 1, &tx);
	T_WAIT(&tx);
	T_WAIT(&rx);
	T_GOT(&in, len, (uint64_t)prev);
	t_buf_free(&out);
	t_buf_free(&in);
}

/* A whole life, some with a message to itself, without streamed. */
static void thousand_times(void)
{
	int fds = 0, maps = 0, tasks = 0, times = t_beeline ? 1000 : 50;
	size_t rss = 0;

	for (int i = 0; i < times; i++) {
		struct t_node n;

		t_open(&n, NULL);
		if (i % 10 == 0) {
			n.peer[0] = t_insert(&n, n.name);
			talk(&n, i % 20 ? 100000 : 8);
		}
		t_close(&n);
		if (i == times / 4) {
			fds = entries("/proc/self/fd");
			tasks = entries("/proc/self/task");
			maps = mappings();
			rss = resident_kib();
		}
	}
	if (!t_beeline)
		t_skip("what others leave behind isn't ours to judge");
	T_CHECK(entries("/proc/self/fd") <= fds, "%d file descriptors, after a quarter %d",
		entries("/proc/self/fd"), fds);
	T_CHECK(entries("/proc/self/task") <= tasks, "%d threads, after a quarter %d",
		entries("/proc/self/task"), tasks);
	T_CHECK(mappings() <= maps + 4, "%d mappings, after a quarter %d", mappings(), maps);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	T_CHECK(resident_kib() <= rss + 4096, "%zu KiB resident, after a quarter %zu",
		resident_kib(), rss);
#endif
	(void)rss;
}

/* Two processes connect, talk and part, many times. */
static void reconnect(void)
{
	int fds = 0, maps = 0, times = t_beeline ? 100 : 5;

	for (int i = 0; i < times; i++) {
		struct t_node n;

		t_start(&n, NULL);
		talk(&n, i % 2 ? 8 : 50000);
		t_finish(&n);
		if (i == times / 4) {
			fds = entries("/proc/self/fd");
			maps = mappings();
		}
	}
	if (t_beeline) {
		T_CHECK(entries("/proc/self/fd") <= fds, "%d file descriptors, once %d",
			entries("/proc/self/fd"), fds);
		T_CHECK(mappings() <= maps + 4, "%d mappings, once %d", mappings(), maps);
	}
}

/* Closing with receives posted, unexpected messages waiting and sends under way. */
static void close_busy(void)
{
	struct t_node n;
	struct t_buf b = t_buf(1 << 20, 0);
	struct t_op op[6] = {0};
	uint64_t v[4];
	int other = 1 - t_rank;

	t_start(&n, NULL);
	for (int i = 0; i < 4; i++)
		t_trecv(&n, FI_ADDR_UNSPEC, &v[i], 8, 7 + (uint64_t)i, 0, &op[i]);
	T_TRY(fi_tinject(n.ep, v, 8, n.peer[other], 100));
	t_tsend(&n, other, b.p, b.len, 101, &op[4]);
	t_mark(&n, other, 0);
	t_wait_mark(&n, other, 0);
	t_barrier();
	t_close(&n);
	t_barrier(); /* no node is left to make progress */
	t_buf_free(&b);
}

/* One process leaves early, the others go on talking to each other. */
static void one_leaves(void)
{
	struct t_node n;

	t_start(&n, NULL);
	talk(&n, 8);
	talk(&n, 100000);
	t_barrier();
	if (t_rank == 2) {
		t_close(&n);
		t_barrier();
		t_barrier();
		return;
	}
	t_barrier(); /* rank 2 has closed */
	for (int i = 0; i < 50; i++) {
		int other = 1 - t_rank;
		struct t_op tx = {0}, rx = {0};
		uint64_t out = (uint64_t)i, in = 0;

		t_trecv(&n, FI_ADDR_UNSPEC, &in, 8, 5, 0, &rx);
		t_tsend(&n, other, &out, 8, 5, &tx);
		T_WAIT(&rx);
		T_WAIT(&tx);
		T_EQ(in, i);
	}
	t_barrier();
	t_close(&n);
}

/* What is in use cannot be closed, and closes once it isn't. */
static void busy(void)
{
	struct t_node n;

	t_start(&n, NULL);
	if (t_beeline) {
		T_EQ(fi_close(&n.cq->fid), -FI_EBUSY);
		T_EQ(fi_close(&n.av->fid), -FI_EBUSY);
		T_EQ(fi_close(&n.domain->fid), -FI_EBUSY);
		T_EQ(fi_close(&n.fabric->fid), -FI_EBUSY);
		/* Nothing was harmed by the attempts. */
		talk(&n, 8);
		talk(&n, 200000);
	}
	t_finish(&n);
}

/* The objects of an endpoint, closed in each order that is allowed. */
static void any_order(void)
{
	for (int order = 0; order < 6; order++) {
		static const int perm[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
		struct t_node n;
		struct fid *fid[3];

		t_open(&n, &(struct t_opts){.counters = true});
		n.peer[0] = t_insert(&n, n.name);
		talk(&n, 8);
		fid[0] = &n.cq->fid;
		fid[1] = &n.av->fid;
		fid[2] = &n.rxcntr->fid;
		n.watched = false;
		T_OK(fi_close(&n.ep->fid));
		for (int i = 0; i < 3; i++)
			T_OK(fi_close(fid[perm[order][i]]));
		T_OK(fi_close(&n.txcntr->fid));
		T_OK(fi_close(&n.domain->fid));
		T_OK(fi_close(&n.fabric->fid));
		fi_freeinfo(n.info);
	}
}

/* An endpoint that was never enabled, one that lacks what it needs. */
static void half_open(void)
{
	struct fi_info *hints = t_hints(&(struct t_opts){0}), *info = NULL;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;

	if (!t_beeline)
		t_skip("others differ");
	T_OK(t_getinfo(T_API, hints, &info));
	T_OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	T_OK(fi_domain(fabric, info, &domain, NULL));
	T_OK(fi_endpoint(domain, info, &ep, NULL));
	T_CHECK(fi_enable(ep) < 0, "enabled without queue and addresses");
	T_OK(fi_close(&ep->fid));
	T_OK(fi_endpoint(domain, info, &ep, NULL));
	T_OK(fi_av_open(domain, &av_attr, &av, NULL));
	T_OK(fi_ep_bind(ep, &av->fid, 0));
	T_CHECK(fi_enable(ep) < 0, "enabled without a queue");
	T_OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	T_OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	T_OK(fi_enable(ep));
	T_OK(fi_close(&ep->fid));
	T_OK(fi_close(&cq->fid));
	T_OK(fi_close(&av->fid));
	T_OK(fi_close(&domain->fid));
	T_OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* Nothing is left in /dev/shm and /tmp while the endpoint is open, so that nothing
 * can be left when the process is killed. */
static void no_residue(void)
{
	struct t_node n;
	char mine[64];
	static const char *const dirs[] = {"/dev/shm", "/tmp"};

	if (!t_beeline)
		t_skip("others differ");
	t_start(&n, NULL);
	talk(&n, 8);
	talk(&n, 300000);
	for (int i = 0; i < 2; i++) {
		DIR *d = opendir(dirs[i]);
		struct dirent *e;

		snprintf(mine, sizeof(mine), "%d", getpid());
		T_CHECK(d, "%s", dirs[i]);
		while ((e = readdir(d)))
			T_CHECK(!strstr(e->d_name, "beeline") || !strstr(e->d_name, mine),
				"%s/%s is there", dirs[i], e->d_name);
		closedir(d);
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"open_thousand_times", 1, thousand_times, "no file, thread, mapping, memory left", 60},
	{"open_reconnect", 2, reconnect, "connect, talk and part, 100 times", 60},
	{"open_close_busy", 2, close_busy, "closing with everything under way", 0},
	{"open_one_leaves", 3, one_leaves, "a peer closes, others go on", 0},
	{"open_busy", 2, busy, "-FI_EBUSY, and no harm", 0},
	{"open_any_order", 1, any_order, "closing in each order", 0},
	{"open_half", 1, half_open, "endpoints that lack something", 0},
	{"open_no_residue", 2, no_residue, "nothing in /dev/shm or /tmp", 0},
};

const struct t_group group_open = T_GROUP("open", cases);
