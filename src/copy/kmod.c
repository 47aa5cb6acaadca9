/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * kmod.c: see kmod.h. The descriptor is process-wide: opened by whoever needs it
 * first, never closed, closed and forgotten in a forked child (its parent's
 * handles belong to the parent's file). All else is the caller's.
 */
#include "copy/kmod.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memcheck.h"
#include "copy/move.h"
#include "uapi/beeline.h"

#define DEVICE "/dev/beeline"
#define PIECES 8 /* of our side of one copy */

static_assert(sizeof(struct bl_rkey) == sizeof(struct beeline_handle), "a key is a handle");
static_assert(sizeof(struct iovec) == sizeof(struct beeline_iov), "passed as it is");

enum { UNKNOWN = -2, ABSENT = -1 };
static _Atomic int device = UNKNOWN;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

/* The child's own file, at its first use; nothing it does reaches its parent's. */
static void forked(void)
{
	int fd = atomic_load_explicit(&device, memory_order_relaxed);

	if (fd >= 0)
		close(fd);
	atomic_store_explicit(&device, UNKNOWN, memory_order_relaxed);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

static bl_cold int device_open(void)
{
	struct beeline_info info = {0};
	int fd, found = UNKNOWN;

	/* A later interface than ours serves us, too: it only grows. Ours is the first. */
	pthread_once(&watch_once, watch_forks);
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return UNKNOWN; /* another time there may be one */
	if (fd < 0) {
		if (errno != ENOENT)
			bl_info(DEVICE ": %s; the module is not used", strerror(errno));
		fd = ABSENT;
	} else if (ioctl(fd, BEELINE_IOC_INFO, &info) || info.abi < 1 || info.max_iov < PIECES) {
		bl_info(DEVICE " is not what it should be; the module is not used");
		close(fd);
		fd = ABSENT;
	}
	/* Two threads at once: the first to store decides. */
	if (!atomic_compare_exchange_strong_explicit(&device, &found, fd, memory_order_relaxed,
						     memory_order_relaxed)) {
		if (fd >= 0)
			close(fd);
		fd = found;
	}
	return fd;
}

static int device_get(void)
{
	int fd = atomic_load_explicit(&device, memory_order_relaxed);

	return likely(fd != UNKNOWN) ? fd : device_open();
}

bool bl_kmod_there(void)
{
	return device_get() >= 0;
}

/* --- the owner's side ----------------------------------------------------- */

static int lend_one(int fd, const struct iovec *iov, bool write, struct bl_rkey *key)
{
	struct beeline_export e = {
		.addr = (uintptr_t)iov->iov_base,
		.len = iov->iov_len,
		.rights = write ? BEELINE_WRITE : BEELINE_READ,
		.scope = BEELINE_SCOPE_UID,
		.uid = geteuid(),
	};
	int err = ioctl(fd, BEELINE_IOC_EXPORT, &e);

	/* A user without a number in this namespace: the handle alone must do. */
	if (unlikely(err && errno == EINVAL)) {
		e.scope = BEELINE_SCOPE_ANY;
		e.uid = 0;
		err = ioctl(fd, BEELINE_IOC_EXPORT, &e);
	}
	if (unlikely(err))
		return -errno;
	memcpy(key, &e.handle, sizeof *key);
	return 0;
}

bool bl_kmod_register(const struct iovec *iov, size_t n, bool write, struct bl_rkey *key)
{
	int fd = device_get();

	if (fd < 0 || !n || n > BL_RKEYS)
		return false;
	for (size_t i = 0; i < n; i++) {
		int err = lend_one(fd, &iov[i], write, &key[i]);

		if (unlikely(err)) {
			bl_debug(DEVICE ": export: %s", strerror(-err));
			bl_kmod_deregister(key, i);
			return false;
		}
	}
	return true;
}

void bl_kmod_deregister(const struct bl_rkey *key, size_t n)
{
	int fd = device_get();

	for (size_t i = 0; fd >= 0 && i < n; i++) {
		struct beeline_revoke r = {0};

		memcpy(&r.handle, &key[i], sizeof r.handle);
		/* It fails where there is nothing to end: in a forked child. */
		if (unlikely(ioctl(fd, BEELINE_IOC_REVOKE, &r)))
			bl_debug(DEVICE ": revoke: %s", strerror(errno));
	}
}

/* --- the holder's side ------------------------------------------------------ */

/* One range of one of the peer's pieces; ours begins at `off` of the message. */
static int copy_piece(int fd, bool to, const struct bl_rkey *key, const struct iovec *mine,
		      size_t nmine, size_t off, uint64_t theirs, size_t len)
{
	struct beeline_copy c = {
		.flags = BEELINE_COPY_ADDRESS | (to ? BEELINE_COPY_TO : 0),
	};

	memcpy(&c.handle, key, sizeof c.handle);
	while (len) {
		struct iovec local[PIECES];
		size_t n = bl_iov_slice(mine, nmine, off, len, local);

		c.offset = theirs;
		c.len = len;
		c.niov = n == 1 ? 0 : (uint32_t)n;
		c.local = n == 1 ? (uintptr_t)local[0].iov_base : (uintptr_t)local;
		c.copied = 0;
		if (unlikely(ioctl(fd, BEELINE_IOC_COPY, &c))) {
			if (errno != EINTR)
				return -errno;
		} else if (unlikely(c.copied != len)) {
			return -EIO;
		}
		if (unlikely(c.copied > len))
			return -EIO;
		if (!to)
			bl_memcheck_written(local, n, c.copied);
		off += c.copied;
		theirs += c.copied;
		len -= c.copied;
	}
	return 0;
}

int bl_kmod_copy(bool to, const struct bl_rkey *key, const struct iovec *mine, size_t nmine,
		 const struct iovec *theirs, size_t ntheirs, size_t off, size_t len)
{
	int fd = device_get();
	size_t skip = off; /* to where the range begins in the peer's pieces */

	if (fd < 0)
		return -EOPNOTSUPP;
	for (size_t i = 0; i < ntheirs && len; i++) {
		size_t room = theirs[i].iov_len, take;
		int err;

		if (skip >= room) {
			skip -= room;
			continue;
		}
		take = bl_min(room - skip, len);
		/* The address is a number here: whether it lies in what was lent is the
		 * kernel's to say. */
		err = copy_piece(fd, to, &key[i], mine, nmine, off,
				 (uintptr_t)theirs[i].iov_base + skip, take);
		if (unlikely(err)) {
			bl_debug(DEVICE ": copy %s a peer: %s", to ? "to" : "from", strerror(-err));
			return err == -EFAULT ? err : -EOPNOTSUPP;
		}
		skip = 0;
		off += take;
		len -= take;
	}
	return len ? -EFAULT : 0;
}
