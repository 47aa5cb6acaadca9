/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * op_error.c: see op_error.h. No state; any thread.
 */
#include "core/op_error.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "transport/local/local.h"

static const char *remedy(int err)
{
	switch (err) {
	case EFAULT:
		return "look whether the buffer, here or there, is still mapped: it must stay "
		       "until "
		       "the operation is over";
	case EKEYREJECTED:
	case EACCES:
	case EINVAL:
		return "look whether the region (window) is still there, permits this and is as "
		       "long";
	case EPERM:
		return "`beeline doctor` says what the kernel refuses; FI_BEELINE_COPY=ring does "
		       "without it";
	case ENOMEM:
		return bl_remedy(err);
	}
	return "FI_BEELINE_COPY=ring takes another way; FI_BEELINE_LOG=debug says more";
}

/* The same error again, with the same neighbour, mostly follows from the first. */
static bool is_news(const struct bl_peer *peer, int err)
{
	static _Atomic uint64_t last;
	uint64_t now = (uint64_t)peer->addr.pid << 32 | (uint32_t)err;

	return atomic_exchange_explicit(&last, now, memory_order_relaxed) != now;
}

bl_cold void bl_tell_error(const struct bl_peer *peer, const char *what, size_t len,
			   const char *way, int err)
{
	if (err == ECANCELED || bl_peer_life(peer))
		return;
	bl_log(is_news(peer, err) ? BL_LOG_WARN : BL_LOG_INFO,
	       "%s %zu bytes, process %u on %s, failed (%s): %s; %s", what, len, peer->addr.pid,
	       peer->addr.hostname, way, strerror(err), remedy(err));
}
