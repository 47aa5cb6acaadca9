/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * node.c: see node.h.
 */
#include "unit/node.h"

#include <sched.h>
#include <string.h>

#define DEADLINE_NS 20000000000ull

static uint64_t deadline(void)
{
	return bl_clock_ns() + DEADLINE_NS;
}

static void connect_all(struct node *node)
{
	for (size_t from = 0; from < node->count; from++)
		for (size_t to = 0; to < node->count; to++)
			node_send(node, from, to, NULL, 0, ~0ull, NULL, BL_TAGGED);
	for (size_t at = 0; at < node->count; at++)
		for (size_t from = 0; from < node->count; from++) {
			uint64_t src;

			assert_int_equal(bl_recv_buf(node->ep[at], NULL, 0, from, ~0ull, 0, NULL,
						     NODE_FLAGS),
					 0);
			node_completion(node, at, &src);
			assert_int_equal(src, from);
		}
}

static void open_in(struct node *node, size_t count, size_t domains)
{
	memset(node, 0, sizeof *node);
	node->count = count;
	for (size_t i = 0; i < count; i++) {
		if (i < domains)
			assert_int_equal(bl_domain_open(&node->of[i]), 0);
		else
			node->of[i] = node->of[0];
		assert_int_equal(bl_ep_open(node->of[i], &node->ep[i]), 0);
		assert_int_equal(bl_av_open(node->of[i], &node->av[i]), 0);
		assert_int_equal(bl_cq_open(node->of[i], 0, &node->cq[i]), 0);
		assert_int_equal(bl_ep_bind_av(node->ep[i], node->av[i]), 0);
		assert_int_equal(bl_ep_bind_cq(node->ep[i], node->cq[i], BL_SEND | BL_RECV), 0);
		assert_int_equal(bl_ep_enable(node->ep[i]), 0);
	}
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < count; k++) {
			struct bl_addr addr;
			uint64_t index;

			bl_ep_getname(node->ep[k], &addr);
			assert_int_equal(bl_av_insert(node->av[i], &addr, &index), 0);
			assert_int_equal(index, k);
		}
	node->domain = node->of[0];
	connect_all(node);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < count; k++)
			node->peer[i][k] = node->ep[i]->dest[k];
}

void node_open(struct node *node, size_t count)
{
	open_in(node, count, 1);
}

void node_open_apart(struct node *node, size_t count)
{
	open_in(node, count, count);
}

void node_close(struct node *node)
{
	for (size_t i = 0; i < node->count; i++) {
		assert_int_equal(bl_ep_close(node->ep[i]), 0);
		assert_int_equal(bl_cq_close(node->cq[i]), 0);
		assert_int_equal(bl_av_close(node->av[i]), 0);
	}
	for (size_t i = 0; i < node->count; i++)
		if (!i || node->of[i] != node->domain)
			assert_int_equal(bl_domain_close(node->of[i]), 0);
}

void node_progress(struct node *node)
{
	for (size_t i = 0; i < node->count; i++)
		bl_ep_progress(node->ep[i]);
}

/* Everything that any endpoint has put into its lane to `at` is taken out. */
static bool settled(struct node *node, size_t at)
{
	for (size_t i = 0; i < node->count; i++) {
		const struct bl_peer *to = node->peer[i][at], *from = node->peer[at][i];

		if (to->tx.next != from->rx.next || to->control.n)
			return false;
	}
	return true;
}

void node_settle(struct node *node, size_t at)
{
	for (uint64_t until = deadline(); !settled(node, at);) {
		assert_true(bl_clock_ns() < until);
		bl_ep_progress(node->ep[at]);
	}
}

void node_send(struct node *node, size_t from, size_t to, const void *buf, size_t len, uint64_t tag,
	       void *context, uint64_t flags)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct bl_send send = {&iov, 1, to, tag, 0, context, flags, NULL};
	uint64_t until = deadline();
	int err;

	while ((err = bl_send(node->ep[from], &send)) == -EAGAIN) {
		if (bl_clock_ns() > until)
			fail_msg("no room for a message from %zu to %zu", from, to);
		node_progress(node);
		sched_yield();
	}
	assert_int_equal(err, 0);
}

struct bl_comp node_completion(struct node *node, size_t at, uint64_t *src)
{
	uint64_t until = deadline(), from;
	struct bl_comp comp;
	ssize_t n;

	while ((n = bl_cq_read(node->cq[at], &comp, 1, sizeof comp, &from)) == -EAGAIN) {
		if (bl_clock_ns() > until)
			fail_msg("no completion for endpoint %zu", at);
		node_progress(node);
	}
	assert_int_equal(n, 1);
	if (src)
		*src = from;
	return comp;
}

struct bl_comp_err node_error(struct node *node, size_t at)
{
	uint64_t until = deadline();
	struct bl_comp_err err;
	struct bl_comp comp;
	ssize_t n;

	while ((n = bl_cq_read(node->cq[at], &comp, 1, sizeof comp, NULL)) == -EAGAIN) {
		if (bl_clock_ns() > until)
			fail_msg("no error for endpoint %zu", at);
		node_progress(node);
	}
	assert_int_equal(n, -BL_EAVAIL);
	assert_int_equal(bl_cq_readerr(node->cq[at], &err), 1);
	return err;
}

void node_expect_nothing(struct node *node, size_t at)
{
	struct bl_comp comp;

	node_progress(node);
	assert_int_equal(bl_cq_read(node->cq[at], &comp, 1, sizeof comp, NULL), -EAGAIN);
}
