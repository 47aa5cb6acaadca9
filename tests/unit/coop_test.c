/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * coop_test.c: copy/coop.h under real concurrency: two threads, then two
 * processes, share one message after the other through one descriptor. Chunks
 * are entries of an array of counters that both see. coop_model_test.c looks at
 * every order of steps instead of the ones that happen.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "copy/coop.h"
#include "unit/table.h"

#define MOST	  64u
#define DEADLINE  20000000000ull /* ns: an oversubscribed machine under a sanitizer */
#define ENOUGH_NS 200000000ull	 /* per row, once LEAST messages have been shared */
#define LEAST	  10u
#define NEVER	  UINT32_MAX

/* What one message is to look like. */
struct share_row {
	struct row row;
	uint32_t count;
	uint32_t stop_at;   /* the receiver stops after so many chunks of its own; NEVER */
	uint32_t give_back; /* the sender fails at its n-th chunk; NEVER */
	uint32_t late;	    /* the sender looks at every so-manyth message only */
};

/* In memory that both see. */
struct stage {
	struct bl_coop coop;
	_Atomic uint32_t announced; /* generation of the message under way; 0: stop */
	_Atomic uint32_t by[MOST][2]; /* chunks: copied by receiver, by sender */
	_Atomic uint32_t sender_total;
	_Atomic uint32_t sender_lost; /* its takes of a message that was over */
};

static const struct share_row rows[] = {
	{{"one chunk", "only one can have it"}, 1, NEVER, NEVER, 1},
	{{"two chunks", "one each, the usual case"}, 2, NEVER, NEVER, 1},
	{{"64 chunks", "many steps on one counter"}, 64, NEVER, NEVER, 1},
	{{"stop before any", "the receiver can't pull at all"}, 5, 0, NEVER, 1},
	{{"stop in the middle", "the receiver is refused halfway"}, 8, 2, NEVER, 1},
	{{"give back first", "the sender can't push at all"}, 5, NEVER, 0, 1},
	{{"give back later", "the sender is refused halfway"}, 16, NEVER, 2, 1},
	{{"both refused", "stop and give back meet"}, 6, 1, 1, 1},
	{{"late sender", "most messages are over when it comes"}, 4, NEVER, NEVER, 3},
};

/* The sender's side of one message, as help() in large.c. */
static void send_one(struct stage *s, const struct share_row *row, uint32_t generation)
{
	uint32_t taken = 0, chunk;

	while ((chunk = bl_coop_take(&s->coop, generation, row->count)) != BL_COOP_NONE) {
		if (taken++ == row->give_back) {
			bl_coop_give_back(&s->coop, chunk);
			return;
		}
		/* A message of `generation` can't end while we hold a chunk of it. */
		if (atomic_load(&s->announced) != generation)
			atomic_fetch_add(&s->sender_lost, 1);
		atomic_fetch_add_explicit(&s->by[chunk][1], 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&s->sender_total, 1, memory_order_relaxed);
		bl_coop_count(&s->coop);
	}
}

static void send_all(struct stage *s, const struct share_row *row)
{
	uint32_t last = 0, now;

	while ((now = atomic_load(&s->announced)) != 0) {
		if (now == last || now % row->late) {
			sched_yield(); /* two cores may be busy with other tests */
			continue;
		}
		last = now;
		send_one(s, row, now);
	}
}

/* The receiver's side, as transfer_step() in large.c. Why it failed, or NULL. */
static const char *receive_one(struct stage *s, const struct share_row *row, uint32_t generation,
			       uint64_t deadline)
{
	uint32_t mine = 0, done = 0, stopped_from = row->count, chunk;
	bool handed_out = false, got_back = false;

	for (uint32_t i = 0; i < row->count; i++)
		atomic_store(&s->by[i][0], 0), atomic_store(&s->by[i][1], 0);
	bl_coop_start(&s->coop, generation);
	atomic_store(&s->announced, generation);
	for (;;) {
		if (!handed_out && mine == row->stop_at) {
			stopped_from = bl_coop_stop(&s->coop, generation, row->count);
			handed_out = true;
			for (uint32_t i = stopped_from; i < row->count; i++, done++)
				atomic_fetch_add(&s->by[i][0], 1);
		}
		chunk = handed_out ? BL_COOP_NONE
				   : bl_coop_take(&s->coop, generation, row->count);
		if (chunk != BL_COOP_NONE) {
			atomic_fetch_add(&s->by[chunk][0], 1);
			mine++;
			done++;
		} else {
			handed_out = true;
		}
		chunk = bl_coop_returned(&s->coop);
		if (chunk != BL_COOP_NONE && !got_back) {
			if (chunk >= stopped_from)
				return "a chunk came back that was never handed out";
			got_back = true;
			atomic_fetch_add(&s->by[chunk][0], 1);
			done++;
		}
		if (done + bl_coop_counted(&s->coop) > row->count)
			return "more chunks than the message has";
		if (done + bl_coop_counted(&s->coop) == row->count)
			break;
		if (bl_clock_ns() > deadline)
			return "chunks are missing";
		if (handed_out)
			sched_yield();
	}
	for (uint32_t i = 0; i < row->count; i++)
		if (atomic_load(&s->by[i][0]) + atomic_load(&s->by[i][1]) != 1)
			return "a chunk was not copied exactly once";
	return NULL;
}

static const char *receive_all(struct stage *s, const struct share_row *row)
{
	uint64_t start = bl_clock_ns();
	const char *what = NULL;

	for (uint32_t g = 1; !what && (g <= LEAST || bl_clock_ns() - start < ENOUGH_NS); g++)
		what = receive_one(s, row, g, start + DEADLINE);
	atomic_store(&s->announced, 0);
	if (!what && atomic_load(&s->sender_lost))
		what = "the sender had a chunk of a message that was over";
	return what;
}

struct job {
	struct stage *stage;
	const struct share_row *row;
};

static void *sender_thread(void *arg)
{
	struct job *job = arg;

	while (!atomic_load(&job->stage->announced))
		sched_yield();
	send_all(job->stage, job->row);
	return NULL;
}

static void two_threads(void **state)
{
	static struct stage stage;
	struct job job = {&stage, TABLE_ROW(struct share_row, state)};
	const char *what;
	pthread_t thread;

	memset(&stage, 0, sizeof stage);
	assert_int_equal(pthread_create(&thread, NULL, sender_thread, &job), 0);
	what = receive_all(&stage, job.row);
	pthread_join(thread, NULL);
	if (what)
		fail_msg("%s", what);
}

static void two_processes(void **state)
{
	struct stage *stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct job job = {stage, TABLE_ROW(struct share_row, state)};
	const char *what;
	int status;
	pid_t pid;

	assert_ptr_not_equal(stage, MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(60); /* should the receiver fail before it says that it is over */
		sender_thread(&job);
		_exit(0);
	}
	what = receive_all(stage, job.row);
	if (what)
		kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (what)
		fail_msg("%s", what);
	assert_int_equal(status, 0);
	munmap(stage, sizeof *stage);
}

/* --- one step at a time ------------------------------------------------- */

static void take_of_another_generation(void **state)
{
	struct bl_coop coop;

	bl_coop_start(&coop, 7);
	assert_true(bl_coop_take(&coop, 6, 4) == BL_COOP_NONE);
	assert_true(bl_coop_take(&coop, 8, 4) == BL_COOP_NONE);
	assert_int_equal(bl_coop_take(&coop, 7, 4), 0); /* none of them took a chunk */
}

struct stop_row {
	struct row row;
	uint32_t count, taken, first;
};

static const struct stop_row stops[] = {
	{{"none taken", "all is the stopper's"}, 3, 0, 0},
	{{"some taken", "the first that nobody has"}, 3, 2, 2},
	{{"all taken", "nothing is left"}, 3, 3, 3},
	{{"most chunks", "the largest count that a message is cut into"}, UINT32_MAX / 2, 5, 5},
};

static void stop_tells_the_first_not_taken(void **state)
{
	const struct stop_row *row = TABLE_ROW(struct stop_row, state);
	struct bl_coop coop;

	bl_coop_start(&coop, UINT32_MAX);
	for (uint32_t i = 0; i < row->taken; i++)
		assert_int_equal(bl_coop_take(&coop, UINT32_MAX, row->count), i);
	assert_int_equal(bl_coop_stop(&coop, UINT32_MAX, row->count), row->first);
	assert_true(bl_coop_take(&coop, UINT32_MAX, row->count) == BL_COOP_NONE);
	assert_int_equal(bl_coop_stop(&coop, UINT32_MAX, row->count), row->count); /* again */
}

static void start_forgets_the_last_message(void **state)
{
	struct bl_coop coop;

	bl_coop_start(&coop, 1);
	bl_coop_count(&coop);
	bl_coop_give_back(&coop, 0);
	assert_int_equal(bl_coop_counted(&coop), 1);
	assert_int_equal(bl_coop_returned(&coop), 0);
	bl_coop_stop(&coop, 1, 5);
	bl_coop_start(&coop, 2);
	assert_int_equal(bl_coop_counted(&coop), 0);
	assert_true(bl_coop_returned(&coop) == BL_COOP_NONE);
	assert_int_equal(bl_coop_take(&coop, 2, 5), 0);
}

int main(void)
{
	TABLE_TEST(take_of_another_generation);
	TABLE_ROWS("stop", stop_tells_the_first_not_taken, stops);
	TABLE_TEST(start_forgets_the_last_message);
	TABLE_ROWS("threads", two_threads, rows);
	TABLE_ROWS("processes", two_processes, rows);
	return table_run("coop");
}
