/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * robbed_test.c: what a neighbour can write and what it can't. A mad one writes without
 * a pause wherever it may in the memory of a victim, while a third process and the victim
 * send each other messages: every message arrives, whether the victim sleeps or polls.
 * And what is the victim's own word can't be written at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "endpoint/wait.h"
#include "fault/traffic.h"

#define ROUNDS	  12
#define MESSAGE	  64
#define ASLEEP_US 3000 /* what a process needs, about, to fall asleep */

enum { VICTIM, FRIEND, MAD };
enum way { FUTEX, DESCRIPTOR, POLLING };
enum scribble { ZEROS, BELLS, ONES, ANYTHING };

struct robbed_row {
	struct row row;
	enum way way;
	enum scribble scribble;
};

static const struct robbed_row rows[] = {
	{{"asleep on its futex", "every doorbell and bit is taken away"}, FUTEX, ZEROS},
	{{"asleep on a descriptor", "every doorbell and bit is taken away"}, DESCRIPTOR, ZEROS},
	{{"polling", "every doorbell is taken away"}, POLLING, ZEROS},
	{{"asleep on its futex", "every doorbell is taken away, and it is woken"}, FUTEX, BELLS},
	{{"asleep on a descriptor", "every doorbell is taken away, and it is woken"},
	 DESCRIPTOR,
	 BELLS},
	{{"asleep on its futex", "all doorbells ring, and it sleeps in all ways"}, FUTEX, ONES},
	{{"asleep on a descriptor", "all doorbells ring"}, DESCRIPTOR, ONES},
	{{"polling", "all doorbells ring"}, POLLING, ONES},
	{{"asleep on its futex", "anything"}, FUTEX, ANYTHING},
	{{"asleep on a descriptor", "anything"}, DESCRIPTOR, ANYTHING},
	{{"polling", "anything"}, POLLING, ANYTHING},
};

static const struct robbed_row *row;

/* --- the mad one ----------------------------------------------------------- */

static void take_bells(struct bl_doorbells *doorbells)
{
	memset(doorbells, 0, offsetof(struct bl_doorbells, sleeping));
}

static void scribble_over(void *memory, size_t len, uint64_t *seed)
{
	uint64_t *word = memory;

	if (row->scribble != ANYTHING) {
		memset(memory, row->scribble == ONES ? 0xff : 0, len);
		return;
	}
	for (size_t i = 0; i < len / sizeof *word; i++)
		word[i] = table_random(seed);
}

static void mad(void)
{
	uint64_t seed = 5;

	rank_open(MAD, RANKS);
	while (bl_inject(ep, "hi", 2, world_index[VICTIM], 77, 0, BL_TAGGED) == -EAGAIN)
		bl_ep_progress(ep);
	const struct bl_peer *victim = world_peer(VICTIM);

	atomic_store(&world->mark[MAD], 1);
	while (!atomic_load(&world->mark[VICTIM])) {
		if (row->scribble == BELLS) {
			take_bells(victim->mapped.doorbells);
		} else {
			scribble_over(victim->mapped.doorbells, sizeof *victim->mapped.doorbells,
				      &seed);
			scribble_over(victim->rx.lane, sizeof *victim->rx.lane, &seed);
			scribble_over(victim->tx.lane, sizeof *victim->tx.lane, &seed);
		}
		sched_yield();
	}
	_exit(0);
}

/* --- the two others ----------------------------------------------------------- */

static void wait_on_futex(void)
{
	struct bl_sleep sleep;

	if (!bl_wait_doze(&cq->wait, &sleep))
		return;
	bl_wait_sleep(&sleep, 1000000000);
	bl_wait_rise(&cq->wait, &sleep);
}

/* With no end: only what makes it readable helps. */
static void wait_on_descriptor(int rank, struct deadline *late)
{
	struct pollfd fd = {bl_wait_fd(&cq->wait), POLLIN, 0};

	RANK_CHECK(rank, fd.fd >= 0);
	if (bl_wait_try(&cq->wait))
		return;
	while (!poll(&fd, 1, 1000))
		if (deadline_over(late))
			rank_fail(rank, "nothing wakes it");
}

/* Until a completion comes, in the row's way. */
static void wait_for_one(int rank, bool asleep)
{
	struct deadline late = deadline_in(WORLD_NS / 4);
	struct bl_comp comp;
	ssize_t n;

	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) != 1) {
		RANK_CHECK(rank, n == -EAGAIN);
		if (deadline_over(&late))
			rank_fail(rank, "a message is missing");
		if (asleep && row->way == FUTEX)
			wait_on_futex();
		else if (asleep && row->way == DESCRIPTOR)
			wait_on_descriptor(rank, &late);
	}
}

static void receive(int rank, uint64_t from, int round, bool asleep)
{
	uint8_t bytes[MESSAGE] = {0};

	RANK_CHECK(rank, !bl_recv_buf(ep, bytes, sizeof bytes, world_index[from], (uint64_t)round,
				      0, NULL, BL_TAGGED | BL_COMPLETION));
	/* No lane is polled from here on. */
	if (asleep && row->way == POLLING && bl_wait_fd(&cq->wait) >= 0)
		bl_wait_try(&cq->wait);
	wait_for_one(rank, asleep);
	for (size_t i = 0; i < sizeof bytes; i++)
		RANK_CHECK(rank, bytes[i] == (uint8_t)(round + (int)i));
}

static void send_one(int rank, uint64_t to, int round)
{
	struct deadline late = deadline_in(WORLD_NS / 4);
	uint8_t bytes[MESSAGE];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(round + (int)i);
	while (bl_inject(ep, bytes, sizeof bytes, world_index[to], (uint64_t)round, 0, BL_TAGGED) ==
	       -EAGAIN) {
		RANK_CHECK(rank, !deadline_over(&late));
		bl_ep_progress(ep);
	}
}

static void run(int rank)
{
	uint64_t seed = 3;

	if (rank == MAD)
		mad();
	rank_open(rank, RANKS);
	/* One that makes no sense is cast out; it goes on writing where it could. */
	while (!atomic_load(&world->mark[MAD]))
		bl_ep_progress(ep);
	for (int i = 0; i < ROUNDS; i++) {
		if (rank == VICTIM) {
			receive(VICTIM, FRIEND, i, true);
			send_one(VICTIM, FRIEND, i);
		} else {
			/* For nothing: the victim is awake, asleep, or about to be. */
			usleep((unsigned)(table_random(&seed) % ASLEEP_US));
			send_one(FRIEND, VICTIM, i);
			if (row->scribble == BELLS) /* before it is awake, whoever has a core */
				take_bells(world_peer(VICTIM)->mapped.doorbells);
			receive(FRIEND, VICTIM, i, false);
		}
	}
	if (rank == VICTIM)
		atomic_store(&world->mark[VICTIM], 1);
	rank_close(rank);
}

static void robbed(void **state)
{
	row = TABLE_ROW(struct robbed_row, state);
	world_start(RANKS, run);
	world_end(MAD);
}

/* --- the victim's own word -------------------------------------------------------- */

static int again(int fd)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

static bool can_map(int fd)
{
	void *map = mmap(NULL, BL_SEG_HEADER, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map != MAP_FAILED)
		munmap(map, BL_SEG_HEADER);
	return map != MAP_FAILED || errno != EPERM;
}

/* What a neighbour is sent of the header, and what it could try with it. */
static void try_to_write(int rank)
{
	struct bl_link link = {0};
	int fd, anew, lane;

	rank_open(rank, 0);
	fd = ep->local.seg.fd;
	anew = again(fd);
	RANK_CHECK(rank, anew >= 0 && !can_map(fd) && !can_map(anew));
	RANK_CHECK(rank, pwrite(anew, "x", 1, 0) < 0);
	RANK_CHECK(rank, ftruncate(anew, 0) < 0);
	RANK_CHECK(rank, fallocate(anew, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0);
	RANK_CHECK(rank, fcntl(anew, F_ADD_SEALS, F_SEAL_GROW) < 0);
	close(anew);

	lane = bl_lane_make(&ep->local.seg, &link);
	int sent[BL_FDS] = {fd, ep->local.seg.doorbells_fd, lane};

	RANK_CHECK(rank, lane >= 0 && !bl_link_map(&link, sent));
	close(lane);
	RANK_CHECK(rank, mprotect((void *)(uintptr_t)link.header, BL_SEG_HEADER,
				  PROT_READ | PROT_WRITE) < 0);
	/* While it goes on saying what it has to say. */
	atomic_store(&ep->local.seg.header->here, 12345);
	RANK_CHECK(rank, atomic_load(&link.header->here) == 12345);
	bl_link_unmap(&link);
	rank_close(rank);
}

static void its_own_word_is_its_own(void **state)
{
	world_start(1, try_to_write);
	world_end(-1);
}

static int lanes_open(void)
{
	char path[64], target[128];
	int lanes = 0;

	for (int fd = 0; fd < 256; fd++) {
		ssize_t n;

		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof target - 1);
		target[n > 0 ? n : 0] = 0;
		lanes += strstr(target, "beeline-lane") != NULL;
	}
	return lanes;
}

static int neighbours(void)
{
	int n = 0;

	for (uint32_t i = 0; i < ep->local.nby_index; i++)
		n += ep->local.by_index[i] != NULL;
	return n;
}

/* Who can open a lane is who has it mapped: its two ends, two lanes for each neighbour, each in two
 * parts, of which the second is left out of core dumps. */
static void meet_all(int rank)
{
	struct deadline late = deadline_in(WORLD_NS);

	rank_open(rank, RANKS);
	for (int to = 0; to < RANKS; to++)
		if (to != rank)
			send_one(rank, (uint64_t)to, rank);
	while (neighbours() < RANKS - 1) {
		RANK_CHECK(rank, !deadline_over(&late));
		bl_ep_progress(ep);
	}
	RANK_CHECK(rank, rank_mappings("beeline-lane") == 2 * 2 * (RANKS - 1));
	RANK_CHECK(rank, lanes_open() == 0);
	atomic_store(&world->mark[rank], 1);
	for (int i = 0; i < RANKS; i++)
		while (!atomic_load(&world->mark[i]))
			bl_ep_progress(ep);
	rank_close(rank);
}

static void lanes_are_of_two(void **state)
{
	world_start(RANKS, meet_all);
	world_end(-1);
}

int main(void)
{
	TABLE_ROWS("robbed", robbed, rows);
	TABLE_TEST(its_own_word_is_its_own);
	TABLE_TEST(lanes_are_of_two);
	return table_run("robbed");
}
