/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * at_work.h: for tests of pair.h whose receiver is to seem at work when the sender asks, however
 * slow this machine is (under ThreadSanitizer a send takes longer than that lasts). The program
 * wraps bl_gives_room().
 */
#ifndef BL_TESTS_UNIT_AT_WORK_H
#define BL_TESTS_UNIT_AT_WORK_H

#include "unit/pair.h"

static bool at_work; /* and not for long with one thing */

bool __real_bl_gives_room(const struct bl_peer *peer);
bool __wrap_bl_gives_room(const struct bl_peer *peer);
bool __wrap_bl_gives_room(const struct bl_peer *peer)
{
	uint64_t soon = 50 * bl_ticks_per_us(), asked;
	bool gives;

	if (!at_work)
		return __real_bl_gives_room(peer);
	do { /* again if this process lost its processor meanwhile */
		asked = bl_ticks();
		bl_presence_active(receiver, asked + soon);
		gives = __real_bl_gives_room(peer);
	} while (!gives && bl_ticks() - asked > soon);
	return gives;
}

static inline int send_at_work(const struct bl_send *send)
{
	int err;

	at_work = true;
	err = bl_send(sender, send);
	at_work = false;
	return err;
}

#endif
