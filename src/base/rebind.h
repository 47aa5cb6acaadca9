/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rebind.h: have one library's calls of a function answered by another function, for that library
 * alone. A call across libraries goes through a word that the dynamic linker has filled in (ELF's
 * R_*_JUMP_SLOT and R_*_GLOB_DAT); that word is what changes. Neither the file nor any instruction
 * does, and everybody else's calls, ours as well, go where they went.
 */
#ifndef BL_BASE_REBIND_H
#define BL_BASE_REBIND_H

/*
 * The object in this process (the program, or a library of it) that `inside` lies in calls `name`:
 * from now on it calls `by`, which must stay where it is for as long as the process lives. A word
 * that was made read-only when the object was loaded is so again afterwards. Any thread; the
 * object's own calls may go on meanwhile.
 *
 * Returns how many words have been changed; 0: that object doesn't call it by such a word. -ENOENT:
 * no object lies there. -ENOSYS: not on this kind of processor. Else what mprotect has said.
 */
int bl_rebind(const void *inside, const char *name, void (*by)(void));

#endif
