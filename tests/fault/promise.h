/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * promise.h: whether the survivors' operations with a dead rank ended within the 100 ms
 * that are promised (PROMISED_NS), on a machine that may be busy with other things.
 *
 * The clock runs from the moment at which the kernel says that the process has ended, to
 * the moment at which the survivor holds the last error. Taken off is what the machine kept
 * it waiting: how long that survivor's threads were ready to run and had no core (the kernel
 * counts that in /proc/PID/task/TID/schedstat), and while any core stood still, as the host
 * of a virtual machine may have it: a process on each does nothing but sleep for a
 * millisecond at a time, and sees when it oversleeps. What the survivors themselves sleep,
 * wait for or compute is not taken off.
 */
#ifndef BL_TESTS_FAULT_PROMISE_H
#define BL_TESTS_FAULT_PROMISE_H

#include "fault/world.h"

/* --- test program ------------------------------------------------------------ */

/* Before the ranks are started: begin to watch the machine. */
void promise_watch(void);
/* The victim's process has ended, or is another program now: the clock runs. */
void promise_died(int victim);
/* The same, as soon as it has ended; it is left to be waited for. */
void promise_await_death(int victim);
/* ns from the death to when this rank was done with it, less what the machine took; 0: it
 * was before. Only of ranks that have called promise_noticed(). */
uint64_t promise_late(int rank);
/* Fails if the worst of all, in ns, is more than is promised. */
void promise_judge(uint64_t latest);
/* False: this kernel doesn't count how long threads wait for a core. */
bool promise_can_be_judged(void);

/* --- rank ------------------------------------------------------------------------ */

/* Nothing with the victim is left. */
void promise_noticed(int rank);

#endif
