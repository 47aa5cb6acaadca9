/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * refused.c: see refused.h. Few threads wait for the same, so a list does. One whose operation goes
 * through without its asking stays in it, and so does one that ends: it is told once, for nothing,
 * or, if it seems to sleep, a few times.
 */
#include "core/refused.h"

#include <stdlib.h>

#include "base/clock.h"

#define WAKES_US 20000 /* so long a thread may take to wake, ... */
#define WAKES	 8     /* ... so often; then it isn't there any more */

/* This thread's place, or n. */
static uint32_t find(struct bl_refusals *r)
{
	uint32_t i = 0;

	while (i < r->n && !pthread_equal(bl_refusal_at(r, i)->thread, pthread_self()))
		i++;
	return i;
}

static bool make_room(struct bl_refusals *r)
{
	uint32_t room = r->room ? 2 * r->room : BL_REFUSED_FEW;
	struct bl_refused_thread *more;

	if (r->n < BL_REFUSED_FEW + r->room)
		return true;
	more = realloc(r->more, room * sizeof *more);
	if (!more)
		return false;
	r->more = more;
	r->room = room;
	return true;
}

void bl_refusal_add(struct bl_refusals *r)
{
	uint32_t i = find(r);

	if (i == r->n && !make_room(r)) {
		r->lost = true;
		return;
	}
	r->n += i == r->n;
	/* One that was told has tried again, in vain. */
	*bl_refusal_at(r, i) = (struct bl_refused_thread){.thread = pthread_self()};
	r->last = i + 1;
}

static bool is_new(uint64_t at, uint64_t now)
{
	return now - at <= WAKES_US * bl_ticks_per_us();
}

void bl_refusal_tell(struct bl_refusals *r)
{
	uint64_t now = bl_ticks();

	for (uint32_t i = 0; i < r->n; i++) {
		struct bl_refused_thread *t = bl_refusal_at(r, i);

		if (t->told && (!t->sleeps || t->told_so == WAKES || is_new(t->told_at, now)))
			continue;
		t->told = true;
		t->told_so++;
		t->told_at = now;
	}
	r->last = 0;
	if (r->lost)
		r->lost_at = now;
	r->lost = false;
}

bool bl_refusal_take(struct bl_refusals *r)
{
	uint32_t i = find(r);

	if (likely(i == r->n || !bl_refusal_at(r, i)->told))
		return r->lost || (r->lost_at && is_new(r->lost_at, bl_ticks()));
	*bl_refusal_at(r, i) = *bl_refusal_at(r, --r->n);
	r->last = 0;
	return true;
}

void bl_refusal_sleeps(struct bl_refusals *r)
{
	uint32_t i = find(r);

	if (i < r->n)
		bl_refusal_at(r, i)->sleeps = true;
}

bool bl_refusal_wakes(struct bl_refusals *r)
{
	uint32_t self;

	if (likely(!r->n))
		return false;
	self = find(r);
	for (uint32_t i = 0; i < r->n; i++) {
		const struct bl_refused_thread *t = bl_refusal_at(r, i);

		if (i != self && t->told && t->sleeps && is_new(t->told_at, bl_ticks()))
			return true;
	}
	return false;
}

bool bl_refusal_of_others(struct bl_refusals *r)
{
	uint32_t self = find(r);

	for (uint32_t i = 0; i < r->n; i++) {
		const struct bl_refused_thread *t = bl_refusal_at(r, i);

		if (i != self && (!t->told || (t->sleeps && t->told_so < WAKES)))
			return true;
	}
	return r->lost;
}

void bl_refusal_fini(struct bl_refusals *r)
{
	free(r->more);
	*r = (struct bl_refusals){0};
}
