/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * cntr.c: counters of completed operations. The count and the progress made by
 * reading it are the core's; here are libfabric's calls and the wait.
 */
#include "fabric/fabric.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"

static struct bl_fi_cntr *cntr_of(struct fid_cntr *fid)
{
	return (struct bl_fi_cntr *)fid;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct bl_fi_cntr *cntr = cntr_of(fid);
	uint64_t value;

	bl_fi_enter(cntr->domain);
	value = bl_cntr_read(cntr->core);
	bl_fi_count_now(cntr, &cntr->read);
	bl_fi_leave(cntr->domain);
	return value;
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct bl_fi_cntr *cntr = cntr_of(fid);
	uint64_t value;

	bl_fi_enter(cntr->domain);
	value = bl_cntr_readerr(cntr->core);
	bl_fi_leave(cntr->domain);
	return value;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	struct bl_fi_cntr *cntr = cntr_of(fid);

	bl_fi_enter(cntr->domain);
	bl_cntr_add(cntr->core, value);
	cntr->polled.value += value;
	cntr->polled.by_hand++;
	bl_fi_leave(cntr->domain);
	return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	struct bl_fi_cntr *cntr = cntr_of(fid);

	bl_fi_enter(cntr->domain);
	bl_cntr_set(cntr->core, value);
	cntr->polled.value = value;
	cntr->polled.by_hand++;
	bl_fi_leave(cntr->domain);
	return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	struct bl_fi_cntr *cntr = cntr_of(fid);

	bl_fi_enter(cntr->domain);
	bl_cntr_adderr(cntr->core, value);
	cntr->polled.errors += value;
	cntr->polled.by_hand++;
	bl_fi_leave(cntr->domain);
	return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	struct bl_fi_cntr *cntr = cntr_of(fid);

	bl_fi_enter(cntr->domain);
	bl_cntr_seterr(cntr->core, value);
	cntr->polled.errors = value;
	cntr->polled.by_hand++;
	bl_fi_leave(cntr->domain);
	return 0;
}

/* Sleep until something may have been counted. The lock is not held meanwhile. */
static void cntr_sleep(struct bl_fi_cntr *cntr, uint64_t threshold, uint64_t failed, uint64_t most)
{
	struct bl_waiter *w = &cntr->core->wait;
	struct bl_sleep sleep;
	bool asleep, counted;

	bl_fi_enter(cntr->domain);
	asleep = bl_wait_doze(w, &sleep);
	counted = cntr->core->value >= threshold || cntr->core->errors != failed;
	bl_fi_leave(cntr->domain);
	if (!asleep) {
		if (sleep.others) /* let it rise */
			sched_yield();
		return;
	}
	if (!counted)
		bl_wait_sleep(&sleep, most);
	bl_fi_enter(cntr->domain);
	bl_wait_rise(w, &sleep);
	bl_fi_leave(cntr->domain);
}

static uint64_t errors_so_far(struct bl_fi_cntr *cntr)
{
	uint64_t errors;

	bl_fi_enter(cntr->domain);
	errors = cntr->core->errors;
	bl_fi_leave(cntr->domain);
	return errors;
}

/* Poll for a while, then sleep until the count reaches the threshold. An operation
 * that fails meanwhile ends the wait: the count might never get there. Meanwhile is from here
 * on, so that no progress is made before the errors are noted. */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct bl_fi_cntr *cntr = cntr_of(fid);
	uint64_t failed = errors_so_far(cntr), start = bl_clock_ns(), now = start;
	uint64_t deadline = timeout < 0 ? UINT64_MAX : start + (uint64_t)timeout * 1000000u;

	for (;; now = bl_clock_ns()) {
		if (cntr_read(fid) >= threshold)
			return 0;
		if (cntr_readerr(fid) != failed)
			return -FI_EAVAIL;
		if (now >= deadline)
			return -FI_ETIMEDOUT;
		if (now - start >= bl_wait_spin_ns())
			cntr_sleep(cntr, threshold, failed, deadline - now);
	}
}

static int cntr_close(struct fid *fid)
{
	struct bl_fi_cntr *cntr = bl_containerof(fid, struct bl_fi_cntr, fid.fid);
	struct bl_fi_domain *domain = cntr->domain;
	int ret;

	if (cntr->core->users)
		return -FI_EBUSY;
	bl_fi_waitset_remove(cntr->waitset, fid, cntr->core->wait.epoll);
	bl_fi_enter(domain);
	ret = bl_cntr_close(cntr->core);
	bl_fi_leave(domain);
	if (!ret)
		free(cntr);
	return ret;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	struct bl_fi_cntr *cntr = bl_containerof(fid, struct bl_fi_cntr, fid.fid);

	return bl_fi_wait_control(&cntr->core->wait, cntr->wait, command, arg);
}

static struct fi_ops cntr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.bind = bl_fi_no_bind,
	.control = cntr_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

int bl_fi_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **out,
		    void *context)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid);
	enum fi_wait_obj wait = attr ? attr->wait_obj : FI_WAIT_NONE;
	struct bl_fi_cntr *cntr;
	int ret;

	if (attr && attr->events != FI_CNTR_EVENTS_COMP)
		return -FI_ENOSYS;
	if (attr && attr->flags)
		return -FI_EBADFLAGS;
	ret = bl_fi_check_wait(wait, FI_LOG_CNTR);
	if (ret)
		return ret;
	cntr = calloc(1, sizeof *cntr);
	if (!cntr)
		return -FI_ENOMEM;
	cntr->fid.fid.fclass = FI_CLASS_CNTR;
	cntr->fid.fid.context = context;
	cntr->fid.fid.ops = &cntr_fid_ops;
	cntr->fid.ops = &cntr_ops;
	cntr->domain = domain;
	cntr->wait = wait;
	bl_fi_enter(domain);
	ret = bl_cntr_open(domain->core, &cntr->core);
	bl_fi_leave(domain);
	if (ret) {
		free(cntr);
		return ret;
	}
	ret = bl_fi_wait_open(&cntr->core->wait, wait, attr ? attr->wait_set : NULL, &cntr->fid.fid,
			      &cntr->waitset);
	if (ret) {
		cntr_close(&cntr->fid.fid);
		return ret;
	}
	*out = &cntr->fid;
	return 0;
}
