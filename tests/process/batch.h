/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * batch.h: what batch.c and kept.c share: short reads and writes of another process's memory
 * that follow each other.
 */
#ifndef TESTS_COMBINE_H
#define TESTS_COMBINE_H

#include "cases.h"

#include <stdlib.h>

#define ROOM 32768
#define KEY  0xbee
#define BOTH (FI_REMOTE_READ | FI_REMOTE_WRITE)

/* How they go: directly, or by a target that is asked each time; the second ones and later, or
 * each; by message from the beginning, or from the middle on. */
enum way { DIRECT, SERVED, AUTO, ASKED, DENIED, DENIED_SERVED };

static enum way way;

static inline void begin(struct t_node *n, struct t_opts *o)
{
	if (!t_beeline)
		t_skip("knobs of ours");
	o->caps |= FI_RMA | FI_RMA_EVENT | FI_ATOMIC;
	setenv("FI_BEELINE_RMA_DELEGATE",
	       way == SERVED || way == DENIED_SERVED ? "always" : "never", 1);
	setenv("FI_BEELINE_RMA_BATCH", way == AUTO ? "auto" : "always", 1);
	if (way == ASKED)
		setenv("FI_BEELINE_COPY", "ring", 1);
	t_start(n, o);
}

static inline struct fid_mr *reg(struct t_node *n, void *buf, size_t len, uint64_t access,
				 uint64_t key)
{
	struct fid_mr *mr;

	T_OK(fi_mr_reg(n->domain, buf, len, access, 0, key, 0, &mr, NULL));
	return mr;
}

/* At a barrier with this nobody makes progress. */
static inline bool nothing(void)
{
	return false;
}

static inline void put(struct t_node *n, const void *buf, size_t len, uint64_t addr,
		       struct t_op *op)
{
	T_TRY(fi_write(n->ep, buf, len, NULL, n->peer[1], addr, KEY, op));
}

static inline void inject(struct t_node *n, const void *buf, size_t len, uint64_t addr)
{
	T_TRY(fi_inject_write(n->ep, buf, len, n->peer[1], addr, KEY));
}

static inline void get(struct t_node *n, void *buf, size_t len, uint64_t addr, struct t_op *op)
{
	T_TRY(fi_read(n->ep, buf, len, NULL, n->peer[1], addr, KEY, op));
}

static inline void reach(struct fid_cntr *cntr, uint64_t value)
{
	while (fi_cntr_read(cntr) < value)
		t_idle();
	T_EQ(fi_cntr_read(cntr), value);
}

static inline void some(struct t_node *n, struct t_op *op, int count, const void *b)
{
	for (int i = 0; i < count; i++)
		put(n, b, 8, 16 * (uint64_t)i, &op[i]);
}

/* --- cases in several ways ------------------------------------------------- */

#define AS(name, as)                                                                               \
	static void name##_##as(void)                                                              \
	{                                                                                          \
		way = as;                                                                          \
		name();                                                                            \
	}
#define ALL(name)                                                                                  \
	AS(name, DIRECT)                                                                           \
	AS(name, SERVED)                                                                           \
	AS(name, AUTO)                                                                             \
	AS(name, ASKED)
/* A case of the group, whose name is GROUP. */
#define CASE(name, as, suffix, nproc, why)                                                         \
	{                                                                                          \
		GROUP "_" #name suffix, nproc, name##_##as, why, 0                                 \
	}
#define CASES(name, nproc, why)                                                                    \
	CASE(name, DIRECT, "", nproc, why), CASE(name, SERVED, "_served", nproc, why),             \
		CASE(name, AUTO, "_auto", nproc, why), CASE(name, ASKED, "_asked", nproc, why)

#endif
