/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * move_test.c: copy/move.h: short copies at every length and alignment, and
 * buffers in pieces against the plainest reference there is: one array of
 * pointers to bytes. Single-threaded.
 */
#include "copy/move.h"
#include "unit/table.h"

#define LONGEST 300
#define MARGIN	64

/* lines: all of the last one may have been written to. */
static void all_lengths_and_alignments(void (*move)(void *to, const void *from, size_t n),
				       bool lines)
{
	static uint8_t from[LONGEST + 128],
		to[MARGIN + LONGEST + 128 + 2 * MARGIN] __attribute__((aligned(64)));

	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 13 + 1) | 1; /* never the filler, which is even */
	for (size_t n = 0; n <= LONGEST; n++)
		for (size_t align = 0; align < 64 * 64; align += n % 7 ? 97 : 1) {
			size_t a = align % 64, b = align / 64;
			uint8_t *at = to + MARGIN + b;
			size_t over = lines ? (size_t)(-(uintptr_t)(at + n) % 64) : 0;

			memset(at - MARGIN, 0xa4, MARGIN);
			memset(at, 0xa4, n + 2 * MARGIN);
			move(at, from + a, n);
			if (memcmp(at, from + a, n))
				fail_msg("%zu bytes from +%zu to +%zu differ", n, a, b);
			for (size_t i = 0; i < MARGIN; i++)
				if (at[-1 - (ptrdiff_t)i] != 0xa4 || at[n + over + i] != 0xa4)
					fail_msg("%zu bytes from +%zu to +%zu: more was written", n,
						 a, b);
		}
}

static void move(void *to, const void *from, size_t n)
{
	bl_move(to, from, n);
}

static void move_all_lengths_and_alignments(void **state)
{
	all_lengths_and_alignments(move, false);
}

static void move_past_all_lengths_and_alignments(void **state)
{
	all_lengths_and_alignments(bl_move_past, true);
}

static void move_far_all_lengths_and_alignments(void **state)
{
	all_lengths_and_alignments(bl_move_far, false);
}

/* What is asked for is longer or shorter than what is copied, and stays as it is. */
static void move_asking(void *to, const void *from, size_t n)
{
	static uint8_t ask[2 * LONGEST];
	static const size_t sizes[] = {0, 1, 64, 65, LONGEST, 2 * LONGEST};
	size_t size = sizes[n % bl_countof(sizes)];

	memset(ask, 0x5a, sizeof ask);
	bl_move_asking(to, from, n, ask, size);
	for (size_t i = 0; i < sizeof ask; i++)
		if (ask[i] != 0x5a)
			fail_msg("%zu bytes: byte %zu of %zu asked for was written", n, i, size);
}

static void move_asking_all_lengths_and_alignments(void **state)
{
	all_lengths_and_alignments(move_asking, false);
}

/* --- pieces ------------------------------------------------------------- */

#define PIECES 8
#define BYTES  2048

/* A buffer in pieces, and the same as a list of its bytes' places. */
struct pieces {
	uint8_t memory[BYTES];
	struct iovec iov[PIECES];
	size_t n, len;
	uint8_t *byte[BYTES];
};

static void add_piece(struct pieces *p, size_t at, size_t len)
{
	p->iov[p->n++] = (struct iovec){p->memory + at, len};
	for (size_t i = 0; i < len; i++)
		p->byte[p->len++] = p->memory + at + i;
}

/* Pieces in any order, some empty, some next to each other. */
static void random_pieces(struct pieces *p, uint64_t *seed)
{
	size_t order[PIECES], count = 1 + table_random(seed) % PIECES, room = BYTES / PIECES;

	p->n = p->len = 0;
	for (size_t i = 0; i < BYTES; i++)
		p->memory[i] = (uint8_t)table_random(seed);
	for (size_t i = 0; i < PIECES; i++)
		order[i] = i;
	for (size_t i = PIECES - 1; i; i--) {
		size_t k = table_random(seed) % (i + 1), t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t x = table_random(seed);
		size_t len = x % 5 == 0 ? 0 : x % 5 == 1 ? room : (x >> 8) % (room + 1);

		add_piece(p, order[i] * room + (x >> 32) % (room - len + 1), len);
	}
}

/* A range of it: any, empty, from the start, to the end, all, and beyond. */
static void random_range(const struct pieces *p, uint64_t *seed, size_t *off, size_t *len)
{
	uint64_t x = table_random(seed);

	*off = x % 4 ? (x >> 8) % (p->len + 1) : 0;
	*len = x % 3 ? (x >> 32) % (p->len - *off + 1) : p->len - *off;
}

static void slice_matches_reference(void **state)
{
	struct pieces p;
	uint64_t seed = 1;

	for (int round = 0; round < 20000; round++) {
		struct iovec out[PIECES];
		size_t off, len, used, at;

		random_pieces(&p, &seed);
		random_range(&p, &seed, &off, &len);
		used = bl_iov_slice(p.iov, p.n, off, len, out);
		assert_true(used <= p.n);
		at = off;
		for (size_t i = 0; i < used; i++)
			for (size_t k = 0; k < out[i].iov_len; k++)
				assert_ptr_equal((uint8_t *)out[i].iov_base + k, p.byte[at++]);
		assert_int_equal(at, off + len);
	}
}

static void slice_beyond_the_end_is_shorter(void **state)
{
	struct pieces p;
	struct iovec out[PIECES];
	uint64_t seed = 2;

	for (int round = 0; round < 1000; round++) {
		random_pieces(&p, &seed);
		size_t off = table_random(&seed) % (2 * p.len + 1),
		       most = off < p.len ? p.len - off : 0;
		size_t used = bl_iov_slice(p.iov, p.n, off, BYTES, out);

		assert_int_equal(bl_iov_len(out, used), most);
	}
}

static void gather_matches_reference(void **state)
{
	struct pieces p;
	uint64_t seed = 3;

	for (int round = 0; round < 20000; round++) {
		uint8_t out[BYTES + 1];
		size_t off, len;

		random_pieces(&p, &seed);
		random_range(&p, &seed, &off, &len);
		memset(out, 0xee, sizeof out);
		/* asked for more than there is: what there is */
		assert_int_equal(bl_iov_gather(out, p.iov, p.n, off, len), len);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(out[i], *p.byte[off + i]);
		assert_int_equal(out[len], 0xee);
		assert_int_equal(bl_iov_gather(out, p.iov, p.n, off, BYTES), p.len - off);
	}
}

static void scatter_matches_reference(void **state)
{
	struct pieces p;
	uint64_t seed = 4;

	for (int round = 0; round < 20000; round++) {
		uint8_t in[BYTES], before[BYTES];
		size_t off, len, changed = 0;

		random_pieces(&p, &seed);
		random_range(&p, &seed, &off, &len);
		memcpy(before, p.memory, BYTES);
		for (size_t i = 0; i < len; i++)
			in[i] = (uint8_t) ~*p.byte[off + i];
		assert_int_equal(bl_iov_scatter(p.iov, p.n, off, in, len), len);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(*p.byte[off + i], in[i]);
		for (size_t i = 0; i < BYTES; i++)
			changed += p.memory[i] != before[i];
		assert_int_equal(changed, len);
	}
}

struct sum_row {
	struct row row;
	size_t n;
	struct iovec iov[3];
	size_t sum;
};

static const struct sum_row sums[] = {
	{{"none", "no piece at all"}, 0, {{0}}, 0},
	{{"empty pieces", "lengths of 0 are allowed"}, 2, {{NULL, 0}, {NULL, 0}}, 0},
	{{"largest", "the most that can be described"},
	 2,
	 {{NULL, SIZE_MAX - 1}, {NULL, 0}},
	 SIZE_MAX - 1},
	{{"to the last", "the sum is exactly SIZE_MAX"},
	 2,
	 {{NULL, SIZE_MAX - 1}, {NULL, 1}},
	 SIZE_MAX},
	{{"by one", "wraps to 0"}, 2, {{NULL, SIZE_MAX}, {NULL, 1}}, SIZE_MAX},
	{{"wraps to small", "halves that sum to 5"},
	 3,
	 {{NULL, SIZE_MAX / 2 + 1}, {NULL, SIZE_MAX / 2 + 1}, {NULL, 5}},
	 SIZE_MAX},
};

static void checked_sum(void **state)
{
	const struct sum_row *row = TABLE_ROW(struct sum_row, state);

	assert_true(bl_iov_len_checked(row->iov, row->n) == row->sum);
}

int main(void)
{
	TABLE_TEST(move_all_lengths_and_alignments);
	TABLE_TEST(move_past_all_lengths_and_alignments);
	TABLE_TEST(move_far_all_lengths_and_alignments);
	TABLE_TEST(move_asking_all_lengths_and_alignments);
	TABLE_TEST(slice_matches_reference);
	TABLE_TEST(slice_beyond_the_end_is_shorter);
	TABLE_TEST(gather_matches_reference);
	TABLE_TEST(scatter_matches_reference);
	TABLE_ROWS("sum", checked_sum, sums);
	return table_run("move");
}
