/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * runs.c: see runs.h. Serialised by the domain. What an origin says is checked on a private copy,
 * against our own table.
 */
#include "transport/local/rma/runs.h"

#include <string.h>

#define PAGE	4096u /* or a part of one */
#define NO_PAGE 1u    /* no page begins there */
#define EACH_MOST                                                                                  \
	512u /* bytes of a place on average: from there on a system call copies sooner             \
	      */

/* --- the origin ------------------------------------------------------------ */

bool bl_runs_add(struct bl_runs *runs, const struct bl_rma_place *place)
{
	struct bl_rma_run *last = runs->n ? &runs->run[runs->n - 1] : NULL;

	if (!place->len) /* its region may count it */
		return last && place->key == runs->key;
	if (place->len > BL_RUNS_BYTES || runs->len + place->len > BL_RUNS_BYTES)
		return false;
	if (!last) {
		runs->key = place->key;
	} else if (place->key != runs->key) {
		return false;
	} else if (last->len == place->len &&
		   (last->n == 1 || place->addr == last->addr + last->n * (uint64_t)last->step)) {
		if (last->n++ == 1)
			last->step = (int64_t)(place->addr - last->addr);
		goto added;
	} else if (runs->n == BL_RUNS_MOST) {
		return false;
	}
	runs->run[runs->n++] = (struct bl_rma_run){place->addr, 0, (uint32_t)place->len, 1};
added:
	runs->len += place->len;
	runs->nplace++;
	return true;
}

bool bl_runs_fit(const struct bl_runs *runs, enum bl_rma_what what)
{
	return runs->nplace > 1 && runs->len <= runs->nplace * (size_t)EACH_MOST &&
	       (what == BL_RMA_WRITE ||
		(what == BL_RMA_READ && runs->len <= BL_DELEGATED_SUM_BYTES));
}

/* --- the target ------------------------------------------------------------ */

struct served {
	struct bl_domain *domain;
	bool write;
	const struct bl_mr_entry *entry;
	uint32_t need;
	uint8_t *bytes; /* what is written comes from there, what is read goes there */
	uintptr_t page; /* it is there: the kernel has just said so; or NO_PAGE */
	size_t moved;	/* bytes that are done */
};

/* What lies in one page. */
static int touch_page(struct served *s, uintptr_t at, uint32_t len)
{
	void *mem = (void *)at;
	size_t moved;
	int err = 0;

	if (likely(at / PAGE * PAGE == s->page)) {
		if (s->write)
			bl_move(mem, s->bytes, len);
		else
			bl_move(s->bytes, mem, len);
	} else {
		err = bl_rma_move_own(s->domain, s->write, mem, s->bytes, len, &moved);
		s->page =
			bl_mr_is_there(s->domain, mem, len, s->write) ? at / PAGE * PAGE : NO_PAGE;
	}
	s->bytes += len;
	s->moved += err ? 0 : len;
	return err;
}

static int touch(struct served *s, uintptr_t at, uint32_t len)
{
	int err = 0;

	while (len && !err) {
		uint32_t some = bl_min(len, PAGE - (uint32_t)(at % PAGE));

		err = touch_page(s, at, some);
		at += some;
		len -= some;
	}
	return err;
}

/* Both its ends are in the region's only piece: so is what is between them. */
static int find_run(const struct served *s, const struct bl_rma_run *run, struct iovec *first)
{
	struct bl_rma_place place = {run->addr, run->len, s->entry->key};
	struct iovec last;
	int64_t all;
	uint32_t n;
	int err;

	err = bl_mr_translate(s->entry, &place, s->need, first, &n);
	if (err)
		return err;
	if (__builtin_mul_overflow(run->step, (int64_t)(run->n - 1), &all))
		return -EINVAL;
	if (all >= 0 ? __builtin_add_overflow(run->addr, (uint64_t)all, &place.addr)
		     : __builtin_sub_overflow(run->addr, -(uint64_t)all, &place.addr))
		return -EINVAL;
	return bl_mr_translate(s->entry, &place, s->need, &last, &n);
}

/* Where all of them are, before any is touched. */
static int find_all(struct served *s, const struct bl_runs *runs, struct iovec *first)
{
	s->entry = bl_mr_find(s->domain, runs->key, NULL);
	if (!s->entry)
		return -EKEYREJECTED;
	if (s->entry->npiece != 1)
		return -EOPNOTSUPP;
	for (uint32_t i = 0; i < runs->n; i++) {
		int err = find_run(s, &runs->run[i], &first[i]);

		if (err)
			return err;
	}
	return 0;
}

static int do_all(struct served *s, const struct bl_runs *runs)
{
	struct iovec first[BL_RUNS_MOST];
	int err = find_all(s, runs, first);

	if (err)
		return err;
	for (uint32_t i = 0; i < runs->n; i++) {
		const struct bl_rma_run *run = &runs->run[i];
		uintptr_t at = (uintptr_t)first[i].iov_base;

		for (uint32_t k = 0; k < run->n; k++, at += (uintptr_t)run->step) {
			err = touch(s, at, run->len);
			/* What isn't there is told of as any system call's: by the origin's. But
			 * what is written isn't written again. */
			if (err == -EFAULT && !(s->write && s->moved))
				return -EOPNOTSUPP;
			if (err)
				return err;
		}
	}
	return 0;
}

/* A private copy that makes sense; false: it doesn't. */
static bool take(struct bl_runs *runs, const struct bl_rma_runs *head,
		 const struct bl_rma_runs *theirs, uint32_t size, enum bl_rma_what what)
{
	uint32_t put = what == BL_RMA_WRITE ? BL_RUNS_BYTES : 0, n;
	size_t most = put ? put : BL_DELEGATED_SUM_BYTES;

	if (what > BL_RMA_WRITE)
		return false;
	bl_runs_begin(runs);
	n = head->nrun;
	runs->key = head->key;
	if (!n || n > BL_RUNS_MOST || size < BL_RUNS_HEAD(n))
		return false;
	runs->n = n;
	memcpy(runs->run, theirs->run, n * sizeof runs->run[0]);
	for (uint32_t i = 0; i < n; i++) {
		const struct bl_rma_run *run = &runs->run[i];

		if (!run->len || !run->n || run->len > most || run->n > most)
			return false;
		runs->len += (size_t)run->len * run->n;
		if (runs->len > most)
			return false;
	}
	return size == BL_RUNS_HEAD(n) + (put ? runs->len : 0);
}

int bl_runs_perform(struct bl_ep *ep, const struct bl_rma_runs *theirs, uint32_t size,
		    uint8_t *result, struct bl_rma_place *place, struct bl_rma_exec *x,
		    size_t *moved)
{
	struct bl_runs runs;
	struct served s = {.domain = ep->domain, .page = NO_PAGE};
	struct bl_rma_runs head;
	int err;

	if (size < sizeof head)
		return -EPROTO;
	memcpy(&head, theirs, sizeof head);
	if (!take(&runs, &head, theirs, size, head.what))
		return -EPROTO;
	*place = (struct bl_rma_place){runs.run[0].addr, runs.len, runs.key};
	x->task = (struct bl_rma_task){
		.what = head.what, .first = 1, .nplace = 1, .place = place, .len = runs.len};
	x->mem.len = runs.len;
	s.write = head.what == BL_RMA_WRITE;
	s.need = bl_rma_need(head.what, 0);
	s.bytes = s.write ? (uint8_t *)(uintptr_t)theirs + BL_RUNS_HEAD(runs.n) : result;
	err = do_all(&s, &runs);
	*moved = s.moved;
	return err;
}
