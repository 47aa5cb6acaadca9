/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * engine_test.c: copy/engine.h: how a message is cut for two processes, and one
 * copy between address spaces: this process's own, a child's, a child's that
 * the kernel refuses (a seccomp filter), one with holes, one that has died.
 * Children are forked after the buffers exist, so that both know the addresses.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy/engine.h"
#include "copy/machine.h"
#include "copy/move.h"
#include "deny.h"
#include "unit/table.h"

#define PAGE 4096u

/* --- cutting ------------------------------------------------------------ */

struct cut_row {
	struct row row;
	size_t chunk_max, len, piece;
	uint32_t count;
	size_t half; /* 0: chunk_max */
};

static const struct cut_row cuts[] = {
	{{"one byte", "the piece is never 0"}, 262144, 1, PAGE, 1, 0},
	{{"a page", "can't be halved in pages"}, 262144, PAGE, PAGE, 1, 0},
	{{"a page and a byte", "two pieces, the second of one byte"}, 262144, PAGE + 1, PAGE, 2, 0},
	{{"two pages", "one each"}, 262144, 2 * PAGE, PAGE, 2, 0},
	{{"two pages and a byte", "the half is rounded up"}, 262144, 2 * PAGE + 1, 2 * PAGE, 2, 0},
	{{"twice the largest piece", "still halves"}, 262144, 524288, 262144, 2, 0},
	{{"a byte more", "a third piece of one byte"}, 262144, 524289, 262144, 3, 0},
	{{"64 MiB", "many of the largest"}, 262144, 64u << 20, 262144, 256, 0},
	{{"smallest piece", "the least that the knob takes"}, PAGE, 1u << 20, PAGE, 256, 0},
	{{"just fits", "as many pieces as the counter holds"},
	 PAGE,
	 65534ul * PAGE,
	 PAGE,
	 65534,
	 0},
	{{"doubled", "one more: the pieces grow beyond the largest"},
	 PAGE,
	 65535ul * PAGE,
	 2 * PAGE,
	 32768,
	 0},
	{{"2^62", "far more than any largest piece allows"},
	 PAGE,
	 (size_t)1 << 62,
	 (size_t)1 << 47,
	 32768,
	 0},
	{{"halves of the most", "two"}, 1u << 20, 524288, 262144, 2, 262144},
	{{"a byte more than those", "no halves, which would be longer"},
	 1u << 20,
	 524289,
	 262144,
	 3,
	 262144},
	{{"four halves", "and quarters, for once"}, 1u << 20, 1u << 20, 262144, 4, 262144},
	{{"2 MiB", "quarters"}, 1u << 20, 2u << 20, 524288, 4, 262144},
	{{"2 MiB and a byte", "of whole pages"},
	 1u << 20,
	 (2u << 20) + 1,
	 524288 + PAGE,
	 4,
	 262144},
	{{"4 MiB", "of the largest"}, 1u << 20, 4u << 20, 1u << 20, 4, 262144},
	{{"8 MiB", "more of those"}, 1u << 20, 8u << 20, 1u << 20, 8, 262144},
};

static void cut(void **state)
{
	const struct cut_row *row = TABLE_ROW(struct cut_row, state);
	struct bl_copy_plan plan = {.chunk_max = row->chunk_max,
				    .chunk_half = row->half ? row->half : row->chunk_max};
	uint32_t count = 0;
	size_t piece = bl_copy_cut(&plan, row->len, &count);

	assert_int_equal(piece % PAGE, 0);
	assert_true((piece * (count - 1) < row->len && row->len - piece * (count - 1) <= piece));
	assert_true(piece == row->piece);
	assert_int_equal(count, row->count);
}

static void cut_covers_every_length(void **state)
{
	struct bl_copy_plan plan = {.chunk_max = 8 * PAGE, .chunk_half = 3 * PAGE};

	for (size_t len = 1; len < 40 * PAGE; len += len < 3 * PAGE ? 1 : 97) {
		uint32_t count;
		size_t piece = bl_copy_cut(&plan, len, &count);

		assert_true(piece && piece <= plan.chunk_max && piece % PAGE == 0);
		assert_true(piece * (count - 1) < len && len <= piece * count);
	}
}

struct knob_row {
	struct row row;
	const char *value;
	size_t max;
	const char *inject;
};

static const struct knob_row knobs[] = {
	{{"least", "the least that it takes"}, "512", 512, "eager"},
	{{"another", "as no machine is measured"}, "6000", 6000, "pingpong"},
	{{"a class", "whose other limit is measured as another"}, "6144", 6144, "pingpong"},
	{{"most", "the most that it takes"}, "14336", 14336, "eager"},
	{{"not set", "injects what is eager"}, NULL, 0, "eager"},
	{{"not set", "injects what a dialogue may carry"}, NULL, 0, "pingpong"},
};

/* The plan is made once in a process: in a child, before we have one. */
static void in_child(int (*wrong)(const void *row), const void *row)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		_exit(wrong(row));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int wrong_limits(const void *arg)
{
	const struct knob_row *row = arg;
	const struct bl_copy_plan *plan;
	size_t inject;

	if (row->value)
		setenv("FI_BEELINE_EAGER_MAX", row->value, 1);
	setenv("FI_BEELINE_INJECT", row->inject, 1);
	plan = bl_copy_plan();
	inject = *row->inject == 'e' ? plan->eager_max : plan->pingpong_max;
	if (row->value && (plan->eager_max != row->max || plan->pingpong_max != row->max))
		return 1;
	return plan->inject_max != inject ? 2 : 0;
}

/* All limits. */
static void knobs_set_limits(void **state)
{
	in_child(wrong_limits, TABLE_ROW(struct knob_row, state));
}

struct pieces_row {
	struct row row;
	const char *value;
	size_t most;
};

static const struct pieces_row piece_knobs[] = {
	{{"least", "halves are no longer"}, "4096", PAGE},
	{{"no page", "whole pages"}, "5000", 2 * PAGE},
	{{"as by itself", "on some machines"}, "262144", 262144},
	{{"more than by itself", "so long are halves, too"}, "67108864", 64u << 20},
};

static int wrong_pieces(const void *arg)
{
	const struct pieces_row *row = arg;
	const struct bl_copy_plan *plan;

	setenv("FI_BEELINE_CHUNK_MAX", row->value, 1);
	plan = bl_copy_plan();
	return plan->chunk_max != row->most || plan->chunk_half != row->most;
}

static void knob_sets_pieces(void **state)
{
	in_child(wrong_pieces, TABLE_ROW(struct pieces_row, state));
}

struct turns_row {
	struct row row;
	const char *value;
	bool copybuf, exchange_only, streamed;
};

static const struct turns_row turns[] = {
	{{"always", "whoever answers"}, "always", true, false, true},
	{{"crossing", "only if both send at once"}, "crossing", true, true, false},
	{{"never", "in the rings"}, "never", false, false, false},
};

static int wrong_turns(const void *arg)
{
	const struct turns_row *row = arg;
	const struct bl_copy_plan *plan;

	setenv("FI_BEELINE_COPYBUF", row->value, 1);
	plan = bl_copy_plan();
	return plan->copybuf != row->copybuf || plan->exchange_only != row->exchange_only ||
	       plan->streamed != row->streamed;
}

static void knob_says_who_writes_where(void **state)
{
	in_child(wrong_turns, TABLE_ROW(struct turns_row, state));
}

struct far_row {
	struct row row;
	const struct bl_copy_cost *twice;
	struct bl_copy_cost once;
	size_t eager, carry, far;
};

#define PAST	&bl_copy_past
#define IN_TURN &bl_copy_copybuf

static const struct far_row fars[] = {
	{{"as measured", "24 KiB"}, PAST, {1242, 65}, 14336, 98304, 24576},
	{{"as measured, in turn", "40 KiB"}, IN_TURN, {1242, 65}, 14336, 98304, 40960},
	{{"dearer call", "32 KiB"}, PAST, {1500, 77}, 14336, 98304, 32768},
	{{"much dearer", "as far as anywhere"}, PAST, {9000, 65}, 14336, 98304, 98304},
	{{"cheap call", "no less than what is eager"}, PAST, {250, 65}, 14336, 98304, 14336},
	{{"cheap call, in turn", "the same"}, IN_TURN, {250, 65}, 14336, 98304, 14336},
	{{"dear bytes", "one copy never catches up"}, PAST, {1242, 234}, 14336, 98304, 98304},
	{{"nearly", "and it does so late"}, PAST, {1242, 233}, 14336, 98304, 98304},
	{{"dear bytes, in turn", "never"}, IN_TURN, {1242, 160}, 14336, 98304, 98304},
	{{"nothing carried", "anywhere"}, PAST, {1242, 65}, 14336, 0, 0},
	{{"less than eager", "by the knob"}, PAST, {1242, 65}, 14336, 4096, 4096},
};

static void carried_far(void **state)
{
	const struct far_row *row = TABLE_ROW(struct far_row, state);

	assert_int_equal(bl_copy_eager_long_far(&row->once, row->twice, row->eager, row->carry),
			 row->far);
}

struct stream_row {
	struct row row;
	double ns;
	size_t eager, carry, most;
};

static const struct stream_row streams[] = {
	{{"carried", "any message, up to the same length"}, 1500, 14336, 98304, 98304},
	{{"carried by the knob", "whatever a call takes"}, 100, 4096, 50000, 50000},
	{{"cheap", "two copies in a stream"}, 600, 6144, 0, 32768},
	{{"hardly cheaper", "the least of these"}, 250, 6144, 0, 32768},
	{{"very cheap", "one copy is as good"}, 249, 4096, 0, 4096},
	{{"dear, not carried", "by the knob"}, 1500, 14336, 0, 32768},
};

static void stream_most(void **state)
{
	const struct stream_row *row = TABLE_ROW(struct stream_row, state);
	struct bl_copy_cost once = {row->ns, 50};

	assert_int_equal(bl_copy_stream_max(&once, row->eager, row->carry), row->most);
}

struct written_row {
	struct row row;
	size_t cache, most;
};

static const struct written_row writtens[] = {
	{{"2 MiB", "four of the longest lie there"}, 2 << 20, 524288},
	{{"more", "no longer ones"}, 64 << 20, 524288},
	{{"a byte less", "whole pages"}, (2 << 20) - 1, 520192},
	{{"1 MiB", "four of half as much"}, 1 << 20, 262144},
	{{"512 KiB", "the least"}, 512 << 10, 131072},
	{{"less", "the least all the same"}, 256 << 10, 131072},
	{{"not known", "the least"}, 0, 131072},
};

static void just_written(void **state)
{
	const struct written_row *row = TABLE_ROW(struct written_row, state);

	assert_int_equal(bl_copy_dirty_max(row->cache), row->most);
}

static void plan_is_sane(void **state)
{
	const struct bl_copy_plan *plan = bl_copy_plan();
	const struct bl_cpu cpu = bl_cpu_read();
	const struct bl_machine *kind = bl_machine_of(&cpu);

	assert_string_equal(plan->kind, kind->name);
	assert_int_equal(plan->copybuf, kind->turns != BL_COPYBUF_NONE);
	assert_int_equal(plan->exchange_only, kind->turns == BL_COPYBUF_EXCHANGE);
	assert_int_equal(plan->own_by_store, kind->own_by_store);
	assert_int_equal(plan->streamed_far, kind->streamed_far);
	assert_int_equal(plan->past_min, kind->past_min);
	assert_int_equal(plan->far_ns, kind->far_ns);
	assert_int_equal(plan->used_near, kind->used_near);
	assert_int_equal(plan->used_far_ns_kb, kind->used_far_ns_kb);
	assert_int_equal(plan->chunk_max, kind->chunk_max);
	assert_int_equal(plan->chunk_half, kind->chunk_half);
	assert_in_range(plan->eager_max, 512, 14336);
	/* Of the three classes one has another limit for dialogues. */
	assert_int_equal(plan->pingpong_max, plan->eager_max == 6144 ? 8192 : plan->eager_max);
	assert_int_equal(plan->inject_max, plan->eager_max);
	assert_true(plan->eager_long_far <= plan->eager_long_copybuf);
	assert_true(plan->eager_long_copybuf <= plan->eager_long_max);
	assert_int_equal(plan->by_stream, !plan->eager_long_max);
	assert_true(plan->copybuf || !plan->exchange_only);
	/* Where nothing is carried, or two copies are much quicker than one (Zen 3 and later). */
	assert_true(!plan->deep || !plan->by_stream);
	assert_int_equal(plan->dirty_max, !plan->copybuf    ? 0
					  : plan->by_stream ? bl_copy_dirty_max(cpu.cache)
					  : plan->deep	    ? 512 << 10
							    : 0);
	assert_int_equal(plan->turn_max,
			 plan->deep && plan->copybuf && !plan->used_near ? 256 << 10 : 0);
	assert_true(plan->turn_max <= plan->dirty_max);
	assert_false(plan->streamed); /* by itself */
	assert_true(plan->stream_max >= plan->eager_long_max);
	assert_true(plan->eager_long_far >= bl_min(plan->eager_max, plan->eager_long_max));
	assert_true(plan->split_min > plan->eager_max);
	assert_true(plan->chunk_max >= PAGE && plan->chunk_max % PAGE == 0);
	assert_true(plan->chunk_half >= PAGE && plan->chunk_half <= plan->chunk_max);
	assert_ptr_equal(plan, bl_copy_plan());
}

/* --- copying ------------------------------------------------------------ */

#define LENGTH 100000
#define PIECES 8

enum other { SELF, CHILD, REFUSED, INVISIBLE };

struct copy_row {
	struct row row;
	enum other other;
	bool push;
	size_t nmine, ntheirs; /* pieces on either side */
	size_t off, len;
	int result;
};

#define WHOLE 0, LENGTH

static const struct copy_row copies[] = {
	{{"self pull", "one process, two endpoints"}, SELF, false, 1, 1, WHOLE, 0},
	{{"self push", "the other direction"}, SELF, true, 1, 1, WHOLE, 0},
	{{"self pieces", "pieces that don't line up"}, SELF, false, 7, 5, WHOLE, 0},
	{{"self range", "begins and ends within pieces"}, SELF, true, 5, 8, 12345, 54321, 0},
	{{"pull", "one piece each"}, CHILD, false, 1, 1, WHOLE, 0},
	{{"push", "one piece each"}, CHILD, true, 1, 1, WHOLE, 0},
	{{"pull pieces", "the most pieces there are"}, CHILD, false, 8, 8, WHOLE, 0},
	{{"push pieces", "pieces that don't line up"}, CHILD, true, 7, 5, WHOLE, 0},
	{{"pull a range", "begins and ends within pieces"}, CHILD, false, 3, 8, 12345, 54321, 0},
	{{"push one byte", "the shortest range"}, CHILD, true, 8, 3, 99999, 1, 0},
	{{"pull nothing", "an empty range asks nobody"}, CHILD, false, 1, 1, 500, 0, 0},
	{{"refused pull", "a filter denies process_vm_readv"},
	 REFUSED,
	 false,
	 1,
	 1,
	 WHOLE,
	 -EOPNOTSUPP},
	{{"refused push", "a filter denies process_vm_writev"},
	 REFUSED,
	 true,
	 1,
	 1,
	 WHOLE,
	 -EOPNOTSUPP},
	{{"invisible pull", "its PID namespace hides it: pid 0"},
	 INVISIBLE,
	 false,
	 1,
	 1,
	 WHOLE,
	 -EOPNOTSUPP},
	{{"invisible push", "its PID namespace hides it: pid 0"},
	 INVISIBLE,
	 true,
	 1,
	 1,
	 WHOLE,
	 -EOPNOTSUPP},
};

static uint8_t mine[2 * LENGTH], theirs[2 * LENGTH];

/* LENGTH bytes of `memory` in n pieces with gaps, the last piece takes the rest. */
static size_t pieces(uint8_t *memory, size_t n, struct iovec *iov)
{
	size_t at = 0, left = LENGTH;

	for (size_t i = 0; i < n; i++) {
		size_t len = i == n - 1 ? left : LENGTH / n - 13 * i;

		iov[i] = (struct iovec){memory + at, len};
		at += len + 64 + i;
		left -= len;
	}
	return n;
}

static uint8_t mine_at(size_t i)
{
	return (uint8_t)(i * 3 + 1);
}

static uint8_t theirs_at(size_t i)
{
	return (uint8_t)(i * 5 + 2);
}

static void fill(const struct iovec *iov, size_t n, uint8_t (*byte)(size_t))
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < iov[i].iov_len; k++)
			((uint8_t *)iov[i].iov_base)[k] = byte(at++);
}

/* [off, off+len) is as `in` says, the rest as `out`. */
static bool holds(const struct iovec *iov, size_t n, size_t off, size_t len, uint8_t (*in)(size_t),
		  uint8_t (*out)(size_t))
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < iov[i].iov_len; k++, at++)
			if (((uint8_t *)iov[i].iov_base)[k] != (at - off < len ? in(at) : out(at)))
				return false;
	return true;
}

/* The child: its own copy of `theirs`, and a word about it at the end. */
static void be_the_other(const struct copy_row *row, const struct iovec *iov, size_t n, int ready,
			 int over)
{
	char c = 0;

	fill(iov, n, theirs_at);
	if (write(ready, &c, 1) != 1 || read(over, &c, 1) != 1)
		_exit(2);
	_exit(row->push && !row->result ? !holds(iov, n, row->off, row->len, mine_at, theirs_at)
					: !holds(iov, n, 0, 0, mine_at, theirs_at));
}

static int copy_with(struct bl_copy_pair *pair, const struct copy_row *row, const struct iovec *m,
		     const struct iovec *t)
{
	return (row->push ? bl_copy_push : bl_copy_pull)(pair, m, row->nmine, t, row->ntheirs,
							 row->off, row->len);
}

/* In a process of its own, because a filter can't be taken off. */
static int copy_in_child(const struct copy_row *row)
{
	struct iovec m[PIECES], t[PIECES];
	struct bl_copy_pair pair;
	int ready[2], over[2], status, result;
	pid_t pid = getpid();
	char c = 0;

	pieces(mine, row->nmine, m);
	pieces(theirs, row->ntheirs, t);
	fill(m, row->nmine, mine_at);
	if (row->other == SELF) {
		fill(t, row->ntheirs, theirs_at);
	} else {
		if (pipe(ready) || pipe(over))
			return 3;
		pid = fork();
		if (!pid)
			be_the_other(row, t, row->ntheirs, ready[1], over[0]);
		if (pid < 0 || read(ready[0], &c, 1) != 1)
			return 4;
	}
	if (row->other == REFUSED && deny_process_vm())
		return 5;
	bl_copy_pair_init(&pair, row->other == INVISIBLE ? 0 : pid);
	result = copy_with(&pair, row, m, t);
	if (result == row->result && result == -EOPNOTSUPP) {
		if ((row->push ? pair.push : pair.pull) != BL_COPY_NOTHING)
			return 6; /* it must be remembered */
		if (row->other == REFUSED && (row->push ? pair.pull : pair.push) != BL_COPY_VM)
			return 7; /* and for this direction alone */
		result = copy_with(&pair, row, m, t);
	}
	if (row->other != SELF) {
		if (write(over[1], &c, 1) != 1 || waitpid(pid, &status, 0) != pid || status)
			return 8;
	} else if (!(row->push ? holds(t, row->ntheirs, row->off, row->len, mine_at, theirs_at)
			       : holds(t, row->ntheirs, 0, 0, mine_at, theirs_at))) {
		return 9;
	}
	if (result != row->result)
		return 10;
	if (!(row->push || row->result
		      ? holds(m, row->nmine, 0, 0, theirs_at, mine_at)
		      : holds(m, row->nmine, row->off, row->len, theirs_at, mine_at)))
		return 11;
	return 0;
}

static void copies_the_range(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		alarm(60);
		_exit(copy_in_child(TABLE_ROW(struct copy_row, state)));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* --- what isn't there ---------------------------------------------------- */

static void dead_process(void **state)
{
	struct iovec m = {mine, LENGTH}, t = {theirs, LENGTH};
	struct bl_copy_pair pair;
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	bl_copy_pair_init(&pair, pid);
	assert_int_equal(bl_copy_pull(&pair, &m, 1, &t, 1, 0, LENGTH), -ESRCH);
	assert_int_equal(bl_copy_push(&pair, &m, 1, &t, 1, 0, LENGTH), -ESRCH);
}

/* The last page of the other's buffer is not mapped there: neither at once nor
 * after the bytes before it. */
static void hole_in_the_other(void **state)
{
	uint8_t *map =
		mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec m = {mine, 8 * PAGE}, t = {map, 8 * PAGE};
	struct bl_copy_pair pair;
	int ready[2], status;
	char c = 0;
	pid_t pid;

	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		munmap(map + 7 * PAGE, PAGE);
		if (write(ready[1], &c, 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	bl_copy_pair_init(&pair, pid);
	assert_int_equal(bl_copy_pull(&pair, &m, 1, &t, 1, 0, 8 * PAGE), -EFAULT);
	assert_int_equal(bl_copy_push(&pair, &m, 1, &t, 1, 7 * PAGE, 1), -EFAULT);
	assert_int_equal(bl_copy_pull(&pair, &m, 1, &t, 1, 0, 7 * PAGE), 0);
	assert_int_equal(pair.pull, BL_COPY_VM); /* a bad buffer says nothing about the pair */
	assert_int_equal(pair.push, BL_COPY_VM);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	munmap(map, 8 * PAGE);
}

int main(void)
{
	unsetenv("FI_BEELINE_EAGER_MAX");
	TABLE_ROWS("knob", knobs_set_limits, knobs);
	TABLE_ROWS("pieces", knob_sets_pieces, piece_knobs);
	TABLE_ROWS("turns", knob_says_who_writes_where, turns);
	TABLE_ROWS("cut", cut, cuts);
	TABLE_TEST(cut_covers_every_length);
	TABLE_ROWS("far", carried_far, fars);
	TABLE_ROWS("stream", stream_most, streams);
	TABLE_ROWS("just written", just_written, writtens);
	TABLE_TEST(plan_is_sane);
	TABLE_ROWS("copy", copies_the_range, copies);
	TABLE_TEST(dead_process);
	TABLE_TEST(hole_in_the_other);
	return table_run("engine");
}
