/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * mr_test.c: memory registrations: the table as it grows and forgets, where a piece
 * of a region is, and a reader's view of a table that changes, or lies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/local/ways/rndv.h"
#include "endpoint/rma.h"
#include "unit/node.h"

static struct node node;
static uint8_t mem[4096];

static struct bl_mr *reg(uint64_t key, uint32_t flags, size_t off, size_t len)
{
	struct iovec iov = {mem + off, len};
	struct bl_mr_attr attr = {.iov = &iov, .niov = 1, .flags = flags, .key = key};
	struct bl_mr *mr;

	assert_int_equal(bl_mr_open(node.domain, &attr, &mr), 0);
	return mr;
}

static int open_nodes(void **state)
{
	node_open(&node, 2);
	return 0;
}

static int close_nodes(void **state)
{
	node_close(&node);
	return 0;
}

/* --- where a piece is ------------------------------------------------------------ */

struct place_row {
	struct row row;
	bool virtual;
	uint64_t addr, len;
	int err;
	uint32_t n;
	uint64_t first, last; /* addresses: of the first piece, behind the last */
};

/* The region: 100 bytes at 1000, none at 5000, 50 at 2000. */
static const struct place_row places[] = {
	{{"all", "by offset"}, false, 0, 150, 0, 2, 1000, 2050},
	{{"first", "its whole piece"}, false, 0, 100, 0, 1, 1000, 1100},
	{{"second", "begins where the first ends"}, false, 100, 50, 0, 1, 2000, 2050},
	{{"across", "the empty piece gives nothing"}, false, 99, 2, 0, 2, 1099, 2001},
	{{"last byte", "the border"}, false, 149, 1, 0, 1, 2049, 2050},
	{{"one more", "behind the border"}, false, 149, 2, -EINVAL, 0, 0, 0},
	{{"behind", "begins there"}, false, 150, 1, -EINVAL, 0, 0, 0},
	{{"wraps", "offset and length overflow"}, false, UINT64_MAX, 2, -EINVAL, 0, 0, 0},
	{{"huge", "longer than all memory"}, false, 0, UINT64_MAX, -EINVAL, 0, 0, 0},
	{{"address", "inside one piece"}, true, 2010, 40, 0, 1, 2010, 2050},
	{{"address of all", "one piece"}, true, 1000, 100, 0, 1, 1000, 1100},
	{{"address before", "one byte"}, true, 999, 1, -EINVAL, 0, 0, 0},
	{{"address behind", "one byte"}, true, 2050, 1, -EINVAL, 0, 0, 0},
	{{"address too long", "into what isn't registered"}, true, 2010, 41, -EINVAL, 0, 0, 0},
	{{"address wraps", "length overflows"}, true, 1050, UINT64_MAX, -EINVAL, 0, 0, 0},
	{{"offset, by address", "it is no address"}, true, 0, 10, -EINVAL, 0, 0, 0},
};

static void place(void **state)
{
	const struct place_row *row = TABLE_ROW(struct place_row, state);
	struct bl_mr_entry entry = {.flags = BL_MR_USED | BL_MR_READ |
					     (row->virtual ? BL_MR_VIRTUAL : 0),
				    .npiece = 3,
				    .piece = {{1000, 100}, {5000, 0}, {2000, 50}}};
	struct bl_rma_place where = {row->addr, row->len, 1};
	struct iovec out[BL_IOV_MAX];
	uint32_t n = 0;

	assert_int_equal(bl_mr_translate(&entry, &where, BL_MR_READ, out, &n), row->err);
	assert_int_equal(bl_mr_translate(&entry, &where, BL_MR_WRITE, out, &n), -EACCES);
	if (row->err)
		return;
	bl_mr_translate(&entry, &where, BL_MR_READ, out, &n);
	assert_int_equal(n, row->n);
	assert_int_equal(bl_iov_len(out, n), row->len);
	assert_int_equal((uintptr_t)out[0].iov_base, row->first);
	assert_int_equal((uintptr_t)out[n - 1].iov_base + out[n - 1].iov_len, row->last);
}

/* --- the table ---------------------------------------------------------------------- */

static void keys(void **state)
{
	enum { N = 5000 };
	static struct bl_mr *mr[N];
	uint64_t seed = 3, key[N];
	struct bl_mr_entry entry;
	struct bl_peer *peer;

	open_nodes(state);
	peer = node.ep[0]->dest[1];
	for (int i = 0; i < N; i++) {
		key[i] = i % 2 ? table_random(&seed) : (uint64_t)i * 4096;
		mr[i] = reg(key[i], BL_MR_READ, 0, (size_t)i % 4096 + 1);
	}
	for (int i = 0; i < N; i += 3)
		bl_mr_close(mr[i]);
	for (int i = 0; i < N; i++) {
		int err = bl_mr_read(peer, key[i], &entry);

		assert_int_equal(err, i % 3 ? 0 : -EKEYREJECTED);
		if (!err)
			assert_int_equal(entry.piece[0].len, i % 4096 + 1);
	}
	for (int i = 0; i < N; i++)
		if (i % 3)
			bl_mr_close(mr[i]);
	close_nodes(state);
}

static void taken_and_chosen(void **state)
{
	struct iovec iov = {mem, 1};
	struct bl_mr_attr attr = {.iov = &iov, .niov = 1, .flags = BL_MR_READ, .key = 7};
	struct bl_mr *a, *b, *c, *d;

	open_nodes(state);
	assert_int_equal(bl_mr_open(node.domain, &attr, &a), 0);
	assert_int_equal(bl_mr_open(node.domain, &attr, &b), -BL_ENOKEY);
	attr.flags = 0; /* nobody can name it */
	assert_int_equal(bl_mr_open(node.domain, &attr, &b), 0);
	attr.flags = BL_MR_READ;
	attr.choose = true;
	assert_int_equal(bl_mr_open(node.domain, &attr, &c), 0);
	assert_int_equal(bl_mr_open(node.domain, &attr, &d), 0);
	assert_true(c->key != d->key && c->key != 7);
	attr.niov = 0;
	assert_int_equal(bl_mr_open(node.domain, &attr, &d), -EINVAL);
	attr.niov = BL_IOV_MAX + 1;
	assert_int_equal(bl_mr_open(node.domain, &attr, &d), -EINVAL);
	assert_int_equal(bl_domain_close(node.domain), -EBUSY);
	bl_mr_close(a);
	bl_mr_close(b);
	bl_mr_close(c);
	for (struct bl_mr *mr; bl_mr_find(node.domain, 2, &mr);)
		bl_mr_close(mr);
	close_nodes(state);
}

/* --- tables that lie ------------------------------------------------------------------ */

/* What a neighbour may write where its table is said to be. */
static void lies(void **state)
{
	struct bl_seg_mr *said;
	struct bl_mr_entry entry, *theirs;
	struct bl_peer *peer;
	struct bl_mr *mr;
	uint64_t table;

	open_nodes(state);
	peer = node.ep[0]->dest[1];
	peer->copy.pull = BL_COPY_VM; /* as if it were another process: no memcpy */
	mr = reg(5, BL_MR_READ | BL_MR_WRITE, 0, 100);
	said = &node.ep[1]->local.seg.header->mr;
	assert_int_equal(bl_mr_read(peer, 5, &entry), 0);

	table = atomic_load(&said->table);
	atomic_store(&said->table, 0);
	assert_int_equal(bl_mr_read(peer, 5, &entry), -EKEYREJECTED);
	atomic_store(&said->table, 4096); /* nothing is there */
	assert_int_equal(bl_mr_read(peer, 5, &entry), -EKEYREJECTED);
	atomic_store(&said->table, UINT64_MAX - 10);
	assert_int_equal(bl_mr_read(peer, 5, &entry), -EKEYREJECTED);
	atomic_store(&said->table, table);

	uint32_t mask = atomic_load(&said->mask);

	atomic_store(&said->mask, UINT32_MAX);
	(void)bl_mr_read(peer, 5, &entry); /* anything but a crash */
	atomic_store(&said->mask, mask);

	atomic_fetch_or(&said->change, 1); /* for ever changing */
	assert_int_equal(bl_mr_read(peer, 5, &entry), -EAGAIN);
	atomic_fetch_add(&said->change, 1);

	theirs = (struct bl_mr_entry *)bl_mr_find(node.domain, 5, NULL);
	theirs->npiece = 1000;
	assert_int_equal(bl_mr_read(peer, 5, &entry), -EKEYREJECTED);
	theirs->npiece = 0;
	assert_int_equal(bl_mr_read(peer, 5, &entry), -EKEYREJECTED);
	theirs->npiece = 1;
	assert_int_equal(bl_mr_read(peer, 5, &entry), 0);
	bl_mr_close(mr);
	close_nodes(state);
}

static void write_one(size_t from, uint64_t key, int err)
{
	uint64_t value = 1;
	struct iovec iov = {&value, 8};
	struct bl_rma_place where = {0, 8, key};
	struct bl_rma rma = {.what = BL_RMA_WRITE,
			     .iov = &iov,
			     .niov = 1,
			     .place = &where,
			     .nplace = 1,
			     .dest = !from,
			     .flags = BL_COMPLETION};

	assert_int_equal(bl_rma(node.ep[from], &rma), 0);
	if (err)
		assert_int_equal(node_error(&node, from).err, err);
	else
		node_completion(&node, from, NULL);
}

/* What was read once is not believed when something has been closed. */
static void forgotten(void **state)
{
	struct bl_mr *a, *b;

	open_nodes(state);
	a = reg(1, BL_MR_WRITE, 0, 8);
	b = reg(2, BL_MR_WRITE, 8, 8);
	write_one(0, 1, 0);
	write_one(0, 2, 0);
	bl_mr_close(a);
	write_one(0, 1, EKEYREJECTED);
	write_one(0, 2, 0);
	a = reg(1, BL_MR_READ, 0, 8);
	write_one(0, 1, EACCES);
	bl_mr_close(a);
	bl_mr_close(b);
	close_nodes(state);
}

/* Packets of one-sided operations that make no sense end the connection. */
struct packet_row {
	struct row row;
	uint32_t op;
	size_t len;
	uint32_t what, nplace;
	uint64_t place_len;
	uint64_t off, part; /* the part of it that is asked for */
};

#define MUCH ((uint64_t)BL_RMA_PART)
#define MANY (MUCH + 8)

static const struct packet_row packets[] = {
#define ASK(places, ...)                                                                           \
	BL_OP_RMA_ASK,                                                                             \
		offsetof(struct bl_rma_ask, place) + (places) * sizeof(struct bl_rma_place),       \
		__VA_ARGS__
#define EVENT BL_OP_RMA_EVENT
	{{"bytes", "nothing was asked"}, BL_OP_RMA_BYTES, 8, 0, 0, 0, 0, 0},
	{{"short event", "too few bytes"}, EVENT, 8, 0, 0, 0, 0, 0},
	{{"strange event", "of no kind"}, EVENT, sizeof(struct bl_rma_event), 77, 0, 0, 0, 0},
	{{"short ask", "too few bytes"}, BL_OP_RMA_ASK, 4, 0, 0, 0, 0, 0},
	{{"strange ask", "of no kind"}, ASK(1, 99, 1, 8, 0, 8)},
	{{"many places", "more than it brings"}, ASK(1, BL_RMA_READ, 8, 8, 0, 8)},
	{{"too many places", "than there may be"}, ASK(8, BL_RMA_READ, 9, 8, 0, 8)},
	{{"endless", "no memory is so long"}, ASK(1, BL_RMA_READ, 1, UINT64_MAX, 0, UINT64_MAX)},
	{{"part of a read", "atomics have parts"}, ASK(1, BL_RMA_READ, 1, 64, 0, 8)},
	{{"end of a write", "the same"}, ASK(1, BL_RMA_WRITE, 1, 64, 56, 8)},
	{{"large part", "8 bytes more than one has"}, ASK(1, BL_RMA_ATOMIC, 1, MANY, 0, MANY)},
	{{"part beyond", "behind the end"}, ASK(1, BL_RMA_ATOMIC, 1, 64, MUCH, 8)},
	{{"part over the end", "from within"}, ASK(1, BL_RMA_ATOMIC, 1, MANY, MUCH, 9)},
	{{"wrapping part", "ends before it"}, ASK(1, BL_RMA_ATOMIC, 1, 64, -MUCH, MUCH)},
	{{"part of nothing", "no progress"}, ASK(1, BL_RMA_ATOMIC, 1, 64, 0, 0)},
	{{"part at the end", "of nothing"}, ASK(1, BL_RMA_ATOMIC, 1, MUCH, MUCH, 0)},
	{{"short part", "there is more"}, ASK(1, BL_RMA_ATOMIC, 1, MANY, 0, 8)},
	{{"unknown", "no such operation"}, 48, 0, 0, 0, 0, 0, 0},
#undef EVENT
#undef ASK
};

static void packet(void **state)
{
	const struct packet_row *row = TABLE_ROW(struct packet_row, state);
	struct bl_rma_ask ask = {.nplace = row->nplace,
				 .what = (uint8_t)row->what,
				 .off = row->off,
				 .len = row->part,
				 .place = {{0, row->place_len, 1}}};
	struct bl_rma_event event = {.what = row->what};
	const void *bytes = row->op == BL_OP_RMA_EVENT ? (void *)&event : (void *)&ask;
	struct bl_peer *to;
	uint64_t until = bl_clock_ns() + 10000000000u;

	open_nodes(state);
	to = node.ep[0]->dest[1];
	bl_put_packet(to, row->op, 0, 1, 0, bytes, row->len);
	while (node.ep[1]->dest[0] != &bl_nobody) { /* node 1 gives node 0 up */
		assert_true(bl_clock_ns() < until);
		bl_ep_progress(node.ep[1]);
	}
	close_nodes(state);
}

/* Answers that nobody waits for, or that say more than was asked, are nothing. */
static void stray_answers(void **state)
{
	struct bl_peer *to;

	open_nodes(state);
	to = node.ep[0]->dest[1];
	bl_put_packet(to, BL_OP_RMA_RESULT, 0, 1, 0, mem, 8);
	bl_put_packet(to, BL_OP_RMA_DONE, 0, 1, 0, NULL, 0);
	node_settle(&node, 1);
	node_expect_nothing(&node, 1);
	close_nodes(state);
}

/* Between two parts of an atomic operation its target closes the region: the first part is done,
 * the rest isn't, and the target hears nothing of either. */
static void closed_between_parts(void **state)
{
	const size_t n = MANY / 8;
	uint64_t *there = calloc(n, 8), *one_each = calloc(n, 8);
	struct iovec iov = {one_each, MANY}, region = {there, MANY};
	struct bl_mr_attr attr = {.iov = &region, .niov = 1, .flags = BL_MR_WRITE, .key = 1};
	struct bl_rma_place where = {0, MANY, 1};
	struct bl_rma rma = {.what = BL_RMA_ATOMIC,
			     .type = BL_UINT64,
			     .op = BL_ATOMIC_OP_SUM,
			     .iov = &iov,
			     .niov = 1,
			     .place = &where,
			     .nplace = 1,
			     .dest = 1,
			     .data = 5,
			     .flags = BL_COMPLETION | BL_REMOTE_CQ_DATA};
	uint64_t until = bl_clock_ns() + 10000000000u;
	struct bl_mr *mr;

	open_nodes(state);
	node.ep[0]->dest[1]->copy.pull = node.ep[0]->dest[1]->copy.push = BL_COPY_NOTHING;
	assert_int_equal(bl_mr_open(node.domain, &attr, &mr), 0);
	for (size_t i = 0; i < n; i++)
		one_each[i] = 1;
	assert_int_equal(bl_rma(node.ep[0], &rma), 0);
	while (!there[n - 2]) { /* the last of the first part */
		assert_true(bl_clock_ns() < until);
		bl_ep_progress(node.ep[0]);
		bl_ep_progress(node.ep[1]);
	}
	bl_mr_close(mr);
	assert_int_equal(node_error(&node, 0).err, EKEYREJECTED);
	node_expect_nothing(&node, 1);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(there[i], i < n - 1);
	close_nodes(state);
	free(there);
	free(one_each);
}

int main(void)
{
	TABLE_ROWS("place", place, places);
	TABLE_TEST(keys);
	TABLE_TEST(taken_and_chosen);
	TABLE_TEST(lies);
	TABLE_TEST(forgotten);
	TABLE_ROWS("packet", packet, packets);
	TABLE_TEST(stray_answers);
	TABLE_TEST(closed_between_parts);
	return table_run("mr");
}
