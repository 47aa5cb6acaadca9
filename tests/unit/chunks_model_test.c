/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * chunks_model_test.c: every order in which a sender's and a receiver's steps on
 * a shared descriptor can happen, for small messages. The functions of
 * copy/chunks.h are compiled here with atomic operations that first hand over to
 * a scheduler; sender and receiver are coroutines of one thread, and the
 * scheduler tries each choice at each step, depth first, by running everything
 * anew with the next sequence of choices.
 *
 * What this shows: no order of atomic steps makes two hands copy one chunk, or
 * leaves one out. What it doesn't: memory order; the atomics here are
 * sequentially consistent by nature (chunks_test.c and ThreadSanitizer look there).
 */
#undef _FORTIFY_SOURCE /* its longjmp refuses to change stacks */
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

static void step(void);

#ifdef __clang__
#define LOAD(p, order)		 __c11_atomic_load(p, order)
#define STORE(p, v, order)	 __c11_atomic_store(p, v, order)
#define EXCHANGE(p, v, order)	 __c11_atomic_exchange(p, v, order)
#define SWAP(p, old, v, yes, no) __c11_atomic_compare_exchange_strong(p, old, v, yes, no)
#else
#define LOAD(p, order)		 __atomic_load_n(p, order)
#define STORE(p, v, order)	 __atomic_store_n(p, v, order)
#define EXCHANGE(p, v, order)	 __atomic_exchange_n(p, v, order)
#define SWAP(p, old, v, yes, no) __atomic_compare_exchange_n(p, old, v, 0, yes, no)
#endif

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_weak_explicit
/* A relaxed load reads back what only the same process writes: no step. */
#define atomic_load_explicit(p, order)                                                             \
	((order) == memory_order_relaxed ? (void)0 : step(), LOAD(p, order))
#define atomic_store_explicit(p, v, order)			  (step(), STORE(p, v, order))
#define atomic_exchange_explicit(p, v, order)			  (step(), EXCHANGE(p, v, order))
#define atomic_compare_exchange_weak_explicit(p, old, v, yes, no) (step(), SWAP(p, old, v, yes, no))

#include "base/compiler.h"
#include "copy/chunks.h"
#include "unit/table.h"

#define NEVER	    UINT32_MAX
#define DEEPEST	    256
#define STACK	    (64 * 1024)
#define CHUNKS_MOST 4

struct model_row {
	struct row row;
	uint32_t count;	    /* chunks of each message */
	uint32_t messages;  /* through the same descriptor */
	uint32_t stop_at;   /* the receiver stops after so many chunks of its own */
	uint32_t give_back; /* the sender fails at its n-th chunk of a message */
	bool deaf;	    /* the sender still works on message 1 when the others are under way */
};

static const struct model_row rows[] = {
	{{"1 chunk", "both want it"}, 1, 1, NEVER, NEVER, false},
	{{"2 chunks", "one each, or both by one"}, 2, 1, NEVER, NEVER, false},
	{{"3 chunks", "uneven shares"}, 3, 1, NEVER, NEVER, false},
	{{"stop at once", "every moment of a take meets the stop"}, 2, 1, 0, NEVER, false},
	{{"stop after one", "chunks before and after the stop"}, 3, 1, 1, NEVER, false},
	{{"give back first", "the returned chunk is the receiver's"}, 2, 1, NEVER, 0, false},
	{{"give back second", "one counted, one returned"}, 3, 1, NEVER, 1, false},
	{{"stop and give back", "returned after nobody takes any more"}, 2, 1, 0, 0, false},
	{{"stop, give back later", "a counted, a returned and a stopped chunk"}, 3, 1, 1, 1, false},
	{{"descriptor used again", "a sender late for message 1 sees message 2"},
	 1,
	 2,
	 NEVER,
	 NEVER,
	 true},
	{{"used again, two chunks", "it may hold a chunk of message 1 when it is slow"},
	 2,
	 2,
	 NEVER,
	 NEVER,
	 true},
	{{"used again after a stop", "its compare-and-swap must fail"}, 1, 2, 0, NEVER, true},
};

/* --- the scheduler ------------------------------------------------------- */

/* swapcontext() begins a coroutine; from then on _setjmp() and _longjmp() switch,
 * because they make no system call. */
static ucontext_t scheduler_context, worker_context[2];
static jmp_buf scheduler, worker[2];
static bool begun[2];
static char stack[2][STACK];
static int running; /* which worker */
static bool finished[2];
static bool waiting[2]; /* in a loop that only the other one's steps can end */
static unsigned steps[2];

static void step(void)
{
	if (!_setjmp(worker[running]))
		_longjmp(scheduler, 1);
}

/* One step of the worker who runs. */
static void resume(void)
{
	if (_setjmp(scheduler))
		return;
	if (begun[running])
		_longjmp(worker[running], 1);
	begun[running] = true;
	swapcontext(&scheduler_context, &worker_context[running]);
}

/* A worker has looked, since the other's step `seen`, and found nothing to do:
 * it need not look again before the other has made a step. Keeps the number of
 * orders finite. */
static void wait_for_other(unsigned seen)
{
	waiting[running] = seen == steps[!running];
	step();
}

/* --- sender and receiver -------------------------------------------------- */

static struct {
	const struct model_row *row;
	struct bl_chunks chunks;
	uint32_t told;		     /* the message that the sender has been told of */
	uint32_t over;		     /* messages that are complete */
	uint32_t by[3][CHUNKS_MOST]; /* [message][chunk]: times copied */
	const char *wrong;
} model;

static void copied(uint32_t message, uint32_t chunk)
{
	if (message <= model.over)
		model.wrong = "a chunk was copied after its message was over";
	if (chunk >= model.row->count || ++model.by[message][chunk] > 1)
		model.wrong = "a chunk was copied twice";
}

static void send_one(uint32_t message)
{
	uint32_t taken = 0, chunk;

	while ((chunk = bl_chunks_take(&model.chunks, message, model.row->count, true)) !=
	       BL_CHUNKS_NONE) {
		if (taken++ == model.row->give_back) {
			bl_chunks_give_back(&model.chunks, chunk);
			return;
		}
		copied(message, chunk);
		bl_chunks_count(&model.chunks);
	}
}

static void sender(void)
{
	uint32_t messages = model.row->deaf ? 1 : model.row->messages;

	for (uint32_t m = 1; m <= messages; m++) {
		while (model.told < m)
			wait_for_other(steps[1]);
		send_one(m);
	}
	finished[0] = true;
	for (;;)
		step();
}

static void receive_one(uint32_t message)
{
	uint32_t count = model.row->count, mine = 0, done = 0, chunk;
	bool handed_out = false, got_back = false;

	bl_chunks_start(&model.chunks, message, count);
	model.told = message;
	while (!model.wrong) {
		unsigned seen = steps[0];

		if (!handed_out && mine == model.row->stop_at) {
			uint32_t front, end;

			bl_chunks_stop(&model.chunks, message, count, &front, &end);
			handed_out = true;
			for (; front < end; front++, done++)
				copied(message, front);
		}
		chunk = handed_out ? BL_CHUNKS_NONE
				   : bl_chunks_take(&model.chunks, message, count, false);
		if (chunk != BL_CHUNKS_NONE) {
			copied(message, chunk);
			mine++;
			done++;
			continue;
		}
		handed_out = true;
		uint32_t counted = bl_chunks_counted(&model.chunks);
		chunk = bl_chunks_returned(&model.chunks);
		if (chunk != BL_CHUNKS_NONE && !got_back) {
			got_back = true;
			copied(message, chunk);
			done++;
		}
		if (done + counted > count)
			model.wrong = "more chunks than the message has";
		if (done + counted >= count)
			break;
		wait_for_other(seen);
	}
	for (uint32_t i = 0; i < count && !model.wrong; i++)
		if (model.by[message][i] != 1)
			model.wrong = "the message is over and a chunk is missing";
	model.over = message;
}

static void receiver(void)
{
	for (uint32_t m = 1; m <= model.row->messages; m++)
		receive_one(m);
	finished[1] = true;
	for (;;)
		step();
}

/* --- all orders ----------------------------------------------------------- */

static void start(int who, void (*run)(void))
{
	getcontext(&worker_context[who]);
	worker_context[who].uc_stack.ss_sp = stack[who];
	worker_context[who].uc_stack.ss_size = STACK;
	worker_context[who].uc_link = NULL; /* neither returns */
	makecontext(&worker_context[who], run, 0);
	begun[who] = finished[who] = waiting[who] = false;
	steps[who] = 0;
}

/* One run by `choice`; beyond it, always the first. Records how many choices
 * there were at each step; returns the number of steps, 0: it did not end. */
static int run_once(const struct model_row *row, const uint8_t *choice, int cts_all,
		    uint8_t *options)
{
	int depth = 0;

	memset(&model, 0, sizeof model);
	model.row = row;
	start(0, sender);
	start(1, receiver);
	while (!finished[1] && !model.wrong) {
		bool can[2] = {!finished[0] && !waiting[0], !finished[1] && !waiting[1]};
		int pick;

		if (depth == DEEPEST || (!can[0] && !can[1]))
			return 0;
		options[depth] = can[0] && can[1] ? 2 : 1;
		pick = depth < cts_all ? choice[depth] : 0;
		running = can[0] && can[1] ? pick : can[1];
		depth++;
		waiting[!running] = false;
		steps[running]++;
		resume();
	}
	/* A sender that is late must still be able to finish, and take nothing. */
	for (int i = 0; i < DEEPEST && !finished[0] && !model.wrong; i++) {
		running = 0;
		resume();
	}
	return depth;
}

static void all_orders(void **state)
{
	const struct model_row *row = TABLE_ROW(struct model_row, state);
	uint8_t choice[DEEPEST] = {0}, options[DEEPEST];
	unsigned long orders = 0;
	int depth = 0;

	for (;;) {
		int length = run_once(row, choice, depth, options);

		orders++;
		if (!length)
			fail_msg("order %lu: neither can go on", orders);
		if (model.wrong)
			fail_msg("order %lu: %s", orders, model.wrong);
		for (int i = depth; i < length; i++)
			choice[i] = 0;
		for (depth = length; depth && choice[depth - 1] + 1 >= options[depth - 1]; depth--)
			;
		if (!depth)
			break;
		choice[depth - 1]++;
	}
	print_message("             %lu orders\n", orders);
	assert_true(orders > 10);
}

int main(void)
{
	TABLE_ROWS("all orders", all_orders, rows);
	return table_run("chunks_model");
}
