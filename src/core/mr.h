/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * mr.h: memory registrations: which of a domain's memory other processes may
 * read and write, under which key.
 *
 * The table lies in its owner's private memory; the header of each of the
 * domain's endpoints says where. An origin reads the entry of a key out of the
 * owner's memory, checks key, bounds and rights on its own copy, and copies:
 * the owner does nothing. It keeps what it has read until the owner closes a
 * registration (bl_seg_mr.closed), so that mostly nothing needs to be read.
 *
 * A reader that meets a change (bl_seg_mr.change) tries again; a table that was
 * outgrown stays until the domain is closed. A registration that is closed waits
 * for the copies that have begun under it (bl_lane.rma_busy).
 *
 * An origin that lies to itself reaches nothing that the kernel wouldn't have let it
 * reach. Where the table is only its owner can say (wire.h), and nobody follows that but by
 * the kernel's copies.
 */
#ifndef BL_CORE_MR_H
#define BL_CORE_MR_H

#include "core/ep.h"

/* What a registration is, and what an owner wants to hear of (bl_seg_mr.events). */
#define BL_MR_READ	  0x01u /* others may read it */
#define BL_MR_WRITE	  0x02u
#define BL_MR_VIRTUAL	  0x04u /* named by its address; else by the offset from its start */
#define BL_MR_EVENT_READ  0x10u /* reads are counted */
#define BL_MR_EVENT_WRITE 0x20u
#define BL_MR_USED	  0x80u
/* Which of bl_lane.count an origin counts in, from 1 on, or 0: none, a packet goes (count.h). Of a
 * region; of an endpoint's reads; and of its writes. */
#define BL_MR_COUNT(n)		     ((uint32_t)(n) << 8)
#define BL_MR_COUNT_OF(flags)	     ((flags) >> 8 & 7)
#define BL_MR_COUNT_WRITES(n)	     ((uint32_t)(n) << 12)
#define BL_MR_COUNT_WRITES_OF(flags) ((flags) >> 12 & 7)
static_assert(BL_RMA_COUNTS <= 7, "a number of one fits there");

/* Others' processes read these: fixed widths. */
struct bl_mr_entry {
	uint64_t key;
	uint32_t flags; /* BL_MR_*; 0: free */
	uint32_t npiece;
	struct bl_piece piece[BL_IOV_MAX];
};
static_assert(sizeof(struct bl_mr_entry) == 144, "read by other processes");

#define BL_MR_WINDOW 8u /* a key lies at most so far behind its place */

static inline uint32_t bl_mr_place(uint64_t key, uint32_t mask)
{
	uint64_t mixed = key * 0x9e3779b97f4a7c15u; /* its top bits depend on all of the key's */

	return mask ? (uint32_t)(mixed >> __builtin_clzll(mask)) : 0;
}

struct bl_mr {
	struct bl_domain *domain;
	uint64_t key;
	struct bl_cntr *cntr;
	bool published; /* it is in the table: others may use it */
};

struct bl_mr_attr {
	const struct iovec *iov;
	size_t niov;
	uint32_t flags; /* BL_MR_READ, BL_MR_WRITE, BL_MR_VIRTUAL */
	bool choose;	/* a key; else `key` is it */
	uint64_t key;
};

#define BL_ENOKEY 266 /* = FI_ENOKEY: the key is taken */

/* Register. -BL_ENOKEY; -ENOMEM; -EINVAL: more than BL_IOV_MAX pieces, or none. */
int bl_mr_open(struct bl_domain *domain, const struct bl_mr_attr *attr, struct bl_mr **mr);
/* Nobody begins or continues a copy by it when this returns. */
void bl_mr_close(struct bl_mr *mr);
/* Count others' operations on it: BL_REMOTE_READ, BL_REMOTE_WRITE. -EINVAL: there
 * is a counter. -errno: who waits for this one couldn't be woken. */
int bl_mr_bind_cntr(struct bl_mr *mr, struct bl_cntr *cntr, uint64_t flags);

/* How the transports count others' operations on our memory. */
struct bl_mr_hooks {
	/* The number of a counter that counts such, given at the first call, or 0. NULL: 0. */
	uint32_t (*number)(struct bl_cntr *cntr);
	/* Take what others have counted by now in the whole domain. */
	void (*settle)(struct bl_domain *domain);
};

/* --- the core's ------------------------------------------------------------ */

/* Tell neighbours of the endpoint, which has a segment now, about the table. */
void bl_mr_publish(struct bl_ep *ep);
/* No neighbour copies by one of the endpoint's registrations any more. */
void bl_mr_quiesce(struct bl_ep *ep);
/* An endpoint's counters have changed: say which operations they count. */
void bl_mr_events(struct bl_ep *ep);
void bl_mr_free_table(struct bl_domain *domain);

/* The entry of a key in the domain's own table, and whose it is; NULL: none. */
const struct bl_mr_entry *bl_mr_find(struct bl_domain *domain, uint64_t key, struct bl_mr **mr);

/*
 * Whether our own memory, which others name, may be touched by ourselves: all of it lies in one
 * page that the kernel read or wrote for us within the last 100 us, under the registrations
 * that there are now. Who takes memory away that is registered, and that others use, within that
 * time, makes an error that ends the process instead of their operation.
 */
bool bl_mr_is_there(const struct bl_domain *domain, const void *at, size_t len, bool write);
/* The kernel has just read, or written, it for us. */
void bl_mr_was_there(struct bl_domain *domain, const void *at, size_t len, bool write);

/*
 * Read the entry of a key out of the peer's memory. 0: *entry is a copy, checked
 * for sense; -EKEYREJECTED: there is none; -EAGAIN: the table is changing;
 * -EOPNOTSUPP: the kernel doesn't let us; -ESRCH.
 */
int bl_mr_read(struct bl_peer *peer, uint64_t key, struct bl_mr_entry *entry);

/*
 * Where `place` is: through *count the pieces in `out` (BL_IOV_MAX of room).
 * -EACCES: `need` (BL_MR_READ, BL_MR_WRITE) isn't allowed, -EINVAL: it is not
 * within the region.
 */
int bl_mr_translate(const struct bl_mr_entry *entry, const struct bl_rma_place *place,
		    uint32_t need, struct iovec *out, uint32_t *count);

#endif
