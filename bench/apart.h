/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * apart.h: how far apart two pinned processes are: nanoseconds that a cache line takes from one to
 * the other. Beneath a virtual machine its processors move, and what was 80 ns can be 290 a second
 * later, which is more than most of what is compared; so every sample says it, and the command
 * compares what was measured at the same distance. Header only, as bench.h is.
 */
#ifndef BL_BENCH_APART_H
#define BL_BENCH_APART_H

#include <stdatomic.h>
#include <sys/mman.h>

#include "bench.h"

#define APART_BATCHES 4
#define APART_ROUNDS  40
#define APART_MOST_NS 2e9 /* the other one doesn't come */

struct apart_line {
	_Alignas(128) _Atomic uint32_t turn;
	unsigned char pad[124];
};

struct apart {
	struct apart_line *line; /* shared by both, zero at first; NULL: there is none */
	bool first;
	uint32_t turn;
};

/* Before the fork. */
static inline struct apart_line *apart_map(void)
{
	void *line = mmap(NULL, sizeof(struct apart_line), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return line == MAP_FAILED ? NULL : line;
}

static inline bool apart_wait(struct apart *apart, uint32_t turn)
{
	double until = 0;

	for (unsigned i = 1; atomic_load_explicit(&apart->line->turn, memory_order_acquire) != turn;
	     i++) {
		if (i % 65536)
			continue;
		if (!until)
			until = bench_now() + APART_MOST_NS;
		else if (bench_now() > until)
			return false;
	}
	return true;
}

/* There and back; false: the other one isn't there. */
static inline bool apart_round(struct apart *apart)
{
	uint32_t ping = apart->turn + 1, pong = apart->turn + 2;

	apart->turn = pong;
	if (apart->first) {
		atomic_store_explicit(&apart->line->turn, ping, memory_order_release);
		return apart_wait(apart, pong);
	}
	if (!apart_wait(apart, ping))
		return false;
	atomic_store_explicit(&apart->line->turn, pong, memory_order_release);
	return true;
}

/* Both call it as often; nanoseconds one way, the least of some batches; 0: not known. */
static inline double apart_ns(struct apart *apart)
{
	double least = 0;

	for (int batch = 0; apart->line && batch < APART_BATCHES; batch++) {
		double start = bench_now(), ns;

		for (int i = 0; apart->line && i < APART_ROUNDS; i++)
			if (!apart_round(apart))
				apart->line = NULL;
		ns = (bench_now() - start) / APART_ROUNDS / 2;
		if (apart->line && (!least || ns < least))
			least = ns;
	}
	return apart->line ? least : 0;
}

/* As bench_sample(); the medians of what was measured and of the distances meanwhile. */
static inline void apart_sample(const char *test, size_t size, double *ns, double *apart, int count)
{
	printf("sample %s %zu %.2f %.1f\n", test, size, bench_median(ns, count),
	       bench_median(apart, count));
	fflush(stdout);
}

#endif
