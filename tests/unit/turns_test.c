/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * turns_test.c: the dialogue buffer behind a longer ring (local/ring.h), which two who wait for
 * each other's messages write to in turn: when it is offered, who may write there, and when it is
 * its owner's again. First two private halves alone, then two endpoints of one process.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#define CARRIED 98304u
#define LONGEST 100000u
#include "unit/ahead.h"

uint64_t __wrap_bl_room(void);
uint64_t __wrap_bl_room(void)
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
	{{"an answer there", "it is its own again"}, true, BL_SLOT_YOURS, false},
	{{"through the ring", "its sender hadn't read the offer"}, true, 0, true},
	{{"an offer", "of the other's buffer, the same"}, true, BL_SLOT_OFFER, true},
	{{"none offered", "a message as any"}, false, 0, false},
};

static void is_freed(void **state)
{
	const struct heard_row *row = TABLE_ROW(struct heard_row, state);
	struct bl_slot slot = {.at = 4096};
	struct bl_tx tx = {.offers = row->offers};
	struct bl_rx rx = {.span = 21};

	bl_dialogue_heard(&tx, &rx, &slot, BL_HEAD(1000, BL_OP_TAGGED, row->flags));
	assert_int_equal(tx.offers, row->still);
	assert_int_equal(tx.offer, row->flags & BL_SLOT_OFFER ? 4096 : 0);
	assert_true(tx.answered);
}

/* --- the other's half: what is offered ------------------------------------------------ */

#define END(span) BL_PAYLOAD_OF(1u << (span))

struct offer_row {
	struct row row;
	uint8_t span;
	uint32_t at, want;
};

static const struct offer_row offers[] = {
	{{"longest lane", "the last bytes"},
	 21,
	 END(21) - BL_DIALOGUE_SIZE,
	 END(21) - BL_DIALOGUE_SIZE},
	{{"long lane", "the last bytes"},
	 19,
	 END(19) - BL_DIALOGUE_SIZE,
	 END(19) - BL_DIALOGUE_SIZE},
	{{"part of it", "a lane stretched less far than its file"}, 21, 4096, 4096},
	{{"beyond", "by one"}, 21, END(21) - BL_DIALOGUE_SIZE + 1, 0},
	{{"at the end", "of what is mapped"}, 19, END(19), 0},
	{{"far beyond", "the largest"}, 21, UINT32_MAX, 0},
	{{"nothing", "it begins with the ring"}, 21, 0, 0},
	{{"short lane", "there is none"}, 16, 4096, 0},
};

static void is_offered(void **state)
{
	const struct offer_row *row = TABLE_ROW(struct offer_row, state);
	struct bl_slot slot = {.at = row->at};
	struct bl_rx rx = {.span = row->span};
	struct bl_tx tx = {.offer = 0};

	bl_dialogue_heard(&tx, &rx, &slot, BL_HEAD(1000, BL_OP_TAGGED, BL_SLOT_OFFER));
	assert_int_equal(tx.offer, row->want);
	assert_int_equal(bl_dialogue_may(&tx, 1000), row->want != 0);
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
	 BL_CROSSING_MIN - 1,
	 0,
	 0,
	 1},
	{{"both at once, the shortest", "the same"},
	 FOUR "ABRSABRSABRS",
	 FOUR_WHERE "yyopyy",
	 BL_CROSSING_MIN,
	 0,
	 0,
	 0},
	{{"both at once, shorter", "in the rings"},
	 FOUR "ABRSABRSABRS",
	 "rrrrrrrrrrrrrr",
	 BL_CROSSING_MIN - 1,
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

	if (flags & BL_SLOT_YOURS)
		return 'y';
	if (!(flags & BL_SLOT_OFFER))
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
static uint64_t in_turn(const struct side *s)
{
	return atomic_load(&s->ep->local.stats->counter[BL_STAT_in_turn].value);
}

static void talk(const struct talk_row *row, bool crossing_only)
{
	struct side a = {.at = 0, .other = 1}, b = {.at = 1, .other = 0};
	char where[32] = "";
	size_t n = 0;

	open_pair();
	a.ep = node.ep[0];
	b.ep = node.ep[1];
	for (size_t i = 0; i < 2; i++) {
		struct bl_tx *tx = &node.ep[i]->dest[!i]->tx;

		tx->nlong = BL_STRETCH_USES;
		bl_stretch_look(node.ep[i]->dest[!i]);
		assert_true(tx->pay_size > BL_PAYLOAD_SIZE && tx->dialogue == tx->pay_size);
		if (row->no_buffer)
			tx->dialogue = 0;
		tx->crossing_only = crossing_only;
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
	assert_int_equal(in_turn(&a) + in_turn(&b), n - count_of(where, 'r'));
	read_all(&a, &b);
	read_all(&b, &a);
	for (size_t i = 0; i < 2; i++) /* as it was stretched */
		node.ep[i]->dest[!i]->tx.dialogue = node.ep[i]->dest[!i]->tx.pay_size;
	node_close(&node);
}

static void take_turns(void **state)
{
	talk(TABLE_ROW(struct talk_row, state), false);
}

/* Found to be far away by the time of its stores: they pass the caches by. */
static void not_while_past(void **state)
{
	struct bl_tx tx = {.offer = 4096, .past = 1, .crossing_only = true};

	(void)state;
	assert_false(bl_dialogue_may(&tx, 4096));
	tx.past = 0;
	assert_true(bl_dialogue_may(&tx, 4096));
}

static void take_turns_if_they_cross(void **state)
{
	talk(TABLE_ROW(struct talk_row, state), true);
}

/* --- one that is being written -------------------------------------------------------- */

struct there_row {
	struct row row;
	uint32_t head, there;
	bool grows;
	uint32_t want;
};

#define HEAD(op, flags) BL_HEAD(10000, op, flags)

#define GROWS (BL_SLOT_GROWS | BL_SLOT_OFFER)

static const struct there_row theres[] = {
	{{"nothing", "it may begin with that"}, HEAD(BL_OP_TAGGED, GROWS), 0, true, 0},
	{{"part", "of any kind of message"}, HEAD(BL_OP_MSG, GROWS), 4096, true, 4096},
	{{"all", "its length"}, HEAD(BL_OP_TAGGED, GROWS), 10000, true, 10000},
	{{"more than all", "believed as far as there is any"},
	 HEAD(BL_OP_TAGGED, GROWS),
	 UINT32_MAX,
	 true,
	 10000},
	{{"doesn't say so", "it is all there"}, HEAD(BL_OP_TAGGED, BL_SLOT_YOURS), 0, false, 0},
	{{"elsewhere", "but for the dialogue buffers it has no meaning"},
	 HEAD(BL_OP_TAGGED, BL_SLOT_GROWS),
	 0,
	 false,
	 0},
	{{"longer than such a buffer", "the same"},
	 BL_HEAD(BL_DIALOGUE_SIZE + 1, BL_OP_TAGGED, GROWS),
	 0,
	 false,
	 0},
	{{"an RTS", "the bit says another thing"},
	 HEAD(BL_OP_TAGGED_RTS, BL_SLOT_LENT),
	 0,
	 false,
	 0},
	{{"in a slot", "where its bytes are"},
	 BL_HEAD(BL_SLOT_INLINE, BL_OP_TAGGED, GROWS),
	 0,
	 false,
	 0},
};

static void how_much_is_there(void **state)
{
	const struct there_row *row = TABLE_ROW(struct there_row, state);
	struct bl_slot slot[BL_SLOTS] = {{.seq = 1, .head = row->head, .there = row->there}};
	struct bl_rx rx = {.slot = slot};

	assert_int_equal(bl_slot_grows(row->head), row->grows);
	if (row->grows)
		assert_int_equal(bl_slot_there(slot, 10000), row->want);
	assert_int_equal(bl_rx_is_unfinished(&rx), row->grows && row->want < 10000);
	slot[0].seq = 0;
	assert_false(bl_rx_is_unfinished(&rx));
}

struct unfinished_row {
	struct row row;
	uint32_t there;
	bool posted, cancelled, dies;
	bool untagged; /* the general way */
	bool anybody;  /* its receive isn't for this sender alone */
	bool shown;    /* the sender sees it, and might claim it */
};

#define SHOWN 70000u /* at least BL_CLAIM_MIN */

static const struct unfinished_row unfinished[] = {
	{{"begun", "its receive waits"}, GROWN_BY, 1, 0, 0, 0, 0, 0},
	{{"begun, untagged", "the same"}, GROWN_BY, 1, 0, 0, 1, 0, 0},
	{{"nothing yet", "the same"}, 0, 1, 0, 0, 0, 0, 0},
	{{"nothing yet, untagged", "the same"}, 0, 1, 0, 0, 1, 0, 0},
	{{"all but one", "the same"}, GROWN - 1, 1, 0, 0, 0, 0, 0},
	{{"all but one, untagged", "the same"}, GROWN - 1, 1, 0, 0, 1, 0, 0},
	{{"no receive", "nor is it kept"}, GROWN_BY, 0, 0, 0, 0, 0, 0},
	{{"from anybody", "another may take that"}, GROWN_BY, 1, 0, 0, 0, 1, 0},
	{{"from anybody, untagged", "the same"}, GROWN_BY, 1, 0, 0, 1, 1, 0},
	{{"cancelled", "too late: written to"}, GROWN_BY, 1, 1, 0, 0, 0, 0},
	{{"cancelled, untagged", "the same"}, GROWN_BY, 1, 1, 0, 1, 0, 0},
	{{"its sender dies", "it was never sent"}, GROWN_BY, 1, 0, 1, 0, 0, 0},
	{{"its sender dies, untagged", "the same"}, GROWN_BY, 1, 0, 1, 1, 0, 0},
	{{"its sender dies", "nor is it kept"}, GROWN - 1, 0, 0, 1, 0, 0, 0},
	{{"shown", "its sender sees it no more"}, GROWN_BY, 1, 0, 0, 0, 0, 1},
	{{"shown, untagged", "the same"}, GROWN_BY, 1, 0, 0, 1, 0, 1},
	{{"shown, all but one", "the same"}, SHOWN - 1, 1, 0, 0, 0, 0, 1},
	{{"shown, nothing yet", "the same"}, 0, 1, 0, 0, 0, 0, 1},
	{{"shown, from anybody", "it is waited for"}, GROWN_BY, 1, 0, 0, 0, 1, 1},
	{{"shown, cancelled", "too late: written to"}, GROWN_BY, 1, 1, 0, 0, 0, 1},
	{{"cancelled, from anybody", "it comes early then"}, GROWN_BY, 1, 1, 0, 0, 1, 0},
	{{"cancelled, nothing yet", "the same"}, 0, 1, 1, 0, 0, 0, 0},
	{{"cancelled, nothing yet, untagged", "the same"}, 0, 1, 1, 0, 1, 0, 0},
	{{"shown, cancelled, nothing yet", "the same"}, 0, 1, 1, 0, 0, 0, 1},
	{{"shown, cancelled, from anybody", "the same"}, GROWN_BY, 1, 1, 0, 0, 1, 1},
	{{"shown, its sender dies", "it was never sent"}, GROWN_BY, 1, 0, 1, 0, 0, 1},
};

static size_t length_of(const struct unfinished_row *row)
{
	return row->shown ? SHOWN : GROWN;
}

static void post_grown(const struct unfinished_row *row)
{
	uint64_t flags = row->untagged ? BL_COMPLETION | BL_MSG : NODE_FLAGS;

	assert_int_equal(bl_recv_buf(receiver, to, length_of(row), row->anybody ? BL_ADDR_ANY : 1,
				     9, 0, to, flags),
			 0);
}

static const struct bl_post *first_post(bool untagged)
{
	return untagged ? receiver->msg.head : receiver->tagged.head;
}

/* A message of len bytes that grows is in the ring. */
static struct bl_slot *send_grown(size_t len, bool untagged)
{
	struct bl_tx *tx = &peer()->tx;
	struct bl_slot *slot;

	peer()->tx.nlong = BL_STRETCH_USES;
	bl_stretch_look(peer());
	tx->answered = true;
	tx->turns = BL_DIALOGUE_AFTER;
	slot = &tx->slot[tx->next % BL_SLOTS];
	/* Whether it may go whole doesn't matter here. */
	assert_int_equal(bl_put_flags(sender, 0, from, len, 9, 0, untagged ? BL_MSG : BL_TAGGED),
			 0);
	assert_true(bl_slot_grows(slot->head));
	assert_int_equal(slot->there, len);
	return slot;
}

/* Its sender has been stopped in its midst: as if it hadn't come, and nobody waits long for it. */
static void is_unfinished(void **state)
{
	const struct unfinished_row *row = TABLE_ROW(struct unfinished_row, state);
	struct bl_sink none = BL_SINK_NONE;
	bool begun = row->posted && row->there && !row->anybody;
	size_t len = length_of(row);
	struct bl_comp_err err;
	struct bl_slot *slot;
	struct bl_comp comp;

	open_pair();
	slot = send_grown(len, row->untagged);
	bl_slot_grow(slot, row->there);
	receiver->leaves = 0;			     /* to post it isn't to look for it */
	receiver->dest[0]->copy.pull = BL_COPY_SELF; /* the sender is the only neighbour */
	if (row->posted)
		post_grown(row);
	if (row->shown)
		assert_true(first_post(row->untagged)->flags & BL_POST_SHARED);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
	if (row->shown)
		assert_int_equal(first_post(row->untagged)->flags & BL_POST_SHARED,
				 row->anybody ? BL_POST_SHARED : 0);
	/* Who would sleep only naps: nothing that is there is to be read. */
	assert_int_equal(bl_local_doze(&receiver->local, BL_SLEEP_SOCKET, NULL), -EOPNOTSUPP);
	/* No more is in its receive than is there, and nothing in one that others may meet. */
	for (size_t i = row->anybody ? 0 : row->there; i < len; i++)
		assert_int_equal(to[i], 0xee);
	if (row->anybody && !row->cancelled) { /* another's message takes it meanwhile */
		assert_int_equal(bl_inject(receiver, from, SHORT, 0, 9, 0,
					   row->untagged ? BL_MSG : BL_TAGGED),
				 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, SHORT);
		for (size_t i = SHORT; i < len; i++)
			assert_int_equal(to[i], 0xee);
	}
	assert_int_equal(receiver->dest[1]->rx.next, peer()->tx.next - 1);
	if (row->posted && first_post(row->untagged))
		assert_int_equal(first_post(row->untagged)->flags & BL_POST_BEGUN,
				 begun ? BL_POST_BEGUN : 0);
	if (row->dies) {
		bl_ep_peer_gone(receiver, &none, receiver->dest[1], ECONNRESET);
		if (row->posted) {
			assert_int_equal(bl_cq_readerr(node.cq[0], &err), 1);
			assert_int_equal(err.err, ECONNRESET);
		}
		assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
		node_close(&node);
		return;
	}
	if (row->cancelled && begun) {
		assert_int_equal(bl_cancel(receiver, to), -ENOENT);
	} else if (row->cancelled) {
		assert_int_equal(bl_cancel(receiver, to), 0);
		assert_int_equal(node_error(&node, 0).err, ECANCELED);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(to[i], 0xee);
	}
	bl_slot_grow(slot, (uint32_t)len);
	if (row->cancelled && begun) /* nor when it is whole, and hasn't been seen to be */
		assert_int_equal(bl_cancel(receiver, to), -ENOENT);
	if (!row->posted || row->anybody || (row->cancelled && !begun)) {
		node_settle(&node, 0);
		post_grown(row);
	}
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
	check(len);
	node_close(&node);
}

/* A sender that thinks better of what it has begun doesn't keep the receive for ever. */
static void begun_for_nothing(void **state)
{
	struct bl_slot *slot;
	struct bl_comp comp;

	(void)state;
	open_pair();
	slot = send_grown(GROWN, false);
	bl_slot_grow(slot, GROWN_BY);
	post(GROWN);
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
	assert_int_equal(bl_cancel(receiver, to), -ENOENT);
	slot->tag = 10;
	assert_int_equal(bl_cancel(receiver, to), 0);
	assert_int_equal(node_error(&node, 0).err, ECANCELED);
	node_close(&node);
}

/* What is posted behind the receive of an unfinished message, and could take it, isn't shown before
 * that has come; nor is that one again, which would seem to be the later one. */
static void posted_behind(void **state)
{
	const struct unfinished_row row = {.shown = true};
	static uint8_t behind[SHOWN];
	struct bl_slot *slot;
	struct bl_comp comp;
	uint64_t since;

	(void)state;
	open_pair();
	slot = send_grown(SHOWN, false);
	bl_slot_grow(slot, GROWN_BY);
	post_grown(&row);
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
	assert_int_equal(
		bl_recv_buf(receiver, behind, SHOWN, 1, 9, 0, behind, BL_TAGGED | BL_COMPLETION),
		0);
	/* Longer than it takes until what couldn't be shown is looked at again. */
	for (since = bl_ticks(); bl_ticks() - since < 200 * bl_ticks_per_us();) {
		assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
		assert_false(first_post(false)->flags & BL_POST_SHARED);
		assert_false(first_post(false)->next->flags & BL_POST_SHARED);
	}
	bl_slot_grow(slot, SHOWN);
	comp = node_completion(&node, 0, NULL);
	assert_ptr_equal(comp.context, to);
	check(SHOWN);
	for (since = bl_ticks(); !(first_post(false)->flags & BL_POST_SHARED);) {
		assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
		assert_true(bl_ticks() - since < 10000000 * bl_ticks_per_us());
	}
	node_close(&node);
}

/* Its bytes come while they are copied out, and a pause now and then outlasts the receiver's
 * patience. */
static void *add_the_rest(void *arg)
{
	struct bl_slot *slot = arg;
	uint8_t *at = peer()->tx.lane->payload + peer()->tx.dialogue;
	uint32_t there = atomic_load(&slot->there), n;
	uint64_t since = bl_ticks();

	for (; there < SHOWN; there += n, bl_slot_grow(slot, there)) {
		n = bl_min(GROWN_BY, SHOWN - there);
		if (there / GROWN_BY % 8 == 7)
			while (bl_ticks() - since < 20 * bl_ticks_per_us())
				bl_cpu_relax();
		since = bl_ticks();
		memcpy(at + there, from + there, n);
	}
	return NULL;
}

static void comes_meanwhile(void **state)
{
	const struct unfinished_row row = {.shown = true};
	struct bl_slot *slot;
	struct bl_comp comp;
	pthread_t other;

	(void)state;
	for (size_t i = 0; i < 50; i++) {
		open_pair();
		slot = send_grown(SHOWN, false);
		bl_slot_grow(slot, GROWN_BY);
		memset(peer()->tx.lane->payload + peer()->tx.dialogue + GROWN_BY, 0xdd,
		       SHOWN - GROWN_BY);
		post_grown(&row);
		assert_int_equal(pthread_create(&other, NULL, add_the_rest, slot), 0);
		comp = node_completion(&node, 0, NULL);
		assert_int_equal(comp.len, SHOWN);
		check(SHOWN);
		assert_int_equal(pthread_join(other, NULL), 0);
		node_close(&node);
	}
}

struct growth_row {
	struct row row;
	uint32_t len;
	uint8_t replies, slow;
	bool always, grows;
};

static const struct growth_row growths[] = {
	{{"waited for", "it is being read"}, 8192, 7, 0, false, true},
	{{"a byte less", "is written at once"}, 8191, 7, 0, false, false},
	{{"crossing", "the other writes, too"}, 20000, 5, 0, false, false},
	{{"far", "nothing is gained"}, 20000, 7, BL_FAR, false, false},
	{{"always", "by the knob"}, 8192, 0, BL_FAR, true, true},
	{{"always, a byte less", "too short"}, 8191, 7, 0, true, false},
};

static void what_grows(void **state)
{
	const struct growth_row *row = TABLE_ROW(struct growth_row, state);
	struct bl_copy_plan *plan = (struct bl_copy_plan *)(uintptr_t)bl_copy_plan();
	struct bl_tx *tx;

	open_pair();
	plan->grows = row->always;
	peer()->tx.nlong = BL_STRETCH_USES;
	bl_stretch_look(peer());
	tx = &peer()->tx;
	tx->answered = true;
	tx->turns = BL_DIALOGUE_AFTER;
	tx->replies = row->replies;
	tx->slow = row->slow;
	tx->probed = (uint16_t)tx->next; /* no look is due */
	post(row->len);
	assert_int_equal(bl_send_buf(sender, from, row->len, 0, 9, 0, NULL, BL_TAGGED), 0);
	assert_true(BL_HEAD_FLAGS(tx->slot[(tx->next - 1) % BL_SLOTS].head) & BL_SLOT_OFFER);
	assert_int_equal(bl_slot_grows(tx->slot[(tx->next - 1) % BL_SLOTS].head), row->grows);
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	check(row->len);
	node_close(&node);
	plan->grows = true;
}

/* An answer in a place that was never offered. */
static void nonsense(void **state)
{
	struct bl_peer *at;

	(void)state;
	open_pair();
	post(LONG);
	at = peer();
	assert_int_equal(bl_send_buf(sender, from, LONG, 0, 9, 0, NULL, BL_TAGGED), 0);
	at->tx.slot[(at->tx.next - 1) % BL_SLOTS].head |= BL_HEAD(0, 0, BL_SLOT_YOURS);
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
	receiver->dest[1]->tx.dialogue = 0;
	post(LONG);
	post(LONG);
	tx = &peer()->tx;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(bl_send_buf(sender, from, LONG, 0, 9, 0, NULL, BL_TAGGED), 0);
		tx->slot[(tx->next - 1) % BL_SLOTS].head |= BL_HEAD(0, 0, BL_SLOT_YOURS);
	}
	assert_int_equal(node_completion(&node, 0, NULL).len, LONG);
	assert_false(receiver->dest[1]->tx.offers);
	assert_int_equal(node_error(&node, 0).err, EPROTO);
	node_close(&node);
}

int main(void)
{
	set_limits();
	setenv("FI_BEELINE_STRETCH", "auto", 1);
	setenv("FI_BEELINE_TURNS", "always", 1);
	for (size_t i = 0; i < sizeof bytes; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * 2654435761u >> 13);
	TABLE_ROWS("freed", is_freed, hearings);
	TABLE_ROWS("offered", is_offered, offers);
	TABLE_ROWS("turns", take_turns, talks);
	TABLE_ROWS("crossing", take_turns_if_they_cross, crossings);
	TABLE_TEST(not_while_past);
	TABLE_ROWS("there", how_much_is_there, theres);
	TABLE_ROWS("growth", what_grows, growths);
	TABLE_ROWS("unfinished", is_unfinished, unfinished);
	TABLE_TEST(begun_for_nothing);
	TABLE_TEST(posted_behind);
	TABLE_TEST(comes_meanwhile);
	TABLE_TEST(nonsense);
	TABLE_TEST(answered_twice);
	return table_run("turns");
}
