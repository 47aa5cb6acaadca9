// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Copies between an export and the memory of the caller, in the caller's context.
 *
 * A copy is a sequence of windows. A window finds the export by its handle, keeps the
 * exporter's memory alive, takes hold of up to BL_WINDOW_PAGES of its pages, copies, and lets
 * everything go. Inside a window the caller's own memory is touched with page faults disabled:
 * a caller cannot stretch a window by having its page faults answered late, so a revoke, or the
 * exit of the exporter, waits for a bounded amount of copying and for nothing of the caller's.
 * When a page of the caller's is missing the window ends short, the page is faulted in outside,
 * and the next window looks the handle up afresh.
 *
 * Nothing here is shared between copies but the counts in the export and in its mm.
 */
#include <linux/fault-inject-usercopy.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat/compat.h"
#include "internal.h"

/* Pages whose addresses fit the stack: a copy of up to 124 KiB needs no more. */
#define BL_FEW_PAGES 32u
/* Segments known at a time; they are read between windows. */
#define BL_SEGMENTS 16u
/* Windows in a row that may fail to copy a byte although the fault-in said that it could. */
#define BL_STALLS 8u

/* The caller's side: where the next byte goes or comes from. */
struct bl_local {
	char __user *addr; /* what is left of the current segment; access_ok() holds */
	u64 count;
	bool to;
	bool missing;	       /* the window met a page that is not there */
	unsigned int at, have; /* of seg[], those not yet begun */
	u32 unread;	       /* segments still in user memory */
	const struct beeline_iov __user *next;
	struct beeline_iov seg[BL_SEGMENTS];
};

struct bl_copying {
	struct bl_file *file;
	const struct beeline_copy *req;
	u64 done;
	bool to;
	unsigned int room; /* of pages[] */
	struct page **pages;
	struct bl_local local;
	struct page *few[BL_FEW_PAGES];
};

/* ---- the caller's memory ---- */

static int bl_local_begin(struct bl_local *l, u64 addr, u64 len)
{
	if (!access_ok(u64_to_user_ptr(addr), len))
		return -EFAULT;
	l->addr = u64_to_user_ptr(addr);
	l->count = len;
	return 0;
}

static int bl_local_init(struct bl_local *l, const struct beeline_copy *c, bool to)
{
	l->to = to;
	l->at = 0;
	l->have = 0;
	l->unread = c->niov;
	if (!c->niov)
		return bl_local_begin(l, c->local, c->len);
	if (c->niov > BL_MAX_IOV)
		return -EINVAL;
	l->next = u64_to_user_ptr(c->local);
	l->count = 0;
	return 0;
}

/*
 * Goes on to the next segment that holds bytes, of those already read. False if there is none, or
 * (at < have) one that lies outside of user space.
 */
static bool bl_local_step(struct bl_local *l)
{
	while (l->at < l->have) {
		if (bl_local_begin(l, l->seg[l->at].addr, l->seg[l->at].len))
			return false;
		l->at++;
		if (l->count)
			return true;
	}
	return false;
}

/* Between windows: sees to it that the current segment holds bytes. -EINVAL: there are no more. */
static int bl_local_advance(struct bl_local *l)
{
	if (l->count)
		return 0;
	while (!bl_local_step(l)) {
		unsigned int n = min(l->unread, BL_SEGMENTS);

		if (l->at < l->have)
			return -EFAULT;
		if (!n)
			return -EINVAL;
		l->at = 0;
		l->have = 0;
		if (copy_from_user(l->seg, l->next, n * sizeof(l->seg[0])))
			return -EFAULT;
		l->have = n;
		l->unread -= n;
		l->next += n;
	}
	return 0;
}

/*
 * Inside a window: n bytes between a page and the caller; returns those copied.
 *
 * raw_copy_*_user() and not an iov_iter: this runs once for each page, and all that the latter
 * checks is known here. access_ok() held when the segment began, and user space has no end that
 * moves; the other side is within a page that the window holds, which is no slab object.
 */
static __always_inline size_t bl_local_copy(struct bl_local *l, struct page *page, size_t offset,
					    size_t n, bool to)
{
	size_t missed;
	char *at;

	if (unlikely(n > l->count))
		n = l->count;
	if (should_fail_usercopy())
		return 0;
	at = kmap_local_page(page);
	if (to)
		missed = raw_copy_from_user(at + offset, l->addr, n);
	else
		missed = raw_copy_to_user(l->addr, at + offset, n);
	kunmap_local(at);
	n -= missed;
	l->addr += n;
	l->count -= n;
	return n;
}

/*
 * Goes on where bl_local_copy() ended early: with the next segment, unless a page of the
 * caller's is missing or the known segments are used up. Returns the bytes copied in addition.
 */
static noinline size_t bl_local_copy_rest(struct bl_local *l, struct page *page, size_t offset,
					  size_t n, bool to)
{
	size_t done = 0;

	while (done < n) {
		l->missing = l->count;
		if (l->missing || !bl_local_step(l))
			break;
		done += bl_local_copy(l, page, offset + done, n - done, to);
	}
	return done;
}

/*
 * Makes a piece of one segment present, as far as it can be; false if none of it can. Without a
 * change to what it holds: fault_in_writeable() stores zeros, and a copy may end before it gets
 * there. What serves instead resolves faults without taking them, and so does not grow the stack;
 * a load does. Not before it, since a load maps the zero page, and the huge one where it can. How
 * much was had is not asked for: some kernels' fault_in_safe_writeable() reports it wrong.
 */
static bool bl_fault_in(char __user *addr, size_t n, bool to)
{
	if (to)
		return fault_in_readable(addr, n) < n;
	if (likely(fault_in_safe_writeable(addr, n) < n))
		return true;
	return !fault_in_readable(addr, 1) && fault_in_safe_writeable(addr, n) < n;
}

/*
 * Between windows: makes the caller's next n bytes present, over the segments that are known.
 * -EFAULT if the first of them cannot be had.
 */
static int bl_local_fault_in(struct bl_local *l, u64 n)
{
	u64 want = min(n, l->count);
	unsigned int i;

	if (!bl_fault_in(l->addr, want, l->to))
		return -EFAULT;
	for (i = l->at; i < l->have; i++) {
		char __user *addr = u64_to_user_ptr(l->seg[i].addr);

		n -= want;
		want = min(n, l->seg[i].len);
		if (!want)
			continue;
		if (!access_ok(addr, want) || !bl_fault_in(addr, want, l->to))
			break;
	}
	return 0;
}

/* The bytes that the known segments can take: none that a window holds pages for in vain. */
static u64 bl_local_known(const struct bl_local *l)
{
	u64 n = l->count;
	unsigned int i;

	for (i = l->at; i < l->have; i++)
		if (check_add_overflow(n, l->seg[i].len, &n))
			return U64_MAX;
	return n;
}

/* ---- the exporter's memory ---- */

/*
 * To write, pages are pinned and dirtied (Documentation/core-api/pin_user_pages.rst, case 5). To
 * read them with the CPU a reference does; a pin would break the sharing of pages that a fork
 * or KSM left shared.
 */
static long bl_pages_get(struct mm_struct *mm, unsigned long addr, unsigned long n, bool to,
			 struct page **pages)
{
	int locked = 1;
	long got;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	if (to)
		got = bl_compat_pin_remote(mm, addr, n, FOLL_WRITE | BL_COMPAT_INTERRUPTIBLE, pages,
					   &locked);
	else
		got = bl_compat_get_remote(mm, addr, n, BL_COMPAT_INTERRUPTIBLE, pages, &locked);
	if (locked)
		mmap_read_unlock(mm);

	/* Out of range of a mapping is EFAULT there; here that is the caller's own memory. */
	if (got == -EFAULT || !got)
		return -ENXIO;
	return got;
}

/* How many of pages[0..n) are of the same folio as the first and can be let go as one. */
static unsigned long bl_pages_of_folio(struct page **pages, unsigned long n)
{
	struct folio *folio = page_folio(pages[0]);
	unsigned long k = 1;

	if (folio_test_large(folio) && !folio_is_zone_device(folio))
		while (k < n && page_folio(pages[k]) == folio)
			k++;
	return k;
}

/*
 * What a get took, put_page() gives back: of a page of persistent memory (fsdax) someone waits
 * for the last reference but one, and put_page() wakes him while folio_put() does not. Other
 * pages of a large folio go in one step, where put_page() is folio_put() and nothing else. Pins
 * in both directions would do as well, but see bl_pages_get(), and each is counted twice more.
 */
static void bl_pages_put(struct page **pages, unsigned long n, bool to)
{
	unsigned long k;

	if (to) {
		unpin_user_pages_dirty_lock(pages, n, true);
		return;
	}
	for (; n; pages += k, n -= k) {
		k = bl_pages_of_folio(pages, n);
		if (k == 1)
			put_page(pages[0]);
		else
			folio_put_refs(page_folio(pages[0]), k);
	}
}

/* ---- a window ---- */

/*
 * Once for each direction, as every instruction of the loop counts once for each page. Page by
 * page also in a large folio: the kernel's copy functions would do the same inside.
 */
static __always_inline u64 bl_window_copy_way(struct bl_local *l, struct page **pages,
					      unsigned long offset, u64 len, bool to)
{
	u64 left = len;

	while (left) {
		struct page *page = *pages++;
		size_t want = PAGE_SIZE - offset, got;

		if (want > left)
			want = left;
		got = bl_local_copy(l, page, offset, want, to);
		if (unlikely(got < want))
			got += bl_local_copy_rest(l, page, offset + got, want - got, to);
		left -= got;
		if (unlikely(got < want))
			break;
		offset = 0;
	}
	return len - left;
}

static u64 bl_window_copy(struct bl_local *l, struct page **pages, unsigned long offset, u64 len)
{
	u64 done;

	pagefault_disable();
	if (l->to)
		done = bl_window_copy_way(l, pages, offset, len, true);
	else
		done = bl_window_copy_way(l, pages, offset, len, false);
	pagefault_enable();
	return done;
}

/* Where in the exporter's memory the request begins, if it lies in the export. */
static int bl_range(const struct bl_export *ex, const struct beeline_copy *c, unsigned long *addr)
{
	u64 offset = c->offset;

	if (!(ex->rights & (c->flags & BEELINE_COPY_TO ? BEELINE_WRITE : BEELINE_READ)))
		return -EACCES;
	if (c->flags & BEELINE_COPY_ADDRESS) {
		if (offset < ex->addr)
			return -ERANGE;
		offset -= ex->addr;
	}
	if (offset > ex->len || c->len > ex->len - offset)
		return -ERANGE;
	*addr = ex->addr + offset;
	return 0;
}

/* Returns the bytes copied, less than asked for if the window ended early, or an error. */
static s64 bl_window(struct bl_copying *s)
{
	const struct beeline_copy *c = s->req;
	struct bl_export *ex = bl_export_get(s->file, &c->handle);
	unsigned long addr, offset;
	struct mm_struct *mm;
	u64 len;
	s64 ret;
	long n;

	if (IS_ERR(ex))
		return PTR_ERR(ex);
	ret = bl_range(ex, c, &addr);
	if (ret)
		goto put_export;

	mm = ex->mm;
	if (!mmget_not_zero(mm)) {
		ret = -ESRCH;
		goto put_export;
	}
	if (!c->len)
		goto put_mm;
	addr += s->done;
	offset = offset_in_page(addr);
	len = min_t(u64, c->len - s->done, s->room * PAGE_SIZE - offset);
	len = min(len, bl_local_known(&s->local));
	n = bl_pages_get(mm, addr - offset, DIV_ROUND_UP(offset + len, PAGE_SIZE), s->to, s->pages);
	if (n < 0) {
		ret = n;
		goto put_mm;
	}
	len = min_t(u64, len, n * PAGE_SIZE - offset);
	ret = bl_window_copy(&s->local, s->pages, offset, len);
	bl_pages_put(s->pages, n, s->to);
put_mm:
	/* The export first: the last mmput() tears an address space down, which takes its time. */
	bl_export_put(ex);
	mmput(mm);
	return ret;
put_export:
	bl_export_put(ex);
	return ret;
}

/* ---- a copy ---- */

/* Room for as many pages as a window may have; without memory for it, small windows serve. */
static void bl_copying_room(struct bl_copying *s)
{
	s->pages = s->few;
	s->room = BL_FEW_PAGES;
	if (s->req->len <= (BL_FEW_PAGES - 1) * PAGE_SIZE)
		return;
	s->pages = kmalloc_array(BL_WINDOW_PAGES, sizeof(*s->pages), GFP_KERNEL | __GFP_NOWARN);
	if (s->pages)
		s->room = BL_WINDOW_PAGES;
	else
		s->pages = s->few;
}

/*
 * A window ends early when its pages are used up, when the segments it knows are, when the
 * exporter's memory ends (the next one says how), or when a page of the caller's is missing.
 * Where one was missing, more will be: from then on pages are faulted in ahead of each window.
 * That nothing can be faulted in is an error only where the window before stopped at it.
 */
static int bl_copy_windows(struct bl_copying *s)
{
	const u64 len = s->req->len;
	unsigned int stalls = 0;
	bool cold = false;

	for (;;) {
		s64 got;
		int ret;

		if (len) {
			ret = bl_local_advance(&s->local);
			if (ret)
				return ret;
		}
		if (cold) {
			ret = bl_local_fault_in(&s->local,
						min(len - s->done, BL_WINDOW_PAGES * PAGE_SIZE));
			if (ret && s->local.missing)
				return ret;
		}
		s->local.missing = false;
		got = bl_window(s);
		if (got < 0)
			return got;
		s->done += got;
		if (s->done == len)
			return 0;
		if (signal_pending(current) && (s->done || fatal_signal_pending(current)))
			return -EINTR;
		cond_resched();
		stalls = got ? 0 : stalls + 1;
		if (s->local.missing) {
			bl_count(s->file, BL_FAULTS, 1);
			cold = true;
			if (stalls == BL_STALLS)
				return -EFAULT;
		}
	}
}

int bl_copy(struct bl_file *f, struct beeline_copy *c)
{
	struct bl_copying s;
	int ret;

	c->copied = 0;
	if (c->reserved || (c->flags & ~(BEELINE_COPY_TO | BEELINE_COPY_ADDRESS)))
		return -EINVAL;
	s.file = f;
	s.req = c;
	s.done = 0;
	s.to = c->flags & BEELINE_COPY_TO;
	bl_copying_room(&s);
	ret = bl_local_init(&s.local, c, s.to);
	if (!ret)
		ret = bl_copy_windows(&s);
	if (s.pages != s.few)
		kfree(s.pages);

	c->copied = s.done;
	bl_count(f, s.to ? BL_TO : BL_FROM, 1);
	bl_count(f, s.to ? BL_TO_BYTES : BL_FROM_BYTES, s.done);
	if (ret)
		bl_count(f, BL_FAILED, 1);
	return ret;
}
