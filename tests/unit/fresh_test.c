/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fresh_test.c: messages whose bytes their sender has just written (core/fresh.h): how a copy is
 * judged, what the sender makes of it, where such messages go then, and how they cease to be.
 */
#include "unit/fresh.h"

/* A longer lane is as long as any, whatever this machine has, or no longer than most. */
static size_t cache = 1 << 20;
size_t __wrap_bl_place_cache(void);
size_t __wrap_bl_place_cache(void)
{
	return cache;
}

/* Whether a full ring is waited for. */
static bool always_gives_room;
bool __real_bl_gives_room(const struct bl_peer *peer);
bool __wrap_bl_gives_room(const struct bl_peer *peer);
bool __wrap_bl_gives_room(const struct bl_peer *peer)
{
	return always_gives_room || __real_bl_gives_room(peer);
}

static void sends_past(size_t by, size_t len, uint8_t past)
{
	struct bl_tx *tx = &node.ep[by]->dest[!by]->tx;
	struct iovec iov = {from, len};
	struct bl_send send = {&iov, 1, !by, 9, 0, from, NODE_FLAGS, NULL};

	tx->past = past; /* however long stores take here, and calls */
	node.ep[by]->leaves = 0;
	assert_int_equal(bl_send(node.ep[by], &send), 0);
}

static void sends(size_t by, size_t len)
{
	sends_past(by, len, 0);
}

static void posts(size_t at)
{
	memset(to, 0xee, sizeof to);
	assert_int_equal(bl_recv_buf(node.ep[at], to, LONGEST, !at, 9, 0, to, NODE_FLAGS), 0);
}

static void has(size_t at, size_t len)
{
	assert_int_equal(node_completion(&node, at, NULL).len, len);
	check(len);
	assert_ptr_equal(node_completion(&node, !at, NULL).context, from);
}

static void receives(size_t at, size_t len)
{
	posts(at);
	has(at, len);
}

/* One of ours. */
static void one(size_t len)
{
	sends(1, len);
	receives(0, len);
}

/* --- judged, and told -------------------------------------------------------- */

/* A copy that takes as long as it says. */
static uint64_t takes_ms;
int __real_bl_copy_pull_by(struct bl_copy_pair *pair, const struct bl_key *key,
			   const struct iovec *mine, size_t nmine, const struct iovec *theirs,
			   size_t ntheirs, size_t off, size_t len);
int __wrap_bl_copy_pull_by(struct bl_copy_pair *pair, const struct bl_key *key,
			   const struct iovec *mine, size_t nmine, const struct iovec *theirs,
			   size_t ntheirs, size_t off, size_t len);
int __wrap_bl_copy_pull_by(struct bl_copy_pair *pair, const struct bl_key *key,
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
	plan()->fresh_ns = 100000000;
	one(LEN);
	assert_int_equal(peer()->tx.fresh, 0);
	takes_ms = 101;
	one(LEN);
	takes_ms = 0;
	assert_int_equal(peer()->tx.fresh, 1);
	node_close(&node);
}

struct judged_row {
	struct row row;
	size_t len, room; /* of the receive */
	bool self, quick;
	bool judged, fresh;
};

static const struct judged_row judged[] = {
	{{"a byte above what goes whole in a dialogue", "the shortest"},
	 MIDDLE + 1,
	 LONGEST,
	 .judged = true,
	 .fresh = true},
	{{"as much as goes whole", "its place is known"}, MIDDLE, LONGEST, .judged = false},
	{{"as much as a buffer holds", "the longest"},
	 FRESH,
	 LONGEST,
	 .judged = true,
	 .fresh = true},
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
	tx->fresh = 1;
	sends(1, row->len);
	memset(to, 0xee, sizeof to);
	post(row->room);
	if (row->room < row->len)
		node_error(&node, 0);
	else
		assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	check(bl_min(row->len, row->room));
	node_completion(&node, 1, NULL);
	assert_int_equal(tx->fresh, !row->judged ? 1 : row->fresh ? 2 : 0);
	node_close(&node);
}

/* A KiB may take a millisecond, and a call another; lines take no more than four. */
struct judge_row {
	struct row row;
	size_t want, len; /* KiB */
	uint64_t ms;
	bool others, lent;
	uint64_t verdict;
	uint8_t uses;
	bool near;
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
	{{"by the module", "says nothing"}, 64, 64, 100, .lent = true, .verdict = 0},
	{{"quick, used far away", "the program's time counts"},
	 64,
	 64,
	 65,
	 .verdict = BL_FIN_VERDICT,
	 .uses = BL_FRESH_AFTER},
	{{"quick, used not that often", "may be chance"},
	 64,
	 64,
	 65,
	 .verdict = BL_FIN_JUDGED,
	 .uses = BL_FRESH_AFTER - 1},
	{{"quick, used near by", "which costs nothing"},
	 64,
	 64,
	 65,
	 .verdict = BL_FIN_JUDGED,
	 .uses = BL_FRESH_AFTER,
	 .near = true},
	{{"slower than lines are, used", "its pages are new"},
	 64,
	 64,
	 257,
	 .verdict = BL_FIN_JUDGED,
	 .uses = BL_FRESH_AFTER},
};

static void judge_a_copy(void **state)
{
	const struct judge_row *row = TABLE_ROW(struct judge_row, state);
	struct bl_peer p = {.copy.pull = row->others ? BL_COPY_NOTHING : BL_COPY_VM};
	struct bl_transfer t = {.peer = &p, .want = row->want << 10, .theirs_lent.n = row->lent};

	open_fresh();
	plan()->fresh_ns = plan()->fresh_per_kb = 1000000;
	plan()->fresh_per_kb_most = 4000000;
	sender->uses = row->uses;
	p.tx.slow = row->near ? 0 : 7;
	bl_fresh_judge(sender, &t, row->len << 10, 77, 77 + 1000 * row->ms * bl_ticks_per_us());
	assert_int_equal(t.verdict, row->verdict);
	node_close(&node);
}

/* Whether a large message is used is seen by when the next one is posted or sent. */
struct use_row {
	struct row row;
	size_t len;
	uint64_t ns; /* that its user was away for */
	uint8_t had, uses;
};

#define KB100 102400u

static const struct use_row use[] = {
	{{"long", "each line was touched"}, KB100, 10000000, 0, 1},
	{{"just as long", "the same"}, KB100, 1000, 1, 2},
	{{"less", "nobody looks at it"}, KB100, 990, 2, 0},
	{{"often", "no more than that"}, KB100, 10000000, BL_FRESH_AFTER, BL_FRESH_AFTER},
	{{"short message", "of those nothing is known"}, MIDDLE, 10000000, 2, 2},
	{{"too long a message", "the same"}, FRESH + 1, 0, 2, 2},
};

static void seen_to_be_used(void **state)
{
	const struct use_row *row = TABLE_ROW(struct use_row, state);

	open_fresh();
	sender->uses = row->had;
	bl_fresh_got(sender, row->len);
	assert_int_equal(sender->got_at, 0); /* where that doesn't matter */
	plan()->deep = true;
	bl_fresh_got(sender, row->len);
	assert_int_equal(sender->got_at != 0, bl_fresh_may(row->len));
	if (sender->got_at) {
		uint64_t now = bl_ticks(), since = row->ns * bl_ticks_per_us() / 1000;

		sender->got_at = now - since;
		bl_fresh_back_at(sender, now);
	} else {
		bl_fresh_back(sender);
	}
	assert_int_equal(sender->uses, row->uses);
	assert_int_equal(sender->got_at, 0);
	node_close(&node);
}

/* What is posted or sent next ends the time that it may have been used in, if it is as large. */
static void used_until(void **state)
{
	static const size_t lens[] = {BL_CLAIM_MIN - 1, BL_CLAIM_MIN};

	(void)state;
	open_fresh();
	plan()->deep = true;
	copies_take_long(false);
	for (size_t i = 0; i < 2; i++) {
		one(KB100);
		assert_int_not_equal(receiver->got_at, 0);
		memset(to, 0xee, sizeof to);
		assert_int_equal(bl_recv_buf(receiver, to, lens[i], 1, 9, 0, to, NODE_FLAGS), 0);
		assert_int_equal(receiver->got_at == 0, i);
		sends(1, lens[i]);
		has(0, lens[i]);
		one(KB100);
		sends(0, lens[i]);
		assert_int_equal(receiver->got_at == 0, i);
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
	struct bl_peer p = {.index = 0};

	open_fresh();
	for (const char *at = row->fins; *at; at++)
		bl_fresh_told(&p, 40000,
			      *at == 'f'   ? BL_FIN_JUDGED | BL_FIN_FRESH
			      : *at == 'n' ? BL_FIN_JUDGED
					   : 0);
	/* of what can't be */
	bl_fresh_told(&p, MIDDLE, BL_FIN_JUDGED);
	bl_fresh_told(&p, FRESH + 1, BL_FIN_JUDGED);
	assert_int_equal(bl_is_fresh(sender, &p, 40000), row->is_fresh);
	assert_false(bl_is_fresh(sender, &p, MIDDLE));
	assert_false(bl_is_fresh(sender, &p, FRESH + 1));
	if (row->is_fresh)
		assert_int_equal(p.tx.fresh_left, BL_FRESH_MOST);
	node_close(&node);
}

/* A FIN that has no slot is a bit, which says nothing of that; the message is over all the same. */
static void told_by_a_bit(void **state)
{
	time_t deadline = time(NULL) + 60;
	struct bl_comp comp;
	int err;

	(void)state;
	open_fresh();
	peer()->tx.fresh = 2;
	sends(1, FRESH);
	while (!(err = bl_send_buf(receiver, "x", 1, 1, 3, 0, NULL, BL_TAGGED)))
		;
	assert_int_equal(err, -EAGAIN);
	memset(to, 0xee, sizeof to);
	post(LONGEST);
	while (bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL) == -EAGAIN)
		assert_true(time(NULL) < deadline);
	check(FRESH);
	assert_int_not_equal(atomic_load(&peer()->tx.lane->fins.some), 0);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	assert_int_equal(peer()->tx.fresh, 2);
	node_close(&node);
}

/* --- a FIN that makes no sense ------------------------------------------------ */

struct fin_row {
	struct row row;
	uint64_t data;
	int err;
};

static const struct fin_row fins[] = {
	{{"fresh, not judged", "no verdict"}, BL_FIN_FRESH, 0},
	{{"with an error", "the error counts"}, BL_FIN_VERDICT | EPERM, EPERM},
	{{"a bit that nobody knows", "an error"}, BL_FIN_VERDICT << 2, EIO},
};

static void fin_says(void **state)
{
	const struct fin_row *row = TABLE_ROW(struct fin_row, state);

	open_fresh();
	sends(1, FRESH);
	bl_control(receiver, receiver->dest[1], BL_OP_FIN, bl_request_number(request()), row->data,
		   NULL, 0);
	if (row->err)
		assert_int_equal(node_error(&node, 1).err, row->err);
	else
		assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	assert_int_equal(peer()->tx.fresh, row->data & BL_FIN_JUDGED && row->data & BL_FIN_FRESH);
	memset(to, 0xee, sizeof to);
	post(LONGEST);
	node_completion(&node, 0, NULL);
	node_close(&node);
}

/* --- where they go ------------------------------------------------------------- */

struct way_row {
	struct row row;
	/* A: one of ours of len bytes, received at once; B: one of the other's; a, b: 8 bytes each;
	 * X: both at once */
	const char *steps;
	const char *ways; /* of the long ones */
	size_t len;
	bool ours_isnt, others_isnt, is_short, laden, past, far, lent, leaves;
	bool posted;   /* before they are sent */
	uint32_t room; /* of the other's buffer; 0: for all of them */
	size_t turn;   /* bytes that go in turn near by, whatever is known of them */
	bool deep;
};

#define TURN 262144u

static const struct way_row ways[] = {
	{{"in turn", "each waits for the other's"}, "ABABABABABAB", "rrrrrpgggggg", .len = LEN},
	{{"the longest", "if both stay here, and have posted"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = FRESH,
	 .posted = true},
	{{"the longest, not posted", "would be copied three times"},
	 "ABABABABABAB",
	 "rrrrrprrrrrr",
	 .len = FRESH},
	{{"a byte less than can be claimed", "posted or not"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = BL_CLAIM_MIN - 1},
	{{"the shortest that can be claimed, one leaves", "the same"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = BL_CLAIM_MIN,
	 .posted = true,
	 .leaves = true},
	{{"the longest, one leaves", "is copied for one who computes"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = FRESH,
	 .posted = true,
	 .leaves = true},
	{{"crossing", "copied in as a whole"}, "XXXXXX", "rrrrrrpppppp", .len = LEN},
	{{"crossing, the longest", "both will have posted"},
	 "XXXXXX",
	 "rrrrrrpppppp",
	 .len = FRESH},
	{{"longer than the other's buffer", "all go to ours"},
	 "ABABABABABAB",
	 "rrrrrrgggggg",
	 .len = FRESH,
	 .posted = true,
	 .room = FRESH - 1},
	{{"as long as the other's buffer", "goes there"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = FRESH - 1,
	 .posted = true,
	 .room = FRESH - 1},
	{{"short answers", "through the ring"}, "AbAbAbAbAbAb", "rrrwww", .len = LEN},
	{{"short answers, 64 KiB", "the longest there"},
	 "AbAbAbAbAbAb",
	 "rrrwww",
	 .len = BL_CLAIM_MIN,
	 .posted = true},
	{{"short answers, a byte more", "is announced"},
	 "AbAbAbAbAbAb",
	 "rrrrrr",
	 .len = BL_CLAIM_MIN + 1,
	 .posted = true},
	{{"a stream", "nothing comes back"}, "AAAAAAAA", "rrrrrrrr", .len = LEN},
	{{"only ours", "the other's are announced"},
	 "ABABABABABAB",
	 "rrrrrrgrwrwr",
	 .len = LEN,
	 .others_isnt = true},
	{{"neither", "copied once"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"short lanes", "have no place yet"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .is_short = true},
	{{"laden", "it keeps enough"}, "ABABABABABAB", "rrrrrrrrrrrr", .len = LEN, .laden = true},
	{{"far away", "its stores pass the caches by"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .past = true},
	{{"far away", "by the time of a line"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .far = true},
	{{"far away, two copies are quicker there, too", "copied in as a whole"},
	 "ABABABABABAB",
	 "rrrrrppppppp",
	 .len = LEN,
	 .far = true,
	 .deep = true},
	{{"near by", "whether it was just written or not"},
	 "ABABABABABAB",
	 "rrrrrpgggggg",
	 .len = TURN,
	 .turn = TURN,
	 .posted = true,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"near by, crossing", "the same"},
	 "XXXXXX",
	 "rrrrrrpppppp",
	 .len = TURN,
	 .turn = TURN,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"near by, a byte more", "copied once"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = TURN + 1,
	 .turn = TURN,
	 .posted = true,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"near by, not posted", "would be copied three times"},
	 "ABABABABABAB",
	 "rrrrrprrrrrr",
	 .len = TURN,
	 .turn = TURN,
	 .ours_isnt = true,
	 .others_isnt = true},
	{{"near by, one leaves", "is copied for one who computes"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = TURN,
	 .turn = TURN,
	 .posted = true,
	 .ours_isnt = true,
	 .others_isnt = true,
	 .leaves = true},
	{{"far away, not just written", "copied once"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = TURN,
	 .turn = TURN,
	 .posted = true,
	 .ours_isnt = true,
	 .others_isnt = true,
	 .far = true,
	 .deep = true},
	{{"lent", "the module copies it once"},
	 "ABABABABABAB",
	 "rrrrrrrrrrrr",
	 .len = LEN,
	 .lent = true},
};

static void word(size_t by)
{
	node_send(&node, by, !by, "12345678", 8, 77, NULL, BL_TAGGED);
	assert_int_equal(bl_recv_buf(node.ep[!by], to, 8, by, 77, 0, to, NODE_FLAGS), 0);
	assert_int_equal(node_completion(&node, !by, NULL).len, 8);
}

/* One each, sent already. */
static void receive_both(size_t len)
{
	static uint8_t other[LONGEST];

	memset(to, 0xee, sizeof to);
	memset(other, 0xee, sizeof other);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(bl_recv_buf(node.ep[i], i ? other : to, LONGEST, !i, 9, 0, NULL,
					     NODE_FLAGS),
				 0);
	for (size_t i = 0; i < 4; i++) /* two sends, two receives */
		node_completion(&node, i % 2, NULL);
	check(len);
	assert_memory_equal(other, from, len);
}

static void which_way(void **state)
{
	const struct way_row *row = TABLE_ROW(struct way_row, state);
	char seen[32] = "";
	size_t n = 0;

	open_fresh();
	copies_take_long(true);
	plan()->turn_max = row->turn;
	plan()->deep = row->deep;
	waits_here = !row->leaves;
	if (!row->is_short)
		stretch_both();
	if (row->room) {
		node.ep[0]->dest[1]->tx.dialogue_room = row->room;
		node.ep[0]->dest[1]->stays_short = true;
	}
	for (const char *at = row->steps; *at; at++) {
		bool ours = *at == 'A' || *at == 'a' || *at == 'X';

		say_fresh(1, !row->ours_isnt);
		say_fresh(0, !row->others_isnt);
		for (size_t i = 0; i < 2; i++) {
			atomic_store(&node.ep[i]->local.seg.header->laden, row->laden);
			node.ep[i]->dest[!i]->laden = row->laden;
			node.ep[i]->dest[!i]->tx.slow = row->far ? 7 : 0;
			node.ep[i]->dest[!i]->copy.lend = row->lent;
		}
		if (*at == 'a' || *at == 'b') {
			word(ours);
			continue;
		}
		if (row->posted)
			posts(!ours);
		sends_past(ours, row->len, row->past);
		for (size_t i = 0; i < 2; i++)
			node.ep[i]->dest[!i]->copy.lend = false;
		seen[n++] = way_of_last(ours);
		if (*at == 'X') {
			sends_past(0, row->len, row->past);
			seen[n++] = way_of_last(0);
			receive_both(row->len);
		} else {
			if (!row->posted)
				posts(!ours);
			has(!ours, row->len);
		}
	}
	assert_string_equal(seen, row->ways);
	if (strpbrk(seen, "pg") && row->len >= BL_CLAIM_MIN)
		assert_int_equal(waits_for, row->len); /* and may be at using that */
	assert_int_equal(sender->requests + receiver->requests, 0);
	waits_here = true;
	node_close(&node);
}

/* What has been offered is too short: ours is offered, too, and that stays for what isn't. */
static void offered_too_little(void **state)
{
	static const struct {
		size_t len;
		uint32_t where;
	} steps[] = {{100000, BL_SLOT_YOURS}, {200000, BL_SLOT_OFFER}, {100000, BL_SLOT_YOURS}};

	(void)state;
	open_fresh();
	stretch_both();
	sender->dest[0]->stays_short = true; /* which offers first, and last */
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		for (uint32_t n = 0; n < 12; n++) {
			size_t by = n & 1;

			say_fresh(0, true);
			say_fresh(1, true);
			posts(!by);
			sends(by, steps[i].len);
			has(!by, steps[i].len);
		}
		assert_int_equal(way_of_last(0), 'g');
		assert_int_equal(way_of_last(1), 'g');
		assert_int_equal(BL_HEAD_FLAGS(last_head(0)) & (BL_SLOT_YOURS | BL_SLOT_OFFER),
				 steps[i].where);
	}
	node_close(&node);
}

/* One each, at once, and they go that way. */
static void cross(size_t len, char way)
{
	char seen[2];

	say_fresh(0, true);
	say_fresh(1, true);
	for (size_t by = 2; by--;) {
		sends(by, len);
		seen[by] = way_of_last(by);
	}
	receive_both(len);
	if (way) {
		assert_int_equal(seen[0], way);
		assert_int_equal(seen[1], way);
	}
}

/* No buffer is made longer for one that is announced all the same. */
static void not_for_nothing(void **state)
{
	struct bl_tx *tx;

	(void)state;
	open_fresh();
	stretch_both();
	tx = &peer()->tx;
	for (uint32_t i = 0; i < 4; i++) {
		say_fresh(1, true);
		tx->answered = true;
		tx->turns = BL_DIALOGUE_AFTER;
		tx->fresh_left = i == 0 ? 0 : BL_FRESH_MOST;
		waits_here = i != 1;
		atomic_store(&receiver->local.seg.header->laden, i == 2);
		posts(0);
		sends(1, FRESH);
		assert_int_equal(way_of_last(1), i < 3 ? 'r' : 'p');
		has(0, FRESH);
		assert_int_equal(tx->dialogue_room, i < 3 ? BL_DIALOGUE_SIZE : FRESH);
	}
	node_close(&node);
}

/* Both have offered what is too short then: each has its own back, and makes it longer. */
static void longer_ones_cross(void **state)
{
	struct bl_tx *ours, *its;
	uint32_t n;

	(void)state;
	open_fresh();
	stretch_both();
	ours = &sender->dest[0]->tx;
	its = &receiver->dest[1]->tx;
	for (n = 0; n < 20 && !(ours->offers && its->offers); n++)
		cross(100000, 0);
	assert_true(ours->offers && its->offers && ours->offer && its->offer);
	cross(FRESH + 1, 'r'); /* which is announced in any case */
	assert_true(ours->offers && its->offers && ours->offer && its->offer);
	cross(FRESH, 'r');
	for (n = 0; n < 5; n++)
		cross(FRESH, 'p');
	node_close(&node);
}

/* Its pieces come while they are copied out: it is taken in one go, now and then at least, for who
 * adds them may lose its processor. */
static uint32_t added, added_ns; /* bytes at a time, and how often */

static void *adds(void *arg)
{
	struct bl_slot *slot = arg;
	uint64_t since = bl_ticks();

	for (uint32_t there = atomic_load(&slot->there); there < FRESH; since = bl_ticks()) {
		there = bl_min(there + added, FRESH);
		while ((bl_ticks() - since) * 1000 < added_ns * bl_ticks_per_us())
			bl_cpu_relax();
		bl_slot_grow(slot, there);
	}
	return NULL;
}

/* The longest is in the buffer, and none of it is there yet. */
static struct bl_slot *send_growing(void)
{
	struct bl_tx *tx = &peer()->tx;
	struct bl_slot *slot = &tx->slot[tx->next % BL_SLOTS];

	tx->answered = true;
	tx->turns = BL_DIALOGUE_AFTER;
	tx->replies = 7;
	say_fresh(1, true);
	posts(0);
	sends(1, FRESH);
	assert_int_equal(way_of_last(1), 'g');
	bl_slot_grow(slot, 0);
	return slot;
}

struct added_row {
	struct row row;
	uint32_t at_a_time, ns; /* less than a receiver waits, and more than it copies for */
	bool in_one_go;
};

static const struct added_row addeds[] = {
	{{"pieces", "as any sender adds them"}, BL_GROWS_PIECE, 3500, true},
	{{"a little at a time", "nobody waits for that"}, 64, 500, false},
};

static void taken_as_it_grows(void **state)
{
	const struct added_row *row = TABLE_ROW(struct added_row, state);
	time_t deadline = time(NULL) + 20;
	uint32_t looks = 0, went = 0;

	added = row->at_a_time;
	added_ns = row->ns;
	/* Until one has gone, if that is how it is: others may run on these processors. */
	for (uint32_t i = 0; row->in_one_go ? !went && time(NULL) < deadline : i < 40 && looks < 20;
	     i++) {
		struct bl_comp comp;
		struct bl_slot *slot;
		uint32_t there, at_first;
		pthread_t other;
		bool late, all;

		open_fresh();
		stretch_both();
		slot = send_growing();
		assert_int_equal(pthread_create(&other, NULL, adds, slot), 0);
		while (!(at_first = bl_slot_there(slot, FRESH)))
			bl_cpu_relax();
		late = at_first > FRESH / 2; /* it is we who lost our processor */
		/* One look: all of it is taken, or it has been left, soon. */
		all = bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL) == 1;
		there = bl_slot_there(slot, FRESH);
		if (!all)
			comp = node_completion(&node, 0, NULL);
		went += !late && (all || (!row->in_one_go && there - at_first > FRESH / 4));
		looks += !late;
		assert_int_equal(comp.len, FRESH);
		check(FRESH);
		assert_int_equal(pthread_join(other, NULL), 0);
		node_completion(&node, 1, NULL);
		node_close(&node);
	}
	if (!row->in_one_go)
		assert_true(went <= looks / 2);
	else if (looks)
		assert_true(went);
}

/* --- how they cease to be ------------------------------------------------------ */

/* After many of them some are announced, and judged again. */
static void looked_at_again(void **state)
{
	uint32_t whole = 0, announced = 0;

	(void)state;
	open_fresh();
	stretch_both();
	for (uint32_t i = 0; i < 3 * (BL_FRESH_MOST + BL_FRESH_AFTER); i++) {
		one(LEN);
		if (way_of_last(1) == 'r')
			announced++;
		else
			whole++;
		word(0);
	}
	assert_int_equal(announced, 3 * BL_FRESH_AFTER);
	assert_int_equal(whole, 3 * BL_FRESH_MOST);
	copies_take_long(false);
	for (uint32_t i = whole = 0; i < 2 * BL_FRESH_MOST; i++) {
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
	assert_in_range(n, row->longer ? BL_STRETCH_USES : 100,
			row->longer ? BL_STRETCH_USES + 8 : 100);
	node_close(&node);
}

/* --- streams of large messages where they are carried -------------------------------- */

struct deep_row {
	struct row row;
	bool deep, far, hears, leaves, alone;
	bool is_short; /* its ring has no room for eight */
	size_t len;    /* 0: the least that can be claimed */
	/* s: one is sent, r: and one received */
	const char *steps;
	const char *ways; /* whole, or announced ("r") */
};

static const struct deep_row deeps[] = {
	{{"deep", "eight may be unread"}, .deep = true, .steps = "sssssssss", .ways = "wwwwwwwwr"},
	{{"deep, one read", "and those that are pending don't matter"},
	 .deep = true,
	 .steps = "sssssssssrs",
	 .ways = "wwwwwwwwrw"},
	{{"deep, little room", "none of them waits for room"},
	 .deep = true,
	 .is_short = true,
	 .len = 131072,
	 .steps = "sssss",
	 .ways = "wwrrr"},
	{{"deep, the longest", "as many"},
	 .deep = true,
	 .len = 131072,
	 .steps = "sssssssss",
	 .ways = "wwwwwwwwr"},
	{{"not deep", "two, and no more while one is pending"},
	 .steps = "ssssrrs",
	 .ways = "wwrrr"},
	{{"deep, but it hears from it", "both copy some"},
	 .deep = true,
	 .hears = true,
	 .steps = "sssrs",
	 .ways = "wwrr"},
	{{"deep, far away", "one copy is better"},
	 .deep = true,
	 .far = true,
	 .steps = "sssrs",
	 .ways = "wwrr"},
	{{"deep, the sender leaves", "it is copied for who computes"},
	 .deep = true,
	 .leaves = true,
	 .steps = "ss",
	 .ways = "rr"},
	{{"deep, the receiver has left", "the same"},
	 .deep = true,
	 .alone = true,
	 .steps = "ss",
	 .ways = "rr"},
};

static void streams_of_large_ones(void **state)
{
	const struct deep_row *row = TABLE_ROW(struct deep_row, state);
	struct bl_tx *tx;
	size_t len = row->len ? row->len : BL_CLAIM_MIN;
	struct iovec iov = {from, len};
	struct bl_send send = {&iov, 1, 0, 9, 0, from, NODE_FLAGS, NULL};
	char seen[16] = "";
	size_t sent = 0, got = 0;

	plan()->by_stream = plan()->crossing_only = false;
	plan()->in_turn = true;
	plan()->carry_max = plan()->carry_far = plan()->carry_turn = 131072;
	plan()->stream_max = 131072;
	plan()->fresh_max = plan()->turn_max = 0;
	plan()->deep = row->deep;
	bl_tx_here_ns = UINT32_MAX;
	cache = row->is_short ? 512 << 10 : 1 << 20;
	open_pair();
	cache = 1 << 20;
	stretch();
	tx = &peer()->tx;
	assert_int_equal(tx->pay_most > (1 << 20), !row->is_short);
	waits_here = !row->alone;
	always_gives_room = true;
	for (const char *at = row->steps; *at; at++) {
		if (*at == 'r') {
			receives(0, len);
			got++;
			continue;
		}
		tx->asked = (uint8_t)(tx->next - (row->hears ? BL_TURN - 1 : BL_TURN + 1));
		tx->slow = row->far ? 7 : 0;
		sender->leaves = row->leaves;
		assert_int_equal(bl_send(sender, &send), 0);
		sender->leaves = 0;
		seen[sent++] = way_of_last(1);
	}
	assert_string_equal(seen, row->ways);
	always_gives_room = false;
	for (waits_here = true; got < sent; got++)
		receives(0, len);
	assert_int_equal(sender->requests, 0);
	node_close(&node);
	plan()->by_stream = true;
	plan()->carry_max = plan()->carry_far = plan()->carry_turn = 0;
}

/* What is carried goes as it would, near and far, though longer ones are fresh. */
static void carried_is_not_fresh(void **state)
{
	struct bl_tx *tx;

	(void)state;
	open_fresh();
	node_close(&node);
	plan()->by_stream = plan()->crossing_only = false;
	plan()->carry_max = plan()->carry_turn = plan()->stream_max = 98304;
	plan()->carry_far = 40000;
	plan()->deep = true;
	open_pair();
	stretch();
	tx = &peer()->tx;
	for (int far = 0; far < 2; far++) {
		tx->slow = far ? 7 : 0;
		tx->fresh = BL_FRESH_AFTER;
		tx->fresh_left = 2;
		tx->asked = (uint8_t)(tx->next - 1); /* it has heard of the other */
		assert_false(bl_is_fresh(sender, peer(), 40000));
		assert_int_equal(bl_is_fresh(sender, peer(), 40001), far);
		assert_int_equal(bl_is_fresh(sender, peer(), 98304), far);
		assert_true(bl_is_fresh(sender, peer(), 98305));
		for (int n = 0; n < 4; n++) {
			one(32768);
			assert_int_equal(way_of_last(1), 'w');
			assert_int_equal(!(BL_HEAD_FLAGS(last_head(1)) & BL_SLOT_PAST), !far);
		}
		assert_int_equal(tx->fresh, BL_FRESH_AFTER);
		assert_int_equal(tx->fresh_left, 2);
	}
	node_close(&node);
	plan()->by_stream = true;
	plan()->carry_max = plan()->carry_far = plan()->carry_turn = 0;
}

int main(void)
{
	set_limits();
	unsetenv("FI_BEELINE_STRETCH");
	unsetenv("FI_BEELINE_TURNS");
	TABLE_ROWS("judged", one_judged, judged);
	TABLE_TEST(timed);
	TABLE_ROWS("judge", judge_a_copy, judge);
	TABLE_ROWS("use", seen_to_be_used, use);
	TABLE_TEST(used_until);
	TABLE_ROWS("told", told_in_a_row, told);
	TABLE_TEST(told_by_a_bit);
	TABLE_ROWS("FIN", fin_says, fins);
	TABLE_ROWS("way", which_way, ways);
	TABLE_TEST(offered_too_little);
	TABLE_TEST(not_for_nothing);
	TABLE_TEST(longer_ones_cross);
	TABLE_ROWS("added", taken_as_it_grows, addeds);
	TABLE_TEST(looked_at_again);
	TABLE_TEST(far_for_a_while);
	TABLE_TEST(stores_say_nothing);
	TABLE_ROWS("longer", worth_a_longer_lane, longer);
	TABLE_ROWS("deep", streams_of_large_ones, deeps);
	TABLE_TEST(carried_is_not_fresh);
	return table_run("fresh");
}
