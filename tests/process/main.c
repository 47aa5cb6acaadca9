/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * main.c: multi-process tests of a libfabric provider, through libfabric's public
 * interface only. `-p shm` (or "tcp;ofi_rxm", sockets) runs the same cases over
 * another provider: that is how the cases themselves were checked.
 */
#include "cases.h"

int main(int argc, char **argv)
{
	const struct t_group groups[] = {
		group_info,	 group_open,	group_av,	group_name,	  group_match,
		group_size,	 group_cq,	group_flags,	group_iov,	  group_multi,
		group_peek,	 group_cancel,	group_trunc,	group_self,	  group_order,
		group_random,	 group_rma,	group_atomic,	group_shared,	  group_trigger,
		group_thread,	 group_blocked, group_wait,	group_queued,	  group_set,
		group_life,	 group_overlap, group_delegate, group_eager_long, group_shared_away,
		group_scattered, group_mourn,	group_copybuf,	group_counts,	  group_batch,
		group_kept,	 group_counted, group_onesided, group_stress,	  group_short_away,
		group_owned,
	};

	return t_main(argc, argv, groups, sizeof(groups) / sizeof(groups[0]));
}
