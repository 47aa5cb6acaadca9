/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lock_test.c: the lock of a domain (base/lock.h): it keeps threads apart, and nobody who drops it
 * and takes it again at once keeps it from others.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/lock.h"
#include "unit/table.h"

#define THREADS 4
#define TIMES	20000

static struct bl_lock lock;
static uint64_t plain; /* guarded by it */

static void *count(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		bl_lock_take(&lock);
		plain++;
		bl_lock_drop(&lock);
	}
	return NULL;
}

static void nothing_is_lost(void **state)
{
	pthread_t thread[THREADS];

	plain = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(plain, THREADS * TIMES);
	assert_int_equal(lock.held, 0);
	assert_int_equal(lock.wanted, 0); /* nobody gives way to nobody */
}

/* --- one that polls ---------------------------------------------------------- */

#define ROUNDS 200
#define HELD   200
#define MANY   100 /* a slice of a core's time has room for a hundred thousand */

static _Atomic bool over;
static _Atomic uint64_t taken; /* by the one that polls */

static void *poll_for_ever(void *arg)
{
	while (!atomic_load(&over)) {
		bl_lock_take(&lock);
		atomic_fetch_add(&taken, 1);
		for (int i = 0; i < HELD; i++) /* mostly it is descheduled while it has the lock */
			bl_cpu_relax();
		bl_lock_drop(&lock);
	}
	return NULL;
}

/* How often the other takes it, from when this thread wants it until it has it. On one core: there
 * who waits can't look on while the other goes on. */
static void who_waits_gets_it(void **state)
{
	unsigned short_waits = 0;
	cpu_set_t before, one;
	pthread_t thread;

	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &before))
			CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, poll_for_ever, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t from;

		/* It has the lock, or is between two of its turns. */
		for (from = atomic_load(&taken); atomic_load(&taken) == from;)
			sched_yield();
		from = atomic_load(&taken);
		bl_lock_take(&lock);
		short_waits += atomic_load(&taken) - from <= MANY;
		bl_lock_drop(&lock);
	}
	atomic_store(&over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
	print_message("             %u of %u times after less than %d turns of the other\n",
		      short_waits, ROUNDS, MANY);
	assert_true(short_waits > ROUNDS / 4);
}

int main(void)
{
	TABLE_TEST(nothing_is_lost);
	TABLE_TEST(who_waits_gets_it);
	return table_run("lock");
}
