/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rmacheck.c: checks the memory that a benchmark's one-sided operations read and
 * change. IMB-RMA, as Intel ships it, checks nothing, so this library is loaded
 * before it (LD_PRELOAD) and stands between it and MPI.
 *
 * Each 4-byte word of a window begins as a small number in floating point, made of its
 * owner and place: so a sum of ones is exact, whether the benchmark adds floats or
 * integers. What is put is another such pattern, of the same places: whoever puts, a
 * place holds one of the two, and after one's own put is flushed the second. Each word
 * that is added to is counted where it is added, and the owner compares when the window
 * is freed. Any difference ends the run; the end says how much was checked.
 *
 * The operations use this library's buffers, which stay until the flush, since a
 * benchmark may use one buffer for many targets; what it reads itself it never looks at.
 * One thread enters.
 */
#include <mpi.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD	sizeof(uint32_t)
#define WINDOWS 16

enum kind { PUT, GET, ADDED, SWAPPED };

/* An operation that isn't flushed yet. */
struct pending {
	enum kind kind;
	int target;
	size_t at, len;	     /* bytes */
	unsigned char *mine; /* goes, or is compared with */
	unsigned char *result;
	MPI_Datatype type;
	struct pending *next;
};

struct window {
	MPI_Win win;
	MPI_Comm comm;
	unsigned char *base;
	size_t size, most; /* of this rank's, and of the longest */
	int unit, rank, nrank;
	uint32_t *added; /* by rank and word; NULL: nothing so far */
	struct pending *pending;
};

static struct window windows[WINDOWS];
static unsigned long long operations, bytes;

static _Noreturn void wrong(const char *what, const struct window *w, int target, size_t at)
{
	fprintf(stderr, "rmacheck: WRONG DATA: %s, by rank %d, in rank %d's window at byte %zu\n",
		what, w->rank, target, at);
	fflush(stderr);
	PMPI_Abort(MPI_COMM_WORLD, 3);
	abort();
}

static struct window *window_of(MPI_Win win)
{
	for (int i = 0; i < WINDOWS; i++)
		if (windows[i].comm && windows[i].win == win)
			return &windows[i];
	fprintf(stderr, "rmacheck: an unknown window\n");
	PMPI_Abort(MPI_COMM_WORLD, 3);
	abort();
}

/* The word at a place of `owner`'s window, as it begins or as it is put. */
static uint32_t word(int owner, size_t index, bool put)
{
	uint64_t z =
		(uint64_t)(2 * owner + put + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;
	float f = (float)((z >> 40) % 4096 + (put ? 4096 : 1));
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return bits;
}

static unsigned char byte(int owner, size_t at, bool put)
{
	uint32_t w = word(owner, at / WORD, put);

	return ((unsigned char *)&w)[at % WORD];
}

static size_t size_of(MPI_Datatype type)
{
	int size;

	PMPI_Type_size(type, &size);
	return (size_t)size;
}

static void *new (size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		PMPI_Abort(MPI_COMM_WORLD, 3);
	return p;
}

/* --- windows ----------------------------------------------------------------- */

int MPI_Win_create(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
	struct window *w = windows;
	uint64_t mine = (uint64_t)size, most;
	int rc;

	while (w < windows + WINDOWS - 1 && w->comm)
		w++;
	*w = (struct window){.comm = comm, .base = base, .size = (size_t)size, .unit = unit};
	PMPI_Comm_rank(comm, &w->rank);
	PMPI_Comm_size(comm, &w->nrank);
	for (size_t i = 0; i < w->size; i++)
		w->base[i] = byte(w->rank, i, false);
	PMPI_Allreduce(&mine, &most, 1, MPI_UINT64_T, MPI_MAX, comm);
	w->most = most;
	rc = PMPI_Win_create(base, size, unit, info, comm, win);
	w->win = *win;
	return rc;
}

/* A number of this type, one; false: a type that isn't added here. */
static bool one(MPI_Datatype type, void *to)
{
	float f = 1;
	int i = 1;

	if (type == MPI_FLOAT)
		memcpy(to, &f, sizeof f);
	else if (type == MPI_INT)
		memcpy(to, &i, sizeof i);
	else
		return false;
	return true;
}

/* What was added to a word, if it was added as the type says; -1: something else. */
static long difference(MPI_Datatype type, uint32_t before, uint32_t now)
{
	float f[2];

	if (type == MPI_INT)
		return (int32_t)(now - before);
	memcpy(&f[0], &before, sizeof f[0]);
	memcpy(&f[1], &now, sizeof f[1]);
	return f[1] >= f[0] && f[1] - f[0] < 1e7f ? (long)(f[1] - f[0]) : -1;
}

static void count(struct window *w, int target, size_t at, size_t words)
{
	size_t each = w->most / WORD;

	if (!w->added)
		w->added = calloc((size_t)w->nrank * each, sizeof *w->added);
	for (size_t i = at / WORD; w->added && i < at / WORD + words && i < each; i++)
		w->added[(size_t)target * each + i]++;
}

/* All ranks have flushed: each word of ours has what all have added to it. */
static void check_sums(struct window *w)
{
	size_t each = w->most / WORD;
	uint32_t *all = new ((size_t)w->nrank * each * WORD);
	const uint32_t *sum = all + (size_t)w->rank * each;

	if (!w->added)
		count(w, 0, 0, 0);
	PMPI_Allreduce(w->added, all, (int)((size_t)w->nrank * each), MPI_UINT32_T, MPI_SUM,
		       w->comm);
	PMPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win);
	for (size_t i = 0; i < w->size / WORD; i++) {
		uint32_t now, before = word(w->rank, i, false);

		memcpy(&now, w->base + i * WORD, WORD);
		if (!sum[i])
			continue;
		if (difference(MPI_INT, before, now) != (long)sum[i] &&
		    difference(MPI_FLOAT, before, now) != (long)sum[i])
			wrong("a sum", w, w->rank, i * WORD);
		operations += sum[i];
	}
	PMPI_Win_unlock(w->rank, w->win);
	free(all);
}

int MPI_Win_free(MPI_Win *win)
{
	struct window *w = window_of(*win);
	int some = w->added != NULL, any;

	PMPI_Allreduce(&some, &any, 1, MPI_INT, MPI_LOR, w->comm);
	if (any)
		check_sums(w);
	free(w->added);
	w->added = NULL;
	w->comm = (MPI_Comm)0;
	return PMPI_Win_free(win);
}

/* --- operations ----------------------------------------------------------------- */

static struct pending *add(struct window *w, enum kind kind, int target, MPI_Aint disp, size_t len,
			   MPI_Datatype type)
{
	struct pending *p = new (sizeof *p);

	*p = (struct pending){.kind = kind,
			      .target = target,
			      .at = (size_t)disp * (size_t)w->unit,
			      .len = len,
			      .mine = new (len),
			      .type = type,
			      .next = w->pending};
	w->pending = p;
	return p;
}

int MPI_Put(const void *buf, int count, MPI_Datatype type, int target, MPI_Aint disp, int tcount,
	    MPI_Datatype ttype, MPI_Win win)
{
	struct window *w = window_of(win);
	struct pending *p = add(w, PUT, target, disp, (size_t)count * size_of(type), type);

	(void)buf;
	for (size_t i = 0; i < p->len; i++)
		p->mine[i] = byte(target, p->at + i, true);
	return PMPI_Put(p->mine, count, type, target, disp, tcount, ttype, win);
}

int MPI_Get(void *buf, int count, MPI_Datatype type, int target, MPI_Aint disp, int tcount,
	    MPI_Datatype ttype, MPI_Win win)
{
	struct window *w = window_of(win);
	struct pending *p = add(w, GET, target, disp, (size_t)count * size_of(type), type);

	(void)buf;
	memset(p->mine, 0, p->len);
	return PMPI_Get(p->mine, count, type, target, disp, tcount, ttype, win);
}

/* Ones instead of what the benchmark adds. */
static struct pending *add_ones(MPI_Win win, int n, MPI_Datatype type, int target, MPI_Aint disp,
				MPI_Op op)
{
	struct window *w = window_of(win);
	struct pending *p;

	if (op != MPI_SUM || (type != MPI_FLOAT && type != MPI_INT))
		return NULL;
	p = add(w, ADDED, target, disp, (size_t)n * WORD, type);
	for (int i = 0; i < n; i++)
		one(type, p->mine + (size_t)i * WORD);
	count(w, target, p->at, (size_t)n);
	return p;
}

int MPI_Accumulate(const void *buf, int n, MPI_Datatype type, int target, MPI_Aint disp, int tcount,
		   MPI_Datatype ttype, MPI_Op op, MPI_Win win)
{
	struct pending *p = add_ones(win, n, type, target, disp, op);

	return PMPI_Accumulate(p ? p->mine : buf, n, type, target, disp, tcount, ttype, op, win);
}

int MPI_Get_accumulate(const void *buf, int n, MPI_Datatype type, void *result, int nresult,
		       MPI_Datatype rtype, int target, MPI_Aint disp, int tcount,
		       MPI_Datatype ttype, MPI_Op op, MPI_Win win)
{
	struct pending *p = add_ones(win, n, type, target, disp, op);

	if (!p)
		return PMPI_Get_accumulate(buf, n, type, result, nresult, rtype, target, disp,
					   tcount, ttype, op, win);
	p->result = new (p->len);
	return PMPI_Get_accumulate(p->mine, n, type, p->result, nresult, rtype, target, disp,
				   tcount, ttype, op, win);
}

int MPI_Fetch_and_op(const void *buf, void *result, MPI_Datatype type, int target, MPI_Aint disp,
		     MPI_Op op, MPI_Win win)
{
	struct pending *p = add_ones(win, 1, type, target, disp, op);

	if (!p)
		return PMPI_Fetch_and_op(buf, result, type, target, disp, op, win);
	p->result = new (p->len);
	return PMPI_Fetch_and_op(p->mine, p->result, type, target, disp, op, win);
}

/* How often we have added to a word. */
static uint32_t counted(const struct window *w, int target, size_t at)
{
	return w->added ? w->added[(size_t)target * (w->most / WORD) + at / WORD] : 0;
}

/* What the word is taken for, as if nobody else had added to it, becomes one more. */
int MPI_Compare_and_swap(const void *buf, const void *with, void *result, MPI_Datatype type,
			 int target, MPI_Aint disp, MPI_Win win)
{
	struct window *w = window_of(win);
	uint32_t guess, more;
	struct pending *p;

	if (size_of(type) != WORD)
		return PMPI_Compare_and_swap(buf, with, result, type, target, disp, win);
	p = add(w, SWAPPED, target, disp, 2 * WORD, type);
	p->result = new (WORD);
	guess = word(target, p->at / WORD, false) + counted(w, target, p->at);
	more = guess + 1;
	memcpy(p->mine, &more, WORD);
	memcpy(p->mine + WORD, &guess, WORD);
	return PMPI_Compare_and_swap(p->mine, p->mine + WORD, p->result, type, target, disp, win);
}

/* --- flushes ----------------------------------------------------------------------- */

/* After our put the target has its pattern, whoever has put since. */
static void check_put(struct window *w, const struct pending *p)
{
	memset(p->mine, 0, p->len);
	PMPI_Get(p->mine, (int)p->len, MPI_BYTE, p->target, (MPI_Aint)p->at / w->unit, (int)p->len,
		 MPI_BYTE, w->win);
	PMPI_Win_flush(p->target, w->win);
	for (size_t i = 0; i < p->len; i++)
		if (p->mine[i] != byte(p->target, p->at + i, true))
			wrong("a put", w, p->target, p->at + i);
}

static void check_get(struct window *w, const struct pending *p)
{
	for (size_t i = 0; i < p->len; i++)
		if (p->mine[i] != byte(p->target, p->at + i, false) &&
		    p->mine[i] != byte(p->target, p->at + i, true))
			wrong("a get", w, p->target, p->at + i);
}

/* Between the beginning and it are ones, as many as somebody has added. */
static void check_fetched(struct window *w, const struct pending *p)
{
	for (size_t i = 0; p->result && i < p->len / WORD; i++) {
		uint32_t old;

		memcpy(&old, p->result + i * WORD, WORD);
		if ((unsigned long)difference(p->type, word(p->target, p->at / WORD + i, false),
					      old) > 10000000)
			wrong("an old value", w, p->target, p->at + i * WORD);
	}
}

static void check_swapped(struct window *w, const struct pending *p)
{
	uint32_t old, guess;

	memcpy(&old, p->result, WORD);
	memcpy(&guess, p->mine + WORD, WORD);
	if ((unsigned long)difference(MPI_INT, word(p->target, p->at / WORD, false), old) >
	    10000000)
		wrong("an old value", w, p->target, p->at);
	if (old == guess)
		count(w, p->target, p->at, 1);
}

/* All that has been done to the target, or (-1) to all; all of it is flushed. */
static void check(struct window *w, int target)
{
	static void (*const how[])(struct window *, const struct pending *) = {
		[PUT] = check_put,
		[GET] = check_get,
		[ADDED] = check_fetched,
		[SWAPPED] = check_swapped,
	};
	struct pending **at = &w->pending, *p;

	while ((p = *at)) {
		if (target >= 0 && p->target != target) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		how[p->kind](w, p);
		operations += p->kind != ADDED; /* those are counted at their end */
		bytes += p->len;
		free(p->mine);
		free(p->result);
		free(p);
	}
}

int MPI_Win_flush(int target, MPI_Win win)
{
	int rc = PMPI_Win_flush(target, win);

	check(window_of(win), target);
	return rc;
}

int MPI_Win_flush_all(MPI_Win win)
{
	int rc = PMPI_Win_flush_all(win);

	check(window_of(win), -1);
	return rc;
}

int MPI_Win_unlock(int target, MPI_Win win)
{
	PMPI_Win_flush(target, win);
	check(window_of(win), target);
	return PMPI_Win_unlock(target, win);
}

int MPI_Win_unlock_all(MPI_Win win)
{
	PMPI_Win_flush_all(win);
	check(window_of(win), -1);
	return PMPI_Win_unlock_all(win);
}

int MPI_Finalize(void)
{
	unsigned long long mine[2] = {operations, bytes}, all[2];
	int rank;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Reduce(mine, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank) {
		printf("rmacheck: %llu operations, %llu bytes as they should be\n", all[0], all[1]);
		fflush(stdout);
	}
	return PMPI_Finalize();
}
