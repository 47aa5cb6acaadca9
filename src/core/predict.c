/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * predict.c: see predict.h. A table where two keys that meet push each other out.
 * Serialised by the domain.
 */
#include "core/predict.h"

#include <stddef.h>

#define GOLDEN 0x9e3779b97f4a7c15ull

static uint32_t place(bool tagged, uint64_t key)
{
	return (uint32_t)((key + tagged) * GOLDEN >> (64 - BL_PREDICT_BITS));
}

bool bl_predict_learn(struct bl_predictions *g, bool tagged, uint64_t tag, uint64_t ignore,
		      struct bl_peer *peer)
{
	uint64_t key = tag & ~ignore;
	bool first = !g->last;

	g->at[place(tagged, key)] = (struct bl_prediction){key, peer, tagged};
	g->last = peer;
	return first;
}

struct bl_peer *bl_prediction(const struct bl_predictions *g, bool tagged, uint64_t tag,
			      uint64_t ignore)
{
	uint64_t key = tag & ~ignore;
	const struct bl_prediction *at = &g->at[place(tagged, key)];

	return at->peer && at->key == key && at->tagged == tagged ? at->peer : g->last;
}

void bl_predict_forget(struct bl_predictions *g, const struct bl_peer *peer)
{
	for (uint32_t i = 0; i < 1u << BL_PREDICT_BITS; i++)
		if (g->at[i].peer == peer)
			g->at[i].peer = NULL;
	if (g->last == peer)
		g->last = NULL;
}
