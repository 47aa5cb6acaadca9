/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * size.c: every length at which a protocol may change hands, at every alignment,
 * with nothing mapped beside the buffers, into and out of several kinds of memory.
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

typedef struct t_buf (*make_buf)(size_t len);

static struct t_buf plain(size_t len)
{
	return t_buf(len, len * 7);
}

/* Rank 0 sends each length to rank 1, which sends it back. */
static void there_and_back(struct t_node *n, size_t len, bool tagged, make_buf make)
{
	struct t_buf out = make(len), in = make(len);
	struct t_op tx = {0}, rx = {0};
	uint64_t mine = len * 2 + (uint64_t)t_rank, theirs = len * 2 + 1 - (uint64_t)t_rank;
	int other = 1 - t_rank;

	t_fill(out.p, len, mine, 0);
	if (tagged)
		t_trecv(n, FI_ADDR_UNSPEC, in.p, len, len, 0, &rx);
	else
		T_TRY(fi_recv(n->ep, in.p, len, NULL, FI_ADDR_UNSPEC, &rx));
	if (t_rank == 1)
		T_WAIT(&rx);
	if (tagged)
		t_tsend(n, other, out.p, len, len, &tx);
	else
		T_TRY(fi_send(n->ep, out.p, len, NULL, n->peer[other], &tx));
	T_WAIT(&tx);
	T_WAIT(&rx);
	T_EQ(rx.c.len, len);
	T_GOT(&in, len, theirs);
	T_SAME(out.p, len, mine, 0);
	t_buf_free(&out);
	t_buf_free(&in);
}

static void table(size_t max, bool tagged, make_buf make)
{
	const size_t *sizes;
	size_t count = t_sizes(max, &sizes);
	struct t_node n;

	t_start(&n, NULL);
	for (size_t i = 0; i < count; i++)
		there_and_back(&n, sizes[i], tagged, make);
	t_finish(&n);
}

static void tagged_table(void)
{
	table(16 * MIB + 1, true, plain);
}

static void untagged_table(void)
{
	table(4 * MIB + 1, false, plain);
}

static void page_end(void)
{
	table(MIB + 1, true, t_buf_at_end);
}

static void page_start(void)
{
	table(MIB + 1, true, t_buf_at_start);
}

/* All lengths up to beyond the slot, each at another pair of alignments. */
static void each_small_length(void)
{
	struct t_node n;

	t_start(&n, NULL);
	for (size_t len = 0; len <= 700; len++) {
		struct t_buf b = t_buf(len, t_rank ? len * 3 : len * 5);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, len, len, 0);
			t_tsend(&n, 1, b.p, len, len, &op);
		} else {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, len, 0, &op);
		}
		T_WAIT(&op);
		if (t_rank == 1) {
			T_EQ(op.c.len, len);
			T_GOT(&b, len, len);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void alignments(void)
{
	static const size_t lens[] = {40, 129, 1000, 9000, 40000, 300000};
	struct t_node n;

	t_start(&n, NULL);
	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
		size_t len = lens[l], step = len > 10000 ? 9 : 1;

		for (size_t skew = 0; skew < 64; skew += step) {
			struct t_buf b = t_buf(len, t_rank ? skew : 63 - skew);
			struct t_op op = {0};

			if (t_rank == 0) {
				t_fill(b.p, len, skew, 0);
				t_tsend(&n, 1, b.p, len, skew, &op);
			} else {
				t_trecv(&n, FI_ADDR_UNSPEC, b.p, len, skew, 0, &op);
			}
			T_WAIT(&op);
			if (t_rank == 1)
				T_GOT(&b, len, skew);
			t_buf_free(&b);
		}
	}
	t_finish(&n);
}

/* The whole table arrives before any receive is posted; receives in reverse. */
static void table_unexpected(void)
{
	const size_t *sizes;
	size_t count = t_sizes(MIB + 1, &sizes);
	struct t_buf *b = calloc(count, sizeof(*b));
	struct t_op *op = calloc(count, sizeof(*op));
	struct t_node n;

	t_start(&n, NULL);
	for (size_t i = 0; i < count; i++)
		b[i] = t_buf(sizes[i], i);
	if (t_rank == 0) {
		for (size_t i = 0; i < count; i++) {
			t_fill(b[i].p, sizes[i], i, 0);
			t_tsend(&n, 1, b[i].p, sizes[i], i, &op[i]);
		}
		t_mark(&n, 1, 0);
	} else {
		t_wait_mark(&n, 0, 0);
		for (size_t i = count; i-- > 0;)
			t_trecv(&n, FI_ADDR_UNSPEC, b[i].p, sizes[i], i, 0, &op[i]);
	}
	for (size_t i = 0; i < count; i++) {
		T_WAIT(&op[i]);
		if (t_rank == 1) {
			T_EQ(op[i].c.len, sizes[i]);
			T_GOT(&b[i], sizes[i], i);
		}
		t_buf_free(&b[i]);
	}
	free(b);
	free(op);
	t_finish(&n);
}

/* The receive is longer than the message: the rest stays as it was. */
static void shorter_message(void)
{
	const size_t *sizes;
	size_t count = t_sizes(MIB + 1, &sizes);
	struct t_node n;

	t_start(&n, NULL);
	for (size_t i = 0; i < count; i++) {
		size_t len = sizes[i], room = len + 1 + i * 37 % 500;
		struct t_buf b = t_buf(t_rank ? room : len, i);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, len, i, 0);
			t_tsend(&n, 1, b.p, len, i, &op);
		} else {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, room, i, 0, &op);
		}
		T_WAIT(&op);
		if (t_rank == 1) {
			T_EQ(op.c.len, len);
			T_GOT(&b, len, i);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void very_large(void)
{
	static const size_t lens[] = {64 * MIB, 100 * 1000 * 1000 + 7};
	struct t_node n;

	t_start(&n, NULL);
	for (size_t i = 0; i < 2; i++)
		there_and_back(&n, lens[i], true, plain);
	t_finish(&n);
}

/* Both ranks send windows to each other at once, nobody waits in between. */
static void both_ways(void)
{
	enum { WINDOW = 8 };
	static const size_t lens[] = {1, 200, 5000, 20000, 70000, 400000, MIB + 3};
	struct t_node n;
	int other = 1 - t_rank;

	t_start(&n, NULL);
	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
		struct t_op tx[WINDOW] = {0}, rx[WINDOW] = {0};
		struct t_buf in[WINDOW], out[WINDOW];

		for (int i = 0; i < WINDOW; i++) {
			in[i] = t_buf(lens[l], (size_t)i);
			t_trecv(&n, FI_ADDR_UNSPEC, in[i].p, lens[l], (uint64_t)i, 0, &rx[i]);
		}
		for (int i = 0; i < WINDOW; i++) {
			out[i] = t_buf(lens[l], (size_t)i);
			t_fill(out[i].p, lens[l], (uint64_t)(t_rank * 100 + i), 0);
			t_tsend(&n, other, out[i].p, lens[l], (uint64_t)i, &tx[i]);
		}
		for (int i = 0; i < WINDOW; i++) {
			T_WAIT(&tx[i]);
			T_WAIT(&rx[i]);
			T_GOT(&in[i], lens[l], (uint64_t)(other * 100 + i));
			t_buf_free(&in[i]);
			t_buf_free(&out[i]);
		}
	}
	t_finish(&n);
}

/* One buffer is on its way to several receivers at the same time. */
static void one_buffer_to_all(void)
{
	static const size_t lens[] = {100, 7000, 100000, 2 * MIB + 5};
	struct t_node n;

	t_start(&n, NULL);
	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
		struct t_buf b = t_buf(lens[l], 9);
		struct t_op op[T_PROC_MAX] = {0};

		if (t_rank == 0) {
			t_fill(b.p, lens[l], l, 0);
			for (int r = 1; r < t_nproc; r++)
				t_tsend(&n, r, b.p, lens[l], l, &op[r]);
			for (int r = 1; r < t_nproc; r++)
				T_WAIT(&op[r]);
			T_SAME(b.p, lens[l], l, 0);
		} else {
			t_trecv(&n, FI_ADDR_UNSPEC, b.p, lens[l], l, 0, &op[0]);
			T_WAIT(&op[0]);
			T_GOT(&b, lens[l], l);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* Memory of other kinds: read-only at the sender, never touched at the receiver,
 * shared with others, and never touched at the sender (zeros). */
static void kinds_of_memory(void)
{
	const size_t len = 3 * MIB + 11;
	struct t_node n;
	unsigned char *p;
	struct t_op op = {0};

	t_start(&n, NULL);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		 (t_rank ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1, 0);
	T_CHECK(p != MAP_FAILED, "mmap");
	if (t_rank == 0) {
		t_fill(p, len, 4, 0);
		T_CHECK(!mprotect(p, len, PROT_READ), "mprotect");
		t_tsend(&n, 1, p, len, 0, &op);
		T_WAIT(&op);
		T_CHECK(!mprotect(p, len, PROT_READ | PROT_WRITE), "mprotect");
		t_trecv(&n, FI_ADDR_UNSPEC, p, len, 1, 0, &op);
		T_WAIT(&op);
		for (size_t i = 0; i < len; i++)
			T_CHECK(p[i] == 0, "byte %zu of untouched memory is %d", i, p[i]);
	} else {
		unsigned char *fresh =
			mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		T_CHECK(fresh != MAP_FAILED, "mmap");
		t_trecv(&n, FI_ADDR_UNSPEC, p, len, 0, 0, &op);
		T_WAIT(&op);
		T_SAME(p, len, 4, 0);
		t_tsend(&n, 0, fresh, len, 1, &op);
		T_WAIT(&op);
		munmap(fresh, len);
	}
	munmap(p, len);
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"size_tagged_table", 2, tagged_table, "each boundary, there and back", 30},
	{"size_untagged_table", 2, untagged_table, "the same, untagged", 30},
	{"size_each_small_length", 2, each_small_length, "every length to 700", 0},
	{"size_table_unexpected", 2, table_unexpected, "each boundary, message first", 30},
	{"size_shorter_message", 2, shorter_message, "nothing written beyond the message", 0},
	{"size_page_end", 2, page_end, "no access beyond either buffer", 0},
	{"size_page_start", 2, page_start, "no access before either buffer", 0},
	{"size_alignments", 2, alignments, "every pair of alignments", 0},
	{"size_very_large", 2, very_large, "64 and 100 MB", 30},
	{"size_both_ways", 2, both_ways, "windows in both directions at once", 30},
	{"size_one_buffer_to_all", 4, one_buffer_to_all, "one source, several transfers", 0},
	{"size_kinds_of_memory", 2, kinds_of_memory, "read-only, untouched, shared memory", 0},
};

const struct t_group group_size = T_GROUP("size", cases);
