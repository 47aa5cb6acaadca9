/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * announced.h: what tests of several announced messages share: two endpoints of one process, each
 * doing a step when it is told to, and a sender that seems to wait, to copy or to be away.
 * Whoever includes it wraps bl_peer_idle (meson.build).
 */
#ifndef BL_UNIT_ANNOUNCED_H
#define BL_UNIT_ANNOUNCED_H

#define EAGER_LONG 0u /* all that is longer than EAGER is announced */
#define LONGEST	   ((2u << 20) + 8192u)
#include "transport/local/ways/proxy.h"
#include "unit/pair.h"

#define MOST	   (1u << 20) /* what is given at most */
#define BOTH_HANDS (256u << 10)
#define MESSAGES   4u

static uint8_t there[MESSAGES][LONGEST + 64];

static inline struct bl_peer *back(void)
{
	return receiver->dest[1];
}

/* --- a sender that waits ------------------------------------------------------- */

static enum {
	WAITS,	 /* it has said so just now */
	COPIES,	 /* and will for a while */
	IS_AWAY, /* it hasn't for long */
} sender_now = WAITS;

/* The sender, who is to seem there, says so now: however slow this machine is. */
bool __wrap_bl_peer_idle(const struct bl_ep *ep, const struct bl_peer *peer);
bool __real_bl_peer_idle(const struct bl_ep *ep, const struct bl_peer *peer);
bool __wrap_bl_peer_idle(const struct bl_ep *ep, const struct bl_peer *peer)
{
	uint64_t now;
	bool idle;

	do {
		now = bl_ticks();
		if (sender_now == WAITS)
			bl_presence_seen(sender, now);
		idle = __real_bl_peer_idle(ep, peer);
	} while (!idle && bl_ticks() - now > 2 * bl_ticks_per_us());
	return idle;
}

static inline void sender_is(int what)
{
	uint64_t now = bl_ticks(), second = 1000000 * bl_ticks_per_us();

	sender_now = what;
	bl_presence_seen(sender, what == COPIES	   ? now + second
				 : what == IS_AWAY ? now - second
						   : now);
}

/* --- steps ------------------------------------------------------------------------ */

static bool user_leaves; /* after it has posted; else it waits */

static inline void open_with(enum bl_copy_way pull)
{
	open_pair();
	back()->copy.pull = pull;
	user_leaves = false;
	memset(there, 0xee, sizeof there);
}

/* Receive i is for message i. */
static inline void post_one(uint32_t i, size_t len, uint64_t flags)
{
	struct bl_recv recv = {
		.iov = &(struct iovec){there[i], len},
		.niov = 1,
		.src = 1,
		.tag = flags & BL_TAGGED ? i : 0,
		.context = there[i],
		.flags = flags | BL_COMPLETION,
	};

	assert_int_equal(bl_recv(receiver, &recv), 0);
}

static inline void announce(uint32_t i, size_t len, uint64_t flags)
{
	struct bl_send send = {&(struct iovec){from + i, len}, 1,   0, i, 0, from + i,
			       flags | BL_COMPLETION,	       NULL};

	sender->ways.habit.leaves = 0; /* or it might claim the receive, if this machine is slow */
	assert_int_equal(bl_send(sender, &send), 0);
}

/* What has come is delivered, and nothing else: copies that are under way rest. */
static inline void deliver(void)
{
	struct bl_sink none = BL_SINK_NONE;

	/* However slow this machine is. */
	receiver->ways.habit.leaves = user_leaves ? BL_LEAVES_MOST : 0;
	receiver->ways.habit.left_at = 0;
	bl_poll_peer(receiver, &none, back());
}

static inline void hear(void)
{
	struct bl_sink none = BL_SINK_NONE;

	bl_poll_peer(sender, &none, peer());
}

static inline uint64_t pushed(void)
{
	return atomic_load(&sender->local.stats->counter[BL_STAT_pushed_bytes].value);
}

static inline void is_there(uint32_t i, size_t len)
{
	assert_memory_equal(there[i], from + i, len);
	for (size_t k = len; k < len + 64; k++)
		assert_int_equal(there[i][k], 0xee);
}

/* Nothing of it. */
static inline void is_not_there(uint32_t i)
{
	for (size_t k = 0; k < BL_PROXY_MIN; k += 4096)
		assert_int_equal(there[i][k], 0xee);
}

static inline const struct bl_recv_op *cts_all(uint32_t i)
{
	for (uint32_t k = 0; k < receiver->rndv.ntransfer; k++)
		if (receiver->rndv.transfer[k]->end.context == there[i])
			return receiver->rndv.transfer[k]->cts_all ? receiver->rndv.transfer[k]
								   : NULL;
	return NULL;
}

/* So many of a kind has the receiver sent since packet n. */
static inline uint32_t packets(uint32_t n, uint32_t op)
{
	uint32_t sum = 0;

	for (; n != back()->tx.next; n++)
		sum += BL_HEAD_OP(back()->tx.slot[n % BL_SLOTS].head) == op;
	return sum;
}

/* Both complete all of them, in whatever order, and nothing is left. */
static inline void complete(uint32_t count, const size_t *len)
{
	uint32_t seen[2] = {0, 0};

	for (size_t at = 0; at < 2; at++)
		for (uint32_t n = 0; n < count; n++) {
			struct bl_comp got = node_completion(&node, at, NULL);
			uint32_t i = 0;

			while (i < count &&
			       got.context != (at ? (void *)(from + i) : (void *)there[i]))
				i++;
			assert_in_range(i, 0, count - 1);
			assert_int_equal(got.len, len[i]);
			seen[at] |= 1u << i;
		}
	for (size_t at = 0; at < 2; at++) {
		assert_int_equal(seen[at], (1u << count) - 1);
		node_expect_nothing(&node, at);
	}
	for (uint32_t i = 0; i < count; i++)
		is_there(i, len[i]);
	assert_int_equal(sender->rndv.requests + receiver->rndv.ntransfer, 0);
	assert_int_equal(back()->chunks_busy, 0);
}

static inline void set_announced_limits(void)
{
	char both[16];

	set_limits();
	setenv("FI_BEELINE_EAGER_LONG_MAX", "0", 1);
	snprintf(both, sizeof both, "%u", BOTH_HANDS);
	setenv("FI_BEELINE_SPLIT_MIN", both, 1);
	snprintf(both, sizeof both, "%u", BOTH_HANDS / 2);
	setenv("FI_BEELINE_CHUNK_MAX", both, 1);
}

#endif
