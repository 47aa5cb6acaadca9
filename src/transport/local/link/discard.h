/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * discard.h: how to be rid of a descriptor that somebody else has made, or of a socket
 * that anybody can write to. Whoever ends the last use of a file waits for what its end
 * takes: a TCP socket that lingers (SO_LINGER) for as long as its maker has said, one
 * of a file system in user space (FUSE) for that. And descriptors that lie unread in a
 * Unix socket end where it is read without room for them, or closed; any user may have
 * sent them.
 *
 * So what isn't plain memory is closed by a thread for that purpose, and a socket with
 * something unread in it ends with a thread that has an empty table of files and is sent
 * it: a thread that is ending lingers for nobody. Both are rare: an honest neighbour sends
 * memory, and hangs up with nothing unread. At most 8 threads of the first kind are kept by
 * what they close, 256 files wait for them, and what comes then stays open.
 *
 * Not for a socket that is another process's as well (fork): it is shut down.
 *
 * Any thread; no lock of the caller's is needed, and all may be held.
 */
#ifndef BL_TRANSPORT_LOCAL_LINK_DISCARD_H
#define BL_TRANSPORT_LOCAL_LINK_DISCARD_H

#include "base/compiler.h"

/* One that a neighbour has sent, or -1. */
void bl_discard_received(int fd);
/* One that others could write to, or -1. */
void bl_discard_socket(int fd);
/* One that others could call. Its name may be taken for a moment longer. */
void bl_discard_listener(int fd);
/* What can be read next brings descriptors. */
bool bl_brings_descriptors(int fd);
/* The one descriptor that this needs, of the process's service thread: 0 or -errno. */
int bl_discard_open(void);
void bl_discard_close(void);
/* In a forked child, which has none of the threads. */
void bl_discard_orphan(void);

#endif
