/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * late_test.c: a sender is killed while it writes into the receiver's buffer. Once
 * the receive has ended in an error the buffer is the receiver's again: no byte of it
 * may change any more, although the threads of a process die one by one and one that
 * is in the kernel, copying, is not the first. The receiver looks for deaths without
 * a pause here, which leaves no time for the copy to end by itself. Nor may it wait for
 * longer than it must (promise.h).
 * BEELINE_KILLS: how many are killed, of all rows.
 */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/promise.h"
#include "transport/local/ways/advert.h"

#define AWAY_NS	   100000u    /* at most, while the sender is to begin */
#define BATCH	   (4u << 20) /* bytes that the kernel copies without a look at signals */
#define LEN	   (2 * BATCH)
#define END	   65536u   /* of each: what is written last */
#define WATCH_NS   3000000u /* a late copy has shown itself by then */
#define MINE	   0xee
#define UNSEEN_NS  50000000u	 /* of one that can't be seen: src/endpoint/endpoint.c */
#define LINGER_NS  1000000000ull /* of one that doesn't come to its end: the same */
#define INEXACT_NS 1000000u	 /* the library measures in ticks of the processor */

/* world->mark, of the receiver: whether the sender is at its receive; how often it looked. */
enum { MIDWAY, LOOKS };

static _Noreturn void send_for_ever(int rank)
{
	uint8_t *buf = malloc(LEN);
	struct iovec iov = {buf, LEN};
	struct bl_comp comp;

	RANK_CHECK(rank, buf);
	memset(buf, 0x11, LEN);
	rank_open(rank, 2);
	for (;;) {
		struct bl_send send = {
			&iov, 1, world_index[0], 1, 0, NULL, BL_TAGGED | BL_COMPLETION, NULL};

		if (!bl_send(ep, &send))
			while (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) != 1)
				;
		else
			bl_ep_progress(ep);
	}
}

/* Is the sender at a receive of ours, or has it died there? */
static bool sender_copies(void)
{
	const struct bl_peer *sender = world_peer(1);
	const struct bl_adverts *board = sender->tx.lane ? &sender->tx.lane->board : NULL;

	for (uint64_t left = board ? board->posted : 0; left; left &= left - 1)
		if (BL_ADVERT_STATE(bl_advert_look(&board->advert[__builtin_ctzll(left)])) ==
		    BL_ADVERT_CLAIMED)
			return true;
	return false;
}

/* False: an error has come. The sender copies, by a claim. */
static bool receive_one(uint8_t *buf)
{
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;

	if (bl_recv_buf(ep, buf, LEN, world_index[1], 1, 0, NULL, BL_TAGGED | BL_COMPLETION))
		return false;
	/* Away, until the sender copies; it may have died, or the message have come already. */
	for (uint64_t until = bl_clock_ns() + AWAY_NS; !sender_copies() && bl_clock_ns() < until;)
		sched_yield();
	do {
		ep->watch.next_look = bl_ticks();
		atomic_store(&world->mark[MIDWAY], sender_copies());
		atomic_fetch_add(&world->mark[LOOKS], 1);
		n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL);
	} while (n == -EAGAIN);
	if (n == 1) {
		atomic_fetch_add(&world->messages[0], 1);
		return true;
	}
	RANK_CHECK(0, bl_cq_readerr(cq, &failed) == 1);
	return false;
}

static void receive_until_it_dies(int rank)
{
	static uint8_t mine[END];
	uint8_t *buf = malloc(LEN), *end[] = {buf + BATCH - END, buf + LEN - END};

	RANK_CHECK(rank, buf);
	memset(mine, MINE, END);
	memset(buf, 0, LEN);
	rank_open(rank, 2);
	while (receive_one(buf))
		;
	promise_noticed(rank);
	atomic_store(&world->noticed_at[rank], bl_clock_ns());
	for (int i = 0; i < 2; i++)
		memset(end[i], MINE, END);
	for (uint64_t until = bl_clock_ns() + WATCH_NS; bl_clock_ns() < until;)
		for (int i = 0; i < 2; i++)
			if (memcmp(end[i], mine, END))
				rank_fail(
					0,
					"the dead sender wrote into a buffer that was ours again");
	rank_close(rank);
	free(buf);
}

static bool in_many_groups; /* ranks are */

static void join_groups(int rank)
{
	gid_t group[900];

	for (unsigned i = 0; i < bl_countof(group); i++)
		group[i] = 30000 + i;
	RANK_CHECK(rank, !setgroups(bl_countof(group), group));
}

static void run(int rank)
{
	if (in_many_groups)
		join_groups(rank);
	if (rank)
		send_for_ever(rank);
	receive_until_it_dies(rank);
}

static bool busy(void)
{
	return atomic_load(&world->messages[0]) >= 2;
}

static void start(const unsigned space[2])
{
	setenv("FI_BEELINE_SPLIT_MIN", "1g", 1); /* the sender alone, in one call */
	setenv("FI_BEELINE_OVERLAP", "always", 1);
	promise_watch();
	memcpy(world_space, space, 2 * sizeof *space);
	world_start(2, run);
	world_until(busy, "traffic");
}

static void hurt_the_sender(void)
{
	atomic_store(&world->hurt_at, bl_clock_ns());
	kill(world_pid[1], SIGKILL);
}

static bool at_it(void)
{
	return atomic_load(&world->mark[MIDWAY]);
}

static bool noticed(void)
{
	return atomic_load(&world->noticed_at[0]);
}

/* From the kill to the end of the receive, nothing taken off. */
static uint64_t after_the_kill(void)
{
	return atomic_load(&world->noticed_at[0]) - atomic_load(&world->hurt_at);
}

/* --- where the dying sender can be seen, and where not ------------------------- */

struct late_row {
	struct row row;
	unsigned space[2]; /* PID namespaces of receiver and sender: world_space */
	unsigned rounds;
	uint64_t least; /* ns from the kill: so long a receive waits that it died over */
	bool groups;	/* more than fit what is read of a /proc file at once */
};

#define ROUNDS 260 /* of all rows together */

static const struct late_row rows[] = {
	{{"seen", "/proc tells when its last thread writes no more"}, {0, 0}, 150, 0, false},
	{{"seen, of many groups", "its signals are told behind them"}, {0, 0}, 30, 0, true},
	{{"in an outer PID namespace", "it has no number here: a while is waited"},
	 {1, 0},
	 40,
	 UNSEEN_NS,
	 false},
	{{"/proc is of another PID namespace", "its number there is another process's"},
	 {1, 1},
	 40,
	 UNSEEN_NS,
	 false},
};

static void late_hand(void **state)
{
	const struct late_row *row = TABLE_ROW(struct late_row, state);
	uint64_t seed = 1, first = UINT64_MAX, last = 0, latest = 0;
	unsigned count = world_kills(ROUNDS) * row->rounds / ROUNDS, midway = 0;

	in_many_groups = row->groups;
	for (unsigned round = 0; round < count; round++) {
		start(row->space);
		world_until(at_it, "the sender to copy");
		usleep((useconds_t)(table_random(&seed) % 2000)); /* for nothing: anywhere in it */
		hurt_the_sender();
		promise_await_death(1);
		world_until(noticed, "the receive to end"); /* whoever has been waited for */
		world_end(1);				    /* is known to be over */
		if (atomic_load(&world->mark[MIDWAY])) {
			first = bl_min(first, after_the_kill());
			midway++;
		}
		if (after_the_kill() > last)
			last = after_the_kill();
		if (promise_late(0) > latest)
			latest = promise_late(0);
	}
	print_message("             killed in the middle of a copy %u times of %u: the receive "
		      "ended %.1f to %.1f ms after the kill; at most %.1f ms after the end of the "
		      "process, without what the machine took\n",
		      midway, count, (double)first / 1e6, (double)last / 1e6, (double)latest / 1e6);
	assert_true(midway);
	assert_true(first + INEXACT_NS >= row->least);
	promise_judge(latest);
}

/* --- one that doesn't come to its end -------------------------------------------- */

static char freezer[128];

static bool freezer_write(const char *file, const char *text)
{
	char path[160];
	int fd;
	bool ok;

	snprintf(path, sizeof path, "%s/%s", freezer, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return ok;
}

static bool is_frozen(void)
{
	char path[160], text[16] = "";
	int fd;

	snprintf(path, sizeof path, "%s/freezer.state", freezer);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof text - 1) < 0)
		text[0] = 0;
	if (fd >= 0)
		close(fd);
	return !strncmp(text, "FROZEN", 6);
}

/* A cgroup whose threads don't even die: version 2 has none. */
static bool freezer_make(void)
{
	snprintf(freezer, sizeof freezer, "/sys/fs/cgroup/freezer/beeline-test-%d", (int)getpid());
	return !mkdir(freezer, 0755);
}

static uint32_t looks_by_now;

static bool has_looked_again(void)
{
	return atomic_load(&world->mark[LOOKS]) >= looks_by_now + 2 ||
	       atomic_load(&world->noticed_at[0]);
}

/* Freeze the sender's own thread; the one that stands for its life can die. False: it wasn't in
 * the middle of a copy. */
static bool freeze_midway(void)
{
	assert_true(freezer_write("freezer.state", "FROZEN"));
	world_until(is_frozen, "the sender's thread to be frozen");
	looks_by_now = atomic_load(&world->mark[LOOKS]);
	world_until(has_looked_again, "the receiver to look");
	return atomic_load(&world->mark[MIDWAY]);
}

static void freeze_the_sender(void)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	char tid[16];

	snprintf(tid, sizeof tid, "%d", (int)world_pid[1]);
	assert_true(freezer_write("tasks", tid));
	while (!freeze_midway()) {
		assert_true(freezer_write("freezer.state", "THAWED"));
		assert_false(deadline_over(&late));
		sched_yield();
	}
}

/* Its thread has SIGKILL pending and could still write, for all that /proc says: it is
 * waited for, but not for ever. Until it is thawed nothing here may fail. */
static void never_over(void **state)
{
	struct deadline late = deadline_in(5 * LINGER_NS);

	start((const unsigned[2]){0, 0});
	freeze_the_sender();
	hurt_the_sender();
	promise_died(1);
	while (!atomic_load(&world->noticed_at[0]) && !deadline_over(&late))
		sched_yield();
	freezer_write("freezer.state", "THAWED");
	world_end(1);
	print_message("             the receive ended %.1f ms after the kill\n",
		      (double)after_the_kill() / 1e6);
	assert_true(after_the_kill() + 10 * INEXACT_NS >= LINGER_NS);
	if (promise_can_be_judged())
		assert_true(promise_late(0) <= LINGER_NS + PROMISED_NS * SLOWER);
}

int main(void)
{
	bool root = !geteuid();
	int status;

	table_add_rows("late", late_hand, rows, root ? bl_countof(rows) : 1, sizeof rows[0]);
	if (!root)
		printf("skip late in PID namespaces: only root can make them\n");
	if (freezer_make())
		TABLE_TEST(never_over);
	else
		printf("skip never_over: there is no cgroup of version 1 that freezes\n");
	status = table_run("late");
	rmdir(freezer);
	return status;
}
