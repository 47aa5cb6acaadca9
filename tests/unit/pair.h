/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pair.h: for tests of messages between two endpoints of one process that copy by
 * process_vm_readv, as two processes would, with one under way between them.
 */
#ifndef BL_TESTS_UNIT_PAIR_H
#define BL_TESTS_UNIT_PAIR_H

#include <string.h>

#include "endpoint/recv.h"
#include "core/stat.h"
#include "transport/local/ways/frag.h"
#include "unit/node.h"

#define EAGER 4096u
#ifndef EAGER_LONG
#define EAGER_LONG 48000u
#define LONGEST	   50000u
#endif

static struct node node;
static uint8_t from[LONGEST], to[LONGEST + 64];
static struct bl_ep *sender, *receiver;

static inline void open_pair(void)
{
	node_open(&node, 2);
	receiver = node.ep[0];
	sender = node.ep[1];
	for (size_t a = 0; a < 2; a++)
		for (size_t b = 0; b < 2; b++)
			node.ep[a]->dest[b]->copy.pull = BL_COPY_VM;
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13);
	memset(to, 0xee, sizeof to);
}

/* The receiver, as the sender knows it. */
static inline struct bl_peer *peer(void)
{
	return sender->dest[0];
}

/* Its ring has been made longer. */
static inline bool is_long(void)
{
	return peer()->tx.pay_size > BL_PAYLOAD_SIZE;
}

/* As long as may be: that takes two steps. */
static inline void lengthen(void)
{
	for (int i = 0; i < 2; i++) {
		peer()->tx.nlong = BL_LONGRING_USES;
		bl_longring_look(peer());
	}
}

static inline void post(size_t len)
{
	assert_int_equal(bl_recv_buf(receiver, to, len, 1, 9, 0, to, NODE_FLAGS), 0);
}

static inline void send_by(size_t len, size_t niov, uint64_t flags)
{
	struct iovec iov[BL_IOV_MAX];
	struct bl_send send = {iov, niov, 0, 9, 7, from, NODE_FLAGS | flags, NULL};

	for (size_t i = 0; i < niov; i++) {
		size_t off = len * i / niov;

		iov[i] = (struct iovec){from + off, len * (i + 1) / niov - off};
	}
	assert_int_equal(bl_send(sender, &send), 0);
}

/* The only request that is under way. */
static inline const struct bl_send_op *request(void)
{
	for (uint32_t i = 0; i < sender->rndv.nrequest; i++)
		if (sender->rndv.request[i]->peer)
			return sender->rndv.request[i];
	fail_msg("nothing is being sent");
	return NULL;
}

static inline void check(size_t len)
{
	assert_memory_equal(to, from, len);
	for (size_t i = len; i < len + 64; i++)
		if (to[i] != 0xee)
			fail_msg("%zu bytes: byte %zu behind them was written", len, i - len);
}

static inline uint64_t received(unsigned int way)
{
	return atomic_load(
		&receiver->local.stats->counter[BL_STAT_received_one_copy + 2 * way].value);
}

static inline uint64_t pulled(void)
{
	return atomic_load(&receiver->local.stats->counter[BL_STAT_pulled_bytes].value);
}

static inline uint64_t sent(unsigned int way)
{
	return atomic_load(&sender->local.stats->counter[BL_STAT_sent_one_copy + 2 * way].value);
}

/* Before any endpoint is opened. */
static inline void set_limits(void)
{
	char eager[16], carried[16];

	snprintf(eager, sizeof eager, "%u", EAGER);
	snprintf(carried, sizeof carried, "%u", EAGER_LONG);
	setenv("FI_BEELINE_EAGER_MAX", eager, 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", carried, 1);
	setenv("FI_BEELINE_LONG_RING", "never", 1);
	setenv("FI_BEELINE_COPYBUF", "never", 1);
	setenv("FI_BEELINE_SPLIT_MIN", "1M", 1);
	setenv("FI_BEELINE_SPIN", "0", 1); /* both ends belong to one thread */
}

#endif
