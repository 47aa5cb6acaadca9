/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * eq.c: event queues. Every control operation here is synchronous and endpoints
 * have no connections, so the only events are those that the application writes
 * itself. A queue belongs to a fabric, not to a domain: it has a lock of its own,
 * and any thread may call. Its eventfd is readable while it holds something.
 */
#include "fabric/fabric.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

struct event {
	struct event *next;
	uint32_t event;
	size_t len;
	uint8_t bytes[];
};

struct bl_fi_eq {
	struct fid_eq fid;
	enum fi_wait_obj wait;
	struct bl_fi_waitset *waitset; /* NULL: in none */
	bool writable;
	int readable; /* eventfd */
	pthread_mutex_t lock;
	struct event *head, **tail;
};

static_assert(!offsetof(struct bl_fi_eq, fid), "first");

static struct bl_fi_eq *eq_of(struct fid_eq *fid)
{
	return (struct bl_fi_eq *)fid;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct bl_fi_eq *eq = eq_of(fid);
	ssize_t ret = -FI_EAGAIN;
	struct event *e;
	uint64_t count;

	if (flags & ~FI_PEEK)
		return -FI_EBADFLAGS;
	pthread_mutex_lock(&eq->lock);
	e = eq->head;
	if (e && len < e->len) {
		ret = -FI_ETOOSMALL;
	} else if (e) {
		*event = e->event;
		memcpy(buf, e->bytes, e->len);
		ret = (ssize_t)e->len;
		if (!(flags & FI_PEEK)) {
			eq->head = e->next;
			if (!eq->head)
				eq->tail = &eq->head;
			if (!eq->head && read(eq->readable, &count, sizeof count) < 0)
				count = 0; /* can't be: it was readable */
			free(e);
		}
	}
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

/* Nothing here fails later than it was asked for. */
static ssize_t eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
	return -FI_EAGAIN;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	struct bl_fi_eq *eq = eq_of(fid);
	uint64_t one = 1;
	struct event *e;

	if (!eq->writable)
		return -FI_EINVAL;
	if (flags)
		return -FI_EBADFLAGS;
	e = malloc(sizeof *e + len);
	if (!e)
		return -FI_ENOMEM;
	e->next = NULL;
	e->event = event;
	e->len = len;
	memcpy(e->bytes, buf, len);
	pthread_mutex_lock(&eq->lock);
	*eq->tail = e;
	eq->tail = &e->next;
	if (write(eq->readable, &one, sizeof one) < 0)
		one = 0; /* full of ones: it is readable */
	pthread_mutex_unlock(&eq->lock);
	return (ssize_t)len;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	struct pollfd fd = {.fd = eq_of(fid)->readable, .events = POLLIN};
	uint64_t deadline = timeout < 0 ? 0 : bl_clock_ns() + (uint64_t)timeout * 1000000u;

	for (;;) {
		ssize_t ret = eq_read(fid, event, buf, len, flags);
		int left = -1;

		if (ret != -FI_EAGAIN)
			return ret;
		if (timeout >= 0) {
			int64_t ns = (int64_t)(deadline - bl_clock_ns());

			if (ns <= 0)
				return -FI_EAGAIN;
			left = (int)((ns + 999999) / 1000000);
		}
		if (poll(&fd, 1, left) < 0 && errno != EINTR)
			return -errno;
	}
}

static const char *eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	const char *text = strerror(prov_errno);

	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

static int eq_close(struct fid *fid)
{
	struct bl_fi_eq *eq = bl_containerof(fid, struct bl_fi_eq, fid.fid);

	bl_fi_waitset_remove(eq->waitset, fid, eq->readable);
	for (struct event *e = eq->head, *next; e; e = next) {
		next = e->next;
		free(e);
	}
	close(eq->readable);
	pthread_mutex_destroy(&eq->lock);
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct bl_fi_eq *eq = bl_containerof(fid, struct bl_fi_eq, fid.fid);

	return bl_fi_wait_get(eq->wait, eq->readable, command, arg);
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = bl_fi_no_bind,
	.control = eq_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int bl_fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out,
		  void *context)
{
	enum fi_wait_obj wait = attr ? attr->wait_obj : FI_WAIT_NONE;
	struct bl_fi_eq *eq;
	int ret;

	ret = bl_fi_check_wait(wait, FI_LOG_EQ);
	if (ret)
		return ret;
	if (attr && attr->flags & ~(FI_WRITE | FI_AFFINITY))
		return -FI_EBADFLAGS;
	if (wait == FI_WAIT_SET && !attr->wait_set)
		return -FI_EINVAL;
	eq = calloc(1, sizeof *eq);
	if (!eq)
		return -FI_ENOMEM;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	eq->fid.ops = &eq_ops;
	eq->tail = &eq->head;
	eq->wait = wait;
	eq->writable = attr && attr->flags & FI_WRITE;
	eq->readable = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (eq->readable < 0) {
		ret = -errno;
		goto free_eq;
	}
	pthread_mutex_init(&eq->lock, NULL);
	if (wait == FI_WAIT_SET) {
		eq->waitset = bl_fi_waitset_of(attr->wait_set);
		ret = bl_fi_waitset_add(eq->waitset, &eq->fid.fid, eq->readable);
		if (ret)
			goto close_fd;
	}
	*out = &eq->fid;
	return 0;

close_fd:
	pthread_mutex_destroy(&eq->lock);
	close(eq->readable);
free_eq:
	free(eq);
	return ret;
}
