/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * policy_test.c: transport/local/adapt/policy.h: the way of a message in each situation.
 */
#include "unit/machines.h"
#include "unit/table.h"

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

int main(void)
{
	forget_variables();
	TABLE_ROWS("way", which_way, way_rows);
	TABLE_ROWS("near", near_enough, near_rows);
	TABLE_ROWS("dirty", is_dirty, dirty_rows);
	TABLE_ROWS("longer", wants_longer, longer_rows);
	return table_run("policy");
}
