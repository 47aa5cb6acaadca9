/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * silent_test.c: callers of a rank's rendezvous socket that say nothing, or go no further
 * once they are answered: who is hung up on, when, and when not. They are no endpoints but
 * play some. What takes 20 s has a process and a world of its own, beside all the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/world.h"
#include "transport/local/link/handshake.h"
#include "transport/local/link/hello.h"

#define MANY	    300
#define SILENT_MOST 64 /* of the own user's are kept: src/transport/local/link/handshake.c */
#define ANSWERED    96 /* as many make way, for which it takes longer */
#define HONEST_MOST 8  /* make way for an honest one, who may have to call again */
#define SILENT_NS   100000000ull   /* one may say nothing while there are more than that */
#define MAKE_WAY_NS 1000000000ull  /* one that was answered may go no further then */
#define PATIENCE_NS 20000000000ull /* and any */
#define INEXACT_NS  1000000u	   /* it is counted in milliseconds */

/* --- callers -------------------------------------------------------------------- */

struct caller {
	struct bl_local played; /* who it says it is */
	uint64_t called_at, over_at;
	bool answered;
};

static struct caller callers[MANY];
static struct pollfd calls[MANY];

static void call_rank(int me, int i, int of)
{
	struct timeval most = {.tv_sec = WORLD_NS / 1000000000u};
	struct sockaddr_un name;
	socklen_t len = bl_socket_name(&name, world->addr[of].id);
	int fd = bl_socket(), flags = fcntl(fd, F_GETFL);

	RANK_CHECK(me, fd >= 0);
	callers[i].called_at = bl_clock_ns();
	/* The kernel waits until the rank's backlog has room. */
	RANK_CHECK(me, !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most));
	RANK_CHECK(me, !fcntl(fd, F_SETFL, flags & ~O_NONBLOCK));
	RANK_CHECK(me, !connect(fd, (struct sockaddr *)&name, len));
	RANK_CHECK(me, !fcntl(fd, F_SETFL, flags));
	calls[i] = (struct pollfd){fd, POLLIN, 0};
}

/* What an honest caller says first. */
static void say_hello(int me, int i, int of)
{
	struct bl_local *played = &callers[i].played;
	struct bl_peer called = {.addr = world->addr[of]};
	struct bl_handshake x = {.local = played, .peer = &called, .fd = calls[i].fd};

	RANK_CHECK(me, !bl_addr_make(&played->addr) && !bl_socket_listen(played));
	RANK_CHECK(me, !bl_hello_send(&x, BL_HELLO_CALL, -1));
}

static void take_answer(int i)
{
	struct bl_hello hello;
	int got[BL_FDS];

	if (bl_hello_receive(calls[i].fd, &hello, got))
		return;
	callers[i].answered |= hello.step == BL_HELLO_ANSWER && !hello.status;
	for (int k = 0; k < BL_FDS; k++)
		if (got[k] >= 0)
			close(got[k]);
}

/* How many of the first have been hung up on; what the others are told is read. */
static int hung_up(int count)
{
	int n = 0;

	poll(calls, (nfds_t)count, 1);
	for (int i = 0; i < count; i++) {
		if (calls[i].revents & POLLHUP && !callers[i].over_at)
			callers[i].over_at = bl_clock_ns();
		else if (calls[i].revents & POLLIN && !callers[i].over_at)
			take_answer(i);
		n += callers[i].over_at != 0;
	}
	return n;
}

/* Between so much and so much after it has called. */
static void must_have_ended_within(int me, int i, uint64_t least, uint64_t most)
{
	uint64_t took = callers[i].over_at - callers[i].called_at;

	if (callers[i].over_at && (took + INEXACT_NS < least || took > most))
		rank_fail(me, "caller %d was hung up on after %lu ms", i,
			  (unsigned long)(took / 1000000));
}

/* --- a rank that is called ----------------------------------------------------- */

/* Rank 2 is honest, and must be heard by rank 0, which doesn't call it: it would for a receive
 * from rank 2. */
static void hear_the_honest(void)
{
	struct deadline late = deadline_in(2 * TOLERATED_NS);
	struct bl_comp comp;
	char letter = 0;

	RANK_CHECK(0, !bl_recv_buf(ep, &letter, 1, BL_ADDR_ANY, 1, 0, NULL,
				   BL_TAGGED | BL_COMPLETION));
	while (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) != 1)
		if (deadline_over(&late))
			rank_fail(0, "an honest caller was kept away");
	RANK_CHECK(0, letter == 'x');
}

/* From that mark of that rank on, until this one of rank 0. */
static void be_honest(int of, uint32_t mark, uint32_t end)
{
	int err;

	rank_open(2, RANKS);
	rank_reach_mark(2, of, mark);
	while ((err = bl_inject(ep, "x", 1, world_index[0], 1, 0, BL_TAGGED)) == -EAGAIN)
		bl_ep_progress(ep);
	RANK_CHECK(2, !err);
	rank_reach_mark(2, 0, end);
	rank_close(2);
}

/* Rank 1 is no endpoint. */
static void play(void)
{
	for (int i = 0; i < MANY; i++)
		calls[i].fd = -1;
	RANK_CHECK(1, !bl_addr_make(&world->addr[1]));
	atomic_store(&world->here[1], 1);
	rank_await(1, &world->here[0], 1);
}

/* --- silent ones --------------------------------------------------------------- */

struct silent_row {
	struct row row;
	bool stranger;
	int count, kept;
	uint64_t least, most; /* how long the others are kept, ns */
};

static const struct silent_row silents[] = {
	{{"another user's", "nothing of them is kept"}, true, MANY, 0, 0, 2 * TOLERATED_NS},
	{{"our user's", "more than are kept at a time"},
	 false,
	 MANY,
	 SILENT_MOST,
	 SILENT_NS,
	 2 * TOLERATED_NS},
	{{"some more than may be", "at once, so that each has its time"},
	 false,
	 SILENT_MOST + 16,
	 SILENT_MOST,
	 SILENT_NS,
	 SILENT_NS + TOLERATED_NS / 2},
};

static const struct silent_row *silent_row;

static void say_nothing(void)
{
	struct deadline late = deadline_in(2 * TOLERATED_NS);
	int count = silent_row->count, n;

	play();
	if (silent_row->stranger)
		RANK_CHECK(1, !setgid(65534) && !setuid(65534));
	for (int i = 0; i < count; i++)
		call_rank(1, i, 0);
	while ((n = hung_up(count)) < count - silent_row->kept)
		if (deadline_over(&late))
			rank_fail(1, "%d silent callers are kept", count - n);
	for (int i = 0; i < count; i++)
		must_have_ended_within(1, i, silent_row->least, silent_row->most);
	atomic_store(&world->mark[1], 1);
	rank_await(1, &world->mark[0], 2);
	if (hung_up(count) > n + HONEST_MOST)
		rank_fail(1, "%d are kept when one more calls", count - hung_up(count));
	atomic_store(&world->mark[1], 2);
}

static void among_silent_callers(int rank)
{
	int before;

	if (rank == 1) {
		say_nothing();
	} else if (rank == 2) {
		be_honest(0, 1, 2);
	} else {
		rank_open(0, RANKS);
		before = rank_descriptors();
		rank_reach_mark(0, 1, 1);
		if (rank_descriptors() > before + silent_row->kept + 1)
			rank_fail(0, "silent callers hold %d descriptors",
				  rank_descriptors() - before);
		atomic_store(&world->mark[0], 1); /* counted before the honest one calls */
		hear_the_honest();
		atomic_store(&world->mark[0], 2);
		rank_reach_mark(0, 1, 2); /* it has looked who is left */
		rank_close(0);
	}
}

static void silent_callers(void **state)
{
	silent_row = TABLE_ROW(struct silent_row, state);
	world_start(RANKS, among_silent_callers);
	world_end(-1);
}

/* --- such as are answered and go no further -------------------------------------- */

static bool has_a_place(int i)
{
	return callers[i].answered && !callers[i].over_at;
}

/* Call, again if need be: who is slow at it may have made way already. */
static void take_a_place(int i)
{
	if (calls[i].fd >= 0) {
		must_have_ended_within(1, i, callers[i].answered ? MAKE_WAY_NS : SILENT_NS,
				       WORLD_NS);
		close(calls[i].fd);
		close(callers[i].played.listener);
		callers[i] = (struct caller){0};
	}
	call_rank(1, i, 0);
	say_hello(1, i, 0);
	while (!callers[i].answered && !callers[i].over_at)
		hung_up(ANSWERED);
}

static int places_taken(void)
{
	int n = 0;

	for (int i = 0; i < ANSWERED; i++) {
		if (!has_a_place(i))
			take_a_place(i);
		n += has_a_place(i);
	}
	return n;
}

/* As many as a rank waits for: the next who calls gets one's place, after a second. */
static void go_no_further(void)
{
	struct deadline late = deadline_in(WORLD_NS / 2);
	int n;

	play();
	while ((n = places_taken()) < ANSWERED || hung_up(ANSWERED))
		if (deadline_over(&late))
			rank_fail(1, "%d of %d callers are answered", n, ANSWERED);
	atomic_store(&world->mark[1], 1);
	while (!atomic_load(&world->mark[0]))
		hung_up(ANSWERED);
	n = hung_up(ANSWERED);
	if (n < 1 || n > HONEST_MOST)
		rank_fail(1, "%d of %d callers made way for one", n, ANSWERED);
	for (int i = 0; i < ANSWERED; i++)
		must_have_ended_within(1, i, MAKE_WAY_NS, PATIENCE_NS / 2);
	atomic_store(&world->mark[1], 2);
}

static void among_answered_callers(int rank)
{
	if (rank == 1) {
		go_no_further();
	} else if (rank == 2) {
		be_honest(1, 1, 1);
	} else {
		rank_open(0, RANKS);
		hear_the_honest();
		atomic_store(&world->mark[0], 1);
		rank_reach_mark(0, 1, 2); /* it has looked who is left */
		rank_close(0);
	}
}

static void answered_callers(void **state)
{
	world_start(RANKS, among_answered_callers);
	world_end(-1);
}

/* --- twenty seconds ---------------------------------------------------------------- */

#define SPEAK_FIRST 4 /* of those that are kept: answered, and go no further */

/* One that is slow is heard; all others are hung up on when their time is over, none before. */
static void stay_for_long(void)
{
	struct deadline late = deadline_in(PATIENCE_NS + 2 * TOLERATED_NS);
	int slow = SILENT_MOST - 1, n;

	play();
	for (int i = 0; i < SILENT_MOST; i++) {
		call_rank(1, i, 0);
		if (i < SPEAK_FIRST)
			say_hello(1, i, 0);
	}
	while (bl_clock_ns() < callers[slow].called_at + MAKE_WAY_NS)
		hung_up(SILENT_MOST);
	say_hello(1, slow, 0);
	while ((n = hung_up(SILENT_MOST)) < SILENT_MOST)
		if (deadline_over(&late))
			rank_fail(1, "%d callers are kept for ever", SILENT_MOST - n);
	for (int i = 0; i < SILENT_MOST; i++) {
		must_have_ended_within(1, i, PATIENCE_NS, PATIENCE_NS + TOLERATED_NS);
		RANK_CHECK(1, callers[i].answered == (i < SPEAK_FIRST || i == slow));
	}
	atomic_store(&world->mark[1], 1);
	syscall(SYS_futex, &world->mark[1], FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Rank 0 does nothing: its service thread hangs up. */
static void for_long(int rank)
{
	struct timespec most = {.tv_sec = WORLD_NS / 1000000000u};

	if (rank) {
		stay_for_long();
		return;
	}
	rank_open(0, 2);
	syscall(SYS_futex, &world->mark[1], FUTEX_WAIT, 0, &most, NULL, 0);
	RANK_CHECK(0, atomic_load(&world->mark[1]));
	rank_close(0);
}

static void patience_of_its_own(void **state)
{
	world_start(2, for_long);
	world_end(-1);
}

static pid_t patient;
static FILE *its_words;

/* Before there is any table or world: the other process makes its own. */
static void begin_patience(void)
{
	its_words = tmpfile();
	fflush(NULL);
	patient = its_words ? fork() : -1;
	if (patient)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(fileno(its_words), STDOUT_FILENO);
	dup2(fileno(its_words), STDERR_FILENO);
	table_add("patience", patience_of_its_own, NULL);
	exit(table_run("patience"));
}

static void patience(void **state)
{
	int status = 1;
	char line[256];

	assert_true(patient > 0);
	assert_int_equal(waitpid(patient, &status, 0), patient);
	patient = 0;
	rewind(its_words);
	while (status && fgets(line, sizeof line, its_words))
		print_error("%s", line);
	assert_int_equal(status, 0);
}

/* --- hung up on ------------------------------------------------------------------ */

/* A caller that is hung up on before its word was read calls again; one whom nobody
 * listens to any more doesn't. Rank 1 is no endpoint but plays one. */
static void hung_up_on(int rank)
{
	struct deadline late = deadline_in(TOLERATED_NS);
	struct bl_local played = {.listener = -1};

	if (!rank) {
		rank_open(0, 2);
		int err;

		while ((err = bl_inject(ep, "x", 1, world_index[1], 1, 0, BL_TAGGED)) == -EAGAIN) {
			RANK_CHECK(0, !deadline_over(&late));
			bl_ep_progress(ep);
			sched_yield();
		}
		if (err != -ECONNREFUSED)
			rank_fail(0, "to nobody: %s", strerror(-err));
		rank_close(0);
		return;
	}
	RANK_CHECK(1, !bl_addr_make(&played.addr) && !bl_socket_listen(&played));
	world->addr[1] = played.addr;
	atomic_store(&world->here[1], 1);
	for (int i = 0; i < 3; i++) {
		struct pollfd call = {played.listener, POLLIN, 0};

		if (poll(&call, 1, TOLERATED_NS / 1000000) != 1)
			rank_fail(1, "it didn't call again");
		int fd = accept4(played.listener, NULL, NULL, SOCK_CLOEXEC);

		call = (struct pollfd){fd, POLLIN, 0};
		RANK_CHECK(1, fd >= 0 && poll(&call, 1, TOLERATED_NS / 1000000) == 1);
		close(fd); /* with its hello unread */
	}
	close(played.listener);
}

static void hung_up_unread(void **state)
{
	world_start(2, hung_up_on);
	world_end(-1);
}

int main(void)
{
	int status;

	begin_patience();
	if (geteuid())
		printf("skip silent: only root can become another user\n");
	else
		TABLE_ROWS("silent", silent_callers, silents);
	TABLE_TEST(answered_callers);
	TABLE_TEST(hung_up_unread);
	TABLE_TEST(patience);
	status = table_run("silent");
	if (patient > 0)
		waitpid(patient, NULL, 0);
	return status;
}
