/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * engine_test.c: copy/engine.h: one copy between address spaces: this process's own, a child's, a
 * child's that the kernel refuses (a seccomp filter), one with holes, one that has died. Children
 * are forked after the buffers exist, so that both know the addresses.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy/engine.h"
#include "copy/move.h"
#include "deny.h"
#include "unit/table.h"

#define PAGE 4096u

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
	TABLE_ROWS("copy", copies_the_range, copies);
	TABLE_TEST(dead_process);
	TABLE_TEST(hole_in_the_other);
	return table_run("engine");
}
