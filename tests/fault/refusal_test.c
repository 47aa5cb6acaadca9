/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * refusal_test.c: what a machine or a program may refuse or do at a bad moment,
 * between two ranks: no right to read each other's memory (from the start or all
 * of a sudden), another user, callers in another's name, a fork, an
 * endpoint closed too early. Messages arrive with the same bytes, or the operation
 * ends in an error; nothing hangs.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deny.h"
#include "fault/traffic.h"
#include "transport/local/link/hello.h"

/* --- process_vm_readv and process_vm_writev are denied --------------------- */

#define NEITHER	  0u
#define FIRST	  1u
#define SECOND	  2u
#define FROM_HERE 0u

struct denial_row {
	struct row row;
	unsigned who;  /* FIRST, SECOND or both */
	uint64_t when; /* messages received by then */
	size_t least, most;
	unsigned err;
};

static const struct denial_row denials[] = {
	{{"one, from the start", "the other writes for it"}, FIRST, FROM_HERE, 1, 2000000, EPERM},
	{{"both, from the start", "all goes through the ring"},
	 FIRST | SECOND,
	 FROM_HERE,
	 1,
	 2000000,
	 EPERM},
	{{"one, midway", "messages are half copied"}, FIRST, 15, 1, 2000000, EPERM},
	{{"both, midway", "chunks come back on both sides"}, FIRST | SECOND, 15, 1, 2000000, EPERM},
	{{"one, midway, very large", "many chunks are out"}, SECOND, 4, 4000000, 8000000, EPERM},
	{{"both, midway, very large", "many chunks are out"},
	 FIRST | SECOND,
	 4,
	 4000000,
	 8000000,
	 EPERM},
	{{"one has no kernel memory, midway", "asked again each time"},
	 FIRST,
	 15,
	 1,
	 2000000,
	 ENOMEM},
	{{"neither has kernel memory, midway", "asked again each time"},
	 FIRST | SECOND,
	 15,
	 1,
	 2000000,
	 ENOMEM},
};

static const struct denial_row *denial_row;
static bool denied, is_to_be_denied;
static int my_rank;

static void deny_now(uint64_t received)
{
	if (!is_to_be_denied || denied || received < denial_row->when)
		return;
	denied = true;
	if (fail_process_vm(denial_row->err))
		rank_fail(my_rank, "no seccomp filter: %s", strerror(errno));
}

static unsigned lines_about(int rank, const char *call)
{
	char line[128];

	snprintf(line, sizeof line, "info: process %u: %s: %s", world->addr[!rank].pid, call,
		 strerror((int)denial_row->err));
	return rank_logged(line);
}

/* One line for each direction in which the kernel has refused, and none of others; that there
 * is no memory isn't kept in mind of a pair, and is said once in all. */
static void must_have_said_once(int rank, bool refused)
{
	unsigned reads = lines_about(rank, "process_vm_readv"),
		 writes = lines_about(rank, "process_vm_writev"), all = rank_logged("another way");

	if (reads > 1 || writes > 1 || reads + writes != all || refused != !!all ||
	    (denial_row->err == ENOMEM && all > 1))
		rank_fail(rank, "refused: %d; lines: %u of reading, %u of writing, %u in all",
			  refused, reads, writes, all);
}

static void denied_rank(int rank)
{
	struct traffic t = {
		.rank = rank,
		.count = 2,
		.victim = -1,
		.least = denial_row->least,
		.most = denial_row->most,
		.limit = denial_row->least > 1000000 ? 12 : 60,
		.each = deny_now,
	};

	my_rank = rank;
	is_to_be_denied = denial_row->who & (rank ? SECOND : FIRST);
	rank_keep_log();
	deny_now(0);
	rank_open(rank, 2);
	traffic_run(&t);
	RANK_CHECK(rank, denied == is_to_be_denied);
	must_have_said_once(rank, is_to_be_denied);
	rank_close(rank);
}

static void denial(void **state)
{
	denial_row = TABLE_ROW(struct denial_row, state);
	setenv("FI_BEELINE_LOG", "info", 1);
	world_start(2, denied_rank);
	world_end(-1);
	unsetenv("FI_BEELINE_LOG");
	assert_int_equal(atomic_load(&world->messages[0]), atomic_load(&world->messages[1]));
}

/* --- calling them is deadly -------------------------------------------------- */

/* A knob says that they aren't to be called; nor are they for a measurement. */
static void forbidden_rank(int rank)
{
	struct traffic t = {
		.rank = rank, .count = 2, .victim = -1, .least = 1, .most = 600000, .limit = 40};

	if (forbid_process_vm())
		rank_fail(rank, "no seccomp filter: %s", strerror(errno));
	rank_open(rank, 2);
	traffic_run(&t);
	rank_close(rank);
}

static void forbidden(void **state)
{
	setenv("FI_BEELINE_COPY", "ring", 1);
	world_start(2, forbidden_rank);
	world_end(-1);
	unsetenv("FI_BEELINE_COPY");
}

/* --- another user ----------------------------------------------------------- */

static int first_error(int rank)
{
	struct deadline late = deadline_in(TOLERATED_NS);
	int err;

	while ((err = bl_inject(ep, "x", 1, (uint64_t)!rank, 1, 0, BL_TAGGED)) == -EAGAIN) {
		if (deadline_over(&late))
			rank_fail(rank, "no answer about a rank of another user");
		bl_ep_progress(ep);
		sched_yield();
	}
	return err;
}

static void of_another_user(int rank)
{
	int err;

	if (rank && (setgid(65534) || setuid(65534)))
		rank_fail(rank, "setuid: %s", strerror(errno));
	rank_open(rank, 2);
	err = first_error(rank);
	if (err != -EPERM)
		rank_fail(rank, "a message to another user's rank: %s", strerror(-err));
	atomic_store(&world->mark[rank], 1);
	while (!atomic_load(&world->mark[!rank]))
		bl_ep_progress(ep);
	rank_close(rank);
}

static void another_user(void **state)
{
	world_start(2, of_another_user);
	world_end(-1);
}

/* --- in another's name ---------------------------------------------------------- */

/* Rank 2 calls rank 0 first and says that it is rank 1. */
static void one_is_an_impostor(int rank)
{
	char letter = 0;
	int err;

	rank_open(rank, RANKS);
	switch (rank) {
	case 0: {
		struct deadline late = deadline_in(TOLERATED_NS);
		struct bl_comp comp;

		RANK_CHECK(0, !bl_recv_buf(ep, &letter, 1, world_index[1], 1, 0, NULL,
					   BL_TAGGED | BL_COMPLETION));
		while (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) != 1)
			if (deadline_over(&late))
				rank_fail(0, "rank 1's message didn't come");
		if (letter != 'b')
			rank_fail(0, "rank 2 was taken for rank 1");
		atomic_store(&world->mark[0], 1);
		break;
	}
	case 1:
		rank_reach_mark(1, 2, 1);
		while ((err = bl_inject(ep, "b", 1, world_index[0], 1, 0, BL_TAGGED)) == -EAGAIN)
			bl_ep_progress(ep);
		RANK_CHECK(1, !err);
		rank_reach_mark(1, 0, 1);
		break;
	case 2:
		ep->local.addr = world->addr[1];
		while ((err = bl_inject(ep, "c", 1, world_index[0], 1, 0, BL_TAGGED)) == -EAGAIN)
			bl_ep_progress(ep);
		atomic_store(&world->mark[2], 1);
		if (!err)
			rank_fail(2, "rank 0 took it for rank 1");
		rank_reach_mark(2, 0, 1);
	}
	rank_close(rank);
}

static void in_anothers_name(void **state)
{
	world_start(RANKS, one_is_an_impostor);
	world_end(-1);
}

/* --- fork ---------------------------------------------------------------------- */

static uint64_t forks;

static void fork_now_and_then(uint64_t received)
{
	pid_t pid;
	int status;

	if (received % 20 != 7 || forks == 5)
		return;
	pid = fork();
	RANK_CHECK(my_rank, pid >= 0);
	if (!pid) {
		if (forks % 2)
			execl("/bin/true", "true", (char *)NULL);
		exit(0); /* with everything that is registered to run at exit */
	}
	forks++;
	RANK_CHECK(my_rank, waitpid(pid, &status, 0) == pid);
	RANK_CHECK(my_rank, !status);
}

static void forking_rank(int rank)
{
	struct traffic t = {.rank = rank,
			    .count = 2,
			    .victim = -1,
			    .least = 0,
			    .most = 300000,
			    .limit = 150,
			    .each = fork_now_and_then};

	my_rank = rank;
	rank_open(rank, 2);
	traffic_run(&t);
	RANK_CHECK(rank, forks == 5);
	rank_close(rank);
}

static void fork_in_a_rank(void **state)
{
	world_start(2, forking_rank);
	world_end(-1);
}

/* --- closed too early ------------------------------------------------------------ */

struct close_row {
	struct row row;
	size_t len;
	bool arrives; /* what was sent before the close is received after it */
};

static const struct close_row closes[] = {
	{{"short", "it lies in the ring: sent is sent"}, 8, true},
	{{"payload ring", "the same"}, 4000, true},
	{{"large", "its bytes were the sender's, who has closed"}, 1000000, false},
};

static const struct close_row *close_row;

/* Rank 1 sends and closes; rank 0 receives afterwards. */
static void closing_rank(int rank)
{
	uint8_t *buf = malloc(close_row->len);
	struct deadline late = deadline_in(WORLD_NS);

	memset(buf, rank ? 0x77 : 0, close_row->len);
	rank_open(rank, 2);
	if (rank) {
		struct iovec iov = {buf, close_row->len};
		struct bl_send send = {&iov, 1, 0, 1, 0, buf, BL_TAGGED | BL_COMPLETION, NULL};
		int err;

		while ((err = bl_send(ep, &send)) == -EAGAIN)
			bl_ep_progress(ep);
		RANK_CHECK(rank, !err);
		rank_close(rank);
		memset(buf, 0xbb, close_row->len); /* ours again */
		atomic_store(&world->mark[1], 1);
		while (atomic_load(&world->mark[0]) < 2) { /* alive: it could still be read */
			sched_yield();
			if (deadline_over(&late))
				rank_fail(rank, "the receiver never came to its end");
		}
		free(buf);
		return;
	}
	rank_reach_mark(0, 1, 1);
	for (uint64_t then = bl_clock_ns() + 2 * PROMISED_NS; bl_clock_ns() < then;)
		bl_ep_progress(ep); /* the close has been seen by now */

	int err = bl_recv_buf(ep, buf, close_row->len, BL_ADDR_ANY, 1, 0, buf,
			      BL_TAGGED | BL_COMPLETION);
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;

	RANK_CHECK(0, !err);
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		if (deadline_over(&late))
			rank_fail(0, "the receive neither completes nor fails");
	if (close_row->arrives) {
		RANK_CHECK(0, n == 1 && comp.len == close_row->len);
		for (size_t i = 0; i < close_row->len; i++)
			RANK_CHECK(0, buf[i] == 0x77);
	} else {
		if (n == 1)
			rank_fail(0, "received from a closed endpoint: %s",
				  buf[0] == 0x77 ? "the bytes" : "other bytes than were sent");
		RANK_CHECK(0, n == -BL_EAVAIL && bl_cq_readerr(cq, &failed) == 1);
	}
	atomic_store(&world->mark[0], 2);
	rank_close(0);
	free(buf);
}

static void closed_before_the_receive(void **state)
{
	close_row = TABLE_ROW(struct close_row, state);
	world_start(2, closing_rank);
	world_end(-1);
}

int main(void)
{
	TABLE_ROWS("denied", denial, denials);
	TABLE_TEST(forbidden);
	if (geteuid())
		printf("skip another_user: only root can become another user\n");
	else
		TABLE_TEST(another_user);
	TABLE_TEST(in_anothers_name);
	TABLE_TEST(fork_in_a_rank);
	TABLE_ROWS("closed", closed_before_the_receive, closes);
	return table_run("refusal");
}
