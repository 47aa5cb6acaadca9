/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * liblimic2: the calls of LiMIC2 on beeline.ko, or without it on process_vm_readv().
 *
 * The original put kernel pointers into limic_user and its module believed whatever came back.
 * Here mm and tsk hold 128 bits that mean nothing by themselves:
 *
 * - with the module, the handle of an export. The kernel checks it, and the range.
 * - without, the process, the address of a slot of ours in its memory, and a random number. The
 *   peer reads the slot by process_vm_readv(), for which it needs the same rights as for the
 *   data, and believes the slot: a limic_user that no limic_tx_init() filled in finds no slot
 *   that agrees with it.
 *
 * What was announced is kept in one table for the process, shared by its threads under a mutex;
 * the same range announced again is found there without a system call. The table is memory that
 * a fork wipes (MADV_WIPEONFORK): the child announces its own memory, not what the parent had at
 * the same addresses, and its mutex is free whatever another thread of the parent was doing.
 *
 * Which way a descriptor goes is asked of the descriptor: where it is not the module's, ioctl()
 * says ENOTTY.
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
 * One announced range. The peers of a process without the module read it from outside, at any
 * moment: the nonce is cleared first when a slot ends, and set last when it is filled.
 */
struct slot {
	_Atomic uint64_t nonce; /* 0: free */
	uint64_t va;
	uint64_t len;
	uint64_t fd;
	struct beeline_handle handle; /* zero without the module */
};

#define LOOKUP 65536

/* Zero is its initial state, also the mutex's: a fork brings it back. */
struct table {
	pthread_mutex_t lock;
	uint64_t next;		 /* slots given out so far; the oldest is used anew */
	uint32_t lookup[LOOKUP]; /* by range: a slot that may hold it */
	struct slot slots[LIMIC_MOST];
};

static struct table *table;
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

/* Written page by page as slots are used: what is not used costs address space only. */
static void table_make(void)
{
	struct table *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (t == MAP_FAILED)
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

static void slot_end(struct slot *s)
{
	struct beeline_revoke r = {.handle = s->handle, .flags = BEELINE_REVOKE_NOWAIT};

	atomic_store_explicit(&s->nonce, 0, memory_order_release);
	if (r.handle.w[0] | r.handle.w[1])
		ioctl((int)s->fd, BEELINE_IOC_REVOKE, &r);
}

/* Fills a slot for a range. 0, or -1 with errno. */
static int slot_begin(struct slot *s, int fd, void *buf, size_t len)
{
	struct beeline_export e = {
		.addr = (uintptr_t)buf, .len = len, .rights = BEELINE_READ | BEELINE_WRITE};
	uint64_t nonce;

	if (ioctl(fd, BEELINE_IOC_EXPORT, &e)) {
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
	uint64_t next = t->next % LIMIC_MOST;

	if (slot_is(s, fd, buf, len))
		return s;
	s = &t->slots[next];
	if (atomic_load_explicit(&s->nonce, memory_order_relaxed))
		slot_end(s);
	if (slot_begin(s, fd, buf, len))
		return NULL;
	*at = (uint32_t)next;
	t->next++;
	return s;
}

API size_t limic_tx_init(int fd, void *buf, size_t len, limic_user *lu)
{
	const uintptr_t va = (uintptr_t)buf, page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct table *t = table_get();
	uint64_t pages;
	struct slot *s;

	if (!t)
		return 0;
	if (!len || len > UINTPTR_MAX - va - page) {
		errno = EINVAL;
		return 0;
	}
	pages = (va + len + page - 1) / page - va / page;
	memset(lu, 0, sizeof(*lu));
	lu->nr_pages = pages > INT_MAX ? INT_MAX : (int)pages;
	lu->offset = va & (page - 1);
	lu->length = len;
	lu->va = va;

	pthread_mutex_lock(&t->lock);
	s = slot_of(t, fd, buf, len);
	if (s && (s->handle.w[0] | s->handle.w[1])) {
		memcpy(&lu->mm, &s->handle.w[0], sizeof(lu->mm));
		memcpy(&lu->tsk, &s->handle.w[1], sizeof(lu->tsk));
	} else if (s) {
		token_put(lu, &(struct token){(uintptr_t)s, s->nonce, getpid()});
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

/* By the module. Returns the bytes copied; errno says why they are fewer than asked for. */
static size_t copy_by_module(const struct copying *c)
{
	struct beeline_copy k = {.len = c->len,
				 .offset = c->addr,
				 .local = (uintptr_t)c->buf,
				 .flags = BEELINE_COPY_ADDRESS | (c->to ? BEELINE_COPY_TO : 0)};
	size_t done = 0;

	memcpy(&k.handle.w[0], &c->lu->mm, sizeof(c->lu->mm));
	memcpy(&k.handle.w[1], &c->lu->tsk, sizeof(c->lu->tsk));
	for (;;) {
		int ret = ioctl(c->fd, BEELINE_IOC_COPY, &k);

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

/* What the slot says now, if it is the one that the token was made from. */
static int slot_read(const struct token *t, struct slot *s)
{
	struct iovec l = {s, sizeof(*s)}, r = {(void *)(uintptr_t)t->slot, sizeof(*s)};
	ssize_t n;

	if (t->pid <= 0 || !t->nonce || !t->slot) {
		errno = ENOENT;
		return -1;
	}
	n = process_vm_readv(t->pid, &l, 1, &r, 1, 0);
	if (n < 0 && errno != EFAULT)
		return -1;
	if (n != sizeof(*s) || s->nonce != t->nonce) {
		errno = ENOENT;
		return -1;
	}
	return 0;
}

static size_t copy_by_process_vm(const struct copying *c)
{
	const struct token t = token_get(c->lu);
	struct slot s;
	size_t done = 0;

	if (slot_read(&t, &s))
		return 0;
	if (c->addr < s.va || c->addr - s.va > s.len || c->len > s.len - (c->addr - s.va)) {
		errno = ERANGE;
		return 0;
	}
	/* The kernel moves at most 2 GiB - 4 KiB at a time, and stops where memory ends. */
	while (done < c->len) {
		struct iovec l = {(char *)c->buf + done, c->len - done};
		struct iovec r = {(void *)(uintptr_t)(c->addr + done), c->len - done};
		ssize_t n = c->to ? process_vm_writev(t.pid, &l, 1, &r, 1, 0)
				  : process_vm_readv(t.pid, &l, 1, &r, 1, 0);

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
	return fd >= 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);
}

API void limic_close(int fd)
{
	struct table *t = table_get();

	if (t) {
		pthread_mutex_lock(&t->lock);
		for (uint64_t i = 0; i < t->next && i < LIMIC_MOST; i++)
			if (t->slots[i].nonce && t->slots[i].fd == (uint64_t)fd)
				slot_end(&t->slots[i]);
		pthread_mutex_unlock(&t->lock);
	}
	close(fd);
}
