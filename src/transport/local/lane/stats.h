/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * stats.h: what an endpoint shows of itself in its header's memfd, for `beeline stat`, which opens
 * it through /proc/PID/fd and only reads. Nobody in the process that is looked at takes part.
 *
 * Two places, both written by the owner (before a peer is adopted, by its service thread): `struct
 * bl_stats` at the end of the header page, with the endpoint's counters, and behind it a `struct
 * bl_lane_stats` for each neighbour. Nothing reads them back, and the command checks each size.
 *
 * A short message costs nothing here, unless it goes by the copy buffer. What the command needs is
 * there anyway:
 *
 *   packets sent      the numbers in our lane's slots
 *   their bytes       what the receiver has told with its credits (bl_lane), and
 *                     the lengths in the slots that it hasn't told of
 *   packets received  bl_rx
 *   and their bytes
 *
 * It takes these from /proc/PID/mem, at `lane` and `rx`, or else what the owner's look publishes
 * here every 10 ms. Control packets and large messages count as they happen; the rest are short
 * messages. `sent` and `received` are the ring's numbers with 64 bits, as of the last look.
 */
#ifndef BL_TRANSPORT_LOCAL_LANE_STATS_H
#define BL_TRANSPORT_LOCAL_LANE_STATS_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define BL_STATS_MAGIC	 0x74617453u
#define BL_STATS_VERSION 3
#define BL_STATS_ROOM	 72u

/*
 * X(name, what it counts). A name goes into the page with its value, so that a
 * new row here is all that a new counter needs. The command takes sent_PATH and
 * received_PATH with their _bytes for another path of messages, and lists what it
 * doesn't know.
 */
#define BL_STATS(X)                                                                                \
	X(sent_one_copy, "large messages that their receiver copied")                              \
	X(sent_one_copy_bytes, "")                                                                 \
	X(sent_split, "large messages that both could copy")                                       \
	X(sent_split_bytes, "")                                                                    \
	X(sent_by_proxy, "large messages that we copied, asked by a receiver who may not")         \
	X(sent_by_proxy_bytes, "")                                                                 \
	X(sent_fragmented, "large messages that went, in part or wholly, through the ring")        \
	X(sent_fragmented_bytes, "")                                                               \
	X(sent_claimed, "large messages whose receive we claimed, its process being away")         \
	X(sent_claimed_bytes, "")                                                                  \
	X(received_one_copy, "as above, for those received")                                       \
	X(received_one_copy_bytes, "")                                                             \
	X(received_split, "")                                                                      \
	X(received_split_bytes, "")                                                                \
	X(received_by_proxy, "")                                                                   \
	X(received_by_proxy_bytes, "")                                                             \
	X(received_fragmented, "")                                                                 \
	X(received_fragmented_bytes, "")                                                           \
	X(received_claimed, "")                                                                    \
	X(received_claimed_bytes, "")                                                              \
	X(overlap_sent_bytes, "of large messages, over when we came back into the library")        \
	X(overlap_received_bytes, "")                                                              \
	X(pulled_bytes, "of large messages, read from neighbours by this process")                 \
	X(pushed_bytes, "of large messages, written to neighbours by this process")                \
	X(control_out, "packets that are no short message and fit a slot")                         \
	X(control_out_bytes, "")                                                                   \
	X(control_in, "")                                                                          \
	X(control_in_bytes, "")                                                                    \
	X(fragment_out, "packets that are no short message and lie in the payload ring")           \
	X(fragment_out_bytes, "")                                                                  \
	X(fragment_in, "")                                                                         \
	X(fragment_in_bytes, "")                                                                   \
	X(unexpected, "messages that wait for their receive now")                                  \
	X(unexpected_bytes, "their bytes that are kept here")                                      \
	X(unexpected_most, "the most that ever waited")                                            \
	X(unexpected_total, "all that ever waited")                                                \
	X(fallback_pull, "messages that we may not read from the sender, operations likewise")     \
	X(fallback_push, "the same: that we may not write to the receiver")                        \
	X(fallback_memory, "the same: the kernel had no memory for the copy")                      \
	X(fallback_fault, "the same: one's memory can be reached by itself alone (EFAULT)")        \
	X(fallback_alone, "messages that one copied alone: no shared descriptor was free")         \
	X(fallback_lock, "one-sided operations of which the target's lock isn't ours to take")     \
	X(fallback_behind, "those that keep their order behind one that the target does")          \
	X(fallback_regions, "those on several regions whose target counts them by hand")           \
	X(failed_sends, "large sends, and those to be told of, that ended with an error")          \
	X(failed_receives, "large receives that ended with an error")                              \
	X(queued, "sends and one-sided operations that waited at their sender before they began")  \
	X(rma_reads, "one-sided operations on others' memory, by a direct copy")                   \
	X(rma_read_bytes, "")                                                                      \
	X(rma_writes, "")                                                                          \
	X(rma_write_bytes, "")                                                                     \
	X(rma_atomics, "")                                                                         \
	X(rma_atomic_bytes, "")                                                                    \
	X(rma_by_proxy, "one-sided operations that their target did for us")                       \
	X(rma_by_proxy_bytes, "")                                                                  \
	X(rma_by_target, "short ones that a target that waited did for us")                        \
	X(rma_by_target_bytes, "")                                                                 \
	X(rma_taken_back, "those that it didn't, after all")                                       \
	X(rma_batched, "short ones that were done together with others")                           \
	X(rma_served, "those that we did for others")                                              \
	X(rma_served_bytes, "")                                                                    \
	X(copybuf, "messages sent where the neighbour's had been, or its next one may be")         \
	X(huge_bytes, "of buffers of large messages, put into huge pages")                         \
	X(longring_bytes, "by which lanes have been made longer")                                  \
	X(private_bytes, "of pools and peers; what is shared comes on top")

enum bl_stat {
#define X(name, help) BL_STAT_##name,
	BL_STATS(X)
#undef X
		BL_STAT_COUNT
};
static_assert(BL_STAT_COUNT <= BL_STATS_ROOM, "the page has room for no more");

struct bl_counter {
	char name[32];
	_Atomic uint64_t value;
};

struct bl_stats {
	_Atomic uint32_t magic; /* stored last */
	uint16_t version;
	uint16_t count;	   /* counters in use */
	uint32_t pid;	   /* the owner's, as its own PID namespace numbers it */
	int32_t node;	   /* NUMA node that its memory is bound to, or negative */
	uint64_t began_ns; /* CLOCK_BOOTTIME */
	uint32_t eager_max;
	/* where things are: sizes and offsets in a lane, whose slots begin with two
	 * words, the number and the head (bl_slot) */
	uint32_t lane_size;
	uint16_t slots, slot_size, slot_at;
	uint16_t shown_at, shown_size; /* the first bl_lane_stats in the file, and each */
	/* offsets in struct bl_rx */
	uint16_t rx_next, rx_bytes, rx_total, rx_long, rx_long_bytes, rx_size;
	uint16_t in_slot; /* a longer packet lies in the payload ring */
	uint8_t pad[8];
	struct bl_counter counter[BL_STATS_ROOM];
};
static_assert(sizeof(struct bl_stats) == 64 + 40 * BL_STATS_ROOM, "shared layout");

enum bl_lane_state {
	BL_LANE_NONE = 0,
	BL_LANE_CONNECTING = 1,
	BL_LANE_READY = 2,
	BL_LANE_CLOSED = 3, /* the peer closed its endpoint in good order */
	BL_LANE_DIED = 4,
	BL_LANE_BROKEN = 5, /* it broke the protocol */
	BL_LANE_FAILED = 6, /* it could not be connected; see error */
};

/* One neighbour, by its index. */
struct bl_lane_stats {
	uint8_t id[16]; /* of the peer's address */
	uint32_t pid;	/* as the peer's own PID namespace numbers it */
	int32_t seen;	/* as ours does; 0: it isn't visible here */
	_Atomic uint8_t state;
	_Atomic uint8_t pull, push; /* enum bl_copy_way */
	uint8_t pad;
	_Atomic uint16_t pull_why, push_why; /* the errno with which the kernel refused */
	_Atomic uint16_t error;
	uint16_t pad2;
	/* messages and one-sided operations that took another way because of these; and
	 * because the kernel had no memory for a copy just then */
	_Atomic uint32_t not_pulled, not_pushed, no_memory;
	/* in the owner's memory: struct bl_rx, our lane (0: none yet) */
	uint64_t rx, lane;
	/* as of the last look */
	_Atomic uint64_t sent, sent_bytes, sent_long, sent_long_bytes;
	_Atomic uint64_t received, received_bytes, received_long, received_long_bytes;
	/* Packets that are no message, and what the bytes of all packets differ by
	 * from those of all messages (it may have wrapped below 0). */
	_Atomic uint64_t other_out, other_out_bytes, other_in, other_in_bytes;
};
static_assert(sizeof(struct bl_lane_stats) == 160, "shared layout");

#endif
