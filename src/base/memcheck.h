/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * memcheck.h: valgrind's memcheck follows what its own process writes, and so takes for
 * uninitialised what another process, or beeline.ko, has written into our memory. It is told here.
 * Where valgrind's headers were not there at build time this is nothing. Otherwise it is a few
 * instructions that do nothing outside of valgrind: for long messages, not for short ones, which
 * we copy ourselves. No state; any thread.
 */
#ifndef BL_BASE_MEMCHECK_H
#define BL_BASE_MEMCHECK_H

#include <sys/uio.h>

#include "base/compiler.h"

#ifdef BL_MEMCHECK
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND			       0
#define VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(p, n) ((void)(p), (void)(n))
#endif

/* The first len bytes of these buffers were written by another. What is no memory stays none. */
static inline void bl_memcheck_written(const struct iovec *iov, size_t niov, size_t len)
{
	if (likely(!RUNNING_ON_VALGRIND))
		return;
	for (size_t i = 0; i < niov && len; i++) {
		size_t n = bl_min(iov[i].iov_len, len);

		VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(iov[i].iov_base, n);
		len -= n;
	}
}

/* Others may write into this from now on, and we shall not be told when. Memcheck goes through it
 * byte by byte: not through a whole address space, which some libraries register. */
#define BL_MEMCHECK_MOST ((size_t)1 << 30)

static inline void bl_memcheck_shared(const struct iovec *iov, size_t niov)
{
	for (size_t i = 0; i < niov; i++)
		if (iov[i].iov_len <= BL_MEMCHECK_MOST)
			bl_memcheck_written(&iov[i], 1, iov[i].iov_len);
}

#endif
