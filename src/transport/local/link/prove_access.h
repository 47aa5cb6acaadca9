/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * prove_access.h: the atomics page of a peer (atomics_page.h), at the first atomic operation on its
 * memory. Who has it can spoil others' atomic operations on that process's memory, so it is given
 * only to who could do that anyway:
 *
 *   owner of the peer            our service thread           that of the peer's process
 *   reads its secret, where
 *   the hello said:
 *   process_vm_readv, for
 *   which the kernel asks for
 *   the same right as for
 *   writing             ──────►  PROVE: the secret  ────────►  is it?
 *   comes again         ◄──────  maps the page      ◄────────  its descriptor
 *
 * It is the owner that reads: a peer whose memory keeps whoever reads it (userfaultfd, FUSE) keeps
 * only who wants something of it. The rest is an exchange like others (handshake.h): not too many
 * at a time, and answers are heard when they come. One that takes longer than a second is given
 * up, and the peer is asked for its operations.
 */
#ifndef BL_TRANSPORT_LOCAL_LINK_PROVE_ACCESS_H
#define BL_TRANSPORT_LOCAL_LINK_PROVE_ACCESS_H

#include "transport/local/local.h"

int bl_peer_ask_for_atomics_page(struct bl_peer *peer, struct bl_atomics_page **atomics_page);

/* 0: here they are. -EAGAIN: they have been asked for. -EOPNOTSUPP: they aren't to be
 * had, and the peer must be asked for the operation itself. Its owner. */
static inline int bl_peer_atomics_page(struct bl_peer *peer, struct bl_atomics_page **atomics_page)
{
	/* acquire: pairs with the release in bl_peer_give_atomics_page */
	*atomics_page = atomic_load_explicit(&peer->access.atomics_page, memory_order_acquire);
	return likely(*atomics_page) ? 0 : bl_peer_ask_for_atomics_page(peer, atomics_page);
}

/* Service thread: the atomics_page as they are mapped; NULL: the answer is another. again: the
 * owner may ask at once. */
void bl_peer_give_atomics_page(struct bl_peer *peer, struct bl_atomics_page *atomics_page,
			       bool again);
/* They are gone. local->lock held, or nobody else is there. */
void bl_peer_forget_atomics_page(struct bl_peer *peer);

#endif
