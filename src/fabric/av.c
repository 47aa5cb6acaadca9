/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * av.c: address vectors. FI_AV_TABLE and FI_AV_MAP are the same thing here: an
 * fi_addr_t is the place of the address in the core's vector. Insertion is
 * synchronous and resolves nothing; a peer is looked for at its first message.
 */
#include "fabric/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bl_fi_av *av_of(struct fid_av *fid)
{
	return (struct bl_fi_av *)fid;
}

/* Addresses that aren't Beeline's get FI_ADDR_NOTAVAIL and are not counted; with
 * FI_SYNC_ERR, context is an array for the error of each. */
static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		     uint64_t flags, void *context)
{
	struct bl_fi_av *av = av_of(fid);
	int *errors = flags & FI_SYNC_ERR ? context : NULL;
	int inserted = 0;

	if (flags & ~(FI_MORE | FI_SYNC_ERR))
		return -FI_EBADFLAGS;
	if (count && !addr)
		return bl_fi_refuse(-FI_EINVAL, FI_LOG_AV, "%zu addresses at NULL", count);
	bl_fi_enter(av->domain);
	for (size_t i = 0; i < count; i++) {
		struct bl_addr one;
		uint64_t index;
		int ret;

		memcpy(&one, (const char *)addr + i * sizeof one, sizeof one);
		ret = bl_av_insert(av->core, &one, &index);
		if (ret) {
			index = FI_ADDR_NOTAVAIL;
			bl_fi_refuse(ret, FI_LOG_AV, "address %zu of %zu: %s", i, count,
				     strerror(-ret));
		} else {
			inserted++;
		}
		if (fi_addr)
			fi_addr[i] = index;
		if (errors)
			errors[i] = -ret;
	}
	bl_fi_leave(av->domain);
	return inserted;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct bl_addr addr;
	int ret;

	if (!node || !service)
		return -FI_EINVAL;
	ret = bl_fi_name(&addr, node, service);
	return ret ? ret : av_insert(fid, &addr, 1, fi_addr, flags, context);
}

static int no_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
			size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return -FI_ENOSYS;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct bl_fi_av *av = av_of(fid);
	int ret = 0;

	if (flags)
		return -FI_EBADFLAGS;
	bl_fi_enter(av->domain);
	for (size_t i = 0; i < count && !ret; i++)
		ret = bl_av_remove(av->core, fi_addr[i]);
	bl_fi_leave(av->domain);
	return ret;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *buf, size_t *len)
{
	struct bl_fi_av *av = av_of(fid);
	struct bl_addr addr;
	int ret;

	bl_fi_enter(av->domain);
	ret = bl_av_lookup(av->core, fi_addr, &addr);
	bl_fi_leave(av->domain);
	if (ret)
		return ret;
	memcpy(buf, &addr, bl_min(*len, sizeof addr));
	*len = sizeof addr;
	return 0;
}

/* beeline://host/pid/id: a form for people, from which the id tells two
 * endpoints of a process apart. */
static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	struct bl_addr one;
	char text[64 + BL_HOSTNAME_MAX], id[2 * sizeof one.id + 1];
	int length;

	memcpy(&one, addr, sizeof one);
	for (size_t i = 0; i < sizeof one.id; i++)
		snprintf(id + 2 * i, 3, "%02x", one.id[i]);
	length = snprintf(text, sizeof text, "beeline://%.*s/%u/%s", BL_HOSTNAME_MAX, one.hostname,
			  (unsigned)one.pid, id);
	if (buf && *len)
		snprintf(buf, *len, "%s", text);
	*len = (size_t)length + 1;
	return buf;
}

static int no_av_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **set,
		     void *context)
{
	return -FI_ENOSYS;
}

static int av_close(struct fid *fid)
{
	struct bl_fi_av *av = bl_containerof(fid, struct bl_fi_av, fid.fid);
	struct bl_fi_domain *domain = av->domain;
	int ret;

	bl_fi_enter(domain);
	ret = bl_av_close(av->core);
	bl_fi_leave(domain);
	if (!ret)
		free(av);
	return ret;
}

/* An event queue may be bound: insertion doesn't use it. */
static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return bfid->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = bl_fi_no_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = no_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = no_av_set,
};

int bl_fi_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out,
		  void *context)
{
	struct bl_fi_domain *domain = bl_containerof(fid, struct bl_fi_domain, fid);
	struct bl_fi_av *av;
	int ret;

	if (!attr || attr->rx_ctx_bits)
		return -FI_EINVAL;
	/* A name shares the vector between processes; FI_EVENT makes insertion
	 * asynchronous; neither is there. */
	if (attr->name || attr->flags & ~FI_SYMMETRIC)
		return bl_fi_refuse(-FI_ENOSYS, FI_LOG_AV, "address vector: name %s, flags %#llx",
				    attr->name ? attr->name : "none",
				    (unsigned long long)attr->flags);
	av = calloc(1, sizeof *av);
	if (!av)
		return -FI_ENOMEM;
	bl_fi_enter(domain);
	ret = bl_av_open(domain->core, &av->core);
	bl_fi_leave(domain);
	if (ret) {
		free(av);
		return ret;
	}
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &av_fid_ops;
	av->fid.ops = &av_ops;
	av->domain = domain;
	*out = &av->fid;
	return 0;
}
