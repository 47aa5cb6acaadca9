/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * buffer_test.c: one of two ranks names a buffer with a page in it that isn't there, or may not be
 * touched. However the message goes, in the end each copies its own part: the bad program dies of
 * its own access, as it would in memcpy, and the other hears of its death, midway.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fault/world.h"

#define PAGE 4096u

struct bad_row {
	struct row row;
	const char *copy;     /* FI_BEELINE_COPY */
	const char *lengthen; /* FI_BEELINE_LONG_RING */
	int bad;	      /* whose buffer; 0 sends, 1 receives */
	size_t len;
	bool away; /* the receiver is, from when it has posted until the sender has tried */
	bool gone; /* the page isn't mapped; else it has no rights */
};

static const struct bad_row rows[] = {
	{{"sender's, one hand", "read by the receiver"}, "vm", "auto", 0, 100000, false, false},
	{{"sender's, not mapped", "the same"}, "vm", "auto", 0, 100000, false, true},
	{{"receiver's, not mapped", "the same"}, "vm", "auto", 1, 100000, false, true},
	{{"receiver's, one hand", "its own kernel call fails"},
	 "vm",
	 "auto",
	 1,
	 100000,
	 false,
	 false},
	{{"sender's, both hands", "one hand fails, then the other"},
	 "vm",
	 "auto",
	 0,
	 8u << 20,
	 false,
	 false},
	{{"receiver's, both hands", "one hand fails, then the other"},
	 "vm",
	 "auto",
	 1,
	 8u << 20,
	 false,
	 false},
	{{"sender's, claimed", "the sender fails, then the receiver"},
	 "vm",
	 "auto",
	 0,
	 1u << 20,
	 true,
	 false},
	{{"receiver's, claimed", "the sender fails, then the receiver"},
	 "vm",
	 "auto",
	 1,
	 1u << 20,
	 true,
	 false},
	{{"sender's, ring", "its own access"}, "ring", "auto", 0, 1u << 20, false, false},
	{{"receiver's, ring", "its own access"}, "ring", "auto", 1, 1u << 20, false, false},
	{{"sender's, whole", "its own access"}, "vm", "always", 0, 40000, false, false},
	{{"receiver's, whole", "its own access"}, "vm", "always", 1, 40000, false, false},
};

static const struct bad_row *row;

/* world->mark of each: the last message that it has posted, and tried TRIES times to get on with
 * if it is the sender's. */
#define TRIES 100

/* As long as the row says, with or without a hole at three quarters. */
static uint8_t *buffer(bool hole)
{
	size_t size = row->len + 2 * PAGE;
	uint8_t *at, *buf;

	buf = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buf == MAP_FAILED)
		return NULL;
	at = buf + row->len / 4 * 3 / PAGE * PAGE;
	memset(buf, 0x33, size);
	if (hole && row->gone && munmap(at, PAGE))
		return NULL;
	if (hole && !row->gone && mprotect(at, PAGE, PROT_NONE))
		return NULL;
	return buf;
}

/* What becomes of one message under `tag`: 0 or an errno. */
static int one(int rank, uint8_t *buf, uint64_t tag)
{
	struct deadline late = deadline_in(WORLD_NS);
	struct iovec iov = {buf, row->len};
	struct bl_send send = {&iov, 1, 1, tag, 0, buf, BL_TAGGED | BL_COMPLETION, NULL};
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;
	int err;

	while (!rank && row->away && tag > 1 && atomic_load(&world->mark[1]) < tag)
		if (deadline_over(&late))
			rank_fail(rank, "message %lu is not posted", (unsigned long)tag);
	for (;;) {
		err = rank ? bl_recv_buf(ep, buf, row->len, 0, tag, 0, buf,
					 BL_TAGGED | BL_COMPLETION)
			   : bl_send(ep, &send);
		if (err != -EAGAIN)
			break;
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(rank, "message %lu can't even begin", (unsigned long)tag);
	}
	if (err)
		return -err;
	if (row->away && tag > 1) { /* they are connected */
		for (int i = 0; !rank && i < TRIES; i++)
			bl_ep_progress(ep);
		atomic_store(&world->mark[rank], (uint32_t)tag);
		while (rank && atomic_load(&world->mark[0]) < tag)
			if (deadline_over(&late))
				rank_fail(rank, "message %lu is not sent", (unsigned long)tag);
	}
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		if (deadline_over(&late))
			rank_fail(rank, "message %lu neither completes nor fails",
				  (unsigned long)tag);
	if (n == 1)
		return 0;
	RANK_CHECK(rank, bl_cq_readerr(cq, &failed) == 1 && failed.comp.context == buf);
	return failed.err;
}

static void run(int rank)
{
	uint8_t *good = buffer(false), *bad;
	int err;

	RANK_CHECK(rank, good && !setrlimit(RLIMIT_CORE, &(struct rlimit){0}));
	rank_open(rank, 2);
	RANK_CHECK(rank, !one(rank, good, 1));
	/* Only now: what is mapped for a connection would fill a hole of one page. */
	bad = buffer(rank == row->bad);
	RANK_CHECK(rank, bad);
	err = one(rank, bad, 2);
	for (uint64_t tag = 3; !err && !rank; tag++) /* whole: it was sent before that */
		err = one(rank, good, tag);
	if (err != ECONNRESET)
		rank_fail(rank, "the other should have died: %s", strerror(err));
	rank_close(rank);
}

static void bad_buffer(void **state)
{
	row = TABLE_ROW(struct bad_row, state);
	setenv("FI_BEELINE_COPY", row->copy, 1);
	setenv("FI_BEELINE_LONG_RING", row->lengthen, 1);
	if (!strcmp(row->lengthen, "always")) /* also where a system call is cheap */
		setenv("FI_BEELINE_EAGER_LONG_MAX", "98304", 1);
	world_start(2, run);
	world_end(row->bad);
}

int main(void)
{
	TABLE_ROWS("bad buffer", bad_buffer, rows);
	return table_run("buffer");
}
