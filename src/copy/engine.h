/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * engine.h: one copy between two address spaces, and what it costs here.
 *
 * An engine moves a range between this process's buffers and a peer's. It
 * belongs to a pair of processes: whether it works is found out by using it,
 * and a refusal is remembered for that pair alone.
 */
#ifndef BL_COPY_ENGINE_H
#define BL_COPY_ENGINE_H

#include <sys/types.h>
#include <sys/uio.h>

#include "base/compiler.h"

enum bl_copy_way {
	BL_COPY_SELF,	/* the peer is this process: memcpy */
	BL_COPY_VM,	/* process_vm_readv, process_vm_writev */
	BL_COPY_NOTHING /* the kernel refuses: the caller takes two copies */
};

/* How this process reaches a peer's memory. Private to one endpoint. */
struct bl_copy_pair {
	pid_t pid; /* as this process's PID namespace numbers the peer */
	enum bl_copy_way pull;
	enum bl_copy_way push;
	int pull_why, push_why; /* BL_COPY_NOTHING: the errno that says why */
};

/* pid 0: the peer is invisible from here, nothing can be copied directly. */
void bl_copy_pair_init(struct bl_copy_pair *pair, pid_t pid);

/*
 * Copy bytes [off, off+len) of the message: from the peer's buffers into ours
 * (pull) or from ours into the peer's (push). Both descriptions cover the range.
 * 0: all of it. -EOPNOTSUPP: not permitted, not any more or not at all; nothing
 * that was copied counts, another way must be taken. -ESRCH: the peer is gone.
 * -EFAULT: a buffer isn't there.
 */
int bl_copy_pull(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
		 const struct iovec *theirs, size_t ntheirs, size_t off, size_t len);
int bl_copy_push(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
		 const struct iovec *theirs, size_t ntheirs, size_t off, size_t len);

/* Thresholds in bytes, from the knobs or measured on this machine. */
struct bl_copy_plan {
	size_t eager_max;      /* up to here two short copies win */
	size_t both_hands_min; /* from here on a second core pays for its system call */
	size_t chunk_max;      /* a piece, when two processes share a message */
	bool may_vm;	       /* the knob allows process_vm_* */
};

/* Found once per process; any thread. */
const struct bl_copy_plan *bl_copy_plan(void);

/* How one message of len bytes is cut for two processes: the piece, a multiple
 * of the page, and through *count the number of pieces. */
size_t bl_copy_cut(const struct bl_copy_plan *plan, size_t len, uint32_t *count);

#endif
