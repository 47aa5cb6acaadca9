/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stretch_test.c: rings that are made longer (transport/local/adapt/longring.c), for whom and how
 * long, what happens where they can't be, and how long a message may be that goes through one
 * (bl_eager_long_to). Which messages do is whole_test's.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/knobs.h"
#include "unit/ahead.h"

static uint64_t room = UINT64_MAX;
static int refused;

uint64_t __wrap_bl_memlimit(void);
uint64_t __wrap_bl_memlimit(void)
{
	return room;
}

int __wrap_madvise(void *addr, size_t len, int advice);
int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice)
{
	if (!refused || advice != 23) /* MADV_POPULATE_WRITE */
		return __real_madvise(addr, len, advice);
	__real_madvise(addr, len / 2, advice); /* it had some of them */
	errno = refused;
	return -1;
}

/* Of the second-level cache. */
static size_t cache = 512 << 10;

size_t __wrap_bl_place_cache(void);
size_t __wrap_bl_place_cache(void)
{
	return cache;
}

static uint64_t longring_bytes(void)
{
	return atomic_load(&sender->local.stats->counter[BL_STAT_longring_bytes].value);
}

/* Pages of our lane from byte `at` on that are there. */
static size_t pages_from(size_t at)
{
	unsigned char there[BL_LANE_MOST / 4096];
	size_t n = 0, pages = (sender->local.seg.lane_span - at) / 4096;

	if (!pages)
		return 0;
	assert_int_equal(mincore((char *)peer()->tx.lane + at, pages * 4096, there), 0);
	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	return n;
}

static uint32_t op_of(uint32_t number)
{
	return BL_HEAD_OP(peer()->tx.slot[number % BL_SLOTS].head);
}

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
	peer()->copy.lend = row->lends;
	sender->local.nlongrings = row->others;
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
	sender->local.nlongrings = is_long();
	stretch(); /* what was missing may be there; what has it gets no more */
	assert_int_equal(longring_bytes(), is_long() ? MORE : 0);
	if (row->stays)
		assert_false(is_long());
	peer()->copy.lend = false;
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
		send_by(CARRIED, 1, i % 2 ? BL_DELIVERY_COMPLETE : 0);
		assert_true(peer()->tx.pay_most >= BL_PAYLOAD_OF(BL_LANE_LONG));
		assert_int_equal(op_of(n++), BL_OP_TAGGED);
		assert_int_equal(node_completion(&node, 0, NULL).len, CARRIED);
		node_completion(&node, 1, NULL);
		check(CARRIED);
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
	stretch();
	assert_true(is_long());
	if (row->unread) {
		send_by(CARRIED, 1, 0);
		peer()->stretched_next = (uint16_t)peer()->tx.next;
	}
	if (row->used)
		send_by(8, 1, 0);
	peer()->tx.offers = row->offers;
	sender->local.nlongrings = 16;
	sender->local.stretched_at = bl_ticks() - (row->later ? 2 : 0) * second;
	other->tx.nlong = BL_LONGRING_USES;
	bl_longring_look(other);
	assert_int_equal(is_long(), !row->free);
	assert_int_equal(other->tx.pay_most > BL_PAYLOAD_SIZE, row->free);
	assert_int_equal(sender->local.nlongrings, 16);
	if (row->free)
		assert_int_equal(pages_from(BL_LANE_SIZE), 0);
	peer()->tx.offers = false;
	for (uint32_t i = 0; i < 50; i++) { /* and the ring is used as it is now */
		size_t len = row->unread && !i ? CARRIED : 3000;

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
		sender->next_look = bl_ticks() + 1000000 * bl_ticks_per_us();
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
	stretch();
	assert_true(is_long());
	assert_int_equal(sender->local.nlongrings, 1);
	tail = (char *)peer()->tx.lane + BL_LANE_SIZE;
	assert_int_equal(mincore(tail, MORE, there), 0);
	for (size_t i = 0; i < sizeof there; i++)
		assert_true(there[i] & 1);
	bl_ep_peer_gone(sender, &none, peer(), ENOTCONN);
	assert_int_equal(sender->local.nlongrings, 0);
	assert_int_equal(longring_bytes(), 0);
	assert_int_equal(mincore(tail, MORE, there), 0);
	for (size_t i = 0; i < sizeof there; i++)
		assert_false(there[i] & 1);
	node_close(&node);
}

struct length_row {
	struct row row;
	size_t cache;
	uint32_t longest; /* neighbours that have one of more than BL_LANE_LONG */
	uint64_t room;
	rlim_t file;	   /* bytes that a file may have */
	const char *when;  /* of the knob; or the address space is limited */
	size_t span, size; /* of the lane: what it may grow to, and does */
};

#define ROOM(lane) (64 * ((uint64_t)(lane)-BL_LANE_SIZE) + (1 << 20))
#define NO_MORE	   RLIM_INFINITY

static const struct length_row lengths[] = {
	{{"not known", "no cache is told of"},
	 0,
	 0,
	 UINT64_MAX,
	 NO_MORE,
	 "auto",
	 BL_LANE_LONG,
	 BL_LANE_LONG},
	{{"512 KiB", "enough for one that has as much"},
	 512 << 10,
	 0,
	 UINT64_MAX,
	 NO_MORE,
	 "auto",
	 BL_LANE_LONG,
	 BL_LANE_LONG},
	{{"1 MiB", "all of 512 KiB would stay there"},
	 1 << 20,
	 0,
	 UINT64_MAX,
	 NO_MORE,
	 "auto",
	 BL_LANE_MOST,
	 BL_LANE_MOST},
	{{"the fourth", "the last one of that length"},
	 1 << 20,
	 3,
	 UINT64_MAX,
	 NO_MORE,
	 "auto",
	 BL_LANE_MOST,
	 BL_LANE_MOST},
	{{"the fifth", "gets a shorter one"},
	 1 << 20,
	 4,
	 UINT64_MAX,
	 NO_MORE,
	 "auto",
	 BL_LANE_MOST,
	 BL_LANE_LONG},
	{{"memory limit", "just enough for the longest"},
	 1 << 20,
	 0,
	 ROOM(BL_LANE_MOST - BL_LANE_LONG + BL_LANE_SIZE),
	 NO_MORE,
	 "auto",
	 BL_LANE_MOST,
	 BL_LANE_MOST},
	{{"memory limit", "a byte less: a shorter one"},
	 1 << 20,
	 0,
	 ROOM(BL_LANE_MOST - BL_LANE_LONG + BL_LANE_SIZE) - 1,
	 NO_MORE,
	 "auto",
	 BL_LANE_MOST,
	 BL_LANE_LONG},
	{{"memory limit", "too little for either"},
	 1 << 20,
	 0,
	 ROOM(BL_LANE_LONG) - 1,
	 NO_MORE,
	 "auto",
	 BL_LANE_MOST,
	 BL_LANE_SIZE},
	{{"limit of files", "just enough"},
	 1 << 20,
	 0,
	 UINT64_MAX,
	 BL_LANE_MOST,
	 "auto",
	 BL_LANE_MOST,
	 BL_LANE_MOST},
	{{"limit of files", "a byte less: a shorter one"},
	 1 << 20,
	 0,
	 UINT64_MAX,
	 BL_LANE_MOST - 1,
	 "auto",
	 BL_LANE_LONG,
	 BL_LANE_LONG},
	{{"limit of files", "just enough for that"},
	 1 << 20,
	 0,
	 UINT64_MAX,
	 BL_LANE_LONG,
	 "auto",
	 BL_LANE_LONG,
	 BL_LANE_LONG},
	{{"limit of files", "a byte less: none is longer"},
	 1 << 20,
	 0,
	 UINT64_MAX,
	 BL_LANE_LONG - 1,
	 "auto",
	 BL_LANE_SIZE,
	 BL_LANE_SIZE},
	{{"2 MiB", "what it would take is too much"},
	 2 << 20,
	 0,
	 UINT64_MAX,
	 NO_MORE,
	 "auto",
	 BL_LANE_LONG,
	 BL_LANE_LONG},
	{{"limit of address space", "a lane takes it whether it is stretched or not"},
	 1 << 20,
	 0,
	 UINT64_MAX,
	 NO_MORE,
	 "space",
	 BL_LANE_LONG,
	 BL_LANE_LONG},
	{{"never", "by the knob: no address space for it either"},
	 1 << 20,
	 0,
	 UINT64_MAX,
	 NO_MORE,
	 "never",
	 BL_LANE_SIZE,
	 BL_LANE_SIZE},
};

static size_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (size_t)st.st_size;
}

static void how_long(void **state)
{
	const struct length_row *row = TABLE_ROW(struct length_row, state);
	uint64_t *knob = (uint64_t *)(uintptr_t)&bl_knobs()->long_ring, was = *knob;
	struct rlimit all, some, space;
	struct bl_link link = {0};
	int fd;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
	some = (struct rlimit){row->file, all.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &some), 0);
	cache = row->cache;
	*knob = *row->when == 'n' ? 2 : 0;
	assert_int_equal(getrlimit(RLIMIT_AS, &space), 0);
	if (*row->when == 's')
		assert_int_equal(setrlimit(RLIMIT_AS, &(struct rlimit){1ull << 60, space.rlim_max}),
				 0);
	open_pair();
	assert_int_equal(setrlimit(RLIMIT_AS, &space), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	assert_int_equal(sender->local.seg.lane_span, row->span);
	assert_int_equal(1u << peer()->rx.span, row->span); /* which both map, and no more */
	fd = bl_lane_make(&sender->local.seg, &link);
	assert_true(fd >= 0);
	assert_int_equal(size_of(fd), row->span);
	close(fd);
	bl_lane_drop(link.ours, link.ours_span);
	sender->local.nlongest = row->longest;
	room = row->room;
	stretch();
	room = UINT64_MAX;
	assert_int_equal(peer()->tx.pay_size, BL_PAYLOAD_OF(row->size));
	assert_int_equal(longring_bytes(), row->size - BL_LANE_SIZE);
	assert_int_equal(sender->local.nlongest, row->longest + (row->size == BL_LANE_MOST));
	bl_longring_over(peer());
	assert_int_equal(sender->local.nlongest, row->longest);
	assert_int_equal(longring_bytes(), 0);
	peer()->tx.pay_size = peer()->tx.pay_most = BL_PAYLOAD_SIZE;
	node_close(&node);
	cache = 512 << 10;
	*knob = was;
}

/* Of a lane of any length the last part is the copy buffer, and given back with it. Where there
 * is address space behind it, it may be made longer. */
struct buffer_row {
	struct row row;
	size_t cache;
	bool by_stream;
	size_t dirty_max;
	const char *limit; /* "space": of the address space, "file": of a file, as long as a long
			      lane */
	uint64_t room;	   /* when it is to be longer; 0: plenty */
	int refused;	   /* then, by the kernel */
	size_t span, size; /* of the lane: what it may grow to, and does */
	uint32_t then;	   /* of the buffer, when a message of `dirty_max` is to go there */
};

#define KB512	     524288u
#define LONGER(most) (64 * ((uint64_t)(most)-BL_COPYBUF_SIZE) + (1 << 20))

static const struct buffer_row buffers[] = {
	{{"long", "512 KiB"}, 512 << 10, .span = BL_LANE_LONG, .size = BL_LANE_LONG},
	{{"longest", "2 MiB"}, 1 << 20, .span = BL_LANE_MOST, .size = BL_LANE_MOST},
	{{"streams", "nothing that was just written"},
	 2 << 20,
	 true,
	 .span = BL_LANE_LONG,
	 .size = BL_LANE_LONG},
	{{"just written, not longer", "as much as any buffer has"},
	 2 << 20,
	 true,
	 BL_COPYBUF_SIZE,
	 .span = BL_LANE_LONG,
	 .size = BL_LANE_LONG,
	 .then = BL_COPYBUF_SIZE},
	{{"just written", "the longest message"},
	 2 << 20,
	 true,
	 KB512,
	 .span = BL_LANE_COPYBUF,
	 .size = BL_LANE_LONG,
	 .then = KB512},
	{{"just written, shorter", "as much as that is"},
	 1 << 20,
	 true,
	 262144,
	 .span = BL_LANE_COPYBUF,
	 .size = BL_LANE_LONG,
	 .then = 262144},
	{{"carried and just written", "what is left of its span"},
	 1 << 20,
	 false,
	 KB512,
	 .span = BL_LANE_MOST,
	 .size = BL_LANE_MOST - (KB512 - BL_COPYBUF_SIZE),
	 .then = KB512},
	{{"carried and just written, small cache", "the same"},
	 512 << 10,
	 false,
	 KB512,
	 .span = BL_LANE_MOST,
	 .size = BL_LANE_MOST - (KB512 - BL_COPYBUF_SIZE),
	 .then = KB512},
	{{"carried and just written, not longer, small cache", "nothing is left"},
	 512 << 10,
	 false,
	 BL_COPYBUF_SIZE,
	 .span = BL_LANE_LONG,
	 .size = BL_LANE_LONG,
	 .then = BL_COPYBUF_SIZE},
	{{"just written, memory limit", "just enough"},
	 2 << 20,
	 true,
	 KB512,
	 .room = LONGER(KB512),
	 .span = BL_LANE_COPYBUF,
	 .size = BL_LANE_LONG,
	 .then = KB512},
	{{"just written, memory limit", "a byte less: as it was"},
	 2 << 20,
	 true,
	 KB512,
	 .room = LONGER(KB512) - 1,
	 .span = BL_LANE_COPYBUF,
	 .size = BL_LANE_LONG,
	 .then = BL_COPYBUF_SIZE},
	{{"just written, no memory", "what had been given is given back"},
	 2 << 20,
	 true,
	 KB512,
	 .refused = ENOMEM,
	 .span = BL_LANE_COPYBUF,
	 .size = BL_LANE_LONG,
	 .then = BL_COPYBUF_SIZE},
	{{"just written, limit of files", "no place behind it"},
	 2 << 20,
	 true,
	 KB512,
	 "file",
	 .span = BL_LANE_LONG,
	 .size = BL_LANE_LONG,
	 .then = BL_COPYBUF_SIZE},
	{{"just written, limit of address space", "and no longer ring"},
	 2 << 20,
	 true,
	 KB512,
	 "space",
	 .span = BL_LANE_SIZE,
	 .size = BL_LANE_SIZE},
};

static void limit_is(const char *limit, int *resource, struct rlimit *was)
{
	struct rlimit now;

	*resource = limit && *limit == 'f' ? RLIMIT_FSIZE : RLIMIT_AS;
	assert_int_equal(getrlimit((unsigned)*resource, was), 0);
	now = (struct rlimit){!limit	      ? was->rlim_cur
			      : *limit == 'f' ? BL_LANE_LONG
					      : 1ull << 60,
			      was->rlim_max};
	assert_int_equal(setrlimit((unsigned)*resource, &now), 0);
}

static void with_a_dialogue_buffer(void **state)
{
	const struct buffer_row *row = TABLE_ROW(struct buffer_row, state);
	struct bl_copy_plan *plan = (struct bl_copy_plan *)(uintptr_t)bl_copy_plan(), was = *plan;
	uint32_t buffer = row->size > BL_LANE_SIZE ? BL_COPYBUF_SIZE : 0;
	uint32_t more = row->then > buffer ? row->then - buffer : 0;
	struct rlimit limit;
	int resource;

	plan->copybuf = true;
	plan->by_stream = row->by_stream;
	plan->dirty_max = row->dirty_max;
	cache = row->cache;
	limit_is(row->limit, &resource, &limit);
	open_pair();
	assert_int_equal(setrlimit((unsigned)resource, &limit), 0);
	assert_int_equal(sender->local.seg.lane_span, row->span);
	assert_int_equal(peer()->tx.copybuf, 0);
	bl_longring_copybuf(peer(), row->dirty_max); /* there is none to be made longer */
	peer()->tx.short_of = BL_LONGRING_USES;
	stretch();
	assert_int_equal(peer()->tx.copybuf_room, buffer);
	assert_int_equal(peer()->tx.copybuf, buffer ? BL_PAYLOAD_OF(row->size) - buffer : 0);
	assert_int_equal(peer()->tx.pay_size, BL_PAYLOAD_OF(row->size) - buffer);
	assert_int_equal(longring_bytes(), row->size - BL_LANE_SIZE);
	assert_int_equal(sender->local.nlongest, row->size > BL_LANE_LONG);
	room = row->room ? row->room : UINT64_MAX;
	bl_longring_copybuf(peer(), BL_COPYBUF_SIZE);	 /* it is as long as that */
	bl_longring_copybuf(peer(), row->dirty_max + 1); /* and this is never to go there */
	assert_int_equal(peer()->tx.copybuf_room, buffer);
	refused = row->refused;
	/* once is enough, in vain or not */
	for (size_t i = 0; i < 2; i++, room = UINT64_MAX, refused = 0) {
		bl_longring_copybuf(peer(), row->dirty_max);
		assert_int_equal(peer()->tx.copybuf_room, buffer + more);
		assert_int_equal(longring_bytes(), row->size - BL_LANE_SIZE + more);
		assert_int_equal(pages_from(row->size + more), 0);
		assert_int_equal(pages_from(BL_LANE_SIZE) * 4096, row->size - BL_LANE_SIZE + more);
	}
	if (buffer)
		peer()->tx.lane->payload[peer()->tx.copybuf + buffer + more - 1] = 1;
	bl_longring_over(peer());
	assert_int_equal(sender->local.nlongrings, 0);
	assert_int_equal(sender->local.nlongest, 0);
	assert_int_equal(longring_bytes(), 0);
	if (buffer) /* all of it has been given back */
		assert_int_equal(peer()->tx.lane->payload[peer()->tx.copybuf + buffer + more - 1],
				 0);
	peer()->tx.pay_size = peer()->tx.pay_most = BL_PAYLOAD_SIZE;
	node_close(&node);
	*plan = was;
	cache = 512 << 10;
}

/* --- a neighbour's --------------------------------------------------------------- */

struct file_row {
	struct row row;
	off_t size;
	int seals;
	int err;
	size_t span; /* that is mapped */
};

static const struct file_row files[] = {
	{{"short lane", "as one that is never stretched"}, BL_LANE_SIZE, F_SEAL_SHRINK, 0, 65536},
	{{"a byte less", "not even that"}, BL_LANE_SIZE - 1, F_SEAL_SHRINK, -EPROTO, 0},
	{{"empty", "nothing"}, 0, F_SEAL_SHRINK, -EPROTO, 0},
	{{"100,000 bytes", "down to a power of two"}, 100000, F_SEAL_SHRINK, 0, 65536},
	{{"long lane", "all of it"}, BL_LANE_LONG, F_SEAL_SHRINK, 0, BL_LANE_LONG},
	{{"nearly longest", "half of it"}, BL_LANE_MOST - 1, F_SEAL_SHRINK, 0, 1 << 20},
	{{"longest", "all of it"}, BL_LANE_MOST, F_SEAL_SHRINK, 0, BL_LANE_MOST},
	{{"8 MiB", "no more than the longest"}, 8 << 20, F_SEAL_SHRINK, 0, BL_LANE_MOST},
	{{"2^60 bytes", "no more than the longest"}, 1ll << 60, F_SEAL_SHRINK, 0, BL_LANE_MOST},
	{{"may shrink", "it would be a SIGBUS to come"}, BL_LANE_MOST, 0, -EPROTO, 0},
};

/* Whatever a neighbour's lane is long, and ours is not. */
static void lane_of_any_size(void **state)
{
	const struct file_row *row = TABLE_ROW(struct file_row, state);
	struct bl_link link = {0};
	int fd[BL_FDS];

	open_pair();
	fd[BL_FD_HEADER] = sender->local.seg.fd;
	fd[BL_FD_DOORBELLS] = sender->local.seg.doorbells_fd;
	fd[BL_FD_LANE] = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd[BL_FD_LANE], row->size), 0);
	assert_int_equal(fcntl(fd[BL_FD_LANE], F_ADD_SEALS, row->seals), 0);
	assert_int_equal(bl_link_map(&link, fd), row->err);
	if (!row->err) {
		assert_int_equal(link.theirs_span, row->span);
		*((uint8_t *)link.theirs + row->span - 1) = 1; /* it is there */
	}
	bl_link_unmap(&link);
	close(fd[BL_FD_LANE]);
	node_close(&node);
}

/* --- far away ------------------------------------------------------------------- */

struct far_row {
	struct row row;
	bool far, tight; /* its ring is shorter than it would be with more memory */
	bool buffer;	 /* some of the lane is for dialogues, */
	bool more;	 /* and more may be */
	bool timed;	 /* by its stores */
	uint32_t sent;	 /* packets since a message has come */
	size_t to;
};

#define FAR_TO 20000u

static const struct far_row fars[] = {
	{{"near", "by what is carried anywhere"}, .sent = 1, .to = CARRIED},
	{{"near, with a buffer", "the same"}, .buffer = true, .sent = 1, .to = CARRIED},
	{{"near, room for more", "but the cache holds no more"},
	 .buffer = true,
	 .more = true,
	 .sent = 1,
	 .to = CARRIED},
	{{"far", "as long as both wait"}, .far = true, .sent = 1, .to = FAR_TO},
	{{"far, crossing", "a word, one of ours and an answer"},
	 .far = true,
	 .sent = 3,
	 .to = FAR_TO},
	{{"far, a stream", "each has copies of its own to do"},
	 .far = true,
	 .sent = 4,
	 .to = CARRIED},
	{{"tight", "what it holds stays in the caches"}, .tight = true, .sent = 1, .to = FAR_TO},
	{{"tight, with a buffer", "the same"},
	 .tight = true,
	 .buffer = true,
	 .sent = 1,
	 .to = FAR_TO},
	{{"far, timed", "nothing has been measured there"},
	 .far = true,
	 .timed = true,
	 .sent = 1,
	 .to = CARRIED},
	{{"tight, timed", "nothing has been measured there"},
	 .tight = true,
	 .timed = true,
	 .sent = 1,
	 .to = CARRIED},
	{{"tight, a stream", "each has copies of its own to do"},
	 .tight = true,
	 .sent = 4,
	 .to = CARRIED},
};

static void carried_to(void **state)
{
	uint32_t past_min = atomic_load(&bl_tx_past_min);
	const struct far_row *row = TABLE_ROW(struct far_row, state);
	struct bl_copy_plan *plan = (struct bl_copy_plan *)(uintptr_t)bl_copy_plan();

	cache = row->tight ? 1 << 20 : 512 << 10;
	plan->eager_long_far = FAR_TO;
	plan->copybuf = row->buffer;
	plan->dirty_max = row->more ? BL_COPYBUF_MOST : 0;
	open_pair();
	atomic_store(&bl_tx_past_min, row->timed ? BL_TX_TIMED : 289);
	sender->local.nlongest = 4;
	assert_int_equal(bl_eager_to(sender, peer()), EAGER);
	assert_int_equal(bl_eager_long_to(sender, peer()),
			 CARRIED); /* near, whatever it may become */
	stretch();
	assert_int_equal(peer()->tx.pay_size + peer()->tx.copybuf_room,
			 BL_PAYLOAD_OF(BL_LANE_LONG));
	/* By its stores it is never said to be. */
	peer()->tx.slow = !row->far ? BL_SLOW_ENOUGH - 1 : row->timed ? BL_SLOW_ENOUGH : BL_FAR;
	peer()->tx.probed = (uint16_t)peer()->tx.next; /* no look is due */
	peer()->tx.asked = (uint8_t)(peer()->tx.next - row->sent);
	assert_int_equal(bl_eager_long_to(sender, peer()), row->to);
	assert_int_equal(bl_eager_to(sender, peer()), row->to);
	for (size_t more = 0; more < 2; more++) {
		uint32_t number = peer()->tx.next;

		peer()->tx.asked = (uint8_t)(number - row->sent);
		send_by(row->to + more, 1, 0);
		assert_int_equal(op_of(number), more ? BL_OP_TAGGED_RTS : BL_OP_TAGGED);
	}
	node_close(&node);
	cache = 512 << 10;
	plan->eager_long_far = plan->eager_long_max;
	plan->copybuf = false;
	plan->dirty_max = 0;
	atomic_store(&bl_tx_past_min, past_min);
}

int main(void)
{
	set_limits();
	unsetenv("FI_BEELINE_LONG_RING");
	TABLE_ROWS("whose", whose_ring, whose);
	TABLE_TEST(at_once);
	TABLE_ROWS("unused", from_the_unused, unused);
	TABLE_ROWS("soon", soon_enough, soon);
	TABLE_TEST(over_with_its_neighbour);
	TABLE_ROWS("how long", how_long, lengths);
	TABLE_ROWS("buffer", with_a_dialogue_buffer, buffers);
	TABLE_ROWS("file", lane_of_any_size, files);
	TABLE_ROWS("far", carried_to, fars);
	return table_run("stretch");
}
