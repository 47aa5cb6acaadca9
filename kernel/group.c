// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Groups of open files, for BEELINE_SCOPE_GROUP: a set of processes (an MPI job, say) whose
 * handles are worth nothing outside it.
 *
 * A file enters at most one group, once, and leaves when it is released. Groups are few and
 * entered once per process: a list under a mutex serves. The copy path only compares addresses.
 */
#include <linux/mutex.h>
#include <linux/slab.h>

#include "internal.h"

static DEFINE_MUTEX(bl_group_lock);
static LIST_HEAD(bl_groups);

/* The group named by token, or with the zero token a new one. */
static struct bl_group *bl_group_find(const struct beeline_handle *token)
{
	struct bl_group *g;

	lockdep_assert_held(&bl_group_lock);
	if (!bl_handle_is_zero(token)) {
		list_for_each_entry(g, &bl_groups, link)
			if (bl_handle_equal(&g->token, token))
				return g;
		return ERR_PTR(-ENOENT);
	}
	g = kzalloc(sizeof(*g), GFP_KERNEL_ACCOUNT);
	if (!g)
		return ERR_PTR(-ENOMEM);
	bl_handle_make(&g->token);
	list_add(&g->link, &bl_groups);
	return g;
}

int bl_group_enter(struct bl_file *f, struct beeline_group *req)
{
	struct bl_group *g;
	int ret = 0;

	if (req->flags || req->reserved)
		return -EINVAL;
	mutex_lock(&bl_group_lock);
	if (f->group) {
		/* For whoever lost the answer the first time: it is the file's own secret. */
		req->token = f->group->token;
		ret = -EBUSY;
		goto unlock;
	}
	g = bl_group_find(&req->token);
	if (IS_ERR(g)) {
		ret = PTR_ERR(g);
		goto unlock;
	}
	g->files++;
	req->token = g->token;
	/* Pairs with the smp_load_acquire() in bl_file_group(). */
	smp_store_release(&f->group, g);
unlock:
	mutex_unlock(&bl_group_lock);
	return ret;
}

/* At the last close, when the file's exports are gone. */
void bl_group_leave(struct bl_file *f)
{
	struct bl_group *g = f->group;

	if (!g)
		return;
	mutex_lock(&bl_group_lock);
	if (!--g->files) {
		list_del(&g->link);
		kfree_rcu(g, rcu);
	}
	mutex_unlock(&bl_group_lock);
}
