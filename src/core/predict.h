/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * predict.h: from whom will the message for a receive from anybody come? Only one neighbour at a
 * time can see such a receive (proxy.h), and this says whom to try. A wrong guess costs the overlap
 * of one message and nothing else, so little is remembered: who sent the last large message for
 * receives with the same tag, and the last of all.
 *
 * Libraries that always say whom a receive is from never ask. One that writes the source into the
 * tag gets it right from the second message of each on; a job with one other process on the node
 * from the first. Who takes results from many, with one tag, is right as often as the same one
 * comes twice in a row.
 *
 * Part of struct bl_proxy: its owner's, serialised by the domain. No entry outlives its neighbour:
 * bl_predict_forget().
 */
#ifndef BL_CORE_PREDICT_H
#define BL_CORE_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

struct bl_peer;

#define BL_PREDICT_BITS 6u

/* peer NULL: empty */
struct bl_prediction {
	uint64_t key; /* the bits of the tag that must match */
	struct bl_peer *peer;
	bool tagged;
};

struct bl_predictions {
	struct bl_prediction at[1u << BL_PREDICT_BITS];
	struct bl_peer *last;
};

/* A large message of the peer's came for a receive from anybody. True: until now
 * there was nobody to guess. */
bool bl_predict_learn(struct bl_predictions *g, bool tagged, uint64_t tag, uint64_t ignore,
		      struct bl_peer *peer);
/* The neighbour that such a receive is most likely served by, or NULL. */
struct bl_peer *bl_prediction(const struct bl_predictions *g, bool tagged, uint64_t tag,
			      uint64_t ignore);
void bl_predict_forget(struct bl_predictions *g, const struct bl_peer *peer);

#endif
