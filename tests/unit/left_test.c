/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * left_test.c: messages that have no receive yet and stay in the ring for a while
 * (core/unexpected.c), from which they are copied once: when they do, until when, and that nothing
 * is held up by them.
 */
#include <errno.h>

#include "unit/node.h"

#include "endpoint/recv.h"

#define LONG_TAG  9
#define SHORT_TAG 1
#define MOST	  8000

static struct node node;
static struct bl_ep *sender, *receiver;
static uint8_t from[MOST], to[MOST], many[MOST];

static void open_pair(bool crowded)
{
	node_open(&node, 2);
	receiver = node.ep[0];
	sender = node.ep[1];
	node_expect_nothing(&node, 0);
	node.cq[0]->crowd.until = crowded ? bl_ticks() + BL_TICKS_AHEAD : 0;
}

static struct bl_peer *from_sender(void)
{
	return receiver->dest[1];
}

static uint64_t kept(void)
{
	return atomic_load(&receiver->local.stats->counter[BL_STAT_unexpected_bytes].value);
}

static uint32_t unread(void)
{
	return sender->dest[0]->tx.next - from_sender()->rx.next;
}

static void post(size_t len, uint64_t tag)
{
	assert_int_equal(bl_recv_buf(receiver, to, len, 1, tag, 0, to, NODE_FLAGS), 0);
}

#define ROOM 4

static ssize_t read_some(struct bl_comp *comp)
{
	node.cq[0]->wait_began = bl_ticks(); /* a wait of a millisecond would sleep */
	return bl_cq_read(node.cq[0], comp, ROOM, sizeof *comp, NULL);
}

/* --- until when --------------------------------------------------------------- */

/*
 * A program and its sender, step by step:
 *  s l  it sends a short message, a long one      S L  a receive for one is posted
 *  1    a read brings one                         0    a read brings nothing
 *  k    the program looks for a long one, and finds it (FI_PEEK)
 *  p    progress by other means than a read
 *  o    another, we ourselves, sends one that is received
 *  U    a receive for an untagged one is posted
 *  M    a buffer is posted that takes untagged messages of anybody
 *  O A  a receive for such a one is posted, for a short one from anybody
 *  m    the next read looks for more, once it has found something
 *  _    so far nothing has been copied            +    one more has been, and is kept
 */
struct left_row {
	struct row row;
	bool crowded;
	size_t len; /* of a long one */
	const char *steps;
};

#define CROWDED true
#define ALONE	false
#define LEAST	((size_t)BL_SLOT_INLINE + 1)

static const struct left_row rows[] = {
	{{"behind another", "until there is no more"}, ALONE, LEAST, "mSsl1_0+L1"},
	{{"behind another", "which was alone in its read: copied"}, ALONE, LEAST, "Ssl1_0+L1"},
	{{"behind another, two", "the first is copied"}, ALONE, LEAST, "mSsll1+0+L1L1"},
	{{"nothing before it", "copied"}, ALONE, LEAST, "l0+L1"},
	{{"another's before it", "copied"}, ALONE, LEAST, "mol1+L1"},
	{{"short", "copied"}, ALONE, BL_SLOT_INLINE, "mSsl1+0L1"},
	{{"behind another", "its receive is posted"}, ALONE, LEAST, "mSsl1_L1_"},
	{{"crowded, behind another", "until there is no more, and beyond"},
	 CROWDED,
	 LEAST,
	 "Ssl1_0_0_L1_"},
	{{"crowded, long", "the same"}, CROWDED, MOST, "Ssl1_0_0_L1_"},
	{{"crowded, nothing before it", "the same"}, CROWDED, LEAST, "l0_0_L1_"},
	{{"crowded, short", "copied"}, CROWDED, BL_SLOT_INLINE, "mSsl1+0L1"},
	{{"crowded, three ahead", "receives are posted in time"},
	 CROWDED,
	 LEAST,
	 "Sslll1_0_L1_0_L1_0_L1_"},
	{{"crowded, two ahead", "no more, and no receive: one is copied, the other is the last"},
	 CROWDED,
	 LEAST,
	 "Ssll1_0_0+0L1L1_"},
	{{"crowded, two behind another", "the same; then a read brings one before it"},
	 CROWDED,
	 LEAST,
	 "mSsll1_0_0+0_L1L1_"},
	{{"crowded, a short one behind", "it is waited for"}, CROWDED, LEAST, "Ssl1_0_sS1+L1"},
	{{"crowded, a short one behind", "it is waited for at once"},
	 CROWDED,
	 LEAST,
	 "SslsS1_1+L1"},
	{{"crowded, a short one behind", "one from anybody is waited for at once"},
	 CROWDED,
	 LEAST,
	 "SslsA1_1+L1"},
	{{"crowded, two ahead", "an untagged one of its sender is waited for: one is the last"},
	 CROWDED,
	 LEAST,
	 "SsllU10+L1L1"},
	{{"crowded, two ahead", "a buffer for many is there"}, CROWDED, LEAST, "SsllM1_0_L1_0_L1_"},
	{{"crowded, two ahead", "another's is waited for"}, CROWDED, LEAST, "SsllO1_0_L1_0_L1_"},
	{{"crowded, a short one behind", "it is brought, and the long one first"},
	 CROWDED,
	 LEAST,
	 "Ssl1_0_Ls1S1"},
	{{"crowded, looked for", "found"}, CROWDED, LEAST, "Ssl1_k+L1"},
	{{"crowded, nothing read", "copied"}, CROWDED, LEAST, "lp+L1"},
	{{"crowded, first left", "then nothing read: copied"}, CROWDED, LEAST, "Ssl1_p+L1"},
};

static void send_to_self(void)
{
	assert_int_equal(bl_recv_buf(receiver, NULL, 0, 0, 77, 0, NULL, NODE_FLAGS), 0);
	node_send(&node, 0, 0, NULL, 0, 77, NULL, BL_TAGGED);
}

static void look_for(size_t len)
{
	struct bl_recv recv = {.src = 1, .tag = LONG_TAG, .flags = NODE_FLAGS | BL_PEEK};

	assert_int_equal(bl_recv(receiver, &recv), 0);
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
}

static void takes_steps(void **state)
{
	const struct left_row *row = TABLE_ROW(struct left_row, state);
	struct iovec room = {many, sizeof many};
	struct bl_recv multi = {.iov = &room,
				.niov = 1,
				.src = BL_ADDR_ANY,
				.flags = BL_MSG | BL_COMPLETION | BL_MULTI_RECV};
	uint8_t sent = 0, got = 0; /* long ones, in their order */
	uint64_t was_kept = 0;
	struct bl_comp comp[ROOM];

	open_pair(row->crowded);
	for (const char *step = row->steps; *step; step++) {
		switch (*step) {
		case 's':
			node_send(&node, 1, 0, from, 8, SHORT_TAG, NULL, BL_TAGGED);
			break;
		case 'l':
			memset(from, ++sent, sizeof from);
			node_send(&node, 1, 0, from, row->len, LONG_TAG, NULL, BL_TAGGED);
			break;
		case 'S':
			post(8, SHORT_TAG);
			break;
		case 'L':
			post(MOST, LONG_TAG);
			break;
		case '1':
			assert_int_equal(read_some(comp), 1);
			if (comp->tag == LONG_TAG) {
				assert_int_equal(comp->len, row->len);
				assert_int_equal(to[0], ++got);
				assert_int_equal(to[row->len - 1], got);
			}
			was_kept = bl_min(was_kept, kept());
			break;
		case '0':
			assert_int_equal(read_some(comp), -EAGAIN);
			break;
		case 'O':
			assert_int_equal(bl_recv_buf(receiver, NULL, 0, 0, 77, 0, NULL, NODE_FLAGS),
					 0);
			break;
		case 'U':
			assert_int_equal(bl_recv_buf(receiver, many, 8, 1, 0, 0, NULL,
						     BL_MSG | BL_COMPLETION),
					 0);
			break;
		case 'M':
			assert_int_equal(bl_recv(receiver, &multi), 0);
			break;
		case 'A':
			assert_int_equal(bl_recv_buf(receiver, to, 8, BL_ADDR_ANY, SHORT_TAG, 0, to,
						     NODE_FLAGS),
					 0);
			break;
		case 'o':
			send_to_self();
			break;
		case 'k':
			look_for(row->len);
			break;
		case 'm':
			node.cq[0]->in_row = BL_IN_ROW;
			break;
		case 'p':
			bl_ep_progress(receiver);
			break;
		case '_':
			assert_int_equal(kept(), was_kept);
			break;
		case '+':
			assert_int_equal(kept(), was_kept + row->len);
			was_kept = kept();
			break;
		}
	}
	assert_int_equal(got, sent);
	assert_int_equal(unread(), 0);
	assert_int_equal(kept(), 0);
	node_close(&node);
}

/* --- not for ever --------------------------------------------------------------- */

/* Nobody posts a receive for it: it is copied at last, and another one is looked at anew; first
 * behind one that was received, or not. */
static void reads_end(void **state)
{
	struct bl_comp comp[ROOM];

	(void)state;
	open_pair(CROWDED);
	for (unsigned i = 1; i < 100; i++) {
		unsigned reads = 0;

		if (i % 3 == 0) {
			post(8, SHORT_TAG);
			node_send(&node, 1, 0, from, 8, SHORT_TAG, NULL, BL_TAGGED);
			node.cq[0]->in_row = BL_IN_ROW;
		}
		node_send(&node, 1, 0, from, LEAST, LONG_TAG, NULL, BL_TAGGED);
		for (; kept() < i * LEAST; reads++)
			assert_int_equal(read_some(comp), i % 3 || reads ? -EAGAIN : 1);
		assert_int_equal(reads, BL_LEFT_READS + 1);
	}
	node_close(&node);
}

/* A dead sender's is copied at once: until then nobody hears of the death. */
static void its_sender_dies(void **state)
{
	struct bl_comp comp[ROOM];

	(void)state;
	open_pair(CROWDED);
	node_send(&node, 1, 0, from, LEAST, LONG_TAG, NULL, BL_TAGGED);
	assert_int_equal(read_some(comp), -EAGAIN);
	assert_int_equal(kept(), 0);
	atomic_store(&sender->local.seg.header->closed, 1);
	assert_int_equal(read_some(comp), -EAGAIN);
	assert_int_equal(kept(), LEAST);
	atomic_store(&sender->local.seg.header->closed, 0);
	node_close(&node);
}

/* A read behind a message to itself, which it brings, and perhaps a short one. */
static bool brings_short_one(void)
{
	struct bl_comp comp[ROOM];
	bool came = false;
	ssize_t n;

	send_to_self();
	n = read_some(comp);
	assert_true(n > 0);
	while (n--)
		came |= comp[n].tag == SHORT_TAG;
	return came;
}

/* Others bring something to each read: what is left doesn't stay for long all the same, nor what
 * is behind it. */
static void others_go_on(void **state)
{
	int reads = 0;

	(void)state;
	open_pair(CROWDED);
	assert_false(brings_short_one());
	assert_int_equal(bl_recv_buf(receiver, NULL, 0, 0, 78, 0, NULL, NODE_FLAGS), 0); /* first */
	post(8, SHORT_TAG);
	node_send(&node, 1, 0, from, MOST, LONG_TAG, NULL, BL_TAGGED);
	node_send(&node, 1, 0, from, 8, SHORT_TAG, NULL, BL_TAGGED);
	while (!brings_short_one())
		reads++;
	assert_int_equal(reads, BL_LEFT_READS);
	node_close(&node);
}

/* All the room for long ones is taken by such as nobody receives, and what is waited for needs
 * some. */
static void room_is_made(void **state)
{
	struct iovec iov = {from, MOST};
	struct bl_send send = {&iov, 1, 0, LONG_TAG, 0, NULL, BL_TAGGED, NULL};
	struct bl_comp comp[ROOM];
	int full = 0, reads = 0;

	(void)state;
	open_pair(CROWDED);
	while (!sender->txq.nactive) {
		assert_int_equal(bl_send(sender, &send), 0);
		full++;
	}
	assert_true(full > 2);
	post(MOST, SHORT_TAG);
	send.tag = SHORT_TAG;
	assert_int_equal(bl_send(sender, &send), 0);
	while (sender->txq.nactive) {
		assert_true(reads++ < 1000);
		assert_int_equal(read_some(comp), -EAGAIN);
		bl_ep_progress(sender);
	}
	assert_int_equal(node_completion(&node, 0, NULL).tag, SHORT_TAG);
	node_close(&node);
}

/* --- what is never left ----------------------------------------------------------- */

struct never_row {
	struct row row;
	uint8_t flags;
	bool streamed;				      /* it isn't all there */
	enum { NOBODY, OF_RECEIVES, OF_SENDS } queue; /* a caller reads it */
	bool left;
};

static const struct never_row nevers[] = {
	{{"in the ring", "left"}, 0, false, OF_RECEIVES, true},
	{{"in our buffer", "its place is the next one's"},
	 BL_SLOT_CB_USE,
	 false,
	 OF_RECEIVES,
	 false},
	{{"not all there", "copied as it comes"}, 0, true, OF_RECEIVES, false},
	{{"nobody reads", "somebody looks, or waits"}, 0, false, NOBODY, false},
	{{"another queue is read", "by one who waits for something else"},
	 0,
	 false,
	 OF_SENDS,
	 false},
};

static void is_left_or_not(void **state)
{
	const struct never_row *row = TABLE_ROW(struct never_row, state);
	struct bl_sink sink = BL_SINK_NONE;
	struct bl_slot slot;
	struct bl_arrival a = {.len = LEAST, .slot_flags = row->flags};

	open_pair(CROWDED);
	a.peer = from_sender();
	a.streamed = row->streamed ? &slot : NULL;
	node.cq[1]->crowd.until = node.cq[0]->crowd.until;
	if (row->queue != NOBODY)
		sink.cq = node.cq[row->queue == OF_SENDS];
	assert_int_equal(bl_defer(&sink, &a), row->left);
	node_close(&node);
}

int main(void)
{
	setenv("FI_BEELINE_EAGER_MAX", "8192", 1);
	setenv("FI_BEELINE_SPIN", "0", 1); /* both ends belong to one thread */
	TABLE_ROWS("steps", takes_steps, rows);
	TABLE_ROWS("never", is_left_or_not, nevers);
	TABLE_TEST(reads_end);
	TABLE_TEST(its_sender_dies);
	TABLE_TEST(others_go_on);
	TABLE_TEST(room_is_made);
	return table_run("left");
}
