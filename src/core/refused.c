/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * refused.c: see refused.h. Few threads wait for the same, so a list does. One whose operation goes
 * through later, without its asking, stays in it and is told once for nothing; so is another that
 * gets the number of one that has ended.
 */
#include "core/refused.h"

#include <stdlib.h>

#define FEW 4u

static uint32_t find(const struct bl_refusals *r)
{
	uint32_t i = 0;

	while (i < r->n && !pthread_equal(r->of[i].thread, pthread_self()))
		i++;
	return i;
}

static bool make_room(struct bl_refusals *r)
{
	uint32_t room = r->room ? 2 * r->room : FEW;
	struct bl_refused_thread *more = realloc(r->of, room * sizeof *more);

	if (!more)
		return false;
	r->of = more;
	r->room = room;
	return true;
}

void bl_refusal_add(struct bl_refusals *r)
{
	uint32_t i = find(r);

	if (i == r->room && !make_room(r)) {
		r->lost = true;
		return;
	}
	if (i == r->n)
		r->of[r->n++].thread = pthread_self();
	r->of[i].told = false; /* it has tried again, in vain */
	r->last = i + 1;
}

void bl_refusal_tell(struct bl_refusals *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		r->of[i].told = true;
	r->last = 0;
}

bool bl_refusal_take(struct bl_refusals *r)
{
	uint32_t i = find(r);

	if (i == r->n || !r->of[i].told)
		return r->lost;
	r->of[i] = r->of[--r->n];
	r->last = 0;
	return true;
}

bool bl_refusal_of_others(const struct bl_refusals *r)
{
	return r->lost || r->n > (find(r) < r->n);
}

void bl_refusal_fini(struct bl_refusals *r)
{
	free(r->of);
	*r = (struct bl_refusals){0};
}
