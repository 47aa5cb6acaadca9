/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * /dev/beeline: copies between processes, by handle.
 *
 * This header is the interface and its manual. It is compiled into the module and into the
 * libraries alike; both sides assert the sizes at its end.
 *
 * What it is for
 *	A process *exports* a range of its memory and gets a handle: 128 bits that nobody can
 *	guess. It sends the handle to a peer by whatever means it has. The peer, which needs no
 *	right over the exporting process, copies from or to that range, straight between its own
 *	memory and the exporter's, once, in its own system call. An export costs an allocation:
 *	it pins nothing, and reads nothing of the memory it names.
 *
 * Calling
 *	Open /dev/beeline (any access mode; O_CLOEXEC unless the descriptor is meant to be
 *	inherited) and call ioctl() with one of BEELINE_IOC_* and a pointer to its struct. The
 *	return value is 0 or an errno. All fields are fixed width, so a 32-bit program may talk
 *	to a 64-bit kernel.
 *
 *	Every struct may grow at its end in a later version; its size is part of the request
 *	number. An old kernel accepts a longer struct when the fields that it does not know are
 *	zero, and says E2BIG otherwise; a new kernel takes the fields that an old program does
 *	not have as zero. A reserved field or an unknown flag that is not zero is EINVAL.
 *
 * Whose handles
 *	A handle belongs to the open file on which it was made (and so to all descriptors that
 *	dup(), fork() or SCM_RIGHTS made of it) and to the address space of the process that
 *	made it. It dies with whichever ends first: BEELINE_IOC_REVOKE, the last close of the
 *	file, execve(), or the exit of the process. A forked child holds the parent's file, not
 *	its memory: handles made before the fork stay the parent's.
 *
 * Who may use one
 *	Whoever opens the device and presents the 128 bits, within the export's scope:
 *	BEELINE_SCOPE_ANY	no further condition
 *	BEELINE_SCOPE_UID	the caller's effective uid is beeline_export.uid
 *	BEELINE_SCOPE_GROUP	the caller's file is in the same group as the exporter's file
 *				(BEELINE_IOC_GROUP)
 *	BEELINE_SCOPE_FILE	the caller's file is the exporter's file
 *	No capability and no ptrace right is asked for, and PID and user namespaces do not
 *	matter: the exporter gave the permission when it exported. What the exporter could not
 *	do to its own memory (write a read-only mapping, read PROT_NONE), the holder cannot
 *	either. Protection keys are the exception: as with process_vm_readv(), they bind the
 *	threads of a process, not those who reach its memory from outside.
 *
 * Privilege
 *	None beyond opening the device, whose owner, group and mode the administrator chooses
 *	(kernel/60-beeline.rules); BEELINE_STAT_MODULE alone asks for CAP_SYS_ADMIN.
 *
 * Errors that any request may return
 *	EFAULT	the struct, or the caller's own memory that it names, cannot be read or written
 *	EINVAL	an unknown flag, or a reserved field that is not zero
 *	E2BIG	a struct from a later version uses a field that this kernel does not have
 *	ENOTTY	no such request
 *	ENOMEM	no kernel memory
 */
#ifndef BEELINE_UAPI_H
#define BEELINE_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* The version of this interface: grows when a request or a field is added. */
#define BEELINE_ABI 1

/* 128 bits from the kernel's random generator. All zero is never a handle. */
struct beeline_handle {
	__u64 w[2];
};

/*
 * BEELINE_IOC_INFO: what this module can do. Only out fields; never fails but by EFAULT.
 */
struct beeline_info {
	__u32 abi;	    /* BEELINE_ABI of the module */
	__u32 max_iov;	    /* most segments in one copy */
	__u32 max_batch;    /* most copies in one batch */
	__u32 max_exports;  /* most live exports of one open file */
	__u32 window_pages; /* most pages that one copy pins at a time */
	__u32 reserved;
};

/*
 * BEELINE_IOC_EXPORT: name a range of the caller's memory.
 *
 * The range need not be mapped yet, nor stay mapped: each copy sees the memory as it is then.
 * Costs O(1), whatever the length.
 *
 *	EINVAL	len is 0; no right is asked for; unknown scope; a uid without meaning in the
 *		caller's user namespace; BEELINE_SCOPE_GROUP on a file without a group
 *	EFAULT	the range is not wholly in user space
 *	ENOSPC	the file has max_exports live exports
 *	EINTR	a fatal signal
 */
struct beeline_export {
	__u64 addr;		      /* in: first byte */
	__u64 len;		      /* in: bytes, at least 1 */
	__u32 rights;		      /* in: BEELINE_READ, BEELINE_WRITE or both */
	__u32 scope;		      /* in: BEELINE_SCOPE_* */
	__u32 uid;		      /* in: with BEELINE_SCOPE_UID, else 0 */
	__u32 reserved;		      /* in: 0 */
	struct beeline_handle handle; /* out */
};

#define BEELINE_READ  1u /* others may copy from the range */
#define BEELINE_WRITE 2u /* others may copy to the range */

#define BEELINE_SCOPE_ANY   0u
#define BEELINE_SCOPE_UID   1u
#define BEELINE_SCOPE_GROUP 2u
#define BEELINE_SCOPE_FILE  3u

/*
 * BEELINE_IOC_REVOKE: end an export made on this open file.
 *
 * When it returns, no copy that uses the handle reads or writes the range any more, and none
 * will. It waits for the copies that are touching the range at this moment: at most one window
 * each, never for a page fault in the memory of those who copy, and so never at their mercy;
 * but for page faults in the range itself. A thread that answers those faults (userfaultfd)
 * must therefore not revoke with them unanswered. With BEELINE_REVOKE_NOWAIT it does not wait:
 * no new window starts, one that has started may still finish.
 *
 *	ENOENT	this file has no such export (also: it was revoked before)
 *	EINTR	a fatal signal ended the wait; the handle is revoked all the same
 */
struct beeline_revoke {
	struct beeline_handle handle; /* in */
	__u32 flags;		      /* in: BEELINE_REVOKE_NOWAIT or 0 */
	__u32 reserved;		      /* in: 0 */
};

#define BEELINE_REVOKE_NOWAIT 1u

/*
 * BEELINE_IOC_IMPORT: see whether the caller may use a handle, and what it names.
 *
 * Holds nothing and reserves nothing; copies do not need it. It lets a library report a bad
 * handle when it arrives and not when it is used.
 *
 *	ENOENT, EACCES, ESRCH	as for BEELINE_IOC_COPY
 */
struct beeline_import {
	struct beeline_handle handle; /* in */
	__u64 len;		      /* out: bytes */
	__u32 rights;		      /* out: BEELINE_READ, BEELINE_WRITE */
	__u32 reserved;		      /* in: 0 */
};

/* One segment of the caller's own memory. */
struct beeline_iov {
	__u64 addr;
	__u64 len;
};

/*
 * BEELINE_IOC_COPY: copy between an export and the caller's memory.
 *
 * Copies len bytes from the export, or with BEELINE_COPY_TO to it, beginning offset bytes into
 * it; with BEELINE_COPY_ADDRESS, offset is instead an address in the exporter's memory, which
 * must lie in the export. The caller's side is the len bytes at local, or, when niov is not 0,
 * the niov segments (struct beeline_iov) at local, filled or drained in order; what they hold
 * beyond len is left alone. The length has no upper limit.
 *
 * copied and status are written also when the call fails, unless it fails because of the struct
 * itself: with E2BIG, or with EFAULT where it cannot be read or written. Set status to a value
 * of your own to tell that EFAULT from one for the memory. copied: that many bytes, from the
 * front, have been copied. A failed copy may have changed bytes after those, but only bytes that
 * it was asked to write and only to their new values. status repeats the call's result as a
 * negative errno.
 *
 * The copy is done in windows of at most window_pages pages. A signal ends it between windows,
 * with EINTR and at least one byte done; or, since Linux 6.2, while it waits for a page of the
 * exporter's, perhaps with none. Call again with what is left. There is no order between this
 * copy and what either process writes to the memory meanwhile.
 *
 *	ENOENT	no such handle: never made, revoked, or its file is closed
 *	EACCES	the caller is outside the export's scope, or the right was not given
 *	ESRCH	the exporter's address space is gone (exit or execve)
 *	ERANGE	offset and len do not lie in the export
 *	ENXIO	the exporter's memory cannot be reached there: unmapped, no permission, truncated
 *		under its mapping, or a page whose hardware has failed
 *	EFAULT	the same for the caller's own memory
 *	EINVAL	more than max_iov segments, or the segments hold less than len (they have been
 *		used up: see copied)
 *	EINTR	a signal ended it early
 */
struct beeline_copy {
	struct beeline_handle handle; /* in */
	__u64 offset;		      /* in */
	__u64 len;		      /* in: bytes; 0 only checks */
	__u64 local;		      /* in: address of the bytes, or of the segments */
	__u32 niov;		      /* in: number of segments, or 0 */
	__u32 flags;		      /* in: BEELINE_COPY_* */
	__u64 copied;		      /* out */
	__s32 status;		      /* out */
	__u32 reserved;		      /* in: 0 */
};

#define BEELINE_COPY_TO	     1u
#define BEELINE_COPY_ADDRESS 2u

/*
 * BEELINE_IOC_BATCH: several copies in one call, in order, up to the first that fails.
 *
 * done counts the copies that succeeded. When the call fails with done less than count, copy
 * number done is the one that failed, and its status and copied say how; those after it have
 * not been looked at. EINTR may also strike between two copies: then copy number done is
 * untouched, with status EINTR and copied 0.
 *
 *	EINVAL	count is above max_batch, or size is not that of struct beeline_copy
 *	else	the status of the copy that failed
 */
struct beeline_batch {
	__u64 copies; /* in: address of count struct beeline_copy */
	__u32 count;  /* in */
	__u32 size;   /* in: sizeof(struct beeline_copy) */
	__u32 done;   /* out */
	__u32 flags;  /* in: 0 */
};

/*
 * BEELINE_IOC_GROUP: put this open file into a group, for BEELINE_SCOPE_GROUP.
 *
 * With a token of all zeros, makes a new group with this file in it and returns its token, as
 * unguessable as a handle. Another file joins with that token. A file is in at most one group,
 * for as long as it is open; a group ends with its last file.
 *
 *	EBUSY	the file is in a group already; token is then that group's
 *	ENOENT	no such group
 */
struct beeline_group {
	struct beeline_handle token; /* in, out */
	__u32 flags;		     /* in: 0 */
	__u32 reserved;		     /* in: 0 */
};

/*
 * BEELINE_IOC_STAT: counters of this open file, or with BEELINE_STAT_MODULE the sum over all
 * files that are or were open since the module was loaded. Each counter is exact; they are not
 * read at one instant.
 *
 *	EPERM	BEELINE_STAT_MODULE without CAP_SYS_ADMIN
 */
struct beeline_stat {
	__u32 flags;	  /* in: BEELINE_STAT_MODULE or 0 */
	__u32 reserved;	  /* in: 0 */
	__u64 files;	  /* out: files open now (1 without BEELINE_STAT_MODULE) */
	__u64 live;	  /* out: exports live now */
	__u64 exports;	  /* out: exports made */
	__u64 from;	  /* out: copies from an export, begun by this file */
	__u64 from_bytes; /* out */
	__u64 to;	  /* out: copies to an export */
	__u64 to_bytes;	  /* out */
	__u64 failed;	  /* out: copies that ended in an error, of those above */
	__u64 faults;	  /* out: windows cut short by a page fault in the caller's memory */
};

#define BEELINE_STAT_MODULE 1u

#define BEELINE_IOC_MAGIC  0xBE
#define BEELINE_IOC_INFO   _IOR(BEELINE_IOC_MAGIC, 0x40, struct beeline_info)
#define BEELINE_IOC_EXPORT _IOWR(BEELINE_IOC_MAGIC, 0x41, struct beeline_export)
#define BEELINE_IOC_REVOKE _IOW(BEELINE_IOC_MAGIC, 0x42, struct beeline_revoke)
#define BEELINE_IOC_IMPORT _IOWR(BEELINE_IOC_MAGIC, 0x43, struct beeline_import)
#define BEELINE_IOC_COPY   _IOWR(BEELINE_IOC_MAGIC, 0x44, struct beeline_copy)
#define BEELINE_IOC_BATCH  _IOWR(BEELINE_IOC_MAGIC, 0x45, struct beeline_batch)
#define BEELINE_IOC_GROUP  _IOWR(BEELINE_IOC_MAGIC, 0x46, struct beeline_group)
#define BEELINE_IOC_STAT   _IOWR(BEELINE_IOC_MAGIC, 0x47, struct beeline_stat)

#ifdef __cplusplus
#define BEELINE_SIZE_IS(s, n) static_assert(sizeof(struct s) == (n), #s)
#else
#define BEELINE_SIZE_IS(s, n) _Static_assert(sizeof(struct s) == (n), #s)
#endif
BEELINE_SIZE_IS(beeline_handle, 16);
BEELINE_SIZE_IS(beeline_info, 24);
BEELINE_SIZE_IS(beeline_export, 48);
BEELINE_SIZE_IS(beeline_revoke, 24);
BEELINE_SIZE_IS(beeline_import, 32);
BEELINE_SIZE_IS(beeline_iov, 16);
BEELINE_SIZE_IS(beeline_copy, 64);
BEELINE_SIZE_IS(beeline_batch, 24);
BEELINE_SIZE_IS(beeline_group, 24);
BEELINE_SIZE_IS(beeline_stat, 80);
#undef BEELINE_SIZE_IS

#endif
