/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * api.h: what the layers above may ask of the core: endpoints, address
 * vectors, completion queues, counters, sending, receiving and progress.
 *
 * Rules for every function here unless its comment says otherwise:
 *  - All objects opened with one `struct bl_domain` are serialised by the
 *    caller: one thread at a time. A caller that promised its own user thread
 *    safety holds bl_domain_lock() around each call; nobody else pays for it.
 *  - Nothing blocks and nothing sleeps, but for the first operation to a peer, which
 *    waits until it is connected, with the domain unlocked (bl_ep_connect; not after
 *    bl_domain_nonblocking). What can't begin yet is queued (txq.h). -EAGAIN: for want of memory
 *    it can't be; make progress (bl_cq_read, bl_progress) and call again.
 *  - Errors are negative errno. Lengths are bytes. Buffers stay the caller's
 *    and must not be touched until the operation's completion.
 *  - Flag values are those of libfabric, so that the provider passes them
 *    through; src/fabric checks each with a static_assert.
 */
#ifndef BL_ENDPOINT_API_H
#define BL_ENDPOINT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "core/addr.h" /* struct bl_addr: where an endpoint can be reached */
#include "core/types.h"

/* --- domain ------------------------------------------------------------ */
int bl_domain_open(struct bl_domain **domain);
int bl_domain_close(struct bl_domain *domain); /* -EBUSY while objects are open */
/* From now on no operation waits for a connection; it is queued instead. */
static inline void bl_domain_nonblocking(struct bl_domain *domain);
/* Its user holds the lock around each call, before it opens an endpoint. */
static inline void bl_domain_locks(struct bl_domain *domain);
static inline void bl_domain_lock(struct bl_domain *domain);
static inline void bl_domain_unlock(struct bl_domain *domain);

/* --- address vector ----------------------------------------------------- */
int bl_av_open(struct bl_domain *domain, struct bl_av **av);
int bl_av_close(struct bl_av *av); /* -EBUSY while an endpoint is bound */
/* Append one address; *index receives its place. -EINVAL: not a Beeline address; its place stays
 * empty. */
int bl_av_insert(struct bl_av *av, const struct bl_addr *addr, uint64_t *index);
int bl_av_remove(struct bl_av *av, uint64_t index); /* -ENOENT: nothing there */
int bl_av_lookup(struct bl_av *av, uint64_t index, struct bl_addr *addr);
/* The first place of an address, or BL_ADDR_ANY. */
uint64_t bl_av_find(const struct bl_av *av, const struct bl_addr *addr);

/*
 * Make progress on the endpoints bound and take up to max completions, each
 * written as the first `entry` bytes (8, 24, 40 or 48) of a struct bl_comp.
 * src, if not NULL, receives each source's index (BL_ADDR_ANY: unknown, or a send).
 * Returns the number taken, -EAGAIN (none), or -BL_EAVAIL (an error is next:
 * take it with bl_cq_readerr). max may be 0: progress alone.
 */
#define BL_EAVAIL 259 /* = FI_EAVAIL */
static inline ssize_t bl_cq_read(struct bl_cq *cq, void *buf, size_t max, size_t entry,
				 uint64_t *src);

/* --- counter ------------------------------------------------------------ */
int bl_cntr_open(struct bl_domain *domain, struct bl_cntr **cntr);
int bl_cntr_close(struct bl_cntr *cntr);	/* -EBUSY while an endpoint is bound */
uint64_t bl_cntr_read(struct bl_cntr *cntr);	/* makes progress first */
uint64_t bl_cntr_readerr(struct bl_cntr *cntr); /* makes progress first */
void bl_cntr_set(struct bl_cntr *cntr, uint64_t value);
void bl_cntr_adderr(struct bl_cntr *cntr, uint64_t value);
void bl_cntr_seterr(struct bl_cntr *cntr, uint64_t value);

/* --- endpoint ----------------------------------------------------------- */
int bl_ep_open(struct bl_domain *domain, struct bl_ep **ep);
/* Before it is enabled: have an address with this id. -EADDRINUSE: another has it. */
int bl_ep_rename(struct bl_ep *ep, const uint8_t id[16]);
int bl_ep_close(struct bl_ep *ep); /* outstanding operations are dropped, as fi_close does */
int bl_ep_bind_av(struct bl_ep *ep, struct bl_av *av);
/* flags: BL_SEND and/or BL_RECV: whose completions go there. Of a counter also
 * BL_READ, BL_WRITE (our operations on others' memory), BL_REMOTE_READ,
 * BL_REMOTE_WRITE (others' on ours). */
int bl_ep_bind_cq(struct bl_ep *ep, struct bl_cq *cq, uint64_t flags);
int bl_ep_bind_cntr(struct bl_ep *ep, struct bl_cntr *cntr, uint64_t flags);
int bl_ep_enable(struct bl_ep *ep); /* creates its segment and makes it reachable */
void bl_ep_getname(struct bl_ep *ep, struct bl_addr *addr);
void bl_ep_set_min_multi_recv(struct bl_ep *ep, size_t bytes);
size_t bl_ep_min_multi_recv(struct bl_ep *ep);
/*
 * A shared receive context: receives posted to it, as to an endpoint, take what comes
 * to any of its members, and complete in the queue of the member that it came to. It
 * has no queues of its own, nor an address; nothing is sent from it.
 */
int bl_srx_open(struct bl_domain *domain, struct bl_ep **home);
int bl_srx_close(struct bl_ep *home); /* -EBUSY while it has members */
/* Before ep is enabled. -EINVAL: it is one's already, or of another domain. */
int bl_srx_join(struct bl_ep *ep, struct bl_ep *home);
/* Whether ep may be enabled: members share an address vector. 0 or -EINVAL. */
int bl_srx_ready(struct bl_ep *ep);
/* Whether receives of a context complete here although they don't ask for it. */
static inline void bl_ep_report_srx(struct bl_ep *ep, bool always);
/* Progress on one endpoint; its completions go to its queues. */
void bl_ep_progress(struct bl_ep *ep);

int bl_send(struct bl_ep *ep, const struct bl_send *send);
/* The same, but it begins when all that was sent to or asked of dest before is over, and
 * what is posted later goes behind it. */
int bl_send_fenced(struct bl_ep *ep, const struct bl_send *send);
size_t bl_inject_max(void); /* bytes; constant over the life of a process */

/* The two fast paths: one contiguous buffer. Same rules as bl_send(); `flags`
 * must be a compile-time constant. bl_inject: no completion, no count. */
static inline int bl_inject(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			    uint64_t tag, uint64_t data, uint64_t flags);
static inline int bl_send_buf(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			      uint64_t tag, uint64_t data, void *context, uint64_t flags);
/* bl_inject() where a counter of sends may be bound, which it is counted in. */
static inline int bl_inject_counted(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
				    uint64_t tag, uint64_t data, uint64_t flags);

int bl_recv(struct bl_ep *ep, const struct bl_recv *recv);
static inline int bl_recv_buf(struct bl_ep *ep, void *buf, size_t len, uint64_t src, uint64_t tag,
			      uint64_t ignore, void *context, uint64_t flags);
/* Cancel the oldest receive posted with this context that no message has, or else what waits
 * for a counter, or is queued: its completion is an error, ECANCELED. Or else a send that has
 * left and waits for its receiver: it ends so unless a receive has it (withdraw.c). -ENOENT: there
 * is none (it may have completed, or be too late). */
int bl_cancel(struct bl_ep *ep, void *context);

/* --- one-sided operations: core/mr.h, endpoint/rma.h ------------------------ */

#include "endpoint/read.h" /* with endpoint.h: the structures and the inline paths */

#endif
