/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic.h: atomic operations on another process's registered memory: read,
 * change, write, under a lock that all who change that process's memory this way
 * take, its own process too (transport/local/link/atomics_page.h). Each element changes as a whole;
 * of a long operation others may see, and change, a part of the elements in its middle; programs
 * that touch the same memory with the CPU's own instructions meanwhile are not kept out, which
 * libfabric doesn't ask for.
 *
 * Serialised by the domain.
 */
#ifndef BL_TRANSPORT_LOCAL_RMA_ATOMIC_H
#define BL_TRANSPORT_LOCAL_RMA_ATOMIC_H

#include "endpoint/rma.h"

/* The values are those of libfabric's enum fi_datatype and enum fi_op. */
enum bl_atomic_type {
	BL_INT8,
	BL_UINT8,
	BL_INT16,
	BL_UINT16,
	BL_INT32,
	BL_UINT32,
	BL_INT64,
	BL_UINT64,
	BL_FLOAT,
	BL_DOUBLE,
	BL_FLOAT_COMPLEX,
	BL_DOUBLE_COMPLEX,
	BL_LONG_DOUBLE,
	BL_LONG_DOUBLE_COMPLEX,
	BL_INT128,
	BL_UINT128,
	BL_FLOAT16, /* from here on libfabric 2's */
	BL_BFLOAT16,
	BL_ATOMIC_TYPES
};

enum bl_atomic_op {
	BL_ATOMIC_OP_MIN,
	BL_ATOMIC_OP_MAX,
	BL_ATOMIC_OP_SUM,
	BL_ATOMIC_OP_PROD,
	BL_ATOMIC_OP_LOR,
	BL_ATOMIC_OP_LAND,
	BL_ATOMIC_OP_BOR,
	BL_ATOMIC_OP_BAND,
	BL_ATOMIC_OP_LXOR,
	BL_ATOMIC_OP_BXOR,
	BL_ATOMIC_OP_READ,
	BL_ATOMIC_OP_WRITE,
	BL_ATOMIC_OP_CSWAP, /* write if the old value equals the one compared with */
	BL_ATOMIC_OP_CSWAP_NE,
	BL_ATOMIC_OP_CSWAP_LE, /* the one compared with <= the old value */
	BL_ATOMIC_OP_CSWAP_LT,
	BL_ATOMIC_OP_CSWAP_GE,
	BL_ATOMIC_OP_CSWAP_GT,
	BL_ATOMIC_OP_MSWAP, /* the bits that are set in the one compared with */
	BL_ATOMIC_OP_DIFF,  /* the old value less the operand; libfabric 2 */
	BL_ATOMIC_OPS
};

/* Bytes of an element; 0: no such type. */
size_t bl_atomic_size(unsigned type);
/* This kind of call (BL_RMA_ATOMIC, FETCH, COMPARE) has this operation on this type. */
bool bl_atomic_valid(enum bl_rma_what what, unsigned type, unsigned op);
/* And len is a number of elements. */
bool bl_atomic_fits(enum bl_rma_what what, unsigned type, unsigned op, size_t len);

/* count elements: to[i] = op(to[i], from[i]); compare only for the ops that do. All
 * are aligned for the type; atomic_ops.c */
void bl_atomic_apply(unsigned type, unsigned op, void *to, const void *from, const void *compare,
		     size_t count);

/*
 * Directly, on a peer's memory, from the byte *off on. 0, -EOPNOTSUPP, -ESRCH...; -EAGAIN:
 * somebody else has the lock. Elements up to *off are done then, so that who comes
 * again with it goes on there.
 */
int bl_atomic_direct(struct bl_ep *ep, struct bl_peer *peer, const struct bl_rma *rma,
		     const struct bl_rma_memory *mem, size_t *off);
/* A part of one on our own memory, for an origin that can't: `staging` holds its operands, then
 * what they are compared with, and receives the old values. */
int bl_atomic_own(struct bl_ep *ep, const struct bl_rma_ask *ask, const struct bl_rma_memory *mem,
		  char *staging, size_t *off);

#endif
