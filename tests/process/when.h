/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* when.h: what the cases of triggered operations share. */
#ifndef TESTS_WHEN_H
#define TESTS_WHEN_H

#include <rdma/fi_trigger.h>

#include <assert.h>
#include <string.h>

#include "fab.h"

/* A triggered operation's context is read by the provider: an operation of ours begins
 * with room for it. */
static inline struct t_op *when(struct t_op *op, struct fid_cntr *cntr, size_t threshold)
{
	struct fi_triggered_context t = {
		.event_type = FI_TRIGGER_THRESHOLD,
		.trigger.threshold = {.cntr = cntr, .threshold = threshold},
	};

	static_assert(sizeof(t) <= sizeof(op->ctx), "room");
	memset(op, 0, sizeof(*op));
	memcpy(&op->ctx, &t, sizeof(t));
	return op;
}

static inline struct fid_cntr *counter(struct t_node *n)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;

	T_OK(fi_cntr_open(n->domain, &attr, &cntr, NULL));
	return cntr;
}

static inline void quiet(int passes)
{
	for (int i = 0; i < passes; i++)
		t_progress();
}

#endif
