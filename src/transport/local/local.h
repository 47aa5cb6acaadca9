/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * local.h: neighbours on this node: an endpoint's memory, the peers it knows
 * and how they get to know it.
 *
 * Two threads meet here: the one that owns the endpoint (its domain) and the
 * process's service thread, which answers connection requests. What they share
 * is under bl_local.lock, taken on slow paths only; the owner learns of changes
 * by one flag that it polls (attention).
 *
 * A connection: the owner asks (bl_peer_connect), the service threads of both
 * processes exchange memory over a Unix socket named by the random id in the
 * address, check each other's uid by the kernel's word, and put the peer into
 * the `arrived` list; the owner adopts it (bl_local_adopt). Connecting the same
 * pair from both ends at once, or twice, ends in one connection: handshake.h.
 */
#ifndef BL_TRANSPORT_LOCAL_LOCAL_H
#define BL_TRANSPORT_LOCAL_LOCAL_H

#include <pthread.h>

#include "copy/engine.h"
#include "core/addr.h"
#include "transport/local/lane/ring.h"

#define BL_PEER_TABLE	 256 /* hash buckets */
#define BL_POLLED_MAX	 64  /* lanes polled one by one */
#define BL_POLLED_CALM	 8   /* so many are polled even when silent; where there are more, only */
#define BL_POLLED_KEEP	 1   /* so many of those that are silent */
#define BL_DOORBELL_NONE UINT32_MAX

enum bl_peer_state {
	BL_PEER_NEW,	    /* known by address only */
	BL_PEER_CONNECTING, /* the service thread is at it */
	BL_PEER_READY,	    /* exchanged; the owner may not have adopted it yet */
	BL_PEER_FAILED,	    /* see error; for good */
};

struct bl_control { /* a control packet that waits for room */
	uint64_t tag, data;
	uint8_t op;
	uint16_t len;
	uint8_t bytes[BL_SLOT_INLINE];
};

struct bl_rma_peer;	/* transport/local/rma/rma.h */
struct bl_atomics_page; /* core/atomics_lock.h */

/* What one neighbour sends another: descriptors, in this order. */
enum { BL_FD_HEADER, BL_FD_DOORBELLS, BL_FD_LANE, BL_FDS };

/* The memory that two endpoints share, as one of them has it mapped. */
struct bl_link {
	struct bl_lane *ours, *theirs;
	size_t ours_span, theirs_span;	    /* bytes that are mapped of them */
	const struct bl_seg_header *header; /* theirs, and so is the rest */
	struct bl_doorbells *doorbells;
};

enum bl_proof { BL_PROOF_NONE, BL_PROOF_WANTED, BL_PROOF_REFUSED };

/* Control packets that wait for room. */
struct bl_control_queue {
	struct bl_control *packet; /* queue of control packets */
	uint32_t n, room;
};

/* The owner's looks at a peer that may have died. */
struct bl_peer_watch {
	uint32_t rma_stuck; /* owner: what rma_busy has said for a second; see core/mr.c */
	uint32_t seen_next; /* packets received at the last look */
	uint64_t seen_at;   /* ticks: the last look that found new ones */
	uint64_t died_at;   /* ticks: the first look that found it dead; or 0 */
};

/* The lists that a peer is in, under bl_local.lock. */
struct bl_peer_links {
	struct bl_peer *hash, *all;
	struct bl_peer *arrived, *wanting; /* it may be in both lists */
	struct bl_peer *spare;		   /* it is gone, its index waits for another */
};

/* How far its connection is, under bl_local.lock. */
struct bl_peer_setup {
	uint64_t call_after_ms; /* the service thread's: not again before */
	uint32_t index;		/* its doorbell among ours, if has_index */
	bool has_index;
	bool has_lane;		 /* the lanes are there */
	bool promised;		 /* its call has been answered; handshake.h */
	uint8_t busy;		 /* the service thread's: calls that have met a limit */
	struct bl_lane *cts_all; /* our lane, which it may have before we are connected */
};

/* Whether its process lives, under bl_local.lock. */
struct bl_peer_life_state {
	bool unkept;		 /* its life word isn't the kernel's; alive.c */
	_Atomic bool found_dead; /* then, by us: see bl_peer_ended */
	_Atomic bool gone;	 /* the owner knows; release: bl_local_forget */
};

/* Whether it keeps too much; the owner's. */
struct bl_peer_congestion {
	bool high;	 /* owner: it has said so when it was last asked; wire.h */
	uint8_t unasked; /* owner: messages that it might have been asked about */
};

/* Its memory that we have mapped. */
struct bl_mapped {
	const struct bl_seg_header *header; /* the peer's, mapped */
	struct bl_doorbells *doorbells;	    /* the peer's, mapped */
};

/* What atomic operations on its memory need. */
struct bl_peer_access {
	/* The lock of its process's memory; NULL: we don't have it. prove_access.h */
	_Atomic(struct bl_atomics_page *) atomics_page;
	union {
		uint64_t secret;     /* BL_PROOF_WANTED: as the owner has read it */
		uint64_t refused_at; /* else: ns when it wasn't to be had; or 0 */
	};
};

struct bl_peer {
	struct bl_tx tx;
	struct bl_addr addr; /* not to be changed, but for an unknown PID */
	alignas(BL_LINE) struct bl_rx rx;
	/* owner only */
	struct bl_copy_pair copy;
	uint64_t av_index; /* where in the address vector; BL_ADDR_ANY */
	struct bl_control_queue control;
	uint64_t chunks_busy;	 /* descriptors of our lane that are in use */
	uint32_t doorbell_index; /* our number at the peer; BL_DOORBELL_NONE: it has none for us */
	uint32_t dead;		 /* an errno once it is known to be gone */
	struct bl_own_adverts
		*board; /* our receives that it can see; transport/local/ways/proxy.h */
	bool adopted, hot;
	_Atomic bool wants_credit; /* to ring when there is some; the service thread looks there */
	bool broken;		   /* it made no sense, or we can't answer it */
	bool untold;		   /* of some packets, at the last look: stats.c */
	uint16_t longring_next;	   /* owner: tx.next at the last look for unused long rings */
	struct bl_peer_watch watch;
	struct bl_local *local;
	/* The number of the packet expected, while the lane isn't polled; the owner writes,
	 * the service thread looks there. */
	_Atomic uint32_t quiet_next;
	uint32_t stalled_at; /* owner: tx.limit at the end of a wait for credits in vain */
	/* Of what it has counted in our lane, what we have taken; as above.
	 * transport/local/rma/count.h */
	_Atomic uint64_t counted[BL_RMA_COUNTS];
	/* under bl_local.lock */
	_Atomic enum bl_peer_state state;
	int error;		     /* negative errno, when BL_PEER_FAILED */
	_Atomic enum bl_proof proof; /* of `atomics_page`, below; prove_access.h */
	struct bl_peer_links next;
	struct bl_peer_setup setup;
	struct bl_peer_life_state life;
	bool wanting; /* until the service thread has seen to it */
	struct bl_peer_congestion congestion;
	uint8_t left_read;     /* owner: the read that first left a message; core/unexpected.c */
	bool stays_short : 1;  /* owner: there was no memory for a longer lane, or buffer */
	bool many_names : 1;   /* owner: places beside av_index may have named it; endpoint.c */
	bool refusal_told : 1; /* owner: that it has to do its atomic operations itself */
	struct bl_mapped mapped;
	struct bl_lane_stats *stats; /* behind our header; never NULL. See count.h */
	struct bl_peer_access access;
	struct bl_rma_peer *rma; /* owner: one-sided operations; NULL: none so far */
	struct bl_txq *txq;   /* owner: operations that wait; NULL: none so far; endpoint/txq.h */
	struct bl_peer *name; /* owner: the same address in a shared context; endpoint/srx.h */
};
static_assert(sizeof(struct bl_peer) <= 704, "beside its lane, of a thousand neighbours each");

/* What an endpoint shares with all its neighbours; segment.c. */
struct bl_segment {
	int fd;	     /* of the header and what follows it; -1: closed */
	size_t size; /* of that, as far as it has pages */
	struct bl_seg_header *header;
	struct bl_lane_stats *shown; /* behind it: of neighbours, by index */
	void *private_page;	     /* before the header's */
	void *life_page;	     /* BL_SEG_HEADER before the header, private; see service.c */
	int doorbells_fd;
	struct bl_doorbells *doorbells;
	int node;	    /* NUMA node, or negative */
	size_t lane_span;   /* bytes that a lane can be stretched to: its file's */
	size_t lane_enough; /* in a shorter one lines cross from cache to cache; longring.c */
	/* Bytes that we may take without asking for room again; since when. */
	size_t granted;
	uint64_t granted_at;
};

/* Neighbours whose rings were made longer; longring.c */
struct bl_longrings {
	uint32_t n;	   /* neighbours with longer rings, */
	uint32_t nlongest; /* and with rings longer than BL_LANE_LONG */
	uint64_t at;	   /* ticks: the last one; the last look for unused ones */
};

/* Lanes that aren't polled, and how their owner sleeps. */
struct bl_doorbell_state {
	uint32_t drowsy;   /* so many more doorbells before a lane is polled again; doorbell.c */
	uint32_t sleepers; /* BL_SLEEP_FUTEX ones; doorbell.c */
	int wake_socket;   /* to wake and be woken by; -1 until it is needed */
	bool wake_refused; /* and logged */
	_Atomic uint32_t wake_port; /* its number */
	_Atomic bool asleep;	    /* on its socket, until it drains it; nobody else writes this */
	uint32_t listened;	    /* where the last look at lanes that aren't polled ended */
	_Atomic uint32_t unheard;   /* one more than a lane's where something lies; 0: not known */
};

/* All peers of an endpoint, under bl_local.lock. */
struct bl_peer_table {
	struct bl_peer *table[BL_PEER_TABLE];
	struct bl_peer *arrived; /* ready or failed; the owner doesn't know yet */
	struct bl_peer *wanting; /* to be called by the service thread, the first first */
	struct bl_peer *wanting_last;
	struct bl_peer *all;	    /* but for those that are */
	struct bl_peer *gone;	    /* by bl_local_release */
	struct bl_peer_slab *slabs; /* what they live in */
	struct bl_peer *spare;	    /* gone, with an index to be used again */
};

/* Neighbours whose death the kernel doesn't mark. */
struct bl_unkept {
	/* neighbours whose deaths must be looked for, ever; alive.c */
	_Atomic uint32_t unkept;
	int probe; /* a socket to do it with; -1 until it is needed */
	uint64_t probed_at;
};

/* The service thread's looks at a sleeping owner. */
struct bl_sleep_watch {
	_Atomic bool watched; /* it has slept on its socket lately */
	uint32_t awake_looks;
};

struct bl_local {
	/* owner's fast path */
	struct bl_peer *hot[BL_POLLED_MAX];
	uint32_t npolled;
	uint32_t nunpolled; /* adopted, not polled: their doorbells are looked at */
	/* release: whoever has news; acquire: the owner in its progress */
	_Atomic uint32_t attention;
	struct bl_segment seg;
	struct bl_addr addr;
	struct bl_peer **by_index; /* adopted peers by index; owner */
	uint32_t nby_index;
	bool enabled;
	_Atomic uint32_t counts; /* bit i: bl_lane.count[i] is used; transport/local/rma/count.h */
	struct bl_stats *stats;	 /* in our header; never NULL. See count.h */
	struct bl_longrings longring;
	struct bl_doorbell_state doorbell;

	pthread_mutex_t lock;
	struct bl_peer_table peers;
	uint32_t nindexes; /* ever given */
	/* service thread's */
	int listener;
	struct bl_unkept life;
	struct bl_sleep_watch watch;
	struct bl_local *next_service, *next_listening;
};

/* Fill and open; enable makes it reachable. 0 or -errno, logged where decided. */
int bl_local_open(struct bl_local *local);
/* One that only has peers, which are names: it has no address and reaches nobody. */
void bl_local_open_names(struct bl_local *local);
int bl_local_enable(struct bl_local *local, uint32_t eager_max);
/* Unreachable from now on; all peers and their memory are gone on return. */
void bl_local_close(struct bl_local *local);

/* Before it is enabled: be reached under this id. -EADDRINUSE: somebody is. */
int bl_local_rename(struct bl_local *local, const uint8_t id[16]);

/* In a forked child, which has none of the mappings: nothing is left but to close
 * it; sends and receives fail with -ENOTCONN. Service, under its lock. */
void bl_local_orphan(struct bl_local *local);

/* The peer of this address, made if need be; NULL: no memory. Owner. */
struct bl_peer *bl_local_peer(struct bl_local *local, const struct bl_addr *addr);

/* The same, if it is known; NULL: it isn't. Owner. */
struct bl_peer *bl_local_find(struct bl_local *local, const struct bl_addr *addr);

/*
 * Ask for a connection. 0: it is there (adopted), -EAGAIN: under way, else why
 * it can't be: -EHOSTUNREACH, -ENETUNREACH, -ECONNREFUSED (nobody is there),
 * -EPERM (another user's), -ENOMEM, -ENOSPC... Logged once. Owner.
 */
int bl_peer_connect(struct bl_peer *peer);

/* The owner saw `attention`: take in peers that have arrived. Calls adopt for
 * each, after its lanes are usable, or lost: it can't be reached, see error. */
void bl_local_adopt(struct bl_local *local, void (*adopt)(struct bl_peer *peer),
		    void (*lost)(struct bl_peer *peer));

/* Poll the peers whose doorbells have rung: calls poll for each; false: none. Owner. */
bool bl_local_answer_doorbells(struct bl_local *local,
			       void (*poll)(struct bl_peer *peer, void *arg), void *arg);

/*
 * Look at some of the lanes that aren't polled, others the next time: any neighbour can
 * take away another's doorbell. Calls poll for each with something in it. Owner, now and then.
 */
void bl_local_listen(struct bl_local *local, void (*poll)(struct bl_peer *peer, void *arg),
		     void *arg);

#define BL_LONGRING_USES 32u /* of bl_tx.nlong or short_of: so often it would have been of use */
/* A longer payload ring, if this neighbour's is worth it. True: it took a moment. Owner, now and
 * then, behind the packet that begins a lap, or when there is no room. longring.c */
bool bl_longring_look(struct bl_peer *peer);
/* The same for a message that calls for it, however rarely it would have been of use. */
bool bl_longring_now(struct bl_peer *peer);
/* A message of len bytes would go to its copy buffer if that were longer: make it so, if it may
 * be. Owner. */
bl_cold void bl_longring_copybuf(struct bl_peer *peer, size_t len);
/* Bytes that a lane may grow to on this machine: BL_LANE_SIZE, BL_LANE_LONG, BL_LANE_COPYBUF or
 * BL_LANE_MOST. Any thread. */
size_t bl_longring_span(void);
/* How long it has to be for its lines to have left a core's own cache when they are stored to
 * again. Any thread. */
size_t bl_longring_enough(void);
/* And how long it is made at most; what is left of its span is for its copy buffer. */
size_t bl_longring_most(const struct bl_local *local);
/* This neighbour has ended: nobody reads its ring any more. */
void bl_longring_over(struct bl_peer *peer);

/* Stop polling lanes that have been silent since `before` (ticks). Owner, rarely. */
void bl_local_unpoll_silent(struct bl_local *local, uint64_t before);

/* Stop polling all of them. -EAGAIN: something has come; -EOPNOTSUPP: one of them
 * can't be made to ring. Owner. */
int bl_local_stop_polling(struct bl_local *local);

/* Never poll this peer again. Owner. */
void bl_local_forget(struct bl_local *local, struct bl_peer *peer);

/* It is gone and can't touch what it had of us: unmap what we had of it, and let
 * another have its number. After bl_local_forget(), with `dead` set. Owner. */
void bl_local_release(struct bl_local *local, struct bl_peer *peer);
/* The memory that it has, but for itself: the endpoint closes. */
void bl_peer_fini(struct bl_peer *peer);
/*
 * Sleeping; doorbell.c. The owner stops polling (bl_local_doze), looks once more at
 * everything that could have come, and sleeps; a sender finds its lane unpolled,
 * rings, sees that we sleep and wakes us.
 */
/* Asleep while *word is `value`. */
struct bl_futex {
	_Atomic uint32_t *word;
	uint32_t value;
};
/* No lane is polled any more; what was sent before this returned can be seen, what
 * is sent later rings and wakes. `how`: BL_SLEEP_*. 0; -EAGAIN: something is
 * there; -EOPNOTSUPP: a neighbour can't be made to ring, so poll now and then. With
 * BL_SLEEP_FUTEX *futex is what to sleep on, unchanged if there is nothing. */
int bl_local_doze(struct bl_local *local, uint32_t how, struct bl_futex *futex);
/* Sleep until woken or for ns; any thread, no lock, the endpoint may be gone. */
void bl_local_sleep(const struct bl_futex *futex, uint64_t ns);
/* Undoes a doze with BL_SLEEP_FUTEX that gave a word to sleep on. */
void bl_local_rise(struct bl_local *local);
/* The socket's descriptor, or -errno. It is readable when we were woken. */
int bl_local_wake_socket(struct bl_local *local);
/* Readable no longer. False: it wasn't. */
bool bl_local_drain_wakes(struct bl_local *local);
/* Wake whoever sleeps on our own endpoint, if any. Any thread. */
void bl_local_wake(struct bl_local *local);
/* Wake the peer's owner if it sleeps. */
bl_cold void bl_peer_wake(struct bl_peer *peer);
/* Service thread, every BL_WATCH_MS while somebody sleeps on its socket: deaths
 * ring no doorbell. False: it has been awake for long. local->lock held. */
bool bl_local_check_sleep_locked(struct bl_local *local);
#define BL_WATCH_MS 50

/* 0 while the peer lives, -ENOTCONN: closed in good order, -ECONNRESET: died. */
int bl_peer_life(const struct bl_peer *peer);
/* The same of any whose header is mapped. */
int bl_peer_ended(const struct bl_peer *peer);

/* Where a neighbour's death isn't marked by the kernel: look for it. alive.c. Owner. */
void bl_local_check_unkept(struct bl_local *local);
/* The same for who has local->lock. */
void bl_local_check_unkept_locked(struct bl_local *local);

/* A process that has died: 1: no thread of it can write into our memory any more;
 * 0: one may be about to end such a copy; -1: it can't be seen from here. over.c */
int bl_process_over(pid_t pid);
#define BL_UNSEEN_US 50000 /* so long such a one is taken to need for that */
/* How long neighbours are waited for that are in the middle of a copy: a second each; ten
 * in all where they could go on, have a thread on a core or in the line for one. Begins with
 * the first look. pid 0: one that may be anywhere. */
struct bl_patience {
	uint64_t since, until; /* ns; until = 0: another neighbour */
	uint64_t looked;       /* ns: the last look */
	uint8_t stops;	       /* of ourselves, as it seems: they don't count, up to some */
};
bool bl_patience_ends(struct bl_patience *patience, pid_t pid);

/* About to sleep until there is room for what waits in our lane to the peer: it will ring, once.
 * 1: after bl_local_drain_all(), and look at the ring then; 0: as it has been asked to;
 * -EOPNOTSUPP: it can't. */
int bl_peer_want_credit(struct bl_peer *peer);
/* No longer, or it hasn't been asked in good order. */
void bl_peer_forgo_credit(struct bl_peer *peer);
/* What any neighbour has stored is visible, and it sees what we have. False: it can't be done. */
bool bl_local_drain_all(void);

/* It has counted operations in our lane that we haven't taken. Any thread, while it is connected.
 */
bool bl_peer_has_counted(const struct bl_peer *peer);

/* We have written to a lane that its receiver doesn't poll. */
bl_cold void bl_peer_ring(struct bl_peer *peer);

/* After each packet, or count. */
bl_always_inline void bl_peer_notify(struct bl_peer *peer)
{
	/* After the packet, in program order: the receiver makes all processes
	 * drain their stores between clearing this and its last look. */
	bl_compiler_barrier();
	if (unlikely(!atomic_load_explicit(&peer->tx.lane->polled, memory_order_relaxed)))
		bl_peer_ring(peer);
}

/* --- between connect.c, segment.c and service.c ---------------------------- */
/* Bytes of memory that this process's cgroups leave it; UINT64_MAX: no limit. memlimit.c */
uint64_t bl_memlimit(void);
int bl_segment_open(struct bl_segment *seg, const struct bl_addr *addr);
void bl_segment_close(struct bl_segment *seg);
/* Where to show the neighbour of this index; made, and cleared. 0 or -errno, logged. */
int bl_segment_show(struct bl_segment *seg, uint32_t index, struct bl_lane_stats **stats);
/* Our lane of a link: BL_LANE_SIZE bytes, bound and touched, of lane_span that are mapped: its
 * descriptor, which the caller closes when the neighbour has been sent it; or -errno, logged. */
int bl_lane_make(struct bl_segment *seg, struct bl_link *link);
/* Pages for its bytes from `from` on, where there were none, to `size`; and none any more from `to`
 * to `span`. 0 or -errno. Owner. */
int bl_lane_lengthen(const struct bl_segment *seg, struct bl_lane *lane, size_t from, size_t size);
void bl_lane_shrink(struct bl_lane *lane, size_t to, size_t span);
void bl_lane_unmap(struct bl_lane *lane, size_t span);
/* The same, and its memory is given back, whoever has been sent it: what one who calls and
 * hangs up keeps of ours would count as ours without end. Of a connection that never came to
 * be, or whose other end is dead. */
void bl_lane_drop(struct bl_lane *lane, size_t span);
/* Map what a neighbour has sent, after checking sizes and seals. 0 or -errno;
 * bl_link_unmap() in either case. */
int bl_link_map(struct bl_link *link, const int fd[BL_FDS]);
void bl_link_unmap(struct bl_link *link);
/* A memfd of size bytes by itself, mapped; its descriptor or -errno, logged. */
int bl_segment_page(size_t size, void **page);
/* The same of a neighbour's, after checking size and seals; NULL: it won't do. */
void *bl_segment_map_page(int fd, size_t size);

int bl_service_listen(struct bl_local *local); /* it can be called from now on */
void bl_service_unlisten(struct bl_local *local);
int bl_service_attach(struct bl_local *local);	 /* starts the thread with the first */
void bl_service_detach(struct bl_local *local);	 /* ends it with the last */
void bl_service_connect(struct bl_local *local); /* wake it: some peer is CONNECTING */
void bl_service_watch(struct bl_local *local);	 /* look after its peers while it sleeps */
bool bl_service_membarrier(void);		 /* this process may be drained by others */

/* Service thread, local->lock held: the peer named addr, made if need be. */
struct bl_peer *bl_peer_get_locked(struct bl_local *local, const struct bl_addr *addr);
/* It is to be called, after those that are already. */
void bl_peer_want_locked(struct bl_peer *peer);
/* Its call has been answered, or that is over. */
void bl_peer_promise_locked(struct bl_peer *peer, bool promised);
/* It gets a number, which is its doorbell. 0 or -errno. */
int bl_peer_give_index_locked(struct bl_peer *peer);
/* It is connected: the link's memory is the peer's from now on. doorbell: ours there. 0, or
 * the error for which it has been given up; -EALREADY: it was connected before. */
int bl_peer_attach_locked(struct bl_peer *peer, struct bl_link *link, uint32_t doorbell, pid_t pid);
/* It is ourselves, and nobody need be called. 0 or -errno. */
int bl_peer_connect_self_locked(struct bl_peer *peer);
void bl_peer_fail_locked(struct bl_peer *peer, int error);

/* Is a thread of a dead one perhaps still in the kernel, writing into our memory? */
bl_cold bool bl_peer_lingers(struct bl_peer *peer, uint64_t now);

#endif
