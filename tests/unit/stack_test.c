/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stack_test.c: a program that has much for each of its threads, as Fortran's threadprivate COMMON
 * blocks: the C library takes that out of the stacks of our threads.
 */
#include "base/thread.h"

#include "unit/node.h"

#define OWN (1u << 20)

static _Thread_local volatile char own[OWN]; /* nobody takes it away */

static void is_counted(void **state)
{
	(void)state;
	own[OWN - 1] = 1;
	assert_true(bl_thread_stack() >= OWN + 256 * 1024);
	assert_int_equal(bl_thread_stack() % 65536, 0);
}

/* Endpoints of two processes are connected by their service threads. */
static void is_enough(void **state)
{
	static uint8_t from[8], to[8];
	struct node node;

	(void)state;
	node_open(&node, 2);
	assert_int_equal(bl_recv_buf(node.ep[0], to, 8, 1, 9, 0, to, NODE_FLAGS), 0);
	node_send(&node, 1, 0, from, 8, 9, NULL, BL_TAGGED);
	assert_int_equal(node_completion(&node, 0, NULL).len, 8);
	node_close(&node);
}

int main(void)
{
	TABLE_TEST(is_counted);
	TABLE_TEST(is_enough);
	return table_run("stack");
}
