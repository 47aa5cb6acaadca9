/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ways.c: which way messages of each length go on this machine, for `beeline doctor`: it asks the
 * policy itself (src/transport/local/adapt/policy.h), at each of its limits.
 *
 *	machine NAME		as src/copy/machine.c calls it
 *	NUMBER VALUE		call_ns, claimed_from, both_from: ns, bytes
 *	PATTERN DISTANCE TO WAY	up to so many bytes, and from there on where the last TO said; 0:
 *all
 */
#include <stdio.h>
#include <stdlib.h>

#include "transport/local/adapt/policy.h"
#include "transport/local/lane/ring.h"

#define MOST 64

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Lengths behind which the way may change, the last one longer than any limit. */
static size_t lengths(const struct bl_limits *l, uint32_t at[MOST])
{
	const uint32_t *eager = &l->eager[0][0][0];
	size_t n = 0;

	for (size_t i = 0; i < sizeof l->eager / sizeof *eager; i++)
		at[n++] = eager[i];
	at[n++] = BL_SLOT_INLINE;
	at[n++] = BL_EXCHANGE_MIN - 1;
	at[n++] = l->pingpong_max;
	at[n++] = l->proxy_min - 1;
	at[n++] = l->dirty[false];
	at[n++] = l->dirty[true];
	at[n++] = l->copybuf;
	at[n++] = UINT32_MAX;
	qsort(at, n, sizeof *at, by_size);
	return n;
}

static const char *const patterns[BL_PATTERNS] = {
	[BL_ANSWER] = "ping-pong",
	[BL_EXCHANGE] = "exchange",
	[BL_BURST] = "burst",
	[BL_STREAM] = "stream",
};

/* To a receiver that waits, when both know each other: the ring is long, if it ever is. */
static enum bl_way way_of(enum bl_pattern pattern, bool far, bool dirty, uint32_t len)
{
	const struct bl_copy_plan *plan = bl_copy_plan();
	bool takes_turns = pattern == BL_EXCHANGE || (pattern == BL_ANSWER && !plan->exchange_only);
	bool buffer = plan->copybuf && takes_turns;
	struct bl_situation s = {
		.len = len,
		.pattern = pattern,
		.there = BL_WAITING,
		.room = UINT32_MAX,
		.far = far,
		.long_ring = true,
		.has_copybuf = buffer,
		/* as bl_copybuf_may() has it */
		.copybuf = buffer && len > BL_SLOT_INLINE &&
			   (!plan->exchange_only || len >= BL_EXCHANGE_MIN),
		.place = plan->copybuf && takes_turns,
		.published = true,
		.dirty = dirty,
	};

	return bl_policy_choose(bl_limits(), &s);
}

static void say(enum bl_pattern pattern, bool far, bool dirty, const char *name)
{
	static const char *const ways[] = {"EAGER", "COPYBUF", "RNDV", "PROXY"};
	uint32_t at[MOST];
	size_t n = lengths(bl_limits(), at);

	for (size_t i = 0; i < n; i++) {
		enum bl_way way = way_of(pattern, far, dirty, at[i]);
		bool last = i + 1 == n;

		if (at[i] && (last || way != way_of(pattern, far, dirty, at[i + 1])))
			printf("%s %s %u %s\n", name, far ? "far" : "near", last ? 0 : at[i],
			       ways[way]);
	}
}

int main(void)
{
	const struct bl_limits *l = bl_limits();

	printf("machine %s\n", bl_copy_plan()->machine->name);
	printf("call_ns %u\n", bl_copy_plan()->call_ns);
	printf("claimed_from %u\n", l->proxy_min);
	printf("both_from %u\n", l->split_min);
	for (int far = 0; far < 2; far++) {
		for (int pattern = 0; pattern < BL_PATTERNS; pattern++)
			/* Only where longer rings are for streams is one told from a burst. */
			if (patterns[pattern] && (pattern != BL_STREAM || !l->eager_long))
				say(pattern, far, false, patterns[pattern]);
		if (bl_copy_plan()->copybuf)
			say(BL_EXCHANGE, far, true, "just-written");
	}
	return 0;
}
