/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fabric.h: what the files of the provider share: one structure for each kind
 * of libfabric object, each with the libfabric part first and the object of
 * src/endpoint behind it. This layer translates, it does not decide: matching,
 * progress and completion are below.
 *
 * Who may enter: with FI_THREAD_DOMAIN the application serialises all calls on
 * the objects of one domain, as the core demands, and nothing here locks. With
 * every other level (FI_THREAD_SAFE, and FI_THREAD_FID, _ENDPOINT and
 * _COMPLETION, which let two threads work on two endpoints of one domain) each
 * call holds the domain's lock; bl_fi_enter() and the locked half of path.h do
 * that. The level is fixed when the domain is opened, and each object's table
 * of operations is chosen then, so that the unlocked path has no test for it.
 */
#ifndef BL_FABRIC_FABRIC_H
#define BL_FABRIC_FABRIC_H

#include <assert.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "base/compiler.h"
#include "core/mr.h"
#include "endpoint/api.h"

#define BL_FI_PROVIDER	  "beeline"
#define BL_FI_FABRIC	  "beeline"
#define BL_FI_VERSION	  FI_VERSION(0, 1) /* the provider's */
#define BL_FI_DOMAIN	  "beeline0"
#define BL_FI_PROTOCOL	  0x80626c6eu /* the top bit marks a private value */
#define BL_FI_MAX_MSG	  BL_MSG_MOST
#define BL_FI_QUEUE_SIZE  1024	/* what is reported; the core's queues grow */
#define BL_FI_QUEUE_LIMIT 65536 /* the most that a hint may ask for */

struct bl_fi_fabric {
	struct fid_fabric fid;
	_Atomic int domains; /* open ones */
};

struct bl_fi_domain {
	struct fid_domain fid;
	struct bl_fi_fabric *fabric;
	struct bl_domain *core;
	bool locked; /* see above; constant */
	/* Of memory regions: named by addresses, not offsets; keys are ours to choose. */
	bool virtual, chooses_keys;
	_Atomic int poll_sets;	 /* open ones: the core doesn't know them */
	struct bl_fi_path *path; /* the half of path.h that fits; constant */
};

struct bl_fi_av {
	struct fid_av fid;
	struct bl_fi_domain *domain;
	struct bl_av *core;
};

struct bl_fi_cq {
	struct fid_cq fid;
	struct bl_cq *core;
	size_t entry;	       /* bytes of one completion in the queue's format */
	_Atomic int signalled; /* fi_cq_signal was called; the next waiting read takes it */
	enum fi_wait_obj wait;
	struct bl_fi_waitset *waitset; /* NULL: in none */
	struct bl_domain *core_domain;
	struct bl_fi_domain *domain;
};

/* What a counter was at some time. Values alone wouldn't do: one that was reset may be as high
 * again. */
struct bl_fi_count {
	uint64_t value, errors, by_hand;
};

struct bl_fi_cntr {
	struct fid_cntr fid;
	struct bl_cntr *core;
	enum fi_wait_obj wait;
	struct bl_fi_waitset *waitset; /* NULL: in none */
	struct bl_fi_count read;       /* when the application last read it, or waited for it */
	struct bl_fi_count polled;     /* when fi_poll last looked, or it was last set */
	struct bl_fi_domain *domain;
};

/* Called with the domain entered: what it is now, and whether it isn't what it was. */
static inline void bl_fi_count_now(const struct bl_fi_cntr *cntr, struct bl_fi_count *count)
{
	*count = (struct bl_fi_count){cntr->core->value, cntr->core->errors, cntr->core->by_hand};
}

static inline bool bl_fi_count_changed(const struct bl_fi_cntr *cntr,
				       const struct bl_fi_count *since)
{
	return cntr->core->value != since->value || cntr->core->errors != since->errors ||
	       cntr->core->by_hand != since->by_hand;
}

struct bl_fi_ep {
	struct fid_ep fid;
	struct bl_ep *core;
	struct bl_domain *core_domain;
	/* All ones unless FI_DIRECTED_RECV was asked for: or-ed into a receive's
	 * source, it makes the core ignore what the application left there. */
	uint64_t any_source;
	/* Core flags of operations that carry none of their own. */
	uint64_t tx_flags, rx_flags;
	/* Core flags that sendmsg and recvmsg may set, and those they always get. */
	uint64_t tx_mask, rx_mask;
	uint64_t tx_always, rx_always;
	struct bl_cntr *tx_cntr; /* also counts injects, which the core doesn't */

	/* Control only. */
	struct fi_ops_tagged tagged;
	struct fi_ops_msg msg;
	struct bl_fi_domain *domain;
	struct bl_fi_av *av;
	struct bl_fi_cq *tx_cq, *rx_cq;
	bool has_cntr;
	bool tx_selective, rx_selective;
	bool rma, atomic, trigger; /* asked for; else those calls are refused */
	bool enabled;
	uint64_t tx_trigger;	/* BL_TRIGGER: calls without flags are triggered; 0 */
	struct bl_fi_ep *alias; /* of which this is one; NULL: it is none */
	_Atomic int aliases;	/* open ones of it */
	/* Asked for; an endpoint isn't enabled without them. */
	bool shares_rx, shares_tx, has_srx;
	struct bl_fi_stx *stx;
	uint64_t tx_caps, rx_caps;
	uint64_t tx_op_flags, rx_op_flags; /* libfabric's */
	bool tx_of_rma; /* FI_DELIVERY_COMPLETE there isn't for messages (a knob) */
};

struct bl_fi_stx {
	struct fid_stx fid;
	struct bl_fi_domain *domain;
	uint64_t caps;
	_Atomic int users; /* endpoints */
};

struct bl_fi_mr {
	struct fid_mr fid;
	struct bl_mr *core;
	struct bl_fi_domain *domain;
};

struct bl_fi_waitset; /* wait.c */

/* libfabric's part of each structure is its first member. */
static inline struct bl_fi_ep *bl_fi_ep_of(struct fid_ep *fid)
{
	return (struct bl_fi_ep *)fid;
}

static inline struct bl_fi_cq *bl_fi_cq_of(struct fid_cq *fid)
{
	return (struct bl_fi_cq *)fid;
}

static inline void bl_fi_enter(struct bl_fi_domain *domain)
{
	if (domain->locked)
		bl_domain_lock(domain->core);
}

static inline void bl_fi_leave(struct bl_fi_domain *domain)
{
	if (domain->locked)
		bl_domain_unlock(domain->core);
}

/* provider.c */
int bl_fi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* log.c: to libfabric's log by its two functions, as this provider. Either NULL: to stderr. */
void bl_fi_log_open(const struct fi_provider *as, __typeof__(&fi_log_enabled) enabled,
		    __typeof__(&fi_log) put);
void bl_fi_log_close(void);
/* Say why a request is refused, to whoever reads libfabric's log at level info,
 * and return the error. */
int bl_fi_refuse(int error, enum fi_log_subsys subsys, const char *format, ...) bl_printf(3, 4);

/* info.c */
int bl_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		  const struct fi_info *hints, struct fi_info **info);
/* The flags that tx_attr->op_flags and rx_attr->op_flags may hold. */
#define BL_FI_TX_OP_FLAGS                                                                          \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
	 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_TRIGGER)
#define BL_FI_RX_OP_FLAGS (FI_COMPLETION | FI_MULTI_RECV | FI_TRIGGER)
/* All there is when nothing was asked for; else what was, and what is free. */
uint64_t bl_fi_answer_caps(uint64_t asked);
/* 0, or an error: these can't be had. NULL: any. */
int bl_fi_check_tx(const struct fi_tx_attr *attr);
int bl_fi_check_rx(const struct fi_rx_attr *attr);

/* name.c: the address of a service of this node; -FI_ENODATA: the node is another.
 * Without a service, none in particular. */
int bl_fi_name(struct bl_addr *addr, const char *node, const char *service);
/* Have the endpoint's address be fi_info's, if that names a service. */
int bl_fi_take_name(struct bl_ep *ep, const void *src, size_t len);

/* domain.c, av.c, cq.c, cntr.c, eq.c, endpoint.c: opening each kind of object */
int bl_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		      void *context);
int bl_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
		  void *context);
int bl_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		  void *context);
int bl_fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
		    void *context);
int bl_fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		  void *context);
int bl_fi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		  void *context);

/* endpoint.c */
extern struct fi_ops_ep bl_fi_ep_ops;
extern struct fi_ops_cm bl_fi_cm_ops;

/* shared.c */
int bl_fi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
		   void *context);
int bl_fi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
		   void *context);

/* A message that has been delivered has been matched. Both asked for by the flags of one call. */
static inline uint64_t bl_fi_levels(uint64_t flags)
{
	return flags | (flags & FI_MATCH_COMPLETE ? BL_DELIVERY_COMPLETE : 0);
}

/* Flags of sendmsg that are understood by path.h. The middle three change nothing:
 * more to come is only a hint, and a completion without FI_DELIVERY_COMPLETE always
 * means that the buffer is free and the message is where the receiver finds it. */
#define BL_FI_SENDMSG_FLAGS                                                                        \
	(FI_COMPLETION | FI_INJECT | FI_REMOTE_CQ_DATA | FI_MORE | FI_INJECT_COMPLETE |            \
	 FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
/* Of recvmsg. FI_REMOTE_CQ_DATA changes nothing, and MPI libraries pass it with FI_PEEK. */
#define BL_FI_RECVMSG_FLAGS                                                                        \
	(FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_MORE | FI_PEEK | FI_CLAIM | FI_DISCARD |           \
	 FI_TRANSMIT_COMPLETE) /* the last asks for no more than there is anyway */

/* trigger.c: calls with others: FI_TRIGGER, FI_FENCE, or ones that are refused */
bl_cold ssize_t bl_fi_sendmsg_rare(struct bl_fi_ep *ep, const struct fi_msg *msg, uint64_t flags);
bl_cold ssize_t bl_fi_tsendmsg_rare(struct bl_fi_ep *ep, const struct fi_msg_tagged *msg,
				    uint64_t flags);
bl_cold ssize_t bl_fi_recvmsg_rare(struct bl_fi_ep *ep, const struct fi_msg *msg, uint64_t flags);
bl_cold ssize_t bl_fi_trecvmsg_rare(struct bl_fi_ep *ep, const struct fi_msg_tagged *msg,
				    uint64_t flags);
/* Calls without flags are triggered where the endpoint's flags say so. */
void bl_fi_trigger_tables(struct bl_fi_ep *ep);
/* deferred.c: a domain's FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK */
int bl_fi_work_control(struct fid *domain, int command, void *arg);

/* mr.c, rma.c, atomic.c */
extern struct fi_ops_mr bl_fi_mr_ops;
extern struct fi_ops_rma bl_fi_rma_ops;
extern struct fi_ops_atomic bl_fi_atomic_ops;
int bl_fi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		       struct fi_atomic_attr *attr, uint64_t flags);

/* wait.c: 0 for the kinds of wait object there are, else -FI_ENOSYS. */
int bl_fi_check_wait(enum fi_wait_obj wait, enum fi_log_subsys subsys);
bool bl_fi_wait_has_fd(enum fi_wait_obj wait);
/* FI_GETWAIT and FI_GETWAITOBJ, of an object whose descriptor is fd */
int bl_fi_wait_get(enum fi_wait_obj wait, int fd, int command, void *arg);
int bl_fi_wait_control(struct bl_waiter *w, enum fi_wait_obj wait, int command, void *arg);
/* What a queue or counter needs of this kind; *set: the one that it has been put into, if
 * that is what it waits by */
int bl_fi_wait_open(struct bl_waiter *w, enum fi_wait_obj wait, struct fid_wait *in,
		    struct fid *fid, struct bl_fi_waitset **set);
struct bl_fi_waitset *bl_fi_waitset_of(struct fid_wait *fid);
int bl_fi_waitset_add(struct bl_fi_waitset *set, struct fid *fid, int fd);
void bl_fi_waitset_remove(struct bl_fi_waitset *set, struct fid *fid, int fd);
int bl_fi_wait_set_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			struct fid_wait **set);
int bl_fi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set);
int bl_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* cq.c: the parts of a queue's operations that don't depend on locking */
ssize_t bl_fi_cq_error(struct bl_fi_cq *cq, const struct bl_comp_err *from,
		       struct fi_cq_err_entry *to);
int bl_fi_cq_signal(struct fid_cq *cq);
const char *bl_fi_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf,
			      size_t len);

/* refuse.c: operations of libfabric that this provider doesn't have */
extern struct fi_ops_collective bl_fi_no_collective;
extern struct fi_ops_msg bl_fi_no_msg;
extern struct fi_ops_tagged bl_fi_no_tagged;
extern struct fi_ops_ep bl_fi_no_ep_ops;
int bl_fi_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
		    void *context);
int bl_fi_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
		    void *context);
int bl_fi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int bl_fi_no_control(struct fid *fid, int command, void *arg);
int bl_fi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int bl_fi_no_tostr(const struct fid *fid, char *buf, size_t len);
int bl_fi_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

/* path.h, compiled twice: without and with the domain's lock. choose() in endpoint.c
 * makes each endpoint's tables from these. */
struct bl_fi_path {
	/* Constant flags: each operation reports its completion, injects don't count. */
	struct fi_ops_tagged tagged;
	struct fi_ops_msg msg;
	/* Flags read from the endpoint, injects counted. */
	struct fi_ops_tagged tagged_any;
	struct fi_ops_msg msg_any;
	/* A queue whose format is FI_CQ_FORMAT_TAGGED, and any other. */
	struct fi_ops_cq cq_tagged;
	struct fi_ops_cq cq_any;
};
extern struct bl_fi_path bl_fi_path_plain, bl_fi_path_locked;

#endif
