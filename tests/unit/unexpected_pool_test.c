/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * unexpected_pool_test.c: memory for messages that come before their receives
 * (core/unexpected_pool.c): how much each takes, which is used again, and how much is kept unused.
 */
#include <string.h>

#include "transport/local/ways/rndv.h"
#include "endpoint/recv.h"
#include "unit/node.h"

#define LONGEST BL_EAGER_MOST
#define MANY	64

static struct node node;
static uint32_t mallocs;

void *__wrap_malloc(size_t bytes);
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	mallocs++;
	return __real_malloc(bytes);
}

static struct bl_ep *home(void)
{
	return node.ep[0];
}

static uint32_t unused(void)
{
	return home()->unexpected_pool.unused;
}

static uint64_t private_bytes(void)
{
	return atomic_load(&home()->local.stats->counter[BL_STAT_private_bytes].value);
}

/* One with all of its bytes written to. */
static struct bl_unexpected *get(size_t bytes)
{
	struct bl_unexpected *u = bl_unexpected_get(home(), bytes);

	assert_non_null(u);
	memset(u->bytes, 0x5a, bytes);
	return u;
}

/* So many at once, come and gone; how many of them were allocated. */
static uint32_t burst(uint32_t n, size_t bytes)
{
	struct bl_unexpected *u[MANY];
	uint32_t before = mallocs;

	for (uint32_t i = 0; i < n; i++)
		u[i] = get(bytes);
	before = mallocs - before;
	for (uint32_t i = 0; i < n; i++)
		bl_unexpected_put(home(), u[i]);
	return before;
}

/* --- how much it takes ------------------------------------------------------------ */

struct room_row {
	struct row row;
	size_t bytes, room; /* of a message; of what it lies in, 0: of none that is used again */
};

static const struct room_row rooms[] = {
	{{"a slot's bytes", "from a slab"}, BL_SLOT_INLINE, 0},
	{{"a byte more", "the shortest size"}, BL_SLOT_INLINE + 1, 512},
	{{"all of the shortest", "the same"}, 512, 512},
	{{"a byte more than that", "a quarter more"}, 513, 640},
	{{"all of a quarter", "the same"}, 640, 640},
	{{"a power of two", "the last quarter's end"}, 1024, 1024},
	{{"a byte more than a power", "a quarter more"}, 1025, 1280},
	{{"4 KiB", "no byte in vain"}, 4096, 4096},
	{{"8200 bytes", "not 16 KiB"}, 8200, 10240},
	{{"the longest eager", "the last size"}, LONGEST, LONGEST},
	{{"longer", "isn't used again"}, LONGEST + 1, 0},
};

static void takes(void **state)
{
	const struct room_row *row = TABLE_ROW(struct room_row, state);
	size_t whole = row->room ? offsetof(struct bl_unexpected, bytes) + row->room : 0;
	struct bl_unexpected *u;
	uint64_t before;

	node_open(&node, 1);
	burst(1, BL_SLOT_INLINE); /* the slab is there */
	before = private_bytes();
	u = get(row->bytes);
	bl_unexpected_put(home(), u);
	assert_int_equal(unused(), whole);
	assert_int_equal(private_bytes() - before, whole);
	if (row->bytes <= LONGEST) {
		assert_int_equal(burst(1, row->bytes), 0);
		assert_ptr_equal(get(row->bytes), u);
		assert_int_equal(unused(), 0);
		bl_unexpected_put(home(), u);
	}
	node_close(&node);
}

/* --- what is kept ------------------------------------------------------------------ */

static void used_again(void **state)
{
	(void)state;
	node_open(&node, 1);
	for (size_t bytes = BL_SLOT_INLINE + 1; bytes <= LONGEST; bytes += 37) {
		burst(8, bytes);
		assert_int_equal(burst(8, bytes), 0);
		assert_in_range(unused(), 0, BL_UNEXPECTED_FREE);
	}
	node_close(&node);
}

/* Not more than may be, of one size. */
static void bounded(void **state)
{
	size_t each = offsetof(struct bl_unexpected, bytes) + LONGEST;
	uint32_t kept = (uint32_t)(BL_UNEXPECTED_FREE / each);

	(void)state;
	node_open(&node, 1);
	assert_int_equal(burst(MANY, LONGEST), MANY);
	assert_int_equal(unused(), kept * each);
	assert_int_equal(burst(MANY, LONGEST), MANY - kept);
	node_close(&node);
}

/* Those of a size that isn't used any more make room. */
static void others_make_room(void **state)
{
	(void)state;
	node_open(&node, 1);
	burst(MANY, LONGEST);
	assert_in_range(unused(), BL_UNEXPECTED_FREE - 2 * LONGEST, BL_UNEXPECTED_FREE);
	assert_int_equal(burst(8, 2000), 8);
	assert_int_equal(burst(8, 2000), 0);
	assert_in_range(unused(), 8 * 2000, BL_UNEXPECTED_FREE);
	node_close(&node);
}

/* Of no bytes: the description of one that is announced. */
static void descriptions(void **state)
{
	(void)state;
	node_open(&node, 1);
	burst(MANY, 0);
	assert_int_equal(burst(MANY, 0), 0);
	assert_int_equal(unused(), 0);
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("takes", takes, rooms);
	TABLE_TEST(used_again);
	TABLE_TEST(bounded);
	TABLE_TEST(others_make_room);
	TABLE_TEST(descriptions);
	return table_run("unexpected_pool");
}
