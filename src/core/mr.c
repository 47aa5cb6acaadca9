/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * mr.c: the table of memory registrations, its owner's and its readers' side;
 * see mr.h. The owner's side is serialised by the domain.
 */
#include "core/mr.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memcheck.h"

#define LEAST_ENTRIES 64u
#define MOST_ENTRIES  (1u << 24)
#define READ_TRIES    100

/* --- the owner ---------------------------------------------------------- */

static bool has_header(const struct bl_ep *ep)
{
	return ep->local.seg.header != NULL;
}

static void change_begin(struct bl_domain *domain)
{
	for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain)
		if (has_header(ep)) {
			struct bl_seg_mr *mr = &ep->local.seg.header->mr;
			uint64_t now = atomic_load_explicit(&mr->change, memory_order_relaxed);

			atomic_store_explicit(&mr->change, now | 1, memory_order_relaxed);
		}
	/* release: pairs with the acquire fence in bl_mr_read: who has seen anything
	 * of the change finds `change` odd, or another than before */
	atomic_thread_fence(memory_order_release);
}

static void change_end(struct bl_ep *ep)
{
	struct bl_mr_table *table = &ep->domain->mr;
	struct bl_seg_mr *mr = &ep->local.seg.header->mr;
	uint64_t now = atomic_load_explicit(&mr->change, memory_order_relaxed);

	atomic_store_explicit(&mr->table, (uintptr_t)table->entry, memory_order_relaxed);
	atomic_store_explicit(&mr->mask, table->mask, memory_order_relaxed);
	/* release: pairs with the acquire in direct.c's reader; it finds the entry gone */
	atomic_store_explicit(&mr->closed, table->closed, memory_order_release);
	/* release: pairs with the acquire in bl_mr_read */
	atomic_store_explicit(&mr->change, (now | 1) + 1, memory_order_release);
}

static void change_end_all(struct bl_domain *domain)
{
	for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain)
		if (has_header(ep))
			change_end(ep);
}

void bl_mr_publish(struct bl_ep *ep)
{
	change_end(ep);
	bl_mr_events(ep);
}

void bl_mr_events(struct bl_ep *ep)
{
	const struct bl_mr_hooks *hooks = ep->domain->hooks;
	uint32_t events = (ep->rma_cntr.remote_read ? BL_MR_EVENT_READ : 0) |
			  (ep->rma_cntr.remote_write ? BL_MR_EVENT_WRITE : 0) |
			  BL_MR_COUNT(hooks->number(ep->rma_cntr.remote_read)) |
			  BL_MR_COUNT_WRITES(hooks->number(ep->rma_cntr.remote_write));

	if (has_header(ep))
		atomic_store_explicit(&ep->local.seg.header->mr.events, events,
				      memory_order_relaxed);
}

/* The index of a key, or of the place for it; -1: neither. */
static int64_t find_key(const struct bl_mr_table *table, uint64_t key)
{
	uint32_t at = bl_mr_place(key, table->mask);

	for (uint32_t i = 0; table->entry && i < BL_MR_WINDOW; i++)
		if (table->entry[at + i].flags && table->entry[at + i].key == key)
			return at + i;
	return -1;
}

static int64_t find_vacant(const struct bl_mr_table *table, uint64_t key)
{
	uint32_t at = bl_mr_place(key, table->mask);

	for (uint32_t i = 0; table->entry && i < BL_MR_WINDOW; i++)
		if (!table->entry[at + i].flags)
			return at + i;
	return -1;
}

/* The old table begins with the address of the one before it, when it is retired:
 * its entries have been copied, and whoever still reads them sees the change. */
static void retire(struct bl_mr_table *table)
{
	if (!table->entry)
		return;
	memcpy(table->entry, &table->old, sizeof table->old);
	table->old = table->entry;
	free(table->who);
}

static bool move_all(struct bl_mr_table *to, const struct bl_mr_table *from)
{
	for (uint32_t i = 0; from->entry && i < from->mask + BL_MR_WINDOW; i++) {
		int64_t at;

		if (!from->entry[i].flags)
			continue;
		at = find_vacant(to, from->entry[i].key);
		if (at < 0)
			return false;
		to->entry[at] = from->entry[i];
		to->who[at] = from->who[i];
	}
	return true;
}

/* A larger table, in which all keys and `key` have a place. */
static int grow(struct bl_domain *domain, uint64_t key)
{
	struct bl_mr_table *table = &domain->mr, more = *table;
	uint32_t places = table->entry ? table->mask + 1 : LEAST_ENTRIES / 2;

	while ((places *= 2) <= MOST_ENTRIES) {
		more.mask = places - 1;
		more.entry = calloc(places + BL_MR_WINDOW, sizeof *more.entry);
		more.who = calloc(places + BL_MR_WINDOW, sizeof *more.who);
		if (more.entry && more.who && move_all(&more, table) &&
		    find_vacant(&more, key) >= 0) {
			change_begin(domain);
			retire(table);
			more.old = table->old;
			*table = more;
			change_end_all(domain);
			return 0;
		}
		free(more.entry);
		free(more.who);
		if (!more.entry || !more.who)
			break;
	}
	return -ENOMEM;
}

static uint64_t choose_key(struct bl_mr_table *table)
{
	while (find_key(table, ++table->next_key) >= 0)
		;
	return table->next_key;
}

static int publish(struct bl_mr *mr, const struct bl_mr_attr *attr)
{
	struct bl_domain *domain = mr->domain;
	struct bl_mr_table *table = &domain->mr;
	int64_t at = find_vacant(table, mr->key);
	struct bl_mr_entry *entry;

	if (at < 0) {
		int err = grow(domain, mr->key);

		if (err)
			return err;
		at = find_vacant(table, mr->key);
	}
	change_begin(domain);
	entry = &table->entry[at];
	entry->key = mr->key;
	entry->flags = attr->flags | BL_MR_USED;
	entry->npiece = (uint32_t)attr->niov;
	for (size_t i = 0; i < attr->niov; i++)
		entry->piece[i] =
			(struct bl_piece){(uintptr_t)attr->iov[i].iov_base, attr->iov[i].iov_len};
	table->who[at] = mr;
	change_end_all(domain);
	mr->published = true;
	return 0;
}

int bl_mr_open(struct bl_domain *domain, const struct bl_mr_attr *attr, struct bl_mr **out)
{
	bool remote = attr->flags & (BL_MR_READ | BL_MR_WRITE);
	struct bl_mr *mr;
	int err;

	if (!attr->niov || attr->niov > BL_IOV_MAX)
		return -EINVAL;
	/* A key that nobody can use needn't be the only one. */
	if (remote && !attr->choose && find_key(&domain->mr, attr->key) >= 0)
		return -BL_ENOKEY;
	mr = calloc(1, sizeof *mr);
	if (!mr)
		return -ENOMEM;
	mr->domain = domain;
	mr->key = attr->choose ? choose_key(&domain->mr) : attr->key;
	if (attr->flags & BL_MR_WRITE)
		bl_memcheck_shared(attr->iov, attr->niov);
	err = remote ? publish(mr, attr) : 0;
	if (err) {
		free(mr);
		return err;
	}
	domain->users++;
	*out = mr;
	return 0;
}

/* It has died, and so has the thread of it that may have been in the kernel, at a copy; one that
 * can't be seen is given a while, as for receives (bl_peer_lingers). */
static bool writes_no_more(const struct bl_peer *peer, uint64_t begun)
{
	int err = bl_peer_ended(peer), over;

	if (err != -ECONNRESET)
		return err;
	over = bl_process_over(peer->copy.pid);
	return over > 0 || (over < 0 && bl_clock_ns() - begun >= BL_UNSEEN_US * 1000u);
}

/* Which copy a neighbour says it is at, or 0. It may have begun before our owner knows it, but
 * not before it was given our lane. */
static uint32_t copy_of(const struct bl_peer *peer, uint64_t begun)
{
	const struct bl_lane *lane = peer->setup.has_lane ? peer->tx.lane : peer->setup.cts_all;
	uint32_t busy;

	/* acquire: pairs with the release in direct.c */
	busy = lane && !peer->dead ? atomic_load_explicit(&lane->rma_busy, memory_order_acquire)
				   : 0;
	return busy && peer->mapped.header && writes_no_more(peer, begun) ? 0 : busy;
}

/* Until it is no longer at the copy that it is at now. bl_local.lock held, and let go of. */
static void await_copy(struct bl_local *local, struct bl_peer *peer, struct bl_patience *patience)
{
	uint64_t begun = bl_clock_ns();
	uint32_t busy = copy_of(peer, begun);

	patience->until = 0;
	while (busy && busy != peer->watch.rma_stuck && busy == copy_of(peer, begun)) {
		pthread_mutex_unlock(&local->lock);
		sched_yield();
		bool ends = bl_patience_ends(patience, peer->copy.pid);
		pthread_mutex_lock(&local->lock);
		if (!ends)
			continue;
		bl_warn("process %u stays in the middle of a copy; it is not waited for",
			peer->addr.pid);
		peer->watch.rma_stuck = busy; /* nor when the next one is closed */
	}
}

void bl_mr_quiesce(struct bl_ep *ep)
{
	struct bl_local *local = &ep->local;
	struct bl_patience patience = {0};

	/* After the stores that close, before the loads: pairs with the exchange in
	 * direct.c. A neighbour whose flag we don't see will see what we have closed. */
	atomic_thread_fence(memory_order_seq_cst);
	pthread_mutex_lock(&local->lock);
	for (struct bl_peer *peer = local->peers.all; peer; peer = peer->next.all)
		await_copy(local, peer, &patience);
	pthread_mutex_unlock(&local->lock);
}

void bl_mr_close(struct bl_mr *mr)
{
	struct bl_domain *domain = mr->domain;
	int64_t at = mr->published ? find_key(&domain->mr, mr->key) : -1;

	if (at >= 0) {
		change_begin(domain);
		domain->mr.closed++;
		memset(&domain->mr.entry[at], 0, sizeof domain->mr.entry[at]);
		domain->mr.who[at] = NULL;
		change_end_all(domain);
		for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain)
			if (has_header(ep))
				bl_mr_quiesce(ep);
	}
	if (mr->cntr) {
		domain->hooks->settle(domain); /* who reads it may make no such progress any more */
		mr->cntr->users--;
		if (!--mr->cntr->regions)
			bl_wait_narrow(mr->cntr);
	}
	domain->users--;
	free(mr);
}

int bl_mr_bind_cntr(struct bl_mr *mr, struct bl_cntr *cntr, uint64_t flags)
{
	int64_t at = mr->published ? find_key(&mr->domain->mr, mr->key) : -1;
	uint32_t events = (flags & BL_REMOTE_READ ? BL_MR_EVENT_READ : 0) |
			  (flags & BL_REMOTE_WRITE ? BL_MR_EVENT_WRITE : 0);

	if (mr->cntr)
		return -EINVAL;
	if (!cntr->regions) {
		int err = bl_wait_widen(cntr);

		if (err)
			return err;
	}
	mr->cntr = cntr;
	cntr->users++;
	cntr->regions++;
	if (at < 0)
		return 0;
	events |= BL_MR_COUNT(mr->domain->hooks->number(cntr));
	/* Who has read the entry before must read it again. */
	change_begin(mr->domain);
	mr->domain->mr.entry[at].flags |= events;
	mr->domain->mr.closed++;
	change_end_all(mr->domain);
	return 0;
}

const struct bl_mr_entry *bl_mr_find(struct bl_domain *domain, uint64_t key, struct bl_mr **mr)
{
	int64_t at = find_key(&domain->mr, key);

	if (at < 0)
		return NULL;
	if (mr)
		*mr = domain->mr.who[at];
	return &domain->mr.entry[at];
}

#define THERE_US 100u
#define PAGE	 4096u /* or a part of one */

/* 0: it isn't within one. */
static uint64_t page_of(const void *at, size_t len, bool write)
{
	uint64_t first = (uintptr_t)at / PAGE;

	return len && ((uintptr_t)at + len - 1) / PAGE == first ? first * PAGE + write : 0;
}

static uint32_t there_at(uint64_t page)
{
	return (uint32_t)(page / PAGE * 2 + page % PAGE) % BL_THERE;
}

bool bl_mr_is_there(const struct bl_domain *domain, const void *at, size_t len, bool write)
{
	const struct bl_there *there = &domain->there;
	uint64_t page = page_of(at, len, write);
	uint32_t i = there_at(page);

	return page && there->at[i].page == page && there->closed == domain->mr.closed &&
	       !bl_is_due(bl_ticks(), there->at[i].until);
}

void bl_mr_was_there(struct bl_domain *domain, const void *at, size_t len, bool write)
{
	struct bl_there *there = &domain->there;
	uint64_t page = page_of(at, len, write);
	uint32_t i = there_at(page);

	if (!page)
		return;
	if (there->closed != domain->mr.closed)
		*there = (struct bl_there){.closed = domain->mr.closed};
	there->at[i].page = page;
	there->at[i].until = bl_ticks() + THERE_US * bl_ticks_per_us();
}

void bl_mr_free_table(struct bl_domain *domain)
{
	struct bl_mr_table *table = &domain->mr;
	void *old = table->old, *before;

	for (; old; old = before) {
		memcpy(&before, old, sizeof before);
		free(old);
	}
	free(table->entry);
	free(table->who);
	*table = (struct bl_mr_table){0};
}

/* --- readers ------------------------------------------------------------ */

/* The key among entries that may be anything; the copy makes sense. */
static int search(const struct bl_mr_entry *entry, uint64_t key, struct bl_mr_entry *out)
{
	for (uint32_t i = 0; i < BL_MR_WINDOW; i++)
		if (entry[i].flags & BL_MR_USED && entry[i].key == key) {
			*out = entry[i];
			return out->npiece && out->npiece <= BL_IOV_MAX ? 0 : -EKEYREJECTED;
		}
	return -EKEYREJECTED;
}

int bl_mr_read(struct bl_peer *peer, uint64_t key, struct bl_mr_entry *out)
{
	const struct bl_seg_mr *mr = &peer->mapped.header->mr;
	struct bl_mr_entry entry[BL_MR_WINDOW];
	struct bl_copy_pair own, *pair = &peer->copy;

	if (pair->pull == BL_COPY_SELF) {
		own = bl_copy_own_pair();
		pair = &own;
	}

	for (int i = 0; i < READ_TRIES; i++) {
		/* acquire: pairs with the release in change_end */
		uint64_t change = atomic_load_explicit(&mr->change, memory_order_acquire);
		uint64_t table = atomic_load_explicit(&mr->table, memory_order_relaxed);
		uint32_t mask = atomic_load_explicit(&mr->mask, memory_order_relaxed);
		struct iovec mine = {entry, sizeof entry}, theirs;
		int err;

		if (change & 1) {
			sched_yield();
			continue;
		}
		theirs.iov_base =
			(void *)(uintptr_t)(table + bl_mr_place(key, mask) * sizeof entry[0]);
		theirs.iov_len = sizeof entry;
		err = table ? bl_copy_pull(pair, &mine, 1, &theirs, 1, 0, sizeof entry) : -EFAULT;
		/* acquire: pairs with the release fence in change_begin */
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&mr->change, memory_order_relaxed) != change)
			continue;
		if (err) /* -EFAULT: there is no table, or not where it was said to be */
			return err == -EFAULT ? -EKEYREJECTED : err;
		return search(entry, key, out);
	}
	return -EAGAIN;
}

/* Bytes [addr, addr + len) of one piece, which begins at `from`. */
static bool inside(uint64_t addr, uint64_t len, uint64_t from, uint64_t size)
{
	return addr >= from && addr - from <= size && len <= size - (addr - from);
}

int bl_mr_translate(const struct bl_mr_entry *entry, const struct bl_rma_place *place,
		    uint32_t need, struct iovec *out, uint32_t *count)
{
	uint64_t skip = place->addr, left = place->len;
	uint32_t n = 0;

	if ((entry->flags & need) != need)
		return -EACCES;
	if (entry->flags & BL_MR_VIRTUAL) {
		for (uint32_t i = 0; i < entry->npiece; i++)
			if (inside(skip, left, entry->piece[i].base, entry->piece[i].len)) {
				out[0] = (struct iovec){(void *)(uintptr_t)skip, left};
				*count = 1;
				return 0;
			}
		return -EINVAL;
	}
	for (uint32_t i = 0; i < entry->npiece && left; i++) {
		const struct bl_piece *p = &entry->piece[i];
		size_t take;

		if (skip >= p->len) {
			skip -= p->len;
			continue;
		}
		take = bl_min(left, p->len - skip);
		out[n++] = (struct iovec){(void *)(uintptr_t)(p->base + skip), take};
		left -= take;
		skip = 0;
	}
	*count = n;
	return left ? -EINVAL : 0;
}
