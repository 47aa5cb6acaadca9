/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * av.c: addresses: names and their sizes, tables and maps, many at once, one twice,
 * removal and re-insertion, lookup, text, and an address that is on another host.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

/* What struct bl_addr (src/core/addr.h) has of an endpoint's own from here to there:
 * its random id and its host. */
#define ID_OFFSET 8
#define HOST_END  32

static void ping(struct t_node *n, fi_addr_t to, uint64_t tag)
{
	uint64_t v = tag * 3;

	T_TRY(fi_tinject(n->ep, &v, 8, to, tag));
}

static void pong(struct t_node *n, fi_addr_t from, uint64_t tag)
{
	struct t_op op = {0};
	uint64_t v = 0;

	t_trecv(n, from, &v, 8, tag, 0, &op);
	T_WAIT(&op);
	T_EQ(v, tag * 3);
	if (n->o.caps & FI_SOURCE && from != FI_ADDR_UNSPEC)
		T_EQ(op.c.src, from);
}

static void getname(void)
{
	struct t_node n;
	unsigned char name[T_NAME_MAX];
	size_t len = 0, need;
	int rc;

	t_start(&n, NULL);
	rc = fi_getname(&n.ep->fid, NULL, &len);
	T_CHECK(rc == -FI_ETOOSMALL, "without room: %d (%s)", rc, fi_strerror(-rc));
	T_EQ(len, n.namelen);
	need = len;
	T_CHECK(need > 0 && need <= T_NAME_MAX, "length %zu", need);
	memset(name, 0x77, sizeof(name));
	len = need - 1;
	rc = fi_getname(&n.ep->fid, name, &len);
	T_CHECK(rc == -FI_ETOOSMALL, "a byte short: %d", rc);
	T_EQ(len, need);
	for (size_t i = need - 1; i < sizeof(name); i++)
		T_EQ(name[i], 0x77);
	len = sizeof(name);
	T_OK(fi_getname(&n.ep->fid, name, &len));
	T_EQ(len, need);
	T_CHECK(!memcmp(name, n.name, need), "the name has changed");
	for (size_t i = need; i < sizeof(name); i++)
		T_EQ(name[i], 0x77);
	t_finish(&n);
}

/* Every address twice, as MPICH inserts its own: both are usable, both are it. */
static void twice(enum fi_av_type type)
{
	struct t_opts o = {.av = type, .caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct t_node n;
	unsigned char all[T_PROC_MAX * T_NAME_MAX];
	fi_addr_t self, again[T_PROC_MAX];
	int next = (t_rank + 1) % t_nproc, prev = (t_rank + t_nproc - 1) % t_nproc;

	t_open(&n, &o);
	self = t_insert(&n, n.name);
	t_allgather(n.name, T_NAME_MAX, all, t_progress);
	for (int i = 0; i < t_nproc; i++)
		n.peer[i] = t_insert(&n, all + i * T_NAME_MAX);
	for (int i = 0; i < t_nproc; i++)
		again[i] = t_insert(&n, all + i * T_NAME_MAX);
	ping(&n, self, 1);
	pong(&n, FI_ADDR_UNSPEC, 1);
	ping(&n, n.peer[t_rank], 2);
	pong(&n, FI_ADDR_UNSPEC, 2);
	ping(&n, n.peer[next], 3);
	pong(&n, FI_ADDR_UNSPEC, 3);
	ping(&n, again[next], 4);
	pong(&n, FI_ADDR_UNSPEC, 4);
	/* A receive directed at either of the two takes what this process sends. */
	ping(&n, again[next], 5);
	ping(&n, n.peer[next], 5);
	for (int i = 0; i < 2; i++) {
		struct t_op op = {0};
		uint64_t v = 0;

		t_trecv(&n, i ? again[prev] : n.peer[prev], &v, 8, 5, 0, &op);
		T_WAIT(&op);
		T_CHECK(op.c.src == n.peer[prev] || op.c.src == again[prev], "source %llx",
			(unsigned long long)op.c.src);
	}
	t_finish(&n);
}

static void twice_table(void)
{
	twice(FI_AV_TABLE);
}

static void twice_map(void)
{
	if (!t_beeline)
		t_skip("what a map does with duplicates differs");
	twice(FI_AV_MAP);
}

static void map(void)
{
	struct t_opts o = {.av = FI_AV_MAP, .caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct t_node n;

	t_start(&n, &o);
	for (int r = 0; r < t_nproc; r++)
		ping(&n, n.peer[r], 10 + (uint64_t)t_rank);
	for (int r = 0; r < t_nproc; r++)
		pong(&n, n.peer[r], 10 + (uint64_t)r);
	t_finish(&n);
}

/* Many at once; the result array may be NULL for a table, whose indices count up. */
static void many(void)
{
	enum { N = 500 };
	struct t_node n;
	unsigned char *list;
	fi_addr_t *addr = calloc(N, sizeof(*addr));
	size_t len;
	int rc;

	t_open(&n, NULL);
	len = n.namelen;
	list = malloc(len * N);
	for (int i = 0; i < N; i++)
		memcpy(list + (size_t)i * len, n.name, len);
	rc = fi_av_insert(n.av, list, N, addr, 0, NULL);
	T_EQ(rc, N);
	for (int i = 0; i < N; i++) {
		unsigned char back[T_NAME_MAX];
		size_t got = sizeof(back);

		if (t_beeline) /* others give a duplicate the same index */
			T_EQ(addr[i], i);
		T_OK(fi_av_lookup(n.av, addr[i], back, &got));
		T_EQ(got, len);
		T_CHECK(!memcmp(back, n.name, len), "lookup of %d gives another address", i);
	}
	rc = fi_av_insert(n.av, list, 3, NULL, 0, NULL);
	T_EQ(rc, 3);
	ping(&n, addr[0], 1);
	pong(&n, FI_ADDR_UNSPEC, 1);
	ping(&n, addr[N - 1], 2);
	pong(&n, FI_ADDR_UNSPEC, 2);
	if (t_beeline) {
		ping(&n, N + 2, 3);
		pong(&n, FI_ADDR_UNSPEC, 3);
	}
	T_EQ(fi_av_insert(n.av, list, 0, NULL, 0, NULL), 0);
	free(list);
	free(addr);
	t_close(&n);
}

/* What can't be inserted takes its place in a table all the same. fi_av(3) */
static void places(void)
{
	unsigned char list[3 * T_NAME_MAX], back[T_NAME_MAX];
	size_t len, got = sizeof(back);
	struct t_node n;

	if (!t_beeline)
		t_skip("what an address of others looks like is theirs to say");
	t_start(&n, NULL);
	len = n.namelen;
	memset(list, 0, sizeof(list));
	memcpy(list, n.name, len);
	memcpy(list + 2 * len, n.name, len);
	T_EQ(fi_av_insert(n.av, list, 3, NULL, 0, NULL), 2);
	T_OK(fi_av_lookup(n.av, (fi_addr_t)t_nproc, back, &got));
	T_CHECK(fi_av_lookup(n.av, (fi_addr_t)t_nproc + 1, back, &got) < 0, "there is nothing");
	T_OK(fi_av_lookup(n.av, (fi_addr_t)t_nproc + 2, back, &got));
	T_CHECK(!memcmp(back, n.name, len), "another address");
	ping(&n, (fi_addr_t)t_nproc + 2, 1);
	pong(&n, FI_ADDR_UNSPEC, 1);
	t_finish(&n);
}

static void lookup_sizes(void)
{
	struct t_node n;
	unsigned char back[T_NAME_MAX];
	size_t len;

	t_start(&n, NULL);
	memset(back, 0x77, sizeof(back));
	len = n.namelen - 1;
	/* fi_av(3): a truncated copy, and the length that it takes. */
	fi_av_lookup(n.av, n.peer[0], back, &len);
	T_EQ(len, n.namelen);
	T_EQ(back[n.namelen - 1], 0x77);
	len = sizeof(back);
	T_OK(fi_av_lookup(n.av, n.peer[t_rank], back, &len));
	T_CHECK(!memcmp(back, n.name, len), "another address");
	if (t_beeline) {
		len = sizeof(back);
		T_CHECK(fi_av_lookup(n.av, 12345, back, &len) < 0, "lookup of nothing");
	}
	t_finish(&n);
}

/* Removed and inserted again, between messages: the pair still works. */
static void reinsert(void)
{
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct t_node n;
	int other = 1 - t_rank;
	unsigned char name[T_NAME_MAX];
	size_t len = sizeof(name);

	t_start(&n, &o);
	T_OK(fi_av_lookup(n.av, n.peer[other], name, &len));
	for (uint64_t i = 0; i < 20; i++) {
		ping(&n, n.peer[other], i);
		pong(&n, n.peer[other], i);
		t_barrier();
		T_OK(fi_av_remove(n.av, &n.peer[other], 1, 0));
		n.peer[other] = t_insert(&n, name);
		t_barrier();
	}
	t_finish(&n);
}

/* Nothing is sent to what was removed. */
static void removed(void)
{
	struct t_node n;
	fi_addr_t gone;
	uint64_t v = 1;
	ssize_t rc;

	if (!t_beeline)
		t_skip("what happens then is up to the provider");
	t_start(&n, NULL);
	gone = t_insert(&n, n.name);
	T_OK(fi_av_remove(n.av, &gone, 1, 0));
	rc = fi_tinject(n.ep, &v, 8, gone, 1);
	T_CHECK(rc < 0 && rc != -FI_EAGAIN, "a send to a removed address returned %zd", rc);
	rc = fi_tinject(n.ep, &v, 8, 9999, 1);
	T_CHECK(rc < 0 && rc != -FI_EAGAIN, "a send to no address returned %zd", rc);
	T_CHECK(fi_av_remove(n.av, &gone, 1, 0) < 0, "removed twice");
	ping(&n, n.peer[0], 2);
	pong(&n, FI_ADDR_UNSPEC, 2);
	t_finish(&n);
}

static void straddr(void)
{
	struct t_node n;
	char text[300], small[8];
	size_t len = sizeof(text);

	t_start(&n, NULL);
	memset(text, 0x77, sizeof(text));
	T_CHECK(fi_av_straddr(n.av, n.name, text, &len) == text, "fi_av_straddr");
	T_CHECK(len <= sizeof(text) && len > 1, "length %zu", len);
	T_CHECK(memchr(text, 0, sizeof(text)), "no end of the text");
	if (t_beeline) {
		T_CHECK(strstr(text, "beeline"), "\"%s\" does not name the provider", text);
		memset(small, 0x77, sizeof(small));
		len = 4;
		fi_av_straddr(n.av, n.name, small, &len);
		T_EQ(small[4], 0x77);
		T_EQ(small[3], 0);
		T_CHECK(len > 4, "length %zu", len);
	}
	t_finish(&n);
}

/* An address of another host: the first use fails, for good, and says so; the
 * endpoint goes on. */
static void other_host(void)
{
	struct t_opts o = {.caps = FI_DIRECTED_RECV};
	struct t_node n;
	unsigned char name[T_NAME_MAX];
	fi_addr_t far;
	uint64_t v = 1;
	struct t_op op = {0};
	ssize_t rc;
	int spins = 0;

	if (!t_beeline)
		t_skip("knows its own addresses only");
	t_start(&n, &o);
	memcpy(name, n.name, sizeof(name));
	for (int i = ID_OFFSET; i < HOST_END; i++)
		name[i] ^= 0x5a;
	/* Nothing will come from there: receives fail, the first and the others. */
	far = t_insert(&n, name);
	for (int i = 0; i < 3; i++) {
		struct t_op in = {0};

		rc = fi_trecv(n.ep, &v, 8, NULL, far, 1, 0, &in);
		if (rc)
			T_EQ(rc, -FI_EHOSTUNREACH);
		else
			T_WAIT_ERR(&in, FI_EHOSTUNREACH);
	}
	name[ID_OFFSET] ^= 0x10;
	far = t_insert(&n, name);
	while ((rc = fi_tsend(n.ep, &v, 8, NULL, far, 1, &op)) == -FI_EAGAIN && spins++ < 100000)
		t_idle();
	T_CHECK(rc == -FI_EHOSTUNREACH, "a send to another host returned %zd (%s)", rc,
		fi_strerror((int)-rc));
	rc = fi_tinject(n.ep, &v, 8, far, 1);
	T_CHECK(rc == -FI_EHOSTUNREACH, "an inject to another host returned %zd", rc);
	T_EQ(op.done, 0);
	ping(&n, n.peer[0], 2);
	if (t_rank == 0)
		for (int i = 0; i < t_nproc; i++)
			pong(&n, FI_ADDR_UNSPEC, 2);
	t_finish(&n);
}

/* Bytes that are no address, and an address whose endpoint is gone. */
static void nonsense(void)
{
	struct t_node n, brief;
	unsigned char name[T_NAME_MAX] = {0};
	fi_addr_t addr = 5;
	uint64_t v = 1;
	ssize_t rc;
	int spins = 0;

	if (!t_beeline)
		t_skip("others differ");
	t_start(&n, NULL);
	rc = fi_av_insert(n.av, name, 1, &addr, 0, NULL);
	T_CHECK(rc <= 0, "zeros were inserted: %zd", rc);
	if (rc == 0)
		T_EQ(addr, FI_ADDR_NOTAVAIL);
	T_EQ(fi_av_insert(n.av, NULL, 1, &addr, 0, NULL), -FI_EINVAL);
	t_open(&brief, NULL);
	memcpy(name, brief.name, sizeof(name));
	t_close(&brief);
	addr = t_insert(&n, name);
	while ((rc = fi_tinject(n.ep, &v, 8, addr, 1)) == -FI_EAGAIN && spins++ < 1000000)
		t_idle();
	T_CHECK(rc < 0 && rc != -FI_EAGAIN, "a send to a closed endpoint returned %zd", rc);
	ping(&n, n.peer[0], 2);
	pong(&n, FI_ADDR_UNSPEC, 2);
	t_finish(&n);
}

/* A source that isn't in the vector: the message comes, its source is unknown. */
static void stranger(void)
{
	struct t_opts o = {.caps = FI_SOURCE};
	struct t_node n;
	unsigned char all[T_PROC_MAX * T_NAME_MAX];

	t_open(&n, &o);
	t_allgather(n.name, T_NAME_MAX, all, t_progress);
	if (t_rank == 0) {
		fi_addr_t to = t_insert(&n, all + T_NAME_MAX);
		struct t_op op = {0};
		uint64_t v = 21;

		T_TRY(fi_tsend(n.ep, &v, 8, NULL, to, 7, &op));
		T_WAIT(&op);
	} else {
		struct t_op op = {0};
		uint64_t v = 0;

		t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 7, 0, &op);
		T_WAIT(&op);
		T_EQ(v, 21);
		T_EQ(op.c.src, FI_ADDR_NOTAVAIL);
	}
	t_finish(&n);
}

/* A source inserted after its message has come: directed receives find it, and
 * later messages name it. */
static void inserted_late(void)
{
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct t_node n;
	unsigned char all[T_PROC_MAX * T_NAME_MAX];

	if (!t_beeline)
		t_skip("others differ");
	t_open(&n, &o);
	t_allgather(n.name, T_NAME_MAX, all, t_progress);
	if (t_rank == 0) {
		n.peer[1] = t_insert(&n, all + T_NAME_MAX);
		ping(&n, n.peer[1], 7);
		t_mark(&n, 1, 0);
		t_barrier();
		ping(&n, n.peer[1], 8);
	} else {
		t_wait_mark(&n, 0, 0);
		n.peer[0] = t_insert(&n, all);
		pong(&n, n.peer[0], 7);
		t_barrier();
		pong(&n, n.peer[0], 8);
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"av_getname", 1, getname, "names and their length", 0},
	{"av_twice_table", 3, twice_table, "each address twice, a table", 0},
	{"av_twice_map", 3, twice_map, "each address twice, a map", 0},
	{"av_map", 4, map, "FI_AV_MAP", 0},
	{"av_many", 1, many, "500 at once, indices count up", 0},
	{"av_places", 1, places, "a failed insertion leaves a gap", 0},
	{"av_lookup_sizes", 2, lookup_sizes, "lookup into too little", 0},
	{"av_reinsert", 2, reinsert, "removed and inserted between messages", 0},
	{"av_removed", 1, removed, "nothing goes to what was removed", 0},
	{"av_straddr", 1, straddr, "an address as text", 0},
	{"av_other_host", 2, other_host, "-FI_EHOSTUNREACH, and no harm", 0},
	{"av_nonsense", 1, nonsense, "no address, and one that is gone", 0},
	{"av_stranger", 2, stranger, "an unknown source", 0},
	{"av_inserted_late", 2, inserted_late, "known only after its message", 0},
};

const struct t_group group_av = T_GROUP("av", cases);
