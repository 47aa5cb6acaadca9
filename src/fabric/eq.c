/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * eq.c: event queues. Every control operation here is synchronous and endpoints
 * have no connections, so no event ever arrives; applications open a queue
 * all the same. A queue has no state that changes: any thread may call.
 */
#include "fabric/fabric.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int bl_fi_check_wait(enum fi_wait_obj wait, enum fi_log_subsys subsys)
{
	switch (wait) {
	case FI_WAIT_NONE:
	case FI_WAIT_UNSPEC:
	case FI_WAIT_YIELD: /* what a waiting read does anyway */
		return 0;
	default:
		return bl_fi_refuse(-FI_ENOSYS, subsys,
				    "wait object %d: only NONE, UNSPEC and YIELD are offered",
				    wait);
	}
}

static ssize_t eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	return -FI_EAGAIN;
}

static ssize_t eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
	return -FI_EAGAIN;
}

static ssize_t eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	return -FI_ENOSYS;
}

static ssize_t eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	/* Nothing can come: sleep for as long as the caller would have waited. */
	if (poll(NULL, 0, timeout) < 0)
		return -errno;
	return -FI_EAGAIN;
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
	free(bl_containerof(fid, struct bl_fi_eq, fid.fid));
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct bl_fi_eq *eq = bl_containerof(fid, struct bl_fi_eq, fid.fid);

	if (command != FI_GETWAITOBJ)
		return -FI_ENOSYS;
	*(enum fi_wait_obj *)arg = eq->wait;
	return 0;
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
	struct bl_fi_eq *eq;
	int ret;

	if (attr) {
		if (attr->flags & FI_WRITE) /* events of the application's own */
			return -FI_ENOSYS;
		ret = bl_fi_check_wait(attr->wait_obj, FI_LOG_EQ);
		if (ret)
			return ret;
	}
	eq = calloc(1, sizeof *eq);
	if (!eq)
		return -FI_ENOMEM;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fid_ops;
	eq->fid.ops = &eq_ops;
	eq->wait = attr ? attr->wait_obj : FI_WAIT_NONE;
	*out = &eq->fid;
	return 0;
}
