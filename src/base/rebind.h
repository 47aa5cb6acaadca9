/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rebind.h: have one library's calls of a function answered by another function, for that library
 * alone. A call across libraries goes through a word that the dynamic linker has filled in (ELF's
 * R_*_JUMP_SLOT and R_*_GLOB_DAT); that word is what changes. Neither the file nor any instruction
 * does, and everybody else's calls, ours as well, go where they went.
 */
#ifndef BL_BASE_REBIND_H
#define BL_BASE_REBIND_H

typedef void (*bl_function)(void);

/*
 * The object in this process (the program, or a library of it) that `inside` lies in calls `name`,
 * which is `was`, as far as we know: from now on it calls `by`, which must stay where it is for as
 * long as the process lives. *object says which that is, "" the program; NULL: nobody asks. A page
 * that can't be written to can't be afterwards.
 *
 * Any thread, a constructor as well: nothing is allocated, and of the dynamic linker only
 * dl_iterate_phdr is used (not in the child of a fork, while other threads load libraries).
 * `inside` is where the caller was called from, so that the object stays. Its own calls may go on
 * meanwhile; one that binds the word at this very moment, its first (lazy binding), may undo it.
 *
 * Returns how many words lead to `by` now; 0: that object calls no such function by a word.
 * -ENOENT: no object lies there. -EINVAL: `was` or `by` lies in it, and `by` might call itself.
 * -EBUSY: a word leads elsewhere, for somebody else has been there, and stays as it is. -ENOSYS:
 * not on this kind of processor. -E2BIG: more words than any linker makes. Else what has refused to
 * make it writable, or, when it had been changed, to seal it again.
 */
int bl_rebind(const void *inside, const char *name, bl_function was, bl_function by,
	      const char **object);

#endif
