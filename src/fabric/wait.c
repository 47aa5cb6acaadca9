/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wait.c: waiting objects: what fi_control(FI_GETWAIT) hands out, fi_trywait, wait
 * sets and poll sets. The sleeping itself is the core's (endpoint/wait.h) for queues of
 * completions and counters, eq.c's for event queues. A wait set is an epoll
 * instance with its members' descriptors in it.
 *
 * A set's list of members has a lock of its own, since an event queue belongs to no
 * domain; it is taken before a domain's.
 */
#include "fabric/fabric.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"

struct member {
	struct member *next;
	struct fid *fid;
};

struct bl_fi_waitset {
	struct fid_wait fid;
	pthread_mutex_t lock;
	struct member *members;
	enum fi_wait_obj wait;
	int epoll;
	pid_t owner; /* a forked child shares the epoll instance, and takes nothing out of it */
};

struct pollset {
	struct fid_poll fid;
	pthread_mutex_t lock;
	struct member *members;
	struct bl_fi_domain *domain;
};

static int list_add(struct member **list, struct fid *fid)
{
	struct member *m = malloc(sizeof *m);

	if (!m)
		return -FI_ENOMEM;
	*m = (struct member){*list, fid};
	*list = m;
	return 0;
}

static int list_remove(struct member **list, const struct fid *fid)
{
	for (struct member **at = list, *m; (m = *at); at = &m->next)
		if (m->fid == fid) {
			*at = m->next;
			free(m);
			return 0;
		}
	return -FI_ENOENT;
}

static bool list_has(const struct member *m, const struct fid *fid)
{
	while (m && m->fid != fid)
		m = m->next;
	return m;
}

/* --- the objects of queues and counters ------------------------------------------------ */

int bl_fi_check_wait(enum fi_wait_obj wait, enum fi_log_subsys subsys)
{
	switch (wait) {
	case FI_WAIT_NONE:
	case FI_WAIT_UNSPEC:
	case FI_WAIT_SET:
	case FI_WAIT_FD:
	case FI_WAIT_YIELD: /* a waiting read gives its core away, in whatever way */
	case FI_WAIT_POLLFD:
		return 0;
	default:
		return bl_fi_refuse(-FI_ENOSYS, subsys, "wait object %d is not offered", wait);
	}
}

bool bl_fi_wait_has_fd(enum fi_wait_obj wait)
{
	return wait == FI_WAIT_FD || wait == FI_WAIT_POLLFD || wait == FI_WAIT_SET;
}

int bl_fi_wait_get(enum fi_wait_obj wait, int fd, int command, void *arg)
{
	struct fi_wait_pollfd *pollfd = arg;

	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *)arg = wait;
		return 0;
	}
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	switch (wait) {
	case FI_WAIT_FD:
		*(int *)arg = fd;
		return 0;
	case FI_WAIT_POLLFD:
		if (pollfd->nfds < 1) {
			pollfd->nfds = 1;
			return -FI_ETOOSMALL;
		}
		pollfd->change_index = 1; /* the descriptor never changes */
		pollfd->nfds = 1;
		pollfd->fd[0] = (struct pollfd){.fd = fd, .events = POLLIN};
		return 0;
	default:
		return -FI_ENODATA;
	}
}

int bl_fi_wait_control(struct bl_waiter *w, enum fi_wait_obj wait, int command, void *arg)
{
	return bl_fi_wait_get(wait, bl_fi_wait_has_fd(wait) ? w->epoll : -1, command, arg);
}

/* Put a member with its descriptor into a set. */
int bl_fi_waitset_add(struct bl_fi_waitset *set, struct fid *fid, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ret;

	pthread_mutex_lock(&set->lock);
	ret = list_add(&set->members, fid);
	if (!ret && epoll_ctl(set->epoll, EPOLL_CTL_ADD, fd, &event)) {
		ret = -errno;
		list_remove(&set->members, fid);
	}
	pthread_mutex_unlock(&set->lock);
	return ret;
}

/* That its descriptor is closed next isn't enough: a process that was forked may hold another. */
void bl_fi_waitset_remove(struct bl_fi_waitset *set, struct fid *fid, int fd)
{
	if (!set)
		return;
	pthread_mutex_lock(&set->lock);
	if (set->owner == getpid())
		epoll_ctl(set->epoll, EPOLL_CTL_DEL, fd, NULL);
	list_remove(&set->members, fid);
	pthread_mutex_unlock(&set->lock);
}

struct bl_fi_waitset *bl_fi_waitset_of(struct fid_wait *fid)
{
	return fid ? bl_containerof(fid, struct bl_fi_waitset, fid) : NULL;
}

int bl_fi_wait_open(struct bl_waiter *w, enum fi_wait_obj wait, struct fid_wait *in,
		    struct fid *fid, struct bl_fi_waitset **set)
{
	int fd, ret;

	if (!bl_fi_wait_has_fd(wait))
		return 0;
	if (wait == FI_WAIT_SET && !in)
		return -FI_EINVAL;
	fd = bl_wait_fd(w);
	if (fd < 0)
		return fd;
	if (wait != FI_WAIT_SET)
		return 0;
	ret = bl_fi_waitset_add(bl_fi_waitset_of(in), fid, fd);
	if (!ret)
		*set = bl_fi_waitset_of(in);
	return ret;
}

/* --- fi_trywait ---------------------------------------------------------------------------- */

static int try_cq(struct bl_fi_cq *cq)
{
	int ret;

	bl_fi_enter(cq->domain);
	ret = bl_wait_try(&cq->core->wait);
	bl_fi_leave(cq->domain);
	return ret;
}

/* A counter has news when it isn't what it was when it was last read, whoever changed it. */
static int try_cntr(struct bl_fi_cntr *cntr)
{
	int ret;

	bl_fi_enter(cntr->domain);
	ret = bl_wait_try(&cntr->core->wait);
	if (!ret && bl_fi_count_changed(cntr, &cntr->read))
		ret = -FI_EAGAIN;
	bl_fi_leave(cntr->domain);
	return ret;
}

/* A look at the first event of a queue, with no room for it. */
static int try_eq(struct fid_eq *eq)
{
	uint32_t event;
	char none;

	return fi_eq_read(eq, &event, &none, 0, FI_PEEK) == -FI_EAGAIN ? 0 : -FI_EAGAIN;
}

static int try_one(struct fid *fid);

static int try_set(struct bl_fi_waitset *set)
{
	int ret = 0;

	pthread_mutex_lock(&set->lock);
	for (struct member *m = set->members; m && !ret; m = m->next)
		ret = try_one(m->fid);
	pthread_mutex_unlock(&set->lock);
	return ret;
}

static int try_one(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return try_cq(bl_containerof(fid, struct bl_fi_cq, fid.fid));
	case FI_CLASS_CNTR:
		return try_cntr(bl_containerof(fid, struct bl_fi_cntr, fid.fid));
	case FI_CLASS_EQ:
		return try_eq(bl_containerof(fid, struct fid_eq, fid));
	case FI_CLASS_WAIT:
		return try_set(bl_containerof(fid, struct bl_fi_waitset, fid.fid));
	default:
		return -FI_EINVAL;
	}
}

int bl_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	for (int i = 0; i < count; i++) {
		int ret = try_one(fids[i]);

		if (ret)
			return ret;
	}
	return 0;
}

/* --- wait sets -------------------------------------------------------------------------------- */

static int waitset_wait(struct fid_wait *fid, int timeout)
{
	struct bl_fi_waitset *set = bl_fi_waitset_of(fid);
	struct pollfd fd = {.fd = set->epoll, .events = POLLIN};
	uint64_t deadline = timeout < 0 ? 0 : bl_clock_ns() + (uint64_t)timeout * 1000000u;

	for (;;) {
		int left = -1, ret = try_set(set);

		if (ret == -FI_EAGAIN)
			return 0;
		if (ret)
			return ret;
		if (timeout >= 0) {
			int64_t ns = (int64_t)(deadline - bl_clock_ns());

			if (ns <= 0)
				return -FI_ETIMEDOUT;
			left = (int)((ns + 999999) / 1000000);
		}
		ret = poll(&fd, 1, left);
		if (ret > 0) /* perhaps not for a completion */
			return 0;
		if (ret < 0 && errno != EINTR)
			return -errno;
	}
}

static int waitset_close(struct fid *fid)
{
	struct bl_fi_waitset *set = bl_containerof(fid, struct bl_fi_waitset, fid.fid);

	if (set->members)
		return -FI_EBUSY;
	close(set->epoll);
	pthread_mutex_destroy(&set->lock);
	free(set);
	return 0;
}

static int waitset_control(struct fid *fid, int command, void *arg)
{
	struct bl_fi_waitset *set = bl_containerof(fid, struct bl_fi_waitset, fid.fid);

	return bl_fi_wait_get(set->wait, set->epoll, command, arg);
}

static struct fi_ops waitset_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = waitset_close,
	.bind = bl_fi_no_bind,
	.control = waitset_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

static struct fi_ops_wait waitset_ops = {
	.size = sizeof(struct fi_ops_wait),
	.wait = waitset_wait,
};

int bl_fi_wait_set_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out)
{
	enum fi_wait_obj wait = attr ? attr->wait_obj : FI_WAIT_UNSPEC;
	struct bl_fi_waitset *set;
	int ret;

	if (attr && attr->flags)
		return -FI_EBADFLAGS;
	if (wait == FI_WAIT_NONE || wait == FI_WAIT_SET)
		return -FI_EINVAL;
	ret = bl_fi_check_wait(wait, FI_LOG_FABRIC);
	if (ret)
		return ret;
	set = calloc(1, sizeof *set);
	if (!set)
		return -FI_ENOMEM;
	set->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (set->epoll < 0) {
		ret = -errno;
		free(set);
		return ret;
	}
	pthread_mutex_init(&set->lock, NULL);
	set->wait = wait;
	set->owner = getpid();
	set->fid.fid.fclass = FI_CLASS_WAIT;
	set->fid.fid.ops = &waitset_fid_ops;
	set->fid.ops = &waitset_ops;
	*out = &set->fid;
	return 0;
}

/* --- poll sets -------------------------------------------------------------------------------- */

/* Something is there; progress has been made. */
static bool has_events(struct fid *fid)
{
	struct bl_fi_cntr *cntr;
	struct bl_fi_cq *cq;
	bool has;

	if (fid->fclass == FI_CLASS_CQ) {
		cq = bl_containerof(fid, struct bl_fi_cq, fid.fid);
		bl_fi_enter(cq->domain);
		bl_cq_read(cq->core, NULL, 0, cq->entry, NULL);
		has = cq->core->head != cq->core->tail;
		bl_fi_leave(cq->domain);
		return has;
	}
	cntr = bl_containerof(fid, struct bl_fi_cntr, fid.fid);
	bl_fi_enter(cntr->domain);
	bl_cntr_read(cntr->core);
	has = bl_fi_count_changed(cntr, &cntr->polled);
	bl_fi_count_now(cntr, &cntr->polled);
	bl_fi_leave(cntr->domain);
	return has;
}

static int pollset_poll(struct fid_poll *fid, void **context, int count)
{
	struct pollset *set = bl_containerof(fid, struct pollset, fid);
	int n = 0;

	pthread_mutex_lock(&set->lock);
	for (struct member *m = set->members; m && n < count; m = m->next)
		if (has_events(m->fid))
			context[n++] = m->fid->context;
	pthread_mutex_unlock(&set->lock);
	return n;
}

static struct bl_fi_domain *domain_of(const struct fid *fid)
{
	return fid->fclass == FI_CLASS_CQ ? bl_containerof(fid, struct bl_fi_cq, fid.fid)->domain
					  : bl_containerof(fid, struct bl_fi_cntr, fid.fid)->domain;
}

/* One that is in a set isn't closed; by: 1 or -1. */
static void hold(const struct fid *fid, int by)
{
	uint32_t *users = fid->fclass == FI_CLASS_CQ
				  ? &bl_containerof(fid, struct bl_fi_cq, fid.fid)->core->users
				  : &bl_containerof(fid, struct bl_fi_cntr, fid.fid)->core->users;
	struct bl_fi_domain *domain = domain_of(fid);

	bl_fi_enter(domain);
	*users += (uint32_t)by;
	bl_fi_leave(domain);
}

static int pollset_add(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
	struct pollset *set = bl_containerof(fid, struct pollset, fid);
	int ret = 0;

	if (flags)
		return -FI_EBADFLAGS;
	if (event_fid->fclass != FI_CLASS_CQ && event_fid->fclass != FI_CLASS_CNTR)
		return -FI_EINVAL;
	if (domain_of(event_fid) != set->domain)
		return bl_fi_refuse(-FI_EDOMAIN, FI_LOG_DOMAIN,
				    "a poll set holds queues and counters of its own domain");
	pthread_mutex_lock(&set->lock);
	if (!list_has(set->members, event_fid)) {
		ret = list_add(&set->members, event_fid);
		if (!ret)
			hold(event_fid, 1);
	}
	pthread_mutex_unlock(&set->lock);
	return ret;
}

static int pollset_del(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
	struct pollset *set = bl_containerof(fid, struct pollset, fid);
	int ret;

	if (flags)
		return -FI_EBADFLAGS;
	pthread_mutex_lock(&set->lock);
	ret = list_remove(&set->members, event_fid);
	if (!ret)
		hold(event_fid, -1);
	pthread_mutex_unlock(&set->lock);
	return ret;
}

static int pollset_close(struct fid *fid)
{
	struct pollset *set = bl_containerof(fid, struct pollset, fid.fid);

	while (set->members) {
		hold(set->members->fid, -1);
		list_remove(&set->members, set->members->fid);
	}
	atomic_fetch_sub(&set->domain->poll_sets, 1);
	pthread_mutex_destroy(&set->lock);
	free(set);
	return 0;
}

static struct fi_ops pollset_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = pollset_close,
	.bind = bl_fi_no_bind,
	.control = bl_fi_no_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

static struct fi_ops_poll pollset_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = pollset_poll,
	.poll_add = pollset_add,
	.poll_del = pollset_del,
};

int bl_fi_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **out)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid);
	struct pollset *set;

	if (attr && attr->flags)
		return -FI_EBADFLAGS;
	set = calloc(1, sizeof *set);
	if (!set)
		return -FI_ENOMEM;
	pthread_mutex_init(&set->lock, NULL);
	set->domain = domain;
	set->fid.fid.fclass = FI_CLASS_POLL;
	set->fid.fid.ops = &pollset_fid_ops;
	set->fid.ops = &pollset_ops;
	atomic_fetch_add(&domain->poll_sets, 1); /* one more that keeps it from closing */
	*out = &set->fid;
	return 0;
}
