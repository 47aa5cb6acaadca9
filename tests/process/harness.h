/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * harness.h: named test cases, each run by several real processes.
 *
 * The parent forks the processes of one case, passes their messages around (a
 * barrier is an exchange of nothing), watches the clock and prints one line:
 *
 *	ok NAME
 *	not ok NAME: rank 1: file.c:12: what was wrong
 *	skip NAME: why
 *
 * The parent never calls the library under test, so each case starts clean. A
 * process that dies, fails or is late ends its whole case; what each process was
 * doing (T_AT) is part of the message. Nothing here is shared between processes
 * but one page of text per process, which only its owner writes.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define T_PROC_MAX 16

struct t_case {
	const char *name;
	int nproc;
	void (*run)(void);
	const char *why; /* what breaks if this fails */
	int seconds;	 /* deadline; 0: the usual one */
};

struct t_group {
	const char *name;
	const struct t_case *cases;
	size_t ncases;
};
#define T_GROUP(name, cases)                                                                       \
	{                                                                                          \
		name, cases, sizeof(cases) / sizeof((cases)[0])                                    \
	}

/* What a process knows of itself; set before its case runs. */
extern int t_rank;
extern int t_nproc;
extern const char *t_provider;
extern bool t_beeline; /* the provider is ours: what it lacks is a failure, not a skip */

/* Runs the cases that the arguments select; returns the exit status. */
int t_main(int argc, char **argv, const struct t_group *groups, size_t ngroups);

/* Each ends this process, and with it the case. Any thread may call them. */
_Noreturn void t_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void t_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The provider lacks what the case is about: a skip for others, a failure for ours. */
_Noreturn void t_lacks(const char *what);
/* Says what this process is doing, for the message of a missed deadline. */
void t_at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define T_FAIL(...) t_fail(__FILE__, __LINE__, __VA_ARGS__)
#define T_CHECK(cond, ...)                                                                         \
	do {                                                                                       \
		if (!(cond))                                                                       \
			t_fail(__FILE__, __LINE__, __VA_ARGS__);                                   \
	} while (0)
#define T_EQ(a, b)                                                                                 \
	do {                                                                                       \
		unsigned long long a_ = (unsigned long long)(a), b_ = (unsigned long long)(b);     \
		T_CHECK(a_ == b_, "%s is %llu (0x%llx), not %s = %llu (0x%llx)", #a, a_, a_, #b,   \
			b_, b_);                                                                   \
	} while (0)

/*
 * Every process gives len bytes and gets those of all, in rank order. All must
 * call it, with the same len. While it waits it calls `progress`, which may be
 * NULL and returns whether it did anything.
 */
void t_allgather(const void *mine, size_t len, void *all, bool (*progress)(void));
void t_barrier_with(bool (*progress)(void));

/* Deterministic random numbers: the same for the same seed, rank by rank. */
struct t_rng {
	uint64_t s;
};
void t_rng_init(struct t_rng *rng, uint64_t stream);
uint64_t t_rand(struct t_rng *rng);
uint64_t t_rand_below(struct t_rng *rng, uint64_t n);
/* The seed of this run of the case: -s, and one more for each repetition (-r). */
uint64_t t_seed(void);
void t_shuffle(struct t_rng *rng, int *items, int n);

/* Scales a count by how thorough this run is (1 by default, more with -x). */
int t_scaled(int n);

#endif
