/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rma_memory.c: the memory that a one-sided operation is about, a target's or our own: finding it
 * and copying there; see rma.h. Serialised by the domain. What is read out of a target's table is
 * checked on a private copy.
 */
#include <string.h>

#include "core/atomic.h"
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

/* The entry of a key, known already or read now; what was known before the target
 * closed a registration is forgotten. The target waits for us: bl_lane.rma_busy. */
static int entry_of(struct bl_rma_peer *rp, uint64_t key, const struct bl_mr_entry **out)
{
	struct bl_mr_entry *entry = &rp->cache[bl_mr_place(key, BL_RMA_CACHE - 1)];
	/* acquire: pairs with the release in mr.c's change_end */
	uint64_t epoch = atomic_load_explicit(&rp->peer->header->mr.closed, memory_order_acquire);
	int err;

	if (unlikely(epoch != rp->epoch)) {
		memset(rp->cache, 0, sizeof rp->cache);
		rp->epoch = epoch;
	}
	*out = entry;
	if (likely(entry->flags && entry->key == key))
		return 0;
	entry->flags = 0;
	err = bl_mr_read(rp->peer, key, entry);
	if (err)
		entry->flags = 0;
	return err;
}

/* The region of place i may count it. */
static void note_count(struct bl_rma_memory *mem, const struct bl_rma *rma, size_t i,
		       const struct bl_mr_entry *entry)
{
	if (unlikely(entry->flags & bl_rma_events(rma->what, rma->op) &&
		     bl_rma_first_of(rma->place, i)))
		mem->count[mem->ncount++] = (uint8_t)BL_MR_COUNT_OF(entry->flags);
}

int bl_rma_find(struct bl_rma_peer *rp, const struct bl_rma *rma, struct bl_rma_memory *mem)
{
	uint32_t need = bl_rma_need(rma->what, rma->op);

	mem->n = (uint32_t)rma->nplace;
	mem->ncount = 0;
	for (size_t i = 0; i < rma->nplace; i++) {
		struct bl_rma_spot *spot = &mem->spot[i];
		const struct bl_mr_entry *entry;
		int err;

		spot->n = 0;
		spot->len = rma->place[i].len;
		err = entry_of(rp, rma->place[i].key, &entry);
		if (!spot->len) { /* any key will do; but a region may count it */
			if (err == -EAGAIN || err == -EOPNOTSUPP)
				return err;
			if (!err)
				note_count(mem, rma, i, entry);
			continue;
		}
		if (!err)
			err = bl_mr_translate(entry, &rma->place[i], need, spot->iov, &spot->n);
		if (err)
			return err;
		note_count(mem, rma, i, entry);
	}
	return 0;
}

int bl_rma_find_own(struct bl_ep *ep, const struct bl_rma_place *place, uint32_t nplace,
		    uint32_t need, struct bl_rma_memory *mem)
{
	mem->n = nplace;
	for (uint32_t i = 0; i < nplace; i++) {
		struct bl_rma_spot *spot = &mem->spot[i];
		const struct bl_mr_entry *entry;
		int err;

		spot->n = 0;
		spot->len = place[i].len;
		if (!place[i].len)
			continue;
		entry = bl_mr_find(ep->domain, place[i].key, NULL);
		err = entry ? bl_mr_translate(entry, &place[i], need, spot->iov, &spot->n)
			    : -EKEYREJECTED;
		if (err)
			return err;
	}
	return 0;
}

/* Our own memory, by our own table; it may not be there: by the kernel where it lets us. */
static bool move_there(const struct bl_domain *domain, bool write, const struct iovec *mem,
		       const struct iovec *mine, size_t len)
{
	if (!bl_mr_is_there(domain, mem->iov_base, len, write))
		return false;
	if (write)
		bl_move(mem->iov_base, mine->iov_base, len);
	else
		bl_move(mine->iov_base, mem->iov_base, len);
	return true;
}

static int by_hand(bool write, const struct iovec *mem, size_t nmem, const struct iovec *mine,
		   size_t nmine, size_t off, size_t len)
{
	struct bl_copy_pair self = {.pull = BL_COPY_SELF, .push = BL_COPY_SELF};

	return write ? bl_copy_push(&self, mine, nmine, mem, nmem, off, len - off)
		     : bl_copy_pull(&self, mine, nmine, mem, nmem, off, len - off);
}

static int move_own(struct bl_domain *domain, bool write, const struct iovec *mem, size_t nmem,
		    const struct iovec *mine, size_t nmine, size_t len, size_t *moved)
{
	struct bl_copy_pair own;
	bool whole = nmem == 1 && nmine == 1;
	int err;

	if (domain && whole && move_there(domain, write, mem, mine, len))
		return 0;
	own = bl_copy_own_pair();
	err = write ? bl_copy_push(&own, mine, nmine, mem, nmem, 0, len)
		    : bl_copy_pull(&own, mine, nmine, mem, nmem, 0, len);
	*moved = own.moved;
	/* Not there at all is the operation's error. What is mapped may lie where the kernel
	 * doesn't reach, or a handler of our user's may mend the access. */
	if (err == -EOPNOTSUPP || (err == -EFAULT && bl_copy_is_mapped(mem, nmem)))
		err = by_hand(write, mem, nmem, mine, nmine, own.moved, len);
	if (!err && domain && whole)
		bl_mr_was_there(domain, mem->iov_base, len, write);
	return err;
}

/* From spot *at and byte *off in it on: as many of the next `len` bytes as `most` pieces describe;
 * how many pieces that are, and bytes. */
static size_t next_pieces(const struct bl_rma_memory *mem, uint32_t *at, size_t *off, size_t len,
			  size_t most, struct iovec *out, size_t *bytes)
{
	size_t n = 0;

	for (*bytes = 0; *at < mem->n && *bytes < len; ++*at) {
		const struct bl_rma_spot *spot = &mem->spot[*at];
		size_t take;

		if (*off >= spot->len) {
			*off -= spot->len;
			continue;
		}
		if (n && n + spot->n > most)
			break;
		take = bl_min(spot->len - *off, len - *bytes);
		n += bl_iov_slice(spot->iov, spot->n, *off, take, out + n);
		*bytes += take;
		*off = 0;
	}
	return n;
}

int bl_rma_move(struct bl_copy_pair *pair, bool write, const struct bl_rma_memory *mem, size_t off,
		const struct iovec *mine, size_t nmine, size_t len, size_t *moved)
{
	struct iovec a[BL_IOV_MAX], b[BL_IOV_MAX];
	struct bl_copy_pair own;
	uint32_t at = 0;
	size_t n;

	if (pair && pair->pull == BL_COPY_SELF) { /* believe no header: the kernel checks */
		own = bl_copy_own_pair();
		pair = &own;
	}

	/* Of our own memory one piece may be there and another not. */
	for (size_t done = 0; done < len; done += n) {
		size_t nb = next_pieces(mem, &at, &off, len - done, pair ? BL_IOV_MAX : 1, b, &n);
		size_t na = bl_iov_slice(mine, nmine, done, n, a), some = 0;
		int err;

		if (!n)
			return 0;
		if (!pair) {
			err = move_own(mem->own, write, b, nb, a, na, n, &some);
		} else {
			pair->moved = 0;
			err = write ? bl_copy_push(pair, a, na, b, nb, 0, n)
				    : bl_copy_pull(pair, a, na, b, nb, 0, n);
			some = pair->moved;
		}
		if (err) {
			if (moved)
				*moved = done + some;
			return err;
		}
	}
	return 0;
}
