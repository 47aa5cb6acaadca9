/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * knobs.h: every knob there is. The table below makes the parser, the values,
 * what `fi_info -e` prints and the manual's section; a test fails when the
 * manual has drifted. Read once, at first use, from the environment.
 */
#ifndef BL_BASE_KNOBS_H
#define BL_BASE_KNOBS_H

#include <stddef.h>
#include <stdint.h>

enum bl_knob_kind {
	BL_KNOB_SIZE,	/* bytes; K, M and G are accepted */
	BL_KNOB_COUNT,	/* a number */
	BL_KNOB_CHOICE, /* one of the words in `choices`, its place is the value */
};

#define BL_KNOB_AUTO UINT64_MAX /* "auto": measured, or from a table with reasons */

/* X(field, kind, default, least, most, choices, help). The variable's name is
 * FI_BEELINE_ and the field in capitals. */
#define BL_KNOBS(X)                                                                                \
	X(log, BL_KNOB_CHOICE, 0, 0, 2, "warn|info|debug",                                         \
	  "How much to say. Under libfabric, FI_LOG_LEVEL decides instead.")                       \
	X(eager_max, BL_KNOB_SIZE, BL_KNOB_AUTO, 512, 14336, NULL,                                 \
	  "Longest message that goes through the ring in two short copies; a longer one is "       \
	  "copied once, when it has been matched. auto: where one copy was found faster, "         \
	  "measured at start; where that is 6 KiB, up to 8 KiB go through the ring while their "   \
	  "receiver is seen to wait for them.")                                                    \
	X(inject, BL_KNOB_CHOICE, 0, 0, 1, "eager|pingpong",                                       \
	  "The longest message that a library is offered to inject (inject_size): eager is "       \
	  "the eager limit; ping-pong is what goes through the ring otherwise only while its "     \
	  "receiver is seen to wait for it, where that is more. What is injected always goes "     \
	  "through the ring, so that is for a library that waits, or yields, for the "             \
	  "completion of what it doesn't inject, as Intel MPI and MPICH do.")                      \
	X(inject_queue, BL_KNOB_SIZE, 16777216, 0, 1099511627776, NULL,                            \
	  "Bytes of injected messages and operations that an endpoint keeps for peers that have "  \
	  "no room for them. What would be beyond that is refused (FI_EAGAIN). Others are queued " \
	  "without limit, for their buffers stay where they are.")                                 \
	X(delivery, BL_KNOB_CHOICE, 0, 0, 1, "all|rma",                                            \
	  "What FI_DELIVERY_COMPLETE means where an endpoint is opened with it among its "         \
	  "default flags (tx_attr.op_flags): all is as libfabric says, every operation "           \
	  "completes, and counts, when it has been delivered; rma is one-sided operations and "    \
	  "atomics, and a message that lies in the ring whole completes at once. Flags of a "      \
	  "call, of an alias and those set later hold in any case. For a library that asks "       \
	  "for the sake of one-sided operations, as Intel MPI does: of a send MPI wants the "      \
	  "buffer back.")                                                                          \
	X(eager_long_max, BL_KNOB_SIZE, BL_KNOB_AUTO, 0, 131072, NULL,                             \
	  "Longest message that goes through a long ring (FI_BEELINE_LONG_RING) as one "           \
	  "packet, in two copies, although it is beyond the eager limit; from 64 KiB on "          \
	  "only while both processes are in the library. auto: 96 KiB (AMD from Zen 3 on: "        \
	  "128) where a system call was measured to be dear, and less to a neighbour that "        \
	  "is far away; else none, but those of streams that FI_BEELINE_LONG_RING names and, "     \
	  "where FI_BEELINE_COPYBUF has two use one place, up to 512 KiB what its sender has "     \
	  "just written, which one copy was seen to take longer for (AMD from Zen 3 on: "          \
	  "that as well, and what its receiver uses; from Zen 5 on near by up to 256 KiB "         \
	  "of anything). 0: none, but those of streams.")                                          \
	X(long_ring, BL_KNOB_CHOICE, 0, 0, 2, "auto|always|never",                                 \
	  "Whether the ring to a neighbour is made longer, from 36 to 484 KiB (of which "          \
	  "128 are FI_BEELINE_COPYBUF's, if it is used, or up to 512, and all 868, once "          \
	  "there is something longer for them that was just written). Where a system call "        \
	  "is dear, so that messages of up to FI_BEELINE_EAGER_LONG_MAX go through it whole, "     \
	  "and for 4 neighbours to 2,020 KiB where a core's own cache has more than 512 "          \
	  "KiB, or that much on AMD from Zen 3 on, and less than 2 MiB; elsewhere for "            \
	  "streams, many messages one after the other, those of up to 32 KiB whole unless "        \
	  "system calls are very cheap, and for those who use FI_BEELINE_COPYBUF, but only "       \
	  "where address space isn't limited (ulimit -v). auto is for up to 16 neighbours: "       \
	  "where a system call is dear, to whom packets of 4 KiB and more go, or very many "       \
	  "shorter ones; elsewhere to whom such a stream goes. always is for 16, at once.")        \
	X(copybuf, BL_KNOB_CHOICE, 0, 0, 3, "auto|always|never|exchange",                          \
	  "Whether two that wait for each other's messages of 289 bytes and more write them all "  \
	  "to one place behind a longer ring (FI_BEELINE_LONG_RING), in turn. exchange: only if "  \
	  "both send at once, and 1 KiB and more, or what they have just written "                 \
	  "(FI_BEELINE_EAGER_LONG_MAX). auto: where that was found faster, AMD from Zen 3 on; "    \
	  "exchange on Intel Xeon with 2 MiB, from Sapphire Rapids "                               \
	  "on; else never. always has messages of 8 KiB and more grow there while they are "       \
	  "read, even where both send at once; never offers no such place, but uses "              \
	  "another's.")                                                                            \
	X(prefetch, BL_KNOB_CHOICE, 0, 0, 2, "auto|ask|store",                                     \
	  "How a sender has what it writes next brought from the receiver's cache ahead: ask is "  \
	  "by a prefetch; store is by storing something there (for an answer only where its "      \
	  "receiver was found to be far away, which shows in a line's time on AMD from Zen 3 "     \
	  "on). auto: store where what was asked for was found to be lost again by the time that " \
	  "it is written to, AMD's Zen 4; else "                                                   \
	  "ask.")                                                                                  \
	X(split_min, BL_KNOB_SIZE, BL_KNOB_AUTO, 8192, 1073741824, NULL,                           \
	  "Shortest message that sender and receiver copy together. auto: from the measured "      \
	  "cost of a system call.")                                                                \
	X(chunk_max, BL_KNOB_SIZE, BL_KNOB_AUTO, 4096, 67108864, NULL,                             \
	  "Largest piece that either process takes when both copy one message. auto: 256 KiB; "    \
	  "512 on Intel Xeon from Sapphire Rapids on, and up to 1 MiB on AMD from Zen 3 on.")      \
	X(copy, BL_KNOB_CHOICE, 0, 0, 3, "auto|vm|ring|module",                                    \
	  "How large messages move: vm is process_vm_readv and writev, ring is two copies "        \
	  "through shared memory, module is beeline.ko where both processes have it, else as by "  \
	  "auto (a process that can't use it warns); auto is the best that works for each pair: "  \
	  "vm, then module, then ring.")                                                           \
	X(overlap, BL_KNOB_CHOICE, 0, 0, 2, "auto|always|never",                                   \
	  "Whether a call that sends or posts a message of 64 KiB or more, or reads while one is " \
	  "copied, finishes what can be finished before it returns, for a process that computes "  \
	  "then: auto is for one that is used to go away; always also shows shorter receives to "  \
	  "senders from the first on; never leaves all posted receives to their owners.")          \
	X(rma_delegate, BL_KNOB_CHOICE, 0, 0, 2, "auto|always|never",                              \
	  "Whether one-sided operations of up to 256 bytes (176, if any come back) are done by "   \
	  "their target: auto is if it waits in the library, where a system call was measured to " \
	  "take longer, and what it doesn't take up within 2 to 4 us is done directly; "           \
	  "always asks each time, for tests; never is for programs that unmap registered memory "  \
	  "while others use it.")                                                                  \
	X(rma_batch, BL_KNOB_CHOICE, 0, 0, 2, "auto|always|never",                                 \
	  "Whether one-sided reads and writes of up to 4 KiB that follow each other closely are "  \
	  "kept, up to 64 of them, and done together with the next progress of their origin: "     \
	  "auto is from the second one on, always is the first one, too, for tests; never is for " \
	  "programs whose target looks at its memory while the origin, which has begun several, "  \
	  "makes no progress.")                                                                    \
	X(huge, BL_KNOB_CHOICE, 0, 0, 2, "auto|always|never",                                      \
	  "Whether buffers of messages of 64 KiB and more are put into huge pages, which makes "   \
	  "copies faster: auto is for those that are used often enough to pay for it, always at "  \
	  "the first message, for tests.")                                                         \
	X(spin, BL_KNOB_COUNT, 100, 0, 100000, NULL,                                               \
	  "Polls inside one empty completion queue read, or look for a message (FI_PEEK), that "   \
	  "follows another closely; 0 polls once.")                                                \
	X(yield, BL_KNOB_CHOICE, 0, 0, 1, "auto|library",                                          \
	  "Whether sched_yield does what the MPI library calls it for, as MPICH does after each "  \
	  "look for messages: library is always; auto is not where the look has brought "          \
	  "something, nor in short waits on a core that isn't shared, but each 256th time all "    \
	  "the same, and always while several threads look. That makes MPICH's short messages "    \
	  "three to six times as fast; library is for who wants no word of the MPI library's "     \
	  "memory changed, or has other threads on the same core that wait for each turn. No "     \
	  "other library's calls are answered, nor the program's, unless the MPI library is a "    \
	  "part of it.")                                                                           \
	X(idle, BL_KNOB_CHOICE, 0, 0, 1, "poll|nap",                                               \
	  "What a wait does to which nothing has come for 20 ms: poll goes on asking; nap sleeps " \
	  "until a message comes, but at most for a hundredth of the time waited so far and for "  \
	  "1 ms, so that a rank that waits in MPI for long keeps no core busy. nap is for "        \
	  "programs that wait for messages: one that asks for some (MPI_Test) while it waits, "    \
	  "many times for a short while, for a thread, a file or an accelerator of its own, or "   \
	  "works less than 12 us at a time in between, loses up to 1 ms each time once nothing "   \
	  "has come for 20 ms; so does one in MPI's one-sided epochs in memory that an MPI "       \
	  "library shares by itself.")                                                             \
	X(migrate, BL_KNOB_CHOICE, 0, 0, 1, "auto|never",                                          \
	  "Whether of two processes that talk with each other alone, on a core that they share "   \
	  "where a job has more processes than cores, one goes to another core of those that it "  \
	  "may run on. With auto it does, and stays there as long as messages take at most two "   \
	  "thirds of the time that they took before; never leaves all to the scheduler.")          \
	X(numa, BL_KNOB_CHOICE, 0, 0, 1, "local|off",                                              \
	  "Where an endpoint's shared memory lives: local binds it to the node of the thread "     \
	  "that opens the endpoint, off leaves it to the kernel.")

struct bl_knobs {
#define X(field, kind, init, least, most, choices, help) uint64_t field;
	BL_KNOBS(X)
#undef X
};

struct bl_knob_info {
	const char *name;     /* "eager_max" */
	const char *variable; /* "FI_BEELINE_EAGER_MAX" */
	const char *choices;
	const char *help;
	enum bl_knob_kind kind;
	uint64_t init, least, most;
	size_t offset; /* in struct bl_knobs */
};

extern const struct bl_knob_info bl_knob_table[];
extern const size_t bl_knob_count;

/* The values. The first call reads the environment; a value that can't be used
 * is named on stderr with what is allowed, and its default holds. Any thread. */
const struct bl_knobs *bl_knobs(void);

/* Parse one value as the environment would be; 0 or -EINVAL. */
int bl_knob_parse(const struct bl_knob_info *info, const char *text, uint64_t *value);

#endif
