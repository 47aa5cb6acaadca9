/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * streamed_test.c: a message in a copy buffer (copybuf_turns_test.c) that is read while it is
 * written (BL_SLOT_STREAMED): how much of it is there, what becomes of one that is never finished,
 * and which messages grow.
 */
#include <errno.h>
#include <pthread.h>

#define EAGER_LONG 98304u
#define LONGEST	   100000u
#include "unit/pair.h"
#include "unit/limits.h"

uint64_t __wrap_bl_memlimit(void);
uint64_t __wrap_bl_memlimit(void)
{
	return UINT64_MAX;
}

#define GROWN	 20000u /* in pieces of GROWN_BY, which the other may copy out meanwhile */
#define GROWN_BY 4096u
#define SHORT	 16u

/* --- how much is there --------------------------------------------------------------- */

struct there_row {
	struct row row;
	uint32_t head, there;
	bool streamed;
	uint32_t want;
};

#define HEAD(op, flags) BL_HEAD(10000, op, flags)

#define GROWS (BL_SLOT_STREAMED | BL_SLOT_CB_GRANT)

static const struct there_row theres[] = {
	{{"nothing", "it may begin with that"}, HEAD(BL_OP_TAGGED, GROWS), 0, true, 0},
	{{"part", "of any kind of message"}, HEAD(BL_OP_MSG, GROWS), 4096, true, 4096},
	{{"all", "its length"}, HEAD(BL_OP_TAGGED, GROWS), 10000, true, 10000},
	{{"more than all", "believed as far as there is any"},
	 HEAD(BL_OP_TAGGED, GROWS),
	 UINT32_MAX,
	 true,
	 10000},
	{{"as long as such a buffer", "the longest that may"},
	 BL_HEAD(BL_COPYBUF_MOST, BL_OP_TAGGED, GROWS),
	 4096,
	 true,
	 4096},
	{{"doesn't say so", "it is all there"}, HEAD(BL_OP_TAGGED, BL_SLOT_CB_USE), 0, false, 0},
	{{"elsewhere", "but for the copy buffers it has no meaning"},
	 HEAD(BL_OP_TAGGED, BL_SLOT_STREAMED),
	 0,
	 false,
	 0},
	{{"longer than such a buffer", "the same"},
	 BL_HEAD(BL_COPYBUF_MOST + 1, BL_OP_TAGGED, GROWS),
	 0,
	 false,
	 0},
	{{"an RTS", "the bit says another thing"},
	 HEAD(BL_OP_TAGGED_RTS, BL_SLOT_RKEYS),
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

	assert_int_equal(bl_slot_is_streamed(row->head), row->streamed);
	if (row->streamed)
		assert_int_equal(bl_slot_progress(slot, 10000), row->want);
	assert_int_equal(bl_rx_is_unfinished(&rx), row->streamed && row->want < 10000);
	slot[0].seq = 0;
	assert_false(bl_rx_is_unfinished(&rx));
}

/* --- one that isn't all there ---------------------------------------------------------- */

struct unfinished_row {
	struct row row;
	uint32_t there;
	bool posted, cancelled, dies;
	bool untagged; /* the general way */
	bool anybody;  /* its receive isn't for this sender alone */
	bool shown;    /* the sender sees it, and might claim it */
};

#define SHOWN 70000u /* at least BL_PROXY_MIN */

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
	return untagged ? receiver->msg.posted.head : receiver->tagged.posted.head;
}

/* A message of len bytes that grows is in the ring. */
static struct bl_slot *send_grown(size_t len, bool untagged)
{
	struct bl_tx *tx = &peer()->tx;
	struct bl_slot *slot;

	peer()->tx.nlong = BL_LONGRING_USES;
	bl_longring_look(peer());
	tx->answered = true;
	tx->turns = BL_PINGPONG_AFTER;
	slot = &tx->slot[tx->next % BL_SLOTS];
	/* Whether it may go whole doesn't matter here. */
	assert_int_equal(bl_put_flags(sender, 0, from, len, 9, 0, untagged ? BL_MSG : BL_TAGGED),
			 0);
	assert_true(bl_slot_is_streamed(slot->head));
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
	bl_slot_advance(slot, row->there);
	receiver->ways.habit.leaves = 0;	     /* to post it isn't to look for it */
	receiver->dest[0]->copy.pull = BL_COPY_SELF; /* the sender is the only neighbour */
	if (row->posted)
		post_grown(row);
	if (row->shown)
		assert_true(first_post(row->untagged)->flags & BL_POST_PUBLISHED);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
	if (row->shown)
		assert_int_equal(first_post(row->untagged)->flags & BL_POST_PUBLISHED,
				 row->anybody ? BL_POST_PUBLISHED : 0);
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
	bl_slot_advance(slot, (uint32_t)len);
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
	bl_slot_advance(slot, GROWN_BY);
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
	bl_slot_advance(slot, GROWN_BY);
	post_grown(&row);
	assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
	assert_int_equal(
		bl_recv_buf(receiver, behind, SHOWN, 1, 9, 0, behind, BL_TAGGED | BL_COMPLETION),
		0);
	/* Longer than it takes until what couldn't be shown is looked at again. */
	for (since = bl_ticks(); bl_ticks() - since < 200 * bl_ticks_per_us();) {
		assert_int_equal(bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL), -EAGAIN);
		assert_false(first_post(false)->flags & BL_POST_PUBLISHED);
		assert_false(first_post(false)->next->flags & BL_POST_PUBLISHED);
	}
	bl_slot_advance(slot, SHOWN);
	comp = node_completion(&node, 0, NULL);
	assert_ptr_equal(comp.context, to);
	check(SHOWN);
	for (since = bl_ticks(); !(first_post(false)->flags & BL_POST_PUBLISHED);) {
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
	uint8_t *at = peer()->tx.lane->payload + peer()->tx.copybuf;
	uint32_t there = atomic_load(&slot->there), n;
	uint64_t since = bl_ticks();

	for (; there < SHOWN; there += n, bl_slot_advance(slot, there)) {
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
		bl_slot_advance(slot, GROWN_BY);
		memset(peer()->tx.lane->payload + peer()->tx.copybuf + GROWN_BY, 0xdd,
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

/* --- which do ------------------------------------------------------------------------ */

struct growth_row {
	struct row row;
	uint32_t len;
	uint8_t replies, slow;
	bool always, streamed, far; /* far away, too */
};

static const struct growth_row growths[] = {
	{{"waited for", "it is being read"}, 8192, 7, 0, false, true, false},
	{{"a byte less", "is written at once"}, 8191, 7, 0, false, false, false},
	{{"crossing", "the other writes, too"}, 20000, 5, 0, false, false, false},
	{{"far", "nothing is gained"}, 20000, 7, BL_FAR, false, false, false},
	{{"far, where something is", "it is being read"}, 20000, 7, BL_FAR, false, true, true},
	{{"far, crossing", "the other writes, too"}, 20000, 5, BL_FAR, false, false, true},
	{{"always", "by the knob"}, 8192, 0, BL_FAR, true, true, false},
	{{"always, a byte less", "too short"}, 8191, 7, 0, true, false, false},
};

static void what_grows(void **state)
{
	const struct growth_row *row = TABLE_ROW(struct growth_row, state);
	struct bl_tx *tx;

	open_pair();
	limits()->streamed = row->always;
	limits()->streamed_far = row->far;
	peer()->tx.nlong = BL_LONGRING_USES;
	bl_longring_look(peer());
	tx = &peer()->tx;
	tx->answered = true;
	tx->turns = BL_PINGPONG_AFTER;
	tx->replies = row->replies;
	tx->slow = row->slow;
	tx->probed = (uint16_t)tx->next; /* no look is due */
	post(row->len);
	assert_int_equal(bl_send_buf(sender, from, row->len, 0, 9, 0, NULL, BL_TAGGED), 0);
	assert_true(BL_HEAD_FLAGS(tx->slot[(tx->next - 1) % BL_SLOTS].head) & BL_SLOT_CB_GRANT);
	assert_int_equal(bl_slot_is_streamed(tx->slot[(tx->next - 1) % BL_SLOTS].head),
			 row->streamed);
	assert_int_equal(node_completion(&node, 0, NULL).len, row->len);
	check(row->len);
	node_close(&node);
	limits()->streamed = true;
}

int main(void)
{
	set_limits();
	setenv("FI_BEELINE_LONG_RING", "auto", 1);
	setenv("FI_BEELINE_COPYBUF", "always", 1);
	TABLE_ROWS("there", how_much_is_there, theres);
	TABLE_ROWS("growth", what_grows, growths);
	TABLE_ROWS("unfinished", is_unfinished, unfinished);
	TABLE_TEST(begun_for_nothing);
	TABLE_TEST(posted_behind);
	TABLE_TEST(comes_meanwhile);
	return table_run("streamed");
}
