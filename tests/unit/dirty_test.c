/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dirty_test.c: messages whose bytes their sender has just written (transport/local/adapt/dirty.h):
 * how a copy is judged, what the sender makes of it, and how they cease to be.
 */
#include "unit/dirty.h"

/* --- judged, and told -------------------------------------------------------- */

/* A copy that takes as long as it says. */
static uint64_t takes_ms;
int __real_bl_copy_pull_by(struct bl_copy_pair *pair, const struct bl_rkey *key,
			   const struct iovec *mine, size_t nmine, const struct iovec *theirs,
			   size_t ntheirs, size_t off, size_t len);
int __wrap_bl_copy_pull_by(struct bl_copy_pair *pair, const struct bl_rkey *key,
			   const struct iovec *mine, size_t nmine, const struct iovec *theirs,
			   size_t ntheirs, size_t off, size_t len);
int __wrap_bl_copy_pull_by(struct bl_copy_pair *pair, const struct bl_rkey *key,
			   const struct iovec *mine, size_t nmine, const struct iovec *theirs,
			   size_t ntheirs, size_t off, size_t len)
{
	uint64_t until = bl_ticks() + takes_ms * 1000 * bl_ticks_per_us();

	while ((int64_t)(bl_ticks() - until) < 0)
		;
	return __real_bl_copy_pull_by(pair, key, mine, nmine, theirs, ntheirs, off, len);
}

/* It is the copy that is timed. */
static void timed(void **state)
{
	(void)state;
	open_fresh();
	limits()->dirty_ns = 100000000;
	one(LEN);
	assert_int_equal(peer()->tx.dirty, 0);
	takes_ms = 101;
	one(LEN);
	takes_ms = 0;
	assert_int_equal(peer()->tx.dirty, 1);
	node_close(&node);
}

struct judged_row {
	struct row row;
	size_t len, room; /* of the receive */
	bool self, quick;
	bool judged, dirty;
};

static const struct judged_row judged[] = {
	{{"a byte above what goes whole in a dialogue", "the shortest"},
	 MIDDLE + 1,
	 LONGEST,
	 .judged = true,
	 .dirty = true},
	{{"as much as goes whole", "its place is known"}, MIDDLE, LONGEST, .judged = false},
	{{"as much as a buffer holds", "the longest"},
	 FRESH,
	 LONGEST,
	 .judged = true,
	 .dirty = true},
	{{"a byte more", "has no place there"}, FRESH + 1, LONGEST, .judged = false},
	{{"cut to less", "what is copied counts"}, FRESH, MIDDLE, .judged = false},
	{{"to itself", "one copy, by memcpy"}, FRESH, LONGEST, .self = true, .judged = false},
	{{"quick", "its bytes are no news"}, FRESH, LONGEST, .quick = true, .judged = true},
};

static void one_judged(void **state)
{
	const struct judged_row *row = TABLE_ROW(struct judged_row, state);
	struct bl_tx *tx;

	open_fresh();
	tx = &peer()->tx;
	copies_take_long(!row->quick);
	if (row->self)
		receiver->dest[1]->copy.pull = BL_COPY_SELF;
	tx->dirty = 1;
	sends(1, row->len);
	memset(to, 0xee, sizeof to);
	post(row->room);
	if (row->room < row->len)
		node_error(&node, 0);
	else
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	check(bl_min(row->len, row->room));
	node_completion(&node, 1, NULL);
	assert_int_equal(tx->dirty, !row->judged ? 1 : row->dirty ? 2 : 0);
	node_close(&node);
}

/* A KiB may take a millisecond, and a call another; lines take no more than four. */
struct judge_row {
	struct row row;
	size_t want, len; /* KiB */
	uint64_t ms;
	bool others, rkeys;
	uint64_t verdict;
	uint8_t uses;
	bool near;
	size_t used_near; /* KiB */
};

static const struct judge_row judge[] = {
	{{"all, quick", "as long as it may take"}, 64, 64, 65, .verdict = BL_FIN_JUDGED},
	{{"all, slow", "a little longer"}, 64, 64, 66, .verdict = BL_FIN_VERDICT},
	{{"all, as slow as lines are", "a little less"}, 64, 64, 256, .verdict = BL_FIN_VERDICT},
	{{"all, slower", "its pages are new"}, 64, 64, 257, .verdict = BL_FIN_JUDGED},
	{{"half, quick", "the sender copied the rest"}, 64, 32, 33, .verdict = BL_FIN_JUDGED},
	{{"half, slow", "by what it copied itself"}, 64, 32, 34, .verdict = BL_FIN_VERDICT},
	{{"less", "says nothing"}, 64, 31, 100, .verdict = 0},
	{{"through the ring", "says nothing"}, 64, 64, 100, .others = true, .verdict = 0},
	{{"by the module", "says nothing"}, 64, 64, 100, .rkeys = true, .verdict = 0},
	{{"quick, used far away", "the program's time counts"},
	 64,
	 64,
	 65,
	 .verdict = BL_FIN_VERDICT,
	 .uses = BL_DIRTY_AFTER},
	{{"quick, used not that often", "may be chance"},
	 64,
	 64,
	 65,
	 .verdict = BL_FIN_JUDGED,
	 .uses = BL_DIRTY_AFTER - 1},
	{{"quick, used near by", "which costs nothing"},
	 64,
	 64,
	 65,
	 .verdict = BL_FIN_JUDGED,
	 .uses = BL_DIRTY_AFTER,
	 .near = true},
	{{"quick, used near by, where that costs something", "as far away"},
	 64,
	 64,
	 65,
	 .verdict = BL_FIN_VERDICT,
	 .uses = BL_DIRTY_AFTER,
	 .near = true,
	 .used_near = 64},
	{{"quick, used near by, longer than what costs something there", "one copy is as good"},
	 64,
	 64,
	 65,
	 .verdict = BL_FIN_JUDGED,
	 .uses = BL_DIRTY_AFTER,
	 .near = true,
	 .used_near = 63},
	{{"slower than lines are, used", "its pages are new"},
	 64,
	 64,
	 257,
	 .verdict = BL_FIN_JUDGED,
	 .uses = BL_DIRTY_AFTER},
};

static void judge_a_copy(void **state)
{
	const struct judge_row *row = TABLE_ROW(struct judge_row, state);
	struct bl_peer p = {.copy.pull = row->others ? BL_COPY_NOTHING : BL_COPY_VM};
	struct bl_recv_op t = {.peer = &p, .want = row->want << 10, .theirs_rkeys.n = row->rkeys};

	open_fresh();
	limits()->dirty_ns = limits()->dirty_per_kb = 1000000;
	limits()->dirty_per_kb_most = 4000000;
	limits()->used_near = (uint32_t)row->used_near << 10;
	sender->ways.used.in_row = row->uses;
	p.tx.slow = row->near ? 0 : 7;
	bl_dirty_judge(sender, &t, row->len << 10, 77, 77 + 1000 * row->ms * bl_ticks_per_us());
	assert_int_equal(t.verdict, row->verdict);
	node_close(&node);
}

/* Whether a large message is used is seen by when the next one is posted or sent. */
struct use_row {
	struct row row;
	size_t len;
	uint64_t ns; /* that its user was away for */
	uint8_t had, uses;
	bool far;
};

#define KB100 102400u

static const struct use_row use[] = {
	{{"long", "each line was touched"}, KB100, 10000000, 0, 1, false},
	{{"just as long", "the same"}, KB100, 1000, 1, 2, false},
	{{"less", "nobody looks at it"}, KB100, 990, 2, 0, false},
	{{"far away, long", "lines take longer"}, KB100, 3000, 1, 2, true},
	{{"far away, less", "the other was waited for"}, KB100, 2990, 2, 0, true},
	{{"often", "no more than that"}, KB100, 10000000, BL_DIRTY_AFTER, BL_DIRTY_AFTER, false},
	{{"short message", "of those nothing is known"}, MIDDLE, 10000000, 2, 2, false},
	{{"too long a message", "the same"}, FRESH + 1, 0, 2, 2, false},
};

static void seen_to_be_used(void **state)
{
	const struct use_row *row = TABLE_ROW(struct use_row, state);

	open_fresh();
	sender->ways.used.in_row = row->had;
	sender->dest[0]->tx.slow = row->far ? BL_FAR : 0;
	bl_dirty_got(sender, sender->dest[0], row->len);
	assert_int_equal(sender->ways.used.got_at, 0); /* where that doesn't matter */
	limits_dirty(FRESH, true);
	bl_dirty_got(sender, sender->dest[0], row->len);
	assert_int_equal(sender->ways.used.got_at != 0, bl_dirty_may(row->len));
	if (sender->ways.used.got_at) {
		uint64_t now = bl_ticks(), since = row->ns * bl_ticks_per_us() / 1000;

		sender->ways.used.got_at = now - since;
		bl_dirty_back_at(sender, now);
	} else {
		bl_dirty_back(sender);
	}
	assert_int_equal(sender->ways.used.in_row, row->uses);
	assert_int_equal(sender->ways.used.got_at, 0);
	node_close(&node);
}

/* What is posted or sent next ends the time that it may have been used in, if it is as large. */
static void used_until(void **state)
{
	static const size_t lens[] = {BL_PROXY_MIN - 1, BL_PROXY_MIN};

	(void)state;
	open_fresh();
	limits_dirty(FRESH, true);
	copies_take_long(false);
	for (size_t i = 0; i < 2; i++) {
		one(KB100);
		assert_int_not_equal(receiver->ways.used.got_at, 0);
		memset(to, 0xee, sizeof to);
		assert_int_equal(bl_recv_buf(receiver, to, lens[i], 1, 9, 0, to, NODE_FLAGS), 0);
		assert_int_equal(receiver->ways.used.got_at == 0, i);
		sends(1, lens[i]);
		has(0, lens[i]);
		one(KB100);
		sends(0, lens[i]);
		assert_int_equal(receiver->ways.used.got_at == 0, i);
		receives(1, lens[i]);
	}
	node_close(&node);
}

struct told_row {
	struct row row;
	const char *fins; /* fresh, not, or nothing of it */
	bool is_fresh;
};

static const struct told_row told[] = {
	{{"two", "may be chance"}, "ff", false},
	{{"three", "in a row"}, "fff", true},
	{{"many", "no more than that"}, "ffffffff", true},
	{{"with one between", "not in a row"}, "ffnff", false},
	{{"one that wasn't", "is believed at once"}, "fffn", false},
	{{"nothing said between", "changes nothing"}, "ff-f", true},
	{{"nothing said behind", "changes nothing"}, "fff-", true},
};

static void told_in_a_row(void **state)
{
	const struct told_row *row = TABLE_ROW(struct told_row, state);
	struct bl_peer p = {.setup.index = 0};

	open_fresh();
	for (const char *at = row->fins; *at; at++)
		bl_dirty_told(&p, 40000,
			      *at == 'f'   ? BL_FIN_JUDGED | BL_FIN_DIRTY
			      : *at == 'n' ? BL_FIN_JUDGED
					   : 0);
	/* of what can't be */
	bl_dirty_told(&p, MIDDLE, BL_FIN_JUDGED);
	bl_dirty_told(&p, FRESH + 1, BL_FIN_JUDGED);
	assert_int_equal(p.tx.dirty == BL_DIRTY_AFTER, row->is_fresh);
	if (row->is_fresh)
		assert_int_equal(p.tx.dirty_left, BL_DIRTY_MOST);
	node_close(&node);
}

/* A FIN that has no slot is a bit, which says nothing of that; the message is over all the same. */
static void told_by_a_bit(void **state)
{
	time_t deadline = time(NULL) + 60;
	struct bl_comp comp;

	(void)state;
	open_fresh();
	peer()->tx.dirty = 2;
	sends(1, FRESH);
	while (bl_tx_room(&receiver->dest[1]->tx))
		assert_int_equal(bl_send_buf(receiver, "x", 1, 1, 3, 0, NULL, BL_TAGGED), 0);
	memset(to, 0xee, sizeof to);
	post(LONGEST);
	while (bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL) == -EAGAIN)
		assert_true(time(NULL) < deadline);
	check(FRESH);
	assert_int_not_equal(atomic_load(&peer()->tx.lane->fins.some), 0);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	assert_int_equal(peer()->tx.dirty, 2);
	node_close(&node);
}

/* --- a FIN that makes no sense ------------------------------------------------ */

struct fin_row {
	struct row row;
	uint64_t data;
	int err;
};

static const struct fin_row fins[] = {
	{{"fresh, not judged", "no verdict"}, BL_FIN_DIRTY, 0},
	{{"with an error", "the error counts"}, BL_FIN_VERDICT | EPERM, EPERM},
	{{"a bit that nobody knows", "an error"}, BL_FIN_VERDICT << 2, EIO},
};

static void fin_says(void **state)
{
	const struct fin_row *row = TABLE_ROW(struct fin_row, state);

	open_fresh();
	sends(1, FRESH);
	bl_control(receiver, receiver->dest[1], BL_OP_FIN, bl_send_op_number(request()), row->data,
		   NULL, 0);
	if (row->err)
		assert_int_equal(node_error(&node, 1).err, row->err);
	else
		assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	assert_int_equal(peer()->tx.dirty, row->data & BL_FIN_JUDGED && row->data & BL_FIN_DIRTY);
	memset(to, 0xee, sizeof to);
	post(LONGEST);
	node_completion(&node, 0, NULL);
	node_close(&node);
}

/* --- how they cease to be ------------------------------------------------------ */

/* After many of them some are announced, and judged again. */
static void looked_at_again(void **state)
{
	uint32_t whole = 0, announced = 0;

	(void)state;
	open_fresh();
	stretch_both();
	for (uint32_t i = 0; i < 3 * (BL_DIRTY_MOST + BL_DIRTY_AFTER); i++) {
		one(LEN);
		if (way_of_last(1) == 'r')
			announced++;
		else
			whole++;
		word(0);
	}
	assert_int_equal(announced, 3 * BL_DIRTY_AFTER);
	assert_int_equal(whole, 3 * BL_DIRTY_MOST);
	copies_take_long(false);
	for (uint32_t i = whole = 0; i < 2 * BL_DIRTY_MOST; i++) {
		one(LEN);
		whole += way_of_last(1) != 'r';
		word(0);
	}
	assert_int_equal(whole, 0);
	node_close(&node);
}

/* Being far away is forgotten, unless it is found again. */
static void far_for_a_while(void **state)
{
	struct bl_tx *tx;

	(void)state;
	open_fresh();
	stretch_both();
	tx = &peer()->tx;
	for (uint32_t i = 0; i < 4; i++) { /* they talk */
		one(LEN);
		word(0);
	}
	say_fresh(1, true);
	tx->past = 20;
	for (uint32_t i = 0; i <= 20; i++) {
		sends_past(1, LEN, tx->past);
		assert_int_equal(way_of_last(1), i < 20 ? 'r' : 'w');
		receives(0, LEN);
		word(0);
	}
	node_close(&node);
}

/* Their stores take long near by, too, and say nothing of how far it is. */
static void stores_say_nothing(void **state)
{
	(void)state;
	open_fresh();
	stretch_both();
	atomic_store(&bl_tx_past_min, BL_TX_TIMED); /* far is who stores slowly */
	say_fresh(1, true);
	for (uint32_t i = 0; i < 6; i++) {
		peer()->tx.slow = BL_SLOW_ENOUGH - 1; /* the next one decides */
		one(LEN);
		assert_int_equal(peer()->tx.slow, BL_SLOW_ENOUGH - 1);
		word(0);
	}
	assert_int_equal(way_of_last(1), 'w');
	node_close(&node);
}

/* They are what a longer lane is for, too, if their receiver waits for them or sends some. */
struct longer_row {
	struct row row;
	const char *steps; /* as above, again and again */
	bool isnt, longer;
};

static const struct longer_row longer[] = {
	{{"short answers", "they have a place in its ring"}, "Ab", .longer = true},
	{{"in turn", "in the buffer behind that"}, "AB", .longer = true},
	{{"crossing", "the same"}, "X", .longer = true},
	{{"a stream", "is announced in any case"}, "A", .longer = false},
	{{"not fresh", "the same"}, "Ab", .isnt = true, .longer = false},
};

static void worth_a_longer_lane(void **state)
{
	const struct longer_row *row = TABLE_ROW(struct longer_row, state);
	uint32_t n;

	open_fresh();
	for (n = 0; peer()->tx.pay_most == BL_PAYLOAD_SIZE && n < 100; n++)
		for (const char *at = row->steps; *at; at++) {
			say_fresh(1, !row->isnt);
			if (*at == 'b') {
				word(0);
				continue;
			}
			sends(*at != 'B', LEN);
			if (*at == 'X') {
				sends(0, LEN);
				receive_both(LEN);
			} else {
				receives(*at == 'B', LEN);
			}
		}
	assert_in_range(n, row->longer ? BL_LONGRING_USES : 100,
			row->longer ? BL_LONGRING_USES + 8 : 100);
	node_close(&node);
}

int main(void)
{
	set_limits();
	unsetenv("FI_BEELINE_LONG_RING");
	unsetenv("FI_BEELINE_COPYBUF");
	TABLE_ROWS("judged", one_judged, judged);
	TABLE_TEST(timed);
	TABLE_ROWS("judge", judge_a_copy, judge);
	TABLE_ROWS("use", seen_to_be_used, use);
	TABLE_TEST(used_until);
	TABLE_ROWS("told", told_in_a_row, told);
	TABLE_TEST(told_by_a_bit);
	TABLE_ROWS("FIN", fin_says, fins);
	TABLE_TEST(looked_at_again);
	TABLE_TEST(far_for_a_while);
	TABLE_TEST(stores_say_nothing);
	TABLE_ROWS("longer", worth_a_longer_lane, longer);
	return table_run("dirty");
}
