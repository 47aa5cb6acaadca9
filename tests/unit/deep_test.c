/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deep_test.c: deep queues (core/match.c) against a search from the front. Receives and messages
 * come and go at random, thousands of them; whatever is looked up in the queue is looked up in a
 * plain array as well, and must be the same one.
 */
#include <string.h>

#include "core/match.h"
#include "endpoint/srx.h"
#include "unit/table.h"

#define MOST	3000
#define SOURCES 6
#define STEPS	30000

static struct bl_ep ep, context; /* context: a shared one, whose member ep may be */
static struct bl_peer peer[SOURCES];
static struct bl_post post[MOST], *waiting[MOST];
static struct bl_unexpected unex[MOST], *early[MOST];
static uint32_t count, cycles;
static bool streamed;
static uint64_t random_state;
static int allocations_left;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

static bool may_allocate(void)
{
	if (!allocations_left)
		return false;
	allocations_left -= allocations_left > 0;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return may_allocate() ? __real_calloc(n, bytes) : NULL;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(table_random(&random_state) >> 16) % n;
}

enum {
	POSTS = 1,   /* its receives have an index, and lose it */
	EARLIES = 2, /* its early messages */
	BOTH = POSTS | EARLIES,
	MEMBER = 4, /* the early messages came to a member of a shared context */
	UNTAGGED = 8,
	CHANGING = 16, /* other kinds each time that the queue is empty */
};

struct deep_row {
	struct row row;
	uint32_t sources, tags;
	uint32_t ignores; /* so many of ignore[] */
	uint32_t anybody; /* so many of 8 are from anybody */
	uint32_t depth;	  /* so many at most, at times none */
	int allocations;  /* that succeed; -1: all */
	uint32_t flags;
};

static const uint64_t ignore[] = {
	0,  ~0ull, 0xffff, 1ull << 63, 0xff00ull << 32, 1, 2, 4, 8,
	16, 32,	   64,	   0xfffffffe, ~0ull ^ 0xf0f,
};

#define ALL (sizeof ignore / sizeof *ignore)

static const struct deep_row rows[] = {
	{{"short", "nothing but lists"}, 2, 8, 2, 2, 16, -1, 0},
	{{"as many as are looked at", "none is passed by"}, 1, 64, 1, 0, BL_MATCH_FAR, -1, 0},
	{{"one kind", "all are found by source and tag"}, 6, 500, 1, 0, MOST, -1, BOTH},
	{{"one source", "tags alone"}, 1, 3000, 1, 0, MOST, -1, BOTH},
	{{"one tag", "the first always matches"}, 1, 1, 1, 0, MOST, -1, 0},
	{{"two tags", "long chains: the oldest"}, 1, 2, 1, 0, MOST, -1, BOTH},
	{{"sources of one tag", "a chain for each"}, 6, 1, 1, 0, MOST, -1, BOTH},
	{{"MPI's kinds", "any tag, any source"}, 6, 300, 2, 2, MOST, -1, BOTH},
	{{"wildcards only", "the oldest of those"}, 6, 100, 2, 8, MOST, -1, BOTH},
	{{"more kinds than fit", "some lie in one chain"}, 6, 400, ALL, 3, MOST, -1, BOTH},
	{{"kinds come and go", "numbers are given again"}, 6, 300, 4, 2, 300, -1, BOTH | CHANGING},
	{{"untagged", "tags don't count"}, 6, 99, 1, 1, MOST, -1, BOTH | UNTAGGED},
	{{"grows by and by", "tables grow"}, 6, 3000, 4, 1, MOST, -1, BOTH},
	{{"now deep, now empty", "the index goes and comes"}, 6, 200, 3, 2, 200, -1, BOTH},
	{{"no memory", "lists do"}, 6, 300, 2, 2, MOST, 0, 0},
	{{"no memory for tables", "lists do"}, 6, 300, 2, 2, MOST, 1, 0},
	{{"no memory to grow", "chains are longer"}, 6, 3000, 2, 1, MOST, 4, BOTH},
	{{"a member's", "its early messages have no index"},
	 6,
	 300,
	 2,
	 2,
	 MOST,
	 -1,
	 POSTS | MEMBER},
};

static uint64_t some_tag(const struct deep_row *r)
{
	uint64_t tag = below(r->tags);

	return tag | tag << 40; /* low and high bits, as MPI libraries use them */
}

static struct bl_post some_receive(const struct deep_row *r)
{
	uint32_t kind = r->flags & CHANGING ? cycles * r->ignores : 0;

	return (struct bl_post){
		.tag = r->flags & UNTAGGED ? 0 : some_tag(r),
		.ignore = r->flags & UNTAGGED ? ~0ull : ignore[(kind + below(r->ignores)) % ALL],
		.src = below(8) < r->anybody ? NULL : &peer[below(r->sources)],
	};
}

/* Until it is deep, and then until it is empty. */
static bool one_more(const struct deep_row *r)
{
	if (!count)
		cycles++;
	if (!count || count == r->depth)
		streamed = !count;
	return count < r->depth && below(8) < (streamed ? 6 : 1);
}

static void leave(void *array, uint32_t i)
{
	void **at = array;

	memmove(&at[i], &at[i + 1], (--count - i) * sizeof *at);
}

/* --- posted receives --------------------------------------------------------- */

static uint32_t first_post(uint32_t i, const struct bl_peer *from, uint64_t tag)
{
	while (i < count && !bl_match(waiting[i], from, tag))
		i++;
	return i;
}

static void check_post(const struct bl_post_queue *queue, struct bl_post **found, uint32_t i)
{
	assert_ptr_equal(*found, i < count ? waiting[i] : NULL);
	if (!*found)
		assert_ptr_equal(found, queue->tail);
}

static void take_post(struct bl_post_queue *queue, struct bl_post **at, uint32_t i)
{
	struct bl_post *taken = *at;

	bl_post_unlink(queue, at);
	bl_post_free(&ep, taken);
	leave(waiting, i);
}

static void match_one(const struct deep_row *r, struct bl_post_queue *queue)
{
	const struct bl_post *any = count ? waiting[below(count)] : NULL;
	bool there = any && below(4); /* mostly what somebody waits for */
	const struct bl_peer *from = there && any->src ? any->src : &peer[below(r->sources)];
	uint64_t tag = r->flags & UNTAGGED ? 0
		       : there		   ? any->tag ^ (any->ignore & below(4))
					   : some_tag(r);
	struct bl_post **at = bl_match_find(queue, from, tag);
	uint32_t i = first_post(0, from, tag);

	check_post(queue, at, i);
	while (*at && below(4) == 0) { /* a sender has claimed it: the next */
		at = bl_match_next(queue, at, from, tag);
		i = first_post(i + 1, from, tag);
		check_post(queue, at, i);
	}
	if (*at)
		take_post(queue, at, i);
}

/* All that is in the queue is in its index, once, and kinds that have gone make room. */
static void check_post_index(const struct deep_row *r, const struct bl_post_queue *queue)
{
	const struct bl_post_index *x = queue->index;
	uint32_t sum = 0;

	if (!x)
		return;
	for (uint32_t k = 0; k <= BL_POST_KINDS; k++)
		sum += x->count[k];
	assert_int_equal(sum, count);
	assert_int_equal(x->table.count, count);
	assert_true(count > BL_MATCH_SHORT);
	if (r->allocations < 0)
		assert_true(count <= 2 * (x->table.mask + 1));
	if (2 * r->ignores <= BL_POST_KINDS)
		assert_int_equal(x->count[BL_POST_KINDS], 0);
}

static void posts_are_found(void **state)
{
	const struct deep_row *r = TABLE_ROW(struct deep_row, state);
	struct bl_post_queue queue = {.tail = &queue.head};
	bool indexed = false, dropped = false;

	ep.free_post = NULL;
	for (uint32_t i = 0; i < MOST; i++)
		bl_post_free(&ep, &post[i]);
	for (uint32_t step = 0; step < STEPS; step++) {
		if (one_more(r)) {
			struct bl_post *p = ep.free_post;

			ep.free_post = p->next;
			*p = some_receive(r);
			bl_post_append(&queue, p);
			waiting[count++] = p;
		} else if (count && below(8) == 0) {
			uint32_t i = below(count); /* it is cancelled */
			struct bl_post **at = bl_post_link(&queue, waiting[i]);

			assert_ptr_equal(*at, waiting[i]);
			take_post(&queue, at, i);
		} else {
			match_one(r, &queue);
		}
		indexed |= queue.index != NULL;
		dropped |= indexed && !queue.index;
		check_post_index(r, &queue);
	}
	assert_int_equal(indexed, !!(r->flags & POSTS));
	assert_int_equal(dropped, !!(r->flags & POSTS));
	bl_post_unindex(&queue);
}

/* Receive 499 is found though the list is cut behind its 100th, since an index is there. */
static void index_is_used(void **state)
{
	struct bl_post_queue queue = {.tail = &queue.head};

	(void)state;
	for (uint32_t i = 0; i < 500; i++) {
		post[i] = (struct bl_post){.src = &peer[0], .tag = i};
		bl_post_append(&queue, &post[i]);
	}
	assert_null(queue.index);
	assert_null(*bl_match_find(&queue, &peer[0], 500));
	assert_non_null(queue.index);
	post[100].next = NULL;
	assert_ptr_equal(*bl_match_find(&queue, &peer[0], 499), &post[499]);
	post[100].next = &post[101];
	bl_post_unindex(&queue);
}

/* A kind whose receives have all gone leaves its number to another, while others stay. */
static void kinds_are_reused(void **state)
{
	struct bl_post_queue queue = {.tail = &queue.head};
	uint32_t standing = 100;

	(void)state;
	for (uint32_t i = 0; i < standing; i++) {
		post[i] = (struct bl_post){.src = &peer[0], .tag = i};
		bl_post_append(&queue, &post[i]);
	}
	assert_null(*bl_match_find(&queue, &peer[0], standing));
	for (uint32_t k = 0; k < 3 * BL_POST_KINDS; k++) {
		struct bl_post *one = &post[standing];

		*one = (struct bl_post){.src = &peer[1], .tag = k, .ignore = 1ull << (60 - k)};
		bl_post_append(&queue, one);
		assert_int_equal(queue.index->count[BL_POST_KINDS], 0);
		assert_ptr_equal(*bl_match_find(&queue, &peer[1], k | one->ignore), one);
		bl_post_unlink(&queue, bl_post_link(&queue, one));
	}
	bl_post_unindex(&queue);
}

/* --- early messages ---------------------------------------------------------- */

static uint32_t first_early(const struct bl_post *wanted)
{
	uint32_t i = 0;

	while (i < count && !bl_match(wanted, early[i]->peer, early[i]->tag))
		i++;
	return i;
}

/* Mostly one that something waits for. */
static struct bl_post wanted_receive(const struct deep_row *r)
{
	struct bl_post wanted = some_receive(r);
	const struct bl_unexpected *any = count ? early[below(count)] : NULL;

	if (any && below(4)) {
		wanted.tag = r->flags & UNTAGGED ? 0 : any->tag;
		wanted.src = wanted.src ? any->peer : NULL;
	}
	return wanted;
}

static void check_unex_index(const struct bl_unexpected_queue *queue)
{
	const struct bl_unexpected_index *x = queue->index;

	for (uint32_t view = 0; x && view < x->nview; view++)
		assert_int_equal(x->view[view].table.count, count);
}

static void find_one(const struct deep_row *r, struct bl_unexpected_queue *queue)
{
	struct bl_post wanted = wanted_receive(r);
	uint32_t i = first_early(&wanted);
	struct bl_unexpected **at = bl_unexpected_find(queue, &wanted, !(r->flags & UNTAGGED));

	assert_ptr_equal(*at, i < count ? early[i] : NULL);
	if (!*at || below(8) == 0) /* a mere look */
		return;
	bl_unexpected_unlink(queue, at);
	early[i]->pool = 0; /* free again */
	leave(early, i);
}

static void earlies_are_found(void **state)
{
	const struct deep_row *r = TABLE_ROW(struct deep_row, state);
	struct bl_unexpected_queue queue = {.tail = &queue.head};
	uint32_t next = 0;
	bool indexed = false, dropped = false;

	for (uint32_t step = 0; step < STEPS; step++) {
		if (one_more(r)) {
			struct bl_unexpected *u;

			do
				u = &unex[next++ % MOST];
			while (u->pool);
			*u = (struct bl_unexpected){
				.peer = &peer[below(r->sources)], .tag = some_tag(r), .pool = 1};
			bl_unexpected_append(&queue, u);
			early[count++] = u;
		} else {
			find_one(r, &queue);
		}
		indexed |= queue.index != NULL;
		dropped |= indexed && !queue.index;
		check_unex_index(&queue);
	}
	assert_int_equal(indexed, !!(r->flags & EARLIES));
	assert_int_equal(dropped, !!(r->flags & EARLIES));
	bl_unexpected_unindex(&queue);
}

enum { HELD = 500 };

static struct bl_post of_kind(uint32_t k, uint64_t tag)
{
	return (struct bl_post){.tag = tag, .ignore = 1ull << (60 - k)};
}

static void hold(struct bl_unexpected_queue *queue)
{
	for (uint32_t i = 0; i < HELD; i++) {
		unex[i] = (struct bl_unexpected){.peer = &peer[i % SOURCES], .tag = i};
		bl_unexpected_append(queue, &unex[i]);
	}
}

/* Whether the last is found though the list is cut in the middle: by a view. */
static bool has_view(struct bl_unexpected_queue *queue, uint32_t k)
{
	struct bl_post wanted = of_kind(k, HELD - 1);
	struct bl_unexpected_index *x = queue->index;
	uint32_t view = 0;

	while (view < x->nview && x->view[view].kind.ignore != wanted.ignore)
		view++;
	if (view == x->nview)
		return false;
	unex[50].next = NULL;
	assert_ptr_equal(*bl_unexpected_find(queue, &wanted, true), &unex[HELD - 1]);
	unex[50].next = &unex[51];
	return true;
}

/* Each kind that searches for long gets one, while there are any left. */
static void views_are_used(void **state)
{
	struct bl_unexpected_queue queue = {.tail = &queue.head};

	(void)state;
	hold(&queue);
	for (uint32_t k = 0; k < BL_VIEWS + 1; k++) {
		struct bl_post wanted = of_kind(k, HELD);

		assert_null(*bl_unexpected_find(&queue, &wanted, true));
	}
	for (uint32_t k = 0; k < BL_VIEWS; k++)
		assert_true(has_view(&queue, k));
	assert_false(has_view(&queue, BL_VIEWS));
	bl_unexpected_unindex(&queue);
}

/* One that is used gives way to none; the kind that searches in vain gets one in the end. */
static void views_give_way(void **state)
{
	struct bl_unexpected_queue queue = {.tail = &queue.head};
	uint32_t searches = 0;

	(void)state;
	hold(&queue);
	for (uint32_t k = 0; k < BL_VIEWS; k++) {
		struct bl_post wanted = of_kind(k, HELD);

		for (uint32_t i = 0; i < (k == 2 ? 1 : 3); i++)
			assert_null(*bl_unexpected_find(&queue, &wanted, true));
	}
	for (; !has_view(&queue, BL_VIEWS); searches++) {
		struct bl_post wanted = of_kind(BL_VIEWS, HELD);

		assert_true(searches < 100);
		assert_null(*bl_unexpected_find(&queue, &wanted, true));
	}
	assert_true(searches > 4); /* not at once */
	for (uint32_t k = 0; k < BL_VIEWS; k++)
		assert_int_equal(has_view(&queue, k), k != 2);
	for (uint32_t i = 0; i < HELD; i++)
		bl_unexpected_unlink(&queue, &queue.head);
	assert_null(queue.index);
}

static int setup(void **state)
{
	const struct deep_row *r = *state;

	memset(unex, 0, sizeof unex);
	count = cycles = 0;
	streamed = true;
	random_state = 1;
	allocations_left = r ? r->allocations : -1;
	ep.home = r && r->flags & MEMBER ? &context : &ep;
	for (uint32_t i = 0; i < SOURCES; i++) {
		peer[i].local = &ep.local;
		peer[i].av_index = i;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	allocations_left = -1;
	return 0;
}

int main(void)
{
	TABLE_ROWS("posted", posts_are_found, rows);
	TABLE_ROWS("early", earlies_are_found, rows);
	TABLE_TEST(index_is_used);
	TABLE_TEST(kinds_are_reused);
	TABLE_TEST(views_are_used);
	TABLE_TEST(views_give_way);
	for (size_t i = 0; i < table_tests; i++) {
		table_test[i].setup_func = setup;
		table_test[i].teardown_func = teardown;
	}
	return table_run("deep");
}
