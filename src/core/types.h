/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * types.h: what every layer calls the things that an operation consists of. Flag values are those
 * of libfabric, so that the provider passes them through; src/fabric checks each with a
 * static_assert.
 */
#ifndef BL_CORE_TYPES_H
#define BL_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Completion and operation flags (= FI_MSG, FI_TAGGED, ...). */
#define BL_MSG (1ULL << 1)

#define BL_TAGGED	     (1ULL << 3)
#define BL_RMA		     (1ULL << 2)
#define BL_ATOMIC	     (1ULL << 4)
#define BL_READ		     (1ULL << 8)
#define BL_WRITE	     (1ULL << 9)
#define BL_RECV		     (1ULL << 10)
#define BL_SEND		     (1ULL << 11)
#define BL_REMOTE_READ	     (1ULL << 12)
#define BL_REMOTE_WRITE	     (1ULL << 13)
#define BL_TRIGGER	     (1ULL << 20)
#define BL_FENCE	     (1ULL << 21)
#define BL_MULTI_RECV	     (1ULL << 16)
#define BL_REMOTE_CQ_DATA    (1ULL << 17)
#define BL_COMPLETION	     (1ULL << 24)
#define BL_INJECT	     (1ULL << 25)
#define BL_INJECT_COMPLETE   (1ULL << 26)
#define BL_TRANSMIT_COMPLETE (1ULL << 27)
#define BL_DELIVERY_COMPLETE (1ULL << 28)
#define BL_MORE		     (1ULL << 18)
#define BL_PEEK		     (1ULL << 19)
#define BL_CLAIM	     (1ULL << 59)
#define BL_DISCARD	     (1ULL << 58)
#define BL_ADDR_ANY	     UINT64_MAX /* as a source: anybody; as a result: not in the vector */
#define BL_IOV_MAX	     8		/* buffers in one operation, */
#define BL_RMA_IOV_MAX	     1024	/* and buffers or places in a one-sided one */
#define BL_MSG_MOST	     ((size_t)1 << 40) /* bytes of one */

/* One completion. Its layout is that of struct fi_cq_tagged_entry; the shorter
 * formats are prefixes of it. */
struct bl_comp {
	void *context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
};

/* One failed operation. err is a positive errno or BL_ETRUNC. */
struct bl_comp_err {
	struct bl_comp comp; /* len: bytes that were delivered */
	size_t olen;	     /* bytes that did not fit */
	int err;
	uint64_t src;
};

#define BL_ETRUNC 265 /* = FI_ETRUNC: message longer than the receive */
struct bl_domain;     /* the unit of serialisation */
struct bl_av;	      /* index -> address */
struct bl_cq;
struct bl_cntr;
struct bl_ep;
struct bl_work; /* deferred.h */

/* --- sending ------------------------------------------------------------ */
/*
 * The general send. flags: exactly one of BL_MSG, BL_TAGGED; optionally
 * BL_REMOTE_CQ_DATA (data is delivered), BL_INJECT (buffers are free on return;
 * at most bl_inject_max() bytes), BL_COMPLETION (put a completion into the send
 * queue; errors always go there), BL_DELIVERY_COMPLETE (complete only when the
 * receiver has the data; of what is injected too). What is sent without it is
 * where the receiver finds it when the send completes, even if we die then. The counter of sends
 * counts every send that isn't a plain bl_inject().
 * -EAGAIN: no memory, or too many injected bytes are queued. -EHOSTUNREACH: the address
 * is not on this node. -EINVAL: no such destination. -EMSGSIZE: inject too long.
 */
struct bl_send {
	const struct iovec *iov;
	size_t niov;
	uint64_t dest; /* index in the address vector */
	uint64_t tag;
	uint64_t data;
	void *context;
	uint64_t flags;
	struct bl_work *work; /* hears of the end instead of the endpoint's counter; NULL */
};

/* --- receiving ---------------------------------------------------------- */
/*
 * The general receive. flags: exactly one of BL_MSG, BL_TAGGED; optionally
 * BL_COMPLETION, BL_MULTI_RECV (BL_MSG, one buffer), BL_PEEK (with BL_CLAIM or
 * BL_DISCARD), BL_CLAIM (receive what was claimed under this context), BL_CLAIM
 * with BL_DISCARD (drop it). PEEK answers through the queue: a completion, or an
 * error with ENOMSG. -ENOMSG: claim of nothing. Also of a PEEK: why nothing will ever
 * come from its source (-ECONNRESET, -EHOSTUNREACH and so on).
 */
struct bl_recv {
	const struct iovec *iov;
	size_t niov;
	uint64_t src; /* index, or BL_ADDR_ANY */
	uint64_t tag;
	uint64_t ignore;
	void *context;
	uint64_t flags;
	struct bl_work *work; /* as in struct bl_send */
};

#endif
