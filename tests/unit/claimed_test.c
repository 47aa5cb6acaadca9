/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * claimed_test.c: a sender has claimed a receive and copied all of it, and is gone when the
 * receiver looks again, which had read the message while it was being copied. bl_copy_push() is
 * ours: in it the receiver reads. Endpoint 0 sends, endpoint 1 receives.
 */
#include <errno.h>
#include <string.h>

#include "copy/engine.h"
#include "transport/local/ways/proxy.h"
#include "transport/local/ways/rndv.h"
#include "unit/node.h"

#define LEN 200000u

struct gone_row {
	struct row row;
	bool early;  /* it is gone before all is copied */
	bool broken; /* and it has made no sense */
	int err;     /* of the receive */
};

static const struct gone_row rows[] = {
	{{"closed", "its send was over"}, false, false, 0},
	{{"closed in the middle", "not all is there"}, true, false, ENOTCONN},
	{{"broke the protocol", "its word that all is there isn't taken"}, false, true, EPROTO},
};

static const struct gone_row *row;
static struct node node;
static uint8_t from[LEN], to[LEN];
static struct bl_peer *sender; /* as the receiver knows it */

int __real_bl_copy_push(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
			const struct iovec *theirs, size_t ntheirs, size_t off, size_t len);
int __wrap_bl_copy_push(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
			const struct iovec *theirs, size_t ntheirs, size_t off, size_t len);

int __wrap_bl_copy_push(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
			const struct iovec *theirs, size_t ntheirs, size_t off, size_t len)
{
	struct bl_sink none = BL_SINK_NONE;

	if (sender && !node.ep[1]->ways.proxy.nclaimed)
		bl_ep_progress(node.ep[1]);
	if (sender && row->early) {
		atomic_store(&node.ep[0]->local.seg.header->closed, 1);
		bl_ep_look(node.ep[1], &none, bl_ticks());
		atomic_store(&node.ep[0]->local.seg.header->closed, 0);
		sender = NULL;
	}
	return __real_bl_copy_push(pair, mine, nmine, theirs, ntheirs, off, len);
}

static void is_gone(void **state)
{
	struct bl_sink none = BL_SINK_NONE;

	row = TABLE_ROW(struct gone_row, state);
	node_open(&node, 2);
	for (size_t a = 0; a < 2; a++)
		for (size_t b = 0; b < 2; b++)
			node.ep[a]->dest[b]->copy.push = BL_COPY_VM;
	sender = node.ep[1]->dest[0];
	sender->copy.pull = BL_COPY_NOTHING; /* it doesn't help to copy */
	memset(to, 0, sizeof to);
	assert_int_equal(bl_recv_buf(node.ep[1], to, LEN, 0, 1, 0, to, NODE_FLAGS), 0);
	atomic_store_explicit(&node.ep[1]->local.seg.header->here, 0, memory_order_relaxed);
	assert_int_equal(bl_send_buf(node.ep[0], from, LEN, 1, 1, 0, from, NODE_FLAGS), 0);
	if (!row->early) {
		assert_int_equal(node.ep[1]->ways.proxy.nclaimed, 1);
		/* The sender is told, and goes. */
		assert_int_equal(node.ep[0]->rndv.requests, 0);
		sender->broken = row->broken;
		atomic_store(&node.ep[0]->local.seg.header->closed, !row->broken);
		bl_ep_look(node.ep[1], &none, bl_ticks());
		atomic_store(&node.ep[0]->local.seg.header->closed, 0);
	}
	assert_int_equal(node.ep[1]->ways.proxy.nclaimed, 0);
	if (row->err) {
		assert_int_equal(node_error(&node, 1).err, row->err);
	} else {
		struct bl_comp got = node_completion(&node, 1, NULL);

		assert_ptr_equal(got.context, to);
		assert_int_equal(got.len, LEN);
		assert_memory_equal(to, from, LEN);
	}
	sender = NULL;
	node_close(&node);
}

int main(void)
{
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13);
	TABLE_ROWS("gone", is_gone, rows);
	return table_run("claimed");
}
