/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * liblimic2: the calls of LiMIC2 on beeline.ko, or without it on process_vm_readv().
 *
 * The original put kernel pointers into limic_user and its module believed whatever came back. Here
 * mm and tsk hold 128 bits that mean nothing by themselves:
 *
 * - with the module, the handle of an export. The kernel checks it, and the range.
 * - without, the process, the address of a slot of ours in its memory, and a random number. The
 *   peer reads the slot by process_vm_readv(), for which it needs the same rights as for the data,
 *   and believes the slot alone.
 *
 * For a peer that may not open the device nr_pages holds a hint: the process, and the place of its
 * table (see PLACES), where it looks the handle up. A wrong hint finds no slot.
 *
 * A peer remembers the slot and range that it has verified. A later receive from within that range
 * reads slot and data by one system call, the slot first, and looks at it afterwards: if it has
 * changed, what was copied is cleared, and the caller gets an error. Nothing is written to another
 * process before its slot has been read.
 *
 * What was announced is in one table for the process, under a mutex, in memory that a fork wipes
 * (MADV_WIPEONFORK). Which way a descriptor goes is asked of it once (ENOTTY: see plain_fds).
 * docs/notes/headers.md has why this is safe.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "limic.h"
#include "uapi/beeline.h"

#define API __attribute__((visibility("default")))

_Static_assert(sizeof(limic_user) == 48, "limic_user is sent as 48 bytes");
_Static_assert(offsetof(limic_user, va) == 24 && offsetof(limic_user, tsk) == 40,
	       "limic_user as in LiMIC2");

/*
 * One announced range. Peers without the module read it from outside, at any moment: the nonce is
 * cleared first when a slot ends, and set last when it is filled.
 */
struct slot {
	_Atomic uint64_t nonce; /* 0: free */
	uint64_t va;
	uint64_t len;
	uint64_t fd;
	struct beeline_handle handle; /* zero without the module */
	_Atomic uint32_t chain;	      /* next of its bucket, as in table.handles */
	uint32_t unused;
};

#define LOOKUP	65536
#define BUCKETS 131072
/* The layout of what peers read, who may have another version of this library. */
#define LAYOUT 0x32434d494c0002ull

/* An announcement of another process, as it was last verified: by the 128 bits of a limic_user. */
struct seen {
	struct beeline_handle key;
	uint64_t slot; /* address in that process */
	uint64_t va;
	uint64_t len;
	int32_t pid;   /* 0: nothing */
	uint32_t hint; /* 0: a token, no handle */
};

#define SEEN 4096

/*
 * Zero is its initial state, also the mutex's: a fork brings it back. Peers read layout, next,
 * handles and slots.
 */
struct table {
	uint64_t layout;       /* LAYOUT once there is a handle in it */
	_Atomic uint64_t next; /* slots given out so far; the oldest is used anew */
	pthread_mutex_t lock;
	pid_t pid;			   /* ours, once it has been asked for */
	uint32_t lookup[LOOKUP];	   /* by range: a slot that may hold it */
	struct seen seen[SEEN];		   /* of no account to peers */
	_Atomic uint32_t handles[BUCKETS]; /* by handle: 1 + the first slot, or 0 */
	struct slot slots[LIMIC_MOST];
};

/*
 * Where tables lie, so that eight bits say which: drawn by each process, in a part of the address
 * space that programs, their heaps and libraries do not use. A table that gets none of the places
 * lies anywhere, and its announcements bear no hint.
 */
#define PLACES	   256u
#define PLACE_SIZE (16ull << 20)
#define PLACE_BASE 0x200000000000ull
#define PLACE_NONE PLACES
#define PID_BITS   22 /* the kernel's own limit: PID_MAX_LIMIT */

_Static_assert(sizeof(struct table) <= PLACE_SIZE, "a table fits its place");
_Static_assert(PLACES == 1u << (30 - PID_BITS), "place and process make 30 bits");

static struct table *table;
static uint32_t table_place = PLACE_NONE;
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

/* At that address, or, with 0, anywhere. */
static struct table *table_map(uintptr_t at)
{
	/* A wish only: MAP_FIXED_NOREPLACE is not understood by all that come between, such as
	 * ThreadSanitizer, whose processes have no such places. */
	void *p = mmap((void *)at, sizeof(struct table), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (at && (uintptr_t)p != at) {
		munmap(p, sizeof(struct table));
		return NULL;
	}
	return p;
}

/* Written page by page as slots are used: what is not used costs address space only. */
static void table_make(void)
{
	struct table *t = NULL;
	uint16_t draw;

	for (int i = 0; i < 4 && !t; i++) {
		if (getrandom(&draw, sizeof(draw), 0) != sizeof(draw))
			break;
		table_place = draw % PLACES;
		t = table_map(PLACE_BASE + table_place * PLACE_SIZE);
	}
	if (!t) {
		table_place = PLACE_NONE;
		t = table_map(0);
	}
	if (!t)
		return;
	if (madvise(t, sizeof(*t), MADV_WIPEONFORK)) {
		munmap(t, sizeof(*t));
		return;
	}
	table = t;
}

static struct table *table_get(void)
{
	pthread_once(&table_once, table_make);
	if (!table)
		errno = ENOMEM;
	return table;
}

/* ---- descriptors that aren't the module's ---- */

/*
 * A bit each: 1 is known not to be the module's. A fork leaves both the bits and the descriptors
 * as they were. limic_open() and limic_close() put them right.
 */
#define PLAIN_MOST 1024
static _Atomic uint64_t plain_fds[PLAIN_MOST / 64];

static bool is_plain(int fd)
{
	return fd >= 0 && fd < PLAIN_MOST &&
	       atomic_load_explicit(&plain_fds[fd / 64], memory_order_relaxed) >> fd % 64 & 1;
}

static void set_plain(int fd, bool plain)
{
	uint64_t bit;

	if (fd < 0 || fd >= PLAIN_MOST)
		return;
	bit = 1ull << fd % 64;
	/* relaxed: a thread that doesn't see it yet asks once more */
	if (plain)
		atomic_fetch_or_explicit(&plain_fds[fd / 64], bit, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&plain_fds[fd / 64], ~bit, memory_order_relaxed);
}

/* An ioctl() of the module's, or ENOTTY. */
static int ask_module(int fd, unsigned long request, void *arg)
{
	int ret;

	if (is_plain(fd)) {
		errno = ENOTTY;
		return -1;
	}
	ret = ioctl(fd, request, arg);
	if (ret && errno == ENOTTY)
		set_plain(fd, true);
	return ret;
}

/* ---- announcing ---- */

/* The token of a process without the module: slot address and nonce, process and nonce. */
#define ADDR_BITS 48
#define LOW_NONCE 0xffffffffull

struct token {
	uint64_t slot; /* address in the announcing process */
	uint64_t nonce;
	pid_t pid;
};

static void token_put(limic_user *lu, const struct token *t)
{
	uint64_t mm = t->slot | (t->nonce >> 32) << ADDR_BITS;
	uint64_t tsk = (uint64_t)(uint32_t)t->pid << 32 | (t->nonce & LOW_NONCE);

	memcpy(&lu->mm, &mm, sizeof(mm));
	memcpy(&lu->tsk, &tsk, sizeof(tsk));
}

static struct token token_get(const limic_user *lu)
{
	uint64_t mm, tsk;

	memcpy(&mm, &lu->mm, sizeof(mm));
	memcpy(&tsk, &lu->tsk, sizeof(tsk));
	return (struct token){
		.slot = mm & ((1ull << ADDR_BITS) - 1),
		.nonce = (mm >> ADDR_BITS) << 32 | (tsk & LOW_NONCE),
		.pid = (pid_t)(tsk >> 32),
	};
}

/* In nr_pages. Numbers of pages stay below it. */
#define HINT 0x40000000u

/* 0: none can be given. */
static uint32_t hint_make(pid_t pid)
{
	if (table_place == PLACE_NONE || (uint32_t)pid >> PID_BITS)
		return 0;
	return HINT | table_place << PID_BITS | (uint32_t)pid;
}

static pid_t hint_pid(uint32_t hint)
{
	return (pid_t)(hint & ((1u << PID_BITS) - 1));
}

static uint64_t hint_table(uint32_t hint)
{
	return PLACE_BASE + (hint >> PID_BITS) % PLACES * PLACE_SIZE;
}

static bool has_handle(const struct slot *s)
{
	return s->handle.w[0] | s->handle.w[1];
}

static size_t bucket_of(const struct beeline_handle *h)
{
	return h->w[0] % BUCKETS; /* random bits, all of them */
}

/* A peer may be on its way through the chain: a slot that leaves it still leads on. */
static void chain_remove(struct table *t, const struct slot *s)
{
	const uint32_t which = (uint32_t)(s - t->slots) + 1;
	_Atomic uint32_t *at = &t->handles[bucket_of(&s->handle)];

	while (*at && *at != which)
		at = &t->slots[*at - 1].chain;
	if (*at)
		*at = s->chain;
}

static void chain_add(struct table *t, struct slot *s)
{
	_Atomic uint32_t *first = &t->handles[bucket_of(&s->handle)];

	t->layout = LAYOUT;
	s->chain = *first;
	*first = (uint32_t)(s - t->slots) + 1;
}

static void slot_end(struct table *t, struct slot *s)
{
	struct beeline_revoke r = {.handle = s->handle, .flags = BEELINE_REVOKE_NOWAIT};

	atomic_store_explicit(&s->nonce, 0, memory_order_release);
	if (has_handle(s)) {
		chain_remove(t, s);
		ioctl((int)s->fd, BEELINE_IOC_REVOKE, &r);
	}
}

/* Fills a slot for a range. 0, or -1 with errno. */
static int slot_begin(struct table *t, struct slot *s, int fd, void *buf, size_t len)
{
	struct beeline_export e = {
		.addr = (uintptr_t)buf, .len = len, .rights = BEELINE_READ | BEELINE_WRITE};
	uint64_t nonce;

	if (ask_module(fd, BEELINE_IOC_EXPORT, &e)) {
		if (errno != ENOTTY)
			return -1;
		e.handle = (struct beeline_handle){0};
	}
	do {
		if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
			return -1;
		nonce &= (1ull << (32 + 64 - ADDR_BITS)) - 1;
	} while (!nonce);
	s->va = (uintptr_t)buf;
	s->len = len;
	s->fd = (uint64_t)fd;
	s->handle = e.handle;
	atomic_store_explicit(&s->nonce, nonce, memory_order_release);
	if (has_handle(s))
		chain_add(t, s);
	return 0;
}

static bool slot_is(const struct slot *s, int fd, const void *buf, size_t len)
{
	return atomic_load_explicit(&s->nonce, memory_order_relaxed) && s->va == (uintptr_t)buf &&
	       s->len == len && s->fd == (uint64_t)fd;
}

static uint32_t *lookup_of(struct table *t, int fd, const void *buf, size_t len)
{
	uint64_t h = ((uintptr_t)buf ^ (uint64_t)len << 20 ^ (uint64_t)fd) * 0x9E3779B97F4A7C15ull;

	return &t->lookup[h >> 32 & (LOOKUP - 1)];
}

/* The slot of a range, found or filled. Called with the lock held. */
static struct slot *slot_of(struct table *t, int fd, void *buf, size_t len)
{
	uint32_t *at = lookup_of(t, fd, buf, len);
	struct slot *s = &t->slots[*at];
	uint64_t next = t->next;

	if (slot_is(s, fd, buf, len))
		return s;
	s = &t->slots[next % LIMIC_MOST];
	if (atomic_load_explicit(&s->nonce, memory_order_relaxed))
		slot_end(t, s);
	/* Before the slot changes chains: who follows it into the wrong one sees that. */
	t->next = next + 1;
	if (slot_begin(t, s, fd, buf, len)) {
		t->next = next;
		return NULL;
	}
	*at = (uint32_t)(next % LIMIC_MOST);
	return s;
}

/* With the lock held. getpid() is a system call. */
static pid_t our_pid(struct table *t)
{
	if (!t->pid)
		t->pid = getpid();
	return t->pid;
}

API size_t limic_tx_init(int fd, void *buf, size_t len, limic_user *lu)
{
	const uintptr_t va = (uintptr_t)buf, page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct table *t = table_get();
	uint64_t pages;
	struct slot *s;
	uint32_t hint;

	if (!t)
		return 0;
	if (!len || len > UINTPTR_MAX - va - page) {
		errno = EINVAL;
		return 0;
	}
	pages = (va + len + page - 1) / page - va / page;
	memset(lu, 0, sizeof(*lu));
	lu->nr_pages = (int)(pages < HINT ? pages : HINT - 1);
	lu->offset = va & (page - 1);
	lu->length = len;
	lu->va = va;

	pthread_mutex_lock(&t->lock);
	s = slot_of(t, fd, buf, len);
	if (s && has_handle(s)) {
		memcpy(&lu->mm, &s->handle.w[0], sizeof(lu->mm));
		memcpy(&lu->tsk, &s->handle.w[1], sizeof(lu->tsk));
		hint = hint_make(our_pid(t));
		if (hint)
			lu->nr_pages = (int)hint;
	} else if (s) {
		token_put(lu, &(struct token){(uintptr_t)s, s->nonce, our_pid(t)});
	}
	pthread_mutex_unlock(&t->lock);
	return s ? len : 0;
}

/* ---- copying ---- */

struct copying {
	int fd;
	void *buf;
	size_t len;
	uint64_t addr; /* in the announcing process */
	bool to;
	const limic_user *lu;
};

static struct beeline_handle handle_get(const limic_user *lu)
{
	struct beeline_handle h;

	memcpy(&h.w[0], &lu->mm, sizeof(lu->mm));
	memcpy(&h.w[1], &lu->tsk, sizeof(lu->tsk));
	return h;
}

/* By the module. Returns the bytes copied; errno says why they are fewer than asked for. */
static size_t copy_by_module(const struct copying *c)
{
	struct beeline_copy k = {.handle = handle_get(c->lu),
				 .len = c->len,
				 .offset = c->addr,
				 .local = (uintptr_t)c->buf,
				 .flags = BEELINE_COPY_ADDRESS | (c->to ? BEELINE_COPY_TO : 0)};
	size_t done = 0;

	for (;;) {
		int ret = ask_module(c->fd, BEELINE_IOC_COPY, &k);

		if (!ret)
			return done + k.copied;
		if (errno == ENOTTY)
			return 0;
		done += k.copied;
		if (errno != EINTR)
			break;
		k.offset += k.copied;
		k.local += k.copied;
		k.len -= k.copied;
		k.copied = 0;
	}
	/* process_vm_readv() has one word for both sides' memory: so has this library. */
	if (errno == ENXIO)
		errno = EFAULT;
	return done;
}

static int not_there(void)
{
	errno = ENOENT;
	return -1;
}

/* Something of a table in another process. Not there: no announcement, ENOENT. */
static int peek(pid_t pid, uint64_t at, void *to, size_t len)
{
	struct iovec l = {to, len}, r = {(void *)(uintptr_t)at, len};
	ssize_t n = process_vm_readv(pid, &l, 1, &r, 1, 0);

	if (n < 0 && errno != EFAULT)
		return -1;
	return n == (ssize_t)len ? 0 : not_there();
}

/* The slot that a token was made from. 0, or -1 with errno. */
static int slot_by_token(const struct token *t, struct slot *s, struct seen *found)
{
	if (t->pid <= 0 || !t->nonce || !t->slot)
		return not_there();
	if (peek(t->pid, t->slot, s, sizeof(*s)))
		return -1;
	if (s->nonce != t->nonce)
		return not_there();
	found->pid = t->pid;
	found->slot = t->slot;
	return 0;
}

/* Chains have two or three slots; whoever shows us an endless one is no table. */
#define CHAIN_MOST 64
#define TRIES	   16

/*
 * The slot of a handle, in a table at `at` of another process. Its owner may be announcing at
 * the same time: a search that fails while it does is repeated.
 */
static int slot_by_handle(const struct beeline_handle *h, pid_t pid, uint64_t at, struct slot *s,
			  struct seen *found)
{
	uint64_t before = 0, head[2]; /* layout, next */
	uint32_t which;

	_Static_assert(!offsetof(struct table, layout) && offsetof(struct table, next) == 8,
		       "read as one");
	for (int i = 0; i < TRIES; i++) {
		if (peek(pid, at, head, sizeof(head)))
			return -1;
		if (head[0] != LAYOUT || (i && head[1] == before))
			break;
		before = head[1];
		if (peek(pid, at + offsetof(struct table, handles) + bucket_of(h) * sizeof(which),
			 &which, sizeof(which)))
			return -1;
		for (int n = 0; n < CHAIN_MOST && which && which <= LIMIC_MOST; n++) {
			found->pid = pid;
			found->slot = at + offsetof(struct table, slots[which - 1]);
			if (peek(pid, found->slot, s, sizeof(*s)))
				return -1;
			if (s->nonce && s->handle.w[0] == h->w[0] && s->handle.w[1] == h->w[1])
				return 0;
			which = s->chain;
		}
	}
	return not_there();
}

/* What was last verified of it; pid 0: nothing. */
static struct seen seen_get(const struct beeline_handle *h)
{
	struct table *t = table_get();
	struct seen seen = {.pid = 0};

	if (!t)
		return seen;
	pthread_mutex_lock(&t->lock);
	if (!memcmp(&t->seen[h->w[0] % SEEN].key, h, sizeof(*h)))
		seen = t->seen[h->w[0] % SEEN];
	pthread_mutex_unlock(&t->lock);
	return seen;
}

static void seen_put(const struct seen *seen)
{
	struct table *t = table_get();

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->seen[seen->key.w[0] % SEEN] = *seen;
	pthread_mutex_unlock(&t->lock);
}

/* But for where it was found. */
static void forget(struct seen *seen)
{
	seen->pid = 0;
	seen_put(seen);
}

/* Verify a limic_user, with what was known of it so far: what is known now. 0, or -1 with errno. */
static int verify(const limic_user *lu, struct seen *seen)
{
	const struct beeline_handle h = handle_get(lu);
	const struct token t = token_get(lu);
	struct seen found = {.key = h, .hint = seen->hint};
	struct slot s;
	int ret;

	if (lu->nr_pages > 0 && lu->nr_pages & HINT)
		found.hint = (uint32_t)lu->nr_pages;
	if (!found.hint)
		ret = slot_by_token(&t, &s, &found);
	else if (!hint_pid(found.hint))
		ret = not_there();
	else
		ret = slot_by_handle(&h, hint_pid(found.hint), hint_table(found.hint), &s, &found);
	if (ret)
		return -1;
	found.va = s.va;
	found.len = s.len;
	*seen = found;
	seen_put(seen);
	return 0;
}

/* The slot still is what was verified, and of the same range. */
static bool still(const struct seen *seen, const struct slot *s, const limic_user *lu)
{
	const uint64_t nonce = atomic_load_explicit(&s->nonce, memory_order_relaxed);

	if (s->va != seen->va || s->len != seen->len)
		return false;
	if (seen->hint)
		return nonce && !memcmp(&s->handle, &seen->key, sizeof(s->handle));
	return nonce == token_get(lu).nonce;
}

static bool is_within(const struct copying *c, const struct seen *seen)
{
	return c->addr >= seen->va && c->addr - seen->va <= seen->len &&
	       c->len <= seen->len - (c->addr - seen->va);
}

/* By what was verified before: slot and data in one call, which a read can do. -1: it is to be
 * verified anew, and nothing of what was copied is left. Else the bytes copied. */
static ssize_t read_verified(const struct copying *c, const struct seen *seen)
{
	struct slot s;
	struct iovec l[2] = {{&s, sizeof(s)}, {c->buf, c->len}};
	struct iovec r[2] = {{(void *)(uintptr_t)seen->slot, sizeof(s)},
			     {(void *)(uintptr_t)c->addr, c->len}};
	ssize_t n = process_vm_readv(seen->pid, l, 2, r, 2, 0);

	if (n < (ssize_t)sizeof(s))
		return -1;
	n -= (ssize_t)sizeof(s);
	if (still(seen, &s, c->lu))
		return n;
	memset(c->buf, 0, (size_t)n);
	return -1;
}

static size_t copy_by_process_vm(const struct copying *c)
{
	const struct beeline_handle h = handle_get(c->lu);
	struct seen seen = seen_get(&h);
	ssize_t n = -1;
	size_t done = 0;

	if (seen.pid && !c->to && is_within(c, &seen)) {
		n = read_verified(c, &seen);
		if (n < 0)
			forget(&seen);
	}
	if (n < 0) {
		if (verify(c->lu, &seen))
			return 0;
		if (!is_within(c, &seen)) {
			errno = ERANGE;
			return 0;
		}
	} else {
		done = (size_t)n;
	}
	/* The kernel moves at most 2 GiB - 4 KiB at a time, and stops where memory ends. */
	while (done < c->len) {
		struct iovec l = {(char *)c->buf + done, c->len - done};
		struct iovec r = {(void *)(uintptr_t)(c->addr + done), c->len - done};

		n = c->to ? process_vm_writev(seen.pid, &l, 1, &r, 1, 0)
			  : process_vm_readv(seen.pid, &l, 1, &r, 1, 0);
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static size_t copy(int fd, void *buf, size_t len, limic_user *lu, bool to)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct copying c = {.fd = fd,
			    .buf = buf,
			    .len = len < lu->length ? len : lu->length,
			    .addr = (lu->va & ~(page - 1)) + lu->offset,
			    .to = to,
			    .lu = lu};
	size_t n;

	if (!c.len) {
		errno = EINVAL;
		return 0;
	}
	errno = 0;
	n = copy_by_module(&c);
	/* Not the module's descriptor, or not its handle: the announcer may be without it. */
	if (!n && (errno == ENOTTY || errno == ENOENT)) {
		bool unknown = errno == ENOENT;

		n = copy_by_process_vm(&c);
		/* A handle, read as a process's number, names anybody. */
		if (!n && unknown && (errno == ESRCH || errno == EPERM))
			errno = ENOENT;
	}
	if (n)
		lu->length = n;
	return n;
}

API size_t limic_rx_comp(int fd, void *buf, size_t len, limic_user *lu)
{
	return copy(fd, buf, len, lu, false);
}

API size_t limic_tx_comp(int fd, void *buf, size_t len, limic_user *lu)
{
	return copy(fd, buf, len, lu, true);
}

/* ---- descriptors ---- */

API int limic_open(void)
{
	int fd;

	if (!table_get())
		return -1;
	fd = open("/dev/beeline", O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		set_plain(fd, false);
		return fd;
	}
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	set_plain(fd, true);
	return fd;
}

API void limic_close(int fd)
{
	struct table *t = table_get();

	if (t) {
		pthread_mutex_lock(&t->lock);
		for (uint64_t i = 0; i < t->next && i < LIMIC_MOST; i++)
			if (t->slots[i].nonce && t->slots[i].fd == (uint64_t)fd)
				slot_end(t, &t->slots[i]);
		pthread_mutex_unlock(&t->lock);
	}
	set_plain(fd, false); /* before another open() may return its number */
	close(fd);
}
