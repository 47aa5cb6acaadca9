/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * direct.c: one-sided operations that their origin does itself: it reads the target's table, and
 * copies; see rma.h. Serialised by the domain. What is read out of a target's table is checked on a
 * private copy.
 */
#include <string.h>

#include "core/stat.h"
#include "transport/local/lane/ctrl.h"
#include "transport/local/link/prove_access.h"
#include "transport/local/rma/count.h"
#include "transport/local/rma/rma.h"

/* --- finding it ----------------------------------------------------------------- */

/* The entry of a key, known already or read now; what was known before the target
 * closed a registration is forgotten. The target waits for us: bl_lane.rma_busy. */
static int entry_of(struct bl_rma_peer *rp, uint64_t key, const struct bl_mr_entry **out)
{
	struct bl_mr_entry *entry = &rp->cache[bl_mr_place(key, BL_RMA_CACHE - 1)];
	/* acquire: pairs with the release in mr.c's change_end */
	uint64_t epoch =
		atomic_load_explicit(&rp->peer->mapped.header->mr.closed, memory_order_acquire);
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

/* The region of place i may count it. -EOPNOTSUPP: more do than there is room for. */
static int note_count(struct bl_rma_memory *mem, const struct bl_rma *rma, size_t i,
		      const struct bl_mr_entry *entry)
{
	if (likely(!(entry->flags & bl_rma_events(rma->what, rma->op))) ||
	    !bl_rma_first_of(rma->place, i))
		return 0;
	if (mem->ncount == bl_countof(mem->count))
		return -EOPNOTSUPP;
	mem->count[mem->ncount++] = (uint8_t)BL_MR_COUNT_OF(entry->flags);
	return 0;
}

/* See bl_rma_find(); of place i. */
static int find_place(struct bl_rma_peer *rp, const struct bl_rma *rma, uint32_t need, uint32_t i,
		      struct bl_rma_memory *mem)
{
	const struct bl_mr_entry *entry;
	int err = entry_of(rp, rma->place[i].key, &entry);

	if (unlikely(!rma->place[i].len)) { /* any key will do; but a region may count it */
		if (err == -EAGAIN || err == -EOPNOTSUPP)
			return err;
		return err ? 0 : note_count(mem, rma, i, entry);
	}
	if (!err)
		err = bl_rma_memory_add(mem, rma->place, i, entry, need);
	return err ? err : note_count(mem, rma, i, entry);
}

int bl_rma_find(struct bl_rma_peer *rp, const struct bl_rma *rma, struct bl_rma_memory *mem)
{
	uint32_t need = bl_rma_need(rma->what, rma->op);

	bl_rma_memory_begin(mem);
	for (uint32_t i = 0; i < rma->nplace; i++) {
		int err = find_place(rp, rma, need, i, mem);

		if (unlikely(err)) {
			bl_rma_memory_end(mem);
			return err;
		}
	}
	return 0;
}

/* --- copying -------------------------------------------------------------------- */

bool bl_rma_is_told(const struct bl_peer *peer, const struct bl_rma *rma)
{
	bool read = bl_rma_reads(rma->what);
	uint32_t all = atomic_load_explicit(&peer->mapped.header->mr.events, memory_order_relaxed);

	return rma->flags & BL_REMOTE_CQ_DATA ||
	       all & (read ? BL_MR_EVENT_READ : BL_MR_EVENT_WRITE);
}

static void tell_target(struct bl_peer *peer, const struct bl_rma *rma, size_t len)
{
	struct bl_rma_event event = {.len = len, .what = rma->what, .op = rma->op};

	bl_put_packet(peer, BL_OP_RMA_EVENT, rma->flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0,
		      rma->nplace ? rma->place[0].key : 0, rma->data, &event, sizeof event);
}

static void count(struct bl_ep *ep, enum bl_rma_what what, size_t len)
{
	enum bl_stat stat = what == BL_RMA_READ	   ? BL_STAT_rma_reads
			    : what == BL_RMA_WRITE ? BL_STAT_rma_writes
						   : BL_STAT_rma_atomics;

	bl_stat_add(ep, stat, 1);
	bl_stat_add(ep, stat + 1, len);
}

static int apply(struct bl_peer *peer, const struct bl_rma *rma, const struct bl_rma_memory *mem,
		 size_t *off)
{
	const struct bl_atomic_run r = {
		.pair = &peer->copy,
		.mem = mem,
		.what = rma->what,
		.type = rma->type,
		.op = rma->op,
		.operand = rma->iov,
		.noperand = rma->niov,
		.compare = rma->compare,
		.ncompare = rma->ncompare,
		.result = rma->result,
		.nresult = rma->nresult,
		.end = mem->len,
	};
	struct bl_atomics_page *atomics_page;
	int err;

	if (!bl_atomic_fits(rma->what, rma->type, rma->op, mem->len))
		return -EINVAL;
	err = bl_peer_atomics_page(peer, &atomics_page);
	if (unlikely(err))
		return err;
	return bl_atomic_run(&r, atomics_page, &peer->rma->wait, off);
}

/* See bl_rma_direct(); BL_RMA_NO_ROOM. The memory has been found. */
static int copy_there(struct bl_rma_peer *rp, const struct bl_rma *rma,
		      const struct bl_rma_memory *mem, bool several, size_t *off, int *err)
{
	struct bl_peer *peer = rp->peer;
	struct bl_heard heard;

	bl_rma_count_plan(peer, rma, mem, &heard);
	if (several && (heard.packet || heard.n))
		return -EOPNOTSUPP;
	/* Each region may have a counter of its own: the target finds them. */
	if (unlikely(heard.packet && rma->nplace > 1 && mem->ncount))
		return -EOPNOTSUPP;
	if (unlikely(heard.packet) && !bl_tx_room(&peer->tx) && !bl_tx_refresh(&peer->tx))
		return BL_RMA_NO_ROOM;
	bl_window(BL_WINDOW_REACHING, NULL);
	if (rma->what >= BL_RMA_ATOMIC)
		*err = apply(peer, rma, mem, off);
	else
		*err = bl_rma_move(&peer->copy, rma->what == BL_RMA_WRITE, mem, 0, rma->iov,
				   rma->niov, mem->len, off);
	if (unlikely(*err == -EOPNOTSUPP || *err == -EAGAIN))
		return *err;
	if (bl_rma_reads(rma->what) && bl_peer_life(peer)) {
		*err = bl_peer_life(peer); /* the same PID after exec() is other memory */
		*off = 0;
	}
	if (unlikely(*err))
		return 0;
	if (unlikely(heard.packet))
		tell_target(peer, rma, mem->len);
	else if (heard.n)
		bl_rma_count_add(peer, &heard);
	return 0;
}

static int copy_now(struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len, bool several,
		    size_t *off, int *err)
{
	struct bl_rma_memory mem;
	int ret;

	*err = bl_peer_life(rp->peer); /* its PID may be somebody else's by now */
	if (!*err)
		*err = bl_rma_find(rp, rma, &mem);
	if (unlikely(*err))
		return *err == -EAGAIN || *err == -EOPNOTSUPP ? *err : 0;
	mem.len = len;
	ret = copy_there(rp, rma, &mem, several, off, err);
	bl_rma_memory_end(&mem);
	return ret;
}

/* From here on until busy_ends() the target waits for us before it takes memory away. */
static void busy_begins(struct bl_rma_peer *rp)
{
	/* seq_cst: pairs with the fence in bl_mr_quiesce: either we see what has been
	 * closed, or the target sees us and waits */
	atomic_exchange_explicit(&rp->peer->rx.lane->rma_busy, (rp->turn += 2) | 1,
				 memory_order_seq_cst);
}

static void busy_ends(struct bl_rma_peer *rp)
{
	atomic_store_explicit(&rp->peer->rx.lane->rma_busy, 0, memory_order_release);
}

int bl_rma_direct(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
		  bool several, size_t *off, int *err)
{
	int ret;

	busy_begins(rp);
	ret = copy_now(rp, rma, len, several, off, err);
	busy_ends(rp);
	return ret;
}

int bl_rma_counted(struct bl_rma_peer *rp, const struct bl_rma *rma, bool *counted)
{
	struct bl_rma_memory mem;
	int err;

	busy_begins(rp);
	err = bl_peer_life(rp->peer); /* its PID may be somebody else's by now */
	if (!err)
		err = bl_rma_find(rp, rma, &mem);
	busy_ends(rp);
	*counted = !err && mem.ncount;
	if (!err)
		bl_rma_memory_end(&mem);
	return err;
}

/* Where they aren't it is an error, which needn't end this process. */
static bl_cold bool ours_are_mapped(const struct bl_rma *rma)
{
	return bl_copy_is_mapped(rma->iov, rma->niov) &&
	       bl_copy_is_mapped(rma->compare, rma->ncompare) &&
	       bl_copy_is_mapped(rma->result, rma->nresult);
}

int bl_rma_direct_one(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma,
		      size_t len, size_t *off)
{
	size_t at = *off;
	int err, ret = bl_rma_direct(ep, rp, rma, len, false, &at, &err);

	if (rma->what >= BL_RMA_ATOMIC) /* any other begins anew */
		*off = at;
	if (ret)
		return ret;
	if (unlikely(err == -EFAULT && ours_are_mapped(rma)))
		return err;
	if (likely(!err))
		count(ep, rma->what, len);
	bl_rma_over(ep, rp->peer, rma, len, err == -ESRCH ? ECONNRESET : -err);
	return 0;
}
