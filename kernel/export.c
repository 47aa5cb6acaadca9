// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Exports: ranges of memory with an unguessable name.
 *
 * One hash table holds all exports of all files. It is read under RCU by every window of every
 * copy, in the context of the copying process, and written by the exporting one. An export's
 * fields do not change once it is in the table, but for its counts and its list link.
 */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* Exports looked at under the lock at a time; and in passing, by each new one. */
#define BL_SWEEP      256u
#define BL_SWEEP_STEP 2u

static unsigned int max_exports = 1u << 20;
module_param(max_exports, uint, 0644);
MODULE_PARM_DESC(max_exports, "most live exports of one open file");

unsigned int bl_exports_max(void)
{
	return READ_ONCE(max_exports);
}

/*
 * A handle is random, but who makes many can keep those whose bits suit him. So a hash is bits
 * 32 to 63 of its product with a secret odd number, which each new table alters by a seed of its
 * own: handles share a bucket in every table only if they agree in the 32 bits below and as many
 * more as the table has bits for its index, and the table is never filled with keys of an
 * attacker's choice. (A stronger hash takes 4 % more instructions for an export.)
 */
static u64 bl_hash_key __ro_after_init;

static u32 bl_export_hash(const void *key, u32 len, u32 seed)
{
	u64 factor = bl_hash_key + 2 * (u64)seed;

	return (((const struct beeline_handle *)key)->w[0] * factor) >> 32;
}

static int bl_export_cmp(struct rhashtable_compare_arg *arg, const void *obj)
{
	return !bl_handle_equal(arg->key, &((const struct bl_export *)obj)->handle);
}

static const struct rhashtable_params bl_params = {
	.head_offset = offsetof(struct bl_export, node),
	.key_offset = offsetof(struct bl_export, handle),
	.key_len = sizeof(struct beeline_handle),
	.hashfn = bl_export_hash,
	.obj_cmpfn = bl_export_cmp,
	.automatic_shrinking = true,
};

static struct rhashtable bl_exports;

int __init bl_exports_init(void)
{
	bl_hash_key = get_random_u64() | 1;
	return rhashtable_init(&bl_exports, &bl_params);
}

/* The module cannot go while a file is open, and each file took its exports along. */
void bl_exports_exit(void)
{
	rhashtable_destroy(&bl_exports);
}

/* get_random_u64() draws on the same generator as get_random_bytes(), in per-CPU batches. */
void bl_handle_make(struct beeline_handle *h)
{
	do {
		h->w[0] = get_random_u64();
		h->w[1] = get_random_u64();
	} while (bl_handle_is_zero(h));
}

static void bl_export_mem_put(struct bl_export *ex)
{
	if (refcount_dec_and_test(&ex->mem))
		kfree_rcu(ex, rcu);
}

void bl_export_put(struct bl_export *ex)
{
	if (!refcount_dec_and_test(&ex->users))
		return;
	mmdrop(ex->mm);
	complete_all(&ex->idle);
	bl_export_mem_put(ex);
}

/*
 * Takes an export off its file's list. Whoever gets true owns the reference that the list held
 * and must call bl_export_end(): so an export ends once, whoever comes to end it.
 */
static bool bl_export_unlink(struct bl_file *f, struct bl_export *ex)
{
	lockdep_assert_held(&f->lock);
	if (!ex->linked)
		return false;
	ex->linked = false;
	list_del_init(&ex->link);
	f->nr_exports--;
	return true;
}

static void bl_export_end(struct bl_export *ex)
{
	rhashtable_remove_fast(&bl_exports, &ex->node, bl_params);
	bl_export_put(ex);
}

/*
 * Looks at the budget oldest exports of a file and ends those whose memory is gone (exit,
 * execve), or all of them. The living move to the young end: repeated calls with a small budget
 * come to see every one. The lock is held for that many list operations and no longer.
 */
static void bl_export_sweep(struct bl_file *f, unsigned int budget, bool all)
{
	struct bl_export *ex, *next;
	LIST_HEAD(living);
	LIST_HEAD(dead);

	spin_lock(&f->lock);
	list_for_each_entry_safe(ex, next, &f->exports, link) {
		if (!budget--)
			break;
		if (!all && atomic_read(&ex->mm->mm_users)) {
			list_move_tail(&ex->link, &living);
			continue;
		}
		bl_export_unlink(f, ex);
		list_add_tail(&ex->link, &dead);
	}
	list_splice_tail(&living, &f->exports);
	spin_unlock(&f->lock);

	list_for_each_entry_safe(ex, next, &dead, link) {
		list_del_init(&ex->link);
		bl_export_end(ex);
	}
}

/* Ends the exports whose memory is gone. They are of no use; what they occupy may be. */
void bl_export_reap(struct bl_file *f)
{
	unsigned int left = READ_ONCE(f->nr_exports);

	for (; left; left -= min(left, BL_SWEEP)) {
		bl_export_sweep(f, BL_SWEEP, false);
		cond_resched();
	}
}

/* At the last close: no other call is in flight on this file. Does not wait for windows. */
void bl_export_drop_all(struct bl_file *f)
{
	while (READ_ONCE(f->nr_exports)) {
		bl_export_sweep(f, BL_SWEEP, true);
		cond_resched();
	}
}

static int bl_export_parse(struct bl_file *f, const struct beeline_export *req,
			   struct bl_export *ex)
{
	if (req->reserved || !req->len)
		return -EINVAL;
	if (!req->rights || (req->rights & ~(BEELINE_READ | BEELINE_WRITE)))
		return -EINVAL;
	if (!access_ok(u64_to_user_ptr(req->addr), req->len))
		return -EFAULT;

	ex->addr = req->addr;
	ex->len = req->len;
	ex->rights = req->rights;
	ex->scope = req->scope;
	ex->uid = INVALID_UID;
	if (req->scope != BEELINE_SCOPE_UID && req->uid)
		return -EINVAL;
	switch (req->scope) {
	case BEELINE_SCOPE_ANY:
	case BEELINE_SCOPE_FILE:
		return 0;
	case BEELINE_SCOPE_UID:
		ex->uid = make_kuid(current_user_ns(), req->uid);
		return uid_valid(ex->uid) ? 0 : -EINVAL;
	case BEELINE_SCOPE_GROUP:
		ex->group = bl_file_group(f);
		return ex->group ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

/*
 * Puts an export on its file's list, if there is room. With the first export after another
 * process's, a step of sweeping: a file that a chain of processes inherits stays small.
 */
static int bl_export_link(struct bl_file *f, struct bl_export *ex)
{
	struct mm_struct *before;
	bool full;

	spin_lock(&f->lock);
	before = f->last_mm;
	full = f->nr_exports >= bl_exports_max();
	if (!full) {
		f->last_mm = ex->mm;
		f->nr_exports++;
		ex->linked = true;
		list_add_tail(&ex->link, &f->exports);
	}
	spin_unlock(&f->lock);
	if (full)
		return -ENOSPC;
	if (before && before != ex->mm)
		bl_export_sweep(f, BL_SWEEP_STEP, false);
	return 0;
}

/*
 * EBUSY says that the table is being rehashed and cannot take more until the worker is done:
 * one waits for it, as every insertion until then would get the same answer.
 */
static int bl_export_hash_in(struct bl_export *ex)
{
	int ret;

	for (;;) {
		ret = rhashtable_insert_fast(&bl_exports, &ex->node, bl_params);
		if (ret != -EBUSY)
			return ret ? -ENOMEM : 0;
		if (schedule_timeout_killable(1))
			return -EINTR;
	}
}

int bl_export_make(struct bl_file *f, struct beeline_export *req)
{
	struct bl_export *ex;
	int ret;

	ex = kzalloc(sizeof(*ex), GFP_KERNEL_ACCOUNT);
	if (!ex)
		return -ENOMEM;
	ret = bl_export_parse(f, req, ex);
	if (ret)
		goto free;

	ex->file = f;
	ex->mm = current->mm;
	mmgrab(ex->mm);
	refcount_set(&ex->users, 1);
	refcount_set(&ex->mem, 1);
	init_completion(&ex->idle);
	bl_handle_make(&ex->handle);

	ret = bl_export_link(f, ex);
	if (ret == -ENOSPC) {
		bl_export_reap(f);
		ret = bl_export_link(f, ex);
	}
	if (ret)
		goto drop_mm;
	ret = bl_export_hash_in(ex);
	if (ret)
		goto unlink;
	req->handle = ex->handle;
	bl_count(f, BL_EXPORTS, 1);
	return 0;

unlink:
	/* Nobody knows the handle and our mm is alive: no one else has ended it. */
	spin_lock(&f->lock);
	bl_export_unlink(f, ex);
	spin_unlock(&f->lock);
drop_mm:
	mmdrop(ex->mm);
free:
	kfree(ex);
	return ret;
}

static int bl_export_check(struct bl_file *f, const struct bl_export *ex)
{
	switch (ex->scope) {
	case BEELINE_SCOPE_ANY:
		return 0;
	case BEELINE_SCOPE_UID:
		return uid_eq(current_euid(), ex->uid) ? 0 : -EACCES;
	case BEELINE_SCOPE_GROUP:
		return bl_file_group(f) == ex->group ? 0 : -EACCES;
	default:
		return f == ex->file ? 0 : -EACCES;
	}
}

/* The export of that name, if f's caller may use it, with a count that bl_export_put() drops. */
struct bl_export *bl_export_get(struct bl_file *f, const struct beeline_handle *h)
{
	struct bl_export *ex;
	int ret;

	rcu_read_lock();
	ex = rhashtable_lookup(&bl_exports, h, bl_params);
	if (!ex) {
		ret = -ENOENT;
		goto unlock;
	}
	ret = bl_export_check(f, ex);
	if (ret)
		goto unlock;
	if (!refcount_inc_not_zero(&ex->users))
		ret = -ENOENT;
unlock:
	rcu_read_unlock();
	return ret ? ERR_PTR(ret) : ex;
}

int bl_export_revoke(struct bl_file *f, const struct beeline_revoke *req)
{
	struct bl_export *ex;
	bool mine = false;
	int ret = 0;

	if (req->reserved || (req->flags & ~BEELINE_REVOKE_NOWAIT))
		return -EINVAL;

	/* The owner's file is asked for, not the scope: RCU keeps what the lock then decides. */
	rcu_read_lock();
	ex = rhashtable_lookup(&bl_exports, &req->handle, bl_params);
	if (ex && ex->file == f) {
		spin_lock(&f->lock);
		mine = bl_export_unlink(f, ex);
		spin_unlock(&f->lock);
	}
	if (mine)
		refcount_inc(&ex->mem);
	rcu_read_unlock();
	if (!mine)
		return -ENOENT;

	bl_export_end(ex);
	if (!(req->flags & BEELINE_REVOKE_NOWAIT))
		ret = wait_for_completion_killable(&ex->idle) ? -EINTR : 0;
	bl_export_mem_put(ex);
	return ret;
}
