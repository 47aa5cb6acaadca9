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
#include "copy/kmod.h"

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
 * system calls a message, so it lends (pair->lend) only once one of the two has
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

#define BL_DIRTY_LEAST 131072u /* bytes of what was just written and goes in turn, at most, */
#define BL_DIRTY_MAX   524288u /* where a core has 2 MiB of its own, or is Zen 3 or later */

/* Thresholds in bytes, from the knobs or measured on this machine. */
struct bl_copy_plan {
	const char *kind;      /* of processor; machine.h */
	size_t eager_max;      /* up to here two short copies win */
	size_t pingpong_max;   /* and up to here while the receiver waits for just this message */
	size_t inject_max;     /* one of these two */
	size_t split_min;      /* from here on a second core pays for its system call */
	size_t eager_long_max; /* up to here one packet does, through a longer ring; 0: never */
	size_t eager_long_far; /* the same where each line takes long to cross; at most
				  eager_long_max */
	size_t eager_long_copybuf; /* the same where both write to one place in turn */
	size_t stream_max; /* up to here one packet does, through a longer ring: eager_long_max, or,
			    * where that is 0, in a stream */
	size_t turn_max;  /* up to here, to a receiver that is near, who answers or sends as well */
	size_t dirty_max; /* up to here they do in turn, if one was seen to take longer than */
	uint32_t dirty_ns, dirty_per_kb; /* that for its bytes, */
	uint32_t dirty_per_kb_most;	 /* and less than that: transport/local/adapt/dirty.h */
	size_t used_near;		 /* what is used goes in turn near by, too, up to here */
	size_t past_min;	 /* from here on stores pass the caches by where the other is far */
	uint32_t far_ns;	 /* which it is if one of its lines takes so long;
				    transport/local/lane/ring.c */
	uint32_t used_far_ns_kb; /* the least that use takes there; transport/local/adapt/dirty.h */
	bool copybuf; /* two in a ping-pong write to one place in turn; transport/local/lane/ring.h
		       */
	bool exchange_only; /* but only if both send at once, BL_EXCHANGE_MIN and more */
	bool own_by_store;  /* a line is to be stored to, to be ours; transport/local/lane/ring.h */
	bool by_stream;	    /* eager_long_max is 0: longer rings are for streams;
			       transport/local/adapt/longring.c */
	bool deep;	    /* large messages of a stream go through them, too; endpoint/send.c */
	bool streamed;	    /* and what they write grows there, whether it is waited for or not */
	bool streamed_far;  /* what is waited for does far away, too; endpoint/send.c */
	size_t chunk_half; /* a piece, when two processes share a message: half of it up to here, */
	size_t chunk_max;  /* then this, or a quarter up to here */
	uint32_t call_ns;  /* a system call, with a few bytes, as measured */
	bool serve;	   /* a call for a few bytes takes longer than asking a target that waits */
	bool may_vm;	   /* the knob allows process_vm_* */
	bool may_module;   /* and the module */
	bool module_first; /* even where process_vm_* would do */
};

/* Found once per process; any thread. */
const struct bl_copy_plan *bl_copy_plan(void);

/* What a copy takes: of no bytes, and of each KiB. */
struct bl_copy_cost {
	double ns, per_kb;
};

/* Two copies, to a receiver that is far away: past the caches; and in turn to one place. */
extern const struct bl_copy_cost bl_copy_past, bl_copy_copybuf;

/*
 * Bytes up to which two copies take less time than one, to a receiver that is far away: from
 * `eager` to `carry`, in whole pages but for these two. `once`: a system call, as measured. One
 * copy takes 2.6 us and 30 ns/KiB there where that took 1.24 us and 65 ns/KiB: twice the one, half
 * of the other. (A page more or less, from one process to the next, harms nobody.)
 */
size_t bl_copy_eager_long_far(const struct bl_copy_cost *once, const struct bl_copy_cost *twice,
			      size_t eager, size_t carry);

/*
 * Bytes up to which a message of a stream goes through a longer ring. Where `carry` is 0
 * and a call takes 0.6 us, two copies of up to 32 KiB do; where it takes a third of
 * that, one is as good as two beyond the eager limit.
 */
size_t bl_copy_stream_max(const struct bl_copy_cost *once, size_t eager, size_t carry);

/*
 * Bytes up to which two copies take less time than one of what its sender has just written, where a
 * core has so much of a cache of its own (0: not known): the message in the sender's memory, in the
 * receiver's and between them, and another that crosses it, have to lie there.
 */
size_t bl_copy_dirty_max(size_t cache);

/* How one message of len bytes is cut for two processes: the piece, a multiple
 * of the page, and through *count the number of pieces. */
size_t bl_copy_cut(const struct bl_copy_plan *plan, size_t len, uint32_t *count);

#endif
