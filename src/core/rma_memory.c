/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma_memory.c: the memory that a one-sided operation is about, a target's or our own: finding it
 * and copying there; see rma.h. Serialised by the domain. What is read out of a target's table is
 * checked on a private copy.
 */
#include <stdlib.h>
#include <string.h>

#include "core/rma.h"

uint32_t bl_rma_need(enum bl_rma_what what, uint8_t op)
{
	switch (what) {
	case BL_RMA_READ:
		return BL_MR_READ;
	case BL_RMA_WRITE:
	case BL_RMA_ATOMIC:
		return BL_MR_WRITE;
	default:
		return op == BL_ATOMIC_OP_READ ? BL_MR_READ : BL_MR_READ | BL_MR_WRITE;
	}
}

uint32_t bl_rma_events(enum bl_rma_what what, uint8_t op)
{
	uint32_t need = bl_rma_need(what, op);

	return (need & BL_MR_READ ? BL_MR_EVENT_READ : 0) |
	       (need & BL_MR_WRITE ? BL_MR_EVENT_WRITE : 0);
}

bool bl_rma_places_len(const struct bl_rma_place *place, size_t nplace, size_t *len)
{
	*len = 0;
	for (size_t i = 0; i < nplace; i++)
		if (__builtin_add_overflow(*len, place[i].len, len))
			return false;
	return true;
}

void bl_rma_memory_begin(struct bl_rma_memory *mem)
{
	mem->iov = mem->few;
	mem->room = bl_countof(mem->few);
	mem->n = mem->ncount = 0;
	mem->together = true;
}

void bl_rma_memory_end(struct bl_rma_memory *mem)
{
	if (unlikely(mem->iov != mem->few))
		free(mem->iov);
}

/* Room for the pieces of one more place. */
static bl_cold int make_room(struct bl_rma_memory *mem)
{
	uint32_t room = 4 * mem->room;
	bool few = mem->iov == mem->few;
	struct iovec *iov = realloc(few ? NULL : mem->iov, room * sizeof *iov);

	if (!iov)
		return -ENOMEM;
	if (few)
		memcpy(iov, mem->few, mem->n * sizeof *iov);
	mem->iov = iov;
	mem->room = room;
	return 0;
}

/* What lies side by side is one piece. */
static void append(struct bl_rma_memory *mem, const struct iovec *iov, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct iovec *last = mem->n ? &mem->iov[mem->n - 1] : NULL;

		if (last && (uintptr_t)last->iov_base + last->iov_len == (uintptr_t)iov[i].iov_base)
			last->iov_len += iov[i].iov_len;
		else
			mem->iov[mem->n++] = iov[i];
	}
}

int bl_rma_memory_add(struct bl_rma_memory *mem, const struct bl_rma_place *place, uint32_t i,
		      const struct bl_mr_entry *entry, uint32_t need)
{
	struct iovec iov[BL_IOV_MAX];
	uint32_t n = 0;
	int err = bl_mr_translate(entry, &place[i], need, iov, &n);

	if (!err && unlikely(mem->n + n > mem->room))
		err = make_room(mem);
	if (err)
		return err;
	mem->together = mem->together && entry->npiece == 1 && place[i].key == place[0].key;
	append(mem, iov, n);
	return 0;
}

int bl_rma_find_own(struct bl_ep *ep, const struct bl_rma_place *place, uint32_t nplace,
		    uint32_t need, struct bl_rma_memory *mem)
{
	bl_rma_memory_begin(mem);
	for (uint32_t i = 0; i < nplace; i++) {
		const struct bl_mr_entry *entry;
		int err;

		if (!place[i].len)
			continue;
		entry = bl_mr_find(ep->domain, place[i].key, NULL);
		err = entry ? bl_rma_memory_add(mem, place, i, entry, need) : -EKEYREJECTED;
		if (err)
			return err;
	}
	return 0;
}

/* Our own memory, by our own table; it may not be there: by the kernel where it lets us. */
static bool move_there(const struct bl_domain *domain, bool write, void *mem, void *mine,
		       size_t len)
{
	if (!bl_mr_is_there(domain, mem, len, write))
		return false;
	if (write)
		bl_move(mem, mine, len);
	else
		bl_move(mine, mem, len);
	return true;
}

int bl_rma_move_own(struct bl_domain *domain, bool write, void *at, void *bytes, size_t len,
		    size_t *moved)
{
	const struct iovec mem = {at, len}, mine = {bytes, len};
	struct bl_copy_pair own, self;
	int err;

	if (domain && move_there(domain, write, at, bytes, len))
		return 0;
	own = bl_copy_own_pair();
	err = write ? bl_copy_push(&own, &mine, 1, &mem, 1, 0, len)
		    : bl_copy_pull(&own, &mine, 1, &mem, 1, 0, len);
	*moved = own.moved;
	/* Not there at all is the operation's error. What is mapped may lie where the kernel
	 * doesn't reach, or a handler of our user's may mend the access. */
	if (err == -EOPNOTSUPP || (err == -EFAULT && bl_copy_is_mapped(&mem, 1))) {
		self = (struct bl_copy_pair){.pull = BL_COPY_SELF, .push = BL_COPY_SELF};
		err = write ? bl_copy_push(&self, &mine, 1, &mem, 1, own.moved, len - own.moved)
			    : bl_copy_pull(&self, &mine, 1, &mem, 1, own.moved, len - own.moved);
	}
	if (!err && domain)
		bl_mr_was_there(domain, at, len, write);
	return err;
}

/* One piece after the other: of our own memory one may be there and another not. */
static int move_all_own(const struct bl_rma_memory *mem, bool write, size_t off,
			const struct iovec *mine, size_t nmine, size_t len, size_t *moved)
{
	struct bl_iov_at there = {mem->iov, mem->n, 0}, here = {mine, nmine, 0};
	size_t done = 0, n, some = 0;
	struct iovec a, b;

	for (bl_iov_skip(&there, off); done < len; done += n) {
		int err;

		if (!bl_iov_next(there, len - done, &b, 1, &n) || !bl_iov_next(here, n, &a, 1, &n))
			break;
		err = bl_rma_move_own(mem->own, write, b.iov_base, a.iov_base, n, &some);
		if (err) {
			*moved = done + some;
			return err;
		}
		bl_iov_skip(&there, n);
		bl_iov_skip(&here, n);
	}
	return 0;
}

#define GAP_MOST                                                                                   \
	512u /* bytes that are copied in less time than one more piece takes the kernel            \
	      */
#define OVER 16384u

/* Pieces with short gaps, from the first to the last address. */
static bool is_dense(const struct bl_rma_memory *mem)
{
	for (uint32_t i = 1; i < mem->n; i++) {
		uintptr_t end = (uintptr_t)mem->iov[i - 1].iov_base + mem->iov[i - 1].iov_len;

		if ((uintptr_t)mem->iov[i].iov_base - end > GAP_MOST ||
		    mem->iov[i].iov_len > OVER / 2)
			return false;
	}
	return mem->together && mem->n > 1 && mem->iov[0].iov_len <= OVER / 2;
}

/*
 * Read all of it with what is between its pieces, some of them at a time: the kernel pins pages
 * for each piece anew. What is between them is the same registration's, and is dropped.
 */
static int read_over(struct bl_copy_pair *pair, const struct bl_rma_memory *mem,
		     const struct iovec *mine, size_t nmine)
{
	struct bl_iov_at here = {mine, nmine, 0};
	char bytes[OVER];

	for (uint32_t i = 0, k; i < mem->n; i = k) {
		uintptr_t first = (uintptr_t)mem->iov[i].iov_base, end = first;
		struct iovec over = {bytes, 0}, theirs = {mem->iov[i].iov_base, 0};
		int err;

		for (k = i; k < mem->n; k++) {
			uintptr_t next = (uintptr_t)mem->iov[k].iov_base + mem->iov[k].iov_len;

			if (next - first > OVER)
				break;
			end = next;
		}
		over.iov_len = theirs.iov_len = end - first;
		err = bl_copy_pull(pair, &over, 1, &theirs, 1, 0, end - first);
		if (err)
			return err;
		for (uint32_t p = i; p < k; p++) {
			const char *from = bytes + ((uintptr_t)mem->iov[p].iov_base - first);

			bl_iov_put(&here, from, mem->iov[p].iov_len);
		}
	}
	return 0;
}

/* From the middle on; ours begins there. */
static int move_from(struct bl_copy_pair *pair, bool write, const struct bl_rma_memory *mem,
		     size_t off, const struct iovec *mine, size_t nmine, size_t len)
{
	struct bl_iov_at there = {mem->iov, mem->n, 0}, here = {mine, nmine, 0};
	struct iovec a[BL_IOV_MAX], b[BL_IOV_MAX];
	size_t done = 0, n;
	int err = 0;

	for (bl_iov_skip(&there, off); done < len && !err; done += n) {
		size_t nb = bl_iov_next(there, len - done, b, BL_IOV_MAX, &n);
		size_t na = bl_iov_next(here, n, a, BL_IOV_MAX, &n);

		if (!n)
			break;
		pair->moved = 0;
		err = write ? bl_copy_push(pair, a, na, b, nb, 0, n)
			    : bl_copy_pull(pair, a, na, b, nb, 0, n);
		bl_iov_skip(&there, n);
		bl_iov_skip(&here, n);
	}
	if (err)
		pair->moved += (uint32_t)(done - n);
	return err;
}

int bl_rma_move(struct bl_copy_pair *pair, bool write, const struct bl_rma_memory *mem, size_t off,
		const struct iovec *mine, size_t nmine, size_t len, size_t *moved)
{
	struct bl_copy_pair own;
	size_t some = 0;
	int err;

	if (!pair) {
		err = move_all_own(mem, write, off, mine, nmine, len, &some);
		goto out;
	}
	if (pair->pull == BL_COPY_SELF) { /* believe no header: the kernel checks */
		own = bl_copy_own_pair();
		pair = &own;
	}
	if (!len)
		return 0;
	/* Of what isn't there between them nothing is said: without it all may be well. */
	if (!write && !off && len == mem->len && is_dense(mem)) {
		err = read_over(pair, mem, mine, nmine);
		if (err != -EFAULT)
			return err;
	}
	pair->moved = 0;
	if (unlikely(off))
		err = move_from(pair, write, mem, off, mine, nmine, len);
	else
		err = write ? bl_copy_push(pair, mine, nmine, mem->iov, mem->n, 0, len)
			    : bl_copy_pull(pair, mine, nmine, mem->iov, mem->n, 0, len);
	some = pair->moved;
out:
	if (err && moved)
		*moved = some;
	return err;
}
