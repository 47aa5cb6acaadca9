/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cq_test.c: completion queues alone: growth, order, errors among completions,
 * the four formats, counters, and what may be closed when.
 */
#include <errno.h>
#include <string.h>

#include "endpoint/api.h"
#include "unit/table.h"

static struct bl_domain *domain;
static struct bl_cq *cq;

static void open_cq(size_t size)
{
	assert_int_equal(bl_domain_open(&domain), 0);
	assert_int_equal(bl_cq_open(domain, size, &cq), 0);
}

static void close_cq(void)
{
	assert_int_equal(bl_cq_close(cq), 0);
	assert_int_equal(bl_domain_close(domain), 0);
}

static struct bl_comp numbered(uint64_t n)
{
	return (struct bl_comp){(void *)(uintptr_t)(n + 1), n * 3, n * 5,
				(void *)(uintptr_t)n,	    n * 7, n * 11};
}

static void push(uint64_t n)
{
	struct bl_comp comp = numbered(n);

	bl_cq_append(cq, &comp, n * 13);
}

static void push_error(uint64_t n)
{
	struct bl_comp_err err = {.comp = numbered(n), .err = (int)(n % 100 + 1), .src = n};
	struct bl_sink none = {.cq = NULL};

	bl_cq_fail(cq, &none, &err);
}

/* --- growth ------------------------------------------------------------- */

struct grow_row {
	struct row row;
	size_t size;	  /* asked for */
	uint64_t before;  /* pushed and taken first: where the ring begins */
	uint64_t waiting; /* then pushed without taking */
};

static const struct grow_row growths[] = {
	{{"size 0", "the default size"}, 0, 0, 1},
	{{"just full", "no growth yet"}, 64, 0, 64},
	{{"one more", "the first growth"}, 64, 0, 65},
	{{"begins at the end", "the ring is wrapped when it grows"}, 64, 63, 65},
	{{"begins in the middle", "both halves move"}, 64, 32, 65},
	{{"twice", "grows and grows"}, 64, 5, 200},
	{{"much", "grows ten times"}, 1, 17, 65537},
	{{"size of 100", "no power of two"}, 100, 90, 300},
};

static void grows_and_keeps_order(void **state)
{
	const struct grow_row *row = TABLE_ROW(struct grow_row, state);
	struct bl_comp comp;
	uint64_t n = 0, next = 0, src;

	open_cq(row->size);
	for (; n < row->before; n++, next++) {
		push(n);
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, &src), 1);
	}
	for (uint64_t i = 0; i < row->waiting; i++)
		push(n++);
	while (next < n) {
		struct bl_comp many[7], expected;
		uint64_t from[7];
		ssize_t got = bl_cq_read(cq, many, 7, sizeof many[0], from);

		assert_in_range(got, 1, 7);
		for (ssize_t i = 0; i < got; i++, next++) {
			expected = numbered(next);
			assert_memory_equal(&many[i], &expected, sizeof expected);
			assert_true(from[i] == next * 13);
		}
	}
	assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, &src), -EAGAIN);
	close_cq();
}

/* --- formats -------------------------------------------------------------- */

struct format_row {
	struct row row;
	size_t entry;
};

static const struct format_row formats[] = {
	{{"context", "the shortest: 8 bytes"}, 8},
	{{"msg", "24 bytes"}, 24},
	{{"data", "40 bytes"}, 40},
	{{"tagged", "all 48 bytes"}, 48},
};

static void entry_is_a_prefix(void **state)
{
	size_t entry = TABLE_ROW(struct format_row, state)->entry;
	unsigned char out[4 * 48];

	open_cq(0);
	for (uint64_t n = 0; n < 3; n++)
		push(n);
	memset(out, 0xcc, sizeof out);
	assert_int_equal(bl_cq_read(cq, out, 4, entry, NULL), 3);
	for (uint64_t n = 0; n < 3; n++) {
		struct bl_comp expected = numbered(n);

		assert_memory_equal(out + n * entry, &expected, entry);
	}
	for (size_t i = 3 * entry; i < sizeof out; i++)
		assert_int_equal(out[i], 0xcc);
	close_cq();
}

/* --- errors --------------------------------------------------------------- */

struct order_row {
	struct row row;
	const char *events; /* c: a completion, e: an error */
	size_t max;	    /* of each read */
};

static const struct order_row orders[] = {
	{{"error first", "it is reported at once"}, "eccc", 4},
	{{"error last", "after what came before"}, "ccce", 4},
	{{"error in between", "a read ends before it"}, "ccecc", 8},
	{{"one by one", "the same, in single reads"}, "ccecc", 1},
	{{"two in a row", "two errors, one after the other"}, "ceec", 8},
	{{"errors alone", "no completion at all"}, "eee", 8},
	{{"alternating", "each keeps its place"}, "ecececec", 3},
	{{"growth between", "places hold when the ring doubles"},
	 "ceccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccceccc",
	 64},
	{{"many errors", "their own list grows as well"},
	 "eeeeeeeeeeeeeeeeeceeeeeeeeeeeeeeeeeeeeeeeeeeeeeeec",
	 64},
};

static void errors_keep_their_place(void **state)
{
	const struct order_row *row = TABLE_ROW(struct order_row, state);
	size_t n = strlen(row->events), at = 0;

	open_cq(0);
	for (size_t i = 0; i < n; i++)
		(row->events[i] == 'e' ? push_error : push)(i);
	while (at < n) {
		struct bl_comp comp[64], expected;
		struct bl_comp_err err;
		ssize_t got = bl_cq_read(cq, comp, row->max, sizeof *comp, NULL);

		if (row->events[at] == 'e') {
			assert_int_equal(got, -BL_EAVAIL);
			/* it stays there until it is taken */
			assert_int_equal(bl_cq_read(cq, comp, row->max, sizeof *comp, NULL),
					 -BL_EAVAIL);
			assert_int_equal(bl_cq_readerr(cq, &err), 1);
			expected = numbered(at);
			assert_memory_equal(&err.comp, &expected, sizeof expected);
			assert_int_equal(err.err, at % 100 + 1);
			at++;
			continue;
		}
		assert_true(got > 0);
		assert_int_equal(bl_cq_readerr(cq, &err) == 1,
				 row->events[at + (size_t)got] == 'e');
		for (ssize_t i = 0; i < got; i++, at++) {
			assert_int_equal(row->events[at], 'c');
			expected = numbered(at);
			assert_memory_equal(&comp[i], &expected, sizeof expected);
		}
		/* the error was taken above, to see that it was next */
		if (row->events[at] == 'e')
			at++;
	}
	assert_int_equal(bl_cq_read(cq, NULL, 0, 48, NULL), -EAGAIN);
	close_cq();
}

/* There is always one, and never more than two. */
static void errors_that_are_read_take_no_room(void **state)
{
	struct bl_comp_err err;

	open_cq(0);
	push_error(0);
	for (size_t i = 1; i < 10000; i++) {
		struct bl_comp expected = numbered(i - 1);

		push_error(i);
		assert_int_equal(bl_cq_readerr(cq, &err), 1);
		assert_memory_equal(&err.comp, &expected, sizeof expected);
	}
	assert_true(cq->err_room <= 16);
	close_cq();
}

static void readerr_of_no_error(void **state)
{
	struct bl_comp_err err;

	open_cq(0);
	assert_int_equal(bl_cq_readerr(cq, &err), -EAGAIN); /* empty */
	push(1);
	assert_int_equal(bl_cq_readerr(cq, &err), -EAGAIN); /* the head is none */
	close_cq();
}

static void max_of_0_is_progress_alone(void **state)
{
	struct bl_comp comp;

	open_cq(0);
	push(1);
	assert_int_equal(bl_cq_read(cq, NULL, 0, sizeof comp, NULL), -EAGAIN);
	assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), 1); /* still there */
	close_cq();
}

/* --- counters, closing ------------------------------------------------------ */

static void counter_arithmetic(void **state)
{
	struct bl_cntr *cntr;

	assert_int_equal(bl_domain_open(&domain), 0);
	assert_int_equal(bl_cntr_open(domain, &cntr), 0);
	assert_int_equal(bl_cntr_read(cntr), 0);
	bl_cntr_add(cntr, 5);
	bl_cntr_adderr(cntr, 2);
	assert_int_equal(bl_cntr_read(cntr), 5);
	assert_int_equal(bl_cntr_readerr(cntr), 2);
	bl_cntr_set(cntr, UINT64_MAX);
	bl_cntr_add(cntr, 1); /* wraps, as the standard's counters do */
	assert_int_equal(bl_cntr_read(cntr), 0);
	bl_cntr_seterr(cntr, 9);
	assert_int_equal(bl_cntr_readerr(cntr), 9);
	assert_int_equal(bl_domain_close(domain), -EBUSY);
	assert_int_equal(bl_cntr_close(cntr), 0);
	assert_int_equal(bl_domain_close(domain), 0);
}

static void busy_while_in_use(void **state)
{
	struct bl_ep *ep;
	struct bl_av *av;
	struct bl_cntr *cntr;

	open_cq(0);
	assert_int_equal(bl_av_open(domain, &av), 0);
	assert_int_equal(bl_cntr_open(domain, &cntr), 0);
	assert_int_equal(bl_ep_open(domain, &ep), 0);
	assert_int_equal(bl_ep_bind_cq(ep, cq, BL_SEND), 0);
	assert_int_equal(bl_ep_bind_cq(ep, cq, BL_RECV), 0);
	assert_int_equal(bl_ep_bind_cq(ep, cq, BL_RECV), -EINVAL); /* twice */
	assert_int_equal(bl_ep_bind_av(ep, av), 0);
	assert_int_equal(bl_ep_bind_cntr(ep, cntr, BL_RECV), 0);
	assert_int_equal(bl_cq_close(cq), -EBUSY);
	assert_int_equal(bl_av_close(av), -EBUSY);
	assert_int_equal(bl_cntr_close(cntr), -EBUSY);
	assert_int_equal(bl_domain_close(domain), -EBUSY);
	assert_int_equal(bl_ep_close(ep), 0);
	assert_int_equal(bl_av_close(av), 0);
	assert_int_equal(bl_cntr_close(cntr), 0);
	close_cq();
}

int main(void)
{
	TABLE_ROWS("growth", grows_and_keeps_order, growths);
	TABLE_ROWS("format", entry_is_a_prefix, formats);
	TABLE_ROWS("order", errors_keep_their_place, orders);
	TABLE_TEST(errors_that_are_read_take_no_room);
	TABLE_TEST(readerr_of_no_error);
	TABLE_TEST(max_of_0_is_progress_alone);
	TABLE_TEST(counter_arithmetic);
	TABLE_TEST(busy_while_in_use);
	return table_run("cq");
}
