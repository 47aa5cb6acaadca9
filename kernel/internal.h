/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of beeline.ko share.
 *
 *	main.c		the device, its files, the ioctl table, counters
 *	export.c	exports: made, found, revoked; who may use one
 *	group.c		groups of open files
 *	copy.c		copies between an export and the caller
 *	compat/		everything that differs between kernel versions
 *
 * Lifetimes and locks in one place (docs/module.md argues them):
 *
 *	bl_file		from open to the last close; the VFS sees to it that no ioctl is in
 *			flight on it when release runs. Each export points at its file, and
 *			may outlive it by a window; only the file's address is compared then.
 *	bl_export	.users: 1 while linked, plus 1 for each window that works on it. At 0 the
 *			mm is dropped. .mem: 1 while .users is not 0, plus 1 for a revoker that
 *			waits for .idle. At 0 the memory goes, after an RCU grace period.
 *	mm_struct	an export holds mm_count (mmgrab: the struct stays, the memory may go); a
 *			window holds mm_users (mmget_not_zero: the memory stays for the window).
 *	bl_group	counted by its files; freed after the last, after an RCU grace period,
 *			so that no reader of an export compares with an address used anew.
 *
 *	bl_file.lock	spinlock: the list of exports. Innermost; nothing is taken under it.
 *	bl_files_lock	mutex: the list of open files and the counters of closed ones.
 *	bl_group_lock	mutex: the table of groups.
 * bl_file.lock is taken inside bl_files_lock (to sum the counters); no other two nest. The copy
 * path takes none of them: it finds the export in the hash table under RCU, and what it shares
 * with other copies is the export's count.
 */
#ifndef BL_INTERNAL_H
#define BL_INTERNAL_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "../include/uapi/beeline.h"

#if BITS_PER_LONG != 64
#error "beeline.ko is for 64-bit kernels: lengths and addresses of 64 bits are one word here"
#endif

struct mm_struct;

#define BL_MAX_IOV	1024u
#define BL_MAX_BATCH	1024u
#define BL_WINDOW_PAGES 512u /* a huge page of 2 MiB; their addresses fill a page */

enum bl_counter {
	BL_EXPORTS,
	BL_FROM,
	BL_FROM_BYTES,
	BL_TO,
	BL_TO_BYTES,
	BL_FAILED,
	BL_FAULTS,
	BL_NCOUNTERS,
};

struct bl_group {
	struct beeline_handle token;
	struct list_head link; /* bl_group_lock */
	unsigned int files;    /* bl_group_lock */
	struct rcu_head rcu;
};

struct bl_file {
	spinlock_t lock;
	struct list_head exports;  /* lock */
	unsigned int nr_exports;   /* lock */
	struct mm_struct *last_mm; /* lock; compared only, never followed */
	struct bl_group *group;	   /* set once; release/acquire, see bl_file_group() */
	struct list_head link;	   /* bl_files_lock */
	atomic64_t c[BL_NCOUNTERS];
};

struct bl_export {
	struct rhash_head node;
	struct beeline_handle handle;
	unsigned long addr;
	u64 len;
	struct mm_struct *mm;
	struct bl_file *file;
	struct bl_group *group; /* BEELINE_SCOPE_GROUP; compared only, never followed */
	kuid_t uid;		/* BEELINE_SCOPE_UID */
	u16 rights;
	u16 scope;
	refcount_t users;
	refcount_t mem;
	struct list_head link; /* file->lock */
	bool linked;	       /* file->lock: on the file's list, counted, in the hash table */
	struct completion idle;
	struct rcu_head rcu;
};

static inline void bl_count(struct bl_file *f, enum bl_counter which, u64 n)
{
	atomic64_add(n, &f->c[which]);
}

static inline bool bl_handle_is_zero(const struct beeline_handle *h)
{
	return !(h->w[0] | h->w[1]);
}

/* No early way out: the time tells nothing about how many bits were right. */
static inline bool bl_handle_equal(const struct beeline_handle *a, const struct beeline_handle *b)
{
	return !((a->w[0] ^ b->w[0]) | (a->w[1] ^ b->w[1]));
}

void bl_handle_make(struct beeline_handle *h);

/* export.c */
int bl_exports_init(void);
void bl_exports_exit(void);
unsigned int bl_exports_max(void);
int bl_export_make(struct bl_file *f, struct beeline_export *req);
int bl_export_revoke(struct bl_file *f, const struct beeline_revoke *req);
void bl_export_reap(struct bl_file *f);
void bl_export_drop_all(struct bl_file *f);
struct bl_export *bl_export_get(struct bl_file *f, const struct beeline_handle *h);
void bl_export_put(struct bl_export *ex);

/* group.c */
int bl_group_enter(struct bl_file *f, struct beeline_group *req);
void bl_group_leave(struct bl_file *f);

/* Pairs with the smp_store_release() in bl_group_enter(). */
static inline struct bl_group *bl_file_group(struct bl_file *f)
{
	return smp_load_acquire(&f->group);
}

/* copy.c */
int bl_copy(struct bl_file *f, struct beeline_copy *c);

#endif
