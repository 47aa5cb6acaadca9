/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * chunks_test.c: copy/chunks.h under real concurrency: two threads, then two
 * processes, share one message after the other through one descriptor. Chunks
 * are entries of an array of counters that both see. chunks_model_test.c looks at
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
#include "copy/chunks.h"
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
	struct bl_chunks chunks;
	_Atomic uint32_t announced; /* generation of the message under way; 0: none yet */
	_Atomic uint32_t over;
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

/* The sender's side of one message, as help() in rndv_rx.c. */
static void send_one(struct stage *s, const struct share_row *row, uint32_t generation)
{
	uint32_t taken = 0, chunk;

	while ((chunk = bl_chunks_take(&s->chunks, generation, row->count, true)) !=
	       BL_CHUNKS_NONE) {
		if (taken++ == row->give_back) {
			bl_chunks_give_back(&s->chunks, chunk);
			return;
		}
		/* A message of `generation` can't end while we hold a chunk of it. */
		if (atomic_load(&s->announced) != generation)
			atomic_fetch_add(&s->sender_lost, 1);
		atomic_fetch_add_explicit(&s->by[chunk][1], 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&s->sender_total, 1, memory_order_relaxed);
		bl_chunks_count(&s->chunks);
	}
}

static void send_all(struct stage *s, const struct share_row *row)
{
	uint32_t last = 0, now;

	while (!atomic_load(&s->over)) {
		now = atomic_load(&s->announced);
		if (now == last || now % row->late) {
			sched_yield(); /* two cores may be busy with other tests */
			continue;
		}
		last = now;
		send_one(s, row, now);
	}
}

/* The receiver's side, as transfer_step() in rndv_rx.c. Why it failed, or NULL. */
static const char *receive_one(struct stage *s, const struct share_row *row, uint32_t generation,
			       uint64_t deadline)
{
	uint32_t mine = 0, done = 0, front = 0, end = 0, chunk;
	bool handed_out = false, got_back = false;

	for (uint32_t i = 0; i < row->count; i++)
		atomic_store(&s->by[i][0], 0), atomic_store(&s->by[i][1], 0);
	bl_chunks_start(&s->chunks, generation, row->count);
	atomic_store(&s->announced, generation);
	for (;;) {
		if (!handed_out && mine == row->stop_at) {
			bl_chunks_stop(&s->chunks, generation, row->count, &front, &end);
			handed_out = true;
			for (uint32_t i = front; i < end; i++, done++)
				atomic_fetch_add(&s->by[i][0], 1);
		}
		chunk = handed_out ? BL_CHUNKS_NONE
				   : bl_chunks_take(&s->chunks, generation, row->count, false);
		if (chunk != BL_CHUNKS_NONE) {
			atomic_fetch_add(&s->by[chunk][0], 1);
			mine++;
			done++;
		} else {
			handed_out = true;
		}
		chunk = bl_chunks_returned(&s->chunks);
		if (chunk != BL_CHUNKS_NONE && !got_back) {
			if (chunk >= front && chunk < end)
				return "a chunk came back that was never handed out";
			got_back = true;
			atomic_fetch_add(&s->by[chunk][0], 1);
			done++;
		}
		if (done + bl_chunks_counted(&s->chunks) > row->count)
			return "more chunks than the message has";
		if (done + bl_chunks_counted(&s->chunks) == row->count)
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
	atomic_store(&s->over, 1);
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

static void hands_meet(void **state)
{
	struct bl_chunks chunks;

	bl_chunks_start(&chunks, 1, 5);
	assert_int_equal(bl_chunks_take(&chunks, 1, 5, false), 0);
	assert_int_equal(bl_chunks_take(&chunks, 1, 5, true), 4);
	assert_int_equal(bl_chunks_take(&chunks, 1, 5, true), 3);
	assert_int_equal(bl_chunks_take(&chunks, 1, 5, false), 1);
	assert_int_equal(bl_chunks_take(&chunks, 1, 5, true), 2);
	assert_true(bl_chunks_take(&chunks, 1, 5, true) == BL_CHUNKS_NONE);
	assert_true(bl_chunks_take(&chunks, 1, 5, false) == BL_CHUNKS_NONE);
}

static void take_of_another_generation(void **state)
{
	struct bl_chunks chunks;

	bl_chunks_start(&chunks, 7, 4);
	for (int back = 0; back < 2; back++) {
		assert_true(bl_chunks_take(&chunks, 6, 4, back) == BL_CHUNKS_NONE);
		assert_true(bl_chunks_take(&chunks, 8, 4, back) == BL_CHUNKS_NONE);
	}
	assert_int_equal(bl_chunks_take(&chunks, 7, 4, false), 0); /* none of them took a chunk */
	assert_int_equal(bl_chunks_take(&chunks, 7, 4, true), 3);
}

struct stop_row {
	struct row row;
	uint32_t count, front, back; /* taken from either side before */
};

static const struct stop_row stops[] = {
	{{"none taken", "all is the stopper's"}, 3, 0, 0},
	{{"some from the front", "the rest begins behind them"}, 3, 2, 0},
	{{"some from the back", "the rest ends before them"}, 3, 0, 2},
	{{"from both sides", "the rest is in the middle"}, 4, 1, 2},
	{{"all taken", "nothing is left"}, 3, 2, 1},
	{{"most chunks", "the largest count that fits the word"}, BL_CHUNKS_MOST, 5, 6},
};

static void stop_tells_what_is_not_taken(void **state)
{
	const struct stop_row *row = TABLE_ROW(struct stop_row, state);
	uint32_t front, end;
	struct bl_chunks chunks;

	bl_chunks_start(&chunks, UINT32_MAX, row->count);
	for (uint32_t i = 0; i < row->front; i++)
		assert_int_equal(bl_chunks_take(&chunks, UINT32_MAX, row->count, false), i);
	for (uint32_t i = 0; i < row->back; i++)
		assert_int_equal(bl_chunks_take(&chunks, UINT32_MAX, row->count, true),
				 row->count - 1 - i);
	bl_chunks_stop(&chunks, UINT32_MAX, row->count, &front, &end);
	assert_int_equal(end - front, row->count - row->front - row->back);
	assert_true(front == end || front == row->front);
	assert_true(bl_chunks_take(&chunks, UINT32_MAX, row->count, false) == BL_CHUNKS_NONE);
	assert_true(bl_chunks_take(&chunks, UINT32_MAX, row->count, true) == BL_CHUNKS_NONE);
	bl_chunks_stop(&chunks, UINT32_MAX, row->count, &front, &end); /* again */
	assert_int_equal(front, end);
}

/* What a neighbour may have written into the word. */
struct word_row {
	struct row row;
	uint64_t word;
	bool believed;
};

#define OURS	  77u /* generation */
#define OUR_COUNT 10u

static const struct word_row words[] = {
	{{"as started", "all is left"}, (uint64_t)OURS << 32 | 10 << 16, true},
	{{"one left", "the last chunk"}, (uint64_t)OURS << 32 | 10 << 16 | 9, true},
	{{"none left", "front meets end"}, (uint64_t)OURS << 32 | 10 << 16 | 10, false},
	{{"end beyond count", "a chunk that doesn't exist"},
	 (uint64_t)OURS << 32 | 11 << 16,
	 false},
	{{"largest end", "65535 of 10 chunks"}, (uint64_t)OURS << 32 | 0xffff0000u, false},
	{{"front behind end", "they have crossed"}, (uint64_t)OURS << 32 | 3 << 16 | 7, false},
	{{"another generation", "of another message"},
	 (uint64_t)(OURS + 1) << 32 | 10 << 16,
	 false},
	{{"all ones", "nothing fits"}, UINT64_MAX, false},
	{{"zero", "a word that was never started"}, 0, false},
};

static void word_is_checked(void **state)
{
	const struct word_row *row = TABLE_ROW(struct word_row, state);

	for (int back = 0; back < 2; back++) {
		struct bl_chunks chunks;
		uint32_t chunk, front, end;

		bl_chunks_start(&chunks, OURS, OUR_COUNT);
		atomic_store(&chunks.left, row->word);
		chunk = bl_chunks_take(&chunks, OURS, OUR_COUNT, back);
		assert_int_equal(chunk != BL_CHUNKS_NONE, row->believed);
		if (row->believed)
			assert_in_range(chunk, 0, OUR_COUNT - 1);
		atomic_store(&chunks.left, row->word);
		bl_chunks_stop(&chunks, OURS, OUR_COUNT, &front, &end);
		assert_true(front <= end && end <= OUR_COUNT);
		assert_int_equal(front != end, row->believed);
	}
}

static void start_forgets_the_last_message(void **state)
{
	uint32_t front, end;
	struct bl_chunks chunks;

	bl_chunks_start(&chunks, 1, 5);
	bl_chunks_count(&chunks);
	bl_chunks_give_back(&chunks, 0);
	assert_int_equal(bl_chunks_counted(&chunks), 1);
	assert_int_equal(bl_chunks_returned(&chunks), 0);
	bl_chunks_stop(&chunks, 1, 5, &front, &end);
	bl_chunks_start(&chunks, 2, 5);
	assert_int_equal(bl_chunks_counted(&chunks), 0);
	assert_true(bl_chunks_returned(&chunks) == BL_CHUNKS_NONE);
	assert_int_equal(bl_chunks_take(&chunks, 2, 5, false), 0);
}

int main(void)
{
	TABLE_TEST(hands_meet);
	TABLE_TEST(take_of_another_generation);
	TABLE_ROWS("stop", stop_tells_what_is_not_taken, stops);
	TABLE_ROWS("word", word_is_checked, words);
	TABLE_TEST(start_forgets_the_last_message);
	TABLE_ROWS("threads", two_threads, rows);
	TABLE_ROWS("processes", two_processes, rows);
	return table_run("chunks");
}
