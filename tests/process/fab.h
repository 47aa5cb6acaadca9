/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fab.h: what the cases share on top of libfabric's public interface: opening an
 * endpoint with its queues, exchanging addresses, waiting for completions, and
 * buffers whose bytes are checked.
 *
 * Every operation's context is a struct t_op, which receives its completion, in
 * whatever order completions come. A completion for anything else fails the
 * case. All of a process's open nodes make progress whenever one waits, so no
 * case depends on automatic progress unless it says so. One thread enters; the
 * cases with threads read their queues themselves.
 */
#ifndef TESTS_FAB_H
#define TESTS_FAB_H

#include "harness.h"

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define T_API	   FI_VERSION(1, 17)
#define T_NAME_MAX 256

/* How to open a node. Zeros are the usual: both message kinds, a table, tagged
 * completions, one queue. */
struct t_opts {
	uint64_t caps; /* beyond FI_MSG | FI_TAGGED */
	enum fi_av_type av;
	enum fi_cq_format format;
	enum fi_threading threading;
	uint64_t selective;	     /* FI_SEND and/or FI_RECV: complete only with FI_COMPLETION */
	uint64_t tx_flags, rx_flags; /* the endpoint's default operation flags */
	size_t min_multi_recv;
	size_t iov;   /* buffers per operation that the case needs */
	bool two_cqs; /* sends complete on another queue than receives */
	bool counters;
	int mr_mode;
	bool rma_counters;	  /* of operations on others' memory, and of others' on ours */
	bool uncounted;		  /* but not of others' on ours */
	bool batch_one;		  /* read one completion at a time */
	enum fi_wait_obj wait;	  /* of the queues and counters; 0 is FI_WAIT_NONE */
	struct fid_wait *set;	  /* FI_WAIT_SET: theirs */
	bool cq_data;		  /* the case sends remote completion data of 8 bytes */
	struct fid_av *shared_av; /* instead of one of its own */
	struct fid_ep *srx;	  /* shared contexts, of the same domain */
	struct fid_stx *stx;
};

/* One completion; fields that the queue's format does not carry are T_ABSENT. */
struct t_comp {
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
	fi_addr_t src;
	int err;
	size_t olen;
	unsigned long order; /* counts this process's completions from 1 */
	struct t_node *node; /* in whose queue it was */
};
#define T_ABSENT 0x5bad5bad5bad5badu

struct t_op {
	struct fi_context2 ctx; /* what libfabric sees; must be first */
	unsigned int done;	/* completions so far */
	struct t_comp c;	/* the latest */
	void (*each)(struct t_op *op, const struct t_comp *c); /* optional, on each */
	void *arg;
};

struct t_node {
	struct t_opts o;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq, *txcq; /* txcq is cq unless two_cqs */
	struct fid_cntr *rxcntr, *txcntr;
	struct fid_cntr *rma, *remote; /* rma_counters */
	struct fid_ep *ep;
	bool owns_domain;
	bool watched; /* t_progress reads its queues */
	size_t namelen;
	unsigned char name[T_NAME_MAX];
	fi_addr_t peer[T_PROC_MAX]; /* by rank, after t_connect */
};

/* Who hears of completions that no operation of ours asked for: remote data. NULL:
 * there must be none. */
extern void (*t_foreign)(const struct t_comp *c);

/* Hints for this provider, as the usual node asks; the caller frees them. */
struct fi_info *t_hints(const struct t_opts *o);
/* fi_getinfo on this host; returns its result. */
int t_getinfo(uint32_t version, const struct fi_info *hints, struct fi_info **info);

/* Opens everything up to an enabled endpoint. Lacking capabilities end the case. */
void t_open(struct t_node *n, const struct t_opts *o);
/* The same on the fabric and domain of another node, which must outlive it. */
void t_open_beside(struct t_node *n, const struct t_node *other, const struct t_opts *o);
/* Exchanges addresses with all processes: n->peer[rank] is filled in. */
void t_connect(struct t_node *n);
/* Closes in order; every fi_close must succeed. */
void t_close(struct t_node *n);
/* t_open and t_connect; t_barrier and t_close. */
void t_start(struct t_node *n, const struct t_opts *o);
void t_finish(struct t_node *n);
/* The same with queues in a wait set, which belongs to a fabric: any will do for this provider. */
struct t_set {
	struct fi_info *hints, *info;
	struct fid_fabric *fabric;
	struct fid_wait *wait;
};
void t_start_in_set(struct t_node *n, struct t_opts *o, struct t_set *set);
void t_finish_in_set(struct t_node *n, struct t_set *set);
/* n->av's index of another endpoint of any process, by its name. */
fi_addr_t t_insert(struct t_node *n, const void *name);

/* Reads the queues of all open nodes once. Returns whether anything came. */
bool t_progress(void);
/* Makes progress, giving the core away when nothing comes for a while. */
void t_idle(void);
void t_barrier(void);

/* Repeats a call while it says -FI_EAGAIN, making progress; it must return 0. */
#define T_TRY(call)                                                                                \
	do {                                                                                       \
		ssize_t rc_;                                                                       \
		while ((rc_ = (call)) == -FI_EAGAIN)                                               \
			t_idle();                                                                  \
		T_CHECK(rc_ == 0, "%s: %s", #call, fi_strerror((int)-rc_));                        \
	} while (0)
#define T_OK(call)                                                                                 \
	do {                                                                                       \
		ssize_t rc_ = (call);                                                              \
		T_CHECK(rc_ == 0, "%s: %s", #call, fi_strerror((int)-rc_));                        \
	} while (0)

/* Waits until the operation has completed; it must have succeeded. */
#define T_WAIT(op) t_wait(__FILE__, __LINE__, op, 0)
/* Waits until it has failed with this positive error. */
#define T_WAIT_ERR(op, error) t_wait(__FILE__, __LINE__, op, error)
void t_wait(const char *file, int line, struct t_op *op, int err);

/* --- buffers ------------------------------------------------------------- */
/* len bytes between guards; each lies anywhere, at `skew` from a cache line. */
struct t_buf {
	unsigned char *p;
	size_t len;
	unsigned char *mem;
	size_t mapped; /* not 0: mem is a mapping of so many bytes */
};
struct t_buf t_buf(size_t len, size_t skew);
/* Its last byte is the last of a page, its neighbour is not mapped. */
struct t_buf t_buf_at_end(size_t len);
/* Its first byte is the first of a page, the one before is not mapped. */
struct t_buf t_buf_at_start(size_t len);
void t_buf_free(struct t_buf *b); /* checks the guards */

/* The message of this seed: fill n bytes from `offset` into it. */
void t_fill(void *p, size_t n, uint64_t seed, size_t offset);
/* Fails unless the n bytes are those. */
#define T_SAME(p, n, seed, offset) t_same(__FILE__, __LINE__, p, n, seed, offset)
void t_same(const char *file, int line, const void *p, size_t n, uint64_t seed, size_t offset);
/* Before a receive: all bytes unlike any message. After: the first n bytes are
 * the message of this seed, the rest untouched, the guards whole. */
#define T_BLANK 0xee
void t_blank(struct t_buf *b);
#define T_GOT(b, n, seed) t_got(__FILE__, __LINE__, b, n, seed)
void t_got(const char *file, int line, const struct t_buf *b, size_t n, uint64_t seed);

/* --- sizes --------------------------------------------------------------- */
/* Every length where a protocol may change hands, with its neighbours, in
 * increasing order, up to and including max. */
size_t t_sizes(size_t max, const size_t **sizes);
/* A random length up to max; half of them from the table. */
size_t t_rand_size(struct t_rng *rng, size_t max);

/* --- short cuts ---------------------------------------------------------- */
void t_tsend(struct t_node *n, int rank, const void *buf, size_t len, uint64_t tag,
	     struct t_op *op);
void t_trecv(struct t_node *n, fi_addr_t src, void *buf, size_t len, uint64_t tag, uint64_t ignore,
	     struct t_op *op);
/* An empty tagged message, and waiting for one: what was sent before has come. */
#define T_MARK_TAG 0x7e57000000000000u
void t_mark(struct t_node *n, int rank, uint64_t number);
void t_wait_mark(struct t_node *n, int rank, uint64_t number);

#endif
