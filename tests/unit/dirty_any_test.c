/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dirty_any_test.c: messages of any length, some of whose bytes their sender has just written
 * (transport/local/adapt/dirty.h), both ways and in any order.
 */
#include "unit/dirty.h"

#define UNDER_WAY 4u /* messages each way, at most */

static const size_t some_lens[] = {8,	300,   MIDDLE,	     MIDDLE + 1,       12345, 20000,
				   LEN, 65535, BL_PROXY_MIN, BL_PROXY_MIN + 1, FRESH, FRESH + 1};

/* One direction: what has been sent and not been received, oldest first. */
struct way {
	uint8_t out[UNDER_WAY][LONGEST], in[UNDER_WAY][LONGEST];
	size_t len[UNDER_WAY];
	bool came[UNDER_WAY];
	uint32_t sent, posts, got; /* messages ever */
	uint32_t done;		   /* sends that are complete */
};

static struct way way[2]; /* by sender */

/* Take what is complete at one's queue: its sends, and receives of the other's messages, which are
 * matched in order and may end in another. */
static void look(size_t at)
{
	struct bl_comp comp;

	while (bl_cq_read(node.cq[at], &comp, 1, sizeof comp, NULL) == 1) {
		struct way *w = &way[!at];
		uint32_t n = 0;

		if (comp.flags & BL_SEND) {
			way[at].done++;
			continue;
		}
		while (n < UNDER_WAY && comp.context != w->in[n])
			n++;
		assert_true(n < UNDER_WAY && !w->came[n]);
		assert_int_equal(comp.len, w->len[n]);
		assert_memory_equal(w->in[n], w->out[n], comp.len);
		w->came[n] = true;
		for (; w->came[w->got % UNDER_WAY]; w->got++)
			w->came[w->got % UNDER_WAY] = false;
	}
}

/* The next receive of one's messages, in their order. */
static void post_next(size_t by)
{
	struct way *w = &way[by];
	uint32_t n = w->posts++ % UNDER_WAY;

	memset(w->in[n], 0xee, sizeof w->in[n]);
	assert_int_equal(
		bl_recv_buf(node.ep[!by], w->in[n], LONGEST, by, 9, 0, w->in[n], NODE_FLAGS), 0);
}

static void send_one(size_t by, size_t len, uint8_t seed, uint64_t flags)
{
	struct way *w = &way[by];
	uint32_t n = w->sent % UNDER_WAY;
	struct iovec iov = {w->out[n], len};
	struct bl_send send = {&iov, 1, !by, 9, 0, NULL, NODE_FLAGS | flags, NULL};
	time_t deadline = time(NULL) + 60;
	int err;

	for (size_t i = 0; i < len; i++)
		w->out[n][i] = (uint8_t)(seed + i * 7 + (i >> 8));
	w->len[n] = len;
	node.ep[by]->dest[!by]->tx.past = 0;
	node.ep[by]->ways.habit.leaves = 0;
	while ((err = bl_send(node.ep[by], &send)) == -EAGAIN) {
		look(0);
		look(1);
		assert_true(time(NULL) < deadline);
	}
	assert_int_equal(err, 0);
	w->sent++;
}

static void any_step(uint64_t x, size_t by)
{
	struct way *w = &way[by];

	if (!(x >> 16 & 31)) {
		say_fresh(0, x >> 21 & 1);
		say_fresh(1, x >> 22 & 1);
		waits_here = x >> 23 & 3;
		copies_take_long(x >> 25 & 3);
	}
	if (x >> 32 & 1 && w->posts == w->sent && w->posts - w->got < UNDER_WAY)
		post_next(by); /* before it comes */
	if (w->sent - w->got < UNDER_WAY) {
		size_t some = some_lens[(x >> 40) % (sizeof some_lens / sizeof *some_lens)];

		send_one(by, x >> 60 & 3 ? LEN + (x >> 50 & 1023) : some, (uint8_t)(x >> 4),
			 x >> 48 & 3 ? 0 : BL_DELIVERY_COMPLETE);
	}
	while (x >> 33 & 1 && (int32_t)(w->sent - w->posts) > 0)
		post_next(by);
	look(x >> 34 & 1);
}

static void all_of_them(void)
{
	time_t deadline = time(NULL) + 60;

	for (size_t by = 0; by < 2; by++)
		while (way[by].got != way[by].sent || way[by].done != way[by].sent) {
			while ((int32_t)(way[by].sent - way[by].posts) > 0)
				post_next(by);
			look(0);
			look(1);
			assert_true(time(NULL) < deadline);
		}
}

/* Messages of all kinds both ways, fresh by turns, posted before they come or after: each arrives
 * whole and once, to the receive that it matches. */
static void any_of_them(void **state)
{
	static const char all_ways[] = "rwpg";
	uint32_t seen[4] = {0};
	uint64_t seed = 4711;

	(void)state;
	memset(way, 0, sizeof way);
	open_fresh();
	stretch_both();
	for (uint32_t step = 0; step < 6000; step++) {
		uint64_t x = table_random(&seed);
		bool calm = step / 500 & 1; /* one by one, in turn */
		size_t by = calm ? step & 1 : x & 1;
		uint32_t sent = way[by].sent;

		any_step(x, by);
		if (way[by].sent != sent && BL_HEAD_OP(last_head(by)) <= BL_OP_MSG_RTS)
			seen[strchr(all_ways, way_of_last(by)) - all_ways]++;
		if (calm)
			all_of_them();
	}
	waits_here = true;
	all_of_them();
	for (size_t i = 0; i < 4; i++)
		assert_in_range(seen[i], 50, 6000);
	node_close(&node);
}

int main(void)
{
	set_limits();
	unsetenv("FI_BEELINE_LONG_RING");
	unsetenv("FI_BEELINE_COPYBUF");
	TABLE_TEST(any_of_them);
	return table_run("dirty_any");
}
