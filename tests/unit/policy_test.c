/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * policy_test.c: transport/local/adapt/policy.h: the limits of each kind of machine with a cheap
 * and a dear system call, the way of a message in each situation, and what the knobs change.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/local/adapt/policy.h"
#include "transport/local/lane/ring.h"
#include "unit/table.h"

/* A row says what differs from a peer that waits. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define PAGE 4096u
#define KIB  1024u

/* --- machines ----------------------------------------------------------------- */

#define AMD(number, kib)                                                                           \
	{                                                                                          \
		.amd = true, .family = (number), .cache = (kib)*KIB                                \
	}
#define INTEL(kib, fp16)                                                                           \
	{                                                                                          \
		.intel = true, .family = 6, .cache = (kib)*KIB, .avx512_fp16 = (fp16)              \
	}
#define CHEAP	 150
#define MIDDLING 600
#define DEAR	 1200
#define NS_KB	 65

static const struct bl_cpu zen2 = AMD(0x17, 512), zen3 = AMD(0x19, 512), zen4 = AMD(0x19, 1024),
			   zen5 = AMD(0x1a, 1024), skylake = INTEL(1024, false),
			   sapphire = INTEL(2048, true), emerald = INTEL(2048, true);

/* As if no variable were set. */
static struct bl_knobs no_knobs(void)
{
	struct bl_knobs knobs;

	for (size_t i = 0; i < bl_knob_count; i++)
		memcpy((char *)&knobs + bl_knob_table[i].offset, &bl_knob_table[i].init,
		       sizeof(uint64_t));
	return knobs;
}

static struct bl_limits limits_with(const struct bl_cpu *cpu, double call_ns,
				    const struct bl_knobs *knobs)
{
	struct bl_copy_cost once = {call_ns, NS_KB};
	struct bl_copy_plan plan;
	struct bl_limits l;

	bl_copy_plan_make(&plan, cpu, &once, knobs);
	bl_limits_make(&l, &plan, knobs);
	return l;
}

static struct bl_limits limits_of(const struct bl_cpu *cpu, double call_ns)
{
	struct bl_knobs knobs = no_knobs();

	return limits_with(cpu, call_ns, &knobs);
}

/* Where the peer waits, and nothing is in the way. */
static struct bl_situation calm(void)
{
	return (struct bl_situation){
		.pattern = BL_EXCHANGE, .there = BL_WAITING, .room = 4 << 20, .claimable = true};
}

/* One packet up to the limit; a byte more is announced, and from 64 KiB on may be claimed. */
struct limit_row {
	struct row row;
	const struct bl_cpu *cpu;
	double call_ns;
	enum bl_ring ring;
	enum bl_pattern pattern;
	bool far, dirty;
	uint32_t to;
};

#define ROW(name, why, cpu, call, ring, pattern, far, dirty, to)                                   \
	{                                                                                          \
		{name, why}, &(cpu), call, BL_RING_##ring, BL_##pattern, far, dirty, to            \
	}
/* Where only the eager limit counts. */
#define NOTHING_LONG(name, cpu, call, eager)                                                       \
	ROW(name, "no longer one in a short ring", cpu, call, SHORT, EXCHANGE, false, false,       \
	    eager),                                                                                \
		ROW(name, "nor an answer", cpu, call, SHORT, ANSWER, false, false, eager),         \
		ROW(name, "nor in a long one", cpu, call, LONG, EXCHANGE, false, false, eager),    \
		ROW(name, "nor a burst", cpu, call, LONG, BURST, true, false, eager),              \
		ROW(name, "nor a stream", cpu, call, LONG, STREAM, false, false, eager),           \
		ROW(name, "nor by a copy buffer", cpu, call, COPYBUF, EXCHANGE, false, false,      \
		    eager)
/* Where a call is neither cheap nor dear. */
#define STREAMS(name, cpu)                                                                         \
	ROW(name, "a short ring", cpu, MIDDLING, SHORT, EXCHANGE, false, false, 6144),             \
		ROW(name, "an answer", cpu, MIDDLING, SHORT, ANSWER, false, false, 8192),          \
		ROW(name, "no answer", cpu, MIDDLING, LONG, PINGPONG, false, false, 6144),         \
		ROW(name, "an exchange", cpu, MIDDLING, LONG, EXCHANGE, false, false, 6144),       \
		ROW(name, "a burst", cpu, MIDDLING, LONG, BURST, true, false, 8192),               \
		ROW(name, "a stream", cpu, MIDDLING, LONG, STREAM, false, false, 32 * KIB),        \
		ROW(name, "a stream, far", cpu, MIDDLING, LONG, STREAM, true, false, 32 * KIB),    \
		ROW(name, "by a copy buffer", cpu, MIDDLING, COPYBUF, EXCHANGE, false, false,      \
		    8192)
/* Where it is dear. `far` has KiB for a ping-pong far away, `buffer` those of a copy buffer. */
#define LENGTHS(name, cpu, call, near, far, buffer)                                                \
	ROW(name, "a short ring", cpu, call, SHORT, STREAM, false, false, 14336),                  \
		ROW(name, "an answer", cpu, call, SHORT, ANSWER, false, false, 14336),             \
		ROW(name, "an answer near by", cpu, call, LONG, ANSWER, false, false, (near)*KIB), \
		ROW(name, "an exchange near by", cpu, call, LONG, EXCHANGE, false, false,          \
		    (near)*KIB),                                                                   \
		ROW(name, "an answer far away", cpu, call, LONG, ANSWER, true, false, (far)*KIB),  \
		ROW(name, "an exchange far away", cpu, call, LONG, EXCHANGE, true, false,          \
		    (far)*KIB),                                                                    \
		ROW(name, "a burst far away", cpu, call, LONG, BURST, true, false, (near)*KIB),    \
		ROW(name, "a copy buffer near by", cpu, call, COPYBUF, EXCHANGE, false, false,     \
		    (near)*KIB),                                                                   \
		ROW(name, "a copy buffer far away", cpu, call, COPYBUF, ANSWER, true, false,       \
		    (buffer)*KIB)
#define DIRTY(name, cpu, call, near, far)                                                          \
	ROW(name, "just written, near", cpu, call, LONG, EXCHANGE, false, true, near),             \
		ROW(name, "just written, far", cpu, call, LONG, EXCHANGE, true, true, far)

static const struct limit_row limit_rows[] = {
	NOTHING_LONG("Zen 2, cheap", zen2, CHEAP, 4096),
	DIRTY("Zen 2, cheap", zen2, CHEAP, 4096, 4096),
	STREAMS("Zen 2", zen2),
	LENGTHS("Zen 2, dear", zen2, DEAR, 96, 24, 36),
	DIRTY("Zen 2, dear", zen2, DEAR, 96 * KIB, 24 * KIB),

	NOTHING_LONG("Zen 3, cheap", zen3, CHEAP, 4096),
	DIRTY("Zen 3, cheap", zen3, CHEAP, 128 * KIB, 4096),
	STREAMS("Zen 3", zen3),
	LENGTHS("Zen 3, dear", zen3, DEAR, 128, 24, 96),
	DIRTY("Zen 3, dear", zen3, DEAR, 512 * KIB, 512 * KIB),

	NOTHING_LONG("Zen 4, cheap", zen4, CHEAP, 4096),
	DIRTY("Zen 4, cheap", zen4, CHEAP, 256 * KIB, 4096),
	STREAMS("Zen 4", zen4),
	LENGTHS("Zen 4, dear", zen4, DEAR, 128, 24, 36),
	DIRTY("Zen 4, dear", zen4, DEAR, 512 * KIB, 512 * KIB),

	NOTHING_LONG("Zen 5, cheap", zen5, CHEAP, 4096),
	DIRTY("Zen 5, cheap", zen5, CHEAP, 256 * KIB, 4096),
	LENGTHS("Zen 5, neither", zen5, MIDDLING, 128, 24, 96),
	LENGTHS("Zen 5, dear", zen5, DEAR, 128, 24, 96),
	DIRTY("Zen 5, dear", zen5, DEAR, 512 * KIB, 512 * KIB),

	NOTHING_LONG("Skylake, cheap", skylake, CHEAP, 4096),
	STREAMS("Skylake", skylake),
	LENGTHS("Skylake, dear", skylake, DEAR, 96, 24, 36),
	DIRTY("Skylake, dear", skylake, DEAR, 96 * KIB, 24 * KIB),

	NOTHING_LONG("Sapphire Rapids, cheap", sapphire, CHEAP, 4096),
	DIRTY("Sapphire Rapids, cheap", sapphire, CHEAP, 512 * KIB, 4096),
	STREAMS("Sapphire Rapids", sapphire),
	DIRTY("Sapphire Rapids", sapphire, MIDDLING, 512 * KIB, 6144),
	LENGTHS("Sapphire Rapids, dear", sapphire, DEAR, 96, 24, 36),
	DIRTY("Sapphire Rapids, dear", sapphire, DEAR, 96 * KIB, 24 * KIB),

	NOTHING_LONG("Emerald Rapids, cheap", emerald, CHEAP, 4096),
	STREAMS("Emerald Rapids", emerald),
	DIRTY("Emerald Rapids", emerald, MIDDLING, 512 * KIB, 6144),
	LENGTHS("Emerald Rapids, dear", emerald, DEAR, 96, 24, 36),

	ROW("just below cheap", "one copy is as good", skylake, 249, LONG, STREAM, false, false,
	    4096),
	ROW("as dear as that", "streams", skylake, 250, LONG, STREAM, false, false, 32 * KIB),
	ROW("just below dear", "streams", skylake, 999, LONG, BURST, false, false, 8192),
	ROW("as dear as dear", "all", skylake, 1000, LONG, BURST, false, false, 96 * KIB),
	ROW("Zen 5, below its dear", "streams", zen5, 499, LONG, BURST, false, false, 8192),
	ROW("Zen 5, as dear as that", "all", zen5, 500, LONG, BURST, false, false, 128 * KIB),
};

static void up_to_the_limit(void **state)
{
	const struct limit_row *row = TABLE_ROW(struct limit_row, state);
	struct bl_limits l = limits_of(row->cpu, row->call_ns);
	struct bl_situation s = calm();
	bool buffer = row->ring == BL_RING_COPYBUF;

	s.pattern = row->pattern;
	s.far = row->far;
	s.long_ring = row->ring != BL_RING_SHORT;
	s.has_copybuf = buffer;
	s.dirty = row->dirty;
	for (size_t more = 0; more < 2; more++) {
		enum bl_way announced = row->to + more >= 64 * KIB ? BL_PROXY : BL_RNDV;

		s.len = row->to + more;
		s.copybuf = buffer;
		s.place = row->dirty;
		if (more)
			assert_int_equal(bl_policy_choose(&l, &s), announced);
		else if (buffer || (row->dirty && s.len > bl_policy_eager(&l, &s)))
			assert_int_equal(bl_policy_choose(&l, &s), BL_COPYBUF);
		else
			assert_int_equal(bl_policy_choose(&l, &s), BL_EAGER);
	}
}

/* --- situations --------------------------------------------------------------- */

/* On Zen 4 where a call is dear: 128 KiB near by, 24 far away. */
struct way_row {
	struct row row;
	struct bl_situation s;
	enum bl_way way;
};

#define S(bytes, ...)                                                                              \
	{                                                                                          \
		.len = (bytes), .pattern = BL_EXCHANGE, .there = BL_WAITING, .long_ring = true,    \
		.room = 1 << 20, __VA_ARGS__                                                       \
	}
#define L64  (64 * KIB)
#define L128 (128 * KIB)

static const struct way_row way_rows[] = {
	{{"eager limit, congested", "it goes to everybody"}, S(14336, .congested = true), BL_EAGER},
	{{"eager limit, by keys", "the same"}, S(14336, .one_copy = true), BL_EAGER},
	{{"eager limit, no room", "it is announced"}, S(14336, .announce = true), BL_RNDV},
	{{"a byte more, congested", "is announced"}, S(14337, .congested = true), BL_RNDV},
	{{"a byte more, by keys", "the module copies it once"},
	 S(14337, .one_copy = true),
	 BL_RNDV},
	{{"below 64 KiB, one leaves", "it is over soon"}, S(L64 - 1, .leaves = true), BL_EAGER},
	{{"64 KiB, one leaves", "may be claimed meanwhile"}, S(L64, .leaves = true), BL_RNDV},
	{{"below 64 KiB, gone", "nobody asks"}, S(L64 - 1, .there = BL_GONE), BL_EAGER},
	{{"64 KiB, gone", "announced"}, S(L64, .there = BL_GONE), BL_RNDV},
	{{"64 KiB, gone, may be claimed", "by us"},
	 S(L64, .there = BL_GONE, .claimable = true),
	 BL_PROXY},
	{{"64 KiB, it uses what it has", "as long as it isn't dirty that is away"},
	 S(L64, .there = BL_USING),
	 BL_RNDV},
	{{"64 KiB, others pending", "each copies some"}, S(L64, .pending = true), BL_RNDV},
	{{"64 KiB, one unread", "one may be"}, S(L64, .unread = 2 * L64 - 1), BL_EAGER},
	{{"64 KiB, two unread", "they are many"}, S(L64, .unread = 2 * L64), BL_RNDV},
	{{"a burst, seven unread", "one more"},
	 S(L64, .pattern = BL_BURST, .unread = 8 * L64 - 1, .pending = true),
	 BL_EAGER},
	{{"a burst, eight unread", "enough"},
	 S(L64, .pattern = BL_BURST, .unread = 8 * L64),
	 BL_RNDV},
	{{"a burst, no room for two", "as any other"},
	 S(L64, .pattern = BL_BURST, .unread = 4 * L64, .room = 6 * L64 - 1),
	 BL_RNDV},
	{{"a burst, just room for two", "goes"},
	 S(L64, .pattern = BL_BURST, .unread = 4 * L64, .room = 6 * L64),
	 BL_EAGER},
	{{"a burst, others expected", "windows both ways"},
	 S(L64, .pattern = BL_BURST, .unread = 4 * L64, .expects = true),
	 BL_RNDV},
	{{"a burst, far away", "as any other"},
	 S(L64, .pattern = BL_BURST, .unread = 4 * L64, .far = true),
	 BL_RNDV},
	{{"128 KiB", "the longest packet"}, S(L128, .unread = 2 * L128 - 1), BL_EAGER},
	{{"tight", "as far away"}, S(24 * KIB, .tight = true), BL_EAGER},
	{{"tight, a byte more", "copied once"}, S(24 * KIB + 1, .tight = true), BL_RNDV},
	{{"tight, a copy buffer", "which isn't"},
	 S(L128, .tight = true, .has_copybuf = true, .copybuf = true),
	 BL_COPYBUF},
	{{"a copy buffer that is too short", "the ring"},
	 S(L64 - 1, .has_copybuf = true),
	 BL_EAGER},

	{{"acked, away, a receive for it", "its sender waits"},
	 S(20000, .acked = true, .away = true, .matches = true, .claimable = true),
	 BL_PROXY},
	{{"acked, away, none for it", "it lies there"},
	 S(20000, .acked = true, .away = true, .claimable = true),
	 BL_EAGER},
	{{"acked, here, a receive for it", "it lies there"},
	 S(20000, .acked = true, .matches = true, .claimable = true),
	 BL_EAGER},
	{{"away, a receive for it", "nobody waits"},
	 S(20000, .away = true, .matches = true, .claimable = true),
	 BL_EAGER},
	{{"acked, away, eager", "it lies there"},
	 S(14336, .acked = true, .away = true, .matches = true, .claimable = true),
	 BL_EAGER},
	{{"no room, a receive for it", "it is claimed"},
	 S(20000, .announce = true, .matches = true, .claimable = true),
	 BL_PROXY},
	{{"no room, not by us", "it isn't"}, S(20000, .announce = true, .matches = true), BL_RNDV},

	{{"dirty, an answer, no place", "up to 64 KiB through the ring"},
	 S(L64, .dirty = true, .pattern = BL_ANSWER, .far = true, .published = true),
	 BL_EAGER},
	{{"dirty, an answer, no place, a byte more", "announced"},
	 S(L64 + 1, .dirty = true, .pattern = BL_ANSWER, .far = true, .published = true),
	 BL_RNDV},
	{{"dirty, an answer, not posted", "would be copied three times"},
	 S(L128 + 1, .dirty = true, .pattern = BL_ANSWER, .place = true),
	 BL_RNDV},
	{{"dirty, an exchange, not posted", "it will be"},
	 S(L128 + 1, .dirty = true, .place = true),
	 BL_COPYBUF},
	{{"dirty, it uses what it has", "that is no absence"},
	 S(L128 + 1, .dirty = true, .place = true, .there = BL_USING),
	 BL_COPYBUF},
	{{"dirty, gone", "announced"},
	 S(L128 + 1, .dirty = true, .place = true, .there = BL_GONE),
	 BL_RNDV},
	{{"dirty, congested", "announced"},
	 S(L128 + 1, .dirty = true, .place = true, .congested = true),
	 BL_RNDV},
	{{"dirty, once more to be judged", "announced"},
	 S(L128 + 1, .dirty = true, .place = true, .spent = true),
	 BL_RNDV},
	{{"dirty, but not now", "announced"},
	 S(L128 + 1, .dirty = true, .place = true, .clean = true),
	 BL_RNDV},
	{{"dirty, its buffer may grow", "there"},
	 S(L128 + 1, .dirty = true, .may_grow = true),
	 BL_COPYBUF},
	{{"dirty, past the caches", "announced"},
	 S(L128 + 1, .dirty = true, .place = true, .past = true),
	 BL_RNDV},
	{{"dirty, no longer than a packet", "through the ring"},
	 S(L128, .dirty = true, .place = true),
	 BL_EAGER},
	{{"not dirty", "announced"}, S(L128 + 1, .place = true), BL_RNDV},
};

static void which_way(void **state)
{
	const struct way_row *row = TABLE_ROW(struct way_row, state);
	struct bl_limits l = limits_of(&zen4, DEAR);

	assert_int_equal(bl_policy_choose(&l, &row->s), row->way);
}

/* Zen 5 where a call is dear: near by up to 256 KiB whether dirty or not. */
static const struct way_row near_rows[] = {
	{{"any", "to the copy buffer"}, S(L128 + 1, .place = true), BL_COPYBUF},
	{{"the longest", "the same"}, S(256 * KIB, .place = true, .spent = true), BL_COPYBUF},
	{{"a byte more", "announced"}, S(256 * KIB + 1, .place = true), BL_RNDV},
	{{"a byte less than any", "through the ring"}, S(L128, .place = true), BL_EAGER},
	{{"far away", "announced"}, S(L128 + 1, .place = true, .far = true), BL_RNDV},
	{{"no place", "announced"}, S(L128 + 1), BL_RNDV},
	{{"no memory, but a place", "there"},
	 S(L128 + 1, .place = true, .stays_short = true),
	 BL_COPYBUF},
	{{"no memory", "announced"}, S(L128 + 1, .may_grow = true, .stays_short = true), BL_RNDV},
};

static void near_enough(void **state)
{
	const struct way_row *row = TABLE_ROW(struct way_row, state);
	struct bl_limits l = limits_of(&zen5, DEAR);

	assert_int_equal(bl_policy_choose(&l, &row->s), row->way);
}

/* Why what is dirty isn't taken for it, on Sapphire Rapids where longer rings are for streams. */
struct dirty_row {
	struct row row;
	struct bl_situation s;
	enum bl_dirty dirty;
};

static const struct dirty_row dirty_rows[] = {
	{{"a byte more than an answer", "it may be"},
	 S(8193, .dirty = true, .place = true),
	 BL_DIRTY_COPYBUF},
	{{"as long as an answer", "no"}, S(8192, .dirty = true, .place = true), BL_DIRTY_NOT},
	{{"one of a stream", "there all the same"},
	 S(32768, .dirty = true, .place = true, .pattern = BL_STREAM),
	 BL_DIRTY_COPYBUF},
	{{"far away", "one copy is better"}, S(40000, .dirty = true, .far = true), BL_DIRTY_NOT},
	{{"past the caches", "is looked at again"},
	 S(40000, .dirty = true, .place = true, .past = true),
	 BL_DIRTY_PAST},
	{{"a short ring, an answer", "a longer one would do"},
	 S(40000, .dirty = true, .pattern = BL_ANSWER, .long_ring = false),
	 BL_DIRTY_SHORT},
	{{"a short ring, in turns", "a longer one would do"},
	 S(40000, .dirty = true, .talks = true, .long_ring = false),
	 BL_DIRTY_SHORT},
	{{"a short ring", "of no use"}, S(40000, .dirty = true, .long_ring = false), BL_DIRTY_NOT},
	{{"no place, no answer", "announced"}, S(40000, .dirty = true), BL_DIRTY_NOT},
	{{"no place, an answer", "the ring"},
	 S(40000, .dirty = true, .pattern = BL_ANSWER),
	 BL_DIRTY_RING},
	{{"spent", "is judged again"},
	 S(40000, .dirty = true, .place = true, .spent = true),
	 BL_DIRTY_SPENT},
};

static void is_dirty(void **state)
{
	const struct dirty_row *row = TABLE_ROW(struct dirty_row, state);
	struct bl_limits l = limits_of(&sapphire, MIDDLING);

	assert_int_equal(bl_policy_dirty(&l, &row->s), row->dirty);
}

struct longer_row {
	struct row row;
	const struct bl_cpu *cpu;
	double call_ns;
	struct bl_situation s;
	bool wants;
};

static const struct longer_row longer_rows[] = {
	{{"dear, the longest", "one packet"}, &zen4, DEAR, S(L128, .long_ring = false), true},
	{{"dear, a byte more", "never"}, &zen4, DEAR, S(L128 + 1, .long_ring = false), false},
	{{"dear, eager", "goes as it is"}, &zen4, DEAR, S(14336, .long_ring = false), false},
	{{"dear, it is long", "it can't be longer"}, &zen4, DEAR, S(L128, .far = true), false},
	{{"dear, tight", "it may be longer"}, &zen4, DEAR, S(L128, .tight = true), true},
	{{"dear, gone", "it would be announced"},
	 &zen4,
	 DEAR,
	 S(L128, .long_ring = false, .there = BL_GONE),
	 false},
	{{"by keys", "it would be announced"},
	 &zen4,
	 DEAR,
	 S(L64 - 1, .long_ring = false, .one_copy = true),
	 false},
	{{"a stream", "is what it is for"},
	 &skylake,
	 MIDDLING,
	 S(32768, .long_ring = false, .pattern = BL_STREAM),
	 true},
	{{"a stream, a byte more", "no"},
	 &skylake,
	 MIDDLING,
	 S(32769, .long_ring = false, .pattern = BL_STREAM),
	 false},
	{{"an exchange", "no"}, &skylake, MIDDLING, S(8192, .long_ring = false), false},
	{{"an exchange that lacks a buffer", "up to an answer's length"},
	 &sapphire,
	 MIDDLING,
	 S(8192, .long_ring = false, .lacks_copybuf = true),
	 true},
	{{"the same, a byte more", "no"},
	 &sapphire,
	 MIDDLING,
	 S(8193, .long_ring = false, .lacks_copybuf = true),
	 false},
	{{"a stream, cheap", "one copy is as good"},
	 &skylake,
	 CHEAP,
	 S(4097, .long_ring = false, .pattern = BL_STREAM),
	 false},
};

static void wants_longer(void **state)
{
	const struct longer_row *row = TABLE_ROW(struct longer_row, state);
	struct bl_limits l = limits_of(row->cpu, row->call_ns);

	assert_int_equal(bl_policy_wants_longer(&l, &row->s), row->wants);
}

/* --- knobs -------------------------------------------------------------------- */

struct knob_row {
	struct row row;
	uint64_t eager_max, eager_long_max, inject, copybuf, chunk_max, split_min;
	/* what they make of Zen 4's limits where a call takes 600 ns */
	uint32_t eager, answer, injects, longest, dirty, piece, split;
	bool streamed;
};

#define AUTO   BL_KNOB_AUTO
#define COPIES 256 * KIB, 32 * KIB

static const struct knob_row knob_rows[] = {
	{{"none", "as measured"},
	 AUTO,
	 AUTO,
	 0,
	 0,
	 AUTO,
	 AUTO,
	 6144,
	 8192,
	 6144,
	 0,
	 256 * KIB,
	 COPIES,
	 false},
	{{"the least eager", "for answers, too"},
	 512,
	 AUTO,
	 0,
	 0,
	 AUTO,
	 AUTO,
	 512,
	 512,
	 512,
	 0,
	 256 * KIB,
	 COPIES,
	 false},
	{{"the most eager", "the same"},
	 14336,
	 AUTO,
	 1,
	 0,
	 AUTO,
	 AUTO,
	 14336,
	 14336,
	 14336,
	 0,
	 256 * KIB,
	 COPIES,
	 false},
	{{"inject as an answer", "which is longer"},
	 AUTO,
	 AUTO,
	 1,
	 0,
	 AUTO,
	 AUTO,
	 6144,
	 8192,
	 8192,
	 0,
	 256 * KIB,
	 COPIES,
	 false},
	{{"longer ones in a long ring", "near and far; nothing is dirty"},
	 AUTO,
	 50000,
	 0,
	 0,
	 AUTO,
	 AUTO,
	 6144,
	 8192,
	 6144,
	 50000,
	 0,
	 COPIES,
	 false},
	{{"none there", "nor what is dirty"},
	 AUTO,
	 0,
	 0,
	 0,
	 AUTO,
	 AUTO,
	 6144,
	 8192,
	 6144,
	 0,
	 0,
	 COPIES,
	 false},
	{{"always a copy buffer", "written piece by piece"},
	 AUTO,
	 AUTO,
	 0,
	 1,
	 AUTO,
	 AUTO,
	 6144,
	 8192,
	 6144,
	 0,
	 256 * KIB,
	 COPIES,
	 true},
	{{"never a copy buffer", "so nothing is dirty"},
	 AUTO,
	 AUTO,
	 0,
	 2,
	 AUTO,
	 AUTO,
	 6144,
	 8192,
	 6144,
	 0,
	 0,
	 COPIES,
	 false},
	{{"pieces, no page", "whole pages"},
	 AUTO,
	 AUTO,
	 0,
	 0,
	 5000,
	 AUTO,
	 6144,
	 8192,
	 6144,
	 0,
	 256 * KIB,
	 8192,
	 32 * KIB,
	 false},
	{{"split", "as said"},
	 AUTO,
	 AUTO,
	 0,
	 0,
	 AUTO,
	 1 << 30,
	 6144,
	 8192,
	 6144,
	 0,
	 256 * KIB,
	 256 * KIB,
	 1 << 30,
	 false},
};

static void knob_sets(void **state)
{
	const struct knob_row *row = TABLE_ROW(struct knob_row, state);
	struct bl_knobs knobs = no_knobs();
	struct bl_limits l;

	knobs.eager_max = row->eager_max;
	knobs.eager_long_max = row->eager_long_max;
	knobs.inject = row->inject;
	knobs.copybuf = row->copybuf;
	knobs.chunk_max = row->chunk_max;
	knobs.split_min = row->split_min;
	l = limits_with(&zen4, MIDDLING, &knobs);
	assert_int_equal(l.eager_max, row->eager);
	assert_int_equal(l.pingpong_max, row->answer);
	assert_int_equal(l.inject_max, row->injects);
	assert_int_equal(l.eager_long, row->longest);
	assert_int_equal(l.eager[BL_RING_LONG][BL_EXCHANGE][true],
			 row->longest ? row->longest : row->eager);
	assert_int_equal(l.dirty[false], row->dirty);
	assert_int_equal(l.chunk_half, row->piece);
	assert_int_equal(l.split_min, row->split);
	assert_int_equal(l.streamed, row->streamed);
}

struct buffer_row {
	struct row row;
	const struct bl_cpu *cpu;
	uint64_t copybuf; /* the knob */
	bool any, exchange_only;
};

static const struct buffer_row buffer_rows[] = {
	{{"auto, Zen 4", "all"}, &zen4, 0, true, false},
	{{"auto, Sapphire Rapids", "what crosses"}, &sapphire, 0, true, true},
	{{"auto, Skylake", "nothing"}, &skylake, 0, false, false},
	{{"always", "whoever answers"}, &skylake, 1, true, false},
	{{"never", "in the rings"}, &zen4, 2, false, false},
	{{"exchange", "only if both send at once"}, &zen4, 3, true, true},
};

static void who_has_copy_buffers(void **state)
{
	const struct buffer_row *row = TABLE_ROW(struct buffer_row, state);
	struct bl_knobs knobs = no_knobs();
	struct bl_copy_plan plan;

	knobs.copybuf = row->copybuf;
	bl_copy_plan_make(&plan, row->cpu, &(struct bl_copy_cost){DEAR, NS_KB}, &knobs);
	assert_int_equal(plan.copybuf, row->any);
	assert_int_equal(plan.exchange_only, row->exchange_only);
}

/* Of this machine. */
static void those_in_force_are_made_so(void **state)
{
	struct bl_limits l;

	(void)state;
	bl_limits_make(&l, bl_copy_plan(), bl_knobs());
	assert_memory_equal(&l, bl_limits(), sizeof l);
	assert_in_range(l.eager_max, 512, BL_EAGER_MOST);
	for (int ring = 0; ring < BL_RINGS; ring++)
		for (int pattern = 0; pattern < BL_PATTERNS; pattern++)
			for (int far = 0; far < 2; far++)
				assert_in_range(l.eager[ring][pattern][far], l.eager_max,
						BL_PACKET_MOST);
	assert_true(l.split_min > l.eager_max);
	assert_true(l.dirty[true] <= l.dirty[false] && l.dirty[false] <= BL_COPYBUF_MOST);
}

/* --- cutting ------------------------------------------------------------ */

struct cut_row {
	struct row row;
	size_t chunk_max, len, piece;
	uint32_t count;
	size_t half; /* 0: chunk_max */
};

static const struct cut_row cuts[] = {
	{{"one byte", "the piece is never 0"}, 262144, 1, PAGE, 1, 0},
	{{"a page", "can't be halved in pages"}, 262144, PAGE, PAGE, 1, 0},
	{{"a page and a byte", "two pieces, the second of one byte"}, 262144, PAGE + 1, PAGE, 2, 0},
	{{"two pages", "one each"}, 262144, 2 * PAGE, PAGE, 2, 0},
	{{"two pages and a byte", "the half is rounded up"}, 262144, 2 * PAGE + 1, 2 * PAGE, 2, 0},
	{{"twice the largest piece", "still halves"}, 262144, 524288, 262144, 2, 0},
	{{"a byte more", "a third piece of one byte"}, 262144, 524289, 262144, 3, 0},
	{{"64 MiB", "many of the largest"}, 262144, 64u << 20, 262144, 256, 0},
	{{"smallest piece", "the least that the knob takes"}, PAGE, 1u << 20, PAGE, 256, 0},
	{{"just fits", "as many pieces as the counter holds"},
	 PAGE,
	 65534ul * PAGE,
	 PAGE,
	 65534,
	 0},
	{{"doubled", "one more: the pieces grow beyond the largest"},
	 PAGE,
	 65535ul * PAGE,
	 2 * PAGE,
	 32768,
	 0},
	{{"2^62", "far more than any largest piece allows"},
	 PAGE,
	 (size_t)1 << 62,
	 (size_t)1 << 47,
	 32768,
	 0},
	{{"halves of the most", "two"}, 1u << 20, 524288, 262144, 2, 262144},
	{{"a byte more than those", "no halves, which would be longer"},
	 1u << 20,
	 524289,
	 262144,
	 3,
	 262144},
	{{"four halves", "and quarters, for once"}, 1u << 20, 1u << 20, 262144, 4, 262144},
	{{"2 MiB", "quarters"}, 1u << 20, 2u << 20, 524288, 4, 262144},
	{{"2 MiB and a byte", "of whole pages"},
	 1u << 20,
	 (2u << 20) + 1,
	 524288 + PAGE,
	 4,
	 262144},
	{{"4 MiB", "of the largest"}, 1u << 20, 4u << 20, 1u << 20, 4, 262144},
	{{"8 MiB", "more of those"}, 1u << 20, 8u << 20, 1u << 20, 8, 262144},
};

static void cut(void **state)
{
	const struct cut_row *row = TABLE_ROW(struct cut_row, state);
	struct bl_limits l = {.chunk_max = (uint32_t)row->chunk_max,
			      .chunk_half = (uint32_t)(row->half ? row->half : row->chunk_max)};
	uint32_t count = 0;
	size_t piece = bl_policy_cut(&l, row->len, &count);

	assert_int_equal(piece % PAGE, 0);
	assert_true((piece * (count - 1) < row->len && row->len - piece * (count - 1) <= piece));
	assert_true(piece == row->piece);
	assert_int_equal(count, row->count);
}

static void cut_covers_every_length(void **state)
{
	struct bl_limits l = {.chunk_max = 8 * PAGE, .chunk_half = 3 * PAGE};

	for (size_t len = 1; len < 40 * PAGE; len += len < 3 * PAGE ? 1 : 97) {
		uint32_t count;
		size_t piece = bl_policy_cut(&l, len, &count);

		assert_true(piece && piece <= l.chunk_max && piece % PAGE == 0);
		assert_true(piece * (count - 1) < len && len <= piece * count);
	}
}

/* --- what they are made of ----------------------------------------------------- */

struct far_row {
	struct row row;
	const struct bl_copy_cost *twice;
	struct bl_copy_cost once;
	size_t eager, carry, far;
};

#define PAST	&bl_cost_past
#define IN_TURN &bl_cost_copybuf

static const struct far_row fars[] = {
	{{"as measured", "24 KiB"}, PAST, {1242, 65}, 14336, 98304, 24576},
	{{"as measured, in turn", "40 KiB"}, IN_TURN, {1242, 65}, 14336, 98304, 40960},
	{{"dearer call", "32 KiB"}, PAST, {1500, 77}, 14336, 98304, 32768},
	{{"much dearer", "as far as anywhere"}, PAST, {9000, 65}, 14336, 98304, 98304},
	{{"cheap call", "no less than what is eager"}, PAST, {250, 65}, 14336, 98304, 14336},
	{{"cheap call, in turn", "the same"}, IN_TURN, {250, 65}, 14336, 98304, 14336},
	{{"dear bytes", "one copy never catches up"}, PAST, {1242, 234}, 14336, 98304, 98304},
	{{"nearly", "and it does so late"}, PAST, {1242, 233}, 14336, 98304, 98304},
	{{"dear bytes, in turn", "never"}, IN_TURN, {1242, 160}, 14336, 98304, 98304},
	{{"nothing carried", "anywhere"}, PAST, {1242, 65}, 14336, 0, 0},
	{{"less than eager", "by the knob"}, PAST, {1242, 65}, 14336, 4096, 4096},
};

static void carried_far(void **state)
{
	const struct far_row *row = TABLE_ROW(struct far_row, state);

	assert_int_equal(bl_limit_far(&row->once, row->twice, row->eager, row->carry), row->far);
}

struct written_row {
	struct row row;
	size_t cache, most;
};

static const struct written_row writtens[] = {
	{{"2 MiB", "four of the longest lie there"}, 2 << 20, 524288},
	{{"more", "no longer ones"}, 64 << 20, 524288},
	{{"a byte less", "whole pages"}, (2 << 20) - 1, 520192},
	{{"1 MiB", "four of half as much"}, 1 << 20, 262144},
	{{"512 KiB", "the least"}, 512 << 10, 131072},
	{{"less", "the least all the same"}, 256 << 10, 131072},
	{{"not known", "the least"}, 0, 131072},
};

static void just_written(void **state)
{
	const struct written_row *row = TABLE_ROW(struct written_row, state);

	assert_int_equal(bl_limit_dirty(row->cache), row->most);
}

int main(void)
{
	for (size_t i = 0; i < bl_knob_count; i++)
		unsetenv(bl_knob_table[i].variable);
	TABLE_ROWS("limit", up_to_the_limit, limit_rows);
	TABLE_ROWS("way", which_way, way_rows);
	TABLE_ROWS("near", near_enough, near_rows);
	TABLE_ROWS("dirty", is_dirty, dirty_rows);
	TABLE_ROWS("longer", wants_longer, longer_rows);
	TABLE_ROWS("knob", knob_sets, knob_rows);
	TABLE_ROWS("buffer", who_has_copy_buffers, buffer_rows);
	TABLE_TEST(those_in_force_are_made_so);
	TABLE_ROWS("cut", cut, cuts);
	TABLE_TEST(cut_covers_every_length);
	TABLE_ROWS("far", carried_far, fars);
	TABLE_ROWS("just written", just_written, writtens);
	return table_run("policy");
}
