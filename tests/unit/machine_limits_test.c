/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * machine_limits_test.c: transport/local/adapt/policy.h: the longest message that goes each way,
 * for each kind of machine with a cheap and a dear system call.
 */
#include "unit/machines.h"
#include "unit/table.h"

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

int main(void)
{
	forget_variables();
	TABLE_ROWS("limit", up_to_the_limit, limit_rows);
	return table_run("machine_limits");
}
