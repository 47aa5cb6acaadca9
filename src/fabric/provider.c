/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * provider.c: the one entry point of libbeeline-fi.so, the provider object that
 * it returns, the fabric object, and what is found in the calling libfabric.
 *
 * The libfabric that loads this file may be linked into an MPI library, loaded
 * privately by one, or be the second of two in the process. Its functions are
 * therefore not linked to (an undefined symbol, or a DT_NEEDED libfabric, could
 * find the wrong one or none), but looked up in the very library that calls
 * fi_prov_ini. Without them everything works; messages then go to stderr.
 *
 * fi_prov_ini runs once, under libfabric's own lock, before any other call.
 */
#include "fabric/fabric.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/knobs.h"

/* --- fabric ------------------------------------------------------------------ */

static int fabric_close(struct fid *fid)
{
	struct bl_fi_fabric *fabric = bl_containerof(fid, struct bl_fi_fabric, fid.fid);

	if (atomic_load(&fabric->domains))
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

static int no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			 void *context)
{
	return -FI_ENOSYS;
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		   uint64_t flags, void *context)
{
	if (flags)
		return -FI_EBADFLAGS;
	return bl_fi_domain_open(fabric, info, domain, context);
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = bl_fi_no_bind,
	.control = bl_fi_no_control,
	.ops_open = bl_fi_no_ops_open,
	.tostr = bl_fi_no_tostr,
	.ops_set = bl_fi_no_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = bl_fi_domain_open,
	.passive_ep = no_passive_ep,
	.eq_open = bl_fi_eq_open,
	.wait_open = bl_fi_wait_set_open,
	.trywait = bl_fi_trywait,
	.domain2 = domain2,
};

int bl_fi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct bl_fi_fabric *fabric;

	if (attr->name && strcmp(attr->name, BL_FI_FABRIC))
		return -FI_ENODATA;
	fabric = calloc(1, sizeof *fabric);
	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &fabric_fid_ops;
	fabric->fid.ops = &fabric_ops;
	fabric->fid.api_version = attr->api_version;
	*out = &fabric->fid;
	return 0;
}

/* --- provider ---------------------------------------------------------------- */

static void cleanup(void)
{
	/* libfabric is about to unload itself. */
	bl_fi_log_close();
}

static struct fi_provider provider = {
	.version = BL_FI_VERSION,
	/* The newest API that this provider can answer, not that of the headers it
	 * was built with: MPICH asks for 2.5 and skips providers below it. Nothing
	 * newer than the headers is used, see info.c on the size of structures. */
	.fi_version = FI_VERSION(2, 5),
	.name = BL_FI_PROVIDER,
	.getinfo = bl_fi_getinfo,
	.fabric = bl_fi_fabric_open,
	.cleanup = cleanup,
};

/* So that `fi_info -e` lists the knobs. Their values are read by base/knobs.c. */
static void define_knobs(__typeof__(&fi_param_define) define)
{
	for (size_t i = 0; i < bl_knob_count; i++) {
		const struct bl_knob_info *knob = &bl_knob_table[i];

		define(&provider, knob->name, FI_PARAM_STRING, "%s%s%s", knob->help,
		       knob->choices ? " One of " : "", knob->choices ? knob->choices : "");
	}
}

struct fi_provider *fi_prov_ini(void);

FI_EXT_INI
{
	__typeof__(&fi_param_define) define;
	Dl_info caller;
	void *core = NULL;

	if (dladdr(__builtin_return_address(0), &caller) && caller.dli_fname)
		core = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	/* The main program's own name isn't a library: a statically linked core. */
	if (!core)
		core = dlopen(NULL, RTLD_LAZY);
	if (core) {
		bl_fi_log_open(&provider,
			       (__typeof__(&fi_log_enabled))dlsym(core, "fi_log_enabled"),
			       (__typeof__(&fi_log))dlsym(core, "fi_log"));
		define = (__typeof__(define))dlsym(core, "fi_param_define");
		if (define)
			define_knobs(define);
		/* Still mapped: we are running on its behalf. */
		dlclose(core);
	}
	return &provider;
}
