/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * path_locked.c: the data path for every threading level that lets two threads
 * into one domain at once: each call holds the domain's lock. See path.h.
 */
#define NAME(op)  op##_locked
#define LOCK(x)	  bl_domain_lock((x)->core_domain)
#define UNLOCK(x) bl_domain_unlock((x)->core_domain)
#include "fabric/path.h"
