/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * beeline.h: messages between the processes of one node, as an MPI library
 * wants them: sent to a peer under a tag and a context, received by source, tag
 * and context with wildcards, matched and ordered here. For authors of MPI
 * libraries and other runtimes; MPI programs need none of it (see
 * fi_beeline(7)).
 *
 * The interface is LiMIC's: isend and irecv by peer, tag and context, wait,
 * iprobe, independent of the MPI library above and of how the bytes move below
 * (H.-W. Jin, S. Sur, L. Chai, D. K. Panda, "LiMIC: Support for
 * High-Performance MPI Intra-Node Communication on Linux Cluster", ICPP 2005).
 * A large message is copied once, by both processes when both are inside the
 * library (H.-W. Jin, S. Sur, L. Chai, D. K. Panda, "Lightweight Kernel-Level
 * Primitives for High-Performance MPI Intra-Node Communication over Multi-Core
 * Systems", Cluster 2007, has the single copy).
 *
 * In short: open an endpoint, give its address to the others by any means
 * (PMI, a file, a pipe), add theirs, and communicate:
 *
 *	struct beeline_endpoint *ep;
 *	struct beeline_address mine, theirs;
 *	struct beeline_status status;
 *	int peer;
 *
 *	beeline_open(&ep, 0);
 *	beeline_get_address(ep, &mine);
 *	... exchange mine and theirs ...
 *	beeline_add_peer(ep, &theirs, &peer);
 *	beeline_send(ep, "hello", 6, peer, 1, 0);
 *	beeline_recv(ep, buf, sizeof buf, beeline_from(peer, 1, 0), &status);
 *	beeline_close(ep);
 *
 * These rules hold for every function unless its comment says otherwise:
 *
 * Lengths are bytes. Names begin with beeline_ or BEELINE_.
 *
 * Errors. 0 is success, a negative errno is an error; beeline_strerror() says
 * what it means. A failed call has done nothing. -EINVAL: an argument is out of
 * its range. An endpoint, and any pointer described as an output, must not be
 * NULL unless that is allowed; that is not checked.
 *
 * Ownership. An endpoint, a request and a claimed message are the library's
 * memory; the caller holds a pointer until beeline_close(), until the request
 * is complete, or until the message is received. A buffer is the caller's; it
 * must stay, and stay unchanged (a receive's: untouched), until its operation
 * is complete.
 *
 * Threads. By default one thread at a time may be inside the functions that
 * concern one endpoint (its requests and messages included); different
 * endpoints have nothing in common. An endpoint opened with
 * BEELINE_THREAD_SAFE may be used by any number of threads at once, but each
 * request by one of them. A process that forks must open its endpoints in the
 * child: endpoints don't survive a fork.
 *
 * Progress. Messages move while one of the two processes is inside the library.
 * Every function with "makes progress" in its comment does so; a program that
 * computes for long and wants to be receptive calls beeline_progress() now and
 * then. No function but beeline_wait(), beeline_waitall(), beeline_waitany(),
 * beeline_send() and beeline_recv() waits for anything, and those spin, yielding
 * their processor from time to time.
 *
 * Order. Messages from one endpoint to another that a receive could both match
 * are matched in the order in which they were sent, receives in the order in
 * which they were posted, as in MPI.
 */
#ifndef BEELINE_H
#define BEELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BEELINE_API __attribute__((visibility("default")))
#else
#define BEELINE_API
#endif

/* --- version ------------------------------------------------------------ */

#define BEELINE_VERSION_MAJOR 0
#define BEELINE_VERSION_MINOR 1
#define BEELINE_VERSION_PATCH 0
/* One number that can be compared: 0x000100 is 0.1.0. */
#define BEELINE_VERSION                                                                            \
	(BEELINE_VERSION_MAJOR << 16 | BEELINE_VERSION_MINOR << 8 | BEELINE_VERSION_PATCH)

/* The version of the library that is loaded, to compare with BEELINE_VERSION,
 * that of the header. Any thread. No errors. */
BEELINE_API uint32_t beeline_version(void);

/* What an error code (of either sign) of this library means, in English; never
 * NULL. The text is constant and stays. Any thread. */
BEELINE_API const char *beeline_strerror(int error);

/* --- endpoints and peers ------------------------------------------------- */

/* Where messages come from and go to. A process may have several. */
struct beeline_endpoint;

/* beeline_open(): several threads may use the endpoint at once. */
#define BEELINE_THREAD_SAFE 0x1u

/*
 * Open an endpoint and make it reachable. It is bound to the NUMA node where
 * the calling thread runs, so bind the thread first (each process's memory is its
 * own, on its own node: P. Ekman, "Design Considerations for Shared Memory MPI
 * Implementations on Linux NUMA Systems: An MPICH/MPICH2 Case Study"). flags: 0
 * or BEELINE_THREAD_SAFE. The caller owns *ep until beeline_close(). Any thread.
 * -ENOMEM, -ENOSPC: no memory for its segment; -EMFILE, -ENFILE: no file
 * descriptors; other errors of the system.
 */
BEELINE_API int beeline_open(struct beeline_endpoint **ep, unsigned flags);

/*
 * Close it. Messages whose send is complete still arrive. Whatever isn't
 * complete is dropped and its requests are gone; peers see errors where they
 * depend on it. No other thread may be inside. ep may be NULL. May wait up to a
 * second for a neighbour to take what it is owed.
 */
BEELINE_API void beeline_close(struct beeline_endpoint *ep);

/* Where an endpoint can be reached: plain bytes, the same on every machine. */
#define BEELINE_ADDRESS_SIZE 64
struct beeline_address {
	unsigned char bytes[BEELINE_ADDRESS_SIZE];
};

/* The endpoint's own address, to be given to whoever is to talk to it. It names
 * this endpoint only, never one opened later. No errors. */
BEELINE_API void beeline_get_address(struct beeline_endpoint *ep, struct beeline_address *address);

/*
 * Make a peer known. Peers are numbered from 0 in the order of their adding,
 * and stay until the endpoint is closed; an endpoint may add itself. Nothing is
 * opened before the first message, so adding thousands costs little. -EINVAL:
 * the bytes are no address of a version that this library understands.
 * -ENOMEM.
 */
BEELINE_API int beeline_add_peer(struct beeline_endpoint *ep, const struct beeline_address *address,
				 int *peer);

/* --- what is matched ------------------------------------------------------ */

#define BEELINE_ANY_SOURCE     (-1) /* in a match: whoever sent it */
#define BEELINE_UNKNOWN_SOURCE (-2) /* in a status: a sender that was never added as a peer */
#define BEELINE_ANY_TAG	       0u   /* a tag mask: no bit of the tag counts */
#define BEELINE_EXACT_TAG      0xffffffffu /* a tag mask: every bit counts */

/* Which messages a receive or a probe takes: those from `source`, whose tag
 * agrees with `tag` in the bits set in `tag_mask`, and whose context is
 * `context` (MPI's communicator: contexts never mix). */
struct beeline_match {
	int source;
	uint32_t tag;
	uint32_t tag_mask;
	uint32_t context;
};

/* One source (or BEELINE_ANY_SOURCE) and one tag. */
static inline struct beeline_match beeline_from(int source, uint32_t tag, uint32_t context)
{
	struct beeline_match match = {source, tag, BEELINE_EXACT_TAG, context};

	return match;
}

/* One source (or BEELINE_ANY_SOURCE), any tag. */
static inline struct beeline_match beeline_from_any_tag(int source, uint32_t context)
{
	struct beeline_match match = {source, 0, BEELINE_ANY_TAG, context};

	return match;
}

/* What became of an operation. */
struct beeline_status {
	int source;	  /* receives: peer number or BEELINE_UNKNOWN_SOURCE; sends: destination */
	int error;	  /* 0 or the negative errno that the operation ended with */
	uint32_t tag;	  /* the message's */
	uint32_t context; /* the message's */
	size_t length;	  /* bytes that are in the buffer (receive), that were sent, or that a
			   * probed message has */
	size_t sent;	  /* bytes the message has; more than `length` when it was truncated */
};

/* --- sending and receiving ------------------------------------------------- */

/* An operation under way. */
struct beeline_request;

/*
 * Start to send `length` bytes to a peer. It never waits: what finds no room
 * now, or no connection yet, is kept in order and leaves when progress is made.
 * *request is complete when buf may be used again; that says nothing about the
 * receive. Makes no progress.
 * -ENOMEM. A reason why the peer can't be reached may be returned at once, or
 * be the request's error later: -EHOSTUNREACH: it is on another host.
 * -ENETUNREACH: in another network namespace. -ECONNREFUSED: not there any
 * more. -EPERM: another user's. -ECONNRESET: it died. -ENOTCONN: it was closed.
 * -EPROTO: it doesn't follow the protocol. -EUSERS: too many neighbours.
 */
BEELINE_API int beeline_isend(struct beeline_endpoint *ep, const void *buf, size_t length, int peer,
			      uint32_t tag, uint32_t context, struct beeline_request **request);

/* The same, but the request is complete only when a receive has the message
 * (MPI_Issend). */
BEELINE_API int beeline_issend(struct beeline_endpoint *ep, const void *buf, size_t length,
			       int peer, uint32_t tag, uint32_t context,
			       struct beeline_request **request);

/*
 * Post a receive of up to `length` bytes. A longer message is cut: the request
 * ends with -EMSGSIZE, status.length is what the buffer holds and status.sent
 * what the message had. Other errors of the request: -ECANCELED: by
 * beeline_cancel(). -ECONNRESET: the source died (a receive from
 * BEELINE_ANY_SOURCE goes on waiting). Makes no progress. -ENOMEM; reasons why
 * the source can't be reached as for beeline_isend().
 */
BEELINE_API int beeline_irecv(struct beeline_endpoint *ep, void *buf, size_t length,
			      struct beeline_match match, struct beeline_request **request);

/*
 * Send and wait until the buffer may be used again (MPI_Send). Makes progress.
 * The errors of beeline_isend() and of its request.
 */
BEELINE_API int beeline_send(struct beeline_endpoint *ep, const void *buf, size_t length, int peer,
			     uint32_t tag, uint32_t context);

/*
 * Receive and wait (MPI_Recv). status may be NULL. Makes progress. The errors
 * of beeline_irecv() and of its request; after -EMSGSIZE the buffer holds the
 * message's beginning.
 */
BEELINE_API int beeline_recv(struct beeline_endpoint *ep, void *buf, size_t length,
			     struct beeline_match match, struct beeline_status *status);

/* --- completion ------------------------------------------------------------- */

/*
 * Each function here makes progress on the endpoints of the requests it is
 * given. A complete request is freed and its pointer set to NULL; a NULL request
 * counts as complete, with an empty status. status, statuses: NULL if not
 * wanted.
 */

/* Wait for one. Returns the operation's error. */
BEELINE_API int beeline_wait(struct beeline_request **request, struct beeline_status *status);

/* Look whether one is complete. 1: it is; 0: not yet; negative: it is complete,
 * with this error. */
BEELINE_API int beeline_test(struct beeline_request **request, struct beeline_status *status);

/* Wait for all `count`. Returns the error of the first in the array that has
 * one, after all are complete; statuses: an array of `count`. */
BEELINE_API int beeline_waitall(size_t count, struct beeline_request **requests,
				struct beeline_status *statuses);

/*
 * Look for any one that is complete, from the array's beginning. Returns as
 * beeline_test(); *index says which it was. When all are NULL: 1, and *index is
 * count.
 */
BEELINE_API int beeline_testany(size_t count, struct beeline_request **requests, size_t *index,
				struct beeline_status *status);

/* Wait for any one. Returns that operation's error; *index as for
 * beeline_testany(). */
BEELINE_API int beeline_waitany(size_t count, struct beeline_request **requests, size_t *index,
				struct beeline_status *status);

/* Make progress, without asking for anything. 0. */
BEELINE_API int beeline_progress(struct beeline_endpoint *ep);

/*
 * Take an operation back: a receive that has matched nothing yet, or a send
 * that hasn't left. 0: done; the request is complete, with -ECANCELED, and
 * still has to be waited for or tested. -EALREADY: too late, it completes as if
 * this hadn't been called. A NULL request is too late, too. Makes no progress.
 */
BEELINE_API int beeline_cancel(struct beeline_request *request);

/* --- probing ---------------------------------------------------------------- */

/*
 * Is there a message that a receive with this match would get? 1: yes, and
 * *status (may be NULL) describes it; 0: not now; negative: an error. It stays
 * where it is; while receives of other threads may take it, use
 * beeline_improbe(). Makes progress. -ENOMEM; reasons why the source can't be
 * reached as for beeline_isend().
 */
BEELINE_API int beeline_iprobe(struct beeline_endpoint *ep, struct beeline_match match,
			       struct beeline_status *status);

/* A message that was claimed by beeline_improbe(): no receive can match it. */
struct beeline_message;

/* As beeline_iprobe(), and claims the message: *message is the caller's until
 * beeline_imrecv() (MPI_Improbe). */
BEELINE_API int beeline_improbe(struct beeline_endpoint *ep, struct beeline_match match,
				struct beeline_message **message, struct beeline_status *status);

/* Receive a claimed message, as beeline_irecv() does; *message becomes NULL
 * (MPI_Imrecv). -ENOMEM: it is still claimed. */
BEELINE_API int beeline_imrecv(void *buf, size_t length, struct beeline_message **message,
			       struct beeline_request **request);

#ifdef __cplusplus
}
#endif

#endif
