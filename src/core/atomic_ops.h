/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic_ops.h: kinds of one-sided operations, and what each atomic one does to elements of each
 * type. No state; any thread.
 */
#ifndef BL_CORE_ATOMIC_OPS_H
#define BL_CORE_ATOMIC_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an origin wants of a target's memory. */
enum bl_rma_what {
	BL_RMA_READ,
	BL_RMA_WRITE,
	BL_RMA_ATOMIC,	/* operands go, nothing comes back */
	BL_RMA_FETCH,	/* the old values come back */
	BL_RMA_COMPARE, /* operands, then what to compare with; the old values come back */
	BL_RMA_WHATS
};

/* A piece of a target's memory, as an origin names it. */
struct bl_rma_place {
	uint64_t addr, len, key;
};

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
 * are aligned for the type */
void bl_atomic_apply(unsigned type, unsigned op, void *to, const void *from, const void *compare,
		     size_t count);

#endif
