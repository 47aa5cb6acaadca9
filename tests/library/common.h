/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * common.h: what every case of the library's tests begins with: an endpoint in
 * each process, the others as its peers (peer number = rank), and bytes that
 * tell where they belong. Each process owns its own copy of everything.
 */
#ifndef TESTS_LIBRARY_COMMON_H
#define TESTS_LIBRARY_COMMON_H

#include <beeline.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../process/harness.h"

extern struct beeline_endpoint *ep; /* this process's, between enter_world and leave_world */

#define L_MAX (5u << 20) /* bytes in the longest message of any case */

/* Open, exchange addresses, add all (oneself, too) in rank order. */
void enter_world(unsigned flags);
void leave_world(void);	    /* waits for everybody, then closes */
void barrier(void);	    /* makes progress while it waits */
void barrier_outside(void); /* doesn't */

bool move(void); /* progress, for t_allgather */

/* Zeroed memory, to be freed; filled; compared with what was filled. */
unsigned char *bytes_new(size_t len);
void bytes_fill(unsigned char *buf, size_t len, unsigned seed);
void bytes_check(const char *what, const unsigned char *buf, size_t len, unsigned seed);

/* The call must succeed. */
#define L_OK(call)                                                                                 \
	do {                                                                                       \
		int err_ = (call);                                                                 \
		T_CHECK(err_ == 0, "%s: %d (%s)", #call, err_, beeline_strerror(err_));            \
	} while (0)
/* The call must return this. */
#define L_IS(call, want)                                                                           \
	do {                                                                                       \
		int got_ = (call), want_ = (want);                                                 \
		T_CHECK(got_ == want_, "%s: %d (%s), not %d (%s)", #call, got_,                    \
			beeline_strerror(got_), want_, beeline_strerror(want_));                   \
	} while (0)

void status_check(const char *what, const struct beeline_status *s, int source, uint32_t tag,
		  uint32_t context, size_t length);

extern const struct t_group group_basic, group_match, group_flow, group_probe, group_thread,
	group_death, group_connect;

#endif
