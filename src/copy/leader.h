/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * leader.h: a process whose main thread has ended by pthread_exit() lives on as its other
 * threads, but its number names no memory any more: process_vm_readv and process_vm_writev say
 * that there is no such process, as they do of one that dies. Any thread.
 */
#ifndef BL_COPY_LEADER_H
#define BL_COPY_LEADER_H

#include <stdbool.h>
#include <sys/types.h>

/* After -ESRCH: whether that is why. Takes a millisecond if it is. */
bool bl_lacks_leader(pid_t pid);

#endif
