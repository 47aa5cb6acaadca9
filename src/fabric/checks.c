/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * checks.c: what this layer takes for granted about the headers of libfabric and
 * of the core, checked by the compiler. No code.
 */
#include <errno.h>

#include "fabric/fabric.h"

/* Flags pass through unchanged. */
static_assert(BL_MSG == FI_MSG, "flag");
static_assert(BL_TAGGED == FI_TAGGED, "flag");
static_assert(BL_RMA == FI_RMA && BL_ATOMIC == FI_ATOMIC && BL_FENCE == FI_FENCE, "flag");
static_assert(BL_READ == FI_READ && BL_WRITE == FI_WRITE, "flag");
static_assert(BL_REMOTE_READ == FI_REMOTE_READ && BL_REMOTE_WRITE == FI_REMOTE_WRITE, "flag");
static_assert(BL_RECV == FI_RECV, "flag");
static_assert(BL_SEND == FI_SEND, "flag");
static_assert(BL_MULTI_RECV == FI_MULTI_RECV, "flag");
static_assert(BL_REMOTE_CQ_DATA == FI_REMOTE_CQ_DATA, "flag");
static_assert(BL_COMPLETION == FI_COMPLETION, "flag");
static_assert(BL_INJECT == FI_INJECT, "flag");
static_assert(BL_INJECT_COMPLETE == FI_INJECT_COMPLETE, "flag");
static_assert(BL_TRANSMIT_COMPLETE == FI_TRANSMIT_COMPLETE, "flag");
static_assert(BL_DELIVERY_COMPLETE == FI_DELIVERY_COMPLETE, "flag");
static_assert(BL_PEEK == FI_PEEK, "flag");
static_assert(BL_CLAIM == FI_CLAIM, "flag");
static_assert(BL_DISCARD == FI_DISCARD, "flag");

/* So do errors, and the two meanings of no address. */
static_assert(BL_EAVAIL == FI_EAVAIL, "error");
static_assert(BL_ETRUNC == FI_ETRUNC, "error");
static_assert(EAGAIN == FI_EAGAIN && ENOENT == FI_ENOENT && EINVAL == FI_EINVAL, "error");
static_assert(ENOMSG == FI_ENOMSG && ECANCELED == FI_ECANCELED, "error");
static_assert(EHOSTUNREACH == FI_EHOSTUNREACH && EMSGSIZE == FI_EMSGSIZE, "error");
static_assert(BL_ADDR_ANY == FI_ADDR_UNSPEC && BL_ADDR_ANY == FI_ADDR_NOTAVAIL, "address");
static_assert(sizeof(fi_addr_t) == sizeof(uint64_t), "address");

static_assert(BL_ENOKEY == FI_ENOKEY && EKEYREJECTED == FI_EKEYREJECTED, "error");

/* A piece of a target's memory is handed on as it is. */
static_assert(sizeof(struct bl_rma_place) == sizeof(struct fi_rma_iov), "layout");
static_assert(offsetof(struct bl_rma_place, addr) == offsetof(struct fi_rma_iov, addr), "layout");
static_assert(offsetof(struct bl_rma_place, len) == offsetof(struct fi_rma_iov, len), "layout");
static_assert(offsetof(struct bl_rma_place, key) == offsetof(struct fi_rma_iov, key), "layout");

/* Types and operations of atomics have the same numbers. */
static_assert(BL_TRIGGER == FI_TRIGGER && BL_FENCE == FI_FENCE && BL_MORE == FI_MORE, "flag");
static_assert((int)BL_INT8 == (int)FI_INT8 && (int)BL_UINT64 == (int)FI_UINT64, "type");
static_assert((int)BL_FLOAT == (int)FI_FLOAT && (int)BL_DOUBLE == (int)FI_DOUBLE, "type");
static_assert((int)BL_FLOAT_COMPLEX == (int)FI_FLOAT_COMPLEX, "type");
static_assert((int)BL_DOUBLE_COMPLEX == (int)FI_DOUBLE_COMPLEX, "type");
static_assert((int)BL_LONG_DOUBLE == (int)FI_LONG_DOUBLE, "type");
static_assert((int)BL_LONG_DOUBLE_COMPLEX == (int)FI_LONG_DOUBLE_COMPLEX, "type");
static_assert((int)BL_INT128 == (int)FI_INT128 && (int)BL_UINT128 == (int)FI_UINT128, "type");
static_assert((int)BL_ATOMIC_OP_MIN == (int)FI_MIN, "operation");
static_assert((int)BL_ATOMIC_OP_BXOR == (int)FI_BXOR, "operation");
static_assert((int)BL_ATOMIC_OP_READ == (int)FI_ATOMIC_READ, "operation");
static_assert((int)BL_ATOMIC_OP_WRITE == (int)FI_ATOMIC_WRITE, "operation");
static_assert((int)BL_ATOMIC_OP_CSWAP == (int)FI_CSWAP, "operation");
static_assert((int)BL_ATOMIC_OP_MSWAP == (int)FI_MSWAP, "operation");

/* The core writes completions straight into the caller's array: struct bl_comp
 * is struct fi_cq_tagged_entry, and the shorter formats are its prefixes. */
#define SAME(type, member, ours)                                                                   \
	static_assert(offsetof(struct type, member) == offsetof(struct bl_comp, ours), "layout")
static_assert(sizeof(struct bl_comp) == sizeof(struct fi_cq_tagged_entry), "layout");
SAME(fi_cq_tagged_entry, op_context, context);
SAME(fi_cq_tagged_entry, flags, flags);
SAME(fi_cq_tagged_entry, len, len);
SAME(fi_cq_tagged_entry, buf, buf);
SAME(fi_cq_tagged_entry, data, data);
SAME(fi_cq_tagged_entry, tag, tag);
SAME(fi_cq_data_entry, op_context, context);
SAME(fi_cq_data_entry, flags, flags);
SAME(fi_cq_data_entry, len, len);
SAME(fi_cq_data_entry, buf, buf);
SAME(fi_cq_data_entry, data, data);
SAME(fi_cq_msg_entry, op_context, context);
SAME(fi_cq_msg_entry, flags, flags);
SAME(fi_cq_msg_entry, len, len);
SAME(fi_cq_entry, op_context, context);
static_assert(sizeof(struct fi_cq_entry) == 8, "layout");
static_assert(sizeof(struct fi_cq_msg_entry) == 24, "layout");
static_assert(sizeof(struct fi_cq_data_entry) == 40, "layout");
static_assert(sizeof(struct fi_cq_tagged_entry) == 48, "layout");

/* MPICH, and Open MPI before 5, keep an endpoint's address in FI_NAME_MAX bytes. */
static_assert(sizeof(struct bl_addr) <= FI_NAME_MAX, "an address must fit MPI's buffers");

/* libfabric hands back a pointer to its part of each structure. */
static_assert(offsetof(struct bl_fi_fabric, fid) == 0, "fid first");
static_assert(offsetof(struct bl_fi_domain, fid) == 0, "fid first");
static_assert(offsetof(struct bl_fi_av, fid) == 0, "fid first");
static_assert(offsetof(struct bl_fi_cq, fid) == 0, "fid first");
static_assert(offsetof(struct bl_fi_cntr, fid) == 0, "fid first");
static_assert(offsetof(struct bl_fi_ep, fid) == 0, "fid first");
static_assert(offsetof(struct bl_fi_mr, fid) == 0, "fid first");
static_assert(offsetof(struct bl_fi_stx, fid) == 0, "fid first");
