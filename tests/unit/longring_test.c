/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * longring_test.c: who gets a longer ring (transport/local/adapt/longring.c), when, what happens
 * where there is no memory for one, and when it is given back.
 */
#include "unit/longring.h"

/* --- whose ring ------------------------------------------------------------- */

struct whose_row {
	struct row row;
	uint32_t uses;
	uint32_t others; /* that have one */
	bool lends;
	enum bl_copy_way pull;
	uint64_t room;
	int refused;
	bool longer;
	bool stays; /* short, for good */
};

#define MORE ((uint64_t)BL_LANE_LONG - BL_LANE_SIZE)
/* Of the memory that is left to a job its last MiB isn't taken, and as much as 64 take at a time.
 */
#define ENOUGH (64 * MORE + (1 << 20))

static const struct whose_row whose[] = {
	{{"unused", "no long packet yet"}, 0, 0, false, BL_COPY_VM, UINT64_MAX, 0, false, false},
	{{"hardly used", "one less than enough"},
	 BL_LONGRING_USES - 1,
	 0,
	 false,
	 BL_COPY_VM,
	 UINT64_MAX,
	 0,
	 false,
	 false},
	{{"used", "just enough"},
	 BL_LONGRING_USES,
	 0,
	 false,
	 BL_COPY_VM,
	 UINT64_MAX,
	 0,
	 true,
	 false},
	{{"the sixteenth", "the last one"}, 99, 15, false, BL_COPY_VM, UINT64_MAX, 0, true, false},
	{{"the seventeenth", "asked again later"},
	 99,
	 16,
	 false,
	 BL_COPY_VM,
	 UINT64_MAX,
	 0,
	 false,
	 false},
	{{"lends", "what is long is copied once"},
	 99,
	 0,
	 true,
	 BL_COPY_VM,
	 UINT64_MAX,
	 0,
	 false,
	 false},
	{{"ourselves", "one copy, by memcpy"},
	 99,
	 0,
	 false,
	 BL_COPY_SELF,
	 UINT64_MAX,
	 0,
	 false,
	 false},
	{{"refused copies", "all goes through the ring"},
	 99,
	 0,
	 false,
	 BL_COPY_NOTHING,
	 UINT64_MAX,
	 0,
	 true,
	 false},
	{{"memory limit", "just enough is left"}, 99, 0, false, BL_COPY_VM, ENOUGH, 0, true, false},
	{{"memory limit", "a byte is missing"},
	 99,
	 0,
	 false,
	 BL_COPY_VM,
	 ENOUGH - 1,
	 0,
	 false,
	 true},
	{{"no memory", "the kernel says so"},
	 99,
	 0,
	 false,
	 BL_COPY_VM,
	 UINT64_MAX,
	 ENOMEM,
	 false,
	 true},
	{{"old kernel", "it can't be asked for pages"},
	 99,
	 0,
	 false,
	 BL_COPY_VM,
	 UINT64_MAX,
	 EINVAL,
	 false,
	 true},
};

static void whose_ring(void **state)
{
	const struct whose_row *row = TABLE_ROW(struct whose_row, state);

	open_pair();
	peer()->copy.pull = row->pull;
	peer()->copy.needs_rkeys = row->lends;
	sender->local.longring.n = row->others;
	room = row->room;
	refused = row->refused;
	peer()->tx.nlong = row->uses;
	bl_longring_look(peer());
	room = UINT64_MAX;
	refused = 0;
	assert_int_equal(is_long(), row->longer);
	assert_int_equal(peer()->stays_short, row->stays);
	if (!row->longer)
		assert_int_equal(pages_from(BL_LANE_SIZE), 0);
	assert_int_equal(longring_bytes(), row->longer ? MORE : 0);
	sender->local.longring.n = is_long();
	lengthen(); /* what was missing may be there; what has it gets no more */
	assert_int_equal(longring_bytes(), is_long() ? MORE : 0);
	if (row->stays)
		assert_false(is_long());
	peer()->copy.needs_rkeys = false;
	node_close(&node);
}

/* The first message that could be one packet in a longer ring is; that ring grows once more when it
 * has been of use. */
static void at_once(void **state)
{
	uint32_t n;

	(void)state;
	cache = 1 << 20;
	open_pair();
	n = peer()->tx.next;
	for (uint32_t i = 0; peer()->tx.pay_most < BL_PAYLOAD_OF(BL_LANE_MOST); i++) {
		assert_in_range(i, 0, 100);
		post(LONGEST);
		send_by(EAGER_LONG, 1, i % 2 ? BL_DELIVERY_COMPLETE : 0);
		assert_true(peer()->tx.pay_most >= BL_PAYLOAD_OF(BL_LANE_LONG));
		assert_int_equal(op_of(n++), BL_OP_TAGGED);
		assert_int_equal(node_completion(&node, 0, NULL).len, EAGER_LONG);
		node_completion(&node, 1, NULL);
		check(EAGER_LONG);
		n = peer()->tx.next;
		if (i == 0)
			assert_int_equal(longring_bytes(), MORE);
	}
	assert_int_equal(longring_bytes(), BL_LANE_MOST - BL_LANE_SIZE);
	node_close(&node);
	cache = 512 << 10;
}

struct unused_row {
	struct row row;
	bool later;  /* than a second after */
	bool used;   /* since */
	bool unread; /* some of it is */
	bool offers; /* its copy buffer is the other's */
	bool free;
};

static const struct unused_row unused[] = {
	{{"unused", "it is another's now"}, .later = true, .free = true},
	{{"unused, soon", "it may be used again"}, .free = false},
	{{"used", "it is"}, .later = true, .used = true},
	{{"unread", "its reader hasn't had a turn"}, .later = true, .unread = true},
	{{"offered", "the other may write there"}, .later = true, .offers = true},
};

/* All have been given away when another neighbour, here the receiver to itself, has a use for one:
 * of those that have no use for theirs any more they are taken back. */
static void from_the_unused(void **state)
{
	const struct unused_row *row = TABLE_ROW(struct unused_row, state);
	uint64_t second = 1000000 * bl_ticks_per_us();
	struct bl_peer *other;

	open_pair();
	other = sender->dest[1];
	lengthen();
	assert_true(is_long());
	if (row->unread) {
		send_by(EAGER_LONG, 1, 0);
		peer()->longring_next = (uint16_t)peer()->tx.next;
	}
	if (row->used)
		send_by(8, 1, 0);
	peer()->tx.offers = row->offers;
	sender->local.longring.n = 16;
	sender->local.longring.at = bl_ticks() - (row->later ? 2 : 0) * second;
	other->tx.nlong = BL_LONGRING_USES;
	bl_longring_look(other);
	assert_int_equal(is_long(), !row->free);
	assert_int_equal(other->tx.pay_most > BL_PAYLOAD_SIZE, row->free);
	assert_int_equal(sender->local.longring.n, 16);
	if (row->free)
		assert_int_equal(pages_from(BL_LANE_SIZE), 0);
	peer()->tx.offers = false;
	for (uint32_t i = 0; i < 50; i++) { /* and the ring is used as it is now */
		size_t len = row->unread && !i ? EAGER_LONG : 3000;

		memset(to, 0xee, sizeof to);
		post(LONGEST);
		if (len == 3000 && !(row->used && !i))
			send_by(len, 1, 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, row->used && !i ? 8 : len);
		node_completion(&node, 1, NULL);
		check(row->used && !i ? 8 : len);
	}
	node_close(&node);
}

struct soon_row {
	struct row row;
	size_t len;
	uint32_t a_lap; /* packets of it */
};

static const struct soon_row soon[] = {
	{{"576", "64 fill a lap"}, 576, 64},
	{{"704", "52, and what is left of the lap is skipped"}, 704, 52},
	{{"4095", "the longest that aren't counted one by one"}, 4095, 9},
};

/* Messages that are too short to count by themselves: behind enough laps, whether or not progress
 * comes to look. */
static void soon_enough(void **state)
{
	const struct soon_row *row = TABLE_ROW(struct soon_row, state);
	uint32_t n = 0;

	open_pair();
	while (!is_long() && n < 100 * row->a_lap) {
		sender->watch.next_look = bl_ticks() + 1000000 * bl_ticks_per_us();
		post(LONGEST);
		send_by(row->len, 1, 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
		node_completion(&node, 1, NULL);
		n++;
	}
	assert_int_equal(n, BL_LONGRING_USES / BL_SHORT_LAP * row->a_lap + 1);
	node_close(&node);
}

/* Its memory and its place are given back when the neighbour ends. */
static void over_with_its_neighbour(void **state)
{
	struct bl_sink none = BL_SINK_NONE;
	unsigned char there[MORE / 4096];
	char *tail;

	(void)state;
	open_pair();
	lengthen();
	assert_true(is_long());
	assert_int_equal(sender->local.longring.n, 1);
	tail = (char *)peer()->tx.lane + BL_LANE_SIZE;
	assert_int_equal(mincore(tail, MORE, there), 0);
	for (size_t i = 0; i < sizeof there; i++)
		assert_true(there[i] & 1);
	bl_ep_peer_gone(sender, &none, peer(), ENOTCONN);
	assert_int_equal(sender->local.longring.n, 0);
	assert_int_equal(longring_bytes(), 0);
	assert_int_equal(mincore(tail, MORE, there), 0);
	for (size_t i = 0; i < sizeof there; i++)
		assert_false(there[i] & 1);
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("whose", whose_ring, whose);
	TABLE_TEST(at_once);
	TABLE_ROWS("unused", from_the_unused, unused);
	TABLE_ROWS("soon", soon_enough, soon);
	TABLE_TEST(over_with_its_neighbour);
	return run_longring("longring");
}
