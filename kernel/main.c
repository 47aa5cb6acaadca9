// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * beeline.ko: the device /dev/beeline, its open files, and the table of its requests.
 *
 * Each open file owns its exports and counters. Requests run in the context of the calling
 * thread; any number of threads may call on one file at once. include/uapi/beeline.h is the
 * manual.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* Open files, and what those that have been closed counted. */
static DEFINE_MUTEX(bl_files_lock);
static LIST_HEAD(bl_files);
static u64 bl_closed[BL_NCOUNTERS];

/* ---- requests ---- */

static int bl_request_info(struct bl_file *f, void *arg)
{
	struct beeline_info *info = arg;

	*info = (struct beeline_info){
		.abi = BEELINE_ABI,
		.max_iov = BL_MAX_IOV,
		.max_batch = BL_MAX_BATCH,
		.max_exports = bl_exports_max(),
		.window_pages = BL_WINDOW_PAGES,
	};
	return 0;
}

static int bl_request_export(struct bl_file *f, void *arg)
{
	return bl_export_make(f, arg);
}

static int bl_request_revoke(struct bl_file *f, void *arg)
{
	return bl_export_revoke(f, arg);
}

static int bl_request_import(struct bl_file *f, void *arg)
{
	struct beeline_import *req = arg;
	struct bl_export *ex;
	int ret = 0;

	if (req->reserved)
		return -EINVAL;
	ex = bl_export_get(f, &req->handle);
	if (IS_ERR(ex))
		return PTR_ERR(ex);
	req->len = ex->len;
	req->rights = ex->rights;
	if (!atomic_read(&ex->mm->mm_users))
		ret = -ESRCH;
	bl_export_put(ex);
	return ret;
}

static int bl_request_group(struct bl_file *f, void *arg)
{
	return bl_group_enter(f, arg);
}

static void bl_stat_add(struct beeline_stat *st, struct bl_file *f)
{
	spin_lock(&f->lock);
	st->live += f->nr_exports;
	spin_unlock(&f->lock);
	st->files++;
	st->exports += atomic64_read(&f->c[BL_EXPORTS]);
	st->from += atomic64_read(&f->c[BL_FROM]);
	st->from_bytes += atomic64_read(&f->c[BL_FROM_BYTES]);
	st->to += atomic64_read(&f->c[BL_TO]);
	st->to_bytes += atomic64_read(&f->c[BL_TO_BYTES]);
	st->failed += atomic64_read(&f->c[BL_FAILED]);
	st->faults += atomic64_read(&f->c[BL_FAULTS]);
}

static int bl_request_stat(struct bl_file *f, void *arg)
{
	struct beeline_stat *st = arg;
	const u32 flags = st->flags;

	if (st->reserved || (flags & ~BEELINE_STAT_MODULE))
		return -EINVAL;
	*st = (struct beeline_stat){.flags = flags};
	if (!flags) {
		bl_stat_add(st, f);
		return 0;
	}
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	mutex_lock(&bl_files_lock);
	st->exports = bl_closed[BL_EXPORTS];
	st->from = bl_closed[BL_FROM];
	st->from_bytes = bl_closed[BL_FROM_BYTES];
	st->to = bl_closed[BL_TO];
	st->to_bytes = bl_closed[BL_TO_BYTES];
	st->failed = bl_closed[BL_FAILED];
	st->faults = bl_closed[BL_FAULTS];
	list_for_each_entry(f, &bl_files, link)
		bl_stat_add(st, f);
	mutex_unlock(&bl_files_lock);
	return 0;
}

/* One copy described at user address u, usize bytes long; its results go back there. */
static int bl_copy_user(struct bl_file *f, struct beeline_copy __user *u, size_t usize)
{
	struct beeline_copy c;
	int ret;

	ret = copy_struct_from_user(&c, sizeof(c), u, usize);
	if (ret)
		return ret;
	ret = bl_copy(f, &c);
	if (put_user(c.copied, &u->copied) || put_user(ret, &u->status))
		return -EFAULT;
	return ret;
}

static int bl_batch_interrupted(struct beeline_copy __user *u)
{
	if (put_user(0, &u->copied) || put_user(-EINTR, &u->status))
		return -EFAULT;
	return -EINTR;
}

static int bl_request_batch(struct bl_file *f, void *arg)
{
	struct beeline_batch *b = arg;
	struct beeline_copy __user *u = u64_to_user_ptr(b->copies);
	int ret;

	b->done = 0;
	if (b->flags || b->size != sizeof(*u) || b->count > BL_MAX_BATCH)
		return -EINVAL;
	for (; b->done < b->count; b->done++, u++) {
		if (b->done && signal_pending(current))
			return bl_batch_interrupted(u);
		ret = bl_copy_user(f, u, sizeof(*u));
		if (ret)
			return ret;
		cond_resched();
	}
	return 0;
}

static const struct bl_request {
	unsigned int cmd;
	int (*run)(struct bl_file *f, void *arg);
} bl_requests[] = {
	{BEELINE_IOC_INFO, bl_request_info},	 {BEELINE_IOC_EXPORT, bl_request_export},
	{BEELINE_IOC_REVOKE, bl_request_revoke}, {BEELINE_IOC_IMPORT, bl_request_import},
	{BEELINE_IOC_BATCH, bl_request_batch},	 {BEELINE_IOC_GROUP, bl_request_group},
	{BEELINE_IOC_STAT, bl_request_stat},
};

/* Requests are the same whatever their size: a struct grows without a new number. */
static bool bl_same_request(unsigned int a, unsigned int b)
{
	return !((a ^ b) & ~(_IOC_SIZEMASK << _IOC_SIZESHIFT));
}

/*
 * A handle that the caller does not get to see is an export that nobody can use or revoke: it is
 * taken back. Without waiting, as it cannot be in use.
 */
static void bl_export_unseen(struct bl_file *f, const struct beeline_export *req)
{
	const struct beeline_revoke r = {.handle = req->handle, .flags = BEELINE_REVOKE_NOWAIT};

	bl_export_revoke(f, &r);
}

/*
 * Results go back after a failure too, since some of them (beeline_batch.done) say how far it
 * got; fields that were not written hold what the caller put there.
 */
static long bl_run_request(struct bl_file *f, const struct bl_request *r, void __user *u,
			   size_t usize)
{
	const size_t ksize = _IOC_SIZE(r->cmd);
	union {
		struct beeline_info info;
		struct beeline_export export;
		struct beeline_revoke revoke;
		struct beeline_import import;
		struct beeline_batch batch;
		struct beeline_group group;
		struct beeline_stat stat;
	} arg;
	int ret;

	if (_IOC_DIR(r->cmd) & _IOC_WRITE) {
		ret = copy_struct_from_user(&arg, ksize, u, usize);
		if (ret)
			return ret;
	}
	ret = r->run(f, &arg);
	if ((_IOC_DIR(r->cmd) & _IOC_READ) && copy_to_user(u, &arg, min(ksize, usize))) {
		if (!ret && r->cmd == BEELINE_IOC_EXPORT)
			bl_export_unseen(f, &arg.export);
		return -EFAULT;
	}
	return ret;
}

static long bl_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct bl_file *f = file->private_data;
	void __user *u = (void __user *)arg;
	const size_t usize = _IOC_SIZE(cmd);
	unsigned int i;

	if (bl_same_request(cmd, BEELINE_IOC_COPY)) {
		if (usize < sizeof(struct beeline_copy))
			return -ENOTTY;
		return bl_copy_user(f, u, usize);
	}
	for (i = 0; i < ARRAY_SIZE(bl_requests); i++) {
		const struct bl_request *r = &bl_requests[i];

		if (bl_same_request(cmd, r->cmd) && usize >= _IOC_SIZE(r->cmd))
			return bl_run_request(f, r, u, usize);
	}
	return -ENOTTY;
}

/* ---- files ---- */

static int bl_open(struct inode *inode, struct file *file)
{
	struct bl_file *f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);

	if (!f)
		return -ENOMEM;
	spin_lock_init(&f->lock);
	INIT_LIST_HEAD(&f->exports);
	mutex_lock(&bl_files_lock);
	list_add(&f->link, &bl_files);
	mutex_unlock(&bl_files_lock);
	file->private_data = f;
	return nonseekable_open(inode, file);
}

/* At each close of a descriptor, also by exit: the file may live on in another process. */
static int bl_flush(struct file *file, fl_owner_t id)
{
	bl_export_reap(file->private_data);
	return 0;
}

static int bl_release(struct inode *inode, struct file *file)
{
	struct bl_file *f = file->private_data;
	unsigned int i;

	bl_export_drop_all(f);
	bl_group_leave(f);
	mutex_lock(&bl_files_lock);
	list_del(&f->link);
	for (i = 0; i < BL_NCOUNTERS; i++)
		bl_closed[i] += atomic64_read(&f->c[i]);
	mutex_unlock(&bl_files_lock);
	kfree(f);
	return 0;
}

static const struct file_operations bl_fops = {
	.owner = THIS_MODULE,
	.open = bl_open,
	.flush = bl_flush,
	.release = bl_release,
	.unlocked_ioctl = bl_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice bl_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "beeline",
	.fops = &bl_fops,
};

/* ---- the module ---- */

static int __init bl_init(void)
{
	int ret = bl_exports_init();

	if (ret)
		return ret;
	ret = misc_register(&bl_device);
	if (ret)
		goto exports;
	return 0;

exports:
	bl_exports_exit();
	return ret;
}

static void __exit bl_exit(void)
{
	misc_deregister(&bl_device);
	bl_exports_exit();
}

module_init(bl_init);
module_exit(bl_exit);

MODULE_DESCRIPTION("Single-copy transfers between processes, by handle");
MODULE_AUTHOR("The Beeline authors");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION(BL_VERSION);
