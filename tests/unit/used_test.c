/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * used_test.c: of which buffers place/huge.c hears: those that were copied into or out of by system
 * calls, on both sides, once for each message. Whether it does something is huge_test.c's.
 */
#include <string.h>

#include "transport/local/ways/rndv.h"
#include "unit/node.h"

#define LONGEST (1u << 20)

static struct node node;
static uint8_t from[LONGEST], to[LONGEST];

static struct {
	size_t from, to;
	unsigned calls;
} used;

size_t __wrap_bl_huge_used(struct bl_huge *huge, const void *addr, size_t len);

size_t __wrap_bl_huge_used(struct bl_huge *huge, const void *addr, size_t len)
{
	const uint8_t *at = addr;

	(void)huge;
	used.calls++;
	if (at >= from && at < from + sizeof from)
		used.from += len;
	else if (at >= to && at < to + sizeof to)
		used.to += len;
	return 0;
}

struct used_row {
	struct row row;
	size_t len, niov, want;
	enum { TWO, SELF, NO_SENDER, NO_RECEIVER, POSTED } how;
	size_t sent, received;
};

static const struct used_row rows[] = {
	{{"short", "goes through the ring"}, 1000, 1, 1000, TWO, 0, 0},
	{{"a byte less", "too short to count"}, 65535, 1, 65535, TWO, 0, 0},
	{{"64 KiB", "the shortest"}, 65536, 1, 65536, TWO, 65536, 65536},
	{{"long", "by both hands"}, LONGEST, 1, LONGEST, TWO, LONGEST, LONGEST},
	{{"truncated", "what was copied of it counts there"},
	 LONGEST,
	 1,
	 70000,
	 TWO,
	 LONGEST,
	 70000},
	{{"truncated to little", "too short there"}, LONGEST, 1, 5000, TWO, LONGEST, 0},
	{{"pieces", "long enough each"}, LONGEST, 2, LONGEST, TWO, LONGEST, LONGEST},
	{{"short pieces", "none counts"}, 262144, 8, 262144, TWO, 0, 262144},
	{{"one process", "no page is looked up"}, LONGEST, 1, LONGEST, SELF, 0, 0},
	{{"failed", "its sender has died"}, LONGEST, 1, LONGEST, NO_SENDER, 0, 0},
	{{"failed there", "its receiver has died"}, LONGEST, 1, LONGEST, NO_RECEIVER, 0, 0},
	{{"claimed", "the sender has written it"}, LONGEST, 1, LONGEST, POSTED, LONGEST, LONGEST},
};

static void post(size_t len)
{
	assert_int_equal(bl_recv_buf(node.ep[0], to, len, 1, 1, 0, NULL, NODE_FLAGS), 0);
}

static void is_heard_of(void **state)
{
	const struct used_row *row = TABLE_ROW(struct used_row, state);
	struct iovec iov[BL_IOV_MAX];
	struct bl_send send = {iov, row->niov, 0, 1, 0, NULL, NODE_FLAGS, NULL};

	memset(&used, 0, sizeof used);
	node_open(&node, 2);
	if (row->how != SELF)
		for (size_t a = 0; a < 2; a++)
			for (size_t b = 0; b < 2; b++)
				node.ep[a]->dest[b]->copy.pull = node.ep[a]->dest[b]->copy.push =
					BL_COPY_VM;
	for (size_t i = 0; i < row->niov; i++)
		iov[i] = (struct iovec){from + i * row->len / row->niov, row->len / row->niov};
	if (row->how == POSTED) {
		post(row->want);
		bl_ep_progress(node.ep[0]); /* and it goes away */
	}
	assert_int_equal(bl_send(node.ep[1], &send), 0);
	node_settle(&node, 0);
	if (row->how == NO_SENDER)
		atomic_store(&node.ep[0]->dest[1]->life.found_dead, true);
	if (row->how == NO_RECEIVER) {
		atomic_store(&node.ep[1]->dest[0]->life.found_dead, true);
		node_error(&node, 1);
	} else {
		if (row->how != POSTED)
			post(row->want);
		if (row->how == NO_SENDER || row->want < row->len)
			node_error(&node, 0);
		else
			node_completion(&node, 0, NULL);
		if (row->how != NO_SENDER)
			node_completion(&node, 1, NULL);
	}
	assert_int_equal(used.from, row->sent);
	assert_int_equal(used.to, row->received);
	node_close(&node);
}

int main(void)
{
	setenv("FI_BEELINE_EAGER_LONG_MAX", "0", 1);
	setenv("FI_BEELINE_OVERLAP", "always", 1);
	setenv("FI_BEELINE_SPIN", "0", 1); /* both ends belong to one thread */
	TABLE_ROWS("used", is_heard_of, rows);
	return table_run("used");
}
