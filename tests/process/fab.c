/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fab.c: endpoints, completions and short cuts of the cases (see fab.h). Owns
 * the list of open nodes of this process; one thread enters.
 */
#include "fab.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NODES_MAX 64
#define BATCH	  16

static struct t_node *nodes[NODES_MAX];
static int nnodes;
static unsigned long completions;
void (*t_foreign)(const struct t_comp *c);

/* Providers that are reached by an IP address rather than by a name of their own. */
static bool by_ip(void)
{
	return strstr(t_provider, "tcp") || strstr(t_provider, "net") ||
	       strstr(t_provider, "udp") || !strcmp(t_provider, "sockets");
}

struct fi_info *t_hints(const struct t_opts *o)
{
	struct fi_info *h = fi_allocinfo();

	T_CHECK(h, "fi_allocinfo");
	h->fabric_attr->prov_name = strdup(t_provider);
	h->caps = FI_MSG | FI_TAGGED | o->caps;
	h->mode = t_beeline ? 0 : FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = o->mr_mode;
	h->domain_attr->threading = o->threading;
	h->domain_attr->av_type = o->av;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->cq_data_size = o->cq_data ? 8 : 0;
	h->tx_attr->msg_order = FI_ORDER_SAS;
	h->rx_attr->msg_order = FI_ORDER_SAS;
	h->tx_attr->op_flags = o->tx_flags;
	h->rx_attr->op_flags = o->rx_flags;
	h->tx_attr->iov_limit = o->iov;
	h->rx_attr->iov_limit = o->iov;
	if (o->srx)
		h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	if (o->stx)
		h->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	return h;
}

int t_getinfo(uint32_t version, const struct fi_info *hints, struct fi_info **info)
{
	static bool narrowed;

	if (!narrowed) {
		/* Only our provider is of interest; others cost a second to load. */
		char list[64], *semicolon;

		snprintf(list, sizeof(list), "%s", t_provider);
		semicolon = strchr(list, ';');
		if (semicolon)
			*semicolon = ',';
		setenv("FI_PROVIDER", list, 0);
		narrowed = true;
	}
	if (by_ip())
		return fi_getinfo(version, "127.0.0.1", NULL, FI_SOURCE, hints, info);
	return fi_getinfo(version, NULL, NULL, 0, hints, info);
}

static void open_queues(struct t_node *n)
{
	struct fi_cq_attr cq = {
		.format = n->o.format, .size = 1024, .wait_obj = n->o.wait, .wait_set = n->o.set};
	struct fi_cntr_attr cntr = {
		.events = FI_CNTR_EVENTS_COMP, .wait_obj = n->o.wait, .wait_set = n->o.set};
	uint64_t tx = FI_TRANSMIT, rx = FI_RECV;

	if (n->o.selective & FI_SEND)
		tx |= FI_SELECTIVE_COMPLETION;
	if (n->o.selective & FI_RECV)
		rx |= FI_SELECTIVE_COMPLETION;
	T_OK(fi_cq_open(n->domain, &cq, &n->cq, n));
	if (n->o.two_cqs)
		T_OK(fi_cq_open(n->domain, &cq, &n->txcq, n));
	else
		n->txcq = n->cq;
	T_OK(fi_ep_bind(n->ep, &n->txcq->fid, tx));
	T_OK(fi_ep_bind(n->ep, &n->cq->fid, rx));
	if (n->o.counters) {
		T_OK(fi_cntr_open(n->domain, &cntr, &n->rxcntr, n));
		T_OK(fi_cntr_open(n->domain, &cntr, &n->txcntr, n));
		T_OK(fi_ep_bind(n->ep, &n->txcntr->fid, FI_SEND));
		T_OK(fi_ep_bind(n->ep, &n->rxcntr->fid, FI_RECV));
	}
	if (n->o.rma_counters) {
		T_OK(fi_cntr_open(n->domain, &cntr, &n->rma, n));
		T_OK(fi_cntr_open(n->domain, &cntr, &n->remote, n));
		T_OK(fi_ep_bind(n->ep, &n->rma->fid, FI_READ | FI_WRITE));
		if (!n->o.uncounted)
			T_OK(fi_ep_bind(n->ep, &n->remote->fid, FI_REMOTE_READ | FI_REMOTE_WRITE));
	}
}

static void open_endpoint(struct t_node *n)
{
	struct fi_av_attr av = {.type = n->o.av};

	T_OK(fi_endpoint(n->domain, n->info, &n->ep, n));
	if (n->o.shared_av)
		n->av = n->o.shared_av;
	else
		T_OK(fi_av_open(n->domain, &av, &n->av, n));
	T_OK(fi_ep_bind(n->ep, &n->av->fid, 0));
	if (n->o.srx)
		T_OK(fi_ep_bind(n->ep, &n->o.srx->fid, 0));
	if (n->o.stx)
		T_OK(fi_ep_bind(n->ep, &n->o.stx->fid, 0));
	open_queues(n);
	if (n->o.min_multi_recv)
		T_OK(fi_setopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
			       &n->o.min_multi_recv, sizeof(n->o.min_multi_recv)));
	T_OK(fi_enable(n->ep));
	n->namelen = sizeof(n->name);
	T_OK(fi_getname(&n->ep->fid, n->name, &n->namelen));
	T_CHECK(nnodes < NODES_MAX, "too many nodes");
	nodes[nnodes++] = n;
	n->watched = true;
}

static void take_defaults(struct t_node *n, const struct t_opts *o)
{
	memset(n, 0, sizeof(*n));
	if (o)
		n->o = *o;
	if (n->o.av == FI_AV_UNSPEC)
		n->o.av = FI_AV_TABLE;
	if (n->o.format == FI_CQ_FORMAT_UNSPEC)
		n->o.format = FI_CQ_FORMAT_TAGGED;
	if (n->o.threading == FI_THREAD_UNSPEC && t_beeline)
		n->o.threading = FI_THREAD_DOMAIN;
}

static void ask(struct t_node *n)
{
	struct fi_info *hints = t_hints(&n->o);
	int rc = t_getinfo(T_API, hints, &n->info);

	if (rc == -FI_ENODATA) {
		char what[128];

		fi_freeinfo(hints);
		hints = t_hints(&(struct t_opts){0});
		if (t_getinfo(T_API, hints, &n->info))
			T_FAIL("fi_getinfo: no provider %s here", t_provider);
		snprintf(what, sizeof(what), "caps 0x%llx, order SAS, threading %d, %zu iovs",
			 (unsigned long long)n->o.caps, n->o.threading, n->o.iov);
		t_lacks(what);
	}
	T_CHECK(rc == 0, "fi_getinfo: %s", fi_strerror(-rc));
	fi_freeinfo(hints);
}

void t_open(struct t_node *n, const struct t_opts *o)
{
	take_defaults(n, o);
	ask(n);
	T_OK(fi_fabric(n->info->fabric_attr, &n->fabric, n));
	T_OK(fi_domain(n->fabric, n->info, &n->domain, n));
	n->owns_domain = true;
	open_endpoint(n);
}

void t_open_beside(struct t_node *n, const struct t_node *other, const struct t_opts *o)
{
	take_defaults(n, o);
	ask(n);
	n->fabric = other->fabric;
	n->domain = other->domain;
	open_endpoint(n);
}

fi_addr_t t_insert(struct t_node *n, const void *name)
{
	fi_addr_t addr = FI_ADDR_NOTAVAIL;
	int rc = fi_av_insert(n->av, name, 1, &addr, 0, NULL);

	T_CHECK(rc == 1, "fi_av_insert returned %d", rc);
	T_CHECK(addr != FI_ADDR_NOTAVAIL, "fi_av_insert gave no address");
	return addr;
}

void t_connect(struct t_node *n)
{
	unsigned char all[T_PROC_MAX * T_NAME_MAX];

	t_allgather(n->name, T_NAME_MAX, all, t_progress);
	for (int i = 0; i < t_nproc; i++)
		n->peer[i] = t_insert(n, all + i * T_NAME_MAX);
}

void t_close(struct t_node *n)
{
	for (int i = 0; i < nnodes; i++) {
		if (nodes[i] == n) {
			nodes[i] = nodes[--nnodes];
			break;
		}
	}
	if (n->ep) /* else the test has closed it */
		T_OK(fi_close(&n->ep->fid));
	if (n->o.counters) {
		T_OK(fi_close(&n->rxcntr->fid));
		T_OK(fi_close(&n->txcntr->fid));
	}
	if (n->o.rma_counters) {
		T_OK(fi_close(&n->rma->fid));
		T_OK(fi_close(&n->remote->fid));
	}
	if (n->o.two_cqs)
		T_OK(fi_close(&n->txcq->fid));
	T_OK(fi_close(&n->cq->fid));
	if (!n->o.shared_av)
		T_OK(fi_close(&n->av->fid));
	if (n->owns_domain) {
		T_OK(fi_close(&n->domain->fid));
		T_OK(fi_close(&n->fabric->fid));
	}
	fi_freeinfo(n->info);
	memset(n, 0, sizeof(*n));
}

void t_start_in_set(struct t_node *n, struct t_opts *o, struct t_set *set)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};

	o->wait = FI_WAIT_SET;
	set->hints = t_hints(o);
	T_OK(t_getinfo(T_API, set->hints, &set->info));
	T_OK(fi_fabric(set->info->fabric_attr, &set->fabric, NULL));
	T_OK(fi_wait_open(set->fabric, &attr, &set->wait));
	o->set = set->wait;
	t_start(n, o);
}

void t_finish_in_set(struct t_node *n, struct t_set *set)
{
	t_finish(n);
	T_OK(fi_close(&set->wait->fid));
	T_OK(fi_close(&set->fabric->fid));
	fi_freeinfo(set->info);
	fi_freeinfo(set->hints);
}

void t_start(struct t_node *n, const struct t_opts *o)
{
	t_open(n, o);
	t_connect(n);
}

void t_finish(struct t_node *n)
{
	t_barrier();
	t_close(n);
}

/* --- completions ---------------------------------------------------------- */

static void deliver(void *context, const struct t_comp *c)
{
	struct t_op *op = context;

	if (!op && t_foreign) {
		t_foreign(c);
		return;
	}
	T_CHECK(op, "a completion without context: flags 0x%llx, error %d (%s)",
		(unsigned long long)c->flags, c->err, fi_strerror(c->err));
	op->c = *c;
	op->c.order = ++completions;
	op->done++;
	if (op->each)
		op->each(op, &op->c);
}

static void deliver_error(struct t_node *n, struct fid_cq *cq)
{
	struct fi_cq_err_entry e = {0};
	struct t_comp c;
	ssize_t got = fi_cq_readerr(cq, &e, 0);

	if (got == -FI_EAGAIN)
		return;
	T_CHECK(got == 1, "fi_cq_readerr after -FI_EAVAIL returned %zd", got);
	T_CHECK(e.err > 0, "fi_cq_readerr: err is %d", e.err);
	c = (struct t_comp){.flags = e.flags,
			    .len = e.len,
			    .buf = e.buf,
			    .data = e.data,
			    .tag = e.tag,
			    .src = FI_ADDR_NOTAVAIL,
			    .err = e.err,
			    .olen = e.olen,
			    .node = n};
	deliver(e.op_context, &c);
}

static size_t entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_CONTEXT:
		return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	default:
		return sizeof(struct fi_cq_tagged_entry);
	}
}

static bool read_queue(struct t_node *n, struct fid_cq *cq)
{
	size_t size = entry_size(n->o.format);
	unsigned char raw[(BATCH + 1) * sizeof(struct fi_cq_tagged_entry)];
	fi_addr_t src[BATCH];
	size_t max = n->o.batch_one ? 1 : BATCH;
	ssize_t got;

	memset(raw, 0xc3, sizeof(raw));
	for (size_t i = 0; i < max; i++)
		src[i] = FI_ADDR_NOTAVAIL;
	if (n->o.caps & FI_SOURCE)
		got = fi_cq_readfrom(cq, raw, max, src);
	else
		got = fi_cq_read(cq, raw, max);
	if (got == -FI_EAGAIN || got == 0)
		return false;
	if (got == -FI_EAVAIL) {
		deliver_error(n, cq);
		return true;
	}
	T_CHECK(got > 0 && (size_t)got <= max, "fi_cq_read returned %zd (%s)", got,
		got < 0 ? fi_strerror((int)-got) : "more than asked");
	for (size_t i = size * max; i < sizeof(raw); i++)
		T_CHECK(raw[i] == 0xc3, "fi_cq_read wrote beyond its %zd entries of %zu bytes", got,
			size);
	for (ssize_t i = 0; i < got; i++) {
		struct fi_cq_tagged_entry e = {.flags = T_ABSENT,
					       .len = T_ABSENT,
					       .buf = (void *)T_ABSENT,
					       .data = T_ABSENT,
					       .tag = T_ABSENT};
		struct t_comp c;

		memcpy(&e, raw + size * (size_t)i, size);
		c = (struct t_comp){.flags = e.flags,
				    .len = e.len,
				    .buf = e.buf,
				    .data = e.data,
				    .tag = e.tag,
				    .src = src[i],
				    .node = n};
		deliver(e.op_context, &c);
	}
	return true;
}

bool t_progress(void)
{
	bool any = false;

	for (int i = 0; i < nnodes; i++) {
		struct t_node *n = nodes[i];

		if (!n->watched)
			continue;
		any |= read_queue(n, n->cq);
		if (n->txcq != n->cq)
			any |= read_queue(n, n->txcq);
	}
	return any;
}

void t_idle(void)
{
	static int idle;

	if (t_progress())
		idle = 0;
	else if (++idle > 100)
		sched_yield();
}

void t_barrier(void)
{
	t_barrier_with(t_progress);
}

void t_wait(const char *file, int line, struct t_op *op, int err)
{
	const char *slash = strrchr(file, '/');

	t_at("%s:%d: waiting for a completion", slash ? slash + 1 : file, line);
	while (!op->done)
		t_idle();
	if (op->c.err != err)
		t_fail(file, line, "completed with error %d (%s), expected %d (%s)", op->c.err,
		       fi_strerror(op->c.err), err, fi_strerror(err));
	t_at("%s:%d: completed", slash ? slash + 1 : file, line);
}

/* --- short cuts ------------------------------------------------------------ */

void t_tsend(struct t_node *n, int rank, const void *buf, size_t len, uint64_t tag, struct t_op *op)
{
	op->done = 0;
	T_TRY(fi_tsend(n->ep, buf, len, NULL, n->peer[rank], tag, op));
}

void t_trecv(struct t_node *n, fi_addr_t src, void *buf, size_t len, uint64_t tag, uint64_t ignore,
	     struct t_op *op)
{
	op->done = 0;
	T_TRY(fi_trecv(n->ep, buf, len, NULL, src, tag, ignore, op));
}

void t_mark(struct t_node *n, int rank, uint64_t number)
{
	T_TRY(fi_tinject(n->ep, NULL, 0, n->peer[rank],
			 T_MARK_TAG | (uint64_t)t_rank << 32 | number));
}

void t_wait_mark(struct t_node *n, int rank, uint64_t number)
{
	struct t_op op = {0};
	bool selective = n->o.selective & FI_RECV;
	struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC,
				    .tag = T_MARK_TAG | (uint64_t)rank << 32 | number,
				    .context = &op};

	T_TRY(fi_trecvmsg(n->ep, &msg, selective ? FI_COMPLETION : 0));
	T_WAIT(&op);
}
