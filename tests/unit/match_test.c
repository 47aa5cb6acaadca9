/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match_test.c: the matcher (endpoint/recv.c, the short paths in endpoint/endpoint.h) through
 * real endpoints in one process. Each message carries its number; endpoint 0
 * receives, 1 and 2 send, and so does 0 to itself. After each send the receiver
 * takes what has come, so that the order of events is the order of the script.
 */
#include <string.h>

#include "unit/node.h"

/* --- scripts -------------------------------------------------------------- */

#define ANY	 BL_ADDR_ANY
#define EVENTS	 10
#define NOTHING	 (-1)
#define CANCELED (-2)

enum event_kind { END, POST, SEND, CANCEL };

struct event {
	enum event_kind kind;
	uint64_t src; /* POST: from whom; SEND: by whom; CANCEL: which post */
	uint64_t tag, ignore;
};

#define P(src, tag, ignore)                                                                        \
	{                                                                                          \
		POST, src, tag, ignore                                                             \
	}
#define S(src, tag)                                                                                \
	{                                                                                          \
		SEND, src, tag, 0                                                                  \
	}
#define C(post)                                                                                    \
	{                                                                                          \
		CANCEL, post, 0, 0                                                                 \
	}

struct script_row {
	struct row row;
	struct event event[EVENTS];
	int got[EVENTS]; /* by post: the send's number, NOTHING or CANCELED */
};

static const struct script_row scripts[] = {
	{{"same tag", "the simplest match"}, {P(1, 5, 0), S(1, 5)}, {0}},
	{{"another tag", "no match"}, {P(1, 5, 0), S(1, 6)}, {NOTHING}},
	{{"early, same tag", "the message waits"}, {S(1, 5), P(1, 5, 0)}, {0}},
	{{"early, another tag", "it goes on waiting"}, {S(1, 6), P(1, 5, 0)}, {NOTHING}},
	{{"tag 0", "0 is a tag like any other"}, {P(1, 0, 0), S(1, 1), S(1, 0)}, {1}},
	{{"tag 2^64-1", "all bits count"}, {P(1, ~0ull, 0), S(1, ~0ull >> 1), S(1, ~0ull)}, {1}},
	{{"top bit differs", "64 bits are compared"}, {P(1, 1ull << 63, 0), S(1, 0)}, {NOTHING}},
	{{"ignore all", "any tag"}, {P(1, 0, ~0ull), S(1, 0xdeadbeef)}, {0}},
	{{"ignore the low byte", "the others still count"},
	 {P(1, 0x1200, 0xff), S(1, 0x1300), S(1, 0x12cd)},
	 {1}},
	{{"ignored bits set in the tag", "they don't matter on either side"},
	 {P(1, 0x12ff, 0xff), S(1, 0x1200)},
	 {0}},
	{{"ignore one bit", "the other bits of that byte count"},
	 {P(1, 4, 1), S(1, 6), S(1, 5)},
	 {1}},
	{{"two posts, two messages", "in order on both sides"},
	 {P(1, 5, 0), P(1, 5, 0), S(1, 5), S(1, 5)},
	 {0, 1}},
	{{"two early messages", "the older one first"},
	 {S(1, 5), S(1, 5), P(1, 5, 0), P(1, 5, 0)},
	 {0, 1}},
	{{"wildcard posted first", "a later exact receive doesn't overtake"},
	 {P(1, 0, ~0ull), P(1, 5, 0), S(1, 5), S(1, 5)},
	 {0, 1}},
	{{"exact posted first", "the wildcard gets the next"},
	 {P(1, 5, 0), P(1, 0, ~0ull), S(1, 5), S(1, 5)},
	 {0, 1}},
	{{"exact doesn't fit", "the message goes on to the wildcard behind"},
	 {P(1, 6, 0), P(1, 0, ~0ull), S(1, 5), S(1, 6)},
	 {1, 0}},
	{{"early, out of order by tag", "tags may overtake, equals may not"},
	 {S(1, 5), S(1, 6), S(1, 5), P(1, 6, 0), P(1, 5, 0), P(1, 5, 0)},
	 {1, 0, 2}},
	{{"wildcard takes the oldest", "whatever its tag"},
	 {S(1, 7), S(1, 5), P(1, 0, ~0ull), P(1, 0, ~0ull)},
	 {0, 1}},
	{{"source", "only that one's"}, {P(2, 5, 0), S(1, 5), S(2, 5)}, {1}},
	{{"any source", "whoever comes first"}, {P(ANY, 5, 0), S(2, 5)}, {0}},
	{{"any source before a source", "post order holds"},
	 {P(ANY, 5, 0), P(1, 5, 0), S(1, 5), S(1, 5)},
	 {0, 1}},
	{{"early from two sources", "arrival order for any source"},
	 {S(2, 5), S(1, 5), P(ANY, 5, 0), P(ANY, 5, 0)},
	 {0, 1}},
	{{"early, the second source first", "the first stays"},
	 {S(2, 5), S(1, 5), P(1, 5, 0), P(ANY, 5, 0)},
	 {1, 0}},
	{{"to self", "its own ring"}, {P(0, 5, 0), S(0, 5)}, {0}},
	{{"to self, any source", "is somebody too"}, {S(0, 5), P(ANY, 5, 0)}, {0}},
	{{"cancel the only one", "the queue is empty and still works"},
	 {P(1, 5, 0), C(0), P(1, 5, 0), S(1, 5)},
	 {CANCELED, 0}},
	{{"cancel the head", "the rest stays in order"},
	 {P(1, 5, 0), P(1, 5, 0), P(1, 5, 0), C(0), S(1, 5), S(1, 5)},
	 {CANCELED, 0, 1}},
	{{"cancel in the middle", "its neighbours are linked"},
	 {P(1, 5, 0), P(1, 5, 0), P(1, 5, 0), C(1), S(1, 5), S(1, 5)},
	 {0, CANCELED, 1}},
	{{"cancel the tail", "what is posted next is linked to the new tail"},
	 {P(1, 5, 0), P(1, 5, 0), C(1), P(1, 5, 0), S(1, 5), S(1, 5)},
	 {0, CANCELED, 1}},
	{{"cancel all from the tail", "the tail follows to the head"},
	 {P(1, 5, 0), P(1, 6, 0), C(1), C(0), P(1, 5, 0), S(1, 5)},
	 {CANCELED, CANCELED, 0}},
	{{"match the tail, then post", "unlinking the last moves the tail as well"},
	 {P(1, 5, 0), P(1, 6, 0), S(1, 6), P(1, 6, 0), S(1, 6), S(1, 5)},
	 {2, 0, 1}},
	{{"canceled, then early", "the message is not lost"},
	 {P(1, 5, 0), C(0), S(1, 5), P(1, 5, 0)},
	 {CANCELED, 0}},
};

static struct node node;
static uint8_t incoming[EVENTS][200000], outgoing[EVENTS][200000];

static void post(size_t n, const struct event *e, uint64_t kind)
{
	assert_int_equal(bl_recv_buf(node.ep[0], incoming[n], sizeof incoming[n], e->src, e->tag,
				     e->ignore, incoming[n], kind | BL_COMPLETION),
			 0);
}

static void send_number(size_t n, uint64_t by, uint64_t tag, size_t len, uint64_t kind)
{
	memset(outgoing[n], (int)n + 1, len);
	node_send(&node, by, 0, outgoing[n], len, tag, NULL, kind);
	node_settle(&node, 0);
}

static bool has_number(const uint8_t *bytes, size_t len, int n)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != n + 1)
			return false;
	return true;
}

/* What endpoint 0's queue holds, into got[] by post. */
static void collect(size_t len, int *got)
{
	for (;;) {
		struct bl_comp_err err;
		struct bl_comp comp;
		ssize_t n = bl_cq_read(node.cq[0], &comp, 1, sizeof comp, NULL);
		size_t p;

		if (n == -EAGAIN)
			return;
		if (n == -BL_EAVAIL) {
			assert_int_equal(bl_cq_readerr(node.cq[0], &err), 1);
			assert_int_equal(err.err, ECANCELED);
			p = (size_t)((uint8_t(*)[sizeof incoming[0]])err.comp.context - incoming);
			assert_int_equal(got[p], NOTHING);
			got[p] = CANCELED;
			continue;
		}
		p = (size_t)((uint8_t(*)[sizeof incoming[0]])comp.context - incoming);
		assert_in_range(p, 0, EVENTS - 1);
		assert_int_equal(got[p], NOTHING); /* once */
		assert_int_equal(comp.len, len);
		got[p] = incoming[p][0] - 1;
		if (!has_number(incoming[p], len, got[p]))
			fail_msg("the bytes of a message are mixed");
	}
}

/* Whatever was left over comes out of the early queue in order. */
static void drain(size_t sends, const bool *taken, size_t len, uint64_t kind)
{
	for (size_t n = 0; n < sends; n++) {
		if (taken[n])
			continue;
		assert_int_equal(bl_recv_buf(node.ep[0], incoming[0], sizeof incoming[0], ANY, 0,
					     ~0ull, NULL, kind | BL_COMPLETION),
				 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, len);
		assert_int_equal(incoming[0][0], n + 1);
	}
}

static void play(const struct script_row *row, size_t len)
{
	size_t posts = 0, sends = 0;
	bool taken[EVENTS] = {false};
	int got[EVENTS];

	for (size_t i = 0; i < EVENTS; i++)
		got[i] = NOTHING;
	for (const struct event *e = row->event; e < row->event + EVENTS && e->kind; e++) {
		if (e->kind == POST)
			post(posts++, e, BL_TAGGED);
		else if (e->kind == SEND)
			send_number(sends++, e->src, e->tag, len, BL_TAGGED);
		else
			assert_int_equal(bl_cancel(node.ep[0], incoming[e->src]), 0);
	}
	collect(len, got);
	for (size_t i = 0; i < posts; i++) {
		if (got[i] != row->got[i])
			fail_msg("messages of %zu bytes: post %zu got %d, not %d", len, i, got[i],
				 row->got[i]);
		if (got[i] >= 0)
			taken[got[i]] = true;
	}
	for (size_t i = 0; i < posts; i++) /* what is still posted would disturb the next */
		if (got[i] == NOTHING) {
			assert_int_equal(bl_cancel(node.ep[0], incoming[i]), 0);
			assert_int_equal(node_error(&node, 0).err, ECANCELED);
		}
	drain(sends, taken, len, BL_TAGGED);
	node_expect_nothing(&node, 0);
}

static void script(void **state)
{
	const struct script_row *row = TABLE_ROW(struct script_row, state);

	node_open(&node, 3);
	play(row, 1);	   /* in the slot's first line */
	play(row, 200);	   /* in the slot */
	play(row, 3000);   /* in the payload ring */
	play(row, 150000); /* copied once, when it is matched */
	node_close(&node);
}

/* --- untagged -------------------------------------------------------------- */

static void untagged_and_tagged_don_t_mix(void **state)
{
	struct event any = P(ANY, 0, ~0ull), five = P(1, 5, 0);
	int got[EVENTS] = {NOTHING, NOTHING, NOTHING, NOTHING};

	node_open(&node, 2);
	post(0, &any, BL_MSG);
	post(1, &five, BL_TAGGED);
	post(2, &five, BL_MSG);
	send_number(0, 1, 5, 100, BL_TAGGED);
	send_number(1, 1, 5, 100, BL_MSG);
	send_number(2, 1, 99, 100, BL_MSG); /* an untagged message has no tag */
	send_number(3, 1, 5, 100, BL_MSG);  /* early */
	send_number(4, 1, 5, 100, BL_TAGGED);
	post(3, &five, BL_TAGGED);
	collect(100, got);
	assert_int_equal(got[0], 1);
	assert_int_equal(got[1], 0);
	assert_int_equal(got[2], 2);
	assert_int_equal(got[3], 4);
	got[4] = NOTHING;
	post(4, &five, BL_MSG);
	collect(100, got);
	assert_int_equal(got[4], 3);
	node_close(&node);
}

/* --- against a reference ---------------------------------------------------- */

#define RANDOM_EVENTS 20000
#define LIVE	      64 /* posts and early messages at most */

/* A receive or a message, in the plainest matcher there is. */
struct item {
	uint64_t src, tag, ignore, number;
	size_t len;
	uint8_t *buf;
};

struct list {
	struct item item[LIVE];
	size_t n;
};

static struct item take_out(struct list *list, size_t i)
{
	struct item item = list->item[i];

	memmove(&list->item[i], &list->item[i + 1], (--list->n - i) * sizeof item);
	return item;
}

static bool matches(const struct item *p, const struct item *m)
{
	return (p->tag | p->ignore) == (m->tag | p->ignore) && (p->src == ANY || p->src == m->src);
}

static uint8_t reference_byte(uint64_t number, size_t i)
{
	return (uint8_t)(number * 131 + i * 7);
}

/* The receive `p` must have completed with message `m`. */
static void expect_match(const struct item *p, const struct item *m)
{
	size_t fits = bl_min(p->len, m->len);
	uint64_t src;

	if (m->len > p->len) {
		struct bl_comp_err err = node_error(&node, 0);

		assert_int_equal(err.err, BL_ETRUNC);
		assert_ptr_equal(err.comp.context, p->buf);
		assert_int_equal(err.comp.len, fits);
		assert_int_equal(err.olen, m->len - fits);
		assert_true(err.comp.tag == m->tag);
		assert_int_equal(err.src, m->src);
	} else {
		struct bl_comp comp = node_completion(&node, 0, &src);

		assert_ptr_equal(comp.context, p->buf);
		assert_int_equal(comp.len, m->len);
		assert_true(comp.tag == m->tag);
		assert_true(comp.data == m->number);
		assert_true(comp.flags == (BL_TAGGED | BL_RECV | BL_REMOTE_CQ_DATA));
		assert_int_equal(src, m->src);
	}
	for (size_t i = 0; i < fits; i++)
		if (p->buf[i] != reference_byte(m->number, i))
			fail_msg("message %lu: byte %zu of %zu", (unsigned long)m->number, i, fits);
	free(p->buf);
	free(m->buf);
}

static size_t random_len(uint64_t x)
{
	static const size_t edge[] = {0, 1, 40, 41, 288, 289, 4096, 30000, 80000};

	return x % 4 ? edge[x / 4 % 7] : edge[x / 4 % 9];
}

static void random_post(struct list *posts, struct list *early, uint64_t *seed)
{
	uint64_t x = table_random(seed);
	struct item p = {
		.src = x % 3 ? x / 3 % 3 : ANY,
		.tag = x >> 8 & 3,
		.ignore = x >> 10 & 1 ? x >> 11 & 3 : 0,
		.len = random_len(x >> 16),
	};
	size_t i = 0;

	p.buf = malloc(p.len + 1);
	assert_int_equal(
		bl_recv_buf(node.ep[0], p.buf, p.len, p.src, p.tag, p.ignore, p.buf, NODE_FLAGS),
		0);
	while (i < early->n && !matches(&p, &early->item[i]))
		i++;
	if (i < early->n) {
		struct item m = take_out(early, i);

		expect_match(&p, &m);
	} else {
		posts->item[posts->n++] = p;
	}
}

static void random_send(struct list *posts, struct list *early, uint64_t number, uint64_t *seed)
{
	uint64_t x = table_random(seed);
	struct item m = {
		.src = x % 3, .tag = x >> 8 & 3, .len = random_len(x >> 16), .number = number};
	struct iovec iov;
	size_t i = 0;

	m.buf = malloc(m.len + 1);
	for (size_t k = 0; k < m.len; k++)
		m.buf[k] = reference_byte(number, k);
	iov = (struct iovec){m.buf, m.len};
	struct bl_send send = {&iov, 1, 0, m.tag, number, NULL, BL_TAGGED | BL_REMOTE_CQ_DATA,
			       NULL};
	while (bl_send(node.ep[m.src], &send) == -EAGAIN)
		node_progress(&node);
	node_settle(&node, 0);
	while (i < posts->n && !matches(&posts->item[i], &m))
		i++;
	if (i < posts->n) {
		struct item p = take_out(posts, i);

		expect_match(&p, &m);
	} else {
		early->item[early->n++] = m;
	}
}

static void random_cancel(struct list *posts, uint64_t *seed)
{
	size_t i = table_random(seed) % posts->n;
	struct item p = take_out(posts, i);
	struct bl_comp_err err;

	assert_int_equal(bl_cancel(node.ep[0], p.buf), 0);
	assert_int_equal(bl_cancel(node.ep[0], p.buf), -ENOENT);
	err = node_error(&node, 0);
	assert_int_equal(err.err, ECANCELED);
	assert_ptr_equal(err.comp.context, p.buf);
	free(p.buf);
}

static void same_as_the_reference(void **state)
{
	struct list posts = {.n = 0}, early = {.n = 0};
	uint64_t seed = 2026;

	node_open(&node, 3);
	for (uint64_t i = 0; i < RANDOM_EVENTS; i++) {
		uint64_t x = table_random(&seed) % 16;

		if (x == 0 && posts.n)
			random_cancel(&posts, &seed);
		else if (x < 8 ? posts.n < LIVE : early.n == LIVE)
			random_post(&posts, &early, &seed);
		else if (early.n < LIVE)
			random_send(&posts, &early, i, &seed);
		if (posts.n == LIVE)
			random_cancel(&posts, &seed);
	}
	while (posts.n)
		random_cancel(&posts, &seed);
	while (early.n) {
		struct item m = take_out(&early, 0), p = {.len = 80000};

		p.buf = malloc(p.len);
		assert_int_equal(
			bl_recv_buf(node.ep[0], p.buf, p.len, ANY, 0, ~0ull, p.buf, NODE_FLAGS), 0);
		expect_match(&p, &m);
	}
	node_expect_nothing(&node, 0);
	node_close(&node);
}

/* --- buffers for many messages ---------------------------------------------- */

struct multi_row {
	struct row row;
	size_t size, least; /* of the buffer; min_multi_recv */
	size_t len[5];	    /* of the messages; 0 ends */
	size_t at[5];	    /* where they must lie */
	int last;	    /* the message whose completion releases the buffer; -1 */
	bool truncated;	    /* that one is longer than the room */
};

static const struct multi_row multis[] = {
	{{"one", "room is left"}, 4096, 64, {100}, {0}, -1, false},
	{{"two", "the second begins on a line of its own"},
	 4096,
	 64,
	 {100, 100},
	 {0, 128},
	 -1,
	 false},
	{{"a whole line", "no gap"}, 4096, 64, {64, 1}, {0, 64}, -1, false},
	{{"exactly min left", "still posted"}, 4096, 64, {4032}, {0}, -1, false},
	{{"less than min left", "released"}, 4096, 64, {4033}, {0}, 0, false},
	{{"fills it", "released with nothing left"}, 4096, 64, {4096}, {0}, 0, false},
	{{"min of 1", "released only when it is full"}, 4096, 1, {4096}, {0}, 0, false},
	{{"no min", "the same: what is full takes nothing more"}, 4096, 0, {4096}, {0}, 0, false},
	{{"large min", "released while much is left"}, 4096, 4000, {97}, {0}, 0, false},
	{{"too long at once", "truncated, released"}, 4096, 64, {5000}, {0}, 0, true},
	{{"too long at last", "truncated to what is left"},
	 4096,
	 64,
	 {3000, 2000},
	 {0, 3008},
	 1,
	 true},
	{{"copied once", "a large message in the buffer"},
	 199000,
	 64,
	 {100, 150000, 10},
	 {0, 128, 150144},
	 -1,
	 false},
	{{"many", "each on its line"},
	 4096,
	 64,
	 {1, 65, 289, 288, 3000},
	 {0, 64, 192, 512, 832},
	 -1,
	 false},
};

static void multi_recv(const struct multi_row *row, bool early)
{
	struct iovec iov = {incoming[0], row->size};
	struct bl_recv recv = {&iov, 1, 1, 0, 0, &node, BL_MSG | BL_MULTI_RECV | BL_COMPLETION,
			       NULL};
	size_t n = 0;

	bl_ep_set_min_multi_recv(node.ep[0], row->least);
	memset(incoming[0], 0xfe, sizeof incoming[0]);
	if (!early)
		assert_int_equal(bl_recv(node.ep[0], &recv), 0);
	for (; n < 5 && row->len[n]; n++)
		send_number(n, 1, 0, row->len[n], BL_MSG);
	if (early)
		assert_int_equal(bl_recv(node.ep[0], &recv), 0);
	for (size_t i = 0; i < n; i++) {
		bool last = (int)i == row->last;
		size_t fits = row->len[i];
		struct bl_comp comp;

		if (last && row->truncated) {
			struct bl_comp_err err = node_error(&node, 0);

			fits = row->size - row->at[i];
			assert_int_equal(err.err, BL_ETRUNC);
			assert_int_equal(err.olen, row->len[i] - fits);
			comp = err.comp;
		} else {
			comp = node_completion(&node, 0, NULL);
		}
		assert_ptr_equal(comp.context, &node);
		assert_ptr_equal(comp.buf, incoming[0] + row->at[i]);
		assert_int_equal(comp.len, fits);
		assert_true(comp.flags == (BL_MSG | BL_RECV | (last ? BL_MULTI_RECV : 0)));
		assert_true(has_number(comp.buf, fits, (int)i));
	}
	assert_int_equal(incoming[0][row->size], 0xfe);
	assert_int_equal(bl_cancel(node.ep[0], &node), row->last < 0 ? 0 : -ENOENT);
	if (row->last < 0)
		assert_true(node_error(&node, 0).comp.flags & BL_MULTI_RECV);
	node_expect_nothing(&node, 0);
}

static void one_buffer_many_messages(void **state)
{
	const struct multi_row *row = TABLE_ROW(struct multi_row, state);

	node_open(&node, 2);
	multi_recv(row, false);
	multi_recv(row, true);
	node_close(&node);
}

/* --- peek, claim, discard ---------------------------------------------------- */

static void look(uint64_t tag, uint64_t flags, void *context)
{
	struct bl_recv recv = {
		NULL, 0, 1, tag, 0, context, BL_TAGGED | BL_PEEK | BL_COMPLETION | flags, NULL};

	assert_int_equal(bl_recv(node.ep[0], &recv), 0);
}

static void peek_claim_discard(void **state)
{
	struct iovec iov = {incoming[0], sizeof incoming[0]};
	struct bl_recv claim = {&iov, 1, 1, 5, 0, &claim, BL_TAGGED | BL_CLAIM | BL_COMPLETION,
				NULL};
	struct bl_comp comp;

	node_open(&node, 2);
	for (size_t len = 100; len < 200000; len += 149900) {
		look(5, 0, NULL);
		assert_int_equal(node_error(&node, 0).err, ENOMSG);
		send_number(0, 1, 5, len, BL_TAGGED);
		send_number(1, 1, 5, len, BL_TAGGED);
		send_number(2, 1, 5, len, BL_TAGGED);
		look(6, 0, NULL);
		assert_int_equal(node_error(&node, 0).err, ENOMSG);
		look(5, 0, NULL); /* stays */
		comp = node_completion(&node, 0, NULL);
		assert_int_equal(comp.len, len);
		assert_true(comp.tag == 5);
		assert_int_equal(bl_recv(node.ep[0], &claim), -ENOMSG);
		look(5, BL_CLAIM, &claim); /* the first is mine */
		assert_int_equal(node_completion(&node, 0, NULL).len, len);
		look(5, BL_DISCARD, NULL); /* the second is nobody's */
		assert_int_equal(node_completion(&node, 0, NULL).len, len);
		assert_int_equal(
			bl_recv_buf(node.ep[0], incoming[2], len, 1, 5, 0, NULL, NODE_FLAGS), 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, len);
		assert_true(has_number(incoming[2], len, 2));
		assert_int_equal(bl_recv(node.ep[0], &claim), 0);
		assert_int_equal(node_completion(&node, 0, NULL).len, len);
		assert_true(has_number(incoming[0], len, 0));
		assert_int_equal(bl_recv(node.ep[0], &claim), -ENOMSG); /* once */
		send_number(3, 1, 5, len, BL_TAGGED);
		look(5, BL_CLAIM, &claim);
		node_completion(&node, 0, NULL);
		claim.flags |= BL_DISCARD;
		assert_int_equal(bl_recv(node.ep[0], &claim), 0);
		claim.flags &= ~BL_DISCARD;
		assert_int_equal(node_completion(&node, 0, NULL).len, len);
		node_expect_nothing(&node, 0);
		/* the senders of large ones that nobody wanted are told */
		for (uint64_t until = bl_clock_ns() + 10000000000ull; node.ep[1]->rndv.requests;) {
			assert_true(bl_clock_ns() < until);
			node_progress(&node);
		}
	}
	node_close(&node);
}

/* --- two receives under one name --------------------------------------------------- */

/* The first is claimed: cancelling takes the second. */
static void cancel_second(void **state)
{
	static uint8_t from[200000], to[2][200000];
	struct bl_comp_err err;

	node_open(&node, 2);
	for (size_t a = 0; a < 2; a++) /* as two processes: only there a sender claims */
		for (size_t b = 0; b < 2; b++)
			node.ep[a]->dest[b]->copy.pull = node.ep[a]->dest[b]->copy.push =
				BL_COPY_VM;
	memset(from, 7, sizeof from);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			bl_recv_buf(node.ep[0], to[i], sizeof to[i], 1, 5, 0, to, NODE_FLAGS), 0);
	atomic_store_explicit(&node.ep[0]->local.seg.header->here, 0, memory_order_relaxed);
	node_send(&node, 1, 0, from, sizeof from, 5, from, NODE_FLAGS);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	assert_int_equal(bl_cancel(node.ep[0], to), 0);
	assert_int_equal(bl_cancel(node.ep[0], to), -ENOENT);
	err = node_error(&node, 0);
	assert_int_equal(err.err, ECANCELED);
	assert_ptr_equal(node_completion(&node, 0, NULL).context, to);
	assert_memory_equal(to[0], from, sizeof from);
	assert_int_equal(to[1][0], 0);
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("script", script, scripts);
	TABLE_TEST(untagged_and_tagged_don_t_mix);
	TABLE_TEST(same_as_the_reference);
	TABLE_ROWS("multi", one_buffer_many_messages, multis);
	TABLE_TEST(peek_claim_discard);
	TABLE_TEST(cancel_second);
	return table_run("match");
}
