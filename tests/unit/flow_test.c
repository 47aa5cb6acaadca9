/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * flow_test.c: bytes through real endpoints of one process: every length around
 * every threshold, buffers in pieces, full rings, and many large messages at
 * once, over the direct copy and over the ring (the copy engine of the pair is
 * switched off, as if the kernel had refused it).
 */
#include <string.h>

#include "copy/engine.h"
#include "unit/limits.h"
#include "unit/node.h"

#define LONGEST (1u << 20)

static struct node node;
static uint8_t from[LONGEST], to[LONGEST + 64];

/* How the receiver of a large message gets at it. */
struct way_row {
	struct row row;
	enum bl_copy_way pull, push;
};

static const struct way_row ways[] = {
	{{"direct", "the receiver copies"}, BL_COPY_SELF, BL_COPY_SELF},
	{{"pushed", "the receiver may not read, the sender may write"},
	 BL_COPY_NOTHING,
	 BL_COPY_VM},
	{{"through the ring", "neither may"}, BL_COPY_NOTHING, BL_COPY_NOTHING},
};

static void use(const struct way_row *row)
{
	for (size_t a = 0; a < node.count; a++)
		for (size_t b = 0; b < node.count; b++) {
			node.ep[a]->dest[b]->copy.pull = row->pull;
			node.ep[a]->dest[b]->copy.push = row->push;
		}
}

static void open_with(size_t count, void **state)
{
	node_open(&node, count);
	use(TABLE_ROW(struct way_row, state));
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13);
}

static void check(size_t len)
{
	assert_memory_equal(to, from, len);
	for (size_t i = len; i < len + 64; i++)
		if (to[i] != 0xee)
			fail_msg("%zu bytes: byte %zu behind them was written", len, i - len);
}

static void one(size_t len, bool early, uint64_t flags)
{
	memset(to, 0xee, len + 64);
	if (early) {
		node_send(&node, 1, 0, from, len, 9, from, BL_TAGGED | flags);
		node_settle(&node, 0);
	}
	assert_int_equal(bl_recv_buf(node.ep[0], to, len, 1, 9, 0, to, NODE_FLAGS), 0);
	if (!early)
		node_send(&node, 1, 0, from, len, 9, from, BL_TAGGED | flags);
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
	check(len);
	if (flags & BL_COMPLETION) {
		struct bl_comp comp = node_completion(&node, 1, NULL);

		assert_ptr_equal(comp.context, from);
		assert_true(comp.flags == (BL_TAGGED | BL_SEND));
	}
}

static void all_lengths(void **state)
{
	size_t eager = bl_limits()->eager_max, both = bl_limits()->split_min;
	const size_t around[] = {512, 4096, 8192, eager, 2 * 8192, both, 65536, LONGEST - 1};

	open_with(2, state);
	for (size_t len = 0; len <= 300; len++) {
		one(len, false, BL_COMPLETION);
		one(len, true, BL_COMPLETION);
		one(len, false, BL_DELIVERY_COMPLETE | BL_COMPLETION);
		one(len, true, BL_INJECT);
		one(len, len & 1, BL_INJECT | BL_DELIVERY_COMPLETE | BL_COMPLETION);
	}
	for (size_t i = 0; i < bl_countof(around); i++)
		for (size_t len = around[i] - 1; len <= around[i] + 1; len++) {
			one(len, false, BL_COMPLETION);
			one(len, true, BL_COMPLETION);
		}
	node_close(&node);
}

/* The buffer is the caller's again when the call returns, however the message goes. */
static void is_free_at_once(size_t len, bool early, bool call, uint64_t flags)
{
	static uint8_t buf[8192];
	struct iovec iov = {buf, len};
	struct bl_send send = {&iov, 1, 0, 9, 0, buf, BL_TAGGED | BL_INJECT | flags, NULL};

	memset(to, 0xee, len + 64);
	memcpy(buf, from, len);
	if (!early)
		assert_int_equal(bl_recv_buf(node.ep[0], to, len, 1, 9, 0, to, NODE_FLAGS), 0);
	if (call)
		assert_int_equal(bl_inject(node.ep[1], buf, len, 0, 9, 0, BL_TAGGED), 0);
	else
		assert_int_equal(bl_send(node.ep[1], &send), 0);
	memset(buf, 0x55, len);
	if (early) {
		node_settle(&node, 0);
		assert_int_equal(bl_recv_buf(node.ep[0], to, len, 1, 9, 0, to, NODE_FLAGS), 0);
	}
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
	check(len);
	if (flags & BL_COMPLETION)
		assert_ptr_equal(node_completion(&node, 1, NULL).context, buf);
}

static struct bl_limits were;

static void eager_is(uint32_t most)
{
	were = *limits();
	limits()->eager_max = limits()->pingpong_max = most;
	bl_limits_by_length(limits(), 0, 0, 0);
	node.ep[1]->limit.eager_max = (uint16_t)most;
	node.ep[1]->limit.inject_max = 8192;
}

/* Where more may be injected than is eager for who waits for it. */
static void injected_beyond_eager(void **state)
{
	const size_t lens[] = {288, 289, 511, 512, 513, 4096, 8191, 8192};

	open_with(2, state);
	eager_is(512);
	for (size_t i = 0; i < bl_countof(lens); i++)
		for (int early = 0; early < 2; early++) {
			is_free_at_once(lens[i], early, true, 0);
			is_free_at_once(lens[i], early, false, 0);
			is_free_at_once(lens[i], early, false, BL_COMPLETION);
			is_free_at_once(lens[i], early, false,
					BL_DELIVERY_COMPLETE | BL_COMPLETION);
		}
	assert_int_equal(bl_inject(node.ep[1], from, 8193, 0, 9, 0, BL_TAGGED), -EMSGSIZE);
	node_close(&node);
	*limits() = were;
}

/* The same behind a message that nobody has received yet. */
static void injected_behind_a_fence(void **state)
{
	static uint8_t buf[8193];
	struct iovec iov = {buf, 8192};
	struct bl_send send = {&iov, 1, 0, 9, 0, NULL, BL_TAGGED | BL_INJECT, NULL};

	open_with(2, state);
	eager_is(512);
	node_send(&node, 1, 0, from, LONGEST, 1, from, BL_TAGGED | BL_COMPLETION);
	memcpy(buf, from, sizeof buf);
	assert_int_equal(bl_send_fenced(node.ep[1], &send), 0);
	assert_int_equal(bl_inject(node.ep[1], buf, 8192, 0, 9, 0, BL_TAGGED), 0);
	iov.iov_len++;
	assert_int_equal(bl_send_fenced(node.ep[1], &send), -EMSGSIZE);
	memset(buf, 0x55, sizeof buf);
	assert_int_equal(bl_recv_buf(node.ep[0], to, LONGEST, 1, 1, 0, to, NODE_FLAGS), 0);
	assert_int_equal(node_completion(&node, 0, NULL).len, LONGEST);
	for (int i = 0; i < 2; i++) {
		memset(to, 0xee, 8192 + 64);
		assert_int_equal(bl_recv_buf(node.ep[0], to, 8192, 1, 9, 0, to, NODE_FLAGS), 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, 8192);
		check(8192);
	}
	node_close(&node);
	*limits() = were;
}

/* --- pieces --------------------------------------------------------------- */

/* Cut `len` bytes at memory into n pieces with odd lengths, some empty. */
static void pieces(uint8_t *memory, size_t len, size_t n, uint64_t *seed, struct iovec *iov)
{
	for (size_t i = 0; i < n; i++) {
		size_t part = i == n - 1 ? len : table_random(seed) % (len + 1);

		iov[i] = (struct iovec){memory, part};
		memory += part;
		len -= part;
	}
}

static void in_pieces(void **state)
{
	static const size_t lengths[] = {0, 1, 40, 41, 288, 289, 4000, 60000, 300000};
	uint64_t seed = 8;

	open_with(2, state);
	for (int round = 0; round < 600; round++) {
		size_t len = lengths[round % 9], nsend = 1 + table_random(&seed) % BL_IOV_MAX,
		       nrecv = 1 + table_random(&seed) % BL_IOV_MAX;
		struct iovec s[BL_IOV_MAX], r[BL_IOV_MAX];
		struct bl_send send = {s,   nsend, 0, 9, 7, NULL, BL_TAGGED | BL_REMOTE_CQ_DATA,
				       NULL};
		struct bl_recv recv = {r, nrecv, BL_ADDR_ANY, 9, 0, to, NODE_FLAGS, NULL};
		struct bl_comp comp;

		memset(to, 0xee, len + 64);
		pieces(from, len, nsend, &seed, s);
		pieces(to, len, nrecv, &seed, r);
		if (round & 1)
			assert_int_equal(bl_recv(node.ep[0], &recv), 0);
		assert_int_equal(bl_send(node.ep[1], &send), 0);
		node_settle(&node, 0);
		if (!(round & 1))
			assert_int_equal(bl_recv(node.ep[0], &recv), 0);
		comp = node_completion(&node, 0, NULL);
		assert_int_equal(comp.len, len);
		assert_true(comp.data == 7 && comp.flags & BL_REMOTE_CQ_DATA);
		check(len);
	}
	node_close(&node);
}

static void too_many_pieces(void **state)
{
	struct iovec iov[BL_IOV_MAX + 1] = {{NULL, 0}};
	struct bl_send send = {iov, BL_IOV_MAX + 1, 0, 9, 0, NULL, BL_TAGGED, NULL};
	struct bl_recv recv = {iov, BL_IOV_MAX + 1, 0, 9, 0, NULL, BL_TAGGED, NULL};

	node_open(&node, 1);
	assert_int_equal(bl_send(node.ep[0], &send), -EINVAL);
	assert_int_equal(bl_recv(node.ep[0], &recv), -EINVAL);
	node_close(&node);
}

/* --- many at once ----------------------------------------------------------- */

#define MANY 300 /* more than any table begins with */
#define EACH 100000

static void many_large(void **state)
{
	uint8_t *all = malloc((size_t)MANY * EACH);
	size_t sent[3] = {0}, received = 0, told = 0;

	assert_non_null(all);
	open_with(3, state);
	for (size_t i = 0; i < MANY; i++) {
		size_t by = 1 + i % 2;

		node_send(&node, by, 0, from + i, EACH, i, from + i, NODE_FLAGS);
		sent[by]++;
	}
	node_settle(&node, 0);
	assert_true(node.ep[0]->tagged.unexpected.head); /* none has been copied */
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(bl_recv_buf(node.ep[0], all + i * EACH, EACH, 1 + i % 2, i, 0,
					     (void *)i, NODE_FLAGS),
				 0);
	for (uint64_t until = bl_clock_ns() + 60000000000ull; received + told < 2 * MANY;) {
		struct bl_comp comp[16];

		assert_true(bl_clock_ns() < until);
		for (size_t at = 0; at < 3; at++) {
			ssize_t n = bl_cq_read(node.cq[at], comp, 16, sizeof *comp, NULL);

			if (n == -EAGAIN)
				continue;
			assert_true(n > 0);
			*(at ? &told : &received) += (size_t)n;
			for (ssize_t k = 0; k < n && !at; k++) {
				size_t i = (size_t)comp[k].context;

				assert_int_equal(comp[k].len, EACH);
				assert_memory_equal(all + i * EACH, from + i, EACH);
			}
		}
	}
	assert_int_equal(received, MANY);
	assert_int_equal(node.ep[1]->rndv.requests + node.ep[2]->rndv.requests, 0);
	node_close(&node);
	free(all);
}

/* A receiver that doesn't look: the ring fills, what follows waits, and nothing is lost. */
static void full_ring(void **state)
{
	uint32_t sent = 0, value;

	node_open(&node, 2);
	for (uint32_t lap = 0; lap < 20; lap++) {
		uint32_t before = sent, queued = 0;

		while (queued < lap * 1000 || !queued) {
			assert_int_equal(
				bl_inject(node.ep[1], &sent, sizeof sent, 0, 3, 0, BL_TAGGED), 0);
			queued += node.ep[1]->txq.nactive;
			sent++;
		}
		assert_in_range(sent - before - queued, BL_SLOTS - BL_CREDIT_EVERY + 1, BL_SLOTS);
		assert_int_equal(node.ep[1]->txq.kept, queued * sizeof sent);
		for (uint32_t i = before; i < sent; i++) {
			assert_int_equal(bl_recv_buf(node.ep[0], &value, sizeof value, 1, 3, 0,
						     NULL, NODE_FLAGS),
					 0);
			assert_int_equal(node_completion(&node, 0, NULL).len, sizeof value);
			assert_int_equal(value, i);
		}
		assert_int_equal(node.ep[1]->txq.kept, 0);
		assert_int_equal(node.ep[1]->work, 0);
	}
	node_close(&node);
}

struct refused_row {
	struct row row;
	size_t len;
	uint64_t dest, flags;
	int result;
};

static const struct refused_row refusals[] = {
	{{"inject too long", "one byte more than bl_inject_max"},
	 SIZE_MAX,
	 0,
	 BL_TAGGED | BL_INJECT,
	 -EMSGSIZE},
	{{"no such index", "one behind the last"}, 8, 2, BL_TAGGED, -EINVAL},
	{{"any address", "is no destination"}, 8, BL_ADDR_ANY, BL_TAGGED, -EINVAL},
	{{"removed index", "not there any more"}, 8, 1, BL_MSG, -EINVAL},
};

static void refused(void **state)
{
	const struct refused_row *row = TABLE_ROW(struct refused_row, state);
	size_t len = row->len == SIZE_MAX ? bl_inject_max() + 1 : row->len;
	struct iovec iov = {from, len};
	struct bl_send send = {&iov, 1, row->dest, 0, 0, NULL, row->flags, NULL};

	node_open(&node, 2);
	if (row->dest == 1)
		assert_int_equal(bl_av_remove(node.av[0], 1), 0);
	assert_int_equal(bl_send(node.ep[0], &send), row->result);
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("lengths", all_lengths, ways);
	TABLE_ROWS("inject", injected_beyond_eager, ways);
	TABLE_ROWS("fenced", injected_behind_a_fence, ways);
	TABLE_ROWS("pieces", in_pieces, ways);
	TABLE_TEST(too_many_pieces);
	TABLE_ROWS("many", many_large, ways);
	TABLE_TEST(full_ring);
	TABLE_ROWS("refused", refused, refusals);
	return table_run("flow");
}
