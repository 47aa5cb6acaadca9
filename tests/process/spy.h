/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * spy.h: what a thread does besides computing: which memory it asks for and which system calls it
 * makes, each of them, between spy_begin() and spy_end().
 *
 * Memory: the program's malloc and its likes come before libc's, for each library in the process.
 * Calls: a seccomp filter has the kernel ask, for each call of the one thread, a second thread of
 * ours, which writes it down and lets it go on. The filter stays until the process ends, and
 * threads that the first begins have it, too: begin them before. No sanitizer has room for either.
 */
#ifndef TESTS_SPY_H
#define TESTS_SPY_H

#include <stddef.h>

#define SPY_TEXT 200

/* What was seen, and of the first ones what they were. */
struct spy_report {
	unsigned long allocations, calls;
	char allocation[SPY_TEXT], call[SPY_TEXT];
};

/* For the calling thread. NULL, or why calls can't be counted here: only allocations are. */
const char *spy_open(void);
void spy_begin(void);
/* Adds to what the report says. */
void spy_end(struct spy_report *report);

#endif
