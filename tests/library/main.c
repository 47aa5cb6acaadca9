/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* main.c: multi-process tests of libbeeline through its public header only. */
#include "common.h"

int main(int argc, char **argv)
{
	const struct t_group groups[] = {
		group_basic,  group_match, group_flow,	  group_probe,
		group_thread, group_death, group_connect,
	};

	return t_main(argc, argv, groups, sizeof groups / sizeof groups[0]);
}
