/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma_atomic.c: an atomic operation, start to end; see rma.h. Serialised by the domain; other
 * processes are kept out by the lock of the target's atomics page.
 */
#include <string.h>

#include "core/rma.h"

#define CHUNK 4096u /* a multiple of every element's size, as a part of an operation is */
static_assert(BL_RMA_PART % CHUNK == 0, "");
#define PIECE (16u * CHUNK) /* then others may have the lock, if they want it */

/* Refused, before anything was written. */
static bl_cold bool unchanged(const struct bl_atomic_run *r, size_t off, const char *old,
			      size_t len)
{
	char now[CHUNK];
	struct iovec mine = {now, len};

	return !bl_rma_move(r->pair, false, r->mem, off, &mine, 1, len, NULL) &&
	       !memcmp(now, old, len);
}

/* Of [off, off + len) `moved` bytes were written before a page that can't be: the elements that
 * are whole are done, and so many bytes; one that lies across the pages is as it was. */
static bl_cold size_t part_written(const struct bl_atomic_run *r, size_t off, size_t moved,
				   char *old, bool blind)
{
	size_t some = moved % bl_atomic_size(r->type), whole = moved - some;
	struct iovec mine = {old + whole, some};

	if (some && !blind)
		bl_rma_move(r->pair, true, r->mem, off + whole, &mine, 1, some, NULL);
	return whole;
}

static void bring(const struct bl_atomic_run *r, size_t off, const char *old, size_t len)
{
	if (r->what != BL_RMA_ATOMIC)
		bl_iov_scatter(r->result, r->nresult, off - r->base, old, len);
}

/* Under the lock: *length bytes from `off` on; where it fails *length says how many are done. */
static int step(const struct bl_atomic_run *r, size_t off, size_t *length)
{
	alignas(BL_LINE) char value[CHUNK], operand[CHUNK], compare[CHUNK], old[CHUNK];
	bool blind = r->what == BL_RMA_ATOMIC && r->op == BL_ATOMIC_OP_WRITE;
	size_t len = *length, moved = 0;
	struct iovec mine = {value, len};
	int err;

	*length = 0;
	if (!blind) {
		err = bl_rma_move(r->pair, false, r->mem, off, &mine, 1, len, NULL);
		if (err)
			return err;
	}
	if (r->op != BL_ATOMIC_OP_READ) {
		memcpy(old, value, blind ? 0 : len);
		bl_iov_gather(operand, r->operand, r->noperand, off - r->base, len);
		if (r->what == BL_RMA_COMPARE)
			bl_iov_gather(compare, r->compare, r->ncompare, off - r->base, len);
		bl_atomic_apply(r->type, r->op, value, operand,
				r->what == BL_RMA_COMPARE ? compare : NULL,
				len / bl_atomic_size(r->type));
		err = bl_rma_move(r->pair, true, r->mem, off, &mine, 1, len, &moved);
		if (unlikely(err == -EFAULT)) {
			*length = part_written(r, off, moved, old, blind);
			bring(r, off, old, *length);
		}
		if (unlikely(err == -EOPNOTSUPP && !blind && !unchanged(r, off, old, len)))
			return -EIO; /* a part is done: nobody may begin anew */
		if (err)
			return err;
	}
	bring(r, off, r->op == BL_ATOMIC_OP_READ ? value : old, len);
	*length = len;
	return 0;
}

/* As many bytes from `off` on as are done without letting go of the lock. */
static int piece(const struct bl_atomic_run *r, size_t *off)
{
	size_t end = bl_min(*off + PIECE, r->end);

	while (*off < end) {
		size_t len = bl_min(CHUNK, end - *off);
		int err = step(r, *off, &len);

		*off += len;
		if (err)
			return err == -EOPNOTSUPP && *off ? -EPERM : err; /* nobody begins anew */
	}
	return 0;
}

/* From *off on, of which *off tells the end, too. */
int bl_atomic_run(const struct bl_atomic_run *r, struct bl_atomics_page *atomics_page,
		  struct bl_atomics_page_wait *wait, size_t *off)
{
	int err = bl_atomics_page_lock(atomics_page, wait);

	if (err)
		return err;
	for (;;) {
		err = piece(r, off);
		if (err || *off == r->end)
			break;
		err = bl_atomics_page_share(atomics_page, wait);
		if (unlikely(err))
			return err;
	}
	bl_atomics_page_unlock(atomics_page);
	return err;
}
