/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * traffic.h: what the ranks of a fault test do meanwhile: each keeps some sends
 * and some receives under way with every other, and checks every byte. An error
 * of any operation with a rank other than the victim is a failure.
 */
#ifndef BL_TESTS_FAULT_TRAFFIC_H
#define BL_TESTS_FAULT_TRAFFIC_H

#include "fault/world.h"

struct traffic {
	int rank, count;
	int victim;	    /* the rank whose death is expected; -1: nobody's */
	bool copybuf;	    /* a message goes once the other's last but one has come */
	bool mad;	    /* the victim may say and do anything before it dies */
	size_t least, most; /* bytes of a message, random in between */
	uint64_t after;	    /* messages between survivors once the death has been noticed */
	uint64_t limit;	    /* messages to receive from each before it ends by itself; 0: none */
	void (*each)(uint64_t received); /* called after each message; may be NULL */
};

/*
 * Runs until the death has been noticed and `after` more messages have come,
 * until `limit`, or until world->stop. Ends in step with the others: nothing is
 * under way when it returns.
 */
void traffic_run(const struct traffic *traffic);

#endif
