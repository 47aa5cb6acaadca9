/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pattern_stream_test.c: longer rings where nothing is carried: who gets one, when it is used as a
 * short one again, and which messages go through it as one packet. Where messages are carried:
 * stretch_test, whole_test.
 */
#include <sys/resource.h>

#define EAGER_LONG 0u
#define LONGEST	   40000u
#include "base/knobs.h"
#include "unit/pair.h"
#include "unit/lane.h"
#include "unit/limits.h"

#define LONG BL_PAYLOAD_OF(BL_LANE_LONG)

uint64_t __wrap_bl_memlimit(void);
uint64_t __wrap_bl_memlimit(void)
{
	return UINT64_MAX;
}

/* Where messages are carried the longest rings are for such a one. */
size_t __wrap_bl_place_cache(void);
size_t __wrap_bl_place_cache(void)
{
	return 1 << 20;
}

/* As bl_deliver() does when a message has come, or doesn't. */
static void set_silent(struct bl_tx *tx, bool silent)
{
	tx->asked = (uint8_t)(tx->next - (silent ? BL_TURN + 1 : BL_TURN - 1));
	assert_int_equal(bl_tx_is_silent(tx), silent);
}

/* --- short and long in turns --------------------------------------------------- */

/* Whoever speaks, however much is in flight: it keeps its bytes, and room is found. */
static void short_and_long(void **state)
{
	uint32_t lengthened = 0, shortened = 0;
	uint64_t seed = 71;

	(void)state;
	for (uint32_t round = 0; round < 60 / TABLE_LESS; round++) {
		struct ring r = ring_at(UINT32_MAX - 3000);
		uint32_t length[BL_SLOTS], sent = 0, got = 0, drain = 1;

		bl_tx_lengthen(&r.tx, LONG, 0);
		for (uint32_t i = 0; i < 6000; i++) {
			uint64_t x = table_random(&seed);
			uint32_t most = round % 3 ? 32769 : 2048, was = r.tx.pay_size;
			uint32_t len = 289 + (uint32_t)(x >> 32) % (most - 289);

			if (i % 64 == 0) /* how quickly it is read */
				drain = (uint32_t)(x >> 20) % 5;
			set_silent(&r.tx, x >> 16 & 1);
			if (put(&r, sent, len))
				length[sent++ % BL_SLOTS] = len;
			else if (sent == got)
				fail_msg("no room for %u bytes in an empty ring", len);
			lengthened += r.tx.pay_size > was;
			shortened += r.tx.pay_size < was;
			assert_true(r.tx.pay_head - r.tx.pay_tail <= r.tx.pay_size);
			if (!drain && sent - got < BL_SLOTS && r.tx.limit != r.tx.next)
				continue;
			for (uint32_t k = (uint32_t)(x >> 8) % (2 * drain + 2); k && got < sent;
			     k--, got++)
				get(&r, got, length[got % BL_SLOTS]);
		}
		for (; got < sent; got++)
			get(&r, got, length[got % BL_SLOTS]);
		ring_drop(&r);
	}
	assert_in_range(lengthened, 200 / TABLE_LESS, UINT32_MAX);
	assert_in_range(shortened, 200 / TABLE_LESS, UINT32_MAX);
}

struct lap_row {
	struct row row;
	uint32_t unread; /* bytes before the packet at the ring's beginning */
	uint32_t len;	 /* of that one */
	bool silent, exact;
	bool is_short;
};

#define PACKET 4096u

static const struct lap_row laps[] = {
	{{"all read", "one by one"}, 0, PACKET, false, true, true},
	{{"skips some", "at the ring's end"}, 0, PACKET, false, false, true},
	{{"a stream", "needs a long one"}, 0, PACKET, true, true, false},
	{{"as much as a short one holds", "with the packet itself"},
	 BL_PAYLOAD_SIZE - PACKET,
	 PACKET,
	 false,
	 true,
	 true},
	{{"a byte more", "would be overwritten"},
	 BL_PAYLOAD_SIZE - PACKET,
	 PACKET + 1,
	 false,
	 true,
	 false},
	{{"a packet more", "would be overwritten"}, BL_PAYLOAD_SIZE, PACKET, false, true, false},
	{{"the longest", "of those that are best off in a short one"},
	 0,
	 BL_SHORT_MOST,
	 false,
	 true,
	 true},
	{{"a byte longer", "a short one holds few"}, 0, BL_SHORT_MOST + 1, false, true, false},
	{{"all of a short one", "its end is no place"}, 0, BL_PAYLOAD_SIZE, false, true, false},
};

/* The packet that begins a lap of the long ring. */
static void next_lap(void **state)
{
	const struct lap_row *row = TABLE_ROW(struct lap_row, state);
	struct ring r = ring_at(7);
	uint32_t n = 0, unread = row->unread / PACKET;

	bl_tx_lengthen(&r.tx, LONG, 0);
	assert_int_equal(r.tx.pay_at, BL_PAYLOAD_SIZE);
	while (n < (LONG - BL_PAYLOAD_SIZE) / PACKET - !row->exact) {
		set_silent(&r.tx, false);
		assert_true(put(&r, n++, PACKET));
		if (n > unread)
			get(&r, n - 1 - unread, PACKET);
	}
	if (!row->exact) { /* it leaves less than the next one takes */
		assert_true(put(&r, n, 2000));
		get(&r, n++, 2000);
	}
	atomic_store(&r.lane->consumed, r.rx.next);
	set_silent(&r.tx, row->silent);
	assert_int_equal(r.tx.pay_size, LONG);
	assert_true(put(&r, n, row->len));
	assert_int_equal(r.tx.pay_at, bl_round_up(row->len, BL_LINE));
	assert_int_equal(r.tx.pay_size, row->is_short ? BL_PAYLOAD_SIZE : LONG);
	ring_drop(&r);
}

/* --- who is alone ------------------------------------------------------------------ */

/* As on a machine where a system call takes 0.6 us, but for the eager limit. */
#define MIDDLE 8192u
#define STREAM 32768u

static void open_streams(void)
{
	assert_true(plan()->by_stream);
	limits_by_stream(MIDDLE, STREAM);
	open_pair();
}

static void stretch_for_stream(void)
{
	peer()->tx.short_of = BL_LONGRING_USES;
	bl_longring_look(peer());
	assert_int_equal(peer()->tx.pay_most, LONG);
}

/* One of ours is sent and received. */
static void one_out(size_t len)
{
	memset(to, 0xee, sizeof to);
	post(LONGEST);
	send_by(len, 1, 0);
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
	node_completion(&node, 1, NULL);
	check(len);
}

/* And one of the other's. */
static void one_back(size_t len)
{
	node_send(&node, 0, 1, from, len, 3, NULL, NODE_FLAGS);
	assert_int_equal(bl_recv_buf(sender, to, LONGEST, 0, 3, 0, to, NODE_FLAGS), 0);
	assert_int_equal(node_completion(&node, 1, NULL).len, len);
	node_completion(&node, 0, NULL);
}

struct back_row {
	struct row row;
	size_t len;
	bool alone;
};

static const struct back_row backs[] = {
	{{"nothing", "a word that all has come"}, 0, true},
	{{"the longest in a slot", "an answer, no stream"}, BL_SLOT_INLINE, true},
	{{"longer than a slot", "it has something to say"}, BL_SLOT_INLINE + 1, false},
	{{"announced", "what is copied once as well"}, LONGEST, false},
};

static void alone_until_one_comes(void **state)
{
	const struct back_row *row = TABLE_ROW(struct back_row, state);
	const struct bl_tx *tx;

	open_streams();
	tx = &peer()->tx;
	assert_true(bl_tx_is_alone(tx)); /* who hasn't heard of anybody */
	one_back(row->len);
	assert_int_equal(bl_tx_is_alone(tx), row->alone);
	if (!row->alone) {
		for (uint32_t i = 1; i < BL_STREAM_AFTER; i++) {
			one_out(i % 3 == 0 ? 289 : i % 3 == 1 ? MIDDLE : LONGEST);
			one_out(8); /* doesn't count */
			assert_false(bl_tx_is_alone(tx));
		}
		one_out(289);
	}
	assert_true(bl_tx_is_alone(tx));
	one_out(289);
	assert_true(bl_tx_is_alone(tx));
	node_close(&node);
}

/* --- which go whole ------------------------------------------------------------------ */

enum manner {
	SILENT,	 /* several in a row */
	CROSSES, /* none of them read when the other's was sent */
	ANSWERS,
};

struct goes_row {
	struct row row;
	bool is_long, alone;
	enum manner manner;
	size_t len;
	bool whole;
};

static const struct goes_row goes[] = {
	{{"short ring", "no room for a stream of them"}, false, true, SILENT, EAGER + 1, false},
	{{"stream", "the shortest"}, true, true, SILENT, EAGER + 1, true},
	{{"stream, longest", "whole"}, true, true, SILENT, STREAM, true},
	{{"stream, a byte more", "one copy is better"}, true, true, SILENT, STREAM + 1, false},
	{{"stream, first one", "behind an answer"}, true, true, CROSSES, STREAM, true},
	{{"answered in short", "one by one, no stream"}, true, true, ANSWERS, MIDDLE + 1, false},
	{{"burst", "the other has such ones, too"}, true, false, SILENT, MIDDLE, true},
	{{"burst, a byte more", "both copy some, once"}, true, false, SILENT, MIDDLE + 1, false},
	{{"crossing", "each copies one"}, true, false, CROSSES, MIDDLE, false},
	{{"crossing, shortest", "each copies one"}, true, false, CROSSES, EAGER + 1, false},
	{{"crossing, eager", "as ever"}, true, false, CROSSES, EAGER, true},
	{{"dialogue", "its receiver waits for it"}, true, false, ANSWERS, MIDDLE, true},
	{{"dialogue, a byte more", "its receiver copies it"},
	 true,
	 false,
	 ANSWERS,
	 MIDDLE + 1,
	 false},
};

static void goes_whole(void **state)
{
	const struct goes_row *row = TABLE_ROW(struct goes_row, state);
	uint32_t had;

	open_streams();
	if (row->is_long)
		stretch_for_stream();
	set_silent(&peer()->tx, row->manner == SILENT);
	peer()->tx.replies = row->manner == ANSWERS ? 7 : 0;
	peer()->tx.alone = row->alone ? BL_STREAM_AFTER : BL_STREAM_AFTER - 1;
	had = peer()->tx.next;
	send_by(row->len, 1, 0);
	assert_int_equal(BL_HEAD_OP(peer()->tx.slot[had % BL_SLOTS].head),
			 row->whole ? BL_OP_TAGGED : BL_OP_TAGGED_RTS);
	post(LONGEST);
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	node_completion(&node, 1, NULL);
	check(row->len);
	node_close(&node);
}

/* --- who gets a longer ring ------------------------------------------------------------ */

struct wants_row {
	struct row row;
	size_t len;
	uint32_t burst; /* sent before they are received; then an answer of `back` bytes */
	size_t back;
	bool is_long;
};

static const struct wants_row wanting[] = {
	{{"one by one", "each has room"}, EAGER, 1, EAGER, false},
	{{"one by one, long", "one copy"}, STREAM, 1, STREAM, false},
	{{"one by one, long, answered in short", "one copy"}, STREAM, 1, 8, false},
	{{"short ones", "no payload"}, BL_SLOT_INLINE, 60, 0, false},
	{{"few", "an answer follows"}, EAGER, 3, 0, false},
	{{"many", "more than a short ring holds"}, EAGER, 20, 0, true},
	{{"many, answered alike", "more than a short ring holds"}, EAGER, 20, EAGER, true},
	{{"a stream", "whole, had it room"}, STREAM, 20, 0, true},
	{{"too long", "for any ring"}, STREAM + 1, 20, 0, false},
	{{"windows both ways", "whole, had they room"}, MIDDLE, 20, MIDDLE, true},
	{{"long ones both ways", "one copy"}, MIDDLE + 1, 20, MIDDLE + 1, false},
};

static void gets_longer(void **state)
{
	const struct wants_row *row = TABLE_ROW(struct wants_row, state);

	open_streams();
	one_back(row->back);
	for (uint32_t i = 0; i < 60; i++) {
		uint32_t early = 0;

		for (uint32_t k = 0; k < row->burst; k++) {
			struct iovec iov = {from, row->len};
			struct bl_send send = {&iov, 1, 0, 9, 7, from, NODE_FLAGS, NULL};

			assert_int_equal(bl_send(sender, &send), 0);
			while (sender->txq.nactive) {
				post(LONGEST);
				assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
				early++;
				bl_txq_progress(sender);
			}
		}
		for (uint32_t k = early; k < row->burst; k++) {
			post(LONGEST);
			assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
		}
		for (uint32_t k = 0; k < row->burst; k++)
			node_completion(&node, 1, NULL);
		one_back(row->back);
	}
	assert_int_equal(peer()->tx.pay_most > BL_PAYLOAD_SIZE, row->is_long);
	if (!row->is_long)
		assert_false(bl_longring_look(peer()));
	node_close(&node);
}

struct buffer_row {
	struct row row;
	size_t len, back;
	bool exchange;
	bool copybuf, exchange_only;
	bool is_long;
};

/* Those who write to one place in turn need a longer ring to have one. */
static const struct buffer_row buffers[] = {
	{{"both at once", "through the ring"}, EAGER, EAGER, true, true, true, true},
	{{"both at once, announced", "they could go whole"},
	 MIDDLE,
	 MIDDLE,
	 true,
	 true,
	 true,
	 true},
	{{"both at once, too long", "one copy in any case"},
	 MIDDLE + 1,
	 MIDDLE + 1,
	 true,
	 true,
	 true,
	 false},
	{{"both at once, too short", "for that place"},
	 BL_EXCHANGE_MIN - 1,
	 BL_EXCHANGE_MIN - 1,
	 true,
	 true,
	 true,
	 false},
	{{"both at once, one of them short", "is no turn"}, EAGER, 8, true, true, true, false},
	{{"both at once, one of them too long", "is no turn"},
	 EAGER,
	 MIDDLE + 1,
	 true,
	 true,
	 true,
	 false},
	{{"in turn", "in the ring, if only what crosses"}, EAGER, EAGER, false, true, true, false},
	{{"in turn, too", "where that is quicker"}, EAGER, EAGER, false, true, false, true},
	{{"never", "nobody writes where the other has"}, EAGER, EAGER, true, false, false, false},
};

/* Without a completion, as that for one sent would be in the way. */
static void talk_back(size_t len)
{
	node_send(&node, 0, 1, from, len, 3, NULL, BL_TAGGED);
}

/* What it has sent may be over before. */
static size_t next_received(size_t at)
{
	struct bl_comp comp;

	do
		comp = node_completion(&node, at, NULL);
	while (comp.flags & BL_SEND);
	return comp.len;
}

static void gets_a_buffer(void **state)
{
	const struct buffer_row *row = TABLE_ROW(struct buffer_row, state);

	plan()->copybuf = row->copybuf;
	plan()->exchange_only = row->exchange_only;
	open_streams();
	peer()->tx.alone = 0;
	for (uint32_t i = 0; i < 40 * BL_LONGRING_USES; i++) {
		peer()->tx.past = 0; /* however long stores take here */
		send_by(row->len, 1, 0);
		if (row->exchange)
			talk_back(row->back);
		post(LONGEST);
		assert_int_equal(next_received(0), row->len);
		if (!row->exchange)
			talk_back(row->back);
		assert_int_equal(bl_recv_buf(sender, to, LONGEST, 0, 3, 0, to, NODE_FLAGS), 0);
		assert_int_equal(next_received(1), row->back);
		node_settle(&node, 0);
		node_settle(&node, 1);
		bl_longring_look(peer());
	}
	assert_int_equal(peer()->tx.pay_most > BL_PAYLOAD_SIZE, row->is_long);
	assert_int_equal(peer()->tx.copybuf != 0, row->is_long);
	assert_int_equal(atomic_load(&sender->local.stats->counter[BL_STAT_copybuf].value) != 0,
			 row->is_long);
	node_close(&node);
	plan()->copybuf = plan()->exchange_only = false;
}

struct often_row {
	struct row row;
	uint32_t others; /* laps of those who talk, for each of a stream */
	bool is_long;
};

static const struct often_row often[] = {
	{{"each", "a stream"}, 0, true},
	{{"each second one", "often enough"}, 1, true},
	{{"each third one", "now and then is never"}, 2, false},
	{{"each fourth one", "now and then is never"}, 3, false},
};

static void talk(size_t len)
{
	one_out(len);
	one_back(8);
}

static void all_is_told(void)
{
	node_settle(&node, 0);
	atomic_store(&peer()->tx.lane->consumed, peer()->tx.next);
}

/* Nine packets of it are a lap. */
static void now_and_then_is_never(void **state)
{
	const struct often_row *row = TABLE_ROW(struct often_row, state);

	open_streams();
	assert_int_equal(BL_PAYLOAD_SIZE, 9 * EAGER);
	for (uint32_t round = 0; round < 3 * BL_LONGRING_USES; round++) {
		for (uint32_t i = 0; i < 9 * row->others; i++)
			talk(EAGER);
		all_is_told();
		for (uint32_t i = 0; i < 9; i++)
			send_by(EAGER, 1, 0);
		for (uint32_t i = 0; i < 9; i++) {
			post(LONGEST);
			node_completion(&node, 0, NULL);
			node_completion(&node, 1, NULL);
		}
		all_is_told();
		bl_longring_look(peer());
	}
	assert_int_equal(peer()->tx.pay_most > BL_PAYLOAD_SIZE, row->is_long);
	node_close(&node);
}

/* What is mapped, of each neighbour, whether its ring is stretched or not. */
static void no_address_space(void **state)
{
	struct rlimit limit, was;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	if (was.rlim_max != RLIM_INFINITY)
		skip();
	limit = was;
	limit.rlim_cur = (rlim_t)1 << 60; /* more than there is, but one all the same */
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_int_equal(bl_longring_span(), BL_LANE_SIZE);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	assert_int_equal(bl_longring_span(),
			 was.rlim_cur == RLIM_INFINITY ? BL_LANE_LONG : BL_LANE_SIZE);
}

struct talk_row {
	struct row row;
	size_t len;
	uint64_t flags;
};

static const struct talk_row talks[] = {
	{{"eager", "bl_put_long"}, EAGER, 0},
	{{"to be delivered", "put_eager_long"}, EAGER, BL_DELIVERY_COMPLETE},
};

/* After a stream, who answers each other use a short ring from the next lap on. */
static void talks_in_a_short_one(void **state)
{
	const struct talk_row *row = TABLE_ROW(struct talk_row, state);
	uint32_t n = 0;

	open_streams();
	stretch_for_stream();
	assert_int_equal(peer()->tx.pay_size, LONG);
	for (; peer()->tx.pay_size == LONG && n < 2 * LONG / row->len; n++) {
		memset(to, 0xee, sizeof to);
		post(LONGEST);
		send_by(row->len, 1, row->flags);
		node_completion(&node, 0, NULL);
		node_completion(&node, 1, NULL);
		check(row->len);
		one_back(8);
	}
	assert_int_equal(n, (LONG - BL_PAYLOAD_SIZE) / row->len + 1);
	assert_int_equal(peer()->tx.pay_size, BL_PAYLOAD_SIZE);
	/* It is a longer one all the same: not to be stretched again, */
	((struct bl_knobs *)(uintptr_t)bl_knobs())->long_ring = 1; /* always */
	assert_false(bl_longring_look(peer()));
	((struct bl_knobs *)(uintptr_t)bl_knobs())->long_ring = 0;
	assert_int_equal(sender->local.longring.n, 1);
	/* there for the next stream, */
	peer()->tx.alone = BL_STREAM_AFTER;
	set_silent(&peer()->tx, true);
	peer()->tx.replies = 0;
	send_by(STREAM, 1, 0);
	assert_int_equal(sender->rndv.requests, 0);
	send_by(STREAM, 1, 0);
	assert_int_equal(peer()->tx.pay_size, LONG);
	peer()->tx.pay_size = BL_PAYLOAD_SIZE;
	/* and to be given back. */
	bl_longring_over(peer());
	assert_int_equal(sender->local.longring.n, 0);
	assert_int_equal(atomic_load(&sender->local.stats->counter[BL_STAT_longring_bytes].value),
			 0);
	peer()->tx.pay_most = BL_PAYLOAD_SIZE;
	node_close(&node);
}

/* A stream after such a talk has a long one from its next lap on, whether it finds room or not. */
static void keeps_up(void **state)
{
	uint32_t n = 0;

	(void)state;
	open_streams();
	stretch_for_stream();
	while (peer()->tx.pay_size == LONG && n++ < LONG / EAGER)
		talk(EAGER);
	assert_int_equal(peer()->tx.pay_size, BL_PAYLOAD_SIZE);
	for (n = 0; peer()->tx.pay_size != LONG && n < 3 * 9; n++)
		one_out(EAGER);
	assert_in_range(n, 1, 9 + 1);
	node_close(&node);
}

int main(void)
{
	fill_pattern();
	set_limits();
	unsetenv("FI_BEELINE_LONG_RING");
	TABLE_TEST(short_and_long);
	TABLE_ROWS("lap", next_lap, laps);
	TABLE_ROWS("back", alone_until_one_comes, backs);
	TABLE_ROWS("goes", goes_whole, goes);
	TABLE_ROWS("wants", gets_longer, wanting);
	TABLE_ROWS("buffer", gets_a_buffer, buffers);
	TABLE_ROWS("often", now_and_then_is_never, often);
	TABLE_TEST(no_address_space);
	TABLE_TEST(keeps_up);
	TABLE_ROWS("talks", talks_in_a_short_one, talks);
	return table_run("pattern_stream");
}
