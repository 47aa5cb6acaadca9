/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * poor_test.c: no memory for what is to be begun (bl_no_memory): "try again" for a second of
 * refusals in a row, then an error, and all as before when there is some. Time is this test's.
 */
#include <time.h>

#include "endpoint/rma.h"
#include "unit/pair.h"

/* The service thread's, too. */
static _Atomic bool poor;
static _Atomic uint64_t later; /* ns */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return poor ? NULL : __real_malloc(bytes);
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
	return poor ? NULL : __real_calloc(n, bytes);
}

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	return poor ? NULL : __real_aligned_alloc(align, bytes);
}

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int err = __real_clock_gettime(clock, t);
	uint64_t ns = (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec + later;

	t->tv_sec = (time_t)(ns / 1000000000);
	t->tv_nsec = (long)(ns % 1000000000);
	return err;
}

static int send_large(void)
{
	struct iovec iov = {from, LONGEST};
	struct bl_send send = {&iov, 1, 0, 9, 7, from, NODE_FLAGS, NULL};

	return bl_send(sender, &send);
}

static int send_told(void)
{
	struct iovec iov = {from, 8};
	struct bl_send send = {&iov, 1, 0, 9, 7, from, NODE_FLAGS | BL_DELIVERY_COMPLETE, NULL};

	return bl_send(sender, &send);
}

/* Of receives there are some, as long as they last. */
static int receive_one(void)
{
	int err;

	do
		err = bl_recv_buf(receiver, to, sizeof to, 1, 9, 0, to, NODE_FLAGS);
	while (!err && poor);
	return err;
}

static int receive_pieces(void)
{
	struct iovec iov[2] = {{to, 100}, {to + 100, 100}};
	struct bl_recv recv = {.iov = iov, .niov = 2, .src = 1, .tag = 9, .flags = NODE_FLAGS};
	int err;

	do
		err = bl_recv(receiver, &recv);
	while (!err && poor);
	return err;
}

struct begin_row {
	struct row row;
	int (*begin)(void);
};

static const struct begin_row begins[] = {
	{{"a large message", "its request"}, send_large},
	{{"a short one, to be delivered", "its request"}, send_told},
	{{"a receive", "its place in the queue"}, receive_one},
	{{"a receive in pieces", "their list"}, receive_pieces},
};

#define MS 1000000ull

static void an_error_after_a_second(void **state)
{
	const struct begin_row *row = TABLE_ROW(struct begin_row, state);
	uint32_t n = 0;
	int err;

	poor = false;
	open_pair();
	poor = true;
	for (uint32_t round = 0; round < 2; round++) {
		for (n = 0; (err = row->begin()) == -EAGAIN && n < 100; n++)
			later += 100 * MS;
		assert_int_equal(err, -ENOMEM);
		assert_in_range(n, 9, 11);
	}
	poor = false;
	assert_int_equal(row->begin(), 0);
	node_close(&node);
}

/* Who tries again only now and then goes on. */
static void not_in_a_row(void **state)
{
	const struct begin_row *row = TABLE_ROW(struct begin_row, state);

	poor = false;
	open_pair();
	poor = true;
	for (uint32_t n = 0; n < 20; n++) {
		assert_int_equal(row->begin(), -EAGAIN);
		later += 300 * MS;
	}
	poor = false;
	assert_int_equal(row->begin(), 0);
	node_close(&node);
}

int main(void)
{
	set_limits();
	TABLE_ROWS("begin", an_error_after_a_second, begins);
	TABLE_ROWS("now and then", not_in_a_row, begins);
	return table_run("poor");
}
