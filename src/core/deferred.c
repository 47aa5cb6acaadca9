/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deferred.c: see deferred.h. Serialised by the domain.
 */
#include "core/deferred.h"

#include <stdlib.h>

#include "core/comp.h"
#include "core/ep.h"

void bl_work_unlink(struct bl_work *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
}

/* All endpoints look after the domain's work, or none does. */
void bl_work_attend(struct bl_ep *ep, bool on)
{
	if (ep->duty.attends == on)
		return;
	ep->duty.attends = on;
	ep->work += on ? 1u : (uint32_t)-1;
}

void bl_work_count(struct bl_domain *domain, bool more)
{
	domain->works += more ? 1u : (uint32_t)-1;
	if (domain->works == more) /* the first, or the last */
		for (struct bl_ep *ep = domain->eps; ep; ep = ep->next_in_domain)
			bl_work_attend(ep, more);
}

void bl_work_hold(const struct bl_work *w, bool on)
{
	struct bl_cntr *held[] = {w->trigger, w->done, w->target};

	for (size_t i = 0; i < bl_countof(held); i++)
		if (held[i])
			held[i]->users += on ? 1u : (uint32_t)-1;
}

static void disown(struct bl_work *w)
{
	free(w->more);
	w->more = NULL;
}

/* It is in no list. */
void bl_work_end(struct bl_work *w)
{
	bl_work_hold(w, false);
	bl_work_count(w->trigger->domain, false);
	disown(w);
	free(w);
}

void bl_work_over(struct bl_work *w, int err)
{
	if (w->done && !err)
		bl_cntr_up(w->done);
	else if (w->done)
		bl_cntr_error(w->done);
	bl_work_taken_back(w);
}

void bl_work_taken_back(struct bl_work *w)
{
	bl_work_unlink(w);
	bl_work_end(w);
}
