/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * generations.c: see generations.h. Test program and ranks share one more page;
 * the test program writes the plan and the number of the generation, each rank its
 * own progress. The library here is the build with windows.
 */
#include "fault/generations.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/promise.h"

#define SURVIVORS   2
#define NOBODYS_TAG 0x6e6f626f6479u /* not even a mad one's, by chance */
#define REACH_NS    1000000000ull   /* a window that isn't reached by then isn't on the way */
#define STEADY_NS   (WORLD_NS / 2)  /* one that each life gets to, on a slow machine as well */

static struct shared {
	struct life life;
	_Atomic unsigned number; /* of the generation; ~0: it is over */
	_Atomic unsigned unborn; /* the last one that died without an address */
	_Atomic unsigned said;	 /* by a mad one: packets */
	_Atomic unsigned done[SURVIVORS];
} * shared;
#define OVER (~0u)

static unsigned number; /* the test program's */

/* --- the victim ------------------------------------------------------------- */

static bool i_am_the_victim;
static _Atomic unsigned times;
static uint64_t mutation_seed;

void bl_window(enum bl_window window, void *what)
{
	const struct life *life;

	if (!i_am_the_victim)
		return;
	life = &shared->life;
	if (life->mad && window == BL_WINDOW_PACKET)
		atomic_fetch_add(&shared->said, 1);
	if (life->mad && (window == BL_WINDOW_PACKET || window == BL_WINDOW_HELLO))
		generations_mutate(window, what, &mutation_seed);
	if (window != life->window || atomic_fetch_add(&times, 1) + 1 != life->nth)
		return;
	atomic_store(&world->hurt_at, bl_clock_ns());
	kill(getpid(), SIGKILL);
}

static void victim(int rank)
{
	const struct life *life = &shared->life;
	struct traffic t = {
		.rank = rank,
		.count = RANKS,
		.victim = VICTIM,
		.least = life->least,
		.most = life->most,
		.copybuf = life->copybuf,
		.mad = life->mad,
	};

	i_am_the_victim = true;
	rank_is_mad = life->mad;
	mutation_seed = life->seed;
	rank_open(rank, RANKS);
	traffic_run(&t); /* until it is killed */
}

/* --- a survivor --------------------------------------------------------------- */

static int before_descriptors, before_mappings;

/* What is said to an address ends in an error, soon: at first it may still go into
 * the dead one's ring, where a copy that failed was the first to notice. */
static void must_fail(int rank, uint64_t index, const char *which)
{
	struct deadline late = deadline_in(TOLERATED_NS);
	uint64_t context;
	int err;

	do {
		err = bl_inject(ep, "x", 1, index, 3, 0, BL_TAGGED);
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(rank, "sending to a dead rank's %s address goes on", which);
	} while (!err || err == -EAGAIN);
	if (err != -ECONNRESET && err != -ECONNREFUSED && !shared->life.mad)
		rank_fail(rank, "a dead rank's %s address gives: %s", which, strerror(-err));
	err = bl_recv_buf(ep, &context, sizeof context, index, NOBODYS_TAG, 0, &context, BL_TAGGED);
	if (!err)
		rank_fail(rank, "receiving from a dead rank's %s address is accepted", which);
}

static void nothing_is_left(int rank, unsigned n)
{
	struct deadline late;
	uint64_t again;

	must_fail(rank, world_index[VICTIM], "old");
	RANK_CHECK(rank, !bl_av_insert(av, &world->addr[VICTIM], &again));
	must_fail(rank, again, "newly inserted");
	RANK_CHECK(rank, !bl_av_remove(av, again));
	RANK_CHECK(rank, !bl_av_remove(av, world_index[VICTIM]));
	if (n == 1 || !before_mappings) {
		before_descriptors = rank_descriptors();
		before_mappings = rank_mappings("beeline");
	}
	/* The service thread may be about to close what connected it. */
	late = deadline_in(TOLERATED_NS);
	while (rank_descriptors() > before_descriptors) {
		if (deadline_over(&late))
			rank_fail(rank, "%d descriptors after death %u, once %d",
				  rank_descriptors(), n, before_descriptors);
		sched_yield();
	}
	/* One lane more where the first died before it had any. What a mad one has seen
	 * of ours is not used again. */
	if (!shared->life.mad && rank_mappings("beeline") > before_mappings + 3)
		rank_fail(rank, "%d mappings after death %u, once %d", rank_mappings("beeline"), n,
			  before_mappings);
}

/* True: a victim has come; false: it died before, or all is over. */
static bool await_victim(int rank, unsigned n)
{
	struct deadline late = deadline_in(WORLD_NS);

	for (;;) {
		unsigned now = atomic_load(&shared->number);

		if (now == OVER || (now == n && atomic_load(&shared->unborn) == n))
			return false;
		if (now == n && atomic_load(&world->here[VICTIM]))
			return true;
		if (deadline_over(&late))
			rank_fail(rank, "generation %u never began", n);
		bl_ep_progress(ep);
		sched_yield();
	}
}

static unsigned neighbours(void)
{
	unsigned n = 0;

	for (const struct bl_peer *peer = ep->local.peers.all; peer; peer = peer->next.all)
		n++;
	return n;
}

static void survivor(int rank)
{
	rank_open(rank, SURVIVORS);
	for (unsigned n = 1;; n++) {
		const struct life *life = &shared->life;

		if (await_victim(rank, n)) {
			struct traffic t = {
				.rank = rank,
				.count = RANKS,
				.victim = VICTIM,
				.least = life->least,
				.most = life->most,
				.after = 8,
				.copybuf = life->copybuf,
				.mad = life->mad,
			};

			RANK_CHECK(rank,
				   !bl_av_insert(av, &world->addr[VICTIM], &world_index[VICTIM]));
			traffic_run(&t);
			nothing_is_left(rank, n);
			/* Who looks after all neighbours isn't to look at the dead. */
			RANK_CHECK(rank, life->mad || neighbours() <= RANKS);
		}
		if (atomic_load(&shared->number) == OVER)
			break;
		atomic_store(&shared->done[rank], n);
	}
	rank_close(rank);
}

/* --- test program --------------------------------------------------------- */

static bool survivors_are_done(void)
{
	for (int rank = 0; rank < SURVIVORS; rank++)
		if (atomic_load(&shared->done[rank]) != number)
			return false;
	return true;
}

static bool survivors_are_here(void)
{
	return atomic_load(&world->here[0]) && atomic_load(&world->here[1]);
}

static struct deadline patience;

static bool victim_is_hurt(void)
{
	return atomic_load(&world->hurt_at) || deadline_over(&patience);
}

static bool victim_is_there(void)
{
	return shared->life.moment == EARLIEST ||
	       (atomic_load(&world->here[VICTIM]) &&
		atomic_load(&world->messages[VICTIM]) >= shared->life.moment) ||
	       deadline_over(&patience);
}

/* Or has ended by itself, or hangs, or neither of the others listens any more. */
static bool victim_has_said_enough(void)
{
	siginfo_t info = {0};

	return atomic_load(&shared->said) >= shared->life.packets ||
	       (atomic_load(&world->mark[0]) && atomic_load(&world->mark[1])) ||
	       waitid(P_PID, (id_t)world_pid[VICTIM], &info, WEXITED | WNOHANG | WNOWAIT) ||
	       info.si_pid || deadline_over(&patience);
}

static void reset(void)
{
	atomic_store(&world->here[VICTIM], 0);
	atomic_store(&world->messages[VICTIM], 0);
	atomic_store(&world->hurt_at, 0);
	atomic_store(&shared->said, 0);
	for (int rank = 0; rank < RANKS; rank++) {
		atomic_store(&world->noticed_at[rank], 0);
		atomic_store(&world->enough[rank], 0);
	}
	memset(&world->addr[VICTIM], 0, sizeof world->addr[VICTIM]);
}

static void one_generation(struct outcome *out)
{
	const struct life *life = &shared->life;
	int status;

	patience = deadline_in(REACH_NS);
	if (life->window != BL_WINDOWS_MOST && life->window > BL_WINDOW_AGREED)
		patience = deadline_in(STEADY_NS);
	world_start_rank(VICTIM, victim);
	atomic_store(&shared->number, number);
	if (life->window != BL_WINDOWS_MOST) {
		world_until(victim_is_hurt, "the victim to reach its window");
		out->unreached += !atomic_load(&world->hurt_at);
	} else {
		world_until(life->mad ? victim_has_said_enough : victim_is_there,
			    "traffic with the victim");
		usleep(life->wait_us); /* for nothing: the kill is to fall anywhere */
	}
	if (!atomic_load(&world->hurt_at)) {
		atomic_store(&world->hurt_at, bl_clock_ns());
		kill(world_pid[VICTIM], SIGKILL);
	}
	waitpid(world_pid[VICTIM], &status, 0);
	promise_died(VICTIM);
	world_pid[VICTIM] = 0;
	if (!life->mad && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL))
		world_fail("the victim ended before it was killed: status 0x%x", (unsigned)status);
	if (!atomic_load(&world->here[VICTIM])) {
		atomic_store(&shared->unborn, number);
		out->unborn++;
	}
	world_until(survivors_are_done, "the survivors to have enough");
	if (world_left_of(VICTIM))
		world_fail("left behind: %s", world_left_of(VICTIM));
	out->deaths++;
	for (int rank = 0; rank < SURVIVORS; rank++) {
		uint64_t at = atomic_load(&world->noticed_at[rank]),
			 hurt = atomic_load(&world->hurt_at);

		if (at) {
			out->noticed[out->nnoticed++] = at > hurt ? at - hurt : 0;
			if (promise_late(rank) > out->latest)
				out->latest = promise_late(rank);
		}
		out->mistrusted += atomic_exchange(&world->mark[rank], 0);
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void generations_run(unsigned count, void (*plan)(unsigned n, struct life *life),
		     struct outcome *out)
{
	if (!shared) {
		shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(shared, MAP_FAILED);
	}
	memset(shared, 0, sizeof *shared);
	*out = (struct outcome){.noticed = calloc(count, SURVIVORS * sizeof *out->noticed)};
	assert_non_null(out->noticed);
	promise_watch();
	world_start(SURVIVORS, survivor);
	world_until(survivors_are_here, "the survivors");
	for (number = 1; number <= count; number++) {
		reset();
		shared->life = (struct life){.window = BL_WINDOWS_MOST};
		plan(number, &shared->life);
		one_generation(out);
	}
	atomic_store(&shared->number, OVER);
	world_end(-1);
	qsort(out->noticed, out->nnoticed, sizeof *out->noticed, by_size);
}

void generations_free(struct outcome *out)
{
	free(out->noticed);
	out->noticed = NULL;
}

void generations_judge(const char *what, const struct outcome *out)
{
	double median = out->nnoticed ? (double)out->noticed[out->nnoticed / 2] / 1e6 : 0;
	double most = out->nnoticed ? (double)out->noticed[out->nnoticed - 1] / 1e6 : 0;
	size_t late = 0;

	while (late < out->nnoticed && out->noticed[out->nnoticed - 1 - late] > PROMISED_NS)
		late++;
	print_message("             %s: %u deaths, %u of them before the address was known; the "
		      "others' operations ended after %.1f ms (median), at most %.1f ms, %zu of "
		      "%zu after more than 100 ms; at most %.1f ms from the end of the process, "
		      "without what the machine took\n",
		      what, out->deaths, out->unborn, median, most, late, out->nnoticed,
		      (double)out->latest / 1e6);
	promise_judge(out->latest);
}
