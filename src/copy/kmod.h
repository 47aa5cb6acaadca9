/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * kmod.h: one copy by beeline.ko, for processes that may not use process_vm_* on each other (user
 * namespaces, Yama, seccomp). The owner of a buffer registers it: the module gives an rkey that
 * names the memory, which goes along with the message; whoever holds the rkey copies, and needs no
 * other right. The owner deregisters it before the buffer is its application's again: from then on
 * nobody touches the memory.
 *
 * The device is opened at first use, once for the process, and anew in a forked child. Any thread.
 */
#ifndef BL_COPY_KMOD_H
#define BL_COPY_KMOD_H

#include <sys/uio.h>

#include "base/compiler.h"

/* A handle, as it travels; what a peer sent is a number that the kernel checks. */
struct bl_rkey {
	uint64_t w[2];
};
#define BL_RKEYS 8 /* most pieces of a message, and so keys */

/* /dev/beeline is there and may be opened. */
bool bl_kmod_there(void);

/*
 * Lend n pieces to processes of this user, to be read or written; a key for each.
 * True: done. False: nothing is lent (too many, no module, no room in it).
 */
bool bl_kmod_register(const struct iovec *iov, size_t n, bool write, struct bl_rkey *key);
/* When it returns nobody touches them any more. */
void bl_kmod_deregister(const struct bl_rkey *key, size_t n);

/*
 * Copy bytes [off, off+len) of a message between our pieces and a peer's, to the
 * peer or from it; key[i] is what theirs[i] was lent by. 0: all of it.
 * -EOPNOTSUPP: not this way; nothing that was copied counts. -EFAULT: our own
 * memory isn't there.
 */
int bl_kmod_copy(bool to, const struct bl_rkey *key, const struct iovec *mine, size_t nmine,
		 const struct iovec *theirs, size_t ntheirs, size_t off, size_t len);

#endif
