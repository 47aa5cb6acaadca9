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
#include "base/knobs.h"
#include "copy/kmod.h"
#include "copy/machine.h"

enum bl_copy_way {
	BL_COPY_SELF,	 /* the peer is this process: memcpy */
	BL_COPY_VM,	 /* process_vm_readv, process_vm_writev */
	BL_COPY_NOTHING, /* the kernel refuses: by what the peer lends, or in two copies */
	BL_COPY_MODULE	 /* only told to those who look on: refused, and the module is there */
};

/* How this process reaches a peer's memory. Private to one endpoint. */
struct bl_copy_pair {
	pid_t pid; /* as this process's PID namespace numbers the peer */
	enum bl_copy_way pull;
	enum bl_copy_way push;
	int16_t pull_why, push_why; /* BL_COPY_NOTHING: the errno that says why */
	bool needs_rkeys;	    /* our buffers go with keys of the module: see kmod.h */
	uint8_t in_vain;	    /* times that keys were no help */
	uint32_t moved; /* by the last copy that failed, at least: bytes that are there all the same
			 */
};

/* Our own memory, as if it were a peer's: what isn't there is an error. */
struct bl_copy_pair bl_copy_own_pair(void);
/* pid 0: the peer is invisible from here, nothing can be copied directly. */
void bl_copy_pair_init(struct bl_copy_pair *pair, pid_t pid);

/*
 * Copy bytes [off, off+len) of the message: from the peer's buffers into ours
 * (pull) or from ours into the peer's (push). Both descriptions cover the range.
 * 0: all of it. -EOPNOTSUPP: not permitted, not any more or not at all; another way
 * must be taken, for all of it or what is behind pair->moved. -ESRCH: the peer is gone.
 * -EFAULT: the kernel can't reach a buffer. It may lie where only its owner can (write-only
 * pages, memfd_secret(2), device mappings), so that each copies its own, by the ring.
 */
int bl_copy_pull(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
		 const struct iovec *theirs, size_t ntheirs, size_t off, size_t len);
int bl_copy_push(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
		 const struct iovec *theirs, size_t ntheirs, size_t off, size_t len);

/*
 * The same where the peer may have lent its buffers: key[i] for theirs[i], or NULL.
 * process_vm_* first, since it needs no key, unless the knob says otherwise; then
 * the module, which asks for no right but the key. Lending costs the peer two
 * system calls a message, so it lends (pair->needs_rkeys) only once one of the two has
 * been refused: our own refusal tells us, and what the peer asks for tells us of
 * its: see bl_copy_unreached().
 */
int bl_copy_pull_by(struct bl_copy_pair *pair, const struct bl_rkey *key, const struct iovec *mine,
		    size_t nmine, const struct iovec *theirs, size_t ntheirs, size_t off,
		    size_t len);
int bl_copy_push_by(struct bl_copy_pair *pair, const struct bl_rkey *key, const struct iovec *mine,
		    size_t nmine, const struct iovec *theirs, size_t ntheirs, size_t off,
		    size_t len);

/* All pages of this process's buffers are mapped, so that a handler may mend an access to them. A
 * system call for each 2 MiB: for who is told -EFAULT, and would touch them himself. */
bl_cold bool bl_copy_is_mapped(const struct iovec *iov, size_t n);

/* The peer was not allowed to reach a buffer of ours, which had been lent or not. */
bl_cold void bl_copy_unreached(struct bl_copy_pair *pair, bool rkeys);

/* What a copy takes: of no bytes, and of each KiB. */
struct bl_copy_cost {
	double ns, per_kb;
};

/* What this machine is, and how it copies. Limits in bytes: transport/local/adapt/policy.h. */
struct bl_copy_plan {
	const struct bl_machine *machine; /* never NULL */
	struct bl_copy_cost once;	  /* one copy by a system call, as measured */
	size_t cache;			  /* of a core; struct bl_cpu */
	uint32_t call_ns;		  /* a system call, with a few bytes, as measured */
	bool serve;			  /* that takes longer than asking a target that waits */
	bool by_stream;			  /* it is cheap: longer rings are for streams; */
	bool copybuf;	    /* two in a ping-pong write to one place in turn; lane/ring.h */
	bool exchange_only; /* but only if both send at once, BL_EXCHANGE_MIN and more */
	bool own_by_store;  /* a line is to be stored to, to be ours; lane/ring.h */
	size_t past_min;    /* from here on stores pass the caches by where the other is far */
	bool may_vm;	    /* the knob allows process_vm_* */
	bool may_module;    /* and the module */
	bool module_first;  /* even where process_vm_* would do */
};

/* Found once per process; any thread. */
const struct bl_copy_plan *bl_copy_plan(void);
/* That of any machine. */
void bl_copy_plan_make(struct bl_copy_plan *plan, const struct bl_cpu *cpu,
		       const struct bl_copy_cost *once, const struct bl_knobs *knobs);

#endif
