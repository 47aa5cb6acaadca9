/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * path_plain.c: the data path for FI_THREAD_DOMAIN: the application serialises
 * all calls on a domain, so nothing locks. See path.h.
 */
#define NAME(op)  op##_plain
#define LOCK(x)	  ((void)(x))
#define UNLOCK(x) ((void)(x))
#include "fabric/path.h"
