/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * longring_size_test.c: how long a ring and its copy buffer are made (transport/local/adapt/
 * longring.c), and how much of a neighbour's lane is mapped, whatever its length.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/knobs.h"
#include "unit/longring.h"

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
	sender->local.longring.nlongest = row->longest;
	room = row->room;
	lengthen();
	room = UINT64_MAX;
	assert_int_equal(peer()->tx.pay_size, BL_PAYLOAD_OF(row->size));
	assert_int_equal(longring_bytes(), row->size - BL_LANE_SIZE);
	assert_int_equal(sender->local.longring.nlongest,
			 row->longest + (row->size == BL_LANE_MOST));
	bl_longring_over(peer());
	assert_int_equal(sender->local.longring.nlongest, row->longest);
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

static void with_a_copy_buffer(void **state)
{
	const struct buffer_row *row = TABLE_ROW(struct buffer_row, state);
	struct bl_copy_plan was = *plan();
	struct bl_limits were = *limits();
	uint32_t buffer = row->size > BL_LANE_SIZE ? BL_COPYBUF_SIZE : 0;
	uint32_t more = row->then > buffer ? row->then - buffer : 0;
	struct rlimit limit;
	int resource;

	plan()->copybuf = true;
	plan()->by_stream = row->by_stream;
	limits()->dirty[false] = (uint32_t)row->dirty_max;
	cache = row->cache;
	limit_is(row->limit, &resource, &limit);
	open_pair();
	assert_int_equal(setrlimit((unsigned)resource, &limit), 0);
	assert_int_equal(sender->local.seg.lane_span, row->span);
	assert_int_equal(peer()->tx.copybuf, 0);
	bl_longring_copybuf(peer(), row->dirty_max); /* there is none to be made longer */
	peer()->tx.short_of = BL_LONGRING_USES;
	lengthen();
	assert_int_equal(peer()->tx.copybuf_room, buffer);
	assert_int_equal(peer()->tx.copybuf, buffer ? BL_PAYLOAD_OF(row->size) - buffer : 0);
	assert_int_equal(peer()->tx.pay_size, BL_PAYLOAD_OF(row->size) - buffer);
	assert_int_equal(longring_bytes(), row->size - BL_LANE_SIZE);
	assert_int_equal(sender->local.longring.nlongest, row->size > BL_LANE_LONG);
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
	assert_int_equal(sender->local.longring.n, 0);
	assert_int_equal(sender->local.longring.nlongest, 0);
	assert_int_equal(longring_bytes(), 0);
	if (buffer) /* all of it has been given back */
		assert_int_equal(peer()->tx.lane->payload[peer()->tx.copybuf + buffer + more - 1],
				 0);
	peer()->tx.pay_size = peer()->tx.pay_most = BL_PAYLOAD_SIZE;
	node_close(&node);
	*plan() = was;
	*limits() = were;
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

int main(void)
{
	TABLE_ROWS("how long", how_long, lengths);
	TABLE_ROWS("buffer", with_a_copy_buffer, buffers);
	TABLE_ROWS("file", lane_of_any_size, files);
	return run_longring("longring size");
}
