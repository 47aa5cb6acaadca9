/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * copybuf_turns_test.c: the copy buffer behind a longer ring (transport/local/lane/ring.h), which
 * two who wait for each other's messages write to in turn: when it is offered, who may write there,
 * and when it is its owner's again. First two private halves alone, then two endpoints of one
 * process. Messages that are read there while they are written: grow_test.
 */
#include <errno.h>
#include <time.h>

#define EAGER_LONG 98304u
#define LONGEST	   100000u
#include "unit/pair.h"

uint64_t __wrap_bl_memlimit(void);
uint64_t __wrap_bl_memlimit(void)
{
	return UINT64_MAX;
}

/* --- the owner's half: when it is its own again -------------------------------------- */

struct heard_row {
	struct row row;
	bool offers;
	uint32_t flags;
	bool still;
};

static const struct heard_row hearings[] = {
	{{"an answer there", "it is its own again"}, true, BL_SLOT_CB_USE, false},
	{{"through the ring", "its sender hadn't read the offer"}, true, 0, true},
	{{"an offer", "of the other's buffer, the same"}, true, BL_SLOT_CB_GRANT, true},
	{{"none offered", "a message as any"}, false, 0, false},
};

static void is_freed(void **state)
{
	const struct heard_row *row = TABLE_ROW(struct heard_row, state);
	struct bl_slot slot = {.at = 4096};
	struct bl_tx tx = {.offers = row->offers};
	struct bl_rx rx = {.span = 21};

	bl_copybuf_heard(&tx, &rx, &slot, BL_HEAD(1000, BL_OP_TAGGED, row->flags));
	assert_int_equal(tx.offers, row->still);
	assert_int_equal(tx.offer, row->flags & BL_SLOT_CB_GRANT ? 4096 : 0);
	assert_true(tx.answered);
}

/* --- the other's half: what is offered ------------------------------------------------ */

#define END(span) BL_PAYLOAD_OF(1u << (span))

struct offer_row {
	struct row row;
	uint8_t span;
	uint32_t at, room, want;
	size_t longest; /* that goes there */
};

#define LAST(span, room) END(span) - (room), room, END(span) - (room), room
static const struct offer_row offers[] = {
	{{"longest lane", "the last bytes"}, 21, LAST(21, BL_COPYBUF_SIZE)},
	{{"lane for turns", "the last bytes"}, 20, LAST(20, BL_COPYBUF_MOST)},
	{{"long lane", "the last bytes"}, 19, LAST(19, BL_COPYBUF_SIZE)},
	{{"part of it", "a lane stretched less far than its file"}, 21, 4096, 8192, 4096, 8192},
	{{"all of it", "but what it can't begin with"}, 20, 1, END(20) - 1, 1, END(20) - 1},
	{{"beyond", "by one"}, 21, END(21) - BL_COPYBUF_SIZE + 1, BL_COPYBUF_SIZE, 0, 0},
	{{"longer", "by one"}, 20, END(20) - 8192, 8193, 0, 0},
	{{"longest", "the two together wouldn't show it"}, 21, 4096, UINT32_MAX - 4095, 0, 0},
	{{"at the end", "of what is mapped"}, 19, END(19), 8192, 0, 0},
	{{"no room", "it has some place, and no message goes there"}, 19, 4096, 0, 4096, 0},
	{{"far beyond", "the largest"}, 21, UINT32_MAX, 8192, 0, 0},
	{{"nothing", "it begins with the ring"}, 21, 0, 8192, 0, 0},
	{{"short lane", "there is none"}, 16, 4096, BL_COPYBUF_SIZE, 0, 0},
};

static void is_offered(void **state)
{
	const struct offer_row *row = TABLE_ROW(struct offer_row, state);
	struct bl_slot slot = {.at = row->at, .room = row->room};
	struct bl_rx rx = {.span = row->span};
	struct bl_tx tx = {.offer = 0};

	bl_copybuf_heard(&tx, &rx, &slot, BL_HEAD(1000, BL_OP_TAGGED, BL_SLOT_CB_GRANT));
	assert_int_equal(tx.offer, row->want);
	assert_int_equal(bl_copybuf_may(&tx, row->longest), row->want != 0);
	assert_false(bl_copybuf_may(&tx, row->longest + 1));
}

/* Where an answer lies, and how long it may be: its sender says, and may lie. */
struct answer_row {
	struct row row;
	bool offers;
	uint32_t room, len;
	bool there;
};

static const struct answer_row answers[] = {
	{{"shortest", "lies there"}, true, BL_COPYBUF_SIZE, BL_SLOT_INLINE + 1, true},
	{{"as long as the buffer", "the same"}, true, BL_COPYBUF_SIZE, BL_COPYBUF_SIZE, true},
	{{"longer", "its end lies beyond"}, true, BL_COPYBUF_SIZE, BL_COPYBUF_SIZE + 1, false},
	{{"longest", "the same"}, true, BL_COPYBUF_MOST, BL_COPYBUF_MOST, true},
	{{"longer than the longest", "the same"},
	 true,
	 BL_COPYBUF_MOST,
	 BL_COPYBUF_MOST + 1,
	 false},
	{{"as a head can say", "the same"}, true, BL_COPYBUF_MOST, 0xfffff, false},
	{{"not offered", "nothing does"}, false, BL_COPYBUF_SIZE, 1000, false},
};

static void is_answered(void **state)
{
	const struct answer_row *row = TABLE_ROW(struct answer_row, state);
	struct bl_lane *lane = (struct bl_lane *)4096; /* nobody looks */
	struct bl_tx tx = {
		.lane = lane, .offers = row->offers, .copybuf = 8192, .copybuf_room = row->room};
	const uint8_t *at = (const uint8_t *)lane + offsetof(struct bl_lane, payload) + 8192;

	assert_ptr_equal(bl_copybuf_bytes(&tx, row->len), row->there ? at : NULL);
}

/* What is announced is longer than what has been offered, or could have gone there. */
struct declined_row {
	struct row row;
	uint32_t offer, room;
	size_t len;
	uint32_t flags, then; /* what is offered */
};

static const struct declined_row declineds[] = {
	{{"too long", "its owner has it back"}, 4096, 8192, 8193, BL_SLOT_CB_USE, 0},
	{{"as long", "announced for another reason"}, 4096, 8192, 8192, 0, 4096},
	{{"nothing offered", "nothing to give back"}, 0, 8192, 8193, 0, 0},
};

static void is_declined(void **state)
{
	const struct declined_row *row = TABLE_ROW(struct declined_row, state);
	struct bl_tx tx = {.offer = row->offer, .offer_room = row->room};

	assert_int_equal(bl_copybuf_decline(&tx, row->len), row->flags);
	assert_int_equal(tx.offer, row->then);
}

/* --- two endpoints ------------------------------------------------------------------- */

#define LONG	 3000u	/* as any other short one; */
#define WHOLE	 6000u	/* as one that goes whole; */
#define GROWN	 20000u /* in pieces of GROWN_BY, which the other may copy out meanwhile */
#define GROWN_BY 4096u
#define SHORT	 16u

#define DEADLINE_S 20

struct talk_row {
	struct row row;
	/* A, B: a long message of either; a, b: a short one; R: B reads, S: A does; P: A reads
	 * without a receive, which it posts at the end */
	const char *steps;
	/* for each long message: r: in a ring, o: in A's buffer, p: in B's, y: an answer in the
	 * other's */
	const char *where;
	uint32_t len;
	bool pieces, no_buffer;
	bool told; /* its sender wants to hear of the delivery */
};

#define THREE	    "ARBSARBSARBS"
#define THREE_WHERE "rrrrrp"
#define FOUR	    "ABRSABRSABRSABRS"
#define FOUR_WHERE  "rrrrrrop"

static const struct talk_row talks[] = {
	{{"in turn", "whoever began answers"}, THREE "ARBSARBS", THREE_WHERE "ypyp", LONG, 0, 0, 0},
	{{"whole", "the same"}, THREE "ARBSARBS", THREE_WHERE "ypyp", WHOLE, 0, 0, 0},
	{{"whole, in pieces", "the same"}, THREE "ARBSARBS", THREE_WHERE "ypyp", WHOLE, 1, 0, 0},
	{{"grown", "the same"}, THREE "ARBSARBS", THREE_WHERE "ypyp", GROWN, 0, 0, 0},
	{{"grown, in pieces", "the same"}, THREE "ARBSARBS", THREE_WHERE "ypyp", GROWN, 1, 0, 0},
	{{"told", "the same"}, THREE "ARBSARBS", THREE_WHERE "ypyp", LONG, 0, 0, 1},
	{{"grown, told", "the same"}, THREE "ARBSARBS", THREE_WHERE "ypyp", GROWN, 1, 0, 1},
	{{"no buffer", "in the rings"}, THREE "ARBSARBS", "rrrrrrrrrr", LONG, 0, 1, 0},
	{{"both at once", "each in the other's, then in its own"},
	 FOUR "ABRSABRSABRS",
	 FOUR_WHERE "yyopyy",
	 LONG,
	 0,
	 0,
	 0},
	{{"a stream", "in the ring"}, "AAAARAAAARAAAAR", "rrrrrrrrrrrr", LONG, 0, 0, 0},
	{{"windows", "in the rings"},
	 "AABBRSAABBRSAABBRSAABBRS",
	 "rrrrrrrrrrrrrrrr",
	 LONG,
	 0,
	 0,
	 0},
	{{"two at once", "one goes there, and it is no dialogue any more"},
	 THREE "AARBBSARBS",
	 THREE_WHERE "yrpryr",
	 LONG,
	 0,
	 0,
	 0},
	{{"a short answer", "doesn't count"},
	 THREE "ARbSARBSARBS",
	 THREE_WHERE "yrpyp",
	 LONG,
	 0,
	 0,
	 0},
	{{"short questions", "the offer holds until a long one"},
	 THREE "aRBSaRBSARBS",
	 THREE_WHERE "rryr",
	 LONG,
	 0,
	 0,
	 0},
	{{"they cross", "what came was sent before the offer was seen"},
	 THREE "ABSRARBSA",
	 THREE_WHERE "yroyo",
	 LONG,
	 0,
	 0,
	 0},
	{{"kept, an offer", "an early one is copied, and the place is free"},
	 THREE "ARBPARBP",
	 THREE_WHERE "ypyp",
	 LONG,
	 0,
	 0,
	 0},
	{{"kept, an answer", "the same"}, FOUR "ABRPABRPABRP", FOUR_WHERE "yyopyy", LONG, 0, 0, 0},
	{{"not read", "it is the other's as long as that hasn't read the offer"},
	 THREE "ARBAARBSAR",
	 THREE_WHERE "yprrry",
	 LONG,
	 0,
	 0,
	 0},
};

/* Where only messages that cross go there. */
static const struct talk_row crossings[] = {
	{{"both at once", "each in the other's, then in its own"},
	 FOUR "ABRSABRSABRS",
	 FOUR_WHERE "yyopyy",
	 LONG,
	 0,
	 0,
	 0},
	{{"both at once, told", "the same"}, FOUR "ABRSABRS", FOUR_WHERE "yyop", LONG, 0, 0, 1},
	{{"both at once, told, shorter", "in the rings"},
	 FOUR "ABRSABRS",
	 "rrrrrrrrrrrr",
	 BL_EXCHANGE_MIN - 1,
	 0,
	 0,
	 1},
	{{"both at once, the shortest", "the same"},
	 FOUR "ABRSABRSABRS",
	 FOUR_WHERE "yyopyy",
	 BL_EXCHANGE_MIN,
	 0,
	 0,
	 0},
	{{"both at once, shorter", "in the rings"},
	 FOUR "ABRSABRSABRS",
	 "rrrrrrrrrrrrrr",
	 BL_EXCHANGE_MIN - 1,
	 0,
	 0,
	 0},
	{{"in turn", "in the rings, once that is known"},
	 THREE "ARBSARBSARBS",
	 THREE_WHERE "rrrrrr",
	 LONG,
	 0,
	 0,
	 0},
	{{"in turn after all", "in the rings, until they cross again"},
	 FOUR "ARBSARBSARBSARBSARBS"
	      "ABRSABRSABRSABRS",
	 FOUR_WHERE "yyoyoyrrrr"
		    "rrorryop",
	 LONG,
	 0,
	 0,
	 0},
};

struct side {
	struct bl_ep *ep;
	size_t at, other;
	uint64_t sent, got;
	uint32_t waiting; /* messages that it hasn't read, ... */
	size_t lens[32];  /* ... and of all that came to it */
};

static uint8_t bytes[2][32768], into[32768];

static struct bl_peer *other_of(const struct side *s)
{
	return s->ep->dest[s->other];
}

static const uint8_t *bytes_of(const struct side *s, uint64_t n)
{
	return bytes[s->at] + n * 64;
}

static char where_is_last(const struct side *s)
{
	const struct bl_tx *tx = &other_of(s)->tx;
	uint32_t flags = BL_HEAD_FLAGS(tx->slot[(tx->next - 1) % BL_SLOTS].head);

	if (flags & BL_SLOT_CB_USE)
		return 'y';
	if (!(flags & BL_SLOT_CB_GRANT))
		return 'r';
	return s->at ? 'p' : 'o';
}

static void says(struct side *s, struct side *other, size_t len, bool pieces, bool told)
{
	const uint8_t *at = bytes_of(s, s->sent);
	const struct iovec iov[] = {{(void *)(uintptr_t)at, len / 3},
				    {(void *)(uintptr_t)(at + len / 3), len - len / 3}};
	const struct bl_send send = {.iov = iov,
				     .niov = 2,
				     .dest = s->other,
				     .tag = s->sent,
				     .flags = BL_TAGGED | (told ? BL_DELIVERY_COMPLETE : 0)};

	if (pieces || told)
		assert_int_equal(bl_send(s->ep, &send), 0);
	else
		assert_int_equal(bl_send_buf(s->ep, at, len, s->other, s->sent, 0, NULL, BL_TAGGED),
				 0);
	s->sent++;
	other->lens[other->waiting + other->got] = len;
	other->waiting++;
}

static void takes(struct side *s, const struct side *other)
{
	time_t deadline = time(NULL) + DEADLINE_S;
	size_t len = s->lens[s->got];
	struct bl_comp comp;
	ssize_t n;

	memset(into, 0xee, len + 1);
	assert_int_equal(
		bl_recv_buf(s->ep, into, sizeof into, s->other, s->got, 0, into, NODE_FLAGS), 0);
	while ((n = bl_cq_read(node.cq[s->at], &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		assert_true(time(NULL) < deadline);
	assert_int_equal(n, 1);
	assert_int_equal(comp.len, len);
	assert_memory_equal(into, bytes_of(other, s->got), len);
	assert_int_equal(into[len], 0xee);
	s->got++;
	s->waiting--;
}

static void read_all(struct side *s, const struct side *other)
{
	while (s->waiting)
		takes(s, other);
}

static size_t count_of(const char *in, char what)
{
	size_t n = 0;

	for (; *in; in++)
		n += *in == what;
	return n;
}

/* Those that it counts. */
static uint64_t copybuf(const struct side *s)
{
	return atomic_load(&s->ep->local.stats->counter[BL_STAT_copybuf].value);
}

static void talk(const struct talk_row *row, bool exchange_only)
{
	struct side a = {.at = 0, .other = 1}, b = {.at = 1, .other = 0};
	char where[32] = "";
	size_t n = 0;

	open_pair();
	a.ep = node.ep[0];
	b.ep = node.ep[1];
	for (size_t i = 0; i < 2; i++) {
		struct bl_tx *tx = &node.ep[i]->dest[!i]->tx;

		tx->nlong = BL_LONGRING_USES;
		bl_longring_look(node.ep[i]->dest[!i]);
		assert_true(tx->pay_size > BL_PAYLOAD_SIZE && tx->copybuf == tx->pay_size);
		if (row->no_buffer)
			tx->copybuf = 0;
		tx->exchange_only = exchange_only;
	}
	for (const char *at = row->steps; *at; at++) {
		struct side *s = strchr("AaSP", *at) ? &a : &b;
		struct side *other = s == &a ? &b : &a;

		if (*at == 'R' || *at == 'S') {
			read_all(s, other);
		} else if (*at == 'P') {
			node_settle(&node, s->at);
		} else {
			other_of(s)->tx.past = 0; /* however long stores take here */
			says(s, other, *at == 'A' || *at == 'B' ? row->len : SHORT, row->pieces,
			     row->told && (*at == 'A' || *at == 'B'));
			if (*at == 'A' || *at == 'B')
				where[n++] = where_is_last(s);
		}
	}
	assert_string_equal(where, row->where);
	assert_int_equal(copybuf(&a) + copybuf(&b), n - count_of(where, 'r'));
	read_all(&a, &b);
	read_all(&b, &a);
	for (size_t i = 0; i < 2; i++) /* as it was stretched */
		node.ep[i]->dest[!i]->tx.copybuf = node.ep[i]->dest[!i]->tx.pay_size;
	node_close(&node);
}

static void take_turns(void **state)
{
	talk(TABLE_ROW(struct talk_row, state), false);
}

/* Found to be far away by the time of its stores: they pass the caches by. */
static void not_while_past(void **state)
{
	struct bl_tx tx = {.offer = 4096, .offer_room = 4096, .past = 1, .exchange_only = true};

	(void)state;
	assert_false(bl_copybuf_may(&tx, 4096));
	tx.past = 0;
	assert_true(bl_copybuf_may(&tx, 4096));
}

static void take_turns_if_they_cross(void **state)
{
	talk(TABLE_ROW(struct talk_row, state), true);
}

/* --- nonsense ------------------------------------------------------------------------ */

/* An answer in a place that was never offered. */
static void nonsense(void **state)
{
	struct bl_peer *at;

	(void)state;
	open_pair();
	post(LONG);
	at = peer();
	assert_int_equal(bl_send_buf(sender, from, LONG, 0, 9, 0, NULL, BL_TAGGED), 0);
	at->tx.slot[(at->tx.next - 1) % BL_SLOTS].head |= BL_HEAD(0, 0, BL_SLOT_CB_USE);
	assert_int_equal(node_error(&node, 0).err, EPROTO);
	assert_int_equal(to[0], 0xee);
	node_close(&node);
}

/* A second answer in a place that was offered once. */
static void answered_twice(void **state)
{
	struct bl_tx *tx;

	(void)state;
	open_pair();
	receiver->dest[1]->tx.offers = true;
	receiver->dest[1]->tx.copybuf = 0;
	receiver->dest[1]->tx.copybuf_room = LONG;
	post(LONG);
	post(LONG);
	tx = &peer()->tx;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(bl_send_buf(sender, from, LONG, 0, 9, 0, NULL, BL_TAGGED), 0);
		tx->slot[(tx->next - 1) % BL_SLOTS].head |= BL_HEAD(0, 0, BL_SLOT_CB_USE);
	}
	assert_int_equal(node_completion(&node, 0, NULL).len, LONG);
	assert_false(receiver->dest[1]->tx.offers);
	assert_int_equal(node_error(&node, 0).err, EPROTO);
	node_close(&node);
}

int main(void)
{
	set_limits();
	setenv("FI_BEELINE_LONG_RING", "auto", 1);
	setenv("FI_BEELINE_COPYBUF", "always", 1);
	for (size_t i = 0; i < sizeof bytes; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * 2654435761u >> 13);
	TABLE_ROWS("freed", is_freed, hearings);
	TABLE_ROWS("offered", is_offered, offers);
	TABLE_ROWS("answer", is_answered, answers);
	TABLE_ROWS("declined", is_declined, declineds);
	TABLE_ROWS("turns", take_turns, talks);
	TABLE_ROWS("crossing", take_turns_if_they_cross, crossings);
	TABLE_TEST(not_while_past);
	TABLE_TEST(nonsense);
	TABLE_TEST(answered_twice);
	return table_run("copybuf_turns");
}
